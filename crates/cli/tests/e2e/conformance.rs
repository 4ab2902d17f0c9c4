//! Statements of the first seed that need a real agent; `docs/conformance.md` names these tests.

use crate::environment::{PATCH, TestEnvironment, eventually, is_dead, scripted_agent};
use serde_json::{Value, json};
use std::path::Path;

/// Every file below a directory, relative to it, sorted.
fn files_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut due = vec![dir.to_owned()];
    while let Some(next) = due.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                due.push(path);
            } else {
                found.push(path.strip_prefix(dir).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

#[test]
fn running_a_task_creates_a_run_and_its_database_entry() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let run = env.last();
    assert_eq!(run["status"], "succeeded");
    assert!(env.root.join(".norma/runs").join(run["run_id"].as_str().unwrap()).is_dir());
    // The entry is in the database: it is still listed when there are no files to read it from.
    std::fs::rename(env.root.join(".norma/runs"), env.dir.join("elsewhere")).unwrap();
    let listed = env.json(&["runs"]);
    assert_eq!(listed[0]["run_id"], run["run_id"]);
    assert_eq!(listed[0]["task_id"], 1);
}

#[test]
fn every_step_leaves_its_artifacts_in_its_directory() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let steps = env.run_dir().join("steps");
    let found: Vec<String> = files_below(&steps).into_iter().filter(|file| file.as_str() < "005").collect();
    insta::assert_snapshot!(found.join("\n"), @"
    001-plan/input.json
    001-plan/logs/stderr.txt
    001-plan/logs/stdout.txt
    001-plan/manifest.json
    001-plan/output.json
    001-plan/plan.md
    001-plan/sandbox.json
    002-do/files/test.log
    002-do/input.json
    002-do/logs/stderr.txt
    002-do/logs/stdout.txt
    002-do/manifest.json
    002-do/output.json
    002-do/sandbox.json
    003-check/input.json
    003-check/logs/stderr.txt
    003-check/logs/stdout.txt
    003-check/manifest.json
    003-check/output.json
    003-check/sandbox.json
    003-check/scorecard.md
    003-check/verdict.json
    004-act/input.json
    004-act/logs/stderr.txt
    004-act/logs/stdout.txt
    004-act/manifest.json
    004-act/output.json
    004-act/patch.diff
    004-act/sandbox.json
    ");
    let verdict = read_json(&steps.join("003-check/verdict.json"));
    assert_eq!(verdict["verdict"], "FAIL");
    assert_eq!(std::fs::read_to_string(steps.join("002-do/files/test.log")).unwrap(), "all tests passed\n");
}

#[test]
fn a_run_passes_after_the_patch_of_act_is_applied() {
    let env = TestEnvironment::with_patch(PATCH);
    let output = env.norma(&["run", "1"]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · landed main <hash>→<hash>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma"]), "");
    insta::assert_snapshot!(env.redact(&env.git(&["log", "--format=%an <%ae>%n%B", "-1"])), @r"
    Ada <ada@example.org>
    make two loud

    Norma-Run: <run>
    Norma-Receipt: sha256:<hash>
    Norma-Contract: <hash>
    ");
    insta::assert_snapshot!(env.event_types().join("\n"), @r"
    run_started
    step_started
    step_committed
    step_started
    step_committed
    step_started
    step_committed
    verdict
    step_started
    step_committed
    change_started
    patch_applied
    step_started
    step_committed
    step_started
    step_committed
    step_started
    step_committed
    verdict
    landing_started
    landed
    run_passed
    ");
}

#[test]
fn any_role_can_be_given_to_another_agent() {
    let env = TestEnvironment::new(json!({}));
    // It leaves what a check must leave, which does no harm in another role.
    let shell = r#"cat > /dev/null; cd "$NORMA_STEP_DIR"; echo x > scorecard.md
        echo '{"version":1,"verdict":"FAIL","criteria":[]}' > verdict.json
        echo '{"version":1,"status":"ok","summary":"a shell line"}'"#;
    for role in ["plan", "do", "check", "act"] {
        let other = json!({"type": "exec", "cmd": ["/bin/sh", "-c", shell]});
        env.script(json!({"check": [[{"write": {"path": "files/test.log", "content": "x"}}, {"verdict": "FAIL"}]]}));
        env.configure(|config| {
            config["agents"][role] = other;
            config["budgets"]["max_iterations"] = 1.into();
        });
        env.norma(&["run", "1", "--new"]).exits(1);
        let steps = env.last()["steps"].as_array().unwrap().clone();
        for step in steps {
            let own = format!("{} did its part", step["role"].as_str().unwrap());
            let expected = if step["role"] == role { "a shell line" } else { &own };
            assert_eq!(step["summary"], expected);
        }
    }
}

#[test]
fn every_path_of_a_request_exists_after_the_run() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let run_dir = env.run_dir();
    for step in env.last()["steps"].as_array().unwrap() {
        let dir = env.root.join(step["dir"].as_str().unwrap());
        let request = read_json(&dir.join("input.json"));
        assert_eq!(request["paths"]["step_dir"], dir.display().to_string());
        assert_eq!(request["paths"]["run_dir"], run_dir.display().to_string());
        assert_eq!(request["paths"]["repo_root"], env.root.display().to_string());
        for earlier in request["context"]["previous_step_dirs"].as_array().unwrap() {
            assert!(Path::new(earlier.as_str().unwrap()).join("output.json").is_file(), "{earlier}");
        }
    }
}

#[test]
fn everything_norma_writes_is_under_the_state_directory() {
    let env = TestEnvironment::new(json!({"check": [[{"verdict": "FAIL"}]]}));
    env.norma(&["task", "add", "another"]).success();
    let before = env.repository();
    env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
    env.norma(&["run", "1"]).exits(1);
    env.norma(&["runs"]).success();
    env.norma(&["cancel", "@last"]).exits(1);
    let mut after = env.repository();
    // What keeps the base of a run that can be gone on from alive is the one thing outside, and not a branch.
    let kept =
        format!("\nrefs/norma/{}/base {}", env.last()["run_id"].as_str().unwrap(), env.git(&["rev-parse", "HEAD"]));
    let refs = after.get_mut("refs").unwrap();
    *refs = refs.replace(&kept, "");
    assert_eq!(before, after);
}

#[test]
fn norma_md_states_goal_criteria_and_budgets() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let text = std::fs::read_to_string(env.run_dir().join("norma.md")).unwrap();
    insta::assert_snapshot!(env.redact(&text), @r"
    # Goal

    make two loud

    # Acceptance criteria

    - AC1: the tests pass

    # Budgets

    - max_iterations: 3

    # Base

    - commit: <hash>
    ");
}

#[test]
fn the_configuration_is_read_from_the_state_directory() {
    let env = TestEnvironment::new(json!({}));
    std::fs::remove_file(env.root.join(".norma/config.json")).unwrap();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r"
    ! error: there is no configuration at $DIR/repo/.norma/config.json
    ! next: make one: norma init
    [exit 4]
    ");
    // A configuration elsewhere in the repository is nobody's.
    env.write(".norma.json", "{}");
    env.write("config.json", "{}");
    env.norma(&["run", "1"]).exits(4);
    env.configure(|_| {});
    env.norma(&["run", "1"]).success();
}

#[test]
fn a_killed_run_is_reconciled_on_the_next_start() {
    let env = TestEnvironment::new(json!({}));
    let started = env.at("started");
    env.script_unconfined(json!({"do": [[
        {"daemon": {"pid_file": env.at("daemon.pid")}},
        {"write_abs": {"path": started, "content": ""}},
        {"wait_for": env.at("go")},
        {"write": {"path": "files/test.log", "content": "ok"}},
    ]]}));
    let running = env.spawn(&["run", "1"]);
    env.wait_for("started");
    running.signal("KILL");
    assert_eq!(running.wait().code(), None);
    let daemon = std::fs::read_to_string(env.dir.join("daemon.pid")).unwrap();
    eventually("what the agent left is dead", || is_dead(&daemon));
    // Readers are truthful before anybody has recovered.
    assert_eq!(env.last()["status"], "paused");
    assert_eq!(env.last()["reason"], "interrupted");
    let temporary: Vec<_> =
        files_below(&env.run_dir().join("steps")).into_iter().filter(|f| f.contains(".tmp-")).collect();
    assert!(!temporary.is_empty());
    insta::assert_snapshot!(env.norma(&["task", "done", "1"]), @r"
    task 1 is done
    ! recovered: <run>: step 002-do was interrupted
    [exit 0]
    ");
    let temporary: Vec<_> =
        files_below(&env.run_dir().join("steps")).into_iter().filter(|f| f.contains(".tmp-")).collect();
    assert_eq!(temporary, [""; 0]);
    env.touch("go");
    insta::assert_snapshot!(env.norma(&["resume", "@last"]), @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 1 · nothing changed
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run>
    [exit 0]
    ");
    insta::assert_snapshot!(env.event_types().join("\n"), @r"
    run_started
    step_started
    step_committed
    step_started
    step_interrupted
    run_paused
    run_resumed
    step_started
    step_committed
    step_started
    step_committed
    verdict
    run_passed
    ");
}

#[test]
fn an_exec_agent_gets_the_request_on_stdin_and_answers_on_stdout() {
    let env = TestEnvironment::new(json!({"do": [[
        {"dump_request": "files/stdin.json"},
        {"write": {"path": "files/test.log", "content": "x"}},
        {"respond": {"summary": "said on stdout", "next_actions": ["check"]}},
    ]]}));
    env.norma(&["run", "1"]).success();
    let step = env.run_dir().join("steps/002-do");
    let request = read_json(&step.join("files/stdin.json"));
    let text = serde_json::to_string_pretty(&request).unwrap();
    insta::assert_snapshot!(env.redact(&text), @r#"
    {
      "context": {
        "notes": "",
        "previous_step_dirs": [
          "$DIR/repo/.norma/runs/<run>/steps/001-plan"
        ]
      },
      "goal": "make two loud",
      "norma": {
        "acceptance_criteria": [
          {
            "id": "AC1",
            "text": "the tests pass"
          }
        ],
        "budgets": {
          "max_iterations": 3
        }
      },
      "paths": {
        "repo_root": "$DIR/repo",
        "run_dir": "$DIR/repo/.norma/runs/<run>",
        "step_dir": "$DIR/repo/.norma/runs/<run>/steps/002-do"
      },
      "run_id": "<run>",
      "step": {
        "index": 2,
        "iteration": 1,
        "role": "do"
      },
      "version": 1
    }
    "#);
    assert_eq!(read_json(&step.join("output.json"))["summary"], "said on stdout");
}

#[test]
fn input_json_is_byte_for_byte_what_was_sent() {
    let env = TestEnvironment::new(json!({"plan": [[
        {"dump_request": "files/stdin.json"},
        {"shell": "cp '{step_dir}/input.json' '{step_dir}/files/seen.json'"},
    ]]}));
    env.norma(&["run", "1"]).success();
    let step = env.run_dir().join("steps/001-plan");
    assert_eq!(read_json(&step.join("files/stdin.json")), read_json(&step.join("input.json")));
    let read = |name: &str| std::fs::read(step.join(name)).unwrap();
    assert_eq!(read("files/seen.json"), read("input.json"));
}

/// Without a sandbox, which mounts the live directory at its final path, two paths differ: the stored request names
/// the final step directory and the user's repository, the live one the temporary directory and the private checkout.
#[test]
fn without_a_sandbox_input_json_is_what_was_sent_but_for_the_final_paths() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"plan": [[{"dump_request": "files/stdin.json"}]]}));
    env.norma(&["run", "1"]).success();
    let step = env.run_dir().join("steps/001-plan");
    let mut sent = read_json(&step.join("files/stdin.json"));
    let stored = read_json(&step.join("input.json"));
    assert!(sent["paths"]["step_dir"].as_str().unwrap().contains("/steps/001-plan.tmp-"));
    sent["paths"]["step_dir"] = stored["paths"]["step_dir"].clone();
    sent["paths"]["repo_root"] = stored["paths"]["repo_root"].clone();
    assert_eq!(sent, stored);
}

#[test]
fn a_request_names_the_earlier_steps_of_its_run() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let steps = env.run_dir().join("steps");
    let request = read_json(&steps.join("005-plan/input.json"));
    let expected: Vec<String> = ["001-plan", "002-do", "003-check", "004-act"]
        .iter()
        .map(|name| steps.join(name).display().to_string())
        .collect();
    assert_eq!(request["context"]["previous_step_dirs"], json!(expected));
    assert_eq!(request["context"]["notes"], "The patch of step 4 was applied: src/lib.txt");
}

#[test]
fn the_answer_is_stored_as_output_json() {
    let answer = json!({"version": 1, "status": "ok", "summary": "an answer", "files": ["plan.md"],
                        "next_actions": ["go on"], "errors": ["none that matters"]});
    let env = TestEnvironment::new(json!({"plan": [[
        {"write": {"path": "plan.md", "content": "1. Go on.\n"}}, {"respond": answer}
    ]]}));
    env.norma(&["run", "1"]).success();
    assert_eq!(read_json(&env.run_dir().join("steps/001-plan/output.json")), answer);
}

#[test]
fn stdout_and_stderr_are_captured_into_the_logs() {
    let answer = "{\"version\":1,\n \"status\":\"ok\",\"summary\":\"x\"}\n\n";
    let env = TestEnvironment::new(json!({"plan": [[{"stderr": "one\ntwo\n"}, {"print": answer}]]}));
    env.norma(&["run", "1"]).success();
    let logs = env.run_dir().join("steps/001-plan/logs");
    assert_eq!(std::fs::read_to_string(logs.join("stdout.txt")).unwrap(), answer);
    assert_eq!(std::fs::read_to_string(logs.join("stderr.txt")).unwrap(), "one\ntwo\n");
}

#[test]
fn output_that_is_not_json_is_kept_in_the_logs_and_fails_the_step() {
    let env = TestEnvironment::new(json!({"plan": [[{"print": "I am done!\n"}]]}));
    let output = env.norma(&["run", "1"]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  fail  <took>  protocol_error
    failed (protocol_error): step 001-plan broke the protocol
      stdout not valid JSON
        | (document): could not parse JSON: expected value at line 1 column 1
      what helps: an answer in the form that the agent is asked for; run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    let step = env.run_dir().join("steps/001-plan");
    assert_eq!(std::fs::read_to_string(step.join("logs/stdout.txt")).unwrap(), "I am done!\n");
    let stored = read_json(&step.join("output.json"));
    assert_eq!(stored["status"], "fail");
    assert!(stored["errors"][0].as_str().unwrap().starts_with("protocol_error: "), "{stored}");
    assert_eq!(env.last()["steps"][0]["status"], "fail");
    assert_eq!(env.last()["reason"], "protocol_error");
}

#[test]
fn the_logs_of_a_failed_step_are_kept() {
    let env =
        TestEnvironment::new(json!({"plan": [[{"print": "half an answ"}, {"stderr": "out of luck\n"}, {"exit": 1}]]}));
    env.norma(&["run", "1"]).exits(1);
    let logs = env.run_dir().join("steps/001-plan/logs");
    assert_eq!(std::fs::read_to_string(logs.join("stdout.txt")).unwrap(), "half an answ");
    assert_eq!(std::fs::read_to_string(logs.join("stderr.txt")).unwrap(), "out of luck\n");
}

#[test]
fn the_state_before_and_after_a_patch_is_recorded() {
    let env = TestEnvironment::with_patch(PATCH);
    let before = env.git(&["rev-parse", "HEAD^{tree}"]);
    env.norma(&["run", "1"]).success();
    let applied = env.event("patch_applied");
    assert_eq!(applied["before"], before);
    assert_eq!(applied["after"], env.git(&["rev-parse", "HEAD^{tree}"]));
    assert_eq!(applied["files"], json!(["src/lib.txt"]));
    let gates = read_json(&env.run_dir().join("changes/001/gates.json"));
    let git = &gates["git"];
    assert_eq!((&git["before_tree"], &git["after_tree"]), (&applied["before"], &applied["after"]));
    assert_eq!(std::fs::read_to_string(env.run_dir().join("changes/001/patch.diff")).unwrap(), PATCH);
}

#[test]
fn a_patch_is_applied_whole_or_not_at_all() {
    let second_broken = format!("{PATCH}--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-not there\n+never\n");
    let env = TestEnvironment::with_patch(&second_broken);
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch refused (patch_failed)
    failed (patch_failed):
      the patch does not apply: error: patch failed: README.md:1; error: README.md: patch does not apply (patch_failed)
      what would allow it: a patch that applies to the run's tree
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · patch: norma diff <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    assert_eq!(env.repository(), before);
    let gates = read_json(&env.run_dir().join("changes/001/gates.json"));
    assert_eq!((&gates["status"], &gates["git"]["after_tree"]), (&json!("failure"), &gates["git"]["before_tree"]));
    assert_eq!(env.last()["steps"][3]["status"], "fail");
}

#[test]
fn a_unified_diff_is_applied_and_anything_else_is_refused() {
    let with_git_header =
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n";
    let env = TestEnvironment::with_patch(with_git_header);
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("new.txt"), "new\n");
    for text in [
        "please change two to TWO\n",
        "*** src/lib.txt\n--- src/lib.txt\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n",
    ] {
        let env = TestEnvironment::with_patch(text);
        let before = env.repository();
        env.norma(&["run", "1"]).exits(1);
        assert_eq!(env.last()["reason"], "patch_failed", "{text}");
        assert_eq!(env.repository(), before);
    }
}

/// What agents write into their workspace is seen by nobody else and never becomes part of the change.
#[test]
fn what_an_agent_writes_into_its_checkout_is_not_part_of_the_change() {
    let env = TestEnvironment::with_patch(PATCH);
    env.script(json!({
        "plan": [[], [{"shell": "cat '{repo_root}/src/lib.txt' > '{step_dir}/seen.txt'; ls -A '{repo_root}' >> '{step_dir}/seen.txt'; cd '{repo_root}' && git status --short >> '{step_dir}/seen.txt'"}]],
        "do": [[
            {"append_repo": {"path": "src/lib.txt", "content": "rogue\n"}},
            {"append_repo": {"path": "rogue.txt", "content": "rogue\n"}},
            {"shell": "cd '{repo_root}' && git add -A && git commit -qm rogue"},
            {"write": {"path": "files/test.log", "content": "x"}},
        ]],
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    }));
    env.norma(&["run", "1"]).success();
    assert_eq!(env.git(&["show", "--format=", "--name-only", "HEAD"]), "src/lib.txt");
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    let seen = std::fs::read_to_string(env.run_dir().join("steps/005-plan/seen.txt")).unwrap();
    assert_eq!(seen, "one\nTWO\nthree\n.git\n.norma\nREADME.md\nsrc\nM  src/lib.txt\n");
    assert_eq!(env.last()["sandbox"], "native");
}

#[test]
fn an_agent_gets_a_clean_environment_and_its_checkout_as_directory() {
    let mut env =
        TestEnvironment::new(json!({"plan": [[{"dump_env": "env.txt"}, {"shell": "pwd > '{step_dir}/pwd.txt'"}]]}));
    env.env.insert("AWS_SECRET_ACCESS_KEY".into(), "secret".into());
    env.env.insert("LD_LIBRARY_PATH".into(), "/nowhere".into());
    env.configure(|config| config["agents"]["plan"]["env"] = json!({"MODE": "test"}));
    env.norma(&["run", "1"]).success();
    let step = env.run_dir().join("steps/001-plan");
    let mut names: Vec<String> = std::fs::read_to_string(step.join("env.txt"))
        .unwrap()
        .lines()
        .map(|line| line.split('=').next().unwrap().to_owned())
        .collect();
    names.sort();
    insta::assert_snapshot!(names.join(" "), @"GIT_CEILING_DIRECTORIES HOME LC_ALL MODE NORMA_RUN_ID NORMA_STEP_DIR PATH TMPDIR TZ");
    let pwd = std::fs::read_to_string(step.join("pwd.txt")).unwrap();
    assert_eq!(pwd.trim_end(), env.root.display().to_string(), "a workspace is at the repository's own path");
    let left = std::fs::read_dir(env.root.join(".norma/worktrees")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "a checkout goes with its run");
    assert!(scripted_agent().is_absolute());
}
