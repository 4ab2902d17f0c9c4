//! Approvals from the command line: what is shown, who may say what, and that nobody says it twice.

use crate::batches::with_worker;
use crate::environment::TestEnvironment;
use contract::{ApprovalWait, RepoPath};
use run::Run;
use run::gate::policy::Extent;
use runner::Redeemed;
use runner::git::{Objects, Repository, UserEnvironment};
use serde_json::json;
use store::{Layout, Reader, Store};

/// A repository whose newest run is paused.
fn with_paused_run() -> TestEnvironment {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({"do": [[{"write_abs": {"path": env.at("started"), "content": ""}}, "hang"]]}));
    let running = env.spawn(&["run", "1"]);
    env.wait_for("started");
    running.signal("INT");
    running.wait().exits(130);
    env
}

/// The newest run, and the store it is in.
fn newest(env: &TestEnvironment) -> (Run, Store) {
    let layout = Layout::new(&env.root, None);
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    let (run, _) = Reader::open(&layout).unwrap().load(&slug).unwrap();
    (run, Store::open(&layout).unwrap())
}

/// Has the newest run ask for this, as a run that needs it does.
fn ask(env: &TestEnvironment, reasons: &[&str]) -> ApprovalWait {
    let (run, store) = newest(env);
    let reasons = reasons.iter().map(|reason| (*reason).to_owned()).collect();
    runner::ask(&store, &run, reasons).unwrap()
}

/// What the newest run gets for what it waits for.
fn redeem(env: &TestEnvironment, wait: &ApprovalWait) -> Result<Redeemed, String> {
    let (run, store) = newest(env);
    runner::redeem(&store, &run, wait).map_err(|error| error.to_string())
}

#[test]
fn a_person_sees_what_is_asked_and_says_yes_once() {
    let env = with_paused_run();
    insta::assert_snapshot!(env.norma(&["approvals"]), @r"
    nothing needs approval
    [exit 0]
    ");
    let wait = ask(&env, &["wide paths require approval: src", "hidden \u{1b}[2J\u{202e}\u{e0100}"]);
    insta::assert_snapshot!(env.norma(&["approvals"]), @r"
    <uuid>  pending  run <run>  until <time>
        wide paths require approval: src
        hidden \u{1b}[2J\u{202e}\u{e0100}
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["approve", &wait.approval.to_string()[..20], "--reason", "looked at it"]), @r"
    granted; to continue: norma resume <run>
    [exit 0]
    ");
    insta::assert_snapshot!(env.norma(&["approve", &wait.approval.to_string()]), @r"
    ! error: approval <uuid> cannot be answered: Ada <ada@example.org> granted it already
    [exit 2]
    ");
    env.norma(&["deny", &wait.approval.to_string(), "--reason", "changed my mind"]).exits(2);
    assert_eq!(env.json(&["approvals"]), json!([]));
    insta::assert_snapshot!(env.norma(&["approvals", "--all"]), @r"
    <uuid>  granted  run <run>  until <time>
        wide paths require approval: src
        hidden \u{1b}[2J\u{202e}\u{e0100}
        granted by Ada <ada@example.org>: looked at it
    [exit 0]
    ");
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_no_needs_a_reason_and_an_unknown_approval_is_refused() {
    let env = with_paused_run();
    let wait = ask(&env, &["sandbox none requires approval"]);
    env.norma(&["deny", &wait.approval.to_string()]).exits(2);
    env.norma(&["deny", &wait.approval.to_string(), "--reason", " "]).exits(2);
    insta::assert_snapshot!(env.norma(&["deny", &wait.approval.to_string(), "--reason", "not here"]), @r"
    denied; run <run> does not do it
    [exit 0]
    ");
    let denied = &env.json(&["approvals", "--all"])[0];
    assert_eq!((&denied["state"], &denied["reason"]), (&json!("denied"), &json!("not here")));
    for (given, said) in [("ffff", "there is no approval ffff"), ("../x", "is not the id of an approval")] {
        let output = env.norma(&["approve", given]);
        assert!(output.exits(2).raw_err.contains(said), "{output}");
    }
}

#[test]
fn whoever_git_does_not_know_answers_by_their_login() {
    let mut env = with_paused_run();
    let wait = ask(&env, &["a"]);
    std::fs::write(env.dir.join("home/.gitconfig"), "").unwrap();
    env.env.insert("LOGNAME".into(), "ada".into());
    env.norma(&["approve", &wait.approval.to_string()]).success();
    assert_eq!(env.json(&["approvals", "--all"])[0]["by"], "ada");
}

#[test]
fn nobody_answers_for_a_run_that_has_ended() {
    let env = with_paused_run();
    let wait = ask(&env, &["a"]);
    env.norma(&["cancel", "@last"]).success();
    assert_eq!(env.json(&["approvals"]), json!([]));
    insta::assert_snapshot!(env.norma(&["approve", &wait.approval.to_string()]), @r"
    ! error: approval <uuid> cannot be answered: run <run> is canceled already
    [exit 2]
    ");
}

#[test]
fn a_run_goes_on_only_with_a_yes_to_exactly_what_it_waits_for() {
    let env = with_paused_run();
    let (yes, no) = (ask(&env, &["a"]), ask(&env, &["b"]));
    assert_eq!(redeem(&env, &yes), Ok(Redeemed::Pending));
    env.norma(&["approve", &yes.approval.to_string()]).success();
    env.norma(&["deny", &no.approval.to_string(), "--reason", "too much"]).success();
    let by = "Ada <ada@example.org>".to_owned();
    assert_eq!(redeem(&env, &yes), Ok(Redeemed::Granted { by: by.clone(), terms: Default::default() }));
    assert_eq!(redeem(&env, &no), Ok(Redeemed::Denied { by, reason: "too much".into() }));
    // A yes to one question is none to another.
    let other = ApprovalWait { reasons: vec!["b".into()], ..yes.clone() };
    assert!(redeem(&env, &other).unwrap_err().contains("is about something else"));
}

#[test]
fn the_extent_of_a_scope_is_counted_in_files() {
    let env = TestEnvironment::initialized();
    env.write("src-more/a.txt", "a\n");
    env.write("src/deep/b.txt", "b\n");
    env.commit("more");
    let user = Repository::discover(&env.root, UserEnvironment::default()).unwrap();
    let objects = Objects::open_or_create(&env.root.join(".norma/git"), &user).unwrap();
    let extent = |paths: &[&str]| {
        let paths: Vec<RepoPath> = paths.iter().map(|path| RepoPath::parse(path).unwrap()).collect();
        runner::extent(&objects, user.head().unwrap().tree, &paths).unwrap()
    };
    assert_eq!(extent(&["src"]), Extent { files: 4, allowed: 2 });
    assert_eq!(extent(&["src", "src/deep", "README.md"]), Extent { files: 4, allowed: 3 });
    assert_eq!(extent(&["nowhere"]), Extent { files: 4, allowed: 0 });
}

#[test]
fn a_wide_contract_is_approved_on_the_command_line_or_waits_with_its_ids_as_data() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    let typed = ["run", "--goal", "make it new", "--agent", "worker", "--allow", "src"];
    let waiting = env.norma(&[&typed[..], &["--json"]].concat());
    waiting.exits(3);
    let value: serde_json::Value = serde_json::from_str(waiting.raw.lines().last().unwrap()).unwrap();
    let asked = &env.json(&["approvals"])[0];
    assert_eq!((&value["approvals"][0]["id"], &value["run_id"]), (&asked["id"], &asked["run_id"]), "{value:#}");
    assert!(value["approvals"][0]["reasons"][0].as_str().unwrap().contains("more than 50 % of the tree"), "{value:#}");
    let ran = env.norma(&[&typed[..], &["--yes-wide"]].concat());
    ran.success();
    assert_eq!(ran.out().matches("goal: make it new").count(), 1, "{ran}");
    assert_eq!(ran.out().matches("· sandbox ").count(), 1, "{ran}");
    assert!(env.event_types().contains(&"approval_used".to_owned()), "the yes is on record");
    assert_eq!(env.read("src/new.txt"), "new\n");
    let asked = &env.json(&["approvals", "--all"])[0];
    assert_eq!((&asked["state"], &asked["reason"]), (&json!("used"), &json!("approved on the command line")));
}

#[test]
fn a_person_at_a_terminal_is_asked_there() {
    let env = with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    let answered = |answer: &str| {
        let norma = env!("CARGO_BIN_EXE_norma");
        let typed =
            format!("echo {answer} | script -qec \"'{norma}' run --goal new --agent worker --allow src\" /dev/null");
        env.output_of("sh", &["-c", &typed])
    };
    let refused = answered("n");
    assert!(refused.out().contains("files, more than 50 % of the tree"), "{refused}");
    assert!(refused.out().contains("Approve it? [y/N]") && refused.out().contains("not approved"), "{refused}");
    assert_eq!(env.json(&["runs"]), json!([]));
    let ran = answered("y");
    assert!(ran.out().contains("landed"), "{ran}");
    assert_eq!(env.read("src/new.txt"), "new\n");
    assert!(env.event_types().contains(&"approval_used".to_owned()), "the approval is on record");
}
