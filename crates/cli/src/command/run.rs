//! `norma run`: carries out a task, a goal, or every task that is ready.

use super::work::{Document, Work};
use crate::error::{CommandError, Outcome, code};
use crate::progress::{Reporter, waiting_for};
use crate::surroundings::Surroundings;
use crate::text::{left_out, out, safe, short_id, short_ref};
use contract::{
    BudgetExceeded, Budgets, Config, ItemStatus, Mode, Reason, RunView, SandboxConfig, Status, TaskStatus, TaskView,
};
use run::Run;
use runner::{
    Context, Control, Driver, Machine, Order, Owner, Resumed, Settings, Starting, Stop, Taken, WorkOrder, Workers,
    load_settings,
};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Reader, RunLog};

/// How many items are worked on at once, unless told otherwise.
pub(crate) const JOBS_DEFAULT: usize = 2;

/// How long the agent of a typed contract may take.
const TYPED_MS: u64 = 60 * 60 * 1000;

/// How often a waiting norma asks for the lock again.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// Run a task, a contract, a goal, or every task that is ready
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma run 1\n  norma run contract.json\n  norma run --goal \"fix the parser\" --agent claude --allow src --test \"cargo test\"   # one agent under contract\n  norma run --goal \"fix the parser\" --ac \"cargo test passes\"   # plan, do, check, act\n  norma run --continue   # every ready task, dependencies first, past failures"
)]
pub(crate) struct Args {
    /// A task id (all digits), or a file with a contract or a work item
    #[arg(conflicts_with = "goal")]
    what: Option<String>,
    /// Make a task of this goal and run it
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// What must hold when it is done (can be repeated)
    #[arg(long, value_name = "TEXT", requires = "goal")]
    ac: Vec<String>,
    /// Who does it: an entry of "agents", or codex, claude, gemini or opencode
    #[arg(long, value_name = "NAME", requires = "goal")]
    agent: Option<String>,
    /// What may change: a file, or a directory with everything below (can be repeated); makes it a contract
    #[arg(long, value_name = "PATH", requires = "goal")]
    allow: Vec<String>,
    /// A command that must succeed on the result (can be repeated); makes it a contract
    #[arg(long, value_name = "COMMAND", requires = "goal")]
    test: Vec<String>,
    /// How: plan, do, check and act in a loop, or one agent under contract
    #[arg(long, value_enum, requires = "goal")]
    workflow: Option<How>,
    /// Start over even if an interrupted run of the task could go on
    #[arg(long)]
    new: bool,
    /// Without a task: go on with the next one after a failure
    #[arg(long = "continue")]
    go_on: bool,
    /// Do not wait if another norma is at work; exit 4
    #[arg(long)]
    no_wait: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if let Some(file) = self.what.as_deref().filter(|what| !what.bytes().all(|b| b.is_ascii_digit())) {
            let (new, no_wait) = (self.new, self.no_wait);
            let document = Document::File(file.into());
            return Work { document, jobs: JOBS_DEFAULT, new, no_wait, many: false }.run(here);
        }
        if let Some(document) = self.contract()? {
            let (new, no_wait) = (self.new, self.no_wait);
            return Work { document, jobs: JOBS_DEFAULT, new, no_wait, many: false }.run(here);
        }
        if let Some(goal) = &self.goal {
            super::task::require_words(goal, &self.ac)?;
        }
        let interrupts = Interrupts::install()?;
        let context = here.context()?;
        let settings = trusted_settings(here, &context)?;
        let owner = wait_for_lock(here, &context, self.no_wait)?;
        let session = Session { here, context: &context, owner: &owner, settings, interrupts };
        match (&self.what, &self.goal) {
            (Some(task), _) => {
                let id =
                    task.parse().map_err(|_| CommandError::usage("that number is too large", "norma task list"))?;
                session.one(session.task(id, self.new, None)?)
            }
            (None, Some(goal)) => {
                let task = owner.store().add_task(goal.clone(), self.ac.clone()).wait()?;
                session.one(session.task(task, self.new, self.agent.clone())?)
            }
            (None, None) => session.all(self.go_on),
        }
    }
}

/// How a goal is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// plan, do, check and act, round and round
    Pdca,
    /// one agent, one change, your tests
    Contract,
}

impl Args {
    /// The work item that was typed, unless the loop is meant.
    fn contract(&self) -> Outcome<Option<Document>> {
        let Some(goal) = &self.goal else { return Ok(None) };
        let typed = !self.allow.is_empty() || !self.test.is_empty();
        let is_contract = self.workflow.map_or(typed, |how| how == How::Contract);
        if !is_contract {
            return match typed {
                true => Err(CommandError::usage("--allow and --test make a contract", "leave out --workflow pdca")),
                false => Ok(None),
            };
        }
        super::task::require_words(goal, &self.ac)?;
        let Some(agent) = &self.agent else {
            return Err(CommandError::usage("a contract needs somebody to do it", "name one with --agent"));
        };
        let criteria: String = self.ac.iter().map(|text| format!("\n- {text}")).collect();
        let description = match criteria.is_empty() {
            true => goal.clone(),
            false => format!("{goal}\n\nIt is done when:{criteria}"),
        };
        let mut item = serde_json::json!({
            "id": "goal",
            "agent_id": agent,
            "description": description,
            // One person's goal, not one of many small items: the limits are there to stop what runs away.
            "constraints": {"max_files": 200, "max_tool_ops": 2000, "max_delta_size": 200, "timeout_ms": TYPED_MS},
        });
        if !self.allow.is_empty() {
            item["allowed_paths"] = self.allow.clone().into();
        }
        if !self.test.is_empty() {
            item["test_commands"] = self.test.clone().into();
        }
        Ok(Some(Document::Typed(item.to_string().into_bytes())))
    }
}

/// Everything a run needs, for as long as this process owns the state directory.
pub(crate) struct Session<'a> {
    pub(crate) here: &'a Surroundings,
    pub(crate) context: &'a Context,
    pub(crate) owner: &'a Owner,
    pub(crate) settings: Settings,
    pub(crate) interrupts: Interrupts,
}

impl Session<'_> {
    fn one(&self, view: RunView) -> Outcome<ExitCode> {
        self.finish(&view)
    }

    /// Every ready task, dependencies first. A task that was tried in this round is not tried again.
    fn all(&self, go_on: bool) -> Outcome<ExitCode> {
        let mut tried = Vec::new();
        let mut worst = ExitCode::SUCCESS;
        loop {
            let ready = Reader::open(&self.context.layout)?.ready_tasks()?;
            let Some(task) = ready.into_iter().find(|task| !tried.contains(task)) else { break };
            tried.push(task);
            let view = self.task(task, false, None)?;
            let code = self.finish(&view)?;
            if view.status != Status::Succeeded {
                worst = code;
                if !go_on || view.status == Status::Paused {
                    return Ok(worst);
                }
            }
        }
        if tried.is_empty() && !self.here.json {
            out("no task is ready; add one: norma task add \"what you want\"");
        }
        Ok(worst)
    }

    /// Runs a task, or goes on with its interrupted run.
    fn task(&self, id: i64, new: bool, agent: Option<String>) -> Outcome<RunView> {
        let reader = Reader::open(&self.context.layout)?;
        let task = reader
            .task(id)?
            .ok_or_else(|| CommandError::usage(format!("there is no task {id}"), "norma task list --all shows them"))?;
        self.runnable(&reader, &task, new)?;
        if !new && let Some(paused) = paused_run(&reader, &task)? {
            return self.resume(&paused, 1);
        }
        self.start(Order {
            goal: task.goal,
            criteria: task.acceptance_criteria,
            task: Some(id),
            parent: None,
            budgets: None,
            agent,
        })
    }

    fn runnable(&self, reader: &Reader, task: &TaskView, new: bool) -> Outcome<()> {
        if task.status == TaskStatus::Done && !new {
            let hint = format!("to run it again: norma run {} --new", task.id);
            return Err(CommandError::new(code::FAILED, format!("task {} is done", task.id), hint));
        }
        for other in &task.depends_on {
            let waits = reader.task(*other)?.filter(|other| other.status != TaskStatus::Done);
            if let Some(other) = waits {
                let message =
                    format!("task {} waits for task {}, which is {}", task.id, other.id, other.status.as_str());
                return Err(CommandError::new(
                    code::FAILED,
                    message,
                    format!("norma run {}, or `norma run` for every ready task", other.id),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn start(&self, order: Order) -> Outcome<RunView> {
        let (run, log) = self.starting(|starting| starting.start(order))?;
        self.drive(run, log, 1)
    }

    /// Starts the items of a contract or a batch, so many at once.
    pub(crate) fn start_work(&self, order: WorkOrder, jobs: usize) -> Outcome<RunView> {
        let (run, log) = self.starting(|starting| starting.start_work(order))?;
        self.drive(run, log, jobs)
    }

    /// Goes on from a run of items that a budget stopped, as a new run.
    pub(crate) fn start_after(&self, parent: &Run, budgets: Budgets, jobs: usize) -> Outcome<RunView> {
        let (run, log) = self.starting(|starting| starting.start_after(parent, budgets))?;
        self.drive(run, log, jobs)
    }

    fn starting<T>(&self, start: impl FnOnce(Starting<'_>) -> runner::Result<T>) -> Outcome<T> {
        let Config { sandbox, workspace, .. } = &self.settings.config;
        runner::check_sandbox(sandbox, self.mode(), &self.context.sandbox)?;
        runner::check_workspace(workspace, sandbox.backend, &self.context.sandbox)?;
        let (store, objects, settings) = (self.owner.store(), self.owner.objects(), &self.settings);
        let Context { user, trust, user_env, .. } = self.context;
        let path_var = &self.here.agent_path();
        Ok(start(Starting { store, user, objects, trust, settings, path_var, user_env })?)
    }

    pub(crate) fn resume(&self, slug: &str, jobs: usize) -> Outcome<RunView> {
        let resumed = self.take_up(slug)?;
        let reporter = Reporter::new(self.here, &self.context.layout, &resumed.run)?;
        self.drive_telling(reporter, resumed, jobs)
    }

    /// Goes on with a run that this process has been at already: whoever reads along knows which it is.
    pub(crate) fn go_on(&self, slug: &str, jobs: usize) -> Outcome<RunView> {
        let resumed = self.take_up(slug)?;
        let reporter = Reporter::going_on(self.here, &self.context.layout, &resumed.run)?;
        self.drive_telling(reporter, resumed, jobs)
    }

    fn take_up(&self, slug: &str) -> Outcome<Resumed> {
        let (run, _) = Reader::open(&self.context.layout)?.load(slug)?;
        self.require_own(&run, "it is not gone on with")?;
        Ok(runner::resume(self.owner.store(), &self.settings.policies, slug)?)
    }

    /// Carries out the contract of a run again, to be compared.
    pub(crate) fn again(&self, run: &Run, jobs: usize) -> Outcome<RunView> {
        let (run, log) = self.starting(|starting| starting.start_again(run))?;
        self.drive(run, log, jobs)
    }

    /// Something of a recorded run is started only by whoever started the run here, and only confined as the run was.
    pub(crate) fn require_own(&self, run: &Run, so: &str) -> Outcome<()> {
        if !self.context.trust.started(&run.started.contract_digest) {
            let message = format!("run {} was not started by you on this machine, so {so}", run.id.slug());
            return Err(CommandError::new(code::ENVIRONMENT, message, "start it anew: norma run … --new"));
        }
        let sandbox = SandboxConfig { backend: run.started.contract.sandbox, ..self.settings.config.sandbox.clone() };
        runner::check_sandbox(&sandbox, self.mode(), &self.context.sandbox)?;
        Ok(runner::check_workspace(&run.started.contract.workspace, sandbox.backend, &self.context.sandbox)?)
    }

    /// The stricter of what the configuration and the environment say.
    fn mode(&self) -> Mode {
        self.settings.config.mode.max(self.here.mode)
    }

    fn drive(&self, run: Run, log: RunLog, jobs: usize) -> Outcome<RunView> {
        let reporter = Reporter::new(self.here, &self.context.layout, &run)?;
        self.drive_telling(reporter, Resumed { run, log, denied: None }, jobs)
    }

    fn drive_telling(&self, mut reporter: Reporter, resumed: Resumed, jobs: usize) -> Outcome<RunView> {
        let Resumed { run, log, denied } = resumed;
        let control = Control::new()?;
        let slug = run.id.slug();
        self.owner.set_current(Some((slug.to_string(), control.clone())));
        self.interrupts.watch(Some(control.clone()));
        let layout = &self.context.layout;
        let cancel = control.cancel.clone();
        let machine = || Machine::new(self.context, self.owner.objects(), self.owner.keys(), cancel.clone());
        let workers = Workers { jobs, machine: &machine };
        let mut own = machine();
        let driven = Driver::new(
            self.owner.store(),
            self.owner.objects(),
            run,
            log,
            &mut own,
            &mut reporter,
            control,
            &self.settings.policies,
        )
        .and_then(|driver| match denied {
            None => driver.with_workers(workers).drive(),
            Some(end) => driver.with_workers(workers).deny(end),
        });
        self.interrupts.watch(None);
        self.owner.set_current(None);
        driven?;
        let view = Reader::open(layout)?.run(&slug)?;
        view.ok_or_else(|| store::Error::Refused(format!("there is no run {slug}")).into())
    }

    /// Prints how it ended and answers the exit code.
    pub(crate) fn finish(&self, view: &RunView) -> Outcome<ExitCode> {
        let (run, _) = Reader::open(&self.context.layout)?.load(&view.run_id)?;
        self.here.print(view, || ending(view, &run));
        Ok(exit_code(view))
    }
}

/// The ignored files that agents left beside changes that landed.
fn left_out_of(run: &Run) -> String {
    let landed = run.items.iter().filter_map(|state| {
        let ended = state.ended_here().filter(|ended| ended.status == ItemStatus::Success)?;
        Some(left_out(&state.item.id, ended.left_out.as_ref()?))
    });
    landed.collect()
}

/// The exit code of a run.
pub(crate) fn exit_code(view: &RunView) -> ExitCode {
    ExitCode::from(exit_number(view))
}

/// The same as a number.
pub(crate) fn exit_number(view: &RunView) -> u8 {
    match view.status {
        Status::Succeeded => 0,
        Status::Paused => code::INTERRUPTED,
        Status::Waiting => code::WAITING,
        _ if view.reason == Some(Reason::SandboxUnavailable) => code::ENVIRONMENT,
        _ => code::FAILED,
    }
}

/// What happened, is anything unsafe, what next.
pub(crate) fn ending(view: &RunView, run: &Run) -> String {
    let slug = &view.run_id;
    let message = view.message.as_deref().map(safe).unwrap_or_default();
    let evidence = format!("{}evidence: {}", left_out_of(run), view.run_dir);
    let untouched = match &view.landing {
        // Of a batch that did not succeed as a whole, what did succeed has landed.
        Some(landing) if landing.checkout => {
            &format!("is it safe: what succeeded is on {}, nothing else was touched", short_ref(&landing.target))
        }
        _ => "is it safe: your branch, index and files are as they were",
    };
    let more = run.exceeded.as_ref().map_or_else(|| "NAME=N".to_owned(), BudgetExceeded::more);
    match (view.status, &view.landing) {
        (Status::Succeeded, Some(landing)) if landing.checkout => format!(
            "{message} · landed {} {}→{}\n{evidence}\nnext: look: norma show {slug} · undo: norma undo {slug}",
            short_ref(&landing.target),
            short_id(view.base),
            short_id(landing.commit)
        ),
        (Status::Succeeded, Some(landing)) => {
            let branch = short_ref(&landing.target);
            format!(
                "{message} · the result is on branch {branch}\n{untouched}\n{evidence}\nnext: take it: norma land {slug}, or git merge {branch} · look: norma diff {slug}"
            )
        }
        (Status::Succeeded, None) => {
            format!("{message} · nothing had to change\n{evidence}\nnext: look: norma show {slug}")
        }
        (Status::Waiting, _) => format!(
            "waiting: {message}\n{untouched}\n{evidence}\nnext: see it: norma approvals · say yes: norma approve ID · then: norma resume {slug}"
        ),
        (Status::Paused, _) => format!("paused: {message}\n{untouched}\n{evidence}\nnext: norma resume {slug}"),
        (Status::Stopped, _) => format!(
            "what happened: stopped: {message}\n{untouched}\n{evidence}\nnext: look: norma show {slug} · go on: norma resume {slug} --budget {more}"
        ),
        (status, _) => format!(
            "what happened: {status} ({}): {message}\n{untouched}\n{evidence}\nnext: look: norma show {slug} · logs: {}/steps/*/logs · again: norma run … --new",
            view.reason.map_or("", Reason::as_str),
            view.run_dir
        ),
    }
}

fn paused_run(reader: &Reader, task: &TaskView) -> Outcome<Option<String>> {
    let Some(slug) = &task.run_id else { return Ok(None) };
    let view = reader.run(slug)?;
    Ok(view.filter(|view| view.status == Status::Paused).map(|view| view.run_id.to_string()))
}

/// The settings, if they are trusted. A configuration that was named on the command line is; the policies of the
/// state directory are not trusted with it, since nobody typed them.
pub(crate) fn trusted_settings(here: &Surroundings, context: &Context) -> Outcome<Settings> {
    use super::trust::{describe, describe_policies, named};
    let Context { layout, trust, .. } = context;
    let untrusted =
        |message: String| Err(CommandError::new(code::ENVIRONMENT, message, "if that is what you want: norma trust"));
    let settings = match &here.config {
        Some(path) => {
            let settings = load_settings(&here.cwd.join(path), layout)?;
            if !trust.trusts_policies(&settings.policies) {
                let dir = layout.shown(&layout.policies());
                let said = describe_policies(&settings, layout);
                return untrusted(format!("the policies in {dir} are not trusted, so nothing was run{said}"));
            }
            settings
        }
        None => {
            let settings = load_settings(&layout.config(), layout)?;
            if !trust.trusts(&settings) {
                let (files, said) = (named(&settings, layout), describe(&settings, layout));
                return untrusted(format!("{files} is not trusted, so nothing was run\n{said}"));
            }
            settings
        }
    };
    if !settings.policies.missing.is_empty() && !here.json {
        let (dir, names) = (layout.shown(&layout.policies()), settings.policies.missing.join(", "));
        crate::text::err(&format!(
            "note: the built-in {names} count, since they are not in {dir}; norma init writes them"
        ));
    }
    Ok(settings)
}

/// Takes the lock, or waits for whoever has it.
pub(crate) fn wait_for_lock(here: &Surroundings, context: &Context, no_wait: bool) -> Outcome<Box<Owner>> {
    let mut told = false;
    loop {
        let holder = match Owner::take(context)? {
            Taken::Ours(owner) => {
                here.tell_recovery(&owner);
                return Ok(owner);
            }
            Taken::Theirs(holder) => holder,
        };
        if no_wait {
            let who = holder
                .map_or_else(|| "another norma".to_owned(), |owner| format!("`{}` (pid {})", owner.command, owner.pid));
            return Err(CommandError::new(
                code::ENVIRONMENT,
                format!("{who} is at work here"),
                "without --no-wait, norma waits for it",
            ));
        }
        if !told {
            waiting_for(here, holder.as_ref());
            told = true;
        }
        std::thread::sleep(LOCK_POLL);
    }
}

/// SIGINT and SIGTERM: end the turn cleanly and leave the run paused; without a run, just leave.
#[derive(Clone)]
pub(crate) struct Interrupts {
    current: Arc<Mutex<Option<Control>>>,
}

impl Interrupts {
    pub(crate) fn install() -> Outcome<Interrupts> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| {
            CommandError::new(code::ENVIRONMENT, format!("could not watch for signals: {e}"), "try again")
        })?;
        let current: Arc<Mutex<Option<Control>>> = Arc::default();
        let watched = current.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                match &*watched.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(control) => control.request(Stop::Interrupt),
                    None => std::process::exit(code::INTERRUPTED.into()),
                }
            }
        });
        Ok(Interrupts { current })
    }

    pub(crate) fn watch(&self, control: Option<Control>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = control;
    }
}
