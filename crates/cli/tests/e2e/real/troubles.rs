//! Models that do not answer as they should: every trouble ends in its own reason within its deadline, and whatever the
//! agent had written by then lands nowhere.

use super::{Agent, for_each_agent, item, lab, write};
use scripted_model::{Script, Step};
use serde_json::{Value, json};

for_each_agent!(every_trouble_has_its_reason);

/// Silence that is taken for a hang: longer than any agent takes to start on a busy machine.
const IDLE_SECONDS: u32 = 25;

fn status(code: u16, retry_after: Option<u64>) -> Step {
    Step::Status { code, body: None, retry_after }
}

fn every_trouble_has_its_reason(agent: Agent) {
    let troubles: [(&str, Step, &str); 6] = [
        ("hangs", Step::HangMid, "agent_timeout"),
        ("drops", Step::Drop, "provider_failed"),
        ("unauthorized", status(401, None), "sign_in_failed"),
        ("limited", status(429, Some(1)), "provider_limit"),
        ("broken", status(500, None), "provider_failed"),
        ("prose", Step::Text("I did it all, trust me.".to_owned()), "protocol_error"),
    ];
    let scripts: [(String, Script); 6] = troubles.clone().map(|(name, trouble, _)| {
        (format!("SCN=it {name}\n"), vec![write(&format!("{name}.txt"), "half done\n"), trouble])
    });
    let Some(lab) = lab(&[agent], scripts) else { return };
    lab.configure(|config| config["limits"] = json!({"idle_seconds": IDLE_SECONDS}));
    let items: Vec<Value> = troubles.iter().map(|(name, ..)| item(name, agent, &json!({}))).collect();
    lab.env.write("items.json", &Value::from(items).to_string());
    let before = lab.env.repository();
    lab.env.norma(&["batch", "items.json", "--jobs", "3"]).exits(1);
    let mut turns = lab.events("step_committed");
    turns.sort_by_key(|turn| turn["step"]["item"].as_u64());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found: Vec<(&str, String)> =
        troubles.iter().zip(&turns).map(|((name, ..), turn)| (*name, word(&turn["reason"]))).collect();
    let expected: Vec<(&str, String)> =
        troubles.iter().map(|(name, _, reason)| (*name, (*reason).to_owned())).collect();
    assert_eq!(found, expected, "{:#?}", turns.iter().map(|turn| word(&turn["summary"])).collect::<Vec<_>>());
    assert_eq!(lab.env.repository(), before);
}
