//! How an agent takes a turn on this machine: confined by a sandbox, or, where a trusted configuration says so,
//! by nothing. Both get ready while the turn's intent is on its way to the disk, and start nothing before.

use crate::agent::{self, Engaged, Engagement, Engaging, Work};
use crate::context::confinement::level;
use crate::git::id;
use crate::machine::Machine;
use crate::machine::confine::{Scene, Shown, Tools};
use crate::machine::setup::SetUp;
use crate::machine::view::Ground;
use crate::process::MARKER;
use crate::process::{self, Command, End, Limits, Ready, Said, confined};
use crate::workspace::Captured;
use crate::world::{Execution, TurnOrder};
use crate::{Context, Error, Result};
use contract::work::ShellRight;
use contract::{AgentConfig, Backend, Contract, ProcessEnd, PromptBlock, StepRef};
use run::Product;
use run::gate::command::{Started, was_not_asked};
use run::prompt::{INSTRUCTION_FILES, INSTRUCTIONS_MAX, repository_block};
use sandbox::{Commands, Judge, Policy, Report};
use serde_json::{Value, json};
use session::Kind;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Names the turn in the environment of every process of an agent that nothing confines, so that what outlives its
/// supervisor can be found without meaning the turns of other items, which the run works on at the same time.
const TURN_MARKER: &str = "NORMA_TURN";

/// What stands ready for the next turn.
#[derive(Default)]
pub(crate) struct Waiting {
    /// The supervisor of an agent that nothing confines.
    supervisor: Option<Ready>,
    /// The sandbox of a turn, or why there is none.
    sandbox: Option<(StepRef, Staged)>,
}

/// A sandbox in which an agent waits for the word.
struct Stage {
    ready: confined::Ready,
    policy: Policy,
    /// An agent with an interactive session.
    engaged: Option<Box<Engaged>>,
}

/// What came of building the sandbox of a turn.
enum Staged {
    Ready(Box<Stage>),
    /// What keeps the agent from being confined: an outcome of the turn.
    Refused(ProcessEnd),
}

/// An agent's command line, resolved.
pub(crate) struct Call {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
}

pub(crate) fn prepare(machine: &mut Machine, order: Option<&TurnOrder<'_>>) -> Result<()> {
    match order.map(|order| (backend_of(order), order)) {
        Some((Backend::Native, order)) => {
            // A setup is an effect: it waits until the turn's intent is on record.
            if !machine.needs_setup(&Ground::of(order.run, order.spec))? {
                let stage = machine.stage(order)?;
                machine.waiting.sandbox = Some((order.spec.step, stage));
            }
            Ok(())
        }
        Some((Backend::None, _)) => machine.ready_a_supervisor(),
        // Nothing of another system is made before the turn's intent is on record.
        Some((Backend::Microsandbox | Backend::E2b, _)) | None => Ok(()),
    }
}

pub(crate) fn execute(machine: &mut Machine, order: &TurnOrder<'_>) -> Result<Execution> {
    match backend_of(order) {
        Backend::Native => machine.execute_confined(order),
        Backend::None => machine.execute_freely(order),
        backend @ (Backend::Microsandbox | Backend::E2b) => machine.execute_elsewhere(order, backend),
    }
}

fn backend_of(order: &TurnOrder<'_>) -> Backend {
    order.run.started.contract.backend_of(order.spec.item.as_deref())
}

impl Machine {
    /// Builds the sandbox of a turn.
    fn stage(&mut self, order: &TurnOrder<'_>) -> Result<Staged> {
        let (agent, on) = (&order.spec.agent, Ground::of(order.run, order.spec));
        let shown = self.show(&on)?;
        let layout = &self.context.layout;
        let Some(mut call) = self.call(agent, &layout.root, &on)? else {
            return Ok(Staged::Refused(missing(agent)));
        };
        let contract = &order.run.started.contract;
        let run_dir = layout.run(&order.run.id.slug());
        let tools = self.tools(contract)?;
        let engaged = match agent::kind_of(agent) {
            None => None,
            Some(kind) => match self.engaging(order, kind)?.engage(order, agent, kind, &call.cwd, Some(&tools.home))? {
                Engagement::Ready(engaged) => Some(engaged),
                Engagement::Refused(why) => return Ok(Staged::Refused(ProcessEnd::NotStarted(why))),
            },
        };
        if let Some(engaged) = &engaged {
            call.args = engaged.args().iter().map(OsString::from).collect();
            call.program = agent::program(&call.program);
        }
        let extra = match &engaged {
            Some(engaged) => engaged.extra(&call.program),
            None => {
                // What is in the repository is seen as the run has it.
                let is_outside = |root: &sandbox::Root| !root.path.starts_with(&self.context.layout.root);
                let read: Vec<_> = agent::environment(&call.program).into_iter().filter(is_outside).collect();
                call.program = if read.is_empty() { call.program } else { agent::program(&call.program) };
                let own_env = agent::own_env(agent, None, &self.context.user_env);
                agent::Extra { read, own_env, ..agent::Extra::default() }
            }
        };
        let scene = self.scene(&tools, shown, contract);
        scene.open_up(order, &run_dir)?;
        let staged = scene.turn(order, agent, (&call.cwd, &call.program), &run_dir, extra).and_then(|policy| {
            let command = command(&call)?;
            let ready = confined::get_ready(&self.context.sandbox, &policy, &command);
            Ok(Stage { ready: ready.map_err(|error| error.to_string())?, policy, engaged })
        });
        Ok(match staged {
            Ok(stage) => Staged::Ready(Box::new(stage)),
            Err(why) => Staged::Refused(ProcessEnd::NotConfined(why)),
        })
    }

    /// What a known agent of a turn is engaged with.
    fn engaging(&mut self, order: &TurnOrder<'_>, kind: Kind) -> Result<Engaging<'_>> {
        let private = self.directory(&Ground::of(order.run, order.spec));
        let redactor = self.redactor();
        let repository = self.instructions(order, kind.reads_by_itself())?;
        Ok(Engaging { context: &self.context, private, redactor, repository })
    }

    /// What the repository tells agents, as the run's base has it: at its root, and in the directories that the turn may
    /// change. What an earlier turn made of these files is not told, nor what the agent reads by itself.
    fn instructions(&self, order: &TurnOrder<'_>, known: Option<&str>) -> Result<Option<PromptBlock>> {
        let base = &order.run.started.base;
        let allowed = match &order.spec.item {
            Some(item) => &item.scope.allowed_paths,
            None => &order.run.started.contract.scope.allowed_paths,
        };
        let within = allowed.iter().map(|path| path.as_str());
        let above = within.flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]));
        let directories: BTreeSet<&str> = above.chain([""]).collect();
        let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
        let told = INSTRUCTION_FILES.iter().filter(|name| Some(**name) != known).map(|name| (*name, true));
        let names: Vec<(&str, bool)> = known.map(|name| (name, false)).into_iter().chain(told).collect();
        for (path, is_told) in
            directories.iter().flat_map(|dir| names.iter().map(move |(name, told)| (format!("{dir}/{name}"), *told)))
        {
            let path = path.trim_start_matches('/').to_owned();
            // One is often a link to another, or a copy of it.
            if let Some(blob) = self.objects.file_through_links(id(base.tree), &path)?
                && files.len() < INSTRUCTIONS_MAX
                && seen.insert(blob)
                && is_told
            {
                files.push((path, self.objects.read_blob(blob)?));
            }
        }
        Ok(repository_block(base.commit, &files))
    }

    /// What of the machine is seen inside; looked for once.
    pub(crate) fn tools(&mut self, contract: &Contract) -> Result<Arc<Tools>> {
        if let Some(tools) = &self.tools {
            return Ok(tools.clone());
        }
        let Context { sandbox, agent_env, layout, .. } = &*self.context;
        let level = level(sandbox)?;
        let found = Arc::new(Tools::find(agent_env, &contract.sandbox_read, &layout.root, level));
        Ok(self.tools.insert(found).clone())
    }

    pub(crate) fn scene<'s>(&'s self, tools: &'s Tools, shown: Shown, contract: &'s Contract) -> Scene<'s> {
        let layout = &self.context.layout;
        Scene {
            tools,
            shown,
            root: &layout.root,
            state: &layout.state,
            env: &self.context.agent_env,
            limits: &contract.sandbox_limits,
            layer_mb: contract.workspace.layer_mb,
        }
    }

    fn execute_confined(&mut self, order: &TurnOrder<'_>) -> Result<Execution> {
        let began = Instant::now();
        let mut notes = match self.set_up(&Ground::of(order.run, order.spec), limits(order))? {
            SetUp::Ready(notes) => notes,
            SetUp::Failed(execution) => return Ok(*execution),
        };
        notes.extend(unused_hosts(order));
        let time_left = order.time_left.saturating_sub(began.elapsed());
        let order = &TurnOrder { time_left, ..*order };
        let waiting = self.waiting.sandbox.take().filter(|(step, _)| *step == order.spec.step);
        let stage = match waiting {
            Some((_, stage)) => stage,
            None => self.stage(order)?,
        };
        let Stage { mut ready, policy, mut engaged } = match stage {
            Staged::Ready(stage) => *stage,
            Staged::Refused(end) => return Ok(not_started(end, json!({ "backend": "native" }))),
        };
        if self.cancel.is_canceled() {
            return Ok(not_started(ProcessEnd::Canceled, confinement(&policy, &Value::Null, &Value::Null)));
        }
        let mut conversation = match &mut engaged {
            Some(engaged) => {
                let work = engaged.home_layer(&policy).and_then(|home| self.work(order, home));
                Some(engaged.begin(order, ready.take_door(), work)?)
            }
            None => None,
        };
        let judge = self.judge(order)?;
        let bytes = if engaged.is_some() { Vec::new() } else { stdin(order) };
        let (said, limits) = match (&mut conversation, &engaged) {
            (Some((talk, _)), Some(engaged)) => (Said::Talk(talk), engaged.limits(limits(order))),
            _ => (Said::Bytes(&bytes), limits(order)),
        };
        let mut finished = match ready.go_judged(said, limits, &self.cancel, judge) {
            Ok(finished) => finished,
            Err(error) => {
                let end = ProcessEnd::NotConfined(error.to_string());
                return Ok(not_started(end, confinement(&policy, &Value::Null, &Value::Null)));
            }
        };
        notes.extend(finished.report.as_mut().map(|report| self.tell_refused(order, report)).unwrap_or_default());
        let mut record = confinement(&policy, &json!(finished.effective), &json!(finished.report));
        record["workspace"] = self.workspace_on_record();
        let step_layer = finished.layers.pop();
        let home = engaged.as_ref().and_then(|engaged| engaged.home_layer(&policy));
        let spoken = match (engaged, conversation) {
            (Some(engaged), Some((talk, answering))) => {
                let home = home.and_then(|place| finished.layers.get(place));
                let ended = engaged.end(talk, answering, &mut finished.outcome, home)?;
                notes.extend(ended.notes);
                Some(ended.spoken)
            }
            _ => None,
        };
        let captured = self.captured(order, finished.layers)?;
        Ok(Execution {
            process: finished.outcome.end,
            stdout_truncated: finished.outcome.stdout.truncated,
            stdout: kept(finished.outcome.stdout),
            stderr_truncated: finished.outcome.stderr.truncated,
            stderr: kept(finished.outcome.stderr),
            written: step_layer,
            captured,
            spoken,
            notes,
            sandbox: record,
        })
    }

    /// What is kept of a turn while it is under way: what an item's agent makes of its tree. The workspace's layer is the
    /// first.
    fn work(&self, order: &TurnOrder<'_>, home: usize) -> Option<Work> {
        let kept = order.spec.product == Product::Tree && order.again.is_none() && self.workspace.has_stand();
        let (objects, tree, rules) = (self.objects.clone(), id(order.spec.tree), self.capture_rules(order));
        kept.then(|| Work { objects, tree, rules, layers: (0, home) })
    }

    /// Who judges what an agent starts, where it works under a contract. What a loop's agents may is not in any.
    fn judge(&mut self, order: &TurnOrder<'_>) -> Result<Option<Judge>> {
        if order.spec.item.is_none() {
            return Ok(None);
        }
        let state = self.context.layout.state.to_string_lossy().into_owned();
        let (policy, words) = (self.commands()?, order.spec.rights.forbidden_actions.clone());
        let shell = order.spec.rights.shell;
        let gate = Started { policy, words, state, asks: shell != ShellRight::Never };
        // These do not ask for what they take for harmless themselves.
        let asks_for_little = matches!(agent::kind_of(&order.spec.agent), Some(Kind::Codex | Kind::Gemini));
        let all_asked = shell == ShellRight::Untrusted && asks_for_little;
        let allowed = order.witness.allowed();
        Ok(Some(Box::new(move |starting| {
            let allowed = allowed.lock().unwrap_or_else(PoisonError::into_inner);
            let unasked = || {
                let is_unasked = all_asked && starting.chosen && was_not_asked(starting.argv, &allowed);
                is_unasked.then(|| "every command is to be asked about".to_owned())
            };
            gate.refuses(starting.argv, starting.chosen, &allowed).or_else(unasked)
        })))
    }

    /// Puts on record what the walls refused; as notes, too.
    fn tell_refused(&mut self, order: &TurnOrder<'_>, report: &mut Report) -> Vec<String> {
        let attempts = report.network.iter().filter(|attempt| !attempt.verdict.is_allowed());
        let mut notes: Vec<_> = attempts.map(|it| format!("the network refused {}:{}", it.host, it.port)).collect();
        let findings = report.commands.as_mut().map(|commands| self.without_secrets(commands)).unwrap_or_default();
        order.witness.refused(&findings);
        notes.extend(findings.into_iter().map(|finding| format!("refused: {finding}")));
        notes
    }

    /// Takes the secrets out of what is kept of commands; what was refused, and why.
    fn without_secrets(&mut self, commands: &mut Commands) -> Vec<String> {
        let redactor = self.redactor();
        let refused = commands.refused.iter_mut().map(|refused| &mut refused.command);
        for text in commands.first.iter_mut().chain(refused) {
            *text = redactor.redact_str(text).0.into_owned();
        }
        commands.refused.iter().map(|refused| format!("{}: {}", refused.command, refused.reason)).collect()
    }

    /// What a turn made of its workspace, where that is kept. Its layer is the first; the steps' come after it.
    pub(crate) fn captured(&mut self, order: &TurnOrder<'_>, layers: Vec<OwnedFd>) -> Result<Option<Captured>> {
        if order.spec.product == Product::Files {
            return Ok(None);
        }
        let layer = layers.into_iter().next().filter(|_| self.workspace.has_stand());
        self.capture(order, layer).map(Some)
    }

    fn ready_a_supervisor(&mut self) -> Result<()> {
        if self.waiting.supervisor.is_none() {
            let supervisor = &self.context.supervisor;
            let ready = process::get_ready(supervisor);
            self.waiting.supervisor = Some(ready.map_err(|source| Error::io("run", &supervisor.program, source))?);
        }
        Ok(())
    }

    fn execute_freely(&mut self, order: &TurnOrder<'_>) -> Result<Execution> {
        let (agent, on) = (&order.spec.agent, Ground::of(order.run, order.spec));
        let Shown::Directory { source: tree, .. } = self.show(&on)? else {
            unreachable!("BUG: layers are for agents that are confined")
        };
        let record = json!({ "backend": "none" });
        let Some(call) = self.call(agent, &tree, &on)? else { return Ok(not_started(missing(agent), record)) };
        let mut engaged = match agent::kind_of(agent) {
            None => None,
            Some(kind) => match self.engaging(order, kind)?.engage(order, agent, kind, &call.cwd, None)? {
                Engagement::Ready(engaged) => Some(engaged),
                Engagement::Refused(why) => return Ok(not_started(ProcessEnd::NotStarted(why), record)),
            },
        };
        let command = self.free_command(agent, &tree, call, order, engaged.as_deref());
        prepare(self, Some(order))?;
        let ready = self.waiting.supervisor.take().expect("BUG: a supervisor was just made ready");
        let mut conversation = match &mut engaged {
            Some(engaged) => Some(engaged.begin(order, None, None)?),
            None => None,
        };
        let said = match &mut conversation {
            Some((talk, _)) => Said::Talk(talk),
            None => Said::Bytes(&command.stdin),
        };
        let outcome = ready.go(&command, said, &self.cancel);
        let (mut outcome, supervisor) = outcome.map_err(|source| Error::io("run", &command.program, source))?;
        self.waiting.supervisor = supervisor;
        if outcome.end == End::Signaled(9) {
            // The supervisor itself may have been the victim; whatever it watched over must not continue.
            let _ = process::leftovers::kill(TURN_MARKER, &turn_marker(order));
        }
        let mut notes = Vec::new();
        let spoken = match (engaged, conversation) {
            (Some(engaged), Some((talk, answering))) => {
                let ended = engaged.end(talk, answering, &mut outcome, None)?;
                notes = ended.notes;
                Some(ended.spoken)
            }
            _ => None,
        };
        Ok(Execution {
            process: outcome.end,
            stdout_truncated: outcome.stdout.truncated,
            stdout: kept(outcome.stdout),
            stderr_truncated: outcome.stderr.truncated,
            stderr: kept(outcome.stderr),
            written: None,
            captured: self.captured(order, Vec::new())?,
            spoken,
            notes,
            sandbox: record,
        })
    }

    fn free_command(
        &self,
        agent: &AgentConfig,
        tree: &Path,
        mut call: Call,
        order: &TurnOrder<'_>,
        engaged: Option<&Engaged>,
    ) -> Command {
        let mut env = self.context.agent_env.clone();
        let mut limits = limits(order);
        match engaged {
            Some(engaged) => {
                call.args = engaged.args().iter().map(OsString::from).collect();
                env.extend(engaged.env().map(|(name, value)| (name.into(), value.into())));
                limits = engaged.limits(limits);
            }
            None => {
                let own = agent::own_env(agent, None, &self.context.user_env);
                env.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
            }
        }
        env.insert(MARKER.into(), order.run.id.slug().as_str().into());
        env.insert(TURN_MARKER.into(), turn_marker(order).into());
        env.insert("NORMA_STEP_DIR".into(), order.live_dir.into());
        // An agent that deletes its private `.git` must not find the user's repository further up.
        env.insert("GIT_CEILING_DIRECTORIES".into(), tree.parent().unwrap_or(tree).into());
        let Call { program, args, cwd } = call;
        Command { program, args, cwd, env, stdin: stdin(order), limits }
    }

    /// What the agent's command line means with the run's tree at `root`; none when there is no such program.
    pub(crate) fn call(&self, agent: &AgentConfig, root: &Path, on: &Ground<'_>) -> Result<Option<Call>> {
        let program = agent.program();
        let path_var = self.context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let in_tree = program.contains('/') && !program.starts_with('/');
        let resolved = match in_tree {
            true => self.is_file(on, program)?.then(|| root.join(program)),
            false => process::resolve(program, &path_var, root),
        };
        let Some(program) = resolved else { return Ok(None) };
        let below = agent.path.as_deref().filter(|path| *path != ".");
        let cwd = below.map_or_else(|| root.to_owned(), |path| root.join(path));
        Ok(Some(Call { program, args: self.arguments(agent, root, on)?, cwd }))
    }

    /// The arguments of an agent's command with the run's tree at `root`.
    pub(crate) fn arguments(&self, agent: &AgentConfig, root: &Path, on: &Ground<'_>) -> Result<Vec<OsString>> {
        let below = agent.path.as_deref().filter(|path| *path != ".");
        let mut args = Vec::with_capacity(agent.cmd.len());
        for arg in agent.cmd.iter().skip(1) {
            // One that names a file of the tree means that file even when the agent starts in a directory below.
            let elsewhere = match below {
                Some(below) if !arg.starts_with(['-', '/']) => {
                    !self.is_file(on, &format!("{below}/{arg}"))? && self.is_file(on, arg)?
                }
                _ => false,
            };
            args.push(if elsewhere { root.join(arg).into_os_string() } else { arg.into() });
        }
        Ok(args)
    }

    /// Whether the run's tree has a file of this name.
    fn is_file(&self, on: &Ground<'_>, path: &str) -> Result<bool> {
        let Ok(path) = contract::RepoPath::parse(path) else { return Ok(false) };
        let entry = self.objects.tree_entry(id(on.tree), path.as_str().as_bytes())?;
        Ok(entry.is_some_and(|(mode, _)| mode & 0o170_000 == 0o100_000))
    }
}

/// What is said of hosts that an agent is configured for and does not get.
pub(crate) fn unused_hosts(order: &TurnOrder<'_>) -> Option<String> {
    let hosts = Some(&order.spec.agent.network).filter(|hosts| !hosts.is_empty() && !order.spec.rights.own_hosts)?;
    Some(format!("the contract gives no network, so the agent could not reach {}", hosts.join(", ")))
}

/// What [`TURN_MARKER`] says: the run, and the turn within it.
fn turn_marker(order: &TurnOrder<'_>) -> String {
    format!("{}/{}", order.run.id.slug(), order.spec.step.dir_name())
}

fn missing(agent: &AgentConfig) -> ProcessEnd {
    let program = agent.program();
    let install = agent::kind_of(agent).filter(|_| agent.bin.is_none()).and_then(session::install);
    let install = install.map(|command| format!("; install it: {command}")).unwrap_or_default();
    ProcessEnd::NotStarted(format!("{program:?} is not an executable file here{install}"))
}

pub(crate) fn command(call: &Call) -> std::result::Result<sandbox::Command, String> {
    let text = |text: &OsStr| text.to_str().map(str::to_owned).ok_or_else(|| format!("{text:?} is not UTF-8"));
    let args = call.args.iter().map(|arg| text(arg)).collect::<std::result::Result<_, _>>()?;
    Ok(sandbox::Command { program: text(call.program.as_os_str())?, args })
}

fn stdin(order: &TurnOrder<'_>) -> Vec<u8> {
    if order.spec.command {
        return Vec::new();
    }
    serde_json::to_vec(order.request).expect("BUG: a request is plain data")
}

pub(crate) fn limits(order: &TurnOrder<'_>) -> Limits {
    let limits = &order.run.started.contract.limits;
    Limits {
        wall: order.time_left,
        idle: limits.idle_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        output_bytes_max: u64::from(limits.output_mb) << 20,
        clock: order.clock.cloned(),
    }
}

/// What is put on record of a sandbox. Of the environment only the names: values may be secrets.
pub(crate) fn confinement(policy: &Policy, effective: &Value, report: &Value) -> Value {
    let mut asked = json!(policy);
    asked["env"] = policy.env.keys().map(String::as_str).collect();
    json!({ "backend": "native", "policy": asked, "effective": effective, "report": report })
}

pub(crate) fn kept(captured: process::Captured) -> Vec<u8> {
    if captured.truncated { captured.with_mark() } else { captured.bytes }
}

pub(crate) fn not_started(process: ProcessEnd, sandbox: Value) -> Execution {
    Execution {
        process,
        stdout: Vec::new(),
        stdout_truncated: false,
        stderr: Vec::new(),
        stderr_truncated: false,
        written: None,
        captured: None,
        spoken: None,
        notes: Vec::new(),
        sandbox,
    }
}
