//! Whether a large batch is dearer than a small one: for each item, and in memory.

use super::JOBS;
use super::graph::Graph;
use super::own::{self, Kind};
use crate::Result;
use crate::page::{Table, at_most};
use crate::sample::Samples;
use crate::world::World;

/// Items of a level.
const WIDTH: u32 = 20;

const TARGET_MB: f64 = 100.0;
const TARGET_GROWTH: f64 = 1.2;

/// Batches of both sizes, of each of these kinds.
pub(crate) fn run(world: &World, kinds: &[Kind]) -> Result<Table> {
    let mut table = Table::new(&["items", "ms per item", "× the smaller batch", "peak MB", "target", ""]);
    let (small, large) = (sized(world.count(100, 40)), sized(world.count(1000, 100)));
    for kind in kinds {
        let name = match kind {
            Kind::ReadOnly => "read-only, not confined",
            Kind::Full => "full",
        };
        let (mut few, mut many) = (Samples::default(), Samples::default());
        for _ in 0..world.count(3, 1) {
            // Interleaved, so that what else the machine does hits both alike.
            few.push(own::time(world, *kind, small, JOBS)?.item_ms);
            many.push(own::time(world, *kind, large, JOBS)?.item_ms);
        }
        let (growth, peak) = (many.median() / few.median(), own::peak(world, *kind, large, JOBS)?);
        let none = || "–".to_owned();
        let cost = format!("{:.2}", few.median());
        table.row(vec![format!("{} {name}", small.items()), cost, "1.00".into(), none(), none(), none()]);
        table.row(vec![
            format!("{} {name}", large.items()),
            format!("{:.2}", many.median()),
            format!("{growth:.2}"),
            format!("{peak:.1}"),
            format!("≤ {TARGET_GROWTH} ×, ≤ {TARGET_MB} MB"),
            at_most((growth / TARGET_GROWTH).max(peak / TARGET_MB), 1.0),
        ]);
    }
    Ok(table)
}

fn sized(items: u32) -> Graph {
    Graph { levels: items / WIDTH, width: WIDTH }
}
