//! The state hash against real files and real objects: one digest for one state, however it is read, and no more
//! reading than what is new.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use contract::Digest;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use runner::git::{
    Entry, MODE_EXECUTABLE, MODE_FILE, MODE_SYMLINK, MODE_TREE, ObjectId, Objects, Repository, UserEnvironment,
};
use runner::{Memo, hash_dir, hash_tree, hash_tree_with};

/// How many trees are made up.
const CASES: u32 = 40;

/// What a path holds.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    File(Vec<u8>),
    Program(Vec<u8>),
    Link(String),
}
use Item::{File, Link, Program};

/// A state: paths and what they hold.
type State = BTreeMap<String, Item>;

/// A repository of norma's own in a temporary folder.
struct World {
    temp: tempfile::TempDir,
    objects: Objects,
}

impl World {
    fn new(format: &str) -> World {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("user");
        let init = ["init", "-q", &format!("--object-format={format}")];
        let made = Command::new("git").args(init).arg(&root).env("GIT_CONFIG_NOSYSTEM", "1").status().unwrap();
        assert!(made.success());
        let environment = UserEnvironment { path: std::env::var_os("PATH"), ..UserEnvironment::default() };
        let user = Repository::discover(&root, environment).unwrap();
        let objects = Objects::open_or_create(&temp.path().join("own"), &user).unwrap();
        World { temp, objects }
    }

    /// The state as a git tree.
    fn tree(&self, state: &State) -> ObjectId {
        let mut edits = Vec::new();
        for (path, item) in state {
            let (mode, bytes) = match item {
                File(bytes) => (MODE_FILE, bytes.as_slice()),
                Program(bytes) => (MODE_EXECUTABLE, bytes.as_slice()),
                Link(target) => (MODE_SYMLINK, target.as_bytes()),
            };
            let id = self.objects.write_blob(bytes).unwrap();
            edits.push((path.clone().into_bytes(), Some(Entry { mode, id })));
        }
        self.objects.edit(ObjectId::empty_tree(self.objects.format), &edits).unwrap()
    }

    /// The state as files.
    fn folder(&self, state: &State) -> PathBuf {
        let dir = self.temp.path().join("files");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        for (path, item) in state {
            put(&dir.join(path), item);
        }
        dir
    }

    /// The digest of a tree, and how many objects were read for it.
    fn counted(&self, tree: ObjectId, memo: &mut Memo) -> (Digest, u64) {
        let before = self.objects.objects_read();
        let digest = hash_tree_with(&self.objects, tree, memo).unwrap();
        (digest, self.objects.objects_read() - before)
    }
}

fn put(path: &Path, item: &Item) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match item {
        File(bytes) => fs::write(path, bytes).unwrap(),
        Program(bytes) => {
            fs::write(path, bytes).unwrap();
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Link(target) => symlink(std::ffi::OsStr::from_bytes(target.as_bytes()), path).unwrap(),
    }
}

/// Names that git sorts otherwise than their bytes do are among them: `a` as a directory comes after `a.b`.
fn states() -> impl Strategy<Value = State> {
    let name = prop::sample::select(vec!["a", "a.b", "a-", "B", "ä", ".env", "with space", "z"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let item = prop_oneof![
        bytes.clone().prop_map(File),
        bytes.prop_map(Program),
        prop::sample::select(vec!["a", "../outside", "/dev/null", "missing"]).prop_map(|to| Link(to.to_owned())),
    ];
    prop::collection::vec((path, item), 0..12).prop_map(|items| {
        let mut state = State::new();
        for (path, item) in items {
            let is_above = |one: &str, other: &str| other.strip_prefix(one).is_some_and(|rest| rest.starts_with('/'));
            if !state.keys().any(|known: &String| is_above(known, &path) || is_above(&path, known)) {
                state.insert(path, item);
            }
        }
        state
    })
}

#[test]
fn a_state_has_one_digest_however_it_is_read() {
    for format in ["sha1", "sha256"] {
        let world = World::new(format);
        let memo = RefCell::new(Memo::empty());
        let seen = RefCell::new(HashMap::new());
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let judged = TestRunner::new(config).run(&states(), |state| {
            let tree = world.tree(&state);
            let digest = hash_tree(&world.objects, tree).unwrap();
            prop_assert_eq!(hash_dir(&world.folder(&state)).unwrap(), digest, "files");
            prop_assert_eq!(hash_tree_with(&world.objects, tree, &mut memo.borrow_mut()).unwrap(), digest, "memo");
            let other = seen.borrow_mut().insert(digest, state.clone());
            prop_assert!(other.is_none_or(|other| other == state), "two states have one digest");
            Ok(())
        });
        judged.unwrap();
    }
}

/// The definition, written down once more: a digest that was ever recorded must be found again.
#[test]
fn the_digest_is_the_documented_one() {
    let world = World::new("sha1");
    let state = State::from([
        ("d/f".to_owned(), File(b"one".to_vec())),
        ("d.x".to_owned(), Program(b"two".to_vec())),
        ("l".to_owned(), Link("d/f".to_owned())),
    ]);
    let hash = |bytes: &[u8]| blake3::derive_key("norma state v1", bytes);
    let entry = |name: &[u8], kind: u8, digest: [u8; 32]| {
        let field = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
        [field(name), field(&[kind]), field(&digest)].concat()
    };
    let directory = hash(&entry(b"f", b'f', hash(b"one")));
    let entries = [entry(b"d", b'd', directory), entry(b"d.x", b'x', hash(b"two")), entry(b"l", b'l', hash(b"d/f"))];
    let expected = Digest::from_bytes(hash(&entries.concat()));
    assert_eq!(hash_dir(&world.folder(&state)).unwrap(), expected);
    assert_eq!(hash_tree(&world.objects, world.tree(&state)).unwrap(), expected);
}

/// Changes a folder and says that its digest follows.
#[track_caller]
fn check_counts(change: impl FnOnce(&Path)) {
    let world = World::new("sha1");
    let dir = world.folder(&State::from([("a/b".to_owned(), File(b"x".to_vec()))]));
    let before = hash_dir(&dir).unwrap();
    change(&dir);
    assert_ne!(hash_dir(&dir).unwrap(), before);
}

#[test]
fn everything_in_a_folder_counts() {
    check_counts(|dir| fs::write(dir.join("a/b"), "y").unwrap());
    check_counts(|dir| fs::rename(dir.join("a/b"), dir.join("a/c")).unwrap());
    check_counts(|dir| fs::rename(dir.join("a"), dir.join("b")).unwrap());
    check_counts(|dir| fs::set_permissions(dir.join("a/b"), PermissionsExt::from_mode(0o755)).unwrap());
    check_counts(|dir| fs::create_dir(dir.join("empty")).unwrap());
    check_counts(|dir| fs::create_dir(dir.join("a/.git")).unwrap());
    check_counts(|dir| put(&dir.join("link"), &Link("a".to_owned())));
    check_counts(|dir| drop(std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap()));
}

#[test]
fn the_repository_and_normas_own_directory_do_not_count() {
    let world = World::new("sha1");
    let mut state = State::from([("a".to_owned(), File(b"x".to_vec()))]);
    let plain = hash_tree(&world.objects, world.tree(&state)).unwrap();
    state.insert(".norma/config.json".to_owned(), File(b"{}".to_vec()));
    let mut memo = Memo::empty();
    assert_eq!(hash_tree_with(&world.objects, world.tree(&state), &mut memo).unwrap(), plain);
    let dir = world.folder(&state);
    put(&dir.join(".git/config"), &File(Vec::new()));
    assert_eq!(hash_dir(&dir).unwrap(), plain);
    // Further down it is a directory like any other, even if the same tree was hashed at the top before.
    let below = state.iter().map(|(path, item)| (format!("sub/{path}"), item.clone())).collect();
    let digest = hash_tree_with(&world.objects, world.tree(&below), &mut memo).unwrap();
    assert_eq!(hash_dir(&world.folder(&below)).unwrap(), digest);
}

#[test]
fn links_are_not_followed() {
    let world = World::new("sha1");
    let dir = world.folder(&State::from([("loop".to_owned(), Link(".".to_owned()))]));
    let outside = world.temp.path().join("outside");
    put(&outside.join("file"), &File(b"x".to_vec()));
    symlink(&outside, dir.join("out")).unwrap();
    let before = hash_dir(&dir).unwrap();
    put(&outside.join("file"), &File(b"changed".to_vec()));
    assert_eq!(hash_dir(&dir).unwrap(), before);
}

#[test]
fn a_tree_too_deep_to_be_real_is_refused() {
    let world = World::new("sha1");
    let nest = |id: ObjectId| {
        let edits = [(b"d".to_vec(), Some(Entry { mode: MODE_TREE, id }))];
        world.objects.edit(ObjectId::empty_tree(world.objects.format), &edits).unwrap()
    };
    let deep = |levels: usize| (0..levels).fold(world.tree(&State::new()), |below, _| nest(below));
    hash_tree(&world.objects, deep(255)).unwrap();
    let refused = hash_tree(&world.objects, deep(256)).unwrap_err();
    assert!(refused.to_string().contains("nested deeper"), "{refused}");
}

/// 30 folders of 10 files.
fn many() -> State {
    let path = |number: usize| format!("src/{:02}/{number:03}", number / 10);
    (0..300).map(|number| (path(number), File(format!("file {number}").into_bytes()))).collect()
}

/// A memo on disk after the whole of [`many`] was hashed.
fn saved(world: &World) -> (PathBuf, Digest) {
    let path = world.temp.path().join("cache/state-hash");
    let mut memo = Memo::open(&path);
    let (digest, read) = world.counted(world.tree(&many()), &mut memo);
    assert_eq!(read, 300 + 32, "every blob and every tree");
    memo.save(&path).unwrap();
    (path, digest)
}

#[test]
fn a_known_state_is_not_read_again_and_a_changed_one_only_where_it_changed() {
    let world = World::new("sha1");
    let (path, digest) = saved(&world);
    let mut memo = Memo::open(&path);
    assert_eq!(world.counted(world.tree(&many()), &mut memo), (digest, 0), "nothing at all");
    assert!(!memo.has_news());
    let mut changed = many();
    for name in ["src/00/000", "src/00/001", "src/17/175"] {
        changed.insert(name.to_owned(), File(name.as_bytes().to_vec()));
    }
    let tree = world.tree(&changed);
    let (digest, read) = world.counted(tree, &mut memo);
    assert_eq!(read, 3 + 4, "three blobs, and the trees above them");
    assert_eq!(digest, hash_dir(&world.folder(&changed)).unwrap());
    memo.save(&path).unwrap();
    // Both states are known now.
    let mut memo = Memo::open(&path);
    assert_eq!(world.counted(tree, &mut memo).1 + world.counted(world.tree(&many()), &mut memo).1, 0);
}

#[test]
fn a_damaged_memo_is_not_believed() {
    let world = World::new("sha256");
    let (path, _) = saved(&world);
    let mut more = many();
    more.insert("src/00/000".to_owned(), File(b"more".to_vec()));
    let tree = world.tree(&more);
    let mut memo = Memo::open(&path);
    let digest = hash_tree_with(&world.objects, tree, &mut memo).unwrap();
    memo.save(&path).unwrap();
    let sound = fs::read(&path).unwrap();
    let damaged = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        damage(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let mut memo = Memo::open(&path);
        assert_eq!(world.counted(tree, &mut memo).0, digest);
        if memo.has_news() {
            memo.save(&path).unwrap();
        }
        assert_eq!(world.counted(tree, &mut Memo::open(&path)), (digest, 0), "it is sound again");
    };
    for at in (0..sound.len()).step_by(61) {
        damaged(&|bytes| bytes[at] ^= 0x20);
    }
    damaged(&|bytes| bytes.truncate(bytes.len() / 2));
    damaged(&|bytes| bytes.truncate(bytes.len() - 5));
    damaged(&|bytes| bytes.clear());
    damaged(&|bytes| bytes.extend_from_slice(b"x"));
    damaged(&|bytes| bytes[20..].reverse());
    damaged(&|bytes| bytes[20..].fill(0));
}

#[test]
fn what_is_new_is_appended_until_there_is_much_of_it() {
    let world = World::new("sha1");
    let (path, _) = saved(&world);
    let mut file = fs::read(&path).unwrap();
    let mut sorted_anew = 0;
    for number in 0..400_u32 {
        let state = State::from([("a".to_owned(), File(number.to_be_bytes().to_vec()))]);
        let tree = world.tree(&state);
        let mut memo = Memo::open(&path);
        let digest = hash_tree_with(&world.objects, tree, &mut memo).unwrap();
        memo.save(&path).unwrap();
        let before = std::mem::replace(&mut file, fs::read(&path).unwrap());
        sorted_anew += usize::from(!file.starts_with(&before));
        assert_eq!(world.counted(tree, &mut Memo::open(&path)), (digest, 0));
    }
    assert_eq!(sorted_anew, 1, "a blob and a state each");
    assert_eq!(world.counted(world.tree(&many()), &mut Memo::open(&path)).1, 0, "nothing was lost");
}

#[test]
fn processes_that_save_at_the_same_time_leave_a_sound_memo() {
    let world = World::new("sha1");
    let path = world.temp.path().join("cache/state-hash");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (path, world) = (&path, &world);
            scope.spawn(move || {
                let state = State::from([("d/f".to_owned(), File(vec![number]))]);
                for _ in 0..20 {
                    let mut memo = Memo::open(path);
                    let tree = world.tree(&state);
                    let digest = hash_tree_with(&world.objects, tree, &mut memo).unwrap();
                    assert_eq!(digest, hash_tree(&world.objects, tree).unwrap());
                    memo.save(path).unwrap();
                }
            });
        }
    });
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["state-hash"]);
}
