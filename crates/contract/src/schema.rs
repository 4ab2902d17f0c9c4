//! The documents that cross a boundary, each with its generated JSON Schema. `schemas/` holds them for outside
//! tools; a test compares, so a type cannot change without its schema.

use crate::policy::{CommandAllowlist, ForbiddenActions, ProtectedPathsFile, ScratchPathsFile, WidePathsFile};
use crate::{
    AgentRequest, AgentResponse, ApprovalView, AuditLine, Config, Contract, EventLine, Fact, Manifest, Receipt,
    RunView, TaskView, VerdictFile,
};
use serde_json::Value;

/// File name below `schemas/` and content of every schema, sorted by name.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("agent_request.v1.json", of::<AgentRequest>()),
        ("agent_response.v1.json", of::<AgentResponse>()),
        ("approval_view.v1.json", of::<ApprovalView>()),
        ("audit_line.v1.json", of::<AuditLine>()),
        ("command_allowlist.v1.json", of::<CommandAllowlist>()),
        ("config.v1.json", of::<Config>()),
        ("contract.v1.json", of::<Contract>()),
        ("event_line.v1.json", of::<EventLine>()),
        ("fact.v1.json", of::<Fact>()),
        ("forbidden_actions.v1.json", of::<ForbiddenActions>()),
        ("manifest.v1.json", of::<Manifest>()),
        ("protected_paths.v1.json", of::<ProtectedPathsFile>()),
        ("receipt.v1.json", of::<Receipt>()),
        ("run_view.v1.json", of::<RunView>()),
        ("scratch_paths.v1.json", of::<ScratchPathsFile>()),
        ("task_view.v1.json", of::<TaskView>()),
        ("verdict.v1.json", of::<VerdictFile>()),
        ("wide_paths.v1.json", of::<WidePathsFile>()),
    ]
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
}
