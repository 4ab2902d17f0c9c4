//! The words of a command line as a rule sees them: options by their exact spelling, their values, and operands.
//! What is not spelled out is not known: an abbreviation, an option of a later version or one more operand makes a
//! command that no rule allows.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest quotation of a word in a reason, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// How a program reads its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// `-abc` is `-a -b -c`; long options begin with `--`; after `--` there are no more options.
    #[default]
    Gnu,
    /// `-name` is one option (find, go), and `--` means nothing.
    SingleDash,
}

/// What may stand beside the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operands {
    /// Nothing.
    #[default]
    None,
    /// Any words.
    Any,
    /// Words that begin neither with `@` nor with `+`, which many programs take for options from a file or for
    /// another version of themselves.
    Paths,
    /// Words of letters, digits and `. _ / : -`: targets and test names, but no `NAME=value`.
    Names,
    /// First what to print, as `5p` or `10,20p`, then paths: the only sed scripts that certainly do nothing else.
    PrintRange,
}

/// Options and operands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Options by exact spelling: `-x` and `--name` take no value, `-x=` and `--name=` take one (in the same word or
    /// in the next), `-x[=]` and `--name[=]` may have one in the same word, `-#` is a dash and a number.
    #[serde(default)]
    pub options: Vec<String>,
    /// What may stand beside them.
    #[serde(default)]
    pub operands: Operands,
}

/// Why words do not fit.
pub(super) enum Misfit {
    /// Something that would have to follow is not there.
    Incomplete(String),
    /// Something is there that no rule knows.
    Unknown(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    AttachedValue,
}

/// An option as a rule spells it.
#[derive(Clone, Copy)]
struct Spelled<'r> {
    name: &'r str,
    takes: Takes,
}

impl<'r> Spelled<'r> {
    fn new(text: &'r str) -> Spelled<'r> {
        if let Some(name) = text.strip_suffix("[=]") {
            return Spelled { name, takes: Takes::AttachedValue };
        }
        match text.strip_suffix('=') {
            Some(name) => Spelled { name, takes: Takes::Value },
            None => Spelled { name: text, takes: Takes::Nothing },
        }
    }
}

/// What is wrong with the spelling of an option in a rule.
pub(super) fn misspelled(text: &str, style: Style) -> Option<&'static str> {
    let name = Spelled::new(text).name;
    let bare = name.trim_start_matches('-');
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '=' | '[' | ']');
    let dashes = name.len() - bare.len();
    if dashes == 0 || dashes > 2 || bare.is_empty() || bare.contains(odd) {
        return Some("an option is spelled -x, --name, -x=, --name=, -x[=], --name[=] or -#");
    }
    let bundled = style == Style::Gnu && dashes == 1 && bare.chars().count() > 1;
    bundled.then_some("with style gnu, one dash and several letters are several options: list them one by one")
}

/// Whether a word is an option by its looks. A lone `-` is a file: the standard input.
pub(super) fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// `-5`: an option of a few programs, and a value that cannot be mistaken for an option with a name.
fn is_number(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// A word as people are shown it: nothing hidden in it, and not too long.
pub(super) fn shown(word: &str) -> String {
    let mut cut: String = word.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if word.chars().nth(SHOWN_CHARS_MAX).is_some() {
        cut.push('…');
    }
    cut
}

/// Checks words against what a rule lists.
pub(super) fn check(known: &Words, style: Style, after_dashes: Option<&Words>, words: &[String]) -> Result<(), Misfit> {
    let mut operands: Vec<&String> = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "--" && style == Style::Gnu {
            match after_dashes {
                Some(theirs) => check(theirs, style, None, rest.as_slice())?,
                None => operands.extend(rest),
            }
            break;
        }
        match is_option(word) {
            true => option(&known.options, style, word, &mut rest)?,
            false => operands.push(word),
        }
    }
    known.operands.check(&operands)
}

/// Checks one word of options, and takes the value that belongs to it from the words that follow.
pub(super) fn option(
    known: &[String],
    style: Style,
    word: &str,
    rest: &mut std::slice::Iter<'_, String>,
) -> Result<(), Misfit> {
    let find = |name: &str| known.iter().map(|text| Spelled::new(text)).find(|option| option.name == name);
    let unknown = |name: &str| Misfit::Unknown(format!("the option {} is not listed", shown(name)));
    if is_number(word) && find("-#").is_some() {
        return Ok(());
    }
    if style == Style::SingleDash || word.starts_with("--") {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let option = find(name).ok_or_else(|| unknown(name))?;
        return match (option.takes, value) {
            (Takes::Nothing, Some(_)) => Err(Misfit::Unknown(format!("the option {} takes no value", shown(name)))),
            (Takes::Value, None) => separate_value(name, rest),
            _ => Ok(()),
        };
    }
    let letters = &word[1..];
    for (at, letter) in letters.char_indices() {
        let name = format!("-{letter}");
        let attached = &letters[at + letter.len_utf8()..];
        match find(&name).ok_or_else(|| unknown(&name))?.takes {
            Takes::Nothing => {}
            Takes::Value if attached.is_empty() => return separate_value(&name, rest),
            Takes::Value | Takes::AttachedValue => return Ok(()),
        }
    }
    Ok(())
}

/// A value in a word of its own never begins with a dash: were the rule wrong about the option, it would hide one.
fn separate_value(name: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<(), Misfit> {
    match rest.next() {
        None => Err(Misfit::Incomplete(format!("the option {} needs a value", shown(name)))),
        Some(value) if is_option(value) && !is_number(value) => {
            Err(Misfit::Unknown(format!("the value {} of the option {} begins with a dash", shown(value), shown(name))))
        }
        Some(_) => Ok(()),
    }
}

impl Operands {
    fn check(self, words: &[&String]) -> Result<(), Misfit> {
        let unlike = |fits: fn(&str) -> bool, words: &[&String]| match words.iter().find(|word| !fits(word)) {
            Some(word) => Err(Misfit::Unknown(format!("the argument {} is not expected", shown(word)))),
            None => Ok(()),
        };
        match (self, words) {
            (Operands::None, words) => unlike(|_| false, words),
            (Operands::Any, _) => Ok(()),
            (Operands::Paths, words) => unlike(is_path, words),
            (Operands::Names, words) => unlike(is_name, words),
            (Operands::PrintRange, []) => Err(Misfit::Incomplete("what to print is not given".to_owned())),
            (Operands::PrintRange, [script, paths @ ..]) => {
                unlike(is_print_range, &[script])?;
                unlike(is_path, paths)
            }
        }
    }
}

fn is_path(word: &str) -> bool {
    !word.starts_with(['@', '+'])
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "._/:-".contains(c))
}

fn is_print_range(word: &str) -> bool {
    let is_line = |text: &str| text == "$" || !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    word.strip_suffix('p').is_some_and(|range| match range.split_once(',') {
        Some((first, last)) => is_line(first) && is_line(last),
        None => is_line(range),
    })
}
