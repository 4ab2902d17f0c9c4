//! What the schemas take and what they do not, document by document.

use super::*;
use crate::json::schema::Schema as Compiled;
use crate::schema;
use serde_json::json;

/// The places where a document does not fit its schema, sorted.
#[track_caller]
pub(super) fn violations(name: &str, document: &Value) -> Vec<String> {
    let schema = Compiled::compile(schema::built_in(name).unwrap().as_bytes()).unwrap();
    let mut found: Vec<String> = schema.violations(document).into_iter().map(|violation| violation.pointer).collect();
    found.sort();
    found
}

#[test]
fn every_schema_is_one_and_those_of_documents_are_closed() {
    for (name, value) in schema::all() {
        Compiled::compile(value.to_string().as_bytes()).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
    }
    for name in ["agent_registry", "task_contract", "task_result", "work_report", "review_report", "test_report"] {
        let text = schema::built_in(&format!("{name}.v1.json")).unwrap();
        let schema: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema["additionalProperties"], json!(false), "{name}");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
    }
}
