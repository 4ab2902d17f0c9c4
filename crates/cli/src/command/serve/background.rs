//! A server in the background: where it is, starting one that outlives the terminal, ending it, and the browser that shows
//! it.

use super::Args;
use crate::error::{CommandError, Outcome, code};
use crate::hosting::{POLL, busy, holder};
use crate::surroundings::Surroundings;
use crate::text::err;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use store::Layout;

/// How long a server in the background may take until it listens.
const START_MAX: Duration = Duration::from_secs(60);

/// Where a server is, for other commands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Whereabouts {
    pub(crate) pid: u32,
    pub(crate) url: String,
}

fn whereabouts_file(layout: &Layout) -> PathBuf {
    layout.state.join("server.json")
}

fn pid_file(layout: &Layout) -> PathBuf {
    layout.state.join("server.pid")
}

fn log_file(layout: &Layout) -> PathBuf {
    layout.state.join("server.log")
}

/// Where the server is that serves this state directory now.
pub(crate) fn whereabouts(layout: &Layout) -> Option<Whereabouts> {
    let found: Whereabouts = serde_json::from_slice(&std::fs::read(whereabouts_file(layout)).ok()?).ok()?;
    holder(layout).flatten().filter(|owner| owner.pid == found.pid).map(|_| found)
}

/// Says where the server is for as long as it is there.
pub(super) struct Noted(Vec<PathBuf>);

impl Noted {
    pub(super) fn new(layout: &Layout, found: &Whereabouts) -> Outcome<Noted> {
        let files = vec![whereabouts_file(layout), pid_file(layout)];
        store::write_whole(&files[1], format!("{}\n", found.pid).as_bytes())?;
        // Last: whoever started it in the background has waited for this one.
        store::write_whole(&files[0], serde_json::json!(found).to_string().as_bytes())?;
        Ok(Noted(files))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Has somebody own the state directory who stays: whoever has it, or else a new server in the background.
pub(crate) fn ensure_owner(here: &Surroundings, layout: &Layout) -> Outcome<()> {
    if holder(layout).is_some() {
        return Ok(());
    }
    match start(here, layout, &Args::on_any_port()) {
        Ok(Whereabouts { pid, .. }) if !here.json => {
            err(&format!("started a server in the background (pid {pid}); end it: norma serve --stop"));
            Ok(())
        }
        Ok(_) => Ok(()),
        // Somebody else came first.
        Err(_) if holder(layout).is_some() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The server of this state directory: the one that is there, or a new one in the background.
pub(super) fn start(here: &Surroundings, layout: &Layout, args: &Args) -> Outcome<Whereabouts> {
    if let Some(found) = whereabouts(layout) {
        return Ok(found);
    }
    if let Some(holder) = holder(layout).filter(|_| !args.wait) {
        return Err(busy(&holder, "wait for it: norma serve --background --wait"));
    }
    let log = layout.shown(&log_file(layout));
    let failed = |why: String| CommandError::new(code::ENVIRONMENT, why, format!("what it said: {log}"));
    let mut child = spawn(here, layout, args).map_err(|why| failed(format!("could not start a server: {why}")))?;
    let until = Instant::now() + START_MAX;
    while args.wait || Instant::now() < until {
        if let Some(found) = whereabouts(layout) {
            return Ok(found);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("the server ended at once ({status})")));
        }
        std::thread::sleep(POLL);
    }
    Err(failed(format!("the server (pid {}) does not listen after {} s", child.id(), START_MAX.as_secs())))
}

fn spawn(here: &Surroundings, layout: &Layout, args: &Args) -> std::io::Result<Child> {
    // It prints a login link.
    let log = std::fs::File::options().create(true).append(true).mode(0o600).open(log_file(layout))?;
    let mut command = Command::new(&here.exe);
    command.arg("-C").arg(&here.cwd);
    if let Some(config) = &here.config {
        command.arg("--config").arg(config);
    }
    command.arg("serve").args(flags(args));
    // A group of its own is not told when the terminal is closed.
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
}

/// The flags that make the same server in another process, which neither detaches again nor opens a browser.
fn flags(args: &Args) -> Vec<OsString> {
    let Args { port, open: _, wait, background: _, stop: _, listen, name, cert, key, user_file } = args;
    let mut flags: Vec<OsString> = vec!["--port".into(), port.to_string().into()];
    flags.extend(wait.then(|| "--wait".into()));
    let mut add = |flag: &str, value: OsString| flags.extend([flag.into(), value]);
    if let Some(address) = listen {
        add("--listen", address.to_string().into());
    }
    name.iter().for_each(|name| add("--name", name.into()));
    for (flag, file) in [("--cert", cert), ("--key", key), ("--user-file", user_file)] {
        if let Some(file) = file {
            add(flag, file.into());
        }
    }
    flags
}

/// Ends the server, and waits until it has let go of the state directory.
pub(super) fn stop(here: &Surroundings, layout: &Layout) -> Outcome<ExitCode> {
    let Some(found) = whereabouts(layout) else {
        return Err(CommandError::new(code::FAILED, "no server is running here", "start one: norma serve"));
    };
    let pid = i32::try_from(found.pid).ok().and_then(rustix::process::Pid::from_raw);
    let asked = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
    if !matches!(asked, Some(Ok(()))) {
        let message = format!("could not end the server (pid {})", found.pid);
        return Err(CommandError::new(code::ENVIRONMENT, message, "is it yours?"));
    }
    while holder(layout).flatten().is_some_and(|owner| owner.pid == found.pid) {
        std::thread::sleep(POLL);
    }
    Ok(here.print(&serde_json::json!({"pid": found.pid}), || format!("the server (pid {}) has ended", found.pid)))
}

/// Opens the user's browser, if there is a way to.
pub(crate) fn browser(url: &str) {
    for program in ["xdg-open", "wslview"] {
        let quiet = || Stdio::null();
        let mut command = Command::new(program);
        // It outlives this process, and the terminal if that is closed at once.
        command.arg(url).process_group(0).stdin(quiet()).stdout(quiet()).stderr(quiet());
        if command.spawn().is_ok() {
            return;
        }
    }
    err("no browser could be opened; use the link");
}
