//! A workspace where there is no overlay: a private checkout of its own, and a walk over all of it.
//!
//! It costs what the repository weighs, but gives the same results: the walk is the same, with one more meaning for
//! what is absent.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode};

use super::capture::{CaptureRules, Captured, capture_as};
use super::stat_cache::StatCache;
use super::walk::View;
use crate::git::objects::Objects;
use crate::git::tree::MODE_GITLINK;
use crate::git::{Checkout, GitError, IoContext, ObjectId, sweep};

/// A private checkout and what is known of its files.
#[derive(Debug)]
pub struct PlainWorkspace {
    /// Where the agent works.
    pub checkout: Checkout,
    tree: ObjectId,
    cache: StatCache,
}

impl PlainWorkspace {
    /// Makes a checkout of `tree` in a directory that does not exist yet.
    pub fn create(objects: &Objects, dir: &Path, commit: ObjectId, tree: ObjectId) -> Result<PlainWorkspace, GitError> {
        let checkout = Checkout::create(objects, dir, commit, tree)?;
        let mut workspace = PlainWorkspace { checkout, tree, cache: StatCache::default() };
        workspace.remember(objects)?;
        Ok(workspace)
    }

    /// Makes the files exactly those of another tree, whatever was done to them.
    pub fn advance(&mut self, objects: &Objects, commit: ObjectId, tree: ObjectId) -> Result<(), GitError> {
        self.checkout.advance(objects, commit, tree)?;
        self.tree = tree;
        self.remember(objects)
    }

    /// What was made of the files since then. Only for when every process that could write there is dead.
    pub fn capture(&mut self, objects: &Objects, rules: &CaptureRules) -> Result<Captured, GitError> {
        let dir = &self.checkout.dir;
        // The agent may have taken even norma's permission to look into it. A link in its place is not followed.
        if std::fs::symlink_metadata(dir).context("look at", dir)?.is_dir() {
            rustix::fs::chmod(dir, Mode::RWXU).context("set the mode of", dir)?;
        }
        let root = sweep::open_directory(dir)?;
        capture_as(objects, self.tree, root.as_fd(), rules, View::Whole, Some(&mut self.cache))
    }

    /// Notes what the files look like now that they are known to be those of the tree.
    fn remember(&mut self, objects: &Objects) -> Result<(), GitError> {
        let root = sweep::open_directory(&self.checkout.dir)?;
        self.cache.begin();
        objects.walk(self.tree, &mut |path, mode, id| {
            let stat = rustix::fs::statat(&root, path, AtFlags::SYMLINK_NOFOLLOW);
            if let (Ok(stat), true) = (stat, mode != MODE_GITLINK) {
                self.cache.put(path, &stat, id);
            }
        })
    }
}
