//! A run's log, followed to a fact and checked until there. A copy costs little and can be continued from, so that a log
//! of a hundred thousand facts is read once and not for each look at it.

use crate::damage::{Chain, advanced};
use crate::{Reader, Result};
use contract::view::stream::StreamEvent;
use contract::{Digest, RunId, Slug};
use run::Run;
use run::view::Past;
use rusqlite::params;

/// How many lines are read at once: whoever is told of them may take long, and nothing is held open meanwhile.
const LINES: i64 = 1000;

/// Where somebody is in a run's log.
#[derive(Debug, Clone)]
pub struct Followed {
    id: RunId,
    slug: Slug,
    head: Option<Digest>,
    run: Option<Run>,
    past: Past,
}

impl Followed {
    /// Before the first fact. Paths of artifacts begin with `root`.
    pub fn new(id: RunId, root: &str) -> Followed {
        Followed { id, slug: id.slug(), head: None, run: None, past: Past::new(id, root) }
    }

    /// The last fact.
    pub fn seq(&self) -> u64 {
        self.run.as_ref().map_or(0, |run| run.seq)
    }

    /// The run as it was after that fact.
    pub fn past(&self) -> &Past {
        &self.past
    }
}

impl Reader {
    /// Follows a run's log up to a fact, or to its end; `each` is told where that is and what the fact tells, and says whether to
    /// go on. A log whose chain does not hold, or that is no legal history, is damaged.
    pub fn follow(
        &self,
        followed: &mut Followed,
        until: u64,
        mut each: impl FnMut(&Followed, Vec<StreamEvent>) -> bool,
    ) -> Result<()> {
        let slug = followed.slug;
        while followed.seq() < until {
            let from = followed.seq();
            let mut chain = Chain::after(&slug, from, followed.head);
            for (seq, text, hash) in self.rows_after(&slug, from, until)? {
                let (_, event) = chain.fact(seq, &text, &hash)?;
                followed.run = Some(advanced(&slug, followed.id, followed.run.take(), &event)?);
                followed.head = chain.end();
                let told = followed.past.apply(&event);
                if !each(followed, told) {
                    return Ok(());
                }
            }
            if followed.seq() == from {
                break;
            }
        }
        Ok(())
    }

    /// The next lines of a run's log, each with its place and its hash.
    fn rows_after(&self, slug: &str, after: u64, until: u64) -> Result<Vec<(i64, String, String)>> {
        let sql =
            "SELECT seq, line, hash FROM events WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4";
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement
            .query_map(params![slug, after as i64, until, LINES], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
