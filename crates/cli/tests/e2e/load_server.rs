//! `norma serve` under clients that nobody would want: slow ones, loud ones, many of them, and bytes that mean nothing.
//! Each is ended by itself: whoever watches a run all the while is told what happens, others are answered, and memory and
//! descriptors come back. `NORMA_SOAK` makes it long (`cargo xtask soak server`).

use crate::environment::{TestEnvironment, eventually};
use crate::serve::{Frame, Served, Socket, serve};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// So much of something in the tests, and so much where somebody has the time.
pub(crate) fn so_many(few: usize, many: usize) -> usize {
    if is_long() { many } else { few }
}

/// Whether somebody has the time.
pub(crate) fn is_long() -> bool {
    std::env::var_os("NORMA_SOAK").is_some()
}

/// More than a server needs for whatever is done here at once: bodies of a few connections, and what they are parsed to.
/// Without limits, it would be gigabytes.
const GROWTH_KB_MAX: u64 = 128 << 10;

/// How many descriptors a server keeps that it has once needed: sixteen readers of the database with two files each, and
/// a few that are about to be closed.
const KEPT_OPEN: usize = 40;

/// A server with a run whose agent goes on when it is told to, and somebody who watches it.
struct Watched {
    env: TestEnvironment,
    served: Served,
    id: String,
    socket: Socket,
    /// Resident memory and descriptors before anything was done.
    before: (u64, usize),
}

impl Watched {
    fn new(connections: usize) -> Watched {
        let env = TestEnvironment::new(json!({}));
        let turn = json!([
            {"write_abs": {"path": env.at("started"), "content": ""}},
            {"wait_for": env.at("go")},
            {"write": {"path": "files/test.log", "content": "ok"}},
        ]);
        env.script_unconfined(json!({"do": [turn]}));
        env.configure(|config| config["server"] = json!({"connections": connections}));
        let served = serve(&env);
        let run = served.ask("POST", "/api/runs", Some(&json!({"goal": "make two loud"}))).with(201)["run"].clone();
        let id = run["id"].as_str().unwrap().to_owned();
        env.wait_for("started");
        let mut socket = served.watch(&format!("runId={id}&since=0"));
        assert!(matches!(socket.next(), Frame::Event(_)));
        let before = (resident_kb(&served), descriptors(&served));
        Watched { env, served, id, socket, before }
    }

    /// Others are answered, and whoever watched from before is told how the run ends, and everything until then, once.
    #[track_caller]
    fn ends_unaffected(mut self) {
        self.answers();
        self.env.touch("go");
        let is_end = |event: &Value| event["patch"]["status"] == "completed";
        let told = self.socket.until(is_end);
        let history = self.served.get(&format!("/api/runs/{}/events", self.id))["events"].as_array().unwrap().clone();
        let ids = |events: &[Value]| -> Vec<Value> {
            events.iter().filter(|event| event["seq"].is_u64()).map(|event| event["id"].clone()).collect()
        };
        let (told, history) = (ids(&told), ids(&history));
        assert_eq!(told, history[1..=told.len()], "the first one came before");
        let (kb, open) = self.before;
        eventually("the connections are gone", || descriptors(&self.served) <= open + KEPT_OPEN);
        let grown = resident_kb(&self.served).saturating_sub(kb);
        assert!(grown < GROWTH_KB_MAX, "{grown} kB more than before");
        assert!(!self.served.norma.stderr().contains("panicked"), "{}", self.served.norma.stderr());
        self.env.norma(&["verify", "@last"]).success();
    }

    #[track_caller]
    fn answers(&self) {
        eventually("others are answered", || self.served.ask("GET", "/healthz", None).status == 200);
    }

    fn head(&self, method: &str, path: &str, more: &str) -> String {
        let Served { host, token, .. } = &self.served;
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
    }
}

fn resident_kb(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.norma.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn descriptors(served: &Served) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", served.norma.pid())).unwrap().count()
}

/// Numbers that are the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }
}

/// Reads until the server closes the connection, which it does.
#[track_caller]
fn drained(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(why) = stream.read_to_end(&mut bytes) {
        assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset, "{why}: {}", String::from_utf8_lossy(&bytes));
    }
    bytes
}

#[test]
fn frames_of_dice_end_their_own_sockets_alone() {
    let watched = Watched::new(64);
    let mut dice = Dice(7);
    for _ in 0..so_many(60, 5_000) {
        let mut socket = watched.served.watch(&format!("runId={}", watched.id));
        for _ in 0..=dice.below(6) {
            // Half of them are frames, of every kind and length that a head can say; the others are just bytes.
            let sent = if dice.below(2) == 0 {
                let (first, payload) = (dice.next() as u8, dice.bytes(400));
                socket.send(first, &payload)
            } else {
                socket.send_raw(&dice.bytes(64))
            };
            if sent.is_err() {
                break;
            }
        }
    }
    watched.ends_unaffected();
}

#[test]
fn heads_that_come_byte_by_byte_hold_up_nobody() {
    let watched = Watched::new(200);
    let mut silent: Vec<TcpStream> = (0..so_many(60, 150)).map(|_| watched.served.connect()).collect();
    for stream in &mut silent {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    }
    // A head gets so much time and no more, however often a byte of it comes: this one would take a minute.
    let head = watched.head("GET", "/healthz", &format!("X-Slow: {}\r\n", "a".repeat(100)));
    let mut slow = watched.served.connect();
    let is_refused = head.as_bytes().iter().take(120).any(|byte| {
        std::thread::sleep(Duration::from_millis(500));
        slow.write_all(&[*byte]).is_err()
    });
    assert!(is_refused, "it is still being read");
    watched.answers();
    for mut stream in silent {
        let answered = drained(&mut stream);
        assert!(!answered.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answered));
    }
    watched.ends_unaffected();
}

#[test]
fn bodies_that_never_end_and_answers_that_nobody_reads_hold_up_nobody() {
    let watched = Watched::new(200);
    let more = "Content-Type: application/json\r\nContent-Length: 1000000\r\n";
    let mut held: Vec<TcpStream> = (0..so_many(16, 100)).map(|_| watched.served.connect()).collect();
    for (at, stream) in held.iter_mut().enumerate() {
        if at % 2 == 0 {
            stream.write_all(watched.head("POST", "/api/runs", more).as_bytes()).unwrap();
            stream.write_all(&[b' '; 1000]).unwrap();
            continue;
        }
        // More answers than the kernel keeps for whoever does not read.
        stream.set_nonblocking(true).unwrap();
        let heads = watched.head("GET", "/openapi.json", "").repeat(400);
        let _ = stream.write(heads.as_bytes());
    }
    watched.answers();
    if is_long() {
        // Somebody who stays is let go in the end.
        let (_, open) = watched.before;
        eventually("they are let go", || descriptors(&watched.served) <= open + KEPT_OPEN);
    }
    drop(held);
    watched.ends_unaffected();
}

#[test]
fn more_clients_than_there_is_room_for_are_turned_away_and_those_inside_stay() {
    let watched = Watched::new(64);
    let mut open = Vec::new();
    for round in 0..so_many(200, 1_000) {
        let Ok(mut stream) = TcpStream::connect(&watched.served.host) else { continue };
        match round % 3 {
            0 => drop(stream.write_all(watched.head("GET", "/api/runs", "").as_bytes())),
            1 => drop(stream.write_all(b"GET / HTTP/1.1\r\nHost: ")),
            _ => {}
        }
        open.push(stream);
    }
    drop(open);
    watched.ends_unaffected();
}

#[test]
fn many_sockets_are_told_everything_where_there_is_room_for_them() {
    let count = so_many(100, 1_000);
    let watched = Watched::new(count + 64);
    let mut sockets: Vec<Socket> =
        (0..count).map(|_| watched.served.watch(&format!("runId={}&since=0", watched.id))).collect();
    watched.env.touch("go");
    let is_end = |event: &Value| event["patch"]["status"] == "completed";
    let mut told: Vec<usize> = sockets.iter_mut().map(|socket| socket.until(is_end).len()).collect();
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    drop(sockets);
    watched.ends_unaffected();
}

#[test]
fn requests_one_after_the_other_without_waiting_are_all_answered_in_their_order() {
    let watched = Watched::new(64);
    let paths = ["/healthz", "/api/runs", "/nowhere", "/api/approvals"];
    let mut stream = watched.served.connect();
    let count = so_many(40, 2_000);
    let heads: String = (0..count).map(|at| watched.head("GET", paths[at % 4], "")).collect();
    let mut writing = stream.try_clone().unwrap();
    let last = watched.head("GET", "/healthz", "Connection: close\r\n");
    let writer = std::thread::spawn(move || writing.write_all(format!("{heads}{last}").as_bytes()));
    let answered = String::from_utf8_lossy(&drained(&mut stream)).into_owned();
    writer.join().unwrap().unwrap();
    let statuses: Vec<&str> = answered.match_indices("HTTP/1.1 ").map(|(at, _)| &answered[at + 9..at + 12]).collect();
    let expected: Vec<&str> = (0..count).map(|at| ["200", "200", "404", "200"][at % 4]).chain(["200"]).collect();
    assert_eq!(statuses, expected);
    watched.ends_unaffected();
}

#[test]
fn whoever_closes_their_half_is_let_go() {
    let watched = Watched::new(64);
    let path = format!("/api/runs/{}/stream?since=0", watched.id);
    let heads = [
        watched.head("GET", "/api/runs", ""),
        watched.head("GET", &path, ""),
        watched.head("POST", "/api/runs", "Content-Type: application/json\r\nContent-Length: 100\r\n"),
        "GET /api/runs HTTP/1.1\r\nHost:".to_owned(),
    ];
    for round in 0..so_many(20, 500) {
        let mut stream = watched.served.connect();
        stream.write_all(heads[round % heads.len()].as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        drained(&mut stream);
    }
    watched.ends_unaffected();
}

#[test]
fn heads_and_bodies_of_dice_are_refused_and_nothing_else_happens() {
    let watched = Watched::new(64);
    let mut dice = Dice(11);
    for _ in 0..so_many(60, 5_000) {
        let mut stream = watched.served.connect();
        let more = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
        let whole = match dice.below(4) {
            0 => dice.bytes(20_000),
            1 => [b"GET ", dice.bytes(300).as_slice(), b" HTTP/1.1\r\n\r\n"].concat(),
            2 => [watched.head("POST", "/api/runs", more).as_bytes(), &dice.bytes(2_000)].concat(),
            _ => {
                let body = dice.bytes(2_000);
                let more = format!(
                    "Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n",
                    body.len()
                );
                [watched.head("PATCH", &format!("/api/runs/{}", watched.id), &more).as_bytes(), &body].concat()
            }
        };
        let _ = stream.write_all(&whole);
        let _ = stream.shutdown(Shutdown::Write);
        let answered = drained(&mut stream);
        let status = String::from_utf8_lossy(answered.get(9..12).unwrap_or_default()).into_owned();
        assert!(status.is_empty() || status.starts_with('4'), "{}", String::from_utf8_lossy(&answered));
    }
    watched.ends_unaffected();
}

#[test]
fn connections_leave_enough_files_for_everything_else_or_nothing_is_served() {
    let env = TestEnvironment::new(json!({}));
    let norma = env!("CARGO_BIN_EXE_norma");
    let serve = |limit: &str, more: &str| {
        env.output_of("sh", &["-c", &format!("ulimit {limit} && exec {norma} serve --port 0 --json {more}")])
    };
    // What may be raised is raised.
    let started: Value = serde_json::from_str(&serve("-S -n 100", "--background").success().raw).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", started["pid"])).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().next(), Some("576"), "{files}");
    env.norma(&["serve", "--stop"]).success();
    env.configure(|config| config["server"] = json!({"connections": 1000}));
    let refused = serve("-n 600", "");
    assert!(refused.exits(4).raw.contains("server.connections is 1000"), "{refused}");
}
