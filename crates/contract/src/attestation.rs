//! Attestations: what norma says of its evidence in forms that other tools read. A [`Statement`] (in-toto) names its
//! subjects by digest and says one thing about them; an [`Envelope`] (DSSE) carries it with a signature over its
//! type and its exact bytes. What is said of a change and of a run is in [`predicate`]; who signs is not known here.

pub mod predicate;

use crate::Digest;
use crate::hash::{DoubleDigest, DoubleHasher};
use crate::json::{self, Limits};
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What the payload of every envelope of norma's is.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The one statement type.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// Statements are small; the largest holds the findings of a few gates.
const ENVELOPE_LIMITS: Limits = Limits::new(4 << 20, 32);

/// A signed payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Envelope {
    /// What the payload is; covered by the signature.
    pub payload_type: String,
    /// The payload in base64.
    pub payload: String,
    /// Exactly one: outside verifiers look at a single signature too.
    pub signatures: Vec<Signature>,
}

/// A signature over [`pae`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Whose it claims to be. Nothing vouches for it, so it decides nothing.
    pub keyid: String,
    /// ECDSA P-256 over SHA-256, ASN.1 DER, in base64.
    pub sig: String,
}

/// An envelope whose form is as it must be; its signature is still to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The exact bytes of the payload.
    pub payload: Vec<u8>,
    /// Whose signature it claims to be.
    pub keyid: String,
    /// The signature, DER.
    pub signature: Vec<u8>,
}

impl Envelope {
    /// An envelope with this signature over [`pae`] of the payload.
    pub fn new(payload: &[u8], keyid: &Digest, signature: &[u8]) -> Envelope {
        let signature = Signature { keyid: keyid.to_string(), sig: Base64::encode_string(signature) };
        Envelope {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: Base64::encode_string(payload),
            signatures: vec![signature],
        }
    }

    /// The bytes that are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("BUG: an envelope is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// Reads an envelope that must be one of norma's: its type, one signature, base64 in its one standard spelling.
    pub fn open(bytes: &[u8]) -> Result<Opened, String> {
        let value = json::parse(bytes, &ENVELOPE_LIMITS).map_err(|violations| first(&violations))?;
        let envelope: Envelope = serde_json::from_value(value).map_err(|e| format!("is not an envelope: {e}"))?;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(format!("carries {:?}, not {PAYLOAD_TYPE}", envelope.payload_type));
        }
        let [signature] = &envelope.signatures[..] else {
            return Err(format!("has {} signatures, not one", envelope.signatures.len()));
        };
        let decode = |what: &str, text: &str| {
            Base64::decode_vec(text).map_err(|_| format!("its {what} is not standard base64 with padding"))
        };
        Ok(Opened {
            payload: decode("payload", &envelope.payload)?,
            keyid: signature.keyid.clone(),
            signature: decode("signature", &signature.sig)?,
        })
    }
}

/// What is signed: the type and the payload with their lengths, so that neither can pass for a part of the other.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// One thing said about some subjects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Statement {
    /// Always [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub kind: String,
    /// What it is about.
    pub subject: Vec<Subject>,
    /// What kind of thing is said.
    pub predicate_type: String,
    /// What is said.
    pub predicate: Value,
}

/// A thing by name and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// What it is called; tells subjects apart and proves nothing.
    pub name: String,
    /// What it is, under each algorithm's name.
    pub digest: BTreeMap<String, String>,
}

impl Statement {
    /// Says something about some subjects.
    pub fn new(predicate_type: &str, subject: Vec<Subject>, predicate: Value) -> Statement {
        let (kind, predicate_type) = (STATEMENT_TYPE.to_owned(), predicate_type.to_owned());
        Statement { kind, subject, predicate_type, predicate }
    }

    /// The exact bytes that are signed.
    pub fn to_bytes(&self) -> Vec<u8> {
        json::canonical(self).expect("BUG: a statement holds only small integers and strings")
    }

    /// Reads a statement whose bytes somebody vouches for.
    pub fn parse(bytes: &[u8]) -> Result<Statement, String> {
        let value = json::parse(bytes, &ENVELOPE_LIMITS).map_err(|violations| first(&violations))?;
        let statement: Statement = serde_json::from_value(value).map_err(|e| format!("is not a statement: {e}"))?;
        if statement.kind != STATEMENT_TYPE {
            return Err(format!("is a {:?}, not {STATEMENT_TYPE}", statement.kind));
        }
        Ok(statement)
    }
}

impl Subject {
    /// A file by SHA-256, which every verifier knows, and by norma's own BLAKE3. That one is keyed by its purpose, so
    /// it has a name of its own: `blake3` would promise what `b3sum` prints.
    pub fn file(name: &str, bytes: &[u8]) -> Subject {
        let mut hasher = DoubleHasher::new();
        hasher.update(bytes);
        Subject::hashed(name, &hasher.finish())
    }

    /// The same for a file of which only the digests are at hand.
    pub fn hashed(name: &str, found: &DoubleDigest) -> Subject {
        Subject::of(name, [("sha256", found.sha256.to_string()), ("normaBlake3", found.blake3.to_string())])
    }

    fn of<const N: usize>(name: &str, digests: [(&str, String); N]) -> Subject {
        Subject { name: name.to_owned(), digest: digests.map(|(kind, id)| (kind.to_owned(), id)).into() }
    }
}

fn first(violations: &[json::Violation]) -> String {
    violations.first().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;
    use serde_json::json;

    fn envelope() -> Value {
        let made = Envelope::new(b"{}", &hash::sha256(b"key"), b"signature");
        serde_json::from_slice(&made.to_bytes()).unwrap()
    }

    #[track_caller]
    fn check_refused(edit: impl FnOnce(&mut Value), expected: &str) {
        let mut value = envelope();
        edit(&mut value);
        let problem = Envelope::open(value.to_string().as_bytes()).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }

    #[test]
    fn what_is_signed_has_the_lengths_in_it() {
        assert_eq!(
            pae("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
        assert_ne!(pae("ab", b"c"), pae("a", b"bc"));
    }

    #[test]
    fn an_envelope_comes_back_as_it_was_made() {
        let opened = Envelope::open(&Envelope::new(b"{}", &hash::sha256(b"key"), b"signature").to_bytes()).unwrap();
        let expected = Opened {
            payload: b"{}".to_vec(),
            keyid: hash::sha256(b"key").to_string(),
            signature: b"signature".to_vec(),
        };
        assert_eq!(opened, expected);
    }

    #[test]
    fn an_envelope_of_another_form_is_refused() {
        check_refused(|value| value["payloadType"] = json!("application/json"), "not application/vnd.in-toto+json");
        check_refused(|value| value["signatures"] = json!([]), "has 0 signatures, not one");
        check_refused(
            |value| {
                let one = value["signatures"][0].clone();
                value["signatures"] = json!([one, one]);
            },
            "has 2 signatures, not one",
        );
        check_refused(|value| value["payload"] = json!("e30"), "payload is not standard base64");
        check_refused(|value| value["signatures"][0]["sig"] = json!("_-8="), "signature is not standard base64");
        check_refused(|value| value["signatures"][0]["sig"] = json!("c2ln\n"), "signature is not standard base64");
        check_refused(|value| value["extra"] = json!(1), "unknown field");
        let twice = envelope().to_string().replacen('{', "{\"payload\":\"e30=\",", 1);
        assert!(Envelope::open(twice.as_bytes()).unwrap_err().contains("payload"));
    }

    #[test]
    fn a_statement_comes_back_and_another_type_does_not() {
        let said = Statement::new("urn:x", vec![Subject::file("a", b"a")], json!({"n": 1}));
        assert_eq!(Statement::parse(&said.to_bytes()), Ok(said.clone()));
        let other = Statement { kind: "https://in-toto.io/Statement/v0.1".into(), ..said };
        assert!(Statement::parse(&other.to_bytes()).unwrap_err().contains("Statement/v0.1"));
    }
}
