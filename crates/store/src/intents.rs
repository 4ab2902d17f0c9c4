//! Intents: what people want, kept before anybody has begun with it, and the runs that carry them out. Creating one is a fact
//! of the state directory; which run carries it out is a fact of that run.

use crate::log::now;
use crate::{Reader, Result, Store, Ticket};
use contract::documents::Intent;
use contract::{Audit, Violation};
use rusqlite::OptionalExtension;

/// Longest intent in its one spelling: a line of the log has a limit, and an agent is told all of it.
pub const INTENT_BYTES_MAX: usize = 96 << 10;

impl Store {
    /// Keeps an intent; answers its id.
    pub fn create_intent(&self, document: String, by: String) -> Ticket<String> {
        self.submit(move |tx| {
            let intent_id = loop {
                let [a, b, c, d, e, f, g, h, ..] = crate::log::random10();
                let id = contract::intent::intent_id([a, b, c, d, e, f, g, h]);
                let taken: bool =
                    tx.db.query_row("SELECT EXISTS (SELECT 1 FROM intents WHERE id = ?1)", [&id], |row| row.get(0))?;
                if !taken {
                    break id;
                }
            };
            tx.audit(&Audit::IntentCreated { intent_id: intent_id.clone(), document, by }, now())?;
            Ok(intent_id)
        })
    }
}

impl Reader {
    /// An intent; none if nobody has created one of this id.
    pub fn intent(&self, id: &str) -> Result<Option<Intent>> {
        let sql = "SELECT document FROM intents WHERE id = ?1";
        let text: Option<String> = self.db.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?;
        let damaged = |problems: Vec<Violation>| crate::Error::Damaged {
            log: "audit".to_owned(),
            why: problems.first().map(ToString::to_string).unwrap_or_default(),
        };
        text.map(|text| Intent::read(text.as_bytes()).map_err(damaged)).transpose()
    }

    /// The run that carries out an intent: the first one, whose retries are its children.
    pub fn run_of_intent(&self, id: &str) -> Result<Option<String>> {
        let sql = "SELECT run_id FROM intent_runs JOIN runs USING (run_id) WHERE intent_id = ?1 AND parent IS NULL";
        Ok(self.db.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?)
    }

    /// The last run that tries again what this one failed at.
    pub fn retry_of(&self, slug: &str) -> Result<Option<String>> {
        let sql = "SELECT run_id FROM runs WHERE parent = ?1 ORDER BY run_id DESC LIMIT 1";
        Ok(self.db.prepare_cached(sql)?.query_row([slug], |row| row.get(0)).optional()?)
    }

    /// The runs of intents that wait for an answer, oldest first.
    pub fn waiting_intents(&self) -> Result<Vec<String>> {
        let sql = "SELECT runs.run_id FROM runs JOIN intent_runs USING (run_id)
                   WHERE state = 'waiting' AND sealed = 0 AND unlisted = 0 ORDER BY runs.run_id";
        let mut statement = self.db.prepare(sql)?;
        let slugs = statement.query_map([], |row| row.get(0))?;
        Ok(slugs.collect::<rusqlite::Result<_>>()?)
    }

    /// How many intents there are.
    pub fn intent_count(&self) -> Result<u64> {
        Ok(self.db.query_row("SELECT count(*) FROM intents", [], |row| row.get::<_, i64>(0))? as u64)
    }
}
