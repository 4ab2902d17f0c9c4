//! `norma sandbox`: a program that sees, changes and reaches only what it was given. On a machine that cannot confine
//! the tests are not run: there is nothing to look at.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// An environment, unless this machine cannot confine at all.
pub(crate) fn confining() -> Option<TestEnvironment> {
    let env = TestEnvironment::bare();
    let tried = env.norma(&["sandbox", "run", "--", "true"]);
    if tried.code() == Some(0) {
        return Some(env);
    }
    not_run::because(format_args!("this machine cannot confine: {}", tried.err()));
    None
}

#[test]
fn a_confined_program_ends_as_it_would_outside() {
    let Some(env) = confining() else { return };
    env.norma(&["sandbox", "run", "--", "sh", "-c", "exit 7"]).exits(7);
    assert_eq!(env.norma(&["sandbox", "run", "--", "sh", "-c", "echo hello"]).success().raw, "hello\n");
    env.norma(&["sandbox", "run", "--", "no-such-program"]).exits(2);
}

#[test]
fn a_confined_program_changes_only_what_it_was_given() {
    let Some(env) = confining() else { return };
    env.write("kept.txt", "as it was");
    env.write("given/x", "");
    let script = "echo changed > kept.txt; echo new > given/y; echo z > /tmp/z";
    env.norma(&["sandbox", "run", "--", "sh", "-c", script]);
    assert_eq!(env.read("kept.txt"), "as it was");
    assert!(!env.root.join("given/y").exists());
    env.norma(&["sandbox", "run", "--write", "given", "--", "sh", "-c", script]);
    assert_eq!(env.read("kept.txt"), "as it was");
    assert_eq!(env.read("given/y"), "new\n");
}

#[test]
fn a_confined_program_sees_no_secrets_and_cannot_change_history() {
    let Some(env) = confining() else { return };
    env.write(".env", "TOKEN=1");
    let seen = env.norma(&[
        "sandbox",
        "run",
        "--write",
        ".",
        "--",
        "sh",
        "-c",
        "cat .env; echo x >> .git/config || echo kept",
    ]);
    assert_eq!(seen.raw, "kept\n");
    assert!(!env.git(&["config", "--list"]).contains("x="));
}

#[test]
fn certificates_are_seen_and_what_norma_keeps_of_them_is_in_nobodys_way() {
    let Some(env) = confining() else { return };
    env.git(&["init", "--quiet"]);
    let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
    for (path, content) in [("certifi/cacert.pem", certificate), ("server.pem", key)] {
        env.write(path, content);
    }
    env.commit("certificates and a key");
    env.norma(&["init"]).success();
    // A run keeps a layer of the commit below .norma, with every file of it.
    env.norma(&["sandbox", "run", "--workspace", "--", "true"]).success();
    let kept = env.norma(&["sandbox", "run", "--", "sh", "-c", "cat certifi/cacert.pem server.pem; ls -A .norma"]);
    assert_eq!(kept.success().raw, certificate);
}

#[test]
fn an_explanation_has_a_reason_for_every_line() {
    let env = TestEnvironment::bare();
    let lines = env.json(&["sandbox", "explain", "--write", ".", "--net", "example.org:443"]);
    let lines = lines.as_array().unwrap();
    assert!(lines.iter().all(|line| !line["reason"].as_str().unwrap().is_empty()));
    assert!(lines.iter().any(|line| line["what"] == "network" && line["subject"] == "example.org:443"));
    let own = json!(env.root.display().to_string());
    assert!(lines.iter().any(|line| line["what"] == "write" && line["subject"] == own));
    env.norma(&["sandbox", "explain", "--net", "nonsense"]).exits(2);
    env.norma(&["sandbox", "explain", "--write", "missing"]).exits(2);
}

#[test]
fn no_attack_of_the_drill_succeeds() {
    let Some(env) = confining() else { return };
    // Neither a repository nor a state directory is needed to ask what the machine can do.
    let output = env.norma(&["doctor", "--drill", "--json"]);
    let lines: Vec<Value> = output.success().raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, tried) = lines.split_last().unwrap();
    assert!(tried.iter().all(|line| line["outcome"] == "blocked"), "{output}");
    assert_eq!(summary["succeeded"], json!([]));
    assert_eq!(summary["not_made"], json!([]));
    assert_eq!((&summary["blocked"], &summary["attacks"]), (&json!(tried.len()), &json!(tried.len())));
    let output = env.norma(&["doctor", "--drill"]);
    let last = output.success().raw.lines().last().unwrap().to_owned();
    assert!(last.starts_with(&format!("{0} of {0} blocked at level ", tried.len())), "{output}");
    assert_eq!(std::fs::read_dir(env.dir.join("tmp")).unwrap().count(), 0, "the drill leaves nothing behind");
}

#[test]
fn nobody_is_attacked_outside_of_a_sandbox() {
    let env = TestEnvironment::bare();
    let output = env.norma(&["__drill", "attack", "{}"]);
    assert_eq!((output.exits(1).raw.as_str(), output.raw_err.as_str()), ("", ""));
}

#[test]
fn production_mode_never_runs_an_agent_without_a_sandbox() {
    let mut env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({}));
    env.norma(&["run", "1"]).success();
    env.env.insert("NORMA_MODE".into(), "production".into());
    insta::assert_snapshot!(env.norma(&["run", "1", "--new"]), @r#"
    ! error: sandbox_unavailable: agents are always confined in production mode
    ! next: production mode comes from "mode" in config.json or from NORMA_MODE
    [exit 4]
    "#);
    env.env.insert("NORMA_MODE".into(), "prod".into());
    insta::assert_snapshot!(env.norma(&["run", "1", "--new"]), @r#"
    ! error: NORMA_MODE is "prod"
    ! next: set it to production or development, or unset it
    [exit 2]
    "#);
    env.env.remove("NORMA_MODE");
    env.write(
        ".norma/config.json",
        r#"{"mode":"production","sandbox":{"backend":"none"},"budgets":{"max_iterations":1}}"#,
    );
    assert!(env.norma(&["trust"]).err().contains("/sandbox/backend: agents are always confined in production mode"));
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 1);
}

/// In a user namespace that may make no other one, with every capability given up.
#[test]
fn without_a_sandbox_no_run_starts() {
    let Some(_) = confining() else { return };
    let env = TestEnvironment::new(json!({}));
    let norma = env!("CARGO_BIN_EXE_norma");
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces &&
         exec setpriv --bounding-set -all --inh-caps -all --ambient-caps -all '{norma}' run 1"
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["-Ur", "sh", "-c", &script]).current_dir(&env.root).env_clear().envs(&env.env);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("sandbox_unavailable") && said.contains("next: "), "{said}");
    assert_eq!(env.json(&["runs"]), json!([]));
}

#[test]
fn an_agent_sees_the_same_tree_in_layers_and_in_a_checkout() {
    let Some(_) = confining() else { return };
    let env = TestEnvironment::new(json!({}));
    let look = "cd '{repo_root}' && { pwd; ls -A; cat src/lib.txt; git status --short; git log --format=%s; \
                git commit -qam mine && git log --format=%s -1; } > '{step_dir}/seen.txt' 2>&1";
    let mut seen = Vec::new();
    for layers in [true, false] {
        env.script(json!({
            "plan": [[], [{"shell": look}]],
            "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
            "act": [[{"patch": crate::environment::PATCH}]],
        }));
        env.configure(|config| config["workspace"] = json!({"layers": layers}));
        env.norma(&["run", "1", "--new"]).success();
        seen.push(std::fs::read_to_string(env.run_dir().join("steps/005-plan/seen.txt")).unwrap());
        env.norma(&["undo", "@last"]).success();
    }
    let root = env.root.display();
    let expected = format!("{root}\n.git\n.norma\nREADME.md\nsrc\none\nTWO\nthree\nM  src/lib.txt\nfirst\nmine\n");
    assert_eq!(seen, [expected.clone(), expected]);
}

#[test]
fn the_sandbox_of_every_turn_is_on_record() {
    let Some(_) = confining() else { return };
    let env = TestEnvironment::new(json!({}));
    env.configure(|config| config["agents"]["plan"]["env"] = json!({"TOKEN": "not for the record"}));
    env.norma(&["run", "1"]).success();
    let read =
        |step: &str| std::fs::read_to_string(env.run_dir().join("steps").join(step).join("sandbox.json")).unwrap();
    let record: Value = serde_json::from_str(&read("001-plan")).unwrap();
    assert_eq!(record["backend"], "native");
    assert_eq!(record["policy"]["overlays"][0]["path"], env.root.display().to_string());
    assert!(record["policy"]["env"].as_array().unwrap().contains(&json!("TOKEN")));
    assert!(!read("001-plan").contains("not for the record"));
    assert_eq!(record["effective"]["capabilities"], 0);
    assert!(record["report"]["usage"]["resident_bytes_max"].as_u64().unwrap() > 0);
    env.script_unconfined(json!({}));
    env.norma(&["run", "1", "--new"]).success();
    assert_eq!(read("001-plan"), "{\n  \"backend\": \"none\"\n}\n");
}
