//! From work items to the items of a run. A batch is taken whole or not at all.

use super::super::compile::{Problems, Terms, id, limits_of, not_trivial, test_words};
use super::super::graph::Graph;
use super::super::{AgentRole, read_value};
use super::WorkItem;
use crate::json::{self, Report, Violation};
use crate::policy::allowed_path;
use crate::work::{Constraints, Item, Rights, TestCommand, TestsPolicy};
use crate::{Digest, Scope, hash, path};
use serde_json::Value;
use std::collections::BTreeSet;

/// Most items of a batch. What each costs does not depend on how many there are; so many are still planned and looked
/// through together.
pub const ITEMS_MAX: usize = 10_000;

/// Most paths that a change may touch where neither the document nor its scope says how many.
const FILES_MAX_UNSCOPED: u64 = 10;

/// The same where the scope names directories: of 59,162 public commits 0.8 % touch more.
const FILES_MAX: u64 = 50;

/// Most entries of the four deltas, unless more paths may differ.
const DELTA_SIZE_MAX: u64 = 100;

/// Most tool operations where the document says nothing.
const TOOL_OPS_MAX: u64 = 50;

/// Work items as they were submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// In the order of the document.
    pub items: Vec<WorkItem>,
    /// Whether the document is one item rather than an array.
    single: bool,
}

impl Batch {
    fn place(&self, index: usize) -> String {
        if self.single { String::new() } else { format!("/{index}") }
    }
}

/// Reads an array of work items, or one alone.
pub fn read_batch(bytes: &[u8]) -> Result<Batch, Vec<Violation>> {
    let document = json::parse(bytes, limits_of(bytes))?;
    let single = document.is_object();
    let items: Vec<WorkItem> = match document {
        Value::Object(_) => vec![read_value(document)?],
        _ => read_value(document)?,
    };
    match items.len() {
        0 => Err(vec![Violation::document("there is no work item in it")]),
        count if count > ITEMS_MAX => {
            Err(vec![Violation::document(format!("there are {count} work items, and a batch has at most {ITEMS_MAX}"))])
        }
        _ => Ok(Batch { items, single }),
    }
}

/// Compiles a batch, or says everything that is wrong with it.
pub fn compile_batch(batch: &Batch, submitted: &[u8], terms: &Terms<'_>) -> Result<Vec<Item>, Vec<Violation>> {
    let mut report = Report::default();
    let submitted = hash::sha256(submitted);
    let items = batch.items.iter().enumerate().map(|(index, item)| {
        let mut problems = Problems::new(&mut report, batch.place(index));
        compile_one(item, submitted, terms, &mut problems)
    });
    let items = items.collect();
    duplicates(batch, terms, &mut report);
    unknown_dependencies(batch, terms, &mut report);
    cycles(batch, &mut report);
    report.into_result().map(|()| items)
}

fn compile_one(work: &WorkItem, submitted: Digest, terms: &Terms<'_>, problems: &mut Problems<'_>) -> Item {
    let role = AgentRole::Worker;
    let defaults = problems.take("/agent_id", terms.rights(&work.agent_id, role));
    problems.not_blank("/description", &work.description);
    let tests = tests(work, terms, problems);
    let item = Item {
        id: problems.take("/id", id(&work.id)).unwrap_or_default(),
        agent_id: work.agent_id.clone(),
        role: role.to_string(),
        worker: problems.take("/agent_id", terms.worker(&work.agent_id, role)).unwrap_or_default(),
        goal: work.description.clone(),
        needs: work.dependencies.clone(),
        scope: Scope {
            allowed_paths: problems.paths("/allowed_paths", work.allowed_paths.as_deref().unwrap_or_default(), terms),
            allow_binary: work.scope.as_ref().is_some_and(|scope| scope.allow_binary),
            ..Scope::default()
        },
        read_only: work.read_only.unwrap_or(false),
        rights: Rights {
            shell: defaults.as_ref().map(|defaults| defaults.shell()).unwrap_or_default(),
            network: defaults.map(|defaults| defaults.network).unwrap_or_default(),
            mcp_tools: Vec::new(),
        },
        input_files: problems.paths("/input_files", work.input_files.as_deref().unwrap_or_default(), terms),
        output_files: problems.paths("/output_files", work.output_files.as_deref().unwrap_or_default(), terms),
        artifacts: Vec::new(),
        tests,
        tests_policy: work.tests_policy.unwrap_or(TestsPolicy::Guarded),
        constraints: constraints(work, terms, problems),
        timeout_ms: problems.wait("/constraints/timeout_ms", Some(work.constraints.timeout_ms)),
        retries: 0,
        retry_backoff_ms: 0,
        output_schema: None,
        forbidden_actions: Vec::new(),
        // A work item asks for files, not for a patch: what must be there is in `output_files`.
        audit_only: true,
        thread: None,
        sandbox_backend: problems.backend("", "/agent_id", work.sandbox_backend, (&work.agent_id, role), terms),
        review: None,
        submitted,
    };
    problems.size(&item);
    item
}

/// How much the change may be. Where the document says nothing, a scope of exact files is its own limit.
fn constraints(work: &WorkItem, terms: &Terms<'_>, problems: &mut Problems<'_>) -> Constraints {
    let is_directory =
        |text: &String| allowed_path(text).is_ok_and(|path| text.ends_with('/') || (terms.is_directory)(&path));
    let files = work.constraints.max_files.unwrap_or(match work.allowed_paths.as_deref() {
        None => FILES_MAX_UNSCOPED,
        Some(paths) if paths.iter().any(is_directory) => FILES_MAX.max(paths.len() as u64),
        Some(paths) => paths.len() as u64,
    });
    Constraints {
        max_files: Some(files),
        max_tool_ops: problems.take("/constraints/max_tool_ops", tool_ops(work, terms)).flatten(),
        max_delta_size: Some(work.constraints.max_delta_size.unwrap_or(files.max(DELTA_SIZE_MAX))),
        max_patch_bytes: None,
    }
}

/// How many tool operations there may be. A limit that nobody could hold is refused rather than ignored.
fn tool_ops(work: &WorkItem, terms: &Terms<'_>) -> Result<Option<u64>, String> {
    match (work.constraints.max_tool_ops, terms.counts_tools(&work.agent_id, AgentRole::Worker, work.sandbox_backend)) {
        (limit, true) => Ok(limit.or(Some(TOOL_OPS_MAX))),
        (None, false) => Ok(None),
        (Some(_), false) => {
            let why = "outside of the native sandbox, what an exec agent starts cannot be counted";
            Err(format!("{why}: leave the limit out, or have sandbox.backend \"native\""))
        }
    }
}

/// What is tried, in the order in which it is written.
fn tests(work: &WorkItem, terms: &Terms<'_>, problems: &mut Problems<'_>) -> Vec<TestCommand> {
    let more = work.test_commands.iter().flatten().enumerate();
    let more = more.map(|(at, line)| (format!("test-{}", at + 1), format!("/test_commands/{at}"), line));
    let first = work.test_command.iter().map(|line| ("test_command".to_owned(), "/test_command".to_owned(), line));
    let mut tests = Vec::new();
    for (name, pointer, line) in first.chain(more) {
        let argv = problems.take(&pointer, test_words(line, terms).and_then(not_trivial));
        tests.extend(argv.map(|argv| TestCommand { name, argv, must_pass: true, of_whole: false }));
    }
    tests
}

/// Ids become directories, and some file systems ignore case.
fn duplicates(batch: &Batch, terms: &Terms<'_>, report: &mut Report) {
    let mut seen: BTreeSet<String> = terms.present.iter().map(|id| path::fold(id)).collect();
    for (index, item) in batch.items.iter().enumerate() {
        if !seen.insert(path::fold(&item.id)) {
            report.push(format!("{}/id", batch.place(index)), format!("another item is called {:?} too", item.id));
        }
    }
}

fn unknown_dependencies(batch: &Batch, terms: &Terms<'_>, report: &mut Report) {
    for (index, at, need) in graph(batch).unknown().into_iter().filter(|(.., need)| !terms.present.contains(*need)) {
        let message = format!("there is no item {need:?} in this batch");
        report.push(format!("{}/dependencies/{at}", batch.place(index)), message);
    }
}

fn cycles(batch: &Batch, report: &mut Report) {
    let graph = graph(batch);
    for ring in graph.rings() {
        let message = format!("these items wait for each other: {}", graph.shown(&ring));
        report.push(format!("{}/dependencies", batch.place(ring[0])), message);
    }
}

fn graph(batch: &Batch) -> Graph<'_> {
    Graph::new(batch.items.iter().map(|item| (item.id.as_str(), item.dependencies.as_slice())))
}
