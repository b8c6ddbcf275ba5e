//! What is done with each frame of a capture, and what must become of it: by the conversation table alone, without
//! asking the data plane.

use super::conversation::{ConversationId, Conversations, Direction};
use super::packet::{self, UserPacket};
use super::pinning::{FlowId, Pinning};
use crate::ledger::Ground;
use scalebricks_elements::gateway::packet::fragment_cache::{CAPACITY, DatagramId};
use scalebricks_elements::gateway::packet::policy::{Oversize, Policy};
use scalebricks_types::KeyProfile;
use std::collections::HashMap;
use std::ops::Range;

/// Fragmented datagrams remembered; beyond it the older half is forgotten.
const MAX_DATAGRAMS: usize = 1 << 20;

/// First fragments that may come between a datagram's first and later ones before it is uncertain whether a node still
/// knows it: a node learns each first fragment at most once when it enters and once when it comes over the fabric.
const CERTAIN_FIRSTS: u64 = CAPACITY as u64 / 2;

/// Outer headers of a downstream packet: IPv4, UDP, GTP-U.
const OVERHEAD: usize = 20 + 8 + 8;
/// Further ones of a flow with a QFI: the PDU session container.
const CONTAINER: usize = 8;

/// Every link carries IPv6 packets of this size (RFC 8200 §5).
const IPV6_LEAST_MTU: usize = 1_280;

/// How a frame enters the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// As it is, from the Internet.
    Internet,
    /// Its packet in this flow's tunnel, from the base station.
    BaseStation(FlowId),
}

/// What must become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It leaves as a packet of this flow.
    Leaves(FlowId),
    /// It is dropped, on one of these grounds. With none listed, nothing that may happen to it is right.
    Drops(&'static [Ground]),
    /// Either; a bounded cache decides.
    Either(FlowId, &'static [Ground]),
}

/// What is known of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// How it enters.
    pub(super) entrance: Entrance,
    /// What must become of it.
    pub(super) fate: Fate,
    /// It belongs to a conversation.
    pub(super) is_claimed: bool,
    /// The user's packet in the frame; empty if there is none to be found.
    pub(super) user: Range<usize>,
    /// The datagram it is a fragment of.
    pub(super) datagram: Option<DatagramId>,
}

/// A datagram whose first fragment was seen.
#[derive(Debug, Clone, Copy)]
struct Followed {
    claim: (ConversationId, Direction),
    /// First fragments seen before it.
    number: u64,
}

/// Plans the frames of a capture, in file order.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    conversations: &'a Conversations,
    pinning: &'a Pinning,
    policy: Policy,
    datagrams: HashMap<DatagramId, Followed>,
    firsts: u64,
}

impl<'a> Planner<'a> {
    pub(super) fn new(conversations: &'a Conversations, pinning: &'a Pinning, policy: Policy) -> Self {
        Self { conversations, pinning, policy, datagrams: HashMap::new(), firsts: 0 }
    }

    /// Plans the next frame.
    pub(super) fn plan(&mut self, frame: &[u8]) -> Plan {
        match packet::read(frame) {
            Ok(packet) => self.plan_packet(&packet),
            Err(why) => {
                // Two readers at odds: whatever the data plane does with it, somebody is wrong.
                let grounds = if packet::is_plainly_sound(frame) { &[] } else { why.grounds() };
                Plan {
                    entrance: Entrance::Internet,
                    fate: Fate::Drops(grounds),
                    is_claimed: false,
                    user: 0..0,
                    datagram: None,
                }
            }
        }
    }

    fn plan_packet(&mut self, packet: &UserPacket) -> Plan {
        let is_bad = self.policy.verify_ipv4_checksum && !packet.is_checksum_good;
        let (claim, is_certain) = match packet.datagram {
            Some(datagram) if packet.is_later_fragment => self.follow(&datagram),
            _ => (self.conversations.find(packet), true),
        };
        let is_upstream = matches!(claim, Some((_, Direction::Upstream)));
        // A first fragment that a node drops at its door teaches it nothing.
        if let (Some(datagram), Some(claim)) = (packet.datagram, claim)
            && !packet.is_later_fragment
            && (is_upstream || !is_bad)
        {
            self.learn(datagram, claim);
        }
        let (entrance, fate) = match claim {
            Some((id, Direction::Upstream)) => {
                let flow = self.pinning.of_conversation(id);
                (Entrance::BaseStation(flow), Fate::Leaves(flow))
            }
            _ => (Entrance::Internet, self.downstream_fate(packet, claim.map(|(id, _)| id), is_certain)),
        };
        let fate = if is_bad { Fate::Drops(&[Ground::Checksum]) } else { fate };
        Plan {
            entrance,
            fate,
            is_claimed: claim.is_some(),
            user: packet.bytes.clone(),
            datagram: packet.datagram,
        }
    }

    fn downstream_fate(&self, packet: &UserPacket, claim: Option<ConversationId>, is_certain: bool) -> Fate {
        if packet.is_to_link_local {
            return Fate::Drops(&[Ground::LinkLocal]);
        }
        let flow = match self.policy.key_profile {
            KeyProfile::Flow5 => claim.map(|id| self.pinning.of_conversation(id)),
            KeyProfile::Ue => self.pinning.of_mobile(packet.dst),
        };
        let Some(flow) = flow else {
            return Fate::Drops(match self.policy.key_profile {
                KeyProfile::Flow5 => &[Ground::NoFirstFragment],
                KeyProfile::Ue => &[Ground::NoFlow],
            });
        };
        let container = if self.pinning.flow(flow).qfi.is_some() { CONTAINER } else { 0 };
        let outer_len = packet.bytes.len() + OVERHEAD + container;
        if outer_len > usize::from(u16::MAX) {
            return Fate::Drops(&[Ground::TooLarge]);
        }
        let mtu = usize::from(self.policy.base_station_mtu);
        let is_refused = outer_len > mtu && self.is_refused(packet, mtu.saturating_sub(OVERHEAD + container));
        let grounds: &'static [Ground] = if is_refused { &[Ground::TooBigForLink] } else { &[] };
        match (is_certain || self.policy.key_profile == KeyProfile::Ue, grounds) {
            (true, []) => Fate::Leaves(flow),
            (true, grounds) => Fate::Drops(grounds),
            (false, []) => Fate::Either(flow, &[Ground::NoFirstFragment]),
            (false, _) => Fate::Drops(&[Ground::NoFirstFragment, Ground::TooBigForLink]),
        }
    }

    /// Whether a packet that is too big for the `room` that a tunnel has is dropped, and not sent in outer fragments.
    fn is_refused(&self, packet: &UserPacket, room: usize) -> bool {
        let may_tell = packet.dst.is_ipv4() || room >= IPV6_LEAST_MTU;
        self.policy.oversize == Oversize::Icmp && packet.is_unfragmentable && may_tell
    }

    /// The claim of a datagram's first fragment, and whether every node it passed must still know it.
    fn follow(&self, datagram: &DatagramId) -> (Option<(ConversationId, Direction)>, bool) {
        match self.datagrams.get(datagram) {
            Some(followed) => (Some(followed.claim), self.firsts - followed.number <= CERTAIN_FIRSTS),
            None => (None, true),
        }
    }

    fn learn(&mut self, datagram: DatagramId, claim: (ConversationId, Direction)) {
        if self.datagrams.len() >= MAX_DATAGRAMS {
            let oldest = self.firsts.saturating_sub(MAX_DATAGRAMS as u64 / 2);
            self.datagrams.retain(|_, followed| followed.number >= oldest);
        }
        self.datagrams.insert(datagram, Followed { claim, number: self.firsts });
        self.firsts += 1;
    }
}
