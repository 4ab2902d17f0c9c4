//! Taking secrets out of what is about to be kept: of texts that are there, and of files as they are copied.

use run::redact::{Counts, Redacted, Redactor, Stream, add};
use std::io::{self, Read};
use std::sync::Arc;

/// How much of a file is read at a time, and how far one is looked at to tell whether it is text.
const CHUNK_BYTES: usize = 8 << 10;

/// Takes the secrets out of texts; answers of which kinds.
pub(crate) fn clear<'t>(redactor: &Redactor, texts: impl IntoIterator<Item = &'t mut Vec<u8>>) -> Counts {
    let mut all = Counts::new();
    for text in texts {
        let Redacted { bytes, counts } = redactor.redact(text);
        if !counts.is_empty() {
            *text = bytes.into_owned();
            add(&mut all, &counts);
        }
    }
    all
}

/// What is said of the secrets that were taken out of something, if any were.
pub(crate) fn told(of_what: &str, removed: &Counts) -> Option<String> {
    let kinds: Vec<String> = removed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    (!kinds.is_empty()).then(|| format!("secrets were taken out of {of_what}: {}", kinds.join(", ")))
}

/// A file that is read without its secrets, if it is text: a mark would break anything else.
pub(crate) struct Cleared<R> {
    from: R,
    stream: Option<Stream>,
    ready: io::Cursor<Vec<u8>>,
    removed: Counts,
}

impl<R: Read> Cleared<R> {
    /// Looks at the beginning of the file.
    pub(crate) fn new(mut from: R, redactor: &Arc<Redactor>) -> io::Result<Cleared<R>> {
        let mut head = Vec::with_capacity(CHUNK_BYTES);
        from.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut head)?;
        let mut stream = (!head.contains(&0)).then(|| Stream::new(Arc::clone(redactor)));
        let ready = stream.as_mut().map_or_else(|| head.clone(), |stream| stream.push(&head));
        Ok(Cleared { from, stream, ready: io::Cursor::new(ready), removed: Counts::new() })
    }

    /// What was taken out, once all of it is read.
    pub(crate) fn removed(&self) -> &Counts {
        &self.removed
    }

    /// Fills what is ready; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let mut chunk = [0; CHUNK_BYTES];
        let ready = match self.from.read(&mut chunk)? {
            0 => {
                let (rest, removed) = self.stream.take().expect("BUG: a text has its stream").finish();
                self.removed = removed;
                rest
            }
            count => stream.push(&chunk[..count]),
        };
        self.ready = io::Cursor::new(ready);
        Ok(true)
    }
}

impl<R: Read> Read for Cleared<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.ready.read(into)? {
                0 if into.is_empty() => return Ok(0),
                0 if self.fill()? => {}
                // What is no text continues as it is; at the end of a text there is nothing left to read.
                0 => return self.from.read(into),
                count => return Ok(count),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = concat!("AK", "IAIOSFODNN7EXAMPLE");

    fn read(bytes: &[u8]) -> (Vec<u8>, Counts) {
        let mut cleared = Cleared::new(bytes, &Arc::new(Redactor::patterns())).unwrap();
        let mut out = Vec::new();
        cleared.read_to_end(&mut out).unwrap();
        (out, cleared.removed().clone())
    }

    #[test]
    fn a_text_is_read_without_its_secrets_wherever_they_are() {
        let filler = "nothing to see here\n".repeat(1000);
        for (before, after) in [("", ""), (&*filler, ""), ("", &*filler), (&*filler, &*filler)] {
            let (out, removed) = read(format!("{before}key = {KEY}\n{after}").as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), format!("{before}key = [redacted:aws_key]\n{after}"));
            assert_eq!(removed.values().sum::<u64>(), 1);
        }
    }

    #[test]
    fn what_is_no_text_stays_as_it_is() {
        let long = [&b"\0"[..], KEY.as_bytes(), &vec![7; 3 * CHUNK_BYTES]].concat();
        for bytes in [b"".to_vec(), long] {
            assert_eq!(read(&bytes), (bytes, Counts::new()));
        }
    }
}
