//! One turn: intent on record, agent in its live directory, everything dead, files copied out, judged, sealed
//! and put on record. The agent's directory is never adopted: what becomes evidence is norma's own copy.

mod attached;
pub(crate) mod evidence;
mod intent;
mod live;
mod node;
pub(crate) mod permissions;
mod review;

pub(crate) use intent::RECORDING;

use crate::Result;
use crate::change::Left;
use crate::change::observed::{self, LyingAbout};
use crate::context::policy::Rules;
use crate::git::recorded;
use crate::process::Clock;
use crate::record::{Driver, Pending};
use crate::turn::evidence::{keep, keep_conversation, keep_prompt};
use crate::turn::live::LiveDir;
use crate::turn::permissions::OnRecord;
use crate::workspace::Captured;
use crate::world::{Execution, TurnOrder};
use contract::json::pretty;
use contract::session::ErrorKind;
use contract::{
    AgentRequest, AgentType, Fact, PROTOCOL_VERSION, ProcessEnd, PromptBlocks, Reason, RequestContext, RequestPaths,
    RequestStep, RequestTerms, Role, RoleName, StepCommitted, StepRef, Timestamp, TurnEnd,
};
use run::gate::verdict::IterationFiles;
use run::prompt::blocks;
use run::turn::{Judgement, TurnEvidence, judge};
use run::{Product, Run, TurnSpec};
use std::path::Path;
use std::time::Duration;
use store::{Preparing, Reader, Writing, crash, now};

/// A verdict is read one byte further than its limit, so that the judge sees that it is too long.
pub(crate) const VERDICT_BYTES_MAX: u64 = contract::Limits::DOCUMENT.bytes_max as u64 + 1;

/// Takes the turn that is due. Its record is held for the intent of what follows.
pub(crate) fn take(driver: &mut Driver<'_, '_>, step: StepRef) -> Result<()> {
    let opened = driver.submit(vec![Fact::StepStarted { step, base: None, taken: None }], Vec::new());
    let sealed = carry_out(driver, step, opened)?;
    driver.shared.hold(sealed);
    crash::point("step.after_submit");
    Ok(())
}

/// Carries out a turn whose intent is on its way to the disk. What came of it is on its way there afterwards.
pub(crate) fn carry_out(driver: &mut Driver<'_, '_>, step: StepRef, opened: Pending) -> Result<Pending> {
    let mut spec = driver.run.spec(step).expect("BUG: the step was opened by whoever takes it");
    attached::attach(driver, &mut spec)?;
    review::attach(driver, &mut spec)?;
    let place = driver.world.workspace(&driver.run, &spec)?;
    let target = driver.run_dir().join("steps").join(step.dir_name());
    // A graph rests between turns, for days perhaps, and nothing of a turn should lie about meanwhile.
    let live = LiveDir::new(&target, driver.run.graph().is_none());
    let stored = request(driver, &spec, &driver.store.layout.root, &target);
    let seen = if place.final_names { &target } else { &live.path };
    let sent = request(driver, &spec, &place.repo_root, seen);
    let witness = OnRecord::new(driver, spec.clone())?;
    let order = TurnOrder {
        run: &driver.run,
        spec: &spec,
        request: &sent,
        live_dir: &live.path,
        step_dir: &target,
        time_left: Duration::from_millis(spec.time_ms),
        clock: driver.shared.clock(),
        ledger: driver.shared.ledger(),
        witness: &witness,
        again: None,
    };
    show_earlier(driver, &spec)?;
    live.create(driver.shared.spare_dirs(), &pretty(&sent))?;
    let recorded = intent::recorded(driver, &spec)?;
    if recorded.is_none() {
        driver.world.prepare(Some(&order))?;
    }
    driver.shared.settle(opened)?;
    crash::point("step.after_intent");
    let execution = match recorded {
        Some(execution) => execution,
        None => {
            let running = order.clock.map(Clock::start);
            let execution = driver.world.execute(&order)?;
            drop(running);
            execution
        }
    };
    witness.settle()?;
    driver.refresh();
    crash::point("step.after_agent");
    seal(driver, &spec, &target, &live, &stored, execution)
}

/// Has the directories there that the agent is told of: one that nobody needed so far may be in the commit alone.
fn show_earlier(driver: &Driver<'_, '_>, spec: &TurnSpec) -> Result<()> {
    let (run_dir, slug) = (driver.run_dir(), driver.run.id.slug());
    for dir in &spec.look_back.dirs {
        driver.shared.unwritten().show(&run_dir, dir, || {
            if run_dir.join(dir).exists() {
                return Ok(());
            }
            driver.shared.settle_held()?;
            Ok(store::write_out_dir(driver.reader, &slug, dir).map(drop)?)
        })?;
    }
    Ok(())
}

fn seal(
    driver: &mut Driver<'_, '_>,
    spec: &TurnSpec,
    target: &Path,
    live: &LiveDir,
    stored: &AgentRequest,
    mut execution: Execution,
) -> Result<Pending> {
    // The turn may have taken long, and what is prepared now must not end up in a new, empty state directory.
    driver.store.check_place()?;
    let step = spec.step;
    let dir = format!("steps/{}", step.dir_name());
    let mut evidence = Preparing::new(target);
    let mut notes = keep(driver.world, driver.objects, &driver.run, step, &live.path, &mut execution, &mut evidence)?;
    // An agent that nothing confines could have made the directory that its evidence is about to become.
    notes.extend(store::make_way(driver.store, target, "norma did not make it")?);
    notes.append(&mut execution.notes);
    let in_loop = execution.captured.as_ref().filter(|_| spec.product == Product::Patch);
    notes.extend(in_loop.and_then(observed::left_out_note));
    notes.extend(cut_note("stdout", execution.stdout_truncated));
    notes.extend(cut_note("stderr", execution.stderr_truncated));
    let spoken = keep_told(driver, spec, stored, &mut execution, &mut evidence)?;
    let session = spoken.as_ref().map(|spoken| &spoken.outcome);
    let kept = Kept {
        names: evidence.names(),
        process: &execution.process,
        stdout: &execution.stdout,
        stdout_truncated: execution.stdout_truncated,
        verdict: evidence.read("verdict.json", VERDICT_BYTES_MAX)?,
        session,
        notes,
    };
    let judged = worth(driver.reader, &driver.run, step, kept)?;
    evidence.write("output.json", &pretty(&judged.response))?;
    let answered = judged.end == TurnEnd::Answered;
    // An agent with an interactive session continues from there; a program that is only started again starts on its base.
    let is_interrupted = judged.end == TurnEnd::Interrupted && session.is_some();
    let is_cut_off = matches!(judged.reason, Some(Reason::BudgetExceeded | Reason::AgentTimeout)) || is_interrupted;
    // What a reviewer left is compared, however its turn ended.
    let is_kept = answered || is_cut_off || spec.review.is_some();
    let left = execution.captured.filter(|_| is_kept && spec.product == Product::Tree);
    if let Some(found) = left.as_ref().filter(|_| answered).and_then(|left| lying_about(driver, spec, left)) {
        evidence.write("workspace.json", &pretty(&found))?;
    }
    let delta = match (&spec.node, &left) {
        (Some(_), Some(left)) => Some(node::keep_delta(driver, spec, left, &mut evidence)?),
        (Some(_), None) | (None, _) => None,
    };
    node::keep_context_pack(driver, spec, &judged, delta.as_ref(), &mut evidence)?;
    let tree = left.map(|captured| recorded(captured.tree));
    let led = node::led_to(driver, spec, &judged, tree, &evidence)?;
    let of_intent = intent::led_to(driver, spec, &judged, &evidence)?;
    let of_review = review::led_to(driver, spec, &judged, tree);
    let mut notes = judged.notes;
    notes.extend(led.notes);
    let mut facts = vec![Fact::StepCommitted(StepCommitted {
        step,
        status: judged.status,
        end: judged.end,
        reason: judged.reason,
        summary: judged.summary,
        dir: dir.clone(),
        started_at: spec.opened_at,
        process: execution.process,
        patch: judged.patch,
        notes,
        evidence: evidence.evidence(),
        tree,
        until: session.and_then(held_until),
        usage: session.map(|session| session.usage),
        delta,
    })];
    facts.extend(judged.facts);
    facts.extend(led.facts);
    facts.extend(of_intent);
    facts.extend(of_review);
    hand_in(driver, step, &dir, live, evidence, facts, answered)
}

/// Keeps what the agent was told, what held it, and what it said; answers its conversation, if there was one.
fn keep_told(
    driver: &Driver<'_, '_>,
    spec: &TurnSpec,
    stored: &AgentRequest,
    execution: &mut Execution,
    evidence: &mut Preparing,
) -> Result<Option<crate::Spoken>> {
    evidence.write("input.json", &pretty(stored))?;
    evidence.write("sandbox.json", &pretty(&execution.sandbox))?;
    let spoken = execution.spoken.take();
    match (&spoken, &spec.node) {
        (Some(spoken), _) => keep_conversation(spoken, evidence)?,
        // A node is told a prompt, whoever takes its turns.
        (None, Some(_)) => keep_prompt(&prompt(driver, spec, stored), evidence)?,
        (None, None) => {}
    }
    evidence.write("logs/stdout.txt", &execution.stdout)?;
    evidence.write("logs/stderr.txt", &execution.stderr)?;
    Ok(spoken)
}

/// Seals what was kept of a turn and puts it on record.
fn hand_in(
    driver: &mut Driver<'_, '_>,
    step: StepRef,
    dir: &str,
    live: &LiveDir,
    evidence: Preparing,
    facts: Vec<Fact>,
    answered: bool,
) -> Result<Pending> {
    let points = ["step.before_rename", "step.after_rename"];
    // What a worker left that did as it was asked is looked at by those who build on it, if there are any, and else not
    // before the run ends. Contracts are read as soon as they are written.
    let writes = matches!(step.role, Role::Pm | Role::TechLead);
    let item = step.item.map(|place| &driver.run.items()[place as usize]).filter(|_| answered && !writes);
    let is_shown = item.is_none_or(|state| !state.needed_by.is_empty());
    // What a directory names must be on the disk before it is: of one who only looked that is nothing.
    let by_next = is_shown && item.is_some_and(|state| state.item.read_only) && driver.shared.unwritten().has_room();
    let writing = if is_shown && !by_next { Writing::AtOnce } else { Writing::Later };
    // With a large file it is written all the same, and need not be in memory.
    let in_memory = writing == Writing::Later && evidence.is_small();
    driver.left = if in_memory { Some(Left::of(step, &evidence)?) } else { None };
    if !in_memory {
        // A directory that is there is rolled forward after a crash, and what it names must be there with it.
        driver.objects.sync()?;
    }
    let sealed = evidence.finish(&driver.run.id.slug(), dir, now(), facts, writing, points)?;
    if by_next && in_memory {
        driver.shared.unwritten().keep(dir, &sealed.files);
    }
    let pending = driver.submit_with_objects(sealed.facts, sealed.files)?;
    live.leave(driver.shared.spare_dirs()).and_then(|()| driver.world.prepare(None))?;
    Ok(pending)
}

/// What a worker left besides its change, if anything.
fn lying_about(driver: &Driver<'_, '_>, spec: &TurnSpec, left: &Captured) -> Option<LyingAbout> {
    let scope = &spec.item.as_ref()?.scope;
    let rules = Rules::new(driver.policies, &driver.store.layout, driver.run.started.contract.rules);
    observed::lying_about(left, |path| rules.denies_ignored(scope, path))
}

/// When the provider's rate limit ends, if it said so.
fn held_until(session: &contract::SessionOutcome) -> Option<Timestamp> {
    let Some(ErrorKind::RateLimited { reset_after_seconds, resets_at }) = session.error.as_ref().map(|it| it.kind)
    else {
        return None;
    };
    let from_now = reset_after_seconds.map(|seconds| now().unix_ms().saturating_add(seconds.saturating_mul(1000)));
    let at = from_now.or_else(|| resets_at.map(|seconds| seconds.saturating_mul(1000)))?;
    Some(Timestamp::from_unix_ms(at))
}

/// What is kept of a turn that is to be judged.
pub(crate) struct Kept<'k> {
    /// The names of its files, but for those that norma writes once it has judged.
    pub(crate) names: Vec<String>,
    /// How its process ended.
    pub(crate) process: &'k ProcessEnd,
    /// What it printed.
    pub(crate) stdout: &'k [u8],
    /// Whether it printed more.
    pub(crate) stdout_truncated: bool,
    /// Its `verdict.json`.
    pub(crate) verdict: Option<Vec<u8>>,
    /// What came of the conversation, if there was one.
    pub(crate) session: Option<&'k contract::SessionOutcome>,
    /// What was noticed meanwhile.
    pub(crate) notes: Vec<String>,
}

/// Judges a turn by what is kept of it: one that was just taken, or one that is judged again. `run` is the run in which
/// it is open.
pub(crate) fn worth(reader: &Reader, run: &Run, step: StepRef, kept: Kept<'_>) -> Result<Judgement> {
    let slug = run.id.slug();
    let mut files = IterationFiles::new(&step.dir_name(), kept.names);
    for dir in run.iteration_dirs(step) {
        files.add(dir.trim_start_matches("steps/"), reader.file_names(&slug, dir)?);
    }
    // Only a plan has commands in place of agents, and choices.
    let spec = run.intent().filter(|_| step.node.is_some()).and_then(|_| run.spec(step));
    let turn = TurnEvidence {
        command: spec.as_ref().is_some_and(|spec| spec.command),
        choices: spec.as_ref().and_then(|spec| spec.choices.as_deref()),
        process: kept.process.clone(),
        stdout: kept.stdout,
        stdout_truncated: kept.stdout_truncated,
        verdict: kept.verdict.as_deref(),
        files: &files,
        session: kept.session,
        item: run.item_of(step).map(|item| &**item),
        notes: kept.notes,
    };
    Ok(judge(&run.started.contract, &slug, step, &turn))
}

fn request(driver: &Driver<'_, '_>, spec: &TurnSpec, repo_root: &Path, step_dir: &Path) -> AgentRequest {
    let (run, run_dir) = (&driver.run, driver.run_dir());
    let contract = &run.started.contract;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut request = AgentRequest {
        version: PROTOCOL_VERSION,
        run_id: run.id.slug(),
        step: RequestStep { index: spec.step.index, role: role(spec), iteration: spec.step.iteration },
        goal: spec.goal.clone(),
        norma: RequestTerms {
            acceptance_criteria: contract.acceptance_criteria.clone(),
            budgets: run.budgets().clone(),
        },
        paths: RequestPaths {
            repo_root: text(repo_root),
            run_dir: text(&run_dir),
            step_dir: text(step_dir),
            workspace_dir: (spec.product == Product::Tree).then(|| text(repo_root)),
        },
        context: RequestContext {
            previous_step_dirs: spec.look_back.dirs.iter().map(|dir| text(&run_dir.join(dir))).collect(),
            earlier_steps: spec.look_back.earlier,
            notes: spec.notes.clone(),
            messages: spec.node.as_ref().map(|node| node.messages.clone()),
            handoffs: spec.node.as_ref().map(|node| node.handoffs.clone()),
            choices: spec.choices.clone(),
            skeleton: spec.skeleton.clone(),
            review: spec.review.clone(),
        },
        contract: spec.item.as_deref().cloned(),
    };
    if spec.node.is_some() && spec.agent.kind == AgentType::Exec {
        request.context.notes = prompt(driver, spec, &request).full();
    }
    request
}

/// The role as an agent knows it: a node has that of its template.
fn role(spec: &TurnSpec) -> RoleName {
    spec.node.as_ref().map_or_else(|| spec.step.role.into(), |node| node.terms.role_template.clone())
}

/// What a node is told by this request, as one text.
fn prompt(driver: &Driver<'_, '_>, spec: &TurnSpec, request: &AgentRequest) -> PromptBlocks {
    blocks(request, spec.node.as_ref(), &driver.world.templates(), None)
}

fn cut_note(stream: &str, truncated: bool) -> Option<String> {
    truncated.then(|| format!("{stream} was longer than limits.output_mb and was cut"))
}
