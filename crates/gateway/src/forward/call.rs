//! The call itself: connect, send the request with the key, wait for the answer to begin.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::forward::Live;
use crate::http::{Input, ResponseHead, request_bytes};
use crate::outward::{Waiting, Wire, connect, has_hung_up};
use crate::refusal::Refusal;

/// A call that brought no usable answer.
pub(super) struct Failure {
    /// What the program is told.
    pub(super) refusal: Refusal,
    /// Whether the program still waits for an answer.
    pub(super) is_waited_for: bool,
    /// Whether the provider may have done what was asked.
    pub(super) may_have_cost: bool,
    /// Whether another attempt may bring more.
    pub(super) is_passing: bool,
}

impl Live {
    /// Sends a request and reads the head of its answer.
    pub(super) fn call(
        &self,
        connection: &Connection<'_>,
        exchange: &Exchange,
    ) -> Result<(ResponseHead, Input<Wire>), Failure> {
        let mut wire = self.connect(connection).map_err(|problem| failure(connection, &problem, false))?;
        let patience = &self.options.patience;
        wire.patience = patience.idle;
        let sent = wire.write_all(&self.request(exchange)).and_then(|()| wire.flush());
        sent.map_err(|problem| failure(connection, &problem, false))?;
        wire.patience = patience.first_byte;
        let mut input = Input::new(wire);
        let head = ResponseHead::read(&mut input, self.options.limits.head_bytes);
        let head = head.map_err(|problem| failure(connection, &problem, true))?;
        if let Some(why) = unusable(head.status) {
            let refusal = Refusal::bad_gateway(&why);
            return Err(Failure { refusal, is_waited_for: true, may_have_cost: false, is_passing: false });
        }
        input.source().patience = patience.idle;
        Ok((head, input))
    }

    fn connect(&self, connection: &Connection<'_>) -> io::Result<Wire> {
        let endpoint = &self.provider.endpoint;
        let client = connection.client.socket();
        let deadline = Instant::now() + self.options.patience.connect;
        let wanted = || !connection.place.is_stopped() && !has_hung_up(client);
        let proxy = self.provider.proxy.as_ref();
        let socket = connect(proxy.map_or(endpoint, |proxy| &proxy.endpoint), deadline, wanted)?;
        proxy.map_or(Ok(()), |proxy| proxy.tunnel(&socket, endpoint, deadline))?;
        let socket = Arc::new(socket);
        connection.place.reaches(&socket);
        let tls = self.provider.tls.as_ref().map(|config| (config, endpoint.host.as_str()));
        Wire::new(socket, Waiting::Program(client.clone()), tls, deadline)
    }

    /// The bytes that go out, the only ones with the key in them.
    fn request(&self, exchange: &Exchange) -> Vec<u8> {
        let endpoint = &self.provider.endpoint;
        let mut headers = vec![("host".to_owned(), endpoint.authority.clone())];
        let key = self.provider.key.reveal();
        if !key.is_empty() {
            let (name, before) = self.provider.api.key_header(&self.provider.key);
            headers.push((name.to_owned(), format!("{before}{key}")));
        }
        headers.extend(exchange.request_headers.iter().cloned());
        let target = format!("{}{}", endpoint.path, exchange.path);
        request_bytes(&exchange.method, &target, &headers, &exchange.request_body)
    }
}

/// Why an answer is not passed on. Following a redirect could carry the key elsewhere, and so could the program if it
/// was told; and no call that is forwarded has an answer without a body.
fn unusable(status: u16) -> Option<String> {
    match status {
        300..=399 => Some(format!("the provider answered with a redirect ({status}), which is not followed")),
        204 | 205 => Some(format!("the provider answered with nothing ({status})")),
        _ => None,
    }
}

fn failure(connection: &Connection<'_>, problem: &io::Error, may_have_cost: bool) -> Failure {
    let (status, is_waited_for) = match problem.kind() {
        _ if connection.place.is_stopped() => (502, false),
        io::ErrorKind::ConnectionAborted => (502, false),
        io::ErrorKind::TimedOut => (504, true),
        _ => (502, true),
    };
    let why = super::pass_on::in_words(connection, problem);
    // What is no HTTP, or no TLS that can be believed, will be none the next time.
    let is_passing = is_waited_for && problem.kind() != io::ErrorKind::InvalidData;
    Failure { refusal: Refusal::new(status, why), is_waited_for, may_have_cost, is_passing }
}
