//! The log under many writers: each has its own run and waits for its own acknowledgement, which comes only
//! after COMMIT. Compared with one writer that appends to a file and syncs it, on the same disk.

use crate::executor::run_all;
use crate::floor::Appender;
use crate::page::{Section, Table, at_least};
use crate::sample::Samples;
use crate::step::RESPONSE;
use crate::world::World;
use crate::{Result, tell};
use contract::{Fact, Role, RunId, RunStarted, StepRef};
use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};
use store::{Layout, Reader, RunLog, Store};

/// How many write at once.
const WRITERS: usize = 64;

/// What one way of writing came to.
#[derive(Default)]
struct Way {
    rate: Samples,
    /// To the raw rate of the same round.
    ratio: Samples,
    /// From submitting to the acknowledgement.
    latency: Samples,
}

pub(crate) fn run(world: &World) -> Result<Section> {
    let dir = world.dir.join("log");
    let layout = Layout::new(&dir, None);
    let store = Store::open(&layout)?;
    let mut logs = open_runs(&store)?;
    let mut raw_file = Appender::create(&dir.join("raw"))?;
    let lasting = Duration::from_millis(world.count(1500, 300).into());
    let (mut raw, mut tasks, mut threads) = (Samples::default(), Way::default(), Way::default());
    let mut acknowledged = WRITERS;
    for round in 0..world.count(7, 2) {
        let floor = raw_file.rate(lasting)?;
        raw.push(floor);
        acknowledged += as_tasks(&store, &mut logs, lasting, floor, &mut tasks)?;
        // What the mirror still has to do would be charged to the next one.
        settle(&store, &logs)?;
        acknowledged += as_threads(&store, &mut logs, lasting, floor, &mut threads)?;
        settle(&store, &logs)?;
        tell(&format!("bench: log, round {} of {}", round + 1, world.count(7, 2)));
    }
    let (stored, bytes) = stored(&layout, &logs)?;
    let lost = if stored == acknowledged { "none is missing" } else { "SOME ARE MISSING" };
    let about = format!(
        "{WRITERS} writers, each appending to the log of its own run and waiting for its own acknowledgement, which \
         comes after COMMIT. Floor: one writer that appends 361 bytes to a file and calls fsync, in the same round. \
         {acknowledged} events of {bytes} bytes were acknowledged, {stored} are in the log: {lost}. A round lasts \
         {} ms for each way. The ratio is the disk's as much as norma's: an event takes 14 to 17 µs of the one writer, \
         half of it for the pages of its commit, since the events of each run are in a page of the index of their own, \
         and as much of whoever submits it. So where a barrier costs 0.1 or 0.2 ms, as here, processors are the limit, and the \
         writer tops out between 32,000 and 52,000 events/s on two of them; where a barrier costs 2 ms, the barrier is, and the \
         same code is past ten times the floor.",
        lasting.as_millis()
    );
    Ok(Section { title: "Log: group commit", about, tables: vec![table(&raw, &tasks, &threads)] })
}

fn table(raw: &Samples, tasks: &Way, threads: &Way) -> Table {
    let mut table = Table::new(&["writers", "events/s", "ack p50 ms", "ack p99 ms", "× floor", "target", ""]);
    let dash = || "–".to_owned();
    table.row(vec![
        "floor: 1, file + fsync".into(),
        format!("{:.0}", raw.median()),
        dash(),
        dash(),
        "1".into(),
        dash(),
        dash(),
    ]);
    for (name, way, target) in [("64 tasks on one thread", tasks, 7.0), ("64 threads", threads, 4.0)] {
        let ratio = way.ratio.median();
        table.row(vec![
            name.into(),
            format!("{:.0}", way.rate.median()),
            format!("{:.2}", way.latency.median()),
            format!("{:.2}", way.latency.quantile(0.99)),
            format!("{ratio:.1}"),
            format!("≥ {target:.0} ×"),
            at_least(ratio, target),
        ]);
    }
    table
}

fn fact() -> Fact {
    Fact::StepStarted {
        step: StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None },
        base: None,
        taken: None,
    }
}

fn open_runs(store: &Store) -> Result<Vec<RunLog>> {
    (0..WRITERS as u64).map(|number| open_run(store, number)).collect()
}

/// Puts the start of a made-up run on record.
pub(crate) fn open_run(store: &Store, number: u64) -> Result<RunLog> {
    let object = contract::ObjectId::Sha1([1; 20]);
    let base = contract::Base { commit: object.into(), tree: object.into(), branch: Some("refs/heads/main".into()) };
    open_run_on(store, number, base, 5)
}

/// The same on a base that somebody may look for, with so many rounds to come.
pub(crate) fn open_run_on(store: &Store, number: u64, base: contract::Base, rounds: u32) -> Result<RunLog> {
    let started = started(store.layout.root.as_path(), number, base, rounds)?;
    let mut random = [0; 10];
    random[..8].copy_from_slice(&number.to_le_bytes());
    // A second apart, so that slugs differ in their time as those of real runs do.
    let id = RunId::new(1_700_000_000_000 + number * 1000, random);
    let mut log = RunLog::new(id, None, &started.contract_digest);
    store.create_run_dir(&id.slug(), &started, &[], None)?;
    store.append(&mut log, vec![Fact::RunStarted(Box::new(started))], Vec::new())?;
    Ok(log)
}

fn started(root: &Path, number: u64, base: contract::Base, rounds: u32) -> Result<RunStarted> {
    let agent = serde_json::json!({"type": "exec", "cmd": ["/bin/echo", RESPONSE]});
    let contract: contract::Contract = serde_json::from_value(serde_json::json!({
        "schema": "contract.v1",
        "workflow": "pdca",
        "goal": format!("made up for a benchmark, number {number}"),
        "acceptance_criteria": [{"id": "AC1", "text": "it is there"}],
        "budgets": {"max_iterations": rounds},
        "limits": contract::TurnLimits::default(),
        "landing": {"mode": "auto"},
        "agents": {"plan": agent, "do": agent, "check": agent, "act": agent},
        "sandbox": "none",
    }))?;
    Ok(RunStarted {
        items: 0,
        contract_digest: contract.digest(),
        contract,
        tree: base.tree,
        base,
        author: contract::Author { name: "bench".into(), email: "bench@localhost".into() },
        left_out: Vec::new(),
        included: Vec::new(),
        replay_of: None,
        receipt: None,
        parent: None,
        fork: None,
        run_dir: root.join("runs").to_string_lossy().into_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn as_tasks(store: &Store, logs: &mut [RunLog], lasting: Duration, floor: f64, way: &mut Way) -> Result<usize> {
    let started = Instant::now();
    let latencies = RefCell::new(Vec::new());
    let failure = RefCell::new(None);
    let tasks = logs.iter_mut().map(|log| -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        let (latencies, failure) = (&latencies, &failure);
        Box::pin(async move {
            while started.elapsed() < lasting {
                let submitted = Instant::now();
                let (_, end, ticket) = store.submit_append(log, vec![fact()], Vec::new());
                if let Err(error) = ticket.committed().await {
                    *failure.borrow_mut() = Some(error);
                    return;
                }
                *log = end;
                latencies.borrow_mut().push(submitted.elapsed());
            }
        })
    });
    run_all(tasks.collect());
    if let Some(error) = failure.into_inner() {
        return Err(error.into());
    }
    Ok(way.note(&latencies.into_inner(), started.elapsed(), floor))
}

fn as_threads(store: &Store, logs: &mut [RunLog], lasting: Duration, floor: f64, way: &mut Way) -> Result<usize> {
    let started = Instant::now();
    let write = |log: &mut RunLog| -> store::Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        while started.elapsed() < lasting {
            let submitted = Instant::now();
            store.append(log, vec![fact()], Vec::new())?;
            latencies.push(submitted.elapsed());
        }
        Ok(latencies)
    };
    let write = &write;
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let writers: Vec<_> = logs.iter_mut().map(|log| scope.spawn(move || write(log))).collect();
        for writer in writers {
            all.extend(writer.join().map_err(|_| "a writer panicked")??);
        }
        Result::Ok(())
    })?;
    Ok(way.note(&all, started.elapsed(), floor))
}

impl Way {
    fn note(&mut self, latencies: &[Duration], elapsed: Duration, floor: f64) -> usize {
        let rate = latencies.len() as f64 / elapsed.as_secs_f64();
        self.rate.push(rate);
        self.ratio.push(rate / floor);
        latencies.iter().for_each(|latency| self.latency.push_ms(*latency));
        latencies.len()
    }
}

fn settle(store: &Store, logs: &[RunLog]) -> Result<()> {
    for log in logs {
        store.sync_mirror(&log.name.run.slug())?;
    }
    Ok(())
}

/// How many events the log has, and how long the last one is.
fn stored(layout: &Layout, logs: &[RunLog]) -> Result<(usize, usize)> {
    let reader = Reader::open(layout)?;
    let (mut count, mut bytes) = (0, 0);
    for log in logs {
        let lines = reader.lines(&log.name.run.slug(), 0, i64::MAX as u64)?;
        count += lines.len();
        bytes = lines.last().map_or(bytes, String::len);
    }
    Ok((count, bytes))
}
