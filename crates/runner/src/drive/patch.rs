//! The patch that a loop's `act` proposes: applied to the run's tree on objects, and judged like every other change. All
//! or nothing: the run either has the new tree, or its old one and the reasons.

use super::finish::finish;
use super::judging::with_gates;
use crate::Result;
use crate::change::{Judged, Landed, Verdict, judge, read_patch};
use crate::git::id;
use crate::record::Driver;
use contract::{Fact, StepRef};
use store::crash;

pub(crate) fn judge_and_apply(driver: &mut Driver<'_, '_>, change: u32, step: StepRef) -> Result<()> {
    let before = driver.run.tree();
    driver.record(vec![Fact::ChangeStarted { change, step: step.index, before }], Vec::new())?;
    crash::point("change.after_intent");
    let patch = read_patch(&driver.run_dir(), &driver.run, step)?;
    let mut judged = Judged::of_patch(&driver.run, change, step, patch);
    let ending = match with_gates(driver, &mut None, |gates, try_tests| judge(gates, &mut judged, try_tests))? {
        Verdict::Refused(refusal) => judged.ends(refusal),
        Verdict::NeedsReview | Verdict::Interrupted => return Ok(()),
        Verdict::Passed => {
            let after = judged.candidate()?;
            // Durable before it can be mentioned.
            driver.objects.pin(&format!("runs/{}/tree", driver.run.id.slug()), id(after))?;
            judged.succeeds(Landed::new(before, after))
        }
    };
    finish(driver, ending, None)
}
