//! What a hook asks: does this commit, or this push, stay within the active contract? The same scope gate that judges
//! agents judges the difference of two trees, and whatever keeps it from being asked is a refusal: no contract, one that
//! cannot be read, policies that nobody trusts, objects that are not there.

use crate::change::paths;
use crate::context::policy::{load_policies, read};
use crate::git::{GitError, ObjectId, Objects, Repository, TreeChange};
use crate::{Error, Result, Trust};
use contract::documents::TaskContract;
use contract::{Limits, Policies, RepoPath, Violation};
use run::gate::Finding;
use run::gate::scope::{self, Observed, Scope};
use serde::Serialize;
use std::io::ErrorKind;
use std::path::PathBuf;
use store::Layout;

/// What to do about a contract that does not let people work.
const WAYS: &str = "norma contract activate FILE; git's own way around a hook is --no-verify";

/// What is about to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A commit of this index, on top of HEAD.
    Commit {
        /// Its file; git may have made one for just this commit.
        index: PathBuf,
    },
    /// A push.
    Push {
        /// The name of the remote, or its address where it has none.
        remote: String,
        /// Each ref.
        refs: Vec<Pushed>,
    },
}

/// One ref of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// What it will be at; none if it is deleted.
    new: Option<ObjectId>,
    /// Its name there.
    name: String,
    /// What it is at there; none if it is new.
    old: Option<ObjectId>,
}

impl Pushed {
    /// Reads what git tells a pre-push hook, a line a ref: local name, local id, remote name, remote id.
    pub fn parse(lines: &str) -> Result<Vec<Pushed>> {
        lines.lines().map(Pushed::parse_line).collect()
    }

    fn parse_line(line: &str) -> Result<Pushed> {
        let bad = || {
            let what =
                format!("{:?} is not what git tells a pre-push hook", line.chars().take(200).collect::<String>());
            Error::usage(what, "this verb is for the hooks that `norma hooks install` writes")
        };
        let [_, new, name, old] = line.split(' ').collect::<Vec<_>>()[..] else { return Err(bad()) };
        let id = |hex: &str| ObjectId::from_hex(hex.as_bytes()).map_err(|_| bad());
        let there = |id: ObjectId| (!id.is_null()).then_some(id);
        Ok(Pushed { new: there(id(new)?), name: name.to_owned(), old: there(id(old)?) })
    }
}

/// Something that keeps a commit or a push from being within the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// `commit`, or the ref that is pushed.
    pub subject: String,
    /// What the gate found.
    #[serde(flatten)]
    pub finding: Finding,
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The contract that counts.
    pub task_id: String,
    /// What is outside of it; nothing = it may be.
    pub findings: Vec<Refusal>,
}

/// The state directory whose contract counts in a work tree: its own, or, in a linked one that has none, that of the
/// main work tree, since both have the same hooks.
pub fn layout_for(user: &Repository, own: Layout) -> Layout {
    let linked = user.git_dir != user.common_dir && !own.state.exists();
    match user.common_dir.parent().filter(|_| linked && user.common_dir.ends_with(".git")) {
        Some(main) => Layout::new(main, None),
        None => own,
    }
}

/// Judges what is about to happen. `Err` means that it could not be judged, which is a refusal as well.
pub fn judge(user: &Repository, layout: &Layout, trust: &Trust, subject: &Subject) -> Result<Judged> {
    let active = Active::read(layout)?;
    let policies = load_policies(layout)?;
    if !trust.trusts_policies(&policies) {
        let dir = layout.shown(&layout.policies());
        let message = format!("the policies in {dir} are not trusted, so nothing can be judged by them");
        return Err(Error::environment(message, "if they are what you want: norma trust"));
    }
    let objects = Objects::open_or_create(&layout.git(), user)?;
    let mut findings = Vec::new();
    for Difference { subject, changes } in differences(user, &objects, subject)? {
        let changes = paths::changes(&objects, None, &changes)?;
        let found = active.judge(Observed { changes, ..Observed::default() }, &policies, layout);
        findings.extend(found.into_iter().map(|finding| Refusal { subject: subject.clone(), finding }));
    }
    Ok(Judged { task_id: active.task_id, findings })
}

/// The contract that the hooks enforce.
struct Active {
    task_id: String,
    allowed_paths: Vec<RepoPath>,
}

impl Active {
    fn read(layout: &Layout) -> Result<Active> {
        let path = layout.active_contract();
        let shown = layout.shown(&path);
        let bytes = read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::declined(format!("there is no active contract at {shown}"), WAYS),
            _ => Error::declined(format!("the active contract {shown} cannot be read: {error}"), WAYS),
        })?;
        Active::parse(&bytes).map_err(|violations| {
            let lines: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
            Error::declined(format!("the active contract {shown} is not valid:{}", lines.concat()), WAYS)
        })
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Active, Vec<Violation>> {
        let contract: TaskContract = contract::json::decode(bytes, &Limits::DOCUMENT)?;
        let mut allowed_paths = Vec::new();
        let mut problems = Vec::new();
        for (index, text) in contract.allowed_paths.iter().enumerate() {
            match contract::policy::allowed_path(text) {
                Ok(path) => allowed_paths.push(path),
                Err(message) => problems.push(Violation { pointer: format!("/allowed_paths/{index}"), message }),
            }
        }
        // To the gate, no path at all means the whole tree.
        if contract.allowed_paths.is_empty() {
            problems.push(Violation { pointer: "/allowed_paths".into(), message: "there is none".into() });
        }
        if problems.is_empty() { Ok(Active { task_id: contract.task_id, allowed_paths }) } else { Err(problems) }
    }

    fn judge(&self, observed: Observed, policies: &Policies, layout: &Layout) -> Vec<Finding> {
        let scope = Scope {
            allowed_paths: self.allowed_paths.clone(),
            denied_paths: Vec::new(),
            scratch_paths: policies.scratch_paths(),
            allow_binary: false,
            named_by_git: Vec::new(),
            rules: contract::RULES,
        };
        scope::judge(&observed, &scope, policies.protected_paths(), layout.state_in_repository().as_ref())
    }
}

/// What would become different, and where.
struct Difference {
    subject: String,
    changes: Vec<TreeChange>,
}

fn differences(user: &Repository, objects: &Objects, subject: &Subject) -> Result<Vec<Difference>> {
    match subject {
        Subject::Commit { index } => {
            let head = match user.head() {
                Ok(head) => head.tree,
                Err(GitError::NoCommits { .. }) => ObjectId::empty_tree(user.format),
                Err(error) => return Err(error.into()),
            };
            Ok(vec![Difference { subject: "commit".into(), changes: user.staged(head, index)? }])
        }
        Subject::Push { remote, refs } => {
            // A ref that is deleted brings nothing.
            let brought = refs.iter().filter_map(|pushed| Some((pushed, pushed.new?)));
            brought.map(|(pushed, new)| brought_by(user, objects, remote, pushed, new)).collect()
        }
    }
}

/// What a push brings to a ref: the difference to what it is at, or, for a new one, to what its remote is known to have.
fn brought_by(
    user: &Repository,
    objects: &Objects,
    remote: &str,
    pushed: &Pushed,
    new: ObjectId,
) -> Result<Difference> {
    let commit = |id: ObjectId, hint: &str| {
        let message =
            || format!("{id}, which {} is or shall be at, is no commit that is here", pushed.name.escape_debug());
        user.resolve(&id.to_string())?.ok_or_else(|| Error::declined(message(), hint))
    };
    let new = commit(new, "push commits, and tags of commits")?;
    let old = match pushed.old {
        Some(old) => Some(commit(old, "get what is there first: git fetch")?),
        None => user.known_to_remote(new, remote)?,
    };
    let old = old.map_or(Ok(ObjectId::empty_tree(user.format)), |old| objects.tree_of(old))?;
    Ok(Difference { subject: pushed.name.clone(), changes: objects.diff(old, objects.tree_of(new)?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_tells_a_pre_push_hook_is_read_or_refused() {
        let (id, null) = ("1".repeat(40), "0".repeat(40));
        let lines = format!("refs/heads/a {id} refs/heads/b {null}\n(delete) {null} refs/heads/c {id}\n");
        let refs = Pushed::parse(&lines).unwrap();
        assert_eq!(refs.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["refs/heads/b", "refs/heads/c"]);
        assert_eq!(
            refs.iter().map(|it| (it.new.is_some(), it.old.is_some())).collect::<Vec<_>>(),
            [(true, false), (false, true)]
        );
        assert_eq!(Pushed::parse("").unwrap(), []);
        for bad in ["\n", "refs/heads/a", "a b c d", &format!("a {id} b {id} c"), &format!("a {id} b 1234")] {
            assert!(Pushed::parse(bad).is_err(), "{bad:?}");
        }
    }
}
