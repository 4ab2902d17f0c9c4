//! Contracts and batches that a budget stopped, and what continues from there: what succeeded stays done, what an agent was
//! cut off in is where the next one begins, and what lands is judged whole.

use super::{Agent, Lab, for_each_protocol, item, lab, shell, then_answer};
use crate::receipts::verifies_elsewhere;
use serde_json::{Value, json};

for_each_protocol!(a_contract_that_a_budget_stopped_goes_on_with_more);

/// Enough for one call, whatever is said in it.
const SCARCE: u64 = 100;

/// Enough for everything.
const PLENTY: &str = "max_tokens=10000000";

/// Leaves a mark for each time that it is done, then more: the second call is one too many at first.
fn marks() -> Vec<scripted_model::Step> {
    then_answer([shell("echo once >> mark.txt"), shell("echo more > more.txt")])
}

/// A lab whose only agent is told what may be used up.
fn scarce_lab(agent: Agent) -> Option<Lab> {
    let lab = lab(&[agent], marks())?;
    lab.configure(|config| config["budgets"]["max_tokens"] = json!(SCARCE));
    Some(lab)
}

fn slug(lab: &Lab) -> String {
    lab.env.last()["run_id"].as_str().unwrap().to_owned()
}

/// The newest run verifies here and elsewhere, and comes out the same when it is judged again, tests and all.
fn holds(lab: &Lab) {
    for verb in [&["verify", "@last"][..], &["replay", "@last"], &["replay", "@last", "--reverify"], &["show", "@last"]]
    {
        lab.env.norma(verb).success();
    }
    verifies_elsewhere(&lab.env);
}

fn a_contract_that_a_budget_stopped_goes_on_with_more(agent: Agent) {
    let Some(lab) = scarce_lab(agent) else { return };
    let base = lab.env.git(&["rev-parse", "HEAD"]);
    let tested = json!({"test_command": "test -s mark.txt -a -s more.txt", "output_files": ["/more.txt"]});
    lab.env.write("item.json", &item("a", agent, &tested).to_string());
    let stopped = lab.env.norma(&["run", "item.json"]);
    stopped.exits(1);
    assert!(stopped.out().contains("--budget max_tokens="), "{stopped}");
    assert_eq!((&lab.env.last()["status"], lab.calls().len()), (&json!("stopped"), 1));
    holds(&lab);
    let parent = slug(&lab);

    let bare = lab.env.norma(&["resume", "@last"]);
    assert!(bare.exits(1).err().contains("--budget max_tokens="), "{bare}");
    let loops = lab.env.norma(&["resume", "@last", "--budget", "max_iterations=9"]);
    assert!(loops.exits(2).err().contains("max_iterations is a budget of the loop"), "{loops}");
    assert_eq!(slug(&lab), parent, "nothing was started");

    let child = lab.env.norma(&["resume", "@last", "--budget", PLENTY]);
    child.success();
    assert!(child.out().contains("continues run <run>\n"), "{child}");
    assert_eq!(lab.env.last()["parent"], json!(parent));
    assert_eq!(lab.env.read("mark.txt"), "once\nonce\n", "it went on from what was there");
    let receipt: Value =
        serde_json::from_slice(&std::fs::read(lab.env.run_dir().join("changes/001/RECEIPT.json")).unwrap()).unwrap();
    assert_eq!(receipt["git"]["base_commit"], base.trim(), "what is judged is the whole change");
    assert_eq!(receipt["artifacts"].as_array().unwrap().len(), 2, "{receipt}");
    let told = std::fs::read_to_string(lab.step().join("prompt.full.txt")).unwrap();
    assert!(told.contains(&format!("In run {parent} an agent was cut off")), "{told}");
    holds(&lab);
    lab.env.norma(&["undo", "@last"]).success();
    assert_eq!(lab.env.git(&["rev-parse", "HEAD"]), base);
    lab.env.norma(&["verify", &parent]).success();
}

/// An item that any program does at once, and one that the agent is cut off in; a third needs both.
fn stopped_batch() -> Option<Lab> {
    let lab = scarce_lab(Agent::Claude)?;
    let script = r#"cat > /dev/null; echo done >> made.txt; echo '{"version":1,"status":"ok","summary":"did it"}'"#;
    lab.configure(|config| config["agents"]["worker"] = json!({"type": "exec", "cmd": ["sh", "-c", script]}));
    let plain =
        |id: &str, needs: &[&str]| json!({"id": id, "agent_id": "agent-1", "description": id, "dependencies": needs});
    let items = [plain("a", &[]), item("b", Agent::Claude, &json!({})), plain("c", &["a", "b"])];
    lab.env.write("items.json", &Value::from(items.to_vec()).to_string());
    let stopped = lab.env.norma(&["batch", "items.json"]);
    stopped.exits(1);
    assert!(stopped.out().contains("What succeeded is on main"), "{stopped}");
    assert_eq!((&lab.env.last()["status"], lab.env.read("made.txt").as_str()), (&json!("stopped"), "done\n"));
    Some(lab)
}

#[test]
fn what_succeeded_in_a_stopped_batch_stays_done_and_the_rest_is_done() {
    let Some(lab) = stopped_batch() else { return };
    let (parent, landed) = (slug(&lab), lab.env.git(&["rev-parse", "HEAD"]));
    let child = lab.env.norma(&["resume", "@last", "--budget", PLENTY]);
    child.success();
    assert!(child.out().contains("continues run <run>: 1 of 3 stay done"), "{child}");
    assert_eq!(lab.env.read("made.txt"), "done\ndone\n", "by a before and by c now");
    assert_eq!(lab.env.read("mark.txt"), "once\nonce\n", "put on what a had landed meanwhile");
    assert_eq!((lab.events("step_started").len(), lab.events("item_ended").len()), (2, 2), "a was not done again");
    assert_eq!(lab.env.git(&["log", "--format=%s", "-3"]), "c\nSCN=it b\na");
    holds(&lab);

    let a = lab.events("item_added").remove(0);
    assert_eq!(a["earlier"]["done"]["run"], json!(parent));
    lab.env.norma(&["reindex"]).success();
    holds(&lab);
    lab.env.norma(&["undo", "@last"]).success();
    assert_eq!(lab.env.git(&["rev-parse", "HEAD"]), landed, "what a made stays");
    lab.env.norma(&["replay", "@last", "--reexec"]).success();
}

#[test]
fn from_what_was_taken_back_nothing_goes_on() {
    let Some(lab) = stopped_batch() else { return };
    lab.env.norma(&["undo", "@last"]).success();
    let refused = lab.env.norma(&["resume", "@last", "--budget", PLENTY]);
    assert!(refused.exits(1).err().contains("was undone"), "{refused}");
}

#[test]
fn a_yes_is_not_for_the_run_that_goes_on() {
    let Some(lab) = scarce_lab(Agent::Claude) else { return };
    let yes = || {
        let id = lab.env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
        lab.env.norma(&["approve", &id]).success();
    };
    lab.env.with_most_in_src();
    let change = json!({"allowed_paths": ["src", "mark.txt", "more.txt"]});
    lab.env.write("item.json", &item("a", Agent::Claude, &change).to_string());
    lab.env.norma(&["run", "item.json"]).exits(3);
    yes();
    lab.env.norma(&["resume", "@last"]).exits(1);
    assert_eq!(lab.env.last()["status"], "stopped");
    lab.env.norma(&["resume", "@last", "--budget", PLENTY]).exits(3);
    assert_eq!(lab.calls().len(), 1, "nothing was started");
    yes();
    lab.env.norma(&["resume", "@last"]).success();
    assert_eq!(lab.env.read("mark.txt"), "once\nonce\n");
    holds(&lab);
}

#[test]
fn what_an_agent_was_cut_off_in_is_not_gone_on_from_if_it_is_out_of_scope() {
    let Some(lab) = scarce_lab(Agent::Claude) else { return };
    lab.env.write("item.json", &item("a", Agent::Claude, &json!({"allowed_paths": ["more.txt"]})).to_string());
    lab.env.norma(&["run", "item.json"]).exits(1);
    lab.env.norma(&["resume", "@last", "--budget", PLENTY]).exits(1);
    assert_eq!(lab.events("item_added")[0]["earlier"], Value::Null);
    assert_eq!(lab.env.last()["reason"], "policy_violation", "and what is made of it is judged as ever");
    holds(&lab);
}

#[test]
fn what_was_typed_is_not_asked_about_when_it_goes_on() {
    let write = |path: &str| super::write(path, "text\n");
    let Some(lab) = lab(&[Agent::Claude], then_answer([write("src/one.txt"), write("src/two.txt")])) else { return };
    lab.env.with_most_in_src();
    lab.configure(|config| config["budgets"]["max_tokens"] = json!(SCARCE));
    let typed = ["run", "--goal", "SCN=it", "--agent", "claude", "--allow", "src", "--test", "test -f src/two.txt"];
    lab.env.norma(&[&typed[..], &["--yes-wide"]].concat()).exits(1);
    assert_eq!(lab.events("approval_used").len(), 1, "the scope is one that somebody has to say yes to");
    lab.env.norma(&["resume", "@last", "--budget", PLENTY]).success();
    assert_eq!((lab.env.read("src/two.txt").as_str(), lab.events("approval_used").len()), ("text\n", 1));
    lab.env.norma(&["verify", "@last"]).success();
}

/// A lab whose agent has a model that no list of prices has, and a cost budget.
fn unpriced(agent: Agent) -> Option<Lab> {
    let lab = lab(&[agent], then_answer([super::write("hello.txt", "hello\n")]))?;
    lab.configure(|config| {
        config["agents"][agent.name()]["model"] = json!("unheard-of");
        config["budgets"]["max_cost_usd"] = json!(5);
    });
    lab.env.write("item.json", &item("a", agent, &json!({})).to_string());
    Some(lab)
}

#[test]
fn a_model_without_a_price_is_refused_before_anything_starts() {
    let Some(lab) = unpriced(Agent::Codex) else { return };
    let refused = lab.env.norma(&["run", "item.json"]);
    refused.exits(2);
    let what_to_do = "no price known for unheard-of: set prices.unheard-of, or max_tokens in place of max_cost_usd";
    assert!(refused.err().contains(what_to_do), "{refused}");
    assert!(lab.calls().is_empty());
}

#[test]
fn a_model_costs_what_the_configuration_says() {
    let Some(lab) = unpriced(Agent::Codex) else { return };
    lab.configure(|config| config["prices"] = json!({"unheard-of": {"input": 10, "output": "0.5", "cached": 1}}));
    lab.env.norma(&["run", "item.json"]).success();
    let used = &lab.events("step_committed")[0]["usage"];
    let count = |name: &str| used[name].as_u64().unwrap_or_default();
    let cost = (count("input_tokens") - count("cached_tokens")) * 10;
    assert!(count("cost_micro_usd") >= cost && cost > 0, "{used}");
    assert!(count("cost_micro_usd") <= cost + count("output_tokens") + count("cached_tokens"), "{used}");
}

/// Opencode itself says that it was nothing.
#[test]
fn what_has_no_price_is_not_said_to_cost_nothing() {
    let Some(lab) = unpriced(Agent::Opencode) else { return };
    lab.configure(|config| config["budgets"]["max_cost_usd"] = Value::Null);
    let ran = lab.env.norma(&["run", "item.json"]);
    ran.success();
    let shown = lab.env.norma(&["show", "@last"]);
    assert!(!ran.raw.contains("$0") && !shown.success().raw.contains("$0"), "{ran} {shown}");
    assert_eq!(lab.events("step_committed")[0]["usage"]["cost_micro_usd"], Value::Null);
}

/// What servers of one's own take for a key.
#[test]
fn a_short_word_is_a_key_and_is_said_not_to_be_searched_for() {
    let Some(mut lab) = lab(&[Agent::Opencode], then_answer([super::write("hello.txt", "hello\n")])) else { return };
    let scripts = scripted_model::Scripts::default().with("it", then_answer([super::write("hello.txt", "hello\n")]));
    let options = scripted_model::Options { key: Some("EMPTY".to_owned()), scripts, ..Default::default() };
    lab.server = scripted_model::Server::start(options).unwrap();
    let base_url = format!("http://127.0.0.1:{}", lab.server.port());
    lab.configure(|config| config["agents"]["opencode"]["base_url"] = json!(base_url));
    lab.env.env.insert("OPENAI_API_KEY".to_owned(), "EMPTY".to_owned());
    lab.env.write("item.json", &item("a", Agent::Opencode, &json!({})).to_string());
    lab.env.norma(&["run", "item.json"]).success();
    let notes = lab.events("step_committed")[0]["notes"].to_string();
    assert!(notes.contains("the key in OPENAI_API_KEY is a short word"), "{notes}");
}

#[test]
fn roots_that_cannot_be_read_are_named() {
    let Some(lab) = lab(&[Agent::Codex], then_answer([])) else { return };
    lab.configure(|config| config["tls"] = json!({"extra_roots": "certs/company.pem"}));
    lab.env.write("item.json", &item("a", Agent::Codex, &json!({})).to_string());
    let ran = lab.env.norma(&["run", "item.json"]);
    ran.exits(1);
    assert!(ran.raw.contains("tls.extra_roots: could not read") && ran.raw.contains("certs/company.pem"), "{ran}");
}
