//! `Recipe.v0`: a named, versioned template of an intent, with the form that fills it and fixtures that show what comes of
//! it. Rendering is a pure function of recipe and form: the same two give the same intent, byte for byte. A stable version is
//! never changed; whoever wants something else makes the next one.

use super::intent::Intent;
use super::{Open, read_value};
use crate::json::schema::Schema;
use crate::json::{self, Limits, Report, Violation};
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest id in bytes; it becomes the name of a directory.
const ID_BYTES_MAX: usize = 64;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("$id" = "Recipe.v0"), transform = absent_is_not_null)]
pub struct Recipe {
    /// What it is called by: lower-case letters, digits and `-`.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9-]*$"))]
    pub id: String,
    /// Which version of it.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub version: u32,
    /// How far it is relied on.
    pub status: RecipeStatus,
    /// What people call it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The JSON Schema of its form, which is an object.
    pub form_schema: Open,
    /// The intent, with `{{field}}` for what the form says.
    pub intent_tmpl: IntentTemplate,
    /// Forms that it is tried with whenever it is read; a stable recipe has at least one.
    pub fixtures: Vec<Fixture>,
}

/// How far a recipe is relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecipeStatus {
    /// It is being written.
    Draft,
    /// It is being tried.
    Candidate,
    /// It is relied on, and never changes any more.
    Stable,
}

impl RecipeStatus {
    /// The word as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            RecipeStatus::Draft => "draft",
            RecipeStatus::Candidate => "candidate",
            RecipeStatus::Stable => "stable",
        }
    }
}

/// An intent with places for what a form says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = absent_is_not_null)]
pub struct IntentTemplate {
    /// What is wanted.
    #[schemars(length(min = 1))]
    pub goal: String,
    /// What there is to work with.
    pub inputs: Open,
    /// What must hold.
    pub constraints: Open,
    /// What may be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connectors: Option<Vec<String>>,
}

/// A form, and the intent that comes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(transform = absent_is_not_null)]
pub struct Fixture {
    /// What it shows.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The form.
    pub form_data: Open,
    /// What must come of it; without it, any intent that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

impl Recipe {
    /// Reads a recipe strictly: its form, what its form cannot say, and what comes of every fixture.
    pub fn read(bytes: &[u8]) -> Result<Recipe, Vec<Violation>> {
        let recipe: Recipe = read_value(json::parse(bytes, &Limits::DOCUMENT)?)?;
        let mut report = Report::default();
        recipe.check(&mut report);
        report.into_result().map(|()| recipe)
    }

    /// What it is called with its version.
    pub fn reference(&self) -> String {
        format!("{}@{}", self.id, self.version)
    }

    /// The intent that comes of a form, or everything that is wrong with the form.
    pub fn render(&self, form: &Open) -> Result<Intent, Vec<Violation>> {
        let found = self.form()?.violations(&Value::Object(form.clone()));
        if !found.is_empty() {
            return Err(found);
        }
        let template = serde_json::to_value(&self.intent_tmpl).expect("BUG: a template is plain data");
        let mut problems = Vec::new();
        let filled = fill(&template, form, "", &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let bytes = serde_json::to_vec(&filled).expect("BUG: JSON can be written");
        Intent::read(&bytes)
    }

    fn form(&self) -> Result<Schema, Vec<Violation>> {
        let text = serde_json::to_vec(&self.form_schema).expect("BUG: JSON can be written");
        Schema::compile(&text)
    }

    fn check(&self, report: &mut Report) {
        if self.id.len() > ID_BYTES_MAX {
            report.push("/id".to_owned(), format!("is longer than {ID_BYTES_MAX} characters"));
        }
        if self.form_schema.get("type").and_then(Value::as_str) != Some("object") {
            report.push("/formSchema/type".to_owned(), "a form is an object: write \"type\": \"object\"".to_owned());
        }
        if self.status == RecipeStatus::Stable && self.fixtures.is_empty() {
            let message = "a stable recipe has a fixture at least, which shows what comes of it";
            report.push("/fixtures".to_owned(), message.to_owned());
        }
        if let Err(found) = self.form() {
            found.into_iter().for_each(|it| report.push(format!("/formSchema{}", it.pointer), it.message));
            return;
        }
        for (index, fixture) in self.fixtures.iter().enumerate() {
            let at = format!("/fixtures/{index}");
            match (self.render(&fixture.form_data), &fixture.intent) {
                (Err(found), _) => {
                    for Violation { pointer, message } in found {
                        let is_of_template = pointer.starts_with("/intentTmpl");
                        report.push(if is_of_template { pointer } else { format!("{at}/formData{pointer}") }, message);
                    }
                }
                (Ok(intent), Some(expected)) if intent != *expected => {
                    let shown = serde_json::to_string(&intent).expect("BUG: an intent is plain data");
                    report.push(format!("{at}/intent"), format!("the recipe comes to another intent: {shown}"));
                }
                _ => {}
            }
        }
    }
}

/// A value of a template with what the form says. A text that is one place and nothing else becomes the field's own value;
/// in a longer text the field has to be a text, a number or a truth value.
fn fill(template: &Value, form: &Map<String, Value>, at: &str, problems: &mut Vec<Violation>) -> Value {
    match template {
        Value::String(text) => fill_text(text, form, at, problems),
        Value::Array(values) => {
            let filled =
                values.iter().enumerate().map(|(index, value)| fill(value, form, &format!("{at}/{index}"), problems));
            filled.collect::<Vec<_>>().into()
        }
        Value::Object(members) => {
            let filled = members.iter().map(|(key, value)| {
                let token = key.replace('~', "~0").replace('/', "~1");
                (key.clone(), fill(value, form, &format!("{at}/{token}"), problems))
            });
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

fn fill_text(text: &str, form: &Map<String, Value>, at: &str, problems: &mut Vec<Violation>) -> Value {
    let mut wrong = |message: String| problems.push(Violation { pointer: format!("/intentTmpl{at}"), message });
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else {
            wrong("a place that begins with {{ does not end with }}".to_owned());
            return Value::Null;
        };
        let name = name.trim();
        let Some(value) = form.get(name) else {
            wrong(format!("the form has no field {name:?}; give it, or make it required in formSchema"));
            return Value::Null;
        };
        if before.is_empty() && behind.is_empty() && filled.is_empty() {
            return value.clone();
        }
        filled.push_str(before);
        match value {
            Value::String(text) => filled.push_str(text),
            Value::Number(_) | Value::Bool(_) => filled.push_str(&value.to_string()),
            _ => {
                wrong(format!("the field {name:?} is no text, number or truth value, so it has to stand alone"));
                return Value::Null;
            }
        }
        rest = behind;
    }
    filled.push_str(rest);
    Value::String(filled)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;
    use serde_json::json;

    fn recipe() -> Value {
        json!({
            "id": "daily-brief", "version": 1, "status": "stable", "name": "Daily brief",
            "formSchema": {"type": "object", "additionalProperties": false, "required": ["topics", "words"],
                "properties": {"topics": {"type": "array", "items": {"type": "string"}}, "words": {"type": "integer"}}},
            "intentTmpl": {"goal": "a brief of {{words}} words", "inputs": {"topics": "{{topics}}", "n": ["{{ words }}"]},
                "constraints": {}},
            "fixtures": [{"name": "infra", "formData": {"topics": ["infra"], "words": 100},
                "intent": {"goal": "a brief of 100 words", "inputs": {"topics": ["infra"], "n": [100]}, "constraints": {}}}],
        })
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Value), expected: &[&str]) {
        let mut document = recipe();
        change(&mut document);
        let found = Recipe::read(document.to_string().as_bytes()).err().map(|found| said(&found)).unwrap_or_default();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_form_becomes_an_intent_and_fields_keep_their_types() {
        let recipe = Recipe::read(recipe().to_string().as_bytes()).unwrap();
        let form = json!({"topics": ["a", "b{{words}}"], "words": 7});
        let intent = recipe.render(form.as_object().unwrap()).unwrap();
        assert_eq!(intent.goal, "a brief of 7 words");
        // What a form says is never taken for a place.
        assert_eq!(Value::Object(intent.inputs), json!({"topics": ["a", "b{{words}}"], "n": [7]}));
        let wrong = json!({"topics": "a"});
        let found = recipe.render(wrong.as_object().unwrap()).unwrap_err();
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn fixtures_are_tried_whenever_a_recipe_is_read() {
        check(|_| (), &[]);
        check(
            |it| it["fixtures"] = json!([]),
            &["/fixtures: a stable recipe has a fixture at least, which shows what comes of it"],
        );
        check(
            |it| {
                it["status"] = json!("draft");
                it["fixtures"] = json!([]);
            },
            &[],
        );
        let mut document = recipe();
        document["fixtures"][0]["intent"]["goal"] = json!("another");
        let found = Recipe::read(document.to_string().as_bytes()).unwrap_err();
        assert_eq!(found[0].pointer, "/fixtures/0/intent");
        document["fixtures"][0]["formData"] = json!({"words": 1});
        let found = Recipe::read(document.to_string().as_bytes()).unwrap_err();
        assert!(found[0].pointer.starts_with("/fixtures/0/formData"), "{found:?}");
    }

    #[test]
    fn a_template_names_fields_that_the_form_has() {
        let mut document = recipe();
        document["intentTmpl"]["goal"] = json!("{{nobody}} and {{words");
        let found = Recipe::read(document.to_string().as_bytes()).unwrap_err();
        assert!(found[0].message.contains("no field \"nobody\""), "{found:?}");
        assert_eq!(found[0].pointer, "/intentTmpl/goal");
        document["intentTmpl"]["goal"] = json!("all of {{topics}}");
        let found = Recipe::read(document.to_string().as_bytes()).unwrap_err();
        assert!(found[0].message.contains("has to stand alone"), "{found:?}");
        check(
            |it| it["formSchema"] = json!({"type": "array"}),
            &[
                "/formSchema/type: a form is an object: write \"type\": \"object\"",
                "/fixtures/0/formData: value is not of type \"array\"",
            ],
        );
    }
}
