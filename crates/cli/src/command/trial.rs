//! `norma sandbox run --workspace`: what would this program change, and would that be allowed?

use super::sandbox::{ended, own_streams, tell};
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{err, safe};
use contract::RepoPath;
use run::gate::shown;
use runner::{Trial, Tried};
use sandbox::End;
use serde_json::json;
use std::process::ExitCode;

/// How many names of changed files are shown to people.
const NAMES_MAX: usize = 20;

pub(super) fn run(here: &Surroundings, net: &[String], allow: &[String], argv: &[String]) -> Outcome<ExitCode> {
    let context = here.context()?;
    let sandbox = contract::SandboxConfig::default();
    runner::check_sandbox(&sandbox, here.mode, &context.sandbox)?;
    let policies = runner::load_policies(&context.layout)?;
    let command = sandbox::Command { program: argv[0].clone(), args: argv[1..].to_vec() };
    let allowed_paths = allow.iter().map(|path| allowed(path)).collect::<Outcome<_>>()?;
    let trial = Trial { command: &command, cwd: &here.cwd, network: net, allowed_paths, policies: &policies };
    let tried = trial.run(&context, own_streams()?)?;
    tell(&tried.report);
    report(here, &tried);
    let refused = !tried.findings.is_empty() && tried.report.end == End::Exited(0);
    Ok(if refused { ExitCode::from(code::FAILED) } else { ended(&tried.report) })
}

fn allowed(path: &str) -> Outcome<RepoPath> {
    contract::policy::allowed_path(path)
        .map_err(|problem| CommandError::usage(format!("--allow {path:?}: {problem}"), "name a file or directory"))
}

/// For programs one line on stdout, after what the program wrote there; for people some on stderr.
fn report(here: &Surroundings, tried: &Tried) {
    let captured = &tried.captured;
    let names: Vec<String> = captured.changes.iter().map(|change| shown(&change.path)).collect();
    let ignored = captured.ignored.len() as u64 + captured.ignored_more;
    if here.json {
        let places: Vec<String> = captured.ignored_at.iter().map(|path| shown(path)).collect();
        let value = json!({
            "changed": names, "tree": captured.tree.to_string(), "ignored_files": ignored, "ignored_at": places,
            "findings": tried.findings, "verdict": if tried.findings.is_empty() { "pass" } else { "fail" },
        });
        return crate::text::out(&value.to_string());
    }
    err(&format!("norma: {} file(s) changed, {ignored} ignored file(s) left; all of it is discarded", names.len()));
    for name in names.iter().take(NAMES_MAX) {
        err(&format!("  {}", safe(name)));
    }
    if names.len() > NAMES_MAX {
        err(&format!("  and {} more", names.len() - NAMES_MAX));
    }
    for finding in &tried.findings {
        err(&format!("norma: would be refused: {}", safe(&finding.to_string())));
    }
}
