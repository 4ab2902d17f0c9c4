//! A user's repository, norma's beside it, and scripts that play the agent: once in an overlay, once in a checkout.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use runner::git::{ObjectId, Objects, Repository, UserEnvironment};
use runner::workspace::{CaptureRules, Captured, History, PlainWorkspace, Stand, Workspaces, capture};

pub(crate) struct World {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) root: PathBuf,
    user: Repository,
    pub(crate) objects: Objects,
    pub(crate) workspaces: Workspaces,
}

/// What a script left.
pub(crate) struct Upper {
    handle: fs::File,
    /// The directory beside the upper one.
    pub(crate) dir: PathBuf,
}

fn is_secret(name: &str) -> bool {
    name.starts_with(".env")
}

fn clean_git(temp: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", temp.join("home"));
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_AUTHOR_DATE", "1700000000 +0000");
    command.env("GIT_COMMITTER_DATE", "1700000000 +0000");
    command
}

pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

impl World {
    /// A repository whose first commit `fill` makes.
    pub(crate) fn new(format: &str, history: History, fill: impl FnOnce(&Path)) -> World {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("user");
        write(
            &temp.path().join("home/.gitconfig"),
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
        );
        fs::create_dir(&root).unwrap();
        let init = clean_git(temp.path()).current_dir(&root).args(["init", "-q", "--object-format", format]).status();
        assert!(init.unwrap().success());
        fill(&root);
        let path = std::env::var_os("PATH");
        let environment = UserEnvironment { path, home: Some(temp.path().join("home").into()), ..Default::default() };
        let user = Repository::discover(&root, environment).unwrap();
        let objects = Objects::open_or_create(&root.join(".norma/git"), &user).unwrap();
        let workspaces = Workspaces::new(&root.join(".norma/cache"), history, is_secret).unwrap();
        let world = World { temp, root, user, objects, workspaces };
        world.git(&["add", "-A", "-f", "--", ".", ":!.norma"]);
        world.git(&["commit", "-qm", "base", "--allow-empty"]);
        world
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = clean_git(self.temp.path()).current_dir(&self.root).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "git {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    pub(crate) fn commit(&self) -> (ObjectId, ObjectId) {
        self.git(&["add", "-A", "-f", "--", ".", ":!.norma"]);
        self.git(&["commit", "-qm", "next", "--allow-empty"]);
        self.head()
    }

    pub(crate) fn head(&self) -> (ObjectId, ObjectId) {
        let head = self.user.head().unwrap();
        (head.commit, head.tree)
    }

    pub(crate) fn stand(&self, (commit, tree): (ObjectId, ObjectId)) -> Stand {
        self.workspaces.stand(&self.objects, commit, tree, &mut |_| ()).unwrap()
    }

    /// Runs a script in an overlay on the stand; returns what it wrote and where its upper directory is.
    pub(crate) fn run(&self, stand: &Stand, script: &str) -> Option<(String, Upper)> {
        let dir = self.new_dir();
        for part in ["upper", "work", "merged"] {
            fs::create_dir(dir.join(part)).unwrap();
        }
        // Before the script can take the permission away, as the sandbox does.
        let upper = Upper { handle: fs::File::open(dir.join("upper")).unwrap(), dir: dir.clone() };
        let lower: Vec<&str> = stand.lower.iter().map(|path| path.to_str().unwrap()).collect();
        let mount = format!(
            "mount -t overlay overlay -o userxattr,volatile,lowerdir={},upperdir=upper,workdir=work merged || exit 99\n\
             cd merged || exit 99\nset -e\n{script}",
            lower.join(":")
        );
        let output =
            script_command("unshare", &dir).current_dir(&dir).args(["-Urm", "sh", "-c", &mount]).output().unwrap();
        let problems = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(99) || problems.contains("unshare failed") {
            not_run::because(format_args!("no overlay in a user namespace here: {problems}"));
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{script}: {} {text}{problems}", output.status);
        Some((text, upper))
    }

    pub(crate) fn new_dir(&self) -> PathBuf {
        tempfile::tempdir_in(self.temp.path()).unwrap().keep()
    }

    /// Runs a script in an overlay and in a checkout; both must give the same. `None` if there is no overlay.
    pub(crate) fn both_ways(&self, script: &str, rules: &CaptureRules) -> Option<Captured> {
        let (commit, tree) = self.head();
        let stand = self.stand((commit, tree));
        let plain = self.plain(script, rules);
        let (_, upper) = self.run(&stand, script)?;
        let found = captured(self, tree, &upper, rules);
        assert_eq!(found, plain, "left: overlay, right: checkout, after: {script}");
        Some(found)
    }

    fn plain(&self, script: &str, rules: &CaptureRules) -> Captured {
        let (commit, tree) = self.head();
        let dir = self.new_dir();
        let mut plain = PlainWorkspace::create(&self.objects, &dir.join("tree"), commit, tree).unwrap();
        let mut command = script_command("sh", &dir);
        let output = command.current_dir(dir.join("tree")).args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        let found = plain.capture(&self.objects, rules).unwrap();
        assert_eq!(plain.capture(&self.objects, rules).unwrap(), found, "a second look gives the same");
        found
    }
}

/// A program with nothing of the user's environment but the path.
pub(crate) fn script_command(program: &str, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    command
}

/// Captures an upper directory.
pub(crate) fn captured(world: &World, tree: ObjectId, upper: &Upper, rules: &CaptureRules) -> Captured {
    capture(&world.objects, tree, upper.handle.as_fd(), rules).unwrap()
}

pub(crate) fn small(root: &Path) {
    write(&root.join("src/a.txt"), "one\ntwo\nthree\n");
    write(&root.join("src/b.txt"), "b\n");
    write(&root.join("docs/deep/c.txt"), "c\n");
    write(&root.join("docs/deep/.env.local"), "KEY=1\n");
    write(&root.join("run.sh"), "#!/bin/sh\n");
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/a.txt", root.join("link")).unwrap();
    write(&root.join("crlf.txt"), "one $Id$\ntwo\n");
    write(&root.join(".gitattributes"), "*.txt text eol=crlf ident\n");
    write(&root.join(".gitignore"), "*.log\n.norma/\ntarget/\n");
}
