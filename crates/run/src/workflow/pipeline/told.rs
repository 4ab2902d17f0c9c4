//! What the roles of a pipeline are told besides their contract, and what a reviewer's turn is. What another role said is evidence:
//! the next one is told the contract that came of it, never the words around it.

use super::{State, Task};
use crate::Run;
use crate::items::ItemState;
use contract::Role;
use contract::documents::TaskContract;
use contract::pipeline::{Cause, LineMoved};
use std::fmt::Write;

/// What norma fills of a contract that this turn is to write, and what its writer is told.
pub(crate) fn writing(run: &Run, state: &State, item: &ItemState) -> Option<(Box<TaskContract>, String)> {
    let skeleton = Box::new(super::skeleton(run)?);
    match item.role {
        Role::Pm => Some((skeleton, String::new())),
        Role::TechLead => {
            let root = state.root()?;
            let text = serde_json::to_string_pretty(&**root).expect("BUG: a contract is plain data");
            let commit = run.started.base.commit;
            Some((skeleton, format!("The contract to split, on commit {commit}:\n{text}\n")))
        }
        _ => None,
    }
}

/// What whoever fixes a task is told: what was found, not what was said about it.
pub(crate) fn fixing(state: &State, task: &Task) -> Option<String> {
    let (cause, attempt) = task.fix?;
    let original = &state.items.items[task.original as usize].item.id;
    if let Some(moved) = &task.conflict {
        return Some(in_the_way(original, attempt, moved));
    }
    let failed = &state.items.items[task.fixes? as usize];
    let ended = failed.ended()?;
    let what = match cause {
        Cause::Review => "A reviewer blocks the change that is in your workspace (git diff shows it).",
        Cause::Tests => "Tests fail on the change that is in your workspace (git diff shows it).",
        Cause::Conflict => {
            "Something else landed on the same lines. Your workspace has what landed; your earlier change is the patch.diff \
             in the directory below, to be made again where it still fits."
        }
    };
    let mut text = format!("This is fix {attempt} of task {original}. {what}\n");
    for gate in ended.gates.iter().filter(|gate| !gate.passed) {
        for finding in &gate.findings {
            let _ = writeln!(text, "- {}: {finding}", gate.gate);
        }
    }
    let _ = writeln!(text, "Its logs and findings are in {}.", change_dir(task.fixes?));
    Some(text)
}

/// What whoever fixes a conflict with the user's branch is told.
fn in_the_way(task: &str, attempt: u32, moved: &LineMoved) -> String {
    let mut text = format!(
        "This is fix {attempt} of task {task}. Somebody has committed to the branch meanwhile (commit {}) and changed the same lines. Your \
         workspace has that commit; of these paths it does not have what this task had changed:\n",
        moved.onto.commit
    );
    for finding in &moved.findings {
        let _ = writeln!(text, "- {finding}");
    }
    let _ = writeln!(
        text,
        "conflicts.json in {} has both sides of each, and patch.diff what this task had changed there. Make the change again so that both \
         hold: what was committed must stay in effect.",
        moved.dir()
    );
    text
}

/// The directory of what a fix is made from.
pub(crate) fn evidence_dir(task: &Task) -> Option<String> {
    match &task.conflict {
        Some(moved) => Some(moved.dir()),
        None => task.fixes.map(change_dir),
    }
}

/// The directory of what an item was judged by.
fn change_dir(place: u32) -> String {
    format!("changes/{:03}", place + 1)
}
