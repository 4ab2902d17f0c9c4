//! Making a workspace buildable before an agent sees it: files of the user's checkout that git ignores
//! (`.worktreeinclude`), and the configured command (`workspace.setup`), once for each tree.
//!
//! The command runs in the sandbox that agents run in, in the same place, and after the turn's intent is on record: it
//! is an effect like any other. It is not an agent, though: its changes are kept, as a layer that every turn on the
//! tree is shown.

use crate::context::confinement::check_workspace;
use crate::git::id;
use crate::machine::Machine;
use crate::machine::confine::{Program, Shown};
use crate::machine::execute::{Call, command, confinement, kept, not_started};
use crate::machine::view::Ground;
use crate::process::MARKER;
use crate::process::{End, Limits, Outcome, Said, confined};
use crate::workspace::include::{self, Include, IncludedFile};
use crate::workspace::{CaptureRules, SetupLayer, SetupLayers, SetupMaking, SetupOrder, capture};
use crate::world::Execution;
use crate::{Error, News, Result};
use contract::{AgentConfig, AgentType, ProcessEnd, TreeId};
use run::Run;
use run::gate::command::{Decision, Origin, decide};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How many paths a message names.
const NAMED_MAX: usize = 10;

/// How much of its last words a message quotes of a setup that failed; the logs have everything.
const QUOTED_LINES: usize = 5;
const QUOTED_CHARS_MAX: usize = 500;

/// What the user's checkout adds to the run's trees.
#[derive(Default)]
pub(crate) struct Included {
    found: Include,
    /// The tree it was last made to fit.
    tree: Option<TreeId>,
    paths: Vec<Vec<u8>>,
    files: Vec<IncludedFile>,
    /// The layer with those files; each has a directory of its own.
    pub(crate) dir: Option<PathBuf>,
    made: u32,
}

/// How the setup of a tree went.
pub(crate) enum SetUp {
    /// The tree is ready; what is worth noting.
    Ready(Vec<String>),
    /// It is not, which ends the turn.
    Failed(Box<Execution>),
}

/// How running a setup ended.
enum SetupEnd {
    Succeeded(Outcome, Changes),
    Failed(Box<Execution>),
}

impl Included {
    /// What is put on record.
    fn on_record(&self) -> Value {
        let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        self.files.iter().map(|file| json!({ "path": shown(&file.path), "digest": file.digest })).collect()
    }
}

impl Machine {
    /// Finds what the user's checkout adds, once, and makes a layer of what fits the run's tree.
    pub(crate) fn include(&mut self, on: &Ground<'_>) -> Result<()> {
        let mut included = match self.workspace.included.take() {
            Some(included) => included,
            None => Included { found: include::find(&self.context.user, include::is_secret)?, ..Included::default() },
        };
        if included.tree != Some(on.tree) {
            let paths = include::fitting(&self.objects, id(on.tree), &included.found.files)?;
            if paths != included.paths {
                included.dir = None;
                included.made += 1;
                let place = self.directory(on).join("include");
                included.files =
                    self.copy_included(&paths, &place.join(included.made.to_string()), &mut included.dir)?;
                included.paths = paths;
            }
            included.tree = Some(on.tree);
        }
        self.workspace.included = Some(included);
        Ok(())
    }

    fn copy_included(&self, paths: &[Vec<u8>], dir: &Path, made: &mut Option<PathBuf>) -> Result<Vec<IncludedFile>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        std::fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
        *made = Some(dir.to_owned());
        include::copy(&self.context.user, paths, dir)
    }

    /// Puts what the user's checkout adds into a private checkout.
    pub(crate) fn include_into(&self, dir: &Path) -> Result<()> {
        let found = include::find(&self.context.user, include::is_secret)?;
        include::copy(&self.context.user, &found.files, dir).map(drop)
    }

    /// Takes the result of the tree's setup into use, if there is one.
    pub(crate) fn take_setup(&mut self, on: &Ground<'_>) -> Result<()> {
        if self.workspace.setup.as_ref().is_some_and(|(tree, _)| *tree == on.tree) {
            return Ok(());
        }
        self.workspace.setup = None;
        if !on.run.started.contract.workspace.setup.is_empty() {
            let taken = SetupLayers::open(&self.context.layout.cache())?.take(&self.setup_order(on)?)?;
            self.workspace.setup = taken.map(|layer| (on.tree, layer));
        }
        Ok(())
    }

    fn setup_order<'r>(&'r self, on: &'r Ground<'_>) -> Result<SetupOrder<'r>> {
        let (started, workspace) = (&on.run.started, &on.run.started.contract.workspace);
        let files = self.workspace.included.as_ref().map_or(&[][..], |included| &included.files);
        Ok(SetupOrder {
            tree: id(on.tree),
            argv: &workspace.setup,
            cache_paths: &workspace.cache_paths,
            root: &self.context.layout.root,
            include: (!files.is_empty()).then(|| include::digest_of(files)),
            run: (on.tree != started.base.tree).then(|| on.run.id.slug().to_string()),
        })
    }

    /// What is put on record of the workspace besides its tree.
    pub(crate) fn workspace_on_record(&self) -> Value {
        let setup = self.workspace.setup.as_ref().map(|(_, layer): &(TreeId, SetupLayer)| layer.name.as_str());
        let included = self.workspace.included.as_ref().map(Included::on_record);
        json!({ "included": included.unwrap_or_else(|| json!([])), "setup": setup })
    }

    /// Whether the configured setup has yet to be made for the run's tree.
    pub(crate) fn needs_setup(&mut self, on: &Ground<'_>) -> Result<bool> {
        let contract = &on.run.started.contract;
        if contract.workspace.setup.is_empty() {
            return Ok(false);
        }
        check_workspace(&contract.workspace, contract.sandbox, &self.context.sandbox)?;
        self.show(on)?;
        Ok(self.workspace.setup.is_none())
    }

    /// Makes the setup of the run's tree, if there is one to be made.
    pub(crate) fn set_up(&mut self, on: &Ground<'_>, limits: Limits) -> Result<SetUp> {
        if !self.needs_setup(on)? {
            return Ok(SetUp::Ready(Vec::new()));
        }
        let native = || json!({ "backend": "native" });
        if self.cancel.is_canceled() {
            return Ok(SetUp::Failed(Box::new(not_started(ProcessEnd::Canceled, native()))));
        }
        let agent = as_agent(on.run);
        let refused = self.refusal(&agent.cmd)?;
        let call = self.call(&agent, &self.context.layout.root, on)?;
        match (refused, call) {
            (Some(why), _) => Ok(failed(why, native())),
            (None, None) => Ok(failed(format!("{:?} is not an executable file here", agent.cmd[0]), native())),
            (None, Some(call)) => self.make_setup(on, limits, &agent, &call),
        }
    }

    /// What the command gate has against it.
    pub(crate) fn refusal(&mut self, argv: &[String]) -> Result<Option<String>> {
        Ok(match decide(argv, Origin::Contract, &*self.commands()?) {
            Decision::Allow { .. } => None,
            Decision::Deny { rule, why } => Some(format!("refused by rule {rule}: {why}")),
            Decision::Ask { why, .. } => Some(format!("a person would have to be asked: {why}")),
        })
    }

    fn make_setup(&mut self, on: &Ground<'_>, limits: Limits, agent: &AgentConfig, call: &Call) -> Result<SetUp> {
        let layers = SetupLayers::open(&self.context.layout.cache())?;
        let Shown::Layers { mut lower, secrets } = self.show(on)? else {
            unreachable!("BUG: a setup is asked for only where there are layers")
        };
        let making = layers.begin(&self.objects, &self.setup_order(on)?)?;
        lower.splice(0..0, making.below());
        let done = self.run_setup((on, limits), agent, call, &making, Shown::Layers { lower, secrets })?;
        match done {
            SetupEnd::Succeeded(outcome, changes) => self.keep_setup(on, making, outcome, changes),
            SetupEnd::Failed(failed) => {
                making.abandon()?;
                Ok(SetUp::Failed(failed))
            }
        }
    }

    /// Runs it to its end; nothing of it is alive afterwards.
    fn run_setup(
        &mut self,
        (on, limits): (&Ground<'_>, Limits),
        agent: &AgentConfig,
        call: &Call,
        making: &SetupMaking<'_>,
        shown: Shown,
    ) -> Result<SetupEnd> {
        let contract = &on.run.started.contract;
        let tools = self.tools(contract)?;
        let scene = self.scene(&tools, shown, contract);
        let named = [call.program.as_path()].into_iter().chain(call.args.iter().map(Path::new));
        let program = Program {
            cwd: &call.cwd,
            named: named.filter(|path| path.is_absolute()).collect(),
            read: Vec::new(),
            env: BTreeMap::from([(MARKER.to_owned(), on.run.id.slug().to_string())]),
            network: &agent.network,
        };
        let ready = scene.setup(program, making.layer()).and_then(|policy| {
            let ready = confined::get_ready(&self.context.sandbox, &policy, &command(call)?);
            Ok((ready.map_err(|error| error.to_string())?, policy))
        });
        let (ready, policy) = match ready {
            Ok(ready) => ready,
            Err(why) => return Ok(SetupEnd::Failed(not_confined(&why, json!({ "backend": "native" })))),
        };
        (self.context.told)(News::Setup(agent.cmd.clone()));
        let mut finished = match ready.go(Said::Bytes(&[]), Limits { idle: None, ..limits }, &self.cancel) {
            Ok(finished) => finished,
            Err(error) => {
                return Ok(SetupEnd::Failed(not_confined(&error.to_string(), json!({ "backend": "native" }))));
            }
        };
        let record = confinement(&policy, &json!(finished.effective), &json!(finished.report));
        let changes = Changes { upper: finished.layers.swap_remove(0), record };
        Ok(match went_wrong(&finished.outcome) {
            None => SetupEnd::Succeeded(finished.outcome, changes),
            Some(end) => SetupEnd::Failed(Box::new(ended(end, finished.outcome, changes.record))),
        })
    }

    /// Keeps what a setup made, unless it changed something that is not its to change.
    fn keep_setup(
        &mut self,
        on: &Ground<'_>,
        making: SetupMaking<'_>,
        outcome: Outcome,
        changes: Changes,
    ) -> Result<SetUp> {
        let layout = &self.context.layout;
        let state = layout.state.strip_prefix(&layout.root).ok().map(|path| path.as_os_str().as_bytes().to_vec());
        let rules = CaptureRules {
            state_directory: state.clone(),
            ignored_files_max: 0,
            ignored_names_max: 0,
            ..CaptureRules::default()
        };
        let captured = capture(&self.objects, id(on.tree), changes.upper.as_fd(), &rules)?;
        let changed = captured.changes.iter().map(|change| change.path.as_slice());
        let odd = captured.odd.iter().filter(|odd| !odd.ignored).map(|odd| odd.path.as_slice());
        let paths: Vec<&[u8]> = changed.chain(odd).collect();
        if !paths.is_empty() {
            making.abandon()?;
            let why = format!("it changed what .gitignore does not name: {}", names(&paths));
            let end = ProcessEnd::NotSetUp(why);
            return Ok(SetUp::Failed(Box::new(ended(end, outcome, changes.record))));
        }
        let own: Vec<&[u8]> = state.iter().map(Vec::as_slice).collect();
        making.finish(&own)?;
        self.take_setup(on)?;
        Ok(SetUp::Ready(vec![format!("workspace.setup ran for this tree in {} ms", outcome.elapsed.as_millis())]))
    }
}

/// What a setup changed, and what held it meanwhile.
struct Changes {
    upper: OwnedFd,
    record: Value,
}

/// The setup in the form of an agent: it is started the same way.
fn as_agent(run: &Run) -> AgentConfig {
    let workspace = &run.started.contract.workspace;
    AgentConfig {
        cmd: workspace.setup.clone(),
        network: workspace.setup_network.clone(),
        ..AgentConfig::of(AgentType::Exec)
    }
}

/// How a turn ends whose setup ended like this; `None` if it succeeded.
fn went_wrong(outcome: &Outcome) -> Option<ProcessEnd> {
    let how = match &outcome.end {
        End::Exited(0) => return None,
        End::Canceled => return Some(ProcessEnd::Canceled),
        End::Exited(code) => format!("exit code {code}"),
        End::Signaled(signal) => format!("killed by signal {signal}"),
        End::WallDeadline | End::IdleDeadline => "it took longer than limits.step_seconds".to_owned(),
        End::LimitReached(limit) => format!("it ran into a limit of the sandbox: {limit:?}"),
        End::NotStarted(why) | End::NotConfined(why) | End::NotSetUp(why) => why.clone(),
    };
    let words = [&outcome.stderr, &outcome.stdout].into_iter().map(|stream| last_words(&stream.bytes));
    let words =
        words.into_iter().find(|words| !words.is_empty()).map_or_else(String::new, |words| format!(": {words}"));
    Some(ProcessEnd::NotSetUp(format!("{how}{words}")))
}

pub(crate) fn last_words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; ");
    last.chars().take(QUOTED_CHARS_MAX).collect()
}

fn names(paths: &[&[u8]]) -> String {
    let shown = |path: &&[u8]| String::from_utf8_lossy(path).escape_debug().to_string();
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(shown).collect();
    match paths.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn failed(why: String, record: Value) -> SetUp {
    let end = ProcessEnd::NotSetUp(why);
    SetUp::Failed(Box::new(not_started(end, record)))
}

/// Most often because of where the result would be kept, so that is said.
fn not_confined(why: &str, record: Value) -> Box<Execution> {
    let place = "the state directory must be on a file system that can carry an overlay; NORMA_HOME moves it";
    let end = ProcessEnd::NotSetUp(format!("it could not be confined: {why} ({place})"));
    Box::new(not_started(end, record))
}

fn ended(process: ProcessEnd, outcome: Outcome, sandbox: Value) -> Execution {
    Execution {
        stdout_truncated: outcome.stdout.truncated,
        stdout: kept(outcome.stdout),
        stderr_truncated: outcome.stderr.truncated,
        stderr: kept(outcome.stderr),
        ..not_started(process, sandbox)
    }
}
