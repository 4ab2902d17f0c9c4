//! What is due next. A workflow is a pure function from the state of a run to the one thing to do; the loop in
//! `runner` does it and records what happened.

mod batch;
mod pdca;

use crate::Run;
use contract::{BudgetExceeded, End, Reason, Status, StepRef, Timestamp, Workflow};

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
