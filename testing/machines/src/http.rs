//! As much of HTTP as the stand-ins need.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method and path.
    pub what: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    /// What came with it.
    pub body: Vec<u8>,
}

pub(crate) fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let what = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Asked { what, headers, body })
}

pub(crate) fn answer(out: &mut TcpStream, status: u16, kind: &str, body: &[u8], more: &str) -> std::io::Result<()> {
    let length = if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    write!(out, "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{more}{length}\r\n")?;
    out.write_all(body)
}
