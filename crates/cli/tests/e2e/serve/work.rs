//! Having something done over HTTP: it is what the command line does, done once, and on record.

use super::client::{serve, serve_at};
use super::with_a_run;
use crate::batches::with_worker;
use crate::environment::{PATCH, TestEnvironment, eventually};
use serde_json::{Value, json};

#[test]
fn a_request_that_is_sent_again_with_its_key_is_answered_as_before_and_done_once() {
    let env = TestEnvironment::new(json!({}));
    let served = serve(&env);
    let goal = json!({"goal": "make two loud", "acceptance_criteria": ["the tests pass"]});
    let key = [("Idempotency-Key", "one")];
    let first = served.ask_with("POST", "/api/runs", &key, Some(&goal)).with(201);
    let again = served.ask_with("POST", "/api/runs", &key, Some(&goal)).with(201);
    assert_eq!(first, again);
    served.ask_with("POST", "/api/runs", &key, Some(&json!({"goal": "another"}))).with(409);
    let other = served.ask_with("POST", "/api/runs", &[("Idempotency-Key", "two")], Some(&goal)).with(201);
    assert_ne!(other["run"]["id"], first["run"]["id"]);
    eventually("both have come to their end", || {
        let runs = served.get("/api/runs");
        runs["runs"].as_array().unwrap().iter().all(|run| run["status"] == "completed")
    });
    assert_eq!(served.get("/api/runs")["runs"].as_array().unwrap().len(), 2);
    // It holds for the next server, too, however this one ends.
    let port = served.port();
    served.norma.signal("KILL");
    drop(served);
    let served = serve_at(&env, port, &[]);
    assert_eq!(served.ask_with("POST", "/api/runs", &key, Some(&goal)).with(201), first);
    served.ask_with("POST", "/api/runs", &key, Some(&json!({"goal": "another"}))).with(409);
    assert_eq!(served.get("/api/runs")["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn pages_of_runs_follow_each_other_whatever_is_taken_off_the_list_meanwhile() {
    let env = TestEnvironment::new(json!({}));
    for _ in 0..5 {
        env.norma(&["run", "1", "--new"]).success();
    }
    let served = serve(&env);
    let all = served.get("/api/runs")["runs"].as_array().unwrap().clone();
    assert!(all.is_sorted_by(|one, next| one["createdAt"].as_str() >= next["createdAt"].as_str()), "newest first");
    let first = served.get("/api/runs?limit=2");
    assert_eq!(first["runs"], json!(all[..2]));
    let cursor = first["next"].as_str().unwrap();
    served.ask("DELETE", &format!("/api/runs/{cursor}"), None).with(200);
    let second = served.get(&format!("/api/runs?limit=2&cursor={cursor}"));
    assert_eq!(second["runs"], json!(all[2..4]));
    let last = served.get(&format!("/api/runs?limit=2&cursor={}", second["next"].as_str().unwrap()));
    assert_eq!((&last["runs"], &last["next"]), (&json!(all[4..]), &Value::Null));
    for query in ["limit=0", "limit=101", "cursor=", "cursor=20200101-000000-000000", "cursor=x"] {
        served.ask("GET", &format!("/api/runs?{query}"), None).with(400);
    }
}

#[test]
fn a_run_is_landed_taken_back_and_taken_off_the_list_with_its_evidence_kept() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let served = serve(&env);
    let run = served.get("/api/runs")["runs"][0].clone();
    let (id, slug) = (run["id"].as_str().unwrap(), run["slug"].as_str().unwrap());
    served.ask("POST", &format!("/api/runs/{id}/undo"), None).with(200);
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
    served.ask("POST", &format!("/api/runs/{id}/land"), None).with(200);
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    served.ask("POST", &format!("/api/runs/{id}/cancel"), None).with(409);
    served.ask("POST", &format!("/api/runs/{id}/resume"), None).with(409);
    let deleted = served.ask("DELETE", &format!("/api/runs/{id}"), None).with(200);
    assert_eq!(deleted, json!({"runId": id}));
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
    served.ask("GET", &format!("/api/runs/{id}"), None).with(404);
    drop(served);
    env.norma(&["verify", slug]).success();
    assert!(env.root.join(".norma/runs").join(slug).is_dir());
}

#[test]
fn a_run_is_paused_and_continued_by_a_patch_and_ended_by_its_deletion() {
    let env = TestEnvironment::new(json!({}));
    let wait = |name: &str| {
        json!([
            {"write_abs": {"path": env.at(&format!("{name}-started")), "content": ""}},
            {"wait_for": env.at(name)},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ])
    };
    env.script_unconfined(json!({"do": [wait("one"), wait("two")]}));
    let served = serve(&env);
    let run = served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201)["run"].clone();
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    env.wait_for("one-started");
    served.ask("PATCH", &path, Some(&json!({"patch": {"status": "paused"}}))).with(200);
    eventually("it is paused", || served.get(&path)["run"]["status"] == "paused");
    std::fs::remove_file(env.dir.join("one-started")).unwrap();
    served.ask("PATCH", &path, Some(&json!({"patch": {"mode": "INTERACTIVE"}}))).with(409);
    served.ask("PATCH", &path, Some(&json!({"patch": {"status": "done"}}))).with(400);
    let continued = served.ask("PATCH", &path, Some(&json!({"patch": {"status": "running"}}))).with(200);
    assert_eq!(continued["run"]["status"], json!("running"));
    served.ask("DELETE", &path, None).with(200);
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
    eventually("it has ended", || env.json(&["show", run["slug"].as_str().unwrap()])["status"] == "canceled");
}

/// A contract whose scope holds most of the files, so that it needs an approval.
fn wide_contract(env: &TestEnvironment) -> Value {
    env.with_most_in_src();
    let made = ["contract", "new", "--goal", "make it new", "--allow", "src", "-o", "wide.json"];
    env.norma(&[&made[..], &["--test", "test -f src/new.txt"]].concat()).success();
    serde_json::from_str(&env.read("wide.json")).unwrap()
}

#[test]
fn a_contract_is_checked_started_and_waits_for_an_approval_that_is_answered_once() {
    let env = with_worker("echo new > src/new.txt");
    let contract = wide_contract(&env);
    let served = serve(&env);
    let checked = served.ask("POST", "/api/contracts/check", Some(&contract)).with(200);
    assert!(checked["approval_for"][0].as_str().unwrap().contains("more than 50 %"), "{checked}");
    let run = served.ask("POST", "/api/runs", Some(&json!({"contract": contract}))).with(201)["run"].clone();
    let pending = || served.get("/api/approvals")["approvals"].as_array().unwrap().clone();
    eventually("it waits for an approval", || !pending().is_empty());
    let asked = pending().remove(0);
    assert_eq!((&asked["runId"], &asked["alike"]), (&run["id"], &json!([asked["id"]])), "{asked}");
    assert!(asked["tool"]["args"]["reasons"][0].as_str().unwrap().contains("more than 50 %"), "{asked}");
    let path = format!("/api/approvals/{}/resolve", asked["approvalId"].as_str().unwrap());
    let both = json!({"resolution": {"status": "modified", "modifiedArgs": {"cmd": "ls", "argv": ["ls"]}}});
    served.ask("POST", &path, Some(&both)).with(400);
    served.ask("POST", &path, Some(&json!({"resolution": {"status": "perhaps"}}))).with(400);
    // It is not about a command, so no other command can run instead.
    let other = json!({"resolution": {"status": "modified", "modifiedArgs": {"cmd": "ls"}}});
    served.ask("POST", &path, Some(&other)).with(409);
    let approved = json!({"resolution": {"status": "approved", "scope": "once"}});
    let answered = served.ask("POST", &path, Some(&approved)).with(200);
    assert_eq!(
        (&answered["approvalId"], &answered["resolution"]["status"]),
        (&asked["approvalId"], &json!("approved"))
    );
    assert_eq!(answered["resolution"]["by"], json!("Ada <ada@example.org>"));
    served.ask("POST", &path, Some(&approved)).with(409);
    let unknown = "/api/approvals/00000000-0000-7000-8000-000000000000/resolve";
    served.ask("POST", unknown, Some(&approved)).with(404);
    served.ask("POST", "/api/approvals/nothing/resolve", Some(&approved)).with(404);
    eventually("its run has used it", || served.get("/api/approvals?all=1")["approvals"][0]["state"] == "used");
    assert_eq!(served.get("/api/approvals")["approvals"], json!([]));
}

#[test]
fn every_request_that_changes_something_is_on_record_with_who_asked() {
    let env = TestEnvironment::new(json!({}));
    let served = serve(&env);
    let run = served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201)["run"].clone();
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    eventually("it has come to its end", || served.get(&path)["run"]["status"] == "completed");
    served.ask("POST", &format!("{path}/replay"), None).with(200);
    served.ask("DELETE", &path, None).with(200);
    drop(served);
    let db = rusqlite::Connection::open(env.root.join(".norma/norma.db")).unwrap();
    let sql = "SELECT type, coalesce(json_extract(data_json, '$.what'), ''), coalesce(json_extract(data_json, '$.about'), ''),
               json_extract(data_json, '$.by') FROM audit WHERE type IN ('requested', 'run_unlisted') ORDER BY seq";
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])).unwrap();
    let rows: Vec<[String; 4]> = rows.map(Result::unwrap).collect();
    let (slug, ada) = (run["slug"].as_str().unwrap(), "Ada <ada@example.org>");
    // Before anything is done, and once more with the name that a run has only then.
    let expected = [
        ["requested", "POST /api/runs", "", ada],
        ["requested", "POST /api/runs", slug, ada],
        ["requested", "POST /api/runs/{id}/replay", slug, ada],
        ["run_unlisted", "", "", ada],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn templates_are_listed_with_where_they_are_from() {
    let (env, served) = with_a_run();
    let all = served.get("/api/templates")["templates"].as_array().unwrap().clone();
    let first: &Value = all.first().unwrap();
    assert!(first["name"].is_string() && first["content"].is_string() && first["source"] == "system", "{first}");
    let name = first["name"].as_str().unwrap();
    assert_eq!(&served.get(&format!("/api/templates/{name}"))["template"], first);
    env.write(&format!(".norma/templates/{name}.md"), "mine");
    assert_eq!(served.get(&format!("/api/templates/{name}"))["template"]["source"], json!("repo"));
    served.ask("GET", "/api/templates/nothing", None).with(404);
}
