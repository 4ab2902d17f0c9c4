//! `norma hash`: one digest of a whole state, of a commit or of a directory.

use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use contract::Digest;
use runner::git::{ObjectId, Objects};
use runner::{Memo, hash_dir, hash_tree_with};
use std::process::ExitCode;
use store::Layout;

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
            hash_revision(&objects, commit, &here.layout_of(&user))?
        };
        Ok(here.print(&serde_json::json!({"hash": digest}), || digest.to_string()))
    }
}

/// What was hashed before is known from the state directory, where there is one.
fn hash_revision(objects: &Objects, commit: ObjectId, layout: &Layout) -> Outcome<Digest> {
    let path = layout.state_memo();
    let mut memo = Memo::open(&path);
    let digest = hash_tree_with(objects, objects.tree_of(commit)?, &mut memo)?;
    if layout.exists() && memo.has_news() {
        // A memo that cannot be saved costs time at the next hash, and nothing else.
        let _ = memo.save(&path);
    }
    Ok(digest)
}
