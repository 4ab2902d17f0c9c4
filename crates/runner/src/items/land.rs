//! Bringing a judged change onto the run's line. If others have landed since its agent started, the change is put on
//! top of theirs, and what comes of that is judged and tested again.

use super::bench::Put;
use super::finish::finish;
use super::judge::{Judged, Tested, on_bench, tested};
use super::papers::Landed;
use crate::Result;
use crate::drive::Driver;
use contract::work::Gate;

pub(super) fn land(driver: &mut Driver<'_, '_>, place: u32, mut judged: Judged) -> Result<()> {
    debug_assert_eq!(place, judged.place);
    let before = driver.run.line.head.tree.clone();
    let after = match on_bench(driver, |bench| bench.put_on_line(&mut judged))? {
        Put::AsItIs => judged.candidate(),
        Put::Refused(refusal) => return finish(driver, judged.ends(refusal), None),
        Put::Onto(tree) if judged.item.tests.is_empty() => tree,
        Put::Onto(tree) => {
            judged.gates.retain(|result| result.gate != Gate::Tests);
            match tested(driver, &mut judged, &tree, &before)? {
                Tested::Passed => tree,
                Tested::Failed(refusal) => return finish(driver, judged.ends(refusal), None),
                Tested::Interrupted => return Ok(()),
            }
        }
    };
    finish(driver, judged.succeeds(Landed::new(before, after)), None)
}
