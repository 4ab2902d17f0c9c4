//! What an agent does to files, and what norma makes of it: in an overlay and in a checkout alike.

use std::fs;

use runner::git::TreeChange;
use runner::workspace::{AutoCrlf, CaptureRules, Captured, History, OddKind, PlainWorkspace};

use crate::world::{World, script_command, small, write};

fn world() -> World {
    World::new("sha1", History::Shallow, small)
}

fn rules() -> CaptureRules {
    CaptureRules { state_directory: Some(b".norma".to_vec()), ..CaptureRules::default() }
}

/// `A`, `D`, `M` or `T` and the path, as git would say it, with the new mode.
fn shown(change: &TreeChange) -> String {
    let path = String::from_utf8_lossy(&change.path).escape_debug().to_string();
    match (change.old, change.new) {
        (None, Some(new)) => format!("A {path} {:o}", new.mode),
        (Some(_), None) => format!("D {path}"),
        (Some(old), Some(new)) if old.mode != new.mode => format!("T {path} {:o}", new.mode),
        _ => format!("M {path}"),
    }
}

/// Changes, then what is ignored, then what is odd.
fn told(found: &Captured) -> Vec<String> {
    let text = |path: &[u8]| String::from_utf8_lossy(path).escape_debug().to_string();
    let mut told: Vec<String> = found.changes.iter().map(shown).collect();
    told.extend(found.ignored.iter().map(|file| format!("ignored {} {}", text(&file.path), file.size)));
    told.extend(found.odd.iter().map(|odd| format!("odd {} {:?}", text(&odd.path), odd.kind)));
    told
}

fn check_in(world: &World, script: &str, expected: &[&str]) {
    if let Some(found) = world.both_ways(script, &rules()) {
        assert_eq!(told(&found), expected, "after: {script}");
    }
}

fn check(script: &str, expected: &[&str]) {
    check_in(&world(), script, expected);
}

#[test]
fn what_is_merely_copied_up_is_no_change() {
    check("touch src/a.txt run.sh; chmod 600 src/b.txt; ln src/b.txt /dev/null 2>/dev/null || true", &[]);
    check("exec 3<>src/a.txt; cat src/a.txt > t; cat t > src/a.txt; rm t; touch -h link; mkdir empty", &[]);
    check("cp src/a.txt x; rm src/a.txt; mv x src/a.txt; chmod 700 run.sh", &[]);
}

#[test]
fn edits_additions_and_deletions() {
    check(
        "echo more >> src/a.txt; rm src/b.txt; mkdir -p new/dir; echo n > new/dir/file; rm link",
        &["D link", "A new/dir/file 100644", "M src/a.txt", "D src/b.txt"],
    );
    check("rm -rf docs", &["D docs/deep/.env.local", "D docs/deep/c.txt"]);
    check(
        "rm -rf src/* docs; rm run.sh link crlf.txt .gitattributes .gitignore",
        &[
            "D .gitattributes",
            "D .gitignore",
            "D crlf.txt",
            "D docs/deep/.env.local",
            "D docs/deep/c.txt",
            "D link",
            "D run.sh",
            "D src/a.txt",
            "D src/b.txt",
        ],
    );
    // Hard links are two files.
    check("echo h > one; ln one two", &["A one 100644", "A two 100644"]);
}

#[test]
fn a_directory_removed_and_made_again_hides_what_it_had() {
    check(
        "rm -rf docs; mkdir -p docs/deep; echo d > docs/deep/new",
        &["D docs/deep/.env.local", "D docs/deep/c.txt", "A docs/deep/new 100644"],
    );
    check("rm -rf docs; mkdir docs", &["D docs/deep/.env.local", "D docs/deep/c.txt"]);
    check("cp -r docs /dev/shm/ws.$$; rm -rf docs; mv /dev/shm/ws.$$ docs", &[]);
}

#[test]
fn a_directory_is_moved_by_copying() {
    check(
        "mv docs moved",
        &["D docs/deep/.env.local", "D docs/deep/c.txt", "A moved/deep/.env.local 100644", "A moved/deep/c.txt 100644"],
    );
}

#[test]
fn kinds_and_modes_change() {
    check("rm src/a.txt; mkdir src/a.txt; echo b > src/a.txt/below", &["D src/a.txt", "A src/a.txt/below 100644"]);
    check("rm -rf docs; echo f > docs", &["A docs 100644", "D docs/deep/.env.local", "D docs/deep/c.txt"]);
    check("chmod +x src/a.txt; chmod -x run.sh", &["T run.sh 100644", "T src/a.txt 100755"]);
    check("rm src/a.txt; ln -s ../docs/deep/c.txt src/a.txt", &["T src/a.txt 120000"]);
    check("rm link; cp src/a.txt link", &["T link 100644"]);
    check("ln -sfn docs link", &["M link"]);
    // What a link leads to is not looked at.
    check("rm -rf docs; ln -s / docs", &["A docs 120000", "D docs/deep/.env.local", "D docs/deep/c.txt"]);
    check(
        "mv src real; ln -s real src",
        &["A real/a.txt 100644", "A real/b.txt 100644", "A src 120000", "D src/a.txt", "D src/b.txt"],
    );
}

#[test]
fn names_are_bytes() {
    let world = world();
    let script =
        "printf x > \"$(printf 'src/a\\nsecret')\"; printf y > \"$(printf 'src/\\377')\"; printf z > 'q\"uote '";
    let Some(found) = world.both_ways(script, &rules()) else { return };
    let paths: Vec<&[u8]> = found.changes.iter().map(|change| change.path.as_slice()).collect();
    assert_eq!(paths, [b"q\"uote ".as_slice(), b"src/a\nsecret", b"src/\xff"]);
    assert_eq!(found.bytes, 3);
}

#[test]
fn what_has_no_permissions_is_read_all_the_same() {
    check("mkdir -p shut/in; echo s > shut/in/file; chmod 000 shut/in/file shut/in shut", &["A shut/in/file 100644"]);
    check("echo s >> src/a.txt; chmod 000 src/a.txt src .", &["M src/a.txt"]);
}

#[test]
fn what_has_no_place_in_a_tree_is_odd() {
    check("mkfifo pipe; rm src/a.txt; mkfifo src/a.txt", &["D src/a.txt", "odd pipe Fifo", "odd src/a.txt Fifo"]);
    check(
        "mkdir -p vendor/sub; cd vendor/sub; git init -q; echo v > file",
        &["A vendor/sub/file 100644", "odd vendor/sub/.git NestedRepository"],
    );
    check(
        "echo 'gitdir: /elsewhere' > src/.git; mkdir .GIT; echo x > .GIT/config",
        &["odd .GIT NestedRepository", "odd src/.git NestedRepository"],
    );
    check(
        "truncate -s 1T huge; rm src/b.txt; truncate -s 1T src/b.txt",
        &["D src/b.txt", "odd huge TooLarge", "odd src/b.txt TooLarge"],
    );
    let deep = format!("p={}; mkdir -p $p; echo d > $p/file", ["d"; 200].join("/"));
    let Some(found) = world().both_ways(&deep, &rules()) else { return };
    assert_eq!((found.changes.len(), found.odd[0].kind), (0, OddKind::TooDeep));
}

#[test]
fn the_agents_repository_and_the_state_directory_do_not_count() {
    check(
        "git config core.fsmonitor 'touch pwned'; mkdir -p .norma/x; echo x > .norma/x/y; rm -rf .git; echo a > .git",
        &[],
    );
    check("git update-index --assume-unchanged src/a.txt; echo e >> src/a.txt", &["M src/a.txt"]);
    check("git update-index --skip-worktree src/a.txt; echo e >> src/a.txt", &["M src/a.txt"]);
    check(
        "echo k > src/key; git add -A; git commit -qm 1; git rm -q src/key; git commit -qm 2; echo e >> src/b.txt; git commit -qam 3",
        &["M src/b.txt"],
    );
    check(
        "git rm -q --cached src/a.txt; git add -N . ; git checkout -q -b other; git stash -q 2>/dev/null || true",
        &[],
    );
}

#[test]
fn ignored_is_what_the_base_and_the_candidate_ignore() {
    check(
        "echo l > a.log; mkdir -p target/debug; echo t > target/debug/x; echo s > src/target",
        &["A src/target 100644", "ignored a.log 2", "ignored target/debug/x 2"],
    );
    // A rule that the agent adds hides nothing.
    check(
        "echo '*' > .gitignore; echo '*.txt' > src/.gitignore; echo n > src/new.txt; echo l > a.log",
        &["M .gitignore", "A src/.gitignore 100644", "A src/new.txt 100644", "ignored a.log 2"],
    );
    check(
        "rm .gitignore; echo l > a.log; mkdir .git/info2; echo src > .git/info/exclude; echo n > src/n",
        &["D .gitignore", "A a.log 100644", "A src/n 100644"],
    );
    // A rule that it takes away brings to light what the base ignored.
    check(
        "echo /target > .gitignore; mkdir target; echo l > a.log; echo t > target/x",
        &["M .gitignore", "A a.log 100644", "ignored target/x 2"],
    );
    check(
        "echo '!keep.log' > src/.gitignore; echo l > src/keep.log; echo l > src/b.log",
        &["A src/.gitignore 100644", "A src/keep.log 100644", "ignored src/b.log 2"],
    );
    // Rules that git would not follow ignore nothing.
    check("rm .gitignore; ln -s /etc/passwd .gitignore; echo l > a.log", &["T .gitignore 120000", "A a.log 100644"]);
    check("head -c 100000 /dev/zero | tr '\\0' x >> .gitignore; echo l > a.log", &["M .gitignore", "A a.log 100644"]);
    check(
        "mkdir target; mkfifo target/pipe; git init -q target/repo; ln -s / target/root",
        &["ignored target/root 1", "odd target/pipe Fifo", "odd target/repo/.git NestedRepository"],
    );
}

#[test]
fn rules_of_directories_and_tracked_files_in_ignored_places() {
    let world = World::new("sha1", History::Shallow, |root| {
        small(root);
        write(&root.join("keep.log"), "tracked\n");
        write(&root.join("target/pinned"), "tracked\n");
        write(&root.join("lib/.gitignore"), "/out\n!*.log\n*.tmp\n");
        write(&root.join("lib/sub/.gitignore"), "!keep.tmp\n");
        write(&root.join("lib/sub/x"), "x\n");
    });
    check_in(
        &world,
        "echo 2 >> keep.log; echo 2 >> target/pinned; echo n > target/new; rm -rf .gitignore",
        &["D .gitignore", "M keep.log", "A target/new 100644", "M target/pinned"],
    );
    check_in(
        &world,
        "rm keep.log target/pinned; mkdir keep.log; echo n > keep.log/new",
        &["D keep.log", "D target/pinned", "ignored keep.log/new 2"],
    );
    check_in(
        &world,
        "cd lib; mkdir out sub/out; echo 1 > out/f; echo 1 > sub/out/f; echo 1 > a.log; echo 1 > b.tmp; echo 1 > sub/keep.tmp; echo 1 > sub/c.tmp",
        &[
            "A lib/a.log 100644",
            "A lib/sub/keep.tmp 100644",
            "A lib/sub/out/f 100644",
            "ignored lib/b.tmp 2",
            "ignored lib/out/f 2",
            "ignored lib/sub/c.tmp 2",
        ],
    );
    // Rules go with the path, even where the directory was made anew without them.
    check_in(
        &world,
        "rm -rf lib; mkdir -p lib/sub; echo 1 > lib/b.tmp; echo 1 > lib/sub/keep.tmp",
        &["D lib/.gitignore", "A lib/b.tmp 100644", "D lib/sub/.gitignore", "A lib/sub/keep.tmp 100644", "D lib/sub/x"],
    );
}

#[test]
fn a_file_that_is_named_exactly_is_never_ignored() {
    let named = ["a.log", "target/out/report.txt", "src"].map(|path| path.as_bytes().to_vec());
    let rules = CaptureRules { named: named.into(), ..rules() };
    let script = "echo l > a.log; echo l > b.log; mkdir -p target/out; echo r > target/out/report.txt; \
                  echo x > target/out/x; echo l > src/c.log";
    let Some(found) = world().both_ways(script, &rules) else { return };
    assert_eq!(
        told(&found),
        [
            "A a.log 100644",
            "A target/out/report.txt 100644",
            "ignored b.log 2",
            "ignored src/c.log 2",
            "ignored target/out/x 2"
        ]
    );
}

/// Objects and installed packages in a repository that ignores none of them.
const BUILD: &str = r"mkdir -p obj node_modules/a/.bin lib/node_modules src/__pycache__
    printf '\177ELF\002' > a.o; printf '\177ELF\002' > obj/b.o; printf '!<arch>\nx' > liba.a; printf '\177ELF' > src/in.o
    echo text > c.o; printf '\177ELF' > kept.o; printf '\177ELF' > tracked.o; ln -s a.o d.o
    echo js > node_modules/a/index.js; ln -s ../index.js node_modules/a/.bin/x; echo js > lib/node_modules/i.js
    printf '\313\r\r\n' > src/__pycache__/m.pyc";

#[test]
fn what_a_build_makes_is_left_out_where_the_contract_speaks_of_none_of_it() {
    let world = World::new("sha1", History::Shallow, |root| {
        small(root);
        write(&root.join("package.json"), "{}\n");
        write(&root.join("tracked.o"), "old\n");
    });
    let named = ["src", "kept.o"].map(|path| path.as_bytes().to_vec());
    let rules = CaptureRules { named: named.into(), leaves_builds_out: true, leaves_caches_out: true, ..rules() };
    let Some(found) = world.both_ways(BUILD, &rules) else { return };
    assert_eq!(
        told(&found),
        [
            "A c.o 100644",
            "A d.o 120000",
            "A kept.o 100644",
            "A lib/node_modules/i.js 100644",
            "A src/in.o 100644",
            "M tracked.o",
            "ignored a.o 5",
            "ignored liba.a 9",
            "ignored node_modules/a/.bin/x 11",
            "ignored node_modules/a/index.js 3",
            "ignored obj/b.o 5",
            "ignored src/__pycache__/m.pyc 4",
        ]
    );
    let at: Vec<_> = found.ignored_at.iter().map(|path| String::from_utf8_lossy(path)).collect();
    assert_eq!(at, ["a.o", "liba.a", "node_modules", "obj/b.o", "src/__pycache__"]);
    let below = ["node_modules/a/index.js"].map(|path| path.as_bytes().to_vec());
    let rules = CaptureRules { named: below.into(), ..rules };
    let Some(found) = world.both_ways(BUILD, &rules) else { return };
    assert!(told(&found).contains(&"A node_modules/a/index.js 100644".to_owned()), "{:?}", told(&found));
}

#[test]
fn ignored_files_are_listed_up_to_a_limit() {
    let rules = CaptureRules { ignored_files_max: 3, ignored_bytes_max: 5, ..rules() };
    let script = "mkdir target; for i in 1 2 3 4 5; do echo $i$i$i > target/$i; done; truncate -s 1T target/6";
    let Some(found) = world().both_ways(script, &rules) else { return };
    assert_eq!(found.ignored.len(), 3);
    assert_eq!(found.ignored.iter().filter(|file| file.sha256.is_some()).count(), 1);
    assert_eq!((found.ignored_more, found.ignored_more_bytes), (3, 8 + (1 << 40)));
    assert_eq!(found.ignored_names, ["target/4", "target/5", "target/6"].map(|path| path.as_bytes().to_vec()));
}

#[test]
fn limits_hold_for_all_files_together_but_not_for_what_is_unchanged() {
    let world = World::new("sha1", History::Shallow, |root| write(&root.join("large"), [b'x'; 5000]));
    let rules = CaptureRules { file_bytes_max: 100, total_bytes_max: 150, ..rules() };
    let check = |script: &str, expected: &[&str]| {
        if let Some(found) = world.both_ways(script, &rules) {
            assert_eq!(told(&found), expected);
        }
    };
    check("touch large; chmod 600 large", &[]);
    check("printf y | dd of=large conv=notrunc 2>/dev/null", &["D large", "odd large TooLarge"]);
    check("for f in a b c; do head -c 60 /dev/zero > $f; done", &["A a 100644", "A b 100644", "odd c TooLarge"]);
}

#[test]
fn a_submodule_is_an_empty_directory() {
    let world = world();
    let id = world.head().0;
    world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{id},sub/module")]);
    world.git(&["commit", "-qm", "submodule"]);
    check_in(&world, "test -d sub/module; test -z \"$(git status --porcelain)\"", &[]);
    check_in(&world, "touch sub/module; rmdir sub/module; mkdir sub/module", &[]);
    check_in(&world, "echo l > sub/module/a.log", &["ignored sub/module/a.log 2"]);
    check_in(&world, "echo x > sub/module/x", &["D sub/module", "A sub/module/x 100644"]);
    check_in(&world, "rmdir sub/module", &["D sub/module"]);
    check_in(&world, "rmdir sub/module; echo f > sub/module", &["T sub/module 100644"]);
}

#[test]
fn a_link_in_the_place_of_a_directory_leads_nowhere() {
    let world = world();
    let outside = world.new_dir();
    fs::write(outside.join("a.txt"), "outside\n").unwrap();
    let script = format!("rm -rf src; ln -s {} src; echo more >> src/a.txt || true", outside.display());
    check_in(&world, &script, &["A src 120000", "D src/a.txt", "D src/b.txt"]);
}

#[test]
fn a_commit_with_sha256() {
    let world = World::new("sha256", History::Shallow, small);
    check_in(
        &world,
        "echo more >> src/a.txt; rm -rf docs",
        &["D docs/deep/.env.local", "D docs/deep/c.txt", "M src/a.txt"],
    );
}

/// What a turn left in a checkout that is used again and again, and whether any object was read to find that out.
fn left_by(world: &World, plain: &mut PlainWorkspace, script: &str, read_only: bool) -> (Vec<String>, bool) {
    let mut command = script_command("sh", world.temp.path());
    let output = command.current_dir(&plain.dir).args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let before = world.objects.objects_read();
    let found = plain.capture_with_git(&world.objects, &rules(), read_only).unwrap();
    (told(&found), world.objects.objects_read() > before)
}

#[test]
fn a_turn_that_was_to_change_nothing_and_did_not_costs_no_look_at_the_files() {
    let world = world();
    let (commit, tree) = world.head();
    let mut plain = PlainWorkspace::create(&world.objects, &world.new_dir().join("tree"), commit, tree).unwrap();
    let mut check = |script: &str, read_only: bool, expected: &[&str], looks: bool| {
        let (told, looked) = left_by(&world, &mut plain, script, read_only);
        assert_eq!((told, looked), (expected.iter().map(|&line| line.to_owned()).collect(), looks), "after: {script}");
    };
    // The first time it is looked at, whatever was done.
    check("cat src/a.txt", true, &[], true);
    check("cat src/a.txt", true, &[], false);
    check("cat docs/deep/c.txt; ls src; git log", true, &[], false);
    // Who may change something is not taken at the word of silence.
    check(":", false, &[], true);
    check(":", true, &[], true);
    // Changed and changed back is still looked at, and what was made meanwhile is heard of from then on.
    check("mkdir empty; chmod 600 src/b.txt", true, &[], true);
    check(":", true, &[], false);
    check("echo new > empty/file", true, &["A empty/file 100644"], true);
    check("rm -r empty", true, &[], true);
    check("git commit -q --allow-empty -m own", true, &["odd .git/HEAD OnlyInGit"], true);
}

#[test]
fn a_checkout_that_shows_another_tree_is_looked_at_again() {
    let world = world();
    let (commit, tree) = world.head();
    let mut plain = PlainWorkspace::create(&world.objects, &world.new_dir().join("tree"), commit, tree).unwrap();
    assert_eq!(left_by(&world, &mut plain, ":", true), (vec![], true));
    assert_eq!(left_by(&world, &mut plain, ":", true), (vec![], false));
    write(&world.root.join("src/a.txt"), "next\n");
    let (commit, tree) = world.commit();
    plain.advance(&world.objects, commit, tree).unwrap();
    assert_eq!(left_by(&world, &mut plain, "grep next src/a.txt", true), (vec![], true));
    assert_eq!(left_by(&world, &mut plain, ":", true), (vec![], false));
}

/// Attributes of every kind; the first line counts at the top only.
const MACRO: &str = "[attr]source text eol=lf\n";
const ATTRIBUTES: &str = "*.txt text\n*.auto text=auto\n*.crlf eol=crlf\n*.lf text eol=lf\n*.raw -text\n*.bin binary\n\
                          *.src source\n*.txt.keep !text\n/top.x text\n\"q .y\" text\nsub/*.z text\n";
const ATTRIBUTED: [&str; 14] = [
    "a.txt",
    "a.auto",
    "a.crlf",
    "a.lf",
    "a.raw",
    "a.bin",
    "a.src",
    "a.txt.keep",
    "top.x",
    "sub/top.x",
    "q .y",
    "sub/a.z",
    "sub/b.txt",
    "plain",
];

/// Texts with line ends of every kind, and what is none.
const ENDINGS: [&[u8]; 6] = [b"a\r\nb\r\n", b"a\r\nb\n", b"a\rb\r\n", b"a\0\r\n", b"\x01\x02\x03\r\n", b"\r\r\n\x1a"];

/// Git itself says what it stores: of new files, and of files whose base has CRLF already.
#[test]
fn what_is_stored_is_what_git_add_would_store() {
    let places = || (0..ENDINGS.len()).flat_map(|at| ATTRIBUTED.map(|name| (at, format!("c{at}/{name}"))));
    let octal = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>();
    let script: String = places().map(|(at, path)| format!("printf '{}' > '{path}'\n", octal(ENDINGS[at]))).collect();
    for (autocrlf, had) in ["true", "input", "false"].map(|auto| [(auto, false), (auto, true)]).concat() {
        let world = World::new("sha1", History::Shallow, |root| {
            let old = places().filter(|_| had);
            old.for_each(|(_, path)| write(&root.join(path), "old\r\n"));
        });
        write(&world.root.join(".gitattributes"), MACRO);
        for at in 0..ENDINGS.len() {
            write(&world.root.join(format!("c{at}/.gitattributes")), ATTRIBUTES);
            write(&world.root.join(format!("c{at}/sub/.gitattributes")), "b.txt -text\n");
        }
        world.commit();
        let rules = CaptureRules { line_endings: Some(AutoCrlf::new(move || autocrlf != "false")), ..rules() };
        let Some(found) = world.both_ways(&script, &rules) else { return };
        places().for_each(|(at, path)| write(&world.root.join(path), ENDINGS[at]));
        let auto = format!("core.autocrlf={autocrlf}");
        world.git(&["-c", &auto, "-c", "core.safecrlf=false", "add", "-A", "--", ".", ":!.norma"]);
        let staged = world.git(&["ls-files", "-s"]);
        for change in &found.changes {
            let (path, id) = (String::from_utf8_lossy(&change.path), change.new.unwrap().id);
            let line = staged.lines().find(|line| line.ends_with(&format!("\t{path}"))).unwrap();
            assert!(line.contains(&id.to_string()), "{line}, autocrlf {autocrlf}, had CRLF: {had}");
        }
        assert_eq!(found.tree.to_string(), world.git(&["write-tree"]).trim());
    }
}
