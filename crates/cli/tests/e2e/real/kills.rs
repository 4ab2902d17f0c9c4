//! A graph of real agents whose server is killed at random moments: no message is lost or taken by two turns that count, no
//! turn counts twice, and what is left verifies. `cargo xtask soak graph` has all four agents and twenty kills.

use super::{Agent, Lab, answer, lab, then_answer, write};
use crate::graph::world::{Graph, started};
use crate::load_server::{Dice, so_many};
use crate::serve::client::serve_at;
use scripted_model::Step;
use scripted_model::script::inline;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time from what is said to the kill: most turns of one round are over by then, and some are not.
const LIFE_MS_MAX: u64 = 6_000;

/// How many seconds the last turns may take.
const ROUNDS_MAX: u32 = 300;

/// Numbers as words of letters: answers that differ by a number only count as the same, and stall a run.
fn word(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

/// What a node is told: it writes a file if it may, takes its time, and hands a word on where there is somebody to.
fn order(number: usize, writes: bool, to: Option<&str>) -> String {
    let file = writes.then(|| write(&format!("made/{}.txt", word(number)), &format!("{number}\n")));
    let handoffs: Vec<Value> = to
        .map(|to| {
            let said = answer(&json!({"summary": format!("took {}", word(number)), "result": result(&[])}));
            json!({"to": to, "message": inline(&said), "response": "none"})
        })
        .into_iter()
        .collect();
    let said = answer(&json!({"summary": format!("did {}", word(number)), "result": result(&handoffs)}));
    let steps: Vec<Step> = file.into_iter().chain(said).collect();
    format!("{} order {number}", inline(&steps))
}

fn result(handoffs: &[Value]) -> Value {
    json!({"handoffs": handoffs, "ask": null, "spawn": null, "change": false, "done": false})
}

/// A node, whether it writes, and to whom it hands things on.
type Member = (String, bool, Option<&'static str>);

fn members(graph: &Graph, all: bool) -> Vec<Member> {
    let reader = json!({"writeCode": false, "writeDocs": false});
    let lead = json!({"roleTemplate": "orchestrator", "provider": "claude", "capabilities": reader});
    let lead = graph.node("Lead", lead);
    let coder = graph.node("Coder", json!({"provider": "codex"}));
    graph.edge(&lead, &coder, json!({}));
    let mut members = vec![(lead.clone(), false, Some("Coder")), (coder.clone(), true, Some("Lead"))];
    if all {
        let helper = graph.node("Helper", json!({"provider": "custom", "agent": "opencode"}));
        let reviewer = json!({"roleTemplate": "reviewer", "provider": "gemini", "capabilities": reader});
        let reviewer = graph.node("Reviewer", reviewer);
        graph.edge(&lead, &helper, json!({}));
        graph.edge(&coder, &reviewer, json!({}));
        members[1].2 = Some("Reviewer");
        members.extend([(helper, true, Some("Lead")), (reviewer, false, None)]);
    }
    members
}

/// What the log says: what was sent that starts a turn, and how many turns that count took each input.
#[derive(Default)]
struct Taken {
    sent: Vec<String>,
    times: BTreeMap<String, usize>,
    /// Turns under way.
    open: usize,
}

/// Reads the log. Every turn that is over has one end, and no number of a turn counts twice.
#[track_caller]
fn taken(graph: &Graph) -> Taken {
    let log = graph.env.norma(&["events", &graph.id, "--json"]).success().raw.clone();
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kinds: &'static [&str]| {
        log.iter().filter(move |event| kinds.contains(&event["type"].as_str().unwrap())).map(|event| &event["payload"])
    };
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for end in of(&["step_committed", "step_interrupted", "reconciled_step"]) {
        *ends.entry(end["step"]["index"].to_string()).or_default() += 1;
    }
    let said: BTreeMap<String, &Value> =
        of(&["step_committed"]).map(|done| (done["step"]["index"].to_string(), &done["end"])).collect();
    // Of several attempts at one turn the last counts: those before it were cut off, or made no sense.
    let (mut taken, mut turns) = (Taken::default(), BTreeMap::new());
    for start in of(&["step_started"]) {
        let index = start["step"]["index"].to_string();
        match ends.get(&index) {
            None => taken.open += 1,
            Some(times) => assert_eq!(*times, 1, "turn {index} has one end"),
        }
        let number = format!("{} {}", start["step"]["node"], start["step"]["iteration"]);
        let before = turns.insert(number.clone(), (index, &start["taken"]["inputs"]));
        let end = before.and_then(|(index, _)| said.get(&index).copied());
        assert!(end.is_none_or(|end| end == "interrupted" || end == "protocol_error"), "turn {number} counts twice");
    }
    for (index, inputs) in turns.values() {
        if said.get(index).is_some_and(|end| *end != "interrupted") {
            for input in inputs.as_array().unwrap() {
                *taken.times.entry(input.as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    let messages = of(&["message_sent"]).filter(|message| message["role"] == "user").map(|message| &message["id"]);
    let handoffs = of(&["handoff_sent"]).filter(|sent| sent["report"] != true).map(|sent| &sent["envelope"]["id"]);
    taken.sent = messages.chain(handoffs).map(|id| id.as_str().unwrap().to_owned()).collect();
    taken
}

/// Approves what agents ask; somebody may have been asked by a turn that is gone.
fn approve(graph: &Graph) {
    for asked in graph.served.get("/api/approvals")["approvals"].as_array().unwrap() {
        let path = format!("/api/approvals/{}/resolve", asked["approvalId"].as_str().unwrap());
        let status = graph.served.ask("POST", &path, Some(&json!({"resolution": {"status": "approved"}}))).status;
        assert!([200, 404, 409].contains(&status), "{status}");
    }
}

/// What there is to see of a graph that does not come to rest.
fn stuck(graph: &Graph, left: &Taken) -> String {
    let waiting = left.sent.iter().filter(|id| !left.times.contains_key(*id)).count();
    let run = graph.run();
    let nodes = run["nodes"].as_object().unwrap().values();
    let nodes: Vec<String> = nodes
        .map(|node| format!("{} {} {} {}", node["label"], node["status"], node["inboxCount"], node["summary"]))
        .collect();
    let log = graph.env.norma(&["events", &graph.id]).success().raw.clone();
    let last: Vec<&str> = log.lines().rev().take(30).collect();
    format!(
        "{waiting} of {} were not taken, {} turns are open; {} {}\n{}\n{}",
        left.sent.len(),
        left.open,
        run["status"],
        run["phase"],
        nodes.join("\n"),
        last.join("\n")
    )
}

#[test]
fn a_graph_of_real_agents_whose_server_is_killed_loses_and_doubles_nothing() {
    let kills = so_many(1, 20);
    let all = kills > 1;
    let agents: &[Agent] = if all { &Agent::ALL } else { &[Agent::Claude, Agent::Codex] };
    let Some(Lab { env, server }) = lab(agents, then_answer([])) else { return };
    let mut graph = started(env, json!({"mode": "INTERACTIVE"}));
    let members = members(&graph, all);
    let port = graph.served.port();
    let (mut dice, mut number) = (Dice(7), 0);
    for _ in 0..kills {
        for (node, writes, to) in &members {
            number += 1;
            graph.say(node, order(number, *writes, *to), false);
        }
        for _ in 0..3 {
            approve(&graph);
            std::thread::sleep(Duration::from_millis(dice.below(LIFE_MS_MAX / 3)));
        }
        graph.served.norma.signal("KILL");
        let Graph { env, served, id } = graph;
        drop(served);
        let served = serve_at(&env, port, &[]);
        graph = Graph { env, served, id };
    }
    let mut last = 0;
    while let Some(left) =
        Some(taken(&graph)).filter(|it| it.open > 0 || it.sent.iter().any(|id| !it.times.contains_key(id)))
    {
        assert!(last < ROUNDS_MAX, "{}", stuck(&graph, &left));
        last += 1;
        approve(&graph);
        std::thread::sleep(Duration::from_secs(1));
    }
    graph.patch("", json!({"status": "completed"}));
    graph.until("the run is over", |run| run["status"] == "completed");
    let Taken { sent, times, open } = taken(&graph);
    assert!(sent.len() >= number && open == 0, "{} of {number}", sent.len());
    assert!(sent.iter().all(|id| times.get(id) == Some(&1)), "{times:?}");
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let slug = graph.run()["slug"].as_str().unwrap().to_owned();
    graph.env.norma(&["verify", &slug]).success();
    drop(server);
}
