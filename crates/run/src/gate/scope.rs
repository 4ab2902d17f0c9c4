//! The scope gate: may this difference between two trees become the run's tree? It reads what norma itself
//! observed, tree entries and what else lies in the workspace, never the text of a patch or an agent's list of
//! changes. Renames are not detected, so both sides of a move count.
//!
//! What is refused does not depend on spelling: lists that protect compare folded names, lists that allow compare
//! exact bytes, component by component.

use super::secret::{self, AddedSecret};
use super::{Finding, Rule};
use contract::RepoPath;
use contract::path::{PathProblem, fold, lies_within};
use contract::policy::{FoldedPath, ProtectedPaths, ScratchPaths};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

const MODE_SYMLINK: u32 = 0o120_000;
const MODE_GITLINK: u32 = 0o160_000;
const MODES_PLAIN: [u32; 2] = [0o100_644, 0o100_755];

/// Most allowed paths that a message lists.
const LISTED_MAX: usize = 5;

/// Everything that was observed of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// Paths that differ between the two trees.
    pub changes: Vec<ChangedPath>,
    /// Files that the baseline's and the candidate's rules ignore: no part of the change.
    pub ignored: Vec<IgnoredPath>,
    /// Whether such a file outside the scope is a finding. It was one before left-out files were recorded, and a run of
    /// that time is judged as it was then.
    pub denies_ignored_outside: bool,
    /// Things that no tree can hold.
    pub odd: Vec<OddPath>,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedPath {
    /// Exact bytes of the name.
    pub path: Vec<u8>,
    /// Mode before; none if it was not there.
    pub old_mode: Option<u32>,
    /// Mode after; none if it is gone.
    pub new_mode: Option<u32>,
    /// Whether the content after looks binary.
    pub binary: bool,
    /// What looks like a secret in the content after and was not there before.
    pub secrets: Vec<AddedSecret>,
}

/// One ignored file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredPath {
    /// Exact bytes of the name.
    pub path: Vec<u8>,
}

/// One thing that no tree can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddPath {
    /// Exact bytes of the name.
    pub path: Vec<u8>,
    /// What it is.
    pub what: Odd,
}

/// What kind of thing no tree can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Odd {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A directory with a repository of its own.
    NestedRepository,
    /// A directory deeper than anything is looked at.
    TooDeep,
    /// A file larger than anything is looked at.
    TooLarge,
    /// Something that could not be looked at.
    Unreadable,
    /// Anything else.
    Other,
}

impl Odd {
    fn finding(self) -> (Rule, &'static str) {
        match self {
            Odd::Fifo => (Rule::SpecialFile, "named pipes are refused"),
            Odd::Socket => (Rule::SpecialFile, "sockets are refused"),
            Odd::Device => (Rule::SpecialFile, "devices are refused"),
            Odd::NestedRepository => (Rule::NestedRepository, "a repository inside the repository is refused"),
            Odd::TooDeep => (Rule::TooDeep, "it is deeper than norma looks"),
            Odd::TooLarge => (Rule::TooLarge, "it is larger than norma reads"),
            Odd::Unreadable => (Rule::Unreadable, "it could not be read"),
            Odd::Other => (Rule::SpecialFile, "it is neither a file nor a directory"),
        }
    }
}

/// What a change may touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Files and directories; the whole tree if there are none.
    pub allowed_paths: Vec<RepoPath>,
    /// Where anything may lie that no tree holds.
    pub scratch_paths: Arc<ScratchPaths>,
    /// Whether files may have binary content.
    pub allow_binary: bool,
    /// What the user's git configuration names.
    pub named_by_git: Vec<RepoPath>,
}

impl Scope {
    /// The scope of a contract, with the scratch paths of the policy it is bound to.
    pub fn new(contract: &contract::Scope, scratch_paths: Arc<ScratchPaths>) -> Scope {
        Scope {
            allowed_paths: contract.allowed_paths.clone(),
            scratch_paths,
            allow_binary: contract.allow_binary,
            named_by_git: contract.named_by_git.clone(),
        }
    }

    fn allows(&self, path: &RepoPath) -> bool {
        self.allowed_paths.is_empty() || self.allowed_paths.iter().any(|allowed| path.is_within(allowed))
    }
}

/// Judges what was observed; no finding means that it may be. `state_dir` is norma's own directory, where it lies
/// in the repository.
pub fn judge(
    observed: &Observed,
    scope: &Scope,
    protected: &ProtectedPaths,
    state_dir: Option<&RepoPath>,
) -> Vec<Finding> {
    let judge = Judge { scope, protected, state_dir };
    let changes = observed.changes.iter().flat_map(|change| judge.change(change));
    let denied = observed.denies_ignored_outside;
    let ignored = observed.ignored.iter().flat_map(|ignored| judge.ignored(&ignored.path, denied));
    let odd = observed.odd.iter().flat_map(|odd| judge.odd(odd));
    changes.chain(case_twins(&observed.changes)).chain(ignored).chain(odd).collect()
}

struct Judge<'a> {
    scope: &'a Scope,
    protected: &'a ProtectedPaths,
    state_dir: Option<&'a RepoPath>,
}

impl Judge<'_> {
    fn change(&self, change: &ChangedPath) -> Vec<Finding> {
        let mut findings = match RepoPath::parse_bytes(&change.path) {
            Ok(path) if path.as_str().as_bytes() == change.path => self.path(&path),
            Ok(path) => vec![Finding::at(Rule::OddName, &change.path, format!("it is another spelling of {path}"))],
            Err(problem) => vec![name_finding(&change.path, &problem)],
        };
        findings.extend(mode_finding(change));
        if change.binary && !self.scope.allow_binary {
            let message = "binary content is refused; a contract can allow it (scope.allow_binary)";
            findings.push(Finding::at(Rule::Binary, &change.path, message));
        }
        findings.extend(secret::findings(&change.path, &change.secrets));
        findings
    }

    /// Where a path lies, and what it is called.
    fn path(&self, path: &RepoPath) -> Vec<Finding> {
        let at = |rule, message: String| Finding::at(rule, path.as_str().as_bytes(), message);
        if self.is_state(path) {
            return vec![at(Rule::StateDirectory, "the state directory is not for agents".to_owned())];
        }
        let mut findings = Vec::new();
        if let Some(name) = path.components().find(|name| is_short_name(name)) {
            findings.push(at(Rule::OddName, format!("Windows can take {name:?} for the short name of another file")));
        }
        if !self.scope.allows(path) {
            findings.push(at(Rule::OutsideScope, format!("it is outside the allowed paths ({})", self.listed())));
        }
        findings.extend(self.protection(path));
        findings
    }

    fn is_state(&self, path: &RepoPath) -> bool {
        self.state_dir.is_some_and(|dir| lies_within(path, dir))
    }

    /// What protects a path, where the contract does not name it.
    fn protection(&self, path: &RepoPath) -> Vec<Finding> {
        let folded = FoldedPath::new(path);
        let binding = self.protected.covering(&folded);
        let binding = binding.filter(|rule| !rule.is_allowed(path, &self.scope.allowed_paths));
        let finding = |rule: &contract::policy::Protection| {
            let way = if rule.contractable { "; a contract can name it in allowed_paths" } else { "" };
            Finding::at(Rule::ProtectedPath, path.as_str().as_bytes(), format!("protected: it {}{way}", rule.reason))
        };
        binding.map(finding).chain(self.named_by_git(path)).collect()
    }

    /// What the user's own git would run, or take settings from, is changed only by a contract that names it.
    fn named_by_git(&self, path: &RepoPath) -> Option<Finding> {
        let covers = |named: &&RepoPath| {
            let names_it = |entry: &RepoPath| path.is_within(entry) && lies_within(entry, named);
            lies_within(path, named) && !self.scope.allowed_paths.iter().any(names_it)
        };
        self.scope.named_by_git.iter().find(covers)?;
        let message = "protected: your git configuration names it, so git would run it; a contract can name it in \
                       allowed_paths";
        Some(Finding::at(Rule::ProtectedPath, path.as_str().as_bytes(), message))
    }

    /// Ignored files never land, so only a protected one is a finding: it would be missed, or was meant to be. Below a
    /// scratch directory anything may lie, whatever it is called: packages bring their own configuration files. What
    /// counts there is where the scratch directory itself lies.
    fn ignored(&self, path: &[u8], denied_outside: bool) -> Vec<Finding> {
        let scratch = self.scope.scratch_paths.directory_of(path);
        let in_scratch = scratch.is_some();
        let judged = match scratch.map_or_else(|| RepoPath::parse_bytes(path), Ok) {
            Ok(judged) => judged,
            Err(problem) => return vec![name_finding(path, &problem)],
        };
        if self.is_state(&judged) {
            return vec![Finding::at(Rule::StateDirectory, path, "the state directory is not for agents")];
        }
        let mut findings = self.protection(&judged);
        if denied_outside && !in_scratch && !self.scope.allows(&judged) {
            let message = format!(
                "an ignored file outside the allowed paths ({}) and the scratch paths (policies/scratch_paths.json)",
                self.listed()
            );
            findings.push(Finding::at(Rule::IgnoredOutside, path, message));
        }
        findings
    }

    /// No tree can hold it, so it cannot land; below a scratch directory nobody would miss it.
    fn odd(&self, odd: &OddPath) -> Vec<Finding> {
        let (rule, message) = odd.what.finding();
        let place = odd.path.strip_suffix(b"/.git").unwrap_or(&odd.path);
        let harmless = self.scope.scratch_paths.directory_of(place).is_some_and(|directory| {
            !self.is_state(&directory) && self.protection(&directory).is_empty() && odd.what != Odd::Device
        });
        if harmless { Vec::new() } else { vec![Finding::at(rule, &odd.path, message)] }
    }

    fn listed(&self) -> String {
        let mut names: Vec<&str> = self.scope.allowed_paths.iter().take(LISTED_MAX).map(RepoPath::as_str).collect();
        if self.scope.allowed_paths.len() > LISTED_MAX {
            names.push("…");
        }
        names.join(", ")
    }
}

/// A name that no path in a repository may have.
fn name_finding(path: &[u8], problem: &PathProblem) -> Finding {
    let rule = match problem {
        PathProblem::GitDirectory(_) => Rule::ProtectedPath,
        _ => Rule::OddName,
    };
    Finding::at(rule, path, problem.to_string())
}

/// Names of the form that Windows gives a file besides its own (`GITMOD~1`): through them another file could be
/// meant there than is shown here.
fn is_short_name(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let Some((before, digits)) = stem.rsplit_once('~') else { return false };
    let short = !before.is_empty() && stem.len() <= 8 && extension.len() <= 3 && !extension.contains('.');
    short && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn mode_finding(change: &ChangedPath) -> Option<Finding> {
    let modes = [change.old_mode, change.new_mode];
    if modes.contains(&Some(MODE_SYMLINK)) {
        return Some(Finding::at(Rule::Symlink, &change.path, "symbolic links are refused"));
    }
    if modes.contains(&Some(MODE_GITLINK)) {
        return Some(Finding::at(Rule::Submodule, &change.path, "submodules are refused"));
    }
    let odd = modes.into_iter().flatten().find(|mode| !MODES_PLAIN.contains(mode))?;
    Some(Finding::at(Rule::Mode, &change.path, format!("file mode {odd:o} is refused")))
}

/// Names of the change, and of directories on the way to them, that some file system takes for one another.
fn case_twins(changes: &[ChangedPath]) -> Vec<Finding> {
    let mut spellings: BTreeMap<String, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for change in changes {
        let Ok(text) = std::str::from_utf8(&change.path) else { continue };
        let ends = text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
        let twin = ends.map(|end| &text[..end]).find_map(|name| {
            let first = *spellings.entry(fold(name)).or_insert(name);
            (first != name).then_some((name, first))
        });
        if let Some((name, first)) = twin {
            let message = format!("{name:?} and {first:?} are one name where case or Unicode form does not count");
            findings.push(Finding::at(Rule::CaseTwin, &change.path, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
