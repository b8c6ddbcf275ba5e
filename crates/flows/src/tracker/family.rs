//! The flows of one IP version.

use super::key::Key;
use super::outcome::{EndCause, Ended, Event, Sink};
use super::record::{Flow, State};
use super::{Config, Untracked};
use crate::named::Tally;
use crate::reassembly::{Reassembler, Stream};
use crate::tcp::Connection;
use crate::{simple, tcp};
use scalebricks_tables::dhash::{self, Column, ConfigError, DHash, Record, Records, StartedRecords};
use scalebricks_types::HashSeed;
use scalebricks_wire::protocol;
use std::collections::VecDeque;
use std::time::Duration;

/// The arrays of the tracker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) flow: Column<Flow>,
    pub(super) connection: Column<Connection>,
    pub(super) streams: Column<[Stream; 2]>,
}

/// What all families share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) reassembler: Option<Reassembler>,
    pub(super) events: Tally<Event>,
    pub(super) ends: Tally<EndCause>,
    pub(super) serial: u64,
}

/// Flows of one IP version.
#[derive(Debug)]
pub(super) struct Flows<K> {
    pub(super) table: DHash<K>,
    pub(super) columns: Columns,
    /// Young flows in order of their first packets, by key and number. Some are not young any more, or gone.
    order: VecDeque<(K, u64)>,
    pub(super) young: usize,
}

impl Columns {
    /// The state of a flow.
    pub(super) fn state(self, records: &StartedRecords, record: Record) -> State {
        let flow = &records.column(self.flow)[record];
        if flow.protocol == protocol::TCP {
            State::Tcp(records.column(self.connection)[record].state())
        } else {
            State::Simple(flow.simple)
        }
    }

    /// Whether a flow's time is over.
    pub(super) fn is_over(
        self,
        records: &StartedRecords,
        record: Record,
        now: Duration,
        config: &Config,
    ) -> bool {
        let flow = &records.column(self.flow)[record];
        let lifetime = match self.state(records, record) {
            State::Tcp(state) => config.tcp.timeouts.of(state),
            State::Simple(state) => config.simple.of(flow.protocol, state),
        };
        now.saturating_sub(Duration::from_nanos(flow.last_ns)) > lifetime
    }
}

impl Shared {
    /// Takes leave of a flow that is about to be deleted. Returns whether it was young.
    pub(super) fn end<K: Key>(
        &mut self,
        columns: Columns,
        records: &mut StartedRecords,
        (record, key): (Record, &K),
        cause: EndCause,
        sink: &mut impl Sink,
    ) -> bool {
        let state = columns.state(records, record);
        let cause = cause.of(state);
        let flow = records.column(columns.flow)[record];
        let is_tcp = matches!(state, State::Tcp(_));
        if is_tcp && let Some(reassembler) = &mut self.reassembler {
            let [forward, reverse] = &mut records.column_mut(columns.streams)[record];
            for (direction, stream) in
                [(dhash::Direction::Forward, forward), (dhash::Direction::Reverse, reverse)]
            {
                reassembler.finish(stream, &mut |chunk| sink.chunk(flow.serial, direction, chunk));
            }
        }
        sink.ended(&Ended {
            tuple: key.tuple(),
            zone: key.zone(),
            flow: &flow,
            state,
            connection: is_tcp.then(|| &records.column(columns.connection)[record]),
            streams: is_tcp.then(|| &records.column(columns.streams)[record]),
            cause,
        });
        self.events.count(Event::Ended);
        self.ends.count(cause);
        flow.is_young
    }
}

impl<K: Key> Flows<K> {
    pub(super) fn new(config: &Config, secret: HashSeed, mut records: Records) -> Result<Self, ConfigError> {
        let columns =
            Columns { flow: records.reserve(), connection: records.reserve(), streams: records.reserve() };
        let most = config.flows.max(1);
        let first = if config.grows { most.min(1_000) } else { most };
        let table = DHash::new(&dhash::Config::growing(first, most, secret), records)?;
        Ok(Self { table, columns, order: VecDeque::new(), young: 0 })
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
        now_ns: u64,
        shared: &mut Shared,
        sink: &mut impl Sink,
    ) -> Result<Record, Untracked> {
        let (most, most_young) = (shared.config.flows as usize, shared.config.young_flows as usize);
        while self.young >= most_young.max(1) || self.table.len() >= most {
            if !self.evict(shared, sink) {
                break;
            }
        }
        if self.table.len() >= most {
            return Err(Untracked::TableFull);
        }
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
        self.order.push_back((*key, flow.serial));
        // Each call adds one entry, and removes some that are not young any more: so there are at most about twice as many
        // as young flows.
        if self.order.len() > 2 * self.young + 64 {
            self.trim();
        }
        Ok(added.record)
    }

    /// Removes entries of flows that are not young any more from the front.
    fn trim(&mut self) {
        for _ in 0..4 {
            let Some((key, serial)) = self.order.pop_front() else { return };
            if self.young_record(&key, serial).is_some() {
                self.order.push_back((key, serial));
            }
        }
    }

    fn young_record(&self, key: &K, serial: u64) -> Option<Record> {
        let record = self.table.find(key)?.record;
        let flow = &self.table.column(self.columns.flow)[record];
        (flow.serial == serial && flow.is_young).then_some(record)
    }

    /// Ends the oldest young flow. Returns whether there was one.
    fn evict(&mut self, shared: &mut Shared, sink: &mut impl Sink) -> bool {
        while let Some((key, serial)) = self.order.pop_front() {
            if let Some(record) = self.young_record(&key, serial) {
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
    ) -> bool {
        let (columns, young) = (self.columns, &mut self.young);
        let stats = self.table.sweep(budget, |swept| {
            let cause = match now {
                Some(now) if !columns.is_over(swept.records, swept.record, now, &shared.config) => {
                    return true;
                }
                Some(_) => EndCause::TimedOut,
                None => EndCause::InputEnded,
            };
            let was_young = shared.end(columns, swept.records, (swept.record, swept.key), cause, sink);
            *young -= usize::from(was_young);
            false
        });
        stats.is_round_complete
    }

    /// Counts a packet, and the flow grows up if it may.
    pub(super) fn count(&mut self, record: Record, direction: dhash::Direction, bytes: usize, now_ns: u64) {
        let records = self.table.records_mut();
        let is_grown = match self.columns.state(records, record) {
            State::Tcp(state) => {
                let packets = records.column(self.columns.flow)[record].packets;
                !state.is_half_open()
                    && (!records.column(self.columns.connection)[record].is_picked_up()
                        || packets[direction.reversed().index()] > 0)
            }
            State::Simple(state) => state != simple::State::OneWay,
        };
        let flow = &mut records.column_mut(self.columns.flow)[record];
        flow.last_ns = flow.last_ns.max(now_ns);
        flow.packets[direction.index()] += 1;
        flow.bytes[direction.index()] += bytes as u64;
        if flow.is_young && is_grown {
            flow.is_young = false;
            self.young -= 1;
        }
    }

    /// What every flow has.
    #[inline]
    pub(super) fn flow(&self, record: Record) -> &Flow {
        &self.table.column(self.columns.flow)[record]
    }

    /// The connection of a flow.
    pub(super) fn connection_mut(&mut self, record: Record) -> &mut Connection {
        &mut self.table.column_mut(self.columns.connection)[record]
    }

    /// Whether the flow's reset or close came before data in flight: its streams may end.
    pub(super) fn finish_if_over(&mut self, record: Record, shared: &mut Shared, sink: &mut impl Sink) {
        let records = self.table.records_mut();
        if records.column(self.columns.connection)[record].state() != tcp::State::Reset {
            return;
        }
        let serial = records.column(self.columns.flow)[record].serial;
        let Some(reassembler) = &mut shared.reassembler else { return };
        let [forward, reverse] = &mut records.column_mut(self.columns.streams)[record];
        for (direction, stream) in
            [(dhash::Direction::Forward, forward), (dhash::Direction::Reverse, reverse)]
        {
            reassembler.finish(stream, &mut |chunk| sink.chunk(serial, direction, chunk));
        }
    }
}
