//! What is kept of the turns of an intent besides what every turn leaves: the digests of their files, which views tell of, and
//! what an agent has chosen. An intent that was compiled before is answered by its recording, as if its agent had said it.

use crate::Result;
use crate::git::id;
use crate::machine::not_started;
use crate::record::Driver;
use crate::workspace::Captured;
use crate::world::Execution;
use contract::documents::Recording;
use contract::hash::sha256;
use contract::intent::OutputFile;
use contract::{Fact, IntentFact, PROTOCOL_VERSION, ProcessEnd, TurnEnd};
use run::TurnSpec;
use run::turn::{Judgement, chosen};
use run::workflow::intent::COMPILE;
use serde_json::{Value, json};
use store::Preparing;

/// What `sandbox.json` of a turn says that a recording answered.
pub(crate) const RECORDING: &str = "recording";

/// Most files of a turn that a view tells of, and how much of one is read for its digest.
const FILES_MAX: usize = 32;
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What norma keeps of a turn for itself.
const OWN: [&str; 2] = ["input.json", "sandbox.json"];

/// What comes of a turn that compiles an intent without an agent; none where its agent is asked.
pub(super) fn recorded(driver: &Driver<'_, '_>, spec: &TurnSpec) -> Result<Option<Execution>> {
    let terms = driver.run.started.contract.intent.as_ref();
    let compiles = spec.step.item == Some(COMPILE) && spec.step.node.is_none();
    let Some(mode) = terms.map(|terms| terms.mode).filter(|mode| compiles && mode.replays()) else { return Ok(None) };
    let Some(item) = &spec.item else { return Ok(None) };
    match store::recording(&driver.store.layout, &item.submitted)? {
        Some(recording) => Ok(Some(answered(spec, &recording))),
        None if mode.asks() => Ok(None),
        None => {
            let why = format!("no recording with key {}, and intents.mode is replay", item.submitted);
            Ok(Some(not_started(ProcessEnd::NotStarted(why), json!({ "backend": RECORDING }))))
        }
    }
}

fn answered(spec: &TurnSpec, recording: &Recording) -> Execution {
    let response = &recording.response;
    let answer = json!({
        "version": PROTOCOL_VERSION,
        "status": "ok",
        "summary": format!("answered by the recording of run {}", response.transcript.run_id),
        "result": {"plan": response.plan, "patch": response.patch, "tests": response.tests},
    });
    let sandbox: Value = json!({"backend": RECORDING, "key": recording.key, "sha256": recording.sha256});
    Execution {
        stdout: answer.to_string().into_bytes(),
        captured: Some(Captured::nothing(id(spec.tree))),
        ..not_started(ProcessEnd::Exited(0), sandbox)
    }
}

/// What the end of an intent's turn leads to.
pub(super) fn led_to(
    driver: &Driver<'_, '_>,
    spec: &TurnSpec,
    judged: &Judgement,
    evidence: &Preparing,
) -> Result<Vec<Fact>> {
    if driver.run.intent().is_none() {
        return Ok(Vec::new());
    }
    let mut facts = Vec::new();
    let choice = spec.choices.as_ref().and_then(|choices| chosen(&judged.response, choices));
    if let (TurnEnd::Answered, Some(node), Some(choice)) = (judged.end, spec.step.node, choice) {
        facts.push(IntentFact::PlanNodeDecided { node, choice: choice.to_owned() });
    }
    facts.push(IntentFact::TurnOutput { step: spec.step, files: files(evidence)? });
    Ok(facts.into_iter().map(Fact::Intent).collect())
}

fn files(evidence: &Preparing) -> Result<Vec<OutputFile>> {
    let mut names = evidence.names();
    names.retain(|name| !OWN.contains(&name.as_str()));
    names.sort();
    let mut files = Vec::new();
    for path in names.into_iter().take(FILES_MAX) {
        if let Some(bytes) = evidence.read(&path, FILE_BYTES_MAX)? {
            files.push(OutputFile { path, sha256: sha256(&bytes) });
        }
    }
    Ok(files)
}
