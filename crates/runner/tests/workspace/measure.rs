//! How long things take. The figures are in `docs/workspaces.md`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use runner::workspace::{CaptureRules, History, PlainWorkspace};

use crate::world::{World, captured, write};

/// Measures; see docs/workspaces.md. Run with `--release -- --ignored --nocapture measure`.
#[test]
#[ignore = "takes minutes"]
fn measure() {
    for count in [1_000, 10_000, 100_000] {
        let world = World::new("sha1", History::Shallow, |root| import(root, count));
        let timed = |what: &str, act: &mut dyn FnMut()| {
            let begin = Instant::now();
            act();
            eprintln!("{count:>7} {what:<32} {:>9.2} ms", begin.elapsed().as_secs_f64() * 1e3);
        };
        let head = world.head();
        timed("pin base", &mut || drop(world.stand(head)));
        for _ in 0..3 {
            timed("warm stand", &mut || drop(world.stand(head)));
        }
        let mut heads = vec![head];
        for round in 0..5 {
            for number in 0..10 {
                let path = world.root.join(format!("packages/p0/source/d{number}/file_3.txt"));
                write(&path, format!("round {round}\n"));
            }
            heads.push(world.commit());
            let next = heads[heads.len() - 1];
            timed("thin layer, ten files", &mut || drop(world.stand(next)));
        }
        timed("warm stand, six layers", &mut || drop(world.stand(heads[5])));
        let stand = world.stand(heads[5]);
        let edit = "for i in 0 1 2 3 4 5 6 7 8 9; do echo x >> packages/p0/source/d$i/file_7.txt; done";
        if let Some((_, upper)) = world.run(&stand, edit) {
            for _ in 0..3 {
                timed("capture, ten files", &mut || {
                    let found = captured(&world, stand.tree, &upper, &CaptureRules::default());
                    assert_eq!(found.changes.len(), 10);
                });
            }
        }
        let mut rounds: Vec<f64> = Vec::new();
        for _ in 0..9 {
            let begin = Instant::now();
            let stand = world.stand(heads[5]);
            let Some((_, upper)) = world.run(&stand, edit) else { break };
            captured(&world, stand.tree, &upper, &CaptureRules::default());
            fs::remove_dir_all(&upper.dir).unwrap();
            rounds.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        rounds.sort_by(f64::total_cmp);
        if let Some(middle) = rounds.get(rounds.len() / 2) {
            eprintln!("{count:>7} warm cycle, with unshare and mount {middle:>6.2} ms");
        }
        let begin = "t() { a=$(date +%s%N); \"$@\" >/dev/null; b=$(date +%s%N); echo $1 $2 $(( (b-a)/1000 )) us; }\n";
        let script = format!("{begin}t git status; t git status; t git diff; t git commit -qm x --allow-empty");
        if let Some((text, _)) = world.run(&stand, &script) {
            eprintln!("{text}");
        }
        drop(stand);
        timed("plain checkout", &mut || {
            let dir = world.new_dir().join("tree");
            drop(PlainWorkspace::create(&world.objects, &dir, head.0, head.1).unwrap());
        });
        timed("gc", &mut || assert!(!world.workspaces.gc(0).unwrap().busy));
    }
}

/// A commit with this many files, as one pack.
pub(crate) fn import(root: &Path, count: usize) {
    let mut stream =
        String::from("commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 1\nx\n");
    for number in 0..count {
        let text = format!("{number} {}\n", "some text that is not very long ".repeat(10 + number % 170));
        let name = format!("packages/p{}/source/d{}/file_{}.txt", number / 1000, number / 50 % 20, number % 50);
        stream += &format!("M 100644 inline {name}\ndata {}\n{text}\n", text.len());
    }
    let file = root.join("../stream");
    write(&file, stream);
    let mut import = Command::new("git");
    let import = import.args(["fast-import", "--quiet", "--depth=0"]).current_dir(root);
    assert!(import.stdin(fs::File::open(file).unwrap()).status().unwrap().success());
    assert!(Command::new("git").args(["reset", "-q", "--hard"]).current_dir(root).status().unwrap().success());
}
