//! Bundles of a real run, as `norma export` writes them: what verifies, and what is found when somebody who knows the
//! format changes something.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive;
mod program;
mod versions;
mod world;

use archive::{Files, entries, indexed, pack, unpack};
use contract::attestation::predicate::RunSeal;
use contract::bundle::{BLOCK, END, INDEX, INDEX_SIGNATURE, header};
use contract::{EventLine, ManifestFile, Statement};
use std::sync::LazyLock;
use verify::verify;
use world::{World, problems};

/// One world for all: making it takes longer than looking at it.
static WORLD: LazyLock<World> = LazyLock::new(World::new);

fn bundle() -> Vec<u8> {
    WORLD.export().unwrap()
}

/// The bundle after somebody with norma's key changed some files.
fn resigned(edit: impl FnOnce(&mut Files)) -> Vec<u8> {
    let mut files = unpack(&bundle());
    edit(&mut files);
    indexed(files, &|said| WORLD.keys.sign(said))
}

#[track_caller]
fn check(bundle: &[u8], expected: &str) {
    let problems = WORLD.problems(bundle);
    assert!(problems.iter().any(|problem| problem.contains(expected)), "no {expected:?} in {problems:#?}");
}

#[test]
fn a_bundle_verifies_for_whoever_trusts_its_key_and_for_nobody_else() {
    let report = verify(&bundle()[..], &WORLD.trusted()).unwrap();
    assert_eq!(problems(&report), [""; 0]);
    assert_eq!((report.run_id.as_str(), report.signed_by.len()), (WORLD.slug.as_str(), 1));
    let others = tempfile::tempdir().unwrap();
    let other = runner::Trust::new(others.path(), others.path()).keys().unwrap();
    for trusted in [vec![], vec![other.public().clone()]] {
        let found = problems(&verify(&bundle()[..], &trusted).unwrap());
        assert!(!found.is_empty());
        for problem in found {
            assert!(
                problem.starts_with("signatures: ") && problem.contains("which is not among the trusted keys"),
                "{problem}"
            );
        }
    }
}

#[test]
fn the_same_run_gives_the_same_bytes_and_no_more_than_its_files() {
    let bundle = bundle();
    assert_eq!(bundle, WORLD.export().unwrap());
    let names: Vec<String> = entries(&bundle).into_iter().map(|(name, ..)| name).collect();
    for name in ["SUMMARY.md", "audit.jsonl", "verify.sh", "keys/README.md", "run/seal.dsse.json"] {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    for name in ["provenance", "test-result", "vsa"] {
        assert!(names.contains(&format!("attestations/001.{name}.dsse.json")), "{name}");
    }
    assert_eq!(names.iter().filter(|name| name.starts_with("aside/")).count(), 2, "a long name and a twin");
    assert_eq!(names.iter().filter(|name| name.starts_with("git/")).count(), 2, "the base and what landed");
}

#[test]
fn a_changed_byte_is_found_and_named() {
    let bundle = bundle();
    let mut before = "its beginning".to_owned();
    for (number, (name, at, size)) in entries(&bundle).into_iter().enumerate() {
        let path = path_of(&bundle, &name);
        // Every byte of the first headers; of the others a few that differ from file to file.
        let stride = if number < 2 { 1 } else { 61 };
        for byte in (at + number % stride..at + BLOCK).step_by(stride) {
            check_flip(&bundle, byte, &[&name, &before]);
        }
        let (content, end) = (at + BLOCK, at + BLOCK + size);
        for byte in (content..end).step_by(1 + size / 5) {
            check_flip(&bundle, byte, &[&path]);
        }
        for byte in (end..end.next_multiple_of(BLOCK)).step_by(97) {
            check_flip(&bundle, byte, &[&name]);
        }
        before = name;
    }
    for byte in (bundle.len() - END.len()..bundle.len()).step_by(13) {
        check_flip(&bundle, byte, &[&before]);
    }
}

/// The path of a file that lies at a place.
fn path_of(bundle: &[u8], place: &str) -> String {
    let files = unpack(bundle);
    let index: contract::bundle::BundleIndex = serde_json::from_slice(&files[INDEX]).unwrap();
    index.files.iter().find(|file| file.place() == place).map_or(place, |file| file.path.as_str()).to_owned()
}

#[track_caller]
fn check_flip(bundle: &[u8], at: usize, named: &[&str]) {
    let mut changed = bundle.to_vec();
    changed[at] ^= 1 << (at % 8);
    let found = WORLD.problems(&changed).join("\n");
    // Long paths are cut where they are told.
    let cut = |name: &str| name.chars().take(120).collect::<String>();
    assert!(named.iter().any(|name| found.contains(&cut(name))), "byte {at} of {named:?}: {found:?}");
}

#[test]
fn a_bundle_that_ends_early_or_goes_on_is_found() {
    let bundle = bundle();
    for length in (0..bundle.len()).step_by(bundle.len() / 97) {
        assert_ne!(WORLD.problems(&bundle[..length]), [""; 0], "{length} bytes");
    }
    check(&[&bundle[..], &[0]].concat(), "something follows the end");
    check(&[&bundle[..], &END].concat(), "something follows the end");
}

#[test]
fn a_file_that_is_missing_added_or_there_twice_is_found() {
    let files = unpack(&bundle());
    let mut fewer = files.clone();
    fewer.remove("run/norma.md");
    check(&pack(&fewer), "index: run/norma.md is missing");
    let mut more = files.clone();
    more.insert("run/norma.md2".into(), b"x".to_vec());
    check(&pack(&more), "index: run/norma.md2 was added");
    let twin = ("run/NORMA.md".to_owned(), b"x".to_vec());
    let mut twins = files.clone();
    twins.insert(twin.0, twin.1);
    check(&pack(&twins), "container: run/norma.md is the same file as another one");
    let twice = files.iter().flat_map(|file| if file.0 == "run/norma.md" { vec![file, file] } else { vec![file] });
    check(&pack(twice), "container: run/norma.md is out of order, or there twice");
    check(&pack(files.iter().rev()), "is out of order");
    for name in [INDEX, INDEX_SIGNATURE, "audit.jsonl", "run/seal.dsse.json", "run/events.jsonl"] {
        let mut without = files.clone();
        without.remove(name);
        check(&pack(&without), name);
    }
}

#[test]
fn whatever_is_no_regular_file_below_the_bundle_is_refused() {
    let bundle = bundle();
    for kind in [b'1', b'2', b'5', b'x', b'g', b'L'] {
        let mut changed = bundle.clone();
        changed[156] = kind;
        let sum: u32 = (0..BLOCK).map(|at| if (148..156).contains(&at) { 32 } else { u32::from(changed[at]) }).sum();
        changed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        check(&changed, "container: the header of \"bundle/SUMMARY.md\"");
    }
    for name in ["bundle/../x", "elsewhere/x", "bundle//x", "bundle/./x", "/bundle/x"] {
        let odd = [&header(name, 0).unwrap()[..], &END].concat();
        check(&odd, "is not below bundle/, or not a plain path");
    }
}

/// The log with another goal in it, and a chain that fits.
fn rewritten(files: &mut Files) {
    let text = String::from_utf8(files["run/events.jsonl"].clone()).unwrap();
    let (mut prev, mut lines) = (None, Vec::new());
    for (seq, text) in (1..).zip(text.lines()) {
        let mut line = EventLine::parse(text.as_bytes()).unwrap();
        if line.kind == "verdict" {
            line.message = "PASS, really".into();
        }
        line.prev = prev.unwrap_or_else(|| line.chain_start());
        let bytes = line.to_bytes();
        prev = Some(contract::hash::chain(seq, &line.prev, &bytes));
        lines.extend(bytes);
        lines.push(b'\n');
    }
    files.insert("run/events.jsonl".into(), lines);
}

#[test]
fn a_history_that_was_rewritten_with_its_chain_is_found_without_the_key() {
    // Everything that needs no key is made anew; then with another key, and the seal with it.
    let mut files = unpack(&bundle());
    rewritten(&mut files);
    let signed_before = files[INDEX_SIGNATURE].clone();
    let forged = indexed(files.clone(), &|_| signed_before.clone());
    check(&forged, "signatures: index.dsse.json vouches for another index.json");
    check(&forged, "seal: run/seal.dsse.json vouches for another log");
    check(&forged, "audit log: audit.jsonl, line");
    let dir = tempfile::tempdir().unwrap();
    let thief = runner::Trust::new(dir.path(), dir.path()).keys().unwrap();
    let listed = |files: &Files| -> Vec<ManifestFile> {
        let index: contract::bundle::BundleIndex =
            serde_json::from_slice(&unpack(&indexed(files.clone(), &|said| thief.sign(said)))[INDEX]).unwrap();
        let below = index.files.iter().filter_map(|file| file.below("run/"));
        below.filter(|file| file.path != "manifest.json" && file.path != "seal.dsse.json").collect()
    };
    let old = Statement::parse(&opened(&files["run/seal.dsse.json"])).unwrap();
    let mut seal: RunSeal = serde_json::from_value(old.predicate).unwrap();
    seal.head = head(&files["run/events.jsonl"]);
    seal.files = ManifestFile::listing_digest(listed(&files).iter());
    let envelope = thief.sign(&seal.statement(&files["run/manifest.json"]));
    files.insert("run/seal.dsse.json".into(), envelope.clone());
    files.insert("attestations/seal.dsse.json".into(), envelope);
    files.insert(format!("keys/{}.pem", thief.public().id()), thief.public().to_pem().into_bytes());
    let forged = indexed(files, &|said| thief.sign(said));
    let stranger =
        format!("run/seal.dsse.json is signed by key {}, which is not among the trusted keys", thief.public().id());
    check(&forged, &stranger);
}

fn opened(envelope: &[u8]) -> Vec<u8> {
    contract::attestation::Envelope::open(envelope).unwrap().payload
}

fn head(log: &[u8]) -> contract::Digest {
    let last = log.strip_suffix(b"\n").unwrap().rsplit(|byte| *byte == b'\n').next().unwrap();
    let line = EventLine::parse(last).unwrap();
    contract::hash::chain(line.seq, &line.prev, last)
}

#[test]
fn what_the_key_signed_must_still_be_true() {
    // Whoever has the key can sign an index of anything; the rest of the roster does not hang on it.
    check(&resigned(rewritten), "seal: run/seal.dsse.json vouches for another log");
    let patch = |files: &mut Files| drop(files.insert("run/patch.diff".into(), b"another".to_vec()));
    check(&resigned(patch), "seal: run/seal.dsse.json vouches for other files");
    let manifest = |files: &mut Files| drop(files.insert("run/manifest.json".into(), b"{}".to_vec()));
    check(&resigned(manifest), "seal: run/seal.dsse.json vouches for another manifest.json");
    let contract = |files: &mut Files| drop(files.insert("run/contract.json".into(), b"{}".to_vec()));
    check(&resigned(contract), "evidence: run/contract.json differs from the contract of the run");
    let step = |files: &mut Files| drop(files.insert("run/steps/001-plan/output.json".into(), b"{}".to_vec()));
    check(&resigned(step), "evidence: run/steps/001-plan holds other files than event");
    let cut = |files: &mut Files| {
        let log = files.get_mut("run/events.jsonl").unwrap();
        let end = log[..log.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        log.truncate(end + 1);
    };
    check(&resigned(cut), "state machine: the run has not ended");
    let audit = |files: &mut Files| drop(files.insert("audit.jsonl".into(), b"{}\n".to_vec()));
    check(&resigned(audit), "audit log: audit.jsonl, line 1 cannot be read");
}

#[test]
fn a_receipt_that_was_changed_is_found() {
    let at = "run/changes/001/RECEIPT.json";
    for (from, to, expected) in [
        ("\"status\": \"success\"", "\"status\": \"failure\"", "RECEIPT.json differs from its receipt hash"),
        ("\"submitted\": \"", "\"submitted\":  \"", "evidence: run/changes/001 holds other files"),
        ("agent-1", "agent-2", "001.provenance.dsse.json is about something else than this change"),
        ("\"change\": 1", "\"change\": 2", "is of another change"),
        ("\"previous_receipt_hash\": null", "\"previous_receipt_hash\": \"", "cannot be read"),
    ] {
        let edit = |files: &mut Files| {
            let text = String::from_utf8(files[at].clone()).unwrap();
            assert!(text.contains(from), "{from}");
            files.insert(at.into(), text.replace(from, to).into_bytes());
        };
        check(&resigned(edit), expected);
    }
}

#[test]
fn an_envelope_counts_only_for_what_its_name_promises() {
    let (vsa, provenance) = ("attestations/001.vsa.dsse.json", "attestations/001.provenance.dsse.json");
    let swapped = |files: &mut Files| drop(files.insert(vsa.into(), files[provenance].clone()));
    check(&resigned(swapped), "001.vsa.dsse.json says \"https://slsa.dev/provenance/v1\"");
    let gone = |files: &mut Files| drop(files.remove(vsa));
    check(&resigned(gone), "signatures: attestations/001.vsa.dsse.json is missing");
    let stray = |files: &mut Files| drop(files.insert("attestations/002.vsa.dsse.json".into(), files[vsa].clone()));
    check(&resigned(stray), "002.vsa.dsse.json is about a change that has no receipt");
    let other_seal = |files: &mut Files| drop(files.insert("attestations/seal.dsse.json".into(), files[vsa].clone()));
    check(&resigned(other_seal), "attestations/seal.dsse.json is not the seal of the run");
    let wrong_key = |files: &mut Files| {
        let name = files.keys().find(|name| name.ends_with(".pem")).unwrap().clone();
        let pem = files.remove(&name).unwrap();
        files.insert("keys/another.pem".into(), pem);
    };
    check(&resigned(wrong_key), "signatures: keys/another.pem is key");
    for (from, to, expected) in [
        ("application/vnd.in-toto+json", "application/json", "carries \"application/json\""),
        ("\"keyid\":\"", "\"keyid\":\"0", "and says that it was"),
        ("\"signatures\":[", "\"signatures\":[{\"keyid\":\"\",\"sig\":\"\"},", "has 2 signatures, not one"),
        ("\"payload\":\"", "\"payload\":\"_", "payload is not standard base64"),
    ] {
        let edit = |files: &mut Files| {
            let text = String::from_utf8(files[vsa].clone()).unwrap();
            files.insert(vsa.into(), text.replacen(from, to, 1).into_bytes());
        };
        check(&resigned(edit), expected);
    }
}

#[test]
fn a_commit_that_is_missing_or_another_is_found() {
    let name = |files: &Files| files.keys().find(|name| name.starts_with("git/")).unwrap().clone();
    check(&resigned(|files| drop(files.remove(&name(files)))), "is not in the bundle");
    let changed = |files: &mut Files| {
        let text = String::from_utf8(files[&name(files)].clone()).unwrap();
        files.insert(name(files), text.replace("author", "Author").into_bytes());
    };
    check(&resigned(changed), "is not the object of that name");
}

#[test]
fn a_run_that_does_not_verify_is_not_exported() {
    let world = World::new();
    std::fs::write(world.run_dir().join("patch.diff"), "another").unwrap();
    let error = world.export().unwrap_err().to_string();
    assert!(error.contains("it does not verify, so it is not exported"), "{error}");
}
