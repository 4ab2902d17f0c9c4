//! Conversations that go on. The next turn of the same role in the same loop is told only what it does not know yet: the
//! files in which the command line keeps its conversations are taken from the home of one turn and put into that of the
//! next. Nothing else of a home lives longer than its turn, and a norma that was started anew begins anew: the agent is
//! then told everything.

use super::home::make_dir;
use crate::evidence::left_files::{Visitor, open, visit};
use crate::git::sweep::open_below;
use crate::{Error, Result};
use contract::{BlockName, PromptBlocks, Role, Usage};
use session::Kind;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a conversation may weigh. Beyond that it costs more to carry about than to say everything again.
const BYTES_MAX: u64 = 64 << 20;
const FILES_MAX: u32 = 4096;

/// A conversation that can be gone on with.
pub(crate) struct Ongoing {
    /// The agent's own name for it.
    pub(super) id: String,
    /// What the agent was told last.
    pub(super) told: PromptBlocks,
    /// What was used so far, by the agent's own count.
    pub(super) used: Usage,
    /// Its files, as they lie in a home.
    pub(super) files: PathBuf,
}

/// The conversations of one loop, by role.
#[derive(Default)]
pub(crate) struct Conversations {
    by_role: BTreeMap<Role, Ongoing>,
}

impl Conversations {
    /// The conversation in which a prompt can be said, if there is one. A role of which it is said differently what it is
    /// begins anew.
    pub(super) fn take(&mut self, role: Role, prompt: &PromptBlocks) -> Option<Ongoing> {
        let ongoing = self.by_role.remove(&role)?;
        let same = |name| ongoing.told.block(name) == prompt.block(name);
        (same(BlockName::System) && same(BlockName::Role)).then_some(ongoing)
    }

    pub(crate) fn put(&mut self, role: Role, ongoing: Option<Ongoing>) {
        if let Some(ongoing) = ongoing {
            self.by_role.insert(role, ongoing);
        }
    }
}

/// Copies the conversations that an agent left in its home to `to`; false if there are none, or too much of them.
pub(super) fn copy(kind: Kind, home: &OwnedFd, to: &Path) -> Result<bool> {
    store::remove_tree(to)?;
    let mut copier = Copier { kind, to, below: "", bytes_left: BYTES_MAX, files_left: FILES_MAX, complete: true };
    let mut found = false;
    for below in session::conversations(kind) {
        if let Ok(dir) = open_below(home, below.as_bytes()) {
            (copier.below, found) = (below, true);
            visit(dir, &mut copier)?;
        }
    }
    if !copier.complete {
        store::remove_tree(to)?;
    }
    Ok(found && copier.complete)
}

/// The same from a home that no layer lies on.
pub(super) fn copy_from(kind: Kind, home: &Path, to: &Path) -> Result<bool> {
    open(home).map_or(Ok(false), |home| copy(kind, &home, to))
}

struct Copier<'c> {
    kind: Kind,
    to: &'c Path,
    below: &'static str,
    bytes_left: u64,
    files_left: u32,
    complete: bool,
}

impl Visitor for Copier<'_> {
    fn wants(&mut self, name: &str) -> bool {
        let path = format!("{}/{name}", self.below);
        // A sign-in is copied from the user's own home each time.
        !session::sign_in_files(self.kind).any(|file| file == path)
    }

    fn file(&mut self, mut file: File, path: &str) -> Result<()> {
        let size = file.metadata().map_or(u64::MAX, |meta| meta.len());
        if !self.complete || self.files_left == 0 || size > self.bytes_left {
            self.complete = false;
            return Ok(());
        }
        (self.files_left, self.bytes_left) = (self.files_left - 1, self.bytes_left - size);
        let to = self.to.join(self.below).join(path);
        make_dir(to.parent().unwrap_or(self.to))?;
        let copied = File::options().write(true).create_new(true).mode(0o600).open(&to);
        copied
            .and_then(|mut copy| std::io::copy(&mut file, &mut copy))
            .map_err(|source| Error::io("copy", &to, source))?;
        Ok(())
    }

    /// Links and sockets are no part of a conversation.
    fn left_out(&mut self, _why: String) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{PromptBlock, Sent};

    fn prompt(role: &str, task: &str) -> PromptBlocks {
        let block = |name, text: &str| PromptBlock { name, source: "built-in".to_owned(), text: text.to_owned() };
        let blocks = vec![block(BlockName::System, "s"), block(BlockName::Role, role), block(BlockName::Task, task)];
        PromptBlocks { version: 1, sent: Sent::Full, blocks }
    }

    fn ongoing() -> Ongoing {
        Ongoing {
            id: "t".to_owned(),
            told: prompt("plan", "one"),
            used: Usage::default(),
            files: PathBuf::from("conversation-plan"),
        }
    }

    #[test]
    fn a_conversation_goes_on_once_in_its_role_and_only_if_the_role_is_the_same() {
        let mut conversations = Conversations::default();
        conversations.put(Role::Plan, Some(ongoing()));
        assert!(conversations.take(Role::Check, &prompt("plan", "two")).is_none());
        assert!(conversations.take(Role::Plan, &prompt("plan", "two")).is_some());
        assert!(conversations.take(Role::Plan, &prompt("plan", "two")).is_none());
        conversations.put(Role::Plan, Some(ongoing()));
        conversations.put(Role::Plan, None);
        assert!(conversations.take(Role::Plan, &prompt("another plan", "two")).is_none());
    }

    #[test]
    fn only_what_belongs_to_a_conversation_is_taken_from_a_home() {
        let dir = tempfile::tempdir().unwrap();
        let (home, to) = (dir.path().join("home"), dir.path().join("kept"));
        let data = home.join(".local/share/opencode");
        std::fs::create_dir_all(data.join("storage")).unwrap();
        for file in ["opencode.db", "storage/a", "auth.json"] {
            std::fs::write(data.join(file), file).unwrap();
        }
        std::fs::write(home.join(".profile"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", data.join("link")).unwrap();
        assert!(copy_from(Kind::Opencode, &home, &to).unwrap());
        let kept = to.join(".local/share/opencode");
        assert_eq!(std::fs::read_to_string(kept.join("storage/a")).unwrap(), "storage/a");
        for gone in [kept.join("auth.json"), kept.join("link"), to.join(".profile")] {
            assert!(gone.symlink_metadata().is_err(), "{gone:?}");
        }
        assert!(!copy_from(Kind::Codex, &home, &to).unwrap(), "it kept none");
        assert!(!copy_from(Kind::Acp, &home, &to).unwrap(), "nobody knows where it would");
    }
}
