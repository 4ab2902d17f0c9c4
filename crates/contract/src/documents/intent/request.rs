//! What is asked of whoever compiles an intent, the key under which the answer is found again, and the item of the run that
//! asks it: one that may change nothing, and whose answer is bound to a form.

use super::super::compile::Problems;
use super::Intent;
use super::answer::{ANSWER_SCHEMA, most};
use crate::json::{self, Report, Violation};
use crate::schema::JsonSchema;
use crate::work::{Item, OutputSchema};
use crate::{Digest, TurnLimits, hash, schema};
use serde::{Deserialize, Serialize};

/// The one item of a run that compiles an intent.
const ITEM: &str = "compile";

/// A request. Two that are the same but for the order of keys or the spelling of numbers are one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CompileRequest {
    /// What is wanted.
    pub intent: Intent,
    /// Of the caller's documents.
    pub schema_version: u32,
    /// Tells requests apart that are the same otherwise.
    pub seed: String,
}

impl CompileRequest {
    /// The request in its one spelling.
    pub fn canonical(&self) -> Vec<u8> {
        json::canonical(self).expect("BUG: an intent that was read strictly has a canonical form")
    }

    /// The replay key: SHA-256 of the request in its one spelling.
    pub fn key(&self) -> Digest {
        hash::sha256(&self.canonical())
    }

    /// The item that has `worker` compile it, or why there can be none.
    pub fn item(&self, worker: &str, limits: &TurnLimits) -> Result<Item, Vec<Violation>> {
        let timeout_ms = u64::from(limits.step_seconds) * 1000;
        let item = Item {
            read_only: true,
            // What an answer that breaks the protocol may cost is said once, for the loop and for this.
            retries: limits.protocol_retries.unwrap_or_default(),
            output_schema: Some(bound()),
            audit_only: true,
            ..Item::of_run(ITEM.to_owned(), worker.to_owned(), self.goal(), timeout_ms, self.key())
        };
        let mut report = Report::default();
        Problems::new(&mut report, "/intent".to_owned()).size(&item);
        report.into_result().map(|()| item)
    }

    /// What a compiler is told that is asked for nothing but the answer.
    pub fn prompt(&self) -> String {
        let form = bound().text;
        let goal = self.goal();
        format!(
            "{goal}\n\nAnswer with one JSON object and nothing else: `plan`, `patch` and `tests`, by this JSON Schema:\n{form}"
        )
    }

    /// What the agent is told.
    fn goal(&self) -> String {
        let intent = json::canonical(&self.intent).expect("BUG: a part of what has a canonical form has one");
        let intent = String::from_utf8(intent).expect("BUG: canonical JSON is text");
        let CompileRequest { schema_version, seed, .. } = self;
        format!(
            "Compile the intent below: say how it is carried out in this repository. Look around as much as you need, and \
             change nothing; what you propose is your answer's `result`.\n\n\
             - `plan`: what is to be done, as {} to {} nodes. Every `id` is unique, `deps` names other nodes that must be \
             done first, and nothing waits for itself.\n\
             - `patch`: the change to the files of this repository, at most {} files, each once, with its path from the \
             repository's root and a unified diff of at most {} characters.\n\
             - `tests`: at most {} commands, each in one line, that show whether the intent is fulfilled.\n\n\
             The intent, as JSON:\n{intent}\n\nschemaVersion {schema_version}, seed {seed:?}",
            most::NODES_MIN,
            most::NODES,
            most::FILES,
            most::DIFF_CHARS,
            most::TESTS,
        )
    }
}

/// The form of the answer, with its bytes.
fn bound() -> OutputSchema {
    let name = ANSWER_SCHEMA.trim_start_matches("schemas/");
    let text = schema::built_in(name).expect("BUG: the form of the answer is built in");
    OutputSchema {
        uri: ANSWER_SCHEMA.to_owned(),
        sha256: hash::sha256(text.as_bytes()),
        text: text.to_owned(),
        optional: false,
    }
}
