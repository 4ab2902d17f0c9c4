//! norma's process handling as a program of its own, for tests that need real processes.
//!
//! `supervisor __supervise` is the supervisor, as norma's binary has it.
//! `supervisor run PROGRAM ARGS…` runs a program through it, so that a test can kill norma's side,
//! and fails when the run leaves a child or a descriptor behind in the process that made it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use runner::process::{self, Cancel, Command, End, Limits, Supervisor};

/// Longer than any test waits.
const WALL: Duration = Duration::from_secs(600);

fn main() -> io::Result<ExitCode> {
    let mut args = env::args_os().skip(1);
    match args.next() {
        Some(mode) if mode == "__supervise" => Ok(exit_code(process::supervise::main())),
        Some(mode) if mode == "run" => run(args),
        _ => Err(io::Error::other("expected `__supervise` or `run`")),
    }
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn run(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let program = args.next().ok_or_else(|| io::Error::other("expected a program"))?;
    let command = Command {
        program: PathBuf::from(program),
        args: args.collect(),
        cwd: env::current_dir()?,
        env: env::vars_os().collect::<BTreeMap<_, _>>(),
        stdin: Vec::new(),
        limits: Limits { wall: WALL, idle: None, output_bytes_max: 1024, clock: None },
    };
    let supervisor = Supervisor { program: env::current_exe()?, args: vec![OsString::from("__supervise")] };
    let cancel = Cancel::new()?;
    let before = traces()?;
    let outcome = process::run(&command, &supervisor, &cancel, &mut |_| {})?;
    if traces()? != before {
        return Err(io::Error::other(format!("left {:?}, not {before:?}", traces()?)));
    }
    match outcome.end {
        End::Exited(code) => Ok(exit_code(code)),
        end => Err(io::Error::other(format!("{end:?}"))),
    }
}

/// The children of this process, zombies included, and the number of its open descriptors.
fn traces() -> io::Result<(String, usize)> {
    Ok((fs::read_to_string("/proc/thread-self/children")?, fs::read_dir("/proc/self/fd")?.count()))
}
