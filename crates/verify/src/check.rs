//! The checks of the roster that need no file of their own: the index, the files, the evidence of the chain, the seal.
//! Each answers what is wrong, in words; nothing is wrong, no words.

pub(crate) mod audit;
pub(crate) mod git;
pub(crate) mod log;
pub(crate) mod receipts;
pub(crate) mod signatures;

use crate::Found;
use crate::bundle::Bundle;
use contract::attestation::predicate::RunSeal;
use contract::bundle::{BundleFile, BundleIndex, INDEX, INDEX_SIGNATURE, SEAL};
use contract::{CONTRACT_FILE, Digest, Fact, ManifestFile, SUBMITTED_FILE};
use log::Log;
use signatures::Statements;
use std::collections::{BTreeMap, BTreeSet};

/// Where the run's directory is in a bundle.
pub(crate) const RUN: &str = "run/";

/// The index lists every file and no other, in order, each where it must lie. Answers it if it can be read.
pub(crate) fn index(bundle: &Bundle) -> (Option<BundleIndex>, Vec<String>) {
    let Some(bytes) = bundle.bytes(INDEX) else { return (None, vec![format!("{INDEX} is missing")]) };
    // A struct's fields are refused if unknown or given twice, which is all that strict JSON is needed for here.
    let index: BundleIndex = match serde_json::from_slice(bytes) {
        Ok(index) => index,
        Err(error) => return (None, vec![format!("{INDEX} cannot be read: {error}")]),
    };
    let mut problems = Vec::new();
    if !index.files.is_sorted_by(|a, b| a.path < b.path) {
        problems.push(format!("{INDEX} is not sorted, or names a file twice"));
    }
    let odd = index.files.iter().filter(|file| file.at.as_ref().is_some_and(|at| *at != BundleFile::aside(&file.path)));
    problems.extend(odd.map(|file| format!("{} lies where it must not, says {INDEX}", file.path)));
    let mut there: BTreeSet<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    for name in [INDEX, INDEX_SIGNATURE] {
        there.remove(name);
    }
    for file in &index.files {
        if !there.remove(file.place()) {
            problems.push(format!("{} is missing", file.path));
        }
    }
    problems.extend(there.into_iter().map(|name| format!("{name} was added")));
    (Some(index), problems)
}

/// Every file is what the index says.
pub(crate) fn files(found: &Found<'_>) -> Vec<String> {
    let there: BTreeMap<&str, &ManifestFile> =
        found.bundle.files.iter().map(|file| (file.path.as_str(), file)).collect();
    let differs = |file: &&BundleFile| {
        there
            .get(file.place())
            .is_some_and(|real| (real.size, real.blake3, real.sha256) != (file.size, file.blake3, file.sha256))
    };
    found.index.files.iter().filter(differs).map(|file| format!("{} differs from {INDEX}", file.path)).collect()
}

/// Every directory that the chain vouches for holds exactly the files it was recorded with.
pub(crate) fn evidence(found: &Found<'_>, log: &Log) -> Vec<String> {
    let mut problems = Vec::new();
    for event in &log.events {
        let anchored = event.fact.evidence().map(|(dir, digest)| (dir, digest, true));
        let found_as_it_was = match &event.fact {
            Fact::ReconciledStep { dir, evidence, .. } => Some((dir.clone(), *evidence, false)),
            _ => None,
        };
        let Some((dir, evidence, own_manifest)) = anchored.or(found_as_it_was) else { continue };
        let listed = found.below(&format!("{RUN}{dir}/"));
        let listed = listed.iter().filter(|file| !own_manifest || file.path != "manifest.json");
        if ManifestFile::listing_digest(listed) != evidence {
            problems.push(format!("{RUN}{dir} holds other files than event {} vouches for", event.seq));
        }
    }
    problems.extend(contract_problems(found, log));
    problems
}

/// What norma compiled is the contract that the log has, and what the run was asked for is what that was compiled from.
fn contract_problems(found: &Found<'_>, log: &Log) -> Vec<String> {
    let mut problems = Vec::new();
    let compiled = log.contract_file();
    if found.bundle.bytes(&format!("{RUN}{compiled}")).map(<[u8]>::to_vec) != log.contract() {
        problems.push(format!("{RUN}{compiled} differs from the contract of the run"));
    }
    let sha256 = |name: &str| found.sha256(&format!("{RUN}{name}"));
    let same = match (sha256(CONTRACT_FILE), sha256(SUBMITTED_FILE)) {
        _ if compiled == CONTRACT_FILE => true,
        (Some(given), Some(submitted)) => given == submitted && log.was_submitted(&given),
        (given, None) => given == sha256(compiled),
        (None, Some(_)) => false,
    };
    if !same {
        problems.push(format!("{RUN}{CONTRACT_FILE} is not what the run was asked for"));
    }
    problems
}

/// The seal is that of this manifest, this log and these files.
pub(crate) fn seal(found: &Found<'_>, log: &Log, statements: &Statements) -> Vec<String> {
    let at = format!("{RUN}{SEAL}");
    let Some(said) = statements.get(&at) else {
        return vec![format!("{at} is missing, or its signature does not hold")];
    };
    let files = found.below(RUN);
    let listed = files.iter().filter(|file| file.path != "manifest.json" && file.path != SEAL);
    let expected = RunSeal {
        run_id: found.index.run_id,
        contract: log.contract_digest(),
        events: log.events.len() as u64,
        head: log.head,
        files: ManifestFile::listing_digest(listed),
    };
    let manifest = found.bundle.bytes("run/manifest.json").unwrap_or_default();
    expected.contradictions(said, manifest).into_iter().map(|what| format!("{at} {what}")).collect()
}

impl Found<'_> {
    /// The files below a directory, as it would list them.
    pub(crate) fn below(&self, dir: &str) -> Vec<ManifestFile> {
        let from = self.index.files.partition_point(|file| file.path.as_str() < dir);
        self.index.files[from..].iter().map_while(|file| file.below(dir)).collect()
    }

    /// The SHA-256 of a file of the bundle.
    pub(crate) fn sha256(&self, path: &str) -> Option<Digest> {
        let at = self.index.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        Some(self.index.files[at].sha256)
    }
}
