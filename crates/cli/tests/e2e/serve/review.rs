//! What people leave on a run while they look at it: comments on its changes that become fixes, and where its graph is drawn.

use super::client::{Served, serve};
use crate::batches::conflicting;
use crate::environment::{TestEnvironment, eventually};
use crate::graph::world::graph;
use crate::ui::world::repository;
use serde_json::{Value, json};

/// A repository whose run has landed one change of `src/greet.py`, and its slug.
fn landed() -> (TestEnvironment, Served, String) {
    let env = repository();
    let run =
        ["run", "greet quietly", "--agent", "worker", "--allow", "src", "--test", "python3 tests/greet.py", "--yes"];
    env.norma(&run).success();
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    let served = serve(&env);
    (env, served, slug)
}

#[test]
fn a_comment_is_on_record_with_its_change_and_becomes_a_fix_under_the_same_tests() {
    let (env, served, slug) = landed();
    let path = format!("/api/runs/{slug}/changes");
    let comments = |at: usize| served.get(&path)["changes"][at]["comments"].clone();
    let sealed = served.get(&format!("/api/runs/{slug}"))["run"]["seq"].clone();
    let post = |rest: &str, body: Value| served.ask("POST", &format!("{path}/{rest}"), Some(&body));
    for (body, pointer) in [
        (json!({"path": "src/greet.py", "line": 2}), ""),
        (json!({"path": "src/other.py", "line": 2, "text": "no"}), "/path"),
        (json!({"path": "../greet.py", "line": 2, "text": "no"}), "/path"),
        (json!({"path": "src/greet.py", "line": 0, "text": "no"}), "/line"),
        (json!({"path": "src/greet.py", "line": 2, "text": " \n"}), "/text"),
    ] {
        let refused = post("1/comments", body).with(400);
        assert!(refused["details"]["violations"][0]["pointer"].as_str().unwrap().starts_with(pointer), "{refused}");
    }
    post("2/comments", json!({"path": "src/greet.py", "line": 2, "text": "no"})).with(404);
    post("1/send-back", json!({})).with(409);
    let kept =
        post("1/comments", json!({"path": "src/greet.py", "line": 2, "text": "say whether it is loud"})).with(201);
    assert_eq!((&kept["comment"]["by"], &kept["comment"]["line"]), (&json!("Ada <ada@example.org>"), &json!(2)));
    let secret = format!("use gh{}_{} here", "p", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    let other = post("1/comments", json!({"path": "src/greet.py", "line": 1, "side": "old", "text": secret})).with(201);
    assert!(!other.to_string().contains("A1b2C3d4"), "{other}");
    assert_eq!(comments(0), json!([kept["comment"], other["comment"]]));
    let withdrawn = format!("{path}/1/comments/{}", other["comment"]["id"].as_str().unwrap());
    served.ask("DELETE", &withdrawn, None).with(200);
    served.ask("DELETE", &withdrawn, None).with(404);
    // The run itself is as it was.
    assert_eq!(served.get(&format!("/api/runs/{slug}"))["run"]["seq"], sealed);
    assert_eq!(served.get(&format!("/api/runs/{slug}/verify"))["verified"], json!(true));
    env.norma(&["reindex"]).success();
    assert_eq!(comments(0), json!([kept["comment"]]));
    let preview = post("1/send-back", json!({})).with(200);
    assert_eq!(
        (&preview["may_write"], &preview["tests"]),
        (&json!("src/greet.py"), &json!(["python3 tests/greet.py"]))
    );
    assert_eq!(preview["agent"]["name"], json!("worker"), "{preview}");
    let fix = post("1/send-back", json!({"yes": true})).with(201)["run"].clone();
    assert!(fix["goal"].as_str().unwrap().contains("src/greet.py:2: say whether it is loud"), "{fix}");
    assert_eq!(comments(0)[0]["sent"], json!({"run": fix["slug"]}));
    served.ask("DELETE", &format!("{path}/1/comments/{}", kept["comment"]["id"].as_str().unwrap()), None).with(409);
    post("1/send-back", json!({"yes": true})).with(409);
    let greet = env.root.join("src/greet.py");
    eventually("it is fixed", || std::fs::read_to_string(&greet).is_ok_and(|text| text.contains("LOUD")));
    let bundle = env.dir.join("bundle.tar");
    env.norma(&["export", &slug, "-o", &bundle.display().to_string()]).success();
}

#[test]
fn comments_on_a_change_of_an_open_graph_go_to_the_node_that_made_it() {
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    graph.say(&node, json!({"write": {"src/one.txt": "one\n"}, "result": {"change": true}}), false);
    graph.until("it has passed", |run| run["nodes"][&node]["summary"] == "change passed every gate");
    let comment = json!({"path": "src/one.txt", "line": 1, "text": "two is better"});
    graph.post("/changes/1/comments", &comment).with(201);
    let sent = graph.post("/changes/1/send-back", &json!({})).with(201);
    assert!(sent["messageId"].is_string(), "{sent}");
    let told = graph.answered(&node, 2)[1].clone();
    assert!(told.contains("src/one.txt:1: two is better"), "{told}");
    let shown = graph.served.get(&graph.path("/changes"))["changes"][0]["comments"][0].clone();
    assert_eq!(shown["sent"], json!({ "node": node }));
}

#[test]
fn where_a_graph_is_drawn_is_kept_and_is_no_part_of_the_run() {
    let graph = graph();
    let [ada, bob] = ["Ada", "Bob"].map(|label| graph.node(label, json!({})));
    let before = graph.run();
    assert!(before.get("layout").is_none());
    let place = |node: &str, x: f64| json!({ "layout": {"positions": {node: {"x": x, "y": -2.4}}} });
    let moved = graph.patch("", place(&ada, 10.6));
    assert_eq!(moved["run"]["layout"]["positions"], json!({&ada: {"x": 11.0, "y": -2.0}}));
    graph.patch("", place(&bob, 20.0));
    graph.patch("", json!({"layout": {"viewport": {"x": 1, "y": 2, "zoom": 1.25}}}));
    let now = graph.run();
    assert_eq!(now["layout"]["positions"].as_object().unwrap().len(), 2);
    assert_eq!(now["layout"]["viewport"], json!({"x": 1.0, "y": 2.0, "zoom": 1.25}));
    assert_eq!((&now["seq"], &now["updatedAt"]), (&before["seq"], &before["updatedAt"]), "nothing happened to the run");
    graph.env.norma(&["reindex"]).success();
    assert_eq!(graph.run()["layout"], now["layout"]);
    for (layout, pointer) in [
        (json!({"positions": {"nobody": {"x": 1, "y": 1}}}), "/patch/layout/positions/nobody"),
        (json!({"positions": {&ada: {"x": 1e9, "y": 1}}}), "/patch/layout/positions"),
        (json!({"viewport": {"x": 1, "y": 1, "zoom": 0}}), "/patch/layout/viewport"),
    ] {
        let body = json!({"patch": {"layout": layout}});
        let refused = graph.served.ask("PATCH", &graph.path(""), Some(&body)).with(400);
        let found = refused["details"]["violations"][0]["pointer"].as_str().unwrap().to_owned();
        assert!(found.starts_with(pointer), "{refused}");
    }
    let afresh = graph.patch("", json!({"layout": {"afresh": true}}));
    assert_eq!(afresh["run"]["layout"]["positions"], json!({}));
    // Also of a run that is sealed, whose bundle says nothing of it.
    graph.served.ask("POST", &graph.path("/cancel"), None).with(200);
    eventually("it is sealed", || graph.served.ask("GET", &graph.path("/bundle"), None).status == 200);
    let bundle = || graph.served.ask("GET", &graph.path("/bundle"), None).body;
    let sealed = bundle();
    graph.patch("", place(&ada, 5.0));
    assert_eq!(graph.run()["layout"]["positions"][&ada]["x"], json!(5.0));
    assert!(bundle() == sealed, "the bundle is the same, byte by byte");
}

#[test]
fn what_could_not_be_merged_is_shown_with_both_sides() {
    let (env, slug) = conflicting();
    let served = serve(&env);
    let changes = served.get(&format!("/api/runs/{slug}/changes"))["changes"].clone();
    let conflict = &changes[1]["conflicts"][0];
    assert_eq!(conflict["path"], json!("text"), "{changes:#}");
    let sides = json!([{"line": 1, "base": "one\n", "ours": "b\n", "theirs": "a\n"}]);
    assert_eq!(conflict["parts"], sides);
}

#[test]
fn what_held_a_turn_is_told_from_its_evidence() {
    let (_env, served, slug) = landed();
    let turns = served.get(&format!("/api/runs/{slug}/turns"));
    let turn = &turns["turns"][0];
    assert_eq!((&turn["index"], &turn["dir"]), (&json!(1), &json!("steps/001-worker")), "{turns}");
    assert_eq!(turn["sandbox"]["backend"], json!("native"));
    assert!(turn["sandbox"]["effective"].is_object() && turn["sandbox"]["report"]["network"].is_array(), "{turn:#}");
    assert_eq!((&turn["exchanges"], &turns["left_out"]), (&json!([]), &json!(0)));
}
