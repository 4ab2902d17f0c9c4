//! `norma hash`: one digest of a whole state, of a commit or of a directory.

use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use runner::git::Objects;
use runner::{hash_dir, hash_tree};
use std::process::ExitCode;

/// Print the BLAKE3 state hash of a revision or a directory
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma hash            # HEAD\n  norma hash HEAD~3\n  norma hash ./build    # files as they are, .git and .norma left out"
)]
pub(crate) struct Args {
    /// A revision or a directory; without it, HEAD
    #[arg(default_value = "HEAD")]
    what: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let dir = here.cwd.join(&self.what);
        let digest = if dir.is_dir() {
            hash_dir(&dir)?
        } else {
            let user = here.repository()?;
            let commit = user.resolve(&self.what)?.ok_or_else(|| {
                CommandError::usage(
                    format!("{:?} is neither a directory nor a revision", self.what),
                    "for example: norma hash HEAD",
                )
            })?;
            let objects = Objects::open_or_create(&here.layout_of(&user).git(), &user)?;
            hash_tree(&objects, objects.tree_of(commit)?)?
        };
        Ok(here.print(&serde_json::json!({"hash": digest}), || digest.to_string()))
    }
}
