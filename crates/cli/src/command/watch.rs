//! `norma watch`: what happens to every run, or to one, as it happens. It only reads, so it works beside whoever owns the
//! state directory, and goes on when that process is gone or another one comes. What is answered in it is answered as
//! `norma approve` and `norma deny` would.

mod board;
mod draw;
mod lines;
mod screen;

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use store::Reader;

/// How often it looks.
const POLL: Duration = Duration::from_millis(200);

/// Watch runs live: all of them, or one until it has ended
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma watch          # every run; q ends it\n  norma watch @last    # one run, until it has ended\n  norma watch --json | jq .type   # line by line, as without a terminal"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    run: Option<String>,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let reader = Reader::open(&layout)?;
        let only = self.run.as_ref().map(|given| reader.find_run(given)).transpose()?;
        match here.live && std::io::stdin().is_terminal() {
            true => screen::watch(here, &layout, &reader, only),
            false => lines::watch(here, &reader, only.as_deref()),
        }
    }
}
