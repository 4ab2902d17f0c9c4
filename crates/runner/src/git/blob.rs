//! The bytes of a blob, piece by piece. A small one is read at once; a large one comes through a pipe from git, so that no
//! more than a piece of it is in memory, however large it is.

use std::io::{self, Cursor, Read};
use std::process::{Child, ChildStdout};

use gix_object::Kind;

use super::objects::{Objects, Reader};
use super::{GitError, ObjectId};

/// From this size on a blob is not read at once. Starting git costs a millisecond or two, which is nothing beside it.
pub(crate) const LARGE_BYTES_MIN: u64 = 8 << 20;

/// How much of a large blob is in memory.
const PIECE_BYTES: usize = 128 * 1024;

/// A blob that is being read.
pub(crate) struct BlobReader(Source);

enum Source {
    Memory(Cursor<Vec<u8>>),
    Git { child: Child, out: ChildStdout },
}

impl Objects {
    /// Reads a blob from its beginning.
    pub(crate) fn blob_reader(&self, id: ObjectId) -> Result<BlobReader, GitError> {
        self.reader()?.blob(id)
    }

    /// The first bytes of a blob.
    pub(crate) fn blob_beginning(&self, id: ObjectId, bytes_max: u64) -> Result<Vec<u8>, GitError> {
        let mut bytes = Vec::new();
        self.blob_reader(id)?.take(bytes_max).read_to_end(&mut bytes).map_err(|error| unreadable(id, &error))?;
        Ok(bytes)
    }
}

impl Reader<'_> {
    /// Reads a blob from its beginning.
    pub(crate) fn blob(&self, id: ObjectId) -> Result<BlobReader, GitError> {
        if self.size(id)? < LARGE_BYTES_MIN {
            return Ok(BlobReader(Source::Memory(Cursor::new(self.expect(id, Kind::Blob)?))));
        }
        self.count_read();
        let mut child = self.objects().git("cat-file").streaming().args(&["blob"]).id(id).spawn()?;
        let out = child.stdout.take().expect("BUG: what git prints comes through a pipe");
        Ok(BlobReader(Source::Git { child, out }))
    }

    /// Hands all bytes of a blob over, one piece after another.
    pub(crate) fn pieces(&self, id: ObjectId, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<u64, GitError> {
        let mut blob = self.blob(id)?;
        if let Source::Memory(bytes) = &blob.0 {
            each(bytes.get_ref()).map_err(|error| unreadable(id, &error))?;
            return Ok(bytes.get_ref().len() as u64);
        }
        let (mut piece, mut all) = (vec![0; PIECE_BYTES], 0);
        loop {
            let count = blob.read(&mut piece).map_err(|error| unreadable(id, &error))?;
            if count == 0 {
                return Ok(all);
            }
            each(&piece[..count]).map_err(|error| unreadable(id, &error))?;
            all += count as u64;
        }
    }
}

fn unreadable(id: ObjectId, error: &io::Error) -> GitError {
    GitError::BadObject { id, detail: error.to_string() }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Source::Memory(bytes) => bytes.read(buffer),
            Source::Git { child, out } => {
                let count = out.read(buffer)?;
                // Its end is the blob's end only if git says so.
                if count == 0 && !buffer.is_empty() && !child.wait()?.success() {
                    return Err(io::Error::other("git could not read it to its end"));
                }
                Ok(count)
            }
        }
    }
}

impl Drop for BlobReader {
    fn drop(&mut self) {
        if let Source::Git { child, .. } = &mut self.0 {
            // Whoever has read enough does not wait for the rest.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
