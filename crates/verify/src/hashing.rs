//! Two digests of every file in one pass over its bytes: BLAKE3 where the archive is read, SHA-256 on a thread of its
//! own, which is the slower of the two and therefore the one that is never kept waiting.

use crate::archive::Piece;
use contract::{Digest, Domain, hash};
use sha2::{Digest as _, Sha256};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// How many pieces may wait for SHA-256: enough that a stretch of small files does not stop the reader, few enough that
/// what they hold of memory is bounded.
const WAITING_MAX: usize = 64;

enum Next {
    Bytes(Piece),
    EndOfFile,
}

/// Hashes files, one after the other.
pub(crate) struct Hashing {
    to: SyncSender<Next>,
    thread: JoinHandle<Vec<Digest>>,
    blake3: hash::Hasher,
}

impl Hashing {
    pub(crate) fn start() -> std::io::Result<Hashing> {
        let (to, from) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("sha256".into()).spawn(move || sha256_of_each(&from))?;
        Ok(Hashing { to, thread, blake3: hash::Hasher::new(Domain::Artifact) })
    }

    /// Takes in the next bytes of a file.
    pub(crate) fn update(&mut self, piece: Piece) {
        // It ends only after this does; were it gone, `finish` would have fewer digests than files.
        let _ = self.to.send(Next::Bytes(piece.clone()));
        self.blake3.update(piece.bytes());
    }

    /// The file ends here; answers its BLAKE3.
    pub(crate) fn end_of_file(&mut self) -> Digest {
        let _ = self.to.send(Next::EndOfFile);
        std::mem::replace(&mut self.blake3, hash::Hasher::new(Domain::Artifact)).finish()
    }

    /// The SHA-256 of every file, in order.
    pub(crate) fn finish(self) -> Vec<Digest> {
        drop(self.to);
        self.thread.join().expect("BUG: hashing does not panic")
    }
}

fn sha256_of_each(from: &Receiver<Next>) -> Vec<Digest> {
    let (mut digests, mut hasher) = (Vec::new(), Sha256::new());
    for next in from {
        match next {
            Next::Bytes(piece) => hasher.update(piece.bytes()),
            Next::EndOfFile => digests.push(Digest::from_bytes(hasher.finalize_reset().into())),
        }
    }
    digests
}
