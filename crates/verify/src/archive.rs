//! The archive, strictly: regular files below `bundle/` in ascending order, each with the one header that its name and
//! size have, zeros after it up to a whole block, two blocks of zeros at the end and nothing behind them. No byte is
//! without a rule, so no byte can be changed unseen.

use contract::bundle::{BLOCK, END, ROOT, claims, header, padding};
use std::collections::HashSet;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;

/// How much is read at a time: a whole number of blocks, so that a header is never cut.
const READ_BYTES: usize = 256 * 1024;

/// How many buffers wait to be used again.
const BUFFERS_MAX: usize = 128;

/// What is wrong with an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It ends in the middle.
    #[error("ends too early, in or after {0}")]
    Short(String),
    /// A header that norma would not write.
    #[error("the header of {name:?}, after {after}, differs from the one header of such a file at byte {byte}")]
    Header {
        /// The file that it claims to be.
        name: String,
        /// The file before it.
        after: String,
        /// Which byte of the header.
        byte: usize,
    },
    /// A header that says nothing.
    #[error("what follows {0} is not the header of a file")]
    NoHeader(String),
    /// A name that norma would not write.
    #[error("{0:?} is not below {ROOT}, or not a plain path")]
    Place(String),
    /// A file that is there twice, or out of its place.
    #[error("{name} is out of order, or there twice: it follows {after}")]
    Order {
        /// The file that is out of order.
        name: String,
        /// The file before it.
        after: String,
    },
    /// Two files that are one on some disks.
    #[error("{0} is the same file as another one on a disk that ignores case")]
    Twin(String),
    /// Something where zeros belong.
    #[error("the padding after {0} is not zero")]
    Padding(String),
    /// Something after the end.
    #[error("something follows the end of the archive, after {0}")]
    Trailing(String),
}

/// A part of a buffer that hashers share.
#[derive(Clone)]
pub(crate) struct Piece {
    block: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

/// A file of the archive.
pub(crate) struct Entry {
    /// Below the root.
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// An archive that is read once, from its beginning to its end.
pub(crate) struct Archive<R> {
    from: R,
    /// What was read last, and how far it is used up.
    block: Arc<Vec<u8>>,
    at: usize,
    /// Buffers, the oldest first.
    buffers: std::collections::VecDeque<Arc<Vec<u8>>>,
    last: String,
    folded: HashSet<String>,
}

/// Why reading stops: the archive is damaged, or the disk.
pub(crate) enum Stop {
    Damaged(Damage),
    Io(std::io::Error),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Stop {
        Stop::Damaged(damage)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Io(error)
    }
}

impl<R: Read> Archive<R> {
    pub(crate) fn new(from: R) -> Archive<R> {
        Archive {
            from,
            block: Arc::default(),
            at: 0,
            buffers: Default::default(),
            last: "its beginning".to_owned(),
            folded: HashSet::new(),
        }
    }

    /// The next file; its content, then its padding must be read before the one after it.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Stop> {
        let block: [u8; BLOCK] = self.whole_block()?;
        if block == END[..BLOCK] {
            return self.end().map(|()| None);
        }
        let (name, size) = claims(&block).ok_or_else(|| Damage::NoHeader(self.last.clone()))?;
        let made = header(&name, size).ok_or_else(|| Damage::NoHeader(self.last.clone()))?;
        if let Some(byte) = (0..BLOCK).find(|at| made[*at] != block[*at]) {
            return Err(Damage::Header { name, after: self.last.clone(), byte }.into());
        }
        let plain = |name: &str| name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let Some(below) = name.strip_prefix(ROOT).filter(|below| plain(below)).map(str::to_owned) else {
            return Err(Damage::Place(name).into());
        };
        if !self.folded.is_empty() && below <= self.last {
            return Err(Damage::Order { name: below, after: self.last.clone() }.into());
        }
        if !self.folded.insert(contract::path::fold(&below)) {
            return Err(Damage::Twin(below).into());
        }
        self.last.clone_from(&below);
        Ok(Some(Entry { name: below, size }))
    }

    /// The next bytes of a file, at most so many.
    pub(crate) fn piece(&mut self, most: u64) -> Result<Piece, Stop> {
        self.fill()?;
        let left = self.block.len() - self.at;
        if left == 0 {
            return Err(Damage::Short(self.last.clone()).into());
        }
        let range = self.at..self.at + usize::try_from(most).unwrap_or(left).min(left);
        self.at = range.end;
        Ok(Piece { block: self.block.clone(), range })
    }

    /// The zeros after a file of this size.
    pub(crate) fn padding(&mut self, size: u64) -> Result<(), Stop> {
        let mut left = padding(size);
        while left > 0 {
            let piece = self.piece(left as u64)?;
            if piece.bytes().iter().any(|byte| *byte != 0) {
                return Err(Damage::Padding(self.last.clone()).into());
            }
            left -= piece.bytes().len();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        if self.whole_block()? != END[..BLOCK] {
            return Err(Damage::Padding(self.last.clone()).into());
        }
        self.fill()?;
        if self.at < self.block.len() {
            return Err(Damage::Trailing(self.last.clone()).into());
        }
        Ok(())
    }

    fn whole_block(&mut self) -> Result<[u8; BLOCK], Stop> {
        let piece = self.piece(BLOCK as u64)?;
        piece.bytes().try_into().map_err(|_| Damage::Short(self.last.clone()).into())
    }

    /// Reads on if everything is used up; a buffer that no hasher has any more is used again.
    fn fill(&mut self) -> Result<(), Stop> {
        if self.at < self.block.len() {
            return Ok(());
        }
        let spent = std::mem::take(&mut self.block);
        self.buffers.push_back(spent);
        let mut next = self.buffers.pop_front().unwrap_or_default();
        if Arc::get_mut(&mut next).is_none() {
            if self.buffers.len() < BUFFERS_MAX {
                self.buffers.push_back(next);
            }
            next = Arc::default();
        }
        let buffer = Arc::get_mut(&mut next).expect("BUG: nobody else has this buffer");
        buffer.resize(READ_BYTES, 0);
        let mut filled = 0;
        while filled < READ_BYTES {
            match self.from.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        buffer.truncate(filled);
        (self.block, self.at) = (next, 0);
        Ok(())
    }
}
