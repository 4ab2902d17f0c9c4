//! The loader that a program names: the kernel starts it in the program's place, so it has to be startable, too.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The loaders of the usual systems: programs of a package name one of them.
pub(super) const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// Where a 64-bit header has the place, the size and the number of its parts.
const PARTS_AT: usize = 32;
const PART_SIZE_AT: usize = 54;
const PARTS_AT_MOST: u16 = 64;
/// The part that names a loader, and where a part says its place and length.
const NAMES_LOADER: u32 = 3;
const NAME_AT: usize = 8;
const NAME_LENGTH_AT: usize = 32;
const NAME_BYTES_MAX: u64 = 4096;

/// The loader of a program, if it is one that has a loader.
pub(crate) fn loader(program: &Path) -> Option<PathBuf> {
    let mut file = File::open(program).ok()?;
    let mut header = [0; 64];
    file.read_exact(&mut header).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let (parts, size, count) = (long(&header, PARTS_AT)?, half(PART_SIZE_AT), half(PART_SIZE_AT + 2));
    (0..u64::from(count.min(PARTS_AT_MOST))).find_map(|index| {
        let mut part = [0; 56];
        file.read_exact_at(&mut part, parts.checked_add(index * u64::from(size))?).ok()?;
        if part[..4] != NAMES_LOADER.to_le_bytes() {
            return None;
        }
        let mut name = vec![0; long(&part, NAME_LENGTH_AT)?.min(NAME_BYTES_MAX) as usize];
        file.read_exact_at(&mut name, long(&part, NAME_AT)?).ok()?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(PathBuf::from(std::str::from_utf8(name).ok()?))
    })
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_its_loader_and_a_text_none() {
        let own = std::env::current_exe().expect("the test");
        assert!(loader(&own).is_none_or(|path| path.exists()), "{:?}", loader(&own));
        assert_eq!(loader(Path::new("/etc/passwd")), None);
    }
}
