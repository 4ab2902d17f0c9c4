//! The turn of a reviewer: it is shown what a worker changed, and must leave it as it is.

use crate::Result;
use crate::git::id;
use crate::record::Driver;
use contract::{Fact, PipelineFact, TreeId, TurnEnd};
use run::TurnSpec;
use run::gate::shown;
use run::turn::{Judgement, review_given};

/// How much of a difference a reviewer is told; the tree that it is shown has all of it.
const DIFF_BYTES_MAX: usize = 128 << 10;

/// Most paths that it is told of by name.
const FILES_MAX: usize = 1000;

/// Has a reviewer see what it is to judge.
pub(super) fn attach(driver: &Driver<'_, '_>, spec: &mut TurnSpec) -> Result<()> {
    let place = spec.step.item.filter(|_| spec.review.is_some());
    let Some(base) = place.and_then(|place| driver.run.items().get(place as usize)?.in_review()).map(|it| it.base.tree)
    else {
        return Ok(());
    };
    let rules = driver.run.started.contract.rules;
    let tree = id(spec.tree);
    let changes = driver.objects.diff(id(base), tree)?;
    let text = driver.objects.diff_text(id(base), tree, crate::change::text_bytes_max(rules))?;
    if let Some(review) = &mut spec.review {
        review.files = changes.iter().take(FILES_MAX).map(|change| shown(&change.path)).collect();
        review.truncated = text.len() > DIFF_BYTES_MAX;
        review.diff = String::from_utf8_lossy(&text[..text.len().min(DIFF_BYTES_MAX)]).into_owned();
    }
    Ok(())
}

/// What the end of a reviewer's turn leads to: whether it left everything as it was, and what it said.
pub(super) fn led_to(driver: &Driver<'_, '_>, spec: &TurnSpec, judged: &Judgement, tree: Option<TreeId>) -> Vec<Fact> {
    let (Some(_), Some(item)) = (&spec.review, spec.step.item) else { return Vec::new() };
    let (step, before) = (spec.step, spec.tree);
    let gate =
        tree.map(|after| PipelineFact::ReviewerGateResult { item, step, passed: after == before, before, after });
    let reviewer = driver.run.reviewer_of(step);
    let given = spec.item.as_deref().zip(reviewer).filter(|_| judged.end == TurnEnd::Answered);
    let given = given.and_then(|(item, reviewer)| review_given(step, item, reviewer, &judged.response));
    gate.into_iter().chain(given.map(PipelineFact::ReviewResult)).map(Fact::Pipeline).collect()
}
