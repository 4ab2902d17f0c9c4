//! What can be told of content by its bytes: whether it is text in another form than UTF-8, and characters that show a
//! line in another order than it is read.

use std::collections::BTreeSet;

/// The first two bytes of text in UTF-16, by the order of its bytes.
const LITTLE_ENDIAN: [u8; 2] = [0xff, 0xfe];
const BIG_ENDIAN: [u8; 2] = [0xfe, 0xff];

/// Text in UTF-16 that says so in its first character, as UTF-8; nothing else is.
pub fn utf16(bytes: &[u8]) -> Option<String> {
    let unit = match bytes.get(..2)?.try_into().ok()? {
        LITTLE_ENDIAN => u16::from_le_bytes,
        BIG_ENDIAN => u16::from_be_bytes,
        _ => return None,
    };
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).collect::<Result<_, _>>().ok()?;
    let odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1a}');
    (!text.contains(odd)).then_some(text)
}

/// Characters that change the order in which the text after them is shown.
fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The first line, from 1, that content has and the content before did not, and that is shown in another order than it
/// is read; with the character. `old` is asked for only if there is such a line at all.
pub fn reordered<E>(new: &[u8], old: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Option<(u64, char)>, E> {
    // All of them have this beginning in UTF-8.
    if !new.windows(2).any(|pair| pair == [0xe2, 0x80] || pair == [0xe2, 0x81]) {
        return Ok(None);
    }
    let (new, found) = (String::from_utf8_lossy(new), |line: &str| line.chars().find(|c| reorders(*c)));
    if found(&new).is_none() {
        return Ok(None);
    }
    let old = old()?;
    let old = String::from_utf8_lossy(&old);
    let before: BTreeSet<&str> = old.lines().collect();
    let added = (1..).zip(new.lines()).filter(|(_, line)| !before.contains(line));
    Ok(added.filter_map(|(number, line)| Some((number, found(line)?))).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn text_in_utf16_is_text_and_nothing_else_is() {
        assert_eq!(utf16(&encoded("größe\r\n")).as_deref(), Some("größe\r\n"));
        let big: Vec<u8> = encoded("a").chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        assert_eq!(utf16(&big).as_deref(), Some("a"));
        let odd = [encoded("a"), vec![0]].concat();
        for bytes in [&b"a\0"[..], b"\xff\xfe\x00", &odd, &encoded("a\0b"), b"\xff\xfe\x00\xd8", b"", b"\xff"] {
            assert_eq!(utf16(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn only_a_line_that_is_added_counts() {
        let check = |old: &str, new: &str, expected: Option<(u64, char)>| {
            assert_eq!(reordered(new.as_bytes(), || Ok::<_, ()>(old.as_bytes().to_vec())), Ok(expected), "{new:?}");
        };
        check("", "a\nb \u{202e} c\n", Some((2, '\u{202e}')));
        check("b \u{202e} c\n", "a\nb \u{202e} c\n", None);
        check("", "right-to-left mark \u{200f}, dash \u{2014}\n", None);
        check("", "\u{2066}", Some((1, '\u{2066}')));
    }
}
