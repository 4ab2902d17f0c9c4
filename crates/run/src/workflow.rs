//! What is due next. A workflow is a pure function from the state of a run to the one thing to do; the loop in
//! `runner` does it and records what happened.

mod batch;
mod pdca;

use crate::Run;
use contract::{BudgetExceeded, End, Fact, Reason, Status, StepRef, Timestamp, Workflow};
use std::fmt;

/// A fact that is legal, but not what the workflow has happen now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotDue {
    /// In words.
    pub why: String,
}

impl fmt::Display for NotDue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NotDue {}

/// The one thing to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Ask an agent.
    Turn(StepRef),
    /// Judge and apply a patch.
    Change {
        /// Its number.
        change: u32,
        /// The step that proposed it.
        step: StepRef,
    },
    /// Judge what the agent of an item left, and let it land or drop it.
    Item {
        /// Its place in the contract.
        item: u32,
    },
    /// Have a person say yes first.
    Approval,
    /// Hold the run: its provider has had enough for now.
    Pause {
        /// Why.
        end: End,
        /// For how long, if that was said.
        until: Option<Timestamp>,
    },
    /// Bring the result to the user's repository.
    Land,
    /// Put the end on record.
    End {
        /// How.
        status: Status,
        /// Why.
        end: End,
        /// The budget that did it.
        budget: Option<BudgetExceeded>,
    },
    /// Nothing: the run is paused or over, or something is still open.
    Nothing,
}

impl Run {
    /// What is due first.
    pub fn next(&self) -> Due {
        self.due().next().unwrap_or(Due::Nothing)
    }

    /// Whether the workflow has this happen now. Asked when a fact is written and when a run is replayed, never when a
    /// log is read: rules may change, and what was written under earlier ones stays legal.
    pub fn admits(&self, fact: &Fact) -> Result<(), NotDue> {
        let is_due = match fact {
            Fact::StepStarted { step, base } => {
                let from = |item| Some(self.base_for(item));
                self.due().any(|due| due == Due::Turn(*step)) && *base == step.item.and_then(from)
            }
            Fact::ChangeStarted { change, step, .. } => {
                matches!(self.next(), Due::Change { change: due, step: by } if due == *change && by.index == *step)
            }
            Fact::ItemEnded(ended) if ended.commit.is_some() => self.may_land(ended.item),
            Fact::LandingStarted(_) => self.next() == Due::Land,
            Fact::RunWaiting(_) => self.next() == Due::Approval,
            Fact::BudgetExceeded(over) => {
                matches!(self.next(), Due::End { budget: Some(due), .. } if due == *over)
            }
            Fact::RunPassed(_) => matches!(self.next(), Due::End { status: Status::Succeeded, .. }),
            _ => true,
        };
        match is_due {
            true => Ok(()),
            false => Err(NotDue { why: format!("{:?} is not due now", fact.message()) }),
        }
    }

    /// Everything that is due, each of which could be done at once with the others.
    pub fn due(&self) -> Box<dyn Iterator<Item = Due> + '_> {
        if self.status != Status::Running {
            return Box::new(std::iter::empty());
        }
        match self.started.contract.workflow {
            _ if self.approvals.is_empty() && !self.started.contract.approval_for.is_empty() => {
                Box::new(std::iter::once(Due::Approval))
            }
            // What is open comes to its end first.
            _ if self.limited.is_some() && self.has_open_item() => Box::new(std::iter::empty()),
            _ if self.limited.is_some() => Box::new(self.limited.into_iter().map(pause)),
            Workflow::Pdca => Box::new(std::iter::once(pdca::next(self))),
            Workflow::Batch => batch::due(self),
        }
    }
}

fn pause(until: Option<Timestamp>) -> Due {
    let message = match until {
        Some(until) => format!("the provider has had enough until {until}; the run goes on then"),
        None => "the provider has had enough for now; `norma resume` goes on from the last step".to_owned(),
    };
    Due::Pause { end: End { reason: Some(Reason::ProviderLimit), message }, until }
}
