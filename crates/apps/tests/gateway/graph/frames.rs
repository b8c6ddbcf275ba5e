//! Frames of all kinds.

use super::pair::{FLOWS, HERE, NODES};
use crate::gateway::common::{downstream, g_pdu, to_gateway, upstream_inner};
use proptest::prelude::*;
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::{FabricMac, OutputPort, OutsideMacs, Policy};
use scalebricks_types::NodeId;

/// The port at which a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Internet,
    BaseStation,
    Fabric,
}

impl Side {
    pub const ALL: [Self; 3] = [Self::Internet, Self::BaseStation, Self::Fabric];
}

/// The destination of a frame.
#[derive(Debug, Clone, Copy)]
pub enum To {
    /// The usual one: the node's own address outside, or "handle" on the fabric.
    Here,
    Again,
    /// To be looked up, in architectures with a lookup node.
    Lookup,
    /// For another node, relayed by this one.
    Onward,
    OtherNode,
    Probe,
    Nonsense,
}

impl To {
    /// A number that is equal for all frames that pass the same steps.
    pub const fn way(self) -> u32 {
        match self {
            Self::Onward => 1,
            Self::Lookup => 2,
            _ => 0,
        }
    }
}

/// Kind of a frame.
#[derive(Debug, Clone)]
pub struct Kind {
    pub flow: u32,
    pub is_upstream: bool,
    pub len: usize,
    pub to: To,
    /// Downstream IPv4: 1 is a first fragment, 2 a later one.
    pub fragment: u8,
    /// Octets to change, and the length to truncate to.
    pub damage: Vec<(usize, u8)>,
    pub cut: usize,
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![
        12 => Just(To::Here),
        2 => Just(To::Again),
        2 => Just(To::Lookup),
        2 => Just(To::Onward),
        1 => Just(To::OtherNode),
        1 => Just(To::Probe),
        1 => Just(To::Nonsense),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    let damage = prop_oneof![4 => Just(vec![]), 1 => prop::collection::vec((0usize..90, any::<u8>()), 1..4)];
    let cut = prop_oneof![8 => Just(usize::MAX), 1 => 0usize..100];
    let len = prop_oneof![6 => 0usize..200, 1 => 1_400usize..1_800];
    let flow = prop_oneof![8 => 0..FLOWS, 1 => FLOWS..2 * FLOWS];
    let fragment = prop_oneof![8 => Just(0u8), 2 => 1u8..3];
    (flow, any::<bool>(), len, to(), fragment, damage, cut).prop_map(
        |(flow, is_upstream, len, to, fragment, damage, cut)| Kind {
            flow,
            is_upstream,
            len,
            to,
            fragment,
            damage,
            cut,
        },
    )
}

/// Frames that arrive together, mostly at one port.
pub fn step() -> impl Strategy<Value = Vec<(Side, Vec<Kind>)>> {
    let side = || prop_oneof![Just(Side::Internet), Just(Side::BaseStation), Just(Side::Fabric)];
    let of = |side: Side, most| prop::collection::vec(kind(), 1..most).prop_map(move |kinds| (side, kinds));
    prop_oneof![
        2 => side().prop_flat_map(move |side| of(side, 150)).prop_map(|one| vec![one]),
        1 => Side::ALL.map(|side| of(side, 100)).prop_map(|all| all.to_vec()),
    ]
}

/// Some of each kind.
pub fn all() -> Vec<Kind> {
    let mut kinds = Vec::new();
    let all_to = [To::Here, To::Again, To::Onward, To::OtherNode, To::Probe, To::Nonsense];
    for (flow, to) in (0..2 * FLOWS).zip(all_to.into_iter().cycle()) {
        for (is_upstream, len, fragment, cut) in [
            (false, 20, 0, usize::MAX),
            (true, 20, 0, usize::MAX),
            (false, 1_790, 0, usize::MAX),
            (false, 20, 2, usize::MAX),
            (false, 20, 1, usize::MAX),
            (false, 20, 2, usize::MAX),
            (true, 20, 0, 50),
        ] {
            kinds.push(Kind { flow, is_upstream, len, to, fragment, damage: vec![], cut });
        }
    }
    kinds
}

/// Turns an IPv4 frame into a fragment. Its identification differs by side, since each parsing element remembers the
/// datagrams that it has seen.
fn fragment(frame: &mut [u8], number: u8, id: u16) {
    let ip = &mut frame[14..34];
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[6..8].copy_from_slice(&if number == 1 { [0x20, 0] } else { [0, 100] });
    ip[10..12].fill(0);
    let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// A frame, and whether it is a fragment.
pub fn frame(
    kind: &Kind,
    side: Side,
    architecture: Architecture,
    policy: &Policy,
    macs: &OutsideMacs,
) -> (Vec<u8>, bool) {
    let payload = vec![kind.flow as u8; kind.len];
    // A frame at the wrong side is one kind of hostile frame; most are at the right one.
    let is_upstream = match side {
        Side::Internet => kind.is_upstream && kind.flow.is_multiple_of(16),
        Side::BaseStation => kind.is_upstream || !kind.flow.is_multiple_of(16),
        Side::Fabric => kind.is_upstream,
    };
    let mut frame = if is_upstream {
        let inner = upstream_inner(kind.flow, &payload);
        let message = g_pdu(0x8000_0000 + kind.flow, &inner, kind.flow.is_multiple_of(3));
        to_gateway(policy.gateway_address, 2152, &message)
    } else {
        downstream(kind.flow, &payload)
    };
    let is_fragment = kind.fragment > 0 && !is_upstream && kind.flow.is_multiple_of(2);
    if is_fragment {
        let place = match (side, kind.to) {
            (Side::Fabric, To::Lookup) => 2,
            (Side::Fabric, _) => 1,
            _ => 0,
        };
        fragment(&mut frame, kind.fragment, kind.flow as u16 * 3 + place);
    }
    let output = if is_upstream { OutputPort::Internet } else { OutputPort::BaseStation };
    let mac = match side {
        Side::Internet if !matches!(kind.to, To::Nonsense) => macs.internet.octets(),
        Side::BaseStation if !matches!(kind.to, To::Nonsense) => macs.base_station.octets(),
        Side::Fabric => fabric_mac(kind.to, architecture, output),
        _ => [2, 3, 4, 5, 6, 7],
    };
    frame[..6].copy_from_slice(&mac);
    if !is_fragment {
        // The destination address stays as recorded, and no frame becomes a fragment.
        for &(at, bits) in kind.damage.iter().filter(|(at, _)| *at >= 6 && !(20..22).contains(at)) {
            if let Some(octet) = frame.get_mut(at) {
                *octet ^= bits;
            }
        }
        frame.truncate(kind.cut);
    }
    (frame, is_fragment)
}

fn fabric_mac(to: To, architecture: Architecture, output: OutputPort) -> [u8; 6] {
    let other = NodeId::new((HERE.get() + 1) % NODES as u8);
    let mac = match to {
        To::Lookup if architecture == Architecture::HashPartition => FabricMac::lookup(HERE, output),
        To::Here | To::Lookup => FabricMac::handling(HERE, output),
        To::Again => FabricMac { again: true, ..FabricMac::handling(HERE, output) },
        To::Onward => FabricMac::indirect(HERE, other, output),
        To::OtherNode => FabricMac::handling(other, output),
        To::Probe => FabricMac::probe(HERE),
        To::Nonsense => return [2, 0x5b, 9, 9, 9, 9],
    };
    mac.encode().octets()
}
