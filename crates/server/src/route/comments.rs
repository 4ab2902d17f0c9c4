//! Comments on the lines of a change, and what becomes of them: a message to the node that made it while its graph is open, or
//! else a run that fixes what they are about and may change nothing else, under the same tests. They are on record from the
//! moment they are written, also those on a run that was sealed.

use super::changes::{Judged, judged};
use super::graph::edit;
use super::sentence::{Proposed, Said, propose};
use super::{run_of, shown, work};
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use axum::http::StatusCode;
use contract::api::{NewComment, NewRun, SendBack};
use contract::graph::GraphEdit;
use contract::review::{Comment, CommentView, SentTo, Side};
use contract::{RepoPath, Status};
use runner::{Remark, Request};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How much of a run's goal is repeated to whoever fixes it.
const GOAL_CHARS: usize = 120;

pub(crate) fn add(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, judged) = change_of(app, call)?;
    let NewComment { path, line, side, text } = call.read()?;
    let path = RepoPath::parse(&path).map_err(|problem| Problem::at("/path", problem.to_string()))?;
    if !judged.files.is_empty() && !judged.files.iter().any(|file| file == path.as_str()) {
        return Err(Problem::at("/path", "the change has no such file"));
    }
    if text.trim().is_empty() {
        return Err(Problem::at("/text", "say what should be different"));
    }
    let comment = Comment { id: store::new_uuid(), change: judged.number, path, line, side, text };
    let (_, kept) = remark(app, call, &slug, Remark::Comment(comment))?;
    Ok(Reply::Json(StatusCode::CREATED, json!({ "comment": kept })))
}

pub(crate) fn withdraw(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, judged) = change_of(app, call)?;
    let id = call.name(2).to_owned();
    let found = on_change(app, &slug, judged.number)?.into_iter().find(|it| it.comment.id == id);
    let found = found.ok_or_else(|| Problem::not_found("there is no such comment"))?;
    if found.sent.is_some() {
        return Err(Problem::conflict("the comment was sent, so it is not taken back; write another one"));
    }
    remark(app, call, &slug, Remark::Withdraw { id })?;
    Reply::ok(json!({"ok": true}))
}

pub(crate) fn send_back(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    const WHAT: &str = "POST /api/runs/{id}/changes/{change}/send-back";
    let (slug, judged) = change_of(app, call)?;
    let given: SendBack = call.read()?;
    let open: Vec<CommentView> =
        on_change(app, &slug, judged.number)?.into_iter().filter(|it| it.sent.is_none()).collect();
    if open.is_empty() {
        let problem = Problem::conflict("there is no comment on this change that was not sent");
        return Err(problem.with(Vec::new(), Some("comment on a line of it first")));
    }
    let comments: Vec<String> = open.iter().map(|it| it.comment.id.clone()).collect();
    let sent = |to: SentTo| remark(app, call, &slug, Remark::Sent { comments: comments.clone(), to });
    if let Some(node) = author(app, &slug, judged.number)? {
        app.on_record(call, WHAT, Some(&slug))?;
        let say = GraphEdit::Say { id: store::new_uuid(), node: node.clone(), content: said(&open), interrupt: false };
        let told = edit(app, call, &slug, say, "")?;
        sent(SentTo::Node(node))?;
        return Ok(Reply::Json(StatusCode::CREATED, told));
    }
    let wanted = fix(app, &slug, &judged, &open, &given)?;
    let sentence = wanted.sentence.clone().unwrap_or_default();
    let start = match propose(app, call, &Said::of_run(&wanted, &sentence))? {
        Proposed::Shown(intake) => return Reply::ok(json!(intake.preview)),
        Proposed::Started(start) => start,
    };
    app.on_record(call, WHAT, Some(&slug))?;
    let (follower, notes) = app.hosting.start(&app.sender, start)?;
    sent(SentTo::Run(follower.run().id.slug()))?;
    work::begun(app, call, WHAT, follower, notes)
}

/// The run and the change that a path names.
fn change_of(app: &App, call: &Call) -> Outcome<(String, Judged)> {
    let slug = run_of(app, call.name(0))?;
    let number = call.name(1).parse().ok().filter(|number| *number > 0);
    let found = number.map(|number| judged(app, &slug, number)).transpose()?.flatten();
    Ok((slug, found.ok_or_else(|| Problem::not_found("there is no such change"))?))
}

fn on_change(app: &App, slug: &str, change: u32) -> Outcome<Vec<CommentView>> {
    let all = app.with_reader(|reader| reader.comments(slug))?;
    Ok(all.into_iter().filter(|it| it.comment.change == change).collect())
}

fn remark(app: &App, call: &Call, slug: &str, remark: Remark) -> Outcome<(String, serde_json::Value)> {
    app.ask(Request::Remark { run: slug.to_owned(), remark: Box::new(remark), by: call.principal.name.clone() })
}

/// The node that made a change, where it can still be told something.
fn author(app: &App, slug: &str, change: u32) -> Outcome<Option<String>> {
    let run = shown(app, slug)?;
    if run.workflow != contract::Workflow::Graph
        || !matches!(run.state, Status::Running | Status::Waiting | Status::Paused)
    {
        return Ok(None);
    }
    let made = run.artifacts.values().find(|it| it.change == Some(change)).map(|it| it.node_id.clone());
    Ok(made.filter(|node| run.nodes.contains_key(node)))
}

/// Comments as whoever fixes them reads them.
fn said(comments: &[CommentView]) -> String {
    let one = |CommentView { comment, .. }: &CommentView| {
        let removed = if comment.side == Side::Old { " (a line that was removed)" } else { "" };
        format!("{}:{}{removed}: {}", comment.path, comment.line, comment.text)
    };
    comments.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// What a run is asked for that fixes what comments are about.
fn fix(app: &App, slug: &str, judged: &Judged, comments: &[CommentView], given: &SendBack) -> Outcome<NewRun> {
    let goal: String = shown(app, slug)?.goal.chars().take(GOAL_CHARS).collect();
    let goal = if goal.is_empty() { slug.to_owned() } else { goal };
    let files: BTreeSet<String> = comments.iter().map(|it| it.comment.path.to_string()).collect();
    Ok(NewRun {
        sentence: Some(format!("Fix what the review of \u{201c}{goal}\u{201d} found. {}", said(comments))),
        agent: given.agent.clone().or_else(|| judged.worker.clone()),
        allow: files.into_iter().collect(),
        test: judged.tests.clone(),
        yes: given.yes,
        yes_wide: given.yes_wide,
        ..NewRun::default()
    })
}
