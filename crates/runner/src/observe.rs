//! What norma saw of a change, in the words of the gate that judges it.

use crate::Result;
use crate::git::{MODE_GITLINK, Objects, TreeChange};
use crate::workspace::{Captured, OddKind};
use run::gate::scope::{ChangedPath, IgnoredPath, Observed, Odd, OddPath};

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
        })
    };
    changes.iter().map(changed).collect()
}

/// Everything that was found in a workspace. Ignored files are judged one by one as far as they are listed, and all of
/// them by where they are.
pub fn observed(objects: &Objects, captured: &Captured) -> Result<Observed> {
    let listed = captured.ignored.iter().map(|file| IgnoredPath { path: file.path.clone(), size: file.size });
    let mut ignored: Vec<IgnoredPath> = listed.collect();
    if captured.ignored_more > 0 {
        ignored.extend(captured.ignored_at.iter().map(|path| IgnoredPath { path: path.clone(), size: 0 }));
        ignored.sort_by(|one, other| one.path.cmp(&other.path));
        ignored.dedup_by(|one, other| one.path == other.path);
    }
    let odd = captured.odd.iter().map(|odd| OddPath { path: odd.path.clone(), what: what(odd.kind) }).collect();
    Ok(Observed { changes: changes(objects, &captured.changes)?, ignored, odd })
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
