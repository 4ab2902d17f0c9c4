//! References that have files of their own, read without git.
//!
//! Starting git takes far longer than reading a file of forty bytes, and a run that lands asks half a dozen times for HEAD and
//! its branch. A file that is as git writes it says what git would say. Everything else is for git to answer: references
//! that are packed or in tables, symbolic ones, and whatever is not there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use gix_object::{Find, Kind};

use super::ObjectId;
use super::repository::{Head, Repository};

/// Where norma keeps references of its own in the user's repository: the bases of runs.
pub(crate) const BASES: &str = "refs/norma/";

/// Below these a name is the place of a file in the git directory that all work trees share.
const SHARED: [&str; 2] = ["refs/heads/", BASES];

/// A file of a reference holds little more than an id or a name.
const BYTES_MAX: u64 = 4096;

/// What the name of a file ends with that is to become a reference.
const LOCK: &str = ".lock";

/// More packed references than this are for git to search.
const PACKED_BYTES_MAX: u64 = 1 << 20;

/// What the file HEAD says.
pub(super) enum HeadFile {
    /// It is on this branch.
    On(String),
    /// It is detached, at this commit.
    At(ObjectId),
}

impl Repository {
    /// What HEAD names; `None` where only git can tell.
    pub(super) fn head_in_files(&self) -> Option<Head> {
        let (branch, commit) = match self.head_file()? {
            HeadFile::On(branch) => {
                let commit = self.ref_in_file(&branch)?;
                (Some(branch), commit)
            }
            HeadFile::At(commit) => (None, commit),
        };
        let objects = gix_odb::at(self.objects_dir(), self.format).ok()?;
        let mut bytes = Vec::new();
        objects.try_find(&commit, &mut bytes).ok()?.filter(|found| found.kind == Kind::Commit)?;
        let first = bytes.split(|byte| *byte == b'\n').next()?;
        let tree = ObjectId::from_hex(first.strip_prefix(b"tree ")?).ok()?;
        Some(Head { commit, tree, branch })
    }

    /// What the file HEAD says; `None` where only git can tell.
    pub(super) fn head_file(&self) -> Option<HeadFile> {
        let text = text_of(&self.git_dir.join("HEAD"))?;
        match text.strip_prefix("ref: ") {
            Some(name) => {
                let name = name.strip_suffix('\n').filter(|name| name.starts_with("refs/heads/") && is_plain(name))?;
                // A branch that stands for another one.
                let is_link = text_of(&self.common_dir.join(name)).is_some_and(|text| text.starts_with("ref:"));
                (!is_link).then(|| HeadFile::On(name.to_owned()))
            }
            None => id_in(&text, self.format).map(HeadFile::At),
        }
    }

    /// The references below a prefix that ends with `/`, and where each is; `None` where only git can tell.
    pub(super) fn refs_in_files(&self, prefix: &str) -> Option<Vec<(String, ObjectId)>> {
        let mut found = BTreeMap::new();
        let mut due = vec![prefix.trim_end_matches('/').to_owned()];
        while let Some(name) = due.pop() {
            let path = self.common_dir.join(&name);
            let kind = match fs::symlink_metadata(&path) {
                Ok(found) => found.file_type(),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(_) => return None,
            };
            if !kind.is_dir() {
                found.insert(name.clone(), self.ref_in_file(&name)?);
                continue;
            }
            for entry in fs::read_dir(&path).ok()? {
                let below = format!("{name}/{}", entry.ok()?.file_name().to_str()?);
                // Not one yet.
                if !below.ends_with(LOCK) {
                    due.push(below);
                }
            }
        }
        // Afterwards, as git does it: what is packed meanwhile has been seen, or is there.
        let mut all = self.packed(prefix)?;
        all.extend(found);
        Some(all.into_iter().collect())
    }

    /// Makes a reference of norma's own, if it is in files and there is none of that name; `None` where only git can tell.
    pub(super) fn make_in_file(&self, full: &str, id: ObjectId) -> Option<()> {
        let is_own = full.starts_with(BASES) && is_plain(full) && self.packed(full)?.is_empty();
        let path = Some(self.common_dir.join(full)).filter(|_| is_own && self.head_file().is_some())?;
        fs::create_dir_all(path.parent()?).ok()?;
        // As git does it: whoever has this file may change the reference, and it becomes the new one.
        let lock = self.common_dir.join(format!("{full}{LOCK}"));
        let mut file = fs::File::create_new(&lock).ok()?;
        let made = fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
            && file.write_all(format!("{id}\n").as_bytes()).and_then(|()| file.sync_all()).is_ok()
            && fs::rename(&lock, &path).is_ok();
        if !made {
            let _ = fs::remove_file(&lock);
        }
        made.then_some(())
    }

    /// The packed references whose names begin like this; `None` if they are in tables, or very many.
    fn packed(&self, prefix: &str) -> Option<BTreeMap<String, ObjectId>> {
        if self.common_dir.join("reftable").exists() {
            return None;
        }
        let path = self.common_dir.join("packed-refs");
        let text = match fs::metadata(&path) {
            Ok(found) if found.len() > PACKED_BYTES_MAX => return None,
            Ok(_) => fs::read(&path).ok()?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(_) => return None,
        };
        let mut found = BTreeMap::new();
        // A line that begins with `^` says what the tag before it is of, and one with `#` how the file is written.
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"^")) {
            let Some(at) = line.iter().position(|byte| *byte == b' ').filter(|_| !line.starts_with(b"#")) else {
                continue;
            };
            if line[at + 1..].starts_with(prefix.as_bytes()) {
                let name = str::from_utf8(&line[at + 1..]).ok()?;
                found.insert(name.to_owned(), ObjectId::from_hex(&line[..at]).ok()?);
            }
        }
        Some(found)
    }

    /// The value of a reference by its full name, if it has a file; `None` where only git can tell.
    pub(super) fn ref_in_file(&self, full: &str) -> Option<ObjectId> {
        ref_in(&self.common_dir, full, self.format)
    }
}

/// The same in any git directory.
pub(super) fn ref_in(git_dir: &Path, full: &str, format: gix_hash::Kind) -> Option<ObjectId> {
    if !SHARED.iter().any(|prefix| full.starts_with(prefix)) || !is_plain(full) {
        return None;
    }
    id_in(&text_of(&git_dir.join(full))?, format)
}

/// Whether every part of a name is one that a file can have.
fn is_plain(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(char::is_whitespace);
    name.split('/').all(is_plain)
}

fn id_in(text: &str, format: gix_hash::Kind) -> Option<ObjectId> {
    ObjectId::from_hex(text.strip_suffix('\n')?.as_bytes()).ok().filter(|id| id.kind() == format)
}

/// What a small file holds that is no link.
fn text_of(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_file() && found.len() <= BYTES_MAX { fs::read_to_string(path).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::UserEnvironment;
    use std::process::Command;

    fn sh(dir: &Path, script: &str) -> String {
        let mut command = Command::new("sh");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", dir);
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            command.env(name, "a");
        }
        let output = command.current_dir(dir).args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// HEAD is found without git, or not; where it is, it is what git says.
    fn check(script: &str, place: &str, is_found: bool) {
        let temp = tempfile::tempdir().unwrap();
        sh(temp.path(), &format!("git init -q -b main r; cd r; git commit -q --allow-empty -m x; {script}"));
        let dir = temp.path().join(place);
        let environment = UserEnvironment { path: std::env::var_os("PATH"), ..UserEnvironment::default() };
        let user = Repository::discover(&dir, environment).unwrap();
        let found = user.head_in_files();
        assert_eq!(found.is_some(), is_found, "{script}: {found:?}");
        let Ok(told) = user.head() else { return };
        let git = sh(&dir, "git rev-parse HEAD HEAD^{tree}; git symbolic-ref -q HEAD || echo detached");
        let branch = told.branch.clone().unwrap_or_else(|| "detached".to_owned());
        assert_eq!(format!("{}\n{}\n{branch}\n", told.commit, told.tree), git, "{script}");
        assert_eq!(user.head_branch().unwrap(), told.branch, "{script}");
        assert_eq!(user.read_ref("refs/heads/main").unwrap().map(|id| format!("{id}\n")), {
            let told = sh(&dir, "git rev-parse -q --verify refs/heads/main || true");
            (!told.is_empty()).then_some(told)
        });
    }

    #[test]
    fn a_head_in_files_is_what_git_says() {
        check("", "r", true);
        check("git checkout -q -b a/b.c", "r", true);
        check("git checkout -q --detach", "r", true);
        check("git worktree add -q ../w 2>&1; cd ../w; git commit -q --allow-empty -m y", "w", true);
        check("git gc -q; git commit -q --allow-empty -m y", "r", true);
        check("git init -q -b main --object-format=sha256 ../s; cd ../s; git commit -q --allow-empty -m x", "s", true);
    }

    #[test]
    fn what_has_no_file_is_left_to_git() {
        check("git pack-refs --all", "r", false);
        check("git symbolic-ref refs/heads/other refs/heads/main; git symbolic-ref HEAD refs/heads/other", "r", false);
        check("git checkout -q --orphan unborn", "r", false);
        check("rm .git/HEAD; ln -s refs/heads/main .git/HEAD", "r", false);
    }

    #[test]
    fn norma_s_own_references_are_made_and_listed_as_git_does() {
        let temp = tempfile::tempdir().unwrap();
        sh(
            temp.path(),
            "git init -q -b main r; cd r; git commit -q --allow-empty -m x; git commit -q --allow-empty -m y",
        );
        let dir = temp.path().join("r");
        let environment = UserEnvironment { path: std::env::var_os("PATH"), ..UserEnvironment::default() };
        let user = Repository::discover(&dir, environment).unwrap();
        let head = user.head().unwrap().commit;
        let names = || {
            let listed = user.refs_in_files(BASES).unwrap();
            let shown: Vec<String> = listed.iter().map(|(name, id)| format!("{id} {name}")).collect();
            let told = sh(&dir, "git for-each-ref --format='%(objectname) %(refname)' refs/norma/");
            assert_eq!(shown, told.lines().collect::<Vec<_>>());
            shown.len()
        };
        assert_eq!(names(), 0);
        assert_eq!(user.make_in_file("refs/norma/a/base", head), Some(()));
        assert_eq!(user.make_in_file("refs/norma/a/base", head), None, "it is there");
        sh(&dir, "git pack-refs --all; git update-ref refs/norma/b/base HEAD~1; touch .git/refs/norma/b/more.lock");
        assert_eq!(user.make_in_file("refs/norma/a/base", head), None, "it is packed");
        assert_eq!(names(), 2);
        // What has a file counts, whatever is packed.
        sh(&dir, "git update-ref refs/norma/a/base HEAD~1; git update-ref refs/norma/c/d HEAD");
        assert_eq!(names(), 3);
        sh(&dir, "git fsck --strict");
        for name in ["refs/heads/x", "refs/norma/../x", "HEAD"] {
            assert_eq!(user.make_in_file(name, head), None, "{name}");
        }
        sh(&dir, "git pack-refs --all; mkdir .git/reftable");
        assert!(user.refs_in_files(BASES).is_none() && user.make_in_file("refs/norma/z/base", head).is_none());
    }

    #[test]
    fn a_name_that_leads_elsewhere_has_no_file() {
        let temp = tempfile::tempdir().unwrap();
        sh(temp.path(), "mkdir -p refs/heads; printf '%040d\\n' 7 | tee refs/heads/x other > refs/short");
        let read = |name: &str| ref_in(temp.path(), name, gix_hash::Kind::Sha1).is_some();
        assert!(read("refs/heads/x"));
        for name in
            ["refs/heads/../../other", "refs/heads/.", "refs/heads//x", "other", "refs/short", "refs/heads/none"]
        {
            assert!(!read(name), "{name}");
        }
        assert_eq!(ref_in(temp.path(), "refs/heads/x", gix_hash::Kind::Sha256), None);
    }
}
