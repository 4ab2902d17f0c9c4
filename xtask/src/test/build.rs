//! Builds every test program at once and finds out from cargo where they are.

use crate::parts::cargo;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Programs that tests of other packages start, and the variable that says where: each would build it otherwise, with
/// other features of its dependencies. They are built with the tests, since each has integration tests of its own.
const STARTED_BY_TESTS: [(&str, &str); 3] =
    [("norma", "NORMA_PROGRAM"), ("scripted-agent", "NORMA_SCRIPTED_AGENT"), ("norma-verify", "NORMA_VERIFY")];

/// What was built.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Built {
    /// Sorted by name.
    pub(super) tests: Vec<Program>,
    /// Variables of the test programs.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
}

/// A test program, and what `cargo test` would set for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// `package::target` for integration tests, `package (lib target)` for unit tests.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The folder of its package, which it runs in.
    pub(super) package_dir: PathBuf,
}

/// Builds the tests that `args` select, all by default.
pub(super) fn programs(root: &Path, args: &[String], packages_selected: bool) -> Result<Built, Vec<String>> {
    let mut tests = cargo(root, &["test", "--no-run", "--message-format=json-render-diagnostics"]);
    if !packages_selected {
        tests.arg("--workspace");
    }
    let output = tests.args(args).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| vec![format!("could not run cargo test --no-run: {error}")])?;
    if !output.status.success() {
        return Err(vec![format!("`cargo test --no-run` ended with {}", output.status)]);
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// What was built, by the messages of cargo.
fn read(messages: &str) -> Built {
    let mut built = Built::default();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        built.tests.extend(program_of(&message));
        built.variables.extend(variable_of(&message));
    }
    built.tests.sort_by(|one, other| one.name.cmp(&other.name));
    built
}

/// The variable that a message of cargo gives a value to, if it is about one of those programs.
fn variable_of(message: &Value) -> Option<(&'static str, PathBuf)> {
    let is_program = message["profile"]["test"] == false && message["target"]["kind"][0] == "bin";
    let path = PathBuf::from(message["executable"].as_str().filter(|_| is_program)?);
    let (_, variable) = STARTED_BY_TESTS.iter().find(|(name, _)| message["target"]["name"] == *name)?;
    Some((variable, path))
}

/// The test program that a message of cargo is about, if it is about one.
fn program_of(message: &Value) -> Option<Program> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let package_dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = &message["target"];
    let (package, target_name) = (package_name(message["package_id"].as_str()?), target["name"].as_str()?);
    let name = match target["kind"][0].as_str()? {
        "test" => format!("{package}::{target_name}"),
        kind => format!("{package} ({kind} {target_name})"),
    };
    Some(Program { name, path, package_dir })
}

/// `path+file:///…/crates/store#0.1.0` or `path+file:///…/crates/cli#norma@0.1.0`: the name is left out where the folder
/// has it.
fn package_name(id: &str) -> &str {
    let (url, fragment) = id.split_once('#').unwrap_or((id, ""));
    fragment.split_once('@').map_or_else(|| url.rsplit('/').next().unwrap_or(url), |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_test_program_is_told_from_what_else_is_built() {
        let mut message = json!({"reason": "compiler-artifact", "package_id": "path+file:///r/crates/cli#norma@0.1.0",
            "manifest_path": "/r/crates/cli/Cargo.toml", "target": {"name": "e2e", "kind": ["test"]},
            "profile": {"test": true}, "executable": "/r/target/debug/deps/e2e-1"});
        let program = program_of(&message).unwrap();
        assert_eq!((program.name.as_str(), program.package_dir.to_str()), ("norma::e2e", Some("/r/crates/cli")));
        message["package_id"] = "path+file:///r/crates/store#0.1.0".into();
        message["target"] = json!({"name": "store", "kind": ["bin"]});
        assert_eq!(program_of(&message).unwrap().name, "store (bin store)");
        message["profile"]["test"] = false.into();
        message["target"]["name"] = "norma".into();
        let found = read(&format!("cargo says something\n{message}\n"));
        let norma = ("NORMA_PROGRAM", PathBuf::from("/r/target/debug/deps/e2e-1"));
        assert_eq!(found, Built { tests: vec![], variables: vec![norma] });
    }
}
