//! The difference of two trees as a patch, byte for byte as `git diff-tree -p --full-index --no-renames` writes it: what
//! both sides of each path hold goes in, text comes out. A git child for every change took longer than everything else
//! that norma does with one.
//!
//! Which lines differ is git's Myers diff with its indentation heuristic, from a library that follows both; what is
//! around them is here, and tests hold all of it against git itself.

use super::objects::is_binary;
use super::tree::{Entry, MODE_GITLINK, TreeChange};
use super::{GitError, ObjectId, Objects};
use gix_imara_diff::{Algorithm, Diff, Hunk, InternedInput};
use std::ops::Range;

/// Unchanged lines around a change.
const CONTEXT: u32 = 3;

/// git looks into no file that is larger (`core.bigFileThreshold`), and says only that it differs.
pub const GIT_TEXT_BYTES_MAX: u64 = 512 << 20;

/// Nor does norma into one that is larger than this: nobody reads a patch of it, everybody who keeps one pays for it, and
/// the commit has its bytes.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What git's buffers hold of the line that a part of a file is named by, and of the whole header of that part.
const HEADING_BYTES_MAX: usize = 80;
const HEADER_BYTES_MAX: usize = 127;

impl Objects {
    /// The difference as a patch: full ids, no renames, nothing configurable. Of a file with more bytes than these it says
    /// that it differs.
    pub fn diff_text(&self, old_tree: ObjectId, new_tree: ObjectId, text_bytes_max: u64) -> Result<Vec<u8>, GitError> {
        let mut patch = PatchWriter { objects: self, text_bytes_max, patch: Vec::new() };
        for TreeChange { path, old, new } in self.diff(old_tree, new_tree)? {
            match (old, new) {
                // What becomes something else goes, and comes again.
                (Some(old), Some(new)) if kind(old) != kind(new) => {
                    patch.write_change(&path, Some(old), None)?;
                    patch.write_change(&path, None, Some(new))?;
                }
                (old, new) => patch.write_change(&path, old, new)?,
            }
        }
        Ok(patch.patch)
    }
}

struct PatchWriter<'o> {
    objects: &'o Objects,
    text_bytes_max: u64,
    patch: Vec<u8>,
}

impl PatchWriter<'_> {
    fn write_change(&mut self, path: &[u8], old: Option<Entry>, new: Option<Entry>) -> Result<(), GitError> {
        let (a, b) = (quoted(b"a/", path), quoted(b"b/", path));
        self.patch.extend([b"diff --git ", &a[..], b" ", &b, b"\n"].concat());
        let changed = write_meta(&mut self.patch, old, new);
        if !changed {
            return Ok(());
        }
        let none = b"/dev/null".to_vec();
        let (a, b) = (old.map_or_else(|| none.clone(), |_| a), new.map_or(none, |_| b));
        // Where one side is no text, the other need not be read.
        let new = self.text(new)?;
        let old = if new.is_some() { self.text(old)? } else { None };
        match (old, new) {
            (Some(old), Some(new)) => write_text(&mut self.patch, (&a, &old), (&b, &new)),
            _ => self.patch.extend([b"Binary files ", &a[..], b" and ", &b, b" differ\n"].concat()),
        }
        Ok(())
    }

    /// What an entry holds, where that is text; nothing where there is no entry.
    fn text(&self, entry: Option<Entry>) -> Result<Option<Vec<u8>>, GitError> {
        let Some(entry) = entry else { return Ok(Some(Vec::new())) };
        if entry.mode == MODE_GITLINK {
            return Ok(Some(format!("Subproject commit {}\n", entry.id).into_bytes()));
        }
        if self.objects.size(entry.id)? > self.text_bytes_max {
            return Ok(None);
        }
        Ok(Some(self.objects.read_blob(entry.id)?).filter(|bytes| !is_binary(bytes)))
    }
}

/// File, link or submodule.
fn kind(entry: Entry) -> u32 {
    entry.mode & 0o170_000
}

/// Modes and ids; whether the content differs.
fn write_meta(patch: &mut Vec<u8>, old: Option<Entry>, new: Option<Entry>) -> bool {
    let mut line = |text: String| patch.extend(text.into_bytes());
    let null = |one: Entry| one.id.kind().null();
    match (old, new) {
        (Some(old), None) => line(format!("deleted file mode {:06o}\nindex {}..{}\n", old.mode, old.id, null(old))),
        (None, Some(new)) => line(format!("new file mode {:06o}\nindex {}..{}\n", new.mode, null(new), new.id)),
        (Some(old), Some(new)) => {
            if old.mode != new.mode {
                line(format!("old mode {:06o}\nnew mode {:06o}\n", old.mode, new.mode));
            }
            if old.id == new.id {
                return false;
            }
            let mode = if old.mode == new.mode { format!(" {:06o}", old.mode) } else { String::new() };
            line(format!("index {}..{}{mode}\n", old.id, new.id));
        }
        (None, None) => unreachable!("BUG: a change has a side"),
    }
    true
}

/// The parts of a text that differ, with the lines around them.
fn write_text(patch: &mut Vec<u8>, (a, old): (&[u8], &[u8]), (b, new): (&[u8], &[u8])) {
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines(old).collect(), lines(new).collect());
    let hunks: Vec<Hunk> = diff.hunks().collect();
    if hunks.is_empty() {
        return;
    }
    patch.extend([b"--- ", a, tab(a), b"\n+++ ", b, tab(b), b"\n"].concat());
    let (mut heading, mut looked_at): (&[u8], usize) = (b"", 0);
    for part in hunks.chunk_by(|one, next| next.before.start - one.before.end <= 2 * CONTEXT) {
        let (first, last) = (&part[0], &part[part.len() - 1]);
        let above = CONTEXT.min(first.before.start).min(first.after.start);
        let below = CONTEXT.min(old.len() as u32 - last.before.end).min(new.len() as u32 - last.after.end);
        let before = first.before.start - above..last.before.end + below;
        let after = first.after.start - above..last.after.end + below;
        // A part is named by the last line above it that looks like the beginning of a function, at or below the line
        // where the search for the part before it began.
        let start = before.start as usize;
        heading = old[looked_at.min(start)..start].iter().rev().find_map(|line| named_by(line)).unwrap_or(heading);
        looked_at = start;
        write_header(patch, &before, &after, heading);
        let mut at = before.start;
        for hunk in part {
            old[at as usize..hunk.before.start as usize].iter().for_each(|line| write_line(patch, b' ', line));
            slice(&old, &hunk.before).iter().for_each(|line| write_line(patch, b'-', line));
            slice(&new, &hunk.after).iter().for_each(|line| write_line(patch, b'+', line));
            at = hunk.before.end;
        }
        old[at as usize..before.end as usize].iter().for_each(|line| write_line(patch, b' ', line));
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn slice<'l, 't>(lines: &'l [&'t [u8]], range: &Range<u32>) -> &'l [&'t [u8]] {
    &lines[range.start as usize..range.end as usize]
}

fn write_line(patch: &mut Vec<u8>, sign: u8, line: &[u8]) {
    patch.push(sign);
    patch.extend(line);
    if line.last() != Some(&b'\n') {
        patch.extend(b"\n\\ No newline at end of file\n");
    }
}

fn write_header(patch: &mut Vec<u8>, before: &Range<u32>, after: &Range<u32>, heading: &[u8]) {
    let side = |range: &Range<u32>| match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    };
    let header = format!("@@ -{} +{} @@", side(before), side(after));
    patch.extend(header.as_bytes());
    if !heading.is_empty() {
        let room = HEADER_BYTES_MAX.saturating_sub(header.len() + 1);
        patch.push(b' ');
        patch.extend(&heading[..heading.len().min(room)]);
    }
    patch.push(b'\n');
}

/// What a line gives as the name of the part below it, if it looks like the beginning of a function.
fn named_by(line: &[u8]) -> Option<&[u8]> {
    let starts = line.first().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, b'_' | b'$'));
    let held = &line[..line.len().min(HEADING_BYTES_MAX)];
    let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let end = held.iter().rposition(|byte| !space(byte)).map_or(0, |last| last + 1);
    starts.then(|| &held[..end])
}

/// Programs that know no quotes are told by it where a name with a space ends.
fn tab(name: &[u8]) -> &'static [u8] {
    if name.contains(&b' ') { b"\t" } else { b"" }
}

/// A name as git spells it: in quotes where it has bytes that a reader would not see or would take for something else.
fn quoted(side: &[u8], path: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    if path.iter().all(plain) {
        return [side, path].concat();
    }
    let mut name = [b"\"", side].concat();
    for byte in path {
        match byte {
            0x07 => name.extend(b"\\a"),
            0x08 => name.extend(b"\\b"),
            b'\t' => name.extend(b"\\t"),
            b'\n' => name.extend(b"\\n"),
            0x0b => name.extend(b"\\v"),
            0x0c => name.extend(b"\\f"),
            b'\r' => name.extend(b"\\r"),
            b'"' | b'\\' => name.extend([b'\\', *byte]),
            byte if plain(byte) => name.push(*byte),
            byte => name.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    name.push(b'"');
    name
}
