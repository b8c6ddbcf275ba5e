//! Turns what the flow tracker finds into parts of streams, in order.

use super::segment::{Head, Way};
use crate::columns::StreamPart;
use scalebricks_flows::reassembly::{self, Chunk, Gap, Overlap};
use scalebricks_flows::tcp::{self, Connection, Segment};
use scalebricks_flows::tracker::{EndCause, Ended, Family, Sink, State, Tables, Tracker, Untracked};
use scalebricks_flows::{Direction, Tracked};
use scalebricks_graph::Meta;
use scalebricks_tables::dhash::{Column, Record, StartedRecords};
use scalebricks_types::FiveTuple;
use scalebricks_wire::IpPacket;
use scalebricks_wire::transport::TcpFlags;
use std::ops::Range;

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Both directions of a connection.
type Ways = [Way; 2];

/// Where the directions of all flows are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WayColumns {
    v4: Column<Ways>,
    v6: Column<Ways>,
}

impl WayColumns {
    pub(crate) fn reserve(tables: &mut Tables) -> Self {
        Self { v4: tables.v4.reserve(), v6: tables.v6.reserve() }
    }

    fn of<'a>(&self, tracker: &'a mut Tracker, tracked: &Tracked) -> &'a mut Ways {
        match tracked.family {
            Family::V4 => &mut tracker.table_v4().column_mut(self.v4)[tracked.record],
            Family::V6 => &mut tracker.table_v6().column_mut(self.v6)[tracked.record],
        }
    }
}

/// What a part of a stream is sent as.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The packet of the batch with this number, unchanged.
    Packet(usize),
    /// A new segment with bytes of [`Output::bytes`], perhaps none.
    Made(Box<Head>, Range<usize>),
}

/// A part of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) tracked: Tracked,
    pub(crate) place: StreamPart,
    pub(crate) source: Source,
}

/// The parts that are due, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) parts: Vec<Part>,
    /// The bytes of parts that need new segments.
    pub(crate) bytes: Vec<u8>,
    /// What came of the packet at hand.
    chunks: Vec<Found>,
}

impl Output {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.bytes.clear();
        // After a stream with a large hole.
        self.bytes.shrink_to(1 << 20);
    }
}

/// Data that is due.
#[derive(Debug)]
struct Found {
    direction: Direction,
    offset: u64,
    gap: Option<Gap>,
    /// Bytes of [`Output::bytes`], or the whole payload of the packet at hand.
    bytes: Option<Range<usize>>,
}

/// The accepted segment at hand.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    flags: TcpFlags,
    /// Where its data is: never read, only compared.
    address: usize,
    len: usize,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is a part of its stream.
    Part,
    /// Its new bytes were copied: they wait, or are in other parts.
    Copied,
    /// All its bytes have come before.
    Repeated,
    /// It has no bytes of a stream.
    NoBytes,
    /// It is in no flow.
    Untracked(Untracked),
}

/// Receives what the tracker finds.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    columns: WayColumns,
    output: &'a mut Output,
    accepted: Option<Accepted>,
    /// The packet was completed from fragments, so the packet of the batch is only one of them.
    is_whole: bool,
    gap: Option<(Direction, Gap)>,
    leaving: Option<(Record, Ways)>,
    /// Bytes that came before, until the packet at hand.
    repeated: u64,
}

/// The connection whose parts are made.
struct Of<'a> {
    tracked: Tracked,
    tuple: FiveTuple,
    streams: &'a [reassembly::Stream; 2],
    connection: &'a Connection,
}

impl Of<'_> {
    fn tracked(&self, direction: Direction) -> Tracked {
        Tracked { direction, ..self.tracked }
    }

    /// The headers of a segment at an offset.
    fn head(&self, way: &Way, direction: Direction, offset: u64, flags: TcpFlags) -> Head {
        let tuple = if direction == Direction::Forward { self.tuple } else { self.tuple.reversed() };
        let stream = &self.streams[direction.index()];
        let first = self.connection.first_sequence(direction).unwrap_or(0);
        let sequence = if stream.is_started() { stream.sequence_at(offset) } else { first };
        let acknowledgment = self.connection.acknowledged(direction.reversed());
        Head { tuple, way: *way, sequence, acknowledgment, flags }
    }

    /// Whether a stream has reached its FIN.
    fn is_at_fin(&self, direction: Direction) -> bool {
        let Some(fin) = self.connection.fin_sequence(direction) else { return false };
        let next = self.streams[direction.index()].next_sequence();
        next.or_else(|| self.connection.first_sequence(direction)) == Some(fin)
    }
}

fn repeated(tracker: &Tracker, overlap: Overlap) -> u64 {
    use reassembly::Event::{Conflicting, FarAhead, Overlapped, Repeated};
    let Some(streams) = tracker.reassembler() else { return 0 };
    let events = streams.events();
    let conflicting = if overlap == Overlap::FirstWins { events.get(Conflicting) } else { 0 };
    events.get(Repeated) + events.get(Overlapped) + events.get(FarAhead) + conflicting
}

impl<'a> Collector<'a> {
    pub(crate) fn new(columns: WayColumns, output: &'a mut Output) -> Self {
        Self { columns, output, accepted: None, is_whole: false, gap: None, leaving: None, repeated: 0 }
    }

    /// Before a batch.
    pub(crate) fn begin(mut self, tracker: &Tracker, overlap: Overlap) -> Self {
        self.repeated = repeated(tracker, overlap);
        self
    }

    /// What becomes of the packet that was tracked, which has number `at` in the batch. `link` is its header before IP.
    pub(crate) fn settle(
        &mut self,
        tracker: &mut Tracker,
        (at, link, meta): (usize, &[u8], Meta),
        tracked: Result<Tracked, Untracked>,
        overlap: Overlap,
    ) -> Fate {
        let (accepted, is_whole) = (self.accepted.take(), std::mem::take(&mut self.is_whole));
        let tracked = match tracked {
            Ok(tracked) => tracked,
            Err(untracked) => return Fate::Untracked(untracked),
        };
        let Some(accepted) = accepted else { return Fate::NoBytes };
        let Some(tuple) = tracker.tuple(&tracked) else { return Fate::NoBytes }; // not reached: it is new
        let before = *self.columns.of(tracker, &tracked);
        let mut ways = before;
        ways[tracked.direction.index()].note(link, meta);
        let of = Of {
            tracked,
            tuple,
            streams: tracker.streams(&tracked),
            connection: tracker.connection(&tracked),
        };
        let is_passed = self.parts(&of, &mut ways, (at, &accepted, is_whole));
        *self.columns.of(tracker, &tracked) = ways;
        let counted = repeated(tracker, overlap);
        let came_before = counted - std::mem::replace(&mut self.repeated, counted);
        match accepted.len {
            _ if is_passed => Fate::Part,
            0 => Fate::NoBytes,
            len if came_before >= len as u64 => Fate::Repeated,
            _ => Fate::Copied,
        }
    }

    /// The parts that are due because of a packet. Returns whether the packet is one of them.
    fn parts(
        &mut self,
        of: &Of<'_>,
        ways: &mut Ways,
        (at, accepted, is_whole): (usize, &Accepted, bool),
    ) -> bool {
        let own = of.tracked.direction;
        let has = |flags| accepted.flags.contains(flags);
        let mut is_passed = false;
        // The packet itself, if it is as it should leave.
        let itself = |is_as_it_came: bool| (is_as_it_came && !is_whole).then_some(Source::Packet(at));
        // A SYN whose data leaves with it is its stream's first part; otherwise the SYN leaves before its data.
        let has_own_data = self.output.chunks.first().is_some_and(|found| found.bytes.is_none());
        if has(TcpFlags::SYN) && !has_own_data && !ways[own.index()].has_begun {
            is_passed |= self.mark(of, ways, own, (itself(accepted.len == 0), TcpFlags::SYN), None);
        }
        is_passed |= self.data(of, ways, at);
        if has(TcpFlags::RST) {
            if of.tracked.state == State::Tcp(tcp::State::Reset) {
                let end = Some(EndCause::Reset);
                if !ways[own.index()].has_ended {
                    let source = itself(accepted.len == 0);
                    is_passed |= self.mark(of, ways, own, (source, TcpFlags::RST), end);
                }
                let peer = ways[own.reversed().index()];
                if peer.has_begun && !peer.has_ended {
                    self.mark(of, ways, own.reversed(), (None, TcpFlags(0)), end);
                }
            }
            return is_passed;
        }
        for direction in [own, own.reversed()] {
            if ways[direction.index()].has_ended || !of.is_at_fin(direction) {
                continue;
            }
            let end = Some(EndCause::Closed);
            let is_own = direction == own && has(TcpFlags::FIN);
            match self.output.parts.last_mut() {
                Some(Part { source: Source::Packet(last), place, .. }) if is_own && *last == at => {
                    place.end = end;
                    ways[direction.index()].has_ended = true;
                }
                _ => {
                    let source = itself(is_own && accepted.len == 0);
                    is_passed |= self.mark(of, ways, direction, (source, TcpFlags::FIN), end);
                }
            }
        }
        is_passed
    }

    /// The data that is due. Returns whether the packet with number `at` is a part of it.
    fn data(&mut self, of: &Of<'_>, ways: &mut Ways, at: usize) -> bool {
        let mut is_passed = false;
        for Found { direction, offset, gap, bytes } in self.output.chunks.drain(..) {
            let way = &mut ways[direction.index()];
            let is_first = !std::mem::replace(&mut way.has_begun, true);
            let place = StreamPart { offset, gap, is_first, end: None };
            let source = match bytes {
                None => Source::Packet(at),
                Some(bytes) => Source::Made(Box::new(of.head(way, direction, offset, TcpFlags::PSH)), bytes),
            };
            is_passed |= matches!(source, Source::Packet(_));
            self.output.parts.push(Part { tracked: of.tracked(direction), place, source });
        }
        is_passed
    }

    /// A part without data: the packet itself, or a new segment with these flags. Returns whether it is the packet.
    fn mark(
        &mut self,
        of: &Of<'_>,
        ways: &mut Ways,
        direction: Direction,
        (source, flags): (Option<Source>, TcpFlags),
        end: Option<EndCause>,
    ) -> bool {
        let way = &mut ways[direction.index()];
        let is_syn = flags.contains(TcpFlags::SYN);
        let offset = if is_syn { 0 } else { of.streams[direction.index()].offset() };
        let is_first = !std::mem::replace(&mut way.has_begun, true);
        way.has_ended |= end.is_some();
        let place = StreamPart { offset, gap: None, is_first, end };
        let is_packet = source.is_some();
        let source = source.unwrap_or_else(|| {
            let mut head = of.head(way, direction, offset, flags);
            if is_syn {
                head.sequence = head.sequence.wrapping_sub(1);
            }
            Source::Made(Box::new(head), 0..0)
        });
        self.output.parts.push(Part { tracked: of.tracked(direction), place, source });
        is_packet
    }
}

impl Sink for Collector<'_> {
    fn segment(&mut self, _: u64, _: Direction, segment: &Segment, payload: &[u8]) {
        self.accepted =
            Some(Accepted { flags: segment.flags, address: payload.as_ptr().addr(), len: payload.len() });
    }

    fn chunk(&mut self, _: u64, direction: Direction, chunk: Chunk<'_>) {
        let (offset, bytes) = match chunk {
            Chunk::Data { offset, bytes } => (offset, bytes),
            Chunk::Gap(gap) => {
                self.gap = Some((direction, gap));
                return;
            }
        };
        let gap = self.gap.take().filter(|(of, _)| *of == direction).map(|(_, gap)| gap);
        let is_own = self.accepted.is_some_and(|accepted| {
            !self.is_whole
                && !accepted.flags.contains(TcpFlags::RST)
                && (accepted.address, accepted.len) == (bytes.as_ptr().addr(), bytes.len())
        });
        let Output { bytes: all, chunks, .. } = &mut *self.output;
        if is_own {
            return chunks.push(Found { direction, offset, gap, bytes: None });
        }
        let start = all.len();
        all.extend_from_slice(bytes);
        if let Some(last) = chunks.last_mut()
            && let Some(range) = &mut last.bytes
            && gap.is_none()
            && last.direction == direction
            && last.offset + range.len() as u64 == offset
        {
            range.end = all.len();
        } else {
            chunks.push(Found { direction, offset, gap, bytes: Some(start..all.len()) });
        }
    }

    fn completed(&mut self, _: &IpPacket<'_>) {
        self.is_whole = true;
    }

    fn released(&mut self, tuple: FiveTuple, record: Record, records: &StartedRecords) {
        let column = if tuple.src.is_ipv4() { self.columns.v4 } else { self.columns.v6 };
        self.leaving = Some((record, records.column(column)[record]));
    }

    fn ended(&mut self, ended: &Ended<'_>) {
        let Some((record, mut ways)) = self.leaving.take() else { return };
        let (Some(streams), Some(connection)) = (ended.streams, ended.connection) else { return };
        let family = if ended.tuple.src.is_ipv4() { Family::V4 } else { Family::V6 };
        let tracked = Tracked {
            family,
            record,
            serial: ended.flow.serial,
            direction: Direction::Forward,
            state: ended.state,
            is_new: false,
            is_related: false,
        };
        let of = Of { tracked, tuple: ended.tuple, streams, connection };
        self.data(&of, &mut ways, usize::MAX);
        for direction in BOTH {
            let way = ways[direction.index()];
            if way.has_begun && !way.has_ended {
                self.mark(&of, &mut ways, direction, (None, TcpFlags(0)), Some(ended.cause));
            }
        }
    }
}
