//! The verbs that put other tools together: `test`, `ci` and `schemas`.

use crate::parts::{Parts, cargo, must_pass};
use crate::{Outcome, agents, seeds, tidy};
use std::path::Path;
use std::process::Stdio;

/// Programs that tests start, and that `cargo test` alone would not build.
const TEST_PROGRAMS: [&str; 3] = ["norma", "scripted-agent", "supervisor"];

/// `cargo xtask test [ARGS]`: everything that can be red without being slow.
pub(crate) fn test(root: &Path, args: &[String]) -> Outcome {
    let mut parts = Parts::default();
    test_parts(root, args, &mut parts);
    parts.summary()
}

fn test_parts(root: &Path, args: &[String], parts: &mut Parts) {
    // They come from the network, and the tests that drive them pass without them.
    parts.offer("agents", || agents::run(root, &[]));
    let mut build = vec!["build", "--bins"];
    build.extend(TEST_PROGRAMS.iter().flat_map(|program| ["-p", program]));
    if !parts.run("build", || must_pass(&mut cargo(root, &build))) {
        return;
    }
    parts.run("tests", || must_pass(cargo(root, &["test", "--workspace", "--no-fail-fast"]).args(args)));
    parts.run("seeds", || seeds::check(root, &[]));
    parts.run("tidy", || tidy::check(root));
}

/// `cargo xtask ci`: what must hold before a commit, cheapest first.
pub(crate) fn ci(root: &Path) -> Outcome {
    let mut parts = Parts::default();
    parts.run("fmt", || must_pass(&mut cargo(root, &["fmt", "--all", "--check"])));
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    parts.run("clippy", || must_pass(&mut cargo(root, &clippy)));
    test_parts(root, &[], &mut parts);
    let has_deny = cargo(root, &["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if has_deny.is_ok_and(|status| status.success()) {
        parts.run("deny", || must_pass(&mut cargo(root, &["deny", "check"])));
    } else {
        parts.skip("deny", "cargo-deny is not installed");
    }
    parts.summary()
}

/// `cargo xtask schemas`: rewrites `schemas/` after a deliberate change of the types.
pub(crate) fn schemas(root: &Path) -> Outcome {
    must_pass(
        cargo(root, &["test", "--package", "contract", "the_schemas_on_disk_are_the_types"]).env("NORMA_BLESS", "1"),
    )?;
    Ok("schemas/ is as the types say; `git diff schemas` shows what changed".to_owned())
}
