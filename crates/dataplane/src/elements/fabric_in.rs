//! `FabricIn`.

use super::columns::{AGAIN, OTHER, entry_of};
use super::drops::Drops;
use crate::fabric_mac::{FabricMac, OutputPort, Phase};
use crate::ingress::prefetch_heads;
use crate::reason::DropReason;
use scalebricks_graph::{
    Control, Element, Frame, Lanes, Meta, Out, PortId, SLOTS, Slot, Spec, Upstream, element,
};
use scalebricks_io::{BURST, Burst, PacketBuf, RxPort};
use scalebricks_types::NodeId;
use scalebricks_wire::{MacAddr, ethernet};

element! {
    /// Takes frames from the fabric, and tells by their addresses what is to be done with each. Frames under way are taken even while
    /// the fabric is congested.
    pub struct FabricIn<P> as "FabricIn" { port: Box<dyn RxPort<P>>, id: NodeId, own: [MacAddr; 2], taken: Lanes, drops: Drops, }
    outputs {
        push "handle": "Frames of flows that are handled here, as another node says.",
        push "lookup": "Frames whose handling node is to be looked up here.",
        push "onward": "Frames for another node, with the address of its second phase.",
    }
    drops {
        BAD_MAC = "bad_fabric_mac": "A frame on the fabric whose address is none of ours.",
        OTHER_MAC = "other_mac": "The frame is for another station's MAC address.",
        BAD_PROBE = "bad_probe": "A probe of the fabric at a node that takes no part in probing.",
        TRUNCATED = "truncated": "The frame ends before its headers, or its IP packet before its stated length.",
    }
    counters { RECEIVED = "received": "Frames received.", }
    hooks { Begin, }
}

const HANDLE: usize = 0;
const LOOKUP: usize = 1;
const ONWARD: usize = 2;

impl<P> FabricIn<P> {
    /// The one of a node.
    pub fn new(port: Box<dyn RxPort<P>>, id: NodeId) -> Self {
        let own = OutputPort::ALL.map(|port| FabricMac::handling(id, port).encode());
        Self { port, id, own, taken: Lanes::new(), drops: Drops::of(Self::SPEC) }
    }
}

impl<P: PacketBuf> FabricIn<P> {
    /// Frames some of which are not just to be handled.
    #[cold]
    fn sort_out(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut taken = std::mem::take(&mut self.taken);
        for slot in taken.drain() {
            if frame.meta(&slot).flags & OTHER == 0 {
                out.push(HANDLE, slot);
            } else {
                frame.meta_mut(&slot).flags = 0;
                self.receive_other(slot, frame, out);
            }
        }
        self.taken = taken;
    }

    /// A frame that is not just to be handled.
    fn receive_other(&self, slot: Slot, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let to = ethernet::destination(frame.packet(&slot).data());
        let drop = |reason| Err(self.drops.id(reason));
        let output = match to.and_then(FabricMac::decode) {
            None => drop(DropReason::BadFabricMac),
            Some(mac) if mac.node != self.id => drop(DropReason::OtherMac),
            Some(mac) if mac.phase == Phase::Probe => drop(DropReason::BadProbe),
            // Never over yet another node: a frame that goes round cannot circle.
            Some(mac) if mac.phase.is_indirect() && mac.output_node != self.id => {
                let (to, own) = (mac.second_phase().encode(), self.own[mac.port as usize]);
                let is_set = ethernet::set_addresses(frame.packet_mut(&slot).data_mut(), to, own);
                if is_set { Ok(ONWARD) } else { drop(DropReason::Truncated) }
            }
            Some(mac) => {
                let meta = frame.meta_mut(&slot);
                meta.port = entry_of(mac.port);
                meta.flags |= if mac.again { AGAIN } else { 0 };
                let looks_up = matches!(mac.phase, Phase::Lookup | Phase::IndirectLookup);
                Ok(if looks_up { LOOKUP } else { HANDLE })
            }
        };
        match output {
            Ok(output) => out.push(output, slot),
            Err(reason) => out.drop(slot, reason),
        }
    }
}

impl<P: PacketBuf + 'static> Control for FabricIn<P> {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
}

impl<P: PacketBuf + 'static> Element<P> for FabricIn<P> {
    fn push(&mut self, _: usize, _: &mut Lanes, _: &mut Frame<P>, _: &mut Out<'_>) {}

    fn begin(&mut self, _: &mut Upstream<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut burst = Burst::new();
        for _ in 0..out.intake(frame.used()).div_ceil(BURST) {
            if frame.used() + BURST > SLOTS {
                break;
            }
            let taken = self.port.rx_burst(&mut burst);
            out.count(Self::RECEIVED, taken as u64);
            prefetch_heads(&burst);
            let (own, mut has_other) = (self.own, false);
            frame.put_burst(&mut burst, &mut self.taken, |packet| {
                let (entry, flags) = match ethernet::destination(packet.data()) {
                    Some(mac) if mac == own[1] => (entry_of(OutputPort::BaseStation), 0),
                    Some(mac) if mac == own[0] => (entry_of(OutputPort::Internet), 0),
                    _ => {
                        has_other = true;
                        (PortId::default(), OTHER)
                    }
                };
                Meta::new(entry, flags)
            });
            if has_other {
                self.sort_out(frame, out);
            } else {
                out.all(HANDLE, &mut self.taken);
            }
            if taken < BURST {
                break;
            }
        }
    }
}
