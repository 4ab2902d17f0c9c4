//! Many runs under one owner: what other terminals ask for is carried out by the norma that came first, and is watched,
//! stopped and landed as if each had been alone.

use crate::batches::{item, with_worker};
use crate::environment::{Running, TestEnvironment, eventually};
use crate::terminals::waiting_run;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::{Layout, Reader};

/// How many runs are under way at once.
const RUNS: usize = 10;

/// An environment whose worker waits for `go-ID` of the test, and then makes a file of its item's name.
fn with_patient_worker() -> TestEnvironment {
    let env = with_worker("");
    let script = format!(
        "touch '{0}'/started-$id; until test -e '{0}'/go-$id || test -e '{0}'/go; do sleep 0.02; done\ntest $id = wide && dir=src/ || dir=\necho $id > $dir$id.txt\n",
        env.dir.display()
    );
    env.write("agents/do.sh", &script);
    env.commit("a patient worker");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        config["sandbox"] = json!({"backend": "none"});
    });
    env
}

/// Starts the run of one item of this name, and waits until its agent is at work.
fn start(env: &TestEnvironment, id: &str) -> Running {
    let file = format!("{id}.json");
    std::fs::write(env.dir.join(&file), Value::from(vec![item(id, json!({}))]).to_string()).unwrap();
    let running = env.spawn(&["batch", &env.at(&file)]);
    env.wait_for(&format!("started-{id}"));
    running
}

fn statuses(env: &TestEnvironment) -> Vec<String> {
    let runs = env.json(&["runs"]);
    runs.as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_second_run_is_carried_out_by_the_first_norma_and_watched_where_it_was_asked_for() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["task", "add", "the second"]).success();
    let first = waiting_run(&env, &["run", "1"]);
    let refused = env.norma(&["run", "2", "--no-wait"]);
    insta::assert_snapshot!(refused, @"
    ! error: `norma run 1` (pid <pid>, since <time>) is at work here
    ! next: without --no-wait, norma has it do this as well, or waits for it
    [exit 4]
    ");
    std::fs::remove_file(env.at("started")).unwrap();
    let second = env.spawn(&["run", "2"]);
    env.wait_for("started");
    assert_eq!(statuses(&env), ["running", "running"]);
    // From their next turns on there is nothing to repair, so neither is in the other's way.
    env.script(json!({}));
    env.touch("go");
    let (first, second) = (first.wait(), second.wait());
    first.success();
    insta::assert_snapshot!(second, @"
    run <run> · base main <hash> · sandbox none
    goal: the second
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 1 · nothing changed
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run>
    ! carried out by `norma run 1` (pid <pid>, since <time>)
    [exit 0]
    ");
    assert_eq!(statuses(&env), ["succeeded", "succeeded"]);
    env.norma(&["verify", "--all"]).success();
}

#[test]
fn an_interrupt_in_the_second_terminal_pauses_its_run_alone() {
    let env = with_patient_worker();
    let first = start(&env, "a");
    let second = start(&env, "b");
    second.signal("INT");
    let output = second.wait();
    output.exits(130);
    assert!(output.raw.contains("paused: interrupted"), "{}", output.raw);
    assert_eq!(statuses(&env), ["paused", "running"]);
    env.touch("go");
    first.wait().success();
    env.norma(&["resume", "@last"]).success();
    assert_eq!(statuses(&env), ["succeeded", "succeeded"]);
    assert_eq!((env.read("a.txt"), env.read("b.txt")), ("a\n".to_owned(), "b\n".to_owned()));
}

#[test]
fn an_owner_stays_for_what_others_gave_it_and_an_interrupt_then_pauses_that() {
    let env = with_patient_worker();
    let first = start(&env, "a");
    let second = start(&env, "b");
    env.touch("go-a");
    eventually("the first says that it stays", || {
        first.stderr().contains("staying for what other terminals asked for")
    });
    assert_eq!(statuses(&env), ["running", "succeeded"]);
    first.signal("INT");
    first.wait().success();
    second.wait().exits(130);
    assert_eq!(statuses(&env), ["paused", "succeeded"]);
    env.touch("go");
    env.norma(&["resume", "--all"]).success();
    assert_eq!(env.read("b.txt"), "b\n");
}

#[test]
fn a_run_is_canceled_by_its_name_and_the_others_go_on() {
    let env = with_patient_worker();
    let (first, second) = (start(&env, "a"), start(&env, "b"));
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    env.norma(&["cancel", &slug]).success();
    second.wait().exits(1);
    assert_eq!(statuses(&env), ["canceled", "running"]);
    env.touch("go");
    first.wait().success();
}

#[test]
fn ten_runs_on_one_base_all_land() {
    let env = with_patient_worker();
    let base = env.git(&["rev-parse", "HEAD"]);
    let running: Vec<Running> = (0..RUNS).map(|n| start(&env, &format!("i{n}"))).collect();
    env.touch("go");
    for running in running {
        running.wait().success();
    }
    assert_eq!(statuses(&env), vec!["succeeded"; RUNS]);
    let runs = env.json(&["runs"]);
    for run in runs.as_array().unwrap() {
        assert_eq!(run["base"].as_str().unwrap(), base.trim());
        assert_eq!(run["landing"]["checkout"], true, "{run}");
    }
    let files: BTreeSet<String> = (0..RUNS).map(|n| format!("i{n}.txt")).collect();
    let tracked: BTreeSet<String> = env.git(&["ls-tree", "--name-only", "HEAD"]).lines().map(str::to_owned).collect();
    assert!(tracked.is_superset(&files), "{tracked:?}");
    assert_eq!(env.git(&["status", "--porcelain", "-uno"]), "");
    env.norma(&["verify", "--all"]).success();
}

#[test]
fn ten_runs_whose_owner_is_killed_come_to_their_end_once() {
    let env = with_patient_worker();
    let mut running: Vec<Running> = (0..RUNS).map(|n| start(&env, &format!("i{n}"))).collect();
    // Some have ended when it happens, and some have not.
    env.touch("go-i3");
    env.touch("go-i7");
    eventually("two have landed", || statuses(&env).iter().filter(|status| *status == "succeeded").count() == 2);
    running[0].signal("KILL");
    running.remove(0).wait();
    for watching in running {
        let output = watching.wait();
        let ended = output.code().unwrap();
        assert!(ended == 0 || ended == 130 && output.raw_err.contains("is gone"), "{ended}: {}", output.raw_err);
    }
    env.touch("go");
    env.norma(&["resume", "--all"]).success();
    assert_eq!(statuses(&env), vec!["succeeded"; RUNS]);
    let subjects = env.git(&["log", "--format=%s"]);
    for n in 0..RUNS {
        assert_eq!(subjects.lines().filter(|line| *line == format!("do i{n}")).count(), 1, "{subjects}");
        assert_eq!(env.read(&format!("i{n}.txt")), format!("i{n}\n"));
    }
    env.norma(&["verify", "--all"]).success();
}

#[test]
fn the_runs_of_an_owner_that_was_killed_are_shown_as_interrupted_before_anybody_records_it() {
    let env = with_patient_worker();
    let (first, second) = (start(&env, "a"), start(&env, "b"));
    assert_eq!(statuses(&env), ["running", "running"]);
    first.signal("KILL");
    drop((first.wait(), second.wait()));
    let recorded = || Reader::open(&Layout::new(&env.root, None)).unwrap().runs(None).unwrap();
    assert_eq!(statuses(&env), ["paused", "paused"]);
    let runs = env.json(&["runs"]);
    for run in runs.as_array().unwrap() {
        let shown = env.json(&["show", run["run_id"].as_str().unwrap()]);
        assert_eq!((&shown["status"], &shown["reason"]), (&json!("paused"), &json!("interrupted")));
    }
    assert!(recorded().iter().all(|run| run.status == contract::Status::Running), "readers write nothing");
    // Whoever writes next takes away what the dead one had locked.
    env.norma(&["task", "add", "something"]).success();
    assert!(recorded().iter().all(|run| run.status == contract::Status::Paused));
    let locks = std::fs::read_dir(env.root.join(".norma/locks")).unwrap();
    let names: BTreeSet<String> = locks.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name == "run.lock" || name == "paths.lock"), "{names:?}");
}

#[test]
fn a_run_that_waits_for_a_yes_goes_on_by_itself_while_its_norma_is_there() {
    let env = with_patient_worker();
    env.with_most_in_src();
    let first = start(&env, "a");
    let wide = json!({"allowed_paths": ["src"]});
    std::fs::write(env.dir.join("wide.json"), Value::from(vec![item("wide", wide)]).to_string()).unwrap();
    let second = env.norma(&["batch", &env.at("wide.json")]);
    second.exits(3);
    let asked = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    let granted = env.norma(&["approve", &asked]);
    granted.success();
    assert!(granted.raw.contains("continues"), "{}", granted.raw);
    env.wait_for("started-wide");
    env.touch("go");
    first.wait().success();
    assert_eq!(statuses(&env), ["succeeded", "succeeded"]);
    assert_eq!(env.read("src/wide.txt"), "wide\n");
}

#[test]
fn a_run_in_which_norma_itself_fails_is_the_only_one() {
    let mut env = with_patient_worker();
    // The second agent that is done finds norma failing.
    env.env.insert("NORMA_CRASH_POINT".to_owned(), "panic:step.after_agent:2".to_owned());
    let first = start(&env, "a");
    let (second, third) = (start(&env, "b"), start(&env, "c"));
    env.touch("go-a");
    eventually("the first has landed", || statuses(&env)[2] == "succeeded");
    env.touch("go-b");
    let failed = second.wait();
    failed.exits(4);
    assert!(failed.raw_err.contains("norma failed: a test has norma go wrong"), "{}", failed.raw_err);
    eventually("what it failed in is in order", || statuses(&env) == ["running", "paused", "succeeded"]);
    env.touch("go-c");
    third.wait().success();
    first.wait().success();
    env.env.remove("NORMA_CRASH_POINT");
    env.norma(&["resume", "--all"]).success();
    assert_eq!(statuses(&env), vec!["succeeded"; 3]);
    assert_eq!(env.read("b.txt"), "b\n");
    env.norma(&["verify", "--all"]).success();
}

#[test]
fn an_owner_whose_own_run_fails_stays_for_the_others() {
    let mut env = with_patient_worker();
    env.env.insert("NORMA_CRASH_POINT".to_owned(), "panic:step.after_agent".to_owned());
    let first = start(&env, "a");
    let second = start(&env, "b");
    env.touch("go-a");
    eventually("the first says that it stays", || first.stderr().contains("staying for"));
    env.touch("go-b");
    second.wait().success();
    first.wait().exits(4);
    assert_eq!(statuses(&env), ["succeeded", "paused"]);
}

#[test]
fn whoever_follows_the_events_of_a_run_reads_its_log() {
    let env = with_patient_worker();
    let (first, second) = (start(&env, "a"), start(&env, "b"));
    let following = env.spawn(&["events", "@last", "--follow", "--json"]);
    env.touch("go");
    let told = following.wait();
    told.success();
    first.wait().success();
    second.wait().success();
    let logged = env.norma(&["events", "@last", "--json"]);
    let lines: Vec<&str> = told.raw.lines().filter(|line| !line.starts_with(r#"{"uncommitted""#)).collect();
    assert_eq!(lines, logged.raw.lines().collect::<Vec<_>>());
}

/// Writes a file with these items beside the repository, and answers its path.
fn items(env: &TestEnvironment, name: &str, items: &[Value]) -> String {
    std::fs::write(env.dir.join(name), Value::from(items.to_vec()).to_string()).unwrap();
    env.at(name)
}

#[test]
fn items_are_added_to_a_batch_that_is_under_way() {
    let env = with_patient_worker();
    env.with_most_in_src();
    let first = start(&env, "a");
    let contract = env.event("run_started")["contract_digest"].clone();
    let more = items(&env, "more.json", &[item("b", json!({"dependencies": ["a"]})), item("c", json!({}))]);
    let added = env.json(&["batch", &more, "--into", "@last"]);
    assert_eq!(added["added"], json!(["b", "c"]));
    assert_ne!(added["contract"], contract);
    // What is there already, what nobody has, and what a person has to approve is not added, and nothing of it is.
    let twice = items(&env, "twice.json", &[item("d", json!({})), item("a", json!({}))]);
    env.norma(&["batch", &twice, "--into", "@last"]).exits(2);
    let wide = items(&env, "wide.json", &[item("e", json!({"allowed_paths": ["src"]}))]);
    let refused = env.norma(&["batch", &wide, "--into", "@last"]);
    assert!(refused.exits(1).raw_err.contains("need an approval"), "{}", refused.raw_err);
    env.touch("go");
    first.wait().success();
    assert_eq!((env.read("a.txt"), env.read("b.txt"), env.read("c.txt")), ("a\n".into(), "b\n".into(), "c\n".into()));
    assert!(!env.root.join("d.txt").exists() && !env.root.join("e.txt").exists());
    let receipt: Value =
        serde_json::from_slice(&std::fs::read(env.run_dir().join("receipts/BATCH_RECEIPT.json")).unwrap()).unwrap();
    assert!(receipt.to_string().contains(added["contract"].as_str().unwrap()), "{receipt}");
    let late = items(&env, "late.json", &[item("f", json!({}))]);
    env.norma(&["batch", &late, "--into", "@last"]).exits(1);
    for verb in ["verify", "replay"] {
        env.norma(&[verb, "@last"]).success();
    }
    crate::receipts::verifies_elsewhere(&env);
}

#[test]
fn items_that_are_added_to_a_paused_batch_are_done_when_it_goes_on() {
    let env = with_patient_worker();
    let first = start(&env, "a");
    first.signal("INT");
    first.wait().exits(130);
    let more = items(&env, "more.json", &[item("b", json!({"dependencies": ["a"]}))]);
    let added = env.norma(&["batch", &more, "--into", "@last"]);
    assert!(added.success().raw.contains("norma resume"), "{}", added.raw);
    env.touch("go");
    env.norma(&["resume", "@last"]).success();
    assert_eq!((env.read("a.txt"), env.read("b.txt")), ("a\n".to_owned(), "b\n".to_owned()));
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn items_whose_adding_was_cut_off_are_not_there() {
    let mut env = with_patient_worker();
    let first = start(&env, "a");
    first.signal("INT");
    first.wait().exits(130);
    let more = items(&env, "more.json", &[item("b", json!({}))]);
    // Before and after the document is in its place, and both times before anything is on record.
    for visit in ["1", "2"] {
        env.env.insert("NORMA_CRASH_POINT".to_owned(), format!("run.before_start:{visit}"));
        assert_eq!(env.norma(&["batch", &more, "--into", "@last"]).code(), None);
    }
    env.env.remove("NORMA_CRASH_POINT");
    env.touch("go");
    env.norma(&["resume", "@last"]).success();
    assert!(!env.root.join("b.txt").exists());
    env.norma(&["verify", "@last"]).success();
}
