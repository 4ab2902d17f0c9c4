//! `norma run "what I want"`: in a repository that never saw norma, with what is found wrong before an agent is paid.

use crate::environment::{Output, TestEnvironment};
use crate::real::{Agent, then_answer, write};
use scripted_model::{Options, Scripts, Server, agents};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const OWN: &str = "home/.config/norma/config.json";

/// A repository that norma never saw, of a user whose own configuration has an agent that does this in a shell.
pub(crate) fn unseen(script: &str) -> TestEnvironment {
    let env = TestEnvironment::unseen();
    for name in ["a", "b", "c", "d", "e"] {
        env.write(&format!("data/{name}.txt"), "x\n");
    }
    env.commit("more");
    own(&env, &json!({"agents": {"mine": worker(script)}}));
    env
}

fn worker(script: &str) -> Value {
    let answer = r#"{"version":1,"status":"ok","summary":"did it"}"#;
    json!({"type": "exec", "cmd": ["sh", "-c", format!("cat > /dev/null; {script}; echo '{answer}'")]})
}

/// Writes the user's own configuration.
fn own(env: &TestEnvironment, config: &Value) {
    let path = env.dir.join(OWN);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, config.to_string()).unwrap();
}

/// Every file below a directory, with its bytes.
fn bytes_below(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => drop(found.insert(path.display().to_string(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

/// Runs norma at a terminal at which these keys are typed.
fn at_a_terminal(env: &TestEnvironment, keys: &str, args: &str) -> Output {
    let norma = env!("CARGO_BIN_EXE_norma");
    let typed = format!("(sleep 1; printf '{keys}') | script -qec \"'{norma}' run {args}\" /dev/null");
    env.output_of("sh", &["-c", &typed])
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    output.exits(code);
    for word in words {
        assert!(output.to_string().contains(word), "{word}: {output}");
    }
}

#[test]
fn without_a_yes_the_contract_is_printed_and_nothing_is_written() {
    let env = unseen("echo more >> src/lib.txt");
    env.write("README.md", "mine\n");
    let (files, git) = (env.repository(), bytes_below(&env.root.join(".git")));
    let shown = env.norma(&["run", "add a line to src/lib.txt"]);
    shown.exits(3);
    for line in [
        "base       main ",
        "1 uncommitted file stays as it is",
        "agent      mine (your own program)",
        "may write  src/lib.txt (you named it)",
        "tests      none",
        "network    none",
        "time       at most 1h00m",
        "money      not counted",
    ] {
        assert!(shown.raw.contains(line), "{line}: {shown}");
    }
    let planned = env.norma(&["run", "add a line to src/lib.txt", "--json"]);
    planned.exits(3);
    let planned: Value = serde_json::from_str(&planned.raw).unwrap();
    assert_eq!(planned["contract"]["allowed_paths"], json!(["src/lib.txt"]));
    assert_eq!((&planned["contract"]["agent_id"], &planned["base"]["uncommitted"]), (&json!("mine"), &json!(1)));
    let role = &planned["role_contract_summary"];
    assert_eq!(role["execution_authority"], json!("task_contract"));
    assert_eq!(role["role_contract"]["identity"], json!({"role": "WORKER", "agent_id": "mine"}));
    assert!(!env.root.join(".norma").exists());
    assert_eq!((env.repository(), bytes_below(&env.root.join(".git"))), (files, git));
    // What was printed is a document that can be run.
    env.write("contract.json", &planned["contract"].to_string());
    env.norma(&["run", "contract.json"]).success();
    assert!(env.read("src/lib.txt").ends_with("more\n"));
}

#[test]
fn a_yes_lands_it_and_uncommitted_files_stay() {
    let env = unseen("echo more >> src/lib.txt");
    env.write("README.md", "mine\n");
    env.write("untracked", "mine\n");
    let status = env.git(&["status", "--porcelain"]);
    let ran = env.norma(&["run", "add a line to src/lib.txt", "--test", "grep -q more src/lib.txt", "--yes"]);
    ran.success();
    assert!(ran.to_string().contains("grep -q more src/lib.txt fails before anything is changed"), "{ran}");
    assert_eq!((env.git(&["status", "--porcelain"]), env.read("README.md").as_str()), (status, "mine\n"));
    assert!(env.read("src/lib.txt").ends_with("more\n"));
    assert_eq!(env.read(".norma/.gitignore"), "*\n");
    assert_eq!(env.git(&["for-each-ref", "refs/norma"]), "");
    env.norma(&["verify", "@last"]).success();
    env.norma(&["undo", "@last"]).success();
    // Somebody who asks for it has a state directory that is theirs to commit.
    env.norma(&["init"]).success();
    assert!(env.read(".norma/.gitignore").contains("!config.json"));
}

#[test]
fn a_run_that_is_denied_leaves_the_git_directory_as_it_was() {
    let env = unseen("echo more >> README.md");
    let (git, status) = (bytes_below(&env.root.join(".git")), env.git(&["status", "--porcelain"]));
    let ran = env.norma(&["run", "add a line to src/lib.txt", "--yes"]);
    refused(&ran, 1, &["README.md"]);
    assert_eq!((bytes_below(&env.root.join(".git")), env.git(&["status", "--porcelain"])), (git, status));
}

#[test]
fn untrusted_settings_of_the_repository_are_not_used_and_not_trusted() {
    let env = unseen("echo more >> src/lib.txt");
    let evil = json!({
        "agents": {"mine": worker("echo evil >> src/lib.txt")}, "budgets": {"max_iterations": 1},
        "sandbox": {"backend": "none"},
    });
    env.write(".norma/config.json", &evil.to_string());
    env.git(&["add", "--force", ".norma/config.json"]);
    env.git(&["commit", "--quiet", "--message", "settings"]);
    let ran = env.norma(&["run", "add a line to src/lib.txt", "--yes"]);
    ran.success();
    assert!(ran.to_string().contains(".norma/config.json not trusted, so not used"), "{ran}");
    assert!(env.read("src/lib.txt").ends_with("more\n"));
    assert_eq!(env.json(&["trust", "--show"])["trusted"], json!(false));
    env.norma(&["run", "1"]).exits(4);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn the_agent_is_named_chosen_once_or_said_how_to_install() {
    let env = unseen("echo more >> src/lib.txt");
    own(&env, &json!({}));
    let none = env.norma(&["run", "add a line", "--yes"]);
    refused(&none, 4, &["npm install -g @anthropic-ai/claude-code && claude auth login", "codex login"]);
    refused(&env.norma(&["run", "add a line", "--agent", "claude"]), 4, &["claude is not installed", "npm install -g"]);
    refused(
        &env.norma(&["run", "--goal", "x", "--agent", "claude"]),
        4,
        &["claude is not installed", "npm install -g"],
    );
    refused(&env.norma(&["run", "add a line", "--agent", "cluade"]), 2, &["did you mean claude?"]);
    assert!(!env.root.join(".norma").exists());
    own(&env, &json!({"agents": {"mine": worker("echo 1 >> src/lib.txt"), "other": worker("echo 2 >> src/lib.txt")}}));
    let several = env.norma(&["run", "add a line to src/lib.txt", "--yes"]);
    refused(&several, 3, &["mine, other", "--agent mine"]);
    env.norma(&["run", "add a line to src/lib.txt", "--yes", "--agent", "other"]).success();
    assert!(env.read("src/lib.txt").ends_with("2\n"));
    let asked = at_a_terminal(&env, "1\\nq", "'add a line to src/lib.txt'");
    assert!(asked.out().contains("Which one works"), "{asked}");
    let kept: Value = serde_json::from_slice(&std::fs::read(env.dir.join(OWN)).unwrap()).unwrap();
    assert_eq!((&kept["default_agent"], kept["agents"].as_object().unwrap().len()), (&json!("mine"), 2));
    let shown = env.norma(&["run", "add a line to src/lib.txt"]);
    assert!(shown.raw.contains("agent      mine"), "{shown}");
}

#[test]
fn one_word_is_a_file_a_task_or_a_slip() {
    let env = unseen("true");
    env.write("contract.json", "{}");
    refused(&env.norma(&["run", "contrcat.json"]), 2, &["neither a file nor a task", "norma run contract.json"]);
    refused(&env.norma(&["run", "doctr"]), 2, &["norma doctor"]);
    refused(&env.norma(&["run", "src"]), 2, &["src is a directory"]);
    refused(&env.norma(&["run", "xyzzy"]), 2, &["norma run \"what you want\""]);
    env.norma(&["init"]).success();
    env.norma(&["task", "add", "polish the chrome"]).success();
    refused(&env.norma(&["run", "chrome"]), 2, &["norma run 1 (polish the chrome)"]);
    refused(&env.norma(&["run", "contract.json", "--test", "false"]), 2, &["--test does not apply to a file"]);
    refused(&env.norma(&["run", "1", "--agent", "claude"]), 2, &["--agent does not apply to a task"]);
}

#[test]
fn what_cannot_work_is_said_before_an_agent_starts() {
    let env = unseen("echo more >> src/lib.txt");
    let run = |more: &[&str]| env.norma(&[&["run", "add a line", "--yes"][..], more].concat());
    refused(&run(&["--allow", "scr"]), 2, &["--allow scr is not in the commit; did you mean src?"]);
    refused(&run(&["--allow", "src/lbi.txt"]), 2, &["did you mean src/lib.txt?"]);
    refused(&run(&["--allow", "scr/lib.txt"]), 2, &["did you mean src/lib.txt?"]);
    refused(&run(&["--allow", "elsewhere/new.txt"]), 2, &["neither is the directory elsewhere"]);
    refused(&run(&["--allow", "/etc/passwd"]), 2, &["outside of the repository"]);
    refused(&run(&["--allow", "."]), 2, &["the whole repository"]);
    for test in ["true", ":", "exit 0", "echo ok"] {
        refused(&run(&["--allow", "src", "--test", test]), 2, &["succeeds whatever was done"]);
        let goal = ["run", "--goal", "x", "--agent", "mine", "--allow", "src", "--test", test];
        refused(&env.norma(&goal), 2, &["succeeds whatever was done"]);
    }
    refused(&run(&["--test", "no-such-program x"]), 2, &["no-such-program was not found"]);
    refused(&run(&["--test", "src/lib.txt"]), 2, &["src/lib.txt was not found"]);
    refused(&run(&["--test", "a | b"]), 2, &["--test"]);
    refused(&run(&["--ac", "it is good"]), 2, &["--ac needs something that judges it"]);
    refused(&run(&["--budget", "max_files=1"]), 2, &["is not a budget"]);
    refused(&run(&["--model", "m"]), 2, &["--model cannot be told to mine"]);
    assert!(!env.root.join(".norma").exists(), "nothing was made");
    // A file that is nearly none of the old ones is a new one, and the contract says so.
    let shown = env.norma(&["run", "add a line", "--allow", "src/notes.md"]);
    refused(&shown, 3, &["may write  src/notes.md", "src/notes.md is a new file"]);
    let item = json!({"id": "a", "agent_id": "mine", "description": "x", "test_command": "true"});
    env.write("item.json", &item.to_string());
    refused(&env.norma(&["run", "item.json"]), 2, &["succeeds whatever was done"]);
}

#[test]
fn paths_are_meant_from_the_current_directory() {
    let env = unseen("echo more >> src/lib.txt");
    env.write("src/t.sh", "#!/bin/sh\ngrep -q more src/lib.txt\n");
    std::fs::set_permissions(env.root.join("src/t.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    env.commit("a test");
    let below = env.root.join("src");
    let absolute = below.join("lib.txt").display().to_string();
    for path in ["lib.txt", "../src/lib.txt", "./lib.txt", absolute.as_str()] {
        let shown = env.norma_in(&below, &["run", "add a line", "--allow", path, "--test", "./t.sh", "--json"]);
        shown.exits(3);
        let shown: Value = serde_json::from_str(&shown.raw).unwrap();
        let contract = &shown["contract"];
        assert_eq!(
            (&contract["allowed_paths"], &contract["test_commands"]),
            (&json!(["src/lib.txt"]), &json!(["src/t.sh"]))
        );
    }
    env.norma_in(&below, &["run", "add a line", "--allow", "lib.txt", "--test", "./t.sh", "--yes"]).success();
    assert!(env.read("src/lib.txt").ends_with("more\n"));
}

#[test]
fn a_wide_scope_needs_a_yes_of_its_own() {
    let env = unseen("echo more >> src/lib.txt");
    let wide = ["run", "add a line", "--allow", "src", "--allow", "data", "--yes"];
    refused(&env.norma(&wide), 3, &["--yes does not approve this", "more than 50 % of the tree", "--yes-wide"]);
    assert!(!env.root.join(".norma").exists());
    env.norma(&[&wide[..], &["--yes-wide"]].concat()).success();
    assert!(env.event_types().contains(&"approval_used".to_owned()), "the approval is on record");
}

#[test]
fn one_key_runs_edits_or_leaves() {
    let mut env = unseen("echo more >> src/lib.txt");
    let left = at_a_terminal(&env, "q", "'add a line to src/lib.txt'");
    assert!(
        left.out().contains("r run · e edit · p pipeline · q leave") && left.out().contains("nothing was started"),
        "{left}"
    );
    assert!(!env.root.join(".norma").exists());
    let editor = env.dir.join("editor.sh");
    std::fs::write(&editor, "sed -i 's/src.lib.txt/README.md/; s/add a line to README.md/edited/' \"$1\"\n").unwrap();
    env.env.insert("EDITOR".to_owned(), format!("sh {}", editor.display()));
    let edited = at_a_terminal(&env, "eq", "'add a line to src/lib.txt'");
    assert!(edited.out().contains("may write  README.md"), "{edited}");
    std::fs::write(&editor, "echo nonsense > \"$1\"\n").unwrap();
    let broken = at_a_terminal(&env, "exr", "'add a line to src/lib.txt'");
    assert!(broken.out().contains("what you saved is not JSON") && broken.out().contains("landed"), "{broken}");
    // What was typed to be judged stays judged.
    std::fs::write(
        &editor,
        r#"tr -d '\n' < "$1" | sed 's/,[^,]*"test_commands".*]//' > "$1.new"; cat "$1.new" > "$1""#,
    )
    .unwrap();
    let unjudged = at_a_terminal(&env, "exq", "'add to src/lib.txt' --ac 'it is there' --test 'test -s src/lib.txt'");
    assert!(unjudged.out().contains("--ac needs something that judges it"), "{unjudged}");
    assert!(env.read("src/lib.txt").ends_with("more\n"));
}

/// What a test command says of `target`: what the registry's package was built to is there as the user has it, and nothing
/// that was built from the repository is.
const LOOK: &str = r#"#!/bin/sh
set -e
grep -q genuine target/debug/deps/libserde-1.rlib
test -e target/debug/.fingerprint/serde-1/lib-serde
test -e target/debug/build/serde-1/out/made.rs
! test -e target/debug/app
! test -e target/debug/deps/libapp-1.rlib
! test -e target/debug/.fingerprint/app-1
"#;

/// A repository with a `target` in which a package of a registry and one of its own have been built.
fn with_a_build(script: &str) -> TestEnvironment {
    let env = unseen(script);
    let source = "source = \"registry+https://example.org/index\"";
    env.write("Cargo.lock", &format!(
        "version = 4\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n{source}\n"
    ));
    env.write(".gitignore", "target\n");
    env.write("look.sh", LOOK);
    std::fs::set_permissions(env.root.join("look.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    env.commit("a build");
    let deps = env.root.join("target/debug/deps").display().to_string();
    for (package, from) in [("serde", "/registry/serde/src/lib.rs"), ("app", "src/lib.rs")] {
        let rules = format!("{deps}/lib{package}-1.rlib: {from}\n\n{deps}/{package}-1.d: {from}\n");
        env.write(&format!("target/debug/deps/{package}-1.d"), &rules);
        env.write(&format!("target/debug/deps/lib{package}-1.rlib"), "genuine");
        env.write(&format!("target/debug/.fingerprint/{package}-1/lib-{package}"), "hash");
        env.write(&format!("target/debug/build/{package}-1/out/made.rs"), "made");
    }
    env.write("target/debug/app", "built from what is not committed");
    env
}

fn below(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => found.extend(below(&entry)),
            false => found.push((entry.clone(), std::fs::read(&entry).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn what_cargo_built_of_dependencies_is_there_for_agents_and_tests_and_neither_can_change_it() {
    let poison = "echo poison > target/debug/deps/libserde-1.rlib; rm -r target/debug/build; echo x > target/debug/app; \
                  rm target/debug/.fingerprint/serde-1/lib-serde";
    let env = with_a_build(&format!("sh look.sh && {{ {poison}; echo more >> src/lib.txt; }}"));
    let before = below(&env.root.join("target"));
    let args = ["run", "more in src/lib.txt", "--allow", "src/lib.txt", "--test", "./look.sh", "--yes"];
    let output = env.norma(&args);
    assert!(output.err().contains("on the base: ./look.sh passes"), "{output}");
    output.success();
    assert_eq!(env.git(&["show", "--name-only", "--format=", "HEAD"]).trim(), "src/lib.txt");
    assert_eq!(below(&env.root.join("target")), before);
    assert_eq!(below(&env.root.join(".norma/worktrees")), [], "nothing is left of it");
}

#[test]
fn a_tree_that_replaces_the_sources_of_packages_is_built_anew() {
    let replaced = "mkdir -p .cargo && echo '[source.crates-io]' > .cargo/config.toml";
    let env = with_a_build(replaced);
    let args = ["run", "replace it in .cargo/config.toml", "--allow", ".cargo", "--test", "./look.sh", "--yes"];
    let output = env.norma(&[&args[..], &["--yes-wide"]].concat());
    assert!(output.err().contains("on the base: ./look.sh passes"), "{output}");
    output.exits(1);
    assert!(output.out().contains("./look.sh"), "its test had no build to look at: {output}");
}

#[test]
fn installed_dependencies_are_shown_where_they_belong_to_the_commit() {
    let env = unseen("test -x .venv/bin/check && ! touch .venv/new && echo more >> src/lib.txt");
    env.write(".gitignore", ".venv\nnode_modules\n");
    env.write("requirements.txt", "check==1\n");
    env.commit("locked");
    env.write(".venv/bin/check", "#!/bin/sh\ngrep -q more src/lib.txt\n");
    std::fs::set_permissions(env.root.join(".venv/bin/check"), PermissionsExt::from_mode(0o755)).unwrap();
    let typed = ["run", "add a line to src/lib.txt", "--test", "check", "--yes"];
    let shown = env.norma(&typed[..4]);
    refused(&shown, 3, &["tests      .venv/bin/check"]);
    env.write("requirements.txt", "check==2\n");
    refused(&env.norma(&typed), 2, &["check was not found"]);
    let shown = env.norma(&["run", "add a line to src/lib.txt"]);
    refused(&shown, 3, &[".venv is not shown to the agent: requirements.txt differs from the commit"]);
    env.write("requirements.txt", "check==1\n");
    env.norma(&typed).success();
    assert!(env.read("src/lib.txt").ends_with("more\n"));
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_goal_that_is_refused_leaves_no_task() {
    let env = TestEnvironment::initialized();
    env.norma(&["run", "--goal", "x", "--ac", "y"]).exits(2);
    env.norma(&["run", "--goal", "x", "--agent", "claude"]).exits(4);
    env.norma(&["run", "--goal", "x", "--agent", "nobody"]).exits(4);
    assert_eq!(env.json(&["task", "list", "--all"]), json!([]));
}

#[test]
fn a_linked_work_tree_and_a_shallow_clone_need_nothing_more() {
    let env = unseen("echo more >> src/lib.txt");
    let linked = env.dir.join("linked");
    env.git(&["worktree", "add", "--quiet", "-b", "side", &linked.display().to_string()]);
    let shallow = env.dir.join("shallow");
    let from = format!("file://{}", env.root.display());
    env.git(&["clone", "--quiet", "--depth", "1", &from, &shallow.display().to_string()]);
    for place in [&linked, &shallow] {
        env.norma_in(place, &["run", "add a line to src/lib.txt", "--yes"]).success();
        assert!(std::fs::read_to_string(place.join("src/lib.txt")).unwrap().ends_with("more\n"));
    }
    assert!(!env.root.join(".norma").exists());
}

#[test]
fn a_real_agent_works_by_its_key_alone() {
    let Some(program) = agents::needed(Agent::Claude) else { return };
    let scripts = Scripts::default().with("it", then_answer([write("src/new.txt", "new\n")]));
    let key = "sk-real-key-0123456789abcdef";
    let server = Server::start(Options { key: Some(key.to_owned()), scripts, ..Options::default() }).unwrap();
    let mut env = unseen("true");
    env.env.insert("ANTHROPIC_API_KEY".to_owned(), key.to_owned());
    let base_url = format!("http://127.0.0.1:{}", server.port());
    let claude = json!({"type": "claude", "bin": program, "base_url": base_url});
    own(&env, &json!({"agents": {"claude": claude}}));
    let typed = [
        "run",
        "SCN=it write src/new.txt",
        "--model",
        "claude-sonnet-4-5",
        "--test",
        "grep -q new src/new.txt",
        "--yes",
    ];
    let ran = env.norma(&typed);
    ran.success();
    for line in ["agent      claude · claude-sonnet-4-5", "at most 5,000,000 tokens", "src/new.txt is a new file"] {
        assert!(ran.to_string().contains(line), "{line}: {ran}");
    }
    assert_eq!(env.read("src/new.txt"), "new\n");
    let model = server.requests().iter().find_map(|request| request["body"]["model"].as_str().map(str::to_owned));
    assert!(model.is_none_or(|model| model == "claude-sonnet-4-5"));
}
