//! An agent writes only into the directory of its step: whatever else it tries to write is nowhere when the run is
//! over, and nowhere in the next turn.

use super::confining;
use crate::environment::TestEnvironment;
use serde_json::json;
use std::path::Path;

/// Every path below a directory that ends in this name.
fn named(dir: &Path, name: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().contains(name) {
            found.push(path.display().to_string());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            named(&path, name, found);
        }
    }
}

#[test]
fn what_an_agent_writes_outside_of_its_step_directory_is_nowhere_afterwards() {
    if confining().is_none() {
        return;
    }
    let env = TestEnvironment::new(json!({}));
    let mark = format!("trace-of-{}", env.dir.file_name().unwrap().to_string_lossy());
    let places = format!(
        "'{{repo_root}}' '{{repo_root}}/src' '{{repo_root}}/.git' '{{repo_root}}/.git/hooks' '{{repo_root}}/..' \
         '{{repo_root}}/.norma' '{{repo_root}}/.norma/policies' '{{repo_root}}/.norma/git' '{{repo_root}}/.norma/cache' \
         '{{run_dir}}' '{{run_dir}}/steps' '{{run_dir}}/..' '{{step_dir}}/..' '{{run_dir}}/steps/001-plan' \
         '{{run_dir}}/steps/002-do' '{{run_dir}}/steps/009-act' \"$HOME\" '{dir}/home' '{dir}' '{dir}/tmp' \
         /tmp /var/tmp /dev/shm /dev /run /etc /usr/bin /usr/local/bin / /proc /sys",
        dir = env.dir.display(),
    );
    let write = format!(
        "for dir in {places}; do test ! -e \"$dir/{mark}\" || exit 7; done; \
         for dir in {places}; do test \"$dir\" != '{{step_dir}}' || continue; mkdir -p \"$dir\"; (echo x > \"$dir/{mark}\"); done 2> /dev/null; \
         test -e '{{repo_root}}/{mark}' -a -e \"$HOME/{mark}\" -a -e /tmp/{mark} || exit 8; \
         for file in '{{run_dir}}/steps/001-plan/input.json' '{{run_dir}}/steps/001-plan/manifest.json' \
         '{{repo_root}}/README.md' '{{repo_root}}/.git/config' '{{repo_root}}/.norma/config.json' /etc/passwd; do \
         (echo x >> \"$file\") 2> /dev/null; done; echo own > '{{step_dir}}/own'"
    );
    let write = json!({ "shell": write });
    let log = json!({"write": {"path": "files/test.log", "content": "ok\n"}});
    env.script(json!({
        "plan": [[write]],
        "do": [[write, log]],
        "check": [[write, {"verdict": "FAIL"}], [write, {"verdict": "PASS"}]],
        "act": [[write]],
    }));
    let before = env.repository();
    let own = [".norma/config.json", ".git/config"].map(|path| env.read(path));
    let output = env.norma(&["run", "1"]);
    assert!(env.last()["steps"].as_array().unwrap().len() >= 4, "{output}");
    let mut found = Vec::new();
    named(&env.dir, &mark, &mut found);
    for dir in ["/tmp", "/var/tmp", "/dev/shm", "/dev", "/run", "/etc", "/usr/bin", "/usr/local/bin", "/"] {
        let path = Path::new(dir).join(&mark);
        found.extend(path.exists().then(|| path.display().to_string()));
    }
    assert_eq!(found, Vec::<String>::new(), "{output}");
    assert_eq!(env.repository(), before);
    assert_eq!([".norma/config.json", ".git/config"].map(|path| env.read(path)), own);
    for step in std::fs::read_dir(env.run_dir().join("steps")).unwrap() {
        assert_eq!(std::fs::read_to_string(step.unwrap().path().join("own")).unwrap(), "own\n");
    }
    env.norma(&["verify", "@last"]).success();
}

#[test]
fn an_agent_reaches_nothing_that_its_configuration_does_not_name() {
    if confining().is_none() {
        return;
    }
    let env = TestEnvironment::new(json!({}));
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    service.set_nonblocking(true).unwrap();
    let port = service.local_addr().unwrap().port();
    let reach =
        format!("! perl -MIO::Socket::INET -e 'IO::Socket::INET->new(q(127.0.0.1:{port})) or die' 2> /dev/null");
    let log = json!({"write": {"path": "files/test.log", "content": "ok\n"}});
    env.script(json!({"plan": [[{"shell": reach}]], "do": [[{"shell": reach}, log]]}));
    env.norma(&["run", "1"]).success();
    assert!(service.accept().is_err(), "somebody came");
    // The same request from outside arrives.
    drop(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    assert!(service.accept().is_ok());
}
