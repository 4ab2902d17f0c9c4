//! The order in which a change is judged, for live runs and for whoever replays them: every gate on what was proposed,
//! the tests last ([`run::gate::ORDER`]); then, if others have landed since, the merged tree. The first gate that finds
//! something ends the change, and nothing later is asked.

use super::gates::{Gates, Put};
use super::judged::{Judged, Refusal};
use super::receipt::Landed;
use crate::Result;
use crate::change::acceptance::Acceptance;
use crate::drive::Driver;
use crate::git::id;
use crate::host::policy::Rules;
use crate::shared::Pending;
use contract::work::Gate;
use contract::{Digest, Item, TreeId};
use run::gate::ORDER;

/// What came of the tests of a change.
pub(crate) enum Tried {
    /// This.
    Ran(Acceptance),
    /// They passed, and no more is kept of it: others landed meanwhile, and they ran again on the merged tree.
    Passed,
    /// norma was asked to stop: nothing is known.
    Interrupted,
}

/// Runs the tests of an item on a tree that was made of another, or says what came of that before.
pub(crate) type TryTests<'t> = dyn FnMut(&Item, TreeId, TreeId) -> Result<Tried> + 't;

/// What the gates say.
pub(crate) enum Verdict {
    /// Every one of them passed.
    Passed,
    /// One of them did not.
    Refused(Refusal),
    /// norma was asked to stop: nothing is known.
    Interrupted,
}

/// Where a change that passed comes to lie.
pub(crate) enum OnLine {
    /// At the end of the run's line; nowhere new if it changes nothing.
    At(Option<Landed>),
    /// Nowhere.
    Refused(Refusal),
    /// norma was asked to stop: nothing is known.
    Interrupted,
}

/// Asks every gate about what was proposed.
pub(crate) fn judge(gates: &Gates<'_>, judged: &mut Judged, try_tests: &mut TryTests<'_>) -> Result<Verdict> {
    if let Some(refusal) = gates.not_started(judged) {
        return Ok(Verdict::Refused(refusal));
    }
    for gate in ORDER {
        if gate == Gate::Tests {
            let (tree, base) = (judged.candidate()?, judged.on);
            return test(judged, tree, base, try_tests);
        }
        if let Some(refusal) = gates.ask(gate, judged)? {
            return Ok(Verdict::Refused(refusal));
        }
    }
    Ok(Verdict::Passed)
}

/// Puts a change that passed on the end of the run's line. If others have landed since its agent started, what comes of
/// that is judged and tested again.
pub(crate) fn bring_onto_line(gates: &Gates<'_>, judged: &mut Judged, try_tests: &mut TryTests<'_>) -> Result<OnLine> {
    let before = gates.run.line().head.tree;
    let after = match gates.put_on_line(judged)? {
        Put::AsItIs => judged.candidate()?,
        Put::Refused(refusal) => return Ok(OnLine::Refused(refusal)),
        Put::Onto(tree) => {
            judged.gates.retain(|result| result.gate != Gate::Tests);
            match test(judged, tree, before, try_tests)? {
                Verdict::Passed => tree,
                Verdict::Refused(refusal) => return Ok(OnLine::Refused(refusal)),
                Verdict::Interrupted => return Ok(OnLine::Interrupted),
            }
        }
    };
    Ok(OnLine::At(Landed::new(before, after)))
}

fn test(judged: &mut Judged, tree: TreeId, base: TreeId, try_tests: &mut TryTests<'_>) -> Result<Verdict> {
    let item = judged.item.clone();
    if item.tests.is_empty() {
        return Ok(Verdict::Passed);
    }
    let refused = match try_tests(&item, tree, base)? {
        Tried::Interrupted => return Ok(Verdict::Interrupted),
        Tried::Ran(acceptance) => judged.tested(acceptance),
        Tried::Passed => {
            judged.asked(Gate::Tests, &[]);
            None
        }
    };
    Ok(refused.map_or(Verdict::Passed, Verdict::Refused))
}

/// Has a live run's change judged. `sealed` is the record of its turn, where that is still on its way to the disk: it is
/// waited for before the tests, which may take long.
pub(crate) fn with_gates<T>(
    driver: &mut Driver<'_, '_>,
    sealed: &mut Option<Pending>,
    ask: impl FnOnce(&Gates<'_>, &mut TryTests<'_>) -> Result<T>,
) -> Result<T> {
    let run_dir = driver.run_dir();
    let Driver { reader, world, run, control, shared, policies, store, objects, .. } = driver;
    let landed = |content: &Digest| Ok(reader.landed_receipt(content)?);
    let rules = Rules::new(policies, &store.layout);
    let gates = Gates { objects, rules, run, run_dir, landed: &landed };
    let mut try_tests = |item: &Item, tree: TreeId, base: TreeId| {
        if let Some(sealed) = sealed.take() {
            shared.settle(sealed)?;
        }
        let acceptance = world.accept(run, item, id(tree), id(base))?;
        Ok(if control.requested().is_some() { Tried::Interrupted } else { Tried::Ran(acceptance) })
    };
    ask(&gates, &mut try_tests)
}
