//! Moving the refs and files of the user's repository as a landing says, and nothing else: where a result goes is
//! planned by [`crate::landing`].

use crate::Result;
use crate::git::{BranchMove, Land, ObjectId, Objects, Repository, Swap, id, recorded};
use crate::world::LandResult;
use contract::Landing;
use run::Run;
use store::crash;

/// Where the ref of a landing is, if that is neither where it must be nor where it shall go. A ref that is gone, or a HEAD
/// that is on a branch now, is nothing to put a result on.
pub(crate) fn moved_to(user: &Repository, landing: &Landing) -> Result<Option<ObjectId>> {
    if landing.target == "HEAD" && user.head_branch()?.is_some() {
        return Ok(None);
    }
    let found = user.read_ref(&landing.target)?;
    let known = [landing.from, Some(landing.commit)];
    Ok(found.filter(|found| !known.contains(&Some(recorded(*found)))))
}

/// `refs/heads/main` as people say it.
pub(crate) fn short_ref(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

/// Moves refs and files as a landing says. Idempotent.
pub(crate) fn carry_out(user: &Repository, objects: &Objects, run: &Run, landing: &Landing) -> Result<LandResult> {
    let from = landing.from.unwrap_or(run.ground().commit);
    let (base, new) = (id(from), id(landing.commit));
    let message = format!("norma: land {}", run.id.slug());
    if !landing.checkout {
        return create_branch(user, objects, &landing.target, (base, new), &message);
    }
    let branch = (landing.target != "HEAD").then_some(landing.target.as_str());
    let mut at = |point: &str| match point {
        "exported" => crash::point("land.exported"),
        "ref_moved" => crash::point("land.ref_moved"),
        "index_locked" => crash::point("land.index_locked"),
        "files_moved" => crash::point("land.files_moved"),
        "checked_out" => crash::point("land.checked_out"),
        _ => {}
    };
    Ok(described(BranchMove { user, objects, branch, base, new, message: &message }.land(&mut at)?, &landing.target))
}

pub(crate) fn described(land: Land, target: &str) -> LandResult {
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

pub(crate) fn create_branch(
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
