//! `norma replay`: is what is on record of a run what follows from its evidence, and does it come out the same again?

use super::run::JOBS_DEFAULT;
use crate::error::{Outcome, code};
use crate::interrupts::Stopping;
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::{safe, short};
use contract::documents::{Difference, ReexecReport, ReexecStatus};
use contract::replay::{RecordedHow, RecordedResult, RecordedStep, ReplayCheck, ReplayMode, ReplayReport};
use contract::{Reason, RunView, Timestamp};
use runner::git::Objects;
use runner::{Control, Machine, Replay, Request, Start};
use serde_json::{Value, json};
use std::process::ExitCode;
use store::Reader;

/// How much of a value is shown to people.
const SHOWN_CHARS_MAX: usize = 60;

/// Judge a run again: on its evidence, with its tests, or by carrying it out again
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma replay @last              # nothing is started; exit 0 the same, 5 not\n  norma replay @last --reverify   # its patches and its tests, no agent\n  norma replay @last --recorded   # its agents, with the recorded answers of their models; no network\n  norma replay @last --reexec     # its agents too; lands nothing"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
    /// Judge everything again on the evidence that is kept; nothing is started (the default)
    #[arg(long, group = "how")]
    rehydrate: bool,
    /// Apply its patches and run its tests again; no agent is started
    #[arg(long, group = "how")]
    reverify: bool,
    /// Run its agents again with the recorded answers of their models; no network, lands nothing
    #[arg(long, group = "how")]
    recorded: bool,
    /// Carry out its contract again from where it started, and compare; lands nothing
    #[arg(long, group = "how")]
    reexec: bool,
    /// Exit with code 4 if another norma is running here
    #[arg(long)]
    no_wait: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match (self.reverify, self.recorded, self.reexec) {
            (true, _, _) | (_, true, _) => self.on_a_machine(here),
            (_, _, true) => self.reexec(here),
            (false, false, false) => rehydrate(here, &self.run),
        }
    }

    /// A replay that starts something, confined as it was. What is told is told afterwards, by whoever owns the state
    /// directory then.
    fn on_a_machine(&self, here: &Surroundings) -> Outcome<ExitCode> {
        let mut session = Session::open(here, Asks::of(self.no_wait, false))?;
        let state = session.own()?.state().clone();
        let (context, reader) = (session.context.clone(), session.reader()?);
        let slug = reader.find_run(&self.run)?;
        let settings = runner::settings_in_force(&context, here.sender().config.as_deref())?.settings;
        let record = runner::verify_run(&reader, &context.trust, &slug)?;
        let run = reader.load(&slug)?.0;
        runner::require_own(&context, &settings, here.mode, &run, "nothing of it is run again")?;
        let control = Control::new()?;
        let stopping = control.clone();
        session.interrupts.watch(Some(Stopping::new(move |stop| stopping.request(stop))));
        let mut machine = Machine::new(context, &state, control.cancel.clone());
        let replay = Replay { reader: &reader, objects: &state.objects, policies: &settings.policies };
        let report = match self.recorded {
            true => replay.recorded(&record, &mut machine, &control),
            false => replay.reverify(&record, &mut machine, &control),
        };
        drop(session);
        if control.requested().is_some() {
            return Ok(ExitCode::from(code::INTERRUPTED));
        }
        tell(here, &report?)
    }

    fn reexec(&self, here: &Surroundings) -> Outcome<ExitCode> {
        let mut session = Session::open(here, Asks::of(self.no_wait, false))?;
        let reader = session.reader()?;
        let slug = reader.find_run(&self.run)?;
        runner::check_record(&runner::verify_run(&reader, &session.context.trust, &slug)?)?;
        let again = session.carry_out(Start::Again { run: slug.clone(), jobs: JOBS_DEFAULT })?;
        if !again.status.is_terminal() || again.reason == Some(Reason::SandboxUnavailable) {
            return session.finish(&again);
        }
        let report = runner::compare(&reader, &slug, &again.run_id)?;
        drop(session);
        tell_reexec(here, &report, &again)
    }
}

/// Takes no lock and starts nothing.
fn rehydrate(here: &Surroundings, given: &str) -> Outcome<ExitCode> {
    let user = here.repository()?;
    let layout = here.layout_of(&user);
    let reader = Reader::open(&layout)?;
    let slug = reader.find_run(given)?;
    let policies = match reader.load(&slug) {
        Ok((run, _)) => runner::policies_of(&run, &layout)?,
        // What is wrong with it is in the record.
        Err(_) => runner::load_policies(&layout)?,
    };
    let objects = Objects::open_or_create(&layout.git(), &user)?;
    let record = runner::verify_run(&reader, &here.trust_of(&layout), &slug)?;
    let replay = Replay { reader: &reader, objects: &objects, policies: &policies };
    tell(here, &replay.rehydrate(&record)?)
}

fn tell(here: &Surroundings, report: &ReplayReport) -> Outcome<ExitCode> {
    let at = report.replayed_at;
    let told = describe(report);
    let kept = keep(here, &report.run_id, report.mode, report.status, at, json!(report), &told)?;
    // What could not be tried here is neither the same nor another.
    Ok(if report.is_incomplete() { ExitCode::from(code::ENVIRONMENT) } else { kept })
}

fn tell_reexec(here: &Surroundings, report: &ReexecReport, again: &RunView) -> Outcome<ExitCode> {
    let told = describe_reexec(report, again);
    keep(here, &report.run_id, ReplayMode::Reexec, report.status, report.reexec_ts, json!(report), &told)
}

/// Has the report kept beside the runs, and prints it.
fn keep(
    here: &Surroundings,
    run: &str,
    mode: ReplayMode,
    status: ReexecStatus,
    at: Timestamp,
    report: Value,
    told: &str,
) -> Outcome<ExitCode> {
    let request = Request::KeepReplay { run: run.to_owned(), mode, status, at, report: report.clone() };
    let (_, path) = here.request(request)?;
    let value = json!({"run_id": run, "mode": mode, "status": status, "path": path, "report": report});
    here.print(&value, || format!("{told}\nreport: {}", path.as_str().unwrap_or_default()));
    Ok(match status {
        ReexecStatus::Pass => ExitCode::SUCCESS,
        ReexecStatus::Fail => ExitCode::from(code::INTEGRITY),
    })
}

fn describe(report: &ReplayReport) -> String {
    let mut text: String = report.checks.iter().map(describe_check).collect();
    text.extend(report.recorded.iter().flatten().map(describe_step));
    let verdict = match report.status {
        ReexecStatus::Pass => "the same",
        ReexecStatus::Fail if report.is_incomplete() => "NOT known",
        ReexecStatus::Fail => "NOT the same",
    };
    let done = match report.mode {
        ReplayMode::Rehydrate => "judged again on its evidence",
        ReplayMode::Recorded => "with its agents and the recorded answers of their models",
        ReplayMode::Reverify | ReplayMode::Reexec => "with its patches applied and its tests run again",
    };
    text.push_str(&format!("{verdict}: run {} {done}", report.run_id));
    text
}

fn describe_check(check: &ReplayCheck) -> String {
    let word = if check.differences.is_empty() { "ok" } else { "FAILED" };
    let mut text = format!("{:<14} {word:<6} {}\n", check.name, check.compared);
    for difference in &check.differences {
        text.push_str(&format!("               {}\n", safe(&difference.to_string())));
    }
    for note in &check.notes {
        text.push_str(&format!("               note: {}\n", safe(note)));
    }
    text
}

/// A turn that was taken again: which of the two ways it was, and what came of it.
fn describe_step(step: &RecordedStep) -> String {
    let result = match step.result {
        RecordedResult::Same => "same",
        RecordedResult::Differs => "DIFFERS",
        RecordedResult::Nothing => "nothing to compare",
        RecordedResult::NotTried => "NOT TRIED",
    };
    let item = step.item.as_ref().map(|item| format!(" of {}", safe(item))).unwrap_or_default();
    let how = match (step.how, &step.calls) {
        (RecordedHow::ChangeApplied, _) => "its change was applied".to_owned(),
        (RecordedHow::AgentAgain, None) => format!("{} did not work again", step.agent.as_str()),
        (RecordedHow::AgentAgain, Some(calls)) => format!(
            "{} worked again; of {} recorded calls {} were the same, {} but for ids and times, {} by order; {} were like none",
            step.agent.as_str(),
            calls.recorded,
            calls.exact,
            calls.masked,
            calls.order,
            calls.mismatches
        ),
    };
    let mut text = format!("{}{item}: {result}; {how}\n", safe(&step.dir));
    for line in step.why.iter().chain(&step.notes) {
        text.push_str(&format!("               {}\n", safe(line)));
    }
    text
}

fn describe_reexec(report: &ReexecReport, again: &RunView) -> String {
    let mut text = String::new();
    for (name, differences, word) in
        [("must not differ", &report.hard_diffs, "FAILED"), ("may differ", &report.soft_diffs, "differs")]
    {
        let word = if differences.is_empty() { "ok" } else { word };
        text.push_str(&format!("{name:<15} {word}\n"));
        text.extend(differences.iter().map(describe_difference));
    }
    for error in &report.errors {
        text.push_str(&format!("not compared: {}\n", safe(error)));
    }
    let verdict = match report.status {
        ReexecStatus::Pass => "the same",
        ReexecStatus::Fail => "NOT the same",
    };
    text.push_str(&format!("{verdict}: run {} carried out again as {}; nothing landed", report.run_id, again.run_id));
    text
}

fn describe_difference(difference: &Difference) -> String {
    let shown = |value: &Option<Value>| {
        value.as_ref().map_or_else(|| "nothing".to_owned(), |value| short(&value.to_string(), SHOWN_CHARS_MAX))
    };
    let (was, is) = (shown(&difference.expected), shown(&difference.actual));
    format!("                {}: {was} → {is}\n", safe(&difference.key))
}
