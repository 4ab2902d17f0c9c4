//! What a run changed: the whole difference, and every change by itself as it was judged, with its gates and what they
//! found, its tests, its receipt and its patch. All of it is read from the log and the evidence that the log vouches for.

use super::{run_of, spelled};
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use contract::review::CommentView;
use contract::work::Gate;
use contract::{ChangeEnd, Event, Fact, RepoPath, TreeId};
use run::Run;
use runner::git::{TEXT_BYTES_MAX, id};
use serde_json::{Value, json};
use std::sync::Arc;

/// Larger files are not shown whole.
const SHOWN_BYTES_MAX: u64 = 4 << 20;

/// What a mode of git says of the kind of an entry, and a regular file's.
const MODE_TYPE: u32 = 0o170_000;
const MODE_FILE: u32 = 0o100_000;

pub(crate) fn list(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, is_brief) = (run_of(app, call.name(0))?, call.flag("brief")?);
    let (run, events) = app.with_reader(|reader| {
        let (run, _) = reader.load(&slug)?;
        let (_, events, _) = reader.log(&slug)?;
        Ok((run, events))
    })?;
    let comments = app.with_reader(|reader| reader.comments(&slug))?;
    let (before, after) = run.asked_about().unwrap_or((run.ground().tree, run.tree()));
    let mut changes = Vec::new();
    for (number, event) in ended(&events) {
        let dir = format!("changes/{number:03}");
        let Some(patch) = app.with_reader(|reader| reader.evidence(&slug, &dir, "patch.diff"))? else { continue };
        let (added, removed) = lines(&patch);
        let mut change = json!({"change": number, "added": added, "removed": removed});
        if !is_brief {
            change["patch"] = json!(String::from_utf8_lossy(&patch));
        }
        let of_change: Vec<&CommentView> = comments.iter().filter(|it| it.comment.change == number).collect();
        if !of_change.is_empty() {
            change["comments"] = json!(of_change);
        }
        if let Some(end) = event.fact.change_end() {
            describe(&mut change, event, &end, &judgement(app, &slug, &dir)?);
            if !is_brief && end.gates.iter().any(|gate| gate.gate == Gate::Merged && !gate.passed) {
                change["conflicts"] = json!(conflicts(app, &slug, &dir, head_before(&run, &events, event.seq))?);
            }
        }
        changes.push(change);
    }
    let mut found = json!({"runId": run.id, "changes": changes});
    if !is_brief {
        let patch = app.hosting.state().objects.diff_text(id(before), id(after), TEXT_BYTES_MAX)?;
        found["patch"] = json!(String::from_utf8_lossy(&patch));
    }
    Reply::ok(found)
}

/// A text file as it was before a change, for whoever wants to read more around its lines; `0` is all that the run changed.
pub(crate) fn file(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let path = call.query("path").ok_or_else(|| Problem::invalid("path must be the path of a file"))?;
    let path = RepoPath::parse(path).map_err(|problem| Problem::invalid(format!("path: {problem}")))?;
    let number: u32 = call.name(1).parse().map_err(|_| Problem::not_found("there is no such change"))?;
    let (run, events) = app.with_reader(|reader| {
        let (run, _) = reader.load(&slug)?;
        let (_, events, _) = reader.log(&slug)?;
        Ok((run, events))
    })?;
    let before = match number {
        0 => run.asked_about().map_or(run.ground().tree, |(before, _)| before),
        _ => {
            let change = ended(&events).into_iter().find(|(ended, _)| *ended == number);
            let end = change.and_then(|(_, event)| event.fact.change_end());
            end.ok_or_else(|| Problem::not_found("there is no such change"))?.before
        }
    };
    let objects = &app.hosting.state().objects;
    let found = objects.tree_entry(id(before), path.as_str().as_bytes())?;
    let (_, blob) = found
        .filter(|(mode, _)| mode & MODE_TYPE == MODE_FILE)
        .ok_or_else(|| Problem::not_found("there was no such file before the change"))?;
    if objects.size(blob)? > SHOWN_BYTES_MAX {
        return Err(Problem::conflict(format!("the file is larger than {} MiB", SHOWN_BYTES_MAX >> 20)));
    }
    let text = String::from_utf8(objects.read_blob(blob)?);
    let text = text.map_err(|_| Problem::conflict("the file is not text"))?;
    Reply::ok(json!({"path": path, "text": text}))
}

/// What the run had made before an event.
fn head_before(run: &Run, events: &[Event], seq: u64) -> TreeId {
    let landed = events.iter().take_while(|event| event.seq < seq).filter_map(|event| event.fact.change_end());
    landed.filter(|end| end.commit.is_some()).last().map_or(run.started.tree, |end| end.after)
}

/// What stood in the way of a change that could not be merged, with both sides.
fn conflicts(app: &App, slug: &str, dir: &str, theirs: TreeId) -> Outcome<Vec<runner::Conflicting>> {
    let bytes = app.with_reader(|reader| reader.evidence(slug, dir, "RECEIPT.json"))?;
    let receipt = bytes.and_then(|bytes| serde_json::from_slice::<contract::Receipt>(&bytes).ok());
    let found =
        receipt.map(|receipt| runner::conflicts(&app.hosting.state().objects, &receipt.git, theirs)).transpose()?;
    Ok(found.unwrap_or_default())
}

/// A change that was judged, as far as somebody needs it who comments on it.
pub(super) struct Judged {
    pub(super) number: u32,
    /// What it changes.
    pub(super) files: Vec<String>,
    /// The commands that it was tested with, each as one line.
    pub(super) tests: Vec<String>,
    /// Who made it, where that is an agent of a contract.
    pub(super) worker: Option<String>,
}

/// A change by its number; none if there is no such change, or it has not come to its end.
pub(super) fn judged(app: &App, slug: &str, number: u32) -> Outcome<Option<Judged>> {
    let (run, events) = app.with_reader(|reader| {
        let (id, events, _) = reader.log(slug)?;
        Ok((Run::fold(id, &events), events))
    })?;
    let run = run.map_err(|illegal| Problem::internal(&illegal.why))?;
    let Some((_, event)) = ended(&events).into_iter().find(|(ended, _)| *ended == number) else { return Ok(None) };
    let told = judgement(app, slug, &format!("changes/{number:03}"))?;
    let texts = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let commands = told.pointer("/tests/commands").and_then(Value::as_array).into_iter().flatten();
    let item = match &event.fact {
        Fact::ItemEnded(ended) => run.items().get(ended.item as usize),
        _ => None,
    };
    Ok(Some(Judged {
        number,
        files: texts(&told["files"]),
        tests: commands.map(|it| spelled(&texts(&it["argv"]))).collect(),
        worker: item.map(|state| state.item.worker.clone()),
    }))
}

/// How many lines a patch adds and removes.
fn lines(patch: &[u8]) -> (u64, u64) {
    let (mut added, mut removed, mut is_hunk) = (0, 0, false);
    for line in patch.split(|byte| *byte == b'\n') {
        match line.first() {
            Some(b'@') => is_hunk = true,
            Some(b'd') => is_hunk = false,
            Some(b'+') if is_hunk => added += 1,
            Some(b'-') if is_hunk => removed += 1,
            _ => {}
        }
    }
    (added, removed)
}

/// The changes that came to an end, each with the fact that says so, in the order of their numbers.
fn ended(events: &[Event]) -> Vec<(u32, &Event)> {
    let mut found: Vec<(u32, &Event)> =
        events.iter().filter_map(|event| Some((event.fact.change_end()?.change, event))).collect();
    found.sort_by_key(|(number, _)| *number);
    found
}

/// `gates.json` of a change; nothing where it has none.
fn judgement(app: &App, slug: &str, dir: &str) -> Outcome<Value> {
    let bytes = app.with_reader(|reader| reader.evidence(slug, dir, "gates.json"))?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null))
}

fn describe(change: &mut Value, event: &Event, end: &ChangeEnd<'_>, judged: &Value) {
    change["seq"] = json!(event.seq);
    change["at"] = json!(event.ts);
    change["status"] = json!(end.status);
    change["gates"] = json!(end.gates);
    change["lands"] = json!(end.lands);
    change["trees"] = json!({"before": end.before, "after": end.after});
    if let Some(reason) = end.reason {
        change["reason"] = json!(reason);
    }
    if let Some(commit) = end.commit {
        change["commit"] = json!(commit);
    }
    if let Some(receipt) = end.receipt {
        change["receipt"] = json!({"id": receipt.id, "hash": receipt.receipt_hash});
    }
    if let Fact::ItemEnded(ended) = &event.fact {
        change["message"] = json!(ended.message);
    }
    for (name, pointer) in [("files", "/files"), ("tests", "/tests")] {
        if let Some(value) = judged.pointer(pointer).filter(|value| !value.is_null()) {
            change[name] = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_that_look_like_heads_count_and_heads_do_not() {
        let patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n one\n--- two\n+++ two\n+three\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-gone\n";
        assert_eq!(super::lines(patch), (2, 2));
    }
}
