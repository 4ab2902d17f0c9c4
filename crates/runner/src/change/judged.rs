//! What is known of a change while it is judged: what was proposed and on what, what each gate said, and how it ends.

use super::difference::Difference;
use super::receipt::{Ending, Landed};
use crate::Result;
use crate::change::acceptance::Acceptance;
use contract::receipt::LeftOut;
use contract::work::{Gate, GateResult, ToolOpsSource};
use contract::{BudgetExceeded, Item, ItemBase, ItemStatus, Reason, StepRef, TreeId};
use run::gate::Finding;
use run::{Run, Worked};
use serde_json::Value;
use std::sync::Arc;

/// What was found out about a change so far.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    /// `changes/NNN`.
    pub(crate) number: u32,
    /// The place of its item in the contract; none for the patch of a loop.
    pub(crate) place: Option<u32>,
    /// The terms that it is judged by.
    pub(crate) item: Arc<Item>,
    /// What was proposed.
    pub(crate) proposal: Proposal,
    /// The commit that its author started from, or would have.
    pub(crate) base: ItemBase,
    /// The tree that the proposal is made on.
    pub(crate) on: TreeId,
    /// The tree that was proposed, once it is known.
    pub(crate) tree: Option<TreeId>,
    /// What each gate said.
    pub(crate) gates: Vec<Asked>,
    /// How the candidate differs from its base.
    pub(crate) change: Difference,
    /// Ignored files that its agent left, and that are no part of the change.
    pub(crate) left_out: Option<LeftOut>,
    pub(crate) tool_ops: u64,
    pub(crate) tool_ops_source: ToolOpsSource,
    pub(crate) tool_trace: Vec<Value>,
    /// What came of its tests.
    pub(crate) tests: Option<Acceptance>,
    /// What looks like a secret in its test files, and a person has to approve.
    pub(crate) secrets: Vec<Finding>,
    /// Paths on the risky list, each with its reason; looked for where a budget counts them.
    pub(crate) risky: Vec<String>,
    /// The budget that it exceeds.
    pub(crate) budget: Option<BudgetExceeded>,
    /// Whether somebody has to be asked once it was merged with what others have landed.
    pub(crate) asks: bool,
}

/// A gate that was asked, and everything that it found.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) gate: Gate,
    pub(crate) findings: Vec<Finding>,
}

impl Asked {
    pub(crate) fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// The same as the log has it: as much as fits.
    pub(crate) fn result(&self) -> GateResult {
        let findings = run::bounded(self.findings.iter().map(Finding::to_string).collect());
        GateResult { gate: self.gate, passed: self.passed(), findings }
    }
}

/// What is to become of a tree.
#[derive(Debug, Clone)]
pub(crate) enum Proposal {
    /// Nothing: no agent was asked.
    Nothing,
    /// What a worker left.
    Worked(Worked),
    /// What an `act` says should change.
    Patch {
        /// The turn that proposed it.
        step: StepRef,
        /// As it was kept.
        bytes: Vec<u8>,
    },
}

/// Why an item does not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: ItemStatus,
    pub(crate) reason: Reason,
    /// In words; never empty.
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: ItemStatus, reason: Reason, message: String) -> Refusal {
        let message = if message.is_empty() { reason.to_string() } else { message };
        Refusal { status, reason, message }
    }
}

impl Judged {
    /// Nothing is known yet of what came of an item.
    pub(crate) fn of_item(run: &Run, place: u32) -> Judged {
        let state = &run.items()[place as usize];
        let (base, proposal) = match state.worked() {
            Some(worked) => (worked.base.clone(), Proposal::Worked(worked.clone())),
            None => (run.base_for(place), Proposal::Nothing),
        };
        let tree = state.worked().and_then(|worked| worked.tree);
        let new = Judged::new(place + 1, state.item.clone(), proposal, base);
        Judged { place: Some(place), tree, ..new }
    }

    /// Nothing is known yet of what a loop's `act` proposes.
    pub(crate) fn of_patch(run: &Run, number: u32, step: StepRef, bytes: Vec<u8>) -> Judged {
        let base = ItemBase { commit: run.started.base.commit, tree: run.started.base.tree };
        let new = Judged::new(number, Arc::new(loop_terms(run)), Proposal::Patch { step, bytes }, base);
        Judged { on: run.tree(), ..new }
    }

    fn new(number: u32, item: Arc<Item>, proposal: Proposal, base: ItemBase) -> Judged {
        Judged {
            number,
            place: None,
            item,
            proposal,
            on: base.tree,
            base,
            tree: None,
            gates: Vec::new(),
            change: Difference::default(),
            left_out: None,
            tool_ops: 0,
            tool_ops_source: ToolOpsSource::None,
            tool_trace: Vec::new(),
            tests: None,
            secrets: Vec::new(),
            risky: Vec::new(),
            budget: None,
            asks: false,
        }
    }

    /// The directory of its evidence, below the run's.
    pub(crate) fn dir(&self) -> String {
        format!("changes/{:03}", self.number)
    }

    /// The tree that was proposed. The gate of the turn's output lets nothing pass that proposes none.
    pub(crate) fn candidate(&self) -> Result<TreeId> {
        let why = || format!("change {} is of no tree", self.number);
        Ok(self.tree.ok_or_else(|| store::Error::Damaged { log: "the log".into(), why: why() })?)
    }

    /// What a worker left, if one was asked.
    pub(crate) fn worked(&self) -> Option<&Worked> {
        match &self.proposal {
            Proposal::Worked(worked) => Some(worked),
            Proposal::Nothing | Proposal::Patch { .. } => None,
        }
    }

    /// Whether it was made in the turn that proposed it. A patch is only text in the answer of a turn that was about
    /// something else.
    pub(crate) fn is_of_turn(&self, worked: &Worked) -> bool {
        worked.step.item.is_none() || worked.step.item == self.place
    }

    /// What each gate said, as the log has it.
    pub(crate) fn results(&self) -> Vec<GateResult> {
        self.gates.iter().map(Asked::result).collect()
    }

    /// The number of the turn that proposed it, if there was one.
    pub(crate) fn step(&self) -> Option<u32> {
        match &self.proposal {
            Proposal::Nothing => None,
            Proposal::Worked(worked) => Some(worked.step.index),
            Proposal::Patch { step, .. } => Some(step.index),
        }
    }

    /// Puts on record what a gate said; whether it passed.
    pub(crate) fn asked(&mut self, gate: Gate, findings: &[Finding]) -> bool {
        self.gates.push(Asked { gate, findings: findings.to_vec() });
        findings.is_empty()
    }

    /// Puts on record what came of its tests; why it ends, if they do not pass.
    pub(crate) fn tested(&mut self, acceptance: Acceptance) -> Option<Refusal> {
        let passed = self.asked(Gate::Tests, &acceptance.findings);
        self.tests = Some(acceptance);
        let message = format!("Tests failed: {}", self.last_words());
        (!passed).then(|| Refusal::new(ItemStatus::Failure, Reason::TestsFailed, message))
    }

    /// Whether a person has to approve it, now that it is there.
    pub(crate) fn needs_approval(&self) -> bool {
        self.bends_tests() || !self.secrets.is_empty()
    }

    /// Whether that is because of what it makes of its tests.
    pub(crate) fn bends_tests(&self) -> bool {
        self.tests.as_ref().is_some_and(|tests| !tests.needs_approval.is_empty())
    }

    /// A person did not approve it.
    pub(crate) fn not_approved(&mut self) -> Refusal {
        if !self.bends_tests() {
            let findings = std::mem::take(&mut self.secrets);
            self.gates.retain(|asked| asked.gate != Gate::Scope);
            self.asked(Gate::Scope, &findings);
            let message = format!("What looks like a secret was not approved: {}", self.last_words());
            return Refusal::new(ItemStatus::Denied, Reason::ApprovalDenied, message);
        }
        let findings = self.tests.as_ref().map(|tests| tests.needs_approval.clone()).unwrap_or_default();
        self.gates.retain(|asked| asked.gate != Gate::Tests);
        self.asked(Gate::Tests, &findings);
        let message = format!("What it makes of its tests was not approved: {}", self.last_words());
        Refusal::new(ItemStatus::Denied, Reason::ApprovalDenied, message)
    }

    /// The item is refused by the gate that was asked last, in that gate's words.
    pub(crate) fn denied(&self, reason: Reason) -> Refusal {
        Refusal::new(ItemStatus::Denied, reason, self.last_words())
    }

    /// The same where it is not forbidden, but not done either.
    pub(crate) fn failed(&self, reason: Reason) -> Refusal {
        Refusal::new(ItemStatus::Failure, reason, self.last_words())
    }

    fn last_words(&self) -> String {
        self.gates.last().map(|last| last.result().findings.join("; ")).unwrap_or_default()
    }

    /// The item ends here.
    pub(crate) fn ends(self, refusal: Refusal) -> Ending {
        let Refusal { status, reason, message } = refusal;
        Ending { judged: self, status, reason: Some(reason), message, landed: None }
    }

    /// Every gate passed.
    pub(crate) fn succeeds(self, landed: Option<Landed>) -> Ending {
        Ending { judged: self, status: ItemStatus::Success, reason: None, message: String::new(), landed }
    }
}

/// The terms of a loop's changes, in the form that every change is judged by.
fn loop_terms(run: &Run) -> Item {
    let contract = &run.started.contract;
    let id = contract.task_id.map_or_else(|| "goal".to_owned(), |task| format!("task-{task}"));
    let timeout_ms = u64::from(contract.limits.step_seconds) * 1000;
    let (goal, submitted) = (contract.goal.clone(), run.started.contract_digest);
    Item {
        agent_id: "act".to_owned(),
        role: "ACT".to_owned(),
        scope: contract.scope.clone(),
        ..Item::of_run(id, String::new(), goal, timeout_ms, submitted)
    }
}
