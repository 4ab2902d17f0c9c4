//! Whatever an agent does, the captured tree is the one git itself would make of the same files.

use std::fs;

use proptest::prelude::*;
use runner::workspace::{CaptureRules, History};

use crate::world::{World, captured, write};

/// One thing an agent does; paths are few, so that they collide.
#[derive(Debug, Clone)]
enum Edit {
    Write(usize, u8),
    Remove(usize),
    MakeDirectory(usize),
    Link(usize, usize),
    Executable(usize, bool),
    Move(usize, usize),
}

const PATHS: [&str; 10] = ["a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "n", "n/m", "n/m/o"];

fn edit() -> impl Strategy<Value = Edit> {
    let path = || 0..PATHS.len();
    prop_oneof![
        (path(), 0..4u8).prop_map(|(path, content)| Edit::Write(path, content)),
        path().prop_map(Edit::Remove),
        path().prop_map(Edit::MakeDirectory),
        (path(), path()).prop_map(|(path, target)| Edit::Link(path, target)),
        (path(), any::<bool>()).prop_map(|(path, on)| Edit::Executable(path, on)),
        (path(), path()).prop_map(|(from, to)| Edit::Move(from, to)),
    ]
}

/// As a script; what cannot be done is not done.
fn script(edits: &[Edit]) -> String {
    let lines = edits.iter().map(|edit| match edit {
        Edit::Write(path, content) => format!("{{ printf %s {content} > {}; }} 2>/dev/null || true", PATHS[*path]),
        Edit::Remove(path) => format!("rm -rf {} 2>/dev/null || true", PATHS[*path]),
        Edit::MakeDirectory(path) => format!("mkdir -p {} 2>/dev/null || true", PATHS[*path]),
        Edit::Link(path, target) => format!("ln -sfn {} {} 2>/dev/null || true", PATHS[*target], PATHS[*path]),
        Edit::Executable(path, on) => {
            let path = PATHS[*path];
            format!("if test -f {path}; then chmod {}x {path}; fi", if *on { '+' } else { '-' })
        }
        Edit::Move(from, to) => format!("mv -T {} {} 2>/dev/null || true", PATHS[*from], PATHS[*to]),
    });
    lines.collect::<Vec<_>>().join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_captured_tree_is_what_git_would_write(edits in prop::collection::vec(edit(), 1..12)) {
        let world = World::new("sha1", History::Shallow, |root| {
            for path in ["a", "d/x", "d/e/z"] {
                write(&root.join(path), "0");
            }
        });
        let script = script(&edits);
        let Some(found) = world.both_ways(&script, &CaptureRules::default()) else { return Ok(()) };
        // What git makes of it, with an index of its own outside.
        let (_, tree) = world.head();
        let stand = world.stand(world.head());
        let own = "export GIT_INDEX_FILE=../index; git read-tree HEAD; git add -A -f .; git write-tree > ../written";
        let (_, upper) = world.run(&stand, &format!("{script}\n{own}")).unwrap();
        let written = fs::read_to_string(upper.dir.join("written")).unwrap();
        prop_assert_eq!(found.tree.to_string(), written.trim());
        prop_assert_eq!(&captured(&world, tree, &upper, &CaptureRules::default()).tree, &found.tree);
        prop_assert_eq!(world.objects.diff(tree, found.tree).unwrap(), found.changes);
    }
}
