//! Debian packages whose programs tests start. In CI, as root, those that are missing are installed; anywhere else a
//! person decides what is on the machine, and tests that miss a program say so and are not run.

use crate::Outcome;
use crate::parts::must_pass;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program and the package that brings it.
const NEEDED: [(&str, &str); 10] = [
    ("chromium", "chromium"), // the page that is a client of the server
    ("git", "git"),
    ("jq", "jq"),                   // verify.sh in a bundle
    ("mkfs.ext4", "e2fsprogs"),     // the power-loss suite
    ("mount", "mount"),             // small disks, and the same suite
    ("openssl", "openssl"),         // verify.sh in a bundle
    ("python3", "python3"),         // agents that misbehave
    ("strace", "strace"),           // kills at system calls
    ("systemd-analyze", "systemd"), // the unit in the documentation
    ("unshare", "util-linux"),      // overlays
];

/// A module of Python and the package that brings it.
const MODULE: (&str, &str) = ("ensurepip", "python3-venv"); // schemathesis

/// Installs what is missing, if this is CI and root is asked.
pub(crate) fn install(in_ci: bool) -> Outcome {
    let programs = NEEDED.iter().filter(|(program, _)| !is_there(program)).map(|(_, name)| *name);
    let missing: Vec<&str> = programs.chain((!imports(MODULE.0)).then_some(MODULE.1)).collect();
    if missing.is_empty() {
        return Ok("all there".to_owned());
    }
    let listed = missing.join(" ");
    if !in_ci || !is_root() || !is_there("apt-get") {
        return Err(vec![format!("tests need packages that are not installed: {listed}")]);
    }
    let apt = |args: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::from(io::stderr()));
        must_pass(&mut apt)
    };
    apt(&["update", "--quiet"])?;
    apt(&[&["install", "--quiet", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
}

/// Whether a program is on the path, or where root's programs are.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let root_only = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(root_only).any(|dir: std::path::PathBuf| dir.join(program).is_file())
}

fn imports(module: &str) -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("import {module}")]).stdin(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|meta| meta.uid() == 0)
}
