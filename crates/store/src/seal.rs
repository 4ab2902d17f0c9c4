//! Sealing: once a run has ended, every file of its directory is listed in one manifest and brought to disk, and a
//! signature over manifest, files and log is put beside it; then the copies of small files leave the database. After
//! the seal nothing in the directory changes.

use crate::evidence::{evidence_digest, sync_dir, sync_dirs, temporary_name};
use crate::log::now;
use crate::{IoContext, Reader, Result, Store, crash};
use contract::attestation::predicate::RunSeal;
use contract::bundle::SEAL;
use contract::hash::DoubleHasher;
use contract::{Audit, Manifest, ManifestFile, Statement};
use std::fs::File;
use std::path::Path;

/// Files of a run's directory that are not in a step or change directory, as far as they exist.
pub(crate) const RUN_FILES: [&str; 5] =
    ["contract.json", "diff_name_only.txt", "events.jsonl", "norma.md", "patch.diff"];

/// Makes the envelope of a statement. Who holds the key is not the store's business.
pub type Sign<'a> = &'a dyn Fn(&Statement) -> Vec<u8>;

/// Seals the directory of a run that has ended. Doing it again gives the same result.
pub fn seal(store: &Store, slug: &str, sign: Sign<'_>) -> Result<()> {
    store.sync_mirror(slug)?;
    let dir = store.layout.run(slug);
    let reader = Reader::open(&store.layout)?;
    let mut files = Vec::new();
    for (sub, file) in reader.artifacts(slug, false)? {
        let listed = file.listed;
        files.push(ManifestFile { path: format!("{sub}/{}", listed.path), ..listed });
    }
    for name in RUN_FILES {
        files.extend(hash_file(&dir, name)?);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let evidence = evidence_digest(files.iter());
    // One time for both, so that the audit log vouches for the manifest's own words too.
    let sealed_at = now();
    let manifest =
        Manifest { version: 1, run_id: slug.to_owned(), dir: ".".into(), sealed_at, files, outcome: Vec::new() };
    let listed = serde_json::to_vec_pretty(&manifest).expect("BUG: a manifest is plain data");
    write_whole(&dir.join("manifest.json"), &listed)?;
    let sealed = run_seal(&reader, slug, manifest.files.iter())?.statement(&listed);
    write_whole(&dir.join(SEAL), &sign(&sealed))?;
    for file in manifest.files.iter().map(|file| dir.join(&file.path)) {
        File::open(&file).and_then(|file| file.sync_all()).at("sync", &file)?;
    }
    sync_dirs(&dir)?;
    sync_dir(&store.layout.runs())?;
    crash::point("seal.after_sync");
    let run_id = slug.to_owned();
    store
        .submit(move |tx| {
            tx.db.execute("UPDATE artifacts SET bytes = NULL WHERE run_id = ?1", [&run_id])?;
            tx.audit(&Audit::RunSealed { run_id, evidence }, sealed_at)
        })
        .wait()?;
    crash::point("seal.after_commit");
    Ok(())
}

/// What the seal of a run says: its log as it is, and these files, which are sorted by path.
pub(crate) fn run_seal<'a>(
    reader: &Reader,
    slug: &str,
    files: impl Iterator<Item = &'a ManifestFile>,
) -> Result<RunSeal> {
    let (contract, events, head) = reader.ends(slug)?;
    Ok(RunSeal { run_id: slug.to_owned(), contract, events, head, files: ManifestFile::listing_digest(files) })
}

fn hash_file(dir: &Path, name: &str) -> Result<Option<ManifestFile>> {
    let path = dir.join(name);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).at("read", &path),
    };
    let mut hasher = DoubleHasher::new();
    hasher.update(&bytes);
    let done = hasher.finish();
    Ok(Some(ManifestFile { path: name.to_owned(), size: done.bytes, blake3: done.blake3, sha256: done.sha256 }))
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
