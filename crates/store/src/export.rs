//! Export: a sealed run as one archive that can be checked elsewhere. The archive has exactly one spelling: the same run
//! and the same extras give the same bytes. Files are read twice, once for the index that stands before them and once
//! while they are written, and never held in memory.

use crate::seal::Sign;
use crate::{Error, IoContext, Reader, Result};
use contract::ManifestFile;
use contract::attestation::predicate;
use contract::bundle::{
    BundleFile, BundleIndex, BundleIndexSchema, END, INDEX, INDEX_SIGNATURE, ROOT, header, padding,
};
use contract::hash::DoubleHasher;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How much of a file is in memory at a time.
const COPY_BYTES: usize = 256 * 1024;

/// For people without `norma-verify`.
const VERIFY_SH: &str = include_str!("export/verify.sh");

/// Why the keys in a bundle prove nothing.
const KEYS_README: &str = include_str!("export/keys.md");

/// Where the bytes of a file are.
enum Source {
    Memory(Vec<u8>),
    Disk(PathBuf),
}

/// Writes the bundle of a sealed run: its directory, what the state directory's own log says of it, and `extras` by
/// their paths below the bundle.
pub fn export(
    reader: &Reader,
    slug: &str,
    extras: Vec<(String, Vec<u8>)>,
    sign: Sign<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    if !reader.is_sealed(slug)? {
        return Err(Error::Refused(format!(
            "run {slug} has not ended, or is not sealed yet: only a sealed run can be exported"
        )));
    }
    let dir = reader.layout().run(slug);
    let mut sources = Vec::new();
    list(&dir, "run", &mut sources)?;
    let audit: String = reader.audit_lines_about(slug)?.into_iter().map(|line| line + "\n").collect();
    let own = [("audit.jsonl", audit.as_str()), ("keys/README.md", KEYS_README), ("verify.sh", VERIFY_SH)];
    let own = own.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    sources.extend(own.into_iter().chain(extras).map(|(path, bytes)| (path, Source::Memory(bytes))));
    write(slug, sources, sign, out)
}

fn write(slug: &str, mut sources: Vec<(String, Source)>, sign: Sign<'_>, out: &mut dyn Write) -> Result<()> {
    sources.sort_by(|a, b| a.0.cmp(&b.0));
    let mut files = Vec::new();
    for (path, source) in &sources {
        files.push(BundleFile::new(source.copy(path, &mut std::io::sink())?));
    }
    put_aside(&mut files);
    let index = BundleIndex { schema: BundleIndexSchema::V1, run_id: slug.parse()?, files };
    let bytes = index.to_bytes();
    let signature = sign(&predicate::bundle(slug, &bytes));
    let mut all: Vec<(String, &str, Source)> = Vec::new();
    for (file, (_, source)) in index.files.iter().zip(sources) {
        all.push((file.place().to_owned(), &file.path, source));
    }
    for (name, bytes) in [(INDEX, bytes), (INDEX_SIGNATURE, signature)] {
        all.push((name.to_owned(), name, Source::Memory(bytes)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    for (place, path, source) in &all {
        let listed = index.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|at| &index.files[at]);
        append(place, path, source, listed, out)?;
    }
    out.write_all(&END).at("write", Path::new("the bundle"))
}

/// Names that an archive cannot hold, and names that are another's on a disk that ignores case, are put aside: the
/// index says what they are.
fn put_aside(files: &mut [BundleFile]) {
    let mut folded: HashSet<String> = HashSet::from([INDEX, INDEX_SIGNATURE].map(str::to_owned));
    for file in files {
        let fits = header(&format!("{ROOT}{}", file.path), file.size).is_some();
        if !fits || !folded.insert(contract::path::fold(&file.path)) {
            file.at = Some(BundleFile::aside(&file.path));
        }
    }
}

fn append(place: &str, path: &str, source: &Source, listed: Option<&BundleFile>, out: &mut dyn Write) -> Result<()> {
    let at = Path::new("the bundle");
    let size = listed.map_or_else(|| source.len(), |file| file.size);
    let block = header(&format!("{ROOT}{place}"), size);
    let block = block.ok_or_else(|| Error::Refused(format!("{path} has {size} bytes, which is too much for a tar")))?;
    out.write_all(&block).at("write", at)?;
    let written = source.copy(path, out)?;
    if listed.is_some_and(|file| BundleFile { at: file.at.clone(), ..BundleFile::new(written) } != *file) {
        return Err(Error::Damaged { log: path.to_owned(), why: "it changed while it was exported".into() });
    }
    out.write_all(&END[..padding(size)]).at("write", at)
}

/// Every file below a directory of the run; whatever else is there does not belong there.
fn list(dir: &Path, shown: &str, into: &mut Vec<(String, Source)>) -> Result<()> {
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let entry = entry.at("list", dir)?;
        let kind = entry.file_type().at("look at", &entry.path())?;
        let name = entry.file_name().into_string().ok().filter(|_| kind.is_dir() || kind.is_file());
        let name = name.ok_or_else(|| Error::Damaged {
            log: entry.path().display().to_string(),
            why: "it is neither a file nor a directory of norma's".into(),
        })?;
        let path = format!("{shown}/{name}");
        if kind.is_dir() {
            list(&entry.path(), &path, into)?;
        } else {
            into.push((path, Source::Disk(entry.path())));
        }
    }
    Ok(())
}

impl Source {
    /// The size of what is in memory.
    fn len(&self) -> u64 {
        match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::Disk(_) => 0,
        }
    }

    /// Copies the bytes and says what they are.
    fn copy(&self, path: &str, out: &mut dyn Write) -> Result<ManifestFile> {
        let mut hasher = DoubleHasher::new();
        match self {
            Source::Memory(bytes) => {
                hasher.update(bytes);
                out.write_all(bytes).at("write", Path::new("the bundle"))?;
            }
            Source::Disk(from) => {
                let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
                let mut file = File::options().read(true).custom_flags(flags).open(from).at("open", from)?;
                let mut buffer = vec![0; COPY_BYTES];
                loop {
                    match file.read(&mut buffer).at("read", from)? {
                        0 => break,
                        n => {
                            hasher.update(&buffer[..n]);
                            out.write_all(&buffer[..n]).at("write", Path::new("the bundle"))?;
                        }
                    }
                }
            }
        }
        let done = hasher.finish();
        Ok(ManifestFile { path: path.to_owned(), size: done.bytes, blake3: done.blake3, sha256: done.sha256 })
    }
}
