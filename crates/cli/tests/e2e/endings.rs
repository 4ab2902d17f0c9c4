//! The last lines of a run: what happened, whether anything is unsafe, what next, each of it once, with the end of the log
//! that shows it; and `norma why`, which tells the same of any run.

use crate::batches::{item, with_worker};
use crate::environment::{Output, PATCH, TestEnvironment, eventually};
use serde_json::{Value, json};

/// A contract on one goal, carried out by the worker.
fn run(env: &TestEnvironment, allow: &str, tests: &[&str]) -> Output {
    let mut args = vec!["run", "--goal", "make two loud", "--agent", "worker", "--allow", allow];
    tests.iter().for_each(|test| args.extend(["--test", test]));
    env.norma(&args)
}

/// Fails unless a text is told exactly once.
#[track_caller]
fn once(output: &Output, text: &str) {
    assert_eq!(output.out().matches(text).count(), 1, "{text:?} is not told once: {output}");
}

const FAILING: &str = "echo 'collected 2 items'\nprintf '\\033[31mE  assert \"two\" == \"TWO\"\\033[0m\\n'\nexit 3\n";

#[test]
fn a_failed_test_ends_with_the_end_of_its_own_log() {
    let env = with_worker("echo four >> src/lib.txt");
    env.write("t.sh", FAILING);
    env.commit("a test");
    let output = run(&env, "src/lib.txt", &["sh t.sh"]);
    insta::assert_snapshot!(output, @r#"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 worker ok  <took>  did it
              test 1 of 1 failed  <took>  sh t.sh
    failed (tests_failed):
      sh t.sh: exit code 3
        | collected 2 items
        | E  assert "two" == "TWO"
        log: .norma/runs/<run>/changes/001/tests/1/stdout.log
      what would allow it: a change with which the test passes, or another test command
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · patch: norma diff <run> · logs: norma logs <run> · again: norma run --goal 'make two loud' --agent worker --allow src/lib.txt --test 'sh t.sh'
    ! trying on the base: sh t.sh
    ! on the base: sh t.sh fails before anything is changed (exit code 3,  <took>)
    !   | collected 2 items
    !   | E  assert "two" == "TWO"
    [exit 1]
    "#);
    once(&output, "assert \"two\" == \"TWO\"");
    insta::assert_snapshot!(env.norma(&["why"]), @r#"
    run <run> · failed (tests_failed)

    sh t.sh: exit code 3
      item      goal (failure)
      gate      tests
      rule      tests_failed
      evidence  .norma/runs/<run>/changes/001/tests/1/stdout.log
      log       | collected 2 items
                | E  assert "two" == "TWO"
      allow     a change with which the test passes, or another test command
    [exit 0]
    "#);
    let why = env.json(&["why"]);
    let cause = &why["causes"][0];
    assert_eq!(
        (&cause["gate"], &cause["rule"], &cause["item"]),
        (&json!("tests"), &json!("tests_failed"), &json!("goal"))
    );
    assert_eq!(cause["log"], json!(["collected 2 items", "E  assert \"two\" == \"TWO\""]));
    let log = env.run_dir().join(cause["evidence"].as_str().unwrap());
    assert!(std::fs::read_to_string(log).unwrap().contains("collected 2 items"));
}

#[test]
fn an_agent_that_fails_ends_with_what_it_said_on_stderr() {
    let env = with_worker("echo 'cannot find the compiler' >&2; exit 7");
    let output = run(&env, "src/lib.txt", &[]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 worker fail  <took>  agent_failed
    failed (agent_failed):
      exit code 7
        | cannot find the compiler
        log: .norma/runs/<run>/steps/001-worker/logs/stderr.txt
      what helps: fix the tool input: look at what the agent said (norma logs), then run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run --goal 'make two loud' --agent worker --allow src/lib.txt
    [exit 1]
    ");
    once(&output, "cannot find the compiler");
}

#[test]
fn an_answer_that_breaks_the_protocol_is_told_once() {
    let env = with_worker("echo nonsense; exit 0");
    let output = run(&env, "src/lib.txt", &[]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 worker fail  <took>  protocol_error
    failed (protocol_error):
      stdout not valid JSON
        | (document): could not parse JSON: expected ident at line 1 column 2
      what helps: an answer in the form that the agent is asked for; run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run --goal 'make two loud' --agent worker --allow src/lib.txt
    [exit 1]
    ");
    assert!(!output.raw.contains("\\\"") && !output.raw.contains("\\u{a}"), "{output}");
}

#[test]
fn a_denial_names_the_rule_the_path_and_what_would_allow_it() {
    let env = with_worker(
        "echo x > other.txt; echo y > .github-workflow; mkdir -p .github/workflows; echo z > .github/workflows/ci.yml",
    );
    let output = run(&env, "src/lib.txt", &[]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 worker ok  <took>  did it
    denied (policy_violation):
      .github-workflow: it is outside the allowed paths (src/lib.txt) (outside_scope)
      .github/workflows/ci.yml: it is outside the allowed paths (src/lib.txt) (outside_scope)
      other.txt: it is outside the allowed paths (src/lib.txt) (outside_scope)
      what would allow it: the path in allowed_paths (--allow PATH)
      .github/workflows/ci.yml: protected: it decides what runs in continuous integration; a contract can name it in allowed_paths (protected_path)
      what would allow it: this exact path in allowed_paths (--allow PATH), or another policies/protected_paths.json, then norma trust
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · patch: norma diff <run> · logs: norma logs <run> · again: norma run --goal 'make two loud' --agent worker --allow src/lib.txt
    [exit 1]
    ");
    insta::assert_snapshot!(env.norma(&["why", "@last"]), @"
    run <run> · denied (policy_violation)

    it is outside the allowed paths (src/lib.txt)
      item      goal (denied)
      gate      scope
      rule      outside_scope
      path      .github-workflow
      evidence  .norma/runs/<run>/changes/001/gates.json
      allow     the path in allowed_paths (--allow PATH)

    it is outside the allowed paths (src/lib.txt)
      item      goal (denied)
      gate      scope
      rule      outside_scope
      path      .github/workflows/ci.yml
      evidence  .norma/runs/<run>/changes/001/gates.json
      allow     the path in allowed_paths (--allow PATH)

    protected: it decides what runs in continuous integration; a contract can name it in allowed_paths
      item      goal (denied)
      gate      scope
      rule      protected_path
      path      .github/workflows/ci.yml
      evidence  .norma/runs/<run>/changes/001/gates.json
      allow     this exact path in allowed_paths (--allow PATH), or another policies/protected_paths.json, then norma trust

    it is outside the allowed paths (src/lib.txt)
      item      goal (denied)
      gate      scope
      rule      outside_scope
      path      other.txt
      evidence  .norma/runs/<run>/changes/001/gates.json
      allow     the path in allowed_paths (--allow PATH)
    [exit 0]
    ");
    let rules: Vec<Value> =
        env.json(&["why"])["causes"].as_array().unwrap().iter().map(|it| it["rule"].clone()).collect();
    assert!(rules.contains(&json!("outside_scope")) && rules.contains(&json!("protected_path")), "{rules:?}");
}

#[test]
fn a_success_ends_with_what_changed_its_tests_and_its_receipt() {
    let env = with_worker("echo four >> src/lib.txt; echo new > src/new.txt");
    env.write("t.sh", "echo '2 passed in 0.01s'\n");
    env.commit("a test");
    let args = ["run", "--goal", "x", "--agent", "worker", "--allow", "src/lib.txt", "--allow", "src/new.txt"];
    env.norma(&[&args[..], &["--test", "sh t.sh"]].concat()).success();
    env.norma(&["undo"]).success();
    let output = env.norma(&[&args[..], &["--test", "sh t.sh", "--new"]].concat());
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: x
      1 worker ok  <took>  did it
              test 1 of 1 passed  <took>  sh t.sh
    landed main <hash>→<hash>
    2 files changed, +2 −0
      src/lib.txt  +1 −0
      src/new.txt  +1 −0
    tests passed: 2 passed
    receipt: <uuid>
    output hash: <hash>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    ! note: src/new.txt is new: the commit has no such file
    ! trying on the base: sh t.sh
    ! on the base: sh t.sh passes (  <took>)
    [exit 0]
    ");
    let receipt = env.last()["receipts"][0].as_str().unwrap().to_owned();
    assert!(output.raw.contains(&format!("receipt: {receipt}")), "{output}");
    insta::assert_snapshot!(env.norma(&["why"]), @"
    run <run> · succeeded
    nothing was refused: 1 of 1 item(s) succeeded
    [exit 0]
    ");
}

#[test]
fn a_change_that_nothing_has_tried_is_told_as_that() {
    let env = with_worker("echo four >> src/lib.txt");
    let output = run(&env, "src/lib.txt", &[]);
    output.success();
    assert!(output.raw.lines().last().unwrap().contains("no test was run"), "{output}");
    let shown = env.norma(&["show"]);
    assert!(shown.success().raw.contains("\nno test was run\n"), "{shown}");
}

#[test]
fn a_run_that_changes_nothing_says_so() {
    let env = with_worker("true");
    let output = run(&env, "src/lib.txt", &[]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 worker ok  <took>  did it
    nothing changed
    receipt: <uuid>
    output hash: <hash>
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run>
    [exit 0]
    ");
}

#[test]
fn a_batch_names_what_failed_and_how_to_do_it_again() {
    let env = with_worker(
        "case $id in b) echo x > outside.txt;; c) echo 'no disk' >&2; exit 1;; *) echo $id > src/$id.txt;; esac",
    );
    let scope = |id: &str| json!({"allowed_paths": [format!("src/{id}.txt")]});
    let items: Vec<Value> = ["a", "b", "c"].iter().map(|id| item(id, scope(id))).collect();
    env.write("items.json", &Value::from(items).to_string());
    let output = env.norma(&["batch", "items.json", "--jobs", "1"]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: 3 work items
    your uncommitted files stay yours and are not part of the run: items.json
      1 worker ok  <took>  a: did it
              a success: +1 ~0 -0 files · <hash>
      2 worker ok  <took>  b: did it
              b denied (policy_violation)
      3 worker fail  <took>  c: agent_failed
              c failure (agent_failed)
    failed (items_failed): 2 of 3 items did not succeed
      b denied:
        outside.txt: it is outside the allowed paths (src/b.txt) (outside_scope)
        what would allow it: the path in allowed_paths (--allow PATH)
      c failure:
        exit code 1
          | no disk
          log: .norma/runs/<run>/steps/003-worker/logs/stderr.txt
        what helps: fix the tool input: look at what the agent said (norma logs), then run it again
    What succeeded is on main; nothing else was changed.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · patch: norma diff <run> · logs: norma logs <run> · again: norma batch items.json --jobs 1 --new
    [exit 1]
    ");
    once(&output, "no disk");
    let shown = env.norma(&["show"]);
    assert!(shown.raw.contains("item b denied (policy_violation)") && shown.raw.contains("item c failure"), "{shown}");
    let items: Vec<Value> =
        env.json(&["why"])["causes"].as_array().unwrap().iter().map(|it| it["item"].clone()).collect();
    assert_eq!(items, [json!("b"), json!("c")]);
}

#[test]
fn a_loop_says_why_its_patch_was_refused_and_which_budget_stopped_it() {
    let env = TestEnvironment::with_patch(&PATCH.replace("src/lib.txt", ".gitmodules"));
    env.norma(&["run", "1"]).exits(1);
    let why = env.json(&["why"]);
    assert!(!why["causes"].as_array().unwrap().is_empty(), "{why}");
    let env = TestEnvironment::new(json!({"check": [[{"verdict": "FAIL"}]]}));
    env.configure(|config| config["budgets"]["max_iterations"] = json!(1));
    env.norma(&["run", "1"]).exits(1);
    insta::assert_snapshot!(env.norma(&["why"]), @"
    run <run> · stopped (budget_exceeded)

    Budget max_iterations exceeded: 2 > 1
      help      more of it: norma resume <run> --budget max_iterations=2

    the last verdict is FAIL
      evidence  .norma/runs/<run>/steps/003-check
      help      a check that passes every criterion, with evidence for each
    [exit 0]
    ");
}

#[test]
fn a_run_that_waits_names_the_approval_it_needs() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    let output = run(&env, "src", &[]);
    output.exits(3);
    let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    assert!(output.raw.contains(&format!("norma approve {id}")), "{output}");
    let why = env.json(&["why"]);
    assert_eq!(why["causes"][0]["allowed_by"], json!(format!("norma approve {id}")));
    assert_eq!(why["causes"][0]["reason"], "approval_required");
}

/// Here an agent that nothing confines has put a directory where the manifest belongs, so that the bundle cannot be made.
#[test]
fn the_result_is_told_before_its_bundle_is_sealed_and_stays_if_that_fails() {
    let env = TestEnvironment::initialized();
    let made = "mkdir -p \"$NORMA_STEP_DIR/../../manifest.json/x\"; echo hi > a.txt";
    let answer = r#"{"version":1,"status":"ok","summary":"did it"}"#;
    env.configure(|config| {
        config["sandbox"] = json!({"backend": "none"});
        config["agents"] =
            json!({"worker": {"type": "exec", "cmd": ["/bin/sh", "-c", format!("{made}; echo '{answer}'")]}});
    });
    env.write("items.json", &Value::from(vec![item("a", json!({}))]).to_string());
    let output = env.norma(&["batch", "items.json"]);
    assert!(output.out().contains("landed main ") && output.err().contains("manifest.json"), "{output}");
    assert_eq!(env.read("a.txt"), "hi\n");
    let run = std::fs::read_dir(env.root.join(".norma/runs")).unwrap().next().unwrap().unwrap();
    std::fs::remove_dir_all(run.path().join("manifest.json")).unwrap();
    // Whoever owns the state directory next seals it.
    env.norma(&["resume", "--all"]).success();
    env.norma(&["verify", "@last"]).success();
    assert!(run.path().join("manifest.json").is_file());
}

/// The agent leaves so many files beside its change that writing them out takes a while, and the signal finds norma at it.
#[test]
fn a_signal_after_the_result_leaves_the_bundle_whole() {
    let leave_files = "i=0; while [ $i -lt 5000 ]; do echo $i > \"$NORMA_STEP_DIR/$i.txt\"; i=$((i+1)); done";
    let env = with_worker(&format!("{leave_files}; echo hi > a.txt"));
    env.write("items.json", &Value::from(vec![item("a", json!({}))]).to_string());
    let running = env.spawn(&["batch", "items.json"]);
    eventually("the result is told", || running.stdout().contains("landed main "));
    running.signal("INT");
    running.wait().success();
    assert_eq!(env.last()["status"], "succeeded");
    assert!(env.run_dir().join("manifest.json").is_file());
    env.norma(&["verify", "@last"]).success();
}
