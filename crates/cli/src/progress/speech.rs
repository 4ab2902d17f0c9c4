//! What agents say while they work, for who asked for it (`-v`): every whole line as soon as it is there. Pieces are on no
//! record, and some may be missed; the message that follows them is whole, so what was not shown yet is shown then.

use contract::{SessionEvent, StepRef};
use std::collections::BTreeMap;

/// What was shown of the message that each turn is in the middle of.
#[derive(Default)]
pub(crate) struct Speech {
    turns: BTreeMap<u32, Said>,
}

#[derive(Default)]
struct Said {
    /// Pieces, from the beginning of the message.
    text: String,
    /// How much of it was shown: whole lines.
    shown: usize,
}

impl Speech {
    /// The lines that can be shown now.
    pub(crate) fn hear(&mut self, step: StepRef, event: &SessionEvent) -> Vec<String> {
        let said = self.turns.entry(step.index).or_default();
        match event {
            SessionEvent::MessageDelta { text } => {
                said.text.push_str(text);
                let rest = &said.text[said.shown..];
                let whole = rest.rfind('\n').map_or(0, |end| end + 1);
                let lines = rest[..whole].lines().map(str::to_owned).collect();
                said.shown += whole;
                lines
            }
            SessionEvent::Message { text } => {
                let Said { text: pieces, shown } = std::mem::take(said);
                let rest = match text.trim_start().strip_prefix(pieces[..shown].trim_start()) {
                    Some(rest) => rest,
                    // Pieces were missed, so what was shown is not its beginning.
                    None if shown == 0 => text,
                    None => &pieces[shown..],
                };
                rest.trim_end().lines().map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Role;

    #[test]
    fn every_line_is_shown_once_and_as_soon_as_it_is_whole() {
        let step = StepRef { index: 1, role: Role::Worker, iteration: 1, attempt: 1, item: None, node: None };
        let mut speech = Speech::default();
        let mut piece = |text: &str| speech.hear(step, &SessionEvent::MessageDelta { text: text.to_owned() });
        assert!(piece("I look").is_empty());
        assert_eq!(piece(" at it.\nThen I"), ["I look at it."]);
        let mut whole = |text: &str| speech.hear(step, &SessionEvent::Message { text: text.to_owned() });
        assert_eq!(whole("I look at it.\nThen I fix it.\n"), ["Then I fix it."]);
        assert_eq!(whole("Done."), ["Done."]);
    }
}
