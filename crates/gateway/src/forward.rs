//! Live answers: a request is checked against the budget, put on record, sent to the provider with the key, and its
//! answer passed on while it comes.

mod again;
mod asked;
mod call;
mod pass_on;
mod reach;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::Timestamp;

use crate::api::Api;
use crate::budget::Reservation;
use crate::connection::{Connection, Next, Refused, Request, json_headers};
use crate::exchange::{Answer, Exchange, Origin, Retried};
pub(crate) use crate::forward::again::is_passing;
use crate::forward::again::{Attempt, Attempts};
use crate::forward::call::Failure;
use crate::http::for_provider;
use crate::meter::Meter;
use crate::options::Options;
use crate::outward::hangs_up_within;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::upstream::Provider;
use crate::usage::{Observed, Usage, unanswered};

/// What stands in place of a status when the program did not wait for one.
const NOBODY_WAITS: u16 = 499;

/// How a request is answered, whatever the answer.
#[derive(Clone, Copy)]
struct Terms {
    /// Whether it is paid for.
    is_metered: bool,
    /// Whether the program may ask again on the same connection.
    keep_alive: bool,
}

/// Answers by asking a provider.
pub(crate) struct Live {
    provider: Provider,
    record: Arc<dyn Record>,
    options: Options,
    last_seq: AtomicU64,
    recorded_bytes: AtomicU64,
}

impl Live {
    pub(crate) fn new(provider: Provider, record: Arc<dyn Record>, options: Options) -> Live {
        Live { provider, record, options, last_seq: AtomicU64::new(0), recorded_bytes: AtomicU64::new(0) }
    }

    pub(crate) fn api(&self) -> Api {
        self.provider.api
    }

    /// What a call is in, where the provider speaks several.
    fn spoken(&self, exchange: &Exchange) -> Api {
        self.api().of_call(&exchange.method, &exchange.path)
    }

    pub(crate) fn hides_its_key(&self) -> bool {
        self.provider.key.is_secret() || self.provider.key.reveal().is_empty()
    }

    /// Answers a request that the API needs, with as many attempts as that takes.
    pub(crate) fn answer(&self, connection: &Connection<'_>, request: Request) -> Next {
        let meter = &connection.gateway.meter;
        let terms = Terms { is_metered: request.route.is_metered(), keep_alive: request.head.keep_alive };
        let mut exchange = self.exchange(request);
        if let Err(refusal) = self.check_reach(&exchange) {
            meter.note(|totals| {
                totals.refused += 1;
                totals.refused_for_network.get_or_insert_with(|| refusal.message.clone());
            });
            return self.answer_ourselves(connection, &mut exchange, refusal, None, terms.keep_alive);
        }
        let mut attempts = Attempts::new(self.options.retries);
        loop {
            let is_wanted = || !connection.gateway.registry.is_stopped();
            let is_first = attempts.made == 1;
            let reserved = terms.is_metered.then(|| self.admit(meter, &mut exchange, is_first, is_wanted)).transpose();
            let reserved = match reserved {
                Ok(reserved) => reserved,
                Err(refusal) => {
                    meter.note(|totals| totals.refused += 1);
                    return self.answer_ourselves(connection, &mut exchange, refusal, None, terms.keep_alive);
                }
            };
            if is_first && !self.keep(meter, &exchange) {
                return Next::Cut;
            }
            meter.note(|totals| totals.calls += 1);
            let attempt = match self.call(connection, &exchange) {
                Ok((head, input)) => self.pass_on(connection, &mut exchange, &attempts, head, input, terms),
                Err(failure) => self.give_up(connection, &mut exchange, &attempts, failure, terms),
            };
            connection.place.reaches_nobody();
            // What was used is on the ledger by now, and nothing is held back from others during a pause.
            drop(reserved);
            let (retried, pause) = match attempt {
                Attempt::Over(next) => return next,
                Attempt::Again(retried, pause) => (retried, pause),
            };
            meter.note(|totals| totals.retries += 1);
            exchange.retries.push(retried);
            attempts.made += 1;
            if hangs_up_within(connection.client.socket(), pause) {
                return self.left_alone(meter, &mut exchange, "the program hung up".to_owned(), None);
            }
        }
    }

    /// Answers a request that is not forwarded.
    pub(crate) fn refuse(&self, connection: &Connection<'_>, refused: Refused) -> Next {
        let mut exchange = Exchange {
            seq: self.next_seq(),
            started: now(),
            method: refused.method,
            path: refused.target,
            model: None,
            request_headers: for_provider(&refused.headers),
            request_body: Vec::new(),
            retries: Vec::new(),
            answer: None,
        };
        self.answer_ourselves(connection, &mut exchange, refused.refusal, None, !refused.must_close)
    }

    fn exchange(&self, request: Request) -> Exchange {
        Exchange {
            seq: self.next_seq(),
            started: now(),
            path: format!("{}{}", request.head.path, request.head.query),
            method: request.head.method,
            model: request.route.model().map(str::to_owned),
            request_headers: for_provider(&request.head.headers),
            request_body: request.body,
            retries: Vec::new(),
            answer: None,
        }
    }

    fn check_reach(&self, exchange: &Exchange) -> Result<(), Refusal> {
        match self.options.network {
            true => Ok(()),
            false => reach::check(self.spoken(exchange), &exchange.request_headers, &exchange.request_body),
        }
    }

    /// Lets a call through that can be counted and that the budget allows.
    fn admit<'m>(
        &self,
        meter: &'m Meter,
        exchange: &mut Exchange,
        is_first: bool,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Reservation<'m>, Refusal> {
        let asked = asked::read(&exchange.request_body)?;
        let most = Observed { model: None, usage: asked.most(exchange.request_body.len()) };
        // Where the path names the model, that is the one that is called.
        exchange.model = exchange.model.take().or(asked.model);
        let (prices, model) = (&self.options.prices, exchange.model.as_deref());
        // Others may fail meanwhile: whether to make a call again is decided by its own attempts.
        let failures_max = if is_first { self.options.limits.failures } else { u32::MAX };
        meter.admit(prices, model, &most.priced(prices, model), failures_max, is_wanted)
    }

    /// The provider gave no usable answer.
    fn give_up(
        &self,
        connection: &Connection<'_>,
        exchange: &mut Exchange,
        attempts: &Attempts,
        failure: Failure,
        terms: Terms,
    ) -> Attempt {
        // The provider may have worked, and will not say how much.
        let usage = (terms.is_metered && failure.may_have_cost).then(|| {
            let observed = Observed { model: None, usage: unanswered(exchange.request_body.len()) };
            observed.priced(&self.options.prices, exchange.model.as_deref())
        });
        let meter = &connection.gateway.meter;
        usage.iter().for_each(|usage| meter.add(usage));
        let Refusal { status, message } = failure.refusal;
        if !failure.is_waited_for {
            return Attempt::Over(self.left_alone(meter, exchange, message, usage));
        }
        if let Some(pause) = attempts.pause(None).filter(|_| failure.is_passing) {
            return Attempt::Again(retried(status, Some(message), usage, pause), pause);
        }
        meter.answered(terms.is_metered, Some((status, None)), attempts.made);
        let refusal = Refusal { status, message };
        Attempt::Over(self.answer_ourselves(connection, exchange, refusal, usage, terms.keep_alive))
    }

    /// Records that nobody waited for the answer.
    fn left_alone(&self, meter: &Meter, exchange: &mut Exchange, problem: String, usage: Option<Usage>) -> Next {
        exchange.answer = Some(Answer {
            ended: now(),
            from: Origin::Norma,
            status: NOBODY_WAITS,
            headers: Vec::new(),
            body: Vec::new(),
            complete: false,
            problem: Some(problem),
            model: None,
            usage,
        });
        self.keep(meter, exchange);
        Next::Cut
    }

    /// Records an answer of norma's own and gives it.
    fn answer_ourselves(
        &self,
        connection: &Connection<'_>,
        exchange: &mut Exchange,
        refusal: Refusal,
        usage: Option<Usage>,
        keep_alive: bool,
    ) -> Next {
        let headers = json_headers();
        let body = self.api().error_body(refusal.status, &refusal.message);
        exchange.answer = Some(Answer {
            ended: now(),
            from: Origin::Norma,
            status: refusal.status,
            headers: headers.clone(),
            body: body.clone(),
            complete: true,
            problem: Some(refusal.message),
            model: None,
            usage,
        });
        if !self.keep(&connection.gateway.meter, exchange) {
            return Next::Cut;
        }
        match connection.client.respond(refusal.status, &headers, &body, keep_alive) {
            Ok(()) if keep_alive => Next::Request,
            Ok(()) => Next::Close,
            Err(_) => Next::Cut,
        }
    }

    /// Puts an exchange on record. Once that failed, nothing continues.
    fn keep(&self, meter: &Meter, exchange: &Exchange) -> bool {
        if meter.totals().record_failed {
            return false;
        }
        let more = exchange.newest_bytes();
        let bytes = self.recorded_bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let kept = bytes <= self.options.limits.recorded_bytes && self.record.exchange(exchange).is_ok();
        if !kept {
            meter.note(|totals| totals.record_failed = true);
        }
        kept
    }

    fn next_seq(&self) -> u64 {
        self.last_seq.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn retried(status: u16, problem: Option<String>, usage: Option<Usage>, pause: Duration) -> Retried {
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    Retried { ended: now(), status, problem, pause_ms, usage }
}

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}
