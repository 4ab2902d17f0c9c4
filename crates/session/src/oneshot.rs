//! One prompt on stdin, events on stdout, and the process ends: the form of a command line that needs nobody.
//! There is nobody to ask either, so what is not allowed beforehand is refused.

mod codex;
mod gemini;
mod opencode;

use crate::brief::{Brief, Kind};
use crate::claude;
use crate::notes::Notes;
use crate::session::{Act, Exit};
use crate::trouble;
use crate::wire;
use contract::session::{SessionError, Usage};
use opencode::Steps;
use serde_json::Value;

/// Reads the events of one run of a command line.
pub(crate) enum OneShot {
    /// With what its thread had used before.
    Codex(Usage),
    Claude(claude::Reader),
    Gemini,
    Opencode(Steps),
}

impl OneShot {
    /// Says all there is to say. There is none for [`Kind::Acp`], which always talks.
    pub(crate) fn open(brief: &Brief<'_>, prompt: &str, out: &mut Vec<Act>) -> OneShot {
        out.push(Act::Say(prompt.as_bytes().to_vec()));
        out.push(Act::CloseInput);
        match brief.kind {
            Kind::Codex => OneShot::Codex(brief.used),
            Kind::Claude => OneShot::Claude(claude::Reader::default()),
            Kind::Gemini => OneShot::Gemini,
            Kind::Opencode | Kind::Acp => OneShot::Opencode(Steps::default()),
        }
    }

    pub(crate) fn hear(&mut self, message: Value, notes: &mut Notes, out: &mut Vec<Act>) {
        match self {
            OneShot::Codex(before) => codex::hear(message, before, notes, out),
            OneShot::Claude(reader) if wire::text(&message, "type") == "result" => reader.result(&message, notes, out),
            OneShot::Claude(reader) => reader.hear(message, notes, out),
            OneShot::Gemini => gemini::hear(message, notes, out),
            OneShot::Opencode(steps) => steps.hear(message, notes, out),
        }
    }

    /// Whether the turn ended, and how, now that there are no more lines.
    pub(crate) fn ended(&self, notes: &Notes) -> Option<bool> {
        match self {
            OneShot::Opencode(steps) => steps.ended(notes),
            _ => notes.ended(),
        }
    }

    /// What the exit code explains, where nothing was said.
    pub(crate) fn explain(&self, exit: Exit) -> Option<SessionError> {
        match (self, exit) {
            (OneShot::Gemini, Exit::Code(code)) => gemini::status_of(code).map(|status| {
                trouble::judge(Some(status), &format!("left with code {code}, which stands for HTTP status {status}"))
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
