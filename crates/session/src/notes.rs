//! What is remembered of a session, whatever protocol it is in: enough for its [`Outcome`](crate::Outcome), and no
//! more. Every event goes through here, so that the bounds hold in one place.

use crate::brief::Rights;
use crate::calls::Calls;
use crate::limits;
use crate::session::Act;
use crate::trouble;
use crate::wire;
use contract::SessionEvent;
use contract::session::{ErrorKind, PlanEntry, PlanStatus, SessionError, ToolKind, Usage};
use contract::work::ShellRight;
use serde_json::{Value, json};

/// The memory of a session.
pub(crate) struct Notes {
    pub(crate) rights: Rights,
    pub(crate) calls: Calls,
    pub(crate) session_id: Option<String>,
    usage: Usage,
    answer: String,
    answer_too_long: bool,
    /// Whether pieces are still being added to the answer.
    writing: bool,
    error: Option<SessionError>,
    end: Option<bool>,
    cancelled: bool,
    /// Whether the turn ended because something was denied, without an answer.
    pub(crate) stopped_after_denial: bool,
    strange: u32,
}

/// An answer without the code fence around all of it: there is one way to read that. A fence with words around it is left
/// as it is, since which of several documents is meant could only be guessed.
fn unfenced(answer: &str) -> &str {
    let inner = || {
        let (kind, rest) = answer.trim().strip_prefix("```")?.split_once('\n')?;
        let inner = rest.strip_suffix("```")?;
        let is_document = serde_json::from_str::<serde_json::Map<String, Value>>(inner).is_ok();
        (matches!(kind.trim(), "" | "json" | "JSON") && is_document).then(|| inner.trim())
    };
    inner().unwrap_or(answer)
}

impl Notes {
    pub(crate) fn new(rights: Rights) -> Notes {
        Notes {
            rights,
            calls: Calls::default(),
            session_id: None,
            usage: Usage::default(),
            answer: String::new(),
            answer_too_long: false,
            writing: false,
            error: None,
            end: None,
            cancelled: false,
            stopped_after_denial: false,
            strange: 0,
        }
    }

    /// A new prompt: what the last one came to is over.
    pub(crate) fn begin_turn(&mut self) {
        self.clear_answer();
        self.writing = false;
        self.error = None;
        self.end = None;
        self.cancelled = false;
        self.stopped_after_denial = false;
        self.strange = 0;
    }

    /// The agent's name for the conversation, told when it is new.
    pub(crate) fn session(&mut self, id: String, model: Option<String>, agent: Option<String>, out: &mut Vec<Act>) {
        if id.is_empty() || self.session_id.as_deref() == Some(&id) {
            return;
        }
        self.session_id = Some(id.clone());
        out.push(Act::Tell(SessionEvent::Session { id, model, agent }));
    }

    /// A piece of a message of which the whole follows.
    pub(crate) fn delta(&self, text: &str, out: &mut Vec<Act>) {
        if !text.is_empty() {
            let text = wire::clip(text, limits::MESSAGE_BYTES_MAX).to_owned();
            out.push(Act::Tell(SessionEvent::MessageDelta { text }));
        }
    }

    /// A piece of a message that is only told in pieces.
    pub(crate) fn piece(&mut self, text: &str, out: &mut Vec<Act>) {
        if text.is_empty() {
            return;
        }
        if !self.writing {
            self.clear_answer();
            self.writing = true;
        }
        self.add(text);
        self.delta(text, out);
    }

    /// The message that was told in pieces is whole.
    pub(crate) fn end_message(&mut self, out: &mut Vec<Act>) {
        if self.writing {
            self.writing = false;
            self.tell_message(out);
        }
    }

    /// A whole message; the last one is the answer.
    pub(crate) fn message(&mut self, text: &str, out: &mut Vec<Act>) {
        if text.is_empty() {
            return;
        }
        self.answer_is(text);
        self.tell_message(out);
    }

    /// The answer, where the agent says which it is.
    pub(crate) fn answer_is(&mut self, text: &str) {
        self.clear_answer();
        self.writing = false;
        self.add(text);
    }

    fn tell_message(&self, out: &mut Vec<Act>) {
        let text = wire::clip(&self.answer, limits::MESSAGE_BYTES_MAX).to_owned();
        out.push(Act::Tell(SessionEvent::Message { text }));
    }

    fn clear_answer(&mut self) {
        self.answer.clear();
        self.answer_too_long = false;
    }

    fn add(&mut self, text: &str) {
        if self.answer.len() + text.len() > limits::ANSWER_BYTES_MAX {
            self.answer_too_long = true;
            return;
        }
        self.answer.push_str(text);
    }

    /// What the model thinks.
    pub(crate) fn thought(&self, text: &str, out: &mut Vec<Act>) {
        if !text.is_empty() {
            let text = wire::clip(text, limits::MESSAGE_BYTES_MAX).to_owned();
            out.push(Act::Tell(SessionEvent::Thought { text }));
        }
    }

    /// What the agent means to do, step by step; protocols differ in the name of a step's text.
    pub(crate) fn plan(&self, steps: &[Value], text: &str, out: &mut Vec<Act>) {
        let entries = steps.iter().take(limits::PLAN_ENTRIES_MAX).map(|step| PlanEntry {
            text: wire::clip(wire::text(step, text), limits::ERROR_BYTES_MAX).to_owned(),
            status: match wire::text(step, "status") {
                "in_progress" | "inProgress" => PlanStatus::InProgress,
                "completed" => PlanStatus::Completed,
                _ => PlanStatus::Pending,
            },
        });
        out.push(Act::Tell(SessionEvent::Plan { entries: entries.collect() }));
    }

    /// The count so far, as it is now.
    pub(crate) fn usage_is(&mut self, usage: Usage, out: &mut Vec<Act>) {
        if usage != self.usage {
            self.usage = usage;
            out.push(Act::Tell(SessionEvent::Usage(usage)));
        }
    }

    /// What was used since the count before.
    pub(crate) fn usage_more(&mut self, more: Usage, out: &mut Vec<Act>) {
        let cost = match (self.usage.cost_micro_usd, more.cost_micro_usd) {
            (Some(before), Some(more)) => Some(before.saturating_add(more)),
            (before, more) => before.or(more),
        };
        let usage = Usage {
            input_tokens: self.usage.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.usage.output_tokens.saturating_add(more.output_tokens),
            cached_tokens: self.usage.cached_tokens.saturating_add(more.cached_tokens),
            reasoning_tokens: self.usage.reasoning_tokens.saturating_add(more.reasoning_tokens),
            cost_micro_usd: cost,
        };
        self.usage_is(usage, out);
    }

    /// The count so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Something went wrong; the last such thing explains a turn that fails.
    pub(crate) fn trouble(&mut self, error: SessionError, out: &mut Vec<Act>) {
        if self.is_strange(out) {
            out.push(Act::Tell(SessionEvent::Error(error.clone())));
        }
        self.error = Some(error);
    }

    /// The agent broke its protocol.
    pub(crate) fn broken(&mut self, message: &str, out: &mut Vec<Act>) {
        // What explains a failure better than bad lines around it stays.
        let kept = self.error.take();
        self.trouble(trouble::protocol(message), out);
        if let Some(kept) = kept.filter(|kept| kept.kind != ErrorKind::Protocol) {
            self.error = Some(kept);
        }
    }

    /// What has no form.
    pub(crate) fn other(&mut self, raw: Value, out: &mut Vec<Act>) {
        if self.is_strange(out) {
            let raw = wire::bounded(raw, limits::OTHER_BYTES_MAX);
            out.push(Act::Tell(SessionEvent::Other { raw }));
        }
    }

    /// Whether one more strange thing is told; the last one says that there is more.
    fn is_strange(&mut self, out: &mut Vec<Act>) -> bool {
        self.strange = self.strange.saturating_add(1);
        if self.strange == limits::STRANGE_MAX {
            let raw = json!({"left_out": "more of what has no form, and of errors, in this turn"});
            out.push(Act::Tell(SessionEvent::Other { raw }));
        }
        self.strange < limits::STRANGE_MAX
    }

    /// The turn is over; only the first word on it counts.
    pub(crate) fn end(&mut self, ok: bool, reason: &str, out: &mut Vec<Act>) {
        if self.end.is_some() {
            return;
        }
        self.end_message(out);
        self.calls.forget();
        self.end = Some(ok);
        let reason = wire::clip(reason, limits::NAME_BYTES_MAX).to_owned();
        out.push(Act::Tell(SessionEvent::Ended { ok, reason }));
    }

    /// Somebody wants the turn to stop. Some agents call what is left of it a success.
    pub(crate) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Whether somebody did.
    pub(crate) fn cancelled(&self) -> bool {
        self.cancelled
    }

    /// Whether the agent still has to ask before it uses such a tool, though it says that it began. What it runs
    /// unasked nevertheless is told of when it shows.
    pub(crate) fn may_ask(&self, kind: ToolKind) -> bool {
        let asks = matches!(self.rights.shell, ShellRight::OnRequest | ShellRight::Untrusted);
        asks && matches!(kind, ToolKind::Shell | ToolKind::Write)
    }

    /// Whether the turn is over, and how.
    pub(crate) fn ended(&self) -> Option<bool> {
        self.end
    }

    /// The last trouble of this turn.
    pub(crate) fn error(&self) -> Option<&SessionError> {
        self.error.as_ref()
    }

    /// The answer, or why there is none that can be used.
    pub(crate) fn answer(&self) -> Result<Option<&str>, SessionError> {
        if self.answer_too_long {
            let message = format!("the answer is larger than {} bytes", limits::ANSWER_BYTES_MAX);
            return Err(trouble::protocol(&message));
        }
        Ok(Some(unfenced(&self.answer)).filter(|answer| !answer.is_empty()))
    }

    /// How many bytes are held.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |error| error.message.len());
        self.answer.len() + error + self.session_id.as_ref().map_or(0, String::len) + self.calls.size().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_the_whole_answer_is_no_part_of_it() {
        for fenced in ["```json\n{\"a\": 1}\n```", "```\n{\"a\": 1}```\n", "\n```json\r\n{\"a\": 1}\n```"] {
            assert_eq!(unfenced(fenced), "{\"a\": 1}", "{fenced}");
        }
        for other in [
            "Done:\n```json\n{}\n```",
            "```json\n{}\n```\n```json\n{}\n```",
            "```sh\n{}\n```",
            "```json\nls\n```",
            "{}",
            "```",
        ] {
            assert_eq!(unfenced(other), other);
        }
    }
}
