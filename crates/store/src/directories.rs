//! What commits have of the directories of runs: the list of files, and until the run is sealed the bytes of the small ones,
//! one after another in the order of their names. A directory is committed, written out and dropped whole, so each of the two is
//! one row for it, at the end of its table: a row for each file would be several times as many pages in every commit.

use crate::evidence::Attached;
use crate::log::Tx;
use crate::{Error, Reader, Result, SMALL_FILE_BYTES_MAX, StepFile, Store};
use contract::{ManifestFile, Slug};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use std::collections::BTreeMap;

/// How many directories leave the database at once; more of them would be more memory.
const DIRS_AT_ONCE: u32 = 300;

/// Told of a file: its directory below the run, its path in it, its bytes.
pub(crate) type EachFile<'f> = &'f mut dyn FnMut(&str, &str, &[u8]) -> Result<()>;

/// A part of the directories of a run, for one of several who share the work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    number: u32,
    of: u32,
}

impl Share {
    /// All of them, for one.
    pub(crate) const WHOLE: Share = Share { number: 0, of: 1 };

    /// All of them, for so many.
    pub(crate) fn all(of: u32) -> impl Iterator<Item = Share> {
        (0..of).map(move |number| Share { number, of })
    }
}

/// Which directories of a run are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'d> {
    Dir(&'d str),
    Share(Share),
}

/// Puts directories beside the facts that vouch for them.
pub(crate) fn insert(db: &Connection, slug: &str, attached: &Attached) -> Result<()> {
    let mut dirs: BTreeMap<&str, Vec<&StepFile>> = BTreeMap::new();
    for (dir, file) in &attached.files {
        dirs.entry(dir).or_default().push(file);
    }
    for (dir, mut files) in dirs {
        files.sort_unstable_by(|one, other| one.listed.path.cmp(&other.listed.path));
        let listed: Vec<&ManifestFile> = files.iter().map(|file| &file.listed).collect();
        let listed = serde_json::to_string(&listed).expect("BUG: a list of files is plain data");
        db.prepare_cached("INSERT INTO directories (run_id, dir, files) VALUES (?1, ?2, ?3)")?
            .execute(params![slug, dir, listed])?;
        let small: Vec<&[u8]> = files.iter().filter_map(|file| file.bytes.as_deref()).collect();
        if !small.is_empty() {
            db.prepare_cached("INSERT INTO copies (id, bytes) VALUES (?1, ?2)")?
                .execute(params![db.last_insert_rowid(), small.concat()])?;
        }
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
            let sql = "DELETE FROM copies
                       WHERE id IN (SELECT id FROM directories WHERE run_id = ?1 AND dir >= ?2 AND dir < ?3)";
            Ok(tx.db.execute(sql, [run_id.as_str(), &range.0, &range.1])?)
        };
        store.submit(piece).wait()?;
        from = until;
    }
    Ok(from)
}

/// Has the rest of them leave it.
pub(crate) fn drop_from(db: &Connection, slug: &str, dir: &str) -> Result<()> {
    let sql = "DELETE FROM copies WHERE id IN (SELECT id FROM directories WHERE run_id = ?1 AND dir >= ?2)";
    db.execute(sql, [slug, dir])?;
    Ok(())
}

impl Reader {
    /// The files on record of the directories of a run, in the order of their names.
    pub(crate) fn artifacts(&self, slug: &str) -> Result<Vec<(String, ManifestFile)>> {
        let mut found = Vec::new();
        self.each_directory(slug, &mut |dir, files| {
            found.extend(files.read()?.into_iter().map(|file| (dir.to_owned(), file)));
            Ok(())
        })?;
        Ok(found)
    }

    /// Hands over the directories on record of a run, in the order of their names, each with the list of its files.
    pub(crate) fn each_directory(
        &self,
        slug: &str,
        each: &mut dyn FnMut(&str, &Listing<'_>) -> Result<()>,
    ) -> Result<()> {
        let sql = "SELECT dir, files FROM directories WHERE run_id = ?1 ORDER BY dir";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([slug])?;
        while let Some(row) = rows.next()? {
            let dir: String = row.get(0)?;
            let json = row.get_ref(1)?.as_bytes().unwrap_or_default();
            each(&dir, &Listing { slug, dir: &dir, json })?;
        }
        Ok(())
    }

    /// Hands over the files of a run whose bytes the commits have, directory by directory.
    pub(crate) fn small_files(&self, slug: &str, which: Which<'_>, each: EachFile<'_>) -> Result<()> {
        let (condition, dir) = match which {
            Which::Dir(dir) => ("dir = ?2".to_owned(), Some(dir)),
            Which::Share(Share { number, of }) => (format!("id % {of} = {number}"), None),
        };
        let sql = format!(
            "SELECT dir, files, bytes FROM directories JOIN copies USING (id) WHERE run_id = ?1 AND {condition} ORDER BY dir"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter([slug].into_iter().chain(dir)))?;
        while let Some(row) = rows.next()? {
            let dir: String = row.get(0)?;
            let json = row.get_ref(1)?.as_bytes().unwrap_or_default();
            let files = Listing { slug, dir: &dir, json }.read()?;
            split(slug, &dir, &files, row.get_ref(2)?.as_blob().unwrap_or_default(), each)?;
        }
        Ok(())
    }

    /// The bytes of one file, if the commits have them.
    pub(crate) fn copy_of(&self, slug: &str, dir: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.small_files(slug, Which::Dir(dir), &mut |_, path, bytes| {
            if path == name {
                found = Some(bytes.to_owned());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The directory that comes so many after this one that those before it can leave the database at once.
    fn copies_after(&self, slug: &str, dir: &str) -> Result<Option<String>> {
        let sql = "SELECT dir FROM directories JOIN copies USING (id) WHERE run_id = ?1 AND dir >= ?2
                   ORDER BY dir LIMIT 1 OFFSET ?3";
        let mut found = self.db.prepare_cached(sql)?;
        Ok(found.query_row(params![slug, dir, DIRS_AT_ONCE], |row| row.get(0)).optional()?)
    }
}

/// The list of a directory's files, which most of those who go through directories need not read whole.
pub(crate) struct Listing<'l> {
    slug: &'l str,
    dir: &'l str,
    json: &'l [u8],
}

/// What a list says of the size of a file.
#[derive(serde::Deserialize)]
struct Size {
    size: u64,
}

impl Listing<'_> {
    pub(crate) fn read(&self) -> Result<Vec<ManifestFile>> {
        self.parse()
    }

    /// Whether the commit has the bytes of every file.
    pub(crate) fn is_small(&self) -> Result<bool> {
        let sizes: Vec<Size> = self.parse()?;
        Ok(sizes.iter().all(|file| file.size <= SMALL_FILE_BYTES_MAX))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<Vec<T>> {
        let why = |error| damaged(self.slug, self.dir, &format!("the list of its files: {error}"));
        serde_json::from_slice(self.json).map_err(why)
    }
}

/// Hands over the files of a directory, out of their bytes one after another.
fn split(slug: &str, dir: &str, files: &[ManifestFile], mut bytes: &[u8], each: EachFile<'_>) -> Result<()> {
    let other = || damaged(slug, dir, "the bytes that were committed are not those of its files");
    for file in files.iter().filter(|file| file.size <= SMALL_FILE_BYTES_MAX) {
        let (content, rest) =
            usize::try_from(file.size).ok().and_then(|size| bytes.split_at_checked(size)).ok_or_else(other)?;
        each(dir, &file.path, content)?;
        bytes = rest;
    }
    if bytes.is_empty() { Ok(()) } else { Err(other()) }
}

fn damaged(slug: &str, dir: &str, why: &str) -> Error {
    Error::Damaged { log: slug.to_owned(), why: format!("{dir}: {why}") }
}
