//! The key of a state directory: made once, kept outside the repository where no agent sees it, and used to sign what
//! norma itself found. Its nonces are derived from what is signed (RFC 6979), so the same statement has the same
//! signature and a bad random source cannot give the key away. It is never in an argument or a variable.

use crate::{Error, Result};
use contract::attestation::predicate::{provenance, test_result, verification_summary};
use contract::attestation::{Envelope, PAYLOAD_TYPE, pae};
use contract::{CommitId, Digest, Receipt, Statement};
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use verify::PublicKey;

/// The private key's file. Not `.pem`: a directory of `*.pem` is one of keys to trust.
const PRIVATE: &str = "signing.key";

/// A private key has about 240 bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// The key of one state directory.
pub struct Keys {
    signing: SigningKey,
    public: PublicKey,
    dir: PathBuf,
}

impl Keys {
    /// Reads the key in a directory, or makes one there. One process at a time.
    pub(crate) fn open_or_create(dir: &Path) -> Result<Keys> {
        let failed = |source| Error::io("create", dir, source);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let path = dir.join(PRIVATE);
        let signing = match read_private(&path)? {
            Some(signing) => signing,
            None => create(&path)?,
        };
        let public = PublicKey::new(*signing.verifying_key());
        let keys = Keys { signing, public, dir: dir.to_owned() };
        // A process may have died between the two.
        if !keys.public_path().exists() {
            write(&keys.public_path(), keys.public.to_pem().as_bytes(), 0o644)?;
        }
        Ok(keys)
    }

    /// The public part of the key that signs.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Where that part is, for whoever is to trust it.
    pub fn public_path(&self) -> PathBuf {
        self.dir.join(format!("{}.pem", self.public.id()))
    }

    /// Signs a statement; the bytes are those of its envelope.
    pub fn sign(&self, statement: &Statement) -> Vec<u8> {
        let payload = statement.to_bytes();
        let signature: DerSignature = self.signing.sign(&pae(PAYLOAD_TYPE, &payload));
        Envelope::new(&payload, &self.public.id(), signature.as_bytes()).to_bytes()
    }

    /// What is said of a change before there is a commit of it: file names and bytes, for its directory.
    pub fn attest_receipt(&self, receipt: &Receipt, bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let summary = ("vsa.dsse.json", self.sign(&verification_summary(receipt, bytes)));
        let tested = test_result(receipt, bytes).map(|said| ("test-result.dsse.json", self.sign(&said)));
        [summary].into_iter().chain(tested).collect()
    }

    /// How a change came to be, with the commit that was made of it.
    pub fn provenance(&self, receipt: &Receipt, bytes: &[u8], commit: Option<CommitId>) -> Vec<u8> {
        self.sign(&provenance(receipt, bytes, commit))
    }
}

/// Every public key that ever signed here: an old one stays when a new one is made. Makes nothing.
pub(crate) fn known(dir: &Path) -> Result<Vec<PublicKey>> {
    match verify::read_keys(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|source| Error::io("read the keys in", dir, source)),
    }
}

/// Opens an envelope that one of these keys signed.
pub(crate) fn open(envelope: &[u8], keys: &[PublicKey]) -> std::result::Result<Statement, String> {
    verify::open(envelope, keys).map(|(said, _)| said)
}

/// The key, if there is one. One that others can read may have been copied, so it is not used.
fn read_private(path: &Path) -> Result<Option<SigningKey>> {
    let failed = |source| Error::io("read", path, source);
    let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() || meta.mode() & 0o077 != 0 || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::environment(
            format!("others may have read the signing key {}, so it is not used", path.display()),
            "if nobody else used it: chmod 600 it; otherwise remove it, and a new one is created",
        ));
    }
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let key = SigningKey::from_pkcs8_pem(&text).map_err(|_| {
        Error::environment(
            format!("{} is not a P-256 key in PKCS#8", path.display()),
            "put it back from a backup; or remove it, and a new one is made",
        )
    })?;
    Ok(Some(key))
}

fn create(path: &Path) -> Result<SigningKey> {
    let signing = loop {
        let mut secret = [0; 32];
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut secret, flags).map_err(|e| Error::io("make", path, e.into()))?;
        // One in 2^32 strings is no key.
        if let (32, Ok(key)) = (count, SigningKey::from_slice(&secret)) {
            break key;
        }
    };
    let text = signing.to_pkcs8_pem(LineEnding::LF).expect("BUG: a P-256 key has an encoding");
    write(path, text.as_bytes(), 0o600)?;
    Ok(signing)
}

/// There whole or not at all, on disk, and never readable by others in between.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let failed = |source| Error::io("write", path, source);
    let tmp = path.with_extension("tmp");
    let _ = std::fs::remove_file(&tmp);
    let mut file = File::options().write(true).create_new(true).mode(mode).open(&tmp).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&tmp, path).map_err(failed)?;
    let dir = path.parent().unwrap_or(path);
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id: Digest = self.public.id();
        write!(f, "Keys({id})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::attestation::Subject;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    fn statement() -> Statement {
        Statement::new("urn:x", vec![Subject::file("a", b"a")], json!({}))
    }

    fn keys(dir: &Path) -> Keys {
        Keys::open_or_create(&dir.join("keys")).unwrap()
    }

    #[test]
    fn a_key_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = keys(dir.path());
        assert_eq!(first.public(), keys(dir.path()).public());
        let mode = |name: String| dir.path().join("keys").join(name).metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(PRIVATE.into()), mode(format!("{}.pem", first.public().id()))), (0o600, 0o644));
        assert_eq!(std::fs::read_to_string(first.public_path()).unwrap(), first.public().to_pem());
    }

    #[test]
    fn what_was_signed_is_opened_with_that_key_and_no_other() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (keys, other) = (keys(dir.path()), keys(other.path()));
        let envelope = keys.sign(&statement());
        assert_eq!(envelope, keys.sign(&statement()), "the same statement has the same signature");
        assert_eq!(open(&envelope, &known(&keys.dir).unwrap()), Ok(statement()));
        assert_eq!(open(&envelope, &known(&other.dir).unwrap()), Err("is not signed by any of the keys".to_owned()));
    }

    #[test]
    fn a_changed_byte_of_an_envelope_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let keys = keys(dir.path());
        let envelope = keys.sign(&statement());
        for at in 0..envelope.len() {
            let mut changed = envelope.clone();
            changed[at] ^= 1;
            assert!(open(&changed, &known(&keys.dir).unwrap()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        drop(keys(dir.path()));
        let path = dir.path().join("keys").join(PRIVATE);
        for mode in [0o640, 0o604, 0o660] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Keys::open_or_create(&dir.path().join("keys")).unwrap_err();
            assert!(error.to_string().starts_with("others may have read the signing key"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(Keys::open_or_create(&dir.path().join("keys")).is_err());
    }

    #[test]
    fn a_new_key_does_not_make_the_old_one_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let envelope = keys(dir.path()).sign(&statement());
        std::fs::remove_file(dir.path().join("keys").join(PRIVATE)).unwrap();
        let renewed = keys(dir.path());
        assert_ne!(renewed.sign(&statement()), envelope);
        assert_eq!(open(&envelope, &known(&renewed.dir).unwrap()), Ok(statement()));
    }
}
