//! Bundles taken apart and put together again, by somebody who knows the format as well as norma does.

use contract::attestation::predicate;
use contract::bundle::{
    BLOCK, BundleFile, BundleIndex, BundleIndexSchema, END, INDEX, INDEX_SIGNATURE, ROOT, claims, header, padding,
};
use contract::hash::DoubleHasher;
use contract::{ManifestFile, Statement};
use std::collections::BTreeMap;

/// The files of a bundle by their places in it.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Where the header of each file is, and its size.
pub(crate) fn entries(bundle: &[u8]) -> Vec<(String, usize, usize)> {
    let (mut at, mut all) = (0, Vec::new());
    while bundle[at..at + BLOCK] != END[..BLOCK] {
        let (name, size) = claims(bundle[at..at + BLOCK].try_into().unwrap()).unwrap();
        all.push((name.strip_prefix(ROOT).unwrap().to_owned(), at, size as usize));
        at += BLOCK + size as usize + padding(size);
    }
    all
}

pub(crate) fn unpack(bundle: &[u8]) -> Files {
    let file = |(name, at, size): (String, usize, usize)| (name, bundle[at + BLOCK..at + BLOCK + size].to_vec());
    entries(bundle).into_iter().map(file).collect()
}

/// Entries one after the other, whatever they are.
pub(crate) fn pack<'a>(files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>) -> Vec<u8> {
    let mut bundle = Vec::new();
    for (name, bytes) in files {
        bundle.extend(header(&format!("{ROOT}{name}"), bytes.len() as u64).unwrap());
        bundle.extend(bytes);
        bundle.resize(bundle.len() + padding(bytes.len() as u64), 0);
    }
    bundle.extend(END);
    bundle
}

/// A bundle of these files with an index that fits them, signed by whoever signs.
pub(crate) fn indexed(mut files: Files, sign: &dyn Fn(&Statement) -> Vec<u8>) -> Vec<u8> {
    let old: BundleIndex = serde_json::from_slice(&files[INDEX]).unwrap();
    let path = |place: &String| {
        let aside = old.files.iter().find(|file| file.at.as_ref() == Some(place));
        aside.map_or_else(|| place.clone(), |file| file.path.clone())
    };
    let listed = files.iter().filter(|(place, _)| *place != INDEX && *place != INDEX_SIGNATURE);
    let mut listed: Vec<BundleFile> = listed
        .map(|(place, bytes)| {
            let mut hasher = DoubleHasher::new();
            hasher.update(bytes);
            let done = hasher.finish();
            let (size, blake3, sha256) = (done.bytes, done.blake3, done.sha256);
            let file = BundleFile::new(ManifestFile { path: path(place), size, blake3, sha256 });
            BundleFile { at: (file.path != *place).then(|| place.clone()), ..file }
        })
        .collect();
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    let index = BundleIndex { schema: BundleIndexSchema::V1, run_id: old.run_id, files: listed }.to_bytes();
    files.insert(INDEX_SIGNATURE.into(), sign(&predicate::bundle(&run_of(&index), &index)));
    files.insert(INDEX.into(), index);
    pack(&files)
}

fn run_of(index: &[u8]) -> String {
    serde_json::from_slice::<BundleIndex>(index).unwrap().run_id.to_string()
}
