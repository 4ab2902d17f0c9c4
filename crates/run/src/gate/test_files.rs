//! Which files of a repository decide whether its tests pass: the tests themselves, what controls how they are run
//! (`test_files.json`), and the scripts that an item's own test commands start. A change that touches one of them judges
//! itself, so it is named, and an item can have the baseline's version of them count.

use super::listed::{Listed, PathList};
use super::{Finding, Rule};
use contract::RepoPath;
use contract::work::TestCommand;
use serde::Deserialize;

/// Programs whose first operand is a file with the code to run.
const INTERPRETERS: [&str; 14] =
    ["sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "lua"];

/// Programs whose operands are the tests to run.
const RUNNERS: [&str; 14] = [
    "pytest", "py.test", "jest", "vitest", "mocha", "ava", "tap", "phpunit", "rspec", "bats", "prove", "npx", "uv",
    "poetry",
];

/// Programs that look at files and run nothing in them: what they are given is what the change is to bring, and no test.
const LOOKING: [&str; 17] = [
    "test",
    "[",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "cat",
    "diff",
    "cmp",
    "head",
    "tail",
    "wc",
    "ls",
    "stat",
    "jq",
    "file",
    "sha256sum",
];

/// The files that decide about the tests of one item.
#[derive(Debug)]
pub struct TestFiles {
    tests: PathList,
    control: PathList,
    scripts: Vec<RepoPath>,
    /// Files and directories that a test runner is given as its tests.
    given: Vec<RepoPath>,
    /// What commands that run nothing look at.
    looked_at: Vec<RepoPath>,
}

impl TestFiles {
    /// Those of an item with these commands.
    pub fn new(commands: &[TestCommand]) -> TestFiles {
        let Lists { tests, control } = listed();
        let scripts = commands.iter().filter_map(|command| script(&command.argv)).collect();
        let given = commands.iter().flat_map(|command| given(&command.argv)).collect();
        let looking = commands.iter().filter(|command| only_looks(&command.argv));
        let looked_at = looking.flat_map(|command| operands(&command.argv[1..])).collect();
        TestFiles { tests: PathList::new(tests), control: PathList::new(control), scripts, given, looked_at }
    }

    /// Whether this file is a test, or what a test command starts.
    pub fn is_test(&self, path: &[u8]) -> bool {
        self.is_script(path) || self.tests.reason(path).is_some()
    }

    /// Whether the base's version of a path is tried as well where a change touches it. `is_new`: the base has none, and
    /// trying that means to leave the path out. What a command names is there because it was asked for, and a Rust file
    /// beside the source is named by the source, which does not compile without it.
    pub fn guards(&self, path: &[u8], is_new: bool) -> bool {
        let Ok(parsed) = RepoPath::parse_bytes(path) else { return false };
        let asked_for = || self.scripts.contains(&parsed) || self.given.contains(&parsed);
        let beside_the_source = || {
            let (directories, name) = parsed.as_str().rsplit_once('/').unwrap_or(("", parsed.as_str()));
            name.ends_with(".rs") && name != "build.rs" && !directories.split('/').any(|part| part == "tests")
        };
        if self.looked_at.contains(&parsed) || is_new && (asked_for() || beside_the_source()) {
            return false;
        }
        self.why(path).is_some()
    }

    fn is_script(&self, path: &[u8]) -> bool {
        self.scripts.iter().any(|script| script.as_str().as_bytes() == path)
    }

    /// Whether a test command starts this very file, or is given it as its test.
    pub fn is_named(&self, path: &[u8]) -> bool {
        let Ok(path) = RepoPath::parse_bytes(path) else { return false };
        let is_test = || self.tests.reason(path.as_str().as_bytes()).is_some();
        self.scripts.contains(&path) || self.given.contains(&path) && is_test()
    }

    /// Why a path is one of them; none if it is not.
    pub fn why(&self, path: &[u8]) -> Option<String> {
        if self.is_script(path) {
            return Some("a test command starts it".to_owned());
        }
        if self.tests.reason(path).is_some() {
            return Some("it is part of the tests".to_owned());
        }
        self.control.reason(path).map(|reason| format!("it {reason}"))
    }

    /// Those of them among the paths of a change. They are told, and do not refuse it: most good changes bring tests.
    pub fn changed<'p>(&self, paths: impl IntoIterator<Item = &'p [u8]>) -> Vec<Finding> {
        let finding = |path: &'p [u8]| {
            let message = format!("the change decides about its own tests: {}", self.why(path)?);
            Some(Finding::at(Rule::TestsChanged, path, message))
        };
        paths.into_iter().filter_map(finding).collect()
    }
}

/// The file of the tree that a command runs: the program itself, or what an interpreter is given to read.
fn script(argv: &[String]) -> Option<RepoPath> {
    let (program, arguments) = argv.split_first()?;
    if program.contains('/') && !program.starts_with('/') {
        return RepoPath::parse(program).ok();
    }
    let name = program.rsplit('/').next().unwrap_or_default();
    let interprets = INTERPRETERS.contains(&name);
    let operand = arguments.iter().find(|argument| !argument.starts_with('-'))?;
    RepoPath::parse(operand).ok().filter(|_| interprets)
}

/// What a test runner is told to run: its operands that are paths, without the name of one test in a file.
fn given(argv: &[String]) -> Vec<RepoPath> {
    let Some((program, arguments)) = argv.split_first() else { return Vec::new() };
    let name = program.rsplit('/').next().unwrap_or_default();
    if !RUNNERS.contains(&name) && !INTERPRETERS.contains(&name) {
        return Vec::new();
    }
    operands(arguments)
}

fn operands(arguments: &[String]) -> Vec<RepoPath> {
    let operands = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let path = |operand: &String| RepoPath::parse(operand.split("::").next().unwrap_or_default()).ok();
    operands.filter_map(path).collect()
}

/// Whether a command runs nothing that is in the tree, so that it does not matter whose tests are there.
pub fn only_looks(argv: &[String]) -> bool {
    argv.first().is_some_and(|program| {
        LOOKING.contains(&program.rsplit('/').next().unwrap_or_default()) && !program.starts_with("./")
    })
}

/// `test_files.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lists {
    pub(super) tests: Vec<Listed>,
    control: Vec<Listed>,
}

pub(super) fn listed() -> Lists {
    serde_json::from_str(include_str!("test_files.json")).expect("BUG: test_files.json is verified by a test")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::listed::assert_examples;

    fn command(argv: &[&str]) -> TestCommand {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        TestCommand { name: "t".to_owned(), argv, must_pass: true, of_whole: false }
    }

    #[test]
    fn every_line_holds_its_own_examples() {
        let Lists { tests, control } = listed();
        assert_examples(&tests);
        assert_examples(&control);
    }

    #[test]
    fn a_change_that_touches_what_judges_it_is_named() {
        let files = TestFiles::new(&[command(&["sh", "-e", "ci/check.sh"]), command(&["./verify", "x"])]);
        let paths = [
            &b"src/a.rs"[..],
            b"tests/a.rs",
            b"conftest.py",
            b"PACKAGE.JSON",
            b"ci/check.sh",
            b"verify",
            b"ci/other.sh",
            b"x",
            b"\xff",
        ];
        let found: Vec<String> = files.changed(paths).iter().map(ToString::to_string).collect();
        let about = |path: &str, why: &str| format!("{path}: the change decides about its own tests: {why}");
        let expected = [
            about("tests/a.rs", "it is part of the tests"),
            about("conftest.py", "it is part of the tests"),
            about("PACKAGE.JSON", "it names the script that tests run"),
            about("ci/check.sh", "a test command starts it"),
            about("verify", "a test command starts it"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_command_is_given_to_run_is_guarded_and_what_it_looks_at_is_not() {
        let files = TestFiles::new(&[
            command(&["./tests/t.sh"]),
            command(&["pytest", "-q", "tests/test_a.py::test_b"]),
            command(&["node", "--test", "test/a.test.js"]),
            command(&["grep", "-q", "x", "tests/data.txt"]),
        ]);
        for path in ["tests/t.sh", "tests/test_a.py", "test/a.test.js"] {
            assert!(files.is_named(path.as_bytes()), "{path}");
        }
        for path in ["tests/data.txt", "tests/test_c.py", "src/a.py", "Makefile"] {
            assert!(!files.is_named(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn whatever_decides_about_tests_is_guarded_and_what_was_asked_for_is_not() {
        let files = TestFiles::new(&[
            command(&["cargo", "test"]),
            command(&["sh", "ci/check.sh"]),
            command(&["pytest", "tests/test_new.py"]),
            command(&["grep", "-q", "x", "tests/data.txt"]),
        ]);
        let check = |path: &str, edited: bool, new: bool| {
            let found = (files.guards(path.as_bytes(), false), files.guards(path.as_bytes(), true));
            assert_eq!(found, (edited, new), "{path}");
        };
        check("tests/a.rs", true, true);
        check("conftest.py", true, true);
        check("package.json", true, true);
        check("src/gate/tests.rs", true, false);
        check("build.rs", true, true);
        check("ci/check.sh", true, false);
        check("tests/test_new.py", true, false);
        check("tests/data.txt", false, false);
        check("src/lib.rs", false, false);
    }

    #[test]
    fn every_file_that_is_known_to_control_tests_is_on_the_list() {
        let files = TestFiles::new(&[]);
        for path in [
            "package.json",
            "Makefile",
            "build.rs",
            ".cargo/config.toml",
            "conftest.py",
            "pytest.ini",
            "tox.ini",
            "jest.config.js",
            ".npmrc",
        ] {
            assert!(files.why(path.as_bytes()).is_some(), "{path}");
        }
    }

    #[test]
    fn the_script_of_a_command_is_what_it_starts_and_not_what_it_looks_at() {
        let check = |argv: &[&str], expected: Option<&str>| {
            let found = script(&command(argv).argv);
            assert_eq!(found.as_ref().map(RepoPath::as_str), expected, "{argv:?}");
        };
        check(&["./t.sh"], Some("t.sh"));
        check(&["node", "validate.mjs", "KnowledgeStore"], Some("validate.mjs"));
        check(&["/usr/bin/python3", "-B", "scripts/check.py"], Some("scripts/check.py"));
        check(&["grep", "-q", "x", "src/a.rs"], None);
        check(&["cargo", "test"], None);
        check(&["sh", "../t.sh"], None);
        check(&["node"], None);
        check(&[], None);
    }
}
