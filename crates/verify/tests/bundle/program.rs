//! The programs that check a bundle, as somebody starts them: `norma-verify`, and `verify.sh` from the bundle itself.

use super::{WORLD, bundle};
use std::path::Path;
use std::process::{Command, Output};

fn norma_verify(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_norma-verify")).args(args).env_clear().output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A bundle on disk, with a directory of the key to trust.
fn on_disk(bytes: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bundle.tar"), bytes).unwrap();
    std::fs::create_dir(dir.path().join("keys")).unwrap();
    std::fs::write(dir.path().join("keys/norma.pem"), WORLD.keys.public().to_pem()).unwrap();
    dir
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_exit_code_says_verified_not_verified_or_could_not() {
    let dir = on_disk(&bundle());
    let (tar, keys) = (dir.path().join("bundle.tar"), dir.path().join("keys"));
    let verified = norma_verify(&[shown(&tar), "--trust", shown(&keys)]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified.stdout));
    assert!(text(&verified.stdout).contains("verified: run "), "{}", text(&verified.stdout));
    let untrusted = norma_verify(&[shown(&tar)]);
    assert_eq!(untrusted.status.code(), Some(1));
    assert!(text(&untrusted.stdout).contains("signatures     FAILED"), "{}", text(&untrusted.stdout));
    for args in [&[][..], &["/nowhere"], &[shown(&tar), "--trust", "/nowhere"], &[shown(&tar), "--frobnicate"]] {
        let could_not = norma_verify(args);
        assert_eq!(could_not.status.code(), Some(2), "{args:?}");
        assert!(text(&could_not.stderr).starts_with("error: "), "{args:?}");
    }
}

#[test]
fn programs_read_the_roster_as_json() {
    let dir = on_disk(&bundle());
    let (tar, keys) = (dir.path().join("bundle.tar"), dir.path().join("keys"));
    let answer = norma_verify(&["--json", "--trust", shown(&keys), shown(&tar)]);
    let value: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((&value["verified"], &value["run_id"]), (&true.into(), &WORLD.slug.as_str().into()));
    let names: Vec<&str> = value["checks"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names.first().zip(names.last()), Some((&"container", &"git")));
}

#[test]
fn it_says_its_version_commit_and_rules() {
    let answer = text(&norma_verify(&["--version"]).stdout);
    assert!(answer.starts_with(&format!("norma-verify {} (commit ", env!("CARGO_PKG_VERSION"))), "{answer}");
    assert!(answer.trim_end().ends_with(&format!(", rules {})", contract::RULES)), "{answer}");
}

/// `verify.sh` needs tools that not every machine has; without them the test is not run.
fn tools_are_missing() -> bool {
    let missing = |tool: &&str| Command::new(tool).arg("--version").output().is_err();
    ["bash", "jq", "openssl", "sha256sum", "tar"].iter().any(missing)
}

fn verify_sh(dir: &Path) -> Output {
    Command::new("bash").arg(dir.join("bundle/verify.sh")).arg(dir.join("keys/norma.pem")).output().unwrap()
}

#[test]
fn the_script_in_the_bundle_checks_signatures_and_digests_with_ordinary_tools() {
    if tools_are_missing() {
        return not_run::because("bash, jq, openssl, sha256sum or tar is not installed");
    }
    let dir = on_disk(&bundle());
    let unpacked = Command::new("tar").arg("-xf").arg(dir.path().join("bundle.tar")).current_dir(dir.path()).output();
    assert_eq!(text(&unpacked.unwrap().stderr), "");
    let verified = verify_sh(dir.path());
    assert!(verified.status.success(), "{}{}", text(&verified.stdout), text(&verified.stderr));
    let check = |path: &str, change: &dyn Fn(&Path)| {
        let at = dir.path().join("bundle").join(path);
        let before = std::fs::read(&at).ok();
        change(&at);
        let found = verify_sh(dir.path());
        assert_eq!(found.status.code(), Some(1), "{path}: {}", text(&found.stdout));
        match before {
            Some(bytes) => std::fs::write(&at, bytes).unwrap(),
            None => std::fs::remove_file(&at).unwrap(),
        }
    };
    for path in ["index.json", "run/events.jsonl", "index.dsse.json"] {
        check(path, &|at| std::fs::write(at, b"{}").unwrap());
        check(path, &|at| std::fs::remove_file(at).unwrap());
    }
    check("run/added", &|at| std::fs::write(at, b"x").unwrap());
    let wrong = dir.path().join("keys/norma.pem");
    let other = runner::Trust::new(dir.path(), dir.path()).keys().unwrap();
    std::fs::write(&wrong, other.public().to_pem()).unwrap();
    assert_eq!(verify_sh(dir.path()).status.code(), Some(1), "another key");
}

#[test]
fn it_says_its_version() {
    for asked in ["--version", "-V"] {
        let output = norma_verify(&[asked]);
        assert!(output.status.success());
        let said = text(&output.stdout);
        assert!(said.starts_with(&format!("norma-verify {} (commit ", env!("CARGO_PKG_VERSION"))), "{said}");
        assert!(said.ends_with(&format!("rules {})\n", contract::RULES)), "{said}");
    }
}
