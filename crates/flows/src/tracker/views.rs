//! What a tracker knows.

use super::key::Key;
use super::outcome::{EndCause, Event, Tracked, Untracked};
use super::process::{Family, Inner, Tracker};
use super::record::Flow;
use crate::fragments::Defragmenter;
use crate::named::Tally;
use crate::reassembly::{Reassembler, Stream};
use crate::tcp::{Anomaly, Connection};
use scalebricks_tables::dhash::{DHash, Key4, Key6};
use scalebricks_types::FiveTuple;

impl Tracker {
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
        &self.inner.shared.anomalies
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

    /// The ends of a flow, as in its first packet; `None` if it has ended.
    pub fn tuple(&self, tracked: &Tracked) -> Option<FiveTuple> {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => v4.table.key(tracked.record).map(Key::tuple),
            Family::V6 => v6.table.key(tracked.record).map(Key::tuple),
        }
    }

    /// The connection of a TCP flow; a default one of other flows.
    pub fn connection(&self, tracked: &Tracked) -> &Connection {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => &v4.tcp(tracked.record).connection,
            Family::V6 => &v6.tcp(tracked.record).connection,
        }
    }

    /// The streams of a TCP flow by direction; those of other flows are empty.
    pub fn streams(&self, tracked: &Tracked) -> &[Stream; 2] {
        let Inner { v4, v6, .. } = &self.inner;
        match tracked.family {
            Family::V4 => &v4.tcp(tracked.record).streams,
            Family::V6 => &v6.tcp(tracked.record).streams,
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
