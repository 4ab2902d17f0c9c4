//! Directories of evidence: prepared, listed in a manifest, and put on record with the bytes of their small files. One that
//! is written at once is filled under a temporary name and renamed whole before it goes on record; one that is not is in
//! the commit alone until its run is sealed or held ([`write_out`]). A [`Prepared`] directory must be handed to the log,
//! which is what makes it part of the run.

use crate::directories::{Share, Which};
use crate::{Error, IoContext, Reader, Result, crash};
use contract::hash::{DoubleHasher, Hasher};
use contract::{Digest, Domain, Fact, Manifest, ManifestFile, Slug, Timestamp};
use rustix::fs::{Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Files up to this size are kept in the database too until the run is sealed: their bytes are then in the
/// commit itself and need no barrier of their own. Larger ones are synced before the commit.
pub const SMALL_FILE_BYTES_MAX: u64 = 64 * 1024;

/// What a turn has answered.
const ANSWER: &str = "output.json";

/// What there is besides of every turn of a program: what it was told, what held it and what it printed.
const ROUTINE: [&str; 5] = ["input.json", "logs/stderr.txt", "logs/stdout.txt", "manifest.json", "sandbox.json"];

/// A manifest is norma's own; this only bounds what a damaged disk can make us read.
const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes read and hashed at once: most files have fewer, and a buffer is cleared before it is used.
const PIECE_BYTES: usize = 16 * 1024;

/// A file of a directory, with its bytes if it is small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFile {
    /// As the manifest lists it.
    pub listed: ManifestFile,
    /// The content of a small file.
    pub bytes: Option<Vec<u8>>,
}

/// What is committed with facts, in one piece.
#[derive(Debug, Clone, Default)]
pub struct Attached {
    /// The files of directories that the facts vouch for.
    pub files: Vec<(String, StepFile)>,
    /// Files elsewhere that the facts rely on.
    pub kept: Vec<KeptFile>,
}

impl From<Vec<(String, StepFile)>> for Attached {
    fn from(files: Vec<(String, StepFile)>) -> Attached {
        Attached { files, kept: Vec::new() }
    }
}

/// A small file outside of any run's directory. It is written already and needs no barrier of its own: the commit has its
/// bytes until the run is sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Below the state directory.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// When the files of a directory are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// Before it goes on record: somebody may want to look at it, or show it to an agent.
    AtOnce,
    /// When its run is sealed or held, unless it has a large file: until then the commit has its bytes.
    Later,
}

/// A directory that is being filled. Small files are in memory until it is finished.
pub struct Preparing {
    tmp: PathBuf,
    target: PathBuf,
    files: Vec<StepFile>,
}

impl Preparing {
    /// Starts `target` (`…/steps/003-check`) under a temporary name beside it.
    pub fn new(target: &Path) -> Preparing {
        Preparing { tmp: temporary_name(target), target: target.to_owned(), files: Vec::new() }
    }

    /// Writes a file from memory.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 > SMALL_FILE_BYTES_MAX {
            return self.copy(path, &mut &bytes[..], u64::MAX).map(|_| ());
        }
        self.require_new(path)?;
        self.files.push(StepFile { listed: listed(path, bytes), bytes: Some(bytes.to_vec()) });
        Ok(())
    }

    fn require_new(&self, path: &str) -> Result<()> {
        match self.files.iter().any(|file| file.listed.path == path) {
            true => Err(io::Error::from(ErrorKind::AlreadyExists)).at("create", &self.tmp.join(path)),
            false => Ok(()),
        }
    }

    /// Copies at most `bytes_max` from a reader; answers how much it was.
    pub fn copy(&mut self, path: &str, from: &mut dyn Read, bytes_max: u64) -> Result<u64> {
        self.require_new(path)?;
        let to = self.tmp.join(path);
        let mut small = Vec::new();
        let mut from = from.take(bytes_max);
        (&mut from).take(SMALL_FILE_BYTES_MAX + 1).read_to_end(&mut small).at("read the source of", &to)?;
        let (listed, bytes) = if small.len() as u64 > SMALL_FILE_BYTES_MAX {
            let mut file = create(&to)?;
            let hashed = hash_while_writing(path, &mut small.chain(from), &mut file, &to)?;
            file.sync_all().at("sync", &to)?;
            hashed
        } else {
            (listed(path, &small), Some(small))
        };
        let size = listed.size;
        self.files.push(StepFile { listed, bytes });
        Ok(size)
    }

    /// What was written under a name, if it is not longer than `bytes_max`.
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.files.iter().find(|file| file.listed.path == path) else { return Ok(None) };
        if let Some(bytes) = &file.bytes {
            return Ok(Some(bytes.clone()));
        }
        let from = self.tmp.join(path);
        let mut bytes = Vec::new();
        File::open(&from).at("open", &from)?.take(bytes_max).read_to_end(&mut bytes).at("read", &from)?;
        Ok(Some(bytes))
    }

    /// Whether every file so far is small enough to be in the commit.
    pub fn is_small(&self) -> bool {
        self.files.iter().all(|file| file.bytes.is_some())
    }

    /// The names written so far.
    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|file| file.listed.path.clone()).collect()
    }

    /// The digest of the file list, for the fact that ties this directory to the chain.
    pub fn evidence(&mut self) -> Digest {
        self.files.sort_by(|a, b| a.listed.path.cmp(&b.listed.path));
        evidence_digest(self.files.iter().map(|file| &file.listed))
    }

    /// Adds the manifest and, where it is written at once, gives the directory its final name. `dir` is its place below the
    /// run.
    pub fn finish(
        mut self,
        run_id: &Slug,
        dir: &str,
        at: Timestamp,
        outcome: Vec<Fact>,
        writing: Writing,
        points: [&'static str; 2],
    ) -> Result<Prepared> {
        self.evidence();
        let listed = self.files.iter().map(|file| file.listed.clone()).collect();
        let manifest =
            Manifest { version: 1, run_id: *run_id, dir: dir.to_owned(), sealed_at: at, files: listed, outcome };
        self.write("manifest.json", &contract::json::pretty(&manifest))?;
        let large = self.files.iter().any(|file| file.bytes.is_none());
        let at_once = large || writing == Writing::AtOnce;
        if at_once {
            self.write_small()?;
        }
        if large {
            sync_dirs(&self.tmp)?;
        }
        crash::point(points[0]);
        if at_once {
            rename_new(&self.tmp, &self.target)?;
        }
        if large && let Some(parent) = self.target.parent() {
            sync_dir(parent)?;
        }
        crash::point(points[1]);
        Ok(Prepared {
            files: self.files.into_iter().map(|file| (dir.to_owned(), file)).collect(),
            facts: manifest.outcome,
        })
    }

    fn write_small(&self) -> Result<()> {
        for file in &self.files {
            if let Some(bytes) = &file.bytes {
                write_new(&self.tmp.join(&file.listed.path), bytes)?;
            }
        }
        Ok(())
    }
}

/// What later turns are shown of a directory until its run is sealed or held: of a program that left no files its answer
/// alone, since making the other five would cost more than all else that is kept of its turn.
pub fn shown(files: &[(String, StepFile)]) -> Vec<StepFile> {
    let is_routine = |path: &str| path == ANSWER || ROUTINE.contains(&path);
    let only_answer = files.iter().all(|(_, file)| is_routine(&file.listed.path));
    let is_shown = |file: &&StepFile| !only_answer || file.listed.path == ANSWER;
    files.iter().map(|(_, file)| file).filter(is_shown).cloned().collect()
}

/// How much of a directory on record is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// Nothing: it is in the commit alone.
    Nothing,
    /// What later turns are shown: the rest is in the commit alone.
    Answer,
    /// All of it, or what somebody else has made of it.
    All,
}

impl Written {
    pub(crate) fn of(dir: &Path) -> Result<Written> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(dir, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Written::Nothing),
            // There is something else in its place, which is looked at file by file.
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Written::All),
            opened => opened.at("open", dir)?,
        };
        let mut names = Vec::new();
        for entry in Dir::new(opened).at("list", dir)? {
            let entry = entry.at("list", dir)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            names.push(name.to_owned());
            if names.len() > 1 {
                return Ok(Written::All);
            }
        }
        Ok(if names == [ANSWER.as_bytes()] { Written::Answer } else { Written::All })
    }

    /// Whether a file of this size is in the commit alone.
    pub(crate) fn lacks(self, file: &ManifestFile) -> bool {
        let is_there = match self {
            Written::Nothing => false,
            Written::Answer => file.path == ANSWER,
            Written::All => true,
        };
        !is_there && file.size <= SMALL_FILE_BYTES_MAX
    }
}

/// Writes a directory whose files are all small, unless somebody else has meanwhile. Not synced: a commit has their bytes.
pub fn write_dir(target: &Path, files: &[StepFile]) -> Result<()> {
    let tmp = temporary_name(target);
    for (file, bytes) in files.iter().filter_map(|file| Some((file, file.bytes.as_ref()?))) {
        write_new(&tmp.join(&file.listed.path), bytes)?;
    }
    name_new(&tmp, target).map(drop)
}

/// Writes the directories of a run that are in the commit alone so far. Not synced: the commit has their bytes until the run
/// is sealed. Answers how many there were.
pub fn write_out(reader: &Reader, slug: &str) -> Result<u64> {
    write_out_some(reader, slug, Which::Share(Share::WHOLE))
}

/// The same for one directory, whatever else the run has: a long run is not read again for each.
pub fn write_out_dir(reader: &Reader, slug: &str, dir: &str) -> Result<u64> {
    write_out_some(reader, slug, Which::Dir(dir))
}

/// The same for some of them.
pub(crate) fn write_out_some(reader: &Reader, slug: &str, which: Which<'_>) -> Result<u64> {
    let run = reader.layout().run(slug);
    let (mut open, mut written) = (None::<WritingOut>, 0);
    reader.small_files(slug, which, &mut |dir, path, bytes| {
        if open.as_ref().is_none_or(|open| open.dir != dir) {
            written += open.take().map_or(Ok(0), WritingOut::finish)?;
            open = Some(WritingOut::new(dir, run.join(dir))?);
        }
        open.as_ref().map_or(Ok(()), |open| open.write(path, bytes))
    })?;
    Ok(written + open.map_or(Ok(0), WritingOut::finish)?)
}

/// A directory that is written out of the commit.
struct WritingOut {
    /// Its place below the run.
    dir: String,
    target: PathBuf,
    /// Where its files go, if it lacks any.
    to: Option<PathBuf>,
    before: Written,
}

impl WritingOut {
    fn new(dir: &str, target: PathBuf) -> Result<WritingOut> {
        let before = Written::of(&target)?;
        let to = match before {
            Written::Nothing => Some(temporary_name(&target)),
            Written::Answer => Some(target.clone()),
            Written::All => None,
        };
        Ok(WritingOut { dir: dir.to_owned(), target, to, before })
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        match &self.to {
            Some(to) if self.before == Written::Nothing || path != ANSWER => write_new(&to.join(path), bytes),
            _ => Ok(()),
        }
    }

    /// How many directories that makes.
    fn finish(self) -> Result<u64> {
        match (self.before, &self.to) {
            (Written::Nothing, Some(tmp)) => name_new(tmp, &self.target).map(u64::from),
            (Written::Answer, _) => Ok(1),
            _ => Ok(0),
        }
    }
}

/// Gives a directory its name, unless somebody else has written it meanwhile; whether it was this one.
fn name_new(tmp: &Path, target: &Path) -> Result<bool> {
    match rename_new(tmp, target) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => remove_tree(tmp).map(|()| false),
        renamed => renamed.map(|()| true),
    }
}

/// Gives a directory its name, which nothing has yet.
fn rename_new(from: &Path, to: &Path) -> Result<()> {
    let renamed = rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, RenameFlags::NOREPLACE);
    renamed.at("rename to", to)
}

fn write_new(to: &Path, bytes: &[u8]) -> Result<()> {
    create(to)?.write_all(bytes).at("write", to)
}

/// Makes a file that is not there yet, and the directories that lead to it.
fn create(to: &Path) -> Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let created = match options.open(to) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = to.parent().unwrap_or(to);
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).at("create", parent)?;
            options.open(to)
        }
        created => created,
    };
    created.at("create", to)
}

/// A directory that has its final name and waits to be put on record.
#[must_use = "a directory that is not put on record is found by recovery as if norma had crashed"]
pub struct Prepared {
    /// For the commit.
    pub files: Vec<(String, StepFile)>,
    /// For the commit.
    pub facts: Vec<Fact>,
}

/// The digest that a fact carries of a manifest's file list.
pub(crate) fn evidence_digest<'a>(files: impl Iterator<Item = &'a ManifestFile>) -> Digest {
    ManifestFile::listing_digest(files.filter(|file| file.path != "manifest.json"))
}

/// A name beside `target` that no other process will choose.
pub fn temporary_name(target: &Path) -> PathBuf {
    let random: String = crate::log::random10().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    target.with_file_name(format!("{name}.tmp-{random}"))
}

pub(crate) fn hash_while_writing(
    path: &str,
    from: &mut dyn Read,
    to: &mut dyn Write,
    at: &Path,
) -> Result<(ManifestFile, Option<Vec<u8>>)> {
    let mut hasher = DoubleHasher::new();
    let mut small = Some(Vec::new());
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e).at("read the source of", at),
        };
        hasher.update(&buffer[..n]);
        to.write_all(&buffer[..n]).at("write", at)?;
        match &mut small {
            Some(kept) if kept.len() + n <= SMALL_FILE_BYTES_MAX as usize => kept.extend_from_slice(&buffer[..n]),
            _ => small = None,
        }
    }
    let done = hasher.finish();
    Ok((ManifestFile { path: path.to_owned(), size: done.bytes, blake3: done.blake3, sha256: done.sha256 }, small))
}

/// A file as a manifest lists it.
pub(crate) fn listed(path: &str, bytes: &[u8]) -> ManifestFile {
    let mut hasher = DoubleHasher::new();
    hasher.update(bytes);
    let done = hasher.finish();
    ManifestFile { path: path.to_owned(), size: done.bytes, blake3: done.blake3, sha256: done.sha256 }
}

/// The regular files below a directory as a commit records them, sorted by path.
pub(crate) fn files_in(dir: &Path) -> Result<Vec<StepFile>> {
    let mut files = Vec::new();
    add_files_in(dir, Path::new(""), &mut files)?;
    files.sort_by(|a, b| a.listed.path.cmp(&b.listed.path));
    Ok(files)
}

fn add_files_in(root: &Path, below: &Path, into: &mut Vec<StepFile>) -> Result<()> {
    let dir = root.join(below);
    for entry in std::fs::read_dir(&dir).at("list", &dir)? {
        let entry = entry.at("list", &dir)?;
        let kind = entry.file_type().at("look at", &entry.path())?;
        let path = below.join(entry.file_name());
        if kind.is_dir() {
            add_files_in(root, &path, into)?;
        } else if let Some(name) = path.to_str().filter(|_| kind.is_file()) {
            let mut file = File::open(entry.path()).at("open", &entry.path())?;
            let (listed, bytes) = hash_while_writing(name, &mut file, &mut io::sink(), &entry.path())?;
            into.push(StepFile { listed, bytes });
        }
    }
    Ok(())
}

/// Reads and checks the form of a directory's manifest.
pub fn read_manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join("manifest.json");
    serde_json::from_slice(&read_bounded(&path)?)
        .map_err(|e| Error::Damaged { log: path.display().to_string(), why: e.to_string() })
}

/// Reads a file of norma's own.
pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    read_at_most(path, MANIFEST_BYTES_MAX)
}

/// The beginning of a file, or all of it.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).at("open", path)?.take(bytes_max).read_to_end(&mut bytes).at("read", path)?;
    Ok(bytes)
}

/// What is wrong with a file that should be as listed; none if it is. An error means that nobody knows.
pub(crate) fn difference(dir: &Path, listed: &ManifestFile) -> Result<Option<String>> {
    let same = |found: ManifestFile| contrast(&found, listed.size, &listed.sha256, Some(&listed.blake3));
    told(hashed(dir, &listed.path).map(same), dir, listed)
}

/// The same by one of the two digests: where norma itself has listed the file, they cannot contradict each other, and SHA-256
/// takes several times as long.
pub(crate) fn quick_difference(dir: &Path, listed: &ManifestFile) -> Result<Option<String>> {
    let (mut size, mut hasher) = (0, Hasher::new(Domain::Artifact));
    let read = each_piece(&dir.join(&listed.path), |piece| {
        size += piece.len() as u64;
        hasher.update(piece);
    });
    told(read.map(|()| contrasted(size, listed.size, hasher.finish() == listed.blake3)), dir, listed)
}

/// What a look at a file came to.
fn told(looked: io::Result<Option<String>>, dir: &Path, listed: &ManifestFile) -> Result<Option<String>> {
    match looked {
        Ok(difference) => Ok(difference),
        Err(error) if says_nothing(&error) => Err(error).at("read", &dir.join(&listed.path)),
        Err(error) => Ok(Some(what_is_wrong(&error))),
    }
}

/// Whether a file could not be read because this process or the machine is short of something: that says nothing of it.
fn says_nothing(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
}

/// Whether there is a link in place of the file.
fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Why a file is not what was recorded, where it cannot be read.
pub(crate) fn what_is_wrong(error: &io::Error) -> String {
    let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) || is_link(error);
    if is_missing { "is missing".to_owned() } else { format!("cannot be read: {error}") }
}

/// How a file differs from what was recorded of it.
pub(crate) fn contrast(found: &ManifestFile, size: u64, sha256: &Digest, blake3: Option<&Digest>) -> Option<String> {
    contrasted(found.size, size, found.sha256 == *sha256 && blake3.is_none_or(|blake3| found.blake3 == *blake3))
}

fn contrasted(found: u64, size: u64, same_digests: bool) -> Option<String> {
    if found == 0 && size > 0 {
        return Some("is empty".into());
    }
    (found != size || !same_digests).then(|| "differs from what was recorded".into())
}

/// What a file below a directory is now. Links are not followed.
pub(crate) fn hashed(dir: &Path, path: &str) -> io::Result<ManifestFile> {
    let mut hasher = DoubleHasher::new();
    each_piece(&dir.join(path), |piece| {
        hasher.update(piece);
    })?;
    let done = hasher.finish();
    Ok(ManifestFile { path: path.to_owned(), size: done.bytes, blake3: done.blake3, sha256: done.sha256 })
}

/// Hands over the bytes of a file, a piece at a time. A link in its place is not followed.
fn each_piece(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = File::options().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            n => each(&buffer[..n]),
        }
    }
}

pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)
}

/// Syncs the directories of a small tree, bottom up.
pub(crate) fn sync_dirs(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let entry = entry.at("list", dir)?;
        if entry.file_type().at("look at", &entry.path())?.is_dir() {
            sync_dirs(&entry.path())?;
        }
    }
    sync_dir(dir)
}

/// Removes a tree without following links, whatever rights an agent left on its directories.
pub fn remove_tree(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(meta) if !meta.is_dir() => return std::fs::remove_file(path).at("remove", path),
        _ => {}
    }
    if std::fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    make_removable(path);
    std::fs::remove_dir_all(path).at("remove", path)
}

fn make_removable(dir: &Path) {
    let _ = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700));
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_say_nothing_about_the_one_that_was_asked_for() {
        let error = |errno: Errno| io::Error::from(errno);
        for short in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert!(says_nothing(&error(short)), "{short}");
        }
        for (errno, wrong) in [(Errno::NOENT, "is missing"), (Errno::LOOP, "is missing"), (Errno::NOTDIR, "is missing")]
        {
            assert_eq!((says_nothing(&error(errno)), what_is_wrong(&error(errno)).as_str()), (false, wrong));
        }
        assert!(what_is_wrong(&error(Errno::IO)).starts_with("cannot be read: "));
    }
}
