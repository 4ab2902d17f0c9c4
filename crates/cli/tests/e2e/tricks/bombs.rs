//! Agents that take all they can get: the run ends and says why, norma continues, and nothing is left running.

use super::confining;
use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// No process of this machine has this word on its command line.
#[track_caller]
pub(super) fn nobody_runs(word: &str) {
    let entries = std::fs::read_dir("/proc").unwrap();
    let lines = entries.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let found = lines.filter(|line| line.split(|byte| *byte == 0).any(|it| it == word.as_bytes())).count();
    assert_eq!(found, 0, "{word}");
}

/// A run whose `do` goes off under these settings; the run must end like this, and norma must be there afterwards.
#[track_caller]
fn check(bomb: &str, settings: &Value, status: &str, reason: &str) -> TestEnvironment {
    let env = TestEnvironment::new(json!({}));
    // A word on the command line of everything that is started.
    let mark = env.dir.file_name().unwrap().to_string_lossy().into_owned();
    env.script(json!({"do": [[{"shell": format!("exec sh -c '{bomb}' {mark}")}]]}));
    env.configure(|config| {
        for (name, value) in settings.as_object().unwrap() {
            config[name] = value.clone();
        }
    });
    let before = env.repository();
    let output = env.norma(&["run", "1"]);
    let run = env.last();
    assert_eq!((&run["status"], &run["reason"]), (&json!(status), &json!(reason)), "{bomb}: {output}");
    output.exits(1);
    nobody_runs(&mark);
    assert_eq!(env.repository(), before, "{bomb}");
    env.norma(&["verify", "@last"]).success();
    std::fs::write(env.dir.join("script.json"), "{}").unwrap();
    env.norma(&["run", "1", "--new"]).success();
    env
}

#[test]
fn a_memory_bomb_ends_the_run_as_out_of_memory() {
    if confining().is_none() {
        return;
    }
    let limits = json!({"sandbox": {"limits": {"memory_mb": 64}}});
    check(r#"exec perl -e "push @x, q(x) x 100000 while 1""#, &limits, "failed", "out_of_memory");
}

#[test]
fn a_disk_bomb_ends_the_run_as_disk_full_wherever_it_goes_off() {
    if confining().is_none() {
        return;
    }
    let flood = |path: &str, mb: u32| format!("head -c {mb}000000 /dev/zero > \"{path}\"");
    let many = "i=0; while echo xxxxxxxxxx > many.$i; do i=$((i+1)); done; exit 1";
    check(&flood("{repo_root}/big", 20), &json!({"workspace": {"layer_mb": 4}}), "failed", "disk_full");
    check(many, &json!({"workspace": {"layer_mb": 1}}), "failed", "disk_full");
    check(&flood("{step_dir}/big", 90), &json!({"limits": {"evidence_mb": 1}}), "failed", "disk_full");
    check(&flood("/tmp/big", 20), &json!({"sandbox": {"limits": {"private_mb": 4}}}), "failed", "disk_full");
    check(&flood("$HOME/big", 20), &json!({"sandbox": {"limits": {"private_mb": 4}}}), "failed", "disk_full");
    // One file that is too large ends the program that writes it; which of its own programs that was, an agent knows.
    check(&flood("{repo_root}/big", 20), &json!({"sandbox": {"limits": {"file_mb": 4}}}), "failed", "agent_failed");
}

#[test]
fn a_fork_bomb_fails_its_step_and_leaves_nobody() {
    if confining().is_none() {
        return;
    }
    let limits = json!({"sandbox": {"limits": {"processes": 301}}});
    check("f() { f | f & }; f; sleep 1; exit 3", &limits, "failed", "agent_failed");
}

#[test]
fn a_processor_bomb_ends_the_run_as_out_of_processor_time() {
    if confining().is_none() {
        return;
    }
    let limits = json!({"sandbox": {"limits": {"cpu_seconds": 1}}});
    check("while :; do :; done", &limits, "failed", "out_of_cpu_time");
}

#[test]
fn an_endless_output_is_cut_and_ended_at_the_deadline() {
    if confining().is_none() {
        return;
    }
    let limits = json!({"limits": {"output_mb": 1, "step_seconds": 3}});
    let env = check("exec yes >&2", &limits, "timed_out", "agent_timeout");
    let runs = std::fs::read_dir(env.root.join(".norma/runs")).unwrap();
    let logs = runs.filter_map(|run| run.unwrap().path().join("steps/002-do/logs/stderr.txt").metadata().ok());
    let kept = logs.map(|log| log.len()).max().unwrap();
    assert!(((1 << 20)..(1 << 20) + 200).contains(&kept), "{kept} bytes were kept");
}

#[test]
fn a_daemon_of_a_confined_agent_is_dead_when_its_turn_ends() {
    if confining().is_none() {
        return;
    }
    let daemon = "setsid sh -c 'trap \"\" TERM HUP; sleep 98765 & exec sleep 98765' > /dev/null 2>&1 & sleep 0.1";
    let log = json!({"write": {"path": "files/test.log", "content": "ok\n"}});
    let env = TestEnvironment::new(json!({"do": [[{"shell": daemon}, log]]}));
    env.norma(&["run", "1"]).success();
    nobody_runs("98765");
}
