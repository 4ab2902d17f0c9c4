//! `norma diff`: what a run changed, all of it; of one that ended without a change, what was refused or failed.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::patch_out;
use contract::Fact;
use runner::git::{Objects, TEXT_BYTES_MAX, id};
use std::process::ExitCode;
use store::Reader;

/// Print what a run changed, as a patch
#[derive(clap::Args)]
#[command(after_help = "Example:\n  norma diff\n  norma diff @last | git apply --check")]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last")]
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
                let (before, after) = run.asked_about().unwrap_or((run.ground().tree, run.tree()));
                objects.diff_text(id(before), id(after), TEXT_BYTES_MAX)?
            }
        };
        let refused = match patch.is_empty() {
            true => not_landed(&reader, &Objects::open_or_create(&layout.git(), &user)?, &slug)?,
            false => Vec::new(),
        };
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

/// What agents made that is no part of a result, oldest first: the patches of refused changes, and what was left by turns
/// that nothing came of.
fn not_landed(reader: &Reader, objects: &Objects, slug: &str) -> Outcome<Vec<(String, Vec<u8>)>> {
    let (run, _) = reader.load(slug)?;
    let (_, events, _) = reader.log(slug)?;
    let mut found = Vec::new();
    for number in events.iter().filter_map(|event| Some(event.fact.change_end()?.change)) {
        let dir = format!("changes/{number:03}");
        let patch = reader.evidence(slug, &dir, "patch.diff")?.unwrap_or_default();
        found.extend((!patch.is_empty()).then_some((dir, patch)));
    }
    for event in &events {
        let Fact::StepCommitted(done) = &event.fact else { continue };
        let judged = found
            .iter()
            .any(|(dir, _)| Some(dir) == done.step.item.map(|it| format!("changes/{:03}", it + 1)).as_ref());
        let (false, Some(tree)) = (judged, done.tree) else { continue };
        let patch = objects.diff_text(id(run.started.base.tree), id(tree), TEXT_BYTES_MAX)?;
        found.extend((!patch.is_empty()).then(|| (done.dir.clone(), patch)));
    }
    Ok(found)
}
