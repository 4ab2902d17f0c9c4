//! Ctrl-C and its like. At a terminal the first Ctrl-C asks what is meant; a second one, or a signal that nobody typed,
//! ends the turn cleanly and leaves the run paused. Without a run norma just leaves.

use crate::error::{CommandError, Outcome, code};
use crate::progress::Screen;
use runner::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How often whoever waits for a key looks whether the answer is still wanted.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How a run can be stopped, and whether somebody is there to say how.
pub(crate) struct Stopping {
    stop: Arc<dyn Fn(Stop) + Send + Sync>,
    /// What is said when its watcher leaves, where another process carries it out.
    detach: Option<String>,
    /// Where to ask, if somebody is there.
    screen: Option<Arc<Screen>>,
}

impl Stopping {
    pub(crate) fn new(stop: impl Fn(Stop) + Send + Sync + 'static) -> Stopping {
        Stopping { stop: Arc::new(stop), detach: None, screen: None }
    }

    /// The run goes on if this process leaves.
    pub(crate) fn detachable(self, said: String) -> Stopping {
        Stopping { detach: Some(said), ..self }
    }

    /// Somebody is at the terminal.
    pub(crate) fn asking(self, screen: Arc<Screen>) -> Stopping {
        Stopping { screen: Some(screen), ..self }
    }
}

/// Who watches for signals, shared with the thread that they reach.
#[derive(Clone)]
pub(crate) struct Interrupts {
    current: Arc<Mutex<Option<Watched>>>,
}

/// The run that signals are about.
struct Watched {
    stopping: Arc<Stopping>,
    /// Who asks at the terminal, and whether the answer is still wanted.
    asking: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
}

impl Watched {
    fn is_asking(&self) -> bool {
        self.asking.as_ref().is_some_and(|(thread, _)| !thread.is_finished())
    }

    /// Takes the question back; the terminal is then as it was.
    fn stop_asking(&mut self) {
        if let Some((thread, wanted)) = self.asking.take() {
            wanted.store(false, Ordering::Relaxed);
            let _ = thread.join();
        }
    }

    fn signaled(&mut self, signal: i32) {
        match &self.stopping.screen {
            Some(screen) if signal == SIGINT && !self.is_asking() => {
                let (stopping, screen, wanted) =
                    (self.stopping.clone(), screen.clone(), Arc::new(AtomicBool::new(true)));
                let still_wanted = wanted.clone();
                let asking = std::thread::Builder::new().spawn(move || ask(&stopping, &screen, &still_wanted));
                self.asking = asking.ok().map(|thread| (thread, wanted));
            }
            _ => {
                self.stop_asking();
                (self.stopping.stop)(Stop::Interrupt);
            }
        }
    }
}

impl Interrupts {
    pub(crate) fn install() -> Outcome<Interrupts> {
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| {
            CommandError::new(code::ENVIRONMENT, format!("could not watch for signals: {e}"), "try again")
        })?;
        let interrupts = Interrupts { current: Arc::default() };
        let watching = interrupts.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                match &mut *watching.lock() {
                    Some(watched) => watched.signaled(signal),
                    None => std::process::exit(code::INTERRUPTED.into()),
                }
            }
        });
        Ok(interrupts)
    }

    pub(crate) fn watch(&self, stopping: Option<Stopping>) {
        let watched = stopping.map(|stopping| Watched { stopping: Arc::new(stopping), asking: None });
        let before = std::mem::replace(&mut *self.lock(), watched);
        if let Some(mut before) = before {
            before.stop_asking();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Watched>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks what Ctrl-C means, and does it.
fn ask(stopping: &Stopping, screen: &Screen, wanted: &AtomicBool) {
    let detach = if stopping.detach.is_some() { " · d detach" } else { "" };
    screen.ask(Some(&format!("p pause · c cancel{detach} · any other key continues; Ctrl-C again pauses")));
    let key = key(wanted);
    screen.ask(None);
    match (key, &stopping.detach) {
        (Some(b'p' | b'P'), _) => (stopping.stop)(Stop::Interrupt),
        (Some(b'c' | b'C'), _) => (stopping.stop)(Stop::Cancel),
        (Some(b'd' | b'D'), Some(said)) => {
            screen.clear();
            crate::text::err(said);
            std::process::exit(0);
        }
        _ => {}
    }
}

/// Waits for one key, as long as somebody wants it. Signals still come as signals.
fn key(wanted: &AtomicBool) -> Option<u8> {
    let terminal = rustix::stdio::stdin();
    let before = tcgetattr(terminal).ok()?;
    let mut one_key = before.clone();
    one_key.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    one_key.special_codes[SpecialCodeIndex::VMIN] = 1;
    one_key.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(terminal, OptionalActions::Now, &one_key).ok()?;
    let mut typed = [0];
    let mut found = None;
    while found.is_none() && wanted.load(Ordering::Relaxed) {
        let mut waited = [PollFd::new(&terminal, PollFlags::IN)];
        match poll(&mut waited, Some(&POLL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => match rustix::io::read(terminal, &mut typed) {
                Ok(1) => found = Some(typed[0]),
                Err(rustix::io::Errno::INTR) => {}
                _ => break,
            },
            Err(_) => break,
        }
    }
    let _ = tcsetattr(terminal, OptionalActions::Now, &before);
    found
}
