//! `cargo xtask test [ARGS]`: everything that can be red without being slow. The real agents are installed while the
//! tests are built; then the test programs run several at a time, since many of their tests wait more than they work
//! ([`schedule`]), and what they printed is counted ([`tally`]). The last line is `N passed, N failed, N skipped`.

mod build;
mod schedule;
mod tally;

use crate::parts::{Parts, print, tell};
use crate::{Outcome, agents, packages, playwright, schemathesis, seeds, tidy, ui, verbs};
use build::Built;
use std::path::Path;
use tally::Tally;

/// Where programs of this run leave what they printed, and which of their tests were not run.
const PLACE: &str = "target/xtask-test";

/// Which those are; it stays for whoever asks later.
pub(crate) const NOT_RUN: &str = "target/xtask-test/not-run";

/// What the words after `cargo xtask test` mean.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    /// For cargo: which packages and targets.
    cargo: Vec<String>,
    /// For the test programs: which tests, and after `--` how.
    programs: Vec<String>,
}

impl Arguments {
    /// As `cargo test` takes them: options are cargo's, words without a dash name tests, the rest is for the programs.
    fn read(args: &[String]) -> Arguments {
        /// Options of cargo that are followed by a value.
        const WITH_VALUE: [&str; 10] =
            ["-p", "--package", "--exclude", "--test", "--bin", "-F", "--features", "-j", "--jobs", "--profile"];
        let mut read = Arguments::default();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--" => read.programs.extend(rest.by_ref().cloned()),
                option if option.starts_with('-') => {
                    read.cargo.push(word.clone());
                    read.cargo.extend(rest.by_ref().take(usize::from(WITH_VALUE.contains(&option))).cloned());
                }
                _ => read.programs.push(word.clone()),
            }
        }
        read
    }

    fn select_packages(&self) -> bool {
        self.cargo.iter().any(|word| word == "-p" || word.starts_with("--package"))
    }
}

/// Runs the verb; everything is printed when it returns.
pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    let mut parts = Parts::default();
    let tally = test_parts(root, args, &mut parts);
    let passed = report(parts, &tally);
    if passed { Ok(String::new()) } else { Err(Vec::new()) }
}

/// Prints how the parts and the tests ended, the counts last; answers whether all is well.
pub(crate) fn report(parts: Parts, tally: &Tally) -> bool {
    let outcome = parts.summary();
    for line in tally.remarks().iter().chain(&tally.failed) {
        print(line);
    }
    match &outcome {
        Ok(summary) => print(summary),
        Err(problems) => problems.iter().for_each(|problem| print(problem)),
    }
    print(&tally.closing_line());
    outcome.is_ok()
}

/// The parts of the verb, for `cargo xtask ci` too.
pub(crate) fn test_parts(root: &Path, args: &[String], parts: &mut Parts) -> Tally {
    let arguments = Arguments::read(args);
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let built = std::thread::scope(|scope| {
        // They come from the network. A person may continue without; in CI they are there or the tests fail.
        let others = scope.spawn(|| {
            let mut others = Parts::default();
            others.offer("packages", || packages::install(in_ci));
            let parts: [(_, &dyn Fn() -> Outcome); 4] = [
                ("schemathesis", &|| schemathesis::run(root)),
                ("agents", &|| agents::run(root, &[])),
                ("playwright", &|| playwright::run(root)),
                ("ui", &|| ui::run(root, &["--check".to_owned()])),
            ];
            for (name, part) in parts {
                if in_ci {
                    others.run(name, part);
                } else {
                    others.offer(name, part);
                }
            }
            others
        });
        let built = parts.take("build", || build::programs(root, &arguments.cargo, arguments.select_packages()));
        parts.append(others.join().expect("BUG: installing does not panic"));
        built
    });
    let mut tally = Tally::default();
    if let Some(built) = built {
        parts.run("tests", || {
            tally = run_programs(root, built, &arguments.programs)?;
            if tally.failed.is_empty() { Ok(String::new()) } else { Err(vec![tally.closing_line()]) }
        });
    }
    parts.run("seeds", || seeds::check(root, &[]));
    parts.run("tidy", || tidy::check(root));
    verbs::deny(root, parts);
    tally
}

fn run_programs(root: &Path, built: Built, args: &[String]) -> Result<Tally, Vec<String>> {
    let place = root.join(PLACE);
    let prepared = std::fs::remove_dir_all(&place).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    prepared
        .and_then(|()| std::fs::create_dir_all(&place))
        .map_err(|error| vec![format!("could not prepare {}: {error}", place.display())])?;
    let not_run = place.join("not-run");
    let Built { tests, mut variables } = built;
    variables.push(("NORMA_NOT_RUN", not_run.clone()));
    tell(&format!("running {} test programs", tests.len()));
    let ended = schedule::run(tests, args, &place, &variables);
    let again = schedule::run_again(&ended, &place, &variables);
    let mut tally = Tally::of(&ended, &std::fs::read_to_string(not_run).unwrap_or_default());
    tally.settle(&again);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_cargo_test() {
        #[track_caller]
        fn check(args: &str, cargo: &str, programs: &str) {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let expected = Arguments { cargo: words(cargo), programs: words(programs) };
            assert_eq!(Arguments::read(&words(args)), expected);
        }
        check("", "", "");
        check("a_test", "", "a_test");
        check("-p store a_test", "-p store", "a_test");
        check("--test e2e real:: -- --nocapture x", "--test e2e", "real:: --nocapture x");
        check("--release --package=run", "--release --package=run", "");
    }
}
