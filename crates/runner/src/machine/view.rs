//! Showing agents the run's tree: as shared layers where there are overlays, else as a checkout of the run's own.
//! Which one is decided once for a machine, and recorded with every turn.

use crate::context::confinement::level;
use crate::git::{ObjectId, Objects, id, sweep};
use crate::machine::Machine;
use crate::machine::confine::Shown;
use crate::machine::setup::Included;
use crate::workspace::builds::{self, Builds};
use crate::workspace::{
    AutoCrlf, CaptureRules, Captured, PlainWorkspace, SetupLayer, Stand, Workspaces, capture, only_in_git,
};
use crate::world::TurnOrder;
use crate::{Context, Error, News, Result};
use contract::{Backend, CommitId, Item, RULES_BUILD_PRODUCTS, RULES_LINE_ENDINGS, TreeId};
use run::{Run, TurnSpec};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a turn stands on.
pub(crate) struct Ground<'r> {
    pub(crate) run: &'r Run,
    /// The commit that is HEAD there.
    pub(crate) commit: CommitId,
    /// The tree that is shown.
    pub(crate) tree: TreeId,
    /// What confines whoever works on it.
    pub(crate) backend: Backend,
    /// Whether others work on the run at the same time, each on a ground of its own.
    in_parallel: bool,
}

impl<'r> Ground<'r> {
    /// The ground of a turn.
    pub(crate) fn of(run: &'r Run, spec: &TurnSpec) -> Ground<'r> {
        Ground { in_parallel: spec.in_parallel, ..Ground::at(run, spec.item.as_deref(), spec.commit, spec.tree) }
    }

    /// Some tree of a run's line, or one that may become part of it.
    pub(crate) fn at(run: &'r Run, item: Option<&Item>, commit: CommitId, tree: TreeId) -> Ground<'r> {
        let backend = run.started.contract.backend_of(item);
        Ground { run, commit, tree, backend, in_parallel: true }
    }
}

/// What shows the run's tree at the moment.
#[derive(Default)]
pub(crate) struct Workspace {
    layers: Option<Workspaces>,
    stand: Option<Stand>,
    /// The checkout and the tree it shows.
    checkout: Option<(PlainWorkspace, Option<TreeId>)>,
    /// What the user's checkout adds to the tree.
    pub(crate) included: Option<Included>,
    /// What the user's checkout has built, linked once.
    pub(crate) builds: Option<Linked>,
    /// The tree that was set up, and what came of it.
    pub(crate) setup: Option<(TreeId, SetupLayer)>,
}

impl Workspace {
    /// Whether the tree is shown as layers.
    pub(crate) fn has_stand(&self) -> bool {
        self.stand.is_some()
    }

    /// Has a directory that shows a tree made anew next time, whatever it looks like now. Layers need no such thing:
    /// nothing can be written to them.
    pub(crate) fn make_anew(&mut self) {
        self.checkout = None;
    }
}

/// What the user's checkout has built, as a layer of links.
pub(crate) struct Linked {
    layer: PathBuf,
    found: Vec<Builds>,
}

impl Linked {
    /// Links it below `layer`. It saves time and nothing depends on it: where it cannot be had, cargo builds anew.
    pub(crate) fn new(context: &Context, layer: PathBuf) -> Result<Linked> {
        let mut found = builds::find(&context.user, &context.layout.state, level(&context.sandbox)?).shown;
        let link = |builds: &Builds| builds.link(&context.layout.root, &layer);
        // What an earlier process left is not looked at.
        let made = match found.is_empty() {
            true => Ok(()),
            false => {
                store::remove_tree(&layer).map_err(std::io::Error::other).and_then(|()| found.iter().try_for_each(link))
            }
        };
        if let Err(error) = made {
            tracing::info!(target: "norma::workspace", "what cargo has built is not shown: {error}");
            found.clear();
        }
        Ok(Linked { layer, found })
    }

    /// The layer, if all of it is right for this tree of a run from that base.
    pub(crate) fn fitting(&self, objects: &Objects, tree: ObjectId, base: ObjectId) -> Result<Option<PathBuf>> {
        for builds in &self.found {
            if !builds.fits(objects, tree, base)? {
                return Ok(None);
            }
        }
        Ok((!self.found.is_empty()).then(|| self.layer.clone()))
    }
}

impl Machine {
    /// Whether workspaces are layers.
    fn has_layers(&self, on: &Ground<'_>) -> bool {
        let layers = on.run.started.contract.workspace.layers;
        on.backend == Backend::Native && layers && sandbox::has_overlays(&self.context.sandbox)
    }

    /// Where what is shown is kept, where it has to be kept at all. It belongs to the machine, whichever thread has it.
    pub(crate) fn directory(&self, on: &Ground<'_>) -> PathBuf {
        let dir = self.context.layout.worktree(&on.run.id.slug());
        if on.in_parallel { dir.join(format!("machine{}", self.number)) } else { dir }
    }

    /// The run's tree as it is now; made or brought up to date if need be.
    pub(crate) fn show(&mut self, on: &Ground<'_>) -> Result<Shown> {
        if !self.has_layers(on) {
            return self.checked_out(on);
        }
        let (commit, tree) = (id(on.commit), id(on.tree));
        if self.workspace.stand.as_ref().is_none_or(|stand| stand.tree != tree) {
            let layers = match self.workspace.layers.take() {
                Some(layers) => layers,
                None => {
                    let history = on.run.started.contract.workspace.history;
                    Workspaces::new(&self.context.layout.cache(), history, is_secret)?
                }
            };
            let stand = layers
                .stand(&self.objects, commit, tree, &mut |progress| (self.context.told)(News::Checkout(progress)))?;
            (self.workspace.layers, self.workspace.stand) = (Some(layers), Some(stand));
        }
        self.include(on)?;
        self.take_setup(on)?;
        let builds = self.builds(on)?;
        let Workspace { stand, included, setup, .. } = &self.workspace;
        let stand = stand.as_ref().expect("BUG: it was just made");
        let secrets = paths(&stand.secrets);
        let set_up = setup.iter().flat_map(|(_, layer)| &layer.lower);
        let added = included.iter().filter_map(|included| included.dir.as_ref());
        let lower = set_up.chain(added).chain(&builds).chain(&stand.lower).cloned().collect();
        Ok(Shown::Layers { lower, secrets })
    }

    /// The layer with what the user's checkout has built, if it is right for this tree. What a setup makes takes its place.
    fn builds(&mut self, on: &Ground<'_>) -> Result<Option<PathBuf>> {
        if !on.run.started.contract.workspace.setup.is_empty() {
            return Ok(None);
        }
        if self.workspace.builds.is_none() {
            self.workspace.builds = Some(Linked::new(&self.context, self.directory(on).join("builds"))?);
        }
        let linked = self.workspace.builds.as_ref().expect("BUG: it was just made");
        linked.fitting(&self.objects, id(on.tree), id(on.run.started.base.tree))
    }

    /// The run's tree as a private directory.
    fn checked_out(&mut self, on: &Ground<'_>) -> Result<Shown> {
        let contract = &on.run.started.contract;
        let worktree = self.directory(on);
        let place = worktree.join("tree");
        let (commit, tree) = (id(on.commit), id(on.tree));
        let made = self.workspace.checkout.take().filter(|(made, _)| is_in_place(&made.dir) && is_in_place(&place));
        let made = match made {
            Some((made, Some(at))) if at == on.tree => {
                let shown = directory(&made);
                self.workspace.checkout = Some((made, Some(at)));
                return Ok(shown);
            }
            Some((mut made, _)) => {
                made.advance(&self.objects, commit, tree)?;
                made
            }
            // What an earlier process left is not looked at: an agent could have written it.
            None => {
                store::remove_tree(&worktree)?;
                match on.backend {
                    Backend::Native | Backend::Microsandbox | Backend::E2b => {
                        let history = contract.workspace.history;
                        PlainWorkspace::create_apart(&self.objects, &place, (commit, tree), history, is_secret)?
                    }
                    Backend::None => PlainWorkspace::create(&self.objects, &place, commit, tree)?,
                }
            }
        };
        if on.backend == Backend::Native {
            self.fit_into_a_sandbox(&made.dir)?;
        }
        // What the checkout has besides the commit is for programs of this machine.
        if !on.backend.is_elsewhere() {
            self.include_into(&made.dir)?;
        }
        let shown = directory(&made);
        self.workspace.checkout = Some((made, Some(on.tree)));
        Ok(shown)
    }

    pub(crate) fn capture_rules(&self, order: &TurnOrder<'_>) -> CaptureRules {
        let (named, paths_max) = (named(order), paths_max(order));
        let state = self.context.layout.state_in_repository().map(|path| path.as_str().as_bytes().to_vec());
        let leaves_caches_out = order.run.started.contract.rules >= RULES_BUILD_PRODUCTS;
        let leaves_builds_out = leaves_caches_out && says_what_may_change(order);
        let line_endings = (order.run.started.contract.rules >= RULES_LINE_ENDINGS).then(|| {
            let context = Arc::clone(&self.context);
            AutoCrlf::new(move || context.user.converts_line_endings())
        });
        let rules = CaptureRules { state_directory: state, named, paths_max, ..CaptureRules::default() };
        CaptureRules { leaves_builds_out, leaves_caches_out, line_endings, ..rules }
    }

    /// What a worker left, once everything that could write there is dead: in the layer over the tree, or in the
    /// directory that was its own.
    pub(crate) fn capture(&mut self, order: &TurnOrder<'_>, layer: Option<OwnedFd>) -> Result<Captured> {
        let (on, rules) = (Ground::of(order.run, order.spec), self.capture_rules(order));
        let captured = match (layer, &mut self.workspace.checkout) {
            (Some(layer), _) => {
                let mut captured = capture(&self.objects, id(on.tree), layer.as_fd(), &rules)?;
                let has_changes = captured.tree != id(on.tree);
                captured.odd.extend(only_in_git(&self.objects, id(on.tree), layer.as_fd(), has_changes)?);
                captured
            }
            (None, Some((plain, _))) => plain.capture_with_git(&self.objects, &rules, !order.spec.rights.write)?,
            (None, None) => unreachable!("BUG: a worker has a layer or a directory"),
        };
        let untouched = captured.tree == id(on.tree) && captured.ignored_at.is_empty() && captured.odd.is_empty();
        if let Some((_, at)) = self.workspace.checkout.as_mut().filter(|_| !untouched) {
            // Nobody else may find what this one left.
            *at = None;
        }
        Ok(captured)
    }

    /// Makes in a directory what a sandbox needs of it: a place for the state directory, which is no part of the agent's
    /// repository. All of it belongs to whom the agent will be.
    fn fit_into_a_sandbox(&self, dir: &Path) -> Result<()> {
        if let Some(state) = self.context.layout.state_in_repository() {
            let made = sweep::make_below(&sweep::open_directory(dir)?, state.as_str().as_bytes());
            made.map_err(|source| Error::io("create", &dir.join(state.as_str()), source))?;
        }
        let level = level(&self.context.sandbox)?;
        sandbox::give_directory(dir, level).map_err(|source| Error::io("give away", dir, source))
    }
}

fn directory(made: &PlainWorkspace) -> Shown {
    Shown::Directory { source: made.dir.clone(), secrets: paths(&made.secrets) }
}

fn paths(bytes: &[Vec<u8>]) -> Vec<PathBuf> {
    bytes.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Whether the name of a committed file says that agents must not read it.
pub(crate) fn is_secret(name: &str) -> bool {
    sandbox::visible::is_secret_if_committed(name)
}

/// Whether a checkout is where norma made it. An agent could have removed it, or put a link to the user's files in
/// its place.
fn is_in_place(dir: &Path) -> bool {
    let real = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    real(dir) && dir.parent().is_some_and(real)
}

/// The files that a contract names one by one: what it allows and what it expects. A directory among them names itself
/// alone, and is no file.
fn named(order: &TurnOrder<'_>) -> BTreeSet<Vec<u8>> {
    let (allowed, expected) = match &order.spec.item {
        Some(item) => (&item.scope.allowed_paths, &item.output_files[..]),
        None => (&order.run.started.contract.scope.allowed_paths, &[][..]),
    };
    allowed.iter().chain(expected).map(|path| path.as_str().as_bytes().to_vec()).collect()
}

/// Whether a contract says what may change. Where everything may, an object may be what was asked for.
fn says_what_may_change(order: &TurnOrder<'_>) -> bool {
    let of_run = &order.run.started.contract.scope;
    !order.spec.item.as_ref().map_or(of_run, |item| &item.scope).allowed_paths.is_empty()
}

/// After how many paths that differ nothing more is read: far beyond the limit, so that the gate still says how many
/// there are wherever somebody only meant to do a little more.
fn paths_max(order: &TurnOrder<'_>) -> usize {
    let limit = order.spec.item.as_ref().and_then(|item| item.constraints.max_files);
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(10).max(1000))
}
