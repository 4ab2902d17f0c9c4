//! Export: everything that somebody elsewhere needs to check a sealed run. The store writes the archive; what goes into
//! it besides the run's own directory is put together here: signed statements about its changes, the commits that they
//! speak of as git hashes them, public keys and a page for people.

mod summary;

use crate::context::keys::Keys;
use crate::git::{GitError, Objects, Repository, id};
use crate::{Error, Result, Trust};
use contract::bundle::SEAL;
use contract::{CommitId, Digest, Event, Fact, PipelineFact, Receipt};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use store::{Reader, Verification};

/// Verifies a run as it is on this machine, seal and all.
pub fn verify_run(reader: &Reader, trust: &Trust, slug: &str) -> Result<Verification> {
    let keys = trust.public_keys()?;
    let checkpoint = expected(trust)?;
    Ok(store::verify(reader, slug, checkpoint, &|envelope| crate::context::keys::open(envelope, &keys))?)
}

/// The same for every run, and for those that should be there.
pub fn verify_all(reader: &Reader, trust: &Trust) -> Result<store::Roster> {
    let keys = trust.public_keys()?;
    Ok(store::verify_all(reader, expected(trust)?, &|envelope| crate::context::keys::open(envelope, &keys))?)
}

/// The line of the audit log that must be there.
fn expected(trust: &Trust) -> Result<Option<(u64, Digest)>> {
    Ok(trust.checkpoint().map_err(Error::RolledBack)?.map(|head| (head.seq, head.hash)))
}

/// Writes the bundle of a sealed run that verifies: what this key signs here is vouched for by norma.
pub fn export(reader: &Reader, trust: &Trust, user: &Repository, slug: &str, out: &mut dyn Write) -> Result<()> {
    let keys = trust.keys()?;
    if reader.is_sealed(slug)? && !verify_run(reader, trust, slug)?.verified {
        let why = "it does not verify, so it is not exported under norma's signature".to_owned();
        return Err(store::Error::Damaged { log: slug.to_owned(), why }.into());
    }
    let (_, events, _) = reader.log(slug)?;
    let dir = reader.layout().run(slug);
    let receipts = receipts(&dir, &events)?;
    let mut extras = attestations(&keys, &receipts);
    if let Ok(seal) = std::fs::read(dir.join(SEAL)) {
        extras.push((format!("attestations/{SEAL}"), seal));
    }
    let objects = Objects::open_or_create(&reader.layout().git(), user)?;
    extras.extend(commits(&objects, &events, &receipts)?);
    for key in trust.public_keys()? {
        extras.push((format!("keys/{}.pem", key.id()), key.to_pem().into_bytes()));
    }
    extras.push(("SUMMARY.md".to_owned(), summary::write(slug, &events).into_bytes()));
    Ok(store::export(reader, slug, extras, &|said| keys.sign(said), out)?)
}

/// A receipt of the run, and the commit that was made of its change.
struct Kept {
    receipt: Receipt,
    bytes: Vec<u8>,
    commit: Option<CommitId>,
}

fn receipts(dir: &Path, events: &[Event]) -> Result<Vec<Kept>> {
    let mut all = Vec::new();
    for event in events {
        let Some((change, _)) = event.fact.evidence().filter(|(change, _)| change.starts_with("changes/")) else {
            continue;
        };
        let path = dir.join(change).join("RECEIPT.json");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let receipt = serde_json::from_slice(&bytes).map_err(|e| Error::io("read", &path, e.into()))?;
        all.push(Kept { receipt, bytes, commit: event.fact.change_end().and_then(|end| end.commit) });
    }
    Ok(all)
}

fn attestations(keys: &Keys, receipts: &[Kept]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for Kept { receipt, bytes, commit } in receipts {
        let provenance = ("provenance.dsse.json", keys.provenance(receipt, bytes, *commit));
        for (name, envelope) in keys.attest_receipt(receipt, bytes).into_iter().chain([provenance]) {
            all.push((format!("attestations/{:03}.{name}", receipt.change), envelope));
        }
    }
    all
}

/// The commits that the log and the receipts speak of. One that the repository has lost is left out; who checks the
/// bundle is told.
fn commits(objects: &Objects, events: &[Event], receipts: &[Kept]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut names: BTreeSet<CommitId> = receipts.iter().map(|kept| kept.receipt.git.base_commit).collect();
    for event in events {
        match &event.fact {
            Fact::RunStarted(started) => names.extend([started.base.commit, started.head().commit]),
            Fact::ItemEnded(ended) => names.extend(ended.commit),
            Fact::Landed(landing) => drop(names.insert(landing.commit)),
            Fact::Pipeline(PipelineFact::LineMoved(moved)) => names.extend([moved.onto.commit, moved.head.commit]),
            _ => {}
        }
    }
    let mut all = Vec::new();
    for name in names {
        match objects.raw(id(name)) {
            Ok(bytes) => all.push((format!("git/{name}"), bytes)),
            Err(GitError::MissingObject { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}
