//! Tool calls on their way from proposed to done. Agents tell of them in different ways: some twice, some only when
//! they ask, some only afterwards. Here each becomes at most one event of each kind, in order, and is counted once.

use crate::limits;
use crate::session::Act;
use crate::wire;
use contract::SessionEvent;
use contract::session::{Decision, ToolKind};
use serde_json::Value;
use std::collections::VecDeque;

/// A call that is not done.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) kind: ToolKind,
    pub(crate) input: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Proposed,
    Denied,
    Started,
}

/// The calls that are open; the oldest is forgotten when there are too many.
#[derive(Default)]
pub(crate) struct Calls {
    open: VecDeque<(Call, State)>,
    started: u64,
}

impl Calls {
    /// How many were started in all.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// The agent means to. Said again it adds what was not known: some tell of a call before they have its arguments.
    pub(crate) fn propose(&mut self, mut call: Call, out: &mut Vec<Act>) {
        call.input = wire::bounded(call.input, limits::INPUT_BYTES_MAX);
        let Some((known, state)) = self.find(&call.id) else {
            out.push(Act::Tell(proposed(&call)));
            return self.remember(call, State::Proposed);
        };
        if known.tool.is_empty() {
            known.tool = call.tool;
        }
        if known.kind == ToolKind::Other {
            known.kind = call.kind;
        }
        if is_nothing(&call.input) {
            return;
        }
        let news = is_nothing(&known.input) && *state == State::Proposed;
        known.input = call.input;
        if news {
            out.push(Act::Tell(proposed(known)));
        }
    }

    /// The agent does, and had said so.
    pub(crate) fn start(&mut self, id: &str, out: &mut Vec<Act>) {
        let Some((call, state)) = self.find(id) else { return };
        if *state != State::Proposed {
            return;
        }
        *state = State::Started;
        let Call { id, tool, kind, input } = call.clone();
        self.started = self.started.saturating_add(1);
        out.push(Act::Tell(SessionEvent::ToolStarted { call: id, tool, kind, input }));
    }

    /// The agent does, without having said so.
    pub(crate) fn begin(&mut self, mut call: Call, out: &mut Vec<Act>) {
        if self.find(&call.id).is_none() {
            call.input = wire::bounded(call.input, limits::INPUT_BYTES_MAX);
            self.remember(call.clone(), State::Proposed);
        }
        self.start(&call.id, out);
    }

    /// Somebody has decided whether it may.
    pub(crate) fn decide(&mut self, id: &str, decision: &Decision, out: &mut Vec<Act>) {
        match decision {
            Decision::Deny { .. } => self.deny(id),
            Decision::Allow | Decision::AllowForSession | Decision::AllowModified { .. } => self.start(id, out),
        }
    }

    /// The agent was told not to.
    pub(crate) fn deny(&mut self, id: &str) {
        if let Some((_, state)) = self.find(id) {
            *state = State::Denied;
        }
    }

    /// It is done, or was not done.
    pub(crate) fn complete(&mut self, id: &str, ok: bool, output: &str, out: &mut Vec<Act>) {
        self.start(id, out);
        self.open.retain(|(call, _)| call.id != id);
        let output = wire::ends(output, limits::OUTPUT_BYTES_MAX);
        out.push(Act::Tell(SessionEvent::ToolCompleted { call: id.to_owned(), ok, output }));
    }

    /// What is known of an open call.
    pub(crate) fn get(&self, id: &str) -> Option<&Call> {
        self.open.iter().find(|(call, _)| call.id == id).map(|(call, _)| call)
    }

    /// Forgets what was open: the turn is over.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }

    fn find(&mut self, id: &str) -> Option<(&mut Call, &mut State)> {
        self.open.iter_mut().find(|(call, _)| call.id == id).map(|(call, state)| (call, state))
    }

    fn remember(&mut self, call: Call, state: State) {
        if self.open.len() >= limits::CALLS_MAX {
            self.open.pop_front();
        }
        self.open.push_back((call, state));
    }

    /// How much is held: calls and bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.open.len(), self.open.iter().map(|(call, _)| wire::weight(&call.input)).sum())
    }
}

fn proposed(call: &Call) -> SessionEvent {
    let Call { id, tool, kind, input } = call.clone();
    SessionEvent::ToolProposed { call: id, tool, kind, input }
}

/// No arguments, or none yet.
fn is_nothing(input: &Value) -> bool {
    input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty)
}
