//! `norma diff`: what a run changed, all of it; of one that ended without a change, what was refused or failed.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::patch_out;
use runner::git::{Objects, TEXT_BYTES_MAX, id};
use std::path::Path;
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
                objects.diff_text(id(before), id(after), TEXT_BYTES_MAX)?
            }
        };
        let refused = if patch.is_empty() { not_landed(&layout.run(&slug)) } else { Vec::new() };
        if here.json {
            let text = String::from_utf8_lossy(&patch);
            let mut value = serde_json::json!({"run_id": slug, "patch": text});
            if !refused.is_empty() {
                value["not_landed"] = refused.iter().map(|(of, patch)| not_landed_json(of, patch)).collect();
            }
            return Ok(here.print(&value, String::new));
        }
        patch_out(&patch, here.terminal);
        for (of, patch) in &refused {
            crate::text::err(&format!("note: {of} did not land; this is its patch"));
            patch_out(patch, here.terminal);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn not_landed_json(of: &str, patch: &[u8]) -> serde_json::Value {
    serde_json::json!({"change": of, "patch": String::from_utf8_lossy(patch)})
}

/// The patches of a run's changes, by directory, oldest first.
fn not_landed(run_dir: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(found) = std::fs::read_dir(run_dir.join("changes")) else { return Vec::new() };
    let mut names: Vec<String> = found.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let patch = |name: String| {
        let patch = std::fs::read(run_dir.join("changes").join(&name).join("patch.diff")).ok()?;
        (!patch.is_empty()).then(|| (format!("changes/{name}"), patch))
    };
    names.into_iter().filter_map(patch).collect()
}
