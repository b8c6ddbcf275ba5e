//! Counters about the counts of flows that left a node, declared once: metrics and tables use this list.

use super::stats::Kind;
use scalebricks_elements::gateway::FlowCount;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Counters about the counts of flows that left a node, since its process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MovedCountersView)]
pub struct MovedCounters {
    /// Of flows that ended after they left this node or their counters came here.
    pub ended: FlowSums,
    /// Of flows whose counters were on their way to a process that ended; at most.
    pub lost: FlowSums,
    /// Flows whose counters went to another node; each time.
    pub sent_flows: u64,
    /// Flows whose counters came from another node; each time.
    pub received_flows: u64,
    /// Flows whose counters wait here.
    pub waiting_flows: u64,
    /// Flows whose counters are on their way to another node.
    pub under_way_flows: u64,
    /// Messages with counters that were sent again.
    pub resent_parcels: u64,
    /// Messages with counters that came again and were ignored.
    pub duplicate_parcels: u64,
    /// Messages with counters that were refused for lack of room; they are repeated.
    pub refused_parcels: u64,
}

/// Sums over flows, in packets and bytes of inner IP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowSums {
    /// Number of flows; one that ended several times counts as often.
    pub flows: u64,
    /// Packets to UEs.
    pub downstream_packets: u64,
    /// Their bytes.
    pub downstream_bytes: u64,
    /// Packets from UEs.
    pub upstream_packets: u64,
    /// Their bytes.
    pub upstream_bytes: u64,
}

impl FlowSums {
    /// The sums of so many flows.
    pub const fn of(flows: u64, count: FlowCount) -> Self {
        let FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes } = count;
        Self { flows, downstream_packets, downstream_bytes, upstream_packets, upstream_bytes }
    }

    /// The counts.
    pub const fn count(&self) -> FlowCount {
        let Self { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes, .. } = *self;
        FlowCount { downstream_packets, downstream_bytes, upstream_packets, upstream_bytes }
    }

    /// Adds the counts of a flow.
    pub fn add(&mut self, count: FlowCount) {
        *self = Self::of(self.flows + 1, [self.count(), count].into_iter().sum());
    }
}

/// A metric, with the series of one or several counters.
#[derive(Debug, PartialEq, Eq)]
pub struct MovedMetric {
    /// Its name, without prefix and suffix.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
}

/// One field of [`MovedCounters`].
#[derive(Debug)]
pub struct MovedCounter {
    /// The metric that it is part of, and its label.
    pub series: Option<(&'static MovedMetric, Option<(&'static str, &'static str)>)>,
    /// Its name in tables for people, if it is shown there.
    pub row: Option<&'static str>,
    /// Its value.
    pub value: fn(&MovedCounters) -> u64,
}

const fn metric(name: &'static str, help: &'static str) -> MovedMetric {
    MovedMetric { name, help, kind: Kind::Counter }
}

const ENDED_FLOWS: MovedMetric = metric("ended_flows", "Flows that ended and were counted here last.");
const ENDED_PACKETS: MovedMetric =
    metric("ended_flow_packets", "Packets of flows that ended, wherever they were counted.");
const ENDED_BYTES: MovedMetric = metric("ended_flow_bytes", "Bytes of inner IP of such packets.");
const LOST_PACKETS: MovedMetric =
    metric("lost_flow_packets", "Packets whose counts were under way to a process that ended, at most.");
const LOST_BYTES: MovedMetric = metric("lost_flow_bytes", "Bytes of inner IP of such packets.");
const MOVED: MovedMetric = metric("moved_flow_counters", "Flows whose counters moved from or to this node.");
const PENDING: MovedMetric = MovedMetric {
    name: "pending_flow_counters",
    help: "Flows whose counters are to go to another node.",
    kind: Kind::Gauge,
};
const PARCELS: MovedMetric =
    metric("flow_counter_parcels", "Messages with counters that went not as wanted.");

macro_rules! counters {
    (@series -) => { None };
    (@series $metric:ident) => { Some((&$metric, None)) };
    (@series $metric:ident $label:ident = $value:literal) => { Some((&$metric, Some((stringify!($label), $value)))) };
    (@row) => { None };
    (@row $row:literal) => { Some($row) };
    ($($($field:ident).+: [$($series:tt)+] $($row:literal)?;)+) => {
        /// All counters, those of one metric side by side.
        pub const MOVED_COUNTERS: &[MovedCounter] = &[$(MovedCounter {
            series: counters!(@series $($series)+),
            row: counters!(@row $($row)?),
            value: |moved| moved.$($field).+,
        },)+];
    };
}

counters! {
    ended.flows: [ENDED_FLOWS] "flows ended";
    ended.downstream_packets: [ENDED_PACKETS direction = "downstream"] "their packets down";
    ended.upstream_packets: [ENDED_PACKETS direction = "upstream"] "their packets up";
    ended.downstream_bytes: [ENDED_BYTES direction = "downstream"];
    ended.upstream_bytes: [ENDED_BYTES direction = "upstream"];
    lost.downstream_packets: [LOST_PACKETS direction = "downstream"];
    lost.upstream_packets: [LOST_PACKETS direction = "upstream"];
    lost.downstream_bytes: [LOST_BYTES direction = "downstream"];
    lost.upstream_bytes: [LOST_BYTES direction = "upstream"];
    sent_flows: [MOVED direction = "out"] "counters of flows out";
    received_flows: [MOVED direction = "in"] "counters of flows in";
    waiting_flows: [PENDING state = "waiting"];
    under_way_flows: [PENDING state = "under-way"];
    resent_parcels: [PARCELS event = "resent"];
    duplicate_parcels: [PARCELS event = "duplicate"];
    refused_parcels: [PARCELS event = "refused"];
    lost.flows: [-] "counters lost, at most";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_field() {
        // Numbers every field, as JSON has them.
        let mut next = 0;
        let mut json = serde_json::to_value(MovedCounters::default()).unwrap();
        let fields = json.as_object_mut().unwrap().values_mut();
        for value in fields.flat_map(|value| match value {
            serde_json::Value::Object(sums) => sums.values_mut().collect::<Vec<_>>(),
            value => vec![value],
        }) {
            next += 1;
            *value = next.into();
        }
        let moved: MovedCounters = serde_json::from_value(json).unwrap();
        let mut listed: Vec<u64> = MOVED_COUNTERS.iter().map(|counter| (counter.value)(&moved)).collect();
        listed.sort_unstable();
        assert_eq!(listed, (1..=next).collect::<Vec<u64>>());
    }
}
