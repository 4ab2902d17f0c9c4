//! What happened to a run, from its log. What happens to it now is a stream ([`crate::stream`]).

use super::run_of;
use crate::App;
use crate::call::{Call, Reply};
use crate::channel::{self, Pieces};
use crate::problem::{Outcome, Problem};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use contract::view::stream::StreamEvent;
use std::io::{self, Write};
use std::sync::Arc;

/// The largest number of a fact, and of events that somebody can ask for.
pub(crate) const SEQ_MAX: u64 = contract::json::INTEGER_MAX;

/// The routes of streams are answered elsewhere.
pub(crate) fn unreachable(_: &Arc<App>, _: &Call) -> Outcome<Reply> {
    Err(Problem::internal(&"a stream was asked for as if it were none"))
}

/// `{events, next}`: whole facts, the oldest first, written while they are read. `next` is from where on there are more.
pub(crate) fn events(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let since = call.number("since", 0..=SEQ_MAX)?.unwrap_or(0);
    let limit = call.number("limit", 1..=SEQ_MAX)?.unwrap_or(SEQ_MAX);
    let mut followed = app.followed(&slug, since)?;
    let (sender, body) = channel::body();
    let app = app.clone();
    std::thread::spawn(move || {
        let mut pieces = Pieces::new(sender);
        let mut page = Page { out: &mut pieces, left: limit, last: since, is_first: true, next: None, failed: None };
        let begun = page.out.write_all(b"{\"events\":[");
        let read = app.with_reader(|reader| {
            reader.follow(&mut followed, u64::MAX, |at, events| {
                app.pasts.keep(&slug, at);
                at.seq() <= since || page.add(at.seq(), &events)
            })
        });
        let next = page.next.map_or_else(|| "null".to_owned(), |seq| seq.to_string());
        let failed = page.failed.take();
        let ended = write!(pieces, "],\"next\":{next}}}").and_then(|()| pieces.flush());
        if begun.is_err() || read.is_err() || failed.is_some() || ended.is_err() {
            pieces.fail("the events could not be read");
        }
    });
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(Reply::Other(response))
}

/// A page of events that is being written.
struct Page<'p> {
    out: &'p mut Pieces,
    left: u64,
    last: u64,
    is_first: bool,
    next: Option<u64>,
    failed: Option<io::Error>,
}

impl Page<'_> {
    /// Adds a fact, if there is room for one; answers whether to go on.
    fn add(&mut self, seq: u64, events: &[StreamEvent]) -> bool {
        if self.left == 0 && !events.is_empty() {
            self.next = Some(self.last);
            return false;
        }
        self.last = seq;
        self.left = self.left.saturating_sub(events.len() as u64);
        let comma = |is_first: bool| if is_first { "" } else { "," };
        let text: String = events
            .iter()
            .map(|event| {
                let first = std::mem::replace(&mut self.is_first, false);
                let json = serde_json::to_string(event).expect("BUG: an event is plain data");
                format!("{}{json}", comma(first))
            })
            .collect();
        self.failed = self.out.write_all(text.as_bytes()).err();
        self.failed.is_none()
    }
}
