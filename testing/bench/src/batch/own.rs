//! norma's own side: the real program on a repository of its own for each batch, so that no batch finds what another
//! one left behind. What a start costs is seen from a batch of one item.

use super::graph::{AGENT, Graph};
use super::program::{self, Ended, Held};
use crate::Result;
use crate::barriers::must;
use crate::step::RESPONSE;
use crate::world::World;
use contract::Timestamp;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository.
const FILES: u32 = 100;

/// What the items are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing confined and nothing changed: what peers do.
    ReadOnly,
    /// Confined in a workspace, one new file, every gate, a receipt.
    Full,
}

/// When a batch counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Its result is on record, as with other engines.
    Result,
    /// What is made of its record then is on the disk as well, and the program has ended.
    Seal,
}

/// The batch of which all the time is start-up.
const ONE: Graph = Graph { levels: 1, width: 1 };

/// Seconds of a batch.
pub(crate) struct Timed {
    /// From the start of the program to its end.
    pub(crate) whole: f64,
    /// From the record of its start to that of its end; until the seal, all of it without what a batch of one item takes.
    pub(crate) graph: f64,
    /// The same for each of the items, or of those beyond the one.
    pub(crate) item_ms: f64,
}

/// Why there is nothing to measure, if so.
pub(crate) fn missing(world: &World) -> Option<String> {
    let help = must(world.command(&world.norma, &world.dir).args(["batch", "--help"]), 0);
    help.is_err().then(|| "`norma batch` is not there".to_owned())
}

/// A batch that is ready to start, and where.
pub(crate) struct Ready {
    pub(crate) dir: PathBuf,
    pub(crate) args: Vec<OsString>,
}

impl Ready {
    pub(crate) fn new(world: &World, kind: Kind, graph: Graph, jobs: u32) -> Result<Ready> {
        Ready::on(world, kind, graph, jobs, FILES)
    }

    /// The same on a repository of so many files.
    pub(crate) fn on(world: &World, kind: Kind, graph: Graph, jobs: u32, files: u32) -> Result<Ready> {
        let dir = world.repository(&world.fresh_name("batch"), files)?;
        must(world.command(&world.norma, &dir).arg("init"), 0)?;
        let config = dir.join(".norma/config.json");
        let settings = configured(serde_json::from_slice(&std::fs::read(&config)?)?, kind);
        std::fs::write(&config, serde_json::to_vec(&settings)?)?;
        must(world.command(&world.norma, &dir).arg("trust"), 0)?;
        let items = world.dir.join(world.fresh_name("items"));
        std::fs::write(&items, serde_json::to_vec(&graph.work_items(kind == Kind::ReadOnly))?)?;
        // On its way to the disk it would be charged to the batch.
        rustix::fs::sync();
        let args = ["batch".into(), items.into(), "--jobs".into(), jobs.to_string().into(), "--json".into()];
        Ok(Ready { dir, args: args.into() })
    }

    pub(crate) fn command(&self, world: &World) -> Command {
        let mut command = world.command(&world.norma, &self.dir);
        command.args(&self.args);
        command
    }
}

/// Says no unless so many items succeeded: a batch that does nothing is quick.
fn all_succeeded(ended: &Ended, graph: Graph) -> Result<()> {
    let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
    let succeeded: u32 =
        documents.map(|document| document.map(|document| successes(&document))).sum::<std::result::Result<u32, _>>()?;
    let asked = graph.items();
    if succeeded == asked {
        Ok(())
    } else {
        Err(format!("{succeeded} of {asked} items have a receipt and succeeded").into())
    }
}

/// How many results of items there are in a document, at any depth, that succeeded and have a receipt.
fn successes(document: &Value) -> u32 {
    match document {
        Value::Object(fields) if fields.get("receipt_id").is_some_and(Value::is_string) => {
            u32::from(fields.get("status").is_some_and(|status| status == "success"))
        }
        Value::Object(fields) => fields.values().map(successes).sum(),
        Value::Array(values) => values.iter().map(successes).sum(),
        _ => 0,
    }
}

/// When each item of the only run ended whose end is wanted, in milliseconds.
pub(crate) fn item_ends(dir: &Path, is_wanted: impl Fn(&Value) -> bool) -> Result<Vec<u64>> {
    recorded(dir, |event| event["type"] == "item_ended" && is_wanted(&event["payload"]))
}

/// When what is wanted of the log of the only run was recorded, in milliseconds.
fn recorded(dir: &Path, is_wanted: impl Fn(&Value) -> bool) -> Result<Vec<u64>> {
    let mut runs = std::fs::read_dir(dir.join(".norma/runs"))?;
    let run = runs.next().ok_or("no run was made")??;
    let log = std::fs::read_to_string(run.path().join("events.jsonl"))?;
    let mut times = Vec::new();
    for line in log.lines() {
        let mut event: Value = serde_json::from_str(line)?;
        if is_wanted(&event) {
            let at: Timestamp = serde_json::from_value(event["ts"].take())?;
            times.push(at.unix_ms());
        }
    }
    Ok(times)
}

/// The configuration that `norma init` wrote, with our agent.
fn configured(mut config: Value, kind: Kind) -> Value {
    let cmd = match kind {
        Kind::ReadOnly => json!(["/bin/echo", RESPONSE]),
        Kind::Full => json!(["/bin/sh", "-c", script("made-${NORMA_STEP_DIR##*/}.txt")]),
    };
    config["agents"] = json!({AGENT: {"type": "exec", "cmd": cmd}});
    if kind == Kind::ReadOnly {
        config["sandbox"] = json!({"backend": "none"});
    }
    config
}

/// What makes a file, and nothing else; the shell needs no other program for it.
pub(crate) fn script(file: &str) -> String {
    format!("echo made > \"{file}\"; echo '{RESPONSE}'")
}

/// Takes the time of a batch of these items; until the seal, of one item as well.
pub(crate) fn time(world: &World, kind: Kind, graph: Graph, jobs: u32, until: Until) -> Result<Timed> {
    let whole = |graph: Graph| -> Result<(f64, Ready)> {
        let ready = Ready::new(world, kind, graph, jobs)?;
        let ended = program::time(&mut ready.command(world))?;
        all_succeeded(&ended, graph)?;
        Ok((ended.seconds, ready))
    };
    match until {
        Until::Seal => Ok(until_seal(whole(ONE)?.0, whole(graph)?.0, graph)),
        Until::Result => {
            whole(graph).and_then(|(whole, ready)| until_result(whole, &recorded(&ready.dir, |_| true)?, graph))
        }
    }
}

fn until_result(whole: f64, recorded: &[u64], graph: Graph) -> Result<Timed> {
    let [first, .., last] = recorded else { return Err("the batch has no start and no end".into()) };
    let ms = (last - first) as f64;
    Ok(Timed { whole, graph: ms / 1000.0, item_ms: ms / f64::from(graph.items()) })
}

fn until_seal(start_up: f64, whole: f64, graph: Graph) -> Timed {
    let graph_alone = whole - start_up;
    Timed { whole, graph: graph_alone, item_ms: graph_alone * 1000.0 / f64::from(graph.items() - 1) }
}

/// The most memory that a batch of these items held.
pub(crate) fn peak(world: &World, kind: Kind, graph: Graph, jobs: u32) -> Result<Held> {
    let (ended, peak) = program::peak(&mut Ready::new(world, kind, graph, jobs)?.command(world))?;
    all_succeeded(&ended, graph)?;
    Ok(peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_item_is_not_paid_for_twice() {
        let timed = until_seal(0.5, 2.5, Graph { levels: 3, width: 7 });
        assert_eq!((timed.graph, timed.item_ms), (2.0, 100.0));
    }

    #[test]
    fn a_result_is_there_with_the_record_of_the_end() {
        let graph = Graph { levels: 2, width: 5 };
        let timed = until_result(2.0, &[1000, 1400, 1500], graph).expect("it has a start and an end");
        assert_eq!((timed.whole, timed.graph, timed.item_ms), (2.0, 0.5, 50.0));
        assert!(until_result(2.0, &[1000], graph).is_err());
    }

    #[test]
    fn a_batch_counts_only_if_every_item_succeeded_with_a_receipt() {
        let check = |stdout: &str| {
            let ended = Ended { seconds: 1.0, stdout: stdout.to_owned() };
            all_succeeded(&ended, Graph { levels: 1, width: 2 }).is_ok()
        };
        let (good, bad) = (r#"{"status":"success","receipt_id":"a"}"#, r#"{"status":"denied","receipt_id":"b"}"#);
        assert!(check(&format!(r#"{{"status":"success","results":[{good},{good}]}}"#)));
        assert!(check(&format!("{good}\n{good}\n")));
        assert!(!check(&format!("[{good},{bad}]")));
        assert!(!check(&format!("[{good}]")));
        assert!(!check(r#"[{"status":"success"},{"status":"success"}]"#));
        assert!(!check(""));
        assert!(!check("no document"));
    }

    #[test]
    fn only_what_peers_do_too_is_not_confined() {
        let config = |kind| configured(json!({"budgets": {}, "sandbox": {"backend": "native"}}), kind);
        assert_eq!(config(Kind::ReadOnly)["sandbox"]["backend"], "none");
        assert_eq!(config(Kind::Full)["sandbox"]["backend"], "native");
        assert_eq!(config(Kind::Full)["agents"][AGENT]["type"], "exec");
    }
}
