//! Every run as a graph and as a stream. What is told is handed to a client that knows only seed 003 and what it says of
//! events: whatever history it follows, it ends with the snapshot that it would have been given.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::bundle::{Ends, item};
use crate::history::{self, History, budgets, committed, run_id};
use crate::{items_property, property};
use contract::session::{Decision, Permission, ToolKind};
use contract::view::graph::{Node, NodeStatus, Phase, ResolutionStatus, RunGraph, RunStatus};
use contract::view::stream::{MessageEnd, StreamBody, StreamEvent};
use contract::{
    AgentConfig, AgentType, ApprovalId, ApprovalWait, Contract, Event, Fact, Role, SessionEvent, Status, StepRef,
    Timestamp, TurnEnd, Verdict, Workflow,
};
use proptest::prelude::*;
use run::view::{self, Part, Projector};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const ROOT: &str = "/repo";

fn graph(events: &[Event]) -> RunGraph {
    view::graph(run_id(), ROOT, events).expect("there are events")
}

fn stream(events: &[Event]) -> Vec<StreamEvent> {
    let mut projector = Projector::new(run_id(), ROOT);
    events.iter().flat_map(|event| projector.apply(event)).collect()
}

/// What a client of the seed makes of events: a run, the cards of approvals, and nodes that are in the middle of a turn.
struct Client {
    run: Value,
    cards: BTreeSet<String>,
    streaming: BTreeSet<String>,
}

impl Client {
    fn new(first: &[Event]) -> Client {
        let run = serde_json::to_value(RunGraph { seq: None, ..graph(first) }).unwrap();
        Client { run, cards: BTreeSet::new(), streaming: BTreeSet::new() }
    }

    fn take(&mut self, event: &StreamEvent) {
        let event = serde_json::to_value(event).unwrap();
        let text = |name: &str| event[name].as_str().unwrap_or_else(|| panic!("no {name}: {event}")).to_owned();
        match event["type"].as_str().unwrap() {
            "run.patch" => self.patch_run(event["patch"].as_object().unwrap()),
            "node.patch" => merge(self.node(&text("nodeId")), &event["patch"]),
            "node.progress" => {
                let (status, summary) = (text("status"), text("summary"));
                let node = self.node(&text("nodeId"));
                (node["status"], node["summary"]) = (status.into(), summary.into());
            }
            "edge.created" => self.put("edges", &event["edge"]),
            "artifact.created" => self.put("artifacts", &event["artifact"]),
            "message.assistant.delta" => drop(self.streaming.insert(text("nodeId"))),
            "message.assistant.final" => drop((text("content"), self.streaming.remove(&text("nodeId")))),
            "message.user" => assert!(event["message"]["nodeId"].is_string()),
            "tool.completed" => assert!(event["result"]["ok"].is_boolean(), "{event}"),
            "tool.proposed" | "tool.started" => assert!(event["tool"]["args"].is_object(), "{event}"),
            "approval.requested" => assert!(self.cards.insert(text("approvalId")), "a second card: {event}"),
            "approval.resolved" => assert!(self.cards.remove(&text("approvalId")), "no such card: {event}"),
            _ => {}
        }
    }

    fn patch_run(&mut self, patch: &serde_json::Map<String, Value>) {
        let run = self.run.as_object_mut().unwrap();
        if patch.contains_key("state") {
            run.remove("reason");
            run.remove("message");
        }
        for (name, value) in patch {
            match name.as_str() {
                "nodes" | "edges" | "artifacts" => merge(&mut run[name], value),
                _ => drop(run.insert(name.clone(), value.clone())),
            }
        }
    }

    fn node(&mut self, id: &str) -> &mut Value {
        let node = self.run["nodes"].get_mut(id);
        node.unwrap_or_else(|| panic!("a patch of a node that nobody was told of: {id}"))
    }

    fn put(&mut self, map: &str, part: &Value) {
        self.run[map][part["id"].as_str().unwrap()] = part.clone();
    }
}

fn merge(into: &mut Value, patch: &Value) {
    into.as_object_mut().unwrap().extend(patch.as_object().unwrap().clone());
}

/// What agents say and ask, put into every turn of a history; answered in some of them and not in others.
fn talkative(events: &[Event]) -> Vec<Event> {
    let mut all = Vec::new();
    for event in events {
        all.push(event.clone());
        if let Fact::StepStarted { step, .. } = event.fact {
            let said = conversation(step, step.index % 3 != 0);
            all.extend(said.into_iter().map(|fact| Event { fact, ..event.clone() }));
        }
    }
    (1..).zip(all).map(|(seq, event)| Event { seq, ..event }).collect()
}

fn conversation(step: StepRef, answered: bool) -> Vec<Fact> {
    let said = |event| Fact::AgentEvent { step, event: Box::new(event) };
    let (call, tool, kind) = ("c1".to_owned(), "Bash".to_owned(), ToolKind::Shell);
    let input = json!({"command": "make -s"});
    let request = format!("permission-{}", step.index);
    let mut facts = vec![
        said(SessionEvent::Session { id: format!("s{}", step.index), model: Some("m".into()), agent: None }),
        said(SessionEvent::Message { text: "I look at it.\nThen I run it.".into() }),
        said(SessionEvent::ToolProposed { call: call.clone(), tool: tool.clone(), kind, input: input.clone() }),
        said(asks(&request)),
        Fact::ApprovalAsked { step, wait: wait(step, &request) },
    ];
    if answered {
        facts.push(said(SessionEvent::PermissionAnswered { id: request, decision: Decision::Allow }));
        facts.push(said(SessionEvent::ToolStarted { call: call.clone(), tool, kind, input }));
        facts.push(said(SessionEvent::ToolCompleted { call, ok: false, output: "no rule".into() }));
    }
    facts
}

fn asks(id: &str) -> SessionEvent {
    SessionEvent::PermissionRequested(Permission {
        id: id.to_owned(),
        tool: "Bash".into(),
        kind: ToolKind::Shell,
        command: Some("make -s".into()),
        cwd: Some("/repo/sub".into()),
        paths: Vec::new(),
        input: json!({"command": "make -s"}),
        reason: None,
    })
}

fn approval_id(step: StepRef) -> ApprovalId {
    ApprovalId::new(u64::from(step.index), [step.attempt as u8; 10])
}

/// As a turn asks it.
fn wait(step: StepRef, request: &str) -> ApprovalWait {
    let reasons = [
        "the agent asks to use Bash: unknown".to_owned(),
        "tool: Bash".into(),
        "command: make -s".into(),
        "directory: /repo/sub".into(),
        "tree: 00".into(),
        format!("step: {} {request}", step.dir_name()),
    ];
    let expires_at = Timestamp::from_unix_ms(99);
    ApprovalWait { approval: approval_id(step), reasons: reasons.to_vec(), expires_at }
}

/// What holds of every history, however it is told.
fn require_sound(events: &[Event]) {
    let told = stream(events);
    let ids: BTreeSet<&str> = told.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids.len(), told.len(), "an id twice");
    assert!(told.is_sorted_by_key(|event| event.seq) && told.iter().all(|event| event.seq.is_some()));
    assert!(told.iter().all(|event| event.seq == event.cause_seq && event.run_id == run_id()));
    let mut client = Client::new(&events[..1]);
    told.iter().filter(|event| event.seq > Some(1)).for_each(|event| client.take(event));
    let last = RunGraph { seq: None, ..graph(events) };
    assert_eq!(client.run, serde_json::to_value(&last).unwrap());
    if last.state.is_terminal() {
        assert!(client.cards.is_empty(), "asked for ever: {:?}", client.cards);
        let at_work = last.nodes.values().find(|node| matches!(node.status, NodeStatus::Running | NodeStatus::Blocked));
        assert_eq!(at_work, None);
    }
    require_diffs(events, &last);
    require_uuids(&told, &last);
    // Whoever begins to listen later hears the same from there on.
    let cut = events.len() / 2;
    let mut late = Projector::new(run_id(), ROOT);
    events[..cut].iter().for_each(|event| late.skip(event));
    let rest: Vec<StreamEvent> = events[cut..].iter().flat_map(|event| late.apply(event)).collect();
    assert_eq!(rest, told.iter().filter(|event| event.seq > Some(cut as u64)).cloned().collect::<Vec<_>>());
    require_parts(events, &last);
}

/// Whatever has an id has a UUID.
fn require_uuids(told: &[StreamEvent], graph: &RunGraph) {
    let is_uuid = |id: &str| {
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        parts == [8, 4, 4, 4, 12] && id.chars().all(|c| c == '-' || matches!(c, '0'..='9' | 'a'..='f'))
    };
    let parts = graph.nodes.keys().chain(graph.edges.keys()).chain(graph.artifacts.keys());
    let handoffs = told.iter().filter_map(|event| match &event.body {
        StreamBody::HandoffSent { envelope, .. } => Some(&envelope.id),
        _ => None,
    });
    for id in parts.chain(told.iter().map(|event| &event.id)).chain(handoffs) {
        assert!(is_uuid(id), "{id}");
    }
}

/// Every turn on record has exactly one diff, of its own node.
fn require_diffs(events: &[Event], graph: &RunGraph) {
    for event in events {
        let Fact::StepCommitted(done) = &event.fact else { continue };
        let is_diff = |name: &str| name == "diff.patch";
        let diffs: Vec<_> =
            graph.artifacts.values().filter(|it| it.step == Some(done.step.index) && is_diff(&it.name)).collect();
        assert_eq!(diffs.len(), 1, "{diffs:?}");
        assert_eq!(diffs[0].node_id, view::node_id(&run_id(), done.step));
        assert!(diffs[0].path.starts_with("/repo/.norma/runs/x/"), "{}", diffs[0].path);
    }
}

/// What is written fact by fact is the graph, too.
fn require_parts(events: &[Event], graph: &RunGraph) {
    let mut projector = Projector::new(run_id(), ROOT);
    let (mut head, mut nodes, mut edges, mut artifacts) = (None, BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for event in events {
        let told = projector.tell(event);
        for part in projector.parts(told) {
            match part {
                Part::Head(it) => head = Some(RunGraph::clone(&it)),
                Part::Node(node) => drop(nodes.insert(node.id.clone(), Node::clone(&node))),
                Part::Edge(edge) => drop(edges.insert(edge.id.clone(), edge)),
                Part::Artifact(it) => drop(artifacts.insert(it.id.clone(), *it)),
                Part::Asked(_) | Part::Settled(_) | Part::NodeGone(_) | Part::EdgeGone(_) => {}
            }
        }
    }
    assert_eq!(head.map(|head| RunGraph { nodes, edges, artifacts, ..head }).as_ref(), Some(graph));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_client_that_follows_a_loop_ends_with_its_snapshot(script in property::script(), rounds in 1u32..4) {
        let history = property::played(&script, rounds, 1);
        require_sound(&history.events);
        require_sound(&talkative(&history.events));
    }

    #[test]
    fn a_client_that_follows_a_batch_ends_with_its_snapshot(script in property::script()) {
        let history = items_property::played(&script);
        require_sound(&history.events);
        require_sound(&talkative(&history.events));
    }
}

fn labels(graph: &RunGraph) -> Vec<(String, String)> {
    let label = |id: &String| graph.nodes[id].label.clone();
    let mut edges: Vec<_> = graph.edges.values().map(|edge| (label(&edge.from), label(&edge.to))).collect();
    edges.sort();
    edges
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

#[test]
fn a_loop_has_four_nodes_and_goes_round() {
    let mut history = History::new(3, 0);
    let first = graph(&history.events);
    assert_eq!((first.status, first.phase, first.nodes.len()), (RunStatus::Running, Phase::Boot, 4));
    assert_eq!(labels(&first), pairs(&[("Act", "Plan"), ("Check", "Act"), ("Do", "Check"), ("Plan", "Do")]));
    let status = |history: &History, role: Role| {
        let step = StepRef { index: 0, role, iteration: 1, attempt: 1, item: None, node: None };
        graph(&history.events).nodes[&view::node_id(&run_id(), step)].status
    };
    history.open();
    assert_eq!((status(&history, Role::Plan), graph(&history.events).phase), (NodeStatus::Running, Phase::Execute));
    let step = StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None };
    history.record(Fact::StepCommitted(committed(step, TurnEnd::Answered, false)));
    history.answered(Role::Do);
    history.open();
    assert_eq!((status(&history, Role::Check), graph(&history.events).phase), (NodeStatus::Running, Phase::Verify));
    let step = StepRef { index: 3, role: Role::Check, iteration: 1, attempt: 1, item: None, node: None };
    history.record(Fact::StepCommitted(committed(step, TurnEnd::Answered, false)));
    history.record(history::verdict(step, Verdict::Pass, Verdict::Pass, &[]));
    assert_eq!(history.finish(), Status::Succeeded);
    let last = graph(&history.events);
    assert_eq!((last.status, last.phase, last.state), (RunStatus::Completed, Phase::Done, Status::Succeeded));
    let handoffs = stream(&history.events).into_iter().filter(|it| matches!(it.body, StreamBody::HandoffSent { .. }));
    assert_eq!(handoffs.count(), 2, "from plan to do, and from do to check");
}

#[test]
fn a_batch_has_a_node_for_each_item_and_an_edge_for_each_need() {
    let mut second = item("second", Ends::Landed);
    second.needs = vec!["first".into()];
    let items = vec![item("first", Ends::Landed), second];
    let contract = Contract { workflow: Workflow::Batch, task_id: None, items, ..history::contract(budgets(3), 0) };
    let history = History::of_items(contract);
    let graph = graph(&history.events);
    assert_eq!(
        graph.nodes.values().map(|node| node.label.as_str()).collect::<BTreeSet<_>>(),
        ["first", "second"].into()
    );
    assert_eq!(labels(&graph), pairs(&[("first", "second")]));
    let edge = graph.edges.values().next().unwrap();
    assert_eq!((edge.label.as_str(), edge.bidirectional), ("task", false));
}

#[test]
fn a_node_shows_what_its_agent_may_do_and_nothing_more() {
    let mut contract = history::contract(budgets(3), 0);
    let agent = AgentConfig::of(AgentType::Claude);
    contract.agents = Role::PDCA.into_iter().map(|role| (role, agent.clone())).collect();
    let history = History::under(contract);
    let graph = graph(&history.events);
    for node in graph.nodes.values() {
        let works = ["Do", "Act"].contains(&node.label.as_str());
        let can = node.capabilities;
        assert_eq!((can.write_code, can.run_commands, can.spawn_nodes), (works, works, false), "{}", node.label);
        assert!(node.permissions.spawn_requires_approval);
        assert_eq!(serde_json::to_value(node.provider).unwrap(), "claude");
        assert_eq!(node.session.reset_commands, ["/new", "/clear"]);
    }
}

#[test]
fn the_goal_is_told_once_and_byte_for_byte() {
    let mut contract = history::contract(budgets(3), 0);
    contract.goal = "  Make it\r\nwork \u{2028}\u{feff}".into();
    let mut history = History::under(contract.clone());
    history.turn(Role::Plan, TurnEnd::Interrupted, false);
    history.open();
    let told = stream(&history.events);
    let messages: Vec<&str> = told
        .iter()
        .filter_map(|event| match &event.body {
            StreamBody::MessageUser { message } => Some(message.content.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(messages, [contract.goal.as_str()]);
}

/// The turn of a plan in which these things happen.
fn turn(facts: impl Fn(StepRef) -> Vec<Fact>) -> Vec<StreamBody> {
    let mut history = History::new(3, 0);
    let step = history.open();
    let mut events = history.events.clone();
    for fact in facts(step) {
        events.push(Event { seq: events.len() as u64 + 1, ts: Timestamp::from_unix_ms(5), fact });
    }
    let told = stream(&events).into_iter().filter(|event| event.seq > Some(2));
    told.map(|event| event.body).collect()
}

#[test]
fn an_approval_shows_the_exact_command_and_is_told_once() {
    let told = turn(|step| {
        let asked = Fact::ApprovalAsked { step, wait: wait(step, "p") };
        vec![asked.clone(), asked]
    });
    let asked: Vec<Value> = told
        .iter()
        .filter(|body| matches!(body, StreamBody::ApprovalRequested(_)))
        .map(|body| serde_json::to_value(body).unwrap())
        .collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["tool"]["args"], json!({"cmd": "make -s", "argv": ["make", "-s"], "cwd": "/repo/sub"}));
    let blocked = told.iter().any(|body| matches!(body, StreamBody::NodeProgress { status: NodeStatus::Blocked, .. }));
    assert!(blocked);
}

#[test]
fn an_approval_is_resolved_when_the_agent_is_told_or_its_turn_is_over() {
    let input = json!({"command": "ls"});
    for (decision, expected) in [
        (Some(Decision::Allow), ResolutionStatus::Approved),
        (Some(Decision::Deny { message: "no".into() }), ResolutionStatus::Denied),
        (Some(Decision::AllowModified { input }), ResolutionStatus::Modified),
        (None, ResolutionStatus::Denied),
    ] {
        let told = turn(|step| {
            let answered = decision.clone().map(|decision| {
                let event = SessionEvent::PermissionAnswered { id: "p".into(), decision };
                Fact::AgentEvent { step, event: Box::new(event) }
            });
            let asked = Fact::ApprovalAsked { step, wait: wait(step, "p") };
            let used = Fact::ApprovalUsed { approval: approval_id(step), by: "Ada".into() };
            let end = Fact::StepCommitted(committed(step, TurnEnd::Answered, false));
            let used = (expected == ResolutionStatus::Approved).then_some(used);
            [asked].into_iter().chain(used).chain(answered).chain([end]).collect()
        });
        let resolved: Vec<_> = told
            .iter()
            .filter_map(|body| match body {
                StreamBody::ApprovalResolved { resolution, .. } => Some(resolution),
                _ => None,
            })
            .collect();
        assert_eq!(resolved.len(), 1, "{decision:?}");
        assert_eq!(resolved[0].status, expected);
        let modified = resolved[0].modified_args.as_ref().map(|args| args["cmd"].clone());
        assert_eq!(modified, (expected == ResolutionStatus::Modified).then(|| json!("ls")));
        assert_eq!(resolved[0].by.as_deref(), (expected == ResolutionStatus::Approved).then_some("Ada"));
    }
}

#[test]
fn a_turn_always_has_a_last_word() {
    let finals = |facts: &dyn Fn(StepRef) -> Vec<Fact>| -> Vec<(String, Option<MessageEnd>)> {
        let told = turn(facts).into_iter().filter_map(|body| match body {
            StreamBody::MessageFinal { content, status, .. } => Some((content, status)),
            _ => None,
        });
        told.collect()
    };
    let said = |step| Fact::AgentEvent { step, event: Box::new(SessionEvent::Message { text: "Hello\nthere".into() }) };
    let end = |step, end| Fact::StepCommitted(committed(step, end, false));
    let whole = finals(&|step| vec![said(step), end(step, TurnEnd::Answered)]);
    assert_eq!(whole, [("Hello\nthere".to_owned(), None)]);
    let silent = finals(&|step| vec![end(step, TurnEnd::Answered)]);
    assert_eq!(silent, [("done".to_owned(), None)]);
    let cut = finals(&|step| vec![end(step, TurnEnd::Interrupted)]);
    assert_eq!(cut, [("done".to_owned(), Some(MessageEnd::Interrupted))]);
    let lost = finals(&|step| vec![said(step), Fact::StepInterrupted { step }]);
    assert_eq!(lost.last().map(|(_, status)| *status), Some(Some(MessageEnd::Interrupted)));
}

#[test]
fn a_piece_of_a_message_has_no_place_in_the_log() {
    let step = StepRef { index: 1, role: Role::Plan, iteration: 1, attempt: 1, item: None, node: None };
    let piece = SessionEvent::MessageDelta { text: "Hel".into() };
    let delta = view::delta(&run_id(), "unique".into(), Timestamp::from_unix_ms(0), step, &piece).unwrap();
    let value = serde_json::to_value(&delta).unwrap();
    assert_eq!((&value["type"], &value["delta"]), (&json!("message.assistant.delta"), &json!("Hel")));
    assert_eq!((value.get("seq"), value.get("cause_seq")), (None, None));
    assert_eq!(value["nodeId"], view::node_id(&run_id(), step));
    let whole = SessionEvent::Message { text: "Hello".into() };
    assert!(view::delta(&run_id(), "unique".into(), Timestamp::from_unix_ms(0), step, &whole).is_none());
}
