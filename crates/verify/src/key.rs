//! Public keys, and what they vouch for. Whose key it is, is not for a bundle to say: who checks brings the keys.

use contract::attestation::{Envelope, PAYLOAD_TYPE, pae};
use contract::{Digest, Statement, hash};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{DerSignature, VerifyingKey};
use p256::pkcs8::{DecodePublicKey, EncodePublicKey, LineEnding};
use std::io::{Error, Read, Result};
use std::path::Path;

/// A public key has about 180 bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// An ECDSA P-256 key that signatures are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    id: Digest,
}

impl PublicKey {
    /// Wraps a key.
    pub fn new(key: VerifyingKey) -> PublicKey {
        let der = key.to_public_key_der().expect("BUG: a P-256 key has an encoding");
        PublicKey { key, id: hash::sha256(der.as_bytes()) }
    }

    /// Reads SubjectPublicKeyInfo in PEM, as `openssl` writes it.
    pub fn from_pem(text: &str) -> std::result::Result<PublicKey, String> {
        let key = VerifyingKey::from_public_key_pem(text.trim()).map_err(|e| format!("is not a P-256 key: {e}"))?;
        Ok(PublicKey::new(key))
    }

    /// The same text.
    pub fn to_pem(&self) -> String {
        self.key.to_public_key_pem(LineEnding::LF).expect("BUG: a P-256 key has an encoding")
    }

    /// SHA-256 of the key as SubjectPublicKeyInfo in DER.
    pub fn id(&self) -> Digest {
        self.id
    }
}

/// Opens an envelope that one of these keys signed; answers what it says and who signed it. The key id in it decides
/// nothing, but it must not lie.
pub fn open(envelope: &[u8], keys: &[PublicKey]) -> std::result::Result<(Statement, Digest), String> {
    let opened = Envelope::open(envelope)?;
    let signature = DerSignature::from_bytes(&opened.signature).map_err(|_| "its signature is not ECDSA in DER")?;
    let signed = pae(PAYLOAD_TYPE, &opened.payload);
    let signer = keys.iter().find(|known| known.key.verify(&signed, &signature).is_ok());
    match signer {
        Some(signer) if signer.id.to_string() == opened.keyid => Ok((Statement::parse(&opened.payload)?, signer.id)),
        Some(signer) => Err(format!("is signed by key {} and says that it was {:?}", signer.id, opened.keyid)),
        None => Err("is not signed by any of the keys".to_owned()),
    }
}

/// Reads every `*.pem` of a directory.
pub fn read_keys(dir: &Path) -> Result<Vec<PublicKey>> {
    let named = |path: &Path, e: Error| Error::new(e.kind(), format!("{}: {e}", path.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| named(dir, e))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pem") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: &Path| {
        let mut text = String::new();
        std::fs::File::open(path)?.take(KEY_BYTES_MAX).read_to_string(&mut text)?;
        PublicKey::from_pem(&text).map_err(Error::other)
    };
    paths.iter().map(|path| read(path).map_err(|e| named(path, e))).collect()
}
