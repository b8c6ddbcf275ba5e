//! Why a switch dropped a frame. Declared once; every reason is a counter with this name.

use crate::reason::reasons;

reasons! {
    /// Why a frame, or a copy of it, was dropped. There is no drop without one.
    SwitchDrop,
    /// How many frames were dropped, by reason.
    SwitchDrops;
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
