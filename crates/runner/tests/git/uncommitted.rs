//! What is not committed, as norma tells it and as git does: the two must agree on every state of a checkout, whether
//! norma looked for itself or asked.

use super::{World, environment, git_in, write};
use runner::git::{Land, Objects, Repository};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// States of a checkout, as what a user typed to get there. `cd` is at the root of [`World`]; `g` is git.
const STATES: &[(&str, &str)] = &[
    ("nothing", ""),
    ("the same size", "printf 'one\ntwo\nTHREE\n' > src/a.txt"),
    ("another size", "echo more >> src/a.txt"),
    ("the same size and time", "printf 'p1ain\n' > plain; touch -d 2001-01-01 plain"),
    ("emptied", ": > plain"),
    ("emptied, with its time", ": > plain; touch -d 2001-01-01 plain"),
    ("touched", "touch plain src/b.txt"),
    ("executable", "chmod +x plain"),
    ("executable, told not to look", "g config core.fileMode false; chmod +x plain"),
    ("replaced by a copy", "cp plain x; mv x plain"),
    ("deleted", "rm src/a.txt"),
    ("a whole directory deleted", "rm -r docs"),
    ("all deleted", "rm -r src docs crlf.txt end.txt plain .gitignore"),
    ("new at the root", "echo x > new"),
    ("new beside tracked ones", "echo x > src/new; echo y > docs/deep/new"),
    ("a new directory", "mkdir -p fresh/er; echo x > fresh/er/x; echo y > fresh/y"),
    ("a new directory below", "mkdir -p src/fresh; echo x > src/fresh/x"),
    ("the last tracked one deleted, another new", "rm docs/deep/c.txt; echo x > docs/deep/d.txt"),
    ("an empty directory", "mkdir -p empty src/empty/er"),
    ("ignored", "echo x > a.log; echo x > src/b.log"),
    ("a directory with ignored files only", "mkdir logs src/logs; echo x > logs/a.log; echo x > src/logs/a.log"),
    ("a directory with ignored files and others", "mkdir -p logs; echo x > logs/a.log; echo y > logs/b"),
    ("an ignored directory", "echo target/ >> .gitignore; g commit -qam i; mkdir target; echo x > target/x"),
    (
        "tracked in an ignored directory",
        "mkdir t; echo x > t/x; g add t; echo t/ >> .gitignore; g add .gitignore; g commit -qm i; echo y > t/y; echo z >> t/x",
    ),
    ("rules of a directory", "echo '*.o' > src/.gitignore; echo x > src/x.o; echo x > x.o"),
    ("rules taken back", "echo '!*.log' > src/.gitignore; echo x > src/x.log; echo x > x.log"),
    ("rules of the repository", "echo secret > .git/info/exclude; echo x > secret; echo x > src/secret"),
    (
        "rules of the user",
        "echo mine > ../rules; g config core.excludesFile \"$PWD/../rules\"; echo x > mine; echo x > yours",
    ),
    ("rules edited", "echo >> .gitignore; echo x > x.log"),
    ("a repository in it", "g init -q inner; echo x > inner/x; g init -q src/inner; g init -q hollow"),
    ("a repository over tracked files", "g init -q src; echo x > src/new"),
    ("a link in place of a file", "rm plain; ln -s end.txt plain"),
    ("a directory in place of a file", "rm plain; mkdir plain; echo x > plain/x"),
    ("an empty directory in place of a file", "rm plain; mkdir plain"),
    ("a file in place of a directory", "rm -r src; echo x > src"),
    ("a link in place of a directory", "mv src elsewhere; ln -s elsewhere src"),
    ("a link, and another target", "ln -s plain link; g add link; g commit -qm l; ln -sf crlf.txt link"),
    ("a link, left alone", "ln -s nowhere link; g add link; g commit -qm l"),
    ("a pipe", "mkfifo pipe src/pipe"),
    ("a pipe in place of a file", "rm plain; mkfifo plain"),
    (
        "odd names",
        "for n in '*' 'a b' '-n' ':(top)x' '\\' '\"' 'ü' '.x' '[a]'; do echo x > \"$n\"; echo y > \"src/$n\"; done; printf x > \"$(printf 'a\\nb')\"",
    ),
    (
        "odd names, tracked and edited",
        "for n in '*' 'a b' ':(top)x' '?'; do echo x > \"$n\"; done; g add -A; g commit -qm o; for n in '*' ':(top)x'; do echo y > \"$n\"; done",
    ),
    (
        "names that begin alike",
        "mkdir a a-b; echo x > a/x; echo x > a-b/x; echo x > a.c; g add -A; g commit -qm a; echo y > a-b/x; echo n > a.d; mkdir a0; echo x > a0/x",
    ),
    ("added", "echo x > new; g add new"),
    ("added and edited", "echo x > new; g add new; echo y > new"),
    ("added and deleted", "echo x > new; g add new; rm new"),
    ("staged", "echo x >> plain; g add plain"),
    ("staged and taken back in the file only", "cp plain ../p; echo x >> plain; g add plain; cp ../p plain"),
    ("no more tracked", "g rm -q --cached plain"),
    ("removed", "g rm -q src/a.txt"),
    ("a staged directory", "mkdir -p n/m; echo x > n/m/x; g add n"),
    ("renamed", "g mv src/b.txt moved"),
    ("a directory renamed", "g mv src source"),
    ("to be added", "echo x > new; g add -N new"),
    ("assumed unchanged", "g update-index --assume-unchanged plain; echo x >> plain"),
    ("left out of the checkout", "g update-index --skip-worktree plain; rm plain"),
    ("sparse", "g sparse-checkout set --no-sparse-index src 2>&1; echo x >> src/a.txt"),
    ("sparse index", "g sparse-checkout set --sparse-index src 2>&1; echo x > src/new"),
    ("split index", "g update-index --split-index; echo x >> plain; echo y > new"),
    ("paths in short", "g update-index --index-version 4; echo x >> plain; echo y > new"),
    ("known untracked files", "g update-index --untracked-cache; echo x >> plain; echo y > new"),
    (
        "a conflict",
        "g checkout -qb o; echo o > plain; g commit -qam o; g checkout -q main; echo m > plain; g commit -qam m; g merge -q o 2>&1 || true; echo x > new",
    ),
    (
        "a conflict resolved",
        "g checkout -qb o; echo o > plain; g commit -qam o; g checkout -q main; echo m > plain; g commit -qam m; g merge -q o 2>&1 || true; echo r > plain; g add plain; g commit -qm r",
    ),
    (
        "a submodule",
        "g init -q ../sub; g -C ../sub commit -q --allow-empty -m s; g -c protocol.file.allow=always submodule --quiet add ../sub sub; g commit -qm s; echo x >> plain",
    ),
    ("line endings converted", "g config core.autocrlf true; touch crlf.txt plain"),
    ("line endings of an attribute", "echo '* text' > .gitattributes; touch crlf.txt"),
    ("a filter", "g config filter.up.clean 'tr a-z A-Z'; echo '*.txt filter=up' > .gitattributes; touch src/a.txt"),
    ("detached", "g checkout -q --detach; echo x > new"),
    ("packed references", "g pack-refs --all; echo x > new"),
    ("HEAD taken back", "echo x >> plain; g commit -qam two; g reset -q --soft HEAD~1"),
    ("HEAD taken back with the index", "echo x >> plain; g commit -qam two; g reset -q HEAD~1"),
    ("a branch with slashes", "g checkout -qb a/b; echo x > new"),
    ("a tree without its index", "rm .git/index"),
    ("an empty index", "g rm -rq --cached ."),
    (
        "files of norma, tracked",
        "mkdir -p .norma; echo x > .norma/config; g add -f .norma/config; g commit -qm n; echo y > .norma/config; rm plain",
    ),
    ("case does not count", "g config core.ignoreCase true; mv plain PLAIN"),
    ("many new ones", "for i in $(seq 300); do echo x > src/n$i; done"),
    (
        "many edited ones",
        "for i in $(seq 300); do echo x > src/n$i; done; g add -A; g commit -qm m; for i in $(seq 300); do echo y > src/n$i; done",
    ),
    (
        "an index after a landing",
        "g update-index --refresh -q; g ls-files > ../l; echo x > src/z; g add src/z; g commit -qm z; g rm -q --cached src/z; g add src/z; echo y > new",
    ),
];

/// What git says when it is asked about everything.
fn told_by_git(world: &World) -> Vec<String> {
    let told = git_in(
        world.temp.path(),
        &world.root,
        &[
            "--no-optional-locks",
            "-c",
            "filter.up.clean=",
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--ignore-submodules=all",
            "--untracked-files=normal",
        ],
    );
    told.split('\0').filter(|it| !it.is_empty() && !it[3..].starts_with(".norma")).map(str::to_owned).collect()
}

fn told_by_norma(user: &Repository, objects: &Objects) -> Vec<String> {
    let dirty = user.dirty(objects).unwrap();
    let line = |status: [u8; 2], path: &[u8]| [&status, &b" "[..], path].concat();
    dirty.iter().map(|it| String::from_utf8(line(it.status, &it.path)).unwrap()).collect()
}

fn sh(world: &World, script: &str) {
    let output = Command::new("sh")
        .env("HOME", world.temp.path().join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(&world.root)
        .args(["-ec", &format!("g() {{ git \"$@\"; }}\n{script}")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes all files older than the index that knows them, as they are some seconds after a checkout.
fn settle(world: &World) {
    sh(world, "g ls-files -z | xargs -0 touch -hd 2001-01-01; g update-index -q --refresh");
}

#[test]
fn it_is_what_git_says_in_every_state() {
    let check = |world: &World, name: &str, script: &str| {
        sh(world, script);
        assert_eq!(told_by_norma(&world.user, &world.objects), told_by_git(world), "{name}");
    };
    for (name, script) in STATES {
        let world = World::new();
        settle(&world);
        check(&world, name, script);
        let young = World::with_format("sha256");
        check(&young, &format!("{name}, a moment after the checkout"), script);
    }
}

/// The user's repository seen with a git that writes down what it is asked.
fn watched(world: &World) -> (Repository, impl Fn() -> Vec<String>) {
    let (programs, log) = (world.temp.path().join("programs"), world.temp.path().join("asked"));
    let git = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
    let git = String::from_utf8(git).unwrap();
    let script =
        format!("#!/bin/sh\nprintf '%s ' \"$@\" >> '{0}'; echo >> '{0}'\nexec {1} \"$@\"\n", log.display(), git.trim());
    write(&programs.join("git"), script);
    fs::set_permissions(programs.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut environment = environment(world.temp.path());
    let path = environment.path.take().unwrap();
    environment.path = Some([programs.as_os_str(), ":".as_ref(), &path].into_iter().collect());
    let user = Repository::discover(&world.root, environment).unwrap();
    let asked = move || {
        let lines = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        let is_asked =
            |line: &&str| ["status", "update-index", "diff-files", "ls-files"].iter().any(|it| line.contains(it));
        lines.lines().filter(is_asked).map(str::to_owned).collect()
    };
    (user, asked)
}

#[test]
fn git_is_asked_about_doubtful_paths_only() {
    let world = World::new();
    settle(&world);
    let (user, asked) = watched(&world);
    let about = |script: &str| {
        sh(&world, script);
        asked();
        let found = told_by_norma(&user, &world.objects);
        assert_eq!(found, told_by_git(&world), "{script}");
        let short = |line: String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let first = words
                .iter()
                .position(|word| word.ends_with("-files") || word.starts_with("update-") || *word == "status");
            let paths = words.iter().position(|word| *word == "--").map_or(&[][..], |at| &words[at + 1..]);
            [&[words[first.unwrap()]], paths].concat().join(" ")
        };
        asked().into_iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(about("mkdir -p .norma/x"), [""; 0], "nothing was changed");
    assert_eq!(about("touch plain"), ["update-index"]);
    assert_eq!(about("touch -d 2002-01-01 plain; g update-index -q --refresh; echo x > src/new"), ["ls-files src/new"]);
    assert_eq!(about("rm src/new; echo x > plain; rm src/a.txt"), ["update-index", "diff-files"]);
    assert_eq!(about("g add plain"), ["status"], "what is staged is asked of everything");
    // A commit has git know the trees of its index, a landing has it know all but those that it touched.
    assert_eq!(about("g commit -qm staged; g checkout -q .; touch -d 2003-01-01 plain src/a.txt"), ["update-index"]);
    assert_eq!(about("g update-index -q --refresh"), [""; 0]);
    let base = world.base().0;
    let patch = "diff --git a/docs/n b/docs/n\nnew file mode 100644\n--- /dev/null\n+++ b/docs/n\n@@ -0,0 +1 @@\n+n\n";
    let new = world.change(patch);
    assert!(matches!(world.land(base, new), Land::Done), "it lands");
    assert_eq!(about(""), ["update-index"], "it is as young as the index");
    assert!(Path::new(&world.root).join("docs/n").exists());
}
