//! The text of a hook: a few lines of shell that run the hook that was there before and then ask norma. Writing and
//! recognising them is one matter, so that norma only ever replaces or removes exactly what it wrote.

use super::{ASIDE, Hook};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The second line of every hook of norma's.
const MARK: &str = "# Installed by norma (norma help hooks); `norma hooks uninstall` removes it.";

/// What begins the line that names the program.
const PROGRAM: &[u8] = b"norma=";

/// What a finding means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The commit or the push is refused.
    Enforce,
    /// It is only told.
    Advisory,
}

impl Mode {
    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Advisory => "advisory",
        }
    }
}

/// What is in the place of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// Exactly what norma writes, in this mode.
    Ours(Mode),
    /// Something that norma wrote and somebody changed.
    Changed,
    /// Somebody else's.
    Theirs,
}

/// The text of a hook that calls this program.
pub(super) fn render(hook: Hook, norma: &Path, mode: Mode) -> Vec<u8> {
    with_program(hook, &quoted(norma.as_os_str().as_bytes()), mode)
}

/// Tells what a file in the place of a hook is.
pub(super) fn found(hook: Hook, text: &[u8]) -> Found {
    let mut lines = text.split(|byte| *byte == b'\n');
    if lines.nth(1) != Some(MARK.as_bytes()) {
        return Found::Theirs;
    }
    let program = lines.find_map(|line| line.strip_prefix(PROGRAM)).unwrap_or_default();
    let written = |mode: &Mode| with_program(hook, program, *mode) == text;
    [Mode::Enforce, Mode::Advisory].into_iter().find(written).map_or(Found::Changed, Found::Ours)
}

fn with_program(hook: Hook, program: &[u8], mode: Mode) -> Vec<u8> {
    let (name, word) = (hook.name(), mode.as_str());
    // git tells a pre-push hook on its standard input what is pushed, and both hooks have to hear it, to the last newline:
    // the shell drops those at the end of what it keeps, hence the dot.
    let (read, pipe) = match hook {
        Hook::PreCommit => ("", ""),
        Hook::PrePush => ("lines=$(cat && echo .)\n", "printf %s \"${lines%.}\" | "),
    };
    let begin = format!(
        "#!/bin/sh\n{MARK}\n{read}if [ -x \"$0{ASIDE}\" ]; then\n    {pipe}\"$0{ASIDE}\" \"$@\" || exit $?\nfi\n"
    );
    let end = format!(
        "[ -x \"$norma\" ] || norma=norma\n{pipe}\"$norma\" hooks run {name} --mode {word} -- \"$@\"{}\n",
        match mode {
            Mode::Enforce => "",
            // Not even a norma that cannot be found keeps anybody from working.
            Mode::Advisory => " || exit 0",
        }
    );
    [begin.as_bytes(), PROGRAM, program, b"\n", end.as_bytes()].concat()
}

/// A word of the shell that means exactly these bytes.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => word.extend(b"'\\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norma_knows_exactly_what_it_wrote() {
        for hook in Hook::ALL {
            for mode in [Mode::Enforce, Mode::Advisory] {
                let text = render(hook, Path::new("/opt/it's here/norma"), mode);
                assert_eq!(found(hook, &text), Found::Ours(mode));
                assert_eq!(found(hook, &[&text[..], b"echo mine\n"].concat()), Found::Changed);
            }
        }
        let pre_commit = render(Hook::PreCommit, Path::new("/norma"), Mode::Enforce);
        assert_eq!(found(Hook::PrePush, &pre_commit), Found::Changed);
        for theirs in [&b""[..], b"#!/bin/sh\nexit 0\n", b"\xff\x00"] {
            assert_eq!(found(Hook::PreCommit, theirs), Found::Theirs);
        }
    }

    #[test]
    fn a_hook_is_a_few_lines_of_shell() {
        let text = render(Hook::PrePush, Path::new("/opt/it's/norma"), Mode::Enforce);
        let expected = r#"#!/bin/sh
# Installed by norma (norma help hooks); `norma hooks uninstall` removes it.
lines=$(cat && echo .)
if [ -x "$0.before-norma" ]; then
    printf %s "${lines%.}" | "$0.before-norma" "$@" || exit $?
fi
norma='/opt/it'\''s/norma'
[ -x "$norma" ] || norma=norma
printf %s "${lines%.}" | "$norma" hooks run pre-push --mode enforce -- "$@"
"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
