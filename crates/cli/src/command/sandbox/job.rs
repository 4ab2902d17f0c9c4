//! `norma sandbox job`: one command with its files, run where a backend confines it; what came of it, as a document.

use crate::error::{CommandError, Outcome, code};
use crate::interrupts::{Interrupts, Stopping};
use crate::surroundings::Surroundings;
use crate::text::{bytes_out, err, safe};
use contract::documents::SandboxJob;
use contract::documents::sandbox_job::JOB_BYTES_MAX;
use contract::{Backend, Config, Mode};
use runner::process::Cancel;
use runner::{Means, check_sandbox, run_job};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HINT: &str = "name a file with a SandboxJob, or - for stdin (norma help sandbox, norma schema sandbox_job)";

#[derive(clap::Args)]
pub(super) struct Args {
    /// A file with a SandboxJob, or - for stdin
    file: PathBuf,
    /// What confines it; without, sandbox.backend of the configuration
    #[arg(long, value_enum)]
    backend: Option<Named>,
}

/// The backends that a job can be sent to. None is not one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Named {
    /// the kernel of this machine
    Native,
    /// a virtual machine on this machine
    Microsandbox,
    /// a virtual machine of a service
    E2b,
}

impl From<Named> for Backend {
    fn from(named: Named) -> Backend {
        match named {
            Named::Native => Backend::Native,
            Named::Microsandbox => Backend::Microsandbox,
            Named::E2b => Backend::E2b,
        }
    }
}

impl Args {
    pub(super) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let job = self.job(here)?;
        let (config, root) = config(here)?;
        let mut sandbox = config.sandbox.clone();
        let mode = config.mode.max(here.mode);
        sandbox.backend = self.backend.map_or(sandbox.backend, Backend::from);
        if let Some(why) = sandbox.backends().missing(sandbox.backend) {
            let hint = "nothing was run; every setting: norma help config; or use --backend native";
            return Err(CommandError::new(code::ENVIRONMENT, format!("sandbox_unavailable: {why}"), hint));
        }
        let means_sandbox = here.sandbox();
        check_sandbox(&sandbox, mode.max(Mode::Development), &means_sandbox)?;
        let cancel = cancel()?;
        let (supervisor, user_env) = (here.supervisor(), std::env::vars_os().collect());
        let means = Means {
            sandbox: &means_sandbox,
            supervisor: &supervisor,
            env: here.agent_env(),
            user_env: &user_env,
            backends: &sandbox.backends(),
            extra_roots_pem: roots(&config, &root)?,
        };
        let ran = run_job(sandbox.backend, &job, &means, &cancel)?;
        for why in &ran.left_out {
            err(&format!("norma: {}", safe(why)));
        }
        let mut bytes = serde_json::to_vec(&ran.result).expect("BUG: a result is plain data");
        bytes.push(b'\n');
        bytes_out(&bytes);
        Ok(if ran.result.exit_code == 0 { ExitCode::SUCCESS } else { ExitCode::from(code::FAILED) })
    }

    fn job(&self, here: &Surroundings) -> Outcome<SandboxJob> {
        let shown = safe(&self.file.to_string_lossy());
        let failed = |error| CommandError::usage(format!("could not read {shown}: {error}"), HINT);
        let mut bytes = Vec::new();
        let most = JOB_BYTES_MAX as u64 + 1;
        let read = match self.file == Path::new("-") {
            true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
            false => {
                std::fs::File::open(here.cwd.join(&self.file)).and_then(|file| file.take(most).read_to_end(&mut bytes))
            }
        };
        read.map_err(failed)?;
        SandboxJob::read(&bytes).map_err(|problems| {
            let lines: String = problems.iter().map(|problem| format!("\n  {}", safe(&problem.to_string()))).collect();
            CommandError::usage(format!("{shown} is not a valid job; nothing was run:{lines}"), HINT)
        })
    }
}

/// The settings that count here, and where their paths begin: outside of a repository, the user's own.
fn config(here: &Surroundings) -> Outcome<(Config, PathBuf)> {
    let Ok(context) = here.context_to_be() else {
        return Ok((here.own_config()?, here.cwd.clone()));
    };
    let named = here.config.as_ref().map(|path| here.cwd.join(path));
    let in_force = runner::settings_in_force(&context, named.as_deref())?;
    if let Some(unused) = in_force.unused {
        err(&format!("norma: {unused}"));
    }
    Ok((in_force.settings.config, context.layout.root))
}

fn roots(config: &Config, root: &Path) -> Outcome<Option<String>> {
    let Some(path) = config.tls.extra_roots.as_ref().map(|path| root.join(path)) else { return Ok(None) };
    std::fs::read_to_string(&path).map(Some).map_err(|error| {
        let message = format!("tls.extra_roots: could not read {}: {error}", safe(&path.to_string_lossy()));
        CommandError::new(code::ENVIRONMENT, message, "norma help config")
    })
}

/// Ctrl-C ends the command with what it runs in, and not before that is gone.
pub(crate) fn cancel() -> Outcome<Cancel> {
    let failed = |error| CommandError::new(code::ENVIRONMENT, format!("no descriptor is left: {error}"), "try again");
    let cancel = Cancel::new().map_err(failed)?;
    let stop = cancel.clone();
    Interrupts::install()?.watch(Some(Stopping::new(move |_| stop.cancel())));
    Ok(cancel)
}
