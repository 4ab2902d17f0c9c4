//! What a turn is worth. From the raw evidence of one agent invocation to the answer that is stored and the
//! facts that are recorded: a pure function, called before anything is sealed, and again by whoever replays.

use crate::bounded::{bounded, cut};
use crate::gate::verdict::{self, IterationFiles};
use contract::documents::beyond_form;
use contract::documents::review_report::ReviewVerdict;
use contract::documents::roles::{self, REVIEW_SCHEMA, ReviewAnswer, ReviewFinding, Severity};
use contract::graph::NodeResult;
use contract::json::schema::Schema;
use contract::pipeline::ReviewGiven;
use contract::session::ErrorKind;
use contract::work::OutputSchema;
use contract::{
    AgentResponse, Contract, Fact, Item, ProcessEnd, ProcessLimit, RULES_NAMED_FILES, RULES_SCHEMA_ENFORCED, Reason,
    ResponseStatus, Role, SessionOutcome, StepRef, StepStatus, TurnEnd, Verdict, VerdictFile, VerdictGiven, Violation,
};
use std::borrow::Cow;

/// The longest summary that goes into the log; the whole text stays in `output.json`.
const SUMMARY_CHARS_MAX: usize = 2000;

/// The same of a node: its summary is what it says to people and to others.
const NODE_SUMMARY_CHARS_MAX: usize = 8000;

/// What norma captured of a turn.
#[derive(Debug, Clone)]
pub struct TurnEvidence<'a> {
    /// How the process ended.
    pub process: ProcessEnd,
    /// What it printed, as far as it was kept.
    pub stdout: &'a [u8],
    /// Whether stdout was longer than what was kept.
    pub stdout_truncated: bool,
    /// `verdict.json`, if the turn left one.
    pub verdict: Option<&'a [u8]>,
    /// Files of this turn and of the iteration's earlier ones.
    pub files: &'a IterationFiles,
    /// What came of an interactive session with an agent.
    pub session: Option<&'a SessionOutcome>,
    /// The item that a worker carries out.
    pub item: Option<&'a Item>,
    /// Whether it was a command, whose exit code is its answer.
    pub command: bool,
    /// What it may have chosen, where it was to decide.
    pub choices: Option<&'a [String]>,
    /// What norma noticed while collecting.
    pub notes: Vec<String>,
}

/// What the turn is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Stored as `output.json`.
    pub response: AgentResponse,
    /// For the `steps` table.
    pub status: StepStatus,
    /// For the workflow.
    pub end: TurnEnd,
    /// Why, unless it is fine.
    pub reason: Option<Reason>,
    /// For people.
    pub summary: String,
    /// Whether there is a patch to apply.
    pub patch: bool,
    /// What norma noticed and did not follow.
    pub notes: Vec<String>,
    /// Recorded after `step_committed`, in the same commit.
    pub facts: Vec<Fact>,
}

/// Judges a turn.
pub fn judge(contract: &Contract, run_slug: &str, step: StepRef, evidence: &TurnEvidence<'_>) -> Judgement {
    let failure = match (&evidence.process, evidence.session) {
        // Exit codes of agents with an interactive session say nothing by themselves.
        (ProcessEnd::Exited(_) | ProcessEnd::Signaled(_), Some(session)) => session_failure(session),
        // Some ask a provider that fails them again and again, until their time is up.
        (ProcessEnd::WallDeadline | ProcessEnd::IdleDeadline, Some(session)) if is_failed_by_provider(session) => {
            session_failure(session)
        }
        (process, _) => process_failure(process),
    };
    let mut judged = match failure {
        Some((end, reason, why)) => failed(end, reason, why, evidence.stdout),
        None if evidence.command => completed(evidence.stdout),
        None => match answer(evidence) {
            Ok(response) => match bound_form(step.role, evidence.item, &response) {
                problems if problems.is_empty() => {
                    let judged = answered(contract, run_slug, step, response, evidence);
                    match named_in_vain(contract, &judged, evidence) {
                        absent if absent.is_empty() => judged,
                        absent => protocol_error(step, absent, Some(judged.response)),
                    }
                }
                problems => protocol_error(step, problems, Some(response)),
            },
            Err(problems) => protocol_error(step, problems, None),
        },
    };
    if step.role == Role::Node && judged.end == TurnEnd::Answered {
        judged.summary = cut(&judged.response.summary, NODE_SUMMARY_CHARS_MAX);
        if let Err(problem) = node_result(&judged.response) {
            judged = protocol_error(step, vec![problem], Some(judged.response));
        }
    }
    if let Some(choices) = evidence.choices.filter(|_| judged.end == TurnEnd::Answered)
        && chosen(&judged.response, choices).is_none()
    {
        let problem = format!("/result/choice: expected one of {}", choices.join(", "));
        judged = protocol_error(step, vec![problem], Some(judged.response));
    }
    let has_patch = evidence.files.has_own("patch.diff");
    if has_patch && step.role != Role::Act {
        judged.notes.push(format!("patch.diff from {} is ignored: only act proposes patches", step.role));
    }
    judged.patch = has_patch && step.role == Role::Act && judged.end == TurnEnd::Answered;
    judged.notes.extend(evidence.notes.iter().cloned());
    judged.notes = bounded(judged.notes);
    judged
}

/// What an agent has chosen that was to decide, if it is one of the choices.
pub fn chosen<'r>(response: &'r AgentResponse, choices: &[String]) -> Option<&'r str> {
    let choice = response.result.as_ref()?.get("choice")?.as_str()?;
    choices.iter().any(|known| known == choice).then_some(choice)
}

/// A command that ended well: what it printed last is what it says.
fn completed(stdout: &[u8]) -> Judgement {
    let text = String::from_utf8_lossy(stdout);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let summary = shorten(last);
    let response = AgentResponse { status: ResponseStatus::Ok, ..AgentResponse::synthetic(&summary, Vec::new()) };
    Judgement {
        response,
        status: StepStatus::Ok,
        end: TurnEnd::Answered,
        reason: None,
        summary,
        patch: false,
        notes: Vec::new(),
        facts: Vec::new(),
    }
}

/// What a reviewer says by its answer. One that lets a change pass and names something that blocks it does not let it pass.
pub fn review_given(step: StepRef, item: &Item, reviewer: &str, response: &AgentResponse) -> Option<ReviewGiven> {
    let short = ReviewAnswer::read(response.result.as_ref()?)?.short();
    let blocks = |finding: &&ReviewFinding| finding.severity == Severity::Blocking;
    let blocking: Vec<String> = short.findings.iter().filter(blocks).map(ReviewFinding::line_of).collect();
    let verdict = match short.verdict {
        ReviewVerdict::Pass if !blocking.is_empty() => ReviewVerdict::Fail,
        verdict => verdict,
    };
    Some(ReviewGiven {
        item: step.item?,
        task_id: item.id.clone(),
        step,
        reviewer: reviewer.to_owned(),
        verdict,
        summary: shorten(&short.summary),
        remarks: (short.findings.len() - blocking.len()) as u32,
        blocking: bounded(blocking),
    })
}

/// What a node answers besides its words.
pub fn node_result(response: &AgentResponse) -> Result<NodeResult, String> {
    let Some(result) = response.result.as_ref().filter(|result| !result.is_null()) else {
        return Ok(NodeResult::default());
    };
    serde_json::from_value(result.clone()).map_err(|error| format!("/result: {error}"))
}

/// What is wrong with the answer of an agent whose contract binds its form; one that says it failed owes none.
fn bound_form(role: Role, item: Option<&Item>, response: &AgentResponse) -> Vec<String> {
    let Some(bound) = bound_to(role, item) else { return Vec::new() };
    let bound = &*bound;
    let Some(result) = response.result.as_ref().filter(|_| response.status == ResponseStatus::Ok) else {
        let missing = response.status == ResponseStatus::Ok && !bound.optional;
        return missing.then(|| format!("there is no result, which must match {}", bound.uri)).into_iter().collect();
    };
    match Schema::compile(bound.text.as_bytes()) {
        Ok(schema) => {
            let mut found = schema.violations(result);
            if found.is_empty() {
                found = beyond_form(&bound.uri, result);
            }
            found.iter().map(|it| format!("result does not match {}: {it}", bound.uri)).collect()
        }
        Err(problems) => problems.iter().map(|it| format!("{} is not a schema: {it}", bound.uri)).collect(),
    }
}

fn process_failure(process: &ProcessEnd) -> Option<(TurnEnd, Reason, String)> {
    match process {
        ProcessEnd::Exited(0) => None,
        ProcessEnd::Exited(code) => {
            Some((TurnEnd::Failed, Reason::AgentFailed, format!("agent_failed: exit code {code}")))
        }
        ProcessEnd::Signaled(signal) => {
            Some((TurnEnd::Failed, Reason::AgentFailed, format!("agent_failed: killed by signal {signal}")))
        }
        ProcessEnd::WallDeadline => {
            Some((TurnEnd::TimedOut, Reason::AgentTimeout, "agent_timeout: the step's time is up".into()))
        }
        ProcessEnd::IdleDeadline => {
            Some((TurnEnd::TimedOut, Reason::AgentTimeout, "agent_timeout: no output for too long".into()))
        }
        ProcessEnd::Canceled => {
            Some((TurnEnd::Interrupted, Reason::Interrupted, "interrupted: norma was asked to stop".into()))
        }
        ProcessEnd::NotStarted(why) => Some((TurnEnd::Failed, Reason::AgentMissing, format!("agent_missing: {why}"))),
        ProcessEnd::LimitReached(limit) => Some(limit_reached(*limit)),
        ProcessEnd::NotConfined(why) => {
            Some((TurnEnd::Failed, Reason::SandboxUnavailable, format!("sandbox_unavailable: {why}")))
        }
        ProcessEnd::NotSetUp(why) => Some((TurnEnd::Failed, Reason::SetupFailed, format!("setup_failed: {why}"))),
    }
}

/// Why a session that did not come to a good end did not, and whose turn it is to do something about it. An agent's exit
/// code alone never says that it went well.
fn session_failure(session: &SessionOutcome) -> Option<(TurnEnd, Reason, String)> {
    if session.ok {
        return None;
    }
    let agent = &session.agent;
    if session.out_of_budget {
        let unpriced = session.error.as_ref().map(|error| error.message.as_str());
        let why = match unpriced.filter(|message| message.starts_with("no price known for ")) {
            Some(what_to_do) => format!("budget_exceeded: {what_to_do}"),
            None => format!("budget_exceeded: {agent} was not let to its model any more"),
        };
        return Some((TurnEnd::Failed, Reason::BudgetExceeded, why));
    }
    let message = session.error.as_ref().map_or("it did not say why", |error| error.message.as_str());
    let (end, reason) = match session.error.as_ref().map(|error| error.kind) {
        Some(ErrorKind::Auth) => (TurnEnd::Failed, Reason::SignInFailed),
        // Nobody's fault: the turn is taken again when the provider lets it.
        Some(ErrorKind::RateLimited { .. }) => (TurnEnd::Interrupted, Reason::ProviderLimit),
        Some(ErrorKind::Network | ErrorKind::Server) => (TurnEnd::Failed, Reason::ProviderFailed),
        Some(ErrorKind::Refused) => (TurnEnd::Failed, Reason::AgentRefused),
        Some(ErrorKind::Protocol) => (TurnEnd::ProtocolError, Reason::ProtocolError),
        Some(ErrorKind::Other) | None => (TurnEnd::Failed, Reason::AgentFailed),
    };
    Some((end, reason, format!("{reason}: {agent}: {}", shorten(message))))
}

fn is_failed_by_provider(session: &SessionOutcome) -> bool {
    use ErrorKind::{Auth, Network, RateLimited, Server};
    let kind = session.error.as_ref().map(|error| error.kind);
    matches!(kind, Some(Auth | RateLimited { .. } | Network | Server))
}

fn limit_reached(limit: ProcessLimit) -> (TurnEnd, Reason, String) {
    let (reason, why) = match limit {
        ProcessLimit::Memory => (Reason::OutOfMemory, "more memory than sandbox.limits.memory_mb"),
        ProcessLimit::Disk => (Reason::DiskFull, "more written than the limits of sandbox and workspace allow"),
        ProcessLimit::CpuTime => (Reason::OutOfCpuTime, "more processor time than sandbox.limits.cpu_seconds"),
    };
    (TurnEnd::Failed, reason, format!("{reason}: {why}"))
}

fn answer(evidence: &TurnEvidence<'_>) -> Result<AgentResponse, Vec<String>> {
    if evidence.stdout_truncated {
        return Err(vec!["stdout is longer than limits.output_mb".to_owned()]);
    }
    read_answer(evidence.stdout)
}

/// What is wrong with the form of an answer, as far as that shows before anything else of the turn is known.
pub fn answer_problems(role: Role, item: Option<&Item>, answer: &[u8]) -> Vec<String> {
    read_answer(answer).map_or_else(|problems| problems, |response| bound_form(role, item, &response))
}

/// The form that an answer is bound to: a reviewer's is the same whatever it looks at.
fn bound_to(role: Role, item: Option<&Item>) -> Option<Cow<'_, OutputSchema>> {
    match role {
        Role::Reviewer => item.map(|_| Cow::Owned(roles::bound(REVIEW_SCHEMA))),
        _ => item.and_then(|item| item.output_schema.as_ref()).map(Cow::Borrowed),
    }
}

fn read_answer(stdout: &[u8]) -> Result<AgentResponse, Vec<String>> {
    AgentResponse::parse(stdout).map_err(|problems| {
        let is_json = serde_json::from_slice::<serde_json::Value>(stdout).is_ok();
        let mut texts: Vec<String> = problems.iter().map(Violation::to_string).collect();
        if !is_json {
            texts.insert(0, "stdout not valid JSON".to_owned());
        }
        texts
    })
}

fn answered(
    contract: &Contract,
    slug: &str,
    step: StepRef,
    response: AgentResponse,
    evidence: &TurnEvidence<'_>,
) -> Judgement {
    if step.role == Role::Check {
        return checked(contract, slug, step, response, evidence);
    }
    let ok = response.status == ResponseStatus::Ok;
    let mut judged = Judgement {
        summary: shorten(&response.summary),
        status: if ok { StepStatus::Ok } else { StepStatus::Fail },
        end: if ok { TurnEnd::Answered } else { TurnEnd::Failed },
        reason: (!ok).then_some(Reason::AgentFailed),
        patch: false,
        notes: Vec::new(),
        facts: enforced(contract, step, evidence.item.filter(|_| ok && response.result.is_some()))
            .into_iter()
            .collect(),
        response,
    };
    judged.notes = missing_files(&judged.response, evidence.files);
    judged
}

/// Says that an answer was checked against the schema which its contract binds.
fn enforced(contract: &Contract, step: StepRef, item: Option<&Item>) -> Option<Fact> {
    let bound = bound_to(step.role, Some(item?)).filter(|_| contract.rules >= RULES_SCHEMA_ENFORCED)?;
    Some(Fact::OutputSchemaEnforced { step, uri: bound.uri.clone(), sha256: bound.sha256 })
}

/// A check with a readable verdict is a judgement, whatever its own status: a `fail` from it only means that a
/// claimed PASS does not count.
fn checked(
    contract: &Contract,
    slug: &str,
    step: StepRef,
    response: AgentResponse,
    evidence: &TurnEvidence<'_>,
) -> Judgement {
    let verdict = match required_files(evidence) {
        Ok(verdict) => verdict,
        Err(problems) => return protocol_error(step, problems, Some(response)),
    };
    let findings = match verdict.verdict {
        Verdict::Pass => verdict::judge(
            contract.rules,
            &contract.acceptance_criteria,
            slug,
            response.status,
            &verdict,
            evidence.files,
        ),
        Verdict::Fail => Vec::new(),
    };
    let counts = if verdict.verdict == Verdict::Pass && findings.is_empty() { Verdict::Pass } else { Verdict::Fail };
    let ok = response.status == ResponseStatus::Ok;
    Judgement {
        summary: shorten(&response.summary),
        status: if ok { StepStatus::Ok } else { StepStatus::Fail },
        end: TurnEnd::Answered,
        reason: None,
        patch: false,
        notes: missing_files(&response, evidence.files),
        facts: vec![Fact::Verdict(VerdictGiven {
            step,
            claimed: verdict.verdict,
            verdict: counts,
            findings: bounded(findings),
        })],
        response,
    }
}

fn required_files(evidence: &TurnEvidence<'_>) -> Result<VerdictFile, Vec<String>> {
    let mut problems = Vec::new();
    let verdict = match evidence.verdict.map(VerdictFile::parse) {
        None => {
            problems.push("missing verdict.json".to_owned());
            None
        }
        Some(Err(violations)) => {
            problems.extend(violations.iter().map(|violation| format!("invalid verdict.json: {violation}")));
            None
        }
        Some(Ok(verdict)) => Some(verdict),
    };
    if !evidence.files.has_own("scorecard.md") {
        problems.push("missing scorecard.md".to_owned());
    }
    match verdict {
        Some(verdict) if problems.is_empty() => Ok(verdict),
        _ => Err(problems),
    }
}

/// The files that a program says it left, and that are no regular files of its step directory. What is only too much to
/// keep was there. An agent with an interactive session is not told of a directory of its own.
fn named_in_vain(contract: &Contract, judged: &Judgement, evidence: &TurnEvidence<'_>) -> Vec<String> {
    let is_held = contract.rules >= RULES_NAMED_FILES && evidence.session.is_none();
    let response = &judged.response;
    if !is_held || judged.end != TurnEnd::Answered || response.status != ResponseStatus::Ok {
        return Vec::new();
    }
    let counts = |file: &&String| {
        let start = format!("{} was left out: limits.", file.trim_start_matches("./"));
        !evidence.notes.iter().any(|note| note.starts_with(&start))
    };
    let absent = response.files.iter().filter(|file| !evidence.files.has_own(file.trim_start_matches("./")));
    absent.filter(counts).map(|file| format!("files: {file} is not a regular file in the step directory")).collect()
}

fn missing_files(response: &AgentResponse, files: &IterationFiles) -> Vec<String> {
    let absent = response.files.iter().filter(|file| !files.has_own(file.trim_start_matches("./")));
    absent.map(|file| format!("the answer names {file}, which is not in the step directory")).collect()
}

fn protocol_error(step: StepRef, problems: Vec<String>, response: Option<AgentResponse>) -> Judgement {
    let errors: Vec<String> = problems.iter().map(|problem| format!("protocol_error: {problem}")).collect();
    let summary = errors.join("; ");
    let response = match response {
        // What the agent did say stays readable; the status is norma's.
        Some(mut said) => {
            said.status = ResponseStatus::Fail;
            said.errors.extend(errors);
            said
        }
        None => AgentResponse::synthetic(&shorten(&summary), errors),
    };
    Judgement {
        response,
        status: StepStatus::Fail,
        end: TurnEnd::ProtocolError,
        reason: Some(Reason::ProtocolError),
        summary: shorten(&summary),
        patch: false,
        notes: Vec::new(),
        facts: vec![Fact::ProtocolError { step, problems: bounded(problems) }],
    }
}

fn failed(end: TurnEnd, reason: Reason, why: String, stdout: &[u8]) -> Judgement {
    let response = match AgentResponse::parse(stdout) {
        Ok(mut said) => {
            said.status = ResponseStatus::Fail;
            said.errors.push(why.clone());
            said
        }
        Err(_) => AgentResponse::synthetic(&why, vec![why.clone()]),
    };
    Judgement {
        response,
        status: StepStatus::Fail,
        end,
        reason: Some(reason),
        summary: why,
        patch: false,
        notes: Vec::new(),
        facts: Vec::new(),
    }
}

fn shorten(text: &str) -> String {
    cut(text, SUMMARY_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::TurnLimits;
    use contract::documents::{CompileRequest, Intent};
    use serde_json::{Value, json};

    /// What is wrong with this result of an item that compiles an intent.
    fn problems(result: Value) -> Vec<String> {
        let intent = Intent::read(br#"{"goal":"g","inputs":{},"constraints":{}}"#).unwrap();
        let request = CompileRequest { intent, schema_version: 0, seed: String::new() };
        let item = request.item("opencode", &TurnLimits::default()).unwrap();
        let answer = json!({"version": 1, "status": "ok", "result": result});
        bound_form(Role::Worker, Some(&item), &AgentResponse::parse(answer.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn an_answer_is_held_to_its_form_and_then_to_what_a_form_cannot_say() {
        let node = json!({"id": "a", "kind": "io", "deps": ["a"]});
        let with = |nodes: Value| json!({"plan": {"nodes": nodes}, "patch": {"files": []}, "tests": []});
        let said = |what: &str| vec![format!("result does not match schemas/compile_answer.v0.json: {what}")];
        assert_eq!(problems(with(json!([{"id": "a", "kind": "io", "deps": []}]))), [""; 0]);
        assert_eq!(problems(with(json!([node]))), said("/plan/nodes/0/deps: these nodes wait for each other: a → a"));
        assert_eq!(problems(with(json!([7]))), said("/plan/nodes/0: value is not of type \"object\""));
    }
}
