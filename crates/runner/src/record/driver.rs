//! Whoever works on a run, with what that takes, and the one way in which facts are put on record. What is done about a
//! run is up to [`crate::drive`] and what it calls.

use crate::change::{Left, diff};
use crate::git::Objects;
use crate::record::{Control, Pending, SharedRun};
use crate::world::World;
use crate::{Error, Result};
use contract::{Fact, Policies, Status};
use run::Run;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::{Attached, Reader, StepFile, Store, crash};

/// From this size on a patch is not written twice.
const LINKED_BYTES_MIN: usize = 1 << 20;

/// Whoever does one thing about a run, and what that takes.
pub(crate) struct Driver<'w, 'a> {
    /// The record.
    pub(crate) store: &'w Store,
    /// norma's own objects.
    pub(crate) objects: &'w Objects,
    /// Reads what was recorded before.
    pub(crate) reader: &'w Reader,
    /// The run, as it was after what this one recorded last.
    pub(crate) run: Arc<Run>,
    /// The run as all who work on it know it.
    pub(crate) shared: Arc<SharedRun<'a>>,
    /// Agents and git.
    pub(crate) world: &'w mut dyn World,
    /// Who may stop it.
    pub(crate) control: Control,
    /// What its changes are judged by; those that its contract names.
    pub(crate) policies: &'w Policies,
    /// Held while a result is brought to the user's branch: results land one after another.
    pub(crate) lane: &'w Mutex<()>,
    /// What gates read of the turn that this one took last, where that is in no file yet.
    pub(crate) left: Option<Left>,
    /// Who has approved, on the command line, whatever the contract needs approval for.
    pub(crate) consent: Option<&'w str>,
    /// Lets go of what other workers left for the next one.
    pub(crate) let_go: &'w dyn Fn(),
}

impl Driver<'_, '_> {
    /// The end: what the run changed is written down beside its evidence, then the end goes on record, then
    /// its bundle is completed and the directory is sealed.
    pub(crate) fn end(&mut self, facts: Vec<Fact>) -> Result<()> {
        self.shared.spare_dirs().clear()?;
        keep_diff(&self.run_dir(), diff(self.objects, &self.run)?)?;
        self.record(facts, Vec::new())?;
        crash::point("end.after_commit");
        self.world.release(&self.run)?;
        // What carried it out is not needed to seal it.
        (self.let_go)();
        self.objects.let_go();
        sandbox::give_memory_back();
        let keys = self.world.keys();
        Ok(store::seal(self.store, &self.run.id.slug(), &|said| keys.sign(said))?)
    }

    /// Durable first, believed second, told third.
    pub(crate) fn record(&mut self, facts: Vec<Fact>, attached: impl Into<Attached>) -> Result<()> {
        self.record_while(facts, attached, |_, _| Ok(()))
    }

    /// The same, with something to do while the disk is waited for: something that has no effect by itself.
    pub(crate) fn record_while(
        &mut self,
        facts: Vec<Fact>,
        attached: impl Into<Attached>,
        meanwhile: impl FnOnce(&mut dyn World, &Run) -> Result<()>,
    ) -> Result<()> {
        let pending = self.submit(facts, attached);
        let done = meanwhile(self.world, &self.run);
        self.shared.settle(pending)?;
        // Whoever looks at a run that is held finds its evidence where it belongs.
        if matches!(self.run.status, Status::Paused | Status::Waiting) {
            self.shared.spare_dirs().clear()?;
            store::write_out(self.reader, &self.run.id.slug())?;
            store::draw(self.store, self.reader, &self.run.id.slug())?;
        }
        done
    }

    /// Puts facts on their way to the disk. They are counted on from here, and acted on only once they are settled.
    pub(crate) fn submit(&mut self, facts: Vec<Fact>, attached: impl Into<Attached>) -> Pending {
        let (pending, run) = self.shared.submit(self.store, |_| (facts, attached.into()));
        self.run = run;
        pending
    }

    /// The same for facts that others follow at once, which they share a commit with.
    pub(crate) fn submit_patient(&mut self, facts: Vec<Fact>, attached: impl Into<Attached>) -> Pending {
        let (pending, run) = self.shared.submit_patient(self.store, (facts, attached.into()));
        self.run = run;
        pending
    }

    /// The same with the git objects that the facts rely on: the commit has the bytes of small ones, the others are on the
    /// disk before.
    pub(crate) fn submit_with_objects(&mut self, facts: Vec<Fact>, files: Vec<(String, StepFile)>) -> Result<Pending> {
        let unsynced = self.objects.unsynced(&self.store.layout.git())?;
        let (ids, kept): (Vec<_>, Vec<_>) = unsynced.into_iter().unzip();
        let pending = self.submit_patient(facts, Attached { files, kept });
        self.objects.forget_unsynced(&ids);
        Ok(pending)
    }

    /// The run as it is now, whoever recorded last.
    pub(crate) fn refresh(&mut self) {
        self.run = self.shared.run();
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.store.layout.run(&self.run.id.slug())
    }
}

/// Writes down what a run changed, before its end is on record.
pub(crate) fn keep_diff(run_dir: &Path, (patch, names): (Vec<u8>, Vec<u8>)) -> Result<()> {
    let to = run_dir.join("patch.diff");
    if patch.len() < LINKED_BYTES_MIN || !link_to_same(run_dir, &patch, &to) {
        write_synced(&to, &patch)?;
    }
    write_synced(&run_dir.join("diff_name_only.txt"), &names)
}

/// Where the patch of one change is that of the whole run, it gets a second name instead of being written again. It was
/// synced before the end of its change was on record.
fn link_to_same(run_dir: &Path, patch: &[u8], to: &Path) -> bool {
    let Ok(changes) = std::fs::read_dir(run_dir.join("changes")) else { return false };
    let mut patches = changes.flatten().map(|change| change.path().join("patch.diff"));
    let _ = std::fs::remove_file(to);
    let is_linked = |path: &Path| {
        let metadata = std::fs::symlink_metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() == patch.len() as u64)
            && std::fs::read(path).is_ok_and(|found| found == patch)
            && std::fs::hard_link(path, to).is_ok()
    };
    patches.any(|path| is_linked(&path))
}

/// On disk when this returns: no commit holds these bytes, and recovery has no git to make them again.
fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create(path).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(|source| Error::io("write", path, source))
}
