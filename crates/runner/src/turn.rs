//! One turn: intent on record, agent in its live directory, everything dead, files copied out, judged, sealed
//! and put on record. The agent's directory is never adopted: what becomes evidence is norma's own copy.

use crate::book::Pending;
use crate::drive::Driver;
use crate::keep::{keep, keep_conversation};
use crate::observe::{self, LyingAbout};
use crate::policy::Rules;
use crate::witness::OnRecord;
use crate::workspace::Captured;
use crate::world::{Execution, TurnOrder};
use crate::{Error, Result, after};
use contract::session::ErrorKind;
use contract::{
    AgentRequest, Fact, Item, PROTOCOL_VERSION, ProcessEnd, Reason, RequestContext, RequestPaths, RequestStep,
    RequestTerms, StepCommitted, StepRef, Timestamp, TurnEnd,
};
use run::gate::verdict::IterationFiles;
use run::turn::{Judgement, TurnEvidence, judge};
use run::{ItemStage, ItemTurn, Run, Stage};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{Preparing, Reader, crash, now};

/// How long free-form notes in a request may be; the rest is in the log.
const NOTES_CHARS_MAX: usize = 16 * 1024;

/// A verdict is read one byte further than its limit, so that the judge sees that it is too long.
pub(crate) const VERDICT_BYTES_MAX: u64 = contract::Limits::DOCUMENT.bytes_max as u64 + 1;

/// Takes the turn that is due, and waits until it is on record.
pub(crate) fn take(driver: &mut Driver<'_, '_>, step: StepRef) -> Result<()> {
    let opened = driver.submit(vec![Fact::StepStarted { step, base: None }], Vec::new());
    let sealed = carry_out(driver, step, opened)?;
    driver.book.settle(sealed)?;
    crash::point("step.after_commit");
    Ok(())
}

/// Carries out a turn whose intent is on its way to the disk. What came of it is on its way there afterwards.
pub(crate) fn carry_out(driver: &mut Driver<'_, '_>, step: StepRef, opened: Pending) -> Result<Pending> {
    let place = driver.world.workspace(&driver.run, step)?;
    let notes = notes(&driver.run, step);
    let target = driver.run_dir().join("steps").join(step.dir_name());
    let live = LiveDir { path: store::temporary_name(&target) };
    let stored = request(driver, step, &driver.store.layout.root, &target, &notes);
    let seen = if place.final_names { &target } else { &live.path };
    let sent = request(driver, step, &place.repo_root, seen, &notes);
    let item = item_of(&driver.run, step).map(|item| item.timeout_ms);
    let time_left = [item, driver.run.remaining_ms()].into_iter().flatten().min().map(Duration::from_millis);
    let (live_dir, step_dir) = (live.path.as_path(), target.as_path());
    let witness = OnRecord::new(driver, step);
    let order = TurnOrder {
        run: &driver.run,
        step,
        request: &sent,
        live_dir,
        step_dir,
        time_left,
        witness: &witness,
        again: None,
    };
    live.create()?;
    live.write("input.json", &pretty(&sent))?;
    driver.world.prepare(Some(&order))?;
    driver.book.settle(opened)?;
    crash::point("step.after_intent");
    let execution = driver.world.execute(&order)?;
    witness.settle()?;
    driver.refresh();
    crash::point("step.after_agent");
    seal(driver, step, &target, &live, &stored, execution)
}

fn seal(
    driver: &mut Driver<'_, '_>,
    step: StepRef,
    target: &Path,
    live: &LiveDir,
    stored: &AgentRequest,
    mut execution: Execution,
) -> Result<Pending> {
    // The turn may have taken long, and what is prepared now must not end up in a new, empty state directory.
    driver.store.check_place()?;
    let dir = format!("steps/{}", step.dir_name());
    let mut evidence = Preparing::new(target)?;
    let mut notes = keep(driver.world, &driver.run, step, &live.path, &mut execution, &mut evidence)?;
    // An agent that nothing confines could have made the directory that its evidence is about to become.
    notes.extend(store::make_way(driver.store, target, "norma did not make it")?);
    notes.append(&mut execution.notes);
    let in_loop = execution.captured.as_ref().filter(|_| step.item.is_none());
    notes.extend(in_loop.and_then(observe::left_out_note));
    notes.extend(cut_note("stdout", execution.stdout_truncated));
    notes.extend(cut_note("stderr", execution.stderr_truncated));
    evidence.write("input.json", &pretty(stored))?;
    evidence.write("sandbox.json", &pretty(&execution.sandbox))?;
    let spoken = execution.spoken.take();
    if let Some(spoken) = &spoken {
        keep_conversation(spoken, &mut evidence)?;
    }
    let session = spoken.as_ref().map(|spoken| &spoken.outcome);
    evidence.write("logs/stdout.txt", &execution.stdout)?;
    evidence.write("logs/stderr.txt", &execution.stderr)?;
    let kept = Kept {
        names: evidence.names(),
        process: &execution.process,
        stdout: &execution.stdout,
        stdout_truncated: execution.stdout_truncated,
        verdict: evidence.read("verdict.json", VERDICT_BYTES_MAX)?,
        session,
        notes,
    };
    let judged = worth(&driver.reader, &driver.run, step, kept)?;
    evidence.write("output.json", &pretty(&judged.response))?;
    let answered = judged.end == TurnEnd::Answered;
    let is_cut_off = matches!(judged.reason, Some(Reason::BudgetExceeded | Reason::AgentTimeout));
    let left = execution.captured.filter(|_| (answered || is_cut_off) && step.item.is_some());
    if let Some(found) = left.as_ref().filter(|_| answered).and_then(|left| lying_about(driver, step, left)) {
        evidence.write("workspace.json", &pretty(&found))?;
    }
    let mut facts = vec![Fact::StepCommitted(StepCommitted {
        step,
        status: judged.status,
        end: judged.end,
        reason: judged.reason,
        summary: judged.summary,
        dir: dir.clone(),
        started_at: opened_at(&driver.run, step),
        process: execution.process,
        patch: judged.patch,
        notes: judged.notes,
        evidence: evidence.evidence(),
        tree: left.map(|captured| captured.tree.to_string()),
        until: session.and_then(held_until),
        usage: session.map(|session| session.usage),
    })];
    facts.extend(judged.facts);
    let points = ["step.before_rename", "step.after_rename"];
    let sealed = evidence.finish(&driver.run.id.slug(), &dir, now(), facts, points)?;
    let pending = driver.submit(sealed.facts, sealed.files);
    live.remove().and_then(|()| driver.world.prepare(None))?;
    Ok(pending)
}

/// What a worker left besides its change, if anything.
fn lying_about(driver: &Driver<'_, '_>, step: StepRef, left: &Captured) -> Option<LyingAbout> {
    let scope = &item_of(&driver.run, step)?.scope;
    let rules = Rules::new(driver.policies, &driver.store.layout);
    observe::lying_about(left, |path| rules.denies_ignored(scope, path))
}

/// When a provider that has had enough lets an agent go on, if it said so.
fn held_until(session: &contract::SessionOutcome) -> Option<Timestamp> {
    let Some(ErrorKind::RateLimited { reset_after_seconds, resets_at }) = session.error.as_ref().map(|it| it.kind)
    else {
        return None;
    };
    let from_now = reset_after_seconds.map(|seconds| now().unix_ms().saturating_add(seconds.saturating_mul(1000)));
    let at = from_now.or_else(|| resets_at.map(|seconds| seconds.saturating_mul(1000)))?;
    Some(Timestamp::from_unix_ms(at))
}

/// When a turn that is open was opened.
fn opened_at(run: &Run, step: StepRef) -> Timestamp {
    let item = step.item.map(|place| &run.items[place as usize].stage);
    match (item, &run.stage) {
        (Some(ItemStage::Working { since, .. }), _) | (None, Stage::StepOpen(_, since)) => *since,
        _ => unreachable!("BUG: the step was opened by whoever takes it"),
    }
}

/// The item that a turn is about, if it is about one.
fn item_of(run: &Run, step: StepRef) -> Option<&Item> {
    step.item.map(|place| &*run.items[place as usize].item)
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
    for dir in run.iteration_dirs() {
        files.add(dir.trim_start_matches("steps/"), reader.file_names(&slug, dir)?);
    }
    let turn = TurnEvidence {
        process: kept.process.clone(),
        stdout: kept.stdout,
        stdout_truncated: kept.stdout_truncated,
        verdict: kept.verdict.as_deref(),
        files: &files,
        session: kept.session,
        item: item_of(run, step),
        notes: kept.notes,
    };
    Ok(judge(&run.started.contract, &slug, step, &turn))
}

fn request(driver: &Driver<'_, '_>, step: StepRef, repo_root: &Path, step_dir: &Path, notes: &str) -> AgentRequest {
    let (run, run_dir) = (&driver.run, driver.run_dir());
    let contract = &run.started.contract;
    let item = item_of(run, step);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    AgentRequest {
        version: PROTOCOL_VERSION,
        run_id: run.id.slug(),
        step: RequestStep { index: step.index, role: step.role, iteration: step.iteration },
        goal: item.map_or(&contract.goal, |item| &item.goal).clone(),
        norma: RequestTerms {
            acceptance_criteria: contract.acceptance_criteria.clone(),
            budgets: contract.budgets.clone(),
        },
        paths: RequestPaths {
            repo_root: text(repo_root),
            run_dir: text(&run_dir),
            step_dir: text(step_dir),
            workspace_dir: item.map(|_| text(repo_root)),
        },
        context: RequestContext {
            previous_step_dirs: run.earlier_dirs(step).iter().map(|dir| text(&run_dir.join(dir))).collect(),
            notes: notes.to_owned(),
        },
        contract: item.cloned(),
    }
}

fn notes(run: &Run, step: StepRef) -> String {
    let text = match step.item.map(|place| &run.items[place as usize]) {
        None => run.notes.join("\n"),
        Some(state) => {
            let attempt = |turn: &ItemTurn| format!("Attempt {} ended {:?}.\n", turn.step.attempt, turn.end);
            let is_shown = matches!(&state.stage, ItemStage::Working { base, .. } if state.shown_on(base) != base.tree);
            after::note(state, is_shown).into_iter().chain(state.turns.iter().map(attempt)).collect()
        }
    };
    text.chars().take(NOTES_CHARS_MAX).collect()
}

fn cut_note(stream: &str, truncated: bool) -> Option<String> {
    truncated.then(|| format!("{stream} was longer than limits.output_mb and was cut"))
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("BUG: a document is plain data");
    bytes.push(b'\n');
    bytes
}

/// The directory an agent writes while its turn lasts.
struct LiveDir {
    path: PathBuf,
}

impl LiveDir {
    fn create(&self) -> Result<()> {
        std::fs::create_dir_all(&self.path).map_err(|source| Error::io("create", &self.path, source))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, bytes).map_err(|source| Error::io("write", &path, source))
    }

    fn remove(&self) -> Result<()> {
        Ok(store::remove_tree(&self.path)?)
    }
}
