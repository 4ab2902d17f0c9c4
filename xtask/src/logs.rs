//! `cargo xtask logs [--norma PROGRAM]`: writes runs of this version to `testing/logs/VERSION.tar.gz`, where the tests
//! find them for ever after: every later version must fold, verify and replay what an earlier one has written. It is
//! called once for a version, when that version is released.

use crate::Outcome;
use crate::parts::{cargo, must_pass};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archives, and the script whose runs they hold.
const PLACE: &str = "testing/logs";

pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    let norma = match args {
        [] => built(root)?,
        [flag, program] if flag == "--norma" => PathBuf::from(program),
        _ => return Err(vec!["usage: cargo xtask logs [--norma PROGRAM]".to_owned()]),
    };
    let version = version_of(&norma).map_err(|problem| vec![problem])?;
    let archive = root.join(PLACE).join(format!("{version}.tar.gz"));
    if archive.exists() {
        let archive = archive.display();
        return Err(vec![format!("{archive} is there already: what a released version wrote never changes")]);
    }
    let dir = std::env::temp_dir().join(format!("norma-logs-{}", std::process::id()));
    let made = make(root, &norma, &dir, &archive);
    let _ = fs::remove_dir_all(&dir);
    made?;
    Ok(format!("{} holds runs of version {version}", archive.display()))
}

fn built(root: &Path) -> Result<PathBuf, Vec<String>> {
    must_pass(&mut cargo(root, &["build", "--release", "-p", "norma"]))?;
    Ok(root.join("target/release/norma"))
}

/// `norma 0.1.0` → `0.1.0`.
fn version_of(norma: &Path) -> Result<String, String> {
    let asked = Command::new(norma).arg("--version").output();
    let output = asked.map_err(|error| format!("could not run {}: {error}", norma.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(1).map(str::to_owned).ok_or_else(|| format!("{text:?} names no version"))
}

fn make(root: &Path, norma: &Path, dir: &Path, archive: &Path) -> Result<(), Vec<String>> {
    let failed = |error: std::io::Error| vec![format!("could not make {}: {error}", dir.display())];
    fs::create_dir_all(dir).map_err(failed)?;
    let dir = dir.canonicalize().map_err(failed)?;
    must_pass(Command::new(root.join(PLACE).join("scenario.sh")).arg(&dir).env("NORMA", norma))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"]).arg(archive).arg("-C").arg(&dir);
    must_pass(tar.args(["data", "repo", "bundles"])).map(|_| ())
}
