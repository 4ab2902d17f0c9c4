//! Hooks in real repositories: commits and pushes by hand, within the active contract and outside of it.

use crate::environment::TestEnvironment;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A contract that lets these paths change.
fn contract(allowed_paths: &[&str]) -> Value {
    let agent = json!({"role": "WORKER", "agent_id": "agent-1"});
    json!({
        "task_id": "task-0001", "owner_agent": agent, "assigned_agent": agent,
        "inputs": {"spec": "do it", "artifacts": []}, "required_outputs": [], "allowed_paths": allowed_paths,
        "forbidden_actions": [], "acceptance_tests": [{"name": "t", "cmd": "make test", "must_pass": true}],
        "tool_permissions": {"filesystem": "workspace-write", "shell": "never", "network": "deny", "mcp_tools": []},
        "timeout_retry": {"timeout_sec": 60, "max_retries": 0, "retry_backoff_sec": 0},
        "rollback": {"strategy": "worktree_drop", "baseline_ref": "HEAD"}, "evidence_links": [],
        "log_refs": {"run_id": "", "paths": {}}, "mcp_tool_set": ["codex"],
    })
}

/// A repository with hooks, and a contract that lets `src` change.
fn hooked() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.write(".norma/active/contract.json", &contract(&["src"]).to_string());
    env.norma(&["hooks", "install"]).success();
    env
}

/// What git says, and whether it did what it was told.
struct Said {
    done: bool,
    text: String,
}

impl Said {
    #[track_caller]
    fn done(&self) -> &Said {
        assert!(self.done, "{}", self.text);
        self
    }

    #[track_caller]
    fn refused(&self, why: &str) -> &Said {
        assert!(!self.done && self.text.contains(why), "{why:?} is not in: {}", self.text);
        self
    }
}

fn git_in(env: &TestEnvironment, dir: &Path, args: &[&str]) -> Said {
    let output = Command::new("git").args(args).current_dir(dir).env_clear().envs(&env.env).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    Said { done: output.status.success(), text: env.redact(&text) }
}

fn git(env: &TestEnvironment, args: &[&str]) -> Said {
    git_in(env, &env.root, args)
}

/// Makes a hook that writes what it is told to a file and ends with this code.
fn own_hook(env: &TestEnvironment, dir: &Path, name: &str, code: u8) {
    std::fs::create_dir_all(dir).unwrap();
    let (path, heard) = (dir.join(name), env.at(&format!("heard-{name}")));
    std::fs::write(&path, format!("#!/bin/sh\n{{ echo \"$@\"; cat; }} >> {heard}\nexit {code}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_commit_within_the_contract_is_made_and_one_outside_is_refused() {
    let env = hooked();
    env.write("src/lib.txt", "changed\n");
    git(&env, &["add", "src"]);
    git(&env, &["commit", "-m", "within"]).done();
    let head = env.git(&["rev-parse", "HEAD"]);
    env.write("README.md", "changed\n");
    env.write("src/more.txt", "more\n");
    git(&env, &["add", "README.md", "src"]);
    insta::assert_snapshot!(git(&env, &["commit", "-m", "outside"]).refused("").text, @r"
    error: refused: outside the active contract task-0001
      commit: outside_scope: README.md: it is outside the allowed paths (src)
    next: leave it out, or activate a contract that allows it: norma contract activate FILE (norma help hooks)
    ");
    assert_eq!(env.git(&["rev-parse", "HEAD"]), head);
    git(&env, &["commit", "--no-verify", "-m", "git's own way"]).done();
}

#[test]
fn both_sides_of_a_move_links_binaries_and_protected_paths_are_judged() {
    let env = hooked();
    env.git(&["config", "diff.ignoreSubmodules", "all"]);
    for (make, rule) in [
        ("git mv README.md src/README.md", "outside_scope: README.md"),
        ("ln -s /etc/passwd src/link && git add src", "symlink: src/link"),
        ("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),src/sub", "submodule: src/sub"),
        ("printf 'a\\0b' > src/bin && git add src", "binary: src/bin"),
        ("echo x > src/.gitmodules && git add src", "protected_path: src/.gitmodules"),
        ("git add -f .norma/config.json", "state_directory: .norma/config.json"),
        ("git rm -q README.md", "outside_scope: README.md"),
    ] {
        let made = Command::new("sh").args(["-c", make]).current_dir(&env.root).env_clear().envs(&env.env).status();
        assert!(made.unwrap().success(), "{make}");
        git(&env, &["commit", "-m", "x"]).refused(rule);
        git(&env, &["reset", "-q", "--hard"]).done();
        git(&env, &["clean", "-qfd", "--", "src"]).done();
    }
}

#[test]
fn what_is_judged_is_what_would_be_committed() {
    let env = hooked();
    env.write("README.md", "changed\n");
    env.write("src/lib.txt", "changed\n");
    git(&env, &["commit", "-a", "-m", "everything"]).refused("outside_scope: README.md");
    git(&env, &["add", "README.md"]);
    git(&env, &["commit", "-m", "only this", "--", "src/lib.txt"]).done();
    assert_eq!(env.git(&["show", "--name-only", "--format=", "HEAD"]), "src/lib.txt");
    git(&env, &["commit", "-m", "the rest"]).refused("outside_scope: README.md");
}

#[test]
fn judging_changes_nothing_and_runs_no_filter() {
    let env = hooked();
    env.write("src/new.txt", "new\n");
    // A file that is newer than the index is one that git looks at again, through its filters, when it writes an index.
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(1 << 20);
    std::fs::File::options().write(true).open(env.root.join("src/new.txt")).unwrap().set_modified(ahead).unwrap();
    git(&env, &["add", "src"]);
    env.write(".git/info/attributes", "* filter=evil\n");
    env.git(&["config", "filter.evil.clean", &format!("sh -c 'touch {}; cat'", env.at("filtered"))]);
    env.git(&["config", "filter.evil.required", "true"]);
    let objects = || std::fs::read_dir(env.root.join(".git/objects")).unwrap().count();
    let (before, count) = (std::fs::read(env.root.join(".git/index")).unwrap(), objects());
    env.norma(&["hooks", "run", "pre-commit"]).success();
    assert_eq!(std::fs::read(env.root.join(".git/index")).unwrap(), before);
    assert_eq!(objects(), count);
    assert!(!env.dir.join("filtered").exists());
}

#[test]
fn the_first_commit_and_a_split_index_are_judged_too() {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet"]);
    env.norma(&["init"]).success();
    env.write(".norma/active/contract.json", &contract(&["src"]).to_string());
    env.norma(&["hooks", "install"]).success();
    env.git(&["config", "core.splitIndex", "true"]);
    env.write("src/a.txt", "a\n");
    env.write("b.txt", "b\n");
    git(&env, &["add", "src", "b.txt"]).done();
    git(&env, &["commit", "-m", "first"]).refused("outside_scope: b.txt");
    git(&env, &["rm", "-q", "--cached", "b.txt"]).done();
    git(&env, &["commit", "-m", "first"]).done();
}

#[test]
fn without_a_contract_that_can_be_read_everything_is_refused() {
    let env = hooked();
    let active = env.root.join(".norma/active/contract.json");
    let mut empty = contract(&[]);
    empty["allowed_paths"] = json!([]);
    git(&env, &["commit", "--allow-empty", "-m", "x"]).done();
    for (text, why) in [
        ("{", "is not valid"),
        ("{}", "is not valid"),
        (&empty.to_string(), "/allowed_paths"),
        (&contract(&["src", "**"]).to_string(), "/allowed_paths/1"),
        (&contract(&["/"]).to_string(), "would allow the whole repository"),
    ] {
        std::fs::write(&active, text).unwrap();
        git(&env, &["commit", "--allow-empty", "-m", "x"]).refused(why).refused("norma contract activate FILE");
    }
    std::fs::rename(&active, env.root.join(".norma/active/other.json")).unwrap();
    std::os::unix::fs::symlink("other.json", &active).unwrap();
    git(&env, &["commit", "--allow-empty", "-m", "x"]).refused("it is not a regular file");
    std::fs::remove_file(&active).unwrap();
    insta::assert_snapshot!(git(&env, &["commit", "--allow-empty", "-m", "x"]).refused("").text, @r"
    error: there is no active contract at .norma/active/contract.json
    next: norma contract activate FILE; git's own way around a hook is --no-verify
    ");
    insta::assert_snapshot!(env.norma(&["hooks", "status"]), @r"
    pre-commit  enforce
    pre-push    enforce
    the active contract is gone, so they refuse everything: norma contract activate FILE
    [exit 0]
    ");
}

#[test]
fn hooks_without_a_contract_refuse_nothing_until_one_is_active() {
    let env = TestEnvironment::initialized();
    insta::assert_snapshot!(env.norma(&["hooks", "install"]), @"
    pre-commit  enforce
    pre-push    enforce
    no contract is active, so nothing is refused until one is: norma contract activate FILE
    [exit 0]
    ");
    let said = git(&env, &["commit", "--allow-empty", "-m", "x"]);
    assert!(said.done().text.contains("no contract is active"), "{}", said.text);
    env.write(".norma/active/contract.json", &contract(&["src"]).to_string());
    env.write("README.md", "changed\n");
    env.git(&["add", "README.md"]);
    git(&env, &["commit", "-m", "x"]).refused("outside_scope: README.md");
    env.norma(&["contract", "clear"]).success();
    git(&env, &["commit", "-m", "x"]).done();
}

#[test]
fn policies_that_nobody_trusts_judge_nothing() {
    let env = hooked();
    env.write(".norma/policies/protected_paths.json", r#"{"rules":[]}"#);
    git(&env, &["commit", "--allow-empty", "-m", "x"]).refused("are not trusted");
    env.norma(&["trust"]).success();
    git(&env, &["commit", "--allow-empty", "-m", "x"]).done();
}

#[test]
fn in_advisory_mode_it_is_only_told() {
    let env = hooked();
    env.norma(&["hooks", "install", "--mode", "advisory"]).success();
    env.write("README.md", "changed\n");
    let said = git(&env, &["commit", "-a", "-m", "x"]);
    assert!(said.done().text.contains("warning: outside the active contract task-0001"), "{}", said.text);
    std::fs::remove_file(env.root.join(".norma/active/contract.json")).unwrap();
    let said = git(&env, &["commit", "--allow-empty", "-m", "x"]);
    assert!(said.done().text.contains("there is no active contract"), "{}", said.text);
}

#[test]
fn hooks_that_were_there_run_first_and_come_back() {
    let env = TestEnvironment::initialized();
    env.write(".norma/active/contract.json", &contract(&["src"]).to_string());
    let dir = env.root.join(".git/hooks");
    own_hook(&env, &dir, "pre-commit", 0);
    let before = std::fs::read(dir.join("pre-commit")).unwrap();
    for _ in 0..2 {
        insta::allow_duplicates! {
            insta::assert_snapshot!(env.norma(&["hooks", "install"]), @r"
            pre-commit  enforce; runs .git/hooks/pre-commit.before-norma first
            pre-push    enforce
            [exit 0]
            ");
        }
    }
    assert_eq!(std::fs::read(dir.join("pre-commit.before-norma")).unwrap(), before);
    git(&env, &["commit", "--allow-empty", "-m", "x"]).done();
    env.wait_for("heard-pre-commit");
    own_hook(&env, &dir, "pre-commit.before-norma", 7);
    let said = git(&env, &["commit", "--allow-empty", "-m", "x"]);
    assert!(!said.done, "{}", said.text);
    insta::assert_snapshot!(env.norma(&["hooks", "uninstall"]), @r"
    pre-commit  not installed
    pre-push    not installed
    next: norma hooks install
    [exit 0]
    ");
    assert!(dir.join("pre-commit").is_file() && !dir.join("pre-push").exists());
    assert!(!dir.join("pre-commit.before-norma").exists());
    env.norma(&["hooks", "uninstall"]).success();
    assert!(dir.join("pre-commit").is_file(), "a hook that is not norma's is left alone");
}

#[test]
fn nothing_that_somebody_wrote_is_lost() {
    let env = hooked();
    let dir = env.root.join(".git/hooks");
    let ours = env.read(".git/hooks/pre-commit");
    env.write(".git/hooks/pre-commit", &format!("{ours}echo mine\n"));
    for verb in ["install", "uninstall"] {
        let output = env.norma(&["hooks", verb]);
        assert!(output.exits(1).raw_err.contains("was changed since norma wrote it"), "{output}");
        assert!(env.read(".git/hooks/pre-commit").ends_with("echo mine\n"));
        assert!(dir.join("pre-push").is_file(), "both or none");
    }
    own_hook(&env, &dir, "pre-commit", 0);
    own_hook(&env, &dir, "pre-commit.before-norma", 0);
    let output = env.norma(&["hooks", "install"]);
    assert!(output.exits(1).raw_err.contains("are both there, and neither is norma's"), "{output}");
}

#[test]
fn the_hooks_path_of_the_repository_counts_and_that_of_all_repositories_is_left_alone() {
    let env = TestEnvironment::initialized();
    env.write(".norma/active/contract.json", &contract(&["src"]).to_string());
    env.git(&["config", "--global", "core.hooksPath", &env.at("everybody")]);
    let output = env.norma(&["hooks", "install"]);
    assert!(output.exits(1).raw_err.contains("core.hooksPath is set in the global configuration"), "{output}");
    assert!(!env.dir.join("everybody").exists());
    env.git(&["config", "core.hooksPath", "tools/hooks"]);
    env.norma(&["hooks", "install"]).success();
    assert!(env.root.join("tools/hooks/pre-commit").is_file());
    git(&env, &["add", "tools"]);
    git(&env, &["commit", "-m", "x"]).refused("outside_scope: tools/hooks/pre-commit");
}

/// A hooked repository whose remote `origin` has what it has, with a commit inside and one outside the contract.
fn with_remote() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    env.git(&["init", "--quiet", "--bare", &env.at("origin.git")]);
    env.git(&["remote", "add", "origin", &env.at("origin.git")]);
    env.git(&["push", "--quiet", "origin", "main"]);
    env.write(".norma/active/contract.json", &contract(&["src"]).to_string());
    env.write("src/lib.txt", "changed\n");
    env.commit("inside");
    env.git(&["branch", "inside"]);
    env.write("README.md", "changed\n");
    env.commit("outside");
    own_hook(&env, &env.root.join(".git/hooks"), "pre-push", 0);
    env.norma(&["hooks", "install"]).success();
    env
}

#[test]
fn a_push_is_judged_by_what_it_brings() {
    let env = with_remote();
    let there = |name: &str| git(&env, &["ls-remote", "--exit-code", "origin", name]).done;
    git(&env, &["push", "origin", "main"]).refused("refs/heads/main: outside_scope: README.md");
    git(&env, &["push", "origin", "main:refs/heads/new"]).refused("refs/heads/new: outside_scope: README.md");
    git(&env, &["push", "origin", "inside", "main"]).refused("refs/heads/main: outside_scope: README.md");
    assert!(!there("refs/heads/new") && !there("refs/heads/inside"));
    git(&env, &["push", "origin", "inside:main", "inside:refs/heads/new"]).done();
    env.git(&["tag", "-a", "-m", "v1", "v1", "inside"]);
    git(&env, &["push", "origin", "v1"]).done();
    git(&env, &["push", "origin", ":refs/heads/new"]).done();
    assert!(there("refs/tags/v1") && !there("refs/heads/new"));
    // An earlier hook hears exactly what git says.
    let heard = std::fs::read_to_string(env.dir.join("heard-pre-push")).unwrap();
    let last: Vec<&str> = heard.lines().rev().take(2).collect();
    assert!(last[0].starts_with("(delete) ") && last[1] == format!("origin {}", env.at("origin.git")), "{heard}");
    git(&env, &["push", "origin", "inside:main"]).done();
    let heard = std::fs::read_to_string(env.dir.join("heard-pre-push")).unwrap();
    assert!(heard.ends_with(&format!("origin {}\n", env.at("origin.git"))), "nothing to push, nothing said: {heard}");
}

#[test]
fn a_push_that_cannot_be_compared_is_refused() {
    let env = with_remote();
    // To a place that nothing is known of, everything is new.
    env.git(&["init", "--quiet", "--bare", &env.at("other.git")]);
    git(&env, &["push", &env.at("other.git"), "inside"]).refused("refs/heads/inside: outside_scope: README.md");
    env.git(&["tag", "of-a-tree", "HEAD^{tree}"]);
    git(&env, &["push", "origin", "of-a-tree"]).refused("is no commit that is here");
    // Somebody else moved the branch, and this repository does not know where to.
    let clone = env.dir.join("clone");
    env.git(&["clone", "--quiet", &env.at("origin.git"), &env.at("clone")]);
    git_in(&env, &clone, &["commit", "--allow-empty", "-m", "theirs"]).done();
    git_in(&env, &clone, &["push", "origin", "HEAD:main"]).done();
    git(&env, &["push", "--force", "origin", "inside:main"]).refused("git fetch");
}

#[test]
fn a_linked_work_tree_is_held_to_the_contract_of_the_main_one_unless_it_has_its_own() {
    let env = hooked();
    let linked = env.dir.join("linked");
    env.git(&["worktree", "add", "--quiet", &env.at("linked")]);
    let change = |name: &str| {
        std::fs::write(linked.join(name), "changed in the linked one\n").unwrap();
        git_in(&env, &linked, &["add", name]).done();
    };
    change("src/lib.txt");
    git_in(&env, &linked, &["commit", "-m", "inside"]).done();
    change("README.md");
    git_in(&env, &linked, &["commit", "-m", "outside"]).refused("outside_scope: README.md");
    assert!(!linked.join(".norma").exists());
    env.norma_in(&linked, &["init"]).success();
    let own = linked.join(".norma/active");
    std::fs::create_dir(&own).unwrap();
    git_in(&env, &linked, &["commit", "-m", "outside"]).refused("there is no active contract");
    std::fs::write(own.join("contract.json"), contract(&["README.md"]).to_string()).unwrap();
    git_in(&env, &linked, &["commit", "-m", "its own"]).done();
}

#[test]
fn a_hook_judges_only_the_repository_that_git_works_on() {
    let env = hooked();
    let (other, git_dir) = (env.dir.join("other"), format!("--git-dir={}", env.root.join(".git").display()));
    std::fs::create_dir(&other).unwrap();
    git_in(&env, &other, &["init", "--quiet"]).done();
    let args = [&git_dir, "--work-tree=.", "commit", "--allow-empty", "-m", "x"];
    git_in(&env, &other, &args).refused("git works on another repository");
}
