//! `SUMMARY.md` of a bundle: one page for people. Who asked for what, what changed, what each gate said, what was refused
//! and how it ended. Everything in it is from the log; what an agent or a repository said is shown as a quotation.

use contract::{Earlier, Event, Fact, RunStarted};
use std::fmt::Write;

/// How many entries of one kind the page has; the log has all of them.
const ENTRIES_MAX: usize = 40;

/// How much of a text is quoted.
const QUOTED_CHARS_MAX: usize = 200;

/// The page.
pub(super) fn write(slug: &str, events: &[Event]) -> String {
    let mut text = format!("# Run {slug}\n");
    if let Some(Fact::RunStarted(started)) = events.first().map(|event| &event.fact) {
        asked(&mut text, started);
    }
    section(&mut text, "What changed", events.iter().filter_map(|event| changed(&event.fact)));
    section(&mut text, "What the gates said", events.iter().flat_map(|event| judged(&event.fact)));
    section(&mut text, "Who approved", events.iter().filter_map(|event| approved(&event.fact)));
    section(&mut text, "What was refused", events.iter().filter_map(|event| refused(&event.fact)));
    let ends = events.iter().filter_map(|event| {
        let (status, reason) = event.fact.run_state()?;
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        Some(format!("{} {status}{reason}: {}", event.ts, quoted(&event.fact.message())))
    });
    section(&mut text, "How it went", ends);
    text
}

fn asked(text: &mut String, started: &RunStarted) {
    let contract = &started.contract;
    let _ = write!(text, "\n## Who asked for what\n\n- goal: {}\n", quoted(&contract.goal));
    for criterion in &contract.acceptance_criteria {
        let _ = writeln!(text, "- criterion {}: {}", quoted(&criterion.id), quoted(&criterion.text));
    }
    let author = &started.author;
    let _ = writeln!(text, "- asked by: {}", quoted(&format!("{} <{}>", author.name, author.email)));
    let _ = writeln!(text, "- base: commit `{}`, tree `{}`", started.base.commit, started.base.tree);
    let _ = writeln!(text, "- contract: `{}`", started.contract_digest);
    let _ = writeln!(text, "- sandbox: {}, norma {}", contract.sandbox.as_str(), quoted(&started.version));
}

fn section(text: &mut String, title: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    let _ = write!(text, "\n## {title}\n\n");
    for entry in entries.iter().take(ENTRIES_MAX) {
        let _ = writeln!(text, "- {entry}");
    }
    match entries.len().saturating_sub(ENTRIES_MAX) {
        _ if entries.is_empty() => text.push_str("(nothing)\n"),
        0 => {}
        more => drop(writeln!(text, "- and {more} more, in run/events.jsonl")),
    }
}

fn changed(fact: &Fact) -> Option<String> {
    match fact {
        Fact::PatchApplied(applied) => {
            let files: Vec<String> = applied.files.iter().take(10).map(|file| quoted(file)).collect();
            let (change, count, tree) = (applied.change, applied.file_count, &applied.after);
            Some(format!("change {change}: {count} file(s), tree `{tree}`: {}", files.join(", ")))
        }
        Fact::ItemEnded(ended) => {
            let [created, edited, deleted] = ended.files;
            let (change, tree) = (ended.change, &ended.after);
            Some(format!("change {change}: {created} created, {edited} edited, {deleted} deleted, tree `{tree}`"))
        }
        Fact::ItemAdded(added) => match &added.earlier {
            Some(Earlier::Done { run, ended }) => {
                let (change, receipt) = (ended.change, &ended.receipt.id);
                Some(format!("change {change}: done before, by run {}, receipt `{receipt}`", quoted(run)))
            }
            Some(Earlier::Unfinished { .. }) | None => None,
        },
        Fact::Landed(landing) => Some(format!("{} moved to commit `{}`", quoted(&landing.target), landing.commit)),
        _ => None,
    }
}

fn judged(fact: &Fact) -> Vec<String> {
    match fact {
        Fact::Verdict(given) => vec![format!("check of step {}: {}", given.step.index, given.verdict.as_str())],
        Fact::ItemEnded(ended) => {
            let word = |passed: bool| if passed { "pass" } else { "fail" };
            let gates = ended.gates.iter().map(|said| format!("{} {}", said.gate, word(said.passed)));
            let gates: Vec<String> = gates.collect();
            vec![format!("change {}: {}: {}", ended.change, ended.status, gates.join(", "))]
        }
        _ => Vec::new(),
    }
}

fn approved(fact: &Fact) -> Option<String> {
    matches!(fact, Fact::ApprovalUsed { .. }).then(|| quoted(&fact.message()))
}

fn refused(fact: &Fact) -> Option<String> {
    let of_note = matches!(
        fact,
        Fact::ChangeDropped(_)
            | Fact::GateFailed { .. }
            | Fact::PolicyViolation { .. }
            | Fact::ProtocolError { .. }
            | Fact::BudgetExceeded(_)
            | Fact::LandingDeclined(_)
            | Fact::EvidenceLost { .. }
    );
    of_note.then(|| quoted(&fact.message()))
}

/// A text as code on one line: nothing in it is markup, and nothing in it is invisible.
fn quoted(text: &str) -> String {
    let plain = |c: char| match c {
        '`' => '\'',
        c if c.is_control() || contract::path::is_invisible(c) => ' ',
        c => c,
    };
    let mut line: String = text.chars().take(QUOTED_CHARS_MAX).map(plain).collect();
    if text.chars().nth(QUOTED_CHARS_MAX).is_some() {
        line.push('…');
    }
    format!("`{line}`")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_quotation_stays_on_its_line_and_shows_everything() {
        assert_eq!(quoted("a`b\n# c\u{202e}d"), "`a'b # c d`");
        assert_eq!(quoted(&"x".repeat(300)).chars().count(), 203);
    }
}
