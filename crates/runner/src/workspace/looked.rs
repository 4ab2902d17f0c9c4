//! That all files of a layer were looked at a moment ago.
//!
//! Looking at every file of a large layer takes longer than the rest of a small run, and runs follow one another. So
//! what a look found counts for a few minutes, for every norma of this user: beside the layer is written when it was, and which
//! directories there are. Those are looked at each time: whatever is added, removed, renamed or replaced by a new file
//! is a change of its directory. What writes into a file in place is found by the next look at all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};

/// How long a look counts. Agents take minutes, and a look at a hundred thousand files takes a tenth of a second.
pub(super) const COUNTS: Duration = Duration::from_secs(600);

/// A layer with fewer files and directories is looked at sooner than what was written about it is read.
const ENTRIES_MIN: usize = 1_000;

/// What a look at all files went past.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) entries: usize,
    pub(super) directories: Vec<Directory>,
}

/// A directory as it was: its path, its inode, and when that was last changed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directory(String, u64, i64, u64);

impl Directory {
    /// `None` for a path that is no text.
    pub(super) fn of(path: &[u8], stat: &Stat) -> Option<Directory> {
        let path = std::str::from_utf8(path).ok()?.to_owned();
        Some(Directory(path, stat.st_ino, stat.st_ctime, stat.st_ctime_nsec))
    }
}

/// What is written down.
#[derive(Debug, Serialize, Deserialize)]
struct Looked {
    /// When the machine was started, and how many seconds after that the look was: a clock that nobody sets.
    boot: String,
    at: u64,
    /// What the look compared with.
    digest: String,
    directories: Vec<Directory>,
}

/// How long ago all of it was looked at; `None` if that is too long, or its directories are not as they were.
pub(super) fn age(files: &Path, digest: &str) -> Option<Duration> {
    let looked: Looked = serde_json::from_slice(&fs::read(beside(files)).ok()?).ok()?;
    let (boot, now) = clock()?;
    let age = Duration::from_secs(now.checked_sub(looked.at)?);
    let is_known = looked.boot == boot && looked.digest == digest && age < COUNTS;
    (is_known && are_same(files, &looked.directories)?).then_some(age)
}

/// Notes that all of it was just looked at, and found to be what it was. Nothing depends on it being written.
pub(super) fn note(files: &Path, digest: &str, look: Look) {
    if look.entries < ENTRIES_MIN {
        return;
    }
    let Some((boot, at)) = clock() else { return };
    let looked = Looked { boot, at, digest: digest.to_owned(), directories: look.directories };
    let (path, bytes) = (beside(files), serde_json::to_vec(&looked).expect("BUG: a look is plain data"));
    let new = store::temporary_name(&path);
    let _ = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path));
}

fn are_same(files: &Path, directories: &[Directory]) -> Option<bool> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::open(files, flags, Mode::empty()).ok()?;
    for known in directories {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let stat = rustix::fs::statat(&top, known.0.as_str(), flags).ok()?;
        if Directory::of(known.0.as_bytes(), &stat).as_ref() != Some(known) {
            return Some(false);
        }
    }
    Some(!directories.is_empty())
}

fn beside(files: &Path) -> PathBuf {
    let mut path = files.as_os_str().to_owned();
    path.push(".looked");
    path.into()
}

/// Which start of the machine this is, and how many seconds ago that was.
fn clock() -> Option<(String, u64)> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    Some((boot.trim().to_owned(), uptime.split('.').next()?.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
mod tests {
    use super::*;
    use crate::workspace::listing::{Listing, Time};

    /// A directory with many files, and its digest after a look.
    fn looked_at() -> (tempfile::TempDir, PathBuf, Listing) {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        fs::create_dir_all(files.join("a/b")).unwrap();
        (0..ENTRIES_MIN).for_each(|number| fs::write(files.join(format!("a/b/{number}")), "x").unwrap());
        let listing = Listing::of(&files, Time::Changed).unwrap();
        let look = listing.check(&files).unwrap();
        note(&files, listing.digest(), look);
        // Times of files move in ticks of a few milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        (dir, files, listing)
    }

    #[test]
    fn a_look_counts_until_a_directory_changes() {
        let (_dir, files, listing) = looked_at();
        assert!(age(&files, listing.digest()).is_some());
        assert_eq!(age(&files, "another"), None);
        for change in [
            |files: &Path| fs::write(files.join("a/new"), "").unwrap(),
            |files: &Path| fs::remove_file(files.join("a/b/1")).unwrap(),
            |files: &Path| fs::rename(files.join("a/b/1"), files.join("a/b/2")).unwrap(),
            |files: &Path| fs::rename(files.join("a"), files.join("c")).unwrap(),
        ] {
            let (_dir, files, listing) = looked_at();
            change(&files);
            assert_eq!(age(&files, listing.digest()), None);
        }
    }

    #[test]
    fn a_look_of_long_ago_or_of_another_start_does_not_count() {
        let (_dir, files, listing) = looked_at();
        let text = fs::read_to_string(beside(&files)).unwrap();
        let mut looked: Looked = serde_json::from_str(&text).unwrap();
        let write = |looked: &Looked| fs::write(beside(&files), serde_json::to_vec(looked).unwrap()).unwrap();
        let at = looked.at;
        // Of a machine that was started a moment ago, nothing is long ago: of the future, nothing counts either.
        looked.at = at.checked_sub(COUNTS.as_secs() + 1).unwrap_or(at + COUNTS.as_secs());
        write(&looked);
        assert_eq!(age(&files, listing.digest()), None);
        looked.at = at;
        write(&looked);
        assert!(age(&files, listing.digest()).is_some());
        looked.boot.push('x');
        write(&looked);
        assert_eq!(age(&files, listing.digest()), None);
    }
}
