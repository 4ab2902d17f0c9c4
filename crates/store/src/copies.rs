//! The bytes of small files of a run's directories, which are in their commit until the run is sealed. Those of a directory
//! are one row, since a directory is committed, written out and dropped whole: a row for each file would be several times
//! as many pages in every commit. Whose they are follows from the list of files: the small ones, in the order of their names.

use crate::evidence::Attached;
use crate::log::Tx;
use crate::{Error, Reader, Result, SMALL_FILE_BYTES_MAX, Store};
use contract::Slug;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use std::collections::BTreeMap;

/// How many directories leave the database at once; more of them would be more memory.
const DIRS_AT_ONCE: u32 = 300;

/// Told of a file: its directory below the run, its path in it, its bytes.
pub(crate) type EachFile<'f> = &'f mut dyn FnMut(&str, &str, &[u8]) -> Result<()>;

/// Puts the bytes of small files beside the facts that vouch for them.
pub(crate) fn insert(db: &Connection, slug: &str, attached: &Attached) -> Result<()> {
    let mut dirs: BTreeMap<&str, BTreeMap<&str, &[u8]>> = BTreeMap::new();
    for (dir, file) in &attached.files {
        if let Some(bytes) = &file.bytes {
            dirs.entry(dir).or_default().insert(&file.listed.path, bytes);
        }
    }
    for (dir, files) in dirs {
        let bytes = files.into_values().collect::<Vec<_>>().concat();
        db.prepare_cached("INSERT INTO copies (run_id, dir, bytes) VALUES (?1, ?2, ?3)")?
            .execute(params![slug, dir, bytes])?;
    }
    Ok(())
}

/// Has the bytes of a run leave the database, all but those of its last directories, whose first is answered: they leave it
/// with the fact that the run is sealed. What one piece of work changes is in memory until it is done, so it is done in
/// pieces; the files themselves are on disk already.
pub(crate) fn drop_most(store: &Store, reader: &Reader, run_id: Slug) -> Result<String> {
    let mut from = String::new();
    while let Some(until) = reader.copies_after(&run_id, &from)? {
        let range = (from, until.clone());
        let piece = move |tx: &mut Tx<'_>| {
            let sql = "DELETE FROM copies WHERE run_id = ?1 AND dir >= ?2 AND dir < ?3";
            Ok(tx.db.execute(sql, [run_id.as_str(), &range.0, &range.1])?)
        };
        store.submit(piece).wait()?;
        from = until;
    }
    Ok(from)
}

/// Has the rest of them leave it.
pub(crate) fn drop_from(db: &Connection, slug: &str, dir: &str) -> Result<()> {
    db.execute("DELETE FROM copies WHERE run_id = ?1 AND dir >= ?2", [slug, dir])?;
    Ok(())
}

impl Reader {
    /// Hands over the files of a run whose bytes the commits have, directory by directory; of all, or of one.
    pub(crate) fn small_files(&self, slug: &str, dir: Option<&str>, each: EachFile<'_>) -> Result<()> {
        let sql = match dir {
            None => "SELECT dir, bytes FROM copies WHERE run_id = ?1 ORDER BY dir",
            Some(_) => "SELECT dir, bytes FROM copies WHERE run_id = ?1 AND dir = ?2",
        };
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter([slug].into_iter().chain(dir)))?;
        while let Some(row) = rows.next()? {
            let dir: String = row.get(0)?;
            self.split(slug, &dir, row.get_ref(1)?.as_blob().unwrap_or_default(), each)?;
        }
        Ok(())
    }

    /// Hands over the files of a directory, out of their bytes one after another.
    fn split(&self, slug: &str, dir: &str, mut bytes: &[u8], each: EachFile<'_>) -> Result<()> {
        let damaged = || {
            let why = format!("the bytes that were committed of {dir} are not those of its files");
            Error::Damaged { log: slug.to_owned(), why }
        };
        let sql = "SELECT path, size FROM artifacts WHERE run_id = ?1 AND dir = ?2 AND size <= ?3 ORDER BY path";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(params![slug, dir, SMALL_FILE_BYTES_MAX as i64])?;
        while let Some(row) = rows.next()? {
            let (path, size): (String, i64) = (row.get(0)?, row.get(1)?);
            let (file, rest) =
                usize::try_from(size).ok().and_then(|size| bytes.split_at_checked(size)).ok_or_else(damaged)?;
            each(dir, &path, file)?;
            bytes = rest;
        }
        if bytes.is_empty() { Ok(()) } else { Err(damaged()) }
    }

    /// The bytes of one file, if the commits have them.
    pub(crate) fn copy_of(&self, slug: &str, dir: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.small_files(slug, Some(dir), &mut |_, path, bytes| {
            if path == name {
                found = Some(bytes.to_owned());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The directory that comes so many after this one that those before it can leave the database at once.
    fn copies_after(&self, slug: &str, dir: &str) -> Result<Option<String>> {
        let sql = "SELECT dir FROM copies WHERE run_id = ?1 AND dir >= ?2 ORDER BY dir LIMIT 1 OFFSET ?3";
        let mut found = self.db.prepare_cached(sql)?;
        Ok(found.query_row(params![slug, dir, DIRS_AT_ONCE], |row| row.get(0)).optional()?)
    }
}
