//! SPEAKS. The command line: arguments in, one of the other crates does the work, text or JSON and an exit code
//! out. Only this crate prints and reads the environment.

mod cause;
mod command;
mod demo;
mod diffstat;
mod ending;
mod error;
mod hosting;
mod interrupts;
mod log;
mod pages;
mod progress;
mod session;
mod surroundings;
mod text;

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The supervisor of an agent is this same program; it is on the path of every turn, so it comes first.
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if first == surroundings::SUPERVISE {
        return ExitCode::from(runner::process::supervise::main().clamp(0, 255) as u8);
    }
    if first == surroundings::SET_UP_SANDBOX {
        return sandbox::setup::main();
    }
    if runner::node_tools::is_asked(&first) {
        return node_tools();
    }
    if first == surroundings::DRILL_ROLES.drill {
        return sandbox::drill::main(&surroundings::DRILL_ROLES);
    }
    if (first == "--version" || first == "-V") && std::env::args_os().len() == 2 {
        return version();
    }
    if command::completions::is_asked() {
        return command::completions::answer();
    }
    surroundings::close_to_others();
    sandbox::share_pools();
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return error::misused(&error),
    };
    surroundings::arm_crash_point();
    let json = cli.json;
    let started = log::start(cli.verbose, surroundings::log_level());
    let here = started.and_then(|()| surroundings::Surroundings::read(&cli));
    match here.and_then(|here| cli.verb.run(&here)) {
        Ok(code) => code,
        Err(error) => error.report(json),
    }
}

/// The tools of a graph, for the agent that has started this inside its sandbox.
fn node_tools() -> ExitCode {
    let served = std::env::args_os().nth(2).map(|calls| runner::node_tools::serve(calls.as_ref()));
    if let Some(Ok(())) = served { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Scripts ask for the version often, and building the whole command line would take longer than all else.
fn version() -> ExitCode {
    // As with any other text: whoever does not want it has closed the pipe.
    let _ = writeln!(std::io::stdout(), "norma {}", command::version());
    ExitCode::SUCCESS
}
