//! What happens to the items of a run, and to a run that waits for a person.

use super::{Outcome, Run, Stage};
use crate::items::{self, ItemStage, ItemState};
use contract::{ApprovalId, ItemAdded, ItemBase, ItemEnded, Reason, Status, StepRef, Timestamp, Wait};
use std::sync::Arc;

impl Run {
    pub(super) fn add_item(&mut self, added: &ItemAdded) -> Outcome {
        if self.stage != Stage::Fresh {
            return Err("items follow the start".into());
        }
        if added.earlier.is_some() && self.started.parent.is_none() {
            return Err("a run without a parent goes on from nothing".into());
        }
        items::add(&mut self.items, added, self.started.items)?;
        if (self.items.len() as u32) < self.started.items {
            return Ok(());
        }
        let mut contract = self.started.contract.clone();
        contract.items = self.items.iter().map(|state| (*state.item).clone()).collect();
        if contract.digest() != self.started.contract_digest {
            return Err("the contract differs from its digest".into());
        }
        Ok(())
    }

    pub(super) fn item(&mut self, place: u32) -> Result<&mut ItemState, String> {
        let state = self.items.get_mut(place as usize).ok_or_else(|| format!("there is no item {place}"))?;
        Ok(Arc::make_mut(state))
    }

    pub(super) fn open_item(&mut self, place: u32, step: StepRef, base: Option<&ItemBase>, ts: Timestamp) -> Outcome {
        if self.stage != Stage::Fresh || (self.items.len() as u32) < self.started.items || step.index != self.opened + 1
        {
            return Err(format!("step {} cannot come next", step.dir_name()));
        }
        let state = self.items.get(place as usize).ok_or_else(|| format!("there is no item {place}"))?;
        if !state.needs.iter().all(|need| self.items[*need as usize].succeeded()) {
            return Err(format!("item {} needs what has not succeeded", state.item.id));
        }
        let level = state.level;
        let on_line = |base: &&ItemBase| {
            **base == self.line.head || self.level_base.as_ref().is_some_and(|(_, started)| started == *base)
        };
        let base = base.filter(on_line).cloned().ok_or("an item starts from the run's line")?;
        if self.level_base.as_ref().is_none_or(|(started, _)| *started != level) {
            self.level_base = Some((level, base.clone()));
        }
        self.opened = step.index;
        self.item(place)?.open(step, ts, base)
    }

    /// What an agent asks for it asks for in its turn.
    pub(super) fn require_working(&mut self, place: u32) -> Outcome {
        match self.item(place)?.stage {
            ItemStage::Working { .. } => Ok(()),
            _ => Err(format!("nobody works on item {place}")),
        }
    }

    pub(super) fn require_judged(&mut self, place: u32) -> Outcome {
        match self.item(place)?.stage {
            ItemStage::Worked(_) | ItemStage::Waiting => Ok(()),
            _ => Err(format!("item {place} is not being judged")),
        }
    }

    pub(super) fn end_item(&mut self, ended: &ItemEnded) -> Outcome {
        self.items.get(ended.item as usize).ok_or("there is no such item")?.require_end(ended)?;
        if let Some(commit) = &ended.commit {
            if ended.before != self.line.head.tree {
                return Err("items land one after another, each on the one before".into());
            }
            self.line.head = ItemBase { commit: *commit, tree: ended.after };
            self.tree.clone_from(&ended.after);
            self.line.receipt = Some(ended.receipt.receipt_hash);
        } else if ended.after != ended.before {
            return Err("a change that lands is a commit".into());
        }
        let state = self.item(ended.item)?;
        state.stage = ItemStage::Ended(Arc::new(ended.clone()));
        Ok(())
    }

    pub(crate) fn has_open_item(&self) -> bool {
        self.items.iter().any(|state| matches!(state.stage, ItemStage::Working { .. }))
    }

    pub(super) fn wait(&mut self, wait: &Wait) -> Outcome {
        if wait.reasons != self.started.contract.approval_for || !self.approvals.is_empty() || self.has_open_item() {
            return Err("no approval is needed here".into());
        }
        self.waits = Some(wait.clone());
        self.status = Status::Waiting;
        self.reason = Some(Reason::ApprovalRequired);
        Ok(())
    }

    pub(super) fn use_approval(&mut self, approval: ApprovalId) -> Outcome {
        let waited_for = self.waits.as_ref().is_some_and(|wait| wait.approval == approval);
        if !(waited_for || self.asked.contains(&approval)) || self.approvals.contains(&approval) {
            return Err("this run did not ask for that approval, or has used it".into());
        }
        self.approvals.push(approval);
        Ok(())
    }
}
