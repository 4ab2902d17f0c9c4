//! Looking for many beginnings at once: a table of hashes of three bytes says where one of them can begin at all, which is
//! almost nowhere, so that ordinary text costs one look for each byte.

use std::ops::Range;

/// How many bits the table has, as a power of two; small enough to stay in the nearest cache.
const BITS: u32 = 16;

const WORDS: usize = 1 << (BITS - 6);

/// Every beginning has at least this many bytes.
pub(super) const START: usize = 3;

/// How many places are looked at together.
const AT_ONCE: usize = 6;

/// How many bytes are looked at together for one of two.
const BLOCK: usize = 32;

/// Beginnings, each of which stands for something.
#[derive(Clone)]
pub(super) struct Starts {
    table: Box<[u64; WORDS]>,
    /// Sorted by their first bytes, and the longest first among those.
    sorted: Vec<([u8; START], usize)>,
}

impl Starts {
    /// One entry for each beginning, in this order of preference. Those that are too short are never found.
    pub(super) fn new<'a>(beginnings: impl Iterator<Item = &'a [u8]>) -> Starts {
        let mut table = Box::new([0_u64; WORDS]);
        let mut sorted: Vec<([u8; START], usize)> =
            beginnings.enumerate().filter_map(|(index, it)| Some((first(it, 0)?, index))).collect();
        sorted.sort_unstable();
        for (start, _) in &sorted {
            let hash = hash(*start);
            table[hash / 64] |= 1 << (hash % 64);
        }
        Starts { table, sorted }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The next place at or after `from` where something may begin.
    pub(super) fn next(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let skipped = from + self.skipped(rest);
        let may = |three: &[u8]| self.has(hash([three[0], three[1], three[2]]));
        text[skipped..].windows(START).position(may).map(|offset| skipped + offset)
    }

    /// How many bytes can be passed over, several at a time, since nothing begins there.
    fn skipped(&self, rest: &[u8]) -> usize {
        let mut at = 0;
        while let Some(eight) = rest.get(at..at + 8).and_then(|eight| <[u8; 8]>::try_from(eight).ok()) {
            let eight = u64::from_le_bytes(eight);
            let may = (0..AT_ONCE).fold(false, |may, place| may | self.has(spread((eight >> (8 * place)) as u32)));
            if may {
                break;
            }
            at += AT_ONCE;
        }
        at
    }

    fn has(&self, hash: usize) -> bool {
        self.table[hash / 64 % WORDS] >> (hash % 64) & 1 == 1
    }

    /// What may begin here, in order of preference.
    pub(super) fn at(&self, text: &[u8], at: usize) -> impl Iterator<Item = usize> {
        let start = first(text, at).unwrap_or_default();
        let from = self.sorted.partition_point(|(other, _)| *other < start);
        self.sorted[from..].iter().take_while(move |(other, _)| *other == start).map(|(_, index)| *index)
    }
}

fn first(text: &[u8], at: usize) -> Option<[u8; START]> {
    text.get(at..at + START)?.try_into().ok()
}

fn hash([a, b, c]: [u8; START]) -> usize {
    spread(u32::from_le_bytes([a, b, c, 0]))
}

/// The first three bytes of four as a place in the table.
fn spread(word: u32) -> usize {
    ((word << 8).wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

/// The next of two bytes at or after `from`.
pub(super) fn next_of(text: &[u8], from: usize, one: u8, other: u8) -> Option<usize> {
    let mut at = from;
    // Looking at all bytes of a block and leaving none early is what a machine does at once.
    let none = |block: &[u8]| !block.iter().fold(false, |found, byte| found | (*byte == one) | (*byte == other));
    while text.get(at..at + BLOCK).is_some_and(none) {
        at += BLOCK;
    }
    text.get(at..)?.iter().position(|byte| *byte == one || *byte == other).map(|offset| at + offset)
}

/// The last place of a byte.
pub(super) fn last_of(text: &[u8], wanted: u8) -> Option<usize> {
    let mut end = text.len();
    let none = |block: &[u8]| !block.iter().fold(false, |found, byte| found | (*byte == wanted));
    while end.checked_sub(BLOCK).is_some_and(|start| none(&text[start..end])) {
        end -= BLOCK;
    }
    text[..end].iter().rposition(|byte| *byte == wanted)
}

/// Whether a word may begin here: after anything that is no part of one, or after an escape that stands for such.
pub(super) fn begins_word(text: &[u8], at: usize) -> bool {
    let Some(&before) = at.checked_sub(1).and_then(|place| text.get(place)) else { return true };
    !is_word(before) || ends_escape(&text[..at])
}

/// Letters, digits and `_`.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a text ends with `\n`, `\u0022`, `%22` or the like, whose letters are no part of a word.
fn ends_escape(text: &[u8]) -> bool {
    let [.., slash, letter] = text else { return false };
    if *slash == b'\\' && b"nrtbf".contains(letter) {
        return true;
    }
    let hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match text {
        [.., b'\\', b'u', a, b, c, d] if hex(&[*a, *b, *c, *d]) => true,
        [.., b'%', a, b] => hex(&[*a, *b]),
        _ => false,
    }
}

/// Where the run of such bytes that begins here ends.
pub(super) fn run_end(text: &[u8], from: usize, class: impl Fn(u8) -> bool) -> usize {
    text[from..].iter().position(|byte| !class(*byte)).map_or(text.len(), |offset| from + offset)
}

/// Remembers where the last run of one class ended, so that no run is walked along twice.
#[derive(Default)]
pub(super) struct Runs {
    last: Range<usize>,
}

impl Runs {
    pub(super) fn end(&mut self, text: &[u8], from: usize, class: impl Fn(u8) -> bool) -> usize {
        if !self.last.contains(&from) {
            self.last = from..run_end(text, from, class);
        }
        self.last.end
    }
}
