//! A patch: what it names, whether it is safe to try, and how it becomes a tree.
//!
//! git applies the hunks; norma decides on what. The headers are read first, to refuse what must not be tried
//! and to learn which paths matter; only those go into a private, partial index. If git should read a header
//! differently than norma did, the result names a path norma did not expect and the patch is refused, so the
//! two parsers need not agree for the result to be safe.

use std::collections::{BTreeMap, BTreeSet};

use super::command::words;
use super::objects::{Objects, Reader};
use super::repository::parse_id;
use super::tree::{self, Edit, Entry, TreeChange};
use super::{GitError, ObjectId};

/// The longest path a patch may name: what Linux accepts for one path.
const PATH_BYTES_MAX: usize = 4096;

/// The deepest path a patch may name. No source tree comes near it, and trees are edited recursively.
const PATH_DEPTH_MAX: usize = 128;

/// How large a patch and its result may be.
#[derive(Debug, Clone, Copy)]
pub struct PatchLimits {
    /// The patch itself.
    pub patch_bytes_max: u64,
    /// The files it makes, all together; a few bytes of "copy from" can ask for gigabytes.
    pub result_bytes_max: u64,
    /// Whether binary sections may be tried.
    pub binary: bool,
}

/// A patch that applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The resulting tree, stored in norma's repository.
    pub tree: ObjectId,
    /// How it differs from the base.
    pub changes: Vec<TreeChange>,
}

/// Why a patch became no tree. Nothing has changed in any of these cases.
#[derive(Debug, thiserror::Error)]
pub enum PatchProblem {
    /// The patch is larger than allowed.
    #[error("the patch has {bytes} bytes, {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The patch has a binary section.
    #[error("the patch has a binary section")]
    Binary,
    /// A binary section is written as a difference, which says nothing of how much it would make.
    #[error("the patch has a binary section that is a delta; it must be a literal")]
    BinaryDelta,
    /// git cannot read it as a patch.
    #[error("the patch is unreadable: {0}")]
    Unreadable(String),
    /// A hunk does not fit the base.
    #[error("the patch does not apply: {0}")]
    DoesNotApply(String),
    /// The patch names a path that no tree may have.
    #[error("the patch names {:?}: {reason}", String::from_utf8_lossy(path))]
    UnsafePath {
        /// The path as named.
        path: Vec<u8>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The files it makes would be too large together.
    #[error("the patch would make {bytes} bytes, {bytes_max} are allowed")]
    Inflates {
        /// How much.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A file and a directory would have the same name.
    #[error("{0}")]
    Conflict(String),
    /// Something other than the patch failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The paths that one section of a patch may be about; a superset.
type Section = BTreeSet<Vec<u8>>;

impl Objects {
    /// Applies a patch in git's format (`-p1`) to a tree, all of it or nothing.
    pub fn apply(&self, base_tree: ObjectId, patch: &[u8], limits: &PatchLimits) -> Result<Applied, PatchProblem> {
        let bytes = patch.len() as u64;
        if bytes > limits.patch_bytes_max {
            return Err(PatchProblem::TooLarge { bytes, bytes_max: limits.patch_bytes_max });
        }
        if patch.iter().all(u8::is_ascii_whitespace) {
            return Ok(Applied { tree: base_tree, changes: Vec::new() });
        }
        let Headers { sections, binary_bytes, .. } = Headers::read(patch, limits.binary)?;
        let reader = self.reader()?;
        let before = named_entries(&reader, base_tree, &sections)?;
        check_inflation(&reader, &sections, &before, bytes.saturating_add(binary_bytes), limits)?;
        let after = self.apply_to_index(&before, patch)?;
        let edits = edits(&sections, &before, &after)?;
        let tree = tree::edit(self, &reader, base_tree, &edits)?;
        let changes = tree::diff(&self.reader()?, base_tree, tree)?;
        self.adopt_results(&changes, limits)?;
        Ok(Applied { tree, changes })
    }

    /// Lets git apply the patch to an index that holds the named paths and nothing else.
    fn apply_to_index(&self, before: &Entries, patch: &[u8]) -> Result<Entries, PatchProblem> {
        let index = self.scratch("apply-index");
        if !before.is_empty() {
            let command = self.git("update-index").index(&index.path).args(&["-z", "--index-info"]);
            let entries = before.iter().map(|(path, entry)| (path.as_slice(), Some(*entry)));
            command.input(index_info(self.format, entries)).run()?;
        }
        let command = self.git("apply").index(&index.path).args(&["--cached", "-p1", "--whitespace=nowarn", "-"]);
        let output = command.input(patch.to_vec()).outcome()?;
        if !output.status.success() {
            return Err(refusal(words(&output.stderr)));
        }
        let listing = self.git("ls-files").index(&index.path).args(&["-s", "-z"]).run()?;
        Ok(parse_listing(&listing)?)
    }

    /// Measures the resulting files and makes norma's repository own them.
    fn adopt_results(&self, changes: &[TreeChange], limits: &PatchLimits) -> Result<(), PatchProblem> {
        let reader = self.reader()?;
        let mut bytes = 0;
        let results = changes.iter().filter_map(|change| change.new);
        for entry in results.filter(|entry| entry.mode != tree::MODE_GITLINK) {
            bytes += reader.size(entry.id)?;
            if bytes > limits.result_bytes_max {
                return Err(PatchProblem::Inflates { bytes, bytes_max: limits.result_bytes_max });
            }
            self.adopt(&reader, entry.id)?;
        }
        Ok(())
    }
}

/// Entries by path.
pub(super) type Entries = BTreeMap<Vec<u8>, Entry>;

fn named_entries(reader: &Reader<'_>, tree: ObjectId, sections: &[Section]) -> Result<Entries, GitError> {
    let mut entries = Entries::new();
    for path in sections.iter().flatten().collect::<BTreeSet<_>>() {
        if let Some(entry) = tree::lookup(reader, tree, path)?.filter(|entry| !entry.is_tree()) {
            entries.insert(path.clone(), entry);
        }
    }
    Ok(entries)
}

/// Bounds what git may be asked to make before it is asked: every section makes at most its pre-image plus
/// what the patch itself carries, packed or not.
fn check_inflation(
    reader: &Reader<'_>,
    sections: &[Section],
    before: &Entries,
    carried_bytes: u64,
    limits: &PatchLimits,
) -> Result<(), PatchProblem> {
    let mut sizes = BTreeMap::new();
    for (path, entry) in before.iter().filter(|(_, entry)| entry.mode != tree::MODE_GITLINK) {
        sizes.insert(path, reader.size(entry.id)?);
    }
    let images = sections.iter().flatten().filter_map(|path| sizes.get(path));
    let bytes = images.fold(carried_bytes, |sum, size| sum.saturating_add(*size));
    if bytes > limits.result_bytes_max {
        return Err(PatchProblem::Inflates { bytes, bytes_max: limits.result_bytes_max });
    }
    Ok(())
}

/// What git changed in the partial index.
fn edits<'a>(sections: &[Section], before: &'a Entries, after: &'a Entries) -> Result<Vec<Edit<'a>>, PatchProblem> {
    let named: BTreeSet<&[u8]> = sections.iter().flatten().map(Vec::as_slice).collect();
    let mut edits = Vec::new();
    for (path, entry) in after {
        if !named.contains(path.as_slice()) {
            let path = String::from_utf8_lossy(path);
            return Err(PatchProblem::Unreadable(format!("it changes {path}, which none of its headers name")));
        }
        if before.get(path) != Some(entry) {
            edits.push((path.as_slice(), Some(*entry)));
        }
    }
    let deleted = before.keys().filter(|path| !after.contains_key(*path));
    edits.extend(deleted.map(|path| (path.as_slice(), None)));
    Ok(edits)
}

/// Sorts git's refusals by its own words.
fn refusal(words: String) -> PatchProblem {
    const UNREADABLE: &[&str] = &[
        "corrupt patch",
        "No valid patches",
        "unrecognized input",
        "without header",
        "lacks filename information",
        "patch with only garbage",
        "inconsistent",
        "invalid mode",
    ];
    if UNREADABLE.iter().any(|sign| words.contains(sign)) {
        PatchProblem::Unreadable(words)
    } else {
        PatchProblem::DoesNotApply(words)
    }
}

/// Input for `update-index --index-info -z`; mode 0 removes.
pub(super) fn index_info<'a>(
    format: gix_hash::Kind,
    entries: impl Iterator<Item = (&'a [u8], Option<Entry>)>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, entry) in entries {
        let line = match entry {
            Some(entry) => format!("{:o} {}\t", entry.mode, entry.id),
            None => format!("0 {}\t", format.null()),
        };
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    bytes
}

/// Reads `ls-files -s -z`.
pub(super) fn parse_listing(listing: &[u8]) -> Result<Entries, GitError> {
    let mut entries = Entries::new();
    for record in listing.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        let unreadable = || GitError::Answer {
            command: "ls-files".to_owned(),
            detail: String::from_utf8_lossy(record).into_owned(),
        };
        let tab = record.iter().position(|byte| *byte == b'\t').ok_or_else(unreadable)?;
        let fields = std::str::from_utf8(&record[..tab]).map_err(|_| unreadable())?;
        let mut fields = fields.split(' ');
        let mode = fields.next().and_then(|mode| u32::from_str_radix(mode, 8).ok()).ok_or_else(unreadable)?;
        let id = parse_id("ls-files", fields.next().unwrap_or_default().as_bytes())?;
        entries.insert(record[tab + 1..].to_vec(), Entry { mode, id });
    }
    Ok(entries)
}

/// Reads the headers of a patch, section by section, and skips the hunks by their counted lines.
#[derive(Default)]
struct Headers {
    sections: Vec<Section>,
    /// The current section has had its `---`/`+++` pair; the next pair opens a new one.
    paired: bool,
    old_lines_left: u64,
    new_lines_left: u64,
    /// Whether binary sections may be tried.
    binary: bool,
    /// What they say they unpack to; git holds them to it.
    binary_bytes: u64,
}

impl Headers {
    fn read(patch: &[u8], binary: bool) -> Result<Headers, PatchProblem> {
        let mut headers = Headers { binary, ..Headers::default() };
        let mut lines = patch.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            if headers.is_hunk_line(line) {
                continue;
            }
            let next = lines.peek().copied().unwrap_or_default();
            headers.header_line(line.strip_suffix(b"\r").unwrap_or(line), next)?;
        }
        Ok(headers)
    }

    /// Counts a line of a hunk. Anything a hunk cannot contain ends it.
    fn is_hunk_line(&mut self, line: &[u8]) -> bool {
        if self.old_lines_left == 0 && self.new_lines_left == 0 {
            return false;
        }
        let (old, new) = match line.first() {
            Some(b' ') | None => (1, 1),
            Some(b'-') => (1, 0),
            Some(b'+') => (0, 1),
            Some(b'\\') => (0, 0),
            Some(b'\r') if line.len() == 1 => (1, 1),
            Some(_) => {
                (self.old_lines_left, self.new_lines_left) = (0, 0);
                return false;
            }
        };
        self.old_lines_left = self.old_lines_left.saturating_sub(old);
        self.new_lines_left = self.new_lines_left.saturating_sub(new);
        true
    }

    fn header_line(&mut self, line: &[u8], next: &[u8]) -> Result<(), PatchProblem> {
        if let Some(names) = line.strip_prefix(b"diff --git ") {
            self.sections.push(Section::new());
            self.paired = false;
            return names_of_pair(names).iter().try_for_each(|name| self.add_stripped(name));
        }
        if line.starts_with(b"--- ") && next.starts_with(b"+++ ") {
            if self.paired || self.sections.is_empty() {
                self.sections.push(Section::new());
            }
            self.paired = true;
            let next = next.strip_suffix(b"\r").unwrap_or(next);
            let names = [file_names(&line[4..]), file_names(&next[4..])].concat();
            return names.iter().try_for_each(|name| self.add_stripped(name));
        }
        if let Some((old, new)) = line.strip_prefix(b"@@ -").and_then(hunk_lines) {
            (self.old_lines_left, self.new_lines_left) = (old, new);
            return Ok(());
        }
        self.extended_line(line, next)
    }

    /// The lines between `diff --git` and the first hunk that matter here.
    fn extended_line(&mut self, line: &[u8], next: &[u8]) -> Result<(), PatchProblem> {
        const MOVES: &[&[u8]] =
            &[b"rename from ", b"rename to ", b"rename old ", b"rename new ", b"copy from ", b"copy to "];
        if self.sections.is_empty() {
            return Ok(());
        }
        let differ = line.ends_with(b" differ") && (line.starts_with(b"Binary files ") || line.starts_with(b"Files "));
        let packed = line.starts_with(b"GIT binary patch");
        if differ || packed && !self.binary {
            return Err(PatchProblem::Binary);
        }
        // What comes second is the way back, which is unpacked but not carried out.
        if packed && !next.starts_with(b"literal ") {
            return Err(PatchProblem::BinaryDelta);
        }
        if self.binary {
            self.binary_bytes = self.binary_bytes.saturating_add(unpacked_bytes(line));
        }
        match MOVES.iter().find_map(|prefix| line.strip_prefix(*prefix)) {
            // These lines carry no a/ or b/ to strip.
            Some(name) => file_names(name).into_iter().try_for_each(|name| self.add(&name, name.clone())),
            None => Ok(()),
        }
    }

    fn add_stripped(&mut self, name: &[u8]) -> Result<(), PatchProblem> {
        match name.iter().position(|byte| *byte == b'/') {
            Some(_) if name == b"/dev/null" => Ok(()),
            Some(slash) => self.add(name, name[slash + 1..].to_vec()),
            // git refuses it as well: there is nothing to strip.
            None => Ok(()),
        }
    }

    fn add(&mut self, written: &[u8], path: Vec<u8>) -> Result<(), PatchProblem> {
        for name in [written, path.as_slice()] {
            if let Some(reason) = unsafe_reason(name) {
                return Err(PatchProblem::UnsafePath { path: name.to_vec(), reason });
            }
        }
        if let Some(section) = self.sections.last_mut() {
            section.insert(squash_slashes(&path));
        }
        Ok(())
    }
}

/// What a binary section says it unpacks to; packed lines have no spaces in them.
fn unpacked_bytes(line: &[u8]) -> u64 {
    let count = line.strip_prefix(b"literal ").or_else(|| line.strip_prefix(b"delta "));
    let count = count.and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or("0");
    // A number that is none, or is too large for one, is more than any limit.
    count.trim_end().parse().unwrap_or(u64::MAX)
}

/// The counts of `@@ -a,b +c,d @@`, after `@@ -`.
fn hunk_lines(rest: &[u8]) -> Option<(u64, u64)> {
    let mut ranges = std::str::from_utf8(rest.split(|byte| *byte == b'@').next()?).ok()?.split_whitespace();
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((count(ranges.next()?)?, count(ranges.next()?.strip_prefix('+')?)?))
}

/// The names a `---`, `+++` or `rename` line can mean: quoted, whole, up to a tab, or up to a date.
fn file_names(text: &[u8]) -> Vec<Vec<u8>> {
    if let Some((name, _)) = unquote(text) {
        return vec![name];
    }
    let until_tab = text.split(|byte| *byte == b'\t').next().unwrap_or(text);
    let mut names = vec![until_tab.to_vec()];
    let looks_like_year =
        |window: &[u8]| window[0] == b' ' && window[1..5].iter().all(u8::is_ascii_digit) && window[5] == b'-';
    if let Some(date) = until_tab.windows(6).rposition(looks_like_year) {
        names.push(until_tab[..date].to_vec());
    }
    names
}

/// The names of a `diff --git` line. Unquoted names are only unambiguous if both are the same.
fn names_of_pair(text: &[u8]) -> Vec<Vec<u8>> {
    if let Some((first, rest)) = unquote(text) {
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let second = unquote(rest).map_or_else(|| rest.to_vec(), |(second, _)| second);
        return vec![first, second];
    }
    let quoted = text.windows(2).position(|window| window == b" \"");
    if let Some((space, (second, _))) = quoted.and_then(|space| Some((space, unquote(&text[space + 1..])?))) {
        return vec![text[..space].to_vec(), second];
    }
    let after_slash = |name: &[u8]| name.iter().position(|byte| *byte == b'/').map(|slash| name[slash..].to_vec());
    let spaces = text.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let halves = spaces.map(|space| (&text[..space], &text[space + 1..]));
    let same = halves.filter(|(first, second)| first.len().abs_diff(second.len()) <= PREFIX_DIFFERENCE_MAX);
    let same = same.filter(|(first, second)| after_slash(first).is_some_and(|name| Some(name) == after_slash(second)));
    same.flat_map(|(first, second)| [first.to_vec(), second.to_vec()]).collect()
}

/// How much the prefixes `a` and `b` may differ in length; keeps a long line of spaces from costing its square.
const PREFIX_DIFFERENCE_MAX: usize = 32;

/// Reads a C-quoted name; returns it and what follows the closing quote.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((name, after)),
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                name.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            [b'\\', letter, after @ ..] => {
                name.push(unescape(*letter)?);
                rest = after;
            }
            [byte, after @ ..] => {
                name.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn unescape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => letter,
        _ => return None,
    })
}

fn squash_slashes(path: &[u8]) -> Vec<u8> {
    let mut squashed = path.to_vec();
    squashed.dedup_by(|next, previous| *next == b'/' && *previous == b'/');
    squashed
}

/// Why a path must not be tried at all; `None` if it may.
fn unsafe_reason(path: &[u8]) -> Option<&'static str> {
    if path.starts_with(b"/") {
        return Some("it is absolute");
    }
    if path.is_empty() || path.len() > PATH_BYTES_MAX || path.contains(&0) {
        return Some("it is empty, too long or contains a NUL byte");
    }
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    if parts.len() > PATH_DEPTH_MAX {
        return Some("it is too deep");
    }
    if parts.iter().any(|part| matches!(*part, b".." | b".")) {
        return Some("it leaves its directory");
    }
    parts.iter().any(|part| is_git_directory(part)).then_some("it names a git directory")
}

/// Whether some file system would take this name for `.git`: in any case, by its short name, with characters
/// that are ignored at the end (NTFS) or anywhere (HFS+).
pub(crate) fn is_git_directory(name: &[u8]) -> bool {
    // Asked of every name of a repository; what some file system ignores is outside of ASCII.
    if !matches!(name.first(), Some(b'.' | b'g' | b'G' | 0x80..)) {
        return false;
    }
    let text = String::from_utf8_lossy(name);
    let visible: String = text.chars().filter(|letter| !ignored_by_hfs(*letter)).collect();
    let stem = visible.split([':', '\\']).next().unwrap_or_default().trim_end_matches([' ', '.']);
    stem.eq_ignore_ascii_case(".git") || stem.eq_ignore_ascii_case("git~1")
}

fn ignored_by_hfs(letter: char) -> bool {
    matches!(letter, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patch: &str, expected: &[&[&str]]) {
        let found = Headers::read(patch.as_bytes(), false).unwrap().sections;
        let found: Vec<Vec<String>> = found
            .iter()
            .map(|section| section.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn headers_name_every_path_of_every_section() {
        check("diff --git a/x y b/x y\nold mode 100644\nnew mode 100755\n", &[&["x y"]]);
        check("diff --git a/x b/y\nrename from x\nrename to y\n", &[&["x", "y"]]);
        check("diff --git \"a/\\303\\251\" \"b/\\303\\251\"\n", &[&["é"]]);
        check("--- a/x\t2020-01-01\n+++ b/x\t2020\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n", &[&["x"], &["y"]]);
        check("--- a/x 2020-01-01 10:00:00 +0000\n+++ /dev/null\n", &[&["x", "x 2020-01-01 10:00:00 +0000"]]);
    }

    #[test]
    fn lines_inside_a_hunk_are_never_headers() {
        check("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- ../../etc\n+++ ../../etc\n same\n", &[&["x"]]);
    }

    #[test]
    fn names_that_some_file_system_takes_for_the_git_directory_are_unsafe() {
        for name in ["a/.git/x", ".GIT", "git~1/x", ".git ./x", ".g\u{200c}it/x", ".git::$INDEX_ALLOCATION/x"] {
            assert_eq!(unsafe_reason(name.as_bytes()), Some("it names a git directory"), "{name}");
        }
        for name in [".gitignore", ".github/x", "git", "a.git/x", "src/git~2"] {
            assert_eq!(unsafe_reason(name.as_bytes()), None, "{name}");
        }
    }
}
