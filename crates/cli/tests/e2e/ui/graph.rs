//! A graph in the page: built with the mouse and with keys alone, talked to, asked, stalled, looked back at, and fed with
//! text that would like to be more than text.

use super::world::{click, is_well, page, shows};
use crate::environment::eventually;
use crate::graph::world::{Graph, environment, graph, started};
use serde_json::json;
use std::time::{Duration, Instant};
use wire_page::{Chromium, Tab};

/// Opens the page of a graph.
fn open<'b>(browser: &'b Chromium, graph: &Graph) -> Tab<'b> {
    let tab = page(browser, &graph.served);
    let slug = graph.run()["slug"].as_str().unwrap().to_owned();
    tab.click(&format!("[data-run='{slug}']"));
    tab.until("document.querySelector('[data-testid=graph]') !== null");
    tab
}

/// How many nodes are on the canvas.
const NODES: &str = "document.querySelectorAll('.react-flow__node').length";

fn labels(graph: &Graph) -> Vec<String> {
    let run = graph.run();
    let mut all: Vec<String> =
        run["nodes"].as_object().unwrap().values().map(|node| node["label"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

/// Drags something a few times, until that has come to something; whether it has.
#[track_caller]
fn drags(tab: &Tab<'_>, from: &str, to: &str, holds: impl Fn() -> bool) -> bool {
    for _ in 0..4 {
        tab.drag(from, to);
        let dragged = Instant::now();
        while dragged.elapsed() < Duration::from_secs(3) {
            if holds() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    false
}

#[test]
fn a_graph_is_built_with_the_mouse_and_its_agents_are_talked_to() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let tab = open(&browser, &graph);
    tab.until(&shows("No agents yet"));
    for (count, label) in (1..).zip(["Lead", "Coder"]) {
        click(&tab, "+ Add agent");
        tab.fill("[name=label]", label);
        click(&tab, "Add agent");
        tab.until(&format!("{NODES} === {count}"));
    }
    let (from, to) = (
        "[data-node=Lead] ~ .react-flow__handle-right",
        ".react-flow__node:has([data-node=Coder]) .react-flow__handle-left",
    );
    let has_edge = || graph.run()["edges"].as_object().unwrap().len() == 1;
    // A hand that misses the handles has a list to choose from.
    if !drags(&tab, from, to, has_edge) {
        tab.click("[data-node=Lead]");
        tab.until("(() => { const all = document.querySelector('[data-testid=inspector] select'); all?.focus(); return document.activeElement === all; })()");
        tab.press("C");
        click(&tab, "Connect to");
    }
    eventually("there is an edge", has_edge);
    tab.until("document.querySelectorAll('.react-flow__edge').length === 1");
    tab.click("[data-node=Coder]");
    click(&tab, "Chat");
    tab.fill(
        "[data-testid=inspector] textarea",
        r#"{"say": "wrote it", "write": {"made.txt": "made\n"}, "result": {"change": true}}"#,
    );
    click(&tab, "Send");
    tab.until("document.querySelector('[data-testid=chat]').innerText.includes('wrote it')");
    // What a node has made is among its diffs, with its path and a link to the file itself.
    click(&tab, "Diffs");
    tab.until("document.querySelector('[data-testid=inspector] [data-file=\"made.txt\"]') !== null");
    let artifacts = graph.run()["artifacts"].clone();
    let diff = artifacts.as_object().unwrap().values().find(|it| it["kind"] == "diff").unwrap();
    let shown = tab.text("[data-artifact=diff]");
    assert!(shown.contains(diff["path"].as_str().unwrap()), "{shown}");
    let href = tab.eval("document.querySelector('[data-artifact=diff] a[download]').getAttribute('href')");
    let file = graph.served.ask("GET", href.as_str().unwrap(), None);
    assert!(file.text().contains("+made"), "{}", file.text());
    // The page shows the server's own state, part by part.
    tab.until("document.querySelector('[data-node=Coder]').innerText.includes('change passed every gate')");
    is_well(&tab);
}

#[test]
fn where_an_agent_is_drawn_is_kept_for_everybody_who_looks() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let [ada, _] = ["Ada", "Bob"].map(|label| graph.node(label, json!({})));
    let tab = open(&browser, &graph);
    tab.until(&format!("{NODES} === 2"));
    graph.patch("", json!({"layout": {"positions": {&ada: {"x": 340, "y": 260}}}}));
    let place = graph.run()["layout"]["positions"][&ada].clone();
    let drawn = format!(
        "document.querySelector('.react-flow__node:has([data-node=Ada])')?.style.transform === 'translate({}px, {}px)'",
        place["x"].as_f64().unwrap(),
        place["y"].as_f64().unwrap(),
    );
    tab.reload();
    tab.until(&drawn);
    click(&tab, "Arrange");
    eventually("it is forgotten", || graph.run()["layout"]["positions"] == json!({}));
    is_well(&tab);
}

#[test]
fn a_graph_is_built_with_keys_alone() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let tab = open(&browser, &graph);
    for (count, label) in (1..).zip(["Ada", "Bob"]) {
        tab.press("Shift+N");
        tab.until("document.activeElement?.name === 'label'");
        tab.write(label);
        tab.press("Enter");
        tab.until(&format!("{NODES} === {count} && document.querySelector('[name=label]') === null"));
    }
    let focus = "(() => { const node = document.querySelector('.react-flow__node:has([data-node=Ada])'); node.focus(); return document.activeElement === node; })()";
    tab.until(focus);
    tab.press("Enter");
    tab.until("document.querySelector('[data-testid=inspector]') !== null");
    tab.until("(() => { const all = document.querySelector('[data-testid=inspector] select'); all?.focus(); return document.activeElement === all; })()");
    tab.press("B");
    click(&tab, "Connect to");
    eventually("there is an edge", || graph.run()["edges"].as_object().unwrap().len() == 1);
    tab.until(focus);
    tab.press("Enter");
    tab.press("Delete");
    tab.until(&format!("{NODES} === 1"));
    assert_eq!(labels(&graph), ["Bob"]);
    is_well(&tab);
}

#[test]
fn a_command_is_changed_by_whoever_approves_it_and_a_turn_is_interrupted() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let node = graph.node("Ada", json!({}));
    let tab = open(&browser, &graph);
    graph.say(
        &node,
        json!({"result": {"ask": {"command": ["git", "push", "--force"], "reason": "it diverged"}}}),
        false,
    );
    tab.until("document.querySelector('article[data-approval]') !== null");
    let card = tab.text("article[data-approval]");
    assert!(card.contains("git push --force") && card.contains("it diverged") && card.contains("expires in"), "{card}");
    tab.screen(390, 844, false);
    click(&tab, "Change command…");
    tab.fill("article textarea", "git push origin");
    click(&tab, "Allow this command instead");
    tab.until("document.querySelector('article[data-approval]') === null");
    let said = graph.answered(&node, 2)[1].clone();
    assert!(said.contains(r#"modified | argv: ["git","push","origin"]"#) || said.contains("modified"), "{said}");
    tab.screen(1440, 900, false);
    tab.click("[data-node=Ada]");
    click(&tab, "Chat");
    graph.say(&node, json!({"run": ["sleep", "60"], "say": "slept"}), false);
    tab.until("document.querySelector('[data-testid=inspector] [data-state=running]') !== null");
    tab.fill("[data-testid=inspector] textarea", "never mind");
    click(&tab, "Interrupt and send");
    tab.until("document.querySelector('[data-testid=chat]').innerText.includes('never mind')");
    eventually("the next turn is told", || graph.answers(&node).last().is_some_and(|it| it.contains("never mind")));
    is_well(&tab);
}

#[test]
fn a_stall_is_shown_with_its_evidence_resumed_and_looked_back_at() {
    let Some(browser) = Chromium::start() else { return };
    let graph = started(environment(|config| config["graph"] = json!({"stall": {"same_output": 2}})), json!({}));
    let node = graph.node("Ada", json!({}));
    let tab = open(&browser, &graph);
    for turn in 1..=2 {
        graph.say(&node, json!({"say": "I am thinking."}), false);
        graph.answered(&node, turn);
    }
    tab.until("document.querySelector('[data-testid=stall]')?.innerText.includes('I am thinking.')");
    click(&tab, "Resume");
    tab.until("document.querySelector('[data-testid=stall]') === null");
    graph.until("it runs again", |run| run["status"] == "running");
    // The whole page as it was: before the node was made there was none.
    let slider = "input[type=range]";
    tab.eval(&format!("document.querySelector('{slider}').focus()"));
    tab.press("Home");
    tab.until("document.querySelector('[data-testid=at]').innerText.startsWith('As of event 1 of')");
    tab.until(&format!("{NODES} === 0"));
    let first = graph.served.get(&graph.path("?at=1"))["run"].clone();
    assert_eq!((first["nodes"].as_object().unwrap().len(), &first["seq"]), (0, &json!(1)));
    click(&tab, "Back to now");
    tab.until(&format!("{NODES} === 1"));
    let now = graph.run();
    assert_eq!(graph.served.get(&graph.path(&format!("?at={}", now["seq"])))["run"], now, "now is the last of them");
    is_well(&tab);
}

#[test]
fn the_page_makes_of_events_what_the_server_makes_of_them() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let [ada, bob, gone] = ["Ada", "Bob", "Gone"].map(|label| graph.node(label, json!({})));
    graph.edge(&ada, &bob, json!({}));
    graph.edge(&bob, &gone, json!({}));
    graph.say(&ada, json!({"write": {"made.txt": "made\n"}, "result": {"change": true}}), false);
    graph.answered(&bob, 1);
    graph.patch(&format!("/nodes/{bob}"), json!({"label": "Robert", "capabilities": {"writeCode": false}}));
    graph.served.ask("DELETE", &graph.path(&format!("/nodes/{gone}")), None).with(200);
    graph.patch("", json!({"mode": "INTERACTIVE", "status": "paused"}));
    let now = graph.until("it is paused", |run| run["status"] == "paused");
    let tab = open(&browser, &graph);
    let path = graph.path("");
    let made = tab.eval(&format!(
        "Promise.all([import('/a/apply.js'), fetch('{path}?at=1').then((it) => it.json()), fetch('{path}/events?since=1').then((it) => it.json())])
            .then(([{{apply}}, {{run}}, {{events}}]) => events.reduce(apply, run))"
    ));
    for part in ["status", "state", "phase", "mode", "globalMode", "updatedAt", "nodes", "edges", "artifacts"] {
        assert_eq!(made[part], now[part], "{part}");
    }
}

/// Text that would like to be more than text.
const HOSTILE: &str = "<img src=https://evil.test/x onerror=seen.errors.push(1)> ![a](https://evil.test/y) [b](javascript:alert(1)) \u{1b}[31mred\u{7} \u{202e}gnp.exe </script><script>seen.errors.push(2)</script>";

#[test]
fn hostile_text_is_shown_as_text_and_fetches_nothing() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let node = graph.node(&HOSTILE[..150], json!({}));
    let tab = open(&browser, &graph);
    graph.say(&node, HOSTILE, false);
    let long = "endless ".repeat(3_000);
    graph.say(
        &node,
        json!({"say": format!("{HOSTILE} {long}"), "write": {"evil.html": HOSTILE}, "result": {"change": true}}),
        false,
    );
    graph.answered(&node, 2);
    let other = graph.node("Bob", json!({}));
    graph.edge(&node, &other, json!({"label": HOSTILE[..100].to_owned()}));
    let judged = || graph.served.get(&graph.path("/changes?brief=1"))["changes"][0].is_object();
    eventually("its change is judged", judged);
    graph.post("/changes/1/comments", &json!({"path": "evil.html", "line": 1, "text": HOSTILE})).with(201);
    graph.say(&node, json!({"result": {"ask": {"command": ["sh", "-c", HOSTILE], "reason": HOSTILE}}}), false);
    tab.until("document.querySelector('article[data-approval]') !== null");
    for view in ["g", "l", "t", "r", "e"] {
        tab.press(view);
        tab.until("document.querySelector('[data-testid=graph], [data-testid=list], [data-testid=timeline], [data-testid=review], [data-testid=evidence]') !== null");
        if view == "l" {
            tab.click("[data-testid=list] button");
            for name in ["Chat", "Diffs", "Files", "Prompts"] {
                click(&tab, name);
                tab.until("document.querySelector('#tab-body [aria-busy]') === null");
            }
        }
    }
    let shown = tab.text("article[data-approval]");
    assert!(
        shown.contains("<img src=https://evil.test/x") && shown.contains("\\u001b[31mred") && shown.contains("\\u202e"),
        "{shown}"
    );
    tab.press("r");
    tab.until("document.querySelector('[data-comment]')?.innerText.includes('<img src=https://evil.test/x')");
    for path in ["/", "/approvals"] {
        tab.go(&format!("{}{path}", graph.served.url));
        tab.until("document.querySelector('article[data-approval]') !== null");
    }
    let made = "document.querySelectorAll('img:not([src=\"/icon.svg\"]), iframe, object, embed, script:not([src]), a[href^=javascript]').length";
    assert_eq!(tab.eval(made), json!(0));
    is_well(&tab);
}
