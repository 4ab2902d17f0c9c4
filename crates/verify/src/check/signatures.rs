//! Signatures: every envelope is of the one form, says what its name promises, is about what is in this bundle, and is
//! signed by a key that whoever checks has chosen to trust. A key that comes with the bundle is only good for telling
//! a signature that holds from one that does not.

use super::receipts::Kept;
use super::{RUN, SEAL};
use crate::{Found, PublicKey, key};
use contract::attestation::predicate::{self, PROVENANCE, RUN_SEAL, TEST_RESULT, VERIFICATION_SUMMARY};
use contract::bundle::{INDEX, INDEX_SIGNATURE};
use contract::{Digest, Statement};
use std::collections::{BTreeMap, BTreeSet};

/// The end of the name of a statement about a change, and what it says.
const OF_A_CHANGE: [(&str, &str); 3] = [
    ("provenance.dsse.json", PROVENANCE),
    ("test-result.dsse.json", TEST_RESULT),
    ("vsa.dsse.json", VERIFICATION_SUMMARY),
];

/// What was said and holds, by file.
#[derive(Default)]
pub(crate) struct Statements {
    said: BTreeMap<String, Statement>,
    signers: BTreeSet<Digest>,
}

impl Statements {
    pub(crate) fn get(&self, path: &str) -> Option<&Statement> {
        self.said.get(path)
    }

    pub(crate) fn signers(&self) -> Vec<String> {
        self.signers.iter().map(ToString::to_string).collect()
    }
}

/// Opens every envelope of the bundle.
pub(crate) fn check(found: &Found<'_>, receipts: &[Kept<'_>], trusted: &[PublicKey]) -> (Statements, Vec<String>) {
    let mut statements = Statements::default();
    let mut problems = Vec::new();
    let (own, unreadable) = own_keys(found);
    problems.extend(unreadable);
    for (path, bytes) in envelopes(found) {
        match key::open(bytes, trusted) {
            Ok((said, signer)) => {
                statements.signers.insert(signer);
                statements.said.insert(path, said);
            }
            Err(why) => match key::open(bytes, &own) {
                // Looked at all the same, so that every problem is named at once.
                Ok((said, signer)) => {
                    problems.push(format!(
                        "{path} is signed by key {signer}, which is not among the trusted keys (--trust)"
                    ));
                    statements.said.insert(path, said);
                }
                Err(_) => problems.push(format!("{path} {why}")),
            },
        }
    }
    problems.extend(about_the_index(found, &statements));
    problems.extend(about_changes(found, receipts, &statements));
    problems.extend(unexpected(&statements));
    if found.sha256(&format!("attestations/{SEAL}")) != found.sha256(&format!("{RUN}{SEAL}")) {
        problems.push(format!("attestations/{SEAL} is not the seal of the run"));
    }
    (statements, problems)
}

fn own_keys(found: &Found<'_>) -> (Vec<PublicKey>, Vec<String>) {
    let (mut keys, mut problems) = (Vec::new(), Vec::new());
    for (name, bytes) in found.bundle.below("keys/").filter(|(name, _)| name.ends_with(".pem")) {
        match PublicKey::from_pem(&String::from_utf8_lossy(bytes)) {
            Ok(key) if format!("{}.pem", key.id()) == name => keys.push(key),
            Ok(key) => problems.push(format!("keys/{name} is key {}", key.id())),
            Err(why) => problems.push(format!("keys/{name} {why}")),
        }
    }
    (keys, problems)
}

fn envelopes<'a>(found: &Found<'a>) -> impl Iterator<Item = (String, &'a [u8])> {
    let all = found.bundle.below("");
    all.filter(|(path, _)| path.ends_with(".dsse.json")).map(|(path, bytes)| (path.to_owned(), bytes))
}

fn about_the_index(found: &Found<'_>, statements: &Statements) -> Vec<String> {
    let Some(said) = statements.get(INDEX_SIGNATURE) else {
        return vec![format!("{INDEX} is not signed: {INDEX_SIGNATURE} is missing, or its signature does not hold")];
    };
    let index = found.bundle.bytes(INDEX).unwrap_or_default();
    let same = *said == predicate::bundle(&found.index.run_id, index);
    if same { Vec::new() } else { vec![format!("{INDEX_SIGNATURE} vouches for another {INDEX}")] }
}

fn about_changes(found: &Found<'_>, receipts: &[Kept<'_>], statements: &Statements) -> Vec<String> {
    let mut problems = Vec::new();
    for Kept { receipt, bytes, ended } in receipts {
        let number = format!("{:03}", receipt.change);
        let commit = ended.commit;
        for (name, kind) in OF_A_CHANGE {
            let exported = format!("attestations/{number}.{name}");
            let there = statements.get(&exported);
            if there.is_none() && (kind != TEST_RESULT || receipt.tests.is_some()) {
                problems.push(format!("{exported} is missing, or its signature does not hold"));
            }
            let kept = format!("{RUN}changes/{number}/{name}");
            for (path, said) in [(&exported, there), (&kept, statements.get(&kept))] {
                let Some(said) = said else { continue };
                let mut wrong = predicate::contradictions(said, receipt, bytes, commit);
                if said.predicate_type != kind {
                    wrong.push(format!("says {:?}, not {kind}", said.predicate_type));
                }
                problems.extend(wrong.into_iter().map(|what| format!("{path} {what}")));
            }
        }
    }
    problems.extend(unknown_changes(found, receipts));
    problems
}

/// Statements about changes that have no receipt here.
fn unknown_changes(found: &Found<'_>, receipts: &[Kept<'_>]) -> Vec<String> {
    let known: BTreeSet<String> = receipts.iter().map(|kept| format!("{:03}", kept.receipt.change)).collect();
    let number = |path: &str| -> Option<String> {
        let of_change = path.strip_prefix("attestations/").and_then(|name| name.split_once('.'));
        let in_run = path.strip_prefix("run/changes/").and_then(|rest| rest.split_once('/'));
        of_change.or(in_run).map(|(number, _)| number.to_owned()).filter(|number| number != "seal")
    };
    let paths = envelopes(found).map(|(path, _)| path);
    let strays = paths.filter(|path| number(path).is_some_and(|number| !known.contains(&number)));
    strays.map(|path| format!("{path} is about a change that has no receipt")).collect()
}

/// Statements under names that promise something else.
fn unexpected(statements: &Statements) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, said) in &statements.said {
        let name = path.rsplit('/').next().unwrap_or(path);
        let promised = match name {
            INDEX_SIGNATURE => predicate::BUNDLE,
            SEAL => RUN_SEAL,
            name => OF_A_CHANGE.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, kind)| *kind),
        };
        if said.predicate_type != promised {
            problems.push(format!("{path} says {:?}, which its name does not promise", said.predicate_type));
        }
    }
    problems
}
