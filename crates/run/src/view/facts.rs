//! One match over all facts: what each of them is on a stream. A fact that changes nothing that is shown is listed as that.

use super::artifact::{self, Diff, File};
use super::node::{LastTurn, NodeState, Turn};
use super::{Out, Projector, node_id, short};
use contract::id::derived_uuid;
use contract::view::graph::{
    ARTIFACT_SCHEME, Artifact, ArtifactKind, ArtifactRef, CONTRACT_VERSION, ConnectionStatus, Edge, EdgeKind, Envelope,
    EnvelopeKind, GlobalMode, Message, MessageRole, NodeStatus, Payload, PayloadStatus, Phase, RunGraph, RunMode,
};
use contract::view::stream::{MessageEnd, StreamBody};
use contract::work::Gate;
use contract::{
    ChangeDropped, Event, Fact, ItemAdded, ItemEnded, ItemStatus, PatchApplied, Reason, Role, RunStarted, Status,
    StepCommitted, StepRef, Timestamp, TurnEnd, Verdict, VerdictGiven, Workflow,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The edges of a loop, with what goes over them.
const LOOP: [(Role, Role, EdgeKind, &str); 4] = [
    (Role::Plan, Role::Do, EdgeKind::Handoff, "task"),
    (Role::Do, Role::Check, EdgeKind::Report, "report"),
    (Role::Check, Role::Act, EdgeKind::Handoff, "verdict"),
    (Role::Act, Role::Plan, EdgeKind::Report, "next round"),
];

impl Projector {
    pub(super) fn take(&mut self, event: &Event, out: &mut Out) {
        match &event.fact {
            Fact::RunStarted(started) => self.run_started(started, out),
            Fact::ItemAdded(added) => self.item_added(added, out),
            Fact::StepStarted { step, .. } => self.step_started(*step, out),
            Fact::StepCommitted(done) => self.step_committed(done, out),
            Fact::ReconciledStep { step, .. } | Fact::StepInterrupted { step } => self.step_lost(*step, out),
            Fact::AgentEvent { step, event } => self.agent_event(*step, event, out),
            Fact::ProtocolError { step, problems } => {
                let place = self.place(*step);
                let summary = short(&format!("protocol error: {}", problems.join("; ")));
                self.progress(place, out, |state| state.node.summary = summary);
            }
            Fact::Verdict(given) => self.verdict(given, out),
            Fact::ChangeStarted { .. } => self.change_run(out, |run| run.phase = Phase::Verify),
            Fact::PatchApplied(applied) => self.patch_applied(applied, out),
            Fact::ChangeDropped(dropped) => self.change_dropped(dropped, out),
            Fact::GateFailed { item, gate, findings } => {
                self.gate_failed(self.node_of_item(*item), *gate, false, findings, out);
            }
            Fact::PolicyViolation { item, node, gate, findings } => {
                let place = item.map(|item| self.node_of_item(item)).or(node.map(|place| place as usize));
                self.gate_failed(place.unwrap_or(usize::MAX), *gate, true, findings, out);
            }
            Fact::ItemEnded(ended) if self.is_graph() => self.graph_change_ended(ended, out),
            Fact::ItemEnded(ended) => self.item_ended(ended, out),
            Fact::ApprovalAsked { step, wait } => self.approval_asked(*step, wait, out),
            Fact::RunWaiting(wait) => self.run_waiting(wait, out),
            Fact::ApprovalUsed { approval, by } => self.approval_used(&approval.to_string(), by, out),
            Fact::Asked(wait) => self.question_asked(wait, out),
            Fact::Answered(said) => self.question_answered(said, out),
            Fact::Landed(_) | Fact::LandingDeclined(_) => self.change_run(out, |_| ()),
            Fact::Graph(fact) => self.graph_fact(fact, out),
            Fact::Intent(fact) => self.intent_fact(fact, out),
            Fact::Pipeline(fact) => self.pipeline_fact(fact, out),
            Fact::WorkSaved { .. }
            | Fact::OutputSchemaEnforced { .. }
            | Fact::ChangeInterrupted { .. }
            | Fact::ChangeRecovered { .. }
            | Fact::BudgetExceeded(_)
            | Fact::LandingStarted(_)
            | Fact::RunPaused(_)
            | Fact::RunResumed { .. }
            | Fact::EvidenceLost { .. }
            | Fact::RunPassed(_)
            | Fact::RunFailed(_)
            | Fact::RunDenied(_)
            | Fact::RunTimedOut(_)
            | Fact::RunStopped(_)
            | Fact::RunCanceled(_) => {}
        }
        match event.fact.run_state() {
            Some(state) if !matches!(event.fact, Fact::RunStarted(_)) => self.run_state(state, &event.fact, out),
            _ => {}
        }
    }

    fn run_started(&mut self, started: &RunStarted, out: &mut Out) {
        let contract = &started.contract;
        self.run_dir = started.run_dir.as_str().into();
        self.workers = Arc::new(contract.workers.clone());
        self.intent_agent = contract.intent.as_ref().map(|terms| terms.agent.as_str().into());
        self.protocol_retries = contract.limits.protocol_retries.unwrap_or_default();
        let (mode, global_mode) = match &contract.graph {
            Some(graph) => (graph.mode, graph.global_mode),
            None => (RunMode::Auto, GlobalMode::Implementation),
        };
        self.head = Some(Arc::new(RunGraph {
            id: self.id,
            contract_version: CONTRACT_VERSION.to_owned(),
            status: Status::Running.into(),
            phase: Phase::Boot,
            mode,
            global_mode,
            created_at: out.ts,
            updated_at: out.ts,
            slug: self.id.slug(),
            goal: contract.goal.clone(),
            workflow: contract.workflow,
            state: Status::Running,
            reason: None,
            message: None,
            seq: None,
            partial: false,
            layout: None,
            nodes: BTreeMap::new(),
            edges: BTreeMap::new(),
            artifacts: BTreeMap::new(),
        }));
        let goal: Arc<str> = contract.goal.as_str().into();
        if contract.workflow == Workflow::Pdca {
            for role in Role::PDCA {
                let node = NodeState::of_role(&self.id, role, &goal, contract.agents.get(&role), out.ts);
                self.nodes.push(Arc::new(node));
            }
        }
        self.touch(0..self.nodes.len(), out);
        let nodes = self.nodes().cloned().collect();
        self.change_run_and_nodes(out, nodes, |_| ());
        if contract.workflow == Workflow::Pdca {
            let id =
                |role| node_id(&self.id, StepRef { index: 0, role, iteration: 1, attempt: 1, item: None, node: None });
            for (from, to, kind, label) in LOOP {
                out.tell(StreamBody::EdgeCreated { edge: self.edge(id(from), id(to), kind, label) });
            }
        }
    }

    pub(super) fn edge(&self, from: String, to: String, kind: EdgeKind, label: &str) -> Edge {
        let id = derived_uuid(&self.id, &["edge", &from, &to]);
        Edge { id, from, to, bidirectional: false, kind, label: label.to_owned() }
    }

    pub(super) fn item_added(&mut self, added: &ItemAdded, out: &mut Out) {
        let item = &added.item;
        let needs: Arc<[u32]> = item.needs.iter().filter_map(|name| self.places.get(name).copied()).collect();
        if let Some(agent) = added.addition.as_ref().and_then(|addition| addition.agent.as_ref()) {
            Arc::make_mut(&mut self.workers).insert(item.worker.clone(), agent.clone());
        }
        Arc::make_mut(&mut self.places).insert(item.id.clone(), added.index);
        let agent = self.workers.get(&item.worker);
        let state = NodeState::of_item(&self.id, added, agent, Arc::clone(&needs), out.ts);
        let (node, is_first, writes) = (state.node.clone(), self.nodes.is_empty(), !item.read_only);
        self.touch(self.nodes.len()..self.nodes.len() + 1, out);
        self.nodes.push(Arc::new(state));
        let id = node.id.clone();
        self.change_run_and_nodes(out, vec![node], |run| {
            run.global_mode = match (writes, is_first) {
                (true, _) => GlobalMode::Implementation,
                (false, true) => GlobalMode::Planning,
                (false, false) => run.global_mode,
            };
        });
        // A large batch has hundreds of thousands of them, and the id of each is a digest.
        let told = if out.quiet { &[] } else { &needs[..] };
        for place in told {
            let Some(from) = self.nodes.get(*place as usize).map(|state| state.node.id.clone()) else { continue };
            let kind = EdgeKind::Handoff;
            out.tell(StreamBody::EdgeCreated { edge: self.edge(from, id.clone(), kind, kind.default_label()) });
        }
    }

    fn step_started(&mut self, step: StepRef, out: &mut Out) {
        let place = self.place(step);
        self.open += 1;
        let phase = if step.role == Role::Check { Phase::Verify } else { Phase::Execute };
        if !self.is_graph() {
            self.change_run(out, |run| run.phase = phase);
        }
        self.hand_over(place, out);
        let Some(state) = self.nodes.get(place) else { return };
        let (goal, briefed, ts) = (Arc::clone(&state.goal), state.briefed, out.ts);
        if !briefed {
            self.tell_message(place, &goal, out);
        }
        let summary = match (self.is_loop(), step.attempt) {
            (true, 1) => format!("round {}", step.iteration),
            (true, attempt) => format!("round {}, attempt {attempt}", step.iteration),
            (false, 1) => "working".to_owned(),
            (false, attempt) => format!("working, attempt {attempt}"),
        };
        self.progress(place, out, |state| {
            state.turn = Some(Turn { said: false, asked: BTreeMap::new(), taken: 0, interrupted: false });
            state.briefed = true;
            state.node.status = NodeStatus::Running;
            state.node.summary = summary;
            state.touch(ts);
            state.connect(ConnectionStatus::Connected);
        });
        if step.node.is_some() && self.is_graph() {
            self.take_inbox(place, out);
        }
    }

    /// A node that starts is handed what it builds on: what the one before it in a loop has said, and what came of the items
    /// that it needs.
    fn hand_over(&self, place: usize, out: &mut Out) {
        let Some(to) = self.nodes.get(place) else { return };
        let givers: Vec<usize> = match self.is_loop() {
            true => self.last.into_iter().filter(|from| *from != place).collect(),
            false if to.briefed => Vec::new(),
            false => to.needs.iter().map(|need| *need as usize).collect(),
        };
        for from in givers.into_iter().filter_map(|from| self.nodes.get(from)) {
            let Some(last) = &from.last else { continue };
            let refer =
                |id: &String| ArtifactRef { kind: ArtifactKind::Diff, reference: format!("{ARTIFACT_SCHEME}{id}") };
            let envelope = Envelope {
                kind: EnvelopeKind::Handoff,
                id: derived_uuid(&self.id, &["handoff", &out.seq.to_string(), &from.node.id, &to.node.id]),
                from_node_id: from.node.id.clone(),
                to_node_id: to.node.id.clone(),
                created_at: out.ts,
                payload: Payload {
                    message: last.summary.clone(),
                    structured: None,
                    artifacts: vec![refer(&last.diff)],
                    status: Some(PayloadStatus { ok: last.ok, reason: last.reason.map(str::to_owned) }),
                },
                context_ref: None,
            };
            out.tell(StreamBody::HandoffSent { node_id: from.node.id.clone(), envelope: Box::new(envelope) });
        }
    }

    /// What a person wants of a node, byte for byte.
    pub(super) fn tell_message(&self, place: usize, content: &str, out: &mut Out) {
        let Some(state) = self.nodes.get(place) else { return };
        let message = Message {
            id: derived_uuid(&self.id, &["message", &out.seq.to_string(), &state.node.id]),
            run_id: self.id,
            node_id: Some(state.node.id.clone()),
            role: MessageRole::User,
            content: content.to_owned(),
            interrupt: None,
            created_at: out.ts,
        };
        out.tell(StreamBody::MessageUser { message });
    }

    fn step_committed(&mut self, done: &StepCommitted, out: &mut Out) {
        let (place, ts) = (self.place(done.step), out.ts);
        let Some((node, kind)) = self.nodes.get(place).map(|state| (state.node.clone(), state.kind)) else { return };
        let status = match done.end {
            TurnEnd::Answered => None,
            TurnEnd::Interrupted => Some(MessageEnd::Interrupted),
            TurnEnd::Failed | TurnEnd::ProtocolError | TurnEnd::TimedOut => Some(MessageEnd::Failed),
        };
        if done.step.node.is_some() && self.is_graph() {
            let gives_back = self.gives_back(place, done);
            self.close_node_turn(place, gives_back, done.end == TurnEnd::ProtocolError, out);
        }
        self.close(place, status, &done.summary, out);
        for (kind, path) in artifact::of_turn(done, kind) {
            let file = File { kind, dir: &done.dir, path, step: Some(done.step.index), change: None };
            Self::tell_artifact(out, |ts| self.artifact(&node.id, &file, ts));
        }
        self.tell_diff_of_turn(done, &node.id, out);
        let last = LastTurn {
            summary: short(&done.summary),
            ok: status.is_none(),
            reason: done.reason.map(Reason::as_str),
            diff: self.diff_id(done.step.index),
        };
        self.last = Some(place);
        self.progress(place, out, |state| {
            state.node.status = if status == Some(MessageEnd::Failed) { NodeStatus::Failed } else { NodeStatus::Idle };
            state.node.summary = short(&done.summary);
            state.touch(ts);
            state.connect(ConnectionStatus::Idle);
            state.last = Some(last);
        });
        // What a worker left is judged next, unless others still work.
        let judged =
            !self.is_loop() && !self.is_graph() && done.step.item.is_some() && status.is_none() && self.open == 0;
        self.change_run(out, |run| run.phase = if judged { Phase::Verify } else { run.phase });
    }

    /// Every turn on record has its diff at once. What a worker left is looked at when it is judged: until then nothing is
    /// known of it but that it is there.
    fn tell_diff_of_turn(&self, done: &StepCommitted, node_id: &str, out: &mut Out) {
        let step = done.step.index;
        let path = if done.patch { "patch.diff" } else { "diff.patch" };
        let file = File { kind: ArtifactKind::Diff, dir: &done.dir, path, step: Some(step), change: None };
        let delta = done.delta.as_ref().map(|delta| Diff {
            files_changed: Some(delta.files.clone()),
            summary: changed(delta.count),
            empty: delta.count == 0,
        });
        if let Some(diff) = delta {
            return Self::tell_artifact(out, |ts| self.diff(node_id, step, &file, diff, ts));
        }
        let diff = match (done.patch, done.end == TurnEnd::Answered && done.step.item.is_some()) {
            (true, _) => Diff { files_changed: None, summary: short(&done.summary), empty: false },
            (false, true) => Diff { files_changed: None, summary: "not judged yet".to_owned(), empty: true },
            (false, false) => Diff::none("no changes"),
        };
        Self::tell_artifact(out, |ts| self.diff(node_id, step, &file, diff, ts));
    }

    /// Its id is a digest, so that it is made only where somebody listens.
    fn tell_artifact(out: &mut Out, artifact: impl FnOnce(Timestamp) -> Artifact) {
        if !out.quiet {
            let artifact = artifact(out.ts);
            out.tell(StreamBody::ArtifactCreated { node_id: artifact.node_id.clone(), artifact });
        }
    }

    /// The turn of a node is over: what it was in the middle of saying has an end, and what it asked lapses.
    fn close(&mut self, place: usize, status: Option<MessageEnd>, summary: &str, out: &mut Out) {
        let Some(state) = self.nodes.get(place) else { return };
        let said = state.turn.as_ref().is_some_and(|turn| turn.said);
        if !said || status.is_some() {
            let (node_id, content) = (state.node.id.clone(), summary.to_owned());
            out.tell(StreamBody::MessageFinal { node_id, content, status });
        }
        self.lapse_of_turn(place, out);
        self.open = self.open.saturating_sub(1);
        self.change_node(place, out, |state| state.turn = None);
    }

    fn step_lost(&mut self, step: StepRef, out: &mut Out) {
        let (place, ts) = (self.place(step), out.ts);
        let summary = "interrupted";
        if step.node.is_some() && self.is_graph() {
            self.close_node_turn(place, true, false, out);
        }
        self.close(place, Some(MessageEnd::Interrupted), "The turn was interrupted before anything was kept.", out);
        self.progress(place, out, |state| {
            state.node.status = NodeStatus::Idle;
            summary.clone_into(&mut state.node.summary);
            state.touch(ts);
            state.connect(ConnectionStatus::Idle);
        });
        self.change_run(out, |_| ());
    }

    fn verdict(&mut self, given: &VerdictGiven, out: &mut Out) {
        let (place, ts) = (self.place(given.step), out.ts);
        let summary = match given.verdict {
            Verdict::Pass => "PASS".to_owned(),
            Verdict::Fail if given.findings.is_empty() => "FAIL".to_owned(),
            Verdict::Fail => short(&format!("FAIL: {}", given.findings.join("; "))),
        };
        self.progress(place, out, |state| {
            if let Some(last) = state.last.as_mut() {
                (last.ok, last.summary) = (given.verdict == Verdict::Pass, summary.clone());
            }
            state.node.summary = summary;
            state.touch(ts);
        });
        self.change_run(out, |_| ());
    }

    fn patch_applied(&mut self, applied: &PatchApplied, out: &mut Out) {
        let place = Role::PDCA.iter().position(|role| *role == Role::Act).unwrap_or_default();
        let files = Some(applied.files.clone());
        let summary = changed(applied.file_count);
        let empty = applied.file_count == 0;
        let diff = Diff { files_changed: files, summary: summary.clone(), empty };
        self.change_ended(place, applied.change, Some(applied.step), diff, applied.receipt.is_some(), out);
        self.progress(place, out, |state| state.node.summary = summary);
        self.change_run(out, |_| ());
    }

    fn change_dropped(&mut self, dropped: &ChangeDropped, out: &mut Out) {
        let place = Role::PDCA.iter().position(|role| *role == Role::Act).unwrap_or_default();
        let summary = short(&format!("refused: {}", dropped.findings.join("; ")));
        for result in dropped.gates.iter().filter(|result| !result.passed) {
            let violation = dropped.reason == Reason::PolicyViolation;
            self.tell_gate(place, result.gate, violation, &result.findings, out);
        }
        let has_receipt = dropped.receipt.is_some();
        self.reports(place, dropped.change, Some(dropped.step), has_receipt, out);
        self.progress(place, out, |state| {
            state.node.status = NodeStatus::Failed;
            state.node.summary = summary;
        });
        self.change_run(out, |_| ());
    }

    /// The files of a change: its diff, which is that of the turn that proposed it, and what was judged.
    fn change_ended(&mut self, place: usize, change: u32, step: Option<u32>, diff: Diff, receipt: bool, out: &mut Out) {
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        if let Some(step) = step {
            let dir = format!("changes/{change:03}");
            let (kind, path) = (ArtifactKind::Diff, "patch.diff");
            let file = File { kind, dir: &dir, path, step: Some(step), change: Some(change) };
            Self::tell_artifact(out, |ts| self.diff(&node_id, step, &file, diff, ts));
        }
        self.reports(place, change, step, receipt, out);
    }

    pub(super) fn reports(&self, place: usize, change: u32, step: Option<u32>, receipt: bool, out: &mut Out) {
        let Some(node_id) = self.nodes.get(place).map(|state| state.node.id.clone()) else { return };
        let dir = format!("changes/{change:03}");
        let names = ["gates.json"].into_iter().chain(receipt.then_some("RECEIPT.json"));
        for path in names {
            let file = File { kind: ArtifactKind::Report, dir: &dir, path, step, change: Some(change) };
            Self::tell_artifact(out, |ts| self.artifact(&node_id, &file, ts));
        }
    }

    fn gate_failed(&mut self, place: usize, gate: Gate, violation: bool, findings: &[String], out: &mut Out) {
        let ts = out.ts;
        self.tell_gate(place, gate, violation, findings, out);
        let summary = short(&format!("{gate}: {}", findings.join("; ")));
        self.progress(place, out, |state| {
            state.node.summary = summary;
            state.touch(ts);
        });
    }

    fn tell_gate(&self, place: usize, gate: Gate, violation: bool, findings: &[String], out: &mut Out) {
        let Some(state) = self.nodes.get(place) else { return };
        let (node_id, findings) = (state.node.id.clone(), findings.to_vec());
        out.tell(StreamBody::GateFailed { node_id, gate, violation, findings });
    }

    fn item_ended(&mut self, ended: &ItemEnded, out: &mut Out) {
        let (place, ts) = (ended.item as usize, out.ts);
        let ok = ended.status == ItemStatus::Success;
        let count = ended.files.iter().sum();
        // A log of an older version does not name them.
        let files_changed = (count == 0 || !ended.paths.is_empty()).then(|| ended.paths.clone());
        let diff = Diff { files_changed, summary: changed(count), empty: count == 0 };
        self.change_ended(place, ended.change, ended.step, diff, true, out);
        let summary = match (ok, ended.message.is_empty()) {
            (true, _) => changed(count),
            (false, true) => ended.status.as_str().to_owned(),
            (false, false) => short(&format!("{}: {}", ended.status, ended.message)),
        };
        self.progress(place, out, |state| {
            state.node.status = if ok { NodeStatus::Idle } else { NodeStatus::Failed };
            state.node.summary = summary;
            state.ended = true;
            state.touch(ts);
            state.connect(ConnectionStatus::Disconnected);
            if let Some(last) = state.last.as_mut() {
                (last.ok, last.reason) = (ok, ended.reason.map(Reason::as_str));
            }
        });
        self.change_run(out, |_| ());
    }

    /// The run is in another state. At its end nobody is waited for any more.
    fn run_state(&mut self, (status, reason): (Status, Option<Reason>), fact: &Fact, out: &mut Out) {
        if status.is_terminal() {
            self.lapse_all(out);
            self.leave(out);
        }
        let message = (!matches!(fact, Fact::RunResumed { .. })).then(|| short(&fact.message()));
        self.change_run(out, |run| {
            run.status = status.into();
            run.state = status;
            run.reason = reason;
            run.message = message;
            run.phase = if status == Status::Succeeded { Phase::Done } else { run.phase };
        });
    }
}

impl Projector {
    /// Nobody works on the run any more.
    fn leave(&mut self, out: &mut Out) {
        let is_loop = self.is_loop();
        for place in 0..self.nodes.len() {
            let at_work = matches!(self.nodes[place].node.status, NodeStatus::Running | NodeStatus::Blocked);
            if !(is_loop || at_work) {
                continue;
            }
            self.change_node(place, out, |state| {
                state.turn = None;
                state.node.status = if at_work { NodeStatus::Idle } else { state.node.status };
                state.connect(ConnectionStatus::Disconnected);
            });
        }
    }
}

/// How much a change is, in words.
fn changed(files: u64) -> String {
    match files {
        0 => "no changes".to_owned(),
        1 => "1 file changed".to_owned(),
        count => format!("{count} files changed"),
    }
}
