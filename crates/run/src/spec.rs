//! What a turn is: who works, from which tree, with which rights, what it is told, in which form it answers and how far
//! it may look back. The decision says all of it here, once; whoever carries the turn out asks nothing else about the
//! workflow that it belongs to.

use crate::Run;
use crate::items::ItemState;
use crate::prompt::NodeTold;
use crate::state::{OpenTurn, StepRecord};
use crate::workflow::graph::{Input, NodeState, NodeTurn, rights};
use crate::workflow::{Flow, batch, graph, intent, pdca, pipeline};
use contract::documents::TaskContract;
use contract::work::{NetworkRight, ShellRight};
use contract::{
    AgentConfig, AgentType, CommitId, ContextMessage, Earlier, Item, RepoPath, ReviewRequest, Role, StepRef, Timestamp,
    TreeId,
};
use serde_json::Value;
use std::sync::Arc;

/// How long free-form notes in a request may be; the rest is in the log.
const NOTES_CHARS_MAX: usize = 16 * 1024;

/// One turn, spelled out.
#[derive(Debug, Clone)]
pub struct TurnSpec {
    /// Its place in the run.
    pub step: StepRef,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Who takes it.
    pub agent: AgentConfig,
    /// The commit that is HEAD in its workspace.
    pub commit: CommitId,
    /// The tree that it finds there.
    pub tree: TreeId,
    /// What it may do.
    pub rights: TurnRights,
    /// What it is asked for.
    pub goal: String,
    /// The contract that it is handed, where it has one of its own.
    pub item: Option<Arc<Item>>,
    /// What norma wants it to know.
    pub notes: String,
    /// What of its workspace is kept.
    pub product: Product,
    /// How long it may take, whatever is left of the run's own time.
    pub time_ms: u64,
    /// What it may look back on.
    pub look_back: LookBack,
    /// Whether other turns of its run may be under way meanwhile: its workspace is then its own, and of the run's steps
    /// only those are shown that it builds on.
    pub in_parallel: bool,
    /// Whether it is an interactive session, in which the agent may ask; else the agent answers once.
    pub interactive: bool,
    /// Whether the next turn of its role continues its conversation.
    pub continues: bool,
    /// What a node of a graph is told.
    pub node: Option<NodeTold>,
    /// Whether its agent is a command, which is told nothing and says how it ended by its exit code.
    pub command: bool,
    /// What it may choose between, where it decides.
    pub choices: Option<Vec<String>>,
    /// What norma fills of the contracts that it is to write.
    pub skeleton: Option<Box<TaskContract>>,
    /// The change that it is to judge.
    pub review: Option<ReviewRequest>,
}

/// What the agent of a turn may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRights {
    /// Whether it may change files.
    pub write: bool,
    /// Where, if not anywhere: below these paths of the repository, or in all of it if there are none.
    pub write_within: Option<Vec<RepoPath>>,
    /// The only places of its workspace that the kernel lets it write to; none for all of it, of which the gates judge
    /// what came.
    pub write_roots: Option<Vec<RepoPath>>,
    /// Commands.
    pub shell: ShellRight,
    /// Words that no command may contain.
    pub forbidden_actions: Vec<String>,
    /// What its tools may reach.
    pub network: NetworkRight,
    /// Whether its program reaches the hosts that it is configured for.
    pub own_hosts: bool,
    /// The MCP tools that it is given.
    pub mcp_tools: Vec<String>,
}

/// What of a turn's workspace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// Nothing: it leaves files in its step directory only.
    Files,
    /// What it edited, as a patch.
    Patch,
    /// The tree as it left it.
    Tree,
}

/// The earlier turns that one may look back on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookBack {
    /// The last of their directories below the run's, oldest first.
    pub dirs: Vec<String>,
    /// How many came before those.
    pub earlier: u32,
}

impl TurnSpec {
    /// The form in which it answers.
    pub fn answer_schema(&self) -> Value {
        crate::prompt::answer_schema(self.step.role, self.item.as_deref())
    }
}

impl Run {
    /// The turn that is open under this name; none if there is no such turn.
    pub fn spec(&self, step: StepRef) -> Option<TurnSpec> {
        let turn = self.core.open.iter().find(|turn| turn.step == step)?;
        match &self.flow {
            Flow::Pdca(state) => self.loop_spec(turn, state),
            Flow::Batch(state) if step.role == Role::Reviewer => self.reviewer_spec(turn, state),
            Flow::Pipeline(state) if step.role == Role::Reviewer => self.reviewer_spec(turn, &state.items),
            Flow::Batch(state) => self.worker_spec(turn, state),
            Flow::Pipeline(state) => self.pipeline_spec(turn, state),
            Flow::Graph(state) => self.node_spec(turn, state),
            Flow::Intent(state) if step.node.is_some() => intent::spec(self, turn, state),
            Flow::Intent(state) => self.worker_spec(turn, &state.items),
        }
    }

    /// The item that a turn is about, if it is about one.
    pub fn item_of(&self, step: StepRef) -> Option<&Arc<Item>> {
        self.items().get(step.item? as usize).map(|state| &state.item)
    }

    fn node_spec(&self, open: &OpenTurn, graph: &graph::State) -> Option<TurnSpec> {
        let (step, contract) = (open.step, &self.started.contract);
        let place = step.node?;
        let node = graph.nodes.get(place as usize)?;
        let (turn, terms) = (node.turn.as_ref()?, &node.terms);
        let mut agent = contract.workers.get(&terms.worker)?.clone();
        agent.model = terms.model.clone().or(agent.model);
        let item = rights::item(contract, node, graph.global_mode, step.index as usize);
        let dirs: Vec<&str> = node.dirs.iter().map(String::as_str).collect();
        Some(TurnSpec {
            step,
            opened_at: open.since,
            commit: turn.base.commit,
            tree: turn.tree,
            rights: TurnRights {
                write: !item.read_only,
                write_within: Some(item.scope.allowed_paths.clone()),
                write_roots: rights::write_roots(terms, graph.global_mode, contract),
                shell: item.rights.shell,
                forbidden_actions: Vec::new(),
                network: NetworkRight::Deny,
                own_hosts: agent.kind == AgentType::Acp,
                mcp_tools: Vec::new(),
            },
            goal: contract.goal.clone(),
            notes: String::new(),
            product: Product::Tree,
            time_ms: item.timeout_ms,
            look_back: self.look_back(dirs),
            in_parallel: true,
            interactive: true,
            continues: terms.resume && agent.resume != Some(false),
            node: Some(told(graph, place, node, turn)),
            command: false,
            choices: None,
            skeleton: None,
            review: None,
            item: Some(Arc::new(item)),
            agent,
        })
    }

    fn loop_spec(&self, turn: &OpenTurn, state: &pdca::State) -> Option<TurnSpec> {
        let (step, contract) = (turn.step, &self.started.contract);
        let agent = contract.agents.get(&step.role)?.clone();
        let edits = step.role == Role::Act && agent.kind != AgentType::Exec;
        let works = matches!(step.role, Role::Do | Role::Act);
        Some(TurnSpec {
            step,
            opened_at: turn.since,
            commit: self.started.base.commit,
            tree: self.core.tree,
            rights: TurnRights {
                write: works,
                write_within: None,
                write_roots: None,
                // Roles that only think change nothing and run nothing. What an executable runs is its own affair: a
                // check by tests is one.
                shell: if works || agent.kind == AgentType::Exec { ShellRight::Never } else { ShellRight::default() },
                forbidden_actions: Vec::new(),
                network: NetworkRight::Deny,
                own_hosts: true,
                mcp_tools: Vec::new(),
            },
            goal: contract.goal.clone(),
            item: None,
            notes: cut(&state.notes.join("\n")),
            product: if edits { Product::Patch } else { Product::Files },
            time_ms: u64::from(contract.limits.step_seconds) * 1000,
            look_back: self.look_back(self.step_dirs()),
            in_parallel: false,
            interactive: false,
            continues: agent.resume != Some(false),
            node: None,
            command: false,
            choices: None,
            skeleton: None,
            review: None,
            agent,
        })
    }

    /// Of a pipeline: those who write contracts only think, and whoever fixes something is told what was found.
    fn pipeline_spec(&self, turn: &OpenTurn, state: &pipeline::State) -> Option<TurnSpec> {
        let mut spec = self.worker_spec(turn, &state.items)?;
        let place = turn.step.item?;
        let item = state.items.item(place).ok()?;
        if let Some((skeleton, told)) = pipeline::told::writing(self, state, item) {
            // What an executable runs is its own affair.
            let shell = if spec.agent.kind == AgentType::Exec { ShellRight::Never } else { ShellRight::Deny };
            spec.rights.shell = shell;
            spec.rights.write_roots = Some(Vec::new());
            (spec.skeleton, spec.notes) = (Some(skeleton), cut(&format!("{told}{}", spec.notes)));
        }
        let task = state.task(place).ok()?;
        if let (Some(told), Some(dir)) = (pipeline::told::fixing(state, task), pipeline::told::evidence_dir(task)) {
            spec.notes = cut(&told);
            spec.look_back = LookBack { dirs: vec![dir], earlier: 0 };
        }
        Some(spec)
    }

    /// A reviewer is shown the tree that a worker left, and what that worker was told; it changes nothing.
    fn reviewer_spec(&self, turn: &OpenTurn, batch: &batch::State) -> Option<TurnSpec> {
        let step = turn.step;
        let state = batch.item(step.item?).ok()?;
        let worked = state.in_review()?;
        let agent = batch.worker(&self.started, state.reviewer()?)?.clone();
        let dirs: Vec<&str> = state.turns.iter().filter_map(|turn| turn.dir.as_deref()).collect();
        Some(TurnSpec {
            step,
            opened_at: turn.since,
            commit: worked.base.commit,
            tree: worked.tree?,
            rights: TurnRights {
                write: false,
                write_within: Some(state.item.scope.allowed_paths.clone()),
                write_roots: Some(Vec::new()),
                // It may look around; whatever needs an approval is refused.
                shell: ShellRight::Never,
                forbidden_actions: state.item.forbidden_actions.clone(),
                network: NetworkRight::Deny,
                own_hosts: agent.kind == AgentType::Acp,
                mcp_tools: Vec::new(),
            },
            goal: state.item.goal.clone(),
            item: Some(state.item.clone()),
            notes: String::new(),
            product: Product::Tree,
            time_ms: state.item.timeout_ms,
            look_back: self.look_back(dirs),
            in_parallel: true,
            interactive: true,
            continues: false,
            node: None,
            command: false,
            choices: None,
            skeleton: None,
            review: Some(ReviewRequest {
                task_id: state.item.id.clone(),
                base_commit: worked.base.commit,
                tree: worked.tree?,
                files: Vec::new(),
                diff: String::new(),
                truncated: false,
            }),
            agent,
        })
    }

    fn worker_spec(&self, turn: &OpenTurn, batch: &batch::State) -> Option<TurnSpec> {
        let (step, base) = (turn.step, turn.base.as_ref()?);
        let state = batch.item(step.item?).ok()?;
        let item = &state.item;
        let agent = batch.worker(&self.started, &item.worker)?.clone();
        let tree = state.shown_on(base);
        Some(TurnSpec {
            step,
            opened_at: turn.since,
            commit: base.commit,
            tree,
            rights: TurnRights {
                write: !item.read_only,
                write_within: Some(item.scope.allowed_paths.clone()),
                write_roots: None,
                shell: item.rights.shell,
                forbidden_actions: item.forbidden_actions.clone(),
                network: item.rights.network,
                // What is given on request was given with the approval that let the run start. The hosts of an agent that
                // speaks ACP are those of its model, which it needs whatever its tools may reach.
                own_hosts: item.rights.network != NetworkRight::Deny || agent.kind == AgentType::Acp,
                mcp_tools: item.rights.mcp_tools.clone(),
            },
            goal: item.goal.clone(),
            item: Some(item.clone()),
            notes: cut(&worker_notes(state, tree != base.tree)),
            product: Product::Tree,
            time_ms: item.timeout_ms,
            look_back: self.look_back(dirs_built_on(batch, state)),
            in_parallel: true,
            interactive: true,
            continues: false,
            node: None,
            command: false,
            choices: None,
            skeleton: None,
            review: None,
            agent,
        })
    }

    /// The last of these directories: what a turn is given must not grow with the length of its run.
    fn look_back(&self, dirs: Vec<&str>) -> LookBack {
        let earlier = dirs.len().saturating_sub(self.started.contract.limits.look_back() as usize);
        LookBack { dirs: dirs[earlier..].iter().map(|dir| (*dir).to_owned()).collect(), earlier: earlier as u32 }
    }
}

/// What a node is told in a turn.
fn told(graph: &graph::State, place: u32, node: &NodeState, turn: &NodeTurn) -> NodeTold {
    let others = graph.present().filter(|(other, _)| *other != place).map(|(_, other)| {
        let terms = &other.terms;
        (terms.id.clone(), terms.label.clone(), terms.role_template.to_string())
    });
    let (mut messages, mut handoffs) = (Vec::new(), Vec::new());
    for input in &turn.inputs {
        match &**input {
            Input::Message { message, at } => messages.push(ContextMessage {
                id: message.id.clone(),
                role: message.role,
                content: message.content.clone(),
                interrupt: message.interrupt,
                created_at: *at,
            }),
            Input::Handoff { sent, .. } => handoffs.push(sent.envelope.clone()),
        }
    }
    NodeTold {
        terms: node.terms.clone(),
        mode: graph.mode,
        global_mode: graph.global_mode,
        others: others.collect(),
        edges: graph.edges.values().cloned().collect(),
        messages,
        handoffs,
        attached: Vec::new(),
        session: node.session,
    }
}

/// The directories of the turns of an item and of what it needs.
fn dirs_built_on<'r>(batch: &'r batch::State, state: &'r ItemState) -> Vec<&'r str> {
    let needed = state.needs.iter().map(|place| &batch.items[*place as usize]);
    let turns = needed.flat_map(|other| &other.turns).chain(&state.turns);
    turns.filter_map(|turn| turn.dir.as_deref()).collect()
}

/// What the agent of an item is told about the attempts before its own.
fn worker_notes(state: &ItemState, is_continued: bool) -> String {
    let attempt = |turn: &Arc<StepRecord>| format!("Attempt {} ended {:?}.\n", turn.step.attempt, turn.end);
    let thread = state.item.thread.is_some().then(|| CONTINUED_NOTE.to_owned());
    let earlier = earlier_note(state, is_continued);
    thread.into_iter().chain(earlier).chain(state.turns.iter().map(attempt)).collect()
}

/// What the agent of a contract is told that continues a conversation.
const CONTINUED_NOTE: &str = "This continues an earlier conversation with you. Your workspace is the repository as it is now: \
                              what you changed then is in it only if it has landed. What this contract asks for counts, not \
                              what was asked for then.\n";

fn earlier_note(state: &ItemState, is_continued: bool) -> Option<String> {
    if state.kept.is_some() {
        return is_continued.then(|| {
            "The attempt before was cut off. What it had changed is in your workspace and not committed (git diff shows \
             it); nobody has judged it. Continue from there, or start over.\n"
                .to_owned()
        });
    }
    match state.earlier.as_deref()? {
        Earlier::Unfinished { run, .. } if is_continued => Some(format!(
            "In run {run} an agent was cut off in the middle of this. What it had changed is in your workspace and not \
             committed (git diff shows it); nobody has judged it. Go on from there, or start over.\n"
        )),
        Earlier::Unfinished { run, .. } => Some(format!(
            "In run {run} an agent was cut off in the middle of this. Other changes have landed since, and nothing of \
             what it had changed is here.\n"
        )),
        Earlier::Done { .. } => None,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(NOTES_CHARS_MAX).collect()
}
