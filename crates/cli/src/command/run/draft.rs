//! A contract that is typed: from words, paths and commands on the command line to a work item that can be run, shown and
//! edited. Everything that can be found wrong without an agent is found here, before anything is started.

use super::Args;
use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use crate::text::safe;
use contract::nearest;
use contract::policy::{is_trivial, join, split};
use run::proposal::Facts;
use runner::{Preview, Settings};
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};

/// Most files that a typed contract without paths may change.
const TYPED_FILES_MAX: u64 = 50;

/// How long the agent of a typed contract may take.
const TYPED_MS: u64 = 60 * 60 * 1000;

/// One person's goal, not one of many small items: the limit is there to stop what runs away.
const TYPED_TOOL_OPS_MAX: u64 = 2000;

/// What a contract is typed from.
pub(super) struct Draft<'a> {
    pub(super) goal: &'a str,
    pub(super) criteria: &'a [String],
    pub(super) agent: &'a str,
    /// From the root of the repository; none is the whole tree.
    pub(super) allow: Vec<String>,
    pub(super) tests: Vec<String>,
}

impl Draft<'_> {
    /// The work item.
    pub(super) fn document(&self) -> Outcome<Value> {
        if !self.criteria.is_empty() && self.tests.is_empty() {
            return Err(unjudged());
        }
        let criteria: String = self.criteria.iter().map(|text| format!("\n- {text}")).collect();
        let description = match criteria.is_empty() {
            true => self.goal.to_owned(),
            false => format!("{}\n\nIt is done when:{criteria}", self.goal),
        };
        let mut item = json!({
            "id": "goal",
            "agent_id": self.agent,
            "description": description,
            "constraints": {"max_tool_ops": TYPED_TOOL_OPS_MAX, "timeout_ms": TYPED_MS},
        });
        match self.allow.is_empty() {
            true => item["constraints"]["max_files"] = TYPED_FILES_MAX.into(),
            false => item["allowed_paths"] = self.allow.clone().into(),
        }
        if !self.tests.is_empty() {
            item["test_commands"] = self.tests.clone().into();
        }
        Ok(item)
    }
}

/// What is said to criteria that nothing would judge.
pub(super) fn unjudged() -> CommandError {
    CommandError::usage(
        "--ac needs something that judges it: a contract without tests has nothing",
        "add --test COMMAND, or use the loop, whose check judges it: norma run --goal … --ac …",
    )
}

/// A path that may change.
pub(super) struct Allowed {
    /// From the root of the repository.
    pub(super) path: String,
    /// Whether it is not in the commit.
    pub(super) is_new: bool,
}

/// Paths of the command line, each held against the commit.
pub(super) fn allowed(here: &Surroundings, preview: &Preview<'_>, given: &[String]) -> Outcome<Vec<Allowed>> {
    given.iter().map(|text| allowed_path(here, preview, text)).collect()
}

fn allowed_path(here: &Surroundings, preview: &Preview<'_>, text: &str) -> Outcome<Allowed> {
    let shown = safe(text);
    let path = inside(&here.cwd, preview.root(), text).ok_or_else(|| {
        let message = format!("--allow {shown} is outside of the repository {}", preview.root().display());
        CommandError::usage(message, "name a path of the repository, from the directory you are in")
    })?;
    if path.is_empty() {
        let message = format!("--allow {shown} is the whole repository");
        return Err(CommandError::usage(message, "name files or directories of it, or leave --allow out"));
    }
    check_committed(preview, &path, &format!("--allow {shown}"))
}

/// A path of a contract, which need not be there if nothing like it is there either.
pub(super) fn check_committed(preview: &Preview<'_>, path: &str, named: &str) -> Outcome<Allowed> {
    let path = path.trim_end_matches('/').trim_start_matches('/');
    if preview.has(path)? {
        return Ok(Allowed { path: path.to_owned(), is_new: false });
    }
    let (mut parent, mut rest) = ("", path);
    loop {
        let (name, more) = rest.split_once('/').map_or((rest, None), |(name, more)| (name, Some(more)));
        let here = if parent.is_empty() { name } else { &path[..parent.len() + 1 + name.len()] };
        if !preview.has(here)? {
            let names = preview.names_in(parent)?;
            let meant = nearest(name, names.iter().map(String::as_str));
            return match (meant, more) {
                (None, None) => Ok(Allowed { path: path.to_owned(), is_new: true }),
                (Some(meant), _) => {
                    let meant = if parent.is_empty() { meant.to_owned() } else { format!("{parent}/{meant}") };
                    let whole = more.map(|more| format!("{meant}/{more}"));
                    let meant = match whole {
                        Some(whole) if preview.has(&whole)? => whole,
                        _ => meant,
                    };
                    let message = format!("{named} is not in the commit; did you mean {}?", safe(&meant));
                    Err(CommandError::usage(message, "a new file may have any name that is not nearly an old one"))
                }
                (None, Some(_)) => {
                    let message = format!("{named} is not in the commit, and neither is the directory {}", safe(here));
                    Err(CommandError::usage(message, format!("to allow new files in it: --allow {}", safe(here))))
                }
            };
        }
        let Some(more) = more else { return Ok(Allowed { path: path.to_owned(), is_new: false }) };
        (parent, rest) = (here, more);
    }
}

/// A path as the repository has it, if it lies in it.
fn inside(cwd: &Path, root: &Path, text: &str) -> Option<String> {
    let mut path = PathBuf::new();
    for part in cwd.join(text).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    // Somebody may have come by a link.
    let real = || path.parent()?.canonicalize().ok().map(|parent| parent.join(path.file_name().unwrap_or_default()));
    let inside = path.strip_prefix(root).ok().map(Path::to_owned);
    let inside = inside.or_else(|| real()?.strip_prefix(root).ok().map(Path::to_owned))?;
    inside.to_str().map(str::to_owned)
}

/// Test commands of the command line, each of which can be started and can fail.
pub(super) fn tests(
    here: &Surroundings,
    preview: &Preview<'_>,
    settings: &Settings,
    facts: &Facts,
    given: &[String],
) -> Outcome<Vec<String>> {
    let shown = preview.shown(&settings.config)?;
    let mut tests = Vec::new();
    for line in given {
        let words = split(line).map_err(|problem| {
            CommandError::usage(
                format!("--test {}: {problem}", safe(line)),
                "one command with its arguments, without a shell",
            )
        })?;
        let words = from_here(&here.cwd, preview, words)?;
        tests.push(startable(preview, settings, facts, &shown, words, line)?);
    }
    Ok(tests)
}

/// The words of a command with the paths that are meant from the current directory.
fn from_here(cwd: &Path, preview: &Preview<'_>, words: Vec<String>) -> Outcome<Vec<String>> {
    if cwd == preview.root() {
        return Ok(words);
    }
    let mut found = Vec::new();
    for (index, word) in words.into_iter().enumerate() {
        let is_path = if index == 0 { word.contains('/') } else { !word.starts_with('-') };
        let path = inside(cwd, preview.root(), &word).filter(|path| is_path && !path.is_empty());
        let is_there = match &path {
            Some(path) => preview.has(path)? || preview.root().join(path).exists(),
            None => false,
        };
        found.push(path.filter(|_| is_there).unwrap_or(word));
    }
    Ok(found)
}

fn startable(
    preview: &Preview<'_>,
    settings: &Settings,
    facts: &Facts,
    shown: &[String],
    mut words: Vec<String>,
    line: &str,
) -> Outcome<String> {
    let named = safe(line);
    if is_trivial(&words) {
        let message = format!("--test {named} succeeds whatever was done");
        return Err(CommandError::usage(message, "name a command that can fail"));
    }
    // What a setup makes is not there yet.
    let by_setup = !settings.config.workspace.setup.is_empty() && words[0].contains('/');
    if by_setup || preview.test_program(shown, &words[0])?.is_some() {
        return Ok(join(&words));
    }
    let program = words[0].clone();
    let in_venv = [".venv", "venv"].map(|venv| format!("{venv}/bin/{program}"));
    if let Some(found) = in_venv.into_iter().find(|path| !program.contains('/') && shown_has(preview, shown, path)) {
        words[0] = found;
        return Ok(join(&words));
    }
    let there = preview.root().join(&program).exists();
    let hint = match program.contains('/') {
        true if there => "it is in your checkout, but the commit has no executable file there: git add it and commit, or set workspace.setup".to_owned(),
        true => "a path is meant from the repository's root, in the commit".to_owned(),
        false => {
            let known = facts.programs.iter().map(String::as_str);
            let meant = nearest(&program, known).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
            format!("{meant}it is neither on PATH nor in .venv/bin; install it, or set workspace.setup (norma help run)")
        }
    };
    Err(CommandError::usage(format!("--test {named}: {} was not found", safe(&program)), hint))
}

fn shown_has(preview: &Preview<'_>, shown: &[String], path: &str) -> bool {
    preview.test_program(shown, path).is_ok_and(|found| found.is_some())
}

/// What was typed on the command line, with nothing proposed.
pub(super) fn typed<'a>(
    args: &'a Args,
    here: &Surroundings,
    preview: &Preview<'_>,
    settings: &Settings,
    (goal, agent): (&'a str, &'a str),
) -> Outcome<(Draft<'a>, Vec<String>)> {
    let (facts, _) = preview.facts()?;
    let allowed = allowed(here, preview, &args.allow)?;
    let tests = tests(here, preview, settings, &facts, &args.test)?;
    let notes =
        allowed.iter().filter(|it| it.is_new).map(|it| format!("{} is new: the commit has no such file", it.path));
    let notes = notes.collect();
    let allow = allowed.into_iter().map(|it| it.path).collect();
    Ok((Draft { goal, criteria: &args.ac, agent, allow, tests }, notes))
}
