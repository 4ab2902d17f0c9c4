//! The poll loop that runs one program: feeds it, reads it, watches the time, and ends it.
//!
//! One thread and one loop see everything in one order: input wanted, output there, the end, a
//! cancel, a deadline. Threads per pipe would need no `poll`, but then the end of the program, the
//! end of its output and a deadline could happen in any order, and each order would be a case.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::capture::{Captured, Stream};
use super::control::Report;
use super::input::{Input, Said};
use super::supervised::{Ending, Output, Streams, Supervised, timespec};
use super::{Cancel, Command, End, Limits, Outcome, STOP_GRACE, Supervisor, supervise};
use sandbox::Confined;

/// How long the supervisor may take beyond the program's grace and its own killing before it is
/// taken for stuck: time for a loaded machine to schedule it.
const SUPERVISOR_MARGIN: Duration = Duration::from_secs(2);

/// How long an interactive program may take for each of the first rungs of a stop: it was measured to take a
/// tenth of this, and a cancel is over within a second.
const TOLD_PATIENCE: Duration = Duration::from_millis(250);

/// How long it may then take after a signal.
const SIGNAL_PATIENCE: Duration = Duration::from_millis(250);

/// How long it may take to leave by itself once all was said and done: some put much away first, on a busy machine.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes read at once: the default capacity of a pipe, so that one read empties it.
const READ_BYTES: usize = 64 * 1024;

/// Bytes read of each stream after the end of the tree: the most a pipe can hold without special
/// rights. All that the program wrote is in it; more can only come from a stranger that was handed
/// the pipe, and must not keep the loop busy.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// Runs a program to its end and leaves nothing of its process tree alive.
///
/// `on_start` gets the supervisor's process id before the program starts, so that the id can be
/// recorded first. When the program turns out not to be startable, `on_start` was called anyway.
/// A `cancel` that was made before the call ends it before a process is made.
///
/// An error means that norma could not do its part, such as start the supervisor; whatever the
/// program does is an [`End`].
///
/// The supervisor is told to stop when the thread that started it dies. That is right by
/// construction: this call blocks, so its thread lives as long as the program.
pub fn run(
    command: &Command,
    supervisor: &Supervisor,
    cancel: &Cancel,
    on_start: &mut dyn FnMut(u32),
) -> io::Result<Outcome> {
    if cancel.is_canceled() {
        return Ok(no_process(End::Canceled));
    }
    let ready = get_ready(supervisor)?;
    on_start(ready.supervised.id());
    Ok(ready.go(command, Said::Bytes(&command.stdin), cancel)?.0)
}

/// A supervisor that waits to be told what to run. Dropped, it ends without having started anything.
///
/// Starting a supervisor takes longer than a commit; a caller that has something to write down can do both at once.
pub struct Ready {
    supervised: Supervised,
    supervisor: Supervisor,
}

/// Starts a supervisor and nothing else.
pub fn get_ready(supervisor: &Supervisor) -> io::Result<Ready> {
    match Supervised::start(supervisor) {
        Ok(supervised) => Ok(Ready { supervised, supervisor: supervisor.clone() }),
        Err(error) => Err(with_context(&error, "could not start the supervisor", supervisor)),
    }
}

impl Ready {
    /// Runs the program to its end, as [`run`] does. The supervisor is ready for another one then, unless it had to
    /// stop this one.
    pub fn go(mut self, command: &Command, said: Said<'_>, cancel: &Cancel) -> io::Result<(Outcome, Option<Ready>)> {
        if cancel.is_canceled() {
            return Ok((no_process(End::Canceled), Some(self)));
        }
        let started = Instant::now();
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let [(stdin, ours_in), (ours_out, stdout), (ours_err, stderr)] = [pipe()?, pipe()?, pipe()?];
        self.supervised.release(command, Streams { stdin, stdout, stderr })?;
        let output = Output { stdout: ours_out, stderr: ours_err };
        let turn = Turn::new(Keeper::Supervised(self.supervised), ours_in, output, (said, command.limits.clone()))?;
        let Watched { keeper: Keeper::Supervised(mut supervised), stopped, rest } = turn.watch(cancel)? else {
            unreachable!("BUG: the keeper was given above")
        };
        let (reported, was_stopped) = (supervised.finish()?, stopped.is_some());
        let rests = matches!(reported, Ending::Reported(_)) && !was_stopped;
        let end = match (reported, stopped) {
            (Ending::Reported(Report::NotStarted(why)), _) => End::NotStarted(why),
            (_, Some(reason)) => reason,
            (Ending::Reported(Report::Exited(code)), None) => End::Exited(code),
            (Ending::Reported(Report::Signaled(signal)), None) => End::Signaled(signal),
            (Ending::Unreported(status), None) => match status.signal() {
                Some(signal) => End::Signaled(signal),
                None => {
                    let error = io::Error::other(format!("it ended without a report, {status}"));
                    return Err(with_context(&error, "could not rely on the supervisor", &self.supervisor));
                }
            },
        };
        let (stdout, stderr) = rest.read()?;
        let outcome = Outcome { end, stdout, stderr, elapsed: started.elapsed(), pid: supervised.id() };
        Ok((outcome, rests.then_some(Ready { supervised, supervisor: self.supervisor })))
    }
}

fn no_process(end: End) -> Outcome {
    let (stdout, stderr) = (Captured::default(), Captured::default());
    Outcome { end, stdout, stderr, elapsed: Duration::ZERO, pid: 0 }
}

fn with_context(error: &io::Error, what: &str, supervisor: &Supervisor) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", supervisor.program.display()))
}

/// Something the loop can wake for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Stdin,
    Stdout,
    Stderr,
    Cancel,
    Wake,
    Report,
    End,
}

/// A stop under way: why, how far it has come, and when the next rung is due.
struct Stop {
    /// None for a program that only does not leave after all was said.
    reason: Option<End>,
    rung: Rung,
    patience_until: Instant,
}

/// How a program is brought to its end, each rung where the one before did not help.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rung {
    /// It was told in its own words, or has no more to do.
    Told,
    /// Its input was closed.
    Closed,
    /// It was sent a signal; after this it is killed.
    Signaled,
}

/// Who keeps the program's tree in hand: a supervisor of norma's, or its sandbox.
pub(super) enum Keeper {
    Supervised(Supervised),
    Confined(Box<Confined>),
}

impl Keeper {
    /// Readable when the tree has ended.
    fn ended(&self) -> BorrowedFd<'_> {
        match self {
            Keeper::Supervised(it) => it.ended(),
            Keeper::Confined(it) => it.ended(),
        }
    }

    /// Readable when there is word of the tree's end before the keeper's own.
    fn reports(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Keeper::Supervised(it) => Some(it.reports()),
            Keeper::Confined(_) => None,
        }
    }

    fn has_reported(&mut self) -> io::Result<bool> {
        match self {
            Keeper::Supervised(it) => it.has_reported(),
            Keeper::Confined(_) => Ok(false),
        }
    }

    /// Asks for an orderly end; how long to wait before it is forced. A supervisor forces it itself.
    fn ask_to_stop(&self) -> io::Result<Duration> {
        match self {
            Keeper::Supervised(it) => {
                it.ask_to_stop()?;
                Ok(STOP_GRACE + supervise::KILL_PATIENCE + SUPERVISOR_MARGIN)
            }
            Keeper::Confined(it) => {
                it.ask_to_stop()?;
                Ok(STOP_GRACE)
            }
        }
    }

    fn kill(&self) -> io::Result<()> {
        match self {
            Keeper::Supervised(it) => it.kill(),
            Keeper::Confined(it) => it.kill(),
        }
    }
}

/// One program run while it lasts.
pub(super) struct Turn<'a> {
    keeper: Keeper,
    input: Input<'a>,
    stdout: Stream,
    stderr: Stream,
    deadlines: Deadlines,
    buffer: Vec<u8>,
}

/// One program run that is over, or was killed at its stop.
pub(super) struct Watched {
    pub(super) keeper: Keeper,
    /// Why it was stopped, if it was.
    pub(super) stopped: Option<End>,
    pub(super) rest: Rest,
}

/// What is still in the pipes.
pub(super) struct Rest {
    streams: [Stream; 2],
    buffer: Vec<u8>,
}

impl Rest {
    /// All that was written to both streams; asked when nothing of the program is alive.
    pub(super) fn read(mut self) -> io::Result<(Captured, Captured)> {
        let [stdout, stderr] = self.streams;
        let stdout = stdout.finish(&mut self.buffer, DRAIN_BYTES_MAX)?;
        Ok((stdout, stderr.finish(&mut self.buffer, DRAIN_BYTES_MAX)?))
    }
}

impl<'a> Turn<'a> {
    /// A program that has just been started, with what it reads and what it may use up.
    pub(super) fn new(
        keeper: Keeper,
        stdin: OwnedFd,
        output: Output,
        (said, limits): (Said<'a>, Limits),
    ) -> io::Result<Turn<'a>> {
        let started = Instant::now();
        // What is said in a conversation is kept by whoever leads it.
        let kept = if matches!(said, Said::Talk(_)) { 0 } else { limits.output_bytes_max };
        Ok(Turn {
            keeper,
            input: Input::new(stdin, said)?,
            stdout: Stream::new(output.stdout, kept)?,
            stderr: Stream::new(output.stderr, limits.output_bytes_max)?,
            deadlines: Deadlines { limits, started, last_output: started, waiting_since: None },
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Drives the program until its end, or until it was killed for not ending.
    pub(super) fn watch(mut self, cancel: &Cancel) -> io::Result<Watched> {
        let stopped = self.until_ended(cancel)?;
        self.hear_the_rest()?;
        let Turn { keeper, stdout, stderr, buffer, .. } = self;
        Ok(Watched { keeper, stopped, rest: Rest { streams: [stdout, stderr], buffer } })
    }
}

impl Turn<'_> {
    /// The last words of a conversation may still be in the pipe.
    fn hear_the_rest(&mut self) -> io::Result<()> {
        let mut heard = 0;
        while self.input.is_talk() && heard < DRAIN_BYTES_MAX {
            match self.stdout.read(&mut self.buffer)? {
                0 => break,
                count => {
                    self.input.hear(&self.buffer[..count])?;
                    heard += count;
                }
            }
        }
        Ok(())
    }

    /// Drives the program until its whole tree has ended; why it was stopped, if it was.
    fn until_ended(&mut self, cancel: &Cancel) -> io::Result<Option<End>> {
        let mut stop: Option<Stop> = None;
        loop {
            let ready = match &stop {
                None => self.wait(Some(cancel.wakeup()), self.next_look())?,
                // Not the cancel: it stays readable, and would turn waiting into spinning.
                Some(Stop { reason: Some(_), patience_until, .. }) => self.wait(None, Some(*patience_until))?,
                Some(Stop { patience_until, .. }) => self.wait(Some(cancel.wakeup()), Some(*patience_until))?,
            };
            self.transfer(&ready)?;
            let reported = ready.contains(&Source::Report) && self.keeper.has_reported()?;
            if reported || ready.contains(&Source::End) {
                return Ok(stop.and_then(|stop| stop.reason));
            }
            let now = Instant::now();
            self.input.look(now, ready.contains(&Source::Wake))?;
            self.deadlines.pause(self.input.is_waiting(), now);
            let canceled = ready.contains(&Source::Cancel).then_some(End::Canceled);
            stop = match stop {
                Some(Stop { reason: None, .. }) if canceled.is_some() => Some(self.begin_stop(canceled, now)?),
                None => match canceled.or_else(|| self.deadlines.passed(now)) {
                    Some(reason) => Some(self.begin_stop(Some(reason), now)?),
                    // All was said and done, and the program may take a moment to leave.
                    None if self.input.is_done() => {
                        let patience_until = now + LEAVE_PATIENCE;
                        Some(Stop { reason: None, rung: Rung::Closed, patience_until })
                    }
                    None => None,
                },
                Some(stop) if now < stop.patience_until => Some(stop),
                Some(Stop { reason, rung: Rung::Signaled, .. }) => {
                    self.keeper.kill()?;
                    return Ok(reason);
                }
                Some(stop) => Some(self.next_rung(stop, now)?),
            };
        }
    }

    /// When there is something to do though nothing is ready. The program's time stands still while a person is waited
    /// for.
    fn next_look(&self) -> Option<Instant> {
        let deadline = if self.deadlines.waiting_since.is_some() { None } else { self.deadlines.next() };
        deadline.into_iter().chain(self.input.next_look()).min()
    }

    /// The first rung: an interactive program is asked to stop by its own protocol.
    fn begin_stop(&mut self, reason: Option<End>, now: Instant) -> io::Result<Stop> {
        let told = self.input.stop()?;
        let stop = Stop { reason, rung: Rung::Told, patience_until: now + TOLD_PATIENCE };
        if told { Ok(stop) } else { self.signal(stop.reason, now) }
    }

    fn next_rung(&mut self, stop: Stop, now: Instant) -> io::Result<Stop> {
        if stop.rung == Rung::Told {
            self.input.close();
            return Ok(Stop { rung: Rung::Closed, patience_until: now + TOLD_PATIENCE, ..stop });
        }
        self.signal(stop.reason, now)
    }

    fn signal(&mut self, reason: Option<End>, now: Instant) -> io::Result<Stop> {
        let patience = self.keeper.ask_to_stop()?;
        // An interactive one had its time to exit.
        let patience = if self.input.is_talk() { patience.min(SIGNAL_PATIENCE) } else { patience };
        Ok(Stop { reason, rung: Rung::Signaled, patience_until: now + patience })
    }

    /// Sleeps until something is ready or `until` has come; what is ready.
    fn wait(&self, cancel: Option<BorrowedFd<'_>>, until: Option<Instant>) -> io::Result<Vec<Source>> {
        let candidates = [
            (Source::Stdin, self.input.pipe(), PollFlags::OUT),
            (Source::Stdout, self.stdout.pipe(), PollFlags::IN),
            (Source::Stderr, self.stderr.pipe(), PollFlags::IN),
            (Source::Cancel, cancel, PollFlags::IN),
            (Source::Wake, self.input.answered(), PollFlags::IN),
            (Source::Report, self.keeper.reports(), PollFlags::IN),
            (Source::End, Some(self.keeper.ended()), PollFlags::IN),
        ];
        let (sources, mut watched): (Vec<Source>, Vec<PollFd<'_>>) = candidates
            .into_iter()
            .filter_map(|(source, fd, flags)| Some((source, PollFd::from_borrowed_fd(fd?, flags))))
            .unzip();
        let timeout = until.and_then(|at| timespec(at.saturating_duration_since(Instant::now())));
        match rustix::event::poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let fired = sources.into_iter().zip(&watched).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(fired.map(|(source, _)| source).collect())
    }

    /// Moves bytes between the pipes and memory, as far as they are ready.
    fn transfer(&mut self, ready: &[Source]) -> io::Result<()> {
        let mut read = 0;
        if ready.contains(&Source::Stdin) {
            self.input.write()?;
        }
        if ready.contains(&Source::Stdout) {
            let count = self.stdout.read(&mut self.buffer)?;
            self.input.hear(&self.buffer[..count])?;
            read += count;
        }
        if ready.contains(&Source::Stderr) {
            read += self.stderr.read(&mut self.buffer)?;
        }
        if read > 0 {
            self.deadlines.last_output = Instant::now();
        }
        Ok(())
    }
}

/// When the program has to be done, and when it has to have said something.
struct Deadlines {
    limits: Limits,
    started: Instant,
    last_output: Instant,
    waiting_since: Option<Instant>,
}

impl Deadlines {
    /// A limit beyond the clock's range is no limit.
    fn wall(&self) -> Option<Instant> {
        self.started.checked_add(self.limits.wall)
    }

    /// Waiting for a person is not the program's time.
    fn pause(&mut self, is_waiting: bool, now: Instant) {
        if let Some(since) = std::mem::replace(&mut self.waiting_since, is_waiting.then_some(now)) {
            self.started += now - since;
            self.last_output = now;
        }
    }

    fn idle(&self) -> Option<Instant> {
        self.last_output.checked_add(self.limits.idle?)
    }

    fn next(&self) -> Option<Instant> {
        let shared = self.limits.clock.as_ref().map(|clock| clock.next_look(Instant::now()));
        self.wall().into_iter().chain(self.idle()).chain(shared).min()
    }

    fn passed(&self, now: Instant) -> Option<End> {
        let has_passed = |deadline: &Instant| *deadline <= now;
        let is_over = self.limits.clock.as_ref().is_some_and(|clock| clock.is_over(now));
        if is_over || self.wall().as_ref().is_some_and(has_passed) {
            Some(End::WallDeadline)
        } else if self.idle().as_ref().is_some_and(has_passed) {
            Some(End::IdleDeadline)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Talk, Wake};

    fn check(wall: u64, idle: Option<u64>, quiet_since: u64, now: u64, expected: Option<End>) {
        let started = Instant::now();
        let after = |seconds| started + Duration::from_secs(seconds);
        let limits = Limits {
            wall: Duration::from_secs(wall),
            idle: idle.map(Duration::from_secs),
            output_bytes_max: 0,
            clock: None,
        };
        let deadlines = Deadlines { limits, started, last_output: after(quiet_since), waiting_since: None };
        assert_eq!(deadlines.passed(after(now)), expected);
    }

    #[test]
    fn waiting_for_a_person_is_not_the_programs_time() {
        let started = Instant::now();
        let after = |seconds| started + Duration::from_secs(seconds);
        let limits = Limits {
            wall: Duration::from_secs(10),
            idle: Some(Duration::from_secs(3)),
            output_bytes_max: 0,
            clock: None,
        };
        let mut deadlines = Deadlines { limits, started, last_output: started, waiting_since: None };
        // However seldom anybody looks meanwhile.
        for (is_waiting, at) in [(true, 2), (true, 500), (false, 1002), (false, 1003)] {
            deadlines.pause(is_waiting, after(at));
        }
        assert_eq!((deadlines.idle(), deadlines.wall()), (Some(after(1005)), Some(after(1010))));
    }

    /// Waits for a person until it is woken, or until its time has come.
    struct Waits {
        wake: Wake,
        until: Instant,
        over: bool,
        looks: u32,
    }

    impl Talk for Waits {
        fn hear(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn take_words(&mut self) -> Vec<u8> {
            Vec::new()
        }

        fn is_over(&self) -> bool {
            self.over
        }

        fn is_done(&self) -> bool {
            self.over
        }

        fn is_waiting(&self) -> bool {
            !self.over
        }

        fn wake(&self) -> Option<&Wake> {
            Some(&self.wake)
        }

        fn next_look(&self) -> Option<Instant> {
            (!self.over).then_some(self.until)
        }

        fn look(&mut self, _: Instant) -> io::Result<()> {
            (self.looks, self.over) = (self.looks + 1, true);
            Ok(())
        }

        fn stop(&mut self) -> bool {
            false
        }
    }

    /// How long a conversation is not looked at whose time comes after `until`, with somebody who wakes it after `woken`.
    #[track_caller]
    fn check_looks(until: Duration, woken: Option<Duration>, expected: Duration) {
        let started = Instant::now();
        let wake = Wake::new().unwrap();
        let mut talk = Waits { wake: wake.clone(), until: started + until, over: false, looks: 0 };
        let (_reader, stdin) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut input = Input::new(stdin, Said::Talk(&mut talk)).unwrap();
        let woken = woken.map(|after| {
            std::thread::spawn(move || {
                std::thread::sleep(after);
                wake.wake();
            })
        });
        let mut polls = 0;
        while input.is_waiting() {
            let fd = input.answered().expect("it waits for somebody");
            let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            let left = input.next_look().and_then(|at| timespec(at.saturating_duration_since(Instant::now())));
            rustix::event::poll(&mut watched, left.as_ref()).unwrap();
            let woken = !watched[0].revents().is_empty();
            input.look(Instant::now(), woken).unwrap();
            polls += 1;
        }
        let took = started.elapsed();
        assert!(input.answered().is_none(), "nobody is waited for any more");
        woken.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(took >= expected && took < expected + Duration::from_secs(2), "{took:?}");
        assert_eq!((polls, talk.looks), (1, 1), "nothing else woke it");
    }

    #[test]
    fn whoever_waits_for_a_person_is_woken_by_the_answer_and_by_nothing_else() {
        let (soon, late) = (Duration::from_millis(300), Duration::from_secs(600));
        check_looks(late, Some(Duration::ZERO), Duration::ZERO);
        check_looks(late, Some(soon), soon);
        check_looks(soon, None, soon);
    }

    #[test]
    fn a_deadline_passes_at_its_moment_and_the_wall_comes_first() {
        check(10, None, 0, 9, None);
        check(10, None, 0, 10, Some(End::WallDeadline));
        check(10, Some(3), 0, 3, Some(End::IdleDeadline));
        check(10, Some(3), 1, 3, None);
        check(10, Some(3), 7, 10, Some(End::WallDeadline));
        check(u64::MAX, Some(u64::MAX), 0, 1_000_000, None);
    }
}
