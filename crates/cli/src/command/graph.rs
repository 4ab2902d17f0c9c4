//! `norma graph`, and what the verbs for its parts share: a graph run lives while somebody owns the state directory, so
//! each of them is a request to the owner, and where there is none a server is started first.

use super::serve::background::ensure_owner;
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{safe, short};
use clap::Subcommand;
use contract::graph::GraphEdit;
use contract::view::graph::{Edge, GlobalMode, Node, RunGraph, RunMode};
use runner::{Request, Start, Started};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// Build a graph of agents that live, are talked to and hand work to each other
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma graph new \"make the parser faster\" --test \"cargo test\"\n  norma node add Lead --role orchestrator --agent claude\n  norma node add Coder --agent codex --scope src\n  norma edge add Lead Coder\n  norma say Lead \"find out what is slow, and have it fixed\"\n  norma graph show\n  norma graph done"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a graph without a node; its id is the last line
    New {
        /// What it is for
        #[arg(default_value = "")]
        goal: String,
        /// Whether its orchestrator is asked to continue by itself
        #[arg(long, value_name = "MODE", value_parser = ["auto", "interactive"])]
        mode: Option<String>,
        /// Whether its nodes may change code, or only plan
        #[arg(long, value_name = "MODE", value_parser = ["planning", "implementation"])]
        global_mode: Option<String>,
        /// A command that every change must pass, in place of the configured ones (can be repeated)
        #[arg(long, value_name = "COMMAND")]
        test: Vec<String>,
    },
    /// Show the nodes and edges of a graph, and what they do
    Show {
        /// Run id, a unique prefix of it, or @last for the newest graph
        #[arg(default_value = "@last")]
        run: String,
    },
    /// Say that the work is done: what was made is judged, and lands
    Done {
        /// Run id, a unique prefix of it, or @last for the newest graph
        #[arg(default_value = "@last")]
        run: String,
    },
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::New { goal, mode, global_mode, test } => {
                let (mode, global_mode) = (read_mode(mode.as_deref()), read_global_mode(global_mode.as_deref()));
                new(here, Start::Graph { goal, mode, global_mode, tests: test })
            }
            Verb::Show { run } => show(here, &run),
            Verb::Done { run } => edit(here, &run, GraphEdit::Done),
        }
    }
}

fn read_mode(word: Option<&str>) -> Option<RunMode> {
    word.map(|word| if word == "auto" { RunMode::Auto } else { RunMode::Interactive })
}

fn read_global_mode(word: Option<&str>) -> Option<GlobalMode> {
    word.map(|word| if word == "planning" { GlobalMode::Planning } else { GlobalMode::Implementation })
}

fn new(here: &Surroundings, start: Start) -> Outcome<ExitCode> {
    let layout = here.context_or_private()?.layout;
    ensure_owner(here, &layout)?;
    let sender = Box::new(here.sender().without_the_rest(&layout));
    let (_, value) = here.request(Request::Start { sender, start })?;
    let started: Started = serde_json::from_value(value).map_err(|why| {
        CommandError::new(code::ENVIRONMENT, format!("the owner said something unknown: {why}"), "try again")
    })?;
    let value = json!({"run_id": started.run_id, "notes": started.notes});
    Ok(here.print(&value, || {
        let notes: String = started.notes.iter().map(|note| format!("note: {}\n", safe(note))).collect();
        format!("{notes}next: norma node add LABEL --agent claude\n{}", started.run_id)
    }))
}

/// Has the owner do something to a graph.
pub(super) fn edit(here: &Surroundings, given: &str, edit: GraphEdit) -> Outcome<ExitCode> {
    let slug = here.reader()?.find_graph(given)?;
    ensure_owner(here, &here.context()?.layout)?;
    let by = here.person(&here.repository()?);
    let is_new = matches!(edit, GraphEdit::AddNode { .. } | GraphEdit::SetEdge { .. });
    let (message, value) = here.request(Request::Edit { run: slug.clone(), edit: Box::new(edit), by })?;
    let made = ["nodeId", "edgeId"].iter().find_map(|name| value[name].as_str()).filter(|_| is_new);
    let text = made.map_or_else(|| message.clone(), |id| format!("{message}\n{id}"));
    Ok(here.print(&json!({"run_id": slug, "message": message, "value": value}), || text))
}

fn show(here: &Surroundings, given: &str) -> Outcome<ExitCode> {
    let reader = here.reader()?;
    let slug = reader.find_graph(given)?;
    let text = reader.graph(&slug)?.unwrap_or_default();
    let unknown = |why| CommandError::new(code::INTEGRITY, format!("run {slug} has no graph: {why}"), "norma verify");
    let value: Value = serde_json::from_str(&text).map_err(unknown)?;
    let graph: RunGraph = serde_json::from_str(&text).map_err(unknown)?;
    Ok(here.print(&value, || drawn(&slug, &graph)))
}

/// A graph as lines: its nodes with what they do, and its edges.
fn drawn(slug: &str, graph: &RunGraph) -> String {
    let words = [json!(graph.status), json!(graph.phase), json!(graph.mode), json!(graph.global_mode)];
    let [status, phase, mode, global_mode] = words.map(|word| word.as_str().unwrap_or_default().to_owned());
    let mut text = format!("{slug}  {status}, {phase}, {mode}, {global_mode}\n");
    for node in graph.nodes.values() {
        text.push_str(&node_line(node));
    }
    for edge in graph.edges.values() {
        text.push_str(&edge_line(graph, edge));
    }
    if graph.nodes.is_empty() {
        text.push_str("no nodes; add one: norma node add LABEL --agent claude");
    }
    text
}

fn node_line(node: &Node) -> String {
    let status = json!(node.status);
    let status = status.as_str().unwrap_or_default();
    let mut line = format!("  {:<16} {:<14} {status:<8}", short(&node.label, 16), short(&node.role_template, 14));
    match node.inbox_count {
        Some(count) if count > 0 => drop(write!(line, " {count} waiting;")),
        _ => {}
    }
    format!("{line} {}\n", short(&node.summary, 80))
}

fn edge_line(graph: &RunGraph, edge: &Edge) -> String {
    let label = |id: &String| graph.nodes.get(id).map_or_else(|| safe(id), |node| safe(&node.label));
    let arrow = if edge.bidirectional { "<->" } else { "->" };
    format!("  {} {arrow} {}  {}  {}\n", label(&edge.from), label(&edge.to), safe(&edge.label), edge.id)
}
