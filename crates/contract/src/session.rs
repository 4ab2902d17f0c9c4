//! What an agent says while it works, in one form for all of them. Each command line has its own protocol; whoever
//! looks at a turn (the log, a gate, a person) sees only these events. They are written by norma alone, so they are
//! closed: what an agent said that has no form here is kept as [`SessionEvent::Other`], within a bound.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that happened in a session with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum SessionEvent {
    /// The agent has opened, or found again, its conversation.
    Session {
        /// The agent's own name for it; what resumes it.
        id: String,
        /// The model, as the agent says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The agent's name and version, as it says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// A piece of a message that is being written.
    MessageDelta {
        /// The piece.
        text: String,
    },
    /// A message, whole.
    Message {
        /// All of it, or its beginning.
        text: String,
    },
    /// What the model thinks, as far as it shows that.
    Thought {
        /// A piece of it, or all of it.
        text: String,
    },
    /// The agent wants to use a tool and has not begun.
    ToolProposed {
        /// Which call.
        call: String,
        /// The tool, as the agent names it.
        tool: String,
        /// What it does.
        kind: ToolKind,
        /// Its arguments, or as much of them as is kept.
        input: Value,
    },
    /// The agent uses a tool.
    ToolStarted {
        /// Which call.
        call: String,
        /// The tool, as the agent names it.
        tool: String,
        /// What it does.
        kind: ToolKind,
        /// Its arguments, or as much of them as is kept.
        input: Value,
    },
    /// A tool is done.
    ToolCompleted {
        /// Which call.
        call: String,
        /// Whether it did what it was asked, as the agent says.
        ok: bool,
        /// What it said: the beginning and the end of it.
        output: String,
    },
    /// The agent asks whether it may.
    PermissionRequested(Permission),
    /// It was told.
    PermissionAnswered {
        /// Which request.
        id: String,
        /// What it was told.
        decision: Decision,
    },
    /// What the agent means to do, in full; replaces an earlier plan.
    Plan {
        /// Step by step.
        entries: Vec<PlanEntry>,
    },
    /// What was used so far; replaces an earlier count.
    Usage(Usage),
    /// Something went wrong; the turn may still succeed, since agents try again.
    Error(SessionError),
    /// The turn is over.
    Ended {
        /// Whether the agent calls it a success.
        ok: bool,
        /// Its word for how.
        reason: String,
    },
    /// What has no form here.
    Other {
        /// As it came, or its beginning.
        raw: Value,
    },
}

impl SessionEvent {
    /// One sentence for people.
    pub fn message(&self) -> String {
        let short = |text: &str| -> String { first_words(text) };
        match self {
            SessionEvent::Session { id, model, .. } => {
                let model = model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default();
                format!("Session {id}{model}")
            }
            SessionEvent::MessageDelta { text } | SessionEvent::Message { text } => short(text),
            SessionEvent::Thought { text } => format!("(thinks) {}", short(text)),
            SessionEvent::ToolProposed { tool, input, .. } => format!("wants {tool} {}", short(&input.to_string())),
            SessionEvent::ToolStarted { tool, input, .. } => format!("{tool} {}", short(&input.to_string())),
            SessionEvent::ToolCompleted { ok: true, output, .. } => format!("done: {}", short(output)),
            SessionEvent::ToolCompleted { output, .. } => format!("failed: {}", short(output)),
            SessionEvent::PermissionRequested(asked) => {
                let what = asked.command.clone().unwrap_or_else(|| asked.paths.join(", "));
                format!("asks to use {}: {}", asked.tool, short(&what))
            }
            SessionEvent::PermissionAnswered { decision, .. } => match decision {
                Decision::Allow => "allowed".to_owned(),
                Decision::AllowForSession => "allowed for the session".to_owned(),
                Decision::AllowModified { .. } => "allowed with other arguments".to_owned(),
                Decision::Deny { message } => format!("denied: {}", short(message)),
            },
            SessionEvent::Plan { entries } => format!("plan of {} steps", entries.len()),
            SessionEvent::Usage(usage) => {
                let cost = usage.cost_micro_usd.map(|cost| format!(", ${}", crate::Usd(cost))).unwrap_or_default();
                format!("{} tokens read, {} written{cost}", usage.input_tokens, usage.output_tokens)
            }
            SessionEvent::Error(error) => format!("error: {}", short(&error.message)),
            SessionEvent::Ended { ok, reason } => format!("ended {}: {reason}", if *ok { "well" } else { "badly" }),
            SessionEvent::Other { .. } => "something else".to_owned(),
        }
    }

    /// Whether it belongs on record by itself: pieces are told, and what has no form is only in the exchange.
    pub fn is_fact(&self) -> bool {
        !matches!(self, SessionEvent::MessageDelta { .. } | SessionEvent::Thought { .. } | SessionEvent::Other { .. })
    }
}

/// The beginning of the first line.
fn first_words(text: &str) -> String {
    const CHARS_MAX: usize = 160;
    let line = text.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(CHARS_MAX).collect();
    if line.chars().count() > CHARS_MAX {
        short.push('…');
    }
    short
}

/// One step of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanEntry {
    /// What is to be done.
    pub text: String,
    /// Whether it is.
    pub status: PlanStatus,
}

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}

/// What the agent's process used so far, over all of its turns, as the agent counts. It is for people and for
/// budgets that are not exact: a count made where the model is reached is the better one.
///
/// `input_tokens` holds everything that the model read, also from its cache; `output_tokens` everything that it
/// wrote, also what it thought. How the counts of each command line become that:
///
/// | agent | says | becomes |
/// |---|---|---|
/// | codex, live | the thread's total with every model call | the latest, less what the thread had before this process |
/// | codex, one-shot | the thread's total at the end | that; after a resume it holds the earlier turns too |
/// | claude | the process's total for each model with every turn; cached input apart | the latest, all models and kinds of input together |
/// | gemini, live | the prompt's total with its result, without thoughts | the sum |
/// | gemini, one-shot | the total at the end; thoughts only in the grand total | that |
/// | opencode, live | the *last step* of a prompt with its result, the session's cost | the sum of the tokens, too few when tools were used; the latest cost |
/// | opencode, one-shot | each step; cached input and thoughts apart | the sum |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Tokens that the model read, cached ones included.
    pub input_tokens: u64,
    /// Tokens that the model wrote, thoughts included.
    pub output_tokens: u64,
    /// Those of the input that came from a cache.
    pub cached_tokens: u64,
    /// Those of the output that were thoughts, where the agent tells them apart.
    pub reasoning_tokens: u64,
    /// Millionths of a US dollar, where the agent counts money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}

impl Usage {
    /// All tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// What of it was used since: by a count that continues from `before`, which never counted money.
    #[must_use]
    pub fn less(&self, before: &Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(before.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(before.reasoning_tokens),
            cost_micro_usd: self.cost_micro_usd,
        }
    }

    /// Adds what was used elsewhere. What nobody counted in money stays unknown only if none of it was counted.
    pub fn add(&mut self, more: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(more.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(more.reasoning_tokens);
        self.cost_micro_usd = match (self.cost_micro_usd, more.cost_micro_usd) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
    }
}

/// What came of a session with an agent: `session/outcome.json`. What the turn is worth is judged with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionOutcome {
    /// Which command line.
    pub agent: String,
    /// What it spoke.
    pub protocol: String,
    /// Whether the turn came to a good end by what the agent said and how its process left.
    pub ok: bool,
    /// The agent's own name for the conversation.
    pub session_id: Option<String>,
    /// What was used, by who counted best.
    pub usage: Usage,
    /// What went wrong.
    pub error: Option<SessionError>,
    /// Tools that were used, counted by what the agent said of each.
    pub tool_ops: u64,
    /// Whether a budget ended it: the model was not called again.
    #[serde(default)]
    pub out_of_budget: bool,
    /// What was removed from what is kept, by kind.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub redacted: std::collections::BTreeMap<String, u64>,
}

/// What went wrong between the agent and its model, or between norma and the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionError {
    /// What to do about it depends on this.
    #[serde(flatten)]
    pub kind: ErrorKind,
    /// In the agent's words, or their beginning.
    pub message: String,
    /// The HTTP status, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The kinds of trouble that are told apart, because something different helps against each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ErrorKind {
    /// Not signed in, or not allowed: a person has to do something.
    Auth,
    /// Too much asked for: wait.
    RateLimited {
        /// For how long, where that was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset_after_seconds: Option<u64>,
        /// Until when, in seconds since 1970, where that was said instead. Nothing here has a clock to tell one
        /// from the other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<u64>,
    },
    /// The model was not reached, or the connection broke.
    Network,
    /// The agent did not say what its protocol has it say.
    Protocol,
    /// The model or its provider would not.
    Refused,
    /// The provider's fault.
    Server,
    /// Anything else.
    Other,
}

/// What a tool does, whatever its agent calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files.
    Read,
    /// Changes, moves or deletes files.
    Write,
    /// Runs commands.
    Shell,
    /// Looks for files or text.
    Search,
    /// Reaches the network.
    Fetch,
    /// Plans, notes, asks another model: nothing outside the agent.
    Think,
    /// A tool of an MCP server.
    Mcp,
    /// Anything else.
    Other,
}

/// What an agent asks to be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Permission {
    /// Names the request within its session; the answer carries it.
    pub id: String,
    /// The tool, as the agent names it.
    pub tool: String,
    /// What it does.
    pub kind: ToolKind,
    /// The command, as the agent gave it: one line for a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The files it is about, as the agent names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// All that the agent said about it.
    pub input: Value,
    /// Why, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What an agent is told when it asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "decision", deny_unknown_fields)]
pub enum Decision {
    /// This once.
    Allow,
    /// This and its like, until the session ends.
    AllowForSession,
    /// No.
    Deny {
        /// Why, for the agent.
        message: String,
    },
    /// This once, with other arguments; where the agent cannot take them, it is denied.
    AllowModified {
        /// The arguments.
        input: Value,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(event: &SessionEvent, expected: Value) {
        let written = serde_json::to_value(event).unwrap();
        assert_eq!(written, expected);
        assert_eq!(&serde_json::from_value::<SessionEvent>(written).unwrap(), event);
    }

    #[test]
    fn events_are_flat_objects_with_a_type() {
        let limited = ErrorKind::RateLimited { reset_after_seconds: Some(12), resets_at: None };
        let error = SessionError { kind: limited, message: "slow down".to_owned(), status: Some(429) };
        check(
            &SessionEvent::Error(error),
            json!({"type": "error", "kind": "rate_limited", "reset_after_seconds": 12, "message": "slow down",
                   "status": 429}),
        );
        let permission = Permission {
            id: "permission-1".to_owned(),
            tool: "Bash".to_owned(),
            kind: ToolKind::Shell,
            command: Some("ls".to_owned()),
            cwd: None,
            paths: Vec::new(),
            input: json!({"command": "ls"}),
            reason: None,
        };
        check(
            &SessionEvent::PermissionRequested(permission),
            json!({"type": "permission_requested", "id": "permission-1", "tool": "Bash", "kind": "shell",
                   "command": "ls", "input": {"command": "ls"}}),
        );
        check(
            &SessionEvent::PermissionAnswered {
                id: "permission-1".to_owned(),
                decision: Decision::Deny { message: "no".to_owned() },
            },
            json!({"type": "permission_answered", "id": "permission-1", "decision": {"decision": "deny", "message": "no"}}),
        );
        check(
            &SessionEvent::Usage(Usage { input_tokens: 3, ..Usage::default() }),
            json!({"type": "usage", "input_tokens": 3, "output_tokens": 0, "cached_tokens": 0, "reasoning_tokens": 0}),
        );
        check(
            &SessionEvent::Ended { ok: true, reason: "completed".to_owned() },
            json!({"type": "ended", "ok": true, "reason": "completed"}),
        );
    }

    #[test]
    fn the_schema_of_events_is_a_schema() {
        let schema = schemars::schema_for!(SessionEvent).to_value();
        let text = serde_json::to_vec(&schema).unwrap();
        crate::json::schema::Schema::compile(&text).unwrap();
    }
}
