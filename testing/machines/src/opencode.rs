//! `opencode serve` 1.18 as far as norma asks it: health, a session, a message whose answer a test chose, a diff.

use crate::http::{Asked, answer, read};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Inside {
    texts: VecDeque<String>,
    asked: Vec<Asked>,
}

/// The server.
pub struct Opencode {
    port: u16,
    inside: Arc<Mutex<Inside>>,
}

impl Opencode {
    /// Starts one whose model says these texts, one after another, and then nothing.
    pub fn start(texts: &[&str]) -> Opencode {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let port = listener.local_addr().expect("it has an address").port();
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        let inside = Arc::new(Mutex::new(Inside { texts, asked: Vec::new() }));
        let shared = inside.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &shared);
            }
        });
        Opencode { port, inside }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.inside.lock().expect("nobody panicked with it").asked.clone()
    }
}

fn serve(stream: TcpStream, inside: &Mutex<Inside>) -> std::io::Result<()> {
    let asked = read(&mut BufReader::new(stream.try_clone()?))?;
    let mut inside = inside.lock().expect("nobody panicked with it");
    inside.asked.push(asked.clone());
    let mut out = stream;
    let mut json =
        |status, value: Value| answer(&mut out, status, "application/json", value.to_string().as_bytes(), "");
    match asked.what.as_str() {
        "GET /global/health" => json(200, json!({"healthy": true, "version": "1.18.33"})),
        "POST /session" => json(200, json!({"id": "ses_0123", "title": "x", "version": "1.18.33"})),
        "POST /session/ses_0123/message" => match inside.texts.pop_front() {
            Some(text) => json(
                200,
                json!({"info": {"id": "msg_1", "sessionID": "ses_0123", "role": "assistant", "modelID": "scripted-1"},
                    "parts": [{"type": "step-start"}, {"type": "text", "text": text}]}),
            ),
            None => json(
                200,
                json!({"info": {"id": "msg_1", "error": {"name": "ProviderAuthError", "data": {"message": "no key"}}}, "parts": []}),
            ),
        },
        "GET /session/ses_0123/diff" => json(200, json!([{"file": "a", "patch": "", "additions": 1, "deletions": 0}])),
        _ => json(404, json!({"name": "NotFoundError"})),
    }
}
