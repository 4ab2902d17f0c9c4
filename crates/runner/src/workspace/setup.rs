//! The results of setups: what makes a fresh workspace buildable, made once and then shown to every turn.
//!
//! ```text
//! cache/<uid>/setup/layers/<key>/
//!   layer.json   what it was made for
//!   files/       what the setup made
//!   cache/       the part of that which a later setup may start from
//!   fresh/       files of the tree, with new times
//!   changed      the paths of those, each ended by a zero byte
//! ```
//! Two rules keep a warm cache from giving a stale result.
//!
//! *Who may fill it.* A cache is taken only from the setup of a tree that is the user's own. What the setup of a tree
//! with an agent's change made is seen by that run alone: such a change can have the setup write anything.
//!
//! *Times.* Build tools take an output that is newer than its source for up to date. A file that is not what it was
//! when the cache was filled therefore gets a new time (`fresh/`), and so does every file that ever changed since the
//! cache was begun: an output that no setup in between has made again is as old as its source was then.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use contract::Digest;
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::files::{self, Place};
use super::index::{Indexed, Stamp};
use super::listing::{self, Listing, Time};
use super::lower::Removed;
use super::shelf::Shelf;
use super::walk::is_opaque;
use crate::git::objects::Objects;
use crate::git::sweep::{self, Trash};
use crate::git::tree::{self, MODE_GITLINK, join, split};
use crate::git::{GitError, IoContext, ObjectId};

/// What a layer holds may change: those of another version are not used.
const VERSION: u32 = 2;

/// How many results of the same setup stay: the one in use, and the one to go back to.
pub const SETUPS_KEPT: usize = 2;

/// What holds the files of a result, from the top.
const PARTS: [&str; 3] = ["files", "cache", "fresh"];

/// What of its digest names a layer: enough that no two are ever the same.
const NAME_CHARS: usize = 40;

/// What a setup is for.
#[derive(Debug, Clone)]
pub struct SetupOrder<'a> {
    /// The files it works on.
    pub tree: ObjectId,
    /// Program and arguments.
    pub argv: &'a [String],
    /// What of its result the next one starts from, as paths from the root.
    pub cache_paths: &'a [String],
    /// Where the workspace is seen: results hold absolute paths.
    pub root: &'a Path,
    /// What the user's checkout adds to the tree.
    pub include: Option<Digest>,
    /// The run whose own tree it is; none for a tree of the user's.
    pub run: Option<String>,
}

/// `layer.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    version: u32,
    tree: String,
    argv: Vec<String>,
    family: String,
    run: Option<String>,
    /// Nanoseconds since 1970.
    finished: u64,
    /// Its directories of files, and what they looked like when it was complete.
    parts: BTreeMap<String, Listing>,
}

/// The results there are.
#[derive(Debug)]
pub struct SetupLayers {
    shelf: Shelf,
}

/// A result in use: as long as this value lives, nobody removes it.
#[derive(Debug)]
pub struct SetupLayer {
    /// The directories to lay over the tree, from the top. Read-only.
    pub lower: Vec<PathBuf>,
    /// Its name.
    pub name: String,
    _held: File,
}

/// A result that is coming to be. Nothing else is made or removed meanwhile.
pub struct SetupMaking<'s> {
    layers: &'s SetupLayers,
    dir: PathBuf,
    name: String,
    document: Document,
    cache_paths: Vec<Vec<u8>>,
    source: Option<Source>,
    _lock: File,
}

/// The result whose cache the new one starts from.
struct Source {
    dir: PathBuf,
    document: Document,
    _held: File,
}

impl SetupOrder<'_> {
    /// What results have in common whose caches can stand in for each other.
    fn family(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("norma setup family v1");
        field(&mut hasher, &VERSION.to_le_bytes());
        field(&mut hasher, self.root.as_os_str().as_encoded_bytes());
        for list in [self.argv, self.cache_paths] {
            field(&mut hasher, &(list.len() as u64).to_le_bytes());
            list.iter().for_each(|word| field(&mut hasher, word.as_bytes()));
        }
        name_of(&hasher)
    }

    /// Everything that decides what a result is.
    fn name(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("norma setup layer v1");
        field(&mut hasher, self.family().as_bytes());
        field(&mut hasher, self.tree.as_bytes());
        field(&mut hasher, self.include.as_ref().map_or(&[], |digest| digest.as_bytes().as_slice()));
        field(&mut hasher, self.run.as_deref().unwrap_or_default().as_bytes());
        name_of(&hasher)
    }
}

fn field(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

fn name_of(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..NAME_CHARS].to_owned()
}

impl Document {
    fn read(dir: &Path) -> Option<Document> {
        let document: Document = serde_json::from_slice(&fs::read(dir.join("layer.json")).ok()?).ok()?;
        (document.version == VERSION).then_some(document)
    }

    /// The same if its files are still what the setup made.
    fn read_sound(dir: &Path) -> Option<Document> {
        let document = Document::read(dir)?;
        let is_sound = document.parts.iter().all(|(part, listing)| listing::is_sound(&dir.join(part), listing));
        is_sound.then_some(document)
    }
}

impl SetupLayers {
    /// Opens the results kept below `cache`.
    pub fn open(cache: &Path) -> Result<SetupLayers, GitError> {
        Ok(SetupLayers { shelf: Shelf::open(cache, Some("setup"))? })
    }

    /// The result of a setup, if there is one.
    pub fn take(&self, order: &SetupOrder<'_>) -> Result<Option<SetupLayer>, GitError> {
        let name = order.name();
        let Some(held) = self.shelf.hold(&name)? else { return Ok(None) };
        let dir = self.shelf.dir_of(&name);
        let Some(document) = Document::read_sound(&dir) else { return Ok(None) };
        held.set_modified(SystemTime::now()).context("touch", &self.shelf.lock_path(&name))?;
        let lower = PARTS.iter().filter(|part| document.parts.contains_key(**part)).map(|part| dir.join(part));
        Ok(Some(SetupLayer { lower: lower.collect(), name, _held: held }))
    }

    /// Begins a result anew, whatever a killed process left of it.
    pub fn begin(&self, objects: &Objects, order: &SetupOrder<'_>) -> Result<SetupMaking<'_>, GitError> {
        let lock = self.shelf.wait_for_making()?;
        self.shelf.clear_leftovers()?;
        listing::set_damaged_aside(&self.shelf)?;
        self.shelf.free(&order.name())?;
        let document = Document {
            version: VERSION,
            tree: order.tree.to_string(),
            argv: order.argv.to_vec(),
            family: order.family(),
            run: order.run.clone(),
            finished: 0,
            parts: BTreeMap::new(),
        };
        let source = self.source(&document, order.cache_paths)?;
        let normal = |path: &String| contract::RepoPath::parse(path).ok().map(|path| path.as_str().as_bytes().to_vec());
        let mut making = SetupMaking {
            layers: self,
            dir: self.shelf.begin()?,
            name: order.name(),
            document,
            cache_paths: order.cache_paths.iter().filter_map(normal).collect(),
            source,
            _lock: lock,
        };
        making.freshen(objects, order.tree)?;
        Ok(making)
    }

    /// The newest result for a tree of the user's that has a cache for this one.
    fn source(&self, wanted: &Document, cache_paths: &[String]) -> Result<Option<Source>, GitError> {
        let mut best: Option<Source> = None;
        let names = if cache_paths.is_empty() { Vec::new() } else { self.shelf.names()? };
        for name in names {
            let Some(held) = self.shelf.hold(&name)? else { continue };
            let dir = self.shelf.dir_of(&name);
            let Some(document) = Document::read_sound(&dir) else { continue };
            let fits = document.family == wanted.family && document.run.is_none();
            if fits && best.as_ref().is_none_or(|best| best.document.finished < document.finished) {
                best = Some(Source { dir, document, _held: held });
            }
        }
        Ok(best)
    }

    /// Removes what nobody uses, but for the newest few of every setup.
    pub fn gc(&self, keep: usize) -> Result<Removed, GitError> {
        self.remove(|rank, document| document.run.is_some() || rank >= keep)
    }

    /// Removes what was made for the trees of one run.
    pub fn forget_run(&self, run: &str) -> Result<Removed, GitError> {
        self.remove(|_, document| document.run.as_deref() == Some(run))
    }

    fn remove(&self, is_spare: impl Fn(usize, &Document) -> bool) -> Result<Removed, GitError> {
        let Some(_making) = self.shelf.try_making()? else {
            return Ok(Removed { busy: true, ..Removed::default() });
        };
        self.shelf.clear_leftovers()?;
        self.remove_locked(is_spare)
    }

    /// Only for who holds the lock. What is not known for a result of this version is removed, too.
    fn remove_locked(&self, is_spare: impl Fn(usize, &Document) -> bool) -> Result<Removed, GitError> {
        let mut removed = Removed::default();
        let mut known = Vec::new();
        for name in self.shelf.names()? {
            match Document::read(&self.shelf.dir_of(&name)) {
                Some(document) => known.push((name, document)),
                None => removed.count(self.shelf.discard(&name)?),
            }
        }
        known.sort_by_key(|(_, document)| std::cmp::Reverse(document.finished));
        for (index, (name, document)) in known.iter().enumerate() {
            let same = |other: &&(String, Document)| other.1.family == document.family && other.1.run.is_none();
            let rank = known[..index].iter().filter(same).count();
            if is_spare(rank, document) {
                removed.count(self.shelf.discard(name)?);
            }
        }
        Ok(removed)
    }
}

impl SetupMaking<'_> {
    /// The directory whose `upper` takes what the setup writes.
    pub fn layer(&self) -> &Path {
        &self.dir
    }

    /// What is laid over the tree while the setup runs, from the top.
    pub fn below(&self) -> Vec<PathBuf> {
        let cache = self.source.iter().map(|source| source.dir.join("cache"));
        cache.chain([self.dir.join("fresh")]).filter(|dir| dir.is_dir()).collect()
    }

    /// Lets go of it, now that it came to nothing.
    pub fn abandon(self) -> Result<(), GitError> {
        self.layers.shelf.clear_leftovers()
    }

    /// Gives new times to the files that are not what they were when the cache was filled. A cache whose tree is
    /// not known any more is of no use.
    fn freshen(&mut self, objects: &Objects, tree: ObjectId) -> Result<(), GitError> {
        let Some(source) = &self.source else { return Ok(()) };
        let Some(changed) = changed_since(objects, source, tree) else {
            self.source = None;
            return Ok(());
        };
        let path = self.dir.join("changed");
        fs::write(&path, changed.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect::<Vec<u8>>())
            .context("write", &path)?;
        let after = source.document.finished;
        write_fresh(objects, tree, &changed, &self.dir.join("fresh"), after.max(nanos_now()))
    }

    /// Completes it. Only for when every process of the setup is dead, and nothing of the tree was changed.
    /// `own` are paths of norma's in the workspace, which are not part of the result.
    pub fn finish(mut self, own: &[&[u8]]) -> Result<(), GitError> {
        let (upper, cache) = (self.dir.join("upper"), self.dir.join("cache"));
        fs::create_dir_all(&upper).context("create directory", &upper)?;
        fs::create_dir(&cache).context("create directory", &cache)?;
        let (from, to) = (sweep::open_directory(&upper)?, sweep::open_directory(&cache)?);
        let mut trash = Trash::open(&self.dir.join("trash"))?;
        trash.discard(&sweep::open_directory(&self.dir)?, c"work").context("remove from", &self.dir)?;
        for path in own.iter().copied().chain([&b".git"[..]]) {
            discard_below(&from, path, &mut trash).context("remove from", &upper)?;
        }
        trash.empty()?;
        for path in &self.cache_paths {
            self.keep_cache(&from, &to, path).context("keep the cache of", &upper)?;
        }
        let named = self.dir.join("files");
        fs::rename(&upper, &named).context("rename to", &named)?;
        self.document.finished = nanos_now();
        self.document.parts = list_parts(&self.dir)?;
        let path = self.dir.join("layer.json");
        let bytes = serde_json::to_vec_pretty(&self.document).expect("BUG: a document is plain data");
        fs::write(&path, bytes).context("write", &path)?;
        // Overlays do not sync; what took minutes to make is worth keeping over a power cut.
        rustix::fs::syncfs(&from).context("sync", &named)?;
        self.layers.shelf.finish(&self.name)?;
        let dir = self.layers.shelf.dir_of(&self.name);
        self.document.parts.iter().for_each(|(part, listing)| listing::is_made(&dir.join(part), listing));
        let family = &self.document.family;
        let spare =
            |rank: usize, other: &Document| other.family == *family && other.run.is_none() && rank >= SETUPS_KEPT;
        self.layers.remove_locked(spare).map(drop)
    }

    /// Moves a cache path out of what the setup made, and adds what the setup left of the cache it started from. Every
    /// result is whole: none depends on the one before.
    fn keep_cache(&self, from: &OwnedFd, to: &OwnedFd, path: &[u8]) -> io::Result<()> {
        let (parent, name) = split(path);
        let (there, hidden) = match look_up(from, path)? {
            Found::Gone => return Ok(()),
            Found::Untouched => (false, false),
            Found::There { hidden } => (true, hidden),
        };
        let target = sweep::make_below(to, parent)?;
        if there {
            rustix::fs::renameat(sweep::open_below(from, parent)?, name, &target, name)?;
        }
        match &self.source {
            Some(source) if !hidden => match sweep::open_directory(&source.dir.join("cache")) {
                Ok(cache) => adopt(&cache, to, path),
                Err(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Lists the directories of files that a result has.
fn list_parts(dir: &Path) -> Result<BTreeMap<String, Listing>, GitError> {
    let mut parts = BTreeMap::new();
    for part in PARTS {
        let path = dir.join(part);
        // Results share the files of their caches.
        let time = if part == "cache" { Time::Modified } else { Time::Changed };
        if path.is_dir() {
            parts.insert(part.to_owned(), Listing::of(&path, time).context("list", &path)?);
        }
    }
    Ok(parts)
}

/// The paths that differ between the tree of a cache and this one, or that ever did since the cache was begun; `None`
/// if that cannot be found out.
fn changed_since(objects: &Objects, source: &Source, tree: ObjectId) -> Option<BTreeSet<Vec<u8>>> {
    let mut changed = BTreeSet::new();
    match fs::read(source.dir.join("changed")) {
        Ok(bytes) => {
            let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            changed.extend(paths.map(<[u8]>::to_vec));
        }
        // It was the first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return None,
    }
    let before = ObjectId::from_hex(source.document.tree.as_bytes()).ok()?;
    changed.extend(objects.diff(before, tree).ok()?.into_iter().map(|change| change.path));
    Some(changed)
}

fn write_fresh(
    objects: &Objects,
    tree: ObjectId,
    changed: &BTreeSet<Vec<u8>>,
    dir: &Path,
    nanos: u64,
) -> Result<(), GitError> {
    let reader = objects.reader()?;
    let time = Stamp { seconds: (nanos / 1_000_000_000) as i64, nanos: (nanos % 1_000_000_000) as u32 };
    let mut written = Vec::new();
    for path in changed {
        if let Some(entry) = tree::lookup(&reader, tree, path)?.filter(|it| !it.is_tree() && it.mode != MODE_GITLINK) {
            written.push(Indexed { path: path.clone(), entry, size: 0, time, covered: false });
        }
    }
    fs::create_dir(dir).context("create directory", dir)?;
    let root = sweep::open_directory(dir)?;
    let place = Place { objects, path: dir, root: &root };
    files::make_directories(&place, written.iter().map(|file| file.path.as_slice()))?;
    files::write_all(&place, &mut written, &mut |_| ())
}

/// What an upper directory says of a path.
enum Found {
    /// Nothing.
    Untouched,
    /// That it is no more.
    Gone,
    /// That it is this; whatever is below it is hidden, or shows through.
    There { hidden: bool },
}

fn look_up(upper: &OwnedFd, path: &[u8]) -> io::Result<Found> {
    let (mut at, mut hidden) = (upper.try_clone()?, false);
    let mut names = path.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let Some(stat) = stat_in(&at, name)? else {
            return Ok(if hidden { Found::Gone } else { Found::Untouched });
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if is_whiteout(&stat) || (names.peek().is_some() && kind != FileType::Directory) {
            return Ok(Found::Gone);
        }
        if kind == FileType::Directory {
            at = sweep::open_below(&at, name)?;
            hidden |= is_opaque(&at);
        }
    }
    Ok(Found::There { hidden })
}

/// Gives what lies at and below a path another name in another tree, where nothing has that name yet. Both trees are
/// only ever read from then on.
fn adopt(from: &OwnedFd, to: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let (parent, name) = split(path);
    let Ok(name) = CString::new(name) else { return Ok(()) };
    let mut due = vec![(parent.to_vec(), vec![name])];
    while let Some((dir, names)) = due.pop() {
        let Ok(source) = sweep::open_below(from, &dir) else { continue };
        let target = sweep::open_below(to, &dir)?;
        for name in names {
            if adopt_one(&source, &target, &name)? {
                let below = join(&dir, name.to_bytes());
                due.push((below, sweep::names_in(&sweep::open_below(&source, name.to_bytes())?)?));
            }
        }
    }
    Ok(())
}

/// Adopts one name; whether there is more to do below it.
fn adopt_one(source: &OwnedFd, target: &OwnedFd, name: &CStr) -> io::Result<bool> {
    let Some(found) = stat_in(source, name.to_bytes())? else { return Ok(false) };
    let there = stat_in(target, name.to_bytes())?;
    Ok(match (FileType::from_raw_mode(found.st_mode), there) {
        (FileType::Directory, None) => {
            rustix::fs::mkdirat(target, name, Mode::from_raw_mode(found.st_mode) | Mode::RWXU)?;
            true
        }
        (FileType::Directory, Some(there)) => {
            let is_directory = FileType::from_raw_mode(there.st_mode) == FileType::Directory;
            is_directory && !is_opaque(&sweep::open_below(target, name.to_bytes())?)
        }
        (FileType::RegularFile | FileType::Symlink, None) => {
            rustix::fs::linkat(source, name, target, name, AtFlags::empty())?;
            false
        }
        _ => false,
    })
}

fn discard_below(root: &OwnedFd, path: &[u8], trash: &mut Trash) -> io::Result<()> {
    let (parent, name) = split(path);
    let (Ok(parent), Ok(name)) = (sweep::open_below(root, parent), CString::new(name)) else { return Ok(()) };
    trash.discard(&parent, &name)
}

/// What a name is, the entry itself and not what it leads to; `None` if it is not there.
fn stat_in(dir: impl AsFd, name: &[u8]) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn nanos_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn whiteout(root: &Path, path: &str) {
        rustix::fs::mknodat(rustix::fs::CWD, root.join(path), FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    fn opaque(dir: &Path) {
        rustix::fs::setxattr(dir, "user.overlay.opaque", b"y", rustix::fs::XattrFlags::empty()).unwrap();
    }

    /// Regular files below a directory, with their content.
    fn found(root: &Path) -> Vec<String> {
        let (mut found, mut due) = (Vec::new(), vec![root.to_owned()]);
        while let Some(dir) = due.pop() {
            for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    due.push(entry.path());
                } else if kind.is_file() {
                    let path = entry.path();
                    let shown = path.strip_prefix(root).unwrap().display();
                    found.push(format!("{shown}={}", fs::read_to_string(&path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    fn order(tree: ObjectId) -> SetupOrder<'static> {
        SetupOrder { tree, argv: &[], cache_paths: &[], root: Path::new("/r"), include: None, run: None }
    }

    #[test]
    fn everything_that_decides_a_result_is_in_its_name() {
        let (one, other) = (gix_hash::Kind::Sha1.null(), gix_hash::Kind::Sha1.empty_tree());
        let (a, ab) = (["a".to_owned(), "b".to_owned()], ["ab".to_owned()]);
        let include = contract::hash::sha256(b"x");
        let orders = [
            order(one),
            order(other),
            SetupOrder { argv: &a, ..order(one) },
            SetupOrder { argv: &ab, ..order(one) },
            SetupOrder { cache_paths: &a, ..order(one) },
            SetupOrder { root: Path::new("/elsewhere"), ..order(one) },
            SetupOrder { include: Some(include), ..order(one) },
            SetupOrder { run: Some("r".to_owned()), ..order(one) },
        ];
        let names: BTreeSet<String> = orders.iter().map(SetupOrder::name).collect();
        assert_eq!(names.len(), orders.len());
        assert_eq!(order(one).family(), order(other).family());
    }

    #[test]
    fn a_cache_is_what_the_setup_left_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let (source, new) = (dir.path().join("source"), dir.path().join("new"));
        for path in ["out/kept", "out/replaced", "out/gone", "out/d/kept", "out/hidden/gone", "out/was/a/directory"] {
            write(&source, path, "old");
        }
        write(&source, "not/asked/for", "old");
        write(&new, "out/replaced", "new");
        write(&new, "out/hidden/new", "new");
        write(&new, "out/was", "new");
        whiteout(&new, "out/gone");
        opaque(&new.join("out/hidden"));
        let open = |path: &Path| sweep::open_directory(path).unwrap();
        adopt(&open(&source), &open(&new), b"out").unwrap();
        let expected = ["out/d/kept=old", "out/hidden/new=new", "out/kept=old", "out/replaced=new", "out/was=new"];
        assert_eq!(found(&new), expected);
        adopt(&open(&source), &open(&new), b"missing").unwrap();
        assert_eq!(found(&new), expected);
    }

    #[test]
    fn an_upper_directory_says_what_became_of_a_path() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["plain/out/x", "opaque/out/x", "file"] {
            write(dir.path(), path, "");
        }
        fs::create_dir(dir.path().join("removed")).unwrap();
        whiteout(dir.path(), "removed/out");
        opaque(&dir.path().join("opaque"));
        let upper = sweep::open_directory(dir.path()).unwrap();
        let look = |path: &str| match look_up(&upper, path.as_bytes()).unwrap() {
            Found::Untouched => "untouched",
            Found::Gone => "gone",
            Found::There { hidden: false } => "there",
            Found::There { hidden: true } => "hidden",
        };
        let paths = ["out", "plain/other", "plain/out", "opaque/out", "opaque/other", "removed/out", "file/out"];
        let expected = ["untouched", "untouched", "there", "hidden", "gone", "gone", "gone"];
        assert_eq!(paths.map(look), expected);
    }
}
