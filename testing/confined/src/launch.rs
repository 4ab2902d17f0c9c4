//! Running something confined with a policy that a test can change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, thread};

use sandbox::visible;
use sandbox::{Command, End, Error, Identity, Level, Limits, Network, Policy, Report, Root, Sandbox, SetUp, Streams};

/// This executable, as the set-up process.
pub fn set_up(helper: &Path) -> SetUp {
    SetUp { program: helper.to_owned(), args: vec!["set-up".into()] }
}

/// Copies the helper to where every user can reach it. By another process, because a descriptor of
/// this one that is open for writing may be inherited by what another test starts at this moment,
/// and the copy could then not be executed.
pub fn copy_helper(from: &str, to: &Path) {
    fs::create_dir_all(to.parent().expect("an absolute path")).expect("make");
    assert!(std::process::Command::new("cp").arg(from).arg(to).status().expect("run cp").success());
}

/// A policy with the system readable, one writable directory and the helper's own directory.
pub fn policy(helper: &Path, work: &Path) -> Policy {
    let path = env::var("PATH").unwrap_or_default();
    let home = env::var("HOME").map_or_else(|_| "/home/nobody".into(), std::path::PathBuf::from);
    let mut read = visible::existing(visible::visible(&path, &home));
    read.push(Root::new(helper.parent().expect("an absolute path"), "the helper"));
    let mut variables = BTreeMap::from([
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), home.display().to_string()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
    ]);
    if let Ok(toolchain) = env::var("RUSTUP_TOOLCHAIN") {
        variables.insert("RUSTUP_TOOLCHAIN".to_owned(), toolchain);
    }
    Policy {
        hidden: visible::secrets(&read, &home),
        read,
        write: vec![Root::new(work, "the workspace")],
        placed: Vec::new(),
        empty: Vec::new(),
        overlays: Vec::new(),
        protected: Vec::new(),
        opened: Vec::new(),
        env: variables,
        cwd: work.to_owned(),
        home,
        network: Network::Deny,
        door: None,
        heard: None,
        startable: None,
        limits: Limits {
            pids: 400,
            memory_bytes: 2 << 30,
            cpu_seconds: 120,
            file_bytes: 1 << 30,
            disk_bytes: 128 << 20,
            open_files: 4096,
        },
        hostname: "norma".to_owned(),
        identity: Identity::own(),
        landlock_abi_min: 0,
        control_group: true,
        level: Level::A,
    }
}

/// A level by its name.
pub fn level(name: &str) -> Level {
    Level::ALL.into_iter().find(|level| level.to_string() == name).expect("a level")
}

/// Asks for a level: drops what it cannot give, and gives what is to be written to whom the program is.
pub fn at_level(policy: &mut Policy, level: Level) {
    policy.level = level;
    if level == Level::C {
        policy.hidden.clear();
        policy.protected.clear();
    }
    let Identity { uid, gid } = sandbox::UNPRIVILEGED;
    if rustix::process::geteuid().is_root() && matches!(level, Level::B | Level::C) {
        for root in &policy.write {
            let status =
                std::process::Command::new("chown").arg("-R").arg(format!("{uid}:{gid}")).arg(&root.path).status();
            assert!(status.expect("run chown").success());
        }
    }
}

/// What a confined program said and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its end.
    pub report: Report,
}

/// Runs a program to its end.
pub fn run(policy: &Policy, helper: &Path, program: &str, args: &[&str]) -> Result<Ran, Error> {
    let failed = |error| Error::SetUp { program: helper.to_owned(), error };
    let (stdout, stdout_theirs) = io::pipe().map_err(failed)?;
    let (stderr, stderr_theirs) = io::pipe().map_err(failed)?;
    let stdin = OwnedFd::from(File::open("/dev/null").map_err(failed)?);
    let streams = Streams { stdin, stdout: stdout_theirs.into(), stderr: stderr_theirs.into() };
    let confined = Sandbox::new(set_up(helper)).prepare(policy, &command(program, args), &streams)?.start()?;
    drop(streams);
    let read = |mut pipe: io::PipeReader| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let (stdout, stderr) = (read(stdout), read(stderr));
    let report = confined.finish()?;
    Ok(Ran { stdout: stdout.join().expect("read"), stderr: stderr.join().expect("read"), report })
}

/// A command in one line.
pub fn command(program: &str, args: &[&str]) -> Command {
    Command { program: program.to_owned(), args: args.iter().map(|&it| it.to_owned()).collect() }
}

/// The helper as a launcher: reads a policy, runs the program with its own streams, and ends as it
/// ended. So a test can run a launcher as another user, or kill it.
pub fn from_words(policy: &str, program: &str, args: &[&str]) -> ExitCode {
    let policy: Policy = serde_json::from_slice(&fs::read(policy).expect("read")).expect("a policy");
    let helper = env::current_exe().expect("own path");
    let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().expect("duplicate");
    let streams = Streams { stdin: own(&io::stdin()), stdout: own(&io::stdout()), stderr: own(&io::stderr()) };
    let sandbox = Sandbox::new(set_up(&helper));
    let prepared = match sandbox.prepare(&policy, &command(program, args), &streams) {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(125);
        }
    };
    match prepared.start().and_then(|it| it.finish()) {
        Ok(Report { end: End::Exited(code), .. }) => ExitCode::from(code as u8),
        Ok(report) => {
            eprintln!("{report:?}");
            ExitCode::from(126)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(127)
        }
    }
}

/// Prints what this machine can do, as the one who asks.
pub fn probe() {
    let helper = env::current_exe().expect("own path");
    let probe = sandbox::probe(&Sandbox::new(set_up(&helper)));
    println!("{}", serde_json::to_string(probe).expect("plain data"));
}

/// Prints whether overlays can be had at the level there is.
pub fn overlays() {
    let helper = env::current_exe().expect("own path");
    println!("{}", sandbox::has_overlays(&Sandbox::new(set_up(&helper))));
}
