//! `opencode serve`: a compiler of intents that somebody runs on this machine and norma calls over HTTP. It is asked for one
//! message in a session of its own, with the tools that change or run anything turned off, and for what a session changed.

use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::Headers;
use crate::key::Key;
use crate::service::{Call, Service, ServiceProblem, Until, Way, escaped, header};

/// Longest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The agent of opencode that is asked: the one that only plans.
const AGENT: &str = "plan";

/// Tools that change something, run something or reach something.
const TOOLS_OFF: [&str; 7] = ["bash", "edit", "write", "patch", "task", "webfetch", "websearch"];

/// A server.
pub struct Opencode {
    service: Service,
    password: Option<Key>,
}

/// What it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// Whether it can be asked.
    pub healthy: bool,
    /// Which version it is.
    #[serde(default)]
    pub version: String,
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The whole answer, as it came.
    pub raw: Value,
    /// What the model said.
    pub text: String,
    /// Which model.
    pub model: Option<String>,
    /// What went wrong, in the server's own words.
    pub error: Option<String>,
}

impl Opencode {
    /// A server on this machine. Nothing confines it, so it is never one elsewhere.
    pub fn new(url: &str, password: Option<Key>) -> Result<Opencode, ServiceProblem> {
        let service = Service::new(url, &Way::default(), password.clone().unwrap_or_else(Key::none))?;
        let host = &service.endpoint().host;
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if !is_here {
            let why = "an opencode server is asked on this machine only: http://127.0.0.1:PORT";
            return Err(ServiceProblem::Settings(why.to_owned()));
        }
        Ok(Opencode { service, password })
    }

    /// Whether it can be asked.
    pub fn health(&self, until: &Until) -> Result<Health, ServiceProblem> {
        let answer = self.ask("GET", "/global/health".to_owned(), None, until)?;
        read("GET /global/health", answer)
    }

    /// Opens a session of this name; its id.
    pub fn open(&self, title: &str, until: &Until) -> Result<String, ServiceProblem> {
        #[derive(Deserialize)]
        struct Opened {
            id: String,
        }
        let answer = self.ask("POST", "/session".to_owned(), Some(&json!({ "title": title })), until)?;
        let Opened { id } = read("POST /session", answer)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match !id.is_empty() && id.len() <= 128 && id.chars().all(fits) {
            true => Ok(id),
            false => Err(ServiceProblem::senseless("POST /session", "its id is none")),
        }
    }

    /// What a request for a message holds.
    pub fn message_body(text: &str) -> Value {
        let tools: serde_json::Map<String, Value> =
            TOOLS_OFF.iter().map(|name| ((*name).to_owned(), json!(false))).collect();
        json!({"agent": AGENT, "tools": tools, "parts": [{"type": "text", "text": text}]})
    }

    /// Sends a message and waits for its answer.
    pub fn send(&self, session: &str, body: &Value, until: &Until) -> Result<Message, ServiceProblem> {
        let raw = self.ask("POST", format!("/session/{session}/message"), Some(body), until)?;
        let texts = raw["parts"].as_array().into_iter().flatten();
        let texts = texts.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
        let text = texts.collect::<Vec<_>>().join("");
        let info = &raw["info"];
        let model = info["modelID"].as_str().map(str::to_owned);
        let error = info.get("error").filter(|error| !error.is_null()).map(|error| {
            let said = error["data"]["message"].as_str().or(error["name"].as_str()).unwrap_or("it does not say why");
            said.chars().take(300).collect()
        });
        Ok(Message { text, model, error, raw })
    }

    /// What a session changed, as the server tells it.
    pub fn diff(&self, session: &str, until: &Until) -> Result<Value, ServiceProblem> {
        self.ask("GET", format!("/session/{}/diff", escaped(session)), None, until)
    }

    fn ask(
        &self,
        method: &'static str,
        target: String,
        body: Option<&Value>,
        until: &Until,
    ) -> Result<Value, ServiceProblem> {
        let bytes = body.map(Value::to_string).unwrap_or_default();
        let mut headers: Headers = vec![header("accept", "application/json")];
        headers.extend(body.map(|_| header("content-type", "application/json")));
        headers.extend(self.password.as_ref().map(|password| {
            let pair = format!("opencode:{}", password.reveal());
            header("authorization", format!("Basic {}", Base64::encode_string(pair.as_bytes())))
        }));
        let what = format!("{method} {target}");
        let call = Call { method, target, headers, body: bytes.as_bytes() };
        let answer = self.service.ask(&call, &[200], ANSWER_BYTES_MAX, until)?;
        // A server of JavaScript may write what strict readers refuse; what counts of it is checked again.
        serde_json::from_slice(&answer).map_err(|problem| ServiceProblem::senseless(&what, problem))
    }
}

fn read<T: serde::de::DeserializeOwned>(what: &str, value: Value) -> Result<T, ServiceProblem> {
    serde_json::from_value(value).map_err(|problem| ServiceProblem::senseless(what, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_one_of_this_machine() {
        for url in ["http://127.0.0.1:4096", "http://localhost:4096", "http://[::1]:4096"] {
            assert!(Opencode::new(url, None).is_ok(), "{url}");
        }
        for url in ["http://example.org", "https://10.0.0.1", "http://0.0.0.0:1", "opencode"] {
            assert!(Opencode::new(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn nothing_that_changes_anything_may_be_used() {
        let body = Opencode::message_body("x");
        assert_eq!(body["agent"], "plan");
        for tool in ["bash", "edit", "write"] {
            assert_eq!(body["tools"][tool], false);
        }
    }
}
