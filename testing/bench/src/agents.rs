//! Interactive sessions: what norma itself needs for each event that one streams, and what a turn of a real one
//! takes beside the bare command line, told the same by the same model.

use crate::barriers::must;
use crate::batch::program::last_line;
use crate::memory::read;
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::step::RESPONSE;
use crate::world::World;
use crate::{Result, tell};
use scripted_model::agents::{Agent, program};
use scripted_model::{Options, Server, Step, script};
use serde_json::{Value, json};
use session::{Act, Brief, Kind, Mode, Rights, Session, ShellRight, launch};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The word by which this program is an agent that speaks ACP and streams so many pieces of a message.
pub(crate) const SPEAK: &str = "speak-acp";

const TARGET_EVENT_US: f64 = 50.0;
const TARGET_MB: f64 = 20.0;
const TARGET_BARE: f64 = 1.3;

/// The kernel counts processor time in ticks.
const TICKS_A_SECOND: f64 = 100.0;

pub(crate) fn run(world: &World) -> Result<Section> {
    let about = "An agent that speaks ACP streams pieces of a message as fast as it can; norma's own processor time for \
                 each is what a session of many takes more than one of few, and its memory the most that norma's own \
                 process held. A turn of codex: one file written by a script behind a model server, in `codex app-server` \
                 mode, beside the same program told the same prompt by a client that does nothing else; interleaved. No test \
                 is run."
        .to_owned();
    Ok(Section { title: "Agents", about, tables: vec![events(world)?, turns(world)?] })
}

fn events(world: &World) -> Result<Table> {
    let mut table =
        Table::new(&["streamed events", "CPU s of norma", "µs per event", "peak MB of norma", "target", ""]);
    let (few, many) = (world.count(1000, 1000), world.count(100_000, 20_000));
    tell(&format!("bench: agents, {many} events"));
    let mut cost = Samples::default();
    let (mut busy, mut peak) = (0.0, 0.0_f64);
    for _ in 0..world.count(3, 1) {
        let (small, large) = (stream(world, few)?, stream(world, many)?);
        cost.push((large.0 - small.0) * 1e6 / f64::from(many - few));
        (busy, peak) = (large.0, peak.max(large.1));
    }
    table.row(vec![
        many.to_string(),
        format!("{busy:.2}"),
        format!("{:.1}", cost.median()),
        format!("{peak:.1}"),
        format!("≤ {TARGET_EVENT_US} µs, ≤ {TARGET_MB} MB"),
        at_most((cost.median() / TARGET_EVENT_US).max(peak / TARGET_MB), 1.0),
    ]);
    Ok(table)
}

/// One session of so many events: processor time and the most memory of norma's own process.
fn stream(world: &World, events: u32) -> Result<(f64, f64)> {
    let own = std::env::current_exe()?;
    let agent = json!({"type": "acp", "cmd": [own, SPEAK, events.to_string()]});
    let dir = prepared(world, "agent-1", agent)?;
    let items = item(world, "agent-1", "speak")?;
    let mut command = world.command(&world.norma, &dir);
    let mut child = command.arg("batch").arg(items).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut seconds, mut peak) = (0.0, 0.0);
    while child.try_wait()?.is_none() {
        if let Some((now, most)) = usage(child.id()) {
            (seconds, peak) = (now, most);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    if output.status.success() { Ok((seconds, peak)) } else { Err(last_line(&output.stdout).into()) }
}

/// Processor time in seconds and the most memory in MB of one process.
fn usage(pid: u32) -> Option<(f64, f64)> {
    let stat = read(pid, "stat");
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let status = read(pid, "status");
    let held = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    Some(((ticks(11)? + ticks(12)?) / TICKS_A_SECOND, held.parse::<f64>().ok()? * 1024.0 / 1e6))
}

/// Being that agent.
pub(crate) fn speak(events: &str) -> Result<()> {
    let events: u32 = events.parse()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let result = match asked["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {}}),
            Some("session/new") => json!({"sessionId": "s"}),
            Some("session/prompt") => {
                for number in 0..events {
                    piece(&mut out, &format!("{number} "))?;
                }
                // What comes after a tool is a message of its own, and the last one is the answer.
                let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "think", "kind": "think"});
                update(&mut out, &call)?;
                piece(&mut out, RESPONSE)?;
                json!({"stopReason": "end_turn"})
            }
            _ => continue,
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))?;
        out.flush()?;
    }
    Ok(())
}

fn piece(out: &mut impl Write, text: &str) -> Result<()> {
    update(out, &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn update(out: &mut impl Write, update: &Value) -> Result<()> {
    let params = json!({"sessionId": "s", "update": update});
    Ok(writeln!(out, "{}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))?)
}

fn prepared(world: &World, name: &str, agent: Value) -> Result<PathBuf> {
    let dir = world.repository(&world.fresh_name("agents"), 10)?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let path = dir.join(".norma/config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    config["agents"] = json!({name: agent});
    std::fs::write(&path, config.to_string())?;
    must(world.command(&world.norma, &dir).arg("trust"), 0)?;
    Ok(dir)
}

fn item(world: &World, agent: &str, goal: &str) -> Result<PathBuf> {
    let path = world.dir.join(world.fresh_name("item"));
    std::fs::write(&path, json!({"id": "one", "agent_id": agent, "description": goal}).to_string())?;
    Ok(path)
}

fn turns(world: &World) -> Result<Table> {
    let mut table = Table::new(&["a turn of codex", "bare ms", "norma ms", "× bare", "target", ""]);
    let Some(codex) = program(Agent::Codex) else {
        let mut cells = vec!["–".to_owned(); table.header.len()];
        cells[0] = "not measured: codex is not installed (cargo xtask agents)".to_owned();
        table.row(cells);
        return Ok(table);
    };
    tell("bench: agents, turns of codex");
    let server = Server::start(Options::default())?;
    let answer = serde_json::from_str(RESPONSE)?;
    let steps = [Step::Write { path: "made.txt".into(), content: "made\n".into() }, Step::Structured(answer)];
    let goal = format!("{} write it", script::inline(&steps));
    let (mut bare, mut turn, mut landed) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..world.count(20, 3) {
        let timed = under_norma(world, &codex, server.port(), &goal)?;
        turn.push(timed.turn_ms);
        landed.push_ms(timed.landed);
        bare.push_ms(alone(world, &codex, server.port(), &timed.prompt)?);
    }
    for (name, own) in
        [("from its intent to its record", turn), ("from the start of norma to `landed` printed", landed)]
    {
        let ratio = own.median() / bare.median();
        table.row(vec![
            format!("{name}, {} each", world.count(20, 3)),
            format!("{:.0}", bare.median()),
            format!("{:.0}", own.median()),
            format!("{ratio:.2}"),
            format!("≤ {TARGET_BARE} ×"),
            at_most(ratio, TARGET_BARE),
        ]);
    }
    Ok(table)
}

/// A turn of codex under norma.
struct Timed {
    /// By its events.
    turn_ms: f64,
    /// From the start of norma until it said that the change had landed.
    landed: Duration,
    /// What codex was told.
    prompt: String,
}

fn under_norma(world: &World, codex: &Path, port: u16, goal: &str) -> Result<Timed> {
    let base_url = format!("http://127.0.0.1:{port}");
    let agent = json!({"type": "codex", "model": "gpt-5.5", "bin": codex, "base_url": base_url});
    let dir = prepared(world, "codex", agent)?;
    let items = item(world, "codex", goal)?;
    let landed = until_landed(world.command(&world.norma, &dir).arg("batch").arg(items))?;
    let runs = std::fs::read_dir(dir.join(".norma/runs"))?.next().ok_or("there is no run")??.path();
    let text = std::fs::read_to_string(runs.join("events.jsonl"))?;
    let at = |kind: &str| -> Result<f64> {
        let events = text.lines().map(serde_json::from_str::<Value>);
        let found = events.filter_map(std::result::Result::ok).find(|event| event["event_type"] == kind);
        let ts = found.ok_or(format!("no {kind}"))?["ts"].clone();
        let ts: contract::Timestamp = serde_json::from_value(ts)?;
        Ok(ts.unix_ms() as f64)
    };
    let prompt = std::fs::read_to_string(runs.join("steps/001-worker/prompt.full.txt"))?;
    Ok(Timed { turn_ms: at("step_committed")? - at("step_started")?, landed, prompt })
}

/// How long a command takes to say that a change has landed; it must succeed.
fn until_landed(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().ok_or("norma has no output")?;
    let mut landed = None;
    for line in BufReader::new(stdout).lines() {
        if line?.starts_with("landed ") {
            landed.get_or_insert_with(|| started.elapsed());
        }
    }
    let status = child.wait()?;
    landed.filter(|_| status.success()).ok_or_else(|| format!("nothing landed: {command:?} ended with {status}").into())
}

/// The same without norma.
fn alone(world: &World, codex: &Path, port: u16, prompt: &str) -> Result<Duration> {
    let dir = world.repository(&world.fresh_name("bare"), 10)?;
    let home = world.dir.join(world.fresh_name("codex-home"));
    let (cwd, home) = (dir.to_string_lossy().into_owned(), home.to_string_lossy().into_owned());
    let base_url = format!("http://127.0.0.1:{port}");
    let rights = Rights { write: true, shell: ShellRight::Never, network: false, mcp_tools: Vec::new() };
    let brief = Brief {
        kind: Kind::Codex,
        model: Some("gpt-5.5"),
        effort: None,
        base_url: Some(&base_url),
        api_key: Some("none"),
        key_variable: None,
        cwd: &cwd,
        home: &home,
        extra_write: &[],
        rights,
        tools: None,
        output_schema: None,
        resume: None,
        used: contract::Usage::default(),
        args: &[],
    };
    let launch = launch(&brief, Mode::Live);
    for (path, content) in &launch.files {
        let to = Path::new(&home).join(path);
        std::fs::create_dir_all(to.parent().unwrap_or(Path::new(&home)))?;
        std::fs::write(to, content)?;
    }
    let started = Instant::now();
    let mut child = Command::new(codex)
        .args(&launch.args)
        .env_clear()
        .env("PATH", world.path())
        .envs(&launch.env)
        .current_dir(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take();
    let stdout = child.stdout.take().ok_or("codex has no output")?;
    let (mut session, acts) = Session::open(&brief, Mode::Live, prompt);
    say(&mut stdin, acts)?;
    for line in BufReader::new(stdout).split(b'\n') {
        let mut acts = session.hear(&line?);
        if session.turn_over() {
            acts.extend(session.close());
        }
        say(&mut stdin, acts)?;
    }
    child.wait()?;
    let took = started.elapsed();
    if dir.join("made.txt").is_file() { Ok(took) } else { Err("codex made nothing".into()) }
}

fn say(stdin: &mut Option<std::process::ChildStdin>, acts: Vec<Act>) -> Result<()> {
    for act in acts {
        match (act, &mut *stdin) {
            (Act::Say(words), Some(pipe)) => pipe.write_all(&words)?,
            (Act::CloseInput, pipe) => *pipe = None,
            _ => {}
        }
    }
    Ok(())
}
