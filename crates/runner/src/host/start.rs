//! Starting a run, and going on with one: from what a person asked for to a compiled contract, a base, and the
//! first fact of the log.

use crate::context::policy::Rules;
pub(super) use crate::context::policy::same_policies;
use crate::context::trust::invalid;
use crate::git::{DirtyPath, Objects, Repository, Swap};
use crate::git::{id, recorded};
use crate::host::continuation;
use crate::machine::base_ref;
use crate::record::approval::{self, Redeemed};
use crate::workspace::{dependencies, include};
use crate::{Error, Result, Settings, Trust};
use contract::documents::CompileRequest;
use contract::view::graph::{GlobalMode, RunMode};
use contract::work::TestCommand;
use contract::{
    AcceptanceCriterion, AgentConfig, Author, Backend, Base, Budgets, Contract, ContractSchema, End, Fact, Fork,
    GraphConfig, GraphTerms, IntentTerms, Item, ItemAdded, PipelineTerms, Policies, Reason, RepoPath, RunId,
    RunStarted, Slug, Status, TreeId, Workflow,
};
use run::{ItemState, Run};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use store::Writing;
use store::{Preparing, Reader, RunLog, Store, crash};

/// How many paths that are left out or included are put on record; the rest is counted.
const NAMES_MAX: usize = 100;

/// What makes a partial clone whole.
pub const REFETCH: &str = "git fetch --refetch --no-filter";

/// What a person asked for.
#[derive(Debug, Clone)]
pub struct Order {
    /// What.
    pub goal: String,
    /// What must hold.
    pub criteria: Vec<AcceptanceCriterion>,
    /// The task it comes from.
    pub task: Option<i64>,
    /// The run whose tree it continues from.
    pub parent: Option<Box<Run>>,
    /// Budgets that replace the configured ones.
    pub budgets: Option<Budgets>,
    /// Who fills every role, instead of those that are configured for each.
    pub agent: Option<String>,
}

/// A contract or a batch of work items, compiled.
#[derive(Debug, Clone)]
pub struct WorkOrder {
    /// In words, for the list of runs.
    pub goal: String,
    /// What is to be done.
    pub items: Vec<Item>,
    /// The document as it was submitted.
    pub submitted: Vec<u8>,
    /// Where it starts from, as git names it; HEAD if nothing is said.
    pub baseline: Option<String>,
    /// Whether a change that has landed before may land again.
    pub again: bool,
    /// Why it needs approval first.
    pub approval_for: Vec<String>,
}

/// A pipeline, with what a person has written of it.
#[derive(Debug, Clone)]
pub struct PipelineOrder {
    /// What somebody wants.
    pub goal: String,
    /// Who fills which role, and what norma fills of contracts.
    pub terms: PipelineTerms,
    /// What it starts with.
    pub items: Vec<Item>,
    /// What was submitted.
    pub submitted: Vec<u8>,
    /// The items of the contracts that a person wrote.
    pub written: Vec<Item>,
}

/// A graph that somebody wants to build.
#[derive(Debug, Clone)]
pub struct GraphOrder {
    /// What it is for; may be empty.
    pub goal: String,
    /// Whether it goes on by itself.
    pub mode: Option<RunMode>,
    /// Whether its nodes may change code.
    pub global_mode: Option<GlobalMode>,
    /// Commands that every change must pass, in place of the configured ones.
    pub tests: Vec<String>,
}

/// An intent that somebody wants carried out.
#[derive(Debug, Clone)]
pub struct IntentOrder {
    /// Its id.
    pub id: String,
    /// What its starter traces it by.
    pub trace_id: Option<String>,
    /// What is asked of whoever compiles it.
    pub request: CompileRequest,
    /// The run that it continues.
    pub parent: Option<Box<Run>>,
}

/// What a run of items continues from, where it continues another run.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    /// That run.
    pub(super) parent: Option<Slug>,
    /// Where in its log this one was forked.
    pub(super) fork: Option<Fork>,
    /// The tree of the first turn, where it is not that of the base.
    pub(super) tree: Option<TreeId>,
}

/// The commands that every change of a graph must pass, in words.
fn graph_tests(lines: &[String]) -> Result<Vec<TestCommand>> {
    let test = |(number, line): (usize, &String)| {
        let argv = run::gate::command::split(line).map_err(|problem| {
            Error::usage(format!("test {line:?} is not a command: {problem}"), "no shell is involved")
        })?;
        Ok(TestCommand { name: format!("test_{}", number + 1), argv, must_pass: true, of_whole: false })
    };
    lines.iter().enumerate().map(test).collect()
}

fn docs_root(graph: &GraphConfig) -> Result<RepoPath> {
    RepoPath::parse(&graph.docs_root)
        .map_err(|problem| Error::usage(format!("graph.docs_root: {problem}"), "name a directory of the repository"))
}

/// Where runs are started: the record, the user's repository and what the user trusts.
#[derive(Clone, Copy)]
pub struct Starting<'a> {
    /// The record.
    pub store: &'a Store,
    /// The user's repository.
    pub user: &'a Repository,
    /// norma's own objects.
    pub objects: &'a Objects,
    /// What is kept outside the repository.
    pub trust: &'a Trust,
    /// The configuration and the policies beside it.
    pub settings: &'a Settings,
    /// Where programs are looked for.
    pub path_var: &'a OsStr,
    /// The user's own environment, where keys of providers are.
    pub user_env: &'a BTreeMap<OsString, OsString>,
    /// Whether somebody is there to answer what a run asks.
    pub attended: bool,
    /// Whether installed dependencies of the checkout can be shown in workspaces.
    pub shows_dependencies: bool,
}

impl Starting<'_> {
    /// Starts the loop for a goal. Nothing is left behind if anything is not as it must be.
    pub fn start(&self, order: Order) -> Result<(Run, RunLog)> {
        let config = &self.settings.config;
        let agents = self.loop_agents(order.agent.as_deref())?;
        if let Some(parent) = &order.parent {
            continuation::check(self.store, parent)?;
        }
        let base = base_of(&self.user.head()?, order.parent.as_deref());
        let tree = order.parent.as_ref().map_or_else(|| base.tree, |parent| parent.tree());
        self.preflight(agents.iter().map(|(role, agent)| (role.as_str(), agent)), config.sandbox.backend, tree)?;
        let contract = Contract {
            goal: order.goal,
            acceptance_criteria: order.criteria,
            budgets: order.budgets.unwrap_or_else(|| config.budgets.clone()),
            limits: config.limits.for_agents(agents.values()),
            agents,
            task_id: order.task,
            ..self.terms(Workflow::Pdca)?
        };
        let parent = order.parent.map(|parent| parent.id.slug());
        let id = store::new_run_id();
        let started = RunStarted { parent, tree, ..self.started(id, contract, base)? };
        self.begin(id, started, Vec::new(), None)
    }

    /// Who fills which role: one for all of them, or those that are configured.
    fn loop_agents(&self, named: Option<&str>) -> Result<BTreeMap<contract::Role, AgentConfig>> {
        let Settings { config, path, .. } = self.settings;
        let Some(name) = named else {
            return config.pdca_agents().map_err(|violations| no_agents(path, &violations));
        };
        let agent = config.agent(name).ok_or_else(|| no_such_agent(name))?;
        Ok(contract::Role::PDCA.into_iter().map(|role| (role, agent.clone())).collect())
    }

    /// Whether the loop could begin at HEAD: its agents are there and reach their models.
    pub(crate) fn check_loop(&self, agent: Option<&str>) -> Result<()> {
        let agents = self.loop_agents(agent)?;
        let tree = recorded(self.user.head()?.tree);
        self.preflight(
            agents.iter().map(|(role, agent)| (role.as_str(), agent)),
            self.settings.config.sandbox.backend,
            tree,
        )
    }

    /// Starts a graph without a node. Its nodes may use every agent that is configured, and those that norma knows.
    pub fn start_graph(&self, order: GraphOrder) -> Result<(Run, RunLog)> {
        let config = &self.settings.config;
        let base = base_of(&self.user.head()?, None);
        self.require_whole(base.tree)?;
        let known = ["codex", "claude", "gemini", "opencode"].into_iter().map(str::to_owned);
        let names = config.agents.keys().cloned().chain(known);
        let workers: BTreeMap<String, AgentConfig> =
            names.filter_map(|name| config.agent(&name).map(|agent| (name, agent))).collect();
        let tests = if order.tests.is_empty() { config.graph.tests.clone() } else { order.tests };
        let graph = GraphTerms {
            mode: order.mode.unwrap_or(RunMode::Auto),
            global_mode: order.global_mode.unwrap_or(GlobalMode::Implementation),
            tests: graph_tests(&tests)?,
            docs_root: docs_root(&config.graph)?,
            stall: config.graph.stall,
        };
        let mut terms = self.terms(Workflow::Graph)?;
        terms.sandbox_read.extend(self.dependencies(base.tree)?);
        let contract = Contract {
            goal: order.goal,
            limits: config.limits.for_agents(workers.values()),
            workers,
            graph: Some(graph),
            ..terms
        };
        let id = store::new_run_id();
        let started = self.started(id, contract, base)?;
        self.begin(id, started, Vec::new(), None)
    }

    /// Starts an intent, or what is left of the run of one that failed.
    pub fn start_intent(&self, order: IntentOrder) -> Result<(Run, RunLog)> {
        let config = &self.settings.config;
        let name = config.intent_agent();
        let agent = config.agent(&name).ok_or_else(|| no_such_agent(&name))?;
        let limits = config.limits.for_agents([&agent]);
        let base = base_of(&self.user.head()?, order.parent.as_deref());
        let IntentOrder { id: intent, trace_id, request, parent } = order;
        let item = request.item(&name, &limits).map_err(|problems| {
            let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
            Error::usage(format!("the intent cannot be asked about:{lines}"), "fix it: norma help intents")
        })?;
        let names = request.intent.connectors.iter().flatten();
        let (known, unknown): (Vec<&String>, Vec<&String>) =
            names.partition(|name| config.connectors.contains_key(*name));
        let mut unknown_connectors: Vec<String> = unknown.into_iter().cloned().collect();
        unknown_connectors.dedup();
        let terms = IntentTerms {
            id: intent,
            agent: name.clone(),
            mode: config.intents.mode,
            trace_id,
            connectors: known.into_iter().map(|name| (name.clone(), config.connectors[name].clone())).collect(),
            unknown_connectors,
        };
        let is_recorded = terms.mode.replays() && store::recording(&self.store.layout, &request.key())?.is_some();
        match is_recorded || !terms.unknown_connectors.is_empty() || !terms.mode.asks() {
            true => self.require_whole(base.tree)?,
            false => self.preflight([(name.as_str(), &agent)].into_iter(), config.sandbox.backend, base.tree)?,
        }
        let earlier = parent.as_deref().and_then(continuation::compiled);
        let added = ItemAdded { index: 0, item: item.clone(), earlier, addition: None };
        let mut contract = self.terms(Workflow::Intent)?;
        contract.sandbox_read.extend(self.dependencies(base.tree)?);
        let contract = Contract {
            goal: request.intent.goal.clone(),
            limits,
            workers: [(name, agent)].into(),
            intent: Some(terms),
            items: vec![item],
            ..contract
        };
        let id = store::new_run_id();
        let parent = parent.map(|parent| parent.id.slug());
        let mut started = RunStarted { parent, items: 1, ..self.started(id, contract, base)? };
        started.contract.items = Vec::new();
        self.begin(id, started, vec![added], Some(&request.canonical()))
    }

    /// Starts the items of a contract or a batch. Nothing is left behind if anything is not as it must be.
    pub fn start_work(&self, order: WorkOrder) -> Result<(Run, RunLog)> {
        let base = self.baseline(order.baseline.as_deref())?;
        let terms = Contract {
            goal: order.goal,
            again: order.again,
            approval_for: order.approval_for,
            ..self.terms(Workflow::Batch)?
        };
        let mut items = order.items;
        // By their ids, not as they were listed: the same items in another order come to the same tree.
        items.sort_by(|one, other| one.id.cmp(&other.id));
        let items = (0..).zip(items).map(|(index, item)| ItemAdded { index, item, earlier: None, addition: None });
        self.begin_work(base, terms, items.collect(), Origin::default(), Some(&order.submitted))
    }

    /// Starts a pipeline.
    pub fn start_pipeline(&self, order: PipelineOrder) -> Result<(Run, RunLog)> {
        let PipelineOrder { goal, terms, mut items, submitted, written } = order;
        let base = self.baseline(None)?;
        let policies = &self.settings.policies;
        let approval_for = approval::reasons(self.objects, id(base.tree), written.iter(), policies)?;
        let contract = Contract { goal, approval_for, ..self.terms(Workflow::Pipeline)? };
        for item in &mut items {
            item.scope.named_by_git.clone_from(&contract.scope.named_by_git);
        }
        let config = &self.settings.config;
        let reviewers = terms.review.iter().flat_map(|review| &review.agents);
        let names = [&terms.pm, &terms.tech_lead].into_iter().flatten().chain([&terms.worker]).chain(reviewers);
        let mut workers = BTreeMap::new();
        for name in names {
            workers.insert(name.clone(), config.agent(name).ok_or_else(|| no_such_agent(name))?);
        }
        self.preflight(workers.iter().map(|(name, agent)| (name.as_str(), agent)), contract.sandbox, base.tree)?;
        let mut sandbox_read = contract.sandbox_read.clone();
        sandbox_read.extend(self.dependencies(base.tree)?);
        let contract = Contract {
            limits: config.limits.for_agents(workers.values()),
            sandbox_read,
            workers,
            pipeline: Some(terms),
            items: items.clone(),
            ..contract
        };
        let id = store::new_run_id();
        let mut started = RunStarted { items: items.len() as u32, ..self.started(id, contract, base)? };
        started.contract.items = Vec::new();
        let items = (0..).zip(items).map(|(index, item)| ItemAdded { index, item, earlier: None, addition: None });
        self.begin(id, started, items.collect(), Some(&submitted))
    }

    /// Goes on from the tree of a run of items that a budget stopped, as a new run that may use up this much: what
    /// succeeded stays done, the rest is done under the same documents and policies.
    pub fn start_after(&self, parent: &Run, budgets: Budgets) -> Result<(Run, RunLog)> {
        continuation::check(self.store, parent)?;
        let Settings { config, policies, .. } = self.settings;
        same_policies(parent, policies)?;
        let base = continuation::base(self.objects, parent)?;
        let rules = Rules::new(policies, &self.store.layout, contract::RULES);
        let items = continuation::items(self.objects, &rules, parent, &base)?;
        let contract = &parent.started.contract;
        let terms = Contract {
            goal: contract.goal.clone(),
            again: contract.again,
            budgets,
            landing: continuation::landing(parent, &config.landing),
            // A yes is for one run and its contract; this one is another.
            approval_for: approval::reasons(self.objects, id(base.tree), continuation::to_do(&items), policies)?,
            ..self.terms(Workflow::Batch)?
        };
        let origin = Origin { parent: Some(parent.id.slug()), ..Origin::default() };
        self.begin_work(base, terms, items, origin, self.submitted_to(parent)?.as_deref())
    }

    pub(super) fn begin_work(
        &self,
        base: Base,
        terms: Contract,
        mut items: Vec<ItemAdded>,
        origin: Origin,
        submitted: Option<&[u8]>,
    ) -> Result<(Run, RunLog)> {
        let Origin { parent, fork, tree } = origin;
        let tree = tree.unwrap_or(base.tree);
        for added in &mut items {
            added.item.scope.named_by_git.clone_from(&terms.scope.named_by_git);
        }
        let workers = self.workers(items.iter().map(|added| &added.item))?;
        // Whether a program is in another system is known there.
        let works_here = |name: &&str| {
            let reviews = |it: &ItemAdded| {
                it.item.review.as_ref().is_some_and(|review| review.agents.contains(&(**name).to_owned()))
            };
            items
                .iter()
                .any(|it| reviews(it) || it.item.worker == **name && !terms.backend_of(Some(&it.item)).is_elsewhere())
        };
        let here = workers.iter().map(|(name, agent)| (name.as_str(), agent)).filter(|(name, _)| works_here(name));
        self.preflight(here, Backend::Native, tree)?;
        let mut sandbox_read = terms.sandbox_read.clone();
        sandbox_read.extend(self.dependencies(tree)?);
        let contract = Contract {
            limits: self.settings.config.limits.for_agents(workers.values()),
            sandbox_read,
            workers,
            items: items.iter().map(|added| added.item.clone()).collect(),
            ..terms
        };
        let id = store::new_run_id();
        let items_count = items.len() as u32;
        let started = self.started(id, contract, base)?;
        let mut started = RunStarted { parent, fork, tree, items: items_count, ..started };
        // Each item is a fact of its own; the digest is that of the whole contract.
        started.contract.items = Vec::new();
        self.begin(id, started, items, submitted)
    }

    /// The installed dependencies of the checkout that belong to a tree. Where a setup makes them, it does.
    fn dependencies(&self, tree: TreeId) -> Result<Vec<String>> {
        if !self.shows_dependencies {
            return Ok(Vec::new());
        }
        let found = dependencies::find(self.user, self.objects, id(tree))?;
        Ok(found.shown.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect())
    }

    /// The document that a run of items was made of.
    pub(super) fn submitted_to(&self, run: &Run) -> Result<Option<Vec<u8>>> {
        let path = self.store.layout.run(&run.id.slug()).join(contract::SUBMITTED_FILE);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &path, e)),
        }
    }

    /// Starts a run that carries out the contract of another one again, from where that one started. It lands nothing.
    pub fn start_again(&self, recorded: &Run) -> Result<(Run, RunLog)> {
        let RunStarted { contract, base, tree, author, parent, items, .. } = &*recorded.started;
        same_policies(recorded, &self.settings.policies)?;
        let agents = contract.agents.iter().map(|(role, agent)| (role.as_str(), agent));
        let workers = contract.workers.iter().map(|(name, agent)| (name.as_str(), agent));
        self.preflight(agents.chain(workers), contract.sandbox, *tree)?;
        let id = store::new_run_id();
        let started = RunStarted {
            contract_digest: recorded.started.contract_digest,
            tree: *tree,
            author: author.clone(),
            parent: *parent,
            replay_of: Some(recorded.id.slug()),
            items: *items,
            ..self.started(id, contract.clone(), base.clone())?
        };
        let added = |(index, state): (u32, &std::sync::Arc<ItemState>)| ItemAdded {
            index,
            item: (*state.item).clone(),
            earlier: state.earlier.as_deref().cloned(),
            addition: state.addition.as_deref().cloned(),
        };
        // What a run adds by itself, it adds again; to a batch, people do.
        let is_given = |state: &ItemState| contract.workflow == Workflow::Batch || state.addition.is_none();
        let given = recorded.items().iter().filter(|state| is_given(state));
        let items = (0..).zip(given).map(added).collect();
        self.begin(id, started, items, self.submitted_to(recorded)?.as_deref())
    }

    /// What every contract under these settings says.
    pub(super) fn terms(&self, workflow: Workflow) -> Result<Contract> {
        let Settings { config, path, policies, .. } = self.settings;
        let state_dir = self.store.layout.state_in_repository();
        let mut scope = config.scope.compile(state_dir.as_ref()).map_err(|violations| invalid(path, &violations))?;
        scope.named_by_git = self.user.named_by_git()?;
        Ok(Contract {
            schema: ContractSchema::V1,
            workflow,
            goal: String::new(),
            acceptance_criteria: Vec::new(),
            budgets: config.budgets.clone(),
            limits: config.limits.clone(),
            landing: config.landing.clone(),
            agents: BTreeMap::new(),
            sandbox: config.sandbox.backend,
            sandbox_limits: config.sandbox.limits.clone(),
            sandbox_read: config.sandbox.read.clone(),
            backends: config.sandbox.backends(),
            workspace: config.workspace.clone(),
            task_id: None,
            scope,
            policies: policies.digests(),
            approval_for: Vec::new(),
            attended: self.attended,
            again: false,
            prices: config.prices.clone(),
            tls: config.tls.clone(),
            rules: contract::RULES,
            graph: None,
            intent: None,
            pipeline: None,
            workers: BTreeMap::new(),
            items: Vec::new(),
        })
    }

    pub(super) fn started(&self, id: RunId, contract: Contract, base: Base) -> Result<RunStarted> {
        let include = include::find(self.user, include::is_secret)?;
        let identity = self.user.identity();
        let layout = &self.store.layout;
        Ok(RunStarted {
            contract_digest: contract.digest(),
            contract,
            tree: base.tree,
            base,
            author: Author { name: identity.name, email: identity.email },
            left_out: left_out(&self.user.dirty(self.objects)?, &include.secrets),
            included: capped(include.files.iter().map(|path| shown(path)).collect()),
            parent: None,
            fork: None,
            replay_of: None,
            receipt: Reader::open(layout)?.last_receipt()?,
            items: 0,
            run_dir: layout.shown(&layout.run(&id.slug())),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    pub(super) fn begin(
        &self,
        id: RunId,
        started: RunStarted,
        items: Vec<ItemAdded>,
        submitted: Option<&[u8]>,
    ) -> Result<(Run, RunLog)> {
        self.begin_with(id, started, items, submitted, Vec::new())
    }

    /// The same with more facts that it begins with.
    pub(super) fn begin_with(
        &self,
        id: RunId,
        started: RunStarted,
        items: Vec<ItemAdded>,
        submitted: Option<&[u8]>,
        more: Vec<Fact>,
    ) -> Result<(Run, RunLog)> {
        check_prices(&started.contract)?;
        // Before the run is on record: a run that its own user may not continue would be the worse half.
        self.trust.keep_started(started.contract_digest)?;
        let slug = id.slug();
        self.keep_base(&slug, crate::git::id(started.base.commit))?;
        self.store.create_run_dir(&slug, &started, &items, submitted)?;
        let files = submitted.map_or(Ok(Vec::new()), |bytes| keep_document(self.store, &slug, "submitted", bytes))?;
        crash::point("run.before_start");
        // What is carried out again says nothing about the task.
        let task = started.contract.task_id.filter(|_| started.replay_of.is_none());
        let mut log = RunLog::new(id, task, &started.contract_digest);
        let items = items.into_iter().map(|added| Fact::ItemAdded(Box::new(added)));
        let facts = std::iter::once(Fact::RunStarted(Box::new(started))).chain(items).chain(more).collect();
        let events = self.store.append(&mut log, facts, files)?;
        crash::point("run.after_start");
        let run = Run::fold(id, &events).expect("BUG: a new run starts with run_started and its items");
        Ok((run, log))
    }

    /// Keeps the base alive whatever the user deletes meanwhile. For somebody who never asked for a state directory nothing
    /// is written to their git directory: there the base lives as long as git itself keeps what no branch names any more.
    fn keep_base(&self, slug: &str, base: crate::git::ObjectId) -> Result<()> {
        if self.store.layout.is_private() {
            return Ok(());
        }
        match self.user.swap_ref(&base_ref(slug), Some(base), None, "norma: run started")? {
            Swap::Moved { .. } => Err(Error::environment(format!("{} exists already", base_ref(slug)), "try again")),
            _ => Ok(()),
        }
    }

    /// The commit that a contract starts from: HEAD, or the one it names.
    fn baseline(&self, named: Option<&str>) -> Result<Base> {
        let head = base_of(&self.user.head()?, None);
        let Some(named) = named.filter(|named| *named != "HEAD") else { return Ok(head) };
        let found = self.user.resolve(named)?;
        let hint = "rollback.baseline_ref names a commit of this repository, or HEAD";
        let commit = found.ok_or_else(|| Error::usage(format!("there is no commit {named:?} here"), hint))?;
        let tree = self.objects.tree_of(commit)?;
        Ok(Base { commit: recorded(commit), tree: recorded(tree), branch: head.branch })
    }

    /// The agents that items name.
    fn workers<'i>(&self, items: impl Iterator<Item = &'i Item>) -> Result<BTreeMap<String, AgentConfig>> {
        let mut workers = BTreeMap::new();
        for item in items {
            let agent = self.settings.config.agent(&item.worker).ok_or_else(|| no_such_agent(&item.worker))?;
            workers.insert(item.worker.clone(), agent);
            for name in item.review.iter().flat_map(|review| &review.agents) {
                let reviewer = self.settings.config.agent(name).ok_or_else(|| no_such_agent(name))?;
                workers.insert(name.clone(), reviewer);
            }
        }
        Ok(workers)
    }

    /// A partial clone must have every file of the tree that agents are shown: norma asks no remote for any.
    pub(super) fn require_whole(&self, tree: TreeId) -> Result<()> {
        if !self.user.is_partial() {
            return Ok(());
        }
        let (missing, all) = match self.objects.missing(id(tree)) {
            Ok((0, _)) => return Ok(()),
            Ok(counted) => counted,
            // A directory of it is missing already.
            Err(crate::git::GitError::MissingObject { .. }) => (1, 1),
            Err(error) => return Err(error.into()),
        };
        let message = format!("this is a partial clone: {missing} of {all} files of the commit are not here");
        Err(Error::environment(message, format!("fetch what is missing: {REFETCH}")))
    }

    /// Every agent's program must be there before a run starts, so that nobody waits for a run that cannot work.
    pub(crate) fn preflight<'c>(
        &self,
        agents: impl Iterator<Item = (&'c str, &'c AgentConfig)>,
        backend: Backend,
        tree: TreeId,
    ) -> Result<()> {
        self.require_whole(tree)?;
        let (mut missing, mut fixes) = (Vec::new(), Vec::new());
        for (name, agent) in agents {
            for (problem, fix) in self.agent_problems(agent, backend, tree)? {
                missing.push(format!("\n  {name}: {problem}"));
                fixes.extend(fix.filter(|fix| !fixes.contains(fix)));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("some agents cannot be started:{}", missing.concat());
        let hint = match fixes.is_empty() {
            true => "fix .norma/config.json, then: norma trust".to_owned(),
            false => fixes.join(" · "),
        };
        Err(Error::environment(message, hint))
    }

    /// What keeps one agent from starting, each with what to do where that is not a matter of configuration.
    fn agent_problems(
        &self,
        agent: &AgentConfig,
        backend: Backend,
        tree: TreeId,
    ) -> Result<Vec<(String, Option<String>)>> {
        let Starting { objects, path_var, .. } = self;
        let kind = crate::agent::kind_of(agent);
        let mut problems = Vec::new();
        problems.extend(contract::refuses_agent(backend, agent.kind).map(|why| (why, None)));
        // Whether a program is in another system is known there; one of the tree is taken along.
        let is_of_tree = agent.program().contains('/') && !agent.program().starts_with('/');
        let elsewhere = backend.is_elsewhere() && !is_of_tree;
        if !elsewhere && let Some(problem) = program_problem(agent.program(), objects, tree, path_var, &self.user.root)?
        {
            let install = kind.filter(|_| agent.bin.is_none()).and_then(session::install);
            problems.push((problem, install.map(|command| format!("install it: {command}"))));
        }
        let unreached = crate::agent::sign_in_problem(kind, agent, self.user_env);
        let sign_in = kind.and_then(session::sign_in).map(|command| format!("sign in: {command}"));
        problems.extend(unreached.map(|what_to_do| (what_to_do, sign_in)));
        if let Some(path) = agent.path.as_deref().filter(|path| *path != ".")
            && objects.tree_entry(id(tree), path.as_bytes())?.is_none_or(|(mode, _)| mode != 0o40_000)
        {
            problems.push((format!("path {path:?} is not a directory of the run's tree"), None));
        }
        Ok(problems)
    }
}

/// With a cost budget, a model whose price nobody knows would be refused only once its agent has begun to work.
fn check_prices(contract: &Contract) -> Result<()> {
    if contract.budgets.max_cost_usd.is_none() {
        return Ok(());
    }
    let prices = crate::agent::prices(contract);
    let agents = contract.agents.values().chain(contract.workers.values());
    let models = agents.filter(|agent| !agent.kind.has_command()).filter_map(|agent| agent.model.as_deref());
    match models.map(|model| model.rsplit('/').next().unwrap_or(model)).find(|model| prices.of(model).is_none()) {
        None => Ok(()),
        Some(model) => Err(Error::usage(
            gateway::Prices::missing(model),
            format!("the built-in prices are of {}; yours: \"prices\" in .norma/config.json", gateway::Prices::as_of()),
        )),
    }
}

/// Keeps a document beside the run, exactly as it was submitted.
pub(crate) fn keep_document(
    store: &Store,
    slug: &Slug,
    dir: &str,
    bytes: &[u8],
) -> Result<Vec<(String, store::StepFile)>> {
    let target = store.layout.run(slug).join(dir);
    store::make_way(store, &target, "nobody was told of it")?;
    let mut kept = Preparing::new(&target);
    kept.write("document.json", bytes)?;
    let points = ["run.before_start", "run.before_start"];
    Ok(kept.finish(slug, dir, store::now(), Vec::new(), Writing::AtOnce, points)?.files)
}

/// A run that continues from another one's tree keeps that run's base commit: it lands as one change.
fn base_of(head: &crate::git::Head, parent: Option<&Run>) -> Base {
    match parent {
        Some(parent) => parent.started.base.clone(),
        None => Base { commit: recorded(head.commit), tree: recorded(head.tree), branch: head.branch.clone() },
    }
}

/// A run that continues.
pub struct Resumed {
    /// The run.
    pub run: Run,
    /// The end of its log.
    pub log: RunLog,
    /// How it ends, where a person said no.
    pub denied: Option<End>,
}

/// Takes up a paused run where it was left, or one that waited for approval, under the policies it was started under.
pub fn resume(store: &Store, policies: &Policies, slug: &str) -> Result<Resumed> {
    let (run, log) = Reader::open(&store.layout)?.load(slug)?;
    match run.status {
        Status::Paused => same_policies(&run, policies)?,
        Status::Waiting => {
            same_policies(&run, policies)?;
            return redeemed(store, run, log);
        }
        Status::Stopped => {
            let (name, more) = run.exceeded().map_or_else(Default::default, |it| (it.budget.as_str(), it.more()));
            let hint = format!("give it more: norma resume {slug} --budget {more}");
            return Err(Error::declined(format!("run {slug} is stopped: its budget {name} is used up"), hint));
        }
        status => {
            let hint = format!("a retry is a new run: norma run … --new; look at this one: norma show {slug}");
            return Err(Error::declined(format!("run {slug} is {status}; only a paused run can be resumed"), hint));
        }
    }
    let (run, log) = take_up(store, run, log)?;
    Ok(Resumed { run, log, denied: None })
}

/// Continues a run that waited for approval, if it was approved; a denial ends it.
fn redeemed(store: &Store, run: Run, log: RunLog) -> Result<Resumed> {
    // What a plan asks stays asked, and is answered while the run is held.
    if run.only_waits_with_plan() {
        return Ok(Resumed { run, log, denied: None });
    }
    // Whatever else it waits for is asked again, unless it was answered.
    let Some(wait) = run.approval_wait() else {
        let (run, log) = take_up(store, run, log)?;
        return Ok(Resumed { run, log, denied: None });
    };
    let of_contract = wait.reasons == run.started.contract.approval_for;
    // What was asked about a change decides about the change, which is judged again.
    let denied = |message: String| of_contract.then_some(End { reason: Some(Reason::ApprovalDenied), message });
    let (more, denied) = match approval::redeem(store, &run, &wait)? {
        Redeemed::Granted { by, .. } => (Some(Fact::ApprovalUsed { approval: wait.approval, by }), None),
        Redeemed::Denied { by, reason } => (None, denied(format!("denied by {by}: {reason}"))),
        Redeemed::Expired => (None, denied("no approval in time".to_owned())),
        Redeemed::Pending => {
            let hint = format!("norma approve {0} · norma deny {0} --reason …", wait.approval);
            return Err(Error::waiting(format!("run {} waits for approval {}", run.id.slug(), wait.approval), hint));
        }
    };
    let (run, log) = go_on(store, run, log, more)?;
    Ok(Resumed { run, log, denied })
}

/// Puts on record that a paused run continues.
pub(crate) fn take_up(store: &Store, run: Run, log: RunLog) -> Result<(Run, RunLog)> {
    go_on(store, run, log, None)
}

fn go_on(store: &Store, mut run: Run, mut log: RunLog, more: Option<Fact>) -> Result<(Run, RunLog)> {
    let facts = std::iter::once(Fact::RunResumed { pid: std::process::id() }).chain(more).collect();
    for event in store.append(&mut log, facts, Vec::new())?.iter() {
        run.apply(event).expect("BUG: a run that is held can be resumed");
    }
    Ok((run, log))
}

pub(crate) fn no_such_agent(name: &str) -> Error {
    let hint = format!("use claude, codex, gemini or opencode, or add it: norma agent add {name} -- CMD…");
    Error::environment(format!("no agent {name:?} that can be run is configured"), hint)
}

fn no_agents(path: &Path, violations: &[contract::Violation]) -> Error {
    let lines: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
    Error::usage(
        format!("{} does not name an agent for every role:{}", path.display(), lines.concat()),
        r#"name each like this: "agents": { "plan": { "type": "exec", "cmd": ["agents/plan"] }, … }, then: norma trust"#,
    )
}

fn program_problem(
    program: &str,
    objects: &Objects,
    tree: TreeId,
    path_var: &OsStr,
    root: &Path,
) -> Result<Option<String>> {
    let absolute_or_name = program.starts_with('/') || !program.contains('/');
    if absolute_or_name {
        let found = crate::process::resolve(program, path_var, root).is_some();
        let place = if program.starts_with('/') { "is not an executable file" } else { "is not on PATH" };
        return Ok((!found).then(|| format!("{program:?} {place}")));
    }
    let path = match RepoPath::parse(program) {
        Ok(path) => path,
        Err(problem) => return Ok(Some(format!("{program:?}: {problem}"))),
    };
    Ok(match objects.tree_entry(id(tree), path.as_str().as_bytes())? {
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
