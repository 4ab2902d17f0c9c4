//! When a run counts as stalled: a node says the same, changes the same or fails the same tests several times in a row. What
//! it says is compared without what differs from turn to turn, such as times and numbers; a turn that changes nothing has no
//! diff to compare.

use contract::graph::{StallLimits, TurnDelta};
use contract::hash::sha256;
use contract::view::stream::StallEvidence;

/// How many summaries are shown as evidence.
const SUMMARIES: usize = 3;

/// What a node did last, and how many times in a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Repeats {
    output: Repeated,
    diff: Repeated,
    failure: Repeated,
    summaries: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Repeated {
    what: String,
    times: u32,
}

impl Repeated {
    fn note(&mut self, what: String) {
        let times = if self.times > 0 && self.what == what { self.times + 1 } else { 1 };
        *self = Repeated { what, times };
    }

    fn over(&self, limit: u32) -> Option<String> {
        (self.times >= limit).then(|| self.what.clone())
    }
}

impl Repeats {
    /// A turn has ended with these words.
    pub(super) fn note_turn(&mut self, summary: &str, delta: Option<&TurnDelta>) {
        self.output.note(sha256(normalized(summary).as_bytes()).to_string());
        match delta.filter(|delta| delta.count > 0) {
            Some(delta) => self.diff.note(delta.sha256.to_string()),
            None => self.diff = Repeated::default(),
        }
        self.summaries.push(summary.chars().take(200).collect());
        if self.summaries.len() > SUMMARIES {
            self.summaries.remove(0);
        }
    }

    pub(super) fn note_refused(&mut self, why: &str) {
        self.failure.note(normalized(why));
    }

    pub(super) fn note_passed(&mut self) {
        self.failure = Repeated::default();
    }

    /// What repeats itself more than it may, if anything does.
    pub(super) fn evidence(&self, limits: StallLimits) -> Option<StallEvidence> {
        let found = StallEvidence {
            output_hash: self.output.over(limits.same_output),
            diff_hash: self.diff.over(limits.same_diff),
            verification_failure: self.failure.over(limits.same_failure),
            summaries: self.summaries.clone(),
        };
        let is_any = found.output_hash.is_some() || found.diff_hash.is_some() || found.verification_failure.is_some();
        is_any.then_some(found)
    }
}

/// A text without what differs from turn to turn: white space, case, and every run of digits.
fn normalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_digits, mut in_space) = (false, true);
    for c in text.chars().flat_map(char::to_lowercase) {
        let is_digit = c.is_ascii_digit();
        match (is_digit, c.is_whitespace()) {
            (true, _) if !in_digits => out.push('0'),
            (false, true) if !in_space => out.push(' '),
            (false, false) => out.push(c),
            _ => {}
        }
        (in_digits, in_space) = (is_digit, c.is_whitespace());
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(count: u64, patch: &str) -> TurnDelta {
        TurnDelta { files: Vec::new(), count, sha256: sha256(patch.as_bytes()) }
    }

    #[test]
    fn the_same_answer_three_times_is_a_stall_and_numbers_do_not_matter() {
        let mut repeats = Repeats::default();
        let limits = StallLimits::default();
        repeats.note_turn("Done in 12 s, at 10:31", None);
        repeats.note_turn("done  in 7 s, at 11:02", None);
        assert_eq!(repeats.evidence(limits), None);
        repeats.note_turn("Done in 9 s, at 11:05", None);
        let found = repeats.evidence(limits).unwrap();
        assert_eq!((found.output_hash.is_some(), found.diff_hash, found.summaries.len()), (true, None, 3));
        repeats.note_turn("something else", None);
        assert_eq!(repeats.evidence(limits), None);
    }

    #[test]
    fn turns_that_change_nothing_have_no_diff_to_repeat() {
        let mut repeats = Repeats::default();
        for word in ["a", "b", "c", "d"] {
            repeats.note_turn(word, Some(&delta(0, "")));
        }
        assert_eq!(repeats.evidence(StallLimits::default()), None);
        for word in ["a", "b", "c"] {
            repeats.note_turn(word, Some(&delta(1, "+x")));
        }
        assert!(repeats.evidence(StallLimits::default()).unwrap().diff_hash.is_some());
    }

    #[test]
    fn the_same_failure_three_times_is_a_stall_until_something_passes() {
        let mut repeats = Repeats::default();
        repeats.note_refused("Tests failed: 2 of 9");
        repeats.note_refused("Tests failed: 3 of 9");
        repeats.note_passed();
        repeats.note_refused("Tests failed: 2 of 9");
        assert_eq!(repeats.evidence(StallLimits::default()), None);
        repeats.note_refused("Tests failed: 2 of 9");
        repeats.note_refused("Tests failed: 2 of 9");
        let found = repeats.evidence(StallLimits::default()).unwrap();
        assert_eq!(found.verification_failure.as_deref(), Some("tests failed: 0 of 0"));
    }
}
