//! `norma sandbox`: the sandbox by hand: run a program in it, or see what it would let through.

mod job;

pub(super) use job::cancel;

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::safe;
use clap::Subcommand;
use runner::LEVEL_MIN;
use sandbox::{
    Command, End, HostPort, Identity, Level, Limits, Network, Policy, Report, Root, Sandbox, Streams, visible,
};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Enough for a build, little enough that the machine stays usable.
const LIMITS: Limits = Limits {
    pids: 4096,
    memory_bytes: 8 << 30,
    cpu_seconds: 4 * 3600,
    file_bytes: 8 << 30,
    disk_bytes: 1 << 30,
    open_files: 65_536,
};

/// Run a program in the sandbox, or see what the sandbox lets through
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma sandbox run -- ls ~\n  norma sandbox run --write . --net example.org:443 -- make test\n  norma sandbox run --workspace --allow src -- cargo test\n  norma sandbox job job.json --backend e2b\n  norma sandbox explain --write ."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a program: it sees the tools on your PATH and this directory, read-only, an empty home, no network
    Run {
        #[command(flatten)]
        grants: Grants,
        /// Run it in a private workspace at HEAD, like an agent; list what it changed and what of that would be refused,
        /// then discard it
        #[arg(long, conflicts_with = "write")]
        workspace: bool,
        /// With --workspace: a file or directory it may change; everything if none is named (can be repeated)
        #[arg(long, value_name = "PATH", requires = "workspace")]
        allow: Vec<String>,
        /// The program and its arguments
        #[arg(last = true, required = true, value_name = "ARGV")]
        argv: Vec<String>,
    },
    /// Run a SandboxJob on a backend, and print its SandboxResult
    Job(job::Args),
    /// Print what a program would see, change, reach and use up, each line with its reason
    Explain {
        #[command(flatten)]
        grants: Grants,
    },
}

#[derive(clap::Args)]
struct Grants {
    /// A destination it may reach, through norma's proxy (can be repeated)
    #[arg(long, value_name = "HOST:PORT")]
    net: Vec<String>,
    /// A directory it may change; .git in it stays as it is (can be repeated)
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Run { grants, workspace: true, allow, argv } => super::trial::run(here, &grants.net, &allow, &argv),
            Verb::Run { grants, argv, .. } => run(here, policy(here, &grants)?, &argv),
            Verb::Job(args) => args.run(here),
            Verb::Explain { grants } => explain(here, &policy(here, &grants)?),
        }
    }
}

fn run(here: &Surroundings, mut policy: Policy, argv: &[String]) -> Outcome<ExitCode> {
    let streams = own_streams()?;
    let command = Command { program: argv[0].clone(), args: argv[1..].to_vec() };
    let sandbox = here.sandbox();
    let refused = |error: sandbox::Error| match error {
        sandbox::Error::NotStarted(why) => CommandError::usage(why, "a program is looked for on your PATH"),
        error => CommandError::new(code::ENVIRONMENT, error.to_string(), "nothing was run; details: norma doctor"),
    };
    policy.level = level(&sandbox)?;
    let report = sandbox.prepare(&policy, &command, &streams).and_then(|it| it.start()?.finish()).map_err(refused)?;
    tell(&report);
    Ok(ended(&report))
}

/// The program's own exit code, as a shell would say it.
pub(super) fn ended(report: &Report) -> ExitCode {
    match report.end {
        End::Exited(code) => ExitCode::from(code.clamp(0, 255) as u8),
        End::Signaled(signal) => ExitCode::from(signal.saturating_add(128).clamp(0, 255) as u8),
        End::Killed => ExitCode::from(code::FAILED),
    }
}

/// The streams norma itself has.
pub(super) fn own_streams() -> Outcome<Streams> {
    let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned();
    let streams = || -> std::io::Result<Streams> {
        Ok(Streams {
            stdin: own(&std::io::stdin())?,
            stdout: own(&std::io::stdout())?,
            stderr: own(&std::io::stderr())?,
        })
    };
    streams()
        .map_err(|e| CommandError::new(code::ENVIRONMENT, format!("could not pass on the streams: {e}"), "try again"))
}

/// The level this machine gives. One without namespaces is not enough: the policy hides things.
fn level(sandbox: &Sandbox) -> Outcome<Level> {
    let probe = sandbox::probe(sandbox);
    probe.at_least(LEVEL_MIN).ok_or_else(|| {
        let why = probe.missing.first().map_or_else(String::new, |missing| format!(": {}", missing.what));
        let message = format!("this machine has no sandbox of level {LEVEL_MIN} or better{why}");
        CommandError::new(code::ENVIRONMENT, message, "nothing was run; details: norma doctor")
    })
}

/// What the program itself could not say, on stderr, after its own words.
pub(super) fn tell(report: &Report) {
    if let Some(failure) = report.failure() {
        crate::text::err(&format!("norma: {failure}"));
    }
    for attempt in report.network.iter().filter(|attempt| !attempt.verdict.is_allowed()) {
        let place = format!("{}:{}", attempt.host, attempt.port);
        crate::text::err(&format!("norma: refused {}; to allow it: --net {}", safe(&place), safe(&place)));
    }
}

fn explain(here: &Surroundings, policy: &Policy) -> Outcome<ExitCode> {
    let lines = visible::explain(policy);
    let rows: Vec<_> = lines
        .iter()
        .map(|line| serde_json::json!({"what": line.what, "subject": line.subject, "reason": line.reason}))
        .collect();
    Ok(here.print(&rows, || {
        let shown = lines.iter().map(|line| format!("{:<9} {}  ({})", line.what, safe(&line.subject), line.reason));
        shown.collect::<Vec<_>>().join("\n")
    }))
}

fn policy(here: &Surroundings, grants: &Grants) -> Outcome<Policy> {
    let home = PathBuf::from(here.git.home.clone().unwrap_or_else(|| "/nonexistent".into()));
    let path = here.agent_path().to_string_lossy().into_owned();
    let write = writable(here, grants, &home)?;
    let mut read = visible::existing(visible::visible(&path, &home));
    let is_below = |path: &Path, roots: &[Root]| roots.iter().any(|root| path.starts_with(&root.path));
    if !is_below(&here.cwd, &write) && !is_below(&here.cwd, &read) {
        refuse_home(&here.cwd, &home)?;
        read.push(Root::new(&here.cwd, "the directory you are in"));
    }
    let roots: Vec<Root> = read.iter().chain(&write).cloned().collect();
    let mut hidden = visible::secrets(&roots, &home);
    for root in write.iter().chain(read.last().filter(|root| root.path == here.cwd)) {
        let found = visible::find_secrets(&root.path).map_err(|e| {
            CommandError::new(
                code::ENVIRONMENT,
                e.to_string(),
                "only directories that can be searched for secrets are shown to the program",
            )
        })?;
        hidden.extend(found);
        hidden.extend(existing(root.path.join(".norma"), "norma's own state"));
    }
    Ok(Policy {
        protected: write
            .iter()
            .filter_map(|root| existing(root.path.join(".git"), "history is not for agents"))
            .collect(),
        opened: Vec::new(),
        hidden: outermost(hidden),
        read,
        write,
        placed: Vec::new(),
        empty: Vec::new(),
        overlays: Vec::new(),
        env: BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), home.to_string_lossy().into_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ]),
        cwd: here.cwd.clone(),
        home,
        network: network(grants)?,
        door: None,
        heard: None,
        startable: None,
        limits: LIMITS,
        hostname: "norma".to_owned(),
        identity: Identity::own(),
        landlock_abi_min: 0,
        control_group: true,
        level: Level::A,
    })
}

/// Without what lies in something that is hidden itself: nothing is left there to cover.
fn outermost(mut hidden: Vec<Root>) -> Vec<Root> {
    hidden.sort();
    let mut outer: Vec<Root> = Vec::new();
    for root in hidden {
        if !outer.iter().any(|other| root.path.starts_with(&other.path)) {
            outer.push(root);
        }
    }
    outer
}

fn existing(path: PathBuf, reason: &str) -> Option<Root> {
    path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()).then(|| Root::new(path, reason))
}

fn writable(here: &Surroundings, grants: &Grants, home: &Path) -> Outcome<Vec<Root>> {
    let mut roots = Vec::new();
    for dir in &grants.write {
        let place = here.cwd.join(dir).canonicalize().ok().filter(|dir| dir.is_dir());
        let place = place.ok_or_else(|| {
            CommandError::usage(format!("{:?} is not a directory", dir.display()), "name one that exists with --write")
        })?;
        refuse_home(&place, home)?;
        roots.push(Root::new(place, "you allowed it with --write"));
    }
    Ok(roots)
}

fn refuse_home(dir: &Path, home: &Path) -> Outcome<()> {
    if home.starts_with(dir) {
        let message = format!("{} holds your home directory, which a confined program never sees", dir.display());
        return Err(CommandError::usage(message, "cd to a project directory"));
    }
    Ok(())
}

fn network(grants: &Grants) -> Outcome<Network> {
    let mut allowed = Vec::new();
    for text in &grants.net {
        let bad = || CommandError::usage(format!("{text:?} is not a destination"), "for example --net example.org:443");
        allowed.push(HostPort::parse(text).ok_or_else(bad)?);
    }
    Ok(if allowed.is_empty() { Network::Deny } else { Network::Allow(allowed) })
}
