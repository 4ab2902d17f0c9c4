//! What tests came to: judged again by what is kept of each command, or compared with what they come to today.

use super::tally::{Found, found};
use crate::change::acceptance::{Acceptance, CommandOutcome, LogFile, Plan, Side, plan};
use crate::git::{ObjectId, Objects};
use crate::{Error, Result};
use contract::work::TestCounts;
use contract::{Item, RepoPath, hash};
use run::Run;
use run::gate::acceptance::{TestStatus, counted, junit_file_named, stops_at};
use run::gate::test_files::TestFiles;
use std::path::Path;

const GATE: Option<&str> = Some("tests");

/// Where an item's tests were tried, and where what they came to is kept.
pub(super) struct Ground<'g> {
    pub(super) objects: &'g Objects,
    pub(super) run: &'g Run,
    /// The directory of the change.
    pub(super) dir: &'g Path,
    pub(super) tree: ObjectId,
    pub(super) base: ObjectId,
}

/// What `gates.json` has of an item's tests.
pub(super) fn on_record(dir: &Path) -> Result<Acceptance> {
    let path = dir.join("gates.json");
    let bytes = std::fs::read(&path).map_err(|source| Error::io("read", &path, source))?;
    let why = || format!("{} does not say what the tests came to", path.display());
    let damaged = || store::Error::Damaged { log: "its evidence".to_owned(), why: why() };
    let mut value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
    Ok(serde_json::from_value(value["tests"].take()).map_err(|_| damaged())?)
}

/// What an item's tests came to, as it follows from what is kept of each command. What speaks against the record is
/// added to `found`.
pub(super) fn judge_again(on: &Ground<'_>, item: &Item, against: &mut Vec<Found>) -> Result<Acceptance> {
    let recorded = on_record(on.dir)?;
    let files = TestFiles::new(&item.tests);
    let changes = on.objects.diff(on.base, on.tree)?;
    let rules = on.run.started.contract.rules;
    let plan = plan(on.objects, rules, item, (on.base, on.tree), &changes, &files)?;
    let mut now = recorded.clone();
    against.extend(other_commands(&recorded, item, &plan).map(|what| found(GATE, what)));
    let mut stopped = plan.sides.is_empty();
    for command in &mut now.commands {
        for what in impossible_outcome(command, stopped) {
            against.push(found(GATE, format!("test {:?}: {what}", command.name)));
        }
        stopped |= stops_at(command.must_pass && !command.of_whole, command.status);
        recount(on, command, against)?;
    }
    now.conclude(&plan);
    now.tests_changed = files.changed(changes.iter().map(|change| change.path.as_slice()));
    for (what, same) in [
        ("status", recorded.status == now.status),
        ("counts", recorded.counts == now.counts),
        ("findings", recorded.findings == now.findings),
        ("needs_approval", recorded.needs_approval == now.needs_approval),
        ("tests_changed", recorded.tests_changed == now.tests_changed),
    ] {
        if !same {
            against.push(found(GATE, format!("{what} on record is not what follows from the commands")));
        }
    }
    Ok(now)
}

/// The commands on record are those of the contract, in its order, once for each version of the tests.
fn other_commands(recorded: &Acceptance, item: &Item, plan: &Plan) -> Option<String> {
    let sides: Vec<Side> = match plan.sides.is_empty() {
        true => vec![Side::Baseline],
        false => plan.sides.iter().map(|(side, _)| *side).collect(),
    };
    let asked = sides.into_iter().flat_map(|side| plan.commands(side, item).map(move |test| (side, test)));
    let stopped = |it: &CommandOutcome| stops_at(it.must_pass && !it.of_whole, it.status);
    let failed = match recorded.commands.iter().any(stopped) {
        true => Vec::new(),
        false => recorded.failed_of_whole(),
    };
    let again = item.tests.iter().filter(|test| test.of_whole && failed.contains(&&test.argv));
    let asked = asked.chain(again.map(|test| (Side::Before, test)));
    let same = recorded.commands.iter().map(|it| (it.tests, &it.name, &it.argv, it.must_pass, it.timeout_ms));
    let asked = asked.map(|(side, test)| (side, &test.name, &test.argv, test.must_pass, item.timeout_ms));
    same.ne(asked).then(|| "the commands on record are not those of the contract".to_owned())
}

/// What cannot be true of a command at once. `stopped`: an earlier one left nothing to be tried.
fn impossible_outcome(command: &CommandOutcome, stopped: bool) -> Vec<&'static str> {
    let status = command.status;
    let tried = status != TestStatus::Skipped;
    let of_code = match command.exit_code {
        None => !tried,
        Some(0) => status == TestStatus::Pass,
        Some(_) => matches!(status, TestStatus::Fail | TestStatus::Error),
    };
    let checks = [
        (of_code, "its status is not that of its exit code"),
        (tried != stopped, "it was tried exactly when it was not to be"),
        (command.why.is_some() == (tried && status != TestStatus::Pass), "it says why exactly when it should not"),
        (!command.timeout || status == TestStatus::Error, "its time was up, and it is no error"),
        (
            command.stdout.is_some() == tried && command.stderr.is_some() == tried,
            "its logs are not those of one that was tried",
        ),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}

/// Counts the tests of a command again, in the logs that are kept of it.
fn recount(on: &Ground<'_>, command: &mut CommandOutcome, against: &mut Vec<Found>) -> Result<()> {
    let (Some(stdout), Some(stderr)) = (&command.stdout, &command.stderr) else {
        command.counts = None;
        return Ok(());
    };
    let bytes_max = (on.run.started.contract.limits.output_mb as usize) << 20;
    let mut read = |log: &LogFile| {
        let path = RepoPath::parse(&log.path).map_err(|problem| {
            let why = format!("a log of its tests is said to be at {:?}: {problem}", log.path);
            store::Error::Damaged { log: on.run.id.slug().to_string(), why }
        })?;
        let path = on.dir.join(path.as_str());
        let mut bytes = std::fs::read(&path).map_err(|source| Error::io("read", &path, source))?;
        if hash::sha256(&bytes) != log.sha256 || bytes.len() as u64 != log.size {
            against.push(found(GATE, format!("{} is not the log on record", log.path)));
        }
        // Behind that is only the mark that says how much was cut.
        bytes.truncate(bytes_max);
        Ok::<_, Error>(bytes)
    };
    let said: Option<TestCounts> = counted(&read(stdout)?, &read(stderr)?);
    // A report that a runner wrote to a file is not kept.
    if said.is_some() || junit_file_named(&command.argv).is_none() {
        command.counts = said;
    }
    Ok(())
}

/// What the tests come to today, against what they came to: differences, and what is worth knowing besides.
pub(super) fn compare(recorded: &Acceptance, now: &Acceptance) -> (Vec<Found>, Vec<String>) {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    if recorded.commands.len() != now.commands.len() {
        let (was, is) = (recorded.commands.len(), now.commands.len());
        all.push(found(GATE, format!("{was} commands are on record, and {is} were tried now")));
    }
    for (was, is) in recorded.commands.iter().zip(&now.commands) {
        let name = was.name.escape_debug();
        if was.status != is.status {
            let why = is.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            all.push(found(GATE, format!("test {name} was {} and is {} now{why}", was.status, is.status)));
        }
        if was.program_sha256 != is.program_sha256 {
            let program = is.program.as_deref().unwrap_or("nothing");
            notes.push(format!("test {name} was started with another program than {program} as it is now"));
        }
    }
    (all, notes)
}
