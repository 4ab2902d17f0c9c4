//! Intents that are carried out: what a run of one was started with, and the facts that only such a run has. The documents
//! (intent, plan, patch) are in `documents/`; how a run is shown to whoever started it over HTTP is in `view/intent.rs`.

use crate::schema::JsonSchema;
use crate::{Digest, ItemAdded, Reason, Slug, StepRef, TreeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an approval is answered by where something is to be done.
pub const APPROVE: &str = "approve";

/// What it is answered by where it is not.
pub const REJECT: &str = "reject";

/// How the questions of plan nodes are called, before the id of the node.
pub const WAIT_PREFIX: &str = "node:";

/// Longest plan in its one spelling: a line of the log has a limit.
pub const PLAN_BYTES_MAX: usize = 128 << 10;

/// Whether an agent is asked to compile an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompileMode {
    /// The recording of the request if there is one; else it is asked, and the answer is recorded.
    #[default]
    Auto,
    /// Never: what is recorded, or nothing.
    Replay,
    /// Always, and the answer is recorded.
    Record,
    /// Always, and nothing is recorded but the run.
    Live,
}

impl CompileMode {
    /// Whether a recording answers.
    pub fn replays(self) -> bool {
        matches!(self, CompileMode::Auto | CompileMode::Replay)
    }

    /// Whether an answer is recorded.
    pub fn records(self) -> bool {
        matches!(self, CompileMode::Auto | CompileMode::Record)
    }

    /// Whether an agent may be asked.
    pub fn asks(self) -> bool {
        self != CompileMode::Replay
    }
}

/// Something that an intent may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectorConfig {
    /// As `host:port`.
    pub hosts: Vec<String>,
    /// The MCP tools that agents are given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_tools: Vec<String>,
}

/// What the run of an intent was started with; part of its contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntentTerms {
    /// The intent.
    pub id: String,
    /// Who compiles it, decides and works, by its name among the contract's `workers`.
    pub agent: String,
    /// Whether it is asked.
    pub mode: CompileMode,
    /// Ties the run to whatever its starter traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// What its `io` nodes may reach.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connectors: BTreeMap<String, ConnectorConfig>,
    /// What the intent names and nobody has configured: nothing is started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_connectors: Vec<String>,
}

/// What an intent was compiled to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// The plan in its one spelling.
    pub plan: String,
    /// Commands that a person has to approve first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<AskedCommand>,
}

/// A command of a plan that a person has to approve first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedCommand {
    /// The place of its node in the plan.
    pub node: u32,
    /// Why.
    pub why: String,
}

/// The patch of an intent, as the change that it becomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchProposed {
    /// The item that it is from now on.
    pub added: ItemAdded,
    /// The turn that proposed it; none where an earlier run has made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepRef>,
    /// What it makes of the run's tree; none where it does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// Why it does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// SHA-256 of the patch.
    pub sha256: Digest,
}

/// A file that a turn left, as views tell of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputFile {
    /// Below the directory of its turn.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

/// What only the run of an intent has happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum IntentFact {
    /// There is a plan.
    PlanMade(Planned),
    /// What was compiled cannot be carried out; nothing of it is.
    PlanRefused {
        /// The kind of refusal.
        reason: Reason,
        /// One entry a problem.
        problems: Vec<String>,
    },
    /// The patch is judged like any change.
    PatchProposed(Box<PatchProposed>),
    /// A node that does nothing is done.
    PlanNodePassed {
        /// Its place in the plan.
        node: u32,
    },
    /// A node is not carried out.
    PlanNodeSkipped {
        /// Its place in the plan.
        node: u32,
        /// Why.
        why: String,
    },
    /// An agent has chosen.
    PlanNodeDecided {
        /// The node's place in the plan.
        node: u32,
        /// What it chose.
        choice: String,
    },
    /// Nobody has answered in time.
    PlanNodeExpired {
        /// The node's place in the plan.
        node: u32,
        /// What the plan says for that.
        choice: String,
    },
    /// An earlier run has done it.
    PlanNodeCarried {
        /// The node's place in the plan.
        node: u32,
        /// That run.
        run: Slug,
        /// What was chosen there, where there was a choice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
        /// What came of it, in words.
        summary: String,
    },
    /// Nothing can be done before somebody has answered.
    PlanHeld {
        /// What is waited for, as a reason.
        reason: Reason,
    },
    /// The files that a turn left.
    TurnOutput {
        /// Which turn.
        step: StepRef,
        /// As far as they fit.
        files: Vec<OutputFile>,
    },
}

impl IntentFact {
    /// The type words of all of them, in order.
    pub(crate) const KINDS: [&str; 10] = [
        "plan_made",
        "plan_refused",
        "patch_proposed",
        "plan_node_passed",
        "plan_node_skipped",
        "plan_node_decided",
        "plan_node_expired",
        "plan_node_carried",
        "plan_held",
        "turn_output",
    ];

    /// One sentence for people.
    pub fn message(&self) -> String {
        match self {
            IntentFact::PlanMade(_) => "The intent is compiled".to_owned(),
            IntentFact::PlanRefused { problems, .. } => format!("The plan is refused: {}", problems.join("; ")),
            IntentFact::PatchProposed(_) => "The patch is proposed".to_owned(),
            IntentFact::PlanNodePassed { node } => format!("Node {node} has nothing to do"),
            IntentFact::PlanNodeSkipped { node, why } => format!("Node {node} is skipped: {why}"),
            IntentFact::PlanNodeDecided { node, choice } => format!("Node {node}: the agent chose {choice:?}"),
            IntentFact::PlanNodeExpired { node, choice } => format!("Node {node}: no answer in time, so {choice:?}"),
            IntentFact::PlanNodeCarried { node, run, .. } => format!("Node {node} was done by run {run}"),
            IntentFact::PlanHeld { .. } => "Waiting for an answer".to_owned(),
            IntentFact::TurnOutput { step, files } => format!("Step {} left {} file(s)", step.dir_name(), files.len()),
        }
    }
}

/// The id of an intent, made of eight random bytes.
pub fn intent_id(random: [u8; 8]) -> String {
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("it_{hex}")
}

/// Whether this is the form of such an id.
pub fn is_intent_id(text: &str) -> bool {
    let digits = text.strip_prefix("it_").unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_an_intent_is_found_by_its_type_word() {
        let schema = serde_json::to_value(schemars::schema_for!(IntentFact)).unwrap();
        let kinds = schema["oneOf"].as_array().unwrap().iter();
        let words: Vec<&str> = kinds.map(|one| one["properties"]["type"]["const"].as_str().unwrap()).collect();
        assert_eq!(words, IntentFact::KINDS);
    }

    #[test]
    fn an_intent_has_a_name_of_sixteen_digits() {
        let id = intent_id([0, 1, 2, 3, 0xab, 0xcd, 0xef, 0xff]);
        assert_eq!(id, "it_00010203abcdefff");
        assert!(is_intent_id(&id));
        for other in ["it_123", "it_00010203ABCDEFFF", "00010203abcdefff", "it_00010203abcdefff0", ""] {
            assert!(!is_intent_id(other), "{other}");
        }
    }
}
