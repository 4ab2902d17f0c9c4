//! `cargo xtask soak [--seeds N] [NAME]…`: the long series of suites whose short slice `cargo xtask test` runs: more
//! simulated days, a kill at every system call, more generated cases. Each series is one test with other numbers, in
//! its environment; a series that takes long is cut into slices, so that there is something to see.

use crate::Outcome;
use crate::parts::{Parts, cargo, must_pass, tell};
use std::path::Path;

/// Simulated days, unless somebody asks for another number.
const SEEDS: u64 = 10_000;

/// Days of a slice: about a minute on two processors.
const SLICE: u64 = 1_000;

/// Another series: arguments of `cargo test`, the beginnings of the names of tests where there are several, and the
/// variable that makes it long.
struct Series {
    name: &'static str,
    args: &'static [&'static str],
    tests: &'static [&'static str],
    variable: Option<(&'static str, &'static str)>,
}

const SERIES: [Series; 11] = [
    Series { name: "crashes", args: &["--test", "crash_points"], tests: &[], variable: None },
    Series {
        name: "syscalls",
        args: &["--test", "syscalls"],
        tests: &[],
        variable: Some(("NORMA_STRACE_SAMPLES", "1000")),
    },
    Series { name: "power", args: &["--test", "power_loss"], tests: &[], variable: None },
    Series {
        name: "recovery",
        args: &["--test", "store"],
        tests: &["recovery"],
        variable: Some(("PROPTEST_CASES", "4000")),
    },
    Series {
        name: "capture",
        args: &["--test", "workspace"],
        tests: &["property"],
        variable: Some(("PROPTEST_CASES", "1000")),
    },
    Series {
        name: "cases",
        args: &["--lib", "--test", "run", "--test", "gateway"],
        tests: &[],
        variable: Some(("PROPTEST_CASES", "20000")),
    },
    Series {
        name: "honest",
        args: &["--test", "e2e"],
        tests: &["honest"],
        variable: Some(("NORMA_HONEST_COMMITS", "300")),
    },
    Series {
        name: "server",
        args: &["--test", "e2e"],
        tests: &["load_", "ui::load", "wire_schema", "serve::streams::a_server_that_is_killed", "intent_runs::kills"],
        variable: Some(("NORMA_SOAK", "1")),
    },
    Series {
        name: "graph",
        args: &["--test", "e2e"],
        tests: &["real::kills", "graph::kills"],
        variable: Some(("NORMA_SOAK", "1")),
    },
    Series {
        name: "agents",
        args: &["--test", "e2e"],
        tests: &["real::", "recorded::"],
        variable: Some(("NORMA_SOAK", "1")),
    },
    Series {
        name: "pipeline",
        args: &["--test", "e2e"],
        tests: &["pipeline::kills", "pipeline::conflicts::one_with", "real::day1::a_story"],
        variable: Some(("NORMA_SOAK", "1")),
    },
];

pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    let (seeds, named) = read(args)?;
    let is_asked = |name: &str| named.is_empty() || named.iter().any(|one| one == name);
    let mut parts = Parts::default();
    if is_asked("days") {
        parts.run("days", || days(root, seeds));
    }
    for series in SERIES.iter().filter(|series| is_asked(series.name)) {
        tell(&format!("soak: {}", series.name));
        parts.run(series.name, || test(root, series.args, series.tests, series.variable.as_slice()));
    }
    parts.summary()
}

fn read(args: &[String]) -> Result<(u64, Vec<String>), Vec<String>> {
    let names = || std::iter::once("days").chain(SERIES.iter().map(|series| series.name));
    let usage = || vec![format!("usage: cargo xtask soak [--seeds N] [{}]…", names().collect::<Vec<_>>().join("|"))];
    let (mut seeds, mut named, mut words) = (SEEDS, Vec::new(), args.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => seeds = words.next().and_then(|count| count.parse().ok()).ok_or_else(usage)?,
            name if names().any(|known| known == name) => named.push(word.clone()),
            _ => return Err(usage()),
        }
    }
    Ok((seeds, named))
}

/// Every slice is run, though one before it failed: each failure names the seed that repeats it.
fn days(root: &Path, seeds: u64) -> Outcome {
    let mut problems = Vec::new();
    for first in (0..seeds).step_by(usize::try_from(SLICE).expect("BUG: it fits")) {
        let count = SLICE.min(seeds - first);
        tell(&format!("soak: days {first} to {} of {seeds}, {} slices failed", first + count, problems.len()));
        let numbers = [("NORMA_SIM_FIRST", first.to_string()), ("NORMA_SIM_SEEDS", count.to_string())];
        let numbers = numbers.each_ref().map(|(name, value)| (*name, value.as_str()));
        problems.extend(test(root, &["--test", "simulation"], &["no_bad_day"], &numbers).err().unwrap_or_default());
    }
    if problems.is_empty() { Ok(String::new()) } else { Err(problems) }
}

fn test(root: &Path, args: &[&str], tests: &[&str], variables: &[(&str, &str)]) -> Outcome {
    // With the features that `cargo xtask test` builds with, so that nothing is built again.
    let mut command = cargo(root, &["test", "--quiet", "--workspace"]);
    must_pass(command.args(args).args(["--", "--nocapture"]).args(tests).envs(variables.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_named_and_days_are_counted() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(read(&[]), Ok((SEEDS, vec![])));
        assert_eq!(read(&words("--seeds 7 days power")), Ok((7, words("days power"))));
        assert!(read(&words("--seeds x")).unwrap_err()[0].starts_with("usage: cargo xtask soak"));
        assert!(read(&words("nothing")).is_err());
    }
}
