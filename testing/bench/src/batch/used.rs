//! The same graph on a part of the disk where many files have just been deleted. ext4 without a journal steps over the numbers
//! of such files whenever one is made, so that whoever makes many files pays; who only writes a database does not.

use super::graph::Graph;
use super::own::Until;
use super::{Entrant, TARGET_PEER, Target, Way, entrants};
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};

const GRAPH: Graph = Graph { levels: 10, width: 20 };
const FILES: u32 = 100_000;
const TARGET_FRESH: f64 = 1.2;

/// Where the files were, and where the batches are that come after them.
const USED: &str = "used/";

pub(crate) fn run(world: &World) -> Result<Section> {
    let (files, rounds) = (world.count(FILES, 2000), world.count(3, 1));
    // One that keeps no item durably is no measure here.
    let keeps = |entrant: &Entrant| matches!(entrant.way, Ok(Way::Norma(Until::Seal) | Way::Peer(_)));
    let entrants: Vec<Entrant> = entrants(world).into_iter().filter(keeps).collect();
    let mut measured = vec![[Samples::default(), Samples::default()]; entrants.len()];
    std::fs::create_dir(world.dir.join(USED))?;
    for round in 0..rounds {
        tell(&format!("bench: deletions, round {} of {rounds}", round + 1));
        world.name_below("");
        for (entrant, [fresh, _]) in entrants.iter().zip(&mut measured) {
            fresh.push(item_ms(world, entrant)?);
        }
        world.name_below(USED);
        delete(world, files)?;
        for (entrant, [_, used]) in entrants.iter().zip(&mut measured) {
            used.push(item_ms(world, entrant)?);
        }
    }
    world.name_below("");
    let about = format!(
        "200 items as above, norma until its bundle is sealed, {rounds} rounds: in directories of their own in fresh parts of the disk, and beside {files} files that \
         were written, synced and deleted just before. LangGraph keeps a level at a time and is not held against norma here."
    );
    Ok(Section { title: "After deletions", about, tables: vec![table(&entrants, &measured)] })
}

fn item_ms(world: &World, entrant: &Entrant) -> Result<f64> {
    let way = entrant.way.as_ref().map_err(String::clone)?;
    Ok(way.time(world, GRAPH)?.item_ms)
}

fn delete(world: &World, files: u32) -> Result<()> {
    let dir = world.repository(&world.fresh_name("deleted"), files)?;
    rustix::fs::sync();
    std::fs::remove_dir_all(dir)?;
    rustix::fs::sync();
    Ok(())
}

fn table(entrants: &[Entrant], measured: &[[Samples; 2]]) -> Table {
    let mut table = Table::new(&[
        "200 items",
        "fresh: ms per item",
        "after deletions",
        "ratio",
        "norma ÷ this, after deletions",
        "target",
        "",
    ]);
    let own = measured.first().map_or(0.0, |[_, used]| used.median());
    for (entrant, [fresh, used]) in entrants.iter().zip(measured) {
        let (ratio, against) = (used.median() / fresh.median(), own / used.median());
        let (target, verdict) = match entrant.target {
            Target::None | Target::Memory => (format!("≤ {TARGET_FRESH} × fresh"), at_most(ratio, TARGET_FRESH)),
            Target::Ratio(_) if entrant.name == "LangGraph" => ("–".to_owned(), "–".to_owned()),
            Target::Ratio(_) => (format!("norma ≤ {TARGET_PEER} ×"), at_most(against, TARGET_PEER)),
        };
        table.row(vec![
            entrant.name.to_owned(),
            format!("{:.2}", fresh.median()),
            format!("{:.2}", used.median()),
            format!("{ratio:.2}"),
            format!("{against:.2}"),
            target,
            verdict,
        ]);
    }
    table
}
