//! A model that does what a script says, behind the interfaces that agents speak to real models, so that the real
//! agent programs can be tested without a network, a key or chance.
//!
//! One port on the loopback serves four interfaces: OpenAI's Responses and chat completions, Gemini's
//! `streamGenerateContent` and Anthropic's Messages. A script is a list of abstract [`Step`]s ("write this file", "run
//! this command", "answer 429"); each is put in terms of the tools that the request itself offers, so one script drives
//! every agent.
//!
//! The server keeps nothing between requests. Agents resend the whole conversation each time, so a marker in the prompt
//! ([`script::NAMED`] or [`script::INLINE`]) selects the script and the tool calls made since then select the step. Any
//! number of agents may talk to one server at once.

pub mod agents;
mod answer;
mod api;
mod asked;
pub mod home;
mod http;
mod place;
mod record;
pub mod script;
mod server;
mod tools;

pub use api::Api;
pub use script::{Play, Script, Scripts, Step};
pub use server::{Options, Server};
