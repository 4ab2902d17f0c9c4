//! A server that is killed in the middle: nothing that was sent is lost, and nothing is done twice.

use super::world::{Graph, graph_unconfined};
use crate::serve::client::serve_at;
use serde_json::json;

#[test]
fn a_server_that_is_killed_loses_no_message_and_no_turn_counts_twice() {
    let Graph { env, served, id } = graph_unconfined();
    let port = served.port();
    let mut graph = Graph { env, served, id };
    let (ada, bob) = (graph.node("Ada", json!({})), graph.node("Bob", json!({})));
    graph.edge(&ada, &bob, json!({}));
    let order = json!({"name": "long", "touch": graph.env.at("started"), "wait": graph.env.at("go")});
    graph.say(&ada, order, false);
    graph.env.wait_for("started");
    graph.say(&ada, "meanwhile", false);
    for _ in 0..2 {
        std::fs::remove_file(graph.env.dir.join("started")).unwrap();
        graph.served.norma.signal("KILL");
        let Graph { env, served, id } = graph;
        drop(served);
        let served = serve_at(&env, port, &[]);
        graph = Graph { env, served, id };
        graph.env.wait_for("started");
    }
    graph.env.touch("go");
    graph.answered(&bob, 1);
    graph.until("nobody is at work", |run| {
        run["nodes"].as_object().unwrap().values().all(|node| node["status"] != "running")
    });
    let said: Vec<String> = graph.answers(&ada).into_iter().filter(|text| text.starts_with("turn")).collect();
    assert_eq!(said.concat().matches("long").count(), 1, "{said:?}");
    assert_eq!(said.concat().matches("meanwhile").count(), 1, "{said:?}");
    assert_eq!(graph.told("message.user").len(), 2);
    graph.patch("", json!({"status": "completed"}));
    graph.until("it has ended", |run| run["status"] == "completed");
    graph.env.norma(&["verify", "@last"]).success();
}
