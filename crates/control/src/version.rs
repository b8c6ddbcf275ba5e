//! Version of the protocol: of everything that nodes store or send to each other.
//!
//! The view records which version each node knows. Everything [encoded](crate::codec) begins with its version, and other
//! versions are refused with an error.
//!
//! | version | changes |
//! |---|---|
//! | 1 to 3 | before the first release; refused |
//! | 4 | all records, snapshots and messages are encoded with borsh |

use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;

/// A version of the protocol. It includes everything of lower versions from [`Version::FIRST`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Version(u16);

impl Version {
    /// The oldest version that this software understands.
    pub const FIRST: Self = Self(4);

    /// The newest version that this software understands.
    pub const NEWEST: Self = Self(4);

    /// The version with this number; `None` if this software does not understand it.
    pub const fn known(number: u16) -> Option<Self> {
        if number >= Self::FIRST.0 && number <= Self::NEWEST.0 { Some(Self(number)) } else { None }
    }

    /// The version's number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
