//! The user's editor: the one program that is started as the user's own, with their terminal, because they asked for it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Opens a file in an editor, which may be a command line with arguments, as git has it, and waits for its end.
pub fn edit(editor: &OsStr, file: &Path) -> io::Result<ExitStatus> {
    let mut line = editor.to_owned();
    line.push(" \"$@\"");
    Command::new("/bin/sh").arg("-c").arg(line).arg("editor").arg(file).status()
}
