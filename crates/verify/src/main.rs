//! `norma-verify`: checks a bundle, offline. Reads the bundle and the keys it is told to trust, and nothing else.

use contract::Check;
use std::fs::File;
use std::io::{Error, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use verify::{PublicKey, Report, read_keys, verify};

const USAGE: &str = "\
Checks a bundle that `norma export` wrote: norma-verify BUNDLE.tar [--trust DIR] [--json]

  --trust DIR   trust the public keys in DIR (*.pem); without it, signatures are checked
                against the bundle's own keys and the bundle is not verified
  --json        print JSON for programs instead of text for people
  --version     print the version

Exit codes: 0 verified, 1 not verified, 2 it could not be checked

Example:
  norma keys export -o keys/norma.pem   # on the machine that ran it
  norma-verify bundle.tar --trust keys/";

/// What was typed.
struct Args {
    bundle: PathBuf,
    trust: Option<PathBuf>,
    json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print(USAGE);
        return ExitCode::SUCCESS;
    }
    if words.iter().any(|word| word == "--version" || word == "-V") {
        print(concat!("norma-verify ", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    match parse(words.into_iter()).and_then(|args| check(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            tell(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, Error> {
    let usage = |why: &str| Error::other(format!("{why}\nnext: norma-verify --help"));
    let (mut bundle, mut trust, mut json) = (None, None, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--trust" => trust = Some(words.next().ok_or_else(|| usage("--trust needs a directory"))?.into()),
            "--json" => json = true,
            word if word.starts_with('-') => return Err(usage(&format!("there is no option {word}"))),
            word if bundle.is_none() => bundle = Some(word.into()),
            word => return Err(usage(&format!("{word} is one bundle too many"))),
        }
    }
    Ok(Args { bundle: bundle.ok_or_else(|| usage("which bundle?"))?, trust, json })
}

fn check(args: &Args) -> Result<bool, Error> {
    let trusted: Vec<PublicKey> = args.trust.as_deref().map(read_keys).transpose()?.unwrap_or_default();
    if let Some(dir) = args.trust.as_deref().filter(|_| trusted.is_empty()) {
        return Err(Error::other(format!("there is no *.pem in {}", dir.display())));
    }
    let named = |e: Error| Error::other(format!("{}: {e}", args.bundle.display()));
    let report = verify(File::open(&args.bundle).map_err(named)?, &trusted).map_err(named)?;
    if args.json {
        print(&serde_json::to_string(&report).expect("BUG: a report is plain data"));
    } else {
        print(&describe(&report));
    }
    Ok(report.verified)
}

fn describe(report: &Report) -> String {
    let mut text: String = report.checks.iter().map(line).collect();
    for key in &report.signed_by {
        text.push_str(&format!("signed by key  {key}\n"));
    }
    let verdict = if report.verified { "verified" } else { "NOT verified" };
    let Report { run_id, events, files, bytes, .. } = report;
    format!("{text}{verdict}: run {}: {events} events, {files} files, {bytes} bytes", safe(run_id))
}

fn line(check: &Check) -> String {
    let word = if check.problems.is_empty() { "ok" } else { "FAILED" };
    let mut text = format!("{:<14} {word}\n", check.name);
    for problem in &check.problems {
        text.push_str(&format!("               {}\n", safe(problem)));
    }
    text
}

/// A terminal obeys what a bundle says unless that is made visible.
fn safe(text: &str) -> String {
    let hidden = |c: char| c.is_control() || contract::path::is_invisible(c);
    text.chars().map(|c| if hidden(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// A reader that has gone away is no reason to fail.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
