//! A run that is larger than anybody would draw: many agents, and a log that no page can hold. What is drawn and kept stays
//! bounded, and how long the page takes to answer is told (`cargo xtask soak server` makes it 100,000 events).

use super::world::{is_well, page};
use crate::graph::world::graph;
use crate::load_server::so_many;
use serde_json::{Value, json};
use wire_page::{Chromium, Tab};

/// Agents of the graph.
const NODES: usize = 200;

/// The most elements that a page of such a run has: far fewer than one for each event.
const ELEMENTS_MAX: u64 = 20_000;

/// The most that the page's own memory has of such a run, in bytes.
const HEAP_MAX: u64 = 200 << 20;

/// Rounds of interactions: enough that a moment in which the machine did something else is not the figure.
const ROUNDS: usize = 25;

/// A key of a view, with the view that it shows.
const VIEWS: [(&str, &str); 3] = [("l", "list"), ("t", "timeline"), ("g", "graph")];

#[test]
fn a_run_with_many_events_and_agents_stays_bounded_and_answers() {
    let Some(browser) = Chromium::start() else { return };
    let graph = graph();
    let nodes: Vec<String> = (0..NODES).map(|at| graph.node(&format!("Agent {at}"), json!({}))).collect();
    for pair in nodes.chunks(2) {
        graph.edge(&pair[0], &pair[1], json!({}));
    }
    let first = graph.run()["seq"].as_u64().unwrap();
    let events = so_many(1_000, 100_000);
    for at in 0..events {
        graph.patch(&format!("/nodes/{}", nodes[at % NODES]), json!({"label": format!("Agent {at}")}));
    }
    let tab = page(&browser, &graph.served);
    tab.go(&format!("{}/run/{}/graph", graph.served.url, graph.id));
    tab.until("document.querySelectorAll('.react-flow__node').length > 10");
    let last = graph.run()["seq"].as_u64().unwrap();
    tab.until(&format!("document.querySelector('[data-testid=at]')?.innerText === 'event {last}'"));
    // What whoever looks at it may look at next is drawn ahead, while nobody waits.
    tab.until("document.querySelector('[data-testid=timeline]') !== null");
    tab.trace();
    (0..ROUNDS).for_each(|round| interact(&tab, round));
    let mut took = tab.traced();
    took.sort_by(f64::total_cmp);
    assert!(took.len() >= ROUNDS * (VIEWS.len() + 1), "{took:?}");
    let heap = tab.eval("performance.memory?.usedJSHeapSize ?? 0").as_u64().unwrap();
    println!(
        "{events} events, {NODES} agents: p50 {:.0} ms, p95 {:.0} ms of {} interactions, heap {heap}",
        took[took.len() / 2],
        took[took.len() * 95 / 100],
        took.len()
    );
    assert!(heap < HEAP_MAX, "{heap} bytes");
    // The first name of each agent is the one that it has, which is no event.
    let half = events / 2;
    looks_back(&tab, first + (half - NODES) as u64 + 1, half);
    is_well(&tab);
    for view in ["graph", "list", "timeline"] {
        tab.go(&format!("{}/run/{}/{view}", graph.served.url, graph.id));
        tab.until(&format!("document.querySelector('[data-testid={view}]')?.checkVisibility() === true"));
        let drawn: Value = tab.eval("document.querySelectorAll('*').length");
        assert!(drawn.as_u64().unwrap() < ELEMENTS_MAX, "{view}: {drawn}");
    }
    is_well(&tab);
}

/// Shows every view by its key, and clicks on an agent.
fn interact(tab: &Tab<'_>, round: usize) {
    for (key, view) in VIEWS {
        tab.press(key);
        tab.until(&format!("document.querySelector('[data-testid={view}]')?.checkVisibility() === true"));
        // Whoever goes on has seen it first.
        tab.eval("new Promise((done) => requestIdleCallback(() => done(true)))");
    }
    // One that is partly out of sight would be scrolled to, which the graph undoes.
    let node = tab.eval(&format!(
        "[...document.querySelectorAll('.react-flow__node [data-node]')].filter((card) => {{
            const {{x, y, width, height}} = card.getBoundingClientRect();
            return card.contains(document.elementFromPoint(x + width / 2, y + height / 2));
        }})[{round}].dataset.node"
    ));
    tab.click(&format!(".react-flow__node [data-node={node}]"));
    tab.until(&format!("document.querySelector('[data-testid=inspector] h2')?.innerText === {node}"));
}

/// Moves the slider to an event, by which an agent had a name, and back.
fn looks_back(tab: &Tab<'_>, seq: u64, name: usize) {
    tab.press("l");
    tab.eval(&format!(
        "(() => {{ const slider = document.querySelector('input[type=range]');
            Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(slider, '{seq}');
            slider.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    ));
    tab.until(&format!("document.querySelector('[data-testid=at]').innerText.startsWith('As of event {seq} of')"));
    let is_there =
        format!("document.querySelector('[data-testid=list] [data-node=\"Agent {name}\"]')?.checkVisibility()");
    tab.until(&format!("{is_there} === true"));
    super::world::click(tab, "Back to now");
    tab.until(&format!("{is_there} === undefined"));
}
