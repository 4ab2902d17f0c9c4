//! Passing an answer on while it comes, with a copy for the record.

use std::io;

use crate::connection::{Connection, Next};
use crate::exchange::{Answer, Exchange, Origin};
use crate::forward::{Live, now};
use crate::http::{Body, Headers, Input, ResponseHead, for_client, value};
use crate::outward::Wire;
use crate::redact::{Redactor, redacted};
use crate::usage::Observer;

/// The status that an answer comes to that the provider did not bring to its end.
const BROKE_OFF: u16 = 502;

/// An answer that is being passed on.
struct Passing<'a> {
    connection: &'a Connection<'a>,
    redactor: Redactor<'a>,
    observer: Observer,
    /// What was passed on so far.
    body: Vec<u8>,
    bytes_max: usize,
}

impl Live {
    /// Passes an answer on, counts it and records it. The program learns that the answer is complete only after it
    /// is on record.
    pub(super) fn pass_on(
        &self,
        connection: &Connection<'_>,
        mut exchange: Exchange,
        head: ResponseHead,
        mut input: Input<Wire>,
        is_metered: bool,
        keep_alive: bool,
    ) -> Next {
        let key = self.provider.key.reveal();
        let clean = |(name, value): (String, String)| (name, redacted(&value, key));
        let headers: Headers = for_client(&head.headers).into_iter().map(clean).collect();
        let mut passing = Passing {
            connection,
            observer: Observer::new(self.api(), value(&headers, "content-type")),
            redactor: Redactor::new(key),
            body: Vec::new(),
            bytes_max: self.options.limits.body_bytes,
        };
        let begun = connection.client.begin(head.status, &headers, keep_alive).map_err(|_| hung_up());
        let passed = begun.and_then(|()| passing.all(Body::new(head.framing), &mut input));
        let broke_off = passed.as_ref().is_err_and(|problem| problem.kind() != io::ErrorKind::ConnectionAborted);
        // The end of a connection that norma itself hung up is not the end of an answer.
        let stopped = connection.place.is_stopped().then(|| "the gateway was stopped".to_owned());
        let problem = stopped.or(passed.err().map(|problem| in_words(connection, &problem)));
        let Passing { observer, body, .. } = passing;
        let observed = observer.end(&body, exchange.request_body.len());
        let is_good = (200..300).contains(&head.status);
        let usage = (is_good && is_metered).then(|| observed.priced(&self.options.prices, exchange.model.as_deref()));
        let meter = &connection.gateway.meter;
        usage.iter().for_each(|usage| meter.add(usage));
        let complete = problem.is_none();
        let broke_off = broke_off && !connection.place.is_stopped();
        meter.answered(is_metered, if broke_off { Some((BROKE_OFF, None)) } else { error(&head, &body) });
        exchange.answer = Some(Answer {
            ended: now(),
            from: Origin::Provider,
            status: head.status,
            headers,
            body,
            complete,
            problem,
            model: observed.model,
            usage,
        });
        let kept = self.keep(meter, &exchange);
        if !(kept && complete && connection.client.finish().is_ok()) {
            return Next::Cut;
        }
        if keep_alive { Next::Request } else { Next::Close }
    }
}

impl Passing<'_> {
    fn all(&mut self, mut body: Body, input: &mut Input<Wire>) -> io::Result<()> {
        while let Some(piece) = body.piece(input)? {
            let clean = self.redactor.piece(&piece);
            self.piece(&clean)?;
        }
        let rest = self.redactor.end();
        self.piece(&rest)
    }

    fn piece(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.body.len() + piece.len() > self.bytes_max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answer is too long to be recorded"));
        }
        self.observer.piece(piece);
        self.connection.client.piece(piece).map_err(|_| hung_up())?;
        self.body.extend_from_slice(piece);
        Ok(())
    }
}

/// The provider's last word on whether it works, and when to ask again.
fn error(head: &ResponseHead, body: &[u8]) -> Option<(u16, Option<u64>)> {
    let seconds = || value(&head.headers, "retry-after").and_then(|seconds| seconds.trim().parse().ok());
    (head.status >= 400).then(|| (head.status, seconds().or_else(|| delay_in(body))))
}

/// Gemini says it in the body, as `"retryDelay": "17.5s"` among the details; rounded up.
fn delay_in(body: &[u8]) -> Option<u64> {
    let error: serde_json::Value = serde_json::from_slice(body).ok()?;
    let delays = error["error"]["details"].as_array()?.iter().filter_map(|detail| detail["retryDelay"].as_str());
    let seconds = delays.filter_map(|delay| delay.strip_suffix('s')?.parse::<f64>().ok()).next()?;
    Some(seconds.ceil() as u64)
}

fn hung_up() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

/// What ended a call. The words are norma's own, so nothing of the provider's gets in that should not.
pub(super) fn in_words(connection: &Connection<'_>, problem: &io::Error) -> String {
    if connection.place.is_stopped() {
        return "the gateway was stopped".to_owned();
    }
    match problem.kind() {
        io::ErrorKind::ConnectionAborted => "the program hung up".to_owned(),
        io::ErrorKind::TimedOut => "the provider did not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "the provider hung up in the middle".to_owned(),
        io::ErrorKind::FileTooLarge => "the answer is too long to be recorded".to_owned(),
        _ => match problem.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => format!("TLS with the provider failed: {tls}"),
            None if problem.kind() == io::ErrorKind::InvalidData => "the provider's answer is not HTTP".to_owned(),
            None => format!("the connection to the provider failed: {}", problem.kind()),
        },
    }
}
