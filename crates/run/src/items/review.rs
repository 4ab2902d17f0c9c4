//! Reviews of an item's change: who has looked at it, and what came of that. A reviewer takes a turn on the tree that the item's
//! agent left, and must leave it as it is.

use super::{ItemStage, ItemState};
use crate::state::{OpenTurn, StepRecord};
use contract::documents::review_report::ReviewVerdict;
use contract::pipeline::ReviewGiven;
use contract::{Reason, Role, StepCommitted, StepRef, TreeId, TurnEnd};
use std::sync::Arc;

/// How often a reviewer that gives no answer is asked again.
const RETRIES: usize = 1;

/// What reviewers said of a change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reviews {
    /// What each of them said.
    pub given: Vec<Arc<ReviewGiven>>,
    /// Their turns so far.
    pub turns: Vec<Arc<StepRecord>>,
    /// The turn that changed what it was to judge, and what it left.
    pub fault: Option<(StepRef, TreeId)>,
    /// Why there is no answer, though one was asked for again and again.
    pub silent: Option<(Reason, String)>,
}

impl Reviews {
    /// What blocks, of all of them.
    pub fn blocking(&self) -> impl Iterator<Item = &str> {
        self.given.iter().flat_map(|given| given.blocking.iter().map(String::as_str))
    }

    /// How many let the change pass.
    pub fn passes(&self) -> u32 {
        self.given.iter().filter(|given| given.verdict == ReviewVerdict::Pass).count() as u32
    }
}

impl ItemState {
    /// Whether everybody who reviews it has said something, or nobody else is asked.
    pub fn is_reviewed(&self) -> bool {
        let Some(terms) = &self.item.review else { return true };
        self.reviews.as_ref().is_some_and(|reviews| {
            reviews.fault.is_some() || reviews.silent.is_some() || reviews.given.len() >= terms.agents.len()
        })
    }

    /// Whether the next reviewer starts.
    pub(crate) fn needs_reviewer(&self) -> bool {
        matches!(self.stage, ItemStage::InReview(_, None))
    }

    /// Who reviews it next.
    pub(crate) fn reviewer(&self) -> Option<&str> {
        let given = self.reviews.as_ref().map_or(0, |reviews| reviews.given.len());
        self.item.review.as_ref()?.agents.get(given).map(String::as_str)
    }

    /// The attempt that its next reviewer makes.
    pub(crate) fn review_attempt(&self) -> u32 {
        self.reviews.as_ref().map_or(1, |reviews| reviews.turns.len() as u32 + 1)
    }

    /// What its agent left, while that is looked at.
    pub fn in_review(&self) -> Option<&super::Worked> {
        match &self.stage {
            ItemStage::InReview(worked, _) => Some(worked),
            _ => None,
        }
    }

    /// What it left is to be looked at.
    pub(crate) fn ask_for_review(&mut self) -> Result<(), String> {
        let asks = self.item.review.is_some() && !self.is_reviewed();
        match &self.stage {
            ItemStage::Worked(worked) if asks && worked.end == TurnEnd::Answered && worked.tree.is_some() => {
                self.stage = ItemStage::InReview(worked.clone(), None);
                self.reviews = Some(Arc::default());
                Ok(())
            }
            _ => Err(format!("item {} is not to be reviewed", self.item.id)),
        }
    }

    pub(super) fn open_review(&mut self, turn: &Arc<OpenTurn>) -> Result<(), String> {
        let (role, attempt) = (Role::Reviewer, self.review_attempt());
        match &mut self.stage {
            ItemStage::InReview(_, open @ None) if turn.step.role == role && turn.step.attempt == attempt => {
                *open = Some(turn.clone());
                Ok(())
            }
            _ => Err(format!("item {} has no such turn now", self.item.id)),
        }
    }

    pub(super) fn commit_review(&mut self, record: &Arc<StepRecord>, done: &StepCommitted) -> Result<(), String> {
        let ItemStage::InReview(worked, Some(_)) = &self.stage else {
            return Err(format!("nobody reviews {}", self.item.id));
        };
        let shown = worked.tree;
        let reviews = Arc::make_mut(self.reviews.get_or_insert_default());
        reviews.turns.push(record.clone());
        if done.end == TurnEnd::Answered && done.tree.is_none() {
            return Err("a reviewer leaves the tree that it was shown".into());
        }
        if let Some(left) = done.tree.filter(|left| Some(*left) != shown) {
            reviews.fault = Some((done.step, left));
        }
        let failed = |turn: &&Arc<StepRecord>| !matches!(turn.end, TurnEnd::Answered | TurnEnd::Interrupted);
        let is_over = !matches!(done.end, TurnEnd::Answered | TurnEnd::Interrupted)
            && reviews.turns.iter().filter(failed).count() > RETRIES;
        if is_over {
            reviews.silent = Some((done.reason.unwrap_or(Reason::AgentFailed), done.summary.clone()));
        }
        self.go_on_with_review();
        Ok(())
    }

    pub(super) fn lose_review(&mut self, record: &Arc<StepRecord>) {
        Arc::make_mut(self.reviews.get_or_insert_default()).turns.push(record.clone());
        self.go_on_with_review();
    }

    /// The next reviewer starts, or the change is judged.
    fn go_on_with_review(&mut self) {
        let ItemStage::InReview(worked, _) = &self.stage else { return };
        let worked = worked.clone();
        self.stage = match self.is_reviewed() {
            true => ItemStage::Worked(worked),
            false => ItemStage::InReview(worked, None),
        };
    }

    /// A reviewer has said something: its turn was just taken.
    pub(crate) fn take_review(&mut self, given: &ReviewGiven) -> Result<(), String> {
        let reviewer = self.reviewer().map(str::to_owned);
        let reviews = Arc::make_mut(self.reviews.get_or_insert_default());
        let is_last = |turn: &&Arc<StepRecord>| turn.step == given.step && turn.end == TurnEnd::Answered;
        if reviews.turns.last().filter(is_last).is_none() || reviewer.as_ref() != Some(&given.reviewer) {
            return Err("a review comes from the turn that was just taken".into());
        }
        if given.task_id != self.item.id || given.verdict == ReviewVerdict::Pass && !given.blocking.is_empty() {
            return Err("a review that lets something pass has nothing that blocks".into());
        }
        reviews.given.push(Arc::new(given.clone()));
        self.go_on_with_review();
        Ok(())
    }

    /// Whether what is said of a reviewer's turn is what it left.
    pub(crate) fn require_reviewer_gate(&self, step: StepRef, passed: bool, after: TreeId) -> Result<(), String> {
        let turns = self.reviews.iter().flat_map(|reviews| &reviews.turns);
        let fault = self.reviews.as_ref().and_then(|reviews| reviews.fault);
        let is_so = match passed {
            true => fault.is_none_or(|(at, _)| at != step),
            false => fault == Some((step, after)),
        };
        match is_so && turns.last().is_some_and(|turn| turn.step == step) {
            true => Ok(()),
            false => Err("this is not what the reviewer left".into()),
        }
    }
}
