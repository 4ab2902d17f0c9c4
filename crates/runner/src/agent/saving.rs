//! Keeping what an agent has made so far, while it works: its conversation and what it made of its tree. A turn that is cut
//! off, even by the end of norma's own process, continues from there. What is kept is never judged, so it need not be of one
//! moment; and the agent may still change what is read here, which therefore happens beside the loop that watches it.

use super::ongoing::{Known, Place};
use crate::Result;
use crate::git::{ObjectId, Objects, recorded};
use crate::workspace::{CaptureRules, capture};
use contract::{PromptBlocks, TreeId, Usage};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an agent may take after a tool to write down its conversation.
const PUT_AWAY: Duration = Duration::from_millis(200);

/// How often it is looked whether all is kept.
const LOOK: Duration = Duration::from_millis(20);

/// Keeping takes at most one part in so many of a turn's time.
const PART: u32 = 20;

/// What there is to keep.
pub(crate) struct Work {
    pub(crate) objects: Arc<Objects>,
    /// The tree that the agent was shown.
    pub(crate) tree: ObjectId,
    pub(crate) rules: CaptureRules,
    /// Which of the sandbox's layers lies over the tree, and which over the home.
    pub(crate) layers: (usize, usize),
}

pub(super) struct Saving {
    work: Arc<Work>,
    place: Place,
    /// The home as the agent found it.
    home: Arc<OwnedFd>,
    /// What the agent was told, and what its conversation had used before.
    told: PromptBlocks,
    before: Usage,
    layers: Option<Arc<(OwnedFd, OwnedFd)>>,
    due: Option<Instant>,
    not_before: Option<Instant>,
    busy: Option<Busy>,
    saved: Option<TreeId>,
}

struct Busy {
    since: Instant,
    look_at: Instant,
    thread: JoinHandle<Result<TreeId>>,
}

impl Saving {
    pub(super) fn new(work: Work, place: Place, home: OwnedFd, told: PromptBlocks, before: Usage) -> Saving {
        let (work, home) = (Arc::new(work), Arc::new(home));
        let (layers, due, not_before, busy, saved) = (None, None, None, None, None);
        Saving { work, place, home, told, before, layers, due, not_before, busy, saved }
    }

    /// The agent has started, and this is what it writes to.
    pub(super) fn started(&mut self, layers: &[OwnedFd]) {
        let own = |place: usize| layers.get(place).and_then(|layer| layer.try_clone().ok());
        let (tree, home) = self.work.layers;
        self.layers = own(tree).zip(own(home)).map(Arc::new);
    }

    /// The agent has done something that may be worth keeping.
    pub(super) fn worked(&mut self) {
        let soon = Instant::now() + PUT_AWAY;
        self.due.get_or_insert(self.not_before.map_or(soon, |time| time.max(soon)));
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        match &self.busy {
            Some(busy) => Some(busy.look_at),
            None => self.due.filter(|_| self.layers.is_some()),
        }
    }

    /// Keeps what is due of the conversation that the agent calls `id`; answers the tree that was kept, if it is another
    /// than before.
    pub(super) fn look(&mut self, now: Instant, (id, used): (Option<&str>, Usage)) -> Option<TreeId> {
        if let Some(busy) = &mut self.busy {
            busy.look_at = now + LOOK;
            return if busy.thread.is_finished() { self.finish() } else { None };
        }
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.busy = self.layers.clone().zip(id).and_then(|(layers, id)| self.begin(layers, self.known(id, used)));
        }
        None
    }

    fn known(&self, id: &str, used: Usage) -> Known {
        let mut all = self.before;
        all.add(&used);
        Known { agent: self.place.kind.as_str().to_owned(), id: id.to_owned(), told: self.told.clone(), used: all }
    }

    fn begin(&self, layers: Arc<(OwnedFd, OwnedFd)>, known: Known) -> Option<Busy> {
        let (work, place, home) = (self.work.clone(), self.place.clone(), self.home.clone());
        let save = move || {
            let (tree, changed) = &*layers;
            let captured = capture(&work.objects, work.tree, tree.as_fd(), &work.rules)?;
            work.objects.sync()?;
            place.keep_cut_off(&known, &[&home, changed])?;
            Ok(recorded(captured.tree))
        };
        let thread = std::thread::Builder::new().name("norma-saving".into()).spawn(save).ok()?;
        let since = Instant::now();
        Some(Busy { since, look_at: since + LOOK, thread })
    }

    /// Waits for what is being kept. What could not be kept is not: the turn continues all the same.
    pub(super) fn finish(&mut self) -> Option<TreeId> {
        let Busy { since, thread, .. } = self.busy.take()?;
        let kept = thread.join();
        self.not_before = Some(Instant::now() + since.elapsed() * PART);
        let tree = kept.ok()?.ok().filter(|tree| self.saved != Some(*tree))?;
        self.saved = Some(tree);
        Some(tree)
    }
}
