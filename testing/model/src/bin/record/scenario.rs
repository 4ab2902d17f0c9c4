//! What is recorded of each agent: a script of the model's, and how the other side behaves.

use scripted_model::agents::Agent;
use serde_json::{Value, json};

/// One recording.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// What its file is called.
    pub(crate) name: &'static str,
    /// A built-in script.
    pub(crate) script: &'static str,
    /// What is answered when the agent asks for permission; it is set up to ask if there is an answer.
    pub(crate) permission: Option<Permission>,
    /// Whether the turn is stopped while it runs.
    pub(crate) is_cancelled: bool,
    /// Whether an answer of a given form is asked for, where the agent knows such a thing.
    pub(crate) is_structured: bool,
    /// How many times the prompt is said, one after the other, in the same conversation.
    pub(crate) turns: usize,
    /// The only agent it means something for, if there is just one.
    pub(crate) only: Option<Agent>,
}

impl Scenario {
    pub(crate) fn suits(&self, agent: Agent) -> bool {
        self.only.is_none_or(|only| only == agent)
    }

    /// Whether it can be played where nobody is asked and nothing can be said once the turn runs.
    pub(crate) fn is_one_sided(&self) -> bool {
        self.permission.is_none() && !self.is_cancelled && !self.is_structured && self.turns == 1
    }
}

/// The answer to a request for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Approve,
    Deny,
}

const fn plain(name: &'static str, script: &'static str) -> Scenario {
    Scenario { name, script, permission: None, is_cancelled: false, is_structured: false, turns: 1, only: None }
}

const fn asking(name: &'static str, answer: Permission) -> Scenario {
    Scenario { permission: Some(answer), ..plain(name, "write_shell") }
}

const fn cancelled(name: &'static str, script: &'static str) -> Scenario {
    Scenario { is_cancelled: true, ..plain(name, script) }
}

/// The form that is asked for.
pub(crate) fn schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": { "status": text, "summary": text },
        "required": ["status", "summary"],
        "additionalProperties": false,
    })
}

pub(crate) const ALL: [Scenario; 18] = [
    plain("write_shell", "write_shell"),
    asking("approved", Permission::Approve),
    asking("denied", Permission::Deny),
    cancelled("cancel_before_answer", "hang"),
    cancelled("cancel_mid_stream", "hang_mid"),
    cancelled("cancel_in_tool", "sleep"),
    // The others were told not to try again.
    Scenario { only: Some(Agent::Opencode), ..cancelled("cancel_in_retry", "server_error") },
    plain("unauthorized", "unauthorized"),
    plain("rate_limited", "rate_limited"),
    plain("server_error", "server_error"),
    plain("dropped", "drop"),
    plain("just_text", "text"),
    plain("garbage", "garbage"),
    // A thought, and what all of it cost.
    plain("usage", "think"),
    Scenario { turns: 2, ..plain("two_turns", "write_shell") },
    plain("plan", "plan"),
    Scenario { is_structured: true, ..plain("structured", "structured") },
    // A form is asked for, and the model does not keep to it.
    Scenario { is_structured: true, ..plain("unstructured", "text") },
];
