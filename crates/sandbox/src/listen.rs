//! Hearing what a confined program starts and reaches.
//!
//! The filter has the kernel ask before a program is started, before something is reached, and at the first thing that
//! every new program does. The answer is nearly always "go on": what is refused is refused by the other walls, since
//! words that lie in a program's memory can change after they were read. Two things are refused here, because they
//! cannot change any more: a program that has just become another one is held before the first instruction of its own,
//! and what it is (`/proc/PID/exe`) and was told (`cmdline`) is then the kernel's copy, in memory that nobody else can
//! write. So a command that a [`Judge`] refuses may be renamed and raced, but it does not run.
//!
//! Who listens is a thread of the caller. When it is lost, the sandbox is ended.

mod network;
mod process;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use serde::{Deserialize, Serialize};

use self::network::Reached;
use self::process::{Id, Image, Words};
use crate::policy::Policy;
use crate::setup::sys::{self, Heard};

/// Commands kept with their words; later ones are only counted.
const COMMANDS_MAX: usize = 200;

/// Refusals kept.
const REFUSED_MAX: usize = 100;

/// Longest text of a command that is kept.
const TEXT_CHARS_MAX: usize = 1000;

/// Processes remembered before those that are gone are forgotten.
const PROCESSES_MAX: usize = 4096;

/// Programs that do what they are told to: what such a one starts is started by whoever told it to.
const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "busybox"];

/// Programs that start the one that they are told to: what such a one starts was chosen by whoever told it to.
const CARRIERS: [&str; 12] =
    ["env", "find", "flock", "nice", "nohup", "parallel", "script", "setsid", "stdbuf", "timeout", "watch", "xargs"];

/// Why only some programs can be started.
const NOT_STARTABLE: &str = "only the agent's own program can be started";

/// A program that is about to run.
#[derive(Debug)]
pub struct Starting<'a> {
    /// Its words.
    pub argv: &'a [String],
    /// Whether the confined program chose it: it started it itself, or had a shell or the like do so, and it is nothing
    /// that a build starts of its own.
    pub chosen: bool,
}

/// Says why a program may not run, if it may not.
pub type Judge = Box<dyn FnMut(&Starting<'_>) -> Option<String> + Send>;

/// What was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// Processes that the program started, itself or by a shell. A shell that starts something is no command of its own.
    pub direct: u64,
    /// Every program that was started or tried, by whomever.
    pub all: u64,
    /// The first of the direct ones.
    pub first: Vec<String>,
    /// What was refused, as far as it is kept.
    pub refused: Vec<Refused>,
}

/// A command that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its words.
    pub command: String,
    /// The rule that refused it, for people.
    pub reason: String,
}

/// Somebody who listens.
pub(crate) struct Listener {
    stop: Arc<OwnedFd>,
    heard: Arc<Mutex<Notes>>,
    thread: Option<JoinHandle<()>>,
}

/// What was heard so far.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) commands: Commands,
    pub(crate) reached: Reached,
}

impl Listener {
    /// Listens until everything that is heard is gone. `control` is hung up if that cannot continue.
    pub(crate) fn start(calls: OwnedFd, control: OwnedFd, policy: &Policy, judge: Option<Judge>) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let heard = Arc::new(Mutex::new(Notes::default()));
        let mut hearing = Hearing {
            calls,
            own: policy.heard.iter().flat_map(|it| it.own.clone()).collect(),
            startable: policy.startable.as_ref().map(|roots| roots.iter().map(|it| it.path.clone()).collect()),
            inside: network::inside(policy),
            judge,
            processes: HashMap::new(),
            first: None,
            notes: Arc::clone(&heard),
        };
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("norma-listen".to_owned()).spawn(move || {
            let mut hang_up = HangUp(Some(control));
            if hearing.listen(&told).is_ok() {
                hang_up.0 = None;
            }
        })?;
        Ok(Self { stop, heard, thread: Some(thread) })
    }

    /// What was heard, once nothing of the program is alive.
    pub(crate) fn finish(mut self) -> Notes {
        self.end();
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends the sandbox when it is dropped, as it is when the thread panics.
struct HangUp(Option<OwnedFd>);

impl Drop for HangUp {
    fn drop(&mut self) {
        if let Some(control) = &self.0 {
            let _ = rustix::net::shutdown(control, rustix::net::Shutdown::Write);
        }
    }
}

/// What is known of a process that started a program.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// It is the confined program, or a part of it.
    is_program: bool,
    /// It was started by that one, or by a shell of its.
    direct: bool,
    /// The same, or by what only starts what it is told to.
    chosen: bool,
    is_shell: bool,
    carries: bool,
    /// It has been counted, or stands for the shell that was.
    counted: bool,
    /// What it started stands for it.
    replaced: bool,
    /// How often it became another program.
    times: u32,
    /// What it was when it was last looked at.
    looked_at: u64,
}

struct Hearing {
    calls: OwnedFd,
    own: Vec<PathBuf>,
    startable: Option<Vec<PathBuf>>,
    inside: network::Inside,
    judge: Option<Judge>,
    processes: HashMap<Id, Known>,
    /// The confined program, and its parent, to whom orphans go.
    first: Option<(Id, u32)>,
    notes: Arc<Mutex<Notes>>,
}

impl Hearing {
    fn listen(&mut self, stop: &OwnedFd) -> io::Result<()> {
        loop {
            let mut watched = [PollFd::new(&self.calls, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match rustix::event::poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let [calls, stop] = [watched[0].revents(), watched[1].revents()];
            if calls.contains(PollFlags::IN) {
                match sys::hear_call(self.calls.as_fd()) {
                    Ok(heard) => {
                        let refused = self.answer(&heard);
                        sys::answer_call(self.calls.as_fd(), heard.id, refused);
                    }
                    // Who made the call is gone.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                    Err(error) => return Err(error),
                }
            } else if !calls.is_empty() || !stop.is_empty() {
                return Ok(());
            }
        }
    }

    /// The error that a call fails with; none lets it be made.
    fn answer(&mut self, heard: &Heard) -> Option<i32> {
        let arguments = heard.arguments;
        match heard.call {
            libc::SYS_execve => self.starts(heard, Words::of(heard.thread, arguments[0], arguments[1])),
            libc::SYS_execveat => {
                self.starts(heard, Words::at(heard.thread, arguments[0] as i32, arguments[1], arguments[2]))
            }
            libc::SYS_connect => self.reaches(heard, arguments[1], arguments[2]),
            libc::SYS_sendto => self.reaches(heard, arguments[4], arguments[5]),
            _ => self.is_now(heard),
        }
    }

    fn is_waiting(&self, heard: &Heard) -> bool {
        sys::is_waiting(self.calls.as_fd(), heard.id)
    }

    fn reaches(&mut self, heard: &Heard, address: u64, length: u64) -> Option<i32> {
        let target = network::target(heard.thread, address, length)?;
        if self.is_waiting(heard) && !self.inside.has(target, heard.thread) {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).reached.add(target);
        }
        None
    }

    /// A process is about to become another program, by what it says itself.
    fn starts(&mut self, heard: &Heard, words: Words) -> Option<i32> {
        let (id, parent) = process::identify(heard.thread)?;
        let mut known = self.know(id, parent);
        known.times += 1;
        let is_first = known.is_program && known.times == 1;
        let found = words.resolve(heard.thread);
        if !self.is_waiting(heard) {
            return None;
        }
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).commands.all += 1;
        // What is nowhere is not started: its caller looks on.
        let refusal = if is_first || !words.is_there(found.as_deref()) {
            None
        } else {
            self.stand(&mut known, found.as_deref(), parent, &words.argv);
            self.refusal(found.as_deref(), &words.argv, known.is_program || known.chosen)
        };
        self.processes.insert(id, known);
        self.refuse(&words.argv, refusal?);
        Some(if self.startable.is_some() { libc::EACCES } else { libc::EPERM })
    }

    /// A process is another program than before, by the kernel's word, and has done nothing yet.
    fn is_now(&mut self, heard: &Heard) -> Option<i32> {
        let (id, parent) = process::identify(heard.thread)?;
        let mut known = *self.processes.get(&id)?;
        let image = Image::of(id.process)?;
        if !self.is_waiting(heard) || known.looked_at == image.mark {
            return None;
        }
        known.looked_at = image.mark;
        let is_first = known.is_program && known.times <= 1;
        if !is_first {
            self.stand(&mut known, Some(&image.path), parent, &image.argv);
        }
        self.processes.insert(id, known);
        let wrong = self.not_startable(&image.path);
        let refusal = match is_first {
            true => None,
            false => wrong.or_else(|| self.judged(&image.argv, known.is_program || known.chosen)),
        };
        self.refuse(&image.argv, refusal?);
        sys::signal(id.process.cast_signed(), libc::SIGKILL);
        Some(libc::EPERM)
    }

    /// Where a process belongs, by what it is or is about to be.
    fn stand(&mut self, known: &mut Known, path: Option<&Path>, parent: u32, argv: &[String]) {
        let name = path.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let is_own = known.direct && path.is_some_and(|path| is_below(path, &self.own));
        let is_root = known.is_program && !known.direct;
        let is_shell = known.direct && SHELLS.contains(&name);
        // A shell that others stand for, and that becomes its last command itself: that is one more.
        if known.is_shell && known.replaced && !is_shell {
            (known.counted, known.replaced) = (false, false);
        }
        (known.is_program, known.is_shell) = (is_root || is_own, is_shell);
        known.carries = known.chosen && CARRIERS.contains(&name);
        if known.direct && !known.is_program && !known.counted {
            known.counted = true;
            self.count(parent, argv);
        }
    }

    /// Counts a command. The first one of a shell stands for the shell.
    fn count(&mut self, parent: u32, argv: &[String]) {
        let shell = process::id_of(parent).and_then(|id| self.processes.get_mut(&id));
        let stands_for_it = shell.is_some_and(|shell| {
            let first = shell.is_shell && shell.counted && !shell.replaced;
            shell.replaced |= first;
            first
        });
        let commands = &mut self.notes.lock().unwrap_or_else(PoisonError::into_inner).commands;
        commands.direct += u64::from(!stands_for_it);
        if !stands_for_it && commands.first.len() < COMMANDS_MAX {
            commands.first.push(text(argv));
        }
    }

    /// What is known of a process; a new one stands where its parent does.
    fn know(&mut self, id: Id, parent: u32) -> Known {
        if let Some(known) = self.processes.get(&id) {
            return *known;
        }
        let Some((_, above)) = self.first else {
            self.first = Some((id, parent));
            let program = Known { is_program: true, ..Known::default() };
            self.processes.insert(id, program);
            return program;
        };
        if self.processes.len() >= PROCESSES_MAX {
            let first = self.first.map(|(id, _)| id);
            self.processes.retain(|id, _| Some(*id) == first || process::id_of(id.process) == Some(*id));
        }
        // Who forked and became nothing else is still who it was forked from.
        let mut next = parent;
        let (direct, carried) = loop {
            // An orphan may be anybody's, so it is the program's.
            if next == above || next <= 1 {
                break (true, false);
            }
            match process::identify(next) {
                None => break (true, false),
                Some((id, parent)) => match self.processes.get(&id) {
                    Some(known) => break (known.is_program || known.is_shell, known.carries),
                    None => next = parent,
                },
            }
        };
        let known = Known { direct, chosen: direct || carried, ..Known::default() };
        self.processes.insert(id, known);
        known
    }

    fn refusal(&mut self, path: Option<&Path>, argv: &[String], chosen: bool) -> Option<String> {
        path.and_then(|path| self.not_startable(path)).or_else(|| self.judged(argv, chosen))
    }

    fn not_startable(&self, path: &Path) -> Option<String> {
        let startable = self.startable.as_ref()?;
        (!is_below(path, startable)).then(|| NOT_STARTABLE.to_owned())
    }

    fn judged(&mut self, argv: &[String], chosen: bool) -> Option<String> {
        self.judge.as_mut().and_then(|judge| judge(&Starting { argv, chosen }))
    }

    fn refuse(&mut self, argv: &[String], reason: String) {
        let refused = &mut self.notes.lock().unwrap_or_else(PoisonError::into_inner).commands.refused;
        let refusal = Refused { command: text(argv), reason };
        if refused.len() < REFUSED_MAX && !refused.contains(&refusal) {
            refused.push(refusal);
        }
    }
}

fn is_below(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

fn text(argv: &[String]) -> String {
    let whole = argv.join(" ");
    match whole.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &whole[..end]),
        None => whole,
    }
}
