//! Strict JSON: reading what others wrote, and writing what gets hashed.
//!
//! Two readers that disagree on a document can be played against each other, so whatever JSON
//! leaves open is refused here on the raw bytes: duplicate keys, numbers a double cannot hold,
//! a second value. The grammar itself stays serde_json's; this module walks along with it and
//! keeps the place. All violations are reported at once, each with its JSON pointer.

mod canonical;
mod check;
mod report;
pub mod schema;

use std::fmt;

use crate::schema::Document;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;

pub(crate) use report::Report;
use report::{Place, Step};
pub use report::{VIOLATIONS_MAX, Violation};

/// Largest integer that every JSON reader keeps exactly: 2^53 - 1.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// How large a document may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest document in bytes.
    pub bytes_max: usize,
    /// Deepest nesting of arrays and objects; serde_json itself stops at 127.
    pub depth_max: usize,
}

impl Limits {
    /// For one document: 1 MiB holds any contract or report people review, and depth 32 is far
    /// beyond what the types nest.
    pub const DOCUMENT: Limits = Limits::new(1 << 20, 32);

    /// For an array of documents that are submitted together: ten thousand of 3 KiB each.
    pub const BATCH: Limits = Limits::new(32 << 20, 32);

    /// Limits of this size and depth.
    pub const fn new(bytes_max: usize, depth_max: usize) -> Limits {
        Limits { bytes_max, depth_max }
    }
}

/// Why a value has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// The value cannot be written as JSON.
    #[error("could not write canonical JSON")]
    Serialize(#[from] serde_json::Error),
    /// A number would be rounded.
    #[error("could not write canonical JSON: {0}")]
    Number(Violation),
}

/// Reads exactly one JSON value, or says everything that is wrong with it.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Vec<Violation>> {
    if bytes.len() > limits.bytes_max {
        let message = format!("document of {} bytes is larger than {}", bytes.len(), limits.bytes_max);
        return Err(vec![Violation::document(message)]);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("document is not UTF-8 from byte {} on", error.valid_up_to());
        vec![Violation::document(message)]
    })?;
    let mut walk = Walk { place: Place::default(), report: Report::default(), depth_max: limits.depth_max };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = Seed(&mut walk).deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    match parsed {
        Ok(value) => walk.report.into_result().map(|()| value),
        Err(error) => {
            // The walk leaves its place untouched on an error, so it still names the spot.
            walk.report.add(&walk.place, format!("could not parse JSON: {error}"));
            walk.report.into_result().map(|()| Value::Null)
        }
    }
}

/// Reads a document strictly and checks it against the type's own schema before decoding it.
pub fn decode<T: DeserializeOwned + Document>(bytes: &[u8], limits: &Limits) -> Result<T, Vec<Violation>> {
    decode_value(parse(bytes, limits)?)
}

/// As [`decode`], for a value that has been read already.
pub fn decode_value<T: DeserializeOwned + Document>(value: Value) -> Result<T, Vec<Violation>> {
    check_value::<T>(&value)?;
    decode_checked(T::form().made().without_reference(value))
}

/// Everything that is wrong with a value of this type, patterns and formats aside.
pub(crate) fn check_value<T: Document>(value: &Value) -> Result<(), Vec<Violation>> {
    check::check(&T::form().made().value, value).into_result()
}

/// Decodes what was checked; the type's own `Deserialize` has the last word.
pub(crate) fn decode_checked<T: DeserializeOwned>(value: Value) -> Result<T, Vec<Violation>> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut place = Place::default();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => place.enter(Step::Index(*index)),
                Segment::Map { key } => place.enter(Step::Key(key.clone())),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        vec![Violation { pointer: place.pointer(), message: error.into_inner().to_string() }]
    })
}

/// Room for most documents: one that outgrows its room is copied, again and again if there is little.
const DOCUMENT_BYTES: usize = 2048;

/// Writes a document as people read it, with a line break at its end.
pub fn pretty(document: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DOCUMENT_BYTES);
    serde_json::to_writer_pretty(&mut bytes, document).expect("BUG: a document is plain data");
    bytes.push(b'\n');
    bytes
}

/// Writes RFC 8785 canonical JSON; what it would have to round is refused.
pub fn canonical(value: &impl Serialize) -> Result<Vec<u8>, CanonicalError> {
    let (bytes, is_inexact) = canonical::write(value)?;
    if is_inexact {
        check_numbers(&serde_json::to_value(value)?, &mut Place::default()).map_err(CanonicalError::Number)?;
    }
    Ok(bytes)
}

fn check_numbers(value: &Value, place: &mut Place) -> Result<(), Violation> {
    match value {
        Value::Number(number) => match inexact(number) {
            Some(message) => Err(Violation { pointer: place.pointer(), message }),
            None => Ok(()),
        },
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            place.enter(Step::Index(index));
            check_numbers(item, place)?;
            place.leave();
            Ok(())
        }),
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            place.enter(Step::Key(key.clone()));
            check_numbers(member, place)?;
            place.leave();
            Ok(())
        }),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// What is wrong with a number that other readers would round.
///
/// A double beyond 2^53 is always whole, so `1e17` is checked against the rule of integers too: canonical
/// JSON writes it with all its digits, and the next reader would take it for an integer.
fn inexact(number: &Number) -> Option<String> {
    let exact = match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(positive), _, _) => positive <= INTEGER_MAX,
        (None, Some(negative), _) => negative.unsigned_abs() <= INTEGER_MAX,
        (None, None, Some(double)) => double.abs() <= INTEGER_MAX as f64,
        (None, None, None) => false,
    };
    (!exact).then(|| format!("number {number} is outside ±(2^53-1)"))
}

/// Where the reading is and what it found.
struct Walk {
    place: Place,
    report: Report,
    depth_max: usize,
}

impl Walk {
    fn number(&mut self, number: Number) -> Value {
        if let Some(message) = inexact(&number) {
            self.report.add(&self.place, message);
        }
        Value::Number(number)
    }

    /// Whether the container at this place may be read; if not, the caller skips its contents.
    fn enter_container(&mut self) -> bool {
        let allowed = self.place.depth() < self.depth_max;
        if !allowed {
            let message = format!("nested deeper than {}", self.depth_max);
            self.report.add(&self.place, message);
        }
        allowed
    }
}

/// Reads the value at the walk's place.
struct Seed<'w>(&'w mut Walk);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.0.number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.0.number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(self.0.number(number)),
            None => {
                self.0.report.add(&self.0.place, "number is not finite".to_owned());
                Ok(Value::Null)
            }
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let walk = self.0;
        if !walk.enter_container() {
            // serde_json skips ignored values in a loop, so no depth overflows the stack.
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut items = Vec::new();
        loop {
            walk.place.enter(Step::Index(items.len()));
            let item = seq.next_element_seed(Seed(walk))?;
            walk.place.leave();
            match item {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let walk = self.0;
        if !walk.enter_container() {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            walk.place.enter(Step::Key(key.clone()));
            if members.contains_key(&key) {
                walk.report.add(&walk.place, "duplicate key".to_owned());
            }
            let value = map.next_value_seed(Seed(walk))?;
            walk.place.leave();
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests;
