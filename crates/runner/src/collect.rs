//! Copies what an agent left in its live directory: regular files only, within caps, never through a link, text without
//! its secrets. Directories are walked by descriptor with `O_NOFOLLOW`, so nothing the agent still changes can lead the walk
//! elsewhere. Whatever is not copied is noted.

use crate::clear::Cleared;
use crate::{Error, Result};
use contract::{RepoPath, TurnLimits};
use run::redact::{Counts, Redactor, add};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use store::Preparing;

/// How deep a step directory may be nested; nobody reads deeper.
const DEPTH_MAX: usize = 32;

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

/// NONBLOCK: opening a FIFO must not wait for a writer that never comes.
const FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

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

/// Opens the directory an agent wrote, if it is still one.
pub(crate) fn open(dir: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).ok()
}

/// Reads at most so much of a file of the directory, if it is a regular one.
pub(crate) fn read_file(dir: &OwnedFd, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let Ok(opened) = rustix::fs::openat(dir, name, FILE_FLAGS, Mode::empty()) else { return Ok(None) };
    if kind(&opened) != FileType::RegularFile {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::from(opened).take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
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
        Some(dir) => collector.walk(dir, "", 0)?,
        None => collector.note("the agent removed its step directory".into()),
    }
    if collector.unlisted > 0 {
        collector.notes.push(format!("and {} more like these", collector.unlisted));
    }
    Ok((collector.notes, collector.removed))
}

fn kind(opened: &OwnedFd) -> FileType {
    rustix::fs::fstat(opened).map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

impl Collector<'_> {
    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        } else {
            self.unlisted += 1;
        }
    }

    fn walk(&mut self, dir: OwnedFd, below: &str, depth: usize) -> Result<()> {
        let unreadable = |e: rustix::io::Errno| Error::io("list", Path::new(below), e.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir).map_err(unreadable)? {
            names.push(entry.map_err(unreadable)?.file_name().to_owned());
        }
        names.sort();
        for name in names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")) {
            let shown = format!("{below}{}", name.to_string_lossy());
            if below.is_empty() && self.apart == Some(&*shown) {
                continue;
            }
            if below.is_empty() && RESERVED.contains(&shown.as_str()) {
                if shown != "input.json" {
                    self.note(format!("{shown} is norma's to write; the agent's was left out"));
                }
                continue;
            }
            match RepoPath::parse_bytes(name.to_bytes()) {
                Ok(_) => self.entry(&dir, name, &shown, depth)?,
                Err(problem) => self.note(format!("{} was left out: {problem}", shown.escape_debug())),
            }
        }
        Ok(())
    }

    fn entry(&mut self, dir: &OwnedFd, name: &std::ffi::CStr, shown: &str, depth: usize) -> Result<()> {
        let opened = match rustix::fs::openat(dir, name, FILE_FLAGS, Mode::empty()) {
            Ok(opened) => opened,
            Err(rustix::io::Errno::LOOP) => {
                self.note(format!("{shown} is a symbolic link and was left out"));
                return Ok(());
            }
            Err(e) => {
                self.note(format!("{shown} could not be opened and was left out: {e}"));
                return Ok(());
            }
        };
        match kind(&opened) {
            FileType::Directory if depth < DEPTH_MAX => self.walk(opened, &format!("{shown}/"), depth + 1),
            FileType::RegularFile => self.file(opened, shown),
            _ => {
                self.note(format!("{shown} is not a regular file and was left out"));
                Ok(())
            }
        }
    }

    fn file(&mut self, file: OwnedFd, shown: &str) -> Result<()> {
        let file = File::from(file);
        let size = file.metadata().map_or(u64::MAX, |meta| meta.len());
        if self.files_left == 0 || size > self.bytes_left {
            self.note(format!("{shown} was left out: limits.evidence_files or limits.evidence_mb is reached"));
            return Ok(());
        }
        self.files_left -= 1;
        let unreadable = |source| Error::io("read", Path::new(shown), source);
        let mut cleared = Cleared::new(file.take(self.bytes_left), self.redactor).map_err(unreadable)?;
        // A mark may be longer than what it stands for.
        let copied = self.into.copy(shown, &mut cleared, u64::MAX)?;
        add(&mut self.removed, cleared.removed());
        self.bytes_left = self.bytes_left.saturating_sub(copied);
        Ok(())
    }
}
