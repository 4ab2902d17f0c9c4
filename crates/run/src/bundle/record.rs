//! What a bundle is made from: the run, its events, and what is on record of its files.

use super::Tests;
use super::spoken::{Conversation, Turns};
use contract::documents::{ArtifactRef, ReviewAnswer, Sha256, TaskContract};
use contract::{CommitId, Event, Fact, GraphFact, IntentFact, ItemEnded, ManifestFile, Receipt, Role, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::Run;

/// A run that has ended, with what is known of it besides its log.
#[derive(Debug)]
pub struct Record<'a> {
    /// The run.
    pub run: &'a Run,
    /// What its log says besides.
    pub(super) log: LogSummary,
    /// The files that are there, by their path below the run's directory.
    pub files: BTreeMap<String, ManifestFile>,
    /// What the items that ended have left, by their place.
    pub kept: BTreeMap<u32, Kept>,
    /// Where it ran.
    pub surroundings: Surroundings,
    /// The task contract that it was made of, where it is one.
    pub given: Option<TaskContract>,
    /// What was said with agents.
    pub(super) spoken: Vec<Conversation>,
}

/// What the log of a run says besides the run that it leads to, taken event by event: a long log need not be in memory.
#[derive(Debug, Default)]
pub struct LogSummary {
    since: Option<Timestamp>,
    last: Option<Event>,
    /// Where the run's line ends.
    head: Option<CommitId>,
    times: BTreeMap<u32, Times>,
    turns: Turns,
    /// What was found in the change of a loop that was judged last.
    pub(super) last_findings: Option<Vec<String>>,
}

/// What an item that ended has left beside the log.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its receipt.
    pub receipt: Receipt,
    /// What its tests came to, if any were run.
    pub tests: Option<Tests>,
    /// The answer that its contract binds to a schema, if its agent gave one.
    pub answer: Option<Value>,
    /// What its reviewers answered.
    pub reviews: Vec<Value>,
}

/// Where a run was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The repository.
    pub repository: String,
    /// Where its agents had their workspaces.
    pub workspace: String,
    /// The kind of machine.
    pub platform: String,
}

/// What the log says of an item, apart from its state.
#[derive(Debug, Clone, Default)]
struct Times {
    /// When the turn that it was judged by was on record.
    worked: Option<Timestamp>,
    /// When it had ended.
    ended: Option<Timestamp>,
    /// Where the run's line ended before it landed.
    before: Option<CommitId>,
    /// When its last review was on record.
    reviewed: Option<Timestamp>,
}

impl<'a> Record<'a> {
    /// A record of a run.
    pub fn new(
        run: &'a Run,
        mut log: LogSummary,
        files: BTreeMap<String, ManifestFile>,
        kept: BTreeMap<u32, Kept>,
        surroundings: Surroundings,
    ) -> Record<'a> {
        let spoken = std::mem::take(&mut log.turns).conversations(run, &files);
        Record { run, log, files, kept, surroundings, given: None, spoken }
    }

    /// When the run began.
    pub(super) fn since(&self) -> Timestamp {
        self.log.since.unwrap_or_default()
    }

    /// When it ended.
    pub(super) fn until(&self) -> Timestamp {
        self.log.last.as_ref().map(|event| event.ts).unwrap_or_default()
    }

    /// The last word of its log.
    pub(super) fn message(&self) -> String {
        self.log.last.as_ref().map(|event| event.fact.message()).unwrap_or_default()
    }

    /// What ties its documents together for tracing tools.
    pub(super) fn trace_id(&self) -> String {
        self.run.id.digits()
    }

    /// What documents that know one task call this run: its only item, the task it belongs to, or else the run itself.
    pub(super) fn task_id(&self) -> String {
        let only = self.run.items().first().filter(|_| self.run.items().len() == 1);
        match (only, self.run.started.contract.task_id) {
            (Some(only), _) => only.item.id.clone(),
            (_, Some(task)) => task.to_string(),
            _ => self.run.id.slug().to_string(),
        }
    }

    /// The end of an item, if it has come to it.
    pub(super) fn ended(&self, place: u32) -> Option<&'a ItemEnded> {
        self.run.items()[place as usize].ended()
    }

    /// When an item ended; the end of the run if it did not.
    pub(super) fn ended_at(&self, place: u32) -> Timestamp {
        self.log.times.get(&place).and_then(|times| times.ended).unwrap_or_else(|| self.until())
    }

    /// When what an item's agent left could be judged.
    pub(super) fn worked_at(&self, place: u32) -> Option<Timestamp> {
        self.log.times.get(&place)?.worked
    }

    /// When the last review of an item was on record.
    pub(super) fn reviewed_at(&self, place: u32) -> Option<Timestamp> {
        self.log.times.get(&place)?.reviewed
    }

    /// Everything that reviewers found in an item's change, as its file has it; none where nobody looked at it.
    pub(super) fn findings_of(&self, place: u32) -> Option<Vec<u8>> {
        let reviews = &self.kept.get(&place)?.reviews;
        let found =
            |answer: &Value| ReviewAnswer::read(answer).map(|answer| answer.short().findings).unwrap_or_default();
        let findings: Vec<_> = reviews.iter().flat_map(found).collect();
        (!reviews.is_empty()).then(|| contract::json::pretty(&findings))
    }

    /// The contract of an item of a pipeline, as it was written.
    pub(super) fn contract_of(&self, place: u32) -> Option<&TaskContract> {
        self.run.pipeline()?.task(place).ok()?.contract.as_deref()
    }

    /// The commit that an item landed on.
    pub(super) fn before(&self, place: u32) -> Option<CommitId> {
        self.log.times.get(&place)?.before
    }

    /// What was said with the agent of an item.
    pub(super) fn spoken_for(&self, place: u32) -> Option<&Conversation> {
        self.spoken.iter().find(|conversation| conversation.place == Some(place))
    }

    /// The patch of an item's change, if it changes anything.
    pub(super) fn patch_of(&self, place: u32) -> Option<String> {
        let path = format!("{}/patch.diff", change_dir(place));
        self.files.contains_key(&path).then_some(path)
    }

    /// A reference to a file that is on record.
    pub(super) fn reference(&self, name: &str, path: &str) -> Option<ArtifactRef> {
        self.files.get(path).map(|file| reference(name, path, file))
    }
}

/// The directory of an item's change.
pub(super) fn change_dir(place: u32) -> String {
    format!("changes/{:03}", place + 1)
}

/// A reference to a file, wherever that file is said to be.
pub(super) fn reference(name: &str, path: &str, file: &ManifestFile) -> ArtifactRef {
    ArtifactRef {
        name: name.to_owned(),
        path: path.to_owned(),
        sha256: Sha256(file.sha256),
        media_type: None,
        size_bytes: Some(file.size),
    }
}

impl LogSummary {
    /// The next event of the log.
    pub fn take(&mut self, event: Event) {
        let at = Some(event.ts);
        self.since = self.since.or(at);
        self.turns.take(&event.fact);
        match &event.fact {
            Fact::RunStarted(started) => self.head = Some(started.head().commit),
            Fact::StepCommitted(done) => {
                if let Some(times) = done.step.item.map(|place| self.of(place)) {
                    let is_review = done.step.role == Role::Reviewer;
                    *(if is_review { &mut times.reviewed } else { &mut times.worked }) = at;
                }
            }
            Fact::Graph(GraphFact::ChangeProposed(proposed)) => self.of(proposed.added.index).worked = at,
            Fact::Intent(IntentFact::PatchProposed(proposed)) => self.of(proposed.added.index).worked = at,
            Fact::ItemEnded(ended) => {
                self.of(ended.item).ended = at;
                if ended.commit.is_some() {
                    self.of(ended.item).before = std::mem::replace(&mut self.head, ended.commit);
                }
            }
            Fact::PatchApplied(_) => self.last_findings = Some(Vec::new()),
            Fact::ChangeDropped(dropped) => self.last_findings = Some(dropped.findings.clone()),
            _ => {}
        }
        self.last = Some(event);
    }

    fn of(&mut self, place: u32) -> &mut Times {
        self.times.entry(place).or_default()
    }
}
