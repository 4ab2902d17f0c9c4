//! More than one norma at a time, and norma being told to stop: by a signal, by a kill, by another terminal.

use crate::environment::{PATCH, Running, TestEnvironment, eventually, is_dead};
use serde_json::json;

/// A run whose second turn waits for the test: `started` is there while it waits, `go` lets it continue.
pub(crate) fn waiting_run(env: &TestEnvironment, args: &[&str]) -> Running {
    env.script_unconfined(json!({
        "do": [[
            {"daemon": {"pid_file": env.at("daemon.pid")}},
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]],
        "check": [[{"verdict": "FAIL"}], [{"verdict": "PASS"}]],
        "act": [[{"patch": PATCH}]],
    }));
    let running = env.spawn(args);
    env.wait_for("started");
    running
}

fn daemon_is_dead(env: &TestEnvironment) {
    let pid = std::fs::read_to_string(env.dir.join("daemon.pid")).unwrap();
    eventually("what the agent left is dead", || is_dead(&pid));
}

#[test]
fn an_interrupt_ends_the_turn_and_leaves_the_run_paused_until_it_is_resumed() {
    for signal in ["INT", "TERM", "HUP"] {
        let env = TestEnvironment::new(json!({}));
        let before = env.repository();
        let running = waiting_run(&env, &["run", "1"]);
        running.signal(signal);
        let output = running.wait();
        output.exits(130);
        if signal == "INT" {
            insta::assert_snapshot!(output, @"
            run <run> · base main <hash> · sandbox none
            goal: make two loud
              1 plan  ok  <took>  plan did its part
              2 do    interrupted  <took>  interrupted: norma was asked to stop
            paused: interrupted; `norma resume` continues from the last step
            Your branch, index and files are unchanged.
            evidence: .norma/runs/<run>
            next: norma resume <run>
            [exit 130]
            ");
        }
        daemon_is_dead(&env);
        let run = env.last();
        assert_eq!((&run["status"], &run["reason"]), (&json!("paused"), &json!("interrupted")));
        let mut after = env.repository();
        let refs = after.get_mut("refs").unwrap();
        *refs = refs.lines().filter(|line| !line.starts_with("refs/norma/")).collect::<Vec<_>>().join("\n");
        assert_eq!(after, before);
        env.touch("go");
        let output = env.norma(&["resume", "@last"]);
        output.success();
        if signal == "INT" {
            insta::assert_snapshot!(output, @"
            run <run> · base main <hash> · sandbox none
            goal: make two loud
              3 do    ok  <took>  do did its part
              4 check ok  <took>  check did its part
                      verdict FAIL
              5 act   ok  <took>  act did its part
                      patch applied: src/lib.txt
              6 plan  ok  <took>  plan did its part
              7 do    ok  <took>  do did its part
              8 check ok  <took>  check did its part
                      verdict PASS
            PASS in iteration 2 · landed main <hash>→<hash>
            1 file changed, +1 −1
              src/lib.txt  +1 −1
            receipt: <uuid>
            evidence: .norma/runs/<run>
            next: look: norma show <run> · undo: norma undo <run>
            [exit 0]
            ");
        }
        assert_eq!(env.last()["run_id"], run["run_id"]);
        assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
        env.norma(&["verify", "@last"]).success();
    }
}

#[test]
fn running_the_task_again_goes_on_with_its_interrupted_run_and_new_starts_over() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("INT");
    running.wait().exits(130);
    let first = env.last()["run_id"].clone();
    env.touch("go");
    env.norma(&["run", "1"]).success();
    assert_eq!(env.last()["run_id"], first);
    insta::assert_snapshot!(env.norma(&["run", "1"]), @r"
    ! error: task 1 is done
    ! next: to run it again: norma run 1 --new
    [exit 1]
    ");
    env.script(json!({}));
    env.norma(&["run", "1", "--new"]).success();
    assert_ne!(env.last()["run_id"], first);
}

#[test]
fn a_killed_norma_takes_its_agents_with_it_and_resume_finishes() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("KILL");
    assert_eq!(running.wait().code(), None);
    daemon_is_dead(&env);
    env.touch("go");
    insta::assert_snapshot!(env.norma(&["resume", "@last"]), @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
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
    ! recovered: <run>: step 002-do was interrupted
    [exit 0]
    ");
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn every_run_that_was_left_is_resumed_by_one_command() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["task", "add", "the second"]).success();
    for task in ["1", "2"] {
        let running = waiting_run(&env, &["run", task]);
        running.signal("KILL");
        assert_eq!(running.wait().code(), None);
        std::fs::remove_file(env.at("started")).unwrap();
    }
    env.touch("go");
    env.norma(&["resume", "--all"]).success();
    let runs = env.json(&["runs"]);
    let statuses: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["succeeded", "succeeded"]);
    insta::assert_snapshot!(env.norma(&["resume", "--all"]), @"
    no run is paused
    [exit 0]
    ");
    env.norma(&["resume", "@last", "--all"]).exits(2);
}

#[test]
fn a_run_can_be_canceled_from_another_terminal() {
    let env = TestEnvironment::new(json!({}));
    let before = env.repository();
    let running = waiting_run(&env, &["run", "1"]);
    assert_eq!(env.last()["status"], "running");
    insta::assert_snapshot!(env.norma(&["cancel", "@last"]), @r"
    the run is asked to end; its turn is being stopped
    [exit 0]
    ");
    let output = running.wait();
    insta::assert_snapshot!(output, @"
    run <run> · base main <hash> · sandbox none
    goal: make two loud
      1 plan  ok  <took>  plan did its part
      2 do    interrupted  <took>  interrupted: norma was asked to stop
    canceled on request
    Your branch, index and files are unchanged.
    evidence: .norma/runs/<run>
    next: look: norma show <run> · again: norma run 1
    [exit 1]
    ");
    daemon_is_dead(&env);
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!("canceled"), &json!("canceled")));
    assert_eq!(env.repository(), before);
    insta::assert_snapshot!(env.norma(&["cancel", "@last"]), @r"
    ! error: run <run> is canceled already
    ! next: look at it: norma show <run>
    [exit 1]
    ");
    insta::assert_snapshot!(env.norma(&["resume", "@last"]), @r"
    ! error: run <run> is canceled; only a paused run can be resumed
    ! next: a retry is a new run: norma run … --new; look at this one: norma show <run>
    [exit 1]
    ");
}

#[test]
fn a_paused_run_can_be_canceled() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("INT");
    running.wait().exits(130);
    insta::assert_snapshot!(env.norma(&["cancel", "@last"]), @r"
    canceled
    [exit 0]
    ");
    assert_eq!(env.last()["status"], "canceled");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn other_verbs_work_while_a_run_goes_on() {
    let env = TestEnvironment::with_patch(PATCH);
    env.configure(|config| config["landing"] = json!({"mode": "branch"}));
    env.norma(&["run", "1"]).success();
    let first = env.last()["run_id"].as_str().unwrap().to_owned();
    env.norma(&["task", "add", "the second"]).success();
    let running = waiting_run(&env, &["run", "2"]);
    insta::assert_snapshot!(env.norma(&["task", "add", "the third", "--ac", "it holds"]), @r"
    3
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["task", "link", "3", "--depends-on", "2"]), @r"
    task 3 waits for 2
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["land", &first]), @r"
    landed on main; undo: norma undo <run>
    [exit 0]
    ");
    assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n");
    insta::assert_snapshot!(env.norma(&["task", "list", "--all"]), @r"
       1  done     make two loud
       2  doing    the second
       3  todo     the third  (after 2)
    [exit 0]
    ");
    let owner = env.norma(&["doctor"]);
    assert!(owner.raw.contains("`norma run 2`"), "{owner}");
    env.norma(&["init"]).success();
    let follower = env.spawn(&["events", "@last", "--follow"]);
    env.touch("go");
    running.wait();
    let followed = follower.wait();
    followed.success();
    assert_eq!(followed.raw, env.norma(&["events", "@last"]).raw);
}

#[test]
fn the_socket_is_its_owners_alone_and_gone_afterwards() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    let socket = env.root.join(".norma/norma.sock");
    let meta = std::fs::metadata(&socket).unwrap();
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(meta.uid(), std::fs::metadata(&env.root).unwrap().uid());
    // Nonsense on the socket is answered and does no harm.
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stream.write_all(b"{\"verb\":\"land\"}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    insta::assert_snapshot!(answer, @r#"{"refused":{"message":"not a request: missing field `run`","hint":null,"code":2}}"#);
    env.touch("go");
    running.wait().success();
    assert!(!socket.exists());
}

#[test]
fn a_client_that_says_nothing_delays_nobody() {
    use std::io::Read;
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    let connect = || std::os::unix::net::UnixStream::connect(env.root.join(".norma/norma.sock")).unwrap();
    let mut silent: Vec<_> = (0..8).map(|_| connect()).collect();
    env.norma(&["cancel", "@last"]).success();
    for client in &mut silent {
        client.set_nonblocking(true).unwrap();
        let unanswered = client.read(&mut [0]).unwrap_err();
        assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock, "it was served before the cancel was");
        client.set_nonblocking(false).unwrap();
    }
    // Nor does it keep the owner from ending.
    running.wait().exits(1);
    for client in &mut silent {
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn more_clients_than_are_served_at_once_are_told_so() {
    use std::io::Read;
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    let connect = || std::os::unix::net::UnixStream::connect(env.root.join(".norma/norma.sock")).unwrap();
    let silent: Vec<_> = (0..64).map(|_| connect()).collect();
    let mut answer = String::new();
    connect().read_to_string(&mut answer).unwrap();
    insta::assert_snapshot!(answer, @r#"{"refused":{"message":"64 other terminals are being served","hint":"try again in a moment","code":4}}"#);
    drop(silent);
    env.norma(&["cancel", "@last"]).success();
    running.wait().exits(1);
}

#[test]
fn an_owner_that_was_stopped_is_named_and_not_waited_for() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("STOP");
    let pid = running.pid().to_string();
    insta::assert_snapshot!(env.norma(&["cancel", "@last"]).to_string().replace(&pid, "<pid>"), @"
    ! error: `norma run 1` (pid <pid>) owns the state directory and does not answer
    ! next: if it was stopped: kill -CONT <pid>; if it hangs: kill -KILL <pid>, nothing that was acknowledged is lost
    [exit 4]
    ");
    running.signal("CONT");
    // Whoever was told that there is no answer has not asked for anything any more.
    env.touch("go");
    running.wait().success();
    assert_eq!(env.last()["status"], "succeeded");
}

#[test]
fn waiting_for_the_lock_can_be_interrupted() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    env.norma(&["task", "add", "the second"]).success();
    let first = waiting_run(&env, &["run", "2"]);
    let second = env.spawn(&["replay", &slug, "--reverify"]);
    eventually("the second waits", || second.stderr().contains("waiting for `norma run 2`"));
    second.signal("INT");
    second.wait().exits(130);
    env.touch("go");
    first.wait().success();
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 2);
}

#[test]
fn many_terminals_at_once_are_all_served() {
    let env = TestEnvironment::initialized();
    let terminals: Vec<Running> = (0..12).map(|n| env.spawn(&["task", "add", &format!("goal {n}")])).collect();
    let mut ids: Vec<i64> =
        terminals.into_iter().map(|running| running.wait().success().raw.trim().parse().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=12).collect::<Vec<_>>());
}

#[test]
fn a_norma_that_is_killed_in_every_turn_finishes_in_the_end() {
    let env = TestEnvironment::new(json!({}));
    // The first agent of each role and iteration kills norma, whose id is in the lock file, and waits for its own end.
    let lock = env.root.join(".norma/locks/run.lock");
    let kill = format!(
        "mark='{}'-{{role}}-{{iteration}}; test -e \"$mark\" && exit 0; touch \"$mark\";
         kill -KILL \"$(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/' '{}')\"; sleep 600",
        env.at("mark"),
        lock.display()
    );
    let kill = json!({"shell": kill});
    env.script_unconfined(json!({
        "plan": [[kill]],
        "do": [[kill, {"write": {"path": "files/test.log", "content": "ok"}}]],
        "check": [[kill, {"verdict": "FAIL"}], [kill, {"verdict": "PASS"}]],
        "act": [[kill, {"patch": PATCH}]],
    }));
    let mut kills = 0;
    let output = loop {
        let output = env.norma(&["run", "1"]);
        if output.code().is_some() {
            break output;
        }
        kills += 1;
    };
    output.success();
    assert_eq!(kills, 7);
    let run = env.last();
    assert_eq!(env.json(&["runs"]).as_array().unwrap().len(), 1);
    assert_eq!(env.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(run["landed"], env.git(&["rev-parse", "HEAD"]));
    assert_eq!(run["steps"].as_array().unwrap().len(), 7);
    assert_eq!(env.git(&["for-each-ref", "refs/norma"]), "");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let script = format!("'{}' events @last --json | head -n 1", env!("CARGO_BIN_EXE_norma"));
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(&env.root)
        .env_clear()
        .envs(&env.env)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}
