//! The command line itself: every verb, its words, its JSON and its exit codes.

use crate::environment::{PATCH, TestEnvironment};
use serde_json::{Value, json};

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort();
    keys
}

#[test]
fn init_makes_the_state_directory_once() {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet"]);
    insta::assert_snapshot!(env.norma(&["init"]), @r#"
    state directory .norma created
    config.json written; to add agents of your own, edit it (norma help config), then: norma trust
    protected paths and other policies: .norma/policies (norma help gates)
    next: norma run "what you want"
    [exit 0]
    "#);
    insta::assert_snapshot!(env.read(".norma/config.json"), @r#"
    {
      "$schema": "schemas/config.v1.json",
      "agents": {},
      "budgets": {
        "max_iterations": 5,
        "max_patch_kb": 200
      },
      "landing": {
        "mode": "auto"
      },
      "limits": {
        "step_seconds": 3600,
        "idle_seconds": null,
        "output_mb": 16,
        "evidence_mb": 256,
        "evidence_files": 10000,
        "change_mb": 64
      },
      "mode": "development",
      "sandbox": {
        "backend": "native",
        "allowed": [
          "native"
        ],
        "read": [],
        "limits": {
          "memory_mb": 8192,
          "processes": 4096,
          "cpu_seconds": 14400,
          "file_mb": 4096,
          "private_mb": 1024,
          "open_files": 65536
        }
      },
      "workspace": {
        "layer_mb": 4096,
        "history": "shallow",
        "layers": true
      }
    }
    "#);
    insta::assert_snapshot!(env.norma(&["init"]), @r#"
    state directory .norma exists
    the configuration is trusted
    next: norma run "what you want"
    [exit 0]
    "#);
    assert_eq!(
        keys(&env.json(&["init"])),
        ["config", "config_trusted", "config_written", "created", "policies_written", "state"]
    );
}

#[test]
fn only_the_configuration_and_the_policies_are_offered_to_git() {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet"]);
    env.norma(&["init"]).success();
    let offered = [
        ".gitignore",
        "config.json",
        "policies/agent_registry.json",
        "policies/command_allowlist.json",
        "policies/forbidden_actions.json",
        "policies/mcp_allowlist.json",
        "policies/protected_paths.json",
        "policies/scratch_paths.json",
        "policies/wide_paths.json",
    ];
    assert_eq!(
        env.git(&["status", "--porcelain", "--untracked-files=all"]),
        offered.map(|name| format!("?? .norma/{name}")).join("\n")
    );
}

#[test]
fn without_a_repository_or_a_commit_norma_says_what_to_do() {
    let env = TestEnvironment::bare();
    insta::assert_snapshot!(env.norma(&["init"]), @r"
    ! error: $DIR/repo is not inside a git work tree: fatal: not a git repository (or any of the parent directories): .git
    ! next: norma works in a git repository: git init, or cd to one
    [exit 4]
    ");
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r"
    ! error: $DIR/repo is not inside a git work tree: fatal: not a git repository (or any of the parent directories): .git
    ! next: norma works in a git repository: git init, or cd to one
    [exit 4]
    ");
    insta::assert_snapshot!(without_sandbox(&env.norma(&["doctor"]).to_string()), @"
    FAIL  repository $DIR/repo is not inside a git work tree: fatal: not a git repository (or any of the parent directories): .git
                 fix: norma works in a git repository: git init, or cd to one
    [exit 4]
    ");
    assert!(!env.root.join(".norma").exists());
    env.git(&["init", "--quiet"]);
    insta::assert_snapshot!(env.norma(&["task", "add", "x"]), @r#"
    ! error: no state directory at $DIR/repo/.norma
    ! next: start a run: norma run "what you want"; or make one: norma init
    [exit 4]
    "#);
    insta::assert_snapshot!(env.norma(&["runs"]), @r#"
    ! error: no state directory at $DIR/repo/.norma
    ! next: start a run: norma run "what you want"; or make one: norma init
    [exit 4]
    "#);
    env.norma(&["init"]).success();
    env.norma(&["task", "add", "x"]).success();
    env.script(json!({}));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r"
    ! error: refs/heads/main has no commit yet
    ! next: a run starts from a commit: git add … && git commit
    [exit 4]
    ");
    assert_eq!(env.json(&["runs"]), json!([]));
}

#[test]
fn norma_works_from_any_directory_of_the_repository() {
    let env = TestEnvironment::new(json!({}));
    env.norma_in(&env.root.join("src"), &["run", "1"]).success();
    env.norma_in(&env.dir, &["-C", "repo", "show", "@last"]).success();
    insta::assert_snapshot!(env.norma_in(&env.dir, &["-C", "nowhere", "runs"]), @r"
    ! error: could not enter the directory: No such file or directory (os error 2)
    ! next: name one that exists with -C
    [exit 2]
    ");
}

#[test]
fn task_add_prints_the_id_alone_on_the_last_line() {
    let env = TestEnvironment::initialized();
    let output = env.norma(&["task", "add", "first", "--ac", "one", "--ac", "two"]);
    assert_eq!(output.success().raw.lines().last(), Some("1"));
    assert_eq!(env.norma(&["task", "add", "second"]).raw.lines().last(), Some("2"));
    insta::assert_snapshot!(env.norma(&["task", "show", "1"]), @r"
       1  todo     first
          AC1: one
          AC2: two
    next: norma run 1
    [exit 0]
    ");
    assert_eq!(env.json(&["task", "add", "third"]), json!({"id": 3}));
    let task = env.json(&["task", "show", "1"]);
    insta::assert_snapshot!(env.redact(&task.to_string()), @r#"{"acceptance_criteria":[{"id":"AC1","text":"one"},{"id":"AC2","text":"two"}],"created_at":"<time>","depends_on":[],"goal":"first","id":1,"run_id":null,"status":"todo","updated_at":"<time>"}"#);
    insta::assert_snapshot!(env.norma(&["task", "add", " "]), @r#"
    ! error: goal and criteria must not be empty
    ! next: norma task add "what you want" --ac "how to tell"
    [exit 2]
    "#);
    insta::assert_snapshot!(env.norma(&["task", "show", "9"]), @r"
    ! error: there is no task 9
    ! next: norma task list --all shows them
    [exit 2]
    ");
    env.norma(&["task", "show", "x"]).exits(2);
}

#[test]
fn task_list_can_be_filtered() {
    let env = TestEnvironment::new(json!({"plan": [[{"exit": 1}]]}));
    for goal in ["second", "third"] {
        env.norma(&["task", "add", goal]).success();
    }
    env.norma(&["run", "1"]).exits(1);
    insta::assert_snapshot!(env.norma(&["task", "done", "2"]), @r"
    task 2 is done
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["task", "list"]), @r"
       3  todo     third
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["task", "list", "--all"]), @r"
       1  failed   make two loud
       2  done     second
       3  todo     third
    [exit 0]
    ");
    for (status, id) in [("todo", 3), ("done", 2), ("failed", 1)] {
        let listed = env.json(&["task", "list", "--status", status]);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{status}");
        assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&json!(id), &json!(status)));
    }
    for status in ["doing", "stopped"] {
        assert_eq!(env.json(&["task", "list", "--status", status]), json!([]));
    }
    env.norma(&["task", "list", "--status", "lost"]).exits(2);
    env.norma(&["task", "list", "--status", "todo", "--all"]).exits(2);
}

#[test]
fn links_that_would_be_a_cycle_are_refused() {
    let env = TestEnvironment::initialized();
    for goal in ["a", "b", "c"] {
        env.norma(&["task", "add", goal]).success();
    }
    insta::assert_snapshot!(env.norma(&["task", "link", "3", "--depends-on", "1", "2"]), @r"
    task 3 waits for 1, 2
    [exit 0]
    ");
    env.norma(&["task", "link", "2", "--depends-on", "1"]).success();
    insta::assert_snapshot!(env.norma(&["task", "link", "1", "--depends-on", "3"]), @r"
    ! error: task 1 cannot wait for 3: 1 → 3 → 2 → 1 would be a cycle
    [exit 2]
    ");
    insta::assert_snapshot!(env.norma(&["task", "link", "1", "--depends-on", "1"]), @r"
    ! error: task 1 cannot wait for 1: 1 → 1 would be a cycle
    [exit 2]
    ");
    insta::assert_snapshot!(env.norma(&["task", "link", "1", "--depends-on", "7"]), @r"
    ! error: there is no task 7
    [exit 2]
    ");
    env.norma(&["task", "link", "1"]).exits(2);
    assert_eq!(env.json(&["task", "show", "1"])["depends_on"], json!([]));
    assert_eq!(env.json(&["task", "show", "3"])["depends_on"], json!([1, 2]));
}

#[test]
fn run_without_a_task_does_every_ready_one_dependencies_first() {
    let env = TestEnvironment::new(json!({}));
    for goal in ["second", "third", "fourth"] {
        env.norma(&["task", "add", goal]).success();
    }
    env.norma(&["task", "link", "1", "--depends-on", "3"]).success();
    env.norma(&["task", "link", "3", "--depends-on", "4"]).success();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r"
    ! error: task 1 waits for task 3, which is todo
    ! next: norma run 3, or `norma run` for every ready task
    [exit 1]
    ");
    env.norma(&["run"]).success();
    let goals: Vec<Value> =
        env.json(&["runs"]).as_array().unwrap().iter().rev().map(|run| run["goal"].clone()).collect();
    assert_eq!(goals, ["second", "fourth", "third", "make two loud"]);
    insta::assert_snapshot!(env.norma(&["run"]), @r#"
    no task is ready; add one: norma task add "what you want"
    [exit 0]
    "#);
}

#[test]
fn a_failure_ends_a_run_of_every_task_unless_it_is_to_continue() {
    let fails = json!({"plan": [[{"exit": 1}]]});
    let goals = |env: &TestEnvironment| env.json(&["runs"]).as_array().unwrap().len();
    let env = TestEnvironment::new(fails.clone());
    env.norma(&["task", "add", "second"]).success();
    env.norma(&["task", "add", "waits for the first"]).success();
    env.norma(&["task", "link", "3", "--depends-on", "1"]).success();
    env.norma(&["run"]).exits(1);
    assert_eq!(goals(&env), 1);
    let env = TestEnvironment::new(fails);
    env.norma(&["task", "add", "second"]).success();
    env.norma(&["task", "add", "waits for the first"]).success();
    env.norma(&["task", "link", "3", "--depends-on", "1"]).success();
    env.norma(&["run", "--continue"]).exits(1);
    assert_eq!(goals(&env), 2);
    assert_eq!(env.json(&["task", "show", "3"])["status"], "todo");
}

#[test]
fn programs_get_as_many_runs_as_people_and_are_told_of_the_others() {
    let env = TestEnvironment::new(json!({}));
    for _ in 0..2 {
        env.norma(&["run", "1", "--new"]).success();
    }
    let all = env.json(&["runs", "--all"]);
    assert_eq!(env.json(&["runs"]), all);
    let newest = env.norma(&["runs", "--limit", "1", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&newest.raw).unwrap(), json!([all[0]]));
    assert_eq!(newest.raw_err, "… and 1 more: norma runs --all\n");
    let text = env.norma(&["runs", "--limit", "1"]);
    assert_eq!((text.raw.lines().count(), text.raw.lines().last()), (2, Some("… and 1 more: norma runs --all")));
    assert_eq!(env.norma(&["runs", "--all", "--json"]).raw_err, "");
    env.norma(&["runs", "--all", "--limit", "1"]).exits(2);
}

#[test]
fn run_with_a_goal_makes_the_task_too() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "--goal", "another", "--ac", "it holds"]).success();
    let task = env.json(&["task", "show", "2"]);
    assert_eq!(
        (&task["goal"], &task["status"], &task["acceptance_criteria"][0]["id"]),
        (&json!("another"), &json!("done"), &json!("AC1"))
    );
    env.norma(&["run", "1", "--goal", "both"]).exits(2);
    env.norma(&["run", "--ac", "only"]).exits(2);
    insta::assert_snapshot!(env.norma(&["run", "contract.json"]), @r#"
    ! error: contract.json is neither a file nor a task
    ! next: say what you want in a sentence: norma run "what you want"; or name a file or a task
    [exit 2]
    "#);
    insta::assert_snapshot!(env.norma(&["run", "77"]), @r"
    ! error: there is no task 77
    ! next: norma task list --all shows them
    [exit 2]
    ");
    insta::assert_snapshot!(env.norma(&["run", "99999999999999999999"]), @r"
    ! error: that number is too large
    ! next: norma task list
    [exit 2]
    ");
    insta::assert_snapshot!(env.norma(&["run", "--goal", ""]), @r#"
    ! error: goal and criteria must not be empty
    ! next: norma task add "what you want" --ac "how to tell"
    [exit 2]
    "#);
}

const RUN_KEYS: [&str; 18] = [
    "base",
    "created_at",
    "ended_at",
    "goal",
    "id",
    "iteration",
    "landed",
    "landing",
    "message",
    "parent",
    "reason",
    "result",
    "run_dir",
    "run_id",
    "sandbox",
    "status",
    "task_id",
    "verdict",
];

#[test]
fn runs_show_and_events_have_the_documented_shape() {
    let env = TestEnvironment::with_patch(PATCH);
    let lines = env.norma(&["run", "1", "--json"]);
    let told: Vec<Value> = lines.success().raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = env.last();
    assert_eq!(told.last(), Some(&shown));
    let mut with_steps = RUN_KEYS.to_vec();
    with_steps.extend(["left_out", "receipts", "steps", "tests", "usage"]);
    with_steps.sort();
    assert_eq!(keys(&shown), with_steps);
    let step = [
        "agent",
        "attempt",
        "dir",
        "ended_at",
        "index",
        "iteration",
        "reason",
        "role",
        "started_at",
        "status",
        "summary",
    ];
    assert_eq!(keys(&shown["steps"][0]), step);
    assert_eq!(shown["steps"][0]["dir"], format!("{}/steps/001-plan", shown["run_dir"].as_str().unwrap()));
    let listed = env.json(&["runs"]);
    assert_eq!(keys(&listed[0]), RUN_KEYS);
    assert_eq!(listed[0]["status"], "succeeded");
    let event = [
        "attempt",
        "event_type",
        "id",
        "level",
        "message",
        "nodeId",
        "payload",
        "prev",
        "runId",
        "run_id",
        "seq",
        "task_id",
        "trace_id",
        "ts",
        "type",
    ];
    for (number, line) in (1..).zip(env.events()) {
        assert_eq!(keys(&line), event);
        assert_eq!((&line["seq"], &line["type"]), (&json!(number), &line["event_type"]));
        assert_eq!((&line["run_id"], &line["runId"]), (&shown["run_id"], &shown["id"]));
    }
    let mirror = std::fs::read_to_string(env.run_dir().join("events.jsonl")).unwrap();
    assert_eq!(mirror, env.norma(&["events", "@last", "--json"]).raw);
    assert_eq!(env.norma(&["events", "@last", "--json", "--after", "3"]).raw.lines().count(), env.events().len() - 3);
    assert_eq!(keys(&env.json(&["diff", "@last"])), ["patch", "run_id"]);
}

#[test]
fn runs_show_and_events_are_readable() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    insta::assert_snapshot!(env.norma(&["show", "@last"]), @r"
    run <run> · succeeded · verdict PASS · iteration 2
    goal: make two loud
          PASS in iteration 2
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
      4 act   ok  <took>  act did its part
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
    base <hash> · landed <hash> · sandbox native
    evidence: .norma/runs/<run>
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["runs"]), @r"
    <run>  succeeded  PASS  landed  make two loud
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["events", "@last"]), @r"
       1  <time>  run_started       Run started: make two loud
       2  <time>  step_started      Step 001-plan started
       3  <time>  step_committed    Step 001-plan committed: ok
       4  <time>  step_started      Step 002-do started
       5  <time>  step_committed    Step 002-do committed: ok
       6  <time>  step_started      Step 003-check started
       7  <time>  step_committed    Step 003-check committed: ok
       8  <time>  verdict           FAIL
       9  <time>  step_started      Step 004-act started
      10  <time>  step_committed    Step 004-act committed: ok
      11  <time>  change_started    Change 1 started
      12  <time>  patch_applied     Patch applied: 1 file(s)
      13  <time>  step_started      Step 005-plan started
      14  <time>  step_committed    Step 005-plan committed: ok
      15  <time>  step_started      Step 006-do started
      16  <time>  step_committed    Step 006-do committed: ok
      17  <time>  step_started      Step 007-check started
      18  <time>  step_committed    Step 007-check committed: ok
      19  <time>  verdict           PASS
      20  <time>  landing_started   Landing on refs/heads/main
      21  <time>  landed            Landed on refs/heads/main
      22  <time>  run_passed        PASS in iteration 2
    [exit 0]
    ");
}

#[test]
fn a_run_is_found_by_either_id_a_prefix_or_last() {
    let env = TestEnvironment::new(json!({}));
    insta::assert_snapshot!(env.norma(&["show", "@last"]), @r"
    ! error: there are no runs yet
    [exit 2]
    ");
    env.norma(&["run", "1"]).success();
    let run = env.last();
    let (slug, id) = (run["run_id"].as_str().unwrap(), run["id"].as_str().unwrap());
    for name in [slug, id, &slug[..8], &id[..13]] {
        assert_eq!(env.json(&["show", name])["run_id"], slug, "{name}");
    }
    env.norma(&["run", "1", "--new"]).success();
    insta::assert_snapshot!(env.norma(&["show", "20"]).err(), @"error: 20 could be <run>, <run>; give more of it");
    insta::assert_snapshot!(env.norma(&["show", "1999"]), @r"
    ! error: there is no run 1999; `norma runs` lists them
    [exit 2]
    ");
    insta::assert_snapshot!(env.norma(&["show", "../x"]), @r#"
    ! error: "../x" is not a run id
    [exit 2]
    "#);
}

#[test]
fn verify_notices_what_was_changed_after_the_run() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    insta::assert_snapshot!(env.norma(&["verify", "@last"]), @"
    chain          ok
    columns        ok
    state machine  ok
    events.jsonl   ok
    evidence       ok
    seal           ok
    approvals      ok
    audit log      ok
    verified: 22 events, 124 files
    [exit 0]
    ");
    assert_eq!(env.json(&["verify", "@last"])["verified"], true);
    let log = env.run_dir().join("steps/002-do/files/test.log");
    std::fs::write(&log, "all tests passed, honestly\n").unwrap();
    insta::assert_snapshot!(env.norma(&["verify", "@last"]), @"
    chain          ok
    columns        ok
    state machine  ok
    events.jsonl   ok
    evidence       FAILED
                   steps/002-do/files/test.log differs from what was recorded
    seal           FAILED
                   seal.dsse.json vouches for other files
    approvals      ok
    audit log      ok
    NOT verified: 22 events, 124 files
    [exit 5]
    ");
    assert_eq!(env.norma(&["verify", "@last", "--json"]).code(), Some(5));
}

#[test]
fn hash_is_the_same_for_a_revision_and_its_files() {
    let env = TestEnvironment::initialized();
    let head = env.norma(&["hash"]);
    assert_eq!(head.success().raw, env.norma(&["hash", "HEAD"]).raw);
    assert_eq!(head.raw, env.norma(&["hash", "."]).raw);
    assert_eq!(env.json(&["hash"])["hash"], head.raw.trim());
    env.write("README.md", "changed\n");
    assert_ne!(head.raw, env.norma(&["hash", "."]).raw);
    assert_eq!(head.raw, env.norma(&["hash"]).raw);
    let memo = std::fs::read(env.root.join(".norma/cache/state-hash")).unwrap();
    env.write(".norma/cache/state-hash", "damaged");
    assert_eq!(head.raw, env.norma(&["hash"]).raw);
    assert!(std::fs::read(env.root.join(".norma/cache/state-hash")).unwrap() == memo, "it is made anew");
    insta::assert_snapshot!(env.norma(&["hash", "nothing"]), @r#"
    ! error: "nothing" is neither a directory nor a revision
    ! next: for example: norma hash HEAD
    [exit 2]
    "#);
}

#[test]
fn reindex_and_gc_keep_what_is_on_record() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["task", "add", "second"]).success();
    env.norma(&["task", "link", "2", "--depends-on", "1"]).success();
    env.norma(&["run", "1"]).success();
    let state =
        |env: &TestEnvironment| (env.json(&["runs"]), env.last(), env.json(&["task", "list", "--all"]), env.events());
    let before = state(&env);
    insta::assert_snapshot!(env.norma(&["reindex"]), @r"
    the index was rebuilt from the logs of 1 run(s)
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["gc"]), @r"
    0 ref(s) of ended runs removed
    [exit 0]
    ");
    assert_eq!(state(&env), before);
    env.norma(&["verify", "@last"]).success();
    // A stopped run can be gone on from, so what keeps its base alive stays.
    env.script(json!({"check": [[{"verdict": "FAIL"}]]}));
    env.configure(|config| config["budgets"]["max_iterations"] = 1.into());
    env.norma(&["run", "2"]).exits(1);
    env.norma(&["gc"]).success();
    assert_eq!(env.git(&["for-each-ref", "refs/norma"]).lines().count(), 1);
}

#[test]
fn the_help_lists_every_verb() {
    let env = TestEnvironment::bare();
    insta::assert_snapshot!(env.norma(&["--help"]), @"
    norma runs coding agents under contract: a change lands whole, or leaves no trace

    Usage: norma [OPTIONS] <COMMAND>

    Commands:
      init         Create the state directory (.norma) with a configuration and policies to start from
      trust        Trust .norma/config.json and .norma/policies as they are now: they choose what runs
      agent        Add, list and remove agents
      doctor       Check that everything is in place, and print what to do where it is not
      demo         See norma work on a small repository in a temporary folder (needs only git and sh)
      task         Add, list, show, link, edit, finish and remove tasks
      contract     Check, make and activate contracts
      run          Run what you want in a sentence, a task, a contract, a goal, or every ready task
      batch        Run work items level by level, in parallel; each lands whole or leaves no trace
      intent       Carry out an intent, or only compile it into plan, patch and tests
      pipeline     Plan, split, carry out, review, test, fix and merge what you want in a sentence
      recipe       Make, check and fill templates of intents
      graph        Build a graph of agents that live, are talked to and hand work to each other
      node         Add, change, stop, start, reset and remove nodes of a graph
      edge         Draw and remove edges of a graph
      say          Tell a node of a graph something, which starts its next turn
      status       Show what runs, what waits and what needs you, with the command for each
      serve        Serve every run over HTTP on this machine, and carry out what clients ask for
      open         Open the running server, or a run on it, in the browser, logged in
      watch        Watch runs live: all of them, or one until it has ended
      runs         List runs, newest first
      show         Show a run: its steps, its verdict, where its evidence is
      why          Show which rule, path and evidence decided about a run, and what would allow it
      logs         Print what the agents and tests of a run printed and said
      events       Print the log of a run
      diff         Print what a run changed, as a patch
      land         Move the result of a passed run onto your branch
      undo         Undo a landing, if the branch has not moved since
      approvals    List what needs your approval
      approve      Approve what a run waits for, for that run and these reasons only
      deny         Deny what a run waits for
      cancel       End a run; its evidence stays
      resume       Continue a paused run; with --budget, one that its budget holds or has stopped
      verify       Check a run's log, chain and evidence
      quarantine   Set a damaged run aside, so that its task can be run again; nothing is deleted
      replay       Judge a run again: on its evidence, with its tests, or by carrying it out again
      export       Write a sealed run to one file that can be verified elsewhere
      keys         Show the key that norma signs with here, or export its public part
      config       Show the configuration that counts here
      hash         Print the BLAKE3 state hash of a revision or a directory
      hooks        Check your own commits and pushes against the active contract
      sandbox      Run a program in the sandbox, or see what the sandbox lets through
      exec-check   Check whether a command may be started, and by which rule; nothing is started
      reindex      Rebuild the index tables from the logs
      gc           Remove what ended runs left in your repository; events and evidence are kept
      completions  Print a completion script for your shell
      schema       Print the JSON Schema of a document, or list them
      help         Print the help of a verb, or a page of the documentation

    Options:
          --json           Print JSON for programs instead of text for people
          --config <FILE>  Use this configuration instead of .norma/config.json (trusted, since you
                           typed it)
      -C <DIR>             Work in this directory
      -v, --verbose...     Show what agents say while they work; with -vv and -vvv also, on stderr, what
                           norma does (see also NORMA_LOG)
      -h, --help           Print help
      -V, --version        Print version

    Start with `norma demo`; then, in a repository of yours: norma run \"what you want\"
    Pages on contracts, agents, the sandbox and more: norma help
    [exit 0]
    ");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let env = TestEnvironment::bare();
    let help = env.norma(&["--help"]);
    let listed = help.raw.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs = listed.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    let verbs: Vec<&str> = verbs.collect();
    assert!(verbs.len() >= 19, "{verbs:?}");
    for verb in verbs {
        for args in [["help", verb], [verb, "--help"]] {
            let output = env.norma(&args);
            assert!(output.success().raw.contains(&format!("  norma {verb}")), "no example: {output}");
        }
    }
}

#[test]
fn what_is_no_verb_is_refused_and_the_version_is_always_the_same() {
    let env = TestEnvironment::bare();
    env.norma(&["fly"]).exits(2);
    env.norma(&[]).exits(2);
    // Answered before anything else, in the words of the command line.
    let version = env.norma(&["--json", "--version"]);
    for asked in ["--version", "-V"] {
        assert_eq!(env.norma(&[asked]).success().raw, version.success().raw);
    }
}

/// What a machine can confine, and which agents it has, differs from one to the next.
fn without_sandbox(text: &str) -> String {
    let mut of_sandbox = false;
    let mut kept = Vec::new();
    for line in text.lines() {
        // What a check has to say below its first line is indented.
        if !line.starts_with(' ') {
            let of_machine = |rest: &str| rest.starts_with("sandbox    ") || rest.starts_with("agent      ");
            of_sandbox = line.get(6..).is_some_and(of_machine);
        }
        if !of_sandbox {
            kept.push(line);
        }
    }
    assert!(kept.len() < text.lines().count(), "{text}");
    kept.join("\n")
}

#[test]
fn doctor_says_what_is_missing_and_how_to_mend_it() {
    let env = TestEnvironment::initialized();
    insta::assert_snapshot!(without_sandbox(&env.norma(&["doctor"]).to_string()), @"
    ok    repository $DIR/repo
    ok    head       <hash> on refs/heads/main
    ok    state      .norma
    ok    journal    WAL, synced at every commit
    ok    owner      no other norma is running
    ok    checkpoint the audit log matches its last checkpoint
    ok    record     no run is damaged or missing
    ok    config     valid and trusted
    ok    policies   built-in
    FAIL  agents     no agent for plan, do, check, act, so the plan-do-check-act loop cannot run
                 fix: add one to .norma/config.json (norma help config), then: norma trust
    [exit 4]
    ");
    env.script(json!({}));
    insta::assert_snapshot!(without_sandbox(&env.norma(&["doctor"]).to_string()), @"
    ok    repository $DIR/repo
    ok    head       <hash> on refs/heads/main
    ok    state      .norma
    ok    journal    WAL, synced at every commit
    ok    owner      no other norma is running
    ok    checkpoint the audit log matches its last checkpoint
    ok    record     no run is damaged or missing
    ok    config     valid and trusted
    ok    policies   built-in
    ok    agents     every program was found
    [exit 0]
    ");
    let found = env.json(&["doctor"]);
    assert_eq!(keys(&found), ["checks", "healthy", "sandbox"]);
    assert_eq!(keys(&found["sandbox"]), ["landlock_abi", "level", "memory_by", "missing"]);
    assert_eq!(keys(&found["checks"][0]), ["fix", "message", "name", "status"]);
    env.configure(|config| config["agents"]["act"]["cmd"] = json!(["no-such-agent"]));
    assert_eq!(env.json(&["doctor"])["healthy"], false);
}

#[test]
fn an_error_is_json_where_json_was_asked_for() {
    let env = TestEnvironment::initialized();
    let output = env.norma(&["show", "nothing", "--json"]);
    output.exits(2);
    let error: Value = serde_json::from_str(&output.raw).unwrap();
    assert_eq!(keys(&error), ["code", "details", "error"]);
    assert_eq!(output.raw_err, "");
}

#[test]
fn the_demo_runs_by_itself() {
    let env = TestEnvironment::bare();
    insta::assert_snapshot!(env.norma_in(&env.dir, &["demo"]), @"
    repository $DIR/tmp/norma-demo-<random> · a test fails in it · agents: shell scripts in agents/
    an agent that misbehaves, under contract:
      edit outside its scope   denied (scope: policy_violation): README.md: it is outside the allowed paths (bin/slugify)
      read a private key       denied (sandbox): cat: id_ed25519: No such file or directory
      rewrite the failing test denied (tests: tests_failed): Tests failed: test_command with the baseline's tests: exit code 1
    run <run> · base main <hash> · sandbox native
    goal: slugify must drop punctuation
      1 plan  ok  <took>  run the tests, then fix what fails
      2 do    ok  <took>  the tests failed
      3 check ok  <took>  AC1 FAIL
              verdict FAIL
      4 act   ok  <took>  AC1: drop punctuation before joining words
              patch applied: bin/slugify
      5 plan  ok  <took>  run the tests, then fix what fails
      6 do    ok  <took>  the tests passed
      7 check ok  <took>  AC1 PASS
              verdict PASS
    PASS in iteration 2 · landed main <hash>→<hash>
    1 file changed, +2 −2
      bin/slugify  +2 −2
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    log, evidence and receipt verified: 22 events, 128 files
    try: cd $DIR/tmp/norma-demo-<random> && norma show @last · norma events @last · norma diff @last · norma undo @last
    then: cd your-repository && norma run \"what you want\"
    [exit 0]
    ");
}

#[test]
fn a_failed_run_ends_with_its_view_in_json_and_exit_code_1() {
    let env = TestEnvironment::new(json!({"plan": [[{"exit": 3}]]}));
    let output = env.norma(&["run", "1", "--json"]);
    output.exits(1);
    let lines: Vec<Value> = output.raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last(), Some(&env.last()));
    let told: Vec<&Value> = lines.iter().filter(|line| line.get("type").is_some()).map(|line| &line["type"]).collect();
    assert_eq!(told, ["run_started", "step_started", "step_committed", "run_failed"]);
    assert_eq!(output.raw_err, "");
}
