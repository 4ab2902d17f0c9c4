//! Runs the test programs, several at a time. Each runs as many tests at once as there are processors, and with a second
//! program beside it the processors have work while the tests of one wait. What a program prints goes to files and is
//! shown whole when it ends, so that programs do not talk into each other.

use super::build::Program;
use super::tally;
use crate::parts::print;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How many programs run at once: enough to fill the waits of one, few enough for tests that watch a deadline.
const AT_ONCE: usize = 2;

/// Started first, longest first: what starts last should be short.
const LONG: [&str; 8] = [
    "norma::e2e",
    "runner::workspace",
    "chaos::crash_points",
    "chaos::syscalls",
    "chaos::power_loss",
    "store::store",
    "chaos::simulation",
    "acceptance::acceptance",
];

/// Programs whose tests mostly wait, for disks, for agents that start and for deadlines: so many of them run at once for
/// each processor.
const WAITING: [&str; 1] = ["norma::e2e"];
const WAITING_PER_PROCESSOR: usize = 3;

/// How many tests a program runs at once, unless somebody asked for another number.
const THREADS: &str = "RUST_TEST_THREADS";

/// A variable of the test programs.
type Variable = (&'static str, PathBuf);

/// How a program ended, and what it printed.
pub(super) struct Ended {
    pub(super) program: Program,
    pub(super) stdout: String,
    pub(super) took: Duration,
    /// None if it ended well.
    pub(super) failure: Option<String>,
}

/// Runs them all with these arguments. What they print is kept in `place`, and printed as each ends.
pub(super) fn run(mut programs: Vec<Program>, args: &[String], place: &Path, variables: &[Variable]) -> Vec<Ended> {
    programs.sort_by_key(|program| LONG.iter().position(|long| *long == program.name).unwrap_or(LONG.len()));
    let waiting = Mutex::new(programs.into_iter());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                let next = || waiting.lock().expect("BUG: nobody panics with it").next();
                while let Some(program) = next() {
                    let _ = sender.send(run_one(program, args, place, variables));
                }
            });
        }
        drop(sender);
        receiver.into_iter().inspect(show).collect()
    })
}

/// How many tests may have failed for them to be run again: more is no matter of a busy machine.
const AGAIN_AT_MOST: usize = 4;

/// Runs the tests that failed once more, one at a time with nothing beside them: some watch a deadline, and a machine
/// that others keep busy can miss it. Whoever passes only here is named in the report.
pub(super) fn run_again(ended: &[Ended], place: &Path, variables: &[Variable]) -> Vec<Ended> {
    let failed: Vec<(&Program, Vec<String>)> = ended
        .iter()
        .map(|program| (&program.program, tally::failed_tests(&program.stdout)))
        .filter(|(_, tests)| !tests.is_empty())
        .collect();
    if failed.iter().map(|(_, tests)| tests.len()).sum::<usize>() > AGAIN_AT_MOST {
        return Vec::new();
    }
    let one_by_one = ["--exact", "--test-threads=1"].map(str::to_owned);
    let again = |(program, tests): (&Program, Vec<String>)| {
        run_one(program.clone(), &[tests, one_by_one.to_vec()].concat(), &place.join("again"), variables)
    };
    failed.into_iter().map(again).inspect(show).collect()
}

fn run_one(program: Program, args: &[String], place: &Path, variables: &[Variable]) -> Ended {
    let started = Instant::now();
    let file_name = program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let kept = |stream: &str| place.join(format!("{file_name}.{stream}"));
    let run = || {
        fs::create_dir_all(place)?;
        let (stdout, stderr) = (File::create(kept("stdout"))?, File::create(kept("stderr"))?);
        let mut command = Command::new(&program.path);
        command.args(args).current_dir(&program.package_dir);
        command.env("CARGO_MANIFEST_DIR", &program.package_dir).envs(variables.iter().cloned());
        let chosen = args.iter().any(|arg| arg.starts_with("--test-threads"));
        if WAITING.contains(&program.name.as_str()) && !chosen && std::env::var_os(THREADS).is_none() {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            command.env(THREADS, (WAITING_PER_PROCESSOR * processors).to_string());
        }
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status()
    };
    let failure = match run() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("ended with {status}")),
        Err(error) => Some(format!("could not be run: {error}")),
    };
    let read = |stream: &str| String::from_utf8_lossy(&fs::read(kept(stream)).unwrap_or_default()).into_owned();
    let stdout = read("stdout") + &read("stderr");
    Ended { program, stdout, took: started.elapsed(), failure }
}

fn show(ended: &Ended) {
    let Ended { program, stdout, took, failure } = ended;
    let failure = failure.as_ref().map_or(String::new(), |failure| format!(", {failure}"));
    print(&format!("\n{} ({:.1} s{failure})\n{}", program.name, took.as_secs_f64(), stdout.trim_end()));
}
