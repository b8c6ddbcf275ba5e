//! From packets to flows.

use super::Config;
use super::family::{Flows, Shared};
use super::key::{Key, tuple};
use super::outcome::{EndCause, Event, Sink, Tracked, Untracked};
use super::packet::Transport;
use super::record::Flow;
use crate::fragments::{Defragmented, Defragmenter};
use crate::named::Tally;
use crate::reassembly::{Reassembler, Stream};
use crate::tcp::{Anomaly, Connection, Segment, Verdict};
use scalebricks_tables::dhash::{ConfigError, DHash, Direction, Key4, Key6, Record, Records};
use scalebricks_types::{FiveTuple, HashSeed};
use scalebricks_wire::{IpPacket, ipv4_header_checksum_ok, parse_ip};
use std::time::Duration;

/// IP version of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Arrays that the caller reserves for its own values of each flow.
#[derive(Debug, Default)]
pub struct Tables {
    /// For IPv4 flows.
    pub v4: Records,
    /// For IPv6 flows.
    pub v6: Records,
}

/// Tracks flows. See the [module](super). One per core: a flow's packets of both directions must come to the same tracker.
#[derive(Debug)]
pub struct Tracker {
    defragmenter: Defragmenter,
    inner: Inner,
}

#[derive(Debug)]
struct Inner {
    v4: Flows<Key4>,
    v6: Flows<Key6>,
    shared: Shared,
    anomalies: Tally<Anomaly>,
    untracked: Tally<Untracked>,
}

impl Tracker {
    /// No flows. Take `secret` from the system's random generator where packets come from strangers.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no address space for so many flows.
    pub fn new(config: &Config, secret: HashSeed, tables: Tables) -> Result<Self, ConfigError> {
        Ok(Self {
            defragmenter: Defragmenter::new(config.fragments),
            inner: Inner {
                v4: Flows::new(config, secret, tables.v4)?,
                v6: Flows::new(config, secret, tables.v6)?,
                shared: Shared {
                    config: *config,
                    reassembler: config.reassembly.map(Reassembler::new),
                    events: Tally::default(),
                    ends: Tally::default(),
                    serial: 0,
                },
                anomalies: Tally::default(),
                untracked: Tally::default(),
            },
        })
    }

    /// Tracks the IP packet at the start of `bytes`; padding may follow it. `zone` keeps equal addresses of different
    /// networks apart. `sink` receives stream data that is due, and flows that end because of this packet.
    ///
    /// Cost: one lookup, and the record's cache lines: one for any flow, two more for TCP, and one per stream that carries
    /// data.
    ///
    /// # Errors
    /// [`Untracked`]: the packet belongs to no flow, or is not believed.
    pub fn track(
        &mut self,
        bytes: &[u8],
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let tracked = self.any(bytes, zone, now, sink);
        self.inner.shared.events.count(Event::Packets);
        match &tracked {
            Ok(_) => self.inner.shared.events.count(Event::Tracked),
            Err(untracked) => self.inner.untracked.count(*untracked),
        }
        tracked
    }

    fn any(
        &mut self,
        bytes: &[u8],
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let packet = parse_ip(bytes).map_err(|_| Untracked::MalformedIp)?;
        let verify = self.inner.shared.config.verify_checksums;
        if verify && packet.summary.is_ipv4() && !ipv4_header_checksum_ok(packet.bytes()) {
            return Err(Untracked::IpChecksum);
        }
        match self.defragmenter.add(packet.bytes(), &packet.summary, now) {
            Defragmented::NoFragment => self.inner.packet(&packet, zone, now, sink),
            Defragmented::Held => Err(Untracked::FragmentHeld),
            Defragmented::Refused(_) => Err(Untracked::FragmentRefused),
            Defragmented::Whole(bytes) => {
                let packet = parse_ip(bytes).map_err(|_| Untracked::MalformedIp)?;
                self.inner.packet(&packet, zone, now, sink)
            }
        }
    }

    /// Ends flows whose time is over, and forgets old fragments. Passes at most `budget` records of each IP version, where
    /// the last call stopped.
    pub fn sweep(&mut self, now: Duration, budget: usize, sink: &mut impl Sink) {
        let Inner { v4, v6, shared, .. } = &mut self.inner;
        v4.sweep(Some(now), budget, shared, sink);
        v6.sweep(Some(now), budget, shared, sink);
        self.defragmenter.expire(now);
    }

    /// Ends all flows, as the input has ended.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let Inner { v4, v6, shared, .. } = &mut self.inner;
        // The first round may be a partial one.
        while !v4.table.is_empty() {
            v4.sweep(None, usize::MAX, shared, sink);
        }
        while !v6.table.is_empty() {
            v6.sweep(None, usize::MAX, shared, sink);
        }
    }

    /// Flows now.
    pub fn flows(&self) -> usize {
        self.inner.v4.table.len() + self.inner.v6.table.len()
    }

    /// Young flows now: half-open connections, and flows without an answer.
    pub const fn young_flows(&self) -> usize {
        self.inner.v4.young + self.inner.v6.young
    }

    /// Counters of packets and flows.
    pub const fn events(&self) -> &Tally<Event> {
        &self.inner.shared.events
    }

    /// Packets that belong to no flow, by reason.
    pub const fn untracked(&self) -> &Tally<Untracked> {
        &self.inner.untracked
    }

    /// Ended flows by cause.
    pub const fn ends(&self) -> &Tally<EndCause> {
        &self.inner.shared.ends
    }

    /// Unusual segments.
    pub const fn anomalies(&self) -> &Tally<Anomaly> {
        &self.inner.anomalies
    }

    /// Fragments.
    pub const fn defragmenter(&self) -> &Defragmenter {
        &self.defragmenter
    }

    /// Streams, if they are reassembled.
    pub const fn reassembler(&self) -> Option<&Reassembler> {
        self.inner.shared.reassembler.as_ref()
    }

    /// The record of a flow.
    pub fn flow(&self, tracked: &Tracked) -> &Flow {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => v4.flow(tracked.record),
            Family::V6 => v6.flow(tracked.record),
        }
    }

    /// The connection of a TCP flow; a default one of other flows.
    pub fn connection(&self, tracked: &Tracked) -> &Connection {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => &v4.table.column(v4.columns.connection)[tracked.record],
            Family::V6 => &v6.table.column(v6.columns.connection)[tracked.record],
        }
    }

    /// The table of IPv4 flows, for the caller's arrays.
    pub const fn table_v4(&mut self) -> &mut DHash<Key4> {
        &mut self.inner.v4.table
    }

    /// The table of IPv6 flows, for the caller's arrays.
    pub const fn table_v6(&mut self) -> &mut DHash<Key6> {
        &mut self.inner.v6.table
    }
}

/// A packet whose headers are right.
struct Arrival<'a> {
    transport: Transport<'a>,
    l4: &'a [u8],
    bytes: usize,
    now: Duration,
    family: Family,
}

impl Inner {
    fn packet(
        &mut self,
        packet: &IpPacket<'_>,
        zone: u16,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<Tracked, Untracked> {
        let ip = &packet.summary;
        let transport = Transport::parse(ip, packet.l4(), self.shared.config.verify_checksums)?;
        if let Some(quoted) = packet.quoted() {
            // The quoted packet went the other way; it may be cut, but has ports.
            let quoted = quoted.map_err(|_| Untracked::MalformedTransport)?;
            return self.related(&quoted.five_tuple(), zone);
        }
        let tuple = tuple(ip, packet.l4());
        let family = if ip.is_ipv4() { Family::V4 } else { Family::V6 };
        let arrival = Arrival { transport, l4: packet.l4(), bytes: packet.bytes().len(), now, family };
        let Self { v4, v6, shared, anomalies, .. } = self;
        match family {
            Family::V4 => take(v4, &tuple, zone, &arrival, shared, anomalies, sink),
            Family::V6 => take(v6, &tuple, zone, &arrival, shared, anomalies, sink),
        }
    }

    /// An ICMP error about a packet with this tuple.
    fn related(&mut self, quoted: &FiveTuple, zone: u16) -> Result<Tracked, Untracked> {
        let found = match Key4::of(quoted, zone) {
            Some(key) => self.v4.table.find(&key).map(|found| (Family::V4, found)),
            None => Key6::of(quoted, zone)
                .and_then(|key| self.v6.table.find(&key))
                .map(|found| (Family::V6, found)),
        };
        let (family, found) = found.ok_or(Untracked::UnrelatedError)?;
        self.shared.events.count(Event::RelatedError);
        let state = match family {
            Family::V4 => self.v4.columns.state(self.v4.table.records_mut(), found.record),
            Family::V6 => self.v6.columns.state(self.v6.table.records_mut(), found.record),
        };
        let direction = found.direction.reversed();
        let serial = match family {
            Family::V4 => self.v4.flow(found.record).serial,
            Family::V6 => self.v6.flow(found.record).serial,
        };
        Ok(Tracked {
            family,
            record: found.record,
            serial,
            direction,
            state,
            is_new: false,
            is_related: true,
        })
    }
}

/// Finds or begins a packet's flow.
fn take<K: Key>(
    flows: &mut Flows<K>,
    tuple: &FiveTuple,
    zone: u16,
    arrival: &Arrival<'_>,
    shared: &mut Shared,
    anomalies: &mut Tally<Anomaly>,
    sink: &mut impl Sink,
) -> Result<Tracked, Untracked> {
    let key = K::of_tuple(tuple, zone).ok_or(Untracked::MalformedIp)?;
    let mut found = flows.table.find(&key).map(|found| (found.record, found.direction));
    let is_over = |record| flows.columns.is_over(flows.table.records(), record, arrival.now, &shared.config);
    if let Some((record, _)) = found.filter(|(record, _)| is_over(*record)) {
        flows.end(record, EndCause::TimedOut, shared, sink);
        found = None;
    }
    let now_ns = u64::try_from(arrival.now.as_nanos()).unwrap_or(u64::MAX);
    let (record, direction, is_new) = match &arrival.transport {
        Transport::Tcp(segment, payload) => {
            let judged = Judged { segment, now: arrival.now, now_ns };
            let taken = tcp(flows, &key, found, &judged, shared, anomalies, sink)?;
            reassemble(flows, taken.0, taken.1, segment, payload, shared, sink);
            taken
        }
        Transport::Other => {
            let (record, direction, is_new) = match found {
                Some((record, direction)) => (record, direction, false),
                None => (flows.begin(&key, now_ns, shared, sink)?, Direction::Forward, true),
            };
            let flow = &mut flows.table.column_mut(flows.columns.flow)[record];
            flow.simple = flow.simple.after(direction, tuple.protocol, arrival.l4);
            (record, direction, is_new)
        }
    };
    flows.count(record, direction, arrival.bytes, now_ns);
    let state = flows.columns.state(flows.table.records(), record);
    let serial = flows.flow(record).serial;
    Ok(Tracked { family: arrival.family, record, serial, direction, state, is_new, is_related: false })
}

/// A segment and when it came.
struct Judged<'a> {
    segment: &'a Segment,
    now: Duration,
    now_ns: u64,
}

/// Judges a segment, and begins its flow if it may.
fn tcp<K: Key>(
    flows: &mut Flows<K>,
    key: &K,
    mut found: Option<(Record, Direction)>,
    judged: &Judged<'_>,
    shared: &mut Shared,
    anomalies: &mut Tally<Anomaly>,
    sink: &mut impl Sink,
) -> Result<(Record, Direction, bool), Untracked> {
    let Judged { segment, now, now_ns } = *judged;
    let config = shared.config.tcp;
    let (mut fresh, mut first) = (Connection::default(), Direction::Forward);
    if let Some((record, direction)) = found {
        let connection = flows.connection_mut(record);
        let outcome = connection.segment(direction, segment, now, &config);
        if outcome.verdict == Verdict::Replaced {
            (fresh, first) = connection.successor(direction, segment);
            flows.end(record, EndCause::Replaced, shared, sink);
            found = None;
        } else {
            let serial = flows.flow(record).serial;
            for anomaly in outcome.anomalies.iter() {
                anomalies.count(anomaly);
                sink.anomaly(serial, anomaly);
            }
            if !outcome.is_accepted() {
                return Err(Untracked::Segment);
            }
            return Ok((record, direction, false));
        }
    }
    let outcome = fresh.segment(first, segment, now, &config);
    if !outcome.is_accepted() {
        outcome.anomalies.iter().for_each(|anomaly| anomalies.count(anomaly));
        return Err(Untracked::Segment);
    }
    debug_assert!(found.is_none(), "a flow that exists was judged above");
    let key = if first == Direction::Forward { *key } else { key.reversed() };
    let record = flows.begin(&key, now_ns, shared, sink)?;
    *flows.connection_mut(record) = fresh;
    let serial = flows.flow(record).serial;
    for anomaly in outcome.anomalies.iter() {
        anomalies.count(anomaly);
        sink.anomaly(serial, anomaly);
    }
    Ok((record, first, true))
}

/// Puts an accepted segment's data in order.
fn reassemble<K: Key>(
    flows: &mut Flows<K>,
    record: Record,
    direction: Direction,
    segment: &Segment,
    payload: &[u8],
    shared: &mut Shared,
    sink: &mut impl Sink,
) {
    let Some(reassembler) = &mut shared.reassembler else { return };
    let columns = flows.columns;
    let records = flows.table.records_mut();
    let connection = &records.column(columns.connection)[record];
    let is_reset = connection.state() == crate::tcp::State::Reset;
    let (first, acked) =
        (connection.first_sequence(direction), connection.acknowledged(direction.reversed()));
    let serial = records.column(columns.flow)[record].serial;
    let streams = &mut records.column_mut(columns.streams)[record];
    if !payload.is_empty() && !is_reset {
        let stream = &mut streams[direction.index()];
        if let Some(first) = first.filter(|_| !stream.is_started()) {
            *stream = Stream::starting_at(first);
        }
        let sequence = segment.data_sequence();
        reassembler.segment(stream, sequence, payload, &mut |chunk| sink.chunk(serial, direction, chunk));
    }
    if let Some(acked) = acked {
        let other = direction.reversed();
        let stream = &mut streams[other.index()];
        reassembler.acknowledged(stream, acked, &mut |chunk| sink.chunk(serial, other, chunk));
    }
    if is_reset {
        flows.finish_if_over(record, shared, sink);
    }
}
