//! Approvals: a question to a person about one run, with the reasons why it is asked. An approval is bound to that run,
//! its contract and these very reasons, is answered once, used once, and is worth nothing after a while. What nobody
//! approves is denied.

use crate::schema::JsonSchema;
use crate::{ApprovalId, Digest, Domain, RunId, Slug, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How long an approval can be answered and used: a day, so that a question from the evening is still there in the
/// morning, and one that everybody forgot about is not.
pub const APPROVAL_LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;

/// Begins the reason that is a difference, of many lines.
pub const REASON_DIFFERENCE: &str = "what it makes of them:\n";

/// The lines in which a person is shown a reason. Only a difference has several: a line break in anything else that an
/// agent chose is shown as what it is, so that it cannot pass for another reason.
pub fn lines_of_reason(reason: &str) -> impl Iterator<Item = &str> {
    let shown_whole = !reason.starts_with(REASON_DIFFERENCE);
    reason.split('\n').filter(move |_| !shown_whole).chain(shown_whole.then_some(reason))
}

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// Yes.
    Granted,
    /// No.
    Denied,
}

impl ApprovalDecision {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalDecision::Granted => "granted",
            ApprovalDecision::Denied => "denied",
        }
    }
}

/// Where an approval is at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has answered yet.
    Pending,
    /// A person approved it, and the run has not continued yet.
    Granted,
    /// A person said no.
    Denied,
    /// The run went on with it.
    Used,
    /// Its time passed before it was used.
    Expired,
}

impl ApprovalState {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalState::Pending => "pending",
            ApprovalState::Granted => "granted",
            ApprovalState::Denied => "denied",
            ApprovalState::Used => "used",
            ApprovalState::Expired => "expired",
        }
    }
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far an approval goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalTerms {
    /// Whether the run may do the same again without asking.
    pub lasting: bool,
    /// The command that may run instead of the one that was asked for; the gates look at it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

impl ApprovalTerms {
    /// Whether it is a plain approval, without terms.
    pub fn is_plain(&self) -> bool {
        *self == ApprovalTerms::default()
    }
}

/// An approval, as `norma approvals --json` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// UUID.
    pub id: ApprovalId,
    /// The run that waits for it, by its slug.
    pub run_id: Slug,
    /// Where it is.
    pub state: ApprovalState,
    /// Why a person is asked.
    pub reasons: Vec<String>,
    /// What it is bound to.
    pub bound: Digest,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// Nobody can approve it, and no run can use it, from then on.
    pub expires_at: Timestamp,
    /// What was said.
    pub decision: Option<ApprovalDecision>,
    /// Who said it.
    pub by: Option<String>,
    /// Why, in their words.
    pub reason: Option<String>,
    /// How far an approval goes.
    #[serde(default, skip_serializing_if = "ApprovalTerms::is_plain")]
    pub terms: ApprovalTerms,
    /// When it was said.
    pub answered_at: Option<Timestamp>,
    /// When the run went on with it.
    pub used_at: Option<Timestamp>,
}

impl ApprovalView {
    /// Where an approval is at a time, from what is on record of it.
    pub fn state_at(&self, now: Timestamp) -> ApprovalState {
        match (self.used_at, self.decision) {
            (Some(_), _) => ApprovalState::Used,
            (None, Some(ApprovalDecision::Denied)) => ApprovalState::Denied,
            (None, _) if now >= self.expires_at => ApprovalState::Expired,
            (None, Some(ApprovalDecision::Granted)) => ApprovalState::Granted,
            (None, None) => ApprovalState::Pending,
        }
    }
}

/// What an approval is bound to: the run, the contract it runs under and the reasons that the person is shown.
pub fn approval_bound(run: &RunId, contract: &Digest, reasons: &[String]) -> Digest {
    let mut hasher = crate::hash::Hasher::new(Domain::Approval);
    hasher.field(run.uuid().as_bytes()).field(contract.as_bytes());
    for reason in reasons {
        hasher.field(reason.as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn view(decision: Option<ApprovalDecision>, used_at: Option<Timestamp>) -> ApprovalView {
        ApprovalView {
            id: ApprovalId::new(1, [1; 10]),
            run_id: RunId::new(1, [1; 10]).slug(),
            state: ApprovalState::Pending,
            reasons: Vec::new(),
            bound: Digest::from_bytes([0; 32]),
            asked_at: Timestamp::from_unix_ms(0),
            expires_at: Timestamp::from_unix_ms(10),
            decision,
            by: None,
            reason: None,
            terms: ApprovalTerms::default(),
            answered_at: None,
            used_at,
        }
    }

    #[test]
    fn an_approval_is_worth_nothing_from_the_moment_it_expires() {
        use ApprovalDecision::{Denied, Granted};
        let used = Some(Timestamp::from_unix_ms(5));
        for (decision, used_at, at_9, at_10) in [
            (None, None, ApprovalState::Pending, ApprovalState::Expired),
            (Some(Granted), None, ApprovalState::Granted, ApprovalState::Expired),
            (Some(Denied), None, ApprovalState::Denied, ApprovalState::Denied),
            (Some(Granted), used, ApprovalState::Used, ApprovalState::Used),
        ] {
            let view = view(decision, used_at);
            let at = |ms| view.state_at(Timestamp::from_unix_ms(ms));
            assert_eq!((at(9), at(10)), (at_9, at_10), "{decision:?}");
        }
    }

    #[test]
    fn everything_an_approval_is_bound_to_counts() {
        let (one, other) = (RunId::new(1, [1; 10]), RunId::new(1, [2; 10]));
        let [a, b] = [b"a", b"b"].map(|bytes| crate::hash::sha256(bytes));
        let reasons = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let bounds = BTreeSet::from([
            approval_bound(&one, &a, &reasons(&["x"])),
            approval_bound(&other, &a, &reasons(&["x"])),
            approval_bound(&one, &b, &reasons(&["x"])),
            approval_bound(&one, &a, &reasons(&["y"])),
            approval_bound(&one, &a, &reasons(&["x", "y"])),
            approval_bound(&one, &a, &reasons(&["xy"])),
            approval_bound(&one, &a, &[]),
        ]);
        assert_eq!(bounds.len(), 7);
    }
}
