//! What `runner::process` promises, held against real processes.
//!
//! Time is asserted only by generous bounds: a test that would hang fails at its wall deadline or
//! at [`PATIENCE`] instead.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as StdCommand, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use runner::process::{self, Cancel, Command, End, Limits, Outcome, Said, Supervisor, Talk, leftovers};

/// Longer than anything here takes on a loaded machine, shorter than the sleeps it must not reach.
const PATIENCE: Duration = Duration::from_secs(60);

fn supervisor() -> Supervisor {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_supervisor"));
    Supervisor { program, args: vec![OsString::from("__supervise")] }
}

fn command(program: &str, args: &[&str]) -> Command {
    Command {
        program: PathBuf::from(program),
        args: args.iter().map(OsString::from).collect(),
        cwd: std::env::temp_dir(),
        env: BTreeMap::from([(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))]),
        stdin: Vec::new(),
        limits: Limits { wall: PATIENCE, idle: None, output_bytes_max: 1024 * 1024, clock: None },
    }
}

fn shell(script: &str) -> Command {
    command("/bin/sh", &["-c", script])
}

fn run(command: &Command) -> Outcome {
    run_until(command, &Cancel::new().expect("make a cancel"))
}

fn run_until(command: &Command, cancel: &Cancel) -> Outcome {
    let outcome = process::run(command, &supervisor(), cancel, &mut |_| {}).expect("run");
    assert!(outcome.elapsed < PATIENCE, "took {:?}", outcome.elapsed);
    outcome
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("the test's program writes text")
}

/// Gone, or a zombie that its parent has yet to reap.
fn is_dead(pid: &str) -> bool {
    let pid = pid.trim();
    assert!(pid.parse::<u32>().is_ok(), "not a process id: {pid:?}");
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what} does not hold");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_exit_code_of_the_program_is_the_end() {
    for code in [0, 1, 7, 125, 127, 137, 255] {
        assert_eq!(run(&shell(&format!("exit {code}"))).end, End::Exited(code));
    }
}

#[test]
fn a_signal_is_told_apart_from_an_exit_code() {
    for signal in [1, 2, 6, 9, 11, 13, 15, 34] {
        assert_eq!(run(&shell(&format!("kill -{signal} $$"))).end, End::Signaled(signal));
    }
}

#[test]
fn both_output_streams_are_captured_apart() {
    let outcome = run(&shell("echo out; echo err >&2; printf more"));
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!(text(&outcome.stdout.bytes), "out\nmore");
    assert_eq!(text(&outcome.stderr.bytes), "err\n");
    assert_eq!((outcome.stdout.total, outcome.stdout.truncated), (8, false));
}

#[test]
fn the_program_sees_exactly_the_folder_arguments_and_environment_it_was_given() {
    let folder = tempfile::tempdir().expect("make a folder");
    let cwd = folder.path().canonicalize().expect("the folder exists");
    let mut pwd = command("/bin/pwd", &["-P"]);
    pwd.cwd.clone_from(&cwd);
    assert_eq!(text(&run(&pwd).stdout.bytes), format!("{}\n", cwd.display()));
    let mut env = command("/usr/bin/env", &[]);
    env.env = BTreeMap::from([(OsString::from("ONLY"), OsString::from("this"))]);
    assert_eq!(text(&run(&env).stdout.bytes), "ONLY=this\n");
    let arguments = command("/usr/bin/printf", &["<%s>", "--", "a b", ""]);
    assert_eq!(text(&run(&arguments).stdout.bytes), "<--><a b><>");
}

#[test]
fn the_program_holds_no_descriptor_that_a_plain_spawn_would_not_give_it() {
    // Compared, not counted: whoever started the test may have left it descriptors of its own.
    let list = command("/bin/ls", &["/proc/self/fd"]);
    let plain = StdCommand::new("/bin/ls").arg("/proc/self/fd").output().expect("run ls");
    assert_eq!(text(&run(&list).stdout.bytes), text(&plain.stdout));
}

#[test]
fn the_program_has_a_session_of_its_own_led_by_the_reported_process() {
    let mut reported = 0;
    let cancel = Cancel::new().expect("make a cancel");
    let command = shell("cut -d' ' -f6 /proc/self/stat");
    let outcome = process::run(&command, &supervisor(), &cancel, &mut |pid| reported = pid);
    let outcome = outcome.expect("run");
    assert_eq!(outcome.pid, reported);
    assert_eq!(text(&outcome.stdout.bytes), format!("{reported}\n"));
}

#[test]
fn a_megabyte_of_input_arrives_whole() {
    let mut cat = command("/bin/cat", &[]);
    cat.stdin = (0..1024 * 1024).map(|index: u32| index.to_le_bytes()[0]).collect();
    let outcome = run(&cat);
    assert_eq!(outcome.end, End::Exited(0));
    assert!(outcome.stdout.bytes == cat.stdin, "the bytes differ");
    assert!(!outcome.stdout.truncated);
}

#[test]
fn a_program_that_never_reads_its_input_runs_to_its_end() {
    for script in ["exit 3", "exec <&-; sleep 0.2; exit 3"] {
        let mut command = shell(script);
        command.stdin = vec![b'x'; 1024 * 1024];
        assert_eq!(run(&command).end, End::Exited(3), "{script}");
    }
}

#[test]
fn a_flood_is_counted_but_only_its_first_bytes_are_kept() {
    const FLOOD: u64 = 300 * 1024 * 1024;
    let mut command = shell(&format!("head -c {FLOOD} /dev/zero; echo done >&2"));
    command.limits.output_bytes_max = 1000;
    let before = memory_peak_kib();
    let outcome = run(&command);
    let grown = memory_peak_kib() - before;
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!((outcome.stdout.total, outcome.stdout.bytes.len()), (FLOOD, 1000));
    assert!(outcome.stdout.truncated);
    assert!(
        outcome.stdout.with_mark().ends_with(format!("\n[norma: truncated, 1000 of {FLOOD} bytes kept]\n").as_bytes())
    );
    assert_eq!(text(&outcome.stderr.with_mark()), "done\n");
    assert!(grown < 64 * 1024, "memory grew by {grown} KiB");
}

fn memory_peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("read the own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_program_over_its_wall_time_is_stopped() {
    let mut command = shell("echo begun; trap 'echo ending; exit 0' TERM; sleep 600 & wait");
    command.limits.wall = Duration::from_millis(500);
    let outcome = run(&command);
    assert_eq!(outcome.end, End::WallDeadline);
    assert_eq!(text(&outcome.stdout.bytes), "begun\nending\n");
}

#[test]
fn a_program_that_ignores_every_signal_it_can_is_killed() {
    let mut command = shell("trap '' TERM INT HUP QUIT; echo $$; while :; do sleep 600; done");
    command.limits.wall = Duration::from_millis(300);
    let outcome = run(&command);
    assert_eq!(outcome.end, End::WallDeadline);
    assert!(is_dead(text(&outcome.stdout.bytes)));
}

#[test]
fn a_silent_program_is_stopped_and_a_talking_one_is_not() {
    let mut silent = shell("echo begun; sleep 600");
    silent.limits.idle = Some(Duration::from_millis(400));
    let outcome = run(&silent);
    assert_eq!(outcome.end, End::IdleDeadline);
    assert_eq!(text(&outcome.stdout.bytes), "begun\n");
    let mut talking = shell("for i in 1 2 3 4 5 6 7 8; do echo $i >&2; sleep 0.5; done");
    talking.limits.idle = Some(Duration::from_secs(3));
    assert_eq!(run(&talking).end, End::Exited(0));
}

#[test]
fn one_cancel_from_another_thread_stops_every_run() {
    let cancel = Cancel::new().expect("make a cancel");
    let runs: Vec<_> = (0..3)
        .map(|_| {
            let cancel = cancel.clone();
            thread::spawn(move || run_until(&shell("sleep 600"), &cancel))
        })
        .collect();
    thread::sleep(Duration::from_millis(300));
    assert!(!cancel.is_canceled());
    cancel.cancel();
    assert!(cancel.is_canceled());
    for run in runs {
        assert_eq!(run.join().expect("the run returns").end, End::Canceled);
    }
}

#[test]
fn nothing_is_started_after_a_cancel() {
    let cancel = Cancel::new().expect("make a cancel");
    cancel.cancel();
    let mut started = false;
    let command = shell("exit 0");
    let outcome = process::run(&command, &supervisor(), &cancel, &mut |_| started = true);
    assert_eq!(outcome.expect("run").end, End::Canceled);
    assert!(!started);
}

#[test]
fn a_daemon_left_behind_is_dead_when_the_turn_ends() {
    for script in [
        "setsid sleep 987 >/dev/null 2>&1 & echo $!",
        "(setsid sh -c 'trap \"\" TERM HUP; echo $$; exec >&- 2>&-; sleep 987' &) ; sleep 0.5",
        "nohup sh -c 'sh -c \"echo \\$\\$; sleep 987\" & wait' & sleep 0.5",
    ] {
        let outcome = run(&shell(script));
        assert_eq!(outcome.end, End::Exited(0), "{script}");
        assert!(is_dead(text(&outcome.stdout.bytes)), "{script}");
    }
}

#[test]
fn a_daemon_that_holds_the_output_open_does_not_hang_the_turn() {
    let outcome = run(&shell("sleep 987 & echo $!; exit 4"));
    assert_eq!(outcome.end, End::Exited(4));
    assert!(is_dead(text(&outcome.stdout.bytes)));
}

#[test]
fn a_chain_of_processes_that_fork_and_exit_is_caught() {
    // Each process lives for one fork; only the supervisor's adoption leads to the next.
    let script = "$0 = 'norma-chain-test'; while (1) { exit 0 if fork; }";
    let outcome = run(&command("/usr/bin/perl", &["-e", script]));
    assert_eq!(outcome.end, End::Exited(0));
    // The supervisor would say here that it gave up.
    assert_eq!(text(&outcome.stderr.bytes), "");
    // One look could miss a chain that is still running.
    for _ in 0..20 {
        let entries = fs::read_dir("/proc").expect("list processes").flatten();
        let names = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        assert_eq!(names.filter(|name| name.starts_with(b"norma-chain-test")).count(), 0);
    }
}

#[test]
fn one_supervisor_keeps_one_program_after_another_and_their_words_apart() {
    let cancel = Cancel::new().expect("make a cancel");
    let mut ready = Some(process::get_ready(&supervisor()).expect("start a supervisor"));
    let mut go = |command: &Command| {
        let (outcome, rests) =
            ready.take().expect("it rests").go(command, Said::Bytes(&command.stdin), &cancel).expect("run");
        ready = rests;
        outcome
    };
    let first = go(&shell("setsid sh -c 'echo $$; while :; do echo late; echo late >&2; done' & sleep 0.2; exit 3"));
    assert_eq!(first.end, End::Exited(3));
    assert!(is_dead(text(&first.stdout.bytes).lines().next().expect("a process id")));
    let second = go(&shell("echo out; echo err >&2"));
    assert_eq!((second.end, second.pid), (End::Exited(0), first.pid));
    assert_eq!((text(&second.stdout.bytes), text(&second.stderr.bytes)), ("out\n", "err\n"));
    assert!(matches!(go(&command("/no/such/program", &[])).end, End::NotStarted(_)));
    let mut slow = shell("sleep 100");
    slow.limits.wall = Duration::from_millis(50);
    assert_eq!(go(&slow).end, End::WallDeadline);
    assert!(ready.is_none(), "a supervisor that was told to stop takes no further program");
}

/// Says what it has, one line after each that it hears, and `stop` when it is told to.
struct Lines {
    words: Vec<&'static str>,
    heard: Vec<u8>,
    now: Vec<u8>,
    waits: bool,
}

impl Lines {
    fn new(words: &[&'static str]) -> Lines {
        let mut words = words.to_vec();
        words.reverse();
        let now = words.pop().map(|first| format!("{first}\n").into_bytes()).unwrap_or_default();
        Lines { words, heard: Vec::new(), now, waits: false }
    }
}

impl Talk for Lines {
    fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.heard.extend(bytes);
        for _ in 0..bytes.iter().filter(|byte| **byte == b'\n').count() {
            self.now.extend(self.words.pop().map(|next| format!("{next}\n").into_bytes()).unwrap_or_default());
        }
        Ok(())
    }

    fn take_words(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.now)
    }

    fn is_over(&self) -> bool {
        text(&self.heard).contains("enough")
    }

    fn is_done(&self) -> bool {
        self.is_over()
    }

    fn is_waiting(&self) -> bool {
        self.waits
    }

    fn next_look(&self) -> Option<Instant> {
        self.waits.then(Instant::now)
    }

    fn look(&mut self, _now: Instant) -> io::Result<()> {
        thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    fn stop(&mut self) -> bool {
        self.now.extend(b"stop\n");
        true
    }
}

fn talk(command: &Command, lines: &mut Lines) -> Outcome {
    let ready = process::get_ready(&supervisor()).expect("start a supervisor");
    let cancel = Cancel::new().expect("make a cancel");
    ready.go(command, Said::Talk(lines), &cancel).expect("run").0
}

#[test]
fn a_program_can_be_spoken_with_and_leaves_when_all_is_said() {
    let mut lines = Lines::new(&["one", "two", "three"]);
    let script = "while read w; do echo got $w; [ $w = three ] && echo enough; done; echo bye";
    let outcome = talk(&shell(script), &mut lines);
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!(text(&lines.heard), "got one\ngot two\ngot three\nenough\nbye\n");
    assert!(outcome.stdout.bytes.is_empty(), "what is said is kept by whoever leads the conversation");
}

#[test]
fn a_program_that_is_spoken_with_is_stopped_in_its_own_words_first() {
    let mut asked = shell("while read w; do [ $w = stop ] && { echo stopped; exit 4; }; done");
    asked.limits.wall = Duration::from_millis(100);
    let mut lines = Lines::new(&["go"]);
    assert_eq!(talk(&asked, &mut lines).end, End::WallDeadline);
    assert_eq!(text(&lines.heard), "stopped\n");
    let mut deaf = shell("trap '' TERM; while :; do sleep 1; done");
    deaf.limits.wall = Duration::from_millis(100);
    assert_eq!(talk(&deaf, &mut Lines::new(&[])).end, End::WallDeadline);
}

#[test]
fn a_program_that_stays_after_all_is_said_is_sent_away() {
    let mut lines = Lines::new(&[]);
    let outcome = talk(&shell("echo enough; while :; do sleep 1; done"), &mut lines);
    assert_eq!(outcome.end, End::Signaled(15));
}

#[test]
fn waiting_for_a_person_is_not_the_programs_silence() {
    let mut patient = shell("sleep 1; echo enough");
    patient.limits.idle = Some(Duration::from_millis(100));
    let mut lines = Lines { waits: true, ..Lines::new(&[]) };
    assert_eq!(talk(&patient, &mut lines).end, End::Exited(0));
    lines = Lines::new(&[]);
    assert_eq!(talk(&patient, &mut lines).end, End::IdleDeadline);
}

#[test]
fn a_script_that_signals_its_own_group_does_not_reach_the_supervisor() {
    assert_eq!(run(&shell("kill -9 0")).end, End::Signaled(9));
}

#[test]
fn a_program_that_kills_its_supervisor_ends_with_it() {
    let outcome = run(&shell("sleep 987 & echo $!; kill -9 $PPID; sleep 987"));
    assert_eq!(outcome.end, End::Signaled(9));
    assert!(is_dead(text(&outcome.stdout.bytes)));
}

#[test]
fn a_program_that_stops_its_supervisor_is_still_stopped_in_time() {
    let mut command = shell("echo $$; kill -STOP $PPID; sleep 600");
    command.limits.wall = Duration::from_millis(500);
    let outcome = run(&command);
    assert_eq!(outcome.end, End::WallDeadline);
    assert!(is_dead(text(&outcome.stdout.bytes)));
}

#[test]
fn a_supervisor_that_keeps_being_stopped_is_done_without() {
    let mut command = shell("trap '' TERM; echo $$; while :; do kill -STOP $PPID; sleep 0.01; done");
    command.limits.wall = Duration::from_millis(300);
    let outcome = run(&command);
    assert_eq!(outcome.end, End::WallDeadline);
    assert!(is_dead(text(&outcome.stdout.bytes)));
    assert!(is_dead(&outcome.pid.to_string()));
}

#[test]
fn a_program_that_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().expect("make a folder");
    let file = |name: &str, content: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("write the program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&path, mode).expect("set the mode");
        path
    };
    let check = |program: &Path, why: &str| {
        let program = program.to_str().expect("a temporary path is text");
        let mut command = command(program, &[]);
        command.stdin = vec![b'x'; 1024 * 1024];
        match run(&command).end {
            End::NotStarted(message) => {
                assert_eq!(message, format!("could not run {program}: {why}"));
            }
            end => panic!("{program}: {end:?}"),
        }
    };
    check(Path::new("/nowhere/agent"), "No such file or directory (os error 2)");
    check(&file("text", "text", 0o644), "Permission denied (os error 13)");
    check(&file("broken", "\u{1}\u{2}", 0o755), "Exec format error (os error 8)");
    let script = file("script", "#!/nowhere/interpreter\n", 0o755);
    check(&script, "the interpreter it names does not exist");
}

#[test]
fn what_is_wrong_with_the_command_is_not_an_error_of_norma() {
    let mut nowhere = shell("exit 0");
    nowhere.cwd = PathBuf::from("/nowhere");
    let expected = "could not run /bin/sh in /nowhere: not a folder".to_owned();
    assert_eq!(run(&nowhere).end, End::NotStarted(expected));
    let huge = "x".repeat(8 * 1024 * 1024);
    assert!(matches!(run(&command("/bin/echo", &[&huge])).end, End::NotStarted(_)));
}

#[test]
fn a_supervisor_that_is_none_is_an_error() {
    let cancel = Cancel::new().expect("make a cancel");
    for program in ["/nowhere/norma", "/bin/true"] {
        let wrong = Supervisor { program: PathBuf::from(program), args: Vec::new() };
        let error = process::run(&shell("exit 0"), &wrong, &cancel, &mut |_| {});
        let message = error.expect_err("there is no supervisor").to_string();
        assert!(message.contains(program), "{message}");
    }
}

#[test]
fn no_run_leaves_a_zombie_or_a_descriptor_behind() {
    // Other tests share this process, so a process of its own makes the run and looks at itself.
    let nested = ["run", "/bin/sh", "-c", "sleep 987 & setsid sleep 987 & exit 5"];
    let outcome = run(&command(env!("CARGO_BIN_EXE_supervisor"), &nested));
    assert_eq!(text(&outcome.stderr.bytes), "");
    assert_eq!(outcome.end, End::Exited(5));
}

fn start_norma(program: &[&str], marker: Option<&str>) -> (Child, String) {
    let mut norma = StdCommand::new(env!("CARGO_BIN_EXE_supervisor"));
    norma.arg("run").args(program).stdin(Stdio::null());
    if let Some(value) = marker {
        norma.env("NORMA_TEST_MARKER", value);
    }
    let norma = norma.spawn().expect("start norma's side");
    // The program's id reaches the test through a file that only the program writes.
    let file = program.last().expect("the last argument names the file");
    eventually("the program has written its id", || fs::read_to_string(file).is_ok_and(|id| id.ends_with('\n')));
    let id = fs::read_to_string(file).expect("read the id");
    (norma, id)
}

#[test]
fn killing_norma_kills_the_program_and_its_daemons() {
    let folder = tempfile::tempdir().expect("make a folder");
    let file = folder.path().join("id").to_str().expect("a temporary path is text").to_owned();
    let script = "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; echo $$ >\"$0\"; sleep 987' \
                  \"$0\" & wait; sleep 987";
    let (mut norma, daemon) = start_norma(&["/bin/sh", "-c", script, &file], None);
    assert!(!is_dead(&daemon));
    norma.kill().expect("kill norma's side");
    norma.wait().expect("reap norma's side");
    eventually("the daemon is dead", || is_dead(&daemon));
}

#[test]
fn leftovers_are_found_by_their_marker_and_by_nothing_less() {
    let folder = tempfile::tempdir().expect("make a folder");
    let file = folder.path().join("id").to_str().expect("a temporary path is text").to_owned();
    let marker = format!("marker-{}", std::process::id());
    let script = "env -i sh -c 'echo $$ >\"$0\"; sleep 987' \"$0\"; sleep 987";
    let program = ["/bin/sh", "-c", script, &file];
    let (mut norma, child) = start_norma(&program, Some(&marker));
    let kill = |name, value| leftovers::kill(name, value).expect("scan for leftovers");
    assert_eq!(kill("NORMA_TEST_MARKER", &marker[..marker.len() - 1]), 0);
    assert_eq!(kill("TEST_MARKER", &marker), 0);
    assert!(!is_dead(&child));
    // norma's side, its supervisor, the shell, and the bare child with its sleep.
    assert!(kill("NORMA_TEST_MARKER", &marker) >= 4);
    assert!(is_dead(&child));
    norma.wait().expect("reap norma's side");
    assert_eq!(kill("NORMA_TEST_MARKER", &marker), 0);
}
