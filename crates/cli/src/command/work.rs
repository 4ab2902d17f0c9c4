//! Carrying out a document: a task contract, or work items. What `norma run FILE` and `norma batch FILE` share.

use super::contract::read;
use crate::ending::{ending, exit_code};
use crate::error::{CommandError, Outcome, code};
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::{err, prompt, safe};
use contract::documents::RunResult;
use contract::{ApprovalView, RunView, Status, lines_of_reason};
use runner::{Start, Typed};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::process::ExitCode;

/// How much of an answer is read.
const LINE_BYTES_MAX: u64 = 1024;

/// Where a document comes from.
pub(crate) enum Document {
    /// A file.
    File(PathBuf),
    /// The command line itself.
    Typed(Vec<u8>),
}

/// What was asked for on the command line.
pub(crate) struct Work {
    /// The document.
    pub(crate) document: Document,
    /// How many items at once.
    pub(crate) jobs: usize,
    /// Start over, and let a change land that has landed before.
    pub(crate) new: bool,
    /// What to do about another norma.
    pub(crate) asks: Asks,
    /// Approve what it needs approval for.
    pub(crate) yes_wide: bool,
    /// Whether the answer is a list, however many there are.
    pub(crate) many: bool,
    /// What was typed beside a document that was typed itself.
    pub(crate) typed: Option<Typed>,
}

impl Work {
    /// Reads, checks and carries out the document, or continues it where it was left.
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let (bytes, name) = match &self.document {
            Document::File(file) => (read(&here.cwd.join(file))?, safe(&file.to_string_lossy())),
            Document::Typed(bytes) => (bytes.clone(), "what you typed".to_owned()),
        };
        let text = text(&name, bytes)?;
        let asked = ids(&text);
        let mut session = Session::at(here, here.context_or_private()?, self.asks)?;
        let approved_by = match self.approval(here, text.as_bytes())? {
            Approval::NotNeeded | Approval::Later => None,
            Approval::Given => Some(session.person()),
            Approval::Refused => {
                let hint = "make the scope narrower, or approve it: --yes-wide";
                return Err(CommandError::new(code::WAITING, "not approved, so nothing was started".to_owned(), hint));
            }
        };
        let is_approved = approved_by.is_some();
        let (jobs, new, typed) = (self.jobs, self.new, self.typed.clone());
        let mut view = session.carry_out_to_result(Start::Document { name, text, jobs, new, approved_by, typed })?;
        if session.leaves() {
            return session.leave(&view, is_approved);
        }
        while view.status == Status::Waiting && self.approves_change(&session, &view)? {
            let (run, by) = (view.run_id.to_string(), session.person());
            view = session.carry_out_to_result(Start::Resume { run, jobs, approved_by: Some(by) })?;
        }
        self.finish(&session, &view, &asked)
    }

    /// Asks whoever is at the terminal, unless they have answered on the command line.
    fn approval(&self, here: &Surroundings, bytes: &[u8]) -> Outcome<Approval> {
        if self.yes_wide {
            return Ok(Approval::Given);
        }
        if !here.is_attended() {
            return Ok(Approval::Later);
        }
        let context = here.context()?;
        let settings = match &self.typed {
            None => super::contract::settings(here, &context)?,
            Some(typed) => {
                let named = here.config.as_ref().map(|path| here.cwd.join(path));
                let mut settings = runner::settings_in_force(&context, named.as_deref())?.settings;
                typed.apply(&mut settings)?;
                settings
            }
        };
        let reasons = super::contract::approval_reasons(&context, &settings, bytes)?;
        if reasons.is_empty() {
            return Ok(Approval::NotNeeded);
        }
        Ok(if confirm(&reasons) { Approval::Given } else { Approval::Refused })
    }

    /// Asks whoever is at the terminal about the change that a run waits with. A no leaves it waiting.
    fn approves_change(&self, session: &Session<'_>, view: &RunView) -> Outcome<bool> {
        let run = session.run(&view.run_id)?;
        let wait = run.approval_wait().filter(|wait| wait.reasons != run.started.contract.approval_for);
        Ok(session.here.is_attended() && wait.is_some_and(|wait| confirm(&wait.reasons)))
    }

    /// Says what came of it, in the order in which it was asked for.
    fn finish(&self, session: &Session<'_>, view: &RunView, asked: &[String]) -> Outcome<ExitCode> {
        let here = session.here;
        let (reader, run) = (session.reader()?, session.run(&view.run_id)?);
        let mut results = runner::results(session.layout(), &run)?;
        let places: BTreeMap<&str, usize> = asked.iter().map(String::as_str).zip(0..).collect();
        results.sort_by_key(|result| result.id.as_deref().and_then(|id| places.get(id)));
        let again = here.again(&run);
        let text = || ending(&reader, view, &run, again.as_deref());
        if view.status == Status::Waiting {
            let approvals = session.reader()?.approvals(true)?;
            let approvals = approvals.into_iter().filter(|asked| asked.run_id == view.run_id).collect();
            session.print(&Waiting { run: view, approvals, results: &results }, text)?;
            return Ok(exit_code(view));
        }
        match (self.many, &results[..]) {
            (false, [only]) => session.print(only, text),
            (false, []) => session.print(view, text),
            _ => session.print(&results, text),
        }?;
        Ok(exit_code(view))
    }
}

/// A run that is left waiting, as programs read it.
#[derive(serde::Serialize)]
struct Waiting<'v> {
    #[serde(flatten)]
    run: &'v RunView,
    /// What it waits for, if that is a person's approval.
    approvals: Vec<ApprovalView>,
    /// What came of the items that have ended.
    results: &'v [RunResult],
}

/// Whether somebody approves what a document needs approval for, before anything starts.
enum Approval {
    NotNeeded,
    Given,
    Refused,
    /// Nobody is there to ask: the run waits for it.
    Later,
}

/// Shows whoever is at the terminal why they are asked, and reads their answer.
fn confirm(reasons: &[String]) -> bool {
    err("This needs your approval:");
    reasons.iter().flat_map(|reason| lines_of_reason(reason)).for_each(|line| err(&format!("  {}", safe(line))));
    prompt("Approve it? [y/N] ");
    let mut line = String::new();
    let read = std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line).unwrap_or_default();
    read > 0 && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

/// A document as text.
pub(super) fn text(name: &str, bytes: Vec<u8>) -> Outcome<String> {
    String::from_utf8(bytes).map_err(|_| {
        CommandError::usage(format!("{name} is not text"), "a contract is JSON in UTF-8 (norma help contracts)")
    })
}

/// The ids of a document's items, in the order in which they are listed.
fn ids(text: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let listed = document.as_array().map_or_else(|| std::slice::from_ref(&document), Vec::as_slice);
    listed.iter().filter_map(|item| Some(item.get("id")?.as_str()?.to_owned())).collect()
}
