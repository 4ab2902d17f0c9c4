//! How often a step waits for the disk, counted from outside: the real norma carries out a short and a long run
//! under `strace`, and the difference is what the additional steps cost.

use crate::Result;
use crate::page::Table;
use crate::step::config;
use crate::world::World;
use std::path::Path;
use std::process::Command;

/// Steps in an iteration.
const STEPS: u32 = 4;

/// Iterations of the short and the long run.
const SHORT: u32 = 3;
const LONG: u32 = 13;

/// Calls by the file they were for.
#[derive(Default)]
struct Counted {
    commits: u32,
    mirror: u32,
    seal: u32,
    other: u32,
}

pub(crate) fn run(world: &World) -> Result<Table> {
    let mut table = Table::new(&["barriers per step (fsync, fdatasync)", "number"]);
    if Command::new("strace").arg("-V").output().is_err() {
        table.row(vec!["not counted: no strace".into(), "–".into()]);
        return Ok(table);
    }
    let dir = world.repository("barriers", 100)?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let (short, long) = (count(world, &dir, SHORT)?, count(world, &dir, LONG)?);
    let per_step =
        |few: u32, many: u32| format!("{:.2}", (f64::from(many) - f64::from(few)) / f64::from((LONG - SHORT) * STEPS));
    table.row(vec!["commits of the log (`norma.db-wal`): waited for".into(), per_step(short.commits, long.commits)]);
    table.row(vec!["`events.jsonl`: nobody waits".into(), per_step(short.mirror, long.mirror)]);
    table.row(vec!["evidence of the step, waited for".into(), per_step(short.other, long.other)]);
    table.row(vec!["evidence, when the run is sealed at its end".into(), per_step(short.seal, long.seal)]);
    Ok(table)
}

fn count(world: &World, dir: &Path, iterations: u32) -> Result<Counted> {
    let file = world.dir.join(format!("config-{iterations}.json"));
    std::fs::write(&file, serde_json::to_vec(&config(iterations)?)?)?;
    let trace = world.dir.join(format!("trace-{iterations}"));
    let mut command = world.command("strace", dir);
    command.args(["-f", "-y", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o"]).arg(&trace);
    command.arg(&world.norma).arg("--config").arg(&file).args(["run", "--goal", "count"]);
    // The run stops at its last iteration, which is exit code 1.
    must(&mut command, 1)?;
    let mut counted = Counted::default();
    for line in std::fs::read_to_string(&trace)?.lines().filter(|line| line.contains("sync(")) {
        match line {
            line if line.contains("norma.db") => counted.commits += 1,
            line if line.contains("events.jsonl") => counted.mirror += 1,
            line if line.contains("/steps") && !line.contains(".tmp-") => counted.seal += 1,
            _ => counted.other += 1,
        }
    }
    Ok(counted)
}

/// Runs a command that must end with this code.
pub(crate) fn must(command: &mut Command, code: i32) -> Result<()> {
    let status = command.status()?;
    if status.code() == Some(code) { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
