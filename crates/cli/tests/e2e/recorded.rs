//! What is kept of agents that were spoken with, and what can be made of it: the files of the bundle, what `show` tells,
//! and a replay in which the real programs work again while the recorded answers take the model's place.

use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use crate::receipts::verifies_elsewhere;
use scripted_model::agents::{self, Agent};
use scripted_model::{Options, Scripts, Server, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const KEY: &str = "sk-recorded-key-0123456789";

/// A repository with a real agent in its configuration, and the model that it talks to.
struct Lab {
    env: TestEnvironment,
    server: Option<Server>,
}

/// A lab whose model follows this script; none, and a word about it, where the agent is not installed.
#[expect(clippy::print_stdout, reason = "says why a test that passed tested nothing")]
fn lab(agent: Agent, script: Vec<Step>) -> Option<Lab> {
    let Some(program) = agents::program(agent) else {
        println!("skipped: {} not installed", agent.name());
        return None;
    };
    let scripts = Scripts::default().with("it", script);
    let server = Server::start(Options { key: Some(KEY.to_owned()), scripts, ..Options::default() }).unwrap();
    let mut env = TestEnvironment::initialized();
    let bin = env.dir.join("bin").join(agent.name());
    std::fs::create_dir(bin.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(program.canonicalize().unwrap(), &bin).unwrap();
    let (model, variable) = match agent {
        Agent::Claude => ("claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        _ => ("gpt-5.5", "OPENAI_API_KEY"),
    };
    env.env.insert(variable.to_owned(), KEY.to_owned());
    let base_url = format!("http://127.0.0.1:{}", server.port());
    let configured = json!({"type": agent.name(), "model": model, "base_url": base_url, "bin": bin});
    env.configure(|config| config["agents"][agent.name()] = configured);
    Some(Lab { env, server: Some(server) })
}

/// An answer in norma's form, by the tool for it where there is one.
fn answer(more: &Value) -> [Step; 2] {
    let mut answer =
        json!({"version": 1, "status": "ok", "summary": "did it", "files": [], "next_actions": [], "errors": []});
    for (name, value) in more.as_object().unwrap() {
        answer[name] = value.clone();
    }
    [Step::Structured(answer), Step::Text("Done.".to_owned())]
}

/// A worker that writes a file and answers.
fn writes() -> Vec<Step> {
    let write = Step::Write { path: "src/made.txt".to_owned(), content: "made\n".to_owned() };
    [write].into_iter().chain(answer(&json!({}))).collect()
}

/// A run of one item that such a worker carried out.
fn worked(agent: Agent) -> Option<Lab> {
    let lab = lab(agent, writes())?;
    let items = json!([{"id": "alpha", "agent_id": agent.name(), "description": "Make it. SCN=it"}]);
    lab.env.write("items.json", &items.to_string());
    lab.env.norma(&["batch", "items.json"]).success();
    Some(lab)
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut due) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(dir) = due.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => due.push(entry),
                false => drop(found.insert(entry.clone(), std::fs::read(&entry).unwrap())),
            }
        }
    }
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn document(path: &Path) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

fn the_bundle_has_what_was_said(agent: Agent) {
    let Some(lab) = worked(agent) else { return };
    let (dir, name) = (lab.env.run_dir(), agent.name());
    let said = dir.join(name).join("alpha");
    assert_eq!(text(&said.join("events.jsonl")), text(&dir.join("steps/001-worker/session/events.jsonl")));
    let outcome = document(&dir.join("steps/001-worker/session/outcome.json"));
    let session = outcome["session_id"].as_str().unwrap();
    assert_eq!(text(&said.join("thread_id.txt")), format!("{session}\n"));
    let transcript = text(&said.join("transcript.md"));
    assert!(transcript.starts_with("# steps/001-worker\n"), "{transcript}");
    for part in [&format!("\nSession {session}"), "\nTool 1 ", "made.txt", "\nTool 1: ok\n", "\nEnded well", "\nUsed: "]
    {
        assert!(transcript.contains(part), "{part} is not in {transcript}");
    }
    let manifest = document(&dir.join("manifest.json"));
    for file in ["events.jsonl", "transcript.md", "thread_id.txt"] {
        let bytes = std::fs::read(said.join(file)).unwrap();
        let digest = contract::hash::sha256(&bytes).to_string();
        assert_eq!(manifest["evidence_hashes"][format!("{name}/alpha/{file}")], json!(digest), "{file}");
    }
    assert_eq!(manifest["tasks"][0]["thread_id"], json!(session));
    let report = document(&dir.join("reports/work_report.json"));
    assert_eq!(report["evidence"]["transcript_md"]["path"], json!(format!("{name}/alpha/transcript.md")));
    assert_eq!(report["evidence"]["thread_id_txt"]["path"], json!(format!("{name}/alpha/thread_id.txt")));
    let result = document(&dir.join("results/alpha/result.json"));
    let is_codex = agent == Agent::Codex;
    assert_eq!(report["evidence"]["codex_events_jsonl"].is_object(), is_codex);
    assert_eq!(result["producer"]["codex_thread_id"].as_str(), is_codex.then_some(session));
    let bundle = document(&dir.join("reports/evidence_bundle.json"));
    assert_eq!(bundle["artifacts"].as_array().unwrap().len(), 3, "{bundle:#}");
    lab.env.norma(&["verify", "@last"]).success();
    verifies_elsewhere(&lab.env);
}

fn show_tells_who_worked(agent: Agent) {
    let Some(lab) = worked(agent) else { return };
    let run = lab.env.last();
    let step = &run["steps"][0];
    let session = step["session_id"].as_str().unwrap();
    assert_eq!(step["agent"], json!(agent.name()));
    assert!(step["usage"]["input_tokens"].as_u64().unwrap() > 0, "{step:#}");
    assert!(step["usage"]["cost_micro_usd"].as_u64().unwrap() > 0, "{step:#}");
    assert_eq!(run["usage"], step["usage"]);
    let (model, usage) = (step["model"].as_str().unwrap(), &step["usage"]);
    let read = format!("{} tokens read, {} written, $", usage["input_tokens"], usage["output_tokens"]);
    let shown = lab.env.norma(&["show", "@last"]).raw;
    let line = format!("          {} with {model} · session {session} · {read}", agent.name());
    assert!(shown.contains(&line), "{line:?} is not in {shown}");
    assert!(shown.contains(&format!("\nused: {read}")), "{shown}");
}

fn an_agent_works_again_on_what_is_recorded(agent: Agent) {
    let Some(mut lab) = worked(agent) else { return };
    // Whatever goes out from now on finds nobody, and there is no key to go with.
    lab.server = None;
    lab.env.env.retain(|name, _| !name.ends_with("_API_KEY"));
    let (dir, repository) = (lab.env.run_dir(), lab.env.repository());
    let (sealed, log) = (files(&dir), lab.env.events());
    let replayed = lab.env.norma(&["replay", "@last", "--recorded"]);
    replayed.success();
    let expected = format!("steps/001-worker of alpha: same; {} worked again; of ", agent.name());
    assert!(replayed.raw.contains(&expected), "{replayed}");
    let report = lab.env.json(&["replay", "@last", "--recorded"])["report"].take();
    assert_eq!((&report["mode"], &report["status"]), (&json!("recorded"), &json!("pass")));
    let step = &report["recorded"][0];
    assert_eq!((&step["how"], &step["result"]), (&json!("agent_again"), &json!("same")), "{step:#}");
    let matched: u64 = ["exact", "masked", "order"].iter().map(|name| step["calls"][name].as_u64().unwrap()).sum();
    assert!(matched > 0 && matched <= step["calls"]["recorded"].as_u64().unwrap(), "{step:#}");
    assert!(files(&dir) == sealed, "a byte of the run has changed");
    assert_eq!(lab.env.repository(), repository);
    assert_eq!(lab.env.events(), log);
    lab.env.norma(&["verify", "@last"]).success();
}

fn another_program_is_found_out_and_none_is_said(agent: Agent) {
    let Some(lab) = worked(agent) else { return };
    let bin = lab.env.dir.join("bin").join(agent.name());
    std::fs::remove_file(&bin).unwrap();
    let replayed = lab.env.norma(&["replay", "@last", "--recorded"]);
    replayed.exits(4);
    assert!(replayed.raw.contains("is not an executable file here"), "{replayed}");
    std::fs::write(&bin, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let report = lab.env.norma(&["replay", "@last", "--recorded"]);
    report.exits(5);
    assert!(report.raw.contains("steps/001-worker of alpha: DIFFERS"), "{report}");
}

#[test]
fn the_bundle_has_what_codex_said() {
    the_bundle_has_what_was_said(Agent::Codex);
}

#[test]
fn the_bundle_has_what_claude_said() {
    the_bundle_has_what_was_said(Agent::Claude);
}

#[test]
fn show_tells_that_codex_worked() {
    show_tells_who_worked(Agent::Codex);
}

#[test]
fn show_tells_that_claude_worked() {
    show_tells_who_worked(Agent::Claude);
}

#[test]
fn codex_works_again_on_what_is_recorded() {
    an_agent_works_again_on_what_is_recorded(Agent::Codex);
}

#[test]
fn claude_works_again_on_what_is_recorded() {
    an_agent_works_again_on_what_is_recorded(Agent::Claude);
}

#[test]
fn another_program_than_codex_is_found_out_and_none_is_said() {
    another_program_is_found_out_and_none_is_said(Agent::Codex);
}

#[test]
fn another_program_than_claude_is_found_out_and_none_is_said() {
    another_program_is_found_out_and_none_is_said(Agent::Claude);
}

#[test]
fn a_plan_of_codex_is_made_again_beside_programs_that_do_not_work_again() {
    a_role_of_a_loop_works_again_beside_programs_that_do_not(Agent::Codex);
}

#[test]
fn a_plan_of_claude_is_made_again_beside_programs_that_do_not_work_again() {
    a_role_of_a_loop_works_again_beside_programs_that_do_not(Agent::Claude);
}

/// A plan by a real agent; everything else by a program of which nothing is recorded.
fn a_role_of_a_loop_works_again_beside_programs_that_do_not(agent: Agent) {
    let Some(mut lab) = lab(agent, answer(&json!({"plan_md": "# make it loud\n"})).to_vec()) else { return };
    let configured = lab.env.read(".norma/config.json");
    let configured: Value = serde_json::from_str(&configured).unwrap();
    let script = json!({"check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]], "act": [[{"patch": PATCH}]]});
    std::fs::write(lab.env.dir.join("script.json"), script.to_string()).unwrap();
    lab.env.configure(|config| config["agents"]["plan"] = configured["agents"][agent.name()].clone());
    lab.env.norma(&["task", "add", "make two loud SCN=it", "--ac", "the tests pass"]).success();
    lab.env.norma(&["run", "1"]).success();
    let run = lab.env.run_dir();
    assert_eq!(text(&run.join("steps/001-plan/plan.md")), "# make it loud\n");
    let task = lab.env.last()["task_id"].to_string();
    let said = run.join(agent.name()).join(task);
    // Both iterations had a plan.
    assert_eq!(text(&said.join("thread_id.txt")).lines().count(), 2);
    assert!(text(&said.join("transcript.md")).contains("\n# steps/005-plan\n"));
    lab.server = None;
    let sealed = files(&run);
    let report = lab.env.json(&["replay", "@last", "--recorded"])["report"].take();
    let told: Vec<(&str, &str, &str)> = report["recorded"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| ["dir", "how", "result"].map(|name| step[name].as_str().unwrap()).into())
        .collect();
    let applied = "change_applied";
    let expected = [
        ("steps/001-plan", "agent_again", "same"),
        ("steps/002-do", applied, "nothing"),
        ("steps/003-check", applied, "nothing"),
        ("steps/004-act", applied, "same"),
        ("steps/005-plan", "agent_again", "same"),
        ("steps/006-do", applied, "nothing"),
        ("steps/007-check", applied, "nothing"),
    ];
    assert_eq!(told, expected, "{report:#}");
    assert_eq!(report["status"], json!("pass"));
    assert!(files(&run) == sealed, "a byte of the run has changed");
}

#[test]
fn where_nothing_was_recorded_of_a_model_the_changes_are_applied() {
    let env = with_worker("echo $id > $id.txt");
    batch(&env, &[item("alpha", json!({})), item("beta", json!({}))], 0);
    let sealed = files(&env.run_dir());
    let report = env.json(&["replay", "@last", "--recorded"])["report"].take();
    assert_eq!(report["status"], json!("pass"), "{report:#}");
    for step in report["recorded"].as_array().unwrap() {
        assert_eq!((&step["how"], &step["result"]), (&json!("change_applied"), &json!("same")), "{step:#}");
        assert_eq!(step["why"], json!("nothing is recorded of what its program spoke with"));
    }
    assert!(files(&env.run_dir()) == sealed, "a byte of the run has changed");
    env.norma(&["replay", "@last", "--recorded", "--reverify"]).exits(2);
}
