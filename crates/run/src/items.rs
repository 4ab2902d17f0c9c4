//! The items of a run: where each of them is, and what may happen to it next. Items are shared between copies of a
//! run, and what is due is found by their [`Standing`], so that a batch of ten thousand is as quick to continue as a
//! batch of ten.

pub(crate) mod queues;
mod review;

pub use self::review::Reviews;

use self::queues::{Placed, Queues};
use crate::gate::ORDER;
use crate::persistent::{Element, PersistentVec, Summary};
use crate::state::{OpenTurn, StepRecord, Unfinished};
use contract::work::Gate;
use contract::{
    Addition, Earlier, Item, ItemAdded, ItemBase, ItemEnded, ItemStatus, Reason, Role, Slug, StepCommitted, StepRef,
    Timestamp, TreeId, TurnEnd,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The agent that reconciles what the others of its level did; it comes last.
const RECONCILER: &str = "agent-0";

/// One item and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemState {
    /// What it is.
    pub item: Arc<Item>,
    /// How many items must come before it, one after another.
    pub level: u32,
    /// Where it is.
    pub stage: ItemStage,
    /// What came of it before this run.
    pub earlier: Option<Arc<Earlier>>,
    /// What it brought along, if it was added when the run had begun.
    pub addition: Option<Arc<Addition>>,
    /// Its turns so far.
    pub turns: Vec<Arc<StepRecord>>,
    /// The places of what it needs.
    pub needs: Arc<[u32]>,
    /// The places of what needs it.
    pub needed_by: Arc<Vec<u32>>,
    /// Whether something that it needs did not succeed.
    pub lacks_need: bool,
    /// Whether earlier items of its level declare some of the same paths.
    pub follows: bool,
    /// The place of the last of these that has not ended: it starts when none is left.
    pub blocked_by: Option<u32>,
    /// The places of those that are blocked by this one.
    pub blocks: Arc<Vec<u32>>,
    /// How many of its turns were cut off by a budget that was raised since: these do not count against its retries.
    pub excused: u32,
    /// What a turn that was cut off had made; the next attempt starts from there.
    pub kept: Option<Unfinished>,
    /// Where it starts, if that is not where its level does.
    pub start: Option<Arc<ItemBase>>,
    /// In which role its agent works.
    pub role: Role,
    /// What reviewers said of its change.
    pub reviews: Option<Arc<Reviews>>,
}

/// Where an item is.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemStage {
    /// Nothing has happened, or nothing is kept of what did.
    Waiting,
    /// Its agent is at work.
    Working(Arc<OpenTurn>),
    /// Its agent is done; what it left is to be judged, or another attempt follows.
    Worked(Worked),
    /// What it left is looked at by reviewers; one of them is at work, or the next one starts.
    InReview(Worked, Option<Arc<OpenTurn>>),
    /// It has its receipt.
    Ended(Arc<ItemEnded>),
}

/// What came of the turn that an item is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Worked {
    /// Its number and role.
    pub step: StepRef,
    /// On what.
    pub base: ItemBase,
    /// How it ended.
    pub end: TurnEnd,
    /// Why, unless it is fine.
    pub reason: Option<Reason>,
    /// In words.
    pub summary: String,
    /// The tree that it left.
    pub tree: Option<TreeId>,
    /// When its first turn was opened.
    pub since: Timestamp,
    /// Whether a budget of the run cut it off which somebody may raise: until that is answered nothing comes of it.
    pub held: bool,
}

/// What of some items the schedule looks for, by the first level in which there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// One that has not ended.
    pub open: u32,
    /// One of these that does not reconcile.
    pub open_worker: u32,
    /// One whose agent could start now, or that could be judged.
    pub ready: u32,
    /// One that could start once all that do not reconcile have ended.
    pub ready_last: u32,
    /// Whether a budget of the run cut one off, and nobody has said yet whether there is more.
    pub held: bool,
}

/// No level: there is no such item.
const NONE: u32 = u32::MAX;

impl Default for Standing {
    fn default() -> Standing {
        Standing { open: NONE, open_worker: NONE, ready: NONE, ready_last: NONE, held: false }
    }
}

impl Standing {
    /// The level that is being worked on; none when all have come to their end.
    pub fn level(&self) -> Option<u32> {
        (self.open != NONE).then_some(self.open)
    }
}

impl Summary for Standing {
    fn add(&mut self, other: &Standing) {
        self.open = self.open.min(other.open);
        self.open_worker = self.open_worker.min(other.open_worker);
        self.ready = self.ready.min(other.ready);
        self.ready_last = self.ready_last.min(other.ready_last);
        self.held |= other.held;
    }
}

impl Element for Arc<ItemState> {
    type Summary = Standing;

    fn summary(&self) -> Standing {
        let level_if = |is_so: bool| if is_so { self.level } else { NONE };
        let open = self.ended().is_none();
        let (judged, starts) = (self.is_to_be_judged() || self.needs_reviewer(), self.may_start_in_its_lane());
        Standing {
            open: level_if(open),
            open_worker: level_if(open && !self.reconciles()),
            ready: level_if(judged || starts && !self.reconciles()),
            ready_last: level_if(!judged && starts && self.reconciles()),
            held: self.is_held(),
        }
    }
}

impl ItemState {
    fn new(added: &ItemAdded) -> ItemState {
        let stage = match &added.earlier {
            Some(Earlier::Done { ended, .. }) => ItemStage::Ended(Arc::new((**ended).clone())),
            Some(Earlier::Unfinished { .. }) | None => ItemStage::Waiting,
        };
        ItemState {
            item: Arc::new(added.item.clone()),
            level: 0,
            stage,
            earlier: added.earlier.clone().map(Arc::new),
            addition: added.addition.clone().map(Arc::new),
            turns: Vec::new(),
            needs: Arc::default(),
            needed_by: Arc::default(),
            lacks_need: false,
            follows: false,
            blocked_by: None,
            blocks: Arc::default(),
            excused: 0,
            kept: None,
            start: None,
            role: Role::Worker,
            reviews: None,
        }
    }

    /// What an earlier run has done.
    pub(crate) fn added(added: &ItemAdded) -> ItemState {
        ItemState::new(added)
    }

    /// What a node of a graph has made, or an intent was compiled to, and is to be judged.
    pub(crate) fn proposed(added: &ItemAdded, worked: Worked, turn: Arc<StepRecord>) -> ItemState {
        ItemState { stage: ItemStage::Worked(worked), turns: vec![turn], ..ItemState::new(added) }
    }

    /// It has its receipt.
    pub(crate) fn end(&mut self, ended: &ItemEnded) {
        self.stage = ItemStage::Ended(Arc::new(ended.clone()));
    }

    /// How it ended, if it has, in this run or before it.
    pub fn ended(&self) -> Option<&ItemEnded> {
        match &self.stage {
            ItemStage::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// How it ended in this run, if it has.
    pub fn ended_here(&self) -> Option<&ItemEnded> {
        self.ended().filter(|_| self.done_by().is_none())
    }

    /// The earlier run that did it, if it was done before this one.
    pub fn done_by(&self) -> Option<Slug> {
        match self.earlier.as_deref() {
            Some(Earlier::Done { run, .. }) => Some(*run),
            Some(Earlier::Unfinished { .. }) | None => None,
        }
    }

    /// The tree that its agent finds: that of its base, or what an agent before it had made of just that.
    pub fn shown_on(&self, base: &ItemBase) -> TreeId {
        let earlier = match self.earlier.as_deref() {
            Some(Earlier::Unfinished { base, tree, .. }) => Some((*base, *tree)),
            Some(Earlier::Done { .. }) | None => None,
        };
        let made = self.kept.as_ref().map(|made| (made.base, made.tree)).or(earlier);
        made.filter(|(on, _)| *on == base.tree).map_or(base.tree, |(_, tree)| tree)
    }

    /// What its agents had made when the last of them was cut off, for a run that continues this one.
    pub fn unfinished(&self) -> Option<Unfinished> {
        let made = self.turns.iter().rev().find_map(|turn| turn.unfinished.clone());
        made.or(match self.earlier.as_deref() {
            Some(Earlier::Unfinished { base, tree, .. }) => Some(Unfinished { base: *base, tree: *tree }),
            _ => None,
        })
    }

    /// Whether it comes last in its level.
    pub fn reconciles(&self) -> bool {
        reconciles(&self.item)
    }

    /// How many of its turns count against its retries: those that were cut off do not.
    fn failed_turns(&self) -> u32 {
        let failed = self.turns.iter().filter(|turn| !matches!(turn.end, TurnEnd::Answered | TurnEnd::Interrupted));
        (failed.count() as u32).saturating_sub(self.excused)
    }

    /// Whether it ended with success.
    pub fn succeeded(&self) -> bool {
        self.ended().is_some_and(|ended| ended.status == ItemStatus::Success)
    }

    /// Whether it ended without success.
    pub(crate) fn has_failed(&self) -> bool {
        self.ended().is_some_and(|ended| ended.status != ItemStatus::Success)
    }

    /// What it is judged by, once its agent is done; none while another attempt is to follow.
    pub fn worked(&self) -> Option<&Worked> {
        match &self.stage {
            ItemStage::Worked(worked) if !worked.held && !self.is_retried(worked.end) => Some(worked),
            _ => None,
        }
    }

    /// Whether its agent is done, or never starts since something that it needs did not succeed.
    pub(crate) fn is_to_be_judged(&self) -> bool {
        match &self.stage {
            ItemStage::Worked(_) => self.worked().is_some(),
            ItemStage::Waiting => self.lacks_need,
            ItemStage::Working(_) | ItemStage::InReview(..) | ItemStage::Ended(_) => false,
        }
    }

    /// Whether its agent could start, as far as those are concerned that it follows.
    fn may_start_in_its_lane(&self) -> bool {
        let waits = matches!(&self.stage, ItemStage::Waiting | ItemStage::Worked(_));
        waits && self.blocked_by.is_none() && !self.is_held() && !self.is_to_be_judged()
    }

    /// Whether a turn that ended like this is taken again.
    fn is_retried(&self, end: TurnEnd) -> bool {
        match end {
            TurnEnd::Answered => false,
            TurnEnd::Interrupted => true,
            TurnEnd::Failed | TurnEnd::ProtocolError | TurnEnd::TimedOut => self.failed_turns() <= self.item.retries,
        }
    }

    pub(crate) fn open(&mut self, turn: &Arc<OpenTurn>) -> Result<(), String> {
        let is_open = match &self.stage {
            ItemStage::Waiting => true,
            ItemStage::Worked(worked) => worked.end != TurnEnd::Answered,
            ItemStage::InReview(..) => return self.open_review(turn),
            ItemStage::Working(_) | ItemStage::Ended(_) => false,
        };
        if !is_open || turn.step.attempt != self.turns.len() as u32 + 1 || turn.step.role != self.role {
            return Err(format!("item {} has no such turn now", self.item.id));
        }
        self.stage = ItemStage::Working(turn.clone());
        Ok(())
    }

    /// Whether it was cut off by a budget of the run, and nobody has said yet whether there is more.
    pub(crate) fn is_held(&self) -> bool {
        matches!(&self.stage, ItemStage::Worked(worked) if worked.held)
    }

    /// There is more: another attempt follows, from what the one before had made.
    pub(crate) fn excuse(&mut self) {
        self.excused += 1;
        self.kept = self.turns.last().and_then(|turn| turn.unfinished.clone()).or(self.kept.take());
        self.stage = ItemStage::Waiting;
    }

    /// There is no more: it has failed.
    pub(crate) fn give_up(&mut self) {
        if let ItemStage::Worked(worked) = &mut self.stage {
            worked.held = false;
        }
    }

    pub(crate) fn commit(&mut self, record: &Arc<StepRecord>, done: &StepCommitted, held: bool) -> Result<(), String> {
        if let ItemStage::InReview(..) = &self.stage {
            return self.commit_review(record, done);
        }
        let ItemStage::Working(turn) = &self.stage else { return Err(format!("nobody works on {}", self.item.id)) };
        let base = turn.base.clone().ok_or("an item starts from the run's line")?;
        let answered = done.end == TurnEnd::Answered;
        let cut_off = matches!(done.reason, Some(Reason::BudgetExceeded | Reason::AgentTimeout));
        let interrupted = done.end == TurnEnd::Interrupted;
        if answered && done.tree.is_none() || !(answered || interrupted || cut_off) && done.tree.is_some() {
            return Err("a worker leaves a tree when it answers, or is cut off".into());
        }
        self.note_turn(record);
        self.stage = ItemStage::Worked(Worked {
            step: done.step,
            base,
            end: done.end,
            reason: done.reason,
            summary: done.summary.clone(),
            tree: done.tree.filter(|_| answered),
            since: self.turns[0].since,
            held,
        });
        Ok(())
    }

    /// A turn that was interrupted continues where it was.
    fn note_turn(&mut self, record: &Arc<StepRecord>) {
        if record.end == TurnEnd::Interrupted && record.unfinished.is_some() {
            self.kept.clone_from(&record.unfinished);
        }
        self.turns.push(record.clone());
    }

    pub(crate) fn lose(&mut self, record: &Arc<StepRecord>) {
        if let ItemStage::InReview(..) = &self.stage {
            return self.lose_review(record);
        }
        self.note_turn(record);
        self.stage = ItemStage::Waiting;
    }

    /// Whether this end fits what is known of the item. What it says about the line is checked by the run.
    pub(crate) fn require_end(&self, ended: &ItemEnded) -> Result<(), String> {
        let step = match &self.stage {
            ItemStage::Waiting if ended.status == ItemStatus::Denied => None,
            ItemStage::Worked(worked) => {
                if worked.end != TurnEnd::Answered && ended.status == ItemStatus::Success {
                    return Err("an item whose agent did not answer cannot succeed".into());
                }
                Some(worked.step.index)
            }
            _ => return Err(format!("item {} cannot end now", self.item.id)),
        };
        if ended.step != step {
            return Err("the end is not about this item's turn".into());
        }
        require_told(&self.item, ended)
    }
}

/// What the end of an item says must fit together, whoever wrote it.
fn require_told(item: &Item, ended: &ItemEnded) -> Result<(), String> {
    let failed: Vec<Gate> = ended.gates.iter().filter(|it| !it.passed).map(|it| it.gate).collect();
    let asked: BTreeSet<Gate> = ended.gates.iter().map(|it| it.gate).collect();
    let success = ended.status == ItemStatus::Success;
    if ended.change != ended.item + 1 || asked.len() != ended.gates.len() {
        return Err("the end is not about this item's change".into());
    }
    if success && (!failed.is_empty() || required(item).any(|gate| !asked.contains(&gate))) {
        return Err("an item succeeds only over every one of its gates".into());
    }
    if success != ended.reason.is_none() || success != ended.message.is_empty() {
        return Err("an item has a reason and says it exactly when it did not succeed".into());
    }
    if !success && (ended.commit.is_some() || ended.before != ended.after) {
        return Err("an item that did not succeed leaves no trace".into());
    }
    Ok(())
}

/// Whether an item reconciles what the others of its level did.
pub fn reconciles(item: &Item) -> bool {
    item.agent_id == RECONCILER
}

/// The gates without which nothing is accepted.
fn required(item: &Item) -> impl Iterator<Item = Gate> {
    ORDER.into_iter().filter(|gate| match gate {
        Gate::Tests => !item.tests.is_empty(),
        Gate::Review => item.review.is_some(),
        // Asked of those who write contracts.
        Gate::Contracts => false,
        _ => true,
    })
}

/// Items by their place.
pub type Items = PersistentVec<Arc<ItemState>>;

fn has_ended(items: &Items) -> impl Fn(u32) -> bool {
    |place| items[place as usize].ended().is_some()
}

fn change<R>(items: &mut Items, place: u32, change: impl FnOnce(&mut ItemState) -> R) -> R {
    items.update(place as usize, |state| change(Arc::make_mut(state)))
}

/// Takes an item in; the last one completes them, and then their levels are known.
pub(crate) fn add(items: &mut Items, queues: &mut Queues, added: &ItemAdded, count: u32) -> Result<(), String> {
    if added.index != items.len() as u32 || added.index >= count || added.addition.is_some() {
        return Err("items come in their order, and no more than there are".into());
    }
    if let Some(Earlier::Done { ended, .. }) = &added.earlier {
        if ended.item != added.index || ended.status != ItemStatus::Success {
            return Err("only an item that succeeded stays done".into());
        }
        require_told(&added.item, ended)?;
    }
    items.push(Arc::new(ItemState::new(added)));
    if items.len() as u32 == count { complete(items, queues) } else { Ok(()) }
}

/// Says of every item what it needs and what it has to wait for.
fn complete(items: &mut Items, queues: &mut Queues) -> Result<(), String> {
    let all: Vec<Arc<Item>> = items.iter().map(|state| state.item.clone()).collect();
    let levels = levels(all.iter().map(|item| &**item))?;
    let places: BTreeMap<&str, u32> = all.iter().map(|item| item.id.as_str()).zip(0..).collect();
    let mut needed_by = vec![Vec::new(); all.len()];
    for (place, item) in (0..).zip(&all) {
        let needs: Arc<[u32]> = item.needs.iter().map(|need| places[need.as_str()]).collect();
        needs.iter().for_each(|need| needed_by[*need as usize].push(place));
        change(items, place, |state| (state.level, state.needs) = (levels[place as usize], needs));
    }
    for (place, needed_by) in (0..).zip(needed_by) {
        change(items, place, |state| state.needed_by = Arc::new(needed_by));
    }
    line_up(items, queues);
    Ok(())
}

/// Says of every item which others it follows, and by which of them it is blocked.
fn line_up(items: &mut Items, queues: &mut Queues) {
    let placed = (0..).zip(items.iter()).map(|(place, state)| Placed { place, level: state.level, item: &state.item });
    *queues = Queues::new(placed, has_ended(items));
    for place in queues.members() {
        change(items, place, |state| state.blocks = Arc::default());
    }
    for place in queues.members() {
        change(items, place, |state| state.follows = queues.follows(place));
        block(items, queues, place);
    }
}

/// Says by which item another one is blocked now.
fn block(items: &mut Items, queues: &Queues, place: u32) {
    let blocker = queues.blocker(place, has_ended(items));
    change(items, place, |state| state.blocked_by = blocker);
    if let Some(blocker) = blocker {
        change(items, blocker, |state| Arc::make_mut(&mut state.blocks).push(place));
    }
}

/// Ends an item, and says so of those that waited for it.
pub(crate) fn end(items: &mut Items, queues: &mut Queues, ended: &ItemEnded) {
    let (blocked, needed_by) = change(items, ended.item, |state| {
        state.end(ended);
        (std::mem::take(&mut state.blocks), state.needed_by.clone())
    });
    queues.note_end(ended.item, has_ended(items));
    for place in blocked.iter() {
        block(items, queues, *place);
    }
    if ended.status != ItemStatus::Success {
        needed_by.iter().for_each(|place| change(items, *place, |state| state.lacks_need = true));
    }
}

/// Takes in an item that is added to a run of items, at this level or, if it needs more, at a later one. Nothing changes
/// for the others.
pub(crate) fn add_later(items: &mut Items, queues: &mut Queues, added: &ItemAdded, level: u32) -> Result<(), String> {
    let item = &added.item;
    if added.index != items.len() as u32 || added.earlier.is_some() {
        return Err("what is added comes after all others, and was never begun".into());
    }
    let places: BTreeMap<&str, u32> = items.iter().map(|state| state.item.id.as_str()).zip(0..).collect();
    if places.contains_key(item.id.as_str()) {
        return Err(format!("there are two items {:?}", item.id));
    }
    let place = |need: &String| {
        let place = places.get(need.as_str()).copied();
        place.ok_or_else(|| format!("{} needs {need:?}, which is not there", item.id))
    };
    let needs: Arc<[u32]> = item.needs.iter().map(place).collect::<Result<_, _>>()?;
    let after = needs.iter().map(|need| items[*need as usize].level + 1).max();
    let level = after.unwrap_or(0).max(level);
    let lacks_need = needs.iter().any(|need| items[*need as usize].has_failed());
    for need in needs.iter() {
        change(items, *need, |state| Arc::make_mut(&mut state.needed_by).push(added.index));
    }
    items.push(Arc::new(ItemState { level, needs, lacks_need, ..ItemState::new(added) }));
    if !item.read_only && !item.scope.allowed_paths.is_empty() {
        line_up(items, queues);
    }
    Ok(())
}

/// The level of each item: how long the longest chain of what it needs is. An error names what is wrong with the
/// graph.
pub fn levels<'a>(items: impl Iterator<Item = &'a Item>) -> Result<Vec<u32>, String> {
    let items: Vec<&Item> = items.collect();
    let mut places = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        if places.insert(item.id.as_str(), place).is_some() {
            return Err(format!("there are two items {:?}", item.id));
        }
    }
    let (mut missing, mut needed_by) = (Vec::new(), vec![Vec::new(); items.len()]);
    for (place, item) in items.iter().enumerate() {
        for need in &item.needs {
            let needed = places.get(need.as_str());
            let needed = needed.ok_or_else(|| format!("{} needs {need:?}, which is not there", item.id))?;
            needed_by[*needed].push(place);
        }
        missing.push(item.needs.len());
    }
    let mut levels = vec![0_u32; items.len()];
    let mut known: Vec<usize> = (0..items.len()).filter(|place| missing[*place] == 0).collect();
    while let Some(place) = known.pop() {
        for next in std::mem::take(&mut needed_by[place]) {
            levels[next] = levels[next].max(levels[place] + 1);
            missing[next] -= 1;
            if missing[next] == 0 {
                known.push(next);
            }
        }
    }
    let waiting = items.iter().zip(missing).filter(|(_, missing)| *missing > 0);
    let names: Vec<&str> = waiting.map(|(item, _)| item.id.as_str()).collect();
    match names.is_empty() {
        true => Ok(levels),
        false => Err(format!("these items wait for each other: {}", names.join(", "))),
    }
}
