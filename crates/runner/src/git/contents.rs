//! Trees and blobs read one after the other over one handle, for those who look at a whole state: opening the
//! objects anew for every file costs more than reading the file.

use gix_object::Kind;

use super::objects::{Objects, Reader};
use super::{Entry, GitError, ObjectId};

pub(crate) struct Contents<'a>(Reader<'a>);

impl<'a> Contents<'a> {
    pub(crate) fn open(objects: &'a Objects) -> Result<Contents<'a>, GitError> {
        Ok(Contents(objects.reader()?))
    }

    /// What a tree has, name by name, in git's order.
    pub(crate) fn tree(&self, id: ObjectId) -> Result<Vec<(Vec<u8>, Entry)>, GitError> {
        Ok(self.0.tree(id)?.into_iter().map(|line| (line.name, line.entry)).collect())
    }

    /// The bytes of a blob.
    pub(crate) fn blob(&self, id: ObjectId) -> Result<Vec<u8>, GitError> {
        self.0.expect(id, Kind::Blob)
    }
}
