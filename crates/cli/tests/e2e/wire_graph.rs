//! A graph that is built and used with the mouse: the page of `testing/page`, which is a client of seed 003's API and nothing
//! of norma's own, makes nodes, draws an edge, talks, interrupts, approves, and comes past a stall.

use crate::graph::world::environment;
use crate::serve::client::serve;
use crate::wire_page::is_well;
use serde_json::{Value, json};
use wire_page::{Chromium, Forwarder, Tab};

/// Sends a form with these values. Not by the mouse: what agents do meanwhile moves the forms below the pointer.
fn submit(tab: &Tab<'_>, form: &str, values: &Value) {
    tab.eval(&format!(
        "(() => {{ const form = document.querySelector('{form}');
           for (const [name, value] of Object.entries({values})) {{
             const field = form.elements[name];
             if (field.type === 'checkbox') field.checked = value; else field.value = value;
           }}
           form.requestSubmit(); }})()"
    ));
}

/// Presses a button, wherever it is by then.
fn press(tab: &Tab<'_>, selector: &str) {
    let found = json!(selector);
    tab.until(&format!("document.querySelector({found}) !== null"));
    tab.eval(&format!("document.querySelector({found}).click()"));
}

/// Adds a node by the form; answers its id.
fn add_node(tab: &Tab<'_>, label: &str) -> String {
    let before = tab.count(".node");
    submit(tab, "#node", &json!({"label": label, "provider": "custom"}));
    tab.until(&format!("document.querySelectorAll('.node').length === {}", before + 1));
    let id = tab.eval(&format!("Object.values(state.run.nodes).find((node) => node.label === '{label}').id"));
    id.as_str().unwrap().to_owned()
}

fn say(tab: &Tab<'_>, node: &str, content: impl ToString) {
    chat(tab, node, &content.to_string(), false);
}

fn chat(tab: &Tab<'_>, node: &str, content: &str, interrupt: bool) {
    submit(tab, "#chat", &json!({"nodeId": node, "content": content, "interrupt": interrupt}));
}

/// Waits until a node has said something whole.
fn said(tab: &Tab<'_>, node: &str, text: &str) {
    let row = format!(".message.assistant.whole[data-node='{node}']");
    tab.until(&format!("[...document.querySelectorAll(\"{row}\")].some((row) => row.innerText === {})", json!(text)));
}

fn status(tab: &Tab<'_>, node: &str, status: &str) {
    tab.until(&format!("document.querySelector(\".node[data-node='{node}'] .status\").innerText === '{status}'"));
}

fn frames(tab: &Tab<'_>, kind: &str) -> u64 {
    tab.eval(&format!("page.frames.filter(({{event}}) => event.type === '{kind}').length")).as_u64().unwrap()
}

#[test]
fn a_page_builds_a_graph_talks_to_it_and_sees_what_comes_of_it() {
    let Some(browser) = Chromium::start() else { return };
    let env = environment(|_| {});
    let served = serve(&env);
    let forwarder = Forwarder::to(&served.host);
    let tab = browser.open(&forwarder.url());
    // There was no run, so this client has made one.
    tab.until("page.isStarted === true && page.sockets.at(-1)?.readyState === WebSocket.OPEN");
    assert!(tab.text("#modes").starts_with("auto implementation "), "{}", tab.text("#modes"));
    tab.click("#interactive");
    tab.until("document.querySelector('#modes').innerText.startsWith('interactive ')");
    let (ada, bob) = (add_node(&tab, "Ada"), add_node(&tab, "Bob"));
    tab.drag(&format!(".node[data-node='{ada}'] .handle"), &format!(".node[data-node='{bob}']"));
    tab.until("document.querySelectorAll('.edge').length === 1");
    assert!(tab.text(".edge").contains("↔") && tab.text(".edge").contains("handoff task"), "{}", tab.text(".edge"));
    say(&tab, &ada, json!({"write": {"made.txt": "made\n"}, "say": "wrote it"}));
    said(&tab, &ada, "wrote it");
    said(&tab, &bob, "turn 1 of implementer: wrote it");
    tab.until("document.querySelectorAll('.handoff').length === 2");
    tab.until("[...document.querySelectorAll('.artifact.diff')].some((row) => row.innerText.includes('made.txt'))");
    let diff =
        tab.eval("Object.values(state.run.artifacts).find((it) => it.metadata?.filesChanged?.includes('made.txt')).id");
    press(&tab, &format!("[data-artifact={diff}] .view"));
    tab.until("document.querySelector('#viewer').innerText.includes('+++ b/made.txt')");
    interrupts(&tab, &ada);
    approves(&tab, &ada);
    comes_past_a_stall(&tab, &bob);
    press(&tab, ".edge .delete");
    tab.until("page.frames.some(({event}) => event.type === 'edge.deleted')");
    assert_eq!(tab.count(".edge"), 0);
    press(&tab, &format!(".node[data-node='{bob}'] .delete"));
    tab.until("document.querySelectorAll('.node').length === 1");
    for kind in ["run.mode", "run.stalled", "run.phase", "node.patch", "node.progress", "edge.created", "message.user"]
    {
        assert!(frames(&tab, kind) > 0, "{kind}");
    }
    let id = tab.eval("state.run.id").as_str().unwrap().to_owned();
    let snapshot = served.get(&format!("/api/runs/{id}"))["run"].clone();
    for part in ["status", "mode", "globalMode", "nodes", "edges", "artifacts"] {
        assert_eq!(tab.eval(&format!("state.run.{part}")), snapshot[part], "{part}");
    }
    is_well(&tab);
    env.norma(&["verify", "@last"]).success();
}

/// What is sent with the box ticked ends the turn; what was sent without it waits behind it.
fn interrupts(tab: &Tab<'_>, node: &str) {
    say(tab, node, json!({"run": ["sleep", "600"]}));
    status(tab, node, "RUNNING");
    say(tab, node, "later");
    tab.until(&format!("state.run.nodes['{node}'].inboxCount === 1"));
    chat(tab, node, "now", true);
    said(tab, node, "turn 3 of implementer: now | later");
}

fn approves(tab: &Tab<'_>, node: &str) {
    say(tab, node, json!({"say": "may I?", "result": {"ask": {"command": ["make", "install"]}}}));
    tab.until("document.querySelectorAll('.card').length === 1");
    assert!(tab.text(".card").contains(r#""argv":["make","install"]"#), "{}", tab.text(".card"));
    status(tab, node, "BLOCKED");
    press(tab, ".card .approve");
    tab.until("document.querySelectorAll('.card').length === 0");
    tab.until("document.querySelector('#messages').innerText.includes('approval answered: approved')");
    status(tab, node, "IDLE");
}

fn comes_past_a_stall(tab: &Tab<'_>, node: &str) {
    for time in 1..=3 {
        say(tab, node, json!({"say": "the same", "name": format!("{time}")}));
        let count: Value = json!(time);
        let whole = ".filter((message) => message.role === 'assistant' && message.content === 'the same').length";
        tab.until(&format!("state.messages{whole} >= {count}"));
    }
    tab.until("document.querySelector('#stalled').innerText.includes('the same')");
    tab.until("document.querySelector('#status').innerText === 'PAUSED'");
    tab.until("page.frames.some(({event}) => event.patch?.status === 'paused')");
    tab.click("#resume");
    tab.until("document.querySelector('#status').innerText === 'RUNNING'");
    say(tab, node, json!({"say": "something else"}));
    said(tab, node, "something else");
}
