//! From a sentence to a contract over HTTP: what is proposed, what norma would like to know, and what somebody answers.

use super::ContractPreview;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// `POST /api/intake`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewIntake {
    /// What to do.
    #[schemars(length(min = 1))]
    pub sentence: String,
    /// Who does it.
    #[schemars(with = "String", length(min = 1))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What may change, instead of what is proposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub allow: Vec<String>,
    /// Commands that must succeed, instead of those that are proposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub test: Vec<String>,
    /// What must hold when it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub acceptance_criteria: Vec<String>,
    /// What it may use up, as `NAME=N`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub budget: Vec<String>,
    /// Answers to questions, by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, String>,
    /// Whether the contract is started, instead of being shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub run: bool,
    /// Whether whoever asks approves what the contract needs approval for, such as a wide scope.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub yes_wide: bool,
    /// Whether `run` has it go through a pipeline: planned, split, reviewed, fixed and merged, instead of being one contract.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pipeline: bool,
}

/// What comes of a sentence before it is started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Intake {
    /// What would happen.
    pub preview: ContractPreview,
    /// What norma guessed and would rather know; none has to be answered but for which of several agents works.
    pub questions: Vec<Question>,
    /// The contract, as it would be submitted.
    pub contract: Map<String, Value>,
}

/// Something that norma would like to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What the answer is given by.
    pub id: QuestionId,
    /// For people.
    pub question: String,
    /// Answers that make sense, where others may too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// What can be asked, and answered whether or not it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum QuestionId {
    /// Who works.
    Agent,
    /// What may change: paths, or a share of the repository.
    Scope,
    /// Which commands must succeed.
    Tests,
}

impl QuestionId {
    /// All of them.
    pub const ALL: [QuestionId; 3] = [QuestionId::Agent, QuestionId::Scope, QuestionId::Tests];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            QuestionId::Agent => "agent",
            QuestionId::Scope => "scope",
            QuestionId::Tests => "tests",
        }
    }
}
