//! `/openapi.json`: the table of routes and the schemas of what they carry, as an OpenAPI 3.1 document. The schemas are
//! those in `schemas/`, which are generated from the types and built in.

use crate::problem::STATUSES;
use crate::sessions::Right;
use crate::table::{Does, Query, Route, Takes};
use contract::api::Problem;
use contract::schema::{Document, Form};
use contract::view::graph::RunGraph;
use contract::view::stream::StreamEvent;
use contract::{ApprovalView, RunView};
use serde_json::{Map, Value, json};

/// What a good answer looks like.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Nothing is read of it.
    Empty,
    Html,
    Text,
    Bytes,
    /// A script, a style sheet or a picture.
    Asset,
    /// `{"ok": true}`
    Ok,
    /// An object that its own page describes.
    Any,
    /// An object of these strings.
    Strings(&'static [&'static str]),
    /// `{"accepted": true}` with these strings.
    Accepted(&'static [&'static str]),
    /// An object with this list.
    List(&'static str),
    /// A document.
    Form(fn() -> &'static Form),
    /// An object with this list of documents.
    Of(&'static str, fn() -> &'static Form),
    Run,
    RunOrView,
    Runs,
    Events,
    Artifact,
    /// One part of a run's graph: the member of the answer, and the type that it is.
    Part(&'static str, &'static str),
    Template,
    Done,
    Resolved,
}

/// Schemas under the names by which the document refers to them.
#[derive(Default)]
struct Schemas(Map<String, Value>);

impl Schemas {
    /// A reference to a schema, which the document then has.
    fn refer(&mut self, form: &Form) -> Value {
        let mut schema = form.made().value.clone();
        let title = schema["title"].as_str().unwrap_or_default().to_owned();
        let definitions = schema.as_object_mut().and_then(|schema| {
            schema.remove("$schema");
            schema.remove("$defs")
        });
        for (name, mut definition) in definitions.and_then(|it| it.as_object().cloned()).into_iter().flatten() {
            point_to_components(&mut definition);
            self.0.insert(name, definition);
        }
        point_to_components(&mut schema);
        self.0.insert(title.clone(), schema);
        json!({"$ref": format!("#/components/schemas/{title}")})
    }
}

fn point_to_components(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("$ref") {
                *text = text.replace("#/$defs/", "#/components/schemas/");
            }
            members.values_mut().for_each(point_to_components);
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_components),
        _ => {}
    }
}

fn object(members: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

impl Shape {
    fn content(self, schemas: &mut Schemas) -> Value {
        let (kind, schema) = match self {
            Shape::Empty => return json!({}),
            Shape::Html => ("text/html", json!({"type": "string"})),
            Shape::Text => ("text/plain", json!({"type": "string"})),
            Shape::Bytes => ("application/x-tar", json!({"type": "string", "format": "binary"})),
            Shape::Asset => {
                let text = json!({"schema": {"type": "string"}});
                return json!({"text/javascript": text, "text/css": text, "image/svg+xml": text, "text/plain": text});
            }
            other => ("application/json", other.schema(schemas)),
        };
        let mut content = json!({ kind: {"schema": schema} });
        if matches!(self, Shape::Artifact) {
            // With `download=1`.
            content["application/octet-stream"] = json!({"schema": {"type": "string", "format": "binary"}});
        }
        content
    }

    fn schema(self, schemas: &mut Schemas) -> Value {
        let text = || json!({"type": "string"});
        let next = json!({"type": ["string", "null"]});
        match self {
            Shape::Ok => object(&[("ok", json!({"const": true}))]),
            Shape::Strings(names) => object(&names.iter().map(|name| (*name, text())).collect::<Vec<_>>()),
            Shape::Accepted(names) => {
                let strings = names.iter().map(|name| (*name, text()));
                object(&[("accepted", json!({"const": true}))].into_iter().chain(strings).collect::<Vec<_>>())
            }
            Shape::Form(form) => schemas.refer(form()),
            Shape::List(name) => object(&[(name, json!({"type": "array", "items": {"type": "object"}}))]),
            Shape::Of(name, form) => {
                let item = schemas.refer(form());
                let item = json!({"type": "object", "allOf": [item]});
                object(&[(name, json!({"type": "array", "items": item}))])
            }
            Shape::Run => object(&[("run", schemas.refer(RunGraph::form()))]),
            Shape::RunOrView => {
                let graph = object(&[("run", schemas.refer(RunGraph::form()))]);
                json!({"anyOf": [graph, schemas.refer(RunView::form())]})
            }
            Shape::Runs => {
                let runs = json!({"type": "array", "items": schemas.refer(RunGraph::form())});
                object(&[("runs", runs), ("next", next)])
            }
            Shape::Events => {
                let events = json!({"type": "array", "items": schemas.refer(StreamEvent::form())});
                object(&[("events", events), ("next", json!({"type": ["integer", "null"]}))])
            }
            Shape::Part(name, kind) => {
                schemas.refer(RunGraph::form());
                object(&[(name, json!({"$ref": format!("#/components/schemas/{kind}")}))])
            }
            Shape::Template => {
                let members = ["name", "content", "source"].map(|name| (name, text()));
                object(&[("template", object(&members))])
            }
            Shape::Artifact => object(&[("artifact", json!({"type": "object"})), ("content", text())]),
            Shape::Done => object(&[("message", text()), ("run", schemas.refer(RunGraph::form()))]),
            Shape::Resolved => object(&[("approvalId", text()), ("resolution", json!({"type": "object"}))]),
            Shape::Any | Shape::Empty | Shape::Html | Shape::Text | Shape::Bytes | Shape::Asset => {
                json!({"type": "object"})
            }
        }
    }
}

/// The document.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut schemas = Schemas::default();
    let mut paths: Map<String, Value> = Map::new();
    let problem = schemas.refer(Problem::form());
    schemas.refer(ApprovalView::form());
    for route in routes {
        let operation = operation(route, &problem, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "norma", "version": env!("CARGO_PKG_VERSION"),
            "description": "Every run over HTTP. See docs/server.md.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.0,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "norma_…"},
            },
        },
        "security": [{"token": []}, {"session": []}, {}],
    })
}

fn operation(route: &Route, problem: &Value, schemas: &mut Schemas) -> Value {
    let mut answers: Map<String, Value> = Map::new();
    let good = match route.does {
        Does::Events => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        _ => route.answer.content(schemas),
    };
    let mut said = json!({"description": route.says});
    if good.as_object().is_some_and(|content| !content.is_empty()) {
        said["content"] = good;
    }
    answers.insert(route.status.to_string(), said);
    if let Some((status, shape)) = route.or_else {
        answers.insert(status.to_string(), json!({"description": route.says, "content": shape.content(schemas)}));
    }
    for (status, word) in STATUSES {
        let content = json!({"application/json": {"schema": problem}});
        answers.insert(status.to_string(), json!({"description": word, "content": content}));
    }
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}))
        .chain(route.query.iter().map(parameter))
        .collect();
    if !route.method.is_safe() {
        let says = "the same key and body are answered as before";
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"});
        parameters.push(json!({"name": "Idempotency-Key", "in": "header", "required": false, "description": says, "schema": schema}));
    }
    let mut operation = json!({
        "summary": route.says,
        "operationId": format!("{} {}", route.method, route.path),
        "parameters": parameters,
        "responses": answers,
        "x-right": right(route.right),
    });
    let (schema, is_needed) = match route.body {
        Takes::Nothing => return operation,
        Takes::Form(form) => (schemas.refer(form()), form().made().value["required"].is_array()),
        Takes::Document => (json!({"type": ["object", "array"]}), true),
    };
    operation["requestBody"] = json!({"required": is_needed, "content": {"application/json": {"schema": schema}}});
    operation
}

fn right(right: Option<Right>) -> &'static str {
    match right {
        None => "none",
        Some(Right::View) => "view",
        Some(Right::Operate) => "operate",
        Some(Right::Approve) => "approve",
        Some(Right::Administer) => "administer",
    }
}

fn parameter(query: &Query) -> Value {
    let schema = match query.least {
        Some(least) => json!({"type": "integer", "minimum": least}),
        None => json!({"type": "string"}),
    };
    json!({"name": query.name, "in": "query", "required": query.is_needed, "description": query.says, "schema": schema})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::routes;
    use std::path::Path;

    /// `NORMA_BLESS=1 cargo test -p server` rewrites the file after a deliberate change.
    #[test]
    fn the_document_beside_the_code_is_the_one_that_is_served() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
        let expected = serde_json::to_string_pretty(&document(&routes())).unwrap() + "\n";
        if std::env::var_os("NORMA_BLESS").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap_or_default(),
            expected,
            "openapi.json differs from the routes"
        );
    }

    #[test]
    fn everything_that_is_referred_to_is_there() {
        fn check(value: &Value, schemas: &Value) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(text)) = members.get("$ref") {
                        let name = text.strip_prefix("#/components/schemas/").unwrap_or("?");
                        assert!(schemas.get(name).is_some(), "{text} is nowhere");
                    }
                    members.values().for_each(|member| check(member, schemas));
                }
                Value::Array(items) => items.iter().for_each(|item| check(item, schemas)),
                _ => {}
            }
        }
        let document = document(&routes());
        check(&document, &document["components"]["schemas"]);
    }
}
