//! Tasks: what people want done, in small integers, with what must be done first. Changing them is a fact of
//! the state directory; checks that need the present state run inside the writer's transaction.

use crate::log::{Tx, now};
use crate::{Error, Result, Store, Ticket};
use contract::{AcceptanceCriterion, Audit, TaskStatus};
use rusqlite::OptionalExtension;
use std::collections::BTreeSet;

impl Store {
    /// Adds a task; answers its id. Criteria are numbered AC1, AC2, …
    pub fn add_task(&self, goal: String, criteria: Vec<String>) -> Ticket<i64> {
        self.submit(move |tx| {
            let task_id = tx.db.query_row(
                "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'tasks'), 0) + 1",
                [],
                |row| row.get(0),
            )?;
            let acceptance_criteria = numbered(criteria);
            tx.audit(&Audit::TaskAdded { task_id, goal, acceptance_criteria }, now())?;
            Ok(task_id)
        })
    }

    /// Makes a task wait for others; a cycle is refused.
    pub fn link_task(&self, task_id: i64, depends_on: Vec<i64>) -> Ticket<()> {
        self.submit(move |tx| {
            for task in depends_on.iter().chain([&task_id]) {
                require_task(tx, *task)?;
            }
            for other in &depends_on {
                if let Some(path) = path_between(tx, *other, task_id)? {
                    let shown: Vec<String> = path.iter().map(ToString::to_string).collect();
                    let why = format!("task {task_id} cannot wait for {other}: {} would be a cycle", shown.join(" → "));
                    return Err(Error::Refused(why));
                }
            }
            tx.audit(&Audit::TaskLinked { task_id, depends_on }, now())
        })
    }

    /// A person says the task is done.
    pub fn finish_task(&self, task_id: i64) -> Ticket<()> {
        self.submit(move |tx| {
            require_task(tx, task_id)?;
            tx.audit(&Audit::TaskDone { task_id }, now())
        })
    }

    /// Changes what a task asks for, all of the criteria at once; what is not given stays. A run is under the contract
    /// that it was started with, so a task that a run works on is refused.
    pub fn edit_task(&self, task_id: i64, goal: Option<String>, criteria: Option<Vec<String>>) -> Ticket<()> {
        self.submit(move |tx| {
            require_idle(tx, task_id, "changed")?;
            tx.audit(&Audit::TaskEdited { task_id, goal, acceptance_criteria: criteria.map(numbered) }, now())
        })
    }

    /// Removes a task that no run works on and no other task waits for. Its runs stay as they are.
    pub fn remove_task(&self, task_id: i64) -> Ticket<()> {
        self.submit(move |tx| {
            require_idle(tx, task_id, "removed")?;
            let sql = "SELECT task_id FROM task_edges WHERE depends_on_id = ?1 ORDER BY task_id LIMIT 1";
            let waiting: Option<i64> = tx.db.query_row(sql, [task_id], |row| row.get(0)).optional()?;
            if let Some(other) = waiting {
                return Err(Error::Refused(format!("task {other} waits for task {task_id}, so it is not removed")));
            }
            tx.audit(&Audit::TaskRemoved { task_id }, now())
        })
    }
}

/// Criteria by their numbers: AC1, AC2, …
fn numbered(criteria: Vec<String>) -> Vec<AcceptanceCriterion> {
    (1..).zip(criteria).map(|(n, text)| AcceptanceCriterion { id: format!("AC{n}"), text }).collect()
}

fn require_idle(tx: &Tx<'_>, task: i64, done: &str) -> Result<()> {
    require_task(tx, task)?;
    let status: String = tx.db.query_row("SELECT status FROM tasks WHERE id = ?1", [task], |row| row.get(0))?;
    match status == TaskStatus::Doing.as_str() {
        true => Err(Error::Refused(format!("a run of task {task} has not ended, so it is not {done}"))),
        false => Ok(()),
    }
}

fn require_task(tx: &Tx<'_>, task: i64) -> Result<()> {
    let found: Option<i64> =
        tx.db.query_row("SELECT id FROM tasks WHERE id = ?1", [task], |row| row.get(0)).optional()?;
    found.map(|_| ()).ok_or_else(|| Error::Refused(format!("there is no task {task}")))
}

/// A way from `from` to `to` along dependencies, both ends included.
fn path_between(tx: &Tx<'_>, from: i64, to: i64) -> Result<Option<Vec<i64>>> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![vec![to, from]];
    while let Some(path) = waiting.pop() {
        let here = *path.last().expect("BUG: a path has an end");
        if here == to {
            return Ok(Some(path));
        }
        if !seen.insert(here) {
            continue;
        }
        let mut edges = tx.db.prepare_cached("SELECT depends_on_id FROM task_edges WHERE task_id = ?1")?;
        for next in edges.query_map([here], |row| row.get(0))? {
            let mut longer = path.clone();
            longer.push(next?);
            waiting.push(longer);
        }
    }
    Ok(None)
}
