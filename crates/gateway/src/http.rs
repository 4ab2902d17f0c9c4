//! HTTP/1.1 as far as a gateway needs it, strict on both sides. Heads are parsed by `httparse`; what is here is how
//! long they and bodies are, and what may be in them.

mod body;
mod head;
mod headers;
mod input;
mod request;
mod response;
mod send;

pub(crate) use body::{Body, Framing};
pub(crate) use headers::{Headers, for_client, for_provider, value};
pub(crate) use input::Input;
pub(crate) use request::{Checked, HeadProblem, RequestHead};
pub(crate) use response::ResponseHead;
pub(crate) use send::{Client, request_bytes};
