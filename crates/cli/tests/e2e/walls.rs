//! What an agent runs and reaches is seen, and what it may not is refused by walls.

use crate::batches::{batch, item, with_worker};
use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// An agent that needs no other program: it does what it is told with what a shell has of its own.
const PLAIN: &str = r#"#!/bin/sh
read -r request
. agents/do.sh
echo '{"version":1,"status":"ok","summary":"did it","result":{"task_id":"say-hello","status":"SUCCESS","summary":"s","evidence_refs":{},"failure":null}}'
"#;

/// An environment with a task contract whose agent does this, with this right to commands.
fn contracted(script: &str, shell: &str, change: impl FnOnce(&mut Value)) -> TestEnvironment {
    let env = with_worker(script);
    env.write("agents/worker.sh", PLAIN);
    env.write("notes/README.md", "notes\n");
    env.write("test.sh", "grep -q hello notes/hello.txt\n");
    env.commit("a contract");
    let new =
        ["contract", "new", "--goal", "say hello", "--allow", "notes", "--test", "sh test.sh", "--agent", "worker"];
    let mut contract: Value = serde_json::from_str(&env.norma(&new).success().raw).unwrap();
    contract["task_id"] = json!("say-hello");
    contract["tool_permissions"]["shell"] = json!(shell);
    change(&mut contract);
    env.write("contract.json", &contract.to_string());
    env
}

fn sandbox_record(env: &TestEnvironment) -> Value {
    let bytes = std::fs::read(env.run_dir().join("steps/001-worker/sandbox.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// What was refused in the newest run, as it is on record.
fn violations(env: &TestEnvironment) -> Vec<String> {
    let events = env.events().into_iter().filter(|event| event["type"] == "policy_violation");
    events.map(|event| event["payload"]["findings"][0].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_limit_on_tools_holds_for_an_agent_that_says_nothing() {
    // The worker itself starts two to find out which item it is for.
    let env = with_worker("for i in 1 2 3 4 5 6 7; do ls > /dev/null; done; echo hi > new");
    let limited = |most: u64| item("a", json!({"constraints": {"max_tool_ops": most}}));
    let results = batch(&env, &[limited(1)], 1);
    assert_eq!(results[0]["status"], "denied");
    assert_eq!(results[0]["denial_reason"], "Exceeded max tool ops: 9 > 1");
    let results = batch(&env, &[limited(9)], 0);
    let receipt: Value =
        serde_json::from_slice(&std::fs::read(results[0]["receipt_path"].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!((&receipt["tool_ops"], &receipt["tool_ops_source"]), (&json!(9), &json!("processes")));
    assert_eq!(receipt["tool_trace"][2], json!({"name": "process", "input": "ls"}));
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

/// Without a sandbox nobody sees what an exec agent starts: a limit on it is refused, and not ignored.
#[test]
fn a_limit_that_nobody_could_hold_is_refused() {
    let env = with_worker("ls > /dev/null; echo hi > new");
    env.configure(|config| {
        config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
        config["sandbox"] = json!({"backend": "none"});
    });
    env.write("items.json", &item("a", json!({"constraints": {"max_tool_ops": 1}})).to_string());
    let refused = env.norma(&["batch", "items.json"]);
    assert!(refused.code() != Some(0) && refused.raw_err.contains("/constraints/max_tool_ops"), "{refused}");
    assert!(
        refused.raw_err.contains("outside of the native sandbox, what an exec agent starts cannot be counted"),
        "{refused}"
    );
    assert!(!env.root.join("new").exists());
    batch(&env, &[item("a", json!({}))], 0);
}

#[test]
fn what_an_agent_says_of_its_tools_is_no_count() {
    let script = r#"i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo '{"type":"tool_completed","id":"'$i'","name":"edit"}'; done >> $NORMA_STEP_DIR/events.jsonl
sh -c 'ls; ls' > /dev/null; echo hi > new"#;
    let env = with_worker(script);
    let results = batch(&env, &[item("a", json!({}))], 0);
    assert_eq!(results[0]["metrics"]["tool_ops_count"], 4, "{}", sandbox_record(&env)["report"]["commands"]);
}

#[test]
fn a_connection_that_is_refused_is_on_record() {
    let python = "import socket\nfor kind, to in [(1, ('127.0.0.1', 9)), (1, ('8.8.8.8', 443)), (2, ('1.1.1.1', 53))]:\n try: socket.socket(2, kind).connect(to)\n except OSError: pass\n";
    let env = with_worker("python3 agents/reach.py; echo hi > new");
    env.write("agents/reach.py", python);
    env.commit("an agent that reaches out");
    batch(&env, &[item("a", json!({}))], 0);
    let record = sandbox_record(&env);
    let reached: Vec<_> =
        record["report"]["network"].as_array().unwrap().iter().map(|it| (&it["host"], &it["port"])).collect();
    assert_eq!(
        reached,
        [(&json!("1.1.1.1"), &json!(53)), (&json!("8.8.8.8"), &json!(443)), (&json!("127.0.0.1"), &json!(9))]
    );
}

#[test]
fn an_agent_without_a_shell_starts_nothing_but_itself() {
    let tries = "ls; /bin/cat /etc/hostname; printf '#!/bin/sh\\nexit 0\\n' > notes/s.sh; ./notes/s.sh; git status; echo hello > notes/hello.txt";
    let env = contracted(tries, "deny", |_| {});
    env.norma(&["run", "contract.json"]).success();
    assert_eq!(env.read("notes/hello.txt"), "hello\n");
    let found = violations(&env);
    for command in ["ls: ", "/bin/cat /etc/hostname: ", "git status: "] {
        assert!(found.iter().any(|it| it.starts_with(command)), "{command}: {found:?}");
    }
    let record = sandbox_record(&env);
    assert_eq!(
        record["report"]["commands"]["direct"],
        record["report"]["commands"]["refused"].as_array().unwrap().len()
    );
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_command_that_is_forbidden_does_not_run_though_nobody_is_asked() {
    let tries = "mkdir notes/a notes/b; rm -rf notes/a; rm -r -f notes/b; sh -c 'rm -rf notes/a'; find notes/a -exec rm -fr {} +; sudo ls
for kept in notes/a notes/b; do test -d $kept && echo hello > $kept/x; done; echo hello > notes/hello.txt; ls > /dev/null";
    let env = contracted(tries, "never", |contract| contract["forbidden_actions"] = json!(["rm -rf"]));
    env.norma(&["run", "contract.json"]).success();
    assert_eq!((env.read("notes/a/x"), env.read("notes/b/x")), ("hello\n".to_owned(), "hello\n".to_owned()));
    let found = violations(&env);
    let refused = |command: &str| {
        found.iter().any(|it| it.starts_with(command) && it.ends_with("the contract forbids \"rm -rf\""))
    };
    for command in ["rm -rf notes/a: ", "rm -r -f notes/b: ", "rm -fr notes/a: "] {
        assert!(refused(command), "{command}: {found:?}");
    }
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn what_policy_refuses_is_refused_to_what_nobody_asks_about() {
    let tries = "git push . HEAD:other && echo ran > notes/ran; timeout 9 git push . HEAD:x && echo ran > notes/ran; echo hello > notes/hello.txt";
    let env = contracted(tries, "never", |_| {});
    env.norma(&["run", "contract.json"]).success();
    assert!(!env.root.join("notes/ran").exists());
    let found = violations(&env);
    assert!(found.iter().any(|it| it.starts_with("git push . HEAD:x: publish: ")), "{found:?}");
}

#[test]
fn what_a_rule_has_asked_about_does_not_run_where_nobody_is_asked() {
    let tries = "cp agents/do.sh notes/a; sh -c 'cp agents/do.sh notes/b'; echo hello > notes/hello.txt; mv notes/hello.txt notes/c; cat notes/c > notes/hello.txt";
    let env = contracted(tries, "never", |_| {});
    ask_about_cp(&env);
    env.norma(&["run", "contract.json"]).success();
    assert_eq!((env.root.join("notes/a").exists(), env.root.join("notes/b").exists()), (false, false));
    // What no rule speaks of runs.
    assert_eq!(env.read("notes/c"), "hello\n");
    let found = violations(&env);
    for command in ["cp agents/do.sh notes/a: copies: ", "cp agents/do.sh notes/b: copies: "] {
        assert!(found.iter().any(|it| it.starts_with(command)), "{command}: {found:?}");
    }
    env.norma(&["verify", "@last"]).success();
}

/// Has the policy ask a person about every copy.
pub(crate) fn ask_about_cp(env: &TestEnvironment) {
    let path = ".norma/policies/command_allowlist.json";
    let mut policy: Value = serde_json::from_str(&env.read(path)).unwrap();
    policy["ask"] = json!([{"name": "copies", "reason": "copies are looked at", "exec": ["cp"], "match": ["cp a b"], "not_match": ["mv a b"]}]);
    env.write(path, &policy.to_string());
    env.norma(&["trust"]).success();
}

/// What an agent finds of a committed secret by its own git, whatever it asks.
const DIG: &str = r#"
id=$(git ls-files -s | sed -n 's/^[0-9]* \([0-9a-f]*\) .*\.env$/\1/p')
{ cat .env; git show HEAD:.env; git cat-file -p $id; git --no-replace-objects cat-file -p $id; git log -p --all; git diff; git grep SECRET HEAD
  git archive HEAD; git cat-file --batch-all-objects --batch; git status --short; } 2>&1 | tr -cd '[:print:]\\n' > found
git status --short > status; git log -p > /dev/null && git show > /dev/null && git diff HEAD > /dev/null || exit 1; echo y > new; git add new; git commit -qm new && git log --oneline > log
"#;

#[test]
fn a_committed_secret_is_nowhere_in_the_agents_git() {
    for (history, layers) in [("shallow", true), ("full", true), ("shallow", false), ("full", false)] {
        let env = with_worker(DIG);
        env.write(".env", "SECRET=correct-horse-battery-staple\n");
        env.commit("a secret");
        env.write(".env", "SECRET=another-horse-battery-staple\n");
        env.commit("another secret");
        env.configure(|config| {
            config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
            config["workspace"] = json!({"history": history, "layers": layers});
        });
        batch(&env, &[item("a", json!({}))], 0);
        let found = String::from_utf8_lossy(&std::fs::read(env.root.join("found")).unwrap()).into_owned();
        assert!(!found.contains("horse-battery"), "{history} {layers}: {found}");
        assert!(found.contains("a worker") || history == "shallow", "{history}: {found}");
        // Its git is as useful as any: nothing seems changed, and commits can be made.
        assert_eq!(env.read("status"), "?? found\n?? status\n", "{history} {layers}");
        assert!(env.read("log").contains("new"), "{history}");
        assert_eq!(env.read(".env"), "SECRET=another-horse-battery-staple\n");
    }
}
