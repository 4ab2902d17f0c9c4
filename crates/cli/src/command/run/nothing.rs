//! One word that is neither a task, a file nor a sentence: what was probably meant.

use crate::command::Cli;
use crate::error::CommandError;
use crate::surroundings::Surroundings;
use crate::text::{safe, short};
use clap::CommandFactory;
use contract::nearest;
use std::path::Path;

/// Says that there is no such thing, with the nearest file, task or verb.
pub(super) fn no_such(here: &Surroundings, word: &str) -> CommandError {
    let meant = [file(here, word), verb(word), task(here, word)].into_iter().flatten().next();
    let hint = match meant {
        Some(meant) => format!("did you mean {meant}? A sentence has more than one word: norma run \"what you want\""),
        None => "say what you want in a sentence: norma run \"what you want\"; or name a file or a task".to_owned(),
    };
    CommandError::usage(format!("{} is neither a file nor a task", safe(word)), hint)
}

/// A file beside it with nearly the same name.
fn file(here: &Surroundings, word: &str) -> Option<String> {
    let path = here.cwd.join(word);
    let (parent, name) = (path.parent()?, path.file_name()?.to_str()?);
    let entries = std::fs::read_dir(parent).ok()?.flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let found = nearest(name, names.iter().map(String::as_str))?;
    let shown = Path::new(word).with_file_name(found);
    Some(format!("norma run {}", safe(&shown.to_string_lossy())))
}

fn verb(word: &str) -> Option<String> {
    let cli = Cli::command();
    let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let found = names.iter().find(|name| **name == word).copied().or_else(|| nearest(word, names.iter().copied()))?;
    Some(format!("norma {found}"))
}

/// A task with this number in its name, or with this word in its goal.
fn task(here: &Surroundings, word: &str) -> Option<String> {
    let tasks = here.reader().ok()?.tasks(None).ok()?;
    let digits: String = word.chars().filter(char::is_ascii_digit).collect();
    let by_number = tasks.iter().find(|task| task.id.to_string() == digits);
    let has_word = |goal: &str| goal.to_lowercase().split_whitespace().any(|it| it == word.to_lowercase());
    let found = by_number.or_else(|| tasks.iter().find(|task| has_word(&task.goal)))?;
    Some(format!("norma run {} ({})", found.id, short(&found.goal, 40)))
}
