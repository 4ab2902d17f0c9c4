//! The agent's own repository: git must find it clean, sound and usable through every kind of layer.

use std::fs;

use runner::workspace::History;

use crate::world::{World, small, write};

/// Of what is covered there is only a name, so git is not asked to look into every object.
const SOUND: &str = "test -z \"$(git status --porcelain --untracked-files=no)\" || { git status; exit 1; }\n\
     git diff --exit-code; git fsck --connectivity-only 2>&1; git log --format=%s; git rev-parse HEAD\n";

fn check_git(format: &str, history: History) {
    let world = World::new(format, history, small);
    let base = world.stand(world.head());
    assert_eq!(base.secrets, [b"docs/deep/.env.local".to_vec()]);
    let Some((text, _)) = world.run(&base, SOUND) else { return };
    assert!(text.contains("base\n"), "{text}");
    write(&world.root.join("src/a.txt"), "changed\n");
    write(&world.root.join("src/.env"), "KEY=2\n");
    fs::remove_dir_all(world.root.join("docs")).unwrap();
    write(&world.root.join("docs"), "now a file\n");
    fs::remove_file(world.root.join("src/b.txt")).unwrap();
    write(&world.root.join("src/b.txt/below"), "now a directory\n");
    fs::remove_file(world.root.join("link")).unwrap();
    let next = world.commit();
    let thin = world.stand(next);
    assert_eq!(thin.lower.len(), 2);
    assert_eq!(thin.secrets, [b"src/.env".to_vec()]);
    let script = format!(
        "{SOUND} cat src/a.txt docs src/b.txt/below; test ! -e link; test ! -L link\n\
         echo more >> src/a.txt; git add -A; git commit -qm own; git fsck --connectivity-only; git log --format=%s; git diff HEAD~1 --stat"
    );
    let (text, _) = world.run(&thin, &script).unwrap();
    assert!(text.contains("changed\nnow a file\nnow a directory\n"), "{text}");
    assert_eq!(text.contains("base\n"), history == History::Full, "{text}");
    // The files of a later tree, the commit of an earlier one.
    let between = world.stand((base.commit, next.1));
    let (text, _) =
        world.run(&between, "git status --porcelain; git diff --cached --stat; git fsck --connectivity-only").unwrap();
    assert!(text.contains("M  src/a.txt\n") && text.contains("D  link\n"), "{text}");
}

#[test]
fn git_finds_a_clean_and_sound_repository() {
    check_git("sha1", History::Shallow);
    check_git("sha256", History::Shallow);
    check_git("sha1", History::Full);
}

/// A thin layer adds two files and no more to what git looks for its objects in; both are as git would have them.
fn check_pack(format: &str) {
    let world = World::new(format, History::Shallow, small);
    world.stand(world.head());
    // Longer than what one byte of an entry's header can say.
    write(&world.root.join("src/long.txt"), "a line of many\n".repeat(10_000));
    write(&world.root.join("src/empty.txt"), "");
    let thin = world.stand(world.commit());
    let objects = thin.lower[0].join(".git/objects");
    let names = |dir: &std::path::Path| {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&objects), ["pack".to_owned()].into());
    let files = names(&objects.join("pack"));
    assert_eq!(files.len(), 2, "{files:?}");
    let index = files.iter().find(|name| name.ends_with(".idx")).unwrap();
    let index = objects.join("pack").join(index).to_str().unwrap().to_owned();
    let listed = world.git(&["verify-pack", "-v", &format!("--object-format={format}"), &index]);
    // A commit, two trees and two files, none as a difference.
    assert_eq!(listed.lines().filter(|line| line.contains(" blob ")).count(), 2, "{listed}");
    assert!(listed.contains("non delta: 5 objects\n") && listed.ends_with(".pack: ok\n"), "{listed}");
    world.run(&thin, "git fsck --connectivity-only; git cat-file blob HEAD:src/long.txt | cmp - src/long.txt");
}

#[test]
fn what_a_thin_layer_adds_to_git_is_one_pack() {
    check_pack("sha1");
    check_pack("sha256");
}
