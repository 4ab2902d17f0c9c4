//! Whether a provider would hold a model to a schema. OpenAI does so for schemas in which every object is closed and names
//! all of its members as required, and refuses the whole call for any other. An answer is judged by norma in any case.

use serde_json::Value;

/// Words that say more than such a schema may.
const FOREIGN: [&str; 9] = [
    "allOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "prefixItems",
    "dependentSchemas",
    "unevaluatedProperties",
    "contains",
];

/// Whether a schema is one that can be held to.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    if schema.contains_key("$ref") {
        return true;
    }
    let is_object = schema
        .get("type")
        .is_some_and(|kind| *kind == "object" || kind.as_array().is_some_and(|all| all.contains(&"object".into())));
    let closed = match schema.get("properties").and_then(Value::as_object) {
        Some(members) => {
            let required = schema.get("required").and_then(Value::as_array);
            let names = |name: &String| required.is_some_and(|all| all.iter().any(|one| one == name));
            schema.get("additionalProperties") == Some(&Value::Bool(false)) && members.keys().all(names)
        }
        None => !is_object,
    };
    let below = |key: &str| schema.get(key).and_then(Value::as_object).into_iter().flat_map(|all| all.values());
    let listed = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    closed
        && !FOREIGN.iter().any(|word| schema.contains_key(*word))
        && below("properties").chain(below("$defs")).chain(listed).chain(schema.get("items")).all(is_strict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_object_is_closed_and_asks_for_all_of_its_members() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false});
        let mut open = closed.clone();
        open["additionalProperties"] = json!(true);
        let mut optional = closed.clone();
        optional["required"] = json!([]);
        let within = |schema: &Value| json!({"type": "array", "items": schema});
        for good in [&closed, &within(&closed), &json!({"type": "string"}), &json!({"$ref": "#/$defs/a"})] {
            assert!(is_strict(good), "{good}");
        }
        let any = json!({"anyOf": [closed, optional]});
        for bad in
            [&open, &optional, &within(&open), &json!({"type": "object"}), &any, &json!({"allOf": []}), &json!(true)]
        {
            assert!(!is_strict(bad), "{bad}");
        }
        let mut defined = closed.clone();
        defined["$defs"] = json!({"x": {"type": "object"}});
        assert!(!is_strict(&defined));
    }
}
