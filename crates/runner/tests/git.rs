//! The git layer against real repositories, each in a directory and with a home of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

#[path = "git/uncommitted.rs"]
mod uncommitted;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use runner::git::{
    Applied, BranchMove, Checkout, CommitSpec, Entry, GIT_TEXT_BYTES_MAX, GitError, Identity, Land, MODE_EXECUTABLE,
    MODE_FILE, MODE_SYMLINK, Merged, ObjectId, Objects, PatchLimits, PatchProblem, Repository, Swap, TEXT_BYTES_MAX,
    UserEnvironment,
};

const LIMITS: PatchLimits = PatchLimits { patch_bytes_max: 1 << 20, result_bytes_max: 1 << 22, binary: false };
const MAIN: &str = "refs/heads/main";

/// A user's repository and norma's beside it.
struct World {
    temp: tempfile::TempDir,
    root: PathBuf,
    user: Repository,
    objects: Objects,
}

fn git_in(temp: &Path, dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", temp.join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "git {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn environment(temp: &Path) -> UserEnvironment {
    let path = std::env::var_os("PATH");
    UserEnvironment { path, home: Some(temp.join("home").into()), ..UserEnvironment::default() }
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

impl World {
    fn new() -> World {
        World::with_format("sha1")
    }

    fn with_format(format: &str) -> World {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("user");
        write(
            &temp.path().join("home/.gitconfig"),
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
        );
        fs::create_dir(&root).unwrap();
        git_in(temp.path(), &root, &["init", "-q", &format!("--object-format={format}")]);
        write(&root.join("src/a.txt"), "one\ntwo\nthree\n");
        write(&root.join("src/b.txt"), "b\n");
        write(&root.join("docs/deep/c.txt"), "c\n");
        write(&root.join("crlf.txt"), "one\r\ntwo\r\n");
        write(&root.join("end.txt"), "no newline");
        write(&root.join("plain"), "plain\n");
        write(&root.join(".gitignore"), "*.log\n.norma/\n");
        git_in(temp.path(), &root, &["add", "-A"]);
        git_in(temp.path(), &root, &["commit", "-qm", "base"]);
        World::open(temp, root)
    }

    fn open(temp: tempfile::TempDir, root: PathBuf) -> World {
        let user = Repository::discover(&root, environment(temp.path())).unwrap();
        let objects = Objects::open_or_create(&root.join(".norma/git"), &user).unwrap();
        World { temp, root, user, objects }
    }

    fn git(&self, args: &[&str]) -> String {
        git_in(self.temp.path(), &self.root, args)
    }

    /// Adds a commit with 20,000 files, as one pack.
    fn import_large(&self) {
        let mut stream = format!("commit {MAIN}\ncommitter Ada <ada@example.org> 1700000000 +0000\n");
        stream += &format!("data 5\nlarge\nfrom {MAIN}^0\n");
        for number in 0..20_000 {
            let (directory, file) = (number / 100, number % 100);
            let text = format!("{directory} {file}\n");
            let name = format!("big/d{directory}/f{file}.txt");
            stream += &format!("M 100644 inline {name}\ndata {}\n{text}\n", text.len());
        }
        let path = self.temp.path().join("stream");
        write(&path, stream);
        let mut import = Command::new("git");
        import.env("HOME", self.temp.path().join("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        let import = import.args(["fast-import", "--quiet", "--depth=0"]).current_dir(&self.root);
        let status = import.stdin(fs::File::open(path).unwrap()).status().unwrap();
        assert!(status.success());
        self.git(&["reset", "-q", "--hard"]);
    }

    fn base(&self) -> (ObjectId, ObjectId) {
        let head = self.user.head().unwrap();
        (head.commit, head.tree)
    }

    fn apply(&self, patch: &str) -> Result<Applied, PatchProblem> {
        self.objects.apply(self.base().1, patch.as_bytes(), &LIMITS)
    }

    /// A commit on top of HEAD that a patch makes.
    fn change(&self, patch: &str) -> ObjectId {
        let tree = self.apply(patch).unwrap().tree;
        self.commit(tree, vec![self.base().0])
    }

    fn commit(&self, tree: ObjectId, parents: Vec<ObjectId>) -> ObjectId {
        let author = Identity { name: "norma".to_owned(), email: "norma@localhost".to_owned() };
        let spec = CommitSpec { tree, parents, author, seconds: 1_700_000_000, message: "change".to_owned() };
        self.objects.commit(&spec).unwrap()
    }

    fn land(&self, base: ObjectId, new: ObjectId) -> Land {
        BranchMove { user: &self.user, objects: &self.objects, branch: Some(MAIN), base, new, message: "land" }
            .land(&mut |_| ())
            .unwrap()
    }

    /// Every file of the user's, the index's entries and all references.
    fn state(&self) -> (BTreeMap<PathBuf, Vec<u8>>, String, String) {
        (
            files(&self.root),
            self.git(&["ls-files", "-s"]),
            self.git(&["for-each-ref"]) + &self.git(&["rev-parse", "HEAD"]),
        )
    }

    fn status(&self) -> String {
        self.git(&["status", "--porcelain"])
    }
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut due = vec![root.to_owned()];
    while let Some(dir) = due.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            match (kind.is_dir(), kind.is_symlink()) {
                _ if matches!(entry.file_name().to_str(), Some(".git" | ".norma")) => {}
                (true, _) => due.push(path),
                (_, true) => {
                    drop(found.insert(path.clone(), fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()))
                }
                _ => drop(found.insert(path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    found
}

const MODIFY_A: &str =
    "diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
const ADD_NEW: &str = "diff --git a/new/x/y.txt b/new/x/y.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/x/y.txt\n@@ -0,0 +1 @@\n+y\n";
const DELETE_B: &str =
    "diff --git a/src/b.txt b/src/b.txt\ndeleted file mode 100644\n--- a/src/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";

fn add(path: &str, mode: &str) -> String {
    format!("diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n")
}

/// Changes as `<old mode>-><new mode> path`, one per line.
fn summary(applied: &Applied) -> Vec<String> {
    let mode = |entry: Option<Entry>| entry.map_or("-".to_owned(), |entry| format!("{:o}", entry.mode));
    let line = |change: &runner::git::TreeChange| {
        format!("{}->{} {}", mode(change.old), mode(change.new), String::from_utf8_lossy(&change.path))
    };
    applied.changes.iter().map(line).collect()
}

#[test]
fn patches_of_every_kind_apply_to_the_tree_and_only_to_the_tree() {
    let world = World::new();
    let before = world.state();
    let check = |patch: &str, expected: &[&str]| {
        let applied = world.apply(patch).unwrap();
        assert_eq!(summary(&applied), expected, "{patch}");
        world.objects.git_fsck(applied.tree);
        applied
    };
    check(MODIFY_A, &["100644->100644 src/a.txt"]);
    check(ADD_NEW, &["-->100644 new/x/y.txt"]);
    check(DELETE_B, &["100644->- src/b.txt"]);
    check(
        "diff --git a/src/b.txt b/lib/b.txt\nsimilarity index 100%\nrename from src/b.txt\nrename to lib/b.txt\n",
        &["-->100644 lib/b.txt", "100644->- src/b.txt"],
    );
    check("diff --git a/plain b/plain\nold mode 100644\nnew mode 100755\n", &["100644->100755 plain"]);
    check("--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+TWO\r\n", &["100644->100644 crlf.txt"]);
    check(
        "--- a/end.txt\n+++ b/end.txt\n@@ -1 +1 @@\n-no newline\n\\ No newline at end of file\n+with newline\n",
        &["100644->100644 end.txt"],
    );
    check("--- a/src/b.txt\n+++ b/src/b.txt\n@@ -1 +1 @@\n-b\n+B\n", &["100644->100644 src/b.txt"]);
    check(&add("link", "120000"), &["-->120000 link"]);
    let odd = "diff --git \"a/\\303\\251\\n\\001\" \"b/\\303\\251\\n\\001\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\\251\\n\\001\"\n@@ -0,0 +1 @@\n+x\n";
    let applied = check(odd, &["-->100644 é\n\u{1}"]);
    assert_eq!(applied.changes[0].path, "é\n\u{1}".as_bytes());
    let only = "diff --git a/docs/deep/c.txt b/docs/deep/c.txt\ndeleted file mode 100644\n--- a/docs/deep/c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n";
    let applied = check(only, &["100644->- docs/deep/c.txt"]);
    assert_eq!(world.objects.tree_entry(applied.tree, b"docs").unwrap(), None, "empty directories vanish");
    let replace = format!(
        "{}{}",
        DELETE_B.replace("src/b.txt", "plain").replace("-b\n", "-plain\n"),
        add("plain/inside", "100644")
    );
    check(&replace, &["100644->- plain", "-->100644 plain/inside"]);
    assert_eq!(world.state(), before);
}

/// Has git itself judge a tree norma made.
trait Fsck {
    fn git_fsck(&self, tree: ObjectId);
}

impl Fsck for Objects {
    fn git_fsck(&self, tree: ObjectId) {
        git_in(&self.dir, &self.dir, &["--git-dir=.", "fsck", "--strict", &tree.to_string()]);
    }
}

#[test]
fn an_empty_patch_changes_nothing_and_is_no_error() {
    let world = World::new();
    for patch in ["", "\n \t\r\n"] {
        let applied = world.apply(patch).unwrap();
        assert_eq!((applied.tree, applied.changes.len()), (world.base().1, 0));
    }
}

#[test]
fn a_patch_with_one_broken_hunk_changes_nothing_at_all() {
    let world = World::new();
    let before = world.state();
    let patch = format!("{MODIFY_A}{}", DELETE_B.replace("-b\n", "-nothing like it\n"));
    assert!(matches!(world.apply(&patch), Err(PatchProblem::DoesNotApply(words)) if words.contains("src/b.txt")));
    assert_eq!(world.state(), before);
    assert_eq!(fs::read_dir(world.objects.dir.join("tmp")).unwrap().count(), 0, "no private index is left");
}

#[test]
fn unsafe_paths_are_refused_before_git_is_asked() {
    let world = World::new();
    let names = [
        "../x",
        "src/../../x",
        "/etc/x",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "src/.git/config",
        "git~1/x",
        ".g\u{200c}it/x",
        "./x",
    ];
    for name in names {
        let problem = world.apply(&add(name, "100644")).unwrap_err();
        assert!(matches!(problem, PatchProblem::UnsafePath { .. }), "{name}: {problem}");
    }
    let absolute = "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n";
    assert!(matches!(world.apply(absolute), Err(PatchProblem::UnsafePath { .. })));
    let moved = "diff --git a/src/b.txt b/x\nrename from src/b.txt\nrename to ../x\n";
    assert!(matches!(world.apply(moved), Err(PatchProblem::UnsafePath { .. })));
}

#[test]
fn binary_huge_and_inflating_patches_are_refused() {
    let world = World::new();
    let binary = "diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n";
    assert!(matches!(world.apply(binary), Err(PatchProblem::Binary)));
    let differ = "diff --git a/plain b/plain\nBinary files a/plain and b/plain differ\n";
    assert!(matches!(world.apply(differ), Err(PatchProblem::Binary)));

    let (tree, bytes) = (world.base().1, MODIFY_A.len() as u64);
    let sized = |patch_bytes_max| PatchLimits { patch_bytes_max, ..LIMITS };
    assert!(world.objects.apply(tree, MODIFY_A.as_bytes(), &sized(bytes)).is_ok());
    let problem = world.objects.apply(tree, MODIFY_A.as_bytes(), &sized(bytes - 1));
    assert!(matches!(problem, Err(PatchProblem::TooLarge { bytes: found, .. }) if found == bytes));

    let large = world.objects.write_blob(&vec![b'x'; 1 << 20]).unwrap();
    let entry = Entry { mode: 0o100_644, id: large };
    let tree = world.objects.edit(tree, &[(b"large".to_vec(), Some(entry))]).unwrap();
    let copies: String = (0..8)
        .map(|n| format!("diff --git a/large b/copy{n}\nsimilarity index 100%\ncopy from large\ncopy to copy{n}\n"))
        .collect();
    let problem = world.objects.apply(tree, copies.as_bytes(), &LIMITS);
    assert!(matches!(problem, Err(PatchProblem::Inflates { bytes, .. }) if bytes > 8 << 20));
}

#[test]
fn a_binary_patch_is_applied_where_it_is_allowed_and_only_as_far_as_it_can_be_measured() {
    let world = World::new();
    let tree = world.base().1;
    let allowed = PatchLimits { binary: true, ..LIMITS };
    let section = |first: &str| {
        let ids = "0000000000000000000000000000000000000000..1a23e4be731d2f539deeea324686d000ccdfbfcd";
        format!(
            "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex {ids}\nGIT binary patch\n{first}\nLcmYdfNa6wj0#*Rd\n\nliteral 0\nHcmV?d00001\n\n"
        )
    };
    let applied = world.objects.apply(tree, section("literal 4").as_bytes(), &allowed).unwrap();
    assert_eq!(applied.changes.len(), 1);
    assert!(world.objects.looks_binary(applied.changes[0].new.unwrap().id).unwrap());
    assert!(matches!(world.apply(&section("literal 4")), Err(PatchProblem::Binary)));
    let refused = |patch: &str| world.objects.apply(tree, patch.as_bytes(), &allowed).unwrap_err();
    assert!(matches!(refused(&section("delta 4")), PatchProblem::BinaryDelta));
    assert!(matches!(refused(&section("literal 99999999")), PatchProblem::Inflates { .. }));
    assert!(matches!(refused(&section("literal 99999999999999999999999")), PatchProblem::Inflates { .. }));
    let differ = "diff --git a/plain b/plain\nBinary files a/plain and b/plain differ\n";
    assert!(matches!(refused(differ), PatchProblem::Binary));
}

#[test]
fn text_that_is_no_patch_is_unreadable() {
    let world = World::new();
    for patch in
        ["hello\n", "diff --git a/x b/x\n@@ -1 +1 @@\n", "--- a/src/b.txt\n+++ b/src/b.txt\n@@ -1,5 +1 @@\n-b\n"]
    {
        let problem = world.apply(patch).unwrap_err();
        assert!(matches!(problem, PatchProblem::Unreadable(_)), "{patch}: {problem}");
    }
}

#[test]
fn a_file_and_a_directory_of_the_same_name_are_a_conflict_both_ways() {
    let world = World::new();
    for path in ["plain/below", "src", "docs", "docs/deep"] {
        let problem = world.apply(&add(path, "100644")).unwrap_err();
        assert!(matches!(problem, PatchProblem::Conflict(_)), "{path}: {problem}");
    }
}

#[test]
fn a_path_that_exists_cannot_be_added_again() {
    let world = World::new();
    let problem = world.apply(&add("plain", "100644")).unwrap_err();
    assert!(matches!(problem, PatchProblem::DoesNotApply(words) if words.contains("already exists")));
}

#[test]
fn the_same_specification_gives_the_same_commit_as_git_would() {
    let world = World::new();
    let (parent, tree) = world.base();
    let id = world.commit(tree, vec![parent]);
    assert_eq!(id, world.commit(tree, vec![parent]));
    world.objects.pin("test/x", id).unwrap();
    assert_eq!(world.objects.pinned("test/x").unwrap(), Some(id));
    assert_eq!(world.objects.tree_of(id).unwrap(), tree);
    world.objects.git_fsck(id);
}

#[test]
fn the_diff_text_applies_again_and_attributes_hide_nothing() {
    let world = World::new();
    let hide = "diff --git a/.gitattributes b/.gitattributes\nnew file mode 100644\n--- /dev/null\n+++ b/.gitattributes\n@@ -0,0 +1 @@\n+* -diff binary ident\n";
    let applied = world.apply(&format!("{MODIFY_A}{hide}")).unwrap();
    let text = world.objects.diff_text(world.base().1, applied.tree, TEXT_BYTES_MAX).unwrap();
    assert_eq!(world.apply(std::str::from_utf8(&text).unwrap()).unwrap(), applied);
}

/// What git says of two trees, and what norma does.
fn check_diff_text(world: &World, old: ObjectId, new: ObjectId) {
    let ids = [old.to_string(), new.to_string()];
    let options = ["diff-tree", "-p", "-r", "--full-index", "--no-renames", "--no-ext-diff", &ids[0], &ids[1]];
    let large = format!("core.bigFileThreshold={TEXT_BYTES_MAX}");
    let mut command = Command::new("git");
    let output = command.current_dir(&world.objects.dir).args(["--git-dir=.", "-c", &large]).args(options).output();
    let output = output.unwrap();
    assert!(output.status.success());
    let (git, ours) = (output.stdout, world.objects.diff_text(old, new, TEXT_BYTES_MAX).unwrap());
    if git != ours {
        let line = git.split(|b| *b == b'\n').zip(ours.split(|b| *b == b'\n')).find(|(one, other)| one != other);
        let shown = line.map(|(one, other)| [String::from_utf8_lossy(one), String::from_utf8_lossy(other)]);
        panic!("git and norma first differ at {shown:?}\n{}", String::from_utf8_lossy(&git));
    }
}

#[test]
fn a_patch_is_spelled_as_git_spells_it() {
    let world = World::new();
    let (none, objects) = (world.objects.edit(world.base().1, &[]).unwrap(), &world.objects);
    let long = |marks: &[usize]| -> String {
        let line = |at| if marks.contains(&at) { format!("changed {at}\n") } else { format!("  line {at}\n") };
        (0..60).map(|at| if at % 17 == 0 { format!("fn part_{at}() {{ // \t \n") } else { line(at) }).collect()
    };
    /// Path, and mode and content before and after.
    type Sides<'t> = (&'t [u8], u32, Option<&'t [u8]>, u32, Option<&'t [u8]>);
    let sides: [Sides<'_>; 19] = [
        (b"created", 0, None, MODE_FILE, Some(b"one\ntwo")),
        (b"empty", 0, None, MODE_FILE, Some(b"")),
        (b"emptied", MODE_FILE, Some(b"x\n"), MODE_FILE, Some(b"")),
        (b"deleted", MODE_EXECUTABLE, Some(b"gone\n"), 0, None),
        (b"mode", MODE_FILE, Some(b"same\n"), MODE_EXECUTABLE, Some(b"same\n")),
        (b"mode and text", MODE_FILE, Some(b"a\n"), MODE_EXECUTABLE, Some(b"b\n")),
        (b"link", 0, None, MODE_SYMLINK, Some(b"target")),
        (b"becomes a link", MODE_FILE, Some(b"text\n"), MODE_SYMLINK, Some(b"target")),
        (b"binary", MODE_FILE, Some(b"a\0b"), MODE_FILE, Some(b"a\0c")),
        (b"binary comes", 0, None, MODE_FILE, Some(b"\0")),
        (b"becomes text", MODE_FILE, Some(b"\0"), MODE_FILE, Some(b"text\n")),
        (b"end", MODE_FILE, Some(b"a\nb"), MODE_FILE, Some(b"a\nb\n")),
        (b"crlf", MODE_FILE, Some(b"a\r\nb\r\n"), MODE_FILE, Some(b"a\r\nb\n")),
        ("f\u{fc}r \u{1f980}".as_bytes(), 0, None, MODE_FILE, Some(b"x\n")),
        (b"tab\there\"and\\there\x01\x7f\n", 0, None, MODE_FILE, Some(b"x\n")),
        (b"not \xff utf-8", MODE_FILE, Some(b"x\n"), MODE_FILE, Some(b"y\n")),
        (b"dir/a.c", MODE_FILE, Some(b"x\n"), MODE_FILE, Some(b"y\n")),
        (b"dir.c", MODE_FILE, Some(b"x\n"), MODE_FILE, Some(b"y\n")),
        (b"one", MODE_FILE, Some(b"only\n"), MODE_FILE, Some(b"other\n")),
    ];
    let tree = |second: bool| {
        let mut edits: Vec<(Vec<u8>, Option<Entry>)> = Vec::new();
        for (path, old_mode, old, new_mode, new) in &sides {
            let (mode, bytes) = if second { (new_mode, new) } else { (old_mode, old) };
            let entry = bytes.map(|bytes| Entry { mode: *mode, id: objects.write_blob(bytes).unwrap() });
            edits.push((path.to_vec(), entry));
        }
        for (name, marks) in
            [("far", vec![5, 40]), ("near", vec![20, 26]), ("apart", vec![20, 28]), ("top", vec![0, 59])]
        {
            let text = long(if second { &marks } else { &[] });
            edits
                .push((name.into(), Some(Entry { mode: MODE_FILE, id: objects.write_blob(text.as_bytes()).unwrap() })));
        }
        objects.edit(none, &edits).unwrap()
    };
    check_diff_text(&world, tree(false), tree(true));
    check_diff_text(&world, tree(true), tree(false));
}

#[test]
fn of_a_large_file_a_patch_says_that_it_differs() {
    let (world, text) = (World::new(), b"a line of a large file\n".repeat(800_000));
    let tree = |files: &[(&[u8], &[u8])]| {
        let entry = |bytes: &[u8]| Some(Entry { mode: MODE_FILE, id: world.objects.write_blob(bytes).unwrap() });
        let edits: Vec<_> = files.iter().map(|(path, bytes)| (path.to_vec(), entry(bytes))).collect();
        world.objects.edit(world.base().1, &edits).unwrap()
    };
    let more = [&text[..], b"more\n"].concat();
    let trees = [
        tree(&[(b"kept", &text), (b"edited", &text), (b"grows", b"small\n")]),
        tree(&[(b"kept", &text), (b"edited", &more), (b"grows", &text), (b"new", &more)]),
    ];
    check_diff_text(&world, trees[0], trees[1]);
    check_diff_text(&world, trees[1], trees[0]);
    let text = world.objects.diff_text(trees[0], trees[1], GIT_TEXT_BYTES_MAX).unwrap();
    assert!(text.len() > 16 << 20, "an earlier run has all of it");
}

#[test]
fn a_large_object_is_copied_whole() {
    let world = World::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let entry = Entry { mode: MODE_FILE, id: world.objects.write_blob(&bytes).unwrap() };
    let (commit, base) = world.base();
    let tree = world.objects.edit(base, &[(b"large".to_vec(), Some(entry))]).unwrap();
    let commit = world.commit(tree, vec![commit]);
    world.objects.export(&world.user, base, commit).unwrap();
    let shown = Command::new("git").current_dir(&world.root).args(["cat-file", "blob", &entry.id.to_string()]).output();
    assert!(shown.unwrap().stdout == bytes);
}

#[test]
fn lines_differ_where_git_says_that_they_do() {
    // Few different lines, many of them alike, so that there are many ways to say what was changed.
    const LINES: [&str; 9] = ["", "}", "  }", "{", "  a();", "  b();", "\tc", "fn x() {", "    return 1;"];
    const PAIRS: usize = 400;
    let world = World::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut before, mut after): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for number in 0..PAIRS {
        let old: Vec<&str> = (0..random(40)).map(|_| LINES[random(LINES.len())]).collect();
        let mut new = old.clone();
        for _ in 0..=random(5) {
            let at = random(new.len() + 1);
            match random(3) {
                0 => new.insert(at, LINES[random(LINES.len())]),
                1 if at < new.len() => drop(new.remove(at)),
                _ if at < new.len() => new[at] = LINES[random(LINES.len())],
                _ => {}
            }
        }
        for (lines, edits) in [(old, &mut before), (new, &mut after)] {
            let end = if random(4) == 0 { "" } else { "\n" };
            let id = world.objects.write_blob((lines.join("\n") + end).as_bytes()).unwrap();
            edits.push((format!("f{number:04}").into_bytes(), Some(Entry { mode: MODE_FILE, id })));
        }
    }
    let tree = |edits: &[_]| world.objects.edit(world.base().1, edits).unwrap();
    check_diff_text(&world, tree(&before), tree(&after));
}

#[test]
fn a_git_that_is_too_old_is_named() {
    let world = World::new();
    let old = world.temp.path().join("old");
    let script = "#!/bin/sh\ncase \" $* \" in *\" version \"*) echo git version 2.25.1;; *) exit 129;; esac\n";
    write(&old.join("git"), script);
    fs::set_permissions(old.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
    let environment = UserEnvironment { path: Some(old.into()), ..environment(world.temp.path()) };
    let error = Repository::discover(&world.root, environment).unwrap().resolve(MAIN).unwrap_err();
    assert_eq!(error.to_string(), "git 2.25.1 is too old: 2.31 or later is needed");
}

#[test]
fn the_users_repository_is_described_as_it_is() {
    let world = World::new();
    let head = world.user.head().unwrap();
    assert_eq!(head.branch.as_deref(), Some(MAIN));
    assert_eq!(world.user.identity(), Identity { name: "Ada".to_owned(), email: "ada@example.org".to_owned() });
    assert_eq!(world.user.resolve("main").unwrap(), Some(head.commit));
    assert_eq!(world.user.resolve("--help").unwrap(), None);
    assert_eq!(world.user.read_ref("refs/heads/none").unwrap(), None);
    write(&world.root.join(".gitignore"), "*.log\n");
    write(&world.root.join("plain"), "changed\n");
    world.git(&["mv", "src/b.txt", "moved"]);
    write(&world.root.join("fresh/x"), "x");
    let dirty = world.user.dirty(&world.objects).unwrap();
    let dirty: Vec<String> = dirty
        .iter()
        .map(|dirty| format!("{} {}", String::from_utf8_lossy(&dirty.status), String::from_utf8_lossy(&dirty.path)))
        .collect();
    assert_eq!(dirty, [" M .gitignore", "A  moved", " M plain", "D  src/b.txt", "?? fresh/"]);
}

#[test]
fn what_is_no_usable_repository_is_named_clearly() {
    let temp = tempfile::tempdir().unwrap();
    let discover = |dir: &Path| Repository::discover(dir, environment(temp.path()));
    let outside = temp.path().join("outside");
    fs::create_dir(&outside).unwrap();
    assert!(matches!(discover(&outside), Err(GitError::NotARepository { .. })));
    git_in(temp.path(), temp.path(), &["init", "-q", "--bare", "bare"]);
    assert!(matches!(discover(&temp.path().join("bare")), Err(GitError::BareRepository { .. })));
    git_in(temp.path(), temp.path(), &["init", "-q", "-b", "main", "unborn"]);
    let unborn = discover(&temp.path().join("unborn")).unwrap();
    assert!(matches!(unborn.head(), Err(GitError::NoCommits { branch }) if branch == MAIN));
    assert!(matches!(discover(&temp.path().join("unborn/.git")), Err(GitError::NotARepository { .. })));
}

#[test]
fn a_reference_moves_only_from_the_expected_value() {
    let world = World::new();
    let (base, tree) = world.base();
    let other = world.commit(tree, vec![base]);
    world.objects.export(&world.user, tree, other).unwrap();
    let name = "refs/heads/norma/run";
    let swap = |new, expected| world.user.swap_ref(name, new, expected, "test").unwrap();
    assert_eq!(swap(Some(base), Some(other)), Swap::Moved { found: None });
    assert_eq!(swap(Some(base), None), Swap::Done);
    assert_eq!(swap(Some(other), None), Swap::Moved { found: Some(base) });
    assert_eq!(swap(Some(other), Some(base)), Swap::Done);
    assert_eq!(swap(None, Some(base)), Swap::Moved { found: Some(other) });
    assert_eq!(swap(None, Some(other)), Swap::Done);
    assert_eq!(world.user.read_ref(name).unwrap(), None);
}

/// Each commit is compared with the one before it, and whatever comes and goes between them arrives.
#[test]
fn a_line_of_commits_is_exported_with_all_that_it_names() {
    let world = World::new();
    let (base, tree) = world.base();
    let (mut tree, mut line) = (tree, vec![base]);
    let file = |text: &str| Some(Entry { mode: MODE_FILE, id: world.objects.write_blob(text.as_bytes()).unwrap() });
    let (kept, again) = (file("kept\n"), file("again\n"));
    for edit in
        [("new/kept", kept), ("new/again", again), ("new/again", None), ("docs/again", again), ("new/kept", None)]
    {
        tree = world.objects.edit(tree, &[(edit.0.into(), edit.1)]).unwrap();
        line.push(world.commit(tree, vec![line[line.len() - 1]]));
    }
    let last = line[line.len() - 1];
    world.objects.export(&world.user, world.base().1, last).unwrap();
    world.git(&["update-ref", "refs/heads/line", &last.to_string()]);
    world.git(&["fsck", "--strict", "--no-dangling", "line"]);
    let named = world.git(&["rev-list", "--objects", &format!("{base}..{last}")]);
    assert_eq!(
        named.lines().filter(|object| object.ends_with("kept") || object.ends_with("again")).count(),
        2,
        "{named}"
    );
    assert_eq!(world.git(&["show", &format!("{last}:docs/again")]), "again\n");
}

fn checkout(world: &World) -> (Checkout, ObjectId, ObjectId) {
    let (commit, tree) = world.base();
    let dir = world.root.join(".norma/worktrees/one");
    (Checkout::create(&world.objects, &dir, commit, tree).unwrap(), commit, tree)
}

/// The files of a checkout by relative path.
fn shown(checkout: &Checkout) -> Vec<(String, Vec<u8>)> {
    let relative = |path: PathBuf| path.strip_prefix(&checkout.dir).unwrap().to_string_lossy().into_owned();
    files(&checkout.dir).into_iter().map(|(path, bytes)| (relative(path), bytes)).collect()
}

#[test]
fn an_agents_commit_in_its_checkout_leaves_the_user_alone() {
    let world = World::new();
    let before = world.state();
    let (checkout, commit, _) = checkout(&world);
    let inside = |args: &[&str]| git_in(world.temp.path(), &checkout.dir, args);
    assert_eq!(inside(&["status", "--porcelain"]), "");
    assert_eq!(inside(&["rev-parse", "HEAD"]).trim(), commit.to_string());
    assert_eq!(inside(&["remote"]), "");
    write(&checkout.dir.join("src/a.txt"), "agent\n");
    inside(&["commit", "-qam", "agent"]);
    inside(&["branch", "main2"]);
    assert_eq!(world.state(), before);
    checkout.remove().unwrap();
    assert_eq!(fs::read_dir(world.root.join(".norma/worktrees")).unwrap().count(), 0);
}

#[test]
fn a_checkout_holds_the_bytes_of_the_blobs_whatever_attributes_say() {
    let world = World::new();
    write(&world.root.join(".gitattributes"), "*.txt text eol=crlf ident\n*.bin filter=evil\n");
    write(&world.root.join("x.bin"), "raw $Id$\n");
    world.git(&["-c", "core.safecrlf=false", "add", "-A"]);
    world.git(&["commit", "-qm", "attributes"]);
    let (checkout, _, tree) = checkout(&world);
    world
        .objects
        .walk(tree, &mut |path, _, id| {
            let path = checkout.dir.join(std::str::from_utf8(path).unwrap());
            assert_eq!(fs::read(&path).unwrap(), world.objects.read_blob(id).unwrap(), "{}", path.display());
        })
        .unwrap();
    assert_eq!(git_in(world.temp.path(), &checkout.dir, &["status", "--porcelain"]), "");
}

#[test]
fn advancing_undoes_everything_an_agent_can_do_to_the_files() {
    let world = World::new();
    let (checkout, base, _) = checkout(&world);
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
    let tree = world.objects.tree_of(new).unwrap();
    let outside = world.temp.path().join("outside");
    write(&outside.join("deep/c.txt"), "precious\n");
    let dir = &checkout.dir;

    write(&dir.join("plain"), "PLAIN\n");
    fs::remove_dir_all(dir.join("docs")).unwrap();
    symlink(&outside, dir.join("docs")).unwrap();
    fs::remove_file(dir.join("end.txt")).unwrap();
    fs::hard_link(outside.join("deep/c.txt"), dir.join("end.txt")).unwrap();
    fs::remove_file(dir.join("crlf.txt")).unwrap();
    write(&dir.join("crlf.txt/now/a/directory"), "x");
    write(&dir.join("untracked/x"), "x");
    write(&dir.join("ignored.log"), "x");
    write(&dir.join("vendor/sub/.git/config"), "[core]\n\tfsmonitor = touch /tmp/never; false\n");
    fs::set_permissions(dir.join("vendor/sub"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.join("src"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::remove_dir_all(dir.join(".git")).unwrap();
    write(&dir.join(".git"), "gitdir: /nowhere\n");

    let checkout = Checkout::open(dir).unwrap();
    checkout.advance(&world.objects, new, tree).unwrap();
    let fresh_dir = world.root.join(".norma/worktrees/fresh");
    let fresh = Checkout::create(&world.objects, &fresh_dir, new, tree).unwrap();
    assert_eq!(shown(&checkout), shown(&fresh));
    assert_eq!(fs::read(outside.join("deep/c.txt")).unwrap(), b"precious\n");
    assert_eq!(git_in(world.temp.path(), dir, &["status", "--porcelain"]), "");
    assert_eq!(git_in(world.temp.path(), dir, &["rev-parse", "HEAD"]).trim(), new.to_string());

    checkout.advance(&world.objects, base, world.base().1).unwrap();
    assert_eq!(fs::read(dir.join("src/b.txt")).unwrap(), b"b\n");
    assert!(!dir.join("new").exists(), "directories the tree does not have are gone");
}

#[test]
fn a_file_rewritten_with_its_old_size_and_time_is_restored() {
    let world = World::new();
    let (checkout, commit, tree) = checkout(&world);
    let path = checkout.dir.join("plain");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "PLAIN\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    checkout.advance(&world.objects, commit, tree).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"plain\n");
}

/// Nests directories deeper than any path can name, the innermost without permissions.
fn make_deep(dir: &Path, depth: usize) {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    rustix::fs::mkdirat(&at, "end", Mode::RWXU).unwrap();
    rustix::fs::fchmod(&at, Mode::empty()).unwrap();
}

#[test]
fn removing_a_checkout_copes_with_closed_and_very_deep_directories() {
    let world = World::new();
    let (checkout, _, _) = checkout(&world);
    let outside = world.temp.path().join("outside");
    write(&outside.join("x"), "x");
    symlink(&outside, checkout.dir.join("link")).unwrap();
    make_deep(&checkout.dir, 3000);
    let dir = checkout.dir.clone();
    checkout.remove().unwrap();
    assert!(!dir.exists() && outside.join("x").exists());
    assert_eq!(fs::read_dir(dir.parent().unwrap()).unwrap().count(), 0, "neither index nor trash is left");
}

#[test]
fn a_submodule_becomes_an_empty_directory() {
    let world = World::new();
    let entry = Entry { mode: 0o160_000, id: world.base().0 };
    let tree = world.objects.edit(world.base().1, &[(b"sub/module".to_vec(), Some(entry))]).unwrap();
    let commit = world.commit(tree, vec![world.base().0]);
    let dir = world.root.join(".norma/worktrees/sub");
    let checkout = Checkout::create(&world.objects, &dir, commit, tree).unwrap();
    write(&dir.join("sub/module/.git/config"), "nonsense");
    checkout.advance(&world.objects, commit, tree).unwrap();
    assert_eq!(fs::read_dir(dir.join("sub/module")).unwrap().count(), 0);
}

#[test]
fn a_landing_moves_branch_index_and_files_together() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!(world.status(), "");
    assert_eq!(world.user.head().unwrap().commit, new);
    assert_eq!(world.user.head_branch().unwrap().as_deref(), Some(MAIN));
    assert!(!world.root.join("src/b.txt").exists() && world.root.join("new/x/y.txt").exists());
    assert!(world.git(&["reflog", "-1"]).contains("land"));
    world.git(&["fsck", "--strict"]);
    assert_eq!(world.land(base, new), Land::Done, "landing twice is landing once");
}

#[test]
fn commits_between_base_and_result_land_with_it() {
    let world = World::new();
    let (base, _) = world.base();
    let first = world.change(MODIFY_A);
    let tree = world.objects.apply(world.objects.tree_of(first).unwrap(), ADD_NEW.as_bytes(), &LIMITS).unwrap().tree;
    let second = world.commit(tree, vec![first]);
    assert_eq!(world.land(base, second), Land::Done);
    world.git(&["fsck", "--strict", "--full"]);
    assert_eq!(world.git(&["rev-list", "--count", "HEAD"]).trim(), "3");
}

#[test]
fn files_of_the_users_that_are_not_touched_stay_as_they_are() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    write(&world.root.join("plain"), "mine\n");
    write(&world.root.join("src/b.txt"), "staged\n");
    world.git(&["add", "src/b.txt"]);
    write(&world.root.join("src/untracked"), "u\n");
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!(world.status(), " M plain\nM  src/b.txt\n?? src/untracked\n");
    assert_eq!(fs::read(world.root.join("src/a.txt")).unwrap(), b"one\nTWO\nthree\n");
}

/// What git knows of an entry without looking at the file, the size left out.
fn entry_of(world: &World, path: &str) -> Vec<String> {
    let told = world.git(&["ls-files", "-s", "-v", "--debug", "--", path]);
    told.lines().map(|line| line.split("size:").next().unwrap().to_owned()).collect()
}

#[test]
fn a_landing_exchanges_what_it_touches_in_the_index_and_nothing_else() {
    for format in ["sha1", "sha256"] {
        let world = World::with_format(format);
        let (base, _) = world.base();
        let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
        write(&world.root.join("docs/deep/staged.txt"), "staged\n");
        world.git(&["add", "docs"]);
        world.git(&["update-index", "--assume-unchanged", "end.txt"]);
        world.git(&["update-index", "--skip-worktree", "crlf.txt"]);
        let untouched = ["docs/deep/c.txt", "docs/deep/staged.txt", "end.txt", "crlf.txt", "plain", ".gitignore"];
        let before = untouched.map(|path| entry_of(&world, path));
        let mode = fs::metadata(world.root.join(".git/index")).unwrap().permissions().mode();
        assert_eq!(world.land(base, new), Land::Done);
        assert_eq!(untouched.map(|path| entry_of(&world, path)), before, "{format}");
        assert_eq!(fs::metadata(world.root.join(".git/index")).unwrap().permissions().mode(), mode);
        assert!(!world.root.join(".git/index.lock").exists() && !world.root.join(".git/norma-index").exists());
        // The checksum of the index is verified, and what git remembers of trees.
        world.git(&["fsck", "--strict"]);
        assert_eq!(world.status(), "A  docs/deep/staged.txt\n");
        world.git(&["commit", "-qm", "mine"]);
        assert_eq!(world.git(&["diff", "--name-only", &new.to_string(), "HEAD"]), "docs/deep/staged.txt\n");
        assert_eq!(world.git(&["write-tree"]), world.git(&["rev-parse", "HEAD^{tree}"]));
    }
}

#[test]
fn an_index_of_any_form_is_landed_on() {
    let forms: [&[&str]; 5] = [
        &["update-index", "--index-version", "4"],
        &["update-index", "--split-index"],
        &["update-index", "--untracked-cache"],
        &["config", "core.splitIndex", "true"],
        &["config", "feature.manyFiles", "true"],
    ];
    for form in forms {
        let world = World::new();
        let (base, _) = world.base();
        let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
        world.git(form);
        assert_eq!(world.land(base, new), Land::Done, "{form:?}");
        assert_eq!(world.status(), "", "{form:?}");
        world.git(&["fsck", "--strict"]);
        assert_eq!(world.git(&["write-tree"]), world.git(&["rev-parse", "HEAD^{tree}"]), "{form:?}");
    }
}

#[test]
fn an_edit_that_only_the_age_of_the_index_gives_away_stays_one() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    let (plain, index) = (world.root.join("plain"), world.root.join(".git/index"));
    // Written again in the moment in which git looked at it, with the same size.
    let moment = fs::metadata(&plain).unwrap().modified().unwrap();
    fs::write(&plain, "PLAIN\n").unwrap();
    fs::File::open(&plain).unwrap().set_modified(moment).unwrap();
    fs::File::open(&index).unwrap().set_modified(moment).unwrap();
    world.git(&["config", "core.trustctime", "false"]);
    assert_eq!(world.status(), " M plain\n");
    assert_eq!(world.land(base, new), Land::Done);
    // Now the index is younger than the file for every git.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    fs::File::open(&index).unwrap().set_modified(later).unwrap();
    assert_eq!(world.status(), " M plain\n");
}

#[test]
fn a_lock_that_a_killed_norma_left_is_removed_and_no_other() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    let (lock, ours) = (world.root.join(".git/index.lock"), world.root.join(".git/norma-index"));
    write(&lock, "another git's");
    write(&ours, "left over");
    let before = world.state();
    let land = world.land(base, new);
    assert!(matches!(&land, Land::CheckoutRefused(words) if words.contains("index.lock")), "{land:?}");
    assert_eq!(world.state(), before);
    fs::remove_file(&lock).unwrap();
    write(&ours, "all of an index");
    fs::hard_link(&ours, &lock).unwrap();
    let held = fs::File::open(&ours).unwrap();
    held.lock().unwrap();
    assert!(matches!(world.land(base, new), Land::CheckoutRefused(_)), "somebody is at it");
    drop(held);
    assert_eq!((world.land(base, new), world.status().as_str()), (Land::Done, ""));
}

#[test]
fn a_landing_has_git_read_the_touched_part_of_the_index() {
    let world = with_git_that("echo \"$GIT_INDEX_FILE $*\" >> ../calls", "");
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    assert_eq!(world.land(base, new), Land::Done);
    let calls = fs::read_to_string(world.temp.path().join("calls")).unwrap();
    let reads = calls.lines().filter(|line| ["status", "read-tree", "update-index"].iter().any(|it| line.contains(it)));
    let reads: Vec<&str> = reads.collect();
    assert_eq!(reads.len(), 3, "{calls}");
    assert!(reads.iter().all(|line| line.contains(".norma/git/tmp/landing-")), "{calls}");
}

/// Something a user does to their checkout.
type Spoil = fn(&World);

#[test]
fn a_dirty_touched_path_declines_the_landing_and_nothing_changes() {
    let staged: Spoil = |world| {
        write(&world.root.join("src/a.txt"), "mine\n");
        world.git(&["add", "-A"]);
    };
    let cases: [(&str, Spoil); 7] = [
        ("src/a.txt", |world| write(&world.root.join("src/a.txt"), "mine\n")),
        ("src/a.txt", staged),
        ("src/a.txt", |world| fs::remove_file(world.root.join("src/a.txt")).unwrap()),
        ("new/x/y.txt", |world| write(&world.root.join("new/x/y.txt"), "untracked\n")),
        ("new", |world| write(&world.root.join("new"), "a file where a directory goes\n")),
        ("new/x/y.txt/inside.log", |world| write(&world.root.join("new/x/y.txt/inside.log"), "ignored\n")),
        ("new/x/y.txt", |world| {
            write(&world.root.join(".git/info/exclude"), "new/\n");
            write(&world.root.join("new/x/y.txt"), "ignored\n");
        }),
    ];
    for (path, spoil) in cases {
        let world = World::new();
        let (base, _) = world.base();
        let new = world.change(&format!("{MODIFY_A}{ADD_NEW}"));
        spoil(&world);
        let before = world.state();
        assert_eq!(world.land(base, new), Land::DirtyPaths(vec![path.as_bytes().to_vec()]));
        assert_eq!(world.state(), before, "{path}");
    }
}

#[test]
fn a_landing_can_turn_a_directory_into_a_file_and_back() {
    let world = World::new();
    let (base, tree) = world.base();
    let entry = world.objects.tree_entry(tree, b"plain").unwrap().unwrap();
    let entry = Entry { mode: entry.0, id: entry.1 };
    let edits = [
        (b"docs/deep/c.txt".to_vec(), None),
        (b"docs".to_vec(), Some(entry)),
        (b"plain".to_vec(), None),
        (b"plain/x".to_vec(), Some(entry)),
    ];
    let new = world.commit(world.objects.edit(tree, &edits).unwrap(), vec![base]);
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!(world.status(), "");
    let undone =
        BranchMove { user: &world.user, objects: &world.objects, branch: Some(MAIN), base, new, message: "undo" }
            .undo(&mut |_| ())
            .unwrap();
    assert_eq!((undone, world.status().as_str()), (Land::Done, ""));
    assert!(world.root.join("docs/deep/c.txt").is_file());
}

#[test]
fn a_branch_that_moved_is_left_alone() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    world.git(&["commit", "-q", "--allow-empty", "-m", "the user was faster"]);
    let before = world.state();
    assert_eq!(world.land(base, new), Land::Moved { found: Some(world.base().0) });
    assert_eq!(world.state(), before);
}

#[test]
fn only_the_reference_moves_when_the_user_is_on_another_branch() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    world.git(&["checkout", "-q", "-b", "other"]);
    let files_before = files(&world.root);
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!((files(&world.root), world.status().as_str()), (files_before, ""));
    assert_eq!(world.user.read_ref(MAIN).unwrap(), Some(new));
    assert_eq!(world.user.head().unwrap().commit, base);
}

#[test]
fn a_branch_checked_out_in_another_work_tree_is_not_moved_under_it() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    world.git(&["checkout", "-q", "-b", "other"]);
    world.git(&["worktree", "add", "-q", "../linked", "main"]);
    assert!(matches!(world.land(base, new), Land::CheckoutRefused(words) if words.contains("linked")));
    assert_eq!(world.user.read_ref(MAIN).unwrap(), Some(base));
}

#[test]
fn a_detached_head_moves_itself_and_no_branch() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    world.git(&["checkout", "-q", "--detach"]);
    let land = || {
        BranchMove { user: &world.user, objects: &world.objects, branch: None, base, new, message: "land" }
            .land(&mut |_| ())
            .unwrap()
    };
    assert_eq!(land(), Land::Done);
    let head = world.user.head().unwrap();
    assert_eq!((head.commit, head.branch), (new, None));
    assert_eq!((world.user.read_ref(MAIN).unwrap(), world.status().as_str()), (Some(base), ""));
    world.git(&["checkout", "-q", "main"]);
    assert!(matches!(land(), Land::Moved { .. }), "HEAD is on a branch now");
}

#[test]
fn a_linked_work_tree_lands_like_any_other() {
    let main = World::new();
    main.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let root = main.temp.path().join("linked");
    let World { temp, root: main_root, .. } = main;
    let main_before = files(&main_root);
    let world = World::open(temp, root);
    assert_ne!(world.user.git_dir, world.user.common_dir);
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}"));
    let land = BranchMove {
        user: &world.user,
        objects: &world.objects,
        branch: Some("refs/heads/side"),
        base,
        new,
        message: "land",
    }
    .land(&mut |_| ());
    assert_eq!(land.unwrap(), Land::Done);
    assert_eq!((world.status().as_str(), files(&main_root)), ("", main_before));
}

#[test]
fn a_merge_in_progress_declines_the_landing() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    write(&world.root.join(".git/MERGE_HEAD"), format!("{base}\n"));
    assert_eq!(world.land(base, new), Land::CheckoutRefused("a merge is in progress".to_owned()));
}

/// Lands and dies at a point.
fn land_until(world: &World, base: ObjectId, new: ObjectId, point: &str) {
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut at = |reached: &str| assert_ne!(reached, point, "killed here");
        BranchMove { user: &world.user, objects: &world.objects, branch: Some(MAIN), base, new, message: "land" }
            .land(&mut at)
    }));
    assert!(killed.is_err(), "{point} was reached");
}

#[test]
fn a_landing_killed_at_any_point_is_finished_by_the_next_call() {
    for point in ["exported", "ref_moved", "index_locked", "files_moved", "checked_out"] {
        let world = World::new();
        let (base, _) = world.base();
        let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
        write(&world.root.join("plain"), "mine\n");
        land_until(&world, base, new, point);
        assert_eq!(world.land(base, new), Land::Done, "{point}");
        assert_eq!((world.status().as_str(), world.base().0), (" M plain\n", new), "{point}");
    }
}

#[test]
fn files_that_git_had_moved_before_it_was_killed_are_accepted() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
    land_until(&world, base, new, "ref_moved");
    write(&world.root.join("src/a.txt"), "one\nTWO\nthree\n");
    write(&world.root.join("new/x/y.txt"), "y\n");
    fs::remove_file(world.root.join("src/b.txt")).unwrap();
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!((world.status().as_str(), world.base().0), ("", new));
}

#[test]
fn a_file_edited_between_kill_and_recovery_takes_the_landing_back() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
    land_until(&world, base, new, "ref_moved");
    write(&world.root.join("src/a.txt"), "mine\n");
    write(&world.root.join("new/x/y.txt"), "y\n");
    fs::remove_file(world.root.join("src/b.txt")).unwrap();
    assert_eq!(world.land(base, new), Land::DirtyPaths(vec![b"src/a.txt".to_vec()]));
    assert_eq!((world.status().as_str(), world.base().0), (" M src/a.txt\n", base));
}

#[test]
fn edits_after_a_finished_landing_are_not_mistaken_for_an_unfinished_one() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}"));
    land_until(&world, base, new, "checked_out");
    write(&world.root.join("src/a.txt"), "mine\n");
    write(&world.root.join("new/x/y.txt"), "staged\n");
    world.git(&["add", "new"]);
    let before = world.state();
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!(world.state(), before);
}

/// A world whose `git` does this instead of moving files.
fn with_git_that_fails(instead: &str) -> World {
    with_git_that("", instead)
}

/// A world whose `git` does something each time, and something else instead of moving files.
fn with_git_that(always: &str, instead: &str) -> World {
    let World { temp, root, .. } = World::new();
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|file| file.is_file()).unwrap();
    let script = format!(
        "#!/bin/sh\n{always}\ncase \" $* \" in\n*\" read-tree \"*\" -n \"*) ;;\n*\" read-tree -m \"*) {instead} ;;\nesac\nexec {} \"$@\"\n",
        real.display()
    );
    let dir = temp.path().join("bin");
    write(&dir.join("git"), script);
    fs::set_permissions(dir.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut environment = environment(temp.path());
    environment.path = Some(std::env::join_paths([dir].into_iter().chain(std::env::split_paths(&path))).unwrap());
    let user = Repository::discover(&root, environment).unwrap();
    let objects = Objects::open_or_create(&root.join(".norma/git"), &user).unwrap();
    World { temp, root, user, objects }
}

#[test]
fn files_git_cannot_write_take_the_reference_back() {
    let world = with_git_that_fails("mkdir -p new/x; echo y > new/x/y.txt; echo no room >&2; exit 128");
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}"));
    let before = world.state();
    assert_eq!(world.land(base, new), Land::CheckoutRefused("no room".to_owned()));
    assert_eq!((world.state(), world.status().as_str()), (before, ""));
}

#[test]
fn git_killed_while_it_moves_files_takes_the_landing_back() {
    let world = with_git_that_fails("mkdir -p new/x; echo y > new/x/y.txt; : > .git/index.lock; kill -9 $$");
    let (base, _) = world.base();
    let new = world.change(&format!("{ADD_NEW}{MODIFY_A}{DELETE_B}"));
    let before = world.state();
    let land = world.land(base, new);
    assert!(matches!(&land, Land::CheckoutRefused(words) if words.contains("signal: 9")), "{land:?}");
    assert_eq!(world.state(), before);
    fs::remove_file(world.root.join(".git/index.lock")).unwrap();
    assert_eq!(world.status(), "");
}

/// A world whose user has this filter for `y.txt`; each of its commands leaves the canary.
fn with_filter(name: &str, commands: &[&str]) -> (World, PathBuf) {
    let world = World::new();
    let canary = world.temp.path().join("canary");
    let path = world.temp.path().join("home/.gitconfig");
    let mut config = fs::read_to_string(&path).unwrap() + &format!("[filter \"{name}\"]\n\trequired = true\n");
    for command in commands {
        config += &format!("\t{command} = \"touch {}; cat\"\n", canary.display());
    }
    write(&path, config);
    write(&world.root.join(".git/info/attributes"), format!("*.txt filter={name}\n"));
    (world, canary)
}

#[test]
fn no_filter_runs_and_a_file_that_needs_one_is_left_to_the_users_git() {
    let (world, canary) = with_filter("a=b.c", &["smudge", "clean", "process"]);
    let (base, _) = world.base();
    // The index knows nothing of this file's time, so git has to look into it.
    write(&world.root.join("src/a.txt"), "one\ntwo\nthree\n");
    assert!(world.user.dirty(&world.objects).unwrap().is_empty());
    let new = world.change(ADD_NEW);
    let before = world.state();
    let land = world.land(base, new);
    let expected = "new/x/y.txt goes through the git filter \"a=b.c\", which norma does not run";
    assert!(matches!(&land, Land::CheckoutRefused(words) if words.starts_with(expected)), "{land:?}");
    assert_eq!(world.state(), before);
    let other = world.change(&ADD_NEW.replace("y.txt", "y.md"));
    assert_eq!(world.land(base, other), Land::Done);
    assert!(!canary.exists());
    // The user's own git would run it on files whose times are too close to tell.
    write(&world.root.join(".git/info/attributes"), "");
    assert_eq!(world.status(), "");
}

#[test]
fn a_file_that_is_only_cleaned_lands_and_leaves_a_clean_status() {
    let (world, canary) = with_filter("strip", &["clean"]);
    let (base, _) = world.base();
    let new = world.change(&format!("{ADD_NEW}{MODIFY_A}"));
    assert_eq!(world.land(base, new), Land::Done);
    assert!(!canary.exists());
    assert_eq!(
        (fs::read(world.root.join("new/x/y.txt")).unwrap().as_slice(), world.status().as_str()),
        (&b"y\n"[..], "")
    );
}

#[test]
fn a_filter_that_comes_with_the_change_is_found() {
    let (world, canary) = with_filter("up", &["smudge"]);
    write(&world.root.join(".git/info/attributes"), "");
    let (base, _) = world.base();
    let attributes = add(".gitattributes", "100644").replace("+x", "+*.txt filter=up");
    let new = world.change(&format!("{attributes}{ADD_NEW}"));
    let land = world.land(base, new);
    assert!(matches!(&land, Land::CheckoutRefused(words) if words.contains("filter \"up\"")), "{land:?}");
    assert!(!canary.exists());
}

#[test]
fn what_the_configuration_names_is_found_wherever_it_is_written() {
    let world = World::new();
    let root = world.root.canonicalize().unwrap();
    write(&root.join("strip.py"), "");
    write(&root.join("store/x"), "");
    let config = fs::read_to_string(root.join(".git/config")).unwrap();
    let more = format!(
        "[core]\n\thooksPath = .githooks\n\tfsmonitor = ./tools/watch\n[include]\n\tpath = ../tools/config\n\
         [filter \"x.y\"]\n\tclean = python3 strip.py --all %f\n\tsmudge = \"{}/tools/smudge\" %f\n\
         [credential]\n\thelper = store\n[alias]\n\tgo = !sh tools/go.sh\n\tlog1 = log src/a.txt\n[diff \"d\"]\n\ttextconv = /bin/cat\n",
        root.display()
    );
    write(&root.join(".git/config"), config + &more);
    write(&root.join("tools/config"), "[merge \"m\"]\n\tdriver = later/merge.sh %A\n");
    let named: Vec<String> = world.user.named_by_git().unwrap().iter().map(ToString::to_string).collect();
    let expected =
        [".githooks", "later/merge.sh", "strip.py", "tools/config", "tools/go.sh", "tools/smudge", "tools/watch"];
    assert_eq!(named, expected);
}

#[test]
fn hooks_and_the_file_system_monitor_of_the_user_do_not_run() {
    let world = World::new();
    let canary = world.temp.path().join("canary");
    let hook = format!("#!/bin/sh\ntouch {}\n", canary.display());
    for name in ["post-index-change", "reference-transaction", "post-checkout", "fsmonitor"] {
        let path = world.root.join(".git/hooks").join(name);
        write(&path, &hook);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (base, _) = world.base();
    let config = world.root.join(".git/config");
    let text = fs::read_to_string(&config).unwrap() + "[core]\n\tfsmonitor = .git/hooks/fsmonitor\n";
    write(&config, text);
    let new = world.change(MODIFY_A);
    assert_eq!(world.land(base, new), Land::Done);
    assert!(world.user.dirty(&world.objects).unwrap().is_empty() && !canary.exists());
}

#[test]
fn an_undo_takes_the_landing_back_and_only_from_where_it_left_the_branch() {
    let world = World::new();
    let (base, _) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
    let files_before = files(&world.root);
    assert_eq!(world.land(base, new), Land::Done);
    let undo = || {
        BranchMove { user: &world.user, objects: &world.objects, branch: Some(MAIN), base, new, message: "undo" }
            .undo(&mut |_| ())
            .unwrap()
    };
    write(&world.root.join("src/a.txt"), "mine\n");
    assert_eq!(undo(), Land::DirtyPaths(vec![b"src/a.txt".to_vec()]));
    write(&world.root.join("src/a.txt"), "one\nTWO\nthree\n");
    assert_eq!(undo(), Land::Done);
    assert_eq!((files(&world.root), world.base().0, world.status().as_str()), (files_before, base, ""));
    world.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    assert!(matches!(undo(), Land::Moved { .. }));
}

#[test]
fn the_users_garbage_collection_takes_nothing_from_norma() {
    let world = World::new();
    let (base, base_tree) = world.base();
    // The user's repository has the resulting blob already, but nothing there refers to it.
    write(&world.temp.path().join("blob"), "one\nTWO\nthree\n");
    world.git(&["hash-object", "-w", "../blob"]);
    let applied = world.apply(MODIFY_A).unwrap();
    world.git(&["gc", "-q", "--prune=now"]);
    let blob = applied.changes[0].new.unwrap().id;
    assert_eq!(world.objects.read_blob(blob).unwrap(), b"one\nTWO\nthree\n");
    let new = world.commit(applied.tree, vec![base]);
    world.git(&["gc", "-q", "--prune=now"]);
    world.objects.pin("run/1", new).unwrap();
    git_in(world.temp.path(), &world.objects.dir, &["--git-dir=.", "gc", "-q", "--prune=now"]);
    assert_eq!(world.objects.diff(base_tree, applied.tree).unwrap(), applied.changes);
    assert_eq!(world.land(base, new), Land::Done);
    world.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(world.status(), "");
}

#[test]
fn a_repository_that_borrows_its_objects_by_a_relative_path_is_readable() {
    let lender = World::new();
    git_in(lender.temp.path(), lender.temp.path(), &["clone", "-q", "--shared", "user", "borrower"]);
    let root = lender.temp.path().join("borrower");
    write(&root.join(".git/objects/info/alternates"), "../../../user/.git/objects\n");
    let World { temp, .. } = lender;
    let world = World::open(temp, root);
    let (base, _) = world.base();
    let new = world.change(MODIFY_A);
    assert_eq!(world.land(base, new), Land::Done);
}

#[test]
fn a_sha256_repository_works_from_patch_to_landing() {
    let world = World::with_format("sha256");
    assert_eq!(world.user.format, gix_hash::Kind::Sha256);
    let (base, tree) = world.base();
    let new = world.change(&format!("{MODIFY_A}{ADD_NEW}{DELETE_B}"));
    world.objects.pin("run/1", new).unwrap();
    let dir = world.root.join(".norma/worktrees/x");
    let checkout = Checkout::create(&world.objects, &dir, base, tree).unwrap();
    checkout.advance(&world.objects, new, world.objects.tree_of(new).unwrap()).unwrap();
    assert_eq!(git_in(world.temp.path(), &dir, &["status", "--porcelain"]), "");
    land_until(&world, base, new, "ref_moved");
    fs::remove_file(world.root.join("src/b.txt")).unwrap();
    assert_eq!(world.land(base, new), Land::Done);
    assert_eq!((world.status().as_str(), world.base().0), ("", new));
}

#[test]
fn the_objects_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Objects>();
    shareable::<Repository>();
}

#[test]
fn opening_twice_is_opening_once_and_another_format_is_refused() {
    let world = World::new();
    let dir = world.root.join(".norma/git");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| Objects::open_or_create(&dir, &world.user).unwrap());
        }
    });
    let other = World::with_format("sha256");
    assert!(matches!(Objects::open_or_create(&dir, &other.user), Err(GitError::FormatMismatch { .. })));
}

#[test]
fn a_change_to_a_large_repository_costs_what_the_change_weighs() {
    let world = World::new();
    world.import_large();
    let (base, tree) = world.base();
    let patch = "--- a/big/d7/f7.txt\n+++ b/big/d7/f7.txt\n@@ -1 +1 @@\n-7 7\n+seven\n";
    let timed = |what: &str, started: Instant| println!("{what}: {:?}", started.elapsed());
    let (started, read) = (Instant::now(), world.objects.objects_read());
    let applied = world.objects.apply(tree, patch.as_bytes(), &LIMITS).unwrap();
    timed("apply", started);
    let read = world.objects.objects_read() - read;
    assert!(read <= 16, "{read} objects were read for one changed file");
    let new = world.commit(applied.tree, vec![base]);
    let started = Instant::now();
    world.objects.pin("run/1", new).unwrap();
    timed("pin", started);
    let started = Instant::now();
    let checkout = Checkout::create(&world.objects, &world.root.join(".norma/worktrees/x"), base, tree).unwrap();
    timed("checkout of 20,000 files", started);
    let started = Instant::now();
    checkout.advance(&world.objects, new, applied.tree).unwrap();
    timed("advance", started);
    let started = Instant::now();
    checkout.remove().unwrap();
    timed("remove", started);
    let started = Instant::now();
    assert_eq!(world.land(base, new), Land::Done);
    timed("land", started);
}

/// A tree with these files: path, mode, content.
fn tree(world: &World, files: &[(&str, u32, &str)]) -> ObjectId {
    let empty = ObjectId::empty_tree(world.objects.format);
    let entry = |(path, mode, text): &(&str, u32, &str)| {
        let id = world.objects.write_blob(text.as_bytes()).unwrap();
        (path.as_bytes().to_vec(), Some(Entry { mode: *mode, id }))
    };
    world.objects.edit(empty, &files.iter().map(entry).collect::<Vec<_>>()).unwrap()
}

/// What comes of three trees: the files of the merged one, or the conflicts, a line each.
fn merge(world: &World, sides: [&[(&str, u32, &str)]; 3]) -> Vec<String> {
    let [base, ours, theirs] = sides.map(|files| tree(world, files));
    let shown = |merged: Merged| match merged {
        Merged::Conflicts(conflicts) => {
            conflicts.iter().map(|it| format!("{}: {}", String::from_utf8_lossy(&it.path), it.kind)).collect()
        }
        Merged::Tree(tree) => {
            let mut lines = Vec::new();
            let mut each = |path: &[u8], mode, id| {
                let text = String::from_utf8(world.objects.read_blob(id).unwrap()).unwrap();
                lines.push(format!("{} {mode:o} {text:?}", String::from_utf8_lossy(path)));
            };
            world.objects.walk(tree, &mut each).unwrap();
            lines
        }
    };
    shown(world.objects.merge(base, ours, theirs).unwrap())
}

#[test]
fn trees_are_merged_path_by_path_and_texts_line_by_line() {
    let world = World::new();
    let base: &[_] = &[("a", MODE_FILE, "1\n2\n3\n"), ("d/gone", MODE_FILE, "x"), ("d/kept", MODE_FILE, "x")];
    let ours: &[_] = &[("a", MODE_EXECUTABLE, "one\n2\n3\n"), ("d/kept", MODE_FILE, "x"), ("new", MODE_FILE, "n")];
    let theirs: &[_] = &[("a", MODE_FILE, "1\n2\nthree\n"), ("d/gone", MODE_FILE, "x"), ("d/kept", MODE_FILE, "y")];
    let merged = merge(&world, [base, ours, theirs]);
    assert_eq!(merged, ["a 100755 \"one\\n2\\nthree\\n\"", "d/kept 100644 \"y\"", "new 100644 \"n\""]);
    assert_eq!(merge(&world, [base, theirs, ours]), merged);
    assert_eq!(merge(&world, [base, base, theirs]), merge(&world, [theirs, theirs, theirs]));
}

#[test]
fn what_cannot_be_merged_is_named_with_its_reason() {
    let world = World::new();
    let check = |sides: [&[(&str, u32, &str)]; 3], expected: &str| {
        assert_eq!(merge(&world, sides), [expected], "{sides:?}");
    };
    let text = |text: &'static str| [("a", MODE_FILE, text)];
    check([&text("1\n"), &text("2\n"), &text("3\n")], "a: both sides changed line 1 differently");
    check([&[], &text("2\n"), &text("3\n")], "a: both sides added it, with different content");
    check([&text("1\n"), &[], &text("3\n")], "a: it is deleted here and was changed meanwhile");
    check([&text("1\n"), &text("3\n"), &[]], "a: it is changed here and was deleted meanwhile");
    check([&text("1\0"), &text("2\0"), &text("3\0")], "a: both sides changed it, and it is binary");
    let link = |to: &'static str| [("a", MODE_SYMLINK, to)];
    check([&link("1"), &link("2"), &link("3")], "a: both sides changed it, and it is not a plain file");
    check([&text("1"), &link("2"), &text("3")], "a: both sides changed it, and it is not a plain file");
    let below = [("a/b", MODE_FILE, "x")];
    check([&[], &text("2\n"), &below], "a: it would be a file and a directory at once");
    check([&[], &below, &text("2\n")], "a/b: it would be a file and a directory at once");
}

#[test]
fn a_file_that_became_a_directory_is_no_conflict_where_nobody_else_touched_it() {
    let world = World::new();
    let (file, dir) =
        ([("a", MODE_FILE, "x"), ("z", MODE_FILE, "1")], [("a/b", MODE_FILE, "y"), ("z", MODE_FILE, "1")]);
    let other = [("a", MODE_FILE, "x"), ("z", MODE_FILE, "2")];
    assert_eq!(merge(&world, [&file, &dir, &other]), ["a/b 100644 \"y\"", "z 100644 \"2\""]);
    let other = [("a/b", MODE_FILE, "y"), ("z", MODE_FILE, "2")];
    assert_eq!(merge(&world, [&dir, &file, &other]), ["a 100644 \"x\"", "z 100644 \"2\""]);
}
