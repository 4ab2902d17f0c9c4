//! What happens around a run: a hostile environment, a full disk, strays, and users who clean up meanwhile.

use crate::environment::{Output, PATCH, Running, TestEnvironment};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A run that patches, and whose second check waits for the test: `started` is there while it waits.
fn waiting_run(env: &TestEnvironment) -> Running {
    env.script_unconfined(json!({
        "check": [[{"verdict": "FAIL"}], [
            {"verdict": "PASS"},
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
        ]],
        "act": [[{"patch": PATCH}]],
    }));
    let running = env.spawn(&["run", "1"]);
    env.wait_for("started");
    running
}

/// Keys are in its memory: no core file is written of it.
#[test]
fn norma_leaves_no_core_file() {
    let env = TestEnvironment::with_patch(PATCH);
    let running = waiting_run(&env);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).collect::<Vec<_>>(), ["0", "0", "bytes"]);
    env.touch("go");
    running.wait().success();
}

#[test]
fn variables_of_git_have_no_effect_on_norma() {
    let mut env = TestEnvironment::with_patch(PATCH);
    let canary = env.at("canary");
    let script = env.dir.join("canary.sh");
    std::fs::write(&script, format!("#!/bin/sh\ntouch '{canary}'\n")).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    let script = script.display().to_string();
    for (name, value) in [
        ("GIT_DIR", "/nowhere/.git"),
        ("GIT_WORK_TREE", "/nowhere"),
        ("GIT_INDEX_FILE", "/nowhere/index"),
        ("GIT_OBJECT_DIRECTORY", "/nowhere/objects"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "/nowhere/objects"),
        ("GIT_COMMON_DIR", "/nowhere"),
        ("GIT_NAMESPACE", "canary"),
        ("GIT_EXTERNAL_DIFF", &script),
        ("GIT_PAGER", &script),
        ("GIT_EDITOR", &script),
        ("GIT_SSH_COMMAND", &script),
        ("GIT_ASKPASS", &script),
        ("GIT_EXEC_PATH", "/nowhere"),
        ("GIT_TEMPLATE_DIR", "/nowhere"),
        ("GIT_CONFIG_COUNT", "3"),
        ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
        ("GIT_CONFIG_VALUE_0", &script),
        ("GIT_CONFIG_KEY_1", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_1", "/nowhere"),
        ("GIT_CONFIG_KEY_2", "user.name"),
        ("GIT_CONFIG_VALUE_2", "Canary"),
        ("GIT_CONFIG_PARAMETERS", "'core.bare=true'"),
        ("GIT_TRACE", &env.at("trace")),
        ("GIT_AUTHOR_NAME", "Canary"),
    ] {
        env.env.insert(name.into(), value.into());
    }
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    assert_eq!(env.git(&["log", "-1", "--format=%an %cn"]), "Ada Ada");
    assert!(!Path::new(&canary).exists());
    assert!(!env.dir.join("trace").exists());
    env.norma(&["undo", "@last"]).success();
    assert_eq!(env.git(&["status", "--porcelain", "--", ":!.norma"]), "");
}

#[test]
fn hooks_and_programs_of_the_repository_do_not_run() {
    let env = TestEnvironment::with_patch(PATCH);
    let canary = format!("touch '{}'", env.at("canary"));
    for hook in ["post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"] {
        let path = env.root.join(".git/hooks").join(hook);
        env.write(&format!(".git/hooks/{hook}"), &format!("#!/bin/sh\n{canary}\n"));
        assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
    }
    env.git(&["config", "core.fsmonitor", &canary]);
    env.git(&["config", "diff.external", &canary]);
    env.git(&["config", "core.pager", &canary]);
    env.git(&["config", "gpg.program", &canary]);
    env.git(&["config", "commit.gpgSign", "true"]);
    let _ = std::fs::remove_file(env.at("canary"));
    env.norma(&["run", "1"]).success();
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    assert!(!env.dir.join("canary").exists());
}

#[test]
fn norma_home_moves_the_state_directory() {
    let mut env = TestEnvironment::with_patch(PATCH);
    env.env.insert("NORMA_HOME".into(), env.at("state"));
    insta::assert_snapshot!(env.norma(&["runs"]), @r#"
    ! error: no state directory at $DIR/state
    ! next: start a run: norma run "what you want"; or make one: norma init
    [exit 4]
    "#);
    env.norma(&["init"]).success();
    env.norma(&["task", "add", "elsewhere"]).success();
    std::fs::copy(env.root.join(".norma/config.json"), env.dir.join("state/config.json")).unwrap();
    env.norma(&["trust"]).success();
    let before = std::fs::read_dir(env.root.join(".norma/runs")).unwrap().count();
    env.norma(&["run", "1"]).success();
    assert_eq!(std::fs::read_dir(env.root.join(".norma/runs")).unwrap().count(), before);
    assert!(env.run_dir().starts_with(env.dir.join("state/runs")));
}

#[test]
fn strays_are_moved_to_quarantine_and_nothing_is_deleted() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    env.write(".norma/runs/stray.txt", "whose?\n");
    env.write(".norma/runs/20200101-000000-abcdef/steps/001-plan/output.json", "{}\n");
    std::os::unix::fs::symlink("/etc", env.root.join(".norma/runs/link")).unwrap();
    insta::assert_snapshot!(env.norma(&["task", "add", "another"]).err(), @r"
    recovered: runs/<run> was moved to quarantine/<run>-20200101-000000-abcdef: no run of this name is on record
    recovered: runs/link was moved to quarantine/<run>-link: no run of this name is on record
    recovered: runs/stray.txt was moved to quarantine/<run>-stray.txt: no run of this name is on record
    ");
    assert_eq!(std::fs::read_dir(env.root.join(".norma/runs")).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(env.root.join(".norma/quarantine")).unwrap().count(), 3);
    // Done twice, it finds nothing the second time.
    assert_eq!(env.norma(&["task", "add", "another"]).raw_err, "");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_branch_that_is_deleted_meanwhile_is_not_made_again() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env);
    env.git(&["checkout", "--quiet", "--detach"]);
    env.git(&["branch", "--quiet", "-D", "main"]);
    env.touch("go");
    insta::assert_snapshot!(running.wait(), @"
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
              not landed: main has moved meanwhile and is gone
    PASS in iteration 2 · the result is on branch norma/<run>
    1 file changed, +1 −1
      src/lib.txt  +1 −1
    receipt: <uuid>
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: take it: norma land <run>, or git merge norma/<run> · look: norma diff <run>
    [exit 0]
    ");
    assert_eq!(env.read("src/lib.txt"), "one\ntwo\nthree\n");
    assert_eq!(env.git(&["branch", "--list", "main"]), "");
    let branch = format!("norma/{}", env.last()["run_id"].as_str().unwrap());
    assert_eq!(env.git(&["show", &format!("{branch}:src/lib.txt")]), "one\nTWO\nthree");
}

#[test]
fn a_base_that_the_user_prunes_meanwhile_is_kept_until_the_run_has_ended() {
    let env = TestEnvironment::new(json!({}));
    let base = env.git(&["rev-parse", "HEAD"]);
    let running = waiting_run(&env);
    // What the run changes too, so that its result has to stay on a branch of its own.
    env.write("src/lib.txt", "one\nrewritten\nthree\n");
    env.git(&["commit", "--quiet", "--all", "--amend", "--message", "rewritten"]);
    env.git(&["reflog", "expire", "--expire=now", "--all"]);
    env.git(&["gc", "--quiet", "--prune=now"]);
    env.touch("go");
    let output = running.wait();
    output.success();
    assert_eq!(env.git(&["log", "-1", "--format=%s"]), "rewritten");
    let branch = format!("norma/{}", env.last()["run_id"].as_str().unwrap());
    assert_eq!(env.git(&["rev-parse", &format!("{branch}^")]), base);
    env.git(&["fsck", "--no-dangling"]);
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_state_directory_that_is_cleaned_away_stops_norma() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env);
    let before = env.repository();
    env.git(&["clean", "-fdx"]);
    assert!(!env.root.join(".norma/norma.db").exists());
    env.touch("go");
    insta::assert_snapshot!(running.wait(), @"
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
    ! error: $DIR/repo/.norma/norma.db was removed or replaced while norma was running, so nothing more is written
    ! next: Your branch, index and files are unchanged. Restore the state directory, or start over: norma init
    [exit 4]
    ");
    let mut after = env.repository();
    after.insert("refs".into(), before["refs"].clone());
    assert_eq!(after, before);
    assert_eq!(env.git(&["branch", "--list"]), "* main");
    assert!(!env.root.join(".norma/runs").exists(), "nothing is written into nothing");
}

#[test]
fn a_database_that_is_replaced_underneath_stops_norma() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env);
    let before = env.repository();
    let db = env.root.join(".norma/norma.db");
    let other = env.dir.join("other.db");
    std::fs::copy(&db, &other).unwrap();
    std::fs::rename(&other, &db).unwrap();
    env.touch("go");
    insta::assert_snapshot!(running.wait(), @"
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
    ! error: $DIR/repo/.norma/norma.db was removed or replaced while norma was running, so nothing more is written
    ! next: Your branch, index and files are unchanged. Restore the state directory, or start over: norma init
    [exit 4]
    ");
    assert_eq!(env.repository(), before);
}

#[test]
fn evidence_that_is_removed_meanwhile_keeps_a_run_from_passing() {
    let env = TestEnvironment::new(json!({}));
    let before = env.repository();
    let running = waiting_run(&env);
    std::fs::remove_file(env.run_dir().join("steps/002-do/files/test.log")).unwrap();
    env.touch("go");
    insta::assert_snapshot!(running.wait(), @"
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
    failed (evidence_lost):
      evidence is missing or changed: steps/002-do/files/test.log is missing
      what helps: find out who changed the run's directory (norma verify <run>), then run it again
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: why: norma why <run> · patch: norma diff <run> · logs: norma logs <run> · again: norma run 1
    [exit 1]
    ");
    assert_eq!(env.repository(), before);
}

/// A small file system, gone with the value.
struct SmallDisk<'a>(&'a Path);

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_loses_nothing_and_the_run_goes_on_afterwards() {
    let mut env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({}));
    let config = env.root.join(".norma/config.json");
    let disk = env.dir.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(&disk).output().unwrap();
    if !mount.status.success() {
        let problem = String::from_utf8_lossy(&mount.stderr);
        return not_run::because(format_args!("no right to mount a small tmpfs: {problem}"));
    }
    let _disk = SmallDisk(&disk);
    env.env.insert("NORMA_HOME".into(), disk.join("state").display().to_string());
    env.norma(&["init"]).success();
    env.norma(&["task", "add", "fill it", "--ac", "it holds"]).success();
    std::fs::copy(config, disk.join("state/config.json")).unwrap();
    env.norma(&["trust"]).success();
    let filler = disk.join("filler");
    let fill = format!("cat /dev/zero > '{}' 2> /dev/null; true", filler.display());
    std::fs::write(
        env.dir.join("script.json"),
        json!({"do": [
            [{"shell": fill}, {"respond": {}}],
            [{"write": {"path": "files/test.log", "content": "ok"}}],
        ]})
        .to_string(),
    )
    .unwrap();
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    output.exits(4);
    assert!(output.raw_err.contains("free some space"), "{output}");
    let mut after = env.repository();
    let refs = after.get_mut("refs").unwrap();
    *refs = refs.lines().filter(|line| !line.starts_with("refs/norma/")).collect::<Vec<_>>().join("\n");
    assert_eq!(after, before);
    std::fs::remove_file(&filler).unwrap();
    std::fs::write(env.dir.join("script.json"), "{}").unwrap();
    env.norma(&["resume", "@last"]).success();
    env.norma(&["verify", "@last"]).success();
    let steps: Vec<Value> = env.last()["steps"].as_array().unwrap().iter().map(|step| step["role"].clone()).collect();
    assert_eq!(steps.first(), Some(&json!("plan")));
}

/// What is told goes to stderr, only if somebody asks, and a secret of the environment is not in it.
#[test]
fn what_norma_does_is_told_only_to_who_asks_and_without_secrets() {
    let secret = "hunter2-correct-horse-battery";
    let mut env = TestEnvironment::new(json!({}));
    env.env.insert("DEPLOY_TOKEN".into(), secret.into());
    let quiet = env.norma(&["runs"]);
    assert_eq!(quiet.success().raw_err, "");
    let told = env.norma(&["-vv", "doctor", "--json"]);
    assert!(told.raw_err.contains("DEBUG norma::git: git "), "{told}");
    assert!(serde_json::from_str::<Value>(&told.raw).is_ok(), "{told}");
    env.env.insert("NORMA_LOG".into(), "trace".into());
    let branch = format!("refs/heads/{secret}");
    env.git(&["update-ref", &branch, "HEAD"]);
    env.git(&["symbolic-ref", "HEAD", &branch]);
    let told = env.norma(&["run", "1"]);
    assert!(told.success().raw_err.contains("TRACE norma::store: commit ms="), "{told}");
    assert!(told.raw_err.contains("arguments=") && !told.raw_err.contains(secret), "{told}");
    env.env.insert("NORMA_LOG".into(), "loud".into());
    assert!(env.norma(&["runs"]).exits(2).raw_err.contains("off, error, warn, info, debug or trace"));
}

/// What a container leaves its root of a machine: a root directory of its own, in which the kernel refuses user namespaces.
/// `then` is put before the command.
fn in_a_container(env: &TestEnvironment, then: &str, args: &str) -> Option<Output> {
    let place = env.dir.join("container");
    std::fs::create_dir(&place).unwrap();
    let (place, root, norma) = (place.display(), env.root.display(), env!("CARGO_BIN_EXE_norma"));
    let enter = format!("mount --rbind / '{place}' && cd / && exec /usr/sbin/chroot '{place}' {then} sh -c");
    let tried = env.output_of("unshare", &["--mount", "sh", "-c", &format!("{enter} true")]);
    if tried.code() != Some(0) {
        not_run::because(format_args!("no container can be imitated here: {tried}"));
        return None;
    }
    let typed = format!("{enter} \"cd '{root}' && exec '{norma}' {args}\"");
    Some(env.output_of("unshare", &["--mount", "sh", "-c", &typed]))
}

#[test]
fn a_sentence_lands_as_root_in_a_container_that_refuses_user_namespaces() {
    let env = crate::sentence::unseen("echo more >> src/lib.txt");
    let args = "run 'add a line to src/lib.txt' --allow src/lib.txt --test 'test -s src/lib.txt' --yes";
    let Some(output) = in_a_container(&env, "", args) else { return };
    output.success();
    assert!(env.read("src/lib.txt").ends_with("more\n"), "{output}");
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_container_without_the_rights_that_it_takes_is_told_which_and_nothing_is_written() {
    let env = crate::sentence::unseen("echo more >> src/lib.txt");
    let few = "setpriv --bounding-set -all,+chown,+dac_override,+fowner,+kill,+setgid,+setuid,+setpcap --inh-caps -all";
    let args = "run 'add a line to src/lib.txt' --allow src/lib.txt --test 'test -s src/lib.txt' --yes";
    let Some(output) = in_a_container(&env, few, args) else { return };
    output.exits(4);
    assert!(output.err().contains("docker: --cap-add SYS_ADMIN"), "{output}");
    assert!(!env.root.join(".norma").exists());
}
