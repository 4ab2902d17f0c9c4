//! The layers below workspaces: which there are, who uses them, and which may go.
//!
//! ```text
//! cache/<uid>/layers/<tree>-<commit>-<history>/   layer.json and files/
//! ```
//! How they are kept is the shelf's business (`shelf.rs`).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::difference::{self, Difference};
use super::layer::{self, Below, Layer, Making};
use super::private_git::Position;
use super::shelf::Shelf;
use super::{Progress, Secret, listing, synced};
use crate::git::objects::{Objects, Reader};
use crate::git::{GitError, IoContext, ObjectId};
use contract::History;

/// How many layers a stand has at most. A lookup may have to ask each of them.
const DEPTH_MAX: usize = 8;

/// How many of the layers used last are compared with a new tree; every base is, too.
const CANDIDATES_MAX: usize = 4;

/// A difference of more than a quarter of the files is not worth being a layer, unless it is small anyway.
const CHANGES_MIN: usize = 5_000;

/// A difference this small is taken without looking for a smaller one.
const CHANGES_NEAR: usize = 32;

/// Layers in use: as long as this value lives, nobody removes them.
#[derive(Debug)]
pub struct Stand {
    /// The directories to lay over each other, from the top. Read-only.
    pub lower: Vec<PathBuf>,
    /// What HEAD names inside.
    pub commit: ObjectId,
    /// What the files are.
    pub tree: ObjectId,
    /// The names of the layers, from the top.
    pub layers: Vec<String>,
    /// Tracked files whose name says that they hold a secret, as exact paths from the root.
    pub secrets: Vec<Vec<u8>>,
    top: Layer,
    /// One locked file per layer.
    held: Vec<File>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Layers.
    pub layers: usize,
    /// What that freed, in bytes.
    pub bytes: u64,
    /// Somebody was making a layer, so nothing was looked at.
    pub busy: bool,
}

/// The layers of one user.
#[derive(Debug)]
pub(super) struct Cache {
    shelf: Shelf,
    boot: String,
}

impl Cache {
    /// Opens the cache below `dir`, making it if need be.
    pub(super) fn open(dir: &Path) -> Result<Cache, GitError> {
        let boot = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(boot).context("read", boot)?.trim().to_owned();
        Ok(Cache { shelf: Shelf::open(dir, None)?, boot })
    }

    /// The layers that show a position, made if they are not there.
    pub(super) fn stand(
        &self,
        objects: &Objects,
        position: Position,
        is_secret: Secret,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Stand, GitError> {
        let name = name_of(position);
        if let Some(stand) = self.take(&name)? {
            return Ok(stand);
        }
        let _making = self.shelf.wait_for_making()?;
        // Whoever had the lock may have made it.
        if let Some(stand) = self.take(&name)? {
            return Ok(stand);
        }
        self.shelf.clear_leftovers()?;
        listing::set_damaged_aside(&self.shelf)?;
        self.shelf.free(&name)?;
        self.make(objects, position, &name, is_secret, progress)?;
        let lost = || GitError::Io {
            action: "use",
            path: self.shelf.dir_of(&name),
            source: io::Error::new(io::ErrorKind::NotFound, "it is gone as soon as it was made"),
        };
        self.take(&name)?.ok_or_else(lost)
    }

    /// Makes a layer under a temporary name and gives it its own when it is complete.
    fn make(
        &self,
        objects: &Objects,
        position: Position,
        name: &str,
        is_secret: Secret,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), GitError> {
        let new = self.shelf.begin()?;
        let making = Making { objects, position, dir: &new, is_secret, boot: &self.boot };
        let made = match self.nearest(&objects.reader()?, position)? {
            Some((below, difference)) => {
                let (commit, tree) = (below.commit, below.tree);
                let below = Below {
                    name: &below.layers[0],
                    dir: &self.shelf.dir_of(&below.layers[0]),
                    layer: &below.top,
                    position: Position { commit, tree, history: position.history },
                };
                making.thin(&below, &difference)?
            }
            None => making.base(progress)?,
        };
        self.shelf.finish(name)?;
        listing::is_made(&layer::files_of(&self.shelf.dir_of(name)), &made.listing);
        Ok(())
    }

    /// Takes a layer and all below it into use; `None` if one of them is not there or cannot be trusted any more.
    fn take(&self, name: &str) -> Result<Option<Stand>, GitError> {
        let Some((lock, top)) = self.take_one(name)? else {
            return Ok(None);
        };
        lock.set_modified(SystemTime::now()).context("touch", &self.shelf.lock_path(name))?;
        let mut held = vec![lock];
        let mut layers = vec![name.to_owned()];
        for below in &top.below {
            let Some((lock, _)) = self.take_one(below)? else {
                return Ok(None);
            };
            held.push(lock);
            layers.push(below.clone());
        }
        let id = |hex: &str| ObjectId::from_hex(hex.as_bytes()).ok();
        let (Some(commit), Some(tree)) = (id(&top.commit), id(&top.tree)) else {
            return Ok(None);
        };
        let lower = layers.iter().map(|name| layer::files_of(&self.shelf.dir_of(name))).collect();
        Ok(Some(Stand { lower, commit, tree, layers, secrets: top.secrets(), top, held }))
    }

    /// Takes one layer, whatever is below it.
    fn take_one(&self, name: &str) -> Result<Option<(File, Layer)>, GitError> {
        let Some(lock) = self.shelf.hold(name)? else {
            return Ok(None);
        };
        let dir = self.shelf.dir_of(name);
        let layer = Layer::read(&dir, &self.boot);
        let layer = layer.filter(|layer| listing::is_sound(&layer::files_of(&dir), &layer.listing));
        if layer.as_ref().is_some_and(Layer::is_due_to_sync) {
            synced::begin(&self.shelf, name);
        }
        Ok(layer.map(|layer| (lock, layer)))
    }

    /// The layers there are, the one used last first. Each is read when it is asked for: a long run has hundreds.
    fn by_use(&self) -> Result<impl Iterator<Item = (String, Layer)>, GitError> {
        let read = |name: String| Layer::read(&self.shelf.dir_of(&name), &self.boot).map(|layer| (name, layer));
        Ok(self.shelf.names_by_use()?.into_iter().filter_map(read))
    }

    /// The stand a position differs least from, and how; `None` if a new base is better.
    fn nearest(&self, reader: &Reader<'_>, position: Position) -> Result<Option<(Stand, Difference)>, GitError> {
        let mut best: Option<(Stand, Difference)> = None;
        let mut thin = 0;
        for (name, layer) in self.by_use()?.filter(|(_, layer)| layer.history == position.history) {
            let is_base = layer.below.is_empty();
            thin += usize::from(!is_base);
            if !is_base && (thin > CANDIDATES_MAX || layer.below.len() + 1 >= DEPTH_MAX) {
                continue;
            }
            let Some(stand) = self.take_quietly(&name)? else {
                continue;
            };
            let worth = CHANGES_MIN.max(layer.files as usize / 4);
            let most = best.as_ref().map_or(worth, |(_, best)| best.changes.len().saturating_sub(1).min(worth));
            if let Some(found) = difference::between(reader, stand.tree, position.tree, most)? {
                let near = found.changes.len() <= CHANGES_NEAR;
                best = Some((stand, found));
                if near {
                    break;
                }
            }
        }
        Ok(best)
    }

    /// Takes a layer to look at it, which is not a use.
    fn take_quietly(&self, name: &str) -> Result<Option<Stand>, GitError> {
        let used = fs::metadata(self.shelf.lock_path(name)).and_then(|lock| lock.modified()).ok();
        let stand = self.take(name)?;
        if let (Some(stand), Some(used)) = (&stand, used) {
            stand.held[0].set_modified(used).context("touch", &self.shelf.lock_path(name))?;
        }
        Ok(stand)
    }

    /// Removes every layer but the `keep` used last and those below them, and whatever is in use.
    pub(super) fn gc(&self, keep: usize) -> Result<Removed, GitError> {
        let Some(_making) = self.shelf.try_making()? else {
            return Ok(Removed { busy: true, ..Removed::default() });
        };
        self.shelf.clear_leftovers()?;
        let layers: Vec<(String, Layer)> = self.by_use()?.collect();
        let kept = layers.iter().take(keep);
        let kept: Vec<String> =
            kept.flat_map(|(name, layer)| [name].into_iter().chain(&layer.below).cloned()).collect();
        let mut names = self.shelf.names()?;
        names.retain(|name| !kept.contains(name));
        // The highest first: a layer never outlives one it stands on.
        let depth =
            |name: &String| layers.iter().find(|(other, _)| other == name).map_or(0, |(_, one)| one.below.len());
        names.sort_by_key(|name| std::cmp::Reverse(depth(name)));
        let mut removed = Removed::default();
        for name in names {
            removed.count(self.shelf.discard(&name)?);
        }
        Ok(removed)
    }
}

impl Removed {
    /// Counts what came of a removal.
    pub(super) fn count(&mut self, freed: Option<u64>) {
        self.layers += usize::from(freed.is_some());
        self.bytes += freed.unwrap_or(0);
    }
}

/// Everything that decides what a layer shows.
fn name_of(position: Position) -> String {
    let history = match position.history {
        History::Shallow => "shallow",
        History::Full => "full",
    };
    format!("{}-{}-{history}", position.tree, position.commit)
}
