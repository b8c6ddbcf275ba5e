//! The ingress side of a node: from an outside port to the handling node.
//!
//! Reads: the frame's headers, the GPT; or, where each node holds all flows, the FIB. Writes: the MAC addresses of frames that go over the fabric.
//! Next: [`crate::handling`] for flows pinned here, the fabric for all others.

use crate::architecture::Architecture;
use crate::batch::{LANES, Work};
use crate::classify::Parsed;
use crate::fabric_mac::{FabricMac, OutputPort, Phase};
use crate::flow::FlowState;
use crate::node::Node;
use crate::punt::{Why, may_be_local};
use crate::reason::DropReason;
use crate::tunnels::prefetch_tunnel;
use scalebricks_io::{Burst, PacketBuf};
use scalebricks_tables::prefetch_in_front;
use scalebricks_types::{FlowKey, NodeHint, NodeId};
use scalebricks_wire::{MacAddr, ethernet};
use std::time::Duration;

impl<P: PacketBuf> Node<P> {
    /// Takes a burst from the port opposite to `output`, and steers it.
    pub(crate) fn receive_outside(&mut self, output: OutputPort, now: Duration) -> usize {
        let mut burst = Burst::new();
        let (port, own, counter) = match output {
            OutputPort::BaseStation => {
                (&mut self.ports.internet, self.config.macs.internet, &mut self.stats.internet_in)
            }
            OutputPort::Internet => {
                (&mut self.ports.base_station, self.config.macs.base_station, &mut self.stats.base_station_in)
            }
        };
        let taken = port.rx_burst(&mut burst);
        *counter += taken as u64;
        prefetch_heads(&burst);
        for packet in burst.drain(..) {
            self.receive_for_cluster(packet, own, output, now);
        }
        taken
    }

    /// A frame from outside.
    #[inline(always)]
    fn receive_for_cluster(&mut self, packet: P, own: MacAddr, output: OutputPort, now: Duration) {
        let frame = packet.data();
        let plain = match ethernet::destination(frame) {
            Some(mac) if mac == own => self.classifier.plain_ingress(frame, output),
            _ => None,
        };
        match plain {
            Some((parsed, key)) => self.steering.push_unhashed(packet, &parsed, &key),
            None => return self.receive_other(packet, own, output, now),
        }
        if self.steering.is_full() {
            self.steer();
        }
    }

    /// Such a frame that is not plain.
    #[inline(never)]
    fn receive_other(&mut self, packet: P, own: MacAddr, output: OutputPort, now: Duration) {
        let classified = check_address(packet.data(), own).map_err(|reason| (reason, false)).and_then(|()| {
            self.classifier
                .ingress(packet.data(), output, now)
                .map_err(|reason| (reason, may_be_local(reason)))
        });
        match classified {
            Ok((parsed, key)) => self.steering.push_unhashed(packet, &parsed, &key),
            Err((reason, true)) => return self.punt(packet, output.opposite(), Why::NoFlow(reason)),
            Err((reason, false)) => return self.drop_packet(packet, reason),
        }
        if self.steering.is_full() {
            self.steer();
        }
    }

    /// Asks the GPT where the waiting packets belong, and sends each on its way.
    pub(crate) fn steer(&mut self) {
        if self.steering.is_empty() {
            return;
        }
        if !self.is_filled || !self.has_lease() {
            return self.drop_batch(|node| &mut node.steering);
        }
        self.steering.hash(self.classifier.hasher());
        if self.config.architecture.holds_all_flows() {
            return self.steer_by_fib();
        }
        let mut hints = [NodeHint::NONE; LANES];
        self.tables.gpt.lookup_batch(self.steering.keys(), &mut hints);
        let mut batch = self.steering.take();
        batch.drain_with(&hints, |work, hint| match (self.resolve(hint), self.config.architecture) {
            (Ok(node), Architecture::HashPartition) => self.go_to_lookup(node, work),
            (Ok(node), _) => self.go_to_handling(node, work),
            (Err(reason), _) => self.refuse(work, reason),
        });
        self.steering.give_back(batch);
    }

    /// Asks the FIB of all flows where the waiting packets belong. The entry that names this node is the one that
    /// handling needs: a packet whose flow is here is handled with it at once, and no table is asked again.
    fn steer_by_fib(&mut self) {
        let mut values = [None; LANES];
        self.tables.fib.lookup_batch(self.steering.keys(), &mut values);
        for ((packet, parsed), flow) in self.steering.packets().zip(values.iter().copied()) {
            let flow = flow.map(FlowState::decode).filter(|flow| flow.node == self.config.id);
            if let Some(flow) = flow {
                self.tunnels.prefetch_counters(&flow);
                prefetch_tunnel(packet, parsed);
            }
        }
        let mut batch = self.steering.take();
        batch.drain_with(&values, |work, value| {
            let hint = value.map_or(NodeHint::NONE, FlowState::node_of);
            match (self.resolve(hint), value) {
                (Ok(node), Some(value)) if node == self.config.id => {
                    self.handle_with(work, &FlowState::decode(value));
                }
                (Ok(node), _) => self.go_to_handling(node, work),
                (Err(reason), _) => self.refuse(work, reason),
            }
        });
        self.steering.give_back(batch);
    }

    /// Asks the lookup table of a hash partition for the handling nodes of the waiting packets.
    pub(crate) fn look_up(&mut self) {
        if self.looking_up.is_empty() {
            return;
        }
        if !self.has_lease() {
            return self.drop_batch(|node| &mut node.looking_up);
        }
        self.looking_up.hash(self.classifier.hasher());
        let mut hints = [NodeHint::NONE; LANES];
        if let Some(lookup) = &mut self.tables.lookup {
            lookup.lookup_batch(self.looking_up.keys(), &mut hints);
        }
        let mut batch = self.looking_up.take();
        batch.drain_with(&hints, |work, hint| match self.resolve(hint) {
            Ok(node) => self.go_to_handling(node, work),
            Err(reason) => self.refuse(work, reason),
        });
        self.looking_up.give_back(batch);
    }

    /// The node a hint names. An exact table's "not here" and a number that names no node are different drops.
    #[inline(always)]
    pub(crate) fn resolve(&self, hint: NodeHint) -> Result<NodeId, DropReason> {
        let missing = if hint == NodeHint::NONE { DropReason::UnknownFlow } else { DropReason::NoSuchNode };
        self.config.size.resolve(hint).ok_or(missing)
    }

    /// A key that leads nowhere. An exact table knows that there is no such flow, so it is for this node to say so.
    #[cold]
    fn refuse(&mut self, work: Work<'_, P>, reason: DropReason) {
        match reason {
            DropReason::UnknownFlow => {
                let why = Why::UnknownFlow(*work.key);
                self.punt(work.packet, work.parsed.output.opposite(), why);
            }
            _ => self.drop_packet(work.packet, reason),
        }
    }

    fn go_to_lookup(&mut self, node: NodeId, work: Work<'_, P>) {
        if node != self.config.id {
            return self.send_fabric(work.packet, FabricMac::lookup(node, work.parsed.output));
        }
        self.looking_up.push(work);
        if self.looking_up.is_full() {
            self.look_up();
        }
    }

    #[inline(always)]
    fn go_to_handling(&mut self, node: NodeId, work: Work<'_, P>) {
        if node == self.config.id {
            return self.handle_later(work);
        }
        let output = work.parsed.output;
        let mac = match self.config.architecture {
            Architecture::Vlb => self.detour(node, &work),
            _ => FabricMac::handling(node, output),
        };
        self.send_fabric(work.packet, mac);
    }

    /// VLB: the way to `node` over an intermediate node.
    fn detour(&mut self, node: NodeId, work: &Work<'_, P>) -> FabricMac {
        let prober = &self.prober;
        let leads = |over| prober.as_ref().is_none_or(|prober| prober.leads_over(over, node));
        self.detours.draw(node, work.parsed.output, work.parsed.datagram, leads)
    }

    /// Takes a burst from the fabric. Indirect frames go on unparsed; the others, but for probes, are parsed for their key.
    pub(crate) fn receive_fabric(&mut self, now: Duration) -> usize {
        let mut burst = Burst::new();
        let taken = self.ports.fabric.rx_burst(&mut burst);
        self.stats.fabric_in += taken as u64;
        prefetch_heads(&burst);
        for packet in burst.drain(..) {
            let port = match ethernet::destination(packet.data()) {
                Some(mac) if mac == self.own_fabric[1] => OutputPort::BaseStation,
                Some(mac) if mac == self.own_fabric[0] => OutputPort::Internet,
                _ => {
                    self.receive_other_fabric(packet, now);
                    continue;
                }
            };
            self.receive_for_here(packet, FabricMac::handling(self.config.id, port), now);
        }
        taken
    }

    /// A frame from the fabric that is not just to be handled.
    #[inline(never)]
    fn receive_other_fabric(&mut self, packet: P, now: Duration) {
        match ethernet::destination(packet.data()).and_then(FabricMac::decode) {
            None => self.drop_packet(packet, DropReason::BadFabricMac),
            Some(mac) if mac.node != self.config.id => self.drop_packet(packet, DropReason::OtherMac),
            Some(mac) if mac.phase == Phase::Probe => self.receive_probe(packet, now),
            // Never over yet another node: a frame that goes round cannot circle.
            Some(mac) if mac.phase.is_indirect() && mac.output_node != self.config.id => {
                if !self.may_forward {
                    return self.drop_packet(packet, DropReason::NoLease);
                }
                self.send_directly(packet, mac.second_phase());
            }
            Some(mac) => self.receive_for_here(packet, mac, now),
        }
    }

    /// A frame that must be parsed here: for its flow, or for where its flow is.
    #[inline(always)]
    fn receive_for_here(&mut self, packet: P, mac: FabricMac, now: Duration) {
        if let Some((mut parsed, key)) = self.classifier.plain_after_fabric(packet.data(), mac.port) {
            parsed.again = mac.again;
            return self.classified_for_here(packet, &parsed, &key, mac.phase);
        }
        match self.classifier.after_fabric(packet.data(), mac.port, now) {
            Ok((mut parsed, key)) => {
                parsed.again = mac.again;
                self.classified_for_here(packet, &parsed, &key, mac.phase);
            }
            Err(reason) => self.drop_packet(packet, reason),
        }
    }

    #[inline(always)]
    fn classified_for_here(&mut self, packet: P, parsed: &Parsed, key: &FlowKey, phase: Phase) {
        if matches!(phase, Phase::Lookup | Phase::IndirectLookup) {
            self.looking_up.push_unhashed(packet, parsed, key);
            if self.looking_up.is_full() {
                self.look_up();
            }
        } else {
            self.handling.push_unhashed(packet, parsed, key);
            if self.handling.is_full() {
                self.handle();
            }
        }
    }

    fn handle_later(&mut self, work: Work<'_, P>) {
        self.handling.push(work);
        if self.handling.is_full() {
            self.handle();
        }
    }
}

/// Asks for the first lines of all frames of a burst: the loads of the pass over them then wait for each other no longer.
#[inline(always)]
pub(crate) fn prefetch_heads<P: PacketBuf>(burst: &Burst<P>) {
    for packet in burst {
        prefetch_in_front(packet.data(), 0);
    }
}

/// Whether a frame on an outside port is for this node.
pub(crate) fn check_address(frame: &[u8], own: MacAddr) -> Result<(), DropReason> {
    match ethernet::destination(frame) {
        Some(mac) if mac == own => Ok(()),
        Some(mac) if FabricMac::is_marked(mac) => Err(DropReason::EncodedMacOutside),
        // What it is decides the reason: ARP is "non_ip" before it is broadcast.
        Some(mac) if mac.is_multicast() => Ok(()),
        Some(_) => Err(DropReason::OtherMac),
        None => Err(DropReason::Truncated),
    }
}
