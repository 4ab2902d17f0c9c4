//! Path locks: two contracts that may change the same files do not run at the same time. A lock on a directory is one on
//! everything below it. Each path has a file in `locks/`, and what holds it is an flock on an open descriptor: it is
//! gone with the process that held it, however that ended, and never because of its age. The text in the file only says
//! which path is meant and tells people who has it.
//!
//! One more flock, on `paths.lock`, is held while the table is looked at or changed, so that of two who want
//! overlapping paths one gets all of its own and the other none.

use crate::{IoContext, Layout, Result};
use contract::path::lies_within;
use contract::{RepoPath, Timestamp};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Guards the table; its name is no digest, so it is never taken for a lock.
const TABLE: &str = "paths.lock";

/// More than the longest path and everything else that a lock file says.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// Who holds a lock, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run's slug.
    pub run_id: String,
    /// The item of its contract.
    pub task: String,
    /// The process that works on it.
    pub pid: u32,
    /// Whose process that is.
    pub owner: String,
    /// Since when.
    pub since: Timestamp,
}

/// A path that somebody else has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path that was asked for.
    pub path: RepoPath,
    /// The path that is locked: the same, one above it, or one below; none if its file cannot be read.
    pub locked: Option<RepoPath>,
    /// Who has it, as far as its file says.
    pub holder: Option<Holder>,
}

/// What came of asking for paths.
#[derive(Debug)]
pub enum Taken {
    /// All of them are ours.
    Ours(PathLock),
    /// Somebody has some of them, so none is ours.
    Theirs(Vec<Conflict>),
}

/// The paths of one holder; given back when dropped.
#[derive(Debug)]
pub struct PathLock {
    /// What was left of holders that are gone and stood in the way, one sentence each.
    pub reclaimed: Vec<String>,
    dir: PathBuf,
    held: Vec<(PathBuf, File)>,
}

/// The table of path locks of a state directory.
#[derive(Debug)]
pub struct PathLocks {
    dir: PathBuf,
}

impl PathLocks {
    /// The table of this state directory; made if there is none.
    pub fn open(layout: &Layout) -> Result<PathLocks> {
        layout.create()?;
        Ok(PathLocks { dir: layout.locks() })
    }

    /// Takes all of these paths, or none and says who has which.
    pub fn try_take(&self, paths: &[RepoPath], who: &Holder) -> Result<Taken> {
        let _alone = lock_table(&self.dir)?;
        let mut stale = Vec::new();
        let mut conflicts = Vec::new();
        for found in self.overlapping(paths)? {
            match found.is_free()? {
                true => stale.push(found),
                false => conflicts.extend(found.conflicts(paths)),
            }
        }
        if !conflicts.is_empty() {
            return Ok(Taken::Theirs(conflicts));
        }
        for found in &stale {
            std::fs::remove_file(&found.file).at("remove", &found.file)?;
        }
        let reclaimed = stale.iter().map(Found::told).collect();
        let mut lock = PathLock { reclaimed, dir: self.dir.clone(), held: Vec::new() };
        for path in paths.iter().collect::<BTreeSet<_>>() {
            // What is taken so far is given back if this fails: the lock is dropped.
            lock.held.push(self.make(path, who)?);
        }
        Ok(Taken::Ours(lock))
    }

    /// Takes away what is left of holders that are gone; answers one sentence each.
    pub fn sweep(&self) -> Result<Vec<String>> {
        // Where nobody ever locked a path there is no table to hold.
        if self.all()?.is_empty() {
            return Ok(Vec::new());
        }
        let _alone = lock_table(&self.dir)?;
        let mut swept = Vec::new();
        for found in self.all()? {
            if found.is_free()? {
                std::fs::remove_file(&found.file).at("remove", &found.file)?;
                swept.push(found.told());
            }
        }
        Ok(swept)
    }

    /// The lock files that could stand in the way of these paths.
    fn overlapping(&self, paths: &[RepoPath]) -> Result<Vec<Found>> {
        let mut found = self.all()?;
        found.retain(|there| !there.conflicts(paths).is_empty());
        Ok(found)
    }

    fn all(&self) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir).at("list", &self.dir)? {
            let entry = entry.at("list", &self.dir)?;
            if is_lock(&entry.file_name().to_string_lossy()) {
                found.push(Found::read(entry.path())?);
            }
        }
        found.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(found)
    }

    fn make(&self, path: &RepoPath, who: &Holder) -> Result<(PathBuf, File)> {
        let name = contract::hash::sha256(path.as_str().as_bytes());
        let at = self.dir.join(format!("{name}.lock"));
        let mut file = File::options().read(true).write(true).create_new(true).open(&at).at("create", &at)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).at("lock", &at)?;
        file.write_all(body(path, who).as_bytes()).at("write", &at)?;
        Ok((at, file))
    }
}

impl Drop for PathLock {
    fn drop(&mut self) {
        // Without the table the files stay behind, free, and the next one who wants the paths takes them away.
        let Ok(_alone) = lock_table(&self.dir) else { return };
        for (path, _) in &self.held {
            let _ = std::fs::remove_file(path);
        }
        self.held.clear();
    }
}

/// Waits for the table; nobody keeps it longer than a look takes.
fn lock_table(dir: &Path) -> Result<File> {
    let path = dir.join(TABLE);
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).at("open", &path)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            locked => return locked.map(|()| file).at("lock", &path),
        }
    }
}

/// Whether a name is that of a path's lock: a digest and `.lock`.
fn is_lock(name: &str) -> bool {
    name.strip_suffix(".lock").is_some_and(|digest| digest.parse::<contract::Digest>().is_ok())
}

/// A lock file that is there, whether or not somebody holds it.
struct Found {
    file: PathBuf,
    open: File,
    path: Option<RepoPath>,
    holder: Option<Holder>,
}

impl Found {
    fn read(file: PathBuf) -> Result<Found> {
        let open = File::options().read(true).write(true).open(&file).at("open", &file)?;
        let mut text = Vec::new();
        (&open).take(BODY_BYTES_MAX).read_to_end(&mut text).at("read", &file)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let path = field(&text, "path").and_then(|path| RepoPath::parse(path).ok());
        Ok(Found { path, holder: holder(&text), file, open })
    }

    /// Nobody who lives can hold what can be locked.
    fn is_free(&self) -> Result<bool> {
        match rustix::fs::flock(&self.open, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error).at("lock", &self.file),
        }
    }

    /// Which of these paths it stands in the way of; one that cannot be read could mean any.
    fn conflicts(&self, paths: &[RepoPath]) -> Vec<Conflict> {
        let overlaps = |path: &&RepoPath| {
            self.path.as_ref().is_none_or(|locked| lies_within(path, locked) || lies_within(locked, path))
        };
        let conflict =
            |path: &RepoPath| Conflict { path: path.clone(), locked: self.path.clone(), holder: self.holder.clone() };
        paths.iter().filter(overlaps).map(conflict).collect()
    }

    fn told(&self) -> String {
        let path = self.path.as_ref().map_or("a path", RepoPath::as_str);
        match &self.holder {
            Some(holder) => format!("{path} was still locked by {holder}, which is gone"),
            None => format!("{path} was still locked by a process that is gone"),
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {} of run {} (pid {}, {})", self.task, self.run_id, self.pid, self.owner)
    }
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.locked {
            Some(locked) if *locked != self.path => write!(f, "{} overlaps {locked}, which is locked", self.path)?,
            _ => write!(f, "{} is locked", self.path)?,
        }
        match &self.holder {
            Some(holder) => write!(f, " by {holder}"),
            None => f.write_str(" by an unknown process"),
        }
    }
}

/// One line a field. No value can begin a line of its own.
fn body(path: &RepoPath, who: &Holder) -> String {
    let one_line = |text: &str| text.replace(|c: char| c.is_control(), " ");
    let (run_id, task, owner) = (one_line(&who.run_id), one_line(&who.task), one_line(&who.owner));
    let (pid, ts) = (who.pid, who.since);
    format!("run_id={run_id}\ntask={task}\npid={pid}\nowner={owner}\nts={ts}\npath={path}\n")
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

fn holder(text: &str) -> Option<Holder> {
    Some(Holder {
        run_id: field(text, "run_id")?.to_owned(),
        task: field(text, "task")?.to_owned(),
        pid: field(text, "pid")?.parse().ok()?,
        owner: field(text, "owner")?.to_owned(),
        since: field(text, "ts")?.parse().ok()?,
    })
}
