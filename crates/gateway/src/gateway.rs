//! The gateway as its users see it.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::api::Api;
use crate::budget::Ledger;
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::forward::Live;
use crate::meter::{Meter, Totals};
use crate::options::{Limits, Options};
use crate::record::Record;
use crate::registry::Registry;
use crate::replay::Recordings;
use crate::route::{self, Route};
use crate::upstream::{Provider, Upstream, UpstreamProblem};

/// Stands between an agent's program and its provider, for one turn or many. Shared by the threads that serve.
pub struct Gateway {
    pub(crate) mode: Mode,
    pub(crate) meter: Meter,
    pub(crate) registry: Registry,
    pub(crate) limits: Limits,
    /// How long a program may take in the middle of something.
    pub(crate) client_patience: Duration,
}

/// Where answers come from.
pub(crate) enum Mode {
    Live(Box<Live>),
    Replay(Recordings),
}

impl Gateway {
    /// Forwards to a provider, paid from a ledger that others may share.
    pub fn live(upstream: Upstream, ledger: Arc<Ledger>, record: Arc<dyn Record>) -> Result<Gateway, UpstreamProblem> {
        Gateway::live_with(upstream, ledger, record, Options::default())
    }

    /// Forwards to a provider, with other sizes, times or prices.
    pub fn live_with(
        upstream: Upstream,
        ledger: Arc<Ledger>,
        record: Arc<dyn Record>,
        options: Options,
    ) -> Result<Gateway, UpstreamProblem> {
        let (limits, client_patience) = (options.limits, options.patience.client);
        let live = Live::new(Provider::new(upstream)?, record, options);
        Ok(Gateway {
            mode: Mode::Live(Box::new(live)),
            meter: Meter::new(ledger),
            registry: Registry::default(),
            limits,
            client_patience,
        })
    }

    /// Serves recorded answers. It has no provider, so nothing goes out.
    pub fn replay(exchanges: impl Iterator<Item = Exchange>) -> Gateway {
        let options = Options::default();
        Gateway {
            mode: Mode::Replay(Recordings::new(exchanges)),
            meter: Meter::new(Arc::default()),
            registry: Registry::default(),
            limits: options.limits,
            client_patience: options.patience.client,
        }
    }

    /// Serves one connection, request after request, and returns when it is over. Whoever accepts calls this on a
    /// thread of its own.
    pub fn serve(&self, client: TcpStream) {
        Connection::serve(self, client);
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        self.meter.totals()
    }

    /// Whether the key is one that is taken out of whatever comes back, or there is none. A word of a few letters is not: it
    /// is in many answers.
    pub fn hides_its_key(&self) -> bool {
        match &self.mode {
            Mode::Live(live) => live.hides_its_key(),
            Mode::Replay(_) => true,
        }
    }

    /// Hangs up all connections on both sides, at once, and waits until every [`Gateway::serve`] has recorded what
    /// it was doing and returned. Later connections are closed. Not to be called by a [`Record`].
    pub fn stop(&self) {
        self.registry.stop();
    }

    /// Whether such a call is answered.
    pub(crate) fn needs(&self, route: &Route) -> bool {
        match &self.mode {
            Mode::Live(live) => live.api().needs(route),
            Mode::Replay(_) => true,
        }
    }

    /// The API in whose form an error is worded.
    pub(crate) fn api_of(&self, method: &str, path: &str) -> Api {
        match &self.mode {
            Mode::Live(live) => live.api(),
            Mode::Replay(_) => route::api_of(method, path),
        }
    }
}
