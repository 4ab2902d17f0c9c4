//! Proposals for small repositories of each kind.

use super::*;

/// Facts of a repository with these files, of which some have a text.
fn facts(files: &[(&str, &str)], programs: &[&str], installed: &[&str]) -> Facts {
    let mut names: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    names.sort();
    let texts = files.iter().filter(|(_, text)| !text.is_empty());
    Facts {
        files: names,
        texts: texts.map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
        programs: programs.iter().map(|it| (*it).to_owned()).collect(),
        installed: installed.iter().map(|it| (*it).to_owned()).collect(),
        ..Facts::default()
    }
}

#[track_caller]
fn check_tests(facts: &Facts, expected: &[&str], note: &str) {
    let Proposal { tests, notes, .. } = propose("do it", facts);
    assert_eq!(tests, expected, "{notes:?}");
    assert!(notes.concat().contains(note) && (note.is_empty() == notes.is_empty()), "{notes:?}");
}

#[track_caller]
fn check_scope(sentence: &str, facts: &Facts, expected: &[&str]) {
    let Proposal { allow, because, .. } = propose(sentence, facts);
    assert_eq!(allow, expected, "{because}");
}

const PYTHON: [(&str, &str); 6] = [
    ("README.md", ""),
    ("pyproject.toml", "[project]\nname = \"calc\"\n"),
    ("src/calc/parser.py", ""),
    ("src/calc/printer.py", ""),
    ("tests/test_parser.py", "def test_it():\n    pass\n"),
    ("docs/index.md", ""),
];

#[test]
fn python_is_tested_by_what_is_installed() {
    let venv = [".venv/bin/python", ".venv/bin/pytest", ".venv"];
    check_tests(&facts(&PYTHON, &["python3"], &venv), &[".venv/bin/python -m pytest"], "");
    check_tests(&facts(&PYTHON, &["python3", "pytest"], &[]), &["pytest"], "");
    check_tests(&facts(&PYTHON, &["python3"], &[]), &[], "pip install pytest");
    let unittest = [("a.py", ""), ("tests/test_a.py", "import unittest\n")];
    check_tests(&facts(&unittest, &["python3"], &[]), &["python3 -m unittest discover -s tests"], "");
    check_tests(
        &facts(&unittest, &["python3"], &[".venv/bin/python"]),
        &[".venv/bin/python -m unittest discover -s tests"],
        "",
    );
}

#[test]
fn node_is_tested_by_its_script() {
    let of = |text: &'static str, lock: &'static str| [("package.json", text), (lock, ""), ("index.js", "")];
    let script = r#"{"scripts": {"test": "node --test"}}"#;
    check_tests(&facts(&of(script, "package-lock.json"), &["npm"], &[]), &["npm test"], "");
    check_tests(&facts(&of(script, "pnpm-lock.yaml"), &["npm", "pnpm"], &[]), &["pnpm test"], "");
    check_tests(&facts(&of(script, "yarn.lock"), &["npm"], &[]), &["npm test"], "");
    check_tests(&facts(&of(script, "yarn.lock"), &[], &[]), &[], "yarn is not on PATH");
    let none = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    check_tests(&facts(&of(none, "package-lock.json"), &["npm"], &[]), &[], "no test was found");
    let needs = r#"{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "1"}}"#;
    check_tests(&facts(&of(needs, "package-lock.json"), &["npm"], &[]), &["npm test"], "npm install");
    check_tests(&facts(&of(needs, "package-lock.json"), &["npm"], &["node_modules"]), &["npm test"], "");
}

#[test]
fn rust_go_and_make_are_tested_by_their_tools() {
    let rust = [("Cargo.toml", "[package]"), ("src/lib.rs", "")];
    check_tests(&facts(&rust, &["cargo"], &[]), &["cargo test"], "");
    check_tests(&facts(&rust, &[], &[]), &[], "cargo is not on PATH");
    let go = [("go.mod", "module m"), ("m.go", "")];
    check_tests(&facts(&go, &["go"], &[]), &["go test ./..."], "");
    let make = [("Makefile", "all:\n\tcc a.c\ntest: all\n\t./t.sh\n"), ("a.c", "")];
    check_tests(&facts(&make, &["make"], &[]), &["make test"], "");
    check_tests(&facts(&make, &[], &[]), &[], "no test was found");
    check_tests(&facts(&[("Makefile", "check :\n\t./t.sh\n")], &["make"], &[]), &["make check"], "");
}

#[test]
fn a_mixed_repository_has_the_tests_of_all_its_parts() {
    let parts = [
        ("web/package.json", r#"{"scripts": {"test": "node --test"}}"#),
        ("core/Cargo.toml", "[package]"),
        ("tool/go.mod", "module m"),
        ("Makefile", "test:\n\ttrue\n"),
    ];
    let expected = ["cargo test --manifest-path core/Cargo.toml", "go test -C tool ./...", "npm --prefix web test"];
    check_tests(&facts(&parts, &["npm", "cargo", "go", "make"], &[]), &expected, "");
    let both =
        [("package.json", r#"{"scripts": {"test": "x"}}"#), ("Cargo.toml", "[package]"), ("web/package.json", "{}")];
    check_tests(&facts(&both, &["npm", "cargo"], &[]), &["npm test", "cargo test"], "");
}

#[test]
fn an_empty_repository_has_no_tests_and_no_narrow_scope() {
    let empty = facts(&[("README.md", "")], &["make", "npm"], &[]);
    check_tests(&empty, &[], "no test was found");
    check_scope("write a parser", &empty, &[]);
    check_scope("write a parser to parse.py", &empty, &["parse.py"]);
}

/// Enough other files that a scope of some is none of most.
fn wide_python() -> Facts {
    let mut files = PYTHON.to_vec();
    files.extend(["a", "b", "c", "d", "e", "f"].map(|_| ("data/x.json", "")));
    let mut found = facts(&files, &[], &[]);
    found.files.extend((0..20).map(|number| format!("data/{number}.json")));
    found.files.sort();
    found
}

#[test]
fn what_the_sentence_names_may_change_with_its_tests() {
    let python = wide_python();
    check_scope("make the parser faster", &python, &["src/calc/parser.py", "tests"]);
    check_scope("fix src/calc/printer.py", &python, &["src/calc/printer.py", "tests"]);
    check_scope("fix printer.py, please", &python, &["src/calc/printer.py", "tests"]);
    check_scope("update the README", &python, &["README.md"]);
    check_scope("write docs/install.md", &python, &["docs/install.md"]);
    check_scope("write nowhere/install.md", &python, &["src", "tests"]);
    check_scope("tidy up docs/", &python, &["docs"]);
    check_scope("fix the failing tests", &python, &["src", "tests"]);
    check_scope("make it faster", &python, &["src", "tests"]);
    let go = facts(&[("go.mod", ""), ("parse.go", ""), ("a.txt", ""), ("b.txt", ""), ("c.txt", "")], &[], &[]);
    check_scope("let parse.go handle floats", &go, &["parse.go", "parse_test.go"]);
}

#[test]
fn a_scope_that_would_need_an_approval_is_not_proposed() {
    let small = facts(&[("calc.py", ""), ("tests/test_calc.py", ""), ("README.md", "")], &[], &[]);
    check_scope("fix calc.py", &small, &["calc.py"]);
    check_scope("make it faster", &small, &[]);
}

#[test]
fn owners_and_history_connect_words_with_files() {
    let mut python = wide_python();
    python.owners = Some("# who\n/src/calc/ @org/arithmetic-team\n* @org/everybody\n".to_owned());
    check_scope("let arithmetic handle floats", &python, &["src/calc", "tests"]);
    python.owners = None;
    python.history = vec![
        Commit {
            subject: "Round numbers half even".into(),
            files: vec!["src/calc/printer.py".into(), "gone.py".into()],
        },
        Commit { subject: "Round corners".into(), files: vec!["README.md".into()] },
    ];
    check_scope("numbers must round half away from zero", &python, &["src/calc/printer.py", "tests"]);
}
