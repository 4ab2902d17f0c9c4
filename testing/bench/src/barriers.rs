//! How often norma waits for the disk, counted from outside: the real norma carries out a short and a long run
//! under `strace`, and the difference is what the additional steps or items cost.

use crate::Result;
use crate::page::Table;
use crate::step::config;
use crate::world::World;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Steps in an iteration.
const STEPS: u32 = 4;

/// Iterations of the short and the long run.
const SHORT: u32 = 3;
const LONG: u32 = 13;

/// Calls by the file they were for.
#[derive(Default)]
pub(crate) struct Counted {
    commits: u32,
    mirror: u32,
    seal: u32,
    objects: u32,
    other: u32,
}

pub(crate) fn run(world: &World) -> Result<Table> {
    let mut table = Table::new(&["barriers per step (fsync, fdatasync)", "number"]);
    if !has_strace() {
        table.row(vec!["not counted: no strace".into(), "–".into()]);
        return Ok(table);
    }
    let dir = world.repository("barriers", 100)?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let (short, long) = (steps(world, &dir, SHORT)?, steps(world, &dir, LONG)?);
    rows(&mut table, &short, &long, (LONG - SHORT) * STEPS);
    Ok(table)
}

/// Whether this machine can count.
pub(crate) fn has_strace() -> bool {
    Command::new("strace").arg("-V").output().is_ok()
}

/// Adds what each of so many further ones waits for.
pub(crate) fn rows(table: &mut Table, few: &Counted, many: &Counted, further: u32) {
    let each = |few: u32, many: u32| format!("{:.2}", (f64::from(many) - f64::from(few)) / f64::from(further));
    table.row(vec!["commits of the log (`norma.db-wal`): waited for".into(), each(few.commits, many.commits)]);
    table.row(vec!["`events.jsonl`: nobody waits".into(), each(few.mirror, many.mirror)]);
    table.row(vec!["evidence, waited for".into(), each(few.other, many.other)]);
    table.row(vec!["git objects and refs".into(), each(few.objects, many.objects)]);
    table.row(vec!["evidence, when the run is sealed at its end".into(), each(few.seal, many.seal)]);
}

fn steps(world: &World, dir: &Path, iterations: u32) -> Result<Counted> {
    let file = world.dir.join(format!("config-{iterations}.json"));
    std::fs::write(&file, serde_json::to_vec(&config(iterations)?)?)?;
    let args = ["--config".as_ref(), file.as_os_str(), "run".as_ref(), "--goal".as_ref(), "count".as_ref()];
    // The run stops at its last iteration, which is exit code 1.
    count(world, dir, &args, 1)
}

/// Runs norma with these arguments, which must end with this code, and counts.
pub(crate) fn count(world: &World, dir: &Path, args: &[&OsStr], code: i32) -> Result<Counted> {
    let trace = tempfile::NamedTempFile::new_in(&world.dir)?;
    let mut command = world.command("strace", dir);
    command.args(["-f", "-y", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o"]).arg(trace.path());
    must(command.arg(&world.norma).args(args), code)?;
    let mut counted = Counted::default();
    for line in std::fs::read_to_string(trace.path())?.lines().filter(|line| line.contains("sync(")) {
        match line {
            line if line.contains("norma.db") => counted.commits += 1,
            line if line.contains("events.jsonl") => counted.mirror += 1,
            line if is_evidence(line) && !line.contains(".tmp-") => counted.seal += 1,
            line if line.contains("git/") => counted.objects += 1,
            _ => counted.other += 1,
        }
    }
    Ok(counted)
}

fn is_evidence(line: &str) -> bool {
    line.contains("/steps") || line.contains("/changes")
}

/// Runs a command that must end with this code.
pub(crate) fn must(command: &mut Command, code: i32) -> Result<()> {
    let status = command.status()?;
    if status.code() == Some(code) { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
