//! A contract as a person reads it at the terminal before it is started: what it starts from, and six lines.

use crate::text::{named, safe, short_id, short_ref};
use contract::api::ContractPreview;

/// What it starts from, the six lines, and what else should be known.
pub(super) fn lines(shown: &ContractPreview) -> Vec<String> {
    let wide = shown.needs_approval.iter().map(|reason| format!("needs your approval: {}", safe(reason)));
    let notes = shown.notes.iter().map(|note| format!("note: {}", safe(note)));
    let lines = [
        format!("base       {}", base(shown)),
        format!("agent      {}", agent(shown)),
        format!("may write  {}", shown.may_write),
        format!("tests      {}", tests(shown)),
        format!("network    {}", shown.network),
        format!("time       {}", shown.time),
        format!("money      {}", shown.money),
    ];
    lines.into_iter().chain(wide).chain(notes).collect()
}

fn base(shown: &ContractPreview) -> String {
    let branch = shown.base.branch.as_deref().map_or("HEAD", short_ref);
    let commit = format!("{} {}", safe(branch), short_id(&shown.base.commit));
    match shown.base.uncommitted {
        0 => commit,
        1 => format!("{commit} · 1 uncommitted file stays as it is and is not part of the run"),
        count => format!("{commit} · {count} uncommitted files stay as they are and are not part of the run"),
    }
}

fn agent(shown: &ContractPreview) -> String {
    let model = shown.agent.model.as_ref().map(|model| format!(" · {}", safe(model))).unwrap_or_default();
    format!("{}{model} ({})", safe(&shown.agent.name), shown.agent.reach)
}

fn tests(shown: &ContractPreview) -> String {
    match shown.tests.is_empty() {
        true => "none: nothing but scope and size judges the change".to_owned(),
        false => safe(&named(shown.tests.iter().cloned())),
    }
}
