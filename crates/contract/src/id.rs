//! Ids: a run's UUID v7 and the slug people and directories use for it.
//!
//! Both the milliseconds and the random bytes are handed in, so that a test's ids are the same
//! every time. A slug keeps three bytes of the UUID and cannot be turned back into it; whoever
//! has only the slug asks the store.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::{Builder, Uuid, Variant, Version};

use crate::hash::{Domain, Hasher, put_hex};
use crate::time::{COMPACT_LEN, Timestamp};

/// The id of a run: a UUID v7, so ids sort by when they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Uuid);

/// Why a text is not the id of a run or of an approval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdProblem {
    /// The text is neither a UUID nor `run_` and 32 digits.
    #[error("{0:?} is not a lowercase UUID or `run_` and 32 hex digits")]
    Form(String),
    /// The UUID is not of version 7 and carries no time.
    #[error("{0:?} is not a version 7 UUID")]
    Version(String),
}

impl RunId {
    /// Makes an id from a time and ten random bytes.
    pub fn new(unix_ms: u64, random: [u8; 10]) -> RunId {
        RunId(build(unix_ms, random))
    }

    /// Reads a full UUID in lowercase, or `run_` and its 32 hex digits; never a slug or a prefix.
    pub fn parse(text: &str) -> Result<RunId, IdProblem> {
        // The quoted text is cut so that a refused request body does not end up in a message.
        let quoted = || text.chars().take(64).collect::<String>();
        let uuid = Uuid::try_parse(text.strip_prefix("run_").unwrap_or(text)).map_err(|_| IdProblem::Form(quoted()))?;
        // The library also reads braces, URNs and capitals; an id has only its two spellings.
        let spelled = match text.strip_prefix("run_") {
            Some(digits) => uuid.simple().to_string() == digits,
            None => uuid.hyphenated().to_string() == text,
        };
        if !spelled {
            return Err(IdProblem::Form(quoted()));
        }
        let is_v7 = uuid.get_version() == Some(Version::SortRand);
        if !is_v7 || uuid.get_variant() != Variant::RFC4122 {
            return Err(IdProblem::Version(quoted()));
        }
        Ok(RunId(uuid))
    }

    /// The UUID, hyphenated and in lowercase.
    pub fn uuid(&self) -> String {
        self.0.hyphenated().to_string()
    }

    /// Its 32 hex digits.
    pub fn digits(&self) -> String {
        self.0.simple().to_string()
    }

    /// `YYYYMMDD-HHMMSS-xxxxxx`: the time in UTC and the UUID's last three bytes.
    pub fn slug(&self) -> Slug {
        let mut text = [b'-'; SLUG_LEN];
        text[..COMPACT_LEN].copy_from_slice(&Timestamp::from_unix_ms(self.unix_ms()).compact());
        put_hex(&self.0.as_bytes()[13..], &mut text[COMPACT_LEN + 1..]);
        Slug(text)
    }

    /// When the id was made, in milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        let [a, b, c, d, e, f, ..] = *self.0.as_bytes();
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

/// Whether a text has the form of a run's slug.
pub fn is_slug(text: &str) -> bool {
    let digits = |part: &str, len: usize| part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let mut parts = text.split('-');
    let (Some(date), Some(time), Some(tail), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    digits(date, 8) && digits(time, 6) && tail.len() == 6 && tail.bytes().all(hex)
}

/// What people and directories call a run: `YYYYMMDD-HHMMSS-xxxxxx`. Whatever is read as one can be a part of a path or
/// an argument of a command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug([u8; SLUG_LEN]);

const SLUG_LEN: usize = 22;

/// A text is not the slug of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a run as in 20260123-145501-ab12cd")]
pub struct SlugProblem(String);

impl Slug {
    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("BUG: a slug is digits and hyphens")
    }
}

impl FromStr for Slug {
    type Err = SlugProblem;

    fn from_str(text: &str) -> Result<Slug, SlugProblem> {
        let bytes = text.as_bytes().try_into().ok().filter(|_| is_slug(text));
        // A little more than a slug's length is quoted, enough to see what is wrong.
        bytes.map(Slug).ok_or_else(|| SlugProblem(text.chars().take(40).collect()))
    }
}

impl Deref for Slug {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// A slug is compared with what people typed and what tables hold.
macro_rules! compare_with {
    ($($text:ty),*) => {$(
        impl PartialEq<$text> for Slug {
            fn eq(&self, text: &$text) -> bool {
                let text: &str = text;
                self.as_str() == text
            }
        }

        impl PartialEq<Slug> for $text {
            fn eq(&self, slug: &Slug) -> bool {
                slug == self
            }
        }
    )*};
}

compare_with!(str, &str, String);

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slug({self})")
    }
}

impl Serialize for Slug {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Slug {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The id of an approval: a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApprovalId(Uuid);

impl ApprovalId {
    /// Makes an id from a time and ten random bytes.
    pub fn new(unix_ms: u64, random: [u8; 10]) -> ApprovalId {
        ApprovalId(build(unix_ms, random))
    }
}

impl FromStr for ApprovalId {
    type Err = IdProblem;

    /// Reads a full UUID in lowercase; never a prefix.
    fn from_str(text: &str) -> Result<ApprovalId, IdProblem> {
        let uuid = Uuid::try_parse(text).ok().filter(|uuid| uuid.hyphenated().to_string() == text);
        uuid.map(ApprovalId).ok_or_else(|| IdProblem::Form(text.chars().take(64).collect()))
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for ApprovalId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ApprovalId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A UUID v7 for whatever is neither a run nor an approval: events, nodes, artifacts.
pub fn uuid_v7(unix_ms: u64, random: [u8; 10]) -> String {
    build(unix_ms, random).hyphenated().to_string()
}

/// Whether a text is a UUID of any version, as it is usually spelled.
pub fn is_uuid(text: &str) -> bool {
    uuid_number(text).is_some()
}

/// The number that a UUID in lower case is, with hyphens. Numbers are in the order of their texts.
pub fn uuid_number(text: &str) -> Option<u128> {
    let is_same = |uuid: &Uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text;
    Uuid::try_parse(text).ok().filter(is_same).map(|uuid| uuid.as_u128())
}

/// The UUID that a number is.
pub fn uuid_text(number: u128) -> String {
    Uuid::from_u128(number).hyphenated().to_string()
}

/// The id of a part of a run in views: a UUID v8 that follows from the run and the part's own name, so that it is the same
/// whenever, and by whomever, the run is looked at.
pub fn derived_uuid(run: &RunId, name: &[&str]) -> String {
    let mut hasher = Hasher::new(Domain::ViewId);
    hasher.field(run.0.as_bytes());
    for part in name {
        hasher.field(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finish().as_bytes()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string()
}

/// The layout holds 48 bits of milliseconds, which last until the year 10889.
fn build(unix_ms: u64, random: [u8; 10]) -> Uuid {
    Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid()
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        RunId::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MADE_MS: u64 = 1_769_180_101_042;
    const RANDOM: [u8; 10] = [0xff, 1, 2, 3, 4, 5, 6, 0xab, 0xcd, 0xef];

    #[test]
    fn one_id_two_spellings() {
        let id = RunId::new(MADE_MS, RANDOM);
        assert_eq!(id.uuid(), "019beb59-f9b2-7f01-8203-040506abcdef");
        assert_eq!(id.to_string(), id.uuid());
        assert_eq!(id.slug(), "20260123-145501-abcdef");
        assert_eq!(id.unix_ms(), MADE_MS);
        assert_eq!(uuid_v7(MADE_MS, RANDOM), id.uuid());
        assert_eq!(RunId::parse(&id.uuid()), Ok(id));
        assert_eq!(RunId::parse("run_019beb59f9b27f018203040506abcdef"), Ok(id));
        let approval = ApprovalId::new(MADE_MS, RANDOM);
        assert_eq!((approval.to_string(), id.uuid().parse()), (id.uuid(), Ok(approval)));
    }

    #[test]
    fn a_derived_id_is_a_uuid_that_depends_on_run_and_name() {
        let (one, other) = (RunId::new(MADE_MS, RANDOM), RunId::new(MADE_MS + 1, RANDOM));
        let ids = [
            derived_uuid(&one, &["node", "plan"]),
            derived_uuid(&one, &["node", "do"]),
            derived_uuid(&one, &["nodeplan"]),
            derived_uuid(&one, &["node", "plan", ""]),
            derived_uuid(&other, &["node", "plan"]),
        ];
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
        assert_eq!(derived_uuid(&one, &["node", "plan"]), ids[0]);
        let uuid = Uuid::try_parse(&ids[0]).unwrap();
        assert_eq!((uuid.get_version(), uuid.get_variant()), (Some(Version::Custom), Variant::RFC4122));
    }

    #[test]
    fn refuses_other_spellings() {
        for text in [
            "",
            "run_",
            "20260123-145501-abcdef",
            "019BEB59-F9B2-7F01-8203-040506ABCDEF",
            "019beb59f9b27f018203040506abcdef",
            "run_019beb59-f9b2-7f01-8203-040506abcdef",
            "{019beb59-f9b2-7f01-8203-040506abcdef}",
            "urn:uuid:019beb59-f9b2-7f01-8203-040506abcdef",
            "019beb59",
            " 019beb59-f9b2-7f01-8203-040506abcdef",
        ] {
            assert_eq!(RunId::parse(text), Err(IdProblem::Form(text.to_owned())));
            assert_eq!(text.parse::<ApprovalId>(), Err(IdProblem::Form(text.to_owned())));
        }
        for text in [
            "019beb59-f9b2-4f01-8203-040506abcdef",
            "019beb59-f9b2-7f01-0203-040506abcdef",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(RunId::parse(text), Err(IdProblem::Version(text.to_owned())));
        }
    }

    #[test]
    fn knows_a_slug() {
        for (text, expected) in [
            ("20260123-145501-abcdef", true),
            ("20260123-145501-ABCDEF", false),
            ("20260123-145501-abcde", false),
            ("20260123-145501-abcdeg", false),
            ("20260123-145501", false),
            ("20260123-145501-abcdef-0", false),
            ("2026012a-145501-abcdef", false),
            ("../20123-145501-abcdef", false),
            ("", false),
        ] {
            assert_eq!(is_slug(text), expected, "{text:?}");
            assert_eq!(text.parse::<Slug>().is_ok_and(|slug| slug == text), expected, "{text:?}");
            assert_eq!(serde_json::from_value::<Slug>(text.into()).is_ok(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_back_and_sorts_by_time(
            first in 0u64..1 << 48, second in 0u64..1 << 48, random: [u8; 10], other: [u8; 10]
        ) {
            let (a, b) = (RunId::new(first, random), RunId::new(second, other));
            prop_assert_eq!(a.unix_ms(), first);
            prop_assert!(is_slug(&a.slug()));
            let json = serde_json::to_string(&a).unwrap();
            prop_assert_eq!(serde_json::from_str::<RunId>(&json).unwrap(), a);
            if first < second {
                prop_assert!(a < b && a.uuid() < b.uuid());
            }
        }
    }

    #[test]
    fn uuids_as_numbers_are_in_the_order_of_their_texts() {
        let texts = [0, 1, 0xff, 1 << 64, u128::MAX >> 4, u128::MAX].map(uuid_text);
        assert!(texts.is_sorted());
        for text in &texts {
            assert_eq!(uuid_number(text).map(uuid_text).as_ref(), Some(text));
        }
        for other in ["", "x", "0123", &texts[5].to_uppercase(), &texts[5].replace('-', "")] {
            assert_eq!(uuid_number(other), None, "{other}");
        }
    }
}
