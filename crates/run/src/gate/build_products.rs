//! What a build leaves in a workspace, told by its content: objects, archives, programs, bytecode, and the directories that
//! tools fill: packages, caches. An agent that builds leaves them wherever the repository does not ignore them, and nobody meant
//! them as part of its change. They are left out of it where a contract says what may change and speaks of none of them;
//! what is left out never lands, and tests run without it, so leaving out too much can fail a change and never smuggle one
//! in. The list is data (`build_products.json`), with a reason for each line.

use serde::Deserialize;
use std::sync::LazyLock;

/// So much of the beginning of a file is enough to tell.
pub const HEAD_BYTES: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    files: Vec<Form>,
    directories: Vec<Place>,
}

/// A form of file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(rename = "what")]
    _what: String,
    /// Where its mark is.
    #[serde(default)]
    at: usize,
    #[serde(rename = "hex", deserialize_with = "bytes")]
    mark: Vec<u8>,
    /// How its name ends, where the mark alone proves little.
    #[serde(default)]
    ends: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// A directory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    name: String,
    /// The file of the base beside it without which its name says nothing.
    #[serde(default)]
    beside: Option<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

fn bytes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let digits = String::deserialize(from)?;
    let pair = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let read: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
    read.ok_or_else(|| serde::de::Error::custom("not hexadecimal digits"))
}

static LISTS: LazyLock<Lists> = LazyLock::new(|| {
    serde_json::from_str(include_str!("build_products.json")).expect("BUG: build_products.json is checked by a test")
});

/// Whether a file of this name that begins like this is what a build makes.
pub fn is_built(name: &[u8], head: &[u8]) -> bool {
    LISTS.files.iter().any(|form| {
        let has_name = form.ends.is_empty() || form.ends.iter().any(|end| name.ends_with(end.as_bytes()));
        has_name && head.get(form.at..).is_some_and(|rest| rest.starts_with(&form.mark))
    })
}

/// Whether a new directory of this name is what a build or a package manager fills, where the base has these files beside it.
pub fn is_built_directory(name: &[u8], has_beside: impl Fn(&[u8]) -> bool) -> bool {
    let mut named = LISTS.directories.iter().filter(|place| place.name.as_bytes() == name);
    named.any(|place| place.beside.as_ref().is_none_or(|file| has_beside(file.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_make_is_told_by_how_it_begins() {
        let cases: [(&str, &[u8], bool); 16] = [
            ("a.o", b"\x7fELF\x02\x01\x01", true),
            ("lua", b"\x7fELF\x02\x01\x01", true),
            ("notes.txt", b"\x7fELF", true),
            ("liba.a", b"!<arch>\n", true),
            ("A.class", b"\xca\xfe\xba\xbe\0\0\0\x41", true),
            ("a.wasm", b"\0asm\x01\0\0\0", true),
            ("a.bc", b"BC\xc0\xde", true),
            ("a.dylib", b"\xcf\xfa\xed\xfe", true),
            ("a.exe", b"MZ\x90\0", true),
            ("a.obj", b"\x64\x86\x05\0", true),
            ("a.cpython-312.pyc", b"\xcb\x0d\x0d\x0a\0\0\0\0", true),
            ("MZ.txt", b"MZ is a word", false),
            ("d.txt", b"\x64\x86", false),
            ("a.o", b"not an object\n", false),
            ("a.pyc", b"ab", false),
            ("a.c", b"int main(void)", false),
        ];
        for (name, head, expected) in cases {
            assert_eq!(is_built(name.as_bytes(), head), expected, "{name} {head:?}");
        }
        assert!(LISTS.files.iter().all(|form| form.at + form.mark.len() <= HEAD_BYTES));
    }

    #[test]
    fn a_directory_counts_beside_what_names_it() {
        let beside = |file: &'static [u8]| move |name: &[u8]| name == file;
        assert!(is_built_directory(b"node_modules", beside(b"package.json")));
        assert!(!is_built_directory(b"node_modules", beside(b"Cargo.toml")));
        assert!(is_built_directory(b"target", beside(b"Cargo.toml")));
        assert!(is_built_directory(b"__pycache__", |_| false));
        assert!(is_built_directory(b".pytest_cache", |_| false));
        assert!(!is_built_directory(b"src", |_| true));
    }
}
