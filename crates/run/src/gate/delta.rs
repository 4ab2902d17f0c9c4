//! What a change is made of: every changed path in exactly one of four deltas, and what was done to it. Which one is
//! decided by a list of names (`deltas.json`), in this order: laws, invariants, documents; what is on none of them is
//! state.

use super::listed::{Listed, PathList};
use super::{shown, test_files};
use contract::ObjectId;
use contract::receipt::{ArtifactKind, Delta, DeltaKind, Deltas};
use serde::Deserialize;

/// One path that differs, with git's ids of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Exact bytes of the name.
    pub path: Vec<u8>,
    /// Before; none if it was not there.
    pub before: Option<ObjectId>,
    /// After; none if it is gone.
    pub after: Option<ObjectId>,
}

impl Change {
    /// What was done to the file.
    pub fn kind(&self) -> ArtifactKind {
        match (&self.before, &self.after) {
            (None, _) => ArtifactKind::Create,
            (Some(_), None) => ArtifactKind::Delete,
            (Some(_), Some(_)) => ArtifactKind::Edit,
        }
    }

    fn delta(&self) -> Delta {
        let kind = match self.kind() {
            ArtifactKind::Create => DeltaKind::Add,
            ArtifactKind::Edit => DeltaKind::Modify,
            ArtifactKind::Delete => DeltaKind::Delete,
        };
        Delta { kind, target: shown(&self.path), before: self.before, after: self.after }
    }
}

/// The paths of a change by what was done to them, escaped so that they can be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    /// New ones.
    pub created: Vec<String>,
    /// Those that differ.
    pub edited: Vec<String>,
    /// Those that are gone.
    pub deleted: Vec<String>,
}

/// Sorts changes by what was done.
pub fn touched(changes: &[Change]) -> Touched {
    let mut touched = Touched::default();
    for change in changes {
        let list = match change.kind() {
            ArtifactKind::Create => &mut touched.created,
            ArtifactKind::Edit => &mut touched.edited,
            ArtifactKind::Delete => &mut touched.deleted,
        };
        list.push(shown(&change.path));
    }
    touched
}

/// Sorts changes by what they are.
pub fn deltas(changes: &[Change]) -> Deltas {
    let [laws, invariants, documents] = lists().map(PathList::new);
    let mut deltas = Deltas::default();
    for change in changes {
        let is_on = |list: &PathList| list.reason(&change.path).is_some();
        let delta = match change.path.as_slice() {
            _ if is_on(&laws) => &mut deltas.laws,
            _ if is_on(&invariants) => &mut deltas.invariants,
            _ if is_on(&documents) => &mut deltas.documents,
            _ => &mut deltas.state,
        };
        delta.push(change.delta());
    }
    deltas
}

/// `deltas.json`. Tests are invariants too, and have a list of their own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    laws: Vec<Listed>,
    invariants: Vec<Listed>,
    documents: Vec<Listed>,
}

/// Laws, invariants and documents.
fn lists() -> [Vec<Listed>; 3] {
    let lists: Lists =
        serde_json::from_str(include_str!("deltas.json")).expect("BUG: deltas.json is verified by a test");
    [lists.laws, test_files::listed().tests.into_iter().chain(lists.invariants).collect(), lists.documents]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::listed::assert_examples;

    fn id(digit: u8) -> ObjectId {
        ObjectId::Sha1([digit; 20])
    }

    fn change(path: &[u8], before: Option<u8>, after: Option<u8>) -> Change {
        Change { path: path.to_vec(), before: before.map(id), after: after.map(id) }
    }

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let deltas = deltas(&[change(path.as_bytes(), None, Some(1))]);
        assert_eq!(deltas.size(), 1, "{path}");
        let found = [
            ("laws", deltas.laws),
            ("invariants", deltas.invariants),
            ("documents", deltas.documents),
            ("state", deltas.state),
        ];
        let found: Vec<&str> = found.iter().filter(|(_, list)| !list.is_empty()).map(|(name, _)| *name).collect();
        assert_eq!(found, [expected], "{path}");
    }

    #[test]
    fn every_line_holds_its_own_examples() {
        lists().iter().for_each(|list| assert_examples(list));
    }

    #[test]
    fn every_path_is_in_exactly_one_delta() {
        check(".github/workflows/ci.yml", "laws");
        check("Cargo.toml", "laws");
        check("tests/fixtures/Cargo.toml", "laws");
        check("src/tests/a.rs", "invariants");
        check("tests/README.md", "invariants");
        check("api/user.schema.json", "invariants");
        check("README.md", "documents");
        check("docs/logo.svg", "documents");
        check("src/main.rs", "state");
        check("data/latest.json", "state");
    }

    #[test]
    fn a_delta_says_what_was_done_from_what_to_what() {
        let changes =
            [change(b"a.rs", None, Some(1)), change(b"b.rs", Some(1), Some(2)), change(b"c\x1b.rs", Some(2), None)];
        let found = deltas(&changes);
        let delta = |kind, target: &str, before: Option<u8>, after: Option<u8>| Delta {
            kind,
            target: target.to_owned(),
            before: before.map(id),
            after: after.map(id),
        };
        let expected = [
            delta(DeltaKind::Add, "a.rs", None, Some(1)),
            delta(DeltaKind::Modify, "b.rs", Some(1), Some(2)),
            delta(DeltaKind::Delete, "c\\u{1b}.rs", Some(2), None),
        ];
        assert_eq!(found.state, expected);
        let touched = touched(&changes);
        assert_eq!(
            (touched.created, touched.edited, touched.deleted),
            (vec!["a.rs".to_owned()], vec!["b.rs".to_owned()], vec!["c\\u{1b}.rs".to_owned()])
        );
    }

    #[test]
    fn a_name_that_is_no_path_is_state() {
        let deltas = deltas(&[change(b"\xff/README.md", None, Some(1)), change(b"../tests/a", None, Some(1))]);
        assert_eq!((deltas.state.len(), deltas.size()), (2, 2));
    }
}
