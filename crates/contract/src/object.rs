//! Ids of git objects: bytes, not text, so that whatever is read from a log, an answer or a table is either an id or an
//! error there and then. An id can never be taken for a path or for an option of a command, and costs nothing to copy.
//!
//! Trees and commits have types of their own: the two are recorded side by side, and one in the other's place would be
//! found out only when git is asked for it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::hash;

/// The id of a git object, in either of git's two lengths; written as lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// 40 digits.
    Sha1([u8; 20]),
    /// 64 digits.
    Sha256([u8; 32]),
}

/// A text is not the id of a git object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an object id of 40 or 64 lowercase hex digits")]
pub struct ObjectIdProblem(String);

impl FromStr for ObjectId {
    type Err = ObjectIdProblem;

    fn from_str(text: &str) -> Result<ObjectId, ObjectIdProblem> {
        let id = match text.len() {
            40 => hash::from_hex(text).map(ObjectId::Sha1),
            64 => hash::from_hex(text).map(ObjectId::Sha256),
            _ => None,
        };
        // A little more than an id's length is quoted, enough to see what is wrong.
        id.ok_or_else(|| ObjectIdProblem(text.chars().take(80).collect()))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectId::Sha1(bytes) => hash::write_hex(bytes, f),
            ObjectId::Sha256(bytes) => hash::write_hex(bytes, f),
        }
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// An id that says what it names.
macro_rules! named {
    ($(#[$what:meta])* $name:ident) => {
        $(#[$what])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub ObjectId);

        impl From<$name> for ObjectId {
            fn from(id: $name) -> ObjectId {
                id.0
            }
        }

        impl From<ObjectId> for $name {
            fn from(id: ObjectId) -> $name {
                $name(id)
            }
        }

        impl FromStr for $name {
            type Err = ObjectIdProblem;

            fn from_str(text: &str) -> Result<$name, ObjectIdProblem> {
                text.parse().map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        text!($name);
    };
}

/// One JSON string.
macro_rules! text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

text!(ObjectId);

named! {
    /// The id of a tree.
    TreeId
}

named! {
    /// The id of a commit.
    CommitId
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_full_lowercase_ids_are_read() {
        let (short, long) = ("0123456789".repeat(4), "0123456789abcdef".repeat(4));
        for text in [&short, &long] {
            assert_eq!(text.parse::<TreeId>().unwrap().to_string(), *text);
            let id: CommitId = serde_json::from_value(text.as_str().into()).unwrap();
            assert_eq!(serde_json::to_value(id).unwrap(), text.as_str());
        }
        let [upper, path, option, nul, wide] =
            ["ABCDEF", "../../", "--help", "\0\0\0\0\0\0", "ééé"].map(|head| format!("{head}{}", &short[6..]));
        for text in ["", "-", "HEAD", &short[1..], &long[1..], &upper, &path, &option, &nul, &wide] {
            assert_eq!(text.parse::<ObjectId>(), Err(ObjectIdProblem(text.to_owned())));
            assert!(serde_json::from_value::<TreeId>(text.into()).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(sha1: [u8; 20], sha256: [u8; 32]) {
            for id in [ObjectId::Sha1(sha1), ObjectId::Sha256(sha256)] {
                prop_assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }
}
