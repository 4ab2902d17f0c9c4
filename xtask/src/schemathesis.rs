//! `cargo xtask schemathesis`: installs what checks the server against its own document, at the versions of
//! `testing/schemathesis/requirements.txt`, in a virtual environment below `target/schemathesis/`.

use crate::Outcome;
use crate::agents::{STAMP, digest, empty_stamp};
use crate::parts::{must_pass, tell};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

const LOCK: &str = "testing/schemathesis/requirements.txt";
/// The test of the server looks for it there.
const PLACE: &str = "target/schemathesis";

pub(crate) fn run(root: &Path) -> Outcome {
    let one = |problem: String| vec![problem];
    let (lock, place) = (root.join(LOCK), root.join(PLACE));
    let digest = digest(&lock).map_err(one)?;
    if fs::read_to_string(place.join(STAMP)).is_ok_and(|installed| installed == digest) {
        return Ok(format!("{PLACE} is as {LOCK} says"));
    }
    tell(&format!("schemathesis: installing {LOCK} in {PLACE}"));
    empty_stamp(&place).map_err(|error| one(format!("could not prepare {}: {error}", place.display())))?;
    let mut environment = Command::new("python3");
    must_pass(environment.args(["-m", "venv", "--clear"]).arg(&place).stdout(Stdio::from(io::stderr())))?;
    // Nothing but what the digests name, and nothing that would have to be built by code of others.
    let mut pip = Command::new(place.join("bin/pip"));
    pip.args(["install", "--quiet", "--require-hashes", "--only-binary=:all:", "--requirement"]).arg(&lock);
    must_pass(pip.stdout(Stdio::from(io::stderr())))?;
    let stamp = place.join(STAMP);
    fs::write(&stamp, digest).map_err(|error| one(format!("could not write {}: {error}", stamp.display())))?;
    Ok(format!("{LOCK} is installed in {PLACE}"))
}
