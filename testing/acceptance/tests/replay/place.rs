//! A repository in which agents carry out items, and what replays say of that afterwards.

use crate::world::{World, item, write};
use contract::documents::{ReexecReport, ReexecStatus};
use contract::replay::ReplayReport;
use contract::work::TestCommand;
use contract::{Backend, Config, Event, Item, Policies};
use run::Run;
use runner::git::Objects;
use runner::{Alone, Context, Control, Machine, Owner, Progress, Replay, Settings, Starting, Taken, WorkOrder};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Reader, RunLog};

/// Who can be asked.
const AGENTS: [&str; 3] = ["agent", "other", "third"];

/// What an agent's script says in the end.
const ANSWER: &str = r#"{"version":1,"status":"ok","summary":"done"}"#;

/// See the module.
pub(crate) struct Place {
    pub(crate) world: World,
}

impl Place {
    /// A place in every kind of world there is on this machine.
    pub(crate) fn all() -> Vec<Place> {
        [Backend::Native, Backend::None].into_iter().filter_map(Place::new).collect()
    }

    /// A place with a file `a`, and agents that do nothing yet.
    pub(crate) fn new(backend: Backend) -> Option<Place> {
        let mut world = World::new(backend, &[("a", "1\n")])?;
        for name in AGENTS {
            world.config["agents"][name] = json!({ "type": "exec", "cmd": [name] });
        }
        let place = Place { world };
        for name in AGENTS {
            place.agent(name, "");
        }
        Some(place)
    }

    /// Has an agent do what a shell script says, in which `$step` is its step directory, and then answer.
    pub(crate) fn agent(&self, name: &str, script: &str) {
        let find_step = r#"step=$(sed -n 's/.*"step_dir": *"\([^"]*\)".*/\1/p')"#;
        write(&self.world.bin.join(name), &format!("#!/bin/sh\n{find_step}\n{script}\necho '{ANSWER}'\n"));
    }

    /// A program that tests can call.
    pub(crate) fn tool(&self, name: &str, script: &str) {
        write(&self.world.bin.join(name), &format!("#!/bin/sh\n{script}\n"));
    }

    /// Carries out items to their end; the slug of the run.
    pub(crate) fn run(&self, items: Vec<Item>) -> String {
        let order = WorkOrder {
            goal: "g".into(),
            items,
            submitted: b"x".to_vec(),
            baseline: None,
            again: false,
            approval_for: Vec::new(),
        };
        self.own(|context, owner| self.drive(context, owner, |starting| starting.start_work(order).unwrap()))
    }

    /// Carries out the contract of a run again; the slug of the new one, and what differs.
    pub(crate) fn reexec(&self, slug: &str) -> (String, ReexecReport) {
        let again = self.own(|context, owner| {
            let (run, _) = Reader::open(&context.layout).unwrap().load(slug).unwrap();
            self.drive(context, owner, |starting| starting.start_again(&run).unwrap())
        });
        let report = runner::compare(&self.reader(), slug, &again).unwrap();
        (again, report)
    }

    fn drive(
        &self,
        context: &Arc<Context>,
        owner: &Owner,
        start: impl FnOnce(Starting<'_>) -> (Run, RunLog),
    ) -> String {
        let config: Config = serde_json::from_value(self.world.config.clone()).unwrap();
        let settings = Settings::new(config, &[], &context.layout.config(), Policies::built_in());
        let (store, objects, path) = (owner.store(), owner.objects(), self.world.path());
        let (user, trust, settings, path_var) = (&context.user, &context.trust, &settings, path.as_os_str());
        let (run, log) = start(Starting {
            store,
            user,
            objects,
            trust,
            settings,
            path_var,
            user_env: &Default::default(),
            attended: false,
            shows_dependencies: false,
        });
        let (slug, control) = (run.id.slug(), Control::new().unwrap());
        let mut machine = Machine::new(context.clone(), owner.state(), control.cancel.clone());
        let (world, progress, policies) = (&mut machine, Box::new(Untold), &settings.policies);
        Alone { store, objects, world, progress, control, policies }.drive(run, log).unwrap();
        slug.to_string()
    }

    pub(crate) fn rehydrate(&self, slug: &str) -> ReplayReport {
        let context = self.context();
        let objects = Objects::open_or_create(&context.layout.git(), &context.user).unwrap();
        let reader = self.reader();
        let record = runner::verify_run(&reader, &context.trust, slug).unwrap();
        let policies = Policies::built_in();
        Replay { reader: &reader, objects: &objects, policies: &policies }.rehydrate(&record).unwrap()
    }

    pub(crate) fn reverify(&self, slug: &str) -> ReplayReport {
        self.own(|context, owner| {
            let reader = self.reader();
            let record = runner::verify_run(&reader, &context.trust, slug).unwrap();
            let (control, policies) = (Control::new().unwrap(), Policies::built_in());
            let mut machine = Machine::new(context.clone(), owner.state(), control.cancel.clone());
            let replay = Replay { reader: &reader, objects: owner.objects(), policies: &policies };
            replay.reverify(&record, &mut machine, &control).unwrap()
        })
    }

    pub(crate) fn own<T>(&self, act: impl FnOnce(&Arc<Context>, &Owner) -> T) -> T {
        let context = self.context();
        loop {
            // A process that another test has just forked holds the lock too, until it becomes its own program.
            if let Taken::Ours(owner) = Owner::take(&context).unwrap() {
                return act(&context, &owner);
            }
            std::thread::yield_now();
        }
    }

    fn context(&self) -> Arc<Context> {
        self.world.context()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&self.context().layout).unwrap()
    }

    /// The directory of a run.
    pub(crate) fn dir(&self, slug: &str) -> PathBuf {
        self.context().layout.run(slug)
    }

    /// Every byte of a run's directory.
    pub(crate) fn files(&self, slug: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        walk(&self.dir(slug), &mut found);
        found
    }

    /// How the items of a run ended, in the order of the contract.
    pub(crate) fn statuses(&self, slug: &str) -> Vec<String> {
        let (run, _) = self.reader().load(slug).unwrap();
        let told = |state: &Arc<run::ItemState>| {
            let ended = state.ended().unwrap();
            let reason = ended.reason.map(|reason| format!(" {reason}")).unwrap_or_default();
            let gates: Vec<&str> = ended.gates.iter().map(|result| result.gate.as_str()).collect();
            format!("{}: {}{reason}: {}", state.item.id, ended.status, gates.join(" "))
        };
        run.items().iter().map(told).collect()
    }
}

/// An item of its own name, which `agent` carries out and which these commands try.
pub(crate) fn task(id: &str, agent: &str, commands: &[&[&str]]) -> Item {
    let tests =
        item(commands).tests.into_iter().map(|test| TestCommand { name: format!("{id}-{}", test.name), ..test });
    Item { id: id.into(), worker: agent.into(), tests: tests.collect(), ..item(&[]) }
}

/// What differs, in words, without what says the same from another side.
pub(crate) fn differences(report: &ReplayReport) -> Vec<String> {
    let told = report
        .checks
        .iter()
        .flat_map(|check| check.differences.iter().map(|difference| format!("{}: {difference}", check.name)));
    told.collect()
}

/// Fails the test unless nothing differs, and something was compared.
#[track_caller]
pub(crate) fn is_same(report: &ReplayReport, names: &[&str]) {
    assert_eq!(differences(report), [""; 0]);
    assert_eq!(report.status, ReexecStatus::Pass);
    for name in names {
        let check = report.checks.iter().find(|check| check.name == *name).unwrap();
        assert!(check.compared > 0, "nothing was compared: {name}");
    }
}

fn walk(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => walk(&entry, found),
            false => drop(found.insert(entry.clone(), fs::read(&entry).unwrap())),
        }
    }
}

struct Untold;

impl Progress for Untold {
    fn recorded(&mut self, _: &Arc<Run>, _: &Arc<[Event]>) {}
}
