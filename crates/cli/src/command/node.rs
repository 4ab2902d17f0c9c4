//! `norma node`: the nodes of a graph.

use super::graph::edit;
use crate::error::{CommandError, Outcome};
use crate::surroundings::Surroundings;
use clap::Subcommand;
use contract::graph::{CapabilityWishes, GraphEdit, NodeInput, NodeWishes, PermissionWishes, RoleName, SessionWishes};
use contract::view::graph::{PermissionsMode, Provider};
use std::process::ExitCode;

/// Add, change, stop, start, reset and remove nodes of a graph
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma node add Coder --agent codex --scope src\n  norma node add Reviewer --role reviewer --agent claude --deny write-code\n  norma node set Coder --agent gemini\n  norma node stop Coder\n  norma node rm Coder"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// What can be said of a node.
#[derive(clap::Args)]
struct Wishes {
    /// Who takes its turns: codex, claude, gemini, or an agent of the configuration
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Its role, which is the name of a template (see norma help graphs)
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// The model
    #[arg(long)]
    model: Option<String>,
    /// What it says that it changes (can be repeated)
    #[arg(long, value_name = "PATH")]
    scope: Vec<String>,
    /// What it may do (can be repeated)
    #[arg(long, value_name = "WHAT", value_parser = CAPABILITIES)]
    allow: Vec<String>,
    /// What it may not do (can be repeated)
    #[arg(long, value_name = "WHAT", value_parser = CAPABILITIES)]
    deny: Vec<String>,
    /// Whether its agent's requests reach a person
    #[arg(long, value_name = "MODE", value_parser = ["gated", "skip"])]
    permissions: Option<String>,
    /// Whether a person approves before an orchestrator makes another node
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"])]
    spawn_approval: Option<String>,
    /// What takes the place of its role's prompt
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The run, a unique prefix of its id, or @last for the newest graph
    #[arg(long, default_value = "@last")]
    run: String,
}

const CAPABILITIES: [&str; 5] = ["spawn-nodes", "write-code", "write-docs", "run-commands", "delegate-only"];

/// A node, and the run that it is of.
#[derive(clap::Args)]
struct Which {
    /// Its label, or its id
    node: String,
    /// The run, a unique prefix of its id, or @last for the newest graph
    #[arg(long, default_value = "@last")]
    run: String,
}

#[derive(Subcommand)]
enum Verb {
    /// Add a node; its id is the last line
    Add {
        /// What it is called
        label: String,
        #[command(flatten)]
        wishes: Wishes,
    },
    /// Change a node, from its next turn on
    Set {
        /// Its label, or its id
        node: String,
        /// What it is called from now on
        #[arg(long)]
        label: Option<String>,
        /// Its role's prompt counts again
        #[arg(long, conflicts_with = "prompt")]
        no_prompt: bool,
        #[command(flatten)]
        wishes: Wishes,
    },
    /// Remove a node and its edges; a turn of it that is under way ends
    Rm(Which),
    /// Have a node begin a new conversation
    Reset(Which),
    /// Give a node no more turns; one that is under way ends
    Stop(Which),
    /// Give a node turns again
    Start(Which),
    /// End the turn that a node is in
    Interrupt(Which),
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        match self.verb {
            Verb::Add { label, wishes } => add(here, label, &wishes),
            Verb::Set { node, label, no_prompt, wishes } => set(here, node, label, no_prompt, &wishes),
            Verb::Rm(Which { node, run }) => edit(here, &run, GraphEdit::RemoveNode { node }),
            Verb::Reset(Which { node, run }) => edit(here, &run, GraphEdit::ResetNode { node }),
            Verb::Stop(Which { node, run }) => edit(here, &run, GraphEdit::HoldNode { node, held: true }),
            Verb::Start(Which { node, run }) => edit(here, &run, GraphEdit::HoldNode { node, held: false }),
            Verb::Interrupt(Which { node, run }) => {
                edit(here, &run, GraphEdit::InterruptNode { node, id: store::new_uuid() })
            }
        }
    }
}

fn add(here: &Surroundings, label: String, wishes: &Wishes) -> Outcome<ExitCode> {
    let (provider, agent) = wishes.provider().unwrap_or((Provider::Custom, None));
    let node = NodeInput {
        label,
        role_template: wishes.role()?.unwrap_or_else(RoleName::implementer),
        provider,
        agent,
        model: wishes.model.clone(),
        scope: wishes.scope.clone(),
        capabilities: wishes.capabilities(),
        permissions: wishes.permissions(),
        session: SessionWishes::default(),
        custom_system_prompt: wishes.prompt.clone(),
    };
    edit(here, &wishes.run, GraphEdit::AddNode { node: Box::new(node) })
}

fn set(
    here: &Surroundings,
    node: String,
    label: Option<String>,
    no_prompt: bool,
    wishes: &Wishes,
) -> Outcome<ExitCode> {
    let (provider, agent) = wishes.provider().map_or((None, None), |(provider, agent)| (Some(provider), agent));
    let (can, may) = (wishes.capabilities(), wishes.permissions());
    let patch = NodeWishes {
        label,
        role_template: wishes.role()?,
        provider,
        agent,
        model: wishes.model.clone(),
        scope: Some(wishes.scope.clone()).filter(|scope| !scope.is_empty()),
        capabilities: Some(can).filter(|can| *can != CapabilityWishes::default()),
        permissions: Some(may).filter(|may| *may != PermissionWishes::default()),
        custom_system_prompt: if no_prompt { Some(None) } else { wishes.prompt.clone().map(Some) },
        ..NodeWishes::default()
    };
    edit(here, &wishes.run, GraphEdit::PatchNode { node, patch: Box::new(patch) })
}

impl Wishes {
    fn role(&self) -> Outcome<Option<RoleName>> {
        let parse = |role: &String| {
            let message = format!("{role:?} is no role");
            let hint = "a role is a letter and at most 31 letters, digits, `_` or `-`";
            RoleName::parse(role).ok_or_else(|| CommandError::usage(message, hint))
        };
        self.role.as_ref().map(parse).transpose()
    }

    /// Whose command line takes its turns, and the entry of the configuration where it has no name of its own.
    fn provider(&self) -> Option<(Provider, Option<String>)> {
        self.agent.as_deref().map(|name| match name {
            "codex" => (Provider::Codex, None),
            "claude" => (Provider::Claude, None),
            "gemini" => (Provider::Gemini, None),
            other => (Provider::Custom, Some(other.to_owned())),
        })
    }

    fn capabilities(&self) -> CapabilityWishes {
        let wished = |name: &str| match (self.allow.iter().any(|it| it == name), self.deny.iter().any(|it| it == name))
        {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        };
        CapabilityWishes {
            spawn_nodes: wished("spawn-nodes"),
            write_code: wished("write-code"),
            write_docs: wished("write-docs"),
            run_commands: wished("run-commands"),
            delegate_only: wished("delegate-only"),
        }
    }

    fn permissions(&self) -> PermissionWishes {
        let mode = |word: &str| if word == "skip" { PermissionsMode::Skip } else { PermissionsMode::Gated };
        PermissionWishes {
            cli_permissions_mode: self.permissions.as_deref().map(mode),
            spawn_requires_approval: self.spawn_approval.as_deref().map(|word| word == "yes"),
        }
    }
}
