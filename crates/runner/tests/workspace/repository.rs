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
