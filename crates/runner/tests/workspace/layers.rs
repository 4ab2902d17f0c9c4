//! Layers: what they are made of, when a new base is made, and who may remove them.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use runner::workspace::{History, Stand, Workspaces};

use crate::measure::import;
use crate::world::{World, small, write};

fn world() -> World {
    World::new("sha1", History::Shallow, small)
}

/// Whether a name is hidden in the topmost layer.
fn hides(stand: &Stand, path: &str) -> bool {
    let found = fs::symlink_metadata(stand.lower[0].join(path));
    found.is_ok_and(|found| found.file_type().is_char_device() && found.rdev() == 0)
}

#[test]
fn a_base_is_the_bytes_of_the_tree() {
    let world = world();
    let mut told = Vec::new();
    let (commit, tree) = world.head();
    let stand = world.workspaces.stand(&world.objects, commit, tree, &mut |progress| told.push(progress)).unwrap();
    assert_eq!(stand.lower.len(), 1);
    assert_eq!((told[0].done, told[0].of), (0, 9));
    assert_eq!(told.last().map(|last| (last.done, last.of)), Some((9, 9)));
    let dir = &stand.lower[0];
    assert_eq!(fs::read(dir.join("crlf.txt")).unwrap(), b"one $Id$\ntwo\n");
    assert_eq!(fs::read_link(dir.join("link")).unwrap().to_str(), Some("src/a.txt"));
    assert_ne!(fs::metadata(dir.join("run.sh")).unwrap().mode() & 0o100, 0);
    assert!(!dir.join(".git/objects/info/alternates").exists());
}

#[test]
fn a_large_base_is_used_before_it_is_on_the_disk() {
    let world = World::new("sha1", History::Shallow, |root| import(root, 10_000));
    let stand = world.stand(world.head());
    let layer = stand.lower[0].parent().unwrap().join("layer.json");
    let layer: serde_json::Value = serde_json::from_slice(&fs::read(layer).unwrap()).unwrap();
    assert_eq!((&layer["files"], &layer["synced"]), (&10_000.into(), &false.into()));
}

#[test]
fn a_thin_layer_holds_the_difference_and_nothing_else() {
    let world = world();
    let base = world.stand(world.head());
    fs::remove_dir_all(world.root.join("docs")).unwrap();
    fs::remove_file(world.root.join("link")).unwrap();
    write(&world.root.join("src/b.txt"), "new\n");
    let thin = world.stand(world.commit());
    assert_eq!(thin.lower[1], base.lower[0]);
    assert!(hides(&thin, "docs") && hides(&thin, "link"));
    let names = |dir: &str| {
        let entries = fs::read_dir(thin.lower[0].join(dir)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), [".git", "docs", "link", "src"]);
    assert_eq!(names("src"), ["b.txt"]);
    // Newer than what it replaces, so that build tools see the change even if the commit is an older one.
    let time = |stand: &Stand| fs::metadata(stand.lower[0].join("src/b.txt")).unwrap().modified().unwrap();
    assert!(time(&thin) > time(&base));
}

#[test]
fn a_directory_becomes_a_submodule() {
    let world = world();
    world.stand(world.head());
    let id = world.head().0;
    world.git(&["rm", "-rq", "docs"]);
    world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{id},docs")]);
    world.git(&["commit", "-qm", "submodule"]);
    let thin = world.stand(world.head());
    assert!(hides(&thin, "docs/deep"));
    world.run(&thin, "test -d docs; test -z \"$(ls -A docs)\"; test -z \"$(git status --porcelain)\"");
}

#[test]
fn a_stack_never_grows_too_high() {
    let world = world();
    for round in 0..20 {
        write(&world.root.join("src/a.txt"), format!("round {round}\n"));
        write(&world.root.join(format!("src/new-{round}")), "new\n");
        let stand = world.stand(world.commit());
        assert!(stand.lower.len() <= 8, "{} layers", stand.lower.len());
        let script = format!(
            "test \"$(cat src/a.txt)\" = 'round {round}'; test $(ls src/new-* | wc -l) = {}; \
             test -z \"$(git status --porcelain)\"",
            round + 1
        );
        world.run(&stand, &script);
    }
}

#[test]
fn a_tree_that_has_little_in_common_gets_a_base_of_its_own() {
    let world = world();
    world.stand(world.head());
    for number in 0..5_100 {
        write(&world.root.join(format!("many/{}/{}", number / 100, number)), format!("{number}\n"));
    }
    let stand = world.stand(world.commit());
    assert_eq!(stand.lower.len(), 1);
}

#[test]
fn what_is_in_use_stays() {
    let world = world();
    let base = world.head();
    let held = world.stand(base);
    write(&world.root.join("src/a.txt"), "next\n");
    let next = world.commit();
    drop(world.stand(next));
    write(&world.root.join("src/a.txt"), "third\n");
    let third = world.commit();
    drop(world.stand(third));
    // Keeping the newest keeps what it stands on.
    assert_eq!(world.workspaces.gc(1).unwrap().layers, 0);
    assert_eq!(world.workspaces.gc(0).unwrap().layers, 2);
    assert!(held.lower[0].is_dir());
    assert_eq!(world.stand(base).lower, held.lower);
    drop(held);
    assert_eq!(world.workspaces.gc(0).unwrap().layers, 1);
    let again = world.stand(third);
    assert_eq!(again.lower.len(), 1);
}

#[test]
fn what_a_killed_process_left_is_removed() {
    let world = world();
    let cache = world.root.join(".norma/cache").join(rustix::process::geteuid().as_raw().to_string());
    write(&cache.join("new/files/half"), "half");
    write(&cache.join("trash/1-1/rest"), "rest");
    let stand = world.stand(world.head());
    assert!(!cache.join("new").exists() && !cache.join("trash").exists());
    drop(stand);
    // A layer that was cut short cannot be used, and is made anew.
    let name = fs::read_dir(cache.join("layers")).unwrap().next().unwrap().unwrap().path();
    write(&name.join("layer.json"), "{");
    let stand = world.stand(world.head());
    assert!(stand.lower[0].join("src/a.txt").is_file());
}

#[test]
fn two_at_once_make_one_layer() {
    let world = world();
    let (commit, tree) = world.head();
    let cache = world.root.join(".norma/cache");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let workspaces = Workspaces::new(&cache, History::Shallow, |_| false).unwrap();
                let stand = workspaces.stand(&world.objects, commit, tree, &mut |_| ()).unwrap();
                assert!(stand.lower[0].join("src/a.txt").is_file());
            });
        }
    });
    assert_eq!(world.workspaces.gc(0).unwrap().layers, 1);
}

#[test]
fn a_tree_that_names_a_git_directory_is_refused() {
    let world = world();
    let blob = world.objects.write_blob(b"evil").unwrap();
    let (commit, tree) = world.head();
    let entry = runner::git::Entry { mode: 0o100_644, id: blob };
    for name in ["src/.git/config", "..", ".GIT"] {
        let evil = world.objects.edit(tree, &[(name.into(), Some(entry))]).unwrap();
        assert!(world.workspaces.stand(&world.objects, commit, evil, &mut |_| ()).is_err(), "{name}");
    }
}

/// Changes the base below a thin layer and takes both with other eyes: what a process has looked at once it does not look
/// at again, but a cache elsewhere is another one to it. Returns whether both were used again; in any case they show
/// the trees.
fn is_used_after(damage: impl Fn(&Path)) -> bool {
    let world = world();
    let (first, base) = (world.head(), world.stand(world.head()).lower[0].clone());
    write(&world.root.join("src/b.txt"), "next\n");
    let next = world.commit();
    let made = world.stand(next);
    // What agents do above layers is no change of them.
    world.run(&made, "echo more >> src/a.txt; rm src/b.txt; chmod 600 run.sh; git add -A; git commit -qm own");
    let inodes = |lower: &[PathBuf]| lower.iter().map(|dir| fs::metadata(dir).unwrap().ino()).collect::<Vec<_>>();
    let before = inodes(&made.lower);
    drop(made);
    let (old, new) = (world.root.canonicalize().unwrap().join(".norma/cache"), world.new_dir().join("elsewhere"));
    fs::rename(&old, &new).unwrap();
    damage(&new.join(base.strip_prefix(&old).unwrap()));
    let workspaces = Workspaces::new(&new, History::Shallow, |_| false).unwrap();
    let stand = |(commit, tree)| workspaces.stand(&world.objects, commit, tree, &mut |_| ()).unwrap();
    let (upper, lower) = (stand(next), stand(first));
    let read = |path: &str| upper.lower.iter().find_map(|dir| fs::read_to_string(dir.join(path)).ok());
    assert_eq!(read("src/a.txt").as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(read("src/b.txt").as_deref(), Some("next\n"));
    assert_eq!(read("src/added.txt"), None);
    world.run(&lower, "test -z \"$(git status --porcelain)\"");
    inodes(&upper.lower) == before
}

#[test]
fn a_layer_that_is_not_what_was_made_is_made_anew() {
    assert!(is_used_after(|_| ()));
    assert!(is_used_after(|files| drop(fs::read(files.join("src/a.txt")).unwrap())));
    let changed = |files: &Path| {
        let path = files.join("src/a.txt");
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "one\ntwo\nTHREE\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    assert!(!is_used_after(changed));
    assert!(!is_used_after(|files| fs::remove_file(files.join("src/a.txt")).unwrap()));
    assert!(!is_used_after(|files| fs::write(files.join("src/added.txt"), "").unwrap()));
    assert!(!is_used_after(|files| fs::remove_file(files.join(".git/HEAD")).unwrap()));
}

/// Whoever uses it keeps what they have.
#[test]
fn a_layer_in_use_that_says_nothing_of_itself_makes_way_for_a_new_one() {
    let world = world();
    let held = world.stand(world.head());
    let dir = held.lower[0].parent().unwrap();
    fs::remove_file(dir.join("layer.json")).unwrap();
    let inode = |dir: &Path| fs::metadata(dir).unwrap().ino();
    let before = inode(&held.lower[0]);
    let again = world.stand(world.head());
    assert_ne!(inode(&again.lower[0]), before);
    assert_eq!(fs::read_to_string(again.lower[0].join("src/a.txt")).unwrap(), "one\ntwo\nthree\n");
    let aside = dir.with_file_name(format!("{}.1", dir.file_name().unwrap().to_str().unwrap()));
    assert_eq!(inode(&aside.join(held.lower[0].file_name().unwrap())), before);
}

#[test]
fn a_damaged_layer_in_use_is_set_aside_until_nobody_uses_it() {
    let world = world();
    let first = world.head();
    let made = world.stand(first).lower[0].clone();
    let (old, new) = (world.root.canonicalize().unwrap().join(".norma/cache"), world.new_dir().join("elsewhere"));
    fs::rename(&old, &new).unwrap();
    let open = |path: &Path| Workspaces::new(path, History::Shallow, |_| false).unwrap();
    let stand = |at: &Workspaces| at.stand(&world.objects, first.0, first.1, &mut |_| ()).unwrap();
    let held = stand(&open(&new));
    let inode = fs::metadata(&held.lower[0]).unwrap().ino();
    // Somebody else uses it while it is found to be damaged.
    let moved = world.new_dir().join("again");
    fs::rename(&new, &moved).unwrap();
    fs::write(moved.join(made.strip_prefix(&old).unwrap()).join("src/added.txt"), "").unwrap();
    let workspaces = open(&moved);
    let again = stand(&workspaces);
    assert_ne!(fs::metadata(&again.lower[0]).unwrap().ino(), inode);
    let layers = again.lower[0].parent().unwrap().parent().unwrap();
    assert_eq!(fs::read_dir(layers).unwrap().count(), 2);
    drop(held);
    assert_eq!(workspaces.gc(1).unwrap().layers, 1);
    assert_eq!(fs::read_dir(layers).unwrap().count(), 1);
}
