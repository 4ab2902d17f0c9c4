//! A contract as it is shown before it is started: what it starts from, who works, what may change, what judges it, and
//! what it may use up. Sentences for people, in one form for the terminal and for programs.

use super::{Checked, Planned};
use crate::{Reach, Surveyed};
use contract::api::{ContractPreview, PreviewAgent, PreviewBase};
use contract::documents::role_binding::RoleContractSummary;
use contract::documents::task_contract::resolve_role_of_item;
use contract::text::{duration, named};
use contract::work::NetworkRight;
use contract::{Budgets, printable as safe};
use std::time::Duration;

/// What a run may use up where norma counts it and nobody says anything: it stops what runs away, and norma asks before it
/// goes on.
const TOKENS_MAX: u64 = 5_000_000;

/// The budgets that count: those that were typed, and a limit where norma counts and there is none.
pub(super) fn budgets_of(typed: &[String], configured: &Budgets, agent: &Surveyed) -> Vec<String> {
    let mut budgets = typed.to_vec();
    let names = ["max_tokens", "max_cost_usd"];
    let is_typed = typed.iter().any(|text| names.iter().any(|name| text.starts_with(name)));
    let is_configured = configured.max_tokens.is_some() || configured.max_cost_usd.is_some();
    let counts = matches!(agent.reach, Reach::Key(_) | Reach::Address(_));
    if counts && !is_typed && !is_configured {
        budgets.push(format!("max_tokens={TOKENS_MAX}"));
    }
    budgets
}

/// What a contract is shown as.
pub(super) fn preview(planned: &Planned<'_>, checked: &Checked, next: String) -> ContractPreview {
    let Planned { preview, agent, .. } = planned;
    let Checked { item, wide, notes } = checked;
    let worker = planned.settings.config.agent(&agent.name);
    let role = resolve_role_of_item(item, planned.settings.policies.agent_registry(), worker.as_ref());
    let model = worker.and_then(|agent| agent.model);
    ContractPreview {
        contract: planned.document.as_object().cloned().unwrap_or_default(),
        base: PreviewBase {
            commit: preview.head.commit.to_string(),
            branch: preview.head.branch.clone(),
            uncommitted: preview.uncommitted().map_or(0, |dirty| dirty.len() as u64),
        },
        agent: PreviewAgent { name: agent.name.clone(), model, reach: reached(agent) },
        may_write: may_write(planned, checked),
        tests: item.tests.iter().map(|test| test.argv.join(" ")).collect(),
        network: network(planned, checked),
        time: time(planned, checked),
        money: money(planned),
        needs_approval: wide.clone(),
        notes: notes.clone(),
        next,
        role_contract_summary: role.map(RoleContractSummary::from),
    }
}

/// How an agent reaches its model, for people.
fn reached(agent: &Surveyed) -> String {
    match &agent.reach {
        Reach::Key(variable) => format!("key in {variable}, which it never sees"),
        Reach::Address(url) => format!("model at {}", safe(url)),
        Reach::SignIn => "signed in".to_owned(),
        Reach::Own => "your own program".to_owned(),
        Reach::Not(what_to_do) => what_to_do.clone(),
    }
}

fn may_write(planned: &Planned<'_>, checked: &Checked) -> String {
    let most = checked.item.constraints.max_files.unwrap_or_default();
    let because = if planned.because.is_empty() { String::new() } else { format!(" ({})", planned.because) };
    match checked.item.scope.allowed_paths.as_slice() {
        [] => format!("at most {most} files, anything but protected paths{because}"),
        paths => format!("{}{because}", safe(&named(paths.iter().map(ToString::to_string)))),
    }
}

fn network(planned: &Planned<'_>, checked: &Checked) -> String {
    let Planned { agent, settings, .. } = planned;
    let own = settings.config.agent(&agent.name).map(|agent| agent.network).unwrap_or_default();
    let model = match agent.reach {
        Reach::Own if own.is_empty() => "none".to_owned(),
        Reach::Own => safe(&named(own.into_iter())),
        _ => "none but the agent's model".to_owned(),
    };
    match checked.item.rights.network {
        NetworkRight::Deny => model,
        _ => format!("{model}, and what is configured for the agent"),
    }
}

fn time(planned: &Planned<'_>, checked: &Checked) -> String {
    let limit = duration(Duration::from_millis(checked.item.timeout_ms));
    let whole = planned.settings.config.budgets.max_minutes.map(|minutes| format!(", {minutes} min in all"));
    format!("at most {limit} for the agent and for each test{}", whole.unwrap_or_default())
}

fn money(planned: &Planned<'_>) -> String {
    let Budgets { max_tokens, max_cost_usd, .. } = &planned.settings.config.budgets;
    match (max_cost_usd, max_tokens, &planned.agent.reach) {
        (Some(cost), _, _) => format!("at most ${cost}, then norma asks"),
        (None, Some(tokens), _) => format!("at most {} tokens, then norma asks", grouped(*tokens)),
        (None, None, Reach::SignIn) => {
            "what your own plan allows; norma sets no limit (--budget max_tokens=N)".to_owned()
        }
        (None, None, Reach::Own) => "not counted: your own program".to_owned(),
        (None, None, _) => "no limit (--budget max_tokens=N)".to_owned(),
    }
}

/// `5,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let grouped = digits.as_bytes().rchunks(3).rev().map(|chunk| String::from_utf8_lossy(chunk).into_owned());
    grouped.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_groups() {
        let shown: Vec<String> = [7, 1000, 5_000_000].map(grouped).into();
        assert_eq!(shown, ["7", "1,000", "5,000,000"]);
    }
}
