//! The scope gate: may this difference between two trees become the run's tree? It reads what norma itself
//! observed, tree entries and what else lies in the workspace, never the text of a patch or an agent's list of
//! changes. Renames are not detected, so both sides of a move count.
//!
//! What is refused does not depend on spelling: lists that protect compare folded names, lists that allow compare
//! exact bytes, component by component.

use super::secret::{self, AddedSecret};
use super::{Finding, Rule};
use contract::path::{PathProblem, fold, lies_within};
use contract::policy::{FoldedPath, ProtectedPaths, ScratchPaths};
use contract::{RULES_MORE_TOKENS, RULES_RESULT, RepoPath};
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
    /// Whether that is no reason to refuse it: the tree before has the same bytes, or it is text in UTF-16.
    pub excused: bool,
    /// For a new name, another one in the tree after that some file system takes for the same.
    pub twin: Option<String>,
    /// For a symbolic link, the path that it leads to, if that is in the repository and no other link is on the way.
    pub leads_to: Option<String>,
    /// The first line added that is shown in another order than it is read, and the character that does it.
    pub reordered: Option<(u64, char)>,
    /// What looks like a secret in the content after and was not there before.
    pub secrets: Vec<AddedSecret>,
    /// The same by the forms that were known before [`contract::RULES_MORE_TOKENS`].
    pub older_secrets: Vec<AddedSecret>,
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
    /// One path more than may differ; the rest was not looked at.
    TooMany,
    /// Staged or committed in the agent's own repository, where no file stands for it.
    OnlyInGit,
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
            Odd::TooMany => (Rule::MaxFiles, "more paths differ than may, and from here on nothing was looked at"),
            Odd::OnlyInGit => (
                Rule::OnlyInGit,
                "it is in the agent's own git and in no file of its workspace, so it is no part of the change",
            ),
            Odd::Unreadable => (Rule::Unreadable, "it could not be read"),
            Odd::Other => (Rule::SpecialFile, "it is neither a file nor a directory"),
        }
    }
}

/// What a change may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Files and directories; the whole tree if there are none.
    pub allowed_paths: Vec<RepoPath>,
    /// What of them may not be changed all the same.
    pub denied_paths: Vec<RepoPath>,
    /// Where anything may lie that no tree holds.
    pub scratch_paths: Arc<ScratchPaths>,
    /// Whether files may have binary content.
    pub allow_binary: bool,
    /// What the user's git configuration names.
    pub named_by_git: Vec<RepoPath>,
    /// The version of the rules to judge by.
    pub rules: u32,
}

impl Scope {
    /// The scope of a contract, with the scratch paths of the policy and the version of the rules it is bound to.
    pub fn new(contract: &contract::Scope, scratch_paths: Arc<ScratchPaths>, rules: u32) -> Scope {
        let contract::Scope { allowed_paths, denied_paths, allow_binary, named_by_git } = contract.clone();
        Scope { allowed_paths, denied_paths, scratch_paths, allow_binary, named_by_git, rules }
    }

    /// Whether a change is judged by what it brings, and not by what was there before.
    fn judges_result(&self) -> bool {
        self.rules >= RULES_RESULT
    }

    /// Whether an entry is exactly this path.
    fn names(&self, path: &[u8]) -> bool {
        self.allowed_paths.iter().any(|allowed| allowed.as_str().as_bytes() == path)
    }

    fn allows(&self, path: &RepoPath) -> bool {
        let is_allowed =
            self.allowed_paths.is_empty() || self.allowed_paths.iter().any(|allowed| path.is_within(allowed));
        // What is refused is refused in every spelling.
        is_allowed && !self.denied_paths.iter().any(|denied| lies_within(path, denied))
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
    let twins = if scope.judges_result() { Vec::new() } else { case_twins(&observed.changes) };
    changes.chain(twins).chain(ignored).chain(odd).collect()
}

struct Judge<'a> {
    scope: &'a Scope,
    protected: &'a ProtectedPaths,
    state_dir: Option<&'a RepoPath>,
}

impl Judge<'_> {
    fn change(&self, change: &ChangedPath) -> Vec<Finding> {
        let mut findings = self.name(change);
        let result = self.scope.judges_result();
        findings.extend(if result { self.mode(change) } else { mode_finding(change) });
        if change.binary && !self.scope.allow_binary && !(result && change.excused) {
            let message = "binary content is refused; a contract can allow it (scope.allow_binary)";
            findings.push(Finding::at(Rule::Binary, &change.path, message));
        }
        if result || !change.binary {
            let newer = self.scope.rules >= RULES_MORE_TOKENS;
            let secrets = if newer { &change.secrets } else { &change.older_secrets };
            findings.extend(secret::findings(&change.path, secrets));
        }
        if result {
            findings.extend(change.twin.as_ref().map(|other| twin(&change.path, other)));
            findings.extend(change.reordered.map(|found| reordered(&change.path, found)));
        }
        findings
    }

    /// Whether a change may have this name. Of what the base has only where it lies counts: its name is not the
    /// change's doing.
    fn name(&self, change: &ChangedPath) -> Vec<Finding> {
        let known = self.scope.judges_result() && change.old_mode.is_some();
        let at = |message: String| vec![Finding::at(Rule::OddName, &change.path, message)];
        match RepoPath::parse_bytes(&change.path) {
            Ok(path) if path.as_str().as_bytes() == change.path => {
                let odd = path.components().find_map(odd_name).filter(|_| self.scope.judges_result() && !known);
                odd.map(at).into_iter().flatten().chain(self.path(&path, known)).collect()
            }
            Ok(path) => at(format!("it is another spelling of {path}")),
            Err(PathProblem::NotUtf8(_)) if known => self.unreadable_name(&change.path),
            Err(problem) => vec![name_finding(&change.path, &problem)],
        }
    }

    /// A name of the base that is not UTF-8. Lists compare it with what can be read of it.
    fn unreadable_name(&self, name: &[u8]) -> Vec<Finding> {
        let path = match RepoPath::parse(&String::from_utf8_lossy(name)) {
            Ok(path) => path,
            Err(problem) => return vec![name_finding(name, &problem)],
        };
        let mut findings = self.path(&path, true);
        findings.iter_mut().for_each(|finding| *finding = Finding::at(finding.rule, name, finding.message.clone()));
        findings
    }

    /// Where a path lies, and what it is called.
    fn path(&self, path: &RepoPath, known: bool) -> Vec<Finding> {
        let at = |rule, message: String| Finding::at(rule, path.as_str().as_bytes(), message);
        if self.is_state(path) {
            return vec![at(Rule::StateDirectory, "the state directory is not for agents".to_owned())];
        }
        let mut findings = Vec::new();
        if let Some(name) = path.components().find(|name| !known && is_short_name(name)) {
            findings.push(at(Rule::OddName, format!("Windows can take {name:?} for the short name of another file")));
        }
        if !self.scope.allows(path) {
            findings.push(at(Rule::OutsideScope, format!("it is outside the allowed paths ({})", self.listed())));
        }
        findings.extend(self.protection(path));
        findings
    }

    /// Whether what is there now may be: a file that git keeps, or a link that the contract names and that leads to
    /// where changes may be. What was there before may be gone, whatever it was, unless it was a submodule.
    fn mode(&self, change: &ChangedPath) -> Option<Finding> {
        let modes = [change.old_mode, change.new_mode];
        if modes.contains(&Some(MODE_GITLINK)) {
            return Some(Finding::at(Rule::Submodule, &change.path, "submodules are refused"));
        }
        match change.new_mode? {
            MODE_SYMLINK if self.allows_link(change) => None,
            MODE_SYMLINK => {
                let message = "symbolic links are refused, unless allowed_paths names the link itself and it leads to \
                               something inside the scope";
                Some(Finding::at(Rule::Symlink, &change.path, message))
            }
            mode if MODES_PLAIN.contains(&mode) => None,
            mode => Some(Finding::at(Rule::Mode, &change.path, format!("file mode {mode:o} is refused"))),
        }
    }

    fn allows_link(&self, change: &ChangedPath) -> bool {
        let target = change.leads_to.as_ref().and_then(|target| RepoPath::parse(target).ok());
        let inside = |target: RepoPath| {
            self.scope.allows(&target) && !self.is_state(&target) && self.protection(&target).is_empty()
        };
        self.scope.names(&change.path) && target.is_some_and(inside)
    }

    fn is_state(&self, path: &RepoPath) -> bool {
        self.state_dir.is_some_and(|dir| lies_within(path, dir))
    }

    /// What protects a path, where the contract does not name it.
    fn protection(&self, path: &RepoPath) -> Vec<Finding> {
        let folded = FoldedPath::new(path);
        let binding = self.protected.covering(&folded);
        let result = self.scope.judges_result();
        // Whoever names such a file is asked about it before anything starts.
        let named = |rule: &contract::policy::Protection| {
            result && !rule.contractable && self.scope.names(path.as_str().as_bytes())
        };
        let binding =
            binding.filter(|rule| !rule.is_allowed(path, &self.scope.allowed_paths)).filter(|rule| !named(rule));
        let finding = |rule: &contract::policy::Protection| {
            let way = match rule.contractable {
                true => "; a contract can name it in allowed_paths",
                false if result => "; a contract can name this very file in allowed_paths, with a person's approval",
                false => "",
            };
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
        let mut listed = names.join(", ");
        if !self.scope.denied_paths.is_empty() {
            let denied: Vec<&str> = self.scope.denied_paths.iter().take(LISTED_MAX).map(RepoPath::as_str).collect();
            let outside = if listed.is_empty() { "anything" } else { &listed };
            listed = format!("{outside} but {}", denied.join(", "));
        }
        listed
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

/// Why a new file should not be called this, if it should not: some system takes the name for something else.
fn odd_name(name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let numbered = |device: &str| stem.strip_prefix(device).is_some_and(|number| number.len() == 1 && number != "0");
    let device = ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str())
        || (["COM", "LPT"].into_iter().any(numbered) && stem.ends_with(|c: char| c.is_ascii_digit()));
    match name {
        _ if device => Some(format!("Windows takes {name:?} for a device")),
        _ if name.ends_with(['.', ' ']) => Some(format!("Windows drops what {name:?} ends with")),
        _ if name.starts_with('-') => Some(format!("commands take {name:?} for an option")),
        _ => None,
    }
}

fn twin(path: &[u8], other: &str) -> Finding {
    let message = format!("it and {other:?} are one name where case or Unicode form does not count");
    Finding::at(Rule::CaseTwin, path, message)
}

fn reordered(path: &[u8], (line, character): (u64, char)) -> Finding {
    let code = u32::from(character);
    let message = format!("line {line} adds U+{code:04X}, which shows text in another order than it is read");
    Finding::at(Rule::ReorderedText, path, message)
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
