//! What a program that did not come to speak said about it: the line of its stderr that names the cause. Programs print it
//! among stack traces, hints and versions, each in its own place, so a line is looked for that reads like one.

use crate::limits;
use crate::wire;

/// What begins or ends the name of an error, or is said where something is not there; small letters.
const CAUSES: [&str; 14] = [
    "error:",
    "exception:",
    "error -",
    "fatal:",
    "panicked at",
    "cannot find",
    "can't open",
    "not found",
    "no such file",
    "no module named",
    "permission denied",
    "cannot open shared object",
    "unsupported",
    "unknown option",
];

/// The line that names the cause: the last one that reads like it, else the last one that says anything.
pub fn cause(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| says_something(line)).collect();
    let names_it = |line: &&&str| {
        let line = line.to_ascii_lowercase();
        CAUSES.iter().any(|word| line.contains(word))
    };
    let found = lines.iter().rev().find(names_it).or(lines.last())?;
    Some(wire::clip(found, limits::ERROR_BYTES_MAX).to_owned())
}

/// A frame of a stack, a bracket or the version of an interpreter says nothing.
fn says_something(line: &str) -> bool {
    let is_frame = line.starts_with("at ") || line.starts_with("File \"") || line.starts_with("Node.js v");
    !is_frame && line.chars().filter(|c| c.is_alphabetic()).count() > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stderr: &str, expected: Option<&str>) {
        assert_eq!(cause(stderr.as_bytes()).as_deref(), expected, "{stderr}");
    }

    #[test]
    fn the_line_that_names_the_cause_is_found() {
        check(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/cli.js'\n    \
             at Module._resolveFilename (node:internal)\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2\n",
            Some("Error: Cannot find module '/x/cli.js'"),
        );
        check(
            "Traceback (most recent call last):\n  File \"/x/tool\", line 3, in <module>\n    import vibe\n\
             ModuleNotFoundError: No module named 'vibe'\n",
            Some("ModuleNotFoundError: No module named 'vibe'"),
        );
        check("env: 'node': No such file or directory\n", Some("env: 'node': No such file or directory"));
        check("starting\nplease sign in first\n\n}\n", Some("please sign in first"));
        check("\n  \n^\n", None);
    }
}
