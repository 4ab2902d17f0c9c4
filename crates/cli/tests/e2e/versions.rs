//! What earlier versions wrote, in the hands of this one: `testing/logs/` holds a state directory of every released
//! version with a run of every kind, and the bundles that were exported of them. `cargo xtask logs` adds the next.

use crate::environment::TestEnvironment;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archives, one a version.
fn archives() -> Vec<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/logs");
    let files = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|it| it == "gz")).collect();
    found.sort();
    assert!(!found.is_empty(), "{} holds nothing", place.display());
    found
}

/// The repository of an archive, as if it had always been here.
fn unpacked(archive: &Path) -> TestEnvironment {
    let mut env = TestEnvironment::bare();
    env.env.insert("XDG_DATA_HOME".to_owned(), env.dir.join("data").display().to_string());
    let untar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&env.dir).status().unwrap();
    assert!(untar.success());
    // What is kept outside of a state directory is found by the path of that directory, which is another one here.
    let kept = env.dir.join("data/norma");
    let old = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    let state = env.root.join(".norma");
    let id = contract::hash::sha256(state.as_os_str().as_encoded_bytes()).to_string();
    std::fs::rename(old, kept.join(&id[..16])).unwrap();
    env
}

/// The runs of an archive that have ended, by their bundles.
fn sealed(env: &TestEnvironment) -> Vec<String> {
    let bundles = std::fs::read_dir(env.dir.join("bundles")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = bundles.filter_map(|name| name.to_str().unwrap().strip_suffix(".tar").map(str::to_owned));
    let mut runs: Vec<String> = names.collect();
    runs.sort();
    assert!(runs.len() >= 10, "{runs:?}");
    runs
}

#[test]
fn runs_of_every_earlier_version_verify_and_replay_and_one_left_unfinished_is_resumed() {
    for archive in archives() {
        let env = unpacked(&archive);
        for run in sealed(&env) {
            let verified = env.norma(&["verify", &run]);
            assert_eq!(verified.code(), Some(0), "{}: verify {run}: {verified}", archive.display());
            let replayed = env.norma(&["replay", &run]);
            assert_eq!(replayed.code(), Some(0), "{}: replay {run}: {replayed}", archive.display());
            env.norma(&["show", &run]).success();
        }
        env.norma(&["reindex"]).success();
        // Its agent is found by the id of the run, so no other test may have a copy of it at the same time.
        env.norma(&["resume", "@last"]).success();
        assert_eq!(env.read("src/paused.txt"), "paused\n", "{}", archive.display());
        env.norma(&["verify", "@last"]).success();
        env.norma(&["replay", "@last"]).success();
    }
}
