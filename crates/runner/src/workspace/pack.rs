//! A small pack, written here: whole objects, none as a difference to another, and its index of version 2.
//!
//! Two files in one directory instead of a file and mostly a directory for every object. For a few dozen objects that is
//! quicker than starting git, too.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use gix_object::Kind;
use gix_zlib::Compression;
use gix_zlib::stream::deflate;

use crate::git::objects::Reader;
use crate::git::{GitError, IoContext, ObjectId};

/// How many objects are packed here. Of more of them git makes a smaller pack, with both processors.
const OBJECTS_MAX: usize = 1000;

/// How large a pack may become, since it is made in memory. The offsets of an index have far more room.
const BYTES_MAX: usize = 8 << 20;

/// Of what is no larger, packing takes far longer than writing: each object begins with tables of its own, and names of other
/// objects, which are most of a tree, cannot be made smaller.
const STORED_BYTES_MAX: usize = 64 << 10;

/// How much a block of a zlib stream holds as it is.
const BLOCK_BYTES_MAX: usize = 0xffff;

/// One object in a pack.
struct Packed {
    id: ObjectId,
    offset: u32,
    crc: u32,
}

/// Packs exactly these objects into the directory, which must exist. Whether it did: a pack that would become too large
/// is left to git.
pub(super) fn write(reader: &Reader<'_>, dir: &Path, ids: &[ObjectId]) -> Result<bool, GitError> {
    let Some(format) = ids.first().map(|id| id.kind()) else {
        return Ok(true);
    };
    if ids.len() > OBJECTS_MAX {
        return Ok(false);
    }
    let mut bytes = [&b"PACK\0\0\0\x02"[..], &(ids.len() as u32).to_be_bytes()].concat();
    let mut packed = Vec::with_capacity(ids.len());
    for id in ids {
        let (kind, content) = reader.find(*id)?;
        let offset = bytes.len();
        if offset + content.len() > BYTES_MAX {
            return Ok(false);
        }
        append(&mut bytes, kind, &content).context("pack an object for", dir)?;
        packed.push(Packed { id: *id, offset: offset as u32, crc: crc32fast::hash(&bytes[offset..]) });
    }
    let name = finish(&mut bytes, format).context("pack objects for", dir)?;
    packed.sort_by_key(|object| object.id);
    let index = index(format, &packed, name).context("index a pack for", dir)?;
    put(&dir.join(format!("pack-{name}.pack")), &bytes)?;
    // Last: without it, git takes no notice of the pack.
    put(&dir.join(format!("pack-{name}.idx")), &index)?;
    Ok(true)
}

/// Kind and length, four bits of it and then seven by seven, and the compressed content.
fn append(bytes: &mut Vec<u8>, kind: Kind, content: &[u8]) -> io::Result<()> {
    let kind = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let (mut byte, mut left) = ((kind << 4) | (content.len() & 0xf) as u8, content.len() >> 4);
    while left > 0 {
        bytes.push(byte | 0x80);
        (byte, left) = ((left & 0x7f) as u8, left >> 7);
    }
    bytes.push(byte);
    if content.len() <= STORED_BYTES_MAX {
        append_stored(bytes, content);
        return Ok(());
    }
    let mut deflated = deflate::Write::new(bytes, Compression::BEST_SPEED);
    deflated.write_all(content)?;
    deflated.flush()
}

/// A stream of zlib that holds its content as it is, in as many blocks as it takes.
fn append_stored(bytes: &mut Vec<u8>, content: &[u8]) {
    bytes.extend_from_slice(&[0x78, 0x01]);
    let last = content.len() / BLOCK_BYTES_MAX;
    for number in 0..=last {
        let begin = number * BLOCK_BYTES_MAX;
        let block = &content[begin..content.len().min(begin + BLOCK_BYTES_MAX)];
        let length = block.len() as u16;
        bytes.push(u8::from(number == last));
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&(!length).to_le_bytes());
        bytes.extend_from_slice(block);
    }
    bytes.extend_from_slice(&adler32(content).to_be_bytes());
}

/// The sum behind a stream of zlib.
fn adler32(content: &[u8]) -> u32 {
    /// The largest prime of 16 bits, and of how many bytes the sums fit into 32.
    const MODULUS: u32 = 65_521;
    const BYTES_MAX: usize = 5552;
    let (mut sum, mut sums) = (1, 0);
    for part in content.chunks(BYTES_MAX) {
        for byte in part {
            sum += u32::from(*byte);
            sums += sum;
        }
        (sum, sums) = (sum % MODULUS, sums % MODULUS);
    }
    sums << 16 | sum
}

/// Adds the hash of everything before it.
fn finish(bytes: &mut Vec<u8>, format: gix_hash::Kind) -> io::Result<ObjectId> {
    let mut hasher = gix_hash::hasher(format);
    hasher.update(bytes);
    let hash = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
    bytes.extend_from_slice(hash.as_bytes());
    Ok(hash)
}

/// Where which object is; they must be sorted.
fn index(format: gix_hash::Kind, packed: &[Packed], pack: ObjectId) -> io::Result<Vec<u8>> {
    let mut bytes = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=u8::MAX {
        let up_to = packed.partition_point(|object| object.id.as_bytes()[0] <= first);
        bytes.extend_from_slice(&(up_to as u32).to_be_bytes());
    }
    packed.iter().for_each(|object| bytes.extend_from_slice(object.id.as_bytes()));
    packed.iter().for_each(|object| bytes.extend_from_slice(&object.crc.to_be_bytes()));
    packed.iter().for_each(|object| bytes.extend_from_slice(&object.offset.to_be_bytes()));
    bytes.extend_from_slice(pack.as_bytes());
    finish(&mut bytes, format)?;
    Ok(bytes)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), GitError> {
    // As git does it: nobody writes to a pack.
    let file = File::options().write(true).create_new(true).mode(0o444).open(path);
    file.and_then(|mut file| file.write_all(bytes)).context("write", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gix_zlib::Inflate;

    #[test]
    fn what_is_stored_is_what_comes_out() {
        for length in [0, 1, 5551, 5553, BLOCK_BYTES_MAX - 1, BLOCK_BYTES_MAX, BLOCK_BYTES_MAX + 1, 3 * BLOCK_BYTES_MAX]
        {
            let content: Vec<u8> = (0..length).map(|number| (number * number / 7) as u8 | 0x80).collect();
            let (mut stored, mut out) = (Vec::new(), vec![0; length]);
            append_stored(&mut stored, &content);
            let (_, taken, given) = Inflate::default().once(&stored, &mut out).unwrap();
            assert_eq!((taken, given), (stored.len(), length));
            assert!(out == content, "{length}");
            // The sum is looked at.
            *stored.last_mut().unwrap() ^= 1;
            assert!(Inflate::default().once(&stored, &mut out).is_err(), "{length}");
        }
    }
}
