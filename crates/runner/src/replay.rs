//! Replaying a run: is what was recorded of it what follows from the evidence that is kept? The log is folded again, and
//! every decision on it is made again by the functions that made it the first time. *Rehydrate* reads only; *reverify*
//! applies the patches and runs the tests again; *recorded* has agents work again with the recorded answers of their
//! models ([`recorded`]); *reexec* carries the contract out again ([`reexec`]). None of them changes a byte of the run.

mod changes;
mod items;
mod recorded;
pub(crate) mod reexec;
mod tally;
mod tests;
mod turns;

use crate::change::{OnTop, diff};
use crate::context::policy::Rules;
use crate::drive::conflict::meet;
use crate::git::Objects;
use crate::git::{id, recorded};
use crate::landing::merged_tree;
use crate::machine::state_hash::Memo;
use crate::record::Control;
use crate::{Error, Machine, Result, World};
use contract::pipeline::LineMoved;
use contract::replay::{ReplayCheck, ReplayMode, ReplayReport};
use contract::{Event, Fact, ItemBase, Landing, PipelineFact, Policies, Reason, Status};
use run::{Due, Run};
use std::path::PathBuf;
use store::{Reader, Verification, now};
use tally::{Found, Tally, difference, found, of_record};

/// What a replay reads.
#[derive(Clone, Copy)]
pub struct Replay<'a> {
    /// The record.
    pub reader: &'a Reader,
    /// norma's own objects.
    pub objects: &'a Objects,
    /// The policies of the state directory; they must be those that the run was judged by.
    pub policies: &'a Policies,
}

/// Who says what came of an item's tests.
enum Tests<'t> {
    /// The record.
    OnRecord,
    /// A machine that runs them again, until somebody asks it to stop.
    Again(&'t mut Machine, &'t Control),
}

impl Replay<'_> {
    /// Judges a run again on what is kept of it. `record` is what its verification says. Nothing is started.
    pub fn rehydrate(&self, record: &Verification) -> Result<ReplayReport> {
        let judged = self.walk(&record.run_id, Tests::OnRecord, |walk| walk.all_of_it());
        report(record, ReplayMode::Rehydrate, judged)
    }

    /// Applies a run's patches and runs its tests again. `record` is what its verification says.
    pub fn reverify(&self, record: &Verification, machine: &mut Machine, control: &Control) -> Result<ReplayReport> {
        check_record(record)?;
        let judged = self.walk(&record.run_id, Tests::Again(machine, control), |walk| walk.all_of_it());
        let (run, _) = self.reader.load(&record.run_id)?;
        machine.release(&run)?;
        report(record, ReplayMode::Reverify, judged)
    }

    /// Goes through the log of a run that has ended.
    fn walk<'t>(
        &self,
        slug: &str,
        tests: Tests<'t>,
        go: impl FnOnce(&mut Walk<'_, 't>) -> Result<Vec<ReplayCheck>>,
    ) -> Result<Vec<ReplayCheck>> {
        let (id, events, _) = self.reader.log(slug)?;
        let damaged = |why: run::Illegal| store::Error::Damaged { log: slug.to_owned(), why: why.to_string() };
        let end = Run::fold(id, &events).map_err(damaged)?;
        if !end.status.is_terminal() {
            let why = format!("run {slug} is {}; only a run that has ended can be replayed", end.status);
            return Err(Error::declined(why, format!("look at it: norma show {slug}")));
        }
        crate::context::policy::same_policies(&end, self.policies)?;
        let run = Run::start(id, &events[0]).map_err(damaged)?;
        let dir = self.reader.layout().run(slug);
        let rules = Rules::new(self.policies, self.reader.layout(), run.started.contract.rules);
        let line = vec![run.line().head.clone()];
        let mut walk = Walk { with: *self, rules, dir, run, events: &events, line, memo: Memo::empty(), tests };
        go(&mut walk)
    }
}

fn report(record: &Verification, mode: ReplayMode, judged: Result<Vec<ReplayCheck>>) -> Result<ReplayReport> {
    let mut checks = of_record(record);
    match judged {
        Ok(judged) => checks.extend(judged),
        // The verification has named what is wrong with it.
        Err(Error::Store(store::Error::Damaged { why, .. })) => {
            let mut log = Tally::default();
            log.add(vec![difference(None, None, format!("it cannot be judged again: {why}"))]);
            checks.push(log.check("judged again"));
        }
        Err(error) => return Err(error),
    }
    Ok(ReplayReport::new(record.run_id.clone(), mode, now(), checks))
}

/// A run that does not verify is not trusted with a process.
pub fn check_record(record: &Verification) -> Result<()> {
    if record.verified {
        return Ok(());
    }
    let why = "it does not verify, so nothing of it was run again".to_owned();
    Err(store::Error::Damaged { log: record.run_id.clone(), why }.into())
}

/// A run on its way through its own log.
struct Walk<'w, 't> {
    with: Replay<'w>,
    rules: Rules<'w>,
    /// The run's directory.
    dir: PathBuf,
    /// The run before the event that is looked at.
    run: Run,
    events: &'w [Event],
    /// Where the run's line has ended so far.
    line: Vec<ItemBase>,
    memo: Memo,
    tests: Tests<'t>,
}

/// What is compared, a tally each.
#[derive(Default)]
struct Tallies {
    turns: Tally,
    patches: Tally,
    gates: Tally,
    tests: Tally,
    receipts: Tally,
    decisions: Tally,
}

impl Walk<'_, '_> {
    fn all_of_it(&mut self) -> Result<Vec<ReplayCheck>> {
        let mut tallies = Tallies::default();
        let events = self.events;
        for (at, event) in events.iter().enumerate().skip(1) {
            let not_due = self.run.admits(&event.fact).err().map(|not_due| found(None, not_due.to_string()));
            if not_due.is_some() {
                tallies.decisions.compare(Some(event.seq), Ok(not_due.into_iter().collect()))?;
            }
            self.judge_again(at, event, &mut tallies)?;
            self.go_past(event);
        }
        if matches!(self.tests, Tests::OnRecord) {
            tallies.decisions.compare(None, self.result())?;
        }
        let Tallies { turns, patches, gates, tests, receipts, decisions } = tallies;
        let names = ["turns", "patches", "gates", "tests", "receipts", "decisions"];
        let all = names.into_iter().zip([turns, patches, gates, tests, receipts, decisions]);
        Ok(all.filter(|(_, tally)| !tally.is_empty()).map(|(name, tally)| tally.check(name)).collect())
    }

    fn go_past(&mut self, event: &Event) {
        self.run.apply(event).expect("BUG: the log was folded before");
        if self.line.last() != Some(&self.run.line().head) {
            self.line.push(self.run.line().head.clone());
        }
    }

    fn judge_again(&mut self, at: usize, event: &Event, tallies: &mut Tallies) -> Result<()> {
        let again = matches!(self.tests, Tests::Again(..));
        match &event.fact {
            Fact::PatchApplied(_) | Fact::ChangeDropped(_) => {
                changes::compare(self, at, tallies)?;
            }
            Fact::ItemEnded(ended) if again => items::verify_again(self, event.seq, ended, tallies)?,
            Fact::ItemEnded(ended) => items::judge_again(self, at, ended, tallies)?,
            _ if again => {}
            Fact::StepCommitted(done) => {
                tallies.turns.compare(Some(event.seq), turns::differences(self, at, done))?;
            }
            Fact::LandingStarted(landing) => {
                tallies.decisions.compare(Some(event.seq), self.landing(landing))?;
            }
            Fact::Pipeline(PipelineFact::LineMoved(moved)) => {
                tallies.decisions.compare(Some(event.seq), self.line_moved(moved))?;
            }
            fact => {
                if let Some(found) = self.end(fact) {
                    tallies.decisions.compare(Some(event.seq), Ok(found))?;
                }
            }
        }
        Ok(())
    }

    /// What lands is the run's own tree, or what comes of merging it with the tree of the commit that it is put on.
    fn landing(&self, landing: &Landing) -> Result<Vec<Found>> {
        let commit = landing.commit;
        let tree = self.with.objects.tree_of(id(commit))?;
        let same = match landing.from.filter(|_| landing.is_merged(&self.run.started.base)) {
            None => tree == id(self.run.tree()),
            Some(from) => merged_tree(self.with.objects, &self.run, id(from))? == OnTop::Tree(recorded(tree)),
        };
        Ok((!same).then(|| found(None, format!("commit {commit} holds another tree"))).into_iter().collect())
    }

    /// What a run had made is on a commit of the user's branch, but for what conflicts with that.
    fn line_moved(&self, moved: &LineMoved) -> Result<Vec<Found>> {
        let met = meet(self.with.objects, &self.run, id(moved.onto.commit))?;
        let same = met.is_some_and(|met| met.head == moved.head && met.findings() == moved.findings);
        let what = || format!("commit {} is not what it comes to on {}", moved.head.commit, moved.onto.commit);
        Ok((!same).then(|| found(None, what())).into_iter().collect())
    }

    /// Whether the run ends as its workflow would have it end; none if that is not for the workflow to say. A person, or
    /// what stands in the way of a landing, may end it at any time.
    fn end(&self, fact: &Fact) -> Option<Vec<Found>> {
        let (status, reason) = fact.run_state().filter(|(status, _)| status.is_terminal())?;
        let from_outside = [Reason::LandingConflict, Reason::ApprovalDenied, Reason::EvidenceLost];
        if status == Status::Canceled || reason.is_some_and(|reason| from_outside.contains(&reason)) {
            return None;
        }
        Some(match self.run.next() {
            Due::End { status, end, .. } if Fact::ended(status, end.clone()) == *fact => Vec::new(),
            due => vec![found(None, format!("the run ends {status}, but due is {due:?}"))],
        })
    }

    /// The change of the whole run, as it is written down beside its evidence.
    fn result(&self) -> Result<Vec<Found>> {
        let (patch, names) = diff(self.with.objects, &self.run)?;
        let mut all = Vec::new();
        for (name, bytes) in [("patch.diff", patch), ("diff_name_only.txt", names)] {
            match std::fs::read(self.dir.join(name)) {
                Ok(there) if there == bytes => {}
                Ok(_) => all.push(found(None, format!("{name} is not what the run changed"))),
                // Nobody was there to write it.
                Err(_) if matches!(self.run.reason, Some(Reason::Canceled | Reason::EvidenceLost)) => {}
                Err(error) => all.push(found(None, format!("{name} cannot be read: {error}"))),
            }
        }
        Ok(all)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        let path = self.dir.join(path);
        std::fs::read(&path).map_err(|source| Error::io("read", &path, source))
    }
}
