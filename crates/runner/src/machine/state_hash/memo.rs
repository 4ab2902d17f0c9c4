//! What is known of git objects: the digest of each tree and blob that was hashed before, by its git id.
//!
//! ```text
//! file    = "norma state memo 2\n", number of sorted entries (8), these in the order of their keys, later ones as they came
//! entry   = kind (1) | git id, padded with zeros (32) | digest (32) | checksum of these (8)
//! ```
//!
//! A change adds a few entries to tens of thousands. So what is sorted is searched in the file, of which only the blocks
//! on the way are read, and what is new is appended. Only when much was appended all is sorted again.
//!
//! A memo only ever saves work. One that is of another version, unsorted or damaged is dropped whole and made anew, and
//! of what was appended only the sound beginning counts; an entry counts only when its checksum fits. It is appended to
//! in one write, and sorted anew by renaming a complete file, so that any number of processes may use it at once: who
//! appends to a file that was replaced meanwhile loses what it found out, which is found out again some day.

use crate::git::ObjectId;
use crate::{Error, Result};
use contract::Digest;
use std::cmp;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// First in the file. The digests' definition is part of the version: change both together.
const HEADER: &[u8] = b"norma state memo 2\n";

/// Behind it is how many entries are sorted.
const SORTED_AT: usize = HEADER.len() + size_of::<u64>();

/// A kind and an id as long as git's longest.
const KEY_BYTES: usize = 1 + 32;
const DIGEST_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const ENTRY_BYTES: usize = KEY_BYTES + DIGEST_BYTES + CHECKSUM_BYTES;

/// Most entries kept: some versions of a repository with several hundred thousand files, in 64 MB. Beyond it the memo
/// starts over from what was just found out: most of the rest is of versions that nobody will hash again.
const ENTRIES_MAX: usize = 64_000_000 / ENTRY_BYTES;

/// Most entries that were appended. All of them are read whenever a memo is opened.
const APPENDED_MAX: usize = 512;

/// How many entries are read at once: a page of them.
const BLOCK_ENTRIES: usize = 4096 / ENTRY_BYTES;

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
    kept: Option<Kept>,
    /// What was found out since.
    found: Entries,
}

type Entries = BTreeMap<Key, Digest>;

/// What a file holds.
#[derive(Debug)]
struct Kept {
    file: File,
    /// How many entries are sorted.
    sorted: usize,
    /// Those of them that were read, block by block.
    blocks: BTreeMap<usize, Vec<u8>>,
    /// The others.
    appended: Entries,
    /// Whether these are all of them. What was written when the power was cut may have no end; nothing is appended to it.
    is_whole: bool,
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

fn to_bytes<'e>(entries: impl IntoIterator<Item = (&'e Key, &'e Digest)>) -> Vec<u8> {
    let entry = |(key, digest): (&Key, &Digest)| {
        let sum = checksum(key, digest.as_bytes());
        key.iter().chain(digest.as_bytes()).copied().chain(sum).collect::<Vec<u8>>()
    };
    entries.into_iter().flat_map(entry).collect()
}

/// The digest of an entry; `None` if it is damaged.
fn digest_of(entry: &[u8; ENTRY_BYTES]) -> Option<Digest> {
    let (key, rest) = entry.split_at(KEY_BYTES);
    let (digest, sum) = rest.split_first_chunk::<DIGEST_BYTES>()?;
    (checksum(key, digest) == *sum).then(|| Digest::from_bytes(*digest))
}

impl Kept {
    /// `None` if there is no file, or none that is sound as far as it is read here.
    fn open(path: &Path) -> Option<Kept> {
        let file = File::options().read(true).append(true).open(path).ok()?;
        let length = usize::try_from(file.metadata().ok()?.len()).ok()?.checked_sub(SORTED_AT)?;
        let mut head = [0; SORTED_AT];
        file.read_exact_at(&mut head, 0).ok()?;
        let sorted = u64::from_be_bytes(head.strip_prefix(HEADER)?.try_into().ok()?);
        let sorted = usize::try_from(sorted).ok()?;
        let appended = (length / ENTRY_BYTES).checked_sub(sorted)?;
        let mut kept = Kept { file, sorted, blocks: BTreeMap::new(), appended: Entries::new(), is_whole: false };
        let bytes = kept.read(sorted, appended)?;
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        let sound = entries.iter().map_while(|entry| Some((*entry.first_chunk()?, digest_of(entry)?)));
        kept.appended.extend(sound);
        kept.is_whole = length.is_multiple_of(ENTRY_BYTES) && kept.appended.len() == appended;
        Some(kept)
    }

    fn read(&self, first: usize, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count * ENTRY_BYTES];
        self.file.read_exact_at(&mut bytes, (SORTED_AT + first * ENTRY_BYTES) as u64).ok()?;
        Some(bytes)
    }

    /// One of the sorted entries.
    fn nth(&mut self, nth: usize) -> Option<&[u8; ENTRY_BYTES]> {
        let (block, at) = (nth / BLOCK_ENTRIES, nth % BLOCK_ENTRIES);
        if !self.blocks.contains_key(&block) {
            let first = block * BLOCK_ENTRIES;
            let read = self.read(first, BLOCK_ENTRIES.min(self.sorted - first))?;
            self.blocks.insert(block, read);
        }
        self.blocks.get(&block)?.as_chunks().0.get(at)
    }

    /// What is known of a key; nothing at all if the file is damaged.
    fn get(&mut self, key: &Key) -> Option<Option<Digest>> {
        if let Some(digest) = self.appended.get(key) {
            return Some(Some(*digest));
        }
        let mut within = 0..self.sorted;
        while !within.is_empty() {
            let middle = within.start + within.len() / 2;
            let entry = self.nth(middle)?;
            match entry[..KEY_BYTES].cmp(key) {
                cmp::Ordering::Less => within.start = middle + 1,
                cmp::Ordering::Greater => within.end = middle,
                cmp::Ordering::Equal => return digest_of(entry).map(Some),
            }
        }
        Some(None)
    }
}

impl Memo {
    /// One that knows nothing.
    pub fn empty() -> Memo {
        Memo { kept: None, found: Entries::new() }
    }

    /// What a file holds; nothing if it is not there, or not a memo of this version.
    pub fn open(path: &Path) -> Memo {
        Memo { kept: Kept::open(path), found: Entries::new() }
    }

    /// Looks in what was found out, then in the file. Damage met on the way drops the file's part whole: whoever
    /// damaged one entry may have damaged others.
    pub(super) fn get(&mut self, of: Of, id: &ObjectId) -> Option<Digest> {
        let key = key(of, id);
        if let Some(found) = self.found.get(&key) {
            return Some(*found);
        }
        let known = self.kept.as_mut()?.get(&key);
        if known.is_none() {
            self.kept = None;
        }
        known.flatten()
    }

    pub(super) fn put(&mut self, of: Of, id: &ObjectId, digest: Digest) {
        self.found.insert(key(of, id), digest);
    }

    /// Whether the file would gain by being saved.
    pub fn has_news(&self) -> bool {
        !self.found.is_empty()
    }

    /// Appends what was found out to the file, or replaces it by one that holds everything known. Not synced: after a
    /// power cut it is the old one, the new one, or dropped as damaged.
    pub fn save(&self, path: &Path) -> Result<()> {
        let saved = match &self.kept {
            Some(kept) if kept.is_whole && kept.appended.len() + self.found.len() <= APPENDED_MAX => {
                (&kept.file).write_all(&to_bytes(&self.found))
            }
            _ => replace(path, &self.merged()),
        };
        saved.map_err(|e| Error::io("write", path, e))
    }

    /// The file's entries and the new ones in one order, header first.
    fn merged(&self) -> Vec<u8> {
        let mut new = self.found.clone();
        let mut sorted = Vec::new();
        if let Some(kept) = &self.kept {
            new.extend(&kept.appended);
            sorted = kept.read(0, kept.sorted).unwrap_or_default();
        }
        let (kept, _) = sorted.as_chunks::<ENTRY_BYTES>();
        let is_sound = kept.is_sorted_by(|left, right| left[..KEY_BYTES] < right[..KEY_BYTES]);
        let kept = if is_sound && kept.len() + new.len() <= ENTRIES_MAX { kept } else { &[] };
        let mut bytes = Vec::with_capacity(SORTED_AT + (kept.len() + new.len()) * ENTRY_BYTES);
        bytes.extend_from_slice(HEADER);
        bytes.extend_from_slice(&[0; size_of::<u64>()]);
        let mut kept = kept.iter().peekable();
        for (key, digest) in new.iter().take(ENTRIES_MAX) {
            while let Some(before) = kept.next_if(|entry| entry[..KEY_BYTES] < key[..]) {
                bytes.extend_from_slice(before);
            }
            // Found out though it was in the file: the file's was dropped as damaged, or came later.
            kept.next_if(|entry| entry[..KEY_BYTES] == key[..]);
            bytes.extend(to_bytes([(key, digest)]));
        }
        kept.for_each(|entry| bytes.extend_from_slice(entry));
        let count = (bytes.len() - SORTED_AT) / ENTRY_BYTES;
        bytes[HEADER.len()..SORTED_AT].copy_from_slice(&(count as u64).to_be_bytes());
        bytes
    }
}

/// Puts a complete file in the place of what is there.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = sibling(path);
    write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// A name beside the file that no other process and no other thread uses.
fn sibling(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("tmp-{}-{number}", std::process::id()))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    File::options().write(true).create_new(true).open(path)?.write_all(bytes)
}
