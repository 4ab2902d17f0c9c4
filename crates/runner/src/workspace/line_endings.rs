//! Line endings as `git add` would store them. Agents are shown the bytes of blobs, whatever attributes say, but an agent may
//! write what the repository's attributes ask for in a checkout: lines that end with CRLF. Stored as they are, they would
//! differ from every line around them, and from what a person's git makes of the same file.
//!
//! Only CRLF becomes LF here, and only where git would do it: by the base's `.gitattributes`, which an agent cannot change, and
//! by the user's `core.autocrlf` where these say nothing. No filter, encoding or keyword is ever looked at.

use crate::git::GitError;
use gix_ignore::glob::{Pattern, pattern::Case, wildmatch::Mode};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where the attributes of a directory are.
pub(super) const ATTRIBUTES: &[u8] = b".gitattributes";

/// Longer files of attributes say nothing: every line is tried on every path.
const ATTRIBUTES_BYTES_MAX: usize = 64 << 10;

/// Whether the user's git converts line endings of files of which no attribute speaks; asked only when it matters.
#[derive(Clone)]
pub struct AutoCrlf(Arc<dyn Fn() -> bool + Send + Sync>);

impl AutoCrlf {
    /// As this says.
    pub fn new(asked: impl Fn() -> bool + Send + Sync + 'static) -> AutoCrlf {
        AutoCrlf(Arc::new(asked))
    }
}

impl Default for AutoCrlf {
    fn default() -> AutoCrlf {
        AutoCrlf::new(|| false)
    }
}

impl fmt::Debug for AutoCrlf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AutoCrlf")
    }
}

/// The attributes that hold in a directory: those of all directories above it, the outermost first.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    files: Vec<AttributesFile>,
}

#[derive(Debug)]
struct AttributesFile {
    /// How many bytes of a path are the directory it lies in.
    below: usize,
    lines: Vec<(Pattern, Vec<Assignment>)>,
    macros: BTreeMap<Vec<u8>, Vec<Assignment>>,
}

/// One attribute that a line gives, takes or leaves open again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Assignment {
    Text(Text),
    Eol(bool),
    NoEol,
    /// A name that may be that of a macro.
    Named(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Text {
    #[default]
    Unspecified,
    Set,
    Unset,
    /// Text if it looks like it.
    Auto,
}

/// What git does to a file on its way into the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Nothing,
    Always,
    IfText,
}

impl Attributes {
    /// Adds the attributes of a directory; `path` is the directory's, without a slash at its end.
    pub(super) fn enter(&mut self, path: &[u8], bytes: &[u8]) {
        let below = if path.is_empty() { 0 } else { path.len() + 1 };
        let mut file = AttributesFile { below, lines: Vec::new(), macros: BTreeMap::new() };
        let bytes = if bytes.len() > ATTRIBUTES_BYTES_MAX { &[] } else { bytes };
        for line in bytes.split(|byte| *byte == b'\n') {
            file.read(line, path.is_empty());
        }
        self.files.push(file);
    }

    /// Takes away those that were added last.
    pub(super) fn leave(&mut self) {
        self.files.pop();
    }

    /// The content as git would store it, if that is another. `before` has what the base has there, and is asked for only
    /// where that decides.
    pub(super) fn stored(
        &self,
        path: &[u8],
        content: &[u8],
        auto: &AutoCrlf,
        before: impl FnOnce() -> Result<Option<Vec<u8>>, GitError>,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let stats = Stats::of(content);
        if stats.crlf == 0 {
            return Ok(None);
        }
        match self.action(path, auto) {
            Action::Nothing => Ok(None),
            Action::Always => Ok(Some(without_cr(content))),
            Action::IfText if stats.is_binary() => Ok(None),
            Action::IfText => {
                // What has them in the repository already keeps them.
                let had = before()?.map(|old| Stats::of(&old)).is_some_and(|old| old.crlf > 0 && !old.is_binary());
                Ok((!had).then(|| without_cr(content)))
            }
        }
    }

    fn action(&self, path: &[u8], auto: &AutoCrlf) -> Action {
        let (mut text, mut eol) = (Text::default(), None);
        for file in &self.files {
            let Some(relative) = path.get(file.below..) else { continue };
            for assignment in file.lines.iter().filter(|(pattern, _)| matches(pattern, relative)).flat_map(|it| &it.1) {
                self.assign(assignment, &mut text, &mut eol);
            }
        }
        match (text, eol) {
            (Text::Unset, _) => Action::Nothing,
            (Text::Auto, _) => Action::IfText,
            // A line ending that is asked for makes it text.
            (Text::Set, _) | (Text::Unspecified, Some(_)) => Action::Always,
            (Text::Unspecified, None) if (auto.0)() => Action::IfText,
            (Text::Unspecified, None) => Action::Nothing,
        }
    }

    fn assign(&self, assignment: &Assignment, text: &mut Text, eol: &mut Option<bool>) {
        match assignment {
            Assignment::Text(value) => *text = *value,
            Assignment::Eol(crlf) => *eol = Some(*crlf),
            Assignment::NoEol => *eol = None,
            Assignment::Named(name) if name == b"binary" => *text = Text::Unset,
            // Only the outermost file has macros, and one that names another is as rare as it is dangerous to follow.
            Assignment::Named(name) => {
                let given = self.files.first().and_then(|file| file.macros.get(name));
                for assignment in given.into_iter().flatten().filter(|it| !matches!(it, Assignment::Named(_))) {
                    self.assign(assignment, text, eol);
                }
            }
        }
    }
}

impl AttributesFile {
    fn read(&mut self, line: &[u8], is_top: bool) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return;
        }
        let (pattern, rest) = match line.strip_prefix(b"\"") {
            // Quoted as in C; what has an escape in it is too odd to be a pattern of text files.
            Some(quoted) => match quoted.iter().position(|byte| *byte == b'"') {
                Some(end) if !quoted[..end].contains(&b'\\') => (&quoted[..end], &quoted[end + 1..]),
                _ => return,
            },
            None => match line.iter().position(u8::is_ascii_whitespace) {
                Some(end) => line.split_at(end),
                None => return,
            },
        };
        let given =
            rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).filter_map(assignment).collect();
        if let Some(name) = pattern.strip_prefix(b"[attr]") {
            if is_top {
                self.macros.insert(name.to_vec(), given);
            }
        } else if !pattern.starts_with(b"!") {
            self.lines.extend(Pattern::from_bytes_without_negation(pattern).map(|pattern| (pattern, given)));
        }
    }
}

/// What a word of a line means for line endings.
fn assignment(word: &[u8]) -> Option<Assignment> {
    Some(match word {
        b"text" | b"crlf" => Assignment::Text(Text::Set),
        b"-text" | b"-crlf" => Assignment::Text(Text::Unset),
        b"!text" | b"!crlf" => Assignment::Text(Text::Unspecified),
        b"text=auto" | b"crlf=auto" => Assignment::Text(Text::Auto),
        b"eol=lf" | b"crlf=input" => Assignment::Eol(false),
        b"eol=crlf" => Assignment::Eol(true),
        b"!eol" | b"-eol" => Assignment::NoEol,
        word if word.starts_with(b"-") || word.starts_with(b"!") || word.contains(&b'=') => return None,
        name => Assignment::Named(name.to_vec()),
    })
}

fn matches(pattern: &Pattern, path: &[u8]) -> bool {
    let base = path.iter().rposition(|byte| *byte == b'/').map(|at| at + 1);
    pattern.matches_repo_relative_path(path.into(), base, Some(false), Case::Sensitive, Mode::NO_MATCH_SLASH_LITERAL)
}

/// CR goes where LF follows it.
fn without_cr(content: &[u8]) -> Vec<u8> {
    let is_kept = |at: &usize| !(content[*at] == b'\r' && content.get(at + 1) == Some(&b'\n'));
    (0..content.len()).filter(is_kept).map(|at| content[at]).collect()
}

/// What git looks at to tell text from anything else.
#[derive(Debug, Default)]
struct Stats {
    crlf: usize,
    lone_cr: usize,
    nul: usize,
    printable: usize,
    other: usize,
}

impl Stats {
    fn of(content: &[u8]) -> Stats {
        let mut stats = Stats::default();
        let mut rest = content.iter().peekable();
        while let Some(byte) = rest.next() {
            match byte {
                b'\r' if rest.next_if(|next| **next == b'\n').is_some() => stats.crlf += 1,
                b'\r' => stats.lone_cr += 1,
                b'\n' => {}
                0 => (stats.nul, stats.other) = (stats.nul + 1, stats.other + 1),
                // Backspace, tab, form feed, escape.
                8 | 9 | 12 | 27 => stats.printable += 1,
                1..=31 | 127 => stats.other += 1,
                _ => stats.printable += 1,
            }
        }
        // The end of a file as DOS had it.
        stats.other -= usize::from(content.last() == Some(&26));
        stats
    }

    fn is_binary(&self) -> bool {
        self.lone_cr > 0 || self.nul > 0 || self.printable >> 7 < self.other
    }
}
