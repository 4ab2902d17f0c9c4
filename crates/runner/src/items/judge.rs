//! Judging an item: the gates, one after another, on what norma itself captured. The first that finds something closes
//! the item, and nothing later is asked.

use super::bench::Bench;
use super::change::Change;
use super::finish::finish;
use super::papers::{Ending, Landed};
use super::{no_items, world};
use crate::Result;
use crate::acceptance::Acceptance;
use crate::book::Pending;
use crate::drive::Driver;
use crate::landing::id;
use crate::policy::Rules;
use contract::receipt::LeftOut;
use contract::work::{Gate, GateResult, ToolOpsSource};
use contract::{Digest, Item, ItemBase, ItemStatus, Reason};
use run::gate::Finding;
use run::{Run, Worked};
use serde_json::Value;
use std::sync::Arc;

/// What was found out about an item so far.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) place: u32,
    pub(crate) item: Arc<Item>,
    /// What its agent stood on; none if no agent was asked.
    pub(crate) worked: Option<Worked>,
    /// Where it started, or would have.
    pub(crate) base: ItemBase,
    /// What each gate said.
    pub(crate) gates: Vec<GateResult>,
    /// How the candidate differs from its base.
    pub(crate) change: Change,
    /// Ignored files that its agent left, and that are no part of the change.
    pub(crate) left_out: Option<LeftOut>,
    pub(crate) tool_ops: u64,
    pub(crate) tool_ops_source: ToolOpsSource,
    pub(crate) tool_trace: Vec<Value>,
    /// What came of its tests.
    pub(crate) tests: Option<Acceptance>,
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
    /// Nothing is known yet of an item of a run.
    pub(crate) fn of(run: &Run, place: u32) -> Judged {
        let state = &run.items[place as usize];
        let worked = state.worked().cloned();
        let base = worked.as_ref().map_or_else(|| run.base_for(place), |worked| worked.base.clone());
        Judged {
            place,
            item: state.item.clone(),
            worked,
            base,
            gates: Vec::new(),
            change: Change::default(),
            left_out: None,
            tool_ops: 0,
            tool_ops_source: ToolOpsSource::None,
            tool_trace: Vec::new(),
            tests: None,
        }
    }

    /// The tree that its agent left; empty if there is none.
    pub(crate) fn candidate(&self) -> String {
        self.worked.as_ref().and_then(|worked| worked.tree.clone()).unwrap_or_default()
    }

    /// Puts on record what a gate said; whether it passed.
    pub(crate) fn asked(&mut self, gate: Gate, findings: &[Finding]) -> bool {
        let findings = run::bounded(findings.iter().map(Finding::to_string).collect());
        let passed = findings.is_empty();
        self.gates.push(GateResult { gate, passed, findings });
        passed
    }

    /// Puts on record what came of its tests; why it ends, if they do not pass.
    pub(crate) fn tested(&mut self, acceptance: Acceptance) -> Option<Refusal> {
        let passed = self.asked(Gate::Tests, &acceptance.findings);
        self.tests = Some(acceptance);
        let message = format!("Tests failed: {}", self.last_words());
        (!passed).then(|| Refusal::new(ItemStatus::Failure, Reason::TestsFailed, message))
    }

    /// The item is refused by the gate that was asked last, in that gate's words.
    pub(crate) fn denied(&self, reason: Reason) -> Refusal {
        Refusal::new(ItemStatus::Denied, reason, self.last_words())
    }

    fn last_words(&self) -> String {
        self.gates.last().map(|last| last.findings.join("; ")).unwrap_or_default()
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

/// Has the gates asked with what the driver has.
pub(super) fn on_bench<T>(driver: &mut Driver<'_, '_>, ask: impl FnOnce(&Bench<'_>) -> Result<T>) -> Result<T> {
    let (run_dir, reader) = (driver.run_dir(), &driver.reader);
    let landed = |content: &Digest| Ok(reader.landed_receipt(content)?);
    let objects = driver.world.items().ok_or_else(no_items)?.objects();
    let rules = Rules::new(driver.policies, &driver.store.layout);
    ask(&Bench { objects, rules, run: &driver.run, run_dir, landed: &landed })
}

/// Whether everything is there that must be before an agent starts; if not, how the item ends.
pub(super) fn inputs(driver: &mut Driver<'_, '_>, place: u32) -> Result<Option<Ending>> {
    let mut judged = Judged::of(&driver.run, place);
    let refused = on_bench(driver, |bench| bench.judge_inputs(&mut judged))?;
    Ok(refused.map(|refusal| judged.ends(refusal)))
}

/// Judges what an item's agent left. `sealed` is the record of its turn, where that is still on its way to the disk.
pub(super) fn judge(driver: &mut Driver<'_, '_>, place: u32, sealed: Option<Pending>) -> Result<()> {
    let mut judged = Judged::of(&driver.run, place);
    if let Some(refusal) = on_bench(driver, |bench| bench.judge(&mut judged))? {
        return finish(driver, judged.ends(refusal), sealed);
    }
    if judged.item.tests.is_empty() {
        return accepted(driver, judged, sealed);
    }
    // The tests may take long: by then everybody should know how far this is.
    if let Some(sealed) = sealed {
        driver.book.settle(sealed)?;
    }
    let (tree, base) = (judged.candidate(), judged.base.tree.clone());
    match tested(driver, &mut judged, &tree, &base)? {
        Tested::Passed => accepted(driver, judged, None),
        Tested::Failed(refusal) => finish(driver, judged.ends(refusal), None),
        Tested::Interrupted => Ok(()),
    }
}

/// What passed every gate lands when its turn comes; what changes nothing has nothing to wait for.
fn accepted(driver: &mut Driver<'_, '_>, judged: Judged, sealed: Option<Pending>) -> Result<()> {
    if judged.change.paths.is_empty() {
        return finish(driver, judged.succeeds(None), sealed);
    }
    if let Some(sealed) = sealed {
        driver.book.settle(sealed)?;
    }
    driver.book.page().desk.judged.insert(judged.place, judged);
    Ok(())
}

/// What came of an item's tests.
pub(super) enum Tested {
    Passed,
    Failed(Refusal),
    /// norma was asked to stop: nothing is known.
    Interrupted,
}

/// Tries the item's tests on a tree.
pub(super) fn tested(driver: &mut Driver<'_, '_>, judged: &mut Judged, tree: &str, base: &str) -> Result<Tested> {
    let (run, item) = (driver.run.clone(), judged.item.clone());
    let acceptance = world(driver)?.accept(&run, &item, id(tree)?, id(base)?)?;
    if driver.control.requested().is_some() {
        return Ok(Tested::Interrupted);
    }
    Ok(judged.tested(acceptance).map_or(Tested::Passed, Tested::Failed))
}
