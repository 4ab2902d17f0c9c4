//! A small world for the store's tests: a state directory in a temporary place, and runs that are carried out
//! fact by fact with the evidence a runner would leave, without agents or git. Every run here fails its first
//! check, is changed once, passes its second check, lands and ends.

use contract::attestation::Envelope;
use contract::{
    AcceptanceCriterion, Author, Backend, Base, Budgets, CommitId, Contract, ContractSchema, Digest, Fact, Item,
    ItemAdded, Landing, LandingConfig, ObjectId, PatchApplied, ProcessEnd, Role, RunId, RunStarted, Statement,
    StepCommitted, StepRef, StepStatus, Timestamp, TreeId, TurnEnd, TurnLimits, Verdict, VerdictGiven, Workflow,
};
use run::{Due, Run};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::{Attached, Layout, Prepared, Preparing, Reader, Recovery, RunLog, Store, Writing};
use tempfile::TempDir;

pub(crate) const BASE_COMMIT: CommitId = CommitId(ObjectId::Sha1([0; 20]));
pub(crate) const BASE_TREE: TreeId = TreeId(ObjectId::Sha1([0; 20]));

/// A tree that no repository has.
pub(crate) fn tree(name: &str) -> TreeId {
    TreeId(ObjectId::Sha256(*contract::hash::sha256(name.as_bytes()).as_bytes()))
}

/// A commit that no repository has.
pub(crate) fn commit(name: &str) -> CommitId {
    CommitId(tree(name).0)
}
pub(crate) const LARGE: usize = 70_000;

/// A repository with a state directory.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) layout: Layout,
}

impl World {
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let layout = Layout::new(dir.path(), None);
        World { dir, layout }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.layout).expect("the store opens")
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&self.layout).expect("the reader opens")
    }

    /// A connection of somebody who is not norma.
    pub(crate) fn raw(&self) -> Connection {
        let db = Connection::open(self.layout.db()).expect("the database opens");
        db.execute_batch("PRAGMA synchronous=OFF").expect("a pragma");
        db
    }

    /// The same without the triggers that make the log append-only.
    pub(crate) fn raw_writable(&self) -> Connection {
        let db = self.raw();
        let drop = "DROP TRIGGER IF EXISTS events_no_update; DROP TRIGGER IF EXISTS events_no_delete;
                    DROP TRIGGER IF EXISTS audit_no_update; DROP TRIGGER IF EXISTS audit_no_delete;
                    PRAGMA foreign_keys=OFF;";
        db.execute_batch(drop).expect("triggers can be dropped");
        db
    }

    pub(crate) fn one<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.raw().query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// A column of text.
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let db = self.raw();
        let mut statement = db.prepare(sql).expect("a statement");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<rusqlite::Result<_>>().expect("text")
    }

    pub(crate) fn event_types(&self, slug: &str) -> Vec<String> {
        self.texts(&format!("SELECT type FROM events WHERE run_id = '{slug}' ORDER BY seq"))
    }

    /// Starts norma as after a crash.
    pub(crate) fn recover(&self) -> Recovery {
        store::recover(&self.store(), &sign).expect("recovery works")
    }

    /// Recovers, then once more: the second time nothing at all is written.
    #[track_caller]
    pub(crate) fn recover_twice(&self) -> Recovery {
        let first = self.recover();
        let (files, audit) = (snapshot(&self.layout.state), self.one::<i64>("SELECT count(*) FROM audit"));
        let second = self.recover();
        assert_eq!(self.one::<i64>("SELECT count(*) FROM audit"), audit, "{second:?}");
        assert_same(&files, &snapshot(&self.layout.state));
        assert_eq!(second.interrupted, [""; 0]);
        first
    }

    /// What `verify` has to say against a run.
    pub(crate) fn problems(&self, slug: &str) -> Vec<String> {
        match store::verify(&self.reader(), slug, None, &open) {
            Err(error) => vec![format!("error: {error}")],
            Ok(found) => {
                let checks = found.checks.into_iter();
                let lines: Vec<String> =
                    checks.flat_map(|c| c.problems.into_iter().map(move |p| format!("{}: {p}", c.name))).collect();
                assert_eq!(found.verified, lines.is_empty());
                lines
            }
        }
    }
}

/// Stands in for a key: whoever knows the word can sign.
fn signature(payload: &[u8]) -> Digest {
    contract::hash::sha256(&[b"a secret word", payload].concat())
}

/// Signs as norma would.
pub(crate) fn sign(said: &Statement) -> Vec<u8> {
    let payload = said.to_bytes();
    Envelope::new(&payload, &signature(b"id"), signature(&payload).as_bytes()).to_bytes()
}

/// Opens what [`sign`] signed.
pub(crate) fn open(envelope: &[u8]) -> Result<Statement, String> {
    let opened = Envelope::open(envelope)?;
    let signed = opened.signature == signature(&opened.payload).as_bytes();
    if signed && opened.keyid == signature(b"id").to_string() {
        Statement::parse(&opened.payload)
    } else {
        Err("is not signed by any of the keys".to_owned())
    }
}

/// Every file below a directory, with its bytes.
pub(crate) fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() {
                waiting.push(entry.path());
                files.insert(entry.path(), b"(directory)".to_vec());
            } else if kind.is_symlink() {
                files.insert(entry.path(), b"(link)".to_vec());
            } else {
                files.insert(entry.path(), std::fs::read(entry.path()).expect("a file"));
            }
        }
    }
    files
}

#[track_caller]
pub(crate) fn assert_same(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) {
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "changed: {changed:?}");
}

/// Copies a directory as it is, half-written files and all.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

pub(crate) fn contract(task: Option<i64>) -> Contract {
    Contract {
        approval_for: Vec::new(),
        prices: BTreeMap::new(),
        tls: contract::TlsConfig::default(),
        attended: false,
        again: false,
        rules: 1,
        graph: None,
        intent: None,
        pipeline: None,
        workers: Default::default(),
        items: Vec::new(),
        schema: ContractSchema::V1,
        workflow: Workflow::Pdca,
        goal: "Make it work".into(),
        acceptance_criteria: vec![AcceptanceCriterion { id: "AC1".into(), text: "it works".into() }],
        budgets: Budgets {
            max_iterations: 5,
            max_patch_kb: Some(200),
            max_changed_files: None,
            max_risky_files: None,
            max_minutes: None,
            max_tokens: None,
            max_cost_usd: None,
        },
        limits: TurnLimits::default(),
        landing: LandingConfig::default(),
        agents: BTreeMap::new(),
        sandbox: Backend::None,
        sandbox_limits: Default::default(),
        sandbox_read: Vec::new(),
        backends: contract::Backends::default(),
        workspace: Default::default(),
        task_id: task,
        scope: Default::default(),
        policies: Default::default(),
    }
}

/// What `norma.md` of such a run says.
pub(crate) const NORMA_MD: &str = "# Goal\n\nMake it work\n\n# Acceptance criteria\n\n- AC1: it works\n\n\
                                   # Budgets\n\n- max_iterations: 5\n- max_patch_kb: 200\n\n# Base\n\n- commit: 0000000000000000000000000000000000000000\n";

/// A run being carried out.
pub(crate) struct Driving<'a> {
    pub(crate) store: &'a Store,
    pub(crate) run: Run,
    pub(crate) log: RunLog,
}

pub(crate) fn run_id(n: u8) -> RunId {
    RunId::new(1_769_180_101_000 + u64::from(n) * 1000, [n; 10])
}

impl<'a> Driving<'a> {
    /// The run's directory, then its first fact.
    pub(crate) fn start(store: &'a Store, n: u8, task: Option<i64>) -> Driving<'a> {
        Driving::start_under(store, n, contract(task))
    }

    /// The same under another contract.
    pub(crate) fn start_under(store: &'a Store, n: u8, mut contract: Contract) -> Driving<'a> {
        let (id, task) = (run_id(n), contract.task_id);
        let dir = store.layout.run(&id.slug());
        std::fs::create_dir_all(dir.join("steps")).expect("a run directory");
        for name in [contract.file(), contract::CONTRACT_FILE] {
            std::fs::write(dir.join(name), contract.canonical()).expect("its contract");
        }
        std::fs::write(dir.join("norma.md"), NORMA_MD).expect("norma.md");
        let digest = contract.digest();
        let items = std::mem::take(&mut contract.items);
        let mut log = RunLog::new(id, task, &digest);
        let fact = Fact::RunStarted(Box::new(RunStarted {
            items: items.len() as u32,
            contract,
            contract_digest: digest,
            base: Base { commit: BASE_COMMIT, tree: BASE_TREE, branch: None },
            tree: BASE_TREE,
            author: Author { name: "A".into(), email: "a@example.org".into() },
            left_out: vec![],
            included: Vec::new(),
            replay_of: None,
            receipt: None,
            parent: None,
            fork: None,
            run_dir: store.layout.shown(&dir),
            pid: 1,
            version: "0.1.0".into(),
        }));
        let added =
            items.into_iter().zip(0..).map(|(item, index)| ItemAdded { index, item, earlier: None, addition: None });
        let facts = std::iter::once(fact).chain(added.map(|added| Fact::ItemAdded(Box::new(added)))).collect();
        let events = store.append(&mut log, facts, vec![]).expect("the run starts");
        let run = Run::fold(id, &events).expect("the first facts are legal");
        Driving { store, run, log }
    }

    /// A run of items that need nothing.
    pub(crate) fn start_items(store: &'a Store, n: u8, names: &[&str]) -> Driving<'a> {
        let item = |name: &&str| -> Item {
            let digest = Digest::from_bytes([9; 32]).to_string();
            let text = format!(
                r#"{{"id":"{name}","agent_id":"agent-{name}","role":"BACKEND","worker":"w","goal":"Do it",
                   "scope":{{}},"timeout_ms":1000,"submitted":"{digest}"}}"#
            );
            serde_json::from_str(&text).expect("an item")
        };
        let items = names.iter().map(item).collect();
        Driving::start_under(store, n, Contract { workflow: Workflow::Batch, items, ..contract(None) })
    }

    /// Opens the turn of the item that is due.
    #[track_caller]
    pub(crate) fn open_item(&mut self) -> StepRef {
        let step = self.run.due().find_map(|due| match due {
            Due::Turn(step) => Some(step),
            _ => None,
        });
        let step = step.expect("a turn is due");
        let base = step.item.map(|place| self.run.base_for(place));
        self.record(vec![Fact::StepStarted { step, base, taken: None }], vec![]);
        step
    }

    /// A run that is on record, resumed if it is paused.
    pub(crate) fn resume(store: &'a Store, slug: &str) -> Driving<'a> {
        let (id, events, log) = Reader::open(&store.layout).and_then(|reader| reader.log(slug)).expect("a log");
        let run = Run::fold(id, &events).expect("a legal log");
        let mut driving = Driving { store, run, log };
        if driving.run.status == contract::Status::Paused {
            driving.record(vec![Fact::RunResumed { pid: 2 }], vec![]);
        }
        driving
    }

    pub(crate) fn slug(&self) -> String {
        self.run.id.slug().to_string()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.store.layout.run(&self.slug())
    }

    #[track_caller]
    pub(crate) fn record(&mut self, facts: Vec<Fact>, attached: impl Into<Attached>) {
        for event in self.store.append(&mut self.log, facts, attached).expect("the facts are appended").iter() {
            self.run.apply(event).expect("the facts are legal");
        }
    }

    #[track_caller]
    pub(crate) fn open_step(&mut self) -> StepRef {
        let Due::Turn(step) = self.run.next() else { panic!("a turn should be due, not {:?}", self.run.next()) };
        self.record(vec![Fact::StepStarted { step, base: None, taken: None }], vec![]);
        step
    }

    /// Writes the step's directory under its temporary name.
    pub(crate) fn fill_step(&self, step: StepRef) -> Preparing {
        let mut evidence = Preparing::new(&self.dir().join("steps").join(step.dir_name()));
        let mut write = |name: &str, text: &[u8]| evidence.write(name, text).expect("a file");
        write("input.json", b"{\"version\":1}\n");
        write("output.json", b"{\"version\":1,\"status\":\"ok\"}\n");
        write("logs/stdout.txt", b"{\"version\":1,\"status\":\"ok\"}");
        write("logs/stderr.txt", b"");
        match step.role {
            Role::Plan => write("plan.md", b"# Plan\n"),
            Role::Do => write("files/large.log", &vec![b'x'; LARGE]),
            Role::Check => {
                write("scorecard.md", b"# Scores\n");
                write("verdict.json", b"{\"version\":1,\"verdict\":\"PASS\",\"criteria\":[]}");
            }
            Role::Act
            | Role::Worker
            | Role::Node
            | Role::Decide
            | Role::Execute
            | Role::Pm
            | Role::TechLead
            | Role::Reviewer => write("patch.diff", b"--- a/f\n+++ b/f\n"),
        }
        evidence
    }

    /// Gives the step's directory its final name.
    pub(crate) fn prepare_step(&self, step: StepRef) -> Prepared {
        self.prepare_step_as(step, Writing::AtOnce)
    }

    /// The same, or in the commit alone.
    pub(crate) fn prepare_step_as(&self, step: StepRef, writing: Writing) -> Prepared {
        self.prepare_filled(step, self.fill_step(step), writing)
    }

    /// The same of a directory that was filled before.
    pub(crate) fn prepare_filled(&self, step: StepRef, mut evidence: Preparing, writing: Writing) -> Prepared {
        let mut facts = vec![Fact::StepCommitted(StepCommitted {
            tree: step.item.map(|_| tree("tree-of-item")),
            until: None,
            usage: None,
            step,
            status: StepStatus::Ok,
            end: TurnEnd::Answered,
            reason: None,
            summary: format!("{} is done", step.role),
            dir: format!("steps/{}", step.dir_name()),
            started_at: Timestamp::from_unix_ms(1_769_180_101_042),
            process: ProcessEnd::Exited(0),
            patch: step.role == Role::Act,
            notes: vec![],
            evidence: evidence.evidence(),
            delta: None,
        })];
        if step.role == Role::Check {
            let verdict = if step.iteration == 1 { Verdict::Fail } else { Verdict::Pass };
            facts.push(Fact::Verdict(VerdictGiven { step, claimed: verdict, verdict, findings: vec![] }));
        }
        let points = ["step.before_rename", "step.after_rename"];
        let dir = format!("steps/{}", step.dir_name());
        evidence
            .finish(&self.run.id.slug(), &dir, Timestamp::from_unix_ms(0), facts, writing, points)
            .expect("a sealed directory")
    }

    pub(crate) fn step(&mut self) -> StepRef {
        let step = self.open_step();
        let prepared = self.prepare_step(step);
        self.record(prepared.facts, prepared.files);
        step
    }

    pub(crate) fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    #[track_caller]
    pub(crate) fn open_change(&mut self) -> (u32, StepRef) {
        let Due::Change { change, step } = self.run.next() else { panic!("a change should be due") };
        let before = self.run.tree();
        self.record(vec![Fact::ChangeStarted { change, step: step.index, before }], vec![]);
        (change, step)
    }

    /// Gives the change's directory its final name; `before` is the tree it says it starts from.
    pub(crate) fn prepare_change(&self, change: u32, step: StepRef, before: TreeId) -> Prepared {
        let dir = format!("changes/{change:03}");
        let mut evidence = Preparing::new(&self.dir().join(&dir));
        evidence.write("patch.diff", b"--- a/f\n+++ b/f\n").expect("a file");
        evidence.write("gates.json", b"{}\n").expect("a file");
        let fact = Fact::PatchApplied(PatchApplied {
            change,
            step: step.index,
            before,
            after: tree(&format!("tree-{change}")),
            files: vec!["f".into()],
            file_count: 1,
            patch_bytes: 16,
            risky: vec![],
            risky_count: 0,
            tests: None,
            gates: Vec::new(),
            receipt: None,
            evidence: evidence.evidence(),
        });
        let points = ["change.before_rename", "change.after_rename"];
        evidence
            .finish(&self.run.id.slug(), &dir, Timestamp::from_unix_ms(0), vec![fact], Writing::AtOnce, points)
            .expect("a sealed directory")
    }

    /// Does whatever is due until the run has ended, then seals it.
    pub(crate) fn finish(&mut self) {
        loop {
            match self.run.next() {
                Due::Turn(_) => drop(self.step()),
                Due::Change { .. } => {
                    let (change, step) = self.open_change();
                    let prepared = self.prepare_change(change, step, self.run.tree());
                    self.record(prepared.facts, prepared.files);
                }
                Due::Land => {
                    let landing = landing();
                    self.record(vec![Fact::LandingStarted(landing.clone())], vec![]);
                    self.record(vec![Fact::Landed(landing)], vec![]);
                }
                Due::End { status, end, budget } => {
                    self.keep_diff();
                    let mut facts: Vec<Fact> = budget.map(Fact::BudgetExceeded).into_iter().collect();
                    facts.push(Fact::ended(status, end));
                    self.record(facts, vec![]);
                    break;
                }
                Due::Item { .. } | Due::Approval | Due::Ask(_) | Due::Pause { .. } | Due::Nothing => break,
                Due::Advance(_)
                | Due::AskFor(_)
                | Due::Stall(_)
                | Due::FollowUp { .. }
                | Due::Plan
                | Due::Questions(_) => break,
            }
        }
        if self.run.status.is_terminal() && !self.is_sealed() {
            store::seal(self.store, &self.slug(), &sign).expect("the run is sealed");
        }
    }

    /// What the run changed, as whoever ends a run writes it down first.
    pub(crate) fn keep_diff(&self) {
        std::fs::write(self.dir().join("patch.diff"), "--- a/f\n+++ b/f\n").expect("patch.diff");
        std::fs::write(self.dir().join("diff_name_only.txt"), "f\n").expect("diff_name_only.txt");
    }

    pub(crate) fn is_sealed(&self) -> bool {
        Reader::open(&self.store.layout).and_then(|reader| reader.is_sealed(&self.slug())).expect("a row")
    }
}

pub(crate) fn landing() -> Landing {
    Landing { target: "refs/heads/main".into(), from: Some(BASE_COMMIT), commit: commit("commit-1"), checkout: true }
}
