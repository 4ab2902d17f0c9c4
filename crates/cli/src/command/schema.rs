//! `norma schema`: the JSON Schema of a file that people write, for editors and other tools. `norma init` puts those of
//! the configuration, policies and contracts into the state directory, where the files name them in `$schema`.

use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use std::process::ExitCode;

/// Print the JSON Schema of a document, or list them
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma schema                 # their names\n  norma schema task_contract > task_contract.json"
)]
pub(crate) struct Args {
    /// A name from the list, with or without its version
    name: Option<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let names: Vec<&str> = contract::schema::names().collect();
        let Some(name) = &self.name else {
            return Ok(here.print(&names, || names.join("\n")));
        };
        let wanted = name.trim_end_matches(".json");
        let fits = |file: &&str| file.trim_end_matches(".json") == wanted || file.split('.').next() == Some(wanted);
        let text = names.iter().copied().find(fits).and_then(contract::schema::built_in);
        let unknown = || CommandError::usage(format!("there is no schema {name:?}"), "norma schema lists them");
        crate::text::raw_out(text.ok_or_else(unknown)?);
        Ok(ExitCode::SUCCESS)
    }
}
