//! Agents that misbehave: whatever they do, the run ends with the right words, everything they started is dead, and
//! the user's repository is as it was.

use crate::environment::{PATCH, TestEnvironment, is_dead};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// Runs task 1 with a script whose agents misbehave and checks how it ends; answers the output for a snapshot.
#[track_caller]
fn check(env: &TestEnvironment, status: &str, reason: &str) -> String {
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    output.exits(1);
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!(status), &json!(reason)), "{output}");
    assert_eq!(env.repository(), before, "{output}");
    env.norma(&["verify", "@last"]).success();
    output.to_string()
}

/// The line of a step and what is said about it.
fn about_step(output: &str) -> String {
    let shown = output.lines().skip(2).take_while(|line| line.starts_with(' '));
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_program_that_is_not_there_is_named_before_a_run_starts() {
    let env = TestEnvironment::new(json!({}));
    env.write("agent.sh", "#!/bin/sh\n");
    env.configure(|config| {
        config["agents"]["plan"]["cmd"] = json!(["/no/such/agent"]);
        config["agents"]["do"]["cmd"] = json!(["no-such-agent"]);
        config["agents"]["check"]["cmd"] = json!(["./agent.sh"]);
        config["agents"]["act"]["cmd"] = json!(["./no-such-script"]);
    });
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r#"
    ! error: some agents cannot be started:
    !   plan: "/no/such/agent" is not an executable file
    !   do: "no-such-agent" is not on PATH
    !   check: "./agent.sh" is in your checkout but not committed, so it is not in the run's tree
    !   act: "./no-such-script" is not in the run's tree
    ! next: fix .norma/config.json, then: norma trust
    [exit 4]
    "#);
    assert_eq!(env.json(&["runs"]), json!([]));
    env.commit("an agent without its mode");
    env.configure(|config| config["agents"]["check"]["cmd"] = json!(["./agent.sh"]));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r#"
    ! error: some agents cannot be started:
    !   check: "./agent.sh" is not executable in the run's tree; git update-index --chmod=+x agent.sh, and commit
    ! next: fix .norma/config.json, then: norma trust
    [exit 4]
    "#);
}

#[test]
fn a_program_that_disappears_during_the_run_fails_the_step() {
    let env = TestEnvironment::new(json!({}));
    let copy = env.dir.join("agent");
    std::fs::copy(crate::environment::scripted_agent(), &copy).unwrap();
    env.script_unconfined(json!({"plan": [[{"shell": format!("rm '{}'", copy.display())}]]}));
    env.configure(|config| config["agents"]["do"]["cmd"][0] = json!(copy));
    insta::assert_snapshot!(about_step(&check(&env, "failed", "agent_missing")), @"
    1 plan  ok  <took>  plan did its part
    2 do    fail  <took>  agent_missing
    ");
}

#[test]
fn programs_and_scripts_of_the_repository_are_those_of_the_runs_tree() {
    let env = TestEnvironment::new(json!({}));
    env.write(
        "agents/plan.sh",
        "cat > /dev/null\necho '{\"version\":1,\"status\":\"ok\",\"summary\":\"committed\"}'\n",
    );
    env.write("sub/keep", "");
    env.commit("an agent");
    env.write("agents/plan.sh", "echo mine\n");
    env.configure(|config| {
        config["agents"]["plan"] = json!({"type": "exec", "cmd": ["sh", "agents/plan.sh"], "path": "sub"})
    });
    env.norma(&["run", "1"]).success();
    assert_eq!(env.last()["steps"][0]["summary"], "committed");
    env.configure(|config| config["agents"]["plan"]["path"] = json!("no/such/dir"));
    insta::assert_snapshot!(env.norma(&["run", "1", "--new"]), @r#"
    ! error: some agents cannot be started:
    !   plan: path "no/such/dir" is not a directory of the run's tree
    ! next: fix .norma/config.json, then: norma trust
    [exit 4]
    "#);
}

#[test]
fn an_agent_that_hangs_is_ended_at_its_deadline() {
    let env = TestEnvironment::new(json!({"do": [["hang"]]}));
    env.configure(|config| config["limits"] = json!({"step_seconds": 3}));
    insta::assert_snapshot!(check(&env, "timed_out", "agent_timeout"), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    fail  <took>  agent_timeout
    timed_out (agent_timeout): step 002-do ran past its deadline
      the step's time is up
      what helps: a longer timeout (constraints.timeout_ms, or limits.step_seconds), or a smaller goal
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
}

#[test]
fn an_agent_that_is_silent_for_too_long_is_ended() {
    let env = TestEnvironment::new(json!({"do": [[{"stderr": "starting\n"}, "hang"]]}));
    env.configure(|config| config["limits"] = json!({"idle_seconds": 3}));
    insta::assert_snapshot!(about_step(&check(&env, "timed_out", "agent_timeout")), @"
    1 plan  ok  <took>  plan did its part
    2 do    fail  <took>  agent_timeout
    ");
    let stderr = std::fs::read_to_string(env.run_dir().join("steps/002-do/logs/stderr.txt")).unwrap();
    assert_eq!(stderr, "starting\n");
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"do": [[{"daemon": {"pid_file": env.at("daemon.pid")}}, "ignore_term"]]}));
    env.configure(|config| config["limits"] = json!({"step_seconds": 3}));
    check(&env, "timed_out", "agent_timeout");
    assert!(is_dead(&std::fs::read_to_string(env.dir.join("daemon.pid")).unwrap()));
}

#[test]
fn a_flood_on_stdout_is_cut_and_counted() {
    let env = TestEnvironment::new(json!({"do": [[{"print_bytes": 200 << 20}]]}));
    env.configure(|config| config["limits"] = json!({"output_mb": 1}));
    insta::assert_snapshot!(about_step(&check(&env, "failed", "protocol_error")), @"
    1 plan  ok  <took>  plan did its part
    2 do    fail  <took>  protocol_error
            note: stdout was longer than limits.output_mb and was cut
    ");
    let stdout = std::fs::read(env.run_dir().join("steps/002-do/logs/stdout.txt")).unwrap();
    assert!(stdout.len() < (1 << 20) + 200, "{} bytes were kept", stdout.len());
    let mark = String::from_utf8_lossy(&stdout[stdout.len() - 120..]).trim_start_matches('x').trim().to_owned();
    insta::assert_snapshot!(mark, @"[norma: truncated, 1048576 of 209715200 bytes kept]");
}

#[test]
fn a_good_answer_at_the_end_of_a_flood_does_not_count() {
    let answer = "{\"version\":1,\"status\":\"ok\",\"summary\":\"x\"}";
    let env = TestEnvironment::new(json!({"plan": [[{"print_bytes": 2 << 20}, {"print": answer}]]}));
    env.configure(|config| config["limits"] = json!({"output_mb": 1}));
    check(&env, "failed", "protocol_error");
}

#[test]
fn an_exit_code_or_a_signal_fails_the_step_whatever_was_answered() {
    for (action, said) in [
        (json!({"exit": 1}), "exit code 1"),
        (json!({"signal": 9}), "killed by signal 9"),
        (json!({"signal": 6}), "killed by signal 6"),
    ] {
        let env = TestEnvironment::new(json!({"plan": [[{"respond": {}}, action]]}));
        check(&env, "failed", "agent_failed");
        assert_eq!(env.last()["steps"][0]["summary"], format!("agent_failed: {said}"));
    }
}

#[test]
fn answers_that_break_the_protocol_are_named_exactly() {
    let good = "{\"version\":1,\"status\":\"ok\",\"summary\":\"x\"}";
    let cases = [
        ("nothing", String::new()),
        ("two objects", format!("{good}{good}")),
        ("words after it", format!("{good}\nthat was it")),
        ("duplicate keys", "{\"version\":1,\"status\":\"fail\",\"status\":\"ok\"}".to_owned()),
        ("another version", good.replace(":1", ":2")),
        ("another status", good.replace("ok", "great")),
        ("a list", format!("[{good}]")),
        ("no status", "{\"version\":1}".to_owned()),
        ("files with ..", good.replace("}", ",\"files\":[\"a.txt\",\"../b.txt\"]}")),
        ("files that are absolute", good.replace("}", ",\"files\":[\"/etc/passwd\"]}")),
        ("too deep", format!("{{\"version\":1,\"status\":\"ok\",\"x\":{}{}}}", "[".repeat(100), "]".repeat(100))),
        ("not UTF-8 in words", "{\"version\":1,\"status\":\"ok\",\"summary\":\"\\ud800\"}".to_owned()),
    ];
    let mut said = Vec::new();
    for (what, answer) in cases {
        let env = TestEnvironment::new(json!({"plan": [[{"print": answer}]]}));
        check(&env, "failed", "protocol_error");
        let problems = env.event("protocol_error")["problems"].clone();
        let problems: Vec<&str> = problems.as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        said.push(format!("{what}: {}", problems.join("; ")));
        let logged = std::fs::read_to_string(env.run_dir().join("steps/001-plan/logs/stdout.txt")).unwrap();
        assert_eq!(logged, answer);
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    nothing: stdout not valid JSON; (document): could not parse JSON: EOF while parsing a value at line 1 column 0
    two objects: stdout not valid JSON; (document): could not parse JSON: trailing characters at line 1 column 42
    words after it: stdout not valid JSON; (document): could not parse JSON: trailing characters at line 2 column 1
    duplicate keys: /status: duplicate key
    another version: /version: expected at most 1, found 2
    another status: /status: expected "ok" or "fail", found "great"
    a list: (document): expected object, found array
    no status: (document): missing required key "status"
    files with ..: /files/1: files must be relative paths under step_dir: path "../b.txt" contains a `..` component
    files that are absolute: /files/0: files must be relative paths under step_dir: path "/etc/passwd" is absolute
    too deep: /x/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0: nested deeper than 32
    not UTF-8 in words: stdout not valid JSON; /summary: could not parse JSON: unexpected end of hex escape at line 1 column 45
    "#);
}

#[test]
fn what_agents_leave_running_is_dead_when_their_turn_ends() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({
        "plan": [[{"daemon": {"pid_file": env.at("plan.pid")}}, {"shell": format!("kill -0 $(cat '{}')", env.at("plan.pid"))}]],
        "do": [[
            {"shell": format!("! kill -0 $(cat '{}') 2> /dev/null || grep -q '^State:.Z' /proc/$(cat '{0}')/status", env.at("plan.pid"))},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]],
    }));
    env.norma(&["run", "1"]).success();
    assert!(is_dead(&std::fs::read_to_string(env.dir.join("plan.pid")).unwrap()));
}

#[test]
fn a_verdict_that_is_missing_or_invalid_fails_the_run() {
    let card = json!({"scorecard": "# Scorecard\n"});
    let file = |content: &str| json!({"write": {"path": "verdict.json", "content": content}});
    let cases: [(&str, Vec<Value>); 8] = [
        ("no verdict.json", vec![card.clone()]),
        ("no scorecard.md", vec![json!({"verdict": "PASS"}), json!({"shell": "rm '{step_dir}/scorecard.md'"})]),
        ("neither", vec![]),
        ("not JSON", vec![card.clone(), file("PASS")]),
        ("another word", vec![json!({"verdict": {"verdict": "MAYBE"}})]),
        (
            "a criterion twice",
            vec![card.clone(), file("{\"version\":1,\"verdict\":\"PASS\",\"verdict\":\"FAIL\",\"criteria\":[]}")],
        ),
        ("no criteria", vec![card.clone(), file("{\"version\":1,\"verdict\":\"PASS\"}")]),
        ("a link", vec![card, json!({"symlink": {"path": "verdict.json", "target": "/etc/passwd"}})]),
    ];
    let mut said = Vec::new();
    for (what, turn) in cases {
        let env = TestEnvironment::new(json!({"check": [turn]}));
        check(&env, "failed", "protocol_error");
        let problems = env.event("protocol_error")["problems"].clone();
        let problems: Vec<&str> = problems.as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
        said.push(format!("{what}: {}", problems.join("; ")));
        assert_eq!(env.last()["verdict"], Value::Null);
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    no verdict.json: missing verdict.json
    no scorecard.md: missing scorecard.md
    neither: missing verdict.json; missing scorecard.md
    not JSON: invalid verdict.json: (document): could not parse JSON: expected value at line 1 column 1
    another word: invalid verdict.json: /verdict: expected "PASS" or "FAIL", found "MAYBE"
    a criterion twice: invalid verdict.json: /verdict: duplicate key
    no criteria: invalid verdict.json: (document): missing required key "criteria"
    a link: missing verdict.json
    "#);
}

#[test]
fn an_agent_that_names_files_which_it_did_not_leave_breaks_the_protocol() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"plan": [[{"write": {"path": "plan.md", "content": "x"}}, "delete_step_dir"]]}));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      1 plan  fail  <took>  protocol_error
              note: the agent removed its step directory
    failed (protocol_error): step 001-plan broke the protocol
      files: plan.md is not a regular file in the step directory
      what helps: an answer in the form that the agent is asked for; run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    assert!(env.run_dir().join("steps/001-plan/input.json").is_file());
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn only_regular_files_are_taken_from_a_step_directory() {
    let env = TestEnvironment::new(json!({}));
    env.script(json!({"plan": [[
        {"fifo": {"path": "pipe"}},
        {"symlink": {"path": "passwd", "target": "/etc/passwd"}},
        {"symlink": {"path": "up", "target": env.root.display().to_string()}},
        {"shell": "mkdir '{step_dir}/logs'; echo forged > '{step_dir}/logs/stdout.txt'; echo '{}' > '{step_dir}/manifest.json'"},
        {"write": {"path": "deep/plan.md", "content": "x"}},
    ]]}));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
              note: logs is norma's to write; the agent's was left out
              note: manifest.json is norma's to write; the agent's was left out
              note: passwd is a symbolic link and was left out
              note: pipe is not a regular file and was left out
              note: up is a symbolic link and was left out
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 1 · nothing changed
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run>
    [exit 0]
    ");
    let step = env.run_dir().join("steps/001-plan");
    let mut names: Vec<String> =
        std::fs::read_dir(&step).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["deep", "input.json", "logs", "manifest.json", "output.json", "sandbox.json"]);
    let stdout = std::fs::read_to_string(step.join("logs/stdout.txt")).unwrap();
    assert!(!stdout.contains("forged"));
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn too_many_or_too_large_files_are_left_out_and_noted() {
    let env = TestEnvironment::new(json!({"plan": [[
        {"shell": "cd '{step_dir}'; for i in 1 2 3 4 5 6 7 8; do echo $i > f$i; done; head -c 3000000 /dev/zero > large"},
    ]]}));
    env.configure(|config| config["limits"] = json!({"evidence_files": 5, "evidence_mb": 1}));
    let output = env.norma(&["run", "1"]);
    output.success();
    insta::assert_snapshot!(about_step(&output.to_string()), @"
    1 plan  ok  <took>  plan did its part
            note: f6 was left out: limits.evidence_files or limits.evidence_mb is reached
            note: f7 was left out: limits.evidence_files or limits.evidence_mb is reached
            note: f8 was left out: limits.evidence_files or limits.evidence_mb is reached
            note: large was left out: limits.evidence_files or limits.evidence_mb is reached
    2 do    ok  <took>  do did its part
    3 check ok  <took>  check did its part
            verdict PASS
    ");
}

#[test]
fn text_of_agents_cannot_write_to_the_terminal_or_forge_lines() {
    let hostile = "fine\u{1b}[2J\u{1b}]0;owned\u{7}\nrun_passed forged\r\u{202e}drow";
    let env = TestEnvironment::new(json!({
        "plan": [[{"respond": {"summary": hostile, "next_actions": [hostile]}}]],
        "check": [[{"verdict": {"criteria": [{"id": hostile, "text": hostile, "pass": true, "evidence": hostile}]}}]],
    }));
    env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
    let hostile_goal = format!("goal {hostile}");
    let output = env.norma(&["run", "--goal", &hostile_goal, "--ac", hostile]);
    output.exits(1);
    insta::assert_snapshot!(output, @r"
    run <run> · base main <hash> · sandbox native
    goal: goal fine\u{1b}[2J\u{1b}]0;owned\u{7}
      1 plan  ok  <took>  fine\u{1b}[2J\u{1b}]0;owned\u{7}
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
              AC1 is not covered by verdict.json
              fine\u{1b}[2J\u{1b}]0;owned\u{7}
              | run_passed forged\u{d}\u{202e}drow is no criterion of this run
      4 act   ok  <took>  act did its part
    stopped: budget max_iterations is used up: 2 > 1
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: continue: norma resume <run> --budget max_iterations=2 · look: norma show <run>
    [exit 1]
    ");
    let shown = [
        env.norma(&["show", "@last"]).raw,
        env.norma(&["events", "@last"]).raw,
        env.norma(&["events", "@last", "--json"]).raw,
        env.norma(&["runs"]).raw,
        env.norma(&["task", "list", "--all"]).raw,
        env.norma(&["task", "show", "2"]).raw,
        output.raw,
    ];
    for text in &shown {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\r']), "{text}");
        // JSON is for programs, and canonical JSON has such characters as they are.
        assert!(text.starts_with('{') || !text.contains('\u{202e}'), "{text}");
    }
    // Every line of the log is an event of norma's own making.
    let events = env.events();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(!env.event_types().contains(&"run_passed".to_owned()));
}

#[test]
fn a_hostile_goal_stays_out_of_the_commit_trailers() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "--goal", "fix it\n\nNorma-Run: forged\n"]).success();
    let trailers = env.git(&["log", "-1", "--format=%(trailers:key=Norma-Run,valueonly)"]);
    assert_eq!(trailers.lines().last(), env.last()["run_id"].as_str());
}

/// Without a sandbox an agent can do anything to norma's own paths; it must not lead norma to the user's files.
#[test]
fn links_in_place_of_norma_s_directories_lead_nowhere() {
    for path in ["{repo_root}", "{repo_root}/..", "{step_dir}"] {
        let env = TestEnvironment::new(json!({}));
        env.write("precious.txt", "mine\n");
        env.write("tree/precious.txt", "mine\n");
        let shell = format!("cd / && p=$(realpath '{path}') && rm -rf \"$p\" && ln -s '{}' \"$p\"", env.root.display());
        env.script_unconfined(json!({
            "do": [[{"shell": shell}]],
            "check": [
                [{"shell": "pwd -P > '{step_dir}/pwd.txt'"}, {"verdict": "FAIL"}],
                [{"write": {"path": "files/test.log", "content": "x"}}, {"verdict": "PASS"}],
            ],
            "act": [[{"patch": PATCH}]],
        }));
        let output = env.norma(&["run", "1"]);
        output.success();
        assert_eq!(env.read("precious.txt"), "mine\n", "{path}: {output}");
        assert_eq!(env.read("tree/precious.txt"), "mine\n", "{path}: {output}");
        assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma"]), "?? precious.txt\n?? tree/");
        let pwd = std::fs::read_to_string(env.run_dir().join("steps/003-check/pwd.txt")).unwrap();
        assert!(pwd.contains("/.norma/worktrees/"), "{path}: {pwd}");
    }
}

#[test]
fn a_step_directory_that_the_agent_made_itself_is_not_taken_for_evidence() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"do": [[
        {"shell": "mkdir -p '{run_dir}/steps/002-do/files' && echo forged > '{run_dir}/steps/002-do/files/test.log'"},
    ]]}));
    env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r#"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
              note: runs/<run>/steps/002-do was moved to quarantine/<run>-002-do: norma did not make it
      3 check ok  <took>  check did its part
              verdict FAIL
              AC1: evidence "files/test.log" is not a file in a step directory of this iteration
      4 act   ok  <took>  act did its part
    stopped: budget max_iterations is used up: 2 > 1
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: continue: norma resume <run> --budget max_iterations=2 · look: norma show <run>
    [exit 1]
    "#);
    assert!(!env.run_dir().join("steps/002-do/files").exists());
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn evidence_that_a_later_agent_changes_proves_nothing() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"check": [[
        {"shell": "chmod u+w '{run_dir}/steps/002-do/files/test.log'; echo forged > '{run_dir}/steps/002-do/files/test.log'"},
        {"verdict": "PASS"},
    ]]}));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict PASS
    failed (evidence_lost):
      evidence is missing or changed: steps/002-do/files/test.log differs from what was recorded
      what helps: find out who changed the run's directory (norma verify <run>), then run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    env.norma(&["verify", "@last"]).exits(5);
}

#[test]
fn a_checkout_that_is_removed_meanwhile_is_made_again() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({
        "do": [[{"write": {"path": "files/test.log", "content": "x"}}, {"shell": "rm -rf '{repo_root}'"}]],
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    }));
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
}

/// As pipx and uv install programs: a link on the PATH to a script in an environment of its own.
#[test]
fn a_program_behind_a_link_sees_what_it_was_installed_with() {
    let env = TestEnvironment::initialized();
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().canonicalize().unwrap();
    let (venv, bin) = (root.join("venvs/tool"), root.join("bin"));
    for dir in [venv.join("bin"), venv.join("lib"), bin.clone()] {
        std::fs::create_dir_all(dir).unwrap();
    }
    std::fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    std::fs::write(venv.join("lib/words.txt"), "out of the environment\n").unwrap();
    let script = "#!/bin/sh\ncat > /dev/null; cp \"$(dirname \"$0\")/../lib/words.txt\" made.txt\n\
                  echo '{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\"}'\n";
    std::fs::write(venv.join("bin/tool"), script).unwrap();
    std::fs::set_permissions(venv.join("bin/tool"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(venv.join("bin/tool"), bin.join("tool")).unwrap();
    env.configure(|config| config["agents"] = json!({"worker": {"type": "exec", "cmd": [bin.join("tool")]}}));
    env.write("item.json", &json!({"id": "a", "agent_id": "worker", "description": "make it"}).to_string());
    env.norma(&["run", "item.json"]).success();
    assert_eq!(env.read("made.txt"), "out of the environment\n");
}

/// What would be ignored is refused.
#[test]
fn an_agent_that_norma_cannot_tell_its_model_is_not_given_one() {
    let env = TestEnvironment::initialized();
    let agent = json!({"type": "acp", "cmd": ["sh"], "model": "m", "base_url": "http://127.0.0.1:1", "key_env": "KEY"});
    env.write(".norma/config.json", &json!({"agents": {"mine": agent}, "budgets": {"max_iterations": 1}}).to_string());
    let refused = env.norma(&["trust"]);
    for field in ["model", "base_url", "key_env"] {
        assert!(refused.err().contains(&format!("/agents/mine/{field}")), "{refused}");
    }
}
