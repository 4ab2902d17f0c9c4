//! Intents that an `opencode serve` of this machine compiles, without a run: nothing confines that server, so it is asked
//! for an answer and for nothing else. Every call is in a ledger, with its request before it is made and its response before
//! anybody is told of it; a response that could not be kept is no answer.

use crate::machine::redactor;
use crate::process::Cancel;
use crate::{Context, Error, Result};
use contract::documents::intent::Transcript;
use contract::documents::{CompileAnswer, CompileOutput, CompileRequest};
use contract::{Mode, Violation, hash, json};
use gateway::opencode::{Health, Message, Opencode};
use gateway::{Key, ServiceProblem, Until};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The variable with which whoever starts a server protects it.
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

/// How long anything but a message may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often an answer is asked for that is none.
const ATTEMPTS: u32 = 2;

/// A server that compiles intents.
pub struct Compiler<'c> {
    context: &'c Context,
    server: Opencode,
    cancel: Cancel,
}

impl<'c> Compiler<'c> {
    /// The server at an address. In production mode agents are always confined, and nothing confines this one.
    pub fn new(context: &'c Context, url: &str, mode: Mode, cancel: Cancel) -> Result<Compiler<'c>> {
        if mode == Mode::Production {
            let message = "sandbox_unavailable: nothing confines an opencode server, and production mode asks for that";
            return Err(Error::environment(message, "have norma start it: leave --server out"));
        }
        let password = context.user_env.get(OsStr::new(PASSWORD)).and_then(|value| value.to_str());
        let password = password.filter(|value| !value.is_empty()).map(Key::new).transpose();
        let password = password.map_err(|problem| Error::usage(format!("{PASSWORD}: {problem}"), "check it"))?;
        let server = Opencode::new(url, password)
            .map_err(|problem| Error::usage(problem.to_string(), "name it with --server"))?;
        Ok(Compiler { context, server, cancel })
    }

    /// Whether it can be asked, and which version it is.
    pub fn health(&self) -> Result<Health> {
        self.server.health(&self.until(PATIENCE)?).map_err(unavailable)
    }

    /// What a session changed, as the server tells it.
    pub fn diff(&self, session: &str) -> Result<Value> {
        self.server.diff(session, &self.until(PATIENCE)?).map_err(unavailable)
    }

    /// Has an intent compiled. What was asked and answered is on the disk when this answers, also where it is an error.
    pub fn compile(&self, request: &CompileRequest, time: Duration) -> Result<CompileOutput> {
        self.health()?;
        let session =
            self.server.open(&format!("norma {}", request.key()), &self.until(PATIENCE)?).map_err(unavailable)?;
        let mut prompt = request.prompt();
        let mut said = String::new();
        let mut problems = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let body = Opencode::message_body(&prompt);
            let mut call = Entry::begin(self.context, request, &session, attempt, &body)?;
            let sent = self.server.send(&session, &body, &self.until(time)?);
            let message = call.end(self.context, sent)?;
            said.push_str(&message.text);
            match answer(&message.text) {
                Ok(found) => {
                    let transcript = Transcript {
                        run_id: call.name(),
                        session_id: session,
                        agent: "opencode".to_owned(),
                        model: message.model,
                        text: said,
                    };
                    return Ok(CompileOutput::new(found, transcript));
                }
                Err(found) => problems = found,
            }
            let lines: String = problems.iter().map(|problem| format!("\n- {problem}")).collect();
            prompt =
                format!("That was not the answer that was asked for:{lines}\nAnswer again with the JSON object alone.");
        }
        let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        let ledger = self.context.layout.shown(&self.context.layout.calls());
        Err(Error::declined(format!("the answer of {session} is none:{lines}"), format!("what was said: {ledger}")))
    }

    fn until(&self, time: Duration) -> Result<Until> {
        let stop =
            self.cancel.descriptor().map_err(|source| Error::io("copy", &PathBuf::from("a descriptor"), source))?;
        Ok(Until { deadline: Instant::now() + time, stop: Arc::new(stop) })
    }
}

/// The answer in what was said: the object, perhaps between words or fences.
fn answer(text: &str) -> std::result::Result<CompileAnswer, Vec<Violation>> {
    let object = text.find('{').zip(text.rfind('}')).filter(|(from, to)| from < to);
    let Some((from, to)) = object else {
        return Err(vec![Violation::document("there is no JSON object in it")]);
    };
    CompileAnswer::read(json::parse(&text.as_bytes()[from..=to], &json::Limits::DOCUMENT)?)
}

/// One call, in a file of its own.
struct Entry {
    key: String,
    value: Value,
    began: Instant,
}

impl Entry {
    /// Puts on record that a call is about to be made. The same call has the same key, so that none is there twice.
    fn begin(context: &Context, request: &CompileRequest, session: &str, attempt: u32, body: &Value) -> Result<Entry> {
        let asked = json!({"session": session, "attempt": attempt, "request": request.key(), "body": body});
        let key = hash::sha256(asked.to_string().as_bytes()).to_string();
        let value = json!({
            "key": key, "session": session, "attempt": attempt, "request": request, "body": body,
            "status": "asked", "asked_at": store::now(),
        });
        let entry = Entry { key, value, began: Instant::now() };
        entry.keep(context).map(|()| entry)
    }

    /// Puts on record what came of it, without secrets; only then does it count.
    fn end(&mut self, context: &Context, sent: std::result::Result<Message, ServiceProblem>) -> Result<Message> {
        self.value["duration_ms"] = json!(self.began.elapsed().as_millis() as u64);
        let (status, mut message) = match sent {
            Ok(message) => ("answered", message),
            Err(problem) => {
                (self.value["status"], self.value["error"]) = (json!("failed"), json!(problem.to_string()));
                self.keep(context)?;
                return Err(unavailable(problem));
            }
        };
        let redactor = redactor(context);
        message.text = redactor.redact_str(&message.text).0.into_owned();
        let raw = redactor.redact_str(&message.raw.to_string()).0.into_owned();
        self.value["response"] = serde_json::from_str(&raw).unwrap_or(Value::String(raw));
        self.value["status"] = json!(status);
        if let Some(error) = &message.error {
            (self.value["status"], self.value["error"]) = (json!("failed"), json!(error));
            self.keep(context)?;
            return Err(Error::declined(
                format!("opencode could not answer: {error}"),
                "check its model and its sign-in",
            ));
        }
        self.keep(context).map(|()| message)
    }

    /// What a transcript calls it.
    fn name(&self) -> String {
        format!("call-{}", &self.key[..16])
    }

    fn keep(&self, context: &Context) -> Result<()> {
        let dir = context.layout.calls();
        std::fs::create_dir_all(&dir).map_err(|source| Error::io("create", &dir, source))?;
        let bytes = serde_json::to_vec_pretty(&self.value).expect("BUG: an entry is plain data");
        Ok(store::write_whole(&dir.join(format!("{}.json", self.key)), &bytes)?)
    }
}

fn unavailable(problem: ServiceProblem) -> Error {
    let hint = "start one: opencode serve; or leave --server out, and norma starts opencode itself";
    Error::environment(format!("OC_UNAVAILABLE: {problem}"), hint)
}
