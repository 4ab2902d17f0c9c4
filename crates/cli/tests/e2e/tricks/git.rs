//! Whatever an agent tells its own git to start, norma's git starts none of it: not after a trial, not in a run, not
//! when it looks at the machine. The trap is a program that only the host has: inside there is no such file, so what
//! it leaves can only come from a git outside that read what the agent wrote.

use super::{attempt, confining};
use crate::batches::{batch, item, with_worker};
use crate::environment::{PATCH, TestEnvironment};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What is planted, in the directory of the repository; `TRAP` is the program.
const PLANTS: [(&str, &str); 15] = [
    ("fsmonitor", "git config core.fsmonitor TRAP"),
    (
        "hooks",
        "mkdir -p .git/hooks; for hook in post-checkout pre-commit post-commit reference-transaction post-index-change pre-auto-gc; do \
               printf '#!/bin/sh\\nTRAP\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook; done",
    ),
    (
        "hooks elsewhere",
        "mkdir src/h; printf '#!/bin/sh\\nTRAP\\n' > src/h/reference-transaction; chmod +x src/h/*; \
                         git config core.hooksPath $PWD/src/h",
    ),
    (
        "filters",
        "git config filter.trap.clean TRAP; git config filter.trap.smudge TRAP; \
                 git config filter.trap.process TRAP; git config filter.trap.required true; \
                 mkdir -p .git/info; echo '* filter=trap' > .git/info/attributes; echo '* filter=trap' > src/.gitattributes",
    ),
    (
        "external diff",
        "git config diff.external TRAP; git config diff.trap.textconv TRAP; git config diff.trap.command TRAP; \
                       git config merge.trap.driver TRAP; mkdir -p .git/info; echo '* diff=trap merge=trap' > .git/info/attributes",
    ),
    (
        "included file",
        "printf '[core]\\n\\tfsmonitor = TRAP\\n\\tpager = TRAP\\n' > src/c; git config include.path $PWD/src/c",
    ),
    (
        "included on condition",
        "printf '[core]\\n\\tfsmonitor = TRAP\\n' > src/c; git config includeIf.gitdir:/.path $PWD/src/c",
    ),
    (
        "programs",
        "git config core.editor TRAP; git config core.sshCommand TRAP; git config gpg.program TRAP; \
                  git config commit.gpgSign true; git config credential.helper TRAP; git config core.alternateRefsCommand TRAP; \
                  git config uploadpack.packObjectsHook TRAP; git config alias.status '!TRAP'",
    ),
    (
        "pointer file",
        "git init -q src/e; git -C src/e config core.fsmonitor TRAP; mv .git /tmp/g; \
                      echo \"gitdir: $PWD/src/e/.git\" > .git",
    ),
    ("made anew", "mv .git .g2; cp -r .g2 .git; rm -rf .g2; git config core.fsmonitor TRAP"),
    ("link", "mv .git src/g; git config -f src/g/config core.fsmonitor TRAP; ln -s src/g .git"),
    (
        "common directory",
        "mkdir src/e; cp -r .git src/e/.git; git -C src/e config core.fsmonitor TRAP; \
                          echo $PWD/src/e/.git > .git/commondir; echo $PWD/src/e/.git > .git/gitdir",
    ),
    (
        "borrowed objects",
        "git init -q src/e; git -C src/e config core.fsmonitor TRAP; mkdir -p .git/objects/info; \
                          echo $PWD/src/e/.git/objects > .git/objects/info/alternates; \
                          git rev-parse HEAD > .git/shallow; git rev-parse HEAD > .git/info/grafts",
    ),
    (
        "promised objects",
        "git config core.repositoryFormatVersion 1; git config extensions.partialClone e; \
                          git config remote.e.url 'ext::TRAP'; git config remote.e.promisor true; \
                          git config protocol.ext.allow always; rm -rf .git/objects/pack",
    ),
    (
        "home",
        "git config --global core.fsmonitor TRAP; git config --global core.hooksPath /tmp; echo '[core] fsmonitor = TRAP' > ~/.gitconfig",
    ),
];

/// A program that leaves a file beside itself; not visible inside.
fn trap(env: &TestEnvironment) -> String {
    let trap = env.dir.join("trap");
    std::fs::create_dir(&trap).unwrap();
    let program = trap.join("program");
    let script = "#!/bin/sh\necho \"$0 $*\" >> \"$(dirname \"$0\")/sprung\"\nexit 1\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program.display().to_string()
}

#[track_caller]
fn not_sprung(env: &TestEnvironment, after: &str) {
    let found = std::fs::read_to_string(env.dir.join("trap/sprung")).unwrap_or_default();
    assert!(found.is_empty(), "after {after}: {found}");
}

#[test]
fn the_trap_is_sprung_by_a_git_that_reads_what_was_planted() {
    let env = TestEnvironment::initialized();
    let program = trap(&env);
    env.git(&["clone", "--quiet", ".", "../copy"]);
    env.git(&["-C", "../copy", "config", "core.fsmonitor", &program]);
    env.git(&["-C", "../copy", "status"]);
    assert!(env.dir.join("trap/sprung").exists());
}

#[test]
fn nothing_planted_in_a_workspace_is_started_by_norma() {
    if confining().is_none() {
        return;
    }
    let env = TestEnvironment::initialized();
    let program = trap(&env);
    let before = env.repository();
    for (what, script) in PLANTS {
        let script = script.replace("TRAP", &program);
        let seen = format!("test ! -e {program} || exit 9\nset -e\n{script}");
        let tried = attempt(&env, &["src"], &seen);
        not_sprung(&env, what);
        let refused = tried.findings();
        let own = refused.iter().all(|found| !found.starts_with("outside_scope"));
        assert!(own, "{what}: {}", tried.said);
        env.norma(&["sandbox", "run", "--workspace", "--", "true"]).success();
        env.norma(&["sandbox", "run", "--workspace", "--", "git", "status"]);
        env.norma(&["doctor"]);
        not_sprung(&env, what);
        assert_eq!(env.repository(), before, "{what}");
    }
}

#[test]
fn nothing_planted_by_an_agent_of_a_run_is_started_by_norma() {
    if confining().is_none() {
        return;
    }
    for (what, script) in PLANTS {
        let env = TestEnvironment::with_patch(PATCH);
        let program = trap(&env);
        let plant = format!("set -e\n{}", script.replace("TRAP", &program));
        let log = json!({"write": {"path": "files/test.log", "content": "ok\n"}});
        env.script(json!({
            "plan": [[{"shell": plant}]],
            "do": [[{"shell": plant}, log]],
            "check": [[{"shell": plant}, {"verdict": "FAIL"}], [{"shell": plant}, {"verdict": "PASS"}]],
            "act": [[{"shell": plant}, {"patch": PATCH}]],
        }));
        let config = std::fs::read(env.root.join(".git/config")).unwrap();
        let output = env.norma(&["run", "1"]);
        assert_eq!(output.code(), Some(0), "{what}: {output}");
        assert_eq!(env.read("src/lib.txt"), "one\nTWO\nthree\n", "{what}");
        env.norma(&["show", "@last"]).success();
        env.norma(&["verify", "@last"]).success();
        env.norma(&["doctor"]);
        env.git(&["status"]);
        not_sprung(&env, what);
        assert_eq!(std::fs::read(env.root.join(".git/config")).unwrap(), config, "{what}");
        assert!(!Path::new(&env.root).join("src/e").exists(), "{what}");
    }
}

/// The user's own filter is a tracked file. An agent that may write beside it does not get to change it, and where a
/// contract lets it, norma's next run does not run what it wrote.
#[test]
fn a_filter_of_the_users_that_an_agent_wrote_is_never_run() {
    let env =
        with_worker("printf '#!/bin/sh\\ntouch ran-on-host\\ncat\\n' > tools/clean.sh; date +%s%N > src/made.txt");
    env.write("tools/clean.sh", "#!/bin/sh\ncat\n");
    std::fs::set_permissions(env.root.join("tools/clean.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    env.write(".gitattributes", "*.txt filter=x\n");
    env.commit("a filter");
    env.git(&["config", "--global", "filter.x.clean", "./tools/clean.sh"]);
    let denied = batch(&env, &[item("a", json!({"allowed_paths": ["tools", "src/made.txt"]}))], 1);
    assert_eq!(denied[0]["status"], "denied", "{denied:?}");
    let gates = std::fs::read_to_string(env.run_dir().join("changes/001/gates.json")).unwrap();
    assert!(gates.contains("tools/clean.sh") && gates.contains("your git configuration names it"), "{gates}");
    batch(&env, &[item("b", json!({"allowed_paths": ["tools/clean.sh", "src/made.txt"]}))], 0);
    assert!(env.read("tools/clean.sh").contains("ran-on-host"));
    // The index does not know this file's time: whoever wants to know whether it changed has to look into it.
    env.write("src/lib.txt", &env.read("src/lib.txt"));
    env.norma(&["doctor"]);
    batch(&env, &[item("c", json!({"allowed_paths": ["src/made.txt"]}))], 0);
    env.norma(&["undo", "@last"]).success();
    assert!(!env.root.join("ran-on-host").exists());
}
