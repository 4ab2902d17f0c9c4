//! The real binary, end to end: a scripted agent in a hermetic environment, whole outputs as snapshots.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod acp;
mod agent_run;
mod agent_verbs;
mod agents;
mod approvals;
mod batches;
mod bending;
mod budgets;
mod bundle;
mod commands;
mod concurrent;
mod conformance;
mod contract;
mod damage;
mod environment;
mod honest;
mod hooks;
mod ignored;
mod intents;
mod landing;
mod merging;
mod only_in_git;
mod pdca;
mod real;
mod receipts;
mod recorded;
mod replay;
mod repositories;
mod sandbox;
mod scope;
mod secrets;
mod serve;
mod sign_in;
mod surroundings;
mod terminals;
mod tricks;
mod trust;
mod verbs;
mod versions;
mod walls;
mod workspaces;
