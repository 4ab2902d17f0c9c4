//! What holds in fact, read back from inside, and whether it is as much as was asked.
//!
//! The process that is about to become the program describes itself when all isolation is in place, from
//! the kernel's own words in `/proc` and by trying, and not from what the set-up meant to do. The
//! caller compares; anything weaker than the policy is refused before the program starts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::policy::Policy;
use crate::setup::cgroup::Held;

/// The namespaces a confined program never shares with the caller.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// A file that is in the view and in no Landlock rule: whoever can read it has no second wall.
pub(crate) const CANARY: &str = "/.second-wall";

/// Private writable directories beside HOME.
pub(crate) const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Parts of `/proc` that tell of the machine, covered where they exist.
pub(crate) const PROC_COVERED: [&str; 6] =
    ["/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/kmsg", "/proc/sched_debug", "/proc/timer_list"];

/// The confinement as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// Every mount, in the kernel's order.
    pub mounts: Vec<Mount>,
    /// Identity of each namespace.
    pub namespaces: BTreeMap<String, String>,
    /// Set-user-id programs are ordinary ones.
    pub no_new_privileges: bool,
    /// 2 is "filtered".
    pub seccomp_mode: u32,
    /// The union of all capability sets.
    pub capabilities: u64,
    /// The Landlock version that was shown to refuse; 0 when it refused nothing.
    pub landlock_abi: u32,
    /// The user id inside.
    pub uid: u32,
    /// The same user's id outside.
    pub uid_outside: u32,
    /// The largest process id this PID namespace gives out.
    pub pid_max: u64,
    /// Limits by name; absent means unlimited.
    pub limits: BTreeMap<String, u64>,
    /// The level that was built; what it is worth is in the other fields.
    pub level: Level,
    /// What holds the memory of the whole tree.
    pub memory_by: HeldBy,
    /// What holds the number of processes.
    pub pids_by: HeldBy,
    /// What ends the whole tree.
    pub ended_by: HeldBy,
}

/// Which mechanism keeps a promise about the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// A control group.
    Cgroup,
    /// The kernel's limit on processes in a PID namespace.
    PidMax,
    /// The kernel's limit on processes of a user.
    Nproc,
    /// The kernel, which ends a PID namespace with its first process.
    PidNamespace,
    /// A process that looks now and then.
    Watch,
    /// Two processes that adopt and kill what descends from them.
    Supervisors,
}

/// One line of the kernel's list of mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is mounted.
    pub path: PathBuf,
    /// What kind of file system.
    pub kind: String,
    /// Whether nothing can be changed through it.
    pub read_only: bool,
    /// Whether set-user-id bits mean nothing.
    pub no_suid: bool,
    /// Whether device files are dead.
    pub no_dev: bool,
}

impl Effective {
    /// Reads the calling process's own confinement; `held` was read before control groups went out of view.
    pub(crate) fn read(policy: &Policy, landlock_abi: u32, held: Held) -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let number = |name: &str, radix| field(name).and_then(|text| u64::from_str_radix(text, radix).ok());
        let need =
            |name: &str, radix| number(name, radix).ok_or_else(|| io::Error::other(format!("no {name} in status")));
        let level = policy.level;
        let mut capabilities = 0;
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            capabilities |= need(set, 16)?;
        }
        if level.has_namespaces() {
            // Without namespaces a user has no right to empty it; nothing can be gained from it all the
            // same, since no new privileges are.
            capabilities |= need("CapBnd", 16)?;
        }
        let uid = rustix::process::geteuid().as_raw();
        let pid_max = fs::read_to_string("/proc/sys/kernel/pid_max")?.trim().parse().map_err(io::Error::other)?;
        let mounts = || parse_mounts(&fs::read_to_string("/proc/self/mountinfo")?);
        Ok(Self {
            // Without a view of its own they are the machine's, and say nothing.
            mounts: if level.has_namespaces() { mounts()? } else { Vec::new() },
            namespaces: own_namespaces()?,
            no_new_privileges: need("NoNewPrivs", 10)? == 1,
            seccomp_mode: u32::try_from(need("Seccomp", 10)?).unwrap_or(0),
            capabilities,
            landlock_abi: if refuses_canary(level) { landlock_abi } else { 0 },
            uid,
            uid_outside: match level.maps_user() {
                true => parse_uid_outside(&fs::read_to_string("/proc/self/uid_map")?)?,
                false => uid,
            },
            pid_max,
            limits: own_limits(),
            level,
            memory_by: if held.memory { HeldBy::Cgroup } else { HeldBy::Watch },
            pids_by: match pid_max <= u64::from(policy.limits.pids) && level.has_namespaces() {
                _ if held.pids => HeldBy::Cgroup,
                true => HeldBy::PidMax,
                false => HeldBy::Nproc,
            },
            ended_by: match level.has_namespaces() {
                true => HeldBy::PidNamespace,
                false if held.kill => HeldBy::Cgroup,
                false => HeldBy::Supervisors,
            },
        })
    }

    /// Everything in which this is weaker than asked; empty when the program may start.
    ///
    /// `outside` are the caller's own namespaces.
    pub fn weaker_than(&self, policy: &Policy, outside: &BTreeMap<String, String>) -> Vec<String> {
        let mut weaker = Vec::new();
        if !self.no_new_privileges {
            weaker.push("new privileges can be gained".to_owned());
        }
        if self.seccomp_mode != 2 {
            weaker.push("kernel calls are not filtered".to_owned());
        }
        if self.capabilities != 0 {
            weaker.push(format!("capabilities are left: {:#x}", self.capabilities));
        }
        let (is, asked) = (self.landlock_abi, policy.landlock_abi_min.max(policy.level.landlock_abi_min()));
        if is < asked {
            weaker.push(format!("Landlock holds at version {is}, {asked} was asked for"));
        }
        if policy.level.dedicated(self.uid_outside == 0).is_some_and(|it| it.uid != self.uid_outside) {
            weaker.push(format!("the program is user {}, who may own what is not its business", self.uid_outside));
        }
        self.weaker_limits(policy, &mut weaker);
        if !policy.level.has_namespaces() {
            return weaker;
        }
        for name in NAMESPACES.into_iter().filter(|name| *name != "user" || policy.level.maps_user()) {
            match (self.namespaces.get(name), outside.get(name)) {
                (Some(inside), Some(outside)) if inside != outside => {}
                _ => weaker.push(format!("the {name} namespace is not a new one")),
            }
        }
        for mount in &self.mounts {
            weaker.extend(weaker_mount(mount, policy));
        }
        self.uncovered(policy, &mut weaker);
        weaker
    }

    /// Whether everything asked for holds.
    pub fn at_least(&self, policy: &Policy, outside: &BTreeMap<String, String>) -> bool {
        self.weaker_than(policy, outside).is_empty()
    }

    fn weaker_limits(&self, policy: &Policy, weaker: &mut Vec<String>) {
        let limits = &policy.limits;
        let asked = [
            ("core", 0),
            ("cpu", limits.cpu_seconds_of_one()),
            ("data", limits.memory_bytes),
            ("fsize", limits.file_bytes),
            ("nofile", limits.open_files),
        ];
        for (name, most) in asked {
            if self.limits.get(name).is_none_or(|is| *is > most) {
                weaker.push(format!("limit {name} is {:?}, {most} was asked for", self.limits.get(name)));
            }
        }
        let pids = u64::from(limits.pids);
        // The kernel does not count root's processes.
        let counted = self.uid_outside != 0 && self.limits.get("nproc").is_some_and(|is| *is <= pids);
        let held = match self.pids_by {
            HeldBy::Cgroup => true,
            HeldBy::PidMax => self.pid_max <= pids,
            _ => counted,
        };
        if !held {
            weaker.push(format!("more than {} processes are possible", limits.pids));
        }
    }

    /// What should be covered or protected by a mount of its own, and is not.
    fn uncovered(&self, policy: &Policy, weaker: &mut Vec<String>) {
        // The last mount at a path is the one that is seen.
        let at = |path: &Path| self.mounts.iter().rev().find(|mount| mount.path == path);
        for root in &policy.protected {
            if at(&root.path).is_none_or(|mount| !mount.read_only) {
                weaker.push(format!("{} is not protected", root.path.display()));
            }
        }
        for root in &policy.hidden {
            if at(&root.path).is_none_or(|mount| !mount.read_only || mount.kind != "tmpfs") {
                weaker.push(format!("{} is not hidden", root.path.display()));
            }
        }
        for overlay in &policy.overlays {
            if at(&overlay.path).is_none_or(|mount| mount.kind != "overlay" || !overlay.writable && !mount.read_only) {
                weaker.push(format!("{} is no view of its own", overlay.path.display()));
            }
        }
        for root in &policy.empty {
            if at(&root.path).is_none_or(|mount| !mount.read_only || mount.kind != "tmpfs") {
                weaker.push(format!("{} is not an empty directory", root.path.display()));
            }
        }
        for placed in policy.placed.iter().filter(|it| !it.writable) {
            if at(&placed.path).is_none_or(|mount| !mount.read_only) {
                weaker.push(format!("{} is writable", placed.path.display()));
            }
        }
        let own = PRIVATE.iter().map(Path::new).chain([policy.home.as_path()]);
        for path in own.filter(|path| at(path).is_none_or(|mount| mount.kind != "tmpfs")) {
            weaker.push(format!("{} is not private", path.display()));
        }
        match at(Path::new("/")) {
            Some(root) if root.read_only && root.kind == "tmpfs" => {}
            _ => weaker.push("the root directory is not an empty read-only one".to_owned()),
        }
    }
}

/// What is wrong with one mount that is there.
fn weaker_mount(mount: &Mount, policy: &Policy) -> Vec<String> {
    let path = &mount.path;
    let mut weaker = Vec::new();
    let mut own_writable = PRIVATE.iter().map(Path::new).chain([policy.home.as_path(), Path::new("/dev/pts")]);
    let writable = policy.changeable().any(|it| path.starts_with(it)) || own_writable.any(|own| path.starts_with(own));
    if !mount.read_only && !writable {
        weaker.push(format!("{} is writable", path.display()));
    }
    if !mount.no_suid {
        weaker.push(format!("{} honours set-user-id bits", path.display()));
    }
    if !mount.no_dev && !path.starts_with("/dev") && !PROC_COVERED.iter().any(|it| Path::new(it) == path) {
        weaker.push(format!("{} honours device files", path.display()));
    }
    let own = path == Path::new("/") || path.starts_with("/proc") || path.starts_with("/dev");
    if !own && !writable && !policy.seen().any(|it| path.starts_with(it)) {
        weaker.push(format!("{} is visible", path.display()));
    }
    weaker
}

/// Whether a file that no rule allows cannot be read: one that was put there for it, or in the machine's
/// own view its root directory, which anybody else can list.
fn refuses_canary(level: Level) -> bool {
    let canary = if level.has_namespaces() { CANARY } else { "/" };
    matches!(fs::File::open(canary), Err(error) if error.kind() == io::ErrorKind::PermissionDenied)
}

/// The calling process's namespaces by name.
pub(crate) fn own_namespaces() -> io::Result<BTreeMap<String, String>> {
    let read = |name: &str| fs::read_link(format!("/proc/self/ns/{name}"));
    NAMESPACES.iter().map(|name| Ok(((*name).to_owned(), read(name)?.display().to_string()))).collect()
}

fn own_limits() -> BTreeMap<String, u64> {
    let named = [
        ("core", Resource::Core),
        ("cpu", Resource::Cpu),
        ("data", Resource::Data),
        ("fsize", Resource::Fsize),
        ("nofile", Resource::Nofile),
        ("nproc", Resource::Nproc),
    ];
    // The hard limit: the soft one can be raised to it by the program.
    named.into_iter().filter_map(|(name, which)| Some((name.to_owned(), getrlimit(which).maximum?))).collect()
}

/// `INSIDE OUTSIDE COUNT`, and only one line of it with a count of one is what the set-up makes.
fn parse_uid_outside(map: &str) -> io::Result<u32> {
    let mut fields = map.split_ascii_whitespace().skip(1);
    match (fields.next().map(str::parse), fields.next(), fields.next()) {
        (Some(Ok(outside)), Some("1"), None) => Ok(outside),
        _ => Err(io::Error::other(format!("the users are mapped otherwise than meant: {map:?}"))),
    }
}

/// `ID PARENT DEV ROOT PATH OPTIONS TAG… - KIND SOURCE SUPER-OPTIONS`.
fn parse_mounts(text: &str) -> io::Result<Vec<Mount>> {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(4);
        let (path, options) = (left.next()?, left.next()?);
        let has = |option: &str| options.split(',').any(|it| it == option);
        Some(Mount {
            path: unescape(path).into(),
            kind: right.split(' ').next()?.to_owned(),
            read_only: has("ro"),
            no_suid: has("nosuid"),
            no_dev: has("nodev"),
        })
    };
    let parse = |line| parse(line).ok_or_else(|| io::Error::other(format!("could not read the mount {line:?}")));
    text.lines().map(parse).collect()
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::sample;

    fn mount(path: &str, kind: &str, read_only: bool) -> Mount {
        Mount { path: path.into(), kind: kind.to_owned(), read_only, no_suid: true, no_dev: true }
    }

    fn sound() -> (Effective, BTreeMap<String, String>) {
        let policy = sample();
        let limits = [
            ("core", 0),
            ("cpu", policy.limits.cpu_seconds_of_one()),
            ("data", policy.limits.memory_bytes),
            ("fsize", policy.limits.file_bytes),
            ("nofile", policy.limits.open_files),
        ];
        let mounts = [
            ("/", "tmpfs", true),
            ("/usr", "ext4", true),
            ("/srv/work", "ext4", false),
            ("/srv/work/.git", "ext4", true),
            ("/srv/work/.env", "tmpfs", true),
            ("/proc", "proc", true),
            ("/tmp", "tmpfs", false),
            ("/var/tmp", "tmpfs", false),
            ("/run", "tmpfs", false),
            ("/dev/shm", "tmpfs", false),
            ("/home/agent", "tmpfs", false),
        ];
        let ids = |place: &str| NAMESPACES.iter().map(|it| ((*it).to_owned(), format!("{it}:{place}"))).collect();
        let effective = Effective {
            mounts: mounts.into_iter().map(|(path, kind, ro)| mount(path, kind, ro)).collect(),
            namespaces: ids("inside"),
            no_new_privileges: true,
            seccomp_mode: 2,
            capabilities: 0,
            landlock_abi: 7,
            uid: 1000,
            uid_outside: 1000,
            pid_max: 512,
            limits: limits.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            level: policy.level,
            memory_by: HeldBy::Watch,
            pids_by: HeldBy::PidMax,
            ended_by: HeldBy::PidNamespace,
        };
        (effective, ids("outside"))
    }

    fn check(weaken: impl FnOnce(&mut Effective), expected: &str) {
        let (mut effective, outside) = sound();
        assert_eq!(effective.weaker_than(&sample(), &outside), [""; 0]);
        weaken(&mut effective);
        assert_eq!(effective.weaker_than(&sample(), &outside), [expected]);
    }

    #[test]
    fn every_weakness_is_named() {
        check(|it| it.no_new_privileges = false, "new privileges can be gained");
        check(|it| it.seccomp_mode = 0, "kernel calls are not filtered");
        check(|it| it.capabilities = 0x20, "capabilities are left: 0x20");
        check(|it| it.landlock_abi = 0, "Landlock holds at version 0, 6 was asked for");
        check(
            |it| drop(it.namespaces.insert("net".into(), "net:outside".into())),
            "the net namespace is not a new one",
        );
        check(|it| it.pid_max = 4_194_304, "more than 512 processes are possible");
        check(|it| it.limits.retain(|name, _| name != "core"), "limit core is None, 0 was asked for");
        check(|it| it.mounts[1].read_only = false, "/usr is writable");
        check(|it| it.mounts[1].no_suid = false, "/usr honours set-user-id bits");
        check(|it| it.mounts[2].no_dev = false, "/srv/work honours device files");
        check(|it| it.mounts.push(mount("/etc", "ext4", true)), "/etc is visible");
        check(|it| it.mounts[3].read_only = false, "/srv/work/.git is not protected");
        check(|it| drop(it.mounts.remove(4)), "/srv/work/.env is not hidden");
        check(|it| drop(it.mounts.remove(6)), "/tmp is not private");
        check(|it| drop(it.mounts.remove(0)), "the root directory is not an empty read-only one");
    }

    #[test]
    fn the_limit_on_processes_that_root_escapes_does_not_count_for_root() {
        let (mut effective, outside) = sound();
        effective.pids_by = HeldBy::Nproc;
        effective.limits.insert("nproc".to_owned(), 512);
        assert!(effective.at_least(&sample(), &outside));
        effective.uid_outside = 0;
        assert_eq!(effective.weaker_than(&sample(), &outside), ["more than 512 processes are possible"]);
    }

    #[test]
    fn without_a_user_namespace_the_program_must_be_the_unprivileged_user() {
        let (mut effective, mut outside) = sound();
        let policy = Policy { level: Level::B, ..sample() };
        outside.insert("user".to_owned(), "user:inside".to_owned());
        for uid in [0, 1000] {
            effective.uid_outside = uid;
            let weaker = effective.weaker_than(&policy, &outside);
            assert_eq!(weaker, [format!("the program is user {uid}, who may own what is not its business")]);
        }
        effective.uid_outside = crate::level::UNPRIVILEGED.uid;
        assert!(effective.at_least(&policy, &outside));
        assert_eq!(effective.weaker_than(&sample(), &outside), ["the user namespace is not a new one"]);
    }

    #[test]
    fn what_has_no_namespaces_is_never_taken_for_what_has() {
        let (mut effective, outside) = sound();
        effective.namespaces.clone_from(&outside);
        effective.mounts.clear();
        let policy = Policy { level: Level::C, protected: Vec::new(), hidden: Vec::new(), ..sample() };
        assert!(effective.at_least(&policy, &outside));
        assert_eq!(effective.weaker_than(&sample(), &outside).len(), NAMESPACES.len() + 2 + PRIVATE.len() + 2);
        effective.landlock_abi = 5;
        assert_eq!(effective.weaker_than(&policy, &outside), ["Landlock holds at version 5, 6 was asked for"]);
    }

    #[test]
    fn exactly_one_user_is_mapped() {
        assert_eq!(parse_uid_outside("      1000       0          1\n").ok(), Some(0));
        assert!(parse_uid_outside("0 0 4294967295\n").is_err());
        assert!(parse_uid_outside("0 1000 1\n1 1001 1\n").is_err());
    }

    #[test]
    fn a_mount_is_read_as_the_kernel_writes_it() {
        let line = "36 35 98:0 /a /my\\040work ro,nosuid,relatime master:1 - ext4 /dev/root rw,errors=continue";
        let expected = Mount { no_dev: false, ..mount("/my work", "ext4", true) };
        assert_eq!(parse_mounts(line).expect("a sound line"), [expected]);
        assert!(parse_mounts("36 35").is_err());
    }
}
