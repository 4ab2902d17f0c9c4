//! What the turn of a plan node is: a command, or a turn of the intent's agent, on the run's line and in a workspace that is
//! thrown away. `compute` reaches nothing; `io` reaches the hosts of the intent's connectors.

use super::{NodeState, State};
use crate::Run;
use crate::spec::{LookBack, Product, TurnRights, TurnSpec};
use crate::state::OpenTurn;
use contract::documents::plan::{NodeKind, Work};
use contract::work::{NetworkRight, Rights, ShellRight};
use contract::{AgentConfig, AgentType, IntentTerms, Item};
use std::fmt::Write;
use std::sync::Arc;

/// The turn that is open of a node.
pub(crate) fn spec(run: &Run, open: &OpenTurn, state: &State) -> Option<TurnSpec> {
    let (contract, node) = (&run.started.contract, state.node(open.step.node?).ok()?);
    let terms = contract.intent.as_ref()?;
    let is_io = node.spec.kind == NodeKind::Io;
    let (command, mut agent) = match &node.spec.work {
        Work::Command(argv) => (true, AgentConfig { cmd: argv.clone(), ..AgentConfig::of(AgentType::Exec) }),
        _ => (false, contract.workers.get(&terms.agent)?.clone()),
    };
    let (hosts, mcp_tools) = reached(terms, is_io);
    match command {
        true => agent.network = hosts,
        false => agent.network.extend(hosts),
    }
    let time_ms = node.spec.timeout_ms.unwrap_or(u64::from(contract.limits.step_seconds) * 1000);
    // A choice is made of what there is, and changes nothing.
    let write = !matches!(node.spec.work, Work::Decision { .. });
    let network = if is_io { NetworkRight::Allow } else { NetworkRight::Deny };
    let item = (!command).then(|| Arc::new(item(run, node, &terms.agent, (write, network), time_ms)));
    Some(TurnSpec {
        step: open.step,
        opened_at: open.since,
        commit: run.line().head.commit,
        tree: run.line().head.tree,
        rights: TurnRights {
            write,
            write_within: None,
            write_roots: None,
            shell: ShellRight::Never,
            forbidden_actions: Vec::new(),
            network,
            own_hosts: is_io || agent.kind == AgentType::Acp,
            mcp_tools,
        },
        goal: contract.goal.clone(),
        item,
        notes: if command { String::new() } else { told(state, node) },
        product: Product::Files,
        time_ms,
        look_back: LookBack { dirs: dirs(state, node), earlier: 0 },
        in_parallel: true,
        interactive: true,
        continues: false,
        node: None,
        command,
        choices: match &node.spec.work {
            Work::Decision { choices, .. } => Some(choices.clone()),
            _ => None,
        },
        skeleton: None,
        review: None,
        agent,
    })
}

/// What a node may reach.
fn reached(terms: &IntentTerms, is_io: bool) -> (Vec<String>, Vec<String>) {
    if !is_io {
        return Default::default();
    }
    let hosts = terms.connectors.values().flat_map(|connector| connector.hosts.clone());
    let tools = terms.connectors.values().flat_map(|connector| connector.mcp_tools.clone());
    (hosts.collect(), tools.collect())
}

/// The contract of an agent's turn: what it does is evidence, and lands nowhere.
fn item(run: &Run, node: &NodeState, worker: &str, (write, network): (bool, NetworkRight), timeout_ms: u64) -> Item {
    let (id, goal) = (node.spec.id.clone(), run.started.contract.goal.clone());
    Item {
        read_only: !write,
        rights: Rights { network, ..Rights::default() },
        audit_only: true,
        ..Item::of_run(id, worker.to_owned(), goal, timeout_ms, run.started.contract_digest)
    }
}

/// The directories of what it builds on.
fn dirs(state: &State, node: &NodeState) -> Vec<String> {
    node.spec.deps.iter().filter_map(|place| state.nodes()[*place as usize].dir.clone()).collect()
}

/// What an agent is told of the node that it works on.
fn told(state: &State, node: &NodeState) -> String {
    let mut text =
        format!("This is node {:?} ({}) of the plan of this intent.\n", node.spec.id, node.spec.kind.as_str());
    for place in &node.spec.deps {
        let other = &state.nodes()[*place as usize];
        let result = match &other.choice {
            Some(choice) => format!("{choice:?} was chosen"),
            None => other.summary.clone(),
        };
        let _ = writeln!(text, "Node {:?} came to: {result}", other.spec.id);
    }
    if let Work::Decision { choices, .. } = &node.spec.work {
        let _ = writeln!(text, "Choose one of {choices:?}, and answer it as `result.choice`. Change nothing.");
    } else {
        text.push_str(
            "Do what this node is for. What you change in the workspace is not kept; leave results as files in \
                       your step directory, and say what came of it in `summary`.\n",
        );
    }
    text.chars().take(16 * 1024).collect()
}
