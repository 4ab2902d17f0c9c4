//! A result for a branch that has moved: what the run changed, put on what the branch holds now, as one commit. That tree is
//! another one than the run was judged on, so scope and tests judge it before anything lands (gate `merged`).

use super::merged_pin;
use crate::change::paths;
use crate::change::{OnTop, Sides, commit_message, identity, merge};
use crate::context::policy::Rules;
use crate::git::{CommitSpec, ObjectId, Objects};
use crate::git::{id, recorded};
use crate::{Result, World};
use contract::bundle::MERGED_TRAILER;
use contract::{Item, ItemStatus, Scope, Timestamp};
use run::Run;
use run::gate::Finding;
use run::gate::scope::Observed;

/// A result, and the commit that it is put on.
pub(super) struct Merging<'m> {
    pub(super) objects: &'m Objects,
    pub(super) run: &'m Run,
    pub(super) rules: Rules<'m>,
    pub(super) onto: ObjectId,
}

/// What a merge gives.
pub(super) enum MergedCommit {
    /// It is judged, and pinned.
    Made(ObjectId),
    /// Both changed the same lines.
    Conflicts(String),
    /// What else speaks against it.
    Declined(String),
}

/// What comes of putting what a run changed on a commit.
pub(crate) fn merged_tree(objects: &Objects, run: &Run, onto: ObjectId) -> Result<OnTop> {
    let theirs = recorded(objects.tree_of(onto)?);
    let sides = Sides { base: run.ground().tree, ours: run.tree(), theirs };
    merge(objects, run.started.contract.rules, sides)
}

impl Merging<'_> {
    /// The commit that holds both, once nothing speaks against its tree; or what does. Tests are run in `world`, if there
    /// is one to run them in.
    pub(super) fn commit(&self, world: Option<&mut dyn World>) -> Result<MergedCommit> {
        let tree = match merged_tree(self.objects, self.run, self.onto)? {
            OnTop::Tree(tree) => id(tree),
            OnTop::Conflicts(findings) => return Ok(MergedCommit::Conflicts(said(&findings))),
        };
        let there = self.objects.tree_of(self.onto)?;
        if tree == there {
            return Ok(MergedCommit::Declined("it holds all of this change already".to_owned()));
        }
        let findings = self.scope_findings(there, tree)?;
        if !findings.is_empty() {
            return Ok(MergedCommit::Declined(said(&findings)));
        }
        if let Some(why) = self.test(world, there, tree)? {
            return Ok(MergedCommit::Declined(why));
        }
        let commit = self.objects.commit(&merged_spec(self.run, self.onto, tree))?;
        self.objects.pin(&merged_pin(&self.run.id.slug()), commit)?;
        Ok(MergedCommit::Made(commit))
    }

    /// What the scope gate has against what the merged tree changes.
    fn scope_findings(&self, there: ObjectId, tree: ObjectId) -> Result<Vec<Finding>> {
        let objects = self.objects;
        let changes = paths::between(objects, there, tree)?;
        let observed = Observed { changes, ..Observed::default() };
        Ok(self.rules.scope_findings(&self.scope(), &observed))
    }

    /// What the run may change: what its contract says, or all that those of its items may that succeeded.
    fn scope(&self) -> Scope {
        let scopes: Vec<&Scope> = self.succeeded().map(|item| &item.scope).collect();
        if scopes.is_empty() {
            return self.run.started.contract.scope.clone();
        }
        let anything = scopes.iter().any(|scope| scope.allowed_paths.is_empty());
        let paths = scopes.iter().flat_map(|scope| scope.allowed_paths.clone()).filter(|_| !anything).collect();
        Scope {
            allowed_paths: paths,
            // What one may not change another may have; each was held to its own.
            denied_paths: Vec::new(),
            allow_binary: scopes.iter().any(|scope| scope.allow_binary),
            named_by_git: scopes.iter().flat_map(|scope| scope.named_by_git.clone()).collect(),
        }
    }

    /// Runs the tests of every item that succeeded; what they say against the tree.
    fn test(&self, mut world: Option<&mut dyn World>, there: ObjectId, tree: ObjectId) -> Result<Option<String>> {
        for item in self.succeeded().filter(|item| !item.tests.is_empty()) {
            let Some(world) = world.as_deref_mut() else {
                let why =
                    "its tests must be run on the merged result, and norma is busy with another run; try again later";
                return Ok(Some(why.to_owned()));
            };
            let acceptance = world.accept(self.run, item, tree, there)?;
            if !acceptance.findings.is_empty() {
                let findings = said(&acceptance.findings);
                return Ok(Some(format!("the tests of {} fail on the merged result: {findings}", item.id)));
            }
        }
        Ok(None)
    }

    fn succeeded(&self) -> impl Iterator<Item = &Item> {
        let succeeded = self.run.items().iter().filter(|state| {
            let ended = state.ended();
            ended.is_some_and(|ended| ended.status == ItemStatus::Success)
        });
        succeeded.map(|state| &*state.item)
    }
}

/// What a run has made, as one commit on top of another, dated by the log, so that it is the same commit however often it is made.
pub(crate) fn merged_spec(run: &Run, onto: ObjectId, tree: ObjectId) -> CommitSpec {
    let mut message = commit_message(run);
    for ended in run.items().iter().filter_map(|state| state.ended()).filter(|ended| ended.commit.is_some()) {
        message.push_str(&format!("Norma-Receipt: sha256:{}\n", ended.receipt.sha256));
    }
    message.push_str(&format!("{MERGED_TRAILER}{}\n", run.tree()));
    let seconds = (made_at(run).unix_ms() / 1000) as i64;
    CommitSpec { tree, parents: vec![onto], author: identity(run), seconds, message }
}

/// When a run came to what it made: its verdict, or the last turn of its items.
fn made_at(run: &Run) -> Timestamp {
    let turns = run.items().iter().flat_map(|state| &state.turns).map(|turn| turn.since);
    run.verdict_at().or(turns.max()).unwrap_or_default()
}

fn said(findings: &[Finding]) -> String {
    run::bounded(findings.iter().map(Finding::to_string).collect()).join("; ")
}
