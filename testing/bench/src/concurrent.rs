//! Many runs under one owner: what ten runs at once cost beside the same runs one after another, and what an owner takes
//! whose runs all wait for a person.

use crate::barriers::must;
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, confine, tell};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How many runs are under way at once.
const RUNS: u32 = 10;

/// Items of each.
const ITEMS: u32 = 4;

/// How long an idle owner is looked at.
const IDLE: Duration = Duration::from_secs(10);

const TARGET_CPU: f64 = 1.2;
const TARGET_TICKS: f64 = 0.0;
const TARGET_MB: f64 = 40.0;

/// Finds out which item it is for. One that is called `hold` waits until somebody writes into a pipe.
const WORKER: &str = r#"id=$(sed -n 's/.*"contract":{"id":"\([^"]*\)".*/\1/p')
test "$id" = hold && cat "$0.hold" >/dev/null
echo "$id" > "$id.txt"
echo '{"version":1,"status":"ok","summary":"did it"}'
"#;

pub(crate) fn run(world: &World) -> Result<Section> {
    let about = format!(
        "{RUNS} runs of {ITEMS} items each, every item a new file that lands on the same branch: started one after \
         another, each by a norma of its own, and started at once, carried out by the norma that came first while the \
         others watch. CPU is that of all processes together, agents and watchers included. Then an owner whose runs \
         wait for a yes, beside one run whose agent waits as well: its own CPU time in {} s (a tick is 10 ms), and its \
         memory.",
        IDLE.as_secs()
    );
    Ok(Section { title: "Many runs under one owner", about, tables: vec![at_once(world)?, idle(world)?] })
}

fn at_once(world: &World) -> Result<Table> {
    let (mut apart, mut together) = (Samples::default(), Samples::default());
    let (mut apart_s, mut together_s) = (Samples::default(), Samples::default());
    for _ in 0..world.count(5, 1) {
        for (is_together, cpu, wall) in [(false, &mut apart, &mut apart_s), (true, &mut together, &mut together_s)] {
            let place = Place::new(world)?;
            let (before, started) = (children_cpu()?, Instant::now());
            let mut running = Vec::new();
            for number in 0..RUNS {
                let mut child = place.start(world, &place.items(number)?)?;
                if is_together { running.push(child) } else { ended(&mut child)? }
            }
            running.iter_mut().try_for_each(ended)?;
            wall.push(started.elapsed().as_secs_f64());
            cpu.push(children_cpu()? - before);
        }
    }
    let mut table = Table::new(&["ten runs", "s", "CPU s", "CPU, by that of one after another", "target", ""]);
    let ratio = together.median() / apart.median();
    for (name, wall, cpu, ratio) in
        [("one after another", &apart_s, &apart, None), ("at once", &together_s, &together, Some(ratio))]
    {
        table.row(vec![
            name.into(),
            format!("{:.2}", wall.median()),
            format!("{:.2}", cpu.median()),
            ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}")),
            ratio.map_or_else(|| "–".into(), |_| format!("≤ {TARGET_CPU}")),
            ratio.map_or_else(|| "–".into(), |ratio| at_most(ratio, TARGET_CPU)),
        ]);
    }
    Ok(table)
}

fn idle(world: &World) -> Result<Table> {
    let runs = world.count(1000, 20);
    tell(&format!("bench: concurrent, an owner with {runs} runs that wait"));
    let place = Place::new(world)?;
    let hold = place.dir.join("worker.sh.hold");
    rustix::fs::mkfifoat(rustix::fs::CWD, &hold, 0o600.into())?;
    let mut owner = place.start(world, &place.write("hold", &[item("hold", &json!({}))])?)?;
    while !place.dir.join("repo/.norma/norma.sock").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // A yes is needed where a whole folder may change.
    let wide = item("wide", &json!({"allowed_paths": ["src"]}));
    for number in 0..runs {
        let mut wide = wide.clone();
        wide["description"] = format!("change much, {number}").into();
        must(&mut place.command(world, &place.write("wide", &[wide])?), 3)?;
    }
    let before = own_ticks(owner.id())?;
    std::thread::sleep(IDLE);
    let ticks = own_ticks(owner.id())? - before;
    let mb = resident_mb(owner.id())?;
    std::fs::write(&hold, "go")?;
    ended(&mut owner)?;
    let mut table = Table::new(&["runs that wait", "ticks in 10 s", "target", "", "MB", "target", ""]);
    table.row(vec![
        runs.to_string(),
        ticks.to_string(),
        format!("{TARGET_TICKS}"),
        at_most(ticks as f64, TARGET_TICKS),
        format!("{mb:.1}"),
        format!("≤ {TARGET_MB}"),
        at_most(mb, TARGET_MB),
    ]);
    Ok(table)
}

/// A repository of its own, with an agent.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(world: &World) -> Result<Place> {
        let dir = world.dir.join(world.fresh_name("concurrent"));
        std::fs::create_dir(&dir)?;
        let name = dir.strip_prefix(&world.dir)?.join("repo");
        let repo = world.repository(&name.to_string_lossy(), 100)?;
        let worker = dir.join("worker.sh");
        std::fs::write(&worker, WORKER)?;
        must(world.command(&world.norma, &repo).arg("init"), 0)?;
        let config = repo.join(".norma/config.json");
        let mut settings: Value = serde_json::from_slice(&std::fs::read(&config)?)?;
        settings["agents"] = json!({"worker": {"type": "exec", "cmd": ["/bin/sh", worker]}});
        let backend = if confine::refusal(world).is_none() { "native" } else { "none" };
        settings["sandbox"] = json!({"backend": backend, "read": [dir]});
        std::fs::write(&config, serde_json::to_vec(&settings)?)?;
        must(world.command(&world.norma, &repo).arg("trust"), 0)?;
        rustix::fs::sync();
        Ok(Place { dir })
    }

    fn items(&self, number: u32) -> Result<PathBuf> {
        let items: Vec<Value> = (0..ITEMS).map(|n| item(&format!("r{number}-{n}"), &json!({}))).collect();
        self.write(&format!("items-{number}"), &items)
    }

    fn write(&self, name: &str, items: &[Value]) -> Result<PathBuf> {
        let path = self.dir.join(name).with_extension("json");
        std::fs::write(&path, serde_json::to_vec(items)?)?;
        Ok(path)
    }

    fn command(&self, world: &World, items: &Path) -> std::process::Command {
        let mut command = world.command(&world.norma, &self.dir.join("repo"));
        command.arg("batch").arg(items);
        command
    }

    fn start(&self, world: &World, items: &Path) -> Result<Child> {
        Ok(self.command(world, items).stdout(Stdio::null()).spawn()?)
    }
}

fn item(id: &str, more: &Value) -> Value {
    let mut item = json!({"id": id, "agent_id": "agent-1", "description": format!("do {id}"), "dependencies": []});
    for (name, value) in more.as_object().into_iter().flatten() {
        item[name] = value.clone();
    }
    item
}

fn ended(child: &mut Child) -> Result<()> {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("a run ended with {status}").into()) }
}

/// Seconds of CPU of all processes that this one has waited for, and that they have.
fn children_cpu() -> Result<f64> {
    let ticks: u64 = fields("self", 13, 2)?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Ticks of CPU of a process, without its children.
fn own_ticks(pid: u32) -> Result<u64> {
    fields(&pid.to_string(), 11, 2)
}

/// The sum of some fields of `/proc/PID/stat`, counted from the one after the name.
fn fields(pid: &str, first: usize, count: usize) -> Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit_once(')').ok_or("a process has no state")?.1;
    let numbers = rest.split_whitespace().skip(first).take(count).map(str::parse::<u64>);
    Ok(numbers.sum::<std::result::Result<u64, _>>()?)
}

fn resident_mb(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("a process has no memory")?;
    let kb: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kb / 1024.0)
}
