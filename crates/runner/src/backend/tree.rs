//! Files on their way to a backend and back. Links are never followed, on neither side: what comes back was written by a
//! program that nobody trusts.

use crate::git::sweep;
use contract::RepoPath;
use rustix::fs::{FileType, Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most that is taken to a backend, or back.
const FILES_MAX: usize = 50_000;
const BYTES_MAX: u64 = 512 << 20;

/// How deep a directory may be nested.
const DEPTH_MAX: usize = 64;

/// How many things that were left out are named.
const LEFT_OUT_MAX: usize = 20;

/// NONBLOCK: opening a FIFO must not wait for a writer that never comes.
const FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Sorted by the bytes of their paths.
pub(crate) type Files = BTreeMap<String, File>;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Regular { bytes: Vec<u8>, executable: bool },
    Link(String),
}

impl File {
    pub(crate) fn text(text: &str) -> File {
        File::Regular { bytes: text.as_bytes().to_vec(), executable: false }
    }

    fn size(&self) -> u64 {
        match self {
            File::Regular { bytes, .. } => bytes.len() as u64,
            File::Link(target) => target.len() as u64,
        }
    }
}

/// What a command did to files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Made or changed.
    pub(crate) changed: Files,
    pub(crate) removed: Vec<String>,
    /// What was not taken along, each with its reason.
    pub(crate) left_out: Vec<String>,
}

impl Left {
    /// What differs between what was there before and after.
    pub(crate) fn between(before: &Files, after: Files, left_out: Vec<String>) -> Left {
        let removed = before.keys().filter(|path| !after.contains_key(*path)).cloned().collect();
        let changed = after.into_iter().filter(|(path, file)| before.get(path) != Some(file)).collect();
        Left { changed, removed, left_out }
    }

    /// The part below a directory, with paths from there.
    pub(crate) fn below(&self, dir: &str) -> Left {
        let inside = |path: &String| path.strip_prefix(dir)?.strip_prefix('/').map(str::to_owned);
        Left {
            changed: self.changed.iter().filter_map(|(path, file)| Some((inside(path)?, file.clone()))).collect(),
            removed: self.removed.iter().filter_map(inside).collect(),
            left_out: Vec::new(),
        }
    }
}

/// Notes what was left out, and of very much only that it was.
pub(crate) fn leave_out(notes: &mut Vec<String>, why: String) {
    match notes.len() {
        0..LEFT_OUT_MAX => notes.push(why),
        LEFT_OUT_MAX => notes.push("and more like these".to_owned()),
        _ => {}
    }
}

/// Whether a path that came back can be one of a file.
pub(crate) fn fits(path: &str) -> Result<(), String> {
    match RepoPath::parse(path) {
        Ok(parsed) if parsed.as_str() == path => Ok(()),
        Ok(_) => Err(format!("path {path:?} is not in its one spelling")),
        Err(problem) => Err(problem.to_string()),
    }
}

/// Counts what is taken along.
#[derive(Default)]
pub(crate) struct Tally {
    files: usize,
    bytes: u64,
}

impl Tally {
    /// Adds a file, or says that it is too much.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), String> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        match self.files <= FILES_MAX && self.bytes <= BYTES_MAX {
            true => Ok(()),
            false => Err(format!("there are more than {FILES_MAX} files or {} MiB", BYTES_MAX >> 20)),
        }
    }

    /// How many more bytes there may be.
    pub(crate) fn left(&self) -> u64 {
        BYTES_MAX.saturating_sub(self.bytes)
    }
}

/// Everything below a directory, with what was left out; an error if it is too much or cannot be read.
pub(crate) fn read(dir: &Path, wants: &dyn Fn(&str) -> bool) -> Result<(Files, Vec<String>), String> {
    let failed = |error: &dyn std::fmt::Display| format!("could not read {}: {error}", dir.display());
    let root = sweep::open_directory(dir).map_err(|error| failed(&error))?;
    let mut reading = Reading { files: Files::new(), left_out: Vec::new(), tally: Tally::default(), wants };
    reading.below(&root, "", 0)?;
    Ok((reading.files, reading.left_out))
}

struct Reading<'r> {
    files: Files,
    left_out: Vec<String>,
    tally: Tally,
    wants: &'r dyn Fn(&str) -> bool,
}

impl Reading<'_> {
    fn below(&mut self, dir: &OwnedFd, prefix: &str, depth: usize) -> Result<(), String> {
        let mut names = sweep::names_in(dir).map_err(|error| format!("could not list {prefix:?}: {error}"))?;
        names.sort();
        for name in names {
            let Some(path) = name.to_str().ok().map(|name| format!("{prefix}{name}")) else {
                leave_out(&mut self.left_out, format!("{prefix}{name:?} was left out: its name is not UTF-8"));
                continue;
            };
            if !(self.wants)(&path) {
                continue;
            }
            if let Err(problem) = fits(&path) {
                leave_out(&mut self.left_out, format!("{} was left out: {problem}", path.escape_debug()));
                continue;
            }
            self.entry(dir, &name, &path, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, dir: &OwnedFd, name: &CStr, path: &str, depth: usize) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("could not read {path:?}: {error}");
        let (kind, mode, _) = sweep::look(dir, name).map_err(|error| failed(&error))?;
        let file = match kind {
            FileType::Directory if depth < DEPTH_MAX => {
                // A program may have closed it even to who may look.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|error| failed(&error))?;
                return self.below(&opened, &format!("{path}/"), depth + 1);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir, name, Vec::new()).map_err(|error| failed(&error))?;
                target
                    .into_string()
                    .map(File::Link)
                    .map_err(|_| format!("the link {path:?} leads to what is not UTF-8"))?
            }
            FileType::RegularFile => {
                let opened =
                    rustix::fs::openat(dir, name, FILE_FLAGS, Mode::empty()).map_err(|error| failed(&error))?;
                let mut bytes = Vec::new();
                let most = self.tally.left().saturating_add(1);
                let read = std::fs::File::from(opened).take(most).read_to_end(&mut bytes);
                read.map_err(|error| failed(&error))?;
                File::Regular { bytes, executable: mode.contains(Mode::XUSR) }
            }
            _ => {
                leave_out(&mut self.left_out, format!("{path} was left out: it is no file"));
                return Ok(());
            }
        };
        self.tally.add(file.size())?;
        self.files.insert(path.to_owned(), file);
        Ok(())
    }
}

/// Writes files below a directory, whatever was there under their names.
pub(crate) fn write(dir: &Path, files: &Files) -> io::Result<()> {
    let root = open(dir)?;
    for (path, file) in files {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let above = sweep::make_below(&root, above.as_bytes())?;
        let name = CString::new(name)?;
        remove_entry(&above, &name)?;
        match file {
            File::Link(target) => rustix::fs::symlinkat(target.as_str(), &above, &name)?,
            File::Regular { bytes, executable } => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = if *executable { 0o755 } else { 0o644 };
                let made = rustix::fs::openat(&above, &name, flags, Mode::from_raw_mode(mode))?;
                std::fs::File::from(made).write_all(bytes)?;
            }
        }
    }
    Ok(())
}

/// Does to a directory what a command did to its copy.
pub(crate) fn apply(dir: &Path, left: &Left) -> io::Result<()> {
    let root = open(dir)?;
    for path in &left.removed {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        // A directory on the way that is gone, or a link now, has nothing of it any more.
        let Ok(above) = sweep::open_below(&root, above.as_bytes()) else { continue };
        remove_entry(&above, &CString::new(name)?)?;
        prune(&root, path);
    }
    write(dir, &left.changed)
}

/// Removes the directories above a file that hold nothing any more.
fn prune(root: &OwnedFd, path: &str) {
    let mut rest = path;
    while let Some((above, _)) = rest.rsplit_once('/') {
        let (parent, name) = above.rsplit_once('/').unwrap_or(("", above));
        let Ok(parent) = sweep::open_below(root, parent.as_bytes()) else { return };
        if rustix::fs::unlinkat(&parent, name, rustix::fs::AtFlags::REMOVEDIR).is_err() {
            return;
        }
        rest = above;
    }
}

fn open(dir: &Path) -> io::Result<OwnedFd> {
    sweep::open_directory(dir).map_err(io::Error::other)
}

/// Removes an entry, and everything in it if it is a directory.
fn remove_entry(dir: &OwnedFd, name: &CStr) -> io::Result<()> {
    use rustix::fs::{AtFlags, unlinkat};
    match sweep::look(dir, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok((FileType::Directory, ..)) => {
            let below = sweep::open_below(dir, std::ffi::OsStr::from_bytes(name.to_bytes()).as_bytes())?;
            for inner in sweep::names_in(&below)? {
                remove_entry(&below, &inner)?;
            }
            Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
        }
        Ok(_) => Ok(unlinkat(dir, name, AtFlags::empty())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(_: &str) -> bool {
        true
    }

    fn files(list: &[(&str, File)]) -> Files {
        list.iter().map(|(path, file)| ((*path).to_owned(), file.clone())).collect()
    }

    #[test]
    fn what_is_written_reads_back_and_differences_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let program = File::Regular { bytes: b"#!/bin/sh\n".to_vec(), executable: true };
        let before = files(&[
            ("a/b", File::text("x")),
            ("run", program),
            ("link", File::Link("a/b".into())),
            ("z", File::text("")),
        ]);
        write(folder.path(), &before).unwrap();
        assert_eq!(read(folder.path(), &all).unwrap(), (before.clone(), vec![]));
        let after =
            files(&[("a/b", File::text("y")), ("link", File::text("now a file")), ("run/inner", File::text("n"))]);
        let left = Left::between(&before, after.clone(), vec![]);
        assert_eq!(left.removed, ["run", "z"]);
        assert_eq!(left.changed.keys().collect::<Vec<_>>(), ["a/b", "link", "run/inner"]);
        apply(folder.path(), &left).unwrap();
        assert_eq!(read(folder.path(), &all).unwrap().0, after);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), folder.path().join("dir")).unwrap();
        assert!(write(folder.path(), &files(&[("dir/x", File::text("no"))])).is_err());
        let removed = Left { removed: vec!["dir/kept".into()], ..Left::default() };
        std::fs::write(outside.path().join("kept"), "kept").unwrap();
        apply(folder.path(), &removed).unwrap();
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_taken_along_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".git/config"), "x").unwrap();
        std::fs::write(folder.path().join("a\nb"), "x").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (found, left_out) = read(folder.path(), &all).unwrap();
        assert!(found.is_empty());
        assert_eq!(left_out.len(), 3, "{left_out:?}");
    }
}
