//! The lines of the state directory's own log that are about this run. They are not all of that log, so its chain can be
//! followed only where they are neighbours; but each state of the run that it knows must be in the run's own chain, and
//! the manifest that it was sealed with must be this one.

use super::log::Log;
use crate::Found;
use contract::hash::digest;
use contract::json::{self, Limits};
use contract::{Audit, AuditLine, Digest, Domain, LINE_BYTES_MAX};

/// Reads the lines and compares them with the log of the run.
pub(crate) fn check(found: &Found<'_>, log: &Log) -> Vec<String> {
    let Some(bytes) = found.bundle.bytes("audit.jsonl") else { return vec!["audit.jsonl is missing".into()] };
    let mut problems = Vec::new();
    let (mut sealed, mut before) = (false, None);
    for (number, text) in (1..).zip(bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n')) {
        let mut bad = |why: &str| problems.push(format!("audit.jsonl, line {number} {why}"));
        let Some((line, fact)) = read(text) else {
            bad("cannot be read");
            continue;
        };
        if !follows(&line, before) {
            bad("does not follow the line before");
        }
        before = Some((line.seq, contract::hash::chain(line.seq, &line.prev, text)));
        if fact.run() != Some(&found.index.run_id) {
            bad("is not about this run");
        }
        if let Audit::RunState { seq, head, .. } = &fact
            && seq.checked_sub(1).and_then(|at| log.heads.get(at as usize)) != Some(head)
        {
            bad("knows another log of this run");
        }
        if let Audit::RunSealed { evidence, .. } = &fact {
            sealed = true;
            if *evidence != digest(Domain::Manifest, found.bundle.bytes("run/manifest.json").unwrap_or_default()) {
                bad("sealed another manifest.json");
            }
        }
    }
    if !sealed {
        problems.push("audit.jsonl does not say that the run was sealed".into());
    }
    problems
}

fn read(text: &[u8]) -> Option<(AuditLine, Audit)> {
    let value = json::parse(text, &Limits::new(LINE_BYTES_MAX, Limits::DOCUMENT.depth_max)).ok()?;
    let line: AuditLine = serde_json::from_value(value).ok()?;
    let fact = Audit::from_parts(&line.kind, line.payload.clone()).ok()?;
    Some((line, fact))
}

fn follows(line: &AuditLine, before: Option<(u64, Digest)>) -> bool {
    match before {
        None => true,
        Some((seq, _)) if line.seq <= seq => false,
        Some((seq, hash)) => line.seq > seq + 1 || line.prev == hash,
    }
}
