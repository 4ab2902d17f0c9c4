//! The way out: a connection to the provider that can be given up at any time, because the program inside hung up,
//! the gateway was stopped, or the provider took too long.

mod connect;
pub(crate) mod proxy;
pub(crate) mod tls;
mod wire;

pub(crate) use connect::connect;
pub(crate) use proxy::Proxy;
pub(crate) use wire::{Waiting, Wire, hangs_up_within, has_hung_up};
