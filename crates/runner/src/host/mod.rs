//! Who owns a state directory and what it does for whoever asks: the lock and the socket, trust and policies, starting and
//! resuming runs, approvals, exports.

pub(crate) mod approval;
pub(crate) mod checkpoint;
pub(crate) mod continuation;
pub(crate) mod export;
pub(crate) mod intents;
pub(crate) mod keys;
pub(crate) mod owner;
pub(crate) mod policy;
pub(crate) mod request;
pub(crate) mod results;
pub(crate) mod socket;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod survey;
pub(crate) mod trust;
