//! What is known of git objects: the digest of each tree and blob that was hashed before, by its git id.
//!
//! ```text
//! file    = "norma state memo 1\n", entries in the order of their keys
//! entry   = kind (1) | git id, padded with zeros (32) | digest (32) | checksum of these (8)
//! ```
//!
//! A memo only ever saves work. One that is of another version, cut short, unsorted or damaged is dropped whole and
//! made anew; an entry counts only when its checksum fits. It is replaced by renaming a complete file, never written
//! in place, so that any number of processes may use it at once: the last one to save wins, and what the others found
//! out is found out again some day.

use crate::git::ObjectId;
use crate::{Error, Result};
use contract::Digest;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// First in the file. The digests' definition is part of the version: change both together.
const HEADER: &[u8] = b"norma state memo 1\n";

/// A kind and an id as long as git's longest.
const KEY_BYTES: usize = 1 + 32;
const DIGEST_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const ENTRY_BYTES: usize = KEY_BYTES + DIGEST_BYTES + CHECKSUM_BYTES;

/// Most entries kept: some versions of a repository with several hundred thousand files, in 64 MB. Beyond it the memo
/// starts over from what was just found out: most of the rest is of versions that nobody will hash again.
const ENTRIES_MAX: usize = 64_000_000 / ENTRY_BYTES;

const CHECKSUM_CONTEXT: &str = "norma state memo entry v1";

/// What a digest is of. Their ids could not collide, but what is hashed of them differs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// The entries of a tree.
    Tree,
    /// The bytes of a blob.
    Blob,
    /// A tree as the root of a state, without the names that are no part of one.
    State,
}

type Key = [u8; KEY_BYTES];

/// Hashes of files that have not changed since they were last read.
#[derive(Debug)]
pub struct Memo {
    /// Entries of the file, without its header.
    kept: Vec<u8>,
    /// What was found out since.
    found: BTreeMap<Key, Digest>,
}

fn key(of: Of, id: &ObjectId) -> Key {
    let mut key = [0; KEY_BYTES];
    key[0] = match of {
        Of::Tree => b't',
        Of::Blob => b'b',
        Of::State => b's',
    };
    let id = id.as_bytes();
    key[1..=id.len()].copy_from_slice(id);
    key
}

fn checksum(key: &[u8], digest: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key(CHECKSUM_CONTEXT);
    let mut sum = [0; CHECKSUM_BYTES];
    hasher.update(key).update(digest).finalize_xof().fill(&mut sum);
    sum
}

impl Memo {
    /// One that knows nothing.
    pub fn empty() -> Memo {
        Memo { kept: Vec::new(), found: BTreeMap::new() }
    }

    /// What a file holds; nothing if it is not there, or not a memo of this version.
    pub fn open(path: &Path) -> Memo {
        let mut memo = Memo::empty();
        let Ok(bytes) = std::fs::read(path) else { return memo };
        match bytes.strip_prefix(HEADER) {
            Some(entries) if entries.len() % ENTRY_BYTES == 0 => memo.kept = entries.to_vec(),
            _ => {}
        }
        memo
    }

    /// Looks in what was found out, then in the file. Damage met on the way drops the file's part whole: whoever
    /// damaged one entry may have damaged others.
    pub(super) fn get(&mut self, of: Of, id: &ObjectId) -> Option<Digest> {
        let key = key(of, id);
        if let Some(found) = self.found.get(&key) {
            return Some(*found);
        }
        let (entries, _) = self.kept.as_chunks::<ENTRY_BYTES>();
        let entry = &entries[entries.binary_search_by(|entry| entry[..KEY_BYTES].cmp(&key)).ok()?];
        let (body, sum) = entry.split_at(KEY_BYTES + DIGEST_BYTES);
        let digest: [u8; DIGEST_BYTES] = body[KEY_BYTES..].try_into().ok()?;
        if checksum(&key, &digest) != *sum {
            self.kept.clear();
            return None;
        }
        Some(Digest::from_bytes(digest))
    }

    pub(super) fn put(&mut self, of: Of, id: &ObjectId, digest: Digest) {
        self.found.insert(key(of, id), digest);
    }

    /// Whether the file would gain by being saved.
    pub fn has_news(&self) -> bool {
        !self.found.is_empty()
    }

    /// Replaces the file by one that holds everything known. Not synced: after a power cut it is the old one, the new
    /// one, or dropped as damaged.
    pub fn save(&self, path: &Path) -> Result<()> {
        let temporary = sibling(path);
        let written = write(&temporary, &self.merged());
        written.and_then(|()| std::fs::rename(&temporary, path)).map_err(|e| {
            let _ = std::fs::remove_file(&temporary);
            Error::io("write", path, e)
        })
    }

    /// The file's entries and the new ones in one order, header first.
    fn merged(&self) -> Vec<u8> {
        let (kept, _) = self.kept.as_chunks::<ENTRY_BYTES>();
        let is_sound = kept.is_sorted_by(|left, right| left[..KEY_BYTES] < right[..KEY_BYTES]);
        let kept = if is_sound && kept.len() + self.found.len() <= ENTRIES_MAX { kept } else { &[] };
        let mut bytes = Vec::with_capacity(HEADER.len() + (kept.len() + self.found.len()) * ENTRY_BYTES);
        bytes.extend_from_slice(HEADER);
        let mut kept = kept.iter().peekable();
        for (key, digest) in self.found.iter().take(ENTRIES_MAX) {
            while let Some(before) = kept.next_if(|entry| entry[..KEY_BYTES] < key[..]) {
                bytes.extend_from_slice(before);
            }
            // Found out though it was in the file: the file's was dropped as damaged, or came later.
            kept.next_if(|entry| entry[..KEY_BYTES] == key[..]);
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(digest.as_bytes());
            bytes.extend_from_slice(&checksum(key, digest.as_bytes()));
        }
        kept.for_each(|entry| bytes.extend_from_slice(entry));
        bytes
    }
}

/// A name beside the file that no other process and no other thread uses.
fn sibling(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("tmp-{}-{number}", std::process::id()))
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::File::options().write(true).create_new(true).open(path)?.write_all(bytes)
}
