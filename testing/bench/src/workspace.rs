//! The place for what private workspaces cost: making one, capturing what was changed in it, dropping it, each beside
//! `git worktree` on the same repository in the same run, and against the number of files.

use crate::Result;
use crate::page::Section;
use crate::world::World;

pub(crate) fn run(_: &World) -> Result<Section> {
    Ok(Section { title: "Workspaces", about: "Not measured yet.".to_owned(), tables: Vec::new() })
}
