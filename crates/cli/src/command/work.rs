//! Carrying out a document: a task contract, or work items. What `norma run FILE` and `norma batch FILE` share.

use super::contract::read;
use super::run::{Interrupts, Session, exit_code, trusted_settings, wait_for_lock};
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{safe, short};
use contract::documents::{Kind, RunResult, TaskContract};
use contract::{ApprovalDecision, ApprovalTerms, ApprovalWait, Digest, Item, ItemStatus, RunView, Status};
use runner::{Answer, WorkOrder};
use std::path::PathBuf;
use std::process::ExitCode;
use store::Reader;

/// Why there is a yes that nobody was asked for.
const TYPED: &str = "typed on the command line";

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
    /// Do not wait for another norma.
    pub(crate) no_wait: bool,
    /// Whether the answer is a list, however many there are.
    pub(crate) many: bool,
}

impl Work {
    /// Reads, checks and carries out the document, or goes on with it where it was left.
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let (bytes, name) = match &self.document {
            Document::File(file) => (read(&here.cwd.join(file))?, safe(&file.to_string_lossy())),
            Document::Typed(bytes) => (bytes.clone(), "what you typed".to_owned()),
        };
        let interrupts = Interrupts::install()?;
        let context = here.context()?;
        let settings = trusted_settings(here, &context)?;
        let owner = wait_for_lock(here, &context, self.no_wait)?;
        let (user, objects) = (&context.user, owner.objects());
        let submitted = runner::submit(user, objects, &context.layout, &settings, &bytes)?;
        if let Some(refusal) = submitted.refusal()
            && let Answer::Refused { message, causes, hint, code } = owner.handle(&context, refusal)
        {
            return Err(crate::error::CommandError::refused(code, message, causes, hint));
        }
        let kind = submitted.kind;
        let items = submitted.into_items(&name)?;
        let asked: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
        let session = Session { here, context: &context, owner: &owner, settings, interrupts };
        let view = match self.left(&session, &items)? {
            Some(slug) => session.resume(&slug, self.jobs)?,
            None => session.start_work(self.order(&session, kind, items, bytes)?, self.jobs)?,
        };
        let view = match self.document {
            Document::Typed(_) => session.say_yes(view, self.jobs)?,
            Document::File(_) => view,
        };
        self.finish(&session, &view, &asked)
    }

    /// The run of exactly these items that was left before its end, if there is one.
    pub(super) fn left(&self, session: &Session<'_>, items: &[Item]) -> Outcome<Option<String>> {
        if self.new {
            return Ok(None);
        }
        let reader = Reader::open(&session.context.layout)?;
        for (run, _) in reader.open_runs()?.into_iter().rev() {
            let same = || submitted(run.items().iter().map(|state| &*state.item)) == submitted(items.iter());
            if matches!(run.status, Status::Paused | Status::Waiting) && !run.items().is_empty() && same() {
                return Ok(Some(run.id.slug()));
            }
        }
        Ok(None)
    }

    pub(super) fn order(
        &self,
        session: &Session<'_>,
        kind: Option<Kind>,
        items: Vec<Item>,
        bytes: Vec<u8>,
    ) -> Outcome<WorkOrder> {
        let (objects, policies) = (session.owner.objects(), &session.settings.policies);
        let tree = session.context.user.head()?.tree;
        let approval_for = runner::approval_reasons(objects, tree, items.iter(), policies)?;
        let baseline = match kind {
            Some(Kind::TaskContract) => {
                serde_json::from_slice(&bytes).ok().map(|it: TaskContract| it.rollback.baseline_ref)
            }
            _ => None,
        };
        let goal = match &items[..] {
            [only] => only.goal.clone(),
            several => format!("{} work items", several.len()),
        };
        Ok(WorkOrder { goal, items, submitted: bytes, baseline, again: self.new, approval_for })
    }

    /// Says what came of it, in the order in which it was asked for.
    fn finish(&self, session: &Session<'_>, view: &RunView, asked: &[String]) -> Outcome<ExitCode> {
        let here = session.here;
        let layout = &session.context.layout;
        let (run, _) = Reader::open(layout)?.load(&view.run_id)?;
        let mut results = runner::results(layout, &run)?;
        results.sort_by_key(|result| asked.iter().position(|id| Some(id) == result.id.as_ref()));
        let text = || format!("{}{}", table(&results), super::run::ending(view, &run));
        match (self.many, &results[..]) {
            (false, [only]) => here.print(only, text),
            (false, []) => here.print(view, text),
            _ => here.print(&results, text),
        };
        Ok(exit_code(view))
    }
}

impl Session<'_> {
    /// Whoever typed what may change has said yes to it by that; it goes on record as any other yes.
    fn say_yes(&self, view: RunView, jobs: usize) -> Outcome<RunView> {
        let Some(wait) = self.waits_for(&view)? else { return Ok(view) };
        let by = self.here.person(&self.context.user);
        let (decision, reason) = (ApprovalDecision::Granted, Some(TYPED.to_owned()));
        self.owner.store().answer_approval(wait.approval, decision, by, reason, ApprovalTerms::default()).wait()?;
        self.go_on(&view.run_id, jobs)
    }

    /// The same for a run that goes on from one of which that was said, if it asks for nothing else.
    pub(super) fn say_yes_again(&self, view: RunView, parent: &str, jobs: usize) -> Outcome<RunView> {
        let Some(wait) = self.waits_for(&view)? else { return Ok(view) };
        let said = Reader::open(&self.context.layout)?.approvals(false)?;
        let typed = said.iter().any(|asked| {
            let same = wait.reasons.iter().all(|reason| asked.reasons.contains(reason));
            asked.run_id == parent && asked.used_at.is_some() && asked.reason.as_deref() == Some(TYPED) && same
        });
        if typed { self.say_yes(view, jobs) } else { Ok(view) }
    }

    fn waits_for(&self, view: &RunView) -> Outcome<Option<ApprovalWait>> {
        if view.status != Status::Waiting {
            return Ok(None);
        }
        Ok(Reader::open(&self.context.layout)?.load(&view.run_id)?.0.approval_wait())
    }
}

/// What items were submitted as, in whichever order.
fn submitted<'i>(items: impl Iterator<Item = &'i Item>) -> Vec<(&'i str, Digest)> {
    let mut all: Vec<(&str, Digest)> = items.map(|item| (item.id.as_str(), item.submitted)).collect();
    all.sort();
    all
}

/// One line for each item that did not succeed; a batch of a thousand is not read line by line.
fn table(results: &[RunResult]) -> String {
    let failed = results.iter().filter(|result| result.status != ItemStatus::Success);
    let line = |result: &RunResult| {
        let why = result.denial_reason.as_deref().or(result.error.as_deref()).unwrap_or_default();
        let id = result.id.as_deref().unwrap_or_default();
        format!("{} {}: {}\n", safe(id), result.status, short(why, 200))
    };
    failed.map(line).collect()
}
