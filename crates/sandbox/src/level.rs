//! How much confinement there can be: which walls a machine lets norma build.
//!
//! A level is asked for in a policy, built as asked, and read back. None is ever fallen back to: a
//! caller asks the [probe](crate::probe) once which one the machine gives and puts it into the policy.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::Identity;

/// The Landlock version from which signals and abstract sockets are held back too.
pub const LANDLOCK_ABI_FULL: u32 = 6;

/// Who a program is where nobody can be mapped: one who owns nothing. Of the numbers below 65536,
/// which is all that many containers have, systemd and Debian leave 65520 to 65533 to nobody.
pub const UNPRIVILEGED: Identity = Identity { uid: 65_528, gid: 65_528 };

/// How much confinement, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Every wall.
    A,
    /// Every wall but the second one around the file system, Landlock.
    #[serde(rename = "A-")]
    AMinus,
    /// Every wall but the user namespace: root builds them, and the program is [`UNPRIVILEGED`].
    B,
    /// No namespace: Landlock, the filter and the limits. Never chosen unless it is named.
    C,
    /// None that norma would trust: nothing is started.
    Refuse,
}

impl Level {
    /// Those that can be built, the strongest first.
    pub const ALL: [Self; 4] = [Self::A, Self::AMinus, Self::B, Self::C];

    /// Whether this is as much as `least`. What is refused is never enough.
    pub fn is_at_least(self, least: Self) -> bool {
        self != Self::Refuse && self <= least
    }

    /// Whether there are a view of the file system and a process tree of its own.
    pub(crate) fn has_namespaces(self) -> bool {
        matches!(self, Self::A | Self::AMinus | Self::B)
    }

    /// Whether a user is mapped to the one who starts it.
    pub(crate) fn maps_user(self) -> bool {
        matches!(self, Self::A | Self::AMinus)
    }

    /// The Landlock version without which it is not this level.
    pub(crate) fn landlock_abi_min(self) -> u32 {
        match self {
            Self::A | Self::C => LANDLOCK_ABI_FULL,
            Self::AMinus | Self::B | Self::Refuse => 0,
        }
    }

    /// Who the program becomes, when it is not the user who starts it; `root` says whether that is root.
    pub(crate) fn dedicated(self, root: bool) -> Option<Identity> {
        match self {
            Self::B => Some(UNPRIVILEGED),
            // Root's files are the whole machine; a user has no other id to take.
            Self::C if root => Some(UNPRIVILEGED),
            _ => None,
        }
    }

    /// What is lost against level A, for people.
    pub fn losses(self) -> &'static [&'static str] {
        match self {
            Self::A | Self::Refuse => &[],
            Self::AMinus => &["the second barrier around files, which also blocks signals"],
            Self::B => &[
                "an error while the sandbox is set up happens with root's rights",
                "the program is another user: it reads and writes only what is open to anybody or given to it",
            ],
            Self::C => &[
                "nothing can be hidden or protected inside a root",
                "names, sizes and owners of files outside can be looked up, not their contents",
                "names and arguments of the machine's processes can be read",
                "there is no private HOME and no private /tmp",
                "there is no network, not even a loopback, and no message queue or shared memory by name",
                "no owner and no attribute of any file can be changed, and by a program that is the user himself no \
                 mode and no time either; one that is another user can touch what is open to anybody",
                "processes outlive a kill of both of their supervisors at once, where there is no control group",
            ],
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::A => "A",
            Self::AMinus => "A-",
            Self::B => "B",
            Self::C => "C",
            Self::Refuse => "refused",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_ordered_and_a_refusal_is_never_enough() {
        assert!(Level::A.is_at_least(Level::B) && Level::B.is_at_least(Level::B));
        assert!(!Level::C.is_at_least(Level::B));
        assert!(!Level::Refuse.is_at_least(Level::C) && !Level::Refuse.is_at_least(Level::Refuse));
    }

    #[test]
    fn root_is_never_root_where_nobody_is_mapped() {
        let taken = |root| Level::ALL.map(|level| level.dedicated(root).is_some());
        assert_eq!(taken(true), [false, false, true, true]);
        assert_eq!(taken(false), [false, false, true, false]);
    }
}
