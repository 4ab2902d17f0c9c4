//! What a run waits for: asking, answering, and what an answer changes. Approvals have facts of their own, which the store
//! lets into the log only with an approval that was granted and not used; everything else is asked and answered here.

use super::{Core, Outcome, Run};
use crate::workflow::Flow;
use contract::{
    Answered, ApprovalId, ApprovalWait, Budgets, CHOICE_MORE, CHOICE_STOP, Event, Fact, RULES_GUARDED_TESTS, Status,
    StepRef, Timestamp, TreeId, Wait, WaitId, WaitKind,
};
use std::sync::Arc;

/// Longest name and longest text of an answer, in bytes: a line of the log has a limit, and people read it.
const ANSWER_BYTES_MAX: usize = 2000;

/// The law.
impl Run {
    /// A person has to approve before the run starts, or before a change of it lands.
    pub(super) fn wait_for_approval(&mut self, asked: &ApprovalWait) -> Outcome {
        let to_start = asked.reasons == self.started.contract.approval_for && self.core.approvals.is_empty();
        let to_land = self.may_ask_about_change() && !asked.reasons.is_empty();
        if !(to_start || to_land) || !self.core.open.is_empty() {
            return Err("no approval is needed here".into());
        }
        // It is the run that waits, so whatever it waited for before has lapsed.
        self.core.waits.retain(|_, wait| wait.about.is_some());
        self.core.ask_approval(None, asked);
        self.hold(WaitKind::Approval);
        Ok(())
    }

    pub(super) fn ask_approval_within(&mut self, step: StepRef, asked: &ApprovalWait) -> Outcome {
        self.core.require_open(step)?;
        self.core.ask_approval(Some(step), asked);
        Ok(())
    }

    pub(super) fn use_approval(&mut self, approval: ApprovalId) -> Outcome {
        let core = &mut self.core;
        if !core.asked.contains(&approval) || core.approvals.contains(&approval) {
            return Err("this run did not ask for that approval, or has used it".into());
        }
        let wait = core.waits.remove(&WaitId(approval.to_string()));
        let of_run = wait.filter(|wait| wait.about.is_none());
        Arc::make_mut(&mut core.approved).extend(of_run.map(|wait| wait.reasons));
        core.approvals.push(approval);
        Ok(())
    }

    pub(super) fn ask(&mut self, wait: &Wait) -> Outcome {
        let of_plan = self.intent().is_some_and(|intent| intent.may_ask(&wait.id));
        if wait.kind == WaitKind::Approval && !of_plan {
            return Err("approvals are asked for by facts of their own".into());
        }
        // Asked again under its name it is the same question: the run was resumed before somebody had answered.
        let is_new = |open: &Wait| (open.kind, open.about) != (wait.kind, wait.about);
        if self.core.waits.get(&wait.id).is_some_and(is_new) || self.answer_to(&wait.id).is_some() {
            return Err(format!("{} was asked before", wait.id));
        }
        match wait.about {
            Some(step) => self.core.require_open(step)?,
            None => {
                self.require_closed()?;
                self.hold(wait.kind);
            }
        }
        if of_plan {
            self.flow.intent()?.note_asked(wait)?;
        }
        self.core.waits.insert(wait.id.clone(), wait.clone());
        Ok(())
    }

    fn hold(&mut self, kind: WaitKind) {
        self.status = Status::Waiting;
        self.reason = Some(kind.reason());
    }

    pub(super) fn take_answer(&mut self, said: &Answered, ts: Timestamp) -> Outcome {
        let wait = self.core.waits.get(&said.wait).ok_or_else(|| format!("nobody asked {}", said.wait))?;
        // What counts without an answer to a plan's question is a fact of its own: whichever comes first holds.
        let of_plan = self.intent().is_some_and(|intent| intent.asked_by(&said.wait).is_some());
        if !of_plan && wait.deadline.is_some_and(|deadline| ts >= deadline) {
            return Err(format!("{} could be answered until {}", said.wait, wait.deadline.unwrap_or_default()));
        }
        let kind = require_choice(wait, said)?;
        match (kind, &said.budgets) {
            (WaitKind::Budget, Some(more)) if said.choice == CHOICE_MORE => {
                require_more(&self.core.budgets, more)?;
                self.core.budgets = Arc::new(more.clone());
                self.flow.grant_more();
            }
            (WaitKind::Budget, None) if said.choice == CHOICE_STOP => {
                self.core.ends_at_budget = true;
                self.flow.grant_nothing();
            }
            (WaitKind::Budget, _) => return Err("more of a budget says how much, and nothing else does".into()),
            (_, Some(_)) => return Err("budgets are raised only where a budget was asked about".into()),
            (_, None) => {}
        }
        if let Flow::Intent(intent) = &mut self.flow {
            intent.note_answered(said)?;
        }
        self.core.waits.remove(&said.wait);
        Arc::make_mut(&mut self.core.answers).push(Arc::new(said.clone()));
        Ok(())
    }
}

impl Core {
    fn ask_approval(&mut self, about: Option<StepRef>, asked: &ApprovalWait) {
        let id = WaitId(asked.approval.to_string());
        self.asked.insert(asked.approval);
        let (reasons, deadline) = (asked.reasons.clone(), Some(asked.expires_at));
        let wait = Wait { id: id.clone(), kind: WaitKind::Approval, about, reasons, choices: Vec::new(), deadline };
        self.waits.insert(id, wait);
    }

    /// Nobody waits for what was asked in a turn that is over.
    pub(super) fn forget_waits_of(&mut self, step: StepRef) {
        self.waits.retain(|_, wait| wait.about != Some(step));
    }
}

/// What the answer is about, if it is one that was offered.
fn require_choice(wait: &Wait, said: &Answered) -> Result<WaitKind, String> {
    let fits = match wait.choices.is_empty() {
        true => said.choice.is_empty() && said.text.is_some(),
        false => wait.choices.contains(&said.choice),
    };
    match wait.kind {
        // One that is on the audit log has no choices of its own.
        WaitKind::Approval if wait.choices.is_empty() => Err("an approval is used by a fact of its own".into()),
        _ if !fits => Err(format!("{} cannot be answered by {:?}", wait.id, said.choice)),
        kind => Ok(kind),
    }
}

/// Raised budgets take nothing away, give something, and leave alone what holds for a single change.
fn require_more(before: &Budgets, after: &Budgets) -> Outcome {
    let of_changes = |budgets: &Budgets| (budgets.max_patch_kb, budgets.max_changed_files, budgets.max_risky_files);
    if of_changes(before) != of_changes(after) {
        return Err("what holds for a single change cannot be raised".into());
    }
    let pairs = [
        (Some(u64::from(before.max_iterations)), Some(u64::from(after.max_iterations))),
        (before.max_minutes.map(u64::from), after.max_minutes.map(u64::from)),
        (before.max_tokens, after.max_tokens),
        (before.max_cost_usd.map(|usd| usd.0), after.max_cost_usd.map(|usd| usd.0)),
    ];
    let is_less = |(before, after): &(Option<u64>, Option<u64>)| match (before, after) {
        (Some(before), Some(after)) => after < before,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    match pairs.iter().any(is_less) || before == after {
        true => Err("these budgets are not larger than those before".into()),
        false => Ok(()),
    }
}

/// For those who ask, answer and show.
impl Run {
    /// What was asked and not answered yet, by its name.
    pub fn waits(&self) -> impl Iterator<Item = &Wait> {
        self.core.waits.values()
    }

    /// What the run itself waits for; none while it only waits for what one of its turns asked.
    pub fn waits_for(&self) -> Option<&Wait> {
        self.core.waits.values().find(|wait| wait.about.is_none())
    }

    /// The approval that the run itself waits for.
    pub fn approval_wait(&self) -> Option<ApprovalWait> {
        let wait = self.waits_for().filter(|wait| wait.kind == WaitKind::Approval)?;
        let (approval, reasons) = (wait.id.0.parse().ok()?, wait.reasons.clone());
        Some(ApprovalWait { approval, reasons, expires_at: wait.deadline? })
    }

    /// Whether a person has approved what the run waited for with exactly these reasons.
    pub fn has_approved(&self, reasons: &[String]) -> bool {
        self.core.approved.iter().any(|approved| approved == reasons)
    }

    /// Whether a change is judged that a person may have to be asked about.
    pub(crate) fn may_ask_about_change(&self) -> bool {
        let contract = &self.started.contract;
        contract.rules >= RULES_GUARDED_TESTS && self.flow.judged_next().is_some()
    }

    /// The trees before and after the change that the run waits with, if a person is asked about one.
    pub fn asked_about(&self) -> Option<(TreeId, TreeId)> {
        let wait = self.approval_wait().filter(|wait| wait.reasons != self.started.contract.approval_for);
        let worked = self.flow.judged_next().filter(|_| wait.is_some())?;
        Some((worked.base.tree, worked.tree?))
    }

    /// What was answered under this name.
    pub fn answer_to(&self, wait: &WaitId) -> Option<&Answered> {
        self.core.answers.iter().map(|said| &**said).find(|said| said.wait == *wait)
    }

    /// The budgets that hold now: those of the contract, with what was granted since.
    pub fn budgets(&self) -> &Budgets {
        &self.core.budgets
    }

    /// The fact that answers a wait, or why it cannot be answered like this. Record it, and after it
    /// [`Fact::RunResumed`] where the run itself waited. Whether its time has passed is seen when it is recorded.
    pub fn answer(
        &self,
        wait: &WaitId,
        choice: &str,
        by: &str,
        text: Option<String>,
        budgets: Option<Budgets>,
    ) -> Result<Fact, String> {
        for words in [Some(by), text.as_deref()].into_iter().flatten() {
            if words.trim().is_empty() || words.len() > ANSWER_BYTES_MAX {
                return Err(format!("a name and a text need words, and at most {ANSWER_BYTES_MAX} bytes of them"));
            }
        }
        let said = Answered { wait: wait.clone(), choice: choice.to_owned(), by: by.to_owned(), text, budgets };
        let fact = Fact::Answered(Box::new(said));
        let mut after = self.clone();
        for fact in [fact.clone(), Fact::RunResumed { pid: 0 }] {
            if matches!(fact, Fact::RunResumed { .. }) && after.status == Status::Running {
                break;
            }
            let event = Event { seq: after.seq + 1, ts: Timestamp::default(), fact };
            after.advance(&event).map_err(|illegal| illegal.why)?;
        }
        match after.next() {
            crate::Due::Ask(again) if again.kind == WaitKind::Budget => {
                Err(format!("that is not enough: {}", again.reasons.first().map_or("", String::as_str)))
            }
            _ => Ok(fact),
        }
    }
}
