//! How strongly a sentence points at each file. Evidence adds up: names of files and directories, what CODEOWNERS says, the
//! text of files, earlier commits about the same, files that change together, tests of a file, and what changes often
//! anyway. The weights were found by measuring proposals for commits of public repositories (docs/run.md).

use super::words::{is_identifier, stems, words};
use super::{Commit, Facts, holds, is_test, name, parent};
use std::collections::{BTreeMap, BTreeSet};

/// A word of the sentence in the name of a file.
const IN_NAME: f64 = 3.0;
/// A word of the sentence in the name of a directory that it lies in.
const IN_DIRECTORY: f64 = 1.0;
/// All that earlier commits about the same changed it.
const IN_HISTORY: f64 = 4.0;
/// A word of the sentence in its text: one that is written as code is, and another one.
const IN_TEXT: (f64, f64) = (2.0, 1.0);
/// The same for a file that nothing else points at.
const ONLY_IN_TEXT: f64 = 0.3;
/// What CODEOWNERS connects with a word.
const OWNED: f64 = 2.0;
/// That every recent commit changed it.
const HABIT: f64 = 1.0;

/// After this many commits, one counts half: as a habit, and as one about the same.
const HALF_LIFE: (f64, f64) = (100.0, 400.0);
/// So much more similar must commits be in all, for their files to count whole.
const DOUBT: f64 = 0.3;
/// A word that is in more than this share of the files points at none.
const TEXT_SHARE_MAX: f64 = 0.3;
/// How many of the best files have others that change with them, and how many have tests.
const LEADERS: (usize, usize) = (5, 10);
/// No file passes on more than this.
const PASSED_ON_MAX: f64 = 3.0;
/// What of its evidence a file passes on to its tests.
const TO_TESTS: f64 = 0.5;
/// A file has changed so often beside another before that counts whole.
const TOGETHER_DOUBT: f64 = 2.0;
/// A commit that changes more than this share of the tree, and more than some, is about none of its files in particular.
const SWEEPING: (f64, f64) = (0.1, 5.0);
/// A protected file is proposed only where its name, or this much of the commits about the same, points at it.
const PROTECTED_MIN: f64 = 0.5 * IN_HISTORY;

/// Words that mean what files of another name hold.
const ALIASES: &[(&str, &[&str])] = &[
    ("ci", &["workflow"]),
    ("doc", &["readm"]),
    ("docs", &["doc", "readm"]),
    ("document", &["doc", "readm"]),
    ("documentation", &["doc", "readm"]),
];

/// Why a file is where it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evidence {
    pub(super) named: f64,
    pub(super) owned: f64,
    pub(super) history: f64,
    pub(super) text: f64,
    /// What other files pass on to it.
    beside: f64,
    habit: f64,
}

impl Evidence {
    /// What the sentence itself says.
    pub(super) fn said(&self) -> f64 {
        self.named + self.owned + self.history + self.text
    }

    pub(super) fn sum(&self) -> f64 {
        self.said() + self.beside + self.habit
    }
}

/// Files that a sentence points at, the likeliest first, and directories in which it may make new ones.
pub(super) struct Ranked<'f> {
    pub(super) files: Vec<(&'f str, Evidence)>,
    pub(super) directories: Vec<(String, f64)>,
}

/// Ranks the files of a repository.
pub(super) fn rank<'f>(sentence: &str, facts: &'f Facts) -> Ranked<'f> {
    let sweeping = SWEEPING.0 * facts.files.len() as f64 + SWEEPING.1;
    let history: Vec<(f64, &Commit)> = (0..).map(f64::from).zip(&facts.history).collect();
    let history: Vec<(f64, &Commit)> =
        history.into_iter().filter(|(_, it)| it.files.len() as f64 <= sweeping).collect();
    let mut ranking = Ranking { facts, files: BTreeMap::new(), directories: BTreeMap::new() };
    let said = words(sentence);
    ranking.by_habit(&history);
    ranking.by_history(&said, &history);
    ranking.by_name(&said);
    ranking.by_owner(&said);
    ranking.by_text();
    ranking.by_company(&history);
    ranking.by_tests();
    let may_be = |(file, it): &(&str, Evidence)| {
        !facts.protected.contains(*file) || it.named > 0.0 || it.history >= PROTECTED_MIN
    };
    let mut files = ranking.ranked();
    files.retain(may_be);
    Ranked { files, directories: ranking.directories.into_iter().collect() }
}

struct Ranking<'f> {
    facts: &'f Facts,
    files: BTreeMap<&'f str, Evidence>,
    directories: BTreeMap<String, f64>,
}

impl<'f> Ranking<'f> {
    fn of(&mut self, file: &str) -> Option<&mut Evidence> {
        let at = self.facts.files.binary_search_by(|it| it.as_str().cmp(file)).ok()?;
        Some(self.files.entry(&self.facts.files[at]).or_default())
    }

    fn ranked(&self) -> Vec<(&'f str, Evidence)> {
        let mut all: Vec<(&str, Evidence)> = self.files.iter().map(|(file, it)| (*file, *it)).collect();
        all.sort_by(|(a, x), (b, y)| y.sum().total_cmp(&x.sum()).then(a.cmp(b)));
        all
    }

    /// Gives the files of commits, and the directories of those that they made, their share of a weight.
    fn spread(&mut self, weight: f64, commits: &[(f64, &Commit)], doubt: f64, give: fn(&mut Evidence) -> &mut f64) {
        let all: f64 = commits.iter().map(|(share, _)| share).sum::<f64>() + doubt;
        for (share, commit) in commits {
            let share = weight * share / all;
            for file in &commit.files {
                if let Some(evidence) = self.of(file) {
                    *give(evidence) += share;
                }
            }
            for file in &commit.added {
                *self.directories.entry(parent(file).to_owned()).or_default() += share;
            }
        }
    }

    fn by_habit(&mut self, history: &[(f64, &Commit)]) {
        let weighed: Vec<(f64, &Commit)> = history.iter().map(|(age, it)| (halved(*age, HALF_LIFE.0), *it)).collect();
        self.spread(HABIT, &weighed, f64::EPSILON, |it| &mut it.habit);
    }

    /// Earlier commits count by how many rare words their subjects share with the sentence.
    fn by_history(&mut self, said: &[String], history: &[(f64, &Commit)]) {
        let subjects: Vec<Vec<String>> = history.iter().map(|(_, commit)| words(&commit.subject)).collect();
        let mut common: BTreeMap<&str, usize> = BTreeMap::new();
        subjects.iter().flatten().for_each(|word| *common.entry(word).or_default() += 1);
        let rare = |word: &String| {
            let seen = common.get(word.as_str()).copied().unwrap_or_default();
            libm::log1p((history.len() + 1) as f64 / (1 + seen) as f64)
        };
        let whole: f64 = said.iter().map(rare).sum();
        let alike = |subject: &Vec<String>| {
            let shared: f64 = subject.iter().filter(|word| said.contains(word)).map(rare).sum();
            if shared == 0.0 { 0.0 } else { shared * shared / (whole * subject.iter().map(rare).sum::<f64>()) }
        };
        let weighed = history.iter().zip(&subjects);
        let weighed = weighed.map(|((age, commit), subject)| (alike(subject) * halved(*age, HALF_LIFE.1), *commit));
        let weighed: Vec<(f64, &Commit)> = weighed.filter(|(share, _)| *share > 0.0).collect();
        self.spread(IN_HISTORY, &weighed, DOUBT, |it| &mut it.history);
    }

    fn by_name(&mut self, said: &[String]) {
        let mut meant: Vec<(&str, f64)> = said.iter().map(|word| (word.as_str(), 1.0)).collect();
        for (_, others) in ALIASES.iter().filter(|(word, _)| said.iter().any(|it| it == word)) {
            meant.extend(others.iter().map(|other| (*other, 0.7)));
        }
        let facts = self.facts;
        let names: Vec<Name> = facts.files.iter().map(|file| Name::of(file)).collect();
        let mut common: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &names {
            name.stem.union(&name.directories).for_each(|word| *common.entry(word).or_default() += 1);
        }
        let all = facts.files.len();
        for (file, name) in facts.files.iter().zip(&names) {
            let points = |(word, weight): &(&str, f64)| {
                let telling = telling(common.get(word).copied().unwrap_or_default(), all);
                match () {
                    // The more else a name says, the less it is about this word.
                    () if name.stem.contains(*word) => {
                        weight * IN_NAME * telling * (0.4 + 0.6 / name.stem.len() as f64)
                    }
                    () if name.directories.contains(*word) => weight * IN_DIRECTORY * telling,
                    () => 0.0,
                }
            };
            let found: f64 = meant.iter().map(points).sum();
            if found > 0.0 {
                self.files.entry(file).or_default().named += found;
            }
        }
    }

    /// What a team or a line of CODEOWNERS that a word names owns.
    fn by_owner(&mut self, said: &[String]) {
        let facts = self.facts;
        for line in facts.owners.iter().flat_map(|text| text.lines()) {
            let mut parts = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(pattern) = parts.next().filter(|pattern| !pattern.trim_matches(['/', '*']).is_empty()) else {
                continue;
            };
            let path = pattern.trim_matches('/').trim_end_matches("/*").trim_end_matches("/**");
            let team = |owner: &str| owner.rsplit('/').next().unwrap_or_default().trim_start_matches('@').to_owned();
            let is_named = parts.any(|owner| stems(&team(owner)).any(|part| said.contains(&part)));
            if is_named && !path.contains('*') {
                let owned = facts.files.iter().filter(|file| holds(path, file));
                owned.for_each(|file| self.files.entry(file).or_default().owned = OWNED);
            }
        }
    }

    fn by_text(&mut self) {
        let all = self.facts.files.len();
        for (word, files) in &self.facts.mentions {
            if files.is_empty() || files.len() as f64 > TEXT_SHARE_MAX * all as f64 {
                continue;
            }
            let weight = if is_identifier(word) { IN_TEXT.0 } else { IN_TEXT.1 };
            for file in files {
                let known = self.files.contains_key(file.as_str());
                if let Some(evidence) = self.of(file) {
                    evidence.text += weight * telling(files.len(), all) * if known { 1.0 } else { ONLY_IN_TEXT };
                }
            }
        }
    }

    /// What changes with the best files is likely to change with them again.
    fn by_company(&mut self, history: &[(f64, &Commit)]) {
        let mut passed: BTreeMap<&str, f64> = BTreeMap::new();
        for (leader, evidence) in self.ranked().into_iter().take(LEADERS.0) {
            let (mut times, mut together) = (0.0, BTreeMap::<&str, f64>::new());
            for (_, commit) in history.iter().filter(|(_, it)| it.files.iter().any(|file| file == leader)) {
                times += 1.0;
                let others = commit.files.iter().filter(|file| *file != leader);
                others.for_each(|file| *together.entry(file).or_default() += 1.0);
            }
            for (file, shared) in together {
                let share = evidence.sum().min(PASSED_ON_MAX) * shared / (times + TOGETHER_DOUBT);
                let most = passed.entry(file).or_default();
                *most = most.max(share);
            }
        }
        for (file, share) in passed {
            if let Some(evidence) = self.of(file) {
                evidence.beside += share;
            }
        }
    }

    /// Tests of the best files, and what the best tests test.
    fn by_tests(&mut self) {
        let facts = self.facts;
        let mut same: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        facts.files.iter().for_each(|file| same.entry(bare_stem(file)).or_default().push(file));
        for (leader, evidence) in self.ranked().into_iter().take(LEADERS.1) {
            let others = same.get(&bare_stem(leader)).into_iter().flatten();
            for file in others.filter(|file| is_test(file) != is_test(leader)) {
                self.files.entry(file).or_default().beside += TO_TESTS * evidence.sum().min(PASSED_ON_MAX);
            }
        }
    }
}

/// The words of a path.
struct Name {
    stem: BTreeSet<String>,
    directories: BTreeSet<String>,
}

impl Name {
    fn of(path: &str) -> Name {
        let name = name(path);
        let stem = if name.starts_with('.') { name } else { name.split('.').next().unwrap_or_default() };
        Name { stem: stems(stem).collect(), directories: stems(parent(path)).collect() }
    }
}

/// How much less something counts that is so many commits old.
fn halved(age: f64, half_life: f64) -> f64 {
    libm::exp2(-age / half_life)
}

/// How much it says that this many of all files have something: 1 for none of them, next to nothing for all.
fn telling(have: usize, all: usize) -> f64 {
    let all = all as f64;
    libm::log1p(all / (1 + have) as f64) / libm::log1p(all)
}

/// The name of a file without its endings and without what says that it is a test.
pub(super) fn bare_stem(path: &str) -> String {
    let name = name(path).to_lowercase();
    let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
    let stem = ["test_", "spec_", "test-"].iter().find_map(|mark| stem.strip_prefix(mark)).unwrap_or(stem);
    let marks = ["_test", "_spec", "-test", "tests", "test"];
    let bare = marks.iter().find_map(|mark| stem.strip_suffix(mark)).filter(|bare| !bare.is_empty());
    bare.unwrap_or(stem).to_owned()
}
