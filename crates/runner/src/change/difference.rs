//! What a candidate tree is, measured by norma: every path that differs, sorted, weighed and spelled out as a patch.
//! An agent's own list of changes is never looked at.

use crate::Result;
use crate::change::{observed, paths, text_bytes_max};
use crate::git::{Contents, ObjectId, Objects, TreeChange};
use crate::git::{id, recorded};
use contract::TreeId;
use contract::hash::{ContentDigest, ContentHasher};
use contract::receipt::{ArtifactKind, Deltas, ReceiptArtifact};
use run::gate::delta;
use run::gate::scope::ChangedPath;
use run::gate::shown;
use std::sync::Arc;

/// The difference between two trees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Difference {
    /// From which tree to which; none where none was looked at.
    pub(crate) trees: Option<(TreeId, TreeId)>,
    /// In the words of the scope gate.
    pub(crate) paths: Vec<ChangedPath>,
    /// Each path in one of four.
    pub(crate) deltas: Deltas,
    /// Each file with what it is now.
    pub(crate) artifacts: Vec<ReceiptArtifact>,
    /// The same as text; without its secrets, if it adds any.
    pub(crate) patch: Arc<[u8]>,
}

impl Difference {
    pub(crate) fn between(objects: &Objects, rules: u32, old: TreeId, new: TreeId) -> Result<Difference> {
        Difference::proposed_as(objects, rules, (old, new), None)
    }

    /// The same where the second tree was made of the first by a patch, which is kept as it is unless it adds a secret.
    pub(crate) fn proposed_as(
        objects: &Objects,
        rules: u32,
        (old, new): (TreeId, TreeId),
        proposed: Option<&[u8]>,
    ) -> Result<Difference> {
        let trees = Some((old, new));
        if old == new {
            let patch = proposed.unwrap_or_default().into();
            return Ok(Difference { trees, patch, ..Difference::default() });
        }
        let (old, new) = (id(old), id(new));
        let found = objects.diff(old, new)?;
        let paths = paths::changes(objects, Some((old, new)), &found)?;
        let mut artifacts = Vec::with_capacity(found.len());
        for (number, change) in (1..).zip(&found) {
            artifacts.push(artifact(objects, number, change)?);
        }
        let sides = found.iter().map(|it| delta::Change {
            path: it.path.clone(),
            before: it.old.map(|entry| recorded(entry.id)),
            after: it.new.map(|entry| recorded(entry.id)),
        });
        let deltas = delta::deltas(&sides.collect::<Vec<_>>());
        let patch = match proposed.filter(|_| paths.iter().all(|path| path.secrets.is_empty())) {
            Some(patch) => patch.into(),
            None => {
                let patch = objects.diff_text(old, new, text_bytes_max(rules))?;
                observed::patch_to_keep(objects, &found, &paths, patch)?.into()
            }
        };
        Ok(Difference { trees, deltas, patch, paths, artifacts })
    }

    /// Paths that are created, edited and deleted.
    pub(crate) fn files(&self) -> [u64; 3] {
        let count = |kind| self.artifacts.iter().filter(|it| it.kind == kind).count() as u64;
        [count(ArtifactKind::Create), count(ArtifactKind::Edit), count(ArtifactKind::Delete)]
    }
}

fn artifact(objects: &Objects, number: u64, change: &TreeChange) -> Result<ReceiptArtifact> {
    let kind = match (&change.old, &change.new) {
        (None, _) => ArtifactKind::Create,
        (_, None) => ArtifactKind::Delete,
        _ => ArtifactKind::Edit,
    };
    let content = match &change.new {
        // What is not a file has no content of its own.
        Some(entry) if entry.mode != crate::git::MODE_GITLINK => Some(hashed(objects, entry.id)?),
        _ => None,
    };
    Ok(ReceiptArtifact {
        id: number,
        kind,
        path: shown(&change.path),
        mode: change.new.map(|entry| format!("{:06o}", entry.mode)),
        content_hash: content.map(|content| content.state),
        blake3: content.map(|content| content.blake3),
        sha256: content.map(|content| content.sha256),
    })
}

fn hashed(objects: &Objects, blob: ObjectId) -> Result<ContentDigest> {
    let mut hasher = ContentHasher::new();
    let contents = Contents::open(objects)?;
    contents.pieces(blob, &mut |piece| {
        hasher.update(piece);
    })?;
    Ok(hasher.finish())
}
