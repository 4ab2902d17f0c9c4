//! Every command line of README and docs, run or at least parsed. A block of ```console has a comment before it:
//! `<!-- runs: WORLD -->` names the world in which its lines are run one after another, each of which must succeed
//! (`exits any`: whatever the code), and `<!-- not run: WHY -->` says why they cannot be; those are parsed all the same.

use crate::environment::{TestEnvironment, norma_verify};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages without commands for people, or with so many of another kind that they have tests of their own.
const SPARED: [&str; 3] = ["benchmarks.md", "conformance.md", "testing.md"];

/// Blocks that are only parsed. One more needs a reason that convinces a reader, and this number.
const NOT_RUN_MAX: usize = 13;

/// A block of commands.
struct Block {
    /// File and line, for messages.
    place: String,
    /// What the comment before it says.
    note: String,
    /// What is typed, line by line.
    lines: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README and every page, by name.
fn pages() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".md") && !SPARED.contains(&name.as_ref())
    };
    let mut paths: Vec<PathBuf> = docs.filter(is_page).chain([root().join("README.md")]).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

fn blocks() -> Vec<Block> {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let (mut note, mut open): (String, Option<Block>) = (String::new(), None);
        for (number, line) in (1..).zip(text.lines()) {
            match &mut open {
                Some(_) if line.starts_with("```") => found.extend(open.take()),
                Some(block) => block.lines.extend(line.strip_prefix("$ ").map(str::to_owned)),
                None if line.starts_with("```console") => {
                    let place = format!("{page}:{number}");
                    open = Some(Block { place, note: std::mem::take(&mut note), lines: Vec::new() });
                }
                None => {
                    let comment = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                    note = comment.unwrap_or_default().to_owned();
                }
            }
        }
    }
    assert!(found.len() > 10, "the blocks are found");
    found
}

/// A world for the lines of a block: norma and its checker are on PATH.
fn world(name: &str) -> TestEnvironment {
    let mut env = match name {
        "empty" => TestEnvironment::bare(),
        "worker" | "waiting" => with_workers(),
        other => panic!("there is no world {other:?}"),
    };
    let bin = env.dir.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for program in [Path::new(env!("CARGO_BIN_EXE_norma")), norma_verify()] {
        std::os::unix::fs::symlink(program, bin.join(program.file_name().unwrap())).unwrap();
    }
    env.find_first_in(&bin);
    if name == "waiting" {
        env.with_most_in_src();
        env.write("wide.json", &json!([item("wide", json!(["src", "docs"]))]).to_string());
        env.norma(&["batch", "wide.json"]).exits(3);
        let id = env.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
        env.env.insert("ID".to_owned(), id);
    }
    env
}

fn item(id: &str, allowed: serde_json::Value) -> serde_json::Value {
    json!({
        "id": id, "agent_id": "agent-1", "description": format!("do {id}"), "dependencies": [],
        "allowed_paths": allowed, "test_command": "sh tests/run.sh",
    })
}

/// A repository with a test that passes, whose agents answer every request, and make a change if they are asked for one.
fn with_workers() -> TestEnvironment {
    let env = TestEnvironment::initialized();
    let worker = r#"#!/bin/sh
request=$(cat)
id=$(printf %s "$request" | sed -n 's/.*"contract":{"id":"\([^"]*\)".*/\1/p')
case $id in second) file=src/other.txt ;; *) file=src/parse.txt ;; esac
echo "$id $$" >> $file
result="{\"task_id\":\"$id\",\"status\":\"SUCCESS\",\"summary\":\"did it\",\"evidence_refs\":{},\"failure\":null}"
echo "{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\",\"result\":$result}"
"#;
    let mine = "#!/bin/sh\ncat > /dev/null\necho notes > notes.txt\necho '{\"version\":1,\"status\":\"ok\",\"summary\":\"did it\"}'\n";
    let files =
        [("agents/worker.sh", worker), ("agents/mine.sh", mine), ("src/parse.txt", "one\n"), ("docs/a.txt", "a\n")];
    for (path, content) in files {
        env.write(path, content);
        let executable = std::fs::Permissions::from_mode(if path.starts_with("agents") { 0o755 } else { 0o644 });
        std::fs::set_permissions(env.root.join(path), executable).unwrap();
    }
    env.write("tests/run.sh", "test -s src/parse.txt\n");
    env.write(
        "items.json",
        &json!([item("first", json!(["src/parse.txt"])), item("second", json!(["src/other.txt"]))]).to_string(),
    );
    env.write("item.json", &item("only", json!(["src/parse.txt"])).to_string());
    env.commit("workers");
    env.script(json!({"check": [[{"verdict": "PASS"}]]}));
    env.configure(|config| {
        let worker = json!({"type": "exec", "cmd": ["./agents/worker.sh"]});
        let scripted = config["agents"]["do"].clone();
        config["agents"]["worker"] = worker.clone();
        config["agents"]["claude"] = worker;
        config["agents"]["codex"] = scripted;
    });
    env
}

#[test]
fn every_command_line_of_the_documentation_runs() {
    let mut problems = Vec::new();
    for block in blocks() {
        let Some(how) = block.note.strip_prefix("runs: ") else { continue };
        let (name, any) = how.strip_suffix(", exits any").map_or((how, false), |name| (name, true));
        let env = world(name);
        for line in &block.lines {
            let output = env.output_of("sh", &["-c", line]);
            if output.code() != Some(0) && !any {
                problems.push(format!("{}: $ {line}\n{output}", block.place));
                break;
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn a_command_line_that_is_not_run_says_why() {
    let all = blocks();
    let without: Vec<&String> = all
        .iter()
        .filter(|block| !["runs: ", "not run: "].iter().any(|how| block.note.starts_with(how)))
        .map(|block| &block.place)
        .collect();
    assert!(without.is_empty(), "neither `runs: WORLD` nor `not run: WHY` before {without:?}");
    let not_run = all.iter().filter(|block| block.note.starts_with("not run: ")).count();
    assert!(not_run <= NOT_RUN_MAX, "{not_run} blocks are not run");
}

/// The words of a line up to a pipe or a comment, as a shell would split them; none for what is no norma.
fn words(line: &str) -> Option<Vec<String>> {
    let script = format!("norma() {{ printf '%s\\0' \"$@\"; exit; }}; {line}");
    line.starts_with("norma ").then(|| {
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    })
}

#[test]
fn every_command_line_of_the_documentation_parses() {
    let env = TestEnvironment::bare();
    let mut problems = Vec::new();
    for block in blocks() {
        for line in &block.lines {
            let Some(mut words) = words(line) else { continue };
            // Whatever comes before is parsed before help is printed; behind `--` are another program's words.
            let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(end, "--help".to_owned());
            let output = env.norma(&words.iter().map(String::as_str).collect::<Vec<_>>());
            if output.code() != Some(0) {
                problems.push(format!("{}: $ {line}\n{output}", block.place));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// The help of a verb with that of everything below it; empty if there is none.
fn help_of(env: &TestEnvironment, verb: &str) -> String {
    let output = env.norma(&[verb, "--help"]);
    if output.code() != Some(0) {
        return String::new();
    }
    let listed = output.raw.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let below = listed.filter_map(|line| line.split_whitespace().next());
    let below: Vec<String> = below.map(|part| env.norma(&[verb, part, "--help"]).raw).collect();
    output.raw.clone() + &below.concat()
}

/// `norma verb --flag` in the middle of a text: the verb is there, and so is every flag.
#[test]
fn every_verb_and_flag_that_a_text_mentions_is_there() {
    let env = TestEnvironment::bare();
    let mut known = BTreeMap::new();
    let mut problems = Vec::new();
    for (page, text) in pages() {
        for code in text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n')) {
            let Some(rest) = code.strip_prefix("norma ") else { continue };
            let rest = rest.split(" -- ").next().unwrap_or_default();
            let mut words = rest
                .split_whitespace()
                .filter(|word| word.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '-'));
            let verb = words.next().unwrap_or_default();
            // The names of digests look like verbs: `norma receipt v1`.
            if verb.starts_with('-') || rest.ends_with(" v1") {
                continue;
            }
            let help = known.entry(verb.to_owned()).or_insert_with(|| help_of(&env, verb));
            let flags = words.filter(|word| word.starts_with("--")).map(|flag| flag.split(['=', '|']).next().unwrap());
            let missing: Vec<&str> = flags.filter(|flag| !help.contains(*flag)).collect();
            if help.is_empty() || !missing.is_empty() {
                problems.push(format!("{page}: `{code}`: {missing:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_entrypoints_of_the_specification_are_there() {
    assert!(root().join("requirements-dev.txt").is_file());
    for (script, command) in [("scripts/bootstrap.sh", "cargo build"), ("scripts/test.sh", "cargo xtask test")] {
        let path = root().join(script);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o111, 0o111, "{script}");
        assert!(std::fs::read_to_string(&path).unwrap().contains(command), "{script}");
    }
}
