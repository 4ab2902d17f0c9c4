//! `record [--once] AGENT… -- SCENARIO…`: drives the real agents against the scripted model and writes down what was
//! said, as `testing/model/transcripts/AGENT/SCENARIO.jsonl`. Without names it takes all of them. It is run by hand
//! when an agent's version changes; the transcripts are what parsers are tested on. With `--once` it uses the modes that
//! take one prompt and ask nothing, and their files are `once_SCENARIO.jsonl`.
//!
//! Each line of a transcript is `{"dir": "in", "line": …}` for what the agent read, `"out"` for what it wrote, and a
//! last one `"exit"` with its exit code. Paths, ports and long lists are neutral: see `neutral.rs`.

mod neutral;
mod once;
mod scenario;
mod session;
mod talk;

use scenario::Scenario;
use scripted_model::agents::{self, Agent};
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "record: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let is_once = args.first().is_some_and(|arg| arg == "--once");
    if is_once {
        args.remove(0);
    }
    let mut halves = args.split(|arg| arg == "--");
    let agents = halves.next().unwrap_or_default();
    let scenarios = halves.next().unwrap_or_default();
    let is_meant = |names: &[String], name: &str| names.is_empty() || names.iter().any(|other| other == name);
    for agent in Agent::ALL.into_iter().filter(|agent| is_meant(agents, agent.name())) {
        let program = agents::program(agent).ok_or_else(|| format!("{} is not installed", agent.name()))?;
        let meant = scenario::ALL.iter().filter(|scenario| is_meant(scenarios, scenario.name) && scenario.suits(agent));
        for scenario in meant.filter(|scenario| !is_once || scenario.is_one_sided()) {
            record(agent, &program, scenario, is_once)?;
        }
    }
    Ok(())
}

fn record(agent: Agent, program: &Path, scenario: &Scenario, is_once: bool) -> Outcome {
    let world = session::World::make(agent, program, scenario)?;
    let started = Instant::now();
    let lines = if is_once { once::run(&world, scenario)? } else { session::run(&world, scenario)? };
    let neutral = neutral::Neutral::new(&world);
    let text: String = lines.iter().map(|line| format!("{}\n", neutral.line(line))).collect();
    let prefix = if is_once { "once_" } else { "" };
    let path = transcripts().join(agent.name()).join(format!("{prefix}{}.jsonl", scenario.name));
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    std::fs::write(&path, &text)?;
    let last = lines.last().map(|line| line["line"].to_string()).unwrap_or_default();
    let (agent, name, count, bytes) = (agent.name(), scenario.name, lines.len(), text.len());
    let (asked, seconds) = (world.server.requests().len(), started.elapsed().as_secs_f64());
    let files = world.files()?.join(" ");
    let took = format!("{asked} requests, {seconds:.1} s, exit {last}, files: {files}");
    writeln!(io::stdout(), "{agent} {prefix}{name}: {count} lines, {bytes} bytes, {took}")?;
    Ok(())
}

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}
