//! The server: how long a committed event is on its way to those who watch and what that costs, and what the list and the
//! snapshot of runs take where there are many. What is watched is a process of its own that appends made-up facts as a
//! run does; the rest is asked of `norma serve`.

mod appending;
pub(crate) mod client;
pub(crate) mod graph;

use crate::log::open_run;
use crate::memory;
use crate::page::{Section, Table, at_most};
use crate::runs;
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
pub(crate) use appending::{SERVE, serve};
use client::{Client, Server};
use contract::Fact;
use store::{Layout, Store};

const TARGET_COMMITS: f64 = 3.0;
const TARGET_P99_MS: f64 = 10.0;
const TARGET_CPU_US: f64 = 20.0;
const TARGET_LIST_MS: f64 = 20.0;
const TARGET_SNAPSHOT_MS: f64 = 50.0;
const TARGET_MB: f64 = 40.0;

/// How many watch.
const VIEWERS: usize = 20;

/// How many facts are appended at once to make a long log.
const PIECE: usize = 1000;

pub(crate) fn run(world: &World) -> Result<Section> {
    tell("bench: server, viewers");
    let mut tables = vec![delivery(world)?];
    let runs = u64::from(world.count(10_000, 500));
    let events = world.count(100_000, 5000) as usize;
    tell(&format!("bench: server, {runs} runs"));
    tables.push(many(world, runs, events)?);
    let about = format!(
        "{VIEWERS} WebSockets on one run, read by one other process. A delivery is from the moment at which the append is \
         acknowledged to the moment at which a viewer has read everything about the fact; it is shown for every viewer, and for the \
         last of each fact. Floor: what the append itself takes, in the same seconds. Processor time is the server's, with the viewers \
         less without them, for each event that was delivered. The list is `GET /api/runs`, the first page of {runs} runs; the \
         snapshot `GET /api/runs/:id` of one whose log has {events} facts; both are read whole by a client that connects for each. \
         Memory is the resident set of `norma serve` that nobody asks anything."
    );
    Ok(Section { title: "Server", about, tables })
}

fn delivery(world: &World) -> Result<Table> {
    let dir = world.repository("server", 1)?;
    crate::barriers::must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let mut server = Server::appending(world, &dir)?;
    let facts = world.count(2000, 100) as usize;
    // What is loaded and allocated once is not charged to either.
    server.append(facts / 10, &mut [])?;
    let alone = server.append(facts, &mut [])?;
    let mut viewers: Vec<Client> =
        (0..VIEWERS).map(|_| Client::watch(&server.address, &server.run)).collect::<Result<_>>()?;
    server.append(facts / 10, &mut viewers)?;
    let watched = server.append(facts, &mut viewers)?;
    let (mut each, mut last) = (Samples::default(), Samples::default());
    for (committed, received) in watched.committed.iter().zip(&watched.received) {
        let after = |at: &u64| at.saturating_sub(*committed) as f64 / 1e6;
        received.iter().for_each(|at| each.push(after(at)));
        last.push(received.iter().map(after).fold(0.0, f64::max));
    }
    let commit = watched.took.median();
    let delivered = (watched.events * VIEWERS) as f64;
    let cpu_us = (watched.cpu_us - alone.cpu_us).max(0.0) / delivered;
    let mut table = Table::new(&["event committed → viewer", "p50 ms", "p99 ms", "p50 × commit", "target", ""]);
    let row = |name: String, samples: &Samples, target: Option<f64>| {
        let ratio = samples.median() / commit;
        let target_told = target.map_or_else(|| "–".to_owned(), |it| format!("≤ {it} ×, p99 ≤ {TARGET_P99_MS} ms"));
        let p99 = samples.quantile(0.99);
        let holds = target.map_or_else(|| "–".to_owned(), |it| both(ratio, it, p99, TARGET_P99_MS));
        vec![name, format!("{:.3}", samples.median()), format!("{p99:.3}"), format!("{ratio:.2}"), target_told, holds]
    };
    table.row(row(format!("floor: the append itself, {facts} of them"), &watched.took, None));
    table.row(row("every viewer".to_owned(), &each, Some(TARGET_COMMITS)));
    table.row(row(format!("the last of {VIEWERS}"), &last, Some(TARGET_COMMITS)));
    table.row(vec![
        "server's processor time for each delivered event".to_owned(),
        format!("{cpu_us:.1} µs"),
        "–".to_owned(),
        "–".to_owned(),
        format!("≤ {TARGET_CPU_US} µs"),
        at_most(cpu_us, TARGET_CPU_US),
    ]);
    Ok(table)
}

fn both(one: f64, one_max: f64, other: f64, other_max: f64) -> String {
    let holds = one <= one_max && other <= other_max;
    if holds { "holds".to_owned() } else { "falls short".to_owned() }
}

fn many(world: &World, count: u64, events: usize) -> Result<Table> {
    let dir = world.repository("server-many", 1)?;
    crate::barriers::must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let layout = Layout::new(&dir, None);
    runs::make(world, &layout, count)?;
    let long = long_run(&layout, count, events)?;
    rustix::fs::sync();
    let server = Server::norma(world, &dir)?;
    let idle_mb = resident_mb(server.pid())?;
    let mut table = Table::new(&["with many runs", "p50", "p99", "target", ""]);
    for (name, path, target) in [
        (format!("`GET /api/runs`, {count} runs"), "/api/runs".to_owned(), TARGET_LIST_MS),
        (format!("snapshot of a run with {events} facts"), format!("/api/runs/{long}"), TARGET_SNAPSHOT_MS),
    ] {
        let mut samples = Samples::default();
        for _ in 0..world.count(100, 10) {
            samples.push_ms(client::get(&server.address, &path)?);
        }
        let (p50, p99) = (samples.median(), samples.quantile(0.99));
        let target_told = format!("≤ {target} ms");
        table.row(vec![name, format!("{p50:.2} ms"), format!("{p99:.2} ms"), target_told, at_most(p50, target)]);
    }
    let asked_mb = resident_mb(server.pid())?;
    for (name, mb) in [("resident memory, idle", idle_mb), ("the same after being asked", asked_mb)] {
        let target = format!("≤ {TARGET_MB} MB");
        table.row(vec![name.to_owned(), format!("{mb:.1} MB"), "–".to_owned(), target, at_most(mb, TARGET_MB)]);
    }
    Ok(table)
}

/// A run that was left with a long log; answers its slug.
fn long_run(layout: &Layout, number: u64, events: usize) -> Result<String> {
    let store = Store::open(layout)?;
    let mut log = open_run(&store, number)?;
    let mut number = 0;
    while number < events {
        let piece: Vec<Fact> = (number..events.min(number + PIECE)).map(appending::fact).collect();
        number += piece.len();
        store.append(&mut log, piece, Vec::new())?;
    }
    Ok(log.name.run.slug().to_string())
}

fn resident_mb(pid: u32) -> Result<f64> {
    // What starting it took is given back, or not, within a moment.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let status = memory::read(pid, "status");
    let kb = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kb: f64 = kb.ok_or("the server is gone")?;
    Ok(kb * 1024.0 / 1e6)
}
