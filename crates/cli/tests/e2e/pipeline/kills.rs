//! Pipelines whose norma is killed at a moment that a seed chooses, and resumed: each comes to the same end as one that nobody
//! killed, and nothing is done twice. `NORMA_SOAK` kills each of them twenty times (`cargo xtask soak pipeline`).

use super::fixes::SECOND_TRY;
use super::world::{ALL, WORKER, all_but, column, holds, pipeline, shown, world};
use crate::environment::TestEnvironment;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A worker that writes where it may not.
const OUTSIDE: &str =
    r#"put("src/other.txt", "mine\n"); put("src/a.txt", "done\n"); put("src/b.txt", "done\n"); say()"#;

/// A worker that asks a host which is not allowed.
const ELSEWHERE: &str = r#"
import socket
try:
    socket.create_connection(("192.0.2.1", 443), 1)
    sys.exit("it got out")
except OSError: pass
for path in q["contract"]["scope"]["allowed_paths"]: put(path, "done\n")
say()"#;

fn kills() -> u64 {
    if std::env::var_os("NORMA_SOAK").is_some() { 20 } else { 2 }
}

/// How a pipeline ended, in what cannot depend on when somebody was killed.
fn ending(env: &TestEnvironment) -> Vec<Value> {
    let view = shown(env);
    let sorted = |list: &str, member: &str| {
        let mut values = column(&view, list, member);
        values.sort();
        Value::from(values)
    };
    let landed = ["a", "b"].map(|name| env.git(&["show", &format!("HEAD:src/{name}.txt")]));
    vec![
        view["status"].clone(),
        view["reason"].clone(),
        sorted("contracts", "task_id"),
        sorted("contracts", "status"),
        sorted("reviews", "verdict"),
        sorted("fixes", "task_id"),
        sorted("fixes", "status"),
        Value::from(landed.to_vec()),
    ]
}

/// How many events the only run has by now.
fn events(env: &TestEnvironment) -> usize {
    let runs = std::fs::read_dir(env.root.join(".norma/runs")).into_iter().flatten().flatten();
    let logs = runs.filter_map(|run| std::fs::read(run.path().join("events.jsonl")).ok());
    logs.map(|log| log.iter().filter(|byte| **byte == b'\n').count()).max().unwrap_or(0)
}

#[track_caller]
fn comes_to_the_same_end(agents: &[(&str, &str)]) {
    comes_to_the_same_end_in(|| world(agents));
}

/// The same in repositories that are made like this.
#[track_caller]
pub(super) fn comes_to_the_same_end_in(world: impl Fn() -> TestEnvironment) {
    let undisturbed = world();
    pipeline(&undisturbed);
    let (expected, length) = (ending(&undisturbed), events(&undisturbed));
    holds(&undisturbed);
    for seed in 0..kills() {
        let moment = moment(seed, length);
        let env = world();
        killed_after(&env, &["pipeline", "both files say done", "--yes"], moment);
        assert_eq!(ending(&env), expected, "killed after event {moment} of {length}");
        holds(&env);
    }
}

/// After which event of so many a kill comes. Knuth's multiplicative hash: spread over the whole run, and the same every time.
pub(crate) fn moment(seed: u64, length: usize) -> usize {
    1 + (seed.wrapping_add(1).wrapping_mul(2_654_435_761) >> 7) as usize % (length - 1)
}

/// Starts a run, kills norma after so many of its events, and has it come to its end.
pub(crate) fn killed_after(env: &TestEnvironment, start: &[&str], moment: usize) {
    let running = env.spawn(start);
    let patience = Instant::now() + Duration::from_secs(120);
    while events(env) < moment && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    running.signal("KILL");
    drop(running.wait());
    // Killed before it began, it is begun again; killed after its end, there is nothing to resume.
    if env.json(&["runs"]).as_array().is_some_and(Vec::is_empty) {
        env.norma(start);
    } else {
        env.norma(&["resume", "@last"]);
    }
}

#[test]
fn one_in_which_all_goes_well() {
    comes_to_the_same_end(&ALL);
}

#[test]
fn one_that_is_fixed_on_the_second_try() {
    comes_to_the_same_end(&all_but("worker", SECOND_TRY));
}

#[test]
fn one_whose_worker_writes_where_it_may_not() {
    comes_to_the_same_end(&all_but("worker", OUTSIDE));
}

#[test]
fn one_whose_worker_asks_a_host_that_is_not_allowed() {
    comes_to_the_same_end(&all_but("worker", ELSEWHERE));
}

/// What was replayed after a kill is replayed to the end by the next one, and changes nothing.
#[test]
fn a_replay_that_is_killed_leaves_the_run_as_it_was() {
    let env = world(&all_but("worker", WORKER));
    pipeline(&env).success();
    let before = (ending(&env), events(&env));
    for moment in 0..kills() {
        let running = env.spawn(&["replay", "@last"]);
        std::thread::sleep(Duration::from_millis(moment * 37));
        running.signal("KILL");
        drop(running.wait());
    }
    assert_eq!((ending(&env), events(&env)), before);
    holds(&env);
}

/// Two in one repository, at once, on files of their own: one owns the state directory, the other waits for it or is handed over,
/// and both land.
#[test]
fn two_at_once_both_land() {
    let pm = r#"
name = "a" if "first" in q["goal"] else "b"
say({"spec": q["goal"], "allowed_paths": ["src/%s.txt" % name], "acceptance_tests": test("grep -q done src/%s.txt" % name)})"#;
    let agents = [("pm", pm), ("worker", WORKER), ("reviewer", "passes()")];
    let env = world(&agents);
    let both = ["the first file says done", "the second file says done"]
        .map(|sentence| env.spawn(&["pipeline", sentence, "--yes"]));
    for running in both {
        running.wait().success();
    }
    assert_eq!(["a", "b"].map(|name| env.git(&["show", &format!("HEAD:src/{name}.txt")])), ["done", "done"]);
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 2);
    for run in env.json(&["runs"]).as_array().unwrap() {
        env.norma(&["verify", run["run_id"].as_str().unwrap()]).success();
    }
}
