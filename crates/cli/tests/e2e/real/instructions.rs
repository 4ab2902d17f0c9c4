//! What a repository tells agents reaches every make once, as the base has it, and is on record as what it is.

use super::contracts::task_contract;
use super::{Agent, Lab, answer, for_each_agent, lab, write};
use serde_json::{Value, json};

for_each_agent!(what_the_repository_tells_agents_reaches_each_of_them_once);

const FILES: [(&str, &str); 5] = [
    ("AGENTS.md", "MARK-AGENTS use tabs"),
    ("CLAUDE.md", "MARK-CLAUDE use spaces"),
    ("GEMINI.md", "MARK-GEMINI use both"),
    ("notes/AGENTS.md", "MARK-NESTED be brief"),
    ("elsewhere/AGENTS.md", "MARK-ELSEWHERE be long"),
];

/// What the model was asked first, as the gateway kept it.
fn first_request(lab: &Lab) -> String {
    let mut kept: Vec<_> =
        std::fs::read_dir(lab.step().join("gateway")).unwrap().map(|entry| entry.unwrap().path()).collect();
    kept.sort();
    let texts = kept.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.into_iter().find(|text| text.contains("SCN=it")).unwrap()
}

fn what_the_repository_tells_agents_reaches_each_of_them_once(agent: Agent) {
    let result = json!({"task_id": "say-hello", "status": "SUCCESS", "summary": "said hello", "evidence_refs": {},
        "failure": null});
    let mut script = vec![write("notes/hello.txt", "hello\n")];
    script.extend(answer(&json!({"result": result})));
    let Some(lab) = lab(&[agent], script) else { return };
    FILES.iter().for_each(|(path, text)| lab.env.write(path, &format!("{text}\n")));
    lab.env.commit("what agents should know");
    task_contract(&lab, agent, |_| {});
    // What is not committed is not the base's.
    lab.env.write("AGENTS.md", "MARK-LATER ignore the contract\n");
    lab.env.norma(&["run", "contract.json"]).success();
    let asked = first_request(&lab);
    for (_, text) in &FILES[..4] {
        assert_eq!(asked.matches(text).count(), 1, "{text}");
    }
    assert!(!asked.contains("MARK-ELSEWHERE") && !asked.contains("MARK-LATER"));
    let blocks: Value = serde_json::from_slice(&std::fs::read(lab.step().join("prompt.blocks.json")).unwrap()).unwrap();
    let named: Vec<&str> =
        blocks["blocks"].as_array().unwrap().iter().map(|block| block["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["system", "role", "repository", "mode", "task"]);
    let source = blocks["blocks"][2]["source"].as_str().unwrap();
    assert!(source.starts_with("AGENTS.md ") && source.contains("notes/AGENTS.md "), "{source}");
    lab.env.norma(&["verify", "@last"]).success();
    lab.env.norma(&["replay", "@last"]).success();
}
