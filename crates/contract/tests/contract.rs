//! The documents of the first specification, literally: what it shows as an example is read here as written,
//! and what norma writes has the same fields.

use contract::{
    AcceptanceCriterion, AgentRequest, AgentResponse, AgentType, Budgets, Config, End, Fact, RequestContext,
    RequestPaths, RequestStep, RequestTerms, ResponseStatus, Role, RunId, Status, StepRef, StepStatus, Verdict,
    VerdictFile, VerdictGiven,
};
use serde_json::{Value, json};

const REQUEST: &str = r#"{
  "version": 1,
  "run_id": "20260123-145501-ab12cd",
  "step": {
    "index": 2,
    "role": "check",
    "iteration": 1
  },
  "goal": "Short human goal",
  "norma": {
    "acceptance_criteria": [
      { "id": "AC1", "text": "All unit tests pass" },
      { "id": "AC2", "text": "No lint errors" }
    ],
    "budgets": {
      "max_iterations": 5,
      "max_patch_kb": 200
    }
  },
  "paths": {
    "repo_root": "/abs/path/to/repo",
    "run_dir": "/abs/path/to/repo/.norma/runs/20260123-145501-ab12cd",
    "step_dir": "/abs/path/to/repo/.norma/runs/20260123-145501-ab12cd/steps/003-check"
  },
  "context": {
    "previous_step_dirs": [
      "/abs/.../steps/001-plan"
    ],
    "notes": "Optional free-form"
  }
}"#;

const RESPONSE: &str = r#"{
  "version": 1,
  "status": "ok",
  "summary": "What happened, 1-3 sentences",
  "files": [
    "files/test.log",
    "scorecard.md"
  ],
  "next_actions": [
    "Apply patch.diff and re-run tests",
    "Re-check AC2 using golangci-lint"
  ],
  "errors": []
}"#;

const VERDICT: &str = r#"{
  "version": 1,
  "verdict": "PASS",
  "criteria": [
    {
      "id": "AC1",
      "text": "All unit tests pass",
      "pass": true,
      "evidence": "files/test.log"
    }
  ],
  "metrics": {
    "tests_passed": 123,
    "tests_failed": 0
  },
  "blockers": [],
  "recommended_fix": []
}"#;

const CONFIG: &str = r#"{
  "agents": {
    "plan":  { "type": "exec",  "cmd": ["./bin/norma-agent-plan"] },
    "do":    { "type": "exec",  "cmd": ["./bin/norma-agent-do"] },
    "check": { "type": "exec",  "cmd": ["./bin/norma-agent-check"] },
    "act":   { "type": "codex", "model": "gpt-5-codex" }
  },
  "budgets": {
    "max_iterations": 5,
    "max_patch_kb": 200
  }
}"#;

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("an example of the document is JSON")
}

/// Pointers of what is wrong with a configuration.
fn config_pointers(text: &str) -> Vec<String> {
    match Config::parse(text.as_bytes()) {
        Ok(config) => panic!("{config:?}"),
        Err(violations) => violations.into_iter().map(|violation| violation.pointer).collect(),
    }
}

#[test]
fn an_agent_request_is_spelled_as_in_the_document() {
    let request = AgentRequest {
        contract: None,
        version: 1,
        run_id: "20260123-145501-ab12cd".parse().unwrap(),
        step: RequestStep { index: 2, role: Role::Check.into(), iteration: 1 },
        goal: "Short human goal".into(),
        norma: RequestTerms {
            acceptance_criteria: vec![
                AcceptanceCriterion { id: "AC1".into(), text: "All unit tests pass".into() },
                AcceptanceCriterion { id: "AC2".into(), text: "No lint errors".into() },
            ],
            budgets: Budgets {
                max_iterations: 5,
                max_patch_kb: Some(200),
                max_changed_files: None,
                max_risky_files: None,
                max_minutes: None,
                max_tokens: None,
                max_cost_usd: None,
            },
        },
        paths: RequestPaths {
            workspace_dir: None,
            repo_root: "/abs/path/to/repo".into(),
            run_dir: "/abs/path/to/repo/.norma/runs/20260123-145501-ab12cd".into(),
            step_dir: "/abs/path/to/repo/.norma/runs/20260123-145501-ab12cd/steps/003-check".into(),
        },
        context: RequestContext {
            previous_step_dirs: vec!["/abs/.../steps/001-plan".into()],
            earlier_steps: 0,
            notes: "Optional free-form".into(),
            messages: None,
            handoffs: None,
            choices: None,
            skeleton: None,
            review: None,
        },
    };
    assert_eq!(serde_json::to_value(&request).unwrap(), value(REQUEST));
    assert_eq!(serde_json::from_str::<AgentRequest>(REQUEST).unwrap(), request);
}

#[test]
fn an_agent_response_is_spelled_as_in_the_document() {
    let response = AgentResponse::parse(RESPONSE.as_bytes()).unwrap();
    assert_eq!(response.status, ResponseStatus::Ok);
    assert_eq!(response.summary, "What happened, 1-3 sentences");
    assert_eq!(serde_json::to_value(&response).unwrap(), value(RESPONSE));
}

#[test]
fn an_answer_with_another_status_than_ok_or_fail_is_refused() {
    for status in [json!("OK"), json!("pass"), json!("skipped"), json!(""), json!(null), json!(true), json!(0)] {
        let text = json!({"version": 1, "status": status}).to_string();
        let problems = AgentResponse::parse(text.as_bytes()).unwrap_err();
        assert_eq!(problems[0].pointer, "/status", "{text}");
    }
    let fail = AgentResponse::parse(br#"{"version":1,"status":"fail"}"#).unwrap();
    assert_eq!(fail.status, ResponseStatus::Fail);
}

#[test]
fn answer_files_are_relative_paths_without_dots() {
    for file in ["../x", "a/../x", "..", "/etc/passwd", "//x", "", ".", "c:/x", "a\\b", "a\nb", ".git/config"] {
        let text = json!({"version": 1, "status": "ok", "files": ["scorecard.md", file]}).to_string();
        let problems = AgentResponse::parse(text.as_bytes()).unwrap_err();
        assert_eq!(problems.len(), 1, "{file:?}");
        assert_eq!(problems[0].pointer, "/files/1", "{file:?}");
    }
    for file in ["files/test.log", "./scorecard.md", "a..b", "..a", "files/.hidden"] {
        let text = json!({"version": 1, "status": "ok", "files": [file]}).to_string();
        AgentResponse::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{file:?}: {problems:?}"));
    }
}

#[test]
fn a_verdict_is_spelled_as_in_the_document() {
    let verdict = VerdictFile::parse(VERDICT.as_bytes()).unwrap();
    assert_eq!(verdict.verdict, Verdict::Pass);
    assert_eq!(verdict.metrics["tests_passed"], 123);
    assert_eq!(serde_json::to_value(&verdict).unwrap(), value(VERDICT));
}

#[test]
fn a_verdict_is_pass_or_fail_and_nothing_else() {
    for word in [json!("pass"), json!("Pass"), json!("MAYBE"), json!(""), json!(true), json!(null)] {
        let mut verdict = value(VERDICT);
        verdict["verdict"] = word;
        let problems = VerdictFile::parse(verdict.to_string().as_bytes()).unwrap_err();
        assert_eq!(problems[0].pointer, "/verdict", "{verdict}");
    }
    let mut verdict = value(VERDICT);
    verdict["verdict"] = json!("FAIL");
    assert_eq!(VerdictFile::parse(verdict.to_string().as_bytes()).unwrap().verdict, Verdict::Fail);
}

#[test]
fn the_configuration_of_the_document_is_read_as_written() {
    let config = Config::parse(CONFIG.as_bytes()).unwrap();
    let agents: Vec<(&str, AgentType)> =
        config.agents.iter().map(|(role, agent)| (role.as_str(), agent.kind)).collect();
    let exec = AgentType::Exec;
    assert_eq!(agents, [("act", AgentType::Codex), ("check", exec), ("do", exec), ("plan", exec)]);
    assert_eq!(config.agents["plan"].cmd, ["./bin/norma-agent-plan"]);
    assert_eq!(config.agents["act"].model.as_deref(), Some("gpt-5-codex"));
    assert_eq!((config.budgets.max_iterations, config.budgets.max_patch_kb), (5, Some(200)));
    let written = serde_json::to_value(&config).unwrap();
    assert_eq!((&written["agents"], &written["budgets"]), (&value(CONFIG)["agents"], &value(CONFIG)["budgets"]));
}

#[test]
fn max_iterations_is_required_and_the_other_budgets_are_optional() {
    assert_eq!(config_pointers(r#"{"budgets":{"max_patch_kb":1,"max_changed_files":1,"max_risky_files":1}}"#).len(), 1);
    for wrong in ["0", "-1", "1.5", "\"5\"", "null"] {
        let text = format!(r#"{{"budgets":{{"max_iterations":{wrong}}}}}"#);
        assert_eq!(config_pointers(&text), ["/budgets/max_iterations"], "{wrong}");
    }
    let least = Config::parse(br#"{"budgets":{"max_iterations":1}}"#).unwrap().budgets;
    assert_eq!((least.max_patch_kb, least.max_changed_files, least.max_risky_files), (None, None, None));
    let all = br#"{"budgets":{"max_iterations":1,"max_patch_kb":2,"max_changed_files":3,"max_risky_files":0}}"#;
    let all = Config::parse(all).unwrap().budgets;
    assert_eq!((all.max_patch_kb, all.max_changed_files, all.max_risky_files), (Some(2), Some(3), Some(0)));
}

#[test]
fn cmd_is_an_argv_array_and_nothing_else() {
    for (cmd, pointer) in [
        (json!("make test"), "/agents/do/cmd"),
        (json!(["make", 1]), "/agents/do/cmd/1"),
        (json!([]), "/agents/do"),
        (json!([""]), "/agents/do/cmd/0"),
        (json!({"program": "make"}), "/agents/do/cmd"),
    ] {
        let text = json!({"agents": {"do": {"type": "exec", "cmd": cmd}}, "budgets": {"max_iterations": 1}});
        assert_eq!(config_pointers(&text.to_string()), [pointer], "{text}");
    }
    // An argument is an argument: what a shell would make of it does not matter.
    let text = r#"{"agents":{"do":{"type":"exec","cmd":["make","a b; rm -rf *"]}},"budgets":{"max_iterations":1}}"#;
    assert_eq!(Config::parse(text.as_bytes()).unwrap().agents["do"].cmd[1], "a b; rm -rf *");
}

#[test]
fn cmd_is_refused_on_an_agent_whose_program_is_fixed() {
    for kind in ["codex", "opencode", "gemini"] {
        let agent = |extra: Value| {
            let mut agent = json!({"type": kind});
            agent.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"agents": {"act": agent}, "budgets": {"max_iterations": 1}}).to_string()
        };
        assert_eq!(config_pointers(&agent(json!({"cmd": ["x"]}))), ["/agents/act/cmd"]);
        assert_eq!(config_pointers(&agent(json!({"path": "../elsewhere"}))), ["/agents/act/path"]);
        Config::parse(agent(json!({"path": "sub/dir", "model": "m"})).as_bytes()).unwrap();
    }
}

#[test]
fn a_run_id_is_a_utc_time_and_six_hex_digits() {
    let id = RunId::new(1_769_180_101_000, [0xff, 0, 0, 0, 0, 0, 0, 0xab, 0x12, 0xcd]);
    assert_eq!(id.slug(), "20260123-145501-ab12cd");
    assert!(contract::id::is_slug("20260123-145501-ab12cd"));
}

#[test]
fn a_step_directory_is_named_by_number_and_role() {
    let names: Vec<String> = (1..)
        .zip(Role::PDCA)
        .map(|(index, role)| StepRef { index, role, iteration: 1, attempt: 1, item: None, node: None }.dir_name())
        .collect();
    assert_eq!(names, ["001-plan", "002-do", "003-check", "004-act"]);
    let late = StepRef { index: 1234, role: Role::Do, iteration: 400, attempt: 1, item: None, node: None };
    assert_eq!(late.dir_name(), "1234-do");
}

#[test]
fn the_status_words_are_those_of_the_document() {
    let all = [
        Status::Queued,
        Status::Running,
        Status::Waiting,
        Status::Paused,
        Status::Succeeded,
        Status::Failed,
        Status::Denied,
        Status::TimedOut,
        Status::Stopped,
        Status::Canceled,
    ];
    for status in all {
        assert!(["running", "passed", "failed", "stopped"].contains(&status.legacy(None)), "{status}");
    }
    assert_eq!([Verdict::Pass, Verdict::Fail].map(Verdict::as_str), ["PASS", "FAIL"]);
    assert_eq!(Role::PDCA.map(Role::as_str), ["plan", "do", "check", "act"]);
    let steps = [StepStatus::Ok, StepStatus::Fail, StepStatus::Skipped];
    assert_eq!(steps.map(StepStatus::as_str), ["ok", "fail", "skipped"]);
    for (word, spelled) in [
        (json!(Role::Plan), "plan"),
        (json!(Verdict::Fail), "FAIL"),
        (json!(StepStatus::Skipped), "skipped"),
        (json!(AgentType::Opencode), "opencode"),
    ] {
        assert_eq!(word, spelled);
    }
}

#[test]
fn the_event_types_of_the_document_are_spelled_as_there() {
    let step = StepRef { index: 3, role: Role::Check, iteration: 1, attempt: 1, item: None, node: None };
    let verdict = VerdictGiven { step, claimed: Verdict::Pass, verdict: Verdict::Pass, findings: vec![] };
    let reconciled =
        Fact::ReconciledStep { step, dir: "steps/003-check".into(), evidence: contract::Digest::from_bytes([0; 32]) };
    assert_eq!(Fact::Verdict(verdict).parts().0, "verdict");
    assert_eq!(reconciled.parts().0, "reconciled_step");
    assert_eq!(reconciled.message(), "Step dir exists but DB record was missing; inserted during recovery");
    let error = Fact::ProtocolError { step, problems: vec!["stdout not valid JSON".into()] };
    assert_eq!(error.parts().0, "protocol_error");
    assert_eq!(Fact::RunStopped(End { reason: None, message: String::new() }).parts().0, "run_stopped");
    // `run_started` and `step_committed` carry more than fits here; their words are in the schema of facts.
    let schema = contract::schema::built_in("fact.v1.json").unwrap();
    for word in ["run_started", "step_committed", "verdict", "reconciled_step", "protocol_error", "budget_exceeded"] {
        assert!(schema.contains(&format!("\"{word}\"")), "{word}");
    }
}

#[test]
fn a_branch_that_is_gone_again_is_an_empty_text_in_the_log() {
    let commit = "0".repeat(40);
    for (at, expected) in [("", None), (commit.as_str(), Some(commit.parse().unwrap()))] {
        let payload = serde_json::json!({
            "run_id": "20260123-145501-ab12cd",
            "landing": {"target": "refs/heads/x", "from": commit, "commit": at, "checkout": false},
        });
        let read = contract::Audit::from_parts("undone", payload.clone()).unwrap();
        let contract::Audit::Undone { landing, .. } = &read else { panic!("{read:?}") };
        assert_eq!(landing.commit, expected);
        assert_eq!(read.parts().1, payload);
    }
    let landing = serde_json::json!({"target": "HEAD", "from": null, "commit": "", "checkout": true});
    assert!(serde_json::from_value::<contract::Landing>(landing).is_err());
}
