//! `norma serve`: every run over HTTP, until it is asked to end. The process owns the state directory, so runs of other
//! terminals are carried out by it, too.

pub(crate) mod background;

use super::open;
use super::run::JOBS_DEFAULT;
use crate::error::{CommandError, Outcome, code};
use crate::hosting::{busy, take, wait_for};
use crate::interrupts::{Interrupts, Stopping};
use crate::surroundings::Surroundings;
use crate::text::{err, out, safe};
use background::{Noted, Whereabouts, browser};
use contract::ServerConfig;
use runner::{Context, Hosted, Hosting, Sender};
use server::{Listen, Options, Server};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Where a server listens unless told otherwise.
const PORT: u16 = 3001;

/// Serve every run over HTTP on this machine, and carry out what clients ask for
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  norma serve                      # http://127.0.0.1:3001, with a login link\n  norma serve --port 0 --json      # any free port; one line with url and login\n  norma serve --background         # and norma serve --stop\n  norma serve --listen 0.0.0.0:8443 --name norma.example.org --cert cert.pem --key key.pem --user-file users.json"
)]
pub(crate) struct Args {
    /// The port on this machine; 0 for any that is free
    #[arg(long, default_value_t = PORT)]
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

impl Args {
    /// A server that nobody asked for by itself.
    fn on_any_port() -> Args {
        Args {
            port: 0,
            open: false,
            wait: false,
            background: true,
            stop: false,
            listen: None,
            name: Vec::new(),
            cert: None,
            key: None,
            user_file: None,
        }
    }

    pub(crate) fn run(self, here: &Surroundings) -> Outcome<ExitCode> {
        if self.stop {
            return background::stop(here, &here.context_to_be()?.layout);
        }
        let context = Arc::new(here.context_or_private()?);
        if self.background {
            return self.in_background(here, &context);
        }
        let hosting = Arc::new(*self.host(here, &context)?);
        let options = self.options(here, &context)?;
        let sender = options.sender.clone();
        let server = Server::bind(hosting.clone(), options).map_err(refused)?;
        let interrupts = Interrupts::install()?;
        let stop = server.stopper();
        interrupts.watch(Some(Stopping::new(move |_| stop())));
        let whereabouts = Whereabouts { pid: std::process::id(), url: server.url().to_owned() };
        let _here = Noted::new(&context.layout, &whereabouts)?;
        self.announce(here, &server);
        take_over(&sender, &hosting);
        // Recovery has read the whole log of every run that is open.
        sandbox::give_memory_back();
        server.run().map_err(refused)?;
        drop(hosting);
        Ok(ExitCode::SUCCESS)
    }

    /// Takes the state directory, or says who has it.
    fn host(&self, here: &Surroundings, context: &Arc<Context>) -> Outcome<Box<Hosting>> {
        if self.wait {
            return wait_for(here, context, "");
        }
        match take(here, context)? {
            Hosted::Ours(hosting) => Ok(hosting),
            Hosted::Theirs(holder) => Err(busy(&holder, "wait for it: norma serve --wait")),
        }
    }

    fn in_background(&self, here: &Surroundings, context: &Context) -> Outcome<ExitCode> {
        let Whereabouts { pid, url } = background::start(here, &context.layout, self)?;
        if self.open {
            browser(&open::login(context, &url, None)?);
        }
        Ok(here.print(&serde_json::json!({"url": url, "pid": pid}), || {
            format!(
                "listening on {url} in the background (pid {pid})\nopen it: norma open · end it: norma serve --stop"
            )
        }))
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
            sender: Sender { attended: false, ..here.sender() },
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
            browser(&server.login());
        }
    }
}

/// Continues what nobody paused.
fn take_over(sender: &Sender, hosting: &Hosting) {
    let taken = match hosting.take_over(sender, JOBS_DEFAULT) {
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
