//! Events of a stream (`text/event-stream`), put together from pieces that end anywhere.

/// Longest event that is looked at. The last event of a Responses stream repeats the whole answer.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Puts the `data` of events together. Names and ids are not needed: the data says what it is.
#[derive(Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    /// The event is too long; it is passed over.
    is_long: bool,
}

impl Events {
    /// The next bytes; calls `event` with the data of each event that they complete.
    pub(crate) fn piece(&mut self, bytes: &[u8], mut event: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.line.len() + self.data.len() + part.len() > EVENT_BYTES_MAX {
                self.is_long = true;
                self.line.clear();
                self.data.clear();
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_line(&mut event);
            }
        }
    }

    /// Some servers leave out the empty line after the last event.
    pub(crate) fn end(&mut self, mut event: impl FnMut(&[u8])) {
        self.end_line(&mut event);
        self.end_event(&mut event);
    }

    fn end_line(&mut self, event: &mut impl FnMut(&[u8])) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            self.end_event(event);
        } else if let Some(value) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        }
    }

    fn end_event(&mut self, event: &mut impl FnMut(&[u8])) {
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.is_long) && !data.is_empty() {
            event(&data);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(text: &str, size: usize) -> Vec<String> {
        let mut seen = Vec::new();
        let mut note = |data: &[u8]| seen.push(String::from_utf8_lossy(data).into_owned());
        let mut events = Events::default();
        for piece in text.as_bytes().chunks(size) {
            events.piece(piece, &mut note);
        }
        events.end(&mut note);
        seen
    }

    #[test]
    fn reads_events_in_any_pieces() {
        let text = ": hello\n\nevent: a\ndata: {\"x\":\ndata: 1}\n\ndata:two\r\n\r\nid: 3\n\ndata: end";
        for size in 1..text.len() {
            assert_eq!(events(text, size), ["{\"x\":\n1}", "two", "end"]);
        }
    }

    proptest! {
        #[test]
        fn any_text_in_any_pieces_is_the_same(text in "(data: ?|a|\n|\r|:){0,40}", size in 1usize..9) {
            prop_assert_eq!(events(&text, size), events(&text, text.len().max(1)));
        }
    }
}
