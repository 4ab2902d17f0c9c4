//! Looking for many beginnings at once: a table of hashes of three bytes says where one of them can begin at all, which is
//! almost nowhere, so that ordinary text costs one look for each byte.

/// How many bits the table has, as a power of two; small enough to stay in the nearest cache.
const BITS: u32 = 16;

/// Every beginning has at least this many bytes.
pub(super) const START: usize = 3;

/// Beginnings, each of which stands for something.
#[derive(Clone)]
pub(super) struct Starts {
    table: Vec<u64>,
    /// Sorted by their first bytes, and the longest first among those.
    sorted: Vec<([u8; START], usize)>,
}

impl Starts {
    /// One entry for each beginning, in this order of preference. Those that are too short are never found.
    pub(super) fn new<'a>(beginnings: impl Iterator<Item = &'a [u8]>) -> Starts {
        let mut table = vec![0_u64; 1 << (BITS - 6)];
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
        let may = |three: &[u8]| {
            let hash = hash([three[0], three[1], three[2]]);
            self.table[hash / 64] >> (hash % 64) & 1 == 1
        };
        rest.windows(START).position(may).map(|offset| from + offset)
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
    let word = u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16;
    (word.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
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
