//! Files of a machine: written many at a time, listed, read one at a time.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Machine, parsed};
use crate::service::{Call, ServiceProblem, Until, escaped};

/// Bytes and files of one request that writes.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_FILES: usize = 200;

/// How deep a listing goes, and how long it may be.
const DEPTH: u32 = 64;
const LISTING_BYTES_MAX: usize = 64 << 20;

/// Something in a directory of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the directory that was listed, as the machine says it; nothing of it was checked.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// In bytes.
        size: u64,
        /// Its permissions.
        mode: u32,
        /// When it was written, in the machine's own words; empty if it does not say.
        modified: String,
    },
    /// A directory.
    Directory,
    /// A link to this.
    Link(String),
    /// Anything else.
    Other,
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    entries: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    path: String,
    #[serde(default, rename = "type")]
    kind: String,
    /// A number of 64 bits, which that protocol writes as text.
    #[serde(default)]
    size: Value,
    #[serde(default)]
    mode: u32,
    #[serde(default)]
    modified_time: Option<String>,
    #[serde(default)]
    symlink_target: Option<String>,
}

impl Machine {
    /// Writes files by absolute path, with the directories above them.
    pub fn write(&self, files: &[(String, &[u8])], until: &Until) -> Result<(), ServiceProblem> {
        let mut rest = files;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, content): &&(String, &[u8])| {
                bytes += content.len();
                bytes <= BATCH_BYTES
            };
            let count = rest.iter().take(BATCH_FILES).take_while(fits).count().max(1);
            let (batch, after) = rest.split_at(count);
            self.write_batch(batch, until)?;
            rest = after;
        }
        Ok(())
    }

    fn write_batch(&self, files: &[(String, &[u8])], until: &Until) -> Result<(), ServiceProblem> {
        let boundary = boundary(files);
        let mut body = Vec::new();
        for (path, content) in files {
            let name = path.replace('\\', "\\\\").replace('"', "\\\"");
            let head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
                 content-type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let target = match files {
            [(path, _)] => format!("/files?path={}", escaped(path)),
            _ => "/files".to_owned(),
        };
        let headers = self.headers(Some(&format!("multipart/form-data; boundary={boundary}")));
        let call = Call { method: "POST", target, headers, body: &body };
        let written = self.daemon.ask(&call, &[200, 201], LISTING_BYTES_MAX, until)?;
        let written: Vec<Value> = parsed("POST /files", &written)?;
        if written.len() != files.len() {
            let why = format!("{} files were sent and {} written", files.len(), written.len());
            return Err(ServiceProblem::senseless("POST /files", why));
        }
        Ok(())
    }

    /// Everything below a directory.
    pub fn list(&self, dir: &str, until: &Until) -> Result<Vec<Entry>, ServiceProblem> {
        let body = json!({"path": dir, "depth": DEPTH});
        let what = "POST /filesystem.Filesystem/ListDir";
        let listed = self.ask("/filesystem.Filesystem/ListDir", &body, LISTING_BYTES_MAX, until)?;
        let listing: Listing = parsed(what, &listed)?;
        let below = |listed: Listed| {
            let path = listed.path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/'));
            let path =
                path.ok_or_else(|| ServiceProblem::senseless(what, format!("{:?} is not in it", listed.path)))?;
            Ok(Entry { path: path.to_owned(), kind: kind(what, &listed)? })
        };
        listing.entries.into_iter().map(below).collect()
    }

    /// The content of a file that is not longer than that.
    pub fn read(&self, path: &str, bytes_max: usize, until: &Until) -> Result<Vec<u8>, ServiceProblem> {
        let target = format!("/files?path={}", escaped(path));
        let call = Call { method: "GET", target, headers: self.headers(None), body: &[] };
        self.daemon.ask(&call, &[200], bytes_max, until)
    }
}

fn kind(what: &str, listed: &Listed) -> Result<EntryKind, ServiceProblem> {
    if let Some(target) = &listed.symlink_target {
        return Ok(EntryKind::Link(target.clone()));
    }
    Ok(match listed.kind.as_str() {
        "FILE_TYPE_FILE" => {
            let size = match &listed.size {
                Value::Null => Some(0),
                Value::String(text) => text.parse().ok(),
                number => number.as_u64(),
            };
            let size = size.ok_or_else(|| ServiceProblem::senseless(what, "a size is no number"))?;
            EntryKind::File { size, mode: listed.mode, modified: listed.modified_time.clone().unwrap_or_default() }
        }
        "FILE_TYPE_DIRECTORY" => EntryKind::Directory,
        // A link whose target is not told cannot be made again.
        _ => EntryKind::Other,
    })
}

/// A line that is in none of the files.
fn boundary(files: &[(String, &[u8])]) -> String {
    let is_in =
        |text: &str| files.iter().any(|(_, content)| content.windows(text.len()).any(|it| it == text.as_bytes()));
    (0_u64..)
        .map(|number| format!("norma-{number:016x}"))
        .find(|text| !is_in(text))
        .expect("BUG: there are more numbers than bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_between_files_is_in_none_of_them() {
        let taken = "norma-0000000000000000 norma-0000000000000001";
        assert_eq!(boundary(&[("a".to_owned(), taken.as_bytes())]), "norma-0000000000000002");
        assert_eq!(boundary(&[("a".to_owned(), b"")]), "norma-0000000000000000");
    }

    #[test]
    fn sizes_are_texts_numbers_or_left_out() {
        let size = |text: &str| {
            let listed: Listed = serde_json::from_str(text).unwrap();
            match kind("x", &listed) {
                Ok(EntryKind::File { size, .. }) => Some(size),
                _ => None,
            }
        };
        assert_eq!(size(r#"{"path":"/a","type":"FILE_TYPE_FILE","size":"12"}"#), Some(12));
        assert_eq!(size(r#"{"path":"/a","type":"FILE_TYPE_FILE","size":12}"#), Some(12));
        assert_eq!(size(r#"{"path":"/a","type":"FILE_TYPE_FILE"}"#), Some(0));
        assert_eq!(size(r#"{"path":"/a","type":"FILE_TYPE_FILE","size":"-1"}"#), None);
        assert_eq!(size(r#"{"path":"/a","type":"FILE_TYPE_FILE","size":"1","symlinkTarget":"/etc"}"#), None);
    }
}
