//! The documents that cross a boundary, each with its generated JSON Schema. `schemas/` holds them for outside
//! tools; a test compares, so a type cannot change without its schema.

use crate::bundle::BundleIndex;
use crate::documents::{
    AgentRegistry, AgentTaskResult, CompileAnswer, EvidenceBundle, EvidenceReport, Intent, OrchestratorEvent, Patch,
    Plan, Recording, ReexecReport, ReviewReport, RunManifest, RunResult, TaskContract, TaskResult, TestReport,
    WorkItem, WorkReport,
};
use crate::policy::{
    CommandAllowlist, ForbiddenActions, McpAllowlist, ProtectedPathsFile, ScratchPathsFile, WidePathsFile,
};
use crate::replay::ReplayReport;
use crate::{
    AgentRequest, AgentResponse, ApprovalView, AuditLine, Config, Contract, EventLine, Fact, Manifest, PromptBlocks,
    Receipt, RunView, SessionEvent, SessionOutcome, TaskView, VerdictFile,
};
use serde_json::Value;

/// One list for both: what a type's schema is, and the bytes of its file, which others bind by their SHA-256. A new
/// line needs an empty file to begin with.
macro_rules! schemas {
    ($($name:literal => $document:ty,)*) => {
        /// File name below `schemas/` and content of every schema, sorted by name.
        pub fn all() -> Vec<(&'static str, Value)> {
            vec![$(($name, of::<$document>())),*]
        }

        /// The same files, byte for byte.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../schemas/", $name)))),*];
    };
}

schemas! {
    "agent_registry.v1.json" => AgentRegistry,
    "agent_request.v1.json" => AgentRequest,
    "agent_response.v1.json" => AgentResponse,
    "agent_task_result.v1.json" => AgentTaskResult,
    "approval_view.v1.json" => ApprovalView,
    "audit_line.v1.json" => AuditLine,
    "bundle_index.v1.json" => BundleIndex,
    "command_allowlist.v1.json" => CommandAllowlist,
    "compile_answer.v0.json" => CompileAnswer,
    "config.v1.json" => Config,
    "contract.v1.json" => Contract,
    "event_line.v1.json" => EventLine,
    "evidence_bundle.v1.json" => EvidenceBundle,
    "evidence_report.v1.json" => EvidenceReport,
    "fact.v1.json" => Fact,
    "forbidden_actions.v1.json" => ForbiddenActions,
    "intent.v0.json" => Intent,
    "manifest.v1.json" => Manifest,
    "mcp_allowlist.v1.json" => McpAllowlist,
    "orchestrator_event.v1.json" => OrchestratorEvent,
    "patch.v0.json" => Patch,
    "plan.v0.json" => Plan,
    "prompt_blocks.v1.json" => PromptBlocks,
    "protected_paths.v1.json" => ProtectedPathsFile,
    "receipt.v1.json" => Receipt,
    "batch_receipt.v1.json" => crate::receipt::BatchReceipt,
    "recording.v1.json" => Recording,
    "reexec_report.v1.json" => ReexecReport,
    "replay_report.v1.json" => ReplayReport,
    "review_report.v1.json" => ReviewReport,
    "run_manifest.v1.json" => RunManifest,
    "run_result.v1.json" => RunResult,
    "run_view.v1.json" => RunView,
    "scratch_paths.v1.json" => ScratchPathsFile,
    "session_event.v1.json" => SessionEvent,
    "session_outcome.v1.json" => SessionOutcome,
    "task_contract.v1.json" => TaskContract,
    "task_result.v1.json" => TaskResult,
    "task_view.v1.json" => TaskView,
    "test_report.v1.json" => TestReport,
    "verdict.v1.json" => VerdictFile,
    "wide_paths.v1.json" => WidePathsFile,
    "work_item.v1.json" => WorkItem,
    "work_report.v1.json" => WorkReport,
}

/// The bytes of a schema by its file name, as `schemas/` holds them.
pub fn built_in(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

fn of<T: schemars::JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// `NORMA_BLESS=1 cargo test -p contract` rewrites the files after a deliberate change.
    #[test]
    fn the_schemas_on_disk_are_the_types() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
        for (name, schema) in super::all() {
            let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            let path = dir.join(name);
            if std::env::var_os("NORMA_BLESS").is_some() {
                std::fs::write(&path, &expected).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(found, expected, "schemas/{name} differs from its type");
        }
    }
    #[test]
    fn the_schemas_built_in_are_those_on_disk() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
        let on_disk = std::fs::read_dir(dir).unwrap().count();
        assert_eq!(on_disk, super::FILES.len(), "a file in schemas/ has no type");
        assert!(super::FILES.is_sorted(), "the list is not sorted");
        for (name, schema) in super::all() {
            let built_in: serde_json::Value = serde_json::from_str(super::built_in(name).unwrap()).unwrap();
            assert_eq!(built_in, schema, "schemas/{name}");
        }
    }
}
