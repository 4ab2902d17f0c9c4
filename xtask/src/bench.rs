//! `cargo xtask bench`: builds norma as it is shipped (profile `dist`: its size is part of the memory it holds) and the
//! benchmark program, and runs the latter on the former.
//! The measuring itself is a program of its own (`testing/bench`), because it links what it measures, optimized,
//! while this program should build in a second and has no business with SQLite.

use crate::Outcome;
use crate::parts::{cargo, must_pass};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `--write` replaces.
const PAGE: &str = "docs/benchmarks.md";

pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    let write = args.iter().any(|arg| arg == "--write");
    let passed_on: Vec<&String> = args.iter().filter(|arg| *arg != "--write").collect();
    must_pass(&mut cargo(root, &["build", "--profile", "dist", "-p", "norma", "-p", "verify", "-p", "bench"]))?;
    let target = target_dir(root)?;
    let dist = target.join("dist");
    let mut command = Command::new(dist.join("bench"));
    command.arg("--norma").arg(dist.join("norma")).arg("--root").arg(root);
    command.arg("--tools").arg(target.join("peers")).args(passed_on);
    if !write {
        return must_pass(&mut command).map(|_| String::new());
    }
    let page = root.join(PAGE);
    must_pass(command.arg("--write").arg(&page))?;
    Ok(format!("{PAGE} is written"))
}

/// Where cargo puts what it builds: it alone knows.
fn target_dir(root: &Path) -> Result<PathBuf, Vec<String>> {
    let metadata = crate::tidy::metadata(root).map_err(|problem| vec![problem])?;
    Ok(metadata["target_directory"].as_str().unwrap_or("target").into())
}
