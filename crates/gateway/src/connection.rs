//! One connection of the program inside: request after request, each answered by whoever the gateway has.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::Api;
use crate::gateway::{Gateway, Mode};
use crate::http::{Body, Checked, Client, Framing, HeadProblem, Headers, Input, RequestHead};
use crate::refusal::Refusal;
use crate::registry::{NoPlace, Place};
use crate::route::Route;

/// Read and thrown away after a refusal: closing with bytes unread would take the answer back on its way.
const LEFTOVER_BYTES_MAX: usize = 1024 * 1024;

/// How long leftovers are read for.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(1);

/// A connection that is being served.
pub(crate) struct Connection<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) place: Place<'a>,
    pub(crate) client: Client,
    input: Input<Socket>,
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next request.
    Request,
    /// The end, and the program may still be sending.
    Close,
    /// The end at once: the answer was cut.
    Cut,
}

/// A request that is in order, with its body.
pub(crate) struct Request {
    pub(crate) head: Checked,
    pub(crate) route: Route,
    pub(crate) body: Vec<u8>,
}

/// A request that is refused before its body is read, as far as it is known.
pub(crate) struct Refused {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) refusal: Refusal,
    /// Whether there is a body that is not read, or the connection is out of step.
    pub(crate) must_close: bool,
}

struct Socket(Arc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl<'a> Connection<'a> {
    pub(crate) fn serve(gateway: &'a Gateway, socket: TcpStream) {
        let socket = Arc::new(socket);
        // Whoever accepted it may have done so on a socket that does not wait.
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_nodelay(true);
        let _ = socket.set_write_timeout(Some(gateway.client_patience));
        let client = Client::new(socket.clone());
        let place = match gateway.registry.enter(&socket, gateway.limits.connections) {
            Ok(place) => place,
            Err(NoPlace::Stopped) => return,
            Err(NoPlace::Full) => {
                let _ = refuse(&client, gateway.api_of("", ""), &Refusal::new(503, "too many connections"), false);
                return hang_up(&socket, Next::Close);
            }
        };
        let mut connection = Connection { gateway, place, client, input: Input::new(Socket(socket)) };
        let next = loop {
            match connection.request() {
                Next::Request => {}
                end => break end,
            }
        };
        hang_up(connection.client.socket(), next);
    }

    /// Serves one request.
    fn request(&mut self) -> Next {
        let head = match self.read_head() {
            Ok(head) => head,
            Err(HeadProblem::Gone) => return Next::Cut,
            Err(HeadProblem::Refused(refusal)) => {
                self.gateway.meter.note(|totals| totals.refused += 1);
                let _ = refuse(&self.client, self.gateway.api_of("", ""), &refusal, false);
                return Next::Close;
            }
        };
        self.client.is_head_request = head.method == "HEAD";
        match self.admit(head) {
            Ok(Some(request)) => match &self.gateway.mode {
                Mode::Live(live) => live.answer(self, request),
                Mode::Replay(recordings) => recordings.answer(self, request),
            },
            Ok(None) => Next::Cut,
            Err(refused) => {
                self.gateway.meter.note(|totals| totals.refused += 1);
                match &self.gateway.mode {
                    Mode::Live(live) => live.refuse(self, refused),
                    Mode::Replay(recordings) => recordings.refuse(self, refused),
                }
            }
        }
    }

    /// A connection may rest between requests for as long as it likes; a request that has begun may not.
    fn read_head(&mut self) -> Result<RequestHead, HeadProblem> {
        if self.input.unused().is_empty() {
            self.set_patience(None);
            if !matches!(self.input.fill(), Ok(read) if read > 0) {
                return Err(HeadProblem::Gone);
            }
        }
        self.set_patience(Some(self.gateway.client_patience));
        RequestHead::read(&mut self.input, self.gateway.limits.head_bytes)
    }

    /// Reads the body of a request that is in order; none if it does not come.
    fn admit(&mut self, head: RequestHead) -> Result<Option<Request>, Refused> {
        let refused = |head: &RequestHead, refusal: Refusal, must_close: bool| Refused {
            method: head.method.clone(),
            target: head.target.clone(),
            headers: head.headers.clone(),
            refusal,
            must_close,
        };
        let checked = head.check().map_err(|refusal| refused(&head, refusal, true))?;
        let plain = Refused {
            target: format!("{}{}", checked.path, checked.query),
            ..refused(&head, Refusal::not_forwarded(), false)
        };
        let has_body = checked.framing != Framing::Length(0);
        let needed = Route::of(&checked.method, &checked.path).filter(|route| self.gateway.needs(route));
        let Some(route) = needed else {
            return Err(Refused { must_close: has_body || !checked.keep_alive, ..plain });
        };
        if has_body && route == Route::Models {
            let refusal = Refusal::malformed("it has a body where none belongs");
            return Err(Refused { refusal, must_close: true, ..plain });
        }
        let most = self.gateway.limits.body_bytes;
        let long = Refused { refusal: Refusal::new(413, "the request is too long"), must_close: true, ..plain };
        if matches!(checked.framing, Framing::Length(bytes) if bytes > most as u64) {
            return Err(long);
        }
        if checked.expects_continue && has_body && self.client.go_on().is_err() {
            return Ok(None);
        }
        match Body::new(checked.framing).whole(&mut self.input, most) {
            Ok(Some(body)) => Ok(Some(Request { head: checked, route, body })),
            Ok(None) => Err(long),
            Err(problem) if problem.kind() == io::ErrorKind::InvalidData => {
                Err(Refused { refusal: Refusal::malformed("its body is not in chunks"), ..long })
            }
            Err(_) => Ok(None),
        }
    }

    fn set_patience(&self, patience: Option<Duration>) {
        // It fails only for a time of zero, or on a socket that is gone, where reading fails too.
        let _ = self.client.socket().set_read_timeout(patience);
    }
}

/// Ends a connection; after a refusal not before the program has stopped sending, or has had time to.
fn hang_up(socket: &TcpStream, next: Next) {
    if next == Next::Close {
        let _ = socket.shutdown(Shutdown::Write);
        drain(socket);
    }
    let _ = socket.shutdown(Shutdown::Both);
}

fn drain(mut socket: &TcpStream) {
    let end = Instant::now() + LEFTOVER_PATIENCE;
    let mut buffer = [0; 16 * 1024];
    let mut left = LEFTOVER_BYTES_MAX;
    let _ = socket.set_read_timeout(Some(LEFTOVER_PATIENCE));
    while left > 0 && Instant::now() < end {
        match socket.read(&mut buffer) {
            Ok(read) if read > 0 => left = left.saturating_sub(read),
            _ => return,
        }
    }
}

/// Sends an answer of norma's own.
pub(crate) fn refuse(client: &Client, api: Api, refusal: &Refusal, keep_alive: bool) -> io::Result<()> {
    let headers = json_headers();
    client.respond(refusal.status, &headers, &api.error_body(refusal.status, &refusal.message), keep_alive)
}

/// The headers of norma's own answers.
pub(crate) fn json_headers() -> Headers {
    vec![("content-type".to_owned(), "application/json".to_owned())]
}
