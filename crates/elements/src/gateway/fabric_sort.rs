//! `FabricSort`.

use super::drop_ids::DropIds;
use super::permit::Permit;
use crate::gateway::fabric::mac::{FabricMac, OutputPort, Phase};
use crate::gateway::reason::DropReason;
use scalebricks_graph::{Bursts, Control, Element, Frame, Out, element};
use scalebricks_io::PacketBuf;
use scalebricks_types::NodeId;
use scalebricks_wire::{MacAddr, ethernet};
use std::time::Duration;

element! {
    /// Sorts frames from the fabric by address. Frames that are simply for a flow of this node do not pass here.
    pub struct FabricSort as "FabricSort" { id: NodeId, own: [MacAddr; 2], pub(super) permit: Permit, drops: DropIds, }
    inputs { burst "in": "Frames from the fabric.", }
    outputs {
        burst "handle": "Frames that another node sent here to be handled, after an indirect path or a second forwarding.",
        burst "lookup" [Optional]: "Frames whose handling node this node must look up.",
        burst "onward" [Optional]: "Frames to relay to another node, with their second-phase address.",
        burst "probes" [Optional]: "Probes and their echoes.",
    }
    drops {
        BAD_MAC = DropReason::BadFabricMac,
        OTHER_MAC = DropReason::OtherMac,
        TRUNCATED = DropReason::Truncated,
        NO_LEASE = DropReason::NoLease,
    }
}

const HANDLE: usize = 0;
const LOOKUP: usize = 1;
const ONWARD: usize = 2;
const PROBES: usize = 3;

impl FabricSort {
    /// Creates the element of a node.
    pub fn new(id: NodeId) -> Self {
        let own = OutputPort::ALL.map(|port| FabricMac::handling(id, port).encode());
        Self { id, own, permit: Permit::default(), drops: DropIds::of(Self::SPEC) }
    }

    /// The output for a frame.
    fn output<P: PacketBuf>(&self, packet: &mut P, now: Duration) -> Result<usize, DropReason> {
        match ethernet::destination(packet.data()).and_then(FabricMac::decode) {
            None => Err(DropReason::BadFabricMac),
            Some(mac) if mac.node != self.id => Err(DropReason::OtherMac),
            Some(mac) if mac.phase == Phase::Probe => Ok(PROBES),
            // Never through another relay: a relayed frame cannot loop.
            Some(mac) if mac.phase.is_indirect() && mac.output_node != self.id => {
                if !self.permit.forwards(now) {
                    return Err(DropReason::NoLease);
                }
                let (to, own) = (mac.second_phase().encode(), self.own[mac.port as usize]);
                let is_set = ethernet::set_addresses(packet.data_mut(), to, own);
                if is_set { Ok(ONWARD) } else { Err(DropReason::Truncated) }
            }
            Some(mac) if matches!(mac.phase, Phase::Lookup | Phase::IndirectLookup) => Ok(LOOKUP),
            Some(_) => Ok(HANDLE),
        }
    }
}

impl Control for FabricSort {}

impl<P: PacketBuf> Element<P> for FabricSort {
    fn burst(&mut self, _: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        bursts.each(|chunk| {
            for mut packet in chunk.packets.drain(..) {
                match self.output(&mut packet, out.now()) {
                    Ok(output) => frame.send(output, packet),
                    Err(reason) => out.drop_packet(packet, self.drops.id(reason), frame),
                }
            }
        });
    }
}
