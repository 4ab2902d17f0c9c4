//! Repositories of every kind, and changes of every kind in them.

use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use serde_json::json;
use std::process::Command;

/// Makes the state directory, a task and a script that patches and passes, in whatever repository is there.
fn prepare(env: &TestEnvironment, patch: &str) {
    env.norma(&["init"]).success();
    env.norma(&["task", "add", "change it", "--ac", "it holds"]).success();
    env.script(json!({"check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]], "act": [[{"patch": patch}]]}));
}

fn clean(env: &TestEnvironment) {
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma"]), "");
}

#[test]
fn a_repository_with_sha256_objects() {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet", "--object-format=sha256"]);
    env.write("src/lib.txt", "one\ntwo\nthree\n");
    env.commit("first");
    prepare(&env, PATCH);
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    assert_eq!(env.last()["landed"].as_str().unwrap().len(), 64);
    env.git(&["fsck"]);
    clean(&env);
}

#[test]
fn a_linked_worktree() {
    let mut env = TestEnvironment::initialized();
    let linked = env.dir.join("linked");
    env.git(&["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    env.root = linked;
    prepare(&env, PATCH);
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    assert_eq!(env.git(&["rev-parse", "side"]), env.last()["landed"].as_str().unwrap());
    assert_ne!(env.git(&["rev-parse", "main"]), env.git(&["rev-parse", "side"]));
    clean(&env);
}

#[test]
fn a_long_path_with_spaces_and_letters() {
    let mut env = TestEnvironment::bare();
    let name = format!("a path – with {} letters", "ü".repeat(60));
    env.root = env.dir.join(&name).join("and more of it").join("x".repeat(100));
    std::fs::create_dir_all(&env.root).unwrap();
    env.git(&["init", "--quiet"]);
    env.write("src/lib.txt", "one\ntwo\nthree\n");
    env.write("ein Pfad/ö.txt", "x\n");
    env.commit("first");
    prepare(&env, PATCH);
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    clean(&env);
}

#[test]
fn a_bare_repository_is_refused() {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet", "--bare"]);
    insta::assert_snapshot!(env.norma(&["init"]), @r"
    ! error: $DIR/repo is in a bare repository, which has no files to work on
    ! next: make a checkout of it: git clone, or git worktree add
    [exit 4]
    ");
}

/// An agent that writes what the attributes ask for in a checkout, and one under `core.autocrlf`; what says nothing stays.
#[test]
fn what_an_agent_writes_with_crlf_is_stored_as_git_would_store_it() {
    let script = r"for file in a.txt b.raw c; do printf 'a\r\nb\r\n' > src/$file; done";
    for (autocrlf, plain) in [("true", "a\nb"), ("false", "a\r\nb")] {
        let env = with_worker(script);
        env.git(&["config", "core.autocrlf", autocrlf]);
        env.write(".gitattributes", "*.txt text eol=crlf\n*.raw -text\n");
        env.commit("attributes");
        batch(&env, &[item("a", json!({"allowed_paths": ["src"]}))], 0);
        let stored = |path: &str| env.git(&["cat-file", "blob", &format!("HEAD:{path}")]);
        assert_eq!([stored("src/a.txt"), stored("src/b.raw")], ["a\nb", "a\r\nb"]);
        assert_eq!(stored("src/c"), plain, "core.autocrlf {autocrlf}");
        assert_eq!(env.read("src/a.txt"), "a\r\nb\r\n");
        assert_eq!(env.git(&["status", "--porcelain", "src"]), "");
        env.norma(&["verify", "@last"]).success();
        env.norma(&["replay", "@last"]).success();
    }
}

#[test]
fn line_endings_of_the_users_checkout_are_kept() {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet"]);
    env.git(&["config", "core.autocrlf", "true"]);
    env.write("src/lib.txt", "one\r\ntwo\r\nthree\r\n");
    env.commit("first");
    prepare(&env, PATCH);
    env.norma(&["run", "1"]).success();
    assert_eq!(env.git(&["cat-file", "blob", "HEAD:src/lib.txt"]), "one\nTWO\nthree");
    assert_eq!(env.read("src/lib.txt"), "one\r\nTWO\r\nthree\r\n");
    clean(&env);
}

#[test]
fn files_are_made_removed_renamed_and_made_executable_and_all_of_it_is_taken_back() {
    let patch = "diff --git a/src/lib.txt b/lib/renamed.txt\nsimilarity index 50%\nrename from src/lib.txt\nrename to lib/renamed.txt\n--- a/src/lib.txt\n+++ b/lib/renamed.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n\
                 diff --git a/README.md b/README.md\ndeleted file mode 100644\n--- a/README.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-hello\n\
                 diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+#!/bin/sh\n\
                 diff --git a/old.sh b/old.sh\nold mode 100644\nnew mode 100755\n";
    let env = TestEnvironment::initialized();
    env.write("old.sh", "#!/bin/sh\n");
    env.commit("a script");
    prepare(&env, patch);
    let before = env.repository();
    env.norma(&["run", "1"]).success();
    insta::assert_snapshot!(env.git(&["show", "--format=", "--summary", "--no-renames", "HEAD"]), @r"
    delete mode 100644 README.md
    create mode 100644 lib/renamed.txt
    mode change 100644 => 100755 old.sh
    create mode 100755 run.sh
    delete mode 100644 src/lib.txt
    ");
    clean(&env);
    assert!(!env.root.join("src").exists(), "empty directories go with their files");
    env.norma(&["undo", "@last"]).success();
    let mut after = env.repository();
    after.insert(".git/index".into(), before[".git/index"].clone());
    assert_eq!(after, before);
    clean(&env);
}

#[test]
fn a_file_of_the_users_that_git_does_not_know_is_never_overwritten() {
    let new = "--- /dev/null\n+++ b/notes/a.txt\n@@ -0,0 +1 @@\n+theirs\n";
    for (path, ignored) in
        [("notes/a.txt", false), ("notes", false), ("notes/a.txt", true), ("notes/a.txt/deep.txt", false)]
    {
        let env = TestEnvironment::initialized();
        if ignored {
            env.write(".gitignore", "notes\n");
            env.commit("ignore");
        }
        prepare(&env, new);
        env.write(path, "mine\n");
        let output = env.norma(&["run", "1"]);
        output.success();
        assert_eq!(env.read(path), "mine\n", "{path}: {output}");
        assert!(output.raw.contains("the result is on branch"), "{path}: {output}");
        env.norma(&["land", "@last"]).exits(1);
        assert_eq!(env.read(path), "mine\n");
    }
}

#[test]
fn a_change_that_is_staged_is_not_overwritten() {
    let env = TestEnvironment::initialized();
    prepare(&env, PATCH);
    env.write("src/lib.txt", "staged\n");
    env.git(&["add", "src/lib.txt"]);
    env.write("src/lib.txt", "one\ntwo\nthree\n");
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    assert!(output.success().raw.contains("your uncommitted changes are in the way"), "{output}");
    let after = env.repository();
    assert_eq!((&after[".git/index"], &after["src/lib.txt"]), (&before[".git/index"], &before["src/lib.txt"]));
}

#[test]
fn a_merge_in_progress_is_left_alone() {
    let env = TestEnvironment::initialized();
    env.git(&["checkout", "--quiet", "-b", "other"]);
    env.write("README.md", "theirs\n");
    env.commit("theirs");
    env.git(&["checkout", "--quiet", "main"]);
    env.write("README.md", "ours\n");
    env.commit("ours");
    let merge = Command::new("git").args(["merge", "other"]).current_dir(&env.root).env_clear().envs(&env.env).output();
    assert!(!merge.unwrap().status.success(), "the test wants a conflict");
    prepare(&env, PATCH);
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    insta::assert_snapshot!(output.out().lines().skip(2).filter(|line| !line.contains("did its part")).collect::<Vec<_>>().join("\n"), @"
    your uncommitted files stay yours and are not part of the run: README.md
              verdict FAIL
              patch applied: src/lib.txt
              verdict PASS
              not landed: a merge is in progress
    PASS in iteration 2 · the result is on branch norma/<run>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: take it: norma land <run>, or git merge norma/<run> · look: norma diff <run>
    ");
    let after = env.repository();
    assert_eq!(after["README.md"], before["README.md"]);
    assert!(env.root.join(".git/MERGE_HEAD").exists());
}

#[test]
fn a_partial_clone_is_named_with_the_command_that_makes_it_whole() {
    let env = with_worker("echo a > a.txt");
    env.git(&["config", "uploadpack.allowFilter", "true"]);
    let clone = env.dir.join("partial");
    let (source, target) = (format!("file://{}", env.root.display()), clone.display().to_string());
    env.git(&["clone", "--quiet", "--no-checkout", "--filter=blob:none", &source, &target]);
    env.norma_in(&clone, &["init"]).success();
    std::fs::copy(env.root.join(".norma/config.json"), clone.join(".norma/config.json")).unwrap();
    env.norma_in(&clone, &["trust"]).success();
    std::fs::write(clone.join("items.json"), json!([item("a", json!({"allowed_paths": ["a.txt"]}))]).to_string())
        .unwrap();
    let refused = env.norma_in(&clone, &["batch", "items.json"]);
    let said = refused.exits(4).to_string();
    assert!(said.contains("this is a partial clone:") && said.contains("git fetch --refetch --no-filter"), "{said}");
    assert!(env.norma_in(&clone, &["doctor"]).to_string().contains("partial clone"));
    assert_eq!(env.norma_in(&clone, &["runs", "--json"]).raw.trim(), "[]");
    env.git(&["-C", &target, "fetch", "--quiet", "--refetch", "--no-filter"]);
    env.norma_in(&clone, &["batch", "items.json"]).success();
}
