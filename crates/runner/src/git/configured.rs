//! What the user's git configuration would have git run: content filters, and paths of the repository that it names.
//!
//! norma runs none of it. An agent may change tracked files, a filter may be one of them, and whatever git starts is
//! outside of every sandbox. So norma's git never converts through a filter, a file that goes through one is left to the
//! user's own git, and a path that the configuration names is protected from agents.

use super::repository::{Filters, Repository};
use super::tree::TreeChange;
use super::{GitError, ObjectId, Objects};
use contract::RepoPath;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What the value of a setting is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// A command line.
    Command,
    /// A file or directory, from the root of the work tree.
    Path,
    /// A file of settings, from the one that names it.
    Settings,
}

/// The settings by which git runs something or reads more settings; `*` stands for the part in the middle.
const SETTINGS: &[(&str, Value)] = &[
    ("include.path", Value::Settings),
    ("includeif.*.path", Value::Settings),
    ("core.hookspath", Value::Path),
    ("core.attributesfile", Value::Path),
    ("init.templatedir", Value::Path),
    ("gpg.ssh.allowedsignersfile", Value::Path),
    ("core.fsmonitor", Value::Command),
    ("core.editor", Value::Command),
    ("core.pager", Value::Command),
    ("core.askpass", Value::Command),
    ("core.sshcommand", Value::Command),
    ("core.gitproxy", Value::Command),
    ("core.alternaterefscommand", Value::Command),
    ("sequence.editor", Value::Command),
    ("interactive.difffilter", Value::Command),
    ("uploadpack.packobjectshook", Value::Command),
    ("filter.*.clean", Value::Command),
    ("filter.*.smudge", Value::Command),
    ("filter.*.process", Value::Command),
    ("diff.external", Value::Command),
    ("diff.*.command", Value::Command),
    ("diff.*.textconv", Value::Command),
    ("merge.*.driver", Value::Command),
    ("difftool.*.cmd", Value::Command),
    ("difftool.*.path", Value::Command),
    ("mergetool.*.cmd", Value::Command),
    ("mergetool.*.path", Value::Command),
    ("hook.*.command", Value::Command),
    ("trailer.*.command", Value::Command),
    ("trailer.*.cmd", Value::Command),
    ("gpg.program", Value::Command),
    ("gpg.*.program", Value::Command),
    ("gpg.ssh.defaultkeycommand", Value::Command),
    ("credential.helper", Value::Command),
    ("credential.*.helper", Value::Command),
    ("remote.*.uploadpack", Value::Command),
    ("remote.*.receivepack", Value::Command),
    ("submodule.*.update", Value::Command),
    ("alias.*", Value::Command),
    ("pager.*", Value::Command),
];

/// Between the words of a command line, as far as paths in it are concerned.
const BETWEEN_WORDS: &[char] =
    &[' ', '\t', '\n', '"', '\'', '`', ';', '|', '&', '(', ')', '<', '>', '=', '$', '!', ','];

impl Repository {
    /// The paths of this repository that its git configuration, the user's and the machine's name as something to run or
    /// to read settings from, whether they are there or not.
    pub fn named_by_git(&self) -> Result<Vec<RepoPath>, GitError> {
        let listed = self.git("config").args(&["--list", "--show-origin", "--includes", "-z"]).run()?;
        let mut parts = listed.split(|byte| *byte == 0);
        let mut named = BTreeSet::new();
        while let (Some(origin), Some(setting)) = (parts.next(), parts.next()) {
            let end = setting.iter().position(|byte| *byte == b'\n').unwrap_or(setting.len());
            let key = String::from_utf8_lossy(&setting[..end]);
            let value = String::from_utf8_lossy(setting.get(end + 1..).unwrap_or_default());
            named.extend(self.paths_in(&key, &value, origin));
        }
        Ok(named.into_iter().collect())
    }

    fn paths_in(&self, key: &str, value: &str, origin: &[u8]) -> Vec<RepoPath> {
        let Some((_, kind)) = SETTINGS.iter().find(|(pattern, _)| is_setting(pattern, key)) else { return Vec::new() };
        let from = match (kind, origin.strip_prefix(b"file:")) {
            // What git prints is from the directory it was started in.
            (Value::Settings, Some(file)) => self.root.join(OsStr::from_bytes(file)).parent().map(Path::to_owned),
            _ => None,
        };
        let from = from.unwrap_or_else(|| self.root.clone());
        match kind {
            // Without the mark it is another command of git's.
            Value::Command if key.starts_with("alias.") && !value.starts_with('!') => Vec::new(),
            Value::Command => {
                let words = value.split(BETWEEN_WORDS).filter(|word| self.may_be_file(word));
                words.flat_map(|word| self.inside(&from, word)).collect()
            }
            Value::Path | Value::Settings => self.inside(&from, value),
        }
    }

    /// Whether a word of a command line may mean a file of the repository. One without a slash is found on the PATH, unless
    /// it is an argument: then it is a file that is there, or has a name like one.
    fn may_be_file(&self, word: &str) -> bool {
        let at = || self.root.join(word);
        word.contains('/') || at().is_file() || (word.contains('.') && !word.starts_with('-') && !at().is_dir())
    }

    /// A path as the repository calls it: as it is written, and as the links on the way lead.
    fn inside(&self, from: &Path, word: &str) -> Vec<RepoPath> {
        let home = self.environment().home.as_ref().map(Path::new);
        let path = match (word.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => from.join(word),
        };
        let written = without_dots(&path);
        let led = path.canonicalize().ok();
        let below = |path: &PathBuf| {
            let path = path.strip_prefix(&self.root).ok()?;
            RepoPath::parse_bytes(path.as_os_str().as_bytes()).ok()
        };
        [Some(written), led].iter().flatten().filter_map(below).collect()
    }

    /// Files of a change that git would write through a filter, each with the filter's name. Those of filters that leave a
    /// file as it is are none.
    pub(super) fn filtered(
        &self,
        objects: &Objects,
        to: ObjectId,
        changes: &[TreeChange],
        filters: &Filters,
    ) -> Result<BTreeMap<Vec<u8>, String>, GitError> {
        let drivers = filters.smudging();
        let written: Vec<&TreeChange> = changes.iter().filter(|change| change.new.is_some()).collect();
        if drivers.is_empty() || written.is_empty() {
            return Ok(BTreeMap::new());
        }
        let input: Vec<u8> = written.iter().flat_map(|change| [&change.path, &b"\0"[..]].concat()).collect();
        let ask = || self.git("check-attr").args(&["-z", "--stdin"]).input(input.clone());
        let mut answers = vec![ask().arg("filter").run()?, ask().args(&["--cached", "filter"]).run()?];
        if changes.iter().any(|change| change.path.ends_with(b".gitattributes")) {
            // Files are written by the attributes that come with them.
            let index = objects.scratch("attributes-index");
            self.git("read-tree").index(&index.path).id(to).run()?;
            answers.push(ask().index(&index.path).args(&["--cached", "filter"]).run()?);
        }
        let mut filtered = BTreeMap::new();
        for answer in &answers {
            let mut parts = answer.split(|byte| *byte == 0);
            while let (Some(path), Some(_), Some(driver)) = (parts.next(), parts.next(), parts.next()) {
                let driver = String::from_utf8_lossy(driver).into_owned();
                if drivers.contains(&driver) {
                    filtered.insert(path.to_vec(), driver);
                }
            }
        }
        Ok(filtered)
    }
}

impl Filters {
    /// Those that change a file when git writes it.
    fn smudging(&self) -> BTreeSet<String> {
        let mut drivers = BTreeSet::new();
        for (key, command) in &self.settings {
            let (key, command) = (String::from_utf8_lossy(key), String::from_utf8_lossy(command));
            let middle = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'));
            // Some tools that only clean say so with a `cat`.
            if let Some((name, "smudge" | "process")) = middle
                && !matches!(command.trim(), "" | "cat")
            {
                drivers.insert(name.to_owned());
            }
        }
        drivers
    }
}

/// Whether a key, as git prints it, is one of these settings. The part in the middle may have dots of its own.
fn is_setting(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((start, end)) => key.len() > start.len() + end.len() && key.starts_with(start) && key.ends_with(end),
    }
}

/// `a/./b/../c` as `a/c`, whatever is there.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            component => plain.push(component),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_by_their_whole_name() {
        let known = |key: &str| SETTINGS.iter().any(|(pattern, _)| is_setting(pattern, key));
        for key in ["filter.x.clean", "filter.a.b.process", "includeif.gitdir:/x/.path", "core.hookspath", "alias.st"] {
            assert!(known(key), "{key}");
        }
        for key in ["filter.clean", "user.name", "core.bare", "remote.origin.url", "diff.tool"] {
            assert!(!known(key), "{key}");
        }
        assert_eq!(without_dots(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }
}
