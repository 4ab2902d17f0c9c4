//! Links in Markdown that lead to a file of this repository lead to one that is there.

use super::Tracked;
use std::path::Path;

pub(crate) fn check(files: &[Tracked], root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = root.join(&file.path).parent().map(Path::to_owned).unwrap_or_default();
        for (line, target) in local_links(&file.text) {
            if !folder.join(target).exists() {
                problems.push(format!("{}:{line}: {target} is not there", file.path));
            }
        }
    }
    problems
}

/// Targets of inline links that are neither addresses nor places on the same page, with their lines.
fn local_links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        fenced ^= text.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for (prose, _) in text.split('`').zip([true, false].into_iter().cycle()).filter(|(_, prose)| *prose) {
            let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
            found.extend(targets.map(|target| (line, target)));
        }
    }
    let is_local = |target: &str| !target.contains("://") && !target.starts_with("mailto:");
    found
        .into_iter()
        .filter(|(_, target)| is_local(target))
        .filter_map(|(line, target)| Some((line, target.split('#').next().filter(|path| !path.is_empty())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_count() {
        let text = "[a](docs/a.md#part) and [b](https://example.org/b), [c](#here)\n`[d](d.md)`\n```\n[e](e.md)\n```\n\
                    ![f](f.png \"title\")\n";
        assert_eq!(local_links(text), [(1, "docs/a.md"), (6, "f.png")]);
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let page = |target: &str| Tracked { path: "xtask/page.md".into(), text: format!("[a]({target})") };
        let root = crate::root();
        assert_eq!(check(&[page("Cargo.toml"), page("../Cargo.lock")], &root), Vec::<String>::new());
        assert_eq!(check(&[page("nowhere.md")], &root), ["xtask/page.md:1: nowhere.md is not there"]);
    }
}
