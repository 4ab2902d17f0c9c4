//! A conversation with an agent: lines from its process become acts of the session, and these become words, records,
//! news and questions. Nothing here waits; a question that a person has to answer is looked at when one was answered.

use super::saving::Saving;
use super::spool::{Side, Spool};
use crate::process::{Talk, Wake};
use crate::world::{Answered, Witness};
use contract::session::{Decision, Permission, SessionEvent};
use contract::{Item, Role};
use run::turn::answer_problems;
use serde_json::Value;
use session::{Act, Answered as TurnAnswered, Brief, Mode, Session, limits};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// How many events of a turn go on record by themselves; the rest is in its files.
const FACTS_MAX: usize = 2000;

/// What is wrong with an answer that its agent is told of; the first ones explain the rest.
const PROBLEMS_MAX: usize = 10;

pub(crate) struct Conversation<'a> {
    session: Session,
    pub(super) spool: Spool,
    witness: &'a dyn Witness,
    words: Vec<u8>,
    lines: Lines,
    over: bool,
    waiting: VecDeque<Asked>,
    facts: usize,
    /// Keeps what the agent makes.
    saving: Option<Saving>,
    form: Form,
    /// Why something was denied last.
    denied: Option<String>,
    /// Why the agent was told to answer once more, if it was.
    pub(super) asked_again: Option<String>,
}

/// What an answer has to be.
pub(super) struct Form {
    /// Who answers.
    pub(super) role: Role,
    /// The item that is carried out, which may bind it.
    pub(super) item: Option<Arc<Item>>,
    /// As the agent is told.
    pub(super) schema: Value,
}

impl Form {
    /// What a session is told that came to this, if it did not answer in this form. Its work is done, and may have cost much:
    /// it is not lost to the form of a message.
    fn once_more(&self, answered: &TurnAnswered, denied: Option<&str>) -> Option<(String, String)> {
        let (why, told) = match answered {
            TurnAnswered::With(answer) => {
                let problems =
                    answer_problems(self.role, self.item.as_deref(), answer.as_deref().unwrap_or_default().as_bytes());
                if problems.is_empty() {
                    return None;
                }
                let listed: String = problems.iter().take(PROBLEMS_MAX).map(|it| format!("- {it}\n")).collect();
                let told =
                    format!("Your last message is not the answer that was asked for:\n{listed}Your work is kept.");
                (problems.join("; "), told)
            }
            TurnAnswered::NotAfterDenial => {
                let why = denied.map(|why| format!(": {why}")).unwrap_or_default();
                let told = format!(
                    "What you asked for was denied{why}. Complete the task without it, as far as that is possible."
                );
                ("it stopped after a denial".to_owned(), told)
            }
        };
        let form = "Then answer with one JSON document and nothing else: no words before or after it, no code fence. Its schema:";
        Some((why, format!("{told} {form}\n{}\n", self.schema)))
    }
}

/// A question that waits for somebody.
struct Asked {
    id: String,
    question: Box<crate::world::Question>,
}

impl<'a> Conversation<'a> {
    pub(super) fn open(
        brief: &Brief<'_>,
        mode: Mode,
        prompt: &str,
        form: Form,
        spool: Spool,
        (witness, saving): (&'a dyn Witness, Option<Saving>),
    ) -> io::Result<Conversation<'a>> {
        let (session, acts) = Session::open(brief, mode, prompt);
        let mut conversation = Conversation {
            session,
            spool,
            witness,
            words: Vec::new(),
            lines: Lines::default(),
            over: false,
            waiting: VecDeque::new(),
            facts: 0,
            saving,
            form,
            denied: None,
            asked_again: None,
        };
        conversation.perform(acts)?;
        Ok(conversation)
    }

    pub(super) fn finish(&mut self, exit: session::Exit) -> session::Outcome {
        // What is being kept is not in the way of what is kept at the end.
        let _ = self.saving.take().and_then(|mut saving| saving.finish());
        self.session.finish(exit)
    }

    fn perform(&mut self, acts: Vec<Act>) -> io::Result<()> {
        let mut due: VecDeque<Act> = acts.into();
        while let Some(act) = due.pop_front() {
            match act {
                Act::Say(words) => {
                    self.spool.line(Side::Norma, words.trim_ascii_end())?;
                    self.words.extend(words);
                }
                Act::Tell(event) => {
                    let event = self.spool.cleared(event);
                    if let (SessionEvent::ToolCompleted { .. }, Some(saving)) = (&event, &mut self.saving) {
                        saving.worked();
                    }
                    self.spool.event(&event)?;
                    let kept = event.is_fact() && self.facts < FACTS_MAX;
                    self.facts += usize::from(kept);
                    self.witness.saw(event, kept);
                }
                Act::Ask(permission) => due.extend(self.ask(permission)),
                // What an agent writes, it writes itself, where it is confined.
                Act::WriteFile { id, .. } => {
                    let message = "write the file with your own tools".to_owned();
                    due.extend(self.session.answer(&id, &Decision::Deny { message }));
                }
                Act::CloseInput => self.over = true,
            }
        }
        if self.session.turn_over() && !self.over {
            let acts = self.once_more().unwrap_or_else(|| self.session.close());
            return self.perform(acts);
        }
        Ok(())
    }

    /// Asks once more in the same session, if the answer is not what it has to be.
    fn once_more(&mut self) -> Option<Vec<Act>> {
        let answered = self.session.answered().filter(|_| self.asked_again.is_none())?;
        let (why, prompt) = self.form.once_more(&answered, self.denied.as_deref())?;
        self.asked_again = Some(why);
        Some(self.session.prompt(&prompt))
    }

    fn ask(&mut self, permission: Permission) -> Vec<Act> {
        match self.witness.decide(&permission) {
            Answered::Now(decision) => self.answer(&permission.id, &decision),
            Answered::Later(question) => {
                self.waiting.push_back(Asked { id: permission.id, question });
                Vec::new()
            }
        }
    }

    fn answer(&mut self, id: &str, decision: &Decision) -> Vec<Act> {
        if let Decision::Deny { message } = decision {
            self.denied = Some(message.clone());
        }
        self.session.answer(id, decision)
    }

    fn hear_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.spool.line(Side::Agent, line)?;
        let acts = self.session.hear(line);
        self.perform(acts)
    }
}

/// The lines of what comes in pieces.
#[derive(Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    /// A line that is too long is dropped to its end.
    skipping: bool,
}

impl Lines {
    /// Every line that this ends, without its end; those that say nothing are left out.
    pub(super) fn feed(&mut self, bytes: &[u8], mut heard: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        bytes.split_inclusive(|byte| *byte == b'\n').try_for_each(|piece| {
            let (text, ended) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            if self.line.len() + text.len() > limits::LINE_BYTES_MAX {
                self.skipping = true;
                self.line.clear();
            }
            if !self.skipping {
                self.line.extend_from_slice(text);
            }
            if !ended {
                return Ok(());
            }
            let is_whole = !std::mem::take(&mut self.skipping) && !self.line.trim_ascii().is_empty();
            let result = if is_whole { heard(&self.line) } else { Ok(()) };
            // The buffer is used again: most lines have about the same length.
            self.line.clear();
            result
        })
    }
}

impl Talk for Conversation<'_> {
    fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        let heard = lines.feed(bytes, |line| self.hear_line(line));
        self.lines = lines;
        heard
    }

    fn take_words(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.words)
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_done(&self) -> bool {
        self.over && self.session.turn_over()
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn wake(&self) -> Option<&Wake> {
        self.witness.wake()
    }

    fn started(&mut self, layers: &[OwnedFd]) {
        if let Some(saving) = &mut self.saving {
            saving.started(layers);
        }
    }

    fn next_look(&self) -> Option<Instant> {
        let answered = self.waiting.iter().map(|asked| asked.question.until).min();
        answered.into_iter().chain(self.saving.as_ref().and_then(Saving::next_look)).min()
    }

    fn look(&mut self, now: Instant) -> io::Result<()> {
        let so_far = self.session.so_far();
        if let Some(tree) = self.saving.as_mut().and_then(|saving| saving.look(now, so_far)) {
            self.witness.saved(tree);
        }
        for asked in std::mem::take(&mut self.waiting) {
            match self.witness.answer(&asked.question) {
                None => self.waiting.push_back(asked),
                Some(decision) => {
                    let acts = self.answer(&asked.id, &decision);
                    self.perform(acts)?;
                }
            }
        }
        Ok(())
    }

    fn stop(&mut self) -> bool {
        let acts = self.session.cancel();
        let told = acts.iter().any(|act| matches!(act, Act::Say(_)));
        let _ = self.perform(acts);
        told
    }
}
