//! What the tests of an item came to, as it is on record, and the trees that they are run on. Running them is the
//! machine's (`machine/acceptance.rs`).

use crate::Result;
use crate::git::{Entry, ObjectId, Objects, PatchProblem, TreeChange};
use contract::receipt::{ReceiptTests, TestedCommand};
use contract::work::{TestCounts, TestsPolicy};
use contract::{Digest, RULES_ALL_TESTS};
use run::gate::acceptance::{TestStatus, total, verdict};
use run::gate::test_files::TestFiles;
use run::gate::{Finding, Rule};
use run::redact::Counts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

    /// The same as a receipt tells it; under earlier rules, the counts alone.
    pub(crate) fn told(&self, rules: u32) -> Option<ReceiptTests> {
        let counted = self.counts.map(ReceiptTests::counted);
        if rules < RULES_ALL_TESTS {
            return counted;
        }
        let command = |it: &CommandOutcome| TestedCommand {
            name: it.name.clone(),
            argv: it.argv.clone(),
            must_pass: it.must_pass,
            baseline: it.tests == Side::Baseline,
            status: it.status,
            exit_code: it.exit_code,
        };
        let commands = self.commands.iter().map(command).collect();
        Some(ReceiptTests { status: Some(self.status), commands, ..counted.unwrap_or_default() })
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

/// The trees that the tests are run on, or why there are none.
pub(crate) fn sides(
    objects: &Objects,
    policy: TestsPolicy,
    candidate: ObjectId,
    changes: &[TreeChange],
    files: &TestFiles,
) -> Result<std::result::Result<Vec<(Side, ObjectId)>, Finding>> {
    if policy == TestsPolicy::Candidate {
        return Ok(Ok(vec![(Side::Candidate, candidate)]));
    }
    let decides = |change: &&TreeChange| match policy {
        // A file that the change brings has no other version that could pass.
        TestsPolicy::Guarded => change.old.is_some() && files.is_named(&change.path),
        _ => files.why(&change.path).is_some(),
    };
    let back: Vec<(Vec<u8>, Option<Entry>)> =
        changes.iter().filter(decides).map(|change| (change.path.clone(), change.old)).collect();
    let edited = if back.is_empty() { Ok(candidate) } else { objects.edit(candidate, &back) };
    let baseline = match edited {
        Ok(tree) => tree,
        Err(PatchProblem::Git(error)) => return Err(error.into()),
        Err(problem) => {
            let message = format!("the baseline's tests cannot be put back into the change: {problem}");
            return Ok(Err(Finding::whole(Rule::TestsFailed, message)));
        }
    };
    Ok(Ok(match policy {
        TestsPolicy::Both | TestsPolicy::Guarded if baseline != candidate => {
            vec![(Side::Candidate, candidate), (Side::Baseline, baseline)]
        }
        TestsPolicy::Candidate | TestsPolicy::Both | TestsPolicy::Guarded => vec![(Side::Candidate, candidate)],
        TestsPolicy::Baseline => vec![(Side::Baseline, baseline)],
    }))
}
