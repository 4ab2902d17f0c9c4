//! A run that is larger than anybody would draw: many agents, and a log that no page can hold. What is drawn and kept stays
//! bounded, and how long the page takes to answer is told (`cargo xtask soak server` makes it 100,000 events).

use super::world::{is_well, page};
use crate::graph::world::graph;
use crate::load_server::so_many;
use serde_json::{Value, json};
use wire_page::Chromium;

/// Agents of the graph.
const NODES: usize = 200;

/// The most elements that a page of such a run has: far fewer than one for each event.
const ELEMENTS_MAX: u64 = 20_000;

/// What somebody does, and how long it takes until the page shows it: two frames after the event.
const TIMED: &str = "async (act) => {
    const since = performance.now();
    act();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - since;
}";

#[test]
fn a_run_with_many_events_and_agents_stays_bounded_and_answers() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let nodes: Vec<String> = (0..NODES).map(|at| graph.node(&format!("Agent {at}"), json!({}))).collect();
    for pair in nodes.chunks(2) {
        graph.edge(&pair[0], &pair[1], json!({}));
    }
    let events = so_many(1_000, 100_000);
    for at in 0..events {
        graph.patch(&format!("/nodes/{}", nodes[at % NODES]), json!({"label": format!("Agent {at}")}));
    }
    let tab = page(&browser, &graph.served);
    tab.go(&format!("{}/run/{}/graph", graph.served.url, graph.id));
    tab.until("document.querySelectorAll('.react-flow__node').length > 10");
    let last = graph.run()["seq"].clone();
    tab.until(&format!("document.querySelector('[data-testid=at]')?.innerText === 'event {last}'"));
    let mut took: Vec<f64> = Vec::new();
    for round in 0..10 {
        for key in ["l", "t", "g"] {
            let press = format!("window.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))");
            took.push(tab.eval(&format!("({TIMED})(() => {press})")).as_f64().unwrap());
        }
        let click = format!("document.querySelectorAll('.react-flow__node')[{round}]?.click()");
        took.push(tab.eval(&format!("({TIMED})(() => {click})")).as_f64().unwrap());
    }
    took.sort_by(f64::total_cmp);
    let heap = tab.eval("performance.memory?.usedJSHeapSize ?? 0");
    println!(
        "{events} events, {NODES} agents: p95 {:.0} ms of {} interactions, heap {heap}",
        took[took.len() * 95 / 100],
        took.len()
    );
    for view in ["graph", "list", "timeline"] {
        tab.go(&format!("{}/run/{}/{view}", graph.served.url, graph.id));
        tab.until(&format!("document.querySelector('[data-testid={view}]') !== null"));
        let drawn: Value = tab.eval("document.querySelectorAll('*').length");
        assert!(drawn.as_u64().unwrap() < ELEMENTS_MAX, "{view}: {drawn}");
    }
    is_well(&tab);
}
