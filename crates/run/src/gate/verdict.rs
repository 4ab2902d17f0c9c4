//! The verdict gate: when does a claimed PASS count? Only if the agent stands by it (`ok`), every acceptance
//! criterion of the run is covered and passes, and each names an evidence file that exists in a step directory
//! of this iteration. The agent's word alone never passes a run.

use contract::{AcceptanceCriterion, CriterionResult, RULES_RESULT, ResponseStatus, VerdictFile};
use std::collections::{BTreeMap, BTreeSet};

/// The files of this iteration's step directories, by directory name (`003-check`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IterationFiles {
    /// The turn being judged.
    own: String,
    dirs: BTreeMap<String, Vec<String>>,
}

impl IterationFiles {
    /// Starts with the turn being judged.
    pub fn new(own: &str, files: Vec<String>) -> IterationFiles {
        IterationFiles { own: own.to_owned(), dirs: BTreeMap::from([(own.to_owned(), files)]) }
    }

    /// Adds an earlier turn of the iteration.
    pub fn add(&mut self, dir: &str, files: Vec<String>) {
        self.dirs.insert(dir.to_owned(), files);
    }

    /// Whether the turn being judged left this file.
    pub fn has_own(&self, path: &str) -> bool {
        self.has(&self.own, path)
    }

    fn has(&self, dir: &str, path: &str) -> bool {
        self.dirs.get(dir).is_some_and(|files| files.iter().any(|file| file == path))
    }

    /// Finds what `evidence` names: a path below any step directory of the iteration, `NNN-role/path`,
    /// `steps/NNN-role/path`, or the absolute form of the latter in this run.
    fn find(&self, run_slug: &str, evidence: &str) -> bool {
        let marker = format!("/runs/{run_slug}/steps/");
        let named = match evidence.split_once(&marker) {
            Some((_, rest)) if evidence.starts_with('/') => rest,
            _ => evidence.strip_prefix("steps/").unwrap_or(evidence),
        };
        let Ok(path) = contract::RepoPath::parse(named) else { return false };
        if self.dirs.values().any(|files| files.iter().any(|file| file == path.as_str())) {
            return true;
        }
        let Some((dir, rest)) = path.as_str().split_once('/') else { return false };
        // While a turn runs its directory still has its temporary name; the agent cannot know the final one.
        let dir = dir.split_once(".tmp-").map_or(dir, |(final_name, _)| final_name);
        self.has(dir, rest)
    }
}

/// Why a claimed PASS does not count; empty if it does.
///
/// Under the rules of today a criterion that is answered twice, or that the run does not have, is a finding as well: whoever
/// reads the file could take either answer for the one that counts.
pub fn judge(
    rules: u32,
    criteria: &[AcceptanceCriterion],
    run_slug: &str,
    status: ResponseStatus,
    verdict: &VerdictFile,
    files: &IterationFiles,
) -> Vec<String> {
    let mut findings = Vec::new();
    if status != ResponseStatus::Ok {
        findings.push("the check answered fail".to_owned());
    }
    for criterion in criteria {
        if !verdict.criteria.iter().any(|result| result.id == criterion.id) {
            findings.push(format!("{} is not covered by verdict.json", criterion.id));
        }
    }
    if rules >= RULES_RESULT {
        findings.extend(unclear(criteria, verdict));
    }
    for result in &verdict.criteria {
        if !result.pass {
            findings.push(format!("{} does not pass", result.id));
        }
        let binding = criteria.iter().any(|criterion| criterion.id == result.id);
        if binding && result.evidence.is_empty() {
            findings.push(format!("{} names no evidence", result.id));
        } else if binding && !files.find(run_slug, &result.evidence) {
            findings.push(format!(
                "{}: evidence {:?} is not a file in a step directory of this iteration",
                result.id, result.evidence
            ));
        }
    }
    findings
}

/// Criteria that are answered twice, and those that nobody asked about.
fn unclear(criteria: &[AcceptanceCriterion], verdict: &VerdictFile) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for CriterionResult { id, .. } in &verdict.criteria {
        // A run without criteria leaves it to the check to find some.
        if !criteria.is_empty() && !criteria.iter().any(|criterion| criterion.id == *id) {
            findings.push(format!("{id} is no criterion of this run"));
        } else if !seen.insert(id) {
            findings.push(format!("{id} is answered more than once"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Verdict;

    fn check(evidence: &str, pass: bool, covered: &str, status: ResponseStatus) -> Vec<String> {
        let criteria = [AcceptanceCriterion { id: "AC1".into(), text: "tests pass".into() }];
        let verdict = VerdictFile {
            version: 1,
            verdict: Verdict::Pass,
            criteria: vec![CriterionResult {
                id: covered.into(),
                text: String::new(),
                pass,
                evidence: evidence.into(),
            }],
            metrics: Default::default(),
            blockers: vec![],
            recommended_fix: vec![],
        };
        let mut files = IterationFiles::new("003-check", vec!["verdict.json".into(), "files/own.log".into()]);
        files.add("002-do", vec!["files/test.log".into()]);
        judge(RULES_RESULT, &criteria, "R", status, &verdict, &files)
    }

    #[test]
    fn a_pass_counts_when_every_criterion_has_evidence_of_this_iteration() {
        for evidence in [
            "files/test.log",
            "./files/own.log",
            "002-do/files/test.log",
            "steps/002-do/files/test.log",
            "003-check.tmp-ab12/files/own.log",
            "/x/.norma/runs/R/steps/002-do/files/test.log",
            "/x/.norma/runs/R/steps/003-check.tmp-ab12/files/own.log",
        ] {
            assert_eq!(check(evidence, true, "AC1", ResponseStatus::Ok), [""; 0], "{evidence}");
        }
    }

    #[test]
    fn a_pass_without_evidence_of_this_iteration_does_not_count() {
        for evidence in [
            "",
            "files/other.log",
            "001-plan/plan.md",
            "../002-do/files/test.log",
            "/etc/passwd",
            "/x/runs/Q/steps/002-do/files/test.log",
        ] {
            assert_eq!(check(evidence, true, "AC1", ResponseStatus::Ok).len(), 1, "{evidence}");
        }
    }

    #[test]
    fn a_pass_counts_only_if_every_criterion_is_covered_and_passes() {
        assert_eq!(
            check("files/test.log", true, "AC2", ResponseStatus::Ok),
            ["AC1 is not covered by verdict.json", "AC2 is no criterion of this run"]
        );
        assert_eq!(check("files/test.log", false, "AC1", ResponseStatus::Ok), ["AC1 does not pass"]);
        assert_eq!(check("files/test.log", true, "AC1", ResponseStatus::Fail), ["the check answered fail"]);
    }

    #[test]
    fn a_criterion_that_is_answered_twice_does_not_count() {
        let criteria = [AcceptanceCriterion { id: "AC1".into(), text: "tests pass".into() }];
        let result =
            |pass| CriterionResult { id: "AC1".into(), text: String::new(), pass, evidence: "files/own.log".into() };
        let verdict = VerdictFile {
            version: 1,
            verdict: Verdict::Pass,
            criteria: vec![result(true), result(true)],
            metrics: Default::default(),
            blockers: vec![],
            recommended_fix: vec![],
        };
        let files = IterationFiles::new("003-check", vec!["files/own.log".into()]);
        let judged = |rules| judge(rules, &criteria, "R", ResponseStatus::Ok, &verdict, &files);
        assert_eq!(judged(RULES_RESULT), ["AC1 is answered more than once"]);
        assert_eq!(judged(2), [""; 0]);
    }
}
