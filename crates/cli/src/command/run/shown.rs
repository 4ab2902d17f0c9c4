//! A contract as a person reads it before it is started: what it starts from, and six lines.

use super::agent::reached;
use crate::command::contract::named;
use crate::text::{duration, safe, short_id, short_ref};
use contract::work::NetworkRight;
use contract::{Budgets, Item};
use runner::git::Head;
use runner::{Context, Reach, Settings, Surveyed};
use serde_json::{Value, json};
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

/// A contract, with what it is shown with.
pub(super) struct Shown<'a> {
    pub(super) context: &'a Context,
    pub(super) head: &'a Head,
    pub(super) settings: &'a Settings,
    pub(super) agent: &'a Surveyed,
    /// Where the proposed scope comes from; empty if it was typed.
    pub(super) because: &'a str,
    pub(super) item: &'a Item,
    pub(super) wide: &'a [String],
    pub(super) notes: &'a [String],
}

impl Shown<'_> {
    /// What it starts from, the six lines, and what else should be known.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let wide = self.wide.iter().map(|reason| format!("needs your approval: {}", safe(reason)));
        let notes = self.notes.iter().map(|note| format!("note: {}", safe(note)));
        let lines = [
            format!("base       {}", self.base()),
            format!("agent      {}", self.agent()),
            format!("may write  {}", self.may_write()),
            format!("tests      {}", self.tests()),
            format!("network    {}", self.network()),
            format!("time       {}", self.time()),
            format!("money      {}", self.money()),
        ];
        lines.into_iter().chain(wide).chain(notes).collect::<Vec<_>>().into_iter()
    }

    /// The same for programs.
    pub(super) fn json(&self, document: &Value) -> Value {
        json!({
            "contract": document,
            "base": {"commit": self.head.commit.to_string(), "branch": self.head.branch, "uncommitted": self.uncommitted()},
            "agent": {"name": self.agent.name, "model": self.model(), "reach": reached(self.agent)},
            "may_write": self.may_write(),
            "tests": self.item.tests.iter().map(|test| test.argv.join(" ")).collect::<Vec<_>>(),
            "network": self.network(),
            "time": self.time(),
            "money": self.money(),
            "needs_approval": self.wide,
            "notes": self.notes,
            "next": format!("the same with --yes{} runs it", if self.wide.is_empty() { "" } else { " --yes-wide" }),
        })
    }

    fn uncommitted(&self) -> usize {
        self.context.user.dirty().map_or(0, |dirty| dirty.len())
    }

    fn base(&self) -> String {
        let branch = self.head.branch.as_deref().map_or("HEAD", short_ref);
        let commit = format!("{} {}", safe(branch), short_id(self.head.commit.to_string()));
        match self.uncommitted() {
            0 => commit,
            1 => format!("{commit} · 1 uncommitted file stays as it is and is not part of the run"),
            count => format!("{commit} · {count} uncommitted files stay as they are and are not part of the run"),
        }
    }

    fn model(&self) -> Option<String> {
        self.settings.config.agent(&self.agent.name)?.model
    }

    fn agent(&self) -> String {
        let model = self.model().map(|model| format!(" · {}", safe(&model))).unwrap_or_default();
        format!("{}{model} ({})", safe(&self.agent.name), reached(self.agent))
    }

    fn may_write(&self) -> String {
        let most = self.item.constraints.max_files.unwrap_or_default();
        let because = if self.because.is_empty() { String::new() } else { format!(" ({})", self.because) };
        match self.item.scope.allowed_paths.as_slice() {
            [] => format!("at most {most} files, anything but protected paths{because}"),
            paths => format!("{}{because}", safe(&named(paths.iter().map(ToString::to_string)))),
        }
    }

    fn tests(&self) -> String {
        match self.item.tests.is_empty() {
            true => "none: nothing but scope and size judges the change".to_owned(),
            false => safe(&named(self.item.tests.iter().map(|test| test.argv.join(" ")))),
        }
    }

    fn network(&self) -> String {
        let own = self.settings.config.agent(&self.agent.name).map(|agent| agent.network).unwrap_or_default();
        let model = match self.agent.reach {
            Reach::Own if own.is_empty() => "none".to_owned(),
            Reach::Own => safe(&named(own.into_iter())),
            _ => "none but the agent's model".to_owned(),
        };
        match self.item.rights.network {
            NetworkRight::Deny => model,
            _ => format!("{model}, and what is configured for the agent"),
        }
    }

    fn time(&self) -> String {
        let limit = duration(Duration::from_millis(self.item.timeout_ms));
        let whole = self.settings.config.budgets.max_minutes.map(|minutes| format!(", {minutes} min in all"));
        format!("at most {limit} for the agent and for each test{}", whole.unwrap_or_default())
    }

    fn money(&self) -> String {
        let Budgets { max_tokens, max_cost_usd, .. } = &self.settings.config.budgets;
        match (max_cost_usd, max_tokens, &self.agent.reach) {
            (Some(cost), _, _) => format!("at most ${cost}, then norma asks"),
            (None, Some(tokens), _) => format!("at most {} tokens, then norma asks", grouped(*tokens)),
            (None, None, Reach::SignIn) => {
                "what your own plan allows; norma sets no limit (--budget max_tokens=N)".to_owned()
            }
            (None, None, Reach::Own) => "not counted: your own program".to_owned(),
            (None, None, _) => "no limit (--budget max_tokens=N)".to_owned(),
        }
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
