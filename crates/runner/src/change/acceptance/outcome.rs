//! What the tests of an item came to, for the record: one outcome a command, whether it was run or not, and the files
//! that prove it.

use super::program::Program;
use crate::machine::setup::last_words;
use crate::process::End;
use crate::turn::redaction::clear;
use contract::work::{TestCommand, TestCounts};
use contract::{Digest, Item};
use run::gate::acceptance::{TestStatus, exit_code, total, verdict};
use run::gate::{Finding, Rule};
use run::redact::{Counts, Redactor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// What the tests of an item came to. All but the files is on record beside them, in `gates.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// All of them together; `PASS` exactly where there are tests that must pass and no findings.
    pub status: TestStatus,
    /// Every command, in order, once for each version of the tests.
    pub commands: Vec<CommandOutcome>,
    /// How many tests there were, as far as runners said so.
    pub counts: Option<TestCounts>,
    /// Why they do not pass; none if they do, or if there are none.
    pub findings: Vec<Finding>,
    /// What the change itself touches of what decides about them. No reason to refuse it, but one to look.
    pub tests_changed: Vec<Finding>,
    /// What is kept: paths below the change's directory, and bytes.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
}

/// Whose version of the tests a command was run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The change's own.
    Candidate,
    /// The baseline's.
    Baseline,
}

/// What one command came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandOutcome {
    /// What it is called.
    pub name: String,
    /// As the contract has it.
    pub argv: Vec<String>,
    /// Whose tests.
    pub tests: Side,
    /// The file that was started.
    pub program: Option<String>,
    /// What that file was.
    pub program_sha256: Option<Digest>,
    /// Whether the change is refused if it fails.
    pub must_pass: bool,
    /// What it came to.
    pub status: TestStatus,
    /// The number for it; none if it was not tried.
    pub exit_code: Option<i32>,
    /// Whether its time was up.
    pub timeout: bool,
    /// How long it may take.
    pub timeout_ms: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// How many tests there were, as far as its runner said so.
    pub counts: Option<TestCounts>,
    /// Why it did not pass, in words.
    pub why: Option<String>,
    /// Where its output is, if it was tried.
    pub stdout: Option<LogFile>,
    /// The same for its errors.
    pub stderr: Option<LogFile>,
    /// The secrets that were taken out of both before they were kept.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub redacted: Counts,
}

/// A kept file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogFile {
    /// Below the change's directory.
    pub path: String,
    /// What it is.
    pub sha256: Digest,
    /// How long it is.
    pub size: u64,
}

impl Acceptance {
    /// The log that people look at first, if anything was tried.
    pub fn first_log(&self) -> Option<String> {
        self.commands.iter().find_map(|command| command.stdout.as_ref()).map(|log| log.path.clone())
    }

    /// What is put on record beside the files.
    pub fn report(&self) -> Value {
        serde_json::to_value(self).expect("BUG: what tests came to is plain data")
    }

    /// What follows from what each command came to. `impossible` is why none could be tried.
    pub(crate) fn conclude(&mut self, impossible: Option<Finding>) {
        let commands = &self.commands;
        self.status = verdict(commands.iter().map(|command| (command.must_pass, command.status)));
        // With two versions of the tests, most of them are the same tests.
        let first = commands.first().map(|command| command.tests);
        let of_first = commands.iter().filter(|command| Some(command.tests) == first);
        self.counts = total(of_first.map(|command| command.counts));
        self.findings = impossible.into_iter().chain(commands.iter().filter_map(CommandOutcome::finding)).collect();
    }
}

impl CommandOutcome {
    /// Why the change is refused because of it; none if it is not.
    fn finding(&self) -> Option<Finding> {
        let why = self.why.as_ref().filter(|_| self.must_pass)?;
        let with = if self.tests == Side::Baseline { " with the baseline's tests" } else { "" };
        Some(Finding::whole(Rule::TestsFailed, format!("{}{with}: {why}", self.name.escape_debug())))
    }
}

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
    /// Why none could be tried.
    impossible: Option<Finding>,
}

impl Log<'_> {
    pub(super) fn new(item: &Item, tests_changed: Vec<Finding>) -> Log<'_> {
        let acceptance = Acceptance {
            status: TestStatus::Skipped,
            commands: Vec::new(),
            counts: None,
            findings: Vec::new(),
            tests_changed,
            files: Vec::new(),
        };
        Log { item, acceptance, impossible: None }
    }

    /// Nothing can be tried, for this reason.
    pub(super) fn impossible(&mut self, why: Finding) {
        self.impossible = Some(why);
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
    pub(super) fn finish(self) -> Acceptance {
        let Log { mut acceptance, impossible, .. } = self;
        acceptance.conclude(impossible);
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
