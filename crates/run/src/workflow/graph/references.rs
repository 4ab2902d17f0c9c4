//! What one node gives another to know besides words: a context pack of each turn that answered, and references to artifacts
//! of the run. A reference is found again by the id that follows from the file it names, so nothing has to be kept of it.

use crate::view::{artifact_id, diff_id};
use crate::{Run, TurnSpec};
use contract::graph::{
    CONTEXT_PACK, CONTEXT_SCHEME, ContextPack, PackArtifact, PackConstraints, PackFile, PackInput, TurnDelta,
};
use contract::view::graph::{ARTIFACT_SCHEME, ArtifactKind, ArtifactRef, Envelope};
use contract::work::ShellRight;
use contract::{RunId, StepRef, Timestamp};

/// Most inputs and files that a pack names: it is read by a model, and says where the rest is.
const LISTED_MAX: usize = 100;

/// Most references of one turn that are looked for, and how far back: what is referred to is nearly always recent.
const REFERENCES_MAX: usize = 32;
const STEPS_BACK_MAX: usize = 2000;

/// The files of a turn that can be referred to, besides its diff.
const FILES: [(ArtifactKind, &str); 7] = [
    (ArtifactKind::Contextpack, CONTEXT_PACK),
    (ArtifactKind::Report, "output.json"),
    (ArtifactKind::Prompt, "prompt.full.txt"),
    (ArtifactKind::Prompt, "prompt.blocks.json"),
    (ArtifactKind::Transcript, "session/events.jsonl"),
    (ArtifactKind::Log, "logs/stdout.txt"),
    (ArtifactKind::Log, "logs/stderr.txt"),
];

/// The directory of a turn below its run's.
fn dir_of(step: StepRef) -> String {
    format!("steps/{}", step.dir_name())
}

/// The reference to the context pack of a turn.
pub(super) fn pack_of(run: &RunId, step: StepRef) -> String {
    format!("{CONTEXT_SCHEME}{}", artifact_id(run, &dir_of(step), CONTEXT_PACK))
}

/// The reference to what a turn changed.
pub(super) fn diff_of(run: &RunId, step: StepRef) -> ArtifactRef {
    ArtifactRef { kind: ArtifactKind::Diff, reference: format!("{ARTIFACT_SCHEME}{}", diff_id(run, step.index)) }
}

/// What whoever continues from a turn has to know: references, and few words.
pub fn context_pack(
    run: &Run,
    spec: &TurnSpec,
    summary: &str,
    delta: Option<&TurnDelta>,
    at: Timestamp,
) -> Option<ContextPack> {
    let (told, item) = (spec.node.as_ref()?, spec.item.as_ref()?);
    let contract = &run.started.contract;
    let criteria = contract.acceptance_criteria.iter().map(|it| it.text.clone());
    let tests = item.tests.iter().map(|test| format!("passes: {}", contract::policy::join(&test.argv)));
    let messages = told.messages.iter().map(|message| &message.id);
    let inputs = messages.chain(told.handoffs.iter().map(|envelope| &envelope.id)).take(LISTED_MAX);
    let files = delta.iter().flat_map(|delta| &delta.files).take(LISTED_MAX);
    let names = |paths: &[contract::RepoPath]| paths.iter().map(ToString::to_string).collect();
    Some(ContextPack {
        version: 1,
        pack_id: artifact_id(&run.id, &dir_of(spec.step), CONTEXT_PACK),
        run_id: run.id,
        node_id: told.terms.id.clone(),
        created_at: at,
        goal: contract.goal.clone(),
        definition_of_done: criteria.chain(tests).collect(),
        global_mode: told.global_mode,
        node_mode: told.mode,
        docs_root: contract.graph.as_ref().map(|graph| graph.docs_root.to_string()).unwrap_or_default(),
        summary: summary.to_owned(),
        relevant_files: files.map(|path| PackFile { path: path.clone(), summary: None }).collect(),
        inputs: inputs.map(|id| PackInput { payload_id: id.clone() }).collect(),
        artifacts: vec![PackArtifact { id: diff_id(&run.id, spec.step.index), kind: ArtifactKind::Diff }],
        constraints: PackConstraints {
            allowed_paths: names(&item.scope.allowed_paths),
            denied_paths: names(&item.scope.denied_paths),
            writes: !item.read_only,
            runs_commands: item.rights.shell != ShellRight::Deny,
        },
    })
}

/// A file of the run that somebody refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referred {
    /// As it was written.
    pub reference: String,
    /// What it is, and where below the run's directory: its directory, and the file in there. None where the run has no such
    /// artifact.
    pub file: Option<(ArtifactKind, String, &'static str)>,
}

/// What a turn is referred to by what it is told, each once.
pub fn referred(run: &Run, spec: &TurnSpec) -> Vec<Referred> {
    let Some(told) = &spec.node else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    let mut note = |reference: &str| {
        if found.len() < REFERENCES_MAX && !found.iter().any(|it| it == reference) {
            found.push(reference.to_owned());
        }
    };
    for Envelope { payload, context_ref, .. } in &told.handoffs {
        context_ref.iter().for_each(|reference| note(reference));
        payload.artifacts.iter().for_each(|artifact| note(&artifact.reference));
        in_text(&payload.message).into_iter().for_each(&mut note);
    }
    for message in &told.messages {
        in_text(&message.content).into_iter().for_each(&mut note);
    }
    found.into_iter().map(|reference| Referred { file: find(run, &reference), reference }).collect()
}

/// The references that a text has in it.
fn in_text(text: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "-_/:".contains(c));
    let words = text.split(ends).filter_map(|word| {
        let start = [ARTIFACT_SCHEME, "contextpack://"].iter().find_map(|scheme| word.find(scheme))?;
        Some(word[start..].trim_end_matches(['/', ':']))
    });
    words.collect()
}

/// The file that a reference names: by the id at its end, whatever stands before it.
fn find(run: &Run, reference: &str) -> Option<(ArtifactKind, String, &'static str)> {
    let id = reference.rsplit('/').next().filter(|id| contract::id::is_uuid(id))?;
    let steps = run.steps();
    let newest = (0..steps.len()).rev().take(STEPS_BACK_MAX).filter_map(|place| steps.get(place));
    for record in newest {
        let Some(dir) = &record.dir else { continue };
        if diff_id(&run.id, record.step.index) == id {
            return Some((ArtifactKind::Diff, dir.clone(), "diff.patch"));
        }
        if let Some((kind, path)) = FILES.into_iter().find(|(_, path)| artifact_id(&run.id, dir, path) == id) {
            return Some((kind, dir.clone(), path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_in_any_text() {
        let text = "see artifact://0b1, (contextpack://pack/0b2). not artifact:0b3; \"artifact://diff/0b4\"";
        assert_eq!(in_text(text), ["artifact://0b1", "contextpack://pack/0b2", "artifact://diff/0b4"]);
        assert_eq!(in_text("nothing"), [""; 0]);
    }
}
