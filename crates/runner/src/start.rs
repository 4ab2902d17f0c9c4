//! Starting a run, and going on with one: from what a person asked for to a compiled contract, a base, and the
//! first fact of the log.

use crate::git::{DirtyPath, Objects, Repository, Swap};
use crate::landing::id;
use crate::machine::base_ref;
use crate::trust::invalid;
use crate::workspace::include;
use crate::{Error, Result, Settings, Trust};
use contract::{
    AcceptanceCriterion, AgentConfig, Author, Base, Budgets, Contract, ContractSchema, Fact, Policies, Role, RunId,
    RunStarted, Status, Workflow,
};
use run::Run;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use store::{Reader, RunLog, Store, crash};

/// How many paths that are left out or included are put on record; the rest is counted.
const NAMES_MAX: usize = 100;

/// What a person asked for.
#[derive(Debug, Clone)]
pub struct Order {
    /// What.
    pub goal: String,
    /// What must hold.
    pub criteria: Vec<AcceptanceCriterion>,
    /// The task it comes from.
    pub task: Option<i64>,
    /// The run whose tree it goes on from.
    pub parent: Option<Box<Run>>,
    /// Budgets that replace the configured ones.
    pub budgets: Option<Budgets>,
}

/// Compiles the contract and puts the start on record. Nothing is left behind if anything is not as it must be.
pub fn start(
    store: &Store,
    user: &Repository,
    objects: &Objects,
    trust: &Trust,
    settings: &Settings,
    path_var: &OsStr,
    order: Order,
) -> Result<(Run, RunLog)> {
    let Settings { config, path, policies, .. } = settings;
    let agents = config.pdca_agents().map_err(|violations| no_agents(path, &violations))?;
    let state_dir = store.layout.state_in_repository();
    let scope = config.scope.compile(state_dir.as_ref()).map_err(|violations| invalid(path, &violations))?;
    let head = user.head()?;
    let base = base_of(&head, order.parent.as_deref());
    let tree = order.parent.as_ref().map_or_else(|| base.tree.clone(), |parent| parent.tree.clone());
    preflight(&agents, objects, &tree, path_var, &user.root)?;
    let contract = Contract {
        schema: ContractSchema::V1,
        workflow: Workflow::Pdca,
        goal: order.goal,
        acceptance_criteria: order.criteria,
        budgets: order.budgets.unwrap_or_else(|| config.budgets.clone()),
        limits: config.limits.clone(),
        landing: config.landing.clone(),
        agents,
        sandbox: config.sandbox.backend,
        sandbox_limits: config.sandbox.limits.clone(),
        sandbox_read: config.sandbox.read.clone(),
        workspace: config.workspace.clone(),
        task_id: order.task,
        scope,
        policies: policies.digests(),
        workers: BTreeMap::new(),
        items: Vec::new(),
    };
    let include = include::find(user, include::is_secret)?;
    let id = store::new_run_id();
    let identity = user.identity();
    let started = RunStarted {
        contract_digest: contract.digest(),
        contract,
        base,
        tree,
        author: Author { name: identity.name, email: identity.email },
        left_out: left_out(&user.dirty()?, &include.secrets),
        included: capped(include.files.iter().map(|path| shown(path)).collect()),
        parent: order.parent.map(|parent| parent.id.slug()),
        items: 0,
        run_dir: store.layout.shown(&store.layout.run(&id.slug())),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    // Before the run is on record: a run that its own user may not go on with would be the worse half.
    trust.keep_started(started.contract_digest)?;
    begin(store, user, id, started)
}

fn begin(store: &Store, user: &Repository, id: RunId, started: RunStarted) -> Result<(Run, RunLog)> {
    let base = crate::landing::id(&started.base.commit)?;
    if let Swap::Moved { .. } = user.swap_ref(&base_ref(&id.slug()), Some(base), None, "norma: run started")? {
        return Err(Error::environment(format!("{} exists already", base_ref(&id.slug())), "try again"));
    }
    store.create_run_dir(&id.slug(), &started)?;
    crash::point("run.before_start");
    let mut log = RunLog::new(id, started.contract.task_id, &started.contract_digest);
    let events = store.append(&mut log, vec![Fact::RunStarted(Box::new(started))], Vec::new())?;
    crash::point("run.after_start");
    let run = Run::start(id, &events[0]).expect("BUG: a new run starts with run_started");
    Ok((run, log))
}

/// A run that goes on from another one's tree keeps that run's base commit: it lands as one change.
fn base_of(head: &crate::git::Head, parent: Option<&Run>) -> Base {
    match parent {
        Some(parent) => parent.started.base.clone(),
        None => Base { commit: head.commit.to_string(), tree: head.tree.to_string(), branch: head.branch.clone() },
    }
}

/// Takes up a paused run where it was left, under the policies it was started under.
pub fn resume(store: &Store, policies: &Policies, slug: &str) -> Result<(Run, RunLog)> {
    let (run, log) = Reader::open(&store.layout)?.load(slug)?;
    match run.status {
        Status::Paused => same_policies(&run, policies)?,
        Status::Stopped => {
            let hint = format!("give it more: norma resume {slug} --budget max_iterations=10");
            return Err(Error::declined(format!("run {slug} is stopped: its budget is used up"), hint));
        }
        status => {
            let hint = format!("a retry is a new run: norma run … --new; look at this one: norma show {slug}");
            return Err(Error::declined(format!("run {slug} is {status}; only a paused run can be resumed"), hint));
        }
    }
    take_up(store, run, log)
}

/// Puts on record that a paused run goes on.
pub(crate) fn take_up(store: &Store, mut run: Run, mut log: RunLog) -> Result<(Run, RunLog)> {
    for event in store.append(&mut log, vec![Fact::RunResumed { pid: std::process::id() }], Vec::new())? {
        run.apply(&event).expect("BUG: a paused run can be resumed");
    }
    Ok((run, log))
}

/// A run is judged by one set of policies from its start to its end. One from before there were policies names
/// none, and goes on under those of today.
fn same_policies(run: &Run, policies: &Policies) -> Result<()> {
    let today = policies.digests();
    let bound = run.started.contract.policies.iter();
    let other: Vec<&str> =
        bound.filter(|(name, digest)| today.get(*name) != Some(*digest)).map(|(name, _)| name.as_str()).collect();
    if other.is_empty() {
        return Ok(());
    }
    let message =
        format!("run {} was started under other policies than those of today: {}", run.id.slug(), other.join(", "));
    Err(Error::environment(
        message,
        "put them back as they were, or start anew under those of today: norma run … --new",
    ))
}

fn no_agents(path: &Path, violations: &[contract::Violation]) -> Error {
    let lines: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
    Error::usage(
        format!("{} does not name an agent for every role:{}", path.display(), lines.concat()),
        r#"name each like this: "agents": { "plan": { "type": "exec", "cmd": ["agents/plan"] }, … }, then: norma trust"#,
    )
}

/// Every agent's program must be there before a run starts, so that nobody waits for a run that cannot work.
fn preflight(
    agents: &BTreeMap<Role, AgentConfig>,
    objects: &Objects,
    tree: &str,
    path_var: &OsStr,
    root: &Path,
) -> Result<()> {
    let mut missing = Vec::new();
    for (role, agent) in agents {
        let program = agent.cmd[0].as_str();
        if let Some(problem) = program_problem(program, objects, tree, path_var, root)? {
            missing.push(format!("\n  {role}: {problem}"));
        }
        if let Some(path) = agent.path.as_deref().filter(|path| *path != ".")
            && objects.tree_entry(id(tree)?, path.as_bytes())?.is_none_or(|(mode, _)| mode != 0o40_000)
        {
            missing.push(format!("\n  {role}: path {path:?} is not a directory of the run's tree"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("some agents cannot be started:{}", missing.concat());
    Err(Error::environment(message, "mend .norma/config.json, then trust it: norma trust"))
}

fn program_problem(
    program: &str,
    objects: &Objects,
    tree: &str,
    path_var: &OsStr,
    root: &Path,
) -> Result<Option<String>> {
    let absolute_or_name = program.starts_with('/') || !program.contains('/');
    if absolute_or_name {
        let found = crate::process::resolve(program, path_var, root).is_some();
        let place = if program.starts_with('/') { "is not an executable file" } else { "is not on PATH" };
        return Ok((!found).then(|| format!("{program:?} {place}")));
    }
    let path = match contract::RepoPath::parse(program) {
        Ok(path) => path,
        Err(problem) => return Ok(Some(format!("{program:?}: {problem}"))),
    };
    Ok(match objects.tree_entry(id(tree)?, path.as_str().as_bytes())? {
        Some((0o100_755, _)) => None,
        Some((0o100_644, _)) => Some(format!(
            "{program:?} is not executable in the run's tree; git update-index --chmod=+x {path}, and commit"
        )),
        Some(_) => Some(format!("{program:?} is not a file in the run's tree")),
        None if root.join(path.as_str()).exists() => {
            Some(format!("{program:?} is in your checkout but not committed, so it is not in the run's tree"))
        }
        None => Some(format!("{program:?} is not in the run's tree")),
    })
}

fn left_out(dirty: &[DirtyPath], secrets: &[Vec<u8>]) -> Vec<String> {
    let secret = |path: &Vec<u8>| format!("{} (its name says that it holds secrets)", shown(path));
    capped(dirty.iter().map(|dirty| shown(&dirty.path)).chain(secrets.iter().map(secret)).collect())
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

fn capped(mut names: Vec<String>) -> Vec<String> {
    if names.len() > NAMES_MAX {
        let more = names.len() - NAMES_MAX;
        names.truncate(NAMES_MAX);
        names.push(format!("and {more} more"));
    }
    names
}
