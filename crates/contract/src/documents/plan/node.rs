//! What a node of a plan asks for, read from its open `budget`: a command, a turn of the agent, a choice, an approval. The
//! form of a plan leaves `budget` open, so what is wrong with it is said here, before anything of the plan is carried out.

use super::{NodeKind, Plan, PlanNode};
use crate::intent::{APPROVE, REJECT};
use crate::json::{Report, Violation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most words of a command, and most choices of a decision.
const WORDS_MAX: usize = 256;

/// What a decision can be answered by that names no choices.
const YES_OR_NO: [&str; 2] = ["yes", "no"];

/// A node, spelled out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Unique in its plan.
    pub id: String,
    /// What kind of thing.
    pub kind: NodeKind,
    /// What it does.
    pub work: Work,
    /// The places of what it builds on.
    pub deps: Vec<u32>,
    /// The decisions that it is carried out for, with what must have been chosen.
    pub when: Vec<(u32, String)>,
    /// How long it may take, or how long it is waited for.
    pub timeout_ms: Option<u64>,
    /// What counts where nobody has answered by then.
    pub on_timeout: Option<String>,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    Nothing,
    /// These words, started confined.
    Command(Vec<String>),
    /// One turn of the intent's agent.
    Turn,
    /// A choice.
    Decision {
        /// Between these.
        choices: Vec<String>,
        /// Whether the agent makes it; else a person.
        by_agent: bool,
    },
    /// A person has to approve.
    Approval,
}

impl NodeSpec {
    /// Everything that must have come to its end first.
    pub fn awaits(&self) -> impl Iterator<Item = u32> + '_ {
        self.deps.iter().copied().chain(self.when.iter().map(|(place, _)| *place))
    }

    /// How long an answer is waited for; for ever where the plan does not say what counts then.
    pub fn answer_ms(&self) -> Option<u64> {
        self.timeout_ms.filter(|_| self.on_timeout.is_some())
    }
}

impl Plan {
    /// Every node, spelled out in the order of the plan, and the order in which they are carried out; or everything that is
    /// wrong with them.
    pub fn spell_out(&self) -> Result<(Vec<NodeSpec>, Vec<u32>), Vec<Violation>> {
        let mut report = Report::default();
        self.check("", &mut report);
        report.into_result()?;
        let mut report = Report::default();
        let places: BTreeMap<&str, u32> = self.nodes.iter().map(|node| node.id.as_str()).zip(0..).collect();
        let mut specs = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let mut budget = Budget { node, at: format!("/nodes/{index}/budget"), report: &mut report };
            specs.push(budget.spec(&places));
        }
        for (index, spec) in specs.iter().enumerate() {
            for (place, choice) in &spec.when {
                if let Some(problem) = unmet(&specs[*place as usize], choice) {
                    report.push(format!("/nodes/{index}/budget/when"), problem);
                }
            }
        }
        let order = order(&specs);
        if order.len() < specs.len() {
            let waiting = specs.iter().zip(0..).filter(|(_, place)| !order.contains(place));
            let names: Vec<&str> = waiting.map(|(spec, _)| spec.id.as_str()).collect();
            report.push("/nodes".to_owned(), format!("these nodes wait for each other: {}", names.join(", ")));
        }
        report.into_result().map(|()| (specs, order))
    }
}

/// Why a condition can never hold.
fn unmet(decision: &NodeSpec, choice: &str) -> Option<String> {
    match &decision.work {
        Work::Decision { choices, .. } if choices.iter().any(|known| known == choice) => None,
        Work::Decision { .. } => Some(format!("{choice:?} is not one of the choices of {:?}", decision.id)),
        _ => Some(format!("{:?} is not a decision", decision.id)),
    }
}

/// What comes after what: of those that could come next, the first of the plan does.
fn order(specs: &[NodeSpec]) -> Vec<u32> {
    let (mut order, mut done) = (Vec::with_capacity(specs.len()), BTreeSet::new());
    while let Some((_, place)) = specs
        .iter()
        .zip(0..)
        .find(|(spec, place)| !done.contains(place) && spec.awaits().all(|other| done.contains(&other)))
    {
        order.push(place);
        done.insert(place);
    }
    order
}

/// The open part of a node.
struct Budget<'b> {
    node: &'b PlanNode,
    at: String,
    report: &'b mut Report,
}

impl Budget<'_> {
    fn spec(&mut self, places: &BTreeMap<&str, u32>) -> NodeSpec {
        let node = self.node;
        let work = self.work();
        let deps: BTreeSet<u32> = node.deps.iter().filter_map(|name| places.get(name.as_str()).copied()).collect();
        NodeSpec {
            id: node.id.clone(),
            kind: node.kind,
            deps: deps.into_iter().collect(),
            when: self.when(places),
            timeout_ms: self.timeout(),
            on_timeout: self.on_timeout(&work),
            work,
        }
    }

    fn member(&self, name: &str) -> Option<&Value> {
        self.node.budget.as_ref()?.get(name)
    }

    fn wrong(&mut self, name: &str, message: impl Into<String>) {
        self.report.push(format!("{}/{name}", self.at), message.into());
    }

    fn work(&mut self) -> Work {
        match self.node.kind {
            NodeKind::Approval => Work::Approval,
            NodeKind::Decision => Work::Decision { choices: self.choices(), by_agent: self.by_agent() },
            NodeKind::Compute | NodeKind::Io => match (self.noop(), self.member("cmd").is_some()) {
                (true, _) => Work::Nothing,
                (false, true) => Work::Command(self.words("cmd")),
                (false, false) => Work::Turn,
            },
        }
    }

    fn noop(&mut self) -> bool {
        match self.member("noop").cloned() {
            None => false,
            Some(Value::Bool(noop)) => noop,
            Some(_) => {
                self.wrong("noop", "expected true or false");
                false
            }
        }
    }

    fn words(&mut self, name: &str) -> Vec<String> {
        let given = self.member(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let words: Vec<String> = given.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect();
        if words.len() != given.len() || words.is_empty() || words.len() > WORDS_MAX {
            self.wrong(name, format!("expected 1 to {WORDS_MAX} texts in a list"));
        }
        words
    }

    fn choices(&mut self) -> Vec<String> {
        if self.member("choices").is_none() {
            return YES_OR_NO.map(str::to_owned).to_vec();
        }
        let choices = self.words("choices");
        let distinct: BTreeSet<&String> = choices.iter().collect();
        if distinct.len() != choices.len() || choices.iter().any(|choice| choice.trim().is_empty()) {
            self.wrong("choices", "every choice has words, and is there once");
        }
        choices
    }

    fn by_agent(&mut self) -> bool {
        match self.member("by").cloned() {
            None => false,
            Some(Value::String(by)) if by == "human" => false,
            Some(Value::String(by)) if by == "agent" => true,
            Some(_) => {
                self.wrong("by", "expected \"human\" or \"agent\"");
                false
            }
        }
    }

    fn timeout(&mut self) -> Option<u64> {
        let given = self.member("timeout_ms").cloned()?;
        let number = given.as_u64().filter(|number| (1..=1 << 40).contains(number));
        if number.is_none() {
            self.wrong("timeout_ms", "expected a number of milliseconds, at least 1");
        }
        number
    }

    fn on_timeout(&mut self, work: &Work) -> Option<String> {
        let allowed: Vec<String> = match work {
            Work::Decision { choices, .. } => choices.clone(),
            Work::Approval => vec![APPROVE.to_owned(), REJECT.to_owned()],
            // Of a command that a person has to approve first.
            Work::Command(_) => vec![APPROVE.to_owned(), REJECT.to_owned()],
            Work::Nothing | Work::Turn => return None,
        };
        let given = self.member("on_timeout").cloned()?;
        let choice = given.as_str().map(str::to_owned).filter(|choice| allowed.contains(choice));
        if choice.is_none() {
            self.wrong("on_timeout", format!("expected one of {}", allowed.join(", ")));
        }
        choice
    }

    fn when(&mut self, places: &BTreeMap<&str, u32>) -> Vec<(u32, String)> {
        let Some(given) = self.member("when").cloned() else { return Vec::new() };
        let Value::Object(given) = given else {
            self.wrong("when", "expected an object of decisions with their choice");
            return Vec::new();
        };
        let mut when = Vec::new();
        for (name, choice) in &given {
            match (places.get(name.as_str()), choice.as_str()) {
                (Some(place), Some(choice)) => when.push((*place, choice.to_owned())),
                (None, _) => self.wrong("when", format!("there is no node {name:?} in this plan")),
                (Some(_), None) => self.wrong("when", format!("the choice of {name:?} is a text")),
            }
        }
        when
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::said;
    use super::*;
    use serde_json::json;

    fn plan(nodes: Value) -> Plan {
        Plan::read(json!({ "nodes": nodes }).to_string().as_bytes()).unwrap()
    }

    fn refused(nodes: Value, expected: &[&str]) {
        assert_eq!(said(&plan(nodes).spell_out().unwrap_err()), expected);
    }

    #[test]
    fn the_order_is_topological_and_otherwise_that_of_the_plan() {
        let node = |id: &str, deps: &[&str], budget: Value| json!({"id": id, "kind": "compute", "deps": deps, "budget": budget});
        let decision =
            json!({"id": "d", "kind": "decision", "deps": [], "budget": {"choices": ["x", "y"], "by": "agent"}});
        let (specs, order) = plan(json!([
            node("c", &["b"], json!({"noop": true})),
            node("a", &[], json!({"when": {"d": "y"}, "cmd": ["true"]})),
            node("b", &[], json!({})),
            decision,
        ]))
        .spell_out()
        .unwrap();
        assert_eq!(order, [2, 0, 3, 1]);
        assert_eq!(specs[0].work, Work::Nothing);
        assert_eq!((&specs[1].work, &specs[1].when), (&Work::Command(vec!["true".into()]), &vec![(3, "y".to_owned())]));
        assert_eq!(specs[2].work, Work::Turn);
        assert_eq!(specs[3].work, Work::Decision { choices: vec!["x".into(), "y".into()], by_agent: true });
    }

    #[test]
    fn what_a_budget_says_must_make_sense() {
        let one = |kind: &str, budget: Value| json!([{"id": "a", "kind": kind, "deps": [], "budget": budget}]);
        let list = "expected 1 to 256 texts in a list";
        refused(one("compute", json!({"cmd": []})), &[&format!("/nodes/0/budget/cmd: {list}")]);
        refused(one("io", json!({"cmd": ["a", 1]})), &[&format!("/nodes/0/budget/cmd: {list}")]);
        refused(one("compute", json!({"noop": 1})), &["/nodes/0/budget/noop: expected true or false"]);
        refused(
            one("decision", json!({"choices": ["a", "a"]})),
            &["/nodes/0/budget/choices: every choice has words, and is there once"],
        );
        refused(one("decision", json!({"by": "me"})), &["/nodes/0/budget/by: expected \"human\" or \"agent\""]);
        refused(
            one("approval", json!({"timeout_ms": 0, "on_timeout": "maybe"})),
            &[
                "/nodes/0/budget/timeout_ms: expected a number of milliseconds, at least 1",
                "/nodes/0/budget/on_timeout: expected one of approve, reject",
            ],
        );
        refused(
            one("compute", json!({"when": {"b": "x"}})),
            &["/nodes/0/budget/when: there is no node \"b\" in this plan"],
        );
        refused(
            one("compute", json!({"when": {"a": "x"}})),
            &["/nodes/0/budget/when: \"a\" is not a decision", "/nodes: these nodes wait for each other: a"],
        );
    }

    #[test]
    fn only_a_plan_that_says_what_counts_then_has_a_deadline() {
        let of = |budget: Value| {
            let (specs, _) =
                plan(json!([{"id": "a", "kind": "approval", "deps": [], "budget": budget}])).spell_out().unwrap();
            specs[0].answer_ms()
        };
        assert_eq!(of(json!({"timeout_ms": 5})), None);
        assert_eq!(of(json!({"on_timeout": "reject"})), None);
        assert_eq!(of(json!({"timeout_ms": 5, "on_timeout": "reject"})), Some(5));
    }
}
