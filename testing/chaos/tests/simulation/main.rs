//! Hundreds of bad days in seconds: the real loop and the real store, in a world of dice ([`world`]), with crashes
//! wherever they hurt and disks that lose what was not synced ([`damage`]), judged from outside ([`checker`]).
//!
//! `NORMA_SIM_SEEDS=10000` runs more days, from `NORMA_SIM_FIRST` on (`cargo xtask soak days`); `NORMA_SIM_SEED=42` runs
//! one day again.
#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

mod batch;
mod checker;
mod damage;
mod dice;
mod ground;
mod items;
mod patches;
#[path = "../place/mod.rs"]
mod place;
mod receipts;
mod world;

use contract::{
    Author, Backend, Base, Config, Contract, ContractSchema, Fact, ItemAdded, Policies, RunId, RunStarted, Status,
    TaskStatus, Workflow,
};
use ground::{Ground, in_memory};
use run::Run;
use runner::git::recorded;
use runner::{Alone, Control};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use store::crash::{self, Crashed};
use store::{Layout, Reader, RunLog, Store};
use world::{KEYS, Outside, SIMULATED, Simulated, Teller};

/// How many days there are unless somebody asks for more.
const SEEDS: u64 = 200;

/// How often a run is taken up again before the crashes stop, so that it ends.
const CRASHES_MAX: u32 = 12;

/// How many processes a day may need altogether.
const PROCESSES_MAX: u32 = 200;

const CONFIG: &str = r#"{
  "agents": {
    "plan": {"type": "exec", "cmd": ["a"]}, "do": {"type": "exec", "cmd": ["a"]},
    "check": {"type": "exec", "cmd": ["a"]}, "act": {"type": "exec", "cmd": ["a"]}
  },
  "budgets": {"max_iterations": 4, "max_patch_kb": 4, "max_changed_files": 3},
  "limits": {"protocol_retries": 1}
}"#;

/// Read once: there are many days.
static POLICIES: LazyLock<Policies> = LazyLock::new(Policies::built_in);

/// One day, from the first run to the last; what happened in it, and what is broken.
fn day(ground: &Ground, seed: u64) -> (String, Vec<String>) {
    let dir = in_memory();
    let layout = Layout::new(dir.path(), None);
    let outside = Mutex::new(Outside::new(ground, seed));
    let runs = 1 + outside.lock().unwrap_or_else(PoisonError::into_inner).dice.below(3);
    let mut broken = Vec::new();
    for process in 0..PROCESSES_MAX {
        if process > CRASHES_MAX * runs as u32 {
            outside.lock().unwrap_or_else(PoisonError::into_inner).crashes = 0;
        }
        match live(&layout, &outside, runs) {
            Lived::Done => break,
            Lived::Crashed => damage::damage(&layout, &mut outside.lock().unwrap_or_else(PoisonError::into_inner)),
            Lived::Again => {}
            Lived::Broken(found) => {
                broken.extend(found);
                break;
            }
        }
    }
    let store = Store::open(&layout).unwrap();
    store::recover(&store, &|said| KEYS.sign(said)).unwrap();
    if broken.is_empty() {
        broken = checker::judge(&store, &outside.lock().unwrap_or_else(PoisonError::into_inner));
    }
    (story(&layout, &outside.lock().unwrap_or_else(PoisonError::into_inner)), broken)
}

/// How the life of one process ended.
enum Lived {
    Done,
    Again,
    Crashed,
    Broken(Vec<String>),
}

/// One process: opens, recovers, continues what is paused or starts what is left to do, until it ends or dies.
fn live(layout: &Layout, outside: &Mutex<Outside<'_>>, runs: u64) -> Lived {
    crash::simulate(next_crash(&mut outside.lock().unwrap_or_else(PoisonError::into_inner)));
    let lived = catch_unwind(AssertUnwindSafe(|| process(layout, outside, runs)));
    crash::simulate(None);
    match lived {
        Ok(Ok(lived)) => lived,
        Ok(Err(runner::Error::Io { action: SIMULATED, .. })) => Lived::Crashed,
        Ok(Err(error)) => Lived::Broken(vec![format!("a process could not work: {error}")]),
        Err(payload) if payload.is::<Crashed>() => Lived::Crashed,
        Err(payload) => resume_unwind(payload),
    }
}

fn next_crash(outside: &mut Outside<'_>) -> Option<(&'static str, u32)> {
    let dice = &mut outside.dice;
    let (armed, point, visit) = (dice.percent(60), *dice.pick(crash::POINTS), 1 + dice.below(4) as u32);
    // A turn is taken many times, the rest once or twice.
    let visit = if point.starts_with("step") { visit } else { 1 };
    (armed && outside.crashes > 0).then_some((point, visit))
}

fn process(layout: &Layout, outside: &Mutex<Outside<'_>>, runs: u64) -> runner::Result<Lived> {
    let store = Store::open(layout)?;
    store::recover(&store, &|said| KEYS.sign(said))?;
    let suspicious = outside.lock().unwrap_or_else(PoisonError::into_inner).dice.percent(10);
    let broken = if suspicious { checker::check_idempotence(&store) } else { Vec::new() };
    if !broken.is_empty() {
        return Ok(Lived::Broken(broken));
    }
    let views = Reader::open(layout)?.runs(None)?;
    let paused = views.iter().find(|view| view.status == Status::Paused).map(|view| view.run_id);
    let (run, log) = match paused {
        Some(slug) => {
            let resumed = runner::resume(&store, &POLICIES, &slug)?;
            (resumed.run, resumed.log)
        }
        None if views.len() as u64 == runs => return Ok(Lived::Done),
        None => start(&store, outside)?,
    };
    let control = Control::new()?;
    let ground = outside.lock().unwrap_or_else(PoisonError::into_inner).ground;
    let mut world = Simulated { outside, control: control.clone() };
    let (objects, progress) = (&ground.objects, Box::new(Teller(outside)));
    Alone { store: &store, objects, world: &mut world, progress, control, policies: &POLICIES }.drive(run, log)?;
    Ok(Lived::Again)
}

/// As `runner::start` does it, without a repository of a user.
fn start(store: &Store, outside: &Mutex<Outside<'_>>) -> runner::Result<(Run, RunLog)> {
    let batch = outside.lock().unwrap_or_else(PoisonError::into_inner).dice.percent(50);
    let mut contract = if batch { terms() } else { of_task(store)? };
    let mut outside = outside.lock().unwrap_or_else(PoisonError::into_inner);
    if batch {
        (contract.workflow, contract.items) = (Workflow::Batch, batch::items(&mut outside.dice));
    }
    let contract_digest = contract.digest();
    let items = std::mem::take(&mut contract.items).into_iter().zip(0..);
    let items: Vec<ItemAdded> =
        items.map(|(item, index)| ItemAdded { index, item, earlier: None, addition: None }).collect();
    let (commit, task) = (outside.branch, contract.task_id);
    let tree = recorded(outside.ground.tree_of(commit));
    let id = RunId::new(1_700_000_000_000 + outside.dice.roll() % 1_000_000_000, [outside.dice.roll() as u8; 10]);
    let started = RunStarted {
        items: items.len() as u32,
        contract_digest,
        contract,
        base: Base { commit, tree, branch: Some("refs/heads/main".into()) },
        tree,
        author: Author { name: "A".into(), email: "a@example.org".into() },
        left_out: Vec::new(),
        included: Vec::new(),
        replay_of: None,
        receipt: Reader::open(&store.layout)?.last_receipt()?,
        parent: None,
        fork: None,
        run_dir: store.layout.shown(&store.layout.run(&id.slug())),
        pid: 1,
        version: "0".into(),
    };
    outside.started.push(id.slug().to_string());
    store.create_run_dir(&id.slug(), &started, &items, None)?;
    crash::point("run.before_start");
    let mut log = RunLog::new(id, task, &started.contract_digest);
    let items = items.into_iter().map(|added| Fact::ItemAdded(Box::new(added)));
    let facts = std::iter::once(Fact::RunStarted(Box::new(started))).chain(items).collect();
    let events = store.append(&mut log, facts, Vec::new())?;
    crash::point("run.after_start");
    Ok((Run::fold(id, &events).unwrap(), log))
}

/// The contract of a loop that does a task.
fn of_task(store: &Store) -> runner::Result<Contract> {
    let todo = Reader::open(&store.layout)?.tasks(Some(TaskStatus::Todo))?;
    let task = match todo.first() {
        Some(task) => task.id,
        None => store.add_task("do it".into(), vec!["it is done".into()]).wait()?,
    };
    let acceptance_criteria = Reader::open(&store.layout)?.task(task)?.unwrap().acceptance_criteria;
    Ok(Contract { acceptance_criteria, task_id: Some(task), ..terms() })
}

/// What every contract of this world says.
fn terms() -> Contract {
    let config = Config::parse(CONFIG.as_bytes()).unwrap();
    Contract {
        approval_for: Vec::new(),
        prices: std::collections::BTreeMap::new(),
        tls: contract::TlsConfig::default(),
        attended: false,
        again: false,
        rules: contract::RULES,
        graph: None,
        intent: None,
        pipeline: None,
        workers: [(batch::WORKER.to_owned(), config.agent("do").unwrap())].into(),
        items: Vec::new(),
        schema: ContractSchema::V1,
        workflow: Workflow::Pdca,
        goal: "do it".into(),
        acceptance_criteria: Vec::new(),
        budgets: config.budgets.clone(),
        limits: config.limits.clone(),
        landing: config.landing.clone(),
        agents: config.pdca_agents().unwrap(),
        sandbox: Backend::None,
        sandbox_limits: Default::default(),
        sandbox_read: Vec::new(),
        backends: contract::Backends::default(),
        workspace: Default::default(),
        task_id: None,
        scope: Default::default(),
        policies: POLICIES.digests(),
    }
}

/// What happened, without what differs between two days of the same seed: times, and the ids of events and commits.
fn story(layout: &Layout, outside: &Outside<'_>) -> String {
    let reader = Reader::open(layout).unwrap();
    let tree = outside.ground.tree_of(outside.branch);
    let mut story = format!("main holds {tree} after {} moves of the user\n", outside.user_moves);
    for view in reader.runs(None).unwrap() {
        let (id, events, _) = reader.log(&view.run_id).unwrap();
        let run = Run::fold(id, &events).unwrap();
        let base = Some(run.started.base.commit);
        let merged = run.landed().is_some_and(|landing| landing.checkout && landing.from != base);
        let kinds: Vec<_> = events.into_iter().map(|event| event.fact.parts().0).collect();
        let merged = if merged { " merged" } else { "" };
        story += &format!("{} {:?}:{merged} {}\n", view.run_id, view.status, kinds.join(" "));
    }
    story
}

/// Runs a day and says which it was if anything is wrong with it.
fn check(ground: &Ground, seed: u64) -> Result<String, String> {
    let again = format!("NORMA_SIM_SEED={seed}");
    match catch_unwind(AssertUnwindSafe(|| day(ground, seed))) {
        Ok((story, broken)) if broken.is_empty() => Ok(story),
        Ok((story, broken)) => Err(format!("{again}: {}\n{story}", broken.join("\n"))),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
            Err(format!("{again}: panicked: {}", text.unwrap_or_default()))
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn no_bad_day_loses_a_fact_or_lands_what_did_not_pass() {
    let ground = Ground::new();
    if let Some(seed) = number("NORMA_SIM_SEED") {
        println!("{}", check(&ground, seed).unwrap_or_else(|broken| panic!("{broken}")));
        return;
    }
    let (first, seeds) = (number("NORMA_SIM_FIRST").unwrap_or(0), number("NORMA_SIM_SEEDS").unwrap_or(SEEDS));
    let (next, broken, told) = (AtomicU64::new(first), Mutex::new(Vec::new()), Mutex::new(String::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        break;
                    }
                    match check(&ground, seed) {
                        Ok(story) => told.lock().unwrap().push_str(&story),
                        Err(what) => broken.lock().unwrap().push(what),
                    }
                }
            });
        }
    });
    let (broken, told) = (broken.into_inner().unwrap(), told.into_inner().unwrap());
    let count = |word: &str| told.matches(word).count();
    println!(
        "{seeds} days: {} succeeded, {} items ended, {} landed, {} merged, {} resumed, {} changes recovered, {} steps reconciled, {} evidence lost",
        count(" Succeeded:"),
        count(" item_ended"),
        count(" landed "),
        count(" merged "),
        count(" run_resumed"),
        count(" change_recovered"),
        count(" reconciled_step"),
        count(" evidence_lost"),
    );
    assert!(
        broken.is_empty(),
        "{} of {seeds} days are broken:\n{}",
        broken.len(),
        broken[..broken.len().min(5)].join("\n")
    );
}

#[test]
fn the_same_seed_is_the_same_day() {
    let ground = Ground::new();
    for seed in 0..5 {
        assert_eq!(day(&ground, seed).0, day(&ground, seed).0, "seed {seed}");
    }
}
