//! One layer: a directory with files and a part of `.git`, and `layer.json` beside it that says what it is.
//!
//! A *base* is a whole checkout. A *thin* layer is a difference: changed files with their new content, and a
//! character device 0:0 for every name that is gone, which the overlay takes for "not there".

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode};
use serde::{Deserialize, Serialize};

use super::difference::{self, Difference};
use super::files::{self, Place};
use super::index::{self, Indexed, Marks, Stamp};
use super::listing::{self, Listing, Time};
use super::private_git::{self, Position};
use super::{Progress, Secret};
use crate::git::blob::LARGE_BYTES_MIN;
use crate::git::objects::{Objects, Reader};
use crate::git::tree::{MODE_GITLINK, MODE_TREE, join};
use crate::git::{Entry, GitError, IoContext, ObjectId, sweep};
use contract::History;

/// What is written, and which names count as secret, may change: layers of another version are not used.
pub(super) const VERSION: u32 = 4;

/// What makes it quick to write an index that differs little from the layer's own.
const MARKS: &str = listing::BESIDE;

/// A base of this many files is brought to the disk, so that it outlives a power cut. A smaller one is made anew sooner
/// than a busy disk has been waited for.
const SYNCED_FILES_MIN: u64 = 10_000;

/// `layer.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Layer {
    pub(super) version: u32,
    /// What the files are, seen through this layer and all below it.
    pub(super) tree: String,
    /// What HEAD names.
    pub(super) commit: String,
    pub(super) history: History,
    /// The layers below it, from the top.
    pub(super) below: Vec<String>,
    /// How many files the tree has.
    pub(super) files: u64,
    /// Whether its files are known to be on the disk.
    synced: bool,
    /// When the machine was started. Of what is not synced, the next start may find names without content.
    boot: String,
    /// Tracked files whose name says that they hold a secret.
    secrets: Vec<PathText>,
    /// What its files looked like when it was complete.
    pub(super) listing: Listing,
}

/// A path in JSON: text, or bytes where it is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum PathText {
    Text(String),
    Bytes(Vec<u8>),
}

impl Layer {
    /// Tracked files whose name says that they hold a secret, as exact paths.
    pub(super) fn secrets(&self) -> Vec<Vec<u8>> {
        let bytes = |path: &PathText| match path {
            PathText::Text(text) => text.clone().into_bytes(),
            PathText::Bytes(bytes) => bytes.clone(),
        };
        self.secrets.iter().map(bytes).collect()
    }

    /// Reads `layer.json`; `None` if there is none that can be trusted since the machine was started.
    pub(super) fn read(dir: &Path, boot: &str) -> Option<Layer> {
        let layer: Layer = serde_json::from_slice(&fs::read(dir.join("layer.json")).ok()?).ok()?;
        (layer.version == VERSION && (layer.synced || layer.boot == boot)).then_some(layer)
    }

    /// Whether it is worth being brought to the disk, and is not known to be there.
    pub(super) fn is_due_to_sync(&self) -> bool {
        !self.synced && self.below.is_empty() && self.files >= SYNCED_FILES_MIN
    }

    /// Says that everything a layer holds is on the disk. Only for when it is.
    pub(super) fn set_synced(dir: &Path) -> Result<(), GitError> {
        let path = dir.join("layer.json");
        // Another process may be at the same.
        let new = store::temporary_name(&path);
        let bytes = fs::read(&path).context("read", &path)?;
        let layer: Layer = serde_json::from_slice(&bytes).map_err(io::Error::from).context("read", &path)?;
        let bytes = serde_json::to_vec_pretty(&Layer { synced: true, ..layer }).expect("BUG: a layer is plain data");
        let mut file = fs::File::create(&new).context("create", &new)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).context("write", &new)?;
        fs::rename(&new, &path).context("rename to", &path)
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), GitError> {
        let path = dir.join("layer.json");
        let bytes = serde_json::to_vec_pretty(self).expect("BUG: a layer is plain data");
        fs::write(&path, bytes).context("write", &path)
    }
}

/// Where a layer's files are.
pub(super) fn files_of(dir: &Path) -> PathBuf {
    dir.join("files")
}

/// What every layer is made from.
pub(super) struct Making<'a> {
    pub(super) objects: &'a Objects,
    pub(super) position: Position,
    /// A new directory that becomes the layer.
    pub(super) dir: &'a Path,
    pub(super) is_secret: Secret,
    pub(super) boot: &'a str,
}

impl Making<'_> {
    /// Makes a base: every file, read back once. It is not waited for the disk (`synced.rs`).
    pub(super) fn base(&self, progress: &mut dyn FnMut(Progress)) -> Result<Layer, GitError> {
        let reader = self.objects.reader()?;
        let stamp = now();
        let (files, root) = self.begin()?;
        let (mut listed, trees) = list(&reader, self.position.tree, stamp)?;
        listed.iter_mut().for_each(|file| file.covered = self.is_secret_path(&file.path, file.entry));
        let place = Place { objects: self.objects, path: &files, root: &root };
        let of = listed.len();
        let mut done = 0;
        progress(Progress { done, of });
        files::make_directories(&place, listed.iter().map(|file| file.path.as_slice()))?;
        files::write_all(&place, &mut listed, &mut |more| {
            done += more;
            progress(Progress { done, of });
        })?;
        files::verify_all(&place, &mut listed)?;
        private_git::begin(&files, self.objects.format)?;
        let mut covered = self.pack_base(&reader, &files, &listed, trees)?;
        covered.extend(listed.iter().filter(|file| file.covered).map(|file| file.entry.id));
        if !covered.is_empty() {
            private_git::cover(&files, self.objects.format, &covered, None)?;
        }
        private_git::set_head(&files, &reader, self.position)?;
        let (index, marks) = index::encode(self.objects.format, &listed);
        private_git::put(&files, "index", &index)?;
        self.put_marks(&marks)?;
        let secrets = listed.iter().filter(|file| file.covered);
        let secrets = secrets.map(|file| file.path.clone()).collect();
        self.complete(Vec::new(), of as u64, secrets)
    }

    /// Makes a thin layer on top of another.
    pub(super) fn thin(&self, below: &Below<'_>, difference: &Difference) -> Result<Layer, GitError> {
        let reader = self.objects.reader()?;
        let stamp = now();
        let (files, root) = self.begin()?;
        let mut written = written(difference, stamp);
        written.iter_mut().for_each(|file| file.covered = self.is_secret_path(&file.path, file.entry));
        let place = Place { objects: self.objects, path: &files, root: &root };
        let paths = written.iter().map(|file| &file.path).chain(&difference.hidden);
        files::make_directories(&place, paths.map(Vec::as_slice))?;
        files::write_all(&place, &mut written, &mut |_| ())?;
        for path in &difference.hidden {
            let device = FileType::CharacterDevice;
            let made = rustix::fs::mknodat(&root, path.as_slice(), device, Mode::empty(), 0);
            made.context("hide a name in", &files)?;
        }
        private_git::set_head(&files, &reader, self.position)?;
        let secrets = self.carry_secrets(below.layer, difference);
        // The two longest parts do not need each other.
        std::thread::scope(|scope| {
            let objects = scope.spawn(|| self.add_objects(&files, below.position, difference));
            let index = self.splice_index(&files, below, difference, written);
            let covered = objects.join().expect("BUG: packing objects panicked");
            index.and(covered)
        })
        .and_then(|covered| self.cover_anew(&files, below, &secrets, covered))?;
        let (added, removed) = counts(difference);
        let files_now = (below.layer.files + added).saturating_sub(removed);
        let mut chain = vec![below.name.to_owned()];
        chain.extend(below.layer.below.iter().cloned());
        self.complete(chain, files_now, secrets)
    }

    fn begin(&self) -> Result<(PathBuf, OwnedFd), GitError> {
        let files = files_of(self.dir);
        fs::create_dir(&files).context("create directory", &files)?;
        let root = sweep::open_directory(&files)?;
        Ok((files, root))
    }

    /// Says what the layer is, now that nothing of its files changes any more.
    fn complete(&self, below: Vec<String>, files: u64, secrets: BTreeSet<Vec<u8>>) -> Result<Layer, GitError> {
        let listed = files_of(self.dir);
        let text = |bytes| String::from_utf8(bytes).map_or_else(|no| PathText::Bytes(no.into_bytes()), PathText::Text);
        let layer = Layer {
            version: VERSION,
            tree: self.position.tree.to_string(),
            commit: self.position.commit.to_string(),
            history: self.position.history,
            below,
            files,
            synced: false,
            boot: self.boot.to_owned(),
            secrets: secrets.into_iter().map(text).collect(),
            listing: Listing::of(&listed, Time::Changed).context("list", &listed)?,
        };
        layer.write(self.dir)?;
        Ok(layer)
    }

    fn is_secret_path(&self, path: &[u8], entry: Entry) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        entry.mode != MODE_GITLINK && (self.is_secret)(&String::from_utf8_lossy(name))
    }

    /// Has the agent's repository do without what is covered here and not in the layers below.
    fn cover_anew(
        &self,
        files: &Path,
        below: &Below<'_>,
        secrets: &BTreeSet<Vec<u8>>,
        mut covered: BTreeSet<ObjectId>,
    ) -> Result<(), GitError> {
        covered.extend(self.covered(below, secrets)?);
        let before = below.covered();
        let is_known = |id: &ObjectId| before.as_ref().is_some_and(|before| before.contains(&id.to_string()));
        match covered.iter().all(is_known) {
            true => Ok(()),
            false => private_git::cover(files, self.objects.format, &covered, before.as_deref()),
        }
    }

    /// What is covered here and one layer below: HEAD may be at a tree of before.
    fn covered(&self, below: &Below<'_>, secrets: &BTreeSet<Vec<u8>>) -> Result<Vec<ObjectId>, GitError> {
        let here = secrets.iter().map(|path| (self.position.tree, path.clone()));
        let there = below.layer.secrets().into_iter().map(|path| (below.position.tree, path));
        let found = here.chain(there).map(|(tree, path)| self.objects.tree_entry(tree, &path));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().flatten().map(|(_, id)| id).collect())
    }

    /// What a difference adds that agents may see.
    fn objects_of<'d>(&self, difference: &'d Difference) -> impl Iterator<Item = ObjectId> + use<'d, '_> {
        let new = difference.changes.iter().filter_map(|change| Some((&change.path, change.new?)));
        let shown = new.filter(|(path, entry)| entry.mode != MODE_GITLINK && !self.is_secret_path(path, *entry));
        shown.map(|(_, entry)| entry.id).chain(difference.trees.iter().copied())
    }

    fn new_objects(&self, reader: &Reader<'_>, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, GitError> {
        let found = difference::between(reader, old, new, usize::MAX)?;
        Ok(found.iter().flat_map(|found| self.objects_of(found)).collect())
    }

    fn carry_secrets(&self, below: &Layer, difference: &Difference) -> BTreeSet<Vec<u8>> {
        let mut secrets: BTreeSet<Vec<u8>> = below.secrets().into_iter().collect();
        for change in &difference.changes {
            match change.new {
                Some(entry) if self.is_secret_path(&change.path, entry) => drop(secrets.insert(change.path.clone())),
                _ => drop(secrets.remove(&change.path)),
            }
        }
        secrets
    }

    fn pack_base(
        &self,
        reader: &Reader<'_>,
        files: &Path,
        listed: &[Indexed],
        trees: Vec<ObjectId>,
    ) -> Result<BTreeSet<ObjectId>, GitError> {
        let shown = |file: &&Indexed| file.entry.mode != MODE_GITLINK && !file.covered;
        let large = listed.iter().filter(shown).filter(|file| file.size >= LARGE_BYTES_MIN);
        let there = private_git::copy_loose(self.objects, files, large.map(|file| file.entry.id))?;
        if self.position.history == History::Full {
            return private_git::pack_history(self.objects, files, self.position, None, &there, self.is_secret);
        }
        let blobs = listed.iter().filter(shown).map(|file| file.entry.id);
        let mut ids: BTreeSet<ObjectId> = blobs.chain(trees).chain([self.position.commit]).collect();
        let head = reader.commit(self.position.commit)?.0;
        if head != self.position.tree {
            ids.extend(self.new_objects(reader, self.position.tree, head)?);
        }
        private_git::add_pack(self.objects, reader, files, &ids.difference(&there).copied().collect::<Vec<_>>())?;
        Ok(BTreeSet::new())
    }

    /// Adds what this position has and the one below has not; what of that is covered besides its own files.
    fn add_objects(
        &self,
        files: &Path,
        below: Position,
        difference: &Difference,
    ) -> Result<BTreeSet<ObjectId>, GitError> {
        let reader = &self.objects.reader()?;
        if self.position.history == History::Full && self.position.commit != below.commit {
            let (there, below) = (&BTreeSet::new(), Some(below));
            return private_git::pack_history(self.objects, files, self.position, below, there, self.is_secret);
        }
        let mut ids: BTreeSet<ObjectId> = self.objects_of(difference).collect();
        if self.position.commit != below.commit {
            ids.insert(self.position.commit);
            let head = reader.commit(self.position.commit)?.0;
            if head != self.position.tree {
                ids.extend(self.new_objects(reader, below.tree, head)?);
            }
        }
        let ids: Vec<ObjectId> = ids.into_iter().collect();
        private_git::add_pack(self.objects, reader, files, &ids)?;
        Ok(BTreeSet::new())
    }

    fn splice_index(
        &self,
        files: &Path,
        below: &Below<'_>,
        difference: &Difference,
        written: Vec<Indexed>,
    ) -> Result<(), GitError> {
        let mut new = written.into_iter().peekable();
        let paths = difference.changes.iter().map(|change| change.path.clone());
        let change = |path| {
            let indexed = new.next_if(|file| file.path == path);
            (path, indexed)
        };
        let changes: Vec<_> = paths.map(change).collect();
        let (from, to) = (files_of(below.dir).join(".git/index"), files.join(".git/index"));
        let marks_path = below.dir.join(MARKS);
        let marks = Marks::from_bytes(&fs::read(&marks_path).context("read", &marks_path)?);
        let marks = marks.ok_or(io::ErrorKind::InvalidData).context("read", &marks_path)?;
        let old = fs::File::open(&from).context("open", &from)?;
        let mut new = fs::File::create_new(&to).context("create", &to)?;
        let made = index::splice(self.objects.format, (&old, &marks), &changes, &mut new);
        self.put_marks(&made.context("copy", &from)?)
    }

    fn put_marks(&self, marks: &Marks) -> Result<(), GitError> {
        let path = self.dir.join(MARKS);
        fs::write(&path, marks.to_bytes()).context("write", &path)
    }
}

/// The layer that a thin one is laid on.
pub(super) struct Below<'a> {
    pub(super) name: &'a str,
    pub(super) dir: &'a Path,
    pub(super) layer: &'a Layer,
    pub(super) position: Position,
}

impl Below<'_> {
    /// What the layers below cover, as the topmost one of them that says so has it.
    fn covered(&self) -> Option<String> {
        let beside = |name: &String| self.dir.parent().map(|dir| dir.join(name));
        let chain = [self.dir.to_owned()].into_iter().chain(self.layer.below.iter().filter_map(beside));
        chain.map(|dir| files_of(&dir).join(".git/packed-refs")).find_map(|path| fs::read_to_string(path).ok())
    }
}

/// The moment a layer is begun. Exact: rounded down, its files would look older than what was built a moment ago
/// from the files they replace.
fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

/// Everything in a tree that is not a directory, in the order of an index, and the trees themselves.
fn list(reader: &Reader<'_>, tree: ObjectId, time: Stamp) -> Result<(Vec<Indexed>, Vec<ObjectId>), GitError> {
    let (mut listed, mut trees) = (Vec::new(), Vec::new());
    let mut due = vec![(Vec::new(), Entry { mode: MODE_TREE, id: tree })];
    while let Some((path, entry)) = due.pop() {
        if !entry.is_tree() {
            listed.push(Indexed { path, entry, size: 0, time, covered: false });
            continue;
        }
        trees.push(entry.id);
        for line in reader.tree(entry.id)?.iter().rev() {
            difference::check_name(Some(entry.id), &line.name)?;
            due.push((join(&path, &line.name), line.entry));
        }
    }
    Ok((listed, trees))
}

/// The files a thin layer holds, in the order of the changes.
fn written(difference: &Difference, time: Stamp) -> Vec<Indexed> {
    let new = difference.changes.iter().filter_map(|change| Some((change.path.clone(), change.new?)));
    new.map(|(path, entry)| Indexed { path, entry, size: 0, time, covered: false }).collect()
}

fn counts(difference: &Difference) -> (u64, u64) {
    let count = |is: &dyn Fn(&crate::git::TreeChange) -> bool| difference.changes.iter().filter(|one| is(one)).count();
    (count(&|change| change.old.is_none()) as u64, count(&|change| change.new.is_none()) as u64)
}

#[cfg(test)]
impl Layer {
    /// One without files, of a machine that was started then.
    pub(super) fn example(dir: &Path, boot: &str) -> Layer {
        let (tree, commit, history) = (String::new(), String::new(), History::Shallow);
        let (below, secrets, boot) = (Vec::new(), Vec::new(), boot.to_owned());
        let listing = Listing::of(dir, Time::Changed).expect("BUG: a test made it");
        Layer { version: VERSION, tree, commit, history, below, files: 0, synced: false, boot, secrets, listing }
    }
}
