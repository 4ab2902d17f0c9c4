//! What is due next. A workflow is a pure function from the state of a run to the one thing to do; the loop in
//! `runner` does it and records what happened.

mod pdca;

use crate::Run;
use contract::{BudgetExceeded, End, Status, StepRef, Workflow};

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
    /// What is due now.
    pub fn next(&self) -> Due {
        if self.status != Status::Running {
            return Due::Nothing;
        }
        match self.started.contract.workflow {
            Workflow::Pdca => pdca::next(self),
            Workflow::Batch => Due::Nothing,
        }
    }
}
