//! `norma intent compile`: from an intent to plan, patch and tests. Asking an agent is a run like any other, whose one item
//! may change nothing; a recording is what is left of it under the request's key.

use crate::command::contract::{named, read_from};
use crate::command::run::{Interrupts, Session, exit_number, trusted_settings, wait_for_lock};
use crate::command::work::{Document, Work};
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{bytes_out, err, out, safe};
use contract::documents::{CompileOutput, CompileRequest, Intent, Recording};
use contract::{Digest, Fact, Item, Reason, RunView, Status, Violation};
use runner::WorkOrder;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::Reader;

/// What is said to whoever named no intent.
const HINT: &str = "name a file with an intent, or - for stdin (docs/intents.md)";

#[derive(clap::Args)]
pub(super) struct Args {
    /// A file with an intent, or - for stdin
    file: PathBuf,
    /// Tells requests apart that are the same otherwise
    #[arg(long, value_name = "TEXT", default_value = "")]
    seed: String,
    /// The version of your documents; a part of the key
    #[arg(long, value_name = "N", default_value_t = 0)]
    schema_version: u32,
    /// Who is asked: an entry of "agents", or codex, claude, gemini or opencode
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Whether an agent is asked at all, and whether its answer is kept under the key
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    mode: Mode,
    /// Write the answer to a file, too
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not wait if another norma is at work; exit 4
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// what is recorded under the key; nobody is asked
    Replay,
    /// ask, and keep the answer under the key
    Record,
    /// ask, and keep the answer as evidence of its run only
    Live,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Mode::Replay => "replay",
            Mode::Record => "record",
            Mode::Live => "live",
        }
    }
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let request = self.request(here)?;
        let output = match self.mode {
            Mode::Replay => recorded(here, &request)?,
            Mode::Record | Mode::Live => self.ask(here, &request)?,
        };
        let mut bytes = output.canonical();
        bytes.push(b'\n');
        if let Some(file) = &self.output {
            store::write_whole(&here.cwd.join(file), &bytes)?;
        }
        let (key, mode) = (request.key(), self.mode.as_str());
        if here.json {
            let of = &output.transcript;
            err(&format!("key {key} · mode {mode} · run {} · session {}", of.run_id, safe(&of.session_id)));
            bytes_out(&bytes);
        } else {
            out(&self.summary(here, &key, &output)?);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What is asked; an intent that is none is refused before anything is looked at or written.
    fn request(&self, here: &Surroundings) -> Outcome<CompileRequest> {
        let bytes = match self.file == Path::new("-") {
            true => read_from(Ok(std::io::stdin().lock()), "stdin", HINT)?,
            false => read_from(std::fs::File::open(here.cwd.join(&self.file)), &self.file.to_string_lossy(), HINT)?,
        };
        let intent = Intent::read(&bytes).map_err(|problems| self.refused(&problems))?;
        Ok(CompileRequest { intent, schema_version: self.schema_version, seed: self.seed.clone() })
    }

    fn refused(&self, problems: &[Violation]) -> CommandError {
        let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
        let message = format!("{} is no intent:{lines}", safe(&self.file.to_string_lossy()));
        CommandError::usage(message, "mend it: docs/intents.md, schemas/intent.v0.json")
    }

    /// Has an agent compile it. What it answered is on the disk when this answers; nothing takes its place if it fails.
    fn ask(&self, here: &Surroundings, request: &CompileRequest) -> Outcome<CompileOutput> {
        let interrupts = Interrupts::install()?;
        let context = here.context()?;
        let settings = trusted_settings(here, &context)?;
        let item = self.item(&settings.config, request)?;
        let owner = wait_for_lock(here, &context, self.no_wait)?;
        let session = Session { here, context: &context, owner: &owner, settings, interrupts };
        let view = self.carry_out(&session, request, item)?;
        if view.status != Status::Succeeded {
            return Err(unfinished(&session, &view)?);
        }
        let output = runner::compiled(&Reader::open(&context.layout)?, &view)?;
        if self.mode == Mode::Record {
            store::keep_recording(&context.layout, &Recording::new(request.clone(), output.clone()))?;
        }
        Ok(output)
    }

    fn item(&self, config: &contract::Config, request: &CompileRequest) -> Outcome<Item> {
        let name = super::compiler(config, self.agent.clone());
        let agent = config.agent(&name).ok_or_else(|| {
            let message = format!("there is no agent {name:?}");
            CommandError::usage(message, "name one of \"agents\" in config.json, or codex, claude, gemini or opencode")
        })?;
        request.item(&name, &config.limits.for_agents([&agent])).map_err(|problems| self.refused(&problems))
    }

    /// The run that asks: a new one, or the one of the very same request that was left before its end.
    fn carry_out(&self, session: &Session<'_>, request: &CompileRequest, item: Item) -> Outcome<RunView> {
        let bytes = request.canonical();
        let document = Document::Typed(bytes.clone());
        let work = Work { document, jobs: 1, new: false, no_wait: self.no_wait, many: false };
        if let Some(slug) = work.left(session, std::slice::from_ref(&item))? {
            let (run, _) = Reader::open(&session.context.layout)?.load(&slug)?;
            if run.items().iter().map(|state| &*state.item).eq([&item]) {
                return session.resume(&slug, 1);
            }
        }
        let goal = format!("compile the intent: {}", request.intent.goal);
        session.start_work(WorkOrder { goal, ..work.order(session, None, vec![item], bytes)? }, 1)
    }

    fn summary(&self, here: &Surroundings, key: &Digest, output: &CompileOutput) -> Outcome<String> {
        let layout = here.layout_of(&here.repository()?);
        let CompileOutput { plan, patch, tests, transcript } = output;
        let with = transcript.model.as_ref().map(|model| format!(" with {}", safe(model))).unwrap_or_default();
        let run_dir = layout.run(&transcript.run_id);
        let mut lines = vec![
            format!("key {key} · mode {} · by {}{with}", self.mode.as_str(), safe(&transcript.agent)),
            format!("plan: {}", named(plan.nodes.iter().map(|node| format!("{} ({})", node.id, node.kind.as_str())))),
            format!("patch: {}", named(patch.files.iter().map(|file| file.path.clone()))),
            format!("tests: {}", named(tests.iter().cloned())),
        ];
        if self.mode != Mode::Live {
            lines.push(format!("recording: {}", layout.shown(&layout.recording(key))));
        }
        lines.extend(run_dir.is_dir().then(|| format!("evidence: {}", layout.shown(&run_dir))));
        let session = safe(&transcript.session_id);
        lines.push(format!("next: all of it: --json, or -o FILE · the change: norma intent diff {session}"));
        Ok(lines.join("\n"))
    }
}

/// What is recorded under the key. Nobody is asked, and nothing is written.
fn recorded(here: &Surroundings, request: &CompileRequest) -> Outcome<CompileOutput> {
    let layout = here.context()?.layout;
    let key = request.key();
    let anew = "have an agent compile it: norma intent compile … --mode record";
    match store::recording(&layout, &key) {
        Ok(Some(recording)) => Ok(recording.response),
        Ok(None) => Err(CommandError::new(code::FAILED, format!("there is no recording of key {key}"), anew)),
        Err(store::Error::Damaged { log, why }) => {
            let message = format!("{log} is not what was recorded, so it is not used: {}", safe(&why));
            Err(CommandError::new(code::INTEGRITY, message, anew))
        }
        Err(error) => Err(error.into()),
    }
}

/// Why there is no answer, with everything that was wrong with the last one.
fn unfinished(session: &Session<'_>, view: &RunView) -> Outcome<CommandError> {
    let slug = &view.run_id;
    let (_, events, _) = Reader::open(&session.context.layout)?.log(slug)?;
    let wrong = events.iter().rev().find_map(|event| match &event.fact {
        Fact::ProtocolError { problems, .. } if view.reason == Some(Reason::ProtocolError) => Some(problems),
        _ => None,
    });
    let why = match wrong {
        Some(problems) => problems.iter().map(|problem| format!("\n  {}", safe(problem))).collect(),
        None => format!(" {}", view.message.as_deref().map_or_else(String::new, safe)),
    };
    let message = format!("the intent was not compiled, run {slug} is {}:{why}", view.status);
    let hint = match view.status {
        Status::Paused => "the same command again goes on with it".to_owned(),
        Status::Waiting => "see what it waits for: norma approvals; then the same command again".to_owned(),
        _ => format!("look: norma show {slug} · evidence: {}", view.run_dir),
    };
    Ok(CommandError::new(exit_number(view), message, hint))
}
