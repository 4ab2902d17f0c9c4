//! The agent's own repository, in parts: every layer holds what it adds to `.git`, and the overlay merges them.
//!
//! The base has the configuration and one pack; a thin layer has its HEAD, the objects the layers below lack, and
//! an index. Nothing is borrowed from the user's repository or from norma's: what an agent can reach is what the
//! layers hold.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix_object::Write as _;
use gix_odb::loose;

use crate::git::objects::{Objects, RAW_ATTRIBUTES, Reader, core_config};
use crate::git::{GitError, IoContext, ObjectId};
use contract::History;

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

/// Packs exactly these objects.
pub(super) fn pack(objects: &Objects, files: &Path, ids: &[ObjectId]) -> Result<(), GitError> {
    let list: Vec<String> = ids.iter().map(|id| format!("{id}\n")).collect();
    run_pack(objects, files, &[], list.concat())
}

/// Packs everything a position reaches, but for what another one reaches.
pub(super) fn pack_history(
    objects: &Objects,
    files: &Path,
    position: Position,
    without: Option<Position>,
) -> Result<(), GitError> {
    let mut list = format!("{}\n{}\n", position.commit, position.tree);
    if let Some(without) = without {
        list.push_str(&format!("^{}\n^{}\n", without.commit, without.tree));
    }
    run_pack(objects, files, &["--revs"], list)
}

fn run_pack(objects: &Objects, files: &Path, options: &[&str], list: String) -> Result<(), GitError> {
    let dir = files.join(".git/objects/pack");
    fs::create_dir_all(&dir).context("create directory", &dir)?;
    // No search for similar objects: a pack that lives for one machine's cache need not be small.
    let command = objects.git("pack-objects").args(&["-q", "--window=0", "--compression=1"]).args(options);
    command.arg(std::ffi::OsStr::from_bytes(dir.join("pack").as_os_str().as_bytes())).input(list.into_bytes()).run()?;
    Ok(())
}

/// Copies objects one by one; quicker than starting git as long as they are few.
pub(super) fn copy(reader: &Reader<'_>, files: &Path, ids: &[ObjectId]) -> Result<(), GitError> {
    let Some(format) = ids.first().map(|id| id.kind()) else {
        return Ok(());
    };
    let dir = files.join(".git/objects");
    fs::create_dir_all(&dir).context("create directory", &dir)?;
    let store = loose::Store::at(&dir, format);
    for id in ids {
        let (kind, bytes) = reader.find(*id)?;
        let written = store.write_buf(kind, &bytes);
        written.map_err(|error| GitError::WriteObject { path: dir.clone(), detail: error.to_string() })?;
    }
    Ok(())
}
