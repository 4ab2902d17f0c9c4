//! The gates of an item, asked on what is kept: norma's objects, the record of the run and the directory of the item's
//! turn. Nothing is started and nothing is recorded here, so that whoever replays a run judges it the way it was judged.

use super::change::Change;
use super::judge::{Judged, Refusal};
use super::merge::merge;
use crate::git::Objects;
use crate::landing::id;
use crate::observe::LyingAbout;
use crate::policy::Rules;
use crate::{Error, Result};
use contract::work::Gate;
use contract::{Digest, Item, ItemStatus, Reason, Receipt, TurnEnd};
use run::gate::admission::{self, Weight};
use run::gate::scope::{ChangedPath, Observed};
use run::gate::{Finding, Rule, tool_ops};
use run::{Run, Worked};
use std::io::Read;
use std::path::PathBuf;
use store::LandedReceipt;

/// How much of what an agent says about its tools is read; the sandbox bounds what it can say at all.
const TOOL_BYTES_MAX: u64 = 64 << 20;

/// Where a turn's evidence has what lay about in its workspace.
const WORKSPACE: &str = "workspace.json";

/// See the module.
pub(crate) struct Bench<'b> {
    pub(crate) objects: &'b Objects,
    pub(crate) rules: Rules<'b>,
    /// The run before the item ends.
    pub(crate) run: &'b Run,
    pub(crate) run_dir: PathBuf,
    /// The receipt of the same change, if it has landed before and still stands.
    pub(crate) landed: &'b dyn Fn(&Digest) -> Result<Option<LandedReceipt>>,
}

/// Where a change that passed its gates comes to lie.
pub(crate) enum Put {
    /// On the tree that its agent worked on.
    AsItIs,
    /// On what others have landed since: this tree.
    Onto(String),
    /// Nowhere.
    Refused(Refusal),
}

impl Bench<'_> {
    /// Asks every gate but the tests; the first that finds something ends the item.
    pub(crate) fn judge(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let Some(worked) = judged.worked.clone() else { return Ok(Some(self.needed(judged))) };
        if let Some(refused) = self.judge_inputs(judged)? {
            return Ok(Some(refused));
        }
        if worked.end != TurnEnd::Answered {
            judged.asked(Gate::Output, &[Finding::whole(Rule::Output, worked.summary.clone())]);
            return Ok(Some(failed_turn(worked)));
        }
        judged.asked(Gate::Output, &[]);
        self.judge_change(judged, &worked)
    }

    /// Whether everything is there that must be before an agent starts.
    pub(crate) fn judge_inputs(&self, judged: &mut Judged) -> Result<Option<Refusal>> {
        let missing = self.missing_inputs(judged)?;
        let passed = judged.asked(Gate::Inputs, &missing);
        Ok((!passed).then(|| judged.denied(Reason::InputMissing)))
    }

    /// What keeps an item from starting that needs another one.
    fn needed(&self, judged: &Judged) -> Refusal {
        let state = &self.run.items[judged.place as usize];
        let need = self.run.failed_need(state).map_or_else(String::new, |need| need.item.id.clone());
        let message = format!("dependency_failed: {need} did not succeed");
        Refusal::new(ItemStatus::Denied, Reason::DependencyFailed, message)
    }

    fn missing_inputs(&self, judged: &Judged) -> Result<Vec<Finding>> {
        let (item, tree) = (&judged.item, id(&judged.base.tree)?);
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

    /// Scope, admission and expected files.
    fn judge_change(&self, judged: &mut Judged, worked: &Worked) -> Result<Option<Refusal>> {
        let item = judged.item.clone();
        let tree = worked.tree.as_deref().unwrap_or_default();
        judged.change = Change::between(self.objects, &judged.base.tree, tree)?;
        let lying_about = self.lying_about(worked)?;
        judged.left_out = lying_about.as_ref().and_then(LyingAbout::left_out);
        let observed = match lying_about {
            Some(found) => found.observed(judged.change.paths.clone()).ok_or_else(|| self.damaged(worked))?,
            None => Observed { changes: judged.change.paths.clone(), ..Observed::default() },
        };
        if !judged.asked(Gate::Scope, &self.scope_findings(&item, &observed)) {
            return Ok(Some(judged.denied(Reason::PolicyViolation)));
        }
        self.read_tool_ops(judged, worked)?;
        let weight = Weight {
            files: judged.change.paths.len() as u64,
            tool_ops: judged.tool_ops,
            delta_size: judged.change.deltas.size(),
            patch_bytes: judged.change.patch.len() as u64,
        };
        if !judged.asked(Gate::Admission, &admission::judge(&item.constraints, &weight)) {
            return Ok(Some(judged.denied(Reason::ConstraintExceeded)));
        }
        if let Some(earlier) = self.duplicate(judged, tree)? {
            judged.gates.pop();
            judged.asked(Gate::Admission, &[Finding::whole(Rule::Duplicate, duplicate_of(&earlier))]);
            return Ok(Some(judged.denied(Reason::DuplicateChange)));
        }
        if !judged.asked(Gate::Outputs, &self.missing_outputs(&item, tree)?) {
            let denied = judged.denied(Reason::OutputMissing);
            return Ok(Some(Refusal { status: ItemStatus::Failure, ..denied }));
        }
        Ok(None)
    }

    /// What lay about in the workspace besides the change when the agent was done.
    fn lying_about(&self, worked: &Worked) -> Result<Option<LyingAbout>> {
        let path = self.step_file(worked, WORKSPACE);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(|_| self.damaged(worked))?)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &path, e)),
        }
    }

    fn damaged(&self, worked: &Worked) -> store::Error {
        let why = format!("{} cannot be read", self.step_file(worked, WORKSPACE).display());
        store::Error::Damaged { log: self.run.id.slug(), why }
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

    /// How many tool operations the agent reports; most agents of this kind report none.
    fn read_tool_ops(&self, judged: &mut Judged, worked: &Worked) -> Result<()> {
        let path = self.step_file(worked, "events.jsonl");
        let Ok(file) = std::fs::File::open(&path) else { return Ok(()) };
        let mut bytes = Vec::new();
        file.take(TOOL_BYTES_MAX).read_to_end(&mut bytes).map_err(|source| Error::io("read", &path, source))?;
        let counted = tool_ops::read(Some(&bytes));
        (judged.tool_ops, judged.tool_ops_source, judged.tool_trace) = (counted.ops, counted.source, counted.trace);
        Ok(())
    }

    fn duplicate(&self, judged: &Judged, tree: &str) -> Result<Option<LandedReceipt>> {
        let started = &self.run.started;
        // What is carried out again to be compared is meant to be the same.
        if judged.change.paths.is_empty() || started.contract.again || started.replay_of.is_some() {
            return Ok(None);
        }
        (self.landed)(&Receipt::content(&judged.item.submitted, &judged.base.tree, tree))
    }

    fn missing_outputs(&self, item: &Item, tree: &str) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for path in &item.output_files {
            let path = path.as_str().as_bytes();
            if self.objects.tree_entry(id(tree)?, path)?.is_none() {
                findings.push(Finding::at(Rule::OutputMissing, path, "it was expected and is not there"));
            }
        }
        Ok(findings)
    }

    /// Puts a change on the end of the run's line. If others have landed since its agent started, what comes of that is
    /// judged again.
    pub(crate) fn put_on_line(&self, judged: &mut Judged) -> Result<Put> {
        let head = &self.run.line.head.tree;
        if *head == judged.base.tree {
            return Ok(Put::AsItIs);
        }
        let (rules, candidate) = (self.run.started.contract.rules, judged.candidate());
        let tree = match merge(self.objects, rules, (&judged.base.tree, &candidate, head))? {
            Ok(tree) => tree,
            Err(findings) => {
                judged.asked(Gate::Merged, &findings);
                return Ok(Put::Refused(judged.denied(Reason::MergeConflict)));
            }
        };
        judged.change = Change::between(self.objects, head, &tree)?;
        let observed = Observed { changes: judged.change.paths.clone(), ..Observed::default() };
        if !judged.asked(Gate::Merged, &self.scope_findings(&judged.item, &observed)) {
            return Ok(Put::Refused(judged.denied(Reason::PolicyViolation)));
        }
        Ok(Put::Onto(tree))
    }
}

fn failed_turn(worked: Worked) -> Refusal {
    let (status, reason) = match worked.end {
        TurnEnd::TimedOut => (ItemStatus::Timeout, Reason::AgentTimeout),
        _ => (ItemStatus::Failure, worked.reason.unwrap_or(Reason::AgentFailed)),
    };
    Refusal::new(status, reason, worked.summary)
}

/// In which words a change is refused that has landed already.
pub(crate) fn duplicate_of(earlier: &LandedReceipt) -> String {
    format!(
        "Duplicate change: receipt {} of run {} landed it already; --new lands it again",
        earlier.id, earlier.run_id
    )
}
