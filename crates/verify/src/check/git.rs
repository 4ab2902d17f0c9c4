//! Git objects: each commit of the run is in the bundle as git hashes it, so that its name is recomputed here, and holds
//! the tree that the log and the receipts say.

use super::log::Log;
use super::receipts::Kept;
use crate::Found;
use contract::Fact;
use std::collections::BTreeMap;

/// Every object is what it is called, and every commit has the tree it must have.
pub(crate) fn check(found: &Found<'_>, log: &Log, receipts: &[Kept<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut trees = BTreeMap::new();
    for (name, bytes) in found.bundle.below("git/") {
        match object_id(name, bytes) {
            Some(id) if id == name => drop(trees.insert(id, tree_of(bytes))),
            _ => problems.push(format!("git/{name} is not the object of that name")),
        }
    }
    for (commit, tree, what) in expected(log, receipts) {
        match trees.get(commit) {
            None => problems.push(format!("git/{commit}, {what}, is not in the bundle")),
            Some(found) if found.as_deref() != Some(tree) => {
                problems.push(format!("git/{commit}, {what}, does not hold tree {tree}"));
            }
            Some(_) => {}
        }
    }
    problems
}

/// Commits that are spoken of, with the tree each must have.
fn expected<'a>(log: &'a Log, receipts: &'a [Kept<'_>]) -> Vec<(&'a str, &'a str, &'static str)> {
    let mut all = Vec::new();
    let mut tree = "";
    for event in &log.events {
        match &event.fact {
            Fact::RunStarted(started) => {
                all.push((started.base.commit.as_str(), started.base.tree.as_str(), "the base of the run"));
                tree = &started.tree;
            }
            Fact::PatchApplied(applied) => tree = &applied.after,
            Fact::ItemEnded(ended) => {
                let Some(commit) = &ended.commit else { continue };
                tree = &ended.after;
                all.push((commit, tree, "the commit of a change"));
            }
            Fact::Landed(landing) => all.push((&landing.commit, tree, "the commit that landed")),
            _ => {}
        }
    }
    let bases = receipts.iter().map(|kept| &kept.receipt.git);
    all.extend(bases.map(|git| (git.base_commit.as_str(), git.base_tree.as_str(), "the base of a change")));
    all
}

/// The id of an object by the hash function that its name is as long as. Bytes made to collide have none.
fn object_id(name: &str, bytes: &[u8]) -> Option<String> {
    match name.len() {
        40 => {
            let mut hasher = sha1dc::Hasher::new();
            hasher.update(bytes);
            hasher.finalize().ok().map(|digest| digest.to_string())
        }
        64 => Some(contract::hash::sha256(bytes).to_string()),
        _ => None,
    }
}

/// The tree that a commit names first: `commit 123\0tree 0123…\n`.
fn tree_of(bytes: &[u8]) -> Option<String> {
    let body = bytes.strip_prefix(b"commit ")?;
    let end = body.iter().position(|byte| *byte == 0)?;
    let line = body[end + 1..].split(|byte| *byte == b'\n').next()?;
    String::from_utf8(line.strip_prefix(b"tree ")?.to_vec()).ok()
}
