//! `norma hooks`: the repository's own hooks, which hold what people commit and push to the active contract.

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{err, safe};
use clap::{Subcommand, ValueEnum};
use runner::git::Repository;
use runner::hooks::{self, Installed, Judged, Pushed, Subject};
use std::io::Read;
use std::process::ExitCode;
use store::Layout;

/// What git tells a pre-push hook has a line a ref; nobody pushes this many.
const STDIN_BYTES_MAX: u64 = 16 << 20;

/// How many findings are shown to people; `--json` has them all.
const FINDINGS_MAX: usize = 20;

/// Check your own commits and pushes against the active contract
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma hooks install\n  norma hooks install --mode advisory\n  norma hooks status\n  norma hooks uninstall"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install pre-commit and pre-push hooks; existing hooks are kept and run first
    Install {
        /// Refuse what is outside the contract, or only warn
        #[arg(long, value_enum, default_value = "enforce")]
        mode: Mode,
    },
    /// Remove them, and restore what was there before
    Uninstall,
    /// Show what is installed
    Status,
    /// What the installed hooks call
    #[command(hide = true)]
    Run {
        /// Which hook
        #[arg(value_enum)]
        hook: Hook,
        /// Refuse what is outside the contract, or only warn
        #[arg(long, value_enum, default_value = "enforce")]
        mode: Mode,
        /// What git passes to the hook
        #[arg(last = true)]
        args: Vec<String>,
    },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mode {
    Enforce,
    Advisory,
}

#[derive(Clone, Copy, ValueEnum)]
enum Hook {
    PreCommit,
    PrePush,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let mode_of = |mode| match mode {
            Mode::Enforce => hooks::Mode::Enforce,
            Mode::Advisory => hooks::Mode::Advisory,
        };
        match self.verb {
            Verb::Install { mode } => {
                let user = here.repository()?;
                let installed = hooks::install(&user, &here.exe, mode_of(mode))?;
                Ok(show(here, &user, &installed))
            }
            Verb::Uninstall => {
                let user = here.repository()?;
                let left = hooks::uninstall(&user)?;
                Ok(show(here, &user, &left))
            }
            Verb::Status => {
                let user = here.repository()?;
                Ok(show(here, &user, &hooks::status(&user)?))
            }
            Verb::Run { hook, mode: Mode::Enforce, args } if has_contract(here)? => enforce(here, hook, args),
            // Nothing was decided yet that a commit could be held to.
            Verb::Run { mode: Mode::Enforce, .. } => Ok(not_yet(here)),
            Verb::Run { hook, mode: Mode::Advisory, args } => Ok(advise(here, hook, args)),
        }
    }
}

fn show(here: &Surroundings, user: &Repository, installed: &[Installed]) -> ExitCode {
    let layout = hooks::layout_for(user, here.layout_of(user));
    let contract = layout.active_contract().is_file();
    let missed = !contract && layout.active_contract().parent().is_some_and(|dir| dir.exists());
    let value = serde_json::json!({"hooks": installed, "active_contract": contract});
    here.print(&value, || {
        let mut lines: Vec<String> = installed.iter().map(|hook| describe(&layout, hook)).collect();
        let refuses = installed.iter().any(|hook| hook.mode == Some(hooks::Mode::Enforce));
        match contract {
            false if refuses && missed => lines
                .push("the active contract is gone, so they refuse everything: norma contract activate FILE".into()),
            false if refuses => lines
                .push("no contract is active, so nothing is refused until one is: norma contract activate FILE".into()),
            _ if installed.iter().all(|hook| hook.mode.is_none()) => lines.push("next: norma hooks install".into()),
            _ => {}
        }
        lines.join("\n")
    })
}

fn describe(layout: &Layout, hook: &Installed) -> String {
    let shown = |path: &std::path::Path| safe(&layout.shown(path));
    let mode = hook.mode.map_or("not installed", hooks::Mode::as_str);
    let mut line = format!("{:<10}  {mode}", hook.hook.name());
    match (&hook.before, hook.mode) {
        (Some(before), Some(_)) => line.push_str(&format!("; runs {} first", shown(before))),
        (Some(before), None) => line.push_str(&format!("; an earlier hook is kept at {}", shown(before))),
        (None, _) => {}
    }
    line
}

/// Whether a contract was ever activated, and not cleared since. One that is gone without that is missed, and refused.
fn has_contract(here: &Surroundings) -> Outcome<bool> {
    let user = judged_repository(here)?;
    let active = hooks::layout_for(&user, here.layout_of(&user)).active_contract();
    let dir = active.parent().unwrap_or(&active);
    Ok(!matches!(dir.symlink_metadata(), Err(why) if why.kind() == std::io::ErrorKind::NotFound))
}

fn not_yet(here: &Surroundings) -> ExitCode {
    if !here.json {
        err("norma: no contract is active, so nothing is checked; set one: norma contract activate FILE");
    }
    ExitCode::SUCCESS
}

/// Refuses what is outside the contract, and what cannot be judged.
fn enforce(here: &Surroundings, hook: Hook, args: Vec<String>) -> Outcome<ExitCode> {
    let judged = judge(here, hook, args)?;
    if here.json {
        here.print(&judged, String::new);
    }
    if judged.findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if here.json {
        return Ok(ExitCode::from(code::FAILED));
    }
    Err(CommandError::new(
        code::FAILED,
        format!("refused: outside the active contract {}{}", safe(&judged.task_id), listed(&judged)),
        "leave it out, or activate a contract that allows it: norma contract activate FILE (norma help hooks)",
    ))
}

/// Tells the same and keeps nobody from working.
fn advise(here: &Surroundings, hook: Hook, args: Vec<String>) -> ExitCode {
    match judge(here, hook, args) {
        Ok(judged) if here.json => drop(here.print(&judged, String::new)),
        Ok(judged) if judged.findings.is_empty() => {}
        Ok(judged) => {
            let task = safe(&judged.task_id);
            err(&format!("warning: outside the active contract {task}{}", listed(&judged)));
        }
        Err(error) => drop(error.report(here.json)),
    }
    ExitCode::SUCCESS
}

fn listed(judged: &Judged) -> String {
    let line = |refusal: &hooks::Refusal| {
        let rule = serde_json::to_value(refusal.finding.rule).expect("BUG: a rule is plain data");
        let rule = rule.as_str().unwrap_or_default().to_owned();
        format!("\n  {}: {rule}: {}", safe(&refusal.subject), safe(&refusal.finding.to_string()))
    };
    let mut lines: Vec<String> = judged.findings.iter().take(FINDINGS_MAX).map(line).collect();
    if judged.findings.len() > FINDINGS_MAX {
        lines.push(format!("\n  and {} more", judged.findings.len() - FINDINGS_MAX));
    }
    lines.concat()
}

/// The repository that git works on.
fn judged_repository(here: &Surroundings) -> Outcome<Repository> {
    let user = here.repository()?;
    // git may have been told to work on another repository than the one around this directory.
    if here.hook.git_dir.as_ref().is_some_and(|dir| dir.canonicalize().ok().as_ref() != Some(&user.git_dir)) {
        let message =
            format!("git works on another repository than {}, so nothing can be checked", user.root.display());
        return Err(CommandError::new(code::ENVIRONMENT, message, "unset GIT_DIR, or work without --git-dir"));
    }
    Ok(user)
}

fn judge(here: &Surroundings, hook: Hook, args: Vec<String>) -> Outcome<Judged> {
    let user = judged_repository(here)?;
    let layout = hooks::layout_for(&user, here.layout_of(&user));
    let subject = match hook {
        Hook::PreCommit => Subject::Commit { index: here.hook.index.clone().unwrap_or_else(|| user.index()) },
        Hook::PrePush => {
            let remote = args.into_iter().next().unwrap_or_default();
            Subject::Push { remote, refs: Pushed::parse(&told_by_git()?)? }
        }
    };
    Ok(hooks::judge(&user, &layout, &here.trust_of(&layout), &subject)?)
}

fn told_by_git() -> Outcome<String> {
    let mut text = String::new();
    let unreadable =
        |why: String| CommandError::usage(format!("could not read the refs from git: {why}"), "push fewer refs");
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX).read_to_string(&mut text);
    match read {
        // What was cut off would not be judged.
        Ok(bytes) if bytes as u64 == STDIN_BYTES_MAX => Err(unreadable("too many refs".into())),
        Ok(_) => Ok(text),
        Err(error) => Err(unreadable(error.to_string())),
    }
}
