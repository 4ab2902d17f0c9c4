//! The verbs that put other tools together: `ci`, `day1` and `schemas`.

use crate::parts::{Parts, cargo, must_pass};
use crate::{Outcome, agents, test};
use std::path::Path;
use std::process::Stdio;

/// `cargo xtask ci`: what must hold before a commit, cheapest first.
pub(crate) fn ci(root: &Path) -> Outcome {
    let mut parts = Parts::default();
    parts.run("fmt", || must_pass(&mut cargo(root, &["fmt", "--all", "--check"])));
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    parts.run("clippy", || must_pass(&mut cargo(root, &clippy)));
    let tally = test::test_parts(root, &[], &mut parts);
    if test::report(parts, &tally) { Ok(String::new()) } else { Err(Vec::new()) }
}

/// Advisories, and once more what tidy checks by `deny.toml`. It needs a program and a database from the network: where
/// either cannot be had, that is said, and advisories were not looked at.
pub(crate) fn deny(root: &Path, parts: &mut Parts) {
    let has_deny = cargo(root, &["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has_deny.is_ok_and(|status| status.success()) {
        return parts.skip("deny", "cargo-deny is not installed: advisories were not checked");
    }
    parts.run("deny", || must_pass(&mut cargo(root, &["deny", "check", "licenses", "bans", "sources"])));
    let fetched = cargo(root, &["deny", "fetch", "db"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if fetched.is_ok_and(|status| status.success()) {
        parts.run("advisories", || must_pass(&mut cargo(root, &["deny", "check", "--disable-fetch", "advisories"])));
    } else {
        parts.skip("advisories", "the database of advisories could not be fetched");
    }
}

/// `cargo xtask day1`: the first day of a pipeline, with the real agents.
pub(crate) fn day1(root: &Path) -> Outcome {
    agents::run(root, &[])?;
    must_pass(&mut cargo(root, &["test", "--package", "norma", "--test", "e2e", "real::day1"]))?;
    Ok("a pipeline of four agents landed, was refused, fixed itself, was replayed and reached nothing else".to_owned())
}

/// `cargo xtask schemas`: rewrites `schemas/` after a deliberate change of the types.
pub(crate) fn schemas(root: &Path) -> Outcome {
    must_pass(
        cargo(root, &["test", "--package", "contract", "the_schemas_on_disk_are_the_types"]).env("NORMA_BLESS", "1"),
    )?;
    Ok("schemas/ is as the types say; `git diff schemas` shows what changed".to_owned())
}
