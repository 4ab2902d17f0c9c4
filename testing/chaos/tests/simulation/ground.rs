//! What every day stands on: one store of real git objects, in memory where there is room for it. Objects are named by
//! their content, so days share it and none can disturb another. Refs are simulated ([`crate::world`]).

use contract::{CommitId, Digest};
use runner::git::{CommitSpec, Entry, Identity, MODE_FILE, ObjectId, Objects, Repository, UserEnvironment, id};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// How many lines a file has that is there from the beginning: enough for changes that do not touch each other.
pub(crate) const LINES: u64 = 20;

/// The files that are there from the beginning.
pub(crate) const FILES: [&str; 3] = ["a.txt", "b.txt", "lib/c.txt"];

pub(crate) struct Ground {
    pub(crate) objects: Objects,
    /// Where every day's branch starts.
    pub(crate) first: ObjectId,
    /// State hashes that are known already.
    state_hashes: Mutex<BTreeMap<ObjectId, Digest>>,
    _dir: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Ground {
        let dir = in_memory();
        assert!(Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap().success());
        let environment = UserEnvironment { path: std::env::var_os("PATH"), ..UserEnvironment::default() };
        let user = Repository::discover(dir.path(), environment).unwrap();
        let objects = Objects::open_or_create(&dir.path().join("own"), &user).unwrap();
        let first = ObjectId::empty_tree(objects.format);
        let mut ground = Ground { objects, first, state_hashes: Mutex::default(), _dir: dir };
        let lines = |file: &str| (1..=LINES).map(|line| format!("{file} line {line}\n")).collect::<String>();
        let files: Vec<(&str, String)> = FILES.iter().map(|file| (*file, lines(file))).collect();
        let tree = files.iter().fold(first, |tree, (path, text)| ground.with_file(tree, path, MODE_FILE, text));
        ground.first = ground.commit(tree, &[]);
        ground
    }

    /// The text of a file, if the tree has it.
    pub(crate) fn text(&self, tree: ObjectId, path: &str) -> Option<String> {
        let (_, blob) = self.objects.tree_entry(tree, path.as_bytes()).unwrap()?;
        Some(String::from_utf8(self.objects.read_blob(blob).unwrap()).unwrap())
    }

    pub(crate) fn with_file(&self, tree: ObjectId, path: &str, mode: u32, text: &str) -> ObjectId {
        let entry = Entry { mode, id: self.objects.write_blob(text.as_bytes()).unwrap() };
        self.objects.edit(tree, &[(path.as_bytes().to_vec(), Some(entry))]).unwrap()
    }

    pub(crate) fn commit(&self, tree: ObjectId, parents: &[ObjectId]) -> ObjectId {
        let author = Identity { name: "U".into(), email: "u@example.org".into() };
        let (parents, message) = (parents.to_vec(), "mine".to_owned());
        self.objects.commit(&CommitSpec { tree, parents, author, seconds: 0, message }).unwrap()
    }

    pub(crate) fn tree_of(&self, commit: CommitId) -> ObjectId {
        self.objects.tree_of(id(commit)).unwrap()
    }

    pub(crate) fn state_hash(&self, tree: ObjectId) -> runner::Result<Digest> {
        let mut known = self.state_hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = known.get(&tree) {
            return Ok(*hash);
        }
        let hash = runner::hash_tree(&self.objects, tree)?;
        known.insert(tree, hash);
        Ok(hash)
    }
}

/// A directory that is gone with the value; its disk has nothing to sync, where the machine lets it.
pub(crate) fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A text with another line in the place of one of its own.
pub(crate) fn with_line(text: &str, number: u64, line: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(1);
    if let Some(there) = lines.get_mut((number as usize - 1).min(last)) {
        *there = line;
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
