//! Ordinary work leaves no finding: what builds and tests leave lying about is ignored by the repository itself, and
//! lies where such things may lie.

use super::{Tried, attempt, confining};
use crate::environment::TestEnvironment;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A repository with these files and nothing else.
fn project(files: &[(&str, &str)]) -> Option<TestEnvironment> {
    confining()?;
    let env = TestEnvironment::initialized();
    for (path, content) in files {
        env.write(path, content);
    }
    env.commit("a project");
    Some(env)
}

/// Where the machine's own user has a program.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|dir| dir.join(name).is_file())
}

/// Work that succeeds, with nothing to say about it; only these files have changed.
#[track_caller]
fn fine(env: &TestEnvironment, allow: &[&str], script: &str, changed: &[&str]) -> Tried {
    let before = env.repository();
    let tried = attempt(env, allow, &format!("set -e\n{script}"));
    assert_eq!(tried.value["findings"], json!([]), "{}", tried.said);
    assert_eq!(tried.changed(), changed, "{}", tried.said);
    assert_eq!(env.repository(), before, "{script}");
    tried
}

#[test]
fn a_build_and_tests_with_cargo_leave_no_finding() {
    let Some(cargo) = on_path("cargo") else { return not_run::because("no cargo on PATH") };
    let files = [
        ("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "pub fn two() -> u32 {\n    2\n}\n\n#[test]\nfn is_two() {\n    assert_eq!(two(), 2);\n}\n"),
        (".gitignore", "/target/\n"),
    ];
    let Some(mut env) = project(&files) else { return };
    // A toolchain below HOME is shown because its directory is on the PATH of HOME's owner.
    let home = std::env::var("HOME").unwrap_or_default();
    env.env.insert("HOME".to_owned(), home);
    env.env.insert("PATH".to_owned(), format!("{}:{}", cargo.display(), env.env["PATH"]));
    let script = "cargo build --offline --quiet\ncargo test --offline --quiet > /dev/null";
    if attempt(&env, &[], "cargo --version > /dev/null 2>&1 && touch src/version; true").changed().is_empty() {
        return not_run::because("cargo does not start inside");
    }
    let tried = fine(&env, &[], script, &["Cargo.lock"]);
    assert_eq!(tried.value["ignored_at"], json!(["target"]), "{}", tried.said);
    let edit = "sed -i s/is_two/is_really_two/ src/lib.rs";
    fine(&env, &["src", "Cargo.lock"], &format!("{edit}\n{script}"), &["Cargo.lock", "src/lib.rs"]);
}

#[test]
fn an_installation_and_tests_with_npm_leave_no_finding() {
    let Some(npm) = on_path("npm") else { return not_run::because("no npm on PATH") };
    let package =
        r#"{"name":"small","version":"1.0.0","scripts":{"test":"node test.js"},"dependencies":{"local":"file:local"}}"#;
    let files = [
        ("package.json", package),
        ("test.js", "require('assert').strictEqual(require('local'), 2);\n"),
        ("local/package.json", r#"{"name":"local","version":"1.0.0","main":"main.js"}"#),
        ("local/main.js", "module.exports = 2;\n"),
        (".gitignore", "node_modules/\n"),
    ];
    let Some(mut env) = project(&files) else { return };
    if !["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new).contains(&npm.as_path()) {
        env.env.insert("PATH".to_owned(), format!("{}:{}", npm.display(), env.env["PATH"]));
    }
    let script = "npm install --offline --no-audit --no-fund --silent\nnpm test --silent";
    fine(&env, &["package-lock.json"], script, &["package-lock.json"]);
    fine(&env, &[], &format!("{script}\necho '// more' >> local/main.js"), &["local/main.js", "package-lock.json"]);
}

#[test]
fn tests_with_python_leave_no_finding() {
    if on_path("python3").is_none() || !Path::new("/usr/bin/python3").exists() {
        return not_run::because("no python3 of the system");
    }
    let files = [
        ("small.py", "def two():\n    return 2\n"),
        (
            "test_small.py",
            "import unittest\nimport small\n\n\nclass Small(unittest.TestCase):\n    def test_two(self):\n        \
             self.assertEqual(small.two(), 2)\n",
        ),
        (".gitignore", "__pycache__/\n.pytest_cache/\n"),
    ];
    let Some(env) = project(&files) else { return };
    let script = "if python3 -c 'import pytest' 2> /dev/null; then python3 -m pytest -q > /dev/null; fi\n\
                  python3 -m unittest -q 2> /dev/null\npython3 -m compileall -q .";
    let tried = fine(&env, &["small.py"], script, &[]);
    assert!(tried.value["ignored_at"].as_array().unwrap().contains(&json!("__pycache__")), "{}", tried.said);
}

#[test]
fn thousands_of_ignored_files_leave_no_finding() {
    let Some(env) = project(&[(".gitignore", "node_modules/\n"), ("src/a.txt", "a\n")]) else { return };
    let script = "mkdir -p node_modules/.bin\nfor p in 1 2 3; do mkdir -p node_modules/p$p/.github; \
                  echo registry=x > node_modules/p$p/.npmrc; echo K=1 > node_modules/p$p/.env; \
                  (cd node_modules/p$p; seq 1000 | xargs touch); ln -s ../p$p/1 node_modules/.bin/p$p; done\n\
                  echo b >> src/a.txt";
    let tried = fine(&env, &["src"], script, &["src/a.txt"]);
    assert_eq!(tried.value["ignored_files"], json!(3009), "{}", tried.said);
    assert_eq!(tried.value["ignored_at"], json!(["node_modules"]), "{}", tried.said);
}
