//! A verb made of parts: each is timed, its outcome kept, and at the end a summary says what every one of them
//! took and came to. A part that fails does not hide the others.

use crate::Outcome;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What became of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed(Vec<String>),
    Skipped(String),
}

/// The parts of one verb so far.
#[derive(Default)]
pub(crate) struct Parts {
    parts: Vec<(&'static str, Duration, Ended)>,
}

impl Parts {
    /// Runs a part and keeps how it ended; answers whether it passed.
    pub(crate) fn run(&mut self, name: &'static str, part: impl FnOnce() -> Outcome) -> bool {
        let started = Instant::now();
        let ended = part().map_or_else(Ended::Failed, |_| Ended::Passed);
        let passed = ended == Ended::Passed;
        self.parts.push((name, started.elapsed(), ended));
        passed
    }

    /// Runs a part that makes something the later ones need; none if it failed.
    pub(crate) fn take<T>(&mut self, name: &'static str, part: impl FnOnce() -> Result<T, Vec<String>>) -> Option<T> {
        let mut made = None;
        self.run(name, || {
            made = Some(part()?);
            Ok(String::new())
        });
        made
    }

    /// Adds the parts that another thread ran.
    pub(crate) fn append(&mut self, mut others: Parts) {
        self.parts.append(&mut others.parts);
    }

    /// Runs a part that the others can do without; if it fails, that is said, and it counts as skipped.
    pub(crate) fn offer(&mut self, name: &'static str, part: impl FnOnce() -> Outcome) {
        let started = Instant::now();
        let ended = match part() {
            Ok(_) => Ended::Passed,
            Err(problems) => {
                let why = problems.join("; ");
                tell(&format!("{name}: {why}; going on without"));
                Ended::Skipped(why)
            }
        };
        self.parts.push((name, started.elapsed(), ended));
    }

    /// Notes a part that was not run, and why.
    pub(crate) fn skip(&mut self, name: &'static str, why: &str) {
        self.parts.push((name, Duration::ZERO, Ended::Skipped(why.to_owned())));
    }

    /// The summary: one line a part; the problems of all of them if there are any.
    pub(crate) fn summary(self) -> Outcome {
        let mut lines = Vec::new();
        let mut problems = Vec::new();
        for (name, elapsed, ended) in self.parts {
            let seconds = elapsed.as_secs_f64();
            match ended {
                Ended::Passed => lines.push(format!("{name:<12} {seconds:>7.1} s  ok")),
                Ended::Skipped(why) => lines.push(format!("{name:<12}       -    skipped: {why}")),
                Ended::Failed(found) => {
                    lines.push(format!("{name:<12} {seconds:>7.1} s  FAILED"));
                    problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
                }
            }
        }
        if problems.is_empty() {
            return Ok(lines.join("\n"));
        }
        problems.extend(lines);
        Err(problems)
    }
}

/// Says something while a verb is at work; standard output is for its answer.
#[expect(clippy::print_stderr, reason = "what takes so long, or is gone on without")]
pub(crate) fn tell(what: &str) {
    eprintln!("{what}");
}

/// Prints a part of the answer before all of it is known.
#[expect(clippy::print_stdout, reason = "the answer of a verb")]
pub(crate) fn print(line: &str) {
    println!("{line}");
}

/// `cargo` with arguments, in the workspace; the same cargo that started this program.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(args);
    // What cargo told this program about itself. ring's build script asks for it and would run again, and with it all
    // that links ring, whenever `cargo` and `cargo xtask` take turns.
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end with this process's output.
pub(crate) fn must_pass(command: &mut Command) -> Outcome {
    let shown = shown(command);
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(shown),
        Ok(status) => Err(vec![format!("`{shown}` ended with {status}")]),
        Err(error) => Err(vec![format!("could not run `{shown}`: {error}")]),
    }
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_fails_fails_the_verb_and_hides_no_other() {
        let mut parts = Parts::default();
        assert!(!parts.run("first", || Err(vec!["it broke".into()])));
        assert!(parts.run("second", || Ok(String::new())));
        parts.skip("third", "not installed");
        parts.offer("fourth", || Err(vec!["no network".into()]));
        let problems = parts.summary().unwrap_err();
        assert_eq!(problems[0], "first: it broke");
        assert!(problems[1].starts_with("first") && problems[1].ends_with("FAILED"));
        assert!(problems[2].starts_with("second") && problems[2].ends_with("ok"));
        assert!(problems[3].ends_with("skipped: not installed"));
        assert!(problems[4].ends_with("skipped: no network"));
    }

    #[test]
    fn a_command_that_cannot_run_or_fails_is_a_problem() {
        assert!(must_pass(&mut Command::new("/nowhere/at-all")).unwrap_err()[0].contains("could not run `at-all`"));
        let mut failing = Command::new("sh");
        assert!(must_pass(failing.args(["-c", "exit 3"])).unwrap_err()[0].contains("exit status: 3"));
    }
}
