//! `SandboxJob` to `SandboxResult`: a command that somebody hands over with its files as text.

use super::{Done, File, Files, Means, Trouble, Work, run};
use crate::process::{Cancel, End, Limits};
use crate::{Error, Result};
use contract::Backend;
use contract::documents::sandbox_job::{Provider, SandboxMeta};
use contract::documents::{SandboxJob, SandboxResult};
use std::time::Duration;

/// Where the files of a job are, below the backend's root.
const DIR: &str = "work";

/// Kept of each output stream; a result is a document.
const OUTPUT_BYTES_MAX: u64 = 8 << 20;

/// What came of a job.
pub struct Ran {
    /// The document.
    pub result: SandboxResult,
    /// What is not in it, each with its reason.
    pub left_out: Vec<String>,
}

/// Runs a job to its end. A command that took too long or was ended is an error: it has no exit code.
pub fn run_job(backend: Backend, job: &SandboxJob, means: &Means<'_>, cancel: &Cancel) -> Result<Ran> {
    let files: Files = job.files.iter().map(|(path, text)| (format!("{DIR}/{path}"), File::text(text))).collect();
    let wall = Duration::from_millis(job.timeout_ms);
    let work = Work {
        argv: &job.argv(),
        files: &files,
        env: job.env.clone(),
        stdin: &[],
        cwd: DIR,
        image: Some(job.image_or_template.as_str()).filter(|name| !name.is_empty()),
        limits: Limits { wall, idle: None, output_bytes_max: OUTPUT_BYTES_MAX, clock: None },
    };
    let done = run(backend, &work, means, cancel).map_err(|trouble| trouble.into_error(backend))?;
    let exit_code = exit_code(&done, job, backend)?;
    let Done { stdout, stderr, left, boot, .. } = done;
    let mut left_out = left.left_out.clone();
    let mut changed = std::collections::BTreeMap::new();
    for (path, file) in left.below(DIR).changed {
        match file {
            File::Link(_) => left_out.push(format!("{path} was left out: it is a link")),
            File::Regular { bytes, .. } => match String::from_utf8(bytes) {
                Ok(text) => drop(changed.insert(path, text)),
                Err(_) => left_out.push(format!("{path} was left out: it is not text")),
            },
        }
    }
    let text = |captured: crate::process::Captured| String::from_utf8_lossy(&captured.with_mark()).into_owned();
    let boot_ms = u64::try_from(boot.as_millis()).unwrap_or(u64::MAX);
    let meta = SandboxMeta { boot_ms, provider: provider(backend) };
    let result = SandboxResult { exit_code, stdout: text(stdout), stderr: text(stderr), files: changed, meta };
    Ok(Ran { result, left_out })
}

fn exit_code(done: &Done, job: &SandboxJob, backend: Backend) -> Result<i32> {
    let broken = |what: String| Err(Trouble::Broken(what).into_error(backend));
    match &done.end {
        End::Exited(code) => Ok(*code),
        End::Signaled(signal) => Ok(128 + signal),
        End::WallDeadline | End::IdleDeadline => {
            let message =
                format!("the command took longer than {} ms and was ended, with what it ran in", job.timeout_ms);
            Err(Error::declined(message, "give it more time with timeoutMs"))
        }
        End::LimitReached(limit) => Err(Error::declined(
            format!("the command ran into a limit of the sandbox: {limit:?}"),
            "norma help sandbox",
        )),
        End::NotStarted(why) => {
            let hint = "a program is looked for where the command runs; no shell is involved";
            Err(Error::usage(format!("the command was not started: {why}"), hint))
        }
        End::Canceled => Err(Error::declined("canceled; nothing of it is left".to_owned(), "run it again")),
        End::NotConfined(why) | End::NotSetUp(why) => broken(why.clone()),
    }
}

fn provider(backend: Backend) -> Provider {
    match backend {
        Backend::Native => Provider::Native,
        Backend::Microsandbox => Provider::Microsandbox,
        Backend::E2b => Provider::E2b,
        Backend::None => unreachable!("BUG: a job is always confined"),
    }
}
