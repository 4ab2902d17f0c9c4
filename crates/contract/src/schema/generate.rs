//! From types to schemas: what the derive cannot know, for types whose JSON form is written by hand, and for fields
//! that may be left out. Only tests generate schemas.

use super::JsonSchema;
use crate::config::Usd;
use crate::documents::agent_registry::{RoleContracts, RoleDefaults};
use crate::documents::{OrNull, Sha256};
use crate::path::PATH_BYTES_MAX;
use crate::{ApprovalId, CommitId, Digest, ObjectId, RepoPath, RunId, Slug, Timestamp, TreeId};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The schema of a type.
pub(crate) fn of<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// The schema of a document, which may name it if people write such documents.
pub(crate) fn document<T: JsonSchema>(name: &str) -> Value {
    let mut schema = of::<T>();
    if super::AUTHORED.contains(&name) {
        let about = "Where this schema is, for editors; norma does not read it.";
        schema["properties"][super::REFERENCE] = json!({"type": "string", "description": about});
    }
    schema
}

/// Types that are one JSON value, whose `Serialize` is written by hand.
macro_rules! schemas_by_hand {
    ($($kind:ident => $schema:tt,)*) => { $(
        impl JsonSchema for $kind {
            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )* };
}

schemas_by_hand! {
    ApprovalId => {"type": "string", "description": "The id of an approval: a UUID.", "format": "uuid"},
    CommitId => {"type": "string", "description": "The id of a commit in git.", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"},
    Digest => {"type": "string", "description": "A 256-bit digest in lowercase hex.", "pattern": "^[0-9a-f]{64}$"},
    ObjectId => {"type": "string", "description": "The id of an object in git.", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"},
    RepoPath => {
        "type": "string", "description": "A path relative to the repository's root, with `/` between components.",
        "minLength": 1, "maxLength": PATH_BYTES_MAX,
    },
    RunId => {"type": "string", "description": "The id of a run: a version 7 UUID.", "format": "uuid"},
    Sha256 => {"type": "string", "description": "A SHA-256 in hex.", "pattern": "^[a-fA-F0-9]{64}$"},
    Slug => {
        "type": "string", "description": "What people and directories call a run: its time and six digits.",
        "pattern": "^[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$",
    },
    Timestamp => {"type": "string", "description": "A time in UTC with milliseconds.", "format": "date-time"},
    TreeId => {"type": "string", "description": "The id of a tree in git.", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"},
    Usd => {"type": ["string", "number"], "description": "US dollars, such as 2.50"},
}

impl<T: JsonSchema> JsonSchema for OrNull<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OrNull_{}", T::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("{}::OrNull<{}>", module_path!(), T::schema_id()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"oneOf": [generator.subschema_for::<T>(), {"type": "null"}]})
    }
}

impl JsonSchema for RoleContracts {
    fn schema_name() -> Cow<'static, str> {
        "RoleContracts".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::RoleContracts").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let role = generator.subschema_for::<RoleDefaults>();
        json_schema!({"type": "object", "patternProperties": {"^[A-Z_]+$": role}, "additionalProperties": false})
    }
}

/// Serde takes null for a field that may be left out; the documents here do not.
pub(crate) fn absent_is_not_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let required: Vec<&str> = required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !required.contains(&name.as_str())) {
        drop_null(property);
    }
}

/// Takes the null out that `Option` puts into a schema: in a list of types, or as an alternative.
fn drop_null(property: &mut Value) {
    let Some(keywords) = property.as_object_mut() else { return };
    if let Some(types) = keywords.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            keywords.insert("type".to_owned(), only);
        }
    }
    if let Some(choices) = keywords.get_mut("enum").and_then(Value::as_array_mut) {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(mut branches) = keywords.get("anyOf").and_then(Value::as_array).cloned() {
        branches.retain(|branch| branch["type"] != "null");
        if let [Value::Object(only)] = branches.as_slice() {
            keywords.remove("anyOf");
            keywords.extend(only.clone());
        }
    }
}

/// The form becomes a part of that of a whole answer, where an `$id` would begin another document.
pub(crate) fn in_one_piece(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        property.remove("$id");
    }
}

/// A count that is null for no bound.
pub(crate) fn one_or_more_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["integer", "null"], "minimum": 1})
}
