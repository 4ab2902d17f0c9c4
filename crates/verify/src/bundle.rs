//! What is taken from an archive in one pass: the digests of every file, and the bytes of those that say something.

use crate::archive::{Archive, Damage, Stop};
use crate::hashing::Hashing;
use contract::bundle::{INDEX, INDEX_SIGNATURE, SEAL};
use contract::{COMPILED_CONTRACT_FILE, CONTRACT_FILE, Digest, ManifestFile};
use std::collections::BTreeMap;
use std::io::{Error, Read, Result};

/// How much is kept in memory of all files together; what agents left is only hashed.
const KEPT_BYTES_MAX: u64 = 512 << 20;

/// The files of a bundle: small ones as bytes, all of them as digests.
#[derive(Default)]
pub(crate) struct Bundle {
    /// Every file in the order of the archive, with its path below the root.
    pub(crate) files: Vec<ManifestFile>,
    /// The bytes of those that say something.
    kept: BTreeMap<String, Vec<u8>>,
}

impl Bundle {
    /// Reads an archive to its end, or to where it is damaged.
    pub(crate) fn read(archive: impl Read) -> Result<(Bundle, Option<Damage>)> {
        let mut bundle = Bundle::default();
        let mut hashing = Hashing::start()?;
        let read = bundle.read_files(&mut Archive::new(archive), &mut hashing);
        for (file, sha256) in bundle.files.iter_mut().zip(hashing.finish()) {
            file.sha256 = sha256;
        }
        match read {
            Ok(()) => Ok((bundle, None)),
            Err(Stop::Damaged(damage)) => Ok((bundle, Some(damage))),
            Err(Stop::Io(error)) => Err(error),
        }
    }

    fn read_files(&mut self, archive: &mut Archive<impl Read>, hashing: &mut Hashing) -> std::result::Result<(), Stop> {
        let mut room = KEPT_BYTES_MAX;
        while let Some(entry) = archive.next()? {
            let mut kept = says_something(&entry.name).then(Vec::new);
            if kept.is_some() {
                room = room.checked_sub(entry.size).ok_or_else(|| {
                    Error::other(format!("its logs and documents have more than {} MiB", KEPT_BYTES_MAX >> 20))
                })?;
            }
            let mut left = entry.size;
            while left > 0 {
                let piece = archive.piece(left)?;
                left -= piece.bytes().len() as u64;
                if let Some(kept) = &mut kept {
                    kept.extend_from_slice(piece.bytes());
                }
                hashing.update(piece);
            }
            archive.padding(entry.size)?;
            let (blake3, sha256) = (hashing.end_of_file(), Digest::from_bytes([0; 32]));
            self.kept.extend(kept.map(|bytes| (entry.name.clone(), bytes)));
            self.files.push(ManifestFile { path: entry.name, size: entry.size, blake3, sha256 });
        }
        Ok(())
    }

    /// A bundle of these files, all of which say something.
    #[cfg(test)]
    pub(crate) fn of(files: impl Iterator<Item = (String, Vec<u8>)>) -> Bundle {
        let kept: BTreeMap<String, Vec<u8>> = files.collect();
        let listed = |(path, bytes): (&String, &Vec<u8>)| {
            let mut hasher = contract::hash::DoubleHasher::new();
            hasher.update(bytes);
            let done = hasher.finish();
            ManifestFile { path: path.clone(), size: done.bytes, blake3: done.blake3, sha256: done.sha256 }
        };
        Bundle { files: kept.iter().map(listed).collect(), kept }
    }

    /// The bytes of a file that says something, if it is there.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.kept.get(name).map(Vec::as_slice)
    }

    /// Those of a directory, by their names below it.
    pub(crate) fn below<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.kept.iter().filter_map(move |(name, bytes)| Some((name.strip_prefix(dir)?, bytes.as_slice())))
    }
}

/// Whether a file is one that norma writes and the checks read. An agent's files are not, whatever their names.
fn says_something(name: &str) -> bool {
    let Some(of_run) = name.strip_prefix("run/") else {
        let dirs = ["attestations/", "git/", "keys/"];
        return name == INDEX
            || name == INDEX_SIGNATURE
            || name == "audit.jsonl"
            || dirs.iter().any(|dir| name.starts_with(dir));
    };
    match of_run.strip_prefix("changes/").and_then(|rest| rest.split_once('/')) {
        Some((_, name)) => ["RECEIPT.json", "test-result.dsse.json", "vsa.dsse.json"].contains(&name),
        None => [CONTRACT_FILE, COMPILED_CONTRACT_FILE, "events.jsonl", "manifest.json", SEAL].contains(&of_run),
    }
}
