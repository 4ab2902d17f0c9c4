//! `norma completions`: a completion script for a shell. The script asks norma itself what fits, so that run, task and
//! approval ids of the repository are offered besides verbs and options.

use super::Cli;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::short;
use clap::{CommandFactory, Parser};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use std::process::ExitCode;

/// The variable by which a script asks for candidates.
const VARIABLE: &str = "NORMA_COMPLETE";

/// How many of the newest runs are offered.
const RUNS_MAX: u64 = 50;

/// Print a completion script for your shell
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma completions bash > ~/.local/share/bash-completion/completions/norma\n  norma completions zsh > ~/.zfunc/_norma\n  norma completions fish > ~/.config/fish/completions/norma.fish\n\nRun the command again after an update of norma."
)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

impl Args {
    pub(crate) fn run(self) -> Outcome<ExitCode> {
        let (shells, name) = (Shells::builtins(), self.shell.to_string());
        let shell = shells.completer(&name).expect("BUG: every shell that can be named is built in");
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "norma", "norma", "norma", &mut script).map_err(|error| {
            CommandError::new(code::ENVIRONMENT, format!("could not write the script: {error}"), "try again")
        })?;
        crate::text::bytes_out(&script);
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether a script asks what fits.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Answers a script. It only reads, and whatever goes wrong means that no ids are offered: a shell that waits for
/// completions has no place for an error.
pub(crate) fn answer() -> ExitCode {
    CompleteEnv::with_factory(|| with_candidates(Cli::command())).var(VARIABLE).complete();
    ExitCode::SUCCESS
}

/// The command line with ids where it takes some, known by the names of its arguments.
fn with_candidates(command: clap::Command) -> clap::Command {
    let of_tasks = command.get_name() == "task";
    command.mut_subcommands(move |verb| {
        let name = verb.get_name().to_owned();
        let verb = with_candidates(verb);
        verb.mut_args(|arg| match (arg.get_id().as_str(), name.as_str()) {
            ("run" | "into", _) => arg.add(ArgValueCandidates::new(runs)),
            ("what", "run") => arg.add(ArgValueCandidates::new(tasks)),
            ("id", "approve" | "deny") => arg.add(ArgValueCandidates::new(approvals)),
            ("id" | "depends_on", _) if of_tasks => arg.add(ArgValueCandidates::new(tasks)),
            ("about", "help") => arg.add(ArgValueCandidates::new(topics)),
            _ => arg,
        })
    })
}

/// What is on record where the shell is.
fn reader() -> Option<store::Reader> {
    let cli = Cli::try_parse_from(["norma", "runs"]).ok()?;
    Surroundings::read(&cli).ok()?.reader().ok()
}

fn candidate(value: impl ToString, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(value.to_string()).help(Some(short(help, 60).into()))
}

fn runs() -> Vec<CompletionCandidate> {
    let runs = reader().and_then(|reader| reader.runs(Some(RUNS_MAX)).ok()).unwrap_or_default();
    let newest = (!runs.is_empty()).then(|| candidate("@last", "the newest run"));
    let named = runs.iter().map(|run| candidate(run.run_id, &format!("{}: {}", run.status, run.goal)));
    newest.into_iter().chain(named).collect()
}

fn tasks() -> Vec<CompletionCandidate> {
    let tasks = reader().and_then(|reader| reader.tasks(None).ok()).unwrap_or_default();
    tasks.iter().map(|task| candidate(task.id, &format!("{}: {}", task.status.as_str(), task.goal))).collect()
}

fn approvals() -> Vec<CompletionCandidate> {
    let waiting = reader().and_then(|reader| reader.approvals(true).ok()).unwrap_or_default();
    waiting.iter().map(|asked| candidate(asked.id, asked.reasons.first().map_or("", String::as_str))).collect()
}

fn topics() -> Vec<CompletionCandidate> {
    let verbs = Cli::command();
    let verbs = verbs.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs =
        verbs.map(|verb| candidate(verb.get_name(), &verb.get_about().map_or_else(String::new, ToString::to_string)));
    verbs.chain(crate::pages::PAGES.iter().map(|page| candidate(page.name, page.about))).collect()
}
