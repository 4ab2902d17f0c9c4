//! The bytes of a blob, piece by piece. A small one is read at once. Of a large one no more than a piece is in memory,
//! however large it is: one that has a file of its own is unpacked from there, any other comes through a pipe from git.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};

use gix_object::Kind;
use gix_odb::loose;
use gix_zlib::stream::inflate;
use gix_zlib::{Decompress, FlushDecompress, Status};

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
    Loose(Box<Loose>),
    Git { child: Child, out: ChildStdout },
}

/// An object in a file of its own. git would map all of that file to read it.
struct Loose {
    file: BufReader<File>,
    state: Decompress,
    /// How many bytes are still to come.
    left: u64,
}

/// The longest header of an object: its kind, its size, and a zero byte.
const HEADER_BYTES_MAX: usize = 32;

impl Loose {
    /// The blob at this path; none if there is no such file.
    fn open(path: &Path) -> io::Result<Option<Loose>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let room = usize::try_from(file.metadata()?.len()).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let file = BufReader::with_capacity(room, file);
        let mut blob = Loose { file, state: Decompress::new(), left: 0 };
        let mut header = Vec::with_capacity(HEADER_BYTES_MAX);
        while !header.ends_with(&[0]) {
            let mut byte = [0];
            if header.len() == HEADER_BYTES_MAX || blob.unpack(&mut byte)? == 0 {
                return Err(io::Error::other("it has no header"));
            }
            header.push(byte[0]);
        }
        let size = header.strip_prefix(b"blob ").and_then(|rest| rest.strip_suffix(&[0]));
        let size = size.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
        blob.left = size.ok_or_else(|| io::Error::other("it is not a blob"))?;
        Ok(Some(blob))
    }

    /// The whole of a small one.
    fn into_bytes(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.left).map_err(io::Error::other)?);
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn unpack(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        inflate::read(&mut self.file, &mut self.state, buffer)
    }

    /// Whether nothing comes any more, and what came has the sum that stands behind it.
    fn has_ended(&mut self) -> io::Result<bool> {
        loop {
            let input = self.file.fill_buf()?;
            let (before, unpacked) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(input, &mut [0], FlushDecompress::None).map_err(io::Error::other)?;
            let taken = (self.state.total_in() - before) as usize;
            self.file.consume(taken);
            if self.state.total_out() > unpacked {
                return Ok(false);
            }
            if status == Status::StreamEnd || taken == 0 {
                return Ok(status == Status::StreamEnd);
            }
        }
    }
}

impl Read for Loose {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.unpack(&mut buffer[..wanted])?;
        self.left -= count as u64;
        if count == 0 || self.left == 0 && !self.has_ended()? {
            return Err(io::Error::other("it does not end where it says"));
        }
        Ok(count)
    }
}

impl Objects {
    /// Where an object is if it has a file of its own.
    pub(crate) fn loose_paths(&self, id: ObjectId) -> [PathBuf; 2] {
        self.directories().map(|objects| loose::Store::at(objects, self.format).object_path(&id))
    }

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
    /// Reads a blob from its beginning. One that has a file of its own is read from there: the library maps every such file,
    /// and taking it off the map again interrupts all processors that work for this process.
    pub(crate) fn blob(&self, id: ObjectId) -> Result<BlobReader, GitError> {
        for path in self.objects().loose_paths(id) {
            if let Some(blob) = Loose::open(&path).map_err(|error| unreadable(id, &error))? {
                self.count_read();
                return Ok(BlobReader(if blob.left < LARGE_BYTES_MIN {
                    Source::Memory(Cursor::new(blob.into_bytes().map_err(|error| unreadable(id, &error))?))
                } else {
                    Source::Loose(Box::new(blob))
                }));
            }
        }
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
            Source::Loose(blob) => blob.read(buffer),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_is_read_from_its_file_and_only_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = loose::Store::at(dir.path(), gix_hash::Kind::Sha1);
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let id = gix_object::Write::write_buf(&store, Kind::Blob, &bytes).unwrap();
        let path = store.object_path(&id);
        let read = |path: &Path| -> io::Result<Vec<u8>> { Loose::open(path)?.ok_or(ErrorKind::NotFound)?.into_bytes() };
        assert!(read(&path).unwrap() == bytes);
        assert!(Loose::open(&dir.path().join("none")).unwrap().is_none());
        let tree = gix_object::Write::write_buf(&store, Kind::Tree, b"").unwrap();
        assert!(read(&store.object_path(&tree)).is_err(), "it is a tree");
        let empty = gix_object::Write::write_buf(&store, Kind::Blob, b"").unwrap();
        assert!(read(&store.object_path(&empty)).unwrap().is_empty());

        let packed = std::fs::read(&path).unwrap();
        let other = dir.path().join("other");
        std::fs::write(&other, &packed[..packed.len() - 2]).unwrap();
        assert!(read(&other).is_err(), "its sum is missing");
        std::fs::write(&other, &packed[..packed.len() / 2]).unwrap();
        assert!(read(&other).is_err(), "half of it is missing");
        std::fs::write(&other, "no object").unwrap();
        assert!(read(&other).is_err(), "it is not packed");
    }
}
