//! What the benchmarks of the sandbox share: a policy as an agent would get it, and the measured norma as the set-up
//! server.

use crate::Result;
use crate::world::World;
use runner::LEVEL_MIN;
use sandbox::{Command, Identity, Limits, Network, Policy, Root, Sandbox, SetUp, Streams, visible};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The verb under which norma sets up sandboxes.
const SET_UP: &str = "__sandbox";

/// The system's programs only: what else is on the user's PATH would be mounted too, and differs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A sandbox as norma holds one; starts nothing yet.
pub(crate) fn sandbox(norma: &Path) -> Sandbox {
    Sandbox::new(SetUp { program: norma.to_owned(), args: vec![SET_UP.into()] })
}

/// The system readable, one writable directory with a protected one in it, a private home, no network.
pub(crate) fn policy(norma: &Path, dir: &Path) -> Result<Policy> {
    let level = sandbox::probe(&sandbox(norma)).at_least(LEVEL_MIN).ok_or("no level that agents may have")?;
    let (work, home) = (dir.join("work"), dir.join("home"));
    std::fs::create_dir_all(work.join(".git"))?;
    sandbox::give_directory(&work, level)?;
    let read = visible::existing(visible::visible(PATH, &home));
    let variables = [("PATH", PATH.to_owned()), ("HOME", home.display().to_string())];
    Ok(Policy {
        hidden: visible::secrets(&read, &home),
        read,
        protected: vec![Root::new(work.join(".git"), "history")],
        opened: Vec::new(),
        write: vec![Root::new(&work, "the workspace")],
        placed: Vec::new(),
        empty: Vec::new(),
        overlays: Vec::new(),
        env: BTreeMap::from(variables.map(|(name, value)| (name.to_owned(), value))),
        cwd: work,
        home,
        network: Network::Deny,
        door: None,
        heard: None,
        startable: None,
        limits: Limits {
            pids: 512,
            memory_bytes: 2 << 30,
            cpu_seconds: 600,
            file_bytes: 1 << 30,
            disk_bytes: 128 << 20,
            open_files: 4096,
        },
        hostname: "norma".to_owned(),
        identity: Identity::own(),
        landlock_abi_min: 0,
        control_group: true,
        level,
    })
}

/// Whether this machine can confine at all; if not, why not.
pub(crate) fn refusal(world: &World) -> Option<String> {
    let probe = sandbox::probe::probe_now(&sandbox(&world.norma));
    probe
        .at_least(LEVEL_MIN)
        .is_none()
        .then(|| probe.missing.first().map_or_else(String::new, |missing| missing.what.clone()))
}

/// Streams to nowhere.
pub(crate) fn nowhere() -> Result<Streams> {
    let null = || -> Result<OwnedFd> { Ok(File::options().read(true).write(true).open("/dev/null")?.into()) };
    Ok(Streams { stdin: null()?, stdout: null()?, stderr: null()? })
}

/// A command in one line.
pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    Command { program: program.to_owned(), args: args.iter().map(|&it| it.to_owned()).collect() }
}
