//! The whole change of a run, as git is told of it: by whom, in which words, and how its tree differs from its base.

use crate::Result;
use crate::git::{GIT_TEXT_BYTES_MAX, Identity, Objects, TEXT_BYTES_MAX, id};
use contract::RULES_LARGE_FILES;
use run::Run;
use run::gate::shown;

/// Who its commits are by.
pub(crate) fn identity(run: &Run) -> Identity {
    let author = &run.started.author;
    Identity { name: author.name.clone(), email: author.email.clone() }
}

/// What the one commit of a run says.
pub(crate) fn commit_message(run: &Run) -> String {
    let goal = run.started.contract.goal.trim();
    let (subject, rest) = goal.split_once('\n').unwrap_or((goal, ""));
    let body = if rest.trim().is_empty() { String::new() } else { format!("{}\n\n", rest.trim()) };
    let digest = run.contract_digest();
    let receipts: String = run.receipts().iter().map(|receipt| format!("Norma-Receipt: sha256:{receipt}\n")).collect();
    format!("{subject}\n\n{body}Norma-Run: {}\n{receipts}Norma-Contract: {digest}\n", run.id.slug())
}

/// The whole change of a run so far, as text and as names.
pub(crate) fn diff(objects: &Objects, run: &Run) -> Result<(Vec<u8>, Vec<u8>)> {
    let (old, new) = (id(run.ground().tree), id(run.tree()));
    if old == new {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut names = Vec::new();
    for change in objects.diff(old, new)? {
        names.extend_from_slice(shown(&change.path).as_bytes());
        names.push(b'\n');
    }
    Ok((objects.diff_text(old, new, text_bytes_max(run.started.contract.rules))?, names))
}

/// How large a file may be whose lines a patch shows.
pub(crate) fn text_bytes_max(rules: u32) -> u64 {
    if rules >= RULES_LARGE_FILES { TEXT_BYTES_MAX } else { GIT_TEXT_BYTES_MAX }
}
