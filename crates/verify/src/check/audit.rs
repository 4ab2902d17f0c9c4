//! The lines of the state directory's own log that are about this run. They are not all of that log, so its chain can be
//! followed only where they are neighbours; but each state of the run that it knows must be in the run's own chain, the
//! manifest that it was sealed with must be this one, and each approval that the run used must have been asked for,
//! given and used there.

use super::log::Log;
use crate::Found;
use contract::hash::digest;
use contract::json::{self, Limits};
use contract::{Audit, AuditLine, Digest, Domain, Fact, LINE_BYTES_MAX, Slug, Timestamp};

/// Reads the lines and compares them with the log of the run.
pub(crate) fn check(found: &Found<'_>, log: &Log) -> Vec<String> {
    let Some(bytes) = found.bundle.bytes("audit.jsonl") else { return vec!["audit.jsonl is missing".into()] };
    let mut problems = Vec::new();
    let (mut facts, mut before) = (Vec::new(), None);
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
        if !is_about(&fact, found.index.run_id, &facts) {
            bad("is not about this run");
        }
        contradiction(&fact, found, log).into_iter().for_each(bad);
        facts.push((fact, line.ts));
    }
    if !facts.iter().any(|(fact, _)| matches!(fact, Audit::RunSealed { .. })) {
        problems.push("audit.jsonl does not say that the run was sealed".into());
    }
    if let Some(run) = &log.run {
        let events: Vec<Fact> = log.events.iter().map(|event| event.fact.clone()).collect();
        problems.extend(run::approval_problems(run, &events, &facts));
    }
    problems
}

/// An answer is about the run for which its approval was asked before.
fn is_about(fact: &Audit, slug: Slug, before: &[(Audit, Timestamp)]) -> bool {
    match fact {
        Audit::ApprovalAnswered { id, .. } => {
            before.iter().any(|(fact, _)| matches!(fact, Audit::ApprovalAsked { id: asked, .. } if asked == id))
        }
        fact => fact.run() == Some(slug),
    }
}

/// What a line says of the run that is not so in this bundle.
fn contradiction(fact: &Audit, found: &Found<'_>, log: &Log) -> Option<&'static str> {
    let manifest = || digest(Domain::Manifest, found.bundle.bytes("run/manifest.json").unwrap_or_default());
    match fact {
        Audit::RunState { seq, head, .. } => {
            let known = seq.checked_sub(1).and_then(|at| log.heads.get(at as usize)) == Some(head);
            (!known).then_some("knows another log of this run")
        }
        Audit::RunSealed { evidence, .. } => (*evidence != manifest()).then_some("sealed another manifest.json"),
        _ => None,
    }
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
