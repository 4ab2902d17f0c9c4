//! How many lines of which files a patch adds and removes, as `git diff --stat` would say.

/// How many files are listed; the rest is counted.
const FILES_MAX: usize = 10;

/// One file of a patch.
#[derive(Debug, Default, PartialEq, Eq)]
struct File {
    path: String,
    added: u64,
    removed: u64,
    binary: bool,
}

/// A line for all of it, and one for each of the first files; nothing if the patch is empty.
pub(crate) fn diffstat(patch: &[u8]) -> Option<String> {
    let files = files(patch);
    if files.is_empty() {
        return None;
    }
    let (added, removed) = files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
    let count = if files.len() == 1 { "1 file".to_owned() } else { format!("{} files", files.len()) };
    let shown: Vec<&File> = files.iter().take(FILES_MAX).collect();
    let width = shown.iter().map(|file| file.path.chars().count()).max().unwrap_or_default();
    let mut text = format!("{count} changed, +{added} −{removed}\n");
    for file in shown {
        let lines = if file.binary { "binary".to_owned() } else { format!("+{} −{}", file.added, file.removed) };
        text.push_str(&format!("  {:<width$}  {lines}\n", file.path));
    }
    if files.len() > FILES_MAX {
        text.push_str(&format!("  … and {} more\n", files.len() - FILES_MAX));
    }
    Some(text)
}

fn files(patch: &[u8]) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    // Lines of a hunk are counted by its head: what they say could look like anything.
    let (mut old, mut new) = (0_u64, 0_u64);
    for line in patch.split(|byte| *byte == b'\n') {
        if old > 0 || new > 0 {
            let Some(file) = files.last_mut() else { return files };
            match line.first() {
                Some(b'+') => (new, file.added) = (new.saturating_sub(1), file.added + 1),
                Some(b'-') => (old, file.removed) = (old.saturating_sub(1), file.removed + 1),
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            continue;
        }
        let text = String::from_utf8_lossy(line);
        if let Some(names) = text.strip_prefix("diff --git ") {
            files.push(File { path: path_of(names), ..File::default() });
        } else if let Some(file) = files.last_mut() {
            if let Some(counts) = text.strip_prefix("@@ -") {
                (old, new) = counts_of(counts);
            } else if text.starts_with("Binary files ") || text == "GIT binary patch" {
                file.binary = true;
            }
        }
    }
    files
}

/// The path after the change: `a/x b/x` is the same twice, unless it was moved.
fn path_of(names: &str) -> String {
    let name = names.rsplit_once(" b/").map_or(names, |(_, name)| name);
    let name = names.rsplit_once(" \"b/").map_or(name, |(_, quoted)| quoted.trim_end_matches('"'));
    crate::text::safe(name)
}

/// `1,3 +1,4 @@ …`: how many lines there are on either side.
fn counts_of(counts: &str) -> (u64, u64) {
    let mut sides = counts.split(' ');
    let mut count = || {
        let side = sides.next().unwrap_or_default();
        side.split_once(',').map_or(1, |(_, count)| count.parse().unwrap_or_default())
    };
    (count(), count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_hunks_and_not_by_how_they_look() {
        let patch = "diff --git a/src/a b.txt b/src/a b.txt\nindex 1..2 100644\n--- a/src/a b.txt\n+++ b/src/a b.txt\n\
                     @@ -1,3 +1,3 @@ x\n one\n--- two\n+++ TWO\n three\n\\ No newline at end of file\n\
                     diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+diff --git a/x b/x\n+2\n\
                     diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n\
                     diff --git a/old b/moved\nsimilarity index 100%\nrename from old\nrename to moved\n";
        assert_eq!(
            diffstat(patch.as_bytes()).unwrap(),
            "4 files changed, +3 −1\n  src/a b.txt  +1 −1\n  new          +2 −0\n  p.png        binary\n  moved        +0 −0\n"
        );
        assert_eq!(diffstat(b""), None);
    }

    #[test]
    fn only_the_first_files_are_listed() {
        let patch: String = (0..12).map(|n| format!("diff --git a/f{n} b/f{n}\n@@ -0,0 +1 @@\n+x\n")).collect();
        let text = diffstat(patch.as_bytes()).unwrap();
        assert!(text.starts_with("12 files changed, +12 −0\n") && text.ends_with("  … and 2 more\n"), "{text}");
        assert_eq!(text.lines().count(), 12);
    }
}
