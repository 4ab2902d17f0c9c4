//! What norma saw of a change, in the words of the gate that judges it.

use crate::Result;
use crate::change::paths::{changes, is_file};
use crate::git::{Entry, ObjectId, Objects, TreeChange};
use crate::workspace::{Captured, IgnoredFile, OddKind};
use contract::Digest;
use contract::json::INTEGER_MAX;
use contract::receipt::{LeftOut, LeftOutFile};
use run::gate::scope::{ChangedPath, IgnoredPath, Observed, Odd, OddPath};
use run::gate::shown;
use run::redact::{Known, Redactor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most places of ignored files that a note names.
const NOTED_MAX: usize = 5;

/// A patch as it may be kept: without the secrets, if its change adds any. A patch shows a few lines of a block only, so
/// what is secret in the files is looked for besides what is secret by its form.
pub(crate) fn patch_to_keep(
    objects: &Objects,
    changes: &[TreeChange],
    seen: &[ChangedPath],
    patch: Vec<u8>,
) -> Result<Vec<u8>> {
    let with_secrets = changes.iter().zip(seen).filter(|(_, seen)| !seen.secrets.is_empty());
    let sides: Vec<Entry> = with_secrets.flat_map(|(change, _)| [change.old, change.new]).flatten().collect();
    if sides.is_empty() {
        return Ok(patch);
    }
    let mut known = Known::new();
    for side in sides.iter().filter(|entry| is_file(entry)) {
        known.add_found(&Redactor::patterns(), &objects.read_blob(side.id)?);
    }
    // First by its form, since that says what it was.
    let patch = Redactor::patterns().redact(&patch).bytes;
    Ok(Redactor::new(&known).redact(&patch).bytes.into_owned())
}

/// Everything that was found in a workspace. Ignored files are judged one by one as far as their names are known, and all
/// of them by where they are.
pub fn observed(objects: &Objects, base: ObjectId, captured: &Captured) -> Result<Observed> {
    let odd = captured.odd.iter().map(|odd| OddPath { path: odd.path.clone(), what: what(odd.kind) }).collect();
    let listed = captured.ignored.iter().map(|file| &file.path).chain(&captured.ignored_names);
    let ignored = listed.chain(&captured.ignored_at).cloned().collect::<BTreeSet<_>>();
    let ignored = ignored.into_iter().map(|path| IgnoredPath { path }).collect();
    Ok(Observed {
        changes: changes(objects, Some((base, captured.tree)), &captured.changes)?,
        ignored,
        odd,
        ..Observed::default()
    })
}

fn what(kind: OddKind) -> Odd {
    match kind {
        OddKind::NestedRepository => Odd::NestedRepository,
        OddKind::Fifo => Odd::Fifo,
        OddKind::Socket => Odd::Socket,
        OddKind::Device => Odd::Device,
        OddKind::TooLarge => Odd::TooLarge,
        OddKind::TooDeep => Odd::TooDeep,
        OddKind::TooMany => Odd::TooMany,
        OddKind::OnlyInGit => Odd::OnlyInGit,
    }
}

/// What a worker left in its workspace besides the change, as it is kept of its turn.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LyingAbout {
    /// Ignored files with their sizes, as runs recorded them that denied those outside the scope.
    #[serde(default, skip_serializing)]
    ignored: Vec<(String, u64)>,
    /// What no tree can hold.
    odd: Vec<(String, Odd)>,
    /// Ignored files, which are no part of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_out: Option<Ignored>,
}

/// The ignored files of a workspace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ignored {
    count: u64,
    bytes: u64,
    /// The first of them.
    files: Vec<IgnoredEntry>,
    /// Where the others are, and those among them that are protected; empty where all are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IgnoredEntry {
    path: String,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<Digest>,
}

/// What lies about, if anything does. `is_denied` says which ignored names the gate has something against.
pub(crate) fn lying_about(captured: &Captured, is_denied: impl Fn(&[u8]) -> bool) -> Option<LyingAbout> {
    let left_out = (!captured.ignored_at.is_empty()).then(|| Ignored::of(captured, is_denied));
    let odd: Vec<(String, Odd)> = captured.odd.iter().map(|odd| (spelled(&odd.path), what(odd.kind))).collect();
    (left_out.is_some() || !odd.is_empty()).then_some(LyingAbout { ignored: Vec::new(), odd, left_out })
}

/// What a loop's agent left out of its patch, for the notes of its turn.
pub(crate) fn left_out_note(captured: &Captured) -> Option<String> {
    let count = captured.ignored.len() as u64 + captured.ignored_more;
    let names: Vec<String> = captured.ignored_at.iter().take(NOTED_MAX).map(|path| shown(path)).collect();
    let more = if captured.ignored_at.len() > names.len() { ", …" } else { "" };
    (count > 0).then(|| {
        format!("{count} file(s) that are ignored or were built are not part of the patch: {}{more}", names.join(", "))
    })
}

impl Ignored {
    fn of(captured: &Captured, is_denied: impl Fn(&[u8]) -> bool) -> Ignored {
        let listed = captured.ignored.iter().map(|file| file.size).fold(0, u64::saturating_add);
        let mut places = BTreeSet::new();
        if captured.ignored_more > 0 {
            places.extend(captured.ignored_at.iter().map(|path| spelled(path)));
            places.extend(captured.ignored_names.iter().filter(|path| is_denied(path)).map(|path| spelled(path)));
        }
        let entry = |file: &IgnoredFile| IgnoredEntry {
            path: spelled(&file.path),
            size: bounded(file.size),
            sha256: file.sha256,
        };
        Ignored {
            count: captured.ignored.len() as u64 + captured.ignored_more,
            bytes: bounded(listed.saturating_add(captured.ignored_more_bytes)),
            files: captured.ignored.iter().map(entry).collect(),
            places: places.into_iter().collect(),
        }
    }
}

/// A size that JSON holds exactly: an agent can make a file of any, and it costs nothing.
fn bounded(size: u64) -> u64 {
    size.min(INTEGER_MAX)
}

impl LyingAbout {
    /// The same in the words of the gate, beside what changed.
    pub(crate) fn observed(&self, changes: Vec<ChangedPath>) -> Option<Observed> {
        let before = self.ignored.iter().map(|(path, _)| path);
        let now = self.left_out.iter().flat_map(|it| it.files.iter().map(|file| &file.path).chain(&it.places));
        let ignored = before.chain(now).map(|path| Some(IgnoredPath { path: read(path)? }));
        let odd = self.odd.iter().map(|(path, what)| Some(OddPath { path: read(path)?, what: *what }));
        Some(Observed {
            changes,
            ignored: ignored.collect::<Option<_>>()?,
            denies_ignored_outside: self.left_out.is_none(),
            odd: odd.collect::<Option<_>>()?,
        })
    }

    /// What is left out of the change, as receipts name it.
    pub(crate) fn left_out(&self) -> Option<LeftOut> {
        let ignored = self.left_out.as_ref()?;
        let file = |entry: &IgnoredEntry| {
            let path = shown(&read(&entry.path)?);
            Some(LeftOutFile { path, size: entry.size, sha256: entry.sha256 })
        };
        let files = ignored.files.iter().filter_map(file).collect();
        Some(LeftOut { count: ignored.count, bytes: ignored.bytes, files })
    }
}

/// Exact bytes as text: themselves, or their hexadecimal digits.
fn spelled(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.starts_with("hex:") => text.to_owned(),
        _ => format!("hex:{}", path.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

fn read(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("hex:") else { return Some(text.as_bytes().to_vec()) };
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Two ignored files and how many more; `build/.env` is only known by its name.
    fn captured(more: u64) -> Captured {
        let file = |path: &[u8], size| IgnoredFile { path: path.to_vec(), size, sha256: None };
        Captured {
            tree: ObjectId::Sha1([0; 20]),
            changes: Vec::new(),
            ignored: vec![file(b"a.o", 2), file(b"build/\xff", u64::MAX)],
            ignored_names: if more > 0 { vec![b"build/.env".to_vec(), b"build/z".to_vec()] } else { Vec::new() },
            ignored_more: more,
            ignored_more_bytes: more,
            ignored_at: vec![b"a.o".to_vec(), b"build".to_vec()],
            odd: Vec::new(),
            bytes: 0,
        }
    }

    fn names(observed: &Observed) -> Vec<&[u8]> {
        observed.ignored.iter().map(|file| file.path.as_slice()).collect()
    }

    #[test]
    fn what_is_left_out_is_kept_with_its_total_and_whatever_is_protected() {
        let found = lying_about(&captured(2), |path| path.ends_with(b".env")).unwrap();
        let document = json!({"odd": [], "left_out": {
            "count": 4, "bytes": INTEGER_MAX,
            "files": [{"path": "a.o", "size": 2}, {"path": "hex:6275696c642fff", "size": INTEGER_MAX}],
            "places": ["a.o", "build", "build/.env"],
        }});
        assert_eq!(serde_json::to_value(&found).unwrap(), document);
        let found: LyingAbout = serde_json::from_value(document).unwrap();
        let observed = found.observed(Vec::new()).unwrap();
        assert_eq!(names(&observed), [&b"a.o"[..], b"build/\xff", b"a.o", b"build", b"build/.env"]);
        assert!(!observed.denies_ignored_outside);
        let left_out = found.left_out().unwrap();
        assert_eq!((left_out.count, left_out.bytes, left_out.files.len()), (4, INTEGER_MAX, 2));
        assert_eq!(left_out.files[1].path, "build/\u{fffd}");
        let listed = lying_about(&captured(0), |_| true).unwrap();
        assert_eq!(names(&listed.observed(Vec::new()).unwrap()), [&b"a.o"[..], b"build/\xff"]);
    }

    #[test]
    fn a_document_of_an_earlier_run_is_judged_as_it_was() {
        let found: LyingAbout = serde_json::from_str(r#"{"ignored": [["a.log", 2]], "odd": []}"#).unwrap();
        let observed = found.observed(Vec::new()).unwrap();
        assert_eq!((names(&observed), observed.denies_ignored_outside), (vec![&b"a.log"[..]], true));
        assert_eq!(found.left_out(), None);
    }
}
