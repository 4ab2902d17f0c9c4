//! Who works, where several agents are ready: whoever is at the terminal is asked once, and remembered.

use crate::surroundings::Surroundings;
use crate::text::{err, prompt};
use contract::Config;
use runner::{Context, Error, Result, Surveyed, choose_agent, name_one_agent};
use std::io::BufRead;

/// The agent that works, as it was found.
pub(crate) fn choose(here: &Surroundings, context: &Context, config: &Config, named: Option<&str>) -> Result<Surveyed> {
    choose_agent(context, config, named, |ready| pick(here, context, ready))
}

/// One of several that are ready: the one that somebody chooses, from now on.
pub(crate) fn pick(here: &Surroundings, context: &Context, ready: &[Surveyed]) -> Result<String> {
    if !here.is_attended() {
        return Err(name_one_agent(context, ready));
    }
    let name = ask(ready)?;
    runner::keep_default_agent(context, &name)?;
    err(&format!(
        "{name} works from now on unless you name another (default_agent in {})",
        context.own_config.display()
    ));
    Ok(name)
}

/// Asks whoever is at the terminal; the answer is a number or a name.
fn ask(ready: &[Surveyed]) -> Result<String> {
    err("Several agents are ready. Which one works, from now on?");
    for (number, agent) in (1..).zip(ready) {
        err(&format!("  {number} {}", agent.name));
    }
    prompt("Number or name: ");
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
    let answer = line.trim();
    let by_number = answer.parse::<usize>().ok().and_then(|number| ready.get(number.checked_sub(1)?));
    let found = by_number.or_else(|| ready.iter().find(|agent| agent.name == answer));
    found
        .map(|agent| agent.name.clone())
        .ok_or_else(|| Error::waiting("no agent was chosen, so nothing was started", "choose one: --agent NAME"))
}
