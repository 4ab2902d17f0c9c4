//! Having runs carried out: by this process, if nobody else owns the state directory, or by the norma that does. Either
//! way they are watched here, and what is printed and the exit code are the same.

use crate::command::background::{ensure_owner, whereabouts};
use crate::ending::{ending, exit_code};
use crate::error::{CommandError, Outcome, code};
use crate::hosting::{POLL, busy, holder, take, wait_for};
use crate::interrupts::{Interrupts, Stopping};
use crate::progress::{Reporter, Screen, at_work};
use crate::surroundings::Surroundings;
use crate::text::{err, safe};
use contract::{RunView, Slug, Status};
use run::Run;
use runner::{Answer, Context, Followed, Follower, Hosted, Hosting, Request, Sender, Start, Started, Stop};
use serde::Serialize;
use serde_json::json;
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::Arc;
use store::{Layout, Reader};

/// One command that has runs carried out, and the host, if this process is the one.
pub(crate) struct Session<'a> {
    pub(crate) here: &'a Surroundings,
    pub(crate) context: Arc<Context>,
    /// The host, where it is this process.
    host: Option<Box<Hosting>>,
    pub(crate) interrupts: Interrupts,
    asks: Asks,
    told: bool,
    /// The run that was watched last, as it was when it had ended or nobody worked on it any more.
    watched: Option<Arc<Run>>,
    /// Follows that run while its bundle is sealed.
    sealing: Cell<Option<Follower>>,
}

/// What a session does about somebody else who owns the state directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Has them do it as well; becomes the owner where there is none.
    Anybody,
    /// Gives up.
    Nobody,
    /// Has them do it and leaves; where there is none, a server in the background becomes the owner.
    AndLeaves,
}

impl Asks {
    /// What was typed.
    pub(crate) fn of(no_wait: bool, detach: bool) -> Asks {
        match (detach, no_wait) {
            (true, _) => Asks::AndLeaves,
            (false, true) => Asks::Nobody,
            (false, false) => Asks::Anybody,
        }
    }
}

impl<'a> Session<'a> {
    /// Takes the state directory, or finds whoever has it.
    pub(crate) fn open(here: &'a Surroundings, asks: Asks) -> Outcome<Session<'a>> {
        Session::at(here, here.context()?, asks)
    }

    /// The same with surroundings that are known already.
    pub(crate) fn at(here: &'a Surroundings, context: Context, asks: Asks) -> Outcome<Session<'a>> {
        let interrupts = Interrupts::install()?;
        let (context, sealing) = (Arc::new(context), Cell::new(None));
        let mut session = Session { here, context, host: None, interrupts, asks, told: false, watched: None, sealing };
        session.take()?;
        Ok(session)
    }

    /// Waits until this process has the state directory.
    pub(crate) fn own(&mut self) -> Outcome<&Hosting> {
        if self.host.is_none() {
            self.host = Some(wait_for(self.here, &self.context, "; --no-wait gives up instead")?);
        }
        Ok(self.host.as_ref().expect("BUG: it was just taken"))
    }

    /// Takes the state directory if it is free.
    fn take(&mut self) -> Outcome<()> {
        if self.leaves() {
            return ensure_owner(self.here, self.layout());
        }
        match take(self.here, &self.context)? {
            Hosted::Ours(host) => self.host = Some(host),
            Hosted::Theirs(holder) if self.asks == Asks::Nobody => {
                return Err(busy(&holder, "without --no-wait, norma has it do this as well, or waits for it"));
            }
            Hosted::Theirs(_) => {}
        }
        Ok(())
    }

    /// Whether runs are handed over and not watched.
    pub(crate) fn leaves(&self) -> bool {
        self.asks == Asks::AndLeaves
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

    /// Has a run started or continued, and watches it until nobody works on it any more: its evidence is on the disk.
    pub(crate) fn carry_out(&mut self, start: Start) -> Outcome<RunView> {
        let view = self.carry_out_to_result(start)?;
        self.sealed()?;
        Ok(view)
    }

    /// The same until it is on record how the run ended, for whoever prints that and then waits for its bundle
    /// ([`Session::print`]).
    pub(crate) fn carry_out_to_result(&mut self, start: Start) -> Outcome<RunView> {
        self.sealed()?;
        if self.leaves() {
            let sender = Sender { attended: false, ..self.here.sender() };
            let Started { run_id, notes, .. } = self.ask_owner(sender, &start)?;
            self.tell(&notes);
            return self.view(&run_id);
        }
        let (mut follower, notes) = self.start(&start)?;
        // With a large batch it has a large document.
        drop(start);
        self.tell(&notes);
        let slug = follower.run().id.slug();
        let screen = Arc::new(Screen::new(self.here.live));
        let stopping = self.stopping(&slug);
        let asking = if self.here.is_attended() { stopping.asking(screen.clone()) } else { stopping };
        self.interrupts.watch(Some(asking));
        let watched = self.watch(&mut follower, &screen);
        // A signal that finds the run at its end must not take the process from its bundle, nor from what other terminals
        // asked for.
        self.interrupts.watch(matches!(watched, Ok(false)).then(|| self.stopping(&slug)));
        drop(screen);
        let is_over = watched?;
        self.watched = Some(follower.run().clone());
        self.sealing.set(Some(follower).filter(|_| !is_over));
        self.view(&slug)
    }

    /// A run; one that was just watched is not read again.
    pub(crate) fn run(&self, slug: &Slug) -> Outcome<Arc<Run>> {
        match &self.watched {
            Some(run) if run.id.slug() == *slug => Ok(run.clone()),
            _ => Ok(Arc::new(self.reader()?.load(slug)?.0)),
        }
    }

    fn view(&self, slug: &str) -> Outcome<RunView> {
        let view = self.reader()?.run(slug)?;
        view.ok_or_else(|| store::Error::Refused(format!("there is no run {slug}")).into())
    }

    fn tell(&self, notes: &[String]) {
        notes.iter().filter(|_| !self.here.json).for_each(|note| err(&format!("note: {}", safe(note))));
    }

    fn start(&mut self, start: &Start) -> Outcome<(Follower, Vec<String>)> {
        let sender = self.here.sender();
        if let Some(host) = &self.host {
            return Ok(host.start(&sender, start.clone())?);
        }
        let holder = store::owner_of(self.layout());
        let started = self.ask_owner(sender, start)?;
        if self.host.is_none() {
            self.say_once(&format!("carried out by {}", at_work(&holder)));
        }
        let follower = Follower::there(self.layout(), &started)?.ok_or_else(|| lost(&started.run_id))?;
        Ok((follower, started.notes))
    }

    fn ask_owner(&mut self, sender: Sender, start: &Start) -> Outcome<Started> {
        let sender = Box::new(sender.without_the_rest(self.layout()));
        let (_, value) = self.request(&Request::Start { sender, start: start.clone() })?;
        serde_json::from_value(value).map_err(|why| {
            CommandError::new(code::ENVIRONMENT, format!("the owner said something unknown: {why}"), "try again")
        })
    }

    /// Answers whether nobody works on the run any more. What programs read names files of the bundle, so they are told
    /// nothing before it is sealed.
    fn watch(&self, follower: &mut Follower, screen: &Arc<Screen>) -> Outcome<bool> {
        let mut reporter = Reporter::new(self.here, screen.clone(), self.layout(), follower.run())?;
        loop {
            match follower.wait()? {
                Followed::Recorded(events) => reporter.recorded(follower.run(), &events),
                Followed::Uncommitted(delta) => reporter.uncommitted(follower.run(), &delta),
                Followed::Over(outcome) => return over(outcome).map(|()| true),
                Followed::Lost => return Err(lost(&follower.run().id.slug())),
            }
            if !self.here.json && follower.run().status.is_terminal() {
                return Ok(false);
            }
        }
    }

    /// Prints how a run ended. Whoever reads that does not wait for the bundle; the command does.
    pub(crate) fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Outcome<()> {
        self.here.print(value, text);
        self.sealed()
    }

    /// Waits until the bundle of the run that was watched is sealed. Where its owner dies first, the next one seals it.
    fn sealed(&self) -> Outcome<()> {
        let Some(mut follower) = self.sealing.take() else { return Ok(()) };
        let outcome = loop {
            match follower.wait()? {
                Followed::Recorded(_) | Followed::Uncommitted(_) => {}
                Followed::Over(outcome) => break over(outcome),
                Followed::Lost => break Ok(()),
            }
        };
        self.interrupts.watch(None);
        outcome
    }

    /// How a signal stops a run: it alone, whoever carries it out.
    fn stopping(&self, slug: &str) -> Stopping {
        match &self.host {
            Some(host) => Stopping::new(host.stopper(slug.to_owned())),
            None => {
                let (layout, run) = (self.layout().clone(), slug.to_owned());
                let request = move |stop| match stop {
                    Stop::Interrupt | Stop::Shutdown => Request::Pause { run: run.clone() },
                    Stop::Cancel => Request::Cancel { run: run.clone() },
                };
                let elsewhere = format!("the run continues; watch it: norma watch {slug}");
                Stopping::new(move |stop| drop(runner::send(&layout, &request(stop)))).detachable(elsewhere)
            }
        }
    }

    /// Prints how it ended and answers the exit code.
    pub(crate) fn finish(&self, view: &RunView) -> Outcome<ExitCode> {
        if self.leaves() {
            return self.leave(view, false);
        }
        let (reader, run) = (self.reader()?, self.run(&view.run_id)?);
        let again = self.here.again(&run);
        self.print(view, || ending(&reader, view, &run, again.as_deref()))?;
        Ok(exit_code(view))
    }

    /// Says who carries out a run that was handed over, and how to follow it. One that needs an approval that nobody has
    /// given will wait for it.
    pub(crate) fn leave(&self, view: &RunView, is_approved: bool) -> Outcome<ExitCode> {
        let run = self.run(&view.run_id)?;
        let waits = view.status == Status::Waiting || !is_approved && !run.started.contract.approval_for.is_empty();
        let (slug, owner) = (&view.run_id, holder(self.layout()).flatten());
        let url = whereabouts(self.layout()).map(|found| found.url);
        let value = json!({"run_id": slug, "status": view.status, "owner": owner.as_ref().map(|it| it.pid), "url": url, "needs_approval": waits});
        let mut next = format!("follow: norma watch {slug} · stop: norma cancel {slug}");
        if url.is_some() {
            next.push_str(&format!(" · in the browser: norma open {slug}"));
        }
        if waits {
            next = format!("it needs your approval: norma approvals\n{next}");
        }
        self.here.print(&value, || format!("run {slug} is carried out by {}\n{next}", at_work(&owner)));
        Ok(if waits { ExitCode::from(code::WAITING) } else { ExitCode::SUCCESS })
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
        // Where its result could not be printed, this is no run of another terminal either.
        let _ = self.sealed();
        self.stay();
    }
}

/// How nobody came to work on a run any more.
fn over(outcome: Option<Answer>) -> Outcome<()> {
    match outcome {
        Some(Answer::Refused { message, causes, hint, code }) => {
            Err(CommandError::refused(code, message, causes, hint))
        }
        Some(_) | None => Ok(()),
    }
}

/// The process that carried out a run is gone.
fn lost(slug: &str) -> CommandError {
    let message = format!("the norma that carried out run {slug} is gone");
    CommandError::new(code::INTERRUPTED, message, format!("continue it: norma resume {slug}"))
}
