//! Artifacts: the files of a turn and of a change, as far as their being there follows from the log. Every turn that is on
//! record has exactly one diff; one that changed nothing has an empty one, which is a file only for turns of nodes.

use super::Projector;
use contract::graph::CONTEXT_PACK;
use contract::id::derived_uuid;
use contract::view::graph::{Artifact, ArtifactKind, ArtifactMetadata};
use contract::{AgentType, Role, RunId, StepCommitted, Timestamp};

/// A file below the run's directory.
pub(super) struct File<'f> {
    pub(super) kind: ArtifactKind,
    pub(super) dir: &'f str,
    pub(super) path: &'f str,
    pub(super) step: Option<u32>,
    pub(super) change: Option<u32>,
}

/// What a turn changed, as its diff says it.
pub(super) struct Diff {
    pub(super) files_changed: Option<Vec<String>>,
    pub(super) summary: String,
    pub(super) empty: bool,
}

impl Diff {
    pub(super) fn none(summary: &str) -> Diff {
        Diff { files_changed: Some(Vec::new()), summary: summary.to_owned(), empty: true }
    }
}

/// The id of a file below the run's directory.
pub fn artifact_id(run: &RunId, dir: &str, path: &str) -> String {
    derived_uuid(run, &["artifact", dir, path])
}

/// The id of what a turn changed.
pub fn diff_id(run: &RunId, step: u32) -> String {
    derived_uuid(run, &["diff", &step.to_string()])
}

impl Projector {
    pub(super) fn artifact(&self, node_id: &str, file: &File<'_>, ts: Timestamp) -> Artifact {
        let File { kind, dir, path, step, change } = file;
        Artifact {
            id: artifact_id(&self.id, dir, path),
            run_id: self.id,
            node_id: node_id.to_owned(),
            kind: *kind,
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            path: self.absolute(&format!("{}/{dir}/{path}", self.run_dir)),
            created_at: ts,
            metadata: None,
            step: *step,
            change: *change,
            empty: false,
        }
    }

    /// The diff of a turn: one for each, under an id of its own, wherever its file is.
    pub(super) fn diff(&self, node_id: &str, step: u32, file: &File<'_>, diff: Diff, ts: Timestamp) -> Artifact {
        let Diff { files_changed, summary, empty } = diff;
        Artifact {
            id: self.diff_id(step),
            name: "diff.patch".to_owned(),
            metadata: Some(ArtifactMetadata { files_changed, summary: Some(summary) }),
            step: Some(step),
            empty,
            ..self.artifact(node_id, file, ts)
        }
    }

    pub(super) fn diff_id(&self, step: u32) -> String {
        diff_id(&self.id, step)
    }

    /// Where the run lies outside of its repository, its directory is absolute already.
    fn absolute(&self, path: &str) -> String {
        match self.root.is_empty() || path.starts_with('/') {
            true => path.to_owned(),
            false => format!("{}/{path}", self.root),
        }
    }
}

/// The files that a turn on record has left, besides its diff.
pub(super) fn of_turn(done: &StepCommitted, kind: Option<AgentType>) -> Vec<(ArtifactKind, &'static str)> {
    use ArtifactKind::{Contextpack, Log, Prompt, Report, Transcript};
    let mut files = vec![(Log, "logs/stdout.txt"), (Log, "logs/stderr.txt")];
    let was_told = !matches!(
        done.process,
        contract::ProcessEnd::NotStarted(_) | contract::ProcessEnd::NotConfined(_) | contract::ProcessEnd::NotSetUp(_)
    );
    let speaks = was_told && kind.is_some_and(|kind| kind != AgentType::Exec);
    // A node is always told a prompt, whoever takes its turns.
    if speaks || done.step.node.is_some() {
        files.extend([(Prompt, "prompt.full.txt"), (Prompt, "prompt.blocks.json")]);
    }
    if speaks {
        files.push((Transcript, "session/events.jsonl"));
    }
    if done.step.role == Role::Check && done.end == contract::TurnEnd::Answered {
        files.extend([(Report, "verdict.json"), (Report, "scorecard.md")]);
    }
    if done.step.node.is_some() && done.end == contract::TurnEnd::Answered {
        files.push((Contextpack, CONTEXT_PACK));
    }
    files.push((Report, "output.json"));
    files
}
