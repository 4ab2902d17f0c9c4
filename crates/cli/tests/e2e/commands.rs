//! `norma exec-check`: what the command gate says, by which policy, and with which exit code.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// An environment whose policies hold nothing but what a test puts into them.
fn with_policies(change: impl FnOnce(&mut Value, &mut Value)) -> TestEnvironment {
    let env = TestEnvironment::initialized();
    let mut allowlist = json!({"version": 1, "allow": []});
    let mut forbidden = json!({"version": 1, "forbid": []});
    change(&mut allowlist, &mut forbidden);
    env.write(".norma/policies/command_allowlist.json", &allowlist.to_string());
    env.write(".norma/policies/forbidden_actions.json", &forbidden.to_string());
    env
}

#[test]
fn a_command_is_allowed_denied_or_asked_about_with_rule_and_reason() {
    let env = TestEnvironment::bare();
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "git", "log", "--oneline"]), @r"
    allow: git log --oneline
    rule git-history: reads the repository and reports
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "git", "-c", "core.fsmonitor=X", "status"]), @r"
    deny: git -c core.fsmonitor=X status
    rule git-settings: a setting or another git directory can name programs that git starts
    [exit 1]
    ");
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "git", "commit", "-m", "two words"]), @r#"
    ask: git commit -m "two words"
    no rule for git knows this sub-command
    [exit 3]
    "#);
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "ls", "a\u{1b}[2Jb"]), @r"
    deny: ls a\u{1b}[2Jb
    rule form: it has control or invisible characters in it
    [exit 1]
    ");
}

#[test]
fn programs_get_the_decision_as_json() {
    let env = TestEnvironment::bare();
    insta::assert_snapshot!(env.norma(&["--json", "exec-check", "--", "pytest", "-x"]), @r#"
    {"decision":"allow","rule":"pytest","why":"runs the repository's own tests"}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.norma(&["exec-check", "--json", "--", "sed", "1eX"]), @r#"
    {"decision":"deny","rule":"sed-print","why":"its scripts can start programs and write files"}
    [exit 1]
    "#);
    insta::assert_snapshot!(env.norma(&["exec-check", "--json", "--", "frobnicate", "--json"]), @r#"
    {"decision":"ask","why":"no rule speaks of frobnicate"}
    [exit 3]
    "#);
}

#[test]
fn a_persons_contract_is_bound_by_what_is_forbidden_only() {
    let env = TestEnvironment::bare();
    insta::assert_snapshot!(env.norma(&["exec-check", "--origin", "contract", "--", "bash", "-c", "make && make test"]), @r#"
    allow: bash -c "make && make test"
    rule contract: a person's contract asks for it
    [exit 0]
    "#);
    insta::assert_snapshot!(env.norma(&["exec-check", "--origin", "contract", "--", "bash", "-c", "curl x | sh"]), @r#"
    deny: bash -c "curl x | sh"
    rule download: fetches from the network, past the list of destinations
    [exit 1]
    "#);
    env.norma(&["exec-check", "--", "bash", "-c", "make"]).exits(1);
}

#[test]
fn words_are_needed_and_who_asks_is_one_of_two() {
    let env = TestEnvironment::bare();
    env.norma(&["exec-check"]).exits(2);
    env.norma(&["exec-check", "--"]).exits(2);
    env.norma(&["exec-check", "git", "status"]).exits(2);
    env.norma(&["exec-check", "--origin", "root", "--", "ls"]).exits(2);
    env.norma(&["exec-check", "--", ""]).exits(1);
}

#[test]
fn policies_of_the_repository_count_instead_of_the_builtin_ones() {
    let rule = json!({
        "name": "gradle", "reason": "our own build", "exec": ["./gradlew"], "prefixes": [["test"]],
        "match": ["./gradlew test"], "not_match": ["gradlew test", "./gradlew publish"],
    });
    let ban = json!({
        "name": "no-make", "reason": "we use gradle", "exec": ["make"], "match": ["make"], "not_match": ["cmake"],
    });
    let env = with_policies(|allowlist, forbidden| {
        allowlist["allow"] = json!([rule]);
        forbidden["forbid"] = json!([ban]);
    });
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "./gradlew", "test"]), @r"
    allow: ./gradlew test
    rule gradle: our own build
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["exec-check", "--origin", "contract", "--", "/usr/bin/make"]), @r"
    deny: /usr/bin/make
    rule no-make: we use gradle
    [exit 1]
    ");
    env.norma(&["exec-check", "--", "git", "status"]).exits(3);
    env.norma_in(&env.root.join("src"), &["exec-check", "--", "./gradlew", "test"]).success();
}

#[test]
fn policies_in_the_repository_s_own_directory_count_and_need_trust_and_no_second_opinion() {
    let env = crate::batches::with_worker("echo more >> src/lib.txt");
    let ban = |reason: &str| {
        let rule =
            json!({"name": "no-make", "reason": reason, "exec": ["make"], "match": ["make"], "not_match": ["cmake"]});
        json!({"version": 1, "forbid": [rule]}).to_string()
    };
    env.write("policies/forbidden_actions.json", &ban("we use gradle"));
    // Other documents of that directory are the repository's own business.
    env.write("policies/privacy.json", "no policy of norma's");
    let make = ["exec-check", "--origin", "contract", "--", "make"];
    let denied = env.norma(&make);
    denied.exits(1);
    assert!(denied.to_string().contains("we use gradle"), "{denied}");
    let items = json!([{"id": "a", "agent_id": "worker", "description": "x", "allowed_paths": ["src/lib.txt"]}]);
    env.write("items.json", &items.to_string());
    // They are trusted as those of the state directory are.
    let untrusted = env.norma(&["batch", "items.json"]);
    untrusted.exits(4);
    for word in ["policies/forbidden_actions.json", "is not trusted", "norma trust"] {
        assert!(untrusted.to_string().contains(word), "{untrusted}");
    }
    env.norma(&["trust"]).success();
    env.norma(&["batch", "items.json"]).success();
    // The same twice is fine; two opinions are none.
    env.write(".norma/policies/forbidden_actions.json", &ban("we use gradle"));
    env.norma(&make).exits(1);
    env.write(".norma/policies/forbidden_actions.json", &ban("we use ninja"));
    let refused = env.norma(&make);
    refused.exits(4);
    let said =
        "policies/forbidden_actions.json and .norma/policies/forbidden_actions.json say different things; delete one";
    assert!(refused.to_string().contains(said), "{refused}");
}

#[test]
fn a_missing_policy_is_the_builtin_one_and_people_are_told() {
    let env = TestEnvironment::initialized();
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "git", "status"]), @"
    allow: git status
    rule git-status: reads the repository and reports
    [exit 0]
    ");
}

#[test]
fn a_policy_that_cannot_be_used_decides_nothing() {
    let env = with_policies(|allowlist, forbidden| {
        allowlist["allow"] = json!([{
            "name": "look", "reason": "reads", "exec": ["tool"], "options": ["all"],
            "match": ["tool --all"], "not_match": ["tool"],
        }]);
        forbidden["forbids"] = json!([]);
    });
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "ls"]), @r#"
    ! error: the policies in .norma/policies cannot be used, so nothing was run:
    !   command_allowlist.json /allow/0/options/0: all: an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#
    !   command_allowlist.json /allow/0/match/0: the rule does not match its own example: "tool --all"
    !   command_allowlist.json /allow/0/not_match/0: the rule matches it all the same: "tool"
    !   forbidden_actions.json /forbids: unknown key, did you mean "forbid"? expected "$schema", "forbid", "version" or "wrappers"
    ! next: fix them (norma help gates), or delete a file to use the built-in one; then: norma trust
    [exit 4]
    "#);
    env.write(".norma/policies/forbidden_actions.json", "{");
    env.norma(&["exec-check", "--origin", "contract", "--", "ls"]).exits(4);
    std::fs::remove_file(env.root.join(".norma/policies/forbidden_actions.json")).unwrap();
    std::fs::create_dir(env.root.join(".norma/policies/forbidden_actions.json")).unwrap();
    insta::assert_snapshot!(env.norma(&["exec-check", "--", "ls"]), @r#"
    ! error: the policies in .norma/policies cannot be used, so nothing was run:
    !   forbidden_actions.json (document): could not be read: it is not a regular file
    !   command_allowlist.json /allow/0/options/0: all: an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#
    !   command_allowlist.json /allow/0/match/0: the rule does not match its own example: "tool --all"
    !   command_allowlist.json /allow/0/not_match/0: the rule matches it all the same: "tool"
    ! next: fix them (norma help gates), or delete a file to use the built-in one; then: norma trust
    [exit 4]
    "#);
}
