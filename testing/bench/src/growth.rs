//! What must not grow with the repository, and what a large file may cost: processor time of a run on few files and on many,
//! memory and bundle of changes of large files, and the files that an item creates.

use crate::barriers::{has_strace, must};
use crate::batch::own::{Kind, Ready, item_ends};
use crate::batch::{graph::Graph, program};
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::step::RESPONSE;
use crate::world::World;
use crate::{Result, tell};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const TARGET_GROWTH: f64 = 1.3;
const TARGET_MB: f64 = 100.0;
const TARGET_FILES: [f64; 2] = [4.0, 6.0];

/// Files of the repositories that are compared.
const WARM: (u32, u32) = (165, 38_000);
const READ_ONLY: (u32, u32) = (100, 100_000);

/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;

pub(crate) fn run(world: &World) -> Result<Section> {
    tell("bench: growth, processor time");
    let mut tables = vec![times(world)?];
    tell("bench: growth, large files");
    tables.push(large(world)?);
    tables.push(created(world)?);
    let about = "Processor time is that of norma and all it starts. A warm run is `norma batch` with one item that is confined and \
                 makes a file, on a baseline that has a layer. A read-only item is not confined; its time is on the clock, from \
                 the end of the first to the end of the last of 310, one at a time: the first has the files checked out. Large files: an item that is confined makes, edits or \
                 removes one; memory is the most that all processes of norma held together, the bundle what is below `runs/`, each \
                 inode once. Files created are counted with strace until the run ends and is sealed. What a warm run on many files \
                 takes more is mostly a look at every file of the user's own checkout, to tell what of it is not committed; git is \
                 asked only about what looks changed."
        .to_owned();
    Ok(Section { title: "Growth", about, tables })
}

fn times(world: &World) -> Result<Table> {
    let mut table = Table::new(&["time", "few files: ms", "many files: ms", "ratio", "target", ""]);
    let mut row = |name: String, few: f64, many: f64| {
        let ratio = many / few;
        let cells = [format!("{few:.2}"), format!("{many:.2}"), format!("{ratio:.2}"), format!("≤ {TARGET_GROWTH} ×")];
        table.row([name].into_iter().chain(cells).chain([at_most(ratio, TARGET_GROWTH)]).collect());
    };
    let sizes = (WARM.0, world.count(WARM.1, 2000));
    let places = [warm_place(world, sizes.0)?, warm_place(world, sizes.1)?];
    let mut samples = [Samples::default(), Samples::default()];
    for _ in 0..world.count(15, 2) {
        for (place, samples) in places.iter().zip(&mut samples) {
            samples.push(cpu_ms(|| warm(world, place))?);
        }
    }
    row(
        format!("processor time of a warm run on {} and on {} files", sizes.0, sizes.1),
        samples[0].median(),
        samples[1].median(),
    );
    let sizes = (READ_ONLY.0, world.count(READ_ONLY.1, 2000));
    let mut samples = [Samples::default(), Samples::default()];
    for _ in 0..world.count(3, 1) {
        for (files, samples) in [sizes.0, sizes.1].into_iter().zip(&mut samples) {
            samples.push(read_only_item_ms(world, files)?);
        }
    }
    row(
        format!("one more read-only item, not confined, on {} and on {} files", sizes.0, sizes.1),
        samples[0].median(),
        samples[1].median(),
    );
    Ok(table)
}

/// Processor time that processes took which were started and have ended in the meantime.
fn cpu_ms(act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = children_ticks()?;
    act()?;
    Ok((children_ticks()? - before) * 1000.0 / TICKS)
}

fn children_ticks() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // Fields 16 and 17, of which the first two are before the parenthesis.
    let sum: f64 = fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(sum)
}

/// A repository on which one run was carried out already.
fn warm_place(world: &World, files: u32) -> Result<PathBuf> {
    let dir = world.repository(&world.fresh_name("warm"), files)?;
    let script = format!("date +%N > made-$(date +%N); echo '{RESPONSE}'");
    prepare(world, &dir, &script, &json!({}))?;
    for _ in 0..2 {
        warm(world, &dir)?;
    }
    rustix::fs::sync();
    Ok(dir)
}

fn warm(world: &World, dir: &Path) -> Result<()> {
    let mut command = world.command(&world.norma, dir);
    program::time(command.args(["batch", "--json"]).arg(dir.with_extension("items"))).map(drop)
}

/// Writes configuration and one item, and trusts them.
fn prepare(world: &World, dir: &Path, script: &str, limits: &Value) -> Result<()> {
    must(world.command(&world.norma, dir).arg("init"), 0)?;
    let path = dir.join(".norma/config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    config["agents"] = json!({"agent-1": {"type": "exec", "cmd": ["/bin/sh", "-c", script]}});
    config["limits"] = limits.clone();
    std::fs::write(&path, serde_json::to_vec(&config)?)?;
    must(world.command(&world.norma, dir).arg("trust"), 0)?;
    let item = json!([{"id": "one", "agent_id": "agent-1", "description": "be quick", "dependencies": []}]);
    std::fs::write(dir.with_extension("items"), serde_json::to_vec(&item)?)?;
    Ok(())
}

/// What one more read-only item takes. The first has the files checked out, which takes as long as hundreds of items and
/// differs by tens of them from one batch to the next.
fn read_only_item_ms(world: &World, files: u32) -> Result<f64> {
    let ready = Ready::on(world, Kind::ReadOnly, Graph { levels: 1, width: 310 }, 1, files)?;
    program::time(&mut ready.command(world))?;
    match item_ends(&ready.dir, |_| true)?.as_slice() {
        [first, others @ .., last] => Ok((last - first) as f64 / (others.len() + 1) as f64),
        _ => Err("the items have not ended".into()),
    }
}

fn large(world: &World) -> Result<Table> {
    let mut table = Table::new(&["change of a large file", "peak MB", "bundle MB", "target", ""]);
    let (text, removed) = (world.count(64_000_000, 20_000_000), world.count(300_000_000, 20_000_000));
    let limits = json!({"change_mb": 256});
    let lines = |bytes: u32| format!("seq 1 40000000 | head -c {bytes} > large.txt");
    for (name, before, script) in [
        (format!("a new text of {text} bytes"), None, lines(text)),
        (format!("a line of a text of {text} bytes edited"), Some(text), "sed -i 1000s/.*/x/ large.txt".to_owned()),
        (format!("a text of {removed} bytes removed"), Some(removed), "rm large.txt".to_owned()),
    ] {
        let dir = world.repository(&world.fresh_name("large"), 10)?;
        if let Some(bytes) = before {
            must(world.command("sh", &dir).args(["-c", &lines(bytes)]), 0)?;
            world.git(&dir, &["add", "."], b"")?;
            let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
            world.git(&dir, &[&who[..], &["commit", "--quiet", "-m", "large"]].concat(), b"")?;
        }
        prepare(world, &dir, &format!("{script}; echo '{RESPONSE}'"), &limits)?;
        let mut command = world.command(&world.norma, &dir);
        let (_, held) = program::peak(command.args(["batch", "--json"]).arg(dir.with_extension("items")))?;
        let bundle = bytes_below(&dir.join(".norma/runs"), &mut BTreeSet::new())? as f64 / 1e6;
        let target = format!("≤ {TARGET_MB} MB");
        table.row(vec![
            name,
            format!("{:.1}", held.all_mb),
            format!("{bundle:.1}"),
            target,
            at_most(held.all_mb, TARGET_MB),
        ]);
    }
    Ok(table)
}

fn bytes_below(dir: &Path, seen: &mut BTreeSet<u64>) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            bytes += bytes_below(&entry.path(), seen)?;
        } else if seen.insert(found.ino()) {
            bytes += found.len();
        }
    }
    Ok(bytes)
}

fn created(world: &World) -> Result<Table> {
    let mut table = Table::new(&["files and directories created per item, before the seal", "number", "target", ""]);
    if !has_strace() {
        table.row(vec!["not counted: no strace".into(), "–".into(), "–".into(), "–".into()]);
        return Ok(table);
    }
    let flat = |width: u32| Graph { levels: 1, width };
    let line = |levels: u32| Graph { levels, width: 1 };
    for (name, kind, few, many, target) in [
        ("read-only, nothing builds on it", Kind::ReadOnly, flat(5), flat(25), TARGET_FILES[0]),
        ("read-only, another item builds on it", Kind::ReadOnly, line(5), line(25), TARGET_FILES[0]),
        ("full, nothing builds on it", Kind::Full, flat(5), flat(25), TARGET_FILES[1]),
    ] {
        let further = f64::from(many.items() - few.items());
        let each = (creations(world, kind, many)? - creations(world, kind, few)?) / further;
        let target_told = format!("≤ {target}");
        table.row(vec![name.into(), format!("{each:.1}"), target_told, at_most(each, target)]);
    }
    Ok(table)
}

/// How many files and directories norma creates in a batch until it ends.
fn creations(world: &World, kind: Kind, graph: Graph) -> Result<f64> {
    let ready = Ready::on(world, kind, graph, 1, 100)?;
    let trace = tempfile::NamedTempFile::new_in(&world.dir)?;
    let mut command = world.command("strace", &ready.dir);
    let calls = "trace=open,openat,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,link,linkat,rename,renameat,renameat2";
    command.args(["-f", "-e", calls, "-o"]).arg(trace.path()).arg(&world.norma).args(&ready.args);
    program::time(&mut command)?;
    let text = std::fs::read_to_string(trace.path())?;
    let lines = text.lines().take_while(|line| !line.contains("diff_name_only.txt"));
    let creates = |line: &&str| {
        let makes =
            line.contains("O_CREAT") || ["mkdir", "mknod", "symlink", "link"].iter().any(|it| line.contains(it));
        makes && !line.contains(" = -1 ") && line.contains(".norma/")
    };
    Ok(lines.filter(creates).count() as f64)
}
