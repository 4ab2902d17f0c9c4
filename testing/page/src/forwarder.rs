//! Serves the page, and passes `/api` and `/ws` on to a server as a program of the same user would ask it: under the
//! server's own name, and without anything by which a browser says who it is and where from. One request a connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

const FILES: [(&str, &str, &str); 2] = [
    ("/", "text/html", include_str!("../page/index.html")),
    ("/client.js", "text/javascript", include_str!("../page/client.js")),
];

/// Longest head of a request that a page sends.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What listens for the page.
pub struct Forwarder {
    port: u16,
}

impl Forwarder {
    /// Begins to listen, and passes on to this address for as long as the process lasts.
    pub fn to(target: &str) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = target.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let target = target.clone();
                // Whichever end leaves, the other one is let go.
                thread::spawn(move || answer(stream, &target));
            }
        });
        Forwarder { port }
    }

    /// Where the page is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://localhost:{}/", self.port)
    }
}

fn answer(mut page: TcpStream, target: &str) -> io::Result<()> {
    let (head, rest) = read_head(&mut page)?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default();
    if !path.starts_with("/api") && !path.starts_with("/ws") {
        return serve_file(&mut page, path);
    }
    let headers: Vec<&str> = lines.filter(|line| is_passed_on(line)).collect();
    let is_upgrade = headers.iter().any(|line| name(line) == "upgrade");
    let end = if is_upgrade { "Connection: Upgrade" } else { "Connection: close" };
    let Ok(mut server) = TcpStream::connect(target) else {
        return page.write_all(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    };
    let head = [&[first, &format!("Host: {target}"), end], headers.as_slice()].concat().join("\r\n");
    server.write_all(head.as_bytes())?;
    server.write_all(b"\r\n\r\n")?;
    server.write_all(&rest)?;
    let (mut from_page, mut to_server) = (page.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_page, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let copied = io::copy(&mut server, &mut page);
    let _ = page.shutdown(Shutdown::Both);
    copied.map(drop)
}

/// A head, and what came after it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(at + 4);
            bytes.truncate(at);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), rest));
        }
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece)?;
        if read == 0 || bytes.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..read]);
    }
}

fn name(line: &str) -> String {
    line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_passed_on(line: &str) -> bool {
    let name = name(line);
    !matches!(name.as_str(), "host" | "connection" | "origin" | "referer" | "cookie") && !name.starts_with("sec-fetch-")
}

fn serve_file(page: &mut TcpStream, path: &str) -> io::Result<()> {
    let found = FILES.iter().find(|(known, ..)| *known == path);
    let (status, kind, text) =
        found.map_or(("404 Not Found", "text/plain", ""), |(_, kind, text)| ("200 OK", kind, text));
    let length = text.len();
    write!(
        page,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}
