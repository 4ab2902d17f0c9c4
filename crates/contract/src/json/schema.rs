//! JSON Schema for documents whose form somebody else decides: the answer of an agent against the schema that its
//! contract binds. Nothing is fetched, a `$ref` out of the schema is refused, and patterns are matched in linear time,
//! so neither a schema nor an answer can reach out or hold norma up.

use super::report::{VIOLATIONS_MAX, Violation, bounded};
use super::{Limits, parse};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// Longest message in characters: a schema may list thousands of alternatives.
const MESSAGE_CHARS_MAX: usize = 300;

/// Largest compiled pattern in bytes; `a{1000}{1000}` is a short text.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A schema, ready to be asked.
#[derive(Debug)]
pub struct Schema(Validator);

impl Schema {
    /// Reads a schema; draft 2020-12 unless its `$schema` names another one.
    pub fn compile(text: &[u8]) -> Result<Schema, Vec<Violation>> {
        Schema::build(&parse(text, &Limits::DOCUMENT)?)
    }

    /// The schema of one of norma's own types.
    pub(crate) fn of(schema: &Value) -> Schema {
        Schema::build(schema).expect("BUG: the schemas of types are verified by a test")
    }

    fn build(schema: &Value) -> Result<Schema, Vec<Violation>> {
        let compiled = jsonschema::options()
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
            .build(schema);
        compiled.map(Schema).map_err(|error| vec![violation(&error)])
    }

    /// Whether nothing is wrong with a value.
    pub(crate) fn is_met_by(&self, value: &Value) -> bool {
        self.0.is_valid(value)
    }

    /// Everything that is wrong with a value, as far as anybody would read it.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let mut errors = self.0.iter_errors(value);
        let mut listed: Vec<Violation> = errors.by_ref().take(VIOLATIONS_MAX).map(|error| violation(&error)).collect();
        let left_off = errors.count();
        if left_off > 0 {
            listed.push(Violation::document(format!("{left_off} more violations are not listed")));
        }
        listed
    }
}

/// Without the value itself, which may be as long as the document; its pointer is there.
fn violation(error: &ValidationError<'_>) -> Violation {
    let message = error.masked().to_string();
    let mut shown: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    if shown.len() < message.len() {
        shown.push('…');
    }
    Violation { pointer: bounded(error.instance_path().as_str().to_owned()), message: shown }
}

#[cfg(test)]
mod tests {
    use super::super::report::POINTER_BYTES_MAX;
    use super::*;
    use serde_json::json;

    fn compile(schema: &Value) -> Result<Schema, Vec<Violation>> {
        Schema::compile(schema.to_string().as_bytes())
    }

    fn said(schema: &Value, value: &Value) -> Vec<String> {
        compile(schema).unwrap().violations(value).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_violation_has_its_place_and_never_the_value() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["status"], "properties": {
            "status": {"enum": ["SUCCESS", "FAILED"]}, "name": {"type": "string", "pattern": "^[a-z]+$"},
            "list": {"items": {"$ref": "#/$defs/short"}}},
            "$defs": {"short": {"type": "string", "maxLength": 3}}});
        assert_eq!(said(&schema, &json!({"status": "SUCCESS", "name": "a", "list": ["b"]})), [""; 0]);
        let found = said(&schema, &json!({"status": "secret", "name": "A", "list": ["b", 7, "long"], "a/b": 1}));
        assert_eq!(
            found,
            [
                "/list/1: value is not of type \"string\"",
                "/list/2: value is longer than 3 characters",
                "/name: value does not match \"^[a-z]+$\"",
                "/status: value is not one of \"SUCCESS\" or \"FAILED\"",
                "(document): Additional properties are not allowed ('a/b' was unexpected)",
            ]
        );
    }

    #[test]
    fn a_schema_that_is_none_reaches_out_or_is_too_much_is_refused() {
        for schema in [
            json!({"type": 7}),
            json!({"$ref": "https://example.org/x.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "other.json"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$schema": "https://example.org/meta"}),
            json!({"pattern": "(a"}),
            json!({"pattern": "(?=a)b"}),
            json!({"pattern": "((a{100}){100}){100}"}),
            json!(["x"]),
        ] {
            assert!(compile(&schema).is_err(), "{schema}");
        }
        assert_eq!(Schema::compile(br#"{"a":1,"a":2}"#).unwrap_err()[0].to_string(), "/a: duplicate key");
        assert!(Schema::compile(b"").is_err());
    }

    #[test]
    fn what_is_said_is_bounded_whatever_is_asked() {
        let many = json!(vec![1; VIOLATIONS_MAX + 5]);
        let found = said(&json!({"items": {"type": "string"}}), &many);
        assert_eq!(found.len(), VIOLATIONS_MAX + 1);
        assert_eq!(found[VIOLATIONS_MAX], "(document): 5 more violations are not listed");
        let long = "k".repeat(5000);
        let found = compile(&json!({"additionalProperties": {"enum": [long]}})).unwrap().violations(&json!({&long: 1}));
        assert!(found[0].pointer.len() <= POINTER_BYTES_MAX + '…'.len_utf8());
        assert!(found[0].message.chars().count() <= MESSAGE_CHARS_MAX + 1);
    }

    #[test]
    fn patterns_and_references_that_never_end_do_end() {
        let schema = json!({"pattern": "^(a+)+$"});
        assert_eq!(said(&schema, &json!("a".repeat(5000) + "b")).len(), 1);
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        if let Ok(schema) = compile(&schema) {
            schema.violations(&json!({"x": 1}));
        }
    }
}
