//! The bundle of runs that have ended: every document fits its schema, the same run has the same bundle, and nothing
//! that did not happen is told as if it had.

use crate::history::{self, History, budgets, commit, end, tree};
use contract::json::schema::Schema;
use contract::receipt::{Deltas, Phase, ReceiptGit, ReceiptSchema};
use contract::work::{Gate, GateResult, OutputSchema, Rights, TestCommand, ToolOpsSource};
use contract::{
    AgentConfig, AgentType, Contract, Digest, Fact, Item, ItemEnded, ItemStatus, ManifestFile, Reason, Receipt,
    ReceiptRef, SessionEvent, Status, Timestamp, TurnEnd, Verdict, Workflow,
};
use run::Due;
use run::bundle::{
    Content, Kept, LogSummary, Part, Piece, Record, Surroundings, Tests, conversations, manifest, pieces,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How an item of these tests ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ends {
    Landed,
    Unchanged,
    Refused,
    TestsFailed,
    Never,
}

/// A run with its evidence.
pub(crate) struct Ended {
    pub(crate) history: History,
    files: BTreeMap<String, ManifestFile>,
    kept: BTreeMap<u32, Kept>,
}

fn digest(byte: u8) -> Digest {
    Digest::from_bytes([byte; 32])
}

pub(crate) fn item(id: &str, ends: Ends) -> Item {
    let test =
        TestCommand { name: "unit".into(), argv: vec!["make".into(), "test".into()], must_pass: true, of_whole: false };
    Item {
        id: id.into(),
        agent_id: format!("agent-of-{id}"),
        role: "FRONTEND".into(),
        worker: "worker".into(),
        goal: "Do it".into(),
        needs: Vec::new(),
        scope: Default::default(),
        read_only: false,
        rights: Rights::default(),
        input_files: Vec::new(),
        output_files: Vec::new(),
        artifacts: Vec::new(),
        tests: if ends == Ends::TestsFailed { vec![test] } else { Vec::new() },
        tests_policy: Default::default(),
        constraints: Default::default(),
        timeout_ms: 1000,
        retries: 0,
        retry_backoff_ms: 0,
        output_schema: None,
        forbidden_actions: Vec::new(),
        audit_only: false,
        sandbox_backend: None,
        review: None,
        thread: None,
        submitted: digest(9),
    }
}

fn file(path: &str) -> (String, ManifestFile) {
    (path.to_owned(), ManifestFile { path: path.to_owned(), size: 3, blake3: digest(2), sha256: digest(3) })
}

/// A batch whose items end like this, in this order.
pub(crate) fn batch(items: &[(&str, Ends)]) -> Ended {
    batch_by(BTreeMap::new(), items)
}

/// The same, carried out by these workers.
fn batch_by(workers: BTreeMap<String, AgentConfig>, items: &[(&str, Ends)]) -> Ended {
    let contract = Contract {
        workers,
        workflow: Workflow::Batch,
        task_id: None,
        items: items.iter().map(|(id, ends)| item(id, *ends)).collect(),
        ..history::contract(budgets(3), 0)
    };
    let root = ["contract.json", "diff_name_only.txt", "events.jsonl", "norma.md", "patch.diff"];
    let files = root.map(file).into_iter().collect();
    let mut ended = Ended { history: History::of_items(contract), files, kept: BTreeMap::new() };
    for (place, (_, ends)) in (0..).zip(items) {
        if *ends != Ends::Never {
            ended.play(place, *ends);
        }
    }
    ended.finish();
    ended
}

impl Ended {
    fn play(&mut self, place: u32, ends: Ends) {
        let history = &mut self.history;
        let step = history.run.due().find_map(|due| match due {
            Due::Turn(step) if step.item == Some(place) => Some(step),
            _ => None,
        });
        let step = step.expect("its turn is due");
        history.wait_ms(1000);
        history.record(Fact::StepStarted { step, base: Some(history.run.base_for(place)), taken: None });
        history.wait_ms(1000);
        if !history.run.started.contract.workers.is_empty() {
            let (model, agent) = (Some("model-1".to_owned()), Some("codex 1.2".to_owned()));
            let event = SessionEvent::Session { id: format!("thread-{place}"), model, agent };
            history.record(Fact::AgentEvent { step, event: Box::new(event) });
            let said = |name: &str| format!("steps/{}/session/{name}.jsonl", step.dir_name());
            self.files.extend([file(&said("events")), file(&said("exchange"))]);
        }
        let mut done = history::committed(step, TurnEnd::Answered, false);
        done.tree = Some(tree(&format!("candidate-{place}")));
        history.record(Fact::StepCommitted(done));
        history.wait_ms(1000);
        let fact = self.end_of(place, step.index, ends);
        self.keep(place, &fact, ends);
        self.history.record(Fact::ItemEnded(Box::new(fact)));
    }

    fn end_of(&self, place: u32, step: u32, ends: Ends) -> ItemEnded {
        let passed = |gate| GateResult { gate, passed: true, findings: Vec::new() };
        let failed = |gate, why: &str| GateResult { gate, passed: false, findings: vec![why.to_owned()] };
        let mut gates: Vec<GateResult> = [Gate::Inputs, Gate::Output].map(passed).into();
        gates.extend(match ends {
            Ends::Refused => vec![failed(Gate::Scope, "outside_scope: README.md")],
            _ => [Gate::Scope, Gate::Admission, Gate::Outputs].map(passed).into(),
        });
        let (status, reason) = match ends {
            Ends::Refused => (ItemStatus::Denied, Some(Reason::PolicyViolation)),
            Ends::TestsFailed => (ItemStatus::Failure, Some(Reason::TestsFailed)),
            Ends::Landed | Ends::Unchanged | Ends::Never => (ItemStatus::Success, None),
        };
        if ends == Ends::TestsFailed {
            gates.push(failed(Gate::Tests, "unit: exit code 1"));
        }
        let head = &self.history.run.line().head;
        let landed = ends == Ends::Landed;
        ItemEnded {
            item: place,
            change: place + 1,
            step: Some(step),
            status,
            reason,
            message: if reason.is_some() { "no".into() } else { String::new() },
            before: head.tree,
            after: if landed { tree(&format!("tree-of-{place}")) } else { head.tree },
            commit: landed.then(|| commit(&format!("commit-of-{place}"))),
            gates,
            files: [u64::from(landed), 0, 0],
            paths: Vec::new(),
            left_out: None,
            delta_size: 0,
            tool_ops: 0,
            tool_ops_source: ToolOpsSource::None,
            tests: None,
            took_ms: 2000,
            receipt: ReceiptRef { id: "r".into(), sha256: digest(4), receipt_hash: digest(5), content_hash: digest(6) },
            evidence: digest(7),
        }
    }

    /// Puts on record what the change's directory holds.
    fn keep(&mut self, place: u32, ended: &ItemEnded, ends: Ends) {
        let dir = format!("changes/{:03}", place + 1);
        let mut names = vec!["RECEIPT.json", "gates.json"];
        if ends != Ends::Unchanged {
            names.push("patch.diff");
        }
        self.files.extend(names.iter().map(|name| file(&format!("{dir}/{name}"))));
        let log = |name: &str| json!({"path": format!("tests/1/{name}"), "sha256": digest(8), "size": 3});
        let tests = json!({"status": "FAIL", "counts": null, "commands": [
            {"name": "unit", "argv": ["make", "test"], "must_pass": true, "exit_code": 1, "timeout_ms": 1000,
             "duration_ms": 250, "stdout": log("stdout.log"), "stderr": log("stderr.log")},
            {"name": "later", "argv": ["make", "more"], "must_pass": true, "exit_code": null, "timeout_ms": 1000,
             "duration_ms": 0, "stdout": null, "stderr": null}]});
        let tests = if ends == Ends::TestsFailed { tests } else { Value::Null };
        let tests = Tests::read(json!({ "tests": tests }).to_string().as_bytes()).expect("its own form");
        let receipt = receipt(&self.history, ended);
        self.kept.insert(place, Kept { receipt, tests, answer: None, reviews: Vec::new() });
    }

    fn finish(&mut self) {
        let history = &mut self.history;
        history.wait_ms(1000);
        if let Due::Land = history.run.next() {
            let mut landing = history::landing("refs/heads/main");
            landing.commit = history.run.line().head.commit;
            history.record(Fact::LandingStarted(landing.clone())).record(Fact::Landed(landing));
        }
        match history.run.next() {
            Due::End { status, end, .. } => history.record(Fact::ended(status, end)),
            _ => history.record(Fact::RunCanceled(end(Some(Reason::Canceled)))),
        };
    }

    fn record(&self) -> Record<'_> {
        let surroundings = Surroundings {
            repository: "/repository".into(),
            workspace: ".norma/worktrees/x".into(),
            platform: "linux-x86_64".into(),
        };
        let mut log = LogSummary::default();
        self.history.events.iter().for_each(|event| log.take(event.clone()));
        Record::new(&self.history.run, log, self.files.clone(), self.kept.clone(), surroundings)
    }

    fn pieces(&self) -> Vec<Piece> {
        pieces(&self.record()).collect()
    }

    /// A document of the bundle.
    #[track_caller]
    fn document(&self, path: &str) -> Value {
        let pieces = self.pieces();
        let piece = pieces.iter().find(|piece| piece.path == path).unwrap_or_else(|| panic!("{path} is not there"));
        let Content::Bytes(bytes) = &piece.content else { panic!("{path} is a copy") };
        serde_json::from_slice(bytes).expect("JSON")
    }

    /// The manifest over everything.
    fn manifest(&self) -> Value {
        serde_json::to_value(manifest(&self.whole_record())).expect("a document")
    }

    /// The record with the files of the bundle on it.
    fn whole_record(&self) -> Record<'_> {
        let mut record = self.record();
        record.files.extend(self.pieces().iter().map(|piece| file(&piece.path)));
        record
    }
}

fn receipt(history: &History, ended: &ItemEnded) -> Receipt {
    let item = &history.run.items()[ended.item as usize].item;
    let base = history.run.base_for(ended.item);
    Receipt {
        schema: ReceiptSchema::V1,
        id: "r".into(),
        run_id: history.run.id.slug(),
        task_id: item.id.clone(),
        change: ended.change,
        agent_id: item.agent_id.clone(),
        phase: Phase::Tranche,
        timestamp_ns: "0".into(),
        timestamp_iso: Timestamp::from_unix_ms(0),
        status: ended.status,
        reason: ended.reason,
        error: None,
        denial_reason: None,
        before_hash: digest(10),
        after_hash: digest(11),
        git: ReceiptGit {
            base_commit: base.commit,
            base_tree: base.tree,
            before_tree: ended.before,
            candidate_tree: None,
            after_tree: ended.after,
        },
        contract: history.run.started.contract_digest,
        submitted: item.submitted,
        policies: BTreeMap::new(),
        toolchain_version: "0.1.0".into(),
        sandbox: "none".into(),
        artifacts: Vec::new(),
        left_out: None,
        proof_artifacts: Vec::new(),
        deltas: Deltas::default(),
        tool_trace: Vec::new(),
        tool_ops: 0,
        tool_ops_source: ToolOpsSource::None,
        gates: ended.gates.clone(),
        tests: None,
        untested: false,
        test_log_path: None,
        approvals: Vec::new(),
        previous_receipt_hash: None,
        content_hash: digest(6),
        receipt_hash: digest(5),
    }
}

/// A run of the other workflow that changed something and passed.
fn pdca() -> Ended {
    let mut history = History::new(3, 0);
    history.failing_round();
    history.turn(contract::Role::Act, TurnEnd::Answered, true);
    history.change();
    history.answered(contract::Role::Plan);
    history.answered(contract::Role::Do);
    history.check(Verdict::Pass, &[]);
    history.land("refs/heads/main");
    assert_eq!(history.finish(), Status::Succeeded);
    let root = ["contract.json", "diff_name_only.txt", "events.jsonl", "norma.md", "patch.diff"];
    Ended { history, files: root.map(file).into_iter().collect(), kept: BTreeMap::new() }
}

#[track_caller]
fn check(schema: &str, document: &Value) {
    let text = contract::schema::built_in(schema).unwrap_or_else(|| panic!("there is no {schema}"));
    let schema = Schema::compile(text.as_bytes()).expect("a schema");
    assert_eq!(schema.violations(document), [], "{document:#}");
}

/// The schema of a document of a bundle, by its path.
fn schema_of(path: &str) -> Option<&'static str> {
    Some(match path {
        "reports/task_result.json" => "task_result.v1.json",
        "reports/review_report.json" => "review_report.v1.json",
        "reports/test_report.json" => "test_report.v1.json",
        "reports/evidence_bundle.json" => "evidence_bundle.v1.json",
        "reports/evidence_report.json" => "evidence_report.v1.json",
        "reports/work_report.json" => "work_report.v1.json",
        path if path.starts_with("results/") && path.ends_with(".json") => "task_result.v1.json",
        path if path.starts_with("reviews/") => "review_report.v1.json",
        path if path.starts_with("ci/") => "test_report.v1.json",
        _ => return None,
    })
}

fn runs() -> [(&'static str, Ended); 6] {
    [
        ("one that landed", batch(&[("first", Ends::Landed)])),
        ("one that was refused", batch(&[("first", Ends::Refused)])),
        ("one whose tests failed", batch(&[("first", Ends::TestsFailed)])),
        ("a batch of all kinds", batch(&[("a", Ends::Landed), ("b", Ends::TestsFailed), ("c", Ends::Unchanged)])),
        ("one that was canceled", batch(&[("a", Ends::Landed), ("b", Ends::Never)])),
        ("the other workflow", pdca()),
    ]
}

#[test]
fn every_document_fits_its_schema_however_the_run_ended() {
    for (what, ended) in runs() {
        let mut reports = 0;
        for piece in ended.pieces() {
            if let Some(schema) = schema_of(&piece.path) {
                check(schema, &ended.document(&piece.path));
                reports += usize::from(piece.path.starts_with("reports/"));
            }
        }
        assert_eq!(reports, 6, "{what}");
        check("run_manifest.v1.json", &ended.manifest());
    }
}

#[test]
fn the_same_run_has_the_same_bundle() {
    for (what, ended) in runs() {
        assert_eq!(ended.pieces(), ended.pieces(), "{what}");
        assert_eq!(ended.manifest(), ended.manifest(), "{what}");
    }
}

#[test]
fn what_did_not_run_is_never_told_as_a_pass() {
    for (what, ended) in runs() {
        let review = ended.document("reports/review_report.json");
        assert_eq!(review["verdict"], "BLOCKED", "{what}");
        assert_eq!(review["summary"], "not requested", "{what}");
        assert_eq!(review["produced_diff"], false, "{what}");
        assert_eq!(review["scope_check"]["passed"], false, "{what}");
        let gates = ended.document("reports/task_result.json")["gates"].clone();
        assert_eq!(gates["review_gate"], json!({"passed": false, "violations": ["not requested"]}), "{what}");
        let tested = ended.kept.values().any(|kept| kept.tests.is_some());
        let tests = ended.document("reports/test_report.json");
        assert_eq!(tests["status"], if tested { "FAIL" } else { "SKIPPED" }, "{what}");
        assert_eq!(gates["tests_gate"]["passed"], false, "{what}");
    }
}

#[test]
fn a_report_says_how_its_item_ended_and_from_what_to_what() {
    let ended = batch(&[("a", Ends::Landed), ("b", Ends::Refused), ("c", Ends::Landed)]);
    let result = |task: &str| ended.document(&format!("results/{task}/result.json"));
    let (first, refused, last) = (result("a"), result("b"), result("c"));
    assert_eq!([&first["status"], &refused["status"], &last["status"]], ["SUCCESS", "FAILED", "SUCCESS"]);
    assert_eq!(first["producer"], json!({"role": "FRONTEND", "agent_id": "agent-of-a"}));
    assert_eq!(first["gates"]["diff_gate"], json!({"passed": true}));
    assert_eq!(
        refused["gates"]["diff_gate"],
        json!({"passed": false, "violations": ["b: scope: outside_scope: README.md"]})
    );
    assert_eq!(refused["git"]["head_ref"], refused["git"]["baseline_ref"]);
    assert_eq!(last["git"]["head_ref"], commit("commit-of-2").to_string());
    assert_eq!(first["git"]["patch"]["path"], "results/a/patch.diff");
    let whole = ended.document("reports/task_result.json");
    assert_eq!(whole["task_id"], json!(ended.history.run.id.slug()));
    assert_eq!(whole["producer"], json!({"role": "ORCHESTRATOR", "agent_id": "norma"}));
    assert_eq!(whole["status"], "FAILED");
    let manifest = ended.manifest();
    assert_eq!(manifest["status"], "FAILURE");
    assert_eq!(manifest["tasks"][1]["status"], "FAILED");
    assert_eq!(manifest["repo"]["final_ref"], commit("commit-of-2").to_string());
}

#[test]
fn a_run_of_one_item_is_reported_under_its_name() {
    let ended = batch(&[("only-one", Ends::Landed)]);
    for report in ["task_result", "review_report", "test_report", "work_report"] {
        assert_eq!(ended.document(&format!("reports/{report}.json"))["task_id"], "only-one", "{report}");
    }
    assert_eq!(ended.document("reviews/only-one.json")["verdict"], "BLOCKED");
    assert_eq!(ended.document("ci/only-one/test_report.json")["status"], "SKIPPED");
}

#[test]
fn a_command_that_was_not_run_has_no_exit_code_made_up_for_it() {
    let ended = batch(&[("first", Ends::TestsFailed)]);
    let report = ended.document("reports/test_report.json");
    let commands = report["commands"].as_array().expect("commands");
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0]["exit_code"], 1);
    assert_eq!(commands[0]["stdout"]["path"], "changes/001/tests/1/stdout.log");
    let pieces = ended.pieces();
    let logs = pieces.iter().find(|piece| piece.path == "tests/stdout.log").expect("the logs");
    assert_eq!(logs.content, Content::Copies(vec!["changes/001/tests/1/stdout.log".into()]));
}

#[test]
fn an_item_that_never_ended_has_no_result() {
    let ended = batch(&[("a", Ends::Landed), ("b", Ends::Never)]);
    let paths: Vec<String> = ended.pieces().into_iter().map(|piece| piece.path).collect();
    assert!(paths.contains(&"tasks/b.json".to_owned()));
    assert!(!paths.iter().any(|path| path.contains("results/b") || path.contains("replay-b")), "{paths:?}");
    let manifest = ended.manifest();
    assert_eq!(manifest["tasks"][1]["status"], "SKIPPED");
    assert_eq!(manifest["tasks"][1].get("result"), None);
    assert_eq!(ended.document("reports/task_result.json")["status"], "SKIPPED");
    assert_eq!(ended.document("reports/work_report.json")["status"], "aborted");
}

#[test]
fn what_is_missing_is_said_to_be() {
    let mut ended = batch(&[("first", Ends::Landed)]);
    assert_eq!(ended.document("reports/evidence_report.json"), json!({"status": "ok", "missing": []}));
    ended.files.remove("patch.diff");
    let missing = json!({"status": "fail", "missing": ["patch.diff", "reports/task_result.json"]});
    assert_eq!(ended.document("reports/evidence_report.json"), missing);
    assert!(!ended.pieces().iter().any(|piece| piece.path == "git/patch.diff"));
}

#[test]
fn a_thousand_items_have_little_each() {
    let names: Vec<String> = (0..1000).map(|n| format!("item-{n}")).collect();
    let items: Vec<(&str, Ends)> = names.iter().map(|name| (name.as_str(), Ends::Unchanged)).collect();
    let ended = batch(&items);
    let of_last = ended.pieces().into_iter().filter(|piece| piece.path.contains("item-999"));
    let of_last: Vec<String> = of_last.map(|piece| piece.path).collect();
    let expected = [
        "tasks/item-999.json",
        "results/item-999/result.json",
        "results/item-999/patch.diff",
        "proof/replay-item-999.sh",
    ];
    assert_eq!(of_last, expected);
    assert_eq!(ended.document("reports/evidence_bundle.json")["claims"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_script_replays_an_item_from_the_commit_that_it_landed_on() {
    let ended = batch(&[("a", Ends::Landed), ("b", Ends::Refused), ("c", Ends::Landed)]);
    let pieces = ended.pieces();
    let script = |task: &str| {
        let piece = pieces.iter().find(|piece| piece.path == format!("proof/replay-{task}.sh"))?;
        let Content::Bytes(bytes) = &piece.content else { return None };
        String::from_utf8(bytes.clone()).ok()
    };
    let last = script("c").expect("it succeeded");
    for line in [
        "task='c'",
        &format!("before='{}'", commit("commit-of-0")),
        &format!("after_hash='{}'", digest(11)),
        "patch='../patches/c.diff'",
    ] {
        assert!(last.lines().any(|it| it == line), "{line}\n{last}");
    }
    assert!(!last.contains("=@"), "every value is filled in");
    assert_eq!(script("b"), None, "what was refused has nothing to show");
}

#[test]
fn what_was_said_with_agents_is_in_a_directory_for_each_task() {
    let workers = BTreeMap::from([("worker".to_owned(), AgentConfig::of(AgentType::Codex))]);
    let mut ended = batch_by(workers, &[("one", Ends::Landed), ("two", Ends::Refused)]);
    let said = conversations(&ended.record());
    let paths: Vec<&str> = said.iter().map(|piece| piece.path.as_str()).collect();
    let of = |task: &str| ["events.jsonl", "transcript.md", "thread_id.txt"].map(|name| format!("codex/{task}/{name}"));
    assert_eq!(paths, [of("one"), of("two")].concat());
    let events = "steps/001-worker/session/events.jsonl".to_owned();
    let part = Part { heading: "steps/001-worker".to_owned(), events, usage: None };
    assert_eq!(said[0].content, Content::Stream(vec!["steps/001-worker/session/exchange.jsonl".to_owned()]));
    assert_eq!(said[1].content, Content::Transcript(vec![part]));
    assert_eq!(said[2].content, Content::Bytes(b"thread-0\n".to_vec()));
    ended.files.extend(paths.iter().map(|path| file(path)));
    let manifest = ended.manifest();
    check("run_manifest.v1.json", &manifest);
    assert_eq!(manifest["tasks"][1]["thread_id"], "thread-1");
    assert_eq!(
        (&manifest["model"]["id"], &manifest["versions"]["codex_cli"]),
        (&json!("model-1"), &json!("codex 1.2"))
    );
    let result = ended.document("results/one/result.json");
    assert_eq!(result["producer"]["codex_thread_id"], "thread-0");
    let bundle = ended.document("reports/evidence_bundle.json");
    check("evidence_bundle.v1.json", &bundle);
    assert_eq!(bundle["artifacts"].as_array().map(Vec::len), Some(6));
    // Two tasks: the report on the run as a whole belongs to neither conversation.
    assert_eq!(ended.document("reports/work_report.json")["evidence"]["transcript_md"], Value::Null);
}

/// Nobody can say of an answer that it was checked against a schema but right after it was given, and only to the bound one.
#[test]
fn an_answer_was_held_to_the_schema_that_its_contract_binds_or_to_none() {
    let bound = OutputSchema { uri: "schemas/own.json".into(), sha256: digest(1), text: "{}".into(), optional: false };
    let items =
        vec![Item { output_schema: Some(bound.clone()), ..item("bound", Ends::Landed) }, item("free", Ends::Landed)];
    let contract = Contract { workflow: Workflow::Batch, task_id: None, items, ..history::contract(budgets(3), 0) };
    let mut history = History::of_items(contract);
    let said = |step, sha256| Fact::OutputSchemaEnforced { step, uri: bound.uri.clone(), sha256 };
    for place in [0, 1] {
        let step = history.run.due().find_map(|due| match due {
            Due::Turn(step) if step.item == Some(place) => Some(step),
            _ => None,
        });
        let step = step.expect("its turn is due");
        history.record(Fact::StepStarted { step, base: Some(history.run.base_for(place)), taken: None });
        history.refuse(said(step, digest(1)));
        let mut done = history::committed(step, TurnEnd::Answered, false);
        done.tree = Some(tree("candidate"));
        history.record(Fact::StepCommitted(done));
        history.refuse(said(step, digest(2)));
        if place == 0 {
            history.record(said(step, digest(1)));
        } else {
            history.refuse(said(step, digest(1)));
        }
    }
}

#[test]
fn the_circumstances_of_a_run_have_models_settings_and_a_digest_of_the_environment() {
    let codex =
        AgentConfig { model: Some("model-0".into()), effort: Some("high".into()), ..AgentConfig::of(AgentType::Codex) };
    let other = AgentConfig::of(AgentType::Claude);
    let workers = BTreeMap::from([("worker".to_owned(), codex), ("unused".to_owned(), other)]);
    let ended = batch_by(workers, &[("one", Ends::Landed)]);
    let meta = ended.document("meta.json");
    let params = &meta["llm_params"];
    assert_eq!((&params["worker"]["runner"], &params["worker"]["effort"]), (&json!("codex"), &json!("high")));
    assert_eq!(
        (&params["worker"]["model"], &params["worker"]["models_used"]),
        (&json!("model-0"), &json!(["model-1"]))
    );
    assert_eq!(params["worker"]["agent_versions"], json!(["codex 1.2"]));
    assert_eq!(params["unused"]["models_used"], json!([]));
    assert_eq!(meta["tool_versions"]["codex"], "codex 1.2");
    let environment = contract::json::canonical(&meta["environment"]).unwrap();
    assert_eq!(meta["environment_sha256"], json!(contract::hash::sha256(&environment)));
}

#[test]
fn the_manifest_shows_what_a_task_contract_bound_its_role_to_and_whose_word_counts() {
    let workers = BTreeMap::from([("worker".to_owned(), AgentConfig::of(AgentType::Codex))]);
    let ended = batch_by(workers, &[("one", Ends::Landed)]);
    assert_eq!(ended.manifest()["role_binding_summary"], Value::Null, "no task contract was submitted");
    let given = json!({
        "task_id": "task-0001",
        "owner_agent": {"role": "PM", "agent_id": "agent-1"},
        "assigned_agent": {"role": "WORKER", "agent_id": "agent-1"},
        "inputs": {"spec": "Say hello.", "artifacts": []},
        "required_outputs": [], "allowed_paths": ["src"], "forbidden_actions": [],
        "acceptance_tests": [{"name": "unit", "cmd": "make test", "must_pass": true}],
        "tool_permissions": {"filesystem": "workspace-write", "network": "deny", "mcp_tools": []},
        "timeout_retry": {"timeout_sec": 1, "max_retries": 0, "retry_backoff_sec": 0},
        "rollback": {"strategy": "worktree_drop", "baseline_ref": "HEAD"},
        "evidence_links": [], "log_refs": {"run_id": "", "paths": {}}, "mcp_tool_set": ["codex"],
    });
    let mut record = ended.whole_record();
    record.given = Some(serde_json::from_value(given).unwrap());
    let manifest = serde_json::to_value(manifest(&record)).unwrap();
    check("run_manifest.v1.json", &manifest);
    let summary = &manifest["role_binding_summary"];
    assert_eq!(summary["execution_authority"], "task_contract");
    assert_eq!(summary["authority"], "contract-derived-read-model");
    assert_eq!(summary["mcp_bundle_ref"]["resolved_mcp_tool_set"], json!(["codex"]));
    assert_eq!(summary["runtime_binding"]["summary"], json!({"runner": "codex", "provider": null, "model": null}));
    assert_eq!(summary["runtime_binding"]["source"]["runner"], "agents.worker.type");
    assert_eq!(summary["runtime_binding"]["status"], "partially-resolved");
}

#[test]
fn only_codex_is_called_codex() {
    let workers = BTreeMap::from([("worker".to_owned(), AgentConfig::of(AgentType::Claude))]);
    let mut ended = batch_by(workers, &[("one", Ends::Landed)]);
    let said = conversations(&ended.record());
    assert!(said.iter().all(|piece| piece.path.starts_with("claude/one/")), "{said:?}");
    ended.files.extend(said.iter().map(|piece| file(&piece.path)));
    let report = ended.document("reports/work_report.json");
    check("work_report.v1.json", &report);
    assert_eq!(report["evidence"]["transcript_md"]["path"], "claude/one/transcript.md");
    assert_eq!(report["evidence"]["codex_events_jsonl"], Value::Null);
    assert_eq!(ended.document("results/one/result.json")["producer"]["codex_thread_id"], Value::Null);
    assert_eq!(ended.manifest()["versions"]["codex_cli"], Value::Null);
}

#[test]
fn where_nobody_was_spoken_with_nothing_was_said() {
    for ended in [batch(&[("one", Ends::Landed)]), pdca()] {
        assert_eq!(conversations(&ended.record()), []);
        assert_eq!(ended.document("reports/evidence_bundle.json")["artifacts"], Value::Null);
    }
}
