//! The graph of every run, part by part, beside its log, so that a snapshot is read and need not be folded, whatever the length
//! of the log; it is that of the last committed fact. What the parts are is `run::view`'s to say; here they are rows of text
//! that are put together again without being read.
//!
//! While somebody observes the logs (a server), the rows are written in the transaction that appends the facts. Otherwise they
//! are most of what a commit would write, and nobody reads them: they are written when the run waits and when it is sealed,
//! which is after its end was told. Until then a run has no row for itself, and whoever asks for its graph folds its log.

use crate::db::each_event;
use crate::log::Tx;
use crate::read::no_events;
use crate::{Reader, Result, Store};
use contract::view::graph::{Approval, Artifact, GraphLayout, RunGraph};
use contract::{Event, RunId, Slug};
use run::view::{Drawing, Part, PartKind, Projector};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use std::collections::HashSet;

/// The kinds of rows, in the order in which a graph has them.
const HEAD: u8 = PartKind::Head as u8;
const NODE: u8 = PartKind::Node as u8;
const EDGE: u8 = PartKind::Edge as u8;
const ARTIFACT: u8 = PartKind::Artifact as u8;
const ASKED: u8 = PartKind::Asked as u8;

/// How much of a run's graph a list shows: of a run that has more, nodes, edges and artifacts are left out of the list.
const LISTED_BYTES_MAX: usize = 64 << 10;

/// How the text of a run ends that has no nodes, edges and artifacts.
const NO_PARTS: &str = r#","nodes":{},"edges":{},"artifacts":{}}"#;

/// Where the path of an artifact begins in its text.
const PATH: &str = r#""path":""#;

/// A row that is put in place of another one, or removed.
struct GraphRow {
    kind: u8,
    id: String,
    json: Option<String>,
}

/// What the row of a part says; none if there is to be no such row.
fn text(part: &Part) -> Option<String> {
    match part {
        Part::Head(head) => Some(head.text()),
        Part::Node(node) => Some(node.text()),
        Part::Edge(edge) => Some(edge.text()),
        Part::Artifact(artifact) => Some(artifact.text()),
        Part::Asked(asked) => Some(asked.text()),
        Part::Settled(_) | Part::NodeGone(_) | Part::EdgeGone(_) => None,
    }
}

/// A part as its text.
trait ErasedPart {
    fn text(&self) -> String;
}

impl<T: Serialize> ErasedPart for T {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("BUG: a part of a graph is plain data")
    }
}

/// How many rows are written at once: the writer has others waiting.
const ROWS_AT_ONCE: usize = 1000;

/// Runs whose rows do not follow their facts.
#[derive(Default)]
pub(crate) struct Undrawn {
    /// Those without a row for themselves, since nobody observes.
    headless: HashSet<Slug>,
    /// Those whose rows may lack something although there is one.
    incomplete: HashSet<Slug>,
}

impl Undrawn {
    /// Takes what a commit changes of a run's graph. `observed` is whether somebody may ask for it before the next fact.
    pub(crate) fn take(&mut self, db: &Connection, slug: &Slug, parts: &[Part], observed: bool) -> Result<()> {
        if observed {
            let is_stale = self.headless.remove(slug) | self.incomplete.remove(slug);
            return if is_stale {
                write_all(db, slug)
            } else {
                parts.iter().try_for_each(|part| write(db, slug, part))
            };
        }
        if self.headless.insert(*slug) {
            delete(db, slug, HEAD, "")?;
        }
        parts.iter().filter(|part| part.is_urgent()).try_for_each(|part| write(db, slug, part))
    }

    /// Nobody knows what the rows of these runs lack, since a commit failed.
    pub(crate) fn after_failure(self, runs: impl Iterator<Item = Slug>) -> Undrawn {
        let incomplete = self.incomplete.into_iter().chain(self.headless).chain(runs).collect();
        Undrawn { headless: HashSet::new(), incomplete }
    }

    /// Has all rows of a run be written with its next fact, if somebody observes.
    pub(crate) fn expect_all(&mut self, slug: &Slug) {
        self.incomplete.insert(*slug);
    }

    /// The rows of a run are those of its log.
    fn is_drawn(&mut self, slug: &Slug) {
        self.headless.remove(slug);
        self.incomplete.remove(slug);
    }
}

/// Writes the rows of a run whose facts nobody observed, if it has none: of one that waits, and of one that is sealed.
pub fn draw(store: &Store, reader: &Reader, slug: &str) -> Result<()> {
    if is_there(&reader.db, slug)? {
        return Ok(());
    }
    let mut drawing = None;
    reader.each_event(slug, |run, event| {
        drawing.get_or_insert_with(|| Drawing::new(run, "")).take(&event);
        Ok(())
    })?;
    write_rows(store, drawing.ok_or_else(|| no_events(slug))?)
}

/// Writes all rows of a run piece by piece.
pub(crate) fn write_rows(store: &Store, drawing: Drawing) -> Result<()> {
    let (slug, length) = (drawing.run().slug(), drawing.events());
    // What is asked is always there. The row for the run comes last: with it the others count. They follow each other as in the
    // table: rows that each come before those that are there have every page divided.
    let mut parts = drawing.parts().filter(|part| part.key().0 != PartKind::Asked).peekable();
    while parts.peek().is_some() {
        let rows: Vec<GraphRow> = parts.by_ref().take(ROWS_AT_ONCE).map(|part| GraphRow::of(&part)).collect();
        let is_last = parts.peek().is_none();
        let insert = move |tx: &mut Tx<'_>| {
            // Otherwise somebody has gone on with the run.
            if tx.length(&slug)? == length {
                rows.iter().try_for_each(|row| row.write(tx.db, &slug))?;
                if is_last {
                    tx.graphs().is_drawn(&slug);
                }
            }
            Ok(())
        };
        store.submit(insert).wait()?;
    }
    Ok(())
}

const DELETE: &str = "DELETE FROM graph WHERE run_id = ?1 AND kind = ?2 AND id = ?3";

fn delete(db: &Connection, slug: &str, kind: u8, id: &str) -> Result<()> {
    db.prepare_cached(DELETE)?.execute(params![slug, kind, id])?;
    Ok(())
}

fn write(db: &Connection, slug: &str, part: &Part) -> Result<()> {
    GraphRow::of(part).write(db, slug)
}

impl GraphRow {
    fn of(part: &Part) -> GraphRow {
        let (kind, id) = part.key();
        GraphRow { kind: kind as u8, id: id.to_owned(), json: text(part) }
    }

    fn write(&self, db: &Connection, slug: &str) -> Result<()> {
        let GraphRow { kind, id, json: Some(json) } = self else { return delete(db, slug, self.kind, &self.id) };
        db.prepare_cached("INSERT OR REPLACE INTO graph (run_id, kind, id, json) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![slug, kind, id, json])?;
        Ok(())
    }
}

/// Writes all rows of a run's graph, from its log.
pub(crate) fn write_all(db: &Connection, slug: &str) -> Result<()> {
    let mut drawing = None;
    each_event(db, slug, |run, event| {
        drawing.get_or_insert_with(|| Drawing::new(run, "")).take(&event);
        Ok(())
    })?;
    db.prepare_cached("DELETE FROM graph WHERE run_id = ?1")?.execute([slug])?;
    drawing.into_iter().flat_map(Drawing::parts).try_for_each(|part| write(db, slug, &part))
}

/// All rows of a run's graph in their order, from its whole log.
fn rows(run: RunId, events: &[Event]) -> Vec<GraphRow> {
    let mut drawing = Drawing::new(run, "");
    events.iter().for_each(|event| drawing.take(event));
    let mut rows: Vec<GraphRow> = drawing.parts().map(|part| GraphRow::of(&part)).collect();
    rows.sort_by(|one, other| (one.kind, &one.id).cmp(&(other.kind, &other.id)));
    rows
}

/// The parts of a run, as text.
#[derive(Default)]
struct Parts {
    head: Option<String>,
    /// Nodes, edges and artifacts, each as `"id":{…},…`.
    maps: [String; 3],
}

impl Parts {
    fn add(&mut self, row: &GraphRow, root: &str) {
        let Some(json) = &row.json else { return };
        let Some(map) = row.kind.checked_sub(NODE).and_then(|kind| self.maps.get_mut(usize::from(kind))) else {
            if row.kind == HEAD {
                self.head = Some(json.clone());
            }
            return;
        };
        if !map.is_empty() {
            map.push(',');
        }
        map.push('"');
        map.push_str(&row.id);
        map.push_str("\":");
        match row.kind {
            ARTIFACT => absolute(map, json, root),
            _ => map.push_str(json),
        }
    }

    fn bytes(&self) -> usize {
        self.maps.iter().map(String::len).sum()
    }

    /// The whole, as it would be written at once.
    fn joined(self, seq: u64, partial: bool, layout: Option<GraphLayout>) -> Option<String> {
        let head: RunGraph = serde_json::from_str(&self.head?).ok()?;
        let head = RunGraph { seq: Some(seq), partial, layout, ..head }.text();
        let [nodes, edges, artifacts] = if partial { Default::default() } else { self.maps };
        let start = head.strip_suffix(NO_PARTS)?;
        Some(format!(r#"{start},"nodes":{{{nodes}}},"edges":{{{edges}}},"artifacts":{{{artifacts}}}}}"#))
    }
}

/// Puts the repository before the path of an artifact. Within a JSON text a quotation mark is always escaped, so the name of
/// the member is found nowhere else.
fn absolute(into: &mut String, json: &str, root: &str) {
    match json.split_once(PATH) {
        Some((before, path)) if !path.starts_with('/') => {
            for text in [before, PATH, root, "/", path] {
                into.push_str(text);
            }
        }
        _ => into.push_str(json),
    }
}

/// A page of a list of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphPage {
    /// Each as the text of a [`RunGraph`], newest first.
    pub runs: Vec<String>,
    /// Where the next page begins, if there is one.
    pub next: Option<Slug>,
}

/// The graphs of runs, as they are at the last committed fact.
impl Reader {
    /// One run, as the text of a [`RunGraph`]; none if there is no such run.
    pub fn graph(&self, slug: &str) -> Result<Option<String>> {
        let _moment = self.snapshot()?;
        let layout = self.graph_layout(slug)?;
        self.graph_within(slug, usize::MAX, layout)
    }

    /// Runs, newest first, after the one that a page ended with. A run with a large graph is listed without it, and says so.
    pub fn graphs(&self, after: Option<&str>, limit: u32) -> Result<GraphPage> {
        let _moment = self.snapshot()?;
        let sql = "SELECT run_id FROM runs WHERE unlisted = 0
                   AND (?1 IS NULL OR rowid < (SELECT rowid FROM runs WHERE run_id = ?1)) ORDER BY rowid DESC LIMIT ?2";
        let mut statement = self.db.prepare_cached(sql)?;
        let found = statement.query_map(params![after, i64::from(limit) + 1], |row| row.get(0))?;
        let mut slugs: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
        let has_more = slugs.len() > limit as usize;
        slugs.truncate(limit as usize);
        let next = slugs.last().filter(|_| has_more).map(|slug| slug.parse()).transpose()?;
        let mut runs = Vec::with_capacity(slugs.len());
        for slug in &slugs {
            runs.extend(self.graph_within(slug, LISTED_BYTES_MAX, None)?);
        }
        Ok(GraphPage { runs, next })
    }

    /// The same, without the parts if they are larger than this.
    fn graph_within(&self, slug: &str, bytes_max: usize, layout: Option<GraphLayout>) -> Result<Option<String>> {
        let root = self.json_root();
        let mut statement = self
            .db
            .prepare_cached("SELECT kind, id, json FROM graph WHERE run_id = ?1 AND kind < ?2 ORDER BY kind, id")?;
        let mut rows = statement.query(params![slug, ASKED])?;
        let (mut parts, mut partial) = (Parts::default(), false);
        while let Some(row) = rows.next()? {
            parts.add(&GraphRow { kind: row.get(0)?, id: row.get(1)?, json: Some(row.get(2)?) }, &root);
            if parts.bytes() > bytes_max {
                partial = true;
                break;
            }
        }
        if parts.head.is_none() {
            return self.graph_folded(slug, &root, bytes_max, layout);
        }
        Ok(parts.joined(self.length(slug)?, partial, layout))
    }

    /// The graph of a run with rows that are not written yet, or from before there were any.
    fn graph_folded(
        &self,
        slug: &str,
        root: &str,
        bytes_max: usize,
        layout: Option<GraphLayout>,
    ) -> Result<Option<String>> {
        // A log that cannot be relied on has nothing to show; `norma verify` says why.
        let Ok((id, events, _)) = self.log(slug) else { return Ok(None) };
        let mut parts = Parts::default();
        rows(id, &events).iter().for_each(|row| parts.add(row, root));
        let partial = parts.bytes() > bytes_max;
        Ok(parts.joined(events.len() as u64, partial, layout))
    }

    /// How many facts the log of a run has.
    pub fn length(&self, slug: &str) -> Result<u64> {
        let mut last = self.db.prepare_cached("SELECT coalesce(max(seq), 0) FROM events WHERE run_id = ?1")?;
        Ok(last.query_row([slug], |row| row.get::<_, i64>(0))? as u64)
    }

    /// The repository as it is spelled within a JSON text.
    fn json_root(&self) -> String {
        let quoted = self.layout().root.to_string_lossy().text();
        quoted.trim_matches('"').to_owned()
    }

    /// A node of a run by its id, as the text of a `Node`; none if there is no such node.
    pub fn graph_node(&self, slug: &str, id: &str) -> Result<Option<String>> {
        self.graph_part(slug, NODE, id)
    }

    /// An edge of a run by its id, as the text of an `Edge`; none if there is no such edge.
    pub fn graph_edge(&self, slug: &str, id: &str) -> Result<Option<String>> {
        self.graph_part(slug, EDGE, id)
    }

    fn graph_part(&self, slug: &str, kind: u8, id: &str) -> Result<Option<String>> {
        let _moment = self.snapshot()?;
        if !is_there(&self.db, slug)? {
            let Ok((run, events, _)) = self.log(slug) else { return Ok(None) };
            let found = rows(run, &events).into_iter().find(|row| (row.kind, row.id.as_str()) == (kind, id));
            return Ok(found.and_then(|row| row.json));
        }
        let sql = "SELECT json FROM graph WHERE run_id = ?1 AND kind = ?2 AND id = ?3";
        let mut statement = self.db.prepare_cached(sql)?;
        Ok(statement.query_row(params![slug, kind, id], |row| row.get(0)).optional()?)
    }

    /// An artifact of a run by its id; none if there is no such artifact.
    pub fn graph_artifact(&self, slug: &str, id: &str) -> Result<Option<Artifact>> {
        let json = self.graph_part(slug, ARTIFACT, id)?;
        let mut text = String::new();
        json.iter().for_each(|json| absolute(&mut text, json, &self.json_root()));
        Ok(serde_json::from_str(&text).ok())
    }

    /// What people are asked and can still answer, of every run that waits for it, oldest first.
    pub fn asked(&self) -> Result<Vec<(RunId, Approval)>> {
        let sql = "SELECT runs.id, graph.json FROM approvals
                   JOIN graph ON graph.run_id = approvals.run_id AND graph.kind = ?1 AND graph.id = approvals.id
                   JOIN runs ON runs.run_id = approvals.run_id
                   WHERE decision IS NULL AND expires_at > ?2 AND runs.ended_at IS NULL AND runs.sealed = 0
                   ORDER BY approvals.id";
        let mut statement = self.db.prepare_cached(sql)?;
        let now = crate::log::now().to_string();
        let rows = statement.query_map(params![ASKED, now], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut asked = Vec::new();
        for row in rows {
            let (id, json): (String, String) = row?;
            asked.extend(RunId::parse(&id).ok().zip(serde_json::from_str(&json).ok()));
        }
        Ok(asked)
    }

    /// Whether the graph of a run is in the table: that of a run from an older norma is not before its next fact.
    pub fn has_graph(&self, slug: &str) -> Result<bool> {
        let mut statement = self.db.prepare_cached("SELECT 1 FROM graph WHERE run_id = ?1 LIMIT 1")?;
        Ok(statement.exists([slug])?)
    }

    /// Who tells a run from after this fact on. Everything before it is read for that: what is told of a fact is the same
    /// wherever one begins to listen.
    pub fn projector(&self, slug: &str, after: u64) -> Result<Projector> {
        let (id, events, _) = self.log(slug)?;
        let mut projector = Projector::new(id, &self.layout().root.to_string_lossy());
        events.iter().take_while(|event| event.seq <= after).for_each(|event| projector.skip(event));
        Ok(projector)
    }
}

/// Whether the rows of a run's graph are there.
pub(crate) fn is_there(db: &Connection, slug: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM graph WHERE run_id = ?1 AND kind = ?2)";
    Ok(db.prepare_cached(sql)?.query_row(params![slug, HEAD], |row| row.get(0))?)
}
