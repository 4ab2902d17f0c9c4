//! DATA. The vocabulary of norma: every document that crosses a boundary, its schema, ids, paths, hashes and
//! canonical JSON. Nothing here reads a file, a clock or a random source; time and randomness are parameters.
//! Whatever enters norma from outside is turned into these types first.

mod agent;
pub mod api;
mod approval;
pub mod attestation;
mod audit;
mod backend;
pub mod bundle;
mod config;
mod confinement;
pub mod documents;
mod event;
mod fact;
pub mod graph;
pub mod hash;
pub mod id;
pub mod intent;
pub mod json;
mod nearest;
mod object;
pub mod path;
pub mod pipeline;
pub mod policy;
mod prompt;
pub mod receipt;
pub mod replay;
pub mod review;
pub mod schema;
pub mod session;
mod status;
mod terms;
pub mod text;
pub mod time;
pub mod view;
mod wait;
pub mod work;

pub use agent::{
    AcceptanceCriterion, AgentRequest, AgentResponse, ContextMessage, CriterionResult, Manifest, ManifestFile,
    PROTOCOL_VERSION, ProcessEnd, ProcessLimit, RequestContext, RequestPaths, RequestStep, RequestTerms,
    ResponseStatus, ReviewRequest, VerdictFile,
};
pub use approval::{
    APPROVAL_LIFETIME_MS, ApprovalDecision, ApprovalState, ApprovalTerms, ApprovalView, REASON_DIFFERENCE,
    approval_bound, lines_of_reason,
};
pub use attestation::Statement;
pub use audit::{Audit, AuditHead, AuditLine, RefusedBy};
pub use backend::{Backend, Backends, E2bConfig, MicrosandboxConfig, refuses_agent};
pub use config::{
    AgentConfig, AgentType, Budgets, Config, GraphConfig, IntentsConfig, LandingConfig, LandingMode, ModelApi,
    ModelPrice, PipelineConfig, ScopeConfig, ServerConfig, TlsConfig, TurnLimits, Usd,
};
pub use confinement::{History, Mode, SandboxConfig, SandboxLimits, WorkspaceConfig};
pub use event::{Event, EventLine, LINE_BYTES_MAX, LogName};
pub use fact::{
    Addition, ApprovalWait, Author, Base, BudgetExceeded, ChangeDropped, ChangeEnd, Earlier, End, Fact, Fork,
    GraphFact, ItemAdded, ItemBase, ItemEnded, Landing, LandingDeclined, LandingUndone, PatchApplied, ReceiptRef,
    RunStarted, StepCommitted, StepRef, Taken, TurnEnd, VerdictGiven,
};
pub use graph::{GraphTerms, NodeTerms, RoleName};
pub use hash::{Digest, Domain};
pub use id::{ApprovalId, RunId, Slug, SlugProblem};
pub use intent::{CompileMode, ConnectorConfig, IntentFact, IntentTerms};
pub use json::{Limits, Violation};
pub use nearest::nearest;
pub use object::{CommitId, ObjectId, ObjectIdProblem, TreeId};
pub use path::{RepoPath, printable};
pub use pipeline::{PipelineFact, PipelineTerms, ReviewTerms};
pub use policy::Policies;
pub use prompt::{BlockName, PromptBlock, PromptBlocks, Sent};
pub use receipt::{LeftOut, Receipt};
pub use session::{SessionEvent, SessionOutcome, Usage};
pub use status::{Budget, Reason, Role, Status, StepStatus, TaskStatus, Verdict};
pub use terms::{
    COMPILED_CONTRACT_FILE, CONTRACT_FILE, Contract, ContractSchema, RULES, RULES_ALL_FINDINGS, RULES_ALL_TESTS,
    RULES_BUILD_PRODUCTS, RULES_CHANGE_SIZE, RULES_COUNTED_OPS, RULES_FIXTURES, RULES_GIVEN_CONTRACT,
    RULES_GUARDED_TESTS, RULES_LARGE_FILES, RULES_LINE_ENDINGS, RULES_MERGE_LINES, RULES_MORE_TOKENS,
    RULES_NAMED_FILES, RULES_RESULT, RULES_SCHEMA_ENFORCED, RULES_UNTESTED, SUBMITTED_FILE, Scope, Workflow,
};
pub use time::Timestamp;
pub use view::{Check, LeftOutView, RunDetails, RunView, StepView, TaskView, TestsView};
pub use wait::{Answered, CHOICE_MORE, CHOICE_STOP, Wait, WaitId, WaitKind};
pub use work::{Item, ItemStatus};
