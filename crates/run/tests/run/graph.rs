//! Graphs that people build: which node gets a turn, what it is told, where its results go, and what can never be on record.

#![allow(clippy::unwrap_used, reason = "a test that cannot make its world stops there")]

use crate::added::success;
use crate::history::{self, History, budgets, commit, committed, end, tree};
use crate::items_property::agent;
use contract::graph::{EdgeInput, GraphEdit, NodeAnswered, NodeAsked, NodeInput, NodeResult, NodeWishes, StallLimits};
use contract::view::graph::{EdgeKind, GlobalMode, Phase, Provider, ResolutionStatus, RunMode};
use contract::{
    ApprovalId, ApprovalWait, Contract, Fact, GraphFact, GraphTerms, ItemEnded, ItemStatus, Reason, RepoPath, Status,
    StepCommitted, StepRef, Taken, Timestamp, TurnEnd, Workflow,
};
use run::workflow::graph::edit::EditProblem;
use run::workflow::graph::outcome::{self, Ended};
use run::workflow::graph::{Input, NodeState};
use run::{Due, Run};
use serde_json::{Value, json};

fn contract(mode: RunMode) -> Contract {
    let graph = GraphTerms {
        mode,
        global_mode: GlobalMode::Implementation,
        tests: Vec::new(),
        docs_root: RepoPath::parse("docs").unwrap(),
        stall: StallLimits::default(),
    };
    let workers = ["custom", "other"].map(|name| (name.to_owned(), agent())).into();
    let terms = history::contract(budgets(1), 0);
    Contract { workflow: Workflow::Graph, task_id: None, rules: contract::RULES, graph: Some(graph), workers, ..terms }
}

/// A graph and whoever plays its agents.
struct Graph {
    history: History,
    said: u32,
}

impl Graph {
    fn new(mode: RunMode) -> Graph {
        Graph { history: History::under(contract(mode)), said: 0 }
    }

    fn run(&self) -> &Run {
        &self.history.run
    }

    fn node(&self, place: u32) -> &NodeState {
        &self.run().graph().unwrap().nodes[place as usize]
    }

    #[track_caller]
    fn edit(&mut self, edit: GraphEdit) {
        for fact in self.run().edit(&edit, "me").unwrap_or_else(|problem| panic!("{problem:?}")) {
            self.history.record(fact);
        }
    }

    fn refuse(&self, edit: GraphEdit) -> EditProblem {
        self.run().edit(&edit, "me").expect_err("it should be refused")
    }

    fn add(&mut self, label: &str, role: &str, more: Value) -> u32 {
        let mut input = json!({"label": label, "roleTemplate": role, "provider": "custom"});
        input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.edit(GraphEdit::AddNode { node: Box::new(serde_json::from_value(input).unwrap()) });
        self.run().graph().unwrap().nodes.len() as u32 - 1
    }

    fn connect(&mut self, from: &str, to: &str, more: Value) {
        let mut input = json!({"from": from, "to": to});
        input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let edge: EdgeInput = serde_json::from_value(input).unwrap();
        self.edit(GraphEdit::SetEdge { edge, id: format!("edge-{from}-{to}") });
    }

    fn say(&mut self, node: &str, content: &str, interrupt: bool) {
        self.said += 1;
        let (id, node, content) = (format!("message-{}", self.said), node.to_owned(), content.to_owned());
        self.edit(GraphEdit::Say { id, node, content, interrupt });
    }

    /// The labels of the nodes whose turns are due.
    fn due(&self) -> Vec<&str> {
        let label = |due| match due {
            Due::Turn(step) => Some(self.node(step.node.unwrap()).terms.label.as_str()),
            _ => None,
        };
        self.run().due().filter_map(label).collect()
    }

    /// Puts on record what only follows.
    fn settle(&mut self) {
        while let Some(facts) = self.follows() {
            for fact in facts {
                self.history.record(fact);
            }
        }
    }

    fn follows(&self) -> Option<Vec<Fact>> {
        self.run().due().find_map(|due| match due {
            Due::Advance(facts) => Some(facts),
            _ => None,
        })
    }

    /// Has a node begin its turn.
    #[track_caller]
    fn open(&mut self, place: u32) -> StepRef {
        self.settle();
        let step = self.run().due().find_map(|due| match due {
            Due::Turn(step) if step.node == Some(place) => Some(step),
            _ => None,
        });
        let step = step.unwrap_or_else(|| panic!("a turn of {place} should be due: {:?}", self.due()));
        let (head, node) = (self.run().line().head.clone(), self.node(place));
        let inputs = node.inbox.iter().map(|input| input.id().to_owned()).collect();
        let (base, tree) = (node.base.clone().unwrap_or(head.clone()), node.tree.unwrap_or(head.tree));
        let taken = Some(Box::new(Taken { tree, inputs }));
        self.history.record(Fact::StepStarted { step, base: Some(base), taken });
        step
    }

    /// Has a turn end with this answer; `made` names the tree that it leaves.
    #[track_caller]
    fn answer(&mut self, step: StepRef, summary: &str, result: Value, made: Option<&str>) {
        let shown = self.node(step.node.unwrap()).turn.as_ref().unwrap().tree;
        let result: NodeResult = serde_json::from_value(result).unwrap();
        let tree = Some(made.map_or(shown, tree));
        let at = Timestamp::default();
        let ended = Ended { step, at, summary, ok: true, reason: None, result: &result, refused: &[], tree };
        let led = outcome::led_to(self.run(), &ended);
        let summary = summary.to_owned();
        let done = StepCommitted { summary, tree, ..committed(step, TurnEnd::Answered, false) };
        self.history.record(Fact::StepCommitted(done));
        for fact in led.facts {
            self.history.record(fact);
        }
        self.settle();
    }

    /// A whole turn.
    #[track_caller]
    fn turn(&mut self, place: u32, summary: &str, result: Value) {
        let step = self.open(place);
        self.answer(step, summary, result, None);
    }

    fn inbox(&self, place: u32) -> Vec<&str> {
        self.node(place)
            .inbox
            .iter()
            .map(|input| match &**input {
                Input::Message { message, .. } => message.content.as_str(),
                Input::Handoff { sent, .. } => sent.envelope.payload.message.as_str(),
            })
            .collect()
    }

    /// Ends a change that was proposed.
    fn judged(&mut self, change: u32, status: ItemStatus) {
        let Fact::ItemEnded(mut ended) = success(&self.history, change) else { panic!("an item ends") };
        if status != ItemStatus::Success {
            let (reason, message) = (Some(Reason::TestsFailed), "Tests failed: 1".to_owned());
            ended.gates.last_mut().unwrap().passed = false;
            *ended = ItemEnded { status, reason, message, commit: None, after: ended.before, ..(*ended).clone() };
        }
        self.history.record(Fact::ItemEnded(ended));
        self.settle();
    }
}

fn pair() -> Graph {
    let mut graph = Graph::new(RunMode::Interactive);
    graph.add("A", "implementer", json!({}));
    graph.add("B", "implementer", json!({}));
    graph
}

#[test]
fn a_chat_line_starts_a_turn_that_takes_everything_that_waits() {
    let mut graph = pair();
    assert_eq!((graph.due(), graph.run().status), (Vec::<&str>::new(), Status::Running));
    assert!(graph.run().stays_open());
    graph.say("A", "one", false);
    graph.say("A", "two", false);
    assert_eq!(graph.due(), ["A"]);
    graph.settle();
    assert_eq!(graph.run().graph().unwrap().phase, Phase::Execute);
    let step = graph.open(0);
    assert_eq!((step.index, step.iteration, step.attempt), (1, 1, 1));
    assert_eq!((graph.inbox(0).len(), graph.node(0).turn.as_ref().unwrap().inputs.len()), (0, 2));
    graph.say("A", "three", false);
    assert_eq!(graph.due(), Vec::<&str>::new(), "one turn at a time");
    graph.say("B", "hello", false);
    assert_eq!(graph.due(), ["B"], "a node that works delays nobody");
    graph.answer(step, "did one and two", json!({}), None);
    assert_eq!((graph.inbox(0), graph.due()), (vec!["three"], vec!["A", "B"]));
}

#[test]
fn a_turn_takes_what_waits_for_its_node_and_nothing_else() {
    let mut graph = pair();
    graph.say("A", "one", false);
    let Some(Due::Turn(step)) = graph.run().due().find(|due| matches!(due, Due::Turn(_))) else { panic!("due") };
    let (base, tree) = (graph.run().line().head.clone(), graph.run().line().head.tree);
    for inputs in [vec![], vec!["message-2".to_owned()], vec!["message-1".to_owned(), "message-1".to_owned()]] {
        let taken = Some(Box::new(Taken { tree, inputs }));
        graph.history.refuse(Fact::StepStarted { step, base: Some(base.clone()), taken });
    }
    let (commit, taken) = (commit("elsewhere"), Some(Box::new(Taken { tree, inputs: vec!["message-1".to_owned()] })));
    let elsewhere = contract::ItemBase { commit, tree };
    graph.history.refuse(Fact::StepStarted { step, base: Some(elsewhere), taken });
}

#[test]
fn a_crash_gives_messages_back_and_the_turn_is_counted_once() {
    let mut graph = pair();
    graph.say("A", "one", false);
    let step = graph.open(0);
    graph.say("A", "two", false);
    graph.history.record(Fact::StepInterrupted { step });
    assert_eq!(graph.inbox(0), ["one", "two"]);
    let again = graph.open(0);
    assert_eq!((again.index, again.iteration, again.attempt), (2, 1, 2));
    graph.answer(again, "ok", json!({}), None);
    assert_eq!((graph.node(0).turns, graph.inbox(0).len()), (1, 0));
}

#[test]
fn an_interrupt_ends_the_turn_heads_the_next_one_and_what_was_taken_stays_taken() {
    let mut graph = pair();
    graph.say("A", "one", false);
    let step = graph.open(0);
    graph.say("A", "later", false);
    graph.say("A", "stop that", true);
    let done = committed(step, TurnEnd::Interrupted, false);
    graph.history.record(Fact::StepCommitted(done));
    assert_eq!(graph.inbox(0), ["stop that", "later"]);
    let next = graph.open(0);
    assert_eq!((next.iteration, next.attempt), (2, 1));
    // A pause is none: what the turn had taken is told again.
    let done = committed(next, TurnEnd::Interrupted, false);
    graph.history.record(Fact::StepCommitted(done));
    assert_eq!(graph.inbox(0), ["stop that", "later"]);
}

#[test]
fn results_do_not_go_back_and_forth_over_a_two_way_edge() {
    let mut graph = pair();
    graph.connect("A", "B", json!({}));
    graph.say("A", "start", false);
    graph.turn(0, "result of A", json!({}));
    assert_eq!((graph.due(), graph.inbox(1)), (vec!["B"], vec!["result of A"]));
    graph.turn(1, "result of B", json!({}));
    assert_eq!((graph.due(), graph.inbox(0)), (Vec::<&str>::new(), vec!["result of B"]));
    graph.say("A", "and now?", false);
    let step = graph.open(0);
    assert_eq!(graph.node(0).turn.as_ref().unwrap().inputs.len(), 2);
    graph.answer(step, "more of A", json!({}), None);
    assert_eq!(graph.due(), ["B"], "a person asked, so it goes on");
}

#[test]
fn an_answer_that_is_required_starts_a_turn() {
    let mut graph = pair();
    graph.connect("A", "B", json!({}));
    graph.say("A", "ask B", false);
    graph.turn(0, "asked", json!({"handoffs": [{"to": "B", "message": "why?", "response": "required"}]}));
    graph.turn(1, "because", json!({}));
    assert_eq!((graph.due(), graph.inbox(0)), (vec!["A"], vec!["because"]));
    graph.turn(0, "thanks", json!({}));
    assert_eq!(graph.due(), Vec::<&str>::new(), "and the answer to an answer starts none");
}

#[test]
fn work_is_handed_over_along_edges_only() {
    let mut graph = pair();
    graph.add("C", "reviewer", json!({}));
    graph.connect("A", "B", json!({"bidirectional": false, "label": ""}));
    let edges = &graph.run().graph().unwrap().edges;
    let edge = edges.values().next().unwrap();
    assert_eq!((edge.kind, edge.label.as_str(), edge.bidirectional), (EdgeKind::Handoff, "task", false));
    graph.say("A", "go", false);
    let handoffs = json!({"handoffs": [
        {"to": "B", "message": "yours"}, {"to": "C", "message": "no edge"}, {"to": "nobody", "message": "?"},
    ]});
    graph.turn(0, "done", handoffs);
    assert_eq!((graph.inbox(1), graph.inbox(2).len()), (vec!["yours"], 0));
    assert_eq!(graph.due(), ["B"], "what was refused waits for the next turn of A");
    assert_eq!(
        graph.inbox(0),
        ["handoff 2 was refused: there is no edge to C", "handoff 3 was refused: there is no node nobody"]
    );
    graph.say("B", "and?", false);
    graph.turn(1, "B is done", json!({}));
    assert_eq!(graph.inbox(0).len(), 2, "nothing comes back over a one-way edge");
}

#[test]
fn edges_have_the_defaults_of_the_seed_and_the_same_id_changes_one() {
    let mut graph = Graph::new(RunMode::Auto);
    graph.add("O", "Orchestrator", json!({}));
    graph.add("W", "implementer", json!({}));
    graph.connect("O", "W", json!({}));
    graph.connect("W", "O", json!({}));
    let edges = graph.run().graph().unwrap().edges.clone();
    let told: Vec<_> = edges.values().map(|edge| (edge.kind, edge.label.as_str(), edge.bidirectional)).collect();
    assert_eq!(told, [(EdgeKind::Handoff, "task", true), (EdgeKind::Report, "report", true)]);
    graph.connect("O", "W", json!({"label": "jobs"}));
    assert_eq!(
        (graph.run().graph().unwrap().edges.len(), &*graph.run().graph().unwrap().edges["edge-O-W"].label),
        (2, "jobs")
    );
    let self_edge: EdgeInput = serde_json::from_value(json!({"from": "O", "to": "O"})).unwrap();
    let problem = graph.refuse(GraphEdit::SetEdge { edge: self_edge, id: "x".into() });
    assert!(matches!(problem, EditProblem::Invalid { pointer, .. } if pointer == "/to"));
}

#[test]
fn auto_asks_the_orchestrator_to_continue_and_interactive_never_does() {
    for (mode, expected) in [(RunMode::Auto, vec!["O"]), (RunMode::Interactive, vec![])] {
        let mut graph = Graph::new(mode);
        graph.add("O", "orchestrator", json!({}));
        graph.add("W", "implementer", json!({}));
        graph.connect("O", "W", json!({}));
        assert_eq!(graph.due(), Vec::<&str>::new(), "nobody has asked for anything yet");
        graph.say("O", "build it", false);
        graph.turn(0, "handed over", json!({"handoffs": [{"to": "W", "message": "do it"}]}));
        let step = graph.open(1);
        assert_eq!(graph.due(), Vec::<&str>::new(), "while others work it waits");
        graph.answer(step, "did it", json!({}), None);
        assert_eq!((graph.due(), graph.inbox(0)), (expected, vec!["did it"]), "{mode:?}");
    }
}

#[test]
fn an_orchestrator_that_says_the_same_again_and_again_stalls_the_run() {
    let mut graph = Graph::new(RunMode::Auto);
    graph.add("O", "orchestrator", json!({}));
    graph.say("O", "go", false);
    for _ in 0..3 {
        graph.turn(0, "nothing to do", json!({}));
    }
    let Some(Due::Stall(stalled)) = graph.run().due().next() else { panic!("{:?}", graph.run().next()) };
    assert_eq!((stalled.node, stalled.evidence.summaries.len()), (0, 3));
    assert!(stalled.evidence.output_hash.is_some() && stalled.evidence.diff_hash.is_none());
    graph.history.record(Fact::Graph(GraphFact::RunStalled(stalled)));
    assert_eq!(graph.run().due().count(), 0);
    graph.history.record(Fact::RunPaused(end(Some(Reason::Stalled))));
    graph.say("O", "try something else", false);
    graph.history.record(Fact::RunResumed { pid: 1 });
    assert_eq!(graph.due(), ["O"], "whoever resumes it begins to count anew");
}

#[test]
fn an_orchestrator_that_has_nothing_to_do_is_not_asked_for_ever() {
    let mut graph = Graph::new(RunMode::Auto);
    graph.add("O", "orchestrator", json!({}));
    graph.say("O", "go", false);
    let mut turns = 0;
    while graph.due() == ["O"] {
        turns += 1;
        graph.turn(0, &format!("word {}", "x".repeat(turns)), json!({}));
        assert!(turns < 10);
    }
    assert_eq!(turns, 4);
}

#[test]
fn what_a_node_made_is_judged_and_the_run_is_done_when_all_of_it_has_passed() {
    let mut graph = pair();
    graph.say("A", "change something", false);
    let step = graph.open(0);
    graph.answer(step, "changed", json!({}), Some("a-1"));
    assert!(graph.node(0).is_dirty());
    graph.edit(GraphEdit::Done);
    graph.settle();
    assert_eq!(graph.run().graph().unwrap().phase, Phase::Verify);
    assert_eq!(graph.run().due().collect::<Vec<_>>(), [Due::Item { item: 0 }]);
    graph.history.refuse(Fact::RunPassed(end(None)));
    graph.judged(0, ItemStatus::Failure);
    assert_eq!(graph.run().graph().unwrap().phase, Phase::Execute);
    assert_eq!(graph.due(), ["A"], "whoever made it is told");
    let step = graph.open(0);
    graph.answer(step, "fixed", json!({"change": true}), Some("a-2"));
    assert_eq!(graph.run().due().collect::<Vec<_>>(), [Due::Item { item: 1 }]);
    graph.judged(1, ItemStatus::Success);
    assert!(!graph.node(0).is_dirty());
    graph.edit(GraphEdit::Done);
    graph.settle();
    assert_eq!(graph.run().graph().unwrap().phase, Phase::Done);
    assert_eq!(graph.run().next(), Due::Land);
    graph.history.refuse(Fact::RunPassed(end(None)));
    graph.history.land("refs/heads/main");
    assert_eq!(graph.history.finish(), Status::Succeeded);
}

#[test]
fn a_graph_without_changes_needs_none_and_phases_follow_each_other() {
    let mut graph = Graph::new(RunMode::Auto);
    graph.add("O", "orchestrator", json!({}));
    graph.say("O", "nothing to do", false);
    graph.turn(0, "done", json!({"done": true}));
    let phases: Vec<Phase> = graph
        .history
        .events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::Graph(GraphFact::PhaseChanged(changed)) => Some(changed.new),
            _ => None,
        })
        .collect();
    assert_eq!(phases, [Phase::Execute, Phase::Verify, Phase::Done]);
    assert!(matches!(graph.run().next(), Due::End { status: Status::Succeeded, .. }));
}

#[test]
fn a_nodes_done_is_only_its_own_unless_it_leads() {
    let mut graph = pair();
    graph.say("A", "go", false);
    graph.turn(0, "finished", json!({"done": true}));
    assert!(graph.node(0).done && graph.run().graph().unwrap().done.is_none());
    assert_eq!(graph.run().graph().unwrap().phase, Phase::Execute);
}

#[test]
fn nodes_that_declare_the_same_paths_do_not_work_at_the_same_time() {
    let mut graph = Graph::new(RunMode::Interactive);
    for (label, scope) in [("A", json!(["src"])), ("B", json!(["src/parse.rs"])), ("C", json!(["docs"]))] {
        graph.add(label, "implementer", json!({"scope": scope}));
    }
    for label in ["A", "B", "C"] {
        graph.say(label, "go", false);
    }
    assert_eq!(graph.due(), ["A", "B", "C"]);
    let step = graph.open(0);
    assert_eq!(graph.due(), ["C"]);
    graph.answer(step, "ok", json!({}), None);
    assert_eq!(graph.due(), ["B", "C"]);
}

#[test]
fn what_an_agent_asks_for_waits_for_a_person_and_nobody_else_does() {
    let mut graph = pair();
    graph.say("A", "go", false);
    graph.turn(0, "may I?", json!({"ask": {"command": ["make", "install"], "reason": "to try it"}}));
    let Some(Due::AskFor(step)) = graph.run().due().next() else { panic!("{:?}", graph.run().next()) };
    let approval: ApprovalId = "0190b0a0-0000-7000-8000-000000000001".parse().unwrap();
    let wait = ApprovalWait {
        approval,
        reasons: vec!["command: make install".into()],
        expires_at: Timestamp::from_unix_ms(7),
    };
    assert_eq!(graph.run().node_deadline(), None);
    graph.history.record(Fact::Graph(GraphFact::NodeAsked(Box::new(NodeAsked { step, wait }))));
    assert_eq!(graph.run().node_deadline(), Some(Timestamp::from_unix_ms(7)));
    graph.say("B", "hello", false);
    assert_eq!((graph.due(), graph.run().status), (vec!["B"], Status::Running));
    let wished = graph.run().graph().unwrap().wishes.values().next().unwrap().clone();
    let status = ResolutionStatus::Modified;
    let argv = Some(vec!["make".to_owned(), "check".to_owned()]);
    let answered = NodeAnswered { approval, status, by: "ada".into(), reason: None, argv };
    for fact in outcome::answered(graph.run(), &wished, answered.clone(), Timestamp::default()) {
        graph.history.record(fact);
    }
    assert_eq!(graph.inbox(0), ["approval answered: modified\nargv: [\"make\",\"check\"]"]);
    assert_eq!((graph.due(), graph.run().node_deadline()), (vec!["A", "B"], None));
    graph.history.refuse(Fact::Graph(GraphFact::NodeAnswered(Box::new(answered))));
}

#[test]
fn nodes_are_made_by_agents_only_as_far_as_they_may() {
    let spawn =
        json!({"spawn": {"label": "S", "roleTemplate": "implementer", "provider": "custom", "instructions": "help"}});
    let mut graph = Graph::new(RunMode::Interactive);
    graph.add("plain", "implementer", json!({}));
    graph.add(
        "maker",
        "implementer",
        json!({"capabilities": {"spawnNodes": true}, "permissions": {"spawnRequiresApproval": false}}),
    );
    graph.add("lead", "orchestrator", json!({"capabilities": {"spawnNodes": true}}));
    for label in ["plain", "maker", "lead"] {
        graph.say(label, "go", false);
    }
    graph.turn(0, "one", spawn.clone());
    assert_eq!(graph.inbox(0), ["spawn was refused: this node may not make others (spawnNodes)"]);
    graph.turn(1, "two", spawn.clone());
    assert_eq!(graph.run().graph().unwrap().wishes.len(), 1, "whoever does not lead always needs approval");
    graph.turn(2, "three", spawn);
    let spawned = graph.node(3);
    assert_eq!((spawned.terms.label.as_str(), spawned.terms.provider), ("S", Provider::Custom));
    assert!(!spawned.terms.capabilities.spawn_nodes);
    assert_eq!((graph.inbox(3), graph.due()), (vec!["help"], vec!["S"]));
}

#[test]
fn a_graph_is_built_while_it_is_paused_and_not_when_it_is_over() {
    let mut graph = pair();
    graph.history.record(Fact::RunPaused(end(Some(Reason::Interrupted))));
    graph.add("C", "reviewer", json!({}));
    graph.say("C", "look", false);
    assert_eq!(graph.run().due().count(), 0);
    graph.history.record(Fact::RunResumed { pid: 1 });
    assert_eq!(graph.due(), ["C"]);
    graph.edit(GraphEdit::RemoveNode { node: "C".into() });
    assert_eq!(graph.due(), Vec::<&str>::new());
    let missing = graph.refuse(GraphEdit::ResetNode { node: "C".into() });
    assert_eq!(missing, EditProblem::Missing("there is no node C".into()));
    graph.history.record(Fact::RunCanceled(end(Some(Reason::Canceled))));
    let refused = graph.refuse(GraphEdit::Done);
    assert_eq!(refused, EditProblem::Refused("the run is canceled; start another one".into()));
}

#[test]
fn changes_of_a_node_are_on_record_with_what_was_and_another_agent_begins_anew() {
    let mut graph = pair();
    let patch = |patch: Value| GraphEdit::PatchNode {
        node: "A".into(),
        patch: Box::new(serde_json::from_value(patch).unwrap()),
    };
    graph.edit(patch(json!({"label": "A", "agent": "other"})));
    assert_eq!((graph.node(0).session, graph.node(0).terms.worker.as_str()), (1, "other"));
    let Fact::Graph(GraphFact::NodeChanged(changed)) = &graph.history.events.last().unwrap().fact else {
        panic!("it is on record")
    };
    assert_eq!((changed.old.worker.as_str(), changed.new.worker.as_str()), ("custom", "other"));
    let before = graph.history.events.len();
    graph.edit(patch(json!({"label": "A"})));
    assert_eq!(graph.history.events.len(), before, "what stays as it is is no fact");
    let unknown = graph.refuse(patch(json!({"agent": "nobody"})));
    assert!(matches!(unknown, EditProblem::Invalid { pointer, .. } if pointer == "/agent"));
    let empty: NodeWishes = serde_json::from_value(json!({"customSystemPrompt": null})).unwrap();
    assert_eq!(empty.custom_system_prompt, Some(None));
    graph.say("A", " /clear\n", false);
    assert_eq!((graph.node(0).session, graph.inbox(0).len()), (2, 0), "a reset is no message");
}

#[test]
fn an_input_has_the_defaults_of_the_seed() {
    let input: NodeInput = serde_json::from_value(json!({"label": "x"})).unwrap();
    assert_eq!((input.role_template.as_str(), input.provider), ("implementer", Provider::Custom));
    let mut graph = Graph::new(RunMode::Auto);
    graph.edit(GraphEdit::AddNode { node: Box::new(input) });
    let can = graph.node(0).terms.capabilities;
    assert!(can.write_code && can.write_docs && can.run_commands && !can.spawn_nodes && !can.delegate_only);
    assert_eq!(graph.node(0).terms.reset_commands, ["/new", "/clear"]);
    let told =
        graph.refuse(GraphEdit::Say { id: "m".into(), node: "x".into(), content: String::new(), interrupt: false });
    assert!(matches!(told, EditProblem::Invalid { pointer, .. } if pointer == "/content"));
}
