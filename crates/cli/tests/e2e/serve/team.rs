//! A server for a team: over real TLS, with users. Each role is asked for each route that there is, and what each of them
//! did is on record with their name.

use super::client::{Answer, read_answer};
use super::security::{every_route_of, is_problem};
use crate::acp::{COMMAND, with_request};
use crate::environment::{Running, TestEnvironment, eventually};
use argon2::password_hash::{PasswordHasher, SaltString};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "norma.example.org";
const ROLES: [&str; 4] = ["viewer", "operator", "approver", "admin"];

/// A server with a user for each role, who is called as the role is.
pub(super) struct Team {
    norma: Running,
    address: String,
    config: Arc<ClientConfig>,
}

fn token(role: &str) -> String {
    format!("the token of {role}, with more than enough bits of it")
}

fn digest(token: &str) -> String {
    // The least that argon2 takes: whether it is checked is tested here, not for how long.
    let params = argon2::Params::new(8, 1, 1, None).unwrap();
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let salt = SaltString::encode_b64(b"0123456789abcdef").unwrap();
    argon2.hash_password(token.as_bytes(), &salt).unwrap().to_string()
}

impl Team {
    pub(super) fn serve(env: &TestEnvironment) -> Team {
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        env.write(".norma/cert.pem", &cert.pem());
        env.write(".norma/key.pem", &signing_key.serialize_pem());
        let user = |role: &str| json!({"name": role, "role": role, "token": digest(&token(role))});
        let users = json!({"users": ROLES.map(user)});
        env.write(".norma/users.json", &users.to_string());
        let mut args = vec!["serve", "--json", "--listen", "127.0.0.1:0", "--name", NAME];
        args.extend(["--cert", ".norma/cert.pem", "--key", ".norma/key.pem", "--user-file", ".norma/users.json"]);
        let norma = env.spawn(&args);
        eventually("the server says where it listens", || norma.stdout().contains('\n'));
        let said: Value = serde_json::from_str(norma.stdout().lines().next().unwrap()).unwrap();
        let url = said["url"].as_str().unwrap();
        let port = url.strip_prefix(&format!("https://{NAME}:")).unwrap_or_else(|| panic!("{url}")).to_owned();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        Team { norma, address: format!("127.0.0.1:{port}"), config }
    }

    fn host(&self) -> String {
        format!("{NAME}:{}", self.address.rsplit(':').next().unwrap())
    }

    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        StreamOwned::new(ClientConnection::new(self.config.clone(), name).unwrap(), stream)
    }

    pub(super) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host());
        if !headers.iter().any(|(name, _)| *name == "Connection") {
            head.push_str("Connection: close\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(body);
        read_answer(&mut stream)
    }

    fn ask(&self, role: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", token(role));
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.send(method, path, &headers, body.map(Value::to_string).unwrap_or_default().as_bytes())
    }

    #[track_caller]
    pub(super) fn get(&self, role: &str, path: &str) -> Value {
        self.ask(role, "GET", path, None).with(200)
    }

    /// The cookie of a session of somebody with this role.
    pub(super) fn session(&self, role: &str) -> String {
        let ticket = self.ask(role, "POST", "/api/login-ticket", None).with(200)["ticket"].as_str().unwrap().to_owned();
        let answer = self.send("GET", &format!("/login?ticket={ticket}"), &[("Sec-Fetch-Site", "none")], b"");
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("; Secure") && cookie.contains("HttpOnly"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }
}

/// Whether a role may what a route needs, by the table of the documentation.
fn may(role: &str, right: &str) -> bool {
    match right {
        "none" | "view" => true,
        "operate" => matches!(role, "operator" | "admin"),
        "approve" => matches!(role, "approver" | "admin"),
        "administer" => role == "admin",
        other => panic!("{other}"),
    }
}

#[test]
fn each_role_may_what_it_is_for_on_every_route_and_strangers_nothing() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let team = Team::serve(&env);
    let document = team.get("viewer", "/openapi.json");
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let right = operation["x-right"].as_str().unwrap();
            let asked =
                ["{id}", "{artifact}", "{name}"].iter().fold(path.clone(), |path, name| path.replace(name, "x"));
            let method = method.to_uppercase();
            for role in ROLES {
                let answer = team.ask(role, &method, &asked, None);
                let about = format!("{role}: {method} {asked}");
                match may(role, right) {
                    true => assert!(!matches!(answer.status, 401 | 403), "{about}: {}", answer.text()),
                    false => is_problem(&answer, 403, &about),
                }
                refused += usize::from(!may(role, right));
            }
        }
    }
    assert!(refused > 20, "{refused}");
    for (method, path) in every_route_of(&document) {
        // Being on the same machine is nothing here.
        is_problem(&team.send(&method, &path, &[], b""), 401, &format!("{method} {path}"));
    }
    for _ in 0..10 {
        let wrong = team.send("GET", "/api/runs", &[("Authorization", "Bearer a guess")], b"");
        assert!(matches!(wrong.status, 401 | 429), "{}", wrong.text());
    }
    is_problem(&team.send("GET", "/api/runs", &[("Authorization", "Bearer a guess")], b""), 429, "too many guesses");
    // What is no TLS is not spoken to.
    let mut plain = TcpStream::connect(&team.address).unwrap();
    let _ = plain.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", team.host()).as_bytes());
    let mut said = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut said);
    assert!(!said.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&said));
    team.norma.signal("TERM");
    team.norma.wait().success();
}

#[test]
fn what_somebody_does_is_on_record_with_their_name_and_nobody_approves_for_others() {
    let env = with_request(COMMAND);
    let team = Team::serve(&env);
    let item = json!({"id": "a", "agent_id": "worker", "description": "make it"});
    // Starting a run is no approval of what it needs.
    let body = json!({"batch": [item], "yes": true});
    is_problem(&team.ask("operator", "POST", "/api/runs", Some(&body)), 403, "an approval in passing");
    let wide = json!({"sentence": "make it", "yes": true, "yes_wide": true});
    is_problem(&team.ask("operator", "POST", "/api/runs", Some(&wide)), 403, "an approval in passing");
    let body = json!({"batch": [item]});
    let run = team.ask("operator", "POST", "/api/runs", Some(&body)).with(201)["run"].clone();
    let asked = || team.get("viewer", "/api/approvals")["approvals"][0].clone();
    eventually("it asks", || asked()["approvalId"].is_string());
    let path = format!("/api/approvals/{}/resolve", asked()["approvalId"].as_str().unwrap());
    let approved = json!({"resolution": {"status": "approved"}});
    for role in ["viewer", "operator"] {
        is_problem(&team.ask(role, "POST", &path, Some(&approved)), 403, role);
    }
    // The same in a browser: a session has the role of whoever opened it.
    let origin = format!("https://{}", team.host());
    let in_browser = |role: &str| {
        let cookie = team.session(role);
        let headers = [("Cookie", cookie.as_str()), ("Origin", &origin), ("Content-Type", "application/json")];
        team.send("POST", &path, &headers, approved.to_string().as_bytes())
    };
    is_problem(&in_browser("operator"), 403, "the session of an operator");
    assert_eq!(in_browser("approver").with(200)["resolution"]["by"], json!("approver"));
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    eventually("it has come to its end", || team.get("viewer", &path)["run"]["status"] == "completed");
    team.ask("operator", "DELETE", &path, None).with(200);
    let sessions = team.get("admin", "/api/sessions")["sessions"].as_array().unwrap().clone();
    assert!(sessions.iter().any(|session| session["name"] == "approver"), "{sessions:?}");
    drop(team);
    let db = rusqlite::Connection::open(env.root.join(".norma/norma.db")).unwrap();
    let sql = "SELECT type, coalesce(json_extract(data_json, '$.what'), ''), json_extract(data_json, '$.by') FROM audit
               WHERE json_extract(data_json, '$.by') IS NOT NULL ORDER BY seq";
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(String, String, String)> = rows.map(Result::unwrap).collect();
    for (kind, what, by) in [
        ("requested", "POST /api/runs", "operator"),
        ("requested", "POST /api/approvals/{id}/resolve", "approver"),
        ("approval_answered", "", "approver"),
        ("run_unlisted", "", "operator"),
    ] {
        let expected = (kind.to_owned(), what.to_owned(), by.to_owned());
        assert!(rows.contains(&expected), "{expected:?} in {rows:?}");
    }
}
