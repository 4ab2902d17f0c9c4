//! The index of the agent's own repository, as bytes.
//!
//! norma writes it itself: it knows every size and stamps every file, so nothing has to be looked at, and the
//! index of a thin layer is the one below with a few entries exchanged. Version 3 of the format is used because
//! its entries can say that git is to leave a file alone, and do not depend on their neighbours: what is not near a change is copied by the kernel, unread. There
//! are no extensions and no checksum: git takes a checksum of zeroes for "none" (`index.skipHash`), and ten megabytes
//! of SHA-1 would cost more than all the rest.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::FallocateFlags;

use crate::git::index_file::{
    HAS_MORE, HEADER_BYTES, LENGTH_MASK, MODE_AT, STAT_BYTES, padded, plain_mode, read_entry,
};
use crate::git::{Entry, ObjectId};

/// The flag, of an entry that has more of them, that has git leave the file as it is.
const LEFT_ALONE: u16 = 0x4000;

/// How many entries have to be read to exchange one of them.
const BLOCK_ENTRIES: u32 = 512;

/// One file as git should believe it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Indexed {
    /// The path from the root.
    pub(super) path: Vec<u8>,
    /// What the tree says.
    pub(super) entry: Entry,
    /// The length of the file or of the link's target.
    pub(super) size: u64,
    /// When it was last changed.
    pub(super) time: Stamp,
    /// Whether agents see something else in its place: git would take that for a change, and look for what it was.
    pub(super) covered: bool,
}

/// A moment, as files have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

/// A path that is set or removed.
pub(super) type Change = (Vec<u8>, Option<Indexed>);

/// Where in an index one finds what, so that only the neighbourhood of a change has to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    /// How many entries there are.
    count: u32,
    /// Where they end.
    end: u64,
    /// Where each block begins, and the path it begins with; the first one's is empty, to count for all before it.
    blocks: Vec<(u64, Vec<u8>)>,
}

impl Marks {
    /// As bytes for a file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&self.count.to_be_bytes()[..], &self.end.to_be_bytes()].concat();
        for (begin, path) in &self.blocks {
            bytes.extend_from_slice(&begin.to_be_bytes());
            bytes.extend_from_slice(&(path.len() as u32).to_be_bytes());
            bytes.extend_from_slice(path);
        }
        bytes
    }

    /// Reads [`Marks::to_bytes`].
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Marks> {
        let count = u32::from_be_bytes(bytes.split_off(..4)?.try_into().ok()?);
        let end = u64::from_be_bytes(bytes.split_off(..8)?.try_into().ok()?);
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let begin = u64::from_be_bytes(bytes.split_off(..8)?.try_into().ok()?);
            let length = u32::from_be_bytes(bytes.split_off(..4)?.try_into().ok()?);
            blocks.push((begin, bytes.split_off(..length as usize)?.to_vec()));
        }
        Some(Marks { count, end, blocks })
    }
}

/// Entries on their way into a file.
struct Entries<'m> {
    bytes: Vec<u8>,
    /// Where in the file they will be.
    begin: u64,
    count: u32,
    blocks: &'m mut Vec<(u64, Vec<u8>)>,
}

impl Entries<'_> {
    /// Notes that an entry follows.
    fn pass(&mut self, path: &[u8]) {
        if self.count > 0 && self.count.is_multiple_of(BLOCK_ENTRIES) {
            self.blocks.push((self.begin + self.bytes.len() as u64, path.to_vec()));
        }
        self.count += 1;
    }

    fn add(&mut self, indexed: &Indexed) {
        self.pass(&indexed.path);
        append(&mut self.bytes, indexed);
    }
}

/// An index of these entries, which must be sorted by path bytes.
pub(super) fn encode(format: gix_hash::Kind, entries: &[Indexed]) -> (Vec<u8>, Marks) {
    let mut blocks = vec![(HEADER_BYTES as u64, Vec::new())];
    let mut written = Entries { bytes: vec![0; HEADER_BYTES], begin: 0, count: 0, blocks: &mut blocks };
    entries.iter().for_each(|entry| written.add(entry));
    let (mut bytes, count) = (written.bytes, written.count);
    bytes[..HEADER_BYTES].copy_from_slice(&header(count));
    let end = bytes.len() as u64;
    bytes.extend_from_slice(ObjectId::null(format).as_bytes());
    (bytes, Marks { count, end, blocks })
}

/// Writes the index `old` with some changes, which must be sorted by path bytes.
pub(super) fn splice(
    format: gix_hash::Kind,
    (old, marks): (&File, &Marks),
    changes: &[Change],
    new: &mut File,
) -> io::Result<Marks> {
    let mut made = Marks { count: marks.count, end: HEADER_BYTES as u64, blocks: Vec::new() };
    let mut due = changes;
    // Where what stays the same begins, and how much of it was not copied yet.
    let (mut run, mut run_bytes) = (0, 0);
    // All at once, about as much as it will be: found piece by piece, the room takes as long as the bytes. Not every file system can.
    let _ = rustix::fs::fallocate(&*new, FallocateFlags::KEEP_SIZE, 0, marks.end);
    new.write_all(&header(0))?;
    for (number, (begin, path)) in marks.blocks.iter().enumerate() {
        let next = marks.blocks.get(number + 1);
        let (here, later) = due.split_at(next.map_or(due.len(), |next| due.partition_point(|one| one.0 < next.1)));
        let length = next.map_or(marks.end, |next| next.0).checked_sub(*begin).ok_or_else(damaged)?;
        due = later;
        made.blocks.push((made.end, path.clone()));
        if here.is_empty() {
            run = if run_bytes == 0 { *begin } else { run };
            run_bytes += length;
            made.end += length;
            continue;
        }
        copy(old, run, std::mem::take(&mut run_bytes), new)?;
        let mut block = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        old.read_exact_at(&mut block, *begin)?;
        new.write_all(&splice_block(format, &block, here, &mut made).ok_or_else(damaged)?)?;
    }
    copy(old, run, run_bytes, new)?;
    new.write_all(ObjectId::null(format).as_bytes())?;
    new.write_all_at(&header(made.count), 0)?;
    Ok(made)
}

/// Has the kernel copy a part of a file to the end of another.
fn copy(mut old: &File, begin: u64, length: u64, new: &mut File) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    old.seek(SeekFrom::Start(begin))?;
    if io::copy(&mut old.take(length), new)? == length { Ok(()) } else { Err(damaged()) }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not an index that norma wrote")
}

/// The entries of one block with some changes.
fn splice_block(format: gix_hash::Kind, block: &[u8], changes: &[Change], made: &mut Marks) -> Option<Vec<u8>> {
    let mut written = Entries { bytes: Vec::new(), begin: made.end, count: 0, blocks: &mut made.blocks };
    let mut due = changes.iter().peekable();
    let (mut at, mut before) = (0, 0);
    while at < block.len() {
        let (path, end) = read_entry(block, at, format)?;
        while let Some((_, new)) = due.next_if(|(changed, _)| changed.as_slice() < path) {
            new.iter().for_each(|new| written.add(new));
        }
        match due.next_if(|(changed, _)| changed == path) {
            Some((_, new)) => new.iter().for_each(|new| written.add(new)),
            None => {
                written.pass(path);
                written.bytes.extend_from_slice(block.get(at..end)?);
            }
        }
        (at, before) = (end, before + 1);
    }
    due.filter_map(|(_, new)| new.as_ref()).for_each(|new| written.add(new));
    let (bytes, count) = (written.bytes, written.count);
    made.end += bytes.len() as u64;
    made.count = (made.count + count).checked_sub(before)?;
    Some(bytes)
}

/// The entries of an index as git writes it by default; none if it is of another form. Times and sizes are left out.
pub(super) fn decode(format: gix_hash::Kind, bytes: &[u8]) -> Option<Vec<Indexed>> {
    let (header, number) = (bytes.get(..HEADER_BYTES)?, |at: usize| bytes.get(at..at + 4)?.try_into().ok());
    let is_known = header.starts_with(b"DIRC") && matches!(number(4).map(u32::from_be_bytes)?, 2 | 3);
    let count = number(8).map(u32::from_be_bytes).filter(|_| is_known)?;
    let (mut entries, mut at) = (Vec::new(), HEADER_BYTES);
    for _ in 0..count {
        let (path, next) = read_entry(bytes, at, format)?;
        let id = bytes.get(at + STAT_BYTES..at + STAT_BYTES + format.len_in_bytes())?;
        let entry = Entry { mode: number(at + MODE_AT).map(u32::from_be_bytes)?, id: ObjectId::try_from(id).ok()? };
        let flags = bytes.get(at + STAT_BYTES + id.len()..)?;
        let covered = flags[0] & (HAS_MORE >> 8) as u8 != 0 && flags.get(2)? & (LEFT_ALONE >> 8) as u8 != 0;
        let time = Stamp { seconds: 0, nanos: 0 };
        entries.push(Indexed { path: path.to_vec(), entry, size: 0, time, covered });
        at = next;
    }
    Some(entries)
}

fn append(bytes: &mut Vec<u8>, indexed: &Indexed) {
    let begin = bytes.len();
    // git compares times as 32 bits as well; only equality counts.
    let (seconds, nanos) = (indexed.time.seconds as u32, indexed.time.nanos);
    // Device, inode and owner differ between here and where the agent looks: git is told not to compare them.
    let stat = [seconds, nanos, seconds, nanos, 0, 0, plain_mode(indexed.entry.mode), 0, 0, indexed.size as u32];
    bytes.extend(stat.iter().flat_map(|field| field.to_be_bytes()));
    bytes.extend_from_slice(indexed.entry.id.as_bytes());
    let length = u16::try_from(indexed.path.len()).unwrap_or(LENGTH_MASK).min(LENGTH_MASK);
    match indexed.covered {
        false => bytes.extend_from_slice(&length.to_be_bytes()),
        true => bytes.extend([length | HAS_MORE, LEFT_ALONE].iter().flat_map(|flags| flags.to_be_bytes())),
    }
    bytes.extend_from_slice(&indexed.path);
    bytes.resize(begin + padded(bytes.len() - begin), 0);
}

fn header(count: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = *b"DIRC\0\0\0\x03\0\0\0\0";
    bytes[8..].copy_from_slice(&count.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::MODE_FILE;
    use std::collections::BTreeMap;

    const FORMAT: gix_hash::Kind = gix_hash::Kind::Sha1;

    fn file(path: &str, size: u64) -> Indexed {
        let id = ObjectId::empty_blob(FORMAT);
        let (entry, time) = (Entry { mode: MODE_FILE, id }, Stamp { seconds: 7, nanos: 8 });
        // Every third one, so that entries of both lengths are next to each other.
        Indexed { path: path.into(), entry, size, time, covered: size.is_multiple_of(3) }
    }

    fn spliced(old: &[u8], marks: &Marks, changes: &[Change]) -> io::Result<(Vec<u8>, Marks)> {
        let (mut from, mut to) = (tempfile::tempfile()?, tempfile::tempfile()?);
        from.write_all(old)?;
        let made = splice(FORMAT, (&from, marks), changes, &mut to)?;
        let mut bytes = Vec::new();
        to.seek(SeekFrom::Start(0))?;
        to.read_to_end(&mut bytes)?;
        assert_eq!(Marks::from_bytes(&made.to_bytes()).as_ref(), Some(&made));
        Ok((bytes, made))
    }

    /// A splice gives the same bytes as writing the result from nothing, twice over.
    fn check(old: &[(&str, u64)], changes: &[(&str, Option<u64>)]) {
        let mut files: BTreeMap<Vec<u8>, Indexed> =
            old.iter().map(|(path, size)| (path.as_bytes().to_vec(), file(path, *size))).collect();
        let entries = |files: &BTreeMap<Vec<u8>, Indexed>| files.values().cloned().collect::<Vec<_>>();
        let (mut bytes, mut marks) = encode(FORMAT, &entries(&files));
        for round in 0..2 {
            let mut edits = Vec::new();
            for (path, size) in changes {
                let indexed = size.map(|size| file(path, size + round));
                files.remove(path.as_bytes());
                files.extend(indexed.clone().map(|one| (path.as_bytes().to_vec(), one)));
                edits.push((path.as_bytes().to_vec(), indexed));
            }
            (bytes, marks) = spliced(&bytes, &marks, &edits).unwrap();
            assert_eq!(bytes, encode(FORMAT, &entries(&files)).0);
        }
    }

    #[test]
    fn a_splice_is_what_writing_it_anew_would_be() {
        let long = "x".repeat(5000);
        let old = [("a", 1), ("b/c", 2), ("b/d", 3), ("e", 4)];
        check(&old, &[]);
        check(&old, &[("a", Some(9))]);
        check(&old, &[("a", None), ("aa", Some(1)), ("b/c", None), ("f", Some(2))]);
        check(&old, &[("0", Some(1)), ("e", None)]);
        check(&old, &[("b", Some(1)), ("b/c", None), ("b/d", None)]);
        check(&[(long.as_str(), 1), ("y", 2)], &[(long.as_str(), Some(3)), ("y", None)]);
        check(&[], &[("a", Some(1))]);
        check(&old, &[("never there", None)]);
    }

    #[test]
    fn a_large_index_is_spliced_block_by_block() {
        let names: Vec<String> = (0..3000).map(|number| format!("d{:02}/f{number:04}", number / 100)).collect();
        let old: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        check(&old, &[]);
        check(&old, &[(&names[0], None), (&names[512], Some(5)), (&names[2999], None), ("e", Some(1))]);
        let gone: Vec<(&str, Option<u64>)> = names[400..1600].iter().map(|name| (name.as_str(), None)).collect();
        check(&old, &gone);
        let added: Vec<String> = (0..2000).map(|number| format!("d05/g{number:04}")).collect();
        let added: Vec<(&str, Option<u64>)> = added.iter().map(|name| (name.as_str(), Some(2))).collect();
        check(&old, &added);
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let (bytes, marks) = encode(FORMAT, &[file("abc", 1)]);
        let change = [(b"abc".to_vec(), None)];
        assert!(spliced(b"", &marks, &change).is_err());
        assert!(spliced(&bytes[..40], &marks, &change).is_err());
        assert_eq!(Marks::from_bytes(b"short"), None);
        assert!(decode(FORMAT, b"").is_none() && decode(FORMAT, &bytes[..40]).is_none());
    }

    #[test]
    fn what_was_written_is_read_again() {
        let files = [file("a", 3), file("b/c", 4), file(&"x".repeat(5000), 6)];
        let read = decode(FORMAT, &encode(FORMAT, &files).0).unwrap();
        let parts = |it: &Indexed| (it.path.clone(), it.entry, it.covered);
        assert_eq!(read.iter().map(parts).collect::<Vec<_>>(), files.iter().map(parts).collect::<Vec<_>>());
    }
}
