//! Passing an answer on while it comes, with a copy for the record.

use std::io;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Next};
use crate::exchange::{Answer, Exchange, Origin};
use crate::forward::again::{Attempt, Attempts, is_passing};
use crate::forward::{Live, Terms, now, retried};
use crate::http::{Body, Headers, Input, ResponseHead, for_client, value};
use crate::outward::Wire;
use crate::redact::{Redactor, redacted};
use crate::usage::Observer;

/// The status of an answer that the provider cut off.
const BROKE_OFF: u16 = 502;

/// Bytes of an answer that are held back at most, while it says nothing yet or says that the provider failed.
const HELD_BYTES_MAX: usize = 256 * 1024;

/// How long: a program must not take an answer that is being thought about for none.
const HELD_MAX: Duration = Duration::from_secs(30);

/// An answer that is being passed on. Its beginning is held back until it says something: until then it can be asked for
/// again, and the program never gets two beginnings.
struct Passing<'a> {
    connection: &'a Connection<'a>,
    redactor: Redactor<'a>,
    observer: Observer,
    /// What came so far.
    body: Vec<u8>,
    bytes_max: usize,
    status: u16,
    headers: Headers,
    keep_alive: bool,
    since: Instant,
    /// Whether the program has got what came so far.
    is_begun: bool,
}

impl Live {
    /// Passes an answer on, counts it and records it. The program learns that the answer is complete only after it
    /// is on record.
    pub(super) fn pass_on(
        &self,
        connection: &Connection<'_>,
        exchange: &mut Exchange,
        attempts: &Attempts,
        head: ResponseHead,
        mut input: Input<Wire>,
        terms: Terms,
    ) -> Attempt {
        let key = self.provider.key.secret();
        let clean = |(name, value): (String, String)| (name, redacted(&value, key));
        let headers: Headers = for_client(&head.headers).into_iter().map(clean).collect();
        let mut passing = Passing {
            connection,
            observer: Observer::new(self.spoken(exchange), value(&headers, "content-type")),
            redactor: Redactor::new(key),
            body: Vec::new(),
            bytes_max: self.options.limits.body_bytes,
            status: head.status,
            headers,
            keep_alive: terms.keep_alive,
            since: Instant::now(),
            is_begun: false,
        };
        let mut passed = passing.all(Body::new(head.framing), &mut input);
        let broke_off = passed.as_ref().is_err_and(broke_off) && !connection.place.is_stopped();
        let error = if broke_off { Some((BROKE_OFF, None)) } else { error(&head, &passing.body) };
        let failed = error.filter(|(status, _)| !passing.is_begun && is_passing(*status));
        let pause = failed.and_then(|(_, asked)| attempts.pause(asked)).filter(|_| !connection.place.is_stopped());
        if pause.is_none() {
            passed = passing.begin().and(passed);
        }
        // The end of a connection that norma itself hung up is not the end of an answer.
        let stopped = connection.place.is_stopped().then(|| "the gateway was stopped".to_owned());
        let problem = stopped.or(passed.err().map(|problem| in_words(connection, &problem)));
        let Passing { observer, body, headers, .. } = passing;
        let observed = observer.end(&body, exchange.request_body.len());
        let is_paid = (200..300).contains(&head.status) && terms.is_metered;
        let usage = is_paid.then(|| observed.priced(&self.options.prices, exchange.model.as_deref()));
        let meter = &connection.gateway.meter;
        usage.iter().for_each(|usage| meter.add(usage));
        if let Some(pause) = pause {
            return Attempt::Again(
                retried(error.map_or(BROKE_OFF, |(status, _)| status), problem, usage, pause),
                pause,
            );
        }
        meter.answered(terms.is_metered, error, attempts.made);
        let complete = problem.is_none();
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
        let kept = self.keep(meter, exchange);
        if !(kept && complete && connection.client.finish().is_ok()) {
            return Attempt::Over(Next::Cut);
        }
        Attempt::Over(if terms.keep_alive { Next::Request } else { Next::Close })
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
        self.body.extend_from_slice(piece);
        if self.is_begun {
            return self.connection.client.piece(piece).map_err(|_| hung_up());
        }
        let may_be_asked_for_again = is_passing(self.status) || !self.observer.has_said_something();
        let is_short = self.body.len() <= HELD_BYTES_MAX && self.since.elapsed() <= HELD_MAX;
        if may_be_asked_for_again && is_short { Ok(()) } else { self.begin() }
    }

    /// Gives the program what was held back.
    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let client = &self.connection.client;
        client.begin(self.status, &self.headers, self.keep_alive).map_err(|_| hung_up())?;
        client.piece(&self.body).map_err(|_| hung_up())
    }
}

/// Whether it was the provider that did not bring an answer to its end.
fn broke_off(problem: &io::Error) -> bool {
    problem.kind() != io::ErrorKind::ConnectionAborted
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
            None => match problem.get_ref() {
                // What a proxy said, in norma's words.
                Some(said) if problem.kind() == io::ErrorKind::Other => said.to_string(),
                _ => format!("the connection to the provider failed: {}", problem.kind()),
            },
        },
    }
}
