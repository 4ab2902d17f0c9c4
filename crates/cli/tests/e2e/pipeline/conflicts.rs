//! Commits of the user that are in the way of a result: it goes back to the task that the lines belong to, with both sides, and lands
//! on the user's branch with both, or on a branch of its own.

use super::kills::comes_to_the_same_end_in;
use super::world::{ALL, PM, all_but, column, holds, pipeline, shown, world_with};
use crate::environment::TestEnvironment;
use crate::receipts::problems;
use serde_json::{Value, json};

/// A worker outside any sandbox, who plays the user as well.
const USER: &str = r#"
import subprocess
user = q["paths"]["run_dir"].split("/.norma/")[0]
scope = q["contract"]["scope"]["allowed_paths"]
fixing = "-fix-" in task
def commit(path, text):
    open(os.path.join(user, path), "w").write(text)
    subprocess.run(["git", "-C", user, "commit", "-qm", "by the user", "--", path], stdout=subprocess.DEVNULL)
def sides():
    [at] = q["context"]["previous_step_dirs"]
    return json.load(open(os.path.join(at, "conflicts.json"))), open(os.path.join(at, "patch.diff")).read()
"#;

/// One who takes both sides on the second try, while the user writes to `a.txt` on the first.
pub(super) const BOTH: &str = r#"
if not fixing and "src/a.txt" in scope and open(user + "/src/a.txt").read() == "to do\n": commit("src/a.txt", "as the user says\n")
if fixing:
    [found], patch = sides()
    [part] = found["parts"]
    assert found["path"] == "src/a.txt" and "+done" in patch and "b.txt" not in patch, (found, patch)
    assert (part["base"], part["ours"], part["theirs"]) == ("to do\n", "done\n", "as the user says\n"), part
    assert "both sides changed" in q["context"]["notes"], q["context"]["notes"]
    assert get("src/a.txt") == part["theirs"]
    put("src/a.txt", part["theirs"] + part["ours"])
else:
    for path in scope: put(path, "done\n")
say()"#;

/// A repository whose worker is not confined; who fills the other roles is in `agents`.
pub(super) fn with_user(agents: &[(&str, &str)], worker: &str) -> TestEnvironment {
    let worker = format!("{USER}{worker}");
    let agents: Vec<(&str, &str)> =
        agents.iter().map(|(role, body)| (*role, if *role == "worker" { worker.as_str() } else { *body })).collect();
    world_with(&agents, |config| config["sandbox"] = json!({"backend": "none"}))
}

/// Nobody splits the contract, which is about both files.
pub(super) const ONE: [(&str, &str); 3] = [("pm", PM), ("worker", ""), ("reviewer", "passes()")];

pub(super) fn landed(env: &TestEnvironment) -> [String; 2] {
    ["a", "b"].map(|name| env.git(&["show", &format!("HEAD:src/{name}.txt")]))
}

fn subjects(env: &TestEnvironment) -> Vec<String> {
    env.git(&["log", "-2", "--format=%s"]).lines().map(str::to_owned).collect()
}

#[test]
fn lines_that_the_user_changed_meanwhile_are_fixed_with_both_sides_and_land() {
    let env = with_user(&ONE, BOTH);
    pipeline(&env).success();
    assert_eq!(landed(&env), ["as the user says\ndone", "done"]);
    assert_eq!(subjects(&env), ["both files say done", "by the user"], "one commit on the user's own");
    let view = shown(&env);
    assert_eq!(
        view["fixes"],
        json!([{"task_id": "pipeline-task-fix-1", "parent_task_id": "pipeline-task", "cause": "conflict", "attempt": 1, "status": "SUCCESS"}])
    );
    assert_eq!(env.event("FIX_LOOP_TRIGGERED")["cause"], "conflict");
    assert_eq!(env.event("landed")["from"], env.git(&["rev-parse", "HEAD^"]));
    let path = env.run_dir().join("tasks/pipeline-task-fix-1.json");
    let contract: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let artifacts = contract["inputs"]["artifacts"].as_array().unwrap();
    let named = |name: &str| artifacts.iter().find(|it| it["uri"].as_str().unwrap().ends_with(name)).unwrap();
    for name in ["conflict-001/conflicts.json", "conflict-001/patch.diff"] {
        let bytes = std::fs::read(env.root.join(named(name)["uri"].as_str().unwrap())).unwrap();
        assert_eq!(named(name)["sha256"], contract::hash::sha256(&bytes).to_string());
    }
    let patch = env.norma(&["diff", "@last"]).success().raw.clone();
    assert!(patch.contains("+done") && !patch.contains("+as the user says"), "only what the run adds: {patch}");
    holds(&env);
    env.norma(&["replay", "@last", "--reverify"]).success();
    std::fs::create_dir(env.root.join("keys")).unwrap();
    env.norma(&["keys", "export", "-o", "keys/norma.pem"]).success();
    env.norma(&["export", "@last", "-o", "bundle.tar"]).success();
    assert_eq!(problems(&env, "bundle.tar", "keys"), [""; 0]);
    env.norma(&["gc"]).success();
    holds(&env);
    env.norma(&["undo", "@last"]).success();
    assert_eq!((subjects(&env)[0].as_str(), landed(&env)[0].as_str()), ("by the user", "as the user says"));
    env.norma(&["land", "@last"]).success();
    assert_eq!(landed(&env), ["as the user says\ndone", "done"]);
    holds(&env);
}

/// Whoever does nothing about it overwrites nothing: what the user committed is what it finds.
#[test]
fn a_conflict_that_nobody_fixes_leaves_the_branch_alone_and_the_result_on_one_of_its_own() {
    let worker = r#"
if not fixing: commit("src/a.txt", "as the user says\n"); put("src/a.txt", "done\n")
say()"#;
    let pm = r#"say({"spec": "a says done", "allowed_paths": ["src/a.txt"], "acceptance_tests": test("grep -q done src/a.txt")})"#;
    let env = with_user(&[("pm", pm), ("worker", "")], worker);
    pipeline(&env).success();
    assert_eq!((subjects(&env)[0].as_str(), landed(&env)[0].as_str()), ("by the user", "as the user says"));
    let view = shown(&env);
    let run = view["run_id"].as_str().unwrap();
    assert_eq!(env.git(&["show", &format!("norma/{run}:src/a.txt")]), "done");
    assert_eq!(column(&view, "fixes", "task_id"), ["pipeline-task-fix-1", "pipeline-task-fix-2"]);
    assert_eq!(column(&view, "fixes", "cause"), ["conflict", "tests"]);
    assert_eq!(env.event("FIX_LOOP_EXHAUSTED")["attempts"], 2);
    let why = env.event("landing_declined")["why"].as_str().unwrap().to_owned();
    for words in
        ["main has moved meanwhile", "both sides changed line 1", "not fixed: pipeline-task-fix-2: Tests failed"]
    {
        assert!(why.contains(words), "{words}: {why}");
    }
    let patch = env.norma(&["diff", "@last"]).success().raw.clone();
    assert!(patch.contains("-to do") && patch.contains("+done"), "{patch}");
    holds(&env);
    env.norma(&["replay", "@last", "--reverify"]).success();
}

/// A conflict starts no count of its own: what a contract has had of fixes counts, whatever they were for.
#[test]
fn a_conflict_of_a_contract_that_has_had_its_fixes_stays_and_the_user_keeps_everything() {
    let worker = r#"
half = HALF and not fixing
put("src/a.txt", "half\n" if half else "done\n")
if not half: commit("src/a.txt", "as the user says\n")
say()"#;
    for (max_retries, half) in [(0, "False"), (1, "True")] {
        let env = with_user(&[("worker", "")], &worker.replace("HALF", half));
        let new = ["contract", "new", "--goal", "a says done", "--allow", "src/a.txt", "--test"];
        let contract = env.norma(&[&new[..], &["grep -q done src/a.txt"]].concat()).success().raw.clone();
        let mut contract: Value = serde_json::from_str(&contract).unwrap();
        contract["timeout_retry"]["max_retries"] = json!(max_retries);
        std::fs::write(env.dir.join("contract.json"), contract.to_string()).unwrap();
        env.write("src/b.txt", "not committed\n");
        env.norma(&["pipeline", "--contract", &env.at("contract.json"), "--yes"]).success();
        let exhausted = env.event("FIX_LOOP_EXHAUSTED");
        let tried = exhausted["tried"].as_array().unwrap().len();
        assert_eq!((&exhausted["attempts"], tried), (&json!(max_retries), 1 + max_retries), "{exhausted}");
        let kinds = env.event_types();
        let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
        assert_eq!([count("line_moved"), count("line_restored"), count("FIX_LOOP_ATTEMPT")], [1, 1, max_retries]);
        assert_eq!(env.event("line_restored")["head"], env.event("line_moved")["from"]);
        let view = shown(&env);
        assert_eq!(column(&view, "fixes", "cause"), vec!["tests"; max_retries]);
        let run = view["run_id"].as_str().unwrap();
        assert_eq!(env.git(&["show", &format!("norma/{run}:src/a.txt")]), "done");
        assert_eq!((subjects(&env)[0].as_str(), landed(&env)[0].as_str()), ("by the user", "as the user says"));
        assert_eq!(
            (env.read("src/a.txt"), env.read("src/b.txt")),
            ("as the user says\n".into(), "not committed\n".into())
        );
        holds(&env);
    }
}

/// What is carried out again lands nothing, and meets no conflict: it is compared with what there was before.
#[test]
fn a_run_with_a_conflict_is_carried_out_again_and_compared_up_to_it() {
    // What the worker is decides what it does, and is no part of the contract.
    let other = r#"put(path, "other\n" if os.path.exists(user + "/.git/other") else "done\n")"#;
    let env = with_user(&ALL, &BOTH.replace(r#"put(path, "done\n")"#, other));
    pipeline(&env).success();
    let (run, before) = (shown(&env)["run_id"].as_str().unwrap().to_owned(), env.repository());
    let again = env.json(&["replay", &run, "--reexec"]);
    assert_eq!((&again["status"], &again["report"]["hard_diffs"]), (&json!("pass"), &json!([])), "{again}");
    let soft = again["report"]["soft_diffs"].as_array().unwrap();
    let conflict = soft.iter().find(|it| it["key"] == "conflict").unwrap();
    assert!(conflict["expected"][0].as_str().unwrap().starts_with("src/a.txt: "), "{conflict}");
    assert_eq!(env.repository(), before, "nothing lands");
    holds(&env);
    env.write(".git/other", "");
    let replayed = env.norma(&["replay", &run, "--reexec"]);
    assert!(replayed.exits(5).raw.contains("item/pipeline-task-1/"), "{replayed}");
}

/// A fix that goes elsewhere is refused as any change would be.
#[test]
fn a_conflict_whose_fix_leaves_its_scope_is_not_fixed() {
    let worker = r#"
if fixing: put("src/other.txt", "mine\n")
else: commit("src/a.txt", "as the user says\n")
for path in scope: put(path, "done\n")
say()"#;
    let env = with_user(&ONE, worker);
    pipeline(&env).success();
    assert_eq!(landed(&env), ["as the user says", "to do"]);
    let view = shown(&env);
    assert_eq!(column(&view, "fixes", "status"), ["FAILED"]);
    let run = view["run_id"].as_str().unwrap();
    assert_eq!(env.git(&["show", &format!("norma/{run}:src/b.txt")]), "done");
    holds(&env);
}

#[test]
fn only_the_part_that_conflicts_is_fixed_and_both_land() {
    let env = with_user(&ALL, BOTH);
    pipeline(&env).success();
    assert_eq!(landed(&env), ["as the user says\ndone", "done"]);
    let view = shown(&env);
    assert_eq!(column(&view, "fixes", "task_id"), ["pipeline-task-1-fix-1"]);
    assert_eq!(column(&view, "fixes", "parent_task_id"), ["pipeline-task-1"]);
    assert_eq!(view["contracts"].as_array().unwrap().last().unwrap()["allowed_paths"], json!(["src/a.txt"]));
    assert_eq!(subjects(&env)[1], "by the user");
    holds(&env);
}

/// What several parts conflict in belongs to none of them.
#[test]
fn a_conflict_of_several_parts_is_fixed_under_the_contract_of_the_whole() {
    let worker = r#"
if fixing:
    for found in sides()[0]: put(found["path"], found["parts"][0]["theirs"] + "done\n")
else:
    for path in scope: put(path, "done\n")
    # One of them alone plays the user: git lets nobody commit while another does.
    if "src/b.txt" in scope:
        for name in "ab": commit("src/%s.txt" % name, "as the user says\n")
say()"#;
    let env = with_user(&ALL, worker);
    pipeline(&env).success();
    assert_eq!(landed(&env), ["as the user says\ndone", "as the user says\ndone"]);
    assert_eq!(column(&shown(&env), "fixes", "task_id"), ["pipeline-task-fix-1"]);
    holds(&env);
}

/// The user does not wait for a fix.
#[test]
fn a_branch_that_moves_again_is_fixed_again() {
    let worker = r#"
path = "src/a.txt"
if fixing:
    theirs = sides()[0][0]["parts"][0]["theirs"]
    put(path, theirs + "done\n")
    if task.endswith("-1"): commit(path, "as the user says now\n")
else:
    for each in scope: put(each, "done\n")
    commit(path, "as the user says\n")
say()"#;
    let env = with_user(&ONE, worker);
    pipeline(&env).success();
    assert_eq!(landed(&env), ["as the user says now\ndone", "done"]);
    assert_eq!(column(&shown(&env), "fixes", "cause"), ["conflict", "conflict"]);
    assert_eq!(env.event_types().iter().filter(|it| *it == "line_moved").count(), 2);
    holds(&env);
}

/// Killed where both sides are written down, before and after that is on record.
#[test]
fn a_conflict_is_handed_back_once_however_often_norma_is_killed() {
    // The PM's contract and the worker's change come first.
    for (point, is_recorded) in
        [("change.before_rename:3", false), ("change.after_rename:3", false), ("change.after_submit:3", true)]
    {
        let mut env = with_user(&ONE, BOTH);
        env.env.insert("NORMA_CRASH_POINT".to_owned(), point.to_owned());
        pipeline(&env);
        env.env.remove("NORMA_CRASH_POINT");
        let kinds = || env.event_types().iter().filter(|it| *it == "line_moved").count();
        assert_eq!(kinds() == 1, is_recorded, "{point}");
        assert_eq!(landed(&env), ["as the user says", "to do"], "{point}");
        env.norma(&["resume", "@last"]).success();
        assert_eq!((landed(&env)[0].as_str(), kinds()), ("as the user says\ndone", 1), "{point}");
        holds(&env);
    }
}

#[test]
fn one_with_a_conflict_comes_to_the_same_end_when_it_is_killed() {
    comes_to_the_same_end_in(|| with_user(&all_but("worker", ""), BOTH));
}
