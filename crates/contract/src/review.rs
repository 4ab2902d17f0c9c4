//! What people leave on a run while they look at it, also after it was sealed: comments on its changes, and where its graph is
//! drawn. Neither is evidence, so both are kept in the state directory's own log.

use crate::schema::JsonSchema;
use crate::{RepoPath, Slug, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Farthest that something is drawn from the origin.
pub const PLACE_MAX: i64 = 1_000_000;

/// A comment on a line of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comment {
    /// UUID.
    pub id: String,
    /// The number of the change.
    pub change: u32,
    /// The file.
    pub path: RepoPath,
    /// The line, from 1.
    pub line: u32,
    /// Which side of the difference the line is on.
    #[serde(default, skip_serializing_if = "Side::is_new")]
    pub side: Side,
    /// Without secrets.
    pub text: String,
}

/// A side of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// As the file was.
    Old,
    /// As the change has it.
    #[default]
    New,
}

impl Side {
    fn is_new(&self) -> bool {
        *self == Side::New
    }
}

/// Who gets comments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SentTo {
    /// A node of the graph, by its id.
    Node(String),
    /// A run that fixes what they are about.
    Run(Slug),
}

/// A comment with what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommentView {
    /// As it was written.
    #[serde(flatten)]
    pub comment: Comment,
    /// Who wrote it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Who got it, once it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentTo>,
}

/// What of a graph was moved. Whole numbers, as everything in a log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Arrangement {
    /// Whether everything that was moved before is where it would be drawn by itself again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub afresh: bool,
    /// Where nodes are, by their id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, (i64, i64)>,
    /// What part of it is seen: its place, and its scale in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewport: Option<(i64, i64, u32)>,
}

impl Arrangement {
    /// Moves what the other one moves, too.
    pub fn then(mut self, later: Arrangement) -> Arrangement {
        if later.afresh {
            self.nodes.clear();
        }
        self.nodes.extend(later.nodes);
        Arrangement { afresh: false, nodes: self.nodes, viewport: later.viewport.or(self.viewport) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_later_counts_and_everything_else_stays() {
        let at = |name: &str, x: i64| Arrangement { nodes: [(name.to_owned(), (x, 0))].into(), ..Default::default() };
        let seen = Arrangement { viewport: Some((1, 2, 1500)), ..at("a", 1) };
        let both = seen.then(at("b", 2)).then(at("a", 3));
        assert_eq!(both.nodes, [("a".to_owned(), (3, 0)), ("b".to_owned(), (2, 0))].into());
        assert_eq!(both.viewport, Some((1, 2, 1500)));
        let afresh = both.then(Arrangement { afresh: true, ..at("c", 4) });
        assert_eq!(afresh.nodes, at("c", 4).nodes);
        assert!(!afresh.afresh);
    }
}
