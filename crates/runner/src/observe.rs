//! What norma saw of a change, in the words of the gate that judges it.

use crate::Result;
use crate::git::{Entry, MODE_GITLINK, Objects, TreeChange};
use crate::workspace::{Captured, OddKind};
use run::gate::scope::{ChangedPath, IgnoredPath, Observed, Odd, OddPath};
use run::gate::secret::{self, AddedSecret};
use run::redact::{Known, Redactor};
use serde::{Deserialize, Serialize};

/// How trees differ.
pub(crate) fn changes(objects: &Objects, changes: &[TreeChange]) -> Result<Vec<ChangedPath>> {
    let changed = |change: &TreeChange| {
        let binary = match &change.new {
            Some(entry) if entry.mode != MODE_GITLINK => objects.looks_binary(entry.id)?,
            _ => false,
        };
        Ok(ChangedPath {
            path: change.path.clone(),
            old_mode: change.old.map(|entry| entry.mode),
            new_mode: change.new.map(|entry| entry.mode),
            binary,
            secrets: if binary { Vec::new() } else { secrets(objects, change)? },
        })
    };
    changes.iter().map(changed).collect()
}

/// What looks like a secret in the lines that a change adds.
fn secrets(objects: &Objects, change: &TreeChange) -> Result<Vec<AddedSecret>> {
    let same = change.old.map(|entry| entry.id) == change.new.map(|entry| entry.id);
    let Some(new) = change.new.filter(|entry| is_file(entry) && !same) else { return Ok(Vec::new()) };
    if objects.size(new.id)? > secret::BYTES_MAX {
        return Ok(Vec::new());
    }
    let old = || match change.old.filter(is_file) {
        Some(old) => objects.read_blob(old.id),
        None => Ok(Vec::new()),
    };
    Ok(secret::added(&objects.read_blob(new.id)?, old)?)
}

fn is_file(entry: &Entry) -> bool {
    entry.mode & 0o170_000 == 0o100_000
}

/// A patch as it may be kept: without the secrets, if its change adds any. A patch shows a few lines of a block only, so
/// what is secret in the files is looked for besides what is secret by its form.
pub(crate) fn patch_to_keep(
    objects: &Objects,
    changes: &[TreeChange],
    seen: &[ChangedPath],
    patch: Vec<u8>,
) -> Result<Vec<u8>> {
    let with_secrets = changes.iter().zip(seen).filter(|(_, seen)| !seen.secrets.is_empty());
    let sides: Vec<Entry> = with_secrets.flat_map(|(change, _)| [change.old, change.new]).flatten().collect();
    if sides.is_empty() {
        return Ok(patch);
    }
    let mut known = Known::new();
    for side in sides.iter().filter(|entry| is_file(entry)) {
        known.add_found(&Redactor::patterns(), &objects.read_blob(side.id)?);
    }
    // First by its form, since that says what it was.
    let patch = Redactor::patterns().redact(&patch).bytes;
    Ok(Redactor::new(&known).redact(&patch).bytes.into_owned())
}

/// Everything that was found in a workspace. Ignored files are judged one by one as far as they are listed, and all of
/// them by where they are.
pub fn observed(objects: &Objects, captured: &Captured) -> Result<Observed> {
    let odd = captured.odd.iter().map(|odd| OddPath { path: odd.path.clone(), what: what(odd.kind) }).collect();
    Ok(Observed { changes: changes(objects, &captured.changes)?, ignored: ignored(captured), odd })
}

fn ignored(captured: &Captured) -> Vec<IgnoredPath> {
    let listed = captured.ignored.iter().map(|file| IgnoredPath { path: file.path.clone(), size: file.size });
    let mut ignored: Vec<IgnoredPath> = listed.collect();
    if captured.ignored_more > 0 {
        ignored.extend(captured.ignored_at.iter().map(|path| IgnoredPath { path: path.clone(), size: 0 }));
        ignored.sort_by(|one, other| one.path.cmp(&other.path));
        ignored.dedup_by(|one, other| one.path == other.path);
    }
    ignored
}

fn what(kind: OddKind) -> Odd {
    match kind {
        OddKind::NestedRepository => Odd::NestedRepository,
        OddKind::Fifo => Odd::Fifo,
        OddKind::Socket => Odd::Socket,
        OddKind::Device => Odd::Device,
        OddKind::TooLarge => Odd::TooLarge,
        OddKind::TooDeep => Odd::TooDeep,
    }
}

/// What a worker left in its workspace besides the change, as it is kept of its turn.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LyingAbout {
    /// Files that the base's own rules ignore, with their sizes.
    ignored: Vec<(String, u64)>,
    /// What no tree can hold.
    odd: Vec<(String, Odd)>,
}

/// What lies about, if anything does.
pub(crate) fn lying_about(captured: &Captured) -> Option<LyingAbout> {
    let ignored = ignored(captured).into_iter().map(|file| (spelled(&file.path), file.size)).collect();
    let odd = captured.odd.iter().map(|odd| (spelled(&odd.path), what(odd.kind))).collect();
    let found = LyingAbout { ignored, odd };
    (!found.ignored.is_empty() || !found.odd.is_empty()).then_some(found)
}

impl LyingAbout {
    /// The same in the words of the gate, beside what changed.
    pub(crate) fn observed(&self, changes: Vec<ChangedPath>) -> Option<Observed> {
        let ignored = self.ignored.iter().map(|(path, size)| Some(IgnoredPath { path: read(path)?, size: *size }));
        let odd = self.odd.iter().map(|(path, what)| Some(OddPath { path: read(path)?, what: *what }));
        Some(Observed { changes, ignored: ignored.collect::<Option<_>>()?, odd: odd.collect::<Option<_>>()? })
    }
}

/// Exact bytes as text: themselves, or their hexadecimal digits.
fn spelled(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.starts_with("hex:") => text.to_owned(),
        _ => format!("hex:{}", path.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

fn read(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("hex:") else { return Some(text.as_bytes().to_vec()) };
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}
