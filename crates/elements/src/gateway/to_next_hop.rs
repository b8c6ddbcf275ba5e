//! `ToNextHop`.

use super::columns::PuntInfo;
use super::drop_ids::DropIds;
use crate::gateway::config::{NodeConfig, OutsideMacs};
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::local::FrameKind;
use crate::gateway::outside::adjacency::{Adjacencies, NextHop};
use crate::gateway::punt::PuntReason;
use crate::gateway::reason::DropReason;
use scalebricks_graph::{Control, Element, Frame, Handle, Out, Slot, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::{ethernet, parse_ip};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

element! {
    /// Sends the packets that an appliance has passed to their next hops.
    pub struct ToNextHop as "ToNextHop" {
        pub(super) adjacencies: Arc<Adjacencies>, macs: OutsideMacs, hash: RandomState, drops: DropIds, punted: Handle<PuntInfo>,
    }
    inputs {
        push "outside" [Optional]: "IP packets that leave at the outside port, behind room for an Ethernet header.",
        push "inside" [Optional]: "IP packets that leave at the inside port, likewise.",
        push "refused" [Optional]: "Packets that the appliance refuses; they are dropped.",
    }
    outputs {
        burst "outside": "Frames for the outside port.",
        burst "inside": "Frames for the inside port.",
        push "slow": "Packets whose next hop's MAC address is unknown, for the slow path.",
    }
    writes { PuntInfo on "slow", }
    drops {
        REFUSED = DropReason::Refused,
        MALFORMED_IP = DropReason::MalformedIp,
        NO_ROUTE = DropReason::NoRoute,
    }
    binds { punted, }
}

/// The input of refused packets; the others have the numbers of their ports.
const REFUSED: usize = 2;
const SLOW: usize = 2;

impl ToNextHop {
    /// Creates the element of a node.
    pub fn new(config: &NodeConfig) -> Self {
        Self {
            adjacencies: Arc::clone(&config.adjacencies),
            macs: config.macs,
            hash: RandomState::new(),
            drops: DropIds::of(Self::SPEC),
            punted: Handle::default(),
        }
    }

    /// Writes the Ethernet header, and returns the next hop.
    fn address<P: PacketBuf>(&self, port: OutputPort, packet: &mut P) -> Result<NextHop, DropReason> {
        let bytes = packet.data_mut();
        let ip = bytes.get(ethernet::HEADER_LEN..).and_then(|ip| parse_ip(ip).ok());
        let (src, dst) = ip.map(|ip| (ip.summary.src, ip.summary.dst)).ok_or(DropReason::MalformedIp)?;
        // Packets of two hosts take one path.
        let hash = self.hash.hash_one((src, dst));
        let (own, next_hop) = match port {
            OutputPort::Internet => (self.macs.internet, self.adjacencies.internet(dst, hash)),
            OutputPort::BaseStation => (self.macs.base_station, self.adjacencies.ran(dst, hash)),
        };
        if next_hop == NextHop::NoRoute {
            return Err(DropReason::NoRoute);
        }
        let ethertype = match dst {
            IpAddr::V4(_) => ethernet::ETHERTYPE_IPV4,
            IpAddr::V6(_) => ethernet::ETHERTYPE_IPV6,
        };
        bytes[..ethernet::HEADER_LEN].copy_from_slice(&ethernet::header(next_hop.mac(), own, ethertype));
        Ok(next_hop)
    }

    fn send<P: PacketBuf>(&self, port: OutputPort, slot: Slot, frame: &mut Frame<P>, out: &mut Out<'_>) {
        match self.address(port, frame.packet_mut(&slot)) {
            Ok(NextHop::Ask(next_hop)) => {
                let why = PuntReason::Unresolved { next_hop, kind: FrameKind::Packet };
                frame.column_mut(self.punted)[&slot] = PuntInfo { why, link: port };
                out.push(SLOW, slot);
            }
            Ok(_) => {
                let packet = frame.take(slot);
                frame.send(port as usize, packet);
            }
            Err(reason) => out.drop(slot, self.drops.id(reason)),
        }
    }
}

impl Control for ToNextHop {}

impl<P: PacketBuf> Element<P> for ToNextHop {
    fn push(&mut self, from: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for slot in batch.drain() {
            match from {
                REFUSED => out.drop(slot, Self::REFUSED),
                port => self.send(OutputPort::ALL[port], slot, frame, out),
            }
        }
    }
}
