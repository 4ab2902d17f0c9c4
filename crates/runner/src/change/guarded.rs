//! What a person is asked about a change that its tests do not pass as they were before it: whether what it makes of them
//! is meant. The reasons follow from the trees alone and name both, so that an approval is about exactly these bytes.

use super::acceptance::{Side, plan};
use crate::Result;
use crate::git::{Objects, TEXT_BYTES_MAX, id};
use contract::{Item, REASON_DIFFERENCE, TreeId};
use run::gate::shown;
use run::gate::test_files::TestFiles;

/// A longer difference is told where to look at instead. The trees are named anyway.
const DIFF_BYTES_MAX: usize = 16 << 10;

/// More files than this are counted.
const FILES_MAX: usize = 100;

/// Why a person has to approve what a change of an item makes of its tests.
pub(crate) fn reasons(
    objects: &Objects,
    rules: u32,
    item: &Item,
    (before, after): (TreeId, TreeId),
) -> Result<Vec<String>> {
    let files = TestFiles::new(&item.tests);
    let changes = objects.diff(id(before), id(after))?;
    let plan = plan(objects, rules, item, (id(before), id(after)), &changes, &files)?;
    let of_base = plan.sides.iter().find(|(side, _)| *side == Side::Baseline);
    let without = of_base.map_or(id(before), |(_, tree)| *tree);
    let touched = objects.diff(without, id(after))?;
    let mut reasons = vec![format!(
        "{}: its tests fail as they were before the change, which touches them: approve what it makes of them",
        item.id
    )];
    let file = |change: &crate::git::TreeChange| {
        let what = match (change.old.is_some(), change.new.is_some()) {
            (true, true) => "edits",
            (false, _) => "adds",
            (true, false) => "removes",
        };
        format!("{what} {}", shown(&change.path))
    };
    reasons.extend(touched.iter().take(FILES_MAX).map(file));
    if let more @ 1.. = touched.len().saturating_sub(FILES_MAX) {
        reasons.push(format!("and {more} more"));
    }
    reasons.push(format!("tree before: {before}; tree after: {after}"));
    let text = objects.diff_text(without, id(after), TEXT_BYTES_MAX)?;
    let shown = contract::printable(&String::from_utf8_lossy(&text)).len();
    reasons.push(match shown <= DIFF_BYTES_MAX {
        true => format!("{REASON_DIFFERENCE}{}", String::from_utf8_lossy(&text)),
        false => format!("what it makes of them takes {shown} bytes to show: norma diff"),
    });
    Ok(reasons)
}
