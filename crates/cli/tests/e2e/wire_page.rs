//! `norma serve` as a web page sees it: the client of `testing/page` in Chromium, behind a forwarder of its own origin,
//! used with the mouse. What the page cannot do without is what its source touches; an error of the page fails the test.

use crate::environment::{TestEnvironment, eventually};
use crate::serve::{Served, serve, serve_at};
use serde_json::{Value, json};
use wire_page::{Chromium, Forwarder, Tab};

/// An agent that says something, uses a tool, and asks for another; each when the test opens a gate.
const AGENT: &str = r#"
say() { printf '%s\n' "$1" | tr -d '\n'; echo; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":'"$1"'}}'; }
chunk() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
gate() { while [ ! -e "GATES/$1" ]; do sleep 0.05; done; }
read -r hello
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"mine","version":"7"}}}'
read -r new
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}'
read -r prompt
gate talk
chunk 'I look at it. '
chunk 'Then I ask.'
gate ask
update '{"sessionUpdate":"tool_call","toolCallId":"c-0","kind":"read","title":"look","status":"in_progress","rawInput":{"path":"README.md"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"c-0","status":"completed"}'
say '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s-1",
  "toolCall":{"toolCallId":"c-1","kind":"execute","title":"copy","rawInput":{"command":"cp README.md made.txt"}},
  "options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}'
read -r told
case "$told" in
*'"optionId":"y"'*) cp README.md made.txt && status=completed ;;
*) status=failed ;;
esac
update '{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"'$status'"}'
gate end
chunk '{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\",\"files\":[],\"next_actions\":[],\"errors\":[],\"result\":
  {\"task_id\":\"make-it-new\",\"status\":\"SUCCESS\",\"summary\":\"did it\",\"evidence_refs\":{},\"failure\":null}}'
say '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r more
"#;

/// A server with that agent, and what forwards the page's requests to it.
struct Lab {
    env: TestEnvironment,
    served: Served,
    forwarder: Forwarder,
}

impl Lab {
    fn new() -> Lab {
        let env = TestEnvironment::initialized();
        // The agent is confined, so that whoever asks without a token is this machine's user; it reads the gates.
        std::fs::create_dir(env.dir.join("gates")).unwrap();
        env.write("agent.sh", &AGENT.replace("GATES", &env.at("gates")));
        env.commit("an agent");
        let mut registry: Value = serde_json::from_str(&env.read(".norma/policies/agent_registry.json")).unwrap();
        for agent in registry["agents"].as_array_mut().unwrap() {
            agent["defaults"]["approval_policy"] = json!("on-request");
        }
        env.write(".norma/policies/agent_registry.json", &registry.to_string());
        env.configure(|config| {
            config["agents"] = json!({"worker": {"type": "acp", "cmd": ["sh", "agent.sh"]}});
            config["sandbox"] = json!({"read": [env.at("gates")]});
        });
        let served = serve(&env);
        let forwarder = Forwarder::to(&served.host);
        Lab { env, served, forwarder }
    }

    /// Lets agents continue past a gate.
    fn open(&self, gates: &[&str]) {
        gates.iter().for_each(|gate| self.env.touch(&format!("gates/{gate}")));
    }

    /// Opens the page.
    fn page<'b>(&self, browser: &'b Chromium) -> Tab<'b> {
        let tab = browser.open(&self.forwarder.url());
        tab.until("page.isStarted === true");
        tab
    }

    /// A contract that the agent has to ask about every command.
    fn contract(&self) -> Value {
        let new = ["contract", "new", "--goal", "make it", "--allow", "made.txt", "--test", "test -f made.txt"];
        let made = self.env.norma(&[&new[..], &["--agent", "worker"]].concat());
        let mut contract: Value = serde_json::from_str(&made.success().raw).unwrap();
        contract["task_id"] = json!("make-it-new");
        contract["tool_permissions"]["shell"] = json!("untrusted");
        contract
    }

    /// Has the page start a run, and loads it again when the agent waits at its first gate: this page has no cursor, so
    /// whatever happens before its socket is open is lost to it.
    fn start(&self, tab: &Tab<'_>) -> String {
        let before = tab.eval("state.run?.id ?? ''");
        tab.fill("#start textarea", &json!({"contract": self.contract()}).to_string());
        tab.click("#start button");
        let refused = "document.querySelector('#error').innerText.startsWith('4')";
        tab.until(&format!("(state.run?.id ?? '') !== {before} || {refused}"));
        assert_eq!(tab.eval(refused), json!(false), "{}", tab.text("#error"));
        let id = tab.eval("state.run.id").as_str().unwrap().to_owned();
        self.is_at_first_gate(&id);
        tab.reload();
        tab.until("page.isStarted === true && page.sockets.at(-1)?.readyState === WebSocket.OPEN");
        assert_eq!(tab.text("#run h1"), id, "the newest run is shown");
        id
    }

    fn run(&self, id: &str) -> Value {
        self.served.get(&format!("/api/runs/{id}"))["run"].clone()
    }

    /// Waits until the agent has read what it is to do.
    fn is_at_first_gate(&self, id: &str) {
        eventually("the agent waits", || {
            let run = self.run(id);
            let node = run["nodes"].as_object().unwrap().values().next().cloned().unwrap_or_default();
            node["session"]["sessionId"] == "s-1" && node["status"] == "running"
        });
    }
}

const CARD: &str = "document.querySelectorAll('.card').length === 1";
const COMPLETED: &str = "document.querySelector('#status').innerText === 'COMPLETED'";

/// What went wrong in the page, and what a socket was sent twice.
#[track_caller]
pub(crate) fn is_well(tab: &Tab<'_>) {
    assert_eq!(tab.eval("page.errors"), json!([]));
    let doubled = "(() => { const seen = new Set(); return page.frames.map(({by, event}) => `${by} ${event.id}`)
        .filter((key) => seen.has(key) || !seen.add(key)); })()";
    assert_eq!(tab.eval(doubled), json!([]), "what a socket was sent twice");
    let bare = "page.frames.filter(({event}) => !['id', 'runId', 'ts', 'type'].every((name) => typeof event[name] === 'string'))";
    assert_eq!(tab.eval(bare), json!([]), "frames that are no event");
}

/// Sends an answer to an approval as the page does; answers the status.
fn answer(tab: &Tab<'_>, id: &str, status: &str) -> Value {
    let body = json!({"resolution": {"status": status}}).to_string();
    let options = json!({"method": "POST", "headers": {"Content-Type": "application/json"}, "body": body});
    tab.eval(&format!("fetch('/api/approvals/{id}/resolve', {options}).then((answer) => answer.status)"))
}

#[test]
fn a_page_starts_a_run_follows_it_to_its_end_and_approves_what_it_asks() {
    let Some(browser) = Chromium::start() else { return };
    let lab = Lab::new();
    let tab = lab.page(&browser);
    let id = lab.start(&tab);
    assert!(tab.text("#runs").contains(&id[..6]));
    lab.open(&["talk"]);
    tab.until("document.querySelector('.message.open')?.innerText === 'I look at it. Then I ask.'");
    lab.open(&["ask"]);
    tab.until(CARD);
    let card = tab.text(".card");
    assert!(card.contains(r#""cmd":"cp README.md made.txt""#) && card.contains(r#""cwd":"#), "{card}");
    assert_eq!(
        (tab.text(".node .status").as_str(), tab.text(".node .permissions").as_str()),
        ("BLOCKED", "gated true")
    );
    let asked = tab.eval("state.approvals[0].approvalId").as_str().unwrap().to_owned();
    tab.click(".card .approve");
    tab.until("document.querySelectorAll('.card').length === 0");
    tab.until("[...document.querySelectorAll('.tool')].every((row) => row.innerText.endsWith(' ok'))");
    assert!(!lab.env.root.join("made.txt").exists(), "it is in a workspace of its own until the run has passed");
    assert_eq!(answer(&tab, &asked, "denied"), json!(409), "a second answer");
    assert_eq!(answer(&tab, "00000000-0000-7000-8000-000000000000", "approved"), json!(404));
    lab.open(&["end"]);
    tab.until(COMPLETED);
    assert_eq!((tab.count(".message.open"), tab.count(".tool") > 0), (0, true));
    assert!(tab.text("#messages").contains("I look at it. Then I ask."));
    tab.click(".artifact.diff .view");
    tab.until("document.querySelector('#viewer').innerText.includes('+++ b/made.txt')");
    // What the page has made of a snapshot and the events after it is the snapshot that it would be given now.
    let snapshot = lab.run(&id);
    for part in ["status", "phase", "mode", "globalMode", "nodes", "edges", "artifacts"] {
        assert_eq!(tab.eval(&format!("state.run.{part}")), snapshot[part], "{part}");
    }
    is_well(&tab);
    assert_eq!(lab.env.read("made.txt"), "hello\n");
    lab.env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_page_denies_pauses_continues_and_deletes() {
    let Some(browser) = Chromium::start() else { return };
    let lab = Lab::new();
    let tab = lab.page(&browser);
    let id = lab.start(&tab);
    tab.click("#pause");
    tab.until("document.querySelector('#status').innerText === 'PAUSED'");
    eventually("it is paused", || lab.run(&id)["status"] == "paused");
    tab.click("#resume");
    tab.until("document.querySelector('#status').innerText === 'RUNNING'");
    lab.is_at_first_gate(&id);
    lab.open(&["talk", "ask"]);
    tab.until(CARD);
    tab.click(".card .deny");
    tab.until("document.querySelectorAll('.card').length === 0");
    tab.until("[...document.querySelectorAll('.tool')].some((row) => row.innerText.includes(' failed'))");
    // Its agent is still at work.
    tab.click(&format!("[data-run='{id}'] .delete"));
    tab.until(&format!("document.querySelector(\"[data-run='{id}']\") === null"));
    assert_eq!(tab.text("#error"), "");
    tab.click("#refresh");
    tab.until("page.requests.at(-1) === 'GET /runs'");
    assert_eq!(tab.count(&format!("[data-run='{id}']")), 0);
    eventually("it has ended", || lab.env.json(&["show", "@last"])["status"] == "canceled");
    is_well(&tab);
    lab.env.norma(&["verify", "@last"]).success();
}

#[test]
fn a_page_comes_back_to_a_server_that_was_killed() {
    let Some(browser) = Chromium::start() else { return };
    let lab = Lab::new();
    let tab = lab.page(&browser);
    let id = lab.start(&tab);
    lab.open(&["talk", "ask"]);
    tab.until(CARD);
    let sockets = tab.eval("page.sockets.length").as_u64().unwrap();
    for gate in ["talk", "ask"] {
        std::fs::remove_file(lab.env.dir.join("gates").join(gate)).unwrap();
    }
    lab.served.norma.signal("KILL");
    tab.until("page.sockets.at(-1).readyState === WebSocket.CLOSED");
    let Lab { env, served, forwarder } = lab;
    let port = served.port();
    // It has the port and the state directory until it is gone.
    drop(served);
    let served = serve_at(&env, port, &[]);
    let lab = Lab { env, served, forwarder };
    tab.until(&format!("page.sockets.length > {sockets} && page.sockets.at(-1).readyState === WebSocket.OPEN"));
    lab.is_at_first_gate(&id);
    lab.open(&["talk", "ask"]);
    // The card of the turn that was killed stays: what became of it was told while this page was away.
    tab.until("document.querySelectorAll('.card').length === 2");
    let [stale, asked] = [0, 1].map(|at| tab.eval(&format!("state.approvals[{at}].approvalId")));
    let pending = lab.served.get("/api/approvals")["approvals"].clone();
    assert_eq!((pending.as_array().unwrap().len(), &pending[0]["id"]), (1, &asked));
    tab.click(&format!("[data-approval={stale}] .approve"));
    tab.until("document.querySelector('#error').innerText.startsWith('409: ')");
    tab.click(&format!("[data-approval={asked}] .approve"));
    tab.until("document.querySelectorAll('.card').length === 1");
    lab.open(&["end"]);
    tab.until(COMPLETED);
    is_well(&tab);
    tab.reload();
    tab.until("page.isStarted === true");
    assert_eq!((tab.text("#status").as_str(), tab.count(".card")), ("COMPLETED", 0));
    is_well(&tab);
    lab.env.norma(&["verify", "@last"]).success();
}

#[test]
fn every_socket_of_every_page_is_told_everything_once() {
    let Some(browser) = Chromium::start() else { return };
    let lab = Lab::new();
    let tab = lab.page(&browser);
    let id = lab.start(&tab);
    // Whoever opens a run again has its old socket back a second later, too.
    tab.click(&format!("[data-run='{id}'] .open"));
    tab.until("page.sockets.filter((socket) => socket.readyState === WebSocket.OPEN).length === 2");
    let other = lab.page(&browser);
    other.until("page.sockets.at(-1)?.readyState === WebSocket.OPEN");
    lab.open(&["talk", "ask"]);
    other.until(CARD);
    other.click(".card .approve");
    lab.open(&["end"]);
    let ended = "page.frames.filter(({event}) => event.patch?.status === 'completed').length";
    tab.until(&format!("{ended} === 2"));
    other.until(&format!("{ended} === 1"));
    let by_socket = "Object.values(page.frames.reduce((all, {by, event}) => {
        (all[by] ??= []).push(event.id); return all; }, {}))";
    let mut told: Vec<Value> =
        [&tab, &other].iter().flat_map(|tab| tab.eval(by_socket).as_array().unwrap().clone()).collect();
    assert_eq!(told.len(), 3);
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    is_well(&tab);
    is_well(&other);
}

#[test]
fn a_browser_that_logged_in_needs_no_ticket_and_pages_of_other_origins_get_nothing() {
    let Some(browser) = Chromium::start() else { return };
    let lab = Lab::new();
    lab.open(&["talk", "ask", "end"]);
    let contract = json!({"contract": lab.contract()});
    let run = lab.served.ask("POST", "/api/runs", Some(&contract)).with(201)["run"].clone();
    let (id, port) = (run["id"].as_str().unwrap(), lab.served.port());
    let tab = browser.open(&lab.served.login);
    tab.until("location.pathname === '/'");
    let post = "{method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'}";
    assert_eq!(tab.eval("fetch('/api/runs').then((answer) => answer.status)"), json!(200));
    assert_eq!(tab.eval(&format!("fetch('/api/ws-ticket', {post}).then((answer) => answer.status)")), json!(200));
    let watch = |host: &str| {
        format!(
            "new Promise((resolve) => {{ const socket = new WebSocket('ws://{host}/ws?runId={id}&since=0');
               socket.onmessage = ({{data}}) => resolve(JSON.parse(data).seq); socket.onerror = () => resolve('refused'); }})"
        )
    };
    assert_eq!(tab.eval(&watch(&lab.served.host)), json!(1));
    // Cookies know no ports: this one is sent along, and so is what page it is from.
    let other = browser.open(&lab.forwarder.url().replace("localhost", "127.0.0.1"));
    other.until("page.isStarted === true");
    let host = format!("127.0.0.1:{port}");
    assert_eq!(other.eval(&watch(&host)), json!("refused"));
    for (path, options) in [
        ("", "credentials: 'include'"),
        ("", "method: 'DELETE', credentials: 'include'"),
        ("/cancel", "method: 'POST', mode: 'no-cors', credentials: 'include'"),
    ] {
        let refused = other.try_eval(&format!("fetch('http://{host}/api/runs/{id}{path}', {{{options}}})"));
        assert!(refused.as_ref().is_err_and(|why| why.contains("TypeError")), "{refused:?}");
    }
    assert_ne!(lab.run(id)["state"], json!("canceled"));
}
