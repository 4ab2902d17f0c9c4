//! Reading without being in the way: a read-only connection that takes no lock, waits for nobody and recovers
//! nothing. Views are made here from the index tables.

use crate::agents::{Agents, TELLING};
use crate::damage::Chain;
use crate::index::QUARANTINED;
use crate::log::now;
use crate::recover::{OWNER_DIED, SERVER_ENDED};
use crate::{Error, IoContext, Layout, Result, RunLog, db, graph};
use contract::documents::role_binding::{
    ExecutionAuthority, ReadModel, ReadOnly, RoleBindingSummary, WorkflowCaseReadModel,
};
use contract::documents::{is_task_contract, task_contract};
use contract::{
    ApprovalState, ApprovalView, CONTRACT_FILE, Digest, Event, EventLine, Fact, LeftOutView, LogName, Role, RunId,
    RunView, SUBMITTED_FILE, Slug, Status, StepStatus, StepView, TaskStatus, TaskView, Verdict,
};
use run::view::Projector;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;

/// A read-only view of the store.
pub struct Reader {
    pub(crate) db: Connection,
    layout: Layout,
}

/// A receipt, by where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandedReceipt {
    /// UUID.
    pub id: String,
    /// The run whose change it is of.
    pub run_id: Slug,
}

/// The columns of [`Reader::run_row`], in order.
const RUN_COLUMNS: &str = "run_id, id, goal, state, reason, message, verdict, iteration, created_at, ended_at, base, result, \
                           landing_json, task_id, parent, sandbox, run_dir, sealed";

/// The graphs that people build, by how they started.
const OF_GRAPHS: &str = "FROM runs JOIN events ON events.run_id = runs.run_id AND events.seq = 1
                         WHERE json_extract(events.data_json, '$.contract.workflow') = 'graph'";

impl Reader {
    /// Opens the database of a state directory.
    pub fn open(layout: &Layout) -> Result<Reader> {
        Ok(Reader { db: db::open_reader(layout)?, layout: layout.clone() })
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How SQLite keeps its journal: `wal`, or something slower.
    pub fn journal_mode(&self) -> Result<String> {
        Ok(self.db.query_row("PRAGMA journal_mode", [], |row| row.get(0))?)
    }

    /// Every run, newest first, without steps.
    pub fn runs(&self, limit: Option<u64>) -> Result<Vec<RunView>> {
        // Not by slug: it has whole seconds, and several runs can start in one.
        let sql = format!("SELECT {RUN_COLUMNS} FROM runs ORDER BY rowid DESC LIMIT ?1");
        let limit = limit.map_or(-1, |limit| limit as i64);
        self.db.prepare(&sql)?.query_map([limit], run_row)?.map(|row| row?).collect()
    }

    /// How many runs there are.
    pub fn run_count(&self) -> Result<u64> {
        Ok(self.db.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0))? as u64)
    }

    /// One run with its steps.
    pub fn run(&self, slug: &str) -> Result<Option<RunView>> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?1");
        let Some(view) = self.db.prepare(&sql)?.query_row([slug], run_row).optional()? else { return Ok(None) };
        let mut view = view?;
        view.steps = Some(self.steps(slug)?);
        let agents = self.agents(slug)?;
        agents.tell(&mut view);
        // Of a damaged log nothing more can be told.
        let run = agents.has_reviews().then(|| self.load(slug).ok()).flatten();
        if let (Some((run, _)), Some(details)) = (run, view.details.as_mut()) {
            details.pipeline = run::workflow::pipeline::shown::view(&run);
        }
        let binding = self.role_binding(slug, &agents);
        let case = if binding.is_some() { self.case(slug)? } else { None };
        for details in view.details.iter_mut() {
            for item in &details.left_out_of {
                details.left_out.extend(self.left_out(slug, item));
            }
            details.role_binding_read_model.clone_from(&binding);
            details.workflow_case_read_model.clone_from(&case);
        }
        Ok(Some(view))
    }

    /// What the task contract of a run bound its role to; none where something else was submitted. A document that differs from
    /// what the log names is for `norma verify` to name.
    fn role_binding(&self, slug: &str, agents: &Agents) -> Option<RoleBindingSummary> {
        let (item, worker) = agents.first_item()?;
        let dir = self.layout.run(slug);
        // Before it is sealed, a run has no `contract.json` of that kind.
        let mut found =
            [SUBMITTED_FILE, CONTRACT_FILE].into_iter().filter_map(|name| std::fs::read(dir.join(name)).ok());
        let bytes = found.find(|bytes| contract::hash::sha256(bytes) == item.submitted)?;
        let given = is_task_contract(&bytes).then(|| task_contract::read(&bytes).ok()).flatten()?;
        Some(RoleBindingSummary::new(&given, &item.worker, worker))
    }

    /// The case that a run belongs to, which is all runs that continue each other, told from the latest of them.
    fn case(&self, slug: &str) -> Result<Option<WorkflowCaseReadModel>> {
        let (mut first, mut latest) = (slug.to_owned(), slug.to_owned());
        let next = |sql: &str, of: &str| -> Result<Option<String>> {
            let found =
                self.db.prepare_cached(sql)?.query_row([of], |row| row.get::<_, Option<String>>(0)).optional()?;
            Ok(found.flatten())
        };
        while let Some(earlier) = next("SELECT parent FROM runs WHERE run_id = ?1", &first)? {
            first = earlier;
        }
        while let Some(later) = next("SELECT run_id FROM runs WHERE parent = ?1 ORDER BY rowid DESC LIMIT 1", &latest)?
        {
            latest = later;
        }
        let Some(role_binding_summary) = self.role_binding(&latest, &self.agents(&latest)?) else { return Ok(None) };
        let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?1");
        let view = self.db.prepare(&sql)?.query_row([&latest], run_row)??;
        Ok(Some(WorkflowCaseReadModel {
            authority: ReadModel::ContractDerivedReadModel,
            access: ReadOnly::ReadOnly,
            execution_authority: ExecutionAuthority::TaskContract,
            workflow_id: required(first)?,
            run_id: view.run_id,
            status: view.status,
            role_binding_summary,
        }))
    }

    /// The files that an item's agent left out of its change: its receipt lists more of them than the log.
    fn left_out(&self, slug: &str, item: &LeftOutView) -> Vec<String> {
        let receipt = || -> Option<contract::Receipt> {
            let bytes = self.evidence(slug, &format!("changes/{:03}", item.change), "RECEIPT.json").ok()??;
            serde_json::from_slice(&bytes).ok()
        };
        // A receipt that cannot be read is for `norma verify` to name.
        let listed = receipt().and_then(|receipt| receipt.left_out).unwrap_or_else(|| item.left_out.clone());
        listed.files.into_iter().map(|file| file.path).collect()
    }

    /// Who took the turns of a run.
    fn agents(&self, slug: &str) -> Result<Agents> {
        // Of a node that was changed often only the last time counts.
        let last = "SELECT max(seq) FROM events WHERE run_id = ?1 AND type = 'node_changed'
                    GROUP BY json_extract(data_json, '$.node')";
        let sql = format!(
            "SELECT line FROM events WHERE run_id = ?1 AND ({TELLING}) AND (type <> 'node_changed' OR seq IN ({last}))
             ORDER BY seq"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut agents = Agents::default();
        for line in statement.query_map([slug], |row| row.get::<_, String>(0))? {
            agents.hear(&line?);
        }
        Ok(agents)
    }

    /// The same among the graphs that people build: `@last` is the newest of those.
    pub fn find_graph(&self, given: &str) -> Result<String> {
        if given != "@last" {
            return self.find_run(given);
        }
        let newest = format!("SELECT runs.run_id {OF_GRAPHS} ORDER BY runs.rowid DESC LIMIT 1");
        let last: Option<String> = self.db.query_row(&newest, [], |row| row.get(0)).optional()?;
        last.ok_or_else(|| Error::Refused("there are no graphs yet; `norma graph new` starts one".into()))
    }

    /// Whether a run is a graph that people build, which goes on until somebody says that it is done.
    pub fn is_graph(&self, slug: &str) -> Result<bool> {
        let found = format!("SELECT EXISTS (SELECT 1 {OF_GRAPHS} AND runs.run_id = ?1)");
        Ok(self.db.query_row(&found, [slug], |row| row.get(0))?)
    }

    /// The slug that a person means: a slug, a UUID, a unique prefix of either, or `@last`.
    pub fn find_run(&self, given: &str) -> Result<String> {
        if given == "@last" {
            let newest = "SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1";
            let last: Option<String> = self.db.query_row(newest, [], |row| row.get(0)).optional()?;
            return last.ok_or_else(|| Error::Refused("there are no runs yet".into()));
        }
        let is_id = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if given.is_empty() || !given.chars().all(is_id) {
            return Err(Error::Refused(format!("{given:?} is not a run id")));
        }
        let given = RunId::parse(given).map_or_else(|_| given.to_owned(), |id| id.uuid());
        let found: Vec<String> = self
            .db
            .prepare("SELECT run_id FROM runs WHERE substr(run_id, 1, ?2) = ?1 OR substr(id, 1, ?2) = ?1 ORDER BY run_id LIMIT 5")?
            .query_map(params![given, given.len() as i64], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        match &found[..] {
            [one] => Ok(one.clone()),
            [] => Err(Error::Refused(format!("there is no run {given}; `norma runs` lists them"))),
            several => Err(Error::Refused(format!("{given} could be {}; give more of it", several.join(", ")))),
        }
    }

    fn steps(&self, slug: &str) -> Result<Vec<StepView>> {
        self.db
            .prepare(
                "SELECT step_index, role, iteration, attempt, status, reason, step_dir, started_at, ended_at, summary
                 FROM steps WHERE run_id = ?1 ORDER BY step_index",
            )?
            .query_map([slug], step_row)?
            .map(|row| row?)
            .collect()
    }

    /// The lines of a run's log after `after`, exactly as stored.
    pub fn lines(&self, slug: &str, after: u64, limit: u64) -> Result<Vec<String>> {
        let mut statement =
            self.db.prepare_cached("SELECT line FROM events WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?;
        let lines = statement.query_map(params![slug, after as i64, limit as i64], |row| row.get(0))?;
        Ok(lines.collect::<rusqlite::Result<_>>()?)
    }

    /// Both ends of a run's log: the digest of its contract, how many events it has, and the last hash.
    pub(crate) fn ends(&self, slug: &str) -> Result<(Digest, u64, Digest)> {
        let damaged = |why: &str| Error::Damaged { log: slug.to_owned(), why: why.to_owned() };
        let first = self.lines(slug, 0, 1)?.pop().ok_or_else(|| damaged("there are no events"))?;
        let first = EventLine::parse(first.as_bytes()).ok().and_then(|line| line.event().ok());
        let Some(Fact::RunStarted(started)) = first.map(|event| event.fact) else {
            return Err(damaged("it does not start with run_started"));
        };
        let sql = "SELECT seq, hash FROM events WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1";
        let (seq, head) = self.db.query_row(sql, [slug], |row| Ok((row.get::<_, i64>(0)?, parsed(row, 1)?)))?;
        Ok((started.contract_digest, seq as u64, head))
    }

    /// The last hash of a run's log, which stands for all of it; none if there is no such log.
    pub fn head(&self, slug: &str) -> Result<Option<Digest>> {
        let sql = "SELECT hash FROM events WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1";
        let mut statement = self.db.prepare_cached(sql)?;
        Ok(statement.query_row([slug], |row| parsed(row, 0)).optional()?)
    }

    /// The lines of the state directory's log that are about a run, exactly as stored.
    pub(crate) fn audit_lines_about(&self, slug: &str) -> Result<Vec<String>> {
        // An answer names only the approval that it answers.
        let sql = "SELECT line FROM audit WHERE json_extract(data_json, '$.run_id') = ?1
                   OR type = 'approval_answered' AND json_extract(data_json, '$.id') IN (
                     SELECT json_extract(data_json, '$.id') FROM audit
                     WHERE type = 'approval_asked' AND json_extract(data_json, '$.run_id') = ?1)
                   ORDER BY seq";
        let mut statement = self.db.prepare(sql)?;
        let lines = statement.query_map([slug], |row| row.get(0))?;
        Ok(lines.collect::<rusqlite::Result<_>>()?)
    }

    /// Has everything that is read until the end of its life be of one moment.
    pub(crate) fn snapshot(&self) -> Result<Option<rusqlite::Transaction<'_>>> {
        Ok(if self.db.is_autocommit() { Some(self.db.unchecked_transaction()?) } else { None })
    }

    /// The hash of a line of a run's log.
    pub(crate) fn hash_of(&self, slug: &str, seq: u64) -> Result<Option<Digest>> {
        let mut statement = self.db.prepare_cached("SELECT hash FROM events WHERE run_id = ?1 AND seq = ?2")?;
        Ok(statement.query_row(params![slug, seq as i64], |row| parsed(row, 0)).optional()?)
    }

    /// How many lines the state directory's log has.
    pub fn audit_length(&self) -> Result<u64> {
        Ok(self.db.query_row("SELECT coalesce(max(seq), 0) FROM audit", [], |row| row.get::<_, i64>(0))? as u64)
    }

    /// Whether the state directory's log leads over this line, and its chain holds from there on.
    pub fn audit_follows(&self, (seq, hash): (u64, Digest)) -> Result<bool> {
        let mut statement = self.db.prepare_cached("SELECT line, hash FROM audit WHERE seq >= ?1 ORDER BY seq")?;
        let mut rows = statement.query([seq as i64])?;
        let first = rows.next()?.map(|row| row.get::<_, String>(1)).transpose()?;
        if first != Some(hash.to_string()) {
            return Ok(false);
        }
        let (mut seq, mut prev) = (seq, hash);
        while let Some(row) = rows.next()? {
            let (line, listed): (String, String) = (row.get(0)?, row.get(1)?);
            seq += 1;
            prev = contract::hash::chain(seq, &prev, line.as_bytes());
            if prev.to_string() != listed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The lines of the state directory's log of one type, in order.
    pub(crate) fn audit_lines_of(&self, kind: &str) -> Result<Vec<String>> {
        let mut statement = self.db.prepare("SELECT line FROM audit WHERE type = ?1 ORDER BY seq")?;
        let lines = statement.query_map([kind], |row| row.get(0))?;
        Ok(lines.collect::<rusqlite::Result<_>>()?)
    }

    /// A run's whole log: its events and its end. Its chain must hold.
    pub fn log(&self, slug: &str) -> Result<(RunId, Vec<Event>, RunLog)> {
        let mut events = Vec::new();
        let log = self.follow_log(slug, |_, event| {
            events.push(event);
            Ok(())
        })?;
        Ok((log.name.run, events, log))
    }

    /// Hands over the events of a run's log, so that a long one is never in memory as a whole. Its chain must hold.
    pub(crate) fn each_event(&self, slug: &str, mut each: impl FnMut(RunId, Event) -> Result<()>) -> Result<()> {
        self.each_line(slug, |line, event, _| each(line.run_uuid, event))
    }

    /// The same event by event, so that a long log is never in memory as a whole; answers its end.
    pub(crate) fn follow_log(&self, slug: &str, mut each: impl FnMut(RunId, Event) -> Result<()>) -> Result<RunLog> {
        let (mut items, mut task) = (Vec::new(), None);
        let (mut end, mut graph) = (None, None);
        self.each_line(slug, |line, event, hash| {
            match &event.fact {
                // Lines about items have the item's name there.
                Fact::RunStarted(_) => task = line.task_id.parse().ok(),
                Fact::ItemAdded(added) => items.push(added.item.id.clone()),
                _ => {}
            }
            graph.get_or_insert_with(|| Projector::new(line.run_uuid, "")).skip(&event);
            end = Some((line.run_uuid, line.seq, hash));
            each(line.run_uuid, event)
        })?;
        let ((run, seq, head), graph) = end.zip(graph).ok_or_else(|| no_events(slug))?;
        let damaged = |why: String| Error::Damaged { log: slug.to_owned(), why };
        let head = Digest::from_str(&head).map_err(|e| damaged(e.to_string()))?;
        let (name, items) = (LogName { run, task }, Arc::new(items));
        Ok(RunLog { name, seq, head, items, graph, drawn: graph::is_there(&self.db, slug)? })
    }

    /// Hands over the lines of a run's log with their events and hashes. Its chain must hold.
    fn each_line(&self, slug: &str, mut each: impl FnMut(EventLine, Event, String) -> Result<()>) -> Result<()> {
        let mut chain = Chain::of(slug);
        let mut statement =
            self.db.prepare_cached("SELECT seq, line, hash FROM events WHERE run_id = ?1 ORDER BY seq")?;
        let mut rows = statement.query([slug])?;
        while let Some(row) = rows.next()? {
            let hash: String = row.get(2)?;
            let (line, event) = chain.fact(row.get(0)?, &row.get::<_, String>(1)?, &hash)?;
            each(line, event, hash)?;
        }
        Ok(())
    }

    /// Slugs of the runs that nobody paused: whoever worked on them died, or was a server that ended. Oldest first.
    pub fn abandoned(&self) -> Result<Vec<String>> {
        let sql = "SELECT run_id FROM runs WHERE state = 'paused' AND reason = 'interrupted' AND message IN (?1, ?2)
                   AND sealed = 0 AND unlisted = 0 ORDER BY rowid";
        let mut statement = self.db.prepare(sql)?;
        let slugs = statement.query_map([OWNER_DIED, SERVER_ENDED], |row| row.get(0))?;
        Ok(slugs.collect::<rusqlite::Result<_>>()?)
    }

    /// The slug of a run that is listed, by its slug or its UUID, whole.
    pub fn listed_run(&self, given: &str) -> Result<Option<String>> {
        let sql = "SELECT run_id FROM runs WHERE (run_id = ?1 OR id = ?1) AND unlisted = 0";
        Ok(self.db.prepare_cached(sql)?.query_row([given], |row| row.get(0)).optional()?)
    }

    /// The id of a run.
    pub fn run_id(&self, slug: &str) -> Result<Option<RunId>> {
        let sql = "SELECT id FROM runs WHERE run_id = ?1";
        let found: Option<String> = self.db.prepare_cached(sql)?.query_row([slug], |row| row.get(0)).optional()?;
        Ok(found.and_then(|id| RunId::parse(&id).ok()))
    }

    /// How many runs are in each state.
    pub fn run_states(&self) -> Result<Vec<(String, u64)>> {
        let mut statement = self.db.prepare_cached("SELECT state, count(*) FROM runs GROUP BY state ORDER BY state")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Slugs of runs for this goal that are held, newest first.
    pub fn held_runs(&self, goal: &str) -> Result<Vec<String>> {
        let sql = "SELECT run_id FROM runs WHERE goal = ?1 AND state IN ('paused', 'waiting') ORDER BY run_id DESC";
        let mut statement = self.db.prepare_cached(sql)?;
        let slugs = statement.query_map([goal], |row| row.get(0))?;
        Ok(slugs.collect::<rusqlite::Result<_>>()?)
    }

    /// Slugs of runs whose directory may still change, oldest first.
    pub fn unsealed(&self) -> Result<Vec<String>> {
        let mut statement = self.db.prepare("SELECT run_id FROM runs WHERE sealed = 0 ORDER BY run_id")?;
        let slugs = statement.query_map([], |row| row.get(0))?;
        Ok(slugs.collect::<rusqlite::Result<_>>()?)
    }

    /// Those of them that have begun to land at some time.
    pub fn landing(&self) -> Result<Vec<String>> {
        let mut statement = self.db.prepare(
            "SELECT run_id FROM runs WHERE sealed = 0 AND EXISTS
             (SELECT 1 FROM events WHERE events.run_id = runs.run_id AND type = 'landing_started') ORDER BY run_id",
        )?;
        let slugs = statement.query_map([], |row| row.get(0))?;
        Ok(slugs.collect::<rusqlite::Result<_>>()?)
    }

    /// Whether a run's directory is complete and on disk.
    pub fn is_sealed(&self, slug: &str) -> Result<bool> {
        let sql = "SELECT sealed FROM runs WHERE run_id = ?1";
        let sealed: Option<i64> = self.db.query_row(sql, [slug], |row| row.get(0)).optional()?;
        Ok(sealed == Some(1))
    }

    /// The receipt of a change that was made before and still stands where it was put: on the user's branch, or on one of
    /// its own.
    pub fn landed_receipt(&self, content: &Digest) -> Result<Option<LandedReceipt>> {
        let sql = "SELECT receipt_id, run_id FROM items JOIN runs USING (run_id)
                   WHERE content_hash = ?1 AND commit_id IS NOT NULL AND landing_json IS NOT NULL LIMIT 1";
        let mut statement = self.db.prepare_cached(sql)?;
        let read = |row: &Row<'_>| Ok(LandedReceipt { id: row.get(0)?, run_id: parsed(row, 1)? });
        Ok(statement.query_row([content.to_string()], read).optional()?)
    }

    /// The receipt hash of the change that the repository's chain of receipts ends with: the last one that became part of
    /// a run's history.
    pub fn last_receipt(&self) -> Result<Option<Digest>> {
        let mut query = self.db.prepare_cached(
            "SELECT line FROM events WHERE type IN ('item_ended', 'patch_applied') ORDER BY rowid DESC",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            let event = EventLine::parse(line.as_bytes()).ok().and_then(|line| line.event().ok());
            let end = event.as_ref().and_then(|event| event.fact.change_end());
            if let Some(receipt) = end.filter(|end| end.lands).and_then(|end| end.receipt) {
                return Ok(Some(receipt.receipt_hash));
            }
        }
        Ok(None)
    }

    /// The receipts of every change that is the same as this one, whether or not it still stands where it landed.
    pub fn receipts_of(&self, content: &Digest) -> Result<Vec<LandedReceipt>> {
        let sql =
            "SELECT receipt_id, run_id FROM items WHERE content_hash = ?1 AND commit_id IS NOT NULL ORDER BY run_id";
        let mut statement = self.db.prepare_cached(sql)?;
        let read = |row: &Row<'_>| Ok(LandedReceipt { id: row.get(0)?, run_id: parsed(row, 1)? });
        let found = statement.query_map([content.to_string()], read)?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    /// Whether files were removed that only refused changes of a run had.
    pub fn lacks_refused_files(&self, slug: &str) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM audit WHERE type = 'refused_files_removed'
                   AND json_extract(data_json, '$.run_id') = ?1)";
        Ok(self.db.query_row(sql, [slug], |row| row.get(0))?)
    }

    /// Whether another run continues from this one's tree.
    pub fn has_child(&self, slug: &str) -> Result<bool> {
        Ok(self.db.query_row("SELECT EXISTS (SELECT 1 FROM runs WHERE parent = ?1)", [slug], |row| row.get(0))?)
    }

    /// The slugs of all runs that have a directory below `runs/`.
    pub(crate) fn run_ids(&self) -> Result<HashSet<String>> {
        let mut statement = self.db.prepare("SELECT run_id FROM runs WHERE sealed <> ?1")?;
        let ids = statement.query_map([QUARANTINED], |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    /// The slugs of all runs that the state directory's log names, oldest first.
    pub(crate) fn runs_in_audit(&self) -> Result<Vec<String>> {
        // A line that is no JSON is what `verify` finds in the chain.
        let sql = "SELECT DISTINCT json_extract(data_json, '$.run_id') AS run FROM audit
                   WHERE type = 'run_state' AND json_valid(data_json) AND run IS NOT NULL ORDER BY run";
        let mut statement = self.db.prepare(sql)?;
        let ids = statement.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    /// The bytes of a file of a run's evidence, if there is one of this name; they must be those on record. Until they are
    /// written out, the commit has them.
    pub fn evidence(&self, slug: &str, dir: &str, name: &str) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT sha256 FROM artifacts WHERE run_id = ?1 AND dir = ?2 AND path = ?3";
        let mut statement = self.db.prepare_cached(sql)?;
        let on_record = statement.query_row(params![slug, dir, name], |row| parsed(row, 0)).optional()?;
        let Some(listed): Option<Digest> = on_record else { return Ok(None) };
        let path = self.layout.run(slug).join(dir).join(name);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match self.copy_of(slug, dir, name)? {
                Some(bytes) => bytes,
                // It was written meanwhile, before its copy was dropped.
                None => std::fs::read(&path).at("read", &path)?,
            },
            read => read.at("read", &path)?,
        };
        match contract::hash::sha256(&bytes) == listed {
            true => Ok(Some(bytes)),
            false => {
                let why = format!("{dir}/{name} differs from what was recorded");
                Err(Error::Damaged { log: slug.to_owned(), why })
            }
        }
    }

    /// The names of the files of a directory of a run that begin so, sorted.
    pub fn evidence_names(&self, slug: &str, dir: &str, prefix: &str) -> Result<Vec<String>> {
        let sql =
            "SELECT path FROM artifacts WHERE run_id = ?1 AND dir = ?2 AND substr(path, 1, ?4) = ?3 ORDER BY path";
        let mut statement = self.db.prepare_cached(sql)?;
        let names = statement.query_map(params![slug, dir, prefix, prefix.len() as i64], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// The newest run in which an agent had a conversation that it calls this.
    pub fn run_of_session(&self, session: &str) -> Result<Option<String>> {
        let sql = "SELECT run_id FROM events WHERE type = 'agent_event' AND data_json LIKE '%\"type\":\"session\"%'
                   AND json_extract(data_json, '$.event.type') = 'session' AND json_extract(data_json, '$.event.id') = ?1
                   ORDER BY rowid DESC LIMIT 1";
        Ok(self.db.prepare_cached(sql)?.query_row([session], |row| row.get(0)).optional()?)
    }

    /// Names of the files on record of a directory of a run.
    pub fn file_names(&self, slug: &str, dir: &str) -> Result<Vec<String>> {
        let mut statement =
            self.db.prepare_cached("SELECT path FROM artifacts WHERE run_id = ?1 AND dir = ?2 ORDER BY path")?;
        let names = statement.query_map(params![slug, dir], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// Every task in the order of ids; `None` = whatever its status.
    pub fn tasks(&self, status: Option<TaskStatus>) -> Result<Vec<TaskView>> {
        let sql = format!("{TASK_SELECT} WHERE ?1 IS NULL OR status = ?1 ORDER BY id");
        self.db.prepare(&sql)?.query_map([status.map(TaskStatus::as_str)], task_row)?.map(|row| row?).collect()
    }

    /// One task.
    pub fn task(&self, id: i64) -> Result<Option<TaskView>> {
        let sql = format!("{TASK_SELECT} WHERE id = ?1");
        self.db.prepare(&sql)?.query_row([id], task_row).optional()?.transpose()
    }

    /// Tasks that can be run now: todo, and everything they wait for is done.
    pub fn ready_tasks(&self) -> Result<Vec<i64>> {
        let mut statement = self.db.prepare(
            "SELECT id FROM tasks WHERE status = 'todo' AND NOT EXISTS (
               SELECT 1 FROM task_edges JOIN tasks AS other ON other.id = depends_on_id
               WHERE task_id = tasks.id AND other.status <> 'done')
             ORDER BY id",
        )?;
        let ids = statement.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    /// The lines of the state directory's own log, in order.
    pub fn audit_lines(&self) -> Result<Vec<String>> {
        let mut statement = self.db.prepare("SELECT line FROM audit ORDER BY seq")?;
        let lines = statement.query_map([], |row| row.get(0))?;
        Ok(lines.collect::<rusqlite::Result<_>>()?)
    }

    /// Approvals, newest first; or only those that somebody can still answer for a run that still waits.
    pub fn approvals(&self, pending_only: bool) -> Result<Vec<ApprovalView>> {
        let waits = "run_id IN (SELECT run_id FROM runs WHERE ended_at IS NULL AND sealed = 0)";
        let sql = match pending_only {
            true => format!("{APPROVAL_SELECT} WHERE decision IS NULL AND {waits} ORDER BY id DESC"),
            false => format!("{APPROVAL_SELECT} ORDER BY id DESC"),
        };
        let mut statement = self.db.prepare(&sql)?;
        let found: Vec<ApprovalView> = statement.query_map([], approval_row)?.map(|row| row?).collect::<Result<_>>()?;
        Ok(found.into_iter().filter(|asked| !pending_only || asked.state == ApprovalState::Pending).collect())
    }

    /// The approval that a person means: its id, or a unique prefix of it.
    pub fn approval(&self, given: &str) -> Result<ApprovalView> {
        if given.is_empty() || !given.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(Error::Refused(format!(
                "{given:?} is not the id of an approval; `norma approvals` lists them"
            )));
        }
        let sql = format!("{APPROVAL_SELECT} WHERE substr(id, 1, ?2) = ?1 ORDER BY id LIMIT 5");
        let mut statement = self.db.prepare(&sql)?;
        let rows = statement.query_map(params![given, given.len() as i64], approval_row)?;
        let mut found: Vec<ApprovalView> = rows.map(|row| row?).collect::<Result<_>>()?;
        match (found.pop(), &found[..]) {
            (Some(one), []) => Ok(one),
            (None, _) => Err(Error::Refused(format!("there is no approval {given}; `norma approvals` lists them"))),
            (Some(last), others) => {
                let ids: Vec<String> = others.iter().chain([&last]).map(|asked| asked.id.to_string()).collect();
                Err(Error::Refused(format!("{given} could be {}; give more of it", ids.join(", "))))
            }
        }
    }

    /// Rows of the state directory's log as the table has them.
    pub(crate) fn audit_rows(&self) -> Result<Vec<AuditRow>> {
        let mut statement = self.db.prepare("SELECT seq, ts, type, data_json, line, hash FROM audit ORDER BY seq")?;
        let rows = statement.query_map([], |row| {
            Ok(AuditRow {
                seq: row.get(0)?,
                ts: row.get(1)?,
                kind: row.get(2)?,
                data: row.get(3)?,
                line: row.get(4)?,
                hash: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Rows of a run's log as the table has them.
    pub(crate) fn event_rows(&self, slug: &str) -> Result<Vec<EventRow>> {
        let mut statement = self.db.prepare(
            "SELECT seq, ts, type, message, data_json, line, hash FROM events WHERE run_id = ?1 ORDER BY seq",
        )?;
        let rows = statement.query_map([slug], |row| {
            Ok(EventRow {
                seq: row.get(0)?,
                ts: row.get(1)?,
                kind: row.get(2)?,
                message: row.get(3)?,
                data: row.get(4)?,
                line: row.get(5)?,
                hash: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// A row of `events`, as it is.
pub(crate) struct EventRow {
    pub(crate) seq: i64,
    pub(crate) ts: String,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) data: String,
    pub(crate) line: String,
    pub(crate) hash: String,
}

/// A row of `audit`, as it is.
pub(crate) struct AuditRow {
    pub(crate) seq: i64,
    pub(crate) ts: String,
    pub(crate) kind: String,
    pub(crate) data: String,
    pub(crate) line: String,
    pub(crate) hash: String,
}

const TASK_SELECT: &str = "SELECT id, goal, status, acceptance_criteria_json, run_id, created_at, updated_at,
  (SELECT json_group_array(depends_on_id) FROM (SELECT depends_on_id FROM task_edges WHERE task_id = tasks.id ORDER BY 1))
  FROM tasks";

/// The columns of [`approval_row`], in order.
pub(crate) const APPROVAL_SELECT: &str = "SELECT id, run_id, reasons_json, bound, asked_at, expires_at, decision, \
                                          decided_by, reason, answered_at, used_at, terms_json FROM approvals";

fn damaged_row(what: &str) -> Error {
    Error::Damaged { log: "the index".into(), why: format!("{what} cannot be read; `norma reindex` rebuilds it") }
}

fn parsed<T: FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| rusqlite::Error::InvalidColumnType(column, text, rusqlite::types::Type::Text))
}

fn word<T: DeserializeOwned>(text: Option<String>) -> Result<Option<T>> {
    text.map(|text| serde_json::from_value(text.clone().into()).map_err(|_| damaged_row(&text))).transpose()
}

fn required<T: DeserializeOwned>(text: String) -> Result<T> {
    word(Some(text.clone()))?.ok_or_else(|| damaged_row(&text))
}

type RowView<T> = rusqlite::Result<Result<T>>;

fn run_row(row: &Row<'_>) -> RowView<RunView> {
    let (id, state): (String, String) = (row.get(1)?, row.get(3)?);
    let (reason, verdict): (Option<String>, Option<String>) = (row.get(4)?, row.get(6)?);
    let landing: Option<String> = row.get(12)?;
    let (created, ended): (String, Option<String>) = (row.get(8)?, row.get(9)?);
    let (run_id, goal, message, iteration): (String, _, _, _) = (row.get(0)?, row.get(2)?, row.get(5)?, row.get(7)?);
    let (base, result): (String, Option<String>) = (row.get(10)?, row.get(11)?);
    let (task_id, parent): (_, Option<String>) = (row.get(13)?, row.get(14)?);
    let (sandbox, run_dir, sealed): (_, _, i64) = (row.get(15)?, row.get(16)?, row.get(17)?);
    let build = || {
        let landing: Option<contract::Landing> =
            landing.map(|text| serde_json::from_str(&text).map_err(|_| damaged_row("a landing"))).transpose()?;
        Ok(RunView {
            run_id: required(run_id)?,
            id: required(id)?,
            goal,
            status: Status::from_word(&state).ok_or_else(|| damaged_row(&state))?,
            reason: word(reason)?,
            message,
            verdict: word::<Verdict>(verdict)?,
            iteration,
            created_at: required(created)?,
            ended_at: word(ended)?,
            steps: None,
            details: None,
            base: required(base)?,
            result: word(result)?,
            landed: landing.as_ref().filter(|landing| landing.checkout).map(|landing| landing.commit),
            landing,
            task_id,
            parent: word(parent)?,
            sandbox,
            run_dir,
            damaged: None,
            quarantined: sealed == QUARANTINED,
        })
    };
    Ok(build())
}

fn step_row(row: &Row<'_>) -> RowView<StepView> {
    let (role, status): (String, String) = (row.get(1)?, row.get(4)?);
    let (reason, started, ended): (Option<String>, String, Option<String>) = (row.get(5)?, row.get(7)?, row.get(8)?);
    let (index, iteration, attempt, dir, summary) = (row.get(0)?, row.get(2)?, row.get(3)?, row.get(6)?, row.get(9)?);
    let build = || {
        Ok(StepView {
            index,
            role: required::<Role>(role)?,
            iteration,
            attempt,
            status: required::<StepStatus>(status)?,
            reason: word(reason)?,
            dir,
            started_at: required(started)?,
            ended_at: word(ended)?,
            summary,
            agent: None,
            model: None,
            session_id: None,
            usage: None,
        })
    };
    Ok(build())
}

/// An approval as it is now.
pub(crate) fn approval_row(row: &Row<'_>) -> RowView<ApprovalView> {
    let (reasons, asked, expires): (String, String, String) = (row.get(2)?, row.get(4)?, row.get(5)?);
    let (decision, answered, used): (Option<String>, Option<String>, Option<String>) =
        (row.get(6)?, row.get(9)?, row.get(10)?);
    let terms: Option<String> = row.get(11)?;
    let (id, run_id, bound, by, reason) = (parsed(row, 0)?, parsed(row, 1)?, parsed(row, 3)?, row.get(7)?, row.get(8)?);
    let build = || {
        let mut view = ApprovalView {
            id,
            run_id,
            state: ApprovalState::Pending,
            reasons: serde_json::from_str(&reasons).map_err(|_| damaged_row("the reasons of an approval"))?,
            bound,
            asked_at: required(asked)?,
            expires_at: required(expires)?,
            decision: word(decision)?,
            by,
            reason,
            terms: terms
                .map(|text| serde_json::from_str(&text))
                .transpose()
                .map_err(|_| damaged_row("an answer"))?
                .unwrap_or_default(),
            answered_at: word(answered)?,
            used_at: word(used)?,
        };
        view.state = view.state_at(now());
        Ok(view)
    };
    Ok(build())
}

fn task_row(row: &Row<'_>) -> RowView<TaskView> {
    let (status, criteria, links): (String, String, String) = (row.get(2)?, row.get(3)?, row.get(7)?);
    let (created, updated): (String, String) = (row.get(5)?, row.get(6)?);
    let (id, goal, run_id): (_, _, Option<String>) = (row.get(0)?, row.get(1)?, row.get(4)?);
    let build = || {
        Ok(TaskView {
            id,
            goal,
            status: TaskStatus::from_word(&status).ok_or_else(|| damaged_row(&status))?,
            acceptance_criteria: serde_json::from_str(&criteria).map_err(|_| damaged_row("criteria"))?,
            depends_on: serde_json::from_str(&links).map_err(|_| damaged_row("links"))?,
            run_id: word(run_id)?,
            created_at: required(created)?,
            updated_at: required(updated)?,
        })
    };
    Ok(build())
}

pub(crate) fn no_events(slug: &str) -> Error {
    Error::Damaged { log: slug.to_owned(), why: "there are no events".to_owned() }
}
