//! Takes out of a request what differs from one run to the next: UUIDs, dates and times, long hexadecimal ids, and
//! what agents' programs tell the model about the processes they started.

/// Shortest run of hexadecimal digits that is taken for an id.
const ID_DIGITS_MIN: usize = 16;

/// Words of agents' programs before something that no two processes have in common.
const LABELS: [&[u8]; 3] = [b"Chunk ID: ", b"Wall time: ", b"Process Group PGID: "];

/// The text with a sign in place of each volatile part.
pub(crate) fn mask(text: &[u8]) -> Vec<u8> {
    let mut masked = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match is_start(&text[..at]).then(|| volatile(&text[at..])).flatten() {
            Some((length, sign)) => {
                masked.extend_from_slice(sign);
                at += length;
            }
            None => {
                masked.push(text[at]);
                at += 1;
            }
        }
    }
    masked
}

/// Whether a word may begin after this. In JSON the letter of `\n` is none of the word that follows.
fn is_start(before: &[u8]) -> bool {
    match before {
        [] | [.., b'\\', b'n' | b't' | b'r' | b'b' | b'f'] => true,
        [.., last] => !last.is_ascii_alphanumeric(),
    }
}

/// The length of a volatile part at the beginning, and the sign for it.
fn volatile(text: &[u8]) -> Option<(usize, &'static [u8])> {
    let whole = |length: &usize| !text.get(*length).is_some_and(u8::is_ascii_alphanumeric);
    uuid(text)
        .filter(whole)
        .map(|length| (length, &b"<uuid>"[..]))
        .or_else(|| time(text).or_else(|| unix_time(text)).filter(whole).map(|length| (length, &b"<time>"[..])))
        .or_else(|| hex(text).filter(whole).map(|length| (length, &b"<id>"[..])))
        .or_else(|| labelled(text).map(|length| (length, &b"<process>"[..])))
}

fn uuid(text: &[u8]) -> Option<usize> {
    has_form(text, b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

/// A date, with or without a time of day, that with or without fractions and an offset.
fn time(text: &[u8]) -> Option<usize> {
    let date = has_form(text, b"dddd-dd-dd")?;
    let Some(minutes) = ["Tdd:dd", " dd:dd"].iter().find_map(|form| has_form(&text[date..], form.as_bytes())) else {
        return Some(date);
    };
    let mut length = date + minutes;
    length += has_form(&text[length..], b":dd").unwrap_or(0);
    if text.get(length) == Some(&b'.') {
        let digits = text[length + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        length += if digits > 0 { 1 + digits } else { 0 };
    }
    let offsets = [&b"Z"[..], b"+dd:dd", b"-dd:dd", b"+dddd", b"-dddd"];
    Some(length + offsets.iter().find_map(|form| has_form(&text[length..], form)).unwrap_or(0))
}

/// Seconds or milliseconds since 1970, from the year 2001 on.
fn unix_time(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (matches!(digits, 10 | 13) && matches!(text[0], b'1' | b'2')).then_some(digits)
}

fn labelled(text: &[u8]) -> Option<usize> {
    let label = LABELS.iter().find(|label| text.starts_with(label))?.len();
    Some(label + text[label..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count())
}

fn hex(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    (digits >= ID_DIGITS_MIN).then_some(digits)
}

/// The length of a form if the text begins like it: `d` stands for a digit, `x` for a hexadecimal one.
fn has_form(text: &[u8], form: &[u8]) -> Option<usize> {
    let fits = |(byte, expected): (&u8, &u8)| match expected {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => byte == expected,
    };
    (text.len() >= form.len() && text.iter().zip(form).all(fits)).then_some(form.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn masks_what_is_volatile_and_nothing_else() {
        for (text, expected) in [
            ("id 0199a8c2-0000-7000-8000-00000000000A.", "id <uuid>."),
            ("day:\\n2026-11-16\\n", "day:\\n<time>\\n"),
            ("on 2026-11-16 we", "on <time> we"),
            ("2026-11-16T06:08:31.123Z", "<time>"),
            ("2026-11-16 06:08:31+01:00!", "<time>!"),
            ("2026-11-16 06:08", "<time>"),
            ("2026-11-16T06", "2026-11-16T06"),
            ("ses_0123456789abcdef0", "ses_<id>"),
            ("x0123456789abcdef", "x0123456789abcdef"),
            ("0123456789abcdefg", "0123456789abcdefg"),
            ("0123456789abcde", "0123456789abcde"),
            ("\"at\":1794811335902,", "\"at\":<time>,"),
            ("shell_1794811354833_0", "shell_<time>_0"),
            ("port 12345 of 4294967296", "port 12345 of 4294967296"),
            ("Chunk ID: 64d011\\nWall time: 0.0123 seconds", "<process>\\n<process> seconds"),
            ("version 1.2.3 of deadbeef", "version 1.2.3 of deadbeef"),
        ] {
            assert_eq!(String::from_utf8(mask(text.as_bytes())).unwrap(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_masked(text: Vec<u8>) {
            mask(&text);
        }
    }
}
