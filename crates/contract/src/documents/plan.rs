//! `Plan.v0`: what is to be done, as nodes that wait for each other.

mod node;

pub use node::{NodeSpec, Work};

use super::graph::Graph;
use super::{Open, read_value};
use crate::json::{self, Limits, Report, Violation};
use crate::schema::JsonSchema;
#[cfg(test)]
use crate::schema::generate::absent_is_not_null;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, extend("$id" = "Plan.v0"))]
pub struct Plan {
    /// In any order: what each of them waits for decides.
    pub nodes: Vec<PlanNode>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, transform = absent_is_not_null)]
pub struct PlanNode {
    /// Unique in its plan.
    pub id: String,
    /// What kind of thing.
    pub kind: NodeKind,
    /// The nodes that must be done first.
    pub deps: Vec<String>,
    /// What it may use up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Open>,
}

/// What kind of thing a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[allow(missing_docs, reason = "the names say it; a document gives them no other meaning")]
pub enum NodeKind {
    Compute,
    Decision,
    Io,
    Approval,
}

impl NodeKind {
    /// The word as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeKind::Compute => "compute",
            NodeKind::Decision => "decision",
            NodeKind::Io => "io",
            NodeKind::Approval => "approval",
        }
    }
}

impl Plan {
    /// Reads a plan strictly: its form, and what its form cannot say.
    pub fn read(bytes: &[u8]) -> Result<Plan, Vec<Violation>> {
        let plan: Plan = read_value(json::parse(bytes, &Limits::DOCUMENT)?)?;
        let mut report = Report::default();
        plan.check("", &mut report);
        report.into_result().map(|()| plan)
    }

    /// Whether it could be carried out at all: every node has a name of its own, and none waits for what never comes.
    pub(super) fn check(&self, at: &str, report: &mut Report) {
        let mut seen = BTreeSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if !seen.insert(&node.id) {
                report.push(format!("{at}/nodes/{index}/id"), format!("another node is called {:?} too", node.id));
            }
        }
        let graph = Graph::new(self.nodes.iter().map(|node| (node.id.as_str(), node.deps.as_slice())));
        for (index, dep, name) in graph.unknown() {
            report.push(format!("{at}/nodes/{index}/deps/{dep}"), format!("there is no node {name:?} in this plan"));
        }
        for ring in graph.rings() {
            let message = format!("these nodes wait for each other: {}", graph.shown(&ring));
            report.push(format!("{at}/nodes/{}/deps", ring[0]), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;
    use serde_json::{Value, json};

    fn node(id: &str, deps: &[&str]) -> Value {
        json!({"id": id, "kind": "compute", "deps": deps})
    }

    #[track_caller]
    fn check(nodes: Value, expected: &[&str]) {
        let read = Plan::read(json!({"nodes": nodes}).to_string().as_bytes());
        assert_eq!(read.err().map(|found| said(&found)).unwrap_or_default(), expected);
    }

    #[test]
    fn a_plan_may_be_empty_and_nodes_may_wait_for_others() {
        check(json!([]), &[]);
        check(json!([node("b", &["a", "a"]), node("a", &[]), node("c", &["a", "b"])]), &[]);
        let full = json!({"id": "a", "kind": "approval", "deps": [], "budget": {"anything": {"at": ["all"]}}});
        check(json!([full]), &[]);
    }

    #[test]
    fn names_that_are_nobodys_or_two_nodes_are_refused() {
        check(json!([node("a", &[]), node("a", &[])]), &["/nodes/1/id: another node is called \"a\" too"]);
        check(json!([node("a", &["b"])]), &["/nodes/0/deps/0: there is no node \"b\" in this plan"]);
    }

    #[test]
    fn a_node_that_waits_for_itself_never_begins() {
        check(json!([node("a", &["a"])]), &["/nodes/0/deps: these nodes wait for each other: a → a"]);
        let rings = json!([
            node("a", &["b"]),
            node("b", &["c"]),
            node("c", &["b"]),
            node("d", &[]),
            node("e", &["f"]),
            node("f", &["e", "d"])
        ]);
        check(
            rings,
            &[
                "/nodes/1/deps: these nodes wait for each other: b → c → b",
                "/nodes/4/deps: these nodes wait for each other: e → f → e",
            ],
        );
    }

    #[test]
    fn a_node_has_the_form_of_its_schema_and_no_other() {
        check(
            json!([{"id": 7, "kind": "shell", "needs": []}]),
            &[
                "/nodes/0: missing required key \"deps\"",
                "/nodes/0/id: expected string, found number",
                "/nodes/0/kind: expected \"compute\", \"decision\", \"io\" or \"approval\", found \"shell\"",
                "/nodes/0/needs: unknown key, expected \"budget\", \"deps\", \"id\" or \"kind\"",
            ],
        );
    }
}
