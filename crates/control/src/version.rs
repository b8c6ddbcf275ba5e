//! Versions of what nodes write and say, so that a cluster can be upgraded node by node.
//!
//! A node says in the view which version it knows; all write and speak what all members know, the dead too unless they are
//! forgotten, and understand whatever they know themselves. What a version cannot say is not asked for before all know a newer one.
//!
//! | version | brings |
//! |---|---|
//! | 1 | sessions, repins; updates, targets, reports |
//! | 2 | records that reshape a table; digests, keys and shape in targets, `again` in reports |
//! | 3 | batches of calls with verdicts, calls to owners and their answers, FIB room in reports; rewinds: a log that ends before what nodes have; pins that name an epoch, closures of tenures in logs and in the view; FIBs and bits in pieces, and digests of FIBs in reports; heartbeats that report which nodes the sender hears, and how fit it is, relayed messages; suspended members and lapses in the view |

use std::fmt;

/// A version of the protocol. Higher ones know all that lower ones do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u16);

impl Version {
    /// The oldest one understood here.
    pub const FIRST: Self = Self(1);

    /// Tables that change their shape, and digests.
    pub const RESHAPES: Self = Self(2);

    /// Heartbeats that report which nodes the sender hears.
    pub const WITNESSES: Self = Self(3);

    /// Calls that owners decide, each with a verdict of its own.
    pub const VERDICTS: Self = Self(3);

    /// Rewinds.
    pub const REWINDS: Self = Self(3);

    /// Pins that name a tenure, and closures, which give all keys of a flow one heir.
    pub const TENURES: Self = Self(3);

    /// Tables in pieces, and digests of FIBs.
    pub const PIECES: Self = Self(3);

    /// The newest one known here.
    pub const NEWEST: Self = Self(3);

    /// The version with this number; `None` if it is not known here.
    pub const fn known(number: u16) -> Option<Self> {
        if number >= Self::FIRST.0 && number <= Self::NEWEST.0 { Some(Self(number)) } else { None }
    }

    /// The version that a node says it knows. Of those newer than all known here nothing is said but that.
    pub const fn told(number: u16) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
