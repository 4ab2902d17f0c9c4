//! Patches of a loop, applied and judged again. Those of the first version have no receipt, and were written down in
//! another form ([`first`]).

mod first;

use super::tally::{Found, found};
use super::{Tallies, Walk, items};
use crate::Result;
use crate::change::{Gates, Judged, Landed, Verdict, judge, read_patch};
use contract::{Digest, Fact, TreeId};

/// What of a patch that was judged is not what is on record of it.
pub(super) fn differences(walk: &mut Walk<'_, '_>, at: usize) -> Result<Vec<Found>> {
    let Some((change, step)) = walk.run.open_change() else {
        unreachable!("BUG: the log was folded before, and a change is recorded only where it is open")
    };
    let event = &walk.events[at];
    if event.fact.change_end().is_some_and(|end| end.receipt.is_none()) {
        return first::differences(walk, event, change, step);
    }
    let patch = read_patch(&walk.dir, &walk.run, step)?;
    let (run, before) = (walk.run.clone(), walk.run.tree());
    let mut judged = Judged::of_patch(&run, change, step, patch);
    let landed = |_: &Digest| Ok(None);
    let (objects, rules, run_dir) = (walk.with.objects, walk.rules.clone(), walk.dir.clone());
    let gates = Gates { objects, rules, run: &run, run_dir, left: None, landed: &landed, denied: &|_| Ok(true) };
    let mut no_tests = |_: &_, _: TreeId, _: TreeId| unreachable!("BUG: a loop's patch has no tests");
    let ending = match judge(&gates, &mut judged, &mut no_tests)? {
        Verdict::Refused(refusal) => judged.ends(refusal),
        Verdict::Passed | Verdict::NeedsReview | Verdict::Interrupted => {
            let after = judged.candidate()?;
            judged.succeeds(Landed::new(before, after))
        }
    };
    let (of_gates, rest) = items::written_down(walk, &run, at, ending)?;
    Ok(of_gates.into_iter().chain(rest).map(|(_, what)| found(Some("patch"), what)).collect())
}

/// The same, put on the tally.
pub(super) fn compare(walk: &mut Walk<'_, '_>, at: usize, tallies: &mut Tallies) -> Result<()> {
    debug_assert!(matches!(walk.events[at].fact, Fact::PatchApplied(_) | Fact::ChangeDropped(_)));
    let found = differences(walk, at);
    tallies.patches.compare(Some(walk.events[at].seq), found)
}
