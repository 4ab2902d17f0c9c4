//! Violations and the places they are found at.
//!
//! A document from outside decides how many violations it has and how long its keys are, so both
//! the list and the pointers are bounded here, for reading and for checking alike.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most violations listed: nobody reads more, and a hostile document could hold a million.
pub const VIOLATIONS_MAX: usize = 256;

/// Longest pointer in bytes; longer ones end in `…`, since keys may be as long as the document.
pub(super) const POINTER_BYTES_MAX: usize = 1024;

/// One thing wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// JSON pointer (RFC 6901) to the place; empty for the whole document.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}

impl Violation {
    /// A violation of the document as a whole.
    pub fn document(message: impl Into<String>) -> Violation {
        Violation { pointer: String::new(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str("(document)")?;
        }
        // Keys come from outside and may hold terminal escapes.
        for character in self.pointer.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// One step from a value into one of its parts.
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The way from the document's root to the value at hand.
#[derive(Default)]
pub(super) struct Place(Vec<Step>);

impl Place {
    pub(super) fn enter(&mut self, step: Step) {
        self.0.push(step);
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.0 {
            pointer.push('/');
            match step {
                Step::Index(index) => pointer.push_str(&index.to_string()),
                Step::Key(key) => push_key(&mut pointer, key),
            }
            if pointer.len() > POINTER_BYTES_MAX {
                break;
            }
        }
        bounded(pointer)
    }
}

/// The pointer as far as anybody would read it.
pub(super) fn bounded(mut pointer: String) -> String {
    if pointer.len() > POINTER_BYTES_MAX {
        while pointer.len() > POINTER_BYTES_MAX {
            pointer.pop();
        }
        pointer.push('…');
    }
    pointer
}

fn push_key(pointer: &mut String, key: &str) {
    for character in key.chars().take(POINTER_BYTES_MAX + 1) {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            _ => pointer.push(character),
        }
    }
}

/// The violations found so far.
#[derive(Default)]
pub(crate) struct Report {
    violations: Vec<Violation>,
    left_off: usize,
}

impl Report {
    pub(super) fn add(&mut self, place: &Place, message: String) {
        self.push(place.pointer(), message);
    }

    pub(crate) fn push(&mut self, pointer: String, message: String) {
        if self.violations.len() == VIOLATIONS_MAX {
            self.left_off += 1;
            return;
        }
        let violation = Violation { pointer: bounded(pointer), message };
        // A schema may say one thing twice, beside a `$ref` and behind it.
        if !self.violations.contains(&violation) {
            self.violations.push(violation);
        }
    }

    pub(super) fn append(&mut self, other: Report) {
        for violation in other.violations {
            match self.violations.len() == VIOLATIONS_MAX {
                true => self.left_off += 1,
                false => self.violations.push(violation),
            }
        }
        self.left_off += other.left_off;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.violations.is_empty()
    }

    pub(crate) fn into_result(mut self) -> Result<(), Vec<Violation>> {
        if self.left_off > 0 {
            let message = format!("{} more violations are not listed", self.left_off);
            self.violations.push(Violation::document(message));
        }
        match self.violations.is_empty() {
            true => Ok(()),
            false => Err(self.violations),
        }
    }
}
