//! Bringing a large base to the disk while it is in use already.
//!
//! Whoever made it need not wait for that: a layer that is not known to be on the disk is used until the machine is
//! started again. The flag in its `layer.json` says more only when everything below it is there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::layer::Layer;
use super::shelf::Shelf;
use crate::git::{GitError, IoContext};

/// After half a minute the kernel has begun to write changed pages back by itself. The barrier waits for that: a
/// process that ends inside of one ends with it and not before, and a young base would keep it for seconds.
const SETTLED: Duration = Duration::from_secs(35);

/// The layers that this process is bringing to the disk.
static UNDER_WAY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Has a layer brought to the disk by a thread of its own. A process that ends before that leaves it to the next one.
pub(super) fn begin(shelf: &Shelf, name: &str) {
    let dir = shelf.dir_of(name);
    if !under_way(|known| known.insert(dir.clone())) {
        return;
    }
    let (shelf, name) = (shelf.clone(), name.to_owned());
    std::thread::spawn(move || {
        let written = fs::metadata(dir.join("layer.json")).and_then(|found| found.modified());
        let age = written.ok().and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
        std::thread::sleep(SETTLED.saturating_sub(age));
        if let Err(error) = bring(&shelf, &name) {
            tracing::warn!(target: "norma::workspace", "the layer {name} is not on the disk: {error}");
        }
        under_way(|known| known.remove(&dir));
    });
}

fn under_way<T>(act: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    act(&mut UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until everything a layer holds is on the disk, and says so in its `layer.json`.
fn bring(shelf: &Shelf, name: &str) -> Result<(), GitError> {
    let dir = shelf.dir_of(name);
    let Ok(opened) = fs::File::open(&dir) else { return Ok(()) };
    rustix::fs::syncfs(&opened).context("sync", &dir)?;
    // Not before: nobody who removes layers has to wait for the disk.
    let Some(_held) = shelf.hold(name)? else { return Ok(()) };
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    let (synced, there) = (opened.metadata().context("look at", &dir)?, fs::metadata(&dir).context("look at", &dir)?);
    // Another one may have come in its place.
    if inode(synced) == inode(there) { Layer::set_synced(&dir) } else { Ok(()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_was_brought_to_the_disk_outlives_a_start_of_the_machine() {
        let cache = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(cache.path(), None).unwrap();
        let dir = shelf.begin().unwrap();
        Layer::example(&dir, "one start").write(&dir).unwrap();
        shelf.finish("layer").unwrap();
        let dir = shelf.dir_of("layer");
        assert!(Layer::read(&dir, "one start").is_some() && Layer::read(&dir, "another").is_none());
        bring(&shelf, "layer").unwrap();
        assert!(Layer::read(&dir, "another").is_some());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing but layer.json");
        bring(&shelf, "never there").unwrap();
    }
}
