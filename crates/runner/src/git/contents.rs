//! Trees and blobs read one after the other over one handle, for those who look at a whole state: opening the
//! objects anew for every file costs more than reading the file.

use super::objects::{Objects, Reader};
use super::remembered::Lines;
use super::{GitError, ObjectId};

pub(crate) struct Contents<'a>(Reader<'a>);

impl<'a> Contents<'a> {
    pub(crate) fn open(objects: &'a Objects) -> Result<Contents<'a>, GitError> {
        Ok(Contents(objects.reader()?))
    }

    /// What a tree has, name by name, in git's order.
    pub(crate) fn tree(&self, id: ObjectId) -> Result<Lines, GitError> {
        self.0.tree(id)
    }

    /// Hands all bytes of a blob over, one piece after another.
    pub(crate) fn pieces(&self, id: ObjectId, each: &mut dyn FnMut(&[u8])) -> Result<(), GitError> {
        let mut each = |piece: &[u8]| {
            each(piece);
            Ok(())
        };
        self.0.pieces(id, &mut each).map(drop)
    }
}
