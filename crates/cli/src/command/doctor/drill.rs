//! `norma doctor --drill`: every known escape, tried from inside the sandbox on this machine. Targets are made for it in
//! a temporary directory and are gone afterwards; nothing is tried unconfined.

use super::{meaning, probe};
use crate::error::{CommandError, Outcome, code};
use crate::surroundings::{DRILL_ROLES, Surroundings};
use crate::text::{out, safe};
use sandbox::Level;
use sandbox::drill::{self, ATTACKS, Tried};
use serde::Serialize;
use std::process::ExitCode;

pub(super) fn run(here: &Surroundings) -> Outcome<ExitCode> {
    let probe = probe(here);
    if probe.level == Level::Refuse {
        let missing: Vec<String> = probe.missing.iter().map(|missing| missing.what.clone()).collect();
        let fixes: Vec<&str> = probe.missing.iter().map(|missing| missing.fix.as_str()).collect();
        let message = format!("there is no sandbox to try: {}", missing.join("; "));
        return Err(CommandError::new(code::ENVIRONMENT, message, fixes.join("; ")));
    }
    let failed = |error: std::io::Error| {
        let hint = "what the sandbox needs: norma doctor; to use another directory: TMPDIR=… norma doctor --drill";
        CommandError::new(code::ENVIRONMENT, format!("could not run the drill: {error}"), hint)
    };
    let base = tempfile::Builder::new().prefix("norma-drill-").tempdir().map_err(failed)?;
    let place = base.path().canonicalize().map_err(failed)?;
    let tried = drill::run(&here.exe, &DRILL_ROLES, probe.level, &place, &mut |tried| tell(here, tried));
    let tried = tried.map_err(failed)?;
    let summary = sum_up(meaning(probe.level).0, &tried);
    here.print(&summary, || summary.text());
    Ok(ExitCode::from(summary.exit_code()))
}

/// One attack, when it was made.
fn tell(here: &Surroundings, tried: &Tried) {
    let outcome = if tried.blocked { "blocked" } else { "succeeded" };
    let stopped_by = ATTACKS.iter().find(|it| it.name == tried.attack).map(|it| it.stopped_by);
    if here.json {
        let Tried { attack, detail, .. } = tried;
        let line = serde_json::json!({
            "attack": attack, "outcome": outcome, "stopped_by": stopped_by, "detail": detail,
        });
        return out(&line.to_string());
    }
    let word = if tried.blocked { "blocked  " } else { "SUCCEEDED" };
    let why = if tried.detail.is_empty() { String::new() } else { format!("  ({})", safe(&tried.detail)) };
    out(&format!("{word} {}{why}", tried.attack));
}

/// What the whole drill says.
#[derive(Debug, PartialEq, Serialize)]
struct Summary<'a> {
    level: &'a str,
    attacks: usize,
    blocked: usize,
    succeeded: Vec<&'a str>,
    /// An attack that was not made is not a blocked one.
    not_made: Vec<&'a str>,
}

fn sum_up<'a>(level: &'a str, tried: &'a [Tried]) -> Summary<'a> {
    let was_made = |name: &str| tried.iter().any(|it| it.attack == name);
    Summary {
        level,
        attacks: ATTACKS.len(),
        blocked: tried.iter().filter(|it| it.blocked).count(),
        succeeded: tried.iter().filter(|it| !it.blocked).map(|it| it.attack.as_str()).collect(),
        not_made: ATTACKS.iter().map(|it| it.name).filter(|name| !was_made(name)).collect(),
    }
}

impl Summary<'_> {
    fn text(&self) -> String {
        let named =
            |what: &str, names: &[&str]| names.iter().map(|name| format!("\n{what}: {name}")).collect::<String>();
        let lists = named("succeeded", &self.succeeded) + &named("not made", &self.not_made);
        format!("{} of {} blocked at level {}{lists}", self.blocked, self.attacks, self.level)
    }

    fn exit_code(&self) -> u8 {
        if self.blocked == self.attacks { 0 } else { code::ENVIRONMENT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_drill_in_which_every_attack_failed_is_a_success() {
        let blocked = |name: &str| Tried { attack: name.to_owned(), blocked: true, detail: String::new() };
        let mut tried: Vec<Tried> = ATTACKS.iter().map(|attack| blocked(attack.name)).collect();
        let count = tried.len();
        assert_eq!(sum_up("A", &tried).text(), format!("{count} of {count} blocked at level A"));
        assert_eq!(sum_up("A", &tried).exit_code(), 0);
        let last = tried.pop().unwrap();
        assert_eq!(
            sum_up("A", &tried).text(),
            format!("{} of {count} blocked at level A\nnot made: {}", count - 1, last.attack)
        );
        assert_eq!(sum_up("A", &tried).exit_code(), 4);
        tried.push(Tried { blocked: false, ..last.clone() });
        assert_eq!(sum_up("A-", &tried).succeeded, [last.attack.as_str()]);
        assert_eq!(sum_up("A-", &tried).exit_code(), 4);
    }
}
