//! A real repository with a state directory, and a run in it that is carried out fact by fact, without agents: its first
//! check fails, one change with a receipt is applied, its second check passes, it lands and is sealed.

use contract::receipt::{Deltas, Phase, ReceiptGit, ReceiptSchema};
use contract::work::{Gate, GateResult, ItemStatus, TestCounts, ToolOpsSource};
use contract::{
    Author, Backend, Base, Budgets, Contract, ContractSchema, Digest, Fact, Landing, LandingConfig, PatchApplied,
    ProcessEnd, Receipt, ReceiptRef, Role, RunId, RunStarted, StepCommitted, StepRef, StepStatus, Timestamp, TreeId,
    TurnEnd, TurnLimits, Verdict, VerdictGiven, Workflow,
};
use run::{Due, Run};
use runner::git::{CommitSpec, Identity, Objects, Repository, UserEnvironment, id, recorded};
use runner::{Keys, Trust};
use std::path::PathBuf;
use store::{Layout, Preparing, Reader, RunLog, StepFile, Store};
use tempfile::TempDir;
use verify::{PublicKey, Report};

/// A name that no tar header holds, and two that are one on a disk that ignores case.
const ODD_NAMES: [&str; 2] = ["files/Twin.txt", "files/twin.txt"];

pub(crate) struct World {
    _dir: TempDir,
    user: Repository,
    layout: Layout,
    trust: Trust,
    pub(crate) keys: Keys,
    pub(crate) slug: String,
}

impl World {
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repository");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("f"), "before\n").unwrap();
        let environment = UserEnvironment {
            path: std::env::var_os("PATH"),
            home: Some(dir.path().into()),
            ..UserEnvironment::default()
        };
        Repository::create(&root, &environment, "the beginning").unwrap();
        let user = Repository::discover(&root, environment).unwrap();
        let layout = Layout::new(&user.root, None);
        let trust = Trust::new(&dir.path().join("home"), &layout.state);
        let keys = trust.keys().unwrap();
        let slug = carry_out(&layout, &user, &keys);
        World { _dir: dir, user, layout, trust, keys, slug }
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.layout.run(&self.slug)
    }

    pub(crate) fn export(&self) -> runner::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let reader = Reader::open(&self.layout)?;
        runner::export(&reader, &self.trust, &self.user, &self.slug, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn trusted(&self) -> Vec<PublicKey> {
        self.trust.public_keys().unwrap()
    }

    /// What is wrong with a bundle for somebody who trusts this world's key.
    pub(crate) fn problems(&self, bundle: &[u8]) -> Vec<String> {
        problems(&verify::verify(bundle, &self.trusted()).unwrap())
    }
}

pub(crate) fn problems(report: &Report) -> Vec<String> {
    let checks = report.checks.iter();
    let all: Vec<String> =
        checks.flat_map(|check| check.problems.iter().map(|problem| format!("{}: {problem}", check.name))).collect();
    assert_eq!(report.verified, all.is_empty());
    all
}

struct Driving<'a> {
    store: Store,
    objects: Objects,
    keys: &'a Keys,
    run: Run,
    log: RunLog,
}

fn carry_out(layout: &Layout, user: &Repository, keys: &Keys) -> String {
    layout.create().unwrap();
    let (store, objects) = (Store::open(layout).unwrap(), Objects::open_or_create(&layout.git(), user).unwrap());
    let id = RunId::new(1_769_180_101_000, [1; 10]);
    let started = started(user, &objects);
    let mut log = RunLog::new(id, None, &started.contract_digest);
    store.create_run_dir(&id.slug(), &started, &[], None).unwrap();
    let events = store.append(&mut log, vec![Fact::RunStarted(Box::new(started))], vec![]).unwrap();
    let run = Run::start(id, &events[0]).unwrap();
    let mut driving = Driving { store, objects, keys, run, log };
    driving.finish();
    id.slug().to_string()
}

fn started(user: &Repository, objects: &Objects) -> RunStarted {
    let commit = user.resolve("HEAD").unwrap().unwrap();
    let tree = recorded(objects.tree_of(commit).unwrap());
    let contract = Contract {
        approval_for: Vec::new(),
        prices: std::collections::BTreeMap::new(),
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
        acceptance_criteria: Vec::new(),
        budgets: Budgets {
            max_iterations: 5,
            max_patch_kb: None,
            max_changed_files: None,
            max_risky_files: None,
            max_minutes: None,
            max_tokens: None,
            max_cost_usd: None,
        },
        limits: TurnLimits::default(),
        landing: LandingConfig::default(),
        agents: Default::default(),
        sandbox: Backend::None,
        sandbox_limits: Default::default(),
        sandbox_read: Vec::new(),
        backends: contract::Backends::default(),
        workspace: Default::default(),
        task_id: None,
        scope: Default::default(),
        policies: Default::default(),
    };
    RunStarted {
        items: 0,
        replay_of: None,
        receipt: None,
        contract_digest: contract.digest(),
        contract,
        base: Base { commit: recorded(commit), tree, branch: Some("refs/heads/main".into()) },
        tree,
        author: Author { name: "A".into(), email: "a@example.org".into() },
        left_out: Vec::new(),
        included: Vec::new(),
        parent: None,
        fork: None,
        run_dir: ".norma/runs".into(),
        pid: 1,
        version: "0.1.0".into(),
    }
}

impl Driving<'_> {
    fn dir(&self) -> PathBuf {
        self.store.layout.run(&self.run.id.slug())
    }

    fn record(&mut self, facts: Vec<Fact>, files: Vec<(String, StepFile)>) {
        for event in self.store.append(&mut self.log, facts, files).unwrap().iter() {
            self.run.apply(event).unwrap();
        }
    }

    fn finish(&mut self) {
        loop {
            match self.run.next() {
                Due::Turn(step) => self.step(step),
                Due::Change { change, step } => self.change(change, step),
                Due::Land => self.land(),
                Due::End { status, end, .. } => {
                    std::fs::write(self.dir().join("patch.diff"), "--- a/f\n+++ b/f\n").unwrap();
                    std::fs::write(self.dir().join("diff_name_only.txt"), "f\n").unwrap();
                    self.record(vec![Fact::ended(status, end)], vec![]);
                    return store::seal(&self.store, &self.run.id.slug(), &|said| self.keys.sign(said)).unwrap();
                }
                due => panic!("{due:?} is not expected"),
            }
        }
    }

    fn step(&mut self, step: StepRef) {
        self.record(vec![Fact::StepStarted { step, base: None, taken: None }], vec![]);
        let dir = format!("steps/{}", step.dir_name());
        let mut evidence = Preparing::new(&self.dir().join(&dir));
        evidence.write("output.json", b"{\"version\":1,\"status\":\"ok\"}\n").unwrap();
        if step.index == 1 {
            let long = format!("files/{}/{}", "d".repeat(200), "n".repeat(200));
            for name in ODD_NAMES.into_iter().chain([long.as_str()]) {
                evidence.write(name, name.as_bytes()).unwrap();
            }
            // Nobody takes an agent's file for norma's own, whatever its name.
            evidence.write("files/vsa.dsse.json", b"{}").unwrap();
        }
        let mut facts = vec![Fact::StepCommitted(StepCommitted {
            tree: None,
            until: None,
            usage: None,
            step,
            status: StepStatus::Ok,
            end: TurnEnd::Answered,
            reason: None,
            summary: format!("{} is done", step.role),
            dir: dir.clone(),
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
        self.put_on_record(evidence, &dir, facts);
    }

    fn put_on_record(&mut self, evidence: Preparing, dir: &str, facts: Vec<Fact>) {
        let points = ["step.before_rename", "step.after_rename"];
        let slug = self.run.id.slug();
        let prepared =
            evidence.finish(&slug, dir, Timestamp::from_unix_ms(0), facts, store::Writing::AtOnce, points).unwrap();
        self.record(prepared.facts, prepared.files);
    }

    fn change(&mut self, change: u32, step: StepRef) {
        let before = self.run.tree();
        self.record(vec![Fact::ChangeStarted { change, step: step.index, before }], vec![]);
        let blob = self.objects.write_blob(b"after\n").unwrap();
        let entry = runner::git::Entry { mode: runner::git::MODE_FILE, id: blob };
        let after = recorded(self.objects.edit(id(before), &[(b"f".to_vec(), Some(entry))]).unwrap());
        let dir = format!("changes/{change:03}");
        let mut evidence = Preparing::new(&self.dir().join(&dir));
        let receipt = receipt(&self.run, change, before, after);
        evidence.write("RECEIPT.json", &receipt.to_bytes()).unwrap();
        for (name, bytes) in self.keys.attest_receipt(&receipt, &receipt.to_bytes()) {
            evidence.write(name, &bytes).unwrap();
        }
        let fact = Fact::PatchApplied(PatchApplied {
            change,
            step: step.index,
            before,
            after,
            files: vec!["f".into()],
            file_count: 1,
            patch_bytes: 16,
            risky: vec![],
            risky_count: 0,
            tests: receipt.tests.as_ref().and_then(contract::receipt::ReceiptTests::counts),
            gates: receipt.gates.clone(),
            receipt: Some(ReceiptRef {
                id: receipt.id.clone(),
                sha256: contract::hash::sha256(&receipt.to_bytes()),
                receipt_hash: receipt.receipt_hash,
                content_hash: receipt.content_hash,
            }),
            evidence: evidence.evidence(),
        });
        self.put_on_record(evidence, &dir, vec![fact]);
    }

    fn land(&mut self) {
        let spec = CommitSpec {
            tree: id(self.run.tree()),
            parents: vec![id(self.run.started.base.commit)],
            author: Identity { name: "A".into(), email: "a@example.org".into() },
            seconds: 1_769_180_101,
            message: "Make it work".into(),
        };
        let commit = recorded(self.objects.commit(&spec).unwrap());
        let from = Some(self.run.started.base.commit);
        let landing = Landing { target: "refs/heads/main".into(), from, commit, checkout: true };
        self.record(vec![Fact::LandingStarted(landing.clone())], vec![]);
        self.record(vec![Fact::Landed(landing)], vec![]);
    }
}

fn receipt(run: &Run, change: u32, before: TreeId, after: TreeId) -> Receipt {
    let (submitted, nothing) = (contract::hash::sha256(b"submitted"), Digest::from_bytes([0; 32]));
    let deltas = Deltas::default();
    let base = &run.started.base;
    let mut receipt = Receipt {
        schema: ReceiptSchema::V1,
        id: "0190c0de-0000-7000-8000-000000000001".into(),
        run_id: run.id.slug(),
        task_id: "task".into(),
        change,
        agent_id: "agent-1".into(),
        phase: Phase::Tranche,
        timestamp_ns: "1769180101000000000".into(),
        timestamp_iso: Timestamp::from_unix_ms(1_769_180_101_000),
        status: ItemStatus::Success,
        reason: None,
        error: None,
        denial_reason: None,
        before_hash: nothing,
        after_hash: nothing,
        git: ReceiptGit {
            base_commit: base.commit,
            base_tree: base.tree,
            before_tree: before,
            candidate_tree: Some(after),
            after_tree: after,
        },
        contract: run.started.contract_digest,
        submitted,
        policies: Default::default(),
        toolchain_version: "0.1.0".into(),
        sandbox: "none".into(),
        artifacts: Vec::new(),
        left_out: None,
        proof_artifacts: Vec::new(),
        content_hash: Receipt::content(&submitted, base.tree, after),
        deltas,
        tool_trace: Vec::new(),
        tool_ops: 0,
        tool_ops_source: ToolOpsSource::None,
        gates: vec![GateResult { gate: Gate::Tests, passed: true, findings: Vec::new() }],
        tests: Some(contract::receipt::ReceiptTests::counted(TestCounts { passed: 3, failed: 0, skipped: 0 })),
        untested: false,
        test_log_path: None,
        approvals: Vec::new(),
        previous_receipt_hash: None,
        receipt_hash: nothing,
    };
    receipt.receipt_hash = receipt.hash();
    receipt
}
