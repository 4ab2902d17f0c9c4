//! Having runs carried out: by this process, if nobody else owns the state directory, or by the norma that does. Either
//! way they are watched here, and what is printed and the exit code are the same.

use crate::ending::{ending, exit_code};
use crate::error::{CommandError, Outcome, code};
use crate::interrupts::{Interrupts, Stopping};
use crate::progress::{Reporter, Screen, at_work};
use crate::surroundings::Surroundings;
use crate::text::{err, safe};
use contract::RunView;
use runner::{Answer, Context, Followed, Follower, Hosted, Hosting, Request, Start, Started, Stop};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use store::{Layout, Reader};

/// How often a norma that waits for another one asks again.
const POLL: Duration = Duration::from_millis(100);

/// One command that has runs carried out, and the host, if this process is the one.
pub(crate) struct Session<'a> {
    pub(crate) here: &'a Surroundings,
    pub(crate) context: Arc<Context>,
    /// The host, where it is this process.
    host: Option<Box<Hosting>>,
    pub(crate) interrupts: Interrupts,
    no_wait: bool,
    told: bool,
}

/// Who has the state directory.
#[derive(PartialEq, Eq)]
enum Whose {
    Ours,
    Theirs,
}

impl<'a> Session<'a> {
    /// Takes the state directory, or finds whoever has it.
    pub(crate) fn open(here: &'a Surroundings, no_wait: bool) -> Outcome<Session<'a>> {
        Session::at(here, here.context()?, no_wait)
    }

    /// The same with surroundings that are known already.
    pub(crate) fn at(here: &'a Surroundings, context: Context, no_wait: bool) -> Outcome<Session<'a>> {
        let interrupts = Interrupts::install()?;
        let mut session = Session { here, context: Arc::new(context), host: None, interrupts, no_wait, told: false };
        session.take()?;
        Ok(session)
    }

    /// Waits until this process has the state directory.
    pub(crate) fn own(&mut self) -> Outcome<&Hosting> {
        while self.host.is_none() {
            std::thread::sleep(POLL);
            if self.take()? == Whose::Theirs {
                let holder = at_work(&store::owner_of(self.layout()));
                self.say_once(&format!("waiting for {holder} to finish; --no-wait gives up instead"));
            }
        }
        Ok(self.host.as_ref().expect("BUG: it was just taken"))
    }

    /// Takes the state directory if it is free.
    fn take(&mut self) -> Outcome<Whose> {
        let holder = match Hosting::take(&self.context)? {
            Hosted::Ours(host) => {
                self.here.tell_recovery(host.recovery());
                self.host = Some(host);
                return Ok(Whose::Ours);
            }
            Hosted::Theirs(holder) => holder,
        };
        if self.no_wait {
            let message = format!("{} is at work here", at_work(&holder));
            let hint = "without --no-wait, norma has it do this as well, or waits for it";
            return Err(CommandError::new(code::ENVIRONMENT, message, hint));
        }
        Ok(Whose::Theirs)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.context.layout
    }

    pub(crate) fn reader(&self) -> Outcome<Reader> {
        Ok(Reader::open(self.layout())?)
    }

    /// Who is at the keyboard.
    pub(crate) fn person(&self) -> String {
        self.here.person(&self.context.user)
    }

    /// Has a request carried out, by whoever owns the state directory.
    pub(crate) fn request(&mut self, request: &Request) -> Outcome<(String, serde_json::Value)> {
        loop {
            let answer = match &self.host {
                Some(host) => Some(host.handle(request.clone())),
                None => runner::send(self.layout(), request)?,
            };
            match answer {
                Some(Answer::Done { message, value }) => return Ok((message, value)),
                Some(Answer::Refused { message, causes, hint, code }) => {
                    return Err(CommandError::refused(code, message, causes, hint));
                }
                // It is about to let go of the state directory, or has not begun to listen.
                Some(Answer::Leaving) | None => {
                    std::thread::sleep(POLL);
                    self.take()?;
                }
            }
        }
    }

    /// Has a run started or gone on with, and watches it until nobody works on it any more.
    pub(crate) fn carry_out(&mut self, start: &Start) -> Outcome<RunView> {
        let (follower, notes) = self.start(start)?;
        if !self.here.json {
            notes.iter().for_each(|note| err(&format!("note: {}", safe(note))));
        }
        let slug = follower.run().id.slug();
        let screen = Arc::new(Screen::new(self.here.live));
        self.interrupts.watch(Some(self.stopping(&slug, &screen)));
        let watched = self.watch(follower, &screen);
        self.interrupts.watch(None);
        drop(screen);
        watched?;
        let view = self.reader()?.run(&slug)?;
        view.ok_or_else(|| store::Error::Refused(format!("there is no run {slug}")).into())
    }

    fn start(&mut self, start: &Start) -> Outcome<(Follower, Vec<String>)> {
        let sender = self.here.sender();
        if let Some(host) = &self.host {
            return Ok(host.start(&sender, start.clone())?);
        }
        let holder = store::owner_of(self.layout());
        let sender = Box::new(sender.without_the_rest(self.layout()));
        let (_, value) = self.request(&Request::Start { sender, start: start.clone() })?;
        let started: Started = serde_json::from_value(value).map_err(|why| {
            CommandError::new(code::ENVIRONMENT, format!("the owner said something unknown: {why}"), "try again")
        })?;
        if self.host.is_none() {
            self.say_once(&format!("carried out by {}", at_work(&holder)));
        }
        let follower = Follower::there(self.layout(), &started)?.ok_or_else(|| lost(&started.run_id))?;
        Ok((follower, started.notes))
    }

    fn watch(&self, mut follower: Follower, screen: &Arc<Screen>) -> Outcome<()> {
        let mut reporter = Reporter::new(self.here, screen.clone(), self.layout(), follower.run())?;
        loop {
            match follower.wait()? {
                Followed::Recorded(events) => reporter.recorded(follower.run(), &events),
                Followed::Uncommitted(delta) => reporter.uncommitted(follower.run(), &delta),
                Followed::Over(None) => return Ok(()),
                Followed::Over(Some(Answer::Refused { message, causes, hint, code })) => {
                    return Err(CommandError::refused(code, message, causes, hint));
                }
                Followed::Over(Some(_)) => return Ok(()),
                Followed::Lost => return Err(lost(&follower.run().id.slug())),
            }
        }
    }

    /// How a signal stops a run: it alone, whoever carries it out.
    fn stopping(&self, slug: &str, screen: &Arc<Screen>) -> Stopping {
        let stopping = match &self.host {
            Some(host) => Stopping::new(host.stopper(slug.to_owned())),
            None => {
                let (layout, run) = (self.layout().clone(), slug.to_owned());
                let request = move |stop| match stop {
                    Stop::Interrupt | Stop::Shutdown => Request::Pause { run: run.clone() },
                    Stop::Cancel => Request::Cancel { run: run.clone() },
                };
                let elsewhere = format!("the run goes on; watch it: norma events {slug} --follow");
                Stopping::new(move |stop| drop(runner::send(&layout, &request(stop)))).detachable(elsewhere)
            }
        };
        if self.here.is_attended() { stopping.asking(screen.clone()) } else { stopping }
    }

    /// Prints how it ended and answers the exit code.
    pub(crate) fn finish(&self, view: &RunView) -> Outcome<ExitCode> {
        let reader = self.reader()?;
        let (run, _) = reader.load(&view.run_id)?;
        let again = self.here.again(&run);
        self.here.print(view, || ending(&reader, view, &run, again.as_deref()));
        Ok(exit_code(view))
    }

    /// Stays until the runs have ended that other terminals gave to this process, however its own have ended.
    fn stay(&self) {
        let Some(host) = &self.host else { return };
        let stop_all = host.stop_all();
        self.interrupts.watch(Some(Stopping::new(move |_| stop_all())));
        let others = host.under_way();
        if !others.is_empty() && !self.here.json {
            err(&format!(
                "staying for what other terminals asked for: {}; Ctrl-C pauses {}",
                others.join(", "),
                if others.len() == 1 { "it" } else { "them" }
            ));
        }
        host.wait_for_others();
    }

    fn say_once(&mut self, text: &str) {
        if !self.told && !self.here.json {
            err(text);
        }
        self.told = true;
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.stay();
    }
}

/// The process that carried out a run is gone.
fn lost(slug: &str) -> CommandError {
    let message = format!("the norma that carried out run {slug} is gone");
    CommandError::new(code::INTERRUPTED, message, format!("continue it: norma resume {slug}"))
}
