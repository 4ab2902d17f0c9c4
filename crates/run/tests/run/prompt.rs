//! What a model is asked for: the form of its answer holds together, also where a contract brings a form of its own.

use crate::bundle::{Ends, item};
use contract::json::schema::Schema;
use contract::work::OutputSchema;
use contract::{Item, Role};
use run::prompt::answer_schema;
use serde_json::json;

#[test]
fn what_a_bound_schema_refers_to_can_be_found_in_the_whole() {
    let bound = json!({"$id": "x", "type": "object", "properties": {"a": {"$ref": "#/$defs/name"}}, "required": ["a"],
        "$defs": {"name": {"type": "string"}}});
    let text = bound.to_string();
    let sha256 = contract::hash::sha256(text.as_bytes());
    let output_schema = Some(OutputSchema { uri: "x".to_owned(), sha256, text, optional: false });
    let item = Item { output_schema, ..item("a", Ends::Landed) };
    let schema = Schema::compile(answer_schema(Role::Worker, Some(&item)).to_string().as_bytes()).unwrap();
    let answer = |a: serde_json::Value| {
        json!({"version": 1, "status": "ok", "summary": "s", "files": [], "next_actions": [], "errors": [],
            "result": {"a": a}})
    };
    assert!(schema.violations(&answer(json!("text"))).is_empty());
    assert!(!schema.violations(&answer(json!(1))).is_empty());
}
