//! What was asked, one line of JSON a request: for tests that look at what an agent sent, and for people who wonder.
//! Keys are not in it; whether the right one was there is.

use crate::http::Request;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Headers worth knowing; the others are of no use to a test, and may hold keys.
const HEADERS: [&str; 4] = ["user-agent", "anthropic-version", "anthropic-beta", "content-type"];

/// All requests so far, in memory and, if there is one, in a file.
#[derive(Debug, Default)]
pub(crate) struct Record {
    file: Option<Mutex<File>>,
    lines: Mutex<Vec<Value>>,
}

impl Record {
    pub(crate) fn create(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(File::create).transpose()?.map(Mutex::new);
        Ok(Self { file, lines: Mutex::default() })
    }

    /// Notes a request before it is answered: the answer may never come.
    pub(crate) fn note(&self, line: Value) {
        if let Some(file) = &self.file {
            let text = format!("{line}\n");
            // A record that cannot be written must not change what the agent under test sees.
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The part of a line that is the request itself.
pub(crate) fn line(request: &Request, body: &Value) -> Value {
    let headers: serde_json::Map<String, Value> =
        HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), request.header(name)?.into()))).collect();
    json!({ "method": request.method, "path": request.path, "headers": headers, "body": body })
}
