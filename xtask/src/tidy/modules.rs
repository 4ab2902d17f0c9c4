//! The top-level modules of the runner lie in one order: none uses one that uses it, directly or by way of others. Modules
//! that form a cycle can only be read, tested and changed together, and the compiler has nothing against that. Who uses
//! whom is read from the paths in the code; unit tests may use what they like.

use super::Tracked;
use super::text::without_unit_tests;
use crate::seeds::blank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Whose modules are looked at.
const SOURCES: &str = "crates/runner/src/";

/// Who uses whom, each with the first place where it does.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) fn check(files: &[Tracked]) -> Vec<String> {
    let uses = uses(files);
    cycles(&uses).iter().map(|cycle| described(&uses, cycle)).collect()
}

fn uses(files: &[Tracked]) -> Uses {
    let sources: Vec<(&str, &Tracked)> = files.iter().filter_map(|file| Some((below(file)?, file))).collect();
    let modules: BTreeSet<&str> =
        sources.iter().map(|(path, _)| module_of(path)).filter(|module| !["lib", "main"].contains(module)).collect();
    let lib = sources.iter().find(|(path, _)| *path == "lib.rs").map(|(_, file)| blank(&file.text));
    let exported = exported(lib.as_deref().unwrap_or_default());
    let mut uses = Uses::new();
    for (path, file) in sources.iter().filter(|(path, _)| modules.contains(module_of(path))) {
        if is_unit_test(path, &sources) {
            continue;
        }
        let code = without_unit_tests(&blank(&file.text));
        let of_module = uses.entry(module_of(path).to_owned()).or_default();
        for (at, name) in named_from_root(&code, depth(path)) {
            let used = modules.get(name).copied().or_else(|| exported.get(name).map(String::as_str));
            let Some(used) = used.filter(|used| *used != module_of(path)) else { continue };
            let line = code[..at].matches('\n').count() + 1;
            of_module.entry(used.to_owned()).or_insert_with(|| format!("{}:{line}", file.path));
        }
    }
    uses
}

/// The path of a source file below the sources.
fn below(file: &Tracked) -> Option<&str> {
    file.path.strip_prefix(SOURCES).filter(|path| path.ends_with(".rs"))
}

fn module_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// How many modules a file is away from the root.
fn depth(path: &str) -> usize {
    path.strip_suffix("/mod.rs").unwrap_or(path).split('/').count()
}

/// Whether a file is the unit tests of the module above it.
fn is_unit_test(path: &str, sources: &[(&str, &Tracked)]) -> bool {
    let Some(above) = path.strip_suffix("/tests.rs") else { return false };
    let parents = [format!("{above}.rs"), format!("{above}/mod.rs")];
    let mut parents = sources.iter().filter(|(path, _)| parents.iter().any(|parent| parent == path));
    parents.any(|(_, file)| file.text.contains("#[cfg(test)]\nmod tests;"))
}

/// The names that the crate exports, each with the module that it comes from.
fn exported(lib: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1) {
        let tree = statement.split(';').next().unwrap_or_default();
        let module = tree.split("::").next().unwrap_or_default().trim();
        for part in tree.split(['{', '}', ',']).map(str::trim).filter(|part| !part.ends_with("::")) {
            let name = part.rsplit(" as ").next().and_then(|path| path.rsplit("::").next()).unwrap_or_default();
            exported.insert(name.trim().to_owned(), module.to_owned());
        }
    }
    exported
}

/// Every name that a path from the crate's root begins with, and where the path begins.
fn named_from_root(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let by_parents = "super::".repeat(depth);
    let mut found = Vec::new();
    for root in ["crate::", by_parents.as_str()] {
        for (at, _) in code.match_indices(root) {
            // The end of a longer word or path begins somewhere else.
            if !code[..at].ends_with(|c: char| c == ':' || is_part(c)) {
                found.extend(heads(&code[at + root.len()..]).into_iter().map(|name| (at, name)));
            }
        }
    }
    found.sort_unstable();
    found
}

/// The first name of what follows a root: one, or one for each path of a list in braces.
fn heads(rest: &str) -> Vec<&str> {
    let Some(list) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let mut heads = vec![word(list)];
    let mut open = 1;
    for (at, c) in list.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            ',' if open == 1 => heads.push(word(&list[at + 1..])),
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    heads
}

fn word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Cycles, each by its modules in the order of use, the shortest first. No two share a use, so that one use that goes the
/// wrong way is reported once, however many cycles it closes.
fn cycles(uses: &Uses) -> Vec<Vec<&str>> {
    let mut left: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (module, used) in uses {
        left.extend(used.keys().map(|used| (module.as_str(), used.as_str())));
    }
    let mut cycles = Vec::new();
    while let Some(cycle) = uses.keys().filter_map(|module| back_to(module, &left)).min_by_key(Vec::len) {
        for pair in pairs(&cycle) {
            left.remove(&pair);
        }
        cycles.push(cycle);
    }
    cycles
}

/// The shortest way from a module back to it, if there is one.
fn back_to<'u>(module: &'u str, uses: &BTreeSet<(&'u str, &'u str)>) -> Option<Vec<&'u str>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![module]]);
    while let Some(way) = ways.pop_front() {
        for (_, used) in uses.iter().filter(|(from, _)| Some(from) == way.last()) {
            if *used == module {
                return Some(way);
            }
            if seen.insert(*used) {
                ways.push_back(way.iter().chain([used]).copied().collect());
            }
        }
    }
    None
}

/// The uses that a cycle is made of.
fn pairs<'u>(cycle: &[&'u str]) -> impl Iterator<Item = (&'u str, &'u str)> {
    cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1))
}

fn described(uses: &Uses, cycle: &[&str]) -> String {
    let places: Vec<&str> = pairs(cycle).map(|(module, used)| uses[module][used].as_str()).collect();
    let way = format!("{} → {}", cycle.join(" → "), cycle[0]);
    format!("{SOURCES}: dependency cycle of modules: {way} ({})", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_modules(files: &[(&str, &str)], expected: &[&str]) {
        let tracked =
            |(path, text): &(&str, &str)| Tracked { path: format!("{SOURCES}{path}"), text: (*text).to_owned() };
        assert_eq!(check(&files.iter().map(tracked).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn modules_in_one_order_are_fine() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{Error, Result as Answer};\n"),
            ("a.rs", "//! Not crate::b.\nfn f() { \"crate::c\"; }\n#[cfg(test)]\nmod tests { use crate::c::X; }\n"),
            ("b/mod.rs", "use crate::Error;\n#[cfg(test)]\nmod tests;\n"),
            ("b/tests.rs", "use crate::c;\n"),
            ("c.rs", "use crate::{Answer, b::{a, c}};\nuse std::x::c;\n"),
        ];
        check_modules(&files, &[]);
    }

    #[test]
    fn a_cycle_is_named_with_its_places() {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::inner::{Thing as Other};\n");
        let found = "crates/runner/src/: dependency cycle of modules: a → b → c → a \
                     (crates/runner/src/a/x.rs:2, crates/runner/src/b.rs:3, crates/runner/src/c.rs:1)";
        let b = ("b.rs", "//! Why.\n\nuse crate::{Error, Other};\n");
        let c = ("c.rs", "fn f() { crate::a::g(); }\n");
        check_modules(&[lib, ("a/x.rs", "//! Why.\nuse crate::b::{c, d};\n"), b, c], &[found]);
        check_modules(&[lib, ("a/x.rs", "//! Why.\nuse super::super::b;\n"), b, c], &[found]);
        check_modules(&[lib, ("a/x.rs", "//! Why.\nuse super::b;\n"), b, c], &[]);
    }

    #[test]
    fn a_use_that_goes_the_wrong_way_is_named_once() {
        let found = |modules: [&str; 2]| {
            let [one, other] = modules;
            format!(
                "{SOURCES}: dependency cycle of modules: {one} → {other} → {one} ({SOURCES}{one}.rs:1, {SOURCES}{other}.rs:1)"
            )
        };
        let (b, c) = (("b.rs", "use crate::a;"), ("c.rs", "use super::{a, b};"));
        check_modules(&[("a.rs", "use crate::c;"), b, c], &[&found(["a", "c"])]);
        check_modules(&[("a.rs", "use crate::{b, c};"), b, c], &[&found(["a", "b"]), &found(["a", "c"])]);
    }
}
