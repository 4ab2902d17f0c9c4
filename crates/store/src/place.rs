//! Which file the database is. An open database continues working after somebody removed it or put another in its
//! place (`git clean -fdx` does the first): commits would succeed and be lost. So the file that the name leads to is
//! compared with the one that was opened, before anything is acknowledged.

use crate::{Error, IoContext, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file by identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// The file that is there now.
    pub(crate) fn of(path: &Path) -> Result<Place> {
        let meta = std::fs::metadata(path).at("look at", path)?;
        Ok(Place { path: path.to_owned(), device: meta.dev(), inode: meta.ino() })
    }

    /// Refuses to continue if the name leads to another file now, or to none.
    pub(crate) fn check(&self) -> Result<()> {
        match Place::of(&self.path) {
            Ok(now) if now == *self => Ok(()),
            _ => Err(Error::Replaced(self.path.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_or_replaced_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("norma.db");
        std::fs::write(&path, "").unwrap();
        let place = Place::of(&path).unwrap();
        std::fs::write(&path, "written to").unwrap();
        place.check().unwrap();
        std::fs::rename(&path, dir.path().join("aside")).unwrap();
        assert!(matches!(place.check(), Err(Error::Replaced(_))));
        std::fs::write(&path, "another").unwrap();
        assert!(matches!(place.check(), Err(Error::Replaced(_))));
    }
}
