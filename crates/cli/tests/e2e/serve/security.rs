//! The rules of a local web server, each over every route that there is: the routes are those of `/openapi.json`, so a
//! new one is asked, too.

use super::client::{Answer, Frame, Served, serve};
use super::with_a_run;
use crate::environment::TestEnvironment;
use serde_json::{Value, json};

/// Every route with something in place of what its path names, and the methods that it has.
fn every_route(served: &Served) -> Vec<(String, String)> {
    every_route_of(&served.get("/openapi.json"))
}

pub(super) fn every_route_of(document: &Value) -> Vec<(String, String)> {
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

pub(super) fn is_problem(answer: &Answer, status: u16, about: &str) {
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
fn rule_2_nobody_is_answered_without_saying_who_they_are_on_any_route() {
    let (_env, served) = with_a_run();
    assert!(served.token.len() >= 32, "a token has 128 bits or more");
    for (method, path) in every_route(&served) {
        let stranger = served.send(&method, &path, &[("Host", &served.host), BROWSER], b"");
        is_problem(&stranger, 401, &format!("{method} {path}"));
    }
}

#[test]
fn rule_16_errors_health_numbers_and_preflights_are_checked_like_everything_else() {
    let (_env, served) = with_a_run();
    let bearer = format!("Bearer {}", served.token);
    let unusual = ["/healthz", "/metrics", "/openapi.json", "/", "/nowhere", "/api/nowhere", "/login", "/favicon.ico"];
    for path in unusual {
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "TRACE"] {
            let about = format!("{method} {path}");
            let ask = |headers: &[(&str, &str)]| served.send(method, path, headers, b"").status;
            let host = ("Host", served.host.as_str());
            assert_eq!(ask(&[host, BROWSER]), 401, "{about}");
            assert_eq!(ask(&[("Host", "evil.example"), ("Authorization", &bearer)]), 421, "{about}");
            assert_eq!(ask(&[host, ("Authorization", &bearer), ("Origin", "http://evil.example")]), 403, "{about}");
        }
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
    let ticket = served.send("GET", "/login?ticket=wrong", &[("Host", &served.host)], b"");
    is_problem(&ticket, 429, "a ticket is guessed like a token");
    // Whoever guesses locks nobody out who has the token, or the link that was printed.
    let bearer = format!("Bearer {}", served.token);
    served.send("GET", "/api/runs", &[("Host", &served.host), ("Authorization", &bearer)], b"").with(200);
    let path = served.login.strip_prefix(&served.url).unwrap();
    let login = served.send("GET", path, &[("Host", &served.host), ("Sec-Fetch-Site", "none")], b"");
    assert_eq!(login.status, 303, "{}", login.text());
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
fn rule_5_no_page_of_another_origin_is_answered_on_any_route() {
    let (_env, served) = with_a_run();
    let bearer = format!("Bearer {}", served.token);
    let base = [("Host", served.host.as_str()), ("Authorization", bearer.as_str())];
    let port = served.port().to_string();
    let near = format!("http://localhost:{port}");
    for (method, path) in every_route(&served) {
        let about = format!("{method} {path}");
        for origin in ["http://evil.example", "null", "https://127.0.0.1", "", near.as_str()] {
            let headers = [&base[..], &[("Origin", origin)]].concat();
            is_problem(&served.send(&method, &path, &headers, b""), 403, &format!("{about} {origin}"));
        }
        for site in ["cross-site", "same-site", ""] {
            let headers = [&base[..], &[("Sec-Fetch-Site", site)]].concat();
            is_problem(&served.send(&method, &path, &headers, b""), 403, &format!("{about} {site}"));
        }
    }
}

#[test]
fn rule_6_no_answer_lets_another_origin_read_it_and_preflights_are_refused() {
    let (_env, served) = with_a_run();
    for (method, path) in every_route(&served) {
        let about = format!("{method} {path}");
        for origin in ["http://evil.example", &format!("http://{}", served.host)] {
            let preflight =
                [("Host", served.host.as_str()), ("Origin", origin), ("Access-Control-Request-Method", "POST")];
            is_problem(&served.send("OPTIONS", &path, &preflight, b""), 403, &about);
        }
        let good = served.ask(&method, &format!("{path}?callback=x"), None);
        let cors = good.headers.iter().find(|(name, _)| name.to_lowercase().starts_with("access-control"));
        assert_eq!(cors, None, "{about}");
        assert!(!good.header("content-type").unwrap_or_default().contains("javascript"), "{about}");
    }
}

#[test]
fn rule_7_what_changes_something_is_json_and_of_the_own_origin_on_every_route() {
    let (_env, served) = with_a_run();
    let bearer = format!("Bearer {}", served.token);
    let cookie = session(&served);
    let host = ("Host", served.host.as_str());
    for (method, path) in every_route(&served).into_iter().filter(|(method, _)| method != "GET") {
        let about = format!("{method} {path}");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"] {
            let form = [host, ("Authorization", bearer.as_str()), ("Content-Type", kind)];
            let refused = served.send(&method, &path, &form, b"{}");
            assert!(matches!(refused.status, 415 | 405 | 404), "{about} {kind}: {}", refused.text());
            assert!(refused.status == 415 || path.contains("healthz"), "{about} {kind}: {}", refused.text());
        }
        let page = [host, ("Cookie", cookie.as_str()), BROWSER, ("Content-Type", "application/json")];
        is_problem(&served.send(&method, &path, &page, b"{}"), 403, &about);
    }
}

/// The cookie of a session.
fn session(served: &Served) -> String {
    let login = served.ask("POST", "/api/login-ticket", None).with(200)["ticket"].as_str().unwrap().to_owned();
    let answer = served.send("GET", &format!("/login?ticket={login}"), &[("Host", &served.host)], b"");
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
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
    let cookie = session(&served);
    let in_session = [host, ("Origin", origin.as_str()), ("Cookie", cookie.as_str())];
    let mut watching = served.upgrade(&path, &in_session).ok().unwrap();
    served.send("POST", "/api/logout", &in_session, b"").with(200);
    assert!(matches!(watching.next(), Frame::Close(1008, _)), "a stream ends with the session that opened it");
    is_problem(&served.upgrade(&path, &in_session).err().unwrap(), 401, "after the end of the session");
    let cookie = session(&served);
    // A ticket for one run opens no other.
    let other = served.ask("POST", "/api/ws-ticket", Some(&json!({"runId": id}))).with(200);
    let elsewhere =
        format!("/ws?runId=00000000-0000-7000-8000-000000000000&ticket={}", other["ticket"].as_str().unwrap());
    is_problem(&served.upgrade(&elsewhere, &page).err().unwrap(), 401, "a ticket for another run");
    is_problem(&served.upgrade(&path, &[host, BROWSER, ("Cookie", &cookie)]).err().unwrap(), 403, "without Origin");
}

#[test]
fn rule_9_every_answer_forbids_what_a_page_does_not_need() {
    let (_env, served) = with_a_run();
    for (method, path) in every_route(&served).into_iter().filter(|(_, path)| path != "/ws") {
        let answer = served.ask(&method, &path, None);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        let own = format!("ws://{}", served.host);
        let forbidden = ["default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"];
        let more = ["form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", own.as_str()];
        for part in forbidden.iter().chain(&more) {
            assert!(policy.contains(part), "{path}: {part} in {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{path}: {policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
    }
    let page = served.ask("GET", "/", None);
    let tag = page.header("etag").unwrap();
    assert_eq!(served.ask_with("GET", "/", &[("If-None-Match", tag)], None).status, 304);
    let text = page.text();
    assert!(!text.contains("<script>") && !text.contains("style=") && !text.contains("http"), "{text}");
}

#[test]
fn rule_10_what_an_agent_wrote_is_never_a_page() {
    const MARKUP: &str = "<script>alert(1)</script><img src=http://evil.example/x>";
    let env = crate::batches::with_worker(&format!("echo '{MARKUP}' >> src/lib.txt; echo '{MARKUP}' >&2"));
    let goal = format!("say {MARKUP}");
    env.norma(&["run", "--goal", &goal, "--agent", "worker", "--allow", "src/lib.txt"]).success();
    let served = serve(&env);
    let run = served.get("/api/runs")["runs"][0].clone();
    assert!(run.to_string().contains("<script>"), "it is there as text: {run}");
    let id = run["id"].as_str().unwrap();
    let artifacts: Vec<&String> = run["artifacts"].as_object().unwrap().keys().collect();
    let own = served.ask("GET", "/", None).text();
    assert!(!own.contains("evil"));
    let paths = every_route(&served).into_iter().filter(|(method, path)| method == "GET" && path != "/ws");
    for (_, path) in paths.filter(|(_, path)| !path.ends_with("/stream")) {
        let of_artifact = path.contains("/artifacts/");
        let path = path.replacen("nothing", id, 1);
        let all = if of_artifact { &artifacts[..] } else { &artifacts[..1] };
        for artifact in all {
            for query in ["", "?download=1"].into_iter().filter(|query| of_artifact || query.is_empty()) {
                let path = format!("{}{query}", path.replace("nothing", artifact));
                let answer = served.ask("GET", &path, None);
                let kind = answer.header("content-type").unwrap_or_default().to_owned();
                assert!(!kind.contains("html") || answer.text() == own, "{path}: {kind}");
                assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
                let markup = answer.text().contains("<script>alert");
                let kept = answer.header("content-disposition").is_some_and(|how| how.starts_with("attachment"));
                assert!(!markup || kept || kind == "application/json", "{path}: {kind}");
            }
        }
    }
}

#[test]
fn rule_11_a_file_is_found_by_its_id_within_its_run_and_is_kept_not_shown() {
    let (env, served) = with_a_run();
    let run = served.get("/api/runs")["runs"][0].clone();
    let path = format!("/api/runs/{}/artifacts", run["id"].as_str().unwrap());
    for name in ["..%2f..%2fetc%2fpasswd", "%2e%2e", "events.jsonl", "steps%2f001-plan%2foutput.json", "%00", "nothing"]
    {
        is_problem(&served.ask("GET", &format!("{path}/{name}"), None), 404, name);
        is_problem(&served.ask("GET", &format!("{path}/{name}?download=1"), None), 404, name);
    }
    let artifact = run["artifacts"].as_object().unwrap().values().find(|it| it["kind"] == "report").unwrap();
    let id = artifact["id"].as_str().unwrap();
    let file = served.ask("GET", &format!("{path}/{id}?download=1"), None);
    assert!(file.header("content-disposition").unwrap().starts_with("attachment"));
    assert_eq!(file.header("content-type"), Some("application/octet-stream"));
    assert!(file.header("content-security-policy").unwrap().starts_with("sandbox"));
    assert_eq!(file.header("cross-origin-resource-policy"), Some("same-origin"));
    // What lies there now is not what is on record.
    let on_disk = std::path::Path::new(artifact["path"].as_str().unwrap());
    std::fs::remove_file(on_disk).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", on_disk).unwrap();
    let again = served.ask("GET", &format!("{path}/{id}?download=1"), None);
    assert!(!again.text().contains("root:"), "a link was followed");
    drop(env);
}

/// What nobody can have too much of, on every route; what a connection can have too much of is in `limits`.
#[test]
fn rule_12_bodies_and_addresses_have_an_end_on_every_route() {
    let (_env, served) = with_a_run();
    let bearer = format!("Bearer {}", served.token);
    let base = [("Host", served.host.as_str()), ("Authorization", bearer.as_str())];
    let json = [&base[..], &[("Content-Type", "application/json")]].concat();
    let long = vec![b' '; (1 << 20) + 1];
    let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
    for (method, path) in every_route(&served) {
        let about = format!("{method} {path}");
        let address = format!("{path}?x={}", "a".repeat(8 << 10));
        is_problem(&served.send(&method, &address, &base, b""), 414, &about);
        if method == "GET" || method == "PUT" {
            continue;
        }
        is_problem(&served.send(&method, &path, &json, &long), 413, &about);
        let answer = served.send(&method, &path, &json, deep.as_bytes());
        assert!(matches!(answer.status, 400 | 404) || answer.status == 200, "{about}: {}", answer.text());
    }
    let refused = served.send("POST", "/api/runs", &json, format!("{{\"contract\":{deep}}}").as_bytes()).with(400);
    assert!(refused.to_string().contains("deep"), "{refused}");
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
fn rule_14_there_is_no_route_for_a_command() {
    let (_env, served) = with_a_run();
    for path in ["/api/terminal", "/api/exec", "/api/fs/list?path=/", "/pty", "/file/content?path=/etc/passwd"] {
        is_problem(&served.ask("GET", path, None), 404, path);
        is_problem(&served.ask("POST", path, None), 404, path);
    }
    // No body of any route has a member that is run, but for contracts and what a person allows instead.
    let document = served.get("/openapi.json");
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let name = schema["$ref"].as_str().and_then(|place| place.rsplit('/').next()).unwrap_or_default();
            let of_runs = matches!(
                name,
                "NewRun" | "NewIntake" | "ResolveApproval" | "PatchRun" | "ResumeRun" | "ReplayRun" | ""
            );
            // A node names an entry of the trusted configuration; what it is told is no command.
            let of_graphs = matches!(name, "AddNode" | "PatchNode" | "SetEdge" | "Chat" | "PutTemplate");
            // What somebody wants, in words; a plan's commands come from its compiler and go through the gates.
            let of_intents = matches!(name, "Intent" | "StartIntent" | "RunEvent");
            // An event, and words for whoever fixes a change; its tests are those that it was judged by.
            let of_reviews = matches!(name, "ForkRun" | "NewComment" | "SendBack");
            assert!(of_runs || of_graphs || of_intents || of_reviews, "{method} {path} takes {name}");
            let members = document["components"]["schemas"][name]["properties"].as_object().cloned();
            for member in members.unwrap_or_default().keys() {
                assert!(!["cmd", "command", "argv", "shell", "exec"].contains(&member.as_str()), "{name}.{member}");
            }
        }
    }
}

#[test]
fn rule_17_nothing_relies_on_what_a_browser_may_leave_out() {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    // With users nobody is taken for somebody by where they are.
    let team = super::team::Team::serve(&env);
    let cookie = team.session("admin");
    for (method, path) in every_route_of(&team.get("admin", "/openapi.json")) {
        let about = format!("{method} {path}");
        let answer = team.send(&method, &path, &[("Cookie", &cookie)], b"");
        match method.as_str() {
            // A browser that says nothing of where a page is from still shows what it may look at.
            "GET" if path != "/ws" => assert!(!matches!(answer.status, 401 | 403), "{about}: {}", answer.text()),
            "GET" => assert!(matches!(answer.status, 400 | 426), "{about}: {}", answer.text()),
            _ => is_problem(&answer, 401, &about),
        }
    }
    let id = team.get("admin", "/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];
    let key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let headers = [&upgrade[..], &[key, ("Cookie", &cookie)]].concat();
    is_problem(&team.send("GET", &format!("/ws?runId={id}"), &headers, b""), 401, "a socket without Origin");
}

#[test]
fn rule_19_nothing_in_an_address_is_a_flag_or_a_path() {
    let (_env, served) = with_a_run();
    for (method, path) in every_route(&served).into_iter().filter(|(_, path)| path.contains("nothing")) {
        for id in ["..%2f..%2fetc", "--config", "%2e%2e", "a%2fb", "%ff", "@last", "2026", "%00", "-"] {
            let path = path.replace("nothing", id);
            let answer = served.ask(&method, &path, None);
            assert!(matches!(answer.status, 404 | 400), "{method} {path}: {} {}", answer.status, answer.text());
        }
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
