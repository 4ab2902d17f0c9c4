//! plan → do → check → act with real agents: when a run passes, when it stops, and what is on record.

use crate::environment::{PATCH, TestEnvironment};
use serde_json::{Value, json};

/// The roles of the newest run's steps, with their iterations.
fn steps(env: &TestEnvironment) -> Vec<String> {
    let word = |step: &Value| format!("{}{}", step["role"].as_str().unwrap(), step["iteration"]);
    env.last()["steps"].as_array().unwrap().iter().map(word).collect()
}

#[test]
fn a_pass_in_the_first_iteration_changes_nothing() {
    let env = TestEnvironment::new(json!({}));
    let before = env.repository();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 1 · nothing changed
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run>
    [exit 0]
    ");
    assert_eq!(env.repository(), before);
    let run = env.last();
    assert_eq!((&run["verdict"], &run["result"], &run["landed"]), (&json!("PASS"), &Value::Null, &Value::Null));
    assert_eq!(env.json(&["task", "show", "1"])["status"], "done");
}

#[test]
fn an_act_without_a_patch_leads_to_another_iteration() {
    let env = TestEnvironment::new(json!({"check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]]}));
    env.norma(&["run", "1"]).success();
    assert_eq!(steps(&env), ["plan1", "do1", "check1", "act1", "plan2", "do2", "check2"]);
    assert!(!env.event_types().contains(&"change_started".to_owned()));
}

#[test]
fn an_act_that_fails_ends_the_run_and_its_patch_is_not_applied() {
    let env = TestEnvironment::new(json!({
        "check": [[{"verdict": "FAIL"}]],
        "act": [[{"patch": PATCH}, {"respond": {"status": "fail", "summary": "no idea"}}]],
    }));
    let before = env.repository();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   fail  <took>  agent_failed
    failed (agent_failed): step 004-act failed
      no idea
      what helps: look at what the agent said (norma logs), then run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    assert_eq!(env.repository(), before);
    assert_eq!(env.json(&["task", "show", "1"])["status"], "failed");
}

#[test]
fn in_the_last_iteration_act_still_runs_and_its_patch_is_kept() {
    let env = TestEnvironment::with_patch(PATCH);
    env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
    let before = env.repository()["src/lib.txt"].clone();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
    stopped: budget max_iterations is used up: 2 > 1
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: continue: norma resume <run> --budget max_iterations=2 · look: norma show <run>
    [exit 1]
    ");
    assert_eq!(env.repository()["src/lib.txt"], before);
    assert_eq!(steps(&env), ["plan1", "do1", "check1", "act1"]);
    let exceeded = env.event("budget_exceeded");
    assert_eq!(exceeded, json!({"budget": "max_iterations", "limit": 1, "actual": 2}));
    assert_eq!(env.last()["reason"], "budget_exceeded");
    assert_eq!(env.json(&["task", "show", "1"])["status"], "stopped");
    // What it had by then can be looked at.
    insta::assert_snapshot!(env.redact(&env.norma(&["diff", "@last"]).raw), @r"
    diff --git a/src/lib.txt b/src/lib.txt
    index 4cb29ea38f70d7c61b2a3a25b02e3bdf44905402..ddc897f039f57aa91e16efa6dfde386c4255206f 100644
    --- a/src/lib.txt
    +++ b/src/lib.txt
    @@ -1,3 +1,3 @@
     one
    -two
    +TWO
     three
    ");
}

#[test]
fn a_stopped_run_is_gone_on_from_with_a_larger_budget_and_lands_as_one_change() {
    let more = "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-hello\n+HELLO\n";
    let env = TestEnvironment::new(json!({}));
    env.script(json!({"check": [[{"verdict": "FAIL"}]], "act": [[{"patch": PATCH}]]}));
    env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
    let base = env.git(&["rev-parse", "HEAD"]);
    env.norma(&["run", "1"]).exits(1);
    let parent = env.last()["run_id"].clone();
    // Without more to use up it does not continue.
    insta::assert_snapshot!(env.norma(&["resume", "@last"]), @r"
    ! error: run <run> is stopped: its budget max_iterations is used up
    ! next: give it more: norma resume <run> --budget max_iterations=2
    [exit 1]
    ");
    env.script(json!({"check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]], "act": [[{"patch": more}]]}));
    insta::assert_snapshot!(env.norma(&["resume", "@last", "--budget", "max_iterations=5"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
    continues run <run>
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: README.md
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · landed main <hash>→<hash>
    2 files changed, +2 −2
      README.md    +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
    let run = env.last();
    assert_eq!((&run["parent"], &run["base"]), (&parent, &json!(base)));
    assert_ne!(run["run_id"], parent);
    assert_eq!(env.git(&["rev-parse", "HEAD^"]), base);
    assert_eq!(env.git(&["show", "--format=", "--name-only", "HEAD"]), "README.md\nsrc/lib.txt");
    assert_eq!(env.json(&["task", "show", "1"])["status"], "done");
    for nonsense in ["max_iterations", "max_iterations=0", "max_iterations=many", "max_fun=3"] {
        env.norma(&["resume", parent.as_str().unwrap(), "--budget", nonsense]).exits(2);
    }
}

#[test]
fn every_budget_of_a_patch_stops_the_run_with_an_event() {
    let makefile = "--- /dev/null\n+++ b/Makefile\n@@ -0,0 +1 @@\n+all:\n";
    let two_files = format!("{PATCH}--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-hello\n+HELLO\n");
    let long = format!("--- /dev/null\n+++ b/long.txt\n@@ -0,0 +1 @@\n+{}\n", "x".repeat(2048));
    for (budget, limit, patch) in
        [("max_patch_kb", 1, long.as_str()), ("max_changed_files", 1, &two_files), ("max_risky_files", 0, makefile)]
    {
        let env = TestEnvironment::with_patch(patch);
        env.configure(|config| config["budgets"][budget] = limit.into());
        let before = env.repository();
        env.norma(&["run", "1"]).exits(1);
        let run = env.last();
        assert_eq!((&run["status"], &run["reason"]), (&json!("stopped"), &json!("budget_exceeded")), "{budget}");
        assert_eq!(env.event("budget_exceeded")["budget"], budget);
        assert_eq!(env.event("change_dropped")["reason"], "budget_exceeded");
        let mut after = env.repository();
        after.insert("refs".into(), env.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]));
        assert_eq!(after, before, "{budget}");
        // The same patch passes where the budget has room for it.
        let env = TestEnvironment::with_patch(patch);
        env.configure(|config| config["budgets"][budget] = (limit + 2).into());
        env.norma(&["run", "1"]).success();
    }
}

#[test]
fn a_claimed_pass_counts_only_with_everything_that_belongs_to_it() {
    let good = json!({"write": {"path": "files/test.log", "content": "ok"}});
    let cases = [
        ("no evidence", json!([good, {"verdict": {"evidence": ""}}])),
        ("evidence that is not there", json!([good, {"verdict": {"evidence": "files/other.log"}}])),
        ("evidence outside", json!([good, {"verdict": {"evidence": "/etc/passwd"}}])),
        ("a criterion left out", json!([good, {"verdict": {"criteria": []}}])),
        ("an answer that says fail", json!([good, {"verdict": "PASS"}, {"respond": {"status": "fail"}}])),
        (
            "a criterion that does not pass",
            json!([good, {"verdict": {"criteria": [{"id": "AC1", "text": "", "pass": false, "evidence": "files/test.log"}]}}]),
        ),
    ];
    for (what, check) in cases {
        let env = TestEnvironment::new(json!({"check": [check]}));
        env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
        env.norma(&["run", "1"]).exits(1);
        let given = env.event("verdict");
        assert_eq!((&given["claimed"], &given["verdict"]), (&json!("PASS"), &json!("FAIL")), "{what}");
        assert_eq!(env.last()["verdict"], "FAIL", "{what}");
        assert_eq!(given["findings"].as_array().unwrap().len(), 1, "{what}: {given}");
    }
}

#[test]
fn evidence_of_an_earlier_iteration_does_not_count() {
    let env = TestEnvironment::new(json!({
        "do": [[{"write": {"path": "files/test.log", "content": "ok"}}], []],
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}], [{"verdict": {"evidence": "002-do/files/test.log"}}]],
    }));
    env.norma(&["run", "1"]).exits(1);
    let verdicts: Vec<Value> = env.events().into_iter().filter(|event| event["type"] == "verdict").collect();
    let words: Vec<&Value> = verdicts.iter().map(|event| &event["payload"]["verdict"]).collect();
    assert_eq!(words, ["FAIL", "FAIL", "FAIL"]);
}

#[test]
fn a_fail_stays_on_record_after_a_later_pass() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let verdicts: Vec<Value> = env.events().into_iter().filter(|event| event["type"] == "verdict").collect();
    let words: Vec<&Value> = verdicts.iter().map(|event| &event["payload"]["verdict"]).collect();
    assert_eq!(words, ["FAIL", "PASS"]);
    let kept = std::fs::read_to_string(env.run_dir().join("steps/003-check/verdict.json")).unwrap();
    assert!(kept.contains("FAIL"), "{kept}");
}

#[test]
fn a_patch_from_another_role_than_act_is_ignored_and_noted() {
    for (role, index) in [("plan", 0), ("do", 1), ("check", 2)] {
        let mut turn = vec![json!({"patch": PATCH}), json!({"write": {"path": "files/test.log", "content": "ok"}})];
        if role == "check" {
            turn.push(json!({"verdict": "PASS"}));
        }
        let env = TestEnvironment::new(json!({ role: [turn] }));
        let before = env.repository();
        let output = env.norma(&["run", "1"]);
        output.success();
        let note = format!("note: patch.diff from {role} is ignored: only act proposes patches");
        assert!(output.raw.contains(&note), "{output}");
        assert_eq!(env.repository(), before);
        assert_eq!(env.last()["steps"][index]["status"], "ok");
        assert!(!env.event_types().contains(&"change_started".to_owned()));
    }
}

#[test]
fn every_attempt_that_broke_the_protocol_is_a_step_of_its_own() {
    let env = TestEnvironment::new(
        json!({"plan": [[{"print": "no"}], [{"print": "[]"}], [{"dump_request": "request.json"}]]}),
    );
    env.configure(|config| config["limits"] = json!({"protocol_retries": 2}));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  fail  <took>  protocol_error
              stdout not valid JSON
              (document): could not parse JSON: expected ident at line 1 column 2
      2 plan  fail  <took>  protocol_error
              (document): expected object, found array
      3 plan  ok  <took>  plan did its part
      4 do    ok  <took>  do did its part
      5 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 1 · nothing changed
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run>
    [exit 0]
    ");
    let attempts: Vec<Value> =
        env.last()["steps"].as_array().unwrap().iter().map(|step| step["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 3, 1, 1]);
    let steps = env.run_dir().join("steps");
    assert_eq!(std::fs::read_to_string(steps.join("001-plan/logs/stdout.txt")).unwrap(), "no");
    assert_eq!(std::fs::read_to_string(steps.join("002-plan/logs/stdout.txt")).unwrap(), "[]");
    // The agent is told what was wrong before.
    let request = std::fs::read_to_string(steps.join("003-plan/request.json")).unwrap();
    assert!(request.contains("Attempt 1 broke the protocol"), "{request}");
}

#[test]
fn attempts_end_with_the_last_retry() {
    let env = TestEnvironment::new(json!({"do": [[{"print": "no"}]]}));
    env.configure(|config| config["limits"] = json!({"protocol_retries": 1}));
    env.norma(&["run", "1"]).exits(1);
    assert_eq!(steps(&env), ["plan1", "do1", "do1"]);
    assert_eq!(env.last()["reason"], "protocol_error");
}

#[test]
fn max_minutes_is_at_least_one_and_does_not_stop_a_run_within_it() {
    let env = TestEnvironment::new(json!({}));
    env.configure(|config| config["budgets"]["max_minutes"] = 1.into());
    env.norma(&["run", "1"]).success();
    let zero = json!({"budgets": {"max_iterations": 1, "max_minutes": 0}});
    std::fs::write(env.dir.join("zero.json"), zero.to_string()).unwrap();
    insta::assert_snapshot!(env.norma(&["run", "1", "--new", "--config", &env.at("zero.json")]), @r"
    ! error: $DIR/zero.json is not a valid configuration:
    !   /budgets/max_minutes: expected at least 1, found 0
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    ");
}

#[test]
fn a_run_without_criteria_needs_a_verdict_all_the_same() {
    let env = TestEnvironment::new(json!({"check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]]}));
    env.norma(&["run", "--goal", "tidy up"]).success();
    assert_eq!(steps(&env).len(), 7);
    assert_eq!(env.last()["task_id"], 2);
}
