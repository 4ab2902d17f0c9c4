//! Conversations that outlive their run, so that a contract can continue one by the name that its agent gave it. Only those
//! of workers that answered well, that nothing would have to be redacted from, and the newest: they are for going on with,
//! and no evidence. The name is the agent's word, so it is hashed to become that of a directory, and nobody's conversation is
//! replaced but by who was told to continue it.

use super::ongoing::{Known, Ongoing, Place};
use crate::evidence::left_files::{Visitor, open, visit};
use crate::{Error, Result};
use contract::hash::sha256;
use run::redact::{Redactor, Stream};
use session::Kind;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// So many are kept in a state directory: with the bound for each, half a gigabyte at worst.
const THREADS_MAX: usize = 32;

/// What one may weigh.
const BYTES_MAX: u64 = 16 << 20;

/// Older ones are not worth continuing: the repository has moved on.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How much of a file is looked at at once.
const PIECE: usize = 64 * 1024;

/// The conversations of a state directory.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    dir: PathBuf,
}

impl Threads {
    pub(crate) fn new(dir: PathBuf) -> Threads {
        Threads { dir }
    }

    fn place(&self, kind: Kind, id: &str) -> Place {
        Place::at(kind, self.dir.join(sha256(id.as_bytes()).to_string()))
    }

    /// The conversation of this name with this make of agent.
    pub(super) fn find(&self, kind: Kind, id: &str) -> Option<Ongoing> {
        let found = self.place(kind, id).read()?;
        (found.known.id == id && found.known.agent == kind.as_str()).then_some(found)
    }

    /// Whether there is one.
    pub(crate) fn has(&self, kind: Kind, id: &str) -> bool {
        self.find(kind, id).is_some()
    }

    /// Keeps a conversation that its agent has in its homes. `continued` is the one that its contract names. What keeps it
    /// from being kept is for people to know.
    pub(super) fn keep(
        &self,
        kind: Kind,
        known: &Known,
        homes: &[&OwnedFd],
        continued: Option<&str>,
        redactor: &Arc<Redactor>,
    ) -> Result<Option<String>> {
        if !session::resumes_in_session(kind) {
            return Ok(None);
        }
        let place = self.place(kind, &known.id);
        if continued != Some(known.id.as_str()) && place.read().is_some() {
            return Ok(Some("another of this name is".to_owned()));
        }
        super::home::make_dir(&self.dir)?;
        let Some(copied) = place.copy(known, homes, BYTES_MAX)? else {
            return Ok(Some(format!("there is none, or it has more than {} MiB", BYTES_MAX >> 20)));
        };
        let mut search = Search { redactor, found: 0 };
        if let Some(files) = open(&copied.files()) {
            visit(files, &mut search)?;
        }
        if search.found > 0 {
            return Ok(Some("it holds what looks like a secret".to_owned()));
        }
        copied.publish()?;
        self.prune(SystemTime::now())?;
        Ok(None)
    }

    /// Removes all but the newest, and what is too old; answers how many.
    pub(crate) fn prune(&self, now: SystemTime) -> Result<u64> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            entries => entries.map_err(|source| Error::io("read", &self.dir, source))?,
        };
        let kept_at = |path: &Path| path.symlink_metadata().and_then(|meta| meta.modified());
        let mut all: Vec<(SystemTime, PathBuf)> =
            entries.flatten().filter_map(|entry| Some((kept_at(&entry.path()).ok()?, entry.path()))).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let is_old = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > AGE_MAX);
        let mut removed = 0;
        for (place, (time, path)) in all.iter().enumerate() {
            if place >= THREADS_MAX || is_old(time) {
                store::remove_tree(path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// What keeps the conversation of a turn beyond its run.
pub(super) struct Lasting {
    pub(super) threads: Threads,
    /// The conversation that the turn's contract names.
    pub(super) continued: Option<String>,
    pub(super) redactor: Arc<Redactor>,
}

impl Lasting {
    /// Keeps it, or says in a note why not: nothing that was done depends on it.
    pub(super) fn keep(&self, kind: Kind, known: &Known, homes: &[&OwnedFd]) -> Option<String> {
        let kept = self.threads.keep(kind, known, homes, self.continued.as_deref(), &self.redactor);
        let why = kept.unwrap_or_else(|error| Some(error.to_string()))?;
        Some(format!("the conversation is not kept beyond this run: {why}"))
    }

    /// A note where the agent works in another conversation than its contract names.
    pub(super) fn strayed(&self, id: &str) -> Option<String> {
        let named = self.continued.as_deref().filter(|named| *named != id)?;
        Some(format!("the contract names conversation {named}, and the agent calls the one that it continued {id}"))
    }
}

/// Looks for what evidence would be kept without.
struct Search<'r> {
    redactor: &'r Arc<Redactor>,
    found: u64,
}

impl Visitor for Search<'_> {
    fn wants(&mut self, _name: &str) -> bool {
        true
    }

    fn file(&mut self, mut file: File, path: &str) -> Result<()> {
        let mut stream = Stream::new(Arc::clone(self.redactor));
        let mut piece = vec![0; PIECE];
        loop {
            let read = file.read(&mut piece).map_err(|source| Error::io("read", Path::new(path), source))?;
            if read == 0 {
                break;
            }
            stream.push(&piece[..read]);
        }
        self.found += stream.finish().1.values().sum::<u64>();
        Ok(())
    }

    fn left_out(&mut self, _why: String) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::ongoing::home;
    use contract::{PromptBlocks, Sent, Usage};

    /// A home in which codex has one conversation that says this.
    fn codex_home(dir: &Path, text: &str) -> OwnedFd {
        let sessions = dir.join(".codex/sessions");
        std::fs::create_dir_all(&sessions).unwrap();
        std::fs::write(sessions.join("a.jsonl"), text).unwrap();
        home(dir).unwrap()
    }

    fn known(id: &str) -> Known {
        let told = PromptBlocks { version: 1, sent: Sent::Full, blocks: Vec::new() };
        Known { agent: "codex".to_owned(), id: id.to_owned(), told, used: Usage::default() }
    }

    struct Kept {
        dir: tempfile::TempDir,
        threads: Threads,
    }

    impl Kept {
        fn new() -> Kept {
            let dir = tempfile::tempdir().unwrap();
            let threads = Threads::new(dir.path().join("threads"));
            Kept { dir, threads }
        }

        fn keep(&self, id: &str, text: &str, continued: Option<&str>) -> Option<String> {
            let left = codex_home(&self.dir.path().join("home"), text);
            let redactor = Arc::new(Redactor::patterns());
            self.threads.keep(Kind::Codex, &known(id), &[&left], continued, &redactor).unwrap()
        }

        fn text(&self, id: &str) -> Option<String> {
            let found = self.threads.find(Kind::Codex, id)?;
            Some(std::fs::read_to_string(found.files.join(".codex/sessions/a.jsonl")).unwrap())
        }
    }

    #[test]
    fn a_conversation_is_found_by_its_name_and_make_and_replaced_only_by_who_continues_it() {
        let kept = Kept::new();
        for id in ["0199-a", "../../etc/passwd"] {
            assert_eq!(kept.keep(id, "one", None), None);
            assert_eq!(kept.text(id).as_deref(), Some("one"));
            assert!(kept.threads.has(Kind::Codex, id) && !kept.threads.has(Kind::Claude, id));
        }
        assert!(!kept.threads.has(Kind::Codex, "0199-b"));
        let names: Vec<_> = std::fs::read_dir(kept.dir.path().join("threads")).unwrap().collect();
        assert_eq!(names.len(), 2, "nothing else was left there: {names:?}");
        assert!(kept.keep("0199-a", "bent", None).is_some(), "an agent may call its conversation as it likes");
        assert!(kept.keep("0199-a", "bent", Some("0199-b")).is_some());
        assert_eq!(kept.text("0199-a").as_deref(), Some("one"));
        assert_eq!(kept.keep("0199-a", "two", Some("0199-a")), None);
        assert_eq!(kept.text("0199-a").as_deref(), Some("two"));
    }

    #[test]
    fn a_conversation_with_a_secret_in_it_does_not_outlive_its_run() {
        let kept = Kept::new();
        let token = format!("it is ghp_{}", "a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6");
        assert_eq!(kept.keep("a", &token, None).as_deref(), Some("it holds what looks like a secret"));
        assert!(!kept.threads.has(Kind::Codex, "a"));
        assert_eq!(std::fs::read_dir(kept.dir.path().join("threads")).unwrap().count(), 0);
    }

    #[test]
    fn the_newest_are_kept_and_none_for_ever() {
        let kept = Kept::new();
        let dir = kept.dir.path().join("threads");
        let now = SystemTime::now();
        for place in 0..THREADS_MAX as u64 + 3 {
            let path = dir.join(place.to_string());
            std::fs::create_dir_all(&path).unwrap();
            let at = now - Duration::from_secs(place);
            File::open(&path).unwrap().set_modified(at).unwrap();
        }
        assert_eq!(kept.threads.prune(now).unwrap(), 3);
        assert!(dir.join((THREADS_MAX - 1).to_string()).exists() && !dir.join(THREADS_MAX.to_string()).exists());
        assert_eq!(kept.threads.prune(now + AGE_MAX).unwrap(), THREADS_MAX as u64 - 1);
        assert!(dir.join("0").exists());
    }
}
