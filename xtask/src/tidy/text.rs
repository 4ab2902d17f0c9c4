//! What may be written where: rules over the text of tracked files. Code is looked at without its comments,
//! literals and unit tests; words that have no business anywhere are looked for in everything.

use super::Tracked;
use crate::seeds::blank;

/// Words that only some places may use.
struct Rule {
    words: &'static [&'static str],
    /// Where the rule holds, by the beginning of the path.
    holds_in: &'static [&'static str],
    /// Places in there that it spares.
    spares: &'static [&'static str],
    why: &'static str,
}

const RULES: [Rule; 4] = [
    Rule {
        words: &["env::var", "env::var_os", "env::vars", "env::vars_os"],
        holds_in: &["crates/"],
        spares: &["crates/cli/"],
        why: "only the command line reads the environment; everything else gets it as a parameter",
    },
    Rule {
        words: &["print!", "println!", "eprint!", "eprintln!", "dbg!"],
        holds_in: &["crates/"],
        spares: &["crates/cli/"],
        why: "only the command line prints",
    },
    Rule {
        words: &["process::Command", "Command::new", "StdCommand::new"],
        holds_in: &["crates/"],
        spares: &[
            "crates/runner/src/process/",
            "crates/runner/src/git/command.rs",
            "crates/sandbox/src/start.rs",
            "crates/sandbox/src/drill/",
            "crates/cli/src/command/serve/background.rs",
            // It asks the compiler, and is no part of the program.
            "crates/cli/build.rs",
        ],
        why: "processes are started in one place for agents, in one for git, in one for sandboxes, in the drill, and in one \
              for a server in the background",
    },
    Rule {
        words: &["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now"],
        holds_in: &["crates/contract/", "crates/run/"],
        spares: &[],
        why: "data and decisions have no clock, or a replay would differ",
    },
];

/// Words that are not left behind in anything tracked. Put together, so that this file does not hold them.
const LEFTOVERS: [(&str, &str); 3] = [
    (concat!("FIX", "ME"), "fix it or open an issue"),
    (concat!("XX", "X"), "fix it or open an issue"),
    (concat!("todo", "!"), "write it, or do not call it"),
];

/// What is built of packages of others.
const BUILT: &str = "ui/dist/";

/// Folders of one machine or one person, in the same way.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// How cargo spells the default registry in a lock file: its address lies between the two.
const REGISTRY: (&str, &str) = ("\"registry+https://", "/crates.io-index\"");

/// What would send cargo elsewhere.
const REDIRECTIONS: [&str; 5] = ["replace-with", "[source.", "[registries", "sparse+", "registry-index"];

/// Where the crash points are listed.
const CRASH_POINTS: &str = "crates/store/src/crash.rs";

pub(crate) fn check(files: &[Tracked]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        if file.path.ends_with(".rs") {
            problems.extend(opening(file));
            problems.extend(misplaced(file));
            problems.extend(examples(file));
        }
        problems.extend(leftovers(file));
        problems.extend(machine_paths(file));
        problems.extend(redirections(file));
    }
    problems.extend(crash_points(files));
    problems
}

/// Every file under `crates/` opens with a paragraph that says what lives there and why.
fn opening(file: &Tracked) -> Option<String> {
    let bare = file.path.starts_with("crates/") && !file.text.starts_with("//!");
    bare.then(|| format!("{}:1: it does not open with a `//!` paragraph", file.path))
}

/// `cargo xtask test` starts no documentation tests, since there are none: an example that runs is a test.
fn examples(file: &Tracked) -> Vec<String> {
    let mut problems = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(file.text.lines()) {
        let comment = text.trim_start().strip_prefix("///").or_else(|| text.trim_start().strip_prefix("//!"));
        let Some(fence) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else { continue };
        if !inside && ["", "rust", "no_run", "should_panic"].contains(&fence.trim()) {
            problems.push(format!("{}:{line}: an example that nothing runs: write a test, or ```text", file.path));
        }
        inside = !inside;
    }
    problems
}

fn misplaced(file: &Tracked) -> Vec<String> {
    let below = |places: &[&str]| places.iter().any(|place| file.path.starts_with(place));
    let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let rules: Vec<&Rule> =
        RULES.iter().filter(|rule| !is_test && below(rule.holds_in) && !below(rule.spares)).collect();
    if rules.is_empty() {
        return Vec::new();
    }
    let code = without_unit_tests(&blank(&file.text));
    let mut problems = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        for rule in &rules {
            if let Some(word) = rule.words.iter().find(|word| has_word(text, word)) {
                problems.push(format!("{}:{line}: `{word}`: {}", file.path, rule.why));
            }
        }
    }
    problems
}

/// Unit tests are the last thing in a file.
pub(super) fn without_unit_tests(code: &str) -> String {
    let start = code.find("#[cfg(test)]\nmod tests").unwrap_or(code.len());
    code[..start].to_owned()
}

/// Whether a word stands in a text by itself, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part);
        let after = text[at + word.len()..].chars().next().is_some_and(part);
        !(before || after && word.ends_with(part))
    })
}

fn leftovers(file: &Tracked) -> Vec<String> {
    // What others wrote, as it was built; its sources are looked at.
    if file.path.starts_with(BUILT) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        for (word, what) in LEFTOVERS.iter().filter(|(word, _)| has_word(text, word)) {
            problems.push(format!("{}:{line}: {word}: {what}", file.path));
        }
    }
    problems
}

/// A path of somebody's machine works nowhere else.
fn machine_paths(file: &Tracked) -> Vec<String> {
    let inside = |c: char| c.is_alphanumeric() || "._-/*}$>".contains(c);
    let mut problems = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        for path in MACHINE_PATHS {
            if text.match_indices(path).any(|(at, _)| !text[..at].chars().next_back().is_some_and(inside)) {
                problems.push(format!("{}:{line}: {path}…: a path of one machine", file.path));
            }
        }
    }
    problems
}

/// Dependencies come from the default registry, whatever this machine uses in its place.
fn redirections(file: &Tracked) -> Vec<String> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if name != "Cargo.lock" && name != "Cargo.toml" && !file.path.starts_with(".cargo/") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        let is_default = |source: &str| source.starts_with(REGISTRY.0) && source.ends_with(REGISTRY.1);
        let elsewhere = text.strip_prefix("source = ").is_some_and(|source| !is_default(source));
        if elsewhere || REDIRECTIONS.iter().any(|word| text.contains(word)) {
            problems.push(format!("{}:{line}: a registry other than the default one: {text}", file.path));
        }
    }
    problems
}

/// Every listed crash point is somewhere in the code; the test that walks them proves that it is reached.
fn crash_points(files: &[Tracked]) -> Vec<String> {
    let Some(list) = files.iter().find(|file| file.path == CRASH_POINTS) else { return Vec::new() };
    let listed = list.text.split("POINTS: &[&str] = &[").nth(1).and_then(|rest| rest.split("];").next());
    let names = listed.unwrap_or_default().split('"').skip(1).step_by(2);
    let is_used = |name: &str| {
        let quoted = format!("\"{name}\"");
        let sources = files.iter().filter(|file| file.path.contains("/src/") && file.path != CRASH_POINTS);
        sources.into_iter().any(|file| file.text.contains(&quoted))
    };
    names
        .filter(|name| !is_used(name))
        .map(|name| format!("{CRASH_POINTS}: the point {name} is nowhere in the code"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: &[&str]) {
        let file = Tracked { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(check(&[file]), expected);
    }

    #[test]
    fn a_word_in_the_wrong_place_is_found_with_its_line() {
        let source = "//! Why.\n\nfn now() { std::time::Instant::now(); }\n";
        let why = "data and decisions have no clock, or a replay would differ";
        check_file("crates/run/src/a.rs", source, &[&format!("crates/run/src/a.rs:3: `Instant::now`: {why}")]);
        check_file("crates/runner/src/a.rs", source, &[]);
        let prints = "//! Why.\nfn f() { println!(\"x\") }";
        check_file(
            "crates/store/src/a.rs",
            prints,
            &["crates/store/src/a.rs:2: `println!`: only the command line prints"],
        );
        check_file("crates/cli/src/a.rs", prints, &[]);
    }

    #[test]
    fn comments_literals_tests_and_longer_words_are_spared() {
        let source = "//! Uses no Instant::now.\nconst A: &str = \"Instant::now\";\nfn f() { MyInstant::now(); }\n\
                      #[cfg(test)]\nmod tests { fn f() { Instant::now(); } }\n";
        check_file("crates/run/src/a.rs", source, &[]);
        check_file("crates/run/tests/a.rs", "//! Why.\nfn f() { Instant::now(); }", &[]);
        check_file("crates/run/src/a.rs", "//! Why.\nfn f() { writeln!(x) }", &[]);
    }

    #[test]
    fn starting_a_process_has_its_places() {
        let source = "//! Why.\nuse std::process::Command;\n";
        let why = "processes are started in one place for agents, in one for git, in one for sandboxes, in the drill, \
                   and in one for a server in the background";
        check_file("crates/store/src/a.rs", source, &[&format!("crates/store/src/a.rs:2: `process::Command`: {why}")]);
        check_file("crates/runner/src/git/command.rs", source, &[]);
        check_file("crates/runner/src/process/drive.rs", source, &[]);
        check_file("crates/runner/src/machine.rs", "//! Why.\nuse crate::process::{Command, End};\n", &[]);
    }

    #[test]
    fn an_example_that_nothing_runs_is_refused() {
        let found = ["crates/run/src/a.rs:2: an example that nothing runs: write a test, or ```text"];
        check_file("crates/run/src/a.rs", "//! Why.\n/// ```\n/// f();\n/// ```\nfn f() {}", &found);
        check_file("crates/run/src/a.rs", "//! ```text\n//! a tree\n//! ```\nfn f() {}", &[]);
    }

    #[test]
    fn a_file_opens_with_a_paragraph() {
        check_file(
            "crates/run/src/a.rs",
            "fn f() {}",
            &["crates/run/src/a.rs:1: it does not open with a `//!` paragraph"],
        );
    }

    #[test]
    fn leftovers_and_paths_of_one_machine_are_found_anywhere() {
        let word = LEFTOVERS[0].0;
        check_file(
            "README.md",
            &format!("a\n{word}: later"),
            &[&format!("README.md:2: {word}: fix it or open an issue")],
        );
        check_file("README.md", &format!("mktemp {}{}", LEFTOVERS[1].0, LEFTOVERS[1].0), &[]);
        let path = MACHINE_PATHS[0];
        check_file("a.sh", &format!("cd {path}x"), &[&format!("a.sh:1: {path}…: a path of one machine")]);
        check_file("a.sh", &format!("cd some{path}x"), &[]);
    }

    #[test]
    fn dependencies_come_from_the_default_registry() {
        check_file("Cargo.lock", &format!("source = {}host{}", REGISTRY.0, REGISTRY.1), &[]);
        let other = "source = \"registry+https://example.org/index\"";
        check_file("Cargo.lock", other, &[&format!("Cargo.lock:1: a registry other than the default one: {other}")]);
        check_file(
            ".cargo/config.toml",
            "[source.mirror]",
            &[".cargo/config.toml:1: a registry other than the default one: [source.mirror]"],
        );
    }

    #[test]
    fn a_crash_point_that_is_nowhere_is_found() {
        let list = "//! Why.\npub const POINTS: &[&str] = &[\n    \"a.b\",\n    \"c.d\",\n];\n";
        let file = |path: &str, text: &str| Tracked { path: path.to_owned(), text: text.to_owned() };
        let user = file("crates/store/src/log.rs", "//! Why.\nfn f() { crash::point(\"a.b\"); }");
        let problems = check(&[file(CRASH_POINTS, list), user]);
        assert_eq!(problems, [format!("{CRASH_POINTS}: the point c.d is nowhere in the code")]);
    }
}
