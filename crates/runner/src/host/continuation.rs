//! What a run of items takes over from the stopped run that it continues from. What succeeded there stays done, and is what
//! this run starts from. What an agent was cut off in is only where the next one begins: it is judged with everything
//! else that changes, whole, against the base.

use crate::change::paths;
use crate::context::policy::Rules;
use crate::git::{Merged, Objects};
use crate::git::{id, recorded};
use crate::{Error, Result};
use contract::{Base, Earlier, Item, ItemAdded, LandingConfig, LandingMode, Status};
use run::gate::scope::Observed;
use run::{ItemState, Run};
use store::{Reader, Store};

/// Whether a run can be gone on from.
pub(crate) fn check(store: &Store, parent: &Run) -> Result<()> {
    let slug = parent.id.slug();
    if parent.status != Status::Stopped {
        let why = format!("run {slug} is {}; only a stopped run can be given more", parent.status);
        return Err(Error::usage(why, "a paused run continues without --budget"));
    }
    if let Some(first) = &parent.started.replay_of {
        let why = format!("run {slug} was carried out only to be compared with {first}");
        return Err(Error::declined(why, format!("continue that one: norma resume {first} --budget …")));
    }
    let stands = Reader::open(&store.layout)?.run(&slug)?.is_some_and(|view| view.landing.is_some());
    if parent.landed().is_some() && !stands {
        let why = format!("what run {slug} landed was undone, so there is nothing to continue from");
        return Err(Error::declined(why, "start over: norma run … --new, or norma batch … --new"));
    }
    Ok(())
}

/// What the run starts from: all that its parent's items have made, merged with what it had to be merged with to land.
pub(crate) fn base(objects: &Objects, parent: &Run) -> Result<Base> {
    let (head, branch) = (&parent.line().head, parent.started.base.branch.clone());
    Ok(match parent.landed() {
        Some(landing) if landing.checkout && landing.commit != head.commit => {
            let tree = recorded(objects.tree_of(id(landing.commit))?);
            Base { commit: landing.commit, tree, branch }
        }
        _ => Base { commit: head.commit, tree: head.tree, branch },
    })
}

/// How the run lands. On top of what is on a branch of its own there is no way onto the user's.
pub(crate) fn landing(parent: &Run, configured: &LandingConfig) -> LandingConfig {
    match parent.landed() {
        Some(landing) if !landing.checkout => LandingConfig { mode: LandingMode::Branch },
        _ => configured.clone(),
    }
}

/// The items with what came of each.
pub(crate) fn items(objects: &Objects, rules: &Rules<'_>, parent: &Run, base: &Base) -> Result<Vec<ItemAdded>> {
    let mut items = Vec::with_capacity(parent.items().len());
    for (index, state) in (0..).zip(parent.items().iter()) {
        let earlier = match done(parent, state) {
            Some(done) => Some(done),
            None => unfinished(objects, rules, parent, state, base)?,
        };
        items.push(ItemAdded { index, item: (*state.item).clone(), earlier, addition: None });
    }
    Ok(items)
}

/// Those of the items that are still to be done.
pub(crate) fn to_do(items: &[ItemAdded]) -> impl Iterator<Item = &Item> {
    items.iter().filter(|added| !matches!(added.earlier, Some(Earlier::Done { .. }))).map(|added| &added.item)
}

/// What was compiled, where the patch that came of it was accepted: then neither is done again.
pub(crate) fn compiled(parent: &Run) -> Option<Earlier> {
    let patch = parent.items().get(run::workflow::intent::PATCH as usize).filter(|patch| patch.succeeded());
    let compile = parent.items().first().filter(|_| patch.is_some())?;
    done(parent, compile)
}

fn done(parent: &Run, state: &ItemState) -> Option<Earlier> {
    let ended = state.ended().filter(|ended| ended.status == contract::ItemStatus::Success)?;
    // Whoever did it has the receipt, however many runs have gone on since.
    let run = state.done_by().unwrap_or(parent.id.slug());
    Some(Earlier::Done { run, ended: Box::new(ended.clone()) })
}

/// What an agent had made when it was cut off, put on what the others have landed since; nothing if that does not go, or
/// if it is out of scope: before an agent starts, a setup may run in there, with rights that no agent has.
fn unfinished(
    objects: &Objects,
    rules: &Rules<'_>,
    parent: &Run,
    state: &ItemState,
    base: &Base,
) -> Result<Option<Earlier>> {
    let Some(made) = state.unfinished() else { return Ok(None) };
    let merged = objects.merge(id(made.base), id(made.tree), id(base.tree))?;
    let Merged::Tree(tree) = merged else { return Ok(None) };
    let changes = paths::between(objects, id(base.tree), tree)?;
    let nothing = changes.is_empty() || state.item.read_only;
    let observed = Observed { changes, ..Observed::default() };
    if nothing || !rules.scope_findings(&state.item.scope, &observed).is_empty() {
        return Ok(None);
    }
    Ok(Some(Earlier::Unfinished { run: parent.id.slug(), base: base.tree, tree: recorded(tree) }))
}
