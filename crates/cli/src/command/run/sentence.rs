//! `norma run "what I want"`: from a sentence to a contract that a person has seen. norma picks the agent, proposes what may
//! change and what must succeed, and shows it in six lines; one key runs it, edits it or leaves. Nothing is written before
//! that, not even a state directory.

use super::draft::{Draft, allowed, check_committed, tests, unjudged};
use super::shown::{Shown, budgets_of};
use super::{Args, agent, preflight};
use crate::command::contract::refusal;
use crate::command::work::Document;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{err, key, out, prompt, safe};
use contract::Item;
use run::proposal::propose;
use runner::{Context, InForce, Preview, Settings, Surveyed, Typed};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a person says to a contract.
enum Answer {
    Run,
    Edit,
    Leave,
}

/// A sentence on its way to a contract.
struct Planned<'a> {
    here: &'a Surroundings,
    context: &'a Context,
    preview: &'a Preview<'a>,
    settings: Settings,
    agent: Surveyed,
    typed: Typed,
    notes: Vec<String>,
    because: String,
    /// Whether criteria were typed, which something has to judge.
    has_criteria: bool,
    /// The contract, as it is submitted.
    document: Value,
}

/// A contract that can be started.
struct Checked {
    item: Item,
    /// Why it needs an approval of its own.
    wide: Vec<String>,
    notes: Vec<String>,
}

pub(super) fn run(args: Args, sentence: &str, here: &Surroundings) -> Outcome<ExitCode> {
    let context = here.context_to_be()?;
    let named = here.config.as_ref().map(|path| here.cwd.join(path));
    let InForce { settings, unused } = runner::settings_in_force(&context, named.as_deref())?;
    runner::check_sandbox(&settings.config.sandbox, here.mode, &context.sandbox)?;
    let agent = agent::choose(here, &context, &settings.config, args.agent.as_deref())?;
    let preview = Preview::open(&context)?;
    let mut planned = plan(&args, sentence, here, (&context, &preview), (settings, agent))?;
    planned.notes.extend(unused);
    let mut checked = planned.check()?;
    if !args.yes {
        if !here.is_attended() {
            return Ok(planned.leave_unconfirmed(&checked));
        }
        loop {
            planned.show(&checked).lines().for_each(|line| err(&line));
            match answer() {
                Answer::Run => break,
                Answer::Leave => {
                    return Err(CommandError::new(
                        code::WAITING,
                        "left: nothing was started",
                        "start over when you like",
                    ));
                }
                Answer::Edit => checked = planned.edit()?,
            }
        }
    } else if !here.json {
        planned.show(&checked).lines().for_each(|line| err(&line));
    }
    if args.yes && !args.yes_wide && !checked.wide.is_empty() {
        let message = format!("--yes does not approve this:\n  {}", safe(&checked.wide.join("\n  ")));
        return Err(CommandError::new(
            code::WAITING,
            message,
            "approve it as well: --yes-wide; or name less: --allow PATH",
        ));
    }
    planned.start(&args, &checked.item)
}

/// The contract that is proposed, with what was typed in place of proposals.
fn plan<'a>(
    args: &Args,
    sentence: &str,
    here: &'a Surroundings,
    (context, preview): (&'a Context, &'a Preview<'a>),
    (mut settings, agent): (Settings, Surveyed),
) -> Outcome<Planned<'a>> {
    let (facts, left_out) = preview.facts()?;
    let proposal = propose(sentence, &facts);
    let typed_paths = allowed(here, preview, &args.allow)?;
    let new = typed_paths.iter().filter(|it| it.is_new).map(|it| format!("{} is a new file", it.path));
    let mut notes: Vec<String> = new.chain(left_out).collect();
    let tests = match args.test.is_empty() {
        true => {
            notes.extend(proposal.notes);
            proposal.tests
        }
        false => tests(here, preview, &settings, &facts, &args.test)?,
    };
    let (allow, because) = match typed_paths.is_empty() {
        true => (proposal.allow, proposal.because),
        false => (typed_paths.into_iter().map(|it| it.path).collect(), String::new()),
    };
    let typed = Typed {
        agent: agent.name.clone(),
        model: args.model.clone(),
        budgets: budgets_of(&args.budget, &settings.config.budgets, &agent),
    };
    typed.apply(&mut settings)?;
    let draft = Draft { goal: sentence, criteria: &args.ac, agent: &agent.name, allow, tests };
    let document = draft.document()?;
    let has_criteria = !args.ac.is_empty();
    Ok(Planned { here, context, preview, settings, agent, typed, notes, because, has_criteria, document })
}

impl Planned<'_> {
    /// Holds the contract to everything that a run of it would be held to before an agent starts.
    fn check(&self) -> Outcome<Checked> {
        let bytes = self.document.to_string().into_bytes();
        let submitted = self.preview.submit(&self.settings, &bytes)?;
        let items = match &submitted.items {
            Ok(items) => items.clone(),
            Err(_) => return Err(refusal("that contract", submitted)),
        };
        let [item] = &items[..] else {
            return Err(CommandError::usage("a sentence is one work item", "several: norma batch FILE"));
        };
        if self.has_criteria && item.tests.is_empty() {
            return Err(unjudged());
        }
        let mut notes = self.notes.clone();
        for path in &item.scope.allowed_paths {
            let path = check_committed(self.preview, path.as_str(), path.as_str())?;
            let note = format!("{} is a new file", path.path);
            if path.is_new && !notes.contains(&note) {
                notes.push(note);
            }
        }
        let wide = self.preview.approval_reasons(&self.settings, &items)?;
        Ok(Checked { item: item.clone(), wide, notes })
    }

    fn show<'s>(&'s self, checked: &'s Checked) -> Shown<'s> {
        Shown {
            context: self.context,
            head: &self.preview.head,
            settings: &self.settings,
            agent: &self.agent,
            because: &self.because,
            item: &checked.item,
            wide: &checked.wide,
            notes: &checked.notes,
        }
    }

    /// Nobody is there to confirm it: it is printed, and nothing is started.
    fn leave_unconfirmed(&self, checked: &Checked) -> ExitCode {
        let shown = self.show(checked);
        match self.here.json {
            true => out(&shown.json(&self.document).to_string()),
            false => {
                shown.lines().for_each(|line| out(&line));
                let wide = if checked.wide.is_empty() { "" } else { " --yes-wide" };
                err(&format!("nothing was started\nnext: the same with --yes{wide} runs it"));
            }
        }
        ExitCode::from(code::WAITING)
    }

    /// Opens the contract in the user's editor until it is good, or as it was.
    fn edit(&mut self) -> Outcome<Checked> {
        let file = EditedFile::new(&self.document)?;
        loop {
            let before = self.document.clone();
            match file.edited(self.here).map(|document| self.document = document).and_then(|()| self.check()) {
                Ok(checked) => {
                    self.because.clear();
                    return Ok(checked);
                }
                Err(problem) => {
                    self.document = before;
                    problem.report(false);
                    prompt("e edit again · any other key: keep the contract as it was ");
                    if key() != Some('e') {
                        return self.check();
                    }
                }
            }
        }
    }

    fn start(self, args: &Args, item: &Item) -> Outcome<ExitCode> {
        let Planned { here, settings, typed, document, preview, .. } = self;
        let shown = preview.shown(&settings.config)?;
        let context = here.context_or_private()?;
        preflight::tell_base_tests(here, &context, &settings, &shown, item)?;
        let document = Document::Typed(document.to_string().into_bytes());
        args.work(document, Some(typed)).run(here)
    }
}

fn answer() -> Answer {
    prompt("r run · e edit · q leave ");
    match key() {
        Some('r' | 'R' | 'y' | 'Y' | '\n' | '\r') => Answer::Run,
        Some('e' | 'E') => Answer::Edit,
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
