//! Asking the gates about a change of the run that is being driven: what they read comes from the record, the tests are
//! run on the machine.

use crate::Result;
use crate::change::{Gates, Tried, TryTests};
use crate::context::policy::Rules;
use crate::git::id;
use crate::record::{Driver, Pending, approval};
use contract::{Digest, Item, TreeId};

/// Has a live run's change judged. `sealed` is the record of its turn, where that is still on its way to the disk: it is
/// waited for before the tests, which may take long.
pub(crate) fn with_gates<T>(
    driver: &mut Driver<'_, '_>,
    sealed: &mut Option<Pending>,
    ask: impl FnOnce(&Gates<'_>, &mut TryTests<'_>) -> Result<T>,
) -> Result<T> {
    let run_dir = driver.run_dir();
    let Driver { reader, world, run, control, shared, policies, store, objects, left, .. } = driver;
    let landed = |content: &Digest| Ok(reader.landed_receipt(content)?);
    let rules = Rules::new(policies, &store.layout, run.started.contract.rules);
    let denied = |reasons: &[String]| approval::is_denied(reader, run, reasons);
    let left = left.as_ref();
    let gates = Gates { objects, rules, run, run_dir, left, landed: &landed, denied: &denied };
    let mut try_tests = |item: &Item, tree: TreeId, base: TreeId| {
        if let Some(sealed) = sealed.take() {
            shared.settle(sealed)?;
        }
        let acceptance = world.accept(run, item, id(tree), id(base))?;
        Ok(if control.requested().is_some() { Tried::Interrupted } else { Tried::Ran(acceptance) })
    };
    ask(&gates, &mut try_tests)
}
