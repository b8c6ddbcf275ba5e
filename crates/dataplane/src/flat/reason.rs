//! Why a switch dropped a frame. Declared once; every reason is a counter with this name.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a frame, or a copy of it, was dropped. There is no drop without one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum SwitchDrop {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl SwitchDrop {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The counter's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it means, in words.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

reasons! {
    /// The frame ends before its name, or before the headers that lead to it.
    Truncated = "truncated",
    /// No frame of the kind that names are taken from: another ethertype or IP version.
    NoName = "no_name",
    /// Headers that contradict themselves.
    Malformed = "malformed",
    /// A name of no bytes, or of more than 255.
    BadName = "bad_name",
    /// A fragment without ports, where ports are part of the name.
    LaterFragment = "later_fragment",
    /// The IPv4 header checksum of a packet to be routed is wrong (an option ignores it).
    BadIpv4Checksum = "bad_ipv4_checksum",
    /// For a MAC address that bridges keep to themselves (IEEE 802.1Q §8.6.3).
    LinkLocal = "link_local",
    /// The name is none of the table's.
    UnknownName = "unknown_name",
    /// The name's action is to drop it.
    ByAction = "by_action",
    /// It would leave by the port it came by, or by one of the same group.
    SplitHorizon = "split_horizon",
    /// More frames to be flooded than the storm guard lets through.
    Storm = "storm",
    /// It has no hop left to live.
    Expired = "expired",
    /// Its action is to route it, and it is no IP packet.
    NotRoutable = "not_routable",
    /// Its action names a port that the switch does not have.
    NoSuchPort = "no_such_port",
    /// No buffer was left for a copy.
    NoBuffer = "no_buffer",
    /// The outgoing port took no more frames.
    PortFull = "port_full",
}

impl fmt::Display for SwitchDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many frames were dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchDrops([u64; SwitchDrop::ALL.len()]);

impl Default for SwitchDrops {
    fn default() -> Self {
        Self([0; SwitchDrop::ALL.len()])
    }
}

impl SwitchDrops {
    /// Counts one.
    #[inline]
    pub const fn count(&mut self, reason: SwitchDrop) {
        self.0[reason as usize] += 1;
    }

    /// The count of one reason.
    pub const fn get(&self, reason: SwitchDrop) -> u64 {
        self.0[reason as usize]
    }

    /// Reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (SwitchDrop, u64)> + '_ {
        SwitchDrop::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, count)| count > 0)
    }

    /// All drops together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl std::ops::AddAssign<&Self> for SwitchDrops {
    fn add_assign(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a += b;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinct_and_counters_line_up() {
        let names: HashSet<_> = SwitchDrop::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), SwitchDrop::ALL.len());
        assert!(SwitchDrop::ALL.iter().all(|reason| reason.meaning().ends_with(['.', ')'])));
        let mut drops = SwitchDrops::default();
        for (n, &reason) in SwitchDrop::ALL.iter().enumerate() {
            assert_eq!(reason as usize, n);
            (0..=n).for_each(|_| drops.count(reason));
        }
        assert_eq!(drops.get(SwitchDrop::PortFull), SwitchDrop::ALL.len() as u64);
        let total: usize = (1..=SwitchDrop::ALL.len()).sum();
        assert_eq!(drops.total(), total as u64);
    }
}
