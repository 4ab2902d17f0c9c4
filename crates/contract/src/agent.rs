//! The agent's side of the contract: the request norma sends (`input.json`), the answer it expects on stdout
//! (`output.json`) and the check's `verdict.json`. Requests are written strictly; answers are read strictly on
//! the raw bytes (duplicate keys, a second document and wrong types are refused) but keep unknown fields, so
//! that an agent made for a later version still works.

use crate::json::{self, Limits, Violation};
use crate::schema::JsonSchema;
use crate::view::graph::{Envelope, MessageRole};
use crate::{Budgets, RoleName, Slug, Timestamp, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The only protocol version there is.
pub const PROTOCOL_VERSION: u32 = 1;

/// One thing that must hold for the run to pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceCriterion {
    /// `AC1`, `AC2`, …
    pub id: String,
    /// What must hold, in words.
    pub text: String,
}

/// What norma asks of an agent: written to `input.json` and sent on stdin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// Always 1.
    pub version: u32,
    /// The run's slug.
    pub run_id: Slug,
    /// Which turn this is.
    pub step: RequestStep,
    /// The goal, in words.
    pub goal: String,
    /// What the run must satisfy.
    pub norma: RequestTerms,
    /// Where things are, absolute.
    pub paths: RequestPaths,
    /// What happened before.
    pub context: RequestContext,
    /// For a worker: the item it carries out. Nothing else in the request says what it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<crate::Item>,
}

/// Which turn a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestStep {
    /// 1-based, grows over the whole run, equals the directory number.
    pub index: u32,
    /// Who is asked: the role of a loop, `worker`, or the template of a node.
    pub role: RoleName,
    /// 1-based round of the loop; of a node, the number of its turn.
    pub iteration: u32,
}

/// Goal posts and budgets of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestTerms {
    /// All of them; none is legal.
    pub acceptance_criteria: Vec<AcceptanceCriterion>,
    /// The run's budgets.
    pub budgets: Budgets,
}

/// Absolute paths for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestPaths {
    /// The repository as the run sees it.
    pub repo_root: String,
    /// The run's evidence.
    pub run_dir: String,
    /// The only place the agent may write, but for a workspace.
    pub step_dir: String,
    /// For a worker: the tree it works on, which is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
}

/// What happened before this turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestContext {
    /// The last committed step directories of this run, oldest first, as many as `limits.look_back` says.
    pub previous_step_dirs: Vec<String>,
    /// How many came before those; left out where that is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier_steps: u32,
    /// What norma wants the agent to know: findings of gates, how an earlier attempt failed. Of a node, its whole prompt.
    pub notes: String,
    /// What a node is told, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<ContextMessage>>,
    /// What a node is handed, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoffs: Option<Vec<Envelope>>,
    /// What a node of a plan may choose between, where it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// For a role that writes contracts: what norma fills of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skeleton: Option<Box<crate::documents::TaskContract>>,
    /// For a reviewer: the change that it is to judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewRequest>,
}

/// The change that a reviewer is to judge. Its contract is beside it, and the tree that it makes is in `paths.repo_root`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// The task.
    pub task_id: String,
    /// The commit that it was made on.
    pub base_commit: crate::CommitId,
    /// The tree that it makes of it.
    pub tree: crate::TreeId,
    /// The paths that differ.
    pub files: Vec<String>,
    /// How they differ, as a unified diff.
    pub diff: String,
    /// Whether the difference is longer than that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Something that a node is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextMessage {
    /// UUID.
    pub id: String,
    /// Who says it.
    pub role: MessageRole,
    /// Byte for byte.
    pub content: String,
    /// Whether it ended a turn that was under way.
    pub interrupt: bool,
    /// When.
    pub created_at: Timestamp,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The agent's own word on its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    /// Done as asked.
    Ok,
    /// Could not be done.
    Fail,
}

/// What an agent answers on stdout; stored as `output.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentResponse {
    /// Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The agent's own word.
    pub status: ResponseStatus,
    /// What happened, in one to three sentences.
    #[serde(default)]
    pub summary: String,
    /// Files it wrote, relative to its step directory.
    #[serde(default)]
    pub files: Vec<String>,
    /// What it would do next.
    #[serde(default)]
    pub next_actions: Vec<String>,
    /// What went wrong.
    #[serde(default)]
    pub errors: Vec<String>,
    /// For a worker: its answer proper, in the form that its contract binds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

impl AgentResponse {
    /// Reads an answer from the raw bytes of stdout. Every problem is named.
    pub fn parse(stdout: &[u8]) -> Result<AgentResponse, Vec<Violation>> {
        let response: AgentResponse = json::decode(stdout, &Limits::DOCUMENT)?;
        let mut problems = Vec::new();
        for (i, file) in response.files.iter().enumerate() {
            if let Err(problem) = crate::RepoPath::parse(file) {
                problems.push(Violation {
                    pointer: format!("/files/{i}"),
                    message: format!("files must be relative paths under step_dir: {problem}"),
                });
            }
        }
        if problems.is_empty() { Ok(response) } else { Err(problems) }
    }

    /// The answer norma writes in the agent's place when there is none it can use.
    pub fn synthetic(summary: &str, errors: Vec<String>) -> AgentResponse {
        AgentResponse {
            version: PROTOCOL_VERSION,
            status: ResponseStatus::Fail,
            summary: summary.to_owned(),
            files: Vec::new(),
            next_actions: Vec::new(),
            errors,
            result: None,
        }
    }
}

/// What a check found: `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictFile {
    /// Always 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// `PASS` or `FAIL`.
    pub verdict: Verdict,
    /// One entry for each acceptance criterion.
    pub criteria: Vec<CriterionResult>,
    /// Whatever was counted.
    #[serde(default)]
    pub metrics: serde_json::Map<String, Value>,
    /// What stands in the way.
    #[serde(default)]
    pub blockers: Vec<Value>,
    /// What would help.
    #[serde(default)]
    pub recommended_fix: Vec<Value>,
}

impl VerdictFile {
    /// Reads a verdict from the raw bytes of the file. Every problem is named.
    pub fn parse(bytes: &[u8]) -> Result<VerdictFile, Vec<Violation>> {
        json::decode(bytes, &Limits::DOCUMENT)
    }
}

/// What a check found about one criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionResult {
    /// The criterion's id.
    pub id: String,
    /// Its text, for the reader.
    #[serde(default)]
    pub text: String,
    /// Whether it holds.
    pub pass: bool,
    /// The file that shows it, in a step directory of this iteration.
    #[serde(default)]
    pub evidence: String,
}

/// How an agent's process ended, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum ProcessEnd {
    /// Left by itself with this code.
    Exited(i32),
    /// Killed by this signal.
    Signaled(i32),
    /// Killed at its wall-clock deadline.
    WallDeadline,
    /// Killed after silence.
    IdleDeadline,
    /// Killed because somebody asked.
    Canceled,
    /// Never ran.
    NotStarted(String),
    /// Ended because it ran into this limit of its sandbox.
    LimitReached(ProcessLimit),
    /// Never ran, because nothing could confine it.
    NotConfined(String),
    /// Never ran, because its workspace could not be made buildable.
    NotSetUp(String),
}

/// What a confined process can run out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLimit {
    /// The memory of all its processes.
    Memory,
    /// The files it may write, one or all together.
    Disk,
    /// Processor time.
    CpuTime,
}

/// One file of sealed evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestFile {
    /// Relative to the directory of the manifest, `/`-separated.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// BLAKE3, artifact domain.
    pub blake3: crate::Digest,
    /// SHA-256, for outside tools.
    pub sha256: crate::Digest,
}

impl ManifestFile {
    /// The digest of a list of files, in its order.
    pub fn listing_digest<'a>(files: impl Iterator<Item = &'a ManifestFile>) -> crate::Digest {
        let mut hasher = crate::hash::Hasher::new(crate::Domain::Manifest);
        for file in files {
            hasher.field(file.path.as_bytes()).field(&file.size.to_le_bytes());
            hasher.field(file.blake3.as_bytes()).field(file.sha256.as_bytes());
        }
        hasher.finish()
    }
}

/// `manifest.json`: the exhaustive list of a sealed directory, itself excepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always 1.
    pub version: u32,
    /// The run's slug.
    pub run_id: Slug,
    /// `steps/003-check`, `changes/001` or `.` for the run.
    pub dir: String,
    /// When it was sealed.
    pub sealed_at: Timestamp,
    /// Every file, sorted by path.
    pub files: Vec<ManifestFile>,
    /// The facts that the seal put on record, enough to roll them forward after a crash.
    pub outcome: Vec<crate::Fact>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(stdout: &str, expected: &str) {
        let problems = AgentResponse::parse(stdout.as_bytes()).unwrap_err();
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(text.join("\n").contains(expected), "{text:?}");
    }

    #[test]
    fn an_answer_with_only_the_required_fields_is_read() {
        let response = AgentResponse::parse(br#"{"version":1,"status":"ok"}"#).unwrap();
        assert_eq!(response.status, ResponseStatus::Ok);
        assert!(response.files.is_empty());
    }

    #[test]
    fn an_answer_may_carry_fields_of_a_later_version() {
        AgentResponse::parse(br#"{"version":1,"status":"fail","summary":"s","result":{"x":1}}"#).unwrap();
    }

    #[test]
    fn answers_that_break_the_protocol_are_refused_with_a_pointer() {
        refused("hello", "");
        refused(r#"{"version":1,"status":"great"}"#, "/status");
        refused(r#"{"version":2,"status":"ok"}"#, "/version");
        refused(r#"{"version":1}"#, "status");
        refused(r#"{"version":1,"status":"ok","status":"fail"}"#, "/status");
        refused(r#"{"version":1,"status":"ok"}{"version":1,"status":"ok"}"#, "");
        refused(r#"{"version":1,"status":"ok","files":["../x"]}"#, "/files/0");
        refused(r#"{"version":1,"status":"ok","files":["a","/etc/passwd"]}"#, "/files/1");
    }

    #[test]
    fn a_verdict_must_be_pass_or_fail() {
        let bad = VerdictFile::parse(br#"{"version":1,"verdict":"MAYBE","criteria":[]}"#).unwrap_err();
        assert_eq!(bad[0].pointer, "/verdict");
        VerdictFile::parse(br#"{"version":1,"verdict":"PASS","criteria":[]}"#).unwrap();
    }
}
