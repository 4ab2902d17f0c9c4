//! `norma contract`: check, make and activate the documents that agents work under.

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{named, out, safe};
use clap::Subcommand;
use contract::Item;
use contract::documents::Kind;
use contract::documents::task_contract::Draft;
use runner::{Context, Preview, Settings, Submitted, load_settings};
use serde_json::json;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// Check, make and activate contracts
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma contract new --goal \"say hello\" --allow src --test \"cargo test\" -o hello.json\n  norma contract check hello.json      # every error, with its JSON pointer\n  norma contract activate hello.json   # the git hooks check your own commits against it\n\nExit codes of check: 0 valid, 2 not"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Validate a contract or a batch: print a summary or every error
    Check {
        /// The document
        file: PathBuf,
    },
    /// Write a task contract that is valid in this repository
    New {
        /// What to do
        #[arg(long, value_name = "TEXT")]
        goal: String,
        /// What may change: a file, or a directory with everything below (can be repeated)
        #[arg(long, value_name = "PATH", required = true)]
        allow: Vec<String>,
        /// A command that must succeed (can be repeated)
        #[arg(long, value_name = "COMMAND", required = true)]
        test: Vec<String>,
        /// The agent that does it; without, the one that `norma run` would choose
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Where to write it; printed if left out
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Set the contract that the git hooks enforce
    Activate {
        /// The document
        file: PathBuf,
    },
    /// Clear it
    Clear,
    /// Show it
    Show,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        // Only what is kept needs a state directory.
        let context = match self.verb {
            Verb::Check { .. } | Verb::New { .. } => here.context_to_be()?,
            Verb::Activate { .. } | Verb::Clear | Verb::Show => here.context()?,
        };
        match self.verb {
            Verb::Check { file } => check(here, &context, &file),
            Verb::New { goal, allow, test, agent, output } => {
                let task_id = format!("task-{}", store::new_run_id().slug());
                let config = settings(here, &context)?.config;
                let agent = match agent {
                    Some(agent) => agent,
                    None => super::run::agent::choose(here, &context, &config, None)?.name,
                };
                let draft = Draft { task_id, goal, allowed_paths: allow, tests: test, agent_id: agent };
                new(here, &context, draft, output.as_deref())
            }
            Verb::Activate { file } => activate(here, &context, &file),
            Verb::Clear => clear(here, &context),
            Verb::Show => show(here, &context),
        }
    }
}

fn check(here: &Surroundings, context: &Context, file: &Path) -> Outcome<ExitCode> {
    let submitted = submit(here, context, &read(&here.cwd.join(file))?)?;
    record(here, context, &submitted)?;
    tell(here, &file.to_string_lossy(), submitted)
}

fn new(here: &Surroundings, context: &Context, draft: Draft, output: Option<&Path>) -> Outcome<ExitCode> {
    let policies = settings(here, context)?.policies;
    let contract = draft.contract(policies.agent_registry(), &policies.mcp_allowlist());
    let contract = contract.map_err(|why| CommandError::usage(why, "name another one with --agent"))?;
    let text = serde_json::to_string_pretty(&contract).expect("BUG: a contract is plain data") + "\n";
    let text = with_schema(here, context, &text, output)?;
    // What was typed is nobody's document yet, so a mistake in it is no refusal to put on record.
    let submitted = submit(here, context, text.as_bytes())?;
    if submitted.items.is_err() {
        return tell(here, "that contract", submitted);
    }
    let Some(file) = output else {
        crate::text::raw_out(&text);
        return Ok(ExitCode::SUCCESS);
    };
    write_new(&here.cwd.join(file), &text)?;
    let shown = safe(&file.to_string_lossy());
    let value = json!({"file": file, "task_id": contract.task_id});
    Ok(here.print(&value, || format!("{} written to {shown}\nnext: norma contract check {shown}", contract.task_id)))
}

/// The contract with the place of its schema, as seen from where it is written; as it is where there is no state directory
/// that could have one.
fn with_schema(here: &Surroundings, context: &Context, text: &str, output: Option<&Path>) -> Outcome<String> {
    if !context.layout.exists() {
        return Ok(text.to_owned());
    }
    runner::write_schemas(&context.layout)?;
    let file = here.cwd.join(output.unwrap_or(Path::new("-")));
    let schema = context.layout.schemas().join("task_contract.v1.json");
    let place = relative(file.parent().unwrap_or(&here.cwd), &schema);
    Ok(contract::schema::with_reference(text, &place.to_string_lossy()))
}

/// The way from a directory to a file.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let from = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

fn activate(here: &Surroundings, context: &Context, file: &Path) -> Outcome<ExitCode> {
    let bytes = read(&here.cwd.join(file))?;
    let submitted = submit(here, context, &bytes)?;
    record(here, context, &submitted)?;
    let name = file.to_string_lossy();
    let item = match &submitted.items {
        Err(_) => return tell(here, &name, submitted),
        Ok(items) if submitted.kind == Some(Kind::TaskContract) => &items[0],
        Ok(_) => {
            let hint = "only a task contract can be active; make one: norma contract new";
            return Err(CommandError::usage(format!("{} has work items", safe(&name)), hint));
        }
    };
    runner::activate(&context.layout, &bytes)?;
    let value = json!({"task_id": item.id, "sha256": submitted.sha256});
    Ok(here.print(&value, || format!("{} is active; to end that: norma contract clear", item.id)))
}

fn clear(here: &Surroundings, context: &Context) -> Outcome<ExitCode> {
    let cleared = runner::deactivate(&context.layout)?;
    let said = if cleared { "no contract is active now" } else { "no contract was active" };
    Ok(here.print(&json!({"cleared": cleared}), || said.to_owned()))
}

fn show(here: &Surroundings, context: &Context) -> Outcome<ExitCode> {
    let path = context.layout.active_contract();
    if !path.exists() {
        return Err(CommandError::usage("no contract is active", "to set one: norma contract activate FILE"));
    }
    // Refused when it was submitted or not at all: looking at it again is no new submission.
    let submitted = submit(here, context, &read(&path)?)?;
    tell(here, &context.layout.shown(&path), submitted)
}

/// What counts here. Nothing is started, so nothing needs to be trusted.
pub(super) fn settings(here: &Surroundings, context: &Context) -> Outcome<Settings> {
    let path = match &here.config {
        Some(path) => here.cwd.join(path),
        // In a repository without settings the user's own count, as they do when something is run.
        None if !context.layout.config().exists() => return Ok(runner::own_settings(context)?),
        None => context.layout.config(),
    };
    Ok(load_settings(&path, &context.layout)?)
}

fn submit(here: &Surroundings, context: &Context, bytes: &[u8]) -> Outcome<Submitted> {
    let settings = settings(here, context)?;
    Ok(Preview::open(context)?.submit(&settings, bytes)?)
}

/// Why a document needs a person's approval; nothing for one that is refused, which is told when it is run.
pub(super) fn approval_reasons(context: &Context, settings: &Settings, bytes: &[u8]) -> Outcome<Vec<String>> {
    let preview = Preview::open(context)?;
    let Ok(items) = preview.submit(settings, bytes)?.items else { return Ok(Vec::new()) };
    Ok(preview.approval_reasons(settings, &items)?)
}

/// A document that is refused leaves a record, as a run would, where there is a log for it.
fn record(here: &Surroundings, context: &Context, submitted: &Submitted) -> Outcome<()> {
    match submitted.refusal().filter(|_| context.layout.exists()) {
        Some(request) => here.request(request).map(drop),
        None => Ok(()),
    }
}

/// Reads a document.
pub(super) fn read(path: &Path) -> Outcome<Vec<u8>> {
    read_from(std::fs::File::open(path), &path.to_string_lossy(), "name a file with a task contract or work items")
}

/// Reads a document from what was opened under this name.
pub(super) fn read_from(source: std::io::Result<impl Read>, name: &str, hint: &str) -> Outcome<Vec<u8>> {
    let shown = safe(name);
    let refused = |message: String| CommandError::usage(message, hint);
    let failed = |error: std::io::Error| refused(format!("could not read {shown}: {error}"));
    let mut bytes = Vec::new();
    source
        .map_err(failed)?
        .take(contract::Limits::BATCH.bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    // A record of it would have the digest of its beginning only.
    let most = contract::documents::limits_of(&bytes).bytes_max;
    if bytes.len() > most {
        return Err(refused(format!("{shown} is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// Never over something that is there.
pub(super) fn write_new(path: &Path, text: &str) -> Outcome<()> {
    let made = std::fs::File::options().write(true).create_new(true).open(path);
    made.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).map_err(|error| {
        let message = format!("could not write {}: {error}", safe(&path.to_string_lossy()));
        CommandError::usage(message, "name another file with -o")
    })
}

/// Prints a summary of a document, or every error in it.
fn tell(here: &Surroundings, name: &str, submitted: Submitted) -> Outcome<ExitCode> {
    let kind = submitted.kind.map(Kind::as_str);
    match &submitted.items {
        Err(violations) if here.json => {
            let refused = json!({"ok": false, "kind": kind, "sha256": submitted.sha256, "violations": violations});
            out(&refused.to_string());
            Ok(ExitCode::from(code::USAGE))
        }
        Err(_) => Err(refusal(name, submitted)),
        Ok(items) => {
            let mut value = json!({"ok": true, "kind": kind, "sha256": submitted.sha256, "items": items});
            if let Some(role) = &submitted.role {
                value["role_contract"] = json!(role);
            }
            Ok(here.print(&value, || summary(name, kind.unwrap_or_default(), items, &submitted)))
        }
    }
}

/// Messages quote the document, so each line is made safe by itself.
pub(crate) fn refusal(name: &str, submitted: Submitted) -> CommandError {
    let violations = submitted.items.err().unwrap_or_default();
    let lines: Vec<String> =
        violations.iter().map(|violation| format!("\n  {}", safe(&violation.to_string()))).collect();
    CommandError::usage(
        format!("{} is not valid; nothing was run:{}", safe(name), lines.concat()),
        "what each field may be: norma help contracts",
    )
}

/// Six lines, however large the document is.
fn summary(name: &str, kind: &str, items: &[Item], submitted: &Submitted) -> String {
    let after = |item: &Item| match item.needs.is_empty() {
        true => item.id.clone(),
        false => format!("{} (after {})", item.id, item.needs.join(", ")),
    };
    let done_by = |item: &Item| format!("{} {} by {:?}", item.role, item.agent_id, item.worker);
    let paths = |item: &Item| match item.scope.allowed_paths.as_slice() {
        _ if item.read_only => vec!["nothing".to_owned()],
        [] => vec!["everything that policy does not protect".to_owned()],
        paths => paths.iter().map(ToString::to_string).collect(),
    };
    let tests = items.iter().flat_map(|item| &item.tests).map(|test| test.argv.join(" "));
    [
        format!("valid: {} ({kind}, {} item(s))", safe(name), items.len()),
        format!("items: {}", named(items.iter().map(after))),
        format!("agents: {}", named(items.iter().map(done_by))),
        format!("may change: {}", named(items.iter().flat_map(paths))),
        format!("tests: {}", named(tests)),
        format!("sha256: {}", submitted.sha256),
    ]
    .join("\n")
}
