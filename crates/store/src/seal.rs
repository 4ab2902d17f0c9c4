//! Sealing: once a run has ended, its bundle is completed, every file of its directory is listed in one manifest and
//! brought to disk, and a signature over manifest, files and log is put beside it; then the copies of small files, and the files elsewhere that its facts rely on, leave the database. After
//! the seal nothing in the directory changes.

use crate::directories::{Share, Which};
use crate::evidence::{sync_dir, sync_dirs, temporary_name, write_out_some};
use crate::log::now;
use crate::{IoContext, Reader, Result, Store, bundle, crash, directories, kept};
use contract::attestation::predicate::RunSeal;
use contract::bundle::SEAL;
use contract::documents::RunManifest;
use contract::hash::{DoubleDigest, DoubleHasher, Hasher};
use contract::{Audit, Digest, Domain, ManifestFile, Slug, Statement};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// With up to this many files each is synced by itself. With more, one barrier for the whole file system is quicker,
/// even if it has to wait for what others have written meanwhile.
const SYNCED_EACH_MAX: usize = 128;

/// How many threads write out what is in commits alone.
const WRITERS: u32 = 2;

/// Makes the envelope of a statement. Who holds the key is not the store's business.
pub type Sign<'a> = &'a dyn Fn(&Statement) -> Vec<u8>;

/// Seals the directory of a run that has ended: what follows from its log and its evidence is written, everything is
/// listed and signed, and nothing in it changes any more. Doing it again gives the same bytes.
pub fn seal(store: &Store, slug: &str, sign: Sign<'_>) -> Result<()> {
    store.sync_mirror(slug)?;
    let dir = store.layout.run(slug);
    let reader = Reader::open(&store.layout)?;
    let ended = write_out_and_draw(store, &reader, slug)?;
    let (manifest, files) = bundle::write(&reader, slug, ended)?;
    let (hashes, evidence) = write_manifest(&dir.join("manifest.json"), &manifest)?;
    let sealed = run_seal(&reader, slug, files.values())?.statement_of_hashed(&hashes);
    write_whole(&dir.join(SEAL), &sign(&sealed))?;
    sync(&dir, files.keys().map(String::as_str))?;
    sync_dir(&store.layout.runs())?;
    kept::sync(&reader, slug, SYNCED_EACH_MAX)?;
    crash::point("seal.after_sync");
    drop((manifest, files));
    let run_id = slug.parse::<Slug>()?;
    let rest = directories::drop_most(store, &reader, run_id)?;
    store
        .submit(move |tx| {
            directories::drop_from(tx.db, &run_id, &rest)?;
            kept::drop_all(tx.db, &run_id)?;
            tx.audit(&Audit::RunSealed { run_id, evidence }, now())
        })
        .wait()?;
    crash::point("seal.after_commit");
    Ok(())
}

/// Writes out what is in commits alone, and reads the log and draws its graph meanwhile: of a large batch there are thousands
/// of files and rows, and making a file keeps a processor busy.
fn write_out_and_draw(store: &Store, reader: &Reader, slug: &str) -> Result<bundle::Ended> {
    let layout = reader.layout();
    std::thread::scope(|scope| {
        let written = Share::all(WRITERS).map(|share| {
            let write = move || write_out_some(&Reader::open(layout)?, slug, Which::Share(share));
            scope.spawn(write)
        });
        let written: Vec<_> = written.collect();
        let ended = bundle::Ended::read_and_draw(store, reader, slug);
        for writer in written {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        ended
    })
}

/// Writes the manifest, whole or not at all, and hashes it on the way: that of a large batch has tens of megabytes.
fn write_manifest(path: &Path, manifest: &RunManifest) -> Result<(DoubleDigest, Digest)> {
    let tmp = temporary_name(path);
    let file = File::create(&tmp).at("write", &tmp)?;
    let hashing = Hashing { file, both: DoubleHasher::new(), evidence: Hasher::new(Domain::Manifest) };
    let mut out = BufWriter::with_capacity(1 << 16, hashing);
    let written = serde_json::to_writer_pretty(&mut out, manifest).map_err(io::Error::from);
    written.and_then(|()| out.write_all(b"\n")).at("write", &tmp)?;
    let Hashing { file, both, evidence } =
        out.into_inner().map_err(io::IntoInnerError::into_error).at("write", &tmp)?;
    file.sync_all().at("sync", &tmp)?;
    std::fs::rename(&tmp, path).at("rename to", path)?;
    Ok((both.finish(), evidence.finish()))
}

/// A file that is hashed while it is written.
struct Hashing {
    file: File,
    both: DoubleHasher,
    evidence: Hasher,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.both.update(&bytes[..count]);
        self.evidence.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Brings the files of a run's directory to disk, and their names.
fn sync<'a>(dir: &Path, files: impl ExactSizeIterator<Item = &'a str>) -> Result<()> {
    if files.len() > SYNCED_EACH_MAX {
        let opened = File::open(dir).at("open", dir)?;
        return rustix::fs::syncfs(&opened).at("sync the file system of", dir);
    }
    for file in files.map(|file| dir.join(file)) {
        File::open(&file).and_then(|file| file.sync_all()).at("sync", &file)?;
    }
    sync_dirs(dir)
}

/// What the seal of a run says: its log as it is, and these files, which are sorted by path.
pub(crate) fn run_seal<'a>(
    reader: &Reader,
    slug: &str,
    files: impl Iterator<Item = &'a ManifestFile>,
) -> Result<RunSeal> {
    let (contract, events, head) = reader.ends(slug)?;
    Ok(RunSeal { run_id: slug.parse()?, contract, events, head, files: ManifestFile::listing_digest(files) })
}

/// Writes a file so that it is there whole or not at all, and on disk.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_via(&temporary_name(path), path, bytes)
}

/// The same with a temporary name of the caller's choice.
pub(crate) fn write_via(tmp: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(tmp, bytes).at("write", tmp)?;
    File::open(tmp).and_then(|file| file.sync_all()).at("sync", tmp)?;
    std::fs::rename(tmp, path).at("rename to", path)
}
