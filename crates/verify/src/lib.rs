//! CHECKS. A bundle, offline, for somebody who does not trust the norma that wrote it. Everything is read once, front to
//! back, and nothing is unpacked: each byte is either demanded (headers, padding) or hashed (files). What is small and
//! needed is kept, the rest is only hashed. The checks build on each other, so they are made in one order, and each
//! names what is wrong in words.

mod archive;
mod bundle;
mod check;
mod hashing;
mod key;

pub use archive::Damage;
pub use key::{PublicKey, open, read_keys};

use bundle::Bundle;
use contract::Check;
use contract::bundle::BundleIndex;
use serde::Serialize;
use std::io::Read;

/// What came of checking a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The run, as the index names it.
    pub run_id: String,
    /// Whether every check holds.
    pub verified: bool,
    /// How many events were read.
    pub events: u64,
    /// How many files were read.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// The trusted keys that signed, by id.
    pub signed_by: Vec<String>,
    /// The roster, in order.
    pub checks: Vec<Check>,
}

/// The roster: what is looked at, in the order in which one thing builds on the other.
const ROSTER: [&str; 11] = [
    "container",
    "index",
    "files",
    "chain",
    "state machine",
    "evidence",
    "receipts",
    "signatures",
    "seal",
    "audit log",
    "git",
];

/// Checks a bundle. `Err` means that it could not be read at all; a problem is part of the answer.
pub fn verify(archive: impl Read, trusted: &[PublicKey]) -> std::io::Result<Report> {
    let (bundle, damage) = Bundle::read(archive)?;
    let mut report = Report {
        run_id: String::new(),
        verified: false,
        events: 0,
        files: bundle.files.len() as u64,
        bytes: bundle.files.iter().map(|file| file.size).sum(),
        signed_by: Vec::new(),
        checks: Vec::new(),
    };
    report.note(damage.into_iter().map(|damage| damage.to_string()).collect());
    if report.holds() {
        judge(&bundle, trusted, &mut report);
    }
    let unmet = report.checks.last().map_or(ROSTER[0], |check| check.name);
    for name in &ROSTER[report.checks.len()..] {
        report.checks.push(Check { name, problems: vec![format!("not looked at: {unmet} has to hold first")] });
    }
    report.verified = report.holds();
    Ok(report)
}

fn judge(bundle: &Bundle, trusted: &[PublicKey], report: &mut Report) {
    let (index, problems) = check::index(bundle);
    report.note(problems);
    let Some(index) = index else { return };
    report.run_id = index.run_id.to_string();
    let found = Found { bundle, index: &index };
    report.note(check::files(&found));
    let (log, problems) = check::log::read(&found);
    report.note(problems);
    report.events = log.events.len() as u64;
    report.note(check::log::machine(&log));
    report.note(check::evidence(&found, &log));
    let (receipts, problems) = check::receipts::check(&found, &log);
    report.note(problems);
    let (statements, problems) = check::signatures::check(&found, &receipts, trusted);
    report.note(problems);
    report.signed_by = statements.signers();
    report.note(check::seal(&found, &log, &statements));
    report.note(check::audit::check(&found, &log));
    report.note(check::git::check(&found, &log, &receipts));
}

/// A bundle whose index could be read.
struct Found<'a> {
    bundle: &'a Bundle,
    index: &'a BundleIndex,
}

impl Report {
    /// The next check of the roster.
    fn note(&mut self, problems: Vec<String>) {
        let name = ROSTER[self.checks.len()];
        self.checks.push(Check { name, problems: run::bounded(problems) });
    }

    fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.problems.is_empty())
    }
}
