//! What a script can ask for, one arm each.

use crate::{Outcome, Turn, write_file};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How often a file that is waited for is looked for.
const POLL: Duration = Duration::from_millis(5);

/// Does one action.
pub(crate) fn carry_out(turn: &mut Turn, action: &Value) -> Outcome {
    let (verb, what) = match action {
        Value::String(verb) => (verb.as_str(), &Value::Null),
        Value::Object(map) if map.len() == 1 => map.iter().next().map(|(k, v)| (k.as_str(), v)).ok_or("empty")?,
        other => return Err(format!("not an action: {other}").into()),
    };
    let text = |name: &str| turn.fill_in(what.get(name).and_then(Value::as_str).unwrap_or_default());
    let own_text = || turn.fill_in(what.as_str().unwrap_or_default());
    match verb {
        "write" => turn.write(&text("path"), text("content").as_bytes()),
        "write_abs" => write_file(Path::new(&text("path")), text("content").as_bytes()),
        "append_repo" => append(&Path::new(turn.text("/paths/repo_root")).join(text("path")), &text("content")),
        "patch" => turn.write("patch.diff", own_text().as_bytes()),
        "verdict" => verdict(turn, what),
        "scorecard" => turn.write("scorecard.md", own_text().as_bytes()),
        "respond" => turn.respond(what),
        "print" => turn.print(own_text().as_bytes()),
        "print_bytes" => print_bytes(turn, what.as_u64().unwrap_or_default()),
        "stderr" => Ok(std::io::stderr().write_all(own_text().as_bytes())?),
        "exit" => std::process::exit(what.as_i64().unwrap_or(1) as i32),
        "signal" => shell(&format!("kill -{what} {}", std::process::id())),
        "sleep_ms" => {
            std::thread::sleep(Duration::from_millis(what.as_u64().unwrap_or_default()));
            Ok(())
        }
        "hang" => loop {
            std::thread::park();
        },
        "ignore_term" => Err(Command::new("sh").args(["-c", "trap '' TERM; while :; do sleep 5; done"]).exec().into()),
        "daemon" => daemon(&text("pid_file")),
        "fifo" => shell(&format!("mkfifo '{}'", turn.step_dir().join(text("path")).display())),
        "symlink" => Ok(std::os::unix::fs::symlink(text("target"), turn.step_dir().join(text("path")))?),
        "delete_step_dir" => Ok(std::fs::remove_dir_all(turn.step_dir())?),
        "shell" => shell(&own_text()),
        "dump_env" => {
            let lines: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}\n")).collect();
            turn.write(&own_text(), lines.concat().as_bytes())
        }
        "dump_request" => {
            let raw = turn.raw.clone();
            turn.write(&own_text(), &raw)
        }
        "wait_for" => {
            let path = own_text();
            while !Path::new(&path).exists() {
                std::thread::sleep(POLL);
            }
            Ok(())
        }
        other => Err(format!("there is no action {other:?}").into()),
    }
}

/// `verdict.json` and `scorecard.md`: `"PASS"`, `"FAIL"`, or an object that replaces fields of the file. `evidence`
/// replaces that of every criterion.
fn verdict(turn: &mut Turn, what: &Value) -> Outcome {
    let word = what.as_str().or(what["verdict"].as_str()).unwrap_or("PASS");
    let evidence = what["evidence"].as_str().unwrap_or("files/test.log");
    let asked = turn.request.pointer("/norma/acceptance_criteria").and_then(Value::as_array);
    let criteria: Vec<Value> = asked
        .into_iter()
        .flatten()
        .map(|criterion| {
            json!({"id": criterion["id"], "text": criterion["text"], "pass": word == "PASS", "evidence": evidence})
        })
        .collect();
    let mut file = json!({"version": 1, "verdict": word, "criteria": criteria, "metrics": {}, "blockers": [],
                          "recommended_fix": []});
    for (name, value) in what.as_object().into_iter().flatten().filter(|(name, _)| *name != "evidence") {
        file[name] = value.clone();
    }
    turn.write("verdict.json", file.to_string().as_bytes())?;
    turn.write("scorecard.md", format!("# Scorecard\n\n{word}\n").as_bytes())
}

fn append(path: &Path, content: &str) -> Outcome {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(content.as_bytes())?)
}

fn print_bytes(turn: &mut Turn, mut count: u64) -> Outcome {
    let block = vec![b'x'; 1 << 16];
    while count > 0 {
        let part = count.min(block.len() as u64);
        turn.print(&block[..part as usize])?;
        count -= part;
    }
    Ok(())
}

fn shell(script: &str) -> Outcome {
    let status = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{script:?} ended with {status}").into()) }
}

/// A process in a session of its own that outlives the turn if nobody ends it; its id is in `pid_file` before the
/// turn continues.
fn daemon(pid_file: &str) -> Outcome {
    let script = format!("echo $$ > '{pid_file}.new'; mv '{pid_file}.new' '{pid_file}'; exec sleep 600");
    let null = || Stdio::null();
    Command::new("setsid").args(["sh", "-c", &script]).stdin(null()).stdout(null()).stderr(null()).spawn()?;
    while !Path::new(pid_file).exists() {
        std::thread::sleep(POLL);
    }
    Ok(())
}
