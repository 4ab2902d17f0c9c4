//! Pipelines whose agents answer at once: what norma itself adds to the turns of a PM, a tech lead, workers and reviewers, beside
//! the same turns as a batch; and what a landing costs when many contracts go through the lane of one run.

use crate::barriers::must;
use crate::batch::own::item_ends;
use crate::page::{Section, Table, at_most};
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const TARGET_RATIO: f64 = 1.3;
const TARGET_GROWTH: f64 = 1.2;

/// Parts of the contract that is compared with a batch.
const PARTS: usize = 20;

/// A worker that makes the one file which it may change, by nothing but a shell.
const WORKER: &str = r#"f=$(tr ',' '\n' | grep -o -m1 'out/[0-9]*[.]txt') && mkdir -p out && echo done > "$f"
echo '{"version":1,"status":"ok","summary":"done"}'
"#;

pub(crate) fn run(world: &World) -> Result<Section> {
    let parts = world.count(200, 20) as usize;
    tell(&format!("bench: pipelines of {PARTS} and {parts} contracts"));
    let (mut pipelines, mut batches) = (Samples::default(), Samples::default());
    for _ in 0..world.count(9, 1) {
        let dir = prepared(world, PARTS)?;
        pipelines.push(seconds(world.command(&world.norma, &dir).args(["pipeline", "make the files", "--yes"]))?);
        let dir = prepared(world, PARTS)?;
        batches.push(seconds(world.command(&world.norma, &dir).args(["batch", "items.json"]))?);
    }
    let ratio = pipelines.median() / batches.median();
    let turns = 2 + 2 * PARTS;
    let mut table =
        Table::new(&["one PM, one tech lead, twenty workers, twenty reviews", "s", "p90 s", "× batch", "target", ""]);
    let row = |name: String, samples: &Samples| {
        vec![name, format!("{:.3}", samples.median()), format!("{:.3}", samples.quantile(0.9))]
    };
    let floor = ["1.00", "–", "–"].map(str::to_owned).to_vec();
    table.row([row(format!("floor: the same {turns} turns as a batch"), &batches), floor].concat());
    let held = vec![format!("{ratio:.2}"), format!("≤ {TARGET_RATIO} ×"), at_most(ratio, TARGET_RATIO)];
    table.row([row("the pipeline".to_owned(), &pipelines), held].concat());
    let about = format!(
        "Confined programs that answer at once, two at a time. The pipeline has its PM write a contract, its tech lead split it into {PARTS}, \
         its workers make a file each, its reviewers look at each, and runs a test for each and one for the whole; the batch has {PARTS} \
         items that make the same files under the same tests, and {} read-only items. All of the process is timed, on a fresh repository \
         each time, in turn. The lane: a plan of {parts} contracts; a landing is from the end of the one before to its own.",
        2 + PARTS
    );
    Ok(Section { title: "Pipelines", about, tables: vec![table, lane(world, parts)?] })
}

/// What each landing costs, early and late.
fn lane(world: &World, parts: usize) -> Result<Table> {
    let dir = prepared(world, parts)?;
    std::fs::write(dir.join("plan.json"), json!({"contracts": contracts(parts)}).to_string())?;
    must(world.command(&world.norma, &dir).args(["pipeline", "make the files", "--plan", "plan.json", "--yes"]), 0)?;
    let mut gaps = Samples::default();
    landings(&dir)?.windows(2).for_each(|pair| gaps.push((pair[1].saturating_sub(pair[0])) as f64));
    let (first, last) = gaps.quarters();
    let ratio = last.mean() / first.mean();
    let mut table = Table::new(&[
        "contracts through the lane",
        "first quarter ms",
        "last quarter ms",
        "last ÷ first",
        "target",
        "",
    ]);
    table.row(vec![
        parts.to_string(),
        format!("{:.1}", first.mean()),
        format!("{:.1}", last.mean()),
        format!("{ratio:.2}"),
        format!("≤ {TARGET_GROWTH} ×"),
        at_most(ratio, TARGET_GROWTH),
    ]);
    Ok(table)
}

/// When each change of the only run came onto its line, in milliseconds.
fn landings(dir: &Path) -> Result<Vec<u64>> {
    let times = item_ends(dir, |ended| ended["commit"].is_string())?;
    if times.len() < 8 { Err(format!("only {} changes landed", times.len()).into()) } else { Ok(times) }
}

/// A repository whose agents fill every role, and the items that are the same turns as a batch.
fn prepared(world: &World, parts: usize) -> Result<PathBuf> {
    let dir = world.repository(&world.fresh_name("pipeline"), 100)?;
    std::fs::create_dir(dir.join("agents"))?;
    let answer = |result: Value| json!({"version": 1, "status": "ok", "summary": "done", "result": result}).to_string();
    let whole = json!({"spec": "make the files", "allowed_paths": ["out"], "acceptance_tests": [test("test -d out")]});
    let verdict = json!({"verdict": "PASS", "summary": "fine", "findings": []});
    for (name, text) in [
        ("pm.sh", format!("echo '{}'\n", answer(whole))),
        ("tech_lead.sh", format!("echo '{}'\n", answer(json!({"contracts": contracts(parts)})))),
        ("worker.sh", WORKER.to_owned()),
        ("reviewer.sh", format!("echo '{}'\n", answer(verdict))),
    ] {
        std::fs::write(dir.join("agents").join(name), text)?;
    }
    world.git(&dir, &["add", "."], b"")?;
    world.git(
        &dir,
        &["-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "--quiet", "-m", "agents"],
        b"",
    )?;
    must(world.command(&world.norma, &dir).arg("init"), 0)?;
    let agent = |name: &str| json!({"type": "exec", "cmd": ["/bin/sh", format!("agents/{name}.sh")]});
    let config = json!({
        "agents": {"pm": agent("pm"), "tech_lead": agent("tech_lead"), "worker": agent("worker"), "reviewer": agent("reviewer")},
        "budgets": {"max_iterations": 3},
    });
    std::fs::write(dir.join(".norma/config.json"), config.to_string())?;
    must(world.command(&world.norma, &dir).arg("trust"), 0)?;
    std::fs::write(dir.join("items.json"), items(parts).to_string())?;
    rustix::fs::sync();
    Ok(dir)
}

fn test(command: &str) -> Value {
    json!({"name": "t", "cmd": command, "must_pass": true})
}

fn contracts(parts: usize) -> Vec<Value> {
    let part = |number: usize| {
        let path = format!("out/{number}.txt");
        json!({"spec": "make the file", "allowed_paths": [path], "acceptance_tests": [test(&format!("test -s {path}"))]})
    };
    (0..parts).map(part).collect()
}

/// The turns of the pipeline as a batch: those who only look, and the workers.
fn items(parts: usize) -> Value {
    let looks = |number: usize| json!({"id": format!("look-{number}"), "agent_id": "reviewer", "description": "look", "read_only": true});
    let works = |number: usize| {
        let path = format!("out/{number}.txt");
        let tests = [format!("test -s {path}")];
        json!({"id": format!("work-{number}"), "agent_id": "worker", "description": "make the file", "allowed_paths": [path],
            "test_commands": tests})
    };
    Value::from((0..parts).map(works).chain((0..parts + 2).map(looks)).collect::<Vec<_>>())
}

fn seconds(command: &mut Command) -> Result<f64> {
    let begun = Instant::now();
    must(command, 0)?;
    Ok(begun.elapsed().as_secs_f64())
}
