//! `norma init`: the state directory, a configuration to start from, and the policies to read and edit.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use runner::{Context, Owner, Taken, load_settings, starting_config, write_policies};
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;

/// Create the state directory (.norma) with a configuration and policies to start from
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  norma init\n  norma run \"make the tests pass\"\n\n`norma run \"what you want\"` needs no init; this is for a configuration and policies of your own."
)]
pub(crate) struct Args {}

/// What was there, and what was made.
pub(super) struct Initialized {
    fresh: bool,
    config_written: bool,
    policies_written: Vec<&'static str>,
}

/// Makes what is not there yet.
pub(super) fn initialize(here: &Surroundings, context: &Arc<Context>) -> Outcome<Initialized> {
    let fresh = !context.layout.exists();
    match Owner::take(context)? {
        Taken::Ours(owner) => here.tell_recovery(&owner.recovery),
        Taken::Theirs(_) => {}
    }
    context.layout.publish()?;
    let path = context.layout.config();
    let config_written = !path.exists();
    if config_written {
        let text = starting_config();
        std::fs::write(&path, &text).map_err(|source| runner::Error::Io {
            action: "write",
            path: path.clone(),
            source,
        })?;
        context.trust.trust_written(&text)?;
    }
    Ok(Initialized { fresh, config_written, policies_written: write_policies(&context.layout)? })
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = Arc::new(here.context_to_be()?);
        let path = context.layout.config();
        let Initialized { fresh, config_written: written, policies_written: policies } = initialize(here, &context)?;
        let trusted = load_settings(&path, &context.layout).is_ok_and(|settings| context.trust.trusts(&settings));
        let state = context.layout.shown(&context.layout.state);
        let value = json!({"state": state, "created": fresh, "config": context.layout.shown(&path), "config_written": written, "config_trusted": trusted, "policies_written": policies});
        Ok(here.print(&value, || {
            let what = if fresh { "created" } else { "exists" };
            let config = match (written, trusted) {
                (true, true) => {
                    "config.json written; to add agents of your own, edit it (norma help config), then: norma trust"
                }
                (true, false) => "config.json written; the policies were here before, so read them, then: norma trust",
                (false, true) => "the configuration is trusted",
                (false, false) => "the configuration or its policies are not trusted yet; read them, then: norma trust",
            };
            let policies = match policies.is_empty() {
                true => String::new(),
                false => format!("\nprotected paths and other policies: {state}/policies (norma help gates)"),
            };
            format!("state directory {state} {what}\n{config}{policies}\nnext: norma run \"what you want\"")
        }))
    }
}
