//! What one norma process can ask of the one that owns the state directory, over `norma.sock`. The same
//! function carries it out when nobody owns it and the asking process takes the lock itself.

use crate::git::UserEnvironment;
use crate::host::budgets::raised;
use crate::host::pipeline::PipelineWish;
use crate::{Error, Result, Settings, load_settings};
use contract::documents::{CompileRequest, ReexecStatus};
use contract::graph::GraphEdit;
use contract::replay::ReplayMode;
use contract::review::{Arrangement, Comment, SentTo};
use contract::view::graph::{GlobalMode, RunMode};
use contract::{
    AgentConfig, ApprovalDecision, ApprovalId, ApprovalTerms, Digest, Mode, RefusedBy, Slug, Timestamp, Violation,
    Workflow,
};
use run::redact::Known;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use store::Layout;

/// A verb that changes something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A new task.
    TaskAdd {
        /// What.
        goal: String,
        /// What must hold.
        criteria: Vec<String>,
    },
    /// One task waits for others.
    TaskLink {
        /// The one that waits.
        task: i64,
        /// What it waits for.
        depends_on: Vec<i64>,
    },
    /// A person says it is done.
    TaskDone {
        /// The number of the task.
        task: i64,
    },
    /// Change what a task asks for; what is left out stays.
    TaskEdit {
        /// The number of the task.
        task: i64,
        /// What.
        goal: Option<String>,
        /// What must hold, all of it.
        criteria: Option<Vec<String>>,
    },
    /// Remove a task.
    TaskRemove {
        /// The number of the task.
        task: i64,
    },
    /// End a run.
    Cancel {
        /// Slug.
        run: String,
    },
    /// Take a run off the list, and end it if it has not ended. Its log and its evidence stay.
    Unlist {
        /// Slug.
        run: String,
        /// Who asks for it.
        by: String,
    },
    /// Have a run that is worked on stop at its next step, to continue later.
    Pause {
        /// Slug.
        run: String,
    },
    /// Start a run, or continue one.
    Start {
        /// Who asks, and what their environment decides.
        sender: Box<Sender>,
        /// What they ask for.
        start: Start,
    },
    /// Add the items of a document to a batch that has not ended.
    Add {
        /// Who asks, and what their environment decides.
        sender: Box<Sender>,
        /// Slug.
        run: String,
        /// What the document is called in messages.
        name: String,
        /// The document.
        text: String,
    },
    /// Keep an intent.
    IntentCreate {
        /// What is wanted.
        intent: Box<contract::documents::Intent>,
        /// Who asks.
        by: String,
    },
    /// Answer what the plan of an intent asks.
    IntentAnswer {
        /// Slug.
        run: String,
        /// The answer.
        event: IntentEvent,
        /// Who answers.
        by: String,
    },
    /// Change a graph that people build, or tell one of its nodes something.
    Edit {
        /// Slug.
        run: String,
        /// What is done to it.
        edit: Box<GraphEdit>,
        /// Who does it.
        by: String,
    },
    /// Leave something on a run that is no part of it: a comment on a change, or where its graph is drawn.
    Remark {
        /// Slug.
        run: String,
        /// What.
        remark: Box<Remark>,
        /// Who.
        by: String,
    },
    /// Tell what happens to a run until nobody works on it any more, line by line ([`crate::host::follow`]).
    Follow {
        /// Slug.
        run: String,
        /// The last event that is known.
        after: u64,
    },
    /// Move a passed run's result onto the branch.
    Land {
        /// Slug.
        run: String,
    },
    /// Take a landing back.
    Undo {
        /// Slug.
        run: String,
    },
    /// Keep what came of replaying a run.
    KeepReplay {
        /// Slug.
        run: String,
        /// How it was replayed.
        mode: ReplayMode,
        /// What came of it.
        status: ReexecStatus,
        /// When.
        at: Timestamp,
        /// The report.
        report: Value,
    },
    /// Put on record that a document was not taken for a contract.
    ContractRefused {
        /// What refused it.
        by: RefusedBy,
        /// SHA-256 of the document.
        sha256: Digest,
        /// What it claims to be, as far as that could be told.
        kind: Option<String>,
        /// What is wrong with it.
        violations: Vec<Violation>,
    },
    /// A person answers a question.
    Answer {
        /// UUID of the approval.
        approval: ApprovalId,
        /// What they say.
        decision: ApprovalDecision,
        /// Who they are.
        by: String,
        /// Why, in their words.
        reason: Option<String>,
        /// How far the approval goes.
        #[serde(default)]
        terms: ApprovalTerms,
    },
    /// Rebuild the index tables.
    Reindex,
    /// Remove what nobody needs any more.
    Gc,
    /// Set a damaged run aside.
    Quarantine {
        /// Slug.
        run: String,
        /// Why, in their words.
        reason: String,
        /// Who asks for it.
        by: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Done and durable.
    Done {
        /// One sentence for people.
        message: String,
        /// For programs.
        value: Value,
    },
    /// Not done.
    Refused {
        /// What kept it from being done.
        message: String,
        /// What led to that, the nearest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        causes: Vec<String>,
        /// What to do next.
        hint: Option<String>,
        /// The exit code that belongs to it.
        code: u8,
    },
    /// Not done: this owner is about to let go of the state directory. Whoever asks again finds another, or is one.
    Leaving,
}

/// Who asks for a run, and what their environment decides about it. It is kept in memory only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sender {
    /// The configuration that was named, instead of that of the state directory.
    pub config: Option<PathBuf>,
    /// How much the machine is trusted with.
    pub mode: Mode,
    /// Which git runs, and which configuration of it counts.
    pub git: UserEnvironment,
    /// The clean environment that agents start from.
    pub agent_env: Variables,
    /// Keys of providers, and what else must not be kept.
    pub user_env: Variables,
    /// Whether somebody is there to answer what a run asks.
    pub attended: bool,
    /// The user's own configuration, whether or not there is one.
    #[serde(default)]
    pub own_config: PathBuf,
}

impl Sender {
    /// What of it another process has to know: of the user's variables only those that hold keys of the configured agents,
    /// or something else that must not be kept.
    pub fn without_the_rest(&self, layout: &Layout) -> Sender {
        let path = self.config.clone().unwrap_or_else(|| layout.config());
        // A configuration that cannot be read is refused by whoever is asked.
        let config = load_settings(&path, layout).map(|settings| settings.config).ok();
        let own = crate::context::own::read(&self.own_config).map(|(config, _)| config).ok();
        let named: Vec<&str> = config
            .iter()
            .chain(&own)
            .flat_map(|config| config.agents.values())
            .filter_map(|agent| agent.key_env.as_deref())
            .collect();
        let is_needed = |name: &OsString, value: &OsString| {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { return false };
            let mut known = Known::new();
            known.add_variable(name, value);
            name == "HOME" || is_proxy(name) || named.contains(&name) || session::is_key(name) || !known.is_empty()
        };
        let variables = self.user_env.0.iter().filter(|(name, value)| is_needed(name, value));
        let user_env = Variables(variables.map(|(name, value)| (name.clone(), value.clone())).collect());
        Sender { user_env, ..self.clone() }
    }
}

/// Whether a variable says how the gateway gets out.
fn is_proxy(name: &str) -> bool {
    matches!(name, "HTTPS_PROXY" | "https_proxy" | "NO_PROXY" | "no_proxy")
}

/// Variables of an environment. Neither their names nor their values need be text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(OsString, OsString)>", into = "Vec<(OsString, OsString)>")]
pub struct Variables(pub BTreeMap<OsString, OsString>);

impl From<Vec<(OsString, OsString)>> for Variables {
    fn from(variables: Vec<(OsString, OsString)>) -> Variables {
        Variables(variables.into_iter().collect())
    }
}

impl From<Variables> for Vec<(OsString, OsString)> {
    fn from(Variables(variables): Variables) -> Vec<(OsString, OsString)> {
        variables.into_iter().collect()
    }
}

/// What people leave on a run while they look at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Remark {
    /// A comment on a line of a change.
    Comment(Comment),
    /// A comment that was not sent to anybody is taken back.
    Withdraw {
        /// UUID.
        id: String,
    },
    /// Comments were sent to whoever fixes what they are about.
    Sent {
        /// UUIDs.
        comments: Vec<String>,
        /// Who gets them.
        to: SentTo,
    },
    /// Parts of its graph were moved.
    Arrange(Arrangement),
}

/// What somebody answers to the plan of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentEvent {
    /// What is answered.
    pub kind: contract::api::RunEventKind,
    /// The answer.
    pub choice: String,
    /// The node of the plan; the oldest question without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A run that somebody asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Start {
    /// The loop for a task, or its interrupted run.
    Task {
        /// Its number.
        task: i64,
        /// Start over even if an interrupted run could continue.
        new: bool,
        /// Who fills every role.
        agent: Option<String>,
    },
    /// The loop for a goal, which becomes a task.
    Goal {
        /// What.
        goal: String,
        /// What must hold.
        criteria: Vec<String>,
        /// Who fills every role.
        agent: Option<String>,
    },
    /// The items of a document, or the run of them that was left.
    Document {
        /// What it is called in messages.
        name: String,
        /// As it was submitted.
        text: String,
        /// How many items at once.
        jobs: usize,
        /// Start over, and let a change land that has landed before.
        new: bool,
        /// Who has approved on the command line, or at its terminal, whatever it needs approval for.
        approved_by: Option<String>,
        /// What a person typed beside it, where they typed the document itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        typed: Option<Typed>,
    },
    /// An intent, to be compiled by an agent; or the run of the same request that was left.
    Compile {
        /// The request.
        request: Box<CompileRequest>,
        /// Who is asked.
        agent: Option<String>,
    },
    /// An intent that is kept, to be carried out; or the run that does so.
    Intent {
        /// Its id.
        intent: String,
        /// What its starter traces it by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
    },
    /// What is left of the run of an intent that failed, as a new run.
    Retry {
        /// Slug.
        run: String,
    },
    /// A pipeline: from a sentence or a contract to a merged change.
    Pipeline {
        /// What is wanted, and by whom.
        wish: Box<PipelineWish>,
        /// How many contracts at once.
        jobs: usize,
        /// Who has approved, on the command line or at its terminal, whatever it needs approval for.
        approved_by: Option<String>,
    },
    /// A graph that people build, without a node yet.
    Graph {
        /// What it is for, if that is said.
        goal: String,
        /// Whether it goes on by itself; it does where nothing is said.
        mode: Option<RunMode>,
        /// Whether its nodes may change code; they may where nothing is said.
        global_mode: Option<GlobalMode>,
        /// Commands that every change must pass, in place of the configured ones.
        tests: Vec<String>,
    },
    /// A run that is held.
    Resume {
        /// Slug.
        run: String,
        /// How many items at once.
        jobs: usize,
        /// Who has approved at a terminal what it waits for.
        approved_by: Option<String>,
    },
    /// What is left of a run that a budget stopped, as a new run with more to use up.
    Extend {
        /// Slug.
        run: String,
        /// What it may use up, as `NAME=N`.
        budgets: Vec<String>,
        /// How many items at once.
        jobs: usize,
        /// Who asks; they have approved again what was typed for the run that it continues.
        by: String,
    },
    /// A new run from the tree that another one had after an event.
    Fork {
        /// Slug.
        run: String,
        /// The event.
        seq: u64,
        /// How many items at once.
        jobs: usize,
        /// Who asks.
        by: String,
    },
    /// The contract of a run once more, to be compared.
    Again {
        /// Slug.
        run: String,
        /// How many items at once.
        jobs: usize,
    },
}

/// What a person typed beside a contract that they typed. It changes their settings for this one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// Who works.
    pub agent: String,
    /// The model, instead of the agent's own choice.
    pub model: Option<String>,
    /// What the run may use up, as `NAME=N`.
    pub budgets: Vec<String>,
}

impl Typed {
    /// The settings with what was typed in them.
    pub fn apply(&self, settings: &mut Settings) -> Result<()> {
        let budgets = settings.config.budgets.clone();
        settings.config.budgets = raised(Workflow::Batch, budgets, &self.budgets)
            .map_err(|problem| Error::usage(problem, "for example --budget max_tokens=200000"))?;
        let Some(model) = &self.model else { return Ok(()) };
        let Some(agent) = settings.config.agent(&self.agent) else { return Ok(()) };
        if agent.kind.has_command() && agent.api.is_none() {
            let message = format!("--model cannot be told to {}, an agent of type {}", self.agent, agent.kind.as_str());
            return Err(Error::usage(message, "leave it out; its own command line says which model it uses"));
        }
        let agent = AgentConfig { model: Some(model.clone()), ..agent };
        settings.config.agents.insert(self.agent.clone(), agent);
        Ok(())
    }
}

/// What a run was started as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// The run.
    pub run_id: Slug,
    /// The last event of it that was there when it began to be worked on.
    pub seq: u64,
    /// What the one who asked should know.
    pub notes: Vec<String>,
}

impl From<&Error> for Answer {
    fn from(error: &Error) -> Answer {
        if let Error::Leaving = error {
            return Answer::Leaving;
        }
        Answer::Refused {
            message: error.to_string(),
            causes: error.causes(),
            hint: error.hint().map(str::to_owned),
            code: error.exit_code(),
        }
    }
}
