//! Running something confined with a policy that a test can change.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs, thread};

use sandbox::visible;
use sandbox::{Command, End, Error, Identity, Limits, Network, Policy, Report, Root, Sandbox, SetUp, Streams};

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
        env: variables,
        cwd: work.to_owned(),
        home,
        network: Network::Deny,
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
        landlock_abi_min: sandbox::probe::LANDLOCK_ABI_FULL,
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

/// Prints the median time in microseconds of a spawn of `/bin/true`.
pub fn bench(how: &str, count: usize) {
    let helper = env::current_exe().expect("own path");
    let work = env::temp_dir().join(format!("norma-bench-{}", std::process::id()));
    fs::create_dir_all(&work).expect("make");
    let policy = policy(&helper, &work);
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("open"));
    let plain = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("run").success());
    };
    let bubblewrap = "--unshare-all --unshare-user --disable-userns --cap-drop ALL --new-session --die-with-parent --clearenv \
        --ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
        --symlink usr/sbin /sbin --proc /proc --dev /dev --tmpfs /tmp --tmpfs /run --tmpfs /var/tmp --tmpfs /home/x /bin/true";
    let bubblewrap: Vec<_> = bubblewrap.split_whitespace().collect();
    let native = |sandbox: &Sandbox| {
        let streams = Streams { stdin: null(), stdout: null(), stderr: null() };
        let prepared = sandbox.prepare(&policy, &command("/bin/true", &[]), &streams).expect("prepare");
        let report = prepared.start().and_then(|it| it.finish()).expect("run");
        assert_eq!(report.end, End::Exited(0));
    };
    let warm = Sandbox::new(set_up(&helper));
    let once = |how: &str| match how {
        "plain" => plain("/bin/true", &[]),
        // What any second executable costs: the helper is executed, and executes.
        "floor" => plain("/usr/bin/env", &["-i", "/bin/true"]),
        "bubblewrap" => plain("bwrap", &bubblewrap),
        "native" => native(&warm),
        // The first start of a process: the set-up server is executed, too.
        "native-cold" => native(&Sandbox::new(set_up(&helper))),
        other => panic!("unknown way {other}"),
    };
    let ways: Vec<_> = how.split(',').collect();
    let mut times = vec![Vec::new(); ways.len()];
    // Interleaved, so that what else the machine does hits all alike.
    for _ in 0..count {
        for (index, way) in ways.iter().enumerate() {
            let start = Instant::now();
            once(way);
            times[index].push(start.elapsed().as_micros());
        }
    }
    for (way, times) in ways.iter().zip(&mut times) {
        times.sort_unstable();
        println!("{way} p50 {} us, p90 {} us", times[times.len() / 2], times[times.len() * 9 / 10]);
    }
    let _ = fs::remove_dir_all(work);
}

/// Reads everything a service sends, directly or `via` a proxy, and prints the microseconds it took.
pub fn fetch(address: &str, via: &str) {
    let start = Instant::now();
    let mut stream = TcpStream::connect(if via == "direct" { address } else { via }).expect("connect");
    if via != "direct" {
        write!(stream, "CONNECT {address} HTTP/1.1\r\n\r\n").expect("ask");
    }
    let mut buffer = vec![0; 256 * 1024];
    while stream.read(&mut buffer).expect("read") > 0 {}
    println!("{}", start.elapsed().as_micros());
}

/// Prints how fast a loopback transfer is directly and through the sandbox's proxy.
pub fn bench_proxy(mebibytes: usize) {
    let helper = env::current_exe().expect("own path");
    let work = env::temp_dir().join(format!("norma-bench-{}", std::process::id()));
    fs::create_dir_all(&work).expect("make");
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("bound").to_string();
    thread::spawn(move || {
        let block = vec![7; 1 << 20];
        for mut stream in listener.incoming().flatten() {
            (0..mebibytes).try_for_each(|_| stream.write_all(&block)).expect("send");
        }
    });
    let mut policy = policy(&helper, &work);
    policy.network = Network::Allow(vec![sandbox::HostPort::parse(&address).expect("an address")]);
    let helper_text = helper.display().to_string();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..7 {
        let direct = std::process::Command::new(&helper).args(["fetch", &address, "direct"]).output().expect("fetch");
        let ran = run(&policy, &helper, &helper_text, &["fetch", &address, "127.0.0.1:3128"]).expect("fetch confined");
        for (times, text) in times.iter_mut().zip([String::from_utf8_lossy(&direct.stdout).into_owned(), ran.stdout]) {
            times.push(text.trim().parse::<u64>().expect("a time"));
        }
    }
    let [direct, proxied] = times.map(|mut it| {
        it.sort_unstable();
        mebibytes as f64 / (it[it.len() / 2] as f64 / 1e6)
    });
    println!("direct {direct:.0} MiB/s, proxy {proxied:.0} MiB/s, ratio {:.2}", proxied / direct);
    let _ = fs::remove_dir_all(work);
}
