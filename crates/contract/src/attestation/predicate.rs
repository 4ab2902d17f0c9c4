//! What norma says of a change, of a run and of a bundle. Three kinds of statement about a change are other people's
//! formats, so that their tools can judge it: SLSA provenance, in-toto test result, SLSA verification summary. All are
//! made from the receipt alone. Three are norma's own: the seal of a run, the index of a bundle, and the end of
//! a state directory's log.

use super::{Statement, Subject};
use crate::hash::DoubleDigest;
use crate::receipt::{Phase, ReceiptTests, TestedCommand};
use crate::work::{Gate, ItemStatus, TestStatus};
use crate::{AuditHead, CommitId, Digest, Receipt, Slug};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a change came to be.
pub const PROVENANCE: &str = "https://slsa.dev/provenance/v1";

/// What its tests said.
pub const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// What norma's gates said.
pub const VERIFICATION_SUMMARY: &str = "https://slsa.dev/verification_summary/v1";

/// A run is complete and this is its evidence.
pub const RUN_SEAL: &str = "urn:norma:run-seal:v1";

/// The audit log of a state directory went up to here.
pub const CHECKPOINT: &str = "urn:norma:checkpoint:v1";

/// A bundle holds these files.
pub const BUNDLE: &str = "urn:norma:bundle:v1";

/// An agent's change is a build, norma is its builder, the agent is not trusted.
const BUILD_TYPE: &str = "urn:norma:agent-change:v1";

/// Who builds and who verifies.
const NORMA: &str = "urn:norma:control-plane:v1";

/// The subjects of every statement about a change: the receipt, and the tree and commit that git knows.
pub fn subjects(receipt: &Receipt, bytes: &[u8], commit: Option<CommitId>) -> Vec<Subject> {
    let tree = Subject::of("tree", [("gitTree", receipt.git.after_tree.to_string())]);
    let commit = commit.map(|commit| Subject::of("commit", [("gitCommit", commit.to_string())]));
    [Subject::file("RECEIPT.json", bytes), tree].into_iter().chain(commit).collect()
}

/// How a change came to be: by which contract, from which commit, by which agent in which sandbox.
pub fn provenance(receipt: &Receipt, bytes: &[u8], commit: Option<CommitId>) -> Statement {
    let git = &receipt.git;
    let phase = match receipt.phase {
        Phase::Tranche => "tranche",
        Phase::Reconcile => "reconcile",
    };
    let predicate = json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "task": receipt.task_id,
                "submitted": {"digest": {"sha256": receipt.submitted}},
            },
            "internalParameters": {
                "agent": receipt.agent_id,
                "phase": phase,
                "sandbox": receipt.sandbox,
                "contract": receipt.contract,
                "contentHash": receipt.content_hash,
            },
            "resolvedDependencies": [
                {"name": "base", "digest": {"gitCommit": git.base_commit, "gitTree": git.base_tree}},
                {"name": "before", "digest": {"gitTree": git.before_tree}},
            ],
        },
        "runDetails": {
            "builder": {"id": NORMA, "version": {"norma": receipt.toolchain_version}},
            "metadata": {"invocationId": receipt.run_id, "finishedOn": receipt.timestamp_iso},
        },
    });
    Statement::new(PROVENANCE, subjects(receipt, bytes, commit), predicate)
}

/// What the tests of a change said; nothing if none were run.
pub fn test_result(receipt: &Receipt, bytes: &[u8]) -> Option<Statement> {
    let tests = receipt.tests.as_ref()?;
    let mut predicate = json!({
        "result": tested(receipt),
        "configuration": [{"name": "submitted", "digest": {"sha256": receipt.submitted}}],
    });
    if let Some(counts) = tests.counts() {
        predicate["counts"] = json!(counts);
    }
    let of = |expected: &dyn Fn(&TestedCommand) -> bool| -> Vec<&str> {
        tests.commands.iter().filter(|it| expected(it)).map(|it| it.name.as_str()).collect()
    };
    if !tests.commands.is_empty() {
        predicate["passedTests"] = json!(of(&|it| it.status == TestStatus::Pass));
        predicate["warnedTests"] = json!(of(&|it| !it.must_pass && failed(it)));
        predicate["failedTests"] = json!(of(&|it| it.must_pass && failed(it)));
    }
    Some(Statement::new(TEST_RESULT, subjects(receipt, bytes, None), predicate))
}

fn failed(command: &TestedCommand) -> bool {
    matches!(command.status, TestStatus::Fail | TestStatus::Error)
}

/// A failure that the gate let pass was of a test that need not pass.
fn tested(receipt: &Receipt) -> &'static str {
    let passed = receipt.gates.iter().filter(|result| result.gate == Gate::Tests).all(|result| result.passed);
    match (passed, receipt.tests.as_ref().is_some_and(ReceiptTests::has_failures)) {
        (false, _) => "FAILED",
        (true, true) => "WARNED",
        (true, false) => "PASSED",
    }
}

/// What the gates said of a change, under which policies.
pub fn verification_summary(receipt: &Receipt, bytes: &[u8]) -> Statement {
    let policies = crate::json::canonical(&receipt.policies).expect("BUG: digests by name are plain data");
    let predicate = json!({
        "verifier": {"id": NORMA, "version": {"norma": receipt.toolchain_version}},
        "timeVerified": receipt.timestamp_iso,
        "resourceUri": format!("urn:norma:change:{}:{:03}", receipt.run_id, receipt.change),
        "policy": {"uri": "urn:norma:policies:v1", "digest": {"sha256": crate::hash::sha256(&policies)}},
        "verificationResult": judged(receipt),
        "verifiedLevels": [],
        "gates": receipt.gates,
    });
    Statement::new(VERIFICATION_SUMMARY, subjects(receipt, bytes, None), predicate)
}

fn judged(receipt: &Receipt) -> &'static str {
    if receipt.status == ItemStatus::Success { "PASSED" } else { "FAILED" }
}

/// What is wrong with a statement about a change, given its receipt. Only what must never differ is compared, so that
/// a later norma can say more.
pub fn contradictions(said: &Statement, receipt: &Receipt, bytes: &[u8], commit: Option<CommitId>) -> Vec<String> {
    let commit = commit.filter(|_| said.predicate_type == PROVENANCE);
    let mut problems = Vec::new();
    if said.subject != subjects(receipt, bytes, commit) {
        problems.push("is about something else than this change".to_owned());
    }
    let (at, expected) = match said.predicate_type.as_str() {
        PROVENANCE => ("/runDetails/metadata/invocationId", receipt.run_id.as_str()),
        TEST_RESULT => ("/result", tested(receipt)),
        VERIFICATION_SUMMARY => ("/verificationResult", judged(receipt)),
        other => return vec![format!("says {other:?}, which nobody says of a change")],
    };
    let found = said.predicate.pointer(at);
    if found.and_then(Value::as_str) != Some(expected) {
        let found = found.unwrap_or(&Value::Null);
        problems.push(format!("says {found} at {at} where the receipt says {expected:?}"));
    }
    problems
}

/// A run that is complete: how long its log is, how it ends, and which files there are. Whoever rewrites the log and
/// computes its chain anew, or exchanges a file, cannot make this again without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSeal {
    /// The run's slug.
    pub run_id: Slug,
    /// Digest of its contract, which starts the chain.
    pub contract: Digest,
    /// How many events its log has.
    pub events: u64,
    /// The chain's digest at the last of them.
    pub head: Digest,
    /// Digest of the list of every file of the run's directory, without the manifest and this.
    pub files: Digest,
}

/// The file that lists all others of a run.
const MANIFEST: &str = "manifest.json";

impl RunSeal {
    /// Says it of a run's manifest.
    pub fn statement(&self, manifest: &[u8]) -> Statement {
        self.statement_of(Subject::file(MANIFEST, manifest))
    }

    /// The same where only the digests of the manifest are at hand.
    pub fn statement_of_hashed(&self, manifest: &DoubleDigest) -> Statement {
        self.statement_of(Subject::hashed(MANIFEST, manifest))
    }

    fn statement_of(&self, manifest: Subject) -> Statement {
        let predicate = serde_json::to_value(self).expect("BUG: a seal is plain data");
        Statement::new(RUN_SEAL, vec![manifest], predicate)
    }

    /// What is wrong with a statement that should be this seal of this manifest.
    pub fn contradictions(&self, said: &Statement, manifest: &[u8]) -> Vec<String> {
        let expected = self.statement(manifest);
        let found = serde_json::from_value::<RunSeal>(said.predicate.clone());
        let found = match found {
            Ok(found) if said.predicate_type == RUN_SEAL => found,
            _ => return vec!["is not the seal of a run".to_owned()],
        };
        let differs = |same: bool, what: &str| (!same).then(|| what.to_owned());
        [
            differs(said.subject == expected.subject, "vouches for another manifest.json"),
            differs(found.run_id == self.run_id, "is that of another run"),
            differs(found.contract == self.contract, "vouches for another contract"),
            differs((found.events, found.head) == (self.events, self.head), "vouches for another log"),
            differs(found.files == self.files, "vouches for other files"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Says where the audit log of a state directory ends.
pub fn checkpoint(head: &AuditHead) -> Statement {
    let predicate = serde_json::to_value(head).expect("BUG: a place in a log is plain data");
    Statement::new(CHECKPOINT, vec![Subject::of("audit log", [("blake3", head.hash.to_string())])], predicate)
}

/// Says which files a bundle holds, by its index.
pub fn bundle(run_id: &str, index: &[u8]) -> Statement {
    Statement::new(BUNDLE, vec![Subject::file("index.json", index)], json!({"run_id": run_id}))
}
