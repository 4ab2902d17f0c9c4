//! Machines of the service e2b: the gateway speaks its protocol; here is what a command needs of it. A machine is ended
//! whatever happened in it, and has a time of its own after which it ends if norma is not there any more to do so.

use super::tree::{Tally, fits, leave_out};
use super::{BOOT_MAX, Done, END_MAX, File, Files, Left, Means, Trouble, Work};
use crate::process::{Cancel, Captured, End};
use contract::E2bConfig;
use gateway::e2b::{E2b, Entry, EntryKind, Exit, Machine, Printed, Program};
use gateway::{Key, ServiceProblem, Until};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where files are on a machine: below the home of its usual user.
pub(super) const ROOT: &str = "/home/user/norma";

/// How long files may take each way, beside the command's own time.
const FILES_TIME: Duration = Duration::from_secs(300);

/// How many paths one command takes that makes files executable.
const PATHS_PER_COMMAND: usize = 500;

/// A machine that is ended when nobody holds it any more.
struct Held {
    machine: Machine,
    stop: Arc<OwnedFd>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Whoever canceled must not leave a machine that costs: only time bounds this.
        let until = Until { deadline: Instant::now() + END_MAX, stop: never(&self.stop) };
        if let Err(problem) = self.machine.end(&until) {
            let id = self.machine.id();
            tracing::warn!(target: "norma::sandbox", "e2b machine {id} could not be ended; its time ends it: {problem}");
        }
    }
}

pub(super) fn check(means: &Means<'_>) -> Result<(), Trouble> {
    service(means).map(drop)
}

pub(super) fn run(work: &Work<'_>, means: &Means<'_>, cancel: &Cancel) -> Result<Done, Trouble> {
    let (service, config) = service(means)?;
    let began = Instant::now();
    let stop =
        Arc::new(cancel.descriptor().map_err(|error| Trouble::Broken(format!("no descriptor is left: {error}")))?);
    let until = |time: Duration| Until { deadline: Instant::now() + time, stop: stop.clone() };
    let template = work.image.unwrap_or(&config.template);
    let lifetime = BOOT_MAX + FILES_TIME * 2 + work.limits.wall + END_MAX;
    let machine = match service.create(template, lifetime.as_secs(), &until(BOOT_MAX)) {
        Err(ServiceProblem::Canceled) => return Ok(never_started(End::Canceled, began)),
        made => made.map_err(|problem| not_made(&config, problem))?,
    };
    let held = Held { machine, stop: stop.clone() };
    match carry_out(&held.machine, work, &until, (template, began)) {
        Err(ServiceProblem::Canceled) => Ok(never_started(End::Canceled, began)),
        done => done.map_err(|problem| Trouble::Broken(problem.to_string())),
    }
}

/// The service as it is configured, or what keeps it from being used.
fn service(means: &Means<'_>) -> Result<(E2b, E2bConfig), Trouble> {
    let config = means.backends.e2b.clone().ok_or_else(|| {
        Trouble::unavailable(
            "there is no sandbox.e2b in the configuration",
            "add \"sandbox\": {\"e2b\": {}} to config.json",
        )
    })?;
    let name = &config.key_env;
    let key = means.variable(name).ok_or_else(|| {
        let fix = format!("export {name}=…, or name another variable in sandbox.e2b.key_env");
        Trouble::unavailable(format!("the variable {name}, which should hold its key, is not set"), fix)
    })?;
    let key = Key::new(key).map_err(|problem| Trouble::unavailable(problem.to_string(), format!("check {name}")))?;
    let service = E2b::new(&config.url, key, means.way());
    let service = service.map_err(|problem| Trouble::unavailable(problem.to_string(), "check sandbox.e2b.url"))?;
    Ok((service, config))
}

fn not_made(config: &E2bConfig, problem: ServiceProblem) -> Trouble {
    let fix = match &problem {
        ServiceProblem::Refused { status: 401 | 403, .. } => format!("check the key in {}", config.key_env),
        ServiceProblem::Refused { .. } => format!("check sandbox.e2b.template ({:?})", config.template),
        _ => format!("check sandbox.e2b.url ({})", config.url),
    };
    Trouble::unavailable(problem.to_string(), fix)
}

type Began<'t> = (&'t str, Instant);

fn carry_out(
    machine: &Machine,
    work: &Work<'_>,
    until: &dyn Fn(Duration) -> Until,
    (template, began): Began<'_>,
) -> Result<Done, ServiceProblem> {
    machine.is_up(&until(BOOT_MAX))?;
    let boot = began.elapsed();
    let before = send(machine, work, &until(FILES_TIME))?;
    let started = Instant::now();
    let (mut stdout, mut stderr) = (Captured::default(), Captured::default());
    let most = work.limits.output_bytes_max;
    let cwd = if work.cwd.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{}", work.cwd) };
    let program = Program { argv: work.argv, env: &work.env, cwd: &cwd, stdin: work.stdin };
    // What it shares with others is over for all of them at once.
    let shared = work.limits.clock.as_ref().map(|clock| clock.left(Instant::now()));
    let wall = shared.map_or(work.limits.wall, |left| left.min(work.limits.wall));
    let ran = machine.run(&program, &until(wall), &mut |piece| match piece {
        Printed::Out(bytes) => stdout.take(&bytes, most),
        Printed::Err(bytes) => stderr.take(&bytes, most),
    });
    let end = match ran {
        Ok(Exit::Code(code)) => End::Exited(code),
        Ok(Exit::Signal(words)) => End::Signaled(signal(&words)),
        Ok(Exit::NotStarted(why)) => End::NotStarted(why),
        Err(ServiceProblem::TimedOut(_)) => End::WallDeadline,
        Err(ServiceProblem::Canceled) => End::Canceled,
        Err(problem) => return Err(problem),
    };
    let elapsed = started.elapsed();
    // Of a command that was cut off nothing counts, and its machine ends at once.
    let left = match end {
        End::Exited(_) | End::Signaled(_) => fetch(machine, work.files, &before, &until(FILES_TIME))?,
        _ => Left::default(),
    };
    let record = json!({
        "backend": "e2b", "machine": machine.id(), "template": template, "network": "denied",
        "boot_ms": boot.as_millis() as u64,
    });
    Ok(Done { end, stdout, stderr, left, boot, elapsed, record })
}

/// Takes the files to the machine; what it says of them then.
fn send(machine: &Machine, work: &Work<'_>, until: &Until) -> Result<BTreeMap<String, EntryKind>, ServiceProblem> {
    let regular = work.files.iter().filter_map(|(path, file)| match file {
        File::Regular { bytes, .. } => Some((format!("{ROOT}/{path}"), bytes.as_slice())),
        File::Link(_) => None,
    });
    let mut sent: Vec<(String, &[u8])> = regular.collect();
    // The directory that the command starts in is there even if no file is.
    let mark = format!("{ROOT}/{}/.norma-start", work.cwd);
    sent.push((mark.clone(), b""));
    machine.write(&sent, until)?;
    do_to_files(machine, &["rm", "-f", "--"], &[mark], until)?;
    let executable = work.files.iter().filter(|(_, file)| matches!(file, File::Regular { executable: true, .. }));
    let executable: Vec<String> = executable.map(|(path, _)| format!("{ROOT}/{path}")).collect();
    do_to_files(machine, &["chmod", "755", "--"], &executable, until)?;
    for (path, file) in work.files {
        if let File::Link(target) = file {
            do_to_files(machine, &["ln", "-s", "--", target], &[format!("{ROOT}/{path}")], until)?;
        }
    }
    Ok(machine.list(ROOT, until)?.into_iter().map(|Entry { path, kind }| (path, kind)).collect())
}

/// Runs one of the machine's own tools on paths.
fn do_to_files(machine: &Machine, tool: &[&str], paths: &[String], until: &Until) -> Result<(), ServiceProblem> {
    for some in paths.chunks(PATHS_PER_COMMAND) {
        let argv: Vec<String> = tool.iter().map(|word| (*word).to_owned()).chain(some.iter().cloned()).collect();
        let program = Program { argv: &argv, env: &BTreeMap::new(), cwd: "/", stdin: &[] };
        match machine.run(&program, until, &mut |_| ())? {
            Exit::Code(0) => {}
            other => {
                let why = format!("{} on the machine: {other:?}", tool[0]);
                return Err(ServiceProblem::Senseless("preparing files".to_owned(), why));
            }
        }
    }
    Ok(())
}

/// Brings back what differs. What a file looks like decides whether it is read at all; what it holds, whether it changed.
fn fetch(
    machine: &Machine,
    sent: &Files,
    before: &BTreeMap<String, EntryKind>,
    until: &Until,
) -> Result<Left, ServiceProblem> {
    let too_much = |why: String| ServiceProblem::Senseless("bringing files back".to_owned(), why);
    let (mut left, mut seen, mut tally) = (Left::default(), Files::new(), Tally::default());
    for Entry { path, kind } in machine.list(ROOT, until)? {
        if matches!(kind, EntryKind::Directory) {
            continue;
        }
        if let Err(problem) = fits(&path) {
            leave_out(&mut left.left_out, format!("{} was left out: {problem}", path.escape_debug()));
            continue;
        }
        let file = match (&kind, sent.get(&path)) {
            (EntryKind::File { modified, .. }, Some(file))
                if !modified.is_empty() && before.get(&path) == Some(&kind) =>
            {
                file.clone()
            }
            (EntryKind::File { size, mode, .. }, _) => {
                tally.add(*size).map_err(too_much)?;
                // The size that was told is not believed: the content may be no longer than it.
                let bytes =
                    machine.read(&format!("{ROOT}/{path}"), usize::try_from(*size).unwrap_or(usize::MAX), until)?;
                File::Regular { bytes, executable: mode & 0o100 != 0 }
            }
            (EntryKind::Link(target), _) => File::Link(target.clone()),
            _ => {
                leave_out(&mut left.left_out, format!("{path} was left out: it is no file"));
                continue;
            }
        };
        seen.insert(path, file);
    }
    let left_out = left.left_out;
    Ok(Left::between(sent, seen, left_out))
}

fn never_started(end: End, began: Instant) -> Done {
    Done {
        end,
        stdout: Captured::default(),
        stderr: Captured::default(),
        left: Left::default(),
        boot: Duration::ZERO,
        elapsed: began.elapsed(),
        record: json!({ "backend": "e2b" }),
    }
}

/// The number of a signal that a machine tells in words.
fn signal(words: &str) -> i32 {
    let known =
        [("hangup", 1), ("interrupt", 2), ("aborted", 6), ("killed", 9), ("segmentation", 11), ("terminated", 15)];
    known.into_iter().find(|(word, _)| words.contains(word)).map_or(9, |(_, number)| number)
}

/// A descriptor that never becomes readable, for what is done although everything else was canceled.
fn never(otherwise: &Arc<OwnedFd>) -> Arc<OwnedFd> {
    Cancel::new().and_then(|cancel| cancel.descriptor()).map_or_else(|_| otherwise.clone(), Arc::new)
}
