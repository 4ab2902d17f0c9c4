//! What the roles of a pipeline answer: a contract to be completed, its parts, a review. Each is bound to the turn of its role;
//! whatever else is said is refused.

use super::review_report::{ReviewReport, ReviewVerdict};
use super::task_contract::{AcceptanceTest, RequiredOutput, TaskContract, ToolPermissions};
use crate::schema::JsonSchema;
use crate::work::OutputSchema;
use crate::{hash, schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of what a PM answers.
pub const PM_SCHEMA: &str = "schemas/pm_answer.v1.json";
/// The form of what a tech lead answers.
pub const TECH_LEAD_SCHEMA: &str = "schemas/tech_lead_answer.v1.json";
/// The form of what a reviewer answers.
pub const REVIEW_SCHEMA: &str = "schemas/review_answer.v1.json";

/// What a role says of a contract; norma fills the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractMembers {
    /// What to do, in words; it becomes `inputs.spec`.
    #[schemars(length(min = 1))]
    pub spec: String,
    /// What may change: files, or directories with everything below; no patterns.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub allowed_paths: Vec<String>,
    /// What must hold of the result.
    #[schemars(length(min = 1))]
    pub acceptance_tests: Vec<AcceptanceTest>,
    /// What is to come of it; a patch if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_outputs: Option<Vec<RequiredOutput>>,
    /// Words that no command of it may contain, besides those of policy and of the contract that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_actions: Option<Vec<String>>,
    /// What the worker may do; the least if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_permissions: Option<ToolPermissions>,
    /// Whether its paths may be those of other parts: these then follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_lock: Option<bool>,
    /// What it comes to, for whoever reads the evidence. It instructs nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What might go wrong, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risks: Option<Vec<String>>,
}

/// `pm_answer.v1`, and each part of `tech_lead_answer.v1`: a contract that a role wrote, as the members that are its own to say
/// or as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Written {
    /// The members.
    Members(Box<ContractMembers>),
    /// All of it. What norma fills must be as norma filled it.
    Whole(Box<TaskContract>),
}

/// `tech_lead_answer.v1`: the parts of a contract, one for each worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TechLeadAnswer {
    /// In the order in which they land.
    #[schemars(length(min = 1, max = 256))]
    pub contracts: Vec<Written>,
    /// What it comes to, for whoever reads the evidence. It instructs nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What might go wrong, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risks: Option<Vec<String>>,
}

/// Something that a reviewer found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewFinding {
    /// In which file.
    pub path: String,
    /// In which line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Whether it keeps the change from landing.
    pub severity: Severity,
    /// What it is.
    pub message: String,
}

/// Whether a finding keeps a change from landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It does.
    Blocking,
    /// It does not.
    Note,
}

/// A review in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortReview {
    /// What came of it.
    pub verdict: ReviewVerdict,
    /// In words.
    pub summary: String,
    /// What was found.
    pub findings: Vec<ReviewFinding>,
}

/// `review_answer.v1`: what a reviewer answers, in short or as the whole report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReviewAnswer {
    /// In short.
    Short(ShortReview),
    /// The report.
    Report(Box<ReviewReport>),
}

impl ReviewAnswer {
    /// Reads an answer that has its form.
    pub fn read(result: &Value) -> Option<ReviewAnswer> {
        serde_json::from_value(result.clone()).ok()
    }

    /// What it says in short. What a report finds outside of the scope blocks.
    pub fn short(self) -> ShortReview {
        let report = match self {
            ReviewAnswer::Short(short) => return short,
            ReviewAnswer::Report(report) => *report,
        };
        let blocking =
            |message: String| ReviewFinding { path: String::new(), line: None, severity: Severity::Blocking, message };
        let silent = !report.scope_check.passed && report.scope_check.violations.is_empty();
        let outside = silent.then(|| "the change leaves its scope".to_owned());
        let findings = report.scope_check.violations.into_iter().chain(outside).map(blocking).collect();
        ShortReview { verdict: report.verdict, summary: report.summary, findings }
    }
}

impl ReviewFinding {
    /// In one line, as reports have it.
    pub fn line_of(&self) -> String {
        let ReviewFinding { path, line, message, .. } = self;
        match (path.is_empty(), line) {
            (true, _) => message.clone(),
            (false, Some(line)) => format!("{path}:{line} {message}"),
            (false, None) => format!("{path} {message}"),
        }
    }
}

/// One of these forms, with the bytes that a turn is bound to.
pub fn bound(uri: &str) -> OutputSchema {
    let name = uri.trim_start_matches("schemas/");
    let text = schema::built_in(name).expect("BUG: the forms of the roles are built in");
    OutputSchema { uri: uri.to_owned(), sha256: hash::sha256(text.as_bytes()), text: text.to_owned(), optional: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_review_is_short_or_a_whole_report() {
        let short = json!({"verdict": "FAIL", "summary": "s", "findings": [
            {"path": "a.txt", "line": 3, "severity": "blocking", "message": "wrong"},
            {"path": "b.txt", "severity": "note", "message": "odd"}]});
        let read = ReviewAnswer::read(&short).unwrap().short();
        assert_eq!(read.findings[0].line_of(), "a.txt:3 wrong");
        assert_eq!(read.findings[1].line_of(), "b.txt odd");
        let report = json!({"run_id": "r", "reviewer": {"role": "REVIEWER", "agent_id": "agent-1"},
            "reviewed_at": "2026-01-01T00:00:00.000Z", "verdict": "PASS", "summary": "s",
            "scope_check": {"passed": false, "violations": []}, "evidence": [], "produced_diff": false});
        let read = ReviewAnswer::read(&report).unwrap().short();
        assert_eq!(read.findings[0].severity, Severity::Blocking, "what a report does not pass blocks");
        for odd in [json!({}), json!({"verdict": "PASS"}), json!({"verdict": "LGTM", "summary": "", "findings": []})] {
            assert_eq!(ReviewAnswer::read(&odd), None, "{odd}");
        }
    }
}
