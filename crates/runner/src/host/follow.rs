//! Following a run until nobody works on it any more: in the process that carries it out, or from another terminal over
//! `norma.sock`. Over the socket every line begins with what it is: `e` and an event exactly as it is stored, `d` and
//! something that is on no record, `x` and how it went, which is the last.

use crate::host::feed::{Delta, Told};
use crate::host::request::{Answer, Request, Started};
use crate::host::socket;
use crate::{Error, Result};
use contract::{Event, EventLine, Slug};
use run::Run;
use std::io::{BufRead, BufReader, Result as IoResult, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use store::{Layout, Reader};

/// How many lines are read from the log at once.
const PAGE: u64 = 1000;

/// One reader of a run's events, live.
pub struct Follower {
    reader: Reader,
    slug: Slug,
    run: Arc<Run>,
    source: Source,
}

enum Source {
    Here(Receiver<Told>),
    There(Lines),
}

/// What the owner tells of a run, line by line.
pub struct Lines(BufReader<UnixStream>);

/// One of these lines.
pub enum Line {
    /// An event, exactly as it is stored.
    Event(String),
    /// This is on no record.
    Uncommitted(Delta),
    /// Nobody works on the run any more; for this reason, if it could not continue.
    Over(Option<Answer>),
    /// The owner is gone.
    Lost,
}

impl Lines {
    /// Has the owner tell of a run from an event on. `None`: there is no owner to be reached.
    pub fn follow(layout: &Layout, run: &str, after: u64) -> Result<Option<Lines>> {
        let stream = socket::open(layout, &Request::Follow { run: run.to_owned(), after })?;
        Ok(stream.map(|stream| Lines(BufReader::new(stream))))
    }

    /// Waits for the next.
    pub fn wait(&mut self) -> Result<Line> {
        let mut line = String::new();
        if self.0.read_line(&mut line).is_ok_and(|bytes| bytes > 0) { read(line.trim_end()) } else { Ok(Line::Lost) }
    }
}

fn read(line: &str) -> Result<Line> {
    let unknown = |why: &str| Error::environment(format!("the owner said something unknown: {why}"), "try again");
    let (kind, rest) = line.split_at_checked(2).ok_or_else(|| unknown(line))?;
    match kind {
        "e " => Ok(Line::Event(rest.to_owned())),
        "d " => serde_json::from_str(rest).map(Line::Uncommitted).map_err(|why| unknown(&why.to_string())),
        "x " => serde_json::from_str(rest).map(Line::Over).map_err(|why| unknown(&why.to_string())),
        _ => Err(unknown(line)),
    }
}

/// What a follower learns.
pub enum Followed {
    /// These events are on record, and [`Follower::run`] has them.
    Recorded(Arc<[Event]>),
    /// This is on no record.
    Uncommitted(Delta),
    /// Nobody works on the run any more; for this reason, if it could not continue.
    Over(Option<Answer>),
    /// The process that carried it out is gone.
    Lost,
}

impl Follower {
    /// Follows a run that this process carries out.
    pub(crate) fn here(layout: &Layout, run: Run, told: Receiver<Told>) -> Result<Follower> {
        let (reader, slug) = (Reader::open(layout)?, run.id.slug());
        Ok(Follower { reader, slug, run: Arc::new(run), source: Source::Here(told) })
    }

    /// Follows a run that the owner of the state directory has started. `None`: there is no owner to be reached.
    pub fn there(layout: &Layout, started: &Started) -> Result<Option<Follower>> {
        let (reader, slug) = (Reader::open(layout)?, started.run_id);
        let (id, mut events, _) = reader.log(&slug)?;
        events.retain(|event| event.seq <= started.seq);
        let run = Run::fold(id, &events).map_err(|illegal| damaged(&slug, &illegal.to_string()))?;
        let Some(lines) = Lines::follow(layout, &slug, run.seq)? else { return Ok(None) };
        Ok(Some(Follower { reader, slug, run: Arc::new(run), source: Source::There(lines) }))
    }

    /// The run with everything that was followed so far.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Waits for what comes next.
    pub fn wait(&mut self) -> Result<Followed> {
        match &mut self.source {
            Source::Here(told) => match told.recv() {
                Ok(Told::Recorded(run, events)) => self.recorded(run, events),
                Ok(Told::Uncommitted(delta)) => Ok(Followed::Uncommitted(delta)),
                Ok(Told::Over(outcome)) => self.over(outcome),
                // It was too far behind to be told.
                Err(_) => self.over(None),
            },
            Source::There(lines) => match lines.wait()? {
                Line::Event(line) => Ok(Followed::Recorded([self.advance(&line)?].into())),
                Line::Uncommitted(delta) => Ok(Followed::Uncommitted(delta)),
                Line::Over(outcome) => Ok(Followed::Over(outcome)),
                Line::Lost => self.follow_again(),
            },
        }
    }

    /// Whoever reads too slowly is hung up on, and asks again for what it does not know; where nobody answers, the process
    /// that carried out the run is gone.
    fn follow_again(&mut self) -> Result<Followed> {
        let Some(lines) = Lines::follow(self.reader.layout(), &self.slug, self.run.seq)? else {
            return Ok(Followed::Lost);
        };
        self.source = Source::There(lines);
        Ok(Followed::Recorded(Arc::default()))
    }

    fn recorded(&mut self, run: Arc<Run>, events: Arc<[Event]>) -> Result<Followed> {
        let Some(first) = events.first() else { return Ok(Followed::Recorded(events)) };
        if first.seq != self.run.seq + 1 {
            return Ok(Followed::Recorded(self.catch_up()?.into()));
        }
        self.run = run;
        Ok(Followed::Recorded(events))
    }

    /// The end comes after everything that was recorded.
    fn over(&mut self, outcome: Option<Answer>) -> Result<Followed> {
        let missed = self.catch_up()?;
        if missed.is_empty() {
            return Ok(Followed::Over(outcome));
        }
        let (sender, told) = std::sync::mpsc::sync_channel(1);
        let _ = sender.try_send(Told::Over(outcome));
        self.source = Source::Here(told);
        Ok(Followed::Recorded(missed.into()))
    }

    /// Reads from the log what was not told.
    fn catch_up(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let lines = self.reader.lines(&self.slug, self.run.seq, PAGE)?;
            if lines.is_empty() {
                return Ok(events);
            }
            for line in lines {
                events.push(self.advance(&line)?);
            }
        }
    }

    fn advance(&mut self, line: &str) -> Result<Event> {
        let read = EventLine::parse(line.as_bytes()).map_err(|problems| format!("{problems:?}"));
        let read = read.and_then(|line| line.event().map_err(|why| why.to_string()));
        let event = read.map_err(|why: String| damaged(&self.slug, &why))?;
        let run = Arc::make_mut(&mut self.run);
        run.advance(&event).map_err(|illegal| damaged(&self.slug, &illegal.to_string()))?;
        Ok(event)
    }
}

fn damaged(slug: &str, why: &str) -> store::Error {
    store::Error::Damaged { log: slug.to_owned(), why: why.to_owned() }
}

/// Tells a client what happens to a run from an event on.
pub(crate) fn serve(
    mut stream: &UnixStream,
    layout: &Layout,
    slug: &str,
    mut after: u64,
    told: Option<Receiver<Told>>,
) -> IoResult<()> {
    let reader = Reader::open(layout).map_err(std::io::Error::other)?;
    loop {
        let next = told.as_ref().map(Receiver::recv);
        // Asked for after it was told, so that nothing is between what was read and what is told next.
        if !matches!(next, Some(Ok(Told::Uncommitted(_)))) {
            loop {
                let lines = reader.lines(slug, after, PAGE).map_err(std::io::Error::other)?;
                if lines.is_empty() {
                    break;
                }
                after += lines.len() as u64;
                let text: String = lines.iter().map(|line| format!("e {line}\n")).collect();
                stream.write_all(text.as_bytes())?;
            }
        }
        let outcome = match next {
            Some(Ok(Told::Recorded(..))) => continue,
            Some(Ok(Told::Uncommitted(delta))) => {
                let text = serde_json::to_string(&delta).map_err(std::io::Error::other)?;
                stream.write_all(format!("d {text}\n").as_bytes())?;
                continue;
            }
            Some(Ok(Told::Over(outcome))) => outcome,
            Some(Err(_)) | None => None,
        };
        let text = serde_json::to_string(&outcome).map_err(std::io::Error::other)?;
        return stream.write_all(format!("x {text}\n").as_bytes());
    }
}
