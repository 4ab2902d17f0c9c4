//! What people leave on a run while they look at it: comments on its changes, and where its graph is drawn. Both are facts of
//! the state directory, since a run that was sealed changes no more, and projected from there like everything else.

use crate::log::now;
use crate::{Error, Reader, Result, Store, Ticket};
use contract::review::{Arrangement, Comment, CommentView, SentTo};
use contract::view::graph::{GraphLayout, Position, Viewport};
use contract::{Audit, Slug, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

/// How many comments a run can have: all of them are read with its changes.
const COMMENTS_MAX: i64 = 1000;

impl Store {
    /// Puts a comment on record.
    pub fn comment(&self, run_id: Slug, comment: Comment, by: String) -> Ticket<CommentView> {
        self.submit(move |tx| {
            let sql = "SELECT count(*) FROM comments WHERE run_id = ?1";
            if tx.db.query_row(sql, [run_id.as_str()], |row| row.get::<_, i64>(0))? >= COMMENTS_MAX {
                return Err(Error::Refused(format!("run {run_id} has {COMMENTS_MAX} comments, which is the most")));
            }
            let at = now();
            tx.audit(&Audit::ChangeCommented { run_id, comment: comment.clone(), by: by.clone() }, at)?;
            Ok(CommentView { comment, by, at, sent: None })
        })
    }

    /// Takes back a comment that was not sent to anybody.
    pub fn withdraw_comment(&self, run_id: Slug, id: String, by: String) -> Ticket<()> {
        self.submit(move |tx| {
            let open = "SELECT EXISTS (SELECT 1 FROM comments WHERE id = ?1 AND run_id = ?2 AND sent_json IS NULL)";
            if !tx.db.query_row(open, params![id, run_id.as_str()], |row| row.get::<_, bool>(0))? {
                return Err(Error::Refused(format!("there is no comment {id} that could be taken back")));
            }
            tx.audit(&Audit::CommentWithdrawn { run_id, id, by }, now())
        })
    }

    /// Puts on record who got comments.
    pub fn send_comments(&self, run_id: Slug, comments: Vec<String>, to: SentTo, by: String) -> Ticket<()> {
        self.submit(move |tx| tx.audit(&Audit::CommentsSent { run_id, comments, to, by }, now()))
    }

    /// Puts on record where the graph of a run is drawn.
    pub fn arrange(&self, of: Slug, moved: Arrangement, by: String) -> Ticket<()> {
        self.submit(move |tx| tx.audit(&Audit::GraphArranged { of, moved, by }, now()))
    }
}

/// Projects one of these facts.
pub(crate) fn project(db: &Connection, fact: &Audit, ts: &str) -> Result<()> {
    match fact {
        Audit::ChangeCommented { run_id, comment, by } => db.execute(
            "INSERT INTO comments (id, run_id, change, comment_json, by, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![comment.id, run_id.as_str(), comment.change, json(comment), by, ts],
        ),
        Audit::CommentWithdrawn { run_id, id, .. } => {
            db.execute("DELETE FROM comments WHERE id = ?1 AND run_id = ?2", params![id, run_id.as_str()])
        }
        Audit::CommentsSent { run_id, comments, to, .. } => db.execute(
            "UPDATE comments SET sent_json = ?3 WHERE run_id = ?1 AND id IN (SELECT value FROM json_each(?2))",
            params![run_id.as_str(), json(comments), json(to)],
        ),
        Audit::GraphArranged { of, moved, .. } => {
            let before = arranged(db, of)?.map(|(before, _)| before).unwrap_or_default();
            db.execute(
                "INSERT OR REPLACE INTO arrangements (run_id, moved_json, at) VALUES (?1, ?2, ?3)",
                params![of.as_str(), json(&before.then(moved.clone())), ts],
            )
        }
        _ => Ok(0),
    }?;
    Ok(())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("BUG: what is on record is plain data")
}

/// What was moved of a graph so far, and when last.
fn arranged(db: &Connection, slug: &str) -> Result<Option<(Arrangement, Timestamp)>> {
    let sql = "SELECT moved_json, at FROM arrangements WHERE run_id = ?1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let found = db.prepare_cached(sql)?.query_row([slug], row).optional()?;
    Ok(found.and_then(|(moved, at)| Some((serde_json::from_str(&moved).ok()?, at.parse().ok()?))))
}

impl Reader {
    /// The comments on a run, oldest first.
    pub fn comments(&self, slug: &str) -> Result<Vec<CommentView>> {
        let sql = "SELECT comment_json, by, at, sent_json FROM comments WHERE run_id = ?1 ORDER BY at, rowid";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map([slug], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get::<_, Option<String>>(3)?))
        })?;
        let mut found = Vec::new();
        for row in rows {
            let (comment, by, at, sent) = row?;
            let Ok((comment, at)) = serde_json::from_str(&comment).map(|comment| (comment, at.parse())) else {
                continue;
            };
            let (Ok(at), sent) = (at, sent.and_then(|sent| serde_json::from_str(&sent).ok())) else { continue };
            found.push(CommentView { comment, by, at, sent });
        }
        Ok(found)
    }

    /// Where people have drawn the graph of a run.
    pub fn graph_layout(&self, slug: &str) -> Result<Option<GraphLayout>> {
        let place = |(x, y): (i64, i64)| Position { x: x as f64, y: y as f64 };
        let seen =
            |(x, y, scale): (i64, i64, u32)| Viewport { x: x as f64, y: y as f64, zoom: f64::from(scale) / 1000.0 };
        Ok(arranged(&self.db, slug)?.map(|(moved, updated_at)| GraphLayout {
            positions: moved.nodes.into_iter().map(|(id, at)| (id, place(at))).collect(),
            viewport: moved.viewport.map(seen),
            updated_at,
        }))
    }
}
