//! The oldest glibc that programs run on: the newest version among the symbols that they need. It is read from the names
//! in the programs themselves, so that nobody has to remember on which machine they were built.

use std::path::Path;

/// What a versioned symbol's version begins with.
const PREFIX: &[u8] = b"GLIBC_";

/// The oldest glibc for all of these programs.
pub(super) fn oldest(dir: &Path, programs: &[&str]) -> Result<String, String> {
    let mut newest = Vec::new();
    for program in programs {
        let path = dir.join(program);
        let bytes = std::fs::read(&path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
        newest.extend(needed(&bytes));
    }
    let newest = newest.into_iter().max().ok_or("the programs need no glibc")?;
    Ok(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

/// Every version of glibc that a program names.
fn needed(program: &[u8]) -> Vec<Vec<u32>> {
    let starts = program.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    let version = |(at, _): (usize, &[u8])| {
        let rest = &program[at + PREFIX.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let text = std::str::from_utf8(&rest[..end]).ok().filter(|_| rest[end] == 0)?;
        text.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()
    };
    starts.filter_map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let program = b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0GLIBC_2.99 is in a text\0";
        let mut found = needed(program);
        found.sort();
        assert_eq!(found, [vec![2, 2, 5], vec![2, 9], vec![2, 34]]);
    }
}
