//! What people see while a run goes on, at a terminal and elsewhere, and what Ctrl-C does there.

use crate::batches::{item, with_worker};
use crate::environment::{TestEnvironment, eventually};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// norma at a terminal of its own, which the test types into and reads.
pub(crate) struct Terminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn start(env: &TestEnvironment, term: &str, args: &[&str]) -> Terminal {
        let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
        let typed = format!("stty cols 100 rows 24; exec '{}' {}", env!("CARGO_BIN_EXE_norma"), words.join(" "));
        let mut script = Command::new("script");
        script.args(["-qec", &typed, "/dev/null"]).current_dir(&env.root).env_clear().envs(&env.env).env("TERM", term);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let shown: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (mut output, kept) = (child.stdout.take().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { child, shown }
    }

    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        eventually(&format!("{text:?} is shown in {:?}", self.shown()), || self.shown().contains(text));
    }

    pub(crate) fn type_key(&mut self, key: &str) {
        self.child.stdin.as_mut().unwrap().write_all(key.as_bytes()).unwrap();
    }

    pub(crate) fn exits(mut self, code: i32) -> String {
        let mut status = None;
        eventually("norma has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let shown = self.shown();
        assert_eq!(status.unwrap().code(), Some(code), "{shown}");
        shown
    }
}

pub(crate) const CTRL_C: &str = "\u{3}";

/// A run of the loop whose second turn waits for the test.
fn waiting(term: &str) -> (TestEnvironment, Terminal) {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({
        "do": [[
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]],
    }));
    let terminal = Terminal::start(&env, term, &["run", "1"]);
    env.wait_for("started");
    (env, terminal)
}

#[test]
fn ctrl_c_at_a_terminal_asks_and_a_key_answers() {
    let (env, mut terminal) = waiting("xterm");
    terminal.shows("  2 do");
    terminal.type_key(CTRL_C);
    terminal.shows("p pause · c cancel · any other key continues; Ctrl-C again pauses");
    // Anything else lets it go on, and it can be asked again.
    terminal.type_key("x");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(env.last()["status"], "running");
    terminal.type_key(CTRL_C);
    eventually("it asks again", || terminal.shown().matches("p pause").count() >= 2);
    terminal.type_key("c");
    let shown = terminal.exits(1);
    assert!(shown.contains("canceled"), "{shown}");
    assert_eq!(env.last()["status"], "canceled");
}

#[test]
fn a_second_ctrl_c_pauses_at_once() {
    let (env, mut terminal) = waiting("xterm");
    terminal.type_key(CTRL_C);
    terminal.shows("p pause");
    terminal.type_key(CTRL_C);
    let shown = terminal.exits(130);
    assert!(shown.contains("next: norma resume"), "{shown}");
    assert_eq!((&env.last()["status"], &env.last()["reason"]), (&json!("paused"), &json!("interrupted")));
    env.touch("go");
    env.norma(&["resume", "@last"]).success();
}

#[test]
fn who_watches_a_run_of_another_process_can_leave_it() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["task", "add", "second"]).success();
    let first = crate::terminals::waiting_run(&env, &["run", "1"]);
    std::fs::remove_file(env.dir.join("started")).unwrap();
    let mut terminal = Terminal::start(&env, "xterm", &["run", "2"]);
    env.wait_for("started");
    terminal.type_key(CTRL_C);
    terminal.shows("d detach");
    terminal.type_key("d");
    let shown = terminal.exits(0);
    assert!(shown.contains("the run continues; watch it: norma watch"), "{shown}");
    env.touch("go");
    first.wait().success();
    let runs = env.json(&["runs"]);
    assert!(runs.as_array().unwrap().iter().all(|run| run["status"] == "succeeded"), "{runs}");
}

#[test]
fn a_terminal_that_knows_no_escapes_gets_none() {
    for term in ["dumb", ""] {
        let (env, mut terminal) = waiting(term);
        terminal.type_key(CTRL_C);
        terminal.shows("p pause");
        terminal.type_key("p");
        let shown = terminal.exits(130);
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert!(shown.contains("1 plan  ok"), "{shown}");
        assert_eq!(env.last()["status"], "paused");
    }
}

#[test]
fn a_line_that_goes_on_shows_its_time_and_is_gone_when_it_is_over() {
    let (env, terminal) = waiting("xterm");
    terminal.shows("  2 do … ");
    env.touch("go");
    let shown = terminal.exits(0);
    assert!(shown.contains("\r\u{1b}[2K"), "what was drawn is taken away: {shown:?}");
    // What stays is what anybody gets who has no terminal.
    assert!(shown.contains("  2 do    "), "{shown}");
}

#[test]
fn tests_are_told_with_their_number_and_items_by_their_names() {
    let env = with_worker("echo $id > src/$id.txt");
    env.write("t.sh", "exit 0\n");
    env.commit("a test");
    let with_tests = |id: &str, needs: &[&str]| {
        item(
            id,
            json!({"allowed_paths": [format!("src/{id}.txt")], "test_commands": ["sh t.sh", "test -d src"], "dependencies": needs}),
        )
    };
    env.write("items.json", &Value::from(vec![with_tests("a", &[]), with_tests("b", &["a"])]).to_string());
    let output = env.norma(&["batch", "items.json", "--jobs", "1"]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: 2 work items
    your uncommitted files stay yours and are not part of the run: items.json
      1 worker ok  <took>  a: did it
              test 1 of 2 passed  <took>  a: sh t.sh
              test 2 of 2 passed  <took>  a: test -d src
              a success: +1 ~0 -0 files · <hash>
      2 worker ok  <took>  b: did it
              test 1 of 2 passed  <took>  b: sh t.sh
              test 2 of 2 passed  <took>  b: test -d src
              b success: +1 ~0 -0 files · <hash>
    2 of 2 items succeeded · landed main <hash>→<hash>
    2 files changed, +2 −0
      src/a.txt  +1 −0
      src/b.txt  +1 −0
    tests passed
    receipts: 2, listed by norma show <run> --json
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
}

/// Says two lines in three pieces, uses a tool, and counts what that took.
const TALKING: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":'"$1"'}}'; }
words() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
read -r hello
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"mine","version":"7"}}}'
read -r new
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}'
read -r prompt
words 'I look at it.\nThen I '
words 'fix \u001b[31mit\u202e.\n'
update '{"sessionUpdate":"tool_call","toolCallId":"c-1","kind":"edit","title":"write made.txt","status":"in_progress"}'
echo made > made.txt
update '{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"completed"}'
words '{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\",\"files\":[],\"next_actions\":[],\"errors\":[]}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r more
"#;

#[test]
fn what_an_agent_says_is_shown_line_by_line_to_who_asks_for_it() {
    let env = TestEnvironment::initialized();
    env.write("agent.sh", TALKING);
    env.commit("an agent");
    env.configure(|config| config["agents"] = json!({"worker": {"type": "acp", "cmd": ["sh", "agent.sh"]}}));
    env.write("item.json", &json!({"id": "a", "agent_id": "worker", "description": "make it"}).to_string());
    let quiet = env.norma(&["run", "item.json"]);
    assert!(!quiet.success().raw.contains("I look at it"), "{quiet}");
    env.norma(&["undo"]).success();
    let output = env.norma(&["-v", "run", "item.json", "--new"]);
    assert!(output.success().raw.contains("        > I look at it.\n"), "{output}");
    assert!(output.raw.contains("        > Then I fix \\u{1b}[31mit\\u{202e}.\n"), "{output}");
    // `-v` is not norma's own log.
    assert_eq!(output.raw_err, "", "{output}");
    let logs = env.norma(&["logs"]);
    assert!(logs.raw.contains("== step 1: what its agent said\nI look at it.\n"), "{logs}");
}
