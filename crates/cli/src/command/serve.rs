//! `norma serve`: every run over HTTP, until it is asked to end. The process owns the state directory, so runs of other
//! terminals are carried out by it, too.

use super::run::JOBS_DEFAULT;
use crate::error::{CommandError, Outcome, code};
use crate::interrupts::{Interrupts, Stopping};
use crate::progress::at_work;
use crate::surroundings::Surroundings;
use crate::text::{err, out, safe};
use contract::ServerConfig;
use runner::{Context, Hosted, Hosting};
use serde::{Deserialize, Serialize};
use server::{Listen, Options, Server};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Layout;

/// How often somebody who waits looks again.
const POLL: Duration = Duration::from_millis(100);
/// How long a server in the background may take until it listens.
const START_MAX: Duration = Duration::from_secs(60);

/// Serve every run over HTTP on this machine, and carry out what clients ask for
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma serve                      # http://127.0.0.1:3001, with a login link\n  norma serve --port 0 --json      # any free port; one line with url and login\n  norma serve --background         # and norma serve --stop\n  norma serve --listen 0.0.0.0:8443 --name norma.example.org --cert cert.pem --key key.pem --user-file users.json"
)]
pub(crate) struct Args {
    /// The port on this machine; 0 for any that is free
    #[arg(long, default_value_t = 3001)]
    port: u16,
    /// Open the browser
    #[arg(long)]
    open: bool,
    /// Wait for whoever owns the state directory, instead of giving up
    #[arg(long)]
    wait: bool,
    /// Detach from the terminal; .norma/server.pid has the process, .norma/server.log what it prints
    #[arg(long, conflicts_with = "stop")]
    background: bool,
    /// End the server in the background
    #[arg(long)]
    stop: bool,
    /// Where others reach it, over TLS and only with users
    #[arg(long, value_name = "ADDRESS", requires_all = ["cert", "key", "user_file"])]
    listen: Option<SocketAddr>,
    /// A name that others use for it (can be repeated)
    #[arg(long, value_name = "NAME", requires = "listen")]
    name: Vec<String>,
    /// The certificate that others see, as PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    cert: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    key: Option<PathBuf>,
    /// Users with their roles and the digests of their tokens
    #[arg(long, value_name = "FILE")]
    user_file: Option<PathBuf>,
}

/// Where a server is, for other commands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Whereabouts {
    pub(crate) pid: u32,
    pub(crate) url: String,
}

impl Args {
    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        let context = Arc::new(here.context()?);
        if self.stop {
            return stop(here, &context.layout);
        }
        if self.background {
            let found = in_background(here, &context.layout, self.port)?;
            let value = serde_json::json!({"url": found.url, "pid": found.pid});
            return Ok(
                here.print(&value, || format!("listening on {} in the background (pid {})", found.url, found.pid))
            );
        }
        let hosting = Arc::new(self.take(here, &context)?);
        let options = self.options(here, &context)?;
        let server = Server::bind(hosting.clone(), options).map_err(refused)?;
        let interrupts = Interrupts::install()?;
        let stop = server.stopper();
        interrupts.watch(Some(Stopping::new(move |_| stop())));
        let whereabouts = Whereabouts { pid: std::process::id(), url: server.url().to_owned() };
        let _here = Noted::new(&context.layout, &whereabouts)?;
        self.announce(here, &server);
        take_over(here, &hosting);
        server.run().map_err(refused)?;
        drop(hosting);
        Ok(ExitCode::SUCCESS)
    }

    /// Takes the state directory, or says who has it.
    fn take(&self, here: &Surroundings, context: &Arc<Context>) -> Outcome<Hosting> {
        let mut told = false;
        loop {
            let holder = match Hosting::take(context)? {
                Hosted::Ours(hosting) => {
                    here.tell_recovery(hosting.recovery());
                    return Ok(*hosting);
                }
                Hosted::Theirs(holder) => at_work(&holder),
            };
            if !self.wait {
                let message = format!("{holder} is at work here");
                return Err(CommandError::new(code::ENVIRONMENT, message, "wait for it: norma serve --wait"));
            }
            if !told && !here.json {
                err(&format!("waiting for {holder} to finish"));
                told = true;
            }
            std::thread::sleep(POLL);
        }
    }

    fn options(&self, here: &Surroundings, context: &Context) -> Outcome<Options> {
        let listen = match (self.listen, &self.cert, &self.key) {
            (Some(address), Some(certificate), Some(key)) => Some(Listen {
                address,
                names: self.name.clone(),
                certificate: here.cwd.join(certificate),
                key: here.cwd.join(key),
            }),
            _ => None,
        };
        let path = here.config.as_ref().map_or_else(|| context.layout.config(), |path| here.cwd.join(path));
        // A configuration that cannot be read is named by whatever is started under it.
        let config = runner::load_settings(&path, &context.layout).map(|settings| settings.config.server);
        let ServerConfig { connections, drain_seconds } = config.unwrap_or_default();
        Ok(Options {
            port: self.port,
            listen,
            user_file: self.user_file.as_ref().map(|path| here.cwd.join(path)),
            token_file: context.trust.server_token()?,
            person: here.person(&context.user),
            sender: runner::Sender { attended: false, ..here.sender() },
            connections: connections as usize,
            drain: Duration::from_secs(drain_seconds.into()),
        })
    }

    fn announce(&self, here: &Surroundings, server: &Server) {
        let (url, login) = (server.url(), server.login());
        match here.json {
            true => out(&serde_json::json!({"url": url, "login": login}).to_string()),
            false => {
                out(&format!("listening on {url}"));
                out(&format!("log in, once and within a minute: {login}"));
                out("another link: norma open");
            }
        }
        if self.open {
            open_browser(&server.login());
        }
    }
}

/// Continues what nobody paused.
fn take_over(here: &Surroundings, hosting: &Hosting) {
    let taken = match hosting.take_over(&here.sender(), JOBS_DEFAULT) {
        Ok(taken) => taken,
        Err(error) => return err(&format!("could not look for runs to continue: {}", safe(&error.to_string()))),
    };
    for (run, failed) in taken {
        match failed {
            None => err(&format!("continuing run {run}")),
            Some(error) => err(&format!("could not continue run {run}: {}", safe(&error.to_string()))),
        }
    }
}

fn refused(error: server::Error) -> CommandError {
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let hint = match &error {
        server::Error::Listen { .. } => "choose another port: norma serve --port N",
        server::Error::Files { .. } => "allow fewer in the configuration, or raise the limit: ulimit -n",
        _ => "see norma help server",
    };
    CommandError::refused(code::ENVIRONMENT, error.to_string(), cause.into_iter().collect(), Some(hint.to_owned()))
}

fn whereabouts_file(layout: &Layout) -> PathBuf {
    layout.state.join("server.json")
}

fn pid_file(layout: &Layout) -> PathBuf {
    layout.state.join("server.pid")
}

/// Where the server is that serves this state directory now.
pub(crate) fn whereabouts(layout: &Layout) -> Option<Whereabouts> {
    let found: Whereabouts = serde_json::from_slice(&std::fs::read(whereabouts_file(layout)).ok()?).ok()?;
    store::owner_of(layout).filter(|owner| owner.pid == found.pid && runner::is_owned(layout)).map(|_| found)
}

/// Says where the server is for as long as it is there.
struct Noted(Vec<PathBuf>);

impl Noted {
    fn new(layout: &Layout, found: &Whereabouts) -> Outcome<Noted> {
        let files = vec![whereabouts_file(layout), pid_file(layout)];
        store::write_whole(&files[0], serde_json::json!(found).to_string().as_bytes())?;
        store::write_whole(&files[1], format!("{}\n", found.pid).as_bytes())?;
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

/// The server of this state directory: the one that is there, or a new one in the background.
pub(crate) fn in_background(here: &Surroundings, layout: &Layout, port: u16) -> Outcome<Whereabouts> {
    if let Some(found) = whereabouts(layout) {
        return Ok(found);
    }
    let failed = |why: String| CommandError::new(code::ENVIRONMENT, why, "see .norma/server.log");
    let log = std::fs::File::options().create(true).append(true).open(layout.state.join("server.log"));
    let log = log.map_err(|why| failed(format!("could not write server.log: {why}")))?;
    let again = log.try_clone().map_err(|why| failed(format!("could not write server.log: {why}")))?;
    let mut command = Command::new(&here.exe);
    command.args(["-C".as_ref(), here.cwd.as_os_str(), "serve".as_ref(), "--port".as_ref()]).arg(port.to_string());
    if let Some(config) = &here.config {
        command.arg("--config").arg(config);
    }
    detach(&mut command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(again)
        .spawn()
        .map_err(|why| failed(format!("could not start a server: {why}")))?;
    let until = Instant::now() + START_MAX;
    while Instant::now() < until {
        if let Some(found) = whereabouts(layout) {
            return Ok(found);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("the server ended at once ({status})")));
        }
        std::thread::sleep(POLL);
    }
    Err(failed("the server does not come to listen".to_owned()))
}

/// Has a process outlive the terminal: a group of its own is not told when that is closed.
fn detach(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Ends the server, and waits until it has let go of the state directory.
fn stop(here: &Surroundings, layout: &Layout) -> Outcome<ExitCode> {
    let Some(found) = whereabouts(layout) else {
        return Err(CommandError::new(code::FAILED, "no server is running here", "start one: norma serve"));
    };
    let pid = i32::try_from(found.pid).ok().and_then(rustix::process::Pid::from_raw);
    let asked = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
    if !matches!(asked, Some(Ok(()))) {
        let message = format!("could not end the server (pid {})", found.pid);
        return Err(CommandError::new(code::ENVIRONMENT, message, "is it yours?"));
    }
    while whereabouts(layout).is_some_and(|now| now.pid == found.pid) || runner::is_owned(layout) {
        std::thread::sleep(POLL);
    }
    Ok(here.print(&serde_json::json!({"pid": found.pid}), || format!("the server (pid {}) has ended", found.pid)))
}

/// Opens the user's browser, if there is a way to.
pub(crate) fn open_browser(url: &str) {
    let opener = ["xdg-open", "wslview"].into_iter();
    for program in opener {
        let started =
            Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if started.is_ok() {
            return;
        }
    }
    err("no browser could be opened; use the link");
}
