//! `norma serve` from outside: a real process, spoken to over TCP.

mod approvals;
pub(crate) mod client;
mod detached;
mod forks;
mod intake;
mod limits;
mod review;
mod security;
mod sentence;
mod streams;
mod team;
mod work;

use crate::environment::{TestEnvironment, eventually};
use crate::terminals::waiting_run;
pub(crate) use client::{Frame, Served, Socket, serve, serve_at};
use serde_json::{Value, json};

/// A server with one run that has passed.
fn with_a_run() -> (TestEnvironment, Served) {
    let env = TestEnvironment::new(json!({}));
    env.norma(&["run", "1"]).success();
    let served = serve(&env);
    (env, served)
}

#[test]
fn a_server_says_where_it_listens_and_shows_every_run() {
    let (env, served) = with_a_run();
    assert!(served.login.starts_with(&format!("{}/login?ticket=", served.url)));
    let healthz = served.send("GET", "/healthz", &[("Host", &served.host)], b"");
    assert_eq!((healthz.status, healthz.text().as_str()), (200, r#"{"ok":true}"#));
    let list = served.get("/api/runs");
    assert_eq!((list["runs"].as_array().unwrap().len(), &list["next"]), (1, &Value::Null));
    let id = list["runs"][0]["id"].as_str().unwrap().to_owned();
    let run = served.get(&format!("/api/runs/{id}"));
    assert_eq!(run["run"], list["runs"][0]);
    assert_eq!((&run["run"]["status"], &run["run"]["phase"]), (&json!("completed"), &json!("DONE")));
    assert_eq!(run["run"]["nodes"].as_object().unwrap().len(), 4);
    let shown = env.last();
    assert_eq!(served.get(&format!("/api/runs/{id}?view=norma")), shown);
    let by_slug = served.get(&format!("/api/runs/{}", shown["run_id"].as_str().unwrap()));
    assert_eq!(by_slug, run);
    assert!(served.ask("GET", "/metrics", None).text().contains("norma_runs{state=\"succeeded\"} 1"));
}

#[test]
fn everything_that_happened_is_told_oldest_first_page_by_page() {
    let (_env, served) = with_a_run();
    let id = served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let whole = served.get(&format!("/api/runs/{id}/events"));
    let events = whole["events"].as_array().unwrap();
    assert_eq!(whole["next"], Value::Null);
    assert!(events.iter().all(|event| ["id", "runId", "ts", "type"].iter().all(|name| event[name].is_string())));
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted() && !seqs.is_empty());
    let (mut paged, mut since) = (Vec::new(), 0);
    loop {
        let page = served.get(&format!("/api/runs/{id}/events?since={since}&limit=3"));
        paged.extend(page["events"].as_array().unwrap().iter().cloned());
        match page["next"].as_u64() {
            Some(next) => since = next,
            None => break,
        }
    }
    assert_eq!(&paged, events);
}

/// Every text in a value, with the name of its member.
fn texts(value: &Value, name: &str, each: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| texts(value, name, each)),
        Value::Array(values) => values.iter().for_each(|value| texts(value, name, each)),
        Value::String(text) => each(name, text),
        _ => {}
    }
}

#[test]
fn times_are_utc_and_references_to_artifacts_lead_to_them() {
    let env = TestEnvironment::with_patch(crate::environment::PATCH);
    env.norma(&["run", "1"]).success();
    let served = serve(&env);
    let run = served.get("/api/runs")["runs"][0].clone();
    let id = run["id"].as_str().unwrap();
    let events = served.get(&format!("/api/runs/{id}/events"))["events"].clone();
    let (mut times, mut references) = (0, Vec::new());
    let is_time = |text: &str| {
        let form = "0000-00-00T00:00:00.000Z".chars();
        let fits = |(c, form): (char, char)| if form == '0' { c.is_ascii_digit() } else { c == form };
        text.len() == 24 && text.chars().zip(form).all(fits)
    };
    for value in [&run, &events] {
        texts(value, "", &mut |name, text| {
            if name == "ts" || name.ends_with("At") {
                assert!(is_time(text), "{name}: {text}");
                times += 1;
            }
            let is_reference = name == "ref" || text.starts_with("artifact:");
            references.extend(is_reference.then(|| text.to_owned()));
        });
    }
    assert!(times > 20 && !references.is_empty(), "{times} {references:?}");
    for reference in references {
        let artifact = reference.strip_prefix("artifact://").unwrap_or_else(|| panic!("{reference}"));
        let found = served.get(&format!("/api/runs/{id}/artifacts/{artifact}"));
        assert_eq!(found["artifact"]["id"], json!(artifact));
    }
}

#[test]
fn files_bundle_changes_and_verification_of_a_run_are_served() {
    let (_env, served) = with_a_run();
    let run = served.get("/api/runs")["runs"][0].clone();
    let id = run["id"].as_str().unwrap();
    let artifacts = run["artifacts"].as_object().unwrap();
    assert!(!artifacts.is_empty());
    for (artifact, known) in artifacts {
        let found = served.get(&format!("/api/runs/{id}/artifacts/{artifact}"));
        assert_eq!(&found["artifact"], known);
        assert!(found["content"].is_string());
        let file = served.ask("GET", &format!("/api/runs/{id}/artifacts/{artifact}?download=1"), None);
        assert_eq!(file.text(), found["content"].as_str().unwrap());
        assert!(file.header("content-disposition").unwrap().starts_with("attachment"));
        assert!(file.header("content-security-policy").unwrap().starts_with("sandbox"));
    }
    served.ask("GET", &format!("/api/runs/{id}/artifacts/nothing"), None).with(404);
    assert_eq!(served.get(&format!("/api/runs/{id}/verify"))["verified"], json!(true));
    assert!(served.get(&format!("/api/runs/{id}/changes"))["patch"].is_string());
    let bundle = served.ask("GET", &format!("/api/runs/{id}/bundle"), None);
    assert_eq!((bundle.status, bundle.header("content-type")), (200, Some("application/x-tar")));
    assert!(bundle.body.len() > 1024 && bundle.body.len() % 512 == 0);
    let replayed = served.ask("POST", &format!("/api/runs/{id}/replay"), None).with(200);
    assert_eq!(replayed["status"], json!("pass"));
}

#[test]
fn a_server_beside_a_foreground_owner_gives_up_or_waits() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    let output = env.norma(&["serve", "--port", "0"]);
    output.exits(4);
    assert!(output.err().contains("norma run 1"), "{output}");
    let waiting = env.spawn(&["serve", "--port", "0", "--wait"]);
    eventually("it waits", || waiting.stderr().contains("waiting for"));
    env.touch("go");
    running.wait().success();
    eventually("it listens", || waiting.stdout().contains("listening on http://127.0.0.1:"));
    waiting.signal("TERM");
    waiting.wait().success();
}

#[test]
fn what_a_dead_owner_was_driving_is_continued_and_what_a_person_paused_stays_paused() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    running.signal("INT");
    running.wait().exits(130);
    let paused = env.last()["run_id"].as_str().unwrap().to_owned();
    std::fs::remove_file(env.dir.join("started")).unwrap();
    let running = waiting_run(&env, &["run", "1", "--new"]);
    let killed = env.last()["run_id"].as_str().unwrap().to_owned();
    running.signal("KILL");
    running.wait();
    env.touch("go");
    let served = serve(&env);
    eventually("the run of the dead owner has come to its end", || {
        served.get(&format!("/api/runs/{killed}"))["run"]["status"] == json!("completed")
    });
    assert_eq!(served.get(&format!("/api/runs/{paused}"))["run"]["status"], json!("paused"));
    served.norma.signal("TERM");
    served.norma.wait().success();
    env.norma(&["verify", &killed]).success();
}

#[test]
fn a_server_that_is_asked_to_end_interrupts_turns_closes_streams_and_the_next_one_continues() {
    let env = TestEnvironment::new(json!({}));
    env.configure(|config| config["server"] = json!({"drain_seconds": 0}));
    env.script_unconfined(json!({
        "do": [[
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]],
    }));
    env.configure(|config| config["server"] = json!({"drain_seconds": 0}));
    let served = serve(&env);
    let run = served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201)["run"].clone();
    let id = run["id"].as_str().unwrap();
    env.wait_for("started");
    let mut socket = served.watch(&format!("runId={id}&since=0"));
    socket.until(|event| event["type"] == "node.progress");
    served.norma.signal("TERM");
    let closed = loop {
        match socket.next() {
            Frame::Event(_) => {}
            other => break other,
        }
    };
    assert!(matches!(closed, Frame::Close(1001, _)), "{closed:?}");
    served.norma.wait().success();
    let left = env.json(&["show", id]);
    assert_eq!((&left["status"], &left["reason"]), (&json!("paused"), &json!("interrupted")));
    env.touch("go");
    let served = serve(&env);
    eventually("the next server has brought it to its end", || {
        served.get(&format!("/api/runs/{id}"))["run"]["status"] == json!("completed")
    });
}

#[test]
fn a_server_in_the_background_is_found_and_ended() {
    let env = TestEnvironment::new(json!({}));
    let started = env.json(&["serve", "--background", "--port", "0"]);
    let pid = started["pid"].as_u64().unwrap();
    assert_eq!(env.read(".norma/server.pid").trim(), pid.to_string());
    assert!(env.read(".norma/server.log").contains(started["url"].as_str().unwrap()));
    let again = env.json(&["serve", "--background"]);
    assert_eq!(again["pid"], started["pid"]);
    let link = env.json(&["open", "--print"]);
    assert!(link["login"].as_str().unwrap().contains("/login?ticket="), "{link}");
    use std::os::unix::fs::PermissionsExt;
    let log = std::fs::metadata(env.root.join(".norma/server.log")).unwrap().permissions();
    assert_eq!(log.mode() & 0o777, 0o600, "it has a login link");
    env.norma(&["serve", "--stop"]).success();
    assert!(!env.root.join(".norma/server.pid").exists());
    env.norma(&["serve", "--stop"]).exits(1);
}

#[test]
fn a_server_in_the_background_names_a_foreground_owner_or_waits_for_it() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    let output = env.norma(&["serve", "--background", "--port", "0"]);
    output.exits(4);
    assert!(output.err().contains("norma run 1") && output.err().contains("--wait"), "{output}");
    let waiting = env.spawn(&["serve", "--background", "--wait", "--port", "0", "--json"]);
    eventually("the server waits", || {
        std::fs::read_to_string(env.root.join(".norma/server.log")).is_ok_and(|log| log.contains("waiting for"))
    });
    env.touch("go");
    running.wait().success();
    let started: Value = serde_json::from_str(&waiting.wait().success().raw).unwrap();
    assert!(started["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{started}");
    env.norma(&["serve", "--stop"]).success();
}

#[test]
fn a_server_in_the_background_is_told_everything_that_was_typed() {
    let env = TestEnvironment::new(json!({}));
    let output = env.norma(&["serve", "--background", "--port", "0", "--user-file", "nobody.json"]);
    output.exits(4);
    assert!(output.err().contains(".norma/server.log"), "{output}");
    assert!(env.read(".norma/server.log").contains("nobody.json"), "{}", env.read(".norma/server.log"));
}

#[test]
fn the_browser_is_opened_with_a_link_that_logs_in() {
    let mut env = TestEnvironment::new(json!({}));
    let (programs, opened) = (env.dir.join("programs"), env.dir.join("opened"));
    std::fs::create_dir(&programs).unwrap();
    std::fs::write(programs.join("xdg-open"), format!("#!/bin/sh\necho \"$1\" >> '{}'\n", opened.display())).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(programs.join("xdg-open"), PermissionsExt::from_mode(0o755)).unwrap();
    env.find_first_in(&programs);
    let links = || std::fs::read_to_string(&opened).unwrap_or_default();
    let url = env.json(&["serve", "--background", "--open", "--port", "0"])["url"].as_str().unwrap().to_owned();
    eventually("the browser is opened", || links().starts_with(&format!("{url}/login?ticket=")));
    crate::progress::Terminal::start(&env, "xterm", &["open"]).exits(0);
    eventually("it is opened again", || links().lines().count() == 2);
    env.norma(&["open"]).success();
    env.norma(&["serve", "--stop"]).success();
    assert_eq!(links().lines().count(), 2, "only whoever is at a terminal has a browser");
    let server = env.spawn(&["serve", "--open", "--port", "0"]);
    eventually("a server in the foreground opens it, too", || links().lines().count() == 3);
    server.signal("TERM");
    server.wait().success();
}

#[test]
fn a_repository_that_norma_has_never_seen_can_be_served() {
    let env = TestEnvironment::unseen();
    let served = serve(&env);
    assert_eq!(served.get("/api/runs")["runs"], json!([]));
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_link_to_a_run_logs_in_and_leads_to_its_own_address() {
    let (env, served) = with_a_run();
    let slug = env.last()["run_id"].as_str().unwrap().to_owned();
    let link = env.json(&["open", "@last"]);
    let place = format!("/run/{slug}");
    assert_eq!((&link["run_id"], &link["url"]), (&json!(slug), &json!(format!("{}{place}", served.url))));
    let path = link["login"].as_str().unwrap().strip_prefix(&served.url).unwrap().to_owned();
    let answer = served.send("GET", &path, &[("Host", &served.host)], b"");
    assert_eq!((answer.status, answer.header("location")), (303, Some(place.as_str())));
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let shown = served.send("GET", &place, &[("Host", &served.host), ("Cookie", &cookie)], b"");
    assert_eq!((shown.status, shown.header("content-type")), (200, Some("text/html; charset=utf-8")));
    // Nothing else can be led to.
    let other = env.json(&["open"])["login"].as_str().unwrap().strip_prefix(&served.url).unwrap().to_owned();
    let elsewhere = served.send("GET", &format!("{other}&run=//example.org"), &[("Host", &served.host)], b"");
    assert!(elsewhere.status >= 400 && elsewhere.header("set-cookie").is_none(), "{}", elsewhere.status);
    env.norma(&["open", "nothing"]).exits(2);
    // Without a browser, and with a terminal, the link is printed all the same.
    assert!(env.norma(&["open", "@last"]).success().raw.contains(&format!("&run={slug}")));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let env = TestEnvironment::new(json!({}));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = env.norma(&["serve", "--port", &port]);
    output.exits(4);
    assert!(output.err().contains(&port), "{output}");
    drop(serve_at(&env, 0, &[]));
}

#[test]
fn a_run_is_watched_line_by_line_until_it_has_ended() {
    let env = TestEnvironment::new(json!({}));
    let running = waiting_run(&env, &["run", "1"]);
    let watching = env.spawn(&["watch", "@last", "--json"]);
    let all = env.spawn(&["watch"]);
    eventually("it is watched", || watching.stdout().contains("step_started"));
    env.touch("go");
    running.wait().success();
    let watched = watching.wait();
    watched.success();
    assert_eq!(watched.raw, env.norma(&["events", "@last", "--json"]).raw);
    eventually("whoever watches all runs is told, too", || all.stdout().contains("run_passed"));
}

#[test]
fn what_is_asked_is_printed_as_it_is_asked_and_answered() {
    let env = crate::batches::with_worker("echo new > src/new.txt");
    env.with_most_in_src();
    let watching = env.spawn(&["approvals", "--watch"]);
    env.norma(&["run", "--goal", "make it new", "--agent", "worker", "--allow", "src"]).exits(3);
    eventually("it is printed", || watching.stdout().contains("pending"));
    let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    env.norma(&["deny", &id, "--reason", "not now"]).success();
    eventually("its answer is printed", || watching.stdout().contains("denied by Ada <ada@example.org>: not now"));
}
