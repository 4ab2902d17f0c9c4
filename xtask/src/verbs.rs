//! The verbs that put other tools together: `ci` and `schemas`.

use crate::parts::{Parts, cargo, must_pass};
use crate::{Outcome, test};
use std::path::Path;
use std::process::Stdio;

/// `cargo xtask ci`: what must hold before a commit, cheapest first.
pub(crate) fn ci(root: &Path) -> Outcome {
    let mut parts = Parts::default();
    parts.run("fmt", || must_pass(&mut cargo(root, &["fmt", "--all", "--check"])));
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    parts.run("clippy", || must_pass(&mut cargo(root, &clippy)));
    let tally = test::test_parts(root, &[], &mut parts);
    let has_deny = cargo(root, &["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if has_deny.is_ok_and(|status| status.success()) {
        parts.run("deny", || must_pass(&mut cargo(root, &["deny", "check"])));
    } else {
        parts.skip("deny", "cargo-deny is not installed");
    }
    if test::report(parts, &tally) { Ok(String::new()) } else { Err(Vec::new()) }
}

/// `cargo xtask schemas`: rewrites `schemas/` after a deliberate change of the types.
pub(crate) fn schemas(root: &Path) -> Outcome {
    must_pass(
        cargo(root, &["test", "--package", "contract", "the_schemas_on_disk_are_the_types"]).env("NORMA_BLESS", "1"),
    )?;
    Ok("schemas/ is as the types say; `git diff schemas` shows what changed".to_owned())
}
