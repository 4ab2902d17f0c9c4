//! Reading what agents write, and writing what they read: JSON, one value a line. A line is parsed once, into a
//! value, and looked at leniently: a field that is missing or of another type is as good as not there, so that a new
//! version of an agent with one changed field does not lose the rest of the line.

use crate::limits;
use serde_json::{Value, json};

/// A value as a line.
pub(crate) fn line(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("BUG: a value is always JSON");
    bytes.push(b'\n');
    bytes
}

/// The text of a field, or nothing.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a field, if it is one and not empty.
pub(crate) fn some_text(value: &Value, key: &str) -> Option<String> {
    Some(text(value, key)).filter(|found| !found.is_empty()).map(str::to_owned)
}

/// A name: short, whatever came.
pub(crate) fn name(value: &Value, key: &str) -> String {
    clip(text(value, key), limits::NAME_BYTES_MAX).to_owned()
}

/// A name, if there is one.
pub(crate) fn some_name(value: &Value, key: &str) -> Option<String> {
    Some(name(value, key)).filter(|found| !found.is_empty())
}

/// A count; 0 if it is none.
pub(crate) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// A flag; false if it is none.
pub(crate) fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The elements of a field, if it is a list.
pub(crate) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Takes a field out of a value.
pub(crate) fn take(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

/// The beginning of a text, cut between characters.
pub(crate) fn clip(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The beginning and the end of a text, since errors are at either.
pub(crate) fn ends(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let half = bytes_max / 2;
    let head = clip(text, half);
    let mut start = text.len() - half;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let tail = &text[start..];
    format!("{head}\n… {} bytes left out …\n{tail}", text.len() - head.len() - tail.len())
}

/// A value that is not larger than that; instead of a larger one, its beginning as text.
pub(crate) fn bounded(value: Value, bytes_max: usize) -> Value {
    if weight(&value) <= bytes_max {
        return value;
    }
    let text = value.to_string();
    json!({"bytes": text.len(), "beginning": clip(&text, bytes_max / 2)})
}

/// About how many bytes a value takes as text, without making it.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + weight(item)).sum::<usize>(),
        Value::Object(fields) => 2 + fields.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>(),
    }
}

/// Millionths of a dollar; nothing for what is no amount.
pub(crate) fn micro_usd(amount: Option<&Value>) -> Option<u64> {
    let dollars = amount?.as_f64().filter(|dollars| dollars.is_finite() && *dollars >= 0.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; a cast saturates")]
    Some((dollars * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_both_ends_and_whole_characters() {
        assert_eq!(clip("grün", 3), "gr");
        assert_eq!(ends("short", 16), "short");
        assert_eq!(ends("aaaabbbbcccc", 8), "aaaa\n… 4 bytes left out …\ncccc");
        assert_eq!(ends("aaaäbbbbcccc", 8), "aaa\n… 6 bytes left out …\ncccc");
    }

    #[test]
    fn large_values_become_their_beginning() {
        let small = json!({"a": 1});
        assert_eq!(bounded(small.clone(), 100), small);
        let large = bounded(json!({"a": "x".repeat(1000)}), 100);
        assert_eq!(large["bytes"], 1008);
        assert_eq!(large["beginning"].as_str().unwrap().len(), 50);
    }

    #[test]
    fn money_is_whole_millionths() {
        assert_eq!(micro_usd(Some(&json!(0.001_234_5))), Some(1235));
        assert_eq!(micro_usd(Some(&json!(-1.0))), None);
        assert_eq!(micro_usd(Some(&json!("1"))), None);
        assert_eq!(micro_usd(None), None);
    }
}
