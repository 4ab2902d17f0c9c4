//! Intents over HTTP: ten nodes that run `true`, from `POST /intents` to the end, beside a batch of ten items that do as
//! little; and the view of one of ten thousand runs. Both are asked of one `norma serve`, in turn.

use crate::barriers::must;
use crate::page::{Section, Table, at_most};
use crate::runs;
use crate::sample::Samples;
use crate::server::client::{Server, ask, get};
use crate::step::RESPONSE;
use crate::world::World;
use crate::{Result, tell};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use store::Layout;

const TARGET_RATIO: f64 = 1.5;
const TARGET_VIEW_MS: f64 = 5.0;

/// How many nodes, and items.
const NODES: usize = 10;

/// How often it is asked whether something has ended.
const LOOK: Duration = Duration::from_millis(2);

pub(crate) fn run(world: &World) -> Result<Section> {
    let count = u64::from(world.count(10_000, 500));
    tell(&format!("bench: intents, {count} runs"));
    let dir = world.repository("intents", 100)?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    configure(world, &dir)?;
    runs::make(world, &Layout::new(&dir, None), count)?;
    rustix::fs::sync();
    let server = Server::norma(world, &dir)?;
    let (mut intents, mut batches, mut last) = (Samples::default(), Samples::default(), String::new());
    for number in 0..world.count(30, 3) {
        let (took, run) = intent(&server.address, number)?;
        intents.push_ms(took);
        last = run;
        batches.push_ms(batch(&server.address)?);
    }
    let mut views = Samples::default();
    for _ in 0..world.count(500, 20) {
        views.push_ms(get(&server.address, &format!("/runs/{last}"))?);
    }
    let ratio = intents.median() / batches.median();
    let mut table = Table::new(&["ten of them, over HTTP", "p50 ms", "p90 ms", "× batch", "target", ""]);
    let row = |name: &str, samples: &Samples| {
        vec![name.to_owned(), format!("{:.1}", samples.median()), format!("{:.1}", samples.quantile(0.9))]
    };
    let target = format!("≤ {TARGET_RATIO} ×");
    let batch_row = ["1.00".to_owned(), "–".to_owned(), "–".to_owned()];
    table.row([row("floor: a batch of ten items", &batches), batch_row.to_vec()].concat());
    let intent_row = vec![format!("{ratio:.2}"), target, at_most(ratio, TARGET_RATIO)];
    table.row([row("an intent, compiled to ten nodes", &intents), intent_row].concat());
    let mut view = Table::new(&["view of a run", "p50", "p99", "target", ""]);
    let p99 = views.quantile(0.99);
    view.row(vec![
        format!("`GET /runs/:id`, {count} runs"),
        format!("{:.2} ms", views.median()),
        format!("{p99:.2} ms"),
        format!("p99 ≤ {TARGET_VIEW_MS} ms"),
        at_most(p99, TARGET_VIEW_MS),
    ]);
    let about = format!(
        "An intent whose agent answers at once with {NODES} nodes that run `true`, from `POST /intents` over `POST /intents/:id/run` to \
         the end, compiled anew each time, next to `POST /api/runs` with a batch of {NODES} items whose agents answer at once: confined, \
         in workspaces of their own, with gates and receipts. Whether they have ended is asked every {} ms. All of it in a store with \
         {count} sealed runs.",
        LOOK.as_millis()
    );
    Ok(Section { title: "Intents", about, tables: vec![table, view] })
}

fn configure(world: &World, dir: &Path) -> Result<()> {
    let path = dir.join(".norma/config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let node =
        |number: usize| json!({"id": format!("n{number}"), "kind": "compute", "deps": [], "budget": {"cmd": ["true"]}});
    let result = json!({
        "plan": {"nodes": (0..NODES).map(node).collect::<Vec<_>>()}, "patch": {"files": []}, "tests": [],
    });
    let answer = json!({"version": 1, "status": "ok", "summary": "compiled", "result": result});
    config["agents"] = json!({
        "compiler": {"type": "exec", "cmd": ["/bin/echo", answer.to_string()]},
        "agent-1": {"type": "exec", "cmd": ["/bin/echo", RESPONSE]},
    });
    config["intents"] = json!({"mode": "live"});
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    must(world.command(&world.norma, dir).arg("trust"), 0)?;
    Ok(())
}

/// How long an intent takes, and its run.
fn intent(address: &str, number: u32) -> Result<(Duration, String)> {
    let begun = Instant::now();
    let body = json!({"goal": format!("intent {number}"), "inputs": {}, "constraints": {}});
    let kept = ask(address, "POST", "/intents", Some(&body))?;
    let id = kept["intentId"].as_str().ok_or("no intent")?;
    let started = ask(address, "POST", &format!("/intents/{id}/run"), None)?;
    let run = started["runId"].as_str().ok_or("no run")?.to_owned();
    until_ended(address, &run)?;
    Ok((begun.elapsed(), run))
}

fn batch(address: &str) -> Result<Duration> {
    let begun = Instant::now();
    let item =
        |number: usize| json!({"id": format!("item-{number}"), "agent_id": "agent-1", "description": "be quick"});
    let items: Vec<Value> = (0..NODES).map(item).collect();
    let started = ask(address, "POST", "/api/runs", Some(&json!({"batch": items})))?;
    until_ended(address, started["run"]["id"].as_str().ok_or("no run")?)?;
    Ok(begun.elapsed())
}

fn until_ended(address: &str, run: &str) -> Result<()> {
    loop {
        let view = ask(address, "GET", &format!("/runs/{run}"), None)?;
        match view["status"].as_str() {
            Some("succeeded") => return Ok(()),
            Some("queued" | "running") => std::thread::sleep(LOOK),
            other => return Err(format!("run {run} is {other:?}").into()),
        }
    }
}
