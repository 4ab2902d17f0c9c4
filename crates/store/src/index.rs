//! The index tables as projections of the logs: for each fact, the rows it changes. Used in the transaction
//! that appends the fact, and again by `norma reindex`, so the tables can always be thrown away.

use crate::{Error, Result, review};
use contract::{
    Audit, Earlier, Event, Fact, IntentFact, ItemAdded, ItemEnded, Landing, Reason, RunId, RunStarted, Status,
    StepCommitted, StepRef, TaskStatus, Timestamp,
};
use rusqlite::{Connection, params};

/// What `runs.sealed` says of a run that was set aside. Older versions take it for one that is sealed, and leave it
/// alone too.
pub(crate) const QUARANTINED: i64 = 2;

/// Projects one fact of a run.
pub(crate) fn fact(db: &Connection, run: &RunId, event: &Event) -> Result<()> {
    let slug = run.slug();
    let slug = slug.as_str();
    match &event.fact {
        Fact::RunStarted(started) => run_started(db, run, started, event.ts)?,
        // The turns of a node are numbered by themselves, and are no rounds of the run. It starts in the first one.
        Fact::StepStarted { step, .. } if step.node.is_none() && step.iteration > 1 => {
            exec(
                db,
                "UPDATE runs SET iteration = ?2 WHERE run_id = ?1 AND iteration <> ?2",
                params![slug, step.iteration],
            )?;
        }
        Fact::StepCommitted(done) => step_committed(db, slug, done, event.ts)?,
        Fact::ReconciledStep { step, dir, .. } => step_reconciled(db, slug, *step, dir, event.ts)?,
        Fact::Verdict(given) => {
            let verdict = given.verdict.as_str();
            exec(db, "UPDATE runs SET verdict = ?2 WHERE run_id = ?1", params![slug, verdict])?;
        }
        Fact::PatchApplied(applied) => {
            exec(
                db,
                "INSERT INTO kv_run (run_id, key, value_json) VALUES (?1, 'tree', ?2)
                 ON CONFLICT DO UPDATE SET value_json = excluded.value_json",
                params![slug, serde_json::json!(applied.after).to_string()],
            )?;
        }
        Fact::ChangeDropped(dropped) => {
            exec(
                db,
                "UPDATE steps SET status = 'fail', reason = ?3 WHERE run_id = ?1 AND step_index = ?2",
                params![slug, dropped.step, dropped.reason.as_str()],
            )?;
        }
        Fact::LandingStarted(landing) => {
            exec(db, "UPDATE runs SET result = ?2 WHERE run_id = ?1", params![slug, landing.commit.to_string()])?;
        }
        Fact::Landed(landing) => set_landing(db, slug, Some(landing))?,
        Fact::ItemAdded(added) => item_added(db, slug, added, event.ts)?,
        Fact::Intent(IntentFact::PatchProposed(proposed)) => item_added(db, slug, &proposed.added, event.ts)?,
        Fact::ItemEnded(ended) => item_ended(db, slug, ended, event.ts)?,
        _ => {}
    }
    if let Some((status, reason)) = event.fact.run_state() {
        run_state(db, slug, status, reason, event)?;
    }
    Ok(())
}

/// Projects one fact of the state directory.
pub(crate) fn audit(db: &Connection, fact: &Audit, ts: &str) -> Result<()> {
    match fact {
        Audit::TaskAdded { .. }
        | Audit::TaskLinked { .. }
        | Audit::TaskDone { .. }
        | Audit::TaskEdited { .. }
        | Audit::TaskRemoved { .. } => task(db, fact, ts),
        Audit::RunState { run_id, task_id: Some(task), status, reason, .. } => {
            let word = TaskStatus::after_run(*status, *reason).as_str();
            exec(
                db,
                // A run that was removed from the database is missed by `verify`; its task is still there.
                "UPDATE tasks SET status = ?2, run_id = (SELECT run_id FROM runs WHERE run_id = ?3), updated_at = ?4
                 WHERE id = ?1",
                params![task, word, run_id.as_str(), ts],
            )
        }
        Audit::IntentCreated { intent_id, document, by } => exec(
            db,
            "INSERT INTO intents (id, created_at, created_by, document) VALUES (?1, ?2, ?3, ?4)",
            params![intent_id, ts, by, document],
        ),
        Audit::ChangeCommented { .. }
        | Audit::CommentWithdrawn { .. }
        | Audit::CommentsSent { .. }
        | Audit::GraphArranged { .. } => review::project(db, fact, ts),
        Audit::RunQuarantined { run_id, to, .. } => set_aside(db, run_id, to.as_deref(), ts),
        Audit::RunUnlisted { run_id, .. } => mark(db, "unlisted", run_id),
        Audit::RunSealed { run_id, .. } => mark(db, "sealed", run_id),
        Audit::Landed { run_id, landing } => set_landing(db, run_id, Some(landing)),
        Audit::Undone { run_id, .. } => set_landing(db, run_id, None),
        Audit::ApprovalAsked { id, run_id, reasons, bound, expires_at } => {
            let reasons = serde_json::to_string(reasons).expect("BUG: reasons are plain data");
            exec(
                db,
                "INSERT INTO approvals (id, run_id, reasons_json, bound, asked_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![id.to_string(), run_id.as_str(), reasons, bound.to_string(), ts, expires_at.to_string()],
            )
        }
        // Times have one spelling, so their texts compare as they do.
        Audit::ApprovalAnswered { id, decision, by, reason, terms } => exactly_one(
            db,
            "UPDATE approvals SET decision = ?2, decided_by = ?3, reason = ?4, answered_at = ?5, terms_json = ?6
             WHERE id = ?1 AND decision IS NULL AND expires_at > ?5",
            params![id.to_string(), decision.as_str(), by, reason, ts, serde_json::to_string(terms).ok()],
            &format!("approval {id} was not open for an answer"),
        ),
        Audit::ApprovalUsed { id, run_id } => exactly_one(
            db,
            "UPDATE approvals SET used_at = ?3
             WHERE id = ?1 AND run_id = ?2 AND decision = 'granted' AND used_at IS NULL AND expires_at > ?3",
            params![id.to_string(), run_id.as_str(), ts],
            &format!("approval {id} was not there to be used by {run_id}"),
        ),
        Audit::Initialized { .. }
        | Audit::RunState { task_id: None, .. }
        | Audit::Quarantined { .. }
        | Audit::Replayed { .. }
        | Audit::Requested { .. }
        | Audit::ContractRefused { .. }
        | Audit::CheckpointAccepted { .. }
        | Audit::RefusedFilesRemoved { .. }
        | Audit::Reindexed { .. } => Ok(()),
    }
}

/// Projects what people say of a task.
fn task(db: &Connection, fact: &Audit, ts: &str) -> Result<()> {
    match fact {
        Audit::TaskAdded { task_id, goal, acceptance_criteria } => {
            let criteria = serde_json::to_string(acceptance_criteria).expect("BUG: criteria are plain data");
            exec(
                db,
                "INSERT INTO tasks (id, title, status, created_at, updated_at, goal, acceptance_criteria_json)
                 VALUES (?1, ?2, 'todo', ?3, ?3, ?2, ?4)",
                params![task_id, goal, ts, criteria],
            )
        }
        Audit::TaskLinked { task_id, depends_on } => {
            for other in depends_on {
                exec(
                    db,
                    "INSERT OR IGNORE INTO task_edges (task_id, depends_on_id) VALUES (?1, ?2)",
                    params![task_id, other],
                )?;
            }
            exec(db, "UPDATE tasks SET updated_at = ?2 WHERE id = ?1", params![task_id, ts])
        }
        Audit::TaskDone { task_id } => {
            exec(db, "UPDATE tasks SET status = 'done', updated_at = ?2 WHERE id = ?1", params![task_id, ts])
        }
        Audit::TaskEdited { task_id, goal, acceptance_criteria } => {
            let criteria = acceptance_criteria.as_ref();
            let criteria = criteria.map(|it| serde_json::to_string(it).expect("BUG: criteria are plain data"));
            exec(
                db,
                "UPDATE tasks SET title = coalesce(?2, title), goal = coalesce(?2, goal), updated_at = ?4,
                   acceptance_criteria_json = coalesce(?3, acceptance_criteria_json) WHERE id = ?1",
                params![task_id, goal, criteria, ts],
            )
        }
        Audit::TaskRemoved { task_id } => exec(db, "DELETE FROM tasks WHERE id = ?1", params![task_id]),
        _ => Ok(()),
    }
}

/// Sets a mark of a run.
fn mark(db: &Connection, column: &str, slug: &str) -> Result<()> {
    exec(db, &format!("UPDATE runs SET {column} = 1 WHERE run_id = ?1"), params![slug])
}

/// A run that was set aside is open no more, and its task waits for another one.
fn set_aside(db: &Connection, slug: &str, to: Option<&str>, ts: &str) -> Result<()> {
    exec(
        db,
        "UPDATE runs SET sealed = ?2, run_dir = coalesce(replace(run_dir, 'runs/' || run_id, ?3), run_dir)
         WHERE run_id = ?1",
        params![slug, QUARANTINED, to],
    )?;
    exec(
        db,
        "UPDATE tasks SET status = 'todo', run_id = NULL, updated_at = ?2 WHERE run_id = ?1 AND status <> 'done'",
        params![slug, ts],
    )
}

fn exec(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<()> {
    db.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

/// For what may happen once: a log in which it happened twice, or too late, contradicts itself.
fn exactly_one(db: &Connection, sql: &str, params: impl rusqlite::Params, otherwise: &str) -> Result<()> {
    match db.prepare_cached(sql)?.execute(params)? {
        1 => Ok(()),
        _ => Err(Error::Damaged { log: "audit".to_owned(), why: otherwise.to_owned() }),
    }
}

fn run_started(db: &Connection, run: &RunId, started: &RunStarted, ts: Timestamp) -> Result<()> {
    let sandbox = serde_json::to_value(started.contract.sandbox).expect("BUG: a backend is plain data");
    exec(
        db,
        "INSERT INTO runs (run_id, created_at, goal, status, iteration, run_dir, id, state, base, task_id, parent, sandbox)
         VALUES (?1, ?2, ?3, 'running', 1, ?4, ?5, 'running', ?6, ?7, ?8, ?9)
         ON CONFLICT (run_id) DO UPDATE SET created_at = excluded.created_at, goal = excluded.goal, iteration = 1,
           current_step_index = 0, verdict = NULL, run_dir = excluded.run_dir, id = excluded.id, ended_at = NULL,
           base = excluded.base, result = NULL, landing_json = NULL, task_id = excluded.task_id, parent = excluded.parent,
           sandbox = excluded.sandbox, sealed = 0",
        params![
            run.slug().as_str(),
            ts.to_string(),
            started.contract.goal,
            started.run_dir,
            run.uuid(),
            started.base.commit.to_string(),
            started.contract.task_id,
            started.parent.as_deref(),
            sandbox.as_str(),
        ],
    )?;
    let Some(intent) = &started.contract.intent else { return Ok(()) };
    // What is carried out again to be compared says nothing about the intent.
    if started.replay_of.is_some() {
        return Ok(());
    }
    exec(
        db,
        "INSERT OR REPLACE INTO intent_runs (run_id, intent_id) VALUES (?1, ?2)",
        params![run.slug().as_str(), intent.id],
    )
}

fn item_added(db: &Connection, slug: &str, added: &ItemAdded, ts: Timestamp) -> Result<()> {
    exec(
        db,
        "INSERT INTO items (run_id, place, task_id, agent_id) VALUES (?1, ?2, ?3, ?4)",
        params![slug, added.index, added.item.id, added.item.agent_id],
    )?;
    match &added.earlier {
        // Its commit belongs to the run that made it: a change is found where it landed, once.
        Some(Earlier::Done { ended, .. }) => item_ended(db, slug, &ItemEnded { commit: None, ..(**ended).clone() }, ts),
        Some(Earlier::Unfinished { .. }) | None => Ok(()),
    }
}

fn item_ended(db: &Connection, slug: &str, ended: &ItemEnded, ts: Timestamp) -> Result<()> {
    exec(
        db,
        "UPDATE items SET status = ?3, reason = ?4, message = ?5, receipt_id = ?6, content_hash = ?7, commit_id = ?8,
           ended_at = ?9 WHERE run_id = ?1 AND place = ?2",
        params![
            slug,
            ended.item,
            ended.status.as_str(),
            ended.reason.map(Reason::as_str),
            ended.message,
            ended.receipt.id,
            ended.receipt.content_hash.to_string(),
            ended.commit.map(|commit| commit.to_string()),
            ts.to_string(),
        ],
    )
}

fn step_committed(db: &Connection, slug: &str, done: &StepCommitted, ts: Timestamp) -> Result<()> {
    let row = StepRow {
        step: done.step,
        status: done.status.as_str(),
        dir: &done.dir,
        started_at: done.started_at,
        ended_at: ts,
        summary: Some(&done.summary),
        reason: done.reason,
    };
    insert_step(db, slug, &row)
}

fn step_reconciled(db: &Connection, slug: &str, step: StepRef, dir: &str, ts: Timestamp) -> Result<()> {
    let row = StepRow {
        step,
        status: "fail",
        dir,
        started_at: ts,
        ended_at: ts,
        summary: None,
        reason: Some(Reason::Interrupted),
    };
    insert_step(db, slug, &row)
}

struct StepRow<'a> {
    step: StepRef,
    status: &'a str,
    dir: &'a str,
    started_at: Timestamp,
    ended_at: Timestamp,
    summary: Option<&'a str>,
    reason: Option<Reason>,
}

fn insert_step(db: &Connection, slug: &str, row: &StepRow<'_>) -> Result<()> {
    exec(
        db,
        "INSERT INTO steps (run_id, step_index, role, iteration, status, step_dir, started_at, ended_at, summary, attempt, reason)
         SELECT ?1, ?2, ?3, ?4, ?5, run_dir || '/' || ?6, ?7, ?8, ?9, ?10, ?11 FROM runs WHERE run_id = ?1",
        params![
            slug,
            row.step.index,
            row.step.role.as_str(),
            row.step.iteration,
            row.status,
            row.dir,
            row.started_at.to_string(),
            row.ended_at.to_string(),
            row.summary,
            row.step.attempt,
            row.reason.map(Reason::as_str),
        ],
    )?;
    exec(db, "UPDATE runs SET current_step_index = ?2 WHERE run_id = ?1", params![slug, row.step.index])
}

fn run_state(db: &Connection, slug: &str, status: Status, reason: Option<Reason>, event: &Event) -> Result<()> {
    let ended = status.is_terminal().then(|| event.ts.to_string());
    let message = match &event.fact {
        Fact::RunStarted(_) | Fact::RunResumed { .. } => None,
        fact => Some(fact.message()),
    };
    exec(
        db,
        "UPDATE runs SET status = ?2, state = ?3, reason = ?4, message = ?5, ended_at = ?6 WHERE run_id = ?1",
        params![slug, status.legacy(reason), status.as_str(), reason.map(Reason::as_str), message, ended],
    )
}

fn set_landing(db: &Connection, slug: &str, landing: Option<&Landing>) -> Result<()> {
    let text = landing.map(|landing| serde_json::to_string(landing).expect("BUG: a landing is plain data"));
    exec(db, "UPDATE runs SET landing_json = ?2 WHERE run_id = ?1", params![slug, text])
}
