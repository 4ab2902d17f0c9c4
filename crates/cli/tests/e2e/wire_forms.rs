//! What every answer and every event of the server has in common, whatever it is about.

use crate::environment::{PATCH, TestEnvironment};
use crate::serve::client::serve;
use serde_json::Value;

/// Everything that is a time by its name, with the place it was found at.
fn times(place: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_time = name == "ts" || name.ends_with("At") || name.ends_with("_at");
                if is_time && !member.is_null() {
                    found.push((format!("{place}/{name}"), member.clone()));
                }
                times(&format!("{place}/{name}"), member, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| times(place, item, found)),
        _ => {}
    }
}

/// `2026-01-23T14:55:01.123Z`: one form for all, so that they are in order as text, too.
fn is_utc(text: &str) -> bool {
    let form: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    form == "0000-00-00T00:00:00.000Z"
}

#[test]
fn every_time_that_is_told_is_iso_8601_in_utc_in_one_form() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let served = serve(&env);
    let id = served.get("/api/runs")["runs"][0]["id"].as_str().unwrap().to_owned();
    let mut found = Vec::new();
    for path in [
        "/api/runs".to_owned(),
        format!("/api/runs/{id}"),
        format!("/api/runs/{id}?view=norma"),
        format!("/api/runs/{id}/events"),
        format!("/api/runs/{id}/verify"),
        "/api/approvals?all=1".to_owned(),
        "/api/sessions".to_owned(),
    ] {
        times(&path, &served.get(&path), &mut found);
    }
    let mut socket = served.watch(&format!("runId={id}&since=0"));
    let told = socket.until(|event| event["patch"]["status"] == "completed");
    times("/ws", &Value::from(told), &mut found);
    assert!(found.len() > 100, "{found:?}");
    let other: Vec<_> = found.iter().filter(|(_, time)| !time.as_str().is_some_and(is_utc)).collect();
    assert_eq!(other, Vec::<&(String, Value)>::new());
}

#[test]
fn whatever_is_handed_over_refers_to_artifacts_by_their_ids() {
    let env = TestEnvironment::with_patch(PATCH);
    env.norma(&["run", "1"]).success();
    let served = serve(&env);
    let run = served.get("/api/runs")["runs"][0].clone();
    let path = format!("/api/runs/{}", run["id"].as_str().unwrap());
    let events = served.get(&format!("{path}/events"))["events"].as_array().unwrap().clone();
    let handed = events.iter().filter(|event| event["type"] == "handoff.sent");
    let references: Vec<Value> = handed
        .filter_map(|event| event["envelope"]["payload"]["artifacts"].as_array().cloned())
        .flatten()
        .map(|artifact| artifact["ref"].clone())
        .collect();
    assert!(!references.is_empty());
    for reference in references {
        let id = reference.as_str().unwrap().strip_prefix("artifact://").unwrap();
        let found = served.get(&format!("{path}/artifacts/{id}"));
        assert_eq!(found["artifact"], run["artifacts"][id], "{reference}");
    }
}
