//! The benchmarks: everything side by side in one run, as Markdown. `cargo xtask bench` builds this program and
//! the norma it measures, optimized, and starts it. Nothing here is asserted: a wall clock tells about a machine
//! and a moment. Each row names its target, as a ratio to a floor measured in the same run between the samples,
//! and says whether it holds.

mod agents;
mod barriers;
mod batch;
mod bundle;
mod concurrent;
mod confine;
mod executor;
mod floor;
mod growth;
mod host;
mod intents;
mod log;
mod memory;
mod page;
mod pipeline;
mod runs;
mod sample;
mod server;
mod spawn;
mod step;
mod transfer;
mod workspace;
mod world;

use page::Section;
use std::path::PathBuf;
use std::process::ExitCode;
use world::World;

/// Anything that keeps a benchmark from being run.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What was typed.
struct Args {
    norma: PathBuf,
    root: PathBuf,
    tools: PathBuf,
    quick: bool,
    write: Option<PathBuf>,
    dir: Option<PathBuf>,
    names: Vec<String>,
}

/// Measures one thing.
type Benchmark = fn(&World) -> Result<Section>;

/// Every benchmark by name, in the order of the page. Those that delete many files come last: ext4 without a journal makes
/// whoever creates files after them pay.
const BENCHMARKS: [(&str, Benchmark); 18] = [
    ("step", step::run),
    ("batch", batch::run),
    ("large", batch::large),
    ("agents", agents::run),
    ("log", log::run),
    ("runs", runs::run),
    ("concurrent", concurrent::run),
    ("spawn", spawn::run),
    ("transfer", transfer::run),
    ("memory", memory::run),
    ("bundle", bundle::run),
    ("growth", growth::run),
    ("server", server::run),
    ("graph", server::graph::run),
    ("intents", intents::run),
    ("pipelines", pipeline::run),
    ("workspace", workspace::run),
    ("deletions", batch::used::run),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        // What is measured is measured in processes of their own.
        [agents::SPEAK, events] => agents::speak(events),
        [transfer::FETCH, address] => transfer::fetch(address),
        [server::SERVE, dir, norma, home] => server::serve(dir.as_ref(), norma.as_ref(), home.as_ref()),
        [memory::HOLD, agents, norma, dir] => memory::hold(agents, norma.as_ref(), dir.as_ref()),
        words => parse(words.iter().map(|&word| word.to_owned())).and_then(|args| measure(&args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args> {
    let mut parsed = Args {
        norma: PathBuf::new(),
        root: PathBuf::new(),
        tools: PathBuf::new(),
        quick: false,
        write: None,
        dir: None,
        names: Vec::new(),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().map(PathBuf::from).ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--norma" => parsed.norma = value()?,
            "--root" => parsed.root = value()?,
            "--tools" => parsed.tools = value()?,
            "--write" => parsed.write = Some(value()?),
            "--dir" => parsed.dir = Some(value()?),
            "--quick" => parsed.quick = true,
            name if BENCHMARKS.iter().any(|(known, _)| *known == name) => parsed.names.push(arg),
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    Ok(parsed)
}

fn measure(args: &Args) -> Result<()> {
    let world = World::create(args)?;
    let host = host::describe(&world.dir, &args.root)?;
    let mut sections = Vec::new();
    for (name, benchmark) in BENCHMARKS {
        if args.names.is_empty() || args.names.iter().any(|chosen| chosen == name) {
            tell(&format!("bench: {name} …"));
            sections.push(benchmark(&world)?);
        }
    }
    let page = match &args.write {
        Some(path) if !args.names.is_empty() => page::replace(&std::fs::read_to_string(path)?, &host, &sections),
        _ => page::render(&host, &sections, args.quick),
    };
    match &args.write {
        Some(path) => std::fs::write(path, page).map_err(|e| format!("could not write {}: {e}", path.display()))?,
        None => print(&page),
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "progress and problems")]
fn tell(text: &str) {
    eprintln!("{text}");
}
