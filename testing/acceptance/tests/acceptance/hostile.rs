//! Commands that do not.

use crate::world::{World, item, kept, processes_with, statuses, write};
use contract::Backend;
use run::gate::acceptance::TestStatus::{Error, Fail, Pass};
use runner::process::Cancel;
use std::net::TcpListener;
use std::time::Duration;

/// A number that no other process sleeps for.
fn unique(offset: u32) -> String {
    format!("{}.{offset}", 900_000_000 + u64::from(std::process::id()))
}

#[test]
fn a_test_that_forks_hangs_and_ignores_every_request_is_killed_with_all_it_started() {
    for (number, world) in (0..).zip(World::all(&[(
        "t.sh",
        "trap '' TERM HUP INT\necho started\n(trap '' TERM HUP; setsid sleep $1) &\n(sleep $1 &)\nsleep $1\nsleep $1\n",
    )])) {
        let word = unique(number);
        let mut item = item(&[&["sh", "t.sh", &word], &["true"]]);
        item.timeout_ms = 1500;
        let acceptance = world.accept_item(&[], &item);
        assert_eq!(acceptance.commands[0].exit_code, Some(124));
        assert!(acceptance.commands[0].timeout);
        assert_eq!((acceptance.status, acceptance.commands[1].exit_code), (Error, None));
        assert_eq!(kept(&acceptance, "tests/1/stdout.log"), "started\n");
        let findings: Vec<String> = acceptance.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, ["t1: it took longer than 1500 ms and was killed: started"]);
        assert_eq!(processes_with(&word), 0);
    }
}

#[test]
fn what_a_test_leaves_running_does_not_outlive_it() {
    for (number, world) in (10..).zip(World::all(&[("t.sh", "setsid sleep $1 > /dev/null 2>&1 &\n")])) {
        let word = unique(number);
        let acceptance = world.accept(&[], &[&["sh", "t.sh", &word]]);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
        assert_eq!(processes_with(&word), 0);
    }
}

#[test]
fn what_a_test_writes_is_seen_by_nobody_else() {
    let script = "echo junk > junk; echo broken > a; mkdir -p target; echo x > target/x; rm t.sh; rm -r .git\n";
    for world in World::all(&[("t.sh", script), ("a", "1\n")]) {
        let after: [&[&str]; 5] = [
            &["sh", "t.sh"],
            &["test", "!", "-e", "junk"],
            &["grep", "-qx", "1", "a"],
            &["test", "!", "-e", "target"],
            &["test", "-d", ".git"],
        ];
        let acceptance = world.accept(&[], &after);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
    }
}

#[test]
fn a_confined_test_reaches_no_network() {
    let script = "exec 3<> /dev/tcp/127.0.0.1/$1\n";
    let Some(world) = World::new(Backend::Native, &[("t.sh", script)]) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let acceptance = world.accept(&[], &[&["bash", "t.sh", &port]]);
    assert_eq!(statuses(&acceptance), [(Fail, Some(1))]);
    assert!(kept(&acceptance, "tests/1/stderr.log").contains("/dev/tcp/127.0.0.1/"));
    assert!(kept(&acceptance, "tests/1/sandbox.json").contains("\"network\": \"deny\""));
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_confined_test_finds_neither_norma_nor_the_users_secrets() {
    let found = |backend: Backend| {
        let world = World::new(backend, &[("a", "1\n")])?;
        let at = world.repo.parent().unwrap();
        write(&at.join("home/.ssh/id"), "secret\n");
        // Named in a script: a command that names norma's directory is not even started.
        let script = format!("ls -A {0}/repo/.norma; ls -A {0}/home/.ssh; exit 0\n", at.display());
        let acceptance = world.accept(&[("t.sh", Some(&script))], &[&["sh", "t.sh"]]);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
        Some(kept(&acceptance, "tests/1/stdout.log"))
    };
    let free = found(Backend::None).unwrap();
    assert!(free.contains("norma.db") && free.contains("id\n"), "nothing hides them otherwise: {free}");
    if let Some(confined) = found(Backend::Native) {
        assert_eq!(confined, "");
    }
}

#[test]
fn a_file_of_the_tree_is_never_found_by_name() {
    for mut world in World::all(&[("a", "1\n")]) {
        // Search paths that lead into the repository: its root, a directory of it, wherever the command starts, and a
        // link from outside.
        let link = world.repo.parent().unwrap().join("link");
        std::os::unix::fs::symlink(world.repo.join("tools"), &link).unwrap();
        world.path_first = vec![".".into(), world.repo.clone(), world.repo.join("tools"), link];
        for place in ["runner", "tools/runner", "only-here", "tools/only-here"] {
            write(&world.repo.join(place), "#!/bin/sh\necho shadow\n");
        }
        write(&world.bin.join("runner"), "#!/bin/sh\necho real\n");
        let shadow = Some("#!/bin/sh\necho shadow\n");
        let edits = [("runner", shadow), ("tools/runner", shadow), ("only-here", shadow), ("tools/only-here", shadow)];
        let acceptance = world.accept(&edits, &[&["runner"], &["sh", "-c", "runner"], &["only-here"]]);
        assert_eq!(statuses(&acceptance), [(Pass, Some(0)), (Pass, Some(0)), (Error, Some(127))]);
        assert_eq!(kept(&acceptance, "tests/1/stdout.log"), "real\n");
        assert_eq!(kept(&acceptance, "tests/2/stdout.log"), "real\n");
        assert_eq!(acceptance.commands[0].program.as_deref(), world.bin.join("runner").to_str());
    }
}

#[test]
fn words_are_never_a_shell_line() {
    assert!(contract::policy::split("pytest; touch pwned").is_err());
    for world in World::all(&[("t.sh", "printf '%s\\n' \"$@\"; test ! -e pwned\n")]) {
        let acceptance = world.accept(&[], &[&["sh", "t.sh", "a; touch pwned", "$(touch pwned)", "`id`", "*"]]);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
        assert_eq!(kept(&acceptance, "tests/1/stdout.log"), "a; touch pwned\n$(touch pwned)\n`id`\n*\n");
    }
}

#[test]
fn what_policy_or_the_contract_forbids_is_not_started() {
    for world in World::all(&[("t.sh", "exit 0\n")]) {
        let by_policy = world.accept(&[], &[&["curl", "https://example.org"]]);
        assert_eq!(statuses(&by_policy), [(Error, Some(127))]);
        assert!(by_policy.findings[0].message.contains("refused by rule download"), "{:?}", by_policy.findings);
        let mut item = item(&[&["sh", "t.sh", "--deploy"]]);
        item.forbidden_actions = vec!["--Deploy".into()];
        let by_contract = world.accept_item(&[], &item);
        assert_eq!(statuses(&by_contract), [(Error, Some(127))]);
        assert_eq!(by_contract.findings[0].message, "t1: it was not started: its contract forbids \"--Deploy\"");
    }
}

#[test]
fn a_flood_of_output_is_cut_and_says_so() {
    for mut world in World::all(&[("t.sh", "head -c 3000000 /dev/zero | tr '\\0' 'x'\n")]) {
        world.config["limits"] = serde_json::json!({ "output_mb": 1 });
        let acceptance = world.accept(&[], &[&["sh", "t.sh"]]);
        assert_eq!(acceptance.status, Pass, "{:?}", acceptance.findings);
        let stdout = kept(&acceptance, "tests/1/stdout.log");
        assert!(stdout.ends_with("[norma: truncated, 1048576 of 3000000 bytes kept]\n"));
    }
}

#[test]
fn a_report_that_is_no_file_is_not_waited_for() {
    for world in World::all(&[("t.sh", "mkfifo r.xml; ln -s /etc/passwd s.xml\n")]) {
        for report in ["--junitxml=r.xml", "--junitxml=s.xml", "--junitxml=../../r.xml"] {
            let acceptance = world.accept(&[], &[&["sh", "t.sh", report]]);
            assert_eq!((acceptance.status, acceptance.counts), (Pass, None), "{:?}", acceptance.findings);
        }
    }
}

#[test]
fn a_test_can_be_canceled_while_it_runs() {
    for (number, world) in (20..).zip(World::all(&[("t.sh", "sleep $1\n")])) {
        let (word, cancel) = (unique(number), Cancel::new().unwrap());
        let acceptance = std::thread::scope(|scope| {
            scope.spawn(|| {
                while processes_with(&word) == 0 {
                    std::thread::sleep(Duration::from_millis(10));
                }
                cancel.cancel();
            });
            let mut item = item(&[&["sh", "t.sh", &word], &["true"]]);
            item.tests[0].must_pass = false;
            world.accept_until(&[], &item, &cancel)
        });
        assert_eq!((acceptance.status, acceptance.commands[1].exit_code), (Error, None));
        assert_eq!(processes_with(&word), 0);
    }
}
