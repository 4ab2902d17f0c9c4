//! Commits of a repository, replayed as honest agents by `testing/honest/replay.py`: every tree is captured as it is, and
//! nearly all of them land. `cargo xtask soak honest` takes more of them, from the repositories that somebody names.

use crate::environment::TestEnvironment;
use std::path::Path;
use std::process::Command;

/// Git directories, separated by `:`; this repository if there is none.
const REPOSITORIES: &str = "NORMA_HONEST_REPOSITORIES";

/// How many commits of each.
const COMMITS: &str = "NORMA_HONEST_COMMITS";

fn replayed(repository: &Path, commits: &str, options: &[&str]) -> serde_json::Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/honest/replay.py");
    let mut command = Command::new("python3");
    command.arg(script).args(["--norma", env!("CARGO_BIN_EXE_norma"), "--commits", commits, "--repository"]);
    let output = command.arg(repository).args(options).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    if !std::env::var(REPOSITORIES).unwrap_or_default().is_empty() {
        std::io::Write::write_all(&mut std::io::stdout(), format!("{}: {said}", repository.display()).as_bytes())
            .unwrap();
    }
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

/// What honest people commit: case-only renames, binary files that move, removed links, scripts, many files at once.
fn own_history() -> TestEnvironment {
    let env = TestEnvironment::bare();
    env.git(&["init", "--quiet"]);
    for number in 0..14 {
        env.write(&format!("src/{number}.txt"), "x\n");
    }
    env.write("README.md", "readme\n");
    env.write(".gitignore", "*.o\n");
    std::fs::write(env.root.join("logo.bin"), b"a\0b").unwrap();
    std::os::unix::fs::symlink("README.md", env.root.join("link")).unwrap();
    env.commit("what is there");
    env.git(&["mv", "README.md", "Readme.md"]);
    env.commit("another case");
    env.git(&["mv", "logo.bin", "image.bin"]);
    env.git(&["rm", "--quiet", "link"]);
    env.commit("moved and removed");
    for number in 0..14 {
        env.write(&format!("src/{number}.txt"), "y\n");
    }
    env.commit("more than ten files");
    env
}

#[test]
fn honest_commits_land_as_they_are() {
    if Command::new("python3").arg("--version").output().is_err() {
        not_run::because("there is no python3 here");
        return;
    }
    let named = std::env::var(REPOSITORIES).unwrap_or_default();
    if named.is_empty() {
        let env = own_history();
        let counts = replayed(&env.root, "10", &["--build", "echo o > left.o; mkdir -p out; echo o > out/a.o"]);
        assert_eq!((&counts["commits"], &counts["success"]), (&3.into(), &3.into()), "{counts}");
        return;
    }
    let commits = std::env::var(COMMITS).unwrap_or_else(|_| "50".to_owned());
    for repository in named.split(':') {
        for limits in ["default", "raised"] {
            replayed(Path::new(repository), &commits, &["--limits", limits]);
        }
    }
}
