//! An intent: an agent compiles it into a plan and a patch, the patch becomes a change of the run, and then the nodes of the
//! plan are carried out one after another. The compiled answer and the patch are items, so that turns, gates, tests, receipts
//! and recovery are those of any item; nodes of the plan make evidence and no history.
//!
//! Here is the state and its part of the law. What is due is in [`due`], what a node's turn is in [`spec`].

pub(super) mod due;
mod spec;

pub(crate) use spec::spec;

use super::batch;
use crate::items::{ItemState, Worked};
use crate::state::{Core, OpenTurn, Outcome, StepRecord};
use contract::documents::Plan;
use contract::documents::plan::{NodeSpec, Work};
use contract::intent::{APPROVE, PLAN_BYTES_MAX, PatchProposed, Planned, REJECT, WAIT_PREFIX};
use contract::{
    Addition, Answered, Digest, Earlier, IntentFact, ItemBase, Reason, Role, RunStarted, Slug, StepCommitted, StepRef,
    Timestamp, TurnEnd, Wait, WaitId,
};
use std::sync::Arc;

/// The item that is compiled, and the one that the patch is.
pub const COMPILE: u32 = 0;
/// See [`COMPILE`].
pub const PATCH: u32 = 1;

/// Where an intent is.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// What is compiled, and the patch.
    pub items: batch::State,
    /// The nodes of the plan, in its order; none before there is one.
    pub nodes: Option<Arc<Vec<Arc<NodeState>>>>,
    /// The order in which they are carried out.
    order: Arc<[u32]>,
    /// Why nothing of what was compiled is carried out.
    pub refused: Option<(Reason, Arc<str>)>,
    /// How many questions were asked.
    asked: u32,
}

/// A node and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    /// What it is.
    pub spec: NodeSpec,
    /// Why a person has to approve its command first.
    pub asks: Option<String>,
    /// Where it is.
    pub stage: Stage,
    /// How many attempts at its turn came to nothing.
    pub lost: u32,
    /// Protocol errors in a row.
    pub protocol_errors: u32,
    /// The question that it waits with.
    pub wait: Option<Arc<Wait>>,
    /// How many questions of the plan were asked before it.
    asked_after: u32,
    /// Whether its command was approved.
    approved: bool,
    /// What was chosen, once it is.
    pub choice: Option<String>,
    /// What came of it, in words.
    pub summary: String,
    /// The directory of its turn.
    pub dir: Option<String>,
}

/// Where a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// Its turn has not come.
    Waiting,
    /// It is at work.
    Working(StepRef),
    /// It is done; by an earlier run, where one is named.
    Done(Option<Slug>),
    /// It is not carried out.
    Skipped,
    /// It did not succeed, and ends the run.
    Failed(Reason),
}

impl NodeState {
    fn new(spec: NodeSpec, asks: Option<String>) -> NodeState {
        NodeState {
            spec,
            asks,
            stage: Stage::Waiting,
            lost: 0,
            protocol_errors: 0,
            wait: None,
            asked_after: 0,
            approved: false,
            choice: None,
            summary: String::new(),
            dir: None,
        }
    }

    /// Whether it is done or skipped.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Done(_) | Stage::Skipped)
    }

    /// Whether somebody has to answer before it continues.
    fn needs_answer(&self) -> bool {
        match &self.spec.work {
            Work::Approval => true,
            Work::Decision { by_agent, .. } => !by_agent,
            Work::Command(_) => self.asks.is_some() && !self.approved,
            Work::Nothing | Work::Turn => false,
        }
    }

    /// Whether an agent or a command works on it.
    fn has_turn(&self) -> bool {
        match &self.spec.work {
            Work::Command(_) | Work::Turn => true,
            Work::Decision { by_agent, .. } => *by_agent,
            Work::Approval | Work::Nothing => false,
        }
    }

    /// The name of its question.
    pub fn wait_id(&self) -> WaitId {
        WaitId(format!("{WAIT_PREFIX}{}", self.spec.id))
    }

    fn role(&self) -> Role {
        match self.spec.work {
            Work::Decision { .. } => Role::Decide,
            _ => Role::Execute,
        }
    }

    fn choose(&mut self, choice: &str) -> Outcome {
        self.wait = None;
        let known = match &self.spec.work {
            Work::Decision { choices, .. } => choices.iter().any(|known| known == choice),
            Work::Approval | Work::Command(_) => choice == APPROVE || choice == REJECT,
            Work::Nothing | Work::Turn => false,
        };
        if !known {
            return Err(format!("{choice:?} is no choice of node {}", self.spec.id));
        }
        match &self.spec.work {
            Work::Command(_) if choice == APPROVE => self.approved = true,
            Work::Approval | Work::Command(_) if choice == REJECT => {
                self.stage = Stage::Failed(Reason::ApprovalDenied);
                self.summary = format!("{} was rejected", self.spec.id);
            }
            _ => self.stage = Stage::Done(None),
        }
        self.choice = Some(choice.to_owned());
        Ok(())
    }
}

/// The law: how facts change the state of an intent.
impl State {
    pub(super) fn new() -> State {
        State { items: batch::State::new(), nodes: None, order: Arc::default(), refused: None, asked: 0 }
    }

    /// Applies a fact that only an intent has.
    pub(crate) fn apply(&mut self, core: &mut Core, started: &RunStarted, fact: &IntentFact, ts: Timestamp) -> Outcome {
        if core.has_begun_to_land() {
            return Err("an intent that begins to land changes no more".into());
        }
        match fact {
            IntentFact::PlanMade(planned) => self.plan(planned),
            IntentFact::PlanRefused { reason, problems } => self.refuse(*reason, problems),
            IntentFact::PatchProposed(proposed) => self.propose(core, started, proposed),
            IntentFact::PlanNodePassed { node } => self.pass(*node),
            IntentFact::PlanNodeSkipped { node, .. } => self.skip(*node),
            IntentFact::PlanNodeDecided { node, choice } => self.update(*node, |state| match state.stage {
                Stage::Done(_) if state.spec.kind == contract::documents::plan::NodeKind::Decision => {
                    state.choose(choice)
                }
                _ => Err("only an agent that answered has chosen".into()),
            }),
            IntentFact::PlanNodeExpired { node, choice } => self.expire(core, *node, choice, ts),
            IntentFact::PlanNodeCarried { node, run, choice, summary } => {
                if started.parent.is_none() {
                    return Err("a run without a parent continues nothing".into());
                }
                self.carry(*node, *run, choice.as_deref(), summary)
            }
            IntentFact::PlanHeld { .. } => match core.waits.is_empty() {
                true => Err("nothing is waited for".into()),
                false => Ok(()),
            },
            IntentFact::TurnOutput { step, .. } => self.require_over(*step, core),
        }
    }

    /// The nodes of the plan; none before there is one.
    pub fn nodes(&self) -> &[Arc<NodeState>] {
        self.nodes.as_deref().map_or(&[], Vec::as_slice)
    }

    /// A node by its place in the plan.
    pub fn node(&self, place: u32) -> Result<&NodeState, String> {
        self.nodes().get(place as usize).map(|node| &**node).ok_or_else(|| format!("there is no node {place}"))
    }

    fn update(&mut self, place: u32, change: impl FnOnce(&mut NodeState) -> Outcome) -> Outcome {
        self.node(place)?;
        let nodes = Arc::make_mut(self.nodes.as_mut().expect("BUG: a node was just found"));
        change(Arc::make_mut(&mut nodes[place as usize]))
    }

    fn plan(&mut self, planned: &Planned) -> Outcome {
        let proposed = self.items.items.len() > PATCH as usize;
        if !proposed || self.nodes.is_some() || self.refused.is_some() || planned.plan.len() > PLAN_BYTES_MAX {
            return Err("a plan follows from what was compiled, once".into());
        }
        let words = |problems: Vec<contract::Violation>| problems.iter().map(ToString::to_string).collect::<String>();
        let plan = Plan::read(planned.plan.as_bytes()).map_err(words)?;
        let (specs, order) = plan.spell_out().map_err(words)?;
        let asks = |place: u32| planned.asked.iter().find(|asked| asked.node == place).map(|asked| asked.why.clone());
        let nodes = specs.into_iter().zip(0..).map(|(spec, place)| Arc::new(NodeState::new(spec, asks(place))));
        self.nodes = Some(Arc::new(nodes.collect()));
        self.order = order.into();
        Ok(())
    }

    fn refuse(&mut self, reason: Reason, problems: &[String]) -> Outcome {
        if self.nodes.is_some() || self.refused.is_some() || problems.is_empty() {
            return Err("a plan is refused before it is one, for some reason".into());
        }
        self.refused = Some((reason, problems.join("; ").into()));
        Ok(())
    }

    fn propose(&mut self, core: &mut Core, started: &RunStarted, proposed: &PatchProposed) -> Outcome {
        let (added, items) = (&proposed.added, &mut self.items);
        if added.index != PATCH || items.items.len() != PATCH as usize || self.refused.is_some() {
            return Err("one patch follows from what was compiled".into());
        }
        if !items.items.get(COMPILE as usize).is_some_and(|item| item.succeeded()) {
            return Err("a patch follows from what was compiled".into());
        }
        let expected = Addition::new(&items.contract_digest(started), &added.item, None);
        if added.addition.as_ref() != Some(&expected) {
            return Err("the contract differs from its digest".into());
        }
        if let Some(Earlier::Done { ended, .. }) = &added.earlier {
            if started.parent.is_none() || ended.before != core.line.head.tree {
                return Err("an earlier run's patch lies on what this one starts from".into());
            }
            if let Some(commit) = ended.commit {
                core.line.head = ItemBase { commit, tree: ended.after };
                core.tree = ended.after;
            }
            items.items.push(Arc::new(ItemState::added(added)));
            return Ok(());
        }
        let compiled = items.items.get(COMPILE as usize).and_then(|item| item.turns.last().cloned());
        let step = proposed.step.ok_or("a patch comes from a turn")?;
        let turn = match compiled {
            Some(turn) if turn.step == step => turn,
            // It was compiled by an earlier run.
            None => return Err("a patch that is judged comes from this run's own turn".into()),
            Some(_) => return Err("a patch comes from the turn that compiled it".into()),
        };
        let end = if proposed.tree.is_some() { TurnEnd::Answered } else { TurnEnd::Failed };
        if (end == TurnEnd::Answered) != proposed.reason.is_none() {
            return Err("a patch that makes no tree says why".into());
        }
        let worked = Worked {
            step,
            base: core.line.head.clone(),
            end,
            reason: proposed.reason,
            summary: proposed.message.clone(),
            tree: proposed.tree,
            since: turn.since,
            held: false,
        };
        let turn = Arc::new(StepRecord { end, ..(*turn).clone() });
        items.items.push(Arc::new(ItemState::proposed(added, worked, turn)));
        Ok(())
    }

    /// Whether what a node builds on has come to its end, and what it is carried out for was chosen.
    pub(super) fn is_ready(&self, node: &NodeState) -> bool {
        let over = |place: u32| self.nodes().get(place as usize).is_some_and(|other| other.is_over());
        node.spec.awaits().all(over)
    }

    /// Why a node that is ready is not carried out.
    pub(super) fn skipped_for(&self, node: &NodeState) -> Option<String> {
        let is_skipped = |place: &u32| self.nodes()[*place as usize].stage == Stage::Skipped;
        if !node.spec.deps.is_empty() && node.spec.deps.iter().all(is_skipped) {
            return Some("everything that it builds on was skipped".to_owned());
        }
        node.spec.when.iter().find_map(|(place, choice)| {
            let decision = &self.nodes()[*place as usize];
            let chosen = decision.choice.as_deref().filter(|_| decision.stage != Stage::Skipped);
            (chosen != Some(choice)).then(|| format!("{:?} was not chosen in {}", choice, decision.spec.id))
        })
    }

    fn require_due(&self, place: u32) -> Result<&NodeState, String> {
        let node = self.node(place)?;
        let is_patched = self.items.items.get(PATCH as usize).is_some_and(|item| item.succeeded());
        match node.stage == Stage::Waiting && is_patched && self.failed().is_none() && self.is_ready(node) {
            true => Ok(node),
            false => Err(format!("node {} is not due", node.spec.id)),
        }
    }

    fn pass(&mut self, place: u32) -> Outcome {
        let node = self.require_due(place)?;
        if node.spec.work != Work::Nothing || self.skipped_for(node).is_some() {
            return Err("only a node that does nothing is done without a turn".into());
        }
        self.update(place, |state| {
            state.stage = Stage::Done(None);
            Ok(())
        })
    }

    fn skip(&mut self, place: u32) -> Outcome {
        let node = self.require_due(place)?;
        if self.skipped_for(node).is_none() {
            return Err(format!("node {} is not to be skipped", node.spec.id));
        }
        self.update(place, |state| {
            state.stage = Stage::Skipped;
            Ok(())
        })
    }

    fn carry(&mut self, place: u32, run: Slug, choice: Option<&str>, summary: &str) -> Outcome {
        let node = self.require_due(place)?;
        if self.skipped_for(node).is_some() {
            return Err("what is skipped was done by nobody".into());
        }
        self.update(place, |state| {
            if let Some(choice) = choice {
                state.choose(choice)?;
            }
            state.approved |= choice == Some(APPROVE);
            (state.stage, state.summary) = (Stage::Done(Some(run)), summary.to_owned());
            Ok(())
        })
    }

    /// Whether this question may be asked now.
    pub(crate) fn may_ask(&self, wait: &WaitId) -> bool {
        self.to_ask().any(|(_, node)| node.wait_id() == *wait)
    }

    /// The nodes that a question is due of.
    pub(super) fn to_ask(&self) -> impl Iterator<Item = (u32, &NodeState)> {
        self.in_order().filter(|(place, node)| {
            node.needs_answer()
                && node.wait.is_none()
                && self.require_due(*place).is_ok()
                && self.skipped_for(node).is_none()
        })
    }

    /// The nodes in the order in which they are carried out.
    pub fn in_order(&self) -> impl Iterator<Item = (u32, &NodeState)> {
        self.order.iter().map(|place| (*place, &*self.nodes()[*place as usize]))
    }

    /// A question of a node is open.
    pub(crate) fn note_asked(&mut self, wait: &Wait) -> Outcome {
        let asked = self.to_ask().find(|(_, node)| node.wait_id() == wait.id).map(|(place, _)| place);
        let asked_after = self.asked;
        self.asked += 1;
        self.update(asked.ok_or("no node asks that now")?, |state| {
            (state.wait, state.asked_after) = (Some(Arc::new(wait.clone())), asked_after);
            Ok(())
        })
    }

    /// The questions that are open with their nodes, the oldest first.
    pub fn questions(&self) -> impl Iterator<Item = (&NodeState, &Wait)> {
        let waits = |node: &'_ Arc<NodeState>| node.wait.is_some();
        let mut open: Vec<&NodeState> = self.nodes().iter().filter(|node| waits(node)).map(|node| &**node).collect();
        open.sort_by_key(|node| node.asked_after);
        open.into_iter().filter_map(|node| Some((node, node.wait.as_deref()?)))
    }

    /// The node that waits with this question.
    pub fn asked_by(&self, wait: &WaitId) -> Option<(u32, &NodeState)> {
        self.in_order().find(|(_, node)| node.wait.as_ref().is_some_and(|open| open.id == *wait))
    }

    /// A question of a node is answered.
    pub(crate) fn note_answered(&mut self, said: &Answered) -> Outcome {
        let Some((place, _)) = self.asked_by(&said.wait) else { return Ok(()) };
        self.update(place, |state| state.choose(&said.choice))
    }

    fn expire(&mut self, core: &mut Core, place: u32, choice: &str, ts: Timestamp) -> Outcome {
        let node = self.node(place)?;
        let wait = node.wait.clone().ok_or("nobody was asked that")?;
        let is_over = wait.deadline.is_some_and(|deadline| ts >= deadline);
        if !is_over || node.spec.on_timeout.as_deref() != Some(choice) {
            return Err("what counts without an answer counts once its time is up".into());
        }
        core.waits.remove(&wait.id);
        self.update(place, |state| state.choose(choice))
    }

    /// The next deadline of a question that is open.
    pub(crate) fn deadline(&self) -> Option<(u32, Timestamp)> {
        let open = self.in_order().filter_map(|(place, node)| Some((place, node.wait.as_ref()?.deadline?)));
        open.min_by_key(|(_, deadline)| deadline.unix_ms())
    }

    pub(super) fn open(&mut self, core: &Core, started: &RunStarted, turn: &Arc<OpenTurn>) -> Outcome {
        let step = turn.step;
        let Some(place) = step.node else { return self.items.open(core, started, turn) };
        let node = self.require_due(place)?;
        let is_next = step.index == batch::next_index(core) && (step.iteration, step.attempt) == (1, node.lost + 1);
        if !is_next || step.role != node.role() || turn.base.is_some() || core.has_begun_to_land() {
            return Err(format!("step {} cannot come next", step.dir_name()));
        }
        if !node.has_turn() || node.needs_answer() || self.skipped_for(node).is_some() {
            return Err(format!("node {} has no turn now", node.spec.id));
        }
        self.update(place, |state| {
            state.stage = Stage::Working(step);
            Ok(())
        })
    }

    pub(super) fn commit(
        &mut self,
        started: &RunStarted,
        record: &Arc<StepRecord>,
        done: &StepCommitted,
        held: bool,
    ) -> Outcome {
        let Some(place) = done.step.node else { return self.items.commit(record, done, held) };
        let retries = started.contract.limits.protocol_retries.unwrap_or_default();
        self.update(place, |state| {
            if state.stage != Stage::Working(done.step) {
                return Err(format!("nobody works on node {}", state.spec.id));
            }
            (state.summary, state.dir) = (done.summary.clone(), record.dir.clone());
            state.stage = match done.end {
                TurnEnd::Answered => Stage::Done(None),
                TurnEnd::Interrupted => Stage::Waiting,
                TurnEnd::ProtocolError if state.protocol_errors < retries => {
                    state.protocol_errors += 1;
                    Stage::Waiting
                }
                // What a budget cut off is done again when there is more.
                _ if held => Stage::Waiting,
                TurnEnd::Failed | TurnEnd::ProtocolError | TurnEnd::TimedOut => {
                    Stage::Failed(done.reason.unwrap_or(Reason::AgentFailed))
                }
            };
            state.lost += u32::from(state.stage == Stage::Waiting);
            Ok(())
        })
    }

    pub(super) fn lose(&mut self, record: &Arc<StepRecord>) -> Outcome {
        let Some(place) = record.step.node else { return self.items.lose(record) };
        self.update(place, |state| {
            (state.stage, state.lost) = (Stage::Waiting, state.lost + 1);
            Ok(())
        })
    }

    pub(super) fn require_protocol_error(&self, core: &Core, step: StepRef) -> Outcome {
        if step.node.is_none() {
            return self.items.require_protocol_error(step);
        }
        let last = core.steps.iter().rev().find(|record| record.step == step);
        match last.is_some_and(|record| record.end == TurnEnd::ProtocolError) {
            true => Ok(()),
            false => Err("no protocol error is expected here".into()),
        }
    }

    fn require_over(&self, step: StepRef, core: &Core) -> Outcome {
        match core.steps.iter().rev().any(|record| record.step == step) {
            true => Ok(()),
            false => Err("what a turn left is known when it is over".into()),
        }
    }

    /// The first node that did not succeed.
    pub fn failed(&self) -> Option<(&NodeState, Reason)> {
        self.in_order().find_map(|(_, node)| match node.stage {
            Stage::Failed(reason) => Some((node, reason)),
            _ => None,
        })
    }

    /// Whether everything that was compiled is carried out.
    pub(super) fn is_judged(&self) -> bool {
        let items = &self.items.items;
        items.len() > PATCH as usize
            && items.iter().all(|item| item.succeeded())
            && self.nodes.is_some()
            && self.nodes().iter().all(|node| node.is_over())
    }

    pub(crate) fn contract_digest(&self, started: &RunStarted) -> Digest {
        self.items.contract_digest(started)
    }
}
