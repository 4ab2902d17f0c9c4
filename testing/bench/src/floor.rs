//! The floors: what the machine charges for the least anybody would have to do.

use crate::Result;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An event of the log is about this long.
const APPENDED_BYTES: usize = 361;

/// How many barriers the floor of a step has.
const STEP_BARRIERS: usize = 4;

/// A file that small pieces are appended to, each with its barrier.
pub(crate) struct Appender {
    file: File,
}

impl Appender {
    pub(crate) fn create(path: &Path) -> Result<Appender> {
        Ok(Appender { file: File::options().create(true).append(true).open(path)? })
    }

    /// Appends one piece and waits until it is on disk.
    pub(crate) fn append(&mut self) -> Result<()> {
        self.file.write_all(&[b'x'; APPENDED_BYTES])?;
        Ok(self.file.sync_all()?)
    }

    /// How many pieces a second reach the disk, one after the other.
    pub(crate) fn rate(&mut self, lasting: Duration) -> Result<f64> {
        let started = Instant::now();
        let mut count = 0u32;
        while started.elapsed() < lasting {
            self.append()?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    }
}

/// The floor of a step: start the agent and read its answer, and four barriers.
pub(crate) struct StepFloor {
    appender: Appender,
    agent: Vec<String>,
    cwd: PathBuf,
}

/// One measurement of it.
pub(crate) struct StepFloorSample {
    pub(crate) spawn: Duration,
    pub(crate) barriers: Duration,
}

impl StepFloor {
    pub(crate) fn new(dir: &Path, agent: &[String]) -> Result<StepFloor> {
        let appender = Appender::create(&dir.join("floor"))?;
        Ok(StepFloor { appender, agent: agent.to_vec(), cwd: dir.to_owned() })
    }

    pub(crate) fn measure(&mut self) -> Result<StepFloorSample> {
        let started = Instant::now();
        let (program, args) = self.agent.split_first().ok_or("an agent has a program")?;
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(&self.cwd).stdin(Stdio::null());
        if !command.output()?.status.success() {
            return Err("the agent failed".into());
        }
        let spawn = started.elapsed();
        for _ in 0..STEP_BARRIERS {
            self.appender.append()?;
        }
        Ok(StepFloorSample { spawn, barriers: started.elapsed() - spawn })
    }
}
