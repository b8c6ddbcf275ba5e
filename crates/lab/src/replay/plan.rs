//! How each frame of a capture is put in, and the expected outcome: from the conversation table alone, without the data plane.

use super::conversation::{ConversationId, Conversations, Direction};
use super::packet::{self, UserPacket};
use super::pinning::{FlowId, Pinning};
use crate::ledger::DropCause;
use scalebricks_elements::gateway::packet::fragment_cache::{CAPACITY, DatagramId};
use scalebricks_elements::gateway::packet::policy::{Oversize, Policy};
use scalebricks_types::KeyProfile;
use std::collections::HashMap;
use std::ops::Range;

/// Most fragmented datagrams that are remembered; beyond it the older half is forgotten.
const MAX_DATAGRAMS: usize = 1 << 20;

/// Most first fragments between a datagram's first and later fragments for which a node certainly remembers the first: a node
/// records each first fragment at most once when it enters and once when it arrives over the fabric.
const CERTAIN_FIRSTS: u64 = CAPACITY as u64 / 2;

/// Octets of the outer headers of a downstream packet: IPv4, UDP, GTP-U.
const OVERHEAD: usize = 20 + 8 + 8;
/// Additional octets of a flow with a QFI: the PDU session container.
const CONTAINER: usize = 8;

/// Every link carries IPv6 packets of this size (RFC 8200 §5).
const IPV6_LEAST_MTU: usize = 1_280;

/// How a frame is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// Unchanged, from the Internet.
    Internet,
    /// In this flow's tunnel, from the base station.
    BaseStation(FlowId),
}

/// The expected outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It leaves as a packet of this flow.
    Leaves(FlowId),
    /// It is dropped for one of these causes. Without causes, every outcome is an error.
    Drops(&'static [DropCause]),
    /// Either: it depends on a bounded cache.
    Either(FlowId, &'static [DropCause]),
}

/// The plan of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// How it is put in.
    pub(super) entrance: Entrance,
    /// The expected outcome.
    pub(super) outcome: Outcome,
    /// It belongs to a conversation.
    pub(super) is_claimed: bool,
    /// The user's packet in the frame; empty if none was found.
    pub(super) user: Range<usize>,
    /// The datagram of which it is a fragment.
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
                // The two parsers disagree, so one of them is wrong, whatever the data plane does.
                let causes = if packet::is_plainly_sound(frame) { &[] } else { why.causes() };
                Plan {
                    entrance: Entrance::Internet,
                    outcome: Outcome::Drops(causes),
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
        // A node does not record a first fragment that it drops at once.
        if let (Some(datagram), Some(claim)) = (packet.datagram, claim)
            && !packet.is_later_fragment
            && (is_upstream || !is_bad)
        {
            self.learn(datagram, claim);
        }
        let (entrance, outcome) = match claim {
            Some((id, Direction::Upstream)) => {
                let flow = self.pinning.of_conversation(id);
                (Entrance::BaseStation(flow), Outcome::Leaves(flow))
            }
            _ => (Entrance::Internet, self.downstream_outcome(packet, claim.map(|(id, _)| id), is_certain)),
        };
        let outcome = if is_bad { Outcome::Drops(&[DropCause::Checksum]) } else { outcome };
        Plan {
            entrance,
            outcome,
            is_claimed: claim.is_some(),
            user: packet.bytes.clone(),
            datagram: packet.datagram,
        }
    }

    fn downstream_outcome(
        &self,
        packet: &UserPacket,
        claim: Option<ConversationId>,
        is_certain: bool,
    ) -> Outcome {
        if packet.is_to_link_local {
            return Outcome::Drops(&[DropCause::LinkLocal]);
        }
        let flow = match self.policy.key_profile {
            KeyProfile::Flow5 => claim.map(|id| self.pinning.of_conversation(id)),
            KeyProfile::Ue | KeyProfile::Inside | KeyProfile::Nat44(_) => self.pinning.of_mobile(packet.dst),
        };
        let Some(flow) = flow else {
            return Outcome::Drops(match self.policy.key_profile {
                KeyProfile::Flow5 => &[DropCause::NoFirstFragment],
                KeyProfile::Ue | KeyProfile::Inside | KeyProfile::Nat44(_) => &[DropCause::NoFlow],
            });
        };
        let container = if self.pinning.flow(flow).qfi.is_some() { CONTAINER } else { 0 };
        let outer_len = packet.bytes.len() + OVERHEAD + container;
        if outer_len > usize::from(u16::MAX) {
            return Outcome::Drops(&[DropCause::TooLarge]);
        }
        let mtu = usize::from(self.policy.base_station_mtu);
        let is_refused = outer_len > mtu && self.is_refused(packet, mtu.saturating_sub(OVERHEAD + container));
        let causes: &'static [DropCause] = if is_refused { &[DropCause::TooBigForLink] } else { &[] };
        match (is_certain || self.policy.key_profile == KeyProfile::Ue, causes) {
            (true, []) => Outcome::Leaves(flow),
            (true, causes) => Outcome::Drops(causes),
            (false, []) => Outcome::Either(flow, &[DropCause::NoFirstFragment]),
            (false, _) => Outcome::Drops(&[DropCause::NoFirstFragment, DropCause::TooBigForLink]),
        }
    }

    /// Whether a packet that is larger than the tunnel's `room` is dropped, and not sent in outer fragments.
    fn is_refused(&self, packet: &UserPacket, room: usize) -> bool {
        let may_tell = packet.dst.is_ipv4() || room >= IPV6_LEAST_MTU;
        self.policy.oversize == Oversize::Icmp && packet.is_unfragmentable && may_tell
    }

    /// The conversation of a datagram's first fragment, and whether every node that it passed must still remember it.
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
