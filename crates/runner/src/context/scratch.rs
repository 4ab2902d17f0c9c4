//! A directory of one piece of work alone, outside of every repository, gone with it.

use crate::{Error, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where it is.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Makes one; `purpose` is part of its name.
    pub(crate) fn new(purpose: &str) -> Result<Scratch> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("norma-{purpose}-{}-{number}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&dir);
        made.map_err(|source| Error::io("create", &dir, source)).map(|()| Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is below the system's directory for such things.
        let _ = store::remove_tree(Path::new(&self.0));
    }
}
