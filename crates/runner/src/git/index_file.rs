//! An index as a file: its entries and whether files are still what they say, a part of it alone, and a part of it
//! exchanged.
//!
//! git reads and writes an index whole, looks at trees and files while it does, and takes longer the more files there
//! are. What a landing changes is a few entries, which norma exchanges among the bytes of all others. It does so only
//! where it knows every part of the file: the versions and extensions that git writes by default. Everything else
//! (split and sparse indexes, caches of untracked files) is left to git.
//!
//! An index says of a file when it was last written to. What was written again in the same second, with the same
//! size, cannot be told from that; git therefore reads files whose time is not before that of the index itself. A new
//! index is younger, so entries for which that matters lose their size ([`IndexFile::exchange`]), which has git read
//! the file as well.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat};
use sha1::Digest as _;

use super::objects::Reader;
use super::tree::{Entry, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_SYMLINK, join};
use super::{GitError, IoContext, ObjectId};

/// Signature, version and number of entries.
pub(crate) const HEADER_BYTES: usize = 12;

/// Times, device, inode, mode, owner and size, which come before the id.
pub(crate) const STAT_BYTES: usize = 40;

/// Where an entry has the second of the last change, that of the last modification, the inode and the mode of its file,
/// its owner, and its size.
const CHANGED_AT: usize = 0;
const MODIFIED_AT: usize = 8;
const INODE_AT: usize = 20;
pub(crate) const MODE_AT: usize = 24;
const OWNER_AT: usize = 28;
const SIZE_AT: usize = 36;

/// Where in an entry its flags say how long the path is, and what that part of the flags can hold.
pub(crate) const LENGTH_MASK: u16 = 0x0fff;

/// The flag of an entry that has more flags.
pub(crate) const HAS_MORE: u16 = 0x4000;

/// Which of several sides of a conflict an entry is; 0 is no conflict.
const STAGE_MASK: u16 = 0x3000;

/// The tag and the length of an extension.
const EXTENSION_BYTES: usize = 8;

/// How many entries git may have to read again because they are as young as their index. Of more, git makes sure itself.
const YOUNG_MAX: usize = 64;

/// The path of the entry at a place, and where the next one begins.
pub(crate) fn read_entry(bytes: &[u8], at: usize, format: gix_hash::Kind) -> Option<(&[u8], usize)> {
    let flags_at = at + STAT_BYTES + format.len_in_bytes();
    let flags = u16::from_be_bytes(bytes.get(flags_at..flags_at + 2)?.try_into().ok()?);
    let path_at = flags_at + if flags & HAS_MORE == 0 { 2 } else { 4 };
    let length = match flags & LENGTH_MASK {
        // The field is too small; the path says itself where it ends.
        LENGTH_MASK => bytes.get(path_at..)?.iter().position(|byte| *byte == 0)?,
        length => length.into(),
    };
    let path = bytes.get(path_at..path_at + length)?;
    Some((path, at + padded(path_at + length - at)))
}

/// An entry ends with one to eight NUL bytes, at a multiple of eight.
pub(crate) fn padded(length: usize) -> usize {
    (length + 8) & !7
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// What tells that a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(found: &fs::Metadata) -> Identity {
        let changed = (found.ctime(), found.ctime_nsec());
        Identity { device: found.dev(), inode: found.ino(), bytes: found.size(), changed }
    }
}

/// An index that was read, of a form that norma can write.
#[derive(Debug)]
pub(super) struct IndexFile {
    bytes: Vec<u8>,
    format: gix_hash::Kind,
    version: u32,
    /// Of every entry its place, by the order of the file.
    entries: Vec<Range<usize>>,
    /// What of the extensions stays when entries are exchanged, with their tags.
    extensions: Vec<Extension>,
    /// The second of its last modification.
    modified: u32,
    pub(super) modified_at: SystemTime,
    pub(super) mode: u32,
    identity: Identity,
}

#[derive(Debug)]
enum Extension {
    /// Which directories are which trees.
    Trees(Directory),
    /// Conflicts that were resolved; says nothing of other entries.
    Resolved(Vec<u8>),
}

/// A directory as the index has it: which tree it is, if that is known.
#[derive(Debug, PartialEq, Eq)]
struct Directory {
    name: Vec<u8>,
    /// How many entries are in it and below, and the tree.
    tree: Option<(Vec<u8>, Vec<u8>)>,
    below: Vec<Directory>,
}

/// An entry, as it is in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexEntry<'i> {
    pub(super) bytes: &'i [u8],
    format: gix_hash::Kind,
    path: &'i [u8],
}

impl<'i> IndexEntry<'i> {
    pub(super) fn path(self) -> &'i [u8] {
        self.path
    }

    /// What of the path of a usual entry comes behind so many bytes, ended as system calls want it.
    pub(super) fn name_from(self, at: usize) -> Option<&'i CStr> {
        let path_at = STAT_BYTES + self.format.len_in_bytes() + size_of::<u16>();
        CStr::from_bytes_with_nul(self.bytes.get(path_at + at..=path_at + self.path.len())?).ok()
    }

    /// Whether it is a file or link, in no conflict, of which nothing special is said.
    pub(super) fn is_usual(self) -> bool {
        let is_file = matches!(number(self.bytes, MODE_AT), Some(MODE_FILE | MODE_EXECUTABLE | MODE_SYMLINK));
        is_file && self.flags() & (HAS_MORE | STAGE_MASK) == 0
    }

    fn flags(self) -> u16 {
        let at = STAT_BYTES + self.format.len_in_bytes();
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn id(self) -> &'i [u8] {
        &self.bytes[STAT_BYTES..STAT_BYTES + self.format.len_in_bytes()]
    }
}

/// Entries by their paths, as they are in a file.
pub(super) type Exchange<'a> = BTreeMap<&'a [u8], Option<&'a [u8]>>;

impl IndexFile {
    /// Reads an index; `None` if it is not there, or of a form that is git's alone to write.
    pub(super) fn read(path: &Path, format: gix_hash::Kind) -> Result<Option<IndexFile>, GitError> {
        // A link would be replaced by what it names.
        if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
            return Ok(None);
        }
        let mut file = fs::File::open(path).context("open", path)?;
        let found = file.metadata().context("look at", path)?;
        let mut bytes = Vec::with_capacity(found.len() as usize);
        file.read_to_end(&mut bytes).context("read", path)?;
        let modified_at = found.modified().context("look at", path)?;
        Ok(IndexFile::parse(bytes, format, &found, modified_at))
    }

    /// Whether it is what a file still holds.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|now| Identity::of(&now) == self.identity)
    }

    fn parse(
        bytes: Vec<u8>,
        format: gix_hash::Kind,
        found: &fs::Metadata,
        modified_at: SystemTime,
    ) -> Option<IndexFile> {
        let version = number(&bytes, 4).filter(|version| matches!(version, 2 | 3))?;
        let count = number(&bytes, 8).filter(|_| bytes.starts_with(b"DIRC"))?;
        let mut entries = Vec::with_capacity((count as usize).min(bytes.len() / STAT_BYTES));
        let mut at = HEADER_BYTES;
        for _ in 0..count {
            let (_, end) = read_entry(&bytes, at, format)?;
            entries.push(at..end);
            at = end;
        }
        let end = bytes.len().checked_sub(format.len_in_bytes())?;
        let extensions = extensions(bytes.get(at..end)?, format)?;
        let (modified, mode, identity) = (found.mtime() as u32, found.mode(), Identity::of(found));
        Some(IndexFile { bytes, format, version, entries, extensions, modified, modified_at, mode, identity })
    }

    fn path(&self, at: &Range<usize>) -> &[u8] {
        read_entry(&self.bytes, at.start, self.format).map_or(b"", |(path, _)| path)
    }

    fn is_conflict(&self, at: &Range<usize>) -> bool {
        let flags = at.start + STAT_BYTES + self.format.len_in_bytes();
        u16::from_be_bytes([self.bytes[flags], self.bytes[flags + 1]]) & STAGE_MASK != 0
    }

    /// An entry by its place in the order of the file.
    pub(super) fn nth(&self, nth: usize) -> Option<IndexEntry<'_>> {
        let at = self.entries.get(nth)?.clone();
        let (path, _) = read_entry(&self.bytes, at.start, self.format)?;
        Some(IndexEntry { bytes: self.bytes.get(at)?, format: self.format, path })
    }

    /// The first entry from a place on whose path does not begin like this.
    pub(super) fn end_of(&self, prefix: &[u8], from: usize) -> usize {
        from + self.entries[from..].partition_point(|at| self.path(at).starts_with(prefix))
    }

    /// Whether there is an entry of this path, or one below it.
    pub(super) fn knows(&self, path: &[u8]) -> bool {
        let first = |wanted: &[u8]| self.entries.partition_point(|at| self.path(at) < wanted);
        let below = [path, b"/"].concat();
        let has = |at: usize, is: &dyn Fn(&[u8]) -> bool| self.entries.get(at).is_some_and(|at| is(self.path(at)));
        has(first(path), &|found| found == path) || has(first(&below), &|found| found.starts_with(&below))
    }

    /// Whether a file is beyond doubt what git saw when it wrote the entry.
    pub(super) fn is_unchanged(&self, entry: IndexEntry<'_>, found: &Stat) -> bool {
        let mode = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => plain_mode(found.st_mode),
            FileType::Symlink => MODE_SYMLINK,
            _ => return false,
        };
        let (size, empty) = (found.st_size as u32, ObjectId::empty_blob(self.format));
        let now = [
            (CHANGED_AT, found.st_ctime as u32),
            (CHANGED_AT + 4, found.st_ctime_nsec as u32),
            (MODIFIED_AT, found.st_mtime as u32),
            (MODIFIED_AT + 4, found.st_mtime_nsec as u32),
            (INODE_AT, found.st_ino as u32),
            (MODE_AT, mode),
            (OWNER_AT, found.st_uid),
            (OWNER_AT + 4, found.st_gid),
            (SIZE_AT, size),
        ];
        now.into_iter().all(|(at, value)| number(entry.bytes, at) == Some(value))
            // Without a size it is for git to read the file.
            && (size != 0 || entry.id() == empty.as_bytes())
            && !self.is_young_entry(entry.bytes)
    }

    /// Whether a commit of it would have this tree. A tree is read only where the index does not know its own.
    pub(super) fn is_tree(&self, reader: &Reader<'_>, tree: ObjectId) -> Result<bool, GitError> {
        let known = self.extensions.iter().find_map(|it| match it {
            Extension::Trees(root) => Some(root),
            Extension::Resolved(_) => None,
        });
        let end = self.end_of_tree(reader, tree, known, b"", 0)?;
        Ok(end == Some(self.entries.len()))
    }

    /// The entry behind those that are this tree; `None` if they are not.
    fn end_of_tree(
        &self,
        reader: &Reader<'_>,
        tree: ObjectId,
        known: Option<&Directory>,
        path: &[u8],
        mut at: usize,
    ) -> Result<Option<usize>, GitError> {
        if let Some((entries, id)) = known.and_then(|known| known.tree.as_ref()) {
            let count = std::str::from_utf8(entries).ok().and_then(|count| count.parse::<usize>().ok());
            return Ok(count.filter(|_| id == tree.as_bytes()).and_then(|count| at.checked_add(count)));
        }
        for line in &*reader.tree(tree)? {
            let full = join(path, &line.name);
            let Some(entry) = self.nth(at) else { return Ok(None) };
            let end = if line.entry.is_tree() {
                let known = known.and_then(|known| known.below.iter().find(|it| *it.name == *line.name));
                let is_below = entry.path.strip_prefix(&*full).is_some_and(|rest| rest.starts_with(b"/"));
                if is_below { self.end_of_tree(reader, line.entry.id, known, &full, at)? } else { None }
            } else {
                self.has(&full, Some(line.entry)).then_some(at + 1).filter(|_| entry.path == full)
            };
            let Some(end) = end else { return Ok(None) };
            at = end;
        }
        Ok(Some(at))
    }

    /// The entry of a path; `None` if there is none, or several.
    pub(super) fn entry(&self, path: &[u8]) -> Option<&[u8]> {
        let at = self.entries.partition_point(|at| self.path(at) < path);
        let found = self.entries.get(at).filter(|found| self.path(found) == path && !self.is_conflict(found))?;
        self.bytes.get(found.clone())
    }

    /// Whether it has this at a path, and nothing else.
    pub(super) fn has(&self, path: &[u8], wanted: Option<Entry>) -> bool {
        let told = self.entry(path).map(|entry| {
            let id = &entry[STAT_BYTES..STAT_BYTES + self.format.len_in_bytes()];
            (number(entry, MODE_AT), id)
        });
        told == wanted.as_ref().map(|wanted| (Some(plain_mode(wanted.mode)), wanted.id.as_bytes()))
    }

    /// Whether git would have to read many files to know that they are what the index says, since they are as young.
    pub(super) fn is_young(&self) -> bool {
        self.entries.iter().filter(|at| self.is_young_entry(&self.bytes[(*at).clone()])).nth(YOUNG_MAX).is_some()
    }

    fn is_young_entry(&self, entry: &[u8]) -> bool {
        number(entry, MODIFIED_AT).unwrap_or_default() >= self.modified
    }

    /// An index with these entries of it and nothing else, without a checksum.
    pub(super) fn only<'e>(&'e self, entries: impl Iterator<Item = &'e [u8]>) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut count = 0;
        for entry in entries {
            bytes.extend_from_slice(entry);
            count += 1;
        }
        bytes[..HEADER_BYTES].copy_from_slice(&header(self.version, count));
        bytes.extend_from_slice(ObjectId::null(self.format).as_bytes());
        bytes
    }

    /// This index with the entries of some paths exchanged for those of another, in pieces, and the time that it must
    /// have; `None` if one of them is in conflict. What stays as it is is not copied.
    pub(super) fn exchange<'e>(
        &'e self,
        paths: &[&'e [u8]],
        other: &'e IndexFile,
    ) -> Option<(Vec<Cow<'e, [u8]>>, SystemTime)> {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).ok()?.as_secs() as u32;
        let new: Exchange<'_> = paths.iter().map(|path| (*path, other.entry(path))).collect();
        // What git wrote and compared in one second, and this file does not have that second, it would not compare again.
        let is_unsure = |entry: &[u8]| {
            let at = number(entry, MODIFIED_AT).unwrap_or_default();
            at < second && other.modified <= at
        };
        let mut pieces = vec![Cow::default()];
        let (mut kept, mut count) = (0, self.entries.len());
        for (path, new) in new {
            let at = kept + self.entries[kept..].partition_point(|at| self.path(at) < path);
            let sides = self.entries[at..].iter().take_while(|at| self.path(at) == path).count();
            // Several are sides of a conflict.
            if sides > 1 {
                return None;
            }
            self.keep(kept..at, &mut pieces);
            pieces.extend(new.map(|new| if is_unsure(new) { without_size(new) } else { new.into() }));
            (kept, count) = (at + sides, count - sides + usize::from(new.is_some()));
        }
        self.keep(kept..self.entries.len(), &mut pieces);
        pieces[0] = header(self.version.max(other.version), u32::try_from(count).ok()?).to_vec().into();
        let mut extensions = Vec::new();
        self.extensions.iter().for_each(|extension| extension.write(&mut extensions, paths));
        pieces.push(extensions.into());
        let sum = sum(self.format, &pieces)?;
        pieces.push(sum.into());
        Some((pieces, now))
    }

    /// Adds some of its entries to the pieces of an index that is younger.
    fn keep<'e>(&'e self, kept: Range<usize>, pieces: &mut Vec<Cow<'e, [u8]>>) {
        let kept = &self.entries[kept];
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else { return };
        let mut begin = first.start;
        for young in kept.iter().filter(|at| self.is_young_entry(&self.bytes[(*at).clone()])) {
            pieces.push(self.bytes[begin..young.start].into());
            pieces.push(without_size(&self.bytes[young.clone()]));
            begin = young.end;
        }
        pieces.push(self.bytes[begin..last.end].into());
    }
}

/// The sum behind an index. It is against a disk that forgets, and no name that somebody else could find another content for:
/// git, too, takes the function without the search for collisions, which takes five times as long.
fn sum(format: gix_hash::Kind, pieces: &[Cow<'_, [u8]>]) -> Option<Vec<u8>> {
    if format == gix_hash::Kind::Sha1 {
        let mut hasher = sha1::Sha1::new();
        pieces.iter().for_each(|piece| hasher.update(piece));
        return Some(hasher.finalize().to_vec());
    }
    let mut hasher = gix_hash::hasher(format);
    pieces.iter().for_each(|piece| hasher.update(piece));
    Some(hasher.try_finalize().ok()?.as_bytes().to_vec())
}

/// An entry of which git reads the file before it believes what the entry says.
fn without_size(entry: &[u8]) -> Cow<'_, [u8]> {
    let mut entry = entry.to_vec();
    entry[SIZE_AT..SIZE_AT + 4].fill(0);
    entry.into()
}

/// The few modes an index may have; old trees have others.
pub(crate) fn plain_mode(mode: u32) -> u32 {
    match mode {
        MODE_SYMLINK | MODE_GITLINK => mode,
        mode if mode & 0o100 != 0 => MODE_EXECUTABLE,
        _ => MODE_FILE,
    }
}

fn header(version: u32, count: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = *b"DIRC\0\0\0\0\0\0\0\0";
    bytes[4..8].copy_from_slice(&version.to_be_bytes());
    bytes[8..].copy_from_slice(&count.to_be_bytes());
    bytes
}

/// The extensions behind the entries; `None` if one of them is unknown here and may say something of what is exchanged.
fn extensions(mut bytes: &[u8], format: gix_hash::Kind) -> Option<Vec<Extension>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(EXTENSION_BYTES)?;
        let (data, rest) = rest.split_at_checked(number(head, 4)? as usize)?;
        match &head[..4] {
            b"TREE" => {
                let (root, end) = Directory::read(data, format)?;
                found.push(Extension::Trees(root).filter_whole(end)?);
            }
            b"REUC" => found.push(Extension::Resolved(data.to_vec())),
            // Where entries are in the file, for git to read them with several threads. It does without.
            b"EOIE" | b"IEOT" => {}
            _ => return None,
        }
        bytes = rest;
    }
    Some(found)
}

impl Extension {
    fn filter_whole(self, rest: &[u8]) -> Option<Extension> {
        rest.is_empty().then_some(self)
    }

    fn write(&self, bytes: &mut Vec<u8>, touched: &[&[u8]]) {
        let (tag, data) = match self {
            Extension::Resolved(data) => (b"REUC", data.clone()),
            Extension::Trees(root) => {
                let mut data = Vec::new();
                root.write(&mut data, touched);
                (b"TREE", data)
            }
        };
        bytes.extend_from_slice(tag);
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&data);
    }
}

impl Directory {
    /// Reads a directory and those in it: name, NUL, number of entries, space, number of directories, newline, and the
    /// tree unless the number of entries is negative.
    fn read(bytes: &[u8], format: gix_hash::Kind) -> Option<(Directory, &[u8])> {
        let (name, bytes) = until(bytes, 0)?;
        let (entries, bytes) = until(bytes, b' ')?;
        let (below, mut bytes) = until(bytes, b'\n')?;
        let mut tree = None;
        if !entries.starts_with(b"-") {
            let (id, rest) = bytes.split_at_checked(format.len_in_bytes())?;
            tree = Some((entries.to_vec(), id.to_vec()));
            bytes = rest;
        }
        let mut directory = Directory { name: name.to_vec(), tree, below: Vec::new() };
        for _ in 0..std::str::from_utf8(below).ok()?.parse::<u32>().ok()? {
            let (found, rest) = Directory::read(bytes, format)?;
            directory.below.push(found);
            bytes = rest;
        }
        Some((directory, bytes))
    }

    /// Writes it as it is when these paths, which are relative to it, are others than before.
    fn write(&self, bytes: &mut Vec<u8>, touched: &[&[u8]]) {
        let below: Vec<(&Directory, Vec<&[u8]>)> = self.below.iter().filter_map(|it| it.touched(touched)).collect();
        let known = self.tree.as_ref().filter(|_| touched.is_empty());
        bytes.extend_from_slice(&self.name);
        bytes.push(0);
        bytes.extend_from_slice(known.map_or(b"-1", |(entries, _)| entries));
        bytes.extend_from_slice(format!(" {}\n", below.len()).as_bytes());
        bytes.extend(known.iter().flat_map(|(_, id)| id));
        below.iter().for_each(|(directory, touched)| directory.write(bytes, touched));
    }

    /// The paths below it, as it has them; `None` if a file has its name now, or had.
    fn touched<'t>(&self, paths: &[&'t [u8]]) -> Option<(&Directory, Vec<&'t [u8]>)> {
        let below = |path: &&'t [u8]| path.strip_prefix(self.name.as_slice());
        let rest: Vec<&[u8]> = paths.iter().filter_map(below).collect();
        let is_file = rest.contains(&&b""[..]);
        let inside = rest.into_iter().filter_map(|path| path.strip_prefix(b"/")).collect();
        (!is_file).then_some((self, inside))
    }
}

/// What is before this byte, and what is behind it.
fn until(bytes: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == end)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}
