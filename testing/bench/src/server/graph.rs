//! Graphs: what an idle node costs, how long a message is on its way to the turn that it starts, and whether that grows with
//! the length of the log. The agents are programs that note when they began, so what is measured is the whole way: request,
//! record, workspace, sandbox.

use super::client::{Server, get_json, post};
use super::resident_mb;
use crate::barriers::must;
use crate::memory;
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use contract::graph::ModeChanged;
use contract::view::graph::{GlobalMode, RunMode};
use contract::{Fact, GraphFact};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{Layout, Reader, Store};

const TARGET_NODE_MB: f64 = 1.0;
const TARGET_ITEMS: f64 = 2.0;
const TARGET_LONG: f64 = 1.2;

/// How many nodes.
const NODES: u32 = 50;

/// How many facts are appended at once to make a long log.
const PIECE: usize = 1000;

/// How long a turn may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// Notes when it began, reads what it is told, and answers something that it has not said before: whoever says the same
/// again and again stalls a graph.
const AGENT: &str = r#"date +%s%N > "$NORMA_STEP_DIR/began"; cat > /dev/null
printf '{"version":1,"status":"ok","summary":"did %s"}\n' "$(date +%s%N | tr 0-9 a-j)"
date +%s%N > "$NORMA_STEP_DIR/ended""#;

/// A graph with one node that is talked to.
struct Talk {
    id: String,
    steps: PathBuf,
    node: String,
    turns: u32,
}

pub(crate) fn run(world: &World) -> Result<Section> {
    let dir = ready(world)?;
    let events = world.count(100_000, 5000) as usize;
    tell(&format!("bench: graph, a log of {events} facts"));
    let mut long = {
        let server = Server::norma(world, &dir)?;
        let mut long = Talk::new(&server, &dir)?;
        long.say(&server)?;
        long
    };
    lengthen(&dir, &long, events)?;
    rustix::fs::sync();
    let server = Server::norma(world, &dir)?;
    let mut fresh = Talk::new(&server, &dir)?;
    tell("bench: graph, messages");
    let [mut first, mut next, mut short, mut longer] = [(); 4].map(|()| Samples::default());
    for _ in 0..world.count(40, 5) + 1 {
        short.push(fresh.say(&server)?);
        longer.push(long.say(&server)?);
        let (of_first, of_next) = starts_of_items(&server, &dir)?;
        first.push(of_first);
        next.push(of_next);
    }
    let samples = [first, next, short, longer].map(|samples| samples.after(1));
    let mut tables = vec![starts(&samples, events)];
    tell(&format!("bench: graph, {NODES} nodes"));
    tables.push(idle(world, &server, &dir)?);
    let about = format!(
        "Confined programs as agents, on a repository of 100 files. A start is from the moment at which the request is sent to the \
         first line of the agent's program: of a message to an idle node, `POST /api/runs/:id/chat`; of the first item of a \
         batch, `POST /api/runs`. The next item needs the first, and its start is from the last line of that one's program to the first \
         of its own: the floor. The long log has {events} facts, and both graphs are carried out by the same \
         server, in turn. The idle nodes are {NODES} of one graph, each with one turn behind it; memory is what the resident set of \
         the server grew by, and processor time what it used while nobody asked for anything."
    );
    Ok(Section { title: "Graphs", about, tables })
}

fn starts([first, next, short, long]: &[Samples; 4], events: usize) -> Table {
    let mut table = Table::new(&["start of a turn", "p50 ms", "p99 ms", "ratio", "target", ""]);
    let mut row = |name: String, samples: &Samples, floor: f64, target: Option<f64>| {
        let ratio = samples.median() / floor;
        table.row(vec![
            name,
            format!("{:.1}", samples.median()),
            format!("{:.1}", samples.quantile(0.99)),
            format!("{ratio:.2}"),
            target.map_or_else(|| "–".to_owned(), |target| format!("≤ {target} ×")),
            target.map_or_else(|| "–".to_owned(), |target| at_most(ratio, target)),
        ]);
    };
    row("floor: of the next item of a batch".to_owned(), next, next.median(), None);
    row("of the first one".to_owned(), first, next.median(), None);
    row("of a message to a node".to_owned(), short, next.median(), Some(TARGET_ITEMS));
    row(format!("the same after {events} facts, × a fresh graph"), long, short.median(), Some(TARGET_LONG));
    table
}

/// What nodes take that do nothing.
fn idle(world: &World, server: &Server, dir: &Path) -> Result<Table> {
    let graph = Talk::new(server, dir)?;
    let before = resident_mb(server.pid())?;
    let mut nodes = vec![graph.node.clone()];
    for number in 1..NODES {
        nodes.push(add_node(server, &graph.id, &format!("node {number}"))?);
    }
    for node in &nodes {
        post(&server.address, &format!("/api/runs/{}/chat", graph.id), &json!({"nodeId": node, "content": "go"}))?;
    }
    let begun = Instant::now();
    loop {
        let run = get_json(&server.address, &format!("/api/runs/{}", graph.id))?["run"].take();
        let said = |node: &&Value| node["summary"].as_str().is_some_and(|text| text.starts_with("did "));
        if run["nodes"].as_object().is_some_and(|all| all.values().filter(said).count() == NODES as usize) {
            break;
        }
        if begun.elapsed() > PATIENCE {
            return Err("not every node has answered".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let each = (resident_mb(server.pid())? - before) / f64::from(NODES);
    let seconds = world.count(30, 3);
    let ticks_before = ticks(server.pid())?;
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let used = ticks(server.pid())? - ticks_before;
    let mut table = Table::new(&["idle nodes", "", "target", ""]);
    let target = format!("≤ {TARGET_NODE_MB} MB");
    let memory = format!("{each:.3} MB");
    table.row(vec![format!("memory of each of {NODES}"), memory, target, at_most(each, TARGET_NODE_MB)]);
    let spent = format!("{used} ticks");
    table.row(vec![format!("processor time in {seconds} s"), spent, "0 ticks".to_owned(), at_most(used as f64, 0.0)]);
    Ok(table)
}

/// What a process has used of the processor.
fn ticks(pid: u32) -> Result<u64> {
    let stat = memory::read(pid, "stat");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let at = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    // The 14th and 15th of all, of which the first two are before the bracket.
    Ok(at(11).zip(at(12)).map(|(user, system)| user + system).ok_or("the server is gone")?)
}

fn ready(world: &World) -> Result<PathBuf> {
    let dir = world.repository("graph", 100)?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let config = dir.join(".norma/config.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&config)?)?;
    let agent = json!({"type": "exec", "cmd": ["sh", "-c", AGENT]});
    settings["agents"] = json!({"custom": agent, "worker": agent});
    std::fs::write(&config, serde_json::to_vec(&settings)?)?;
    must(world.command(&world.norma, &dir).arg("trust"), 0)?;
    Ok(dir)
}

fn add_node(server: &Server, id: &str, label: &str) -> Result<String> {
    let node = json!({"node": {"label": label, "provider": "custom"}});
    let made = post(&server.address, &format!("/api/runs/{id}/nodes"), &node)?;
    Ok(made["node"]["id"].as_str().ok_or("a node has an id")?.to_owned())
}

fn steps(dir: &Path, run: &Value) -> Result<PathBuf> {
    Ok(dir.join(".norma/runs").join(run["slug"].as_str().ok_or("a run has a slug")?).join("steps"))
}

impl Talk {
    fn new(server: &Server, dir: &Path) -> Result<Talk> {
        let run = post(&server.address, "/api/runs", &json!({"mode": "INTERACTIVE"}))?["run"].take();
        let id = run["id"].as_str().ok_or("a run has an id")?.to_owned();
        let node = add_node(server, &id, "node")?;
        Ok(Talk { steps: steps(dir, &run)?, id, node, turns: 0 })
    }

    /// Milliseconds from a message to the start of the turn that it leads to.
    fn say(&mut self, server: &Server) -> Result<f64> {
        self.turns += 1;
        let sent = now_ns();
        let body = json!({"nodeId": self.node, "content": "go"});
        post(&server.address, &format!("/api/runs/{}/chat", self.id), &body)?;
        began(&self.steps, self.turns, sent)
    }
}

/// Milliseconds until the agent of a batch's first item began, and from its end to the beginning of the next.
fn starts_of_items(server: &Server, dir: &Path) -> Result<(f64, f64)> {
    let sent = now_ns();
    let item = |id: &str, needs: &[&str]| json!({"id": id, "agent_id": "worker", "description": "do it", "dependencies": needs});
    let batch = json!({"batch": [item("one", &[]), item("two", &["one"])]});
    let run = post(&server.address, "/api/runs", &batch)?["run"].take();
    let steps = steps(dir, &run)?;
    let next = noted(&steps, 2, "began")?;
    let between = next.saturating_sub(noted(&steps, 1, "ended")?) as f64 / 1e6;
    Ok((began(&steps, 1, sent)?, between))
}

/// Milliseconds to the beginning of a turn.
fn began(steps: &Path, number: u32, sent: u64) -> Result<f64> {
    Ok(noted(steps, number, "began")?.saturating_sub(sent) as f64 / 1e6)
}

/// Waits until a turn has left what it noted.
fn noted(steps: &Path, number: u32, what: &str) -> Result<u64> {
    let begun = Instant::now();
    let prefix = format!("{number:03}-");
    let noted = || -> Option<u64> {
        let dirs = std::fs::read_dir(steps).ok()?.flatten();
        let is_it = |name: &str| name.starts_with(&prefix) && !name.contains(".tmp");
        let dir = dirs.into_iter().find(|entry| entry.file_name().to_str().is_some_and(is_it))?;
        std::fs::read_to_string(dir.path().join(what)).ok()?.trim().parse().ok()
    };
    loop {
        if let Some(at) = noted() {
            return Ok(at);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("no turn {number} in {}", steps.display()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|now| now.as_nanos() as u64).unwrap_or_default()
}

/// Has a graph that nobody carries out change its mode back and forth.
fn lengthen(dir: &Path, talk: &Talk, events: usize) -> Result<()> {
    let layout = Layout::new(dir, None);
    let slug =
        talk.steps.parent().and_then(Path::file_name).and_then(|name| name.to_str()).ok_or("a run has a slug")?;
    let (_, mut log) = Reader::open(&layout)?.load(slug)?;
    let store = Store::open(&layout)?;
    let modes = [RunMode::Interactive, RunMode::Auto].map(|mode| (mode, GlobalMode::Implementation));
    let mut number = 0;
    while number < events {
        let changed = |number: usize| {
            let (old, new) = (modes[number % 2], modes[(number + 1) % 2]);
            Fact::Graph(GraphFact::ModeChanged(ModeChanged { old, new, by: "bench".to_owned() }))
        };
        // An even number, so that it ends as it began.
        let piece: Vec<Fact> = (number..number + PIECE).map(changed).collect();
        number += piece.len();
        store.append(&mut log, piece, Vec::new())?;
    }
    Ok(())
}
