//! What a contract would come to, before anything of it exists: nothing is written below the repository, whether or not
//! there is a state directory.

use crate::context::confinement::shows_dependencies;
use crate::context::scratch::Scratch;
use crate::git::{DirtyPath, Head, Objects};
use crate::workspace::dependencies;
use crate::{Context, Result, Settings, Submitted, submit};
use contract::{Config, Item};
use run::proposal::Facts;
use std::path::{Path, PathBuf};

/// A look at the commit that a run would start from.
pub struct Preview<'c> {
    context: &'c Context,
    /// The commit.
    pub head: Head,
    objects: Objects,
    _scratch: Option<Scratch>,
}

impl<'c> Preview<'c> {
    /// Looks at HEAD.
    pub fn open(context: &'c Context) -> Result<Preview<'c>> {
        let head = context.user.head()?;
        let (git, scratch) = match context.layout.exists() {
            true => (context.layout.git(), None),
            false => {
                let scratch = Scratch::new("preview")?;
                (scratch.0.join("git"), Some(scratch))
            }
        };
        let objects = Objects::open_or_create(&git, &context.user)?;
        Ok(Preview { context, head, objects, _scratch: scratch })
    }

    /// Paths of the checkout that the commit has otherwise, or not at all.
    pub(crate) fn uncommitted(&self) -> Result<Vec<DirtyPath>> {
        Ok(self.context.user.dirty(&self.objects)?)
    }

    /// What a proposal is made of, and which installed dependencies the workspace would not show, in words.
    pub fn facts(&self) -> Result<(Facts, Vec<String>)> {
        crate::host::facts::read_facts(self.context, &self.objects, self.head.tree)
    }

    /// The same, with what the repository says about a sentence.
    pub fn facts_for(&self, sentence: &str, settings: &Settings) -> Result<(Facts, Vec<String>)> {
        let (mut facts, left_out) = self.facts()?;
        crate::host::facts::read_for(sentence, self.context, self.head.tree, &settings.policies, &mut facts);
        Ok((facts, left_out))
    }

    /// What a document comes to under these settings.
    pub fn submit(&self, settings: &Settings, bytes: &[u8]) -> Result<Submitted> {
        submit(&self.context.user, &self.objects, &self.context.layout, settings, bytes, &Default::default())
    }

    /// Why these items need a person's approval.
    pub fn approval_reasons(&self, settings: &Settings, items: &[Item]) -> Result<Vec<String>> {
        crate::record::approval::reasons(&self.objects, self.head.tree, items.iter(), &settings.policies)
    }

    /// Whether the commit has a file or directory there.
    pub fn has(&self, path: &str) -> Result<bool> {
        Ok(path.is_empty() || self.objects.tree_entry(self.head.tree, path.as_bytes())?.is_some())
    }

    /// The names in a directory of the commit.
    pub fn names_in(&self, directory: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.objects.walk(self.head.tree, &mut |path, _, _| {
            let Ok(path) = std::str::from_utf8(path) else { return };
            let inside = match directory {
                "" => Some(path),
                directory => path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')),
            };
            let name = inside.and_then(|inside| inside.split('/').next()).map(str::to_owned);
            if name.is_some() && names.last() != name.as_ref() {
                names.extend(name);
            }
        })?;
        Ok(names)
    }

    /// What of the checkout the workspace would show read-only.
    pub fn shown(&self, config: &Config) -> Result<Vec<String>> {
        let mut shown = config.sandbox.read.clone();
        if shows_dependencies(&self.context.sandbox, config) {
            let found = dependencies::find(&self.context.user, &self.objects, self.head.tree)?;
            shown.extend(found.shown.into_iter().filter_map(|path| path.into_os_string().into_string().ok()));
        }
        Ok(shown)
    }

    /// The program of a test command.
    pub fn test_program(&self, shown: &[String], name: &str) -> Result<Option<PathBuf>> {
        crate::machine::base_tests::test_program(self.context, &self.objects, self.head.tree, shown, name)
    }

    /// The root of the repository.
    pub fn root(&self) -> &Path {
        &self.context.layout.root
    }
}
