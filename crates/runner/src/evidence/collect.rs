//! Copies what an agent left in its step directory into its evidence: within caps, text without its secrets. Whatever is
//! not copied is noted.

use crate::evidence::left_files::{Visitor, visit};
use crate::evidence::redaction::Cleared;
use crate::{Error, Result};
use contract::TurnLimits;
use run::redact::{Counts, Redactor, add};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use store::Preparing;

/// How many single notes are kept before they are only counted.
const NOTES_MAX: usize = 50;

/// Names at the top that norma writes itself.
pub(crate) const RESERVED: [&str; 10] = [
    "gateway",
    "input.json",
    "logs",
    "manifest.json",
    "output.json",
    "prompt.blocks.json",
    "prompt.full.txt",
    "sandbox.json",
    "session",
    "workspace.json",
];

struct Collector<'a> {
    into: &'a mut Preparing,
    redactor: &'a Arc<Redactor>,
    /// A name at the top that is kept in another way.
    apart: Option<&'a str>,
    removed: Counts,
    bytes_left: u64,
    files_left: u32,
    notes: Vec<String>,
    unlisted: u64,
}

/// Copies the files of a directory, but for the one that is kept apart; answers what was noticed, and which secrets were
/// taken out.
pub(crate) fn collect(
    dir: Option<OwnedFd>,
    limits: &TurnLimits,
    redactor: &Arc<Redactor>,
    apart: Option<&str>,
    into: &mut Preparing,
) -> Result<(Vec<String>, Counts)> {
    let mut collector = Collector {
        into,
        redactor,
        apart,
        removed: Counts::new(),
        bytes_left: u64::from(limits.evidence_mb) << 20,
        files_left: limits.evidence_files,
        notes: Vec::new(),
        unlisted: 0,
    };
    match dir {
        Some(dir) => visit(dir, &mut collector)?,
        None => collector.left_out("the agent removed its step directory".into()),
    }
    if collector.unlisted > 0 {
        collector.notes.push(format!("and {} more like these", collector.unlisted));
    }
    Ok((collector.notes, collector.removed))
}

impl Visitor for Collector<'_> {
    fn wants(&mut self, name: &str) -> bool {
        let reserved = RESERVED.contains(&name);
        if reserved && name != "input.json" {
            self.left_out(format!("{name} is norma's to write; the agent's was left out"));
        }
        !reserved && self.apart != Some(name)
    }

    fn file(&mut self, file: File, path: &str) -> Result<()> {
        let size = file.metadata().map_or(u64::MAX, |meta| meta.len());
        if self.files_left == 0 || size > self.bytes_left {
            self.left_out(format!("{path} was left out: limits.evidence_files or limits.evidence_mb is reached"));
            return Ok(());
        }
        self.files_left -= 1;
        let unreadable = |source| Error::io("read", Path::new(path), source);
        let mut cleared = Cleared::new(file.take(self.bytes_left), self.redactor).map_err(unreadable)?;
        // A mark may be longer than what it stands for.
        let copied = self.into.copy(path, &mut cleared, u64::MAX)?;
        add(&mut self.removed, cleared.removed());
        self.bytes_left = self.bytes_left.saturating_sub(copied);
        Ok(())
    }

    fn left_out(&mut self, why: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(why);
        } else {
            self.unlisted += 1;
        }
    }
}
