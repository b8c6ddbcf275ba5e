//! Annotations in the flags of a packet's [`Meta`]: Click's packet type, "fix IP source" and ICMP parameter problem; in its
//! mark, the MTU that it exceeds. A new packet has type `Host` and no other annotation.

use scalebricks_graph::Meta;
use scalebricks_wire::MacAddr;

const LINK: u16 = 0b11;
const FIX_SOURCE: u16 = 0b100;
const PROBLEM_SHIFT: u32 = 8;

/// To which hosts of its link a packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// To this host.
    Host,
    /// To all hosts of the link.
    Broadcast,
    /// To some hosts of the link.
    Multicast,
    /// To another host.
    OtherHost,
}

impl PacketType {
    /// The type of a frame to `destination` at an interface with the address `own`. Without `own`, every unicast
    /// address counts as this host's.
    pub fn of(destination: MacAddr, own: Option<MacAddr>) -> Self {
        match own {
            _ if destination == MacAddr::BROADCAST => Self::Broadcast,
            _ if destination.is_multicast() => Self::Multicast,
            Some(own) if own != destination => Self::OtherHost,
            _ => Self::Host,
        }
    }

    /// The packet's type.
    pub const fn noted(meta: &Meta) -> Self {
        match meta.flags & LINK {
            0 => Self::Host,
            1 => Self::Broadcast,
            2 => Self::Multicast,
            _ => Self::OtherHost,
        }
    }

    /// Sets the packet's type.
    pub const fn note(self, meta: &mut Meta) {
        meta.flags = meta.flags & !LINK | self as u16;
    }

    /// Whether other hosts received the packet too.
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Broadcast | Self::Multicast)
    }
}

/// Sets or clears the request that the outgoing interface writes its address as the packet's source.
pub(crate) const fn fix_source(meta: &mut Meta, is_asked: bool) {
    meta.flags = if is_asked { meta.flags | FIX_SOURCE } else { meta.flags & !FIX_SOURCE };
}

pub(crate) const fn is_source_to_fix(meta: &Meta) -> bool {
    meta.flags & FIX_SOURCE != 0
}

/// Records which octet of a packet's IP header is wrong.
pub(crate) const fn note_problem(meta: &mut Meta, octet: u8) {
    meta.flags = meta.flags & ((1 << PROBLEM_SHIFT) - 1) | (octet as u16) << PROBLEM_SHIFT;
}

pub(crate) const fn problem(meta: &Meta) -> u8 {
    (meta.flags >> PROBLEM_SHIFT) as u8
}

/// Records the MTU that a packet exceeds, in its mark.
pub(crate) fn note_mtu(meta: &mut Meta, mtu: u16) {
    meta.mark = mtu.into();
}

/// The MTU that was recorded, if one was.
pub(crate) fn exceeded_mtu(meta: &Meta) -> Option<u16> {
    u16::try_from(meta.mark).ok().filter(|mtu| *mtu > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_do_not_touch_each_other() {
        let mut meta = Meta::default();
        assert_eq!(
            (PacketType::noted(&meta), problem(&meta), is_source_to_fix(&meta)),
            (PacketType::Host, 0, false)
        );
        for link in [PacketType::OtherHost, PacketType::Multicast, PacketType::Broadcast, PacketType::Host] {
            for (octet, fix) in [(255, true), (0, false), (22, true)] {
                link.note(&mut meta);
                note_problem(&mut meta, octet);
                fix_source(&mut meta, fix);
                assert_eq!(
                    (PacketType::noted(&meta), problem(&meta), is_source_to_fix(&meta)),
                    (link, octet, fix)
                );
            }
        }
    }

    #[test]
    fn a_frame_is_sent_to_all_to_some_to_this_or_to_another_host() {
        let own = Some(MacAddr([2, 0, 0, 0, 0, 1]));
        let of = |octets| PacketType::of(MacAddr(octets), own);
        assert_eq!(of([0xff; 6]), PacketType::Broadcast);
        assert_eq!(of([1, 0, 0x5e, 0, 0, 1]), PacketType::Multicast);
        assert_eq!(of([2, 0, 0, 0, 0, 1]), PacketType::Host);
        assert_eq!(of([2, 0, 0, 0, 0, 2]), PacketType::OtherHost);
        assert_eq!(PacketType::of(MacAddr([2, 0, 0, 0, 0, 2]), None), PacketType::Host);
        assert!(PacketType::Multicast.is_shared() && !PacketType::OtherHost.is_shared());
    }
}
