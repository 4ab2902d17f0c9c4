//! `norma.sock`: how other terminals reach the owner of the state directory. Every client has a thread of its own, so
//! that neither one that says nothing nor one whose request takes long delays the others; the one who asks never waits
//! for an owner that does not run any more.

use crate::host::feed::Told;
use crate::host::follow;
use crate::{Answer, Error, Request, Result, exit};
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_peercred;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error as IoError, ErrorKind, Read, Result as IoResult, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use store::Layout;

/// A request is one line; the longest has a document in it, and no document is nearly as long.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// How long a client may take to say what it wants, and to take its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How many clients are served at once: more terminals than anybody has, and few enough threads to hold in memory.
const CLIENTS_MAX: usize = 64;

/// How long to wait before accepting again after an error, for example when this process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long an answer may take before the owner is asked whether it runs at all, and how long that may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// No request. Every owner answers it at once, whatever else it does.
const PROBE: &[u8] = b"\n";

/// What carries out a request.
pub(crate) type Handle = Arc<dyn Fn(Request) -> Reply + Send + Sync>;

/// What a client is told.
pub(crate) enum Reply {
    /// One line.
    Answer(Answer),
    /// What happens to a run, until nobody works on it any more.
    Follow {
        /// Slug.
        run: String,
        /// The last event that the client knows.
        after: u64,
        /// What happens to it, if somebody works on it.
        told: Option<Receiver<Told>>,
    },
}

/// The owner's end of the socket; gone with its file when dropped, after every request under way was answered.
pub(crate) struct Listener {
    path: PathBuf,
    listener: UnixListener,
    accepting: Option<JoinHandle<()>>,
    clients: Arc<Clients>,
}

/// Who is being served.
#[derive(Default)]
struct Clients {
    open: Mutex<BTreeMap<RawFd, UnixStream>>,
    one_less: Condvar,
}

/// The place of one client among them.
struct Client {
    clients: Arc<Clients>,
    key: RawFd,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RawFd, UnixStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one more client in, unless there are too many.
    fn enter(self: &Arc<Clients>, stream: &UnixStream) -> IoResult<Option<Client>> {
        let kept = stream.try_clone()?;
        let key = kept.as_raw_fd();
        let mut open = self.lock();
        if open.len() >= CLIENTS_MAX {
            return Ok(None);
        }
        open.insert(key, kept);
        Ok(Some(Client { clients: self.clone(), key }))
    }

    /// Sends away who has not asked for anything yet, and waits for the others to have their answers.
    fn finish(&self) {
        let mut open = self.lock();
        for stream in open.values() {
            let _ = stream.shutdown(std::net::Shutdown::Read);
        }
        while !open.is_empty() {
            open = self.one_less.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.key);
        self.clients.one_less.notify_all();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // Wakes the accepting thread with an error, which ends it.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.clients.finish();
    }
}

/// Starts to take requests.
pub(crate) fn listen(layout: &Layout, handle: Handle) -> Result<Listener> {
    let path = layout.socket();
    let failed = |source| Error::io("listen on", &path, source);
    let _ = std::fs::remove_file(&path);
    let listener = reachable(layout).and_then(|(path, _dir)| UnixListener::bind(path)).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let clients: Arc<Clients> = Arc::default();
    let (accepting, served) = (listener.try_clone().map_err(failed)?, clients.clone());
    let place = layout.clone();
    let main = move || accept(&accepting, &served, &place, &handle);
    let accepting = std::thread::Builder::new().name("norma-socket".into()).spawn(main).map_err(failed)?;
    Ok(Listener { path: layout.socket(), listener, accepting: Some(accepting), clients })
}

fn accept(listener: &UnixListener, clients: &Arc<Clients>, layout: &Layout, handle: &Handle) {
    loop {
        match listener.accept() {
            // A client that could not be served finds its connection closed.
            Ok((stream, _)) => drop(admit(stream, clients, layout, handle)),
            // What shutting a listener down makes of `accept`.
            Err(e) if e.kind() == ErrorKind::InvalidInput => return,
            Err(_) => std::thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn admit(stream: UnixStream, clients: &Arc<Clients>, layout: &Layout, handle: &Handle) -> IoResult<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let Some(client) = clients.enter(&stream)? else {
        let message = format!("{CLIENTS_MAX} other terminals are being served");
        let hint = Some("try again in a moment".to_owned());
        return answer(&stream, &Answer::Refused { message, causes: Vec::new(), hint, code: exit::ENVIRONMENT });
    };
    let (layout, handle) = (layout.clone(), handle.clone());
    let main = move || {
        let _ = serve(&stream, &layout, &*handle);
        // Whoever waits for the last client counts on it that nothing is held any more.
        drop(handle);
        drop(client);
    };
    std::thread::Builder::new().name("norma-client".into()).spawn(main).map(drop)
}

fn serve(stream: &UnixStream, layout: &Layout, handle: &dyn Fn(Request) -> Reply) -> IoResult<()> {
    if socket_peercred(stream)?.uid != rustix::process::geteuid() {
        return Ok(());
    }
    let mut line = String::new();
    BufReader::new(stream).take(REQUEST_BYTES_MAX).read_line(&mut line)?;
    // Who gave up waiting was told that it did not happen.
    if line.is_empty() || has_hung_up(stream)? {
        return Ok(());
    }
    let reply = match serde_json::from_str(&line) {
        Ok(request) => handle(request),
        Err(why) => {
            let message = format!("not a request: {why}");
            Reply::Answer(Answer::Refused { message, causes: Vec::new(), hint: None, code: exit::USAGE })
        }
    };
    match reply {
        Reply::Answer(done) => answer(stream, &done),
        Reply::Follow { run, after, told } => follow::serve(stream, layout, &run, after, told),
    }
}

fn answer(mut stream: &UnixStream, answer: &Answer) -> IoResult<()> {
    let mut text = serde_json::to_string(answer).expect("BUG: an answer is plain data");
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// Whether the other end is closed. Half-closed, by one that only sends no more, does not count.
fn has_hung_up(stream: &UnixStream) -> IoResult<bool> {
    let mut watched = [PollFd::new(stream, PollFlags::empty())];
    rustix::event::poll(&mut watched, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(watched[0].revents().contains(PollFlags::HUP))
}

/// A socket path may have 107 bytes and a state directory may be deeper than that: it is reached through the
/// descriptor of its directory, which must stay open meanwhile.
fn reachable(layout: &Layout) -> IoResult<(PathBuf, std::fs::File)> {
    let dir = std::fs::File::open(&layout.state)?;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join("norma.sock");
    Ok((path, dir))
}

fn connect(layout: &Layout) -> IoResult<UnixStream> {
    let stream = reachable(layout).and_then(|(path, _dir)| UnixStream::connect(path))?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    stream.set_write_timeout(Some(ANSWER_PATIENCE))?;
    Ok(stream)
}

/// Whether a live process owns the state directory. Takes no lock.
pub fn is_owned(layout: &Layout) -> bool {
    connect(layout).is_ok()
}

/// Sends a request to the owner whose answer takes as long as it takes. `None`: there is none to be reached.
pub(crate) fn open(layout: &Layout, request: &Request) -> Result<Option<UnixStream>> {
    let Ok(mut stream) = connect(layout) else { return Ok(None) };
    let asked = stream.set_read_timeout(None).and_then(|()| stream.write_all(spelled(request).as_bytes()));
    match asked {
        Ok(()) => Ok(Some(stream)),
        // It was killed while somebody connected.
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(None),
        Err(error) => Err(Error::io("speak to", &layout.socket(), error)),
    }
}

fn spelled(request: &Request) -> String {
    let mut text = serde_json::to_string(request).expect("BUG: a request is plain data");
    text.push('\n');
    text
}

/// Sends a request to the owner. `None`: there is none to be reached.
pub fn send(layout: &Layout, request: &Request) -> Result<Option<Answer>> {
    let Ok(mut stream) = connect(layout) else { return Ok(None) };
    let failed = |source| Error::io("speak to", &layout.socket(), source);
    let text = spelled(request);
    // An owner that has too many clients answers without having read.
    let sent = stream.write_all(text.as_bytes());
    let (mut line, mut reader) = (String::new(), BufReader::new(&stream));
    loop {
        match (reader.read_line(&mut line), &sent) {
            (Ok(0), Err(_)) => return Ok(None),
            (Ok(_), _) => break,
            // It ended before it had read what was sent.
            (Err(e), _) if e.kind() == ErrorKind::ConnectionReset => return Ok(None),
            (Err(e), _) if is_timeout(&e) => require_awake(layout, &stream)?,
            (Err(e), _) => return Err(failed(e)),
        }
    }
    serde_json::from_str(&line).map(Some).map_err(|e| failed(IoError::other(e)))
}

fn is_timeout(error: &IoError) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A request may take long, but an owner that runs answers whoever asks for nothing at once.
fn require_awake(layout: &Layout, asked: &UnixStream) -> Result<()> {
    // One that has just ended leaves an end of file for the one who asked.
    let Ok(mut stream) = connect(layout) else { return Ok(()) };
    let said = stream.write_all(PROBE).and_then(|()| stream.read(&mut [0]));
    if said.is_ok() {
        return Ok(());
    }
    let owner = store::owner_of(layout);
    let who = owner.as_ref().map_or_else(|| "another norma".to_owned(), |owner| format!("`{}`", owner.command));
    // Never a made-up number: `kill` takes 0 for the whole group of whoever types it.
    let pid = socket_peercred(asked).ok().map(|peer| peer.pid.as_raw_nonzero().get().to_string());
    let pid = pid.or_else(|| owner.map(|owner| owner.pid.to_string())).unwrap_or_else(|| "PID".to_owned());
    Err(Error::environment(
        format!("{who} (pid {pid}) owns the state directory and does not answer"),
        format!(
            "if it was stopped: kill -CONT {pid}; if it hangs: kill -KILL {pid}, nothing that was acknowledged is lost"
        ),
    ))
}
