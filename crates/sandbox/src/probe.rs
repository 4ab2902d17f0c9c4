//! What this machine can do, found out once by doing it.
//!
//! The probe builds a real sandbox around nothing and looks at what was read back. So it cannot say
//! yes to what a start would then refuse, and a failure names the very step. It is asked before a
//! run, recorded with it, and never guessed from a run that failed.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::effective::{Effective, HeldBy};
pub use crate::level::LANDLOCK_ABI_FULL;
use crate::level::Level;
use crate::policy::{Identity, Limits, Network, Overlay, Policy, Root, Upper};
use crate::setup::sys::landlock_abi;
use crate::start::{Command, Error, Sandbox, Streams};

/// What the machine can do, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// How much.
    pub level: Level,
    /// The kernel's Landlock version.
    pub landlock_abi: u32,
    /// What would hold the memory of a whole tree.
    pub memory_by: Option<HeldBy>,
    /// What keeps it from more, each with the exact fix.
    pub missing: Vec<Missing>,
}

impl Probe {
    /// The level to put into a policy, if it is as much as `least`.
    pub fn at_least(&self, least: Level) -> Option<Level> {
        self.level.is_at_least(least).then_some(self.level)
    }
}

/// One thing that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The feature that is missing, in words.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

/// Settings that keep an ordinary user from making namespaces: the file, the value that forbids,
/// and the way out.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for norma that allows userns",
    ),
];

/// The answer for this process, found at the first call.
pub fn probe(sandbox: &Sandbox) -> &'static Probe {
    &found(sandbox).probe
}

/// Whether overlays with a layer in memory can be had. Found at the first call, in the same way.
pub fn has_overlays(sandbox: &Sandbox) -> bool {
    *found(sandbox).overlays.get_or_init(|| has_overlays_now(sandbox))
}

/// What this process has found.
struct Found {
    probe: Probe,
    overlays: OnceLock<bool>,
}

fn found(sandbox: &Sandbox) -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let one_by_one = || Found { probe: probe_now(sandbox), overlays: OnceLock::new() };
        everything(sandbox).unwrap_or_else(one_by_one)
    })
}

/// Most machines can do everything, and then one sandbox shows it; `None` where it has to be found out step by step.
fn everything(sandbox: &Sandbox) -> Option<Found> {
    let (level, landlock_abi) = (Level::A, landlock_abi());
    if landlock_abi < LANDLOCK_ABI_FULL || crate::setup::kernel_version() < OVERLAYS_SINCE {
        return None;
    }
    let effective = try_overlay(sandbox, level, "/usr".into()).ok()?;
    let probe = Probe { level, landlock_abi, memory_by: Some(effective.memory_by), missing: Vec::new() };
    Some(Found { probe, overlays: true.into() })
}

/// A file system in memory takes the marks an overlay needs since Linux 6.6. Before, one can be mounted, and removing
/// a directory in it then fails.
const OVERLAYS_SINCE: (u32, u32) = (6, 6);

/// Tried at the level there is: where the program is another user, files change hands in a view.
fn has_overlays_now(sandbox: &Sandbox) -> bool {
    let level = probe(sandbox).level;
    if !level.has_namespaces() || crate::setup::kernel_version() < OVERLAYS_SINCE {
        return false;
    }
    if level.maps_user() {
        return try_overlay(sandbox, level, "/usr".into()).is_ok();
    }
    // What is below would be copied, so there is nothing in it.
    let lower = std::env::temp_dir().join(format!("norma-probe-{}", std::process::id()));
    let made = fs::create_dir(&lower).is_ok();
    let works = made && lower.canonicalize().is_ok_and(|lower| try_overlay(sandbox, level, lower).is_ok());
    if made {
        let _ = fs::remove_dir(&lower);
    }
    works
}

fn try_overlay(sandbox: &Sandbox, level: Level, lower: PathBuf) -> Result<Effective, Error> {
    let overlay = Overlay {
        path: "/tmp/view".into(),
        lower: vec![lower],
        upper: Upper::Memory { bytes: 1 << 20 },
        writable: true,
        reason: "anything, to see that it works".to_owned(),
    };
    attempt(sandbox, &Policy { overlays: vec![overlay], ..smallest(level) })
}

/// Finds the answer afresh.
pub fn probe_now(sandbox: &Sandbox) -> Probe {
    let abi = landlock_abi();
    let mut missing = Vec::new();
    if abi < LANDLOCK_ABI_FULL {
        missing.push(Missing {
            what: format!("Landlock is at version {abi}, {LANDLOCK_ABI_FULL} has everything"),
            fix: "use Linux 6.12 or later, built with CONFIG_SECURITY_LANDLOCK=y and with landlock in lsm=".to_owned(),
        });
    }
    let possible = |level: &Level| level.landlock_abi_min() <= abi;
    for level in Level::ALL.into_iter().filter(possible) {
        match attempt(sandbox, &smallest(level)) {
            Ok(effective) => {
                let memory_by = Some(effective.memory_by);
                return Probe { level, landlock_abi: abi, memory_by, missing };
            }
            Err(error) => missing.push(explain_failure(level, &error)),
        }
    }
    Probe { level: Level::Refuse, landlock_abi: abi, memory_by: None, missing }
}

/// Builds a sandbox and takes it down again: nothing is executed.
fn attempt(sandbox: &Sandbox, policy: &Policy) -> Result<Effective, Error> {
    let nothing =
        || Ok::<OwnedFd, std::io::Error>(fs::File::options().read(true).write(true).open("/dev/null")?.into());
    let failed = |error| Error::SetUp { program: "/dev/null".into(), error };
    let [stdin, stdout, stderr] = [nothing().map_err(failed)?, nothing().map_err(failed)?, nothing().map_err(failed)?];
    let command = Command { program: "/".to_owned(), args: Vec::new() };
    let prepared = sandbox.prepare(policy, &command, &Streams { stdin, stdout, stderr })?;
    Ok(prepared.effective().clone())
}

fn explain_failure(level: Level, error: &Error) -> Missing {
    let setting =
        SETTINGS.iter().find(|(file, forbids, _)| fs::read_to_string(file).is_ok_and(|value| value.trim() == *forbids));
    let what = format!("level {level}: {error}");
    let fix = match (setting, error) {
        _ if level == Level::B && rustix::process::geteuid().is_root() => {
            "in a container, start it with more rights (docker: --cap-add SYS_ADMIN --cap-add NET_ADMIN)".to_owned()
        }
        _ if level == Level::B => "run norma as root, or allow user namespaces".to_owned(),
        (Some((_, _, fix)), _) => (*fix).to_owned(),
        (None, Error::SetUp { .. }) => "make sure that norma's own executable is still there and can be run".to_owned(),
        (None, _) if what.contains("/proc") => {
            "in a container, start it with an unmasked /proc (docker: --security-opt systempaths=unconfined)".to_owned()
        }
        (None, _) if what.contains("processes are possible") => {
            "run norma as an ordinary user, or use Linux 6.14 or later".to_owned()
        }
        (None, _) if what.contains("namespaces") => {
            "in a container, allow the clone, unshare and mount calls (docker: --security-opt seccomp=unconfined)"
                .to_owned()
        }
        (None, _) => "use Linux 5.14 or later with user namespaces and seccomp filters".to_owned(),
    };
    Missing { what, fix }
}

/// A policy around nothing, with all isolation of the level.
fn smallest(level: Level) -> Policy {
    let limits = Limits {
        pids: crate::policy::PIDS_MIN,
        memory_bytes: 64 << 20,
        cpu_seconds: 1,
        file_bytes: 1 << 20,
        disk_bytes: 1 << 20,
        open_files: 64,
    };
    let (read, cwd) = match level.has_namespaces() {
        true => ("/etc/hosts", "/tmp"),
        false => ("/usr", "/usr"),
    };
    let read = [read].into_iter().filter(|it| Path::new(it).exists());
    Policy {
        opened: Vec::new(),
        read: read.map(|it| Root::new(it, "anything, to see that it can be given")).collect(),
        write: Vec::new(),
        placed: Vec::new(),
        empty: Vec::new(),
        overlays: Vec::new(),
        protected: Vec::new(),
        hidden: Vec::new(),
        env: BTreeMap::new(),
        cwd: cwd.into(),
        home: "/home/probe".into(),
        network: Network::Deny,
        door: None,
        heard: None,
        startable: None,
        limits,
        hostname: "norma".to_owned(),
        identity: Identity::own(),
        landlock_abi_min: 0,
        control_group: true,
        level,
    }
}
