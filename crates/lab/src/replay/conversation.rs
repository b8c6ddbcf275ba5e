//! Which packets of a capture belong together, and which end of each conversation is the mobile.
//!
//! A conversation is a five-tuple in both directions; protocols without ports have port 0. An ICMP error belongs to
//! the conversation of the packet it quotes. The mobile is the sender of the first SYN, else of the first packet (of
//! an ICMP error: of the packet it quotes); first in the file, whatever the time stamps say. Later fragments name no
//! conversation; they follow their first.

use super::packet::UserPacket;
use scalebricks_types::FiveTuple;
use std::collections::HashMap;
use std::net::IpAddr;

/// Conversations a capture may have: what is known of one takes about 200 bytes.
pub(super) const MAX_CONVERSATIONS: usize = 1 << 24;

/// Which way a packet of a conversation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the mobile.
    Downstream,
    /// From it.
    Upstream,
}

/// A conversation by its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConversationId(pub(super) u32);

/// One conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conversation {
    /// The tuple of its downstream packets: the mobile is the destination.
    pub(super) downstream: FiveTuple,
    /// The mobile was found by a SYN, which later ones do not change.
    is_sure: bool,
}

/// There are more than [`MAX_CONVERSATIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// All conversations of a capture.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    /// By the tuple of that direction whose source end is the lower.
    ids: HashMap<FiveTuple, ConversationId>,
    list: Vec<Conversation>,
}

impl Conversations {
    /// Takes note of a packet, in file order.
    pub(super) fn observe(&mut self, packet: &UserPacket) -> Result<(), TooMany> {
        if packet.is_later_fragment {
            return Ok(());
        }
        // Seen from the mobile, if this packet is the one that decides.
        let from_mobile = if packet.is_error { packet.tuple.reversed() } else { packet.tuple };
        let next = ConversationId(self.list.len() as u32);
        let id = *self.ids.entry(canonical(packet.tuple)).or_insert(next);
        if id == next {
            if self.list.len() == MAX_CONVERSATIONS {
                return Err(TooMany);
            }
            self.list.push(Conversation { downstream: from_mobile.reversed(), is_sure: false });
        }
        let conversation = &mut self.list[id.0 as usize];
        if packet.is_syn && !conversation.is_sure {
            *conversation = Conversation { downstream: from_mobile.reversed(), is_sure: true };
        }
        Ok(())
    }

    /// The conversation of a packet that names one, and its direction. A host that talks to itself from one port to
    /// the same is its own mobile, and all it says upstream.
    pub(super) fn find(&self, packet: &UserPacket) -> Option<(ConversationId, Direction)> {
        if packet.is_later_fragment {
            return None;
        }
        let id = *self.ids.get(&canonical(packet.tuple))?;
        let upstream = self.get(id).downstream.reversed();
        let direction = if packet.tuple == upstream { Direction::Upstream } else { Direction::Downstream };
        Some((id, direction))
    }

    /// A conversation.
    pub(super) fn get(&self, id: ConversationId) -> &Conversation {
        &self.list[id.0 as usize]
    }

    /// All, in order of their first packets.
    pub(super) fn list(&self) -> &[Conversation] {
        &self.list
    }
}

impl Conversation {
    /// The mobile's address.
    pub(super) const fn mobile(&self) -> IpAddr {
        self.downstream.dst
    }
}

fn canonical(tuple: FiveTuple) -> FiveTuple {
    if (tuple.src, tuple.src_port) <= (tuple.dst, tuple.dst_port) { tuple } else { tuple.reversed() }
}
