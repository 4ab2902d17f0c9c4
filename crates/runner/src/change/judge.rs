//! The order in which a change is judged, for live runs and for whoever replays them: every gate on what was proposed,
//! the tests last ([`run::gate::ORDER`]); then, if others have landed since, the merged tree. The first gate that finds
//! something ends the change, and nothing later is asked.

use super::gates::{Gates, Put};
use super::judged::{Judged, Refusal};
use super::receipt::Landed;
use super::{fixtures, guarded};
use crate::Result;
use crate::change::acceptance::Acceptance;
use crate::change::text_bytes_max;
use crate::git::id;
use contract::work::Gate;
use contract::{Item, TreeId};
use run::gate::ORDER;
use std::sync::Arc;

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
    /// Every one before the review passed: reviewers are to look at it.
    NeedsReview,
    /// norma was asked to stop: nothing is known.
    Interrupted,
}

/// Where a change that passed is put.
pub(crate) enum OnLine {
    /// At the end of the run's line; nowhere new if it changes nothing.
    At(Option<Landed>),
    /// Nowhere.
    Refused(Refusal),
    /// Nowhere yet: a person has to approve it, for these reasons.
    Asks(Vec<String>),
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
            // Those of the whole are tried on the tree that becomes part of it.
            let item = without_whole(&judged.item);
            return test(judged, &item, tree, base, try_tests);
        }
        if gate == Gate::Review && gates.needs_review(judged) {
            return Ok(Verdict::NeedsReview);
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
    let (after, is_tested) = match gates.put_on_line(judged)? {
        Put::AsItIs => (judged.candidate()?, !judged.item.tests.iter().any(|test| test.of_whole)),
        Put::Refused(refusal) => return Ok(OnLine::Refused(refusal)),
        Put::Onto(tree) => (tree, false),
    };
    if !is_tested {
        judged.gates.retain(|result| result.gate != Gate::Tests);
        let item = judged.item.clone();
        match test(judged, &item, after, before, try_tests)? {
            Verdict::Passed => {}
            Verdict::Refused(refusal) => return Ok(OnLine::Refused(refusal)),
            Verdict::NeedsReview | Verdict::Interrupted => return Ok(OnLine::Interrupted),
        }
    }
    if !judged.needs_approval() {
        return Ok(OnLine::At(Landed::new(before, after)));
    }
    let (rules, mut reasons) = (gates.run.started.contract.rules, Vec::new());
    if judged.bends_tests() {
        reasons.extend(guarded::reasons(gates.objects, rules, &judged.item, (before, after))?);
    }
    if !judged.secrets.is_empty() {
        reasons.extend(fixtures::reasons(judged, (before, after)));
    }
    Ok(match gates.run.has_approved(&reasons) {
        true => {
            // What a person lets into the history may be in its evidence, and a patch without it would make another tree.
            if !judged.secrets.is_empty() {
                judged.change.patch = gates.objects.diff_text(id(before), id(after), text_bytes_max(rules))?.into();
            }
            OnLine::At(Landed::new(before, after))
        }
        false if (gates.denied)(&reasons)? => OnLine::Refused(judged.not_approved()),
        false => OnLine::Asks(reasons),
    })
}

/// An item without the tests of the whole that it is a part of.
fn without_whole(item: &Arc<Item>) -> Arc<Item> {
    if !item.tests.iter().any(|test| test.of_whole) {
        return item.clone();
    }
    let mut item = (**item).clone();
    item.tests.retain(|test| !test.of_whole);
    Arc::new(item)
}

fn test(judged: &mut Judged, item: &Item, tree: TreeId, base: TreeId, try_tests: &mut TryTests<'_>) -> Result<Verdict> {
    if item.tests.is_empty() {
        return Ok(Verdict::Passed);
    }
    let refused = match try_tests(item, tree, base)? {
        Tried::Interrupted => return Ok(Verdict::Interrupted),
        Tried::Ran(acceptance) => judged.tested(acceptance),
        Tried::Passed => {
            judged.asked(Gate::Tests, &[]);
            None
        }
    };
    Ok(refused.map_or(Verdict::Passed, Verdict::Refused))
}
