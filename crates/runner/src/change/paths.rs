//! What objects tell of each path that differs between two trees: enough for the scope gate, which reads no objects.

use crate::Result;
use crate::git::{Entry, MODE_GITLINK, MODE_SYMLINK, ObjectId, Objects, TreeChange};
use contract::RepoPath;
use contract::path::fold;
use run::gate::scope::ChangedPath;
use run::gate::{secret, text};
use run::redact::Redactor;
use std::collections::{BTreeMap, BTreeSet};

/// Of more new names, the names of their directories are put in order first.
const SCANS_MAX: usize = 16;

/// How two trees differ.
pub(crate) fn between(objects: &Objects, old: ObjectId, new: ObjectId) -> Result<Vec<ChangedPath>> {
    changes(objects, Some((old, new)), &objects.diff(old, new)?)
}

/// The same for a difference that was looked at already; without the trees where there are none, as for what somebody is
/// about to commit.
pub(crate) fn changes(
    objects: &Objects,
    trees: Option<(ObjectId, ObjectId)>,
    changes: &[TreeChange],
) -> Result<Vec<ChangedPath>> {
    let mut seen = changes.iter().map(|change| changed(objects, change)).collect::<Result<Vec<_>>>()?;
    if let Some((old, new)) = trees {
        tell_known(objects, old, changes, &mut seen)?;
        tell_twins(objects, new, &mut seen)?;
        tell_links(objects, new, changes, &mut seen)?;
    }
    Ok(seen)
}

fn changed(objects: &Objects, change: &TreeChange) -> Result<ChangedPath> {
    let mut seen = ChangedPath {
        path: change.path.clone(),
        old_mode: change.old.map(|entry| entry.mode),
        new_mode: change.new.map(|entry| entry.mode),
        ..ChangedPath::default()
    };
    let Some(new) = change.new.filter(|entry| entry.mode != MODE_GITLINK) else { return Ok(seen) };
    if objects.size(new.id)? > secret::BYTES_MAX && !objects.looks_binary(new.id)? {
        return Ok(seen);
    }
    let bytes = objects.read_blob(new.id)?;
    let text = text::utf16(&bytes);
    seen.binary = crate::git::is_binary(&bytes);
    seen.excused = seen.binary && (text.is_some() || change.old.is_some_and(|old| old.id == new.id));
    if seen.binary && text.is_none() || !is_file(&new) || change.old.is_some_and(|old| old.id == new.id) {
        return Ok(seen);
    }
    let readable = text.map_or(bytes, String::into_bytes);
    if readable.len() as u64 > secret::BYTES_MAX {
        return Ok(seen);
    }
    let old = || -> Result<Vec<u8>> {
        let Some(old) = change.old.filter(is_file) else { return Ok(Vec::new()) };
        let bytes = objects.read_blob(old.id)?;
        Ok(text::utf16(&bytes).map_or(bytes, String::into_bytes))
    };
    seen.secrets = secret::added(&readable, old)?;
    seen.older_secrets = secret::added_by(&Redactor::older_patterns(), &readable, old)?;
    seen.reordered = text::reordered(&readable, old)?;
    Ok(seen)
}

pub(super) fn is_file(entry: &Entry) -> bool {
    entry.mode & 0o170_000 == 0o100_000
}

/// Binary files whose bytes the tree before has under any name bring nothing new. The tree is read only where a change
/// itself does not tell where they come from.
fn tell_known(objects: &Objects, old: ObjectId, changes: &[TreeChange], seen: &mut [ChangedPath]) -> Result<()> {
    let moved: BTreeSet<ObjectId> = changes.iter().filter_map(|change| Some(change.old?.id)).collect();
    let mut open = BTreeMap::new();
    for (at, (change, seen)) in changes.iter().zip(&mut *seen).enumerate() {
        let Some(new) = change.new.filter(|_| seen.binary && !seen.excused) else { continue };
        seen.excused = moved.contains(&new.id);
        if !seen.excused {
            open.entry(new.id).or_insert_with(Vec::new).push(at);
        }
    }
    if !open.is_empty() {
        objects.walk(old, &mut |_, _, id| {
            for at in open.remove(&id).into_iter().flatten() {
                seen[at].excused = true;
            }
        })?;
    }
    Ok(())
}

/// New names for which the tree after has another that some file system takes for the same.
fn tell_twins(objects: &Objects, new: ObjectId, seen: &mut [ChangedPath]) -> Result<()> {
    let is_added = |change: &&mut ChangedPath| change.old_mode.is_none() && change.new_mode.is_some();
    let few = seen.iter_mut().filter(is_added).nth(SCANS_MAX).is_none();
    let mut directories = Directories { objects, tree: new, few, names: BTreeMap::new() };
    for change in seen.iter_mut().filter(is_added) {
        let Ok(text) = std::str::from_utf8(&change.path) else { continue };
        let ends = text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
        for end in ends {
            let (directory, name) = text[..end].rsplit_once('/').unwrap_or(("", &text[..end]));
            if let Some(other) = directories.twin(directory, name)? {
                change.twin = Some(if directory.is_empty() { other } else { format!("{directory}/{other}") });
                break;
            }
        }
    }
    Ok(())
}

/// The names in directories of a tree, by the form in which a forgiving file system compares them.
struct Directories<'o> {
    objects: &'o Objects,
    tree: ObjectId,
    /// Whether so few names are asked for that the directory is gone through for each.
    few: bool,
    names: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl Directories<'_> {
    /// Another name in the directory that is the same where case or Unicode form does not count.
    fn twin(&mut self, directory: &str, name: &str) -> Result<Option<String>> {
        if self.few {
            let lines = self.objects.names_in(self.tree, directory.as_bytes())?;
            let mut names = lines.iter().filter_map(|line| std::str::from_utf8(&line.name).ok());
            return Ok(names.find(|found| *found != name && is_same(found, name)).map(str::to_owned));
        }
        if !self.names.contains_key(directory) {
            let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for line in self.objects.names_in(self.tree, directory.as_bytes())?.iter() {
                if let Ok(found) = std::str::from_utf8(&line.name) {
                    names.entry(fold(found)).or_default().push(found.to_owned());
                }
            }
            self.names.insert(directory.to_owned(), names);
        }
        let same = self.names[directory].get(&fold(name));
        Ok(same.and_then(|same| same.iter().find(|found| *found != name)).cloned())
    }
}

/// Whether two names are the same where case or Unicode form does not count.
fn is_same(left: &str, right: &str) -> bool {
    match left.is_ascii() && right.is_ascii() {
        true => left.eq_ignore_ascii_case(right),
        false => fold(left) == fold(right),
    }
}

/// Where links lead that the change makes, as far as that is a place in the tree that no other link is on the way to.
fn tell_links(objects: &Objects, new: ObjectId, changes: &[TreeChange], seen: &mut [ChangedPath]) -> Result<()> {
    for (change, seen) in changes.iter().zip(seen) {
        let Some(link) = change.new.filter(|entry| entry.mode == MODE_SYMLINK) else { continue };
        let Some(target) = led_to(&change.path, &objects.read_blob(link.id)?) else { continue };
        let ends = target.match_indices('/').map(|(at, _)| at).chain([target.len()]);
        let mut is_link = false;
        for end in ends {
            let entry = objects.tree_entry(new, &target.as_bytes()[..end])?;
            is_link |= entry.is_some_and(|(mode, _)| mode == MODE_SYMLINK);
        }
        seen.leads_to = (!is_link).then_some(target);
    }
    Ok(())
}

/// The path that a link's text means; none if it leaves the repository or goes up again on its way.
fn led_to(link: &[u8], text: &[u8]) -> Option<String> {
    let (link, mut text) = (std::str::from_utf8(link).ok()?, std::str::from_utf8(text).ok()?);
    let mut directory: Vec<&str> = link.split('/').collect();
    directory.pop();
    while let Some(rest) = text.strip_prefix("../") {
        directory.pop()?;
        text = rest;
    }
    let target = directory.into_iter().chain([text]).collect::<Vec<_>>().join("/");
    if text.starts_with('/') {
        return None;
    }
    RepoPath::parse(&target).ok().map(|path| path.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_means_a_path_of_the_repository_or_nothing() {
        let check = |link: &str, text: &str, expected: Option<&str>| {
            assert_eq!(led_to(link.as_bytes(), text.as_bytes()).as_deref(), expected, "{link} -> {text}");
        };
        check("a", "b", Some("b"));
        check("d/a", "b/c", Some("d/b/c"));
        check("d/e/a", "../b", Some("d/b"));
        check("d/a", "./b", Some("d/b"));
        check("d/a", "../../b", None);
        check("a", "/etc/passwd", None);
        check("d/a", "b/../../../x", None);
        check("d/a", "../.git/config", None);
        check("a", "..", None);
    }
}
