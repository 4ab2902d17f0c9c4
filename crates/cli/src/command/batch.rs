//! `norma batch`: carries out work items, level by level.

use super::contract::read;
use super::run::JOBS_DEFAULT;
use super::work::{Document, Work, text};
use crate::error::Outcome;
use crate::session::Asks;
use crate::surroundings::Surroundings;
use crate::text::safe;
use runner::Request;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::Reader;

/// Run work items level by level, in parallel; each lands whole or leaves no trace
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma batch items.json --jobs 4\n  norma batch items.json        # run again to continue where it stopped\n  norma batch items.json --json # an array of results, each with its id\n  norma batch more.json --into @last # while that batch is under way"
)]
pub(crate) struct Args {
    /// A JSON array of work items
    file: PathBuf,
    /// How many at once
    #[arg(long, value_name = "N", default_value_t = JOBS_DEFAULT, value_parser = parse_jobs)]
    jobs: usize,
    /// Add the items to this batch, which has not ended, instead of starting another one
    #[arg(long, value_name = "RUN", conflicts_with_all = ["new", "jobs", "no_wait", "detach", "yes_wide"])]
    into: Option<String>,
    /// Start over even if an interrupted batch of the same items could be continued
    #[arg(long)]
    new: bool,
    /// Exit with code 4 if another norma is running here
    #[arg(long, conflicts_with = "detach")]
    no_wait: bool,
    /// Hand it to whoever owns the state directory, else to a new server in the background, and leave
    #[arg(long)]
    detach: bool,
    /// Approve in advance what it needs approval for, such as a wide scope; recorded as yours
    #[arg(long)]
    yes_wide: bool,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let Args { file, jobs, new, no_wait, detach, into, yes_wide } = self;
        if let Some(run) = into {
            return add(here, &file, &run);
        }
        let asks = Asks::of(no_wait, detach);
        Work { document: Document::File(file), jobs, new, asks, yes_wide, many: true, typed: None }.run(here)
    }
}

/// Adds the items of a file to a batch.
fn add(here: &Surroundings, file: &Path, run: &str) -> Outcome<ExitCode> {
    let (name, bytes) = (safe(&file.to_string_lossy()), read(&here.cwd.join(file))?);
    let layout = here.context()?.layout;
    let (run, text) = (Reader::open(&layout)?.find_run(run)?, text(&name, bytes)?);
    let sender = Box::new(here.sender().without_the_rest(&layout));
    let (message, value) = here.request(Request::Add { sender, run, name, text })?;
    Ok(here.print(&value, || message))
}

/// More workers than this only wait for each other.
const JOBS_MAX: usize = 256;

pub(super) fn parse_jobs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=JOBS_MAX).contains(number));
    number.ok_or_else(|| format!("must be a number from 1 to {JOBS_MAX}"))
}
