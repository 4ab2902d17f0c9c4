//! A session with an agent, whatever it speaks: lines in, acts out. The runner starts the program as
//! [`launch`](crate::launch) says, performs the acts in their order, gives every line of stdout to
//! [`Session::hear`], and asks for the [`Outcome`] when the process is gone.

use crate::acp::Acp;
use crate::brief::{Brief, Kind, Mode};
use crate::claude::Claude;
use crate::codex::Codex;
use crate::limits;
use crate::notes::Notes;
use crate::oneshot::OneShot;
use crate::trouble;
use crate::wire;
use contract::SessionEvent;
use contract::session::{Decision, ErrorKind, Permission, SessionError, Usage};

/// Something for the runner to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Write these bytes to the agent's stdin.
    Say(Vec<u8>),
    /// Put this on record.
    Tell(SessionEvent),
    /// Have somebody decide, and [answer](Session::answer). Its input is whole; the record of it may be cut.
    Ask(Permission),
    /// Write this file where the agent sees it, then [answer](Session::answer): `Allow` when it is written, `Deny`
    /// when not. Only agents of the Agent Client Protocol that overlook that nobody offered it ask for it, and only
    /// a path in the agent's own directories gets here, as far as its text tells: links are the runner's to mind.
    /// Refusing is always safe.
    WriteFile {
        /// For the answer.
        id: String,
        /// Absolute, without `.` and `..`.
        path: String,
        /// The whole file.
        content: String,
    },
    /// Close the agent's stdin: there is nothing more to say.
    CloseInput,
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal that was not norma's.
    Signal(i32),
    /// Norma ended it.
    Killed,
}

/// What came of a session, after its last turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The turn ended, the agent calls it a success, and its process ended as it should. What the turn is worth is
    /// for gates to say.
    pub ok: bool,
    /// The last message, or the structured output as JSON text.
    pub answer: Option<String>,
    /// What resumes the conversation.
    pub session_id: Option<String>,
    /// What was used.
    pub usage: Usage,
    /// What went wrong, if it is not ok.
    pub error: Option<SessionError>,
    /// Tool calls that were started.
    pub tool_ops: u64,
}

/// What a turn came to whose agent is still there to be told more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// With this, or nothing, as its answer.
    With(Option<String>),
    /// It stopped because something was denied.
    NotAfterDenial,
}

/// A conversation with one process of an agent.
pub struct Session {
    talk: Talk,
    notes: Notes,
    closed: Option<Closed>,
}

/// When stdin was closed on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    AfterTurn,
    Early,
}

enum Talk {
    Codex(Box<Codex>),
    Claude(Box<Claude>),
    Acp(Box<Acp>),
    OneShot(OneShot),
}

impl Session {
    /// Begins: the acts start the handshake or, one-shot, say all there is. A live prompt follows by itself as soon
    /// as the agent can take it.
    pub fn open(brief: &Brief<'_>, mode: Mode, prompt: &str) -> (Session, Vec<Act>) {
        let mut out = Vec::new();
        let talk = match (mode, brief.kind) {
            (_, Kind::Acp) | (Mode::Live, Kind::Gemini | Kind::Opencode) => {
                Talk::Acp(Box::new(Acp::open(brief, prompt, &mut out)))
            }
            (Mode::OneShot, _) => Talk::OneShot(OneShot::open(brief, prompt, &mut out)),
            (Mode::Live, Kind::Codex) => Talk::Codex(Box::new(Codex::open(brief, prompt, &mut out))),
            (Mode::Live, Kind::Claude) => Talk::Claude(Box::new(Claude::open(prompt, &mut out))),
        };
        (Session { talk, notes: Notes::new(brief.rights.clone()), closed: None }, out)
    }

    /// Opens a conversation with an agent that speaks ACP, signs it in if it asks for that, and says nothing more: nothing
    /// is asked of a model. It is over when a session was told of, or when it failed.
    pub fn greet(brief: &Brief<'_>) -> (Session, Vec<Act>) {
        let mut out = Vec::new();
        let talk = Talk::Acp(Box::new(Acp::greet(brief, &mut out)));
        (Session { talk, notes: Notes::new(brief.rights.clone()), closed: None }, out)
    }

    /// What the agent calls itself, where it has said so.
    pub fn agent(&self) -> Option<&str> {
        match &self.talk {
            Talk::Acp(talk) => talk.agent(),
            _ => None,
        }
    }

    /// Whether the agent was told to sign in and has not answered.
    pub fn is_signing_in(&self) -> bool {
        matches!(&self.talk, Talk::Acp(talk) if talk.is_signing_in())
    }

    /// The ways to sign in that the agent offers, where its protocol has that.
    pub fn ways_to_sign_in(&self) -> &[String] {
        match &self.talk {
            Talk::Acp(talk) => talk.ways_to_sign_in(),
            _ => &[],
        }
    }

    /// One line of the agent's stdout, without its end. Any bytes.
    pub fn hear(&mut self, line: &[u8]) -> Vec<Act> {
        let mut out = Vec::new();
        let line = line.trim_ascii();
        if line.is_empty() {
            return out;
        }
        if line.len() > limits::LINE_BYTES_MAX {
            let message = format!("a line of {} bytes, which is more than any message has", line.len());
            self.notes.broken(&message, &mut out);
            return out;
        }
        let message = match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(message) if message.is_object() => message,
            _ if self.notes.session_id.is_none() && trouble::asks_to_sign_in(line) => {
                self.not_signed_in(&mut out);
                return out;
            }
            _ => {
                let beginning = String::from_utf8_lossy(&line[..line.len().min(200)]);
                self.notes.broken(&format!("a line that is no message: {beginning}"), &mut out);
                return out;
            }
        };
        let notes = &mut self.notes;
        match &mut self.talk {
            Talk::Codex(talk) => talk.hear(message, notes, &mut out),
            Talk::Claude(talk) => talk.hear(message, notes, &mut out),
            Talk::Acp(talk) => talk.hear(message, notes, &mut out),
            Talk::OneShot(talk) => talk.hear(message, notes, &mut out),
        }
        out
    }

    /// The agent has nobody signed in, and asks for somebody who is not there: its turn is over before it waits for that.
    fn not_signed_in(&mut self, out: &mut Vec<Act>) {
        if self.turn_over() {
            return;
        }
        let message = "its sign-in has expired and could not be renewed; sign in again";
        let problem = trouble::with(ErrorKind::Auth, message, None);
        match &mut self.talk {
            Talk::Acp(talk) => talk.failed(problem, &mut self.notes, out),
            Talk::Codex(_) | Talk::Claude(_) | Talk::OneShot(_) => self.notes.trouble(problem, out),
        }
    }

    /// The answer to a request: to a permission by its id, or to a file to write. A second answer, or one to
    /// nothing, does nothing.
    pub fn answer(&mut self, id: &str, decision: &Decision) -> Vec<Act> {
        let mut out = Vec::new();
        let notes = &mut self.notes;
        match &mut self.talk {
            Talk::Codex(talk) => talk.answer(id, decision, notes, &mut out),
            Talk::Claude(talk) => talk.answer(id, decision, notes, &mut out),
            Talk::Acp(talk) => talk.answer(id, decision, notes, &mut out),
            Talk::OneShot(_) => {}
        }
        out
    }

    /// A further turn of a live session. While a turn is under way it waits for its end; one-shot there is none.
    pub fn prompt(&mut self, text: &str) -> Vec<Act> {
        let mut out = Vec::new();
        let notes = &mut self.notes;
        match &mut self.talk {
            Talk::Codex(talk) => talk.prompt(text, notes, &mut out),
            Talk::Claude(talk) => talk.prompt(text, notes, &mut out),
            Talk::Acp(talk) => talk.prompt(text, notes, &mut out),
            Talk::OneShot(_) => {}
        }
        out
    }

    /// Asks the agent to stop the turn, which is then no success however it ends; its end still comes as a line.
    /// One-shot there is nobody to ask: end the
    /// process.
    pub fn cancel(&mut self) -> Vec<Act> {
        let mut out = Vec::new();
        if self.notes.ended().is_some() {
            return out;
        }
        let notes = &mut self.notes;
        notes.cancel();
        match &mut self.talk {
            Talk::Codex(talk) => talk.cancel(notes, &mut out),
            Talk::Claude(talk) => talk.cancel(notes, &mut out),
            Talk::Acp(talk) => talk.cancel(notes, &mut out),
            Talk::OneShot(_) => {}
        }
        out
    }

    /// There is nothing more to say to the agent. After the end of a turn its process may then be ended in any way.
    pub fn close(&mut self) -> Vec<Act> {
        if self.closed.is_some() {
            return Vec::new();
        }
        self.closed = Some(if self.turn_over() { Closed::AfterTurn } else { Closed::Early });
        vec![Act::CloseInput]
    }

    /// Whether the last prompt has come to its end, well or not.
    pub fn turn_over(&self) -> bool {
        self.notes.ended().is_some()
    }

    /// The agent's own name for the conversation, if it has said one, and what was used so far.
    pub fn so_far(&self) -> (Option<&str>, Usage) {
        (self.notes.session_id.as_deref(), self.notes.usage())
    }

    /// What the last prompt came to, if it is over and one more can be said; a turn that somebody stopped, or that failed,
    /// is not continued.
    pub fn answered(&self) -> Option<Answered> {
        if matches!(self.talk, Talk::OneShot(_)) || self.closed.is_some() || self.notes.cancelled() {
            return None;
        }
        match self.notes.ended()? {
            true => Some(Answered::With(self.notes.answer().ok()?.map(str::to_owned))),
            false => self.notes.stopped_after_denial.then_some(Answered::NotAfterDenial),
        }
    }

    /// What came of it, now that the process is gone. The exit code alone says nothing: agents leave with 0 after
    /// a signal, a refused permission or a tool that failed.
    pub fn finish(&self, exit: Exit) -> Outcome {
        let ended = match &self.talk {
            Talk::OneShot(talk) => talk.ended(&self.notes),
            _ => self.notes.ended(),
        };
        let left_well = exit == Exit::Code(0) || self.closed == Some(Closed::AfterTurn);
        let answer = self.notes.answer();
        let ok = ended == Some(true) && left_well && answer.is_ok() && !self.notes.cancelled();
        let error = match (&answer, ok) {
            (_, true) => None,
            (Err(problem), _) => Some(problem.clone()),
            _ => Some(self.explain(ended, exit)),
        };
        Outcome {
            ok,
            answer: answer.ok().flatten().map(str::to_owned),
            session_id: self.notes.session_id.clone(),
            usage: self.notes.usage(),
            error,
            tool_ops: self.notes.calls.started(),
        }
    }

    /// Why it is not ok: what the agent said last about it, or what its exit tells.
    fn explain(&self, ended: Option<bool>, exit: Exit) -> SessionError {
        if self.notes.cancelled() {
            return trouble::other("cancelled");
        }
        let said = self.notes.error();
        if let Some(said) = said.filter(|said| said.kind != ErrorKind::Other) {
            return said.clone();
        }
        let by_exit = match &self.talk {
            Talk::OneShot(talk) => talk.explain(exit),
            _ => None,
        };
        by_exit.or_else(|| said.cloned()).unwrap_or_else(|| unexplained(ended, exit))
    }

    /// How many bytes the session holds.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let talk = match &self.talk {
            Talk::Codex(talk) => talk.bytes(),
            Talk::Claude(talk) => talk.bytes(),
            Talk::Acp(talk) => talk.bytes(),
            Talk::OneShot(_) => 0,
        };
        self.notes.bytes() + talk
    }
}

/// The error of a session that failed without one.
fn unexplained(ended: Option<bool>, exit: Exit) -> SessionError {
    let how = match exit {
        Exit::Code(code) => format!("left with code {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::Killed => "was ended by norma".to_owned(),
    };
    match ended {
        Some(true) => trouble::other(&format!("the turn ended well, but the agent {how}")),
        Some(false) => trouble::other("the turn failed, and the agent gave no reason"),
        // Silence and a good exit code together break every protocol; otherwise the exit is what happened.
        None => {
            let kind = if exit == Exit::Code(0) { ErrorKind::Protocol } else { ErrorKind::Other };
            trouble::with(kind, &format!("the agent {how} before the end of the turn"), None)
        }
    }
}

/// Tells that a request was answered.
pub(crate) fn tell_answer(id: &str, decision: Decision, out: &mut Vec<Act>) {
    let decision = match decision {
        Decision::AllowModified { input } => {
            Decision::AllowModified { input: wire::bounded(input, limits::INPUT_BYTES_MAX) }
        }
        decision => decision,
    };
    out.push(Act::Tell(SessionEvent::PermissionAnswered { id: id.to_owned(), decision }));
}

/// What an agent is told that cannot take other arguments: doing it with its own would not be what was decided.
pub(crate) fn without_changes(decision: &Decision) -> Decision {
    match decision {
        Decision::AllowModified { .. } => {
            Decision::Deny { message: "allowed only with other arguments, which this agent cannot take".to_owned() }
        }
        decision => decision.clone(),
    }
}

#[cfg(test)]
mod tests;
