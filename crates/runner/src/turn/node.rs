//! What is kept of a node's turn besides what every turn leaves: what it changed, and what its answer leads to.

use crate::Result;
use crate::change::Difference;
use crate::git::recorded;
use crate::record::Driver;
use crate::workspace::Captured;
use contract::TurnEnd;
use contract::graph::{NodeResult, TurnDelta};
use contract::hash::sha256;
use contract::{Reason, TreeId};
use run::TurnSpec;
use run::turn::{Judgement, node_result};
use run::workflow::graph::outcome::{self, Ended, Led};
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
    if !made.patch.is_empty() {
        evidence.write(DIFF, &made.patch)?;
    }
    let files: Vec<String> = made.paths.iter().map(|path| run::gate::shown(&path.path)).collect();
    Ok(TurnDelta { count: files.len() as u64, files: run::bounded(files), sha256: sha256(&made.patch) })
}

/// What the end of a node's turn leads to; nothing for a turn that is taken again.
pub(super) fn led_to(driver: &Driver<'_, '_>, spec: &TurnSpec, judged: &Judgement, tree: Option<TreeId>) -> Led {
    let retried = judged.end == TurnEnd::ProtocolError && is_retried(driver, spec);
    if spec.node.is_none() || judged.end == TurnEnd::Interrupted || retried {
        return Led::default();
    }
    let ok = judged.end == TurnEnd::Answered;
    let result = if ok { node_result(&judged.response).unwrap_or_default() } else { NodeResult::default() };
    let ended = Ended {
        step: spec.step,
        at: now(),
        summary: &judged.summary,
        ok,
        reason: judged.reason.map(Reason::as_str),
        result: &result,
        tree,
    };
    outcome::led_to(&driver.run, &ended)
}

fn is_retried(driver: &Driver<'_, '_>, spec: &TurnSpec) -> bool {
    let node = spec.step.node.and_then(|place| driver.run.graph()?.nodes.get(place as usize));
    let retries = driver.run.started.contract.limits.protocol_retries.unwrap_or_default();
    node.is_some_and(|node| node.protocol_errors < retries)
}
