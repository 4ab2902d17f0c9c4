//! What is told before the paid turn: how the tests of a contract do on the commit that it starts from.

use crate::error::Outcome;
use crate::surroundings::Surroundings;
use crate::text::{duration, err, log_lines, safe};
use contract::{Backend, Item};
use runner::{BaseTest, Context, Settings};
use std::time::Duration;

/// Runs the tests once on the base, confined as they are when they judge the change, and says what came of it. A test that
/// fails before anything was changed is no reason to stop: the goal may be to have it pass.
pub(super) fn tell_base_tests(
    here: &Surroundings,
    context: &Context,
    settings: &Settings,
    shown: &[String],
    item: &Item,
) -> Outcome<()> {
    let config = &settings.config;
    if item.tests.is_empty() || config.sandbox.backend != Backend::Native || !sandbox::has_overlays(&context.sandbox) {
        return Ok(());
    }
    if !config.workspace.setup.is_empty() {
        if !here.json {
            err("tests on the base: not run, since workspace.setup comes first");
        }
        return Ok(());
    }
    let tests: Vec<Vec<String>> = item.tests.iter().map(|test| test.argv.clone()).collect();
    let told = |argv: &[String]| {
        if !here.json {
            err(&format!("trying on the base: {}", safe(&argv.join(" "))));
        }
    };
    let timeout = Duration::from_millis(item.timeout_ms);
    let tried = runner::try_on_base(context, config, shown, &tests, timeout, &told)?;
    if !here.json {
        tried.iter().flat_map(lines).for_each(|line| err(&line));
    }
    Ok(())
}

fn lines(test: &BaseTest) -> Vec<String> {
    let (command, took) = (safe(&test.argv.join(" ")), duration(test.elapsed));
    if test.passed {
        return vec![format!("on the base: {command} passes ({took})")];
    }
    let first = format!("on the base: {command} fails before anything is changed ({}, {took})", safe(&test.why));
    let tail = log_lines(test.tail.join("\n").as_bytes()).into_iter().map(|line| format!("  | {line}"));
    [first].into_iter().chain(tail).collect()
}
