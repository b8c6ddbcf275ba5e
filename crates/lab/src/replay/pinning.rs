//! Assigns a flow to each conversation: a node, two TEIDs, a base station.
//!
//! With the key profile `flow5` a flow is a conversation, with `ue` a mobile address (in IPv6 its /64), which all
//! conversations of that mobile share. An address may be the mobile of one conversation and the server of another: its packets as a
//! server are downstream packets of the other mobile, with the other mobile's address as key.

use super::conversation::{Conversation, ConversationId, Conversations};
use crate::demo::config::DemoConfig;
use scalebricks_apps::gateway::FlowSpec;
use scalebricks_elements::gateway::{BaseStation, BaseStationId};
use scalebricks_types::{FlowKey, KeyHasher, KeyProfile, NodeId, Qfi, Teid};
use scalebricks_wire::MacAddr;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// Number of base stations.
const BASE_STATIONS: u16 = 64;

/// Prefix of an IPv4 mobile's address that determines its region: 16 neighbours share a node.
const REGION_BITS_V4: u32 = 28;
/// The same for IPv6: 256 neighbouring /64, each of one mobile.
const REGION_BITS_V6: u32 = 56;

/// One flow in this many has a QFI.
const QFI_EVERY: u64 = 3;

/// The index of a flow in [`Pinning::flows`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowId(pub(super) u32);

/// All flows of a capture.
#[derive(Debug)]
pub(super) struct Pinning {
    /// The flows.
    pub(super) flows: Vec<FlowSpec>,
    /// The base stations.
    pub(super) base_stations: Vec<BaseStation>,
    /// The flow of each conversation.
    of_conversation: Vec<FlowId>,
    /// The flow of each mobile with the profile `ue`.
    of_mobile: HashMap<FlowKey, FlowId>,
}

impl Pinning {
    /// Pins all conversations. The same capture, seed and number of nodes give the same result.
    pub(super) fn new(conversations: &Conversations, config: &DemoConfig) -> Self {
        let hasher = KeyHasher::new(config.hash_seed());
        let mut pinning = Self {
            flows: Vec::new(),
            base_stations: (0..BASE_STATIONS).map(base_station).collect(),
            of_conversation: Vec::with_capacity(conversations.list().len()),
            of_mobile: HashMap::new(),
        };
        for conversation in conversations.list() {
            let flow = pinning.flow_for(conversation, config, &hasher);
            pinning.of_conversation.push(flow);
        }
        pinning
    }

    fn flow_for(&mut self, conversation: &Conversation, config: &DemoConfig, hasher: &KeyHasher) -> FlowId {
        let profile = config.policy.key_profile;
        let next = FlowId(self.flows.len() as u32);
        let mobile = conversation.mobile();
        let ue = FlowKey::ue(mobile);
        let key = match profile {
            KeyProfile::Ue | KeyProfile::Inside | KeyProfile::Nat44(_) => {
                let id = *self.of_mobile.entry(ue).or_insert(next);
                if id != next {
                    return id;
                }
                ue
            }
            // Both addresses of a parsed packet have one family, so there is a key.
            KeyProfile::Flow5 => profile.downstream_key(&conversation.downstream).unwrap_or(ue),
        };
        let region = region(mobile);
        let draw = hasher.hash(&key).get();
        self.flows.push(FlowSpec {
            key,
            uplink_teid: spread(next.0, 0x9E37_79B1),
            downlink_teid: spread(next.0, 0x85EB_CA6B),
            base_station: BaseStationId((region.station % u64::from(BASE_STATIONS)) as u16),
            qfi: if draw.is_multiple_of(QFI_EVERY) { Qfi::new((draw >> 32) as u8 & 0x3f).ok() } else { None },
            node: NodeId::new((hasher.hash(&region.key).get() % config.size.get() as u64) as u8),
        });
        next
    }

    /// The flow of a conversation.
    pub(super) fn of_conversation(&self, id: ConversationId) -> FlowId {
        self.of_conversation[id.0 as usize]
    }

    /// The flow of a mobile; `None` except with the profile `ue`.
    pub(super) fn of_mobile(&self, address: IpAddr) -> Option<FlowId> {
        self.of_mobile.get(&FlowKey::ue(address)).copied()
    }

    /// A flow.
    pub(super) fn flow(&self, id: FlowId) -> &FlowSpec {
        &self.flows[id.0 as usize]
    }

    /// The base station of a flow.
    pub(super) fn station(&self, id: FlowId) -> BaseStation {
        self.base_stations[usize::from(self.flow(id).base_station.0)]
    }
}

/// The region of a mobile.
struct Region {
    /// Its first address as a key, which is hashed.
    key: FlowKey,
    /// Selects the base station.
    station: u64,
}

fn region(mobile: IpAddr) -> Region {
    match mobile {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let first = bits >> (32 - REGION_BITS_V4) << (32 - REGION_BITS_V4);
            Region { key: FlowKey::ue(IpAddr::V4(first.into())), station: u64::from(bits >> 2) }
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let first = bits >> (128 - REGION_BITS_V6) << (128 - REGION_BITS_V6);
            Region { key: FlowKey::ue(IpAddr::V6(first.into())), station: (bits >> 66) as u64 }
        }
    }
}

/// TEIDs like those of a network: spread over 32 bits, unique and never 0, because multiplication by an odd factor is a permutation
/// modulo 2^32 that maps only 0 to 0.
const fn spread(flow: u32, odd: u32) -> Teid {
    Teid::new(flow.wrapping_add(1).wrapping_mul(odd))
}

fn base_station(number: u16) -> BaseStation {
    let [high, low] = number.to_be_bytes();
    BaseStation {
        address: Ipv4Addr::new(172, 16, high, low + 1),
        mac: MacAddr([0x02, 0x5a, 3, 0, high, low]),
    }
}
