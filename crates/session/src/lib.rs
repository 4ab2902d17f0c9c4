//! TALKS: how each agent's command line is started, what it says and what it is told.
//!
//! There are four command lines (`codex`, `claude`, `gemini`, `opencode`) and any other that speaks the Agent Client
//! Protocol, each with a protocol of its own, some with two. Here they become one: [`launch`] says how a program is
//! started for a [`Brief`], and a [`Session`] turns each line it writes into [`Act`]s: what to say to it, what to tell
//! the log, what to ask a person or a policy. Nothing here starts a process, opens a file, has a clock or waits; the
//! runner does all of that, so that every protocol can be tested line by line and replayed from a recording.
//!
//! An agent is not believed and cannot do harm from here: a line may be any bytes, what a session remembers is
//! bounded whatever the agent says ([`limits`]), and what a role has no right to is denied without asking anyone.

mod acp;
mod brief;
mod calls;
mod cause;
mod claude;
mod codex;
mod launch;
pub mod limits;
mod node_tools;
mod notes;
mod oneshot;
mod open;
mod provider;
mod rpc;
mod session;
mod sign_in;
mod strict;
#[cfg(test)]
mod testing;
mod tool;
mod trouble;
mod turns;
mod wire;

pub use brief::{Brief, Kind, Mode, Rights};
pub use cause::cause;
pub use contract::work::ShellRight;
pub use launch::{Launch, ModelPlace, Protocol, launch};
pub use node_tools::{NODE_TOOLS, Reply, ToolServer, answer as answer_node, is_node_tool};
pub use provider::{
    KeyPlace, addresses, conversations, hosts, install, is_key, keys, program, resumes_in_session,
    resumes_when_cut_off, sign_in, sign_in_files,
};
pub use session::{Act, Answered, Exit, Outcome, Session};
pub use sign_in::check_renewed;
pub use trouble::provider_error;
