//! The handling side of a node: from the flow's key to its state, and out.
//!
//! Reads: the FIB, the base stations. Writes: per-flow counters, the tunnel headers.
//! Next: the base-station port (downstream, encapsulated) or the Internet port (upstream, decapsulated). A flow that
//! is not here goes once more to where the GPT has it, else it is dropped.

use crate::batch::{LANES, Work};
use crate::classify::Parsed;
use crate::fabric_mac::{FabricMac, OutputPort};
use crate::flow::FlowState;
use crate::local::FrameKind;
use crate::node::Node;
use crate::punt::Why;
use crate::tunnels::{Fate, prefetch_tunnel};
use scalebricks_io::PacketBuf;
use scalebricks_tables::KeyBatch;
use scalebricks_types::NodeHint;

impl<P: PacketBuf> Node<P> {
    /// Looks the waiting packets up in the FIB and acts on each.
    pub(crate) fn handle(&mut self) {
        if self.handling.is_empty() {
            return;
        }
        if !self.has_lease() {
            return self.drop_batch(|node| &mut node.handling);
        }
        for (packet, parsed) in self.handling.packets() {
            prefetch_tunnel(packet, parsed);
        }
        self.handling.hash(self.classifier.hasher());
        let mut values = [None; LANES];
        self.tables.fib.lookup_batch(self.handling.keys(), &mut values);
        for value in values.iter().flatten() {
            self.tunnels.prefetch_counters(&FlowState::decode(*value));
        }
        let mut batch = self.handling.take();
        batch.drain_with(&values, |work, value| match value {
            Some(value) => self.handle_with(work, &FlowState::decode(value)),
            None => self.forward_again(work),
        });
        self.handling.give_back(batch);
    }

    /// Acts on a packet whose flow's entry was found.
    #[inline(always)]
    pub(crate) fn handle_with(&mut self, work: Work<'_, P>, flow: &FlowState) {
        let Work { mut packet, parsed, hash, .. } = work;
        match parsed.output {
            OutputPort::BaseStation => match self.tunnels.enter(&mut packet, parsed, hash, flow) {
                Fate::Leaves => {
                    self.stats.base_station_out += 1;
                    self.send_outside(OutputPort::BaseStation, packet);
                }
                fate => self.end_otherwise(packet, parsed, fate),
            },
            OutputPort::Internet => match self.tunnels.leave(&mut packet, parsed, hash, flow) {
                Fate::Leaves => {
                    self.stats.internet_out += 1;
                    self.send_outside(OutputPort::Internet, packet);
                }
                fate => self.end_otherwise(packet, parsed, fate),
            },
        }
    }

    /// What does not just leave.
    #[inline(never)]
    fn end_otherwise(&mut self, packet: P, parsed: &Parsed, fate: Fate) {
        match fate {
            Fate::Leaves => {
                *self.stats.sent_by(parsed.output) += 1;
                self.send_outside(parsed.output, packet);
            }
            Fate::InPieces(next_hop) => self.send_fragmented(packet, next_hop),
            Fate::Unresolved(next_hop) => {
                self.punt(packet, parsed.output, Why::Unresolved { next_hop, kind: FrameKind::Packet });
            }
            Fate::TooBig(mtu) => self.refuse_too_big(packet, parsed, mtu),
            Fate::Dropped(reason) => self.drop_packet(packet, reason),
        }
    }

    /// A flow that is not here may have moved since the ingress node looked: if the GPT here names another node, the
    /// packet goes there, once.
    fn forward_again(&mut self, work: Work<'_, P>) {
        let mut hint = [NodeHint::NONE];
        if !work.parsed.again && self.config.architecture == crate::Architecture::ScaleBricks {
            let (key, hash) = ([*work.key], [work.hash]);
            self.tables.gpt.lookup_batch(KeyBatch::new(&key, &hash), &mut hint);
        }
        match self.config.size.resolve(hint[0]) {
            Some(node) if node != self.config.id => {
                self.stats.forwarded_again += 1;
                let mac = FabricMac { again: true, ..FabricMac::handling(node, work.parsed.output) };
                self.send_fabric(work.packet, mac);
            }
            _ => self.punt(work.packet, work.parsed.output.opposite(), Why::UnknownFlow(*work.key)),
        }
    }
}
