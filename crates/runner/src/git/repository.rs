//! The user's repository: where it is, what HEAD names, and its references.
//!
//! Nothing here writes to the user's index or files. The only thing written is a reference, by
//! compare-and-swap ([`Repository::swap_ref`]), and whether it moved is read from the reference itself,
//! never from an exit code alone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::command::{GitCommand, Place, Program, chunks, git, words};
use super::locate::{self, Ordinary};
use super::refs::HeadFile;
use super::{GitError, IoContext, ObjectId, is_git_directory, sweep, sync_directory};

/// Where norma keeps its state inside the work tree unless told otherwise.
const STATE_DIRECTORY: &[u8] = b".norma";

/// The author of norma's commits where the user has configured none.
const FALLBACK_NAME: &str = "norma";
const FALLBACK_EMAIL: &str = "norma@localhost";

/// The part of the user's environment that decides which git runs and which configuration counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UserEnvironment {
    /// `PATH`.
    pub path: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<OsString>,
    /// `GIT_CONFIG_GLOBAL`.
    pub git_config_global: Option<OsString>,
}

/// A repository with a work tree that belongs to the user.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The canonical root of the work tree.
    pub root: PathBuf,
    /// The git directory of this work tree; differs from `common_dir` in a linked work tree.
    pub git_dir: PathBuf,
    /// The git directory shared by all work trees: objects and branches live here.
    pub common_dir: PathBuf,
    /// The hash function of its objects.
    pub format: gix_hash::Kind,
    /// norma's state directory relative to the root; never reported as dirty.
    pub state_directory: Vec<u8>,
    environment: UserEnvironment,
    pub(super) program: Program,
}

/// What HEAD names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The commit.
    pub commit: ObjectId,
    /// The commit's tree.
    pub tree: ObjectId,
    /// The full name of the branch; `None` if HEAD is detached.
    pub branch: Option<String>,
}

/// A path of the user's that differs between HEAD, index and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirtyPath {
    /// The path relative to the root; an untracked directory ends with `/`.
    pub path: Vec<u8>,
    /// The two letters of `git status --porcelain`.
    pub status: [u8; 2],
}

/// A name and an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The person or program.
    pub name: String,
    /// Where to reach it.
    pub email: String,
}

/// The key and the value of a setting.
pub(crate) type Setting = (Vec<u8>, Vec<u8>);

/// What configurations say of content filters.
pub(crate) struct Filters {
    /// The keys with their values.
    pub(crate) settings: Vec<Setting>,
}

/// What became of a reference update.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Swap {
    /// The reference has the new value, durably.
    Done,
    /// The reference did not have the expected value and was left alone.
    Moved {
        /// What it had instead; `None` if it does not exist.
        found: Option<ObjectId>,
    },
}

impl Repository {
    /// Makes a new repository of everything in `dir`, with one commit on branch `main`.
    pub fn create(dir: &Path, environment: &UserEnvironment, message: &str) -> Result<(), GitError> {
        let (program, place) = (Program::find(environment)?, Place::Search { dir, environment });
        let git = |subcommand| git(&program, &place, subcommand);
        git("init").args(&["--quiet", "--initial-branch=main"]).run()?;
        // The repository's own identity: a new user may have none, and the first commit must not fail for that.
        git("config").args(&["user.name", FALLBACK_NAME]).run()?;
        git("config").args(&["user.email", FALLBACK_EMAIL]).run()?;
        git("add").args(&["--all"]).run()?;
        git("commit").args(&["--quiet", "--no-gpg-sign", "-m", message]).run()?;
        Ok(())
    }

    /// What decides which git runs for the user.
    pub fn environment(&self) -> &UserEnvironment {
        &self.environment
    }

    /// Finds the repository whose work tree contains `dir`, for a user with this environment.
    pub fn discover(dir: &Path, environment: UserEnvironment) -> Result<Repository, GitError> {
        if !dir.is_dir() {
            let reason = "it is no directory".to_owned();
            return Err(GitError::NotARepository { dir: dir.to_owned(), reason });
        }
        let program = Program::find(&environment)?;
        let (format, [root, git_dir, common_dir]) = match locate::ordinary(dir) {
            Some(Ordinary { root, format }) => (format, [root.clone(), root.join(".git"), root.join(".git")]),
            None => asked(dir, &environment, &program)?,
        };
        let state_directory = STATE_DIRECTORY.to_vec();
        Ok(Repository { root, git_dir, common_dir, format, state_directory, environment, program })
    }

    /// The directory with the user's objects.
    pub fn objects_dir(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    pub(super) fn git(&self, subcommand: &'static str) -> GitCommand {
        let place = Place::User { git_dir: &self.git_dir, root: &self.root, environment: &self.environment };
        git(&self.program, &place, subcommand)
    }

    /// Whether it was cloned with a filter: objects may be missing here that only its remote has.
    pub fn is_partial(&self) -> bool {
        let packs = std::fs::read_dir(self.common_dir.join("objects/pack"));
        let is_promised = |name: &std::ffi::OsStr| Path::new(name).extension().is_some_and(|it| it == "promisor");
        packs.is_ok_and(|packs| packs.flatten().any(|entry| is_promised(&entry.file_name())))
    }

    /// What HEAD names now.
    pub fn head(&self) -> Result<Head, GitError> {
        if let Some(head) = self.head_in_files() {
            return Ok(head);
        }
        match self.head_at_once()? {
            Some(head) => Ok(head),
            None => self.head_piece_by_piece(),
        }
    }

    /// All of it from one child, since starting git takes longer than the answer; `None` where something is unusual.
    fn head_at_once(&self) -> Result<Option<Head>, GitError> {
        let output = self.git("rev-parse").args(&["HEAD^{commit}", "HEAD^{tree}", "--symbolic-full-name", "HEAD"]);
        let output = output.outcome()?;
        let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
        let [commit, tree, name, b""] = lines[..] else { return Ok(None) };
        let branch = match name {
            b"HEAD" => None,
            name => Some(text(name.to_vec())),
        };
        let (Ok(commit), Ok(tree)) = (ObjectId::from_hex(commit), ObjectId::from_hex(tree)) else { return Ok(None) };
        Ok(output.status.success().then_some(Head { commit, tree, branch }))
    }

    /// One question per child, which tells what is missing.
    fn head_piece_by_piece(&self) -> Result<Head, GitError> {
        let branch = self.head_branch()?;
        let name = branch.as_deref().unwrap_or("HEAD");
        let unborn = || GitError::NoCommits { branch: name.to_owned() };
        let commit = self.resolve(name)?.ok_or_else(unborn)?;
        let tree = self.peel(&format!("{commit}^{{tree}}"))?.ok_or(GitError::MissingObject { id: commit })?;
        Ok(Head { commit, tree, branch })
    }

    /// The full name of the branch HEAD is on, whether it has commits or not; `None` if detached.
    pub fn head_branch(&self) -> Result<Option<String>, GitError> {
        match self.head_file() {
            Some(HeadFile::On(branch)) => return Ok(Some(branch)),
            Some(HeadFile::At(_)) => return Ok(None),
            None => {}
        }
        let output = self.git("symbolic-ref").args(&["-q", "HEAD"]).outcome()?;
        match output.status.code() {
            Some(0) => Ok(Some(text(without_newline(output.stdout)))),
            Some(1) => Ok(None),
            _ => Err(failed("symbolic-ref", &output)),
        }
    }

    /// The references below a prefix that ends with `/`, and where each is.
    pub fn refs_below(&self, prefix: &str) -> Result<Vec<(String, ObjectId)>, GitError> {
        if let Some(found) = self.refs_in_files(prefix) {
            return Ok(found);
        }
        let output = self.git("for-each-ref").args(&["--format=%(objectname) %(refname)", "--", prefix]).run()?;
        let listed = text(output);
        let pairs = listed.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(id, name)| Ok((name.to_owned(), parse_id("for-each-ref", id.as_bytes())?))).collect()
    }

    /// The subjects of the last commits, each behind a byte 1, with how each path was changed and the path, ended by NUL bytes.
    pub fn recent_changes(&self, most: u32) -> Result<String, GitError> {
        let count = format!("--max-count={most}");
        let shown = ["--no-merges", "--name-status", "--no-renames", "-z", "--format=%x01%s", "HEAD", "--"];
        Ok(text(self.git("log").args(&[count.as_str()]).args(&shown).run()?))
    }

    /// The files of a tree whose text has this word, in whatever case.
    pub fn files_with(&self, word: &str, tree: ObjectId) -> Result<Vec<String>, GitError> {
        let how = ["--name-only", "-I", "--fixed-strings", "--word-regexp", "--ignore-case", "-z", "-e", word];
        let output = self.git("grep").args(&how).args(&[tree.to_string().as_str(), "--"]).outcome()?;
        match output.status.code() {
            Some(0 | 1) => {
                let (prefix, found) = (format!("{tree}:"), text(output.stdout));
                let files = found.split('\0').filter_map(|line| line.strip_prefix(&prefix));
                Ok(files.map(str::to_owned).collect())
            }
            _ => Err(failed("grep", &output)),
        }
    }

    /// Untracked files that git ignores and that match a pattern of this list, in gitignore syntax; norma's state
    /// directory is left out.
    pub fn ignored_and_matching(&self, list: &Path) -> Result<Vec<Vec<u8>>, GitError> {
        let names = sweep::names_in(&sweep::open_directory(&self.root)?).context("list", &self.root)?;
        // Named one by one, so that git does not look through the state directory, which holds whole checkouts.
        let mut tops: Vec<&[u8]> = names.iter().map(|name| name.to_bytes()).collect();
        tops.retain(|name| !is_git_directory(name) && !self.is_state(name));
        let mut matching = Vec::new();
        for tops in chunks(&tops) {
            let mut from = OsString::from("--exclude-from=");
            from.push(list);
            let listed = self.git("ls-files").args(&["--others", "--ignored", "-z"]).arg(from).paths(&tops).run()?;
            // A name that starts with `./` means what it says.
            let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            paths.for_each(|path| matching.extend([b"./", path, b"\0"].concat()));
        }
        if matching.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.git("check-ignore").not_literal().args(&["-z", "--stdin"]).input(matching).outcome()?;
        // 1: none of them is ignored.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(failed("check-ignore", &output));
        }
        let paths = output.stdout.split(|byte| *byte == 0).filter_map(|path| path.strip_prefix(b"./"));
        // A directory is a repository of its own, and none of this one's.
        let paths = paths.filter(|path| !path.ends_with(b"/"));
        Ok(paths.filter(|path| !self.is_state(path)).map(<[u8]>::to_vec).collect())
    }

    /// Whether a path is norma's state directory, or in it.
    pub(super) fn is_state(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.state_directory.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// The user's configured name and address.
    pub fn identity(&self) -> Identity {
        let (name, email) = self.name_and_email();
        Identity {
            name: name.unwrap_or_else(|| FALLBACK_NAME.to_owned()),
            email: email.unwrap_or_else(|| FALLBACK_EMAIL.to_owned()),
        }
    }

    /// The user as git knows them, if it does.
    pub fn person(&self) -> Option<Identity> {
        let (name, email) = self.name_and_email();
        Some(Identity { name: name?, email: email? })
    }

    fn name_and_email(&self) -> (Option<String>, Option<String>) {
        let settings = self.settings(r"^user\.(name|email)$").unwrap_or_default();
        // The last one counts.
        let of = |key: &str| {
            let found = settings.iter().rfind(|(name, _)| name == key.as_bytes());
            found.map(|(_, value)| text(value.clone())).filter(|value| !value.trim().is_empty())
        };
        (of("user.name"), of("user.email"))
    }

    /// The settings whose names match an expression, with their values, in the order in which they count.
    pub(super) fn settings(&self, expression: &str) -> Result<Vec<Setting>, GitError> {
        let output = self.git("config").args(&["-z", "--get-regexp", expression]).outcome()?;
        // 1: there is none.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(failed("config", &output));
        }
        let all = output.stdout.split(|byte| *byte == 0).filter(|setting| !setting.is_empty());
        let parts = all.map(|setting| {
            // A key without a value has no second line.
            let end = setting.iter().position(|byte| *byte == b'\n').unwrap_or(setting.len());
            (setting[..end].to_vec(), setting.get(end + 1..).unwrap_or_default().to_vec())
        });
        Ok(parts.collect())
    }

    /// The content filters that any configuration names.
    pub(super) fn filters(&self) -> Result<Filters, GitError> {
        Ok(Filters { settings: self.settings(r"^filter\.")? })
    }

    /// Whether the user's git stores LF for the CRLF of files of which no attribute speaks (`core.autocrlf`).
    pub fn converts_line_endings(&self) -> bool {
        let settings = self.settings(r"^core\.autocrlf$").unwrap_or_default();
        let value = settings.last().map(|(_, value)| text(value.to_ascii_lowercase()));
        value.is_some_and(|value| matches!(value.trim(), "true" | "input" | "yes" | "on" | "1"))
    }

    /// Where git looks for hooks.
    pub fn hooks_dir(&self) -> Result<PathBuf, GitError> {
        let question = ["--path-format=absolute", "--git-path", "hooks"];
        let answer = self.git("rev-parse").asking_for_hooks().args(&question).run()?;
        Ok(PathBuf::from(OsString::from_vec(without_newline(answer))))
    }

    /// Whose configuration names that place, if it is one that other repositories have too.
    pub fn shared_hooks(&self) -> Result<Option<String>, GitError> {
        let question = ["--show-scope", "--get", "core.hooksPath"];
        let output = self.git("config").asking_for_hooks().args(&question).outcome()?;
        match output.status.code() {
            Some(0) => {
                let scope = text(output.stdout).split_whitespace().next().unwrap_or_default().to_owned();
                Ok((!matches!(scope.as_str(), "local" | "worktree")).then_some(scope))
            }
            // Nobody names one.
            Some(1) => Ok(None),
            _ => Err(failed("config", &output)),
        }
    }

    /// The index of this work tree.
    pub fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Where a commit's history left what a remote was last known to have; none if they share nothing.
    pub fn known_to_remote(&self, commit: ObjectId, remote: &str) -> Result<Option<ObjectId>, GitError> {
        let prefix = format!("refs/remotes/{remote}/");
        let listed = self.refs_below(&prefix)?.into_iter();
        // The name may be an address with characters that mean something in a pattern.
        let tips: BTreeSet<ObjectId> = listed.filter(|(name, _)| name.starts_with(&prefix)).map(|(_, at)| at).collect();
        if tips.is_empty() {
            return Ok(None);
        }
        let command = self.git("merge-base").id(commit);
        let output = tips.into_iter().fold(command, GitCommand::id).outcome()?;
        match output.status.code() {
            Some(0) => parse_id("merge-base", &without_newline(output.stdout)).map(Some),
            Some(1) => Ok(None),
            _ => Err(failed("merge-base", &output)),
        }
    }

    /// The commit that any revision expression names; `None` if it names none.
    pub fn resolve(&self, rev: &str) -> Result<Option<ObjectId>, GitError> {
        self.peel(&format!("{rev}^{{commit}}"))
    }

    /// Whether there is something of this name in the commit that HEAD names.
    pub fn has_committed(&self, path: &str) -> Result<bool, GitError> {
        Ok(self.peel(&format!("HEAD:{path}"))?.is_some())
    }

    fn peel(&self, expression: &str) -> Result<Option<ObjectId>, GitError> {
        let output = self.git("rev-parse").args(&["--verify", "-q", "--end-of-options", expression]).outcome()?;
        match output.status.code() {
            Some(0) => parse_id("rev-parse", &without_newline(output.stdout)).map(Some),
            Some(1) => Ok(None),
            _ => Err(failed("rev-parse", &output)),
        }
    }

    /// The value of a reference by its full name, without any guessing.
    pub fn read_ref(&self, full: &str) -> Result<Option<ObjectId>, GitError> {
        match self.ref_in_file(full) {
            Some(found) => Ok(Some(found)),
            None => read_ref(self.git("show-ref"), full),
        }
    }

    /// Sets (`new`) or deletes (`None`) a reference if it still has the `expected` value (`None`: if it does
    /// not exist). Symbolic references are not followed.
    pub fn swap_ref(
        &self,
        full: &str,
        new: Option<ObjectId>,
        expected: Option<ObjectId>,
        message: &str,
    ) -> Result<Swap, GitError> {
        if let (Some(new), None) = (new, expected)
            && self.make_in_file(full, new).is_some()
        {
            self.sync_ref(full)?;
            return Ok(Swap::Done);
        }
        let expected_or_null = expected.unwrap_or_else(|| self.format.null());
        let command = self.git("update-ref").durable().args(&["--no-deref", "-m", message]);
        let command = match new {
            Some(new) => command.args(&["--", full]).id(new).id(expected_or_null),
            None => command.args(&["-d", "--", full]).id(expected_or_null),
        };
        if let Err(error) = command.run() {
            let found = self.read_ref(full)?;
            return if found == expected { Err(error) } else { Ok(Swap::Moved { found }) };
        }
        self.sync_ref(full)?;
        Ok(Swap::Done)
    }

    /// Syncs every directory in which this reference may have changed: git syncs the file only.
    fn sync_ref(&self, full: &str) -> Result<(), GitError> {
        let home = if full.starts_with("refs/") { &self.common_dir } else { &self.git_dir };
        for dir in Path::new(full).ancestors().skip(1).map(|parent| home.join(parent)) {
            if dir.is_dir() {
                sync_directory(&dir)?;
            }
        }
        let tables = home.join("reftable");
        if tables.is_dir() { sync_directory(&tables) } else { Ok(()) }
    }
}

/// The value of a reference, given a `show-ref` command at the right place.
pub(super) fn read_ref(show_ref: GitCommand, full: &str) -> Result<Option<ObjectId>, GitError> {
    let output = show_ref.args(&["--verify", "--hash", "--", full]).outcome()?;
    if output.status.success() {
        return parse_id("show-ref", &without_newline(output.stdout)).map(Some);
    }
    // The exit code is the same for every failure; only the words tell absence apart.
    if words(&output.stderr).contains("not a valid ref") { Ok(None) } else { Err(failed("show-ref", &output)) }
}

/// `git status` for some paths, given the command at the right place; no paths means all.
pub(super) fn status(command: GitCommand, options: &[&str], paths: &[&[u8]]) -> Result<Vec<DirtyPath>, GitError> {
    // Without --ignore-submodules git would run with the configuration of repositories nested in the tree.
    let command = command.args(&["--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"]);
    let output = command.args(options).paths(paths).run()?;
    let records = output.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    records.map(dirty_path).collect()
}

fn dirty_path(record: &[u8]) -> Result<DirtyPath, GitError> {
    match record {
        [x, y, b' ', path @ ..] => Ok(DirtyPath { path: path.to_vec(), status: [*x, *y] }),
        _ => Err(GitError::Answer { command: "status".to_owned(), detail: text(record.to_vec()) }),
    }
}

/// What git knows of a repository.
struct Found {
    format: gix_hash::Kind,
    /// The work tree, its git directory, and the one that linked work trees share.
    directories: [Vec<u8>; 3],
}

/// What kind of repository it is.
const KIND: [&str; 3] = ["--is-bare-repository", "--is-inside-work-tree", "--show-object-format"];

/// Where its directories are, one question each.
const DIRECTORIES: [&[&str]; 3] =
    [&["--show-toplevel"], &["--absolute-git-dir"], &["--path-format=absolute", "--git-common-dir"]];

type Ask<'a> = dyn Fn(&[&str]) -> Result<Vec<u8>, GitError> + 'a;

/// What git says of a directory: the hash function, the work tree, its git directory, and the one that linked work trees
/// share.
fn asked(
    dir: &Path,
    environment: &UserEnvironment,
    program: &Program,
) -> Result<(gix_hash::Kind, [PathBuf; 3]), GitError> {
    let command = || git(program, &Place::Search { dir, environment }, "rev-parse");
    let found = match found_at_once(&|question| command().args(question).run().map(without_newline)) {
        Some(found) => found,
        None => found_one_by_one(dir, &|question| command().args(question).run().map(without_newline))?,
    };
    let [root, git_dir, common_dir] = found.directories.map(canonical);
    Ok((found.format, [root?, git_dir?, common_dir?]))
}

/// All answers from one child, since starting git takes longer than most verbs do; none where something is unusual.
fn found_at_once(ask: &Ask<'_>) -> Option<Found> {
    let all = ask(&[&KIND[..], &DIRECTORIES.concat()].concat()).ok()?;
    let lines: Vec<&[u8]> = all.split(|byte| *byte == b'\n').collect();
    let [b"false", b"true", format, directories @ ..] = &lines[..] else { return None };
    // A path with a newline is more lines than there are directories.
    let directories: [&[u8]; 3] = directories.try_into().ok()?;
    Some(Found { format: object_format(format)?, directories: directories.map(<[u8]>::to_vec) })
}

/// One question per child: a path may contain a newline, and what is no repository says why.
fn found_one_by_one(dir: &Path, ask: &Ask<'_>) -> Result<Found, GitError> {
    let kind = ask(&KIND).map_err(|error| not_a_repository(dir, error))?;
    let lines: Vec<&[u8]> = kind.split(|byte| *byte == b'\n').collect();
    let format = match lines[..] {
        [b"true", _, _] => return Err(GitError::BareRepository { dir: dir.to_owned() }),
        [b"false", b"false", _] => {
            let reason = "it is inside a git directory".to_owned();
            return Err(GitError::NotARepository { dir: dir.to_owned(), reason });
        }
        [b"false", b"true", format] => object_format(format),
        _ => None,
    };
    let unknown = || GitError::Answer { command: "rev-parse".to_owned(), detail: text(kind.clone()) };
    let [root, git_dir, common_dir] = DIRECTORIES.map(ask);
    Ok(Found { format: format.ok_or_else(unknown)?, directories: [root?, git_dir?, common_dir?] })
}

fn object_format(name: &[u8]) -> Option<gix_hash::Kind> {
    match name {
        b"sha1" => Some(gix_hash::Kind::Sha1),
        b"sha256" => Some(gix_hash::Kind::Sha256),
        _ => None,
    }
}

fn not_a_repository(dir: &Path, error: GitError) -> GitError {
    match error {
        GitError::Failed { stderr, .. } if stderr.contains("dubious ownership") => {
            // git names the directory that it means, quoted.
            let named = stderr.split('\'').nth(1).map_or_else(|| dir.to_owned(), PathBuf::from);
            let shown = contract::policy::join(&[named.display().to_string()]);
            let fix = format!("git config --global --add safe.directory {shown}");
            GitError::OthersRepository { dir: named, fix }
        }
        GitError::Failed { stderr, .. } => GitError::NotARepository { dir: dir.to_owned(), reason: stderr },
        other => other,
    }
}

pub(super) fn failed(command: &str, output: &std::process::Output) -> GitError {
    GitError::Failed { command: command.to_owned(), status: output.status.to_string(), stderr: words(&output.stderr) }
}

fn canonical(path: Vec<u8>) -> Result<PathBuf, GitError> {
    let path = PathBuf::from(OsString::from_vec(path));
    path.canonicalize().context("resolve", &path)
}

pub(super) fn without_newline(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    bytes
}

pub(super) fn parse_id(command: &str, hex: &[u8]) -> Result<ObjectId, GitError> {
    ObjectId::from_hex(hex).map_err(|_| GitError::Answer {
        command: command.to_owned(),
        detail: format!("{:?} is no object id", String::from_utf8_lossy(hex)),
    })
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_of_another_user_is_answered_with_the_line_that_helps() {
        let said = |path: &str| {
            let stderr = format!("fatal: detected dubious ownership in repository at '{path}'\nTo add an exception …");
            let failed = GitError::Failed { command: "rev-parse".into(), status: "exit status: 128".into(), stderr };
            match not_a_repository(Path::new("/srv/app/sub"), failed) {
                GitError::OthersRepository { dir, fix } => (dir, fix),
                other => panic!("{other}"),
            }
        };
        let expected = "git config --global --add safe.directory /srv/app";
        assert_eq!(said("/srv/app"), ("/srv/app".into(), expected.to_owned()));
        assert_eq!(said("/srv/my app").1, "git config --global --add safe.directory '/srv/my app'");
    }
}
