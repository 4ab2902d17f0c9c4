//! Becoming the owner of a state directory: at once, after whoever has it, or not at all. Every verb that needs to own one
//! does it here, so that what recovery found is told and whoever is in the way is named in the same words.

use crate::error::{CommandError, Outcome, code};
use crate::progress::at_work;
use crate::surroundings::Surroundings;
use crate::text::err;
use runner::{Context, Hosted, Hosting};
use std::sync::Arc;
use std::time::Duration;
use store::Layout;

/// How often a norma that waits for another one asks again.
pub(crate) const POLL: Duration = Duration::from_millis(100);

/// Takes the state directory if it is free.
pub(crate) fn take(here: &Surroundings, context: &Arc<Context>) -> Outcome<Hosted> {
    let hosted = Hosting::take(context)?;
    if let Hosted::Ours(host) = &hosted {
        here.tell_recovery(host.recovery());
    }
    Ok(hosted)
}

/// Takes it as soon as nobody else has it; `hint` follows what is said to whoever waits.
pub(crate) fn wait_for(here: &Surroundings, context: &Arc<Context>, hint: &str) -> Outcome<Box<Hosting>> {
    let mut told = here.json;
    loop {
        let holder = match take(here, context)? {
            Hosted::Ours(host) => return Ok(host),
            Hosted::Theirs(holder) => holder,
        };
        if !std::mem::replace(&mut told, true) {
            err(&format!("waiting for {} to finish{hint}", at_work(&holder)));
        }
        std::thread::sleep(POLL);
    }
}

/// What is said where somebody else has it and nobody waits.
pub(crate) fn busy(holder: &Option<store::Owner>, hint: &str) -> CommandError {
    CommandError::new(code::ENVIRONMENT, format!("{} is at work here", at_work(holder)), hint)
}

/// Who has it now, if anybody has.
pub(crate) fn holder(layout: &Layout) -> Option<Option<store::Owner>> {
    runner::is_owned(layout).then(|| store::owner_of(layout))
}
