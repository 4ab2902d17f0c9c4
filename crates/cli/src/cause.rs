//! Why a run is as it is: the rule, the path and the evidence that decided, what would allow it, and the last lines of the
//! log that shows it. The last lines of a run and `norma why` tell the same.

use crate::text::{log_lines, safe, shell_word};
use contract::work::Gate;
use contract::{ChangeDropped, Event, Fact, ItemEnded, ItemStatus, Reason, RunView, Status, Wait, WaitKind};
use run::gate::{Finding, Rule};
use run::workflow::intent::NodeState;
use run::{Run, remedy};
use runner::{Acceptance, CommandOutcome};
use serde::{Deserialize, Serialize};
use store::Reader;

/// How many lines of a log are shown; all of it is in `norma logs`.
const LOG_LINES: usize = 12;

/// One thing that decided, and what would allow it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Cause {
    /// The item that it is about, where the run has items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<String>,
    /// How that item ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<ItemStatus>,
    /// The change, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<u32>,
    /// The gate that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<Gate>,
    /// Its rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<Rule>,
    /// Why, as one of the known words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Reason>,
    /// The path that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// What was found.
    pub(crate) message: String,
    /// What would allow it, or helps.
    pub(crate) allowed_by: String,
    /// The file that proves it, below the run's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<String>,
    /// The end of what was printed there, where it is a log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<String>,
}

/// What `gates.json` says of a change. Earlier versions wrote the findings of items as plain texts.
#[derive(Deserialize)]
struct GatesReport {
    #[serde(default)]
    gates: Vec<AskedGate>,
    #[serde(default)]
    tests: serde_json::Value,
}

impl GatesReport {
    fn tests(&self) -> Option<Acceptance> {
        serde_json::from_value(self.tests.clone()).ok()
    }
}

#[derive(Deserialize)]
struct AskedGate {
    gate: Gate,
    passed: bool,
    #[serde(default)]
    findings: Vec<serde_json::Value>,
}

/// Everything that decided how a run is now; empty where it succeeded or is still worked on.
pub(crate) fn causes(reader: &Reader, view: &RunView, run: &Run, events: &[Event]) -> Vec<Cause> {
    let slug = view.run_id.as_str();
    let evidence = Evidence { reader, slug };
    let mut found: Vec<Cause> = run
        .items()
        .iter()
        .flat_map(|state| {
            let failed = state.ended_here().filter(|ended| ended.status != ItemStatus::Success);
            failed.map(|ended| of_item(&evidence, run, events, &state.item.id, ended)).unwrap_or_default()
        })
        .collect();
    if view.status == Status::Succeeded || view.status == Status::Running {
        return found;
    }
    let asked = questions(run);
    if !asked.is_empty() {
        found.splice(0..0, asked.into_iter().map(|(wait, commands)| of_question(&wait, &commands)));
    } else if let Some(wait) = run.waits_for() {
        found.insert(0, of_wait(wait, slug));
    } else if let Some(exceeded) = run.exceeded() {
        let allowed_by = format!("more of it: norma resume {slug} --budget {}", exceeded.more());
        let cause = Cause {
            reason: Some(Reason::BudgetExceeded),
            message: exceeded.to_string(),
            allowed_by,
            ..Cause::default()
        };
        found.insert(0, cause);
        found.extend(last_verdict(events));
    } else if run.items().is_empty() {
        found.extend(of_loop(&evidence, view, run, events));
    }
    if found.is_empty() {
        found.extend(of_run(view));
    }
    found
}

/// The run as a whole: nothing below it decided.
fn of_run(view: &RunView) -> Option<Cause> {
    let reason = view.reason?;
    let message = without_word(view.message.as_deref().unwrap_or_default(), reason);
    Some(Cause { reason: Some(reason), message, allowed_by: for_run(remedy(reason), &view.run_id), ..Cause::default() })
}

fn for_run(text: &str, slug: &str) -> String {
    text.replace("RUN", slug)
}

/// What the plan of a run waits for, the oldest first, with the command for each answer.
pub(crate) fn questions(run: &Run) -> Vec<(Wait, Vec<String>)> {
    let slug = run.id.slug();
    let with_commands = |(node, wait): (&NodeState, &Wait)| {
        let command = |choice: &String| {
            let [choice, node] = [choice, &node.spec.id].map(|word| shell_word(&safe(word)));
            format!("norma intent answer {slug} {choice} --node {node}")
        };
        (wait.clone(), wait.choices.iter().map(command).collect())
    };
    run.intent().into_iter().flat_map(|intent| intent.questions()).map(with_commands).collect()
}

fn of_question(wait: &Wait, commands: &[String]) -> Cause {
    let (reason, message) = (Some(wait.kind.reason()), wait.reasons.join("\n"));
    Cause { reason, message, allowed_by: commands.join(" · "), ..Cause::default() }
}

fn of_wait(wait: &Wait, slug: &str) -> Cause {
    let reason = wait.kind.reason();
    let allowed_by = match wait.kind {
        WaitKind::Approval => format!("norma approve {}", wait.id),
        WaitKind::Budget => format!("norma resume {slug} --budget NAME=N"),
        _ => for_run(remedy(reason), slug),
    };
    Cause { reason: Some(reason), message: wait.reasons.join("\n"), allowed_by, ..Cause::default() }
}

/// What a loop was refused or failed for last.
fn of_loop(evidence: &Evidence<'_>, view: &RunView, run: &Run, events: &[Event]) -> Vec<Cause> {
    let last = events.iter().rev().find_map(|event| match &event.fact {
        Fact::ChangeDropped(dropped) => Some(of_dropped(evidence, dropped)),
        Fact::StepCommitted(done) if done.reason.is_some() => {
            let reason = done.reason?;
            let protocol = broken_protocol(events, done.step.index);
            let message = protocol.unwrap_or_else(|| without_word(&done.summary, reason));
            let cause = Cause {
                reason: Some(reason),
                message,
                allowed_by: for_run(remedy(reason), evidence.slug),
                ..Cause::default()
            };
            Some(vec![evidence.with_agent_log(cause, &done.dir)])
        }
        Fact::StepCommitted(_) | Fact::PatchApplied(_) | Fact::Landed(_) => Some(Vec::new()),
        _ => None,
    });
    match view.status {
        Status::Failed | Status::Denied | Status::TimedOut if run.declined().is_none() => last.unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// What exactly breaks the protocol in the answer of a turn.
fn broken_protocol(events: &[Event], index: u32) -> Option<String> {
    events.iter().rev().find_map(|event| match &event.fact {
        Fact::ProtocolError { step, problems } if step.index == index => Some(problems.join("\n")),
        _ => None,
    })
}

/// Why the last check of a loop did not pass.
fn last_verdict(events: &[Event]) -> Vec<Cause> {
    let given = events.iter().rev().find_map(|event| match &event.fact {
        Fact::Verdict(given) => Some(given),
        _ => None,
    });
    let failed = given.filter(|given| given.verdict == contract::Verdict::Fail).into_iter();
    let cause = |given: &contract::VerdictGiven| Cause {
        message: match given.findings.is_empty() {
            true => "the last verdict is FAIL".to_owned(),
            false => format!("the last verdict is FAIL:\n{}", given.findings.join("\n")),
        },
        allowed_by: "a check that passes every criterion, with evidence for each".to_owned(),
        evidence: Some(format!("steps/{}", given.step.dir_name())),
        ..Cause::default()
    };
    failed.map(cause).collect()
}

fn of_dropped(evidence: &Evidence<'_>, dropped: &ChangeDropped) -> Vec<Cause> {
    let dir = format!("changes/{:03}", dropped.change);
    let plain = Cause { change: Some(dropped.change), reason: Some(dropped.reason), ..Cause::default() };
    let found = evidence.gates(&dir).map(|report| refused(&report, &dir, &plain)).unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    let said = dropped.findings.iter().map(|finding| Cause {
        message: finding.clone(),
        allowed_by: for_run(remedy(dropped.reason), evidence.slug),
        ..plain.copy()
    });
    said.collect()
}

fn of_item(evidence: &Evidence<'_>, run: &Run, events: &[Event], id: &str, ended: &ItemEnded) -> Vec<Cause> {
    let dir = format!("changes/{:03}", ended.change);
    let plain = Cause {
        item: Some(id.to_owned()),
        status: Some(ended.status),
        change: Some(ended.change),
        reason: ended.reason,
        ..Cause::default()
    };
    let report = evidence.gates(&dir);
    let tests = report.as_ref().and_then(GatesReport::tests);
    let failed = tests.map(|tests| of_tests(evidence, &tests, &dir, &plain)).unwrap_or_default();
    if ended.reason == Some(Reason::TestsFailed) && !failed.is_empty() {
        return failed;
    }
    let by_agent = ended.gates.last().is_some_and(|last| last.gate == Gate::Output && !last.passed);
    let found = report.filter(|_| !by_agent).map(|report| refused(&report, &dir, &plain)).unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    let reason = ended.reason.unwrap_or(Reason::AgentFailed);
    let protocol = ended.step.and_then(|index| broken_protocol(events, index));
    let message = protocol.unwrap_or_else(|| without_word(&ended.message, reason));
    let helps = for_run(remedy(reason), evidence.slug);
    let allowed_by = ended.recovery().map_or_else(|| helps.clone(), |recovery| format!("{recovery}: {helps}"));
    let cause = Cause { message, allowed_by, ..plain };
    let step = ended.step.and_then(|index| run.steps().iter().find(|record| record.step.index == index));
    match step.and_then(|record| record.dir.as_deref()).filter(|_| by_agent) {
        Some(step_dir) => vec![evidence.with_agent_log(cause, step_dir)],
        None => vec![Cause { evidence: Some(format!("{dir}/gates.json")), ..cause }],
    }
}

/// What gates found; none if all of them passed.
fn refused(report: &GatesReport, dir: &str, plain: &Cause) -> Vec<Cause> {
    let failed = report.gates.iter().filter(|asked| !asked.passed);
    let found = failed.flat_map(|asked| asked.findings.iter().map(move |finding| (asked.gate, finding)));
    let cause = |(gate, finding): (Gate, &serde_json::Value)| {
        let known: Option<Finding> = serde_json::from_value(finding.clone()).ok();
        let said = finding.as_str().unwrap_or_default().to_owned();
        let (rule, path, message) = known.map_or((None, None, said), |it| (Some(it.rule), it.path, it.message));
        let allowed_by = rule.map_or_else(|| "see norma help gates".to_owned(), |rule| rule.allowed_by().to_owned());
        let evidence = Some(format!("{dir}/gates.json"));
        Cause { gate: Some(gate), rule, path, message, allowed_by, evidence, ..plain.copy() }
    };
    found.map(cause).collect()
}

fn of_tests(evidence: &Evidence<'_>, tests: &Acceptance, dir: &str, plain: &Cause) -> Vec<Cause> {
    let failed = tests.commands.iter().filter(|command| command.must_pass && command.why.is_some());
    let cause = |command: &CommandOutcome| {
        let with = if command.tests == runner::Side::Baseline { " with the base's tests" } else { "" };
        let message = format!("{}{with}: {}", contract::policy::join(&command.argv), how(command));
        let logs = [&command.stdout, &command.stderr].into_iter().flatten();
        let shown = logs.map(|log| (format!("{dir}/{}", log.path), evidence.tail(dir, &log.path)));
        // Runners tell of failures on stdout, and of what kept them from running on stderr.
        let (path, log) = shown.into_iter().find(|(_, lines)| !lines.is_empty()).unzip();
        Cause {
            gate: Some(Gate::Tests),
            rule: Some(Rule::TestsFailed),
            message,
            allowed_by: Rule::TestsFailed.allowed_by().to_owned(),
            evidence: path.or_else(|| Some(format!("{dir}/gates.json"))),
            log: log.unwrap_or_default(),
            ..plain.copy()
        }
    };
    failed.map(cause).collect()
}

/// How a test ended, without what it printed: that is shown as it was printed.
fn how(command: &CommandOutcome) -> String {
    let why = command.why.as_deref().unwrap_or_default();
    let is_short = ["exit code", "killed by", "it took"].iter().any(|words| why.starts_with(words));
    if is_short { why.split(": ").next().unwrap_or(why).to_owned() } else { why.to_owned() }
}

/// A message without the word for its reason, which is told apart from it.
fn without_word(message: &str, reason: Reason) -> String {
    let rest = message.strip_prefix(reason.as_str()).and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(message).to_owned()
}

impl Cause {
    /// The same of another finding: who and what, without what was found.
    fn copy(&self) -> Cause {
        Cause {
            item: self.item.clone(),
            status: self.status,
            change: self.change,
            reason: self.reason,
            ..Cause::default()
        }
    }
}

/// What is on record of one run. A file that cannot be read is for `norma verify` to name: the cause is told without it.
struct Evidence<'e> {
    reader: &'e Reader,
    slug: &'e str,
}

impl Evidence<'_> {
    fn gates(&self, dir: &str) -> Option<GatesReport> {
        serde_json::from_slice(&self.reader.evidence(self.slug, dir, "gates.json").ok()??).ok()
    }

    fn tail(&self, dir: &str, name: &str) -> Vec<String> {
        let bytes = self.reader.evidence(self.slug, dir, name).ok().flatten().unwrap_or_default();
        let mut lines = log_lines(&bytes);
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines.split_off(lines.len().saturating_sub(LOG_LINES))
    }

    /// What an agent said on stderr before it failed.
    fn with_agent_log(&self, cause: Cause, step_dir: &str) -> Cause {
        let name = "logs/stderr.txt";
        let log = self.tail(step_dir, name);
        let evidence = Some(if log.is_empty() { step_dir.to_owned() } else { format!("{step_dir}/{name}") });
        // What is said in the log is not said before it.
        let told = log.last().and_then(|last| cause.message.strip_suffix(&format!(": {last}"))).map(str::to_owned);
        Cause { evidence, log, message: told.unwrap_or_else(|| cause.message.clone()), ..cause }
    }
}
