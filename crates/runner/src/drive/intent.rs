//! What is done about an intent besides its turns: what was compiled becomes a plan and a change of the run, its questions are
//! asked, and those that nobody answers in time come to what the plan says for that.

use crate::change::{Patched, apply_patch};
use crate::git::id;
use crate::record::Driver;
use crate::{Result, compiled, turn};
use contract::documents::plan::Work;
use contract::documents::{CompileAnswer, CompileOutput, CompileRequest, Patch, Plan, Recording};
use contract::intent::{AskedCommand, PLAN_BYTES_MAX, PatchProposed, Planned};
use contract::policy::CommandPolicy;
use contract::work::TestCommand;
use contract::{
    Addition, Earlier, Fact, IntentFact, IntentTerms, Item, ItemAdded, Reason, StepRef, Timestamp, TurnEnd, Wait, hash,
};
use run::Run;
use run::gate::command::{Decision, Origin, decide, split};
use run::workflow::intent::{COMPILE, PATCH, Stage, State};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The item that a patch becomes.
const ITEM: &str = "patch";

/// Puts on record what an intent was compiled to. Whatever is wrong with it is found before anything of it is carried out.
pub(super) fn plan(driver: &mut Driver<'_, '_>) -> Result<()> {
    let compiled = Compiled::read(driver)?;
    let facts = match compiled.checked(&driver.policies.commands()) {
        Err((reason, problems)) => {
            vec![Fact::Intent(IntentFact::PlanRefused { reason, problems: run::bounded(problems) })]
        }
        Ok((plan, tests)) => {
            if compiled.is_own() {
                keep_recording(driver, &compiled)?;
            }
            let proposed = propose(driver, &compiled, tests)?;
            let mut facts = vec![Fact::Intent(IntentFact::PatchProposed(Box::new(proposed)))];
            facts.push(Fact::Intent(IntentFact::PlanMade(plan)));
            facts
        }
    };
    driver.record(facts, Vec::new())?;
    carry_over(driver)
}

/// What an agent answered, and in which run.
struct Compiled {
    answer: CompileAnswer,
    /// The run that compiled it.
    source: Arc<Run>,
    /// The turn that did; none where it was an earlier run's.
    step: Option<StepRef>,
}

impl Compiled {
    fn read(driver: &Driver<'_, '_>) -> Result<Compiled> {
        let item = &driver.run.items()[COMPILE as usize];
        let (source, is_own) = match item.done_by() {
            Some(earlier) => (Arc::new(driver.reader.load(&earlier)?.0), false),
            None => (driver.run.clone(), true),
        };
        let answered = |turn: &&Arc<run::StepRecord>| turn.end == TurnEnd::Answered;
        let turn = source.items()[COMPILE as usize].turns.iter().rev().find(answered).cloned();
        let slug = source.id.slug();
        let damaged = |why: &str| store::Error::Damaged { log: slug.to_string(), why: why.to_owned() };
        let turn = turn.ok_or_else(|| damaged("no turn of it was answered"))?;
        let dir = turn.dir.as_deref().ok_or_else(|| damaged("an answer is not on record"))?;
        let answer = compiled::answer_in(driver.reader, &slug, dir)?;
        Ok(Compiled { answer, step: is_own.then_some(turn.step), source })
    }

    fn is_own(&self) -> bool {
        self.step.is_some()
    }

    /// The plan as it goes on record and the tests of the patch, or everything that keeps them from being carried out.
    fn checked(
        &self,
        commands: &CommandPolicy,
    ) -> std::result::Result<(Planned, Vec<TestCommand>), (Reason, Vec<String>)> {
        let CompileAnswer { plan, patch, tests } = &self.answer;
        let bytes = contract::json::canonical(plan).map_err(|why| (Reason::ProtocolError, vec![why.to_string()]))?;
        let text = String::from_utf8(bytes).expect("BUG: canonical JSON is text");
        if text.len() > PLAN_BYTES_MAX {
            let problem = format!("/plan: is {} bytes, and {PLAN_BYTES_MAX} are the most", text.len());
            return Err((Reason::ProtocolError, vec![problem]));
        }
        let asked = asked_commands(plan, commands)?;
        let tests = tests.iter().chain(patch.tests.iter().flatten());
        let tests = test_commands(tests, commands)?;
        Ok((Planned { plan: text, asked }, tests))
    }
}

/// The commands of a plan that a person has to approve, unless one of them is refused.
fn asked_commands(
    plan: &Plan,
    commands: &CommandPolicy,
) -> std::result::Result<Vec<AskedCommand>, (Reason, Vec<String>)> {
    let words = |violation: &contract::Violation| format!("/plan{violation}");
    let spelled = plan.spell_out();
    let (specs, _) = spelled.map_err(|found| (Reason::ProtocolError, found.iter().map(words).collect()))?;
    let (mut asked, mut refused) = (Vec::new(), Vec::new());
    for (spec, node) in specs.iter().zip(0..) {
        let Work::Command(argv) = &spec.work else { continue };
        match decide(argv, Origin::Agent, commands) {
            Decision::Allow { .. } => {}
            Decision::Ask { why, .. } => asked.push(AskedCommand { node, why }),
            Decision::Deny { rule, why } => {
                refused.push(format!("/plan/nodes/{node}/budget/cmd: rule {rule} refuses it: {why}"));
            }
        }
    }
    if refused.is_empty() { Ok(asked) } else { Err((Reason::PolicyViolation, refused)) }
}

/// The tests of a patch. An agent wrote them, and nobody is asked: what a rule wants somebody asked about is refused.
fn test_commands<'t>(
    lines: impl Iterator<Item = &'t String>,
    commands: &CommandPolicy,
) -> std::result::Result<Vec<TestCommand>, (Reason, Vec<String>)> {
    let (mut tests, mut seen, mut refused) = (Vec::new(), BTreeSet::new(), Vec::new());
    for line in lines.filter(|line| seen.insert((*line).clone())) {
        let argv = match split(line) {
            Ok(argv) => argv,
            Err(problem) => {
                refused.push(format!("/tests: {line:?} is not a command: {problem}"));
                continue;
            }
        };
        match decide(&argv, Origin::Agent, commands).unasked() {
            Decision::Deny { rule, why } => refused.push(format!("/tests: rule {rule} refuses {line:?}: {why}")),
            Decision::Allow { .. } | Decision::Ask { .. } => {
                tests.push(TestCommand {
                    name: format!("test_{}", tests.len() + 1),
                    argv,
                    must_pass: true,
                    of_whole: false,
                });
            }
        }
    }
    if refused.is_empty() { Ok(tests) } else { Err((Reason::PolicyViolation, refused)) }
}

/// Keeps the answer under the key of its request, where the intent says so.
fn keep_recording(driver: &Driver<'_, '_>, compiled: &Compiled) -> Result<()> {
    let (run, slug) = (&driver.run, driver.run.id.slug());
    let records = run.started.contract.intent.as_ref().is_some_and(|terms| terms.mode.records());
    let layout = &driver.store.layout;
    let key = run.items()[COMPILE as usize].item.submitted;
    if !records || run_was_recorded(driver, compiled)? {
        return Ok(());
    }
    let Some(bytes) = driver.reader.evidence(&slug, "submitted", "document.json")? else { return Ok(()) };
    let Ok(request) = serde_json::from_slice::<CompileRequest>(&bytes) else { return Ok(()) };
    let Some(view) = driver.reader.run(&slug)? else { return Ok(()) };
    let transcript = compiled::transcript_of(driver.reader, run, &view)?;
    let recording = Recording::new(request, CompileOutput::new(compiled.answer.clone(), transcript));
    debug_assert_eq!(recording.key, key, "BUG: a recording is kept under the key of its request");
    store::keep_recording(layout, &recording)?;
    Ok(())
}

/// Whether the answer came out of a recording.
fn run_was_recorded(driver: &Driver<'_, '_>, compiled: &Compiled) -> Result<bool> {
    let Some(step) = compiled.step else { return Ok(true) };
    let dir = format!("steps/{}", step.dir_name());
    let sandbox = driver.reader.evidence(&driver.run.id.slug(), &dir, "sandbox.json")?;
    let value: serde_json::Value = sandbox.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    Ok(value["backend"] == turn::RECORDING)
}

/// The patch as the change that it becomes.
fn propose(driver: &Driver<'_, '_>, compiled: &Compiled, tests: Vec<TestCommand>) -> Result<PatchProposed> {
    let run = &driver.run;
    let patch = joined(&compiled.answer.patch);
    let sha256 = hash::sha256(&patch);
    let item = item(run, tests);
    let addition = Some(Addition::new(&run.contract_digest(), &item, None));
    let added = ItemAdded { index: PATCH, item, earlier: earlier_patch(compiled), addition };
    let mut proposed =
        PatchProposed { added, step: compiled.step, tree: None, reason: None, message: String::new(), sha256 };
    if proposed.added.earlier.is_some() {
        return Ok(proposed);
    }
    match apply_patch(driver.objects, run, &patch)? {
        Patched::Tree(tree) => match unnamed(driver, &compiled.answer.patch, tree)? {
            None => proposed.tree = Some(tree),
            Some(path) => {
                proposed.reason = Some(Reason::PolicyViolation);
                proposed.message = format!("a diff of the patch changes {path:?}, which the patch does not name");
            }
        },
        Patched::Refused(reason, findings) => {
            proposed.reason = Some(reason);
            let words: Vec<String> = findings.iter().map(ToString::to_string).collect();
            proposed.message = run::bounded(words).join("; ");
        }
    }
    if let Some(tree) = proposed.tree {
        // Durable before it can be mentioned.
        driver.objects.pin(&format!("runs/{}/tree", run.id.slug()), id(tree))?;
        driver.objects.sync()?;
    }
    Ok(proposed)
}

/// A path that the patch changes and does not name.
fn unnamed(driver: &Driver<'_, '_>, patch: &Patch, tree: contract::TreeId) -> Result<Option<String>> {
    let named: BTreeSet<&[u8]> = patch.files.iter().map(|file| file.path.as_bytes()).collect();
    let changes = driver.objects.diff(id(driver.run.tree()), id(tree))?;
    let other = changes.into_iter().find(|change| !named.contains(change.path.as_slice()));
    Ok(other.map(|change| String::from_utf8_lossy(&change.path).into_owned()))
}

/// The diffs of a patch, one after another.
fn joined(patch: &Patch) -> Vec<u8> {
    let mut bytes = Vec::new();
    for file in &patch.files {
        bytes.extend_from_slice(file.diff.as_bytes());
        if !file.diff.is_empty() && !file.diff.ends_with('\n') {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// What an earlier run has made of the same patch.
fn earlier_patch(compiled: &Compiled) -> Option<Earlier> {
    if compiled.is_own() {
        return None;
    }
    let state = compiled.source.items().get(PATCH as usize)?;
    let run = state.done_by().unwrap_or(compiled.source.id.slug());
    let ended = state.ended().filter(|_| state.succeeded())?;
    Some(Earlier::Done { run, ended: Box::new(ended.clone()) })
}

/// The terms of the patch: what the configuration lets change, and the tests that came with it.
fn item(run: &Run, tests: Vec<TestCommand>) -> Item {
    let contract = &run.started.contract;
    let worker = contract.intent.as_ref().map(|terms: &IntentTerms| terms.agent.clone()).unwrap_or_default();
    let (goal, submitted) = (contract.goal.clone(), run.items()[COMPILE as usize].item.submitted);
    let timeout_ms = u64::from(contract.limits.step_seconds) * 1000;
    Item { scope: contract.scope.clone(), tests, ..Item::of_run(ITEM.to_owned(), worker, goal, timeout_ms, submitted) }
}

/// Puts on record which nodes an earlier run has done, one after another while each is due.
fn carry_over(driver: &mut Driver<'_, '_>) -> Result<()> {
    let Some(parent) = driver.run.started.parent else { return Ok(()) };
    let earlier = driver.reader.load(&parent)?.0;
    let Some(done) = earlier.intent() else { return Ok(()) };
    loop {
        let facts = next_carried(&driver.run, &parent, done);
        if facts.is_empty() {
            return Ok(());
        }
        driver.record(facts, Vec::new())?;
    }
}

/// The next node that an earlier run has done and that is due here, or what follows without anybody's doing.
fn next_carried(run: &Run, parent: &contract::Slug, done: &State) -> Vec<Fact> {
    let carried = |place: u32| {
        let node = done.node(place).ok()?;
        let Stage::Done(by) = node.stage else { return None };
        let (choice, summary) = (node.choice.clone(), node.summary.clone());
        let run = by.unwrap_or(*parent);
        Some(vec![Fact::Intent(IntentFact::PlanNodeCarried { node: place, run, choice, summary })])
    };
    let asked = |wait: &Wait| run.intent()?.in_order().find(|(_, node)| node.wait_id() == wait.id);
    let next = run.due().find_map(|due| match due {
        run::Due::Advance(facts) if !is_held(&facts) => Some(facts),
        run::Due::Turn(step) => carried(step.node?),
        run::Due::Questions(waits) => waits.iter().filter_map(asked).find_map(|(place, _)| carried(place)),
        _ => None,
    });
    next.unwrap_or_default()
}

fn is_held(facts: &[Fact]) -> bool {
    facts.iter().any(|fact| matches!(fact, Fact::Intent(IntentFact::PlanHeld { .. })))
}

/// Has a node of the plan take its turn, if that is still due. Which turn it is depends on what others have opened until this
/// moment.
pub(super) fn take_turn(driver: &mut Driver<'_, '_>, place: u32) -> Result<()> {
    let mut opened = None;
    let submitted = driver.shared.submit_if(driver.store, |run| {
        let step = run.due().find_map(|due| match due {
            run::Due::Turn(step) if step.node == Some(place) => Some(step),
            _ => None,
        })?;
        opened = Some(step);
        Some((vec![Fact::StepStarted { step, base: None, taken: None }], store::Attached::default()))
    });
    let (Some((pending, run)), Some(step)) = (submitted, opened) else { return Ok(()) };
    driver.run = run;
    let sealed = turn::carry_out(driver, step, pending)?;
    driver.shared.hold(sealed);
    Ok(())
}

/// Asks everything that the plan waits for, with the time until which it can be answered.
pub(super) fn ask(driver: &mut Driver<'_, '_>, waits: Vec<Wait>) -> Result<()> {
    let now = store::now();
    let with_deadline = |wait: Wait| {
        let node = driver.run.intent()?.in_order().find(|(_, node)| node.wait_id() == wait.id);
        let left = node.and_then(|(_, node)| node.spec.answer_ms());
        let deadline = left.map(|left| Timestamp::from_unix_ms(now.unix_ms().saturating_add(left)));
        Some(Fact::Asked(Wait { deadline, ..wait }))
    };
    let facts: Vec<Fact> = waits.into_iter().filter_map(with_deadline).collect();
    driver.record(facts, Vec::new())
}

/// Has a question that nobody has answered in time come to what the plan says.
pub(super) fn expire(driver: &mut Driver<'_, '_>) -> Result<()> {
    let submitted = driver.shared.submit_if(driver.store, |run| {
        let (node, deadline) = run.plan_deadline().filter(|(_, deadline)| *deadline <= store::now())?;
        let choice = run.intent()?.node(node).ok()?.spec.on_timeout.clone()?;
        debug_assert!(deadline <= store::now(), "BUG: only what is over expires");
        let mut facts = vec![Fact::Intent(IntentFact::PlanNodeExpired { node, choice })];
        if run.status == contract::Status::Waiting {
            facts.push(Fact::RunResumed { pid: std::process::id() });
        }
        Some((facts, store::Attached::default()))
    });
    let Some((pending, run)) = submitted else { return Ok(()) };
    driver.run = run;
    driver.shared.settle(pending)
}
