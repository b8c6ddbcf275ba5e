//! `TCPStream`.

use super::flow_tracker::counts;
use crate::columns::{FlowRecord, StreamPart};
use crate::shared_names::drops;
use crate::side_output::SideOutput;
use crate::streams::{
    Collector, Fate, MOST_LINK, Outbox, Output, Part, Source, Unsent, WayColumns, after, make,
};
use arrayvec::ArrayVec;
use scalebricks_flows::reassembly::{self, Overlap};
use scalebricks_flows::tcp::{self, Vantage};
use scalebricks_flows::tracker::{Config, Packet, Tables, Tracker, Untracked};
use scalebricks_flows::{Tracked, fragments};
use scalebricks_graph::args::Param;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::{
    Class, Control, DropId, Element, Frame, Handle, HandlerId, Meta, Out, SLOTS, Slot, SlotList, element,
};
use scalebricks_io::PacketBuf;
use scalebricks_types::HashSeed;
use std::any::Any;
use std::hash::{BuildHasher, RandomState};

/// Records that are looked at for expiry per packet.
const SWEEP: usize = 4;
/// The same per turn, so that streams also end without packets.
const IDLE_SWEEP: usize = 32;

element! {
    /// Puts the bytes of TCP streams in order. Output 0 has each byte of each direction of each connection once, as segments
    /// in stream order, whatever came early, late, twice, overlapping or in fragments. A segment in order leaves unchanged;
    /// other bytes leave in new segments, with the flow's addresses, ports and sequence numbers and the header that the
    /// direction's first packet had before IP. A stream's first packet is its SYN, or its first data if it is picked up;
    /// behind its last byte comes its FIN, the reset, or a segment without data when its flow ends otherwise. The column
    /// `place in a stream` has the offset of the data, the gap before it, and start and end. A gap is also a jump of the
    /// sequence number. Where segments overlap, bytes that have left never change; of bytes that wait, OVERLAP decides.
    ///
    /// Output 0 is for elements that read streams, not for the connection's peer: retransmissions of what has left do not
    /// leave again. Give it a copy of the packets with Tee.
    ///
    /// The element contains the flow tracker, whose annotation it sets: connections begin, end and are judged as in
    /// FlowTracker, with one lookup per packet. One per worker: both directions of a flow must come to the same one. A new
    /// configuration goes on with the flows and their limits.
    pub struct TCPStream<P> as "TCPStream" {
        tracker: Tracker, columns: WayColumns, overlap: Overlap, most: u64, output: Output, outbox: Outbox<P>, offset: usize,
        flow: Handle<FlowRecord>, part: Handle<StreamPart>, side: SideOutput,
    }
    inputs { push "in": "Packets with an IP header.", }
    outputs {
        push "stream": "Segments in stream order.",
        push "other" [Optional]: "Packets without new bytes of a stream, unchanged: acknowledgments, repetitions, other protocols, packets of no flow; dropped by name if unconnected.",
    }
    fresh { "stream", }
    params TCPStreamParams {
        /// Offset of the IP header, at most 22.
        offset: u16 = 0,
        /// Most flows of each IP version.
        flows: u32 = 65_536,
        /// Most half-open and unanswered flows of each IP version.
        young: u32 = 8_192,
        /// Whether to take streams up whose handshake was not seen.
        pickup: bool = false,
        /// Whether packets may be missing, as in a capture: then acknowledgments of unseen data are believed, and what they
        /// skip is a gap.
        capture: bool = false,
        /// Whether to refuse packets with wrong checksums.
        checksums: bool = true,
        /// Which bytes count where segments overlap that wait: `first` or `last`.
        overlap: Policy = Policy(Overlap::FirstWins),
        /// Most bytes that wait in a stream, with 64 for each piece. A stream that needs more gives up its first hole.
        stream_memory: u32 = 1_048_576,
        /// Most pieces that wait in a stream.
        stream_pieces: u16 = 1_024,
        /// Most bytes that wait in all streams. As many again may wait for room to leave.
        memory: u64 = 67_108_864,
    }
    example { "14", "FLOWS 1000", }
    writes { FlowRecord on "stream", StreamPart on "stream", }
    drops {
        MALFORMED_IP = drops::MALFORMED_IP,
        IP_CHECKSUM = drops::IP_CHECKSUM,
        FRAGMENT_HELD = drops::FRAGMENT_HELD,
        FRAGMENT_REFUSED = drops::FRAGMENT_REFUSED,
        MALFORMED_TRANSPORT = drops::MALFORMED_TRANSPORT,
        TRANSPORT_CHECKSUM = drops::TRANSPORT_CHECKSUM,
        SEGMENT = drops::SEGMENT_REFUSED,
        UNRELATED = drops::UNRELATED_ERROR,
        FULL = drops::FLOWS_FULL,
        NO_BYTES = "no_stream_bytes": "The packet has no bytes of a stream: an acknowledgment, or another protocol.",
        REPEATED = "repeated_segment": "All bytes of the segment have come before.",
        OUTPUT_FULL = "stream_output_full": "A part of a stream found no room to wait until it could leave: its bytes are missing at output 0.",
        SMALL_BUFFER = "segment_too_long": "A buffer cannot hold the headers of a new segment and a byte.",
    }
    counters {
        BEGAN = "flows_began": "Flows that began.",
        BEGUN = "streams_began": "Streams that began.",
        ENDED = "streams_ended": "Streams that ended.",
        GAPS = "gaps": "Gaps in streams.",
        COPIED = "segments_copied" [Ended]: "Segments whose new bytes were copied, because they were early or not in order: they leave in new segments.",
        MADE = "segments_made" [Made]: "New segments.",
    }
    handlers {
        read FLOWS = "flows": "Flows now.",
        read YOUNG = "young": "Half-open and unanswered flows now.",
        read WAITING = "waiting_bytes": "Bytes that wait in all streams now, as MEMORY counts them.",
        read LEAVING = "leaving_bytes": "Bytes that wait for room to leave, with 256 for each segment.",
        read COUNTS = "counts": "Counters of untracked packets, ended flows, unusual segments, streams and gaps that are not zero, one per line.",
        write FINISH = "finish": "Ends all flows: what waits leaves, with gaps. The value is ignored. Written when a run's captures end.",
    }
    hooks { End, }
    binds { flow, part, side, }
}

/// A policy for overlapping segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy(Overlap);

impl Param for Policy {
    const KIND: &'static str = "first or last";

    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "first" => Some(Self(Overlap::FirstWins)),
            "last" => Some(Self(Overlap::LastWins)),
            _ => None,
        }
    }
}

impl<P: PacketBuf> Class for TCPStream<P> {
    fn make(params: TCPStreamParams) -> Result<Self, String> {
        if params.flows == 0 || params.young == 0 {
            return Err("FLOWS and YOUNG must be at least 1".to_owned());
        }
        let offset = usize::from(params.offset);
        if offset > MOST_LINK {
            return Err(format!("OFFSET {offset} is over {MOST_LINK}"));
        }
        let vantage = if params.capture { Vantage::Capture } else { Vantage::InPath };
        let config = Config {
            tcp: tcp::Config { vantage, pick_up: params.pickup, ..tcp::Config::default() },
            fragments: fragments::Config::default(),
            reassembly: Some(reassembly::Config {
                overlap: params.overlap.0,
                stream_bytes: params.stream_memory,
                stream_pieces: params.stream_pieces,
                total_bytes: params.memory,
            }),
            verify_checksums: params.checksums,
            flows: params.flows,
            grows: false,
            young_flows: params.young,
            ..Config::default()
        };
        let mut tables = Tables::default();
        let columns = WayColumns::reserve(&mut tables);
        let random = |number: u8| RandomState::new().hash_one(number);
        let tracker = Tracker::new(&config, HashSeed::new(random(0), random(1)), tables)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            tracker,
            columns,
            overlap: params.overlap.0,
            most: params.memory.max(1 << 20),
            output: Output::default(),
            outbox: Outbox::default(),
            offset,
            flow: Handle::default(),
            part: Handle::default(),
            side: SideOutput::default(),
        })
    }
}

impl<P: PacketBuf + 'static> Control for TCPStream<P> {
    fn read(&self, handler: HandlerId) -> String {
        match handler {
            Self::FLOWS => self.tracker.flows().to_string(),
            Self::YOUNG => self.tracker.young_flows().to_string(),
            Self::WAITING => {
                self.tracker.reassembler().map_or(0, reassembly::Reassembler::waiting_bytes).to_string()
            }
            Self::LEAVING => self.outbox.bytes().to_string(),
            _ => counts(&self.tracker),
        }
    }

    fn write(&mut self, _: HandlerId, _: &str) -> Result<(), HandlerError> {
        self.tracker.finish(&mut Collector::new(self.columns, &mut self.output));
        Ok(())
    }

    fn take_over(&mut self, before: &mut dyn Any) {
        let Some(before) = before.downcast_mut::<Self>() else { return };
        std::mem::swap(&mut self.tracker, &mut before.tracker);
        std::mem::swap(&mut self.columns, &mut before.columns);
        std::mem::swap(&mut self.output, &mut before.output);
        std::mem::swap(&mut self.outbox, &mut before.outbox);
        self.overlap = before.overlap;
    }
}

impl<P: PacketBuf> TCPStream<P> {
    const fn reason(untracked: Untracked) -> DropId {
        match untracked {
            Untracked::MalformedIp => Self::MALFORMED_IP,
            Untracked::IpChecksum => Self::IP_CHECKSUM,
            Untracked::FragmentHeld => Self::FRAGMENT_HELD,
            Untracked::FragmentRefused => Self::FRAGMENT_REFUSED,
            Untracked::MalformedTransport => Self::MALFORMED_TRANSPORT,
            Untracked::TransportChecksum => Self::TRANSPORT_CHECKSUM,
            Untracked::Segment => Self::SEGMENT,
            Untracked::UnrelatedError => Self::UNRELATED,
            Untracked::TableFull | Untracked::NotAllowed => Self::FULL, // it allows all
        }
    }

    /// Tracks a batch; the parts that are due are in the output. Returns what becomes of each packet.
    fn track(&mut self, batch: &SlotList, frame: &Frame<P>, out: &Out<'_>) -> ArrayVec<Fate, SLOTS> {
        let (now, offset) = (out.now(), self.offset);
        let packets: ArrayVec<Packet<'_>, SLOTS> = batch
            .iter()
            .map(|slot| Packet {
                bytes: frame.packet(slot).data().get(offset..).unwrap_or_default(),
                zone: 0,
                now,
            })
            .collect();
        let mut fates = ArrayVec::new();
        let (slots, overlap) = (batch.as_slice(), self.overlap);
        let mut collector = Collector::new(self.columns, &mut self.output).begin(&self.tracker, overlap);
        self.tracker.track_batch(&packets, &mut collector, |tracker, at, tracked, collector| {
            out.count(Self::BEGAN, u64::from(tracked.is_ok_and(|tracked| tracked.is_new)));
            let (link, meta) = slots.get(at).map_or((&[][..], Meta::default()), |slot| {
                (frame.packet(slot).data().get(..offset).unwrap_or_default(), *frame.meta(slot))
            });
            fates.push(collector.settle(tracker, (at, link, meta), tracked, overlap));
        });
        self.tracker.sweep(now, SWEEP * packets.len(), &mut collector);
        fates
    }

    /// Sends a packet of a stream.
    fn publish(
        &self,
        slot: Slot,
        (tracked, place): (Tracked, StreamPart),
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        out.count(Self::BEGUN, u64::from(place.is_first));
        out.count(Self::ENDED, u64::from(place.end.is_some()));
        out.count(Self::GAPS, u64::from(place.gap.is_some()));
        frame.column_mut(self.flow)[&slot] = FlowRecord(Some(tracked));
        frame.column_mut(self.part)[&slot] = place;
        out.push(0, slot);
    }

    /// Sends a part, or what of it has no room now waits.
    fn send(
        &mut self,
        part: Part,
        slots: &mut [Option<Slot>],
        bytes: &[u8],
        frame: &mut Frame<P>,
        out: &mut Out<'_>,
    ) {
        let Part { tracked, mut place, source } = part;
        let has_room = self.outbox.is_empty();
        let (mut head, range) = match source {
            Source::Packet(at) => {
                let Some(slot) = slots.get_mut(at).and_then(Option::take) else { return };
                if has_room {
                    return self.publish(slot, (tracked, place), frame, out);
                }
                let meta = *frame.meta(&slot);
                let packet = frame.take(slot);
                if !self.outbox.keep((tracked, place), (packet, meta), self.most) {
                    out.count_drops(Self::OUTPUT_FULL, 1);
                }
                return;
            }
            Source::Made(head, range) => (head, range),
        };
        let mut bytes = bytes.get(range).unwrap_or_default();
        if has_room {
            loop {
                match make(&mut head, bytes, frame) {
                    Ok((slot, len)) => {
                        out.count(Self::MADE, 1);
                        self.publish(slot, (tracked, place), frame, out);
                        place = after(place, len);
                        bytes = bytes.get(len..).unwrap_or_default();
                        if bytes.is_empty() {
                            return;
                        }
                    }
                    Err(Unsent::NoRoom) => break,
                    Err(Unsent::SmallBuffer) => return Self::lose(Self::SMALL_BUFFER, out),
                }
            }
        }
        if !self.outbox.keep_bytes((tracked, place), head, bytes, self.most) {
            Self::lose(Self::OUTPUT_FULL, out);
        }
    }

    /// Counts a segment that could not be made.
    fn lose(reason: DropId, out: &Out<'_>) {
        out.count(Self::MADE, 1);
        out.count_drops(reason, 1);
    }

    /// Sends the parts that are due.
    fn flush(&mut self, slots: &mut [Option<Slot>], frame: &mut Frame<P>, out: &mut Out<'_>) {
        let mut output = std::mem::take(&mut self.output);
        for part in output.parts.drain(..) {
            self.send(part, slots, &output.bytes, frame, out);
        }
        output.clear();
        self.output = output;
    }
}

impl<P: PacketBuf + 'static> Element<P> for TCPStream<P> {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let fates = self.track(batch, frame, out);
        let mut slots: ArrayVec<Option<Slot>, SLOTS> = ArrayVec::new();
        for (slot, fate) in batch.drain().zip(fates) {
            let reason = match fate {
                Fate::Part => {
                    slots.push(Some(slot));
                    continue;
                }
                Fate::Copied => {
                    out.count(Self::COPIED, 1);
                    drop(frame.take(slot));
                    slots.push(None);
                    continue;
                }
                Fate::Repeated => Self::REPEATED,
                Fate::NoBytes => Self::NO_BYTES,
                Fate::Untracked(untracked) => Self::reason(untracked),
            };
            self.side.send(slot, reason, out);
            slots.push(None);
        }
        self.flush(&mut slots, frame, out);
    }

    fn end(&mut self, frame: &mut Frame<P>, out: &mut Out<'_>) {
        self.tracker.sweep(out.now(), IDLE_SWEEP, &mut Collector::new(self.columns, &mut self.output));
        while let Some(next) = self.outbox.next(frame) {
            match next {
                Ok((slot, tracked, place, is_made)) => {
                    out.count(Self::MADE, u64::from(is_made));
                    self.publish(slot, (tracked, place), frame, out);
                }
                Err(Unsent::NoRoom) => break,
                Err(Unsent::SmallBuffer) => Self::lose(Self::SMALL_BUFFER, out),
            }
        }
        self.flush(&mut [], frame, out);
    }

    fn held(&self) -> usize {
        self.outbox.packets()
    }

    fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.outbox.drain(to);
    }
}

#[cfg(test)]
#[path = "tcp_stream_tests.rs"]
mod tests;
