//! The map of the code in ARCHITECTURE.md is true: every file and folder that it names is there, and every module of
//! every crate is on it. A map with holes is worse than none, since nobody looks any further.

use super::Tracked;
use std::collections::{BTreeMap, BTreeSet};

/// Where the map is.
const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Where things are";

/// What a crate has besides its modules.
const ROOTS: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// Says what is wrong with the map.
pub(super) fn check(files: &[Tracked]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE} is missing")];
    };
    let named = named(&page.text);
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut problems = Vec::new();
    for (root, names) in &named {
        let is_there = |name: &&String| !paths.iter().any(|path| is_named(path, root, name));
        problems.extend(names.iter().filter(is_there).map(|name| format!("{PAGE}: there is no {root}/{name}")));
    }
    for (root, modules) in modules(&paths) {
        let on_map = named.get(&root).cloned().unwrap_or_default();
        let is_missing = |module: &&String| !on_map.iter().any(|name| stem(name) == module.as_str());
        problems.extend(modules.iter().filter(is_missing).map(|it| format!("{PAGE}: {root}/{it} is not on the map")));
    }
    problems
}

/// What the map names, by the crate's source folder.
fn named(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let block = page.split(HEADING).nth(1).and_then(|rest| rest.split("```").nth(1)).unwrap_or_default();
    let (mut named, mut root) = (BTreeMap::new(), String::new());
    for line in block.lines() {
        let mut words = line.split_whitespace();
        if line.starts_with("crates/") {
            root = words.next().unwrap_or_default().to_owned();
        }
        let is_path = |word: &&str| word.ends_with(".rs") || word.ends_with('/') || word.ends_with(".json");
        let paths = words.map(|word| word.trim_end_matches([',', ';', ':'])).filter(is_path).map(str::to_owned);
        named.entry(root.clone()).or_insert_with(BTreeSet::new).extend(paths);
    }
    named.remove("");
    named
}

/// Whether a path is what a name on the map means.
fn is_named(path: &str, root: &str, name: &str) -> bool {
    let Some(rest) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) else { return false };
    match name.strip_suffix("*.rs") {
        Some(folder) => rest.starts_with(folder) && rest.ends_with(".rs"),
        None => rest == name || name.ends_with('/') && rest.starts_with(name),
    }
}

/// The modules of each crate: the files and folders right below its source folder.
fn modules(paths: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in paths {
        let mut parts = path.split('/');
        if let (Some("crates"), Some(name), Some("src"), Some(first)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
            && !ROOTS.contains(&first)
            && path.ends_with(".rs")
        {
            found.entry(format!("crates/{name}/src")).or_default().insert(stem(first).to_owned());
        }
    }
    found
}

/// The module that a name on the map is about.
fn stem(name: &str) -> &str {
    let first = name.split('/').next().unwrap_or(name);
    first.strip_suffix(".rs").unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(map: &str, paths: &[&str]) -> Vec<String> {
        let page = Tracked { path: PAGE.to_owned(), text: format!("# A\n{HEADING}\n```\n{map}\n```\n") };
        let files = paths.iter().map(|path| Tracked { path: (*path).to_owned(), text: String::new() });
        check(&files.chain([page]).collect::<Vec<_>>())
    }

    const TREE: [&str; 4] =
        ["crates/a/src/lib.rs", "crates/a/src/one.rs", "crates/a/src/one/part.rs", "crates/a/src/two/mod.rs"];

    #[test]
    fn a_map_that_names_what_is_there_and_all_of_it_is_true() {
        let map = "crates/a/src   one.rs one/part.rs  the first,\n               two/           and the second";
        assert_eq!(problems(map, &TREE), [""; 0]);
    }

    #[test]
    fn what_is_gone_and_what_is_not_on_it_is_told() {
        let map = "crates/a/src   one/*.rs\n               three.rs       gone";
        let expected = [
            "ARCHITECTURE.md: there is no crates/a/src/three.rs",
            "ARCHITECTURE.md: crates/a/src/two is not on the map",
        ];
        assert_eq!(problems(map, &TREE), expected);
    }
}
