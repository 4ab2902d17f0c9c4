//! The server: a thread that takes connections, and one for each of them. There are as many at once as a test starts
//! agents, so threads are enough and the code reads from top to bottom.

use crate::answer::{Answer, End, Speech, decide};
use crate::api::{Api, Wish, recognise};
use crate::asked::{Asked, Due};
use crate::http::{self, Request};
use crate::record::{self, Record};
use crate::script::Scripts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Long enough for a client to take in what came before its connection breaks; otherwise some lose that too, by chance.
const BEFORE_DROP: Duration = Duration::from_millis(200);

/// What a server is started with.
#[derive(Debug, Default)]
pub struct Options {
    /// On the loopback; 0 takes a free one.
    pub port: u16,
    /// Besides the built-in ones.
    pub scripts: Scripts,
    /// Where each request is noted.
    pub log: Option<PathBuf>,
    /// The key that every request for an answer must carry, if any.
    pub key: Option<String>,
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    scripts: Scripts,
    key: Option<String>,
    record: Record,
    is_over: AtomicBool,
    /// How often each flaky step was come to.
    times: Mutex<BTreeMap<(String, usize), usize>>,
}

impl Server {
    /// Listens, and answers in the background from then on.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        let port = listener.local_addr()?.port();
        let record = Record::create(options.log.as_deref())?;
        let is_over = AtomicBool::new(false);
        let shared =
            Arc::new(Shared { scripts: options.scripts, key: options.key, record, is_over, times: Mutex::default() });
        let own = Arc::clone(&shared);
        thread::spawn(move || take_connections(&listener, &own));
        Ok(Self { port, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Every request so far, in order: `method`, `path`, `headers`, `body`, and for those to a model `api`, `key`
    /// (right or not), `script`, `step` and `tools`.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        self.shared.record.lines()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection, so that it sees that it is over.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn take_connections(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // A client that goes away in the middle is part of what is tested, and no error of the server's.
        thread::spawn(move || drop(serve(stream, &shared)));
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = http::read(&mut BufReader::new(&stream))? else { return Ok(()) };
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let mut line = record::line(&request, &body);
    let Some(wish) = recognise(&request) else {
        shared.record.note(line);
        let error = Api::Chat.error(404, "scripted-model: there is nothing here");
        return http::respond(&mut stream, 404, &[], &error.to_string());
    };
    if let Some(refusal) = shared.refusal(wish, &request) {
        line["key"] = false.into();
        shared.record.note(line);
        return http::respond(&mut stream, 401, &[], &refusal.to_string());
    }
    match wish {
        Wish::Answer(api) => {
            let asked = api.read(&request, &body);
            let answer = shared.decide(&asked, line);
            deliver(&mut stream, &asked, &answer)
        }
        Wish::Count(api) => shared.tell(&mut stream, line, &api.count(request.body.len().div_ceil(4))),
        Wish::Models(api) => shared.tell(&mut stream, line, &api.models()),
        Wish::Ping => shared.tell(&mut stream, line, &serde_json::json!({ "ok": true })),
    }
}

impl Shared {
    /// Why a request is not answered, if its key is not the one that is wanted.
    fn refusal(&self, wish: Wish, request: &Request) -> Option<Value> {
        let (Wish::Answer(api) | Wish::Count(api) | Wish::Models(api)) = wish else { return None };
        let wanted = self.key.as_deref()?;
        (api.key(request) != Some(wanted)).then(|| api.error(401, "scripted-model: this is not the key"))
    }

    /// Decides, and notes what was decided.
    fn decide(&self, asked: &Asked, mut line: Value) -> Answer {
        let (due, answer) = decide(asked, &self.scripts, |due| self.count(due));
        line["api"] = format!("{:?}", asked.api).to_ascii_lowercase().into();
        line["key"] = true.into();
        line["tools"] = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
        if let Some(due) = due {
            line["script"] = due.name.into();
            line["step"] = due.step.into();
        }
        self.record.note(line);
        answer
    }

    fn count(&self, due: &Due) -> usize {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let count = times.entry((due.name.clone(), due.step)).or_default();
        *count += 1;
        *count - 1
    }

    fn tell(&self, stream: &mut TcpStream, line: Value, answer: &Value) -> io::Result<()> {
        self.record.note(line);
        http::respond(stream, 200, &[], &answer.to_string())
    }
}

fn deliver(stream: &mut TcpStream, asked: &Asked, answer: &Answer) -> io::Result<()> {
    match answer {
        Answer::Speak(speech) if asked.streamed => speak(stream, asked, speech),
        Answer::Speak(speech) => match speech.end {
            End::Complete => http::respond(stream, 200, &[], &asked.api.whole(asked, speech).to_string()),
            End::Stall => until_gone(stream),
            End::Drop => Ok(()),
        },
        Answer::Refuse { status, body, retry_after } => {
            let own = || asked.api.error(*status, &format!("scripted-model: status {status}"));
            let body = body.clone().unwrap_or_else(own).to_string();
            let retry: Vec<_> = retry_after.iter().map(|seconds| ("retry-after", seconds.to_string())).collect();
            http::respond(stream, *status, &retry, &body)
        }
        Answer::Raw(bytes) => {
            http::begin(stream)?;
            http::chunk(stream, bytes)?;
            http::end(stream)
        }
        Answer::Silence => until_gone(stream),
    }
}

/// Sends a stream of events as far as its end allows.
fn speak(stream: &mut TcpStream, asked: &Asked, speech: &Speech) -> io::Result<()> {
    let mut events = asked.api.events(asked, speech);
    if speech.end != End::Complete {
        let last = events.iter().rposition(|event| event.is_part).unwrap_or(0);
        events.truncate(last + 1);
    }
    http::begin(stream)?;
    for event in &events {
        if event.is_part {
            thread::sleep(speech.pause);
        }
        http::chunk(stream, &event.frame())?;
    }
    match speech.end {
        End::Complete => http::end(stream),
        End::Stall => until_gone(stream),
        End::Drop => {
            thread::sleep(BEFORE_DROP);
            Ok(())
        }
    }
}

/// Waits for the client to give up; then the thread is free too.
fn until_gone(stream: &mut TcpStream) -> io::Result<()> {
    let mut ignored = [0; 1024];
    while stream.read(&mut ignored)? > 0 {}
    Ok(())
}
