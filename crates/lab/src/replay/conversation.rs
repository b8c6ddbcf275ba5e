//! Groups the packets of a capture into conversations, and finds the mobile of each.
//!
//! A conversation is a five-tuple in both directions; protocols without ports have port 0. An ICMP error belongs to the conversation of
//! the packet that it quotes. The mobile is the sender of the first SYN, else of the first packet (for an ICMP error: of the quoted
//! packet), in file order. Later fragments belong to the conversation of their first fragment.

use super::ReplayError;
use super::packet::UserPacket;
use scalebricks_types::FiveTuple;
use std::collections::HashMap;
use std::net::IpAddr;

/// Most conversations of a capture: each takes about 200 bytes.
pub(super) const MAX_CONVERSATIONS: usize = 1 << 24;

/// The direction of a packet in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the mobile.
    Downstream,
    /// From it.
    Upstream,
}

/// The index of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConversationId(pub(super) u32);

/// One conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conversation {
    /// The tuple of its downstream packets: the mobile is the destination.
    pub(super) downstream: FiveTuple,
    /// The mobile was found by a SYN; later SYNs do not change it.
    is_sure: bool,
}

/// All conversations of a capture.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    /// By the tuple of the direction whose source is lower.
    ids: HashMap<FiveTuple, ConversationId>,
    list: Vec<Conversation>,
}

impl Conversations {
    /// Adds a packet, in file order.
    pub(super) fn observe(&mut self, packet: &UserPacket) -> Result<(), ReplayError> {
        if packet.is_later_fragment {
            return Ok(());
        }
        // The tuple of upstream packets, if this packet determines the mobile.
        let from_mobile = if packet.is_error { packet.tuple.reversed() } else { packet.tuple };
        let next = ConversationId(self.list.len() as u32);
        let id = *self.ids.entry(canonical(packet.tuple)).or_insert(next);
        if id == next {
            if self.list.len() == MAX_CONVERSATIONS {
                return Err(ReplayError::TooManyConversations);
            }
            self.list.push(Conversation { downstream: from_mobile.reversed(), is_sure: false });
        }
        let conversation = &mut self.list[id.0 as usize];
        if packet.is_syn && !conversation.is_sure {
            *conversation = Conversation { downstream: from_mobile.reversed(), is_sure: true };
        }
        Ok(())
    }

    /// The conversation and direction of a packet. If a host sends to itself from a port to the same port, it is the mobile and all
    /// its packets are upstream.
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

    /// All conversations, in order of their first packets.
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
