//! Graphs that people and agents build: nodes with an inbox, edges between them, and a line of commits that their changes
//! go to. Inputs wait for a node's next turn, which takes all of them; what a node has made stays its own until it becomes a
//! change, which is an item of the run from then on and goes through the same gates as any other.
//!
//! Here is the state and its part of the law. What is due is in [`due`], what an answer leads to in [`outcome`], what a node
//! may do in [`rights`], and when a run counts as stalled in [`stall`].

pub mod calls;
pub(super) mod due;
pub mod edit;
pub mod fork;
pub mod outcome;
pub mod references;
pub mod rights;
mod stall;

use crate::items::{ItemState, Items, Worked};
use crate::persistent::{Element, PersistentVec};
use crate::state::{Core, OpenTurn, Outcome, StepRecord, Unfinished};
use contract::graph::{
    ChangeProposed, EdgeSet, HandoffSent, ModeChanged, NodeAdded, NodeAnswered, NodeAsked, NodeChanged, NodeMessage,
    NodeWish, PhaseChanged, Stalled,
};
use contract::view::graph::{Edge, GlobalMode, MessageRole, Phase, RunMode};
use contract::{
    Addition, ApprovalId, ApprovalWait, Digest, GraphFact, GraphTerms, ItemBase, ItemEnded, ItemStatus, NodeTerms,
    Reason, Role, RunStarted, StepCommitted, StepRef, Taken, Timestamp, TreeId, TurnEnd,
};
use stall::Repeats;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most nodes of a run, those that are gone included: each is looked at whenever it is asked what is due.
pub const NODES_MAX: usize = 500;

/// Most inputs that wait for one node.
pub const INBOX_MAX: usize = 1000;

/// Where a graph is.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its nodes by their place; those that were removed keep theirs.
    pub nodes: PersistentVec<Arc<NodeState>>,
    /// Its edges by their id.
    pub edges: Arc<BTreeMap<String, Edge>>,
    /// What was proposed, in order: each is an item of the run.
    pub changes: Items,
    /// Which node proposed each of them.
    proposed_by: Arc<Vec<u32>>,
    /// Whether it goes on by itself.
    pub mode: RunMode,
    /// Whether its nodes may change code.
    pub global_mode: GlobalMode,
    /// What it is about to do.
    pub phase: Phase,
    /// Who said that it is done, while that holds.
    pub done: Option<Arc<str>>,
    /// What agents wished for and nobody has answered, by the index of the turn.
    pub wishes: BTreeMap<u32, Arc<Wished>>,
    /// The node that does the same again and again; cleared when the run is resumed.
    pub stalled: Option<u32>,
    /// How many things have happened that whoever leads the graph may want to know.
    news: u64,
    /// Whether documents were brought up to date since something last changed.
    docs_synced: bool,
}

/// Something that an agent wished for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wished {
    /// In which turn.
    pub step: StepRef,
    /// What.
    pub wish: NodeWish,
    /// The approval, once somebody is asked.
    pub asked: Option<ApprovalWait>,
}

impl Wished {
    /// Whether somebody is asked for this approval of it.
    pub fn waits_for(&self, approval: ApprovalId) -> bool {
        self.asked.as_ref().is_some_and(|wait| wait.approval == approval)
    }
}

/// A node and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    /// What it is.
    pub terms: Arc<NodeTerms>,
    /// Whether it was removed.
    pub removed: bool,
    /// Whether somebody has stopped it.
    pub held: bool,
    /// Whether it has said that it is done.
    pub done: bool,
    /// What waits for its next turn, in the order in which it will be told.
    pub inbox: Vec<Arc<Input>>,
    /// The turn that is under way.
    pub turn: Option<Arc<NodeTurn>>,
    /// How many turns of it are on record that came to an end of their own.
    pub turns: u32,
    /// How many attempts at the next one were lost.
    pub lost: u32,
    /// Whether the last turn did not succeed.
    pub failed: bool,
    /// The commit of the run's line that its tree lies on; none before its first turn.
    pub base: Option<ItemBase>,
    /// What it has made so far.
    pub tree: Option<TreeId>,
    /// Its last turn that answered.
    pub last: Option<Arc<StepRecord>>,
    /// Which of its conversations this is.
    pub session: u32,
    /// The change of it that is not judged yet.
    pub proposed: Option<u32>,
    /// A change of it that was refused, while it was not told so.
    pub refused: Option<u32>,
    /// Protocol errors in a row.
    pub protocol_errors: u32,
    /// The directories of its turns, oldest first.
    pub dirs: Arc<Vec<String>>,
    /// What it knows of [`State::news`].
    seen: u64,
    /// How many times in a row it was asked to continue when nothing had happened.
    idle_prompts: u32,
    pub(super) repeats: Repeats,
}

impl Element for Arc<NodeState> {
    type Summary = ();

    fn summary(&self) {}
}

/// Something that waits for a node's next turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Somebody told it something.
    Message {
        /// What.
        message: NodeMessage,
        /// When.
        at: Timestamp,
    },
    /// Another node sent it something.
    Handoff {
        /// What.
        sent: HandoffSent,
        /// The place of whoever sent it.
        from: u32,
    },
}

impl Input {
    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Input::Message { message, .. } => &message.id,
            Input::Handoff { sent, .. } => &sent.envelope.id,
        }
    }

    /// Whether the node gets a turn for it.
    pub fn starts(&self) -> bool {
        match self {
            Input::Message { message, .. } => message.starts,
            Input::Handoff { sent, .. } => !sent.report,
        }
    }

    fn interrupts(&self) -> bool {
        matches!(self, Input::Message { message, .. } if message.interrupt)
    }
}

/// A turn of a node that is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTurn {
    /// Its place in the run.
    pub step: StepRef,
    /// The commit that it starts from.
    pub base: ItemBase,
    /// The tree that it finds.
    pub tree: TreeId,
    /// What it is told.
    pub inputs: Vec<Arc<Input>>,
    /// Whether somebody has interrupted it.
    pub interrupted: bool,
}

impl NodeTurn {
    /// Whether a person is why it was taken.
    pub fn is_asked_by_person(&self) -> bool {
        self.inputs.iter().any(|input| match &**input {
            Input::Message { message, .. } => message.starts && message.role == MessageRole::User,
            Input::Handoff { .. } => false,
        })
    }

    /// The places of the nodes whose work is why it was taken.
    pub fn causes(&self) -> impl Iterator<Item = (u32, &HandoffSent)> {
        self.inputs.iter().filter_map(|input| match &**input {
            Input::Handoff { sent, from } if !sent.report => Some((*from, sent)),
            _ => None,
        })
    }
}

impl NodeState {
    fn new(terms: NodeTerms, seen: u64) -> NodeState {
        NodeState {
            terms: Arc::new(terms),
            removed: false,
            held: false,
            done: false,
            inbox: Vec::new(),
            turn: None,
            turns: 0,
            lost: 0,
            failed: false,
            base: None,
            tree: None,
            last: None,
            session: 0,
            proposed: None,
            refused: None,
            protocol_errors: 0,
            dirs: Arc::default(),
            seen,
            idle_prompts: 0,
            repeats: Repeats::default(),
        }
    }

    /// Whether it leads the graph.
    pub fn leads(&self) -> bool {
        self.terms.role_template.is_orchestrator()
    }

    /// Whether it has made something that is not on the run's line. What a turn left that was cut off counts once the node
    /// has answered.
    pub fn is_dirty(&self) -> bool {
        !self.removed
            && self.last.is_some()
            && self.base.as_ref().zip(self.tree).is_some_and(|(base, tree)| base.tree != tree)
    }

    fn receive(&mut self, input: Input) -> Outcome {
        if self.inbox.len() >= INBOX_MAX {
            return Err(format!("{INBOX_MAX} inputs wait for node {} already", self.terms.label));
        }
        let place = match input.interrupts() {
            true => self.inbox.iter().position(|other| !other.interrupts()).unwrap_or(self.inbox.len()),
            false => self.inbox.len(),
        };
        self.inbox.insert(place, Arc::new(input));
        Ok(())
    }

    /// Puts back what a turn had taken that came to nothing.
    fn give_back(&mut self, turn: &NodeTurn) {
        self.inbox.splice(0..0, turn.inputs.iter().cloned());
    }

    fn keep_unfinished(&mut self, unfinished: Option<&Unfinished>, turn: &NodeTurn) {
        if let Some(made) = unfinished {
            (self.base, self.tree) = (Some(turn.base.clone()), Some(made.tree));
        }
    }
}

/// The law: how facts change the state of a graph.
impl State {
    pub(super) fn new(terms: Option<&GraphTerms>) -> State {
        let (mode, global_mode) =
            terms.map_or((RunMode::Auto, GlobalMode::Implementation), |terms| (terms.mode, terms.global_mode));
        State {
            nodes: PersistentVec::default(),
            edges: Arc::default(),
            changes: Items::default(),
            proposed_by: Arc::default(),
            mode,
            global_mode,
            phase: Phase::Boot,
            done: None,
            wishes: BTreeMap::new(),
            stalled: None,
            news: 0,
            docs_synced: false,
        }
    }

    /// Applies a fact that only a graph has.
    pub(crate) fn apply(&mut self, core: &mut Core, started: &RunStarted, fact: &GraphFact, ts: Timestamp) -> Outcome {
        if core.has_begun_to_land() {
            return Err("a graph that begins to land changes no more".into());
        }
        match fact {
            GraphFact::NodeAdded(added) => self.add_node(started, added),
            GraphFact::NodeChanged(changed) => self.change_node(started, changed),
            GraphFact::NodeHeld { node, held, .. } => self.update(*node, |state| {
                (state.held, state.idle_prompts) = (*held, 0);
                Ok(())
            }),
            GraphFact::NodeReset { node, .. } => self.update(*node, |state| {
                (state.session, state.repeats) = (state.session + 1, Repeats::default());
                Ok(())
            }),
            GraphFact::NodeRemoved { node, .. } => self.remove_node(*node),
            GraphFact::EdgeSet(set) => self.set_edge(set),
            GraphFact::EdgeRemoved { edge, .. } => match Arc::make_mut(&mut self.edges).remove(edge) {
                Some(_) => Ok(()),
                None => Err(format!("there is no edge {edge}")),
            },
            GraphFact::MessageSent(message) => self.send(message, ts),
            GraphFact::HandoffSent(sent) => self.hand_over(sent),
            GraphFact::NodeWished { step, wish } => self.wish(*step, wish),
            GraphFact::NodeAsked(asked) => self.ask(core, asked),
            GraphFact::NodeAnswered(answered) => self.answer(answered),
            GraphFact::ModeChanged(changed) => self.change_mode(changed),
            GraphFact::PhaseChanged(changed) => self.change_phase(changed),
            GraphFact::DoneMarked { node, by } => self.mark_done(*node, by),
            GraphFact::ChangeProposed(proposed) => self.propose(started, proposed),
            GraphFact::RunStalled(stalled) => self.stall(stalled),
        }
    }

    /// A node that is there.
    pub fn node(&self, place: u32) -> Result<&NodeState, String> {
        let found = self.nodes.get(place as usize).filter(|state| !state.removed);
        found.map(|state| &**state).ok_or_else(|| format!("there is no node {place}"))
    }

    /// The nodes that are there, with their places.
    pub fn present(&self) -> impl Iterator<Item = (u32, &NodeState)> {
        (0..).zip(self.nodes.iter()).filter(|(_, state)| !state.removed).map(|(place, state)| (place, &**state))
    }

    /// The place of the node with this id.
    pub fn place_of(&self, id: &str) -> Option<u32> {
        self.present().find(|(_, state)| state.terms.id == id).map(|(place, _)| place)
    }

    /// Who leads the graph: the first node with that role.
    pub fn leader(&self) -> Option<(u32, &NodeState)> {
        self.present().find(|(_, state)| state.leads())
    }

    /// The approval that a node waits for, if it does.
    pub fn waits_for(&self, place: u32) -> Option<&Arc<Wished>> {
        self.wishes.values().find(|wished| wished.step.node == Some(place))
    }

    /// When the first question of a node lapses.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.wishes.values().filter_map(|wished| Some(wished.asked.as_ref()?.expires_at)).min()
    }

    fn update(&mut self, place: u32, change: impl FnOnce(&mut NodeState) -> Outcome) -> Outcome {
        self.node(place)?;
        self.nodes.update(place as usize, |state| change(Arc::make_mut(state)))
    }

    /// The same of one that may have been removed while it was at work.
    fn update_any(&mut self, place: u32, change: impl FnOnce(&mut NodeState) -> Outcome) -> Outcome {
        if place as usize >= self.nodes.len() {
            return Err(format!("there is no node {place}"));
        }
        self.nodes.update(place as usize, |state| change(Arc::make_mut(state)))
    }

    fn add_node(&mut self, started: &RunStarted, added: &NodeAdded) -> Outcome {
        if added.node as usize != self.nodes.len() || self.nodes.len() >= NODES_MAX {
            return Err(format!("nodes come one after another, and at most {NODES_MAX}"));
        }
        if self.nodes.iter().any(|other| other.terms.id == added.terms.id) {
            return Err(format!("there is a node {} already", added.terms.id));
        }
        require_worker(started, &added.terms)?;
        self.news += 1;
        self.nodes.push(Arc::new(NodeState::new(added.terms.clone(), self.news)));
        Ok(())
    }

    fn change_node(&mut self, started: &RunStarted, changed: &NodeChanged) -> Outcome {
        require_worker(started, &changed.new)?;
        if changed.old.id != changed.new.id || *self.node(changed.node)?.terms != changed.old {
            return Err("this is not what the node was".into());
        }
        self.update(changed.node, |state| {
            // Another agent knows nothing of what was said to the one before.
            if (&changed.old.worker, &changed.old.model) != (&changed.new.worker, &changed.new.model) {
                state.session += 1;
            }
            state.terms = Arc::new(changed.new.clone());
            Ok(())
        })
    }

    fn remove_node(&mut self, place: u32) -> Outcome {
        self.update(place, |state| {
            (state.removed, state.inbox) = (true, Vec::new());
            Ok(())
        })?;
        let id = self.nodes[place as usize].terms.id.clone();
        Arc::make_mut(&mut self.edges).retain(|_, edge| edge.from != id && edge.to != id);
        self.wishes.retain(|_, wished| wished.step.node != Some(place));
        self.news += 1;
        Ok(())
    }

    fn set_edge(&mut self, set: &EdgeSet) -> Outcome {
        let edge = &set.edge;
        if self.edges.get(&edge.id) != set.old.as_ref() {
            return Err("this is not what the edge was".into());
        }
        if edge.from == edge.to || self.place_of(&edge.from).is_none() || self.place_of(&edge.to).is_none() {
            return Err("an edge connects two nodes that are there".into());
        }
        Arc::make_mut(&mut self.edges).insert(edge.id.clone(), edge.clone());
        Ok(())
    }

    fn send(&mut self, message: &NodeMessage, at: Timestamp) -> Outcome {
        let is_new_work = message.starts && message.role == MessageRole::User;
        self.update(message.node, |state| {
            if message.interrupt
                && let Some(turn) = &mut state.turn
            {
                Arc::make_mut(turn).interrupted = true;
            }
            if message.change.is_some() && state.refused == message.change {
                state.refused = None;
            }
            state.idle_prompts = if message.starts { 0 } else { state.idle_prompts };
            state.receive(Input::Message { message: message.clone(), at })
        })?;
        if is_new_work {
            self.done = None;
        }
        Ok(())
    }

    fn hand_over(&mut self, sent: &HandoffSent) -> Outcome {
        let envelope = &sent.envelope;
        let from = self.place_of(&envelope.from_node_id).ok_or("whoever hands something over is a node")?;
        let to = self.place_of(&envelope.to_node_id).ok_or("whoever is handed something is a node")?;
        if self.edge_between(&envelope.from_node_id, &envelope.to_node_id).is_none() {
            return Err("something is handed over along an edge".into());
        }
        self.update(to, |state| state.receive(Input::Handoff { sent: sent.clone(), from }))
    }

    /// The edge along which one node can send something to another.
    pub fn edge_between(&self, from: &str, to: &str) -> Option<&Edge> {
        let forth = |edge: &&Edge| edge.from == from && edge.to == to;
        let back = |edge: &&Edge| edge.bidirectional && edge.from == to && edge.to == from;
        self.edges.values().find(forth).or_else(|| self.edges.values().find(back))
    }

    fn wish(&mut self, step: StepRef, wish: &NodeWish) -> Outcome {
        self.node(step.node.ok_or("a node wishes for something")?)?;
        if self.wishes.contains_key(&step.index) {
            return Err("a turn wishes for one thing".into());
        }
        self.wishes.insert(step.index, Arc::new(Wished { step, wish: wish.clone(), asked: None }));
        Ok(())
    }

    fn ask(&mut self, core: &mut Core, asked: &NodeAsked) -> Outcome {
        let wished = self.wishes.get_mut(&asked.step.index).ok_or("nobody wished for that")?;
        Arc::make_mut(wished).asked = Some(asked.wait.clone());
        core.asked.insert(asked.wait.approval);
        Ok(())
    }

    fn answer(&mut self, answered: &NodeAnswered) -> Outcome {
        let index = self.wishes.values().find(|wished| wished.waits_for(answered.approval));
        let index = index.map(|wished| wished.step.index);
        self.wishes.remove(&index.ok_or("nobody was asked that")?);
        Ok(())
    }

    fn change_mode(&mut self, changed: &ModeChanged) -> Outcome {
        if changed.old != (self.mode, self.global_mode) {
            return Err("this is not what the modes were".into());
        }
        (self.mode, self.global_mode) = changed.new;
        Ok(())
    }

    /// Phases follow each other; new work leads back to the second one.
    fn change_phase(&mut self, changed: &PhaseChanged) -> Outcome {
        use Phase::{Boot, DocsSync, Done, Execute, Verify};
        let follows = match changed.old {
            Boot => matches!(changed.new, Execute | Verify),
            Execute => changed.new == Verify,
            Verify => matches!(changed.new, Execute | DocsSync | Done),
            DocsSync => matches!(changed.new, Execute | Verify | Done),
            Done => false,
        };
        if changed.old != self.phase || !follows {
            return Err(format!("{:?} does not follow {:?}", changed.new, self.phase));
        }
        if matches!(changed.new, DocsSync | Done) && !self.is_settled() {
            return Err("something is not judged yet, or was refused".into());
        }
        self.phase = changed.new;
        self.docs_synced |= changed.new == DocsSync;
        Ok(())
    }

    fn mark_done(&mut self, node: Option<u32>, by: &str) -> Outcome {
        let of_run = match node {
            None => true,
            Some(place) => {
                self.update(place, |state| {
                    state.done = true;
                    Ok(())
                })?;
                self.node(place)?.leads()
            }
        };
        self.done = if of_run { Some(by.into()) } else { self.done.take() };
        Ok(())
    }

    fn propose(&mut self, started: &RunStarted, proposed: &ChangeProposed) -> Outcome {
        let node = self.node(proposed.node)?;
        if proposed.added.index as usize != self.changes.len() || node.proposed.is_some() || node.turn.is_some() {
            return Err("a node proposes one change after another, between its turns".into());
        }
        let made = node.base.as_ref() == Some(&proposed.base) && node.tree == Some(proposed.tree) && node.is_dirty();
        let last = node.last.as_ref().filter(|last| made && last.step == proposed.step);
        let last = last.ok_or("a change is what a node has made in its turns")?;
        let expected = Addition::new(&self.contract_digest(started), &proposed.added.item, None);
        if proposed.added.addition.as_ref() != Some(&expected) || proposed.added.earlier.is_some() {
            return Err("the contract differs from its digest".into());
        }
        let worked = Worked {
            step: proposed.step,
            base: proposed.base.clone(),
            end: TurnEnd::Answered,
            reason: None,
            summary: String::new(),
            tree: Some(proposed.tree),
            since: last.since,
            held: false,
        };
        self.changes.push(Arc::new(ItemState::proposed(&proposed.added, worked, last.clone())));
        Arc::make_mut(&mut self.proposed_by).push(proposed.node);
        self.update(proposed.node, |state| {
            state.proposed = Some(proposed.added.index);
            Ok(())
        })
    }

    fn stall(&mut self, stalled: &Stalled) -> Outcome {
        self.node(stalled.node)?;
        self.stalled = Some(stalled.node);
        Ok(())
    }

    /// Whoever has it continue begins to count anew.
    pub(crate) fn resume(&mut self) {
        self.stalled = None;
        for place in 0..self.nodes.len() {
            self.nodes.update(place, |state| {
                let state = Arc::make_mut(state);
                (state.repeats, state.idle_prompts) = (Repeats::default(), 0);
            });
        }
    }

    /// The digest of the contract with every change that was proposed.
    pub(crate) fn contract_digest(&self, started: &RunStarted) -> Digest {
        let last = self.changes.last().and_then(|state| state.addition.as_deref());
        last.map_or(started.contract_digest, |addition| addition.contract)
    }

    pub(super) fn open(&mut self, core: &Core, turn: &Arc<OpenTurn>, taken: Option<&Taken>) -> Outcome {
        let step = turn.step;
        let place = step.node.ok_or("a turn of a graph is that of a node")?;
        let (taken, base) = taken.zip(turn.base.as_ref()).ok_or("a node is told something, on some commit")?;
        let node = self.node(place)?;
        let is_next =
            step.index == next_index(core) && (step.iteration, step.attempt) == (node.turns + 1, node.lost + 1);
        if !is_next || step.role != Role::Node || core.has_begun_to_land() {
            return Err(format!("step {} cannot come next", step.dir_name()));
        }
        if node.turn.is_some() || node.proposed.is_some() || node.held {
            return Err(format!("node {} has no turn now", node.terms.label));
        }
        if *base != core.line.head && Some(base) != node.base.as_ref() {
            return Err("a node starts from the run's line".into());
        }
        let ids: Vec<&str> = node.inbox.iter().map(|input| input.id()).collect();
        if ids != taken.inputs {
            return Err("a turn takes what waits for its node, and all of it".into());
        }
        let news = self.news;
        self.update(place, |state| {
            let inputs = std::mem::take(&mut state.inbox);
            let starts = inputs.iter().any(|input| input.starts());
            state.idle_prompts = if starts || state.seen < news { 0 } else { state.idle_prompts + 1 };
            state.seen = news;
            let (base, tree) = (base.clone(), taken.tree);
            state.turn = Some(Arc::new(NodeTurn { step, base, tree, inputs, interrupted: false }));
            Ok(())
        })
    }

    pub(super) fn commit(&mut self, started: &RunStarted, record: &Arc<StepRecord>, done: &StepCommitted) -> Outcome {
        let place = done.step.node.ok_or("a turn of a graph is that of a node")?;
        let writes = self.nodes.get(place as usize).is_some_and(|node| {
            let docs_root = started.contract.graph.as_ref().map(|graph| &graph.docs_root);
            rights::may_write(&node.terms, self.global_mode, docs_root)
        });
        let retries = started.contract.limits.protocol_retries.unwrap_or_default();
        self.update_any(place, |state| {
            let turn = state.turn.take().filter(|turn| turn.step == done.step).ok_or("the node is not at work")?;
            Arc::make_mut(&mut state.dirs).extend(record.dir.clone());
            state.lost = 0;
            match done.end {
                TurnEnd::Answered => {
                    (state.turns, state.failed, state.protocol_errors) = (state.turns + 1, false, 0);
                    state.last = Some(record.clone());
                    if writes {
                        (state.base, state.tree) = (Some(turn.base.clone()), done.tree);
                    }
                    state.repeats.note_turn(&done.summary, done.delta.as_ref());
                }
                TurnEnd::Interrupted => {
                    state.turns += u32::from(turn.interrupted);
                    state.lost = u32::from(!turn.interrupted);
                    state.keep_unfinished(record.unfinished.as_ref().filter(|_| writes), &turn);
                    if !turn.interrupted {
                        state.give_back(&turn);
                    }
                }
                TurnEnd::ProtocolError if state.protocol_errors < retries => {
                    (state.lost, state.protocol_errors) = (1, state.protocol_errors + 1);
                    state.give_back(&turn);
                }
                TurnEnd::Failed | TurnEnd::ProtocolError | TurnEnd::TimedOut => {
                    (state.turns, state.failed, state.protocol_errors) = (state.turns + 1, true, 0);
                    state.repeats.note_turn(&done.summary, None);
                }
            }
            Ok(())
        })?;
        if done.end != TurnEnd::Interrupted {
            self.note_news_of(place);
        }
        self.docs_synced &= done.delta.as_ref().is_none_or(|delta| delta.count == 0) || self.phase == Phase::DocsSync;
        Ok(())
    }

    /// Whoever leads wants to know what others did, and knows what it did itself.
    fn note_news_of(&mut self, place: u32) {
        self.news += 1;
        let leads = self.leader().is_some_and(|(leader, _)| leader == place);
        if leads {
            let news = self.news;
            self.nodes.update(place as usize, |state| {
                let state = Arc::make_mut(state);
                state.seen = if state.seen + 1 == news { news } else { state.seen };
            });
        }
    }

    /// A turn of which no answer is known: its inputs are as if it had never been.
    pub(super) fn lose(&mut self, record: &Arc<StepRecord>) -> Outcome {
        let place = record.step.node.ok_or("a turn of a graph is that of a node")?;
        self.update_any(place, |state| {
            let turn = state.turn.take().filter(|turn| turn.step == record.step).ok_or("the node is not at work")?;
            state.lost += 1;
            state.keep_unfinished(record.unfinished.as_ref(), &turn);
            if !state.removed {
                state.give_back(&turn);
            }
            Ok(())
        })
    }

    pub(super) fn require_protocol_error(&self, core: &Core, step: StepRef) -> Outcome {
        let last = core.steps.iter().rev().find(|record| record.step == step);
        match last.is_some_and(|record| record.end == TurnEnd::ProtocolError) {
            true => Ok(()),
            false => Err("no protocol error is expected here".into()),
        }
    }

    /// Whether a node is in a turn, even one that was removed meanwhile.
    pub(super) fn require_at_work(&self, place: u32) -> Outcome {
        match self.nodes.get(place as usize).is_some_and(|node| node.turn.is_some()) {
            true => Ok(()),
            false => Err(format!("node {place} is not at work")),
        }
    }

    pub(crate) fn require_judged(&self, place: u32) -> Outcome {
        match self.changes.get(place as usize).is_some_and(|change| change.worked().is_some()) {
            true => Ok(()),
            false => Err(format!("change {place} is not being judged")),
        }
    }

    pub(crate) fn end_change(&mut self, core: &mut Core, ended: &ItemEnded) -> Outcome {
        let change =
            self.changes.get(ended.item as usize).ok_or_else(|| format!("there is no change {}", ended.item))?;
        change.require_end(ended)?;
        if let Some(commit) = &ended.commit {
            if ended.before != core.line.head.tree {
                return Err("changes land one after another, each on the one before".into());
            }
            core.line.head = ItemBase { commit: *commit, tree: ended.after };
            core.tree = ended.after;
            core.line.receipt = Some(ended.receipt.receipt_hash);
        } else if ended.after != ended.before {
            return Err("a change that lands is a commit".into());
        }
        self.changes.update(ended.item as usize, |state| Arc::make_mut(state).end(ended));
        let node = self.proposed_by[ended.item as usize];
        let success = ended.status == ItemStatus::Success;
        let head = core.line.head.clone();
        self.update_any(node, |state| {
            state.proposed = None;
            if success {
                (state.tree, state.base) = (Some(head.tree), Some(head));
                state.repeats.note_passed();
            } else {
                state.refused = Some(ended.item);
                state.repeats.note_refused(&ended.message);
            }
            Ok(())
        })?;
        self.news += 1;
        if !success {
            self.done = None;
        }
        Ok(())
    }

    pub(super) fn has_ended(&self, change: u32) -> bool {
        let place = change.checked_sub(1).map(|place| place as usize);
        place.and_then(|place| self.changes.get(place)).is_some_and(|state| state.ended_here().is_some())
    }

    /// The change that comes next on the run's line.
    pub(super) fn lands_next(&self) -> Option<u32> {
        self.changes.find_from(0, |standing| standing.level().is_some()).map(|place| place as u32)
    }

    pub(crate) fn judged_next(&self) -> Option<&Worked> {
        self.changes[self.lands_next()? as usize].worked()
    }

    /// Whether everything that was made is judged and nothing of it was refused.
    pub(super) fn is_settled(&self) -> bool {
        self.lands_next().is_none() && self.present().all(|(_, node)| !node.is_dirty() && node.refused.is_none())
    }

    pub(super) fn is_judged(&self) -> bool {
        self.phase == Phase::Done && self.is_settled()
    }

    /// Whether somebody may have something to do even though nothing is due: a graph is over when it is closed.
    pub(crate) fn is_open(&self) -> bool {
        self.phase != Phase::Done
    }
}

/// The index that the next step gets: turns of nodes are under way side by side, so every one has its own.
pub(super) fn next_index(core: &Core) -> u32 {
    (core.steps.len() + core.open.len()) as u32 + 1
}

/// A node may use the agents that its run's contract names.
fn require_worker(started: &RunStarted, terms: &NodeTerms) -> Outcome {
    match started.contract.workers.contains_key(&terms.worker) {
        true => Ok(()),
        false => Err(format!("the run has no agent {}", terms.worker)),
    }
}

/// What a run that was held by a stall says.
pub fn stall_message(state: &State) -> Option<(Reason, String)> {
    let node = state.stalled.and_then(|place| state.nodes.get(place as usize))?;
    let label = &node.terms.label;
    Some((
        Reason::Stalled,
        format!("stalled: node {label} does the same again and again; change its prompt, reset it, or resume the run"),
    ))
}
