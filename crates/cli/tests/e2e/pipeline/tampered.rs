//! A bundle whose line was moved otherwise than it was, by somebody who has norma's key: the chain, the seal and the index are made
//! anew, so that only what is said can give it away.

#[path = "../../../../verify/tests/bundle/archive.rs"]
mod archive;

use super::conflicts::{BOTH, ONE, with_user};
use super::world::pipeline;
use crate::environment::TestEnvironment;
use crate::receipts::{problems, verifies_elsewhere};
use archive::{Files, indexed, unpack};
use contract::attestation::Envelope;
use contract::attestation::predicate::RunSeal;
use contract::bundle::{BundleIndex, INDEX};
use contract::{EventLine, ManifestFile, Statement};
use serde_json::{Value, json};

/// What somebody does to the payload of a `line_moved`.
type Edit<'e> = &'e dyn Fn(&mut Value);

/// The log with another `line_moved` in it, and a chain that fits. Answers where the chain ends.
fn rewritten(files: &mut Files, edit: Edit<'_>) -> contract::Digest {
    let text = String::from_utf8(files["run/events.jsonl"].clone()).unwrap();
    let (mut head, mut lines) = (None, Vec::new());
    for (seq, text) in (1..).zip(text.lines()) {
        let mut line = EventLine::parse(text.as_bytes()).unwrap();
        if line.kind == "line_moved" {
            edit(&mut line.payload);
        }
        line.prev = head.unwrap_or_else(|| line.chain_start());
        let bytes = line.to_bytes();
        head = Some(contract::hash::chain(seq, &line.prev, &bytes));
        lines.extend(bytes);
        lines.push(b'\n');
    }
    files.insert("run/events.jsonl".into(), lines);
    head.unwrap()
}

/// The bundle with another `line_moved`, sealed and signed.
fn tampered(env: &TestEnvironment, bundle: &[u8], edit: Edit<'_>) -> Vec<u8> {
    let data = std::path::Path::new(&env.env["XDG_DATA_HOME"]).join("norma");
    let keys = runner::Trust::new(&data, &env.root.join(".norma")).keys().unwrap();
    let mut files = unpack(bundle);
    let head = rewritten(&mut files, edit);
    let index = unpack(&indexed(files.clone(), &|said| keys.sign(said))).remove(INDEX).unwrap();
    let index: BundleIndex = serde_json::from_slice(&index).unwrap();
    let below = index.files.iter().filter_map(|file| file.below("run/"));
    let listed: Vec<ManifestFile> =
        below.filter(|file| file.path != "manifest.json" && file.path != "seal.dsse.json").collect();
    let old = Statement::parse(&Envelope::open(&files["run/seal.dsse.json"]).unwrap().payload).unwrap();
    let old: RunSeal = serde_json::from_value(old.predicate).unwrap();
    let seal = RunSeal { head, files: ManifestFile::listing_digest(listed.iter()), ..old };
    let envelope = keys.sign(&seal.statement(&files["run/manifest.json"]));
    files.insert("run/seal.dsse.json".into(), envelope.clone());
    files.insert("attestations/seal.dsse.json".into(), envelope);
    indexed(files, &|said| keys.sign(said))
}

#[test]
fn a_line_that_was_moved_otherwise_is_found_whoever_sealed_it() {
    let env = with_user(&ONE, BOTH);
    pipeline(&env).success();
    verifies_elsewhere(&env);
    let bundle = std::fs::read(env.at("bundle.tar")).unwrap();
    let base = env.event("run_started")["base"].clone();
    let other = json!({"commit": base["commit"], "tree": base["tree"]});
    let from = env.event("line_moved")["from"].clone();
    let other_end = |member: &'static str, end: Value| move |moved: &mut Value| moved[member] = end.clone();
    // Of the paths nothing else speaks, but for the audit log, which has the end of the chain.
    let cases: [(&str, Edit<'_>, &str); 5] = [
        ("a path", &|moved| drop(moved["findings"].as_array_mut().unwrap().pop()), "audit.jsonl"),
        (
            "another ground",
            &other_end("onto", other.clone()),
            "only a result that was judged is put on the user's branch",
        ),
        ("a ground of its own", &other_end("onto", from.clone()), "which it was put on"),
        ("another end", &other_end("head", from), "this is not the next fix of its task"),
        ("another beginning", &other_end("from", other), "only a result that was judged is put on the user's branch"),
    ];
    for (what, edit, expected) in cases {
        std::fs::write(env.at("tampered.tar"), tampered(&env, &bundle, edit)).unwrap();
        let found = problems(&env, &env.at("tampered.tar"), &env.at("keys"));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{what}: no {expected:?} in {found:#?}");
    }
    std::fs::write(env.at("tampered.tar"), tampered(&env, &bundle, &|_| {})).unwrap();
    assert_eq!(
        problems(&env, &env.at("tampered.tar"), &env.at("keys")),
        [""; 0],
        "nothing but what was changed is found"
    );
}
