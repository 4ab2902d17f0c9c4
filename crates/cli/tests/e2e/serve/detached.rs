//! Runs that are handed over: `--detach`, leaving one at the terminal, and watching what others carry out.

use crate::batches::{item, with_worker};
use crate::environment::{TestEnvironment, eventually};
use crate::progress::{CTRL_C, Terminal};
use crate::terminals::waiting_run;
use serde_json::{Value, json};

/// Ends the server that a test started, however the test ends.
struct Ended<'e>(&'e TestEnvironment);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.norma(&["serve", "--stop"]);
    }
}

fn status(env: &TestEnvironment, run: &Value) -> Value {
    env.json(&["show", run.as_str().unwrap()])["status"].clone()
}

#[test]
fn a_run_that_is_handed_over_is_carried_out_by_a_server_that_is_started_for_it() {
    let env = with_worker("sleep 1; echo $id > src/$id.txt");
    let _ended = Ended(&env);
    let sentence = ["run", "write src/goal.txt please", "--agent", "worker", "--allow", "src/goal.txt", "--yes"];
    let output = env.norma(&[&sentence[..], &["--detach"]].concat());
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    let said = output.success().out();
    assert!(said.contains("serve --port 0") && said.contains("follow: norma watch"), "{output}");
    assert!(said.contains("norma open"), "{output}");
    assert!(output.err().contains("end it: norma serve --stop"), "{output}");
    // The second is handed to the same server, and so is a batch.
    env.write("items.json", &json!([item("one", json!({"allowed_paths": ["src/one.txt"]}))]).to_string());
    let batch = env.json(&["batch", "items.json", "--detach"]);
    let pid: u32 = env.read(".norma/server.pid").trim().parse().unwrap();
    assert_eq!((&batch["owner"], &batch["needs_approval"]), (&json!(pid), &json!(false)));
    assert!(batch["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{batch}");
    for run in [&json!(slug), &batch["run_id"]] {
        env.norma(&["watch", run.as_str().unwrap()]).success();
        assert_eq!(status(&env, run), "succeeded");
    }
    assert_eq!((env.read("src/goal.txt").trim(), env.read("src/one.txt").trim()), ("goal", "one"));
}

#[test]
fn a_run_is_handed_to_the_norma_that_is_at_work() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["task", "add", "second"]).success();
    let first = waiting_run(&env, &["run", "1"]);
    let second = env.json(&["run", "2", "--detach"]);
    assert_eq!((&second["owner"], &second["url"]), (&json!(first.pid()), &Value::Null));
    env.touch("go");
    first.wait().success();
    assert_eq!(status(&env, &second["run_id"]), "succeeded");
    assert!(!env.root.join(".norma/server.pid").exists());
}

#[test]
fn what_needs_approval_is_handed_over_and_waits() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    let _ended = Ended(&env);
    let output = env.norma(&["run", "--goal", "make it new", "--agent", "worker", "--allow", "src", "--detach"]);
    output.exits(3);
    assert!(output.out().contains("it needs your approval: norma approvals"), "{output}");
    eventually("it waits", || env.last()["status"] == "waiting");
    let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    env.norma(&["approve", &id]).success();
    eventually("it has been carried out", || env.last()["status"] == "succeeded");
}

#[test]
fn a_flag_that_means_nothing_there_is_refused() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "--detach"]).exits(2);
    env.norma(&["run", "1", "--detach", "--no-wait"]).exits(2);
    env.norma(&["batch", "items.json", "--into", "@last", "--detach"]).exits(2);
    assert!(!env.root.join(".norma/server.pid").exists());
}

#[test]
fn ctrl_c_offers_to_leave_a_run_that_a_server_carries_out() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({
        "do": [[
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]],
    }));
    env.json(&["serve", "--background", "--port", "0"]);
    let _ended = Ended(&env);
    let mut terminal = Terminal::start(&env, "xterm", &["run", "1"]);
    env.wait_for("started");
    terminal.type_key(CTRL_C);
    terminal.shows("d detach");
    terminal.type_key("d");
    assert!(terminal.exits(0).contains("the run continues; watch it: norma watch"));
    assert_eq!(env.last()["status"], "running");
    env.touch("go");
    eventually("the server brings it to its end", || env.last()["status"] == "succeeded");
}

#[test]
fn whoever_watches_at_a_terminal_sees_every_run_and_answers_what_one_needs() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    env.json(&["serve", "--background", "--port", "0"]);
    let _ended = Ended(&env);
    let goal = ["run", "--goal", "make it new", "--agent", "worker", "--allow", "src", "--detach"];
    env.norma(&goal).exits(3);
    eventually("it waits", || env.last()["status"] == "waiting");
    let mut terminal = Terminal::start(&env, "xterm", &["watch"]);
    terminal.shows("make it new");
    // Only what changes is drawn, so what the keys lead to is looked for where it counts.
    eventually("it is shown and approved by keys alone", || {
        terminal.type_key("a");
        env.last()["status"] == "succeeded"
    });
    terminal.type_key("q");
    let shown = terminal.exits(0);
    assert!(shown.contains("\u{1b}[?1049h") && shown.contains("\u{1b}[?1049l"), "the screen is given back: {shown:?}");
    assert_eq!(env.last()["status"], "succeeded");
    // One run is watched until it has ended, and its end is said where it stays.
    let shown = Terminal::start(&env, "xterm", &["watch", "@last"]).exits(0);
    assert!(shown.rsplit("\u{1b}[?1049l").next().unwrap().contains("succeeded"), "{shown:?}");
    // Lines, where nothing can be drawn over.
    let shown = Terminal::start(&env, "dumb", &["watch", "@last"]).exits(0);
    assert!(shown.contains("run_passed") && !shown.contains('\u{1b}'), "{shown:?}");
}
