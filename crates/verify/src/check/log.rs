//! The log: every line is hashed again and follows the one before, and the facts that the lines carry fit the state
//! machine that norma itself decides by, up to an end.

use super::RUN;
use crate::Found;
use contract::{CONTRACT_FILE, Contract, Digest, Event, EventLine, Fact, RunId};
use run::Run;

/// What the log says, as far as it could be read.
pub(crate) struct Log {
    pub(crate) run: Option<RunId>,
    pub(crate) events: Vec<Event>,
    /// The chain's digest at each line.
    pub(crate) heads: Vec<Digest>,
    /// The chain's digest at the last line.
    pub(crate) head: Digest,
}

impl Log {
    /// The contract as it is stored, with the items that follow the first fact. What was added later is in the log alone.
    pub(crate) fn contract(&self) -> Option<Vec<u8>> {
        let Fact::RunStarted(started) = &self.events.first()?.fact else { return None };
        let added = self.events.iter().filter_map(|event| match &event.fact {
            Fact::ItemAdded(added) if added.addition.is_none() => Some(added.item.clone()),
            _ => None,
        });
        let items = started.contract.items.iter().cloned().chain(added).collect();
        Some(Contract { items, ..started.contract.clone() }.canonical())
    }

    /// The file that holds it.
    pub(crate) fn contract_file(&self) -> &'static str {
        match self.events.first().map(|event| &event.fact) {
            Some(Fact::RunStarted(started)) => started.contract.file(),
            _ => CONTRACT_FILE,
        }
    }

    /// Whether items of the run were compiled from a document with this SHA-256.
    pub(crate) fn was_submitted(&self, sha256: &Digest) -> bool {
        self.events.iter().any(|event| matches!(&event.fact, Fact::ItemAdded(added) if added.item.submitted == *sha256))
    }

    /// The receipt that the repository's chain ended with when the run started.
    pub(crate) fn chain_before(&self) -> Option<Digest> {
        match &self.events.first()?.fact {
            Fact::RunStarted(started) => started.receipt,
            _ => None,
        }
    }

    /// The digest of the contract that a change was made under: of an item that was added later, the one it was added with.
    pub(crate) fn contract_digest_of(&self, change: u32) -> Digest {
        let added = self.events.iter().filter_map(|event| event.fact.added_item());
        let addition = added.filter(|added| added.index + 1 == change).find_map(|added| added.addition.as_ref());
        addition.map_or_else(|| self.contract_digest(), |addition| addition.contract)
    }

    /// The digest that the chain starts with.
    pub(crate) fn contract_digest(&self) -> Digest {
        match self.events.first().map(|event| &event.fact) {
            Some(Fact::RunStarted(started)) => started.contract_digest,
            _ => Digest::from_bytes([0; 32]),
        }
    }
}

/// Reads the lines and hashes them again.
pub(crate) fn read(found: &Found<'_>) -> (Log, Vec<String>) {
    let mut log = Log { run: None, events: Vec::new(), heads: Vec::new(), head: Digest::from_bytes([0; 32]) };
    let mut problems = Vec::new();
    let Some(bytes) = found.bundle.bytes("run/events.jsonl") else {
        return (log, vec![format!("{RUN}events.jsonl is missing")]);
    };
    if bytes.last() != Some(&b'\n') {
        problems.push(format!("{RUN}events.jsonl does not end with a whole line"));
    }
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n');
    for (seq, text) in (1..).zip(lines) {
        if let Err(why) = take_in(&mut log, seq, text, &found.index.run_id) {
            problems.push(format!("{RUN}events.jsonl, event {seq}: {why}"));
            // Whatever follows hangs on this line.
            break;
        }
    }
    (log, problems)
}

fn take_in(log: &mut Log, seq: u64, text: &[u8], slug: &str) -> Result<(), String> {
    let line =
        EventLine::parse(text).map_err(|violations| violations.first().map(ToString::to_string).unwrap_or_default())?;
    let run = *log.run.get_or_insert(line.run_uuid);
    if line.seq != seq || line.run_id != slug || line.run_uuid != run || run.slug() != slug {
        return Err("is out of its place".into());
    }
    let event = line.event().map_err(|why| format!("carries no fact: {why}"))?;
    let before = if seq == 1 { line.chain_start() } else { log.head };
    if line.prev != before {
        return Err("does not follow the line before".into());
    }
    log.head = contract::hash::chain(seq, &before, text);
    log.heads.push(log.head);
    log.events.push(event);
    Ok(())
}

/// The facts fit the state machine and lead to an end: only such a run is sealed.
pub(crate) fn machine(log: &Log) -> Vec<String> {
    let Some(id) = log.run else { return vec!["there are no events".into()] };
    if let Some(Fact::RunStarted(started)) = log.events.first().map(|event| &event.fact)
        && let Some(unknown) = started.contract.unknown_rules()
    {
        return vec![unknown];
    }
    match Run::fold(id, &log.events) {
        Err(illegal) => vec![illegal.to_string()],
        Ok(run) if !run.status.is_terminal() => vec![format!("the run has not ended: it is {}", run.status)],
        Ok(_) => Vec::new(),
    }
}
