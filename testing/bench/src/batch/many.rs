//! Whether a large batch is dearer than a small one: for each item, and in memory.

use super::JOBS;
use super::graph::Graph;
use super::own::{self, Kind, Until};
use crate::Result;
use crate::page::{Table, at_most};
use crate::sample::Samples;
use crate::world::World;

/// Items of a level.
const WIDTH: u32 = 20;

/// What a thousand items may hold.
const TARGET_MB: f64 = 52.0;
const TARGET_GROWTH: f64 = 1.2;

/// Batches of both sizes, of each of these kinds.
pub(crate) fn run(world: &World, kinds: &[Kind]) -> Result<Table> {
    let mut table = Table::new(&["items", "ms per item", "× the smaller batch", "peak MB (anonymous)", "target", ""]);
    let small = sized(world.count(100, 40));
    for kind in kinds {
        let (name, largest) = match kind {
            Kind::ReadOnly => ("read-only, not confined", 10_000),
            Kind::Full => ("full", 2000),
        };
        let sizes: Vec<Graph> =
            [1000, largest].into_iter().map(|items| sized(world.count(items, items / 10))).collect();
        let (mut few, mut many) = (Samples::default(), vec![Samples::default(); sizes.len()]);
        for _ in 0..world.count(2, 1) {
            // Interleaved, so that what else the machine does hits all alike.
            // A small one is over before what else happens has evened out.
            for _ in 0..world.count(3, 1) {
                few.push(own::time(world, *kind, small, JOBS, Until::Seal)?.item_ms);
            }
            for (graph, samples) in sizes.iter().zip(&mut many) {
                samples.push(own::time(world, *kind, *graph, JOBS, Until::Seal)?.item_ms);
            }
        }
        let none = || "–".to_owned();
        let cost = format!("{:.2}", few.median());
        table.row(vec![format!("{} {name}", small.items()), cost, "1.00".into(), none(), none(), none()]);
        for ((graph, samples), most) in sizes.iter().zip(&many).zip([Some(TARGET_MB), None]) {
            let (growth, peak) = (samples.median() / few.median(), own::peak(world, *kind, *graph, JOBS)?);
            let memory = most.map_or_else(String::new, |most| format!(", ≤ {most} MB"));
            table.row(vec![
                format!("{} {name}", graph.items()),
                format!("{:.2}", samples.median()),
                format!("{growth:.2}"),
                peak.to_string(),
                format!("≤ {TARGET_GROWTH} ×{memory}"),
                at_most((growth / TARGET_GROWTH).max(most.map_or(0.0, |most| peak.all_mb / most)), 1.0),
            ]);
        }
    }
    Ok(table)
}

fn sized(items: u32) -> Graph {
    Graph { levels: items / WIDTH, width: WIDTH }
}
