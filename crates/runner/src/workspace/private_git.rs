//! The agent's own repository, in parts: every layer holds what it adds to `.git`, and the overlay merges them.
//!
//! The base has the configuration and one pack; a thin layer has its HEAD, a pack of the objects that the layers below
//! lack, and an index. Nothing is borrowed from the user's repository or from norma's: what an agent can reach is what the
//! layers hold.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix_object::Write as _;
use gix_odb::loose;

use super::{Secret, pack};
use crate::git::objects::{Objects, RAW_ATTRIBUTES, Reader, core_config};
use crate::git::{GitError, IoContext, ObjectId};
use contract::History;
use std::collections::BTreeSet;

/// What the agent's repository is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// What HEAD names.
    pub(super) commit: ObjectId,
    /// What the files are; later than the commit in the middle of a run.
    pub(super) tree: ObjectId,
    pub(super) history: History,
}

/// Makes the parts that never change afterwards.
pub(super) fn begin(files: &Path, format: gix_hash::Kind) -> Result<(), GitError> {
    for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        let part = files.join(".git").join(part);
        fs::create_dir_all(&part).context("create directory", &part)?;
    }
    // Inode, owner and change time inside are not those the index was written with. The index has no checksum.
    let config = format!(
        "{}\ttrustctime = false\n\tcheckStat = minimal\n\tbare = false\n[index]\n\tskipHash = true\n[gc]\n\tauto = 0\n\
         [maintenance]\n\tauto = false\n[user]\n\tname = agent\n\temail = agent@localhost\n",
        core_config(format)
    );
    put(files, "config", config.as_bytes())?;
    // norma's own directory stands in the workspace without being part of it.
    put(files, "info/exclude", b"/.norma/\n")?;
    put(files, "info/attributes", RAW_ATTRIBUTES.as_bytes())
}

/// Has the repository do without these objects: git is shown an empty file in place of each. It also looks whether they
/// are there before it makes a commit over them, so there is something of their name, with nothing in it.
///
/// `before` is the file that says so in a layer below, which this one's takes the place of.
pub(super) fn cover(
    files: &Path,
    format: gix_hash::Kind,
    ids: &BTreeSet<ObjectId>,
    before: Option<&str>,
) -> Result<(), GitError> {
    let dir = files.join(".git/objects");
    fs::create_dir_all(&dir).context("create directory", &dir)?;
    let empty = ObjectId::empty_blob(format);
    let written = loose::Store::at(&dir, format).write_buf(gix_object::Kind::Blob, b"");
    written.map_err(|error| GitError::WriteObject { path: dir.clone(), detail: error.to_string() })?;
    let place_of = |id: &ObjectId| {
        let name = id.to_string();
        dir.join(&name[..2]).join(&name[2..])
    };
    let nothing = place_of(&empty);
    for place in ids.iter().filter(|id| **id != empty).map(place_of) {
        let parent = place.parent().unwrap_or(&dir);
        fs::create_dir_all(parent).context("create directory", parent)?;
        fs::copy(&nothing, &place).map(drop).context("write", &place)?;
    }
    let lines = before.unwrap_or_default().lines().filter(|line| !line.starts_with('#'));
    let before = lines.map(|line| format!("{line}\n"));
    let refs: BTreeSet<String> = ids.iter().map(|id| format!("{empty} refs/replace/{id}\n")).chain(before).collect();
    let sorted = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    put(files, "packed-refs", refs.into_iter().fold(sorted, |all, line| all + &line).as_bytes())
}

/// Detaches HEAD at the commit and says whether that is where history ends.
pub(super) fn set_head(files: &Path, reader: &Reader<'_>, position: Position) -> Result<(), GitError> {
    let line = format!("{}\n", position.commit);
    let git = files.join(".git");
    fs::create_dir_all(&git).context("create directory", &git)?;
    put(files, "HEAD", line.as_bytes())?;
    if position.history == History::Full {
        return Ok(());
    }
    let (_, parents) = reader.commit(position.commit)?;
    // Written even if empty: a layer below may have one that says something else.
    put(files, "shallow", if parents.is_empty() { b"" } else { line.as_bytes() })
}

/// Writes a file of the repository.
pub(super) fn put(files: &Path, name: &str, content: &[u8]) -> Result<(), GitError> {
    let path = files.join(".git").join(name);
    fs::write(&path, content).context("write", &path)
}

/// Packs exactly these objects: here if they are few, else by git.
pub(super) fn add_pack(objects: &Objects, reader: &Reader<'_>, files: &Path, ids: &[ObjectId]) -> Result<(), GitError> {
    let dir = files.join(".git/objects/pack");
    fs::create_dir_all(&dir).context("create directory", &dir)?;
    if pack::write(reader, &dir, ids)? { Ok(()) } else { pack(objects, files, ids) }
}

/// Copies those of these objects that have a file of their own, and answers which: git would map all of such a file to
/// pack it, and compress it anew.
pub(super) fn copy_loose(
    objects: &Objects,
    files: &Path,
    ids: impl Iterator<Item = ObjectId>,
) -> Result<BTreeSet<ObjectId>, GitError> {
    let mut copied = BTreeSet::new();
    for id in ids {
        let Some(from) = objects.loose_paths(id).into_iter().find(|path| path.is_file()) else { continue };
        let to = loose::Store::at(files.join(".git/objects"), objects.format).object_path(&id);
        let dir = to.parent().unwrap_or(files);
        fs::create_dir_all(dir).context("create directory", dir)?;
        if copied.insert(id) {
            fs::copy(&from, &to).map(drop).context("write", &to)?;
        }
    }
    Ok(copied)
}

/// Has git pack exactly these objects.
fn pack(objects: &Objects, files: &Path, ids: &[ObjectId]) -> Result<(), GitError> {
    let list: Vec<String> = ids.iter().map(|id| format!("{id}\n")).collect();
    run_pack(objects, files, list.concat())
}

/// Packs everything a position reaches, but for what another one reaches, for what is there already, and for what agents
/// may not see, which it answers.
pub(super) fn pack_history(
    objects: &Objects,
    files: &Path,
    position: Position,
    without: Option<Position>,
    there: &BTreeSet<ObjectId>,
    is_secret: Secret,
) -> Result<BTreeSet<ObjectId>, GitError> {
    let mut list = format!("{}\n{}\n", position.commit, position.tree);
    if let Some(without) = without {
        list.push_str(&format!("^{}\n^{}\n", without.commit, without.tree));
    }
    // Each object with the path at which it was found.
    let found = objects.git("rev-list").args(&["--objects", "--stdin"]).input(list.into_bytes()).run()?;
    let found = String::from_utf8_lossy(&found).into_owned();
    let is_covered =
        |line: &&str| line.split_once(' ').is_some_and(|(_, path)| is_secret(path.rsplit('/').next().unwrap_or(path)));
    let (covered, shown): (Vec<&str>, Vec<&str>) = found.lines().partition(is_covered);
    let id = |line: &str| ObjectId::from_hex(line.split(' ').next().unwrap_or_default().as_bytes()).ok();
    let shown = shown.into_iter().filter(|line| there.is_empty() || id(line).is_none_or(|id| !there.contains(&id)));
    run_pack(objects, files, shown.flat_map(|line| [line, "\n"]).collect())?;
    Ok(covered.into_iter().filter_map(id).collect())
}

fn run_pack(objects: &Objects, files: &Path, list: String) -> Result<(), GitError> {
    let dir = files.join(".git/objects/pack");
    fs::create_dir_all(&dir).context("create directory", &dir)?;
    // No search for similar objects: a pack that lives for one machine's cache need not be small.
    let command = objects.git("pack-objects").streaming().args(&["-q", "--window=0", "--compression=1"]);
    command.arg(std::ffi::OsStr::from_bytes(dir.join("pack").as_os_str().as_bytes())).input(list.into_bytes()).run()?;
    Ok(())
}
