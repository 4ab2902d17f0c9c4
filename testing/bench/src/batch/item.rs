//! One item with everything norma does for it (confined, in a workspace, through every gate, as git objects, with a
//! receipt) beside the least that anybody would pay for the same: start the program confined, write the objects,
//! wait for the disk six times.

use super::graph::Graph;
use super::own::{self, Kind, Ready, Until, script};
use crate::Result;
use crate::barriers;
use crate::confine::{self, command};
use crate::floor::Appender;
use crate::page::{Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use runner::git::{CommitSpec, Entry, Head, MODE_FILE, Objects};
use sandbox::{End, Policy, Sandbox};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// How many barriers the floor has.
const BARRIERS: u32 = 6;

/// Items of a batch whose time is taken, one after the other on one baseline, and of the two that are counted.
const ITEMS: u32 = 20;
const FEW: u32 = 2;
const MANY: u32 = 12;

const TARGET_FLOOR: f64 = 2.0;

/// What the floor is measured with.
struct Floor {
    sandbox: Sandbox,
    policy: Policy,
    appender: Appender,
    objects: Objects,
    head: Head,
    spawn: Samples,
    barriers: Samples,
    written: Samples,
    sum: Samples,
}

/// The item beside its floor.
pub(crate) fn run(world: &World) -> Result<Vec<Table>> {
    let mut floor = Floor::new(world)?;
    let mut items = Samples::default();
    for round in 0..world.count(7, 2) {
        for number in 0..ITEMS {
            floor.measure(round * ITEMS + number)?;
        }
        items.push(own::time(world, Kind::Full, one_level(ITEMS), 1, Until::Seal)?.item_ms);
    }
    Ok(vec![beside(&floor, &items), counted(world)?])
}

fn one_level(width: u32) -> Graph {
    Graph { levels: 1, width }
}

fn beside(floor: &Floor, items: &Samples) -> Table {
    let mut table = Table::new(&[
        "floor: confined spawn ms",
        "6 fsyncs ms",
        "git objects ms",
        "sum ms",
        "full item ms",
        "p90 ms",
        "× floor",
        "target",
        "",
    ]);
    let ratio = items.median() / floor.sum.median();
    let ms = |value: f64| format!("{value:.2}");
    table.row(vec![
        ms(floor.spawn.median()),
        ms(floor.barriers.median()),
        ms(floor.written.median()),
        ms(floor.sum.median()),
        ms(items.median()),
        ms(items.quantile(0.9)),
        format!("{ratio:.2}"),
        format!("≤ {TARGET_FLOOR} ×"),
        at_most(ratio, TARGET_FLOOR),
    ]);
    table
}

fn counted(world: &World) -> Result<Table> {
    let mut table = Table::new(&["barriers per full item (fsync, fdatasync)", "number"]);
    if !barriers::has_strace() {
        table.row(vec!["not counted: no strace".into(), "–".into()]);
        return Ok(table);
    }
    let count = |items| {
        let ready = Ready::new(world, Kind::Full, one_level(items), 1)?;
        let args: Vec<_> = ready.args.iter().map(OsString::as_os_str).collect();
        barriers::count(world, &ready.dir, &args, 0)
    };
    barriers::rows(&mut table, &count(FEW)?, &count(MANY)?, MANY - FEW);
    Ok(table)
}

impl Floor {
    fn new(world: &World) -> Result<Floor> {
        let user = world.discover(&world.repository("batch-floor", 100)?)?;
        let objects = Objects::open_or_create(&world.dir.join("batch-floor-git"), &user)?;
        let samples = Samples::default;
        Ok(Floor {
            sandbox: confine::sandbox(&world.norma),
            policy: confine::policy(&world.norma, &world.dir)?,
            appender: Appender::create(&world.dir.join("batch-floor-log"))?,
            head: user.head()?,
            objects,
            spawn: samples(),
            barriers: samples(),
            written: samples(),
            sum: samples(),
        })
    }

    fn measure(&mut self, number: u32) -> Result<()> {
        let started = Instant::now();
        let program = command("/bin/sh", &["-c", &script("made.txt")]);
        let prepared = self.sandbox.prepare(&self.policy, &program, &confine::nowhere()?)?;
        match prepared.start()?.finish()?.end {
            End::Exited(0) => {}
            end => return Err(format!("the floor's program ended with {end:?}").into()),
        }
        let spawn = started.elapsed();
        for _ in 0..BARRIERS {
            self.appender.append()?;
        }
        let barriers = started.elapsed() - spawn;
        self.write(number)?;
        let sum = started.elapsed();
        self.push(spawn, barriers, sum);
        Ok(())
    }

    fn push(&mut self, spawn: Duration, barriers: Duration, sum: Duration) {
        self.spawn.push_ms(spawn);
        self.barriers.push_ms(barriers);
        self.written.push_ms(sum - spawn - barriers);
        self.sum.push_ms(sum);
    }

    /// A blob, a tree and a commit that were never there.
    fn write(&self, number: u32) -> Result<()> {
        let id = self.objects.write_blob(format!("made {number}\n").as_bytes())?;
        let entry = Entry { mode: MODE_FILE, id };
        let tree = self.objects.edit(self.head.tree, &[(format!("made-{number}.txt").into_bytes(), Some(entry))])?;
        let author = runner::git::Identity { name: "bench".into(), email: "bench@localhost".into() };
        let parents = vec![self.head.commit];
        self.objects.commit(&CommitSpec { tree, parents, author, seconds: 0, message: "made".into() })?;
        Ok(())
    }
}
