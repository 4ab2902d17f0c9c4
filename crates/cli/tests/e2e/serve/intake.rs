//! From a sentence to a contract over HTTP, with what norma would like to know: answers refine the contract, and one word
//! starts it.

use super::client::serve;
use crate::batches::with_worker;
use crate::environment::eventually;
use serde_json::{Value, json};

#[test]
fn answers_refine_what_is_proposed_and_run_starts_it() {
    let env = with_worker("echo more >> src/lib.txt");
    let served = serve(&env);
    let sentence = "make everything better";
    let intake = |more: Value| {
        let mut body = json!({ "sentence": sentence });
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        served.ask("POST", "/api/intake", Some(&body))
    };
    let shown = intake(json!({})).with(200);
    let asked: Vec<&str> = shown["questions"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(asked, ["scope", "tests"], "{shown}");
    assert_eq!(shown["preview"]["contract"], shown["contract"]);
    assert_eq!(shown["preview"]["next"], json!("the same with \"run\": true starts it"));
    // A share is what norma chooses by itself.
    let chosen = intake(json!({"answers": {"scope": "100 %"}})).with(200);
    assert!(chosen["contract"]["allowed_paths"].as_array().unwrap().contains(&json!("src")), "{chosen}");
    let answers = json!({"scope": "src/lib.txt", "tests": "grep -q more src/lib.txt"});
    let refined = intake(json!({ "answers": answers })).with(200);
    assert_eq!(refined["questions"], json!([]));
    assert_eq!(refined["contract"]["allowed_paths"], json!(["src/lib.txt"]));
    assert_eq!(refined["contract"]["test_commands"], json!(["grep -q more src/lib.txt"]));
    // What is said otherwise counts more than an answer.
    let said = intake(json!({"answers": {"scope": "README.md"}, "allow": ["src/lib.txt"]})).with(200);
    assert_eq!(said["contract"]["allowed_paths"], json!(["src/lib.txt"]));
    assert_eq!(served.get("/api/runs")["runs"], json!([]), "nothing was started");
    let run = intake(json!({"answers": answers, "run": true})).with(201)["run"].clone();
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    eventually("it has come to its end", || served.get(&path)["run"]["status"] == "completed");
    assert!(env.read("src/lib.txt").ends_with("more\n"));
}

#[test]
fn an_answer_that_cannot_be_is_told_with_its_place() {
    let env = with_worker("true");
    let served = serve(&env);
    for (answers, pointer, said) in [
        (json!({"colour": "red"}), "/answers/colour", "there is no question"),
        (json!({"scope": "0 %"}), "/answers/scope", "no share"),
        (json!({"scope": "src, scr"}), "/answers/scope", "did you mean src?"),
        (json!({"scope": " "}), "/answers/scope", "empty"),
        (json!({"tests": "true"}), "/answers/tests", "succeeds whatever was done"),
        (json!({"agent": "workr"}), "/answers/agent", "there is no agent"),
    ] {
        let body = json!({"sentence": "make it better", "answers": answers});
        let refused = served.ask("POST", "/api/intake", Some(&body)).with(400);
        let violation = &refused["details"]["violations"][0];
        assert_eq!(violation["pointer"], json!(pointer), "{refused}");
        assert!(
            violation["message"].as_str().unwrap().contains(said) || refused.to_string().contains(said),
            "{refused}"
        );
    }
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
}
