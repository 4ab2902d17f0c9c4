//! Approvals in a run's log and in the state directory's: whoever continued with a person's approval must have been
//! given it, for this run, this contract and these reasons, in time, and once.

use contract::{ApprovalDecision, ApprovalId, Audit, Digest, Fact, RunId, Timestamp, approval_bound};

/// What is wrong with the approvals that a run says it used, given what the audit log says was asked, answered and used.
pub fn approval_problems(run: &RunId, facts: &[Fact], audit: &[(Audit, Timestamp)]) -> Vec<String> {
    let contract = facts.iter().find_map(|fact| match fact {
        Fact::RunStarted(started) => Some(started.contract_digest),
        _ => None,
    });
    let mut problems = Vec::new();
    let mut said = Vec::new();
    for fact in facts {
        let Fact::ApprovalUsed { approval, by } = fact else { continue };
        said.push(*approval);
        let wrong = Record::of(*approval, audit).wrong(run, contract, by);
        problems.extend(wrong.map(|what| format!("approval {approval} was used, but {what}")));
    }
    let slug = run.slug();
    let recorded = audit.iter().filter_map(|(fact, _)| match fact {
        Audit::ApprovalUsed { id, run_id } if *run_id == slug => Some(*id),
        _ => None,
    });
    if !recorded.eq(said) {
        problems.push("the audit log has other approvals used by this run than its own log".into());
    }
    problems
}

/// What the audit log says of one approval, in the order in which it has to be.
#[derive(Default)]
struct Record<'a> {
    /// For which run, for which reasons, bound to what, until when.
    asked: Option<(&'a str, &'a [String], Digest, Timestamp)>,
    /// Who approved it, and when.
    granted: Option<(&'a str, Timestamp)>,
    /// When a run went on with it.
    used: Vec<Timestamp>,
}

impl<'a> Record<'a> {
    fn of(approval: ApprovalId, audit: &'a [(Audit, Timestamp)]) -> Record<'a> {
        let mut record = Record::default();
        for (fact, ts) in audit {
            match fact {
                Audit::ApprovalAsked { id, run_id, reasons, bound, expires_at } if *id == approval => {
                    record.asked = Some((run_id, reasons, *bound, *expires_at));
                }
                Audit::ApprovalAnswered { id, decision: ApprovalDecision::Granted, by, .. } if *id == approval => {
                    record.granted = Some((by, *ts));
                }
                Audit::ApprovalUsed { id, .. } if *id == approval => record.used.push(*ts),
                _ => {}
            }
        }
        record
    }

    /// What keeps it from having let this run continue.
    fn wrong(&self, run: &RunId, contract: Option<Digest>, by: &str) -> Option<&'static str> {
        let Some((run_id, reasons, bound, expires_at)) = self.asked else { return Some("nobody was asked") };
        let is_bound = contract.is_some_and(|contract| bound == approval_bound(run, &contract, reasons));
        if run_id != run.slug() || !is_bound {
            return Some("it is bound to something else than this run, its contract and its reasons");
        }
        match self.granted {
            None => return Some("nobody granted it"),
            Some((other, _)) if other != by => return Some("it was granted by somebody else"),
            Some((_, at)) if at >= expires_at => return Some("it was granted after it had expired"),
            Some(_) => {}
        }
        match self.used[..] {
            [at] if at < expires_at => None,
            [_] => Some("it had expired"),
            _ => Some("not exactly once on record"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRES: u64 = 100;

    fn run(n: u8) -> RunId {
        RunId::new(u64::from(n), [n; 10])
    }

    fn contract() -> Digest {
        contract::hash::sha256(b"contract")
    }

    fn asked(n: u8) -> Audit {
        let reasons = vec!["wide".to_owned()];
        let bound = approval_bound(&run(n), &contract(), &reasons);
        let expires_at = Timestamp::from_unix_ms(EXPIRES);
        Audit::ApprovalAsked { id: ApprovalId::new(0, [1; 10]), run_id: run(n).slug(), reasons, bound, expires_at }
    }

    fn answered(decision: ApprovalDecision) -> Audit {
        Audit::ApprovalAnswered {
            id: ApprovalId::new(0, [1; 10]),
            decision,
            by: "Ada".into(),
            reason: None,
            terms: contract::ApprovalTerms::default(),
        }
    }

    fn used() -> Audit {
        Audit::ApprovalUsed { id: ApprovalId::new(0, [1; 10]), run_id: run(1).slug() }
    }

    fn wrong(audit: &[(Audit, u64)], by: &str) -> Option<&'static str> {
        let audit: Vec<(Audit, Timestamp)> =
            audit.iter().map(|(fact, ms)| (fact.clone(), Timestamp::from_unix_ms(*ms))).collect();
        Record::of(ApprovalId::new(0, [1; 10]), &audit).wrong(&run(1), Some(contract()), by)
    }

    #[test]
    fn a_used_approval_was_asked_granted_in_time_and_used_once() {
        use ApprovalDecision::{Denied, Granted};
        let whole = [(asked(1), 1), (answered(Granted), 2), (used(), 3)];
        assert_eq!(wrong(&whole, "Ada"), None);
        assert_eq!(wrong(&whole, "Eve"), Some("it was granted by somebody else"));
        assert_eq!(wrong(&whole[1..], "Ada"), Some("nobody was asked"));
        assert_eq!(wrong(&[(asked(1), 1), (used(), 3)], "Ada"), Some("nobody granted it"));
        assert_eq!(wrong(&[(asked(1), 1), (answered(Denied), 2), (used(), 3)], "Ada"), Some("nobody granted it"));
        assert_eq!(wrong(&whole[..2], "Ada"), Some("not exactly once on record"));
        let twice = [&whole[..], &[(used(), 4)]].concat();
        assert_eq!(wrong(&twice, "Ada"), Some("not exactly once on record"));
        let late = [(asked(1), 1), (answered(Granted), EXPIRES), (used(), EXPIRES)];
        assert_eq!(wrong(&late, "Ada"), Some("it was granted after it had expired"));
        let late = [(asked(1), 1), (answered(Granted), 2), (used(), EXPIRES)];
        assert_eq!(wrong(&late, "Ada"), Some("it had expired"));
        let other = [(asked(2), 1), (answered(Granted), 2), (used(), 3)];
        let bound = "it is bound to something else than this run, its contract and its reasons";
        assert_eq!(wrong(&other, "Ada"), Some(bound));
    }

    #[test]
    fn both_logs_name_the_same_approvals() {
        let problems = |facts: &[Fact], audit: &[(Audit, Timestamp)]| approval_problems(&run(1), facts, audit);
        let at = Timestamp::from_unix_ms(1);
        assert_eq!(problems(&[], &[]), [""; 0]);
        let other = "the audit log has other approvals used by this run than its own log";
        assert_eq!(problems(&[], &[(used(), at)]), [other]);
        let approval = ApprovalId::new(0, [1; 10]);
        let fact = Fact::ApprovalUsed { approval, by: "Ada".into() };
        let unasked = format!("approval {approval} was used, but nobody was asked");
        assert_eq!(problems(&[fact], &[]), [unasked.as_str(), other]);
    }
}
