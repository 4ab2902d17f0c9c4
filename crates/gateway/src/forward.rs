//! Live answers: a request is checked against the budget, put on record, sent to the provider with the key, and its
//! answer passed on while it comes.

mod asked;
mod call;
mod pass_on;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use contract::Timestamp;

use crate::api::Api;
use crate::budget::Reservation;
use crate::connection::{Connection, Next, Refused, Request, json_headers};
use crate::exchange::{Answer, Exchange, Origin};
use crate::forward::call::Failure;
use crate::http::for_provider;
use crate::meter::Meter;
use crate::options::Options;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::upstream::Provider;
use crate::usage::{Observed, Usage, unanswered};

/// What stands in place of a status when the program did not wait for one.
const NOBODY_WAITS: u16 = 499;

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

    /// Answers a request that the API needs.
    pub(crate) fn answer(&self, connection: &Connection<'_>, request: Request) -> Next {
        let meter = &connection.gateway.meter;
        let keep_alive = request.head.keep_alive;
        let is_metered = request.route.is_metered();
        let mut exchange = self.exchange(request);
        let is_wanted = || !connection.gateway.registry.is_stopped();
        let reserved = match is_metered.then(|| self.admit(meter, &mut exchange, is_wanted)).transpose() {
            Ok(reserved) => reserved,
            Err(refusal) => {
                meter.note(|totals| totals.refused += 1);
                return self.answer_ourselves(connection, exchange, refusal, None, keep_alive);
            }
        };
        if !self.keep(meter, &exchange) {
            return Next::Cut;
        }
        meter.note(|totals| totals.calls += 1);
        let next = match self.call(connection, &exchange) {
            Ok((head, input)) => self.pass_on(connection, exchange, head, input, is_metered, keep_alive),
            Err(failure) => self.give_up(connection, exchange, failure, is_metered, keep_alive),
        };
        connection.place.reaches_nobody();
        // What was used is on the ledger by now.
        drop(reserved);
        next
    }

    /// Answers a request that is not forwarded.
    pub(crate) fn refuse(&self, connection: &Connection<'_>, refused: Refused) -> Next {
        let exchange = Exchange {
            seq: self.next_seq(),
            started: now(),
            method: refused.method,
            path: refused.target,
            model: None,
            request_headers: for_provider(&refused.headers),
            request_body: Vec::new(),
            answer: None,
        };
        self.answer_ourselves(connection, exchange, refused.refusal, None, !refused.must_close)
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
            answer: None,
        }
    }

    /// Lets a call through that can be counted and that the budget allows.
    fn admit<'m>(
        &self,
        meter: &'m Meter,
        exchange: &mut Exchange,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Reservation<'m>, Refusal> {
        let asked = asked::read(&exchange.request_body)?;
        let most = Observed { model: None, usage: asked.most(exchange.request_body.len()) };
        // Where the path names the model, that is the one that is called.
        exchange.model = exchange.model.take().or(asked.model);
        let (prices, model) = (&self.options.prices, exchange.model.as_deref());
        meter.admit(prices, model, &most.priced(prices, model), self.options.limits.failures, is_wanted)
    }

    /// The provider gave no usable answer.
    fn give_up(
        &self,
        connection: &Connection<'_>,
        mut exchange: Exchange,
        failure: Failure,
        is_metered: bool,
        keep_alive: bool,
    ) -> Next {
        // The provider may have worked, and will not say how much.
        let usage = (is_metered && failure.may_have_cost).then(|| {
            let observed = Observed { model: None, usage: unanswered(exchange.request_body.len()) };
            observed.priced(&self.options.prices, exchange.model.as_deref())
        });
        let meter = &connection.gateway.meter;
        usage.iter().for_each(|usage| meter.add(usage));
        if !failure.is_waited_for {
            exchange.answer = Some(Answer {
                ended: now(),
                from: Origin::Norma,
                status: NOBODY_WAITS,
                headers: Vec::new(),
                body: Vec::new(),
                complete: false,
                problem: Some(failure.refusal.message),
                model: None,
                usage,
            });
            self.keep(meter, &exchange);
            return Next::Cut;
        }
        meter.answered(is_metered, Some((failure.refusal.status, None)));
        self.answer_ourselves(connection, exchange, failure.refusal, usage, keep_alive)
    }

    /// Records an answer of norma's own and gives it.
    fn answer_ourselves(
        &self,
        connection: &Connection<'_>,
        mut exchange: Exchange,
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
        if !self.keep(&connection.gateway.meter, &exchange) {
            return Next::Cut;
        }
        match connection.client.respond(refusal.status, &headers, &body, keep_alive) {
            Ok(()) if keep_alive => Next::Request,
            Ok(()) => Next::Close,
            Err(_) => Next::Cut,
        }
    }

    /// Puts an exchange on record. Once that failed, nothing goes on.
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

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}
