//! A service that norma itself calls over HTTP: one that has machines to run things on, or a compiler that listens on this
//! machine. One connection a call; a call ends when its time is over, or when whoever asked gives up.

use std::fmt;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::http::{Body, Headers, Input, ResponseHead, request_bytes, value};
use crate::key::Key;
use crate::outward::proxy::is_exempt;
use crate::outward::{Proxy, Waiting, Wire, connect, tls};
use crate::upstream::{Endpoint, UpstreamProblem};

/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Bytes of an answer that is only quoted.
const QUOTED_BYTES_MAX: usize = 16 << 10;

/// Characters of an answer that are quoted.
const QUOTED_CHARS_MAX: usize = 300;

/// How long connecting may take, whatever else is left.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// How often a call is made that the service could not serve for the moment.
const ATTEMPTS: u32 = 3;

/// The pause before another attempt if the service says nothing, and the longest that it may ask for.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// The way to a service, besides its address.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Certificates in PEM form that are trusted besides the public ones.
    pub extra_roots_pem: Option<String>,
    /// A proxy that is asked for a tunnel.
    pub proxy: Option<String>,
    /// Hosts that are reached without it.
    pub no_proxy: Option<String>,
}

/// How long an answer is waited for.
#[derive(Clone)]
pub struct Until {
    /// From then on it is too late.
    pub deadline: Instant,
    /// Becomes readable when nobody wants it any more.
    pub stop: Arc<OwnedFd>,
}

impl Until {
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn waiting(&self) -> Waiting {
        Waiting::Norma(self.stop.clone())
    }
}

/// Why a service did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceProblem {
    /// It cannot be asked as it is configured.
    #[error("{0}")]
    Settings(String),
    /// It could not be reached, or the connection broke.
    #[error("the service at {0} could not be reached: {1}")]
    Unreachable(String, String),
    /// It said no.
    #[error("the service answered {status} to {what}{said}")]
    Refused {
        /// What it was asked.
        what: String,
        /// The status of its answer.
        status: u16,
        /// What else it said, after a colon.
        said: String,
    },
    /// What it said is not what such a service says.
    #[error("the service's answer to {0} makes no sense: {1}")]
    Senseless(String, String),
    /// It took too long.
    #[error("the service took too long to answer {0}")]
    TimedOut(String),
    /// Nobody waits any more.
    #[error("canceled")]
    Canceled,
}

impl ServiceProblem {
    pub(crate) fn senseless(what: &str, why: impl fmt::Display) -> ServiceProblem {
        ServiceProblem::Senseless(what.to_owned(), why.to_string())
    }
}

/// One call.
pub(crate) struct Call<'c> {
    pub(crate) method: &'static str,
    /// Below the service's own path, with its query.
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: &'c [u8],
}

impl Call<'_> {
    /// Method and path, for people: a query may hold anything.
    fn shown(&self) -> String {
        format!("{} {}", self.method, self.target.split('?').next().unwrap_or_default())
    }
}

/// An answer whose body is still to come.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Headers,
    input: Input<Wire>,
    body: Body,
    until: Until,
    what: String,
}

/// A service.
#[derive(Clone)]
pub(crate) struct Service {
    endpoint: Endpoint,
    tls: Option<Arc<ClientConfig>>,
    proxy: Option<Proxy>,
    /// What must not be repeated to anybody.
    secret: Key,
}

impl Service {
    pub(crate) fn new(url: &str, way: &Way, secret: Key) -> Result<Service, ServiceProblem> {
        let settings = |problem: UpstreamProblem| ServiceProblem::Settings(problem.to_string());
        let endpoint = Endpoint::of(url).map_err(settings)?;
        let config = tls::config(way.extra_roots_pem.as_deref()).map_err(settings)?;
        let proxied = endpoint.is_tls && !is_exempt(&endpoint.host, way.no_proxy.as_deref().unwrap_or_default());
        let proxy = way.proxy.as_deref().filter(|_| proxied).map(Proxy::of).transpose().map_err(settings)?;
        let tls = endpoint.is_tls.then_some(config);
        Ok(Service { endpoint, tls, proxy, secret })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Makes a call; again, if the service could not serve it for the moment.
    pub(crate) fn call(&self, call: &Call<'_>, until: &Until) -> Result<Answer, ServiceProblem> {
        for _ in 1..ATTEMPTS {
            let answer = self.call_once(call, until)?;
            if !matches!(answer.status, 429 | 502 | 503 | 504) {
                return Ok(answer);
            }
            let asked = value(&answer.headers, "retry-after").and_then(|text| text.trim().parse().ok());
            let pause = asked.map_or(PAUSE, Duration::from_secs);
            if pause > PAUSE_MAX || pause >= until.left() {
                return Ok(answer);
            }
            if until.waiting().ends_within(pause) {
                return Err(ServiceProblem::Canceled);
            }
        }
        self.call_once(call, until)
    }

    /// Makes a call whose answer must have this status, and reads all of it.
    pub(crate) fn ask(
        &self,
        call: &Call<'_>,
        status: &[u16],
        bytes_max: usize,
        until: &Until,
    ) -> Result<Vec<u8>, ServiceProblem> {
        let answer = self.call(call, until)?;
        if status.contains(&answer.status) { answer.whole(bytes_max) } else { Err(self.refused(answer)) }
    }

    /// What a service that said no said.
    pub(crate) fn refused(&self, answer: Answer) -> ServiceProblem {
        let (status, what) = (answer.status, answer.what.clone());
        let body = answer.whole(QUOTED_BYTES_MAX).unwrap_or_default();
        let mut text = String::from_utf8_lossy(&body).into_owned();
        if !self.secret.secret().is_empty() {
            text = text.replace(self.secret.secret(), "***");
        }
        let shown: String = text.trim().chars().take(QUOTED_CHARS_MAX).collect();
        let said = if shown.is_empty() { String::new() } else { format!(": {}", shown.escape_debug()) };
        ServiceProblem::Refused { what, status, said }
    }

    fn call_once(&self, call: &Call<'_>, until: &Until) -> Result<Answer, ServiceProblem> {
        let what = call.shown();
        let failed = |problem: io::Error| self.failed(&what, until, &problem);
        let mut wire = self.connect(until).map_err(failed)?;
        let mut headers = vec![("host".to_owned(), self.endpoint.authority.clone())];
        headers.extend(call.headers.iter().cloned());
        let target = format!("{}{}", self.endpoint.path, call.target);
        wire.patience = until.left();
        let sent = wire.write_all(&request_bytes(call.method, &target, &headers, call.body));
        sent.and_then(|()| wire.flush()).map_err(failed)?;
        wire.patience = until.left();
        let mut input = Input::new(wire);
        let head = ResponseHead::read(&mut input, HEAD_BYTES_MAX).map_err(failed)?;
        let body = Body::new(head.framing);
        Ok(Answer { status: head.status, headers: head.headers, input, body, until: until.clone(), what })
    }

    fn connect(&self, until: &Until) -> io::Result<Wire> {
        let deadline = until.deadline.min(Instant::now() + CONNECT_MAX);
        let waiting = until.waiting();
        let to = self.proxy.as_ref().map_or(&self.endpoint, |proxy| &proxy.endpoint);
        let socket = connect(to, deadline, || !waiting.ends_within(Duration::ZERO))?;
        self.proxy.as_ref().map_or(Ok(()), |proxy| proxy.tunnel(&socket, &self.endpoint, deadline))?;
        let tls = self.tls.as_ref().map(|config| (config, self.endpoint.host.as_str()));
        Wire::new(Arc::new(socket), waiting, tls, deadline)
    }

    fn failed(&self, what: &str, until: &Until, problem: &io::Error) -> ServiceProblem {
        match problem.kind() {
            io::ErrorKind::ConnectionAborted if until.waiting().ends_within(Duration::ZERO) => ServiceProblem::Canceled,
            io::ErrorKind::TimedOut => ServiceProblem::TimedOut(what.to_owned()),
            io::ErrorKind::InvalidData => ServiceProblem::senseless(what, problem),
            _ => ServiceProblem::Unreachable(self.endpoint.authority.clone(), problem.to_string()),
        }
    }
}

impl Answer {
    /// The next piece of the body; none at its end.
    pub(crate) fn piece(&mut self) -> Result<Option<Vec<u8>>, ServiceProblem> {
        // All pieces together have the time that is left: one byte now and then must not stretch it.
        let left = self.until.left();
        if left.is_zero() {
            return Err(ServiceProblem::TimedOut(self.what.clone()));
        }
        self.input.source().patience = left;
        self.body.piece(&mut self.input).map_err(|problem| match problem.kind() {
            io::ErrorKind::ConnectionAborted if self.until.waiting().ends_within(Duration::ZERO) => {
                ServiceProblem::Canceled
            }
            io::ErrorKind::TimedOut => ServiceProblem::TimedOut(self.what.clone()),
            _ => ServiceProblem::senseless(&self.what, format!("it ends in the middle: {problem}")),
        })
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }

    /// All of the body, if it is not longer than that.
    pub(crate) fn whole(mut self, bytes_max: usize) -> Result<Vec<u8>, ServiceProblem> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece()? {
            if whole.len() + piece.len() > bytes_max {
                return Err(ServiceProblem::senseless(&self.what, format!("it is longer than {bytes_max} bytes")));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// A text as a part of a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(crate) fn header(name: &str, text: impl Into<String>) -> (String, String) {
    (name.to_owned(), text.into())
}
