//! Batches: the same graphs of items that only start `/bin/echo`, carried out by norma, by engines that keep what is
//! done, and by make, which does not; then what an item costs with everything norma does for it, and in numbers.

pub(crate) mod graph;
mod item;
mod many;
pub(crate) mod own;
mod peer;
pub(crate) mod program;
pub(crate) mod used;

use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, confine, tell};
use graph::Graph;
use own::{Kind, Until};
use peer::{Peer, RECIPES};
use program::Held;
use std::path::PathBuf;
use std::process::Command;

/// How many items run at a time.
const JOBS: u32 = 2;

const TARGET_PEER: f64 = 1.0;
/// Against an engine that keeps one checkpoint for a whole level, where levels are wide.
const TARGET_LEVELS: f64 = 1.25;
const TARGET_MAKE: f64 = 2.0;
const TARGET_MB: f64 = 27.0;
const TARGET_ANONYMOUS_MB: f64 = 10.0;

/// Why some targets are not reached.
const WHY: &str = "Where the processor time of a read-only item goes (profile of 200 items, docs/speed.md): 33 % to carrying it out \
    (evidence, signing, JSON), 26 % to the seal after the result, 17 % to `echo` itself, 9 % to the log's writer, 6 % to the supervisors that \
    start it, 8 % to the start, to git and to what is printed at the end. make only starts the program, and LangGraph writes one checkpoint for \
    twenty items in one process that starts nothing else.";

/// One way to carry out a graph.
enum Way {
    Norma(Until),
    Make,
    Peer(Peer),
}

/// Who takes part; where there is no way, why not.
struct Entrant {
    name: &'static str,
    way: std::result::Result<Way, String>,
    target: Target,
}

/// What a row is checked against.
#[derive(Clone, Copy)]
enum Target {
    /// Nothing.
    None,
    /// norma's own memory.
    Memory,
    /// norma's time for an item, by that of the row.
    Ratio(f64),
}

/// What came of a graph; an error says why nothing did.
type Measured = std::result::Result<Figures, String>;

/// Figures of one entrant on one graph.
struct Figures {
    engine: String,
    graph_s: Samples,
    item_ms: Samples,
    whole_s: Samples,
    peak: Held,
}

/// One round of it.
struct Round {
    graph_s: f64,
    item_ms: f64,
    whole_s: f64,
}

pub(crate) fn run(world: &World) -> Result<Section> {
    let mut entrants = entrants(world);
    let rounds = world.count(5, 1);
    let mut tables = Vec::new();
    for (name, graph) in [
        ("200 items, 10 levels of 20", Graph { levels: 10, width: 20 }),
        ("100 items in a line", Graph { levels: 100, width: 1 }),
    ] {
        tell(&format!("bench: batch, {name}, {rounds} rounds"));
        hold_to_levels(&mut entrants, graph);
        tables.push(compared(name, &entrants, &compare(world, &entrants, graph, rounds)));
    }
    tables.extend(own_tables(world)?);
    let about = format!(
        "An item starts `/bin/echo` of a fixed response, {JOBS} at a time, and starts when the whole level before it is \
         done; {rounds} rounds, each way once in every round, after one for the memory. Engines: \
         the time between asking for the graph and having its result, set-up not counted, as durable as each can be \
         (see `testing/bench/peers`); with start-up, all of the process with its server. norma: `norma batch` with \
         read-only items that are not confined, from the record of the run's start to the record of its end, which is what \
         whoever follows it is told; with start-up, all of the process. What comes after the result, the bundle with its \
         manifest and its seal, has a row of its own: all of the process, less a batch of one item. LangGraph keeps its \
         checkpoint a level at a time, and results within one on the side. make: all of the process; its stamp files \
         wait for no disk. Peak: the most that all processes of a way held together, without `echo`, looked at every 5 ms, and in \
         brackets the most of it that is in no file; a page that several processes share counts once. A full item is confined in a workspace, makes a file, and goes \
         through every gate to a receipt, on one baseline and one at a time, less a batch of one; its floor starts \
         the same shell confined, appends 361 bytes and calls fsync 6 times, and writes blob, tree and commit. {WHY}"
    );
    Ok(Section { title: "Batches", about, tables })
}

fn entrants(world: &World) -> Vec<Entrant> {
    let norma = |until| own::missing(world).map_or(Ok(Way::Norma(until)), Err);
    let make = Command::new("make").arg("--version").output();
    let make = make.map(|_| Way::Make).map_err(|error| not_obtainable(&error));
    let engines = RECIPES.iter().map(|recipe| {
        let peer = recipe.obtain(world).map_err(|error| not_obtainable(&error));
        Entrant { name: recipe.name, way: peer.map(Way::Peer), target: Target::Ratio(TARGET_PEER) }
    });
    let own = Entrant { name: "norma", way: norma(Until::Result), target: Target::Memory };
    let sealed = Entrant { name: "norma, until its bundle is sealed", way: norma(Until::Seal), target: Target::None };
    let make = Entrant { name: "make -j2", way: make, target: Target::Ratio(TARGET_MAKE) };
    [own, sealed].into_iter().chain(engines).chain([make]).collect()
}

/// LangGraph keeps one checkpoint for a level: twenty items share it, or one has it alone.
fn hold_to_levels(entrants: &mut [Entrant], graph: Graph) {
    let limit = if graph.width > 1 { TARGET_LEVELS } else { TARGET_PEER };
    for entrant in entrants.iter_mut().filter(|entrant| entrant.name == "LangGraph") {
        entrant.target = Target::Ratio(limit);
    }
}

fn not_obtainable(why: &dyn std::fmt::Display) -> String {
    format!("not obtainable here: {why}")
}

/// What norma does beyond peers, as far as it can be measured here.
fn own_tables(world: &World) -> Result<Vec<Table>> {
    if let Some(why) = own::missing(world) {
        return Ok(vec![not_measured(why)]);
    }
    if let Some(why) = confine::refusal(world) {
        return Ok(vec![not_measured(format!("this machine cannot confine ({why})"))]);
    }
    tell("bench: batch, full items");
    item::run(world)
}

/// Whether a large batch is dearer than a small one.
pub(crate) fn large(world: &World) -> Result<Section> {
    let kinds: &[Kind] =
        if confine::refusal(world).is_some() { &[Kind::ReadOnly] } else { &[Kind::ReadOnly, Kind::Full] };
    let about = "The same items in batches of three sizes, interleaved, each batch on a repository of its own and less a batch of \
                 one. The memory is that of all processes together, as above; what is held for each item is its place in \
                 the run: its terms, its state and what it came to."
        .to_owned();
    Ok(Section { title: "Large batches", about, tables: vec![many::run(world, kinds)?] })
}

fn not_measured(why: String) -> Table {
    let mut table = Table::new(&["full items and large batches"]);
    table.row(vec![format!("not measured: {why}")]);
    table
}

fn compare(world: &World, entrants: &[Entrant], graph: Graph, rounds: u32) -> Vec<Measured> {
    let first = |entrant: &Entrant| {
        let way = entrant.way.as_ref().map_err(String::clone)?;
        way.memory(world, graph).map_err(|error| format!("did not work: {error}"))
    };
    let mut measured: Vec<Measured> = entrants.iter().map(first).collect();
    for _ in 0..rounds {
        // Interleaved, so that what else the machine does hits all alike.
        for (entrant, measured) in entrants.iter().zip(&mut measured) {
            let (Ok(way), Ok(figures)) = (&entrant.way, &mut *measured) else { continue };
            match way.time(world, graph) {
                Ok(round) => figures.push(&round),
                Err(error) => *measured = Err(format!("did not work: {error}")),
            }
        }
    }
    measured
}

impl Figures {
    fn push(&mut self, round: &Round) {
        self.graph_s.push(round.graph_s);
        self.item_ms.push(round.item_ms);
        self.whole_s.push(round.whole_s);
    }
}

impl Way {
    /// The round for the memory, which also warms up.
    fn memory(&self, world: &World, graph: Graph) -> Result<Figures> {
        let (engine, peak) = match self {
            Way::Norma(_) => (String::new(), own::peak(world, Kind::ReadOnly, graph, JOBS)?),
            Way::Make => (String::new(), program::peak(&mut make(world, graph)?)?.1),
            Way::Peer(peer) => {
                let dir = empty_dir(world)?;
                let (ended, peak) = program::peak(&mut peer.command(world, graph, JOBS, &dir))?;
                (format!(" ({})", peer.engine(&peer::told(&ended)?)), peak)
            }
        };
        let samples = Samples::default;
        Ok(Figures { engine, graph_s: samples(), item_ms: samples(), whole_s: samples(), peak })
    }

    fn time(&self, world: &World, graph: Graph) -> Result<Round> {
        let (graph_s, whole_s) = match self {
            Way::Norma(until) => {
                let timed = own::time(world, Kind::ReadOnly, graph, JOBS, *until)?;
                return Ok(Round { graph_s: timed.graph, item_ms: timed.item_ms, whole_s: timed.whole });
            }
            Way::Make => {
                let seconds = program::time(&mut make(world, graph)?)?.seconds;
                (seconds, seconds)
            }
            Way::Peer(peer) => {
                let dir = empty_dir(world)?;
                let ended = program::time(&mut peer.command(world, graph, JOBS, &dir))?;
                (peer::told(&ended)?.seconds, ended.seconds)
            }
        };
        Ok(Round { graph_s, item_ms: graph_s * 1000.0 / f64::from(graph.items()), whole_s })
    }
}

fn make(world: &World, graph: Graph) -> Result<Command> {
    let dir = empty_dir(world)?;
    std::fs::write(dir.join("Makefile"), graph.makefile())?;
    let mut command = world.command("make", &dir);
    command.arg(format!("-j{JOBS}"));
    Ok(command)
}

/// What the one before left to be written is not charged to the next.
fn empty_dir(world: &World) -> Result<PathBuf> {
    let dir = world.dir.join(world.fresh_name("peer"));
    std::fs::create_dir(&dir)?;
    rustix::fs::sync();
    Ok(dir)
}

fn compared(name: &'static str, entrants: &[Entrant], measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        name,
        "graph s",
        "ms per item",
        "with start-up s",
        "peak MB (anonymous)",
        "norma ÷ this",
        "target",
        "",
    ]);
    let own = measured.first().and_then(|own| own.as_ref().ok()).map(|own| own.item_ms.median());
    for (entrant, measured) in entrants.iter().zip(measured) {
        table.row(match measured {
            Ok(figures) => row(entrant, figures, own),
            Err(why) => {
                let mut cells = vec!["–".to_owned(); table.header.len()];
                (cells[0], cells[1]) = (entrant.name.to_owned(), why.clone());
                cells
            }
        });
    }
    table
}

fn row(entrant: &Entrant, figures: &Figures, own: Option<f64>) -> Vec<String> {
    let ratio = own.map(|own| own / figures.item_ms.median());
    let (target, verdict) = match entrant.target {
        Target::None => ("–".to_owned(), None),
        Target::Memory => {
            let Held { all_mb, anonymous_mb } = figures.peak;
            let worse = (all_mb / TARGET_MB).max(anonymous_mb / TARGET_ANONYMOUS_MB);
            (format!("≤ {TARGET_MB} MB (≤ {TARGET_ANONYMOUS_MB})"), Some(at_most(worse, 1.0)))
        }
        Target::Ratio(limit) => (format!("norma ≤ {limit} ×"), ratio.map(|ratio| at_most(ratio, limit))),
    };
    vec![
        format!("{}{}", entrant.name, figures.engine),
        format!("{:.3}", figures.graph_s.median()),
        format!("{:.2}", figures.item_ms.median()),
        format!("{:.2}", figures.whole_s.median()),
        figures.peak.to_string(),
        ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
        target,
        verdict.unwrap_or_else(|| "–".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(item_ms: f64, all_mb: f64) -> Measured {
        let mut figures = Figures {
            engine: String::new(),
            graph_s: Samples::default(),
            item_ms: Samples::default(),
            whole_s: Samples::default(),
            peak: Held { all_mb, anonymous_mb: 1.0 },
        };
        figures.push(&Round { graph_s: 1.0, item_ms, whole_s: 2.0 });
        Ok(figures)
    }

    fn entrant(name: &'static str, target: Target) -> Entrant {
        Entrant { name, way: Ok(Way::Make), target }
    }

    fn verdicts(measured: &[Measured]) -> Vec<String> {
        let entrants = [
            entrant("norma", Target::Memory),
            entrant("peer", Target::Ratio(TARGET_PEER)),
            entrant("make", Target::Ratio(TARGET_MAKE)),
        ];
        let table = compared("a graph", &entrants, measured);
        table.rows.into_iter().map(|mut row| row.pop().unwrap_or_default()).collect()
    }

    #[test]
    fn norma_is_held_to_its_memory_to_every_peer_and_to_twice_make() {
        let slow = [figures(5.0, TARGET_MB + 1.0), figures(4.0, 9.0), figures(2.6, 9.0)];
        assert_eq!(verdicts(&slow), ["falls short", "falls short", "holds"]);
        let fast = [figures(3.0, TARGET_MB - 1.0), figures(4.0, 90.0), figures(1.4, 9.0)];
        assert_eq!(verdicts(&fast), ["holds", "holds", "falls short"]);
    }

    #[test]
    fn who_did_not_take_part_is_told_and_holds_nothing() {
        let measured = [Err("`norma batch` is not there".to_owned()), figures(4.0, 9.0), Err("gone".to_owned())];
        assert_eq!(verdicts(&measured), ["–", "–", "–"]);
    }
}
