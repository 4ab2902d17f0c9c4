//! The rules of a local web server, each over every route that there is: the routes are those of `/openapi.json`, so a
//! new one is asked, too.

use super::client::{Answer, Frame, Served, serve};
use super::with_a_run;
use crate::environment::TestEnvironment;
use serde_json::json;

/// Every route with something in place of what its path names, and the methods that it has.
fn every_route(served: &Served) -> Vec<(String, String)> {
    let document = served.get("/openapi.json");
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let names = ["{id}", "{artifact}", "{name}"];
        let path = names.iter().fold(path.clone(), |path, name| path.replace(name, "nothing"));
        for method in methods.as_object().unwrap().keys() {
            routes.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(routes.len() > 25, "{routes:?}");
    // What is no route is asked for the same way.
    routes.extend([("GET".to_owned(), "/nowhere".to_owned()), ("PUT".to_owned(), "/healthz".to_owned())]);
    routes
}

fn is_problem(answer: &Answer, status: u16, about: &str) {
    assert_eq!(answer.status, status, "{about}: {}", answer.text());
    let told = answer.json();
    assert!(told["error"].is_string() && told["code"].is_string() && told["details"].is_object(), "{about}: {told}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{about}");
}

/// A browser that has no session: by it nobody is the server's own user.
const BROWSER: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

#[test]
fn rule_1_only_loopback_is_listened_on() {
    let env = TestEnvironment::new(json!({}));
    let served = serve(&env);
    assert!(served.url.starts_with("http://127.0.0.1:"));
    let others = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", served.port());
    let listening = others.lines().filter(|line| line.contains(" 0A ") && line.contains(&port));
    assert!(listening.into_iter().all(|line| line.contains("0100007F:")), "{others}");
    env.norma(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
}

#[test]
fn rule_2_and_16_nobody_is_answered_without_saying_who_they_are_on_any_route() {
    let (_env, served) = with_a_run();
    for (method, path) in every_route(&served) {
        let stranger = served.send(&method, &path, &[("Host", &served.host), BROWSER], b"");
        is_problem(&stranger, 401, &format!("{method} {path}"));
    }
}

#[test]
fn a_wrong_token_is_refused_and_guessing_is_slowed_down() {
    let (_env, served) = with_a_run();
    let guess = || served.send("GET", "/api/runs", &[("Host", &served.host), ("Authorization", "Bearer wrong")], b"");
    for _ in 0..10 {
        is_problem(&guess(), 401, "a guess");
    }
    let held_off = guess();
    is_problem(&held_off, 429, "the eleventh guess");
    assert!(held_off.header("retry-after").is_some());
}

#[test]
fn rule_3_a_login_link_is_good_once_and_its_session_is_in_a_strict_cookie() {
    let (_env, served) = with_a_run();
    let path = served.login.strip_prefix(&served.url).unwrap();
    let browser = [("Host", served.host.as_str()), ("Sec-Fetch-Site", "none")];
    let answer = served.send("GET", path, &browser, b"");
    assert_eq!(answer.status, 303, "{}", answer.text());
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&served.token));
    is_problem(&served.send("GET", path, &browser, b""), 401, "the link again");
    let pair = cookie.split(';').next().unwrap();
    let origin = format!("http://{}", served.host);
    let session = [("Host", served.host.as_str()), ("Cookie", pair), BROWSER];
    served.send("GET", "/api/runs", &session, b"").with(200);
    // A page that changes something says where it is from.
    is_problem(&served.send("POST", "/api/ws-ticket", &session, b""), 403, "without Origin");
    let page = [session.as_slice(), &[("Origin", origin.as_str())]].concat();
    served.send("POST", "/api/ws-ticket", &page, b"").with(200);
    served.send("POST", "/api/logout", &page, b"").with(200);
    is_problem(&served.send("GET", "/api/runs", &session, b""), 401, "after the end of the session");
}

#[test]
fn rule_4_another_name_for_this_machine_is_misdirected_on_every_route() {
    let (_env, served) = with_a_run();
    let bearer = format!("Bearer {}", served.token);
    for (method, path) in every_route(&served) {
        for host in ["evil.example", "evil.example:3001", "127.0.0.1", ""] {
            let answer = served.send(&method, &path, &[("Host", host), ("Authorization", &bearer)], b"");
            is_problem(&answer, 421, &format!("{method} {path} {host:?}"));
        }
    }
}

#[test]
fn rule_5_6_and_7_no_page_of_another_origin_is_answered_on_any_route_and_no_answer_says_otherwise() {
    let (_env, served) = with_a_run();
    let bearer = format!("Bearer {}", served.token);
    for (method, path) in every_route(&served) {
        let about = format!("{method} {path}");
        for origin in ["http://evil.example", "null", "https://127.0.0.1"] {
            let headers = [("Host", served.host.as_str()), ("Authorization", &bearer), ("Origin", origin)];
            is_problem(&served.send(&method, &path, &headers, b""), 403, &about);
        }
        let headers = [("Host", served.host.as_str()), ("Authorization", &bearer), ("Sec-Fetch-Site", "cross-site")];
        is_problem(&served.send(&method, &path, &headers, b""), 403, &about);
        let preflight = [
            ("Host", served.host.as_str()),
            ("Origin", "http://evil.example"),
            ("Access-Control-Request-Method", "POST"),
        ];
        is_problem(&served.send("OPTIONS", &path, &preflight, b""), 403, &about);
        let good = served.ask(&method, &path, None);
        let cors = good.headers.iter().find(|(name, _)| name.to_lowercase().starts_with("access-control"));
        assert_eq!(cors, None, "{about}");
    }
    let form = [("Host", served.host.as_str()), ("Authorization", &bearer), ("Content-Type", "text/plain")];
    is_problem(&served.send("POST", "/api/runs", &form, b"{}"), 415, "a form");
}

#[test]
fn rule_8_a_websocket_is_opened_by_a_session_with_its_origin_by_a_ticket_or_not_at_all() {
    let (_env, served) = with_a_run();
    let id = served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/ws?runId={id}");
    let host = ("Host", served.host.as_str());
    let refused = served.upgrade(&path, &[host, BROWSER]).err().unwrap();
    is_problem(&refused, 401, "nobody");
    let refused = served.upgrade(&path, &[host, ("Origin", "http://evil.example")]).err().unwrap();
    is_problem(&refused, 403, "another page");
    let ticket = served.ask("POST", "/api/ws-ticket", Some(&json!({"runId": id}))).with(200);
    let ticket = ticket["ticket"].as_str().unwrap();
    let origin = format!("http://{}", served.host);
    let page = [host, ("Origin", origin.as_str())];
    let with_ticket = format!("{path}&ticket={ticket}");
    assert!(served.upgrade(&with_ticket, &page).is_ok());
    is_problem(&served.upgrade(&with_ticket, &page).err().unwrap(), 401, "the ticket again");
    let login = served.ask("POST", "/api/login-ticket", None).with(200)["ticket"].as_str().unwrap().to_owned();
    let cookie = served.send("GET", &format!("/login?ticket={login}"), &[host], b"");
    let cookie = cookie.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert!(served.upgrade(&path, &[host, ("Origin", origin.as_str()), ("Cookie", &cookie)]).is_ok());
    is_problem(&served.upgrade(&path, &[host, BROWSER, ("Cookie", &cookie)]).err().unwrap(), 403, "without Origin");
}

#[test]
fn rule_9_and_11_every_answer_forbids_what_a_page_does_not_need() {
    let (_env, served) = with_a_run();
    for (method, path) in every_route(&served).into_iter().filter(|(_, path)| path != "/ws") {
        let answer = served.ask(&method, &path, None);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
    }
    let page = served.ask("GET", "/", None);
    let tag = page.header("etag").unwrap();
    assert_eq!(served.ask_with("GET", "/", &[("If-None-Match", tag)], None).status, 304);
}

#[test]
fn rule_13_a_session_answers_only_so_many_approvals_a_second() {
    let (_env, served) = with_a_run();
    let answer = json!({"resolution": {"status": "approved"}});
    let path = "/api/approvals/00000000-0000-7000-8000-000000000000/resolve";
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking = || served.ask("POST", path, Some(&answer)).status;
        let all: Vec<_> = (0..40).map(|_| scope.spawn(asking)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| matches!(status, 404 | 429)), "{statuses:?}");
    assert!(statuses.contains(&404), "{statuses:?}");
}

#[test]
fn rule_14_and_19_there_is_no_route_for_a_command_and_no_flag_in_an_address() {
    let (_env, served) = with_a_run();
    for path in ["/api/terminal", "/api/exec", "/api/fs/list?path=/", "/pty", "/file/content?path=/etc/passwd"] {
        is_problem(&served.ask("GET", path, None), 404, path);
    }
    for id in ["..%2f..%2fetc", "--config", "%2e%2e", "a%2fb", "%ff", "@last", "2026"] {
        is_problem(&served.ask("GET", &format!("/api/runs/{id}"), None), 404, id);
    }
}

#[test]
fn rule_15_an_agent_that_is_not_confined_cannot_pass_for_its_user() {
    let env = TestEnvironment::new(json!({}));
    env.script_unconfined(json!({
        "do": [[
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]],
    }));
    let served = serve(&env);
    let plain = |path: &str| served.send("GET", path, &[("Host", &served.host)], b"");
    plain("/api/runs").with(200);
    served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201);
    env.wait_for("started");
    for (method, path) in every_route(&served) {
        let answer = served.send(&method, &path, &[("Host", &served.host)], b"");
        is_problem(&answer, 401, &format!("{method} {path}"));
    }
    is_problem(&served.upgrade("/ws?runId=x", &[("Host", &served.host)]).err().unwrap(), 401, "/ws");
    env.touch("go");
    crate::environment::eventually("the agent is gone", || plain("/api/runs").status == 200);
}

#[test]
fn the_own_user_on_this_machine_needs_no_token_for_the_websocket_either() {
    let (_env, served) = with_a_run();
    let run = served.send("GET", "/api/runs", &[("Host", &served.host)], b"").with(200)["runs"][0].clone();
    let path = format!("/ws?runId={}&since=0", run["id"].as_str().unwrap());
    let mut socket = served.upgrade(&path, &[("Host", &served.host)]).ok().unwrap();
    assert!(matches!(socket.next(), Frame::Event(_)));
}

#[test]
fn rule_18_what_is_logged_of_a_request_holds_no_secret() {
    let mut env = TestEnvironment::new(json!({}));
    env.env.insert("NORMA_LOG".to_owned(), "info".to_owned());
    let served = serve(&env);
    served.ask("GET", "/api/runs?limit=7", None).with(200);
    served.ask("POST", "/api/runs", Some(&json!({"goal": ""}))).with(400);
    let log = served.norma.stderr();
    assert!(log.contains("/api/runs"), "{log}");
    for secret in [served.token.as_str(), "limit=7", "ticket=", "goal"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
