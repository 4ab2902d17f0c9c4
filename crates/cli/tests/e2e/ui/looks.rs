//! How every page looks: axe finds nothing wrong in either theme, nothing is wider than the screen it is on, and the first
//! paint is small. With `NORMA_SCREENSHOTS=DIR` the pages are also kept as pictures (`cargo xtask ui --screenshots`).

use super::world::{is_well, page, repository, shows};
use crate::environment::TestEnvironment;
use crate::serve::{Served, serve};
use serde_json::{Value, json};
use std::path::PathBuf;
use wire_page::{Chromium, Tab};

/// Where axe is, once `cargo xtask ui` or `cargo xtask test` has installed what the page is built with.
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/node_modules/axe-core/axe.min.js");

/// A server with runs of several kinds, and what each page of theirs is called.
fn world() -> (TestEnvironment, Served, Vec<(&'static str, String, &'static str)>) {
    let env = repository();
    env.write("agents/node.py", crate::graph::world::AGENT);
    env.commit("an agent of nodes");
    env.configure(|config| {
        config["agents"] = json!({
            "worker": {"type": "exec", "cmd": ["python3", "agents/worker.py"]},
            "custom": {"type": "exec", "cmd": ["python3", "agents/node.py"]},
        });
    });
    let run = |goal: &str, test: &str| {
        env.norma(&["run", goal, "--agent", "worker", "--allow", "src", "--test", test, "--yes"]);
        env.last()["run_id"].as_str().unwrap().to_owned()
    };
    let landed = run("greet quietly", "python3 tests/greet.py");
    let failed = run("say whether it is loud", "false");
    let served = serve(&env);
    let comment = json!({"path": "src/greet.py", "line": 2, "text": "say in the doc string why it is quiet"});
    served.ask("POST", &format!("/api/runs/{landed}/changes/1/comments"), Some(&comment)).with(201);
    let graph = graph(&served);
    let pages = vec![
        ("home", "/".to_owned(), "Needs you"),
        ("new", "/new".to_owned(), "What do you want changed?"),
        ("approvals", "/approvals".to_owned(), "git push --force"),
        ("verify", "/verify".to_owned(), "Or check a bundle from a file"),
        ("graph", format!("/run/{graph}/graph"), "Reviewer"),
        ("list", format!("/run/{graph}/list"), "Reviewer"),
        ("timeline", format!("/run/{graph}/timeline"), "handoff.sent"),
        ("review", format!("/run/{landed}/review"), "not sent yet"),
        ("evidence", format!("/run/{landed}/evidence"), "Effective"),
        ("failed", format!("/run/{failed}/review"), "did not become part of the run"),
    ];
    (env, served, pages)
}

/// A graph of four agents, one of which has made a change, and one of which asks for something.
fn graph(served: &Served) -> String {
    let post = |path: &str, body: Value| served.ask("POST", path, Some(&body)).with(201);
    let run = post("/api/runs", json!({"test": ["python3 tests/greet.py"], "mode": "INTERACTIVE"}))["run"].clone();
    let at = format!("/api/runs/{}", run["id"].as_str().unwrap());
    let node = |label: &str, role: &str| {
        let node = json!({"label": label, "roleTemplate": role, "provider": "custom"});
        post(&format!("{at}/nodes"), json!({ "node": node }))["node"]["id"].as_str().unwrap().to_owned()
    };
    let [lead, coder, reviewer, writer] =
        [("Lead", "orchestrator"), ("Coder", "implementer"), ("Reviewer", "reviewer"), ("Writer", "writer")]
            .map(|(label, role)| node(label, role));
    for (from, to) in [(&lead, &coder), (&coder, &reviewer), (&lead, &writer)] {
        post(&format!("{at}/edges"), json!({"edge": {"from": from, "to": to}}));
    }
    let say =
        |node: &str, order: Value| post(&format!("{at}/chat"), json!({"nodeId": node, "content": order.to_string()}));
    say(
        &coder,
        json!({"say": "greet() can be told to shout", "append": {"src/greet.py": "\n\ndef shout(name):\n    return greet(name).upper()\n"}, "result": {"change": true}}),
    );
    crate::environment::eventually("the change has passed", || {
        served.get(&at)["run"]["nodes"][&coder]["summary"] == "change passed every gate"
    });
    say(
        &lead,
        json!({"say": "the branch diverged", "result": {"ask": {"command": ["git", "push", "--force"], "reason": "it diverged"}}}),
    );
    crate::environment::eventually("somebody is asked", || served.get("/api/approvals")["approvals"][0].is_object());
    run["slug"].as_str().unwrap().to_owned()
}

/// What axe finds wrong with a page, in a few words each.
#[track_caller]
fn axe(tab: &Tab<'_>, script: &str) -> Value {
    tab.eval(&format!("{script}; true"));
    tab.eval(
        "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.flatMap(({id, nodes}) =>
            nodes.slice(0, 5).map((node) => id + ': ' + node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '').slice(0, 160))))",
    )
}

/// The program that looks at pages; none if it is not installed, which is said.
#[track_caller]
fn axe_program() -> Option<String> {
    let script = std::fs::read_to_string(AXE).ok();
    if script.is_none() {
        let reason = "axe is not installed: cargo xtask ui";
        assert!(!not_run::in_ci(), "{reason}");
        not_run::because(reason);
    }
    script
}

/// Where pictures are kept, if they are.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("NORMA_SCREENSHOTS").map(PathBuf::from)
}

/// The widths that the page is made for: a desk, a small window, a phone.
const WIDTHS: [(u32, u32); 3] = [(1440, 900), (1024, 768), (390, 844)];

#[test]
fn every_page_is_accessible_in_both_themes_and_fits_every_screen() {
    let Some(browser) = Chromium::start() else { return };
    let (_env, served, pages) = world();
    let tab = page(&browser, &served);
    let program = axe_program();
    let mut found = Vec::new();
    for (name, path, shown) in &pages {
        for (width, height) in WIDTHS {
            let is_dark = width == 1024;
            tab.screen(width, height, is_dark);
            tab.go(&format!("{}{path}", served.url));
            // On a phone the list is the home page.
            tab.until(&shows(if *name == "home" && width < 1024 { "greet quietly" } else { shown }));
            tab.until("document.querySelector('[aria-busy=true]') === null");
            if let Some(program) = program.as_ref().filter(|_| width >= 1024) {
                found.extend(axe(&tab, program).as_array().unwrap().iter().map(|it| format!("{name} {width}: {it}")));
            }
            let wide = tab.eval("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= u64::from(width), "{name} is {wide} wide on a screen of {width}");
            if let Some(dir) = pictures() {
                keep(&tab, &dir.join(format!("{name}-{width}.webp")));
            }
        }
        is_well(&tab);
    }
    assert_eq!(found, Vec::<String>::new());
}

fn keep(tab: &Tab<'_>, file: &std::path::Path) {
    use base64ct::{Base64, Encoding};
    // What is drawn in frames of its own has had its time.
    tab.eval("new Promise((done) => setTimeout(done, 400))");
    std::fs::write(file, Base64::decode_vec(&tab.picture()).unwrap()).unwrap();
}

/// The most that may be loaded before the first page is seen, compressed.
const FIRST_PAINT_BYTES: u64 = 120 << 10;

#[test]
fn the_first_paint_is_small_and_heavy_parts_come_when_they_are_needed() {
    let Some(browser) = Chromium::start() else { return };
    let env = repository();
    let served = serve(&env);
    let tab = page(&browser, &served);
    tab.until(&shows("No runs yet"));
    let loaded = tab.eval(
        "Promise.all([...new Set(performance.getEntriesByType('resource').map((it) => new URL(it.name).pathname))]
            .filter((it) => it.startsWith('/a/')).map(async (it) => {
                const stream = (await fetch(it)).body.pipeThrough(new CompressionStream('gzip'));
                return [it, (await new Response(stream).arrayBuffer()).byteLength]; }))",
    );
    let loaded: Vec<(String, u64)> = serde_json::from_value(loaded).unwrap();
    let sum: u64 = loaded.iter().map(|(_, bytes)| bytes).sum();
    assert!(sum <= FIRST_PAINT_BYTES, "{sum} bytes: {loaded:?}");
    assert!(!loaded.iter().any(|(name, _)| name.contains("GraphView") || name.contains("colours")), "{loaded:?}");
}
