//! How a run ended: what is printed of it, and the exit code. The same for every verb that has runs carried out.

use crate::error::code;
use crate::text::{left_out, safe, short_id, short_ref};
use contract::{BudgetExceeded, ItemStatus, Reason, RunView, Status, WaitKind};
use run::Run;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The ignored files that agents left beside changes that landed.
fn left_out_of(run: &Run) -> String {
    let landed = run.items().iter().filter_map(|state| {
        let ended = state.ended_here().filter(|ended| ended.status == ItemStatus::Success)?;
        Some(left_out(&state.item.id, ended.left_out.as_ref()?))
    });
    landed.collect()
}

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

/// What happened, is anything unsafe, what next.
pub(crate) fn ending(view: &RunView, run: &Run) -> String {
    let slug = &view.run_id;
    let message = view.message.as_deref().map(safe).unwrap_or_default();
    let evidence = format!("{}evidence: {}", left_out_of(run), view.run_dir);
    let untouched = match &view.landing {
        // Of a batch that did not succeed as a whole, what did succeed has landed.
        Some(landing) if landing.checkout => {
            &format!("What succeeded is on {}; nothing else was changed.", short_ref(&landing.target))
        }
        _ => "Your branch, index and files are unchanged.",
    };
    let more = run.exceeded().map_or_else(|| "NAME=N".to_owned(), BudgetExceeded::more);
    match (view.status, &view.landing) {
        (Status::Succeeded, Some(landing)) if landing.checkout => format!(
            "{message} · landed {} {}→{}\n{evidence}\nnext: look: norma show {slug} · undo: norma undo {slug}",
            short_ref(&landing.target),
            short_id(view.base),
            short_id(landing.commit)
        ),
        (Status::Succeeded, Some(landing)) => {
            let branch = short_ref(&landing.target);
            format!(
                "{message} · the result is on branch {branch}\n{untouched}\n{evidence}\nnext: take it: norma land {slug}, or git merge {branch} · look: norma diff {slug}"
            )
        }
        (Status::Succeeded, None) => {
            format!("{message} · nothing had to change\n{evidence}\nnext: look: norma show {slug}")
        }
        (Status::Waiting, _) if run.waits_for().is_some_and(|wait| wait.kind == WaitKind::Budget) => {
            let spent: String = run
                .waits_for()
                .iter()
                .flat_map(|wait| &wait.reasons)
                .map(|line| format!("  {}\n", safe(line)))
                .collect();
            let more = run.used_up().as_ref().map_or_else(|| "NAME=N".to_owned(), BudgetExceeded::more);
            format!(
                "waiting for more of a budget:\n{spent}{untouched}\n{evidence}\nnext: continue: norma resume {slug} --budget {more} · end it: norma resume {slug} --budget stop"
            )
        }
        (Status::Waiting, _) => format!(
            "waiting: {message}\n{untouched}\n{evidence}\nnext: see it: norma approvals · approve: norma approve ID · then: norma resume {slug}"
        ),
        (Status::Paused, _) => format!("paused: {message}\n{untouched}\n{evidence}\nnext: norma resume {slug}"),
        (Status::Stopped, _) => format!(
            "what happened: stopped: {message}\n{untouched}\n{evidence}\nnext: look: norma show {slug} · continue: norma resume {slug} --budget {more}"
        ),
        (status, _) => format!(
            "what happened: {status} ({}): {message}\n{untouched}\n{evidence}\nnext: {}look: norma show {slug} · logs: {}/steps/*/logs · again: norma run … --new",
            view.reason.map_or("", Reason::as_str),
            recoveries(run),
            view.run_dir
        ),
    }
}

/// What may help the items that did not succeed, each once.
fn recoveries(run: &Run) -> String {
    let offered: BTreeSet<&str> =
        run.items().iter().filter_map(|state| state.ended()).filter_map(contract::ItemEnded::recovery).collect();
    offered.into_iter().map(|recovery| format!("{recovery} · ")).collect()
}
