//! What agents have been seen to try, and what ordinary work looks like beside it: the real binary, the real sandbox.
//! On a machine that cannot confine the tests say so and pass.

mod bombs;
mod git;
mod ordinary;
mod outside;
mod scope;

use crate::environment::TestEnvironment;
use crate::sandbox::confining;
use serde_json::Value;
use std::collections::BTreeSet;

/// What came of a program that was tried in a workspace of its own.
struct Tried {
    /// The line for programs.
    value: Value,
    /// Everything that was said, for the test's own message.
    said: String,
}

/// Tries a shell script under these allowed paths.
#[track_caller]
fn attempt(env: &TestEnvironment, allow: &[&str], script: &str) -> Tried {
    let allow = allow.iter().flat_map(|path| ["--allow", path]);
    let args: Vec<&str> = ["sandbox", "run", "--workspace", "--json"].into_iter().chain(allow).collect();
    let output = env.norma(&[args.as_slice(), &["--", "sh", "-c", script]].concat());
    let said = format!("{script}\n{output}");
    let line = output.raw.lines().last().unwrap_or_else(|| panic!("nothing on stdout: {said}"));
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"));
    let refused = value["findings"] != serde_json::json!([]);
    assert_eq!(output.code(), Some(i32::from(refused)), "{said}");
    Tried { value, said }
}

impl Tried {
    /// The rule and the path of every finding.
    fn findings(&self) -> BTreeSet<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = self.value["findings"].as_array().unwrap_or_else(|| panic!("{}", self.said));
        findings.iter().map(|found| format!("{} {}", text(&found["rule"]), text(&found["path"]))).collect()
    }

    fn changed(&self) -> Vec<&str> {
        self.value["changed"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect()
    }
}
