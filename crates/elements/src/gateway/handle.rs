//! `Handle`.

use super::batch::{BatchEntry, LANES, WaitingBatch};
use super::columns::{FibHit, HashedKey, PuntInfo};
use super::drop_ids::DropIds;
use super::handling_stage::HandlingStage;
use super::permit::Permit;
use super::steer::MissedPacket;
use crate::gateway::config::NodeConfig;
use crate::gateway::fabric::mac::{FabricMac, OutputPort};
use crate::gateway::flow::{FlowCounters, FlowState};
use crate::gateway::local::FrameKind;
use crate::gateway::outside::adjacency::NextHop;
use crate::gateway::packet::classify::{Classifier, Parsed};
use crate::gateway::packet::oversize::cut;
use crate::gateway::packet::tunnels::{TunnelOutcome, Tunnels, prefetch_headers, prefetch_tunnel};
use crate::gateway::punt::PuntReason;
use crate::gateway::reason::DropReason;
use scalebricks_graph::{Bursts, Chunk, Control, Element, Frame, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_tables::{Fib, FibValue};
use scalebricks_types::{FlowKey, Teid};
use scalebricks_wire::ethernet;
use std::sync::Arc;

type Column<C> = scalebricks_graph::Handle<C>;

element! {
    /// Looks up each packet's flow in the FIB, then encapsulates or decapsulates the packet, or hands it to the elements of
    /// an appliance.
    pub struct Handle<P> as "Handle" {
        fib: Arc<dyn Fib>, pub(super) classifier: Classifier, pub(super) tunnels: Tunnels, own: [u64; 2],
        pub(super) permit: Permit, waiting: WaitingBatch<P>, lines: [Bursts<P>; 2], pub(super) missed: Vec<MissedPacket<P>>, drops: DropIds, pub(super) place: FusedPosition, hands_over: bool,
        parsed: Column<Parsed>, keyed: Column<HashedKey>, found: Column<FibHit>, punted: Column<PuntInfo>,
    }
    inputs {
        burst "fabric" [Optional]: "Frames from the fabric. Those that are not simply to be handled here leave by `other`.",
        burst "judged" [Optional]: "Frames that an ingress node has already checked, whatever their address.",
        push "keyed" [Optional]: "Packets whose key is known.",
        push "found" [Optional]: "Packets with the FIB's value for their flow.",
    }
    outputs {
        burst "internet": "Decapsulated packets, and the node's own answers, which are marked.",
        burst "base_station": "Encapsulated packets. All fragments of a packet but the first are marked.",
        push "missed" [Optional]: "Packets whose flow the FIB does not hold.",
        burst "other" [Optional]: "Frames from the fabric whose address is not one of the node's two handling addresses.",
        push "slow" [Optional]: "Packets whose next hop's MAC address is unknown, for the slow path.",
        push "from_inside" [Optional]: "For an appliance: IP packets from inside, behind 14 octets.",
        push "from_outside" [Optional]: "For an appliance: IP packets from outside, behind 14 octets.",
    }
    reads { Parsed on "keyed", HashedKey on "keyed", Parsed on "found", FibHit on "found", }
    writes { Parsed on "missed", HashedKey on "missed", PuntInfo on "missed", PuntInfo on "slow", }
    drops {
        TRUNCATED = DropReason::Truncated,
        NON_IP = DropReason::NonIp,
        MALFORMED_IP = DropReason::MalformedIp,
        BAD_CHECKSUM = DropReason::BadIpv4Checksum,
        FOR_THIS_NODE = DropReason::ForThisNode,
        LINK_LOCAL = DropReason::LinkLocal,
        MULTICAST = DropReason::Multicast,
        NO_FIRST = DropReason::FragmentWithoutFirst,
        NOT_FOR_GATEWAY = DropReason::NotForGateway,
        NO_PIN = DropReason::NoPin,
        NOT_GTPU = DropReason::NotGtpu,
        MALFORMED_GTPU = DropReason::MalformedGtpu,
        GTPU_SIGNALLING = DropReason::GtpuSignalling,
        EXTENSION = DropReason::UnsupportedExtension,
        GTPU_FRAGMENT = DropReason::GtpuFragment,
        MALFORMED_INNER = DropReason::MalformedInner,
        TOO_BIG = DropReason::FragmentationNeeded,
        TOO_LARGE = DropReason::TooLarge,
        NO_BUFFER = DropReason::NoBuffer,
        NO_ROUTE = DropReason::NoRoute,
        NO_LEASE = DropReason::NoLease,
    }
    counters {
        ICMP_SENT = "icmp_sent": "ICMP errors sent.",
        FRAGMENTED = "packets_fragmented": "Packets that were fragmented.",
        FRAGMENTS = "fragments_made": "Outer fragments sent instead of whole packets.",
    }
    binds { parsed, keyed, found, punted, }
}

/// Input numbers.
pub(super) mod input {
    pub(in super::super) const FABRIC: usize = 0;
    pub(in super::super) const KEYED: usize = 2;
}

// The first two outputs have the numbers of their ports.
const MISSED: usize = 2;
const OTHER: usize = 3;
const SLOW: usize = 4;
const FROM_INSIDE: usize = 5;
const FROM_OUTSIDE: usize = 6;

/// Placeholder for a key that is no longer needed.
const NO_KEY: FlowKey = FlowKey::teid(Teid::new(0));

/// The element's position if it is part of a fused element: its part number, and the number of its first output.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FusedPosition {
    pub(super) part: u8,
    pub(super) first_output: usize,
}

impl<P: PacketBuf> Handle<P> {
    /// Creates the element of a node.
    pub fn new(config: &NodeConfig, fib: Arc<dyn Fib>, counters: Arc<FlowCounters>) -> Self {
        Self {
            fib,
            classifier: Classifier::of(config),
            tunnels: Tunnels::new(config, counters),
            own: OutputPort::ALL.map(|port| FabricMac::handling(config.id, port).encode().bits()),
            permit: Permit::default(),
            waiting: WaitingBatch::default(),
            lines: [Bursts::default(), Bursts::default()],
            missed: Vec::new(),
            drops: DropIds::of(Self::SPEC),
            place: FusedPosition::default(),
            hands_over: config.appliance.is_some(),
            parsed: Column::default(),
            keyed: Column::default(),
            found: Column::default(),
            punted: Column::default(),
        }
    }

    /// Takes frames from the fabric and handles them.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        input: usize,
        bursts: &mut Bursts<P>,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        if input == input::FABRIC {
            bursts.each(|chunk| self.take_from_fabric(chunk, frame, out));
        } else {
            bursts.each(|chunk| {
                for packet in chunk.packets.drain(..) {
                    self.take_other(packet, frame, out);
                    if self.waiting.is_full() {
                        self.ask(frame, out);
                    }
                }
            });
        }
    }

    /// Looks up the waiting packets, and sends the finished ones.
    #[inline]
    pub(super) fn finish(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.ask(frame, out);
        for port in OutputPort::ALL {
            frame.bursts(self.place.first_output + port as usize).append(&mut self.lines[port as usize]);
        }
    }

    #[inline(always)]
    fn take_from_fabric(&mut self, chunk: &mut Chunk<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for packet in chunk.packets.drain(..) {
            let bytes = packet.data();
            let output = match ethernet::destination_bits(bytes) {
                Some(mac) if mac == self.own[1] => {
                    prefetch_headers(bytes);
                    OutputPort::BaseStation
                }
                Some(mac) if mac == self.own[0] => OutputPort::Internet,
                _ => {
                    frame.send(self.place.first_output + OTHER, packet);
                    continue;
                }
            };
            match self.classifier.plain_after_fabric(bytes, output) {
                Some((parsed, key)) => self.waiting.push_unhashed(packet, &parsed, &key),
                None => self.take_other(packet, frame, out),
            }
            if self.waiting.is_full() {
                self.ask(frame, out);
            }
        }
    }

    /// A frame from the fabric that is not plain, or needs more than handling.
    #[inline(never)]
    fn take_other(&mut self, packet: P, frame: &mut Frame<P>, out: &Out<'_>) {
        match self.classifier.any_after_fabric(packet.data(), out.now()) {
            Ok((parsed, key)) => self.waiting.push_unhashed(packet, &parsed, &key),
            Err(reason) => self.drop_packet(packet, reason, frame, out),
        }
    }

    /// Looks the waiting packets up in the FIB and processes each.
    #[inline]
    pub(super) fn ask(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        if !self.permit.forwards(out.now()) {
            let part = self.place.part;
            return self.waiting.clear(|packet| out.drop_packet_of(part, packet, Self::NO_LEASE, frame));
        }
        self.waiting.hash(self.classifier.hasher());
        let mut values = [None; LANES];
        self.fib.lookup_batch(self.waiting.keys(), &mut values);
        for value in values.iter().flatten() {
            self.tunnels.prefetch_counters(&FlowState::decode(*value));
        }
        let mut batch = self.waiting.take();
        batch.drain_with(&values, |work, value| match value {
            Some(value) => self.act(work, &FlowState::decode(value), frame, out),
            None => self.miss(work),
        });
        self.waiting.give_back(batch);
    }

    #[cold]
    fn miss(&mut self, work: BatchEntry<'_, P>) {
        let BatchEntry { packet, parsed, key, hash } = work;
        self.missed.push(MissedPacket { packet, parsed: *parsed, key: *key, hash });
    }

    /// Processes a packet whose flow was found.
    #[inline(always)]
    fn act(&mut self, work: BatchEntry<'_, P>, flow: &FlowState, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if self.hands_over {
            return self.hand_over(work, flow, frame, out);
        }
        let BatchEntry { mut packet, parsed, hash, .. } = work;
        match parsed.output {
            OutputPort::BaseStation => match self.tunnels.encapsulate(&mut packet, parsed, hash, flow) {
                TunnelOutcome::Leaves => self.lines[OutputPort::BaseStation as usize].push(packet),
                fate => self.end_otherwise(packet, parsed, fate, frame, out),
            },
            OutputPort::Internet => match self.tunnels.decapsulate(&mut packet, parsed, hash, flow) {
                TunnelOutcome::Leaves => self.lines[OutputPort::Internet as usize].push(packet),
                fate => self.end_otherwise(packet, parsed, fate, frame, out),
            },
        }
    }

    /// Gives a packet whose pin was found to the appliance.
    #[inline(never)]
    fn hand_over(&self, work: BatchEntry<'_, P>, flow: &FlowState, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let BatchEntry { mut packet, parsed, .. } = work;
        if let Err(reason) = self.tunnels.cut_to_user(&mut packet, parsed, flow) {
            return self.drop_packet(packet, reason, frame, out);
        }
        let Some(slot) = out.put(packet, frame) else { return };
        let output = match parsed.output {
            OutputPort::Internet => FROM_INSIDE,
            OutputPort::BaseStation => FROM_OUTSIDE,
        };
        out.push(self.place.first_output + output, slot);
    }

    /// Packets that need more than being sent.
    #[inline(never)]
    fn end_otherwise(
        &mut self,
        packet: P,
        parsed: &Parsed,
        fate: TunnelOutcome,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        match fate {
            TunnelOutcome::Leaves => self.lines[parsed.output as usize].push(packet),
            TunnelOutcome::InPieces(next_hop) => self.send_fragmented(packet, next_hop, frame, out),
            TunnelOutcome::Unresolved(next_hop) => {
                let why = PuntReason::Unresolved { next_hop, kind: FrameKind::Packet };
                self.punt(packet, parsed.output, why, frame, out);
            }
            TunnelOutcome::TooBig(mtu) => self.refuse_too_big(packet, parsed, mtu, frame, out),
            TunnelOutcome::Dropped(reason) => self.drop_packet(packet, reason, frame, out),
        }
    }

    /// Sends an encapsulated packet as fragments of its outer IPv4 packet: all fragments, or none.
    fn send_fragmented(&mut self, packet: P, next_hop: NextHop, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mtu = usize::from(self.tunnels.policy.base_station_mtu);
        let Some(pieces) = cut(&packet, mtu, || frame.alloc()) else {
            return self.drop_packet(packet, DropReason::NoBuffer, frame, out);
        };
        out.count_of(self.place.part, Self::FRAGMENTED, 1);
        out.count_of(self.place.part, Self::FRAGMENTS, pieces.len() as u64);
        let kinds = std::iter::once(FrameKind::Packet).chain(std::iter::repeat(FrameKind::Other));
        for (piece, kind) in pieces.into_iter().zip(kinds) {
            self.send_via(OutputPort::BaseStation, piece, next_hop, kind, frame, out);
        }
    }

    /// Drops a packet and reports the largest size that fits to its sender (RFC 1191 §4, RFC 4443 §3.2).
    fn refuse_too_big(
        &mut self,
        packet: P,
        parsed: &Parsed,
        mtu: u16,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let answer = self.tunnels.too_big_answer(&packet, parsed, mtu, || frame.alloc());
        if let Some((answer, next_hop)) = answer {
            out.count_of(self.place.part, Self::ICMP_SENT, 1);
            self.send_via(OutputPort::Internet, answer, next_hop, FrameKind::Other, frame, out);
        }
        self.drop_packet(packet, DropReason::FragmentationNeeded, frame, out);
    }

    /// Sends a frame to its next hop. Its Ethernet header already holds [`NextHop::mac`].
    fn send_via(
        &mut self,
        port: OutputPort,
        packet: P,
        next_hop: NextHop,
        kind: FrameKind,
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let bursts = &mut self.lines[port as usize];
        match (next_hop, kind) {
            (NextHop::Via(_), FrameKind::Packet) => bursts.push(packet),
            (NextHop::Via(_), FrameKind::Other) => bursts.push_marked(packet),
            (NextHop::Ask(next_hop), kind) => {
                self.punt(packet, port, PuntReason::Unresolved { next_hop, kind }, frame, out);
            }
            (NextHop::NoRoute, _) => self.drop_packet(packet, DropReason::NoRoute, frame, out),
        }
    }

    fn drop_packet(&self, packet: P, reason: DropReason, frame: &mut Frame<P>, out: &Out<'_>) {
        out.drop_packet_of(self.place.part, packet, self.drops.id(reason), frame);
    }

    fn punt(&self, packet: P, link: OutputPort, why: PuntReason, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let Some(slot) = out.put(packet, frame) else { return };
        frame.column_mut(self.punted)[&slot] = PuntInfo { why, link };
        out.push(self.place.first_output + SLOW, slot);
    }

    /// Sends packets that the FIB does not hold to output `missed`.
    #[cold]
    pub(super) fn send_missed(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        for MissedPacket { packet, parsed, key, hash } in self.missed.drain(..) {
            let Some(slot) = out.put(packet, frame) else { continue };
            frame.column_mut(self.parsed)[&slot] = parsed;
            frame.column_mut(self.keyed)[&slot] = HashedKey { key, hash };
            let punted = PuntInfo { why: PuntReason::UnknownFlow(key), link: parsed.output.opposite() };
            frame.column_mut(self.punted)[&slot] = punted;
            out.push(self.place.first_output + MISSED, slot);
        }
    }
}

impl<P: PacketBuf> HandlingStage<P> for Handle<P> {
    #[inline(always)]
    fn expect(&self, packet: &P, parsed: &Parsed, flow: &FlowState) {
        self.tunnels.prefetch_counters(flow);
        prefetch_tunnel(packet, parsed);
    }

    #[inline(always)]
    fn here(&mut self, work: BatchEntry<'_, P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        prefetch_tunnel(&work.packet, work.parsed);
        self.waiting.push(work);
        if self.waiting.is_full() {
            self.ask(frame, out);
        }
    }

    #[inline(always)]
    fn found(&mut self, work: BatchEntry<'_, P>, value: FibValue, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.act(work, &FlowState::decode(value), frame, out);
    }
}

impl<P: PacketBuf + 'static> Control for Handle<P> {}

impl<P: PacketBuf + 'static> Element<P> for Handle<P> {
    fn push(&mut self, from: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        if from != input::KEYED {
            for slot in batch.iter() {
                prefetch_tunnel(frame.packet(slot), &frame.column(self.parsed)[slot]);
                self.tunnels.prefetch_counters(&FlowState::decode(frame.column(self.found)[slot].value));
            }
        }
        for slot in batch.drain() {
            let parsed = frame.column(self.parsed)[&slot];
            if from == input::KEYED {
                let HashedKey { key, hash } = frame.column(self.keyed)[&slot];
                let packet = frame.take(slot);
                self.here(BatchEntry { packet, parsed: &parsed, key: &key, hash }, frame, out);
            } else {
                let FibHit { value, hash } = frame.column(self.found)[&slot];
                let work = BatchEntry { packet: frame.take(slot), parsed: &parsed, key: &NO_KEY, hash };
                self.found(work, value, frame, out);
            }
        }
        self.finish(frame, out);
        self.send_missed(frame, out);
    }

    fn burst(&mut self, input: usize, bursts: &mut Bursts<P>, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.take(input, bursts, frame, out);
        self.finish(frame, out);
        if !self.missed.is_empty() {
            self.send_missed(frame, out);
        }
    }
}
