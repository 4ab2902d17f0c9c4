//! What the kernel starts when it starts an agent: its program, and the interpreters that scripts name on their first
//! line.

use sandbox::Root;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How often an interpreter may be a script itself. The kernel ends sooner.
const DEPTH_MAX: usize = 8;

/// The longest first line that the kernel reads.
const LINE_BYTES_MAX: u64 = 256;

/// The files, by their real names.
pub(crate) fn startable(program: &Path, path: &str) -> Vec<Root> {
    let mut startable: Vec<Root> = Vec::new();
    let mut due = vec![(program.to_owned(), "the agent's own program")];
    while let Some((program, reason)) = due.pop() {
        let Ok(real) = program.canonicalize() else { continue };
        if startable.len() >= DEPTH_MAX || startable.iter().any(|root| root.path == real) {
            continue;
        }
        due.extend(interpreters(&real, path).into_iter().map(|it| (it, "its interpreter")));
        startable.push(Root::new(real, reason));
    }
    startable
}

/// What a script names on its first line: a program, and with `env` the one that this looks for.
fn interpreters(script: &Path, path: &str) -> Vec<PathBuf> {
    let mut bytes = Vec::new();
    let read = File::open(script).and_then(|file| file.take(LINE_BYTES_MAX).read_to_end(&mut bytes));
    let line = bytes.split(|byte| *byte == b'\n').next().filter(|_| read.is_ok());
    let Some(line) = line.and_then(|line| std::str::from_utf8(line).ok()?.strip_prefix("#!")) else {
        return Vec::new();
    };
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next().map(PathBuf::from) else { return Vec::new() };
    let looks_for = interpreter.file_name().is_some_and(|name| name == "env");
    let named = words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|_| looks_for);
    let found = named.and_then(|name| crate::process::resolve(name, path.as_ref(), Path::new("/")));
    [interpreter].into_iter().chain(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_brings_its_interpreters() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(at(name), text).unwrap();
            std::fs::set_permissions(at(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        };
        write("tool", "no script");
        write("agent", "#!/usr/bin/env -S tool --x\n");
        std::os::unix::fs::symlink(at("agent"), at("link")).unwrap();
        let paths: Vec<_> = startable(&at("link"), at("").to_str().unwrap()).into_iter().map(|it| it.path).collect();
        let env = Path::new("/usr/bin/env").canonicalize().unwrap();
        assert_eq!(paths, [at("agent"), at("tool"), env]);
        assert_eq!(startable(&at("tool"), "").len(), 1);
        assert_eq!(startable(&at("missing"), "").len(), 0);
    }
}
