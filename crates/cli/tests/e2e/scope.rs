//! What a run may change: the scope of its contract, the policies it is bound to, and whose they are.

use crate::batches::{item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use contract::policy::POLICY_FILES;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;

fn new_file(path: &str) -> String {
    format!("diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n")
}

/// Runs task 1 with this patch under this scope.
fn ran(patch: &str, scope: Value) -> TestEnvironment {
    let env = TestEnvironment::with_patch(patch);
    env.configure(|config| config["scope"] = scope);
    env.norma(&["run", "1"]);
    env
}

/// The rule and the path of every finding in `gates.json` of the first change.
#[track_caller]
fn findings(env: &TestEnvironment) -> Vec<(String, String)> {
    let gates = std::fs::read(env.run_dir().join("changes/001/gates.json")).unwrap();
    let gates: Value = serde_json::from_slice(&gates).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let refused = gates["gates"].as_array().unwrap().last().unwrap();
    refused["findings"].as_array().unwrap().iter().map(|found| (text(&found["rule"]), text(&found["path"]))).collect()
}

#[track_caller]
fn denied(env: &TestEnvironment, expected: &[(&str, &str)]) {
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("denied"), &json!("policy_violation")), "{run}");
    let expected: Vec<(String, String)> =
        expected.iter().map(|(rule, path)| ((*rule).into(), (*path).into())).collect();
    assert_eq!(findings(env), expected);
    assert_eq!(env.event("change_dropped")["reason"], "policy_violation");
}

#[test]
fn a_change_outside_the_allowed_paths_is_dropped_and_named_and_nothing_later_starts() {
    let env = TestEnvironment::with_patch(&format!("{PATCH}{}", new_file("src-evil/x")));
    env.configure(|config| config["scope"] = json!({"allowed_paths": ["src/"]}));
    let before = env.repository();
    env.norma(&["run", "1"]).exits(1);
    denied(&env, &[("outside_scope", "src-evil/x")]);
    assert_eq!(env.repository(), before);
    let types = env.event_types();
    let dropped = types.iter().position(|kind| kind == "change_dropped").unwrap();
    assert_eq!(types[dropped + 1..], ["run_denied"], "{types:?}");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn both_sides_of_a_rename_and_of_a_copy_must_be_allowed() {
    let rename = |from: &str, to: &str| {
        format!("diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n")
    };
    let scope = json!({"allowed_paths": ["src"]});
    denied(&ran(&rename("README.md", "src/README.md"), scope.clone()), &[("outside_scope", "README.md")]);
    denied(&ran(&rename("src/lib.txt", "lib.txt"), scope.clone()), &[("outside_scope", "lib.txt")]);
    let copy = "diff --git a/src/lib.txt b/lib.txt\nsimilarity index 100%\ncopy from src/lib.txt\ncopy to lib.txt\n";
    denied(&ran(copy, scope.clone()), &[("outside_scope", "lib.txt")]);
    assert_eq!(ran(&rename("src/lib.txt", "src/moved.txt"), scope).last()["status"], "succeeded");
}

#[test]
fn a_protected_path_is_refused_until_the_scope_names_it() {
    let patch = new_file(".github/workflows/ci.yml");
    denied(&ran(&patch, json!({})), &[("protected_path", ".github/workflows/ci.yml")]);
    assert_eq!(ran(&patch, json!({"allowed_paths": ["/.github/workflows"]})).last()["status"], "succeeded");
    let modules = new_file(".gitmodules");
    denied(&ran(&modules, json!({})), &[("protected_path", ".gitmodules")]);
    // Whoever trusts a configuration that names the file has approved it.
    assert_eq!(ran(&modules, json!({"allowed_paths": [".gitmodules"]})).last()["status"], "succeeded");
}

#[test]
fn every_finding_has_its_rule_and_every_refusal_too() {
    let patch = [new_file(".env"), new_file("a.txt"), new_file("A.txt")].concat();
    let expected = [("protected_path", ".env"), ("case_twin", "A.txt"), ("case_twin", "a.txt")];
    denied(&ran(&patch, json!({})), &expected);
    denied(&ran(&new_file("../x"), json!({})), &[("odd_name", "")]);
    denied(&ran(&new_file("sub/.git/config"), json!({})), &[("protected_path", "")]);
}

#[test]
fn binary_content_lands_only_where_the_scope_allows_it() {
    let patch = "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..1a23e4be731d2f539deeea324686d000ccdfbfcd\nGIT binary patch\nliteral 4\nLcmYdfNa6wj0#*Rd\n\nliteral 0\nHcmV?d00001\n\n";
    denied(&ran(patch, json!({})), &[("binary", "")]);
    let env = ran(patch, json!({"allow_binary": true}));
    assert_eq!(env.last()["status"], "succeeded");
    assert_eq!(env.read("x.bin"), "a\0b\n");
}

#[test]
fn a_scope_that_makes_no_sense_is_refused_with_every_violation() {
    let env = TestEnvironment::new(json!({}));
    env.configure(|config| config["scope"] = json!({"allowed_paths": ["src", ".norma/policies"]}));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r#"
    ! error: $DIR/repo/.norma/config.json is not a valid configuration:
    !   /scope/allowed_paths/1: ".norma/policies" is in the state directory, which is not for agents
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    "#);
    let config = r#"{"budgets":{"max_iterations":1},"scope":{"allowed_paths":["**",".","/","","../a"]}}"#;
    env.write(".norma/config.json", config);
    insta::assert_snapshot!(env.norma(&["trust"]), @r#"
    ! error: $DIR/repo/.norma/config.json is not a valid configuration:
    !   /scope/allowed_paths/0: "**" is a glob; name a file or a directory, which stands for everything below it
    !   /scope/allowed_paths/1: "." would allow the whole repository
    !   /scope/allowed_paths/2: "/" would allow the whole repository
    !   /scope/allowed_paths/3: "" would allow the whole repository
    !   /scope/allowed_paths/4: path "../a" contains a `..` component
    ! next: every setting: norma help config; schema: norma schema config
    [exit 2]
    "#);
    assert_eq!(env.json(&["runs"]), json!([]));
}

#[test]
fn a_run_names_the_policies_it_is_judged_by_and_a_missing_one_is_the_built_in_one() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let bound = env.event("run_started")["contract"]["policies"].clone();
    assert_eq!(bound.as_object().unwrap().len(), POLICY_FILES.len(), "{bound}");
    std::fs::remove_file(env.root.join(".norma/policies/scratch_paths.json")).unwrap();
    let output = env.norma(&["run", "1", "--new"]);
    let note =
        "note: the built-in scratch_paths.json count, since they are not in .norma/policies; norma init writes them";
    assert!(output.success().err().contains(note), "{output}");
    assert_eq!(env.event("run_started")["contract"]["policies"], bound);
    std::fs::remove_dir_all(env.root.join(".norma/policies")).unwrap();
    env.norma(&["run", "1", "--new"]).success();
    assert_eq!(env.event("run_started")["contract"]["policies"], bound);
    let written = env.json(&["init"])["policies_written"].clone();
    assert_eq!(written.as_array().unwrap().len(), POLICY_FILES.len(), "{written}");
}

#[test]
fn a_changed_policy_is_untrusted_until_it_is_trusted_and_says_what_it_changes() {
    let env = TestEnvironment::with_patch(&new_file(".env"));
    let policy =
        r#"{"rules":[{"pattern":".norma/","reason":"r","contractable":false,"match":[".norma/x"],"not_match":["a"]}]}"#;
    env.write(".norma/policies/protected_paths.json", policy);
    let refused = env.norma(&["run", "1"]);
    let said = refused.exits(4).to_string();
    for part in [
        "error: .norma/config.json with .norma/policies/protected_paths.json is not trusted, so nothing was run",
        ".norma/policies/protected_paths.json is not the built-in one:",
        "- rules {\"contractable\":",
        "and 7",
        "next: if that is what you want: norma trust",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert_eq!(env.norma(&["doctor"]).code(), Some(4));
    // A configuration that was typed does not bring policies with it that nobody typed.
    let config = env.read(".norma/config.json");
    std::fs::write(env.dir.join("given.json"), &config).unwrap();
    let typed = env.norma(&["run", "1", "--config", &env.at("given.json")]);
    assert!(typed.exits(4).to_string().contains("the policies in .norma/policies are not trusted"), "{typed}");
    assert_eq!(env.json(&["runs"]), json!([]));

    let shown = env.json(&["trust", "--show"]);
    assert_eq!((&shown["trusted"], &shown["policies"][0]["name"]), (&json!(false), &json!("protected_paths.json")));
    env.norma(&["trust"]).success();
    env.norma(&["run", "1", "--config", &env.at("given.json")]).success();
    assert_eq!(env.read(".env"), "x\n");
    env.write(".norma/policies/protected_paths.json", &format!("{policy}\n"));
    env.norma(&["run", "1", "--new"]).exits(4);
    env.write(".norma/policies/protected_paths.json", policy);
    env.write(".norma/config.json", &format!("{config}\n"));
    env.norma(&["run", "1", "--new"]).exits(4);
}

#[test]
fn a_policy_that_cannot_be_used_starts_nothing_and_every_violation_is_named() {
    let env = TestEnvironment::new(json!({}));
    env.write(".norma/policies/protected_paths.json", r#"{"rules":[{"pattern":"/x","reason":"r","contractable":true,"match":["a"],"not_match":["b"]},{"pattern":"a","reason":"r","contractable":true,"match":["b"],"not_match":["a"]}]}"#);
    env.write(".norma/policies/protected_path.json", "{}");
    std::fs::remove_file(env.root.join(".norma/policies/scratch_paths.json")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", env.root.join(".norma/policies/scratch_paths.json")).unwrap();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r#"
    ! error: the policies in .norma/policies cannot be used, so nothing was run:
    !   scratch_paths.json (document): could not be read: it is not a regular file
    !   protected_paths.json /rules/0/match/0: the rule "/x" does not match this example
    !   protected_paths.json /rules/1/match/0: the rule "a" does not match this example
    !   protected_paths.json /rules/1/not_match/0: the rule "a" matches this example
    !   protected_path.json (document): there is no such policy; there are agent_registry.json, command_allowlist.json, forbidden_actions.json, mcp_allowlist.json, protected_paths.json, scratch_paths.json, wide_paths.json
    ! next: fix them (norma help gates), or delete a file to use the built-in one; then: norma trust
    [exit 4]
    "#);
    env.norma(&["trust"]).exits(4);
    assert_eq!(env.norma(&["doctor"]).code(), Some(4));
    assert_eq!(env.json(&["runs"]), json!([]));
}

#[test]
fn a_run_goes_on_only_under_the_policies_it_was_started_under() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"do": [[{"write_abs": {"path": env.at("started"), "content": ""}}, "hang"]]}));
    let running = env.spawn(&["run", "1"]);
    env.wait_for("started");
    running.signal("INT");
    running.wait().exits(130);
    let policy = env.read(".norma/policies/scratch_paths.json");
    env.write(".norma/policies/scratch_paths.json", r#"{"rules":[]}"#);
    env.norma(&["trust"]).success();
    insta::assert_snapshot!(env.norma(&["resume", "@last"]), @r"
    ! error: run <run> was started under other policies than the current ones: scratch_paths.json
    ! next: restore them, or start over under the current ones: norma run … --new
    [exit 4]
    ");
    assert_eq!(env.last()["status"], "paused");
    env.write(".norma/policies/scratch_paths.json", &policy);
    std::fs::write(env.dir.join("script.json"), "{}").unwrap();
    env.norma(&["resume", "@last"]).success();
}

/// Has an item with these members carried out by a worker that does this, approved if it asks; the run afterwards.
fn worked(env: &TestEnvironment, script: &str, members: Value) -> Value {
    env.write("agents/do.sh", script);
    env.commit("what to do");
    env.write("items.json", &json!([item("a", members)]).to_string());
    let ran = env.norma(&["batch", "items.json", "--new"]);
    if ran.code() == Some(3) {
        let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
        env.norma(&["approve", &id]).success();
        env.norma(&["resume", "@last"]);
    }
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
    env.last()
}

#[test]
fn a_contract_that_allows_binary_files_lands_them_with_an_approval() {
    let env = with_worker("");
    let script = r"printf 'a\0b' > x.bin";
    let refused = worked(&env, script, json!({"allowed_paths": ["x.bin"]}));
    assert_eq!(refused["status"], "denied");
    let landed = worked(&env, script, json!({"allowed_paths": ["x.bin"], "scope": {"allow_binary": true}}));
    assert_eq!(landed["status"], "succeeded", "{landed:#}");
    assert!(env.event_types().contains(&"approval_used".to_owned()));
    assert_eq!(env.read("x.bin"), "a\0b");
    // The bytes are known now: another mode, another name and a copy bring nothing new.
    let script = "chmod +x x.bin; cp x.bin y.bin; mkdir d; cp x.bin d/z.bin; rm x.bin";
    let moved = worked(&env, script, json!({"allowed_paths": ["x.bin", "y.bin", "d/z.bin"]}));
    assert_eq!(moved["status"], "succeeded", "{moved:#}");
    assert_eq!(env.git(&["ls-files", "*.bin"]), "d/z.bin\ny.bin");
}

#[test]
fn text_in_utf16_lands_and_its_secrets_do_not() {
    let env = with_worker("");
    let script = r"printf '\377\376h\0i\0\n\0' > a.txt";
    assert_eq!(worked(&env, script, json!({"allowed_paths": ["a.txt"]}))["status"], "succeeded");
    let key = format!("AKIA{}", "IOSFODNN7EXAMPLQ");
    let wide: String = format!("k = \"{key}\"\n").chars().map(|c| format!(r"\{:03o}\0", c as u32)).collect();
    let run = worked(&env, &format!(r"printf '\377\376{wide}' > a.txt"), json!({"allowed_paths": ["a.txt"]}));
    assert_eq!(run["status"], "denied");
    assert!(run["message"].as_str().unwrap().contains("adds what looks like"), "{}", run["message"]);
}

#[test]
fn case_renames_links_and_odd_names_of_the_base_are_honest_work() {
    let env = with_worker("");
    env.write("README.md", "readme\n");
    std::os::unix::fs::symlink("README.md", env.root.join("old")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    std::fs::write(env.root.join(odd), "latin\n").unwrap();
    env.commit("what is there");
    let script = r#"git mv README.md Readme.md; rm old; echo file > old; ln -s Readme.md new; printf 'utf\n' > "$(printf 'caf\351.txt')""#;
    let run = worked(&env, script, json!({"constraints": {"max_files": 5}}));
    assert_eq!((&run["status"], &run["reason"]), (&json!("denied"), &json!("policy_violation")));
    let why = run["message"].as_str().unwrap();
    assert!(why.contains("new: symbolic links are refused, unless") && !why.contains("; "), "{why}");
    let script = script.replace(r#"; printf 'utf\n' > "$(printf 'caf\351.txt')""#, "");
    let named = json!({"allowed_paths": ["README.md", "Readme.md", "old", "new"]});
    assert_eq!(worked(&env, &script, named)["status"], "succeeded");
    let edit = r#"printf 'utf\n' > "$(printf 'caf\351.txt')""#;
    assert_eq!(worked(&env, edit, json!({}))["status"], "succeeded");
    assert_eq!(std::fs::read(env.root.join(odd)).unwrap(), b"utf\n");
}

#[test]
fn git_s_own_file_lands_only_by_its_exact_name_and_with_an_approval() {
    let env = with_worker("");
    let script = "printf '# none\\n' > .gitmodules";
    assert_eq!(worked(&env, script, json!({}))["status"], "denied");
    let run = worked(&env, script, json!({"allowed_paths": [".gitmodules"]}));
    assert_eq!(run["status"], "succeeded", "{run:#}");
    assert!(env.event_types().contains(&"approval_used".to_owned()));
}

#[test]
fn a_line_that_reorders_what_is_shown_is_refused() {
    let env = with_worker("");
    let run = worked(&env, r"printf 'if (a \342\200\256 b)\n' > a.c", json!({"allowed_paths": ["a.c"]}));
    assert_eq!(run["reason"], "policy_violation");
    assert!(run["message"].as_str().unwrap().contains("a.c: line 1 adds U+202E"), "{}", run["message"]);
}
