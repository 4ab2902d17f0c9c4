//! Trees: parsed, compared, walked and edited without an index.
//!
//! Everything here reads only the trees it must: identical subtrees are skipped by their id, and an edit
//! rewrites the trees on the way to the edited paths and no others. Comparing finds no renames on purpose:
//! a gate must see both sides of a move.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::{Objects, Reader};
use super::patch::PatchProblem;
use super::{GitError, ObjectId};

/// A directory.
pub const MODE_TREE: u32 = 0o040_000;
/// A plain file.
pub const MODE_FILE: u32 = 0o100_644;
/// A file with the executable bit.
pub const MODE_EXECUTABLE: u32 = 0o100_755;
/// A symbolic link.
pub const MODE_SYMLINK: u32 = 0o120_000;
/// A commit of another repository (a submodule).
pub const MODE_GITLINK: u32 = 0o160_000;

/// What a tree says about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Kind and permission bits as git writes them.
    pub mode: u32,
    /// The blob, tree or foreign commit.
    pub id: ObjectId,
}

/// One path that differs between two trees. Directories are never listed, only what is in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeChange {
    /// The path from the root, exact bytes.
    pub path: Vec<u8>,
    /// Before; `None` if the path was added.
    pub old: Option<Entry>,
    /// After; `None` if the path was deleted.
    pub new: Option<Entry>,
}

/// One line of a tree object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: Arc<[u8]>,
    pub(crate) entry: Entry,
}

impl Entry {
    pub(crate) fn is_tree(self) -> bool {
        self.mode == MODE_TREE
    }
}

/// Reads a tree object.
pub(crate) fn parse(id: ObjectId, mut data: &[u8]) -> Result<Vec<Line>, GitError> {
    let malformed = || GitError::BadObject { id, detail: "the tree is malformed".to_owned() };
    let mut lines = Vec::new();
    while !data.is_empty() {
        let (line, rest) = parse_line(data, id.kind()).ok_or_else(malformed)?;
        lines.push(line);
        data = rest;
    }
    Ok(lines)
}

fn parse_line(data: &[u8], kind: gix_hash::Kind) -> Option<(Line, &[u8])> {
    let space = data.iter().position(|byte| *byte == b' ')?;
    let mode = u32::from_str_radix(std::str::from_utf8(&data[..space]).ok()?, 8).ok()?;
    let data = &data[space + 1..];
    let end = data.iter().position(|byte| *byte == 0)?;
    let (name, data) = (&data[..end], &data[end + 1..]);
    let (id, rest) = data.split_at_checked(kind.len_in_bytes())?;
    let well_named = !name.is_empty() && !name.contains(&b'/');
    let line = Line { name: name.into(), entry: Entry { mode, id: ObjectId::try_from(id).ok()? } };
    well_named.then_some((line, rest))
}

/// The bytes of a tree object.
fn encode(lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.name.len() + 40).sum());
    for line in lines {
        bytes.extend_from_slice(format!("{:o} ", line.entry.mode).as_bytes());
        bytes.extend_from_slice(&line.name);
        bytes.push(0);
        bytes.extend_from_slice(line.entry.id.as_bytes());
    }
    bytes
}

/// git sorts a directory as if its name ended with a slash.
fn git_order(left: &Line, right: &Line) -> Ordering {
    let common = left.name.len().min(right.name.len());
    let next = |line: &Line| line.name.get(common).copied().or(line.entry.is_tree().then_some(b'/'));
    let rest = |line: &Line| line.name.len() - common;
    let by_name = left.name[..common].cmp(&right.name[..common]);
    by_name.then_with(|| next(left).cmp(&next(right))).then_with(|| rest(left).cmp(&rest(right)))
}

/// Joins a directory and a name.
pub(crate) fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// A path's directory and its last name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Two directories at the same path, either of which may be absent.
struct Pair {
    path: Vec<u8>,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
}

/// Lists what differs between two trees, by path bytes.
pub(crate) fn diff(reader: &Reader<'_>, old: ObjectId, new: ObjectId) -> Result<Vec<TreeChange>, GitError> {
    if let Some(known) = reader.objects().remembered.difference(old, new) {
        return Ok(known.to_vec());
    }
    let mut changes = Vec::new();
    if old != new {
        visit_pairs(reader, Pair { path: Vec::new(), old: Some(old), new: Some(new) }, &mut changes, &mut |_| ())?;
    }
    changes.sort_by(|left, right| left.path.cmp(&right.path));
    reader.objects().remembered.keep_difference(old, new, &changes);
    Ok(changes)
}

/// The ids of every tree and blob that `new` names and `old` does not have at the same path; parts before
/// wholes, so that what is written in this order never names something absent.
pub(crate) fn new_objects(reader: &Reader<'_>, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, GitError> {
    let mut changes = Vec::new();
    let mut trees = Vec::new();
    if old != new {
        let root = Pair { path: Vec::new(), old: Some(old), new: Some(new) };
        visit_pairs(reader, root, &mut changes, &mut |tree| trees.push(tree))?;
    }
    let blobs = changes.iter().filter_map(|change| change.new).filter(|entry| entry.mode != MODE_GITLINK);
    Ok(blobs.map(|entry| entry.id).chain(trees.into_iter().rev()).collect())
}

/// The shared loop of [`diff`] and [`new_objects`]. A list instead of recursion: the depth of a tree is
/// decided by whoever made it.
fn visit_pairs(
    reader: &Reader<'_>,
    root: Pair,
    changes: &mut Vec<TreeChange>,
    new_tree: &mut dyn FnMut(ObjectId),
) -> Result<(), GitError> {
    let mut due = vec![root];
    while let Some(pair) = due.pop() {
        pair.new.iter().copied().for_each(&mut *new_tree);
        let (old, new) = (reader.tree_or_nothing(pair.old)?, reader.tree_or_nothing(pair.new)?);
        for (name, [old, new]) in differing(&old, &new) {
            compare(join(&pair.path, name), old, new, &mut due, changes);
        }
    }
    Ok(())
}

/// The names of which two directories have not the same, with what each has. What both begin and end with is passed over:
/// most changes are few, and the order of a tree that somebody made by hand is not relied on.
pub(crate) fn differing<'l>(old: &'l [Line], new: &'l [Line]) -> BTreeMap<&'l [u8], [Option<Entry>; 2]> {
    let begin = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[begin..], &new[begin..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let mut names: BTreeMap<&[u8], [Option<Entry>; 2]> = BTreeMap::new();
    for (side, lines) in [&old[..old.len() - end], &new[..new.len() - end]].into_iter().enumerate() {
        for line in lines {
            names.entry(&line.name).or_default()[side] = Some(line.entry);
        }
    }
    names.retain(|_, [old, new]| old != new);
    names
}

fn compare(path: Vec<u8>, old: Option<Entry>, new: Option<Entry>, due: &mut Vec<Pair>, changes: &mut Vec<TreeChange>) {
    let tree = |side: Option<Entry>| side.filter(|entry| entry.is_tree()).map(|entry| entry.id);
    let leaf = |side: Option<Entry>| side.filter(|entry| !entry.is_tree());
    if tree(old).is_some() || tree(new).is_some() {
        due.push(Pair { path: path.clone(), old: tree(old), new: tree(new) });
    }
    if leaf(old).is_some() || leaf(new).is_some() {
        changes.push(TreeChange { path, old: leaf(old), new: leaf(new) });
    }
}

/// Calls `each` for everything in a tree that is not a directory, in git's order.
pub(crate) fn walk(
    reader: &Reader<'_>,
    tree: ObjectId,
    each: &mut dyn FnMut(&[u8], u32, ObjectId),
) -> Result<(), GitError> {
    let mut due = vec![(Vec::new(), Entry { mode: MODE_TREE, id: tree })];
    while let Some((path, entry)) = due.pop() {
        if entry.is_tree() {
            let lines = reader.tree(entry.id)?;
            due.extend(lines.iter().rev().map(|line| (join(&path, &line.name), line.entry)));
        } else {
            each(&path, entry.mode, entry.id);
        }
    }
    Ok(())
}

/// Finds one path in a tree.
pub(crate) fn lookup(reader: &Reader<'_>, tree: ObjectId, path: &[u8]) -> Result<Option<Entry>, GitError> {
    let mut at = Entry { mode: MODE_TREE, id: tree };
    for name in path.split(|byte| *byte == b'/') {
        if !at.is_tree() {
            return Ok(None);
        }
        let lines = reader.tree(at.id)?;
        match lines.iter().find(|line| *line.name == *name) {
            Some(line) => at = line.entry,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// A path and what shall be there; `None` deletes it.
pub(crate) type Edit<'a> = (&'a [u8], Option<Entry>);

/// What becomes of a file.
#[derive(Default, Clone, Copy)]
enum Here {
    /// It stays as it is.
    #[default]
    Kept,
    /// This is there instead, or nothing.
    Edited(Option<Entry>),
}

/// What happens to one name of a directory.
#[derive(Default)]
struct Group<'a> {
    here: Here,
    below: Vec<Edit<'a>>,
}

/// Writes a tree, wherever it is to be.
type Put<'p> = dyn Fn(&[u8], Vec<Line>) -> Result<ObjectId, GitError> + 'p;

/// Makes a new tree from an old one. A file where a directory with entries is, or the other way round, is a
/// conflict, never a silent replacement. Recursion is bounded by the depth of the edited paths.
pub(crate) fn edit(
    objects: &Objects,
    reader: &Reader<'_>,
    base: ObjectId,
    edits: &[Edit<'_>],
) -> Result<ObjectId, PatchProblem> {
    let put = |bytes: &[u8], lines| {
        let id = objects.write(gix_object::Kind::Tree, bytes)?;
        objects.remembered.keep_tree(id, &Arc::new(lines));
        Ok(id)
    };
    edit_with(&put, reader, base, edits)
}

/// The same with trees that are written elsewhere.
pub(super) fn edit_with(
    put: &Put<'_>,
    reader: &Reader<'_>,
    base: ObjectId,
    edits: &[Edit<'_>],
) -> Result<ObjectId, PatchProblem> {
    match edit_directory(put, reader, Some(base), b"", edits)? {
        Some(tree) => Ok(tree),
        None => Ok(put(b"", Vec::new())?),
    }
}

fn edit_directory(
    put: &Put<'_>,
    reader: &Reader<'_>,
    tree: Option<ObjectId>,
    prefix: &[u8],
    edits: &[Edit<'_>],
) -> Result<Option<ObjectId>, PatchProblem> {
    let before = reader.tree_or_nothing(tree)?;
    let groups = by_first_name(edits);
    let (mut found, mut lines) = (BTreeMap::new(), Vec::with_capacity(before.len() + groups.len()));
    for line in before.iter() {
        match groups.contains_key(&*line.name) {
            true => drop(found.insert(&*line.name, line.entry)),
            false => lines.push(line.clone()),
        }
    }
    for (name, group) in groups {
        let path = join(prefix, name);
        let entry = edit_name(put, reader, &path, found.get(name).copied(), &group)?;
        lines.extend(entry.map(|entry| Line { name: name.into(), entry }));
    }
    if lines.is_empty() {
        return Ok(None);
    }
    // Quick where most of it is in order.
    lines.sort_by(git_order);
    Ok(Some(put(&encode(&lines), lines)?))
}

fn edit_name(
    put: &Put<'_>,
    reader: &Reader<'_>,
    path: &[u8],
    found: Option<Entry>,
    group: &Group<'_>,
) -> Result<Option<Entry>, PatchProblem> {
    let conflict = |what: &str| PatchProblem::Conflict(format!("{} {what}", String::from_utf8_lossy(path)));
    let directory = found.filter(|entry| entry.is_tree());
    let file = match group.here {
        Here::Edited(edited) => edited,
        Here::Kept => found.filter(|entry| !entry.is_tree()),
    };
    let below = match (directory, group.below.is_empty()) {
        (Some(directory), true) => Some(directory),
        (None, true) => None,
        (directory, false) => {
            let tree = directory.map(|entry| entry.id);
            let edited = edit_directory(put, reader, tree, path, &group.below)?;
            edited.map(|id| Entry { mode: MODE_TREE, id })
        }
    };
    match (file, below) {
        (Some(_), Some(_)) => Err(conflict("would be a file and a directory at once")),
        (file, below) => Ok(file.or(below)),
    }
}

fn by_first_name<'a>(edits: &[Edit<'a>]) -> BTreeMap<&'a [u8], Group<'a>> {
    let mut groups: BTreeMap<&[u8], Group<'_>> = BTreeMap::new();
    for (path, entry) in edits {
        match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => groups.entry(&path[..slash]).or_default().below.push((&path[slash + 1..], *entry)),
            None => groups.entry(path).or_default().here = Here::Edited(*entry),
        }
    }
    groups
}
