//! `norma keys`: the key that this state directory signs with, for whoever is to trust it.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use std::path::PathBuf;
use std::process::ExitCode;
use store::IoContext;

/// Show the key that norma signs with here, or export its public part
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma keys\n  norma keys export -o keys/norma.pem   # for norma-verify --trust keys/"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Print the public key (PEM), or write it to a file
    Export {
        /// The file to write
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let keys = here.context()?.trust.keys()?;
        let (id, path, pem) = (keys.public().id(), keys.public_path(), keys.public().to_pem());
        let value = serde_json::json!({"key_id": id, "public_key": path, "pem": pem});
        match self.verb {
            None => Ok(here.print(&value, || {
                format!("key {id}\npublic key {}\nnext: norma keys export -o keys/norma.pem", path.display())
            })),
            Some(Verb::Export { output: None }) => Ok(here.print(&value, || pem)),
            Some(Verb::Export { output: Some(file) }) => {
                let at = here.cwd.join(&file);
                if let Some(dir) = at.parent() {
                    std::fs::create_dir_all(dir).at("create", dir)?;
                }
                std::fs::write(&at, &pem).at("write", &at)?;
                Ok(here.print(&value, || format!("the public key {id} is in {}", file.display())))
            }
        }
    }
}
