//! Each rule over work items, with the exact place that a bad one is told.

use super::super::fixture::{said, with_terms};
use super::*;
use crate::work::{Item, NetworkRight, ShellRight};
use serde_json::{Value, json};

fn compiled(document: &Value) -> Result<Vec<Item>, Vec<String>> {
    let bytes = document.to_string().into_bytes();
    let items = with_terms(|terms| read_batch(&bytes).and_then(|batch| compile_batch(&batch, &bytes, terms)));
    items.map_err(|violations| said(&violations))
}

fn item(id: &str, dependencies: &[&str]) -> Value {
    json!({"id": id, "agent_id": "agent-1", "description": "Do it.", "dependencies": dependencies})
}

#[test]
fn the_example_of_the_contract_reads_as_it_is_written() {
    let items = compiled(&json!({
        "id": "work-item-1",
        "agent_id": "agent-1",
        "description": "Implement KnowledgeStore contract",
        "dependencies": [],
        "constraints": {"max_files": 5, "max_tool_ops": 20, "max_delta_size": 50, "timeout_ms": 60000},
        "budget": {"time_estimate_ms": 30000, "complexity": "medium"},
        "output_files": ["/docs/contracts/KnowledgeStore.contract.md"],
        "test_command": "node validate-contract.mjs KnowledgeStore",
    }));
    let item = &items.unwrap()[0];
    assert_eq!((item.id.as_str(), item.worker.as_str(), item.role.as_str()), ("work-item-1", "worker", "WORKER"));
    assert_eq!(item.output_files[0].as_str(), "docs/contracts/KnowledgeStore.contract.md");
    assert_eq!(item.tests[0].argv, ["node", "validate-contract.mjs", "KnowledgeStore"]);
    assert!(item.tests[0].must_pass);
    assert_eq!(item.constraints.max_files, Some(5));
    assert_eq!(item.timeout_ms, 60_000);
    assert_eq!((item.rights.shell, item.rights.network), (ShellRight::Never, NetworkRight::Deny));
}

#[test]
fn what_is_left_out_of_the_constraints_has_its_default() {
    let mut partial = item("a", &[]);
    partial["constraints"] = json!({"max_files": 1});
    for (document, max_files) in [(item("a", &[]), 10), (partial, 1)] {
        let item = compiled(&document).unwrap().remove(0);
        let limits = item.constraints;
        let found = (limits.max_files, limits.max_tool_ops, limits.max_delta_size, item.timeout_ms);
        assert_eq!(found, (Some(max_files), Some(50), Some(100), 300_000));
    }
}

#[test]
fn the_entry_named_like_the_agent_comes_first() {
    let mut named = item("a", &[]);
    named["agent_id"] = json!("agent-3");
    assert_eq!(compiled(&json!([named])).unwrap()[0].worker, "agent-3");
}

#[test]
fn one_bad_item_refuses_the_whole_batch_with_everything_that_is_wrong() {
    let mut bad = item(".hidden", &["c"]);
    bad["agent_id"] = json!("nobody");
    bad["input_files"] = json!(["/ok.txt", "../x"]);
    bad["output_files"] = json!([".norma/x"]);
    bad["allowed_paths"] = json!(["src/**"]);
    bad["test_command"] = json!("a | b");
    bad["constraints"] = json!({"timeout_ms": 604_800_001});
    bad["description"] = json!(" ");
    let found = compiled(&json!([item("a", &[]), bad, item("A", &["b"])])).unwrap_err();
    assert_eq!(
        found,
        [
            "/1/agent_id: \"nobody\" is not registered as WORKER; see policies/agent_registry.json",
            "/1/description: is blank",
            "/1/test_command: '|' (character 3) means something to a shell, and there is none; quote it with '…', or \
             use a script",
            "/1/id: \".hidden\" becomes a directory: letters, digits, `.`, `_` and `-`, not a `.` first",
            "/1/allowed_paths/0: \"src/**\" is a glob; name a file or a directory, which stands for everything below it",
            "/1/input_files/1: path \"../x\" contains a `..` component",
            "/1/output_files/0: \".norma/x\" is in the state directory, which is not for agents",
            "/1/constraints/timeout_ms: longer than a week",
            "/2/id: another item is called \"A\" too",
            "/1/dependencies/0: there is no item \"c\" in this batch",
            "/2/dependencies/0: there is no item \"b\" in this batch",
        ]
    );
}

#[test]
fn the_form_is_held_item_by_item() {
    let mut unknown = item("a", &[]);
    unknown["prompt"] = json!("x");
    unknown["constraints"] = json!({"timeout_ms": 0});
    let found = compiled(&json!([item("b", &[]), unknown])).unwrap_err();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], "/1/constraints/timeout_ms: expected at least 1, found 0");
    assert!(found[1].starts_with("/1/prompt: unknown key, expected "), "{}", found[1]);
    assert_eq!(compiled(&json!([])).unwrap_err(), ["(document): there is no work item in it"]);
    assert_eq!(compiled(&json!(7)).unwrap_err(), ["(document): expected array, found number"]);
    let many: Vec<Value> = (0..=ITEMS_MAX).map(|index| item(&format!("i{index}"), &[])).collect();
    assert_eq!(
        compiled(&json!(many)).unwrap_err(),
        ["(document): there are 10001 work items, and a batch has at most 10000"]
    );
}

#[test]
fn items_that_wait_for_each_other_are_named_ring_by_ring() {
    let batch = json!([
        item("start", &[]),
        item("a", &["start", "c"]),
        item("b", &["a"]),
        item("c", &["b"]),
        item("self", &["self"]),
        item("after", &["a", "self"]),
    ]);
    assert_eq!(
        compiled(&batch).unwrap_err(),
        [
            "/1/dependencies: these items wait for each other: a → c → b → a",
            "/4/dependencies: these items wait for each other: self → self",
        ]
    );
    let single = compiled(&item("x", &["x"])).unwrap_err();
    assert_eq!(single, ["/dependencies: these items wait for each other: x → x"]);
}

#[test]
fn a_batch_keeps_its_order_and_its_needs() {
    let levels = [("1", &[][..]), ("2", &[]), ("4", &["1", "2"]), ("0", &["1", "2", "4"])];
    let batch: Vec<Value> = levels.iter().map(|(id, needs)| item(id, needs)).collect();
    let items = compiled(&json!(batch)).unwrap();
    for (item, (id, needs)) in items.iter().zip(levels) {
        assert_eq!(item.id, id);
        assert_eq!(item.needs, needs);
    }
}

#[test]
fn an_item_that_does_not_fit_into_the_log_is_refused() {
    let mut long = item("a", &[]);
    long["description"] = json!("é".repeat(70 << 10));
    let found = compiled(&json!([long])).unwrap_err();
    assert!(found[0].starts_with("/0: is 14"), "{found:?}");
}

#[test]
fn items_that_are_added_may_need_those_that_are_there_and_are_none_of_them() {
    assert!(compiled(&json!([item("new", &["here"])])).is_ok());
    let refused = compiled(&json!([item("here", &[])])).unwrap_err();
    assert_eq!(refused, ["/0/id: another item is called \"here\" too"]);
}

#[test]
fn a_scope_of_exact_files_is_its_own_limit() {
    let limits = |members: Value| {
        let mut document = item("a", &[]);
        for (name, value) in members.as_object().unwrap() {
            document[name] = value.clone();
        }
        let constraints = compiled(&document).unwrap().remove(0).constraints;
        (constraints.max_files.unwrap(), constraints.max_delta_size.unwrap())
    };
    let files: Vec<String> = (0..150).map(|number| format!("new/{number}.txt")).collect();
    assert_eq!(limits(json!({"allowed_paths": files})), (150, 150));
    assert_eq!(limits(json!({"allowed_paths": ["docs/notes.md"]})), (1, 100));
    assert_eq!(limits(json!({"allowed_paths": ["docs/notes.md", "src"]})), (50, 100));
    assert_eq!(limits(json!({"allowed_paths": ["new/"]})), (50, 100));
    assert_eq!(limits(json!({})), (10, 100));
    assert_eq!(limits(json!({"allowed_paths": files, "constraints": {"max_files": 3}})), (3, 100));
}

#[test]
fn items_together_are_larger_than_one_document() {
    let words = "w".repeat(100 << 10);
    let large =
        |id: usize| json!({"id": format!("i{id}"), "agent_id": "agent-1", "description": words, "dependencies": []});
    let many: Vec<Value> = (0..12).map(large).collect();
    assert_eq!(compiled(&json!(many)).map(|items| items.len()), Ok(12));
    let mut alone = large(0);
    alone["description"] = json!(words.repeat(11));
    assert!(compiled(&alone).unwrap_err()[0].ends_with("bytes is larger than 1048576"));
}
