//! One packet and its flow.

use super::expected::expected;
use super::family::{Flows, Shared, nanoseconds};
use super::key::Key;
use super::outcome::{EndCause, Sink, Tracked, Untracked};
use super::packet::Transport;
use super::process::Family;
use super::record::{State, TcpFlow, seen_from};
use crate::named::EventSet;
use crate::reassembly::{Reassembler, Stream};
use crate::tcp::{self, Anomaly, Connection, Segment, Verdict};
use scalebricks_tables::dhash::{Direction, FlowHash, Found, Record};
use scalebricks_wire::transport::TcpFlags;
use std::time::Duration;

/// A packet whose headers are right.
pub(super) struct Arrival<'a, K> {
    pub(super) key: K,
    /// Its place in the batch.
    pub(super) asked: Option<usize>,
    pub(super) transport: Transport<'a>,
    pub(super) l4: &'a [u8],
    pub(super) bytes: usize,
    pub(super) now: Duration,
    pub(super) family: Family,
}

/// A segment and when it came.
pub(super) struct Arrived<'a> {
    pub(super) segment: &'a Segment,
    pub(super) payload: &'a [u8],
    /// Octets of the packet.
    pub(super) bytes: usize,
    pub(super) now: Duration,
    pub(super) now_ns: u64,
}

/// Finds or begins a packet's flow.
#[inline]
pub(super) fn take<K: Key>(
    flows: &mut Flows<K>,
    arrival: &Arrival<'_, K>,
    shared: &mut Shared,
    sink: &mut impl Sink,
) -> Result<Tracked, Untracked> {
    let Arrival { key, asked, now, family, bytes, .. } = arrival;
    let now_ns = nanoseconds(*now);
    match &arrival.transport {
        Transport::Tcp(segment, payload) => {
            let arrived = Arrived { segment, payload, bytes: *bytes, now: *now, now_ns };
            let found = flows.find(|| *key, *asked);
            if let Some(found) = found
                && let Some(tracked) = expected(flows, found, *family, &arrived, shared, sink)
            {
                return Ok(tracked);
            }
            judge(flows, (key, *asked), found, *family, &arrived, shared, sink)
        }
        Transport::Other => {
            let hash = flows.hash(key, *asked);
            let found = flows.find(|| *key, *asked);
            let (record, direction, is_new) = match flows.current(found, now_ns, shared, sink) {
                Some((record, direction)) => (record, direction, false),
                None => (flows.begin(key, hash, now_ns, shared, sink)?, Direction::Forward, true),
            };
            let state = State::Simple(flows.flow(record).simple.after(direction, key.protocol(), arrival.l4));
            let serial = flows.count(record, direction, *bytes, now_ns, (state, false));
            Ok(Tracked { family: *family, record, serial, direction, state, is_new, is_related: false })
        }
    }
}

/// A segment that was not expected, with this key and place in the batch.
#[inline(never)]
pub(super) fn judge<K: Key>(
    flows: &mut Flows<K>,
    (key, asked): (&K, Option<usize>),
    found: Option<Found>,
    family: Family,
    arrived: &Arrived<'_>,
    shared: &mut Shared,
    sink: &mut impl Sink,
) -> Result<Tracked, Untracked> {
    let hash = flows.hash(key, asked);
    let found = flows.current(found, arrived.now_ns, shared, sink);
    let (record, direction, is_new) = tcp(flows, (key, hash), found, arrived, shared, sink)?;
    let connection = &flows.tcp(record).connection;
    let (state, is_picked_up) = (State::Tcp(connection.state()), connection.is_picked_up());
    let serial = flows.count(record, direction, arrived.bytes, arrived.now_ns, (state, is_picked_up));
    Ok(Tracked { family, record, serial, direction, state, is_new, is_related: false })
}

/// Judges a segment, begins its flow if it may, and takes its data.
fn tcp<K: Key>(
    flows: &mut Flows<K>,
    (key, hash): (&K, FlowHash),
    found: Option<(Record, Direction)>,
    arrived: &Arrived<'_>,
    shared: &mut Shared,
    sink: &mut impl Sink,
) -> Result<(Record, Direction, bool), Untracked> {
    let Arrived { segment, now, now_ns, .. } = *arrived;
    let (mut fresh, mut first) = (Connection::default(), Direction::Forward);
    if let Some((record, direction)) = found {
        let connection = &mut flows.tcp_mut(record).connection;
        let outcome = connection.segment(direction, segment, now, &shared.config.tcp);
        if outcome.verdict == Verdict::Replaced {
            (fresh, first) = connection.successor(direction, segment);
            flows.end(record, EndCause::Replaced, shared, sink);
        } else {
            note(outcome.anomalies, flows.flow(record).serial, shared, sink);
            if !outcome.is_accepted() {
                return Err(Untracked::Segment);
            }
            data(flows, record, direction, arrived, shared, sink);
            return Ok((record, direction, false));
        }
    }
    let outcome = fresh.segment(first, segment, now, &shared.config.tcp);
    if !outcome.is_accepted() {
        outcome.anomalies.iter().for_each(|anomaly| shared.anomalies.count(anomaly));
        return Err(Untracked::Segment);
    }
    let key = if first == Direction::Forward { *key } else { key.reversed() };
    let record = flows.begin(&key, hash, now_ns, shared, sink)?;
    flows.tcp_mut(record).connection = fresh;
    note(outcome.anomalies, flows.flow(record).serial, shared, sink);
    data(flows, record, first, arrived, shared, sink);
    Ok((record, first, true))
}

#[inline]
fn note(anomalies: EventSet<Anomaly>, serial: u64, shared: &mut Shared, sink: &mut impl Sink) {
    if anomalies.is_empty() {
        return;
    }
    for anomaly in anomalies.iter() {
        shared.anomalies.count(anomaly);
        sink.anomaly(serial, anomaly);
    }
}

/// Hands an accepted segment on, and puts its data in order.
fn data<K: Key>(
    flows: &mut Flows<K>,
    record: Record,
    direction: Direction,
    arrived: &Arrived<'_>,
    shared: &mut Shared,
    sink: &mut impl Sink,
) {
    let serial = flows.flow(record).serial;
    sink.segment(serial, direction, arrived.segment, arrived.payload);
    let Some(reassembler) = &mut shared.reassembler else { return };
    let tcp = flows.tcp_mut(record);
    if arrived.segment.has(TcpFlags::RST) {
        // What follows a reset's header is no data of the stream (RFC 9293 §3.10.7.4).
        if tcp.connection.state() == tcp::State::Reset {
            shared.finish(serial, &mut tcp.streams, sink);
        }
        return;
    }
    let TcpFlow { connection, streams, .. } = tcp;
    let (own, other) = seen_from(direction, streams);
    if !arrived.payload.is_empty() {
        deliver(reassembler, own, connection, direction, arrived, &mut |chunk| {
            sink.chunk(serial, direction, chunk);
        });
    }
    let back = direction.reversed();
    if let Some(acked) = connection.acknowledged(back) {
        reassembler.acknowledged(other, acked, &mut |chunk| sink.chunk(serial, back, chunk));
    }
}

/// Gives a segment's data to its stream, which starts where the connection does.
fn deliver(
    reassembler: &mut Reassembler,
    stream: &mut Stream,
    connection: &Connection,
    direction: Direction,
    arrived: &Arrived<'_>,
    sink: &mut impl FnMut(crate::reassembly::Chunk<'_>),
) {
    if !stream.is_started()
        && let Some(first) = connection.first_sequence(direction)
    {
        *stream = Stream::starting_at(first);
    }
    reassembler.segment(stream, arrived.segment.data_sequence(), arrived.payload, sink);
}
