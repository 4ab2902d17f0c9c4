//! Builds histories of a run fact by fact: it asks `next()` what is due and answers with what a test wants to
//! have happened. A fact that is illegal where it is recorded fails the test that records it.

use contract::{
    Author, Backend, Base, BudgetExceeded, Budgets, ChangeDropped, CommitId, Contract, ContractSchema, Digest, Earlier,
    End, Event, Fact, Item, ItemAdded, Landing, LandingConfig, LandingDeclined, ObjectId, PatchApplied, ProcessEnd,
    Reason, Role, RunId, RunStarted, Slug, Status, StepCommitted, StepRef, StepStatus, Timestamp, TreeId, TurnEnd,
    TurnLimits, Verdict, VerdictGiven, Workflow,
};
use run::{Due, Illegal, Run};

pub(crate) const BASE_TREE: TreeId = TreeId(ObjectId::Sha1([0; 20]));

/// A tree that no repository has.
pub(crate) fn tree(name: &str) -> TreeId {
    TreeId(ObjectId::Sha256(*contract::hash::sha256(name.as_bytes()).as_bytes()))
}

/// A commit that no repository has.
pub(crate) fn commit(name: &str) -> CommitId {
    CommitId(tree(name).0)
}

/// What a run may use up in these tests.
pub(crate) fn budgets(max_iterations: u32) -> Budgets {
    Budgets {
        max_iterations,
        max_patch_kb: Some(8),
        max_changed_files: Some(3),
        max_risky_files: Some(1),
        max_minutes: Some(60),
        max_tokens: None,
        max_cost_usd: None,
    }
}

pub(crate) fn contract(budgets: Budgets, protocol_retries: u32) -> Contract {
    Contract {
        approval_for: Vec::new(),
        prices: std::collections::BTreeMap::new(),
        tls: contract::TlsConfig::default(),
        attended: false,
        again: false,
        rules: 1,
        graph: None,
        intent: None,
        pipeline: None,
        workers: Default::default(),
        items: Vec::new(),
        schema: ContractSchema::V1,
        workflow: Workflow::Pdca,
        goal: "Make it work".into(),
        acceptance_criteria: vec![contract::AcceptanceCriterion { id: "AC1".into(), text: "it works".into() }],
        budgets,
        limits: TurnLimits { protocol_retries: Some(protocol_retries), ..TurnLimits::default() },
        landing: LandingConfig::default(),
        agents: Default::default(),
        sandbox: Backend::None,
        sandbox_limits: Default::default(),
        sandbox_read: Vec::new(),
        backends: contract::Backends::default(),
        workspace: Default::default(),
        task_id: Some(1),
        scope: Default::default(),
        policies: Default::default(),
    }
}

pub(crate) fn started(contract: Contract) -> Fact {
    Fact::RunStarted(Box::new(RunStarted {
        items: 0,
        contract_digest: contract.digest(),
        contract,
        base: Base { commit: commit("commit-0"), tree: BASE_TREE, branch: Some("refs/heads/main".into()) },
        tree: BASE_TREE,
        author: Author { name: "A".into(), email: "a@example.org".into() },
        left_out: vec![],
        included: Vec::new(),
        replay_of: None,
        receipt: None,
        parent: None,
        fork: None,
        run_dir: ".norma/runs/x".into(),
        pid: 1,
        version: "0.1.0".into(),
    }))
}

/// The slug of another run.
pub(crate) fn earlier() -> Slug {
    RunId::new(0, [9; 10]).slug()
}

pub(crate) fn run_id() -> RunId {
    RunId::new(1_769_180_101_000, [7; 10])
}

pub(crate) fn landing(target: &str) -> Landing {
    Landing { target: target.into(), from: Some(commit("commit-0")), commit: commit("commit-1"), checkout: true }
}

pub(crate) fn end(reason: Option<Reason>) -> End {
    End { reason, message: "over".into() }
}

/// The record of a turn that ended like this.
pub(crate) fn committed(step: StepRef, turn_end: TurnEnd, patch: bool) -> StepCommitted {
    let (reason, process) = match turn_end {
        TurnEnd::Answered => (None, ProcessEnd::Exited(0)),
        TurnEnd::Failed => (Some(Reason::AgentFailed), ProcessEnd::Exited(3)),
        TurnEnd::ProtocolError => (Some(Reason::ProtocolError), ProcessEnd::Exited(0)),
        TurnEnd::TimedOut => (Some(Reason::AgentTimeout), ProcessEnd::WallDeadline),
        TurnEnd::Interrupted => (Some(Reason::Interrupted), ProcessEnd::Canceled),
    };
    StepCommitted {
        tree: None,
        until: None,
        usage: None,
        step,
        status: if turn_end == TurnEnd::Answered { StepStatus::Ok } else { StepStatus::Fail },
        end: turn_end,
        reason,
        summary: "done".into(),
        dir: format!("steps/{}", step.dir_name()),
        started_at: Timestamp::from_unix_ms(0),
        process,
        patch,
        notes: vec![],
        evidence: Digest::from_bytes([1; 32]),
        delta: None,
    }
}

/// A history under construction.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) run: Run,
    pub(crate) events: Vec<Event>,
    now_ms: u64,
    trees: u32,
}

impl History {
    pub(crate) fn new(max_iterations: u32, protocol_retries: u32) -> History {
        History::under(contract(budgets(max_iterations), protocol_retries))
    }

    pub(crate) fn under(contract: Contract) -> History {
        let first = Event { seq: 1, ts: Timestamp::from_unix_ms(0), fact: started(contract) };
        let run = Run::start(run_id(), &first).expect("the first fact is legal");
        History { run, events: vec![first], now_ms: 0, trees: 0 }
    }

    /// A run that carries out the contract of another one again.
    pub(crate) fn again(of: Slug) -> History {
        let Fact::RunStarted(mut first) = started(contract(budgets(3), 0)) else { unreachable!("a run starts") };
        first.replay_of = Some(of);
        let first = Event { seq: 1, ts: Timestamp::from_unix_ms(0), fact: Fact::RunStarted(first) };
        let run = Run::start(run_id(), &first).expect("the first fact is legal");
        History { run, events: vec![first], now_ms: 0, trees: 0 }
    }

    /// A run of the items of a contract, all of them on record.
    pub(crate) fn of_items(contract: Contract) -> History {
        let added = contract.items.iter().map(|_| None).collect();
        History::after(None, contract, added)
    }

    /// The same of a run that continues from another one, with what came of each item there.
    pub(crate) fn after(parent: Option<Slug>, contract: Contract, earlier: Vec<Option<Earlier>>) -> History {
        let (mut history, items) = History::before_items(parent, contract);
        for (index, (item, earlier)) in (0..).zip(items.into_iter().zip(earlier)) {
            history.record(Fact::ItemAdded(Box::new(ItemAdded { index, item, earlier, addition: None })));
        }
        history
    }

    /// A run of items of which none is on record yet.
    pub(crate) fn before_items(parent: Option<Slug>, mut contract: Contract) -> (History, Vec<Item>) {
        let digest = contract.digest();
        let items = std::mem::take(&mut contract.items);
        let Fact::RunStarted(mut first) = started(contract) else { unreachable!("a run starts") };
        (first.items, first.contract_digest) = (items.len() as u32, digest);
        first.parent = parent;
        let first = Event { seq: 1, ts: Timestamp::from_unix_ms(0), fact: Fact::RunStarted(first) };
        let run = Run::start(run_id(), &first).expect("the first fact is legal");
        (History { run, events: vec![first], now_ms: 0, trees: 0 }, items)
    }

    /// Lets time pass before the next fact.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    pub(crate) fn next_event(&self, fact: Fact) -> Event {
        Event { seq: self.run.seq + 1, ts: Timestamp::from_unix_ms(self.now_ms), fact }
    }

    /// Records a fact as whoever writes a log does: it must be due, and it must be legal.
    pub(crate) fn try_record(&mut self, fact: Fact) -> Result<(), Illegal> {
        let event = self.next_event(fact);
        self.run.admits(&event.fact).map_err(|not_due| Illegal { seq: event.seq, why: not_due.to_string() })?;
        self.run.apply(&event)?;
        self.events.push(event);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn record(&mut self, fact: Fact) -> &mut History {
        if let Err(illegal) = self.try_record(fact.clone()) {
            panic!("{illegal}\n{fact:?}\n{:?}", self.run.flow);
        }
        self
    }

    /// A fact that must not be legal here; the state must be as if it had never been tried.
    #[track_caller]
    pub(crate) fn refuse(&mut self, fact: Fact) -> String {
        let before = self.run.clone();
        let Err(illegal) = self.try_record(fact.clone()) else { panic!("should be illegal: {fact:?}") };
        assert_eq!(self.run, before, "an illegal fact changed the state");
        illegal.why
    }

    #[track_caller]
    pub(crate) fn due_turn(&self) -> StepRef {
        match self.run.next() {
            Due::Turn(step) => step,
            other => panic!("a turn should be due, not {other:?}"),
        }
    }

    /// Opens the turn that is due.
    #[track_caller]
    pub(crate) fn open(&mut self) -> StepRef {
        let step = self.due_turn();
        self.record(Fact::StepStarted { step, base: None, taken: None });
        step
    }

    /// Takes the turn that is due; a check needs [`History::check`].
    #[track_caller]
    pub(crate) fn turn(&mut self, role: Role, turn_end: TurnEnd, patch: bool) -> StepRef {
        let step = self.open();
        assert_eq!(step.role, role);
        self.record(Fact::StepCommitted(committed(step, turn_end, patch)));
        if turn_end == TurnEnd::ProtocolError {
            self.record(Fact::ProtocolError { step, problems: vec!["stdout not valid JSON".into()] });
        }
        step
    }

    #[track_caller]
    pub(crate) fn answered(&mut self, role: Role) -> StepRef {
        self.turn(role, TurnEnd::Answered, false)
    }

    /// A check that answers and gives a verdict.
    #[track_caller]
    pub(crate) fn check(&mut self, claimed: Verdict, findings: &[&str]) -> StepRef {
        let step = self.answered(Role::Check);
        let counts = if findings.is_empty() { claimed } else { Verdict::Fail };
        self.record(verdict(step, claimed, counts, findings));
        step
    }

    /// plan, do and a check that fails.
    #[track_caller]
    pub(crate) fn failing_round(&mut self) -> &mut History {
        self.answered(Role::Plan);
        self.answered(Role::Do);
        self.check(Verdict::Fail, &[]);
        self
    }

    #[track_caller]
    pub(crate) fn open_change(&mut self) -> (u32, u32) {
        let Due::Change { change, step } = self.run.next() else { panic!("a change should be due") };
        let before = self.run.tree();
        self.record(Fact::ChangeStarted { change, step: step.index, before });
        (change, step.index)
    }

    pub(crate) fn applied(&mut self, change: u32, step: u32, bytes: u64, files: usize, risky: usize) -> Fact {
        self.trees += 1;
        Fact::PatchApplied(PatchApplied {
            change,
            step,
            before: self.run.tree(),
            after: tree(&format!("tree-{}", self.trees)),
            files: run::bounded((0..files).map(|n| format!("f{n}")).collect()),
            file_count: files as u64,
            patch_bytes: bytes,
            risky: run::bounded((0..risky).map(|n| format!("f{n}: risky")).collect()),
            risky_count: risky as u64,
            tests: None,
            gates: Vec::new(),
            receipt: None,
            evidence: Digest::from_bytes([2; 32]),
        })
    }

    pub(crate) fn dropped(&self, change: u32, step: u32, reason: Reason, budget: Option<BudgetExceeded>) -> Fact {
        Fact::ChangeDropped(ChangeDropped {
            change,
            step,
            before: self.run.tree(),
            reason,
            findings: vec!["refused".into()],
            budget,
            gates: Vec::new(),
            receipt: None,
            evidence: Digest::from_bytes([3; 32]),
        })
    }

    /// Judges and applies the change that is due.
    #[track_caller]
    pub(crate) fn change(&mut self) -> &mut History {
        let (change, step) = self.open_change();
        let fact = self.applied(change, step, 100, 1, 0);
        self.record(fact)
    }

    #[track_caller]
    pub(crate) fn land(&mut self, target: &str) -> &mut History {
        assert_eq!(self.run.next(), Due::Land);
        self.record(Fact::LandingStarted(landing(target))).record(Fact::Landed(landing(target)))
    }

    pub(crate) fn decline(&mut self) -> &mut History {
        self.record(Fact::LandingDeclined(LandingDeclined { why: "the branch moved".into() }))
    }

    /// Puts the end that is due on record.
    #[track_caller]
    pub(crate) fn finish(&mut self) -> Status {
        let Due::End { status, end, budget } = self.run.next() else {
            panic!("an end should be due, not {:?}", self.run.next())
        };
        if let Some(over) = budget {
            self.record(Fact::BudgetExceeded(over));
        }
        self.record(Fact::ended(status, end));
        assert_eq!(self.run.status, status);
        status
    }
}

pub(crate) fn verdict(step: StepRef, claimed: Verdict, counts: Verdict, findings: &[&str]) -> Fact {
    let findings = findings.iter().map(ToString::to_string).collect();
    Fact::Verdict(VerdictGiven { step, claimed, verdict: counts, findings })
}

/// Gives events their numbers again after something was inserted, removed or swapped.
pub(crate) fn renumbered(mut events: Vec<Event>) -> Vec<Event> {
    for (seq, event) in (1..).zip(&mut events) {
        event.seq = seq;
    }
    events
}
