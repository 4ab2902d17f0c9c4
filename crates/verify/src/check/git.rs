//! Git objects: each commit of the run is in the bundle as git hashes it, so that its name is recomputed here, and holds
//! the tree that the log and the receipts say. Of a commit that was merged with what the branch held there is no tree on
//! record: it follows the commit that it was put on, and names the tree that the run had made.

use super::log::Log;
use super::receipts::Kept;
use crate::Found;
use contract::bundle::MERGED_TRAILER;
use contract::pipeline::LineMoved;
use contract::{CommitId, Fact, ObjectId, PipelineFact, TreeId};
use std::collections::BTreeMap;

/// Every object is what it is called, and every commit has the tree it must have.
pub(crate) fn check(found: &Found<'_>, log: &Log, receipts: &[Kept<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut commits = BTreeMap::new();
    for (name, bytes) in found.bundle.below("git/") {
        match name.parse() {
            Ok(CommitId(id)) if is_object(id, bytes) => drop(commits.insert(CommitId(id), bytes)),
            _ => problems.push(format!("git/{name} is not the object of that name")),
        }
    }
    for Expected { commit, tree, what, onto } in expected(log, receipts) {
        let problem = match (commits.get(&commit), onto) {
            (None, _) => Some("is not in the bundle".to_owned()),
            (Some(bytes), Some(onto)) => merge_problem(bytes, tree, onto),
            (Some(bytes), None) => (tree_of(bytes) != Some(tree)).then(|| format!("does not hold tree {tree}")),
        };
        problems.extend(problem.map(|problem| format!("git/{commit}, {what}, {problem}")));
    }
    problems
}

/// A commit that is spoken of.
struct Expected {
    commit: CommitId,
    /// The tree that it must have, or that it was merged from.
    tree: TreeId,
    what: &'static str,
    /// The commit that it was merged with.
    onto: Option<CommitId>,
}

impl Expected {
    fn new(commit: CommitId, tree: TreeId, what: &'static str) -> Expected {
        Expected { commit, tree, what, onto: None }
    }
}

/// Commits that are spoken of, with the tree each must have.
fn expected(log: &Log, receipts: &[Kept<'_>]) -> Vec<Expected> {
    let mut all = Vec::new();
    let mut base = None;
    let mut tree = None;
    for event in &log.events {
        match &event.fact {
            Fact::RunStarted(started) => {
                all.push(Expected::new(started.base.commit, started.base.tree, "the base of the run"));
                if let Some(commit) = started.fork.and_then(|fork| fork.commit) {
                    all.push(Expected::new(commit, started.tree, "what the run was forked from"));
                }
                base = Some(&started.base);
                tree = Some(started.tree);
            }
            Fact::PatchApplied(applied) => tree = Some(applied.after),
            Fact::ItemEnded(ended) => {
                let Some(commit) = ended.commit else { continue };
                tree = Some(ended.after);
                all.push(Expected::new(commit, ended.after, "the commit of a change"));
            }
            Fact::Pipeline(PipelineFact::LineMoved(moved)) => {
                let LineMoved { from, onto, head, .. } = &**moved;
                all.push(Expected::new(onto.commit, onto.tree, "a commit that was in the way"));
                all.push(Expected::new(head.commit, head.tree, "what was put on it"));
                let what = "what was put on a commit that was in the way";
                all.push(Expected { onto: Some(onto.commit), ..Expected::new(head.commit, from.tree, what) });
                tree = Some(head.tree);
            }
            Fact::Pipeline(PipelineFact::LineRestored { head, .. }) => tree = Some(head.tree),
            Fact::Landed(landing) => {
                let Some(tree) = tree else { continue };
                let onto = landing.from.filter(|_| base.is_some_and(|base| landing.is_merged(base)));
                all.push(Expected { onto, ..Expected::new(landing.commit, tree, "the commit that landed") });
            }
            _ => {}
        }
    }
    let bases = receipts.iter().map(|kept| &kept.receipt.git);
    all.extend(bases.map(|git| Expected::new(git.base_commit, git.base_tree, "the base of a change")));
    all
}

/// What is wrong with a commit that must follow `onto` alone, and name the tree that it was merged from.
fn merge_problem(bytes: &[u8], tree: TreeId, onto: CommitId) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    if !head.lines().filter_map(|line| line.strip_prefix("parent ")).eq([onto.to_string()]) {
        return Some(format!("does not follow {onto}, which it was put on"));
    }
    let from = tree.to_string();
    let named = message.lines().any(|line| line.strip_prefix(MERGED_TRAILER) == Some(from.as_str()));
    (!named).then(|| format!("does not say that it was merged from tree {tree}"))
}

/// Whether the bytes of an object are those that its id is the hash of. Bytes made to collide are not.
fn is_object(id: ObjectId, bytes: &[u8]) -> bool {
    match id {
        ObjectId::Sha1(_) => {
            let mut hasher = sha1dc::Hasher::new();
            hasher.update(bytes);
            hasher.finalize().is_ok_and(|digest| digest.to_string() == id.to_string())
        }
        ObjectId::Sha256(hash) => *contract::hash::sha256(bytes).as_bytes() == hash,
    }
}

/// The tree that a commit names first: `commit 123\0tree 0123…\n`.
fn tree_of(bytes: &[u8]) -> Option<TreeId> {
    let body = bytes.strip_prefix(b"commit ")?;
    let end = body.iter().position(|byte| *byte == 0)?;
    let line = body[end + 1..].split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line.strip_prefix(b"tree ")?).ok()?.parse().ok()
}
