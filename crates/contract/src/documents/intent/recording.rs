//! What is kept of a compiled intent under its key: request and response in one file that says itself whether it is as it
//! was written.

use super::super::{Patch, Plan, read_value};
use super::CompileRequest;
use super::answer::CompileAnswer;
use crate::json::{self, Limits, Violation};
use crate::schema::JsonSchema;
use crate::{Digest, hash};
use serde::{Deserialize, Serialize};

/// Largest recording in bytes: a request and an answer of a document each, and what was said meanwhile.
pub const RECORDING_BYTES_MAX: usize = 16 << 20;

/// A recording holds documents, so it is a few steps deeper than one.
const LIMITS: Limits = Limits::new(RECORDING_BYTES_MAX, Limits::DOCUMENT.depth_max + 4);

/// What whoever had an intent compiled is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompileOutput {
    /// What is to be done.
    pub plan: Plan,
    /// The change to the repository's files.
    pub patch: Patch,
    /// Commands that show whether it is done.
    pub tests: Vec<String>,
    /// What was said meanwhile.
    pub transcript: Transcript,
}

/// The conversation that an answer came from. norma writes it; the agent has no say in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// The run that has all of it as evidence.
    pub run_id: String,
    /// The agent's own name for the conversation, or the run's id if it has none.
    pub session_id: String,
    /// Which kind of agent.
    pub agent: String,
    /// Which model, where that is known.
    pub model: Option<String>,
    /// What was said, for people; empty for an agent without a session.
    pub text: String,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// SHA-256 of the request; the file is named after it.
    pub key: Digest,
    /// What was asked.
    pub request: CompileRequest,
    /// What came of it.
    pub response: CompileOutput,
    /// SHA-256 of everything else in it.
    pub sha256: Digest,
}

impl CompileOutput {
    /// An answer with the conversation it came from.
    pub fn new(answer: CompileAnswer, transcript: Transcript) -> CompileOutput {
        let CompileAnswer { plan, patch, tests } = answer;
        CompileOutput { plan, patch, tests, transcript }
    }

    /// In its one spelling, so that the first time and every time after it are the same bytes.
    pub fn canonical(&self) -> Vec<u8> {
        json::canonical(self).expect("BUG: an answer that was read strictly has a canonical form")
    }

    fn check(&self) -> Result<(), Vec<Violation>> {
        let CompileOutput { plan, patch, tests, .. } = self.clone();
        CompileAnswer { plan, patch, tests }.check()
    }
}

impl Recording {
    /// A recording of this.
    pub fn new(request: CompileRequest, response: CompileOutput) -> Recording {
        let (key, sha256) = (request.key(), Digest::from_bytes([0; 32]));
        let mut recording = Recording { key, request, response, sha256 };
        recording.sha256 = recording.digest();
        recording
    }

    /// Reads the recording of this key; one that was changed, or is another's, is none.
    pub fn read(bytes: &[u8], key: &Digest) -> Result<Recording, Vec<Violation>> {
        let recording: Recording = read_value(json::parse(bytes, &LIMITS)?)?;
        let wrong = |pointer: &str, message: &str| {
            Err(vec![Violation { pointer: pointer.to_owned(), message: message.to_owned() }])
        };
        if recording.sha256 != recording.digest() {
            return wrong("/sha256", "it was changed after it was recorded");
        }
        if recording.key != *key || recording.request.key() != *key {
            return wrong("/key", "it is the recording of another request");
        }
        recording.response.check().map(|()| recording)
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = json::canonical(self).expect("BUG: a recording consists of what has a canonical form");
        bytes.push(b'\n');
        bytes
    }

    fn digest(&self) -> Digest {
        let mut rest = serde_json::to_value(self).expect("BUG: a recording is plain data");
        rest.as_object_mut().map(|members| members.remove("sha256"));
        hash::sha256(&json::canonical(&rest).expect("BUG: a part of what has a canonical form has one"))
    }
}
