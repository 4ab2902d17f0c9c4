//! A change: a candidate tree that becomes part of the run's history, or leaves no trace. What a worker left in its
//! workspace and what an `act` proposes as a patch go the same way: the gates in their one order, the tests, a signed
//! receipt, and one entry of the log.

pub(crate) mod acceptance;
pub(crate) mod conflict;
pub(crate) mod contracts;
mod difference;
mod fixtures;
mod gates;
mod guarded;
mod judge;
mod judged;
mod merge;
pub(crate) mod observed;
mod patch;
pub(crate) mod paths;
mod receipt;
mod whole;

pub(crate) use difference::Difference;
pub(crate) use gates::{Gates, Left, duplicate_of};
pub(crate) use judge::{OnLine, Tried, TryTests, Verdict, bring_onto_line, judge};
pub(crate) use judged::Judged;
pub(crate) use merge::{OnTop, Sides, merge, merge_without, with_paths_of};
pub(crate) use patch::{Patched, apply_patch, read_patch};
pub(crate) use receipt::{Ending, Landed, Made, commit, end, gates_json, receipt, refusals};
pub(crate) use whole::{commit_message, diff, identity, text_bytes_max};
