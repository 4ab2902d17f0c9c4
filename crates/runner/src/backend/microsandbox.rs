//! Virtual machines on this machine, by the program `msb`: made with a directory of files mounted in them, told what to run,
//! removed. Whether there can be one is what `msb doctor` says; that `/dev/kvm` opens means nothing.

use super::{BOOT_MAX, Done, END_MAX, Left, Means, Trouble, Work, tree};
use crate::context::scratch::Scratch;
use crate::process::{self, Cancel, Command, End, Limits, Outcome};
use contract::MicrosandboxConfig;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the files are in a machine.
pub(super) const ROOT: &str = "/norma";

/// How long the check may take.
const DOCTOR_MAX: Duration = Duration::from_secs(30);

/// Kept of what `msb` itself prints.
const PRINTED_BYTES_MAX: u64 = 64 << 10;

/// Memory of a machine.
const MEMORY: &str = "2G";

/// The exit code with which `msb exec` says that the command could not be started, and not how it ended.
const NOT_STARTED: [i32; 2] = [126, 127];

/// The program, with what it is always told.
struct Msb<'m> {
    program: PathBuf,
    config: MicrosandboxConfig,
    means: &'m Means<'m>,
}

/// A machine that is removed when nobody holds it any more.
struct Held<'m> {
    msb: &'m Msb<'m>,
    name: String,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Whoever canceled must not leave a machine: only time bounds this.
        let removed = Cancel::new().map_err(|error| error.to_string()).and_then(|never| {
            let removed = self.msb.run(&["remove", "--force", "--quiet", &self.name], END_MAX, &[], &never);
            removed.map_err(|trouble| trouble.to_string())
        });
        match removed {
            Ok(outcome) if outcome.end == End::Exited(0) => {}
            Ok(outcome) => {
                tracing::warn!(target: "norma::sandbox", "machine {} could not be removed: {}", self.name, last_line(&outcome));
            }
            Err(why) => tracing::warn!(target: "norma::sandbox", "machine {} could not be removed: {why}", self.name),
        }
    }
}

pub(super) fn check(means: &Means<'_>, cancel: &Cancel) -> Result<(), Trouble> {
    let msb = Msb::find(means)?;
    msb.rootfs(None)?;
    let outcome = msb.run(&["doctor"], DOCTOR_MAX, &[], cancel)?;
    match outcome.end {
        End::Exited(0) => Ok(()),
        End::Exited(_) => {
            let why = doctor_says(&outcome);
            Err(Trouble::unavailable(
                format!("msb doctor: {why}"),
                "fix what it names: msb doctor; or use native or e2b",
            ))
        }
        End::Canceled => Err(Trouble::Broken("canceled".to_owned())),
        other => {
            Err(Trouble::unavailable(format!("msb doctor did not end well: {other:?}"), "run it yourself: msb doctor"))
        }
    }
}

pub(super) fn run(work: &Work<'_>, means: &Means<'_>, cancel: &Cancel) -> Result<Done, Trouble> {
    check(means, cancel)?;
    let msb = Msb::find(means)?;
    let image = msb.rootfs(work.image)?;
    let failed = |error: std::io::Error| Trouble::Broken(format!("could not make its files: {error}"));
    let scratch = Scratch::new("job").map_err(|error| Trouble::Broken(error.to_string()))?;
    std::fs::create_dir_all(scratch.0.join(work.cwd)).map_err(failed)?;
    tree::write(&scratch.0, work.files).map_err(failed)?;
    let name = format!("norma-{}", store::new_uuid());
    let began = Instant::now();
    // From here on there may be one, also if making it failed in the middle.
    let held = Held { msb: &msb, name: name.clone() };
    let lifetime = format!("{}s", (BOOT_MAX + work.limits.wall + END_MAX).as_secs());
    let mount = format!("{}:{ROOT}", scratch.0.display());
    let create = [
        "create",
        "--quiet",
        "--name",
        &name,
        "--no-net",
        "--security",
        "restricted",
        "--memory",
        MEMORY,
        "--max-duration",
        &lifetime,
        "--pull",
        "never",
        "--mount-dir",
        &mount,
        "--",
        &image,
    ];
    let made = msb.run(&create, BOOT_MAX, &[], cancel)?;
    let boot = began.elapsed();
    match &made.end {
        End::Exited(0) => {}
        End::Canceled => return Ok(done(End::Canceled, made, Left::default(), boot, &image)),
        End::WallDeadline => {
            let what = format!("the machine did not start within {} s", BOOT_MAX.as_secs());
            return Err(Trouble::unavailable(what, "see what it says: msb doctor"));
        }
        _ => {
            return Err(Trouble::unavailable(
                format!("msb create: {}", last_line(&made)),
                "see what it says: msb doctor",
            ));
        }
    }
    let outcome = msb.exec(&held.name, work, cancel)?;
    drop(held);
    let left = match outcome.end {
        // The command's own signals are exit codes there.
        End::Signaled(signal) => return Err(Trouble::Broken(format!("msb exec was killed by signal {signal}"))),
        End::Exited(_) => {
            let (after, left_out) = tree::read(&scratch.0, &|_| true).map_err(Trouble::Broken)?;
            Left::between(work.files, after, left_out)
        }
        _ => Left::default(),
    };
    let end = how_it_ended(&outcome);
    Ok(done(end, outcome, left, boot, &image))
}

fn done(end: End, outcome: Outcome, left: Left, boot: Duration, image: &str) -> Done {
    let record = json!({
        "backend": "microsandbox", "image": image, "network": "denied", "security": "restricted",
        "boot_ms": boot.as_millis() as u64,
    });
    let Outcome { stdout, stderr, elapsed, .. } = outcome;
    Done { end, stdout, stderr, left, boot, elapsed, record }
}

/// `msb exec` ends as the command did; what it could not start it says on stderr.
fn how_it_ended(outcome: &Outcome) -> End {
    match &outcome.end {
        End::Exited(code) if NOT_STARTED.contains(code) && outcome.stdout.bytes.is_empty() => {
            let said = last_line(outcome);
            if said.starts_with("error:") { End::NotStarted(said) } else { End::Exited(*code) }
        }
        end => end.clone(),
    }
}

impl<'m> Msb<'m> {
    fn find(means: &'m Means<'m>) -> Result<Msb<'m>, Trouble> {
        let config = means.backends.microsandbox.clone().ok_or_else(|| {
            let fix = "add \"sandbox\": {\"microsandbox\": {\"rootfs\": \"/…\"}} to config.json";
            Trouble::unavailable("there is no sandbox.microsandbox in the configuration", fix)
        })?;
        let name = config.bin.clone().unwrap_or_else(|| "msb".to_owned());
        let path = means.env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let program = process::resolve(&name, &path, Path::new("/"));
        let program = program.filter(|program| program.is_absolute()).ok_or_else(|| {
            let fix = "install microsandbox, or say where msb is with sandbox.microsandbox.bin";
            Trouble::unavailable(format!("there is no program {name}"), fix)
        })?;
        Ok(Msb { program, config, means })
    }

    /// What a machine is made from.
    fn rootfs(&self, image: Option<&str>) -> Result<String, Trouble> {
        let image = image.map(str::to_owned).or_else(|| self.config.rootfs.clone());
        image.filter(|image| !image.is_empty()).ok_or_else(|| {
            let fix = "name a root directory or an image with sandbox.microsandbox.rootfs";
            Trouble::unavailable("nothing says what its machines are made from", fix)
        })
    }

    /// Runs the command in a machine. Variables go over arguments of a process of the same user, as its files do.
    fn exec(&self, name: &str, work: &Work<'_>, cancel: &Cancel) -> Result<Outcome, Trouble> {
        let cwd = if work.cwd.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{}", work.cwd) };
        let stdin = if work.stdin.is_empty() { "--no-stdin" } else { "--stream" };
        let mut args: Vec<OsString> =
            ["exec", "--quiet", "--no-tty", stdin, "--workdir", &cwd].map(OsString::from).to_vec();
        for (name, value) in &work.env {
            args.extend(["--env".into(), format!("{name}={value}").into()]);
        }
        args.extend([name.into(), "--".into()]);
        args.extend(work.argv.iter().map(OsString::from));
        self.process(args, work.stdin, work.limits.clone(), cancel)
    }

    fn run(&self, args: &[&str], wall: Duration, stdin: &[u8], cancel: &Cancel) -> Result<Outcome, Trouble> {
        let limits = Limits { wall, idle: None, output_bytes_max: PRINTED_BYTES_MAX, clock: None };
        self.process(args.iter().map(OsString::from).collect(), stdin, limits, cancel)
    }

    fn process(&self, args: Vec<OsString>, stdin: &[u8], limits: Limits, cancel: &Cancel) -> Result<Outcome, Trouble> {
        let mut env = self.means.env.clone();
        if let Some(home) = &self.config.home {
            env.insert("MSB_HOME".into(), home.into());
        }
        let command = Command {
            program: self.program.clone(),
            args,
            cwd: PathBuf::from("/"),
            env,
            stdin: stdin.to_vec(),
            limits,
        };
        let outcome = process::run(&command, self.means.supervisor, cancel, &mut |_| ());
        let outcome =
            outcome.map_err(|error| Trouble::Broken(format!("could not run {}: {error}", self.program.display())))?;
        match &outcome.end {
            End::NotStarted(why) => Err(Trouble::unavailable(why.clone(), "check sandbox.microsandbox.bin")),
            _ => Ok(outcome),
        }
    }
}

/// What the doctor found: the line that begins with `error:`, or the last one.
fn doctor_says(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr.bytes).into_owned();
    let error = text.lines().find_map(|line| line.trim().strip_prefix("error:").map(str::trim));
    error.map_or_else(|| last_line(outcome), shown)
}

fn last_line(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr.bytes).into_owned();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    shown(line)
}

fn shown(line: &str) -> String {
    line.chars().take(300).collect::<String>().escape_debug().to_string()
}
