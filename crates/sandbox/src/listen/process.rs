//! Looking at a process that waits for an answer.
//!
//! Everything is read from `/proc` as the caller sees it. What is read belongs to the process only if it still waits
//! afterwards, which whoever asks looks at.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Longest word, and most words, that are read.
const WORD_BYTES_MAX: usize = 4096;
const WORDS_MAX: usize = 512;
const ALL_BYTES_MAX: usize = 64 * 1024;

/// Bytes read at once: never past the end of a page of memory.
const CHUNK_BYTES: u64 = 256;

/// A process, which no later one with its number is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) process: u32,
    /// When it was made, in the kernel's ticks.
    since: u64,
}

/// The process that a thread belongs to, and its parent.
pub(super) fn identify(thread: u32) -> Option<(Id, u32)> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
    Some((id_of(field("Tgid:")?)?, field("PPid:")?))
}

/// A process by its number.
pub(super) fn id_of(process: u32) -> Option<Id> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let since = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(Id { process, since })
}

/// What a process says that it wants to become.
pub(super) struct Words {
    path: PathBuf,
    pub(super) argv: Vec<String>,
}

impl Words {
    /// The words of `execve`.
    pub(super) fn of(thread: u32, path: u64, argv: u64) -> Self {
        let at = |path: &Path| fs::read_link(format!("/proc/{thread}/cwd")).map(|cwd| cwd.join(path));
        Self::read(thread, path, argv, at)
    }

    /// The words of `execveat`.
    pub(super) fn at(thread: u32, directory: i32, path: u64, argv: u64) -> Self {
        let base = match directory {
            libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
            _ => format!("/proc/{thread}/fd/{directory}"),
        };
        Self::read(thread, path, argv, |path| match path.as_os_str().is_empty() {
            true => fs::read_link(&base),
            false => fs::read_link(&base).map(|base| base.join(path)),
        })
    }

    fn read(thread: u32, path: u64, argv: u64, at: impl Fn(&Path) -> std::io::Result<PathBuf>) -> Self {
        let memory = File::open(format!("/proc/{thread}/mem")).ok();
        let named = memory.as_ref().and_then(|memory| word(memory, path)).unwrap_or_default();
        let named = PathBuf::from(String::from_utf8_lossy(&named).into_owned());
        let path = if named.is_absolute() { named } else { at(&named).unwrap_or(named) };
        let mut words = memory.as_ref().map(|memory| words(memory, argv)).unwrap_or_default();
        if words.is_empty() {
            words.push(path.to_string_lossy().into_owned());
        }
        Self { path, argv: words }
    }

    /// The file that is meant, as the process would find it; none where it is reached past the directories, or is not
    /// there.
    pub(super) fn resolve(&self, thread: u32) -> Option<PathBuf> {
        let root = File::open(format!("/proc/{thread}/root")).ok()?;
        let (flags, inside) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::IN_ROOT);
        let file = rustix::fs::openat2(&root, &self.path, flags, Mode::empty(), inside).ok()?;
        fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
    }

    /// Whether there is something to be started: a file, or what no directory leads to.
    pub(super) fn is_there(&self, found: Option<&Path>) -> bool {
        found.is_some() || self.path.starts_with("/proc") || !self.path.is_absolute()
    }
}

/// What a process is by the kernel's word.
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) argv: Vec<String>,
    /// Differs from what it was before.
    pub(super) mark: u64,
}

impl Image {
    pub(super) fn of(process: u32) -> Option<Self> {
        let link = format!("/proc/{process}/exe");
        let path = fs::read_link(&link).ok()?;
        let meta = fs::metadata(&link).ok()?;
        let mut bytes = Vec::new();
        let cmdline = File::open(format!("/proc/{process}/cmdline")).ok()?;
        cmdline.take(ALL_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
        let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
        let argv: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let mut hasher = DefaultHasher::new();
        (meta.dev(), meta.ino(), &argv).hash(&mut hasher);
        // Never what nothing was looked at is marked with.
        Some(Self { path, argv, mark: hasher.finish() | 1 })
    }
}

fn words(memory: &File, list: u64) -> Vec<String> {
    let mut words = Vec::new();
    let mut total = 0;
    for index in 0..WORDS_MAX as u64 {
        let mut pointer = [0; 8];
        let Some(at) = list.checked_add(index * 8) else { break };
        if list == 0 || memory.read_exact_at(&mut pointer, at).is_err() {
            break;
        }
        let Some(bytes) = Some(u64::from_ne_bytes(pointer)).filter(|it| *it != 0).and_then(|at| word(memory, at))
        else {
            break;
        };
        total += bytes.len();
        words.push(String::from_utf8_lossy(&bytes).into_owned());
        if total > ALL_BYTES_MAX {
            break;
        }
    }
    words
}

/// A text that ends with a zero byte.
fn word(memory: &File, mut at: u64) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    while word.len() < WORD_BYTES_MAX {
        let room = CHUNK_BYTES - at % CHUNK_BYTES;
        let mut chunk = [0; CHUNK_BYTES as usize];
        let read = memory.read_at(&mut chunk[..room as usize], at).ok().filter(|count| *count > 0)?;
        match chunk[..read].iter().position(|byte| *byte == 0) {
            Some(end) => {
                word.extend_from_slice(&chunk[..end]);
                return Some(word);
            }
            None => word.extend_from_slice(&chunk[..read]),
        }
        at = at.checked_add(read as u64)?;
    }
    Some(word)
}

/// The bytes of a process's memory.
pub(super) fn bytes(thread: u32, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    File::open(format!("/proc/{thread}/mem")).ok()?.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}
