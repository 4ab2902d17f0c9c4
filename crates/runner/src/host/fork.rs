//! A run that starts where another one was after an event of its log: from the tree that it had then, under the contract that
//! it has. What it had done by then stays done; what it did later is as if it had not happened. It is a run of its own, and
//! lands everything that is not in the base of the first one.

use crate::context::policy::{Rules, same_policies};
use crate::git::id;
use crate::host::continuation;
use crate::host::start::{Origin, Starting};
use crate::record::approval;
use crate::{Error, Result};
use contract::{Base, Contract, Event, Fact, Fork, GraphTerms, RunId, RunStarted, Workflow};
use run::Run;
use store::RunLog;

/// A run as it was after an event of its log.
pub(super) fn as_it_was(run: RunId, events: &[Event], seq: u64) -> Result<Run> {
    let last = events.len() as u64;
    if seq == 0 || seq > last {
        let message = format!("run {} has events 1 to {last}, and no event {seq}", run.slug());
        return Err(Error::usage(message, format!("norma events {} lists them", run.slug())));
    }
    // The items of a contract become part of it together.
    let whole = match events.first().map(|event| &event.fact) {
        Some(Fact::RunStarted(started)) => seq.max(1 + u64::from(started.items)),
        _ => seq,
    };
    let until = usize::try_from(whole.min(last)).unwrap_or(usize::MAX);
    Run::fold(run, &events[..until])
        .map_err(|illegal| store::Error::Damaged { log: run.slug().to_string(), why: illegal.why }.into())
}

impl Starting<'_> {
    /// Starts a run from where another one is. Nothing is left behind if anything is not as it must be.
    pub fn start_fork(&self, parent: &Run, by: &str) -> Result<(Run, RunLog)> {
        let slug = parent.id.slug();
        if let Some(first) = &parent.started.replay_of {
            let why = format!("run {slug} was carried out only to be compared with {first}");
            return Err(Error::declined(why, format!("fork that one: {first}")));
        }
        same_policies(parent, &self.settings.policies)?;
        match parent.started.contract.workflow {
            Workflow::Pdca => self.fork_loop(parent),
            Workflow::Batch => self.fork_work(parent),
            Workflow::Graph => self.fork_graph(parent, by),
            Workflow::Intent => {
                let why = format!("run {slug} carries out an intent, whose plan is not taken apart");
                Err(Error::declined(why, format!("try again what failed: norma intent run --retry {slug}")))
            }
            Workflow::Pipeline => {
                let why = format!("run {slug} is a pipeline, whose contracts are not taken apart");
                Err(Error::declined(why, "start another one: norma pipeline"))
            }
        }
    }

    fn fork_loop(&self, parent: &Run) -> Result<(Run, RunLog)> {
        let contract = Contract { task_id: None, ..parent.started.contract.clone() };
        let agents = contract.agents.iter().map(|(role, agent)| (role.as_str(), agent));
        self.preflight(agents, contract.sandbox, parent.tree())?;
        let id = store::new_run_id();
        let started = self.forked(id, contract, parent)?;
        self.begin(id, started, Vec::new(), None)
    }

    fn fork_work(&self, parent: &Run) -> Result<(Run, RunLog)> {
        let (base, policies) = (made(parent), &self.settings.policies);
        let rules = Rules::new(policies, &self.store.layout, contract::RULES);
        let items = continuation::items(self.objects, &rules, parent, &base)?;
        if continuation::to_do(&items).next().is_none() {
            let why = format!("after event {} of run {} nothing was left to do", parent.seq, parent.id.slug());
            return Err(Error::declined(why, "choose an earlier event, or start another run"));
        }
        let recorded = &parent.started.contract;
        let terms = Contract {
            goal: recorded.goal.clone(),
            again: recorded.again,
            budgets: recorded.budgets.clone(),
            // An approval is for one run and its contract; this one is another.
            approval_for: approval::reasons(self.objects, id(base.tree), continuation::to_do(&items), policies)?,
            ..self.terms(Workflow::Batch)?
        };
        let origin = Origin { parent: Some(parent.id.slug()), fork: Some(point(parent)), tree: Some(base.tree) };
        let base = parent.started.base.clone();
        self.begin_work(base, terms, items, origin, self.submitted_to(parent)?.as_deref())
    }

    fn fork_graph(&self, parent: &Run, by: &str) -> Result<(Run, RunLog)> {
        let Some(state) = parent.graph() else { return Err(Error::declined("it is no graph", "fork another run")) };
        let recorded = &parent.started.contract;
        let graph = recorded.graph.clone();
        let modes = |terms: GraphTerms| GraphTerms { mode: state.mode, global_mode: state.global_mode, ..terms };
        let contract = Contract { graph: graph.map(modes), ..recorded.clone() };
        self.require_whole(parent.tree())?;
        let id = store::new_run_id();
        let started = self.forked(id, contract, parent)?;
        let parts = run::workflow::graph::fork::facts(state, &id, by);
        self.begin_with(id, started, Vec::new(), None, parts)
    }

    /// The first fact of a run that starts from where another one is.
    fn forked(&self, id: RunId, contract: Contract, parent: &Run) -> Result<RunStarted> {
        let started = self.started(id, contract, parent.started.base.clone())?;
        Ok(RunStarted { parent: Some(parent.id.slug()), fork: Some(point(parent)), tree: parent.tree(), ..started })
    }
}

/// What a run of items or a graph has made so far.
fn made(parent: &Run) -> Base {
    let head = &parent.line().head;
    Base { commit: head.commit, tree: head.tree, branch: parent.started.base.branch.clone() }
}

/// Where a run is. What a loop has made is a tree without a commit of its own.
fn point(parent: &Run) -> Fork {
    let commit = parent.line().head.commit;
    Fork { seq: parent.seq, commit: (commit != parent.started.base.commit).then_some(commit) }
}
