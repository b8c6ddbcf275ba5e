//! The flows of one IP version.

use super::age::Ages;
use super::key::Key;
use super::outcome::{EndCause, Ended, Event, Sink};
use super::record::{Flow, State, TcpFlow};
use super::{Config, Untracked};
use crate::named::Tally;
use crate::reassembly::{Reassembler, Stream};
use crate::simple;
use crate::tcp::Anomaly;
use scalebricks_tables::dhash::{
    self, Column, ConfigError, DHash, Direction, Found, Record, Records, StartedRecords,
};
use scalebricks_types::HashSeed;
use std::time::Duration;

/// The arrays of the tracker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    flow: Column<Flow>,
    tcp: Column<TcpFlow>,
}

/// What all families share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
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
    columns: Columns,
    /// Young flows, and some that are not young any more, or gone.
    ages: Ages<K>,
    pub(super) young: usize,
    /// Changes when records of flows may change.
    generation: u64,
    /// A batch: keys, what was found, and the generation then.
    keys: Vec<K>,
    found: Vec<Option<Found>>,
    found_in: u64,
}

impl Shared {
    /// Whether a flow's time is over.
    #[inline]
    fn is_over(&self, flow: &Flow, now: Duration) -> bool {
        let lifetime = match flow.state() {
            State::Tcp(state) => self.config.tcp.timeouts.of(state),
            State::Simple(state) => self.config.simple.of(flow.protocol, state),
        };
        now.saturating_sub(Duration::from_nanos(flow.last_ns)) > lifetime
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
        let flow = &records.column(columns.flow)[record];
        let seconds = |ns| Duration::from_nanos(ns).as_secs();
        let (since_s, had_packets) = match u64::from(flow.reported_s) {
            0 => (seconds(flow.first_ns), true),
            last => (last, seconds(flow.last_ns) > last),
        };
        if !had_packets || now.as_secs() < since_s.saturating_add(timeout.as_secs().max(1)) {
            return;
        }
        records.column_mut(columns.flow)[record].reported_s = now.as_secs() as u32; // wraps in 2106
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
        Ok(Self {
            table: DHash::new(&dhash::Config::growing(first, most, secret), records)?,
            columns,
            ages: Ages::new(),
            young: 0,
            generation: 0,
            keys: Vec::new(),
            found: Vec::new(),
            found_in: 0,
        })
    }

    /// Adds a key to the batch; returns its place.
    pub(super) fn ask(&mut self, key: K) -> usize {
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// Looks up the keys of the batch, and fetches what their packets need.
    pub(super) fn look_up(&mut self) {
        self.found.clear();
        self.found.resize(self.keys.len(), None);
        self.table.find_batch(&self.keys, &mut self.found);
        self.found_in = self.generation;
        let (flows, tcp) = (self.table.column(self.columns.flow), self.table.column(self.columns.tcp));
        for found in self.found.iter().flatten() {
            flows.prefetch(found.record);
            tcp.prefetch(found.record);
        }
    }

    /// The batch is over.
    pub(super) fn forget_batch(&mut self) {
        self.keys.clear();
        self.found.clear();
    }

    /// The flow of a packet: from the batch, unless flows have begun or ended since. A flow whose time is over ends.
    pub(super) fn find(
        &mut self,
        key: &K,
        asked: Option<usize>,
        now: Duration,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> Option<(Record, Direction)> {
        let known = asked.filter(|_| self.found_in == self.generation);
        let found = match known.and_then(|at| self.found.get(at)) {
            Some(found) => *found,
            None => self.table.find(key),
        };
        let Found { record, direction } = found?;
        if shared.is_over(self.flow(record), now) {
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
        self.generation += 1;
        self.table.delete(record);
    }

    /// Adds a flow that is not there. Young flows go where there is no room.
    pub(super) fn begin(
        &mut self,
        key: &K,
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
        self.generation += 1;
        let added = self.table.find_or_add(key).map_err(|_| Untracked::TableFull)?;
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
        let stats = self.table.sweep(budget, |swept| {
            let cause = match now {
                Some(now) if !shared.is_over(&swept.records.column(columns.flow)[swept.record], now) => {
                    shared.report(columns, swept.records, (swept.record, swept.key), now, sink);
                    return true;
                }
                Some(_) => EndCause::TimedOut,
                None => EndCause::InputEnded,
            };
            let was_young = shared.end(columns, swept.records, (swept.record, swept.key), cause, sink);
            *young -= usize::from(was_young);
            false
        });
        self.generation += u64::from(stats.removed > 0);
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
