//! What is written: requests to the provider, answers to the program inside.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;

use crate::http::Headers;

/// The program inside, as the one who gets answers.
pub(crate) struct Client {
    socket: Arc<TcpStream>,
    /// The answer has no body, whatever its headers say.
    pub(crate) is_head_request: bool,
}

impl Client {
    pub(crate) fn new(socket: Arc<TcpStream>) -> Client {
        Client { socket, is_head_request: false }
    }

    /// The connection itself.
    pub(crate) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Asks for the body of a program that waits for this before it sends one.
    pub(crate) fn go_on(&self) -> io::Result<()> {
        (&*self.socket).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
    }

    /// A whole answer.
    pub(crate) fn respond(&self, status: u16, headers: &Headers, body: &[u8], keep_alive: bool) -> io::Result<()> {
        let mut bytes = head(status, headers, keep_alive);
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        if !self.is_head_request {
            bytes.extend_from_slice(body);
        }
        (&*self.socket).write_all(&bytes)
    }

    /// The beginning of an answer that comes in pieces.
    pub(crate) fn begin(&self, status: u16, headers: &Headers, keep_alive: bool) -> io::Result<()> {
        let mut bytes = head(status, headers, keep_alive);
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        (&*self.socket).write_all(&bytes)
    }

    /// A piece, at once and in one packet if it is small.
    pub(crate) fn piece(&self, piece: &[u8]) -> io::Result<()> {
        if piece.is_empty() {
            // An empty chunk would be the end.
            return Ok(());
        }
        let mut bytes = format!("{:x}\r\n", piece.len()).into_bytes();
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
        (&*self.socket).write_all(&bytes)
    }

    /// There are no more pieces.
    pub(crate) fn finish(&self) -> io::Result<()> {
        (&*self.socket).write_all(b"0\r\n\r\n")
    }
}

fn head(status: u16, headers: &Headers, keep_alive: bool) -> Vec<u8> {
    // The reason is for people, and none is asked for.
    let mut text = format!("HTTP/1.1 {status} \r\n");
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    if !keep_alive {
        text.push_str("connection: close\r\n");
    }
    text.into_bytes()
}

/// A request to the provider. The connection serves this request only: one that was kept could be closed by the
/// provider just then, and whether the call was made could not be told.
pub(crate) fn request_bytes(method: &str, target: &str, headers: &Headers, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    text.push_str("accept-encoding: identity\r\nconnection: close\r\n");
    if method != "GET" || !body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
