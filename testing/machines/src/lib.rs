//! Stand-ins for what runs jobs in virtual machines, and for a compiler that somebody else runs, for tests: they speak what the real ones speak, as far as norma uses
//! it, and misbehave on request. None confines anything.

mod e2b;
mod http;
mod opencode;

pub use e2b::{Behaviour, E2b};
pub use http::Asked;
pub use opencode::Opencode;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program `msb`, put into a directory with a home of its own.
pub struct Msb {
    /// The program.
    pub bin: PathBuf,
    /// `MSB_HOME`.
    pub home: PathBuf,
}

impl Msb {
    /// Puts it there.
    pub fn in_dir(dir: &Path) -> Msb {
        let (bin, home) = (dir.join("msb"), dir.join("msb-home"));
        std::fs::create_dir_all(&home).expect("a home can be made");
        std::fs::write(&bin, include_str!("msb.sh")).expect("the program can be written");
        std::fs::set_permissions(&bin, PermissionsExt::from_mode(0o755)).expect("it can be made executable");
        Msb { bin, home }
    }

    /// Has it misbehave from now on, in a way that the program itself lists.
    pub fn behave(&self, behaviour: &str) {
        std::fs::write(self.home.join("behaviour"), behaviour).expect("its home can be written");
    }

    /// How it was called, a line each.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How many machines there are now.
    pub fn machines(&self) -> usize {
        std::fs::read_dir(self.home.join("machines")).map_or(0, Iterator::count)
    }
}
