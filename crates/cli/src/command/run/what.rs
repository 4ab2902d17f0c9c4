//! What `norma run ARG` is asked to run, and which flags mean something for it. A flag that would be ignored is an error.

use super::{Args, How};
use crate::error::{CommandError, Outcome};
use std::path::Path;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A task, by its number.
    Task(i64),
    /// A file with a contract, a work item or a batch.
    File(String),
    /// What somebody wants, in words: norma proposes the contract.
    Sentence(String),
    /// What somebody wants, under a contract that they typed.
    Contract(String),
    /// What somebody wants, in the loop of plan, do, check and act.
    Loop(String),
    /// Every task that is ready.
    Ready,
    /// One word that is none of these.
    Nothing(String),
}

impl What {
    /// What `ARG` means, read in the directory `cwd`.
    pub(super) fn of(arg: &str, cwd: &Path) -> Outcome<What> {
        let there = cwd.join(arg);
        match arg.trim() {
            "" => Err(CommandError::usage("nothing to run was named", EXAMPLES)),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = digits.parse();
                number.map(What::Task).map_err(|_| CommandError::usage("that number is too large", "norma task list"))
            }
            _ if there.is_dir() => {
                let message = format!("{} is a directory", crate::text::safe(arg));
                Err(CommandError::usage(message, "name a file with a contract, a work item or a batch"))
            }
            _ if there.exists() => Ok(What::File(arg.to_owned())),
            words if words.contains(char::is_whitespace) => Ok(What::Sentence(words.to_owned())),
            word => Ok(What::Nothing(word.to_owned())),
        }
    }

    fn named(&self) -> &'static str {
        match self {
            What::Task(_) => "a task",
            What::File(_) => "a file, which says it itself",
            What::Sentence(_) => "a sentence",
            What::Contract(_) => "a contract that is typed",
            What::Loop(_) => "the plan-do-check-act loop (--goal without --allow or --test)",
            What::Ready => "every ready task",
            What::Nothing(_) => "that",
        }
    }

    /// The flags that mean something for it.
    fn flags(&self) -> &'static [&'static str] {
        match self {
            What::Task(_) => &["--new", "--no-wait", "--detach"],
            What::File(_) => &["--new", "--no-wait", "--detach", "--yes-wide"],
            What::Sentence(_) => &[
                "--agent",
                "--model",
                "--allow",
                "--test",
                "--ac",
                "--budget",
                "--yes",
                "--yes-wide",
                "--new",
                "--no-wait",
                "--detach",
            ],
            What::Contract(_) => &[
                "--workflow",
                "--agent",
                "--model",
                "--allow",
                "--test",
                "--ac",
                "--budget",
                "--yes-wide",
                "--new",
                "--no-wait",
                "--detach",
            ],
            What::Loop(_) => &["--workflow", "--agent", "--ac", "--no-wait", "--detach"],
            What::Ready => &["--continue", "--no-wait"],
            What::Nothing(_) => &[],
        }
    }
}

const EXAMPLES: &str = "norma run \"what you want\", norma run FILE, or norma run TASK";

impl Args {
    /// What is asked for, with every flag held to it.
    pub(super) fn what(&self, cwd: &Path) -> Outcome<What> {
        let what = match (&self.what, &self.goal) {
            (Some(arg), _) => What::of(arg, cwd)?,
            (None, Some(goal)) => self.of_goal(goal)?,
            (None, None) => What::Ready,
        };
        if let What::Nothing(_) = what {
            return Ok(what);
        }
        match self.given().into_iter().find(|flag| !what.flags().contains(flag)) {
            None => Ok(what),
            Some(flag) => {
                let message = format!("{flag} does not apply to {}", what.named());
                Err(CommandError::usage(message, format!("leave it out; what applies: {}", what.flags().join(" "))))
            }
        }
    }

    fn of_goal(&self, goal: &str) -> Outcome<What> {
        let typed = !self.allow.is_empty() || !self.test.is_empty();
        match self.workflow {
            Some(How::Pdca) if typed => {
                Err(CommandError::usage("--allow and --test make a contract", "leave out --workflow pdca"))
            }
            Some(How::Contract) => Ok(What::Contract(goal.to_owned())),
            None if typed => Ok(What::Contract(goal.to_owned())),
            Some(How::Pdca) | None => Ok(What::Loop(goal.to_owned())),
        }
    }

    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        [
            ("--workflow", self.workflow.is_some()),
            ("--agent", self.agent.is_some()),
            ("--model", self.model.is_some()),
            ("--allow", !self.allow.is_empty()),
            ("--test", !self.test.is_empty()),
            ("--ac", !self.ac.is_empty()),
            ("--budget", !self.budget.is_empty()),
            ("--yes", self.yes),
            ("--yes-wide", self.yes_wide),
            ("--new", self.new),
            ("--continue", self.go_on),
            ("--no-wait", self.no_wait),
            ("--detach", self.detach),
        ]
        .into_iter()
        .filter_map(|(flag, is_given)| is_given.then_some(flag))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[track_caller]
    fn check(line: &[&str], expected: Result<What, &str>) {
        let dir = std::env::temp_dir().join(format!("norma-what-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        for name in ["contract.json", "two words.json", "7b"] {
            std::fs::write(dir.join(name), "{}").unwrap();
        }
        let args = Line::parse_from(["run"].iter().chain(line)).args;
        match (args.what(&dir), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{line:?}"),
            (Err(error), Err(words)) => assert!(error.message().contains(words), "{line:?}: {}", error.message()),
            (Ok(found), Err(words)) => panic!("{line:?}: {found:?}, not {words}"),
            (Err(error), Ok(expected)) => panic!("{line:?}: {}, not {expected:?}", error.message()),
        }
    }

    #[test]
    fn an_argument_is_a_task_a_file_a_sentence_or_nothing() {
        check(&[], Ok(What::Ready));
        check(&["12"], Ok(What::Task(12)));
        check(&["99999999999999999999"], Err("too large"));
        check(&["7b"], Ok(What::File("7b".into())));
        check(&["contract.json"], Ok(What::File("contract.json".into())));
        check(&["two words.json"], Ok(What::File("two words.json".into())));
        check(&["sub"], Err("is a directory"));
        check(&["fix it"], Ok(What::Sentence("fix it".into())));
        check(&["line one\nline two"], Ok(What::Sentence("line one\nline two".into())));
        check(&["contract.jsn"], Ok(What::Nothing("contract.jsn".into())));
        check(&["  "], Err("nothing to run"));
        check(&["--goal", "x"], Ok(What::Loop("x".into())));
        check(&["--goal", "x", "--allow", "src"], Ok(What::Contract("x".into())));
        check(&["--goal", "x", "--workflow", "contract"], Ok(What::Contract("x".into())));
        check(&["--goal", "x", "--workflow", "pdca", "--test", "make"], Err("make a contract"));
    }

    #[test]
    fn a_flag_counts_or_is_refused() {
        for flag in [
            &["--agent", "claude"][..],
            &["--allow", "src"],
            &["--test", "make"],
            &["--ac", "x"],
            &["--workflow", "pdca"],
            &["--model", "m"],
            &["--budget", "max_tokens=1"],
            &["--yes"],
            &["--continue"],
        ] {
            check(&[&["contract.json"], flag].concat(), Err("does not apply to a file"));
            check(&[&["1"], flag].concat(), Err("does not apply to a task"));
        }
        check(&["1", "--yes-wide"], Err("--yes-wide does not apply to a task"));
        check(&["fix it", "--continue"], Err("--continue does not apply to a sentence"));
        check(&["fix it", "--workflow", "pdca"], Err("--workflow does not apply to a sentence"));
        check(&["--agent", "claude"], Err("--agent does not apply to every ready task"));
        check(&["--goal", "x", "--new"], Err("--new does not apply to the plan-do-check-act loop"));
        check(&["--goal", "x", "--budget", "max_tokens=1"], Err("does not apply"));
    }
}
