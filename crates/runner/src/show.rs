//! Showing agents the run's tree: as shared layers where there are overlays, else as a checkout of the run's own.
//! Which one is decided once for a machine, and recorded with every turn.

use crate::confine::{self, Shown};
use crate::git::{Checkout, sweep};
use crate::landing::id;
use crate::machine::Machine;
use crate::setup::Included;
use crate::workspace::{SetupLayer, Stand, Workspaces};
use crate::{Error, News, Result};
use contract::{Backend, Contract};
use run::Run;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What shows the run's tree at the moment.
#[derive(Default)]
pub(crate) struct Workspace {
    layers: Option<Workspaces>,
    stand: Option<Stand>,
    /// The checkout and the tree it shows.
    checkout: Option<(Checkout, String)>,
    /// What the user's checkout adds to the tree.
    pub(crate) included: Option<Included>,
    /// The tree that was set up, and what came of it.
    pub(crate) setup: Option<(String, SetupLayer)>,
}

impl Workspace {
    /// Has a directory that shows a tree made anew next time, whatever it looks like now. Layers need no such thing:
    /// nothing can be written to them.
    pub(crate) fn make_anew(&mut self) {
        self.checkout = None;
    }
}

impl Machine<'_> {
    /// Whether workspaces are layers.
    fn has_layers(&self, contract: &Contract) -> bool {
        contract.sandbox == Backend::Native && contract.workspace.layers && sandbox::has_overlays(&self.context.sandbox)
    }

    /// The run's tree as it is now; made or brought up to date if need be.
    pub(crate) fn show(&mut self, run: &Run) -> Result<Shown> {
        if !self.has_layers(&run.started.contract) {
            return Ok(Shown::Directory(self.checked_out(run)?));
        }
        let (commit, tree) = (id(&run.started.base.commit)?, id(&run.tree)?);
        if self.workspace.stand.as_ref().is_none_or(|stand| stand.tree != tree) {
            let layers = match self.workspace.layers.take() {
                Some(layers) => layers,
                None => {
                    let history = run.started.contract.workspace.history;
                    Workspaces::new(&self.context.layout.cache(), history, is_secret)?
                }
            };
            let stand = layers
                .stand(self.objects, commit, tree, &mut |progress| (self.context.told)(News::Checkout(progress)))?;
            (self.workspace.layers, self.workspace.stand) = (Some(layers), Some(stand));
        }
        self.include(run)?;
        self.take_setup(run)?;
        let Workspace { stand, included, setup, .. } = &self.workspace;
        let stand = stand.as_ref().expect("BUG: it was just made");
        let secrets = stand.secrets.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        let set_up = setup.iter().flat_map(|(_, layer)| &layer.lower);
        let added = included.iter().filter_map(|included| included.dir.as_ref());
        Ok(Shown::Layers { lower: set_up.chain(added).chain(&stand.lower).cloned().collect(), secrets })
    }

    /// The run's tree as a private directory.
    fn checked_out(&mut self, run: &Run) -> Result<PathBuf> {
        let worktree = self.context.layout.worktree(&run.id.slug());
        let dir = worktree.join("tree");
        let (commit, tree) = (id(&run.started.base.commit)?, id(&run.tree)?);
        let checkout = &mut self.workspace.checkout;
        if checkout.is_some() && !is_in_place(&dir) {
            *checkout = None;
        }
        match checkout {
            Some((_, at)) if *at == run.tree => return Ok(dir),
            Some((checkout, at)) => {
                checkout.advance(self.objects, commit, tree)?;
                at.clone_from(&run.tree);
            }
            // What an earlier process left is not looked at: an agent could have written it.
            empty => {
                store::remove_tree(&worktree)?;
                *empty = Some((Checkout::create(self.objects, &dir, commit, tree)?, run.tree.clone()));
            }
        }
        if run.started.contract.sandbox == Backend::Native {
            self.fit_into_a_sandbox(&dir)?;
        }
        self.include_into(&dir)?;
        Ok(dir)
    }

    /// Makes in a checkout what a sandbox needs of it: a place for the state directory, which is no part of the agent's
    /// repository, and the way to the objects that one borrows. All of it belongs to whom the agent will be.
    fn fit_into_a_sandbox(&self, dir: &Path) -> Result<()> {
        if let Some(state) = self.context.layout.state_in_repository() {
            let made = sweep::make_below(&sweep::open_directory(dir)?, state.as_str().as_bytes());
            made.map_err(|source| Error::io("create", &dir.join(state.as_str()), source))?;
        }
        let borrowed = borrowed_inside(self.objects.directories().len());
        for (name, text) in [("objects/info/alternates", borrowed.as_str()), ("info/exclude", "/.norma/\n")] {
            let file = dir.join(".git").join(name);
            std::fs::write(&file, text).map_err(|source| Error::io("write", &file, source))?;
        }
        let level = confine::level(&self.context.sandbox)?;
        sandbox::give_directory(dir, level).map_err(|source| Error::io("give away", dir, source))
    }
}

/// Where a confined agent with a checkout of its own finds the objects that its repository borrows. Their own
/// places are covered in there.
pub(crate) fn borrowed_at(index: usize) -> PathBuf {
    PathBuf::from(format!("/run/norma/objects-{index}"))
}

fn borrowed_inside(count: usize) -> String {
    (0..count).map(|index| format!("{}\n", borrowed_at(index).display())).collect()
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
