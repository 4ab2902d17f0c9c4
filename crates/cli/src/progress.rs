//! What people see while a run goes on: one line a turn, drawn again with its time and what is known of it on a terminal;
//! plain lines elsewhere; JSON lines for programs. All of it eats the same stream of recorded events, and of what is on no
//! record.

mod screen;
mod speech;

pub(crate) use screen::Screen;

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{block, duration, out, safe, short, short_id, short_ref};
use contract::policy::join;
use contract::session::Decision;
use contract::{
    Event, Fact, ItemEnded, ItemStatus, SessionEvent, StepCommitted, StepRef, StepStatus, Timestamp, TurnEnd, Usage,
    Usd, WaitKind,
};
use run::Run;
use runner::workspace::Progress;
use runner::{Delta, News};
use speech::Speech;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Layout, Reader};

/// How many files of a first workspace are worth telling of.
pub(crate) const FILES_MIN: usize = 20_000;

/// What is drawn while a workspace is made.
const WORKSPACE: &str = "workspace";

/// Prints what happens to a run: text for people, or the lines of the log for programs.
pub(crate) struct Reporter {
    /// For programs: where the lines are read from, exactly as stored, and the last one that was printed.
    lines: Option<(Reader, u64)>,
    /// Whether a program asked for the result of items and nothing else.
    quiet: bool,
    color: bool,
    screen: Arc<Screen>,
    /// What agents say, where somebody wants to hear it.
    speech: Option<Speech>,
    /// What is known of the turns under way.
    turns: BTreeMap<u32, Turn>,
    /// The test command that each item is at.
    testing: BTreeMap<String, (usize, usize, Vec<String>)>,
    /// Why turns failed, by their item. The end of the run tells it, unless they are tried again.
    held: BTreeMap<Option<u32>, Vec<String>>,
    /// Whether somebody was told that the first workspace is made.
    preparing: bool,
}

#[derive(Default)]
struct Turn {
    tool: Option<String>,
    usage: Option<Usage>,
}

impl Reporter {
    /// A reporter on what happens to a run from its last event on, which first says what run it is.
    pub(crate) fn new(here: &Surroundings, screen: Arc<Screen>, layout: &Layout, run: &Run) -> Outcome<Reporter> {
        let quiet = here.json && !run.items().is_empty();
        let lines = if here.json && !quiet { Some((Reader::open(layout)?, run.seq - 1)) } else { None };
        let mut reporter = Reporter {
            lines,
            quiet,
            color: here.color,
            screen,
            speech: here.hears_agents.then(Speech::default),
            turns: BTreeMap::new(),
            testing: BTreeMap::new(),
            held: BTreeMap::new(),
            preparing: false,
        };
        match reporter.lines {
            Some(_) => reporter.print_lines(run),
            None if reporter.quiet => {}
            None => reporter.started(run),
        }
        Ok(reporter)
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
        let line = |text: String| self.screen.line(&text);
        line(format!("run {} · base {branch} {} · sandbox {sandbox}", run.id.slug(), short_id(started.base.commit)));
        line(format!("goal: {}", short(&started.contract.goal, 100)));
        if let Some(parent) = &started.parent {
            let done = run.items().iter().filter(|state| state.done_by().is_some()).count();
            let kept = if done == 0 { String::new() } else { format!(": {done} of {} stay done", run.items().len()) };
            line(format!("continues run {parent}{kept}"));
        }
        if !started.left_out.is_empty() {
            let names = some_of(&started.left_out);
            line(format!("your uncommitted files stay yours and are not part of the run: {names}"));
        }
        if !started.included.is_empty() {
            line(format!("agents see these ignored files, as .worktreeinclude asks: {}", some_of(&started.included)));
        }
    }

    fn tell(&mut self, run: &Run, event: &Event) {
        match &event.fact {
            Fact::StepStarted { step, .. } => self.step_started(run, *step, event.ts),
            Fact::StepCommitted(done) => self.step_committed(run, done, event.ts),
            Fact::Verdict(given) => {
                let word = self.paint(given.verdict.as_str(), given.verdict == contract::Verdict::Pass);
                self.detail(&format!("verdict {word}"));
                given.findings.iter().for_each(|finding| self.detail(&block(finding, "          ")));
            }
            Fact::PatchApplied(applied) if applied.files.is_empty() => self.detail("the patch changes nothing"),
            Fact::PatchApplied(applied) => self.detail(&format!("patch applied: {}", safe(&applied.files.join(", ")))),
            Fact::ProtocolError { step, problems } => self.hold(step.item, problems),
            Fact::ChangeDropped(dropped) => {
                self.detail(&format!("patch refused ({})", dropped.reason));
                self.hold(None, &dropped.findings);
            }
            Fact::AgentEvent { step, event } => self.agent_event(run, *step, event),
            Fact::ApprovalAsked { step, wait } => {
                self.detail(&format!("{}waits for you:", whose(run, *step)));
                // All of it: whoever says yes says yes to the end of the command, too.
                wait.reasons.iter().for_each(|reason| self.detail(&format!("  {}", safe(reason))));
                self.detail(&format!("  norma approve {0} · norma deny {0} --reason …", wait.approval));
            }
            // That a budget is used up is how the run is left, which its end tells.
            Fact::Asked(wait) if wait.kind != WaitKind::Budget => {
                wait.reasons.iter().take(5).for_each(|reason| self.detail(&block(reason, "          ")));
            }
            Fact::ItemEnded(ended) => self.item_ended(run, ended),
            Fact::LandingDeclined(declined) => {
                self.detail(&format!("not landed: {}", block(&declined.why, "          ")))
            }
            _ => {}
        }
    }

    /// Keeps why a turn failed until it is known whether it is tried again.
    fn hold(&mut self, item: Option<u32>, lines: &[String]) {
        let lines = lines.iter().take(5).map(|line| block(line, "          ")).collect();
        self.held.insert(item, lines);
    }

    /// It is tried again, so why it failed is told now.
    fn release(&mut self, item: Option<u32>) {
        for line in self.held.remove(&item).unwrap_or_default() {
            self.detail(&line);
        }
    }

    /// What an agent does, as far as somebody who watches wants to know.
    fn agent_event(&mut self, run: &Run, step: StepRef, event: &SessionEvent) {
        self.hear(run, step, event);
        let turn = self.turns.entry(step.index).or_default();
        match event {
            SessionEvent::ToolStarted { .. } => turn.tool = Some(short(&event.message(), 60)),
            SessionEvent::Usage(usage) => turn.usage = Some(*usage),
            _ => {}
        }
        self.screen.detail(&turn_key(step), known(run, turn));
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

    /// Shows what an agent says, where somebody wants to hear it.
    fn hear(&mut self, run: &Run, step: StepRef, event: &SessionEvent) {
        let Some(speech) = &mut self.speech else { return };
        for line in speech.hear(step, event) {
            self.screen.line(&format!("        > {}{}", whose(run, step), block(&line, "          ")));
        }
    }

    /// One line an item: how it ended, and what of it is on the run's line. Why, and what came of a single one, is how the run
    /// ends.
    fn item_ended(&mut self, run: &Run, ended: &ItemEnded) {
        let good = ended.status == ItemStatus::Success;
        let id = run.items().get(ended.item as usize).map_or("", |state| state.item.id.as_str());
        self.end_testing(id);
        if run.items().len() == 1 {
            return;
        }
        let word = self.paint(ended.status.as_str(), good);
        let [created, edited, deleted] = ended.files;
        let rest = match (good, ended.commit) {
            (true, Some(commit)) => format!(": +{created} ~{edited} -{deleted} files · {}", short_id(commit)),
            (true, None) => ": nothing changed".to_owned(),
            (false, _) => ended.reason.map(|reason| format!(" ({reason})")).unwrap_or_default(),
        };
        self.detail(&format!("{} {word}{rest}", safe(id)));
    }

    fn step_started(&mut self, run: &Run, step: StepRef, at: Timestamp) {
        self.release(step.item);
        self.screen.end(WORKSPACE);
        self.turns.insert(step.index, Turn::default());
        let label = format!("{:>3} {:<5} {}", step.index, step.role, whose(run, step));
        self.screen.begin(&turn_key(step), label.trim_end().to_owned(), ago(at));
    }

    fn step_committed(&mut self, run: &Run, done: &StepCommitted, at: Timestamp) {
        self.screen.end(&turn_key(done.step));
        self.turns.remove(&done.step.index);
        let took = Duration::from_millis(at.unix_ms().saturating_sub(done.started_at.unix_ms()));
        let good = (done.end, done.status) == (TurnEnd::Answered, StepStatus::Ok);
        let word = match done.end {
            // Padded before it is painted: the codes of a colour have no width.
            _ if good => self.paint("ok  ", true),
            TurnEnd::Interrupted => "interrupted".to_owned(),
            _ => self.paint("fail", false),
        };
        let summary = match done.reason.filter(|_| !good && done.end != TurnEnd::Interrupted) {
            // Why is told once: by the end of the run, or below as soon as it is tried again.
            Some(reason) => {
                self.hold(done.step.item, std::slice::from_ref(&done.summary));
                reason.to_string()
            }
            None => short(&done.summary, 90),
        };
        let role = format!("{:<5}", done.step.role);
        let summary = format!("{}{summary}", whose(run, done.step));
        self.screen.line(&format!("{:>3} {role} {word} {:>6}  {summary}", done.step.index, duration(took)));
        for note in done.notes.iter().take(5) {
            self.detail(&format!("note: {}", block(note, "          ")));
        }
    }

    fn detail(&self, text: &str) {
        self.screen.line(&format!("          {text}"));
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
    /// Tells what takes its time, and what agents say. What else they are in the middle of is told once it is on record.
    pub(crate) fn uncommitted(&mut self, run: &Run, delta: &Delta) {
        if self.quiet || self.lines.is_some() {
            return;
        }
        match delta {
            Delta::Preparing(News::Checkout(progress)) => self.checkout(*progress),
            Delta::Preparing(News::Setup(argv)) => {
                let label = format!("    setting up the workspace: {}", short(&join(argv), 60));
                self.screen.line(&label);
                self.screen.begin(WORKSPACE, label, Instant::now());
            }
            Delta::Preparing(News::Test { item, number, of, argv }) => {
                self.test_started(run, item, (*number, *of), argv)
            }
            Delta::Preparing(News::Tested { item, passed, took_ms }) => self.test_ended(run, item, *passed, *took_ms),
            Delta::Agent { step, event } => self.hear(run, *step, event),
        }
    }

    /// How far the first workspace of a large repository has come.
    fn checkout(&mut self, Progress { done, of }: Progress) {
        if of < FILES_MIN {
            return;
        }
        if !self.preparing {
            self.preparing = true;
            self.screen.line(&format!("preparing the first workspace of this repository: {of} files"));
            self.screen.begin(WORKSPACE, "    first workspace".to_owned(), Instant::now());
        }
        self.screen.detail(WORKSPACE, format!("{done} of {of} files"));
        if done >= of {
            self.screen.end(WORKSPACE);
        }
    }

    fn test_started(&mut self, run: &Run, item: &str, (number, of): (usize, usize), argv: &[String]) {
        self.screen.end(WORKSPACE);
        self.testing.insert(item.to_owned(), (number, of, argv.to_vec()));
        let label = format!("    test {number} of {of}: {}{}", of_item(run, item), short(&join(argv), 60));
        self.screen.begin(&test_key(item), label, Instant::now());
    }

    fn test_ended(&mut self, run: &Run, item: &str, passed: bool, took_ms: u64) {
        self.screen.end(WORKSPACE);
        self.screen.end(&test_key(item));
        let Some((number, of, argv)) = self.testing.remove(item) else { return };
        let word = self.paint(if passed { "passed" } else { "failed" }, passed);
        let took = duration(Duration::from_millis(took_ms));
        let command = short(&join(&argv), 60);
        self.detail(&format!("test {number} of {of} {word} {took}  {}{command}", of_item(run, item)));
    }

    fn end_testing(&mut self, item: &str) {
        self.testing.remove(item);
        self.screen.end(&test_key(item));
    }
}

fn turn_key(step: StepRef) -> String {
    format!("turn {}", step.index)
}

fn test_key(item: &str) -> String {
    format!("test {item}")
}

/// When something began that was recorded at a time.
fn ago(at: Timestamp) -> Instant {
    let elapsed = Duration::from_millis(store::now().unix_ms().saturating_sub(at.unix_ms()));
    Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now)
}

/// The last tool of a turn, and what the run has used so far, against what it may.
fn known(run: &Run, turn: &Turn) -> String {
    let mut all = *run.spent();
    turn.usage.iter().for_each(|usage| all.add(usage));
    let budgets = run.budgets();
    let mut parts: Vec<String> = turn.tool.iter().cloned().collect();
    if all.tokens() > 0 {
        let most = budgets.max_tokens.map(|most| format!(" of {most}")).unwrap_or_default();
        parts.push(format!("{}{most} tokens", all.tokens()));
    }
    if let Some(cost) = all.cost_micro_usd {
        let most = budgets.max_cost_usd.map(|most| format!(" of ${most}")).unwrap_or_default();
        parts.push(format!("${}{most}", Usd(cost)));
    }
    parts.join(" · ")
}

/// Whose turn it is, where several work at once.
fn whose(run: &Run, step: StepRef) -> String {
    let item = step.item.and_then(|place| run.items().get(place as usize));
    item.map(|state| of_item(run, &state.item.id)).unwrap_or_default()
}

/// Which item, where there are several.
fn of_item(run: &Run, id: &str) -> String {
    if run.items().len() > 1 { format!("{}: ", safe(id)) } else { String::new() }
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
