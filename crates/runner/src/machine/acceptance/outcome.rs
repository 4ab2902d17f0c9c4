//! Noting what the tests of an item come to, while they are run: one outcome a command, whether it was run or not, and the
//! files that prove it.

use super::program::Program;
use crate::change::acceptance::{Acceptance, CommandOutcome, LogFile, Plan, Side};
use crate::evidence::redaction::clear;
use crate::machine::setup::last_words;
use crate::process::End;
use contract::Item;
use contract::work::{TestCommand, TestCounts};
use run::gate::Finding;
use run::gate::acceptance::{TestStatus, exit_code};
use run::redact::{Counts, Redactor};
use serde_json::Value;
use std::time::Duration;

/// What came of one command that was to be run.
pub(super) struct Tried {
    pub(super) end: End,
    pub(super) program: Option<Program>,
    pub(super) counts: Option<TestCounts>,
    pub(super) printed: Printed,
    pub(super) elapsed: Duration,
    pub(super) sandbox: Value,
}

/// What a command printed, without secrets.
#[derive(Default)]
pub(super) struct Printed {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    redacted: Counts,
}

impl Printed {
    pub(super) fn new(redactor: &Redactor, mut stdout: Vec<u8>, mut stderr: Vec<u8>) -> Printed {
        let redacted = clear(redactor, [&mut stdout, &mut stderr]);
        Printed { stdout, stderr, redacted }
    }
}

impl Tried {
    /// One that ended before it began.
    pub(super) fn not_run(end: End) -> Tried {
        Tried {
            end,
            program: None,
            counts: None,
            printed: Printed::default(),
            elapsed: Duration::ZERO,
            sandbox: Value::Null,
        }
    }
}

/// What is known so far.
pub(super) struct Log<'i> {
    item: &'i Item,
    acceptance: Acceptance,
}

impl Log<'_> {
    pub(super) fn new(item: &Item, tests_changed: Vec<Finding>) -> Log<'_> {
        let acceptance = Acceptance {
            status: TestStatus::Skipped,
            commands: Vec::new(),
            counts: None,
            findings: Vec::new(),
            needs_approval: Vec::new(),
            tests_changed,
            files: Vec::new(),
        };
        Log { item, acceptance }
    }

    /// Notes that nothing can be tried.
    pub(super) fn none_tried(&mut self) {
        for test in &self.item.tests {
            self.add(Side::Baseline, test, None);
        }
    }

    /// Notes a command; one that was not tried is noted as that.
    pub(super) fn add(&mut self, side: Side, test: &TestCommand, tried: Option<Tried>) {
        let mut outcome = CommandOutcome {
            name: test.name.clone(),
            argv: test.argv.clone(),
            tests: side,
            program: None,
            program_sha256: None,
            must_pass: test.must_pass,
            of_whole: test.of_whole,
            status: TestStatus::of(tried.as_ref().map(|tried| &tried.end)),
            exit_code: tried.as_ref().map(|tried| exit_code(&tried.end)),
            timeout: tried.as_ref().is_some_and(|tried| tried.end == End::WallDeadline),
            timeout_ms: self.item.timeout_ms,
            duration_ms: 0,
            counts: None,
            why: None,
            stdout: None,
            stderr: None,
            redacted: Counts::new(),
        };
        if let Some(tried) = tried {
            self.keep(&mut outcome, tried);
        }
        self.acceptance.commands.push(outcome);
    }

    /// The tests of the whole that have failed.
    pub(super) fn failed_of_whole(&self) -> Vec<TestCommand> {
        let failed = self.acceptance.failed_of_whole();
        self.item.tests.iter().filter(|test| test.of_whole && failed.contains(&&test.argv)).cloned().collect()
    }

    /// Adds what a command left to its outcome and to the files.
    fn keep(&mut self, outcome: &mut CommandOutcome, tried: Tried) {
        outcome.why = went_wrong(&tried, self.item.timeout_ms);
        outcome.duration_ms = tried.elapsed.as_millis() as u64;
        outcome.counts = tried.counts;
        outcome.redacted = tried.printed.redacted;
        if let Some(program) = tried.program {
            outcome.program = Some(program.path.to_string_lossy().into_owned());
            outcome.program_sha256 = Some(program.sha256);
        }
        let dir = format!("tests/{}", self.acceptance.commands.len() + 1);
        let mut keep = |name: &str, bytes: Vec<u8>| {
            let path = format!("{dir}/{name}");
            let file = LogFile { path: path.clone(), sha256: contract::hash::sha256(&bytes), size: bytes.len() as u64 };
            self.acceptance.files.push((path, bytes));
            file
        };
        keep("command.txt", command_text(outcome).into_bytes());
        outcome.stdout = Some(keep("stdout.log", tried.printed.stdout));
        outcome.stderr = Some(keep("stderr.log", tried.printed.stderr));
        if !tried.sandbox.is_null() {
            keep("sandbox.json", serde_json::to_vec_pretty(&tried.sandbox).expect("BUG: a record is plain data"));
        }
    }

    /// The verdict over all of them.
    pub(super) fn finish(self, plan: &Plan) -> Acceptance {
        let Log { mut acceptance, .. } = self;
        acceptance.conclude(plan);
        acceptance
    }
}

/// Why a command did not pass, with its last words; none if it did.
fn went_wrong(tried: &Tried, timeout_ms: u64) -> Option<String> {
    let how = match &tried.end {
        End::Exited(0) => return None,
        End::Exited(code) => format!("exit code {code}"),
        End::Signaled(signal) => format!("killed by signal {signal}"),
        End::WallDeadline | End::IdleDeadline => format!("it took longer than {timeout_ms} ms and was killed"),
        End::Canceled => "it was canceled".to_owned(),
        End::LimitReached(limit) => format!("it ran into a limit of the sandbox: {limit:?}"),
        End::NotStarted(why) => format!("it was not started: {why}"),
        End::NotConfined(why) => format!("it could not be confined: {why}"),
        End::NotSetUp(why) => return Some(format!("its workspace could not be made ready: {why}")),
    };
    let words = [&tried.printed.stderr, &tried.printed.stdout].into_iter().map(|bytes| last_words(bytes));
    let words = words.into_iter().find(|words| !words.is_empty());
    Some(words.map_or_else(|| how.clone(), |words| format!("{how}: {}", words.escape_debug())))
}

/// `command.txt`: one line a fact.
fn command_text(outcome: &CommandOutcome) -> String {
    let argv = serde_json::to_string(&outcome.argv).expect("BUG: words are plain data");
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    [
        ("name", outcome.name.escape_debug().to_string()),
        ("argv", argv),
        ("program", known(outcome.program.clone())),
        ("program_sha256", known(outcome.program_sha256.map(|digest| digest.to_string()))),
        ("must_pass", outcome.must_pass.to_string()),
        ("status", outcome.status.to_string()),
        ("exit_code", known(outcome.exit_code.map(|code| code.to_string()))),
        ("timeout_ms", outcome.timeout_ms.to_string()),
        ("duration_ms", outcome.duration_ms.to_string()),
    ]
    .iter()
    .map(|(name, value)| format!("{name}: {value}\n"))
    .collect()
}
