//! `cargo xtask seeds`: checks that `docs/conformance.md` promises nothing that is not there.
//!
//! The page lists every normative statement of the five seeds with the test that holds it. Here it
//! is parsed strictly, since a row that is skipped silently is a promise nobody checks, and every
//! named test is looked for in the sources. The sources are scanned as text, not compiled: comments
//! and literals are blanked first, so that a test that is commented out or quoted does not count,
//! and neither does one that is `#[ignore]`d. Tests made by a macro that hides their `fn` are not
//! seen, but for those that `for_each_agent!` and `for_each_protocol!` make; name them out in the open.
//!
//! A statement whose tests all say that they were not run, in the last `cargo xtask test` on this machine, is not held
//! here: it is counted apart, as vacuous.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/conformance.md";
const SEEDS: [&str; 5] = ["000", "001", "002", "003", "004"];
const HEADER: [&str; 4] = ["id", "statement", "where", "held by"];

/// Where the packages of the workspace are.
const SOURCES: [&str; 3] = ["crates", "testing", "xtask"];
/// Directories whose tests `cargo test` does not run, or whose files are not ours.
const SKIPPED: [&str; 4] = ["target", "node_modules", "benches", "examples"];

/// Makes a test for each real agent of every check that it is given.
const FOR_EACH_AGENT: [&str; 2] = ["for_each_agent!(", "for_each_protocol!("];

/// Checks the page; `--json` makes one JSON document of the counts, also in place of the problems.
pub(crate) fn check(workspace_root: &Path, flags: &[String]) -> Result<String, Vec<String>> {
    let as_json = match flags {
        [] => false,
        [flag] if flag == "--json" => true,
        _ => return Err(vec![format!("seeds: unknown flags {flags:?}")]),
    };
    let page = read(&workspace_root.join(PAGE)).map_err(|problem| vec![problem])?;
    let tests = Tests::collect(workspace_root).map_err(|problem| vec![problem])?;
    let (rows, mut problems) = parse_page(&page);
    for row in &rows {
        problems.extend(judge(row, &tests, workspace_root));
    }
    let not_run = fs::read_to_string(workspace_root.join(crate::test::NOT_RUN)).unwrap_or_default();
    let counts = count(&rows, &not_run_tests(&not_run));
    match (as_json, problems.is_empty()) {
        (false, true) => Ok(summary(&counts)),
        (false, false) => Err(problems),
        (true, true) => Ok(json(&counts, &problems)),
        (true, false) => Err(vec![json(&counts, &problems)]),
    }
}

// ---- the page ------------------------------------------------------------------------------

/// One statement of one seed.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    id: String,
    seed: &'static str,
    held: Held,
}

/// What the last column says.
#[derive(Debug, PartialEq, Eq)]
enum Held {
    By(Vec<TestName>),
    NotYet,
    /// A reason in words.
    Excepted,
    /// The page that gives the reason.
    ExceptedBy(String),
}

/// `package::test_name`; a module path between the two is read over.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TestName {
    package: String,
    test: String,
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.package, self.test)
    }
}

/// Reads every row it can and reports everything it cannot read.
fn parse_page(page: &str) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    let mut section = None;
    for (index, text) in page.lines().enumerate() {
        let line = index + 1;
        if text.starts_with('#') {
            match seed_of_heading(text) {
                Ok(seed) => section = seed,
                Err(problem) => problems.push(at(line, &problem)),
            }
            continue;
        }
        match parse_line(line, text, section) {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => {}
            Err(problem) => problems.push(at(line, &problem)),
        }
    }
    problems.extend(repeated(&rows));
    problems.extend(missing_seeds(&rows));
    (rows, problems)
}

/// `## Seed 000: …` opens the table of a seed; any other heading closes it.
fn seed_of_heading(text: &str) -> Result<Option<&'static str>, String> {
    let Some(rest) = text.strip_prefix("## Seed ") else {
        return Ok(None);
    };
    SEEDS
        .into_iter()
        .find(|seed| rest.strip_prefix(seed).is_some_and(|rest| rest.starts_with(':')))
        .map(Some)
        .ok_or_else(|| format!("not the heading of a seed: `{text}`"))
}

/// A line outside the tables is prose, unless it looks like a row that lost its place.
fn parse_line(line: usize, text: &str, section: Option<&'static str>) -> Result<Option<Row>, String> {
    let Some(seed) = section else {
        return match cells(text) {
            Some(cells) if parse_id(&cells[0]).is_some() => Err("a row outside its seed".into()),
            _ => Ok(None),
        };
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let cells = cells(text).ok_or("neither a row nor empty")?;
    if cells == HEADER || cells.iter().all(|cell| cell == "---") {
        return Ok(None);
    }
    parse_row(line, &cells, seed).map(Some)
}

fn parse_row(line: usize, cells: &[String], seed: &'static str) -> Result<Row, String> {
    let [id, statement, place, held] = cells else {
        return Err(format!("a row has four cells, this one has {}", cells.len()));
    };
    match parse_id(id) {
        Some(of) if of == seed => {}
        Some(_) => return Err(format!("`{id}` is in the table of seed {seed}")),
        None => return Err(format!("`{id}` is not an id such as 000-4.1-3")),
    }
    if statement.is_empty() || place.is_empty() {
        return Err(format!("{id}: an empty cell"));
    }
    let held = parse_held(held).map_err(|problem| format!("{id}: {problem}"))?;
    Ok(Row { line, id: id.clone(), seed, held })
}

/// The seed of an id such as `000-4.1-3`, if it is one.
fn parse_id(id: &str) -> Option<&'static str> {
    let mut parts = id.split('-');
    let (seed, section, number) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && is_number(number) && section.split('.').all(is_number);
    SEEDS.into_iter().find(|known| whole && *known == seed)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_held(text: &str) -> Result<Held, String> {
    if text == "not yet" {
        return Ok(Held::NotYet);
    }
    match text.split_once(": ") {
        Some(("not yet", why)) => worded(why).map(|_| Held::NotYet),
        Some(("exception", why)) if why.starts_with("docs/") => decision(why),
        Some(("exception", why)) => worded(why).map(|_| Held::Excepted),
        _ => each(text, quoted_test_name).map(Held::By),
    }
}

fn worded(why: &str) -> Result<(), String> {
    if why.trim().is_empty() { Err("a reason is missing".into()) } else { Ok(()) }
}

/// `docs/decisions/NNNN-….md`, and nothing that leads elsewhere.
fn decision(path: &str) -> Result<Held, String> {
    let numbered = path
        .strip_prefix("docs/decisions/")
        .and_then(|file| file.strip_suffix(".md"))
        .filter(|file| !file.contains('/'))
        .and_then(|file| file.split_once('-'))
        .is_some_and(|(number, _)| number.len() == 4 && is_number(number));
    if numbered {
        Ok(Held::ExceptedBy(path.to_owned()))
    } else {
        Err(format!("`{path}` is not docs/decisions/NNNN-….md"))
    }
}

fn each(text: &str, parse: fn(&str) -> Result<TestName, String>) -> Result<Vec<TestName>, String> {
    text.split(", ").map(parse).collect()
}

fn quoted_test_name(text: &str) -> Result<TestName, String> {
    text.strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'))
        .ok_or_else(|| format!("`{text}` is neither a test in backticks nor a known word"))
        .and_then(test_name)
}

fn test_name(text: &str) -> Result<TestName, String> {
    let parts: Vec<&str> = text.split("::").collect();
    match parts.as_slice() {
        [package, .., test] if parts.iter().all(|part| is_name(part)) => {
            Ok(TestName { package: (*package).to_owned(), test: (*test).to_owned() })
        }
        _ => Err(format!("`{text}` is not package::test_name")),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// The trimmed cells of a table line; `\|` is a bar inside a cell.
fn cells(text: &str) -> Option<Vec<String>> {
    let inner = text.trim_end().strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = vec![String::new()];
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'|').is_some() => push(&mut cells, '|'),
            '|' => cells.push(String::new()),
            other => push(&mut cells, other),
        }
    }
    Some(cells.iter().map(|cell| cell.trim().to_owned()).collect())
}

fn push(cells: &mut [String], c: char) {
    cells.last_mut().expect("BUG: a line has at least one cell").push(c);
}

fn repeated(rows: &[Row]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    rows.iter()
        .filter_map(|row| {
            let first = seen.insert(row.id.as_str(), row.line)?;
            Some(at(row.line, &format!("{} is already on line {first}", row.id)))
        })
        .collect()
}

fn missing_seeds(rows: &[Row]) -> Vec<String> {
    SEEDS
        .into_iter()
        .filter(|seed| rows.iter().all(|row| row.seed != *seed))
        .map(|seed| format!("{PAGE}: seed {seed} has no statements"))
        .collect()
}

fn at(line: usize, problem: &str) -> String {
    format!("{PAGE}:{line}: {problem}")
}

// ---- the verdict ---------------------------------------------------------------------------

/// What is wrong with the promise of one row.
fn judge(row: &Row, tests: &Tests, root: &Path) -> Vec<String> {
    let problems: Vec<String> = match &row.held {
        Held::By(names) => names.iter().filter_map(|name| tests.missing(name)).collect(),
        Held::ExceptedBy(path) if !root.join(path).is_file() => {
            vec![format!("{path} does not exist")]
        }
        Held::NotYet | Held::Excepted | Held::ExceptedBy(_) => Vec::new(),
    };
    problems.iter().map(|problem| at(row.line, &format!("{}: {problem}", row.id))).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    statements: usize,
    held: usize,
    /// Held where everything is there that their tests need; here something is missing.
    vacuous: usize,
    exceptions: usize,
    not_yet: usize,
}

impl Count {
    fn add(&mut self, held: &Held, not_run: &BTreeSet<String>) {
        self.statements += 1;
        *match held {
            Held::By(names) if names.iter().all(|name| not_run.contains(&name.test)) => &mut self.vacuous,
            Held::By(_) => &mut self.held,
            Held::Excepted | Held::ExceptedBy(_) => &mut self.exceptions,
            Held::NotYet => &mut self.not_yet,
        } += 1;
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "statements": self.statements,
            "held": self.held,
            "vacuous": self.vacuous,
            "exceptions": self.exceptions,
            "not_yet": self.not_yet,
        })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { statements, held, vacuous, exceptions, not_yet } = self;
        write!(f, "{statements} statements, {held} held, ")?;
        if *vacuous > 0 {
            write!(f, "{vacuous} vacuous here (something is missing), ")?;
        }
        write!(f, "{exceptions} exceptions, {not_yet} not yet")?;
        Ok(())
    }
}

/// Counts per seed, and over all of them under `total`.
fn count(rows: &[Row], not_run: &BTreeSet<String>) -> BTreeMap<&'static str, Count> {
    let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
    for row in rows {
        counts.entry(row.seed).or_default().add(&row.held, not_run);
        counts.entry("total").or_default().add(&row.held, not_run);
    }
    counts
}

/// The tests that were not run, or not in all of their parts: those that are made for each agent have its name behind
/// their own.
fn not_run_tests(lines: &str) -> BTreeSet<String> {
    let paths = lines.lines().filter_map(|line| line.split('\t').nth(1));
    paths.flat_map(|path| path.rsplit("::").take(2).map(str::to_owned)).collect()
}

fn summary(counts: &BTreeMap<&'static str, Count>) -> String {
    let lines: Vec<String> = counts.iter().map(|(seed, count)| format!("seeds {seed}: {count}")).collect();
    lines.join("\n")
}

fn json(counts: &BTreeMap<&'static str, Count>, problems: &[String]) -> String {
    let counts: serde_json::Map<String, serde_json::Value> =
        counts.iter().map(|(seed, count)| ((*seed).to_owned(), count.json())).collect();
    serde_json::json!({ "seeds": counts, "problems": problems }).to_string()
}

// ---- the sources ---------------------------------------------------------------------------

/// Every test of the workspace, by package.
#[derive(Debug, Default)]
struct Tests {
    packages: BTreeSet<String>,
    live: BTreeSet<TestName>,
    ignored: BTreeSet<TestName>,
}

impl Tests {
    fn collect(root: &Path) -> Result<Self, String> {
        let mut tests = Self::default();
        for directory in SOURCES {
            let directory = root.join(directory);
            if directory.is_dir() {
                tests.walk(&directory, None)?;
            }
        }
        Ok(tests)
    }

    /// Scans a directory; a `Cargo.toml` in it says which package everything below belongs to.
    fn walk(&mut self, directory: &Path, package: Option<&str>) -> Result<(), String> {
        let own = package_name(directory)?;
        let package = own.as_deref().or(package);
        self.packages.extend(own.clone());
        for (path, kind) in entries(directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                self.walk(&path, package)?;
            } else if let (true, true, Some(package)) = (kind.is_file(), name.ends_with(".rs"), package) {
                self.scan(package, &read(&path)?);
            }
        }
        Ok(())
    }

    fn scan(&mut self, package: &str, source: &str) {
        for found in test_functions(source) {
            let name = TestName { package: package.to_owned(), test: found.name };
            if found.ignored { &mut self.ignored } else { &mut self.live }.insert(name);
        }
    }

    /// Why a promised test cannot be counted on, if so.
    fn missing(&self, name: &TestName) -> Option<String> {
        if self.live.contains(name) {
            None
        } else if self.ignored.contains(name) {
            Some(format!("{name} is ignored"))
        } else if self.packages.contains(&name.package) {
            Some(format!("there is no test {name}"))
        } else {
            Some(format!("there is no package {}", name.package))
        }
    }
}

/// The name in the `[package]` table of a directory's manifest, if it has one.
fn package_name(directory: &Path) -> Result<Option<String>, String> {
    let manifest = directory.join("Cargo.toml");
    if !manifest.is_file() {
        return Ok(None);
    }
    let text = read(&manifest)?;
    let name = text
        .lines()
        .skip_while(|line| line.trim() != "[package]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "name"))
        .map(|(_, value)| value.trim().trim_matches('"').to_owned());
    Ok(name)
}

fn entries(directory: &Path) -> Result<Vec<(PathBuf, fs::FileType)>, String> {
    let listed = || -> io::Result<Vec<_>> {
        fs::read_dir(directory)?.map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))).collect()
    };
    listed().map_err(|error| format!("could not list {}: {error}", directory.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("could not read {}: {error}", path.display()))
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    name: String,
    ignored: bool,
}

/// The functions under a test attribute, wherever they are: in modules, in `proptest!` blocks.
fn test_functions(source: &str) -> Vec<Found> {
    let code = blank(source);
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(start) = rest.find("#[") {
        let (attributes, after) = attributes(&rest[start..]);
        if attributes.iter().any(|text| marks_a_test(text))
            && let Some(name) = function_name(after)
        {
            let ignored = attributes.iter().any(|text| text.starts_with("ignore"));
            found.push(Found { name, ignored });
        }
        rest = after;
    }
    found.extend(checks_of_agents(&code).map(|name| Found { name, ignored: false }));
    found
}

/// What is tested once for each real agent: the names in `for_each_agent!(…)` and its like.
fn checks_of_agents(code: &str) -> impl Iterator<Item = String> {
    let after = FOR_EACH_AGENT.into_iter().flat_map(|makes| code.split(makes).skip(1));
    let lists = after.filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',')).map(|name| name.trim().to_owned()).filter(|name| is_name(name))
}

/// `test`, or the attribute of a test runner such as `tokio::test(…)`.
fn marks_a_test(attribute: &str) -> bool {
    let path = attribute.split('(').next().unwrap_or_default().trim();
    path == "test" || path.ends_with("::test")
}

/// The run of attributes that a text begins with, and what comes after it.
fn attributes(code: &str) -> (Vec<&str>, &str) {
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some(inner) = rest.trim_start().strip_prefix("#[") {
        let end = closing(inner);
        found.push(inner[..end].trim());
        rest = inner.get(end + 1..).unwrap_or_default();
    }
    (found, rest)
}

/// Where the bracket that was opened before the text is closed.
fn closing(code: &str) -> usize {
    let mut depth = 1_usize;
    for (index, c) in code.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return index,
            ']' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The name after `fn`, when only words such as `pub` or `async` come before it.
fn function_name(code: &str) -> Option<String> {
    let mut rest = code.trim_start();
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        let (word, after) = rest.split_at(end);
        let after = after.trim_start();
        match word {
            "fn" => {
                let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                return Some(name).filter(|name| !name.is_empty());
            }
            "pub" | "async" | "unsafe" | "const" => rest = after,
            _ => return None,
        }
    }
}

/// The source with comments and literals replaced by spaces.
pub(crate) fn blank(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut index = 0;
    while index < chars.len() {
        match opaque(&chars[index..]) {
            0 => {
                code.push(chars[index]);
                index += 1;
            }
            length => {
                code.push(' ');
                // Lines keep their numbers, so that a problem can name one.
                code.extend(chars[index..index + length].iter().filter(|c| **c == '\n'));
                index += length;
            }
        }
    }
    code
}

/// How long the comment or literal is that the text begins with; 0 if it begins with code.
fn opaque(text: &[char]) -> usize {
    match text {
        ['/', '/', ..] => text.iter().position(|c| *c == '\n').unwrap_or(text.len()),
        ['/', '*', ..] => block_comment(text),
        ['"', ..] => quoted(text, '"'),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(text, '\''),
        ['r', '"' | '#', ..] => raw_string(text),
        _ => 0,
    }
}

fn block_comment(text: &[char]) -> usize {
    let (mut depth, mut index) = (0_usize, 0);
    while index < text.len() {
        match text[index..] {
            ['/', '*', ..] => (depth, index) = (depth + 1, index + 2),
            ['*', '/', ..] => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
        if depth == 0 {
            return index;
        }
    }
    text.len()
}

fn quoted(text: &[char], quote: char) -> usize {
    let mut index = 1;
    while index < text.len() {
        match text[index] {
            '\\' => index += 2,
            c if c == quote => return index + 1,
            _ => index += 1,
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#` and so on; a raw identifier such as `r#fn` is code.
fn raw_string(text: &[char]) -> usize {
    let hashes = text[1..].iter().take_while(|c| **c == '#').count();
    if text.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.resize(1 + hashes, '#');
    let body = 2 + hashes;
    text[body..]
        .windows(end.len())
        .position(|window| window == end)
        .map_or(text.len(), |position| body + position + end.len())
}

#[cfg(test)]
mod tests;
