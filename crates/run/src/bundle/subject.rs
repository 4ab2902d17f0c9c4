//! What a report is about: one item, or the run as a whole. Where a document knows one task and the run has many, it is
//! about all of them together, under the run's own name.

use super::gates;
use super::record::{Record, change_dir, reference};
use super::tests_run::Tried;
use super::words;
use crate::{Flow, Run};
use contract::documents::ArtifactRef;
use contract::documents::task_result::{NextSteps, Orchestrator, Producer, ProducerRole, ResultGates, TaskOutcome};
use contract::hash::sha256;
use contract::{AgentType, Digest, ItemStatus, ManifestFile, Status, Timestamp};

/// The name norma has where a document wants an agent's.
pub(super) const NORMA: &str = "norma";

/// What a document of the bundle is about: the whole run, or one of its items.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) run_id: String,
    pub(super) task_id: String,
    pub(super) attempt: Option<u64>,
    pub(super) producer: Producer,
    pub(super) outcome: TaskOutcome,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// How it ended, in words.
    pub(super) summary: String,
    pub(super) baseline: String,
    pub(super) head: String,
    pub(super) changed_files: Option<ArtifactRef>,
    pub(super) patch: Option<ArtifactRef>,
    /// Its receipt, where it has one.
    pub(super) receipt: Option<ArtifactRef>,
    pub(super) gates: ResultGates,
    pub(super) next_steps: NextSteps,
    /// The tests that were run.
    pub(super) tests: Vec<Tried<'a>>,
    /// When the first of them can have begun.
    pub(super) tests_since: Timestamp,
    /// What reviewers said, item by item.
    pub(super) reviews: Vec<Reviewed<'a>>,
}

/// What reviewers said of an item.
#[derive(Debug)]
pub(super) struct Reviewed<'a> {
    pub(super) item: &'a contract::Item,
    pub(super) reviews: Option<&'a crate::Reviews>,
    /// The file that has everything they found.
    pub(super) findings: Option<ArtifactRef>,
    /// When the last of them was on record.
    pub(super) at: Option<Timestamp>,
}

impl<'a> Subject<'a> {
    /// The run as a whole.
    pub(super) fn of_run(record: &'a Record<'_>) -> Subject<'a> {
        let run = record.run;
        let tests = tried(record, 0..run.items().len() as u32);
        let worked = tests.iter().filter_map(|tried| record.worked_at(tried.place)).min();
        Subject {
            run_id: run.id.slug().to_string(),
            task_id: record.task_id(),
            attempt: only(record).map(|place| run.items()[place as usize].turns.len() as u64),
            producer: only(record).map_or_else(norma, |place| producer(record, place)),
            outcome: words::run_outcome(run.status),
            since: record.since(),
            until: record.until(),
            summary: record.message(),
            baseline: run.started.base.commit.to_string(),
            head: head(run),
            changed_files: record.reference("changed_files", "diff_name_only.txt"),
            patch: record.reference("patch", "patch.diff"),
            receipt: only(record).and_then(|place| receipt(record, place)),
            gates: gates_of_run(record),
            next_steps: next_steps(run),
            tests,
            tests_since: worked.unwrap_or_else(|| record.until()),
            reviews: (0..run.items().len() as u32).filter_map(|place| reviewed(record, place)).collect(),
        }
    }

    /// An item, if it has come to its end.
    pub(super) fn of_item(record: &'a Record<'_>, place: u32) -> Option<Subject<'a>> {
        let (state, ended) = (&record.run.items()[place as usize], record.ended(place)?);
        let kept = record.kept.get(&place)?;
        let until = record.ended_at(place);
        let success = ended.status == ItemStatus::Success;
        let baseline = kept.receipt.git.base_commit;
        let gates_json = format!("{}/gates.json", change_dir(place));
        let action = if success { "none".to_owned() } else { format!("look at {gates_json}") };
        Some(Subject {
            run_id: record.run.id.slug().to_string(),
            task_id: state.item.id.clone(),
            attempt: Some(state.turns.len() as u64),
            producer: producer(record, place),
            outcome: words::item_outcome(ended.status, ended.reason),
            since: state.turns.first().map_or(until, |turn| turn.since),
            until,
            summary: if success { "every gate passed".to_owned() } else { ended.message.clone() },
            head: ended.commit.unwrap_or(baseline).to_string(),
            baseline: baseline.to_string(),
            // Its `files` are the list; a file of its own for each of a thousand items would say nothing more.
            changed_files: record.reference("changed_files", &gates_json),
            patch: Some(patch(record, place)),
            receipt: receipt(record, place),
            gates: gates::of_items(&[(&state.item, Some(ended))]),
            next_steps: NextSteps { suggested_action: action, notes: String::new() },
            tests: tried(record, place..place + 1),
            tests_since: record.worked_at(place).unwrap_or(until),
            reviews: reviewed(record, place).into_iter().collect(),
        })
    }

    /// Whether it did what it was to do.
    pub(super) fn succeeded(&self) -> bool {
        self.outcome == TaskOutcome::Success
    }
}

/// The only item of a run that has one.
fn only(record: &Record<'_>) -> Option<u32> {
    (record.run.items().len() == 1).then_some(0)
}

fn norma() -> Producer {
    let role = ProducerRole::Orchestrator(Orchestrator::Orchestrator);
    Producer { role, agent_id: NORMA.to_owned(), codex_thread_id: None }
}

fn producer(record: &Record<'_>, place: u32) -> Producer {
    let item = &record.run.items()[place as usize].item;
    let role = ProducerRole::Agent(words::agent_role(&item.role));
    let codex = record.spoken_for(place).filter(|conversation| conversation.kind == AgentType::Codex);
    let thread = codex.and_then(|conversation| conversation.session());
    Producer { role, agent_id: item.agent_id.clone(), codex_thread_id: thread.map(str::to_owned) }
}

/// What a run came to: a commit, or the tree that became none.
fn head(run: &Run) -> String {
    match (run.landed(), &run.flow) {
        (Some(landing), _) => landing.commit.to_string(),
        (None, Flow::Batch(_) | Flow::Graph(_) | Flow::Intent(_) | Flow::Pipeline(_)) => {
            run.line().head.commit.to_string()
        }
        (None, Flow::Pdca(_)) if run.tree() == run.started.base.tree => run.started.base.commit.to_string(),
        (None, Flow::Pdca(_)) => run.tree().to_string(),
    }
}

fn gates_of_run(record: &Record<'_>) -> ResultGates {
    match &record.run.flow {
        Flow::Pdca(_) => gates::of_changes(record),
        Flow::Batch(_) | Flow::Graph(_) | Flow::Intent(_) | Flow::Pipeline(_) => {
            let items: Vec<_> = record.run.items().iter().map(|state| (&*state.item, state.ended())).collect();
            gates::of_items(&items)
        }
    }
}

fn receipt(record: &Record<'_>, place: u32) -> Option<ArtifactRef> {
    record.reference("receipt", &format!("{}/RECEIPT.json", change_dir(place)))
}

/// What reviewers said of an item that somebody was to review.
fn reviewed<'a>(record: &'a Record<'_>, place: u32) -> Option<Reviewed<'a>> {
    let state = &record.run.items()[place as usize];
    state.item.review.as_ref()?;
    let findings = record.findings_of(place).map(|bytes| {
        let path = findings_path(&state.item.id);
        let (size, sha256) = (bytes.len() as u64, sha256(&bytes));
        reference("findings", &path, &ManifestFile { path: path.clone(), size, blake3: sha256, sha256 })
    });
    Some(Reviewed { item: &state.item, reviews: state.reviews.as_deref(), findings, at: record.reviewed_at(place) })
}

/// Where everything is that reviewers found in a change.
pub(super) fn findings_path(task: &str) -> String {
    format!("reviews/{task}/findings.json")
}

/// The patch beside an item's result. Where nothing was changed it is empty, as git's would be.
fn patch(record: &Record<'_>, place: u32) -> ArtifactRef {
    let path = format!("results/{}/patch.diff", record.run.items()[place as usize].item.id);
    let kept = record.patch_of(place).and_then(|kept| record.files.get(&kept));
    let unused = Digest::from_bytes([0; 32]);
    let empty = ManifestFile { path: path.clone(), size: 0, blake3: unused, sha256: sha256(b"") };
    reference("patch", &path, kept.unwrap_or(&empty))
}

fn tried<'a>(record: &'a Record<'_>, places: std::ops::Range<u32>) -> Vec<Tried<'a>> {
    let tests = |place| record.kept.get(&place).and_then(|kept| kept.tests.as_ref());
    places.filter_map(|place| tests(place).map(|tests| Tried { place, tests })).collect()
}

fn next_steps(run: &Run) -> NextSteps {
    let slug = run.id.slug();
    let taken = run.landed().is_none_or(|landing| landing.checkout);
    let suggested_action = match run.status {
        Status::Succeeded if taken => "none".to_owned(),
        Status::Succeeded => format!("norma land {slug}"),
        Status::Stopped => {
            let more = run.exceeded().map(contract::BudgetExceeded::more);
            format!("norma resume {slug} --budget {}", more.unwrap_or_default())
        }
        _ => format!("norma show {slug}"),
    };
    NextSteps { suggested_action, notes: run.declined().map(str::to_owned).unwrap_or_default() }
}
