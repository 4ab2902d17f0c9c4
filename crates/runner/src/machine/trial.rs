//! Trying a program out: in a workspace at HEAD that nobody else sees, confined as an agent would be. What it changed
//! is judged as an agent's change would be, and dropped.

use crate::change::observed::observed;
use crate::context::confinement::{level, shows_dependencies};
use crate::git::Objects;
use crate::machine::confine::{Program, Scene, Shown, Tools};
use crate::machine::view::{Linked, is_secret};
use crate::workspace::{CaptureRules, Captured, Stand, Workspaces, capture};
use crate::{Context, Error, News, Result};
use contract::{Config, Policies, RepoPath};
use run::gate::Finding;
use run::gate::scope::{Scope, judge};
use sandbox::{Report, Streams};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What to try, and what it may do.
pub struct Trial<'a> {
    /// Program and arguments.
    pub command: &'a sandbox::Command,
    /// Where it starts: the repository's root or a directory below it.
    pub cwd: &'a Path,
    /// What it may reach, as `host:port`.
    pub network: &'a [String],
    /// What it may change; the whole tree if there are none.
    pub allowed_paths: Vec<RepoPath>,
    /// What must not be changed, and where anything may lie about.
    pub policies: &'a Policies,
}

/// What came of it.
pub struct Tried {
    /// How it ended.
    pub report: Report,
    /// What it changed.
    pub captured: Captured,
    /// What of that would be refused.
    pub findings: Vec<Finding>,
}

impl Trial<'_> {
    /// Runs the program to its end.
    pub fn run(self, context: &Context, streams: Streams) -> Result<Tried> {
        let (layout, config) = (&context.layout, Config::starting_point());
        let AtHead { objects, stand, tools } = &AtHead::new(context, layout, &config)?;
        let scene = at_head(context, &config, stand, tools);
        let named = vec![Path::new(&self.command.program)];
        let program = Program { cwd: self.cwd, named, read: Vec::new(), env: BTreeMap::new(), network: self.network };
        let refused = |why: String| Error::environment(why, "nothing was run; what is missing: norma doctor");
        let policy = scene.policy(program).map_err(refused)?;
        let prepared = context.sandbox.prepare(&policy, self.command, &streams);
        let started = prepared.and_then(sandbox::Prepared::start).map_err(|error| refused(error.to_string()));
        let mut confined = started?;
        drop(streams);
        let layers = confined.take_layers();
        let report = confined.finish().map_err(not_run)?;
        let named = self.allowed_paths.iter().map(|path| path.as_str().as_bytes().to_vec()).collect();
        let rules = CaptureRules { state_directory: state_in(layout), named, ..CaptureRules::default() };
        let captured = capture(objects, stand.tree, layers[0].as_fd(), &rules)?;
        let scope = contract::Scope { allowed_paths: self.allowed_paths, ..contract::Scope::default() };
        let scope = Scope::new(&scope, self.policies.scratch_paths(), contract::RULES);
        let state = layout.state_in_repository();
        let findings =
            judge(&observed(objects, stand.tree, &captured)?, &scope, self.policies.protected_paths(), state.as_ref());
        Ok(Tried { report, captured, findings })
    }
}

/// A workspace at HEAD that nobody else sees.
pub(crate) struct AtHead {
    pub(crate) objects: Objects,
    pub(crate) stand: Stand,
    pub(crate) tools: Tools,
}

/// What cargo has built of the checkout's dependencies, in a layer that is gone with it.
pub(crate) struct BuildsAtHead {
    layer: PathBuf,
    shown: Option<PathBuf>,
}

impl BuildsAtHead {
    pub(crate) fn new(context: &Context, config: &Config, at: &AtHead) -> Result<BuildsAtHead> {
        let layer = context.layout.worktree(&format!("builds-{}", std::process::id()));
        let shown = match shows_dependencies(&context.sandbox, config) {
            true => Linked::new(context, layer.clone())?.fitting(&at.objects, at.stand.tree, at.stand.tree)?,
            false => None,
        };
        Ok(BuildsAtHead { layer, shown })
    }

    /// Has a workspace show it.
    pub(crate) fn show_in(&self, scene: &mut Scene<'_>) {
        if let Shown::Layers { lower, .. } = &mut scene.shown {
            lower.splice(0..0, self.shown.clone());
        }
    }
}

impl Drop for BuildsAtHead {
    fn drop(&mut self) {
        // What stays behind is removed with the state directory's other work.
        let _ = store::remove_tree(&self.layer);
    }
}

impl AtHead {
    /// Makes it, with what is kept of it below `kept`.
    pub(crate) fn new(context: &Context, kept: &store::Layout, config: &Config) -> Result<AtHead> {
        let objects = Objects::open_or_create(&kept.git(), &context.user)?;
        let head = context.user.head()?;
        let workspaces = Workspaces::new(&kept.cache(), config.workspace.history, is_secret)?;
        let stand = workspaces
            .stand(&objects, head.commit, head.tree, &mut |progress| (context.told)(News::Checkout(progress)))?;
        let level = level(&context.sandbox)?;
        let tools = Tools::find(&context.agent_env, &config.sandbox.read, &context.layout.root, level);
        Ok(AtHead { objects, stand, tools })
    }
}

/// Where programs work on such a workspace.
pub(crate) fn at_head<'s>(context: &'s Context, config: &'s Config, stand: &Stand, tools: &'s Tools) -> Scene<'s> {
    let layout = &context.layout;
    let secrets = stand.secrets.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
    Scene {
        tools,
        shown: Shown::Layers { lower: stand.lower.clone(), secrets },
        root: &layout.root,
        state: &layout.state,
        env: &context.agent_env,
        limits: &config.sandbox.limits,
        layer_mb: config.workspace.layer_mb,
    }
}

fn not_run(error: sandbox::Error) -> Error {
    match error {
        sandbox::Error::NotStarted(why) => Error::usage(why, "a program is looked for on your PATH"),
        error => Error::environment(error.to_string(), "what is missing: norma doctor"),
    }
}

fn state_in(layout: &store::Layout) -> Option<Vec<u8>> {
    layout.state_in_repository().map(|path| path.as_str().as_bytes().to_vec())
}
