//! What the tests of an item came to, read back from the `gates.json` of its change.

use super::record::change_dir;
use crate::gate::acceptance::TestStatus;
use contract::Digest;
use contract::documents::test_report::CommandReport;
use contract::documents::{ArtifactRef, Sha256};
use contract::work::TestCounts;
use serde::Deserialize;

/// The tests of an item, as they are on record.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tests {
    /// All of them together.
    pub(super) status: TestStatus,
    /// One by one.
    pub(super) commands: Vec<Command>,
    /// How many there were, as far as their runners said so.
    pub(super) counts: Option<TestCounts>,
}

/// One command, run or not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Command {
    name: String,
    argv: Vec<String>,
    must_pass: bool,
    exit_code: Option<i64>,
    timeout_ms: u64,
    duration_ms: u64,
    stdout: Option<Log>,
    stderr: Option<Log>,
}

/// A kept file, below the change's directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Log {
    path: String,
    sha256: Digest,
    size: u64,
}

#[derive(Deserialize)]
struct GatesFile {
    tests: Option<Tests>,
}

impl Tests {
    /// Reads them from a change's `gates.json`; none if no test was to be run.
    pub fn read(gates: &[u8]) -> Result<Option<Tests>, String> {
        serde_json::from_slice::<GatesFile>(gates).map(|file| file.tests).map_err(|error| error.to_string())
    }
}

/// The tests of one item of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tried<'a> {
    pub(super) place: u32,
    pub(super) tests: &'a Tests,
}

impl Tried<'_> {
    /// What is said of each command that was run. One that was not has no exit code, and none is made up for it.
    pub(super) fn commands(&self) -> Vec<CommandReport> {
        self.tests.commands.iter().filter_map(|command| self.command(command)).collect()
    }

    fn command(&self, command: &Command) -> Option<CommandReport> {
        Some(CommandReport {
            name: command.name.clone(),
            cmd_argv: command.argv.clone(),
            must_pass: command.must_pass,
            timeout_sec: seconds(command.timeout_ms),
            exit_code: command.exit_code?,
            duration_sec: seconds(command.duration_ms),
            cwd: None,
            stdout: self.log("stdout", command.stdout.as_ref()?),
            stderr: self.log("stderr", command.stderr.as_ref()?),
        })
    }

    fn log(&self, name: &str, log: &Log) -> ArtifactRef {
        ArtifactRef {
            name: name.to_owned(),
            path: format!("{}/{}", change_dir(self.place), log.path),
            sha256: Sha256(log.sha256),
            media_type: None,
            size_bytes: Some(log.size),
        }
    }

    /// The files of this name beside the logs of the commands that were run.
    pub(super) fn files(&self, name: &str) -> Vec<String> {
        let dirs = self.tests.commands.iter().filter_map(|command| command.stdout.as_ref()?.path.rsplit_once('/'));
        dirs.map(|(dir, _)| format!("{}/{dir}/{name}", change_dir(self.place))).collect()
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
