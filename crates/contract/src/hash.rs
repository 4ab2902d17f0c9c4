//! Digests: BLAKE3 separated by domain for what norma itself checks, SHA-256 for outside tools.
//!
//! Every use of BLAKE3 names its domain, so that bytes hashed for one purpose never pass for
//! another's. Fields that are hashed together are written with their length, so that moving a
//! byte across a boundary changes the digest.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// A 256-bit digest, written as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not 64 lowercase hex digits")]
pub struct DigestProblem(String);

/// What a BLAKE3 digest is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// A line of the log, chained to the one before.
    Event,
    /// The start of a log's chain.
    Log,
    /// An entry of the audit trail.
    Audit,
    /// The bytes of an artifact.
    Artifact,
    /// A manifest of files.
    Manifest,
    /// A contract's canonical JSON.
    Contract,
    /// A run's state as replayed from the log.
    State,
    /// A receipt's canonical JSON, without its own hash.
    Receipt,
    /// What a change is, apart from when it was made.
    Change,
    /// What an approval is bound to.
    Approval,
    /// An item that was added to a run, with who carries it out.
    AddedItem,
    /// A contract's digest, chained with what was added to it.
    ContractChain,
    /// What a part of a run is called in views.
    ViewId,
}

impl Domain {
    /// BLAKE3's key derivation context; changing one breaks every digest of that domain.
    pub fn context(self) -> &'static str {
        match self {
            Domain::Event => "norma event v1",
            Domain::Log => "norma log v1",
            Domain::Audit => "norma audit v1",
            Domain::Artifact => "norma artifact v1",
            Domain::Manifest => "norma manifest v1",
            Domain::Contract => "norma contract v1",
            Domain::State => "norma state v1",
            Domain::Receipt => "norma receipt v1",
            Domain::Change => "norma change v1",
            Domain::Approval => "norma approval v1",
            Domain::AddedItem => "norma added item v1",
            Domain::ContractChain => "norma contract chain v1",
            Domain::ViewId => "norma view id v1",
        }
    }

    /// The key that follows from the context, derived once: it costs as much as hashing a short text with it.
    fn key(self) -> &'static ContextKey {
        static KEYS: [OnceLock<ContextKey>; Domain::ViewId as usize + 1] =
            [const { OnceLock::new() }; Domain::ViewId as usize + 1];
        KEYS[self as usize].get_or_init(|| hash_derive_key_context(self.context()))
    }
}

impl Digest {
    /// Wraps the bytes of a digest computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    /// The digest's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// BLAKE3 of bytes that arrive in pieces.
#[derive(Clone, Debug)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Starts a digest for a domain.
    pub fn new(domain: Domain) -> Hasher {
        Hasher(blake3::Hasher::new_from_context_key(domain.key()))
    }

    /// Takes in the next bytes; where one call ends and the next begins does not matter.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Hasher {
        self.0.update(bytes);
        self
    }

    /// Takes in a field: its length as u32 little-endian, then its bytes.
    pub fn field(&mut self, bytes: &[u8]) -> &mut Hasher {
        let len = u32::try_from(bytes.len()).expect("BUG: a hashed field is shorter than 4 GiB");
        self.update(&len.to_le_bytes()).update(bytes)
    }

    /// The digest of all bytes so far.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// BLAKE3 of bytes in a domain.
pub fn digest(domain: Domain, bytes: &[u8]) -> Digest {
    Hasher::new(domain).update(bytes).finish()
}

/// The chain's digest at a line: over its number, the digest before it and its bytes.
pub fn chain(seq: u64, prev: &Digest, line: &[u8]) -> Digest {
    Hasher::new(Domain::Event).update(&seq.to_le_bytes()).update(prev.as_bytes()).field(line).finish()
}

/// The digest before a log's first line; binds the chain to its log and its contract.
pub fn chain_start(log_id: &str, contract: &Digest) -> Digest {
    Hasher::new(Domain::Log).field(log_id.as_bytes()).field(contract.as_bytes()).finish()
}

/// BLAKE3 as `b3sum` prints it, for documents that promise that and nothing else.
pub fn plain_blake3(bytes: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// SHA-256 of bytes, for views and outside tools.
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// BLAKE3 and SHA-256 of an artifact in one pass over its bytes.
#[derive(Clone, Debug)]
pub struct DoubleHasher {
    blake3: Hasher,
    sha256: Sha256,
    bytes: u64,
}

/// What [`DoubleHasher`] computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubleDigest {
    /// BLAKE3 in [`Domain::Artifact`].
    pub blake3: Digest,
    /// SHA-256.
    pub sha256: Digest,
    /// How many bytes were hashed.
    pub bytes: u64,
}

impl DoubleHasher {
    /// Starts both digests.
    pub fn new() -> DoubleHasher {
        DoubleHasher { blake3: Hasher::new(Domain::Artifact), sha256: Sha256::new(), bytes: 0 }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) -> &mut DoubleHasher {
        self.blake3.update(bytes);
        self.sha256.update(bytes);
        self.bytes += bytes.len() as u64;
        self
    }

    /// Both digests of all bytes.
    pub fn finish(self) -> DoubleDigest {
        DoubleDigest { blake3: self.blake3.finish(), sha256: Digest(self.sha256.finalize().into()), bytes: self.bytes }
    }
}

impl Default for DoubleHasher {
    fn default() -> DoubleHasher {
        DoubleHasher::new()
    }
}

/// The three digests that a receipt has of a file, in one pass over its bytes.
#[derive(Clone, Debug)]
pub struct ContentHasher {
    state: Hasher,
    blake3: blake3::Hasher,
    sha256: Sha256,
}

/// What [`ContentHasher`] computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    /// BLAKE3 in [`Domain::State`].
    pub state: Digest,
    /// BLAKE3 as `b3sum` prints it.
    pub blake3: Digest,
    /// SHA-256.
    pub sha256: Digest,
}

impl ContentHasher {
    /// Starts all three.
    #[expect(clippy::new_without_default, reason = "nobody has a use for it")]
    pub fn new() -> ContentHasher {
        ContentHasher { state: Hasher::new(Domain::State), blake3: blake3::Hasher::new(), sha256: Sha256::new() }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) -> &mut ContentHasher {
        self.state.update(bytes);
        self.blake3.update(bytes);
        self.sha256.update(bytes);
        self
    }

    /// The digests of all bytes.
    pub fn finish(self) -> ContentDigest {
        ContentDigest {
            state: self.state.finish(),
            blake3: Digest(*self.blake3.finalize().as_bytes()),
            sha256: Digest(self.sha256.finalize().into()),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = DigestProblem;

    fn from_str(text: &str) -> Result<Digest, DigestProblem> {
        // A little more than a digest's length is quoted, enough to see what is wrong.
        from_hex(text).map(Digest).ok_or_else(|| DigestProblem(text.chars().take(80).collect()))
    }
}

/// Writes bytes as lowercase hex digits; no more of them than a digest has.
pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; 64];
    put_hex(bytes, &mut text);
    f.pad(std::str::from_utf8(&text[..2 * bytes.len()]).expect("BUG: hexadecimal digits are text"))
}

/// The same to where there is room for them.
pub(crate) fn put_hex(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// Reads exactly so many bytes from their hex digits.
pub(crate) fn from_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    if text.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

/// Lowercase only, so that a digest has one spelling.
fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const DOMAINS: [Domain; 13] = [
        Domain::Event,
        Domain::Log,
        Domain::Audit,
        Domain::Artifact,
        Domain::Manifest,
        Domain::Contract,
        Domain::State,
        Domain::Receipt,
        Domain::Change,
        Domain::Approval,
        Domain::AddedItem,
        Domain::ContractChain,
        Domain::ViewId,
    ];

    #[test]
    fn domains_differ() {
        let digests: BTreeSet<Digest> = DOMAINS.iter().map(|&domain| digest(domain, b"same bytes")).collect();
        assert_eq!(digests.len(), DOMAINS.len());
    }

    #[test]
    fn sha256_is_the_standard_one() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc").to_string(), expected);
    }

    #[test]
    fn chain_is_the_documented_formula() {
        let prev = sha256(b"before");
        let mut bytes = 7u64.to_le_bytes().to_vec();
        bytes.extend_from_slice(prev.as_bytes());
        bytes.extend_from_slice(&4u32.to_le_bytes());
        bytes.extend_from_slice(b"line");
        let expected = Digest(blake3::derive_key("norma event v1", &bytes));
        assert_eq!(chain(7, &prev, b"line"), expected);

        let mut bytes = 3u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"log");
        bytes.extend_from_slice(&32u32.to_le_bytes());
        bytes.extend_from_slice(prev.as_bytes());
        let expected = Digest(blake3::derive_key("norma log v1", &bytes));
        assert_eq!(chain_start("log", &prev), expected);
    }

    #[test]
    fn every_input_of_the_chain_counts() {
        let (a, b) = (sha256(b"a"), sha256(b"b"));
        let digests = BTreeSet::from([
            chain(1, &a, b"x"),
            chain(2, &a, b"x"),
            chain(1, &b, b"x"),
            chain(1, &a, b"y"),
            chain(1, &a, b""),
            chain_start("x", &a),
            chain_start("y", &a),
            chain_start("x", &b),
        ]);
        assert_eq!(digests.len(), 8);
    }

    #[test]
    fn field_boundaries_count() {
        let fields = |first: &[u8], second: &[u8]| Hasher::new(Domain::Manifest).field(first).field(second).finish();
        assert_ne!(fields(b"ab", b"c"), fields(b"a", b"bc"));
        assert_ne!(fields(b"abc", b""), fields(b"", b"abc"));
    }

    #[test]
    fn refuses_other_spellings() {
        let good = sha256(b"abc").to_string();
        let bad = [String::new(), good.to_uppercase(), good[1..].to_owned(), format!("{good}0"), "é".repeat(32)];
        for text in bad {
            assert_eq!(text.parse::<Digest>(), Err(DigestProblem(text.clone())));
        }
    }

    proptest! {
        #[test]
        fn pieces_hash_like_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300
        ) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut hasher = Hasher::new(Domain::Artifact);
            hasher.update(head).update(tail);
            prop_assert_eq!(hasher.finish(), digest(Domain::Artifact, &bytes));
            let mut both = DoubleHasher::new();
            both.update(head).update(tail);
            let expected = DoubleDigest {
                blake3: digest(Domain::Artifact, &bytes),
                sha256: sha256(&bytes),
                bytes: bytes.len() as u64,
            };
            prop_assert_eq!(both.finish(), expected);
        }

        #[test]
        fn reads_back_what_it_prints(bytes: [u8; 32]) {
            let digest = Digest::from_bytes(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            let json = serde_json::to_string(&digest).unwrap();
            prop_assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        }
    }

    #[test]
    fn plain_blake3_is_what_b3sum_prints() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(plain_blake3(b"").to_string(), empty);
    }

    #[test]
    fn the_digests_of_a_file_are_the_same_in_pieces() {
        let mut hasher = ContentHasher::new();
        hasher.update(b"a file").update(b" in pieces");
        let (whole, found) = (b"a file in pieces", hasher.finish());
        assert_eq!(found.state, digest(Domain::State, whole));
        assert_eq!((found.blake3, found.sha256), (plain_blake3(whole), sha256(whole)));
    }
}
