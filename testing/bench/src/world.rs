//! What the benchmarks work in: one temporary folder on the disk that is measured, with a home of its own, so
//! that no configuration of the user's takes part. It is gone afterwards.

use crate::{Args, Result};
use runner::git::{Repository, UserEnvironment};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many files one folder of a made-up repository has.
const FILES_PER_FOLDER: u32 = 100;

/// See the module.
pub(crate) struct World {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// The program under measurement.
    pub(crate) norma: PathBuf,
    /// The programs that have peers carry out the same work.
    pub(crate) peers: PathBuf,
    /// Where peers are installed, from one run to the next.
    pub(crate) tools: PathBuf,
    /// Fewer rounds and smaller sizes: to see that it works, not to quote.
    pub(crate) quick: bool,
    path: OsString,
    named: AtomicU32,
    /// Where below the folder new names are.
    spot: Mutex<&'static str>,
    _kept: tempfile::TempDir,
}

impl World {
    /// By default in the folder for temporary files that outlive a reboot: unlike the other one it is on a disk.
    /// Not beside the build, where files come and go: ext4 without a journal avoids the numbers of files that were
    /// just deleted, so whoever makes files there pays for the neighbours.
    pub(crate) fn create(args: &Args) -> Result<World> {
        let place = args.dir.as_deref().unwrap_or(Path::new("/var/tmp"));
        let kept = tempfile::Builder::new().prefix("bench-").tempdir_in(place)?;
        let dir = kept.path().canonicalize()?;
        spread(&dir);
        std::fs::create_dir(dir.join("home"))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (norma, tools, quick) = (args.norma.clone(), args.tools.clone(), args.quick);
        let peers = args.root.join("testing/bench/peers");
        let (named, spot) = (AtomicU32::new(0), Mutex::new(""));
        Ok(World { dir, norma, peers, tools, quick, path, named, spot, _kept: kept })
    }

    /// How many of something, by how much time there is.
    pub(crate) fn count(&self, full: u32, quick: u32) -> u32 {
        if self.quick { quick } else { full }
    }

    /// A name in the folder that nobody had yet.
    pub(crate) fn fresh_name(&self, kind: &str) -> String {
        let spot = *self.spot.lock().expect("BUG: nobody panics with it");
        format!("{spot}{kind}-{}", self.named.fetch_add(1, Ordering::Relaxed))
    }

    /// Has new names lie in a directory that ends with a slash, or in the folder itself.
    pub(crate) fn name_below(&self, spot: &'static str) {
        *self.spot.lock().expect("BUG: nobody panics with it") = spot;
    }

    /// The search path agents and git get.
    pub(crate) fn path(&self) -> &OsString {
        &self.path
    }

    /// What an agent sees of the environment.
    pub(crate) fn agent_env(&self) -> BTreeMap<OsString, OsString> {
        BTreeMap::from([("PATH".into(), self.path.clone()), ("HOME".into(), self.dir.join("home").into())])
    }

    /// A command in the hermetic environment.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>, cwd: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(cwd).env_clear().envs(self.agent_env());
        command.env("XDG_DATA_HOME", self.dir.join("home/data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The repository as norma sees it.
    pub(crate) fn discover(&self, dir: &Path) -> Result<Repository> {
        let environment = UserEnvironment {
            path: Some(self.path.clone()),
            home: Some(self.dir.join("home").into()),
            ..UserEnvironment::default()
        };
        Ok(Repository::discover(dir, environment)?)
    }

    /// A repository with one commit of `files` small files, checked out.
    pub(crate) fn repository(&self, name: &str, files: u32) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        std::fs::create_dir(&dir)?;
        self.git(&dir, &["init", "--quiet", "--initial-branch=main"], b"")?;
        self.git(&dir, &["fast-import", "--quiet", "--done"], &history(files))?;
        self.git(&dir, &["reset", "--quiet", "--hard", "main"], b"")?;
        Ok(dir)
    }

    /// Runs git with this input; it must succeed.
    pub(crate) fn git(&self, dir: &Path, args: &[&str], input: &[u8]) -> Result<()> {
        let mut child = self.command("git", dir).args(args).stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input)?;
        }
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("git {args:?} ended with {status}").into()) }
    }
}

/// Has ext4 put each directory that is made here into a part of the disk of its own, so that no sample works where another
/// one has just deleted files. Other file systems have no such mark, and need none.
fn spread(dir: &Path) {
    let mark = || -> std::io::Result<()> {
        let dir = std::fs::File::open(dir)?;
        let flags = rustix::fs::ioctl_getflags(&dir)?;
        Ok(rustix::fs::ioctl_setflags(&dir, flags | rustix::fs::IFlags::TOPDIR)?)
    };
    let _ = mark();
}

/// One commit, as `git fast-import` reads it.
fn history(files: u32) -> Vec<u8> {
    let mut stream = b"commit refs/heads/main\ncommitter bench <bench@localhost> 0 +0000\ndata 5\nfiles\n".to_vec();
    for number in 0..files {
        let content = format!("file {number}\n");
        let folder = number / FILES_PER_FOLDER;
        stream.extend(format!("M 644 inline src/{folder:04}/{number:06}.txt\n").into_bytes());
        stream.extend(format!("data {}\n{content}\n", content.len()).into_bytes());
    }
    stream.extend_from_slice(b"done\n");
    stream
}
