//! `/openapi.json` against the server that serves it: schemathesis makes requests of every route from the document, good
//! ones and bad ones, and every answer has to be one that the document has. It is installed below `target/`
//! (`cargo xtask schemathesis`); where it is not there, this is not run.

use crate::batches::with_worker;
use crate::environment::{TestEnvironment, scripted_agent};
use crate::serve::{Served, serve};
use serde_json::{Value, json};
use std::path::Path;

/// Everything that it can find fault with, but for requests that fit their schema and are refused: a document cannot say
/// which cursor is one, or which paths a contract may name.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
    response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,\
    allow_header_conformance,use_after_free,ensure_resource_availability,ignored_auth";

/// How much is asked: a part of it, or what somebody has the time for.
fn extent() -> [&'static str; 4] {
    match std::env::var_os("NORMA_SOAK") {
        None => ["--phases=coverage,fuzzing", "--max-examples=6", "--seed=1", "--max-failures=5"],
        Some(_) => ["--phases=coverage,fuzzing,stateful", "--max-time=200", "--seed=2", "--max-failures=20"],
    }
}

/// Where it is; none if it is not installed, which is said.
fn schemathesis() -> Option<std::path::PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/schemathesis");
    if place.join("installed.sha256").is_file() {
        return Some(place.join("bin/schemathesis"));
    }
    let reason = "schemathesis is not installed (cargo xtask schemathesis)";
    assert!(!not_run::in_ci(), "{reason}");
    not_run::because(reason);
    None
}

/// A server with runs that passed, and one that waits for an approval.
fn with_runs() -> (TestEnvironment, Served) {
    let env = with_worker("echo new > src/a.txt");
    env.with_most_in_src();
    env.configure(|config| {
        let agent = json!({"type": "exec", "cmd": [scripted_agent(), env.dir.join("script.json")]});
        let worker = json!({"type": "exec", "cmd": ["./agents/worker.sh"]});
        config["agents"] = json!({"plan": agent, "do": agent, "check": agent, "act": agent, "worker": worker});
    });
    std::fs::write(env.dir.join("script.json"), "{}").unwrap();
    for goal in ["one", "two", "three"] {
        env.norma(&["run", "--goal", goal, "--agent", "worker", "--allow", "src/a.txt"]).success();
    }
    env.norma(&["run", "--goal", "make it new", "--agent", "worker", "--allow", "src"]).exits(3);
    let served = serve(&env);
    (env, served)
}

/// What it knows of the server besides the document: things that are there, to be asked about as often as things that
/// are not. A run that it deletes is none of those that it asks about.
fn configuration(served: &Served) -> String {
    let runs = served.get("/api/runs")["runs"].as_array().unwrap().clone();
    let ids: Vec<&Value> = runs.iter().map(|run| &run["id"]).collect();
    let (doomed, kept) = ids.split_last().unwrap();
    let artifacts: Vec<&String> = runs.iter().flat_map(|run| run["artifacts"].as_object().unwrap().keys()).collect();
    let templates = served.get("/api/templates")["templates"].clone();
    let templates: Vec<&Value> = templates.as_array().unwrap().iter().map(|template| &template["name"]).collect();
    let approvals = json!([served.get("/api/approvals")["approvals"][0]["id"]]);
    let [doomed, kept, artifacts, templates] = [json!([doomed]), json!(kept), json!(artifacts), json!(templates)];
    format!(
        r#"request-timeout = 300
suppress-health-check = ["all"]
[dictionaries]
doomed = {{values = {doomed}}}
runs = {{values = {kept}}}
artifacts = {{values = {artifacts}}}
templates = {{values = {templates}}}
approvals = {{values = {approvals}}}
[parameters]
"path.id" = {{dictionary = "runs", probability = 0.6}}
"path.artifact" = {{dictionary = "artifacts", probability = 0.6}}
"path.name" = {{dictionary = "templates", probability = 0.6}}
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501]
[[operations]]
include-path = ["/ws", "/api/runs/{{id}}/stream"]
enabled = false
[[operations]]
include-path = "/api/approvals/{{id}}/resolve"
parameters = {{"path.id" = {{dictionary = "approvals", probability = 0.6}}}}
[[operations]]
include-path = "/api/runs/{{id}}"
include-method = "DELETE"
parameters = {{"path.id" = {{dictionary = "doomed", probability = 0.6}}}}
"#
    )
}

#[test]
fn every_answer_is_one_that_the_document_has_and_none_is_a_fault_of_the_server() {
    let Some(program) = schemathesis() else { return };
    let (env, served) = with_runs();
    let file = env.at("schemathesis.toml");
    std::fs::write(&file, configuration(&served)).unwrap();
    let document = format!("{}/openapi.json", served.url);
    let asked = ["--config-file", &file, "run", &document, "--no-color", "--continue-on-failure", "--checks", CHECKS];
    let output = env.output_of(&program.to_string_lossy(), &[&asked[..], &extent()].concat());
    assert_eq!(output.code(), Some(0), "{}{}\n{}", output.raw, output.raw_err, served.norma.stderr());
    assert!(output.raw.contains("Operations:"), "{}", output.raw);
    // Whatever it sent, everything that it did is on a record that holds.
    assert_eq!(served.norma.stderr().matches("panicked").count(), 0, "{}", served.norma.stderr());
    // As somebody of this machine, without the token: it was guessed wrong too often.
    let ask = |path: &str| served.send("GET", path, &[("Host", &served.host)], b"");
    for run in ask("/api/runs").with(200)["runs"].as_array().unwrap() {
        let path = format!("/api/runs/{}/verify", run["slug"].as_str().unwrap());
        assert_eq!(ask(&path).with(200)["verified"], json!(true), "{path}");
    }
}
