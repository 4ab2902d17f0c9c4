//! Ways past a gate that compares names: each is a script that an agent could run, and what norma says of it.

use super::{attempt, confining};
use crate::environment::TestEnvironment;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// A commit that no repository here has.
const ELSEWHERE: &str = "160000,1111111111111111111111111111111111111111,src/sub";

/// A repository with something to hide behind: secrets, ignored names, a link, a submodule.
fn repository() -> Option<TestEnvironment> {
    confining()?;
    let env = TestEnvironment::initialized();
    env.write("secret/k.txt", "key\n");
    env.write("src/a.txt", "a\n");
    env.write("docs/d.txt", "d\n");
    env.write(".gitignore", "*.log\ntarget/\n.env.local\n");
    std::os::unix::fs::symlink("a.txt", env.root.join("src/link")).unwrap();
    env.commit("files");
    std::fs::create_dir(env.root.join("src/sub")).unwrap();
    env.git(&["update-index", "--add", "--cacheinfo", ELSEWHERE]);
    env.git(&["commit", "--quiet", "--message", "a submodule"]);
    Some(env)
}

/// Tries every script in the same repository, where only `src` may change; the findings must be exactly these, and
/// nothing of it may be left.
#[track_caller]
fn check(rows: &[(&str, &[&str])]) {
    let Some(env) = repository() else { return };
    let before = (env.repository(), env.git(&["status", "--porcelain"]));
    let mut wrong = Vec::new();
    for (script, expected) in rows {
        let tried = attempt(&env, &["src"], script);
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        if tried.findings() != expected {
            wrong.push(format!("expected {expected:?}\nfound {:?}\nafter {}", tried.findings(), tried.said));
        }
        assert_eq!((env.repository(), env.git(&["status", "--porcelain"])), before, "{script}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_move_counts_on_both_sides_and_a_prefix_is_not_a_directory() {
    check(&[
        ("git mv secret/k.txt src/k.txt", &["outside_scope secret/k.txt"]),
        ("mv secret src/secret", &["outside_scope secret/k.txt"]),
        ("mv src/a.txt docs/a.txt", &["outside_scope docs/a.txt"]),
        ("mv src/a.txt src/b.txt; git mv src/lib.txt src/c.txt", &[]),
        ("cp secret/k.txt src/k.txt", &[]),
        ("mkdir src-evil; echo x > src-evil/x", &["outside_scope src-evil/x"]),
        ("echo x > srcx; echo x > src.txt", &["outside_scope src.txt", "outside_scope srcx"]),
        ("mkdir SRC; echo x > SRC/x", &["outside_scope SRC/x", "case_twin SRC/x"]),
        ("echo x > src/../secret/x", &["outside_scope secret/x"]),
        ("rm -r src; echo x > src", &["submodule src/sub"]),
        ("rm README.md", &["outside_scope README.md"]),
        (
            "rm README.md; mkdir README.md; echo x > README.md/x",
            &["outside_scope README.md", "outside_scope README.md/x"],
        ),
    ]);
}

#[test]
fn an_odd_name_is_one_name_and_is_refused() {
    check(&[
        (r#"d=$(printf 'src/a\nsecret'); mkdir "$d"; echo x > "$d/k.txt""#, &[r"odd_name src/a\nsecret/k.txt"]),
        (r#"echo x > "$(printf 'src/\001')""#, &[r"odd_name src/\u{1}"]),
        (r#"echo x > "$(printf 'src/\033[2Jx')""#, &[r"odd_name src/\u{1b}[2Jx"]),
        (r#"echo x > 'src/a\b'"#, &[r"odd_name src/a\\b"]),
        (r#"echo x > "$(printf 'src/\342\200\256txt')""#, &[r"odd_name src/\u{202e}txt"]),
        (r#"echo x > 'src/q"uo'\''te'"#, &[]),
        ("echo x > 'src/a b'; echo x > 'src/$(touch x)'; echo x > 'src/é'", &[]),
        ("mkdir src/GIT~1; echo x > src/GIT~1/config", &["nested_repository src/GIT~1"]),
        ("mkdir src/.GIT; echo x > src/.GIT/config", &["nested_repository src/.GIT"]),
        (
            r#"d=$(printf 'src/.g\342\200\214it'); mkdir "$d"; echo x > "$d/c""#,
            &[r"nested_repository src/.g\u{200c}it"],
        ),
    ]);
}

#[test]
fn a_name_that_is_not_text_is_recorded_byte_by_byte() {
    let Some(env) = repository() else { return };
    let tried = attempt(&env, &["src"], r#"echo x > "$(printf 'src/\377\n\376')""#);
    assert_eq!(tried.value["findings"].as_array().unwrap().len(), 1, "{}", tried.said);
    let found = &tried.value["findings"][0];
    assert_eq!((&found["rule"], &found["path_hex"]), (&json!("odd_name"), &json!("7372632fff0afe")), "{}", tried.said);
    assert_eq!(tried.changed().len(), 1, "{}", tried.said);
}

#[test]
fn nothing_that_git_is_told_hides_a_change() {
    check(&[
        ("git update-index --assume-unchanged secret/k.txt; echo e >> secret/k.txt", &["outside_scope secret/k.txt"]),
        ("git update-index --skip-worktree secret/k.txt; echo e >> secret/k.txt", &["outside_scope secret/k.txt"]),
        ("git sparse-checkout set src", &["outside_scope docs/d.txt", "outside_scope secret/k.txt"]),
        ("git rm -q --cached secret/k.txt; git commit -qm gone; rm .git/index; git status > /dev/null", &[]),
        ("echo evil > .git/info/exclude; echo x > evil", &["outside_scope evil"]),
        ("echo evil > /tmp/e; git config core.excludesFile /tmp/e; echo x > evil", &["outside_scope evil"]),
        ("git config core.fileMode false; chmod +x README.md", &["outside_scope README.md"]),
        (
            "touch -r README.md /tmp/r; printf 'HELLO\n' > README.md; touch -r /tmp/r README.md",
            &["outside_scope README.md"],
        ),
        (
            "git add -f secret; echo e > secret/k.txt; git add -A; git commit -qm e; git reset -q --soft HEAD~",
            &["outside_scope secret/k.txt"],
        ),
        (
            "git checkout -q --orphan new; git commit -qm new; rm -rf .git; echo e > secret/k.txt",
            &["outside_scope secret/k.txt"],
        ),
        (
            "echo evil >> .gitignore; echo x > evil",
            &["outside_scope .gitignore", "outside_scope evil", "protected_path .gitignore"],
        ),
        ("echo '*' > src/.gitignore; echo x > src/evil", &["protected_path src/.gitignore"]),
        (
            "echo '* -diff -text ident eol=crlf working-tree-encoding=UTF-16' > .gitattributes; echo e >> docs/d.txt",
            &["outside_scope .gitattributes", "outside_scope docs/d.txt", "protected_path .gitattributes"],
        ),
    ]);
}

#[test]
fn content_that_was_committed_and_reverted_is_nowhere() {
    let Some(env) = repository() else { return };
    let before = env.repository();
    let script = "echo KEY-8d1f > secret/n; git add -A; git commit -qm 1; git rm -q secret/n; git commit -qm 2; \
                  git log --oneline | wc -l | grep -q 3";
    let tried = attempt(&env, &["src"], script);
    assert_eq!(tried.value["findings"], json!([]), "{}", tried.said);
    assert_eq!(tried.value["changed"], json!([]), "{}", tried.said);
    assert_eq!(tried.value["tree"], env.git(&["rev-parse", "HEAD^{tree}"]));
    let mut hash = Command::new("git");
    hash.args(["hash-object", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hash = hash.spawn().unwrap();
    hash.stdin.take().unwrap().write_all(b"KEY-8d1f\n").unwrap();
    let blob = String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap();
    let known = env.git(&["--git-dir", ".norma/git", "cat-file", "--batch-all-objects", "--batch-check"]);
    assert!(!known.contains(blob.trim()), "{known}");
    assert_eq!(env.repository(), before);
}

#[test]
fn links_submodules_repositories_and_special_files_are_refused() {
    check(&[
        ("ln -s /etc/passwd src/l", &["symlink src/l"]),
        ("ln -sf ../secret/k.txt src/link", &["symlink src/link"]),
        ("rm src/a.txt; ln -s ../secret/k.txt src/a.txt", &["symlink src/a.txt"]),
        ("rm src/link; echo x > src/link", &[]),
        ("rm src/link", &[]),
        ("rm -r secret; ln -s src secret", &["outside_scope secret", "outside_scope secret/k.txt", "symlink secret"]),
        ("ln -s ../secret src/up; echo e > src/up/k.txt", &["outside_scope secret/k.txt", "symlink src/up"]),
        ("ln secret/k.txt src/k.txt; echo e >> src/k.txt", &["outside_scope secret/k.txt"]),
        ("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),src/new", &[]),
        ("rmdir src/sub; echo x > src/sub", &["submodule src/sub"]),
        ("echo x > src/sub/x", &["submodule src/sub"]),
        ("git init -q src/n; echo x > src/n/x", &["nested_repository src/n/.git"]),
        ("mkdir src/n; echo 'gitdir: /tmp/x' > src/n/.git", &["nested_repository src/n/.git"]),
        (
            "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ./x\\n' > .gitmodules",
            &["outside_scope .gitmodules", "protected_path .gitmodules"],
        ),
        ("mkfifo src/pipe", &["special_file src/pipe"]),
        ("rm src/a.txt; mkfifo src/a.txt", &["special_file src/a.txt"]),
        ("mknod src/w c 0 0 || mknod src/n c 1 3 || true", &[]),
        ("printf 'a\\0b' > src/x.bin; printf 'a\\0' >> src/a.txt", &["binary src/a.txt", "binary src/x.bin"]),
        ("head -c 70000000 /dev/zero | tr '\\0' x > src/big", &["too_large src/big"]),
    ]);
}

#[test]
fn a_socket_is_refused() {
    let Some(env) = repository() else { return };
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return not_run::because("no python3 to make a socket with");
    }
    let tried = attempt(&env, &["src"], "python3 -c 'import os; os.mknod(\"src/s\", 0o140644)'");
    assert_eq!(tried.findings(), BTreeSet::from(["special_file src/s".to_owned()]), "{}", tried.said);
}

#[test]
fn modes_and_permissions_hide_nothing() {
    check(&[
        ("chmod 4777 src/a.txt; chmod 000 src/lib.txt", &[]),
        ("chmod +x README.md", &["outside_scope README.md"]),
        ("mkdir src/d; echo x > src/d/f; chmod 000 src/d", &[]),
        ("mkdir evil; echo x > evil/f; chmod 000 evil", &["outside_scope evil/f"]),
        ("echo x > evil; chmod 000 evil; chmod 000 .", &["outside_scope evil"]),
        ("echo e >> secret/k.txt; chmod 000 secret/k.txt secret", &["outside_scope secret/k.txt"]),
        ("setfattr -n user.overlay.opaque -v y src; setfattr -n trusted.overlay.opaque -v y src; true", &[]),
        ("python3 -c 'import os; os.setxattr(\"secret\", \"user.overlay.opaque\", b\"y\")'; true", &[]),
    ]);
}

#[test]
fn what_is_ignored_protected_or_norma_s_own_is_judged_too() {
    check(&[
        ("echo x > x.log; mkdir -p obj; echo x > obj/x.log", &[]),
        ("echo x > src/x.log; mkdir target; echo x > target/x", &[]),
        ("mkdir -p docs/target; echo x > docs/target/x", &[]),
        ("echo K=1 > .env", &["outside_scope .env", "protected_path .env"]),
        ("echo K=1 > src/.env; echo K=1 > src/.ENV.prod", &["protected_path src/.ENV.prod", "protected_path src/.env"]),
        ("echo K=1 > .env.local", &["protected_path .env.local"]),
        (
            "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml",
            &["outside_scope .github/workflows/ci.yml", "protected_path .github/workflows/ci.yml"],
        ),
        (
            "echo x > src/CLAUDE.md; mkdir src/.husky; echo x > src/.husky/pre-commit",
            &["protected_path src/.husky/pre-commit", "protected_path src/CLAUDE.md"],
        ),
        ("mkdir -p .norma/runs; echo x > .norma/config.json; echo x > .norma/runs/x; true", &[]),
        ("mkdir .Norma; echo x > .Norma/config.json", &["state_directory .Norma/config.json"]),
        ("echo x > src/Case; echo y > src/case", &["case_twin src/Case", "case_twin src/case"]),
        ("echo x > src/A.TXT", &["case_twin src/A.TXT"]),
        ("mv src/a.txt src/A.TXT", &[]),
        ("echo x > .git/hooks/post-checkout; echo x > .git/x; mkdir .git/objects/zz", &[]),
    ]);
}

#[test]
fn an_allowed_path_that_would_allow_everything_is_no_allowed_path() {
    let Some(env) = repository() else { return };
    for allow in [".", "**", "", "/", "..", "src/../secret", ".git"] {
        let output = env.norma(&["sandbox", "run", "--workspace", "--allow", allow, "--", "true"]);
        assert_eq!(output.code(), Some(2), "{allow:?}: {output}");
    }
}

#[test]
fn a_writer_that_outlives_the_program_is_dead_before_anything_is_judged() {
    let Some(env) = repository() else { return };
    let before = env.repository();
    let script = "setsid sh -c 'sleep 1; while :; do echo e >> secret/k.txt; echo e > src/late; done' & \
                  setsid sleep 98761 & echo x > src/x";
    let tried = attempt(&env, &["src"], script);
    assert_eq!((tried.findings().len(), tried.changed()), (0, vec!["src/x"]), "{}", tried.said);
    super::bombs::nobody_runs("98761");
    assert_eq!(env.repository(), before);
}
