//! What a commit of an index would change. The index is compared with a tree by what both of them name, so that no file is
//! opened and no filter runs; nothing is written either: git looks at files again, through their filters, whenever it
//! writes an index, even one that is a copy.

use super::repository::{Repository, parse_id};
use super::tree::{Entry, TreeChange};
use super::{GitError, ObjectId};
use std::path::Path;

/// The command, for its arguments and for what is said about its answers.
const COMMAND: &str = "diff-index";

/// The mode of what is not there.
const ABSENT: u32 = 0;

impl Repository {
    /// How an index differs from a tree, without renames, submodules by their commits whatever the configuration hides.
    pub fn staged(&self, tree: ObjectId, index: &Path) -> Result<Vec<TreeChange>, GitError> {
        let options = ["--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-relative"];
        let command = self.git(COMMAND).index(index).args(&options).arg("--ignore-submodules=none");
        parse(&command.id(tree).run()?)
    }
}

/// `:old-mode new-mode old-id new-id status NUL path NUL`, again and again.
fn parse(answer: &[u8]) -> Result<Vec<TreeChange>, GitError> {
    let mut parts = answer.split(|byte| *byte == 0);
    let mut changes = Vec::new();
    while let Some(facts) = parts.next().filter(|facts| !facts.is_empty()) {
        let path = parts.next().filter(|path| !path.is_empty()).ok_or_else(|| unreadable(facts))?;
        changes.push(change(facts, path)?);
    }
    Ok(changes)
}

fn change(facts: &[u8], path: &[u8]) -> Result<TreeChange, GitError> {
    let text = std::str::from_utf8(facts).ok().and_then(|text| text.strip_prefix(':'));
    let words: Vec<&str> = text.unwrap_or_default().split(' ').collect();
    let [old_mode, new_mode, old, new, status] = words[..] else { return Err(unreadable(facts)) };
    // `U` is a conflict that nobody has resolved: there is no one thing that would be committed.
    if !matches!(status, "A" | "D" | "M" | "T") {
        return Err(unreadable(facts));
    }
    let entry = |mode: &str, id: &str| {
        let mode = u32::from_str_radix(mode, 8).map_err(|_| unreadable(facts))?;
        let id = parse_id(COMMAND, id.as_bytes())?;
        Ok((mode != ABSENT).then_some(Entry { mode, id }))
    };
    Ok(TreeChange { path: path.to_vec(), old: entry(old_mode, old)?, new: entry(new_mode, new)? })
}

fn unreadable(facts: &[u8]) -> GitError {
    let detail = format!("{:?} is no change that could be committed", String::from_utf8_lossy(facts));
    GitError::Answer { command: COMMAND.to_owned(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_committed_or_understood_is_refused() {
        let (one, none) = ("1".repeat(40), "0".repeat(40));
        let changed = format!(":100644 100755 {one} {one} M\0a b\n\0:000000 120000 {none} {one} A\0c\0");
        let changes = parse(changed.as_bytes()).unwrap();
        assert_eq!(changes.len(), 2);
        assert_eq!((changes[0].path.as_slice(), changes[1].old), (&b"a b\n"[..], None));
        assert_eq!(changes[1].new.map(|entry| entry.mode), Some(0o120_000));
        assert_eq!(parse(b"").unwrap(), []);
        for bad in [
            format!(":100644 000000 {one} {none} U\0a\0"),
            format!(":100644 100644 {one} {one} R100\0a\0b\0"),
            format!(":100644 100644 {one} {one} M\0"),
            format!("100644 100644 {one} {one} M\0a\0"),
            format!(":100644 100644 {one} 12 M\0a\0"),
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
