//! A contract that is typed: from words, paths and commands to a work item that can be run, shown and edited. Everything
//! that can be found wrong without an agent is found here, before anything is started.

use super::{Part, Planning, Unplanned};
use crate::{Error, Preview, Result, Settings};
use contract::nearest;
use contract::policy::{is_trivial, join, split};
use contract::printable as safe;
use run::proposal::Facts;
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};

/// Most files that a typed contract without paths may change.
const TYPED_FILES_MAX: u64 = 50;

/// How long the agent of a typed contract may take.
const TYPED_MS: u64 = 60 * 60 * 1000;

/// One person's goal, not one of many small items: the limit is there to stop what runs away.
const TYPED_TOOL_OPS_MAX: u64 = 2000;

/// What was typed about a contract, as it was typed.
#[derive(Clone, Copy)]
pub struct Typing<'a> {
    /// Where paths are meant from.
    pub cwd: &'a Path,
    /// What may change.
    pub allow: &'a [String],
    /// Commands that must succeed.
    pub tests: &'a [String],
    /// What must hold when it is done.
    pub criteria: &'a [String],
}

/// What a contract is typed from.
pub struct Draft<'a> {
    pub(super) goal: &'a str,
    pub(super) criteria: &'a [String],
    pub(super) agent: &'a str,
    /// From the root of the repository; none is the whole tree.
    pub(super) allow: Vec<String>,
    pub(super) tests: Vec<String>,
}

impl Draft<'_> {
    /// The work item.
    pub fn document(&self) -> Result<Value> {
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
pub(super) fn unjudged() -> Error {
    Error::usage(
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

/// Paths that were typed, each held against the commit.
pub(super) fn allowed(preview: &Preview<'_>, typing: &Typing<'_>) -> Planning<Vec<Allowed>> {
    let given = (0..).zip(typing.allow);
    let path = |(at, text): (usize, &String)| {
        allowed_path(typing.cwd, preview, text).map_err(|error| Unplanned::At(Part::Allow(at), error))
    };
    given.map(path).collect()
}

fn allowed_path(cwd: &Path, preview: &Preview<'_>, text: &str) -> Result<Allowed> {
    let shown = safe(text);
    let path = inside(cwd, preview.root(), text).ok_or_else(|| {
        let message = format!("{shown} is outside of the repository {}", preview.root().display());
        Error::usage(message, "name a path of the repository, from the directory you are in")
    })?;
    if path.is_empty() {
        let message = format!("{shown} is the whole repository");
        return Err(Error::usage(message, "name files or directories of it, or leave --allow out"));
    }
    check_committed(preview, &path, &shown)
}

/// A path of a contract, which need not be there if nothing like it is there either.
pub(super) fn check_committed(preview: &Preview<'_>, path: &str, named: &str) -> Result<Allowed> {
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
                    Err(Error::usage(message, "a new file may have any name that is not nearly an old one"))
                }
                (None, Some(_)) => {
                    let message = format!("{named} is not in the commit, and neither is the directory {}", safe(here));
                    Err(Error::usage(message, format!("to allow new files in it: --allow {}", safe(here))))
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

/// Test commands that were typed, each of which can be started and can fail.
pub(super) fn tests(
    preview: &Preview<'_>,
    settings: &Settings,
    facts: &Facts,
    typing: &Typing<'_>,
) -> Planning<Vec<String>> {
    let shown = preview.shown(&settings.config)?;
    let test = |line: &String| {
        let words = split(line).map_err(|problem| {
            Error::usage(format!("{}: {problem}", safe(line)), "one command with its arguments, without a shell")
        })?;
        let words = from_here(typing.cwd, preview, words)?;
        startable(preview, settings, facts, &shown, words, line)
    };
    let given = (0..).zip(typing.tests);
    given.map(|(at, line)| test(line).map_err(|error| Unplanned::At(Part::Test(at), error))).collect()
}

/// The words of a command with the paths that are meant from the current directory.
fn from_here(cwd: &Path, preview: &Preview<'_>, words: Vec<String>) -> Result<Vec<String>> {
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
) -> Result<String> {
    let named = safe(line);
    if is_trivial(&words) {
        let message = format!("{named} succeeds whatever was done");
        return Err(Error::usage(message, "name a command that can fail"));
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
    Err(Error::usage(format!("{named}: {} was not found", safe(&program)), hint))
}

fn shown_has(preview: &Preview<'_>, shown: &[String], path: &str) -> bool {
    preview.test_program(shown, path).is_ok_and(|found| found.is_some())
}

impl<'a> Draft<'a> {
    /// What was typed, with nothing proposed, and what should be known about it.
    pub fn typed(
        preview: &Preview<'_>,
        settings: &Settings,
        typing: &Typing<'a>,
        (goal, agent): (&'a str, &'a str),
    ) -> Planning<(Draft<'a>, Vec<String>)> {
        let (facts, _) = preview.facts()?;
        let allowed = allowed(preview, typing)?;
        let tests = tests(preview, settings, &facts, typing)?;
        let notes =
            allowed.iter().filter(|it| it.is_new).map(|it| format!("{} is new: the commit has no such file", it.path));
        let notes = notes.collect();
        let allow = allowed.into_iter().map(|it| it.path).collect();
        Ok((Draft { goal, criteria: typing.criteria, agent, allow, tests }, notes))
    }
}
