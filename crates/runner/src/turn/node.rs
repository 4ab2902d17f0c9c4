//! What is kept of a node's turn besides what every turn leaves: what it changed, and what its answer leads to.

use crate::Result;
use crate::change::Difference;
use crate::git::recorded;
use crate::record::Driver;
use crate::workspace::Captured;
use contract::TurnEnd;
use contract::graph::{CALLS_FILE, CONTEXT_PACK, NodeResult, TurnDelta};
use contract::hash::sha256;
use contract::json::pretty;
use contract::{Reason, TreeId};
use run::TurnSpec;
use run::turn::{Judgement, node_result};
use run::workflow::graph::calls::{CALLS_BYTES_MAX, with_calls};
use run::workflow::graph::outcome::{self, Ended, Led};
use run::workflow::graph::references::context_pack;
use store::{Preparing, now};

/// Where a turn's own difference is.
const DIFF: &str = "diff.patch";

/// Keeps what a turn changed in its node's workspace, without its secrets.
pub(super) fn keep_delta(
    driver: &Driver<'_, '_>,
    spec: &TurnSpec,
    left: &Captured,
    evidence: &mut Preparing,
) -> Result<TurnDelta> {
    let rules = driver.run.started.contract.rules;
    let made = Difference::between(driver.objects, rules, spec.tree, recorded(left.tree))?;
    // Also where it changed nothing: whoever is told of the file finds it.
    evidence.write(DIFF, &made.patch)?;
    let files: Vec<String> = made.paths.iter().map(|path| run::gate::shown(&path.path)).collect();
    Ok(TurnDelta { count: files.len() as u64, files: run::bounded(files), sha256: sha256(&essence(&made.patch)) })
}

/// Keeps what whoever continues from the turn has to know, unless its agent has left that itself.
pub(super) fn keep_context_pack(
    driver: &Driver<'_, '_>,
    spec: &TurnSpec,
    judged: &Judgement,
    delta: Option<&TurnDelta>,
    evidence: &mut Preparing,
) -> Result<()> {
    if judged.end != TurnEnd::Answered || evidence.names().iter().any(|name| name == CONTEXT_PACK) {
        return Ok(());
    }
    match context_pack(&driver.run, spec, &judged.summary, delta, now()) {
        Some(pack) => Ok(evidence.write(CONTEXT_PACK, &pretty(&pack))?),
        None => Ok(()),
    }
}

/// A patch without where in a file its lines are and what is around them: whoever does the same again does it a line further.
fn essence(patch: &[u8]) -> Vec<u8> {
    let lines = patch.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| matches!(line.first(), Some(b'+' | b'-'))).flatten().copied().collect()
}

/// What the end of a node's turn leads to; nothing for a turn that is taken again. `evidence` has what its agent called.
pub(super) fn led_to(
    driver: &Driver<'_, '_>,
    spec: &TurnSpec,
    judged: &Judgement,
    tree: Option<TreeId>,
    evidence: &Preparing,
) -> Result<Led> {
    let retried = judged.end == TurnEnd::ProtocolError && is_retried(driver, spec);
    if spec.node.is_none() || judged.end == TurnEnd::Interrupted || retried {
        return Ok(Led::default());
    }
    let ok = judged.end == TurnEnd::Answered;
    let (result, refused) = match ok {
        true => {
            let calls = evidence.read(CALLS_FILE, CALLS_BYTES_MAX)?.unwrap_or_default();
            with_calls(node_result(&judged.response).unwrap_or_default(), &calls)
        }
        false => (NodeResult::default(), Vec::new()),
    };
    let ended = Ended {
        step: spec.step,
        at: now(),
        summary: &judged.summary,
        ok,
        reason: judged.reason.map(Reason::as_str),
        result: &result,
        refused: &refused,
        tree,
    };
    Ok(outcome::led_to(&driver.run, &ended))
}

fn is_retried(driver: &Driver<'_, '_>, spec: &TurnSpec) -> bool {
    let node = spec.step.node.and_then(|place| driver.run.graph()?.nodes.get(place as usize));
    let retries = driver.run.started.contract.limits.protocol_retries.unwrap_or_default();
    node.is_some_and(|node| node.protocol_errors < retries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_lines_further_down_are_the_same_difference() {
        let patch = |at: &str, around: &str, line: &str| {
            format!(
                "diff --git a/f b/f\nindex 1{at}..2{at} 100644\n--- a/f\n+++ b/f\n@@ -{at} +{at} @@\n {around}\n+{line}\n"
            )
        };
        let first = essence(patch("1", "a", "x").as_bytes());
        assert_eq!(first, essence(patch("7", "b", "x").as_bytes()));
        assert_ne!(first, essence(patch("1", "a", "y").as_bytes()));
        assert_eq!(String::from_utf8_lossy(&first), "--- a/f\n+++ b/f\n+x\n");
    }
}
