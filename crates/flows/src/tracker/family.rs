//! The flows of one IP version.

use super::age::Ages;
use super::batch::Batch;
use super::key::Key;
use super::outcome::{EndCause, Ended, Event, Sink};
use super::record::{Flow, State, TcpFlow};
use super::{Config, Untracked};
use crate::named::Tally;
use crate::reassembly::{Reassembler, Stream};
use crate::simple;
use crate::tcp::{self, Anomaly};
use scalebricks_tables::dhash::{
    self, Column, ConfigError, DHash, Direction, FlowHash, Found, Record, Records, StartedRecords,
};
use scalebricks_types::HashSeed;
use std::time::Duration;

/// The arrays of the tracker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) flow: Column<Flow>,
    pub(super) tcp: Column<TcpFlow>,
}

/// What all families share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    /// The lifetimes of connections by state, nanoseconds.
    lifetimes_ns: [u64; tcp::State::ALL.len()],
    /// Judge expected segments as all others; and segments that were expected.
    #[cfg(test)]
    pub(super) twin: (bool, u64),
    pub(super) reassembler: Option<Reassembler>,
    pub(super) events: Tally<Event>,
    pub(super) ends: Tally<EndCause>,
    pub(super) anomalies: Tally<Anomaly>,
    pub(super) serial: u64,
}

/// Flows of one IP version.
#[derive(Debug)]
pub(super) struct Flows<K> {
    pub(super) table: DHash<K>,
    pub(super) columns: Columns,
    /// Young flows, and some that are not young any more, or gone.
    ages: Ages<K>,
    pub(super) young: usize,
    pub(super) batch: Batch<K>,
}

/// Nanoseconds; a longer time than 584 years counts as 584 years.
#[inline(always)]
pub(super) const fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos() as u64)
}

impl Shared {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            config: *config,
            lifetimes_ns: tcp::State::ALL.map(|state| nanoseconds(config.tcp.timeouts.of(state))),
            #[cfg(test)]
            twin: (false, 0),
            reassembler: config.reassembly.map(Reassembler::new),
            events: Tally::default(),
            ends: Tally::default(),
            anomalies: Tally::default(),
            serial: 0,
        }
    }

    /// The lifetime of connections in this state, nanoseconds.
    #[inline(always)]
    pub(super) const fn lifetime_ns(&self, state: tcp::State) -> u64 {
        self.lifetimes_ns[state as usize]
    }

    /// Whether a flow's time is over.
    #[inline]
    fn is_over(&self, flow: &Flow, now_ns: u64) -> bool {
        let lifetime_ns = match flow.state() {
            State::Tcp(state) => self.lifetime_ns(state),
            State::Simple(state) => nanoseconds(self.config.simple.of(flow.protocol, state)),
        };
        now_ns.saturating_sub(flow.last_ns) > lifetime_ns
    }

    /// Reports a flow that lasts, if it is time to.
    fn report<K: Key>(
        &mut self,
        columns: Columns,
        records: &mut StartedRecords,
        (record, key): (Record, &K),
        now: Duration,
        sink: &mut impl Sink,
    ) {
        let Some(timeout) = self.config.active_timeout else { return };
        let now_s = now.as_secs();
        let flow = &records.column(columns.flow)[record];
        let seconds = |ns| Duration::from_nanos(ns).as_secs();
        let (since_s, had_packets) = match u64::from(flow.reported_s) {
            0 => (seconds(flow.first_ns), true),
            last => (last, seconds(flow.last_ns) > last),
        };
        if !had_packets || now_s < since_s.saturating_add(timeout.as_secs().max(1)) {
            return;
        }
        records.column_mut(columns.flow)[record].reported_s = now_s as u32; // wraps in 2106
        sink.active(&so_far(columns, records, (record, key), EndCause::ActiveTimeout));
        self.events.count(Event::Reported);
    }

    /// Delivers what waits in a flow's streams.
    pub(super) fn finish(&mut self, serial: u64, streams: &mut [Stream; 2], sink: &mut impl Sink) {
        let Some(reassembler) = &mut self.reassembler else { return };
        for (direction, stream) in [Direction::Forward, Direction::Reverse].into_iter().zip(streams) {
            reassembler.finish(stream, &mut |chunk| sink.chunk(serial, direction, chunk));
        }
    }

    /// Takes leave of a flow that is about to be deleted. Returns whether it was young.
    fn end<K: Key>(
        &mut self,
        columns: Columns,
        records: &mut StartedRecords,
        (record, key): (Record, &K),
        cause: EndCause,
        sink: &mut impl Sink,
    ) -> bool {
        let flow = records.column(columns.flow)[record];
        let state = flow.state();
        let cause = cause.of(state);
        let is_tcp = matches!(state, State::Tcp(_));
        if is_tcp {
            self.finish(flow.serial, &mut records.column_mut(columns.tcp)[record].streams, sink);
        }
        sink.released(key.tuple(), record, records);
        sink.ended(&so_far(columns, records, (record, key), cause));
        self.events.count(Event::Ended);
        self.ends.count(cause);
        flow.is_young
    }
}

impl<K: Key> Flows<K> {
    pub(super) fn new(config: &Config, secret: HashSeed, mut records: Records) -> Result<Self, ConfigError> {
        let columns = Columns { flow: records.reserve(), tcp: records.reserve() };
        let most = config.flows.max(1);
        let first = if config.grows { most.min(1_000) } else { most };
        let growing = dhash::Config::growing(first, most, secret);
        let table = dhash::Config { signature: config.signature, ..growing };
        Ok(Self {
            table: DHash::new(&table, records)?,
            columns,
            ages: Ages::new(),
            young: 0,
            batch: Batch::default(),
        })
    }

    /// The flow of a packet that was found, unless its time is over: then it ends.
    pub(super) fn current(
        &mut self,
        found: Option<Found>,
        now_ns: u64,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> Option<(Record, Direction)> {
        let Found { record, direction } = found?;
        if shared.is_over(self.flow(record), now_ns) {
            self.end(record, EndCause::TimedOut, shared, sink);
            return None;
        }
        Some((record, direction))
    }

    /// Ends and deletes a flow.
    pub(super) fn end(&mut self, record: Record, cause: EndCause, shared: &mut Shared, sink: &mut impl Sink) {
        let Some(key) = self.table.key(record).copied() else { return };
        let was_young = shared.end(self.columns, self.table.records_mut(), (record, &key), cause, sink);
        self.young -= usize::from(was_young);
        self.table.delete(record);
    }

    /// Adds a flow that is not there. Young flows go where there is no room.
    pub(super) fn begin(
        &mut self,
        key: &K,
        hash: FlowHash,
        now_ns: u64,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> Result<Record, Untracked> {
        if !sink.may_begin(&key.tuple(), key.zone()) {
            return Err(Untracked::NotAllowed);
        }
        let (most, most_young) = (shared.config.flows as usize, shared.config.young_flows as usize);
        while self.young >= most_young.max(1) || self.table.len() >= most {
            if !self.evict(shared, sink) {
                break;
            }
        }
        if self.table.len() >= most {
            return Err(Untracked::TableFull);
        }
        let added = self.table.find_or_add_hashed(key, hash).map_err(|_| Untracked::TableFull)?;
        shared.serial += 1;
        shared.events.count(Event::Began);
        let flow = Flow {
            first_ns: now_ns,
            last_ns: now_ns,
            serial: shared.serial,
            is_young: true,
            protocol: key.protocol(),
            ..Flow::default()
        };
        self.table.column_mut(self.columns.flow)[added.record] = flow;
        self.young += 1;
        self.ages.push(*key, flow.serial);
        if self.ages.len() > 2 * self.young + 64 {
            let (table, columns) = (&self.table, self.columns);
            self.ages.trim(|key, serial| young_record(table, columns, key, serial).is_some());
        }
        Ok(added.record)
    }

    /// Ends the oldest young flow. Returns whether there was one.
    fn evict(&mut self, shared: &mut Shared, sink: &mut impl Sink) -> bool {
        while let Some((key, serial)) = self.ages.pop() {
            if let Some(record) = young_record(&self.table, self.columns, &key, serial) {
                self.end(record, EndCause::Evicted, shared, sink);
                return true;
            }
        }
        false
    }

    /// Ends flows whose time is over, or all. Passes at most `budget` records.
    pub(super) fn sweep(
        &mut self,
        now: Option<Duration>,
        budget: usize,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) {
        let (columns, young) = (self.columns, &mut self.young);
        let (now_ns, reports) = (now.map_or(0, nanoseconds), shared.config.active_timeout.is_some());
        self.table.sweep(budget, |swept| {
            let cause = match now {
                Some(now) if !shared.is_over(&swept.records.column(columns.flow)[swept.record], now_ns) => {
                    if reports {
                        shared.report(columns, swept.records, (swept.record, swept.key), now, sink);
                    }
                    return true;
                }
                Some(_) => EndCause::TimedOut,
                None => EndCause::InputEnded,
            };
            let was_young = shared.end(columns, swept.records, (swept.record, swept.key), cause, sink);
            *young -= usize::from(was_young);
            false
        });
    }

    /// What every flow has.
    #[inline]
    pub(super) fn flow(&self, record: Record) -> &Flow {
        &self.table.column(self.columns.flow)[record]
    }

    /// The same, to write.
    #[inline]
    pub(super) fn flow_mut(&mut self, record: Record) -> &mut Flow {
        &mut self.table.column_mut(self.columns.flow)[record]
    }

    /// What a TCP flow has besides.
    #[inline]
    pub(super) fn tcp(&self, record: Record) -> &TcpFlow {
        &self.table.column(self.columns.tcp)[record]
    }

    /// The same, to write.
    #[inline]
    pub(super) fn tcp_mut(&mut self, record: Record) -> &mut TcpFlow {
        &mut self.table.column_mut(self.columns.tcp)[record]
    }

    /// What every flow has, and what a TCP flow has besides, to write.
    #[inline(always)]
    pub(super) fn both_mut(&mut self, record: Record) -> (&mut Flow, &mut TcpFlow) {
        let columns = (self.columns.flow, self.columns.tcp);
        let (flows, tcp) = self.table.records_mut().two_columns_mut(columns);
        (&mut flows[record], &mut tcp[record])
    }

    /// Counts a packet that has brought the flow into `state`; the flow grows up if it may. Returns its number.
    #[inline]
    pub(super) fn count(
        &mut self,
        record: Record,
        direction: Direction,
        bytes: usize,
        now_ns: u64,
        (state, is_picked_up): (State, bool),
    ) -> u64 {
        let flow = self.flow_mut(record);
        flow.last_ns = flow.last_ns.max(now_ns);
        flow.packets[direction.index()] += 1;
        flow.bytes[direction.index()] += bytes as u64;
        let is_grown = match state {
            State::Tcp(state) => {
                flow.tcp = state;
                let was_answered = flow.packets.iter().all(|packets| *packets > 0);
                !state.is_half_open() && (!is_picked_up || was_answered)
            }
            State::Simple(state) => {
                flow.simple = state;
                state != simple::State::OneWay
            }
        };
        let serial = flow.serial;
        if flow.is_young && is_grown {
            flow.is_young = false;
            self.young -= 1;
        }
        serial
    }
}

/// What a flow has.
fn so_far<'a, K: Key>(
    columns: Columns,
    records: &'a StartedRecords,
    (record, key): (Record, &K),
    cause: EndCause,
) -> Ended<'a> {
    let flow = &records.column(columns.flow)[record];
    let state = flow.state();
    let tcp = matches!(state, State::Tcp(_)).then(|| &records.column(columns.tcp)[record]);
    Ended {
        tuple: key.tuple(),
        zone: key.zone(),
        flow,
        state,
        connection: tcp.map(|tcp| &tcp.connection),
        streams: tcp.map(|tcp| &tcp.streams),
        cause,
    }
}

/// The record of a flow, if it is young.
fn young_record<K: Key>(table: &DHash<K>, columns: Columns, key: &K, serial: u64) -> Option<Record> {
    let record = table.find(key)?.record;
    let flow = &table.column(columns.flow)[record];
    (flow.serial == serial && flow.is_young).then_some(record)
}
