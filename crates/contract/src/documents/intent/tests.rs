//! Intents, the key of a request, what an answer may be, and recordings that were touched.

use super::super::fixture::said;
use super::super::{Patch, Plan, tests::violations};
use super::*;
use crate::json::schema::Schema;
use crate::{Digest, TurnLimits, hash, schema};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn intent() -> Value {
    json!({"goal": "daily brief", "inputs": {"topics": ["infra"], "count": 1}, "constraints": {}})
}

fn request(intent: &str, schema_version: u32, seed: &str) -> CompileRequest {
    let intent = Intent::read(intent.as_bytes()).unwrap();
    CompileRequest { intent, schema_version, seed: seed.to_owned() }
}

fn key(intent: &str) -> Digest {
    request(intent, 0, "").key()
}

/// A schema without what is only for people, and without the type that a list of words implies.
fn bare(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| {
                !(["$schema", "title", "description"].contains(&name.as_str()) && value.is_string())
            });
            if members.contains_key("enum") {
                members.remove("type");
            }
            if members.get("additionalProperties") == Some(&json!(true)) {
                members.remove("additionalProperties");
            }
            members.values_mut().for_each(bare);
        }
        Value::Array(items) => items.iter_mut().for_each(bare),
        _ => {}
    }
}

#[track_caller]
fn has_form(name: &str, expected: &Value) {
    let mut found: Value = serde_json::from_str(schema::built_in(name).unwrap()).unwrap();
    bare(&mut found);
    assert_eq!(&found, expected, "{name}");
}

#[test]
fn the_schemas_of_intent_plan_and_patch_are_those_of_the_document() {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    has_form(
        "intent.v0.json",
        &json!({"$id": "Intent.v0", "type": "object", "additionalProperties": false,
            "required": ["goal", "inputs", "constraints"],
            "properties": {"goal": {"type": "string", "minLength": 1}, "inputs": {"type": "object"},
                "constraints": {"type": "object"}, "connectors": texts}}),
    );
    has_form(
        "plan.v0.json",
        &json!({"$id": "Plan.v0", "type": "object", "additionalProperties": false, "required": ["nodes"],
            "properties": {"nodes": {"type": "array", "items": {
                "type": "object", "additionalProperties": false, "required": ["id", "kind", "deps"],
                "properties": {"id": {"type": "string"}, "kind": {"enum": ["compute", "decision", "io", "approval"]},
                    "deps": texts, "budget": {"type": "object"}}}}}}),
    );
    has_form(
        "patch.v0.json",
        &json!({"$id": "Patch.v0", "type": "object", "additionalProperties": false, "required": ["files"],
            "properties": {"files": {"type": "array", "items": {
                "type": "object", "additionalProperties": false, "required": ["path", "diff"],
                "properties": {"path": {"type": "string"}, "diff": {"type": "string"}}}}, "tests": texts}}),
    );
    let objects = json!({"type": "array", "items": {"type": "object"}});
    let words = ["queued", "running", "waiting_input", "succeeded", "failed", "canceled"];
    has_form(
        "run_view_model.v0.json",
        &json!({"$id": "RunViewModel.v0", "type": "object", "additionalProperties": false,
            "required": ["runId", "status", "steps", "artifacts"],
            "properties": {"runId": {"type": "string"}, "status": {"enum": words}, "steps": objects,
                "artifacts": objects, "traceId": {"type": "string"}}}),
    );
}

#[test]
fn an_intent_is_read_strictly() {
    let refused = |text: &str| said(&Intent::read(text.as_bytes()).unwrap_err());
    Intent::read(intent().to_string().as_bytes()).unwrap();
    Intent::read(br#"{"goal":"g","inputs":{},"constraints":{"deep":[{"a":null}]},"connectors":[]}"#).unwrap();
    let cases = [
        ("[]", ""),
        (r#"{"inputs":{},"constraints":{}}"#, ""),
        (r#"{"goal":"g","constraints":{}}"#, ""),
        (r#"{"goal":"g","inputs":{}}"#, ""),
        (r#"{"goal":"","inputs":{},"constraints":{}}"#, "/goal"),
        (r#"{"goal":7,"inputs":{},"constraints":{}}"#, "/goal"),
        (r#"{"goal":"g","inputs":[],"constraints":{}}"#, "/inputs"),
        (r#"{"goal":"g","inputs":{},"constraints":"x"}"#, "/constraints"),
        (r#"{"goal":"g","inputs":{},"constraints":{},"connectors":[1]}"#, "/connectors/0"),
        (r#"{"goal":"g","inputs":{},"constraints":{},"connectors":null}"#, "/connectors"),
        (r#"{"goal":"g","inputs":{},"constraints":{},"more":1}"#, "/more"),
        (r#"{"goal":"g","goal":"h","inputs":{},"constraints":{}}"#, "/goal"),
        (r#"{"goal":"g","inputs":{"n":9007199254740993},"constraints":{}}"#, "/inputs/n"),
    ];
    for (text, pointer) in cases {
        let found = Intent::read(text.as_bytes()).unwrap_err();
        assert!(found.iter().any(|it| it.pointer == pointer), "{text}: {:?}", refused(text));
    }
    assert_eq!(violations("intent.v0.json", &json!({"goal": "", "inputs": {}, "constraints": {}})), ["/goal"]);
}

#[test]
fn the_key_is_the_sha256_of_the_request_in_its_one_spelling() {
    let request = request(r#"{"inputs":{"b":1.0,"a":-0},"goal":"é","constraints":{}}"#, 2, "s");
    let canonical = r#"{"intent":{"constraints":{},"goal":"é","inputs":{"a":0,"b":1}},"schemaVersion":2,"seed":"s"}"#;
    assert_eq!(String::from_utf8(request.canonical()).unwrap(), canonical);
    assert_eq!(request.key(), hash::sha256(canonical.as_bytes()));
}

#[test]
fn the_key_does_not_hang_on_the_order_of_keys_or_the_spelling_of_numbers() {
    let one = key(r#"{"goal":"g","inputs":{"a":1,"b":{"x":100,"y":0.5}},"constraints":{}}"#);
    for other in [
        r#"{"constraints":{},"inputs":{"b":{"y":0.5,"x":100},"a":1},"goal":"g"}"#,
        r#" { "goal" : "\u0067", "inputs" : {"a":1.0,"b":{"x":1e2,"y":5e-1}}, "constraints" : { } } "#,
    ] {
        assert_eq!(key(other), one, "{other}");
    }
    let base = r#"{"goal":"g","inputs":{},"constraints":{}}"#;
    let keys = [
        key(base),
        one,
        key(r#"{"goal":"g","inputs":{},"constraints":{},"connectors":[]}"#),
        key(r#"{"goal":"g","inputs":{"a":"1"},"constraints":{}}"#),
        key(r#"{"goal":"g","inputs":{"a":[1,2]},"constraints":{}}"#),
        key(r#"{"goal":"g","inputs":{"a":[2,1]},"constraints":{}}"#),
        request(base, 1, "").key(),
        request(base, 0, "1").key(),
    ];
    let different: std::collections::BTreeSet<Digest> = keys.into_iter().collect();
    assert_eq!(different.len(), keys.len());
}

/// Any value that an intent may hold.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The same value as somebody else would write it: the last key first, whole numbers with a point.
fn otherwise(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().rev().map(|(name, value)| format!("{} : {}", json!(name), otherwise(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(" , "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(otherwise).collect::<Vec<_>>().join(",\n")),
        Value::Number(number) if number.is_i64() => format!("{number}.0"),
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn however_a_request_is_spelt_its_key_is_the_same(
        goal in ".+", inputs in proptest::collection::btree_map(any::<String>(), value(), 0..4), seed: String, other: String,
    ) {
        let inputs: Map<String, Value> = inputs.into_iter().collect();
        let intent = json!({"goal": goal, "inputs": inputs, "constraints": {}});
        let one = request(&intent.to_string(), 0, &seed);
        prop_assert_eq!(request(&otherwise(&intent), 0, &seed).key(), one.key());
        prop_assert_eq!(request(&intent.to_string(), 0, &other).key() == one.key(), seed == other);
        let again: CompileRequest = serde_json::from_slice(&one.canonical()).unwrap();
        prop_assert_eq!(again.key(), one.key());
    }
}

fn answer() -> Value {
    json!({
        "plan": {"nodes": [{"id": "a", "kind": "compute", "deps": []}, {"id": "b", "kind": "io", "deps": ["a"]}]},
        "patch": {"files": [{"path": "src/lib.txt", "diff": "--- a\n+++ b\n"}], "tests": ["make test"]},
        "tests": ["make test"],
    })
}

#[track_caller]
fn refused(change: impl FnOnce(&mut Value), expected: &[&str]) {
    let mut answer = answer();
    change(&mut answer);
    assert_eq!(said(&CompileAnswer::read(answer.clone()).unwrap_err()), expected);
    let by_form = Schema::compile(schema::built_in("compile_answer.v0.json").unwrap().as_bytes()).unwrap();
    assert_eq!(by_form.violations(&answer), [], "a violation that the form can say is said by the form");
}

#[test]
fn an_answer_that_is_too_much_is_refused_with_every_reason() {
    CompileAnswer::read(answer()).unwrap();
    let node = |id: usize| json!({"id": id.to_string(), "kind": "compute", "deps": []});
    let file = |id: usize| json!({"path": format!("f{id}"), "diff": "x".repeat(20_000)});
    refused(|it| it["plan"]["nodes"] = json!([]), &["/plan/nodes: there is no node in it"]);
    refused(
        |it| it["plan"]["nodes"] = (0..31).map(node).collect(),
        &["/plan/nodes: there are 31 nodes, and 30 are the most"],
    );
    refused(
        |it| {
            it["patch"]["files"] = (0..31).map(file).collect();
            it["patch"]["files"][3]["diff"] = json!("ä".repeat(20_001));
            it["patch"]["tests"] = json!(vec!["t"; 21]);
            it["tests"] = json!(vec!["t"; 21]);
        },
        &[
            "/patch/files: there are 31 files, and 30 are the most",
            "/patch/files/3/diff: there are 20001 characters, and 20000 are the most",
            "/patch/tests: there are 21 tests, and 20 are the most",
            "/tests: there are 21 tests, and 20 are the most",
        ],
    );
    let mut most = answer();
    most["plan"]["nodes"] = (0..30).map(node).collect();
    most["patch"]["files"] = (0..30).map(file).collect();
    most["tests"] = json!(vec!["t"; 20]);
    CompileAnswer::read(most).unwrap();
}

#[test]
fn paths_of_an_answer_are_files_of_the_repository_each_named_once() {
    for path in ["/etc/passwd", "../up", "a/../b", "a\\b", "a\u{0}b", "", ".git/config"] {
        let mut bad = answer();
        bad["patch"]["files"][0]["path"] = json!(path);
        let found = CompileAnswer::read(bad).unwrap_err();
        assert_eq!(found[0].pointer, "/patch/files/0/path", "{path:?}");
    }
    refused(
        |it| it["patch"]["files"] = json!([{"path": "a", "diff": ""}, {"path": "a", "diff": "x"}]),
        &["/patch/files/1/path: \"a\" is there twice"],
    );
}

#[test]
fn the_graph_of_an_answers_plan_is_held_to_what_plans_are_held_to() {
    refused(
        |it| {
            it["plan"]["nodes"][0]["deps"] = json!(["b", "c"]);
        },
        &[
            "/plan/nodes/0/deps/1: there is no node \"c\" in this plan",
            "/plan/nodes/0/deps: these nodes wait for each other: a → b → a",
        ],
    );
}

#[test]
fn the_form_of_an_answer_stands_alone() {
    let text = schema::built_in("compile_answer.v0.json").unwrap();
    assert!(!text.contains("$ref") && !text.contains("\"$id\""), "{text}");
    for (pointer, value) in
        [("/plan/nodes/0/kind", json!("shell")), ("/patch/files/0/path", json!(1)), ("/tests/0", json!({}))]
    {
        let mut bad = answer();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert_eq!(violations("compile_answer.v0.json", &bad), [pointer]);
    }
    for part in ["/plan", "/plan/nodes/0", "/patch", "/patch/files/0", ""] {
        let mut bad = answer();
        bad.pointer_mut(part).unwrap()["more"] = json!(1);
        assert_eq!(violations("compile_answer.v0.json", &bad), [part]);
    }
}

#[test]
fn a_plan_and_a_patch_have_their_form_and_no_other() {
    for (name, mut document, required) in [
        ("plan.v0.json", answer()["plan"].clone(), &["", "/nodes/0"][..]),
        ("patch.v0.json", answer()["patch"].clone(), &["", "/files/0"][..]),
    ] {
        assert_eq!(violations(name, &document), [""; 0]);
        for part in required {
            let whole = document.pointer(part).unwrap().clone();
            for key in whole.as_object().unwrap().keys().filter(|key| *key != "tests") {
                document.pointer_mut(part).unwrap().as_object_mut().unwrap().remove(key);
                assert_eq!(violations(name, &document), [*part], "{name} without {key}");
                *document.pointer_mut(part).unwrap() = whole.clone();
            }
        }
    }
}

#[test]
fn a_request_becomes_an_item_that_may_change_nothing_and_whose_answer_is_bound() {
    let limits = TurnLimits { protocol_retries: Some(1), step_seconds: 60, ..TurnLimits::default() };
    let one = request(&intent().to_string(), 7, "a \"seed\"");
    let item = one.item("opencode", &limits).unwrap();
    assert!(item.read_only && item.audit_only && item.tests.is_empty());
    assert_eq!((item.rights, item.retries, item.timeout_ms), (crate::work::Rights::default(), 1, 60_000));
    assert_eq!(item.submitted, one.key());
    assert_eq!(item.output_schema.unwrap().text, schema::built_in("compile_answer.v0.json").unwrap());
    let told = r#"{"constraints":{},"goal":"daily brief","inputs":{"count":1,"topics":["infra"]}}"#;
    assert!(item.goal.contains(told) && item.goal.ends_with(r#"schemaVersion 7, seed "a \"seed\"""#), "{}", item.goal);
    let mut long = intent();
    long["inputs"]["text"] = json!("x".repeat(super::super::ITEM_BYTES_MAX));
    let problems = request(&long.to_string(), 0, "").item("opencode", &limits).unwrap_err();
    assert!(said(&problems)[0].starts_with("/intent: is "), "{problems:?}");
}

fn recording() -> Recording {
    let transcript = Transcript {
        run_id: "20260123-145501-ab12cd".to_owned(),
        session_id: "s-1".to_owned(),
        agent: "opencode".to_owned(),
        model: None,
        text: "# steps/001-worker\n".to_owned(),
    };
    let mut answer = answer();
    answer["plan"]["nodes"][0]["budget"] = json!({"usd": 1.0});
    let output = CompileOutput::new(CompileAnswer::read(answer).unwrap(), transcript);
    Recording::new(request(&intent().to_string(), 0, "s"), output)
}

#[test]
fn a_recording_comes_back_byte_for_byte() {
    let one = recording();
    let again = Recording::read(&one.to_bytes(), &one.key).unwrap();
    assert_eq!((again.to_bytes(), again.response.canonical()), (one.to_bytes(), one.response.canonical()));
    assert_eq!(one.key, one.request.key());
}

#[test]
fn a_recording_that_was_touched_is_refused() {
    let one = recording();
    let whole: Value = serde_json::from_slice(&one.to_bytes()).unwrap();
    for (pointer, value) in [
        ("/response/patch/files/0/diff", json!("another")),
        ("/response/tests", json!([])),
        ("/response/transcript/session_id", json!("s-2")),
        ("/request/seed", json!("t")),
        ("/key", json!(hash::sha256(b"another").to_string())),
        ("/sha256", json!(hash::sha256(b"another").to_string())),
    ] {
        let mut touched = whole.clone();
        *touched.pointer_mut(pointer).unwrap() = value;
        let found = Recording::read(touched.to_string().as_bytes(), &one.key).unwrap_err();
        assert_eq!(said(&found), ["/sha256: it was changed after it was recorded"], "{pointer}");
    }
    let other = hash::sha256(b"another");
    let found = Recording::read(&one.to_bytes(), &other).unwrap_err();
    assert_eq!(said(&found), ["/key: it is the recording of another request"]);
    assert!(Recording::read(&one.to_bytes()[..100], &one.key).is_err());
}

#[test]
fn a_recording_whose_answer_would_be_refused_is_refused() {
    let mut response = recording().response;
    response.plan = Plan { nodes: Vec::new() };
    response.patch = Patch { files: Vec::new(), tests: None };
    let bad = Recording::new(recording().request, response);
    assert_eq!(said(&Recording::read(&bad.to_bytes(), &bad.key).unwrap_err()), ["/plan/nodes: there is no node in it"]);
}
