//! What looks like a secret in the files of tests. Keys, tokens and passwords are made up there every day, and nobody but a
//! person can tell a made-up one from one that opens something. So a change that is refused for nothing else waits for a
//! person, who approves exactly these files: each is named with its digest.

use super::judged::Judged;
use contract::work::TestsPolicy;
use contract::{Item, RULES_FIXTURES, TreeId};
use run::gate::scope::Observed;
use run::gate::test_files::TestFiles;
use run::gate::{Finding, Rule, shown};
use std::collections::BTreeSet;

/// What of the scope gate's findings a person is asked about: all of them, or none. A mark of what was redacted is nobody's
/// fixture, and a contract that lets nobody change tests lets nobody add a secret to them either.
pub(crate) fn askable(rules: u32, item: &Item, observed: &Observed, findings: &[Finding]) -> bool {
    if rules < RULES_FIXTURES || findings.is_empty() || item.tests_policy == TestsPolicy::Baseline {
        return false;
    }
    let files = TestFiles::new(&item.tests);
    let is_fixture = |finding: &Finding| {
        let change = observed.changes.iter().find(|change| finding.path.as_deref() == Some(&*shown(&change.path)));
        finding.rule == Rule::Secret
            && change.is_some_and(|change| files.is_test(&change.path) && change.secrets.iter().all(|it| !it.mark))
    };
    findings.iter().all(is_fixture)
}

/// Why a person has to approve what a change adds to its tests.
pub(crate) fn reasons(judged: &Judged, (before, after): (TreeId, TreeId)) -> Vec<String> {
    let mut reasons = vec![format!(
        "{}: its test files add what looks like a secret: approve only what opens nothing",
        judged.item.id
    )];
    reasons.extend(judged.secrets.iter().map(ToString::to_string));
    let paths: BTreeSet<&str> = judged.secrets.iter().filter_map(|finding| finding.path.as_deref()).collect();
    let files = judged.change.artifacts.iter().filter(|artifact| paths.contains(artifact.path.as_str()));
    reasons.extend(files.filter_map(|file| Some(format!("{} has SHA-256 {}", file.path, file.sha256?))));
    reasons.push(format!("tree before: {before}; tree after: {after}"));
    reasons
}
