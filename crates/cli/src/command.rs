//! The verbs. One file each: its arguments, their help with an example, and one function.

mod agent;
mod approvals;
mod approve;
mod batch;
mod cancel;
pub(crate) mod completions;
mod config;
pub(crate) mod contract;
mod demo;
mod deny;
mod diff;
mod doctor;
mod edge;
mod events;
mod exec_check;
mod export;
mod gc;
mod graph;
mod hash;
mod help;
mod hooks;
mod init;
mod intent;
mod keys;
mod land;
mod logs;
mod man;
mod node;
mod open;
mod pipeline;
mod quarantine;
mod recipe;
mod reindex;
mod replay;
mod resume;
mod run;
mod runs;
mod sandbox;
mod say;
mod schema;
mod serve;
mod show;
mod status;
mod task;
mod trial;
mod trust;
mod undo;
mod verify;
mod watch;
mod why;
mod work;

pub(crate) use serve::background;

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use ::contract::{ApprovalDecision, RunView};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use store::Reader;

/// The version, the commit that it was built from, and the newest rules by which it judges.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("NORMA_BUILD_COMMIT"));
        format!("{version} (commit {commit}, rules {})", ::contract::RULES)
    });
    &VERSION
}

/// norma runs coding agents under contract: a change lands whole, or leaves no trace.
#[derive(Parser)]
#[command(
    name = "norma",
    version = version(),
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "Start with `norma demo`; then, in a repository of yours: norma run \"what you want\"\nPages on contracts, agents, the sandbox and more: norma help"
)]
pub(crate) struct Cli {
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use this configuration instead of .norma/config.json (trusted, since you typed it)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Work in this directory
    #[arg(short = 'C', global = true, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Show what agents say while they work; with -vv and -vvv also, on stderr, what norma does (see also NORMA_LOG)
    #[arg(short = 'v', long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    Init(init::Args),
    Trust(trust::Args),
    Agent(agent::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Task(task::Args),
    Contract(contract::Args),
    Run(run::Args),
    Batch(batch::Args),
    Intent(intent::Args),
    Pipeline(pipeline::Args),
    Recipe(recipe::Args),
    Graph(graph::Args),
    Node(node::Args),
    Edge(edge::Args),
    Say(say::Args),
    Status(status::Args),
    Serve(serve::Args),
    Open(open::Args),
    Watch(watch::Args),
    Runs(runs::Args),
    Show(show::Args),
    Why(why::Args),
    Logs(logs::Args),
    Events(events::Args),
    Diff(diff::Args),
    Land(land::Args),
    Undo(undo::Args),
    Approvals(approvals::Args),
    Approve(approve::Args),
    Deny(deny::Args),
    Cancel(cancel::Args),
    Resume(resume::Args),
    Verify(verify::Args),
    Quarantine(quarantine::Args),
    Replay(replay::Args),
    Export(export::Args),
    Keys(keys::Args),
    Config(config::Args),
    Hash(hash::Args),
    Hooks(hooks::Args),
    Sandbox(sandbox::Args),
    ExecCheck(exec_check::Args),
    Reindex(reindex::Args),
    Gc(gc::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(man::Args),
    Schema(schema::Args),
    Help(help::Args),
}

/// The run that a person means, with its steps, as it is now.
fn view(here: &Surroundings, given: &str) -> Outcome<(Reader, RunView)> {
    let layout = here.layout_of(&here.repository()?);
    let reader = Reader::open(&layout)?;
    let slug = reader.find_run(given)?;
    let mut view = reader.run(&slug)?.ok_or_else(|| store::Error::Refused(format!("there is no run {slug}")))?;
    here.truthful(&layout, std::iter::once(&mut view));
    Ok((reader, view))
}

/// Has the owner do something to one run.
fn change_run(here: &Surroundings, given: &str, request: impl FnOnce(String) -> runner::Request) -> Outcome<ExitCode> {
    let slug = here.reader()?.find_run(given)?;
    let (message, value) = here.request(request(slug.clone()))?;
    Ok(here.print(&serde_json::json!({"run_id": slug, "message": message, "value": value}), || message.clone()))
}

/// Has the owner record what a person says about an approval.
fn answer(
    here: &Surroundings,
    given: &str,
    decision: ApprovalDecision,
    reason: Option<String>,
    terms: ::contract::ApprovalTerms,
) -> Outcome<ExitCode> {
    let approval = here.reader()?.approval(given)?.id;
    let by = here.person(&here.repository()?);
    let (message, value) = here.request(runner::Request::Answer { approval, decision, by, reason, terms })?;
    Ok(here.print(&value, || message))
}

impl Verb {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self {
            Verb::Init(args) => args.run(here),
            Verb::Trust(args) => args.run(here),
            Verb::Agent(args) => args.run(here),
            Verb::Doctor(args) => args.run(here),
            Verb::Demo(args) => args.run(here),
            Verb::Task(args) => args.run(here),
            Verb::Contract(args) => args.run(here),
            Verb::Run(args) => args.run(here),
            Verb::Batch(args) => args.run(here),
            Verb::Intent(args) => args.run(here),
            Verb::Pipeline(args) => args.run(here),
            Verb::Recipe(args) => args.run(here),
            Verb::Graph(args) => args.run(here),
            Verb::Node(args) => args.run(here),
            Verb::Edge(args) => args.run(here),
            Verb::Say(args) => args.run(here),
            Verb::Status(args) => args.run(here),
            Verb::Serve(args) => args.run(here),
            Verb::Open(args) => args.run(here),
            Verb::Watch(args) => args.run(here),
            Verb::Runs(args) => args.run(here),
            Verb::Show(args) => args.run(here),
            Verb::Why(args) => args.run(here),
            Verb::Logs(args) => args.run(here),
            Verb::Events(args) => args.run(here),
            Verb::Diff(args) => args.run(here),
            Verb::Land(args) => args.run(here),
            Verb::Undo(args) => args.run(here),
            Verb::Approvals(args) => args.run(here),
            Verb::Approve(args) => args.run(here),
            Verb::Deny(args) => args.run(here),
            Verb::Cancel(args) => args.run(here),
            Verb::Resume(args) => args.run(here),
            Verb::Verify(args) => args.run(here),
            Verb::Quarantine(args) => args.run(here),
            Verb::Replay(args) => args.run(here),
            Verb::Export(args) => args.run(here),
            Verb::Keys(args) => args.run(here),
            Verb::Config(args) => args.run(here),
            Verb::Hash(args) => args.run(here),
            Verb::Hooks(args) => args.run(here),
            Verb::Sandbox(args) => args.run(here),
            Verb::ExecCheck(args) => args.run(here),
            Verb::Reindex(args) => args.run(here),
            Verb::Gc(args) => args.run(here),
            Verb::Completions(args) => args.run(),
            Verb::Man(args) => args.run(here),
            Verb::Schema(args) => args.run(here),
            Verb::Help(args) => args.run(here),
        }
    }
}
