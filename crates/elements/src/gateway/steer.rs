//! `Steer`.

use super::batch::{BatchEntry, LANES, WaitingBatch};
use super::columns::{FibHit, HashedKey, PuntInfo};
use super::drop_ids::DropIds;
use super::handling_stage::{HandlingStage, ToSlots};
use super::permit::Permit;
use crate::gateway::config::NodeConfig;
use crate::gateway::fabric::mac::{FabricMac, OutputPort, Phase};
use crate::gateway::flow::FlowState;
use crate::gateway::packet::classify::{Classifier, Parsed};
use crate::gateway::punt::{PuntReason, may_be_local};
use crate::gateway::reason::DropReason;
use scalebricks_graph::{Bursts, Chunk, Control, Element, Frame, Handle, Out, Slot, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_tables::{Fib, GptReader, KeyBatch};
use scalebricks_types::{ClusterSize, FlowKey, KeyHash, NodeHint, NodeId};
use scalebricks_wire::{MacAddr, ethernet};
use std::sync::Arc;

/// The table that locates a packet's flow.
pub enum LocationTable {
    /// A GPT: it names a node.
    Gpt(Box<dyn GptReader>),
    /// The FIB of all flows: it names the node and holds the state for handling.
    Fib(Arc<dyn Fib>),
}

impl std::fmt::Debug for LocationTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Gpt(_)) { "Gpt" } else { "Fib" })
    }
}

element! {
    /// Parses each packet's key, looks up its node, and addresses frames for other nodes.
    pub struct Steer<P> as "Steer" {
        directory: LocationTable, pub(super) classifier: Classifier, id: NodeId, size: ClusterSize, phase: Phase,
        outside: [MacAddr; 2], own: [MacAddr; 2], pub(super) permit: Permit, waiting: WaitingBatch<P>, away: Bursts<P>, drops: DropIds,
        parsed: Handle<Parsed>, keyed: Handle<HashedKey>, found: Handle<FibHit>, punted: Handle<PuntInfo>,
    }
    inputs {
        burst "internet" [Optional]: "Frames from the Internet.",
        burst "base_station" [Optional]: "Frames from base stations.",
        burst "fabric" [Optional]: "Frames that an ingress node has already checked.",
        push "keyed" [Optional]: "Packets whose key is known.",
        push "missed" [Optional]: "Packets whose key is known but whose flow is not here. They may go to another node, once.",
    }
    outputs {
        burst "away": "Frames for other nodes.",
        push "here" [Optional]: "Packets that the GPT places at this node.",
        push "found" [Optional]: "Packets of local flows with the FIB's value.",
        push "slow" [Optional]: "Packets without a flow or of an unknown flow, for the slow path.",
    }
    reads { Parsed on "keyed", HashedKey on "keyed", Parsed on "missed", HashedKey on "missed", }
    writes { Parsed on "here", Parsed on "found", HashedKey on "here", FibHit on "found", PuntInfo on "slow", }
    drops {
        NON_IP = DropReason::NonIp,
        FOR_THIS_NODE = DropReason::ForThisNode,
        LINK_LOCAL = DropReason::LinkLocal,
        MULTICAST = DropReason::Multicast,
        NOT_FOR_GATEWAY = DropReason::NotForGateway,
        NO_PIN = DropReason::NoPin,
        NOT_GTPU = DropReason::NotGtpu,
        GTPU_SIGNALLING = DropReason::GtpuSignalling,
        EXTENSION = DropReason::UnsupportedExtension,
        TRUNCATED = DropReason::Truncated,
        MALFORMED_IP = DropReason::MalformedIp,
        BAD_CHECKSUM = DropReason::BadIpv4Checksum,
        OTHER_MAC = DropReason::OtherMac,
        ENCODED_MAC = DropReason::EncodedMacOutside,
        NO_FIRST = DropReason::FragmentWithoutFirst,
        NO_NODE = DropReason::NoSuchNode,
        MALFORMED_GTPU = DropReason::MalformedGtpu,
        GTPU_FRAGMENT = DropReason::GtpuFragment,
        NO_LEASE = DropReason::NoLease,
    }
    counters { FORWARDED_AGAIN = "forwarded_again": "Packets forwarded once more because the FIB here did not hold them and the GPT named another node.", }
    binds { parsed, keyed, found, punted, }
}

/// Input numbers.
pub(super) mod input {
    pub(in super::super) const INTERNET: usize = 0;
    pub(in super::super) const BASE_STATION: usize = 1;
    pub(in super::super) const FABRIC: usize = 2;
    pub(in super::super) const MISSED: usize = 4;
    pub(in super::super) const COUNT: usize = 5;
}

/// Output numbers.
pub(super) mod output {
    pub(in super::super) const AWAY: usize = 0;
    pub(in super::super) const HERE: usize = 1;
    pub(in super::super) const FOUND: usize = 2;
    pub(in super::super) const SLOW: usize = 3;
    pub(in super::super) const COUNT: usize = 4;
}

/// A packet whose flow is not here, with its metadata.
#[derive(Debug)]
pub(super) struct MissedPacket<P> {
    pub(super) packet: P,
    pub(super) parsed: Parsed,
    pub(super) key: FlowKey,
    pub(super) hash: KeyHash,
}

impl<P: PacketBuf> Steer<P> {
    /// Creates the element of a node. Frames for other nodes are sent in this phase.
    pub fn new(config: &NodeConfig, directory: LocationTable, phase: Phase) -> Self {
        Self {
            directory,
            classifier: Classifier::of(config),
            id: config.id,
            size: config.size,
            phase,
            // By output port: packets that leave there arrived at the other port.
            outside: [config.macs.base_station, config.macs.internet],
            own: OutputPort::ALL.map(|port| FabricMac::handling(config.id, port).encode()),
            permit: Permit::default(),
            waiting: WaitingBatch::default(),
            away: Bursts::default(),
            drops: DropIds::of(Self::SPEC),
            parsed: Handle::default(),
            keyed: Handle::default(),
            found: Handle::default(),
            punted: Handle::default(),
        }
    }

    /// Takes frames by value and steers them. Packets of local flows go to `here`.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        from: usize,
        bursts: &mut Bursts<P>,
        here: &mut impl HandlingStage<P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        match from {
            input::INTERNET => {
                bursts.each(|chunk| self.take_new(OutputPort::BaseStation, chunk, here, frame, out));
            }
            input::BASE_STATION => {
                bursts.each(|chunk| self.take_new(OutputPort::Internet, chunk, here, frame, out));
            }
            _ => bursts.each(|chunk| self.take_judged(chunk, here, frame, out)),
        }
        self.ask(from != input::FABRIC, here, frame, out);
        self.finish(frame);
    }

    /// Sends frames for other nodes.
    #[inline(always)]
    pub(super) fn finish(&mut self, frame: &mut Frame<P>) {
        frame.bursts(output::AWAY).append(&mut self.away);
    }

    /// Frames from outside whose packets leave at `output`.
    #[inline(always)]
    fn take_new(
        &mut self,
        output: OutputPort,
        chunk: &mut Chunk<P>,
        here: &mut impl HandlingStage<P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let own = self.outside[output as usize].bits();
        for packet in chunk.packets.drain(..) {
            let bytes = packet.data();
            let plain = match ethernet::destination_bits(bytes) {
                Some(mac) if mac == own => self.classifier.plain_ingress(bytes, output),
                _ => None,
            };
            match plain {
                Some((parsed, key)) => self.waiting.push_unhashed(packet, &parsed, &key),
                None => self.take_other(output, packet, frame, out),
            }
            if self.waiting.is_full() {
                self.ask(true, here, frame, out);
            }
        }
    }

    /// A frame from outside that is not plain.
    #[inline(never)]
    fn take_other(&mut self, output: OutputPort, packet: P, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (bytes, own) = (packet.data(), self.outside[output as usize]);
        let classified = check_address(bytes, own).map_err(|reason| (reason, false)).and_then(|()| {
            let classified = self.classifier.ingress(bytes, output, out.now());
            classified.map_err(|reason| (reason, may_be_local(reason)))
        });
        match classified {
            Ok((parsed, key)) => self.waiting.push_unhashed(packet, &parsed, &key),
            Err((reason, true)) => {
                self.punt(packet, output.opposite(), PuntReason::NoFlow(reason), frame, out);
            }
            Err((reason, false)) => out.drop_packet(packet, self.drops.id(reason), frame),
        }
    }

    /// Frames from the fabric that an ingress node has already checked.
    fn take_judged(
        &mut self,
        chunk: &mut Chunk<P>,
        here: &mut impl HandlingStage<P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        for packet in chunk.packets.drain(..) {
            match self.classifier.any_after_fabric(packet.data(), out.now()) {
                Ok((parsed, key)) => self.waiting.push_unhashed(packet, &parsed, &key),
                Err(reason) => out.drop_packet(packet, self.drops.id(reason), frame),
            }
            if self.waiting.is_full() {
                self.ask(false, here, frame, out);
            }
        }
    }

    /// Looks up the waiting packets and sends each to its destination.
    #[inline]
    fn ask(
        &mut self,
        is_new: bool,
        here: &mut impl HandlingStage<P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        if self.waiting.is_empty() {
            return;
        }
        let now = out.now();
        let may = if is_new { self.permit.takes_new(now) } else { self.permit.forwards(now) };
        if !may {
            return self.waiting.clear(|packet| out.drop_packet(packet, Self::NO_LEASE, frame));
        }
        self.waiting.hash(self.classifier.hasher());
        match &mut self.directory {
            LocationTable::Gpt(gpt) => {
                let mut hints = [NodeHint::NONE; LANES];
                gpt.lookup_batch(self.waiting.keys(), &mut hints);
                let mut batch = self.waiting.take();
                batch.drain_with(&hints, |work, hint| match self.size.resolve(hint) {
                    Some(node) if node == self.id => here.here(work, frame, out),
                    Some(node) => self.send(node, work, frame, out),
                    None => self.refuse(work, hint, frame, out),
                });
                self.waiting.give_back(batch);
            }
            LocationTable::Fib(fib) => {
                let mut values = [None; LANES];
                fib.lookup_batch(self.waiting.keys(), &mut values);
                for ((packet, parsed), flow) in self.waiting.packets().zip(values.iter().copied()) {
                    let flow = flow.map(FlowState::decode).filter(|flow| flow.node == self.id);
                    if let Some(flow) = flow {
                        here.expect(packet, parsed, &flow);
                    }
                }
                let mut batch = self.waiting.take();
                batch.drain_with(&values, |work, value| {
                    let hint = value.map_or(NodeHint::NONE, FlowState::node_of);
                    match (self.size.resolve(hint), value) {
                        (Some(node), Some(value)) if node == self.id => here.found(work, value, frame, out),
                        (Some(node), _) => self.send(node, work, frame, out),
                        (None, _) => self.refuse(work, hint, frame, out),
                    }
                });
                self.waiting.give_back(batch);
            }
        }
    }

    /// Sends a frame to its flow's node.
    #[inline(always)]
    fn send(&mut self, node: NodeId, work: BatchEntry<'_, P>, frame: &mut Frame<P>, out: &Out<'_>) {
        let mac = FabricMac { phase: self.phase, ..FabricMac::handling(node, work.parsed.output) };
        self.send_to(mac, work.packet, frame, out);
    }

    #[inline(always)]
    fn send_to(&mut self, mac: FabricMac, mut packet: P, frame: &mut Frame<P>, out: &Out<'_>) {
        let own = self.own[mac.port as usize];
        if !ethernet::set_addresses(packet.data_mut(), mac.encode(), own) {
            return out.drop_packet(packet, Self::TRUNCATED, frame);
        }
        self.away.push(packet);
    }

    /// A key without a flow. An exact table knows that the flow does not exist, so this node must report it; a hint
    /// that names no node is a separate drop reason.
    #[cold]
    fn refuse(&self, work: BatchEntry<'_, P>, hint: NodeHint, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if hint == NodeHint::NONE {
            let link = work.parsed.output.opposite();
            self.punt(work.packet, link, PuntReason::UnknownFlow(*work.key), frame, out);
        } else {
            out.drop_packet(work.packet, Self::NO_NODE, frame);
        }
    }

    /// A flow that is not here may have moved since the ingress node's lookup. If the GPT here names another node, the
    /// packet is forwarded there, once.
    #[cold]
    pub(super) fn send_again(&mut self, missed: MissedPacket<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let MissedPacket { packet, parsed, key, hash } = missed;
        let mut hint = [NodeHint::NONE];
        if let (LocationTable::Gpt(gpt), false) = (&mut self.directory, parsed.again) {
            gpt.lookup_batch(KeyBatch::new(&[key], &[hash]), &mut hint);
        }
        match self.size.resolve(hint[0]) {
            Some(node) if node != self.id => {
                out.count(Self::FORWARDED_AGAIN, 1);
                let mac = FabricMac { again: true, ..FabricMac::handling(node, parsed.output) };
                self.send_to(mac, packet, frame, out);
            }
            _ => self.punt(packet, parsed.output.opposite(), PuntReason::UnknownFlow(key), frame, out),
        }
    }

    fn punt(&self, packet: P, link: OutputPort, why: PuntReason, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(slot) = out.put(packet, frame) else { return };
        frame.column_mut(self.punted)[&slot] = PuntInfo { why, link };
        out.push(output::SLOW, slot);
    }

    /// The stage for packets of local flows that another element handles.
    const fn to_slots(&self) -> ToSlots {
        ToSlots { parsed: self.parsed, keyed: self.keyed, found: self.found }
    }

    /// Takes a packet with a known key out of its slot.
    fn missed(&self, slot: Slot, frame: &mut Frame<P>) -> MissedPacket<P> {
        let parsed = frame.column(self.parsed)[&slot];
        let HashedKey { key, hash } = frame.column(self.keyed)[&slot];
        MissedPacket { packet: frame.take(slot), parsed, key, hash }
    }
}

/// Whether a frame on an outside port is for this node.
fn check_address(frame: &[u8], own: MacAddr) -> Result<(), DropReason> {
    match ethernet::destination(frame) {
        Some(mac) if mac == own => Ok(()),
        Some(mac) if FabricMac::is_marked(mac) => Err(DropReason::EncodedMacOutside),
        // Other checks decide the reason: ARP counts as "non_ip" before it counts as broadcast.
        Some(mac) if mac.is_multicast() => Ok(()),
        Some(_) => Err(DropReason::OtherMac),
        None => Err(DropReason::Truncated),
    }
}

impl<P: PacketBuf + 'static> Control for Steer<P> {}

impl<P: PacketBuf + 'static> Element<P> for Steer<P> {
    fn push(&mut self, from: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut here = self.to_slots();
        for slot in batch.drain() {
            let missed = self.missed(slot, frame);
            if from == input::MISSED {
                self.send_again(missed, frame, out);
                continue;
            }
            let MissedPacket { packet, parsed, key, hash } = missed;
            self.waiting.push(BatchEntry { packet, parsed: &parsed, key: &key, hash });
            if self.waiting.is_full() {
                self.ask(false, &mut here, frame, out);
            }
        }
        self.ask(false, &mut here, frame, out);
        self.finish(frame);
    }

    fn burst(&mut self, input: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut here = self.to_slots();
        self.take(input, bursts, &mut here, frame, out);
    }
}
