//! Recipes: templates of intents that count as they were trusted, and never change once they are stable.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};

fn recipe(status: &str) -> Value {
    json!({
        "id": "daily-brief", "version": 1, "status": status, "name": "Daily brief",
        "formSchema": {"type": "object", "additionalProperties": false, "required": ["topics"],
            "properties": {"topics": {"type": "array", "items": {"type": "string"}}, "tone": {"type": "string"}}},
        "intentTmpl": {"goal": "daily brief", "inputs": {"topics": "{{topics}}"}, "constraints": {}},
        "fixtures": [{"name": "infra", "formData": {"topics": ["infra"]},
            "intent": {"goal": "daily brief", "inputs": {"topics": ["infra"]}, "constraints": {}}}],
    })
}

fn add(env: &TestEnvironment, recipe: &Value) -> crate::environment::Output {
    env.write("recipe.json", &recipe.to_string());
    env.norma(&["recipe", "add", "recipe.json"])
}

#[test]
fn a_recipe_renders_an_intent_that_can_be_compiled() {
    let env = TestEnvironment::initialized();
    add(&env, &recipe("stable")).success();
    let rendered = env.norma(&["recipe", "render", "daily-brief", "--set", "topics=[\"infra\"]"]);
    let intent: Value = serde_json::from_str(&rendered.success().raw).unwrap();
    assert_eq!(intent, json!({"goal": "daily brief", "inputs": {"topics": ["infra"]}, "constraints": {}}));
    env.write("form.json", r#"{"topics":["infra"]}"#);
    let same = env.norma(&["recipe", "render", "daily-brief@1", "--form", "form.json"]);
    assert_eq!(same.success().raw, rendered.raw);
    env.write("intent.json", &rendered.raw);
    // Nobody is asked: what matters is that the intent is taken as one.
    let compiled = env.norma(&["intent", "compile", "intent.json"]);
    compiled.exits(1);
    assert!(compiled.err().contains("no recording with key"), "{}", compiled.err());
    let listed = env.json(&["recipe", "list"]);
    assert_eq!((&listed[0]["id"], &listed[0]["trusted"]), (&json!("daily-brief"), &json!(true)));
    let wrong = env.norma(&["recipe", "render", "daily-brief", "--set", "topic=infra"]);
    wrong.exits(2);
    assert!(wrong.err().contains("topics"), "{}", wrong.err());
}

#[test]
fn a_stable_version_never_changes_and_a_draft_may() {
    let env = TestEnvironment::initialized();
    add(&env, &recipe("draft")).success();
    let mut changed = recipe("stable");
    changed["name"] = json!("Brief");
    add(&env, &changed).success();
    add(&env, &changed).success();
    changed["name"] = json!("Another");
    let refused = add(&env, &changed);
    refused.exits(2);
    assert!(refused.err().contains("/version"), "{}", refused.err());
    // Not even by hand: the file is not what was trusted, and cannot be trusted again.
    env.write(".norma/recipes/daily-brief/1.json", &changed.to_string());
    env.norma(&["recipe", "render", "daily-brief", "--set", "topics=[]"]).exits(4);
    env.norma(&["recipe", "trust", "daily-brief"]).exits(2);
    changed["version"] = json!(2);
    add(&env, &changed).success();
    env.norma(&["recipe", "render", "daily-brief@2", "--set", "topics=[]"]).success();
}

#[test]
fn a_recipe_that_came_with_the_repository_counts_once_somebody_trusts_it() {
    let env = TestEnvironment::initialized();
    env.write(".norma/recipes/daily-brief/1.json", &recipe("candidate").to_string());
    assert_eq!(env.json(&["recipe", "list"])[0]["trusted"], false);
    let refused = env.norma(&["recipe", "render", "daily-brief", "--set", "topics=[]"]);
    refused.exits(4);
    assert!(refused.err().contains("norma recipe trust daily-brief@1"), "{}", refused.err());
    env.norma(&["recipe", "trust", "daily-brief"]).success();
    env.norma(&["recipe", "render", "daily-brief", "--set", "topics=[]"]).success();
    assert!(env.git(&["status", "--porcelain", "--untracked-files=all"]).contains(".norma/recipes/daily-brief/1.json"));
}

#[test]
fn a_recipe_whose_fixture_does_not_hold_is_refused_with_its_pointer() {
    let env = TestEnvironment::initialized();
    let mut bad = recipe("stable");
    bad["fixtures"][0]["intent"]["goal"] = json!("weekly brief");
    let refused = add(&env, &bad);
    refused.exits(2);
    assert!(refused.err().contains("/fixtures/0/intent"), "{}", refused.err());
    assert!(!env.root.join(".norma/recipes").exists());
    let draft = env.norma(&["recipe", "new", "weekly"]).success().raw.clone();
    env.write("weekly.json", &draft);
    env.norma(&["recipe", "add", "weekly.json"]).success();
    env.norma(&["recipe", "render", "weekly", "--set", "topic=a b"]).success();
    env.norma(&["recipe", "new", "Not An Id"]).exits(2);
}
