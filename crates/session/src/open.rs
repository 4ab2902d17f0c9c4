//! What an agent has asked and not been told yet. Each request gets a name of ours, since agents number theirs as
//! they like, some from 0, some twice.

use crate::brief::Rights;
use crate::limits;
use crate::session::Act;
use crate::wire;
use contract::SessionEvent;
use contract::session::{Decision, Permission};
use std::collections::VecDeque;

/// Requests that wait, each with what its answer needs.
pub(crate) struct Open<T> {
    asked: u64,
    bytes: usize,
    waiting: VecDeque<Waiting<T>>,
}

struct Waiting<T> {
    id: String,
    bytes: usize,
    how: T,
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Open { asked: 0, bytes: 0, waiting: VecDeque::new() }
    }
}

impl<T> Open<T> {
    /// Tells of a request and asks, unless the answer is clear already: then it comes back with that. `bytes` is
    /// what `how` holds.
    pub(crate) fn consider(
        &mut self,
        rights: &Rights,
        mut permission: Permission,
        how: T,
        bytes: usize,
        out: &mut Vec<Act>,
    ) -> Option<(T, Decision)> {
        permission.id = self.name();
        let mut told = permission.clone();
        told.input = wire::bounded(told.input, limits::INPUT_BYTES_MAX);
        told.command = told.command.map(|command| wire::ends(&command, limits::MESSAGE_BYTES_MAX));
        out.push(Act::Tell(SessionEvent::PermissionRequested(told)));
        let refusal = rights.refusal(permission.kind);
        if let Some(decision) = refusal.or_else(|| self.no_room(bytes)) {
            let id = permission.id;
            out.push(Act::Tell(SessionEvent::PermissionAnswered { id, decision: decision.clone() }));
            return Some((how, decision));
        }
        self.put(permission.id.clone(), bytes, how);
        out.push(Act::Ask(permission));
        None
    }

    /// The next name.
    pub(crate) fn name(&mut self) -> String {
        self.asked += 1;
        format!("permission-{}", self.asked)
    }

    /// The refusal of a request for which there is no room.
    pub(crate) fn no_room(&self, bytes: usize) -> Option<Decision> {
        let full = self.waiting.len() >= limits::OPEN_MAX || self.bytes.saturating_add(bytes) > limits::OPEN_BYTES_MAX;
        full.then(|| Decision::Deny { message: "too many requests at once".to_owned() })
    }

    /// Remembers one; there must be room.
    pub(crate) fn put(&mut self, id: String, bytes: usize, how: T) {
        self.bytes += bytes;
        self.waiting.push_back(Waiting { id, bytes, how });
    }

    /// Takes the one with this name; an answer counts once.
    pub(crate) fn take(&mut self, id: &str) -> Option<T> {
        let at = self.waiting.iter().position(|waiting| waiting.id == id)?;
        let found = self.waiting.remove(at)?;
        self.bytes -= found.bytes;
        Some(found.how)
    }

    /// Forgets those that the agent itself took back.
    pub(crate) fn withdraw(&mut self, mut is_it: impl FnMut(&T) -> bool) {
        self.waiting.retain(|waiting| !is_it(&waiting.how));
        self.bytes = self.waiting.iter().map(|waiting| waiting.bytes).sum();
    }

    /// Takes all, with their names.
    pub(crate) fn take_all(&mut self) -> Vec<(String, T)> {
        self.bytes = 0;
        self.waiting.drain(..).map(|waiting| (waiting.id, waiting.how)).collect()
    }

    /// How much is held: requests and bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.waiting.len(), self.bytes)
    }
}
