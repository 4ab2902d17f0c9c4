//! What a node is referred to: the files of earlier turns that a handoff or a message names. Their directories are shown to
//! the agent, read-only, and it is told where they are and how they begin. They are norma's own copies, without secrets.

use crate::Result;
use crate::record::Driver;
use run::TurnSpec;
use run::prompt::Attached;
use run::workflow::graph::references::{Referred, referred};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How much of a file is told with the prompt, and of all of them: the agent can read the rest.
const TOLD_BYTES_MAX: u64 = 4 << 10;
const ALL_TOLD_BYTES_MAX: usize = 16 << 10;

/// Most directories that are shown besides the node's own.
const DIRS_MAX: usize = 16;

/// Has a turn's agent see what it is referred to.
pub(super) fn attach(driver: &Driver<'_, '_>, spec: &mut TurnSpec) -> Result<()> {
    let found = referred(&driver.run, spec);
    if found.is_empty() {
        return Ok(());
    }
    let run_dir = driver.run_dir();
    let (mut attached, mut dirs, mut bytes) = (Vec::new(), Vec::new(), 0);
    for Referred { reference, file } in found {
        let Some((kind, dir, path)) = file else {
            attached.push(Attached { reference, kind: None, path: None, begins: String::new(), cut: false });
            continue;
        };
        let is_shown = spec.look_back.dirs.contains(&dir) || dirs.contains(&dir);
        if !is_shown && dirs.len() < DIRS_MAX {
            dirs.push(dir.clone());
        }
        let at = run_dir.join(&dir).join(path);
        let (begins, cut) = beginning(&at, bytes);
        bytes += begins.len();
        let path = at.exists().then(|| at.to_string_lossy().into_owned());
        attached.push(Attached { reference, kind: Some(kind), path, begins, cut });
    }
    spec.look_back.dirs.extend(dirs);
    if let Some(node) = &mut spec.node {
        node.attached = attached;
    }
    Ok(())
}

/// How a file begins, as far as there is room, and whether there is more of it.
fn beginning(path: &Path, told: usize) -> (String, bool) {
    let most = TOLD_BYTES_MAX.min(ALL_TOLD_BYTES_MAX.saturating_sub(told) as u64);
    let mut bytes = Vec::new();
    let Ok(file) = File::open(path) else { return (String::new(), false) };
    let whole = file.metadata().map(|it| it.len()).unwrap_or_default();
    let read = file.take(most).read_to_end(&mut bytes).is_ok();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if read { (text, whole > most) } else { (String::new(), true) }
}
