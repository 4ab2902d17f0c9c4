//! Finding an ordinary repository without git.
//!
//! Starting git to learn where the repository is takes longer than most verbs do. Where the first `.git` on the way up is
//! a directory with nothing unusual about it, the answer is plain. Everything else is for git to answer: linked work
//! trees, submodules, bare repositories, another owner, another file system, settings that move the work tree, and
//! whatever is written in a way that is not understood here.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// An ordinary repository: its git directory is `.git` in the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ordinary {
    /// The canonical root of the work tree.
    pub(super) root: PathBuf,
    pub(super) format: gix_hash::Kind,
}

/// The repository whose work tree contains a directory; `None` if only git can tell.
pub(super) fn ordinary(dir: &Path) -> Option<Ordinary> {
    let dir = dir.canonicalize().ok()?;
    let device = fs::metadata(&dir).ok()?.dev();
    for root in dir.ancestors() {
        // git does not search beyond the file system it starts on.
        let found = fs::symlink_metadata(root).ok().filter(|found| found.dev() == device)?;
        if let Some(git_dir) = look(&root.join(".git"))? {
            return is_own(&found, &git_dir).then(|| at(root)).flatten();
        }
        // It may be a git directory itself.
        if look(&root.join("HEAD"))?.is_some() {
            return None;
        }
    }
    None
}

/// What has this name, if anything; `None` if that cannot be told.
fn look(path: &Path) -> Option<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Some(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}

/// Whether both are directories of whoever asks. Of all others git wants to be told that they are safe.
fn is_own(root: &Metadata, git_dir: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    git_dir.is_dir() && root.uid() == user && git_dir.uid() == user
}

fn at(root: &Path) -> Option<Ordinary> {
    let git_dir = root.join(".git");
    let is_entered = |name: &str| {
        let path = git_dir.join(name);
        path.is_dir() && rustix::fs::access(&path, Access::EXEC_OK).is_ok()
    };
    if !is_entered("objects") || !is_entered("refs") || look(&git_dir.join("commondir"))?.is_some() {
        return None;
    }
    let head =
        look(&git_dir.join("HEAD"))?.filter(Metadata::is_file).map(|_| fs::read(git_dir.join("HEAD")).ok())??;
    let is_head = head.starts_with(b"ref: refs/") || gix_hash::ObjectId::from_hex(head.trim_ascii_end()).is_ok();
    let config = fs::read_to_string(git_dir.join("config")).ok().filter(|_| is_head)?;
    Some(Ordinary { root: root.to_owned(), format: format_of(&config)? })
}

/// The hash function of a repository whose configuration moves nothing elsewhere; `None` if it may.
fn format_of(config: &str) -> Option<gix_hash::Kind> {
    let (mut section, mut version, mut format) = (String::new(), None, None);
    for line in config.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            // Something behind the header, or in quotes that hide its end.
            section = header.strip_suffix(']').filter(|name| !name.contains([']', '\\']))?.to_ascii_lowercase();
            if section.starts_with("include") {
                return None;
            }
            continue;
        }
        // It goes on in the next line, where anything would be a value.
        if line.ends_with('\\') {
            return None;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        match (section.as_str(), key.trim().to_ascii_lowercase().as_str(), value.trim()) {
            ("core", "repositoryformatversion", value @ ("0" | "1")) => version = Some(value),
            ("core", "bare", "false") => {}
            ("core", "repositoryformatversion" | "bare" | "worktree", _) => return None,
            ("extensions", "objectformat", "sha1") => format = Some(gix_hash::Kind::Sha1),
            ("extensions", "objectformat", "sha256") => format = Some(gix_hash::Kind::Sha256),
            // Objects that only a remote has; where things are does not depend on it.
            ("extensions", "partialclone", _) => {}
            ("extensions", ..) => return None,
            _ => {}
        }
    }
    match (version?, format) {
        (_, None) => Some(gix_hash::Kind::Sha1),
        ("1", Some(format)) => Some(format),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn sh(dir: &Path, script: &str) -> Option<String> {
        let mut command = Command::new("sh");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", dir);
        let output = command.current_dir(dir).args(["-ec", script]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// What git says of a place.
    fn told_by_git(dir: &Path) -> Option<(PathBuf, PathBuf, PathBuf, String)> {
        let asked = "git rev-parse --is-bare-repository --is-inside-work-tree --show-toplevel --absolute-git-dir \
                     --path-format=absolute --git-common-dir --show-object-format";
        let told = sh(dir, asked)?;
        let lines: Vec<&str> = told.lines().collect();
        match lines[..] {
            ["false", "true", root, git, common, format] => {
                Some((root.into(), git.into(), common.into(), format.to_owned()))
            }
            _ => None,
        }
    }

    /// Whatever is found here must be what git says.
    fn check(script: &str, place: &str, is_found: bool) {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        sh(&base, &format!("git config --global user.name a; git config --global user.email a@b; {script}")).unwrap();
        let dir = base.join(place);
        let found = ordinary(&dir);
        assert_eq!(found.is_some(), is_found, "{script} at {place:?}: {found:?}");
        if let Some(Ordinary { root, format }) = found {
            let git = root.join(".git");
            assert_eq!(told_by_git(&dir), Some((root, git.clone(), git, format.to_string())), "{script} at {place:?}");
        }
    }

    #[test]
    fn an_ordinary_repository_is_where_git_says() {
        const COMMIT: &str = "git init -q r; cd r; git commit -q --allow-empty -m x;";
        let found = |script: &str, place: &str| check(&format!("{COMMIT} {script}"), place, true);
        found("", "r");
        found("mkdir -p a/b", "r/a/b");
        found("mkdir -p a; ln -s r/a ../link", "link");
        found("ln -s a ../other; mkdir a; ln -s /tmp outside", "r/a");
        found("git checkout -q --detach", "r");
        found("git init -q inner", "r/inner");
        found("mkdir -p inner; git init -q inner/deep", "r/inner");
        found("git config remote.o.url 'a = b [x] # \"'; git config branch.main.merge x", "r");
        found("git config core.repositoryFormatVersion 1; git config extensions.objectFormat sha1", "r");
        found("git config core.repositoryFormatVersion 1; git config extensions.partialClone o", "r");
        found("git worktree add -q ../w 2>&1", "r");
        check("git init -q --object-format=sha256 s", "s", true);
        check("git init -q unborn", "unborn", true);
    }

    #[test]
    fn what_is_not_ordinary_is_left_to_git() {
        const COMMIT: &str = "git init -q r; cd r; git commit -q --allow-empty -m x;";
        let left = |script: &str, place: &str| check(&format!("{COMMIT} {script}"), place, false);
        left("", ".");
        left("", "none");
        left("", "r/.git");
        left("", "r/.git/objects");
        left("git init -q --bare bare", "r/bare");
        left("git init -q --bare bare; mkdir bare/x", "r/bare/x");
        left("git worktree add -q ../w 2>&1", "w");
        left(
            "git init -q ../sub; git -C ../sub commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule --quiet add ../sub sub",
            "r/sub",
        );
        left("mkdir w; git config core.worktree ../w", "r");
        left("git config core.bare true", "r");
        left("printf '[core] bare = true\\n' >> .git/config", "r");
        left("printf '[CORE]\\n\\tBare\\n' >> .git/config", "r");
        left("printf '[core]\\n\\tworktree = \\\\\\n/tmp\\n' >> .git/config", "r");
        left("printf '[x]\\ny = \\\\\\n[z]\\n' >> .git/config", "r");
        left("git config include.path more", "r");
        left("git config includeIf.gitdir:/.path more", "r");
        left("git config core.repositoryFormatVersion 2", "r");
        left("git config --unset core.repositoryFormatVersion", "r");
        left("git config extensions.objectFormat sha256", "r");
        left("git config core.repositoryFormatVersion 1; git config extensions.worktreeConfig true", "r");
        left("git config core.repositoryFormatVersion 1; git config extensions.unknown x", "r");
        left("rm .git/HEAD", "r");
        left("echo nonsense > .git/HEAD", "r");
        left("rm -r .git/refs", "r");
        left("rm .git/config", "r");
        left("mv .git ../g; ln -s ../g .git", "r");
        left("mv .git ../g; echo 'gitdir: ../g' > .git", "r");
        left("mkdir inner inner/.git", "r/inner");
        left("mkdir a; echo x > a/HEAD", "r/a");
    }

    #[test]
    fn a_repository_of_another_user_is_left_to_git() {
        let temp = tempfile::tempdir().unwrap();
        sh(temp.path(), "git init -q r").unwrap();
        let root = temp.path().join("r");
        assert!(ordinary(&root).is_some());
        let found = |path: &Path| fs::symlink_metadata(path).unwrap();
        let (own, other) = (found(&root), found(Path::new("/proc/self/root/proc/1")));
        assert!(is_own(&own, &own) && !is_own(&own, &found(Path::new("/dev/null"))));
        if other.uid() != own.uid() {
            assert!(!is_own(&own, &other) && !is_own(&other, &own));
        }
        // Only root can give a directory away.
        if std::os::unix::fs::chown(&root, Some(12_345), None).is_ok() {
            assert_eq!((ordinary(&root), told_by_git(&root)), (None, None));
        }
    }
}
