//! Starting a run for somebody, or going on with one: whether their settings are trusted, what their environment decides,
//! what there is to continue. It is the same whoever asks, in this process or from another terminal.

use crate::backend::check_backend;
use crate::context::Context;
use crate::context::confinement::{check_sandbox, check_workspace, shows_dependencies};
use crate::context::own::{InForce, settings_in_force};
use crate::context::trust::trusted_settings;
use crate::git::Repository;
use crate::host::budgets::raised;
use crate::host::feed::{Delta, Feed, Told};
use crate::host::request::{Sender, Start};
use crate::host::start::{GraphOrder, IntentOrder, Order, Resumed, Starting, WorkOrder};
use crate::host::workers;
use crate::host::{Host, Launched, fork, graph, intent, lock, pipeline, start};
use crate::machine::elsewhere::means;
use crate::process::Cancel;
use crate::record::approval;
use crate::{Error, Result, Settings};
use contract::documents::{CompileRequest, Kind, TaskContract};
use contract::{
    AgentConfig, ApprovalWait, Backend, CHOICE_MORE, CHOICE_STOP, Config, Digest, Event, Fact, Item, Mode, Slug,
    Status, TaskStatus, TaskView, WaitId, WaitKind, Workflow,
};
use run::Run;
use run::prompt::Templates;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use store::{Reader, RunLog};

/// How many nodes of a graph are at work at once: each has a thread that waits for its agent.
const GRAPH_JOBS: usize = 64;

/// How many nodes of a plan are at work at once.
const INTENT_JOBS: usize = 4;

/// A run that was begun or taken up.
struct Begun {
    resumed: Resumed,
    jobs: usize,
    /// Who has approved by asking for it.
    consent: Option<String>,
}

/// One who asks, with the settings that count for them.
struct Service<'h> {
    host: &'h Host,
    sender: &'h Sender,
    context: Arc<Context>,
    settings: Settings,
}

impl Host {
    /// Starts what somebody asks for.
    pub(super) fn start(&self, sender: &Sender, start: Start) -> Result<Launched> {
        let _starting = self.starting()?;
        let _alone = self.state.alone();
        if let Start::Intent { intent, .. } = &start
            && let Some(launched) = self.carried_out(intent)?
        {
            return Ok(launched);
        }
        let feed: Arc<Feed> = Arc::default();
        let mut context = self.context_for(sender, &feed)?;
        let InForce { mut settings, unused } = settings_for(&context, sender, &start)?;
        if let Start::Document { typed: Some(typed), .. } = &start {
            typed.apply(&mut settings)?;
        }
        if unused.is_some() {
            context.templates = Templates::default();
        }
        // Whoever typed a contract was told before they confirmed it.
        let unused = unused.filter(|_| !matches!(&start, Start::Document { typed: Some(_), .. }));
        let notes = settings.missing_policies(&context.layout).into_iter().chain(unused).collect();
        context.policies = Some(Arc::new(settings.policies.clone()));
        let context = Arc::new(context);
        look_ahead(&context, &settings.config);
        let service = Service { host: self, sender, context, settings };
        let Begun { resumed, jobs, consent } = service.begin(start)?;
        let Service { context, settings, .. } = service;
        lock(&self.waiting).remove(&*resumed.run.id.slug());
        let workers = settings.config.host.workers as usize;
        let (sender, policies) = (self.shared(sender), settings.policies);
        let order = workers::Order { resumed, sender, context, policies, jobs, workers, consent, feed };
        let slug = order.resumed.run.id.slug();
        let launched = self.launch(order, notes)?;
        // What was answered while nobody carried it out.
        graph::take_answers(self, &slug)?;
        Ok(launched)
    }

    /// The run that carries out an intent already: nobody starts it twice.
    fn carried_out(&self, intent: &str) -> Result<Option<Launched>> {
        let reader = self.reader()?;
        let Some(slug) = reader.run_of_intent(intent)? else { return Ok(None) };
        let (run, _) = reader.load(&slug)?;
        let (_, told) = std::sync::mpsc::channel();
        let told = self.workers.watch(&slug).unwrap_or(told);
        Ok(Some(Launched { run, told, notes: Vec::new() }))
    }

    /// One who asks, shared with the runs that they asked for before.
    fn shared(&self, sender: &Sender) -> Arc<Sender> {
        let mut last = lock(&self.last_sender);
        if **last != *sender {
            *last = Arc::new(sender.clone());
        }
        last.clone()
    }

    /// Adds the items of a document to a batch that has not ended.
    pub(super) fn add(&self, sender: &Sender, slug: &str, name: &str, text: String) -> Result<Added> {
        let _alone = self.state.alone();
        let context = Arc::new(self.context_for(sender, &Arc::default())?);
        let settings = trusted_settings(&context, sender.config.as_deref())?;
        Service { host: self, sender, context, settings }.add(slug, name, text.as_bytes())
    }

    /// The surroundings of the host, with what the environment of whoever asks decides.
    pub(super) fn context_for(&self, sender: &Sender, feed: &Arc<Feed>) -> Result<Context> {
        let layout = &self.context.layout;
        let user = match sender.git == *self.context.user.environment() {
            true => self.context.user.clone(),
            false => {
                let mut user = Repository::discover(&layout.root, sender.git.clone())?;
                user.state_directory.clone_from(&self.context.user.state_directory);
                user
            }
        };
        let feed = feed.clone();
        Ok(Context {
            user,
            agent_env: sender.agent_env.0.clone(),
            user_env: sender.user_env.0.clone(),
            templates: crate::load_templates(layout)?,
            own_config: sender.own_config.clone(),
            told: Arc::new(move |news| feed.tell(&Told::Uncommitted(Delta::Preparing(news)))),
            ..(*self.context).clone()
        })
    }
}

/// The settings that count for something. What a person typed, and a run that they started here, need nothing of the
/// repository's own settings: without them, or where they are not trusted, the person's own count. So they do for a
/// document in a repository that has no settings at all.
fn settings_for(context: &Context, sender: &Sender, start: &Start) -> Result<InForce> {
    let named = sender.config.as_deref();
    let own_will_do = match start {
        Start::Document { typed, .. } => typed.is_some() || !context.layout.config().exists(),
        Start::Goal { agent, .. } => agent.is_some(),
        Start::Resume { .. } | Start::Extend { .. } | Start::Again { .. } | Start::Fork { .. } => true,
        Start::Task { .. } | Start::Compile { .. } | Start::Intent { .. } | Start::Retry { .. } => false,
        Start::Graph { .. } | Start::Pipeline { .. } => !context.layout.config().exists(),
    };
    match own_will_do {
        true => settings_in_force(context, named),
        false => Ok(InForce { settings: trusted_settings(context, named)?, unused: None }),
    }
}

/// Finds out what this machine can do while the contract is compiled, which takes as long. Whoever needs the answer waits for it.
fn look_ahead(context: &Arc<Context>, config: &Config) {
    if config.sandbox.backend == Backend::Native {
        let context = context.clone();
        let look = move || sandbox::has_overlays(&context.sandbox);
        // Without a thread for it, it is found out later.
        let _ = std::thread::Builder::new().name("norma-probe".into()).spawn(look);
    }
}

/// What was added to a batch.
pub(super) struct Added {
    /// The ids of the items.
    pub(super) items: Vec<String>,
    /// The digest of the contract with them.
    pub(super) contract: Digest,
    /// Whether somebody works on the run.
    pub(super) under_way: bool,
}

impl Service<'_> {
    /// Adds the items of a document to a batch, all of them or none.
    fn add(&self, slug: &str, name: &str, bytes: &[u8]) -> Result<Added> {
        let Host { state, workers, .. } = self.host;
        let (run, mut log) = self.host.reader()?.load(slug)?;
        self.require_own(&run, "nothing is added to it")?;
        start::same_policies(&run, &self.settings.policies)?;
        let present = run.items().iter().map(|state| state.item.id.clone()).collect();
        let (_, items) = self.compiled(name, bytes, &present)?;
        let additions = self.additions(&run, items)?;
        let refused = |why: String| Error::declined(why, format!("look at it: norma show {slug}"));
        let dir = format!("added-{:03}", run.items().len());
        let kept = start::keep_document(&state.store, &run.id.slug(), &dir, bytes)?;
        let live = workers.find(slug);
        let recorded = match &live {
            Some(live) => live.add(&state.store, kept, |run| facts(run, &additions)),
            None => facts(&run, &additions).map_err(refused).and_then(|facts| {
                state.store.append(&mut log, facts.clone(), kept)?;
                Ok(facts)
            }),
        };
        if recorded.is_err() {
            store::remove_tree(&state.store.layout.run(slug).join(&dir))?;
        }
        let (facts, under_way) = (recorded?, live.is_some());
        let contract = facts.iter().rev().find_map(|fact| match fact {
            Fact::ItemAdded(added) => added.addition.as_ref().map(|addition| addition.contract),
            _ => None,
        });
        let items = additions.into_iter().map(|(item, _)| item.id).collect();
        Ok(Added { items, contract: contract.unwrap_or(run.contract_digest()), under_way })
    }

    /// The items with their agents, if they can be added: nobody is there who would wait for an approval.
    fn additions(&self, run: &Run, items: Vec<Item>) -> Result<Vec<(Item, AgentConfig)>> {
        let (objects, policies) = (&self.host.state.objects, &self.settings.policies);
        let reasons = approval::reasons(objects, crate::git::id(run.tree()), items.iter(), policies)?;
        if !reasons.is_empty() {
            let message = format!("these items need an approval, so they are not added: {}", reasons.join("; "));
            return Err(Error::declined(message, "start them as a batch of their own: norma batch FILE"));
        }
        let mut additions = Vec::with_capacity(items.len());
        for mut item in items {
            item.scope.named_by_git.clone_from(&run.started.contract.scope.named_by_git);
            let configured = || self.settings.config.agent(&item.worker);
            let agent = run.worker_of(&item).cloned().or_else(configured);
            let agent = agent.ok_or_else(|| start::no_such_agent(&item.worker))?;
            additions.push((item, agent));
        }
        self.check_items(&additions.iter().map(|(item, _)| item.clone()).collect::<Vec<_>>())?;
        let here = |(item, _): &&(Item, AgentConfig)| !run.started.contract.backend_of(Some(item)).is_elsewhere();
        let agents = additions.iter().filter(here).map(|(item, agent)| (item.worker.as_str(), agent));
        self.starting().preflight(agents, Backend::Native, run.tree())?;
        Ok(additions)
    }

    fn begin(&self, start: Start) -> Result<Begun> {
        match start {
            Start::Task { task, new, agent } => self.task(task, new, agent),
            Start::Goal { goal, criteria, agent } => {
                // A goal that cannot be begun leaves no task behind.
                self.check_loop(agent.as_deref())?;
                let task = self.host.state.store.add_task(goal, criteria).wait()?;
                self.task(task, false, agent)
            }
            Start::Document { name, text, jobs, new, approved_by, typed } => {
                let begun =
                    self.document(&name, text.into_bytes(), (jobs, new), approved_by.as_ref(), typed.is_some())?;
                Ok(Begun { consent: approved_by, ..begun })
            }
            Start::Compile { request, agent } => self.compile(&request, agent),
            Start::Intent { intent, trace_id } => self.intent(intent, trace_id),
            Start::Retry { run } => self.retry(&run),
            Start::Pipeline { wish, jobs, approved_by } => {
                let begun = self.pipeline(&wish, jobs)?;
                Ok(Begun { consent: approved_by, ..begun })
            }
            Start::Graph { goal, mode, global_mode, tests } => {
                let order = GraphOrder { goal, mode, global_mode, tests };
                self.started(GRAPH_JOBS, |starting| starting.start_graph(order))
            }
            Start::Resume { run, jobs, approved_by } => {
                approved_by.map_or(Ok(()), |by| self.approve(&run, &by))?;
                self.resume(&run, jobs)
            }
            Start::Extend { run, budgets, jobs, by } => self.extend(&run, &budgets, jobs, by),
            Start::Fork { run, seq, jobs, by } => self.fork(&run, seq, jobs, &by),
            Start::Again { run, jobs } => {
                let (recorded, _) = self.host.reader()?.load(&run)?;
                self.require_own(&recorded, "it is not carried out again")?;
                self.started(jobs, |starting| starting.start_again(&recorded))
            }
        }
    }

    /// Whether the loop could begin now.
    fn check_loop(&self, agent: Option<&str>) -> Result<()> {
        let Config { sandbox, workspace, .. } = &self.settings.config;
        check_sandbox(sandbox, self.mode(), &self.context.sandbox)?;
        check_workspace(workspace, sandbox.backend, &self.context.sandbox)?;
        self.check_backend(sandbox.backend)?;
        self.starting().check_loop(agent)
    }

    /// Runs a task, or continues its interrupted run.
    fn task(&self, id: i64, new: bool, agent: Option<String>) -> Result<Begun> {
        let reader = self.host.reader()?;
        let task = reader
            .task(id)?
            .ok_or_else(|| Error::usage(format!("there is no task {id}"), "norma task list --all shows them"))?;
        if let Some(run) = &task.run_id {
            self.host.require_idle(run)?;
        }
        runnable(&reader, &task, new)?;
        if !new && let Some(paused) = paused_run(&reader, &task)? {
            return self.resume(&paused, 1);
        }
        let (goal, criteria) = (task.goal, task.acceptance_criteria);
        let order = Order { goal, criteria, task: Some(id), parent: None, budgets: None, agent };
        self.started(1, |starting| starting.start(order))
    }

    /// Carries out the items of a document, or continues them where they were left.
    fn document(
        &self,
        name: &str,
        bytes: Vec<u8>,
        (jobs, new): (usize, bool),
        approved_by: Option<&String>,
        is_typed: bool,
    ) -> Result<Begun> {
        let (kind, mut items) = self.compiled(name, &bytes, &BTreeSet::new())?;
        // What was typed is reviewed where somebody is there for it; a document says that itself.
        for item in items.iter_mut().filter(|_| is_typed) {
            item.review = self.settings.config.reviewers(&item.worker, None);
        }
        if !new && let Some((slug, run)) = self.left(&goal_of(&items), &items)? {
            let of_contract = |wait: &ApprovalWait| wait.reasons == run.started.contract.approval_for;
            if let (Some(by), Some(wait)) = (approved_by, run.approval_wait().filter(of_contract)) {
                approval::grant_pending(&self.host.state.store, &run, &wait, by)?;
            }
            return self.resume(&slug, jobs);
        }
        self.check_items(&items)?;
        let order = self.order(kind, items, bytes, new)?;
        self.started(jobs, |starting| starting.start_work(order))
    }

    /// Compiles a document. A refusal goes on record.
    fn compiled(&self, name: &str, bytes: &[u8], present: &BTreeSet<String>) -> Result<(Option<Kind>, Vec<Item>)> {
        let (Host { state, .. }, Context { user, layout, .. }) = (self.host, &*self.context);
        let submitted = crate::submit(user, &state.objects, layout, &self.settings, bytes, present)?;
        if let Err(violations) = &submitted.items {
            let kind = submitted.kind.map(|kind| kind.as_str().to_owned());
            let (by, sha256) = (submitted.refused_by, submitted.sha256);
            let refused = contract::Audit::contract_refused(by, sha256, kind, violations.clone());
            state.store.audit(refused).wait()?;
        }
        Ok((submitted.kind, submitted.into_items(name)?))
    }

    /// Starts a pipeline.
    fn pipeline(&self, wish: &pipeline::PipelineWish, jobs: usize) -> Result<Begun> {
        let (Host { state, .. }, Context { user, layout, .. }) = (self.host, &*self.context);
        let mut compile = |_: &str, settings: &Settings, bytes: &[u8]| {
            crate::submit(user, &state.objects, layout, settings, bytes, &BTreeSet::new())
        };
        let order = pipeline::order(wish, &self.settings, &mut compile)?;
        self.check_items(&order.items)?;
        self.started(jobs, |starting| starting.start_pipeline(order))
    }

    /// Has an agent compile an intent: a new run, or the one of the very same request that was left before its end.
    fn compile(&self, request: &CompileRequest, agent: Option<String>) -> Result<Begun> {
        let config = &self.settings.config;
        let name = config.compiler(agent);
        let agent = config.agent(&name).ok_or_else(|| {
            let hint = "name one of \"agents\" in config.json, or codex, claude, gemini or opencode";
            Error::usage(format!("there is no agent {name:?}"), hint)
        })?;
        let item = request.item(&name, &config.limits.for_agents([&agent])).map_err(|problems| {
            let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
            Error::usage(format!("the intent cannot be asked about:{lines}"), "fix it: norma help intents")
        })?;
        let goal = format!("compile the intent: {}", request.intent.goal);
        if let Some((slug, run)) = self.left(&goal, std::slice::from_ref(&item))?
            && run.items().iter().map(|state| &*state.item).eq([&item])
        {
            return self.resume(&slug, 1);
        }
        let order = WorkOrder { goal, ..self.order(None, vec![item], request.canonical(), false)? };
        self.started(1, |starting| starting.start_work(order))
    }

    /// Carries out an intent.
    fn intent(&self, id: String, trace_id: Option<String>) -> Result<Begun> {
        let request = self.request_of(&id)?;
        let order = IntentOrder { id, trace_id, request, parent: None };
        self.started(INTENT_JOBS, |starting| starting.start_intent(order))
    }

    /// Tries again what the run of an intent failed at.
    fn retry(&self, slug: &str) -> Result<Begun> {
        let reader = self.host.reader()?;
        let (parent, _) = reader.load(slug)?;
        intent::retried_from(&reader, &parent)?;
        self.require_own(&parent, "it is not tried again")?;
        let terms = parent.started.contract.intent.clone();
        let terms = terms.ok_or_else(|| Error::usage(format!("run {slug} carries out no intent"), "norma runs"))?;
        let request = self.request_of(&terms.id)?;
        let (id, trace_id, parent) = (terms.id, terms.trace_id, Some(Box::new(parent)));
        self.started(INTENT_JOBS, |starting| starting.start_intent(IntentOrder { id, trace_id, request, parent }))
    }

    /// What is asked of whoever compiles an intent that is kept.
    fn request_of(&self, id: &str) -> Result<CompileRequest> {
        let found = self.host.reader()?.intent(id)?;
        let intent = found.ok_or_else(|| Error::usage(format!("there is no intent {id}"), "norma help intents"))?;
        Ok(CompileRequest { intent, schema_version: 0, seed: String::new() })
    }

    /// The run of exactly these items that was left before its end, if there is one that nobody works on.
    fn left(&self, goal: &str, items: &[Item]) -> Result<Option<(Slug, Run)>> {
        let reader = self.host.reader()?;
        for slug in reader.held_runs(goal)? {
            // A damaged run is nothing to continue, and no reason not to start another.
            let Ok((run, _)) = reader.load(&slug) else { continue };
            let same = submitted(run.items().iter().map(|state| &*state.item)) == submitted(items.iter());
            if same && !run.items().is_empty() && self.host.require_idle(&slug).is_ok() {
                return Ok(Some((run.id.slug(), run)));
            }
        }
        Ok(None)
    }

    fn order(&self, kind: Option<Kind>, items: Vec<Item>, bytes: Vec<u8>, again: bool) -> Result<WorkOrder> {
        let (objects, policies) = (&self.host.state.objects, &self.settings.policies);
        let tree = self.context.user.head()?.tree;
        let approval_for = approval::reasons(objects, tree, items.iter(), policies)?;
        let baseline = match kind {
            Some(Kind::TaskContract) => {
                serde_json::from_slice(&bytes).ok().map(|it: TaskContract| it.rollback.baseline_ref)
            }
            _ => None,
        };
        Ok(WorkOrder { goal: goal_of(&items), items, submitted: bytes, baseline, again, approval_for })
    }

    /// Puts on record that somebody at a terminal has approved what a run waits for.
    fn approve(&self, slug: &str, by: &str) -> Result<()> {
        let (run, _) = self.host.reader()?.load(slug)?;
        let wait = run.approval_wait();
        wait.map_or(Ok(()), |wait| approval::grant_pending(&self.host.state.store, &run, &wait, by))
    }

    fn resume(&self, slug: &str, jobs: usize) -> Result<Begun> {
        self.host.require_idle(slug)?;
        let (run, _) = self.host.reader()?.load(slug)?;
        self.require_own(&run, "it is not continued")?;
        let jobs = match (run.graph(), run.intent()) {
            (Some(_), _) => GRAPH_JOBS,
            (None, Some(_)) => INTENT_JOBS,
            (None, None) => jobs,
        };
        let resumed = start::resume(&self.host.state.store, &self.settings.policies, slug)?;
        Ok(Begun { resumed, jobs, consent: None })
    }

    /// A new run from the tree of a stopped one, with more to use up.
    fn extend(&self, slug: &str, given: &[String], jobs: usize, by: String) -> Result<Begun> {
        let (parent, _) = self.host.reader()?.load(slug)?;
        self.require_own(&parent, "it is not continued from")?;
        if let Some(wait) = parent.waits_for().filter(|wait| wait.kind == WaitKind::Budget) {
            let wait = wait.id.clone();
            return self.grant(slug, &wait, given, jobs, &by);
        }
        let contract = &parent.started.contract;
        let example = match contract.workflow {
            Workflow::Pdca => "for example --budget max_iterations=10",
            Workflow::Batch | Workflow::Graph | Workflow::Intent | Workflow::Pipeline => {
                "for example --budget max_tokens=200000"
            }
        };
        let budgets = raised(contract.workflow, contract.budgets.clone(), given)
            .map_err(|problem| Error::usage(problem, example))?;
        if contract.workflow == Workflow::Intent {
            let message = format!("run {slug} carries out an intent; it is tried again, not extended");
            return Err(Error::declined(message, format!("norma intent run --retry {slug}")));
        }
        if contract.workflow == Workflow::Pipeline {
            let message = format!("run {slug} is a pipeline that has ended; it is not continued from");
            return Err(Error::declined(message, "start another one: norma pipeline"));
        }
        if contract.workflow == Workflow::Graph {
            let message = format!("run {slug} is a graph that has ended; it is not continued from");
            return Err(Error::declined(message, "start another one: norma graph new"));
        }
        if contract.workflow == Workflow::Batch {
            let begun = self.started(jobs, |starting| starting.start_after(&parent, budgets))?;
            let consent = self.was_typed(slug, &begun.resumed.run)?.then_some(by);
            return Ok(Begun { consent, ..begun });
        }
        let order = Order {
            goal: contract.goal.clone(),
            criteria: contract.acceptance_criteria.clone(),
            task: contract.task_id,
            budgets: Some(budgets),
            agent: None,
            parent: Some(Box::new(parent)),
        };
        self.started(jobs, |starting| starting.start(order))
    }

    /// A new run from where another one was after an event.
    fn fork(&self, slug: &str, seq: u64, jobs: usize, by: &str) -> Result<Begun> {
        let (id, events, _) = self.host.reader()?.log(slug)?;
        let parent = fork::as_it_was(id, &events, seq)?;
        self.require_own(&parent, "it is not forked")?;
        let jobs = if parent.graph().is_some() { GRAPH_JOBS } else { jobs };
        self.started(jobs, |starting| starting.start_fork(&parent, by))
    }

    /// Answers a run that asks for more of a budget, and continues it.
    fn grant(&self, slug: &str, wait: &WaitId, given: &[String], jobs: usize, by: &str) -> Result<Begun> {
        self.host.require_idle(slug)?;
        let (run, mut log) = self.host.reader()?.load(slug)?;
        start::same_policies(&run, &self.settings.policies)?;
        let example = "for example --budget max_tokens=200000, or --budget stop";
        let refused = |problem: String| Error::usage(problem, example);
        let (choice, budgets) = match given {
            [only] if only == CHOICE_STOP => (CHOICE_STOP, None),
            given => {
                let workflow = run.started.contract.workflow;
                (CHOICE_MORE, Some(raised(workflow, run.budgets().clone(), given).map_err(refused)?))
            }
        };
        let answered = run.answer(wait, choice, by, None, budgets).map_err(refused)?;
        let facts = vec![answered, Fact::RunResumed { pid: std::process::id() }];
        self.host.state.store.append(&mut log, facts, Vec::new())?;
        let (run, log) = self.host.reader()?.load(slug)?;
        Ok(Begun { resumed: Resumed { run, log, denied: None }, jobs, consent: None })
    }

    /// Whether somebody typed what a run continues from, and it asks for nothing else.
    fn was_typed(&self, parent: &str, run: &Run) -> Result<bool> {
        let reasons = &run.started.contract.approval_for;
        Ok(self.host.reader()?.approvals(false)?.iter().any(|asked| {
            let same = reasons.iter().all(|reason| asked.reasons.contains(reason));
            let used = asked.used_at.is_some() && asked.reason.as_deref() == Some(approval::TYPED);
            asked.run_id == parent && used && same
        }))
    }

    fn started(&self, jobs: usize, start: impl FnOnce(Starting<'_>) -> Result<(Run, RunLog)>) -> Result<Begun> {
        let Config { sandbox, workspace, .. } = &self.settings.config;
        check_sandbox(sandbox, self.mode(), &self.context.sandbox)?;
        check_workspace(workspace, sandbox.backend, &self.context.sandbox)?;
        self.check_backend(sandbox.backend)?;
        let (run, log) = start(self.starting())?;
        Ok(Begun { resumed: Resumed { run, log, denied: None }, jobs, consent: None })
    }

    /// Whether the backends are there that items ask for themselves, in the mode that counts.
    fn check_items(&self, items: &[Item]) -> Result<()> {
        let sandbox = &self.settings.config.sandbox;
        for backend in items.iter().filter_map(|item| item.sandbox_backend) {
            if let Err(why) = sandbox.may_be_asked_for(backend, self.mode()) {
                let hint = "production mode comes from \"mode\" in config.json or from NORMA_MODE";
                return Err(Error::environment(format!("sandbox_unavailable: {why}"), hint));
            }
            self.check_backend(backend)?;
        }
        Ok(())
    }

    /// Whether a backend is there; nothing is started on it.
    fn check_backend(&self, backend: Backend) -> Result<()> {
        if !backend.is_elsewhere() {
            return Ok(());
        }
        let backends = self.settings.config.sandbox.backends();
        let never = Cancel::new().map_err(|source| Error::io("make", Path::new("a descriptor"), source))?;
        check_backend(backend, &means(&self.context, &backends, None), &never)
    }

    fn starting(&self) -> Starting<'_> {
        let Context { user, trust, user_env, agent_env, .. } = &*self.context;
        let (store, objects, settings) = (&self.host.state.store, &*self.host.state.objects, &self.settings);
        let path_var = agent_env.get(OsStr::new("PATH")).map_or(OsStr::new(""), |path| path);
        let (attended, shows_dependencies) =
            (self.sender.attended, shows_dependencies(&self.context.sandbox, &settings.config));
        Starting { store, user, objects, trust, settings, path_var, user_env, attended, shows_dependencies }
    }

    /// Something of a recorded run is started only by whoever started the run here, and only confined as the run was.
    fn require_own(&self, run: &Run, so: &str) -> Result<()> {
        crate::context::trust::require_own(&self.context, &self.settings, self.sender.mode, run, so)
    }

    /// The stricter of what the configuration and the environment say.
    fn mode(&self) -> Mode {
        self.settings.config.mode.max(self.sender.mode)
    }
}

/// The facts that add these items to a run, one after another.
fn facts(run: &Run, additions: &[(Item, AgentConfig)]) -> std::result::Result<Vec<Fact>, String> {
    let (mut after, mut facts) = (run.clone(), Vec::with_capacity(additions.len()));
    for (item, agent) in additions {
        let fact = after.add_item(item.clone(), Some(agent.clone()))?;
        let event = Event { seq: after.seq + 1, ts: store::now(), fact };
        after.advance(&event).map_err(|illegal| illegal.why)?;
        facts.push(event.fact);
    }
    Ok(facts)
}

fn runnable(reader: &Reader, task: &TaskView, new: bool) -> Result<()> {
    if task.status == TaskStatus::Done && !new {
        let hint = format!("to run it again: norma run {} --new", task.id);
        return Err(Error::declined(format!("task {} is done", task.id), hint));
    }
    for other in &task.depends_on {
        let waits = reader.task(*other)?.filter(|other| other.status != TaskStatus::Done);
        if let Some(other) = waits {
            let message = format!("task {} waits for task {}, which is {}", task.id, other.id, other.status.as_str());
            return Err(Error::declined(
                message,
                format!("norma run {}, or `norma run` for every ready task", other.id),
            ));
        }
    }
    Ok(())
}

fn paused_run(reader: &Reader, task: &TaskView) -> Result<Option<Slug>> {
    let Some(slug) = &task.run_id else { return Ok(None) };
    let view = reader.run(slug)?;
    Ok(view.filter(|view| view.status == Status::Paused).map(|view| view.run_id))
}

/// What items are about, in words, for the list of runs.
fn goal_of(items: &[Item]) -> String {
    match items {
        [only] => only.goal.clone(),
        several => format!("{} work items", several.len()),
    }
}

/// What items were submitted as, in whichever order.
fn submitted<'i>(items: impl Iterator<Item = &'i Item>) -> Vec<(&'i str, Digest)> {
    let mut all: Vec<(&str, Digest)> = items.map(|item| (item.id.as_str(), item.submitted)).collect();
    all.sort();
    all
}
