//! The documents that cross a boundary, each with its JSON Schema. `schemas/` holds them for outside tools, and norma
//! reads by the same files, which are built in. They are generated from the types by a test, which compares, so a type
//! cannot change without its schema, and a build that only runs generates none.

#[cfg(test)]
pub(crate) mod generate;

#[cfg(not(test))]
pub(crate) use contract_derive::JsonSchema;
#[cfg(test)]
pub(crate) use schemars::JsonSchema;

use crate::api::{
    AddNode, Chat, ContractPreview, ForkRun, Intake, NewComment, NewIntake, NewRun, PatchNode, PatchRun, Problem,
    PutTemplate, ReplayRun, ResolveApproval, ResumeRun, RunEvent, SendBack, SetEdge, StartIntent,
};
use crate::bundle::BundleIndex;
use crate::documents::{
    AgentRegistry, AgentTaskResult, CompileAnswer, EvidenceBundle, EvidenceReport, Intent, OrchestratorEvent, Patch,
    Plan, Recipe, Recording, ReexecReport, ReviewAnswer, ReviewReport, RunManifest, RunResult, SandboxJob,
    SandboxResult, TaskContract, TaskResult, TechLeadAnswer, TestReport, WorkItem, WorkReport, Written,
};
use crate::json::schema::Schema;
use crate::policy::{
    CommandAllowlist, ForbiddenActions, McpAllowlist, ProtectedPathsFile, ScratchPathsFile, WidePathsFile,
};
use crate::receipt::BatchReceipt;
use crate::replay::ReplayReport;
use crate::view::graph::RunGraph;
use crate::view::intent::RunViewModel;
use crate::view::stream::StreamEvent;
use crate::{
    AgentRequest, AgentResponse, ApprovalView, AuditLine, Config, Contract, EventLine, Fact, Manifest, PromptBlocks,
    Receipt, RunView, SessionEvent, SessionOutcome, TaskView, VerdictFile,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The member of a document that names its schema.
const REFERENCE: &str = "$schema";

/// Documents that people write in an editor, which completes and checks them by the schema that they name. The member
/// means nothing else, and no other document may have it.
pub const AUTHORED: [&str; 9] = [
    "agent_registry.v1.json",
    "command_allowlist.v1.json",
    "config.v1.json",
    "forbidden_actions.v1.json",
    "mcp_allowlist.v1.json",
    "protected_paths.v1.json",
    "scratch_paths.v1.json",
    "task_contract.v1.json",
    "wide_paths.v1.json",
];

/// The text of an object with a member before all others that says where its schema is.
pub fn with_reference(object: &str, place: &str) -> String {
    let (before, members) = object.split_once('{').expect("BUG: a document that people write is an object");
    format!("{before}{{\n  \"{REFERENCE}\": {},{members}", Value::from(place))
}

/// What is read from outside is checked against its schema before it is decoded.
pub trait Document {
    /// The schema of this kind of document.
    fn form() -> &'static Form;
}

/// The schema of one kind of document. It is parsed when somebody asks, and compiled if need be; both stay until
/// [`let_go`].
#[derive(Debug)]
pub struct Form {
    source: fn() -> Value,
    made: Mutex<Weak<Made>>,
}

/// A schema as it is in memory.
#[derive(Debug)]
pub struct Made {
    /// As `schemas/` has it.
    pub value: Value,
    compiled: OnceLock<Schema>,
}

/// What was made of schemas since somebody let go of it.
static MADE: Mutex<Vec<Arc<Made>>> = Mutex::new(Vec::new());

/// Lets go of the schemas that are in memory: a few documents are read when a run starts, and none like them while it is
/// carried out. The next one has its schema made again, which takes less than a millisecond.
pub fn let_go() {
    let made = std::mem::take(&mut *MADE.lock().unwrap_or_else(PoisonError::into_inner));
    drop(made);
}

impl Form {
    const fn of(source: fn() -> Value) -> Form {
        Form { source, made: Mutex::new(Weak::new()) }
    }

    /// The schema itself.
    pub fn made(&self) -> Arc<Made> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Made { value: (self.source)(), compiled: OnceLock::new() });
            *made = Arc::downgrade(&new);
            MADE.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&new));
            new
        })
    }
}

impl Made {
    /// A document without the member by which its author told an editor where this schema is.
    pub(crate) fn without_reference(&self, mut document: Value) -> Value {
        if self.value["properties"].get(REFERENCE).is_some()
            && let Some(members) = document.as_object_mut()
        {
            members.remove(REFERENCE);
        }
        document
    }

    /// The schema with everything that can be checked: patterns and formats too.
    pub(crate) fn compiled(&self) -> &Schema {
        self.compiled.get_or_init(|| Schema::of(&self.value))
    }

    /// The schema of an array of such documents.
    fn array(&self) -> Value {
        let mut item = self.value.clone();
        let take = |item: &mut Value, key: &str| item.as_object_mut().and_then(|item| item.remove(key));
        let (dialect, title) = (take(&mut item, "$schema"), take(&mut item, "title").unwrap_or_default());
        let mut definitions = take(&mut item, "$defs").unwrap_or_else(|| json!({}));
        let name = title.as_str().expect("BUG: the schema of a type has its name");
        definitions[name] = item;
        json!({
            "$schema": dialect, "title": format!("Array_of_{name}"), "type": "array",
            "items": {"$ref": format!("#/$defs/{name}")}, "$defs": definitions,
        })
    }
}

fn parsed(name: &str) -> Value {
    let text = built_in(name).expect("BUG: documents are listed with their file");
    serde_json::from_str(text).expect("BUG: the schemas built in are verified by a test")
}

impl Document for Vec<WorkItem> {
    fn form() -> &'static Form {
        static FORM: Form = Form::of(|| WorkItem::form().made().array());
        &FORM
    }
}

/// One list for both: what a type's schema is, and the bytes of its file, which others bind by their SHA-256. A new
/// line needs an empty file to begin with.
macro_rules! schemas {
    ($($name:literal => $document:ty,)*) => {
        /// File name below `schemas/` of every schema, and what it is by its type.
        #[cfg(test)]
        pub(crate) fn all() -> Vec<(&'static str, Value)> {
            vec![$(($name, generate::document::<$document>($name))),*]
        }

        $(impl Document for $document {
            fn form() -> &'static Form {
                static FORM: Form = Form::of(|| parsed($name));
                &FORM
            }
        })*

        /// The files, byte for byte, sorted by name.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../schemas/", $name)))),*];
    };
}

schemas! {
    "add_node.v1.json" => AddNode,
    "agent_registry.v1.json" => AgentRegistry,
    "agent_request.v1.json" => AgentRequest,
    "agent_response.v1.json" => AgentResponse,
    "agent_task_result.v1.json" => AgentTaskResult,
    "approval_view.v1.json" => ApprovalView,
    "audit_line.v1.json" => AuditLine,
    "batch_receipt.v1.json" => BatchReceipt,
    "bundle_index.v1.json" => BundleIndex,
    "chat.v1.json" => Chat,
    "command_allowlist.v1.json" => CommandAllowlist,
    "compile_answer.v0.json" => CompileAnswer,
    "config.v1.json" => Config,
    "contract.v1.json" => Contract,
    "contract_preview.v1.json" => ContractPreview,
    "event_line.v1.json" => EventLine,
    "evidence_bundle.v1.json" => EvidenceBundle,
    "evidence_report.v1.json" => EvidenceReport,
    "fact.v1.json" => Fact,
    "forbidden_actions.v1.json" => ForbiddenActions,
    "fork_run.v1.json" => ForkRun,
    "intake.v1.json" => Intake,
    "intent.v0.json" => Intent,
    "manifest.v1.json" => Manifest,
    "mcp_allowlist.v1.json" => McpAllowlist,
    "new_comment.v1.json" => NewComment,
    "new_intake.v1.json" => NewIntake,
    "new_run.v1.json" => NewRun,
    "orchestrator_event.v1.json" => OrchestratorEvent,
    "patch.v0.json" => Patch,
    "patch_node.v1.json" => PatchNode,
    "patch_run.v1.json" => PatchRun,
    "plan.v0.json" => Plan,
    "pm_answer.v1.json" => Written,
    "problem.v1.json" => Problem,
    "prompt_blocks.v1.json" => PromptBlocks,
    "protected_paths.v1.json" => ProtectedPathsFile,
    "put_template.v1.json" => PutTemplate,
    "receipt.v1.json" => Receipt,
    "recipe.v0.json" => Recipe,
    "recording.v1.json" => Recording,
    "reexec_report.v1.json" => ReexecReport,
    "replay_report.v1.json" => ReplayReport,
    "replay_run.v1.json" => ReplayRun,
    "resolve_approval.v1.json" => ResolveApproval,
    "resume_run.v1.json" => ResumeRun,
    "review_answer.v1.json" => ReviewAnswer,
    "review_report.v1.json" => ReviewReport,
    "run_event.v0.json" => RunEvent,
    "run_graph.v1.json" => RunGraph,
    "run_manifest.v1.json" => RunManifest,
    "run_result.v1.json" => RunResult,
    "run_view.v1.json" => RunView,
    "run_view_model.v0.json" => RunViewModel,
    "sandbox_job.v0.json" => SandboxJob,
    "sandbox_result.v0.json" => SandboxResult,
    "scratch_paths.v1.json" => ScratchPathsFile,
    "send_back.v1.json" => SendBack,
    "session_event.v1.json" => SessionEvent,
    "session_outcome.v1.json" => SessionOutcome,
    "set_edge.v1.json" => SetEdge,
    "start_intent.v0.json" => StartIntent,
    "stream_event.v1.json" => StreamEvent,
    "task_contract.v1.json" => TaskContract,
    "task_result.v1.json" => TaskResult,
    "task_view.v1.json" => TaskView,
    "tech_lead_answer.v1.json" => TechLeadAnswer,
    "test_report.v1.json" => TestReport,
    "verdict.v1.json" => VerdictFile,
    "wide_paths.v1.json" => WidePathsFile,
    "work_item.v1.json" => WorkItem,
    "work_report.v1.json" => WorkReport,
}

/// The file name of every schema, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The bytes of a schema by its file name, as `schemas/` holds them.
pub fn built_in(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `NORMA_BLESS=1 cargo test -p contract` rewrites the files after a deliberate change.
    #[test]
    fn the_schemas_on_disk_are_the_types() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
        for (name, schema) in all() {
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
    fn the_schema_of_a_type_is_made_once_and_again_when_it_was_let_go() {
        let (one, other) = (TaskContract::form().made(), TaskContract::form().made());
        assert!(Arc::ptr_eq(&one, &other) && std::ptr::eq(one.compiled(), other.compiled()));
        assert!(std::ptr::eq(<Vec<WorkItem>>::form(), <Vec<WorkItem>>::form()));
        let (held, value) = (Arc::downgrade(&one), one.value.clone());
        drop((one, other));
        // Others make theirs meanwhile.
        while held.upgrade().is_some() {
            let_go();
        }
        assert_eq!(TaskContract::form().made().value, value);
    }

    #[test]
    fn the_schemas_that_the_specification_names_are_there() {
        for name in [
            "task_contract",
            "task_result",
            "work_report",
            "review_report",
            "test_report",
            "orchestrator_event",
            "reexec_report",
            "run_manifest",
            "evidence_bundle",
            "evidence_report",
            "agent_registry",
        ] {
            let path = format!("{}/../../schemas/{name}.v1.json", env!("CARGO_MANIFEST_DIR"));
            let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
            assert!(schema["required"].as_array().is_some_and(|fields| !fields.is_empty()), "{name}");
        }
    }

    #[test]
    fn what_people_write_may_name_its_schema_and_nothing_else_may() {
        let with = |name: &str| {
            let schema: Value = serde_json::from_str(built_in(name).unwrap()).unwrap();
            schema["properties"].get(REFERENCE).is_some()
        };
        assert_eq!(names().filter(|name| with(name)).collect::<Vec<_>>(), AUTHORED);
        let text = with_reference("{\n  \"a\": 1\n}\n", "schemas/x.json");
        assert_eq!(text, "{\n  \"$schema\": \"schemas/x.json\",\n  \"a\": 1\n}\n");
    }

    #[test]
    fn the_schema_of_an_array_is_that_of_its_type() {
        assert_eq!(Vec::<WorkItem>::form().made().value, generate::of::<Vec<WorkItem>>());
    }

    #[test]
    fn the_schemas_built_in_are_those_on_disk() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
        let on_disk = std::fs::read_dir(dir).unwrap().count();
        assert_eq!(on_disk, FILES.len(), "a file in schemas/ has no type");
        assert!(FILES.is_sorted(), "the list is not sorted");
        for (name, schema) in all() {
            let built_in: Value = serde_json::from_str(built_in(name).unwrap()).unwrap();
            assert_eq!(built_in, schema, "schemas/{name}");
        }
    }
}
