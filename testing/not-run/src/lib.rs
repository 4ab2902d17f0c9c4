//! A test that needs something this machine does not have (an agent, root, strace) was not run, which is not the same
//! as passed. libtest has no word for that at run time, so such a test calls [`because`] and returns: the reason goes to
//! standard error, past libtest's capture, and into the file that `cargo xtask test` names in [`FILE`] and counts by.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// The variable that names the file: a line for each test, with its program, its name and the reason between tabs.
pub const FILE: &str = "NORMA_NOT_RUN";

/// Says that the calling test was not run, or not all of it, and why.
///
/// # Panics
/// If the file cannot be written: a test that is not counted would count as passed.
#[track_caller]
pub fn because(reason: impl Display) {
    let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let test = test(Location::caller());
    // Not `eprintln`, which libtest captures and drops when a test passes.
    let _ = writeln!(std::io::stderr(), "NOT RUN {test}: {reason}");
    if let Some(path) = std::env::var_os(FILE) {
        let line = format!("{}\t{test}\t{reason}\n", program());
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("could not write {}: {error}", path.display()));
    }
}

/// Whether something that tests need may be missing: not in CI, which is there to run everything.
#[must_use]
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// The name of the test, which libtest gives its thread. With one thread for all there is no name, but a place.
fn test(called_at: &Location<'_>) -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", called_at.file(), called_at.line()),
    }
}

/// The test program, as cargo names its file.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
