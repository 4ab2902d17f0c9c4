//! Turns taken again with what is on record of them: an agent whose model was called through norma's gateway works
//! once more, confined as it was and on what it stood on, and the recorded answers take the place of the model's. Nothing
//! goes out. Of other agents nothing was recorded that could answer them; the change they made is applied to its base.

use super::tally::{Found, Tally, found};
use super::{Replay, Tests, Walk, changes, check_record, items, report};
use crate::agent::kind_of;
use crate::evidence::collect::RESERVED;
use crate::git::recorded;
use crate::record::Control;
use crate::turn::evidence::keep;
use crate::world::{Again, Allowed, Answered, Execution, Question, Witness};
use crate::{Error, Machine, Result, TurnOrder, World};
use contract::replay::{
    RecordedCalls, RecordedHow, RecordedResult, RecordedStep, ReplayCheck, ReplayMode, ReplayReport,
};
use contract::session::{Decision, Permission};
use contract::{
    AgentRequest, Event, Fact, ItemEnded, ProcessEnd, PromptBlocks, SessionEvent, SessionOutcome, StepCommitted,
    TreeId, TurnEnd,
};
use gateway::{Exchange, Gateway};
use run::{ItemStage, Run, TurnSpec};
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Preparing, Verification};

impl Replay<'_> {
    /// Has the agents of a run work again with the recorded answers of their models, and applies the changes of those of
    /// whom nothing was recorded. `record` is what its verification says.
    pub fn recorded(&self, record: &Verification, machine: &mut Machine, control: &Control) -> Result<ReplayReport> {
        check_record(record)?;
        let mut steps = Vec::new();
        let judged = self.walk(&record.run_id, Tests::OnRecord, |walk| {
            let mut taking = Taking { walk, machine, control, steps: &mut steps, tally: Tally::default() };
            taking.all_of_it()
        });
        let (run, _) = self.reader.load(&record.run_id)?;
        machine.release(&run)?;
        let mut report = report(record, ReplayMode::Recorded, judged)?;
        report.recorded = Some(steps);
        Ok(report)
    }
}

/// A run whose turns are taken again, one after another.
struct Taking<'a, 'w, 't> {
    walk: &'a mut Walk<'w, 't>,
    machine: &'a mut Machine,
    control: &'a Control,
    steps: &'a mut Vec<RecordedStep>,
    tally: Tally,
}

/// What a turn left, on record or now.
struct Left {
    answer: Vec<u8>,
    tree: Option<TreeId>,
    /// What the agent wrote of its step, and what its answer carries.
    files: Vec<(String, Vec<u8>)>,
}

impl Taking<'_, '_, '_> {
    fn all_of_it(&mut self) -> Result<Vec<ReplayCheck>> {
        let events = self.walk.events;
        for (at, event) in events.iter().enumerate().skip(1) {
            match &event.fact {
                Fact::StepCommitted(done) => self.turn(at, event, done)?,
                Fact::PatchApplied(_) | Fact::ChangeDropped(_) => self.change(at)?,
                _ => {}
            }
            if self.control.requested().is_some() {
                return Err(Error::declined("asked to stop, so nothing is known", "nothing was changed; ask again"));
            }
            self.walk.go_past(event);
        }
        Ok(vec![std::mem::take(&mut self.tally).check("turns taken again")])
    }

    fn turn(&mut self, at: usize, event: &Event, done: &StepCommitted) -> Result<()> {
        let names = self.walk.with.reader.file_names(&self.walk.run.id.slug(), &done.dir)?;
        let agent = self.spec(done)?.agent;
        let exchanges: Vec<&String> = names.iter().filter(|name| name.starts_with("gateway/")).collect();
        let step = RecordedStep {
            dir: done.dir.clone(),
            item: self.walk.run.item_of(done.step).map(|item| item.id.clone()),
            agent: agent.kind,
            how: RecordedHow::AgentAgain,
            why: None,
            calls: None,
            result: RecordedResult::Same,
            differences: Vec::new(),
            notes: Vec::new(),
        };
        let step = match exchanges.is_empty() {
            false => self.agent_again(step, done, &names)?,
            true => {
                let why = match kind_of(&agent) {
                    Some(_) => "what it said to its model did not go over norma's gateway",
                    None => "nothing is recorded of what its program spoke with",
                };
                let step = RecordedStep { how: RecordedHow::ChangeApplied, why: Some(why.to_owned()), ..step };
                self.change_applied(step, at, done)?
            }
        };
        let all = step.differences.iter().map(|what| found(Some("turn"), format!("{}: {what}", step.dir)));
        let not_tried = (step.result == RecordedResult::NotTried).then(|| {
            let why = step.why.as_deref().unwrap_or_default();
            found(Some("turn"), format!("{}: it could not be tried here: {why}", step.dir))
        });
        let all: Vec<Found> = all.chain(not_tried).collect();
        self.tally.compare(Some(event.seq), Ok(all))?;
        self.steps.push(step);
        Ok(())
    }

    fn agent_again(&mut self, step: RecordedStep, done: &StepCommitted, names: &[String]) -> Result<RecordedStep> {
        let taken = match self.take_again(done, names) {
            Err(Error::Store(store::Error::Damaged { why, .. })) => return Ok(differs(step, vec![why])),
            taken => taken?,
        };
        let mut step = RecordedStep { calls: Some(taken.calls), notes: taken.notes, ..step };
        if let ProcessEnd::NotStarted(why) | ProcessEnd::NotConfined(why) = taken.process {
            return Ok(RecordedStep { result: RecordedResult::NotTried, why: Some(why), calls: None, ..step });
        }
        let differences = self.differences(done, names, &taken.left)?;
        if !self.document::<SessionOutcome>(done, "session/outcome.json")?.redacted.is_empty() {
            step.notes.push("secrets were taken out of what is on record, so it was not told them again".to_owned());
        }
        if step.calls.is_some_and(|calls| calls.mismatches > 0) {
            step.notes.push("some of its calls were like nothing on record, and were refused".to_owned());
        }
        Ok(differs(step, differences))
    }

    fn take_again(&mut self, done: &StepCommitted, names: &[String]) -> Result<Taken> {
        let (run, spec) = (self.walk.run.clone(), self.spec(done)?);
        let place = self.machine.workspace(&run, &spec)?;
        let private = self.machine.context.layout.worktree(&run.id.slug()).join("again");
        store::remove_tree(&private)?;
        let exchanges = self.exchanges(done, names)?;
        let recorded = exchanges.len() as u64;
        let again = Again {
            gateway: Arc::new(Gateway::replay(exchanges.into_iter())),
            prompt: self.document::<PromptBlocks>(done, "prompt.blocks.json")?,
            steps: self.steps_before(&private, &spec)?,
        };
        let (live_dir, step_dir) = (private.join(done.step.dir_name()), self.walk.dir.join(&done.dir));
        let mut request: AgentRequest = self.document(done, "input.json")?;
        if !place.final_names {
            let text = |path: &Path| path.to_string_lossy().into_owned();
            request.paths.repo_root = text(&place.repo_root);
            request.paths.step_dir = text(&live_dir);
            request.paths.workspace_dir = request.paths.workspace_dir.map(|_| text(&place.repo_root));
        }
        make_dir(&live_dir)?;
        write(&live_dir.join("input.json"), &contract::json::pretty(&request))?;
        let witness = Recalled::of(&self.events(done)?);
        let order = TurnOrder {
            run: &run,
            spec: &spec,
            request: &request,
            live_dir: &live_dir,
            step_dir: &step_dir,
            time_left: Duration::from_millis(spec.time_ms),
            clock: None,
            ledger: &Arc::default(),
            witness: &witness,
            again: Some(&again),
        };
        let mut execution = self.machine.execute(&order)?;
        let error = execution.spoken.as_ref().and_then(|spoken| spoken.outcome.error.clone());
        let problem = error.map(|error| format!("it ended badly: {}", error.message));
        let left = self.left(&order, &mut execution, &private)?;
        store::remove_tree(&private)?;
        let totals = again.gateway.totals();
        let matched = totals.matched;
        let calls = RecordedCalls {
            recorded,
            exact: matched.exact,
            masked: matched.masked,
            order: matched.order,
            mismatches: totals.mismatches,
        };
        Ok(Taken {
            process: execution.process,
            left,
            calls,
            notes: witness.notes().into_iter().chain(problem).collect(),
        })
    }

    /// What the agent left this time.
    fn left(&mut self, order: &TurnOrder<'_>, execution: &mut Execution, private: &Path) -> Result<Left> {
        let mut kept = Preparing::new(&private.join("left"));
        keep(self.machine, self.walk.with.objects, order.run, order.spec.step, order.live_dir, execution, &mut kept)?;
        if let Some(spoken) = &execution.spoken {
            store::remove_tree(&spoken.spool)?;
        }
        let mut files = Vec::new();
        for name in kept.names() {
            let bytes = kept.read(&name, u64::MAX)?.unwrap_or_default();
            files.push((name, bytes));
        }
        let tree = execution.captured.as_ref().map(|captured| recorded(captured.tree));
        Ok(Left { answer: std::mem::take(&mut execution.stdout), tree, files })
    }

    /// What a worker left is its tree; what the agents of a loop left is what they said and wrote of their step.
    fn differences(&self, done: &StepCommitted, names: &[String], now: &Left) -> Result<Vec<String>> {
        // What an agent had made when it was cut off depends on the moment.
        if let Some(tree) = done.tree.filter(|_| done.end == TurnEnd::Answered) {
            let is = now.tree.map_or_else(|| "none".to_owned(), |tree| tree.to_string());
            return Ok((now.tree != Some(tree))
                .then(|| format!("it left tree {is}, and {tree} is on record"))
                .into_iter()
                .collect());
        }
        let mut all = Vec::new();
        if self.walk.read(&format!("{}/logs/stdout.txt", done.dir))? != now.answer {
            all.push("it answered something else than is on record".to_owned());
        }
        if done.step.item.is_some() {
            return Ok(all);
        }
        let own = |name: &&String| !RESERVED.contains(&name.split('/').next().unwrap_or_default());
        let recorded: BTreeSet<&String> = names.iter().filter(own).collect();
        for name in recorded.iter().copied().chain(now.files.iter().map(|(name, _)| name)).collect::<BTreeSet<_>>() {
            let is = now.files.iter().find(|(it, _)| it == name).map(|(_, bytes)| bytes);
            let was = match recorded.contains(name) {
                true => Some(self.walk.read(&format!("{}/{name}", done.dir))?),
                false => None,
            };
            match (was, is) {
                (Some(_), None) => all.push(format!("it did not leave {name}, which is on record")),
                (None, _) => all.push(format!("it left {name}, which is not on record")),
                (Some(was), Some(is)) if was != *is => all.push(format!("it left another {name} than is on record")),
                _ => {}
            }
        }
        Ok(all)
    }

    /// A turn that cannot be taken again: the change that came of it is applied to what it was made on.
    fn change_applied(&self, step: RecordedStep, at: usize, done: &StepCommitted) -> Result<RecordedStep> {
        let nothing =
            |note: &str| RecordedStep { result: RecordedResult::Nothing, notes: vec![note.to_owned()], ..step.clone() };
        let Some(place) = done.step.item else {
            // The patch of an `act` is an event of its own, which comes right after.
            return Ok(if done.patch { step } else { nothing("it left no change") });
        };
        let Some(tree) = done.tree else { return Ok(nothing("it left no tree")) };
        let later = self.walk.events[at..].iter().find_map(|event| match &event.fact {
            Fact::ItemEnded(ended) if ended.item == place => Some(&**ended),
            _ => None,
        });
        let Some(ended) = later.filter(|ended| ended.step == Some(done.step.index)) else {
            return Ok(nothing("another attempt took its place"));
        };
        let dir = format!("changes/{:03}", ended.change);
        if !self.walk.dir.join(&dir).join("patch.diff").is_file() {
            return Ok(nothing("no patch of it is on record"));
        }
        let (before, after) = trees(&self.walk.run, ended, place, tree);
        match items::applied(self.walk, &dir, before, after) {
            Ok(Some(found)) => Ok(differs(step, found.into_iter().map(|(_, what)| what).collect())),
            Ok(None) => Ok(nothing("its patch leaves out binary content")),
            Err(Error::Store(store::Error::Damaged { why, .. })) => Ok(differs(step, vec![why])),
            Err(error) => Err(error),
        }
    }

    /// The patch of an `act`, applied and judged again; it counts for the turn that proposed it.
    fn change(&mut self, at: usize) -> Result<()> {
        let Some((_, step)) = self.walk.run.open_change() else {
            unreachable!("BUG: the log was folded before, and a change is recorded only where it is open")
        };
        let differences = changes::differences(self.walk, at)?;
        let dir = format!("steps/{}", step.dir_name());
        if let Some(turn) = self.steps.iter_mut().find(|turn| turn.dir == dir && !differences.is_empty()) {
            turn.differences.extend(differences.iter().map(|(_, what)| what.clone()));
            turn.result = RecordedResult::Differs;
        }
        self.tally.compare(Some(self.walk.events[at].seq), Ok(differences))
    }

    /// The turn as it was taken: it is open where the walk is.
    fn spec(&self, done: &StepCommitted) -> Result<TurnSpec> {
        let run = &self.walk.run;
        let missing =
            || store::Error::Damaged { log: run.id.slug().to_string(), why: format!("{} has no agent", done.dir) };
        run.spec(done.step).ok_or_else(|| missing().into())
    }

    fn exchanges(&self, done: &StepCommitted, names: &[String]) -> Result<Vec<Exchange>> {
        let mut exchanges = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("gateway/")) {
            let bytes = self.walk.read(&format!("{}/{name}", done.dir))?;
            exchanges.push(Exchange::from_json(&bytes).map_err(|why| self.damaged(done, name, &why.to_string()))?);
        }
        Ok(exchanges)
    }

    fn events(&self, done: &StepCommitted) -> Result<Vec<SessionEvent>> {
        let bytes = self.walk.read(&format!("{}/session/events.jsonl", done.dir))?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    fn document<T: DeserializeOwned>(&self, done: &StepCommitted, name: &str) -> Result<T> {
        let bytes = self.walk.read(&format!("{}/{name}", done.dir))?;
        serde_json::from_slice(&bytes).map_err(|why| self.damaged(done, name, &why.to_string()))
    }

    fn damaged(&self, done: &StepCommitted, name: &str, why: &str) -> Error {
        let why = format!("{}/{name} cannot be read: {why}", done.dir);
        store::Error::Damaged { log: self.walk.run.id.slug().to_string(), why }.into()
    }

    /// The steps that were there before a turn, as a directory of their own: later ones must not be seen.
    fn steps_before(&self, private: &Path, spec: &TurnSpec) -> Result<PathBuf> {
        let steps = private.join("steps");
        make_dir(&steps)?;
        for dir in &spec.look_back.dirs {
            let name = dir.trim_start_matches("steps/");
            link(&self.walk.dir.join(dir), &steps.join(name))?;
        }
        Ok(steps)
    }
}

/// A turn that was taken again.
struct Taken {
    process: ProcessEnd,
    left: Left,
    calls: RecordedCalls,
    notes: Vec<String>,
}

fn differs(step: RecordedStep, differences: Vec<String>) -> RecordedStep {
    let result = if differences.is_empty() { RecordedResult::Same } else { RecordedResult::Differs };
    RecordedStep { result, differences, ..step }
}

/// The trees between which the patch of an item is: those of the line if it landed, else those of its turn.
fn trees(run: &Run, ended: &ItemEnded, place: u32, tree: TreeId) -> (TreeId, TreeId) {
    let base = match &run.items()[place as usize].stage {
        ItemStage::Working(turn) => turn.base.as_ref().expect("BUG: the turn of an item has a base").tree,
        _ => unreachable!("BUG: the log was folded before, and a turn is recorded only where it is open"),
    };
    match ended.commit {
        Some(_) => (ended.before, ended.after),
        None => (base, tree),
    }
}

/// A directory again, with the very files of the other.
fn link(from: &Path, to: &Path) -> Result<()> {
    make_dir(to)?;
    for entry in std::fs::read_dir(from).map_err(|source| Error::io("list", from, source))? {
        let entry = entry.map_err(|source| Error::io("list", from, source))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| Error::io("look at", &source, error))?;
        if kind.is_dir() {
            link(&source, &target)?;
        } else if kind.is_file() {
            let linked = std::fs::hard_link(&source, &target).or_else(|_| std::fs::copy(&source, &target).map(drop));
            linked.map_err(|error| Error::io("copy", &source, error))?;
        }
    }
    Ok(())
}

fn make_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|source| Error::io("write", path, source))
}

/// Who is there while a turn is taken again: what the agent was told when it asked, it is told again.
struct Recalled {
    answers: RefCell<Vec<(Permission, Decision)>>,
    /// How often it was told yes again, and how often no.
    told: Cell<(u64, u64)>,
    version: Option<String>,
    notes: RefCell<Vec<String>>,
}

impl Recalled {
    fn of(events: &[SessionEvent]) -> Recalled {
        let (mut asked, mut answers, mut version) = (Vec::<Permission>::new(), Vec::new(), None);
        for event in events {
            match event {
                SessionEvent::Session { agent: Some(agent), .. } => version = Some(agent.clone()),
                SessionEvent::PermissionRequested(permission) => asked.push(permission.clone()),
                SessionEvent::PermissionAnswered { id, decision } => {
                    if let Some(at) = asked.iter().position(|permission| permission.id == *id) {
                        answers.push((asked.remove(at), decision.clone()));
                    }
                }
                _ => {}
            }
        }
        Recalled { answers: RefCell::new(answers), told: Cell::default(), version, notes: RefCell::default() }
    }

    fn notes(self) -> Vec<String> {
        let told = match self.told.get() {
            (0, 0) => None,
            (yes, no) => Some(format!("it asked whether it may, and was told as on record: {yes} yes, {no} no")),
        };
        told.into_iter().chain(self.notes.into_inner()).collect()
    }

    /// What it was told when it asked the same: the same id first, since an agent may ask the same thing twice.
    fn recall(&self, permission: &Permission) -> Option<Decision> {
        let mut answers = self.answers.borrow_mut();
        let same = |(asked, _): &(Permission, Decision)| {
            (&asked.tool, &asked.command, &asked.paths) == (&permission.tool, &permission.command, &permission.paths)
        };
        let exact = answers.iter().position(|asked| same(asked) && asked.0.id == permission.id);
        let at = exact.or_else(|| answers.iter().position(same))?;
        let decision = answers.remove(at).1;
        let (yes, no) = self.told.get();
        let is_no = matches!(decision, Decision::Deny { .. });
        self.told.set((yes + u64::from(!is_no), no + u64::from(is_no)));
        Some(decision)
    }
}

impl Witness for Recalled {
    fn saw(&self, event: SessionEvent, _kept: bool) {
        if let (SessionEvent::Session { agent: Some(is), .. }, Some(was)) = (event, &self.version)
            && is != *was
        {
            self.notes.borrow_mut().push(format!("its program says that it is {is}, and was {was}"));
        }
    }

    fn decide(&self, permission: &Permission) -> Answered {
        let decision = self.recall(permission).unwrap_or_else(|| {
            let what = permission.command.clone().unwrap_or_else(|| permission.paths.join(", "));
            self.notes.borrow_mut().push(format!("it asked for {} {what}, and never did on record", permission.tool));
            Decision::Deny { message: "nobody was asked this when it was recorded".to_owned() }
        });
        Answered::Now(decision)
    }

    /// All that it was told yes to: what was refused then is refused again.
    fn allowed(&self) -> Allowed {
        let answers = self.answers.borrow();
        let yes = answers.iter().filter(|(_, decision)| !matches!(decision, Decision::Deny { .. }));
        Arc::new(Mutex::new(yes.filter_map(|(asked, _)| asked.command.clone()).collect()))
    }

    fn answer(&self, _question: &Question) -> Option<Decision> {
        unreachable!("BUG: nobody is asked while a turn is taken again")
    }
}
