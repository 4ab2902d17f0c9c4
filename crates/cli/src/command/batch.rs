//! `norma batch`: carries out work items, level by level.

use super::run::JOBS_DEFAULT;
use super::work::{Document, Work};
use crate::error::Outcome;
use crate::surroundings::Surroundings;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run work items level by level, in parallel; each lands whole or leaves no trace
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma batch items.json --jobs 4\n  norma batch items.json        # the same again continues where it was left\n  norma batch items.json --json # an array of results, each with its id"
)]
pub(crate) struct Args {
    /// A JSON array of work items
    file: PathBuf,
    /// How many at once
    #[arg(long, value_name = "N", default_value_t = JOBS_DEFAULT, value_parser = parse_jobs)]
    jobs: usize,
    /// Start over even if an interrupted batch of the same items could be continued
    #[arg(long)]
    new: bool,
    /// Do nothing if another norma is at work here; exit 4
    #[arg(long)]
    no_wait: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let Args { file, jobs, new, no_wait } = self;
        Work { document: Document::File(file), jobs, new, no_wait, many: true }.run(here)
    }
}

/// More hands than this only wait for each other.
const JOBS_MAX: usize = 256;

fn parse_jobs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=JOBS_MAX).contains(number));
    number.ok_or_else(|| format!("it must be a number from 1 to {JOBS_MAX}"))
}
