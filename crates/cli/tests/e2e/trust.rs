//! The configuration: what it may say, who may say it, and what is run because of it.

use crate::environment::{TestEnvironment, scripted_agent};
use serde_json::{Value, json};

/// Runs task 1 with this configuration and answers what norma says.
fn check(env: &TestEnvironment, config: &str) -> String {
    std::fs::write(env.dir.join("given.json"), config).unwrap();
    let output = env.norma(&["run", "1", "--config", &env.at("given.json")]);
    output.to_string().replace(scripted_agent().to_str().unwrap(), "$AGENT")
}

#[test]
fn an_untrusted_configuration_runs_nothing_and_says_what_it_would_run() {
    let env = TestEnvironment::new(json!({}));
    let before = env.repository();
    let shell = format!("touch '{}'", env.at("canary"));
    let agent = json!({"type": "exec", "cmd": ["sh", "-c", shell], "env": {"LD_PRELOAD": "x"}});
    let config =
        json!({"agents": {"plan": agent, "do": agent, "check": agent, "act": agent}, "budgets": {"max_iterations": 1}});
    env.write(".norma/config.json", &config.to_string());
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    ! error: .norma/config.json is not trusted, so nothing was run
    ! it would run, in a sandbox:
    !   act: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
    !   check: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
    !   do: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
    !   plan: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
    ! sha256 <hash>
    ! next: if that is what you want: norma trust
    [exit 4]
    ");
    insta::assert_snapshot!(env.norma(&["trust", "--show"]), @"
    it would run, in a sandbox:
      act: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
      check: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
      do: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
      plan: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
    sha256 <hash>
    .norma/config.json is not trusted; to trust it: norma trust
    [exit 0]
    ");
    env.norma(&["run", "1"]).exits(4);
    env.norma(&["run"]).exits(4);
    env.norma(&["run", "--goal", "x"]).exits(4);
    assert_eq!(env.norma(&["doctor"]).code(), Some(4));
    assert!(!env.dir.join("canary").exists());
    assert_eq!(env.json(&["runs"]), json!([]));
    assert_eq!(env.json(&["task", "list", "--all"]).as_array().unwrap().len(), 1);
    assert_eq!(env.repository(), before);
    insta::assert_snapshot!(env.norma(&["trust"]), @"
    it would run, in a sandbox:
      act: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
      check: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
      do: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
      plan: exec sh -c touch '$DIR/canary' (sets LD_PRELOAD)
    sha256 <hash>
    .norma/config.json is trusted
    [exit 0]
    ");
    assert_eq!(env.json(&["trust", "--show"])["trusted"], true);
    env.norma(&["run", "1"]).exits(1);
    assert!(env.run_dir().join("steps/001-plan/output.json").is_file(), "it ran");
    assert!(!env.dir.join("canary").exists(), "in a sandbox");
}

#[test]
fn a_configuration_that_was_changed_is_untrusted_again() {
    let env = TestEnvironment::new(json!({}));
    let trusted = env.read(".norma/config.json");
    env.write(".norma/config.json", &format!("{trusted}\n"));
    env.norma(&["run", "1"]).exits(4);
    env.write(".norma/config.json", &trusted);
    env.norma(&["run", "1"]).success();
}

#[test]
fn trust_is_for_this_place_only() {
    let env = TestEnvironment::new(json!({}));
    let copy = env.dir.join("copy");
    let status = std::process::Command::new("cp").arg("-a").arg(&env.root).arg(&copy).status().unwrap();
    assert!(status.success());
    env.norma_in(&copy, &["run", "1"]).exits(4);
    env.norma(&["run", "1"]).success();
}

#[test]
fn a_run_that_somebody_else_started_is_not_gone_on_with() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"do": [[{"write_abs": {"path": env.at("started"), "content": ""}}, "hang"]]}));
    let running = env.spawn(&["run", "1"]);
    env.wait_for("started");
    running.signal("INT");
    running.wait().exits(130);
    // A repository that arrives with a database in it: the same files, but nobody here trusted or started anything.
    std::fs::remove_dir_all(env.dir.join("home/.local")).unwrap();
    env.norma(&["resume", "@last"]).exits(4);
    env.norma(&["trust"]).success();
    insta::assert_snapshot!(env.norma(&["resume", "@last"]), @r"
    ! error: run <run> was not started by you on this machine, so it is not continued
    ! next: start over: norma run … --new
    [exit 4]
    ");
    env.norma(&["run", "1"]).exits(4);
    env.script(json!({}));
    env.norma(&["run", "1", "--new"]).success();
}

#[test]
fn a_configuration_named_on_the_command_line_is_trusted() {
    let env = TestEnvironment::new(json!({}));
    let config = env.read(".norma/config.json");
    env.write(".norma/config.json", "not even JSON");
    let output = check(&env, &config);
    assert!(output.ends_with("[exit 0]"), "{output}");
    insta::assert_snapshot!(env.norma(&["run", "1", "--new", "--config", "no-such-file"]), @r"
    ! error: there is no configuration at $DIR/repo/no-such-file
    ! next: make one: norma init
    [exit 4]
    ");
}

#[test]
fn a_broken_configuration_is_refused_with_every_violation() {
    let env = TestEnvironment::new(json!({}));
    insta::assert_snapshot!(check(&env, "{"), @r"
    ! error: $DIR/given.json is not a valid configuration:
    !   (document): could not parse JSON: EOF while parsing an object at line 1 column 1
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    ");
    insta::assert_snapshot!(check(&env, "{}"), @r#"
    ! error: $DIR/given.json is not a valid configuration:
    !   (document): missing required key "budgets"
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    "#);
    insta::assert_snapshot!(check(&env, "{\"budgets\":{\"max_iterations\":1},\"budgets\":{\"max_iterations\":9}}"), @r"
    ! error: $DIR/given.json is not a valid configuration:
    !   /budgets: duplicate key
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    ");
    let many = json!({
        "agent": {},
        "agents": {"plan": {"type": "exec", "cmd": "sh -c x"}, "do": {"type": "robot"}},
        "budgets": {"max_iterations": 0, "max_patches": 1},
        "landing": {"mode": "force"},
        "limits": {"step_seconds": 0, "output_mb": 99999},
    });
    insta::assert_snapshot!(check(&env, &many.to_string()), @r#"
    ! error: $DIR/given.json is not a valid configuration:
    !   /agent: unknown key, did you mean "agents"? expected "$schema", "agents", "budgets", "connectors", "default_agent", "graph", "host", "intents", "landing", "limits", "mode", "pipeline", "prices", "sandbox", "scope", "server", "tls" or "workspace"
    !   /agents/do/type: expected "exec", "codex", "claude", "opencode", "gemini" or "acp", found "robot"
    !   /agents/plan/cmd: expected array, found string
    !   /budgets/max_iterations: expected at least 1, found 0
    !   /budgets/max_patches: unknown key, expected "max_changed_files", "max_cost_usd", "max_iterations", "max_minutes", "max_patch_kb", "max_risky_files" or "max_tokens"
    !   /landing/mode: expected "auto" or "branch", found "force"
    !   /limits/output_mb: expected at most 1024, found 99999
    !   /limits/step_seconds: expected at least 1, found 0
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    "#);
    let agents = json!({
        "agents": {"plan": {"type": "exec", "cmd": [], "path": "../x"}, "boss": {"type": "exec", "cmd": ["x"]}},
        "budgets": {"max_iterations": 1},
    });
    insta::assert_snapshot!(check(&env, &agents.to_string()), @r#"
    ! error: $DIR/given.json is not a valid configuration:
    !   /agents/plan: an exec agent needs cmd, a list of program and arguments
    !   /agents/plan/path: path must be a directory of the repository: path "../x" contains a `..` component
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    "#);
    assert_eq!(env.json(&["runs"]), json!([]));
}

#[test]
fn cmd_is_refused_on_agents_whose_program_is_fixed_and_one_that_is_not_there_is_told() {
    let env = TestEnvironment::new(json!({}));
    let config: Value = serde_json::from_str(&env.read(".norma/config.json")).unwrap();
    for kind in ["codex", "claude", "opencode", "gemini"] {
        let mut with_cmd = config.clone();
        with_cmd["agents"]["act"] = json!({"type": kind, "cmd": ["x"]});
        let said = check(&env, &with_cmd.to_string());
        assert!(
            said.contains(&format!("/agents/act/cmd: cmd is not supported for type {kind}: its program is fixed")),
            "{said}"
        );
        assert!(said.ends_with("[exit 2]"), "{said}");
        let mut without = config.clone();
        without["agents"]["act"] = json!({"type": kind, "model": "m", "bin": "/no/such/program"});
        let said = check(&env, &without.to_string());
        assert!(said.contains("act: \"/no/such/program\" is not an executable file"), "{said}");
        assert!(said.ends_with("[exit 4]"), "{said}");
    }
    assert_eq!(env.json(&["runs"]), json!([]));
}
