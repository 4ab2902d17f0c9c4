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
    let Proposal { tests, notes, .. } = propose("do it", facts, None);
    assert_eq!(tests, expected, "{notes:?}");
    assert!(notes.concat().contains(note) && (note.is_empty() == notes.is_empty()), "{notes:?}");
}

#[track_caller]
fn check_scope(sentence: &str, facts: &Facts, expected: &[&str]) {
    let Proposal { allow, because, .. } = propose(sentence, facts, None);
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
fn a_file_is_meant_whatever_case_it_is_named_in() {
    let facts = facts(&PYTHON, &["python3"], &[]);
    check_scope("fixed typo in readme.md", &facts, &["README.md"]);
    check_scope("say more in Docs/Index.md", &facts, &["docs/index.md"]);
}

#[test]
fn tests_that_are_named_after_what_is_wanted_bring_what_they_test() {
    let rust = [
        (".gitignore", ""),
        ("Cargo.lock", ""),
        ("Cargo.toml", "[package]\nname = \"slug\"\n"),
        ("src/lib.rs", ""),
        ("tests/punctuation.rs", ""),
    ];
    let Proposal { allow, .. } = propose("slugify must drop punctuation", &facts(&rust, &["cargo"], &[]), None);
    assert!(allow.contains(&"src/lib.rs".to_owned()), "{allow:?}");
}

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
    check_scope("make the parser faster", &python, &["src/calc/parser.py", "tests/test_parser.py"]);
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
    let owned = ["src/calc/parser.py", "src/calc/printer.py", "tests/test_parser.py"];
    check_scope("let arithmetic handle floats", &python, &owned);
    python.owners = None;
    python.history = vec![
        Commit {
            subject: "Round numbers half even".into(),
            files: vec!["src/calc/printer.py".into(), "gone.py".into()],
            ..Commit::default()
        },
        Commit { subject: "Round corners".into(), files: vec!["README.md".into()], ..Commit::default() },
    ];
    check_scope("numbers must round half away from zero", &python, &["src/calc/printer.py", "README.md"]);
}

/// A repository in which every module has sources, tests and a page, and whose commits say which module they are about as
/// people do: by its name, by a scope in front, by an identifier, or by words that an earlier commit used. The newest first.
fn made(seed: u64) -> (Facts, Vec<Commit>) {
    const MODULES: [&str; 24] = [
        "parser", "printer", "lexer", "cache", "router", "session", "cookie", "logger", "config", "template", "mailer",
        "queue", "worker", "index", "search", "upload", "image", "theme", "locale", "backup", "report", "chart",
        "export", "import",
    ];
    let mut state = seed;
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut files: Vec<String> = vec!["README.md".into(), "CHANGELOG.md".into(), "Makefile".into()];
    for module in MODULES {
        files.extend(["mod", "read", "write"].map(|part| format!("src/{module}/{part}.rs")));
        files.push(format!("tests/{module}_test.rs"));
        files.push(format!("docs/{module}.md"));
    }
    files.sort();
    let history = (0..240).map(|_| {
        let (module, part) = (MODULES[draw(MODULES.len())], ["mod", "read", "write"][draw(3)]);
        let subject = match draw(5) {
            0 => format!("{module}: handle empty input"),
            1 => format!("fix({module}): {part} twice"),
            2 => format!("Make the {module} faster"),
            3 => format!("Let {module}_{part} fail early"),
            _ => "Tidy up".to_owned(),
        };
        let mut files = vec![format!("src/{module}/{part}.rs")];
        files.extend((draw(2) == 0).then(|| format!("tests/{module}_test.rs")));
        files.extend((draw(4) == 0).then(|| "CHANGELOG.md".to_owned()));
        Commit { subject, files, added: Vec::new() }
    });
    let history = history.collect();
    (Facts { files, ..Facts::default() }, history)
}

#[test]
fn most_commits_are_covered_by_a_tenth_of_the_tree() {
    let (mut facts, commits) = made(7);
    let (mut covered, tried) = (0, 80);
    for at in 0..tried {
        facts.history = commits[at + 1..].to_vec();
        let Proposal { allow, .. } = propose(&commits[at].subject, &facts, None);
        let within = |file: &String| allow.iter().any(|path| holds(path, file));
        let held = facts.files.iter().filter(|file| within(file)).count();
        assert!(held * 100 <= facts.files.len() * usize::from(SHARE_PERCENT), "{held}: {}", commits[at].subject);
        covered += usize::from(commits[at].files.iter().all(within));
    }
    assert!(covered * 100 >= tried * 60, "{covered} of {tried}");
}

#[test]
fn a_protected_file_is_proposed_only_where_the_sentence_means_it() {
    let mut python = wide_python();
    python.files.push(".github/workflows/build.yml".into());
    python.files.sort();
    python.protected.insert(".github/workflows/build.yml".into());
    let commit = |subject: &str| Commit {
        subject: subject.into(),
        files: vec![".github/workflows/build.yml".into(), "src/calc/parser.py".into()],
        ..Commit::default()
    };
    python.history = vec![commit("Read floats"), commit("Read numbers")];
    let proposed = |sentence: &str| propose(sentence, &python, None).allow;
    let protected = ".github/workflows/build.yml".to_owned();
    assert!(!proposed("make the parser faster").contains(&protected));
    assert!(proposed("run the workflow on arm, too").contains(&protected));
    assert!(proposed("let CI run on arm").contains(&protected));
}

#[test]
fn the_text_of_files_speaks_for_them() {
    let mut python = wide_python();
    python.mentions.insert("half_even".into(), vec!["src/calc/printer.py".into()]);
    let Proposal { allow, because, is_a_guess, .. } = propose("half_even must round down", &python, None);
    assert_eq!((allow, because.as_str()), (vec!["src/calc/printer.py".to_owned()], "they speak of what you want"));
    assert!(!is_a_guess);
    assert_eq!(searched("let half_even() round like bankersRound, please"), ["half_even", "round", "bankersRound"]);
}
