//! Waits: what a run, or one of its turns, cannot continue without. Each is asked and answered by a fact of the run, so
//! that a run which waits needs no process, and whoever takes it up again knows what was said.

use crate::schema::JsonSchema;
use crate::{Budgets, Reason, StepRef, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The choice that raises a budget.
pub const CHOICE_MORE: &str = "more";

/// The choice that ends a run at its budget.
pub const CHOICE_STOP: &str = "stop";

/// The name of a wait, unique within its run. Of an approval it is the approval's id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WaitId(pub String);

impl fmt::Display for WaitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for WaitId {
    fn from(text: &str) -> WaitId {
        WaitId(text.to_owned())
    }
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A person's approval.
    Approval,
    /// The answer to a question of an agent.
    Question,
    /// A choice between ways to continue.
    Decision,
    /// Words that only a person can give.
    Input,
    /// A provider that is rate limited.
    Provider,
    /// A budget that is used up: more of it, or the end.
    Budget,
}

impl WaitKind {
    /// The word as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitKind::Approval => "approval",
            WaitKind::Question => "question",
            WaitKind::Decision => "decision",
            WaitKind::Input => "input",
            WaitKind::Provider => "provider",
            WaitKind::Budget => "budget",
        }
    }

    /// Why a run waits that waits for this.
    pub fn reason(self) -> Reason {
        match self {
            WaitKind::Approval => Reason::ApprovalRequired,
            WaitKind::Question | WaitKind::Decision | WaitKind::Input => Reason::AnswerRequired,
            WaitKind::Provider => Reason::ProviderLimit,
            WaitKind::Budget => Reason::BudgetExceeded,
        }
    }
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that was asked and not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Its name within the run.
    pub id: WaitId,
    /// What is waited for.
    pub kind: WaitKind,
    /// The turn that waits; without one, the run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<StepRef>,
    /// Why it is asked, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What can be answered; where there are none, the answer is a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Nobody can answer from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// What was answered, by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The wait that it ends.
    pub wait: WaitId,
    /// One of its choices; empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub choice: String,
    /// Who answered.
    pub by: String,
    /// The answer in words, or a remark on the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the run may use up from now on, where more was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_spelled_like_its_json() {
        use WaitKind::{Approval, Budget, Decision, Input, Provider, Question};
        for kind in [Approval, Question, Decision, Input, Provider, Budget] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn what_is_not_said_is_left_out() {
        let wait = Wait {
            id: "budget-1".into(),
            kind: WaitKind::Budget,
            about: None,
            reasons: Vec::new(),
            choices: vec![CHOICE_MORE.into(), CHOICE_STOP.into()],
            deadline: None,
        };
        let text = r#"{"id":"budget-1","kind":"budget","choices":["more","stop"]}"#;
        assert_eq!(serde_json::to_string(&wait).unwrap(), text);
        assert_eq!(serde_json::from_str::<Wait>(text).unwrap(), wait);
    }
}
