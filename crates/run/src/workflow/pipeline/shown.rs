//! A pipeline as people and programs are shown it. Words come from what is on record: a stage that a task has not come to is not
//! there, and a review that nobody asked for is BLOCKED, which blocks nothing.

use super::{State, Task, terms};
use crate::items::{ItemStage, ItemState};
use crate::{Flow, Run};
use contract::documents::review_report::ReviewVerdict;
use contract::documents::run_manifest::ManifestTaskStatus as Word;
use contract::pipeline::{PM_TASK, Stage, TECH_LEAD_TASK};
use contract::view::pipeline::{ContractView, FixView, PipelineView, ReviewView, StageView};
use contract::work::TestStatus;
use contract::{RepoPath, Role};

/// What nobody asked for.
const NOT_REQUESTED: &str = "not requested";

/// What a run tells of its reviews and its pipeline; nothing where it has neither.
pub fn view(run: &Run) -> Option<PipelineView> {
    match &run.flow {
        Flow::Pipeline(state) => Some(of_pipeline(run, state)),
        Flow::Batch(state) if state.items.iter().any(|item| item.item.review.is_some()) => {
            let reviews = state.items.iter().flat_map(|item| reviews(item)).collect();
            Some(PipelineView { reviews, ..PipelineView::default() })
        }
        _ => None,
    }
}

fn of_pipeline(run: &Run, state: &State) -> PipelineView {
    let mut stages = written(run, state);
    for (place, task, item) in state.tasks().filter(|(_, task, _)| task.contract.is_some()) {
        stages.extend(if state.whole() == Some(place) { of_whole(task, item) } else { of_task(task, item) });
    }
    let all_good = state.passed() && state.is_judged(&run.started);
    let has_begun = state.tasks().any(|(_, task, _)| task.stage == Stage::S6);
    if let Some(root) = state.root().filter(|_| has_begun) {
        let status = match (run.core.landed.is_some() || all_good && !run.has_to_land(), run.status.is_terminal()) {
            (true, _) if state.passed() => Word::Success,
            (_, true) => Word::Failed,
            _ => Word::Running,
        };
        stages.push(StageView { stage: Stage::S6, task_id: root.task_id.clone(), step: None, status });
    }
    stages.sort_by_key(|it| it.stage);
    PipelineView {
        stages,
        contracts: contracts(run, state),
        reviews: state
            .tasks()
            .filter(|(place, task, _)| task.contract.is_some() && state.whole() != Some(*place))
            .flat_map(|(.., item)| reviews(item))
            .collect(),
        fixes: fixes(state),
    }
}

/// The stages in which contracts are written. A person or the rules of the intake stand in where no agent is asked.
fn written(run: &Run, state: &State) -> Vec<StageView> {
    let Ok(terms) = terms(&run.started) else { return Vec::new() };
    let seats = [(Stage::S0, Role::Pm, PM_TASK), (Stage::S1, Role::TechLead, TECH_LEAD_TASK)];
    let asked = [terms.pm.is_some(), terms.tech_lead.is_some()];
    let stage = |((stage, role, name), asked): ((Stage, Role, &str), bool)| {
        let item = state.tasks().find(|(.., item)| item.role == role).map(|(.., item)| item);
        let (step, status) = match (item, asked) {
            (Some(item), _) => (item.turns.last().map(|turn| turn.step.index), word(item)),
            (None, true) if run.status.is_terminal() => (None, Word::Skipped),
            (None, true) => (None, Word::Pending),
            (None, false) => (None, Word::Success),
        };
        let by_others = item.is_none() && !asked;
        let task_id = match state.root().filter(|_| by_others) {
            Some(root) => root.task_id.clone(),
            None => name.to_owned(),
        };
        StageView { stage, task_id, step, status }
    };
    seats.into_iter().zip(asked).map(stage).collect()
}

/// What the parts came to goes through no other stage than its tests.
fn of_whole(task: &Task, item: &ItemState) -> Vec<StageView> {
    let status = match task.tests {
        Some(TestStatus::Pass) => Word::Success,
        Some(_) => Word::Failed,
        None => Word::Running,
    };
    vec![StageView { stage: Stage::S4, task_id: item.item.id.clone(), step: None, status }]
}

/// The stages that the task of a worker has come to.
fn of_task(task: &Task, item: &ItemState) -> Vec<StageView> {
    let task_id = || item.item.id.clone();
    let at = |stage, step, status| StageView { stage, task_id: task_id(), step, status };
    let worked = item.turns.last().map(|turn| turn.step.index);
    let is_over = !matches!(item.stage, ItemStage::Waiting | ItemStage::Working(_));
    let denied_early = item.ended().is_some() && task.stage == Stage::S2;
    let mut stages = vec![at(
        Stage::S2,
        worked,
        match (is_over, denied_early) {
            (false, _) => word(item),
            (true, true) => Word::Failed,
            (true, false) => Word::Success,
        },
    )];
    if task.stage < Stage::S3 {
        return stages;
    }
    let turn = item.reviews.iter().flat_map(|reviews| &reviews.turns).last().map(|turn| turn.step.index);
    let review = match (&item.item.review, item.is_reviewed(), &item.reviews) {
        (None, ..) => Word::Blocked,
        (Some(_), false, _) | (Some(_), _, None) => Word::Running,
        (Some(terms), true, Some(reviews)) if reviews.fault.is_none() && reviews.passes() >= terms.quorum => {
            Word::Success
        }
        (Some(_), true, Some(_)) => Word::Failed,
    };
    stages.push(at(Stage::S3, turn, review));
    if let Some(tests) = task.tests {
        let status = if tests == TestStatus::Pass { Word::Success } else { Word::Failed };
        stages.push(at(Stage::S4, None, status));
    }
    if task.fix.is_some() {
        stages.push(at(Stage::S5, worked, word(item)));
    }
    stages
}

fn contracts(run: &Run, state: &State) -> Vec<ContractView> {
    let paths =
        |texts: &[String]| texts.iter().filter_map(|text| RepoPath::parse(text.trim_matches('/')).ok()).collect();
    let parts = || state.tasks().filter(|(place, ..)| state.whole() != Some(*place));
    let is_own = |root: &str| parts().any(|(_, task, item)| task.contract.is_some() && item.item.id == root);
    let root = state.root().filter(|root| !is_own(&root.task_id)).map(|root| ContractView {
        task_id: root.task_id.clone(),
        parent_task_id: root.parent_task_id.clone(),
        allowed_paths: paths(&root.allowed_paths),
        status: match (run.status.is_terminal(), state.is_judged(&run.started) && state.passed()) {
            (_, true) => Word::Success,
            (true, false) => Word::Failed,
            (false, false) => Word::Running,
        },
    });
    let own = parts().filter_map(|(_, task, item)| {
        let contract = task.contract.as_ref()?;
        Some(ContractView {
            task_id: item.item.id.clone(),
            parent_task_id: contract.parent_task_id.clone(),
            allowed_paths: item.item.scope.allowed_paths.clone(),
            status: word(item),
        })
    });
    root.into_iter().chain(own).collect()
}

fn reviews(item: &ItemState) -> Vec<ReviewView> {
    let task_id = || item.item.id.clone();
    let given = item.reviews.iter().flat_map(|reviews| &reviews.given).map(|given| ReviewView {
        task_id: task_id(),
        verdict: given.verdict,
        summary: given.summary.clone(),
        blocking: given.blocking.clone(),
    });
    let mut all: Vec<ReviewView> = given.collect();
    let silent = item.reviews.as_ref().and_then(|reviews| reviews.silent.as_ref()).map(|(_, why)| why.clone());
    let nobody = item.item.review.is_none().then(|| NOT_REQUESTED.to_owned());
    if let Some(summary) = silent.or(nobody) {
        all.push(ReviewView { task_id: task_id(), verdict: ReviewVerdict::Blocked, summary, blocking: Vec::new() });
    }
    all
}

fn fixes(state: &State) -> Vec<FixView> {
    let fix = |(_, task, item): (u32, &Task, &ItemState)| {
        let (cause, attempt) = task.fix?;
        let parent_task_id = state.items.items[task.original as usize].item.id.clone();
        Some(FixView { task_id: item.item.id.clone(), parent_task_id, cause, attempt, status: word(item) })
    };
    state.tasks().filter_map(fix).collect()
}

/// Where an item stands, in one word.
fn word(item: &ItemState) -> Word {
    match &item.stage {
        ItemStage::Waiting if item.turns.is_empty() => Word::Pending,
        ItemStage::Waiting | ItemStage::Working(_) | ItemStage::Worked(_) | ItemStage::InReview(..) => Word::Running,
        ItemStage::Ended(_) if item.succeeded() => Word::Success,
        ItemStage::Ended(_) => Word::Failed,
    }
}
