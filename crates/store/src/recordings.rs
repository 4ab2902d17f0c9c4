//! Recordings of compiled intents: one file for each key, there whole or not at all, and believed only as far as it vouches
//! for itself.

use crate::evidence::{read_at_most, sync_dir, temporary_name};
use crate::seal::write_via;
use crate::{Error, IoContext, Layout, Result};
use contract::Digest;
use contract::documents::Recording;
use contract::documents::intent::RECORDING_BYTES_MAX;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// The recording of a key, if there is one.
pub fn recording(layout: &Layout, key: &Digest) -> Result<Option<Recording>> {
    let path = layout.recording(key);
    let bytes = match read_at_most(&path, RECORDING_BYTES_MAX as u64 + 1) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let damaged = |why: String| Error::Damaged { log: layout.shown(&path), why };
    Recording::read(&bytes, key)
        .map(Some)
        .map_err(|problems| damaged(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
}

/// Keeps a recording in the place of an earlier one of its key; it is on the disk when this answers where.
pub fn keep_recording(layout: &Layout, recording: &Recording) -> Result<PathBuf> {
    let (dir, path) = (layout.recordings(), layout.recording(&recording.key));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).at("create", &dir)?;
    let tmp = temporary_name(&path);
    write_via(&tmp, &path, &recording.to_bytes()).inspect_err(|_| drop(std::fs::remove_file(&tmp)))?;
    sync_dir(&dir)?;
    sync_dir(&layout.state)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::documents::intent::Transcript;
    use contract::documents::{CompileAnswer, CompileOutput, CompileRequest, Intent};
    use serde_json::json;

    fn layout() -> (tempfile::TempDir, Layout) {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path(), None);
        std::fs::create_dir(&layout.state).unwrap();
        (folder, layout)
    }

    fn said(test: &str) -> Recording {
        let intent = Intent::read(br#"{"goal":"g","inputs":{},"constraints":{}}"#).unwrap();
        let request = CompileRequest { intent, schema_version: 0, seed: String::new() };
        let answer = json!({"plan": {"nodes": [{"id": "a", "kind": "io", "deps": []}]}, "patch": {"files": []},
            "tests": [test]});
        let transcript = Transcript {
            run_id: "r".to_owned(),
            session_id: "s".to_owned(),
            agent: "opencode".to_owned(),
            model: None,
            text: String::new(),
        };
        Recording::new(request, CompileOutput::new(CompileAnswer::read(answer).unwrap(), transcript))
    }

    #[test]
    fn a_recording_takes_the_place_of_the_one_before_it_and_nothing_else_is_left() {
        let (_folder, layout) = layout();
        let key = said("one").key;
        assert_eq!(recording(&layout, &key).unwrap(), None);
        for test in ["one", "two"] {
            keep_recording(&layout, &said(test)).unwrap();
            assert_eq!(recording(&layout, &key).unwrap(), Some(said(test)));
        }
        assert_eq!(std::fs::read_dir(layout.recordings()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let (_folder, layout) = layout();
        // A directory under the recording's name: the new file is written and cannot be renamed.
        std::fs::create_dir_all(layout.recording(&said("one").key).join("in the way")).unwrap();
        assert!(keep_recording(&layout, &said("one")).is_err());
        assert_eq!(std::fs::read_dir(layout.recordings()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_no_recording_is_damage_and_not_an_absence() {
        let (_folder, layout) = layout();
        let path = keep_recording(&layout, &said("one")).unwrap();
        for bytes in [&b""[..], b"{}", &said("one").to_bytes()[1..]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(recording(&layout, &said("one").key), Err(Error::Damaged { .. })));
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(recording(&layout, &said("one").key), Err(Error::Io { .. })));
    }
}
