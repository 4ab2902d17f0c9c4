//! The server as a service: what the documentation has for it is checked by what would run it.

use crate::environment::TestEnvironment;
use std::path::Path;

#[test]
fn the_unit_in_the_documentation_is_one_that_systemd_accepts() {
    let env = TestEnvironment::bare();
    if !["/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join("systemd-analyze").exists()) {
        let reason = "systemd-analyze is not installed (Debian's package systemd)";
        assert!(!not_run::in_ci(), "{reason}");
        return not_run::because(reason);
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.md");
    let page = std::fs::read_to_string(page).unwrap();
    let unit = page.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    // The program is looked for, so it is the one that is there.
    let unit = unit.replace("/usr/local/bin/norma", env!("CARGO_BIN_EXE_norma"));
    std::fs::write(env.dir.join("norma.service"), &unit).unwrap();
    let output = env.output_of("systemd-analyze", &["verify", &env.at("norma.service")]);
    // What it ignores it tells, and calls good.
    let about = output.raw_err.lines().filter(|line| line.contains("norma.service")).collect::<Vec<_>>();
    assert_eq!((output.code(), about), (Some(0), Vec::new()), "{unit}");
}
