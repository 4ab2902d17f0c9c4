//! Checking a bundle: `norma-verify` over a run with many events and much evidence, with two digests of every byte,
//! every event hashed, read and folded, and every signature. Compared with what one digest of the same bytes costs:
//! `openssl dgst -sha256`, and BLAKE3 on one thread.

use crate::log::open_run_on;
use crate::page::{Section, Table, at_most};
use crate::runs::peak_mb;
use crate::sample::Samples;
use crate::world::World;
use crate::{Result, tell};
use contract::{
    Base, Domain, Fact, ProcessEnd, Role, StepCommitted, StepRef, StepStatus, Timestamp, TurnEnd, Verdict, VerdictGiven,
};
use run::{Due, Run};
use runner::Trust;
use runner::git::{Objects, recorded};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use store::{Layout, Preparing, Reader, RunLog, Store};

/// Nine events a round: four turns, each opened and put on record, and a verdict.
const EVENTS_A_ROUND: u32 = 9;

/// How much is read at a time where nothing else is done.
const READ_BYTES: usize = 1 << 20;

/// The most that checking may cost, as a multiple of the slower single digest.
const TARGET: f64 = 1.3;

pub(crate) fn run(world: &World) -> Result<Section> {
    let events = world.count(10_000, 900);
    let bytes = u64::from(world.count(1024, 64)) << 20;
    tell(&format!("bench: bundle, making a run of {events} events"));
    let (bundle, keys) = make(world, events, bytes)?;
    let program = world.norma.with_file_name("norma-verify");
    let args = [path(&bundle)?, "--trust", path(&keys)?];
    let (mut openssl, mut blake3, mut checked, mut ratio) =
        (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    for round in 0..world.count(7, 2) {
        let sha256 = timed(Command::new("openssl").args(["dgst", "-sha256"]).arg(&bundle))?;
        let single = timed_blake3(&bundle)?;
        let took = timed(world.command(&program, &world.dir).args(args))?;
        openssl.push_ms(sha256);
        blake3.push_ms(single);
        checked.push_ms(took);
        ratio.push(took.as_secs_f64() / sha256.max(single).as_secs_f64());
        tell(&format!("bench: bundle, round {} of {}", round + 1, world.count(7, 2)));
    }
    let peak = peak_mb(world, &program, &world.dir, &args)?;
    let peak = peak.map_or_else(|| "unknown, since there is no `time`".to_owned(), |mb| format!("{mb:.0} MiB"));
    let size = bundle.metadata()?.len() >> 20;
    let about = format!(
        "`norma-verify` over a bundle of {size} MiB with {events} events: container, index, BLAKE3 and SHA-256 of every \
         byte, chain, state machine, signatures. Floor: the slower of `openssl dgst -sha256` and BLAKE3 on one thread \
         over the same file in the same round, from the page cache. Peak memory: {peak}."
    );
    let mut table = Table::new(&["what", "ms", "× floor", "target", ""]);
    let dash = || "–".to_owned();
    for (name, samples) in [("openssl dgst -sha256", &openssl), ("BLAKE3, one thread", &blake3)] {
        table.row(vec![name.into(), format!("{:.0}", samples.median()), dash(), dash(), dash()]);
    }
    let (figure, target) = (ratio.median(), format!("≤ {TARGET} ×"));
    let ms = format!("{:.0}", checked.median());
    table.row(vec!["norma-verify".into(), ms, format!("{figure:.2}"), target, at_most(figure, TARGET)]);
    Ok(Section { title: "Bundle: checking", about, tables: vec![table] })
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| "the path of the bundle is not text".into())
}

fn timed(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let output = command.output()?;
    let took = started.elapsed();
    if output.status.success() { Ok(took) } else { Err(format!("{command:?} ended with {}", output.status).into()) }
}

fn timed_blake3(bundle: &Path) -> Result<Duration> {
    let started = Instant::now();
    let (mut file, mut buffer) = (File::open(bundle)?, vec![0; READ_BYTES]);
    let mut hasher = contract::hash::Hasher::new(Domain::Artifact);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => drop(hasher.update(&buffer[..count])),
        }
    }
    std::hint::black_box(hasher.finish());
    Ok(started.elapsed())
}

/// The bundle of a made-up run, and the directory of the key that signed it. Made through the public interface.
fn make(world: &World, events: u32, bytes: u64) -> Result<(PathBuf, PathBuf)> {
    let dir = world.repository("bundle", 1)?;
    let user = world.discover(&dir)?;
    let layout = Layout::new(&user.root, None);
    layout.create()?;
    let trust = Trust::new(&world.dir.join("bundle-home"), &layout.state);
    let (store, keys) = (Store::open(&layout)?, trust.keys()?);
    let objects = Objects::open_or_create(&layout.git(), &user)?;
    let commit = user.resolve("HEAD")?.ok_or("there is no commit")?;
    let (commit, tree) = (recorded(commit), recorded(objects.tree_of(commit)?));
    let base = Base { commit, tree, branch: Some("refs/heads/main".into()) };
    let rounds = events / EVENTS_A_ROUND;
    let mut log = open_run_on(&store, 1, base, rounds)?;
    let slug = log.name.run.slug();
    let run = Reader::open(&layout)?.load(&slug)?.0;
    carry_out(&store, run, &mut log, bytes / u64::from(rounds * 4))?;
    store::seal(&store, &slug, &|said| keys.sign(said))?;
    let bundle = world.dir.join("bundle.tar");
    let mut out = BufWriter::new(File::create(&bundle)?);
    runner::export(&Reader::open(&layout)?, &trust, &user, &slug, &mut out)?;
    out.flush()?;
    let given = world.dir.join("bundle-keys");
    std::fs::create_dir(&given)?;
    std::fs::write(given.join("norma.pem"), keys.public().to_pem())?;
    Ok((bundle, given))
}

/// Rounds whose checks all fail, until the budget is used up; each turn leaves so many bytes of evidence.
fn carry_out(store: &Store, mut run: Run, log: &mut RunLog, bytes: u64) -> Result<()> {
    let evidence = vec![b'e'; bytes as usize];
    loop {
        let facts = match run.next() {
            Due::Turn(step) => {
                record(store, &mut run, log, vec![Fact::StepStarted { step, base: None, taken: None }], Vec::new())?;
                take_turn(store, &mut run, log, step, &evidence)?;
                continue;
            }
            Due::End { status, end, budget } => {
                budget.map(Fact::BudgetExceeded).into_iter().chain([Fact::ended(status, end)]).collect()
            }
            due => return Err(format!("{due:?} is not expected").into()),
        };
        return record(store, &mut run, log, facts, Vec::new());
    }
}

fn take_turn(store: &Store, run: &mut Run, log: &mut RunLog, step: StepRef, evidence: &[u8]) -> Result<()> {
    let (slug, dir) = (run.id.slug(), format!("steps/{}", step.dir_name()));
    let mut prepared = Preparing::new(&store.layout.run(&slug).join(&dir));
    prepared.write("output.json", crate::step::RESPONSE.as_bytes())?;
    prepared.write("files/evidence", evidence)?;
    let mut facts = vec![Fact::StepCommitted(StepCommitted {
        tree: None,
        until: None,
        usage: None,
        step,
        status: StepStatus::Ok,
        end: TurnEnd::Answered,
        reason: None,
        summary: format!("{} is done", step.role),
        dir: dir.clone(),
        started_at: Timestamp::from_unix_ms(1_700_000_000_000),
        process: ProcessEnd::Exited(0),
        patch: false,
        notes: Vec::new(),
        evidence: prepared.evidence(),
        delta: None,
    })];
    if step.role == Role::Check {
        let (claimed, verdict) = (Verdict::Fail, Verdict::Fail);
        facts.push(Fact::Verdict(VerdictGiven { step, claimed, verdict, findings: Vec::new() }));
    }
    let points = ["step.before_rename", "step.after_rename"];
    let prepared = prepared.finish(&slug, &dir, Timestamp::from_unix_ms(0), facts, store::Writing::AtOnce, points)?;
    record(store, run, log, prepared.facts, prepared.files)
}

fn record(
    store: &Store,
    run: &mut Run,
    log: &mut RunLog,
    facts: Vec<Fact>,
    files: Vec<(String, store::StepFile)>,
) -> Result<()> {
    for event in store.append(log, facts, files)?.iter() {
        run.apply(event).map_err(|illegal| illegal.to_string())?;
    }
    Ok(())
}
