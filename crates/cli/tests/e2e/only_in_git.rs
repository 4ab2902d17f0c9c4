//! What agents put into their own git and into no file is told, and never a success without a change; and a change that is
//! far too large is not read to its end.

use crate::batches::{batch, item, with_worker};
use crate::environment::TestEnvironment;
use serde_json::{Value, json};

const COMMIT: &str = "git -c user.name=a -c user.email=a@b commit -q -m own";

fn denied(script: &str) -> String {
    let env = with_worker(script);
    let before = env.git(&["rev-parse", "HEAD"]);
    let results = batch(&env, &[item("a", json!({}))], 1);
    assert_eq!((&results[0]["status"], env.git(&["rev-parse", "HEAD"])), (&json!("denied"), before), "{results:?}");
    env.norma(&["replay", "@last"]).success();
    results[0]["denial_reason"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_only_in_the_agents_git_is_told() {
    let id = "1234567890123456789012345678901234567890";
    let submodule = format!("git update-index --add --cacheinfo 160000,{id},vendor/lib");
    let edited = format!("{submodule}; echo new > a.txt");
    let staged = "echo new > a.txt; git add a.txt; rm a.txt";
    let committed = format!("echo new > a.txt; git add a.txt; {COMMIT}; git rm -q a.txt");
    let on_a_branch = format!("git checkout -q -b mine; echo new > a.txt; git add a.txt; {COMMIT}; git rm -q a.txt");
    for (script, path) in [
        (submodule.as_str(), "vendor/lib"),
        (&edited, "vendor/lib"),
        (staged, "a.txt"),
        (&committed, ".git/HEAD"),
        (&on_a_branch, ".git/refs/heads/mine"),
    ] {
        let why = denied(script);
        assert!(why.contains(path) && why.contains("in the agent's own git"), "{script}: {why}");
    }
}

#[test]
fn what_is_staged_or_committed_and_there_lands() {
    let env = with_worker(&format!(
        "echo new > a.txt; git add a.txt; {COMMIT}; echo more > b.txt; git status -s > /dev/null"
    ));
    batch(&env, &[item("a", json!({}))], 0);
    assert_eq!((env.read("a.txt").as_str(), env.read("b.txt").as_str()), ("new\n", "more\n"));
    let env = with_worker("(git status; git log -1; git diff) > /dev/null");
    let nothing: Vec<Value> = batch(&env, &[item("a", json!({}))], 0);
    assert_eq!(nothing[0]["status"], "success");
}

#[test]
fn far_too_many_files_are_not_looked_at_to_the_last_one() {
    let why = denied("mkdir many; cd many; seq 1 5000 | xargs touch; cd ..");
    assert!(why.contains("from here on nothing was looked at"), "{why}");
    let why = denied("mkdir many; cd many; seq 1 50 | xargs touch; cd ..");
    assert_eq!(why, "Exceeded max files: 50 > 10");
}

#[test]
fn a_change_that_is_too_large_is_refused_before_a_patch_of_it_is_made() {
    let lines = "yes some text of a long file | head -c 2000000";
    for script in [format!("{lines} > large.txt"), "rm there.txt".to_owned()] {
        let env = with_worker(&script);
        env.output_of("sh", &["-c", &format!("{lines} > there.txt")]).success();
        env.commit("a large file");
        env.configure(|config| {
            config["agents"] = json!({"worker": {"type": "exec", "cmd": ["./agents/worker.sh"]}});
            config["limits"]["change_mb"] = 1.into();
        });
        let results = batch(&env, &[item("a", json!({}))], 1);
        let why = results[0]["denial_reason"].as_str().unwrap();
        assert_eq!(why, "the change brings and removes 2000000 bytes, and limits.change_mb is 1");
        assert!(!env.run_dir().join("changes/001/patch.diff").exists());
        env.norma(&["replay", "@last"]).success();
    }
}

#[test]
fn a_large_file_comes_changes_and_goes_without_a_copy_in_its_patch() {
    let large = "seq 1 3000000 > large.txt";
    for (script, words) in [
        (large, "new file"),
        ("echo more >> there.txt", "Binary files a/there.txt and b/there.txt differ"),
        ("rm there.txt", "Binary files a/there.txt and /dev/null differ"),
    ] {
        let env = with_worker(script);
        env.output_of("sh", &["-c", "seq 1 3000000 > there.txt"]).success();
        env.commit("a large file");
        let results = batch(&env, &[item("a", json!({}))], 0);
        assert_eq!(results[0]["status"], "success", "{script}: {results:?}");
        let patch = std::fs::read_to_string(env.run_dir().join("changes/001/patch.diff")).unwrap();
        assert!(patch.contains(words) && patch.len() < 1000, "{script}: {patch:.500}");
        assert_eq!(env.git(&["status", "--porcelain", "*.txt"]), "");
        env.norma(&["verify", "@last"]).success();
        env.norma(&["replay", "@last"]).success();
    }
}

#[test]
fn the_patch_of_a_whole_run_is_not_written_again_where_it_is_that_of_its_change() {
    let env = with_worker("seq 1 300000 > a.txt");
    batch(&env, &[item("a", json!({}))], 0);
    let inode = |path: &str| std::os::unix::fs::MetadataExt::ino(&env.run_dir().join(path).metadata().unwrap());
    assert_eq!(inode("patch.diff"), inode("changes/001/patch.diff"));
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_patch_lies_on_the_disk_once_for_all_names_of_it_in_a_change() {
    let env = with_worker("echo new > a.txt");
    batch(&env, &[item("a", json!({}))], 0);
    let inode = |path: &str| std::os::unix::fs::MetadataExt::ino(&env.run_dir().join(path).metadata().unwrap());
    let first = inode("changes/001/patch.diff");
    assert_eq!((inode("patches/a.diff"), inode("results/a/patch.diff")), (first, first));
    env.norma(&["verify", "@last"]).success();
}

/// The files of norma's own objects that have at least a megabyte.
fn large_objects(env: &TestEnvironment) -> usize {
    let found = env.output_of("find", &[".norma/git/objects", "-type", "f", "-size", "+1000k"]);
    found.success().raw.lines().count()
}

#[test]
fn a_large_file_of_a_refused_change_goes_with_gc_and_its_run_still_replays() {
    let env = with_worker("head -c 3000000 /dev/urandom | base64 > large.txt; echo a > small.txt");
    let scope = json!({"allowed_paths": ["small.txt"]});
    let results = batch(&env, &[item("a", scope)], 1);
    assert_eq!((&results[0]["status"], large_objects(&env)), (&json!("denied"), 1), "{results:?}");
    env.norma(&["replay", "@last"]).success();
    let output = env.norma(&["gc"]);
    assert!(output.success().raw.contains("1 large file(s) of refused changes removed"), "{}", output.raw);
    assert_eq!(large_objects(&env), 0);
    let replayed = env.norma(&["replay", "@last"]);
    assert!(replayed.success().raw.contains("has removed its large files"), "{}", replayed.raw);
    env.norma(&["verify", "--all"]).success();
    assert!(!env.norma(&["gc"]).success().raw.contains("large file"));
}

#[test]
fn a_file_that_a_landed_change_has_too_stays_with_gc() {
    let env =
        with_worker("cat /bin/bash /bin/bash /bin/bash | base64 > large.txt; [ ! -e refused ] || echo > other.txt");
    env.write("refused", "");
    env.commit("refused");
    let wanted = [item("a", json!({"allowed_paths": ["large.txt"]}))];
    batch(&env, &wanted, 1);
    env.git(&["rm", "-q", "refused"]);
    env.commit("not refused");
    batch(&env, &wanted, 0);
    env.norma(&["gc"]).success();
    assert_eq!(large_objects(&env), 1);
    env.norma(&["replay", "@last"]).success();
}

#[test]
fn a_run_remembers_what_it_hashed_for_the_next_one() {
    let env = with_worker("echo new > a.txt");
    batch(&env, &[item("a", json!({}))], 0);
    let memo = env.root.join(".norma/cache/state-hash");
    let known = std::fs::metadata(&memo).map(|meta| meta.len()).unwrap_or_default();
    assert!(known > 0, "{}", memo.display());
}
