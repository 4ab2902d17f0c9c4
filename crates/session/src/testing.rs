//! What the tests of every protocol need: a brief, and a talk that is driven line by line.

use crate::{Act, Brief, Kind, Mode, Outcome, Rights, Session, ShellRight};
use contract::session::{Decision, Permission};
use serde_json::{Value, json};

/// A worker that has to ask before it runs commands.
pub(crate) fn worker() -> Rights {
    Rights { write: true, shell: ShellRight::OnRequest, network: false, mcp_tools: Vec::new() }
}

/// A plain brief.
pub(crate) fn brief(kind: Kind) -> Brief<'static> {
    Brief {
        kind,
        model: Some("m-1"),
        effort: None,
        base_url: Some("http://127.0.0.1:8765"),
        api_key: Some("placeholder"),
        key_variable: None,
        cwd: "/src/tree",
        home: "/home/agent",
        extra_write: &[],
        rights: worker(),
        tools: None,
        output_schema: None,
        resume: None,
        used: contract::Usage::default(),
        args: &[],
    }
}

/// A session, and all that it had done.
pub(crate) struct Talk {
    pub(crate) session: Session,
    /// What was said since it was last looked at.
    said: Vec<u8>,
    /// What was told since.
    told: Vec<Value>,
    pub(crate) asked: Vec<Permission>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) closed: bool,
}

impl Talk {
    pub(crate) fn open(brief: &Brief<'_>, mode: Mode) -> Talk {
        let (session, acts) = Session::open(brief, mode, "do it");
        let mut talk =
            Talk { session, said: Vec::new(), told: Vec::new(), asked: Vec::new(), files: Vec::new(), closed: false };
        talk.perform(acts);
        talk
    }

    pub(crate) fn perform(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Say(bytes) => self.said.extend(bytes),
                Act::Tell(event) => self.told.push(serde_json::to_value(event).unwrap()),
                Act::Ask(permission) => self.asked.push(permission),
                Act::WriteFile { id, path, .. } => self.files.push((id, path)),
                Act::CloseInput => self.closed = true,
            }
        }
    }

    pub(crate) fn hear(&mut self, message: &Value) {
        let acts = self.session.hear(message.to_string().as_bytes());
        self.perform(acts);
    }

    pub(crate) fn hear_all(&mut self, messages: &[Value]) {
        messages.iter().for_each(|message| self.hear(message));
    }

    pub(crate) fn answer(&mut self, id: &str, decision: &Decision) {
        let acts = self.session.answer(id, decision);
        self.perform(acts);
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        let acts = self.session.prompt(text);
        self.perform(acts);
    }

    pub(crate) fn cancel(&mut self) {
        let acts = self.session.cancel();
        self.perform(acts);
    }

    pub(crate) fn close(&mut self) {
        let acts = self.session.close();
        self.perform(acts);
    }

    /// What was said since the last look, a value a line.
    pub(crate) fn said(&mut self) -> Vec<Value> {
        let bytes = std::mem::take(&mut self.said);
        bytes
            .split(|byte| *byte == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }

    /// The same, as text.
    pub(crate) fn said_text(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.said)).unwrap()
    }

    /// What was told since the last look.
    pub(crate) fn told(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.told)
    }

    /// The types of what was told since the last look.
    pub(crate) fn types(&mut self) -> Vec<String> {
        self.told().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn finish(&self, exit: crate::Exit) -> Outcome {
        self.session.finish(exit)
    }
}

/// A denial.
pub(crate) fn deny() -> Decision {
    Decision::Deny { message: "no".to_owned() }
}

/// The event of an error of this kind.
#[track_caller]
pub(crate) fn error_kind(outcome: &Outcome) -> Value {
    json!(outcome.error.as_ref().expect("an error").kind)["kind"].clone()
}
