//! Answers out of a recording: the same bytes, and nothing goes out. A request finds its recording by its body; where
//! that does not help, by being the only one that fits.

mod find;
mod mask;

use std::io;

use crate::connection::{Connection, Next, Refused, Request, refuse};
use crate::exchange::{Answer, Exchange};
use crate::http::Client;
use crate::refusal::Refusal;
use crate::replay::find::{Stage, Tape};

/// Answers from recorded exchanges, each once.
pub(crate) struct Recordings {
    tape: Tape,
}

impl Recordings {
    pub(crate) fn new(exchanges: impl Iterator<Item = Exchange>) -> Recordings {
        Recordings { tape: Tape::new(exchanges) }
    }

    /// Answers a request of a kind that programs make.
    pub(crate) fn answer(&self, connection: &Connection<'_>, request: Request) -> Next {
        let target = format!("{}{}", request.head.path, request.head.query);
        let keep_alive = request.head.keep_alive;
        match self.tape.find(&request.head.method, &target, &request.body) {
            Some((answer, stage)) => play(connection, &answer, stage, keep_alive),
            None => {
                connection.gateway.meter.note(|totals| totals.mismatches += 1);
                // 400, as for a budget: asking again would not find it either.
                let refusal = Refusal::new(400, "no recorded request is like this one");
                let api = connection.gateway.api_of(&request.head.method, &request.head.path);
                let sent = refuse(&connection.client, api, &refusal, keep_alive);
                after(sent, keep_alive)
            }
        }
    }

    /// Answers a request that is not forwarded, which was recorded without its body.
    pub(crate) fn refuse(&self, connection: &Connection<'_>, refused: Refused) -> Next {
        let keep_alive = !refused.must_close;
        if let Some((answer, stage)) = self.tape.find(&refused.method, &refused.target, b"") {
            return play(connection, &answer, stage, keep_alive);
        }
        connection.gateway.meter.note(|totals| totals.mismatches += 1);
        let api = connection.gateway.api_of(&refused.method, &refused.target);
        after(refuse(&connection.client, api, &refused.refusal, keep_alive), keep_alive)
    }
}

fn play(connection: &Connection<'_>, answer: &Answer, stage: Stage, keep_alive: bool) -> Next {
    connection.gateway.meter.note(|totals| {
        totals.calls += 1;
        match stage {
            Stage::Exact => totals.matched.exact += 1,
            Stage::Masked => totals.matched.masked += 1,
            Stage::Order => totals.matched.order += 1,
        }
    });
    answer.usage.iter().for_each(|usage| connection.gateway.meter.add(usage));
    let sent = send(&connection.client, answer, keep_alive);
    if answer.complete { after(sent, keep_alive) } else { Next::Cut }
}

/// An answer that was cut is cut again in the same place.
fn send(client: &Client, answer: &Answer, keep_alive: bool) -> io::Result<()> {
    client.begin(answer.status, &answer.headers, keep_alive)?;
    if !client.is_head_request {
        client.piece(&answer.body)?;
    }
    if answer.complete && !client.is_head_request { client.finish() } else { Ok(()) }
}

fn after(sent: io::Result<()>, keep_alive: bool) -> Next {
    match sent {
        Ok(()) if keep_alive => Next::Request,
        Ok(()) => Next::Close,
        Err(_) => Next::Cut,
    }
}
