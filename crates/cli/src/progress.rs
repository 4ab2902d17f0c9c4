//! What people see while a run goes on: one line a step, with the time it takes on a terminal; plain lines
//! elsewhere; JSON lines for programs. All of it eats the same stream of recorded events.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{duration, out, raw_out, safe, short, short_id, short_ref};
use contract::session::Decision;
use contract::{Event, Fact, ItemEnded, ItemStatus, SessionEvent, StepCommitted, StepRef, StepStatus, TurnEnd};
use run::Run;
use runner::{Delta, News};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Layout, Reader};

/// How often the running step's time is drawn again.
const TICK: Duration = Duration::from_millis(250);

/// Prints what happens to a run: text for people, or the lines of the log for programs.
pub(crate) struct Reporter {
    /// For programs: where the lines are read from, exactly as stored, and the last one that was printed.
    lines: Option<(Reader, u64)>,
    /// Whether a program asked for the result of items and nothing else.
    quiet: bool,
    color: bool,
    ticker: Option<Ticker>,
    last_step: Option<(StepRef, Instant)>,
    preparing: Arc<dyn Fn(News) + Send + Sync>,
}

impl Reporter {
    /// A reporter on what happens to a run from its last event on, which first says what run it is.
    pub(crate) fn new(here: &Surroundings, layout: &Layout, run: &Run) -> Outcome<Reporter> {
        let mut reporter = Reporter::of(here, layout, run)?;
        match reporter.lines {
            Some(_) => reporter.print_lines(run),
            None if reporter.quiet => {}
            None => reporter.started(run),
        }
        Ok(reporter)
    }

    fn of(here: &Surroundings, layout: &Layout, run: &Run) -> Outcome<Reporter> {
        let ticker = (here.terminal && !here.json).then(Ticker::start);
        let quiet = here.json && !run.items().is_empty();
        let lines = if here.json && !quiet { Some((Reader::open(layout)?, run.seq - 1)) } else { None };
        Ok(Reporter { lines, quiet, color: here.color, ticker, last_step: None, preparing: here.workspace_progress() })
    }

    /// Prints what is on record and was not printed yet.
    fn print_lines(&mut self, run: &Run) {
        let Some((reader, printed)) = &mut self.lines else { return };
        // They were committed before anybody was told; if they cannot be read now, `norma events` shows them later.
        for line in reader.lines(&run.id.slug(), *printed, run.seq - *printed).unwrap_or_default() {
            out(&line);
            *printed += 1;
        }
    }

    /// What a run starts from, and what that leaves out.
    fn started(&self, run: &Run) {
        let started = &run.started;
        let branch = started.base.branch.as_deref().map_or("detached HEAD", short_ref);
        let sandbox = started.contract.sandbox.as_str();
        out(&format!("run {} · base {branch} {} · sandbox {sandbox}", run.id.slug(), short_id(started.base.commit)));
        out(&format!("goal: {}", short(&started.contract.goal, 100)));
        if let Some(parent) = &started.parent {
            let done = run.items().iter().filter(|state| state.done_by().is_some()).count();
            let kept = if done == 0 { String::new() } else { format!(": {done} of {} stay done", run.items().len()) };
            out(&format!("continues run {parent}{kept}"));
        }
        if !started.left_out.is_empty() {
            let names = some_of(&started.left_out);
            out(&format!("your uncommitted files stay yours and are not part of the run: {names}"));
        }
        if !started.included.is_empty() {
            out(&format!("agents see these ignored files, as .worktreeinclude asks: {}", some_of(&started.included)));
        }
    }

    fn tell(&mut self, run: &Run, event: &Event) {
        match &event.fact {
            Fact::StepStarted { step, .. } => self.step_started(*step),
            Fact::StepCommitted(done) => self.step_committed(done),
            Fact::Verdict(given) => {
                let word = self.paint(given.verdict.as_str(), given.verdict == contract::Verdict::Pass);
                self.detail(&format!("verdict {word}"));
                given.findings.iter().for_each(|finding| self.detail(&safe(finding)));
            }
            Fact::PatchApplied(applied) if applied.files.is_empty() => self.detail("the patch changes nothing"),
            Fact::PatchApplied(applied) => self.detail(&format!("patch applied: {}", safe(&applied.files.join(", ")))),
            Fact::ProtocolError { problems, .. } => {
                problems.iter().take(5).for_each(|problem| self.detail(&safe(problem)))
            }
            Fact::ChangeDropped(dropped) => {
                self.detail(&format!("patch refused ({})", dropped.reason));
                dropped.findings.iter().take(5).for_each(|finding| self.detail(&safe(finding)));
            }
            Fact::Landed(landing) if !landing.checkout => {
                self.detail(&format!("the result is kept on branch {}", short_ref(&landing.target)));
            }
            Fact::Landed(landing) => self.detail(&format!(
                "landed {} {}→{}",
                short_ref(&landing.target),
                landing.from.map_or_else(|| "new".to_owned(), short_id),
                short_id(landing.commit)
            )),
            Fact::AgentEvent { step, event } => self.agent_event(run, *step, event),
            Fact::ApprovalAsked { step, wait } => {
                self.detail(&format!("{}waits for you:", whose(run, *step)));
                // All of it: whoever says yes says yes to the end of the command, too.
                wait.reasons.iter().for_each(|reason| self.detail(&format!("  {}", safe(reason))));
                self.detail(&format!("  norma approve {0} · norma deny {0} --reason …", wait.approval));
            }
            Fact::Asked(wait) => wait.reasons.iter().take(5).for_each(|reason| self.detail(&safe(reason))),
            Fact::ItemEnded(ended) => self.item_ended(run, ended),
            Fact::LandingDeclined(declined) => self.detail(&format!("not landed: {}", safe(&declined.why))),
            _ => {}
        }
    }

    /// What an agent does, as far as somebody who watches wants to know.
    fn agent_event(&self, run: &Run, step: StepRef, event: &SessionEvent) {
        let worth_a_line = match event {
            SessionEvent::ToolStarted { .. } | SessionEvent::Error(_) => true,
            SessionEvent::PermissionAnswered { decision, .. } => matches!(decision, Decision::Deny { .. }),
            SessionEvent::ToolCompleted { ok, .. } => !ok,
            _ => false,
        };
        if worth_a_line {
            self.detail(&format!("{}{}", whose(run, step), short(&event.message(), 100)));
        }
    }

    /// One line an item: how it ended, and what of it is on the run's line.
    fn item_ended(&self, run: &Run, ended: &ItemEnded) {
        let good = ended.status == ItemStatus::Success;
        let id = run.items().get(ended.item as usize).map_or("", |state| state.item.id.as_str());
        let word = self.paint(ended.status.as_str(), good);
        let [created, edited, deleted] = ended.files;
        let rest = match (good, ended.commit) {
            (true, Some(commit)) => format!("+{created} ~{edited} -{deleted} files · {}", short_id(commit)),
            (true, None) => "nothing had to change".to_owned(),
            (false, _) => short(&ended.message, 120),
        };
        self.detail(&format!("{} {word}: {rest}", safe(id)));
    }

    fn step_started(&mut self, step: StepRef) {
        self.last_step = Some((step, Instant::now()));
        if let Some(ticker) = &self.ticker {
            ticker.show(Some(format!("{:>3} {:<5}", step.index, step.role)));
        }
    }

    fn step_committed(&mut self, done: &StepCommitted) {
        if let Some(ticker) = &self.ticker {
            ticker.show(None);
        }
        let elapsed = self.last_step.map(|(_, since)| since.elapsed()).unwrap_or_default();
        let word = match (done.end, done.status) {
            // Padded before it is painted: the codes of a colour have no width.
            (TurnEnd::Answered, StepStatus::Ok) => self.paint("ok  ", true),
            (TurnEnd::Interrupted, _) => "interrupted".to_owned(),
            _ => self.paint("fail", false),
        };
        let role = format!("{:<5}", done.step.role);
        out(&format!("{:>3} {role} {word} {:>6}  {}", done.step.index, duration(elapsed), short(&done.summary, 90)));
        for note in done.notes.iter().take(5) {
            self.detail(&format!("note: {}", safe(note)));
        }
    }

    fn detail(&self, text: &str) {
        out(&format!("          {text}"));
    }

    fn paint(&self, word: &str, good: bool) -> String {
        match (self.color, good) {
            (false, _) => word.to_owned(),
            (true, true) => format!("\x1b[32m{word}\x1b[0m"),
            (true, false) => format!("\x1b[31m{word}\x1b[0m"),
        }
    }
}

impl Reporter {
    /// Tells what is on record now.
    pub(crate) fn recorded(&mut self, run: &Run, events: &[Event]) {
        if self.quiet {
            return;
        }
        if self.lines.is_some() {
            return self.print_lines(run);
        }
        for event in events {
            self.tell(run, event);
        }
    }
}

impl Reporter {
    /// Tells what takes its time. What an agent is in the middle of is told once it is on record.
    pub(crate) fn uncommitted(&mut self, delta: &Delta) {
        match delta {
            Delta::Preparing(news) => (self.preparing)(news.clone()),
            Delta::Agent { .. } => {}
        }
    }
}

/// Whose turn it is, where several work at once.
fn whose(run: &Run, step: StepRef) -> String {
    match step.item.filter(|_| run.items().len() > 1) {
        Some(place) => format!("{}: ", safe(&run.items()[place as usize].item.id)),
        None => String::new(),
    }
}

/// Draws the running step's time until it is told otherwise.
struct Ticker {
    label: Arc<Mutex<Option<(String, Instant)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start() -> Ticker {
        let label: Arc<Mutex<Option<(String, Instant)>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (shown, stopped) = (label.clone(), stop.clone());
        let draw = move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Some((label, since)) = &*shown.lock().unwrap_or_else(PoisonError::into_inner) {
                    raw_out(&format!("\r{label} …    {:>6}", duration(since.elapsed())));
                }
                std::thread::park_timeout(TICK);
            }
        };
        Ticker { label, stop, thread: std::thread::Builder::new().spawn(draw).ok() }
    }

    fn show(&self, label: Option<String>) {
        let mut shown = self.label.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.take().is_some() {
            raw_out("\r\x1b[2K");
        }
        *shown = label.map(|label| (label, Instant::now()));
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.show(None);
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Who is at work in the state directory.
pub(crate) fn at_work(owner: &Option<store::Owner>) -> String {
    match owner {
        Some(owner) => format!("`{}` (pid {}, since {})", owner.command, owner.pid, owner.since),
        None => "another norma".to_owned(),
    }
}

/// The first few of a list of paths.
fn some_of(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(5).map(|name| safe(name)).collect();
    format!("{}{}", shown.join(", "), if names.len() > 5 { " …" } else { "" })
}
