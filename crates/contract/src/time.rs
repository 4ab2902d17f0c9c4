//! Points in time as the log writes them: UTC, milliseconds, one spelling.
//!
//! The clock is read elsewhere and handed in as milliseconds. Times are for people and for
//! budgets; the order of events is their sequence number, never their time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Last representable millisecond, `9999-12-30T21:59:59.999Z`: where the calendar library's range
/// ends, which keeps a day's distance from the year 10000 for the sake of offsets.
const UNIX_MS_MAX: u64 = 253_402_207_199_999;

/// A point in time in UTC with millisecond precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// Why a text is not a timestamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeProblem {
    /// The text does not have RFC 3339's form.
    #[error("{0:?} is not an RFC 3339 time such as 2026-01-23T14:55:01.042Z")]
    Form(String),
    /// The text has the form, but no such time exists.
    #[error("{0:?} is not a time of the calendar")]
    Calendar(String),
    /// The time is before 1970 or too far ahead.
    #[error("{0:?} is outside the years 1970 to 9999")]
    Range(String),
}

/// How long [`Timestamp::compact`] is.
pub(crate) const COMPACT_LEN: usize = 15;

impl Timestamp {
    /// The time this many milliseconds after 1970; held at the end of the year 9999.
    pub fn from_unix_ms(unix_ms: u64) -> Timestamp {
        Timestamp(unix_ms.min(UNIX_MS_MAX))
    }

    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        self.0
    }

    /// `YYYYMMDD-HHMMSS`, the form used in names of directories.
    pub(crate) fn compact(self) -> [u8; COMPACT_LEN] {
        let (mut text, time) = (*b"00000000-000000", self.civil());
        put(&mut text[..4], time.year());
        put(&mut text[4..6], time.month().into());
        put(&mut text[6..8], time.day().into());
        put(&mut text[9..11], time.hour().into());
        put(&mut text[11..13], time.minute().into());
        put(&mut text[13..], time.second().into());
        text
    }

    fn civil(self) -> jiff::civil::DateTime {
        let unix_ms = i64::try_from(self.0).expect("BUG: a timestamp is at most UNIX_MS_MAX");
        let time = jiff::Timestamp::from_millisecond(unix_ms)
            .expect("BUG: every timestamp up to UNIX_MS_MAX is in the calendar");
        jiff::tz::Offset::UTC.to_datetime(time)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut text, time) = (*b"0000-00-00T00:00:00.000Z", self.civil());
        put(&mut text[..4], time.year());
        put(&mut text[5..7], time.month().into());
        put(&mut text[8..10], time.day().into());
        put(&mut text[11..13], time.hour().into());
        put(&mut text[14..16], time.minute().into());
        put(&mut text[17..19], time.second().into());
        put(&mut text[20..23], time.millisecond());
        f.pad(std::str::from_utf8(&text).expect("BUG: digits are text"))
    }
}

/// Writes a number over so many zeros. Every line of a log has several times in it; through the formatter the slug alone
/// was a twelfth of what the writer of the logs did.
fn put(zeros: &mut [u8], mut number: i16) {
    for digit in zeros.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl FromStr for Timestamp {
    type Err = TimeProblem;

    /// Reads RFC 3339 with any offset; what is finer than a millisecond is cut off.
    fn from_str(text: &str) -> Result<Timestamp, TimeProblem> {
        // The calendar library also takes spaces, missing seconds and time zone names.
        if !has_rfc3339_form(text.as_bytes()) {
            return Err(TimeProblem::Form(text.chars().take(64).collect()));
        }
        let time: jiff::Timestamp = text.parse().map_err(|_| TimeProblem::Calendar(text.to_owned()))?;
        // Before 1970 milliseconds round towards zero, so the sign is taken from the whole time.
        if time < jiff::Timestamp::UNIX_EPOCH {
            return Err(TimeProblem::Range(text.to_owned()));
        }
        match u64::try_from(time.as_millisecond()) {
            Ok(unix_ms) if unix_ms <= UNIX_MS_MAX => Ok(Timestamp(unix_ms)),
            _ => Err(TimeProblem::Range(text.to_owned())),
        }
    }
}

/// Digits of a fraction that are read; nothing prints times finer than a nanosecond.
const FRACTION_DIGITS_MAX: usize = 9;

fn has_rfc3339_form(text: &[u8]) -> bool {
    let Some((date_time, rest)) = text.split_at_checked("0000-00-00T00:00:00".len()) else {
        return false;
    };
    if !matches_form(date_time, b"0000-00-00T00:00:00") {
        return false;
    }
    let offset = match rest.strip_prefix(b".") {
        None => rest,
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || digits > FRACTION_DIGITS_MAX {
                return false;
            }
            &fraction[digits..]
        }
    };
    let zoned = matches_form(offset, b"+00:00") || matches_form(offset, b"-00:00");
    matches_form(offset, b"Z") || (zoned && &offset[1..3] <= b"23".as_slice())
}

/// Whether `text` has `form`'s length, a digit for each `0` and its letters in either case.
fn matches_form(text: &[u8], form: &[u8]) -> bool {
    let fits = |(byte, expected): (&u8, &u8)| match expected {
        b'0' => byte.is_ascii_digit(),
        _ => byte.eq_ignore_ascii_case(expected),
    };
    text.len() == form.len() && text.iter().zip(form).all(fits)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_exactly_three_decimals() {
        for (unix_ms, expected, compact) in [
            (0, "1970-01-01T00:00:00.000Z", "19700101-000000"),
            (1_769_180_101_042, "2026-01-23T14:55:01.042Z", "20260123-145501"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z", "20000229-000000"),
            (u64::MAX, "9999-12-30T21:59:59.999Z", "99991230-215959"),
        ] {
            let time = Timestamp::from_unix_ms(unix_ms);
            assert_eq!(time.to_string(), expected);
            assert_eq!(time.compact(), *compact.as_bytes());
            assert_eq!(expected.parse(), Ok(time));
        }
    }

    #[test]
    fn reads_any_offset_into_utc() {
        for text in [
            "2026-01-23T14:55:01.042Z",
            "2026-01-23t14:55:01.042z",
            "2026-01-23T15:55:01.042+01:00",
            "2026-01-23T09:25:01.042-05:30",
            "2026-01-23T14:55:01.0429999Z",
            "2026-01-23T14:55:01.042000000-00:00",
        ] {
            let time: Timestamp = text.parse().unwrap();
            assert_eq!(time.to_string(), "2026-01-23T14:55:01.042Z", "{text}");
        }
        let whole: Timestamp = "2026-01-23T14:55:01Z".parse().unwrap();
        assert_eq!(whole.to_string(), "2026-01-23T14:55:01.000Z");
    }

    #[test]
    fn refuses_what_rfc_3339_does_not_allow() {
        let form = |text: &str| TimeProblem::Form(text.to_owned());
        let calendar = |text: &str| TimeProblem::Calendar(text.to_owned());
        for text in [
            "",
            "2026-01-23",
            "2026-01-23 14:55:01Z",
            "2026-01-23T14:55Z",
            "2026-01-23T14:55:01",
            "2026-01-23T14:55:01.Z",
            "2026-01-23T14:55:01,5Z",
            "2026-01-23T14:55:01.0000000001Z",
            "2026-01-23T14:55:01+0100",
            "2026-01-23T14:55:01+24:00",
            "2026-01-23T14:55:01Z[UTC]",
            " 2026-01-23T14:55:01Z",
            "20260123T145501Z",
            "2026-01-23T14:55:0\u{661}Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(form(text)));
        }
        for text in ["2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z"] {
            assert_eq!(text.parse::<Timestamp>(), Err(calendar(text)));
        }
        for text in ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+01:00", "9999-12-30T22:00:00Z"] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimeProblem::Range(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn reads_back_what_it_prints(unix_ms in 0..=UNIX_MS_MAX) {
            let time = Timestamp::from_unix_ms(unix_ms);
            prop_assert_eq!(time.unix_ms(), unix_ms);
            let json = serde_json::to_string(&time).unwrap();
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
        }

        #[test]
        fn text_never_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Timestamp>();
        }
    }
}
