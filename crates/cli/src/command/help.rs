//! `norma help`: the help of a verb, or a page of the documentation.

use super::Cli;
use crate::error::{CommandError, Outcome};
use crate::pages;
use crate::surroundings::Surroundings;
use clap::CommandFactory;
use serde_json::json;
use std::process::ExitCode;

/// Print the help of a verb, or a page of the documentation
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma help                 # verbs and topics\n  norma help run             # a verb\n  norma help contracts       # a topic\n  norma help troubleshooting | less"
)]
pub(crate) struct Args {
    /// A verb with its subcommand, or a topic
    #[arg(value_name = "VERB|TOPIC")]
    about: Vec<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let verb = verb(&self.about);
        let page = match &self.about[..] {
            [topic] => pages::find(topic),
            _ => None,
        };
        let Some(name) = self.about.last().filter(|_| verb.is_some() || page.is_some()) else {
            return match self.about.is_empty() {
                true => Ok(print(here, "norma", overview(), None)),
                false => Err(unknown(&self.about.join(" "))),
            };
        };
        let parts: Vec<String> = verb.into_iter().chain(page.map(pages::Page::text)).collect();
        // Some verbs have a page of the same name: whoever asks for either finds it.
        Ok(print(here, name, parts.join("\n\n"), page))
    }
}

fn print(here: &Surroundings, name: &str, text: String, page: Option<&pages::Page>) -> ExitCode {
    let value = json!({"about": name, "text": text, "markdown": page.map(pages::Page::markdown)});
    here.print(&value, || text)
}

/// Verbs and topics.
fn overview() -> String {
    format!("{}\nTopics (norma help TOPIC):\n{}", Cli::command().render_long_help(), pages::topics())
}

/// The help of a verb or of a part of it.
fn verb(words: &[String]) -> Option<String> {
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for word in words {
        found = found.find_subcommand_mut(word).filter(|verb| !verb.is_hide_set())?;
    }
    (!words.is_empty()).then(|| found.render_long_help().to_string())
}

fn unknown(words: &str) -> CommandError {
    let names: Vec<&str> = pages::PAGES.iter().map(|page| page.name).collect();
    CommandError::usage(
        format!("there is no verb or topic {words:?}"),
        format!("norma help lists the verbs; topics are {}", names.join(", ")),
    )
}
