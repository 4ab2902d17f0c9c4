//! What happens to the items of a run, and to a run that waits for a person.

use super::{Outcome, Run, Stage};
use crate::items::{self, ItemStage, ItemState};
use contract::{ItemAdded, ItemBase, ItemEnded, Reason, Status, StepRef, Timestamp, Wait};
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
        let is_due = |due: crate::Due| due == crate::Due::Turn(step);
        if !self.due().any(is_due) {
            return Err(format!("turn {} is not due", step.dir_name()));
        }
        let base = base.filter(|base| **base == self.base_for(place)).cloned();
        let base = base.ok_or("an item starts from the run's line")?;
        let level = self.items[place as usize].level;
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
            if ended.before != self.line.head.tree || !self.may_land(ended.item) {
                return Err("items land in their order, each on the one before".into());
            }
            self.line.head = ItemBase { commit: commit.clone(), tree: ended.after.clone() };
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
        match self.next() {
            crate::Due::Approval if wait.reasons == self.started.contract.approval_for => {}
            other => return Err(format!("no approval is due but {other:?}")),
        }
        self.waits = Some(wait.clone());
        self.status = Status::Waiting;
        self.reason = Some(Reason::ApprovalRequired);
        Ok(())
    }

    pub(super) fn use_approval(&mut self, approval: &str) -> Outcome {
        let waited_for = self.waits.as_ref().is_some_and(|wait| wait.approval == approval);
        if !(waited_for || self.asked.iter().any(|it| it == approval)) || self.approvals.iter().any(|it| it == approval)
        {
            return Err("this run did not ask for that approval, or has used it".into());
        }
        self.approvals.push(approval.to_owned());
        Ok(())
    }
}
