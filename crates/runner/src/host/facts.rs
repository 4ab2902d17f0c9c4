//! What a proposal is made of, read from the commit that a run would start from, and from what is installed beside it.
//! Nothing is started but git, and nothing is written. What is decided with it is `run::proposal`'s.

use crate::context::confinement::level;
use crate::git::{ObjectId, Objects};
use crate::workspace::{builds, dependencies};
use crate::{Context, Result, process};
use contract::policy::FoldedPath;
use contract::{Policies, RepoPath};
use run::proposal::{Commit, Facts, MANIFESTS, OWNERS, PROGRAMS, searched};
use std::ffi::OsStr;
use std::path::Path;

/// Most files that are looked at: a sentence names one of a larger tree by its path as well.
const FILES_MAX: usize = 100_000;

/// How deep manifests are looked for.
const MANIFEST_DEPTH_MAX: usize = 1;

/// How many files that hold tests are read.
const TEST_TEXTS_MAX: usize = 8;

/// Manifests are small.
const TEXT_BYTES_MAX: u64 = 256 << 10;

/// How many of the last commits are looked at.
const COMMITS_MAX: u32 = 500;

/// A larger tree is not searched for words: a person waits for the proposal.
const SEARCHED_FILES_MAX: usize = 20_000;

/// Reads the facts about a tree, with what is known of installed dependencies.
pub(crate) fn read_facts(context: &Context, objects: &Objects, tree: ObjectId) -> Result<(Facts, Vec<String>)> {
    let (mut files, mut wanted) = (Vec::new(), Vec::new());
    let mut tests = 0;
    objects.walk(tree, &mut |path, mode, blob| {
        let Ok(path) = std::str::from_utf8(path) else { return };
        if files.len() < FILES_MAX {
            files.push(path.to_owned());
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_manifest = MANIFESTS.contains(&name) && path.matches('/').count() <= MANIFEST_DEPTH_MAX;
        let is_test = name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"));
        tests += usize::from(is_test);
        let is_regular = mode & 0o170_000 == 0o100_000;
        if is_regular && (is_manifest || OWNERS.contains(&path) || (is_test && tests <= TEST_TEXTS_MAX)) {
            wanted.push((path.to_owned(), blob));
        }
    })?;
    files.sort();
    let mut facts = Facts { files, ..Facts::default() };
    for (path, blob) in wanted {
        if objects.size(blob)? <= TEXT_BYTES_MAX {
            let text = String::from_utf8_lossy(&objects.read_blob(blob)?).into_owned();
            facts.texts.insert(path, text);
        }
    }
    facts.owners = OWNERS.iter().find_map(|path| facts.texts.remove(*path));
    // Only helps to choose, so that a history that cannot be read (a shallow clone's end) is none.
    facts.history = history(context).unwrap_or_default();
    let path = context.agent_env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let outside = |program: &&&str| {
        let found = process::resolve(program, &path, &context.layout.root);
        found.is_some_and(|found| !found.starts_with(&context.layout.root))
    };
    facts.programs = PROGRAMS.iter().filter(outside).map(|program| (*program).to_owned()).collect();
    let found = dependencies::find(&context.user, objects, tree)?;
    for shown in &found.shown {
        if let Ok(inside) = shown.strip_prefix(&context.layout.root) {
            facts.installed.extend(installed(shown, inside));
        }
    }
    let builds = builds::find(&context.user, &context.layout.state, level(&context.sandbox)?);
    Ok((facts, found.left_out.into_iter().chain(builds.left_out).collect()))
}

/// A directory of dependencies, and the programs in it that tests are run with.
fn installed(directory: &Path, inside: &Path) -> Vec<String> {
    let programs = ["bin/python", "bin/pytest"].map(Path::new);
    let there = programs.into_iter().filter(|program| directory.join(program).is_file()).map(|it| inside.join(it));
    let all = there.chain([inside.to_owned()]);
    all.filter_map(|path| path.into_os_string().into_string().ok()).collect()
}

/// Adds what only a sentence asks for: which files speak of it, and which of the tree's files policy protects.
pub(crate) fn read_for(sentence: &str, context: &Context, tree: ObjectId, policies: &Policies, facts: &mut Facts) {
    let protected = |file: &&String| {
        RepoPath::parse(file)
            .is_ok_and(|path| policies.protected_paths().covering(&FoldedPath::new(&path)).next().is_some())
    };
    facts.protected = facts.files.iter().filter(protected).cloned().collect();
    if facts.files.len() > SEARCHED_FILES_MAX {
        return;
    }
    for word in searched(sentence) {
        // As with the history: what cannot be read, such as objects that a partial clone lacks, speaks of nothing.
        let files = context.user.files_with(&word, tree).unwrap_or_default();
        facts.mentions.insert(word, files);
    }
}

/// The last commits with what they changed.
fn history(context: &Context) -> Result<Vec<Commit>> {
    let text = context.user.recent_changes(COMMITS_MAX)?;
    let commits = text.split('\u{1}').filter(|part| !part.trim().is_empty());
    Ok(commits.map(commit).collect())
}

/// One of them: its subject, then how each path was changed and the path.
fn commit(text: &str) -> Commit {
    let mut parts = text.split('\0');
    let mut commit = Commit { subject: parts.next().unwrap_or_default().trim().to_owned(), ..Commit::default() };
    while let (Some(how), Some(path)) = (parts.next(), parts.next()) {
        if how.trim() == "A" {
            commit.added.push(path.to_owned());
        }
        commit.files.push(path.to_owned());
    }
    commit
}
