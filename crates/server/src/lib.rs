//! SERVES. Every run over HTTP: routes, who may ask, and streams of what happens. It is thin: whatever changes something
//! is a request to the host ([`runner::Hosting`]), the same that the command line makes. This is the only crate that
//! links axum and has an async runtime, and nothing of either is seen outside.

mod accept;
mod admission;
mod call;
mod channel;
mod hub;
mod idempotency;
mod metrics;
mod openapi;
mod past;
mod patience;
mod peer;
mod problem;
mod route;
mod router;
mod sessions;
mod stream;
mod table;
mod tls;
mod ui;
mod users;

use crate::admission::Own;
use crate::call::Call;
use crate::hub::Hub;
use crate::idempotency::Answers;
use crate::metrics::Metrics;
use crate::past::Pasts;
use crate::problem::{Outcome, Problem};
use crate::route::intents::Views;
use crate::sessions::{Opens, Sessions};
use crate::users::Users;
use contract::Audit;
use runner::{Hosting, Request, Sender, Settings};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Layout, Reader};
use tokio::sync::watch;

/// How many readers of the record are kept open.
const READERS_MAX: usize = 16;
/// How many files everything else may have open: readers, runs, pipes of their agents.
const OTHER_FILES: u64 = 512;

/// What keeps a server from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// Address and port.
        address: SocketAddr,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The token cannot be kept.
    #[error("could not keep the token in {path}")]
    Token {
        /// Where.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The file of users is not one.
    #[error("could not read the users in {path}: {why}")]
    Users {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The certificate or its key cannot be used.
    #[error("could not use the certificate {path}: {why}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// This process may not have as many open files as there may be connections.
    #[error("server.connections is {connections}, which takes {needed} open files, and this process may have {most}")]
    Files {
        /// How many connections there may be.
        connections: usize,
        /// How many files that takes.
        needed: u64,
        /// How many there may be.
        most: u64,
    },
    /// Others may not be listened to like this.
    #[error("{0}")]
    Unsafe(String),
    /// The runtime could not be started.
    #[error("could not start the server")]
    Start(#[source] std::io::Error),
}

/// The server's results.
pub type Result<T> = std::result::Result<T, Error>;

/// How a server is started.
pub struct Options {
    /// The port on this machine; 0 for any that is free.
    pub port: u16,
    /// Where others reach it, if they do.
    pub listen: Option<Listen>,
    /// Users with their roles.
    pub user_file: Option<PathBuf>,
    /// Where the token is kept, outside of what any agent sees.
    pub token_file: PathBuf,
    /// Who started it, for the record.
    pub person: String,
    /// What the environment of whoever started it decides about runs.
    pub sender: Sender,
    /// How many connections are open at once.
    pub connections: usize,
    /// How long runs may finish what they do once it ends.
    pub drain: Duration,
}

/// An address for others, with the certificate that they see.
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// The names that they use for it.
    pub names: Vec<String>,
    /// PEM.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// A server that listens already.
pub struct Server {
    app: Arc<App>,
    listeners: Vec<TcpListener>,
    tls: Option<Arc<rustls::ServerConfig>>,
    connections: usize,
    drain: Duration,
}

/// What every request is answered with.
pub(crate) struct App {
    pub(crate) hosting: Arc<Hosting>,
    pub(crate) layout: Layout,
    pub(crate) sender: Sender,
    pub(crate) sessions: Sessions,
    pub(crate) own: Own,
    pub(crate) url: String,
    pub(crate) is_tls: bool,
    /// Where the paths of artifacts begin.
    pub(crate) root: String,
    pub(crate) hub: Hub,
    pub(crate) answers: Answers,
    pub(crate) views: Views,
    pub(crate) pasts: Pasts,
    pub(crate) metrics: Metrics,
    pub(crate) openapi: String,
    /// Whether the server ends.
    pub(crate) closing: watch::Sender<bool>,
    readers: Mutex<Vec<Reader>>,
}

impl Server {
    /// Begins to listen. Nothing is answered before [`Server::run`].
    pub fn bind(hosting: Arc<Hosting>, options: Options) -> Result<Server> {
        let users = options.user_file.as_deref().map(Users::read).transpose()?;
        let tls = options.listen.as_ref().map(tls::config).transpose()?;
        if options.listen.is_some() && users.is_none() {
            let why = "others are listened to only with users: name a file with --user-file";
            return Err(Error::Unsafe(why.to_owned()));
        }
        make_room(options.connections)?;
        let listeners = listen(&options)?;
        let port = port_of(&listeners);
        let own = match &options.listen {
            None => Own::loopback(port),
            Some(listen) => Own::listening(&listen.names, port),
        };
        let url = match &options.listen {
            None => format!("http://127.0.0.1:{port}"),
            Some(listen) => {
                let name = listen.names.first().cloned().unwrap_or_else(|| listen.address.ip().to_string());
                format!("https://{name}:{port}")
            }
        };
        let token = token(&options.token_file)?;
        let hub = Hub::start().map_err(Error::Start)?;
        let (recorded, deltas) = hub.observers();
        hosting.observe(recorded, deltas);
        let document = openapi::document(&table::routes());
        let app = App {
            layout: hosting.context().layout.clone(),
            root: hosting.context().layout.root.to_string_lossy().into_owned(),
            hosting,
            sender: options.sender,
            sessions: Sessions::new(&token, options.person, users),
            own,
            url,
            is_tls: tls.is_some(),
            hub,
            answers: Answers::default(),
            views: Views::default(),
            pasts: Pasts::default(),
            metrics: Metrics::default(),
            openapi: document.to_string(),
            closing: watch::Sender::new(false),
            readers: Mutex::default(),
        };
        let (connections, drain) = (options.connections, options.drain);
        Ok(Server { app: Arc::new(app), listeners, tls, connections, drain })
    }

    /// Where it is reached.
    pub fn url(&self) -> &str {
        &self.app.url
    }

    /// A link that opens a session in a browser, once, within a minute.
    pub fn login(&self) -> String {
        let principal = self.app.sessions.owner("the link that was printed");
        let ticket = self.app.sessions.issue(principal, Opens::Session);
        format!("{}/login?ticket={ticket}", self.app.url)
    }

    /// Ends it, from another thread.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + use<> {
        let app = self.app.clone();
        move || {
            app.closing.send_replace(true);
        }
    }

    /// Serves until it is asked to end. Runs may finish what they do for a while, then they stop for the next server to
    /// continue; clients are told that it ends.
    pub fn run(self) -> Result<()> {
        let Server { app, listeners, tls, connections, drain } = self;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(128)
            .thread_keep_alive(Duration::from_secs(10))
            .build()
            .map_err(Error::Start)?;
        let hosting = app.hosting.clone();
        let router = router::router(&app);
        runtime.block_on(async {
            let serving = accept::serve(&app, router, listeners, tls, connections);
            let ending = async {
                let mut closing = app.closing.subscribe();
                let _ = closing.wait_for(|closing| *closing).await;
                let _ = tokio::task::spawn_blocking(move || end_runs(&hosting, drain)).await;
            };
            tokio::join!(serving, ending);
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    }
}

/// Lets runs come to their next step, for a while; then they are stopped where they are.
fn end_runs(hosting: &Hosting, drain: Duration) {
    hosting.leave();
    let until = std::time::Instant::now() + drain;
    while !hosting.under_way().is_empty() && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    hosting.shut_down();
}

/// Sees to it that connections leave enough files for everything else: a run whose log cannot be opened fails.
fn make_room(connections: usize) -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (limit, needed) = (getrlimit(Resource::Nofile), connections as u64 + OTHER_FILES);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let wished = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, wished).map_err(|_| {
        let most = limit.maximum.unwrap_or(needed);
        Error::Files { connections, needed, most }
    })
}

fn listen(options: &Options) -> Result<Vec<TcpListener>> {
    let bind = |address: SocketAddr| {
        let listener = TcpListener::bind(address).map_err(|source| Error::Listen { address, source })?;
        listener.set_nonblocking(true).map_err(|source| Error::Listen { address, source })?;
        Ok(listener)
    };
    if let Some(listen) = &options.listen {
        return Ok(vec![bind(listen.address)?]);
    }
    let first = bind((Ipv4Addr::LOCALHOST, options.port).into())?;
    // Not every machine has the other family, and one is enough.
    let second = bind((IpAddr::V6(Ipv6Addr::LOCALHOST), port_of(std::slice::from_ref(&first))).into());
    Ok(std::iter::once(first).chain(second.ok()).collect())
}

fn port_of(listeners: &[TcpListener]) -> u16 {
    listeners.first().and_then(|listener| listener.local_addr().ok()).map_or(0, |address| address.port())
}

/// The token of this state directory, made on first need. Only its owner can read it.
fn token(path: &Path) -> Result<String> {
    let failed = |source| Error::Token { path: path.to_owned(), source };
    if let Ok(text) = std::fs::read_to_string(path)
        && text.trim().len() >= 32
    {
        return Ok(text.trim().to_owned());
    }
    let token = sessions::secret();
    let _ = std::fs::remove_file(path);
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
    Ok(token)
}

impl App {
    /// A reader of the record, for as long as it is needed.
    pub(crate) fn with_reader<T>(&self, read: impl FnOnce(&Reader) -> store::Result<T>) -> Outcome<T> {
        self.with_reader_and(|reader| Ok(read(reader)?))
    }

    /// The same for what can fail otherwise.
    pub(crate) fn with_reader_and<T>(&self, read: impl FnOnce(&Reader) -> Outcome<T>) -> Outcome<T> {
        let kept = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let free = kept().pop();
        let reader = match free {
            Some(reader) => reader,
            None => Reader::open(&self.layout)?,
        };
        let answer = read(&reader);
        let mut kept = kept();
        if kept.len() < READERS_MAX {
            kept.push(reader);
        }
        answer
    }

    /// Has the host do something.
    pub(crate) fn ask(&self, request: Request) -> Outcome<(String, serde_json::Value)> {
        Ok(self.hosting.ask(request)?)
    }

    /// What counts for whoever asks.
    pub(crate) fn settings(&self) -> Outcome<Settings> {
        let path = self.sender.config.clone().unwrap_or_else(|| self.layout.config());
        Ok(runner::load_settings(&path, &self.layout)?)
    }

    /// Puts on record who asked for what.
    pub(crate) fn on_record(&self, call: &Call, what: &str, about: Option<&str>) -> Outcome<()> {
        let (by, what, about) = (call.principal.name.clone(), what.to_owned(), about.map(str::to_owned));
        let recorded = self.hosting.state().store.audit(Audit::Requested { by, what, about }).wait();
        recorded.map_err(|why| Problem::internal(&why))
    }
}
