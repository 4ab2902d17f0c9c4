//! Graphs that people build: nodes, edges and what is said to nodes. Each is an edit that the host carries out; what is
//! answered is read from the record after it is durable, so it is what a snapshot would show.

use super::run_of;
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use axum::http::StatusCode;
use contract::api::{AddNode, Chat, PatchNode, SetEdge};
use contract::graph::{GraphEdit, NodeWishes};
use contract::view::graph::RunGraph;
use runner::{EditProblem, Error, Request};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The only version of the contract with clients that there is.
const CONTRACT_VERSION: &str = "1";

/// Refuses a client that speaks of another version of the contract.
pub(super) fn require_version(given: Option<&str>) -> Outcome<()> {
    match given {
        None | Some(CONTRACT_VERSION) => Ok(()),
        Some(other) => {
            let other: String = other.chars().take(32).collect();
            let message = format!(
                "this server has contract version {CONTRACT_VERSION}, not {other:?}; there is no other version to migrate \
                 from or to: send \"{CONTRACT_VERSION}\" or leave it out (norma help graphs)"
            );
            Err(Problem::at("/contractVersion", message))
        }
    }
}

/// Has the host edit a graph. What is wrong with what was asked for is told below `member`, the part of the body that it is.
pub(super) fn edit(app: &App, call: &Call, slug: &str, edit: GraphEdit, member: &str) -> Outcome<Value> {
    let (edit, by) = (Box::new(edit), call.principal.name.clone());
    match app.hosting.ask(Request::Edit { run: slug.to_owned(), edit, by }) {
        Ok((_, value)) => Ok(value),
        Err(Error::Edit(EditProblem::Invalid { pointer, message })) => {
            Err(Problem::at(&format!("{member}{pointer}"), message))
        }
        Err(error) => Err(error.into()),
    }
}

/// The node that a path names, by its id.
fn node_of(app: &App, slug: &str, id: &str) -> Outcome<String> {
    let found = app.with_reader(|reader| reader.graph_node(slug, id))?;
    found.ok_or_else(|| Problem::not_found("there is no such node"))
}

/// `{node}`, as the run's snapshot has it.
fn with_node(app: &App, slug: &str, id: &str, status: StatusCode) -> Outcome<Reply> {
    Ok(Reply::Spelled(status, format!(r#"{{"node":{}}}"#, node_of(app, slug, id)?)))
}

pub(crate) fn add_node(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let AddNode { node, contract_version } = call.read()?;
    require_version(contract_version.as_deref())?;
    let made = edit(app, call, &slug, GraphEdit::AddNode { node: Box::new(node) }, "/node")?;
    app.on_record(call, "POST /api/runs/{id}/nodes", Some(&slug))?;
    with_node(app, &slug, made["nodeId"].as_str().unwrap_or_default(), StatusCode::CREATED)
}

pub(crate) fn patch_node(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, id) = named(app, call)?;
    let PatchNode { patch, config } = call.read()?;
    let patch = Box::new(merged(config, patch)?);
    edit(app, call, &slug, GraphEdit::PatchNode { node: id.clone(), patch }, "/patch")?;
    app.on_record(call, "PATCH /api/runs/{id}/nodes/{node}", Some(&slug))?;
    with_node(app, &slug, &id, StatusCode::OK)
}

/// Two sets of wishes as one, in which the second counts first.
fn merged(config: Option<NodeWishes>, patch: NodeWishes) -> Outcome<NodeWishes> {
    let Some(config) = config else { return Ok(patch) };
    let members = |wishes: NodeWishes| match json!(wishes) {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let all = members(config).into_iter().chain(members(patch)).collect();
    serde_json::from_value(Value::Object(all)).map_err(|why| Problem::internal(&why))
}

/// The run and the node that a path names.
fn named(app: &App, call: &Call) -> Outcome<(String, String)> {
    let (slug, id) = (run_of(app, call.name(0))?, call.name(1).to_owned());
    node_of(app, &slug, &id)?;
    Ok((slug, id))
}

pub(crate) fn remove_node(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, id) = named(app, call)?;
    edit(app, call, &slug, GraphEdit::RemoveNode { node: id.clone() }, "")?;
    app.on_record(call, "DELETE /api/runs/{id}/nodes/{node}", Some(&slug))?;
    Reply::ok(json!({"nodeId": id}))
}

/// Something that is done to a node and needs no more words.
fn act(app: &App, call: &Call, verb: &str, wish: impl FnOnce(String) -> GraphEdit) -> Outcome<Reply> {
    let (slug, id) = named(app, call)?;
    edit(app, call, &slug, wish(id), "")?;
    app.on_record(call, &format!("POST /api/runs/{{id}}/nodes/{{node}}/{verb}"), Some(&slug))?;
    Reply::ok(json!({"ok": true}))
}

pub(crate) fn reset(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    act(app, call, "reset", |node| GraphEdit::ResetNode { node })
}

pub(crate) fn interrupt(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    act(app, call, "interrupt", |node| GraphEdit::InterruptNode { node, id: store::new_uuid() })
}

pub(crate) fn stop(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    act(app, call, "stop", |node| GraphEdit::HoldNode { node, held: true })
}

pub(crate) fn start(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    act(app, call, "start", |node| GraphEdit::HoldNode { node, held: false })
}

pub(crate) fn set_edge(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let SetEdge { edge, contract_version } = call.read()?;
    require_version(contract_version.as_deref())?;
    let set = edit(app, call, &slug, GraphEdit::SetEdge { edge, id: store::new_uuid() }, "/edge")?;
    app.on_record(call, "POST /api/runs/{id}/edges", Some(&slug))?;
    let found = app.with_reader(|reader| reader.graph_edge(&slug, set["edgeId"].as_str().unwrap_or_default()))?;
    let edge = found.ok_or_else(|| Problem::conflict("the edge is gone again"))?;
    Ok(Reply::Spelled(StatusCode::CREATED, format!(r#"{{"edge":{edge}}}"#)))
}

pub(crate) fn remove_edge(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (slug, id) = (run_of(app, call.name(0))?, call.name(1).to_owned());
    edit(app, call, &slug, GraphEdit::RemoveEdge { edge: id.clone() }, "")?;
    app.on_record(call, "DELETE /api/runs/{id}/edges/{edge}", Some(&slug))?;
    Reply::ok(json!({"edgeId": id}))
}

pub(crate) fn chat(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let slug = run_of(app, call.name(0))?;
    let Chat { node_id, content, interrupt, contract_version } = call.read()?;
    require_version(contract_version.as_deref())?;
    let node = match node_id {
        Some(id) => id,
        None => addressee(&super::shown(app, &slug)?)?,
    };
    let id = store::new_uuid();
    let said = edit(app, call, &slug, GraphEdit::Say { id, node, content, interrupt }, "")?;
    app.on_record(call, "POST /api/runs/{id}/chat", Some(&slug))?;
    Ok(Reply::Json(StatusCode::CREATED, said))
}

/// Who is meant where nobody is named: whoever leads the graph, or the only node.
fn addressee(run: &RunGraph) -> Outcome<String> {
    let leads = |role: &str| role.eq_ignore_ascii_case(contract::graph::ORCHESTRATOR);
    let mut leaders = run.nodes.values().filter(|node| leads(&node.role_template));
    let mut all = run.nodes.values();
    match (leaders.next(), all.next(), all.next()) {
        (Some(leader), ..) => Ok(leader.id.clone()),
        (None, Some(only), None) => Ok(only.id.clone()),
        _ => Err(Problem::at("/nodeId", "name a node: the graph has no orchestrator, and not exactly one node")),
    }
}
