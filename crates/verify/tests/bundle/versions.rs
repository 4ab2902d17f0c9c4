//! Bundles that earlier versions exported verify for ever after (`testing/logs/`).

use crate::world::problems;
use std::path::Path;
use std::process::Command;
use verify::verify;

#[test]
fn bundles_of_every_earlier_version_verify() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/logs");
    let mut bundles = 0;
    for archive in std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()) {
        if archive.extension().is_none_or(|it| it != "gz") {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let untar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(dir.path()).arg("bundles").status();
        assert!(untar.unwrap().success());
        let place = dir.path().join("bundles");
        let trusted = verify::read_keys(&place).unwrap();
        for bundle in std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()) {
            if bundle.extension().is_some_and(|it| it == "tar") {
                let report = verify(std::fs::File::open(&bundle).unwrap(), &trusted).unwrap();
                assert_eq!(problems(&report), [""; 0], "{}: {}", archive.display(), bundle.display());
                bundles += 1;
            }
        }
    }
    assert!(bundles >= 10, "{bundles}");
}
