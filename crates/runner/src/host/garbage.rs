//! What `norma gc` removes of norma's own objects: large files that refused changes brought. Everything small stays, so that
//! such a change can be judged again; of a large file there is nothing to say but that it was refused.

use crate::Result;
use crate::context::state_dir::StateDir;
use crate::git::{ObjectId, Objects, id};
use contract::{Audit, Event, Fact, ItemStatus, Slug, TreeId};
use run::Run;
use std::collections::{BTreeMap, BTreeSet};
use store::Reader;

/// Files from this size on are removed.
const LARGE_BYTES_MIN: u64 = 1 << 20;

/// What was removed, of all runs.
#[derive(Debug, Default)]
pub(super) struct RefusedFiles {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Removes large files that nothing but refused changes of sealed runs has. Nobody may be at work on a run.
pub(super) fn remove_refused(state: &StateDir) -> Result<RefusedFiles> {
    let reader = Reader::open(&state.store.layout)?;
    let (mut needed, mut refused) = (BTreeSet::new(), BTreeMap::new());
    for view in reader.runs(None)? {
        let slug: Slug = view.run_id.parse().map_err(store::Error::from)?;
        let is_sealed = reader.is_sealed(&slug)?;
        let run = match reader.load(&slug) {
            Ok((run, _)) => run,
            // Nobody knows what a damaged run needs.
            Err(store::Error::Damaged { .. }) => return Ok(RefusedFiles::default()),
            Err(error) => return Err(error.into()),
        };
        let (_, events, _) = reader.log(&slug)?;
        let trees = trees(&run, &events, is_sealed);
        // A file that cannot be looked for might be needed: then nothing is removed, and the error says which.
        for (old, new) in trees.needed {
            needed.extend(state.objects.new_objects(id(old), id(new))?);
        }
        refused.insert(slug, trees.refused);
    }
    let mut all = RefusedFiles::default();
    for (slug, trees) in refused {
        let unneeded = unneeded(&state.objects, &trees, &needed);
        let removed = state.objects.remove_large(&unneeded, LARGE_BYTES_MIN)?;
        if removed.files > 0 {
            state.store.audit(Audit::RefusedFilesRemoved { run_id: slug, files: removed.files }).wait()?;
        }
        (all.files, all.bytes) = (all.files + removed.files, all.bytes + removed.bytes);
    }
    Ok(all)
}

/// Trees that agents of a run made, each with the one that it was made of.
#[derive(Default)]
struct Trees {
    needed: Vec<(TreeId, TreeId)>,
    refused: Vec<(TreeId, TreeId)>,
}

fn trees(run: &Run, events: &[Event], is_sealed: bool) -> Trees {
    let (mut bases, mut made) = (BTreeMap::new(), BTreeMap::new());
    let mut succeeded = BTreeSet::new();
    for event in events {
        match &event.fact {
            Fact::StepStarted { step, base: Some(base), taken } => {
                let _ = bases.insert(step.index, taken.as_ref().map_or(base.tree, |taken| taken.tree));
            }
            Fact::StepCommitted(done) => drop(done.tree.map(|tree| made.insert(done.step.index, tree))),
            Fact::ItemEnded(ended) if ended.status == ItemStatus::Success => succeeded.extend(ended.step),
            _ => {}
        }
    }
    let mut trees = Trees { needed: vec![(run.ground().tree, run.tree())], refused: Vec::new() };
    for (index, tree) in made {
        let Some(base) = bases.get(&index) else { continue };
        let of = if is_sealed && !succeeded.contains(&index) { &mut trees.refused } else { &mut trees.needed };
        of.push((*base, tree));
    }
    trees
}

/// What only refused trees have. One whose own objects are gone has nothing to remove.
fn unneeded(objects: &Objects, refused: &[(TreeId, TreeId)], needed: &BTreeSet<ObjectId>) -> BTreeSet<ObjectId> {
    let new = refused.iter().filter_map(|(old, new)| objects.new_objects(id(*old), id(*new)).ok());
    new.flatten().filter(|object| !needed.contains(object)).collect()
}
