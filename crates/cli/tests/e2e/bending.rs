//! Agents that bend the tests they fail: whatever runs them, such a change waits for a person who is shown what it makes
//! of its tests, and lands only with an approval of exactly that. Honest changes that bring or adapt tests land.

use crate::batches::{batch, item, with_worker};
use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A repository with these files, whose worker runs a script.
fn repository(files: &[(&str, &str)], script: &str) -> TestEnvironment {
    let env = with_worker(script);
    for (path, content) in files {
        env.write(path, content);
    }
    env.commit("with tests");
    env
}

/// What a program prints on one line, if it is there and succeeds.
fn printed(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn contract(command: &str) -> Value {
    item("a", json!({"test_command": command}))
}

/// Carries out an item that has to wait for a person, and answers what is asked.
#[track_caller]
fn asked(env: &TestEnvironment, item: &Value) -> Value {
    let before = env.git(&["rev-parse", "HEAD"]);
    env.write("items.json", &json!([item]).to_string());
    let output = env.norma(&["batch", "items.json", "--json"]);
    output.exits(3);
    assert_eq!(env.git(&["rev-parse", "HEAD"]), before);
    let approvals = env.json(&["approvals"]);
    assert_eq!(approvals.as_array().map(Vec::len), Some(1), "{output}");
    approvals[0].clone()
}

/// Every way to bend tests under one runner waits for a person; an honest change does not.
#[track_caller]
fn check(files: &[(&str, &str)], command: &str, honest: &str, bends: &[(&str, &str)]) {
    check_with(&[], files, command, honest, bends);
}

/// The same with a runner that was installed in directories of its own; its programs are in `bin` of the first.
#[track_caller]
fn check_with(tools: &[&str], files: &[(&str, &str)], command: &str, honest: &str, bends: &[(&str, &str)]) {
    let repository = |script: &str| {
        let mut env = repository(files, script);
        if let Some(first) = tools.first() {
            env.find_first_in(&Path::new(first).join("bin"));
            env.configure(|config| {
                config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
                config["sandbox"]["read"] = json!(tools);
            });
        }
        env
    };
    for (bend, shown) in bends {
        let env = repository(bend);
        let asked = asked(&env, &contract(command));
        let reasons = asked["reasons"].to_string();
        assert!(reasons.contains(shown), "{command}: {bend}: {reasons}");
    }
    let env = repository(honest);
    let results = batch(&env, &[contract(command)], 0);
    assert_eq!(results[0]["status"], "success", "{command}: {honest}");
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_shell_test_cannot_be_bent() {
    let files = [
        ("check.sh", "for test in tests/*.sh; do sh \"$test\" || exit 1; done\n"),
        ("tests/answer.sh", "grep -q 42 answer\n"),
        ("tests/other.sh", "exit 0\n"),
        ("answer", "41\n"),
    ];
    let bends = [
        ("echo 'exit 0' > tests/answer.sh", "-grep -q 42 answer"),
        ("rm tests/answer.sh", "removes tests/answer.sh"),
        ("echo 'exit 0' > check.sh", "edits check.sh"),
        ("mv tests/answer.sh tests/answer.txt", "removes tests/answer.sh"),
    ];
    check(&files, "sh check.sh", "echo 42 > answer; echo 'test -f answer' > tests/more.sh", &bends);
}

#[test]
fn a_make_target_cannot_be_bent() {
    if Command::new("make").arg("--version").output().is_err() {
        not_run::because("there is no make here");
        return;
    }
    let files = [("Makefile", "check:\n\tgrep -q 42 answer\n"), ("answer", "41\n")];
    let bends = [("printf 'check:\\n\\ttrue\\n' > Makefile", "edits Makefile")];
    check(&files, "make check", "echo 42 > answer; printf '# more\\n' >> Makefile", &bends);
}

#[test]
fn a_node_test_cannot_be_bent() {
    if Command::new("node").arg("--version").output().is_err() {
        not_run::because("there is no node here");
        return;
    }
    let test = "const {test} = require('node:test');\nconst {equal} = require('node:assert');\ntest('answer', () => equal(require('../answer.js'), 42));\n";
    let files = [("answer.js", "module.exports = 41;\n"), ("test/answer.test.js", test)];
    let bends = [
        ("sed -i 's/42/41/' test/answer.test.js", "+test('answer', () => equal(require('../answer.js'), 41));"),
        ("sed -i \"s/^test(/test.skip(/\" test/answer.test.js", "+test.skip("),
    ];
    let honest = "echo 'module.exports = 42;' > answer.js; sed 's/answer/again/' test/answer.test.js | sed 's,../again,../answer,' > test/again.test.js";
    check(&files, "node --test test/", honest, &bends);
}

#[test]
fn a_cargo_test_cannot_be_bent() {
    let files = [
        ("Cargo.toml", "[package]\nname = \"answer\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"answer\"\nversion = \"0.1.0\"\n"),
        (".gitignore", "target\n"),
        ("src/lib.rs", "pub fn answer() -> u32 {\n    41\n}\n"),
        ("tests/answer.rs", "#[test]\nfn answers() {\n    assert_eq!(answer::answer(), 42);\n}\n"),
    ];
    let honest = "sed -i s/41/42/ src/lib.rs; sed s/answers/again/ tests/answer.rs > tests/again.rs";
    let Some(root) = printed("rustc", &["--print", "sysroot"]) else {
        not_run::because("there is no rustc here");
        return;
    };
    let bends = [
        ("sed -i s/42/41/ tests/answer.rs", "+    assert_eq!(answer::answer(), 41);"),
        ("sed -i 's/^#.test.$/#[test]\\n#[ignore]/' tests/answer.rs", "+#[ignore]"),
        ("printf '[lib]\\n[[test]]\\nname = \"answer\"\\ntest = false\\n' >> Cargo.toml", "+test = false"),
    ];
    check_with(&[&root], &files, "cargo test --offline", honest, &bends);
}

#[test]
fn a_pytest_suite_cannot_be_bent() {
    let files = [
        ("answer.py", "def answer():\n    return 41\n"),
        ("tests/test_answer.py", "import answer\n\n\ndef test_answer():\n    assert answer.answer() == 42\n"),
    ];
    let honest = "sed -i s/41/42/ answer.py; printf 'def test_more():\\n    assert True\\n' > tests/test_more.py";
    let find = "import pytest, sys; print(sys.prefix, sys.base_prefix)";
    let Some(found) = printed("python3", &["-c", find]) else {
        not_run::because("there is no pytest here");
        return;
    };
    let swallow = "import pytest\\n@pytest.hookimpl(hookwrapper=True)\\ndef pytest_runtest_makereport(item, call):\\n    outcome = yield\\n    outcome.get_result().outcome = \"passed\"\\n";
    let bends = [
        ("sed -i 's/== 42/== 41/' tests/test_answer.py", "+    assert answer.answer() == 41"),
        ("sed -i 's/^def/import pytest\\n@pytest.mark.skip\\ndef/' tests/test_answer.py", "+@pytest.mark.skip"),
        (&format!("printf '{swallow}' > conftest.py"), "adds conftest.py"),
        ("printf '[pytest]\\naddopts = --co\\n' > pytest.ini", "adds pytest.ini"),
    ];
    let roots: Vec<&str> = found.split(' ').collect();
    check_with(&roots, &files, "python3 -m pytest -p no:cacheprovider", honest, &bends);
}

/// A repository whose test fails, and a worker that makes it pass by its own rules.
fn bent() -> TestEnvironment {
    repository(
        &[("check.sh", "sh tests/answer.sh\n"), ("tests/answer.sh", "grep -q 42 answer\n"), ("answer", "41\n")],
        "case $id in a) echo 'grep -q 43 answer' > tests/answer.sh; echo 43 > answer;; *) echo more > more-$id;; esac",
    )
}

#[test]
fn what_a_person_approves_of_a_bent_test_lands_with_the_approval_on_record() {
    let env = bent();
    let id = asked(&env, &contract("sh check.sh"))["id"].as_str().unwrap().to_owned();
    assert!(env.norma(&["diff", "@last"]).out().contains("+grep -q 43 answer"));
    // Nothing that was said before the change was there approves it.
    env.norma(&["batch", "items.json", "--yes-wide"]).exits(3);
    env.norma(&["approve", &id]).success();
    env.norma(&["resume", "@last"]).success();
    assert_eq!(env.read("tests/answer.sh"), "grep -q 43 answer\n");
    let run = env.last();
    let receipt = env.json(&["show", "@last"])["receipts"][0].clone();
    assert_eq!(run["status"], "succeeded", "{receipt}");
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
    env.norma(&["replay", "@last", "--reverify"]).success();
}

#[test]
fn what_a_person_denies_of_a_bent_test_is_dropped_and_the_other_items_land() {
    let env = bent();
    env.write("items.json", &json!([contract("sh check.sh"), item("b", json!({}))]).to_string());
    env.norma(&["batch", "items.json", "--jobs", "2"]).exits(3);
    let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    env.norma(&["deny", &id, "--reason", "42 is the answer"]).success();
    env.norma(&["batch", "items.json"]).exits(1);
    assert_eq!((env.read("tests/answer.sh").as_str(), env.read("more-b").as_str()), ("grep -q 42 answer\n", "more\n"));
    let ended: Vec<Value> = env.events().into_iter().filter(|event| event["type"] == "item_ended").collect();
    let ends: Vec<&str> = ended.iter().map(|event| event["payload"]["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["denied", "success"]);
    assert_eq!(ended[0]["payload"]["reason"], "approval_denied");
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_person_at_a_terminal_is_shown_the_bent_test_there() {
    let env = bent();
    env.write("items.json", &json!([contract("sh check.sh")]).to_string());
    let answered = |answer: &str| {
        let norma = env!("CARGO_BIN_EXE_norma");
        let typed = format!("echo {answer} | script -qec \"'{norma}' batch items.json\" /dev/null");
        env.output_of("sh", &["-c", &typed])
    };
    let refused = answered("n");
    assert!(refused.out().contains("-grep -q 42 answer"), "{refused}");
    assert_eq!(env.last()["status"], "waiting");
    env.norma(&["cancel", "@last"]).success();
    let ran = answered("y");
    assert!(ran.out().contains("landed"), "{ran}");
}

#[test]
fn tests_that_are_new_or_named_by_the_contract_as_its_goal_are_not_asked_about() {
    let env =
        repository(&[("answer", "41\n")], "mkdir -p tests; echo 'grep -q 42 answer' > tests/t.sh; echo 42 > answer");
    batch(&env, &[contract("sh tests/t.sh")], 0);
    let env = repository(&[("tests/data.txt", "old\n"), ("tests/t.sh", "exit 0\n")], "echo new > tests/data.txt");
    batch(&env, &[contract("grep -q new tests/data.txt")], 0);
    let mut own = contract("sh check.sh");
    own["tests_policy"] = json!("candidate");
    let env = bent();
    batch(&env, &[own], 0);
}
