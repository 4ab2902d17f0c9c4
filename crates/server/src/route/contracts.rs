//! Contracts before they are run, and what agents are told.

use super::work;
use crate::App;
use crate::call::{Call, Reply};
use crate::problem::{Outcome, Problem};
use contract::RoleName;
use contract::api::PutTemplate;
use run::prompt::Templates;
use serde_json::{Value, json};
use std::sync::Arc;

/// Whether a task contract or a batch of work items would be accepted; everything that is wrong with it, if not.
pub(crate) fn check(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    if call.body.is_empty() {
        return Err(Problem::at("", "expected a task contract or work items"));
    }
    let text = std::str::from_utf8(&call.body).map_err(|_| Problem::at("", "it is not UTF-8"))?;
    let submitted = work::check(app, "", text)?;
    let items = submitted.items.unwrap_or_default();
    let objects = &app.hosting.state().objects;
    let tree = app.hosting.context().user.head()?.tree;
    let reasons = runner::approval_reasons(objects, tree, items.iter(), &app.settings()?.policies)?;
    Reply::ok(json!({
        "ok": true,
        "kind": submitted.kind.map(|kind| kind.as_str()),
        "sha256": submitted.sha256,
        "items": items.iter().map(|item| json!({"id": item.id, "goal": item.goal, "agent": item.worker})).collect::<Vec<_>>(),
        "approval_for": reasons,
    }))
}

fn told(templates: &Templates, name: &str) -> Option<Value> {
    let (source, content) = templates.text(name)?;
    let source = if source == "built-in" { "system" } else { "repo" };
    Some(json!({"name": name, "content": content, "source": source}))
}

pub(crate) fn templates(app: &Arc<App>, _: &Call) -> Outcome<Reply> {
    let templates = runner::load_templates(&app.layout)?;
    let all: Vec<Value> = templates.all().keys().filter_map(|name| told(&templates, name)).collect();
    Reply::ok(json!({ "templates": all }))
}

pub(crate) fn template(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let templates = runner::load_templates(&app.layout)?;
    let found = told(&templates, call.name(0)).ok_or_else(|| Problem::not_found("there is no such template"))?;
    Reply::ok(json!({ "template": found }))
}

/// The name of a template, as a role can have it: it becomes the name of a file.
fn template_name(call: &Call) -> Outcome<RoleName> {
    RoleName::parse(call.name(0)).ok_or_else(|| {
        Problem::invalid("the name of a template is a letter and at most 31 letters, digits, `_` or `-`")
    })
}

pub(crate) fn put_template(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let (name, PutTemplate { content }) = (template_name(call)?, call.read()?);
    runner::write_template(&app.layout, &name, &content)?;
    app.on_record(call, "PUT /api/templates/{name}", Some(name.as_str()))?;
    template(app, call)
}

pub(crate) fn delete_template(app: &Arc<App>, call: &Call) -> Outcome<Reply> {
    let name = template_name(call)?;
    if !runner::remove_template(&app.layout, &name)? {
        return Err(Problem::not_found("nobody wrote such a template"));
    }
    app.on_record(call, "DELETE /api/templates/{name}", Some(name.as_str()))?;
    Reply::ok(json!({"name": name}))
}
