//! `norma intent compile`: from an intent to plan, patch and tests. Asking an agent is a run like any other, whose one item
//! may change nothing; a recording is what is left of it under the request's key.

use crate::command::contract::read_from;
use crate::ending::exit_number;
use crate::error::{CommandError, Outcome, code};
use crate::session::{Asks, Session};
use crate::surroundings::Surroundings;
use crate::text::{bytes_out, err, named, out, safe};
use contract::documents::{CompileOutput, CompileRequest, Intent, Recording};
use contract::{Digest, Fact, Reason, RunView, Status, Violation};
use runner::Start;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use store::Reader;

/// What is said to whoever named no intent.
const HINT: &str = "name a file with an intent, or - for stdin (norma help intents)";

#[derive(clap::Args)]
pub(super) struct Args {
    /// A file with an intent, or - for stdin
    file: PathBuf,
    /// Distinguishes requests that are otherwise the same
    #[arg(long, value_name = "TEXT", default_value = "")]
    seed: String,
    /// The version of your documents; a part of the key
    #[arg(long, value_name = "N", default_value_t = 0)]
    schema_version: u32,
    /// Who is asked: an entry of "agents", or codex, claude, gemini or opencode
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Ask an opencode server of this machine (opencode serve) instead of starting an agent
    #[arg(long, value_name = "URL", conflicts_with = "agent")]
    server: Option<String>,
    /// Whether an agent is asked at all, and whether its answer is kept under the key
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    mode: Mode,
    /// Write the answer to a file, too
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with code 4 if another norma is running here
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
            Mode::Record | Mode::Live => match &self.server {
                Some(url) => self.ask_server(here, &request, url)?,
                None => self.ask(here, &request)?,
            },
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
        let message = format!("{} is not a valid intent:{lines}", safe(&self.file.to_string_lossy()));
        CommandError::usage(message, "fix it: norma help intents, norma schema intent")
    }

    /// Has an agent compile it. What it answered is on the disk when this answers; nothing takes its place if it fails.
    fn ask(&self, here: &Surroundings, request: &CompileRequest) -> Outcome<CompileOutput> {
        let mut session = Session::open(here, Asks::of(self.no_wait, false))?;
        let (agent, asked) = (self.agent.clone(), Box::new(request.clone()));
        let view = session.carry_out(Start::Compile { request: asked, agent })?;
        if view.status != Status::Succeeded {
            return Err(unfinished(&session, &view)?);
        }
        let output = runner::compiled(&session.reader()?, &view)?;
        if self.mode == Mode::Record {
            store::keep_recording(session.layout(), &Recording::new(request.clone(), output.clone()))?;
        }
        Ok(output)
    }

    /// Has a server compile it that somebody else runs. Every call is in the ledger before this answers.
    fn ask_server(&self, here: &Surroundings, request: &CompileRequest, url: &str) -> Outcome<CompileOutput> {
        let context = here.context()?;
        let settings = runner::settings_in_force(&context, here.config.as_deref())?.settings;
        let time = Duration::from_secs(settings.config.limits.step_seconds.into());
        let compiler = super::compiler(here, &context, url)?;
        let output = compiler.compile(request, time)?;
        if self.mode == Mode::Record {
            store::keep_recording(&context.layout, &Recording::new(request.clone(), output.clone()))?;
        }
        Ok(output)
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
        let diff =
            if self.server.is_some() { "in the answer".to_owned() } else { format!("norma intent diff {session}") };
        lines.push(format!("next: all of it: --json, or -o FILE · the change: {diff}"));
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
        Ok(None) => Err(CommandError::new(code::FAILED, format!("no recording with key {key}"), anew)),
        Err(store::Error::Damaged { log, why }) => {
            let message = format!("{log} was changed after it was recorded, so it is not used: {}", safe(&why));
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
        Status::Paused => "run the same command again to continue it".to_owned(),
        Status::Waiting => "see what it waits for: norma approvals; then run the same command again".to_owned(),
        _ => format!("look: norma show {slug} · evidence: {}", view.run_dir),
    };
    Ok(CommandError::new(exit_number(view), message, hint))
}
