//! Where things are. One state directory, one place for each kind of thing in it.

use crate::{IoContext, Result};
use contract::{Digest, RepoPath};
use rustix::fs::IFlags;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What `.norma/.gitignore` says: only what people write is theirs to commit.
const GITIGNORE: &str = "*\n!.gitignore\n!config.json\n!policies/\n!policies/**\n!contracts/\n!contracts/**\n!templates/\n!templates/**\n!recipes/\n!recipes/**\n";

/// What it says where nobody has asked for a state directory (`norma run "…"` makes one by itself): git sees none of it.
const GITIGNORE_PRIVATE: &str = "*\n";

/// The state directory of a repository.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The repository's work tree.
    pub root: PathBuf,
    /// The state directory, usually `.norma/` in it.
    pub state: PathBuf,
}

impl Layout {
    /// `state` may lie anywhere; by default it is `.norma` in `root`.
    pub fn new(root: &Path, state: Option<&Path>) -> Layout {
        let state = state.map_or_else(|| root.join(".norma"), Path::to_owned);
        Layout { root: root.to_owned(), state }
    }

    /// Makes the directories and `.gitignore`; what is there stays as it is.
    pub fn create(&self) -> Result<()> {
        make_dir(&self.state)?;
        spread(&self.state);
        for dir in [self.locks(), self.runs(), self.state.join("worktrees")] {
            make_dir(&dir)?;
        }
        spread(&self.runs());
        let ignore = self.gitignore();
        if !ignore.exists() {
            std::fs::write(&ignore, GITIGNORE).at("write", &ignore)?;
        }
        Ok(())
    }

    /// Makes the state directory of somebody who never asked for one: git ignores all of it. One that git knows stays as
    /// it is.
    pub fn create_private(&self) -> Result<()> {
        make_dir(&self.state)?;
        let ignore = self.gitignore();
        if !ignore.exists() {
            std::fs::write(&ignore, GITIGNORE_PRIVATE).at("write", &ignore)?;
        }
        Ok(())
    }

    /// Whether git ignores the whole state directory. Until something lands, nothing is written to the user's git
    /// directory for such a one.
    pub fn is_private(&self) -> bool {
        std::fs::read_to_string(self.gitignore()).is_ok_and(|text| text == GITIGNORE_PRIVATE)
    }

    /// Makes an ordinary state directory of a private one: what people write in it is theirs to commit from now on.
    pub fn publish(&self) -> Result<()> {
        if self.is_private() {
            std::fs::write(self.gitignore(), GITIGNORE).at("write", &self.gitignore())?;
        }
        Ok(())
    }

    fn gitignore(&self) -> PathBuf {
        self.state.join(".gitignore")
    }

    /// Whether `norma init` was here.
    pub fn exists(&self) -> bool {
        self.db().is_file()
    }

    /// `config.json`.
    pub fn config(&self) -> PathBuf {
        self.state.join("config.json")
    }

    /// `schemas/`: what `$schema` of the configuration and policies names, for editors.
    pub fn schemas(&self) -> PathBuf {
        self.state.join("schemas")
    }

    /// `policies/`.
    pub fn policies(&self) -> PathBuf {
        self.state.join("policies")
    }

    /// `active/contract.json`: the contract that the git hooks enforce.
    pub fn active_contract(&self) -> PathBuf {
        self.state.join("active/contract.json")
    }

    /// Where the state directory lies in the repository; none if it lies elsewhere.
    pub fn state_in_repository(&self) -> Option<RepoPath> {
        RepoPath::parse(&self.state.strip_prefix(&self.root).ok()?.to_string_lossy()).ok()
    }

    /// `norma.db`.
    pub fn db(&self) -> PathBuf {
        self.state.join("norma.db")
    }

    /// `locks/`.
    pub fn locks(&self) -> PathBuf {
        self.state.join("locks")
    }

    /// `norma.sock`.
    pub fn socket(&self) -> PathBuf {
        self.state.join("norma.sock")
    }

    /// `git/`: norma's own objects.
    pub fn git(&self) -> PathBuf {
        self.state.join("git")
    }

    /// `cache/`: what can be found out again; it may be deleted at any time.
    pub fn cache(&self) -> PathBuf {
        self.state.join("cache")
    }

    /// `cache/state-hash`: digests of git objects.
    pub fn state_memo(&self) -> PathBuf {
        self.cache().join("state-hash")
    }

    /// `quarantine/`.
    pub fn quarantine(&self) -> PathBuf {
        self.state.join("quarantine")
    }

    /// `runs/`.
    pub fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// `runs/<slug>/`.
    pub fn run(&self, slug: &str) -> PathBuf {
        self.runs().join(slug)
    }

    /// `replays/<slug>/`: reports of what was judged or carried out again. They are no part of the run, which is sealed.
    pub fn replays(&self, slug: &str) -> PathBuf {
        self.state.join("replays").join(slug)
    }

    /// `recordings/`: what agents answered to intents, to be given again. The runs that asked have it as evidence.
    pub fn recordings(&self) -> PathBuf {
        self.state.join("recordings")
    }

    /// `calls/`: the ledger of calls to a compiler that somebody else runs, a file each.
    pub fn calls(&self) -> PathBuf {
        self.state.join("calls")
    }

    /// `recipes/`: templates of intents, `<id>/<version>.json` each.
    pub fn recipes(&self) -> PathBuf {
        self.state.join("recipes")
    }

    /// `recordings/<key>.json`.
    pub fn recording(&self, key: &Digest) -> PathBuf {
        self.recordings().join(format!("{key}.json"))
    }

    /// `worktrees/<slug>/`.
    pub fn worktree(&self, slug: &str) -> PathBuf {
        self.state.join("worktrees").join(slug)
    }

    /// `conversations/<slug>/`: what agents of the run were told and said, so that it can continue.
    pub fn conversations(&self, slug: &str) -> PathBuf {
        self.state.join("conversations").join(slug)
    }

    /// `threads/`: conversations that ended well, for contracts that continue one by its name.
    pub fn threads(&self) -> PathBuf {
        self.state.join("threads")
    }

    /// A path as rows and views spell it: relative to the repository where it lies inside it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }
}

fn make_dir(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).at("create", dir)
}

/// Has ext4 put each directory that is made in this one where there is room, not beside it. Without a journal it takes ten
/// times as long to make a file beside many that were just deleted, and repositories are where many are deleted: by builds,
/// and with every branch that is checked out. Other file systems have no such mark, and need none.
fn spread(dir: &Path) {
    let mark = || -> std::io::Result<()> {
        let dir = File::open(dir)?;
        let flags = rustix::fs::ioctl_getflags(&dir)?;
        if !flags.contains(IFlags::TOPDIR) {
            rustix::fs::ioctl_setflags(&dir, flags | IFlags::TOPDIR)?;
        }
        Ok(())
    };
    // It is about time alone.
    let _ = mark();
}
