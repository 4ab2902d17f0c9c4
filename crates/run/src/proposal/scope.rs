//! Which files may change: those that the sentence names by their path; else those that it points at most strongly, as far
//! as they are a small share of the tree; else the sources; else the whole tree. Tests go with what they test.

use super::rank::{Evidence, Ranked, bare_stem, rank};
use super::words::{looks_like_a_file, tokens};
use super::{Facts, SHARE_PERCENT, holds, is_test, is_wide, parent};
use std::collections::BTreeSet;

/// A name that more files have than this means none of them in particular.
const NAMED_MAX: usize = 8;

/// However small the repository is, this many files may be proposed.
const FILES_MIN: usize = 5;

/// However large it is, no more: nobody reads a longer list.
const ENTRIES_MAX: usize = 100;

/// A directory for new files takes no more than this share of what may be proposed.
const DIRECTORY_PERCENT_MAX: usize = 50;

/// Endings of files that are written by hand.
const SOURCES: &[&str] = &[
    "py", "js", "jsx", "ts", "tsx", "mjs", "rs", "go", "c", "h", "cc", "cpp", "hpp", "java", "kt", "rb", "php", "cs",
    "swift", "scala", "ex", "exs", "sh", "lua", "vue", "svelte", "html", "css",
];

/// Endings of other files that a sentence may ask for.
const WRITTEN: &[&str] = &["md", "rst", "txt", "json", "yaml", "yml", "toml", "xml", "sql", "csv", "ini", "cfg"];

/// Directories in which tests of a whole project lie.
const TEST_DIRECTORIES: [&str; 4] = ["tests", "test", "spec", "__tests__"];

/// A proposed scope.
pub(super) struct Scope {
    /// The likeliest first; none means the whole tree.
    pub(super) allow: Vec<String>,
    pub(super) because: &'static str,
    /// Whether nothing but habit speaks for it, so that somebody should be asked.
    pub(super) is_a_guess: bool,
}

impl Scope {
    fn guess(allow: Vec<String>, because: &'static str) -> Scope {
        Scope { allow, because, is_a_guess: true }
    }
}

/// Proposes a scope that holds at most this share of the tree, where the sentence names no path.
pub(super) fn propose(sentence: &str, facts: &Facts, share_percent: Option<u8>) -> Scope {
    let named = named_paths(sentence, facts);
    // A new file at the root may be meant, or something else that is written like one.
    let is_meant = |path: &String| path.contains('/') || is_there(path, facts);
    if share_percent.is_none() && named.iter().any(is_meant) {
        for allow in [with_tests(&named, facts), named.into_iter().collect()] {
            if !is_wide(&allow, facts) {
                return Scope { allow, because: "you named it", is_a_guess: false };
            }
        }
        // More than half of a small repository: nothing is said by it.
        return Scope::guess(Vec::new(), "a small repository");
    }
    let ranked = rank(sentence, facts);
    let (mut allow, best) = likeliest(&ranked, &named, facts, share_percent);
    if share_percent.is_none() && !allow.is_empty() && allow.iter().all(|path| is_test(path)) {
        allow.splice(0..0, tested(&ranked, facts));
    }
    let new: Vec<String> = named.into_iter().filter(|path| !is_there(path, facts)).collect();
    let because = match best {
        _ if !new.is_empty() => Some("you named it"),
        Some(evidence) => because(&evidence),
        None => None,
    };
    allow.splice(0..0, new);
    match (allow.is_empty(), because) {
        (false, Some(because)) => Scope { allow, because, is_a_guess: false },
        (false, None) if !facts.history.is_empty() => Scope::guess(allow, "what changes most often here"),
        _ => {
            let sources = sources(facts);
            match sources.is_empty() || is_wide(&sources, facts) {
                true => Scope::guess(Vec::new(), "nothing narrower is named"),
                false => Scope::guess(sources, "where the sources and tests are"),
            }
        }
    }
}

/// What tests are about, where only they were found: they are named after what is wanted more often than sources are.
fn tested(ranked: &Ranked<'_>, facts: &Facts) -> Option<String> {
    let is_source =
        |file: &str| !is_test(file) && file.rsplit_once('.').is_some_and(|(_, ending)| SOURCES.contains(&ending));
    let best = ranked.files.iter().map(|(file, _)| *file).find(|file| is_source(file));
    let any = || facts.files.iter().map(String::as_str).find(|file| is_source(file));
    best.or_else(any).map(str::to_owned)
}

/// What speaks most for the best of the files; nothing if it is habit.
fn because(evidence: &Evidence) -> Option<&'static str> {
    let kinds = [
        (evidence.named, "named after what you want"),
        (evidence.owned, "by CODEOWNERS"),
        (evidence.history, "as in earlier commits about it"),
        (evidence.text, "they speak of what you want"),
    ];
    let best = kinds.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|_| evidence.said() > evidence.sum() / 2.0).map(|(_, because)| because)
}

/// As many of the likeliest files, and of the directories in which new ones may be made, as may be proposed; and the evidence
/// for the best of them.
fn likeliest(
    ranked: &Ranked<'_>,
    named: &BTreeSet<String>,
    facts: &Facts,
    share_percent: Option<u8>,
) -> (Vec<String>, Option<Evidence>) {
    let all = facts.files.len();
    let (share, least) = share_percent.map_or((SHARE_PERCENT, FILES_MIN), |share| (share, 1));
    let most = (all * usize::from(share) / 100).max(least.min(all / 2));
    let entries_max = if share_percent.is_some() { usize::MAX } else { ENTRIES_MAX };
    let is_file = |path: &str| facts.files.binary_search_by(|file| file.as_str().cmp(path)).is_ok();
    let here = named.iter().filter(|path| is_file(path)).map(|path| (f64::MAX, path.as_str()));
    let files = ranked.files.iter().map(|(file, evidence)| (evidence.sum(), *file));
    let fits = |(directory, _): &&(String, f64)| {
        !directory.is_empty() && (1..=most * DIRECTORY_PERCENT_MAX / 100).contains(&below(directory, facts).count())
    };
    let directories = ranked.directories.iter().filter(fits).map(|(directory, weight)| (*weight, directory.as_str()));
    let mut candidates: Vec<(f64, &str)> = here.chain(files).chain(directories).collect();
    candidates.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.cmp(other)));
    let (mut held, mut allow) = (BTreeSet::new(), Vec::<String>::new());
    for (_, path) in candidates {
        let adds: Vec<&str> = match is_file(path) {
            true => vec![path],
            false => below(path, facts).filter(|file| !held.contains(file)).collect(),
        };
        let is_held = is_file(path) && held.contains(path);
        if is_held || held.len() + adds.len() > most || allow.len() >= entries_max {
            continue;
        }
        if !is_file(path) {
            allow.retain(|other| !holds(path, other));
        }
        held.extend(adds);
        allow.push(path.to_owned());
    }
    (allow, ranked.files.first().map(|(_, evidence)| *evidence))
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
        match there.is_empty() && could_be_made(path, facts) {
            true => drop(found.insert(path.to_owned())),
            false => found.extend(there),
        }
    }
    found
}

/// Whether a path is one of a new file: `import.meta` is written like one, but is none.
fn could_be_made(path: &str, facts: &Facts) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_known = SOURCES.contains(&ending) || WRITTEN.contains(&ending);
    looks_like_a_file(path) && has_directory(parent(path), facts) && is_known
}

/// The files and directories whose path ends so; exactly this one where it is there. People do not mind case in a sentence.
fn existing(path: &str, facts: &Facts) -> Vec<String> {
    if is_there(path, facts) {
        return vec![path.to_owned()];
    }
    let ends = |whole: &str| {
        let rest = whole.len().checked_sub(path.len()).filter(|at| whole.is_char_boundary(*at));
        rest.is_some_and(|at| whole[at..].eq_ignore_ascii_case(path) && (at == 0 || whole[..at].ends_with('/')))
    };
    let files: Vec<String> = facts.files.iter().filter(|file| ends(file)).cloned().collect();
    let directories: BTreeSet<String> =
        facts.files.iter().flat_map(|file| above(file)).filter(|dir| ends(dir)).collect();
    let found: Vec<String> = if files.is_empty() { directories.into_iter().collect() } else { files };
    if found.len() > NAMED_MAX { Vec::new() } else { found }
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

/// The files that lie in a directory.
fn below<'f>(directory: &'f str, facts: &'f Facts) -> impl Iterator<Item = &'f str> {
    facts.files.iter().map(String::as_str).filter(move |file| holds(directory, file))
}

fn is_there(path: &str, facts: &Facts) -> bool {
    has_directory(path, facts) || facts.files.iter().any(|file| file == path)
}

fn has_directory(path: &str, facts: &Facts) -> bool {
    path.is_empty() || facts.files.iter().any(|file| file.len() > path.len() && holds(path, file))
}

/// The directories that a file lies in.
fn above(file: &str) -> impl Iterator<Item = String> + '_ {
    file.match_indices('/').map(|(at, _)| file[..at].to_owned())
}
