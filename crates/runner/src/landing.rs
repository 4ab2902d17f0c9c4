//! Bringing a result to the user's repository, and taking it back. A landing is an intent on record, a
//! compare-and-swap of one ref, and the fact that it happened; after a crash it is simply done again. A branch that has
//! moved since the run started gets the result merged with what it holds now ([`merged`]), or nothing.

mod merged;

pub(crate) use merged::{merged_spec, merged_tree};

use crate::change::{commit_message, identity};
use crate::context::policy::Rules;
use crate::git::{BranchMove, CommitSpec, ObjectId, Objects, Repository, id, recorded};
pub(crate) use crate::machine::landing::short_ref;
use crate::machine::landing::{carry_out, create_branch, described};
use crate::record::Driver;
use crate::world::LandResult;
use crate::{Error, Machine, Result, World};
use contract::{Audit, End, Fact, Landing, LandingDeclined, LandingMode, LandingUndone, Reason, Status, Workflow};
use merged::{MergedCommit, Merging};
use run::Run;
use store::{Reader, Store, crash};

/// How often a result is merged anew because the branch moves while it is being tested.
const MOVES_MAX: usize = 5;

/// Has somebody fix what conflicts with a commit of the user's branch; false where nobody can.
type HandBack = fn(&mut Driver<'_, '_>, ObjectId) -> Result<bool>;

/// Lands the result of the run that is being driven: where the contract says, or else on a branch of its own.
pub(crate) fn land(driver: &mut Driver<'_, '_>, hand_back: HandBack) -> Result<()> {
    let landing = match driver.run.landing() {
        Some(landing) => landing.clone(),
        None => {
            let Some((landing, objection)) = plan(driver, hand_back)? else { return Ok(()) };
            driver.record(vec![Fact::LandingStarted(landing.clone())], Vec::new())?;
            if let Some(why) = objection {
                return driver.record(vec![Fact::LandingDeclined(LandingDeclined { why })], Vec::new());
            }
            landing
        }
    };
    crash::point("land.after_intent");
    match driver.world.land(&driver.run, &landing)? {
        LandResult::Done => {
            driver.record(vec![Fact::Landed(landing)], Vec::new())?;
            crash::point("land.after_commit");
            Ok(())
        }
        LandResult::Declined(why) if landing.checkout => {
            driver.record(vec![Fact::LandingDeclined(LandingDeclined { why })], Vec::new())
        }
        LandResult::Declined(why) => {
            let end = End { reason: Some(Reason::LandingConflict), message: why };
            driver.end(vec![Fact::ended(Status::Failed, end)])
        }
    }
}

/// Where the result should go, and why it cannot, as far as that is known before anything is tried; none if somebody
/// asked to stop, or if somebody is to fix first what is in its way.
fn plan(driver: &mut Driver<'_, '_>, hand_back: HandBack) -> Result<Option<(Landing, Option<String>)>> {
    let mut landing = planned(driver.objects, &driver.run)?;
    for _ in 0..MOVES_MAX {
        let moved = driver.world.moved_to(&landing)?.filter(|_| landing.checkout);
        // What was put on the branch to be fixed there lands as one commit, without what it went through.
        let Some(at) = moved.or_else(|| to_squash(&driver.run, &landing)) else { return Ok(Some((landing, None))) };
        let rules = Rules::new(driver.policies, &driver.store.layout, driver.run.started.contract.rules);
        let merging = Merging { objects: driver.objects, run: &driver.run, rules, onto: at };
        let merged = merging.commit(Some(&mut *driver.world))?;
        if driver.control.requested().is_some() {
            return Ok(None);
        }
        let from = Some(recorded(at));
        let why = match merged {
            MergedCommit::Made(commit) => {
                landing = Landing { from, commit: recorded(commit), ..landing };
                continue;
            }
            MergedCommit::Conflicts(_) if hand_back(driver, at)? => return Ok(None),
            MergedCommit::Conflicts(why) => match driver.run.pipeline().and_then(|pipeline| pipeline.given_up()) {
                Some(tried) => format!("{why} (not fixed: {tried})"),
                None => why,
            },
            MergedCommit::Declined(why) => why,
        };
        let why = format!("{} has moved meanwhile: {why}", short_ref(&landing.target));
        return Ok(Some((landing, Some(why))));
    }
    Ok(Some((landing, None)))
}

/// The commit of the user's branch that a run's line was put on and still ends on as it is.
fn to_squash(run: &Run, landing: &Landing) -> Option<ObjectId> {
    let is_line = landing.checkout && landing.commit == run.line().head.commit;
    (is_line && run.has_moved()).then(|| id(run.ground().commit))
}

/// Where the result should go, with the commit for it.
fn planned(objects: &Objects, run: &Run) -> Result<Landing> {
    let slug = run.id.slug();
    let commit = match run.started.contract.workflow {
        Workflow::Pdca => objects.commit(&commit_of(run))?,
        // What the items made is a line of commits already.
        Workflow::Batch | Workflow::Graph | Workflow::Intent | Workflow::Pipeline => id(run.line().head.commit),
    };
    objects.pin(&result_pin(&slug), commit)?;
    let commit = recorded(commit);
    if run.declined().is_some() || run.started.contract.landing.mode == LandingMode::Branch {
        return Ok(Landing { target: own_branch(&slug), from: None, commit, checkout: false });
    }
    let target = run.started.base.branch.clone().unwrap_or_else(|| "HEAD".to_owned());
    Ok(Landing { target, from: Some(run.ground().commit), commit, checkout: true })
}

/// The one commit of a run whose turns made one tree.
fn commit_of(run: &Run) -> CommitSpec {
    CommitSpec {
        tree: id(run.tree()),
        parents: vec![id(run.started.base.commit)],
        author: identity(run),
        seconds: (run.verdict_at().unwrap_or_default().unix_ms() / 1000) as i64,
        message: commit_message(run),
    }
}

/// The name under which norma's repository keeps what a run made.
pub(crate) fn result_pin(slug: &str) -> String {
    format!("runs/{slug}/result")
}

/// The same for what was made of it to land on a branch that had moved.
fn merged_pin(slug: &str) -> String {
    format!("runs/{slug}/merged")
}

/// The branch that keeps a result which is not on the user's own.
pub(crate) fn own_branch(slug: &str) -> String {
    format!("refs/heads/norma/{slug}")
}

/// What is known before a landing is tried.
enum Planned {
    Ready(Landing),
    /// Why the result cannot go there.
    Declined(String),
}

/// Where a run is landed after it has ended.
#[derive(Clone, Copy)]
pub struct Later<'l> {
    /// The record.
    pub store: &'l Store,
    /// The user's repository.
    pub user: &'l Repository,
    /// norma's own objects.
    pub objects: &'l Objects,
}

impl Later<'_> {
    /// Lands a run that has passed and whose result is not on the user's branch. Where that has moved, the result is merged
    /// with what it holds now, and `machine` runs the tests; without one, what has tests does not land there.
    pub fn land(&self, slug: &str, machine: Option<&mut Machine>) -> Result<Landing> {
        let Later { store, user, objects } = *self;
        let (run, view) = load(store, slug)?;
        check_landable(&run, &view)?;
        let result = match (objects.pinned(&result_pin(slug))?, view.result) {
            (Some(result), Some(_)) => result,
            _ => return Err(Error::declined(format!("run {slug} changed nothing"), "there is nothing to land")),
        };
        let landing = match self.plan(&run, result, machine)? {
            Planned::Ready(landing) => landing,
            Planned::Declined(why) => return self.declined(&run, result, why),
        };
        if let LandResult::Declined(why) = carry_out(user, objects, &run, &landing)? {
            return self.declined(&run, result, why);
        }
        store.audit(Audit::Landed { run_id: run.id.slug(), landing: landing.clone() }).wait()?;
        // The user's own branch has it now; a leftover branch of norma's would only be in the way.
        let own = own_branch(slug);
        if user.read_ref(&own)? == Some(result) {
            let _ = user.swap_ref(&own, None, Some(result), "norma: landed")?;
        }
        Ok(landing)
    }

    /// Where the result goes.
    fn plan(&self, run: &Run, result: ObjectId, machine: Option<&mut Machine>) -> Result<Planned> {
        let Later { store, user, objects } = *self;
        let head = user.head()?;
        let target = head.branch.unwrap_or_else(|| "HEAD".to_owned());
        let landing = |from: ObjectId, commit: ObjectId| Landing {
            target,
            from: Some(recorded(from)),
            commit: recorded(commit),
            checkout: true,
        };
        let base = id(run.ground().commit);
        // Killed between the move and its record: it is there already, and only has to be completed.
        let moved = [Some(result), objects.pinned(&merged_pin(&run.id.slug()))?].contains(&Some(head.commit));
        if moved && let Some(from) = objects.parents_of(head.commit)?.first() {
            let from = if head.commit == result { base } else { *from };
            return Ok(Planned::Ready(landing(from, head.commit)));
        }
        if head.commit == base && !run.has_moved() {
            return Ok(Planned::Ready(landing(base, result)));
        }
        let policies = crate::context::policy::policies_of(run, &store.layout)?;
        let rules = Rules::new(&policies, &store.layout, run.started.contract.rules);
        let merging = Merging { objects, run, rules, onto: head.commit };
        let merged = match machine {
            None => merging.commit(None)?,
            Some(machine) => {
                let merged = merging.commit(Some(&mut *machine))?;
                machine.release(run)?;
                merged
            }
        };
        Ok(match merged {
            MergedCommit::Made(commit) => Planned::Ready(landing(head.commit, commit)),
            MergedCommit::Conflicts(why) | MergedCommit::Declined(why) => {
                Planned::Declined(format!("HEAD has moved: {why}"))
            }
        })
    }

    /// Keeps the result on a branch of its own, and says how to take it from there.
    fn declined(&self, run: &Run, result: ObjectId, why: String) -> Result<Landing> {
        keep_on_branch(self.user, self.objects, run, result)?;
        let own = own_branch(&run.id.slug());
        Err(Error::declined(why, format!("merge it yourself: git merge {}", short_ref(&own))))
    }
}

/// Whether a run has something that can land and has not.
fn check_landable(run: &Run, view: &contract::RunView) -> Result<()> {
    let slug = run.id.slug();
    if run.status != Status::Succeeded {
        let why = format!("run {slug} is {}; only a run that has passed can land", run.status);
        return Err(Error::declined(why, format!("look at it: norma show {slug}")));
    }
    if let Some(first) = &run.started.replay_of {
        let why = format!("run {slug} was carried out only to be compared with {first}");
        return Err(Error::declined(why, format!("land that one: norma land {first}")));
    }
    if let Some(landed) = view.landing.as_ref().filter(|landing| landing.checkout) {
        return Err(Error::declined(
            format!("run {slug} is on {} already", short_ref(&landed.target)),
            format!("take it back: norma undo {slug}"),
        ));
    }
    Ok(())
}

fn keep_on_branch(user: &Repository, objects: &Objects, run: &Run, commit: ObjectId) -> Result<()> {
    let slug = run.id.slug();
    let ends = (id(run.ground().commit), commit);
    create_branch(user, objects, &own_branch(&slug), ends, &format!("norma: result of {slug}")).map(|_| ())
}

/// Takes a landing back: the branch and the touched files are as they were before it.
pub fn undo(store: &Store, user: &Repository, objects: &Objects, slug: &str) -> Result<LandingUndone> {
    let (run, view) = load(store, slug)?;
    let Some(landed) = view.landing else {
        return Err(Error::declined(format!("run {slug} has not landed"), format!("look at it: norma show {slug}")));
    };
    let new = id(landed.commit);
    let message = format!("norma: undo {slug}");
    if !landed.checkout {
        let _ = user.swap_ref(&landed.target, None, Some(new), &message)?;
    } else {
        let why = || format!("{} is said to have landed on nothing", landed.commit);
        let base = landed.from.ok_or_else(|| store::Error::Damaged { log: slug.to_owned(), why: why() })?;
        let branch = (landed.target != "HEAD").then_some(landed.target.as_str());
        let back = BranchMove { user, objects, branch, base: id(base), new, message: &message };
        match described(back.undo(&mut |_| {})?, &landed.target) {
            LandResult::Done => {}
            LandResult::Declined(why) => {
                let hint = format!("revert it by a commit of your own: git revert {}", landed.commit);
                return Err(Error::declined(why, hint));
            }
        }
    }
    let back = LandingUndone {
        target: landed.target,
        from: Some(landed.commit),
        commit: landed.from,
        checkout: landed.checkout,
    };
    store.audit(Audit::Undone { run_id: run.id.slug(), landing: back.clone() }).wait()?;
    Ok(back)
}

fn load(store: &Store, slug: &str) -> Result<(Run, contract::RunView)> {
    let reader = Reader::open(&store.layout)?;
    let (run, _) = reader.load(slug)?;
    let view = reader.run(slug)?.ok_or_else(|| store::Error::Refused(format!("there is no run {slug}")))?;
    Ok((run, view))
}
