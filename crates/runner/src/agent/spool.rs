//! What is kept of a conversation while it lasts: both directions of the exchange, the events that were made of it, and
//! what went over the gateway. It is written where no agent sees it, within bounds, and becomes evidence of the step.

use crate::{Error, Result};
use contract::SessionEvent;
use contract::session::SessionError;
use gateway::{Exchange, Record};
use run::redact::{Counts, Redacted, Redactor, add};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The two sides of an exchange.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// What norma said.
    Norma,
    /// What the agent said.
    Agent,
}

/// The files of one conversation.
pub(super) struct Spool {
    /// Where they are; every file below becomes evidence under the same name.
    pub(super) dir: PathBuf,
    exchange: BufWriter<File>,
    events: BufWriter<File>,
    bytes_left: u64,
    cut: u64,
    redactor: Arc<Redactor>,
    counts: Counts,
}

impl Spool {
    pub(super) fn new(dir: PathBuf, bytes_max: u64, redactor: Arc<Redactor>) -> Result<Spool> {
        store::remove_tree(&dir)?;
        let below = dir.join("session");
        std::fs::create_dir_all(&below).map_err(|source| Error::io("create", &below, source))?;
        let create = |name: &str| -> Result<BufWriter<File>> {
            let path = below.join(name);
            File::create(&path).map(BufWriter::new).map_err(|source| Error::io("create", &path, source))
        };
        let (exchange, events) = (create("exchange.jsonl")?, create("events.jsonl")?);
        Ok(Spool { dir, exchange, events, bytes_left: bytes_max, cut: 0, redactor, counts: Counts::new() })
    }

    /// Keeps a line of the exchange without its secrets, as JSON where it is JSON.
    pub(super) fn line(&mut self, side: Side, line: &[u8]) -> io::Result<()> {
        let redactor = Arc::clone(&self.redactor);
        let Redacted { bytes, counts } = redactor.redact(line);
        add(&mut self.counts, &counts);
        let line = &*bytes;
        let side = match side {
            Side::Norma => "in",
            Side::Agent => "out",
        };
        if line.len() as u64 + 32 > self.bytes_left {
            self.cut += 1;
            return Ok(());
        }
        self.bytes_left -= line.len() as u64 + 32;
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        write!(self.exchange, "{{\"dir\":\"{side}\",\"line\":")?;
        match is_json {
            true => self.exchange.write_all(line)?,
            false => serde_json::to_writer(&mut self.exchange, &String::from_utf8_lossy(line))?,
        }
        self.exchange.write_all(b"}\n")
    }

    /// The event without its secrets.
    pub(super) fn cleared(&self, event: SessionEvent) -> SessionEvent {
        let Ok(text) = serde_json::to_string(&event) else { return event };
        match self.redactor.redact_str(&text) {
            (Cow::Borrowed(_), _) => event,
            // What cannot be read without its secret is not told.
            (Cow::Owned(text), _) => serde_json::from_str(&text).unwrap_or(SessionEvent::Other { raw: Value::Null }),
        }
    }

    /// An error without its secrets.
    pub(super) fn without_secrets(&self, error: SessionError) -> SessionError {
        let message = self.redactor.redact_str(&error.message).0.into_owned();
        SessionError { message, ..error }
    }

    /// What was taken out so far, by kind.
    pub(super) fn redacted(&self) -> BTreeMap<String, u64> {
        self.counts.iter().map(|(kind, count)| (kind.word().to_owned(), *count)).collect()
    }

    /// Keeps an event. Pieces of a message are in the exchange, and whole in the event that follows them.
    pub(super) fn event(&mut self, event: &SessionEvent) -> io::Result<()> {
        if matches!(event, SessionEvent::MessageDelta { .. } | SessionEvent::Other { .. }) {
            return Ok(());
        }
        let line = serde_json::to_vec(event)?;
        if line.len() as u64 > self.bytes_left {
            self.cut += 1;
            return Ok(());
        }
        self.bytes_left -= line.len() as u64;
        self.events.write_all(&line)?;
        self.events.write_all(b"\n")
    }

    /// Keeps a document.
    pub(super) fn document(&self, name: &str, value: &Value) -> Result<()> {
        let path = self.dir.join("session").join(name);
        std::fs::write(&path, contract::json::pretty(value)).map_err(|source| Error::io("write", &path, source))
    }

    /// Has everything in its file; what was left out is said.
    pub(super) fn finish(&mut self) -> Result<Option<String>> {
        let flushed = self.exchange.flush().and_then(|()| self.events.flush());
        flushed.map_err(|source| Error::io("write", &self.dir, source))?;
        let cut = self.cut;
        Ok((cut > 0)
            .then(|| format!("{cut} lines of the conversation are more than limits.evidence_mb allows to keep")))
    }
}

/// Where the gateway's exchanges go, one file each.
pub(super) struct Exchanges {
    dir: PathBuf,
    redactor: Arc<Redactor>,
}

impl Exchanges {
    pub(super) fn new(spool: &Path, redactor: Arc<Redactor>) -> Exchanges {
        Exchanges { dir: spool.join("gateway"), redactor }
    }
}

impl Record for Exchanges {
    fn exchange(&self, exchange: &Exchange) -> io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let text = exchange.to_json();
        let kept = self.redactor.redact(&text).bytes;
        std::fs::write(self.dir.join(format!("{:04}.json", exchange.seq)), kept)
    }
}

/// The files of a spool, sorted, by the name that each has as evidence.
pub(crate) fn files(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for below in ["gateway", "session"] {
        let entries = match std::fs::read_dir(dir.join(below)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(Error::io("list", dir, source)),
        };
        for entry in entries {
            let path = entry.map_err(|source| Error::io("list", dir, source))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((format!("{below}/{name}"), path));
        }
    }
    files.sort();
    Ok(files)
}

/// What was configured, for the record; kept here so that its name is known in one place.
pub(super) fn configured(spool: &Spool, configured: &Value, door: bool) -> Result<()> {
    let mut said = json!({ "gateway": door });
    if let (Value::Object(said), Value::Object(more)) = (&mut said, configured) {
        said.extend(more.clone());
    }
    spool.document("configured.json", &said)
}
