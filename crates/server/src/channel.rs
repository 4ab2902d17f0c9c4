//! A body that is written while it is sent: a thread or a task puts pieces in, the connection takes them out as fast as
//! the client reads.

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How many pieces are on their way.
const PIECES_MAX: usize = 8;
/// How long a piece is, if whoever writes does not say.
const PIECE_BYTES: usize = 64 << 10;

/// The end that is read by the connection. A piece that is an error cuts the answer off, so that nobody takes it for
/// whole.
struct Channel(Receiver<io::Result<Bytes>>);

impl HttpBody for Channel {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// A body, and where its pieces are put in.
pub(crate) fn body() -> (Sender<io::Result<Bytes>>, Body) {
    let (sender, receiver) = channel(PIECES_MAX);
    (sender, Body::new(Channel(receiver)))
}

/// Writes pieces from a thread; whoever is too slow to read holds up that thread alone.
pub(crate) struct Pieces {
    sender: Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Pieces {
    pub(crate) fn new(sender: Sender<io::Result<Bytes>>) -> Pieces {
        Pieces { sender, piece: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Cuts the answer off.
    pub(crate) fn fail(self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) {
        let _ = self.sender.blocking_send(Err(io::Error::other(why)));
    }
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.sender.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
