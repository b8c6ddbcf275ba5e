//! Packets that do not fit the base-station link: fragmented, or refused with ICMP.

use crate::gateway::outside::adjacency::NextHop;
use crate::gateway::packet::classify::Parsed;
use crate::gateway::packet::tunnels::Tunnels;
use scalebricks_io::{PacketBuf, Tag};
use scalebricks_wire::fragment::FragmentPlan;
use scalebricks_wire::icmp_error::{MAX_V6_LEN, fragmentation_needed, packet_too_big};
use scalebricks_wire::ipv4::{Ipv4, MAX_HEADER_LEN};
use scalebricks_wire::{ethernet, parse_ip};

/// The piece number of an ICMP error, in the tag it inherits from the packet that caused it.
pub const ICMP_PIECE: u8 = 255;

/// Most fragments one packet is cut into: the largest packet over the smallest MTU makes 119.
pub const MAX_PIECES: u8 = 254;

impl Tunnels {
    /// The ICMP error for a packet; `None` if none may be sent or no buffer is free.
    pub(crate) fn too_big_answer<P: PacketBuf>(
        &self,
        packet: &P,
        parsed: &Parsed,
        mtu: u16,
        alloc: impl FnOnce() -> Option<P>,
    ) -> Option<(P, NextHop)> {
        let start = usize::from(parsed.user_offset);
        let user = packet.data().get(start..start + parsed.user_len)?;
        let mut message = [0; MAX_V6_LEN];
        let policy = &self.policy;
        let (len, ethertype) = if user.first()? >> 4 == 4 {
            let len = fragmentation_needed(user, policy.gateway_address, mtu, &mut message).ok()?;
            (len, ethernet::ETHERTYPE_IPV4)
        } else {
            let len = packet_too_big(user, policy.gateway_address_v6, mtu.into(), &mut message).ok()?;
            (len, ethernet::ETHERTYPE_IPV6)
        };
        let mut answer = alloc()?;
        let to = parse_ip(user).ok()?.summary.src;
        let next_hop = self.adjacencies.internet(to, parsed.datagram.unwrap_or_default());
        answer.append(&ethernet::header(next_hop.mac(), self.internet, ethertype)).ok()?;
        answer.append(&message[..len]).ok()?;
        answer.set_tag(Tag { piece: ICMP_PIECE, ..packet.tag() });
        Some((answer, next_hop))
    }
}

/// The fragments of a frame with an IPv4 packet; `None` if there are not enough buffers for all of them.
pub(crate) fn cut<P: PacketBuf>(
    packet: &P,
    mtu: usize,
    mut alloc: impl FnMut() -> Option<P>,
) -> Option<Vec<P>> {
    let (link, ip) = packet.data().split_at_checked(ethernet::HEADER_LEN)?;
    let plan = FragmentPlan::new(ip, mtu).ok()?;
    let whole_header_len = Ipv4::parse(ip).ok()?.header_len();
    let mut pieces = Vec::new();
    for cut in plan.clone() {
        let mut header = [0; MAX_HEADER_LEN];
        let header_len = plan.write_header(cut, &mut header).ok()?;
        let payload = ip.get(whole_header_len..)?.get(cut.offset..cut.offset + cut.len)?;
        let mut piece = alloc()?;
        [link, &header[..header_len], payload].iter().try_for_each(|part| piece.append(part)).ok()?;
        let number = u8::try_from(pieces.len() + 1).ok().filter(|&number| number <= MAX_PIECES)?;
        piece.set_tag(Tag { piece: number, ..packet.tag() });
        pieces.push(piece);
    }
    Some(pieces)
}
