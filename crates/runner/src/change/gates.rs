//! The gates of a change, asked on what is kept: norma's objects, the record of the run and the directory of the turn
//! that proposed it. Nothing is started and nothing is recorded here, so that whoever replays a run judges it the way it
//! was judged.

use super::contracts;
use super::difference::Difference;
use super::fixtures;
use super::judged::{Judged, Proposal, Refusal};
use super::merge::{OnTop, Sides, merge};
use super::patch::{Patched, apply_patch};
use crate::change::observed::LyingAbout;
use crate::change::text_bytes_max;
use crate::context::policy::Rules;
use crate::git::{Entry, MODE_GITLINK, Objects, id};
use crate::{Error, Result};
use contract::work::Gate;
use contract::{
    Digest, Item, ItemStatus, RULES_CHANGE_SIZE, RULES_COUNTED_OPS, RULES_RESULT, Reason, Receipt, Role, StepRef,
    TreeId, TurnEnd,
};
use run::gate::admission::{self, Weight};
use run::gate::budget::{Sizes, over_budget, risky};
use run::gate::scope::{ChangedPath, Observed};
use run::gate::{Finding, Rule, tool_ops};
use run::{Run, Worked};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use store::{LandedReceipt, Preparing};

/// How much of what an agent says about its tools is read; the sandbox bounds what it can say at all.
const TOOL_BYTES_MAX: u64 = 64 << 20;

/// Where a turn's evidence has what its agent says that it did, what came of its conversation, what its sandbox was and saw,
/// and what lay about in its workspace.
const EVENTS: &str = "events.jsonl";
const OUTCOME: &str = "session/outcome.json";
const SANDBOX: &str = "sandbox.json";
const WORKSPACE: &str = "workspace.json";

/// What its agent answered.
const OUTPUT: &str = "output.json";

/// What the gates read.
pub(crate) struct Gates<'g> {
    pub(crate) objects: &'g Objects,
    pub(crate) rules: Rules<'g>,
    /// The run before the change ends.
    pub(crate) run: &'g Run,
    pub(crate) run_dir: PathBuf,
    /// What the turn left that was just taken, where that is in no file yet.
    pub(crate) left: Option<&'g Left>,
    /// The receipt of the same change, if it has landed before and still stands.
    pub(crate) landed: &'g dyn Fn(&Digest) -> Result<Option<LandedReceipt>>,
    /// Whether a person said no to a change for these reasons.
    pub(crate) denied: &'g dyn Fn(&[String]) -> Result<bool>,
}

/// The files of a turn that gates read.
pub(crate) struct Left {
    step: StepRef,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Left {
    /// What a turn left, before it goes on record.
    pub(crate) fn of(step: StepRef, evidence: &Preparing) -> Result<Left> {
        let mut files = Vec::new();
        for name in [EVENTS, OUTCOME, SANDBOX, WORKSPACE, OUTPUT] {
            files.extend(evidence.read(name, TOOL_BYTES_MAX)?.map(|bytes| (name, bytes)));
        }
        Ok(Left { step, files })
    }

    fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.files.iter().find(|(other, _)| *other == name).map(|(_, bytes)| bytes.clone())
    }
}

/// Where a change that passed its gates is put.
pub(crate) enum Put {
    /// On the tree that its agent worked on.
    AsItIs,
    /// On what others have landed since: this tree.
    Onto(TreeId),
    /// Nowhere.
    Refused(Refusal),
}

impl Gates<'_> {
    /// Asks one gate; what ends the change, if it finds something.
    pub(crate) fn ask(&self, gate: Gate, judged: &mut Judged) -> Result<Option<Refusal>> {
        match gate {
            Gate::Inputs => self.inputs(judged),
            Gate::Output => self.output(judged),
            Gate::Scope => self.scope(judged),
            Gate::Admission => self.admission(judged),
            Gate::Outputs => self.outputs(judged),
            Gate::Contracts => self.contracts(judged),
            Gate::Review => Ok(self.review(judged)),
            Gate::Tests | Gate::Merged | Gate::Tools => unreachable!("BUG: {gate} is not asked about a proposal"),
        }
    }

    /// What keeps an item from starting that needs another one.
    pub(crate) fn not_started(&self, judged: &Judged) -> Option<Refusal> {
        let (Proposal::Nothing, Some(place)) = (&judged.proposal, judged.place) else { return None };
        let need = self.run.failed_need(&self.run.items()[place as usize])?;
        let message = format!("dependency_failed: {} did not succeed", need.item.id);
        Some(Refusal::new(ItemStatus::Denied, Reason::DependencyFailed, message))
    }

    /// Whether everything is there that must be before an agent starts.
    pub(crate) fn inputs(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let missing = self.missing_inputs(judged)?;
        let passed = judged.asked(Gate::Inputs, &missing);
        Ok((!passed).then(|| judged.denied(Reason::InputMissing)))
    }

    /// Whether there is a tree to judge: the agent answered as asked, and a patch fits its files.
    fn output(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let refusal = match &judged.proposal {
            Proposal::Worked(worked) if worked.end != TurnEnd::Answered => {
                let (findings, worked) = (vec![Finding::whole(Rule::Output, worked.summary.clone())], worked.clone());
                judged.asked(Gate::Output, &findings);
                return Ok(Some(failed_turn(worked)));
            }
            Proposal::Patch { bytes, .. } => match apply_patch(self.objects, self.run, bytes)? {
                Patched::Tree(tree) => {
                    judged.tree = Some(tree);
                    None
                }
                Patched::Refused(reason, findings) => {
                    judged.change.patch = bytes[..].into();
                    Some((reason, findings))
                }
            },
            Proposal::Worked(_) | Proposal::Nothing => None,
        };
        let findings = refusal.as_ref().map(|(_, findings)| &findings[..]).unwrap_or_default();
        judged.asked(Gate::Output, findings);
        Ok(refusal.map(|(reason, _)| match reason {
            Reason::PolicyViolation => judged.denied(reason),
            _ => judged.failed(reason),
        }))
    }

    fn missing_inputs(&self, judged: &Judged) -> Result<Vec<Finding>> {
        let (item, tree) = (&judged.item, id(judged.on));
        let mut findings = Vec::new();
        for path in &item.input_files {
            if self.objects.tree_entry(tree, path.as_str().as_bytes())?.is_none() {
                findings.push(Finding::at(Rule::InputMissing, path.as_str().as_bytes(), "it must be there first"));
            }
        }
        for artifact in &item.artifacts {
            let path = artifact.path.as_str().as_bytes();
            let found = match self.objects.tree_entry(tree, path)? {
                Some((mode, blob)) if mode & 0o170_000 == 0o100_000 => {
                    Some(contract::hash::sha256(&self.objects.read_blob(blob)?))
                }
                _ => None,
            };
            if found != Some(artifact.sha256) {
                let message = format!("it is not the {} that was named", artifact.name);
                findings.push(Finding::at(Rule::InputMissing, path, message));
            }
        }
        Ok(findings)
    }

    /// Whether the change stays where it may.
    fn scope(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let tree = judged.candidate()?;
        let proposed = match &judged.proposal {
            Proposal::Patch { bytes, .. } => Some(&bytes[..]),
            Proposal::Worked(_) | Proposal::Nothing => None,
        };
        if let Some(too_large) = self.too_large(judged, tree)? {
            judged.change.trees = Some((judged.on, tree));
            judged.asked(Gate::Scope, &[too_large]);
            return Ok(Some(judged.denied(Reason::PolicyViolation)));
        }
        judged.change =
            Difference::proposed_as(self.objects, self.run.started.contract.rules, (judged.on, tree), proposed)?;
        let changes = judged.change.paths.clone();
        let observed = match judged.worked() {
            None => Observed { changes, ..Observed::default() },
            // What lay about in a turn that was about something else is judged there.
            Some(worked) if !judged.is_of_turn(worked) => Observed { changes, ..Observed::default() },
            Some(worked) => {
                let found = self.lying_about(worked)?;
                let left_out = found.as_ref().and_then(LyingAbout::left_out);
                let observed = match found {
                    Some(found) => found.observed(changes).ok_or_else(|| self.damaged(worked))?,
                    None => Observed { changes, ..Observed::default() },
                };
                judged.left_out = left_out;
                observed
            }
        };
        Ok(self.within_scope(Gate::Scope, judged, &observed))
    }

    /// Judges what was observed by the scope; what only a person can judge is left to be asked about.
    fn within_scope(&self, gate: Gate, judged: &mut Judged, observed: &Observed) -> Option<Refusal> {
        let mut findings = self.scope_findings(&judged.item, observed);
        let rules = self.run.started.contract.rules;
        let is_asked_about = judged.place.is_some() && fixtures::askable(rules, &judged.item, observed, &findings);
        judged.secrets = if is_asked_about { std::mem::take(&mut findings) } else { Vec::new() };
        let passed = judged.asked(gate, &findings);
        (!passed).then(|| judged.denied(Reason::PolicyViolation))
    }

    /// Why a worker's change is larger than anything is looked at: what it brings, and what of it goes that a patch would show,
    /// together. Found by the sizes of objects alone, so that no patch of it is made.
    fn too_large(&self, judged: &Judged, tree: TreeId) -> Result<Option<Finding>> {
        let contract = &self.run.started.contract;
        if judged.worked().is_none() || contract.rules < RULES_CHANGE_SIZE {
            return Ok(None);
        }
        let mut bytes: u64 = 0;
        for change in self.objects.diff(id(judged.on), id(tree))? {
            let size = |side: Option<Entry>| match side.filter(|entry| entry.mode != MODE_GITLINK) {
                Some(entry) => self.objects.size(entry.id),
                None => Ok(0),
            };
            let removed = size(change.old)?;
            let shown = if removed > text_bytes_max(contract.rules) { 0 } else { removed };
            bytes = bytes.saturating_add(shown).saturating_add(size(change.new)?);
        }
        let most = u64::from(contract.limits.change_mb);
        let message = || format!("the change brings and removes {bytes} bytes, and limits.change_mb is {most}");
        Ok((bytes > most << 20).then(|| Finding::whole(Rule::TooLarge, message())))
    }

    /// Whether the change is as small as it must be, and new.
    fn admission(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        match judged.proposal.clone() {
            Proposal::Patch { bytes, .. } => Ok(self.within_budgets(judged, bytes.len() as u64)),
            Proposal::Worked(worked) => self.within_constraints(judged, &worked),
            Proposal::Nothing => Ok(None),
        }
    }

    /// A loop's change counts against the budgets of its run.
    fn within_budgets(&self, judged: &mut Judged, patch_bytes: u64) -> Option<Refusal> {
        judged.risky = risky(&judged.change.paths);
        let (files, risky) = (judged.change.paths.len() as u64, judged.risky.len() as u64);
        let over = over_budget(&self.run.started.contract.budgets, &Sizes { patch_bytes, files, risky });
        let finding = over
            .as_ref()
            .map(|over| Finding::whole(Rule::Budget, format!("{}: {} > {}", over.budget, over.actual, over.limit)));
        judged.budget = over;
        let passed = judged.asked(Gate::Admission, finding.as_slice());
        (!passed).then(|| judged.denied(Reason::BudgetExceeded))
    }

    fn within_constraints(&self, judged: &mut Judged, worked: &Worked) -> Result<Option<Refusal>> {
        if judged.is_of_turn(worked) {
            self.read_tool_ops(judged, worked)?;
        }
        let weight = Weight {
            files: judged.change.paths.len() as u64,
            tool_ops: judged.tool_ops,
            delta_size: judged.change.deltas.size(),
            patch_bytes: judged.change.patch.len() as u64,
        };
        let findings = admission::judge(&judged.item.constraints, &weight);
        if !findings.is_empty() {
            judged.asked(Gate::Admission, &findings);
            return Ok(Some(judged.denied(Reason::ConstraintExceeded)));
        }
        let duplicate = self.duplicate(judged, judged.candidate()?)?;
        let finding = duplicate
            .map(|earlier| Finding::whole(Rule::Duplicate, duplicate_of(&earlier, self.run.started.contract.rules)));
        let passed = judged.asked(Gate::Admission, finding.as_slice());
        Ok((!passed).then(|| judged.denied(Reason::DuplicateChange)))
    }

    /// Whether everything is there that was asked for.
    fn outputs(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let missing = self.missing_outputs(&judged.item.clone(), judged.candidate()?)?;
        let passed = judged.asked(Gate::Outputs, &missing);
        Ok((!passed).then(|| judged.failed(Reason::OutputMissing)))
    }

    /// Whether what a role of a pipeline wrote can be carried out.
    fn contracts(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let Some(step) = self.writer(judged) else { return Ok(None) };
        let answer = self.answer(step)?;
        let written = contracts::of(self, &answer);
        let findings: Vec<Finding> = written.err().unwrap_or_default().iter().map(contracts::finding).collect();
        let passed = judged.asked(Gate::Contracts, &findings);
        Ok((!passed).then(|| judged.denied(Reason::PolicyViolation)))
    }

    /// The turn in which contracts were written, where this is one.
    fn writer(&self, judged: &Judged) -> Option<StepRef> {
        let step = judged.worked()?.step;
        matches!(step.role, Role::Pm | Role::TechLead).then_some(step)
    }

    /// What the agent of a turn answered.
    pub(crate) fn answer(&self, step: StepRef) -> Result<serde_json::Value> {
        let path = self.run_dir.join("steps").join(step.dir_name()).join(OUTPUT);
        let bytes = match self.left.filter(|left| left.step == step).and_then(|left| left.file(OUTPUT)) {
            Some(bytes) => bytes,
            None => std::fs::read(&path).map_err(|source| Error::io("read", &path, source))?,
        };
        let answer: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| {
            let why = format!("{} cannot be read: {error}", path.display());
            store::Error::Damaged { log: self.run.id.slug().to_string(), why }
        })?;
        Ok(answer["result"].clone())
    }

    /// Whether reviewers are to look at it, and have not all done so.
    pub(crate) fn needs_review(&self, judged: &Judged) -> bool {
        let state = judged.place.and_then(|place| self.run.items().get(place as usize));
        judged.item.review.is_some() && judged.worked().is_some() && state.is_some_and(|state| !state.is_reviewed())
    }

    /// Whether reviewers let it pass, and left everything as it was.
    fn review(&self, judged: &mut Judged) -> Option<Refusal> {
        let terms = judged.item.review.clone()?;
        let state = &self.run.items()[judged.place? as usize];
        let reviews = state.reviews.as_deref().cloned().unwrap_or_default();
        if reviews.fault.is_some() {
            let what = "the reviewer changed what it was to judge";
            judged.asked(Gate::Review, &[Finding::whole(Rule::ReviewerChanged, what)]);
            return Some(judged.failed(Reason::SystemFault));
        }
        if let Some((reason, why)) = &reviews.silent {
            judged.asked(Gate::Review, &[Finding::whole(Rule::Review, format!("no review: {why}"))]);
            return Some(judged.failed(*reason));
        }
        let mut findings = Vec::new();
        if reviews.passes() < terms.quorum {
            findings.extend(reviews.blocking().map(|text| Finding::whole(Rule::Review, text)));
            if findings.is_empty() {
                let words: Vec<&str> = reviews.given.iter().map(|given| given.summary.as_str()).collect();
                findings.push(Finding::whole(Rule::Review, format!("not passed: {}", words.join("; "))));
            }
        }
        let passed = judged.asked(Gate::Review, &findings);
        (!passed).then(|| judged.failed(Reason::ReviewFailed))
    }

    /// What lay about in the workspace besides the change when the agent was done.
    fn lying_about(&self, worked: &Worked) -> Result<Option<LyingAbout>> {
        let bytes = self.left_file(worked, WORKSPACE, u64::MAX)?;
        bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|_| self.damaged(worked).into())).transpose()
    }

    fn damaged(&self, worked: &Worked) -> store::Error {
        let why = format!("{} cannot be read", self.step_file(worked, WORKSPACE).display());
        store::Error::Damaged { log: self.run.id.slug().to_string(), why }
    }

    fn step_file(&self, worked: &Worked, name: &str) -> PathBuf {
        self.run_dir.join("steps").join(worked.step.dir_name()).join(name)
    }

    /// What the scope gate has against a change of an item.
    fn scope_findings(&self, item: &Item, observed: &Observed) -> Vec<Finding> {
        let mut findings = self.rules.scope_findings(&item.scope, observed);
        if item.read_only {
            let refused =
                |path: &ChangedPath| Finding::at(Rule::ReadOnly, &path.path, "its contract lets nothing change");
            findings.extend(observed.changes.iter().map(refused));
        }
        findings
    }

    /// How many tool operations there were: by the protocol that the agent speaks, else by the processes that it started.
    /// What it reports itself is told, and counts only where nobody saw what it did.
    fn read_tool_ops(&self, judged: &mut Judged, worked: &Worked) -> Result<()> {
        let reported = tool_ops::read(self.small_file(worked, EVENTS)?.as_deref());
        let counted = match self.run.started.contract.rules >= RULES_COUNTED_OPS {
            true => {
                let read = |name| self.small_file(worked, name);
                tool_ops::counted(reported, read(OUTCOME)?.as_deref(), read(SANDBOX)?.as_deref())
            }
            false => reported,
        };
        (judged.tool_ops, judged.tool_ops_source, judged.tool_trace) = (counted.ops, counted.source, counted.trace);
        Ok(())
    }

    fn small_file(&self, worked: &Worked, name: &str) -> Result<Option<Vec<u8>>> {
        self.left_file(worked, name, TOOL_BYTES_MAX)
    }

    /// A file that is kept of a turn, from memory where it was just taken.
    fn left_file(&self, worked: &Worked, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        if let Some(left) = self.left.filter(|left| left.step == worked.step) {
            return Ok(left.file(name));
        }
        let path = self.step_file(worked, name);
        let mut bytes = Vec::new();
        let read = std::fs::File::open(&path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(bytes)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(Error::io("read", &path, e)),
        }
    }

    fn duplicate(&self, judged: &Judged, tree: TreeId) -> Result<Option<LandedReceipt>> {
        let started = &self.run.started;
        // What is carried out again to be compared is meant to be the same.
        if judged.change.paths.is_empty() || started.contract.again || started.replay_of.is_some() {
            return Ok(None);
        }
        (self.landed)(&Receipt::content(&judged.item.submitted, judged.base.tree, tree))
    }

    fn missing_outputs(&self, item: &Item, tree: TreeId) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for path in &item.output_files {
            let path = path.as_str().as_bytes();
            if self.objects.tree_entry(id(tree), path)?.is_none() {
                findings.push(Finding::at(Rule::OutputMissing, path, "it was expected and is not there"));
            }
        }
        Ok(findings)
    }

    /// Puts a change on the end of the run's line. If others have landed since its agent started, what comes of that is
    /// judged again.
    pub(crate) fn put_on_line(&self, judged: &mut Judged) -> Result<Put> {
        let head = self.run.line().head.tree;
        if head == judged.base.tree {
            return Ok(Put::AsItIs);
        }
        let (rules, candidate) = (self.run.started.contract.rules, judged.candidate()?);
        let tree = match merge(self.objects, rules, Sides { base: judged.base.tree, ours: candidate, theirs: head })? {
            OnTop::Tree(tree) => tree,
            OnTop::Conflicts(findings) => {
                judged.asked(Gate::Merged, &findings);
                return Ok(Put::Refused(judged.denied(Reason::MergeConflict)));
            }
        };
        judged.change = Difference::between(self.objects, rules, head, tree)?;
        let observed = Observed { changes: judged.change.paths.clone(), ..Observed::default() };
        Ok(self.within_scope(Gate::Merged, judged, &observed).map_or(Put::Onto(tree), Put::Refused))
    }
}

fn failed_turn(worked: Worked) -> Refusal {
    let (status, reason) = match worked.end {
        TurnEnd::TimedOut => (ItemStatus::Timeout, Reason::AgentTimeout),
        _ => (ItemStatus::Failure, worked.reason.unwrap_or(Reason::AgentFailed)),
    };
    Refusal::new(status, reason, worked.summary)
}

/// In which words a change is refused that has been made already. Under the first rules they said that it had landed,
/// also where it was on a branch of its own.
pub(crate) fn duplicate_of(earlier: &LandedReceipt, rules: u32) -> String {
    let LandedReceipt { id, run_id } = earlier;
    match rules >= RULES_RESULT {
        true => format!("Duplicate change: receipt {id} of run {run_id} has it already; --new makes it again"),
        false => format!("Duplicate change: receipt {id} of run {run_id} landed it already; --new lands it again"),
    }
}
