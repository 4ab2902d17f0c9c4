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

fn artifact() -> Value {
    json!({"name": "n", "path": "p", "sha256": "aB".repeat(32)})
}

/// A good document of each kind that norma or an agent writes.
fn good() -> Vec<(&'static str, Value)> {
    let time = "2026-02-06T10:00:00Z";
    let gate = json!({"passed": true});
    let hashes = run_manifest::EVIDENCE.map(|path| (path.to_owned(), json!("0".repeat(64))));
    vec![
        (
            "task_result",
            json!({"run_id": "r", "task_id": "t", "producer": {"role": "ORCHESTRATOR", "agent_id": "norma"},
                "status": "SUCCESS", "started_at": time, "finished_at": time, "summary": "", "artifacts": [artifact()],
                "git": {"baseline_ref": "a", "head_ref": "b", "changed_files": artifact(), "patch": artifact()},
                "gates": {"diff_gate": gate, "policy_gate": gate, "review_gate": gate, "tests_gate": gate},
                "next_steps": {"suggested_action": "none", "notes": ""}, "failure": null}),
        ),
        (
            "work_report",
            json!({"task_id": "t", "status": "aborted", "patch_ref": "", "diff_summary": "", "failure_reason": "",
                "evidence_refs": {"any": 1}, "role": "ORCHESTRATOR", "gates": {"tool_gate": {}}, "metrics": {"x": 1},
                "patch": {"path": "p", "sha256": "0".repeat(64)}, "timestamps": {"started_at": time}}),
        ),
        (
            "review_report",
            json!({"run_id": "r", "reviewer": {"role": "REVIEWER", "agent_id": "a"}, "reviewed_at": time,
                "verdict": "PASS", "summary": "", "scope_check": {"passed": true, "violations": []},
                "evidence": [artifact()], "produced_diff": false}),
        ),
        (
            "test_report",
            json!({"run_id": "r", "task_id": "t", "runner": {"role": "ORCHESTRATOR", "agent_id": "norma"},
                "started_at": time, "finished_at": time, "status": "ERROR", "artifacts": [], "failure": {"hint": "h"},
                "commands": [{"name": "unit", "cmd_argv": ["x"], "must_pass": true, "timeout_sec": 0.5,
                    "exit_code": -1, "duration_sec": 0, "stdout": artifact(), "stderr": artifact()}],
                "summary": {"passed": 1}}),
        ),
        (
            "reexec_report",
            json!({"run_id": "r", "status": "pass", "reexec_ts": time, "hard_equal_pass": true,
                "soft_equal_pass": false, "hard_diffs": [], "errors": [],
                "soft_diffs": [{"key": "k", "expected": null, "actual": [1], "more": true}]}),
        ),
        (
            "run_manifest",
            json!({"run_id": "20260206-1", "created_at": time, "status": "FAILURE", "user_request": "x",
                "trace_id": "0123456789", "repo": {"root": "/r", "baseline_ref": "a"},
                "versions": {"contracts_schema": "v1", "orchestrator": "0.1"}, "model": {"temperature": 2},
                "tasks": [{"task_id": "t", "role": "WORKER", "status": "BLOCKED", "contract": artifact()}],
                "artifacts": [], "evidence_hashes": Open::from_iter(hashes), "integrity": {}}),
        ),
        (
            "evidence_bundle",
            json!({"bundle_id": "12345678", "created_at": time, "limitations": [],
                "requested_by": {"role": "ORCHESTRATOR", "agent_id": "norma"},
                "query": {"raw_question": "", "refined_prompt": ""},
                "sources": [{"source_id": "s", "kind": "forum_thread", "title": "", "retrieved_at": time}],
                "claims": [{"claim_id": "c", "text": "", "status": "VERIFIED", "confidence": 1,
                    "supporting_source_ids": ["s"], "risk_if_wrong": "LOW"}]}),
        ),
        ("evidence_report", json!({"status": "fail", "missing": ["patch.diff"]})),
        (
            "agent_task_result",
            json!({"task_id": "t", "status": "BLOCKED", "summary": "", "evidence_refs": {}, "failure": null,
                "contracts": [{"any": 1}], "handoff_payload": {}}),
        ),
        (
            "run_result",
            json!({"status": "timeout", "receipt_id": "u", "receipt_path": "p", "modified_files": [],
                "created_files": [], "deleted_files": [], "output_hash": "0".repeat(64), "artifact_hashes": {},
                "metrics": {"execution_time_ms": 1, "tool_ops_count": 0, "delta_size": 0, "files_touched": 0}}),
        ),
    ]
}

#[test]
fn good_documents_fit_and_one_key_more_or_less_does_not() {
    for (name, document) in good() {
        let file = format!("{name}.v1.json");
        assert_eq!(violations(&file, &document), [""; 0], "{name}");
        let mut more = document.clone();
        more["unheard_of"] = json!(1);
        assert_eq!(violations(&file, &more), [""], "{name}");
        let schema: Value = serde_json::from_str(schema::built_in(&file).unwrap()).unwrap();
        for key in schema["required"].as_array().unwrap().iter().filter_map(Value::as_str) {
            let mut less = document.clone();
            assert!(less.as_object_mut().unwrap().remove(key).is_some(), "{name} lacks {key}");
            assert_eq!(violations(&file, &less), [""], "{name} without {key}");
        }
    }
}

#[test]
fn what_a_field_may_not_be_is_refused_where_it_is() {
    let cases: [(&str, &str, Value); 17] = [
        ("task_result", "/producer/role", json!("NOBODY")),
        ("task_result", "/status", json!("success")),
        ("task_result", "/git/head_ref", json!("")),
        ("task_result", "/artifacts/0/sha256", json!("g".repeat(64))),
        ("work_report", "/role", json!("FRONTEND")),
        ("work_report", "/status", json!("SUCCESS")),
        ("review_report", "/reviewer/role", json!("WORKER")),
        ("review_report", "/produced_diff", json!(true)),
        ("review_report", "/reviewed_at", json!("yesterday")),
        ("test_report", "/commands/0/cmd_argv", json!([])),
        ("test_report", "/commands/0/timeout_sec", json!(-1)),
        ("run_manifest", "/tasks", json!([])),
        ("run_manifest", "/status", json!("FAILED")),
        ("run_manifest", "/evidence_hashes", json!({})),
        ("run_manifest", "/model/temperature", json!(2.5)),
        ("evidence_bundle", "/claims/0/confidence", json!(1.1)),
        ("agent_task_result", "/handoff_payload", json!(null)),
    ];
    let good: std::collections::BTreeMap<_, _> = good().into_iter().collect();
    for (name, pointer, value) in cases {
        let mut document = good[name].clone();
        *document.pointer_mut(pointer).unwrap() = value;
        let found = violations(&format!("{name}.v1.json"), &document);
        assert!(!found.is_empty() && found.iter().all(|place| place == pointer), "{name} {pointer}: {found:?}");
    }
}

#[test]
fn documents_come_back_as_they_were_written() {
    fn again<T: DeserializeOwned + Document + Serialize>(document: &Value) -> Value {
        serde_json::to_value(read::<T>(document.to_string().as_bytes()).unwrap()).unwrap()
    }
    for (name, document) in good() {
        let back = match name {
            "task_result" => again::<TaskResult>(&document),
            "work_report" => again::<WorkReport>(&document),
            "review_report" => again::<ReviewReport>(&document),
            "test_report" => again::<TestReport>(&document),
            "reexec_report" => again::<ReexecReport>(&document),
            "run_manifest" => again::<RunManifest>(&document),
            "evidence_bundle" => again::<EvidenceBundle>(&document),
            "evidence_report" => again::<EvidenceReport>(&document),
            "agent_task_result" => again::<AgentTaskResult>(&document),
            _ => again::<RunResult>(&document),
        };
        assert_eq!(violations(&format!("{name}.v1.json"), &back), [""; 0], "{name}");
        assert_eq!(back["status"], document["status"], "{name}");
    }
}

#[test]
fn every_example_is_good_under_the_default_policies() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts");
    let mut kinds = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let (kind, items) = fixture::with_terms(|terms| compile(&bytes, terms));
        let items = items.unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()));
        kinds.push((kind.unwrap().as_str(), items.len()));
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [("task_contract", 1), ("work_items", 3), ("work_items", 3)]);
}
