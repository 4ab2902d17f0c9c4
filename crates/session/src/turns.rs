//! The course of a live conversation, whatever protocol it is in: a handshake, then one turn after the other. A prompt
//! waits here until the agent can take it, and so does the wish to stop a turn that has not begun.

use crate::notes::Notes;
use crate::session::Act;
use contract::session::{ErrorKind, SessionError};

/// How far the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first message was sent.
    Greeting,
    /// The conversation's new name, or its old one, was asked for; not every protocol does.
    Opening,
    /// Nothing is under way.
    Idle,
    /// A prompt was sent.
    Turning,
    /// The handshake failed; nothing more is said.
    Failed,
}

/// The turns of one conversation.
pub(crate) struct Turns {
    pub(crate) stage: Stage,
    /// Somebody wants the next turn to stop.
    pub(crate) cancelled: bool,
    waiting: Option<String>,
}

impl Turns {
    pub(crate) fn of(prompt: &str) -> Turns {
        Turns { stage: Stage::Greeting, cancelled: false, waiting: Some(prompt.to_owned()) }
    }

    /// A conversation that is only opened.
    pub(crate) fn none() -> Turns {
        Turns { stage: Stage::Greeting, cancelled: false, waiting: None }
    }

    /// One more prompt; what waits already is asked together with it.
    pub(crate) fn add(&mut self, prompt: &str) {
        match &mut self.waiting {
            _ if self.stage == Stage::Failed => {}
            Some(waiting) => {
                waiting.push_str("\n\n");
                waiting.push_str(prompt);
            }
            none => *none = Some(prompt.to_owned()),
        }
    }

    /// The prompt of the turn that begins now, if one waits and the agent can take it.
    pub(crate) fn begin(&mut self, notes: &mut Notes, out: &mut Vec<Act>) -> Option<String> {
        if self.stage != Stage::Idle {
            return None;
        }
        let prompt = self.waiting.take()?;
        if std::mem::take(&mut self.cancelled) {
            notes.end(false, "cancelled", out);
            return None;
        }
        notes.begin_turn();
        self.stage = Stage::Turning;
        Some(prompt)
    }

    /// The handshake failed. Without a better reason that is a misunderstanding about the protocol.
    pub(crate) fn fail(&mut self, mut problem: SessionError, notes: &mut Notes, out: &mut Vec<Act>) {
        if problem.kind == ErrorKind::Other {
            problem.kind = ErrorKind::Protocol;
        }
        self.stage = Stage::Failed;
        notes.trouble(problem, out);
        notes.end(false, "handshake failed", out);
        out.push(Act::CloseInput);
    }
}
