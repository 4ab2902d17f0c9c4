//! `cargo xtask playwright`: installs what drives the browser that pages are tested in, at the version of
//! `testing/page/driver/package-lock.json`, below `target/playwright/`. The browser is Debian's; npm brings none along.

use crate::{Outcome, agents};
use std::path::Path;

/// What is installed is described here.
pub(crate) const SOURCE: &str = "testing/page/driver";
/// The tests look for it there.
const PLACE: &str = "target/playwright";

pub(crate) fn run(root: &Path) -> Outcome {
    agents::install(root, SOURCE, PLACE, "about 14 MB")?;
    Ok(format!("{PLACE} is as {SOURCE}/package-lock.json says"))
}
