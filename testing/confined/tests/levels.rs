//! What each level holds besides the drill: who the program is, the limits, the death of the whole tree,
//! control groups, and what a machine that refuses user namespaces is found to give.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use confined::launch::{self, Ran};
use sandbox::{
    Effective, End, Error, Failure, HeldBy, Level, Overlay, Policy, Probe, Root, Streams, UNPRIVILEGED, Upper,
};
use tempfile::TempDir;

/// Somebody who owns nothing on any machine.
const ORDINARY: u32 = 54_321;

/// Longest that a death may take to show; it takes milliseconds on a machine that is idle.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);

struct Place {
    _directory: TempDir,
    helper: PathBuf,
    work: PathBuf,
    policy: Policy,
}

fn place(level: Level) -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("permit");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("work")).expect("make");
    launch::copy_helper(env!("CARGO_BIN_EXE_confined"), &at("bin/confined"));
    let mut policy = launch::policy(&at("bin/confined"), &at("work"));
    launch::at_level(&mut policy, level);
    Place { helper: at("bin/confined"), work: at("work"), policy, _directory: directory }
}

impl Place {
    fn run(&self, program: &str, args: &[&str]) -> Result<Ran, Error> {
        launch::run(&self.policy, &self.helper, program, args)
    }

    fn bomb(&self, kind: &str) -> Ran {
        self.run(&self.helper.display().to_string(), &["bomb", kind]).expect("run a bomb")
    }

    /// Runs a shell script and compares its whole output.
    fn check(&self, script: &str, expected: &str) {
        let ran = self.run("/bin/sh", &["-c", script]).expect("run a shell");
        assert_eq!((ran.stdout.as_str(), ran.report.end), (expected, End::Exited(0)), "{script}: {}", ran.stderr);
    }

    fn effective(&self) -> Effective {
        let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
        let streams = Streams { stdin: null(), stdout: null(), stderr: null() };
        let sandbox = sandbox::Sandbox::new(launch::set_up(&self.helper));
        let prepared = sandbox.prepare(&self.policy, &launch::command("/bin/true", &[]), &streams).expect("prepare");
        prepared.effective().clone()
    }

    /// Processes of this helper that still run.
    fn running(&self) -> usize {
        let is_ours =
            |entry: &fs::DirEntry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == self.helper);
        fs::read_dir("/proc").expect("list").flatten().filter(is_ours).count()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The levels that whoever runs the tests can have.
fn levels() -> Vec<Level> {
    if !is_root() {
        not_run::because("level B needs root");
    }
    Level::ALL.into_iter().filter(|level| is_root() || *level != Level::B).collect()
}

#[test]
fn every_level_is_what_it_says() {
    for level in levels() {
        let effective = place(level).effective();
        let own = rustix::process::geteuid().as_raw();
        let dedicated = is_root() && matches!(level, Level::B | Level::C);
        assert_eq!(effective.uid_outside, if dedicated { UNPRIVILEGED.uid } else { own }, "{level}");
        assert_eq!((effective.level, effective.capabilities, effective.seccomp_mode), (level, 0, 2));
        assert_eq!(effective.landlock_abi == 0, level == Level::AMinus, "{level}");
        let ended_by_kernel = effective.ended_by == HeldBy::PidNamespace;
        assert_eq!(ended_by_kernel, level != Level::C, "{level}");
        assert_eq!(level.losses().is_empty(), level == Level::A);
    }
}

#[test]
fn ordinary_work_works_at_every_level() {
    for level in levels() {
        let place = place(level);
        place.check("echo kept > file; cat file; (sleep 0; echo child) & wait", "kept\nchild\n");
        place.check("ulimit -c; umask; ls / >/dev/null 2>&1; cat /proc/self/comm", "0\n0022\ncat\n");
        if level == Level::C {
            place.check("mkdir d && mv file d/f && rm -r d; echo x 2>/dev/null > /tmp/norma-no || echo no", "no\n");
        } else {
            place.check("touch ~/x /tmp/y && cat ~/x /tmp/y; chmod 600 file && stat -c %a file", "600\n");
        }
    }
}

#[test]
fn a_workspace_that_is_not_given_to_the_program_is_refused() {
    if !is_root() {
        return not_run::because("level B needs root");
    }
    for level in [Level::B, Level::C] {
        let place = place(level);
        chown(&place.work, Some(0), Some(0)).expect("take back");
        let error = place.run("/bin/true", &[]).expect_err("it cannot write there");
        let words = format!("{} cannot be written by user {}", place.work.display(), UNPRIVILEGED.uid);
        assert!(matches!(&error, Error::BootFailure(why) if why.contains(&words)), "{error}");
        assert_eq!(fs::metadata(&place.work).expect("there").uid(), 0, "nothing of the user's changes hands");
    }
}

/// A tree of the caller's, closed to others but for reading, and a view of it in which the program works.
fn view_of_a_tree(place: &mut Place, upper: Upper) -> PathBuf {
    let root = place.work.parent().expect("an absolute path").to_owned();
    let tree = root.join("tree");
    fs::create_dir_all(tree.join("inner")).expect("make");
    for (name, mode) in [("edited", 0o644), ("gone", 0o644), ("inner/tool", 0o755), ("inner/closed", 0o600)] {
        fs::write(tree.join(name), "below\n").expect("write");
        fs::set_permissions(tree.join(name), PermissionsExt::from_mode(mode)).expect("permit");
    }
    for name in ["", "inner"] {
        fs::set_permissions(tree.join(name), PermissionsExt::from_mode(0o755)).expect("permit");
    }
    let (path, reason) = (root.join("view"), "the workspace".to_owned());
    place.policy.cwd.clone_from(&path);
    place.policy.overlays.push(Overlay { path, lower: vec![tree.clone()], upper, writable: true, reason });
    tree
}

/// A file of an open directory.
fn read_in(directory: &OwnedFd, name: &str) -> io::Result<String> {
    let file = rustix::fs::openat(directory, name, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())?;
    io::read_to_string(File::from(file))
}

fn check_view(upper: impl FnOnce(&Place) -> Upper) {
    let mut place = place(Level::B);
    let upper = upper(&place);
    let tree = view_of_a_tree(&mut place, upper);
    let script = "id -u; echo more >>edited && rm gone && cat inner/closed && chmod 700 inner/closed \
                  && rm inner/tool && echo new >inner/made && mv inner other && ls other && stat -c %u other/closed";
    let (output, theirs) = io::pipe().expect("pipe");
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let streams = Streams { stdin: null(), stdout: theirs.into(), stderr: null() };
    let sandbox = sandbox::Sandbox::new(launch::set_up(&place.helper));
    let command = launch::command("/bin/sh", &["-c", script]);
    let mut confined = sandbox.prepare(&place.policy, &command, &streams).and_then(|it| it.start()).expect("start");
    drop(streams);
    let layers = confined.take_layers();
    assert_eq!(confined.finish().expect("an end").end, End::Exited(0));
    assert_eq!(io::read_to_string(output).expect("read"), "65528\nbelow\nclosed\nmade\n65528\n");
    assert_eq!(read_in(&layers[0], "edited").expect("changed"), "below\nmore\n");
    assert_eq!(read_in(&layers[0], "other/made").expect("made"), "new\n");
    let stat = rustix::fs::statat(&layers[0], "gone", rustix::fs::AtFlags::SYMLINK_NOFOLLOW).expect("marked");
    assert!(rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device(), "the layer says that it is gone");
    for name in ["edited", "gone", "inner/tool", "inner/closed"] {
        assert_eq!(fs::read_to_string(tree.join(name)).expect("read"), "below\n");
        assert_eq!(fs::metadata(tree.join(name)).expect("there").uid(), 0, "nothing below changes hands");
    }
}

#[test]
fn a_program_that_is_another_user_can_change_everything_in_a_view() {
    if !is_root() {
        return not_run::because("level B needs root");
    }
    check_view(|_| Upper::Memory { bytes: 1 << 20 });
    check_view(|place| {
        let path = place.work.with_file_name("layer");
        fs::create_dir(&path).expect("make");
        Upper::Directory { path }
    });
}

#[test]
fn a_layer_without_room_for_the_tree_is_said_to_have_none() {
    if !is_root() {
        return not_run::because("level B needs root");
    }
    let mut place = place(Level::B);
    let tree = view_of_a_tree(&mut place, Upper::Memory { bytes: 1 << 20 });
    fs::write(tree.join("large"), vec![7; 2 << 20]).expect("write");
    let error = place.run("/bin/true", &[]).expect_err("there is no room");
    assert!(matches!(&error, Error::BootFailure(why) if why.contains("must hold a copy of all files")), "{error}");
    // What may not be changed needs no copy.
    place.policy.overlays[0].writable = false;
    place.check("cat edited; echo x >>edited || rm gone || echo x >new || echo closed", "below\nclosed\n");
}

#[test]
fn overlays_are_found_where_user_namespaces_are_refused() {
    if !is_root() {
        return not_run::because("level B needs root");
    }
    let place = place(Level::A);
    let output = Command::new(&place.helper).args(["without-user-namespaces", "0", "overlays"]).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "true\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_a_level_cannot_give_is_refused() {
    let mut place = place(Level::C);
    place.policy.hidden.push(Root::new(place.work.join(".env"), "secrets"));
    assert!(matches!(place.run("/bin/true", &[]), Err(Error::Policy(_))));
    place.policy.level = Level::Refuse;
    assert!(matches!(place.run("/bin/true", &[]), Err(Error::Policy(_))));
}

#[test]
fn limits_hold_at_every_level() {
    for level in levels() {
        let mut place = place(level);
        place.policy.limits.memory_bytes = 128 << 20;
        let made: u32 = place.bomb("fork").stdout.trim().parse().expect("a number");
        // Where only a user's limit holds it, the other processes of the user count, too.
        assert!(made < place.policy.limits.pids, "{level}: {made} were made");
        assert!(made >= 100 || place.effective().pids_by == HeldBy::Nproc, "{level}: {made} were made");
        let ran = place.bomb("memory-tree");
        assert_eq!(ran.report.failure(), Some(Failure::OutOfMemory), "{level}: {ran:?}");
        place.policy.limits.cpu_seconds = 1;
        let ran = place.bomb("cpu");
        assert_eq!(ran.report.failure(), Some(Failure::OutOfTime), "{level}: {ran:?}");
    }
}

#[test]
fn a_daemon_dies_with_the_program_at_every_level() {
    for level in levels() {
        let place = place(level);
        assert_eq!(place.bomb("daemon").report.end, End::Exited(0), "{level}");
        assert_eq!(place.running(), 0, "{level}: nothing lives when the end is reported");
    }
}

/// Starts a launcher of a program that does not want to end.
fn launcher(place: &Place, user: Option<u32>) -> std::process::Child {
    let document = place.work.join("policy.json");
    fs::write(&document, serde_json::to_vec(&place.policy).expect("plain data")).expect("write");
    let mut command = Command::new(&place.helper);
    command.arg("launch").arg(&document).arg(&place.helper).args(["bomb", "stubborn"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(user) = user {
        chown(&place.work, Some(user), Some(user)).expect("give away");
        command.uid(user).gid(user);
    }
    let mut launcher = command.spawn().expect("launch");
    let stdout = launcher.stdout.take().expect("piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("it is ready");
    assert_eq!(line, "ready\n", "{:?}", launcher.wait_with_output());
    launcher
}

/// Kills one of the processes that hold a sandbox, `depth` generations below the launcher, and sees
/// everything die.
fn check_killed(level: Level, user: Option<u32>, depth: usize) {
    let mut place = place(level);
    if user.is_some() {
        // What root sees is not what the other user does.
        let home = place.policy.home.clone();
        place.policy.read.retain(|root| !root.path.starts_with(&home));
        place.policy.hidden.clear();
    }
    let mut launcher = launcher(&place, user);
    let child_of = |pid: u32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
        children.split_whitespace().next().expect("a child").parse().expect("an id")
    };
    let pid = (0..depth).fold(launcher.id(), |pid, _| child_of(pid));
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("an id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    let _ = launcher.wait();
    let start = Instant::now();
    while place.running() > 0 {
        assert!(start.elapsed() < DEATH_PATIENCE, "{level}, {depth}: {} processes live on", place.running());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn everything_dies_with_whoever_held_it() {
    for level in levels().into_iter().filter(|it| matches!(it, Level::B | Level::C)) {
        // The launcher, the set-up process, and the first process.
        for depth in [0, 2, 3] {
            check_killed(level, None, depth);
        }
    }
    if is_root() {
        for depth in [0, 2, 3] {
            check_killed(Level::C, Some(ORDINARY), depth);
        }
    }
}

/// Asks the helper what the machine gives, where user namespaces are refused.
fn probe_without(user: u32) -> Probe {
    let place = place(Level::A);
    let user = user.to_string();
    let output = Command::new(&place.helper).args(["without-user-namespaces", &user, "probe"]).output().expect("run");
    let words = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {words}"))
}

#[test]
fn where_user_namespaces_are_refused_root_has_one_level_and_a_user_another() {
    let own = rustix::process::geteuid().as_raw();
    let user = if own == 0 { ORDINARY } else { own };
    let probe = probe_without(user);
    assert_eq!((probe.level, probe.at_least(Level::B)), (Level::C, None), "{probe:?}");
    let why: Vec<_> = probe.missing.iter().map(|it| (&it.what[..8], it.fix.as_str())).collect();
    let setting = "sudo sysctl -w user.max_user_namespaces=15000";
    let expected =
        [("level A:", setting), ("level A-", setting), ("level B:", "run norma as root, or allow user namespaces")];
    assert_eq!(why, expected);
    if own != 0 {
        return not_run::because("level B needs root");
    }
    let probe = probe_without(0);
    assert_eq!((probe.level, probe.at_least(Level::B)), (Level::B, Some(Level::B)), "{probe:?}");
}

/// The leaves of set-up processes below the group that the tests are in.
fn leaves() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").expect("groups");
    let path = own.lines().find_map(|line| line.split_once(":memory:").map(|it| it.1.to_owned()));
    let path = Path::new("/sys/fs/cgroup/memory").join(path.unwrap_or_default().trim_start_matches('/'));
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|it| it.file_name().to_string_lossy().starts_with("norma-")).map(|it| it.path()).collect()
}

#[test]
fn a_control_group_holds_memory_that_nobody_sees() {
    let mut place = place(Level::A);
    place.policy.limits.memory_bytes = 64 << 20;
    place.policy.limits.disk_bytes = 1 << 20;
    if place.effective().memory_by != HeldBy::Cgroup {
        return not_run::because("no memory control group can be had");
    }
    let ran = place.bomb("shared");
    assert_eq!(ran.report.failure(), Some(Failure::OutOfMemory), "{ran:?}");
}

#[test]
fn a_control_group_goes_with_its_sandbox_and_a_lost_one_later() {
    let place = place(Level::A);
    if place.effective().memory_by != HeldBy::Cgroup || leaves_of(&place).is_none() {
        return not_run::because("no memory control group can be had, or none in the hierarchy of cgroup v1");
    }
    let mut launcher = launcher(&place, None);
    let leaf = leaves_of(&place).and_then(|it| it.into_iter().next()).expect("a leaf while it runs");
    let set_up: i32 = leaf.to_string_lossy().rsplit_once('-').expect("an id").1.parse().expect("an id");
    let set_up = rustix::process::Pid::from_raw(set_up).expect("an id");
    rustix::process::kill_process(set_up, rustix::process::Signal::KILL).expect("kill");
    let _ = launcher.wait();
    assert!(leaf.exists(), "the one who would remove it was killed");
    // Whoever comes next removes it, after the first sandbox of theirs has been asked for.
    let start = Instant::now();
    while leaf.exists() {
        assert!(start.elapsed() < DEATH_PATIENCE, "{} is still there", leaf.display());
        place.check("sleep 0.05; echo next", "next\n");
    }
}

/// The leaves in which this place's helper runs; `None` where they are not to be seen.
fn leaves_of(place: &Place) -> Option<Vec<PathBuf>> {
    if !Path::new("/sys/fs/cgroup/memory").exists() {
        return None;
    }
    let runs_in = |leaf: &PathBuf| {
        let procs = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
        procs.lines().any(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == place.helper))
    };
    Some(leaves().into_iter().filter(runs_in).collect())
}
