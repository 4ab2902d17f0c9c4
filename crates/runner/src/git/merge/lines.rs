//! Three versions of one text become one, line by line: bytes in, bytes or conflicts out. No file, no object, no clock.
//!
//! The rules are those of git's `xdl_merge` (xdiff/xmerge.c), ported so that a clean result is byte for byte git's own:
//! changes that touch or overlap conflict, unless both sides came to the same lines. Which lines a change is said to
//! consist of depends on the diff, and git has two in use: Myers (`git merge-file`) and histogram (`git merge`). Where
//! they lead to different texts nobody knows what was meant, so a merge is clean only if both agree.
//!
//! `git merge-file` itself would need no library, but a process and three files for every path, and its default is a
//! matter of the version that is installed: whoever replays a run elsewhere must get the same bytes.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, InternedInput, Token};

/// What became of three versions of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MergedText {
    /// The changes of both sides.
    Clean(Vec<u8>),
    /// Nothing: these parts were changed in two ways. Never empty.
    Conflicts(Vec<LineConflict>),
}

/// A part of a text that both sides changed, as lines counted from 0 in each version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineConflict {
    /// Where it is in the text that both started from; empty if both only added lines.
    pub base: Range<usize>,
    /// What ours made of it.
    pub ours: Range<usize>,
    /// What theirs made of it.
    pub theirs: Range<usize>,
}

/// Merges the changes `base → ours` and `base → theirs`.
pub(crate) fn merge_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> MergedText {
    if ours == theirs || theirs == base {
        return MergedText::Clean(ours.to_vec());
    }
    if ours == base {
        return MergedText::Clean(theirs.to_vec());
    }
    let texts = Texts::new(base, ours, theirs);
    let merged = texts.merge(Algorithm::Myers);
    match (&merged, texts.merge(Algorithm::Histogram)) {
        (Ok(bytes), Ok(other)) if *bytes != other => MergedText::Conflicts(vec![texts.whole()]),
        (Ok(_), Err(conflicts)) => MergedText::Conflicts(conflicts),
        _ => merged.map_or_else(MergedText::Conflicts, MergedText::Clean),
    }
}

/// The three versions as numbers, equal lines having equal ones. A line keeps its ending, so that `\r\n`, `\n` and a
/// missing last newline are differences like any other.
struct Texts<'t> {
    ours: InternedInput<&'t [u8]>,
    theirs: Vec<Token>,
}

impl<'t> Texts<'t> {
    fn new(base: &'t [u8], ours: &'t [u8], theirs: &'t [u8]) -> Texts<'t> {
        let mut input = InternedInput::new(base, ours);
        let theirs = theirs.split_inclusive(|byte| *byte == b'\n').map(|line| input.interner.intern(line)).collect();
        Texts { ours: input, theirs }
    }

    /// The merge by one diff algorithm.
    fn merge(&self, algorithm: Algorithm) -> Result<Vec<u8>, Vec<LineConflict>> {
        let ours = &self.ours.after;
        let (one, other) = (self.changes(ours, algorithm), self.changes(&self.theirs, algorithm));
        let regions = self.regions(&one, &other);
        let conflicts: Vec<LineConflict> =
            regions.iter().filter(|region| !self.is_settled(region)).map(Region::conflict).collect();
        if conflicts.is_empty() { Ok(self.text(&regions)) } else { Err(conflicts) }
    }

    fn changes(&self, to: &[Token], algorithm: Algorithm) -> Vec<Change> {
        let (before, interner) = (&self.ours.before, &self.ours.interner);
        let mut diff = Diff::default();
        diff.compute_with(algorithm, before, to, interner.num_tokens());
        diff.postprocess_with(before, to, gix_imara_diff::NoSliderHeuristic);
        let signed = |range: Range<u32>| i64::from(range.start)..i64::from(range.end);
        diff.hunks().map(|hunk| Change { base: signed(hunk.before), new: signed(hunk.after) }).collect()
    }

    /// What was changed, in order: `xdl_do_merge`. The changes of each side come in the order of the base.
    fn regions(&self, ours: &[Change], theirs: &[Change]) -> Vec<Region> {
        let mut regions = Vec::new();
        let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
        loop {
            match (ours.peek().copied(), theirs.peek().copied()) {
                (None, None) => return regions,
                (Some(one), other) if other.is_none_or(|other| one.base.end < other.base.start) => {
                    let unchanged = one.unchanged_in(self.theirs_before(other));
                    let region =
                        Region { side: Side::Ours, base: one.base.clone(), ours: one.new.clone(), theirs: unchanged };
                    append(&mut regions, region);
                    ours.next();
                }
                (one, Some(other)) if one.is_none_or(|one| other.base.end < one.base.start) => {
                    let unchanged = other.unchanged_in(self.ours_before(one));
                    let region = Region {
                        side: Side::Theirs,
                        base: other.base.clone(),
                        ours: unchanged,
                        theirs: other.new.clone(),
                    };
                    append(&mut regions, region);
                    theirs.next();
                }
                (Some(one), Some(other)) => {
                    if !self.is_same(one, other) {
                        append(&mut regions, met(one, other));
                    }
                    ours.next_if(|_| one.base.end <= other.base.end);
                    theirs.next_if(|_| other.base.end <= one.base.end);
                }
                (Some(_), None) | (None, Some(_)) => unreachable!("BUG: a change without a neighbour stands alone"),
            }
        }
    }

    /// By how many lines their text is shifted against the base before their next change, or at the end.
    fn theirs_before(&self, next: Option<&Change>) -> i64 {
        next.map_or(self.theirs.len() as i64 - self.ours.before.len() as i64, Change::shift_before)
    }

    /// The same for ours.
    fn ours_before(&self, next: Option<&Change>) -> i64 {
        next.map_or(self.ours.after.len() as i64 - self.ours.before.len() as i64, Change::shift_before)
    }

    fn is_same(&self, ours: &Change, theirs: &Change) -> bool {
        ours.base == theirs.base && self.ours.after[lines(&ours.new)] == self.theirs[lines(&theirs.new)]
    }

    /// Whether it is known what a region becomes: one side changed it, or both came to the same lines.
    fn is_settled(&self, region: &Region) -> bool {
        let (ours, theirs) = (&self.ours.after[lines(&region.ours)], &self.theirs[lines(&region.theirs)]);
        // As git: where one side left nothing there is nothing to compare.
        region.side != Side::Both || (!ours.is_empty() && ours == theirs)
    }

    /// Our text, with their lines where only they changed something.
    fn text(&self, regions: &[Region]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut write = |tokens: &[Token]| {
            tokens.iter().for_each(|token| text.extend_from_slice(self.ours.interner[*token]));
        };
        let mut at = 0;
        for region in regions.iter().filter(|region| region.side == Side::Theirs) {
            let place = lines(&region.ours);
            write(&self.ours.after[at..place.start]);
            write(&self.theirs[lines(&region.theirs)]);
            at = place.end;
        }
        write(&self.ours.after[at..]);
        text
    }

    fn whole(&self) -> LineConflict {
        LineConflict { base: 0..self.ours.before.len(), ours: 0..self.ours.after.len(), theirs: 0..self.theirs.len() }
    }
}

/// Lines of the base that one side replaced. Signed, since the place of a change in the other side's text is
/// reckoned from changes that may lie before its beginning.
#[derive(Debug, Clone)]
struct Change {
    base: Range<i64>,
    new: Range<i64>,
}

impl Change {
    /// By how many lines what comes before it is shifted.
    fn shift_before(&self) -> i64 {
        self.new.start - self.base.start
    }

    /// By how many lines what follows it is shifted.
    fn shift_after(&self) -> i64 {
        self.new.end - self.base.end
    }

    /// Where its lines of the base are in a text that is shifted there and did not change them.
    fn unchanged_in(&self, shift: i64) -> Range<i64> {
        self.base.start + shift..self.base.end + shift
    }
}

/// Who changed a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
    Both,
}

/// A region that somebody changed, in all three texts.
#[derive(Debug)]
struct Region {
    side: Side,
    base: Range<i64>,
    ours: Range<i64>,
    theirs: Range<i64>,
}

impl Region {
    fn conflict(&self) -> LineConflict {
        LineConflict { base: lines(&self.base), ours: lines(&self.ours), theirs: lines(&self.theirs) }
    }
}

fn lines(range: &Range<i64>) -> Range<usize> {
    let place = |line: i64| usize::try_from(line).expect("BUG: a region lies within its text");
    place(range.start)..place(range.end)
}

/// Two changes that overlap or touch, as the one region that holds both.
fn met(ours: &Change, theirs: &Change) -> Region {
    let start = ours.base.start.min(theirs.base.start);
    let end = ours.base.end.max(theirs.base.end);
    let seen = |change: &Change| start + change.shift_before()..end + change.shift_after();
    Region { side: Side::Both, base: start..end, ours: seen(ours), theirs: seen(theirs) }
}

/// `xdl_append_merge`: a region that touches the one before it is part of that one.
fn append(regions: &mut Vec<Region>, region: Region) {
    match regions.last_mut() {
        Some(last) if region.ours.start <= last.ours.end || region.theirs.start <= last.theirs.end => {
            if last.side != region.side {
                last.side = Side::Both;
            }
            (last.base.end, last.ours.end, last.theirs.end) = (region.base.end, region.ours.end, region.theirs.end);
        }
        _ => regions.push(region),
    }
}
