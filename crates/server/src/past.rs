//! Runs as they were: points in their logs that were come to before, to continue from. A log of a hundred thousand facts
//! is folded once while the server lives; a look at any of them follows a few thousand facts.

use crate::App;
use crate::problem::{Outcome, Problem};
use contract::RunId;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Followed;

/// How many facts lie between two points at first.
const SPACING: u64 = 2_000;
/// How many points of a run are kept; of a longer log they are further apart.
const POINTS_MAX: usize = 64;
/// How many runs have points.
const RUNS_MAX: usize = 16;

/// Points in the logs of runs, by their slugs.
#[derive(Default)]
pub(crate) struct Pasts(Mutex<HashMap<String, Arc<Mutex<Points>>>>);

/// Points in the log of one run, by their facts.
struct Points {
    spacing: u64,
    kept: BTreeMap<u64, Followed>,
    /// The one that was asked for last, which is mostly the end.
    last: Option<Followed>,
}

impl Default for Points {
    fn default() -> Points {
        Points { spacing: SPACING, kept: BTreeMap::new(), last: None }
    }
}

impl Points {
    /// The nearest point before a fact, or at it.
    fn before(&self, seq: u64) -> Option<&Followed> {
        let kept = self.kept.range(..=seq).next_back().map(|(_, point)| point);
        let last = self.last.as_ref().filter(|last| last.seq() <= seq);
        kept.into_iter().chain(last).max_by_key(|point| point.seq())
    }

    /// Whether a point at a fact is worth being kept.
    fn wants(&self, seq: u64) -> bool {
        seq.is_multiple_of(self.spacing) && !self.kept.contains_key(&seq)
    }

    fn keep(&mut self, point: &Followed) {
        if self.wants(point.seq()) {
            self.insert(point.seq(), point.clone());
        }
    }

    fn insert(&mut self, seq: u64, point: Followed) {
        self.kept.insert(seq, point);
        if self.kept.len() > POINTS_MAX {
            self.spacing *= 2;
            let spacing = self.spacing;
            self.kept.retain(|seq, _| seq.is_multiple_of(spacing));
        }
    }
}

impl Pasts {
    fn of(&self, slug: &str) -> Arc<Mutex<Points>> {
        let mut runs = lock(&self.0);
        if runs.len() >= RUNS_MAX && !runs.contains_key(slug) {
            runs.clear();
        }
        runs.entry(slug.to_owned()).or_default().clone()
    }

    /// Keeps where somebody is who follows a log on their own.
    pub(crate) fn keep(&self, slug: &str, point: &Followed) {
        if point.seq().is_multiple_of(SPACING) {
            lock(&self.of(slug)).keep(point);
        }
    }
}

impl App {
    /// A run's log followed to a fact, or to its end if that comes before. Whoever asks for the same run meanwhile waits: they would
    /// only read the same.
    pub(crate) fn followed(&self, slug: &str, seq: u64) -> Outcome<Followed> {
        self.try_followed(slug, seq)?.map_err(|error| error.into())
    }

    fn try_followed(&self, slug: &str, seq: u64) -> Outcome<store::Result<Followed>> {
        let id = self.id_of(slug)?;
        let points = self.pasts.of(slug);
        let mut points = lock(&points);
        let mut followed = points.before(seq).cloned().unwrap_or_else(|| Followed::new(id, &self.root));
        self.with_reader(|reader| {
            let read = reader.follow(&mut followed, seq, |at, _| {
                points.keep(at);
                true
            });
            Ok(read.map(|()| {
                points.last = Some(followed.clone());
                followed
            }))
        })
    }

    /// What is wrong with the log of a run, if anything is.
    pub(crate) fn damage(&self, slug: &str) -> Outcome<Option<String>> {
        match self.try_followed(slug, u64::MAX)? {
            Ok(_) => self.with_reader(|reader| reader.contradicted(slug)),
            Err(store::Error::Damaged { why, .. }) => Ok(Some(why)),
            Err(error) => Err(error.into()),
        }
    }

    /// The id of a run.
    pub(crate) fn id_of(&self, slug: &str) -> Outcome<RunId> {
        let found = self.with_reader(|reader| reader.run_id(slug))?;
        found.ok_or_else(|| Problem::not_found("there is no such run"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seqs: impl IntoIterator<Item = u64>) -> Points {
        let mut points = Points::default();
        let point = Followed::new(store::new_run_id(), "");
        for seq in seqs {
            if points.wants(seq) {
                points.insert(seq, point.clone());
            }
        }
        points
    }

    #[test]
    fn points_of_a_long_log_are_further_apart_and_never_too_many() {
        let points = at((1..=1_000).map(|nth| nth * SPACING));
        assert!(points.kept.len() <= POINTS_MAX, "{}", points.kept.len());
        assert_eq!(points.spacing, 16 * SPACING);
        assert!(points.kept.keys().all(|seq| seq.is_multiple_of(points.spacing)));
        assert_eq!(points.kept.keys().next_back(), Some(&(992 * SPACING)));
    }

    #[test]
    fn only_points_that_are_far_enough_apart_are_kept() {
        assert_eq!(at([1, SPACING - 1, SPACING, SPACING + 1]).kept.len(), 1);
    }
}
