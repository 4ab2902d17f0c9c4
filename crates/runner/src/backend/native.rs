//! The kernel's own means: the command sees the programs on the PATH, its files, an empty home and no network.

use super::{Done, Left, Means, Trouble, Work, tree};
use crate::context::confinement::level;
use crate::context::scratch::Scratch;
use crate::process::{Cancel, Said, confined};
use sandbox::{Identity, Limits, Network, Placed, Policy, Root, visible};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where the command finds its files.
const ROOT: &str = super::microsandbox::ROOT;

/// Where it finds an empty home.
const HOME: &str = "/home/norma";

/// Enough for a build, little enough that the machine stays usable.
const LIMITS: Limits = Limits {
    pids: 4096,
    memory_bytes: 8 << 30,
    cpu_seconds: 4 * 3600,
    file_bytes: 8 << 30,
    disk_bytes: 1 << 30,
    open_files: 65_536,
};

pub(super) fn run(work: &Work<'_>, means: &Means<'_>, cancel: &Cancel) -> Result<Done, Trouble> {
    let began = Instant::now();
    let failed = |error: &dyn std::fmt::Display| Trouble::Broken(format!("could not make its files: {error}"));
    let scratch = Scratch::new("job").map_err(|error| failed(&error))?;
    let level = level(means.sandbox)
        .map_err(|error| Trouble::unavailable(error.to_string(), "what is missing: norma doctor"))?;
    std::fs::create_dir_all(scratch.0.join(work.cwd)).map_err(|error| failed(&error))?;
    tree::write(&scratch.0, work.files).map_err(|error| failed(&error))?;
    sandbox::give_directory(&scratch.0, level).map_err(|error| failed(&error))?;
    let policy = policy(work, means, &scratch.0, level)?;
    let command = sandbox::Command { program: work.argv[0].clone(), args: work.argv[1..].to_vec() };
    let unconfined = |error: sandbox::Error| match error {
        sandbox::Error::NotStarted(why) => Trouble::Broken(why),
        error => Trouble::unavailable(error.to_string(), "what is missing: norma doctor"),
    };
    let ready = match confined::get_ready(means.sandbox, &policy, &command) {
        Err(sandbox::Error::NotStarted(why)) => return Ok(not_started(why, began)),
        ready => ready.map_err(unconfined)?,
    };
    let boot = began.elapsed();
    let finished = ready.go(Said::Bytes(work.stdin), work.limits.clone(), cancel).map_err(unconfined)?;
    let (after, left_out) = tree::read(&scratch.0, &|_| true).map_err(Trouble::Broken)?;
    let record = json!({ "backend": "native", "effective": finished.effective, "report": finished.report });
    let outcome = finished.outcome;
    Ok(Done {
        end: outcome.end,
        stdout: outcome.stdout,
        stderr: outcome.stderr,
        left: Left::between(work.files, after, left_out),
        boot,
        elapsed: outcome.elapsed,
        record,
    })
}

fn not_started(why: String, began: Instant) -> Done {
    Done {
        end: crate::process::End::NotStarted(why),
        stdout: Default::default(),
        stderr: Default::default(),
        left: Left::default(),
        boot: began.elapsed(),
        elapsed: began.elapsed(),
        record: json!({ "backend": "native" }),
    }
}

fn policy(work: &Work<'_>, means: &Means<'_>, files: &Path, level: sandbox::Level) -> Result<Policy, Trouble> {
    let text = |name: &str| means.env.get(OsStr::new(name)).and_then(|value| value.to_str()).unwrap_or_default();
    let (path, user_home) = (text("PATH"), Path::new(text("HOME")));
    let read = visible::existing(visible::visible(path, user_home));
    let hidden = visible::secrets(&read, user_home);
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), path.to_owned()),
        ("HOME".to_owned(), HOME.to_owned()),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
    ]);
    env.extend(work.env.clone());
    let reason = "the files of the command".to_owned();
    Ok(Policy {
        read,
        write: Vec::new(),
        placed: vec![Placed { source: files.to_owned(), path: PathBuf::from(ROOT), writable: true, reason }],
        empty: Vec::new(),
        overlays: Vec::new(),
        protected: Vec::new(),
        opened: Vec::new(),
        hidden: hidden.into_iter().filter(|root: &Root| root.path != Path::new(ROOT)).collect(),
        env,
        cwd: Path::new(ROOT).join(work.cwd),
        home: PathBuf::from(HOME),
        network: Network::Deny,
        door: None,
        heard: None,
        startable: None,
        limits: LIMITS,
        hostname: "norma".to_owned(),
        identity: Identity::own(),
        landlock_abi_min: 0,
        control_group: true,
        level,
    })
}
