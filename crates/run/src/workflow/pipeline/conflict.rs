//! A result that commits of the user's branch are in the way of. The run's line is put on them, but for the paths that conflict, and
//! the task that these belong to is fixed there like one that failed. Where nobody fixes it, the line is what it was before.

use super::{State, Task};
use crate::items::ItemState;
use crate::state::{Core, Outcome};
use contract::pipeline::{Cause, LineMoved};
use contract::{ItemBase, RepoPath, RunStarted};
use std::sync::Arc;

/// The conflicts of a run with the user's branch.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conflicts {
    count: u32,
    /// The last one, unless nobody fixes it any more.
    last: Option<Met>,
    /// What came of the fixes of one that stays.
    given_up: Option<Arc<str>>,
}

/// A conflict, and what the line stood on before it.
#[derive(Debug, Clone, PartialEq)]
struct Met {
    moved: Arc<LineMoved>,
    stood_on: ItemBase,
}

/// The law.
impl State {
    /// Puts the line on a commit of the user's branch.
    pub(super) fn move_line(&mut self, core: &mut Core, started: &RunStarted, moved: &LineMoved) -> Outcome {
        let owner = self.task(moved.owner)?;
        let succeeded = self.items.items[moved.owner as usize].succeeded();
        let is_owner = owner.contract.is_some() && !owner.followed && succeeded;
        let fits = moved.conflict == self.next_conflict()
            && moved.from == core.line.head
            && moved.onto.commit != core.line.base.commit;
        if !is_owner || !fits || !self.is_judged(started) || core.declined.is_some() {
            return Err("only a result that was judged is put on the user's branch".into());
        }
        let stood_on = std::mem::replace(&mut core.line.base, moved.onto.clone());
        put(core, &moved.head);
        self.conflicts.count += 1;
        self.conflicts.last = Some(Met { moved: Arc::new(moved.clone()), stood_on });
        Ok(())
    }

    /// Has the line be what it was before the last conflict.
    pub(super) fn restore_line(&mut self, core: &mut Core, item: u32, head: &ItemBase, why: &str) -> Outcome {
        let is_lost = self.lost_conflict() == Some(item);
        let met = self.conflicts.last.take().filter(|met| is_lost && met.moved.from == *head);
        let met = met.filter(|met| met.moved.head == core.line.head).ok_or("no conflict is given up here")?;
        core.line.base = met.stood_on;
        put(core, head);
        self.conflicts.given_up = Some(why.into());
        Ok(())
    }

    /// The conflict that this item is to be fixed for.
    pub(super) fn conflict_of(&self, cause: Cause, place: u32) -> Option<Arc<LineMoved>> {
        let last = self.conflicts.last.as_ref().filter(|met| cause == Cause::Conflict && met.moved.owner == place);
        last.map(|met| met.moved.clone())
    }
}

fn put(core: &mut Core, head: &ItemBase) {
    core.tree = head.tree;
    core.line.head = head.clone();
}

impl State {
    /// The number that the next conflict gets.
    pub fn next_conflict(&self) -> u32 {
        self.conflicts.count + 1
    }

    /// Why a conflict is not fixed any more.
    pub fn given_up(&self) -> Option<&str> {
        self.conflicts.given_up.as_deref()
    }

    /// Where the line ended before the last conflict.
    pub fn line_before(&self) -> Option<&ItemBase> {
        self.conflicts.last.as_ref().map(|met| &met.moved.from)
    }

    /// The place of what came last of the task that all of these paths belong to, or of the contract of the whole where they belong to
    /// several; none where nobody could fix them.
    pub fn owner_of(&self, paths: &[RepoPath]) -> Option<u32> {
        let holds = |item: &ItemState| {
            let allowed = &item.item.scope.allowed_paths;
            allowed.is_empty() || paths.iter().all(|path| allowed.iter().any(|it| path.is_within(it)))
        };
        let is_part = |(place, task, item): &(u32, &Task, &ItemState)| {
            let of_worker = task.contract.is_some() && task.fixes.is_none() && self.whole != Some(*place);
            of_worker && holds(item)
        };
        let part = self.tasks().filter(is_part).map(|(place, ..)| self.last_of(place)).filter(|it| self.may_own(*it));
        part.last().or_else(|| self.whole.map(|place| self.last_of(place)).filter(|place| self.may_own(*place)))
    }

    fn may_own(&self, place: u32) -> bool {
        self.items.items[place as usize].succeeded()
    }

    /// The item that came last of a conflict that nobody fixes any more.
    pub fn lost_conflict(&self) -> Option<u32> {
        let owner = self.conflicts.last.as_ref()?.moved.owner;
        let last = self.last_of(owner);
        let (task, item) = (&self.tasks[last as usize], &self.items.items[last as usize]);
        let is_over = item.ended().is_some() && !Self::is_to_follow(task, item);
        (is_over && (last == owner || !item.succeeded())).then_some(last)
    }
}
