//! Conversations that continue: that of a role in a loop, whose next turn is told only what it does not know yet, and that of
//! a turn which was cut off. The files in which the command line keeps its conversations are taken from the home of one
//! turn and put into that of the next, and lie in the state directory meanwhile, so that they outlive norma's own process.
//! Nothing else of a home lives longer than its turn. What outlives its run, too, is in [`super::threads`].

use super::home::make_dir;
use crate::evidence::left_files::{Visitor, open, visit};
use crate::git::sweep::open_below;
use crate::{Error, Result};
use contract::{BlockName, PromptBlocks, StepRef, Usage};
use serde::{Deserialize, Serialize};
use session::Kind;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a conversation may weigh. Beyond that it costs more to carry about than to say everything again.
const BYTES_MAX: u64 = 64 << 20;
const FILES_MAX: u32 = 4096;

/// In the directory of a conversation: its files as they lie in a home, and what is known of it.
const FILES: &str = "files";
const KNOWN: &str = "conversation.json";

/// What is known of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    /// The make of the agent; none of one that an older norma kept.
    #[serde(default)]
    pub(super) agent: String,
    /// The agent's own name for it.
    pub(super) id: String,
    /// What the agent was told last.
    pub(super) told: PromptBlocks,
    /// What was used so far, by the agent's own count.
    pub(super) used: Usage,
}

/// A conversation that can be continued.
pub(super) struct Ongoing {
    pub(super) known: Known,
    /// Its files, as they lie in a home.
    pub(super) files: PathBuf,
}

/// Where the conversation of one role of a loop, or about one item, is kept.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) kind: Kind,
    dir: PathBuf,
}

impl Place {
    /// Below the conversations of a run.
    pub(super) fn of(kind: Kind, conversations: &Path, step: StepRef, session: u32) -> Place {
        let name = match (step.node, step.item) {
            // One that was reset begins another, and never finds the one before.
            (Some(node), _) => format!("node-{node}-{session}"),
            (None, Some(item)) => format!("item-{item}"),
            (None, None) => step.role.to_string(),
        };
        Place::at(kind, conversations.join(name))
    }

    /// At this very place.
    pub(super) fn at(kind: Kind, dir: PathBuf) -> Place {
        Place { kind, dir }
    }

    /// The conversation that is kept here, if there is one.
    pub(super) fn read(&self) -> Option<Ongoing> {
        let known = serde_json::from_slice(&std::fs::read(self.dir.join(KNOWN)).ok()?).ok()?;
        Some(Ongoing { known, files: self.dir.join(FILES) })
    }

    /// The conversation in which a prompt can be said, if there is one. A role of which it is said differently what it is
    /// begins anew.
    pub(super) fn find(&self, prompt: &PromptBlocks) -> Option<Ongoing> {
        let ongoing = self.read()?;
        let same = |name| ongoing.known.told.block(name) == prompt.block(name);
        (same(BlockName::System) && same(BlockName::Role)).then_some(ongoing)
    }

    /// Keeps the conversations that an agent has in its home, in place of what is kept: those it found there, and over
    /// them those that it changed. Nothing is kept if there are none, or too much of them.
    pub(super) fn keep(&self, known: &Known, homes: &[&OwnedFd]) -> Result<()> {
        match self.copy(known, homes, BYTES_MAX)? {
            Some(copied) => copied.publish(),
            None => self.forget(),
        }
    }

    /// Copies the conversations that an agent has in its home, to be kept here; none if there are none, or too much of them.
    pub(super) fn copy(&self, known: &Known, homes: &[&OwnedFd], bytes_max: u64) -> Result<Option<Copied>> {
        let copied = Copied { dir: store::temporary_name(&self.dir), to: self.dir.clone() };
        let mut copier = Copier::new(self.kind, copied.files(), bytes_max);
        for home in homes {
            copier.copy(home)?;
        }
        if !copier.found || !copier.complete {
            return Ok(None);
        }
        make_dir(&copied.dir)?;
        let text = serde_json::to_vec(known).expect("BUG: a conversation is plain data");
        let path = copied.dir.join(KNOWN);
        std::fs::write(&path, text).map_err(|source| Error::io("write", &path, source))?;
        Ok(Some(copied))
    }

    /// The same of a conversation that is cut off, or may be: where such a one cannot continue, the next turn begins anew.
    pub(super) fn keep_cut_off(&self, known: &Known, homes: &[&OwnedFd]) -> Result<()> {
        if session::resumes_when_cut_off(self.kind) { self.keep(known, homes) } else { self.forget() }
    }

    /// Has the next turn begin anew.
    pub(super) fn forget(&self) -> Result<()> {
        Ok(store::remove_tree(&self.dir)?)
    }
}

/// A conversation that was copied and is not kept yet; dropped, it is gone.
#[must_use]
pub(super) struct Copied {
    dir: PathBuf,
    to: PathBuf,
}

impl Copied {
    /// Its files, as they lay in a home.
    pub(super) fn files(&self) -> PathBuf {
        self.dir.join(FILES)
    }

    /// Keeps it in place of what is kept.
    pub(super) fn publish(self) -> Result<()> {
        store::remove_tree(&self.to)?;
        std::fs::rename(&self.dir, &self.to).map_err(|source| Error::io("rename", &self.dir, source))
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // Once it is published there is nothing here; what cannot be removed goes with the others of its age.
        let _ = store::remove_tree(&self.dir);
    }
}

/// Copies the files of a conversation into a home.
pub(super) fn bring(kind: Kind, files: &Path, home: &Path) -> Result<()> {
    let mut copier = Copier::new(kind, home.to_owned(), BYTES_MAX);
    open(files).map_or(Ok(()), |files| copier.copy(&files))
}

/// Opens a home that no layer lies on.
pub(super) fn home(dir: &Path) -> Option<OwnedFd> {
    open(dir)
}

struct Copier {
    kind: Kind,
    to: PathBuf,
    below: &'static str,
    bytes_left: u64,
    files_left: u32,
    found: bool,
    complete: bool,
}

impl Copier {
    fn new(kind: Kind, to: PathBuf, bytes_max: u64) -> Copier {
        Copier { kind, to, below: "", bytes_left: bytes_max, files_left: FILES_MAX, found: false, complete: true }
    }

    fn copy(&mut self, home: &OwnedFd) -> Result<()> {
        for below in session::conversations(self.kind) {
            if let Ok(dir) = open_below(home, below.as_bytes()) {
                (self.below, self.found) = (below, true);
                visit(dir, self)?;
            }
        }
        Ok(())
    }
}

impl Visitor for Copier {
    fn wants(&mut self, name: &str) -> bool {
        let path = format!("{}/{name}", self.below);
        // A sign-in is copied from the user's own home each time.
        !session::sign_in_files(self.kind).any(|file| file == path)
    }

    fn file(&mut self, file: File, path: &str) -> Result<()> {
        let size = file.metadata().map_or(u64::MAX, |meta| meta.len());
        if !self.complete || self.files_left == 0 || size > self.bytes_left {
            self.complete = false;
            return Ok(());
        }
        (self.files_left, self.bytes_left) = (self.files_left - 1, self.bytes_left - size);
        let to = self.to.join(self.below).join(path);
        make_dir(to.parent().unwrap_or(&self.to))?;
        let copied = File::options().write(true).create(true).truncate(true).mode(0o600).open(&to);
        copied
            // No more than it was said to be, however fast it grows.
            .and_then(|mut copy| std::io::copy(&mut file.take(size), &mut copy))
            .map_err(|source| Error::io("copy", &to, source))?;
        Ok(())
    }

    /// Links and sockets are no part of a conversation.
    fn left_out(&mut self, _why: String) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{PromptBlock, Role, Sent};

    fn prompt(role: &str, task: &str) -> PromptBlocks {
        let block = |name, text: &str| PromptBlock { name, source: "built-in".to_owned(), text: text.to_owned() };
        let blocks = vec![block(BlockName::System, "s"), block(BlockName::Role, role), block(BlockName::Task, task)];
        PromptBlocks { version: 1, sent: Sent::Full, blocks }
    }

    fn known() -> Known {
        Known { agent: "codex".to_owned(), id: "t".to_owned(), told: prompt("plan", "one"), used: Usage::default() }
    }

    fn step(role: Role, item: Option<u32>) -> StepRef {
        StepRef { index: 1, role, iteration: 1, attempt: 1, item, node: None }
    }

    #[test]
    fn a_conversation_goes_on_in_its_role_and_only_if_the_role_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, left) = (dir.path().join("kept"), dir.path().join("home"));
        std::fs::create_dir_all(left.join(".codex/sessions")).unwrap();
        std::fs::write(left.join(".codex/sessions/a.jsonl"), "a").unwrap();
        let place = |step| Place::of(Kind::Codex, &kept, step, 0);
        place(step(Role::Plan, None)).keep(&known(), &[&home(&left).unwrap()]).unwrap();
        assert!(place(step(Role::Check, None)).find(&prompt("plan", "two")).is_none());
        assert!(place(step(Role::Worker, Some(0))).find(&prompt("plan", "two")).is_none());
        assert!(place(step(Role::Plan, None)).find(&prompt("another plan", "two")).is_none());
        let ongoing = place(step(Role::Plan, None)).find(&prompt("plan", "two")).unwrap();
        assert_eq!(ongoing.known, known());
        let next = dir.path().join("next");
        bring(Kind::Codex, &ongoing.files, &next).unwrap();
        assert_eq!(std::fs::read_to_string(next.join(".codex/sessions/a.jsonl")).unwrap(), "a");
        place(step(Role::Plan, None)).forget().unwrap();
        assert!(place(step(Role::Plan, None)).find(&prompt("plan", "two")).is_none());
    }

    #[test]
    fn only_what_belongs_to_a_conversation_is_taken_from_a_home() {
        let dir = tempfile::tempdir().unwrap();
        let (left, kept) = (dir.path().join("home"), dir.path().join("kept"));
        let data = left.join(".local/share/opencode");
        std::fs::create_dir_all(data.join("storage")).unwrap();
        for file in ["opencode.db", "storage/a", "auth.json"] {
            std::fs::write(data.join(file), file).unwrap();
        }
        std::fs::write(left.join(".profile"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", data.join("link")).unwrap();
        let changed = dir.path().join("changed");
        std::fs::create_dir_all(changed.join(".local/share/opencode")).unwrap();
        std::fs::write(changed.join(".local/share/opencode/opencode.db"), "more").unwrap();
        let (left, changed) = (home(&left).unwrap(), home(&changed).unwrap());
        let homes = [&left, &changed];
        let place = |kind| Place::of(kind, &kept, step(Role::Worker, Some(3)), 0);
        place(Kind::Opencode).keep(&known(), &homes).unwrap();
        let to = kept.join("item-3/files");
        let below = to.join(".local/share/opencode");
        assert_eq!(std::fs::read_to_string(below.join("storage/a")).unwrap(), "storage/a");
        assert_eq!(std::fs::read_to_string(below.join("opencode.db")).unwrap(), "more");
        for gone in [below.join("auth.json"), below.join("link"), to.join(".profile")] {
            assert!(gone.symlink_metadata().is_err(), "{gone:?}");
        }
        for kind in [Kind::Codex, Kind::Acp] {
            place(kind).keep(&known(), &homes).unwrap();
            assert!(place(kind).find(&prompt("plan", "two")).is_none(), "{kind:?} has none, or nobody knows where");
        }
    }
}
