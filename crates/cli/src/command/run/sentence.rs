//! `norma run "what I want"`: from a sentence to a contract that a person has seen. norma picks the agent, proposes what may
//! change and what must succeed, and shows it in six lines; one key runs it, edits it or leaves. Nothing is written before
//! that, not even a state directory.

use super::shown::lines;
use super::{Args, agent, preflight};
use crate::command::pipeline;
use crate::command::work::Document;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{err, key, out, prompt, safe};
use contract::api::ContractPreview;
use runner::{Checked, Planned, Wanted};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a person says to a contract.
enum Answer {
    Run,
    /// Not as one contract, but through the stages of a pipeline.
    Pipeline,
    Edit,
    Leave,
}

pub(super) fn run(args: Args, sentence: &str, here: &Surroundings) -> Outcome<ExitCode> {
    let context = here.context_to_be()?;
    let named = here.config.as_ref().map(|path| here.cwd.join(path));
    let wanted = Wanted {
        sentence,
        typing: args.typing(here),
        agent: args.agent.as_deref(),
        model: args.model.as_deref(),
        budgets: &args.budget,
        answers: &Default::default(),
    };
    let pick = |ready: &[runner::Surveyed]| agent::pick(here, &context, ready);
    let mut planned = runner::plan(&context, (named.as_deref(), here.mode), &wanted, pick)?;
    let mut checked = planned.check()?;
    if !args.yes {
        if !here.is_attended() {
            return Ok(leave_unconfirmed(here, &shown(&planned, &checked)));
        }
        loop {
            lines(&shown(&planned, &checked)).iter().for_each(|line| err(line));
            match answer() {
                Answer::Run => break,
                Answer::Leave => {
                    return Err(CommandError::new(
                        code::WAITING,
                        "left: nothing was started",
                        "start over when you like",
                    ));
                }
                Answer::Edit => checked = edit(here, &mut planned)?,
                Answer::Pipeline => {
                    return pipeline::of_sentence(here, sentence, &planned, args.yes_wide, args.asks());
                }
            }
        }
    } else if !here.json {
        lines(&shown(&planned, &checked)).iter().for_each(|line| err(line));
    }
    if args.yes && !args.yes_wide && !checked.wide.is_empty() {
        let message = format!("--yes does not approve this:\n  {}", safe(&checked.wide.join("\n  ")));
        return Err(CommandError::new(
            code::WAITING,
            message,
            "approve it as well: --yes-wide; or name less: --allow PATH",
        ));
    }
    start(here, &args, &planned, &checked)
}

fn shown(planned: &Planned<'_>, checked: &Checked) -> ContractPreview {
    let wide = if checked.wide.is_empty() { "" } else { " --yes-wide" };
    planned.shown(checked, format!("the same with --yes{wide} runs it"))
}

/// Nobody is there to confirm it: it is printed, and nothing is started.
fn leave_unconfirmed(here: &Surroundings, shown: &ContractPreview) -> ExitCode {
    match here.json {
        true => out(&serde_json::to_string(shown).expect("BUG: a preview is plain data")),
        false => {
            lines(shown).iter().for_each(|line| out(line));
            err(&format!("nothing was started\nnext: {}", shown.next));
        }
    }
    ExitCode::from(code::WAITING)
}

/// Opens the contract in the user's editor until it is good, or as it was.
fn edit(here: &Surroundings, planned: &mut Planned<'_>) -> Outcome<Checked> {
    let file = EditedFile::new(&planned.document)?;
    loop {
        let before = planned.document.clone();
        let edited = file.edited(here).map(|document| planned.document = document);
        match edited.and_then(|()| Ok(planned.check()?)) {
            Ok(checked) => {
                planned.because.clear();
                return Ok(checked);
            }
            Err(problem) => {
                planned.document = before;
                problem.report(false);
                prompt("e edit again · any other key: keep the contract as it was ");
                if key() != Some('e') {
                    return Ok(planned.check()?);
                }
            }
        }
    }
}

fn start(here: &Surroundings, args: &Args, planned: &Planned<'_>, checked: &Checked) -> Outcome<ExitCode> {
    let shown = planned.preview.shown(&planned.settings.config)?;
    let context = here.context_or_private()?;
    preflight::tell_base_tests(here, &context, &planned.settings, &shown, &checked.item)?;
    let document = Document::Typed(planned.document.to_string().into_bytes());
    args.work(document, Some(planned.typed.clone())).run(here)
}

fn answer() -> Answer {
    prompt("r run · e edit · p pipeline · q leave ");
    match key() {
        Some('r' | 'R' | 'y' | 'Y' | '\n' | '\r') => Answer::Run,
        Some('e' | 'E') => Answer::Edit,
        Some('p' | 'P') => Answer::Pipeline,
        _ => Answer::Leave,
    }
}

/// A contract in a file of its own, for an editor.
struct EditedFile(PathBuf);

impl EditedFile {
    fn new(document: &Value) -> Outcome<EditedFile> {
        let path = std::env::temp_dir().join(format!("norma-contract-{}.json", std::process::id()));
        let text = serde_json::to_string_pretty(document).expect("BUG: a contract is plain data") + "\n";
        let mut file = std::fs::File::options().write(true).create_new(true).open(&path);
        let written = file
            .as_mut()
            .map_err(|error| std::io::Error::from(error.kind()))
            .and_then(|file| std::io::Write::write_all(file, text.as_bytes()));
        written.map_err(|error| failed(&path, &error)).map(|()| EditedFile(path))
    }

    /// What is in it after the editor has ended.
    fn edited(&self, here: &Surroundings) -> Outcome<Value> {
        let status = runner::process::edit(&here.editor, &self.0).map_err(|error| failed(&self.0, &error))?;
        if !status.success() {
            let message = format!("the editor {} ended with {status}", safe(&here.editor.to_string_lossy()));
            return Err(CommandError::usage(message, "set VISUAL or EDITOR to one that works"));
        }
        let bytes = std::fs::read(&self.0).map_err(|error| failed(&self.0, &error))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            CommandError::usage(format!("what you saved is not JSON: {error}"), "edit it again, or leave it")
        })
    }
}

impl Drop for EditedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn failed(path: &std::path::Path, error: &std::io::Error) -> CommandError {
    CommandError::new(code::ENVIRONMENT, format!("could not edit {}: {error}", path.display()), "set VISUAL or EDITOR")
}
