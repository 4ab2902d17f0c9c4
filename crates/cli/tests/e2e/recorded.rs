//! What is kept of interactive sessions, and what can be made of it: the files of the bundle, what `show` tells,
//! and a replay in which the real programs work again while the recorded answers take the model's place.

use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use crate::real::approvals::{answering, asking};
use crate::real::{self, Agent, Lab, answer, for_each_agent, for_each_protocol, lab, then_answer, write};
use crate::receipts::verifies_elsewhere;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

for_each_agent!(the_bundle_has_what_was_said, an_agent_works_again_on_what_is_recorded);
for_each_protocol!(
    show_tells_who_worked,
    what_a_person_said_is_told_again,
    another_program_is_found_out_and_none_is_said,
    a_role_of_a_loop_works_again_beside_programs_that_do_not
);

/// A worker that writes a file and answers.
fn worker(agent: Agent) -> Option<Lab> {
    lab(&[agent], then_answer([write("src/made.txt", "made\n")]))
}

/// A run of one item that such a worker carried out.
fn worked(agent: Agent) -> Option<Lab> {
    let lab = worker(agent)?;
    work(&lab, agent);
    Some(lab)
}

fn work(lab: &Lab, agent: Agent) {
    lab.env.write("item.json", &real::item("alpha", agent, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
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
    // What its program printed, line by line, and nothing that norma made of it.
    let exchange = text(&dir.join("steps/001-worker/session/exchange.jsonl"));
    let exchange = exchange.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let printed: Vec<Value> =
        exchange.filter(|line| line["dir"] == "out").map(|mut line| line["line"].take()).collect();
    let raw: Vec<Value> =
        text(&said.join("events.jsonl")).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!raw.is_empty() && raw == printed, "{raw:#?}");
    let own_words = |line: &Value| line.get("jsonrpc").or(line.get("method")).or(line.get("type")).is_some();
    assert!(raw.iter().any(own_words), "{raw:#?}");
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
    let Some(env) = worked(agent).map(alone) else { return };
    let (dir, repository) = (env.run_dir(), env.repository());
    let (sealed, log) = (files(&dir), env.events());
    let replayed = env.norma(&["replay", "@last", "--recorded"]);
    replayed.success();
    let expected = format!("steps/001-worker of alpha: same; {} worked again; of ", agent.name());
    assert!(replayed.raw.contains(&expected), "{replayed}");
    let report = env.json(&["replay", "@last", "--recorded"])["report"].take();
    assert_eq!((&report["mode"], &report["status"]), (&json!("recorded"), &json!("pass")));
    let step = &report["recorded"][0];
    assert_eq!((&step["how"], &step["result"]), (&json!("agent_again"), &json!("same")), "{step:#}");
    let matched: u64 = ["exact", "masked", "order"].iter().map(|name| step["calls"][name].as_u64().unwrap()).sum();
    assert!(matched > 0 && matched <= step["calls"]["recorded"].as_u64().unwrap(), "{step:#}");
    assert!(files(&dir) == sealed, "a byte of the run has changed");
    assert_eq!(env.repository(), repository);
    assert_eq!(env.events(), log);
    env.norma(&["verify", "@last"]).success();
}

/// The world of a lab whose model is gone: whatever goes out finds nobody, and there is no key to go with.
fn alone(lab: Lab) -> TestEnvironment {
    let Lab { mut env, server } = lab;
    drop(server);
    env.env.retain(|name, _| !name.ends_with("_API_KEY"));
    env
}

fn what_a_person_said_is_told_again(agent: Agent) {
    for (verb, exit, note) in [("approve", 0, "1 yes, 0 no"), ("deny", 1, "0 yes, 1 no")] {
        let Some(lab) = asking(agent) else { return };
        answering(&lab, |id| lab.env.norma(&[verb, id, "--reason", "as I say"])).exits(exit);
        let env = alone(lab);
        let asked = env.json(&["approvals", "--all"]);
        let report = env.json(&["replay", "@last", "--recorded"])["report"].take();
        assert_eq!(report["status"], "pass", "{report:#}");
        let step = &report["recorded"][0];
        assert_eq!((&step["how"], &step["result"]), (&json!("agent_again"), &json!("same")), "{step:#}");
        let told = format!("it asked whether it may, and was told as on record: {note}");
        assert!(step["notes"].as_array().unwrap().contains(&json!(told)), "{step:#}");
        assert_eq!(env.json(&["approvals", "--all"]), asked, "a person was asked again");
    }
}

fn another_program_is_found_out_and_none_is_said(agent: Agent) {
    let Some(lab) = worker(agent) else { return };
    let bin = lab.env.dir.join(agent.name());
    lab.configure(|config| {
        let configured = &mut config["agents"][agent.name()]["bin"];
        std::os::unix::fs::symlink(configured.as_str().unwrap(), &bin).unwrap();
        *configured = json!(bin);
    });
    work(&lab, agent);
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

/// A plan by a real agent; everything else by a program of which nothing is recorded.
fn a_role_of_a_loop_works_again_beside_programs_that_do_not(agent: Agent) {
    let Some(lab) = lab(&[agent], answer(&json!({"plan_md": "# make it loud\n"})).to_vec()) else { return };
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
    let env = alone(lab);
    let sealed = files(&run);
    let report = env.json(&["replay", "@last", "--recorded"])["report"].take();
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
