//! Which files may change: those that the sentence names, by path, by name or by directory; else those that owners or
//! earlier commits connect with its words; else the sources; else the whole tree. Tests go with what they test.

use super::words::{looks_like_a_file, tokens, words};
use super::{Facts, holds, is_test, is_wide, name, parent};
use std::collections::{BTreeMap, BTreeSet};

/// A word that names more files than this names none of them in particular.
const NAMED_MAX: usize = 8;

/// How many words of a sentence a commit must share with it.
const SHARED_WORDS_MIN: usize = 2;

/// Endings of files that are written by hand.
const SOURCES: &[&str] = &[
    "py", "js", "jsx", "ts", "tsx", "mjs", "rs", "go", "c", "h", "cc", "cpp", "hpp", "java", "kt", "rb", "php", "cs",
    "swift", "scala", "ex", "exs", "sh", "lua", "vue", "svelte", "html", "css",
];

/// Directories in which tests of a whole project lie.
const TEST_DIRECTORIES: [&str; 4] = ["tests", "test", "spec", "__tests__"];

/// One way to connect a sentence with paths.
type Find = fn(&str, &Facts) -> BTreeSet<String>;

/// The paths, and where they come from; no path means the whole tree.
pub(super) fn propose(sentence: &str, facts: &Facts) -> (Vec<String>, String) {
    let levels: [(Find, &str); 4] = [
        (named_paths, "you named it"),
        (named_files, "named after what you want"),
        (owned, "by CODEOWNERS"),
        (in_history, "as in earlier commits about it"),
    ];
    for (find, because) in levels {
        let found = find(sentence, facts);
        if found.is_empty() {
            continue;
        }
        for allow in [with_tests(&found, facts), found.into_iter().collect()] {
            if !is_wide(&allow, facts) {
                return (allow, because.to_owned());
            }
        }
        // More than half of a small repository: nothing is said by it.
        return (Vec::new(), "a small repository".to_owned());
    }
    let sources = sources(facts);
    match sources.is_empty() || is_wide(&sources, facts) {
        true => (Vec::new(), "nothing narrower is named".to_owned()),
        false => (sources, "where the sources and tests are".to_owned()),
    }
}

/// What the sentence spells as a path: a file or directory that is there, or a new file.
fn named_paths(sentence: &str, facts: &Facts) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for token in tokens(sentence) {
        let path = token.trim_start_matches("./").trim_start_matches('/').trim_end_matches('/');
        let is_path = token.contains('/') || looks_like_a_file(token) || facts.files.iter().any(|file| file == path);
        if path.is_empty() || !is_path {
            continue;
        }
        let there = existing(path, facts);
        match there.is_empty() && looks_like_a_file(path) && has_directory(parent(path), facts) {
            true => drop(found.insert(path.to_owned())),
            false => found.extend(there),
        }
    }
    found
}

/// The files and directories whose path ends so; exactly this one where it is there.
fn existing(path: &str, facts: &Facts) -> Vec<String> {
    if has_directory(path, facts) || facts.files.iter().any(|file| file == path) {
        return vec![path.to_owned()];
    }
    let ends = |whole: &str| whole.strip_suffix(path).is_some_and(|before| before.ends_with('/'));
    let files: Vec<String> = facts.files.iter().filter(|file| ends(file)).cloned().collect();
    let directories: BTreeSet<String> =
        facts.files.iter().flat_map(|file| above(file)).filter(|dir| ends(dir)).collect();
    let found: Vec<String> = if files.is_empty() { directories.into_iter().collect() } else { files };
    if found.len() > NAMED_MAX { Vec::new() } else { found }
}

/// Files and directories that have a word of the sentence for a name.
fn named_files(sentence: &str, facts: &Facts) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in words(sentence) {
        let singular = word.strip_suffix('s').unwrap_or(&word);
        let is_named = |file: &&String| {
            let bare = bare_stem(file);
            bare == word || bare == singular
        };
        let files: Vec<&String> = facts.files.iter().filter(is_named).collect();
        let sources: Vec<&String> = files.iter().copied().filter(|file| !is_test(file)).collect();
        // A test alone is named where what it tests is not: the sentence means something else.
        if !sources.is_empty() && sources.len() <= NAMED_MAX {
            found.extend(sources.into_iter().cloned());
            continue;
        }
        let directories: BTreeSet<String> =
            facts.files.iter().flat_map(|file| above(file)).filter(|dir| name(dir).to_lowercase() == word).collect();
        if files.is_empty() && directories.len() <= NAMED_MAX {
            found.extend(directories.into_iter().filter(|dir| !is_test(&format!("{dir}/x"))));
        }
    }
    found
}

/// What a team or a line of CODEOWNERS that a word names owns.
fn owned(sentence: &str, facts: &Facts) -> BTreeSet<String> {
    let (words, mut found) = (words(sentence), BTreeSet::new());
    for line in facts.owners.iter().flat_map(|text| text.lines()) {
        let mut parts = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(pattern) = parts.next() else { continue };
        let path = pattern.trim_matches('/').trim_end_matches("/*").trim_end_matches("/**");
        let team = |owner: &str| owner.rsplit('/').next().unwrap_or_default().trim_start_matches('@').to_lowercase();
        let is_named = parts.map(team).any(|team| team.split(['-', '_']).any(|part| words.iter().any(|it| it == part)));
        let is_there = !path.contains('*') && facts.files.iter().any(|file| holds(path, file));
        if is_named && is_there {
            found.insert(path.to_owned());
        }
    }
    found
}

/// The files of earlier commits whose subjects share words with the sentence, as far as they are still there.
fn in_history(sentence: &str, facts: &Facts) -> BTreeSet<String> {
    let wanted = words(sentence);
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for commit in &facts.history {
        let said = words(&commit.subject);
        if wanted.iter().filter(|word| said.contains(word)).count() < SHARED_WORDS_MIN {
            continue;
        }
        for file in commit.files.iter().filter(|file| facts.files.binary_search(file).is_ok()) {
            *counts.entry(file).or_default() += 1;
        }
    }
    let mut ranked: Vec<(&String, usize)> = counts.into_iter().collect();
    ranked.sort_by_key(|(file, count)| (usize::MAX - count, *file));
    ranked.into_iter().take(NAMED_MAX).map(|(file, _)| file.clone()).collect()
}

/// The directories with sources, and the sources at the root.
fn sources(facts: &Facts) -> Vec<String> {
    let is_source = |file: &&String| file.rsplit_once('.').is_some_and(|(_, ending)| SOURCES.contains(&ending));
    let top = |file: &String| file.split_once('/').map_or(file.clone(), |(top, _)| top.to_owned());
    let found: BTreeSet<String> =
        facts.files.iter().filter(is_source).filter(|file| !file.starts_with('.')).map(top).collect();
    found.into_iter().collect()
}

/// The same with the tests that go with it: those named after it, the test that would lie beside it, and where a project
/// keeps all of them.
fn with_tests(found: &BTreeSet<String>, facts: &Facts) -> Vec<String> {
    let is_code = |path: &&String| path.rsplit_once('.').is_some_and(|(_, ending)| SOURCES.contains(&ending));
    let code: Vec<&String> = found.iter().filter(is_code).collect();
    let mut all = found.clone();
    for file in &code {
        all.extend(facts.files.iter().filter(|test| is_test(test) && bare_stem(test) == bare_stem(file)).cloned());
        if let Some(stem) = file.strip_suffix(".go").filter(|stem| !stem.ends_with("_test")) {
            all.insert(format!("{stem}_test.go"));
        }
    }
    let holds_code =
        |path: &String| facts.files.iter().filter(|file| *file != path && holds(path, file)).any(|file| is_code(&file));
    if !code.is_empty() || found.iter().any(holds_code) {
        all.extend(TEST_DIRECTORIES.iter().filter(|dir| has_directory(dir, facts)).map(|dir| (*dir).to_owned()));
    }
    let inside = |path: &String| all.iter().any(|other| other != path && holds(other, path));
    all.iter().filter(|path| !inside(path)).cloned().collect()
}

/// The name of a file without its endings and without what says that it is a test.
fn bare_stem(path: &str) -> String {
    let name = name(path).to_lowercase();
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    let stem = stem.strip_prefix("test_").unwrap_or(stem);
    stem.strip_suffix("_test").unwrap_or(stem).to_owned()
}

fn has_directory(path: &str, facts: &Facts) -> bool {
    path.is_empty() || facts.files.iter().any(|file| file.len() > path.len() && holds(path, file))
}

/// The directories that a file lies in.
fn above(file: &str) -> impl Iterator<Item = String> + '_ {
    file.match_indices('/').map(|(at, _)| file[..at].to_owned())
}
