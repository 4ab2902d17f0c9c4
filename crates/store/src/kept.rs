//! Small files outside of any run's directory that facts rely on: git objects, in practice. They are written without a
//! barrier; the commit that names them has their bytes, and recovery writes those out again that a power cut took. When the run is
//! sealed they are brought to the disk together, and leave the database.

use crate::evidence::{Attached, KeptFile, sync_dir, temporary_name};
use crate::seal::write_via;
use crate::{IoContext, Reader, Result};
use rusqlite::{Connection, params};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Puts them beside the facts that rely on them.
pub(crate) fn insert(db: &Connection, slug: &str, attached: &Attached) -> Result<()> {
    for KeptFile { path, bytes } in &attached.kept {
        db.prepare_cached("INSERT OR IGNORE INTO kept (run_id, path, bytes) VALUES (?1, ?2, ?3)")?
            .execute(params![slug, path, bytes])?;
    }
    Ok(())
}

/// Has them leave the database.
pub(crate) fn drop_all(db: &Connection, slug: &str) -> Result<()> {
    db.execute("DELETE FROM kept WHERE run_id = ?1", [slug])?;
    Ok(())
}

/// Writes those of a run out that are not there as they were committed; answers how many. `scratch` is a directory on the
/// same disk that is cleared of temporary files.
pub(crate) fn restore(reader: &Reader, slug: &str, scratch: &Path) -> Result<usize> {
    let mut restored = 0;
    reader.kept_files(slug, &mut |path, bytes| {
        if std::fs::read(path).ok().as_deref() != Some(bytes) {
            let parent = path.parent().unwrap_or(scratch);
            std::fs::create_dir_all(parent).at("create", parent)?;
            write_via(&temporary_name(&scratch.join("restored")), path, bytes)?;
            restored += 1;
        }
        Ok(())
    })?;
    Ok(restored)
}

/// Brings those of a run to the disk, and the names of their directories. With more than `each_max` of them one barrier
/// for the whole file system is quicker.
pub(crate) fn sync(reader: &Reader, slug: &str, each_max: usize) -> Result<()> {
    let mut files: Vec<PathBuf> = Vec::new();
    reader.kept_files(slug, &mut |path, _| {
        files.push(path.to_owned());
        Ok(())
    })?;
    if files.len() > each_max {
        let state = &reader.layout().state;
        let opened = File::open(state).at("open", state)?;
        return rustix::fs::syncfs(&opened).at("sync the file system of", state);
    }
    let mut dirs = BTreeSet::new();
    for file in &files {
        File::open(file).and_then(|file| file.sync_all()).at("sync", file)?;
        // The directory of a file may be new, too.
        dirs.extend(file.ancestors().skip(1).take(2).map(Path::to_owned));
    }
    dirs.iter().try_for_each(|dir| sync_dir(dir))
}

impl Reader {
    /// Hands over the files elsewhere that a run's facts rely on, where they are and what they hold.
    fn kept_files(&self, slug: &str, each: &mut dyn FnMut(&Path, &[u8]) -> Result<()>) -> Result<()> {
        let mut statement = self.db.prepare_cached("SELECT path, bytes FROM kept WHERE run_id = ?1 ORDER BY path")?;
        let mut rows = statement.query([slug])?;
        while let Some(row) = rows.next()? {
            let (path, bytes): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            each(&self.layout().state.join(path), &bytes)?;
        }
        Ok(())
    }
}
