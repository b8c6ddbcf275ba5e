//! What does not fit the base-station link: fragmented, or refused with ICMP.

use crate::classify::Parsed;
use crate::fabric_mac::OutputPort;
use crate::node::Node;
use crate::reason::DropReason;
use scalebricks_io::{PacketBuf, Tag};
use scalebricks_wire::{ethernet, fragment, icmp_error};

/// The piece number of an ICMP error, in the tag it inherits from the packet that caused it.
pub const ICMP_PIECE: u8 = 255;

/// Most fragments one packet is cut into: the largest packet over the smallest MTU makes 119.
pub const MAX_PIECES: u8 = 254;

impl<P: PacketBuf> Node<P> {
    /// Sends an encapsulated packet as fragments of its outer IPv4 packet: all of them, or none.
    pub(crate) fn send_fragmented(&mut self, packet: P, mtu: usize) {
        let (link, ip) = packet.data().split_at(ethernet::HEADER_LEN.min(packet.data().len()));
        let mut pieces: Vec<P> = Vec::new();
        let mut whole = true;
        let made = fragment::fragment_v4(ip, mtu, |header, payload| {
            let Some(mut piece) = self.buffers.alloc() else {
                whole = false;
                return;
            };
            whole &= piece.append(link).is_ok() && piece.append(header).is_ok() && piece.append(payload).is_ok();
            piece.set_tag(Tag { piece: pieces.len() as u8 + 1, ..packet.tag() });
            pieces.push(piece);
        });
        if made.is_err() || !whole || pieces.len() > usize::from(MAX_PIECES) {
            return self.drop_packet(packet, DropReason::NoBuffer);
        }
        self.stats.base_station_out += 1;
        self.stats.packets_fragmented += 1;
        self.stats.fragments_made += pieces.len() as u64;
        for piece in pieces {
            self.send_outside(OutputPort::BaseStation, piece);
        }
    }

    /// Drops a packet and tells its sender the largest that fits (RFC 1191 §4, RFC 4443 §3.2).
    pub(crate) fn refuse_too_big(&mut self, packet: P, parsed: &Parsed, mtu: usize) {
        if let Some(answer) = self.too_big_answer(&packet, parsed, mtu) {
            self.stats.icmp_sent += 1;
            self.send_outside(OutputPort::Internet, answer);
        }
        self.drop_packet(packet, DropReason::FragmentationNeeded);
    }

    /// The ICMP error about a packet; `None` where none may be sent or no buffer is left to make it in.
    fn too_big_answer(&mut self, packet: &P, parsed: &Parsed, mtu: usize) -> Option<P> {
        let start = usize::from(parsed.user_offset);
        let user = packet.data().get(start..start + usize::from(parsed.user_len))?;
        let mut message = [0; icmp_error::MAX_LEN];
        let len = icmp_error::too_big(user, self.config.policy.gateway_address.into(), mtu as u32, &mut message).ok()?;
        let mut answer = self.buffers.alloc()?;
        let is_v4 = message[0] >> 4 == 4;
        let ethertype = if is_v4 { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
        let macs = self.config.macs;
        answer.append(&ethernet::header(macs.router, macs.internet, ethertype)).ok()?;
        answer.append(&message[..len]).ok()?;
        answer.set_tag(Tag { piece: ICMP_PIECE, ..packet.tag() });
        Some(answer)
    }
}
