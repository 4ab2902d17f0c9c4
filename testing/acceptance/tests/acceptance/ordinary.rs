//! Commands that mean well.

use crate::world::{World, item, kept, statuses, write};
use contract::Backend;
use contract::work::TestCounts;
use run::gate::acceptance::TestStatus::{Error, Fail, Pass, Skipped};
use serde_json::json;

#[test]
fn a_change_whose_commands_all_leave_with_zero_passes() {
    for world in World::all(&[("t.sh", "test \"$(cat answer)\" = 42 && echo '2 passed in 0.01s' && echo w >&2\n")]) {
        let acceptance = world.accept(&[("answer", Some("42\n"))], &[&["sh", "t.sh"], &["test", "-f", "answer"]]);
        assert_eq!(statuses(&acceptance), [(Pass, Some(0)), (Pass, Some(0))], "{:?}", acceptance.findings);
        assert_eq!(acceptance.status, Pass);
        assert_eq!(acceptance.counts, Some(TestCounts { passed: 2, failed: 0, skipped: 0 }));
        assert!(acceptance.tests_changed.is_empty());
        assert_eq!(acceptance.first_log().as_deref(), Some("tests/1/stdout.log"));
        assert_eq!(kept(&acceptance, "tests/1/stdout.log"), "2 passed in 0.01s\n");
        assert_eq!(kept(&acceptance, "tests/1/stderr.log"), "w\n");
        let stdout = acceptance.commands[0].stdout.as_ref().unwrap();
        assert_eq!((stdout.sha256, stdout.size), (contract::hash::sha256(b"2 passed in 0.01s\n"), 18));
    }
}

#[test]
fn the_program_is_recorded_with_its_digest() {
    for world in World::all(&[("t.sh", "#!/bin/sh\nexit 0\n")]) {
        let acceptance = world.accept(&[], &[&["sh", "t.sh"], &["./t.sh"]]);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
        let [shell, script] = &acceptance.commands[..] else { panic!("two commands") };
        let path = shell.program.as_deref().unwrap();
        assert!(path.starts_with('/'), "{path}");
        assert_eq!(shell.program_sha256, Some(contract::hash::sha256(&std::fs::read(path).unwrap())));
        assert!(script.program.as_deref().unwrap().ends_with("/t.sh"));
        assert_eq!(script.program_sha256, Some(contract::hash::sha256(b"#!/bin/sh\nexit 0\n")));
        let digest = shell.program_sha256.unwrap().to_string();
        assert!(kept(&acceptance, "tests/1/command.txt").contains(&digest));
    }
}

#[test]
fn the_first_command_that_must_pass_and_fails_stops_the_others() {
    for world in World::all(&[("bad.sh", "echo why >&2; exit 3\n")]) {
        let mut item = item(&[&["sh", "bad.sh"], &["true"], &["sh", "bad.sh"], &["true"]]);
        item.tests[0].must_pass = false;
        let acceptance = world.accept_item(&[], &item);
        let expected = [(Fail, Some(3)), (Pass, Some(0)), (Fail, Some(3)), (Skipped, None)];
        assert_eq!(statuses(&acceptance), expected);
        assert_eq!(acceptance.status, Fail);
        let findings: Vec<String> = acceptance.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, ["t3: exit code 3: why"]);
        assert!(!acceptance.files.iter().any(|(path, _)| path.starts_with("tests/4/")));
    }
}

#[test]
fn an_item_without_tests_is_skipped_and_never_passes() {
    for world in World::all(&[("a", "1\n")]) {
        let acceptance = world.accept(&[("a", Some("2\n"))], &[]);
        assert_eq!((acceptance.status, acceptance.findings.len(), acceptance.files.len()), (Skipped, 0, 0));
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    for world in World::all(&[("plain.sh", "exit 0\n")]) {
        for program in ["no-such-program", "/nowhere/program", "./plain.sh", "./no-such.sh", "../bin/sh"] {
            let acceptance = world.accept(&[], &[&[program]]);
            assert_eq!(statuses(&acceptance), [(Error, Some(127))], "{program}");
            assert_eq!(acceptance.status, Error);
        }
    }
}

#[test]
fn a_report_in_a_file_counts_where_the_output_says_nothing() {
    let script = "mkdir -p out; echo '<testsuite><testcase/><testcase><skipped/></testcase></testsuite>' > out/r.xml\n";
    for world in World::all(&[("t.sh", script)]) {
        let acceptance = world.accept(&[], &[&["sh", "t.sh", "--junitxml=out/r.xml"]]);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
        assert_eq!(acceptance.counts, Some(TestCounts { passed: 1, failed: 0, skipped: 1 }));
    }
}

#[test]
fn a_test_sees_what_agents_see_of_the_users_checkout_and_nothing_else() {
    let files = [(".gitignore", "/local\n/cache/\n"), (".worktreeinclude", "local\n"), ("a", "1\n")];
    for world in World::all(&files) {
        write(&world.repo.join("local"), "included\n");
        write(&world.repo.join("cache/left"), "not included\n");
        write(&world.repo.join("untracked"), "not included\n");
        let commands: [&[&str]; 3] =
            [&["grep", "-q", "included", "local"], &["test", "!", "-e", "cache"], &["test", "!", "-e", "untracked"]];
        let acceptance = world.accept(&[("a", Some("2\n"))], &commands);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
    }
}

#[test]
fn a_test_sees_what_the_setup_makes_of_this_very_tree() {
    let files = [(".gitignore", "/built/\n"), ("setup.sh", "mkdir -p built; cp source built/\n"), ("source", "old\n")];
    let Some(mut world) = World::new(Backend::Native, &files) else { return };
    if !sandbox::has_overlays(&crate::world::sandbox()) {
        return not_run::because("a setup needs overlays, and there are none on this machine");
    }
    world.config["workspace"] = json!({ "setup": ["sh", "setup.sh"] });
    let acceptance = world.accept(&[("source", Some("new\n"))], &[&["grep", "-q", "new", "built/source"]]);
    assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
    let broken = world.accept(&[("setup.sh", Some("echo no >&2; exit 7\n"))], &[&["true"]]);
    assert_eq!(statuses(&broken), [(Error, Some(127))]);
    let findings: Vec<String> = broken.findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["t1: its workspace could not be made ready: exit code 7: no"]);
    assert_eq!(kept(&broken, "tests/1/stderr.log"), "no\n");
}
