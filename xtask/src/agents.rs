//! `cargo xtask agents [--json]`: installs the real agent programs that tests drive, at the versions of
//! `testing/agents/package-lock.json`, below `target/agents/`. It is a verb of its own because they are large and come
//! from the network; tests that need one of them say so and pass without it.

use crate::Outcome;
use crate::parts::{must_pass, tell};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is installed is described here.
const SOURCE: &str = "testing/agents";
/// And is installed here; `scripted_model::agents` looks for it there.
const PLACE: &str = "target/agents";
/// What npm reads. The lock comes without addresses: which registry to ask is this machine's business.
const FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];
/// Written last, so an install that broke off is done again.
pub(crate) const STAMP: &str = "installed.sha256";

pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    let is_json = match args {
        [] => false,
        [only] if only == "--json" => true,
        _ => return Err(vec!["usage: cargo xtask agents [--json]".to_owned()]),
    };
    install(root, SOURCE, PLACE, "about 1.3 GB")?;
    let programs = programs(root).map_err(|problem| vec![problem])?;
    Ok(if is_json { Value::from(programs).to_string() } else { listed(&programs) })
}

/// Installs what the lock in `source` names in `place`, unless that is there.
pub(crate) fn install(root: &Path, source: &str, place: &str, size: &str) -> Result<(), Vec<String>> {
    let one = |problem: String| vec![problem];
    let (source_dir, place_dir) = (root.join(source), root.join(place));
    let stamp = place_dir.join(STAMP);
    let digest = digest(&source_dir.join("package-lock.json")).map_err(one)?;
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == digest) {
        tell(&format!("{place} is as {source}/package-lock.json says"));
        return Ok(());
    }
    npm_is_there().map_err(one)?;
    tell(&format!("installing {source}/package-lock.json in {place} ({size})"));
    let prepared = prepare(&source_dir, &place_dir);
    prepared.map_err(|error| one(format!("could not prepare {}: {error}", place_dir.display())))?;
    // No scripts: native programs are packages of their own, so nothing has to be fetched or built by foreign code.
    let mut npm = Command::new("npm");
    npm.current_dir(&place_dir).args(["ci", "--ignore-scripts"]).stdout(Stdio::from(io::stderr()));
    must_pass(&mut npm)?;
    fs::write(&stamp, digest).map_err(|error| one(format!("could not write {}: {error}", stamp.display())))
}

/// Puts what npm reads where it is to install, and takes the stamp of what was there before away first.
fn prepare(source: &Path, place: &Path) -> io::Result<()> {
    empty_stamp(place)?;
    for file in FILES {
        fs::copy(source.join(file), place.join(file))?;
    }
    Ok(())
}

/// A place with no stamp.
pub(crate) fn empty_stamp(place: &Path) -> io::Result<()> {
    fs::create_dir_all(place)?;
    match fs::remove_file(place.join(STAMP)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn npm_is_there() -> Result<(), String> {
    let npm = Command::new("npm").arg("--version").stdin(Stdio::null()).output();
    match npm {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("npm does not work: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("could not run npm ({error}): install Node.js 20 or newer, which brings it along")),
    }
}

/// The digest of a lock file, which stands for everything that is installed.
pub(crate) fn digest(lock: &Path) -> Result<String, String> {
    let bytes = fs::read(lock).map_err(|error| format!("could not read {}: {error}", lock.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where each program is; null for one that does not exist for this kind of machine.
fn programs(root: &Path) -> Result<Map<String, Value>, String> {
    let path = root.join(SOURCE).join("programs.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let all: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let ours = all[std::env::consts::ARCH].as_object().cloned().unwrap_or_default();
    let found = ours.into_iter().map(|(name, program)| {
        let program = root.join(PLACE).join("node_modules").join(program.as_str().unwrap_or_default());
        let program = program.is_file().then(|| Value::from(program.to_string_lossy()));
        (name, program.unwrap_or_default())
    });
    Ok(found.collect())
}

fn listed(programs: &Map<String, Value>) -> String {
    let line = |(name, program): (&String, &Value)| {
        format!("{name:<9} {}", program.as_str().unwrap_or("there is none for this machine"))
    };
    programs.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_name_every_version_and_no_registry() {
        for source in [SOURCE, crate::playwright::SOURCE] {
            let source = crate::root().join(source);
            let read = |file: &str| -> Value { serde_json::from_slice(&fs::read(source.join(file)).unwrap()).unwrap() };
            let (package, lock) = (read("package.json"), read("package-lock.json"));
            let kinds = ["dependencies", "optionalDependencies"].iter().filter_map(|kind| package[kind].as_object());
            for (name, version) in kinds.flatten() {
                assert_eq!(&lock["packages"][format!("node_modules/{name}")]["version"], version, "{name}");
            }
            let entries = lock["packages"].as_object().unwrap().iter().filter(|(name, _)| !name.is_empty());
            for (name, entry) in entries {
                assert!(entry.get("resolved").is_none(), "{name} names a registry");
                assert!(entry["integrity"].as_str().is_some_and(|digest| digest.starts_with("sha512-")), "{name}");
            }
        }
    }

    #[test]
    fn what_is_installed_already_is_not_installed_again() {
        let root = std::env::temp_dir().join(format!("xtask-agents-{}", std::process::id()));
        fs::create_dir_all(root.join(SOURCE)).unwrap();
        fs::create_dir_all(root.join(PLACE)).unwrap();
        fs::write(root.join(SOURCE).join("package-lock.json"), "{}").unwrap();
        let lock = root.join(SOURCE).join("package-lock.json");
        fs::write(root.join(PLACE).join(STAMP), digest(&lock).unwrap()).unwrap();
        assert_eq!(install(&root, SOURCE, PLACE, "nothing"), Ok(()));
        fs::remove_dir_all(&root).unwrap();
    }
}
