//! How a run ended: what happened, whether anything is unsafe, what to do next, each of it once; and the exit code. The
//! same for every verb that has runs carried out.

use crate::cause::{Cause, causes};
use crate::diffstat::diffstat;
use crate::error::code;
use crate::text::{block, left_out, safe, short_id, short_ref, used};
use contract::work::Gate;
use contract::{BudgetExceeded, ItemStatus, Landing, Reason, RunView, Status, WaitKind, lines_of_reason};
use run::Run;
use std::collections::BTreeMap;
use std::process::ExitCode;
use store::Reader;

/// How many causes of one item are shown; `norma why` has them all.
const CAUSES_MAX: usize = 5;

/// How many items that did not succeed are shown; `norma why` has them all.
const ITEMS_MAX: usize = 20;

/// The largest patch whose lines are counted at the end of a run.
const PATCH_BYTES_MAX: u64 = 32 << 20;

/// The exit code of a run.
pub(crate) fn exit_code(view: &RunView) -> ExitCode {
    ExitCode::from(exit_number(view))
}

/// The same as a number.
pub(crate) fn exit_number(view: &RunView) -> u8 {
    match view.status {
        Status::Succeeded => 0,
        Status::Paused if view.reason == Some(Reason::ProviderLimit) => code::RATE_LIMITED,
        Status::Paused => code::INTERRUPTED,
        Status::Waiting => code::WAITING,
        _ if view.reason == Some(Reason::SandboxUnavailable) => code::ENVIRONMENT,
        _ => code::FAILED,
    }
}

/// What happened, is anything unsafe, what next. `again` is the command that would do the same once more, where there is
/// one.
pub(crate) fn ending(reader: &Reader, view: &RunView, run: &Run, again: Option<&str>) -> String {
    let slug = &view.run_id;
    let (what, next) = match view.status {
        Status::Succeeded => succeeded(reader, view, run),
        Status::Waiting => waiting(view, run),
        Status::Paused => paused(reader, view, run),
        Status::Stopped => {
            let more = run.exceeded().map_or_else(|| "NAME=N".to_owned(), BudgetExceeded::more);
            let next = format!("continue: norma resume {slug} --budget {more} · look: norma show {slug}");
            (format!("stopped: {}\n", block(message(view), "  ")), next)
        }
        Status::Canceled => {
            let again = again.map(|command| format!(" · again: {command}")).unwrap_or_default();
            (format!("{}\n", block(message(view), "  ")), format!("look: norma show {slug}{again}"))
        }
        _ => failed(reader, view, run, again),
    };
    let safe_or_not = match (view.status, &view.landing) {
        (Status::Succeeded, Some(landing)) if landing.checkout => String::new(),
        _ => format!("{}\n", untouched(view.landing.as_ref())),
    };
    let usage = view.details.as_ref().and_then(|details| details.usage.as_ref());
    let usage = usage.map(|usage| format!("used: {}\n", used(usage))).unwrap_or_default();
    format!("{what}{safe_or_not}{}{usage}evidence: {}\nnext: {next}", left_out_of(run), view.run_dir)
}

fn message(view: &RunView) -> &str {
    view.message.as_deref().unwrap_or_default()
}

/// What of the user's is as it was.
fn untouched(landing: Option<&Landing>) -> String {
    match landing {
        // Of a batch that did not succeed as a whole, what did succeed has landed.
        Some(landing) if landing.checkout => {
            format!("What succeeded is on {}; nothing else was changed.", short_ref(&landing.target))
        }
        _ => "Your branch, index and files are unchanged.".to_owned(),
    }
}

fn succeeded(reader: &Reader, view: &RunView, run: &Run) -> (String, String) {
    let slug = &view.run_id;
    let said = match run.items().len() {
        1 => String::new(),
        _ => format!("{} · ", safe(&message(view).replace("item(s)", "items"))),
    };
    let untested = if view.landing.is_some() { untested(run) } else { "" };
    let (headline, next) = match &view.landing {
        Some(landing) if landing.checkout => {
            let moved =
                format!("landed {} {}→{}", short_ref(&landing.target), short_id(view.base), short_id(landing.commit));
            (format!("{said}{moved}"), format!("{untested}look: norma show {slug} · undo: norma undo {slug}"))
        }
        Some(landing) => {
            let branch = short_ref(&landing.target);
            let next = format!("{untested}take it: norma land {slug}, or git merge {branch} · look: norma diff {slug}");
            (format!("{said}the result is on branch {branch}"), next)
        }
        None => (format!("{said}nothing changed"), format!("look: norma show {slug}")),
    };
    let stat = patch_of(reader, slug).and_then(|patch| diffstat(&patch)).unwrap_or_default();
    (format!("{headline}\n{stat}{}{}{}", tests(run), receipts(view), output_hash(reader, view, run)), next)
}

/// The whole change of a run, unless it is too large to count its lines.
fn patch_of(reader: &Reader, slug: &str) -> Option<Vec<u8>> {
    let path = reader.layout().run(slug).join("patch.diff");
    let is_small = std::fs::metadata(&path).is_ok_and(|meta| meta.len() <= PATCH_BYTES_MAX);
    is_small.then(|| std::fs::read(&path).ok()).flatten()
}

/// How many items that succeeded were tested, and how many were not.
fn tested(run: &Run) -> (usize, usize) {
    let succeeded = run.items().iter().filter_map(|state| state.ended_here());
    let succeeded = succeeded.filter(|ended| ended.status == ItemStatus::Success && ended.commit.is_some());
    let (tested, not): (Vec<_>, Vec<_>) =
        succeeded.partition(|ended| ended.gates.iter().any(|said| said.gate == Gate::Tests && said.passed));
    (tested.len(), not.len())
}

fn tests(run: &Run) -> String {
    let counts = run.items().iter().filter_map(|state| state.ended_here()?.tests);
    let (passed, skipped) = counts.fold((0, 0), |(passed, skipped), it| (passed + it.passed, skipped + it.skipped));
    let counted = match (passed, skipped) {
        (0, _) => String::new(),
        (passed, 0) => format!(": {passed} passed"),
        (passed, skipped) => format!(": {passed} passed, {skipped} skipped"),
    };
    match tested(run) {
        (0, _) => String::new(),
        (_, 0) => format!("tests passed{counted}\n"),
        (tested, not) => {
            format!("tests passed for {tested} of {} items{counted}; no test was run for the others\n", tested + not)
        }
    }
}

/// Said where a change landed and nothing has tried it.
fn untested(run: &Run) -> &'static str {
    match tested(run) {
        (0, not) if not > 0 => "no test was run, so ",
        _ => "",
    }
}

fn receipts(view: &RunView) -> String {
    let receipts = view.details.as_ref().map(|details| &details.receipts[..]).unwrap_or_default();
    match receipts {
        [] => String::new(),
        [only] => format!("receipt: {}\n", safe(only)),
        several => format!("receipts: {}, listed by norma show {} --json\n", several.len(), view.run_id),
    }
}

/// What the repository is after a single item, to be compared with what a replay makes of it.
fn output_hash(reader: &Reader, view: &RunView, run: &Run) -> String {
    let (1, Some(ended)) = (run.items().len(), run.items().iter().next().and_then(|state| state.ended_here())) else {
        return String::new();
    };
    let dir = format!("changes/{:03}", ended.change);
    let receipt = reader.evidence(&view.run_id, &dir, "RECEIPT.json").ok().flatten();
    let receipt = receipt.and_then(|bytes| serde_json::from_slice::<contract::Receipt>(&bytes).ok());
    receipt.map(|receipt| format!("output hash: {}\n", receipt.after_hash)).unwrap_or_default()
}

fn waiting(view: &RunView, run: &Run) -> (String, String) {
    let slug = &view.run_id;
    let reasons = run.waits_for().map(|wait| &wait.reasons[..]).unwrap_or_default();
    let lines = reasons.iter().flat_map(|reason| lines_of_reason(reason));
    let lines: String = lines.map(|line| format!("  {}\n", safe(line))).collect();
    let budget = run.waits_for().filter(|wait| wait.kind == WaitKind::Budget);
    if budget.is_some() {
        let more = run.used_up().as_ref().map_or_else(|| "NAME=N".to_owned(), BudgetExceeded::more);
        let next = format!("continue: norma resume {slug} --budget {more} · end it: norma resume {slug} --budget stop");
        return (format!("waiting for more of a budget:\n{lines}"), next);
    }
    let asked = crate::cause::questions(run);
    if let Some((_, commands)) = asked.first() {
        let lines = asked.iter().flat_map(|(wait, _)| &wait.reasons).flat_map(|reason| lines_of_reason(reason));
        let lines: String = lines.map(|line| format!("  {}\n", safe(line))).collect();
        return (format!("waiting for your answer:\n{lines}"), commands.join(" · "));
    }
    match run.approval_wait() {
        Some(wait) => {
            let next = format!(
                "approve: norma approve {0} · or: norma deny {0} --reason … · then: norma resume {slug}",
                wait.approval
            );
            (format!("waiting for your approval:\n{lines}"), next)
        }
        None => {
            let next = format!("see it: norma approvals · approve: norma approve ID · then: norma resume {slug}");
            (format!("waiting: {}\n", block(message(view), "  ")), next)
        }
    }
}

fn paused(reader: &Reader, view: &RunView, run: &Run) -> (String, String) {
    let why = if view.reason == Some(Reason::Interrupted) { String::new() } else { why(reader, view, run) };
    (format!("paused: {}\n{why}", block(message(view), "  ")), format!("norma resume {}", view.run_id))
}

fn failed(reader: &Reader, view: &RunView, run: &Run, again: Option<&str>) -> (String, String) {
    let slug = &view.run_id;
    let reason = view.reason.map_or("", Reason::as_str);
    let found = all_causes(reader, view, run);
    let is_told = found.iter().any(|cause| message(view).contains(&cause.message));
    let headline = match (&found[..], run.items().len()) {
        // Whatever a run of one item says, its item says too.
        ([_, ..], 1) => format!("{} ({reason}):\n", view.status),
        _ if is_told => format!("{} ({reason}):\n", view.status),
        _ => format!("{} ({reason}): {}\n", view.status, block(message(view), "  ")),
    };
    let patch = if has_patch(run) { format!("patch: norma diff {slug} · ") } else { String::new() };
    let again = again.map(|command| format!(" · again: {command}")).unwrap_or_default();
    let next = format!("why: norma why {slug} · {patch}logs: norma logs {slug}{again}");
    (format!("{headline}{}", told(&found, run.items().len() > 1, &view.run_dir)), next)
}

/// Whether an agent left something that did not land.
fn has_patch(run: &Run) -> bool {
    let items = run.items().iter().filter_map(|state| state.ended_here());
    items.filter(|ended| ended.status != ItemStatus::Success).any(|ended| ended.files.iter().sum::<u64>() > 0)
        || run.changes() > 0
}

fn all_causes(reader: &Reader, view: &RunView, run: &Run) -> Vec<Cause> {
    let events = reader.log(&view.run_id).map(|(_, events, _)| events).unwrap_or_default();
    causes(reader, view, run, &events)
}

/// What decided, where the message of the run does not say it.
fn why(reader: &Reader, view: &RunView, run: &Run) -> String {
    let mut found = all_causes(reader, view, run);
    found.retain(|cause| cause.message != message(view) && cause.reason != Some(Reason::BudgetExceeded));
    told(&found, run.items().len() > 1, &view.run_dir)
}

/// Causes by item, each with what would allow it and the end of its log; the first ones of each.
pub(crate) fn told(causes: &[Cause], many: bool, run_dir: &str) -> String {
    let mut by_item: BTreeMap<(Option<u32>, Option<&str>), Vec<&Cause>> = BTreeMap::new();
    for cause in causes {
        by_item.entry((cause.change, cause.item.as_deref())).or_default().push(cause);
    }
    let mut text = String::new();
    for ((_, item), found) in by_item.iter().take(ITEMS_MAX) {
        let indent = match item.filter(|_| many) {
            Some(id) => {
                let status = found[0].status.map(|status| format!(" {status}")).unwrap_or_default();
                text.push_str(&format!("  {}{status}:\n", safe(id)));
                "    "
            }
            None => "  ",
        };
        text.push_str(&told_of(&alike(found), indent, run_dir));
        if found.len() > CAUSES_MAX {
            text.push_str(&format!("{indent}… and {} more\n", found.len() - CAUSES_MAX));
        }
    }
    if by_item.len() > ITEMS_MAX {
        text.push_str(&format!("  … and {} more items\n", by_item.len() - ITEMS_MAX));
    }
    text
}

/// The first causes, those together that the same would allow.
fn alike<'c>(found: &[&'c Cause]) -> Vec<&'c Cause> {
    let first = |cause: &Cause| found.iter().position(|other| other.allowed_by == cause.allowed_by);
    let mut sorted = found.to_vec();
    sorted.sort_by_key(|cause| first(cause));
    sorted.truncate(CAUSES_MAX);
    sorted
}

/// Causes of one item. What would allow several of them is told once.
fn told_of(found: &[&Cause], indent: &str, run_dir: &str) -> String {
    let mut text = String::new();
    for (index, cause) in found.iter().enumerate() {
        text.push_str(&format!("{indent}{}\n", cause.line(indent)));
        cause.log.iter().for_each(|line| text.push_str(&format!("{indent}  | {line}\n")));
        if let (false, Some(evidence)) = (cause.log.is_empty(), &cause.evidence) {
            text.push_str(&format!("{indent}  log: {run_dir}/{}\n", safe(evidence)));
        }
        if found.get(index + 1).is_none_or(|next| next.allowed_by != cause.allowed_by) {
            let label = if cause.rule.is_some() { "what would allow it" } else { "what helps" };
            text.push_str(&format!("{indent}{label}: {}\n", block(&cause.allowed_by, indent)));
        }
    }
    text
}

impl Cause {
    /// `src/x: not below any allowed path (outside_scope)`.
    pub(crate) fn line(&self, indent: &str) -> String {
        let path = self.path.as_ref().map(|path| format!("{}: ", safe(path))).unwrap_or_default();
        // That a test failed is what the message says.
        let rule = self.rule.filter(|rule| *rule != run::gate::Rule::TestsFailed);
        let rule = rule.map(|rule| format!(" ({})", word(rule))).unwrap_or_default();
        format!("{path}{}{rule}", block(&self.message, &format!("{indent}  ")))
    }
}

/// A rule as `gates.json` spells it.
pub(crate) fn word(rule: run::gate::Rule) -> String {
    let word = serde_json::to_value(rule).expect("BUG: a rule is plain data");
    word.as_str().unwrap_or_default().to_owned()
}

/// The ignored files that agents left beside changes that landed.
fn left_out_of(run: &Run) -> String {
    let landed = run.items().iter().filter_map(|state| {
        let ended = state.ended_here().filter(|ended| ended.status == ItemStatus::Success)?;
        Some(left_out(&state.item.id, ended.left_out.as_ref()?))
    });
    landed.collect()
}
