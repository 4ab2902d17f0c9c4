//! Who works: the agent that was named, the user's own choice, or the only one that is installed and signed in.

use crate::error::{CommandError, Outcome, code};
use crate::surroundings::Surroundings;
use crate::text::{err, prompt, safe};
use contract::{Config, nearest};
use runner::{Context, Reach, Surveyed, candidates};
use std::io::BufRead;

/// The entry of a configuration that fills the role of a worker.
const WORKER: &str = "worker";

/// The agent that works, as it was found.
pub(crate) fn choose(
    here: &Surroundings,
    context: &Context,
    config: &Config,
    named: Option<&str>,
) -> Outcome<Surveyed> {
    let all = candidates(context, config);
    let own = || runner::own_settings(context).ok().and_then(|settings| settings.config.default_agent);
    // An entry of that name fills the role wherever nobody is named.
    let worker = || config.agents.contains_key(WORKER).then(|| WORKER.to_owned());
    let chosen = named.map(str::to_owned).or_else(|| config.default_agent.clone()).or_else(worker).or_else(own);
    if let Some(name) = chosen {
        return by_name(all, &name);
    }
    let mut ready: Vec<Surveyed> = all.iter().filter(|agent| is_ready(agent)).cloned().collect();
    match ready.len() {
        0 => Err(nobody(&all)),
        1 => Ok(ready.remove(0)),
        _ if here.is_attended() => {
            let name = ask(&ready)?;
            runner::keep_default_agent(context, &name)?;
            err(&format!(
                "{name} works from now on unless you name another (default_agent in {})",
                context.own_config.display()
            ));
            by_name(ready, &name)
        }
        _ => {
            let names: Vec<&str> = ready.iter().map(|agent| agent.name.as_str()).collect();
            let message = format!("several agents are ready: {}", names.join(", "));
            let hint = format!(
                "choose one: --agent {}; or for good: \"default_agent\" in {}",
                names[0],
                context.own_config.display()
            );
            Err(CommandError::new(code::WAITING, message, hint))
        }
    }
}

fn is_ready(agent: &Surveyed) -> bool {
    agent.program.is_some() && !matches!(agent.reach, Reach::Not(_))
}

fn by_name(all: Vec<Surveyed>, name: &str) -> Outcome<Surveyed> {
    let names: Vec<String> = all.iter().map(|agent| agent.name.clone()).collect();
    let Some(agent) = all.into_iter().find(|agent| agent.name == name) else {
        let meant = nearest(name, names.iter().map(String::as_str));
        let hint = match meant {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("there are {}; add your own: norma agent add NAME -- CMD…", names.join(", ")),
        };
        return Err(CommandError::usage(format!("there is no agent {:?}", safe(name)), hint));
    };
    match trouble(&agent) {
        None => Ok(agent),
        Some((message, fix)) => Err(CommandError::new(code::ENVIRONMENT, message, fix)),
    }
}

/// What keeps an agent from working, and what to do.
fn trouble(agent: &Surveyed) -> Option<(String, String)> {
    let name = &agent.name;
    match (&agent.program, &agent.reach) {
        (None, _) => {
            let fix = match agent.install {
                Some(command) => {
                    let sign_in = agent.sign_in.map(|sign_in| format!(" && {sign_in}")).unwrap_or_default();
                    format!("install it and sign in: {command}{sign_in}")
                }
                None => format!(
                    "install its program, or look at it: norma agent list; or do without: norma agent remove {name}"
                ),
            };
            Some((format!("{name} is not installed"), fix))
        }
        (Some(_), Reach::Not(what_to_do)) => Some((format!("{name} cannot reach its model"), what_to_do.clone())),
        (Some(_), _) => None,
    }
}

/// The exact lines that install or sign in one of them.
fn nobody(all: &[Surveyed]) -> CommandError {
    let installed: Vec<&Surveyed> = all.iter().filter(|agent| agent.program.is_some()).collect();
    let lines: Vec<String> = match installed.is_empty() {
        true => all.iter().filter_map(|agent| Some(format!("\n  {} && {}", agent.install?, agent.sign_in?))).collect(),
        false => installed.iter().filter_map(|agent| Some(format!("\n  {}", trouble(agent)?.1))).collect(),
    };
    let (message, how) = match installed.is_empty() {
        true => ("no agent is installed", "install one and sign in:"),
        false => ("no agent is signed in", "one of these:"),
    };
    CommandError::new(code::ENVIRONMENT, message, format!("{how}{}", lines.concat()))
}

/// Asks whoever is at the terminal; the answer is a number or a name.
fn ask(ready: &[Surveyed]) -> Outcome<String> {
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
    found.map(|agent| agent.name.clone()).ok_or_else(|| {
        CommandError::new(code::WAITING, "no agent was chosen, so nothing was started", "choose one: --agent NAME")
    })
}

/// How an agent reaches its model, for people.
pub(super) fn reached(agent: &Surveyed) -> String {
    match &agent.reach {
        Reach::Key(variable) => format!("key in {variable}, which it never sees"),
        Reach::Address(url) => format!("model at {}", safe(url)),
        Reach::SignIn => "signed in".to_owned(),
        Reach::Own => "your own program".to_owned(),
        Reach::Not(what_to_do) => what_to_do.clone(),
    }
}
