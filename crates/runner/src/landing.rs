//! Bringing a result to the user's repository, and taking it back. A landing is an intent on record, a
//! compare-and-swap of one ref, and the fact that it happened; after a crash it is simply done again.

use crate::drive::Driver;
use crate::git::{Land, ObjectId, Objects, Repository, Swap, land_on_branch, undo_on_branch};
use crate::world::LandResult;
use crate::{Error, Result};
use contract::{Audit, End, Fact, Landing, LandingDeclined, Reason, Status};
use run::{Run, Stage};
use store::{Reader, Store, crash};

/// Lands the result of the run that is being driven: where the contract says, or else on a branch of its own.
pub(crate) fn land(driver: &mut Driver<'_, '_>) -> Result<()> {
    let landing = match &driver.run.stage {
        Stage::LandingOpen(landing) => landing.clone(),
        _ => {
            let landing = driver.world.plan_landing(&driver.run)?;
            driver.record(vec![Fact::LandingStarted(landing.clone())], Vec::new())?;
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

/// The branch that keeps a result which is not on the user's own.
pub(crate) fn own_branch(slug: &str) -> String {
    format!("refs/heads/norma/{slug}")
}

/// `refs/heads/main` as people say it.
pub(crate) fn short_ref(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

/// Moves refs and files as a landing says. Idempotent.
pub(crate) fn carry_out(user: &Repository, objects: &Objects, run: &Run, landing: &Landing) -> Result<LandResult> {
    let (base, new) = (id(&run.started.base.commit)?, id(&landing.commit)?);
    let message = format!("norma: land {}", run.id.slug());
    if !landing.checkout {
        return create_branch(user, objects, &landing.target, (base, new), &message);
    }
    let branch = (landing.target != "HEAD").then_some(landing.target.as_str());
    let mut at = |point: &str| match point {
        "exported" => crash::point("land.exported"),
        "ref_moved" => crash::point("land.ref_moved"),
        "files_moved" => crash::point("land.files_moved"),
        "checked_out" => crash::point("land.checked_out"),
        _ => {}
    };
    Ok(described(land_on_branch(user, objects, branch, base, new, &message, &mut at)?, &landing.target))
}

fn described(land: Land, target: &str) -> LandResult {
    let short = short_ref(target);
    match land {
        Land::Done => LandResult::Done,
        Land::Moved { found } => {
            let at = found.map_or_else(|| "gone".to_owned(), |id| format!("at {}", id.to_hex_with_len(12)));
            LandResult::Declined(format!("{short} has moved meanwhile and is {at}"))
        }
        Land::DirtyPaths(paths) => {
            let names: Vec<String> = paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            LandResult::Declined(format!("your uncommitted changes are in the way: {}", names.join(", ")))
        }
        Land::CheckoutRefused(why) => LandResult::Declined(why.trim().to_owned()),
    }
}

fn create_branch(
    user: &Repository,
    objects: &Objects,
    target: &str,
    (base, new): (ObjectId, ObjectId),
    message: &str,
) -> Result<LandResult> {
    if user.read_ref(target)? == Some(new) {
        return Ok(LandResult::Done);
    }
    objects.export(user, objects.tree_of(base)?, new)?;
    crash::point("land.exported");
    match user.swap_ref(target, Some(new), None, message)? {
        Swap::Done => Ok(LandResult::Done),
        Swap::Moved { .. } => {
            Ok(LandResult::Declined(format!("the branch {target} exists already and is something else")))
        }
    }
}

/// Lands a run that has passed and whose result is not on the user's branch: on demand, after the run ended.
pub fn land_later(store: &Store, user: &Repository, objects: &Objects, slug: &str) -> Result<Landing> {
    let (run, view) = load(store, slug)?;
    if run.status != Status::Succeeded {
        let why = format!("run {slug} is {}; only a run that has passed can land", run.status);
        return Err(Error::declined(why, format!("look at it: norma show {slug}")));
    }
    if let Some(first) = &run.started.replay_of {
        let why = format!("run {slug} was carried out only to be compared with {first}");
        return Err(Error::declined(why, format!("land that one: norma land {first}")));
    }
    if let Some(landed) = view.landing.filter(|landing| landing.checkout) {
        return Err(Error::declined(
            format!("run {slug} is on {} already", short_ref(&landed.target)),
            format!("take it back: norma undo {slug}"),
        ));
    }
    let Some(commit) = view.result else {
        return Err(Error::declined(format!("run {slug} changed nothing"), "there is nothing to land"));
    };
    let head = user.head()?;
    let base = &run.started.base.commit;
    let take = format!("merge it yourself: git merge {}", short_ref(&own_branch(slug)));
    if head.commit != id(base)? {
        keep_on_branch(user, objects, &run, &commit)?;
        let why = format!("HEAD is no longer at {base}, which this run was made and checked on");
        return Err(Error::declined(why, take));
    }
    let target = head.branch.unwrap_or_else(|| "HEAD".to_owned());
    let landing = Landing { target, from: Some(base.clone()), commit, checkout: true };
    match carry_out(user, objects, &run, &landing)? {
        LandResult::Done => {}
        LandResult::Declined(why) => {
            keep_on_branch(user, objects, &run, &landing.commit)?;
            return Err(Error::declined(why, take));
        }
    }
    store.audit(Audit::Landed { run_id: slug.to_owned(), landing: landing.clone() }).wait()?;
    // The user's own branch has it now; a leftover branch of norma's would only be in the way.
    let own = own_branch(slug);
    if user.read_ref(&own)? == Some(id(&landing.commit)?) {
        let _ = user.swap_ref(&own, None, Some(id(&landing.commit)?), "norma: landed")?;
    }
    Ok(landing)
}

fn keep_on_branch(user: &Repository, objects: &Objects, run: &Run, commit: &str) -> Result<()> {
    let slug = run.id.slug();
    let ends = (id(&run.started.base.commit)?, id(commit)?);
    create_branch(user, objects, &own_branch(&slug), ends, &format!("norma: result of {slug}")).map(|_| ())
}

/// Takes a landing back: the branch and the touched files are as they were before it.
pub fn undo(store: &Store, user: &Repository, objects: &Objects, slug: &str) -> Result<Landing> {
    let (_, view) = load(store, slug)?;
    let Some(landed) = view.landing else {
        return Err(Error::declined(format!("run {slug} has not landed"), format!("look at it: norma show {slug}")));
    };
    let new = id(&landed.commit)?;
    let message = format!("norma: undo {slug}");
    if !landed.checkout {
        let _ = user.swap_ref(&landed.target, None, Some(new), &message)?;
    } else {
        let base = id(landed.from.as_deref().unwrap_or_default())?;
        let branch = (landed.target != "HEAD").then_some(landed.target.as_str());
        match described(undo_on_branch(user, objects, branch, base, new, &message, &mut |_| {})?, &landed.target) {
            LandResult::Done => {}
            LandResult::Declined(why) => {
                let hint = format!("revert it by a commit of your own: git revert {}", landed.commit);
                return Err(Error::declined(why, hint));
            }
        }
    }
    let back = Landing {
        target: landed.target,
        from: Some(landed.commit),
        commit: landed.from.unwrap_or_default(),
        checkout: landed.checkout,
    };
    store.audit(Audit::Undone { run_id: slug.to_owned(), landing: back.clone() }).wait()?;
    Ok(back)
}

fn load(store: &Store, slug: &str) -> Result<(Run, contract::RunView)> {
    let reader = Reader::open(&store.layout)?;
    let (run, _) = reader.load(slug)?;
    let view = reader.run(slug)?.ok_or_else(|| store::Error::Refused(format!("there is no run {slug}")))?;
    Ok((run, view))
}

/// Reads an object id that norma itself recorded.
pub(crate) fn id(text: &str) -> Result<ObjectId> {
    ObjectId::from_hex(text.as_bytes()).map_err(|_| {
        store::Error::Damaged { log: "the log".into(), why: format!("{text:?} is not an object id") }.into()
    })
}
