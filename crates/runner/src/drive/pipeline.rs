//! What follows from the end of a pipeline's task: the contracts that a role wrote become items, and what failed becomes the
//! contract of a fix, made from evidence and never from what somebody said.

use super::conflict;
use super::judging::with_gates;
use crate::change::contracts::{self, Part, document, root_tests};
use crate::change::{OnTop, Sides, merge};
use crate::git::id;
use crate::record::Driver;
use crate::{Error, Result};
use contract::documents::task_contract::InputFile;
use contract::documents::{Sha256, TaskContract, roles};
use contract::pipeline::{Cause, ContractMade, FailedEvidence, FixAttempt, Stage, TECH_LEAD_TASK, WHOLE_ROLE};
use contract::work::TestCommand;
use contract::{Addition, Digest, Fact, Item, ItemAdded, PipelineFact, PipelineTerms, Receipt, Role, TurnLimits, hash};
use run::Run;
use run::gate::test_files::only_looks;
use run::workflow::pipeline::{State, Task, cause_of};
use std::sync::Arc;
use store::Attached;

/// Puts on record what follows from the end of a task, unless somebody has.
pub(super) fn follow_up(driver: &mut Driver<'_, '_>, place: u32) -> Result<()> {
    driver.refresh();
    let Some((state, terms)) = of(&driver.run) else { return Ok(()) };
    let Ok(task) = state.task(place).cloned() else { return Ok(()) };
    let facts = match &task.contract {
        _ if state.lost_conflict() == Some(place) => conflict::give_up(&state, place),
        _ if state.lacks_whole() => vec![PipelineFact::WholeAsked(Box::new(whole(driver, &state)?))],
        None => written(driver, place, &terms)?,
        Some(_) => failed(driver, &state, place, &task)?,
    };
    let is_due = |run: &Run| run.due().any(|due| due == run::Due::FollowUp { item: place });
    let facts: Vec<Fact> = facts.into_iter().map(Fact::Pipeline).collect();
    let submitted = driver.shared.submit_if(driver.store, |run| is_due(run).then(|| (facts, Attached::default())));
    let Some((pending, run)) = submitted else { return Ok(()) };
    driver.run = run;
    driver.shared.settle(pending)
}

fn of(run: &Run) -> Option<(State, PipelineTerms)> {
    Some((run.pipeline()?.clone(), run.started.contract.pipeline.clone()?))
}

pub(super) fn damaged(run: &Run, why: String) -> Error {
    store::Error::Damaged { log: run.id.slug().to_string(), why }.into()
}

/// Adds items one after another, each bound to the contract as the one before left it.
pub(super) struct Adding {
    digest: Digest,
    index: u32,
}

impl Adding {
    pub(super) fn to(run: &Run) -> Adding {
        Adding { digest: run.contract_digest(), index: run.items().len() as u32 }
    }

    pub(super) fn add(&mut self, item: Item) -> ItemAdded {
        let addition = Addition::new(&self.digest, &item, None);
        self.digest = addition.contract;
        let index = self.index;
        self.index += 1;
        ItemAdded { index, item, earlier: None, addition: Some(addition) }
    }
}

/// What a role wrote, as items. The gate has let it pass, so it is what it was then.
fn written(driver: &mut Driver<'_, '_>, place: u32, terms: &PipelineTerms) -> Result<Vec<PipelineFact>> {
    let step = driver.run.items()[place as usize].turns.last().map(|turn| turn.step);
    let step = step.ok_or_else(|| damaged(&driver.run, "a contract was written in no turn".to_owned()))?;
    let parts = with_gates(driver, &mut None, |gates, _| Ok(contracts::of(gates, &gates.answer(step)?)))?;
    let parts = parts.map_err(|problems| {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        damaged(&driver.run, format!("a contract that had passed does not any more: {}", words.join("; ")))
    })?;
    let (run, mut adding) = (&driver.run, Adding::to(&driver.run));
    let task_id = run.items()[place as usize].item.id.clone();
    let moved = |from, to| PipelineFact::StateTransition { item: place, task_id: task_id.clone(), from, to };
    let made = |part: &Part, added: ItemAdded| {
        PipelineFact::ContractMade(Box::new(ContractMade { document: part.document(), added }))
    };
    if step.role == Role::TechLead {
        let mut facts: Vec<PipelineFact> = parts.iter().map(|part| made(part, adding.add(part.item.clone()))).collect();
        facts.push(moved(Stage::S1, Stage::S2));
        return Ok(facts);
    }
    let Some(part) = parts.first() else { return Ok(Vec::new()) };
    let Some(name) = &terms.tech_lead else {
        let added = adding.add(part.item.clone());
        return Ok(vec![made(part, added), moved(Stage::S0, Stage::S1), moved(Stage::S1, Stage::S2)]);
    };
    let added = adding.add(tech_lead_item(name, &part.contract.inputs.spec, &run.started.contract.limits));
    Ok(vec![made(part, added), moved(Stage::S0, Stage::S1)])
}

/// The item of whoever splits a contract.
pub(crate) fn tech_lead_item(name: &str, spec: &str, limits: &TurnLimits) -> Item {
    writer(TECH_LEAD_TASK, ("TECH_LEAD", name), roles::TECH_LEAD_SCHEMA, spec, limits)
}

/// The item of somebody who writes contracts: it changes nothing, and answers in a form.
pub(crate) fn writer(task: &str, (role, name): (&str, &str), form: &str, goal: &str, limits: &TurnLimits) -> Item {
    let timeout_ms = u64::from(limits.step_seconds) * 1000;
    Item {
        role: role.to_owned(),
        read_only: true,
        audit_only: true,
        retries: limits.protocol_retries.unwrap_or_default(),
        output_schema: Some(roles::bound(form)),
        ..Item::of_run(task.to_owned(), name.to_owned(), goal.to_owned(), timeout_ms, hash::sha256(goal.as_bytes()))
    }
}

/// What the parts of a contract came to, as the item that is tested by the contract's own tests and by those of theirs that another
/// part can have changed something for.
fn whole(driver: &Driver<'_, '_>, state: &State) -> Result<ItemAdded> {
    let run = &driver.run;
    let root = state.root().ok_or_else(|| damaged(run, "there is no contract to test".to_owned()))?;
    let parts = || state.tasks().filter(|(_, task, _)| task.contract.is_some()).map(|(.., item)| &item.item);
    let first = parts().next().ok_or_else(|| damaged(run, "the contract has no parts".to_owned()))?;
    let mut tests: Vec<TestCommand> = Vec::new();
    let mut add = |test: &TestCommand| {
        if test.must_pass && !tests.iter().any(|known| known.argv == test.argv) {
            tests.push(TestCommand { of_whole: false, ..test.clone() });
        }
    };
    root_tests(root).iter().for_each(&mut add);
    for part in parts() {
        for test in part.tests.iter().filter(|test| !test.of_whole) {
            if !looks_only_within(driver, part, &test.argv)? {
                add(test);
            }
        }
    }
    let item = Item {
        agent_id: WHOLE_ROLE.to_lowercase(),
        role: WHOLE_ROLE.to_owned(),
        read_only: true,
        audit_only: true,
        tests,
        sandbox_backend: first.sandbox_backend,
        forbidden_actions: root.forbidden_actions.clone(),
        ..Item::of_run(
            root.task_id.clone(),
            first.worker.clone(),
            root.inputs.spec.clone(),
            first.timeout_ms,
            hash::sha256(document(root).as_bytes()),
        )
    };
    Ok(Adding::to(run).add(item))
}

/// Whether a test looks at nothing but what its own part alone may change: it comes to the same whatever others did.
fn looks_only_within(driver: &Driver<'_, '_>, part: &Item, argv: &[String]) -> Result<bool> {
    let words = argv.get(1..).unwrap_or_default();
    let is_own = |word: &str| part.scope.allowed_paths.iter().any(|path| path.as_str() == word);
    if !only_looks(argv) || !words.iter().any(|word| is_own(word)) {
        return Ok(false);
    }
    for word in words.iter().filter(|word| !is_own(word)) {
        let path = word.trim_end_matches('/');
        let is_there = path == "." || driver.objects.tree_entry(id(driver.run.tree()), path.as_bytes())?.is_some();
        if is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The fix of a task that failed, or that there is none any more.
fn failed(driver: &mut Driver<'_, '_>, state: &State, place: u32, task: &Task) -> Result<Vec<PipelineFact>> {
    let item = &state.items.items[place as usize];
    let Some(cause) = item.ended().and_then(cause_of) else { return Ok(Vec::new()) };
    let Some((attempts, original)) = fixes_of(state, task) else { return Ok(Vec::new()) };
    let task_id = original.task_id.clone();
    if attempts >= original.timeout_retry.max_retries {
        let tried = run::bounded(tried(state, place));
        return Ok(vec![PipelineFact::FixLoopExhausted { item: place, task_id, attempts, tried }]);
    }
    let evidence = evidence(driver, place)?;
    let (contract, mut fix) = fix(driver, original, (cause, attempts + 1), &evidence)?;
    // What a change is held to, its fix is held to.
    fix.tests.clone_from(&item.item.tests);
    let (base, tree) = (driver.run.line().head.clone(), start(driver, place, cause)?);
    let added = Adding::to(&driver.run).add(fix);
    driver.objects.pin(&format!("runs/{}/fix-{}", driver.run.id.slug(), added.index), id(tree))?;
    driver.objects.sync()?;
    let contract = ContractMade { document: document(&contract), added };
    let attempt = attempts + 1;
    let fix = FixAttempt { contract, of: place, parent_task_id: task_id.clone(), attempt, cause, base, tree };
    let (from, own) = (task.stage, item.item.id.clone());
    Ok(vec![
        PipelineFact::StateTransition { item: place, task_id: own, from, to: Stage::S5 },
        PipelineFact::FixLoopTriggered { item: place, task_id, cause, evidence },
        PipelineFact::FixLoopAttempt(Box::new(fix)),
    ])
}

/// What was tried of a task, and what came of it, oldest first.
pub(super) fn tried(state: &State, place: u32) -> Vec<String> {
    let mut lines = Vec::new();
    let mut next = Some(place);
    while let Some(place) = next {
        let item = &state.items.items[place as usize];
        lines.extend(item.ended().map(|ended| match ended.message.is_empty() {
            true => format!("{}: passed", item.item.id),
            false => format!("{}: {}", item.item.id, ended.message),
        }));
        next = state.task(place).ok().and_then(|task| task.fixes);
    }
    lines.reverse();
    lines
}

/// What a change was judged by, file by file. It lies there before its end is on record.
fn evidence(driver: &Driver<'_, '_>, place: u32) -> Result<Vec<FailedEvidence>> {
    let (mut files, mut dirs) = (Vec::new(), vec![change_dir(place)]);
    while let Some(dir) = dirs.pop() {
        let at = driver.run_dir().join(&dir);
        let failed = |source| Error::io("read", &at, source);
        for entry in std::fs::read_dir(&at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = format!("{dir}/{}", entry.file_name().to_string_lossy());
            match entry.file_type().map_err(failed)?.is_dir() {
                true => dirs.push(path),
                false => files.push(FailedEvidence { sha256: hash::sha256(&read(driver, &path)?), path }),
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn read(driver: &Driver<'_, '_>, path: &str) -> Result<Vec<u8>> {
    let path = driver.run_dir().join(path);
    std::fs::read(&path).map_err(|source| Error::io("read", &path, source))
}

fn change_dir(place: u32) -> String {
    format!("changes/{:03}", place + 1)
}

/// How many fixes a task has had, and the contract that says how many it may have.
pub(super) fn fixes_of<'s>(state: &'s State, task: &Task) -> Option<(u32, &'s Arc<TaskContract>)> {
    let original = state.task(task.original).ok()?.contract.as_ref()?;
    Some((task.fix.map_or(0, |(_, attempt)| attempt), original))
}

/// The contract of a fix: the original's, with what failed as what it is made from.
pub(super) fn fix(
    driver: &mut Driver<'_, '_>,
    original: &TaskContract,
    (cause, attempt): (Cause, u32),
    evidence: &[FailedEvidence],
) -> Result<(TaskContract, Item)> {
    let mut contract = original.clone();
    contract.task_id = format!("{}-fix-{attempt}", original.task_id);
    contract.parent_task_id = Some(original.task_id.clone());
    contract.inputs.spec = format!(
        "{}\n\nA change for this was made and did not land ({cause}). Fix it. What was found is in the artifacts named \
         failed_evidence.",
        original.inputs.spec
    );
    let item = with_gates(driver, &mut None, |gates, _| Ok(contracts::compile(gates, &contract, Some(original))))?;
    let mut item = item.map_err(|problems| {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        damaged(&driver.run, format!("the contract of a fix is none: {}", words.join("; ")))
    })?;
    let run_dir = &driver.run.started.run_dir;
    contract.inputs.artifacts.extend(evidence.iter().map(|file| InputFile {
        name: "failed_evidence".to_owned(),
        uri: format!("{run_dir}/{}", file.path),
        sha256: Sha256(file.sha256),
    }));
    item.submitted = hash::sha256(document(&contract).as_bytes());
    Ok((contract, item))
}

/// What the worker of a fix finds: what failed, on top of what has landed since, where that fits.
fn start(driver: &Driver<'_, '_>, place: u32, cause: Cause) -> Result<contract::TreeId> {
    let (run, head) = (&driver.run, driver.run.line().head.tree);
    if cause == Cause::Conflict {
        return Ok(head);
    }
    let bytes = read(driver, &format!("{}/RECEIPT.json", change_dir(place)))?;
    let receipt: Option<Receipt> = serde_json::from_slice(&bytes).ok();
    let receipt = receipt.ok_or_else(|| damaged(run, "a change has no receipt".to_owned()))?;
    let Some(ours) = receipt.git.candidate_tree else { return Ok(head) };
    let sides = Sides { base: receipt.git.base_tree, ours, theirs: head };
    Ok(match merge(driver.objects, run.started.contract.rules, sides)? {
        OnTop::Tree(tree) => tree,
        OnTop::Conflicts(_) => head,
    })
}
