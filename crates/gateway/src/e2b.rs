//! Machines of the service e2b, or of one that speaks its protocol: made, given files, told what to run, asked for files,
//! ended. The API that makes machines takes the user's key; the daemon in a machine takes a token of that machine and never
//! sees the key. Everything that a machine says may have been written by the program that runs in it.

mod files;
mod process;

pub use files::{Entry, EntryKind};
pub use process::{Exit, Printed, Program};

use contract::json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::Headers;
use crate::key::Key;
use crate::service::{Call, Service, ServiceProblem, Until, Way, header};
use crate::upstream::Endpoint;

/// The port on which the daemon of every machine listens.
const DAEMON_PORT: u16 = 49983;

/// Longest answer that says something about a machine.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The service.
pub struct E2b {
    api: Service,
    key: Key,
    way: Way,
}

/// A machine. It costs until it is ended, and ends by itself when its time is over.
pub struct Machine {
    api: Service,
    key: Key,
    daemon: Service,
    id: String,
    token: Option<Key>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    #[serde(rename = "sandboxID")]
    sandbox_id: String,
    #[serde(default)]
    envd_access_token: Option<String>,
    #[serde(default)]
    domain: Option<String>,
}

impl E2b {
    /// The service at an address, with the key that opens it.
    pub fn new(url: &str, key: Key, way: Way) -> Result<E2b, ServiceProblem> {
        Ok(E2b { api: Service::new(url, &way, key.clone())?, key, way })
    }

    /// Has a machine made that reaches no network and ends by itself after so many seconds.
    pub fn create(&self, template: &str, seconds: u64, until: &Until) -> Result<Machine, ServiceProblem> {
        let body = json!({
            "templateID": template, "timeout": seconds, "allow_internet_access": false,
            "metadata": {"made-by": "norma"}, "envVars": {},
        });
        let body = body.to_string();
        let made = match self.post("/v2/sandboxes", &body, until) {
            // Services of before know the older path only.
            Err(ServiceProblem::Refused { status: 404, .. }) => self.post("/sandboxes", &body, until),
            made => made,
        }?;
        let what = "POST /v2/sandboxes";
        let created: Created = parsed(what, &made)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if created.sandbox_id.is_empty() || created.sandbox_id.len() > 128 || !created.sandbox_id.chars().all(fits) {
            return Err(ServiceProblem::senseless(what, "its sandboxID is none"));
        }
        self.machine(what, created)
    }

    fn post(&self, target: &str, body: &str, until: &Until) -> Result<Vec<u8>, ServiceProblem> {
        let headers = keyed(&self.key, true);
        let call = Call { method: "POST", target: target.to_owned(), headers, body: body.as_bytes() };
        self.api.ask(&call, &[200, 201], ANSWER_BYTES_MAX, until)
    }

    fn machine(&self, what: &str, created: Created) -> Result<Machine, ServiceProblem> {
        let url = daemon_url(self.api.endpoint(), &created.sandbox_id, created.domain.as_deref());
        let url = url.map_err(|why| ServiceProblem::senseless(what, why))?;
        let token = created.envd_access_token.filter(|token| !token.is_empty());
        let token = token.map(|token| Key::new(&token)).transpose();
        let token = token.map_err(|problem| ServiceProblem::senseless(what, problem))?;
        let daemon = Service::new(&url, &self.way, token.clone().unwrap_or_else(Key::none))?;
        Ok(Machine { api: self.api.clone(), key: self.key.clone(), daemon, id: created.sandbox_id, token })
    }
}

impl Machine {
    /// The service's name for it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Ends it, with everything that runs in it. One that is gone already is ended.
    pub fn end(&self, until: &Until) -> Result<(), ServiceProblem> {
        let target = format!("/sandboxes/{}", self.id);
        let call = Call { method: "DELETE", target, headers: keyed(&self.key, false), body: &[] };
        self.api.ask(&call, &[200, 202, 204, 404], ANSWER_BYTES_MAX, until).map(drop)
    }

    /// Waits until its daemon answers.
    pub fn is_up(&self, until: &Until) -> Result<(), ServiceProblem> {
        let call = Call { method: "GET", target: "/health".to_owned(), headers: self.headers(None), body: &[] };
        self.daemon.ask(&call, &[200, 204], ANSWER_BYTES_MAX, until).map(drop)
    }

    /// One question of the daemon's own protocol.
    fn ask(&self, target: &str, body: &Value, bytes_max: usize, until: &Until) -> Result<Vec<u8>, ServiceProblem> {
        let mut headers = self.headers(Some("application/json"));
        headers.push(header("connect-protocol-version", "1"));
        headers.push(header("connect-timeout-ms", until.left().as_millis().to_string()));
        let body = body.to_string();
        let call = Call { method: "POST", target: target.to_owned(), headers, body: body.as_bytes() };
        self.daemon.ask(&call, &[200], bytes_max, until)
    }

    fn headers(&self, content_type: Option<&str>) -> Headers {
        let mut headers = vec![
            header("e2b-sandbox-id", &self.id),
            header("e2b-sandbox-port", DAEMON_PORT.to_string()),
            header("accept", "*/*"),
        ];
        headers.extend(self.token.as_ref().map(|token| header("x-access-token", token.reveal())));
        headers.extend(content_type.map(|kind| header("content-type", kind)));
        headers
    }
}

fn keyed(key: &Key, has_body: bool) -> Headers {
    let mut headers = vec![header("x-api-key", key.reveal())];
    headers.extend(has_body.then(|| header("content-type", "application/json")));
    headers
}

/// Strictly read JSON, in which members that are not known are passed over.
fn parsed<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, ServiceProblem> {
    let limits = json::Limits::new(bytes.len().max(1), 32);
    let value = json::parse(bytes, &limits).map_err(|problems| {
        ServiceProblem::senseless(what, problems.first().map_or_else(String::new, ToString::to_string))
    })?;
    serde_json::from_value(value).map_err(|problem| ServiceProblem::senseless(what, problem))
}

/// Where the daemon of a machine is: behind a name of its own at the service's domain. A service without names, on an
/// address or without TLS, tells machines apart by a header. No answer leads elsewhere: files and what they say would
/// follow.
fn daemon_url(api: &Endpoint, id: &str, domain: Option<&str>) -> Result<String, String> {
    let is_address = api.host.parse::<std::net::IpAddr>().is_ok();
    if !api.is_tls || is_address {
        let scheme = if api.is_tls { "https" } else { "http" };
        return Ok(format!("{scheme}://{}{}", api.authority, api.path));
    }
    let own = api.host.strip_prefix("api.").unwrap_or(&api.host);
    let domain = domain.filter(|domain| !domain.is_empty()).unwrap_or(own);
    if domain != own && !domain.ends_with(&format!(".{own}")) {
        return Err(format!("its machine is said to be at {domain:?}, outside of {own}"));
    }
    Ok(format!("https://{DAEMON_PORT}-{id}.{domain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_of_a_machine_is_at_the_service_and_nowhere_else() {
        let at = |url: &str, domain| daemon_url(&Endpoint::of(url).unwrap(), "i1", domain);
        assert_eq!(at("https://api.e2b.app", None).unwrap(), "https://49983-i1.e2b.app");
        assert_eq!(at("https://api.e2b.app", Some("e2b.app")).unwrap(), "https://49983-i1.e2b.app");
        assert_eq!(at("https://api.e2b.app", Some("eu.e2b.app")).unwrap(), "https://49983-i1.eu.e2b.app");
        assert_eq!(at("http://127.0.0.1:9/x", Some("elsewhere")).unwrap(), "http://127.0.0.1:9/x");
        for domain in ["elsewhere.example", "note2b.app", "e2b.app.example"] {
            assert!(at("https://api.e2b.app", Some(domain)).is_err(), "{domain}");
        }
    }
}
