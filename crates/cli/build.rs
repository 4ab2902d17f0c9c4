//! Tells norma and `norma-verify` from which commit they were built. The files of the repository are read instead of
//! asking git: a build needs no git, and the same commit always gives the same bytes. Outside of a repository the commit
//! is what `NORMA_COMMIT` says, else "unknown".
//!
//! Has the linker put functions that are hardly ever called, such as those that panic, beside each other instead of among
//! the others: the kernel maps code in pieces of 64 KB, and a batch held 4 MB of them for nothing. What unwinds the stack after
//! a panic becomes a part of the program where the compiler has it: a library of its own would be loaded at every start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of the commit that `--version` shows.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-env-changed=NORMA_COMMIT");
    let given = std::env::var("NORMA_COMMIT").ok().filter(|commit| is_id(commit));
    let commit = given.or_else(head).map_or_else(|| "unknown".to_owned(), |commit| commit[..DIGITS].to_owned());
    println!("cargo::rustc-env=NORMA_BUILD_COMMIT={commit}");
    // LLD, which rustc brings along since 1.90, keeps them apart; GNU's linker always does, and says that it ignores this.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,keep-text-section-prefix");
    if has_own_unwinder() {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Whether the C compiler that links has the unwinder as a static library: GCC does.
fn has_own_unwinder() -> bool {
    let is_gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let is_usual = std::env::var_os("RUSTC_LINKER").is_none() && std::env::var("HOST") == std::env::var("TARGET");
    let found = || Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    // A name that it does not know it answers as it is.
    is_gnu && is_usual && found().is_ok_and(|answer| answer.stdout.starts_with(b"/"))
}

/// The commit that is checked out, from `HEAD` and what it names.
fn head() -> Option<String> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let git_dir = git_dir(package.parent()?.parent()?)?;
    let common = match fs::read_to_string(git_dir.join("commondir")) {
        Ok(path) => git_dir.join(path.trim()),
        Err(_) => git_dir.clone(),
    };
    let head = watched(&git_dir.join("HEAD"))?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return is_id(head.trim()).then(|| head.trim().into()) };
    let packed = || {
        let refs = watched(&common.join("packed-refs"))?;
        let line = refs.lines().find(|line| line.strip_suffix(name).is_some_and(|id| id.ends_with(' ')))?;
        line.split(' ').next().map(str::to_owned)
    };
    let found = watched(&common.join(name)).map(|id| id.trim().to_owned()).or_else(packed);
    found.filter(|id| is_id(id))
}

/// `.git` of the workspace: a directory, or, in a linked work tree, a file that names it.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let text = fs::read_to_string(&dot_git).ok()?;
    Some(root.join(text.trim().strip_prefix("gitdir: ")?))
}

/// Reads a file; the next build looks again if it has changed. One that is not there is not watched, or every build would
/// run this script.
fn watched(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text)
}

fn is_id(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
