//! Trying a change: norma runs the tests of an item itself, on the tree that would land. Each command has a workspace of
//! its own, made from objects and from nothing that an agent left: no ignored file, no cache, not what the command before
//! it wrote. It is confined as an agent would be, reaches no network, and its whole process tree is dead before anything
//! is read.
//!
//! Nothing stale can pass. What an agent built is not there. What `workspace.setup` built, it built from this very
//! tree: its results are kept by tree, and a cache that it starts from is older than every file that has changed since
//! (`workspace/setup.rs`). The files themselves have the time at which norma wrote their layer.

mod outcome;
pub(crate) mod program;

use crate::change::acceptance::{Acceptance, Plan, Side, plan};
use crate::git::{ObjectId, recorded, sweep};
use crate::machine::Machine;
use crate::machine::confine::{self, Shown};
use crate::machine::elsewhere::Test;
use crate::machine::execute::{confinement, kept};
use crate::machine::setup::SetUp;
use crate::machine::view::Ground;
use crate::process::MARKER;
use crate::process::{self, Command, End, Limits, Outcome, Said, confined};
use crate::{Error, News, Result};
use contract::policy::forbidden_word;
use contract::work::{TestCommand, TestCounts};
use contract::{Backend, Item};
use outcome::{Log, Printed, Tried};
use program::{Places, Program, outside_path};
use run::Run;
use run::gate::acceptance::{counted, counted_in_junit, junit_file_named, stops};
use run::gate::test_files::TestFiles;
use run::redact::Redactor;
use rustix::fs::{FileType, Mode, OFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Names the tests of one item in the environment of every process that belongs to them, so that what outlives their
/// supervisor can be found without meaning any other process of the run.
const TEST_MARKER: &str = "NORMA_TEST_OF";

/// A report that a test writes is read up to here; nobody's is longer.
const REPORT_BYTES_MAX: u64 = 16 << 20;

impl Machine {
    /// Runs the tests of an item on the tree that its change makes of `base`. What they come to is an outcome; an error
    /// means that norma itself could not work.
    pub fn accept(&mut self, run: &Run, item: &Item, candidate: ObjectId, base: ObjectId) -> Result<Acceptance> {
        let files = TestFiles::new(&item.tests);
        let changes = self.objects.diff(base, candidate)?;
        let touched = files.changed(changes.iter().map(|change| change.path.as_slice()));
        let mut log = Log::new(item, touched);
        let rules = run.started.contract.rules;
        let plan = plan(&self.objects, rules, item, (base, candidate), &changes, &files)?;
        match plan.sides.is_empty() {
            false => self.try_sides(run, item, &plan, &mut log)?,
            true => log.none_tried(),
        }
        // Whoever works here next finds nothing of this.
        self.workspace.make_anew();
        Ok(log.finish(&plan))
    }

    fn try_sides(&mut self, run: &Run, item: &Item, plan: &Plan, log: &mut Log<'_>) -> Result<()> {
        let mut stopped = false;
        let (mut number, of) =
            (0, plan.sides.iter().map(|(side, _)| plan.commands(*side, item).count()).sum::<usize>());
        for (side, tree) in &plan.sides {
            let on = Ground::at(run, Some(item), run.started.base.commit, recorded(*tree));
            for test in plan.commands(*side, item) {
                number += 1;
                let tried = if stopped { None } else { Some(self.try_told(&on, *tree, item, test, (number, of))?) };
                stopped |= tried.as_ref().is_some_and(|tried| stops(test.decides_alone(), &tried.end));
                log.add(*side, test, tried);
            }
        }
        // Whose fault it is: what failed before the change, too, is not the change's.
        let failed = if stopped { Vec::new() } else { log.failed_of_whole() };
        let on = Ground::at(run, Some(item), run.started.base.commit, recorded(plan.before));
        for (test, number) in failed.iter().zip(1..) {
            let tried = self.try_told(&on, plan.before, item, test, (number, failed.len()))?;
            log.add(Side::Before, test, Some(tried));
        }
        Ok(())
    }

    /// The same as [`Machine::try_one`], for whoever watches: this is the `number`th of so many.
    fn try_told(
        &mut self,
        on: &Ground<'_>,
        tree: ObjectId,
        item: &Item,
        test: &TestCommand,
        (number, of): (usize, usize),
    ) -> Result<Tried> {
        let told = self.context.told.clone();
        told(News::Test { item: item.id.clone(), number, of, argv: test.argv.clone() });
        let tried = self.try_one(on, tree, item, test)?;
        let (passed, took_ms) = (tried.end == End::Exited(0), tried.elapsed.as_millis() as u64);
        told(News::Tested { item: item.id.clone(), passed, took_ms });
        Ok(tried)
    }

    /// Runs one command on a tree, if it may be run at all.
    fn try_one(&mut self, on: &Ground<'_>, tree: ObjectId, item: &Item, test: &TestCommand) -> Result<Tried> {
        if self.cancel.is_canceled() {
            return Ok(Tried::not_run(End::Canceled));
        }
        let forbidden = || forbidden_word(&test.argv, &item.forbidden_actions);
        let of_item = || forbidden().map(|word| format!("its contract forbids {word:?}"));
        if let Some(why) = self.refusal(&test.argv)?.or_else(of_item) {
            return Ok(Tried::not_run(End::NotStarted(why)));
        }
        let of_turn = &on.run.started.contract.limits;
        let limits =
            |wall| Limits { wall, idle: None, output_bytes_max: u64::from(of_turn.output_mb) << 20, clock: None };
        let limits_of_test = limits(Duration::from_millis(item.timeout_ms));
        if on.backend.is_elsewhere() {
            return self.try_elsewhere(on, item, test, limits_of_test);
        }
        // The setup is not the test: it has the time that it has before a turn.
        let of_setup = limits(Duration::from_secs(of_turn.step_seconds.into()));
        if let SetUp::Failed(failed) = self.set_up(on, of_setup)? {
            let failed = *failed;
            let printed = Printed::new(&self.redactor(), failed.stdout, failed.stderr);
            return Ok(Tried { printed, sandbox: failed.sandbox, ..Tried::not_run(failed.process) });
        }
        self.workspace.make_anew();
        let shown = self.show(on)?;
        let root = match (on.backend, &shown) {
            (Backend::None, Shown::Directory { source, .. }) => source.clone(),
            _ => self.context.layout.root.clone(),
        };
        let also = &on.run.started.contract.sandbox_read;
        let places = Places { context: &self.context, objects: &self.objects, tree, root: &root, shown: also };
        let Some(program) = places.find(&test.argv[0])? else {
            let why = format!(
                "{} was not found; a program is looked for on PATH outside of the repository, or by its path in the commit",
                test.argv[0]
            );
            return Ok(Tried::not_run(End::NotStarted(why)));
        };
        let call = Call { on, item, test, program, root, limits: limits_of_test, redactor: self.redactor() };
        match on.backend {
            Backend::None => self.try_freely(call),
            _ => self.try_confined(call, shown),
        }
    }

    /// In another system, where the program is what its image has, or one of the tree by its path.
    fn try_elsewhere(&mut self, on: &Ground<'_>, item: &Item, test: &TestCommand, limits: Limits) -> Result<Tried> {
        self.workspace.make_anew();
        let env = BTreeMap::from([
            (MARKER.to_owned(), on.run.id.slug().to_string()),
            (TEST_MARKER.to_owned(), format!("{}/{}", on.run.id.slug(), item.id)),
        ]);
        let (done, root) = match self.test_elsewhere(on, on.backend, Test { argv: &test.argv, env, limits })? {
            Ok(ran) => ran,
            Err(why) => return Ok(Tried::not_run(End::NotConfined(why))),
        };
        let report = || sweep::open_directory(&root).ok().and_then(|root| report(test, &root));
        let printed = Printed::new(&self.redactor(), kept(done.stdout), kept(done.stderr));
        let counts = counted(&printed.stdout, &printed.stderr).or_else(report);
        Ok(Tried { end: done.end, counts, printed, elapsed: done.elapsed, program: None, sandbox: done.record })
    }

    fn try_confined(&mut self, call: Call<'_>, shown: Shown) -> Result<Tried> {
        let contract = &call.on.run.started.contract;
        let directory = match &shown {
            Shown::Directory { source, .. } => Some(source.clone()),
            Shown::Layers { .. } => None,
        };
        let tools = self.tools(contract)?;
        let scene = self.scene(&tools, shown, contract);
        let arguments = call.test.argv.iter().skip(1).map(Path::new).filter(|path| path.is_absolute());
        let wanted = confine::Program {
            cwd: &call.root,
            named: [call.program.path.as_path()].into_iter().chain(arguments).collect(),
            read: Vec::new(),
            env: self.variables(&call),
            network: &[],
        };
        let ready = scene.policy(wanted).and_then(|policy| {
            let ready = confined::get_ready(&self.context.sandbox, &policy, &call.command());
            Ok((ready.map_err(|error| error.to_string())?, policy))
        });
        let (ready, policy) = match ready {
            Ok(ready) => ready,
            Err(why) => return Ok(call.tried(End::NotConfined(why))),
        };
        let mut finished = match ready.go(Said::Bytes(&[]), call.limits.clone(), &self.cancel) {
            Ok(finished) => finished,
            Err(error) => return Ok(call.tried(End::NotConfined(error.to_string()))),
        };
        let mut record = confinement(&policy, &json!(finished.effective), &json!(finished.report));
        record["workspace"] = self.workspace_on_record();
        let written = match directory {
            Some(dir) => sweep::open_directory(&dir).ok(),
            None => (!finished.layers.is_empty()).then(|| finished.layers.swap_remove(0)),
        };
        Ok(call.finish(finished.outcome, record, written))
    }

    /// Without a sandbox: the network is whatever the machine has.
    fn try_freely(&mut self, call: Call<'_>) -> Result<Tried> {
        let mut env = self.context.agent_env.clone();
        env.extend(self.variables(&call).into_iter().map(|(name, value)| (name.into(), value.into())));
        // A test that deletes its private `.git` must not find the user's repository further up.
        env.insert("GIT_CEILING_DIRECTORIES".into(), call.root.parent().unwrap_or(&call.root).into());
        let command = Command {
            program: call.program.path.clone(),
            args: call.test.argv.iter().skip(1).map(OsString::from).collect(),
            cwd: call.root.clone(),
            env,
            stdin: Vec::new(),
            limits: call.limits.clone(),
        };
        let outcome = process::run(&command, &self.context.supervisor, &self.cancel, &mut |_| ());
        let outcome = outcome.map_err(|source| Error::io("run", &command.program, source))?;
        if outcome.end == End::Signaled(9) {
            // The supervisor itself may have been the victim; whatever it watched over must not continue.
            let _ = process::leftovers::kill(TEST_MARKER, &call.marker());
        }
        let written = sweep::open_directory(&call.root).ok();
        Ok(call.finish(outcome, json!({ "backend": "none" }), written))
    }

    /// What is added to the clean environment.
    fn variables(&self, call: &Call<'_>) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([
            (MARKER.to_owned(), call.on.run.id.slug().to_string()),
            (TEST_MARKER.to_owned(), call.marker()),
        ]);
        let shown = &call.on.run.started.contract.sandbox_read;
        if let Ok(path) = outside_path(&self.context, shown).into_string() {
            variables.insert("PATH".to_owned(), path);
        }
        variables
    }
}

/// One command that can be started.
struct Call<'c> {
    on: &'c Ground<'c>,
    item: &'c Item,
    test: &'c TestCommand,
    program: Program,
    /// Where it finds the tree.
    root: PathBuf,
    limits: Limits,
    redactor: Arc<Redactor>,
}

impl Call<'_> {
    fn command(&self) -> sandbox::Command {
        let program = self.program.path.to_string_lossy().into_owned();
        sandbox::Command { program, args: self.test.argv[1..].to_vec() }
    }

    fn marker(&self) -> String {
        format!("{}/{}", self.on.run.id.slug(), self.item.id)
    }

    fn tried(self, end: End) -> Tried {
        Tried { program: Some(self.program), ..Tried::not_run(end) }
    }

    /// What is known once everything of it is dead; `written` is where it wrote to the tree.
    fn finish(self, outcome: Outcome, sandbox: Value, written: Option<OwnedFd>) -> Tried {
        let report = || written.and_then(|root| report(self.test, &root));
        // Counted in what is kept, since whoever counts again has nothing else.
        let printed = Printed::new(&self.redactor, kept(outcome.stdout), kept(outcome.stderr));
        let counts = counted(&printed.stdout, &printed.stderr).or_else(report);
        Tried { end: outcome.end, counts, printed, elapsed: outcome.elapsed, program: Some(self.program), sandbox }
    }
}

/// The counts of the report that the command says it writes. No link is followed, nothing is waited for.
fn report(test: &TestCommand, root: &OwnedFd) -> Option<TestCounts> {
    let path = contract::RepoPath::parse(junit_file_named(&test.argv)?).ok()?;
    let (dir, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
    let dir = sweep::open_below(root, dir.as_bytes()).ok()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(REPORT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    counted_in_junit(&bytes)
}
