//! RFC 8785: canonical JSON, written in one go into one buffer. What is written is put into its order when its object
//! ends, in place where it is in order already.

use super::INTEGER_MAX;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use std::cmp::Ordering;
use std::io::{self, Write};

/// The canonical form of a value, and whether a number in it is one that other readers would round. A double that is no
/// number is `null`, as serde_json has it.
pub(super) fn write(value: &impl Serialize) -> Result<(Vec<u8>, bool), serde_json::Error> {
    let (out, members) = (Vec::with_capacity(LINE_BYTES), Vec::with_capacity(LINE_MEMBERS));
    let mut canonical = Canonical { out, members, ..Canonical::default() };
    // What is written goes into the formatter's own buffer, which can be put into order.
    value.serialize(&mut Serializer::with_formatter(io::sink(), &mut canonical))?;
    Ok((canonical.out, canonical.is_inexact))
}

/// Room for most lines of a log, which are most of what is written.
const LINE_BYTES: usize = 1024;
const LINE_MEMBERS: usize = 32;

#[derive(Default)]
struct Canonical {
    out: Vec<u8>,
    /// The members of the objects that are open, those of the innermost last.
    members: Vec<Member>,
    /// For each open object the first of its members.
    open: Vec<usize>,
    is_inexact: bool,
}

/// Where a member of an object is.
#[derive(Clone, Copy)]
struct Member {
    /// Its key, with its quotes.
    start: usize,
    /// The colon.
    colon: usize,
    end: usize,
}

impl Canonical {
    fn push(&mut self, text: &str) -> io::Result<()> {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn integer(&mut self, magnitude: u64, is_negative: bool) -> io::Result<()> {
        if magnitude > INTEGER_MAX {
            return self.number(if is_negative { -(magnitude as f64) } else { magnitude as f64 });
        }
        write!(self.out, "{}{magnitude}", if is_negative { "-" } else { "" })
    }

    /// A number as ECMAScript writes it: the fewest digits that are read back as the same number, which serde_json finds.
    fn number(&mut self, value: f64) -> io::Result<()> {
        self.is_inexact |= value.abs() > INTEGER_MAX as f64;
        if value == 0.0 {
            return self.push("0");
        }
        let mut shortest = Vec::new();
        CompactFormatter.write_f64(&mut shortest, value.abs())?;
        let shortest = String::from_utf8(shortest).expect("BUG: a number is ASCII");
        let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0');
        // Where the point is, counted from before the first of these digits.
        let exponent: i32 = exponent.parse().expect("BUG: an exponent is a number");
        let point = exponent + whole.len() as i32 - (all.len() - significant.len()) as i32;
        if value < 0.0 {
            self.push("-")?;
        }
        let zeros = |count: i32| "0".repeat(count.max(0) as usize);
        match point {
            1..=21 if digits.len() <= point as usize => {
                write!(self.out, "{digits}{}", zeros(point - digits.len() as i32))
            }
            1..=21 => write!(self.out, "{}.{}", &digits[..point as usize], &digits[point as usize..]),
            -5..=0 => write!(self.out, "0.{}{digits}", zeros(-point)),
            _ => {
                let fraction = if digits.len() > 1 { format!(".{}", &digits[1..]) } else { String::new() };
                write!(self.out, "{}{fraction}e{:+}", &digits[..1], point - 1)
            }
        }
    }

    /// Puts the members of the object that ends here into the order of their keys.
    fn sort(&mut self) -> io::Result<()> {
        let first = self.open.pop().expect("BUG: an object ends that has begun");
        let Canonical { out, members, .. } = self;
        let by_key = |one: &Member, other: &Member| compare(key(out, one), key(out, other));
        if !members[first..].is_sorted_by(|one, other| by_key(one, other) == Ordering::Less) {
            let start = members[first].start;
            members[first..].sort_by(by_key);
            if members[first..].windows(2).any(|pair| by_key(&pair[0], &pair[1]) == Ordering::Equal) {
                return Err(invalid("duplicate object key"));
            }
            let written = out.split_off(start);
            for (place, member) in members[first..].iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&written[member.start - start..member.end - start]);
            }
        }
        members.truncate(first);
        Ok(())
    }
}

/// What is between the quotes of a key, as it is written.
fn key<'o>(out: &'o [u8], member: &Member) -> &'o [u8] {
    &out[member.start + 1..member.colon - 1]
}

/// The order of keys is that of their UTF-16 code units, which is that of their bytes where all are ASCII.
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let is_plain = |key: &[u8]| key.iter().all(|byte| byte.is_ascii() && *byte != b'\\');
    if is_plain(one) && is_plain(other) { one.cmp(other) } else { units(one).cmp(&units(other)) }
}

fn units(key: &[u8]) -> Vec<u16> {
    let quoted = [b"\"", key, b"\""].concat();
    let text: String = serde_json::from_slice(&quoted).expect("BUG: a key that was written can be read");
    text.encode_utf16().collect()
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Every method ignores the writer that it is given: see [`write`].
impl Formatter for &mut Canonical {
    fn write_null<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push("null")
    }

    fn write_bool<W: ?Sized + Write>(&mut self, _: &mut W, value: bool) -> io::Result<()> {
        self.push(if value { "true" } else { "false" })
    }

    fn write_i8<W: ?Sized + Write>(&mut self, _: &mut W, value: i8) -> io::Result<()> {
        self.integer(u64::from(value.unsigned_abs()), value < 0)
    }

    fn write_i16<W: ?Sized + Write>(&mut self, _: &mut W, value: i16) -> io::Result<()> {
        self.integer(u64::from(value.unsigned_abs()), value < 0)
    }

    fn write_i32<W: ?Sized + Write>(&mut self, _: &mut W, value: i32) -> io::Result<()> {
        self.integer(u64::from(value.unsigned_abs()), value < 0)
    }

    fn write_i64<W: ?Sized + Write>(&mut self, _: &mut W, value: i64) -> io::Result<()> {
        self.integer(value.unsigned_abs(), value < 0)
    }

    fn write_i128<W: ?Sized + Write>(&mut self, _: &mut W, value: i128) -> io::Result<()> {
        self.number(value as f64)
    }

    fn write_u8<W: ?Sized + Write>(&mut self, _: &mut W, value: u8) -> io::Result<()> {
        self.integer(u64::from(value), false)
    }

    fn write_u16<W: ?Sized + Write>(&mut self, _: &mut W, value: u16) -> io::Result<()> {
        self.integer(u64::from(value), false)
    }

    fn write_u32<W: ?Sized + Write>(&mut self, _: &mut W, value: u32) -> io::Result<()> {
        self.integer(u64::from(value), false)
    }

    fn write_u64<W: ?Sized + Write>(&mut self, _: &mut W, value: u64) -> io::Result<()> {
        self.integer(value, false)
    }

    fn write_u128<W: ?Sized + Write>(&mut self, _: &mut W, value: u128) -> io::Result<()> {
        self.number(value as f64)
    }

    fn write_f32<W: ?Sized + Write>(&mut self, _: &mut W, value: f32) -> io::Result<()> {
        self.number(f64::from(value))
    }

    fn write_f64<W: ?Sized + Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.number(value)
    }

    fn write_number_str<W: ?Sized + Write>(&mut self, _: &mut W, value: &str) -> io::Result<()> {
        self.number(value.parse().map_err(|_| invalid("not a number"))?)
    }

    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push("\"")
    }

    fn end_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push("\"")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.push(fragment)
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.push(match escape {
            CharEscape::Quote => "\\\"",
            CharEscape::ReverseSolidus => "\\\\",
            CharEscape::Solidus => "/",
            CharEscape::Backspace => "\\b",
            CharEscape::FormFeed => "\\f",
            CharEscape::LineFeed => "\\n",
            CharEscape::CarriageReturn => "\\r",
            CharEscape::Tab => "\\t",
            CharEscape::AsciiControl(byte) => return write!(self.out, "\\u{byte:04x}"),
        })
    }

    fn begin_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push("[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.push("]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        self.push(if first { "" } else { "," })
    }

    fn begin_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let first = self.members.len();
        self.open.push(first);
        self.push("{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.sort()?;
        self.push("}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        self.push(if first { "" } else { "," })?;
        let start = self.out.len();
        self.members.push(Member { start, colon: start, end: start });
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let colon = self.out.len();
        self.members.last_mut().expect("BUG: a value follows its key").colon = colon;
        self.push(":")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let end = self.out.len();
        self.members.last_mut().expect("BUG: a value follows its key").end = end;
        Ok(())
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, _: &mut W, _: &str) -> io::Result<()> {
        Err(invalid("raw values have no canonical form"))
    }
}
