//! What files looked like when they were last read, so that a walk over a whole checkout reads only what changed.
//!
//! An agent can set a file's modification time back, but not its change time: that is part of what is compared.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::git::ObjectId;

/// File times move in ticks: what changed this shortly before it was read could change again unseen.
const TICK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// Paths, what they looked like, and their blobs.
#[derive(Debug, Default)]
pub(super) struct StatCache {
    files: HashMap<Vec<u8>, (Look, ObjectId)>,
    /// When the walk under way began.
    scan: Duration,
}

impl StatCache {
    /// Begins a walk.
    pub(super) fn begin(&mut self) {
        self.scan = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    }

    /// The blob of a file that looks as it did.
    pub(super) fn get(&self, path: &[u8], stat: &Stat) -> Option<ObjectId> {
        self.files.get(path).filter(|(seen, _)| *seen == look(stat)).map(|(_, id)| *id)
    }

    /// Remembers a file, unless it changed too recently to tell.
    pub(super) fn put(&mut self, path: &[u8], stat: &Stat, id: ObjectId) {
        let seen = look(stat);
        let changed = Duration::new(u64::try_from(seen.changed.0).unwrap_or_default(), seen.changed.1 as u32);
        if changed + TICK < self.scan {
            self.files.insert(path.to_vec(), (seen, id));
        } else {
            self.files.remove(path);
        }
    }
}

fn look(stat: &Stat) -> Look {
    Look {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: stat.st_size as u64,
        mode: stat.st_mode,
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        changed: (stat.st_ctime, stat.st_ctime_nsec),
    }
}
