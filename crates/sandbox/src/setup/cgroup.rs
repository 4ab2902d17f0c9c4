//! Control groups: the kernel's own hold on a whole tree, where one can be had.
//!
//! Which hierarchies norma may make groups in is found once for each set-up server. Each sandbox then
//! gets a leaf of its own in those of use to it, below the group that norma is in and never beside it,
//! so that whoever limits norma limits its sandboxes. Whatever fails here is no error: the other limits
//! hold without, and what holds is read back. A leaf is named after its set-up process; the next server
//! removes what a killed one left behind.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::sys;
use crate::policy::{Policy, Upper};

/// How the name of every leaf begins.
const PREFIX: &str = "norma-";

/// How systemd marks a group that it leaves to the unit in it.
const DELEGATED: &std::ffi::CStr = c"user.delegate";

/// The hierarchies in which leaves can be made.
#[derive(Default)]
pub(super) struct Groups {
    places: Vec<Place>,
    /// The PID namespace, which gives the process id in a leaf's name its meaning.
    namespace: String,
    /// Whether memory can be had that is not counted as such.
    swap: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Where leaves are made.
    directory: PathBuf,
    kind: Kind,
    memory: bool,
    pids: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One hierarchy for each controller.
    V1,
    /// One for all.
    V2,
}

/// What a leaf is to hold.
pub(super) struct Wanted {
    /// Memory, the private directories and the layers in memory included, which the kernel counts as memory.
    memory_bytes: u64,
    /// Processes, where nothing else holds them.
    pids: Option<u32>,
    /// The end of all at once, where the kernel does not give it with a PID namespace.
    kill: bool,
}

impl Wanted {
    /// What a policy asks for and what it cannot do without; `own_pid_max` says whether the PID namespace
    /// has a limit of its own.
    pub(super) fn of(policy: &Policy, own_pid_max: bool) -> Option<Self> {
        let (limits, namespaces) = (&policy.limits, policy.level.has_namespaces());
        let layers = policy.overlays.iter().map(|overlay| match overlay.upper {
            Upper::Memory { bytes } => bytes,
            Upper::Directory { .. } => 0,
        });
        let private = if namespaces { layers.fold(limits.disk_bytes, u64::saturating_add) } else { 0 };
        let wanted = Self {
            memory_bytes: limits.memory_bytes.saturating_add(private),
            // Each hierarchy more costs a tenth of a millisecond.
            pids: (!namespaces || !own_pid_max).then_some(limits.pids),
            kill: !namespaces,
        };
        (policy.control_group || wanted.kill || wanted.pids.is_some()).then_some(wanted)
    }
}

/// Which limits the kernel holds for the whole tree by a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) memory: bool,
    pub(crate) pids: bool,
    pub(crate) kill: bool,
}

impl Groups {
    /// Looks where leaves can be made.
    pub(super) fn find() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (own, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
        let candidates = mounts.lines().filter_map(|line| candidate(line, &own));
        let places: Vec<_> = candidates.filter_map(usable).collect();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default().display().to_string();
        let namespace = namespace.chars().filter(char::is_ascii_digit).collect();
        // One line is the heading.
        let swap = read("/proc/swaps").lines().count() > 1;
        Self { places, namespace, swap }
    }

    /// Removes the leaves of set-up processes that are no more, with what may still run in them.
    pub(super) fn sweep(&self) {
        for place in &self.places {
            let entries = fs::read_dir(&place.directory).into_iter().flatten().flatten();
            for entry in entries {
                let left = entry.file_name().to_str().and_then(|name| left_by(name, &self.namespace));
                if left.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH)) {
                    end(&entry.path());
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    /// A leaf for the sandbox that the calling process sets up.
    pub(super) fn leaf(&self, wanted: Option<Wanted>) -> Leaf {
        let name = format!("{PREFIX}{}-{}", self.namespace, std::process::id());
        let mut leaf = Leaf { name, parts: Vec::new(), wanted };
        let Some(wanted) = &leaf.wanted else { return leaf };
        for place in &self.places {
            let v2 = place.kind == Kind::V2;
            if (place.memory || place.pids && wanted.pids.is_some() || v2 && wanted.kill)
                && let Ok(part) = Part::make(place, &leaf.name, wanted, self.swap)
            {
                leaf.parts.push(part);
            }
        }
        leaf
    }
}

/// The process id in a leaf's name, if it is one of this PID namespace.
fn left_by(name: &str, namespace: &str) -> Option<Pid> {
    let (of, pid) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    if of == namespace { Pid::from_raw(pid.parse().ok()?) } else { None }
}

/// Kills everything in a group: at one stroke where the kernel can.
fn end(directory: &Path) {
    if fs::write(directory.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let inside = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    for pid in inside.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1) {
        sys::signal(pid, libc::SIGKILL);
    }
}

/// The group that norma is in, of the hierarchy that one line of `mountinfo` tells of; `None` for a
/// line about something else or a controller that limits nothing of interest.
fn candidate(line: &str, own: &str) -> Option<Place> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, mount) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, options) = (right.next()?, right.nth(1)?);
    let has = |controller: &str| options.split(',').any(|it| it == controller);
    let (kind, memory, pids) = match kind {
        "cgroup" => (Kind::V1, has("memory"), has("pids")),
        "cgroup2" => (Kind::V2, false, false),
        _ => return None,
    };
    if kind == Kind::V1 && !memory && !pids {
        return None;
    }
    let member = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let meant = match kind {
            Kind::V1 => controllers.split(',').any(|it| memory && it == "memory" || pids && it == "pids"),
            Kind::V2 => controllers.is_empty(),
        };
        meant.then_some(path)
    })?;
    // The mount may show a part of the hierarchy only, as it does in containers.
    let below = Path::new(member).strip_prefix(root).ok()?;
    Some(Place { directory: Path::new(mount).join(below), kind, memory, pids })
}

/// The place with what it can do, or `None` where no leaf can be made. In a version 2 hierarchy a group
/// with processes in it gives its children no controllers. There the group above is taken, if that is
/// the one which was left to norma, and norma was put into a part of it.
fn usable(place: Place) -> Option<Place> {
    let open = |directory: &Path| rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    if place.kind == Kind::V1 {
        return open(&place.directory).then_some(place);
    }
    let with_controllers = |directory: &Path| {
        let given = fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |controller: &str| given.split_ascii_whitespace().any(|it| it == controller);
        Place { directory: directory.to_owned(), kind: Kind::V2, memory: has("memory"), pids: has("pids") }
    };
    let own = open(&place.directory).then(|| with_controllers(&place.directory));
    let above = place.directory.parent().filter(|above| is_delegated(above) && open(above)).map(with_controllers);
    let best = |found: &Place| found.memory || found.pids;
    above.filter(best).or(own)
}

fn is_delegated(directory: &Path) -> bool {
    let mut value = [0; 4];
    matches!(rustix::fs::getxattr(directory, DELEGATED, &mut value), Ok(count) if value[..count] == *b"1")
}

/// A sandbox's own group, in one or more hierarchies.
pub(super) struct Leaf {
    name: String,
    parts: Vec<Part>,
    wanted: Option<Wanted>,
}

/// The group in one hierarchy.
struct Part {
    directory: PathBuf,
    kind: Kind,
    memory: bool,
    pids: bool,
    /// How to get in: the file that a process writes itself into, or the directory to be made in.
    way_in: OwnedFd,
}

impl Part {
    fn make(place: &Place, name: &str, wanted: &Wanted, swap: bool) -> io::Result<Self> {
        let directory = place.directory.join(name);
        // One of an earlier process of the same id, which is dead.
        if fs::create_dir(&directory).is_err() {
            fs::remove_dir(&directory)?;
            fs::create_dir(&directory)?;
        }
        let made = Self::fill(place, &directory, wanted, swap);
        if made.is_err() {
            let _ = fs::remove_dir(&directory);
        }
        made
    }

    fn fill(place: &Place, directory: &Path, wanted: &Wanted, swap: bool) -> io::Result<Self> {
        let set = |file: &str, value: u64| fs::write(directory.join(file), value.to_string());
        if place.memory {
            set(memory_file(place.kind), wanted.memory_bytes)?;
        }
        if place.memory && swap {
            // Not every kernel counts it, and the rest of the wall is worth having without.
            let _ = match place.kind {
                Kind::V1 => set("memory.memsw.limit_in_bytes", wanted.memory_bytes),
                Kind::V2 => set("memory.swap.max", 0),
            };
        }
        let pids = wanted.pids.filter(|_| place.pids);
        if let Some(pids) = pids {
            set("pids.max", u64::from(pids))?;
        }
        let (path, flags) = match place.kind {
            // Not `cgroup.procs`: a thread that moves itself waits for nobody.
            Kind::V1 => (directory.join("tasks"), OFlags::WRONLY),
            Kind::V2 => (directory.to_owned(), OFlags::PATH | OFlags::DIRECTORY),
        };
        let way_in = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
        let (directory, kind, memory) = (directory.to_owned(), place.kind, place.memory);
        Ok(Self { directory, kind, memory, pids: pids.is_some(), way_in })
    }
}

fn memory_file(kind: Kind) -> &'static str {
    match kind {
        Kind::V1 => "memory.limit_in_bytes",
        Kind::V2 => "memory.max",
    }
}

impl Leaf {
    /// The group that a child can be made in.
    pub(super) fn to_be_made_in(&self) -> Option<BorrowedFd<'_>> {
        self.parts.iter().find(|part| part.kind == Kind::V2).map(|part| part.way_in.as_fd())
    }

    /// Has the calling process, which has one thread, enter the groups it was not made in, and says
    /// which limits hold for it now, in the kernel's own words. For the first process inside, before
    /// it has a view of its own.
    pub(super) fn join(&self) -> Held {
        let mut held = Held::default();
        let Some(wanted) = self.wanted.as_ref().filter(|_| !self.parts.is_empty()) else { return held };
        for part in self.parts.iter().filter(|part| part.kind == Kind::V1) {
            let _ = rustix::io::write(&part.way_in, b"0");
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let is_member = |part: &Part| {
            let line = |line: &str| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                let has = |name: &str| controllers.split(',').any(|it| it == name);
                let hierarchy = match part.kind {
                    Kind::V1 => part.memory && has("memory") || part.pids && has("pids"),
                    Kind::V2 => controllers.is_empty(),
                };
                (hierarchy && path.rsplit('/').next() == Some(self.name.as_str())).then_some(())
            };
            own.lines().any(|it| line(it).is_some())
        };
        for part in self.parts.iter().filter(|part| is_member(part)) {
            let at_most = |file: &str, most: u64| {
                let text = fs::read_to_string(part.directory.join(file)).unwrap_or_default();
                text.trim().parse::<u64>().is_ok_and(|is| is <= most)
            };
            held.memory |= part.memory && at_most(memory_file(part.kind), wanted.memory_bytes);
            held.pids |= wanted.pids.is_some_and(|pids| part.pids && at_most("pids.max", u64::from(pids)));
            held.kill |= part.kind == Kind::V2 && part.directory.join("cgroup.kill").exists();
        }
        held
    }

    /// Kills all that is inside at one stroke, where the kernel can.
    pub(super) fn kill(&self) {
        for part in self.parts.iter().filter(|part| part.kind == Kind::V2) {
            let _ = fs::write(part.directory.join("cgroup.kill"), "1");
        }
    }

    /// Whether the kernel had to kill for want of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.parts.iter().filter(|part| part.memory).any(|part| {
            let file = if part.kind == Kind::V1 { "memory.oom_control" } else { "memory.events" };
            killed_for_memory(&fs::read_to_string(part.directory.join(file)).unwrap_or_default())
        })
    }

    /// Removes the groups, which nobody is in any more. One that stays is removed by the next server.
    pub(super) fn remove(self) {
        for part in self.parts {
            let _ = fs::remove_dir(part.directory);
        }
    }
}

fn killed_for_memory(text: &str) -> bool {
    text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    const OWN: &str = "8:pids:/\n4:memory:/box/7\n3:cpu,cpuacct:/\n0::/user/part\n";

    fn check(line: &str, expected: Option<(&str, Kind, bool, bool)>) {
        let found = candidate(line, OWN);
        let found = found.as_ref().map(|it| (it.directory.to_str().expect("text"), it.kind, it.memory, it.pids));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn a_leaf_is_asked_for_or_cannot_be_done_without() {
        let wanted = |level, control_group, own_pid_max| {
            let policy = Policy { level, control_group, ..crate::policy::tests::sample() };
            Wanted::of(&policy, own_pid_max).map(|it| (it.memory_bytes >> 20, it.pids, it.kill))
        };
        assert_eq!(wanted(Level::A, false, true), None);
        assert_eq!(wanted(Level::A, true, true), Some((1024 + 64, None, false)));
        assert_eq!(wanted(Level::B, false, false), Some((1024 + 64, Some(512), false)));
        assert_eq!(wanted(Level::C, false, true), Some((1024, Some(512), true)));
    }

    #[test]
    fn layers_in_memory_are_memory() {
        use crate::policy::tests::{overlay, sample};
        let uppers = [Upper::Memory { bytes: 32 << 20 }, Upper::Directory { path: "/srv/layer".into() }];
        let policy = Policy { overlays: uppers.map(overlay).to_vec(), ..sample() };
        let wanted = Wanted::of(&policy, true).expect("the policy asks for it");
        assert_eq!(wanted.memory_bytes >> 20, 1024 + 64 + 32);
    }

    #[test]
    fn the_own_group_is_found_in_each_hierarchy() {
        let v1 = |root: &str, which: &str| format!("9 8 0:7 {root} /cg/{which} rw - cgroup cgroup rw,{which}");
        check(&v1("/", "pids"), Some(("/cg/pids/", Kind::V1, false, true)));
        check(&v1("/", "memory"), Some(("/cg/memory/box/7", Kind::V1, true, false)));
        check(&v1("/box", "memory"), Some(("/cg/memory/7", Kind::V1, true, false)));
        check(&v1("/other", "memory"), None);
        check(&v1("/", "cpu,cpuacct"), None);
        check(
            "9 8 0:7 / /cg rw shared:4 - cgroup2 none rw,nsdelegate",
            Some(("/cg/user/part", Kind::V2, false, false)),
        );
        check("9 8 0:7 / /cg rw - tmpfs none rw", None);
        check("", None);
    }

    #[test]
    fn only_what_norma_left_in_this_process_namespace_is_removed() {
        assert_eq!(left_by("norma-4026531836-77", "4026531836"), Pid::from_raw(77));
        assert_eq!(left_by("norma-4026531837-77", "4026531836"), None);
        assert_eq!(left_by("norma-77", "4026531836"), None);
        assert_eq!(left_by("normal", "4026531836"), None);
    }

    #[test]
    fn a_kill_for_memory_is_read_in_both_versions() {
        assert!(killed_for_memory("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"));
        assert!(killed_for_memory("low 0\nmax 4\noom 1\noom_kill 1\noom_group_kill 0\n"));
        assert!(!killed_for_memory("low 0\nmax 4\noom 1\noom_kill 0\n"));
    }

    #[test]
    fn controllers_are_taken_from_the_group_above_only_where_it_was_left_to_norma() {
        let directory = tempfile::tempdir().expect("a directory");
        let (above, own) = (directory.path().join("unit"), directory.path().join("unit/part"));
        fs::create_dir_all(&own).expect("make");
        fs::write(above.join("cgroup.subtree_control"), "memory pids\n").expect("write");
        fs::write(own.join("cgroup.subtree_control"), "\n").expect("write");
        let place = Place { directory: own.clone(), kind: Kind::V2, memory: false, pids: false };
        assert_eq!(usable(place.clone()), Some(place.clone()));
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&above, DELEGATED, b"1", flags).is_err() {
            return not_run::because("the file system has no trusted attributes");
        }
        assert_eq!(usable(place), Some(Place { directory: above, kind: Kind::V2, memory: true, pids: true }));
    }
}
