//! The tools of norma's own that the agent of a node has: how its sandbox gets them, and the program that serves them inside.
//! That is norma itself, started by the agent. It appends what is called to a file in the turn's directory, the only place
//! that both have, and answers; it has no rights that the agent does not have.

use contract::graph::CALLS_FILE;
use sandbox::Placed;
use session::{NODE_TOOLS, Reply, ToolServer, answer_node};
use std::fs::OpenOptions;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};

/// The name of norma's program in the home of an agent's sandbox.
const NORMA: &str = "norma";

/// A longer line is no call of any of the tools, and the end of the conversation.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The tools, which note what is called in the turn's directory.
pub(super) fn server(norma: &Path, step_dir: &str) -> ToolServer {
    let command = norma.to_string_lossy().into_owned();
    ToolServer { command, args: vec![NODE_TOOLS.to_owned(), format!("{step_dir}/{CALLS_FILE}")] }
}

/// Norma's program as an agent finds it, and how it comes to be there. It has a place of its own inside, since it may lie
/// anywhere, in the repository even, whose path is the run's tree there.
pub(super) fn norma_inside(program: &Path, home: Option<&Path>) -> (PathBuf, Option<Placed>) {
    let Some(home) = home else { return (program.to_owned(), None) };
    let path = home.join(NORMA);
    let reason = "the tools of the graph that the agent is a node of".to_owned();
    (path.clone(), Some(Placed { source: program.to_owned(), path, writable: false, reason }))
}

/// Whether these are the arguments of the server.
pub fn is_asked(first: &std::ffi::OsStr) -> bool {
    first == NODE_TOOLS
}

/// Serves the tools on the standard streams until they end; what is called is appended to this file.
///
/// # Errors
/// If a stream or the file fails.
pub fn serve(calls: &Path) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 || read as u64 == LINE_BYTES_MAX {
            return Ok(());
        }
        let Reply { call, line: told } = answer_node(&line);
        if let Some(call) = call {
            OpenOptions::new().append(true).create(true).open(calls)?.write_all(&call)?;
        }
        if let Some(told) = told {
            output.write_all(&told)?;
            output.flush()?;
        }
    }
}
