//! The graph of a run beside its log: what is read of it is what the log comes to, after every commit, after a restart,
//! after `reindex`, and for runs that are older than graphs.

use crate::fixture::{Driving, World, run_id, sign};
use contract::view::graph::{RunGraph, RunStatus};
use contract::{ApprovalDecision, Event, Fact, RunId, SessionEvent};
use store::Reader;

/// What a run's log comes to.
fn folded(world: &World, slug: &str) -> RunGraph {
    let (id, events, _): (RunId, Vec<Event>, _) = world.reader().log(slug).unwrap();
    run::view::graph(id, &world.root().to_string_lossy(), &events).unwrap()
}

fn read(reader: &Reader, slug: &str) -> RunGraph {
    serde_json::from_str(&reader.graph(slug).unwrap().unwrap()).unwrap()
}

#[track_caller]
fn require_same(world: &World, slug: &str) -> RunGraph {
    let text = world.reader().graph(slug).unwrap().unwrap();
    let folded = folded(world, slug);
    assert_eq!(text, serde_json::to_string(&folded).unwrap());
    folded
}

#[test]
fn a_snapshot_is_that_of_the_last_committed_fact() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    let slug = driving.slug();
    assert_eq!(require_same(&world, &slug).nodes.len(), 4);
    for steps in 1..4 {
        driving.step();
        assert_eq!(require_same(&world, &slug).seq, Some(driving.log.seq), "after {steps} steps");
    }
    driving.finish();
    let last = require_same(&world, &slug);
    assert_eq!(last.status, RunStatus::Completed);
    assert!(!last.artifacts.is_empty());
    for artifact in last.artifacts.values() {
        let found = world.reader().graph_artifact(&slug, &artifact.id).unwrap();
        assert_eq!(found.as_ref(), Some(artifact));
        assert!(artifact.path.starts_with(&*world.root().to_string_lossy()), "{}", artifact.path);
    }
    assert_eq!(world.reader().graph_artifact(&slug, "x").unwrap(), None);
    assert_eq!(world.reader().graph("20200101-000000-aaaaaa").unwrap(), None);
}

#[test]
fn an_artifact_that_is_not_empty_is_a_file() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.finish();
    let graph = read(&world.reader(), &driving.slug());
    let diffs: Vec<_> = graph.artifacts.values().filter(|it| it.name == "diff.patch" && !it.empty).collect();
    assert!(!diffs.is_empty(), "one of the turns changed something");
    for diff in diffs {
        assert!(std::path::Path::new(&diff.path).is_file(), "{}", diff.path);
    }
}

#[test]
fn rows_are_written_with_each_fact_only_while_somebody_observes() {
    let rows = |observed: bool| {
        let world = World::new();
        let store = world.store();
        if observed {
            store.observe(Box::new(|_, _| ()));
        }
        let mut driving = Driving::start_items(&store, 1, &["a", "b"]);
        driving.open_item();
        let heads = world.one::<i64>("SELECT count(*) FROM graph WHERE kind = 0");
        let graph = require_same(&world, &driving.slug());
        let node = graph.nodes.values().next().unwrap();
        let found = world.reader().graph_node(&driving.slug(), &node.id).unwrap();
        assert_eq!(found, Some(serde_json::to_string(node).unwrap()), "observed: {observed}");
        heads
    };
    assert_eq!((rows(true), rows(false)), (1, 0));
}

#[test]
fn rows_that_nobody_observed_are_written_where_a_run_waits() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start_items(&store, 1, &["a", "b"]);
    let rows = || world.texts("SELECT kind || id || json FROM graph ORDER BY 1");
    assert!(rows().is_empty(), "nobody observes");
    let end = contract::End { reason: None, message: "a pause".into() };
    driving.record(vec![Fact::RunPaused(end)], vec![]);
    store::draw(&store, &world.reader(), &driving.slug()).unwrap();
    let before = rows();
    assert_eq!(world.one::<i64>("SELECT count(*) FROM graph WHERE kind < 2"), 3, "the run and two items");
    store::reindex(&store).unwrap();
    assert_eq!(rows(), before);
}

#[test]
fn rows_of_a_run_that_has_ended_are_written_when_it_is_sealed() {
    for restarted in [false, true] {
        let world = World::new();
        let store = world.store();
        let mut driving = Driving::start_items(&store, 1, &["a", "b"]);
        let end = contract::End { reason: Some(contract::Reason::Canceled), message: "no more".into() };
        driving.record(vec![Fact::RunCanceled(end)], vec![]);
        let slug = driving.slug();
        drop(driving);
        let store = if restarted {
            drop(store);
            world.store()
        } else {
            store
        };
        let heads = || world.one::<i64>("SELECT count(*) FROM graph WHERE kind = 0");
        assert_eq!(heads(), 0);
        let before = require_same(&world, &slug);
        store::seal(&store, &slug, &sign).unwrap();
        assert_eq!((heads(), require_same(&world, &slug)), (1, before), "restarted: {restarted}");
    }
}

#[test]
fn a_run_goes_on_with_its_graph_after_a_restart() {
    let world = World::new();
    let slug = {
        let store = world.store();
        let mut driving = Driving::start_items(&store, 1, &["a", "b"]);
        driving.open_item();
        driving.slug()
    };
    let store = world.store();
    let mut driving = Driving::resume(&store, &slug);
    let step = driving.run.open_turns()[0].step;
    let event = Box::new(SessionEvent::Message { text: "Still there".into() });
    driving.record(vec![Fact::AgentEvent { step, event }], vec![]);
    let graph = require_same(&world, &slug);
    assert!(graph.nodes.values().any(|node| node.summary == "Still there"));
}

#[test]
fn reindexing_makes_the_same_graphs() {
    let world = World::new();
    let store = world.store();
    store.observe(Box::new(|_, _| ()));
    Driving::start(&store, 1, None).finish();
    Driving::start_items(&store, 2, &["a", "b"]).open_item();
    let rows = || world.texts("SELECT run_id || kind || id || json FROM graph ORDER BY 1");
    let before = rows();
    world.raw().execute_batch("DELETE FROM graph WHERE kind > 1; UPDATE graph SET json = '{}'").unwrap();
    store::reindex(&store).unwrap();
    assert_eq!(rows(), before);
}

#[test]
fn a_run_from_before_there_were_graphs_has_one() {
    let world = World::new();
    let store = world.store();
    store.observe(Box::new(|_, _| ()));
    let mut driving = Driving::start(&store, 1, None);
    driving.steps(2);
    let slug = driving.slug();
    world.raw().execute_batch("DELETE FROM graph").unwrap();
    require_same(&world, &slug);
    let mut driving = Driving::resume(&store, &slug);
    driving.step();
    assert!(
        world.one::<i64>("SELECT count(*) FROM graph WHERE kind = 1") == 4,
        "all of it is written with the next fact that is observed"
    );
    require_same(&world, &slug);
}

#[test]
fn runs_are_listed_page_by_page_newest_first() {
    let world = World::new();
    let store = world.store();
    for n in 1..=5 {
        Driving::start(&store, n, None).step();
    }
    let reader = world.reader();
    let slugs = |runs: &[String]| -> Vec<String> {
        let run = |text: &String| serde_json::from_str::<RunGraph>(text).unwrap().slug.to_string();
        runs.iter().map(run).collect()
    };
    let expected = |numbers: &[u8]| -> Vec<String> { numbers.iter().map(|n| run_id(*n).slug().to_string()).collect() };
    let first = reader.graphs(None, 2).unwrap();
    assert_eq!(slugs(&first.runs), expected(&[5, 4]));
    let second = reader.graphs(first.next.as_deref(), 2).unwrap();
    assert_eq!(slugs(&second.runs), expected(&[3, 2]));
    let last = reader.graphs(second.next.as_deref(), 2).unwrap();
    assert_eq!((slugs(&last.runs), last.next), (expected(&[1]), None));
    let listed: RunGraph = serde_json::from_str(&first.runs[0]).unwrap();
    assert_eq!(listed, read(&reader, &listed.slug));
}

#[test]
fn a_run_with_a_large_graph_is_listed_without_it_and_says_so() {
    let world = World::new();
    let store = world.store();
    let names: Vec<String> = (0..200).map(|n| format!("item-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let driving = Driving::start_items(&store, 1, &names);
    let reader = world.reader();
    let listed: RunGraph = serde_json::from_str(&reader.graphs(None, 100).unwrap().runs[0]).unwrap();
    assert!(listed.partial && listed.nodes.is_empty());
    let whole = read(&reader, &driving.slug());
    assert_eq!((whole.partial, whole.nodes.len(), whole.goal), (false, 200, listed.goal));
}

#[test]
fn what_is_asked_is_listed_until_somebody_answers() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start_items(&store, 1, &["a"]);
    let step = driving.open_item();
    let reasons = ["the agent asks", "tool: Bash", "command: make", "step: 001-worker p1"].map(str::to_owned).to_vec();
    let wait = store.ask_approval(&driving.run, reasons).wait().unwrap();
    driving.record(vec![Fact::ApprovalAsked { step, wait: wait.clone() }], vec![]);
    let asked = world.reader().asked().unwrap();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].0, asked[0].1.approval_id.clone()), (driving.run.id, wait.approval.to_string()));
    assert_eq!(asked[0].1.tool.args["argv"], serde_json::json!(["make"]));
    store
        .answer_approval(wait.approval, ApprovalDecision::Denied, "Ada".into(), None, Default::default())
        .wait()
        .unwrap();
    assert!(world.reader().asked().unwrap().is_empty());
}

#[test]
fn a_stream_is_the_same_wherever_it_begins() {
    let world = World::new();
    let store = world.store();
    let mut driving = Driving::start(&store, 1, None);
    driving.finish();
    let (id, events, _) = world.reader().log(&driving.slug()).unwrap();
    let mut whole = run::view::Projector::new(id, &world.root().to_string_lossy());
    let told: Vec<_> = events.iter().flat_map(|event| whole.apply(event)).collect();
    for after in [0, 3, 7] {
        let mut late = world.reader().projector(&driving.slug(), after).unwrap();
        let rest: Vec<_> =
            events.iter().filter(|event| event.seq > after).flat_map(|event| late.apply(event)).collect();
        assert!(rest.iter().eq(told.iter().filter(|event| event.seq > Some(after))), "after {after}");
    }
}
