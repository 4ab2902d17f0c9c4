//! What a confined program may see, change, reach and use up.
//!
//! A policy is plain data with a reason for every path, so that it can be stored as evidence and
//! explained to a person line by line. It says everything: what it does not name does not exist
//! inside. [`Policy::violations`] lists all that is wrong with one before a process is made.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::proxy::PROXY_PORT;

/// Fewest processes the limit may allow. The kernel's own per-namespace limit, which is the only
/// one that holds for root without a cgroup, cannot be set below 301.
pub const PIDS_MIN: u32 = 301;

/// Least memory the limit may allow: below it not even a shell with a tool behind it starts.
pub const MEMORY_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// Longest host name the kernel takes.
const HOSTNAME_BYTES_MAX: usize = 64;

/// Most allowed destinations on the loopback. Each is a socket that is handed out with the others in
/// one message, which has room for 64 and for the proxy's own.
pub const LOOPBACK_MAX: usize = 48;

/// Most overlays: each has a layer whose directory is handed out with the others in one message.
pub const OVERLAYS_MAX: usize = 16;

/// Directories the sandbox fills itself, so that no root may be placed on or above them.
const OWN_DIRECTORIES: [&str; 2] = ["/proc", "/dev"];

/// Everything about one confinement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What can be read and executed; nothing else of the machine exists inside.
    pub read: Vec<Root>,
    /// What can be changed.
    pub write: Vec<Root>,
    /// Directories of the machine that are seen at another path than their own.
    pub placed: Vec<Placed>,
    /// Empty, unchangeable directories of the sandbox's own, in which other entries may be placed.
    pub empty: Vec<Root>,
    /// Writable views of unchangeable directories.
    pub overlays: Vec<Overlay>,
    /// What stays unchangeable though it lies below a `write` root. Must exist.
    pub protected: Vec<Root>,
    /// What can be changed though it lies in a view that cannot. A directory is made where there is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<Root>,
    /// What is covered by an empty file or directory though it lies below another root. Must exist.
    pub hidden: Vec<Root>,
    /// The whole environment; nothing is inherited. An allowed network adds the proxy variables.
    pub env: BTreeMap<String, String>,
    /// Where the program starts.
    pub cwd: PathBuf,
    /// A private, empty, writable directory, made at this path.
    pub home: PathBuf,
    /// What can be reached.
    pub network: Network,
    /// A port of the sandbox's own loopback behind which the caller itself answers; see [`crate::Prepared::take_door`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<u16>,
    /// Whether what the program starts and reaches is heard, and reported; see [`crate::listen`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Heard>,
    /// The only files that can be started, or what lies below them; none for no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startable: Option<Vec<Root>>,
    /// What can be used up.
    pub limits: Limits,
    /// The machine's name inside.
    pub hostname: String,
    /// Who the program believes to be; outside it is always the user who started it. Where nobody is
    /// mapped, at levels B and C, it is not asked: see [`Level`].
    pub identity: Identity,
    /// The least Landlock version that must hold the second wall; 0 asks for no more than the level.
    pub landlock_abi_min: u32,
    /// Whether a control group is to hold the whole tree, where one can be had. It makes a start slower by
    /// some tenths of a millisecond, so it is for what runs long or is not known. Where nothing else ends
    /// a tree or counts its processes, it is taken anyway.
    pub control_group: bool,
    /// The level that is built, and the least that is accepted when it is read back.
    pub level: Level,
}

/// One path and why it is in the policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// For people.
    pub reason: String,
}

impl Root {
    /// A path with its reason.
    pub fn new(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

/// One directory or file that is seen at another path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// Where it is on the machine.
    pub source: PathBuf,
    /// Where it is inside.
    pub path: PathBuf,
    /// Whether it can be changed.
    pub writable: bool,
    /// For people.
    pub reason: String,
}

/// One directory that can be changed at will, while what it shows stays as it is: changes go to a layer on top,
/// which the caller is handed and which is all that has to be looked at, or dropped, afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// Where the view is inside.
    pub path: PathBuf,
    /// The directories it shows, the topmost first. They must not change while it is there.
    pub lower: Vec<PathBuf>,
    /// Where changes go.
    pub upper: Upper,
    /// Whether the program can change it. If not, the layer is only there for other entries to be placed in it.
    pub writable: bool,
    /// For people.
    pub reason: String,
}

/// Where the changes to an overlay go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Upper {
    /// A file system in memory that holds this much and is gone when nobody holds it.
    Memory {
        /// Its size.
        bytes: u64,
    },
    /// The directory `upper` in this one, which is made if need be; nothing bounds it but the disk.
    Directory {
        /// An existing directory, on a file system that can carry an overlay.
        path: PathBuf,
    },
}

/// Whose doings are told from whose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heard {
    /// Programs that are parts of the confined one, or what lies below: who starts one of them has started nothing else.
    pub own: Vec<PathBuf>,
}

/// The network as the program finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A loopback of its own and nothing else.
    Deny,
    /// The same, and a proxy that connects to exactly these.
    Allow(Vec<HostPort>),
}

impl Network {
    /// What may be reached.
    pub fn allowed(&self) -> &[HostPort] {
        match self {
            Self::Deny => &[],
            Self::Allow(list) => list,
        }
    }
}

/// One destination. Host names are compared as written, without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl HostPort {
    /// Reads `host:port` and `[address]:port`.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        is_host(host).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// The loopback address this destination names, if it names one.
    pub fn loopback(&self) -> Option<IpAddr> {
        if self.host.eq_ignore_ascii_case("localhost") {
            return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        self.host.parse().ok().filter(IpAddr::is_loopback)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.parse::<IpAddr>().is_ok()
        || !text.is_empty() && text.bytes().all(plain) && !text.starts_with('.') && !text.ends_with('.')
}

/// What can be used up. Wall-clock time is the caller's, who polls anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processes and threads alive at once.
    pub pids: u32,
    /// Memory of the whole tree.
    pub memory_bytes: u64,
    /// Processor time of the whole tree.
    pub cpu_seconds: u64,
    /// Size of any one file written.
    pub file_bytes: u64,
    /// All of the private directories together: HOME, /tmp, /var/tmp, /run and /dev/shm.
    pub disk_bytes: u64,
    /// Descriptors open at once in one process.
    pub open_files: u64,
}

impl Limits {
    /// Processor time of any one process, held by the kernel. The kernel counts whole ticks: on a busy machine it counts up
    /// to a fifth more than a process used, and who it ends is only one of an agent's own programs, so that nobody could
    /// tell why. So this is behind the limit of the tree, which whoever watches it holds.
    pub(crate) fn cpu_seconds_of_one(&self) -> u64 {
        self.cpu_seconds.saturating_add(self.cpu_seconds / 4).saturating_add(1)
    }
}

/// A user and a group, as the program sees itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The user id inside.
    pub uid: u32,
    /// The group id inside.
    pub gid: u32,
}

impl Identity {
    /// The ids of the calling process, so that they are the same inside and outside.
    pub fn own() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

/// One thing that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Violation {
    /// Where, such as `write[0]`.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

impl Policy {
    /// All that is wrong; empty for a policy that can be tried.
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Found(Vec::new());
        let lists = [
            ("read", &self.read),
            ("write", &self.write),
            ("empty", &self.empty),
            ("protected", &self.protected),
            ("hidden", &self.hidden),
        ];
        for (name, roots) in lists {
            for (index, root) in roots.iter().enumerate() {
                found.root(&format!("{name}[{index}]"), root);
            }
        }
        for (index, placed) in self.placed.iter().enumerate() {
            found.root(&format!("placed[{index}]"), &Root::new(&placed.path, &placed.reason));
            found.path(&format!("placed[{index}].source"), &placed.source);
        }
        if self.overlays.len() > OVERLAYS_MAX {
            found.add("overlays", format!("are more than {OVERLAYS_MAX}"));
        }
        for (index, overlay) in self.overlays.iter().enumerate() {
            found.root(&format!("overlays[{index}]"), &Root::new(&overlay.path, &overlay.reason));
            found.overlay(&format!("overlays[{index}]"), overlay);
        }
        for (index, root) in self.startable.iter().flatten().enumerate() {
            found.root(&format!("startable[{index}]"), root);
        }
        if self.startable.is_some() && self.heard.is_none() {
            found.add("startable", "is held by somebody who listens, so `heard` must be there");
        }
        found.path("cwd", &self.cwd);
        found.path("home", &self.home);
        self.places(&mut found);
        self.env_violations(&mut found);
        self.limit_violations(&mut found);
        self.level_violations(&mut found);
        found.0
    }

    /// The paths at and below which the program can change something, private directories aside.
    pub(crate) fn changeable(&self) -> impl Iterator<Item = &Path> {
        let write = self.write.iter().map(|root| &root.path);
        let placed = self.placed.iter().filter(|it| it.writable).map(|it| &it.path);
        let overlays = self.overlays.iter().filter(|it| it.writable).map(|it| &it.path);
        let opened = self.opened.iter().map(|root| &root.path);
        write.chain(placed).chain(overlays).chain(opened).map(PathBuf::as_path)
    }

    /// The paths at and below which the program sees something, private directories aside.
    pub(crate) fn seen(&self) -> impl Iterator<Item = &Path> {
        let roots = self.read.iter().chain(&self.empty).map(|root| root.path.as_path());
        let views = self.overlays.iter().map(|it| it.path.as_path());
        roots.chain(self.placed.iter().map(|it| it.path.as_path())).chain(views).chain(self.changeable())
    }

    fn places(&self, found: &mut Found) {
        for (name, list) in [("read", &self.read), ("write", &self.write)] {
            for (index, _) in list.iter().enumerate().filter(|(_, root)| root.path == Path::new("/")) {
                found.add(format!("{name}[{index}]"), "the whole machine cannot be a root");
            }
        }
        for (index, root) in self.write.iter().enumerate() {
            if root.path == self.home {
                found.add(format!("write[{index}]"), "is also the private home, which would cover it");
            }
        }
        for (index, root) in self.protected.iter().enumerate() {
            if !self.changeable().any(|path| root.path.starts_with(path)) {
                found.add(format!("protected[{index}]"), "lies below no write root, so there is nothing to protect");
            }
        }
        for (index, root) in self.opened.iter().enumerate() {
            found.root(&format!("opened[{index}]"), root);
            let mut closed = self.overlays.iter().filter(|it| !it.writable);
            if !closed.any(|it| root.path.starts_with(&it.path) && root.path != it.path) {
                found.add(
                    format!("opened[{index}]"),
                    "lies in no view that cannot be changed, so there is nothing to open",
                );
            }
        }
        for (index, root) in self.hidden.iter().enumerate() {
            if !self.seen().any(|path| root.path.starts_with(path)) {
                found.add(format!("hidden[{index}]"), "lies below no root, so there is nothing to hide");
            }
            if self.changeable().any(|path| path.starts_with(&root.path)) {
                found.add(format!("hidden[{index}]"), "would hide a write root");
            }
        }
        let private = ["/tmp", "/var/tmp", "/run"].map(Path::new);
        let inside = |path: &Path| private.iter().any(|it| path.starts_with(it)) || path.starts_with(&self.home);
        if !self.seen().any(|path| self.cwd.starts_with(path)) && !inside(&self.cwd) {
            found.add("cwd", "is not visible inside");
        }
    }

    fn env_violations(&self, found: &mut Found) {
        for (name, value) in &self.env {
            let place = || format!("env[{name:?}]");
            if name.is_empty() || name.contains('=') || name.contains('\0') {
                found.add(place(), "is no name for a variable");
            }
            if value.contains('\0') {
                found.add(place(), "the value holds a zero byte");
            }
        }
        if self.hostname.is_empty() || self.hostname.len() > HOSTNAME_BYTES_MAX || self.hostname.contains('\0') {
            found.add("hostname", format!("must have 1 to {HOSTNAME_BYTES_MAX} bytes and no zero byte"));
        }
        for (index, entry) in self.network.allowed().iter().enumerate() {
            if !is_host(&entry.host) || entry.port == 0 {
                found.add(format!("network.allow[{index}]"), "must name one host and one port");
            }
            if entry.loopback().is_some() && entry.port == PROXY_PORT {
                found.add(format!("network.allow[{index}]"), "is where the proxy itself listens inside");
            }
        }
        if self.network.allowed().iter().filter(|it| it.loopback().is_some()).count() > LOOPBACK_MAX {
            found.add("network.allow", format!("has more than {LOOPBACK_MAX} destinations on the loopback"));
        }
    }

    /// What a level without namespaces cannot give is refused here and not left out there.
    fn level_violations(&self, found: &mut Found) {
        if self.level == Level::Refuse {
            found.add("level", "nothing is started where no level can be had");
        }
        if self.level.has_namespaces() {
            return;
        }
        for (place, roots) in [("protected", &self.protected), ("hidden", &self.hidden)] {
            if !roots.is_empty() {
                found.add(place, format!("nothing inside a root can be {place} at level {}", self.level));
            }
        }
        for (place, count) in
            [("placed", self.placed.len()), ("empty", self.empty.len()), ("overlays", self.overlays.len())]
        {
            if count > 0 {
                found.add(place, format!("there is no view of its own to show it in at level {}", self.level));
            }
        }
        if self.network != Network::Deny {
            found.add("network", format!("nothing can be reached at level {}", self.level));
        }
        if !self.read.iter().chain(&self.write).any(|root| self.cwd.starts_with(&root.path)) {
            found.add("cwd", format!("lies in no root, and there are no private directories at level {}", self.level));
        }
    }

    fn limit_violations(&self, found: &mut Found) {
        let limits = &self.limits;
        if limits.pids < PIDS_MIN {
            found.add("limits.pids", format!("must be at least {PIDS_MIN}"));
        }
        if limits.memory_bytes < MEMORY_BYTES_MIN {
            found.add("limits.memory_bytes", format!("must be at least {MEMORY_BYTES_MIN}"));
        }
        let others = [
            ("limits.cpu_seconds", limits.cpu_seconds),
            ("limits.file_bytes", limits.file_bytes),
            ("limits.disk_bytes", limits.disk_bytes),
            ("limits.open_files", limits.open_files),
        ];
        for (place, value) in others {
            if value == 0 {
                found.add(place, "must not be zero");
            }
        }
    }
}

struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, place: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Violation { place: place.into(), problem: problem.into() });
    }

    fn root(&mut self, place: &str, root: &Root) {
        self.path(place, &root.path);
        if root.reason.trim().is_empty() {
            self.add(place, "has no reason");
        }
    }

    fn overlay(&mut self, place: &str, overlay: &Overlay) {
        if overlay.lower.is_empty() {
            self.add(format!("{place}.lower"), "shows nothing");
        }
        for (index, lower) in overlay.lower.iter().enumerate() {
            self.path(&format!("{place}.lower[{index}]"), lower);
        }
        match &overlay.upper {
            Upper::Memory { bytes: 0 } => self.add(format!("{place}.upper"), "must not be zero"),
            Upper::Memory { .. } => {}
            Upper::Directory { path } => self.path(&format!("{place}.upper"), path),
        }
    }

    fn path(&mut self, place: &str, path: &Path) {
        let Some(text) = path.to_str() else {
            return self.add(place, format!("{} is not UTF-8, which the policy document needs", path.display()));
        };
        if !is_plain(path) {
            self.add(place, format!("{text:?} is not an absolute path free of `.` and `..`"));
        }
        if OWN_DIRECTORIES.iter().any(|own| path.starts_with(own)) {
            self.add(place, format!("{text:?} lies where the sandbox mounts its own"));
        }
    }
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && !path.as_os_str().as_encoded_bytes().contains(&0)
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Policy {
        Policy {
            read: vec![Root::new("/usr", "programs")],
            write: vec![Root::new("/srv/work", "the workspace")],
            placed: Vec::new(),
            empty: Vec::new(),
            overlays: Vec::new(),
            protected: vec![Root::new("/srv/work/.git", "history")],
            opened: Vec::new(),
            hidden: vec![Root::new("/srv/work/.env", "secrets")],
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]),
            cwd: "/srv/work".into(),
            home: "/home/agent".into(),
            network: Network::Deny,
            door: None,
            heard: None,
            startable: None,
            limits: Limits {
                pids: 512,
                memory_bytes: 1 << 30,
                cpu_seconds: 60,
                file_bytes: 1 << 30,
                disk_bytes: 64 << 20,
                open_files: 1024,
            },
            hostname: "norma".to_owned(),
            identity: Identity { uid: 1000, gid: 1000 },
            landlock_abi_min: 6,
            control_group: true,
            level: Level::A,
        }
    }

    pub(crate) fn overlay(upper: Upper) -> Overlay {
        let reason = "a view of the tree".to_owned();
        Overlay { path: "/srv/view".into(), lower: vec!["/srv/tree".into()], upper, writable: true, reason }
    }

    #[test]
    fn a_sound_policy_has_no_violations_and_reads_back_as_written() {
        let policy = sample();
        assert_eq!(policy.violations(), []);
        let text = serde_json::to_string(&policy).expect("a policy is plain data");
        assert_eq!(serde_json::from_str::<Policy>(&text).expect("it was just written"), policy);
    }

    #[test]
    fn every_violation_is_reported_at_once() {
        let mut policy = sample();
        policy.read = vec![Root::new("usr", "programs"), Root::new("/usr/../etc", " "), Root::new("/proc/sys", "x")];
        policy.write.push(Root::new("/", "everything"));
        policy.protected = vec![Root::new("/var/lib/x", "x")];
        policy.hidden = vec![Root::new("/srv", "x")];
        policy.env.insert("A=B".to_owned(), "c\0".to_owned());
        policy.cwd = "/nowhere/".into();
        policy.hostname = String::new();
        policy.limits.pids = 1;
        policy.limits.disk_bytes = 0;
        let hosts = [("a b", 1), ("localhost", PROXY_PORT)];
        policy.network = Network::Allow(hosts.map(|(host, port)| HostPort { host: host.to_owned(), port }).to_vec());
        let places: Vec<_> = policy.violations().into_iter().map(|it| it.place).collect();
        assert_eq!(
            places,
            [
                "read[0]",
                "read[1]",
                "read[1]",
                "read[2]",
                "cwd",
                "write[1]",
                "hidden[0]",
                "env[\"A=B\"]",
                "env[\"A=B\"]",
                "hostname",
                "network.allow[0]",
                "network.allow[1]",
                "limits.pids",
                "limits.disk_bytes"
            ]
        );
    }

    #[test]
    fn what_no_namespace_can_give_is_refused_without_one() {
        let places = |policy: &Policy| policy.violations().into_iter().map(|it| it.place).collect::<Vec<_>>();
        let mut policy = Policy { level: Level::C, cwd: "/tmp".into(), ..sample() };
        policy.network = Network::Allow(vec![HostPort { host: "example.org".to_owned(), port: 443 }]);
        policy.empty = vec![Root::new("/srv/state", "nothing of it is shown")];
        let (source, path, reason) = ("/srv/other".into(), "/srv/here".into(), "shown elsewhere".to_owned());
        policy.placed = vec![Placed { source, path, writable: false, reason }];
        policy.overlays = vec![overlay(Upper::Memory { bytes: 1 })];
        let expected = ["protected", "hidden", "placed", "empty", "overlays", "network", "cwd"];
        assert_eq!(places(&policy), expected);
        assert_eq!(places(&Policy { level: Level::Refuse, ..sample() })[0], "level");
        let bare = Policy { level: Level::C, protected: Vec::new(), hidden: Vec::new(), ..sample() };
        assert_eq!(places(&bare), [""; 0]);
    }

    #[test]
    fn a_destination_is_one_host_and_one_port() {
        let check = |text, expected: Option<&str>| {
            assert_eq!(HostPort::parse(text).map(|it| it.to_string()).as_deref(), expected, "{text:?}");
        };
        check("API.example.com:443", Some("api.example.com:443"));
        check("[::1]:80", Some("[::1]:80"));
        check("127.0.0.1:8080", Some("127.0.0.1:8080"));
        check("::1:80", None);
        check("example.com", None);
        check("example.com:0", None);
        check("*.example.com:443", None);
        check("example.com.:443", None);
    }
}
