//! What is kept of what an agent left: its words, its files and its patch, all without their secrets. It is the same for a
//! turn that was just taken and for one that is taken again.

use crate::change::paths;
use crate::change::{Patched, apply_patch, text_bytes_max};
use crate::evidence::collect::collect;
use crate::evidence::left_files::{open, read_file};
use crate::evidence::redaction::{clear, told};
use crate::git::Objects;
use crate::git::id;
use crate::workspace::Captured;
use crate::world::{Execution, World};
use crate::{Error, Result};
use contract::{PromptBlocks, Role, StepRef};
use run::Run;
use run::redact::{Counts, Redacted, Redactor};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use store::Preparing;

/// What the `act` of a loop proposes.
const PATCH: &str = "patch.diff";

/// Puts what an agent left into its evidence; answers what was noticed. `live` is where it wrote if no layer has it. What is
/// judged afterwards is what is kept, since whoever judges again has nothing else.
pub(crate) fn keep(
    world: &mut dyn World,
    objects: &Objects,
    run: &Run,
    step: StepRef,
    live: &Path,
    execution: &mut Execution,
    into: &mut Preparing,
) -> Result<Vec<String>> {
    if let Some(spoken) = &execution.spoken {
        // What an agent with an interactive session prints is its protocol; its answer is what it said last.
        execution.stdout = spoken.answer.clone().unwrap_or_default().into_bytes();
        execution.stdout_truncated = false;
    }
    let redactor = world.redactor();
    let printed = clear(&redactor, [&mut execution.stdout, &mut execution.stderr]);
    let written = execution.written.take().map_or_else(|| open(live), Some);
    let apart = (step.role == Role::Act).then_some(PATCH);
    let own_patch = match (&written, apart) {
        (Some(dir), Some(name)) => own_patch(dir, name, run)?,
        _ => None,
    };
    let (mut notes, mut removed) = collect(written, &run.started.contract.limits, &redactor, apart, into)?;
    if execution.spoken.is_some() {
        keep_carried(execution, into)?;
    }
    let patch = match (own_patch, &execution.captured) {
        (Some(patch), _) => Some(patch),
        // One that edits and changed nothing proposes nothing.
        (None, Some(captured)) if apart.is_some() => Some(edited(objects, run, captured)?).filter(|it| !it.is_empty()),
        _ => None,
    };
    if let Some(patch) = patch {
        into.write(PATCH, &without_secrets(objects, run, patch, &redactor, &mut removed)?)?;
    }
    notes.extend(told("what it printed", &printed));
    notes.extend(told("the files it left", &removed));
    Ok(notes)
}

/// The patch that an agent wrote itself: as much as a patch may be, and one byte more so that the gate sees that it is too
/// much.
fn own_patch(dir: &OwnedFd, name: &str, run: &Run) -> Result<Option<Vec<u8>>> {
    let most = (u64::from(run.started.contract.limits.change_mb) << 20) + 1;
    let read = read_file(dir, name, most);
    read.map_err(|source| Error::io("read", Path::new(name), source))
}

/// A patch as it may be kept: as it is, unless it adds a secret. One that is already in the file has to stay: without it
/// the patch would not fit its file any more. With a mark in place of what it adds the patch is refused as it would have
/// been before.
fn without_secrets(
    objects: &Objects,
    run: &Run,
    patch: Vec<u8>,
    redactor: &Redactor,
    removed: &mut Counts,
) -> Result<Vec<u8>> {
    let Redacted { bytes, counts } = redactor.redact(&patch);
    if counts.is_empty() {
        return Ok(patch);
    }
    let adds = match apply_patch(objects, run, &patch)? {
        Patched::Tree(tree) => {
            let changes = paths::between(objects, id(run.tree()), id(tree))?;
            changes.iter().any(|change| !change.secrets.is_empty())
        }
        Patched::Refused(..) => true,
    };
    if !adds {
        return Ok(patch);
    }
    run::redact::add(removed, &counts);
    Ok(bytes.into_owned())
}

/// What a workspace's edits come to as a patch of the run's tree.
fn edited(objects: &Objects, run: &Run, captured: &Captured) -> Result<Vec<u8>> {
    let tree = id(run.tree());
    Ok(if captured.tree == tree {
        Vec::new()
    } else {
        objects.diff_text(tree, captured.tree, text_bytes_max(run.started.contract.rules))?
    })
}

/// The files that an answer carries for an agent that cannot write them itself.
fn keep_carried(execution: &Execution, into: &mut Preparing) -> Result<()> {
    let names = into.names();
    for (name, bytes) in run::prompt::carried(&execution.stdout) {
        if !names.iter().any(|it| it == name) {
            into.write(name, &bytes)?;
        }
    }
    Ok(())
}

/// What an agent was told, whole and block by block.
pub(crate) fn keep_prompt(prompt: &PromptBlocks, into: &mut Preparing) -> Result<()> {
    into.write("prompt.full.txt", prompt.full().as_bytes())?;
    Ok(into.write("prompt.blocks.json", &contract::json::pretty(prompt))?)
}

/// What is kept of a conversation: what was told, what was said, and what came of it.
pub(crate) fn keep_conversation(spoken: &crate::world::Spoken, into: &mut Preparing) -> Result<()> {
    keep_prompt(&spoken.prompt, into)?;
    for (name, path) in crate::agent::spool::files(&spoken.spool)? {
        let mut file = File::open(&path).map_err(|source| Error::io("open", &path, source))?;
        into.copy(&name, &mut file, u64::MAX)?;
    }
    Ok(store::remove_tree(&spoken.spool)?)
}
