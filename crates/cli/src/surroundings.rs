//! What norma finds around it: the directory, the environment, the terminal. Read once; everything else gets it
//! as a parameter.

use crate::command::{Cli, Verb};
use crate::error::{CommandError, Outcome};
use crate::progress::FILES_MIN;
use crate::text::safe;
use contract::{Mode, RunView};
use run::Run;
use runner::git::{GitError, Repository, UserEnvironment};
use runner::process::Supervisor;
use runner::{Answer, Context, Hosted, News, Request, Sender, Trust, Variables};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use sandbox::{Sandbox, SetUp};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Layout, Reader, Recovery};

/// The hidden verb under which norma runs as the supervisor of an agent.
pub(crate) const SUPERVISE: &str = "__supervise";

/// The hidden verb under which norma sets up sandboxes.
pub(crate) const SET_UP_SANDBOX: &str = "__sandbox";

/// The hidden verbs under which norma takes part in the escape drill.
pub(crate) const DRILL_ROLES: sandbox::drill::Roles =
    sandbox::drill::Roles { drill: "__drill", set_up: SET_UP_SANDBOX };

/// What an agent gets of the user's environment; everything else is norma's business or a secret.
const AGENT_VARIABLES: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// What git tells a hook in its environment. Nothing else looks at it: a verb works on the repository it is called in.
#[derive(Clone, Default)]
pub(crate) struct HookEnvironment {
    /// `GIT_DIR`.
    pub(crate) git_dir: Option<PathBuf>,
    /// `GIT_INDEX_FILE`: what is committed, which need not be the repository's index.
    pub(crate) index: Option<PathBuf>,
}

/// What the command line knows of where it was called: options, environment, directories.
pub(crate) struct Surroundings {
    pub(crate) cwd: PathBuf,
    pub(crate) json: bool,
    /// How much the machine is trusted with, as `NORMA_MODE` says; it never weakens what the configuration says.
    pub(crate) mode: Mode,
    /// Whether people watch.
    pub(crate) terminal: bool,
    /// Whether lines can be drawn over: people watch, on a terminal that knows escapes.
    pub(crate) live: bool,
    /// Whether to show what agents say while they work.
    pub(crate) hears_agents: bool,
    /// Whether to use colour.
    pub(crate) color: bool,
    pub(crate) config: Option<PathBuf>,
    pub(crate) exe: PathBuf,
    state: Option<PathBuf>,
    data_home: PathBuf,
    /// The user's own configuration, whether or not there is one.
    own_config: PathBuf,
    /// The editor that the user wants.
    pub(crate) editor: OsString,
    pub(crate) git: UserEnvironment,
    pub(crate) hook: HookEnvironment,
    agent_env: BTreeMap<OsString, OsString>,
    command: String,
    /// What was typed, where the same once more would start the same run.
    repeatable: Option<String>,
}

impl Surroundings {
    pub(crate) fn read(cli: &Cli) -> Outcome<Surroundings> {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let cwd = match &cli.directory {
            Some(dir) => dir.canonicalize(),
            None => std::env::current_dir(),
        };
        let cwd = cwd.map_err(|e| {
            CommandError::usage(format!("could not enter the directory: {e}"), "name one that exists with -C")
        })?;
        let exe = std::env::current_exe().map_err(|e| {
            CommandError::new(
                crate::error::code::ENVIRONMENT,
                format!("norma cannot find itself: {e}"),
                "is /proc mounted?",
            )
        })?;
        let home = var("HOME").map(PathBuf::from);
        let data = var("XDG_DATA_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let config = var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let own_config = config
            .or_else(|| home.as_ref().map(|home| home.join(".config")))
            .unwrap_or_else(|| "/etc".into())
            .join("norma/config.json");
        let data_home = data
            .or_else(|| home.map(|home| home.join(".local/share")))
            .unwrap_or_else(|| "/var/lib".into())
            .join("norma");
        let state = var("NORMA_HOME").or_else(|| var("CORTEXPILOT_RUNTIME_ROOT")).map(|dir| cwd.join(dir));
        let mode = mode(var("NORMA_MODE"))?;
        let terminal = std::io::stdout().is_terminal();
        let knows_escapes = terminal && var("TERM").is_some_and(|term| term != "dumb");
        let words: Vec<String> = std::env::args().skip(1).take(8).map(|word| crate::text::short(&word, 40)).collect();
        Ok(Surroundings {
            json: cli.json,
            mode,
            terminal,
            // What norma does itself is told on the same terminal, line by line.
            live: knows_escapes && !cli.json && cli.verbose < 2,
            hears_agents: cli.verbose > 0,
            color: knows_escapes && var("NO_COLOR").is_none(),
            config: cli.config.clone(),
            state,
            data_home,
            own_config,
            editor: var("VISUAL").or_else(|| var("EDITOR")).unwrap_or_else(|| "vi".into()),
            git: UserEnvironment {
                path: var("PATH"),
                home: var("HOME"),
                xdg_config_home: var("XDG_CONFIG_HOME"),
                git_config_global: var("GIT_CONFIG_GLOBAL"),
            },
            hook: HookEnvironment {
                git_dir: var("GIT_DIR").map(|dir| cwd.join(dir)),
                index: var("GIT_INDEX_FILE").map(|file| cwd.join(file)),
            },
            agent_env: AGENT_VARIABLES.iter().filter_map(|name| Some((name.into(), var(name)?))).collect(),
            command: format!("norma {}", words.join(" ")),
            repeatable: repeatable(&cli.verb),
            exe,
            cwd,
        })
    }

    /// The same surroundings in another directory, with its own state.
    pub(crate) fn at(&self, cwd: PathBuf) -> Surroundings {
        Surroundings {
            cwd,
            state: None,
            config: None,
            exe: self.exe.clone(),
            data_home: self.data_home.clone(),
            own_config: self.own_config.clone(),
            editor: self.editor.clone(),
            git: self.git.clone(),
            hook: HookEnvironment::default(),
            agent_env: self.agent_env.clone(),
            command: self.command.clone(),
            repeatable: None,
            ..*self
        }
    }

    /// The same surroundings for a batch that nobody watches: what items do is not printed.
    pub(crate) fn quiet(&self) -> Surroundings {
        Surroundings { json: true, ..self.at(self.cwd.clone()) }
    }

    pub(crate) fn repository(&self) -> Outcome<Repository> {
        let mut user = Repository::discover(&self.cwd, self.git.clone())?;
        if let Some(inside) = self.state.as_ref().and_then(|state| state.strip_prefix(&user.root).ok()) {
            user.state_directory = inside.as_os_str().as_encoded_bytes().to_vec();
        }
        Ok(user)
    }

    pub(crate) fn layout_of(&self, user: &Repository) -> Layout {
        Layout::new(&user.root, self.state.as_deref())
    }

    /// The state directory of this place, if there is one here.
    pub(crate) fn layout(&self) -> Outcome<Option<Layout>> {
        let layout = match Repository::discover(&self.cwd, self.git.clone()) {
            Ok(user) => Some(self.layout_of(&user)),
            Err(GitError::NotARepository { .. } | GitError::BareRepository { .. }) => {
                self.state.as_deref().map(|state| Layout::new(&self.cwd, Some(state)))
            }
            Err(error) => return Err(error.into()),
        };
        Ok(layout.filter(|layout| layout.state.is_dir()))
    }

    pub(crate) fn trust_of(&self, layout: &Layout) -> Trust {
        Trust::new(&self.data_home, &layout.state)
    }

    /// Who is at the keyboard: as git knows them, else by their login. Whoever may speak to norma at all is the same
    /// user of the machine, so this is for the record and proves nothing.
    pub(crate) fn person(&self, user: &Repository) -> String {
        if let Some(person) = user.person() {
            return format!("{} <{}>", person.name, person.email);
        }
        let login = ["LOGNAME", "USER"].iter().find_map(|name| self.agent_env.get(OsStr::new(name)));
        let uid = || format!("uid {}", rustix::process::getuid().as_raw());
        login.map_or_else(uid, |name| name.to_string_lossy().into_owned())
    }

    /// Where agents are looked for.
    pub(crate) fn agent_path(&self) -> OsString {
        self.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default()
    }

    /// The clean environment that agents start from.
    pub(crate) fn agent_env(&self) -> &BTreeMap<OsString, OsString> {
        &self.agent_env
    }

    /// How norma becomes the supervisor of a program.
    pub(crate) fn supervisor(&self) -> Supervisor {
        Supervisor { program: self.exe.clone(), args: vec![SUPERVISE.into()] }
    }

    /// What counts outside of a repository: the user's own configuration.
    pub(crate) fn own_config(&self) -> Outcome<contract::Config> {
        let path = self.config.as_ref().map_or_else(|| self.own_config.clone(), |path| self.cwd.join(path));
        Ok(runner::own_config(&path)?)
    }

    /// Who asks for a run, and what this environment decides about it.
    pub(crate) fn sender(&self) -> Sender {
        Sender {
            config: self.config.as_ref().map(|path| self.cwd.join(path)),
            mode: self.mode,
            git: self.git.clone(),
            agent_env: Variables(self.agent_env.clone()),
            user_env: Variables(std::env::vars_os().collect()),
            attended: std::io::stdin().is_terminal(),
            own_config: self.own_config.clone(),
        }
    }

    /// Whether somebody is at the terminal to be asked.
    pub(crate) fn is_attended(&self) -> bool {
        !self.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// The command that would carry out a run once more: what was typed, or its task.
    pub(crate) fn again(&self, run: &Run) -> Option<String> {
        let task = || run.started.contract.task_id.map(|task| format!("norma run {task}"));
        let command = self.repeatable.clone().or_else(task)?;
        // Of a batch, what has landed would be refused as the same change.
        let new = run.items().len() > 1 && !command.split(' ').any(|word| word == "--new");
        Some(if new { format!("{command} --new") } else { command })
    }

    /// What confines programs; nothing is started before it is used.
    pub(crate) fn sandbox(&self) -> Sandbox {
        Sandbox::new(SetUp { program: self.exe.clone(), args: vec![SET_UP_SANDBOX.into()] })
    }

    /// A reader that is in nobody's way.
    pub(crate) fn reader(&self) -> Outcome<Reader> {
        Ok(Reader::open(&self.layout_of(&self.repository()?))?)
    }

    /// Everything an owner needs to know. The state directory must exist.
    pub(crate) fn context(&self) -> Outcome<Context> {
        let context = self.context_to_be()?;
        if !context.layout.exists() {
            return Err(store::Error::NoState(context.layout.state).into());
        }
        Ok(context)
    }

    /// The same, before there is a state directory.
    pub(crate) fn context_to_be(&self) -> Outcome<Context> {
        let user = self.repository()?;
        let layout = self.layout_of(&user);
        let trust = self.trust_of(&layout);
        let supervisor = self.supervisor();
        let templates = runner::load_templates(&layout)?;
        Ok(Context {
            layout,
            user,
            trust,
            agent_env: self.agent_env.clone(),
            user_env: std::env::vars_os().collect(),
            templates,
            supervisor,
            sandbox: Arc::new(self.sandbox()),
            told: first_workspace(self.json),
            command: self.command.clone(),
            own_config: self.own_config.clone(),
            policies: None,
        })
    }

    /// The same for somebody who never asked for a state directory: it is made, and git ignores all of it.
    pub(crate) fn context_or_private(&self) -> Outcome<Context> {
        let context = self.context_to_be()?;
        if !context.layout.exists() {
            context.layout.create_private()?;
        }
        Ok(context)
    }

    /// Has a request carried out: by the owner if there is one, else by taking the lock for a moment.
    pub(crate) fn request(&self, request: Request) -> Outcome<(String, serde_json::Value)> {
        let context = Arc::new(self.context()?);
        // Between the two questions an owner may come or go; a few rounds settle it.
        for _ in 0..50 {
            let answer = match runner::send(&context.layout, &request)? {
                Some(answer) => Some(answer),
                None => match crate::hosting::take(self, &context)? {
                    Hosted::Ours(host) => Some(host.handle(request.clone())),
                    Hosted::Theirs(_) => None,
                },
            };
            match answer {
                Some(Answer::Done { message, value }) => return Ok((message, value)),
                Some(Answer::Refused { message, causes, hint, code }) => {
                    return Err(CommandError::refused(code, message, causes, hint));
                }
                Some(Answer::Leaving) | None => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        }
        Err(CommandError::new(
            crate::error::code::ENVIRONMENT,
            "another norma owns the state directory but does not respond",
            "find it: norma doctor",
        ))
    }

    /// Tells what recovery found, on stderr, so that stdout stays what was asked for.
    pub(crate) fn tell_recovery(&self, recovery: &Recovery) {
        for note in recovery.notes.iter().filter(|_| !self.json) {
            crate::text::err(&format!("recovered: {}", safe(note)));
        }
        for damage in recovery.damaged.iter().filter(|_| !self.json) {
            let store::Damage { run_id, why } = damage;
            crate::text::err(&format!("damaged: run {run_id} was left as it is: {}; see norma doctor", safe(why)));
        }
    }

    /// Prints a value as one JSON line, or the text for people.
    pub(crate) fn print(&self, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> ExitCode {
        if self.json {
            let text = serde_json::to_string(value).expect("BUG: a view is plain data");
            crate::text::out(&if self.terminal { crate::text::shown_json(&text) } else { text });
        } else {
            crate::text::out(text().trim_end_matches('\n'));
        }
        ExitCode::SUCCESS
    }

    /// Shows runs as they are now: those whose process is gone are interrupted, even before somebody has recorded that.
    pub(crate) fn truthful<'v>(&self, layout: &Layout, views: impl Iterator<Item = &'v mut RunView>) {
        let mut running = views.filter(|view| view.status == contract::Status::Running).peekable();
        // Whoever is there works on all of them, so one look is enough.
        if running.peek().is_none() || runner::is_owned(layout) {
            return;
        }
        for view in running {
            view.status = contract::Status::Paused;
            view.reason = Some(contract::Reason::Interrupted);
        }
    }
}

/// What was typed, if it starts runs and is short enough to be typed again.
fn repeatable(verb: &Verb) -> Option<String> {
    const CHARS_MAX: usize = 200;
    let words: Vec<String> = std::iter::once("norma".to_owned()).chain(std::env::args().skip(1)).collect();
    let starts_runs = matches!(verb, Verb::Run(_) | Verb::Batch(_));
    Some(safe(&contract::policy::join(&words))).filter(|text| starts_runs && text.chars().count() <= CHARS_MAX)
}

/// Says once that the first workspace of a large repository is being made, for what is no run: of a run, its followers are
/// told more.
fn first_workspace(quiet: bool) -> Arc<dyn Fn(News) + Send + Sync> {
    let told = AtomicBool::new(quiet);
    Arc::new(move |news| {
        if let News::Checkout(progress) = news
            && progress.of >= FILES_MIN
            && !told.swap(true, Ordering::Relaxed)
        {
            crate::text::err(&format!("preparing the first workspace of this repository: {} files", progress.of));
        }
    })
}

/// A mode that is misspelt must not mean the weaker one.
fn mode(value: Option<OsString>) -> Outcome<Mode> {
    match value.as_deref().map(|it| it.to_str()) {
        None | Some(Some("development")) => Ok(Mode::Development),
        Some(Some("production")) => Ok(Mode::Production),
        Some(other) => Err(CommandError::usage(
            format!("NORMA_MODE is {:?}", other.unwrap_or("not text")),
            "set it to production or development, or unset it",
        )),
    }
}

/// How much of its own doings norma tells.
pub(crate) fn log_level() -> Option<OsString> {
    std::env::var_os("NORMA_LOG").filter(|value| !value.is_empty())
}

/// Keeps keys in this process: no core file is written of it, and no other process of the user looks into its memory.
pub(crate) fn close_to_others() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).expect("BUG: a limit can always be lowered");
    set_dumpable_behavior(DumpableBehavior::NotDumpable).expect("BUG: every kernel knows this");
}

/// Tests kill norma at named points; only builds with debug assertions listen.
pub(crate) fn arm_crash_point() {
    if cfg!(debug_assertions)
        && let Some(point) = std::env::var_os("NORMA_CRASH_POINT")
    {
        store::crash::arm(&point.to_string_lossy());
    }
}
