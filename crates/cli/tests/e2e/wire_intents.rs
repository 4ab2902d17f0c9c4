//! Intents on the wire, row by row of what the contract's own implementation asserts end to end (I: intents, S: start, G: view,
//! E: events, R: retry, cancel, health). Rows about what is not offered here are left out. Each test names its rows; E9, E10,
//! E11 and G11 are in `intent_runs/kills.rs` and `asking.rs`, R1 to R4 in `retries.rs`.

use crate::environment::eventually;
use crate::intent_runs::world::{World, node, plan, run_true, world, world_with};
use crate::serve::client::serve_at;
use contract::json::schema::Schema;
use serde_json::{Value, json};

/// A plan that asks once.
fn asks() -> Value {
    plan(&[run_true("a", &[]), node("ask", "approval", &["a"], json!({})), run_true("z", &["ask"])])
}

/// A line of the contract as a shell runs it, on this server and with these ids.
fn shell(world: &World, line: &str) -> (u16, Value) {
    let line =
        line.replace("http://127.0.0.1:3001", &world.served.url).replace("curl -sS", "curl -sS -w '\\n%{http_code}'");
    let said = world.env.output_of("sh", &["-c", &line]).success().raw.clone();
    let (body, status) = said.trim().rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[track_caller]
fn is_view(view: &Value) {
    let schema = Schema::compile(contract::schema::built_in("run_view_model.v0.json").unwrap().as_bytes()).unwrap();
    assert_eq!(schema.violations(view), [], "{view:#}");
}

#[test]
fn the_lines_of_the_contract_work_as_they_are_written() {
    // I1 S1 S7 S8 G1 G2 E1 E3 S6 G7 R2 R5
    let world = world(&asks());
    for (line, id) in
        [("POST http://127.0.0.1:3001/intents/it_123/run", ""), ("GET http://127.0.0.1:3001/runs/run_123", "")]
    {
        let (status, body) = shell(&world, &format!("curl -sS -X {line}{id}"));
        assert_eq!(status, 404);
        assert!(body["error"].is_string(), "{body}");
    }
    let (status, body) = shell(
        &world,
        "curl -sS -X POST http://127.0.0.1:3001/intents \\\n  -H 'content-type: application/json' \\\n  \
         -d '{\"goal\":\"daily brief\",\"inputs\":{\"topics\":[\"infra\"]},\"constraints\":{}}'",
    );
    assert_eq!((status, body.as_object().unwrap().len()), (201, 1));
    let intent = body["intentId"].as_str().unwrap().to_owned();
    assert!(contract::intent::is_intent_id(&intent), "{intent}");
    let start = format!("curl -sS -X POST http://127.0.0.1:3001/intents/{intent}/run");
    let (status, body) = shell(&world, &start);
    assert_eq!((status, &body["workflowId"]), (202, &json!(intent)));
    let run = body["runId"].as_str().unwrap().to_owned();
    assert!(run.strip_prefix("run_").is_some_and(|digits| digits.len() == 32), "{run}");
    let waiting = world.until(&run, "waiting_input");
    is_view(&waiting);
    assert_eq!((&waiting["runId"], &world.view(&intent)), (&json!(run), &waiting));
    let resume = format!(
        "curl -sS -X POST http://127.0.0.1:3001/runs/{run}/events \\\n  -H 'content-type: application/json' \\\n  \
         -d '{{\"event\":\"approval\",\"choice\":\"approve\"}}'"
    );
    assert_eq!(shell(&world, &resume), (202, json!({"accepted": true})));
    let done = world.until(&run, "succeeded");
    let (status, late) = shell(&world, &resume);
    assert_eq!((status, &late["code"], &late["details"]["status"]), (409, &json!("conflict"), &json!("succeeded")));
    assert_eq!(shell(&world, &start), (202, body), "the same run, and nothing runs again");
    let again = world.served.ask("POST", &format!("/runs/{run}/retry"), None).with(409);
    assert_eq!(again["details"]["status"], "succeeded");
    assert_eq!(shell(&world, "curl -sS http://127.0.0.1:3001/healthz"), (200, json!({"ok": true})));
    let bytes = |world: &World| world.served.ask("GET", &format!("/runs/{run}"), None).text();
    let first = bytes(&world);
    assert_eq!((bytes(&world), serde_json::from_str::<Value>(&first).unwrap()), (first.clone(), done));
    // I1 and I7: what was created is there after a restart, and more can be.
    let port = world.served.port();
    let World { env, served } = world;
    served.norma.signal("TERM");
    served.norma.wait();
    let world = World { served: serve_at(&env, port, &[]), env };
    assert_eq!(bytes(&world), first);
    assert_eq!(world.start(&intent), run);
    assert_ne!(world.intent("another"), intent);
}

#[test]
fn the_port_of_the_contract_is_the_one_that_is_served() {
    let env = crate::environment::TestEnvironment::initialized();
    let norma = env.spawn(&["serve", "--json"]);
    // Somebody else on this machine may have it.
    eventually("it listens, or says why not", || norma.stdout().contains('\n') || !norma.stderr().is_empty());
    let said = norma.stdout() + &norma.stderr();
    assert!(said.contains("127.0.0.1:3001"), "{said}");
    norma.signal("TERM");
    norma.wait();
}

#[test]
fn a_run_of_an_intent_can_be_looked_at_as_a_graph() {
    let world = world(&asks());
    let run = world.started();
    world.until(&run, "waiting_input");
    let graph = world.served.get(&format!("/api/runs/{run}"))["run"].clone();
    assert_eq!((&graph["status"], &graph["workflow"]), (&json!("running"), &json!("intent")));
    let labels: std::collections::BTreeSet<&str> =
        graph["nodes"].as_object().unwrap().values().map(|node| node["label"].as_str().unwrap()).collect();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["a", "ask", "compile", "patch", "z"]);
    assert_eq!(graph["edges"].as_object().unwrap().len(), 2);
    let of = |label: &str| graph["nodes"].as_object().unwrap().values().find(|node| node["label"] == label).unwrap();
    assert_eq!(of("ask")["status"], "blocked");
    world.answer(&run, &json!({"event": "approval", "choice": "approve"})).with(202);
    world.until(&run, "succeeded");
    let graph = world.served.get(&format!("/api/runs/{run}"))["run"].clone();
    assert_eq!((&graph["status"], &graph["phase"]), (&json!("completed"), &json!("DONE")));
    assert!(graph["nodes"].as_object().unwrap().values().all(|node| node["status"] == "idle"), "{graph:#}");
}

#[test]
fn steps_and_artifacts_have_the_public_names() {
    // G1 G4 G5 G6 G8 G9 G10 S2
    let world = world(&plan(&[run_true("a", &[]), node("b", "io", &["a"], json!({"noop": true}))]));
    let intent = world.intent("daily brief");
    world.post(&format!("/intents/{intent}/run"), &json!({"traceId": "t-1"})).with(202);
    let view = world.until(&intent, "succeeded");
    is_view(&view);
    assert_eq!(view["traceId"], "t-1");
    let steps = view["steps"].as_array().unwrap();
    let named = |name: &str| steps.iter().map(|step| step[name].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(named("stepId"), ["CompileST", "ApplyPatchST", "DecideST", "ExecuteST", "ExecuteST"]);
    assert_eq!(named("phase"), ["compilation", "patching", "planning", "execution", "execution"]);
    assert!(named("startedAt").is_sorted());
    let artifacts = view["artifacts"].as_array().unwrap();
    let run = world.served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    for step in steps {
        let of_step = |artifact: &&Value| artifact["stepId"] == step["stepId"] && artifact["nodeId"] == step["nodeId"];
        assert!(artifacts.iter().any(|artifact| of_step(&artifact)), "{step}");
    }
    let mut fetched = 0;
    for artifact in artifacts {
        let sha256 = artifact["sha256"].as_str().unwrap();
        assert!(sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit()), "{artifact}");
        let Some(uri) = artifact["uri"].as_str() else { continue };
        let id = uri.strip_prefix("artifact://").unwrap();
        let file = world.served.ask("GET", &format!("/api/runs/{run}/artifacts/{id}?download=1"), None);
        if file.status == 200 {
            assert_eq!(contract::hash::sha256(&file.body).to_string(), sha256, "{artifact}");
            fetched += 1;
        }
    }
    assert!(fetched > 0);
    assert_eq!(artifacts.last().unwrap()["kind"], "none");
    let untraced = world.until(&world.started(), "succeeded");
    assert!(untraced.get("traceId").is_none(), "absent, never null");
    is_view(&untraced);
}

#[test]
fn what_is_no_intent_is_refused_with_its_place_and_writes_nothing() {
    // I2 I3 I4 I5 I6 I8
    let world = world(&asks());
    let before = world.rows();
    let refused = |body: &str, pointer: &str| {
        let headers = [("Host", world.served.host.as_str()), ("Content-Type", "application/json")];
        let answer = world.served.send("POST", "/intents", &headers, body.as_bytes()).with(400);
        assert_eq!(answer["code"], "invalid");
        assert!(answer["error"].as_str().unwrap().contains("Intent"), "{answer}");
        let violations = answer["details"]["violations"].as_array().unwrap();
        assert!(violations.iter().any(|it| it["pointer"] == pointer), "{pointer}: {answer}");
    };
    refused(r#"{"inputs":{},"constraints":{}}"#, "");
    refused("{not json", "");
    refused("", "");
    refused(r#"{"goal":"","inputs":{},"constraints":{}}"#, "/goal");
    refused(r#"{"goal":"g","inputs":[],"constraints":{}}"#, "/inputs");
    refused(r#"{"goal":"g","inputs":{},"constraints":1}"#, "/constraints");
    refused(r#"{"goal":"g","inputs":{},"constraints":{},"connectors":null}"#, "/connectors");
    refused(r#"{"goal":"g","inputs":{},"constraints":{},"connectors":[1]}"#, "/connectors/0");
    refused(r#"{"goal":"g","inputs":{},"constraints":{},"more":1}"#, "/more");
    refused(r#"{"goal":"g","goal":"h","inputs":{},"constraints":{}}"#, "/goal");
    let deep = format!(r#"{{"goal":"g","inputs":{{"a":{}1{}}},"constraints":{{}}}}"#, "[".repeat(40), "]".repeat(40));
    let headers = [("Host", world.served.host.as_str()), ("Content-Type", "application/json")];
    world.served.send("POST", "/intents", &headers, deep.as_bytes()).with(400);
    let long = json!({"goal": "x".repeat(200 << 10), "inputs": {}, "constraints": {}});
    world.post("/intents", &long).with(400);
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let headers = [("Host", world.served.host.as_str()), ("Content-Type", kind)];
        let body = br#"{"goal":"g","inputs":{},"constraints":{}}"#;
        let answer = world.served.send("POST", "/intents", &headers, body).with(415);
        assert_eq!(answer["code"], "unsupported_media_type");
    }
    assert_eq!(world.rows(), before);
    let intent = json!({"goal": "g", "inputs": {}, "constraints": {}, "connectors": []});
    world.post("/intents", &intent).with(201);
    assert_eq!(world.rows(), (before.0 + 1, before.1));
}

#[test]
fn an_intent_is_started_once_however_often_it_is_asked_for() {
    // I9 S2 S3 S4 S5 S6
    let world = world(&plan(&[run_true("a", &[])]));
    let body = json!({"goal": "g", "inputs": {}, "constraints": {}});
    let first = world.post("/intents", &body).with(201);
    assert_ne!(world.post("/intents", &body).with(201), first, "two intents");
    let keyed =
        |key: &str, body: &Value| world.served.ask_with("POST", "/intents", &[("Idempotency-Key", key)], Some(body));
    let one = keyed("k", &body).with(201);
    assert_eq!(keyed("k", &body).with(201), one);
    keyed("k", &json!({"goal": "h", "inputs": {}, "constraints": {}})).with(409);
    world.served.ask("POST", "/intents/it_0000000000000000/run", None).with(404);
    let path = format!("/intents/{}/run", one["intentId"].as_str().unwrap());
    let before = world.rows();
    let refused = world.post(&path, &json!({"queueName": "q"})).with(400);
    assert_eq!(refused["details"]["violations"][0]["pointer"], "/queueName");
    world.post(&path, &json!({"traceId": 7})).with(400);
    assert_eq!(world.rows(), before);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..10).map(|_| scope.spawn(|| world.served.ask("POST", &path, None).with(202))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let run = answers[0]["runId"].as_str().unwrap();
    let view = world.until(run, "succeeded");
    assert!(view["steps"].as_array().unwrap().iter().all(|step| step["attempt"] == 1), "{view:#}");
    assert_eq!(world.rows().1, 1);
    assert_eq!(world.served.ask("POST", &path, None).with(202), answers[0]);
}

#[test]
fn answers_are_taken_in_one_order_and_count_once() {
    // E1 E2 E3 E4 E5 E6 E7 E8
    let world = world(&asks());
    let approve = json!({"event": "approval", "choice": "approve"});
    world.answer("run_00000000000070008000000000000000", &approve).with(404);
    world.answer("nothing", &json!({"no": 1})).with(404);
    let run = world.started();
    let early = world.answer(&run, &json!({"not": "a body"}));
    assert!([400, 409].contains(&early.status), "by where the run is: {}", early.text());
    world.until(&run, "waiting_input");
    for wrong in [
        json!({"event": "approval", "choice": "maybe"}),
        json!({"event": "approval", "choice": "yes"}),
        json!({"event": "approval"}),
        json!({"event": "other", "choice": "approve"}),
        json!({"event": "approval", "choice": "approve", "more": 1}),
        json!({"type": "approval", "payload": {}}),
    ] {
        let answer = world.answer(&run, &wrong).with(400);
        assert!(answer["details"]["violations"][0]["pointer"].is_string(), "{answer}");
        assert_eq!(world.view(&run)["status"], "waiting_input");
    }
    world.answer(&run, &json!({"event": "decision", "choice": "approve"})).with(409);
    world.answer(&run, &json!({"event": "approval", "choice": "approve", "nodeId": "z"})).with(409);
    let path = format!("/runs/{run}/events");
    let keyed = |body: &Value| world.served.ask_with("POST", &path, &[("Idempotency-Key", "once")], Some(body));
    keyed(&approve).with(202);
    assert_eq!(keyed(&approve).with(202), json!({"accepted": true}));
    keyed(&json!({"event": "approval", "choice": "reject"})).with(409);
    world.until(&run, "succeeded");
    let late = world.answer(&run, &approve).with(409);
    assert_eq!(late["details"]["status"], "succeeded");
    world.answer(&run, &json!({"not": "a body"})).with(409);
    assert_eq!(world.env.event_types().iter().filter(|kind| *kind == "answered").count(), 1);
}

#[test]
fn unknown_routes_queries_and_ids_are_answered_in_one_form() {
    // G3 R6 R7
    let world = world(&asks());
    for (method, path, status) in [
        ("GET", "/runs/run_123", 404),
        ("GET", "/runs/it_0000000000000000", 404),
        ("GET", "/runs/%00", 404),
        ("GET", "/intents/it_123/other", 404),
        ("GET", "/intents", 405),
        ("GET", "/runs/x?limit=1", 400),
        ("POST", "/runs/run_123/retry", 404),
        ("POST", "/runs/run_123/cancel", 404),
    ] {
        let answer = world.served.ask(method, path, None).with(status);
        assert!(answer["error"].is_string() && answer["code"].is_string(), "{method} {path}: {answer}");
    }
}

#[test]
fn a_run_that_cannot_be_compiled_fails_and_never_stays_queued() {
    // S9: nothing is recorded and nobody may be asked; an agent that is not there starts nothing.
    let world = world_with(&asks(), |config| config["intents"] = json!({"mode": "replay"}));
    let view = world.until(&world.started(), "failed");
    let why = view["steps"][0]["error"].as_str().unwrap();
    assert!(why.contains("no recording with key "), "{why}");
    world.env.configure(|config| {
        config["intents"] = json!({"agent": "nobody"});
    });
    let intent = world.intent("g");
    let before = world.rows();
    let refused = world.served.ask("POST", &format!("/intents/{intent}/run"), None);
    assert!([400, 409].contains(&refused.status), "{}", refused.text());
    assert!(refused.json()["error"].as_str().unwrap().contains("nobody"), "{}", refused.text());
    assert_eq!(world.rows(), before);
    eventually("the server is there", || world.served.ask("GET", "/healthz", None).status == 200);
}

#[test]
fn an_answer_is_recorded_and_given_again_without_asking() {
    let world = world(&plan(&[run_true("a", &[])]));
    let first = world.until(&world.started(), "succeeded");
    // The agent would answer otherwise now, and is not asked.
    world.env.write("agents/answer.json", &asks().to_string());
    world.env.commit("another answer");
    let second = world.until(&world.started(), "succeeded");
    assert_ne!(first["runId"], second["runId"]);
    let said = second["steps"][0]["output"]["summary"].as_str().unwrap();
    assert!(said.starts_with("answered by the recording of run "), "{said}");
    for verb in ["verify", "replay"] {
        world.env.norma(&[verb, "@last"]).success();
    }
}
