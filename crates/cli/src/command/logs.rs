//! `norma logs`: what agents and tests of a run printed and said.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{log_lines, out, patch_out, safe};
use contract::{Event, EventLine, Fact, SessionEvent, StepRef};
use runner::{Line, Lines};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use store::{Layout, Reader};

/// The files that hold what programs printed: agents, and tests.
const LOGS: [&str; 4] = ["stdout.txt", "stderr.txt", "stdout.log", "stderr.log"];

/// Print what the agents and tests of a run printed and said
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma logs\n  norma logs @last --step 2\n  norma logs @last --follow   # while it runs"
)]
pub(crate) struct Args {
    /// Run id, a unique prefix of it, or @last
    #[arg(default_value = "@last")]
    run: String,
    /// Only this step, with the tests of its change
    #[arg(long, value_name = "N")]
    step: Option<u32>,
    /// Go on until nobody works on the run any more
    #[arg(long)]
    follow: bool,
}

/// One log, as programs read it.
#[derive(Serialize)]
struct Log<'l> {
    run_id: &'l str,
    /// The step that it is of; of a test, the step whose change was tried.
    step: Option<u32>,
    /// Where it is, below the run's directory; none for what an agent said, which is in the run's log.
    path: Option<String>,
    text: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let layout = here.layout_of(&here.repository()?);
        let reader = Reader::open(&layout)?;
        let slug = reader.find_run(&self.run)?;
        let mut printer =
            Printer { here, reader: &reader, slug: &slug, step: self.step, said: BTreeMap::new(), any: false };
        let (_, events, _) = reader.log(&slug)?;
        let mut after = 0;
        for event in &events {
            printer.tell(event)?;
            after = event.seq;
        }
        if self.follow {
            follow(&mut printer, &layout, after)?;
        }
        Ok(printer.finish())
    }
}

/// Prints what comes after an event, until nobody works on the run any more.
fn follow(printer: &mut Printer<'_>, layout: &Layout, mut after: u64) -> Outcome<()> {
    // Whoever was too slow, or whose owner is gone, asks again.
    while let Some(mut lines) = Lines::follow(layout, printer.slug, after)? {
        loop {
            match lines.wait()? {
                Line::Event(line) => {
                    let event = EventLine::parse(line.as_bytes()).ok().and_then(|line| line.event().ok());
                    let Some(event) = event else { continue };
                    after = event.seq;
                    printer.tell(&event)?;
                }
                Line::Uncommitted(_) => {}
                Line::Over(_) => return Ok(()),
                Line::Lost => break,
            }
        }
    }
    Ok(())
}

struct Printer<'p> {
    here: &'p Surroundings,
    reader: &'p Reader,
    slug: &'p str,
    /// The only step that is wanted.
    step: Option<u32>,
    /// What the agents of open turns said so far, unless it is followed line by line.
    said: BTreeMap<u32, String>,
    any: bool,
}

impl Printer<'_> {
    fn tell(&mut self, event: &Event) -> Outcome<()> {
        match &event.fact {
            Fact::AgentEvent { step, event } => self.agent(*step, event),
            Fact::StepCommitted(done) => {
                self.said_of(done.step.index);
                self.files(&done.dir, "logs/", Some(done.step.index))?;
            }
            Fact::ItemEnded(ended) => self.files(&format!("changes/{:03}", ended.change), "tests/", ended.step)?,
            Fact::PatchApplied(it) => self.files(&format!("changes/{:03}", it.change), "tests/", Some(it.step))?,
            Fact::ChangeDropped(it) => self.files(&format!("changes/{:03}", it.change), "tests/", Some(it.step))?,
            _ => {}
        }
        Ok(())
    }

    fn agent(&mut self, step: StepRef, event: &SessionEvent) {
        let line = match event {
            SessionEvent::Message { text } => text.trim_end().to_owned(),
            SessionEvent::ToolStarted { .. } | SessionEvent::Error(_) => event.message(),
            SessionEvent::ToolCompleted { ok: false, .. } => event.message(),
            _ => return,
        };
        let said = self.said.entry(step.index).or_default();
        said.push_str(&line);
        said.push('\n');
    }

    fn said_of(&mut self, step: u32) {
        if let Some(text) = self.said.remove(&step) {
            self.log(None, Some(step), text.as_bytes());
        }
    }

    /// The logs of one directory that is on record.
    fn files(&mut self, dir: &str, below: &str, step: Option<u32>) -> Outcome<()> {
        if self.step.is_some() && self.step != step {
            return Ok(());
        }
        for name in self.reader.file_names(self.slug, dir)? {
            let is_log = LOGS.iter().any(|log| name.ends_with(log));
            if name.starts_with(below) && is_log {
                let bytes = self.reader.evidence(self.slug, dir, &name)?.unwrap_or_default();
                self.log(Some(format!("{dir}/{name}")), step, &bytes);
            }
        }
        Ok(())
    }

    fn log(&mut self, path: Option<String>, step: Option<u32>, bytes: &[u8]) {
        if bytes.is_empty() || self.step.is_some() && self.step != step {
            return;
        }
        self.any = true;
        if self.here.json {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.here.print(&Log { run_id: self.slug, step, path, text }, String::new);
            return;
        }
        let name =
            path.map_or_else(|| format!("step {}: what its agent said", step.unwrap_or_default()), |path| safe(&path));
        out(&format!("== {name}"));
        match self.here.terminal {
            true => log_lines(bytes).iter().for_each(|line| out(line)),
            false => {
                patch_out(bytes, false);
                if !bytes.ends_with(b"\n") {
                    out("");
                }
            }
        }
    }

    /// What is left of turns that are not on record, and that there was nothing.
    fn finish(mut self) -> ExitCode {
        for step in self.said.keys().copied().collect::<Vec<_>>() {
            self.said_of(step);
        }
        if !self.any && !self.here.json {
            out("nothing was printed; what happened: norma events");
        }
        ExitCode::SUCCESS
    }
}
