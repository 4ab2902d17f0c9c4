//! What there is of the conversations with agents: a directory for each kind of agent and each task, with what the agent's
//! program printed, what happened for people, and the agent's own name for the conversation. `codex/<task>/`,
//! `claude/<task>/` and so on.

use super::record::{Record, reference};
use super::transcript::Part;
use super::{Content, Piece};
use crate::Run;
use contract::documents::ArtifactRef;
use contract::{AgentType, Fact, GraphFact, ManifestFile, SessionEvent, StepCommitted, StepRef, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All turns that one kind of agent took for one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) kind: AgentType,
    /// The place of the item; none for a run without items, which is one task.
    pub(super) place: Option<u32>,
    /// The node of a graph, by its place.
    node: Option<u32>,
    turns: Vec<Turn>,
}

/// One turn of an agent with an interactive session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    /// Its evidence.
    dir: String,
    opened: Opened,
    usage: Option<Usage>,
}

/// What an agent said of itself when it opened the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Opened {
    session: Option<String>,
    model: Option<String>,
    agent: Option<String>,
}

/// What a log says of the turns of agents, taken fact by fact.
#[derive(Debug, Default)]
pub(super) struct Turns {
    over: Vec<Over>,
    /// What agents said in turns that are not over.
    opened: BTreeMap<u32, Opened>,
    /// Who takes the turns of a node may change.
    workers: BTreeMap<u32, Arc<str>>,
}

/// A turn that is over.
#[derive(Debug)]
struct Over {
    step: StepRef,
    /// Who took it, of a node.
    worker: Option<Arc<str>>,
    turn: Turn,
}

impl Turns {
    pub(super) fn take(&mut self, fact: &Fact) {
        match fact {
            Fact::AgentEvent { step, event } => note(&mut self.opened, step.index, event),
            Fact::StepCommitted(done) => self.close(done),
            Fact::Graph(GraphFact::NodeAdded(added)) => {
                self.workers.insert(added.node, added.terms.worker.as_str().into());
            }
            Fact::Graph(GraphFact::NodeChanged(changed)) => {
                self.workers.insert(changed.node, changed.new.worker.as_str().into());
            }
            _ => {}
        }
    }

    fn close(&mut self, done: &StepCommitted) {
        let opened = self.opened.remove(&done.step.index).unwrap_or_default();
        let worker = done.step.node.and_then(|node| self.workers.get(&node).cloned());
        let turn = Turn { dir: done.dir.clone(), opened, usage: done.usage };
        self.over.push(Over { step: done.step, worker, turn });
    }

    /// The conversations of a run, in the order of their first turns.
    pub(super) fn conversations(self, run: &Run, files: &BTreeMap<String, ManifestFile>) -> Vec<Conversation> {
        let mut all = Vec::new();
        for Over { step, worker, turn } in self.over {
            if files.contains_key(&events_of(&turn.dir)) {
                add(&mut all, kind_of(run, step, worker.as_deref()), step, turn);
            }
        }
        all
    }
}

fn note(opened: &mut BTreeMap<u32, Opened>, step: u32, event: &SessionEvent) {
    if let SessionEvent::Session { id, model, agent } = event {
        let opened = opened.entry(step).or_default();
        opened.session = Some(id.clone());
        opened.model = model.clone().or_else(|| opened.model.take());
        opened.agent = agent.clone().or_else(|| opened.agent.take());
    }
}

fn add(all: &mut Vec<Conversation>, kind: AgentType, StepRef { item: place, node, .. }: StepRef, turn: Turn) {
    match all.iter_mut().rev().find(|it| (it.kind, it.place, it.node) == (kind, place, node)) {
        Some(conversation) => conversation.turns.push(turn),
        None => all.push(Conversation { kind, place, node, turns: vec![turn] }),
    }
}

fn kind_of(run: &Run, step: StepRef, worker: Option<&str>) -> AgentType {
    let contract = &run.started.contract;
    if let Some(agent) = worker.and_then(|worker| contract.workers.get(worker)) {
        return agent.kind;
    }
    match step.item {
        None if step.node.is_some() => {
            let agent = contract.intent.as_ref().and_then(|terms| contract.workers.get(&terms.agent));
            agent.map_or(AgentType::Exec, |agent| agent.kind)
        }
        None => contract.agents[&step.role].kind,
        Some(place) => {
            let item = &run.items()[place as usize].item;
            run.worker_of(item).expect("BUG: a turn that was taken had an agent").kind
        }
    }
}

fn events_of(step_dir: &str) -> String {
    format!("{step_dir}/session/events.jsonl")
}

/// Both directions of what was exchanged with the agent, without secrets.
fn exchange_of(step_dir: &str) -> String {
    format!("{step_dir}/session/exchange.jsonl")
}

/// How a line of an exchange begins that the agent said; its own words and a brace follow.
const SAID: &[u8] = br#"{"dir":"out","line":"#;

/// What an agent said in a line of an exchange, as it was said; what is no JSON is a JSON text. None if somebody else said it.
pub fn said(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(SAID)?.strip_suffix(b"}")
}

impl Conversation {
    /// The agent's own name for the last of it.
    pub(super) fn session(&self) -> Option<&str> {
        self.turns.iter().rev().find_map(|turn| turn.opened.session.as_deref())
    }

    /// The models that the agent says it spoke with, one for each turn that says it.
    pub(super) fn models(&self) -> impl Iterator<Item = &str> {
        self.turns.iter().filter_map(|turn| turn.opened.model.as_deref())
    }

    /// The agent's name and version, as it says in each turn.
    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        self.turns.iter().filter_map(|turn| turn.opened.agent.as_deref())
    }

    fn dir(&self, record: &Record<'_>) -> String {
        let task = match (self.node, self.place) {
            (Some(node), _) => format!("node-{}", node + 1),
            (None, Some(place)) => record.run.items()[place as usize].item.id.clone(),
            (None, None) => record.task_id(),
        };
        format!("{}/{task}", self.kind.as_str())
    }

    fn pieces(&self, record: &Record<'_>) -> Vec<Piece> {
        let dir = self.dir(record);
        let part = |turn: &Turn| Part { heading: turn.dir.clone(), events: events_of(&turn.dir), usage: turn.usage };
        let ids: String =
            self.turns.iter().filter_map(|turn| turn.opened.session.as_deref()).map(|id| format!("{id}\n")).collect();
        let transcript = Content::Transcript(self.turns.iter().map(part).collect());
        let exchanges = self.turns.iter().map(|turn| exchange_of(&turn.dir));
        let exchanges = exchanges.filter(|path| record.files.contains_key(path)).collect();
        vec![
            Piece { path: format!("{dir}/events.jsonl"), content: Content::Stream(exchanges) },
            Piece { path: format!("{dir}/transcript.md"), content: transcript },
            Piece { path: format!("{dir}/thread_id.txt"), content: Content::Bytes(ids.into_bytes()) },
        ]
    }

    /// A file of it, once that is there.
    pub(super) fn file(&self, record: &Record<'_>, name: &str) -> Option<ArtifactRef> {
        let path = format!("{}/{name}", self.dir(record));
        record.files.get(&path).map(|file| reference(name, &path, file))
    }
}

/// The files of all conversations. They come before all other pieces, because reports refer to them.
pub fn conversations(record: &Record<'_>) -> Vec<Piece> {
    record.spoken.iter().flat_map(|conversation| conversation.pieces(record)).collect()
}

/// What all of them say, if all say the same.
pub(super) fn agreed<'a>(mut said: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = said.next()?;
    said.all(|other| other == first).then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_said_is_told_as_it_said_it() {
        let exchange = concat!(
            r#"{"dir":"in","line":{"id":1,"method":"initialize"}}"#,
            "\n",
            r#"{"dir":"out","line":{"id":1, "result":{"a":1}}}"#,
            "\n",
            r#"{"dir":"out","line":"not JSON"}"#,
            "\n",
            r#"{"dir":"out","line":{"method":"in","params":{"dir":"in"}}}"#,
            "\n",
        );
        let expected =
            "{\"id\":1, \"result\":{\"a\":1}}\n\"not JSON\"\n{\"method\":\"in\",\"params\":{\"dir\":\"in\"}}\n";
        let heard: Vec<&[u8]> = exchange.as_bytes().split(|byte| *byte == b'\n').filter_map(said).collect();
        assert_eq!(heard.iter().flat_map(|line| [*line, b"\n"]).collect::<Vec<_>>().concat(), expected.as_bytes());
        assert_eq!(said(b""), None);
    }
}
