//! `cargo xtask ui`: builds the web page from `ui/src` into `ui/dist`, which is committed and built into the server, so that
//! nobody but whoever changes the page needs Node. `ui/dist/INPUTS` has the digest of every source that the build was
//! made of: `cargo xtask tidy` compares them without Node, and `cargo xtask ui --check` builds again and compares bytes.
//! `--screenshots` writes pictures of every page to `docs/ui`.

use crate::agents::{STAMP, digest, empty_stamp, npm_is_there};
use crate::parts::{cargo, must_pass};
use crate::{Outcome, playwright};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UI: &str = "ui";
const DIST: &str = "ui/dist";
const INPUTS: &str = "INPUTS";
/// The licences of what the page is built of.
const NOTICES: &str = "a/NOTICES.txt";
/// Where the server has the list of files that are built in.
const LIST: &str = "crates/server/src/ui.rs";
/// What is generated from the server's document; it goes into no byte of the page.
const TYPES: &str = "src/api/schema.d.ts";
/// What npm says of what it installed, below `node_modules`.
const INSTALLED: &str = ".package-lock.json";
/// Pictures of every page.
const PICTURES: &str = "docs/ui";
/// Where a build is compared from.
const AGAIN: &str = "target/ui-check";
/// Sources of the page beside those below `src` and `public`.
const SOURCES: [&str; 5] = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];

pub(crate) fn run(root: &Path, args: &[String]) -> Outcome {
    let is_check = match args {
        [] => false,
        [only] if only == "--check" => true,
        [only] if only == "--screenshots" => return screenshots(root),
        _ => return Err(vec!["usage: cargo xtask ui [--check | --screenshots]".to_owned()]),
    };
    npm_is_there().map_err(one)?;
    install(root)?;
    let ui = root.join(UI);
    must_pass(npm(&ui).args(["run", "--silent", "types"]))?;
    must_pass(npm(&ui).args(["run", "--silent", "check"]))?;
    let place = root.join(if is_check { AGAIN } else { DIST });
    let mut build = npm(&ui);
    build.args(["run", "--silent", "build", "--", "--emptyOutDir", "--logLevel", "warn", "--outDir"]);
    must_pass(build.arg(&place))?;
    let notices = notices(&ui).map_err(one)?;
    fs::write(place.join(NOTICES), notices).map_err(|error| one(format!("could not write {NOTICES}: {error}")))?;
    let inputs = inputs(root).map_err(one)?;
    fs::write(place.join(INPUTS), &inputs).map_err(|error| one(format!("could not write {INPUTS}: {error}")))?;
    let files = files(&place).map_err(one)?;
    if is_check {
        return compare(root, &files);
    }
    let list = list(&files);
    fs::write(root.join(LIST), list).map_err(|error| one(format!("could not write {LIST}: {error}")))?;
    let bytes: usize = files.values().map(Vec::len).sum();
    Ok(format!("{DIST}: {} files, {bytes} bytes", files.len()))
}

/// Has the tests that look at every page keep what they see.
fn screenshots(root: &Path) -> Outcome {
    install(root)?;
    playwright::run(root)?;
    let place = root.join(PICTURES);
    fs::create_dir_all(&place).map_err(|error| one(format!("could not make {}: {error}", place.display())))?;
    let test = "ui::looks::every_page_is_accessible_in_both_themes_and_fits_every_screen";
    let mut tests = cargo(root, &["test", "--package", "norma", "--test", "e2e", test, "--", "--exact"]);
    must_pass(tests.env("NORMA_SCREENSHOTS", &place))?;
    Ok(format!("{PICTURES} has every page as it is now"))
}

fn one(problem: String) -> Vec<String> {
    vec![problem]
}

fn npm(ui: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(ui).stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
    npm
}

/// Installs what the lock file names, unless that is there; no package runs code of its own for that. It is not `npm ci`,
/// which refuses a lock without the builds for other systems; which of them a registry has changes from day to day, so npm
/// may not write the lock either. Instead what was installed must be what the lock says.
pub(crate) fn install(root: &Path) -> Result<(), Vec<String>> {
    let (ui, place) = (root.join(UI), root.join(UI).join("node_modules"));
    let lock = ui.join("package-lock.json");
    let locked = digest(&lock).map_err(one)?;
    if fs::read_to_string(place.join(STAMP)).is_ok_and(|installed| installed == locked) {
        return Ok(());
    }
    empty_stamp(&place).map_err(|error| one(format!("could not prepare {}: {error}", place.display())))?;
    must_pass(npm(&ui).args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]))?;
    let others = not_as_locked(&packages(&lock).map_err(one)?, &packages(&place.join(INSTALLED)).map_err(one)?);
    if !others.is_empty() {
        return Err(others);
    }
    let stamp = place.join(STAMP);
    fs::write(&stamp, locked).map_err(|error| one(format!("could not write {}: {error}", stamp.display())))
}

/// The packages that a lock of npm names, by their places.
fn packages(lock: &Path) -> Result<Map<String, Value>, String> {
    let text = fs::read_to_string(lock).map_err(|error| format!("could not read {}: {error}", lock.display()))?;
    let mut named: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", lock.display()))?;
    match named["packages"].take() {
        Value::Object(packages) => Ok(packages),
        _ => Err(format!("{} names no packages", lock.display())),
    }
}

/// What npm installed otherwise than the lock says, or not at all.
fn not_as_locked(locked: &Map<String, Value>, installed: &Map<String, Value>) -> Vec<String> {
    let is_other = |place: &String, package: &Value| {
        locked.get(place).is_none_or(|named| ["version", "integrity"].iter().any(|key| named[key] != package[key]))
    };
    let others = installed.iter().filter(|(place, package)| is_other(place, package));
    let others = others.map(|(place, _)| format!("npm installed another {place} than ui/package-lock.json names"));
    let is_lacking = |place: &String, package: &Value| {
        !place.is_empty() && package["optional"] != true && !installed.contains_key(place)
    };
    let lacking = locked.iter().filter(|(place, package)| is_lacking(place, package));
    others.chain(lacking.map(|(place, _)| format!("npm did not install {place} of ui/package-lock.json"))).collect()
}

/// What is wrong with the page that is committed, as far as it can be seen without building it.
pub(crate) fn stale(root: &Path) -> Vec<String> {
    if !root.join(UI).is_dir() {
        return Vec::new();
    }
    let found = inputs(root).and_then(|inputs| {
        let built =
            fs::read_to_string(root.join(DIST).join(INPUTS)).map_err(|error| format!("{DIST}/{INPUTS}: {error}"))?;
        let list_now = fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
        Ok((inputs == built, list(&files(&root.join(DIST))?) == list_now))
    });
    match found {
        Ok((true, true)) => Vec::new(),
        Ok((false, _)) => vec![format!("{DIST} was built from other sources than those in {UI}: cargo xtask ui")],
        Ok((true, false)) => vec![format!("{LIST} is not the list of {DIST}: cargo xtask ui")],
        Err(problem) => vec![problem],
    }
}

/// The licences of every package that the page is built of, with their texts, by the lock file.
fn notices(ui: &Path) -> Result<String, String> {
    let packages = packages(&ui.join("package-lock.json"))?;
    let mut notices = "The web page of norma is built of these packages.\n".to_owned();
    for (place, package) in packages.iter().filter(|(place, package)| !place.is_empty() && package["dev"] != true) {
        let name = place.trim_start_matches("node_modules/");
        let [version, licence] = ["version", "license"].map(|key| package[key].as_str().unwrap_or("unknown"));
        // Types and builds for other machines are no part of it.
        let Some(terms) = terms(&ui.join(place))? else { continue };
        notices.push_str(&format!("\n{}\n{name} {version} ({licence})\n\n{}\n", "=".repeat(72), terms.trim()));
    }
    Ok(notices)
}

/// The licence that a package comes with, as text.
fn terms(package: &Path) -> Result<Option<String>, String> {
    let Ok(entries) = fs::read_dir(package) else { return Ok(None) };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let is_licence = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.starts_with("licen") && path.is_file()
    };
    let Some(found) = files.iter().find(is_licence) else {
        return Ok(Some("The package has no text of it.".to_owned()));
    };
    let text = fs::read_to_string(found).map_err(|error| format!("could not read {}: {error}", found.display()))?;
    Ok(Some(text.replace("\r\n", "\n")))
}

/// The digests of every source of the page, one line a file.
fn inputs(root: &Path) -> Result<String, String> {
    let ui = root.join(UI);
    let mut names: Vec<PathBuf> = SOURCES.iter().map(PathBuf::from).collect();
    for dir in ["src", "public"] {
        names
            .extend(below(&ui.join(dir))?.into_iter().filter_map(|path| Some(path.strip_prefix(&ui).ok()?.to_owned())));
    }
    names.sort();
    let mut lines = String::new();
    for name in names.iter().filter(|name| name.as_os_str() != TYPES) {
        lines.push_str(&format!("{}  {}\n", digest(&ui.join(name))?, name.display()));
    }
    Ok(lines)
}

/// Every file below a directory.
fn below(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).map_err(|error| format!("could not read {}: {error}", dir.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("could not read {}: {error}", dir.display()))?.path();
        match path.is_dir() {
            true => found.extend(below(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

/// The files of a build, by their names.
fn files(place: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let read = |path: PathBuf| {
        let name = path.strip_prefix(place).map_err(|error| error.to_string())?.display().to_string();
        let bytes = fs::read(&path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
        Ok((name, bytes))
    };
    below(place)?.into_iter().map(read).collect()
}

/// The list that the server builds in.
fn list(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut text = "//! The files of the web page, built in. Written by `cargo xtask ui`.\n\n\
        /// Their names below `ui/dist`, and their bytes.\npub(crate) const FILES: &[(&str, &[u8])] = &[\n"
        .to_owned();
    for name in files.keys().filter(|name| *name != INPUTS) {
        let line = format!("    (\"{name}\", include_bytes!(\"../../../{DIST}/{name}\")),\n");
        // As rustfmt has it.
        match line.len() > 121 {
            false => text.push_str(&line),
            true => text.push_str(&format!(
                "    (\n        \"{name}\",\n        include_bytes!(\"../../../{DIST}/{name}\"),\n    ),\n"
            )),
        }
    }
    text.push_str("];\n");
    text
}

fn compare(root: &Path, again: &BTreeMap<String, Vec<u8>>) -> Outcome {
    let kept = files(&root.join(DIST)).map_err(one)?;
    let mut problems = stale(root);
    for name in again.keys().chain(kept.keys().filter(|name| !again.contains_key(*name))) {
        if again.get(name) != kept.get(name) {
            problems.push(format!("{DIST}/{name} is not what its sources are built into: cargo xtask ui"));
        }
    }
    if problems.is_empty() { Ok(format!("{DIST}: {} files, each as built again", kept.len())) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_npm_installed_must_be_what_the_lock_names() {
        let packages = |value: Value| value.as_object().unwrap().clone();
        let locked = packages(json!({
            "": {},
            "node_modules/a": {"version": "1.0.0", "integrity": "sha512-a"},
            "node_modules/a-for-another-system": {"version": "1.0.0", "integrity": "sha512-b", "optional": true},
        }));
        let as_locked = packages(json!({"node_modules/a": {"version": "1.0.0", "integrity": "sha512-a", "dev": true}}));
        assert!(not_as_locked(&locked, &as_locked).is_empty());
        for installed in [
            json!({}),
            json!({"node_modules/a": {"version": "1.0.1", "integrity": "sha512-a"}}),
            json!({"node_modules/a": {"version": "1.0.0", "integrity": "sha512-other"}}),
            json!({"node_modules/a": {"version": "1.0.0", "integrity": "sha512-a"}, "node_modules/b": {}}),
        ] {
            assert_eq!(not_as_locked(&locked, &packages(installed.clone())).len(), 1, "{installed}");
        }
    }
}
