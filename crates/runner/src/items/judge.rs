//! Judging an item: the gates, one after another, on what norma itself captured. The first that finds something closes
//! the item, and nothing later is asked.

use super::change::Change;
use super::finish::{Ending, finish};
use super::world;
use crate::acceptance::Acceptance;
use crate::book::Pending;
use crate::drive::Driver;
use crate::landing::id;
use crate::observe::LyingAbout;
use crate::{Error, Result};
use contract::work::{Gate, GateResult, ToolOpsSource};
use contract::{Item, ItemBase, ItemStatus, Reason, Receipt, TurnEnd};
use run::gate::admission::{self, Weight};
use run::gate::scope::{self, Observed, Scope};
use run::gate::{Finding, Rule, tool_ops};
use run::{ItemStage, ItemState, Worked};
use serde_json::Value;
use std::io::Read;
use std::sync::Arc;

/// How much of what an agent says about its tools is read; the sandbox bounds what it can say at all.
const TOOL_BYTES_MAX: u64 = 64 << 20;

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
    pub(crate) tool_ops: u64,
    pub(crate) tool_ops_source: ToolOpsSource,
    pub(crate) tool_trace: Vec<Value>,
    /// What came of its tests.
    pub(crate) tests: Option<Acceptance>,
}

impl Judged {
    fn new(place: u32, state: &ItemState, base: ItemBase) -> Judged {
        let worked = match &state.stage {
            ItemStage::Worked(worked) => Some(worked.clone()),
            _ => None,
        };
        Judged {
            place,
            item: state.item.clone(),
            worked,
            base,
            gates: Vec::new(),
            change: Change::default(),
            tool_ops: 0,
            tool_ops_source: ToolOpsSource::None,
            tool_trace: Vec::new(),
            tests: None,
        }
    }

    /// Puts on record what a gate said; whether it passed.
    pub(crate) fn asked(&mut self, gate: Gate, findings: &[Finding]) -> bool {
        let findings = run::bounded(findings.iter().map(Finding::to_string).collect());
        let passed = findings.is_empty();
        self.gates.push(GateResult { gate, passed, findings });
        passed
    }

    /// The item ends here.
    pub(crate) fn ends(self, status: ItemStatus, reason: Reason, message: impl Into<String>) -> Ending {
        let message = Some(message.into()).filter(|message: &String| !message.is_empty());
        let message = message.unwrap_or_else(|| reason.to_string());
        Ending { judged: self, status, reason: Some(reason), message, landed: None }
    }

    /// The item is refused by the gate that was asked last, in that gate's words.
    pub(crate) fn denied(self, reason: Reason) -> Ending {
        let message = self.gates.last().map(|last| last.findings.join("; ")).unwrap_or_default();
        self.ends(ItemStatus::Denied, reason, message)
    }
}

/// Whether everything is there that must be before an agent starts; if not, how the item ends.
pub(super) fn inputs(driver: &mut Driver<'_, '_>, place: u32) -> Result<Option<Ending>> {
    let state = driver.run.items[place as usize].clone();
    let base = driver.run.base_for(place);
    let findings = missing_inputs(driver, &state.item, &base)?;
    if findings.is_empty() {
        return Ok(None);
    }
    let mut judged = Judged::new(place, &state, base);
    judged.asked(Gate::Inputs, &findings);
    Ok(Some(judged.denied(Reason::InputMissing)))
}

fn missing_inputs(driver: &mut Driver<'_, '_>, item: &Item, base: &ItemBase) -> Result<Vec<Finding>> {
    let objects = world(driver)?.objects();
    let tree = id(&base.tree)?;
    let mut findings = Vec::new();
    for path in &item.input_files {
        if objects.tree_entry(tree, path.as_str().as_bytes())?.is_none() {
            findings.push(Finding::at(Rule::InputMissing, path.as_str().as_bytes(), "it must be there first"));
        }
    }
    for artifact in &item.artifacts {
        let path = artifact.path.as_str().as_bytes();
        let found = match objects.tree_entry(tree, path)? {
            Some((mode, blob)) if mode & 0o170_000 == 0o100_000 => {
                Some(contract::hash::sha256(&objects.read_blob(blob)?))
            }
            _ => None,
        };
        if found != Some(artifact.sha256) {
            findings.push(Finding::at(
                Rule::InputMissing,
                path,
                format!("it is not the {} that was named", artifact.name),
            ));
        }
    }
    Ok(findings)
}

/// Judges what an item's agent left. `sealed` is the record of its turn, where that is still on its way to the disk.
pub(super) fn judge(driver: &mut Driver<'_, '_>, place: u32, sealed: Option<Pending>) -> Result<()> {
    let state = driver.run.items[place as usize].clone();
    let base = match &state.stage {
        ItemStage::Worked(worked) => worked.base.clone(),
        _ => driver.run.base_for(place),
    };
    let mut judged = Judged::new(place, &state, base);
    let Some(worked) = judged.worked.clone() else {
        let need = driver.run.failed_need(&state).map_or_else(String::new, |need| need.item.id.clone());
        let message = format!("dependency_failed: {need} did not succeed");
        return finish(driver, judged.ends(ItemStatus::Denied, Reason::DependencyFailed, message), sealed);
    };
    judged.asked(Gate::Inputs, &[]);
    if worked.end != TurnEnd::Answered {
        let (status, reason) = failed_turn(&worked);
        judged.asked(Gate::Output, &[Finding::whole(Rule::Output, worked.summary.clone())]);
        return finish(driver, judged.ends(status, reason, worked.summary), sealed);
    }
    judged.asked(Gate::Output, &[]);
    if let Some((gate, reason)) = judge_change(driver, &mut judged, &worked)? {
        let status = if gate == Gate::Outputs { ItemStatus::Failure } else { ItemStatus::Denied };
        let mut ending = judged.denied(reason);
        ending.status = status;
        return finish(driver, ending, sealed);
    }
    if !state.item.tests.is_empty() {
        // The tests may take long: by then everybody should know how far this is.
        if let Some(sealed) = sealed {
            driver.book.settle(sealed)?;
        }
        let tree = worked.tree.clone().unwrap_or_default();
        let base = judged.base.tree.clone();
        return match tested(driver, &mut judged, &tree, &base)? {
            Tested::Passed => accepted(driver, judged, None),
            Tested::Failed(message) => {
                finish(driver, judged.ends(ItemStatus::Failure, Reason::TestsFailed, message), None)
            }
            Tested::Interrupted => Ok(()),
        };
    }
    accepted(driver, judged, sealed)
}

/// What passed every gate lands when its turn comes; what changes nothing has nothing to wait for.
fn accepted(driver: &mut Driver<'_, '_>, judged: Judged, sealed: Option<Pending>) -> Result<()> {
    if judged.change.paths.is_empty() {
        let ending = Ending { judged, status: ItemStatus::Success, reason: None, message: String::new(), landed: None };
        return finish(driver, ending, sealed);
    }
    if let Some(sealed) = sealed {
        driver.book.settle(sealed)?;
    }
    driver.book.page().desk.judged.insert(judged.place, judged);
    Ok(())
}

fn failed_turn(worked: &Worked) -> (ItemStatus, Reason) {
    match worked.end {
        TurnEnd::TimedOut => (ItemStatus::Timeout, Reason::AgentTimeout),
        _ => (ItemStatus::Failure, worked.reason.unwrap_or(Reason::AgentFailed)),
    }
}

/// Scope, admission and expected files; the first gate that finds something, and what that means.
fn judge_change(driver: &mut Driver<'_, '_>, judged: &mut Judged, worked: &Worked) -> Result<Option<(Gate, Reason)>> {
    let item = judged.item.clone();
    let tree = worked.tree.as_deref().unwrap_or_default();
    judged.change = Change::between(world(driver)?.objects(), &judged.base.tree, tree)?;
    let observed = observed(driver, worked, &judged.change)?;
    if !judged.asked(Gate::Scope, &scope_findings(driver, &item, &observed)) {
        return Ok(Some((Gate::Scope, Reason::PolicyViolation)));
    }
    read_tool_ops(driver, judged, worked)?;
    let weight = Weight {
        files: judged.change.paths.len() as u64,
        tool_ops: judged.tool_ops,
        delta_size: judged.change.deltas.size(),
        patch_bytes: judged.change.patch.len() as u64,
    };
    if !judged.asked(Gate::Admission, &admission::judge(&item.constraints, &weight)) {
        return Ok(Some((Gate::Admission, Reason::ConstraintExceeded)));
    }
    if let Some(earlier) = duplicate(driver, judged, tree)? {
        judged.gates.pop();
        judged.asked(Gate::Admission, &[Finding::whole(Rule::Duplicate, earlier)]);
        return Ok(Some((Gate::Admission, Reason::DuplicateChange)));
    }
    let missing = missing_outputs(driver, &item, tree)?;
    if !judged.asked(Gate::Outputs, &missing) {
        return Ok(Some((Gate::Outputs, Reason::OutputMissing)));
    }
    Ok(None)
}

/// What norma saw of the workspace: the difference between the trees, and what lay about when the agent was done.
fn observed(driver: &Driver<'_, '_>, worked: &Worked, change: &Change) -> Result<Observed> {
    let path = step_file(driver, worked, "workspace.json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Observed { changes: change.paths.clone(), ..Observed::default() });
        }
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    let damaged =
        || store::Error::Damaged { log: driver.run.id.slug(), why: format!("{} cannot be read", path.display()) };
    let lying: LyingAbout = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
    Ok(lying.observed(change.paths.clone()).ok_or_else(damaged)?)
}

fn step_file(driver: &Driver<'_, '_>, worked: &Worked, name: &str) -> std::path::PathBuf {
    driver.run_dir().join("steps").join(worked.step.dir_name()).join(name)
}

/// What the scope gate has against a change of an item.
pub(super) fn scope_findings(driver: &Driver<'_, '_>, item: &Item, observed: &Observed) -> Vec<Finding> {
    let scope = Scope::new(&item.scope, driver.policies.scratch_paths());
    let state_dir = driver.store.layout.state_in_repository();
    let mut findings = scope::judge(observed, &scope, &driver.policies.protected_paths(), state_dir.as_ref());
    if item.read_only {
        let refused =
            |path: &scope::ChangedPath| Finding::at(Rule::ReadOnly, &path.path, "its contract lets nothing change");
        findings.extend(observed.changes.iter().map(refused));
    }
    findings
}

/// How many tool operations the agent reports; most agents of this kind report none.
fn read_tool_ops(driver: &Driver<'_, '_>, judged: &mut Judged, worked: &Worked) -> Result<()> {
    let path = step_file(driver, worked, "events.jsonl");
    let Ok(file) = std::fs::File::open(&path) else { return Ok(()) };
    let mut bytes = Vec::new();
    file.take(TOOL_BYTES_MAX).read_to_end(&mut bytes).map_err(|source| Error::io("read", &path, source))?;
    let counted = tool_ops::read(Some(&bytes));
    (judged.tool_ops, judged.tool_ops_source, judged.tool_trace) = (counted.ops, counted.source, counted.trace);
    Ok(())
}

/// The receipt of the same change, if it has landed before and still stands.
fn duplicate(driver: &Driver<'_, '_>, judged: &Judged, tree: &str) -> Result<Option<String>> {
    if judged.change.paths.is_empty() || driver.run.started.contract.again {
        return Ok(None);
    }
    let content = Receipt::content(&judged.item.submitted, &judged.base.tree, tree);
    let earlier = driver.reader.landed_receipt(&content)?;
    Ok(earlier.map(|it| {
        format!("Duplicate change: receipt {} of run {} landed it already; --new lands it again", it.id, it.run_id)
    }))
}

fn missing_outputs(driver: &mut Driver<'_, '_>, item: &Item, tree: &str) -> Result<Vec<Finding>> {
    let objects = world(driver)?.objects();
    let mut findings = Vec::new();
    for path in &item.output_files {
        if objects.tree_entry(id(tree)?, path.as_str().as_bytes())?.is_none() {
            findings.push(Finding::at(
                Rule::OutputMissing,
                path.as_str().as_bytes(),
                "it was expected and is not there",
            ));
        }
    }
    Ok(findings)
}

/// What came of an item's tests.
pub(super) enum Tested {
    Passed,
    Failed(String),
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
    let passed = judged.asked(Gate::Tests, &acceptance.findings);
    judged.tests = Some(acceptance);
    let why = judged.gates.last().map(|last| last.findings.join("; ")).unwrap_or_default();
    Ok(if passed { Tested::Passed } else { Tested::Failed(format!("Tests failed: {why}")) })
}
