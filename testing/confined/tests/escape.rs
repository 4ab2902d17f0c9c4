//! The escape drill: every attack, unconfined to see that it is one, confined to see that it fails;
//! as the user who runs the tests and, when that is root, as an ordinary one too.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use sandbox::drill::{ATTACKS, Alone, CANARY, SECRET_VARIABLE, Tried};
use tempfile::TempDir;

/// Somebody who owns nothing on any machine.
const ORDINARY: u32 = 54_321;

/// Fewest attacks the drill must have.
const ATTACKS_MIN: usize = 46;

struct Place {
    directory: TempDir,
    helper: PathBuf,
}

/// A directory that an ordinary user can reach, with a copy of the helper.
fn place() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("permit");
    let helper = directory.path().join("bin/confined");
    confined::launch::copy_helper(env!("CARGO_BIN_EXE_confined"), &helper);
    Place { directory, helper }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs the drill; what became of each attack, by name.
fn drill(words: &[&str], user: Option<u32>) -> BTreeMap<String, Tried> {
    let place = place();
    let base = place.directory.path().join("world");
    fs::create_dir(&base).expect("make");
    let mut command = Command::new(&place.helper);
    command.args(words).arg(&base).env_clear().env(SECRET_VARIABLE, CANARY);
    if let Some(user) = user {
        // The directory above too, so that the drill can remove its own.
        for owned in [place.directory.path(), &base] {
            chown(owned, Some(user), Some(user)).expect("give away");
        }
        command.uid(user).gid(user);
    }
    let output = command.output().expect("run the drill");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let parse = |line: &str| -> Tried { serde_json::from_str(line).expect("one attack") };
    text.lines().map(parse).map(|tried| (tried.attack.clone(), tried)).collect()
}

/// What succeeds at level C, because Landlock cannot carve anything out of a root and there is no PID
/// namespace.
const LOST_AT_C: [&str; 8] = [
    "change git's configuration",
    "exchange .git for another directory",
    "hard link .env",
    "move .env away",
    "read .env in the workspace",
    "rename .git",
    "see other processes",
    "write a git hook",
];

fn judge(results: &BTreeMap<String, Tried>, lost: &[&str]) {
    let escaped: Vec<_> = results.values().filter(|tried| !tried.blocked).map(|tried| &tried.attack).collect();
    assert_eq!(escaped, lost, "{results:#?}");
    assert_eq!(results.len(), ATTACKS.len(), "every attack was made");
}

fn check_confined(level: &str, user: Option<u32>) {
    judge(&drill(&["drill-confined", level], user), if level == "C" { &LOST_AT_C } else { &[] });
}

/// An attack that fails unconfined proves nothing about the sandbox.
fn check_alone(user: Option<u32>) {
    let results = drill(&["drill-plain"], user);
    let as_root = is_root() && user.is_none();
    for attack in ATTACKS {
        let Tried { blocked, detail, .. } = &results[attack.name];
        let expected = match attack.alone {
            Alone::Anyone => true,
            Alone::Root => as_root,
            Alone::Depends(_) => continue,
        };
        assert!(!*blocked || !expected, "{} does not work unconfined: {detail}", attack.name);
    }
}

#[test]
fn the_drill_is_long_enough_and_says_what_stops_what() {
    assert!(ATTACKS.len() >= ATTACKS_MIN);
    assert!(ATTACKS.iter().all(|it| !it.stopped_by.is_empty()));
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sandbox.md")).expect("the page");
    for attack in ATTACKS {
        let row = format!("| {} | {} |", attack.name, attack.stopped_by);
        assert!(page.contains(&row), "docs/sandbox.md lacks the row {row}");
    }
}

#[test]
fn no_attack_succeeds_as_the_user_who_runs_the_tests() {
    check_confined("A", None);
}

#[test]
fn no_attack_succeeds_as_an_ordinary_user() {
    match is_root() {
        true => check_confined("A", Some(ORDINARY)),
        false => not_run::because("only root can become another user"),
    }
}

#[test]
fn no_attack_succeeds_without_the_second_wall() {
    check_confined("A-", None);
    match is_root() {
        true => check_confined("A-", Some(ORDINARY)),
        false => not_run::because("only root can become another user"),
    }
}

#[test]
fn no_attack_succeeds_without_a_user_namespace() {
    if !is_root() {
        return not_run::because("level B needs root");
    }
    check_confined("B", None);
    // Where the kernel refuses user namespaces in fact.
    judge(&drill(&["without-user-namespaces", "0", "drill-confined", "B"], None), &[]);
}

#[test]
fn without_namespaces_only_the_known_attacks_succeed() {
    check_confined("C", None);
    match is_root() {
        true => check_confined("C", Some(ORDINARY)),
        false => not_run::because("only root can become another user"),
    }
}

#[test]
fn the_attacks_are_real_for_the_user_who_runs_the_tests() {
    check_alone(None);
}

#[test]
fn the_attacks_are_real_for_an_ordinary_user() {
    if is_root() {
        check_alone(Some(ORDINARY));
    }
}
