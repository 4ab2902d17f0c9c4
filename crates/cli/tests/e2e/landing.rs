//! Patches and landings: what may reach the user's branch, what may not, and how it is taken back.

use crate::environment::{PATCH, TestEnvironment};
use serde_json::{Value, json};

/// Runs task 1, whose act proposes this, and checks that it is refused and nothing of the user's changed.
#[track_caller]
fn refused(env: &TestEnvironment, status: &str, reason: &str) -> String {
    let before = env.repository();
    env.norma(&["run", "1"]).exits(1);
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!(status), &json!(reason)), "{run}");
    assert_eq!(env.repository(), before);
    assert_eq!(run["result"], Value::Null);
    let dropped = env.event("change_dropped");
    assert!(env.run_dir().join("changes/001/patch.diff").is_file());
    env.norma(&["verify", "@last"]).success();
    dropped["findings"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

fn new_file(path: &str, mode: &str, line: &str) -> String {
    format!("diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n")
}

#[test]
fn a_patch_that_may_not_be_is_refused_and_leaves_no_trace() {
    let gitlink = "Subproject commit 304dc8e7a3468edecb0f614870036c41f6494aa5";
    let binary =
        "diff --git a/b b/b\nnew file mode 100644\nindex 0000000..1\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n";
    let cases = [
        ("does not apply", PATCH.replace("-two", "-deux"), "failed", "patch_failed"),
        ("..", new_file("../outside.txt", "100644", "x"), "denied", "policy_violation"),
        (
            "absolute",
            PATCH.replace("b/src/lib.txt", "/etc/passwd").replace("a/src/lib.txt", "/etc/passwd"),
            "denied",
            "policy_violation",
        ),
        (".git", new_file(".git/hooks/post-checkout", "100755", "evil"), "denied", "policy_violation"),
        (".GIT", new_file("sub/.GIT/config", "100644", "evil"), "denied", "policy_violation"),
        ("state directory", new_file(".norma/config.json", "100644", "{}"), "denied", "policy_violation"),
        ("symlink", new_file("link", "120000", "/etc/passwd"), "denied", "policy_violation"),
        ("gitlink", new_file("sub", "160000", gitlink), "denied", "policy_violation"),
        ("binary", binary.to_owned(), "denied", "policy_violation"),
        ("NUL", new_file("nul.txt", "100644", "a\0b"), "denied", "policy_violation"),
        (
            "control characters",
            new_file("\"a\\nb\"", "100644", "x").replace("a/\"a", "\"a/a").replace("b/\"a", "\"b/a"),
            "denied",
            "policy_violation",
        ),
    ];
    let mut said = Vec::new();
    for (what, patch, status, reason) in cases {
        let env = TestEnvironment::with_patch(&patch);
        let why = refused(&env, status, reason);
        said.push(format!("{what}: {}", why.lines().next().unwrap_or_default()));
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    does not apply: the patch does not apply: error: patch failed: src/lib.txt:1; error: src/lib.txt: patch does not apply
    ..: the patch names "a/../outside.txt": it leaves its directory
    absolute: the patch names "/etc/passwd": it is absolute
    .git: the patch names "a/.git/hooks/post-checkout": it names a git directory
    .GIT: the patch names "a/sub/.GIT/config": it names a git directory
    state directory: .norma/config.json: the state directory is not for agents
    symlink: link: symbolic links are refused, unless allowed_paths names the link itself and it leads to something inside the scope
    gitlink: sub: submodules are refused
    binary: the patch has a binary section
    NUL: nul.txt: Windows takes "nul.txt" for a device; nul.txt: binary content is refused; a contract can allow it (scope.allow_binary)
    control characters: a\nb: path "a\nb" contains the control character U+000A
    "#);
}

#[test]
fn an_empty_patch_changes_nothing() {
    let env = TestEnvironment::with_patch("");
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    assert!(output.success().raw.contains("the patch changes nothing"), "{output}");
    assert_eq!(env.repository(), before);
}

#[test]
fn a_huge_patch_is_refused_without_being_read_whole() {
    let env = TestEnvironment::with_patch("");
    env.script(json!({
        "check": [[{"verdict": "FAIL"}]],
        "act": [[{"shell": "head -c 3000000 /dev/zero | tr '\\0' 'x' > '{step_dir}/patch.diff'"}]],
    }));
    env.configure(|config| config["limits"] = json!({"change_mb": 1}));
    insta::assert_snapshot!(refused(&env, "denied", "policy_violation"), @"the patch has 1048577 bytes, 1048576 are allowed");
}

#[test]
fn a_small_patch_that_would_make_much_is_refused() {
    let env = TestEnvironment::initialized();
    env.write("large.txt", &"x\n".repeat(300_000));
    env.commit("a large file");
    env.norma(&["task", "add", "inflate", "--ac", "it is small"]).success();
    let copies: Vec<String> = (0..8)
        .map(|n| format!("diff --git a/large.txt b/copy{n}.txt\nsimilarity index 100%\ncopy from large.txt\ncopy to copy{n}.txt\n"))
        .collect();
    env.script(json!({"check": [[{"verdict": "FAIL"}]], "act": [[{"patch": copies.concat()}]]}));
    env.configure(|config| config["limits"] = json!({"change_mb": 1}));
    insta::assert_snapshot!(refused(&env, "denied", "policy_violation"), @"the patch would make 4800760 bytes, 1048576 are allowed");
}

#[test]
fn uncommitted_files_that_are_not_in_the_way_stay_as_they_are() {
    let env = TestEnvironment::with_patch(PATCH);
    env.write("README.md", "hello, and more\n");
    env.write("notes.txt", "mine\n");
    env.write("staged.txt", "staged\n");
    env.git(&["add", "staged.txt"]);
    let output = env.norma(&["run", "1"]);
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
    your uncommitted files stay yours and are not part of the run: README.md, staged.txt, notes.txt
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · landed main <hash>→<hash>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.read("README.md"), "hello, and more\n");
    assert_eq!(env.read("notes.txt"), "mine\n");
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    let status = env.git(&["status", "--porcelain", "--", ":!.norma"]);
    insta::assert_snapshot!(status, @r"
     M README.md
    A  staged.txt
    ?? notes.txt
    ");
    assert_eq!(env.git(&["show", "--format=", "--name-only", "HEAD"]), "src/lib.txt");
}

#[test]
fn a_landing_that_would_touch_an_uncommitted_file_is_declined_and_can_be_taken_later() {
    let env = TestEnvironment::with_patch(PATCH);
    env.write("src/lib.txt", "mine\n");
    let before = env.repository();
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
    your uncommitted files stay yours and are not part of the run: src/lib.txt
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
              not landed: your uncommitted changes are in the way: src/lib.txt
    PASS in iteration 2 · the result is on branch norma/<run>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: take it: norma land <run>, or git merge norma/<run> · look: norma diff <run>
    [exit 0]
    ");
    let mut after = env.repository();
    let run = env.last();
    let branch = format!("norma/{}", run["run_id"].as_str().unwrap());
    assert_eq!(env.git(&["rev-parse", &branch]), run["result"].as_str().unwrap());
    let refs = after.get_mut("refs").unwrap();
    *refs = refs.replace(&format!("\nrefs/heads/{branch} {}", run["result"].as_str().unwrap()), "");
    assert_eq!(after, before);
    // As long as it is in the way, asking again changes nothing.
    insta::assert_snapshot!(env.norma(&["land", "@last"]), @r"
    ! error: your uncommitted changes are in the way: src/lib.txt
    ! next: merge it yourself: git merge norma/<run>
    [exit 1]
    ");
    assert_eq!(env.read("src/lib.txt"), "mine\n");
    env.git(&["checkout", "--quiet", "--", "src/lib.txt"]);
    insta::assert_snapshot!(env.norma(&["land", "@last"]), @r"
    landed on main; undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    assert_eq!(env.git(&["rev-parse", "main"]), run["result"].as_str().unwrap());
    assert_eq!(env.git(&["branch", "--list", "norma/*"]), "");
    insta::assert_snapshot!(env.norma(&["land", "@last"]), @r"
    ! error: run <run> is on main already
    ! next: take it back: norma undo <run>
    [exit 1]
    ");
    let landed = env.last();
    assert_eq!(landed["landed"], run["result"]);
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn mode_branch_leaves_the_result_on_a_branch_of_its_own() {
    let env = TestEnvironment::with_patch(PATCH);
    env.configure(|config| config["landing"] = json!({"mode": "branch"}));
    let head = env.git(&["rev-parse", "HEAD"]);
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · the result is on branch norma/<run>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: take it: norma land <run>, or git merge norma/<run> · look: norma diff <run>
    [exit 0]
    ");
    assert_eq!(env.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(env.last()["landed"], Value::Null);
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
    let branch = format!("norma/{}", env.last()["run_id"].as_str().unwrap());
    assert_eq!(env.git(&["show", &format!("{branch}:src/lib.txt")]), "one\nTWO\nthree");
    env.git(&["merge", "--quiet", "--ff-only", &branch]);
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    env.git(&["reset", "--quiet", "--hard", &head]);
    insta::assert_snapshot!(env.norma(&["undo", "@last"]), @r"
    norma/<run> is gone again
    [exit 0]
    ");
    assert_eq!(env.git(&["branch", "--list", "norma/*"]), "");
}

#[test]
fn a_detached_head_is_a_place_to_land_on() {
    let env = TestEnvironment::with_patch(PATCH);
    env.git(&["checkout", "--quiet", "--detach"]);
    let main = env.git(&["rev-parse", "main"]);
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base detached HEAD <hash> · sandbox native
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · landed HEAD <hash>→<hash>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.git(&["rev-parse", "main"]), main);
    assert_eq!(env.git(&["rev-parse", "HEAD"]), env.last()["landed"].as_str().unwrap());
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    env.norma(&["undo", "@last"]).success();
    assert_eq!(env.git(&["rev-parse", "HEAD"]), main);
}

#[test]
fn a_branch_that_moved_meanwhile_gets_the_result_on_top() {
    let env = TestEnvironment::new(json!({}));
    let commit =
        format!("cd '{}' && echo more > more.txt && git add more.txt && git commit -qm moved", env.root.display());
    env.script_unconfined(json!({
        "check": [[{"verdict": "FAIL"}], [{"shell": commit}, {"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    }));
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · landed main <hash>→<hash>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.git(&["log", "-2", "--format=%s"]), "make two loud\nmoved");
    assert_eq!((env.read("src/lib.txt"), env.read("more.txt")), ("one\nTWO\nthree\n".into(), "more\n".into()));
    env.norma(&["verify", "@last"]).success();
    env.norma(&["replay", "@last"]).success();
    env.norma(&["undo", "@last"]).success();
    assert_eq!(env.git(&["log", "-1", "--format=%s"]), "moved");
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
}

#[test]
fn another_branch_checked_out_meanwhile_keeps_its_files() {
    let env = TestEnvironment::new(json!({}));
    let switch = format!("cd '{}' && git switch -qc other", env.root.display());
    env.script_unconfined(json!({
        "check": [[{"verdict": "FAIL"}], [{"shell": switch}, {"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    }));
    let main = env.git(&["rev-parse", "main"]);
    insta::assert_snapshot!(env.norma(&["run", "1"]), @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    ok  <took>  do did its part
      3 check ok  <took>  check did its part
              verdict FAIL
      4 act   ok  <took>  act did its part
              patch applied: src/lib.txt
      5 plan  ok  <took>  plan did its part
      6 do    ok  <took>  do did its part
      7 check ok  <took>  check did its part
              verdict PASS
    PASS in iteration 2 · landed main <hash>→<hash>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    evidence: .norma/runs/<run>
    next: look: norma show <run> · undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.git(&["symbolic-ref", "--short", "HEAD"]), "other");
    assert_eq!(env.git(&["rev-parse", "HEAD"]), main);
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma"]), "");
}

#[test]
fn undo_takes_a_landing_back_while_the_branch_is_where_it_was_put() {
    let env = TestEnvironment::with_patch(PATCH);
    let before = env.repository();
    env.norma(&["run", "1"]).success();
    insta::assert_snapshot!(env.norma(&["undo", "@last"]), @r"
    main is back at <hash>
    [exit 0]
    ");
    let mut after = env.repository();
    // The index has the same entries; its bytes hold times of files that were written anew.
    after.insert(".git/index".into(), before[".git/index"].clone());
    assert_eq!(after, before);
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma"]), "");
    assert_eq!(env.last()["landed"], Value::Null);
    insta::assert_snapshot!(env.norma(&["undo", "@last"]), @r"
    ! error: run <run> has not landed
    ! next: look at it: norma show <run>
    [exit 1]
    ");
    // Taken back is not thrown away.
    env.norma(&["land", "@last"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    env.commit("further work");
    let head = env.git(&["rev-parse", "HEAD"]);
    insta::assert_snapshot!(env.norma(&["undo", "@last"]), @r"
    ! error: main has moved meanwhile and is at <hash>
    ! next: revert it by a commit of your own: git revert <hash>
    [exit 1]
    ");
    assert_eq!(env.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
}

#[test]
fn a_run_that_did_not_pass_or_changed_nothing_cannot_land() {
    let env = TestEnvironment::new(json!({"plan": [[{"exit": 1}]]}));
    env.norma(&["run", "1"]).exits(1);
    insta::assert_snapshot!(env.norma(&["land", "@last"]), @r"
    ! error: run <run> is failed; only a run that has passed can land
    ! next: look at it: norma show <run>
    [exit 1]
    ");
    insta::assert_snapshot!(env.norma(&["undo", "@last"]), @r"
    ! error: run <run> has not landed
    ! next: look at it: norma show <run>
    [exit 1]
    ");
    env.script(json!({}));
    env.norma(&["run", "1", "--new"]).success();
    insta::assert_snapshot!(env.norma(&["land", "@last"]), @r"
    ! error: run <run> changed nothing
    ! next: there is nothing to land
    [exit 1]
    ");
}
