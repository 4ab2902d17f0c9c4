//! `cargo xtask tidy`: the rules of this code base that no other tool knows, each with its reason. They are
//! tests of this package too, so a broken rule is a red test like any other. A remark that comes up twice in
//! review belongs here.

mod dependencies;
mod links;
mod map;
mod modules;
pub(crate) mod supply;
mod text;
mod words;

use crate::Outcome;
use crate::parts::cargo;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the workspace that is tracked, or would be if it were added.
pub(crate) struct Tracked {
    /// Below the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Checks every rule and reports everything that breaks one.
pub(crate) fn check(root: &Path) -> Outcome {
    let files = tracked(root).map_err(|problem| vec![problem])?;
    let metadata = metadata(root).map_err(|problem| vec![problem])?;
    let mut problems = dependencies::check(&metadata, root);
    let build = build(root).map_err(|problem| vec![problem])?;
    let deny = files.iter().find(|file| file.path == "deny.toml").map_or("", |file| &file.text);
    problems.extend(supply::check(&build, deny));
    problems.extend(text::check(&files));
    problems.extend(words::check(&files));
    problems.extend(links::check(&files, root));
    problems.extend(map::check(&files));
    problems.extend(modules::check(&files));
    problems.extend(crate::ui::stale(root));
    if problems.is_empty() { Ok(format!("tidy: {} files follow the rules", files.len())) } else { Err(problems) }
}

/// What cargo knows of the workspace's own packages.
pub(crate) fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    ask_cargo(root, &["--no-deps"])
}

/// What cargo knows of everything that any build of the workspace for Linux takes in, with every feature on.
pub(crate) fn build(root: &Path) -> Result<serde_json::Value, String> {
    ask_cargo(root, &["--locked", "--all-features", "--filter-platform", "x86_64-unknown-linux-gnu"])
}

fn ask_cargo(root: &Path, args: &[&str]) -> Result<serde_json::Value, String> {
    let mut command = cargo(root, &[&["metadata", "--format-version", "1"], args].concat());
    let output = command.output().map_err(|error| format!("could not run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("could not read cargo metadata: {error}"))
}

/// Every text file that git tracks or would track; binary files are not looked at.
fn tracked(root: &Path) -> Result<Vec<Tracked>, String> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(list).output();
    let output = output.map_err(|error| format!("could not run git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = Vec::new();
    for path in names.split('\0').filter(|path| !path.is_empty()) {
        // A file that was deleted but not yet from the index, or a link, has nothing to check.
        let at: PathBuf = root.join(path);
        if at.is_file()
            && let Ok(text) = std::fs::read_to_string(&at)
        {
            files.push(Tracked { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_workspace_is_tidy() {
        let problems = super::check(&crate::root()).err().unwrap_or_default();
        assert_eq!(problems, Vec::<String>::new());
    }
}
