//! PAYS. norma's model gateway: an agent's program speaks plain HTTP to it from inside its sandbox, and it speaks
//! TLS to the provider from outside. It is the only part of norma that holds a provider's key.
//!
//! - The key is added out here and never goes in, not even when an answer repeats it.
//! - Every exchange is on record: the request before it is forwarded, the answer before its end is told.
//! - Tokens and cost are counted where they arise, and a used up budget ends calls before they are made.
//! - Recorded answers can be served again in place of the provider's, to the same program.
//!
//! An agent's program is told the gateway's address where it expects its provider's, with any placeholder for a key:
//!
//! | program | setting | value |
//! |---|---|---|
//! | codex | `model_providers.X.base_url` | `http://127.0.0.1:PORT` |
//! | claude | `ANTHROPIC_BASE_URL` | `http://127.0.0.1:PORT` |
//! | gemini | `GOOGLE_GEMINI_BASE_URL` | `http://127.0.0.1:PORT` |
//! | opencode | `provider.X.options.baseURL` | `http://127.0.0.1:PORT` |
//!
//! What it asks for is put behind [`Upstream::base_url`].
//!
//! All of it is blocking: one thread serves one connection, and the one who accepts brings it.

mod api;
mod budget;
mod connection;
pub mod e2b;
mod exchange;
mod forward;
mod gateway;
mod http;
mod key;
mod meter;
pub mod opencode;
mod options;
mod outward;
mod price;
mod record;
mod redact;
mod refusal;
mod registry;
mod replay;
mod route;
mod service;
mod upstream;
mod usage;

pub use api::Api;
pub use budget::{Amount, Budget, Ledger};
pub use exchange::{Answer, Exchange, ExchangeProblem, Origin, Retried};
pub use gateway::Gateway;
pub use key::{Key, KeyProblem};
pub use meter::{Matched, Totals};
pub use options::{Limits, Options, Patience, Retries};
pub use price::{LongInput, Price, Prices};
pub use record::Record;
pub use service::{ServiceProblem, Until, Way};
pub use upstream::{Upstream, UpstreamProblem};
pub use usage::Usage;
