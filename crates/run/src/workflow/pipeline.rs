//! A pipeline: a request becomes a contract (PM), the contract its parts (tech lead), each part a change (worker) that is
//! reviewed, tested, fixed by contracts of its own where that fails, and merged. Every one of them is an item, so that turns, gates,
//! receipts, recovery and landing are those of any item; what a role writes becomes an item only as a contract that was checked.
//!
//! Here is the state and its part of the law. What is due is in [`due`], what a role is told in [`told`].

mod conflict;
pub(super) mod due;
pub mod shown;
pub(crate) mod told;

use super::batch;
use crate::items::{ItemStage, ItemState, Worked};
use crate::state::{Core, OpenTurn, Outcome, StepRecord, Unfinished};
use contract::documents::TaskContract;
use contract::pipeline::{Cause, ContractMade, FixAttempt, LineMoved, Stage, WHOLE_ROLE};
use contract::work::TestStatus;
use contract::{
    Fact, ItemAdded, ItemEnded, PipelineFact, PipelineTerms, Reason, Role, RunStarted, StepCommitted, StepRef, TurnEnd,
};
use std::sync::Arc;

/// Where a pipeline is.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Everything that somebody works on.
    pub items: batch::State,
    /// What each of them is to the pipeline, by its place.
    tasks: Arc<Vec<Arc<Task>>>,
    /// The contract that everything is a part of, once there is one.
    root: Option<Arc<TaskContract>>,
    /// The place of what its parts came to, once its own tests are asked for.
    whole: Option<u32>,
    /// What of the user's branch was in its way.
    conflicts: conflict::Conflicts,
}

/// What an item is to its pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The contract that it carries out; none for those who write contracts.
    pub contract: Option<Arc<TaskContract>>,
    /// Where it is.
    pub stage: Stage,
    /// The place of the task that it fixes, or its own.
    pub original: u32,
    /// Why it is a fix, and which one.
    pub fix: Option<(Cause, u32)>,
    /// The place of the item that it fixes.
    pub fixes: Option<u32>,
    /// The conflict with the user's branch that it fixes.
    pub conflict: Option<Arc<LineMoved>>,
    /// Whether what follows from its end is on record.
    followed: bool,
    /// Why it is to be fixed.
    triggered: Option<Cause>,
    /// The fix that follows it.
    pub fixed_by: Option<u32>,
    /// What its tests came to.
    pub tests: Option<TestStatus>,
}

impl Task {
    fn new(stage: Stage, place: u32, contract: Option<Arc<TaskContract>>) -> Task {
        Task {
            contract,
            stage,
            original: place,
            fix: None,
            fixes: None,
            conflict: None,
            followed: false,
            triggered: None,
            fixed_by: None,
            tests: None,
        }
    }
}

/// The role in which the agent of an item works, and where its task begins.
fn seat(item: &contract::Item) -> (Role, Stage) {
    match item.role.as_str() {
        "PM" => (Role::Pm, Stage::S0),
        "TECH_LEAD" => (Role::TechLead, Stage::S1),
        WHOLE_ROLE => (Role::Worker, Stage::S4),
        _ => (Role::Worker, Stage::S2),
    }
}

/// Why a change that ended like this can be fixed; none where it cannot.
pub fn cause_of(ended: &ItemEnded) -> Option<Cause> {
    match ended.reason? {
        Reason::ReviewFailed => Some(Cause::Review),
        Reason::TestsFailed => Some(Cause::Tests),
        Reason::MergeConflict => Some(Cause::Conflict),
        _ => None,
    }
}

/// The law: how facts change the state of a pipeline.
impl State {
    pub(super) fn new() -> State {
        State {
            items: batch::State::new(),
            tasks: Arc::default(),
            root: None,
            whole: None,
            conflicts: conflict::Conflicts::default(),
        }
    }

    /// Takes in an item that the run starts with.
    pub(crate) fn add(&mut self, core: &Core, started: &RunStarted, added: &ItemAdded) -> Outcome {
        if added.addition.is_some() {
            return Err("what is added to a pipeline is a contract that was checked".into());
        }
        let terms = terms(started)?;
        self.items.add(core, started, added)?;
        if self.root.is_none() {
            self.root = terms.root.as_deref().cloned().map(Arc::new);
        }
        let parts = terms.parts.iter().chain(terms.root.as_deref());
        let own = parts.into_iter().find(|contract| contract.task_id == added.item.id);
        self.take_seat(added, own.cloned().map(Arc::new))
    }

    /// Says what the last item is to the pipeline.
    fn take_seat(&mut self, added: &ItemAdded, contract: Option<Arc<TaskContract>>) -> Outcome {
        let (role, stage) = seat(&added.item);
        if (role == Role::Worker) != contract.is_some() || role != Role::Worker && !added.item.read_only {
            return Err(format!("item {} has no place in the pipeline", added.item.id));
        }
        self.items.items.update(added.index as usize, |state| Arc::make_mut(state).role = role);
        Arc::make_mut(&mut self.tasks).push(Arc::new(Task::new(stage, added.index, contract)));
        Ok(())
    }

    pub(crate) fn apply(&mut self, core: &mut Core, started: &RunStarted, fact: &PipelineFact) -> Outcome {
        if core.has_begun_to_land() {
            return Err("a pipeline that begins to land changes no more".into());
        }
        match fact {
            PipelineFact::StateTransition { item, task_id, from, to } => self.move_on(*item, task_id, *from, *to),
            PipelineFact::ContractMade(made) => self.take_contract(started, made),
            PipelineFact::TestResult { item, status, .. } => self.update(*item, |task, item| {
                match item.ended().is_some() && task.tests.is_none() && task.contract.is_some() {
                    true => task.tests = Some(*status),
                    false => return Err("tests are told of once their task has ended".into()),
                }
                Ok(())
            }),
            PipelineFact::FixLoopTriggered { item, cause, .. } => {
                let in_the_way = self.conflict_of(*cause, *item).is_some();
                self.update(*item, |task, item| {
                    let failed = item.ended().and_then(cause_of) == Some(*cause) && task.stage == Stage::S5;
                    match (failed || in_the_way) && !task.followed && task.triggered.is_none() {
                        true => task.triggered = Some(*cause),
                        false => return Err("only a task that can be fixed is fixed, once".into()),
                    }
                    Ok(())
                })
            }
            PipelineFact::FixLoopAttempt(fix) => self.fix(started, fix),
            PipelineFact::FixLoopExhausted { item, .. } => self.update(*item, |task, item| {
                let in_the_way = item.succeeded() && task.triggered == Some(Cause::Conflict);
                match (in_the_way || item.ended().and_then(cause_of).is_some()) && !task.followed {
                    true => task.followed = true,
                    false => return Err("only a task that can be fixed is given up".into()),
                }
                Ok(())
            }),
            PipelineFact::WholeAsked(added) => self.ask_for_whole(core, started, added),
            PipelineFact::LineMoved(moved) => self.move_line(core, started, moved),
            PipelineFact::LineRestored { item, head, why } => self.restore_line(core, *item, head, why),
            PipelineFact::ReviewAsked { .. }
            | PipelineFact::ReviewerGateResult { .. }
            | PipelineFact::ReviewResult(_) => self.items.review(fact),
        }
    }

    /// A task by its place.
    pub fn task(&self, place: u32) -> Result<&Task, String> {
        self.tasks.get(place as usize).map(|task| &**task).ok_or_else(|| format!("there is no task {place}"))
    }

    /// The tasks with their items, by place.
    pub fn tasks(&self) -> impl Iterator<Item = (u32, &Task, &ItemState)> {
        let tasks = self.tasks.iter().zip(self.items.items.iter());
        (0..).zip(tasks).map(|(place, (task, item))| (place, &**task, &**item))
    }

    /// The contract that everything is a part of.
    pub fn root(&self) -> Option<&Arc<TaskContract>> {
        self.root.as_ref()
    }

    fn update(&mut self, place: u32, change: impl FnOnce(&mut Task, &ItemState) -> Outcome) -> Outcome {
        self.task(place)?;
        let item = &self.items.items[place as usize];
        change(Arc::make_mut(&mut Arc::make_mut(&mut self.tasks)[place as usize]), item)
    }

    /// A task goes one way, and jumps over nothing.
    fn move_on(&mut self, place: u32, task_id: &str, from: Stage, to: Stage) -> Outcome {
        self.update(place, |task, item| {
            let ended = item.ended();
            let fits = match to {
                Stage::S1 | Stage::S2 => item.succeeded(),
                Stage::S6 => item.succeeded(),
                Stage::S5 => ended.and_then(cause_of).is_some(),
                Stage::S0 | Stage::S3 | Stage::S4 => true,
            };
            if task.stage != from || !from.leads_to(to) || !fits || item.item.id != task_id {
                return Err(format!("{task_id} does not go from {from} to {to} here"));
            }
            task.stage = to;
            // Those who write contracts have written all of theirs.
            task.followed |= matches!(to, Stage::S1 | Stage::S2);
            Ok(())
        })
    }

    /// A contract that a role wrote becomes part of the run.
    fn take_contract(&mut self, started: &RunStarted, made: &ContractMade) -> Outcome {
        let contract = read(&made.document)?;
        let terms = terms(started)?;
        let writer = self.writer().ok_or("a contract comes from a role that was asked for one")?;
        let of_pm = self.items.items[writer as usize].role == Role::Pm;
        let to_split = of_pm && terms.tech_lead.is_some();
        let (role, _) = seat(&made.added.item);
        let fits = match to_split {
            true => role == Role::TechLead,
            false => role == Role::Worker && made.added.item.id == contract.task_id,
        };
        if !fits || of_pm && self.root.is_some() {
            return Err("this is not what follows from what was written".into());
        }
        self.items.add_later(started, &made.added)?;
        let contract = Arc::new(contract);
        self.take_seat(&made.added, (!to_split).then(|| contract.clone()))?;
        if of_pm {
            self.root = Some(contract);
            self.update(writer, |task, _| {
                task.followed = true;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Who has written contracts that are not part of the run yet, or of which more may come.
    fn writer(&self) -> Option<u32> {
        let wrote =
            |(_, task, item): &(u32, &Task, &ItemState)| task.contract.is_none() && item.succeeded() && !task.followed;
        self.tasks().filter(wrote).map(|(place, ..)| place).last()
    }

    fn fix(&mut self, started: &RunStarted, fix: &FixAttempt) -> Outcome {
        let contract = read(&fix.contract.document)?;
        let failed = self.task(fix.of)?.clone();
        let original = &self.items.items[failed.original as usize].item.id;
        let attempts = failed.fix.map_or(0, |(_, attempt)| attempt);
        let conflict = self.conflict_of(fix.cause, fix.of);
        let fits = failed.triggered == Some(fix.cause)
            && !failed.followed
            && fix.attempt == attempts + 1
            && fix.parent_task_id == *original
            && contract.parent_task_id.as_ref() == Some(original)
            && fix.contract.added.item.id == contract.task_id
            && conflict.as_ref().is_none_or(|moved| moved.head == fix.base);
        if !fits {
            return Err("this is not the next fix of its task".into());
        }
        let added = &fix.contract.added;
        self.items.add_later(started, added)?;
        self.take_seat(added, Some(Arc::new(contract)))?;
        self.items.items.update(added.index as usize, |state| {
            let state = Arc::make_mut(state);
            state.start = Some(Arc::new(fix.base.clone()));
            state.kept = Some(Unfinished { base: fix.base.tree, tree: fix.tree });
        });
        self.update(fix.of, |task, _| {
            (task.followed, task.fixed_by) = (true, Some(added.index));
            Ok(())
        })?;
        self.update(added.index, |task, _| {
            (task.original, task.fix, task.fixes) = (failed.original, Some((fix.cause, fix.attempt)), Some(fix.of));
            task.conflict = conflict;
            Ok(())
        })
    }

    /// What the parts came to is judged by the tests of the contract that they are parts of. Nobody works on it: it is what the last
    /// turns left.
    fn ask_for_whole(&mut self, core: &Core, started: &RunStarted, added: &ItemAdded) -> Outcome {
        let root = self.root.clone().filter(|_| self.lacks_whole());
        let root = root.filter(|root| added.item.id == root.task_id && added.item.role == WHOLE_ROLE);
        let root = root.ok_or("the whole is tested once all of its parts are there")?;
        let turn = self.last_turn().ok_or("nobody has worked on any part")?;
        self.items.add_later(started, added)?;
        self.take_seat(added, Some(root))?;
        let head = core.line.head.clone();
        let worked = Worked {
            step: turn.step,
            tree: Some(head.tree),
            base: head,
            end: TurnEnd::Answered,
            reason: None,
            summary: String::new(),
            since: turn.since,
            held: false,
        };
        self.items.items.update(added.index as usize, |state| {
            let state = Arc::make_mut(state);
            (state.stage, state.turns) = (ItemStage::Worked(worked), vec![turn]);
        });
        self.whole = Some(added.index);
        Ok(())
    }

    fn last_turn(&self) -> Option<Arc<StepRecord>> {
        let workers = self.tasks().filter(|(_, task, _)| task.contract.is_some());
        workers.filter_map(|(.., item)| item.turns.last().cloned()).last()
    }

    /// Whether every part has come to a good end, and nobody has tested them as a whole: one that nobody split is its own whole.
    pub fn lacks_whole(&self) -> bool {
        let Some(root) = &self.root else { return false };
        let has_tests = root.acceptance_tests.iter().any(|test| test.must_pass);
        let parts = self.tasks().filter(|(_, task, _)| task.contract.is_some()).count();
        has_tests
            && self.whole.is_none()
            && parts > 0
            && self.tasks().all(|(.., item)| item.item.id != root.task_id)
            && self.tasks().all(|(.., item)| item.ended().is_some())
            && self.to_follow().next().is_none()
            && self.passed()
            && self.last_turn().is_some()
    }

    /// What the parts came to, where the tests of the whole fail on it and nobody fixes that any more.
    pub(super) fn failed_whole(&self) -> Option<&ItemState> {
        let place = self.last_of(self.whole.filter(|place| !self.is_resolved(*place))?);
        let (task, item) = (&self.tasks[place as usize], &self.items.items[place as usize]);
        (item.ended().is_some() && !Self::is_to_follow(task, item)).then_some(&**item)
    }

    /// The place of the last fix of a task, or its own.
    pub(super) fn last_of(&self, place: u32) -> u32 {
        let next = |place: &u32| self.tasks.get(*place as usize).and_then(|task| task.fixed_by);
        std::iter::successors(Some(place), next).last().unwrap_or(place)
    }

    /// The place of what is tested as a whole.
    pub fn whole(&self) -> Option<u32> {
        self.whole
    }

    pub(super) fn open(&mut self, core: &Core, started: &RunStarted, turn: &Arc<OpenTurn>) -> Outcome {
        self.items.open(core, started, turn)
    }

    pub(super) fn commit(&mut self, record: &Arc<StepRecord>, done: &StepCommitted, held: bool) -> Outcome {
        self.items.commit(record, done, held)
    }

    pub(super) fn require_protocol_error(&self, step: StepRef) -> Outcome {
        self.items.require_protocol_error(step)
    }

    /// Whether a task came to a good end, by itself or by a fix.
    pub fn is_resolved(&self, place: u32) -> bool {
        let mut next = Some(place);
        while let Some(place) = next {
            if self.items.items[place as usize].succeeded() {
                return true;
            }
            next = self.tasks[place as usize].fixed_by;
        }
        false
    }

    /// The tasks of which something follows that is not on record.
    pub(super) fn to_follow(&self) -> impl Iterator<Item = u32> {
        self.tasks().filter(|(_, task, item)| Self::is_to_follow(task, item)).map(|(place, ..)| place)
    }

    fn is_to_follow(task: &Task, item: &ItemState) -> bool {
        match (&task.contract, item.ended()) {
            (_, None) => false,
            _ if task.followed => false,
            (None, Some(_)) => item.succeeded(),
            (Some(_), Some(ended)) => cause_of(ended).is_some(),
        }
    }

    /// The first role that wrote no contract which could be carried out.
    pub fn unwritten(&self) -> Option<&ItemState> {
        self.tasks().find(|(_, task, item)| task.contract.is_none() && item.has_failed()).map(|(.., item)| item)
    }

    /// Whether everything has come to its end, and nothing follows from it.
    pub(super) fn is_judged(&self, started: &RunStarted) -> bool {
        self.items.is_judged(started)
            && self.items.fault().is_none()
            && self.unwritten().is_none()
            && self.to_follow().next().is_none()
            && !self.lacks_whole()
            && self.failed_whole().is_none()
            && self.lost_conflict().is_none()
    }

    /// Whether every task came to a good end.
    pub(super) fn passed(&self) -> bool {
        self.tasks().filter(|(_, task, _)| task.fixes.is_none()).all(|(place, ..)| self.is_resolved(place))
    }
}

/// What is told of a task when its item ends: through which stages it went, and what its tests came to.
pub fn told_at_end(run: &crate::Run, ended: &ItemEnded) -> Vec<Fact> {
    let crate::Flow::Pipeline(state) = &run.flow else { return Vec::new() };
    let Ok(task) = state.task(ended.item) else { return Vec::new() };
    if task.contract.is_none() {
        return Vec::new();
    }
    let (item, task_id) = (ended.item, state.items.items[ended.item as usize].item.id.clone());
    let passed = |gate: contract::work::Gate| ended.gates.iter().find(|result| result.gate == gate).map(|it| it.passed);
    let tests = passed(contract::work::Gate::Tests);
    let reached = match (ended.status == contract::ItemStatus::Success, tests, passed(contract::work::Gate::Review)) {
        (true, ..) => Stage::S6,
        (false, Some(_), _) => Stage::S4,
        (false, None, Some(_)) => Stage::S3,
        (false, None, None) => task.stage,
    };
    let mut facts = Vec::new();
    let mut stage = task.stage;
    for next in [Stage::S3, Stage::S4, Stage::S6] {
        if next <= reached && stage.leads_to(next) {
            let (task_id, from) = (task_id.clone(), stage);
            facts.push(PipelineFact::StateTransition { item, task_id, from, to: next });
            stage = next;
        }
    }
    if let Some(passed) = tests {
        let status = if passed { TestStatus::Pass } else { TestStatus::Fail };
        facts.push(PipelineFact::TestResult { item, task_id, status });
    }
    facts.into_iter().map(Fact::Pipeline).collect()
}

/// What norma fills of the contracts of a run.
pub fn skeleton(run: &crate::Run) -> Option<TaskContract> {
    let mut skeleton = (*run.started.contract.pipeline.as_ref()?.skeleton).clone();
    skeleton.log_refs.run_id = run.id.slug().to_string();
    if let Some(root) = run.pipeline()?.root() {
        skeleton.parent_task_id = Some(root.task_id.clone());
        skeleton.acceptance_tests.clone_from(&root.acceptance_tests);
        skeleton.tool_permissions.clone_from(&root.tool_permissions);
    }
    Some(skeleton)
}

/// What the run was started with.
pub(crate) fn terms(started: &RunStarted) -> Result<&PipelineTerms, String> {
    started.contract.pipeline.as_ref().ok_or_else(|| "the contract says nothing of a pipeline".to_owned())
}

/// A contract as the log has it.
fn read(document: &str) -> Result<TaskContract, String> {
    if document.len() > contract::pipeline::CONTRACT_BYTES_MAX {
        return Err("a contract is longer than a line of the log may be".into());
    }
    let words = |problems: Vec<contract::Violation>| problems.iter().map(ToString::to_string).collect::<String>();
    contract::documents::task_contract::read(document.as_bytes()).map_err(words)
}
