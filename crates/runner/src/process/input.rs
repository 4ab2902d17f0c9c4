//! What a program is told on its standard input: bytes that are known from the start, or words that depend on what it
//! says.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use super::Wake;

/// Somebody who speaks with a program while it runs. Called from the loop that watches the program, one at a time, and
/// must not wait for anything.
pub trait Talk {
    /// The program has started; what it changes is in these layers.
    fn started(&mut self, _layers: &[OwnedFd]) {}
    /// The program said this.
    fn hear(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Takes what is to be said next; asked after everything that is heard.
    fn take_words(&mut self) -> Vec<u8>;
    /// Whether all is said, so that the program's input is closed.
    fn is_over(&self) -> bool;
    /// Whether all is heard as well: the program has nothing more to do and may leave.
    fn is_done(&self) -> bool;
    /// Whether it is not the program that is waited for, but a person.
    fn is_waiting(&self) -> bool;
    /// What wakes it when the person may have answered.
    fn wake(&self) -> Option<&Wake> {
        None
    }
    /// When to look again though nothing was heard and nobody was woken.
    fn next_look(&self) -> Option<Instant>;
    /// Looks again.
    fn look(&mut self, now: Instant) -> io::Result<()>;
    /// The program has to stop: whether there are words for that.
    fn stop(&mut self) -> bool;
}

/// What a program is told.
pub enum Said<'a> {
    /// This, and then its input is closed.
    Bytes(&'a [u8]),
    /// What somebody finds to say.
    Talk(&'a mut dyn Talk),
}

/// The writing end of the program's standard input, and what is still to be written.
pub(super) struct Input<'a> {
    /// `None` once everything is written or nobody reads any more.
    pipe: Option<OwnedFd>,
    said: Said<'a>,
    words: Vec<u8>,
}

impl<'a> Input<'a> {
    pub(super) fn new(pipe: OwnedFd, said: Said<'a>) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let mut input = Self { pipe: Some(pipe), said, words: Vec::new() };
        input.settle();
        Ok(input)
    }

    /// What there is to write to; none while there is nothing to write.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.rest().is_empty()).map(AsFd::as_fd)
    }

    fn rest(&self) -> &[u8] {
        match &self.said {
            Said::Bytes(rest) => rest,
            Said::Talk(_) => &self.words,
        }
    }

    /// Writes as much as fits without waiting. A program that does not want its input is within
    /// its rights, so a closed pipe is an end, not an error.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let written = match rustix::io::write(pipe, self.rest()) {
            Ok(count) => count,
            Err(Errno::PIPE) => {
                self.pipe = None;
                return Ok(());
            }
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        match &mut self.said {
            Said::Bytes(rest) => *rest = &rest[written..],
            Said::Talk(_) => drop(self.words.drain(..written)),
        }
        self.settle();
        Ok(())
    }

    /// Takes up new words, and closes the pipe when there will be none.
    fn settle(&mut self) {
        let over = match &mut self.said {
            Said::Bytes(_) => true,
            Said::Talk(talk) => {
                self.words.append(&mut talk.take_words());
                talk.is_over()
            }
        };
        if over && self.rest().is_empty() {
            self.pipe = None;
        }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Said::Talk(talk) = &mut self.said else { return Ok(()) };
        if !bytes.is_empty() {
            talk.hear(bytes)?;
            self.settle();
        }
        Ok(())
    }

    /// Readable when the one who is waited for may have answered; none while nobody is waited for.
    pub(super) fn answered(&self) -> Option<BorrowedFd<'_>> {
        match &self.said {
            Said::Talk(talk) if talk.is_waiting() => talk.wake().map(Wake::readable),
            Said::Talk(_) | Said::Bytes(_) => None,
        }
    }

    /// Looks again if it was woken or its time has come.
    pub(super) fn look(&mut self, now: Instant, woken: bool) -> io::Result<()> {
        let Said::Talk(talk) = &mut self.said else { return Ok(()) };
        if let Some(wake) = talk.wake().filter(|_| woken) {
            // Before the look: who answers during it wakes the loop again.
            wake.take();
        }
        if woken || talk.next_look().is_some_and(|at| at <= now) {
            talk.look(now)?;
            self.settle();
        }
        Ok(())
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        match &self.said {
            Said::Bytes(_) => None,
            Said::Talk(talk) => talk.next_look(),
        }
    }

    pub(super) fn is_talk(&self) -> bool {
        matches!(self.said, Said::Talk(_))
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.said, Said::Talk(talk) if talk.is_waiting())
    }

    /// Whether an interactive program has nothing more to do.
    pub(super) fn is_done(&self) -> bool {
        self.pipe.is_none() && matches!(&self.said, Said::Talk(talk) if talk.is_done())
    }

    /// Tells the program to stop, if there are words for it and it still listens.
    pub(super) fn stop(&mut self) -> io::Result<bool> {
        let Said::Talk(talk) = &mut self.said else { return Ok(false) };
        let told = self.pipe.is_some() && talk.stop();
        self.settle();
        self.write()?;
        Ok(told)
    }

    pub(super) fn close(&mut self) {
        self.pipe = None;
    }
}
