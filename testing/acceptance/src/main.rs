//! What norma's binary becomes when it runs a test command, as a program of its own: `__supervise` is the supervisor of
//! one that nothing confines, `__sandbox` sets up the sandbox of one that is confined.

use std::io;
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("__supervise") => Ok(ExitCode::from(runner::process::supervise::main().clamp(0, 255) as u8)),
        Some("__sandbox") => Ok(sandbox::setup::main()),
        _ => Err(io::Error::other("expected `__supervise` or `__sandbox`")),
    }
}
