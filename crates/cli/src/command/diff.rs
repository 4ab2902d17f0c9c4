//! `norma diff`: what a run changed, all of it.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::patch_out;
use runner::git::{Objects, id};
use std::process::ExitCode;
use store::Reader;

/// Print what a run changed, as a patch
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma diff @last | git apply --check")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let user = here.repository()?;
        let layout = here.layout_of(&user);
        let reader = Reader::open(&layout)?;
        let slug = reader.find_run(&self.run)?;
        let patch = match std::fs::read(layout.run(&slug).join("patch.diff")) {
            Ok(patch) => patch,
            // Under way: the change that somebody is asked about, or the run's tree so far.
            Err(_) => {
                let (run, _) = reader.load(&slug)?;
                let objects = Objects::open_or_create(&layout.git(), &user)?;
                let (before, after) = run.asked_about().unwrap_or((run.started.base.tree, run.tree()));
                objects.diff_text(id(before), id(after))?
            }
        };
        if here.json {
            let text = String::from_utf8_lossy(&patch);
            return Ok(here.print(&serde_json::json!({"run_id": slug, "patch": text}), String::new));
        }
        patch_out(&patch, here.terminal);
        Ok(ExitCode::SUCCESS)
    }
}
