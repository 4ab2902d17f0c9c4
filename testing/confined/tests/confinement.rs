//! What the sandbox promises beyond the drill: limits, the death of the whole tree, refusal of what
//! is weaker than asked, the proxy, and that ordinary work works.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use confined::launch::{self, Ran};
use sandbox::proxy::Verdict;
use sandbox::{
    Commands, End, Error, Exhausted, Failure, Heard, HostPort, Judge, Level, Network, Overlay, Placed, Policy, Root,
    Streams, Upper,
};
use tempfile::TempDir;

/// Longest that a death may take to show; it takes milliseconds on a machine that is idle.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);

struct Place {
    dir: TempDir,
    helper: PathBuf,
    work: PathBuf,
    policy: Policy,
}

fn place() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("permit");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("work")).expect("make");
    launch::copy_helper(env!("CARGO_BIN_EXE_confined"), &at("bin/confined"));
    let policy = launch::policy(&at("bin/confined"), &at("work"));
    Place { helper: at("bin/confined"), work: at("work"), policy, dir: directory }
}

impl Place {
    fn run(&self, program: &str, args: &[&str]) -> Result<Ran, Error> {
        launch::run(&self.policy, &self.helper, program, args)
    }

    fn shell(&self, script: &str) -> Ran {
        self.run("/bin/sh", &["-c", script]).expect("run a shell")
    }

    fn bomb(&self, kind: &str) -> Ran {
        self.run(&self.helper.display().to_string(), &["bomb", kind]).expect("run a bomb")
    }
}

/// Runs a shell script and compares its whole output.
fn check(script: &str, expected: &str) {
    let ran = place().shell(script);
    assert_eq!((ran.stdout.as_str(), ran.report.end), (expected, End::Exited(0)), "{}", ran.stderr);
}

#[test]
fn this_machine_gives_everything() {
    let probe = sandbox::probe(&sandbox::Sandbox::new(launch::set_up(&place().helper)));
    assert_eq!(probe.level, Level::A, "{probe:?}");
    assert_eq!(probe.missing, []);
}

#[test]
fn a_program_finds_what_the_policy_says() {
    check("echo $$; hostname 2>/dev/null || cat /proc/sys/kernel/hostname", "2\nnorma\n");
    check("env | cut -d= -f1 | grep -v _ | sort | tr '\\n' ' '", "HOME LANG PATH PWD ");
    check("ls -A ~ | grep -v '^\\.' ; ls -A /run /var/tmp /dev/shm", "/dev/shm:\n\n/run:\n\n/var/tmp:\n");
    // Globs are the shell's own, so there are only its parent and itself to be seen, whatever the timing.
    check("ls /sys 2>/dev/null; cd /proc; echo [0-9]*", "1 2\n");
    check("echo kept > file; cat file; echo x > /tmp/y; cat /tmp/y", "kept\nx\n");
    check("ulimit -c; umask", "0\n0022\n");
}

#[test]
fn streams_and_ends_come_through() {
    let ran = place().shell("echo out; echo err >&2; exit 7");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.report.end), ("out\n", "err\n", End::Exited(7)));
    assert_eq!(ran.report.failure(), None);
    let ran = place().shell("kill -9 $$");
    assert_eq!((ran.report.end, ran.report.failure()), (End::Signaled(9), Some(Failure::Killed)));
    assert!(ran.report.usage.resident_bytes_max > 0);
}

#[test]
fn a_program_that_is_not_there_is_told_from_one_that_fails() {
    let error = place().run("norma-no-such-program", &[]).expect_err("nothing to run");
    assert!(matches!(error, Error::NotStarted(_)), "{error}");
}

#[test]
fn ordinary_work_works() {
    let place = place();
    fs::write(place.work.join("hello.rs"), "fn main() { println!(\"hello\"); }").expect("write");
    fs::write(place.work.join("hello.c"), "int puts(const char*); int main() { return puts(\"hello\") < 0; }")
        .expect("write");
    let tools = [
        ("cargo", "cargo --version >/dev/null && echo hello"),
        ("rustc", "rustc hello.rs && ./hello"),
        ("cargo", "cargo new -q --vcs none pkg && cd pkg && cargo test -q --offline >/dev/null && echo hello"),
        ("cc", "cc hello.c -o c && ./c"),
        (
            "git",
            "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=tformat:hello",
        ),
        ("python3", "python3 -c 'import subprocess, threading, tempfile, ssl; print(\"hello\")'"),
        ("node", "node -e 'console.log(\"hello\")'"),
    ];
    let mut worked = 0;
    for (tool, script) in tools {
        if !Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|it| it.success())
        {
            not_run::because(format_args!("{tool} is not installed"));
            continue;
        }
        let ran = place.shell(script);
        assert_eq!((ran.stdout.as_str(), ran.report.end), ("hello\n", End::Exited(0)), "{script}: {}", ran.stderr);
        worked += 1;
    }
    assert!(worked > 0, "no tool is installed");
}

#[test]
fn a_service_on_the_own_loopback_works() {
    let script = "import socket, threading
s = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start()
print(socket.create_connection(s.getsockname()).recv(9).decode())";
    let place = place();
    if !Path::new("/usr/bin/python3").exists() {
        return not_run::because("python3 is not installed");
    }
    let ran = place.run("/usr/bin/python3", &["-c", script]).expect("run");
    assert_eq!(ran.stdout, "hi\n", "{}", ran.stderr);
}

#[test]
fn a_fork_bomb_ends_at_the_limit() {
    let place = place();
    let ran = place.bomb("fork");
    let made: u32 = ran.stdout.trim().parse().expect("a number");
    assert!((100..place.policy.limits.pids).contains(&made), "{made} were made");
}

#[test]
fn a_memory_bomb_ends_at_the_limit() {
    let mut place = place();
    place.policy.limits.memory_bytes = 256 << 20;
    let ran = place.bomb("memory");
    assert_eq!(ran.report.failure(), Some(Failure::OutOfMemory), "{ran:?}");
    assert!(ran.report.usage.resident_bytes_max <= 256 << 20, "{ran:?}");
}

#[test]
fn a_tree_that_shares_the_bomb_ends_too() {
    let mut place = place();
    place.policy.limits.memory_bytes = 128 << 20;
    // It might be faster than the look that is tried here.
    place.policy.control_group = false;
    let start = Instant::now();
    let ran = place.bomb("memory-tree");
    assert_eq!((ran.report.end, ran.report.failure()), (End::Signaled(9), Some(Failure::OutOfMemory)));
    assert_eq!(ran.report.exhausted, [Exhausted::Memory]);
    assert!(start.elapsed() < DEATH_PATIENCE);
}

#[test]
fn a_disk_bomb_ends_at_the_limit() {
    let mut place = place();
    place.policy.limits.disk_bytes = 8 << 20;
    let ran = place.bomb("disk");
    let written: u64 = ran.stdout.trim().parse().expect("a number");
    assert!(((7 << 20)..=(8 << 20)).contains(&written), "{written}");
    assert_eq!(ran.report.failure(), Some(Failure::DiskFull));
    place.policy.limits.file_bytes = 1 << 20;
    let ran = place.bomb("file");
    assert_eq!((ran.report.end, ran.report.failure()), (End::Signaled(libc::SIGXFSZ), Some(Failure::DiskFull)));
    assert_eq!(fs::metadata(place.work.join("bomb")).expect("written").len(), 1 << 20);
}

#[test]
fn a_processor_bomb_ends_at_the_limit() {
    let mut place = place();
    place.policy.limits.cpu_seconds = 1;
    let ran = place.bomb("cpu");
    assert_eq!(ran.report.failure(), Some(Failure::OutOfTime), "{ran:?}");
    let ran = place.shell("(while :; do :; done) & (while :; do :; done) & wait");
    assert_eq!(ran.report.failure(), Some(Failure::OutOfTime), "{ran:?}");
    assert!(ran.report.usage.cpu() < Duration::from_secs(3), "{ran:?}");
}

/// Processes of this helper that still run.
fn running(helper: &Path) -> usize {
    let is_ours = |entry: fs::DirEntry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == helper);
    fs::read_dir("/proc")
        .expect("list")
        .flatten()
        .filter(|entry| entry.path().join("exe").is_symlink())
        .filter_map(|it| is_ours(it).then_some(()))
        .count()
}

fn wait_until_gone(helper: &Path) {
    let start = Instant::now();
    while running(helper) > 0 {
        assert!(start.elapsed() < DEATH_PATIENCE, "{} processes live on", running(helper));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_daemon_dies_with_the_program() {
    let place = place();
    let ran = place.bomb("daemon");
    assert_eq!(ran.report.end, End::Exited(0));
    assert_eq!(running(&place.helper), 0, "nothing lives when the end is reported");
}

fn start(place: &Place, bomb: &str) -> (sandbox::Confined, BufReader<std::io::PipeReader>) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let streams = Streams { stdin: null(), stdout: writer.into(), stderr: null() };
    let command = launch::command(&place.helper.display().to_string(), &["bomb", bomb]);
    let prepared = sandbox::Sandbox::new(launch::set_up(&place.helper))
        .prepare(&place.policy, &command, &streams)
        .expect("prepare");
    assert!(prepared.pid() > 0 && prepared.effective().capabilities == 0);
    (prepared.start().expect("start"), BufReader::new(reader))
}

#[test]
fn a_program_that_will_not_stop_is_killed() {
    let place = place();
    let (confined, mut output) = start(&place, "stubborn");
    output.read_line(&mut String::new()).expect("it is ready");
    confined.ask_to_stop().expect("ask");
    thread::sleep(Duration::from_millis(100));
    assert!(running(&place.helper) > 0, "it ignores the request");
    confined.kill().expect("kill");
    let report = confined.finish().expect("an end");
    assert_eq!((report.end, report.failure()), (End::Killed, Some(Failure::Killed)));
    assert_eq!(running(&place.helper), 0);
}

#[test]
fn an_orderly_end_is_possible() {
    let place = place();
    let (confined, _output) = start(&place, "some");
    thread::sleep(Duration::from_millis(100));
    confined.ask_to_stop().expect("ask");
    assert_eq!(confined.finish().expect("an end").end, End::Signaled(libc::SIGTERM));
}

#[test]
fn dropping_the_hold_kills() {
    let place = place();
    let (confined, _output) = start(&place, "stubborn");
    drop(confined);
    assert_eq!(running(&place.helper), 0);
}

#[test]
fn what_is_prepared_does_not_run_until_it_is_started() {
    let place = place();
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let streams = Streams { stdin: null(), stdout: null(), stderr: null() };
    let command = launch::command("/bin/sh", &["-c", "echo ran > ran"]);
    let prepared = sandbox::Sandbox::new(launch::set_up(&place.helper))
        .prepare(&place.policy, &command, &streams)
        .expect("prepare");
    thread::sleep(Duration::from_millis(50));
    drop(prepared);
    assert!(!place.work.join("ran").exists());
    assert_eq!(running(&place.helper), 0);
}

/// A launcher of a bomb, run by this user or, as root, by another.
fn launcher(place: &mut Place, user: Option<u32>, bomb: &str) -> Command {
    let document = place.work.join("policy.json");
    if let Some(user) = user {
        place.policy.identity = sandbox::Identity { uid: user, gid: user };
        // What root sees and hides is not what the other user does.
        let home = place.policy.home.clone();
        place.policy.read.retain(|root| !root.path.starts_with(&home));
        place.policy.hidden.clear();
        chown(&place.work, Some(user), Some(user)).expect("give away");
    }
    fs::write(&document, serde_json::to_vec(&place.policy).expect("plain data")).expect("write");
    let mut command = Command::new(&place.helper);
    command.arg("launch").arg(&document).arg(&place.helper).args(["bomb", bomb]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command
}

#[test]
fn limits_hold_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return not_run::because("only root can become another user");
    }
    let user = Some(54_321);
    let mut place = place();
    place.policy.limits.memory_bytes = 128 << 20;
    let output = launcher(&mut place, user, "fork").output().expect("launch");
    let made: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    assert!((100..place.policy.limits.pids).contains(&made), "{made} were made");
    let output = launcher(&mut place, user, "memory-tree").output().expect("launch");
    assert!(String::from_utf8_lossy(&output.stderr).contains("exhausted: [Memory]"), "{output:?}");
    let output = launcher(&mut place, user, "disk").output().expect("launch");
    let written: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    assert!(written <= place.policy.limits.disk_bytes, "{written}");
}

/// Kills the launcher, or its set-up process, and sees everything die.
fn check_killed(user: Option<u32>, whom: &str) {
    let mut place = place();
    let mut command = launcher(&mut place, user, "stubborn");
    let mut launcher = command.spawn().expect("launch");
    let stdout = launcher.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut String::new()).expect("it is ready");
    assert!(running(&place.helper) >= 4, "launcher, set-up, first process, program");
    let pid = match whom {
        "launcher" => launcher.id(),
        _ => {
            let child_of = |pid: u32| {
                let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
                children.split_whitespace().next().expect("a child").parse().expect("an id")
            };
            let server = child_of(launcher.id());
            if whom == "server" { server } else { child_of(server) }
        }
    };
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).expect("an id"),
        rustix::process::Signal::KILL,
    )
    .expect("kill");
    let _ = launcher.wait();
    wait_until_gone(&place.helper);
}

#[test]
fn everything_dies_with_whoever_started_it() {
    check_killed(None, "launcher");
    check_killed(None, "set-up");
    if rustix::process::geteuid().is_root() {
        check_killed(Some(54_321), "launcher");
        check_killed(Some(54_321), "set-up");
    } else {
        not_run::because("only root can become another user");
    }
}

#[test]
fn what_is_weaker_than_asked_is_refused_and_nothing_runs() {
    let mut place = place();
    place.policy.landlock_abi_min = 1000;
    let error = place.run("/bin/sh", &["-c", "echo ran > ran"]).expect_err("no kernel has that");
    assert!(matches!(&error, Error::Weaker(what) if what.len() == 1), "{error}");
    assert!(!place.work.join("ran").exists());
}

#[test]
fn an_unsound_policy_makes_no_process() {
    let mut place = place();
    place.policy.cwd = "relative".into();
    assert!(matches!(place.run("/bin/true", &[]), Err(Error::Policy(_))));
}

#[test]
fn a_protected_path_that_is_missing_is_refused() {
    let mut place = place();
    place.policy.protected.push(Root::new(place.work.join(".git"), "history"));
    let error = place.run("/bin/true", &[]).expect_err("nothing to protect");
    assert!(matches!(&error, Error::BootFailure(why) if why.contains("could not protect")), "{error}");
    place.policy.protected.clear();
    place.policy.hidden.push(Root::new(place.work.join(".env"), "secrets"));
    let error = place.run("/bin/true", &[]).expect_err("nothing to hide");
    assert!(matches!(&error, Error::BootFailure(why) if why.contains("could not hide")), "{error}");
    assert_eq!(fs::read_dir(&place.work).expect("list").count(), 0, "nothing was made on the machine");
}

#[test]
fn a_link_in_the_workspace_moves_no_mount() {
    let mut place = place();
    let elsewhere = place.work.parent().expect("a parent").join("elsewhere");
    fs::create_dir(&elsewhere).expect("make");
    std::os::unix::fs::symlink(&elsewhere, place.work.join("home")).expect("link");
    place.policy.home = place.work.join("home/agent");
    let error = place.run("/bin/true", &[]).expect_err("a link is no directory");
    assert!(matches!(&error, Error::BootFailure(_)), "{error}");
    assert_eq!(fs::read_dir(&elsewhere).expect("list").count(), 0, "nothing was made on the machine");
}

#[test]
fn a_missing_set_up_program_is_an_error() {
    let mut place = place();
    place.helper = "/norma/no/such/program".into();
    assert!(matches!(place.run("/bin/true", &[]), Err(Error::SetUp { .. })));
    place.helper = "/bin/true".into();
    assert!(matches!(place.run("/bin/true", &[]), Err(Error::SetUp { .. })));
}

/// The session of a process. It is 0 when its leader is outside of this process namespace, which `getsid` of
/// `rustix` takes for impossible.
fn session(pid: &str) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, after_name) = stat.rsplit_once(')').expect("a name");
    after_name.split_whitespace().nth(3).expect("a session").parse().expect("a number")
}

#[test]
fn a_lost_server_is_replaced_and_takes_no_program_with_it() {
    let place = place();
    let sandbox = sandbox::Sandbox::new(launch::set_up(&place.helper));
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let streams = Streams { stdin: null(), stdout: null(), stderr: null() };
    let command = launch::command("/bin/sh", &["-c", "sleep 0.2; exit 5"]);
    let confined = sandbox.prepare(&place.policy, &command, &streams).and_then(|it| it.start()).expect("start");
    let status = fs::read_to_string(format!("/proc/{}/status", confined.pid())).expect("it lives");
    let server: i32 =
        status.lines().find_map(|it| it.strip_prefix("PPid:")).expect("a parent").trim().parse().expect("an id");
    assert_ne!(session(&server.to_string()), session("self"), "a terminal's signals do not reach it");
    let server = rustix::process::Pid::from_raw(server).expect("an id");
    rustix::process::kill_process(server, rustix::process::Signal::KILL).expect("kill");
    let again = sandbox.prepare(&place.policy, &command, &streams).and_then(|it| it.start()).expect("start again");
    assert_eq!(confined.finish().expect("an end").end, End::Exited(5));
    assert_eq!(again.finish().expect("an end").end, End::Exited(5));
}

/// A service that answers one line to each connection, on the machine's loopback.
fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    port
}

/// Speaks to the proxy with nothing but a shell that knows `/dev/tcp`.
fn ask(request: &str) -> String {
    format!("exec 3<>/dev/tcp/127.0.0.1/3128; printf '{request}' >&3; cat <&3")
}

#[test]
fn the_proxy_connects_to_what_is_listed_and_reports_everything() {
    let mut place = place();
    let (listed, unlisted) = (service(), service());
    let hosts = ["127.0.0.1", "localhost"].map(|host| HostPort { host: host.to_owned(), port: listed });
    place.policy.network = Network::Allow(hosts.to_vec());
    let bash = |script: &str| place.run("/bin/bash", &["-c", script]).expect("run");
    let ran = bash(&ask(&format!("GET http://127.0.0.1:{listed}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")));
    assert!(ran.stdout.ends_with("hello\n"), "{ran:?}");
    let [attempt] = ran.report.network.as_slice() else { panic!("{ran:?}") };
    assert_eq!((attempt.host.as_str(), attempt.port, &attempt.verdict), ("127.0.0.1", listed, &Verdict::Allowed));
    assert!(attempt.sent_bytes > 0 && attempt.received_bytes > 6, "{attempt:?}");
    let ran = bash(&ask(&format!("CONNECT 127.0.0.1:{listed} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.0\\r\\n\\r\\n")));
    assert!(ran.stdout.starts_with("HTTP/1.1 200 Connection established\r\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("hello\n"), "{ran:?}");
    let ran =
        bash(&format!("{} | grep -q 403; exit 9", ask(&format!("CONNECT 127.0.0.1:{unlisted} HTTP/1.1\\r\\n\\r\\n"))));
    assert_eq!(ran.report.failure(), Some(Failure::NetworkRefused), "{ran:?}");
    assert_eq!(ran.report.network[0].verdict, Verdict::Refused("not on the list".to_owned()));
    let ran = bash(&format!("exec 3<>/dev/tcp/127.0.0.1/{listed}; printf 'x\\r\\n' >&3; cat <&3"));
    assert!(ran.stdout.ends_with("hello\n"), "a listener at the same address: {ran:?}");
    assert_eq!(ran.report.network.len(), 1);
    let ran = bash(&format!("exec 3<>/dev/tcp/127.0.0.1/{unlisted}"));
    assert_ne!(ran.report.end, End::Exited(0), "no listener where nothing is listed");
    let ran = bash("echo $HTTP_PROXY $https_proxy $NO_PROXY");
    assert_eq!(ran.stdout, "http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1\n");
}

#[test]
fn behind_a_door_the_caller_itself_answers_and_nothing_else_is_reached() {
    let mut place = place();
    let elsewhere = service();
    place.policy.door = Some(4180);
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/4180; echo hi >&3; cat <&3; (exec 4<>/dev/tcp/127.0.0.1/{elsewhere}) 2>/dev/null && \
         echo out; echo \"[$HTTP_PROXY]\""
    );
    let (output, theirs) = std::io::pipe().expect("pipe");
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let streams = Streams { stdin: null(), stdout: theirs.into(), stderr: null() };
    let sandbox = sandbox::Sandbox::new(launch::set_up(&place.helper));
    let command = launch::command("/bin/bash", &["-c", &script]);
    let mut prepared = sandbox.prepare(&place.policy, &command, &streams).expect("prepare");
    let door = prepared.take_door().expect("a door");
    let answering = thread::spawn(move || {
        let (mut client, from) = door.accept().expect("accept");
        let mut heard = [0; 3];
        client.read_exact(&mut heard).expect("read");
        client.write_all(b"from outside\n").expect("answer");
        (from.ip().is_loopback(), heard)
    });
    let confined = prepared.start().expect("start");
    drop(streams);
    assert_eq!(confined.finish().expect("an end").end, End::Exited(0));
    assert_eq!(std::io::read_to_string(output).expect("read"), "from outside\n[]\n");
    assert_eq!(answering.join().expect("an answer"), (true, *b"hi\n"));
}

#[test]
fn a_listed_name_that_leads_to_this_machine_is_refused() {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let name = name.trim().to_owned();
    let leads_here = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 1))
        .is_ok_and(|mut it| it.any(|it| it.ip().is_loopback()));
    if !leads_here || name == "localhost" {
        return not_run::because("the name of this machine does not lead to its loopback address");
    }
    let mut place = place();
    let port = service();
    place.policy.network = Network::Allow(vec![HostPort { host: name.clone(), port }]);
    let script = ask(&format!("CONNECT {name}:{port} HTTP/1.1\\r\\n\\r\\n"));
    let ran = place.run("/bin/bash", &["-c", &script]).expect("run");
    assert_eq!(ran.report.network[0].verdict, Verdict::Refused("the name leads to this machine".to_owned()));
}

/// The names in a directory that is only known by its descriptor.
fn names_in(directory: &OwnedFd) -> Vec<String> {
    let entries = rustix::fs::Dir::read_from(directory).expect("list");
    let names = entries.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|it| it != "." && it != "..").collect();
    names.sort();
    names
}

#[test]
fn changes_to_a_view_are_in_its_layer_and_nowhere_else() {
    let mut place = place();
    let base = place.dir.path().join("base, with: odd\\name");
    let (top, view) = (place.dir.path().join("top"), place.dir.path().join("seen/here"));
    for dir in [base.join("gone"), top.clone()] {
        fs::create_dir_all(dir).expect("make");
    }
    for name in ["kept", "gone/a", "edited"] {
        fs::write(base.join(name), "below").expect("write");
    }
    fs::write(top.join("kept"), "above").expect("write");
    place.policy.overlays.push(Overlay {
        path: view.clone(),
        lower: vec![top, base.clone()],
        upper: Upper::Memory { bytes: 1 << 20 },
        writable: true,
        reason: "the view".to_owned(),
    });
    place.policy.cwd = view;
    let script = "cat kept; rm -r gone && mkdir gone && echo x >>edited && echo new >made && echo x >../escaped; \
                  head -c 2000000 /dev/zero >big; exit 3";
    let (output, theirs) = std::io::pipe().expect("pipe");
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let streams = Streams { stdin: null(), stdout: theirs.into(), stderr: null() };
    let sandbox = sandbox::Sandbox::new(launch::set_up(&place.helper));
    let command = launch::command("/bin/sh", &["-c", script]);
    let mut confined = sandbox.prepare(&place.policy, &command, &streams).and_then(|it| it.start()).expect("start");
    drop(streams);
    let layers = confined.take_layers();
    let report = confined.finish().expect("an end");
    assert_eq!(std::io::read_to_string(output).expect("read"), "above");
    assert_eq!((report.end, report.failure()), (End::Exited(3), Some(Failure::DiskFull)));
    assert_eq!(names_in(&layers[0]), ["big", "edited", "gone", "made"]);
    assert_eq!(fs::read_to_string(base.join("edited")).expect("read"), "below");
    assert!(base.join("gone/a").exists() && !place.dir.path().join("seen").exists());
}

#[test]
fn a_directory_is_seen_where_it_is_placed_and_around_it_is_nothing() {
    let mut place = place();
    let at = |name: &str| place.dir.path().join(name);
    for name in ["live", "steps/001-plan", "base/.norma/runs"] {
        fs::create_dir_all(at(name)).expect("make");
    }
    fs::write(at("base/.norma/secret"), "x").expect("write");
    fs::write(at("steps/001-plan/plan.md"), "plan").expect("write");
    let (repo, run) = (at("repo"), at("repo/.norma/runs/1/steps"));
    let view = |path: &Path, lower: &str, writable| Overlay {
        path: path.to_owned(),
        lower: vec![at(lower)],
        upper: Upper::Memory { bytes: 1 << 20 },
        writable,
        reason: "a view".to_owned(),
    };
    let own = Placed { source: at("live"), path: run.join("002-do"), writable: true, reason: "its step".to_owned() };
    let views = vec![view(&repo, "base", true), view(&run, "steps", false)];
    let live = at("live");
    place.policy.empty = vec![Root::new(repo.join(".norma"), "the state directory")];
    (place.policy.placed, place.policy.overlays, place.policy.cwd) = (vec![own], views, repo);
    let script = "cat .norma/runs/1/steps/001-plan/plan.md; ls -A .norma; echo done >.norma/runs/1/steps/002-do/out; \
                  echo x >.norma/runs/1/steps/001-plan/plan.md; echo x >.norma/x; mkdir .norma/runs/2; \
                  rm -r .norma/runs/1/steps/001-plan; mkdir .norma/runs/1/steps/003; mv .norma other; \
                  cat .norma/runs/1/steps/001-plan/plan.md; ls .norma/runs/1/steps | wc -l";
    let ran = place.run("/bin/sh", &["-c", script]).expect("run");
    assert_eq!(ran.stdout, "planruns\nplan2\n", "{ran:?}");
    assert_eq!(fs::read_to_string(live.join("out")).expect("read"), "done\n");
    assert_eq!(fs::read_to_string(place.dir.path().join("steps/001-plan/plan.md")).expect("read"), "plan");
}

/// A place in which somebody listens.
fn heard() -> Place {
    let mut place = place();
    place.policy.heard = Some(Heard::default());
    place
}

/// The commands of a script, by who listens.
fn commands(script: &str) -> Commands {
    let ran = heard().shell(script);
    assert_eq!(ran.report.end, End::Exited(0), "{}", ran.stderr);
    ran.report.commands.expect("somebody listened")
}

#[test]
fn what_a_program_or_its_shell_starts_is_counted_and_what_those_start_is_not() {
    let direct = |script: &str| commands(script).direct;
    assert_eq!(direct(":; echo x > file"), 0);
    assert_eq!(direct("for i in 1 2 3 4 5 6 7 8 9; do ls > /dev/null; done"), 9);
    assert_eq!(direct("sh -c 'ls; ls; ls' > /dev/null; sh -c :"), 4);
    assert_eq!(direct("(ls; (ls)) > /dev/null; exec true"), 2);
    assert_eq!(direct("nothing-of-this-name 2> /dev/null; true"), 0);
    // A build's own children are its own.
    assert_eq!(direct("find . -exec sh -c 'ls; ls' ';' > /dev/null"), 1);
    let found = commands("ls -a > /dev/null; echo a b | cat > /dev/null");
    assert_eq!((found.first, found.all), (vec!["ls -a".to_owned(), "cat".to_owned()], 3));
}

#[test]
fn what_is_reached_past_the_proxy_is_on_record() {
    let python = "import socket\nfor kind, to in [(1, ('127.0.0.1', 9)), (1, ('8.8.8.8', 443)), (2, ('1.1.1.1', 53))]:\n \
                  try: socket.socket(2, kind).connect(to)\n except OSError: pass\n\
                  s = socket.socket(2, 2)\ntry: s.sendto(b'x', ('9.9.9.9', 53))\nexcept OSError: pass\n\
                  own = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(own.getsockname())\n";
    let ran = heard().run("python3", &["-c", python]).expect("run python");
    assert_eq!(ran.report.end, End::Exited(0), "{}", ran.stderr);
    let reached: Vec<_> = ran.report.network.iter().map(|it| format!("{}:{}", it.host, it.port)).collect();
    assert_eq!(reached, ["1.1.1.1:53", "8.8.8.8:443", "9.9.9.9:53", "127.0.0.1:9"]);
    assert!(ran.report.network.iter().all(|it| !it.verdict.is_allowed()));
}

#[test]
fn only_what_is_startable_is_started() {
    let mut place = heard();
    let shell = fs::canonicalize("/bin/sh").expect("a shell");
    place.policy.startable = Some(vec![Root::new(&shell, "the program")]);
    let ran = place.shell("echo it works > file; ls; /bin/ls; sh -c 'echo so does this'");
    assert_eq!((ran.stdout.as_str(), ran.report.end), ("so does this\n", End::Exited(0)), "{}", ran.stderr);
    let refused: Vec<_> = ran.report.commands.expect("heard").refused.into_iter().map(|it| it.command).collect();
    assert_eq!(refused, ["ls", "/bin/ls"]);
}

#[test]
fn what_is_refused_does_not_run() {
    let place = heard();
    let judge: Judge = Box::new(|it| it.argv.iter().any(|word| word == "-rf").then(|| "forbidden".to_owned()));
    let (_, theirs) = std::io::pipe().expect("a pipe");
    let theirs = OwnedFd::from(theirs);
    let clone = || theirs.try_clone().expect("duplicate");
    let streams = Streams { stdin: File::open("/dev/null").expect("open").into(), stdout: clone(), stderr: clone() };
    let script = "mkdir a b; rm -rf a; rm -r b; test -d a && test ! -d b";
    let command = launch::command("/bin/sh", &["-c", script]);
    let sandbox = sandbox::Sandbox::new(launch::set_up(&place.helper));
    let prepared = sandbox.prepare(&place.policy, &command, &streams).expect("prepare");
    let report = prepared.start_judged(Some(judge)).expect("start").finish().expect("finish");
    assert_eq!(report.end, End::Exited(0));
    let refused = report.commands.expect("heard").refused;
    assert_eq!(refused.iter().map(|it| it.command.as_str()).collect::<Vec<_>>(), ["rm -rf a"]);
}
