//! A bundle: one sealed run with everything that is needed to check it elsewhere, as a tar archive that has exactly one
//! spelling. Who writes and who reads it make its headers here, by the same function, so that a reader can demand every
//! byte. Nothing in it is older, newer or somebody's: times and owners are zero.

use crate::schema::JsonSchema;
use crate::{Digest, ManifestFile, Slug};
use serde::{Deserialize, Serialize};

/// Begins the line of a commit's message that names the tree which a run had made, where the commit holds that tree merged
/// with what the branch held.
pub const MERGED_TRAILER: &str = "Norma-Merged: ";

/// Every name in the archive starts with this.
pub const ROOT: &str = "bundle/";

/// The list of all files; the one file, with its signature, that it does not list.
pub const INDEX: &str = "index.json";

/// The signature over the list.
pub const INDEX_SIGNATURE: &str = "index.dsse.json";

/// The seal of a run, in its directory: the one file that the run's manifest does not list.
pub const SEAL: &str = "seal.dsse.json";

/// Where files lie whose own names an archive or somebody's disk cannot hold.
const ASIDE: &str = "aside/";

/// A tar archive consists of blocks of this size.
pub const BLOCK: usize = 512;

/// Two blocks of zeros end an archive.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// `index.json`: every file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleIndex {
    /// Always `bundle_index.v1`.
    pub schema: BundleIndexSchema,
    /// The run's slug.
    pub run_id: Slug,
    /// Every file but this one and its signature, sorted by path.
    pub files: Vec<BundleFile>,
}

/// The one schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BundleIndexSchema {
    /// Version 1.
    #[serde(rename = "bundle_index.v1")]
    V1,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    /// Relative to the bundle, `/`-separated.
    pub path: String,
    /// Where it lies instead: its path is too long for an archive, or another one on a disk that ignores case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Bytes.
    pub size: u64,
    /// BLAKE3, artifact domain.
    pub blake3: Digest,
    /// SHA-256, for outside tools.
    pub sha256: Digest,
}

impl BundleFile {
    /// A file as the directory it comes from lists it.
    pub fn new(listed: ManifestFile) -> BundleFile {
        let ManifestFile { path, size, blake3, sha256 } = listed;
        BundleFile { path, at: None, size, blake3, sha256 }
    }

    /// The name it has in the archive, below [`ROOT`].
    pub fn place(&self) -> &str {
        self.at.as_deref().unwrap_or(&self.path)
    }

    /// Where a file lies that cannot lie under its own name.
    pub fn aside(path: &str) -> String {
        format!("{ASIDE}{}", crate::hash::sha256(path.as_bytes()))
    }

    /// The same file as a directory lists it, with the path below that directory; none if it lies elsewhere.
    pub fn below(&self, dir: &str) -> Option<ManifestFile> {
        let path = self.path.strip_prefix(dir)?.to_owned();
        Some(ManifestFile { path, size: self.size, blake3: self.blake3, sha256: self.sha256 })
    }
}

impl BundleIndex {
    /// The bytes that are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        crate::json::pretty(self)
    }
}

/// How many bytes of zeros follow a file of this size.
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

/// The one header (ustar) of a regular file of this name and size; none if it does not fit into one.
pub fn header(name: &str, size: u64) -> Option<[u8; BLOCK]> {
    let (prefix, name) = split(name)?;
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, octal(size)?.as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(329, b"0000000\0");
    put(337, b"0000000\0");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Some(block)
}

/// The name and size that a header claims; what else it says is judged by making it again.
pub fn claims(block: &[u8; BLOCK]) -> Option<(String, u64)> {
    let text = |at: std::ops::Range<usize>| {
        let field = &block[at];
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        std::str::from_utf8(&field[..end]).ok()
    };
    let (name, prefix) = (text(0..100)?, text(345..500)?);
    let size = u64::from_str_radix(text(124..136)?, 8).ok()?;
    let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
    Some((name, size))
}

/// Eleven octal digits and an end: up to 8 GiB.
fn octal(size: u64) -> Option<String> {
    Some(format!("{size:011o}\0")).filter(|text| text.len() == 12)
}

/// Up to 155 bytes before a slash, up to 100 after it; as much as possible after it, so that there is one way.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    let at = name.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).find(|at| name.len() - at - 1 <= 100)?;
    Some((&name[..at], &name[at + 1..])).filter(|(prefix, name)| prefix.len() <= 155 && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_claims_what_it_was_made_of() {
        let long = format!("{}/{}", "d".repeat(150), "n".repeat(100));
        for (name, size) in [("bundle/a", 0), (long.as_str(), 8 * (1 << 30) - 1)] {
            assert_eq!(claims(&header(name, size).unwrap()), Some((name.to_owned(), size)));
        }
    }

    #[test]
    fn what_does_not_fit_has_no_header() {
        for name in ["n".repeat(101), format!("{}/n", "d".repeat(156)), format!("{}/{}", "d", "n".repeat(101))] {
            assert_eq!(header(&name, 0), None, "{name}");
        }
        assert_eq!(header("n", 8 << 30), None);
    }

    #[test]
    fn a_file_is_padded_to_whole_blocks() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
    }

    #[test]
    fn the_place_aside_has_a_header_whatever_the_path() {
        let place = BundleFile::aside(&"x/".repeat(5000));
        assert!(header(&format!("{ROOT}{place}"), 0).is_some());
    }
}
