//! `SandboxJob` and `SandboxResult`: one command with its files, run where a backend confines it, and what came of it.
//! The command is split into words and never given to a shell. Files are sorted by the bytes of their paths on both sides,
//! because a map whose order depends on its writer has no digest.

use super::read_value;
use crate::RepoPath;
use crate::json::{self, Limits, Report, Violation};
use crate::policy::split;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest job in bytes: it carries its files, so it may be larger than a document that people review.
pub const JOB_BYTES_MAX: usize = 32 << 20;

/// Most files of one job.
pub const JOB_FILES_MAX: usize = 10_000;

/// A day: no command runs longer, and milliseconds stay exact.
pub const JOB_MS_MAX: u64 = 24 * 60 * 60 * 1000;

const LIMITS: Limits = Limits::new(JOB_BYTES_MAX, Limits::DOCUMENT.depth_max);

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("$id" = "SandboxJob.v0"))]
pub struct SandboxJob {
    /// What the command finds around it: a root directory or an image for microsandbox, a template for e2b; what the
    /// configuration names if this is empty. The native backend shows the programs of this machine, whatever it says.
    pub image_or_template: String,
    /// Program and arguments, split into words as a shell would; nothing only a shell understands.
    #[schemars(length(min = 1))]
    pub cmd: String,
    /// Content by path, relative to the directory that the command starts in.
    pub files: BTreeMap<String, String>,
    /// Variables, beside those that the backend sets.
    pub env: BTreeMap<String, String>,
    /// How long the command may take.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub timeout_ms: u64,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(extend("$id" = "SandboxResult.v0"))]
pub struct SandboxResult {
    /// Of the command; 128 and the signal's number if one ended it.
    pub exit_code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
    /// The files that it made or changed, by path.
    pub files: BTreeMap<String, String>,
    /// Where it ran.
    pub meta: SandboxMeta,
}

/// Where a job ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SandboxMeta {
    /// How long it took until the command could be started.
    pub boot_ms: u64,
    /// What confined it.
    pub provider: Provider,
}

/// What confines a job. A job is never run without any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// The kernel of this machine.
    Native,
    /// A virtual machine on this machine.
    Microsandbox,
    /// A virtual machine of a service.
    E2b,
}

impl SandboxJob {
    /// Reads a job strictly, or says everything that is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<SandboxJob, Vec<Violation>> {
        let job: SandboxJob = read_value(json::parse(bytes, &LIMITS)?)?;
        let mut report = Report::default();
        job.check(&mut report);
        report.into_result().map(|()| job)
    }

    /// The words of the command.
    pub fn argv(&self) -> Vec<String> {
        split(&self.cmd).expect("BUG: the command of a job that was read is one")
    }

    fn check(&self, report: &mut Report) {
        match split(&self.cmd) {
            Err(problem) => report.push("/cmd".to_owned(), problem.to_string()),
            Ok(words) if words[0].is_empty() => report.push("/cmd".to_owned(), "the program is empty".to_owned()),
            Ok(_) => {}
        }
        if self.image_or_template.chars().any(|c| c.is_control() || crate::path::is_invisible(c)) {
            report.push("/imageOrTemplate".to_owned(), "it has a control or invisible character".to_owned());
        }
        if self.files.len() > JOB_FILES_MAX {
            report.push("/files".to_owned(), format!("there are more than {JOB_FILES_MAX} files"));
        }
        for path in self.files.keys() {
            if let Some(problem) = path_problem(path).or_else(|| self.below_a_file(path)) {
                report.push(format!("/files/{}", token(path)), problem);
            }
        }
        for (name, value) in &self.env {
            if let Some(problem) = variable_problem(name, value) {
                report.push(format!("/env/{}", token(name)), problem);
            }
        }
    }

    /// What is wrong if another file is where this one's directory would be.
    fn below_a_file(&self, path: &str) -> Option<String> {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]).find(|dir| self.files.contains_key(*dir))?;
        Some(format!("{above:?} is a file, so nothing can lie below it"))
    }
}

/// Why a path cannot be that of a file of a job or of its result: it must be in its one spelling, and lie below.
pub fn path_problem(path: &str) -> Option<String> {
    match RepoPath::parse(path) {
        Err(problem) => Some(problem.to_string()),
        Ok(parsed) if parsed.as_str() != path => Some(format!("write it as {:?}", parsed.as_str())),
        Ok(_) => None,
    }
}

fn variable_problem(name: &str, value: &str) -> Option<String> {
    let named = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let fits = !name.is_empty() && name.chars().all(named) && !name.starts_with(|c: char| c.is_ascii_digit());
    match (fits, value.contains('\0')) {
        (false, _) => {
            Some("is not the name of a variable: letters, digits and _, not beginning with a digit".to_owned())
        }
        (true, true) => Some("a value cannot contain NUL".to_owned()),
        (true, false) => None,
    }
}

/// A key as a token of a JSON pointer.
fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;
    use serde_json::{Value, json};

    fn job() -> Value {
        json!({"imageOrTemplate": "base", "cmd": "echo 'a b'", "files": {}, "env": {}, "timeoutMs": 1000})
    }

    #[track_caller]
    fn check(field: &str, value: Value, expected: &[&str]) {
        let mut job = job();
        job[field] = value;
        let read = SandboxJob::read(job.to_string().as_bytes());
        assert_eq!(read.err().map(|found| said(&found)).unwrap_or_default(), expected, "{field}");
    }

    #[test]
    fn the_command_becomes_words_and_is_never_for_a_shell() {
        assert_eq!(SandboxJob::read(job().to_string().as_bytes()).unwrap().argv(), ["echo", "a b"]);
        for cmd in ["a && b", "a | b", "echo $HOME", "a > b", "", "  ", "a 'b", "'' x"] {
            let mut job = job();
            job["cmd"] = json!(cmd);
            let found = SandboxJob::read(job.to_string().as_bytes()).unwrap_err();
            assert!(found.iter().all(|problem| problem.pointer == "/cmd"), "{cmd:?}: {found:?}");
        }
    }

    #[test]
    fn files_lie_below_and_have_one_spelling() {
        for path in ["/etc/passwd", "../x", "a/../b", "a\\b", "a\0b", "", ".", ".git/config", "a//b", "./a", "a/"] {
            let mut job = job();
            job["files"] = json!({ path: "" });
            let found = SandboxJob::read(job.to_string().as_bytes()).unwrap_err();
            assert_eq!(found[0].pointer, format!("/files/{}", token(path)), "{path:?}");
        }
        check("files", json!({"a": "", "a/b": ""}), &["/files/a~1b: \"a\" is a file, so nothing can lie below it"]);
        check("files", json!({"a-b": "", "a/b": "", "a.b": ""}), &[]);
    }

    #[test]
    fn the_document_is_closed_and_every_number_has_its_bounds() {
        check("timeoutMs", json!(0), &["/timeoutMs: expected at least 1, found 0"]);
        for (field, value) in
            [("timeoutMs", json!(86_400_001)), ("cmd", json!(7)), ("files", json!(null)), ("shell", json!(1))]
        {
            let mut job = job();
            job[field] = value;
            let found = SandboxJob::read(job.to_string().as_bytes()).unwrap_err();
            assert_eq!(found[0].pointer, format!("/{field}"));
        }
        for field in ["imageOrTemplate", "cmd", "files", "env", "timeoutMs"] {
            let mut job = job();
            job.as_object_mut().unwrap().remove(field);
            assert!(SandboxJob::read(job.to_string().as_bytes()).is_err(), "{field}");
        }
        let twice = r#"{"imageOrTemplate":"","cmd":"a","cmd":"b","files":{},"env":{},"timeoutMs":1}"#;
        assert!(SandboxJob::read(twice.as_bytes()).is_err());
    }

    #[test]
    fn variables_have_names() {
        for name in ["", "A=B", "1A", "A B", "é"] {
            let mut job = job();
            job["env"] = json!({ name: "" });
            assert!(SandboxJob::read(job.to_string().as_bytes()).is_err(), "{name:?}");
        }
        check("env", json!({"_A1": "x\ny"}), &[]);
    }

    #[test]
    fn files_are_sorted_by_their_bytes() {
        let files = ["b", "a", "é", "Z", "a/b", "a-b"].map(|path| (path.to_owned(), String::new()));
        let meta = SandboxMeta { boot_ms: 1, provider: Provider::Native };
        let result =
            SandboxResult { exit_code: 0, stdout: String::new(), stderr: String::new(), files: files.into(), meta };
        let text = serde_json::to_string(&result).unwrap();
        let places: Vec<_> =
            ["Z", "a", "a-b", "a/b", "b", "é"].iter().map(|path| text.find(&format!("\"{path}\":"))).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }
}
