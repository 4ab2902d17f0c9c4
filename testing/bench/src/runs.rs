//! A store with many finished runs: listing them, and starting an owner, which must not read sealed runs again.
//! The same commands on a store without runs stand beside, so that what is norma's start and git's is seen.

use crate::barriers::must;
use crate::log::open_run;
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use contract::{End, Fact, Reason, Status};
use runner::Trust;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use store::{Layout, Store};

/// Threads that make up runs: their commits go to the disk together.
const MAKERS: usize = 16;

const TARGET_MS: f64 = 5.0;
const TARGET_VERSION: f64 = 2.0;
const TARGET_MB: f64 = 50.0;

/// One store with its figures.
struct Place {
    name: String,
    dir: PathBuf,
    list: Samples,
    json: Samples,
    all: Samples,
    start: Samples,
}

pub(crate) fn run(world: &World) -> Result<Section> {
    let runs = u64::from(world.count(10_000, 1000));
    let mut empty = place(world, "empty", 0)?;
    let mut full = place(world, "full", runs)?;
    for _ in 0..world.count(15, 3) {
        for place in [&mut empty, &mut full] {
            place.measure(world)?;
        }
    }
    let about = format!(
        "{runs} sealed runs in the store, next to a store without any. Starting an owner is `norma task done 1`: it \
         takes the lock, recovers what is not sealed, and commits one fact. An ordinary repository is \
         found without starting git. Without `--all` the newest 30 are listed. `norma --version` beside \
         `/bin/true`, interleaved: the least that any command costs; most of the difference is the dynamic linker, which \
         relocates some 25,000 addresses before `main`."
    );
    let tables = vec![lists(world, &empty, &full)?, starts(world, &empty, &full)?, version(world)?];
    Ok(Section { title: "Many finished runs", about, tables })
}

fn lists(world: &World, empty: &Place, full: &Place) -> Result<Table> {
    let mut table = Table::new(&["command", "store", "ms", "p90 ms", "peak MB", "target", ""]);
    for place in [empty, full] {
        for (command, args, samples, target) in [
            ("norma runs", &["runs"][..], &place.list, Some(TARGET_MS)),
            ("norma runs --json", &["runs", "--json"], &place.json, Some(TARGET_MS)),
            ("norma runs --all --json", &["runs", "--all", "--json"], &place.all, None),
        ] {
            let memory = peak_mb(world, &world.norma, &place.dir, args)?;
            let within = target.is_none_or(|ms| samples.median() <= ms) && memory.is_none_or(|mb| mb <= TARGET_MB);
            let ms = target.map_or_else(String::new, |ms| format!("≤ {ms} ms, "));
            table.row(vec![
                format!("`{command}`"),
                place.name.clone(),
                format!("{:.1}", samples.median()),
                format!("{:.1}", samples.quantile(0.9)),
                memory.map_or_else(|| "not measured: no time(1)".into(), |mb| format!("{mb:.1}")),
                format!("{ms}≤ {TARGET_MB} MB"),
                if within { "holds".into() } else { "falls short".into() },
            ]);
        }
    }
    Ok(table)
}

fn starts(world: &World, empty: &Place, full: &Place) -> Result<Table> {
    let mut table = Table::new(&[
        "start of an owner",
        "ms",
        "p90 ms",
        "files opened",
        "of these below runs/",
        "stat calls",
        "target",
        "",
    ]);
    for place in [empty, full] {
        let calls = calls(world, &place.dir)?;
        let shown = |number: Option<u32>| number.map_or_else(|| "not counted: no strace".into(), |n| n.to_string());
        table.row(vec![
            place.name.clone(),
            format!("{:.1}", place.start.median()),
            format!("{:.1}", place.start.quantile(0.9)),
            shown(calls.as_ref().map(|calls| calls.opened)),
            shown(calls.as_ref().map(|calls| calls.opened_runs)),
            shown(calls.as_ref().map(|calls| calls.looked_at)),
            "no file of a sealed run is opened".into(),
            calls.map_or_else(|| "–".into(), |calls| at_most(f64::from(calls.opened_runs), 0.0)),
        ]);
    }
    Ok(table)
}

fn version(world: &World) -> Result<Table> {
    let mut table = Table::new(&["start of a program", "ms", "p90 ms", "× `true`", "target", ""]);
    let (mut least, mut own) = (Samples::default(), Samples::default());
    for _ in 0..world.count(300, 20) {
        for (program, args, samples) in
            [(Path::new("/bin/true"), &[][..], &mut least), (&world.norma, &["--version"], &mut own)]
        {
            let started = Instant::now();
            must(world.command(program, &world.dir).args(args), 0)?;
            samples.push_ms(started.elapsed());
        }
    }
    let ratio = own.median() / least.median();
    for (name, samples, ratio, target, verdict) in [
        ("`/bin/true`", &least, 1.0, "–".to_owned(), "–".to_owned()),
        ("`norma --version`", &own, ratio, format!("≤ {TARGET_VERSION} ×"), at_most(ratio, TARGET_VERSION)),
    ] {
        let figures = [samples.median(), samples.quantile(0.9), ratio].map(|figure| format!("{figure:.2}"));
        table.row([name.to_owned()].into_iter().chain(figures).chain([target, verdict]).collect());
    }
    Ok(table)
}

fn place(world: &World, name: &str, runs: u64) -> Result<Place> {
    let dir = world.repository(&format!("runs-{name}"), 1)?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    must(world.command(&world.norma, &dir).args(["task", "add", "a task"]), 0)?;
    if runs > 0 {
        tell(&format!("bench: runs, making {runs} finished runs"));
        make(world, &Layout::new(&dir, None), runs)?;
        rustix::fs::sync();
    }
    let name = if runs == 0 { "no runs".to_owned() } else { format!("{runs} runs") };
    let samples = Samples::default;
    Ok(Place { name, dir, list: samples(), json: samples(), all: samples(), start: samples() })
}

/// Made through the store itself: started, failed, sealed.
pub(crate) fn make(world: &World, layout: &Layout, runs: u64) -> Result<()> {
    let store = Store::open(layout)?;
    let keys = Trust::new(&world.dir.join("home/data/norma"), &layout.state).keys()?;
    let next = AtomicU64::new(0);
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= runs {
                return Ok(());
            }
            let mut log = open_run(&store, number)?;
            let end = End { reason: Some(Reason::AgentFailed), message: "step 001-plan failed".into() };
            store.append(&mut log, vec![Fact::ended(Status::Failed, end)], Vec::new())?;
            store::seal(&store, &log.name.run.slug(), &|said| keys.sign(said))?;
        }
    };
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..MAKERS).map(|_| scope.spawn(work)).collect();
        makers.into_iter().try_for_each(|maker| maker.join().unwrap_or_else(|_| Err("a maker panicked".into())))
    })
}

impl Place {
    fn measure(&mut self, world: &World) -> Result<()> {
        for (args, samples) in [
            (&["runs"][..], &mut self.list),
            (&["runs", "--json"], &mut self.json),
            (&["runs", "--all", "--json"], &mut self.all),
            (&["task", "done", "1"], &mut self.start),
        ] {
            let mut command = world.command(&world.norma, &self.dir);
            // A pipe that is read, as somebody would.
            command.args(args).stdout(Stdio::piped());
            let started = Instant::now();
            if !command.output()?.status.success() {
                return Err(format!("{command:?} failed").into());
            }
            samples.push_ms(started.elapsed());
        }
        Ok(())
    }
}

/// Peak memory, as `time` sees it; a parent's own memory would count in if this process asked.
pub(crate) fn peak_mb(world: &World, program: &Path, dir: &Path, args: &[&str]) -> Result<Option<f64>> {
    let time = Path::new("/usr/bin/time");
    if !time.exists() {
        return Ok(None);
    }
    let report = world.dir.join("peak");
    let mut command = world.command(time, dir);
    must(command.args(["-f", "%M", "-o"]).arg(&report).arg(program).args(args), 0)?;
    let kb: f64 = std::fs::read_to_string(&report)?.trim().parse()?;
    Ok(Some(kb / 1024.0))
}

/// What a start asks of the file system.
struct Calls {
    opened: u32,
    opened_runs: u32,
    looked_at: u32,
}

fn calls(world: &World, dir: &Path) -> Result<Option<Calls>> {
    if Command::new("strace").arg("-V").output().is_err() {
        return Ok(None);
    }
    let trace = world.dir.join("calls");
    let mut command = world.command("strace", dir);
    command.args(["-f", "-e", "trace=openat,openat2,open,statx,newfstatat,lstat,stat", "-o"]).arg(&trace);
    must(command.arg(&world.norma).args(["task", "done", "1"]), 0)?;
    let mut calls = Calls { opened: 0, opened_runs: 0, looked_at: 0 };
    for line in std::fs::read_to_string(&trace)?.lines() {
        if line.contains("open") {
            calls.opened += 1;
            calls.opened_runs += u32::from(line.contains("/.norma/runs/"));
        } else if line.contains("stat") {
            calls.looked_at += 1;
        }
    }
    Ok(Some(calls))
}
