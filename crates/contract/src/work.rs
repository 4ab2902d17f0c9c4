//! The items of a run under contract: a work item or a task contract once everything in it is
//! resolved and checked. An item is one turn of one agent and one change; nothing outside of it says what that
//! agent may do.

use crate::schema::JsonSchema;
use crate::{Backend, Digest, ProcessEnd, RepoPath, ReviewTerms, Scope};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One task of a run under contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// As the submitted document calls it; fit to be a directory name.
    pub id: String,
    /// Who is to do it, as the document names them.
    pub agent_id: String,
    /// In which role, as the document names it; `WORKER` where it names none.
    pub role: String,
    /// The entry of [`crate::Contract::workers`] that does it.
    pub worker: String,
    /// What to do, in words.
    pub goal: String,
    /// The items that must have succeeded first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What may change; without paths, the whole tree but for what policy protects.
    pub scope: Scope,
    /// Whether nothing at all may change.
    #[serde(default)]
    pub read_only: bool,
    /// What it may do beyond files.
    #[serde(default)]
    pub rights: Rights,
    /// Files of the base that must be there before anything starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_files: Vec<RepoPath>,
    /// Files that must be there afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<RepoPath>,
    /// Files whose exact content the document relies on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<InputArtifact>,
    /// What must hold of the result, tried by norma in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestCommand>,
    /// Whose version of the tests counts.
    #[serde(default)]
    pub tests_policy: TestsPolicy,
    /// How much the change and the turn may be.
    #[serde(default)]
    pub constraints: Constraints,
    /// How long the turn may take, and each test.
    pub timeout_ms: u64,
    /// How many more times a turn that failed is tried.
    #[serde(default)]
    pub retries: u32,
    /// How long to wait before that.
    #[serde(default)]
    pub retry_backoff_ms: u64,
    /// What the answer's `result` must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// Words that no command of the item may contain, besides those of policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_actions: Vec<String>,
    /// Whether it is fine that nothing changes where a patch was asked for.
    #[serde(default)]
    pub audit_only: bool,
    /// The agent's own name of the conversation that it continues; a conversation of its own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What confines its agent and its tests, where that is not what confines the rest of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_backend: Option<Backend>,
    /// Who looks at the change before it is tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewTerms>,
    /// SHA-256 of the submitted document, which is kept beside the run.
    pub submitted: Digest,
}

impl Item {
    /// The terms of work that norma itself asks for: no rights, no tests, one try, and whatever the caller says besides.
    pub fn of_run(id: String, worker: String, goal: String, timeout_ms: u64, submitted: Digest) -> Item {
        Item {
            id,
            agent_id: worker.clone(),
            role: "WORKER".to_owned(),
            worker,
            goal,
            needs: Vec::new(),
            scope: Scope::default(),
            read_only: false,
            rights: Rights::default(),
            input_files: Vec::new(),
            output_files: Vec::new(),
            artifacts: Vec::new(),
            tests: Vec::new(),
            tests_policy: TestsPolicy::default(),
            constraints: Constraints::default(),
            timeout_ms,
            retries: 0,
            retry_backoff_ms: 0,
            output_schema: None,
            forbidden_actions: Vec::new(),
            audit_only: false,
            thread: None,
            sandbox_backend: None,
            review: None,
            submitted,
        }
    }
}

/// What an agent may do beyond files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rights {
    /// Commands.
    pub shell: ShellRight,
    /// The network.
    pub network: NetworkRight,
    /// Tools of MCP servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_tools: Vec<String>,
}

/// Which commands an agent may have run. From the strictest to the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShellRight {
    /// None.
    #[default]
    Deny,
    /// None that needs an approval.
    Never,
    /// Each with an approval.
    Untrusted,
    /// Those with an approval that ask for one.
    OnRequest,
}

/// What an agent may reach. From the strictest to the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkRight {
    /// Nothing.
    #[default]
    Deny,
    /// Nothing without an approval.
    OnRequest,
    /// What its agent is configured for.
    Allow,
}

/// A file that a document relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputArtifact {
    /// What for.
    pub name: String,
    /// Where, in the base.
    pub path: RepoPath,
    /// What it must be.
    pub sha256: Digest,
}

/// One acceptance test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCommand {
    /// What it is called.
    pub name: String,
    /// Program and arguments, never a shell line.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// Whether the change is refused if it fails.
    pub must_pass: bool,
    /// Whether that is so only where it passes without the change: it is a test of the whole that the change is a part of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_whole: bool,
}

impl TestCommand {
    /// Whether nothing else is tried once it has failed.
    pub fn decides_alone(&self) -> bool {
        self.must_pass && !self.of_whole
    }
}

/// Whose version of the tests counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TestsPolicy {
    /// The change's own; and where the change touches what decides about its tests, the baseline's version of that
    /// must pass too, or a person approves.
    Guarded,
    /// The change's own. What items had before there was another.
    #[default]
    Candidate,
    /// The baseline's must pass too.
    Both,
    /// Only the baseline's.
    Baseline,
}

/// How much a change and its turn may be; nothing said, nothing held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Constraints {
    /// Paths that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u64>,
    /// Tool operations of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_ops: Option<u64>,
    /// Entries of the four deltas together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delta_size: Option<u64>,
    /// Bytes of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_patch_bytes: Option<u64>,
}

/// A JSON Schema that an answer is checked against, with the bytes it was bound by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSchema {
    /// As the document names it.
    pub uri: String,
    /// SHA-256 of the text.
    pub sha256: Digest,
    /// The schema itself.
    pub text: String,
    /// Whether an answer may leave it out: its summary then says everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// How an item ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Every gate passed.
    Success,
    /// The agent, its answer or a test failed.
    Failure,
    /// A gate refused it, or it could not be started.
    Denied,
    /// A deadline passed.
    Timeout,
}

impl ItemStatus {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ItemStatus::Success => "success",
            ItemStatus::Failure => "failure",
            ItemStatus::Denied => "denied",
            ItemStatus::Timeout => "timeout",
        }
    }
}

impl fmt::Display for ItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A gate of an item, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Its input files are there and are what they must be.
    Inputs,
    /// What the agent asks for is something it may do.
    Tools,
    /// The agent answered as asked, in the form that was bound.
    Output,
    /// What changed is what may change.
    Scope,
    /// It is not too much, and not done already.
    Admission,
    /// The expected files are there.
    Outputs,
    /// What it wrote is a contract that may be.
    Contracts,
    /// Reviewers let it pass, and changed nothing.
    Review,
    /// Its tests pass.
    Tests,
    /// All of that holds of the tree as it lands, too.
    Merged,
}

impl Gate {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Gate::Inputs => "inputs",
            Gate::Tools => "tools",
            Gate::Output => "output",
            Gate::Scope => "scope",
            Gate::Admission => "admission",
            Gate::Outputs => "outputs",
            Gate::Contracts => "contracts",
            Gate::Review => "review",
            Gate::Tests => "tests",
            Gate::Merged => "merged",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a gate said of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    /// The gate that was asked.
    pub gate: Gate,
    /// Whether it passed.
    pub passed: bool,
    /// What it found, as far as it fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// Who counted the tool operations of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolOpsSource {
    /// norma, from the protocol it speaks with the agent.
    Protocol,
    /// norma, by the processes that the agent's program or a shell of its started.
    Processes,
    /// The agent itself, which is no count to hold it to.
    Agent,
    /// Nobody.
    #[default]
    None,
}

/// What a command came to, or all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum TestStatus {
    /// What must hold was tried, and holds.
    Pass,
    /// It was tried, and does not hold.
    Fail,
    /// It could not be found out.
    Error,
    /// It was not tried.
    Skipped,
}

impl TestStatus {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            TestStatus::Pass => "PASS",
            TestStatus::Fail => "FAIL",
            TestStatus::Error => "ERROR",
            TestStatus::Skipped => "SKIPPED",
        }
    }

    /// What the end of a command means; none is one that was not run.
    pub fn of(end: Option<&ProcessEnd>) -> TestStatus {
        match end {
            None => TestStatus::Skipped,
            Some(ProcessEnd::Exited(0)) => TestStatus::Pass,
            Some(ProcessEnd::Exited(_) | ProcessEnd::Signaled(_)) => TestStatus::Fail,
            Some(
                ProcessEnd::WallDeadline
                | ProcessEnd::IdleDeadline
                | ProcessEnd::Canceled
                | ProcessEnd::NotStarted(_)
                | ProcessEnd::LimitReached(_)
                | ProcessEnd::NotConfined(_)
                | ProcessEnd::NotSetUp(_),
            ) => TestStatus::Error,
        }
    }
}

impl fmt::Display for TestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How many tests there were, as far as a runner said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCounts {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
    /// Neither.
    pub skipped: u64,
}
