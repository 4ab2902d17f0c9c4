//! Checks a value against the JSON Schema generated from its Rust type.
//!
//! serde stops at the first mistake and does not say where; this finds them all. It knows the
//! keywords schemars writes for Rust types, not all of JSON Schema: `pattern` and `format` are
//! left to the types' own `Deserialize`, which always has the last word. A value this lets pass
//! is therefore not yet valid, but one it refuses never is. Types read this way carry no serde
//! aliases, which their schemas would not mention.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::report::{Place, Report, Step};

/// Most `$ref`s followed in a row; generated schemas need two (an alias of an alias).
const REFERENCES_MAX: usize = 16;

/// Most alternatives spelled out in a message.
const ALTERNATIVES_MAX: usize = 32;

/// Longest quotation of a found value, in characters.
const QUOTED_CHARS_MAX: usize = 80;

type Keywords = Map<String, Value>;

/// Checks `value` against `schema`, whose `$defs` are at its root.
pub(super) fn check(schema: &Value, value: &Value) -> Report {
    let mut checker = Checker { root: schema, place: Place::default(), report: Report::default() };
    checker.value(schema, value);
    checker.report
}

struct Checker<'s> {
    root: &'s Value,
    place: Place,
    report: Report,
}

impl<'s> Checker<'s> {
    fn violation(&mut self, message: String) {
        self.report.add(&self.place, message);
    }

    fn at(&mut self, step: Step, check: impl FnOnce(&mut Self)) {
        self.place.enter(step);
        check(self);
        self.place.leave();
    }

    fn value(&mut self, schema: &'s Value, value: &Value) {
        let Value::Object(keywords) = schema else {
            if schema == &Value::Bool(false) {
                self.violation("no value is allowed here".to_owned());
            }
            return;
        };
        if let Some(target) = self.reference(keywords) {
            self.value(target, value);
        }
        // With the wrong type, every other keyword would only repeat that.
        if !self.kind(keywords, value) || !self.choice(keywords, value) {
            return;
        }
        match value {
            Value::String(text) => self.text(keywords, text),
            Value::Number(number) => self.number(keywords, number.as_f64().unwrap_or(f64::NAN)),
            Value::Array(items) => self.items(keywords, items),
            Value::Object(members) => self.members(keywords, members),
            Value::Null | Value::Bool(_) => {}
        }
        for part in list(keywords, "allOf") {
            self.value(part, value);
        }
        for name in ["anyOf", "oneOf"] {
            if keywords.contains_key(name) {
                self.branches(list(keywords, name), value);
            }
        }
    }

    fn reference(&self, keywords: &Keywords) -> Option<&'s Value> {
        let pointer = keywords.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn kind(&mut self, keywords: &Keywords, value: &Value) -> bool {
        let fits = has_kind(keywords, value);
        if !fits {
            let expected = kinds(keywords).collect::<Vec<_>>().join(" or ");
            self.violation(format!("expected {expected}, found {}", kind_of(value)));
        }
        fits
    }

    fn choice(&mut self, keywords: &Keywords, value: &Value) -> bool {
        let fits = has_choice(keywords, value);
        if !fits {
            let expected = alternatives(&choices(keywords).map(Value::to_string).collect::<Vec<_>>());
            self.violation(format!("expected {expected}, found {}", quoted(value)));
        }
        fits
    }

    fn text(&mut self, keywords: &Keywords, text: &str) {
        self.length(keywords, "Length", text.chars().count(), "character");
    }

    fn length(&mut self, keywords: &Keywords, suffix: &str, found: usize, unit: &str) {
        let limit = |prefix: &str| keywords.get(&format!("{prefix}{suffix}"))?.as_u64();
        let found = found as u64;
        let count = |limit: u64| match limit {
            1 => format!("1 {unit}"),
            _ => format!("{limit} {unit}s"),
        };
        if let Some(min) = limit("min").filter(|&min| found < min) {
            self.violation(format!("expected at least {}, found {found}", count(min)));
        }
        if let Some(max) = limit("max").filter(|&max| found > max) {
            self.violation(format!("expected at most {}, found {found}", count(max)));
        }
    }

    fn number(&mut self, keywords: &Keywords, found: f64) {
        let rules = [
            ("minimum", "at least", f64::ge as fn(&f64, &f64) -> bool),
            ("maximum", "at most", f64::le),
            ("exclusiveMinimum", "more than", f64::gt),
            ("exclusiveMaximum", "less than", f64::lt),
        ];
        for (name, relation, holds) in rules {
            let Some(limit) = keywords.get(name) else {
                continue;
            };
            if !limit.as_f64().is_none_or(|limit| holds(&found, &limit)) {
                self.violation(format!("expected {relation} {limit}, found {found}"));
            }
        }
    }

    fn items(&mut self, keywords: &'s Keywords, items: &[Value]) {
        self.length(keywords, "Items", items.len(), "item");
        let prefix = list(keywords, "prefixItems");
        let rest = keywords.get("items");
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = prefix.get(index).or(rest) {
                self.at(Step::Index(index), |checker| checker.value(schema, item));
            }
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut seen = HashSet::new();
            for (index, item) in items.iter().enumerate() {
                if !seen.insert(item) {
                    let message = format!("duplicate item {}", quoted(item));
                    self.at(Step::Index(index), |checker| checker.violation(message));
                }
            }
        }
    }

    fn members(&mut self, keywords: &'s Keywords, members: &Map<String, Value>) {
        self.length(keywords, "Properties", members.len(), "key");
        for key in required(keywords).filter(|&key| !members.contains_key(key)) {
            self.violation(format!("missing required key {key:?}"));
        }
        let known = keywords.get("properties").and_then(Value::as_object);
        // Which keys a pattern means is left to the type; all patterns of a map share one schema.
        let patterned = keywords.get("patternProperties").and_then(Value::as_object);
        let others = match patterned.and_then(|patterns| patterns.values().next()) {
            Some(schema) => Some(schema),
            None => keywords.get("additionalProperties"),
        };
        for (key, member) in members {
            let schema = match known.and_then(|known| known.get(key)) {
                Some(schema) => schema,
                None => match others {
                    Some(Value::Bool(false)) => {
                        self.unknown_key(key, known.into_iter().flat_map(Map::keys));
                        continue;
                    }
                    Some(schema) => schema,
                    None => continue,
                },
            };
            self.at(Step::Key(key.clone()), |checker| checker.value(schema, member));
        }
        if keywords.get("unevaluatedProperties") == Some(&Value::Bool(false)) {
            self.unevaluated(keywords, members);
        }
    }

    fn unknown_key<'k>(&mut self, key: &str, known: impl Iterator<Item = &'k String>) {
        let names: Vec<&String> = known.collect();
        let known: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let message = match (known.is_empty(), crate::nearest(key, names.iter().map(|name| name.as_str()))) {
            (true, _) => "unknown key, expected none".to_owned(),
            (false, None) => format!("unknown key, expected {}", alternatives(&known)),
            (false, Some(meant)) => format!("unknown key, did you mean {meant:?}? expected {}", alternatives(&known)),
        };
        self.at(Step::Key(key.to_owned()), |checker| checker.violation(message));
    }

    /// Keys that neither the schema nor any part of it knows; schemars writes this for flattened
    /// fields. Keys of any alternative count as known, the type decides which belong together.
    fn unevaluated(&mut self, keywords: &'s Keywords, members: &Map<String, Value>) {
        let mut known = BTreeSet::new();
        if self.gather_keys(keywords, &mut known, REFERENCES_MAX) {
            for key in members.keys().filter(|key| !known.contains(key)) {
                self.unknown_key(key, known.iter().copied());
            }
        }
    }

    /// Collects the keys a schema names; false when it takes any key.
    fn gather_keys(&self, keywords: &'s Keywords, known: &mut BTreeSet<&'s String>, levels_left: usize) -> bool {
        let open = keywords.contains_key("patternProperties")
            || keywords.get("additionalProperties").is_some_and(|others| others != &Value::Bool(false));
        if open || levels_left == 0 {
            return false;
        }
        if let Some(properties) = keywords.get("properties").and_then(Value::as_object) {
            known.extend(properties.keys());
        }
        let parts = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| list(keywords, name));
        parts
            .chain(self.reference(keywords))
            .filter_map(Value::as_object)
            .all(|part| self.gather_keys(part, known, levels_left - 1))
    }

    /// At least one branch must hold; if none does, the violations of the one that was meant are
    /// reported, judged by type, tag and required keys.
    fn branches(&mut self, branches: &'s [Value], value: &Value) {
        let mut candidates = Vec::new();
        for branch in branches {
            let Some(keywords) = self.target(branch) else {
                match branch {
                    Value::Bool(false) => continue,
                    _ => return, // `true` holds for every value
                }
            };
            if !could_mean(keywords, value) {
                continue;
            }
            let outer = std::mem::take(&mut self.report);
            self.value(branch, value);
            let report = std::mem::replace(&mut self.report, outer);
            if report.is_empty() {
                return;
            }
            candidates.push((keywords, report));
        }
        match the_one_meant(candidates, value) {
            Some(report) => self.report.append(report),
            None => self.no_branch(branches, value),
        }
    }

    fn no_branch(&mut self, branches: &'s [Value], value: &Value) {
        let branches: Vec<_> = branches.iter().filter_map(|branch| self.target(branch)).collect();
        if let (Some(members), Some(tag)) = (value.as_object(), common_tag(&branches)) {
            let expected: Vec<_> = branches
                .iter()
                .filter_map(|keywords| tags(keywords).find(|(key, _)| *key == tag))
                .map(|(_, name)| name.to_string())
                .collect();
            let expected = alternatives(&expected);
            match members.get(tag) {
                None => self.violation(format!("missing required key {tag:?}, expected {expected}")),
                Some(found) => {
                    let message = format!("expected {expected}, found {}", quoted(found));
                    self.at(Step::Key(tag.clone()), |checker| checker.violation(message));
                }
            }
            return;
        }
        let expected: Vec<_> = branches.iter().flat_map(|keywords| forms(keywords)).collect();
        self.violation(format!("expected {}, found {}", alternatives(&expected), quoted(value)));
    }

    /// The keywords a branch is recognised by: its own, or those behind its `$ref`.
    fn target(&self, branch: &'s Value) -> Option<&'s Keywords> {
        let mut keywords = branch.as_object()?;
        for _ in 0..REFERENCES_MAX {
            let own = keywords.contains_key("type") || keywords.contains_key("properties");
            match self.reference(keywords) {
                Some(target) if !own => keywords = target.as_object()?,
                _ => break,
            }
        }
        Some(keywords)
    }
}

/// Whether nothing that tells branches apart speaks against this one.
fn could_mean(keywords: &Keywords, value: &Value) -> bool {
    let tagged = |members: &Map<String, Value>| {
        tags(keywords).all(|(key, name)| members.get(key).is_none_or(|found| found == name))
    };
    has_kind(keywords, value) && has_choice(keywords, value) && value.as_object().is_none_or(tagged)
}

/// Properties that may have one value only, such as the tag of an enum's variant.
fn tags(keywords: &Keywords) -> impl Iterator<Item = (&String, &Value)> {
    let properties = keywords.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().filter_map(|(key, schema)| Some((key, schema.get("const")?)))
}

/// The only candidate, or the only one whose required keys are all there.
fn the_one_meant(mut candidates: Vec<(&Keywords, Report)>, value: &Value) -> Option<Report> {
    if candidates.len() > 1 {
        let members = value.as_object()?;
        candidates.retain(|(keywords, _)| required(keywords).all(|key| members.contains_key(key)));
    }
    match candidates.len() {
        1 => candidates.pop().map(|(_, report)| report),
        _ => None,
    }
}

/// The tag that every branch for objects carries, each with a value of its own.
fn common_tag<'s>(branches: &[&'s Keywords]) -> Option<&'s String> {
    let is_object = |keywords: &&&Keywords| kinds(keywords).any(|kind| kind == "object");
    let mut objects = branches.iter().filter(is_object);
    let first = objects.next()?;
    let tells_apart = |(tag, name): &(&String, &Value)| {
        let differs = |keywords: &&Keywords| tags(keywords).any(|(key, other)| key == *tag && other != *name);
        objects.clone().all(differs)
    };
    tags(first).find(tells_apart).map(|(tag, _)| tag)
}

fn kinds(keywords: &Keywords) -> impl Iterator<Item = &str> {
    let named = match keywords.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[],
    };
    named.iter().filter_map(Value::as_str)
}

fn has_kind(keywords: &Keywords, value: &Value) -> bool {
    let fits = |kind: &str| match kind {
        // serde takes `1.0` for no integer, whatever JSON Schema says.
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => kind == kind_of(value),
    };
    !keywords.contains_key("type") || kinds(keywords).any(fits)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The values `const` or `enum` allow.
fn choices(keywords: &Keywords) -> impl Iterator<Item = &Value> {
    keywords.get("const").into_iter().chain(list(keywords, "enum"))
}

fn has_choice(keywords: &Keywords, value: &Value) -> bool {
    let limited = keywords.contains_key("const") || keywords.contains_key("enum");
    !limited || choices(keywords).any(|choice| choice == value)
}

fn list<'s>(keywords: &'s Keywords, name: &str) -> &'s [Value] {
    keywords.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn required(keywords: &Keywords) -> impl Iterator<Item = &str> {
    list(keywords, "required").iter().filter_map(Value::as_str)
}

/// What a branch asks for, in words.
fn forms(keywords: &Keywords) -> Vec<String> {
    let choices: Vec<String> = choices(keywords).map(Value::to_string).collect();
    if !choices.is_empty() {
        return choices;
    }
    let keys: Vec<String> = required(keywords).map(|key| format!("{key:?}")).collect();
    if !keys.is_empty() {
        return vec![format!("object with {}", keys.join(" and "))];
    }
    kinds(keywords).map(str::to_owned).collect()
}

fn alternatives(expected: &[String]) -> String {
    match expected {
        [] => "another value".to_owned(),
        [only] => only.clone(),
        [most @ .., last] if expected.len() <= ALTERNATIVES_MAX => {
            format!("{} or {last}", most.join(", "))
        }
        _ => {
            let left_off = expected.len() - ALTERNATIVES_MAX;
            format!("{} or one of {left_off} others", expected[..ALTERNATIVES_MAX].join(", "))
        }
    }
}

/// Simple values as they are, containers by their kind only.
fn quoted(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind_of(value).to_owned(),
        Value::String(text) if text.chars().count() > QUOTED_CHARS_MAX => {
            let head: String = text.chars().take(QUOTED_CHARS_MAX).collect();
            format!("{:?}", head + "…")
        }
        Value::String(text) => format!("{text:?}"),
        _ => value.to_string(),
    }
}
