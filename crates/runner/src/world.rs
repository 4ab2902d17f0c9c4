//! What the loop needs of the world outside the record: agents that take turns, and git. The real one is
//! [`crate::Machine`]; the other one simulates both, so that ten thousand histories with crashes in them can be
//! checked in seconds.

use crate::change::acceptance::Acceptance;
use crate::git::ObjectId;
use crate::process::Clock;
use crate::workspace::Captured;
use crate::{Keys, Result};
use contract::session::{Decision, Permission};
use contract::{
    AgentRequest, ApprovalWait, Digest, Item, Landing, ProcessEnd, PromptBlocks, SessionEvent, SessionOutcome, TreeId,
};
use gateway::{Gateway, Ledger};
use run::redact::Redactor;
use run::{Run, TurnSpec};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One turn to be taken.
#[derive(Clone, Copy)]
pub struct TurnOrder<'a> {
    /// The run so far.
    pub run: &'a Run,
    /// The turn.
    pub spec: &'a TurnSpec,
    /// The request, with the paths that are true while the turn lasts.
    pub request: &'a AgentRequest,
    /// The directory that holds what the agent is given of its step, under a temporary name.
    pub live_dir: &'a Path,
    /// The name it will have.
    pub step_dir: &'a Path,
    /// How long it may take.
    pub time_left: Duration,
    /// What is left of the time that it shares with all other turns of its run.
    pub clock: Option<&'a Clock>,
    /// What it is paid from, with all other turns of its run.
    pub ledger: &'a Arc<Ledger>,
    /// Who is told, and asked, while the agent works.
    pub witness: &'a dyn Witness,
    /// What a turn that was taken before is taken again with.
    pub again: Option<&'a Again>,
}

/// What is on record of a turn that is taken again.
pub struct Again {
    /// Answers in place of the model.
    pub gateway: Arc<Gateway>,
    /// What the agent was told.
    pub prompt: PromptBlocks,
    /// The steps that were there before it, and none of those that came later.
    pub steps: PathBuf,
}

/// Commands that an agent asked for and may run, for whoever hears what it starts.
pub type Allowed = Arc<Mutex<Vec<String>>>;

/// Who answers an agent with an interactive session while it works.
pub trait Witness {
    /// Something happened; what is kept goes on record by itself.
    fn saw(&self, event: SessionEvent, kept: bool);
    /// What the agent has made so far was kept as this tree.
    fn saved(&self, _tree: TreeId) {}
    /// The agent asks whether it may.
    fn decide(&self, permission: &Permission) -> Answered;
    /// Wakes the turn when a person has answered something; none if nobody is ever asked.
    fn wake(&self) -> Option<&crate::process::Wake> {
        None
    }
    /// The commands that somebody or a rule allowed so far.
    fn allowed(&self) -> Allowed;
    /// The walls refused what the agent started, each with its reason.
    fn refused(&self, _findings: &[String]) {}
    /// What came of a question; none while nobody has answered.
    fn answer(&self, question: &Question) -> Option<Decision>;
}

/// The answer to an agent's question.
pub enum Answered {
    /// A rule decides.
    Now(Decision),
    /// A person is asked.
    Later(Box<Question>),
}

/// A question that a person was asked.
pub struct Question {
    /// What is waited for.
    pub wait: ApprovalWait,
    /// What the agent asked for.
    pub permission: Permission,
    /// From then on it is a no.
    pub until: std::time::Instant,
}

/// What is kept of a conversation with an agent.
pub struct Spoken {
    /// What came of it.
    pub outcome: SessionOutcome,
    /// The agent's last message.
    pub answer: Option<String>,
    /// What it was told.
    pub prompt: PromptBlocks,
    /// Where the rest lies: each file below becomes evidence under its name.
    pub spool: PathBuf,
}

/// What an agent's process left behind, its files aside.
pub struct Execution {
    /// How it ended.
    pub process: ProcessEnd,
    /// What it printed, as far as it was kept, with a mark where it was cut.
    pub stdout: Vec<u8>,
    /// Whether stdout was cut.
    pub stdout_truncated: bool,
    /// The same for stderr.
    pub stderr: Vec<u8>,
    /// Whether stderr was cut.
    pub stderr_truncated: bool,
    /// What it wrote of its step, where that is not in the live directory.
    pub written: Option<OwnedFd>,
    /// What a worker made of its workspace.
    pub captured: Option<Captured>,
    /// What is kept of the conversation with an agent.
    pub spoken: Option<Spoken>,
    /// What confined it, for the record.
    pub sandbox: serde_json::Value,
    /// What was noticed meanwhile.
    pub notes: Vec<String>,
}

/// Where a turn finds things.
pub struct Place {
    /// The run's tree.
    pub repo_root: PathBuf,
    /// Whether the step's directory is seen under its final name while it is written.
    pub final_names: bool,
}

/// What came of a landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandResult {
    /// The ref is there, and the files with it.
    Done,
    /// Nothing was moved.
    Declined(String),
}

/// What the loop asks of agents and of the user's repository, whichever world it runs in.
pub trait World {
    /// Where the tree of a turn can be seen; made or brought up to date if need be.
    fn workspace(&mut self, run: &Run, spec: &TurnSpec) -> Result<Place>;
    /// Gets ready for a turn that may come, while something is on its way to the disk; without an order, for any.
    /// Nothing of an agent may run yet, and nothing may be left if the turn never comes.
    fn prepare(&mut self, _order: Option<&TurnOrder<'_>>) -> Result<()> {
        Ok(())
    }
    /// Has an agent take a turn.
    fn execute(&mut self, order: &TurnOrder<'_>) -> Result<Execution>;
    /// Tries an item's tests on a tree that was made of another.
    fn accept(&mut self, run: &Run, item: &Item, candidate: ObjectId, base: ObjectId) -> Result<Acceptance>;
    /// The state hash of a tree.
    fn state_hash(&mut self, tree: ObjectId) -> Result<Digest>;
    /// Where the ref of a landing is, if that is neither where it must be nor where it shall go.
    fn moved_to(&mut self, _landing: &Landing) -> Result<Option<ObjectId>> {
        Ok(None)
    }
    /// Moves a ref of the user's; doing it again after a crash finishes what was begun.
    fn land(&mut self, run: &Run, landing: &Landing) -> Result<LandResult>;
    /// Has the turn that comes next be ended by this, and not only with its run; without one, with its run again.
    fn end_with(&mut self, _cancel: Option<crate::process::Cancel>) {}
    /// What agents are told, as the user wrote it or as it is built in.
    fn templates(&self) -> run::prompt::Templates {
        run::prompt::Templates::default()
    }
    /// Finds the secrets that must not be kept.
    fn redactor(&mut self) -> Arc<Redactor> {
        Arc::new(Redactor::patterns())
    }
    /// The key that what is found here is signed with.
    fn keys(&self) -> &Keys;
    /// The run has ended: what was only there to carry it out goes.
    fn release(&mut self, run: &Run) -> Result<()>;
}
