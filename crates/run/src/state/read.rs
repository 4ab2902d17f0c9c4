//! What others ask of a run, whichever workflow it has: where a workflow has no such thing, the answer is that there is
//! none.

use super::{Line, OpenTurn, Run, StepRecord};
use crate::items::Items;
use crate::persistent::PersistentVec;
use crate::workflow::{Flow, pdca};
use contract::{
    Addition, AgentConfig, ApprovalId, BudgetExceeded, Digest, Event, Fact, Item, ItemAdded, ItemBase, Landing,
    StepRef, Timestamp, TreeId, Usage, Verdict,
};
use std::sync::{Arc, LazyLock};

/// What a loop is made of.
static NO_ITEMS: LazyLock<Items> = LazyLock::new(Items::default);

impl Run {
    /// What it is made of, where it is made of items.
    pub fn items(&self) -> &Items {
        match &self.flow {
            Flow::Batch(state) => &state.items,
            Flow::Graph(state) => &state.changes,
            Flow::Intent(state) => &state.items.items,
            Flow::Pipeline(state) => &state.items.items,
            Flow::Pdca(_) => &NO_ITEMS,
        }
    }

    fn pdca(&self) -> Option<&pdca::State> {
        match &self.flow {
            Flow::Pdca(state) => Some(state),
            Flow::Batch(_) | Flow::Graph(_) | Flow::Intent(_) | Flow::Pipeline(_) => None,
        }
    }

    /// The digest of its contract with everything that was added to it since it started.
    pub fn contract_digest(&self) -> Digest {
        match &self.flow {
            Flow::Batch(state) => state.contract_digest(&self.started),
            Flow::Graph(state) => state.contract_digest(&self.started),
            Flow::Intent(state) => state.contract_digest(&self.started),
            Flow::Pipeline(state) => state.items.contract_digest(&self.started),
            Flow::Pdca(_) => self.started.contract_digest,
        }
    }

    /// The digest of the contract as it was when this item became part of it: what its receipt is about.
    pub fn contract_digest_at(&self, place: u32) -> Digest {
        let addition = self.items().get(place as usize).and_then(|state| state.addition.as_deref());
        addition.map_or(self.started.contract_digest, |addition| addition.contract)
    }

    /// The agents that carry out its items, by name.
    pub fn workers(&self) -> impl Iterator<Item = (&String, &AgentConfig)> {
        let added = self.batch().into_iter().flat_map(|state| state.agents.iter());
        self.started.contract.workers.iter().chain(added)
    }

    /// The agent that carries out an item.
    pub fn worker_of(&self, item: &Item) -> Option<&AgentConfig> {
        match &self.flow {
            Flow::Batch(state) => state.worker(&self.started, &item.worker),
            Flow::Graph(_) | Flow::Intent(_) | Flow::Pipeline(_) => self.started.contract.workers.get(&item.worker),
            Flow::Pdca(_) => None,
        }
    }

    /// The fact that adds an item to a run that has begun, or why it cannot be added. `agent` is who carries it out; it
    /// goes on record only if the run has no agent of that name.
    pub fn add_item(&self, item: Item, agent: Option<AgentConfig>) -> Result<Fact, String> {
        let agent = agent.filter(|_| self.worker_of(&item).is_none());
        let addition = Some(Addition::new(&self.contract_digest(), &item, agent));
        let added = ItemAdded { index: self.items().len() as u32, item, earlier: None, addition };
        let fact = Fact::ItemAdded(Box::new(added));
        let event = Event { seq: self.seq + 1, ts: Timestamp::default(), fact: fact.clone() };
        self.clone().advance(&event).map_err(|illegal| illegal.why)?;
        Ok(fact)
    }

    /// Round of the loop; 1 where there is no loop.
    pub fn iteration(&self) -> u32 {
        self.pdca().map_or(1, |state| state.iteration)
    }

    /// The last verdict that counts.
    pub fn verdict(&self) -> Option<Verdict> {
        self.pdca()?.verdict
    }

    /// When that verdict was given; dates the commit.
    pub fn verdict_at(&self) -> Option<Timestamp> {
        self.pdca()?.verdict_at
    }

    /// How many changes its loop has opened.
    pub fn changes(&self) -> u32 {
        self.pdca().map_or(0, |state| state.changes)
    }

    /// The change that is being judged and whose intent is on record, with the step that proposed it.
    pub fn open_change(&self) -> Option<(u32, StepRef)> {
        match self.pdca()?.stage {
            pdca::Stage::ChangeOpen { change, step } => Some((change, step)),
            _ => None,
        }
    }

    /// What the next agent of its loop should know.
    pub fn notes(&self) -> &[String] {
        self.pdca().map_or(&[], |state| &state.notes)
    }

    /// The turns that are over, in the order in which they were closed.
    pub fn steps(&self) -> &PersistentVec<Arc<StepRecord>> {
        &self.core.steps
    }

    /// The turns under way.
    pub fn open_turns(&self) -> &[Arc<OpenTurn>] {
        &self.core.open
    }

    /// Its current tree.
    pub fn tree(&self) -> TreeId {
        self.core.tree
    }

    /// What was made so far.
    pub fn line(&self) -> &Line {
        &self.core.line
    }

    /// What its whole change is put on: where it started, or a commit of the user's branch that was in its way.
    pub fn ground(&self) -> &ItemBase {
        &self.core.line.base
    }

    /// Whether that is no longer where it started.
    pub fn has_moved(&self) -> bool {
        self.core.line.base.commit != self.started.base.commit
    }

    /// The SHA-256 of the receipts of the patches that were applied.
    pub fn receipts(&self) -> &[Digest] {
        &self.core.receipts
    }

    /// The move of a ref that is under way.
    pub fn landing(&self) -> Option<&Landing> {
        self.core.landing.as_ref()
    }

    /// The move that landed it.
    pub fn landed(&self) -> Option<&Landing> {
        self.core.landed.as_ref()
    }

    /// Why it did not land by itself.
    pub fn declined(&self) -> Option<&str> {
        self.core.declined.as_deref()
    }

    /// How long its turns took together.
    pub fn active_ms(&self) -> u64 {
        self.core.active_ms
    }

    /// What its models used together.
    pub fn spent(&self) -> &Usage {
        &self.core.spent
    }

    /// Approvals that it has used.
    pub fn approvals(&self) -> &[ApprovalId] {
        &self.core.approvals
    }

    /// The budget that ended it.
    pub fn exceeded(&self) -> Option<&BudgetExceeded> {
        self.core.exceeded.as_ref()
    }

    /// The directories of the turns on record, oldest first.
    pub fn step_dirs(&self) -> Vec<&str> {
        dirs(self.core.steps.iter())
    }

    /// The directories that the answer of a turn may refer to: those of its iteration's turns, of its item's in a batch.
    pub fn iteration_dirs(&self, step: StepRef) -> Vec<&str> {
        if step.node.is_some() {
            return Vec::new();
        }
        match step.item.and_then(|place| self.items().get(place as usize)) {
            Some(state) => dirs(state.turns.iter()),
            None => dirs(self.core.steps.iter().filter(|record| record.step.iteration == step.iteration)),
        }
    }

    /// What is left of `max_minutes`, if there is one.
    pub fn remaining_ms(&self) -> Option<u64> {
        self.core.remaining_ms()
    }

    /// The first budget of what turns use up that is used up.
    pub fn used_up(&self) -> Option<BudgetExceeded> {
        self.core.used_up()
    }

    /// The budget that time has used up, if it has.
    pub fn out_of_time(&self) -> Option<BudgetExceeded> {
        self.core.out_of_time()
    }
}

fn dirs<'r>(records: impl Iterator<Item = &'r Arc<StepRecord>>) -> Vec<&'r str> {
    records.filter_map(|record| record.dir.as_deref()).collect()
}
