//! The one place that starts the program `git`.
//!
//! Every child gets an empty environment plus a fixed list. Hooks, the file-system monitor, content filters, replace
//! refs, lazy fetching, prompts and all transports are off for every command. Commands on norma's own repository
//! see no configuration but the one file norma wrote; commands on the user's repository see the user's and
//! the machine's configuration as well, because line endings must be the user's in a checkout that belongs to the
//! user. What that configuration would have git run stays off: an agent may have written it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::objects::quoted;
use super::repository::{Filters, UserEnvironment};
use super::{GitError, ObjectId};

/// Search path when the user has none; the same two directories `execvp` falls back to.
const PATH_FALLBACK: &str = "/usr/bin:/bin";

/// How much of git's standard error an error message keeps. A message is for a person to read.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// How many bytes of paths go into one argument list. Linux allows 2 MiB for arguments and environment
/// together and macOS 1 MiB; this leaves room for both.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// Set for every child, whatever repository it works on.
const ENVIRONMENT: &[(&str, &str)] = &[
    // Objects mean what their names say.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // Reading an object never starts a transport, not even for a partial clone.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // `status` must not rewrite the user's index behind their back.
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Error texts are classified by their English words.
    ("LC_ALL", "C"),
];

/// Given to every child before the subcommand.
const FLAGS: &[&str] = &["--no-pager", "--literal-pathspecs", "-c", HOOKS_OFF, "-c", "core.fsmonitor=false"];

/// Has git find no hook.
const HOOKS_OFF: &str = "core.hooksPath=/dev/null";

/// Commands that open no file of the work tree, so that no filter can run. All others have filters off, which costs a
/// question first.
const OPENS_NO_FILE: &[&str] = &[
    "check-attr",
    "check-ignore",
    "config",
    // With --cached, as it is used here.
    "diff-index",
    "for-each-ref",
    // Of a tree, as it is used here.
    "grep",
    "init",
    "log",
    "ls-files",
    "merge-base",
    "rev-parse",
    "show-ref",
    "symbolic-ref",
    "update-ref",
];

/// The first git that knows what is asked of it: `rev-parse --path-format`, and settings from the environment, by which
/// filters are off.
const VERSION_MIN: (u32, u32) = (2, 31);

/// What that git learned, too: one that is older refuses it before it does anything. Given to the first child, so that none
/// has to be asked for its version. The setting means nothing.
const PROOF: &str = "--config-env=norma.proof=LC_ALL";

/// How git ends when it does not understand its arguments.
const NOT_UNDERSTOOD: i32 = 129;

/// The program `git` and the search path it gets, looked up once: what runs cannot change during a run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    file: PathBuf,
    path: OsString,
    /// Set when it is known to be new enough.
    proven: Arc<OnceLock<()>>,
}

impl Program {
    /// The first executable `git` on the user's search path.
    pub(crate) fn find(environment: &UserEnvironment) -> Result<Program, GitError> {
        let path = environment.path.clone().unwrap_or_else(|| PATH_FALLBACK.into());
        Ok(Program { file: find_program(&path).ok_or(GitError::GitMissing)?, path, proven: Arc::default() })
    }

    /// Refuses a git that does not know what is asked of it, before it is asked for the first time.
    fn require_version(&self, dir: &Path) -> Result<(), GitError> {
        if self.proven.get().is_some() {
            return Ok(());
        }
        let mut command = Command::new(&self.file);
        let output = command.env_clear().env("PATH", &self.path).current_dir(dir).arg("version").output();
        let output = output.map_err(|source| GitError::Spawn { command: "version".to_owned(), source })?;
        let found = String::from_utf8_lossy(&output.stdout);
        let found = found.trim().trim_start_matches("git version ").to_owned();
        let mut numbers = found.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
        let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        if version < VERSION_MIN {
            return Err(GitError::TooOld { found, needed: VERSION_MIN });
        }
        let _ = self.proven.set(());
        Ok(())
    }
}

/// Whose repository a command works on.
pub(crate) enum Place<'a> {
    /// norma's own, which has no user configuration at all.
    Own { git_dir: &'a Path, empty_config: &'a Path },
    /// The user's, with the user's configuration.
    User { git_dir: &'a Path, root: &'a Path, environment: &'a UserEnvironment },
    /// Wherever git finds a repository from this directory.
    Search { dir: &'a Path, environment: &'a UserEnvironment },
}

/// One git child, not yet started.
#[must_use]
pub(crate) struct GitCommand {
    program: Program,
    subcommand: &'static str,
    flags: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: Vec<(Cow<'static, str>, OsString)>,
    directory: PathBuf,
    input: Vec<u8>,
    /// Whether it sees a configuration that norma did not write, and may name filters that are on.
    configured: bool,
}

/// Starts the description of `git <subcommand>` at a place.
pub(crate) fn git(program: &Program, place: &Place<'_>, subcommand: &'static str) -> GitCommand {
    let mut command = GitCommand {
        program: program.clone(),
        subcommand,
        flags: FLAGS.iter().map(OsString::from).collect(),
        arguments: Vec::new(),
        environment: Vec::new(),
        directory: PathBuf::new(),
        input: Vec::new(),
        configured: !matches!(place, Place::Own { .. }),
    };
    match place {
        Place::Own { git_dir, empty_config } => {
            command.directory = git_dir.to_path_buf();
            command.set("GIT_DIR", git_dir);
            command.set("GIT_CONFIG_NOSYSTEM", "1");
            command.set("GIT_CONFIG_GLOBAL", empty_config);
            command.set("GIT_ATTR_NOSYSTEM", "1");
            command.set("HOME", git_dir);
        }
        Place::User { git_dir, root, environment } => {
            command.directory = root.to_path_buf();
            command.set("GIT_DIR", git_dir);
            command.set("GIT_WORK_TREE", root);
            command.keep(environment);
        }
        Place::Search { dir, environment } => {
            command.directory = dir.to_path_buf();
            command.keep(environment);
        }
    }
    command
}

impl GitCommand {
    fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        self.environment.push((name.into(), value.as_ref().to_owned()));
    }

    fn keep(&mut self, environment: &UserEnvironment) {
        let kept = [
            ("HOME", &environment.home),
            ("XDG_CONFIG_HOME", &environment.xdg_config_home),
            ("GIT_CONFIG_GLOBAL", &environment.git_config_global),
        ];
        for (name, value) in kept {
            if let Some(value) = value {
                self.set(name, value);
            }
        }
    }

    /// Has git sync every file it writes. Directories are the caller's business: git never syncs them.
    pub(crate) fn durable(mut self) -> Self {
        self.flags.extend(["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"].map(OsString::from));
        self
    }

    /// Works on another index than the repository's own.
    pub(crate) fn index(mut self, path: &Path) -> Self {
        self.set("GIT_INDEX_FILE", path);
        self
    }

    /// Works on a small index that norma made and reads again: git is to give it no other form.
    pub(crate) fn small_index(mut self, path: &Path) -> Self {
        self.flags.extend(
            ["-c", "core.splitIndex=false", "-c", "index.sparse=false", "-c", "core.untrackedCache=false"]
                .map(OsString::from),
        );
        self.index(path)
    }

    /// Finds objects in this directory, too.
    pub(crate) fn borrowing(mut self, objects: &Path) -> Self {
        self.set("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsString::from_vec(quoted(objects)));
        self
    }

    /// Works on files in this directory.
    pub(crate) fn work_tree(mut self, path: &Path) -> Self {
        self.directory = path.to_owned();
        self.set("GIT_WORK_TREE", path);
        self
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn args(self, arguments: &[&str]) -> Self {
        arguments.iter().fold(self, |command, argument| command.arg(argument))
    }

    pub(crate) fn id(self, id: ObjectId) -> Self {
        self.arg(id.to_string())
    }

    /// For a command that cannot do with literal names: whoever calls it must give names that have no other meaning.
    pub(crate) fn not_literal(mut self) -> Self {
        self.flags.retain(|flag| flag != "--literal-pathspecs");
        self
    }

    /// For the question where hooks are: with them off, the answer would be nowhere. No command that asks it runs any.
    pub(crate) fn asking_for_hooks(mut self) -> Self {
        if let Some(at) = self.flags.iter().position(|flag| flag == HOOKS_OFF) {
            // It follows its `-c`.
            self.flags.drain(at - 1..=at);
        }
        self
    }

    /// Adds `--` and paths relative to the work tree.
    pub(crate) fn paths(mut self, paths: &[&[u8]]) -> Self {
        self.arguments.push("--".into());
        self.arguments.extend(paths.iter().map(|path| OsString::from_vec(path.to_vec())));
        self
    }

    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// Has git read and write large objects and files piece by piece, and see no more of a pack at once.
    pub(crate) fn streaming(mut self) -> Self {
        for setting in ["core.bigFileThreshold=1m", "core.packedGitWindowSize=1m", "core.packedGitLimit=16m"] {
            self.flags.extend(["-c", setting].map(OsString::from));
        }
        self
    }

    /// Starts the child for somebody who reads what it writes while it does.
    pub(crate) fn spawn(self) -> Result<Child, GitError> {
        self.program.require_version(&self.directory)?;
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map_err(|source| GitError::Spawn { command: self.subcommand.to_owned(), source })
    }

    /// Runs the child and returns what it wrote, or its words if it failed.
    pub(crate) fn run(self) -> Result<Vec<u8>, GitError> {
        let command = self.subcommand.to_owned();
        let output = self.outcome()?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(GitError::Failed { command, status: output.status.to_string(), stderr: words(&output.stderr) })
    }

    /// Runs the child and leaves the judgement of its exit code to the caller.
    pub(crate) fn outcome(mut self) -> Result<Output, GitError> {
        if self.configured && !OPENS_NO_FILE.contains(&self.subcommand) {
            self.switch_filters_off()?;
        }
        self.start()
    }

    /// Asks which filters there are, and has git use none.
    fn switch_filters_off(&mut self) -> Result<(), GitError> {
        let question = GitCommand {
            program: self.program.clone(),
            subcommand: "config",
            flags: self.flags.clone(),
            arguments: ["-z", "--name-only", "--get-regexp", r"^filter\."].map(OsString::from).to_vec(),
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            input: Vec::new(),
            configured: self.configured,
        };
        let output = question.start()?;
        // 1: nobody names one.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let (status, stderr) = (output.status.to_string(), words(&output.stderr));
            return Err(GitError::Failed { command: "config".to_owned(), status, stderr });
        }
        self.use_none_of(output.stdout.split(|byte| *byte == 0));
        Ok(())
    }

    /// Has git use none of the filters that were asked for a moment ago.
    pub(crate) fn without(mut self, filters: &Filters) -> Self {
        self.use_none_of(filters.settings.iter().map(|(key, _)| key.as_slice()));
        self.configured = false;
        self
    }

    /// Has git convert nothing through a filter that any configuration names: each gets empty commands, which git takes
    /// for none. Through the environment, since a name may hold what `-c` would take for its end.
    fn use_none_of<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let drivers: BTreeSet<&[u8]> =
            keys.filter_map(|key| Some(&key[..key.iter().rposition(|byte| *byte == b'.')?])).collect();
        let off = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
        let settings = drivers.iter().flat_map(|driver| off.map(|(name, value)| (*driver, name, value)));
        let mut count = 0;
        for (driver, name, value) in settings {
            let key = OsString::from_vec([driver, b".", name.as_bytes()].concat());
            self.environment.push((format!("GIT_CONFIG_KEY_{count}").into(), key));
            self.environment.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.into()));
            count += 1;
        }
        self.environment.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program.file);
        command.env_clear().env("PATH", &self.program.path).envs(ENVIRONMENT.iter().copied());
        command.envs(self.environment.iter().map(|(name, value)| (&**name, value)));
        command.args(&self.flags).arg(self.subcommand).args(&self.arguments);
        command.current_dir(&self.directory);
        command
    }

    fn start(mut self) -> Result<Output, GitError> {
        let is_first = self.program.proven.get().is_none();
        if is_first {
            self.flags.insert(0, PROOF.into());
        }
        let failed = |source| GitError::Spawn { command: self.subcommand.to_owned(), source };
        let mut command = self.command();
        // Most commands are told nothing, and need no thread that tells them.
        command.stdin(if self.input.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let output = command.spawn().and_then(|child| feed(child, &self.input)).map_err(failed)?;
        match output.status.code() {
            Some(NOT_UNDERSTOOD) => self.program.require_version(&self.directory)?,
            Some(_) if is_first => drop(self.program.proven.set(())),
            _ => {}
        }
        let (ms, status) = (started.elapsed().as_millis(), output.status);
        tracing::debug!(target: "norma::git", ms, status = %status, "git {}", self.subcommand);
        tracing::trace!(target: "norma::git", dir = %self.directory.display(), arguments = ?self.arguments, "git {}", self.subcommand);
        Ok(output)
    }
}

/// Writes the input from a second thread, so that a child which answers before it has read everything
/// cannot block both sides.
fn feed(mut child: Child, input: &[u8]) -> std::io::Result<Output> {
    let Some(mut pipe) = child.stdin.take() else { return child.wait_with_output() };
    std::thread::scope(|scope| {
        // A child that has seen enough closes its end; its exit code tells the story.
        scope.spawn(move || drop(pipe.write_all(input)));
        child.wait_with_output()
    })
}

/// A child's standard error as text for a person: one line, since it becomes part of a sentence.
pub(crate) fn words(stderr: &[u8]) -> String {
    let kept = String::from_utf8_lossy(&stderr[..stderr.len().min(STDERR_BYTES_MAX)]);
    let lines: Vec<&str> = kept.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

/// Splits paths into groups that fit one argument list each.
pub(crate) fn chunks<'a>(paths: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
    let mut groups: Vec<Vec<&[u8]>> = Vec::new();
    let mut bytes = 0;
    for path in paths {
        if groups.is_empty() || bytes + path.len() > ARGUMENT_BYTES_MAX {
            groups.push(Vec::new());
            bytes = 0;
        }
        // The pointer to an argument counts against the limit as well.
        bytes += path.len() + size_of::<usize>() + 1;
        if let Some(group) = groups.last_mut() {
            group.push(path);
        }
    }
    groups
}

fn find_program(path: &OsStr) -> Option<PathBuf> {
    // A relative entry would make the program depend on the directory norma was started in.
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("git"))
        .find(|file| file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_path_without_git_finds_nothing_and_relative_entries_are_skipped() {
        assert_eq!(find_program(OsStr::new("/nonexistent:.:bin")), None);
    }

    #[test]
    fn paths_are_split_into_groups_that_fit_an_argument_list() {
        let long = vec![b'x'; ARGUMENT_BYTES_MAX / 2];
        let groups = chunks(&[&long, &long, &long]);
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 3);
        assert!(groups.len() >= 2);
        assert!(chunks(&[]).is_empty());
    }
}
