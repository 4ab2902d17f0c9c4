//! What the tests of an item came to, as it is on record, and the trees that they are run on. Running them is the
//! machine's (`machine/acceptance.rs`).

use crate::Result;
use crate::git::{Entry, ObjectId, Objects, PatchProblem, TreeChange};
use contract::receipt::{ReceiptTests, TestedCommand};
use contract::work::{TestCommand, TestCounts, TestsPolicy};
use contract::{Digest, Item, RULES_ALL_TESTS, RULES_GUARDED_TESTS};
use run::gate::acceptance::{TestStatus, total, verdict};
use run::gate::test_files::{TestFiles, only_looks};
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
    /// What does not pass with the base's version of what the change touches: a person has to approve it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_approval: Vec<Finding>,
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
    /// Everything as it was before the change, for a test of the whole that fails after it.
    Before,
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
    /// Whether that is so only where it passes without the change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_whole: bool,
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

    /// The tests of the whole that were tried on the change and did not pass.
    pub(crate) fn failed_of_whole(&self) -> Vec<&Vec<String>> {
        let failed = |it: &&CommandOutcome| {
            it.of_whole && it.tests != Side::Before && matches!(it.status, TestStatus::Fail | TestStatus::Error)
        };
        self.commands.iter().filter(failed).map(|it| &it.argv).collect()
    }

    /// What is put on record beside the files.
    pub fn report(&self) -> Value {
        serde_json::to_value(self).expect("BUG: what tests came to is plain data")
    }

    /// What follows from what each command came to.
    pub(crate) fn conclude(&mut self, plan: &Plan) {
        let commands = &self.commands;
        let passed_before = |command: &CommandOutcome| {
            let same = |it: &&CommandOutcome| it.tests == Side::Before && it.argv == command.argv;
            commands.iter().find(same).is_some_and(|it| it.status == TestStatus::Pass)
        };
        let counts = |command: &&CommandOutcome| {
            command.tests != Side::Before
                && (!command.of_whole || command.status == TestStatus::Pass || passed_before(command))
        };
        let decides = |command: &&CommandOutcome| !(plan.guarded && command.tests == Side::Baseline);
        let judged = commands.iter().filter(counts).filter(decides);
        self.status = verdict(judged.map(|command| (command.must_pass, command.status)));
        // With two versions of the tests, most of them are the same tests.
        let first = commands.first().map(|command| command.tests);
        let of_first = commands.iter().filter(|command| Some(command.tests) == first);
        self.counts = total(of_first.map(|command| command.counts));
        let (deciding, others): (Vec<_>, Vec<_>) = commands.iter().filter(counts).partition(decides);
        let findings =
            |of: Vec<&CommandOutcome>| of.into_iter().filter_map(CommandOutcome::finding).collect::<Vec<_>>();
        let (impossible, of_base) = (plan.impossible.iter().cloned(), findings(others));
        if plan.guarded {
            (self.findings, self.needs_approval) = (findings(deciding), impossible.chain(of_base).collect());
        } else {
            self.findings = impossible.chain(findings(deciding)).collect();
        }
    }
}

impl CommandOutcome {
    /// Why the change is refused because of it; none if it is not.
    fn finding(&self) -> Option<Finding> {
        let why = self.why.as_ref().filter(|_| self.must_pass)?;
        let with = match (self.tests, self.of_whole) {
            (Side::Baseline, _) => " with the baseline's tests",
            (_, true) => ", a test of the whole that passes without this change",
            _ => "",
        };
        Some(Finding::whole(Rule::TestsFailed, format!("{}{with}: {why}", self.name.escape_debug())))
    }
}

/// How the tests of an item are tried.
pub(crate) struct Plan {
    /// Whose tests, and the tree that has them.
    pub(crate) sides: Vec<(Side, ObjectId)>,
    /// Whether what fails with the base's tests is for a person to approve, and does not decide by itself.
    guarded: bool,
    /// Why the base's tests cannot be tried.
    pub(crate) impossible: Option<Finding>,
    /// The tree without the change.
    pub(crate) before: ObjectId,
}

impl Plan {
    /// The commands that are tried with one version of the tests. It is the same for all that run nothing of them.
    pub(crate) fn commands<'i>(&self, side: Side, item: &'i Item) -> impl Iterator<Item = &'i TestCommand> {
        let once = self.guarded && side == Side::Baseline;
        item.tests.iter().filter(move |test| !(once && only_looks(&test.argv)))
    }

    fn new(sides: Vec<(Side, ObjectId)>, guarded: bool, before: ObjectId) -> Plan {
        Plan { sides, guarded, impossible: None, before }
    }
}

/// How the tests of an item are tried on what its change makes of a base, under these rules.
pub(crate) fn plan(
    objects: &Objects,
    rules: u32,
    item: &Item,
    (base, candidate): (ObjectId, ObjectId),
    changes: &[TreeChange],
    files: &TestFiles,
) -> Result<Plan> {
    let policy = item.tests_policy;
    let guarded = policy == TestsPolicy::Guarded && rules >= RULES_GUARDED_TESTS;
    let alone = || Ok(Plan::new(vec![(Side::Candidate, candidate)], guarded, base));
    if policy == TestsPolicy::Candidate || guarded && item.tests.iter().all(|test| only_looks(&test.argv)) {
        return alone();
    }
    let back = put_back(objects, policy, guarded, base, changes, files)?;
    let edited = if back.is_empty() { Ok(candidate) } else { objects.edit(candidate, &back) };
    let baseline = match edited {
        Ok(tree) => tree,
        Err(PatchProblem::Git(error)) => return Err(error.into()),
        Err(problem) => {
            let message = format!("the baseline's tests cannot be put back into the change: {problem}");
            let sides = if guarded { vec![(Side::Candidate, candidate)] } else { Vec::new() };
            let impossible = Some(Finding::whole(Rule::TestsFailed, message));
            return Ok(Plan { impossible, ..Plan::new(sides, guarded, base) });
        }
    };
    match policy {
        TestsPolicy::Both | TestsPolicy::Guarded if baseline != candidate => {
            Ok(Plan::new(vec![(Side::Candidate, candidate), (Side::Baseline, baseline)], guarded, base))
        }
        TestsPolicy::Candidate | TestsPolicy::Both | TestsPolicy::Guarded => alone(),
        TestsPolicy::Baseline => Ok(Plan::new(vec![(Side::Baseline, baseline)], guarded, base)),
    }
}

/// What of a change is as the base has it where its tests are tried: every path with its version there.
fn put_back(
    objects: &Objects,
    policy: TestsPolicy,
    guarded: bool,
    base: ObjectId,
    changes: &[TreeChange],
    files: &TestFiles,
) -> Result<Vec<(Vec<u8>, Option<Entry>)>> {
    let decides = |change: &&TreeChange| match policy {
        TestsPolicy::Guarded if guarded => files.guards(&change.path, change.old.is_none()),
        // A file that the change brings has no other version that could pass.
        TestsPolicy::Guarded => change.old.is_some() && files.is_named(&change.path),
        _ => files.why(&change.path).is_some(),
    };
    let back: Vec<_> = changes.iter().filter(decides).map(|change| (change.path.clone(), change.old)).collect();
    let only_new = guarded && back.iter().all(|(_, old)| old.is_none());
    // Where the base has no tests, the first ones bend none.
    Ok(if only_new && !back.is_empty() && !has_tests(objects, base, files)? { Vec::new() } else { back })
}

fn has_tests(objects: &Objects, tree: ObjectId, files: &TestFiles) -> Result<bool> {
    let mut found = false;
    objects.walk(tree, &mut |path, _, _| found = found || files.is_test(path))?;
    Ok(found)
}
